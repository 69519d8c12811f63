/* strip_test.c: a product by a packed parameter with a kernel behind it, block by block: the same
 * bits for any number of threads, no memory for what passes between them, and copies of the
 * parameter that follow its changes. Tables written by hand. SPDX-License-Identifier: MIT */
#include "runtime/include/tenon.h"
#include "runtime/include/tenon_program.h"
#include "runtime/rt.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { IN = 70, OUT = 40, MOST = 900 };

/* y[b, n] = 2 c[b, n] + 1: a cell is a row. */
static void behind(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    const float *c = p[0];
    float *y = p[1];
    (void)n;
    for (int64_t i = lo * OUT; i < hi * OUT; i++)
        y[i] = 2 * c[i] + 1;
}

enum { D_B, D_IN, D_OUT, D_0, D_1, NDIMS };
static const tn_symbol symbols[] = {{"B", 0, MOST, 1, 0, 0}};
static const int64_t code[] = {TN_D_SYM, 0,          TN_D_END,   TN_D_CONST, IN,
                               TN_D_END, TN_D_CONST, OUT,        TN_D_END,   TN_D_CONST,
                               0,        TN_D_END,   TN_D_CONST, 1,          TN_D_END};
static const int32_t dim_code[] = {0, 3, 6, 9, 12};
static const int32_t lists[] = {D_B, D_IN, D_B, D_OUT, D_OUT, D_IN};
static const tn_buffer buffers[] = {
    {0},
    {.name = "x", .kind = TN_BUF_ARG, .dtype = TN_F32, .rank = 2, .shape = 0, .index = 0},
    {.name = "y", .kind = TN_BUF_RESULT, .dtype = TN_F32, .rank = 2, .shape = 2, .index = 0},
    {.name = "w", .kind = TN_BUF_STATE, .dtype = TN_F32, .rank = 2, .shape = 4, .index = 1},
    {.name = "c",
     .kind = TN_BUF_TEMP,
     .dtype = TN_F32,
     .rank = 2,
     .shape = 2,
     .first = 1,
     .last = 0,
     .strip = 1},
};
static const tn_arg args[] = {{"x", 1, 0, 0, 0}, {"y", 2, 0, 0, 1}};
static const tn_operand operands[] = {{4, -1}, {2, -1}};
static const tn_gemm_step gemms[] = {{.m = D_B,
                                      .n = D_OUT,
                                      .k = D_IN,
                                      .batch0 = D_1,
                                      .batch1 = D_1,
                                      .a = {1, D_0, D_IN, D_1, D_0, D_0},
                                      .b = {3, D_0, D_1, D_IN, D_0, D_0},
                                      .c = {4, D_0, D_OUT, D_1, D_0, D_0}}};
static const tn_step steps[] = {
    {.kind = TN_STEP_GEMM, .kernel = 0, .where = "m.tn:1"},
    {.kind = TN_STEP_LAUNCH, .kernel = 0, .operands = 0, .nops = 2, .cells = D_B},
};
static const tn_strip strips[] = {{0, 2, 0, D_B}};
static const tn_program programs[] = {{.name = "forward",
                                       .method = "forward",
                                       .kind = TN_METHOD,
                                       .nsymbols = 1,
                                       .ndims = NDIMS,
                                       .nbuffers = 5,
                                       .nargs = 2,
                                       .nsteps = 2,
                                       .symbols = symbols,
                                       .code = code,
                                       .dim_code = dim_code,
                                       .lists = lists,
                                       .buffers = buffers,
                                       .args = args,
                                       .operands = operands,
                                       .gemms = gemms,
                                       .steps = steps,
                                       .nstrips = 1,
                                       .strips = strips}};
static const tn_kernel kernels[] = {
    {.name = "behind", .where = "m.tn:1", .cpu = behind, .nparams = 2, .cost = 6}};
