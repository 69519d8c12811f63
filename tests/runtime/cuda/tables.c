/* tables.c: see tables.h. SPDX-License-Identifier: MIT */
#include "tests/runtime/cuda/tables.h"

/* --- kernels for the CPU -------------------------------------------------------------------------
 */

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

static void gather(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    const float *x = p[0];
    const int32_t *index = p[1];
    float *r = p[2];
    int32_t *error = p[3];
    (void)n;
    for (int64_t i = lo; i < hi; i++) {
        const int32_t k = index[i];
        if (k < 0 || k >= 3) {
            error[0] = 1;
            error[1] = k;
            error[2] = 3;
        }
        r[i] = k < 0 || k >= 3 ? 0 : x[3 * i + k];
    }
}

static void set(void *const *p, const int64_t *n, int64_t lo, int64_t hi)
{
    float *w = p[0];
    (void)n, (void)lo, (void)hi;
    w[0] = 2;
}

/* --- and for CUDA --------------------------------------------------------------------------------
 */

#define GLOBAL_INDEX                                                                               \
    "  mov.u32 %r1, %ctaid.x;\n"                                                                   \
    "  mov.u32 %r2, %tid.y;\n"                                                                     \
    "  mov.u32 %r3, %tid.x;\n"                                                                     \
    "  shl.b32 %r1, %r1, 7;\n" /* 4 teams of 32 lanes */                                           \
    "  shl.b32 %r2, %r2, 5;\n"                                                                     \
    "  add.s32 %r1, %r1, %r2;\n"                                                                   \
    "  add.s32 %r1, %r1, %r3;\n"
#define REGISTERS                                                                                  \
    "  .reg .pred %p<4>;\n"                                                                        \
    "  .reg .b32 %r<10>;\n"                                                                        \
    "  .reg .f32 %f<4>;\n"                                                                         \
    "  .reg .b64 %rd<16>;\n"

const char pair_ptx[] =
    ".version 6.4\n"
    ".target sm_75\n"
    ".address_size 64\n"
    ".visible .entry scale(.param .u64 x, .param .u64 w, .param .u64 y, .param .u32 n)\n"
    "{\n" REGISTERS GLOBAL_INDEX "  ld.param.u32 %r4, [n];\n"
    "  setp.ge.s32 %p1, %r1, %r4;\n"
    "  @%p1 bra DONE;\n"
    "  ld.param.u64 %rd1, [x];\n"
    "  ld.param.u64 %rd2, [w];\n"
    "  ld.param.u64 %rd3, [y];\n"
    "  mul.wide.s32 %rd4, %r1, 4;\n"
    "  add.s64 %rd1, %rd1, %rd4;\n"
    "  add.s64 %rd3, %rd3, %rd4;\n"
    "  ld.global.f32 %f1, [%rd1];\n"
    "  ld.global.f32 %f2, [%rd2];\n"
    "  mul.rn.f32 %f3, %f2, %f1;\n"
    "  st.global.f32 [%rd3], %f3;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n"
    ".visible .entry bump(.param .u64 w)\n"
    "{\n" REGISTERS "  ld.param.u64 %rd1, [w];\n"
    "  ld.global.f32 %f1, [%rd1];\n"
    "  add.rn.f32 %f1, %f1, 0f3F800000;\n"
    "  st.global.f32 [%rd1], %f1;\n"
    "  ret;\n"
    "}\n"
    ".visible .entry set_w(.param .u64 w)\n"
    "{\n" REGISTERS "  ld.param.u64 %rd1, [w];\n"
    "  mov.f32 %f1, 0f40000000;\n"
    "  st.global.f32 [%rd1], %f1;\n"
    "  ret;\n"
    "}\n"
    /* n is a long long here */
    ".visible .entry gather(.param .u64 x, .param .u64 i, .param .u64 r, .param .u64 n,\n"
    "  .param .u64 error)\n"
    "{\n" REGISTERS GLOBAL_INDEX "  cvt.s64.s32 %rd9, %r1;\n"
    "  ld.param.u64 %rd8, [n];\n"
    "  setp.ge.s64 %p1, %rd9, %rd8;\n"
    "  @%p1 bra DONE;\n"
    "  ld.param.u64 %rd1, [x];\n"
    "  ld.param.u64 %rd2, [i];\n"
    "  ld.param.u64 %rd3, [r];\n"
    "  mul.wide.s32 %rd4, %r1, 4;\n"
    "  add.s64 %rd2, %rd2, %rd4;\n"
    "  add.s64 %rd3, %rd3, %rd4;\n"
    "  ld.global.u32 %r5, [%rd2];\n"
    "  mov.f32 %f1, 0f00000000;\n"
    "  setp.ge.u32 %p2, %r5, 3;\n"
    "  @%p2 bra BAD;\n"
    "  mad.lo.s32 %r6, %r1, 3, %r5;\n"
    "  mul.wide.s32 %rd5, %r6, 4;\n"
    "  add.s64 %rd1, %rd1, %rd5;\n"
    "  ld.global.f32 %f1, [%rd1];\n"
    "  bra STORE;\n"
    "BAD:\n"
    "  ld.param.u64 %rd6, [error];\n"
    "  mov.u32 %r7, 1;\n"
    "  mov.u32 %r8, 3;\n"
    "  atom.global.cas.b32 %r9, [%rd6], 0, %r7;\n"
    "  setp.ne.s32 %p3, %r9, 0;\n"
    "  @%p3 bra STORE;\n" /* another was first */
    "  st.global.u32 [%rd6+4], %r5;\n"
    "  st.global.u32 [%rd6+8], %r8;\n"
    "STORE:\n"
    "  st.global.f32 [%rd3], %f1;\n"
    "DONE:\n"
    "  ret;\n"
    "}\n";

