/* gemm_test.c: products of matrices against plain f64 loops, for all element types, layouts, tails,
 * batches and sums; the same bits at any thread count and on every processor with fused
 * multiply-add. SPDX-License-Identifier: MIT */
#include "runtime/dtype.h"
#include "runtime/gemm.h"
#include "runtime/gemm_kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TN_FN static inline __attribute__((unused))
#include "runtime/kernels/math.h"
#include "runtime/kernels/number.h"

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static double get(int dtype, const void *p, int64_t i)
{
    switch (dtype) {
    case TN_F64:
        return ((const double *)p)[i];
    case TN_F32:
        return ((const float *)p)[i];
    case TN_BF16:
        return tn_f32_from_bf16(((const uint16_t *)p)[i]);
    default:
        return tn_f32_from_f16(((const uint16_t *)p)[i]);
    }
}

static void set(int dtype, void *p, int64_t i, double x)
{
    switch (dtype) {
    case TN_F64:
        ((double *)p)[i] = x;
        break;
    case TN_F32:
        ((float *)p)[i] = (float)x;
        break;
    case TN_BF16:
        ((uint16_t *)p)[i] = tn_bf16_from_f64(x);
        break;
    default:
        ((uint16_t *)p)[i] = tn_f16_from_f64(x);
    }
}

/* An operand in memory of its own with a margin of untouched elements. */
typedef struct {
    tn__gemm_operand o;
    int dtype;
    int64_t count; /* elements, margin included */
    void *memory;
} Matrix;

enum { MARGIN = 40 };

/* layout 0: columns neighbours, 1: rows neighbours, 2: neither, 3: columns, rows far apart */
static Matrix make(int dtype, int64_t rows, int64_t cols, int layout, const int64_t batch[3],
                   uint32_t *seed)
{
    Matrix x = {.dtype = dtype};
    if (layout == 1) {
        x.o.rows = 1;
        x.o.cols = rows;
    } else {
        x.o.cols = layout == 2 ? 3 : 1;
        x.o.rows = cols * x.o.cols + (layout == 3 ? 5 : 0);
    }
    int64_t size = rows * x.o.rows > cols * x.o.cols ? rows * x.o.rows : cols * x.o.cols;
    for (int i = 2; i >= 0; i--) {
        x.o.batch[i] = size;
        size *= batch[i];
    }
    x.count = size + 2 * MARGIN;
    const size_t bytes = (size_t)x.count * tn__dtype_size(dtype);
    x.memory = malloc(bytes);
    assert_non_null(x.memory);
    for (int64_t i = 0; i < x.count; i++)
        set(dtype, x.memory, i, (double)(int)(next(seed) & 0xffff) / 65536.0 - 0.5);
    x.o.data = (char *)x.memory + MARGIN * tn__dtype_size(dtype);
    return x;
}

static double element(const Matrix *x, const int64_t b[3], int64_t i, int64_t j)
{
    return get(x->dtype, x->o.data,
               b[0] * x->o.batch[0] + b[1] * x->o.batch[1] + b[2] * x->o.batch[2] + i * x->o.rows +
                   j * x->o.cols);
}

typedef struct {
    int dtype, c_dtype;
    int64_t m, n, k, batch[3];
    int a, b, c; /* layouts */
    bool add;
} Case;

static double unit_of(int dtype)
{
    return dtype == TN_F64   ? 0x1p-53
           : dtype == TN_F32 ? 0x1p-24
           : dtype == TN_F16 ? 0x1p-11
                             : 0x1p-8;
}

static void check(double got, double right, double scale, const Case *t, const char *what)
{
    const double inner = t->dtype == TN_F64 ? 0x1p-53 : 0x1p-24;
    const double bound =
        scale * inner * (8.0 + sqrt((double)t->k)) + 1.01 * fabs(right) * unit_of(t->c_dtype);
    if (!(fabs(got - right) <= bound)) {
        print_error("%s: %.9g instead of %.9g (dtype %d, %dx%dx%d, layouts %d %d %d)\n", what, got,
                    right, t->dtype, (int)t->m, (int)t->n, (int)t->k, t->a, t->b, t->c);
        fail();
    }
}

static void check_sums(const Case *t, const Matrix *x, const Matrix *sums, const Matrix *before,
                       const int64_t b[3], bool of_a)
{
    for (int64_t i = 0; i < (of_a ? t->m : t->n); i++) {
        double right = t->add ? element(before, b, 0, i) : 0.0, scale = fabs(right);
        for (int64_t k = 0; k < t->k; k++) {
            const double v = of_a ? element(x, b, i, k) : element(x, b, k, i);
            right += v;
            scale += fabs(v);
        }
        check(element(sums, b, 0, i), right, scale, t, of_a ? "sum_a" : "sum_b");
    }
}

