/* products.c: products on the GPU against those of the CPU, for operands laid out in every
 * way that a step may have: rows, columns, strided, backwards, repeated, in two levels of batches.
 * SPDX-License-Identifier: MIT */
#include "tests/runtime/cuda/world.h"

#define TN_FN static inline __attribute__((unused))
#include <math.h>

#include "runtime/kernels/math.h"
#include "runtime/kernels/number.h"

/* How a matrix of rows x cols lies in its buffer. */
typedef enum { BY_ROWS, BY_COLUMNS, SPARSE, BACKWARDS, REPEATED, PADDED, LAYOUTS } Layout;

typedef struct {
    int64_t m, n, k, batch[2];
    Layout a, b, c;
    int dtype, c_dtype;
    bool accumulate, sums, shared; /* shared: b is the same for all batches */
} Case;

/* One program with one product: a, b -> c, and sums of rows and of columns. Sizes are constants. */
enum { MOST_DIMS = 64 };
typedef struct {
    int64_t code[3 * MOST_DIMS];
    int32_t dim_code[MOST_DIMS], lists[8];
    int ndims;
    tn_buffer buffers[6];
    tn_arg args[5];
    tn_gemm_step gemm;
    tn_step step;
    tn_program program;
    tn_model_desc cpu, cuda;
    int64_t elements[6];
} Tables;

static int dim(Tables *t, int64_t v)
{
    const int i = t->ndims++;
    assert_true(i < MOST_DIMS);
    t->code[3 * i] = TN_D_CONST;
    t->code[3 * i + 1] = v;
    t->code[3 * i + 2] = TN_D_END;
    t->dim_code[i] = 3 * i;
    return i;
}

/* The operand in buffer `buf`; its elements are counted. */
static tn_gemm_operand operand(Tables *t, int buf, int64_t rows, int64_t cols, Layout l,
                               const int64_t batch[2], bool shared)
{
    int64_t down = cols, right = 1, offset = 0, one = rows * cols;
    switch (l) {
    case BY_COLUMNS:
        down = 1;
        right = rows;
        break;
    case SPARSE:
        right = 2;
        down = 2 * cols + 1;
        one = rows * down + 1;
        break;
    case BACKWARDS:
        down = -cols;
        offset = (rows - 1) * cols;
        break;
    case REPEATED: /* every row is the same */
        down = 0;
        one = cols;
        break;
    case PADDED:
        down = cols + 3;
        one = rows * down;
        break;
    default:
        break;
    }
    /* the second level lies outside: the two do not join */
    const int64_t inner = shared ? 0 : one * batch[0], outer = shared ? 0 : one;
    t->elements[buf] = one * (shared ? 1 : batch[0] * batch[1]);
    return (tn_gemm_operand){buf,           dim(t, offset), dim(t, down),
                             dim(t, right), dim(t, outer),  dim(t, inner)};
}

static void make(Tables *t, const Case *x)
{
    *t = (Tables){.ndims = 0};
    const int dtypes[] = {0, x->dtype, x->dtype, x->c_dtype, x->c_dtype, x->c_dtype};
    static const char *const names[] = {"", "a", "b", "c", "sa", "sb"};
    t->gemm = (tn_gemm_step){.m = dim(t, x->m),
                             .n = dim(t, x->n),
                             .k = dim(t, x->k),
                             .batch0 = dim(t, x->batch[0]),
                             .batch1 = dim(t, x->batch[1]),
                             .accumulate = x->accumulate};
    t->gemm.a = operand(t, 1, x->m, x->k, x->a, x->batch, false);
    t->gemm.b = operand(t, 2, x->k, x->n, x->b, x->batch, x->shared);
    t->gemm.c = operand(t, 3, x->m, x->n, x->c, x->batch, false);
    t->gemm.sum_a = operand(t, 4, x->m, 1, x->a == SPARSE ? SPARSE : BY_ROWS, x->batch, false);
    t->gemm.sum_b = operand(t, 5, 1, x->n, BY_ROWS, x->batch, false);
    t->gemm.sum_a.cols = dim(t, 0); /* the distance stands in one of the two */
    t->gemm.sum_b.rows = t->gemm.sum_a.cols;
    if (!x->sums)
        t->gemm.sum_a.buf = t->gemm.sum_b.buf = 0;
    for (int i = 1; i <= 5; i++) {
        t->lists[i] = dim(t, t->elements[i]);
        t->buffers[i] = (tn_buffer){.name = names[i],
                                    .kind = TN_BUF_ARG,
                                    .dtype = (int8_t)dtypes[i],
                                    .rank = 1,
                                    .shape = i,
                                    .index = i - 1};
        t->args[i - 1] = (tn_arg){names[i], i, 0, i >= 3, 0};
    }
    t->step = (tn_step){.kind = TN_STEP_GEMM, .where = "m.tn:1"};
    t->program = (tn_program){.name = "product",
                              .method = "product",
                              .kind = TN_METHOD,
                              .ndims = t->ndims,
                              .nbuffers = 6,
                              .nargs = 5,
                              .nsteps = 1,
                              .code = t->code,
                              .dim_code = t->dim_code,
                              .lists = t->lists,
                              .buffers = t->buffers,
                              .args = t->args,
                              .gemms = &t->gemm,
                              .steps = &t->step};
    t->cpu = pair_desc;
    t->cuda = only_cuda;
    t->cpu.nprograms = t->cuda.nprograms = 1;
    t->cpu.programs = t->cuda.programs = &t->program;
    t->cpu.cuda = &t->cuda;
}