static const tn_image images[] = {{75, 1, pair_ptx, sizeof pair_ptx, 0}};

/* --- tables --------------------------------------------------------------------------------------
 */

enum { D_B, D_3, D_0, D_3B, D_1, D_2, D_5, NDIMS };
static const tn_symbol symbols[] = {{"B", 0, 1000, 1, 0, 0}};
static const int64_t code[] = {
    TN_D_SYM,   0, TN_D_END,                        /* 0: B */
    TN_D_CONST, 3, TN_D_END,                        /* 3 */
    TN_D_CONST, 0, TN_D_END,                        /* 6 */
    TN_D_CONST, 3, TN_D_SYM, 0, TN_D_MUL, TN_D_END, /* 9: 3 B */
    TN_D_CONST, 1, TN_D_END,                        /* 15 */
    TN_D_CONST, 2, TN_D_END,                        /* 18 */
    TN_D_CONST, 5, TN_D_END,                        /* 21 */
};
static const int32_t dim_code[] = {0, 3, 6, 9, 15, 18, 21};
static const int32_t lists[] = {/* 0: [B, 3] */ D_B,          D_3,
                                /* 2: [B, 2] */ D_B,          D_2,
                                /* 4: [3, 2] */ D_3,          D_2,
                                /* 6: sizes of scale */ D_3B,
                                /* 7: of gather, [B] */ D_B,  /* 8: [5] */ D_5};
static const tn_gemm_step gemms[] = {{.m = D_B,
                                      .n = D_2,
                                      .k = D_3,
                                      .batch0 = D_1,
                                      .batch1 = D_1,
                                      .a = {1, D_0, D_3, D_1, D_0, D_0},
                                      .b = {5, D_0, D_2, D_1, D_0, D_0},
                                      .c = {6, D_0, D_2, D_1, D_0, D_0}}};

#define LAUNCH_SCALE(first)                                                                        \
    {                                                                                              \
        .kind = TN_STEP_LAUNCH, .kernel = 0, .operands = first, .nops = 3, .ints = 6, .nints = 1,  \
        .cells = D_3B, .where = "m.tn:1"                                                           \
    }
#define BUFFER(n, k, t, r, s, i)                                                                   \
    {                                                                                              \
        .name = n, .kind = k, .dtype = t, .rank = r, .shape = s, .index = i                        \
    }
#define F32_B3(n, k, i) BUFFER(n, k, TN_F32, 2, 0, i)

