/* level_test.c: which of a kernel's functions runs: the one for the widest vectors that the
 * processor has, TENON_CPU allows, and the kernel was compiled for. SPDX-License-Identifier: MIT */
#include "runtime/backend.h"
#include "runtime/include/tenon.h"
#include "runtime/include/tenon_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void write_level(void *const *p, float level)
{
    ((float *)p[0])[0] = level;
}

static void base(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    (void)n, (void)lo, (void)hi;
    write_level(p, 1);
}

static void fast(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    (void)n, (void)lo, (void)hi;
    write_level(p, 3);
}

static void widest(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    (void)n, (void)lo, (void)hi;
    write_level(p, 4);
}

/* Three methods, each one launch of a kernel that is there for one, two or three levels. */
static const tn_kernel kernels[] = {
    {.name = "one", .where = "m.tn:1", .cpu = base, .nparams = 1, .lanes = 1, .teams = 1},
    {.name = "two",
     .where = "m.tn:2",
     .cpu = base,
     .fast = fast,
     .nparams = 1,
     .lanes = 1,
     .teams = 1},
    {.name = "three",
     .where = "m.tn:3",
     .cpu = base,
     .fast = fast,
     .widest = widest,
     .nparams = 1,
     .lanes = 1,
     .teams = 1}};
static const int64_t one_code[] = {TN_D_CONST, 1, TN_D_END};
static const int32_t one_dim[] = {0}, one_list[] = {0};
static const tn_buffer buffers[] = {
    {0}, {.name = "w", .kind = TN_BUF_STATE, .dtype = TN_F32, .rank = 1, .index = 1}};
static const tn_operand operands[] = {{1, -1}};
#define LAUNCH(number)                                                                             \
    {                                                                                              \
        {                                                                                          \
            .kind = TN_STEP_LAUNCH, .kernel = number, .nops = 1, .where = "m.tn:1"                 \
        }                                                                                          \
    }
static const tn_step steps[][1] = {LAUNCH(0), LAUNCH(1), LAUNCH(2)};
#define METHOD(text, number)                                                                       \
    {                                                                                              \
        .name = text, .method = text, .kind = TN_METHOD, .code = one_code, .dim_code = one_dim,    \
        .lists = one_list, .ndims = 1, .nbuffers = 2, .nsteps = 1, .buffers = buffers,             \
        .operands = operands, .steps = steps[number]                                               \
    }
static const tn_program programs[] = {METHOD("one", 0), METHOD("two", 1), METHOD("three", 2)};
static const tn_slot slots[] = {{0}, {"seg0", TN_SLOT_PARAM, TN_F32, 1, 1, 0, 0, 0}};
static const tn_state_view views[] = {{"w", NULL, 1, 0, TN_F32, 1, 1, 1, 1, {1}}};
static const tn_model_desc desc = {.abi = TN_ABI,
                                   .size = (int32_t)sizeof(tn_model_desc),
                                   .name = "m",
                                   .version = "0",
                                   .source = "m.tn",
                                   .nslots = 2,
                                   .nviews = 1,
                                   .nkernels = 3,
                                   .nprograms = 3,
                                   .slots = slots,
                                   .views = views,
                                   .kernels = kernels,
                                   .programs = programs};

static void check_levels(const char *asked, int allowed)
{
    static const int most[] = {1, 3, 4}; /* that each kernel was compiled for */
    tn_context *ctx;
    tn_model *m;
    tn_state_entry e;
    if (asked)
        setenv("TENON_CPU", asked, 1);
    else
        unsetenv("TENON_CPU");
    assert_int_equal(tn_context_create(NULL, &ctx), TN_OK);
    assert_int_equal(tn_model_create(ctx, &desc, NULL, &m), TN_OK);
    assert_int_equal(tn_model_state_find(m, "w", &e), TN_OK);
    for (int i = 0; i < 3; i++) {
        const int level = tn__cpu_level() < allowed ? tn__cpu_level() : allowed;
        assert_int_equal(tn_call(m, NULL, i, NULL, 0, NULL), TN_OK);
        assert_int_equal((int)((float *)e.tensor.data)[0], level < most[i] ? level : most[i]);
    }
    tn_model_destroy(m);
    tn_context_destroy(ctx);
}

static void test_levels(void **state)
{
    (void)state;
    check_levels(NULL, 4);
    check_levels("", 4);
    check_levels("x86-64-v4", 4);
    check_levels("x86-64-v3", 3);
    check_levels("x86-64", 1);
}

static void test_wrong_level(void **state)
{
    (void)state;
    tn_context *ctx;
    setenv("TENON_CPU", "pentium", 1);
    assert_int_equal(tn_context_create(NULL, &ctx), TN_INVALID);
    assert_null(ctx);
    assert_string_equal(tn_last_error(),
                        "TENON_CPU is 'pentium': expected x86-64, x86-64-v3 or x86-64-v4");
    unsetenv("TENON_CPU");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_levels),
                                       cmocka_unit_test(test_wrong_level)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
