/* five_test.c: the printed C of the kernels of five.c computes what plain loops in double compute, and
 * the same bits however the cells are cut. `five_kernels.inc` is what print_five prints.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "five_kernels.inc"

/* Which of a kernel's functions is tested. */
static bool fast;

#if defined TN_FAST
#define CALL(name) (fast ? name##_fast : name##_call)
static bool has_fast(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
}
#else
#define CALL(name) name##_call
static bool has_fast(void)
{
    return false;
}
#endif

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static float *random_floats(size_t n, uint32_t seed)
{
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)next_random(&seed) / 4194304.0f - 2.0f;
    return x;
}

static void assert_close(double got, double want, double tolerance)
{
    double scale = fabs(want) > 1 ? fabs(want) : 1;
    if (!(fabs(got - want) <= tolerance * scale))
        fail_msg("got %.9g, expected %.9g", got, want);
}

static double elu(double x)
{
    return x > 0 ? x : expm1(x);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static void test_cell(void **state)
{
    (void)state;
    enum { B = 5, S = 128 };
    float *gates = random_floats(B * 384, 1), *bias = random_floats(384, 2);
    float *c = random_floats(B * S, 3), h[B * S], n[B * S], h2[B * S], n2[B * S];
    void *p[] = {gates, bias, c, h, n}, *p2[] = {gates, bias, c, h2, n2};
    CALL(lltm_k1_cell)(p, NULL, 0, B);
    CALL(lltm_k1_cell)(p2, NULL, 3, B); /* in two pieces */
    CALL(lltm_k1_cell)(p2, NULL, 0, 3);
    assert_memory_equal(h, h2, sizeof h);
    assert_memory_equal(n, n2, sizeof n);
    for (int b = 0; b < B; b++)
        for (int s = 0; s < S; s++) {
            const float *g = gates + b * 384;
            double want = c[b * S + s] + elu((double)g[256 + s] + bias[256 + s]) *
                                             sigmoid((double)g[s] + bias[s]);
            assert_close(n[b * S + s], want, 1e-6);
            want = tanh(want) * sigmoid((double)g[128 + s] + bias[128 + s]);
            assert_close(h[b * S + s], want, 1e-6);
        }
    free(gates);
    free(bias);
    free(c);
}

static double logsumexp(const float *x, int n)
{
    double m = -INFINITY, s = 0;
    for (int i = 0; i < n; i++)
        m = x[i] > m ? x[i] : m;
    for (int i = 0; i < n; i++)
        s += exp(x[i] - m);
    return log(s) + m;
}

static void test_xent(void **state)
{
    (void)state;
    enum { N = 2, V = 50257 };
    float *x = random_floats(N * V, 4), *before = random_floats(N * V, 4), scale = 0.5f, nll[N];
    x[7] = before[7] = -INFINITY; /* a masked class */
    int32_t target[N] = {3, V - 1}, error[4] = {0};
    void *p[] = {x, target, &scale, nll, error};
    CALL(gpt_k2_xent)(p, NULL, 0, N);
    assert_int_equal(error[0], 0);
    for (int n = 0; n < N; n++) {
        double lse = logsumexp(before + n * V, V);
        assert_close(nll[n], lse - before[n * V + target[n]], 1e-6);
        for (int v = 0; v < V; v++)
            assert_close(x[n * V + v],
                         exp(before[n * V + v] - lse) * scale - (v == target[n] ? scale : 0), 1e-6);
    }
    target[1] = V;
    CALL(gpt_k2_xent)(p, NULL, 0, N);
    assert_int_equal(error[0], 1);
    assert_int_equal(error[1], V);
    assert_int_equal(error[2], V);
    free(x);
    free(before);
}

static void test_layernorm(void **state)
{
    (void)state;
    enum { N = 11, C = 768, G = 3, S = 4 };
    float *dy = random_floats(N * C, 5), *x = random_floats(N * C, 6), *w = random_floats(C, 7);
    float *mean = random_floats(N, 8), *rstd = random_floats(N, 9);
    float *dx = random_floats(N * C, 1), *part = random_floats(G * 2 * C, 1);
    void *p[] = {dy, x, w, mean, rstd, dx, part};
    const int64_t sizes[] = {G, S, N};
    CALL(gpt_k3_layernorm_bwd)(p, sizes, 0, G);
    double *dw = calloc(C, sizeof *dw), *db = calloc(C, sizeof *db);
    assert_true(dw && db);
    for (int n = 0; n < N; n++) {
        double s1 = 0, s2 = 0;
        for (int c = 0; c < C; c++) {
            double d = dy[n * C + c], h = ((double)x[n * C + c] - mean[n]) * rstd[n];
            s1 += d * w[c];
            s2 += d * w[c] * h;
            dw[c] += d * h;
            db[c] += d;
        }
        for (int c = 0; c < C; c++) {
            double h = ((double)x[n * C + c] - mean[n]) * rstd[n];
            double want = rstd[n] * ((double)dy[n * C + c] * w[c] - s1 / C - h * (s2 / C));
            assert_close(dx[n * C + c], want, 2e-5);
        }
    }
    for (int c = 0; c < C; c++) {
        double got_w = 0, got_b = 0;
        for (int g = 0; g < G; g++) {
            got_w += part[(g * 2) * C + c];
            got_b += part[(g * 2 + 1) * C + c];
        }
        assert_close(got_w, dw[c], 1e-5);
        assert_close(got_b, db[c], 1e-5);
    }
    float *all[] = {dy, x, w, mean, rstd, dx, part};
    for (int i = 0; i < 7; i++)
        free(all[i]);
    free(dw);
    free(db);
}

static void test_colsum(void **state)
{
    (void)state;
    enum { G = 9, M = 150 };
    float *part = random_floats(G * M, 10), out[M], again[M];
    void *p[] = {part, out}, *q[] = {part, again};
    const int64_t sizes[] = {M, G};
    CALL(gpt_k4_colsum)(p, sizes, 0, M);
    for (int m = 0; m < M; m += 37)
        CALL(gpt_k4_colsum)(q, sizes, m, m + 37 < M ? m + 37 : M);
    assert_memory_equal(out, again, sizeof out);
    for (int m = 0; m < M; m++) {
        double want = 0;
        for (int g = 0; g < G; g++)
            want += part[g * M + m];
        assert_close(out[m], want, 1e-6);
    }
    free(part);
}

static float from_bf16(uint16_t x)
{
    return tn_float_bits((uint32_t)x << 16);
}

static uint16_t bf16_bits(float x) /* cut, not rounded */
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)(bits >> 16);
}