static void check_product(const Case *t, const Matrix *a, const Matrix *b, const Matrix *c,
                          const Matrix *before, const int64_t at[3])
{
    for (int64_t m = 0; m < t->m; m++)
        for (int64_t n = 0; n < t->n; n++) {
            double right = t->add ? element(before, at, m, n) : 0.0, scale = fabs(right);
            for (int64_t k = 0; k < t->k; k++) {
                const double v = element(a, at, m, k) * element(b, at, k, n);
                right += v;
                scale += fabs(v);
            }
            check(element(c, at, m, n), right, scale, t, "c");
        }
}

static Matrix copy_of(const Matrix *x)
{
    Matrix y = *x;
    const size_t size = tn__dtype_size(x->dtype), bytes = (size_t)x->count * size;
    y.memory = malloc(bytes);
    assert_non_null(y.memory);
    memcpy(y.memory, x->memory, bytes);
    y.o.data = (char *)y.memory + MARGIN * size;
    return y;
}

/* What is not an element of the result must not have changed. */
static void check_margins(const Matrix *x, const Matrix *before)
{
    const size_t size = tn__dtype_size(x->dtype);
    assert_memory_equal(x->memory, before->memory, MARGIN * size);
    const size_t end = ((size_t)x->count - MARGIN) * size;
    assert_memory_equal((char *)x->memory + end, (char *)before->memory + end, MARGIN * size);
}

static void run_case(const Case *t, uint32_t seed, tn__pool *pool, tn__gemm_processor most)
{
    Matrix x[5] = {make(t->dtype, t->m, t->k, t->a, t->batch, &seed),
                   make(t->dtype, t->k, t->n, t->b, t->batch, &seed),
                   make(t->c_dtype, t->m, t->n, t->c, t->batch, &seed),
                   make(t->c_dtype, 1, t->m, t->c == 2 ? 2 : 0, t->batch, &seed),
                   make(t->c_dtype, 1, t->n, t->c == 2 ? 2 : 0, t->batch, &seed)};
    const Matrix c0 = copy_of(&x[2]), sum_a0 = copy_of(&x[3]), sum_b0 = copy_of(&x[4]);
    tn__gemm_args g = {.dtype = t->dtype,
                       .c_dtype = t->c_dtype,
                       .m = t->m,
                       .n = t->n,
                       .k = t->k,
                       .a = x[0].o,
                       .b = x[1].o,
                       .c = x[2].o,
                       .sum_a = x[3].o,
                       .sum_b = x[4].o,
                       .accumulate = t->add,
                       .accumulate_sums = t->add};
    memcpy(g.batch, t->batch, sizeof g.batch);
    g.sum_a.rows = g.sum_a.cols; /* the vectors were made as one row */
    assert_int_equal(tn__gemm_on(&g, pool, most), 0);
    int64_t b[3];
    for (b[0] = 0; b[0] < t->batch[0]; b[0]++)
        for (b[1] = 0; b[1] < t->batch[1]; b[1]++)
            for (b[2] = 0; b[2] < t->batch[2]; b[2]++) {
                check_product(t, &x[0], &x[1], &x[2], &c0, b);
                check_sums(t, &x[0], &x[3], &sum_a0, b, true);
                check_sums(t, &x[1], &x[4], &sum_b0, b, false);
            }
    check_margins(&x[2], &c0);
    check_margins(&x[3], &sum_a0);
    check_margins(&x[4], &sum_b0);
    for (int i = 0; i < 5; i++)
        free(x[i].memory);
    free(c0.memory);
    free(sum_a0.memory);
    free(sum_b0.memory);
}

static const struct {
    int dtype, c_dtype;
} types[] = {{TN_F32, TN_F32}, {TN_F64, TN_F64},  {TN_BF16, TN_BF16},
             {TN_F16, TN_F16}, {TN_BF16, TN_F32}, {TN_F16, TN_F32}};

