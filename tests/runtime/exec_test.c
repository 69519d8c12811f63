/* exec_test.c: the executor on tables written by hand: binding of sizes, checks of arguments,
 * strided and allocated tensors, tapes, products. SPDX-License-Identifier: MIT */
#include "runtime/include/tenon.h"
#include "runtime/include/tenon_program.h"
#include "runtime/rt.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* y[B, 3] = w[0] * x[B, 3]; z[B, 2] = x[B, 3] m[3, 2]; backward: dx = w[0] * dy. */
static void scale(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    const float *x = p[0], *w = p[1];
    float *y = p[2];
    (void)n;
    for (int64_t i = lo; i < hi; i++)
        y[i] = w[0] * x[i];
}

static void bump(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    float *w = p[0];
    (void)n, (void)lo, (void)hi;
    w[0] += 1;
}

/* reports index 7 of an axis of 3 as a kernel does */
static void broken(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    int32_t *error = p[1];
    (void)n, (void)lo, (void)hi;
    error[0] = 1;
    error[1] = 7;
    error[2] = 3;
}

enum { D_B, D_3, D_0, D_3B, D_1, D_2, D_2B, NDIMS };
static const tn_symbol symbols[] = {{"B", 0, 100, 1, 0, 0}};
static const int64_t code[] = {
    TN_D_SYM,   0, TN_D_END,                        /* 0: B */
    TN_D_CONST, 3, TN_D_END,                        /* 3 */
    TN_D_CONST, 0, TN_D_END,                        /* 6 */
    TN_D_CONST, 3, TN_D_SYM, 0, TN_D_MUL, TN_D_END, /* 9 */
    TN_D_CONST, 1, TN_D_END,                        /* 15 */
    TN_D_CONST, 2, TN_D_END,                        /* 18 */
    TN_D_CONST, 2, TN_D_SYM, 0, TN_D_MUL, TN_D_END, /* 21 */
};
static const int32_t dim_code[] = {0, 3, 6, 9, 15, 18, 21};
static const int32_t lists[] = {D_B, D_3, /* [B, 3] */ D_B, D_2, /* [B, 2] */ D_3,
                                D_2 /* [3, 2] */};
static const tn_buffer forward_buffers[] = {
    {0},
    {"x", TN_BUF_ARG, TN_F32, 2, 0, 0, 0, 0, 0, 0, NULL, 0, 0},
    {"w", TN_BUF_STATE, TN_F32, 1, 0, 1, 0, 0, 0, 0, NULL, 0, 0},
    {"y", TN_BUF_RESULT, TN_F32, 2, 0, 0, 0, 0, 0, 0, NULL, 0, 0},
    {"t", TN_BUF_TEMP, TN_F32, 2, 0, 0, 0, 0, 0, 0, NULL, 0, 0},
    {"m", TN_BUF_ARG, TN_F32, 2, 4, 1, 0, 0, 0, 0, NULL, 0, 0},
    {"z", TN_BUF_RESULT, TN_F32, 2, 2, 1, 0, 0, 0, 0, NULL, 0, 0},
};
static const tn_operand operands[] = {{1, -1}, {2, -1}, {4, -1}, {3, -1}, {4, -1}, {2, -1}};
static const tn_gemm_step gemms[] = {
    {D_B,
     D_2,
     D_3,
     D_1,
     D_1,
     {1, D_0, D_3, D_1, D_0, D_0},
     {5, D_0, D_2, D_1, D_0, D_0},
     {6, D_0, D_2, D_1, D_0, D_0},
     {0, 0, 0, 0, 0, 0},
     {0, 0, 0, 0, 0, 0},
     0,
     0,
     {0, 0, 0, 0, 0, 0}},
};
static const tn_step forward_steps[] = {
    {TN_STEP_LAUNCH, 0, 0, 3, 0, 0, D_3B, {0, 0}, 0, "m.tn:1", NULL, 0},
    {TN_STEP_COPY, 0, 3, 2, 0, 0, 0, {0, 0}, 0, "m.tn:1", NULL, 0},
    {TN_STEP_GEMM, 0, 0, 0, 0, 0, 0, {0, 0}, 0, "m.tn:2", NULL, 0},
};
static const tn_arg forward_args[] = {
    {"x", 1, 0, 0, 0}, {"m", 5, 0, 0, 0}, {"y", 3, 0, 0, 1}, {"z", 6, 0, 0, 1}};