/* Small whole numbers: every sum of products is exact, in any order. */
static void put(int dtype, void *at, int64_t i, int v)
{
    tn__dtype_store(dtype, v, (char *)at + (size_t)i * tn__dtype_size(dtype));
}

static void run(World *w, const Case *x)
{
    static Tables t;
    tn_model *on[2];
    void *data[2][6] = {{0}};
    DLTensor tensors[6];
    const DLTensor *args[5];
    make(&t, x);
    for (int side = 0; side < 2; side++) {
        tn_model_options o = {.size = sizeof o, .no_init = 1, .device = side ? gpu : cpu};
        ok(tn_model_create(w->ctx, &t.cpu, &o, &on[side]));
        for (int i = 1; i <= 5; i++) {
            const int dtype = t.buffers[i].dtype;
            data[side][i] = calloc((size_t)t.elements[i] + 1, tn__dtype_size(dtype));
            for (int64_t k = 0; k < t.elements[i]; k++)
                put(dtype, data[side][i], k, (int)((k * 7 + i * 5) % 9) - 4);
            tensors[i] = (DLTensor){
                .data = data[side][i], .device = cpu, .ndim = 1, .shape = &t.elements[i]};
            tn__dl_type(dtype, &tensors[i].dtype);
            args[i - 1] = &tensors[i];
        }
        ok(tn_call(on[side], NULL, 0, args, 5, NULL));
        tn_model_destroy(on[side]);
    }
    for (int i = 1; i <= 5; i++) {
        const size_t bytes = (size_t)t.elements[i] * tn__dtype_size(t.buffers[i].dtype);
        if (memcmp(data[0][i], data[1][i], bytes))
            fail_msg("%s differs: %lldx%lldx%lld, batches %lldx%lld, layouts %d %d %d, dtypes %d "
                     "%d, accumulate %d, sums %d, shared %d",
                     t.buffers[i].name, (long long)x->m, (long long)x->n, (long long)x->k,
                     (long long)x->batch[0], (long long)x->batch[1], x->a, x->b, x->c, x->dtype,
                     x->c_dtype, x->accumulate, x->sums, x->shared);
        free(data[0][i]);
        free(data[1][i]);
    }
}

static void test_layouts(void **state)
{
    for (Layout a = 0; a < LAYOUTS; a++)
        for (Layout b = 0; b < LAYOUTS; b++)
            for (Layout c = 0; c < LAYOUTS; c++)
                if (c != REPEATED)
                    run(*state, &(Case){5,
                                        7,
                                        6,
                                        {1, 1},
                                        a,
                                        b,
                                        c,
                                        TN_F32,
                                        TN_F32,
                                        (a + b) % 2,
                                        (a + c) % 2,
                                        false});
}

static void test_batches(void **state)
{
    static const int64_t batches[][2] = {{1, 3}, {3, 1}, {2, 3}, {3, 2}, {0, 2}, {2, 0}};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++)
        for (Layout a = 0; a < LAYOUTS; a++)
            for (int shared = 0; shared < 2; shared++)
                run(*state, &(Case){4,
                                    3,
                                    5,
                                    {batches[i][0], batches[i][1]},
                                    a,
                                    (a + 1) % LAYOUTS,
                                    a == REPEATED ? SPARSE : a,
                                    TN_F32,
                                    TN_F32,
                                    shared,
                                    true,
                                    shared});
}

static void test_dtypes(void **state)
{
    static const int types[][2] = {{TN_F64, TN_F64},   {TN_F16, TN_F16},  {TN_F16, TN_F32},
                                   {TN_BF16, TN_BF16}, {TN_BF16, TN_F32}, {TN_F32, TN_F32}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (Layout l = 0; l < LAYOUTS; l++)
            run(*state, &(Case){6,
                                5,
                                9,
                                {1, 2},
                                l,
                                BY_COLUMNS,
                                l == REPEATED ? PADDED : l,
                                types[i][0],
                                types[i][1],
                                l % 2,
                                true,
                                false});
}

static void test_shapes(void **state)
{
    static const int64_t n[] = {0, 1, 2, 17};
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            for (int k = 0; k < 4; k++)
                for (int acc = 0; acc < 2; acc++)
                    run(*state, &(Case){n[i],
                                        n[j],
                                        n[k],
                                        {1, 1},
                                        BY_ROWS,
                                        BY_COLUMNS,
                                        acc ? SPARSE : BY_ROWS,
                                        TN_F32,
                                        TN_F32,
                                        acc,
                                        true,
                                        false});
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {T(test_layouts), T(test_batches), T(test_dtypes),
                                       T(test_shapes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