static double from_f16(uint16_t x) /* of a normal number */
{
    return ldexp(1 + (x & 0x3ff) / 1024.0, (x >> 10 & 31) - 15);
}

static void test_stats(void **state)
{
    (void)state;
    enum { B = 2, T = 3, C = 37 };
    uint16_t x[B * T * C], var[B * T];
    float mean[B * T];
    int64_t best[B * T];
    float *r = random_floats(B * T * C, 11);
    for (int i = 0; i < B * T * C; i++)
        x[i] = bf16_bits(r[i]);
    x[5] = x[20] = 0x4100;           /* a tie: the first wins */
    x[C + 30] = 0x7fc0;              /* NaN wins */
    for (int i = 0; i < C; i++)
        x[2 * C + i] = 0xff80;       /* all minus infinity */
    void *p[] = {x, mean, var, best};
    const int64_t sizes[] = {B, T};
    CALL(stats_k5_row)(p, sizes, 0, B * T);
    assert_int_equal(best[0], 5);
    assert_int_equal(best[1], 30);
    assert_int_equal(best[2], 0);
    assert_true(mean[1] != mean[1]);
    for (int n = 3; n < B * T; n++) {
        double m = 0, v = 0;
        int top = 0;
        for (int c = 0; c < C; c++) {
            m += from_bf16(x[n * C + c]) / C;
            top = from_bf16(x[n * C + c]) > from_bf16(x[n * C + top]) ? c : top;
        }
        for (int c = 0; c < C; c++)
            v += (from_bf16(x[n * C + c]) - m) * (from_bf16(x[n * C + c]) - m) / C;
        assert_close(mean[n], m, 1e-6);
        assert_close(from_f16(var[n]), v, 1e-3);
        assert_int_equal(best[n], top);
    }
    free(r);
}