static const int32_t forward_tape[] = {1};
static const tn_buffer backward_buffers[] = {
    {0},
    {"dy", TN_BUF_ARG, TN_F32, 2, 0, 0, 0, 0, 0, 0, NULL, 0, 0},
    {"w", TN_BUF_STATE, TN_F32, 1, 0, 1, 0, 0, 0, 0, NULL, 0, 0},
    {"dx", TN_BUF_RESULT, TN_F32, 2, 0, 0, 0, 0, 0, 0, NULL, 0, 0},
    {"x", TN_BUF_TAPE, TN_F32, 2, 0, 0, 0, 0, 0, 0, NULL, 0, 0},
};
/* uses the saved x in place of dy: shows that the tape points to it */
static const tn_operand backward_operands[] = {{4, -1}, {2, -1}, {3, -1}};
static const tn_arg backward_args[] = {{"dy", 1, 0, 0, 0}, {"dx", 3, 0, 0, 1}};
static const tn_step backward_steps[] = {
    {TN_STEP_LAUNCH, 0, 0, 3, 0, 0, D_3B, {0, 0}, 0, "m.tn:1", NULL, 0},
};
/* programs without sizes */
static const int64_t one_code[] = {TN_D_CONST, 1, TN_D_END};
static const int32_t one_dim[] = {0}, one_list[] = {0};
static const tn_buffer update_buffers[] = {
    {0},
    {"w", TN_BUF_STATE, TN_F32, 1, 0, 1, 0, 0, 0, 0, NULL, 0, 0},
};
static const tn_operand update_operands[] = {{1, -1}};
static const tn_step update_steps[] = {
    {TN_STEP_LAUNCH, 1, 0, 1, 0, 0, 0, {0, 0}, 0, "m.tn:3", NULL, 0},
};
static const tn_step broken_steps[] = {
    {TN_STEP_LAUNCH, 2, 0, 1, 0, 0, 0, {0, 0}, 0, "m.tn:9", NULL, 0},
};
static const char *const broken_checks[] = {"m.tn:9"};
static const tn_kernel kernels[] = {
    {"scale", "m.tn:1", scale, 3, 0, 1, 1, 0, 0, 0, NULL, 0, NULL, 0, NULL, 0, 0},
    {"bump", "m.tn:3", bump, 1, 0, 1, 1, 0, 0, 0, NULL, 0, NULL, 0, NULL, 0, 0},
    {"broken", "m.tn:9", broken, 1, 0, 1, 1, 0, 0, 1, broken_checks, 0, NULL, 0, NULL, 0, 0}};
#define TABLES                                                                                     \
    .symbols = symbols, .code = code, .dim_code = dim_code, .lists = lists, .nsymbols = 1,         \
    .ndims = NDIMS
#define ONE .code = one_code, .dim_code = one_dim, .lists = one_list, .ndims = 1
#define FORWARD                                                                                    \
    .nbuffers = 7, .nargs = 4, .nsteps = 3, .buffers = forward_buffers, .args = forward_args,      \
    .operands = operands, .gemms = gemms, .steps = forward_steps
static const tn_program programs[] = {
    {.name = "forward", .method = "forward", .kind = TN_METHOD, TABLES, FORWARD},
    {.name = "forward_train",
     .method = "forward",
     .kind = TN_FORWARD_TRAIN,
     TABLES,
     FORWARD,
     .ntape = 1,
     .tape = forward_tape},
    {.name = "forward_backward",
     .method = "forward",
     .kind = TN_BACKWARD,
     TABLES,
     .nbuffers = 5,
     .nargs = 2,
     .nsteps = 1,
     .buffers = backward_buffers,
     .args = backward_args,
     .operands = backward_operands,
     .steps = backward_steps},
    {.name = "update",
     .method = "forward",
     .kind = TN_UPDATE,
     ONE,
     .nbuffers = 2,
     .nsteps = 1,
     .buffers = update_buffers,
     .operands = update_operands,
     .steps = update_steps},
    {.name = "broken",
     .method = "forward",
     .kind = TN_METHOD,
     ONE,
     .nbuffers = 2,
     .nsteps = 1,
     .buffers = update_buffers,
     .operands = update_operands,
     .steps = broken_steps},
};
static const tn_slot slots[] = {{0}, {"seg0", TN_SLOT_PARAM, TN_F32, 1, 1, 0, 0, 0}};
static const tn_state_view views[] = {{"w", NULL, 1, 0, TN_F32, 1, 1, 1, 1, {1}}};
static const tn_model_desc desc = {TN_ABI,  (int32_t)sizeof(tn_model_desc),
                                   "m",     "0",
                                   "m.tn",  2,
                                   1,       3,
                                   5,       0,
                                   slots,   views,
                                   kernels, programs,
                                   NULL,    NULL,
                                   NULL,    0,
                                   1,       0,
                                   NULL};