static void test_shapes(void **state)
{
    (void)state;
    tn__pool *pool = tn__pool_create(2);
    static const int64_t sizes[][3] = {
        {1, 1, 1},     {1, 10, 64},   {5, 3, 2},     {14, 32, 16},   {15, 33, 17},   {64, 10, 64},
        {10, 64, 64},  {3, 1, 300},   {29, 70, 257}, {96, 100, 513}, {16, 384, 160}, {0, 4, 3},
        {4, 0, 3},     {4, 5, 0},     {64, 16, 9},   {7, 31, 40},    {13, 48, 30},   {300, 40, 20},
        {1, 37, 83},   {2, 9, 77},    {4, 21, 50},   {130, 3, 33},   {321, 40, 300}, {4, 4, 16},
        {1, 1100, 70}, {2, 1090, 61}, {3, 67, 90}};
    uint32_t seed = 1;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (size_t d = 0; d < sizeof types / sizeof *types; d++)
            for (int layouts = 0; layouts < 64; layouts += 1 + (int)(next(&seed) % 5)) {
                const Case t = {types[d].dtype, types[d].c_dtype, sizes[s][0], sizes[s][1],
                                sizes[s][2],    {1, 1, 1},        layouts % 4, layouts / 4 % 4,
                                layouts / 16,   layouts % 3 == 0};
                run_case(&t, next(&seed), pool, (tn__gemm_processor)(next(&seed) % 3));
            }
    tn__pool_destroy(pool);
}

static void test_batches(void **state)
{
    (void)state;
    tn__pool *pool = tn__pool_create(3);
    uint32_t seed = 2;
    for (size_t d = 0; d < sizeof types / sizeof *types; d++)
        for (int i = 0; i < 6; i++) {
            const Case t = {types[d].dtype,
                            types[d].c_dtype,
                            17,
                            40,
                            33,
                            {2, 1 + i % 3, 1 + i % 2},
                            i % 4,
                            (i + 1) % 4,
                            (i + 2) % 4,
                            i % 2 == 0};
            run_case(&t, next(&seed), pool, TN__GEMM_AVX512);
        }
    const Case large = {TN_F32, TN_F32, 600, 130, 70, {1, 2, 1}, 0, 0, 0, true};
    run_case(&large, 3, pool, TN__GEMM_AVX512);
    const Case across = {TN_F64, TN_F64, 140, 150, 300, {3, 1, 1}, 1, 1, 1, false};
    run_case(&across, 3, pool, TN__GEMM_AVX512);
    const Case apart = {TN_F32, TN_F32, 140, 150, 300, {1, 1, 2}, 2, 2, 2, true};
    run_case(&apart, 3, pool, TN__GEMM_AVX2);
    const Case none = {TN_F32, TN_F32, 3, 3, 3, {1, 0, 2}, 0, 0, 0, true};
    run_case(&none, 3, pool, TN__GEMM_AVX512);
    tn__pool_destroy(pool);
}

static void same_bits(int64_t M, int64_t N, int64_t K)
{
    tn__pool *pools[4] = {NULL, tn__pool_create(2), tn__pool_create(3), tn__pool_create(7)};
#if defined(__x86_64__)
    const bool fused = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    const bool fused = false;
#endif
    const int64_t one[3] = {1, 1, 1};
    for (int layouts = 0; layouts < 64; layouts += 7) {
        uint32_t seed = 4;
        Matrix a = make(TN_F32, M, K, layouts % 4, one, &seed),
               b = make(TN_F32, K, N, layouts / 4 % 4, one, &seed);
        Matrix c0 = make(TN_F32, M, N, layouts / 16, one, &seed),
               s0 = make(TN_F32, 1, M, 0, one, &seed);
        Matrix first = {0}, first_sums = {0};
        for (int i = 0; i < 6; i++) {
            Matrix c = copy_of(&c0), s = copy_of(&s0);
            tn__gemm_args g = {.dtype = TN_F32,
                               .m = M,
                               .n = N,
                               .k = K,
                               .a = a.o,
                               .b = b.o,
                               .c = c.o,
                               .sum_a = s.o,
                               .accumulate = layouts % 2};
            g.sum_a.rows = 1;
            const tn__gemm_processor most = i == 4             ? TN__GEMM_AVX2
                                            : i == 5 && !fused ? TN__GEMM_BASE
                                                               : TN__GEMM_AVX512;
            assert_int_equal(tn__gemm_on(&g, pools[i % 4], most), 0);
            if (i == 0) {
                first = c;
                first_sums = s;
                continue;
            }
            assert_memory_equal(c.memory, first.memory, (size_t)c.count * 4);
            assert_memory_equal(s.memory, first_sums.memory, (size_t)s.count * 4);
            free(c.memory);
            free(s.memory);
        }
        free(first.memory);
        free(first_sums.memory);
        free(a.memory);
        free(b.memory);
        free(c0.memory);
        free(s0.memory);
    }
    for (int i = 1; i < 4; i++)
        tn__pool_destroy(pools[i]);
}