static const tn_slot slots[] = {{0}, {"w", TN_SLOT_PARAM, TN_F32, 1, OUT *IN, 0, 0, 0}};
static const tn_state_view views[] = {{"w", NULL, 1, 0, TN_F32, 2, 1, 1, 1, {OUT, IN}}};
static const tn_model_desc desc = {.abi = TN_ABI,
                                   .size = (int32_t)sizeof(tn_model_desc),
                                   .name = "m",
                                   .version = "0",
                                   .source = "m.tn",
                                   .nslots = 2,
                                   .nviews = 1,
                                   .nkernels = 1,
                                   .nprograms = 1,
                                   .slots = slots,
                                   .views = views,
                                   .kernels = kernels,
                                   .programs = programs};

typedef struct {
    tn_context *ctx;
    tn_model *m;
    float *w; /* [OUT, IN] */
} World;

static World begin(int threads)
{
    World w;
    const tn_context_options o = {.size = sizeof o, .threads = threads};
    tn_state_entry e;
    assert_int_equal(tn_context_create(&o, &w.ctx), TN_OK);
    assert_int_equal(tn_model_create(w.ctx, &desc, NULL, &w.m), TN_OK);
    assert_int_equal(tn_model_state_find(w.m, "w", &e), TN_OK);
    w.w = e.tensor.data;
    for (int i = 0; i < OUT * IN; i++)
        w.w[i] = (float)((i * 29 + 3) % 41 - 20) / 16.0f;
    tn_model_state_changed(w.m);
    return w;
}

static size_t bytes_of(const World *w)
{
    return tn_memory_allocated(w->ctx, (DLDevice){kDLCPU, 0});
}

static void end(World *w)
{
    tn_model_destroy(w->m);
    assert_int_equal(bytes_of(w), 0);
    tn_context_destroy(w->ctx);
}

static float x[MOST * IN];

static void call(const World *w, int64_t rows, float *y)
{
    int64_t of_x[] = {rows, IN}, of_y[] = {rows, OUT};
    for (int i = 0; i < MOST * IN; i++)
        x[i] = (float)((i * 37 + 11) % 101 - 50) / 64.0f;
    const DLTensor xd = {x, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, of_x, NULL, 0};
    DLTensor yd = {y, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, of_y, NULL, 0};
    const DLTensor *of[] = {&xd, &yd};
    assert_int_equal(tn_call(w->m, NULL, 0, of, 2, NULL), TN_OK);
}

static void check(const World *w, int64_t rows, const float *y)
{
    for (int64_t b = 0; b < rows; b++)
        for (int n = 0; n < OUT; n++) {
            double sum = 0;
            for (int k = 0; k < IN; k++)
                sum += (double)x[b * IN + k] * (double)w->w[n * IN + k];
            assert_true(fabs((double)y[b * OUT + n] - (2 * sum + 1)) < 1e-3);
        }
}

static void test_threads(void **state)
{
    (void)state;
    static const int64_t rows[] = {0, 1, 3, 33, 260, MOST};
    static float first[MOST * OUT], y[MOST * OUT];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int threads = 1; threads < 6; threads += 2) {
            World w = begin(threads);
            call(&w, rows[i], threads == 1 ? first : y);
            check(&w, rows[i], threads == 1 ? first : y);
            if (threads > 1)
                assert_memory_equal(first, y, (size_t)rows[i] * OUT * sizeof *y);
            end(&w);
        }
}

static void test_changes(void **state)
{
    (void)state;
    static float y[MOST * OUT];
    World w = begin(1);
    const size_t before = bytes_of(&w);
    call(&w, MOST, y);
    check(&w, MOST, y);
    /* blocks, and the packed parameter: not all that passes between the steps */
    const size_t more = bytes_of(&w) - before;
    assert_in_range(more, OUT * IN * sizeof(float), MOST * OUT * sizeof(float) - 1);
    w.w[5] = 3;
    tn_model_state_changed(w.m);
    call(&w, MOST, y);
    check(&w, MOST, y);
    assert_int_equal(bytes_of(&w) - before, more);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