typedef struct {
    tn_context *ctx;
    tn_model *m;
} World;

static int begin(void **state)
{
    static World w;
    const tn_context_options o = {.size = sizeof o, .threads = 2};
    assert_int_equal(tn_context_create(&o, &w.ctx), TN_OK);
    assert_int_equal(tn_model_create(w.ctx, &desc, NULL, &w.m), TN_OK);
    tn_state_entry e;
    assert_int_equal(tn_model_state_find(w.m, "w", &e), TN_OK);
    ((float *)e.tensor.data)[0] = 2;
    *state = &w;
    return 0;
}

static int end(void **state)
{
    World *w = *state;
    tn_model_destroy(w->m);
    assert_int_equal(tn_memory_allocated(w->ctx, (DLDevice){kDLCPU, 0}), 0);
    tn_context_destroy(w->ctx);
    return 0;
}

static DLTensor f32(void *data, int64_t *shape)
{
    return (DLTensor){data, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, NULL, 0};
}

static tn_status forward(World *w, const DLTensor *x, DLTensor *y, DLTensor *z)
{
    static float m[] = {1, 0, 0, 1, 1, 1};
    static int64_t shape[] = {3, 2};
    const DLTensor md = f32(m, shape);
    const DLTensor *args[] = {x, &md, y, z};
    return tn_call(w->m, NULL, 0, args, 4, NULL);
}

static void test_call(void **state)
{
    float x[] = {1, 2, 3, 4, 5, 6}, y[6];
    int64_t shape[] = {2, 3};
    const DLTensor xd = f32(x, shape);
    DLTensor yd = f32(y, shape), zd = {0};
    assert_int_equal(forward(*state, &xd, &yd, &zd), TN_OK);
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == 2 * x[i]);
    const float want[] = {4, 5, 10, 11};
    assert_int_equal(zd.ndim, 2);
    assert_int_equal(zd.shape[0], 2);
    assert_int_equal(zd.shape[1], 2);
    assert_memory_equal(zd.data, want, sizeof want);
    tn_tensor_release(&zd);
    assert_null(zd.data);
}

static void test_strided(void **state)
{
    float x[] = {1, 4, 2, 5, 3, 6}, y[] = {0, 0, 0, 0, 0, 0, -1};
    int64_t shape[] = {2, 3}, strides[] = {1, 2};
    DLTensor xd = f32(x, shape), yd = f32(y, shape), zd = {0};
    xd.strides = strides;
    yd.strides = strides;
    assert_int_equal(forward(*state, &xd, &yd, &zd), TN_OK);
    for (int i = 0; i < 6; i++)
        assert_true(y[i] == 2 * x[i]);
    assert_true(y[6] == -1);
    assert_true(((float *)zd.data)[0] == 4);
    tn_tensor_release(&zd);
}

static void test_empty_batch(void **state)
{
    float x[1], y[1];
    int64_t shape[] = {0, 3};
    const DLTensor xd = f32(x, shape);
    DLTensor yd = f32(y, shape), zd = {0};
    assert_int_equal(forward(*state, &xd, &yd, &zd), TN_OK);
    assert_int_equal(zd.shape[0], 0);
    tn_tensor_release(&zd);
}

static void test_mistakes(void **state)
{
    World *w = *state;
    float x[6] = {0}, y[6];
    int64_t shape[] = {2, 3}, wrong[] = {2, 4}, large[] = {101, 3};
    DLTensor xd = f32(x, shape), yd = f32(y, shape), zd = {0}, bad = f32(x, wrong);
    assert_int_equal(forward(w, &bad, &yd, &zd), TN_SHAPE);
    assert_string_equal(tn_last_error(), "forward: axis 1 of 'x' is 4, expected 3");
    bad = f32(x, large);
    assert_int_equal(forward(w, &bad, &yd, &zd), TN_SHAPE);
    assert_string_equal(tn_last_error(),
                        "forward: axis 0 of 'x' is 101, which B cannot be (0 to 100)");
    bad = xd;
    bad.dtype.bits = 64;
    assert_int_equal(forward(w, &bad, &yd, &zd), TN_DTYPE);
    assert_string_equal(tn_last_error(), "forward: 'x' must be f32, but is f64");
    bad = xd;
    bad.device.device_type = kDLCUDA;
    assert_int_equal(forward(w, &bad, &yd, &zd), TN_DEVICE);
    bad = xd;
    bad.data = NULL;
    assert_int_equal(forward(w, &bad, &yd, &zd), TN_INVALID);
    assert_string_equal(tn_last_error(), "forward: 'x' has no data: it is NULL");
    bad = xd;
    bad.shape = NULL;
    assert_int_equal(forward(w, &bad, &yd, &zd), TN_INVALID);
    assert_string_equal(tn_last_error(), "forward: 'x' has no shape: it is NULL");
    bad = xd;
    bad.ndim = 1;
    assert_int_equal(forward(w, &bad, &yd, &zd), TN_SHAPE);
    assert_int_equal(forward(w, NULL, &yd, &zd), TN_INVALID);
    assert_string_equal(tn_last_error(), "forward: 'x' is missing");
    yd = f32(x + 1, shape);
    assert_int_equal(forward(w, &xd, &yd, &zd), TN_OVERLAP);
    assert_null(zd.data); /* nothing is left of a failed call */
    assert_int_equal(tn_call(w->m, NULL, 9, NULL, 0, NULL), TN_NOT_FOUND);
}