static void test_same_bits(void **state)
{
    (void)state;
    same_bits(150, 203, 600);
    same_bits(1, 1500, 600); /* few rows: memory decides */
    same_bits(2, 2100, 300);
    same_bits(3, 900, 520);
    same_bits(4, 1000, 300);
    same_bits(180, 1100, 300); /* more columns than a thread multiplies at a time */
    same_bits(131, 130, 1024); /* rows that lie a page apart */
    same_bits(700, 97, 130);   /* cells of rows */
}

static void test_repeated_inputs(void **state)
{
    (void)state;
    float a[4] = {1, 2, 3, 4}, c[8]; /* strides of 0: one row for all, one batch for all */
    float b[2] = {10, 100};
    tn__gemm_args g = {.dtype = TN_F32,
                       .m = 2,
                       .n = 2,
                       .k = 2,
                       .batch = {1, 1, 2},
                       .a = {.data = a, .rows = 2, .cols = 1},
                       .b = {.data = b, .rows = 1},
                       .c = {.data = c, .rows = 2, .cols = 1, .batch = {0, 0, 4}}};
    assert_int_equal(tn__gemm(&g, NULL), 0);
    const float right[8] = {210, 210, 430, 430, 210, 210, 430, 430};
    assert_memory_equal(c, right, sizeof c);
}

static void test_nonsense(void **state)
{
    (void)state;
    float x[4] = {0};
    const tn__gemm_operand o = {.data = x, .rows = 2, .cols = 1};
    tn__gemm_args g = {.dtype = TN_I32, .m = 2, .n = 2, .k = 2, .a = o, .b = o, .c = o};
    assert_int_equal(tn__gemm(&g, NULL), -1);
    g.dtype = TN_F32;
    g.c_dtype = TN_BF16;
    assert_int_equal(tn__gemm(&g, NULL), -1);
    g.c_dtype = 0;
    g.k = -1;
    assert_int_equal(tn__gemm(&g, NULL), -1);
}

/* The same numbers from packed operands, and row block by row block. */
static void test_packed_and_rows(void **state)
{
    (void)state;
    tn__pool *pool = tn__pool_create(2);
    /* m, n, k, whether k runs along the memory of b, rows of a block */
    static const int64_t sizes[][5] = {{40, 70, 300, 1, 7},   {5, 33, 64, 1, 7},
                                       {600, 90, 70, 1, 7},   {9, 16, 20, 1, 7},
                                       {30, 70, 1024, 1, 7},  {250, 70, 300, 1, 120},
                                       {250, 525, 600, 0, 7}, {250, 1050, 300, 0, 120},
                                       {40, 1050, 600, 0, 9}, {7, 1050, 600, 0, 3}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int dtype = 0; dtype < 4; dtype++) {
            const int64_t one[3] = {1, 1, 1}, m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
            const int64_t block = sizes[s][4];
            uint32_t seed = 7;
            const int type = dtype % 2 ? TN_F64 : TN_F32;
            Matrix a = make(type, m, k, 0, one, &seed),
                   b = make(type, k, n, (int)sizes[s][3], one, &seed);
            Matrix c = make(type, m, n, 0, one, &seed), d = copy_of(&c), e = copy_of(&c);
            tn__gemm_args g = {.dtype = type,
                               .m = m,
                               .n = n,
                               .k = k,
                               .a = a.o,
                               .b = b.o,
                               .c = c.o,
                               .accumulate = dtype / 2};
            assert_int_equal(tn__gemm(&g, pool), 0);
            const size_t bytes = tn__gemm_pack_bytes(&g, true);
            assert_true(bytes > 0);
            void *panels = aligned_alloc(64, (bytes + 63) / 64 * 64);
            tn__gemm_pack(&g, panels, pool);
            g.panels = panels;
            g.c = d.o;
            assert_int_equal(tn__gemm(&g, pool), 0);
            assert_memory_equal(c.memory, d.memory, (size_t)c.count * tn__dtype_size(type));
            g.c = e.o;
            for (int64_t lo = 0; lo < m; lo += block)
                assert_int_equal(tn__gemm_rows(&g, lo, lo + block < m ? lo + block : m), 0);
            assert_memory_equal(c.memory, e.memory, (size_t)c.count * tn__dtype_size(type));
            free(panels);
            free(a.memory);
            free(b.memory);
            free(c.memory);
            free(d.memory);
            free(e.memory);
        }
    tn__pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes),          cmocka_unit_test(test_batches),
        cmocka_unit_test(test_same_bits),       cmocka_unit_test(test_repeated_inputs),
        cmocka_unit_test(test_packed_and_rows), cmocka_unit_test(test_nonsense),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