static const tn_buffer forward_buffers[] = {
    {0},
    F32_B3("x", TN_BUF_ARG, 0),
    {.name = "w", .kind = TN_BUF_STATE, .dtype = TN_F32, .rank = 0, .index = 1},
    F32_B3("y", TN_BUF_RESULT, 0),
    F32_B3("t", TN_BUF_TEMP, 0),
    BUFFER("m", TN_BUF_ARG, TN_F32, 2, 4, 1),
    BUFFER("z", TN_BUF_RESULT, TN_F32, 2, 2, 1),
};
static const tn_operand operands[] = {{1, -1}, {2, -1}, {4, -1}, {3, -1}, {4, -1}};
static const tn_step forward_steps[] = {
    LAUNCH_SCALE(0),
    {.kind = TN_STEP_COPY, .operands = 3, .nops = 2, .where = "m.tn:1"},
    {.kind = TN_STEP_GEMM, .kernel = 0, .where = "m.tn:2"},
};
static const tn_arg forward_args[] = {
    {"x", 1, 0, 0, 0}, {"m", 5, 0, 0, 0}, {"y", 3, 0, 0, 1}, {"z", 6, 0, 0, 1}};

/* keeps x, and w x in memory of the tape */
static const tn_buffer train_buffers[] = {
    {0},
    F32_B3("x", TN_BUF_ARG, 0),
    {.name = "w", .kind = TN_BUF_STATE, .dtype = TN_F32, .rank = 0, .index = 1},
    F32_B3("y", TN_BUF_RESULT, 0),
    F32_B3("t", TN_BUF_TAPE, 1),
    BUFFER("m", TN_BUF_ARG, TN_F32, 2, 4, 1),
    BUFFER("z", TN_BUF_RESULT, TN_F32, 2, 2, 1),
};
static const int32_t train_tape[] = {1, 4};
static const tn_buffer backward_buffers[] = {
    {0},
    F32_B3("dy", TN_BUF_ARG, 0),
    {.name = "w", .kind = TN_BUF_STATE, .dtype = TN_F32, .rank = 0, .index = 1},
    F32_B3("dx", TN_BUF_RESULT, 0),
    F32_B3("x", TN_BUF_TAPE, 0),
    F32_B3("dt", TN_BUF_RESULT, 1),
    F32_B3("t", TN_BUF_TAPE, 1),
};
static const tn_operand backward_operands[] = {{4, -1}, {2, -1}, {3, -1}, {5, -1}, {6, -1}};
static const tn_arg backward_args[] = {{"dy", 1, 0, 0, 0}, {"dx", 3, 0, 0, 1}, {"dt", 5, 0, 0, 1}};
static const tn_step backward_steps[] = {
    LAUNCH_SCALE(0), {.kind = TN_STEP_COPY, .operands = 3, .nops = 2, .where = "m.tn:1"}};

static const tn_buffer state_buffers[] = {
    {0}, {.name = "w", .kind = TN_BUF_STATE, .dtype = TN_F32, .rank = 0, .index = 1}};
static const tn_operand state_operands[] = {{1, -1}};
static const tn_step update_steps[] = {{.kind = TN_STEP_LAUNCH,
                                        .kernel = 1,
                                        .operands = 0,
                                        .nops = 1,
                                        .cells = D_1,
                                        .where = "m.tn:3"}};
static const tn_step init_steps[] = {{.kind = TN_STEP_LAUNCH,
                                      .kernel = 3,
                                      .operands = 0,
                                      .nops = 1,
                                      .cells = D_1,
                                      .where = "m.tn:4"}};

static const tn_buffer gather_buffers[] = {
    {0},
    F32_B3("x", TN_BUF_ARG, 0),
    BUFFER("i", TN_BUF_ARG, TN_I32, 1, 7, 1),
    BUFFER("r", TN_BUF_RESULT, TN_F32, 1, 7, 0),
};
static const tn_operand gather_operands[] = {{1, -1}, {2, -1}, {3, -1}};
static const tn_arg gather_args[] = {{"x", 1, 0, 0, 0}, {"i", 2, 0, 0, 0}, {"r", 3, 0, 0, 1}};
static const tn_step gather_steps[] = {{.kind = TN_STEP_LAUNCH,
                                        .kernel = 2,
                                        .operands = 0,
                                        .nops = 3,
                                        .ints = 7,
                                        .nints = 1,
                                        .cells = D_B,
                                        .where = "m.tn:5"}};