static void test_scalars(void **state)
{
    (void)state;
    int64_t t = 4;
    double rate = 0;
    void *p[] = {&t, &rate};
    opt_k6_scalars_call(p, NULL, 0, 1);
    assert_int_equal(t, 5);
    assert_close(rate, 1 - pow(0.9, 5), 1e-15);
}

static void test_pieces(void **state)
{
    (void)state;
    enum { N = 3000 };
    float *a = random_floats(N, 12), *b = random_floats(N, 13), *y = random_floats(2 * N, 1);
    uint64_t key = 0x123456789abcdefu;
    void *p[] = {a, b, &key, y};
    const int64_t sizes[] = {N};
    CALL(mix_k7_map)(p, sizes, 0, 2);
    int zeros = 0;
    for (int i = 0; i < 2 * N; i++) {
        float x = (i < N ? a[i] : b[i - N]) * 1.5f;
        uint32_t words[64]; /* of 16 blocks: first words, second ones .. */
        tn_philox16(key, (uint64_t)i / 4, words);
        bool drop = tn_unit(words[i % 4 * 16]) < 0.25f;
        zeros += drop;
        assert_true(y[i] == (drop || x < 0 ? 0.0f : x));
    }
    assert_in_range(zeros, 2 * N / 5, 3 * N / 5);
    free(a);
    free(b);
    free(y);
}

/* The function for every processor and the fast one give the same bits. */
static void test_same_bits(void **state)
{
    (void)state;
    enum { N = 3, V = 50257, C = 768 };
    if (!has_fast())
        skip();
    float *x[2], *dx[2], *part[2], nll[2][N], scale = 0.5f;
    float *dy = random_floats(N * C, 5), *in = random_floats(N * C, 6), *w = random_floats(C, 7);
    float *mean = random_floats(N, 8), *rstd = random_floats(N, 9);
    int32_t target[N] = {3, 5, 7}, error[4] = {0};
    const int64_t sizes[] = {1, N, N};
    bool before = fast;
    for (int i = 0; i < 2; i++) {
        fast = i == 1;
        x[i] = random_floats(N * V, 4);
        dx[i] = random_floats(N * C, 1);
        part[i] = random_floats(2 * C, 1);
        void *p[] = {x[i], target, &scale, nll[i], error};
        void *q[] = {dy, in, w, mean, rstd, dx[i], part[i]};
        CALL(gpt_k2_xent)(p, NULL, 0, N);
        CALL(gpt_k3_layernorm_bwd)(q, sizes, 0, 1);
    }
    fast = before;
    assert_memory_equal(nll[0], nll[1], sizeof nll[0]);
    assert_memory_equal(x[0], x[1], N * V * sizeof(float));
    assert_memory_equal(dx[0], dx[1], N * C * sizeof(float));
    assert_memory_equal(part[0], part[1], 2 * C * sizeof(float));
    float *all[] = {x[0], x[1], dx[0], dx[1], part[0], part[1], dy, in, w, mean, rstd};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cell),    cmocka_unit_test(test_xent),
        cmocka_unit_test(test_layernorm), cmocka_unit_test(test_colsum),
        cmocka_unit_test(test_stats),   cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_pieces),  cmocka_unit_test(test_same_bits),
    };
    int failed = cmocka_run_group_tests_name("every processor", tests, NULL, NULL);
    fast = has_fast();
    if (fast)
        failed += cmocka_run_group_tests_name("fast", tests, NULL, NULL);
    return failed;
}