static void test_tape(void **state)
{
    World *w = *state;
    float x[] = {1, 2, 3}, m[] = {1, 0, 0, 1, 1, 1}, dy[] = {5, 5, 5};
    int64_t shape[] = {1, 3}, mshape[] = {3, 2};
    const DLTensor xd = f32(x, shape), md = f32(m, mshape), dyd = f32(dy, shape);
    DLTensor yd = {0}, zd = {0}, dxd = {0};
    const DLTensor *args[] = {&xd, &md, &yd, &zd}, *back[] = {&dyd, &dxd};
    tn_tape *tape = NULL, *late = NULL;
    assert_int_equal(tn_call(w->m, NULL, 1, args, 4, &tape), TN_OK);
    assert_non_null(tape);
    tn_tensor_release(&yd);
    tn_tensor_release(&zd);
    assert_int_equal(tn_call(w->m, NULL, 2, back, 2, &tape), TN_OK);
    assert_null(tape);
    for (int i = 0; i < 3; i++)
        assert_true(((float *)dxd.data)[i] == 2 * x[i]);
    tn_tensor_release(&dxd);

    assert_int_equal(tn_call(w->m, NULL, 2, back, 2, &tape), TN_INVALID);
    assert_int_equal(tn_call(w->m, NULL, 1, args, 4, &late), TN_OK);
    tn_tensor_release(&yd);
    tn_tensor_release(&zd);
    assert_int_equal(tn_call(w->m, NULL, 3, NULL, 0, NULL), TN_OK);
    assert_int_equal(tn_call(w->m, NULL, 2, back, 2, &late), TN_STATE);
    assert_string_equal(tn_last_error(),
                        "forward_backward: the parameters changed since the forward call");
    tn_tape_release(late);
}

static void test_index_error(void **state)
{
    World *w = *state;
    assert_int_equal(tn_call(w->m, NULL, 4, NULL, 0, NULL), TN_INDEX);
    assert_string_equal(tn_last_error(),
                        "m.tn:9: broken: index 7 is out of range: the axis has 3 elements");
    assert_int_equal(tn_call(w->m, NULL, 3, NULL, 0, NULL), TN_OK); /* and goes on */
}

static void test_plans(void **state)
{
    World *w = *state;
    float x[300], y[300];
    memset(x, 0, sizeof x);
    for (int64_t b = 1; b <= 100; b++) { /* more sizes than plans are kept */
        int64_t shape[] = {b, 3};
        const DLTensor xd = f32(x, shape);
        DLTensor yd = f32(y, shape), zd = {0};
        assert_int_equal(forward(w, &xd, &yd, &zd), TN_OK);
        tn_tensor_release(&zd);
    }
    assert_int_equal(w->m->nplans, TN_MAX_PLANS);
}

static void test_desc(void **state)
{
    World *w = *state;
    tn_model_desc other = desc;
    tn_model *m;
    other.abi++;
    assert_int_equal(tn_model_create(w->ctx, &other, NULL, &m), TN_ABI);
    assert_null(m);
    assert_int_equal(tn_model_create(w->ctx, NULL, NULL, &m), TN_INVALID);
    assert_int_equal(tn_model_set_number(w->m, "loss.lr", 1), TN_NOT_FOUND);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {T(test_call),     T(test_strided), T(test_empty_batch),
                                       T(test_mistakes), T(test_tape),    T(test_index_error),
                                       T(test_plans),    T(test_desc)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