static const tn_buffer fill_buffers[] = {
    {0},
    BUFFER("a", TN_BUF_RESULT, TN_F64, 1, 8, 0),
    BUFFER("b", TN_BUF_RESULT, TN_I8, 1, 8, 1),
    BUFFER("c", TN_BUF_RESULT, TN_BF16, 1, 8, 2),
    BUFFER("d", TN_BUF_RESULT, TN_I64, 1, 8, 3),
    BUFFER("e", TN_BUF_RESULT, TN_F32, 1, 8, 4),
};
static const tn_operand fill_operands[] = {{1, -1}, {2, -1}, {3, -1}, {4, -1}, {5, -1}};
static const tn_arg fill_args[] = {
    {"a", 1, 0, 0, 1}, {"b", 2, 0, 0, 1}, {"c", 3, 0, 0, 1}, {"d", 4, 0, 0, 1}, {"e", 5, 0, 0, 1}};
static const tn_step fill_steps[] = {
    {.kind = TN_STEP_FILL, .operands = 0, .nops = 1, .value = 1.1},
    {.kind = TN_STEP_FILL, .operands = 1, .nops = 1, .value = 3},
    {.kind = TN_STEP_FILL, .operands = 2, .nops = 1, .value = 1},
    {.kind = TN_STEP_FILL, .operands = 3, .nops = 1, .value = -1},
    {.kind = TN_STEP_FILL, .operands = 4, .nops = 1, .value = 0.5},
};

static const float constant[] = {7};
static const tn_buffer constant_buffers[] = {
    {0},
    F32_B3("x", TN_BUF_ARG, 0),
    {.name = "c", .kind = TN_BUF_CONST, .dtype = TN_F32, .rank = 0, .data = constant},
    F32_B3("y", TN_BUF_RESULT, 0),
};
static const tn_operand constant_operands[] = {{1, -1}, {2, -1}, {3, -1}};
static const tn_arg constant_args[] = {{"x", 1, 0, 0, 0}, {"y", 3, 0, 0, 1}};
static const tn_step scale_steps[] = {LAUNCH_SCALE(0)};

/* the result is the argument's buffer */
static const tn_buffer inout_buffers[] = {
    {0},
    F32_B3("h", TN_BUF_ARG, 0),
    {.name = "w", .kind = TN_BUF_STATE, .dtype = TN_F32, .rank = 0, .index = 1},
};
static const tn_operand inout_operands[] = {{1, -1}, {2, -1}, {1, -1}};
static const tn_arg inout_args[] = {{"h", 1, 0, 1, 0}, {"h", 1, 0, 0, 1}};

static const tn_buffer print_buffers[] = {
    {0},
    F32_B3("x", TN_BUF_ARG, 0),
    {.name = "w", .kind = TN_BUF_STATE, .dtype = TN_F32, .rank = 0, .index = 1},
    F32_B3("t", TN_BUF_TEMP, 0),
};
static const tn_operand print_operands[] = {{1, -1}, {2, -1}, {3, -1}, {3, -1}};
static const tn_arg print_args[] = {{"x", 1, 0, 0, 0}};
static const tn_step print_steps[] = {
    LAUNCH_SCALE(0),
    {.kind = TN_STEP_PRINT, .operands = 3, .nops = 1, .text = "wx", .where = "m.tn:6"}};

#define TABLES                                                                                     \
    .symbols = symbols, .code = code, .dim_code = dim_code, .lists = lists, .nsymbols = 1,         \
    .ndims = NDIMS
#define PROGRAM(n, k, p)                                                                           \
    .name = n, .kind = k, .nbuffers = sizeof p##_buffers / sizeof *p##_buffers,                    \
    .buffers = p##_buffers, .operands = p##_operands

/* programs without arguments have no sizes */
static const int64_t plain_code[] = {TN_D_CONST, 1, TN_D_END, TN_D_CONST, 5, TN_D_END};
static const int32_t plain_dims[] = {0, 0, 0, 0, 0, 0, 3};
#define PLAIN            .code = plain_code, .dim_code = plain_dims, .lists = lists, .ndims = NDIMS
#define forward_operands operands
#define train_operands   operands
#define update_buffers   state_buffers
#define update_operands  state_operands
#define init_buffers     state_buffers
#define init_operands    state_operands

static const tn_program programs[NPROGRAMS] = {
    [FORWARD] = {PROGRAM("forward", TN_METHOD, forward), TABLES, .method = "forward", .nargs = 4,
                 .nsteps = 3, .args = forward_args, .gemms = gemms, .steps = forward_steps},
    [TRAIN] = {PROGRAM("forward_train", TN_FORWARD_TRAIN, train), TABLES, .method = "forward",
               .nargs = 4, .nsteps = 3, .args = forward_args, .gemms = gemms,
               .steps = forward_steps, .ntape = 2, .tape = train_tape},
    [BACKWARD] = {PROGRAM("forward_backward", TN_BACKWARD, backward), TABLES, .method = "forward",
                  .nargs = 3, .nsteps = 2, .args = backward_args, .steps = backward_steps},
    [UPDATE] = {PROGRAM("update", TN_UPDATE, update), PLAIN, .method = "update", .nsteps = 1,
                .steps = update_steps},
    [GATHER] = {PROGRAM("gather", TN_METHOD, gather), TABLES, .method = "gather", .nargs = 3,
                .nsteps = 1, .args = gather_args, .steps = gather_steps},
    [FILL] = {PROGRAM("fill", TN_METHOD, fill), PLAIN, .method = "fill", .nargs = 5, .nsteps = 5,
              .args = fill_args, .steps = fill_steps},
    [CONSTANT] = {PROGRAM("constant", TN_METHOD, constant), TABLES, .method = "constant",
                  .nargs = 2, .nsteps = 1, .args = constant_args, .steps = scale_steps},
    [INOUT] = {PROGRAM("inout", TN_METHOD, inout), TABLES, .method = "inout", .nargs = 2,
               .nsteps = 1, .args = inout_args, .steps = scale_steps},
    [PRINT] = {PROGRAM("print", TN_METHOD, print), TABLES, .method = "print", .nargs = 1,
               .nsteps = 2, .args = print_args, .steps = print_steps},
    [INIT] = {PROGRAM("init", TN_INIT, init), PLAIN, .method = "init", .nsteps = 1,
              .steps = init_steps},
};

static const tn_slot slots[] = {{0},
                                {"w", TN_SLOT_PARAM, TN_F32, 1, 1, 0, 0, 0},
                                {"grad", TN_SLOT_GRAD, TN_F32, 0, 1, 0, 1, 0},
                                {"loss.lr", TN_SLOT_HYPER, TN_F64, 1, 1, 0.1, 0, 0},
                                {"loss.t", TN_SLOT_COUNTER, TN_I64, 1, 1, 4, 0, 0},
                                {"seed", TN_SLOT_SEED, TN_U64, 1, 1, 0, 0, 0},
                                {"calls", TN_SLOT_CALLS, TN_U64, 1, 1, 0, 0, 0}};
static const tn_state_view views[] = {{"w", NULL, 1, 0, TN_F32, 1, 1, 1, 1, {1}}};

static const char *const checks[] = {"m.tn:5"};
#define SHAPE .lanes = 32, .teams = 4, .block_cells = 128, .grid_lanes = 1
static const tn_kernel cpu_kernels[] = {
    {.name = "scale", .where = "m.tn:1", .cpu = scale, .nparams = 3, .nsizes = 1},
    {.name = "bump", .where = "m.tn:3", .cpu = bump, .nparams = 1},
    {.name = "gather",
     .where = "m.tn:5",
     .cpu = gather,
     .nparams = 3,
     .nsizes = 1,
     .nchecks = 1,
     .checks = checks},
    {.name = "set_w", .where = "m.tn:4", .cpu = set, .nparams = 1},
};
static const tn_kernel cuda_kernels[] = {
    {.name = "scale", .where = "m.tn:1", .nparams = 3, .nsizes = 1, SHAPE},
    {.name = "bump", .where = "m.tn:3", .nparams = 1, .lanes = 1, .teams = 1, .block_cells = 1},
    {.name = "gather",
     .where = "m.tn:5",
     .nparams = 3,
     .nsizes = 1,
     .nchecks = 1,
     .checks = checks,
     .wide = 1,
     SHAPE},
    {.name = "set_w", .where = "m.tn:4", .nparams = 1, .lanes = 1, .teams = 1, .block_cells = 1},
};

#define DESC                                                                                       \
    .abi = TN_ABI, .size = (int32_t)sizeof(tn_model_desc), .name = "m", .version = "0",            \
    .source = "m.tn", .nslots = sizeof slots / sizeof *slots, .nviews = 1, .nkernels = 4,          \
    .nprograms = NPROGRAMS, .slots = slots, .views = views, .programs = programs

const tn_model_desc only_cuda = {DESC, .kernels = cuda_kernels, .images = images, .nimages = 1};
const tn_model_desc pair_desc = {DESC, .kernels = cpu_kernels, .cuda = &only_cuda};
