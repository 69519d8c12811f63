/* emulated_test.cpp: the printed CUDA of the kernels of five.c against their printed C: maps to the
 * bit, reductions closely. SPDX-License-Identifier: MIT */
#include "emulate.hpp"

#include "five_kernels.cu"

extern "C" {
typedef void cpu_kernel(void *const *p, const int64_t *n, int64_t lo, int64_t hi);
extern cpu_kernel *const five_cpu[];
}

static unsigned seed = 1;
static int failures;

static float *random_floats(size_t n)
{
    float *x = (float *)aligned_alloc(64, (n * sizeof *x + 63) / 64 * 64);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 4194304.0f - 2.0f;
    }
    return x;
}

static float *copy_of(const float *x, size_t n)
{
    float *y = random_floats(n);
    memcpy(y, x, n * sizeof *x);
    return y;
}

static void same_bits(const char *what, const void *x, const void *y, size_t n)
{
    if (!memcmp(x, y, n))
        return;
    printf("%s: other bits\n", what);
    failures++;
}

static void close_to(const char *what, const float *x, const float *y, size_t n, float tolerance)
{
    for (size_t i = 0; i < n; i++) {
        float scale = fabsf(y[i]) > 1 ? fabsf(y[i]) : 1;
        if (fabsf(x[i] - y[i]) <= tolerance * scale || (x[i] != x[i] && y[i] != y[i]))
            continue;
        printf("%s[%zu]: %.9g on CUDA, %.9g in C\n", what, i, (double)x[i], (double)y[i]);
        failures++;
        return;
    }
}

static void test_cell()
{
    enum { B = 13 };
    struct A {
        float *gates, *bias, *c, *h, *n;
    } a = {random_floats(B * 384), random_floats(384), random_floats(B * 128),
           random_floats(B * 128), random_floats(B * 128)};
    float *h = random_floats(B * 128), *n = random_floats(B * 128);
    void *p[] = {a.gates, a.bias, a.c, h, n};
    five_cpu[0](p, NULL, 0, B);
    emulate([](void *x) { A *q = (A *)x; lltm_k1_cell(q->gates, q->bias, q->c, q->h, q->n, B); }, &a,
            B, 8, 32, 8);
    same_bits("cell new_h", a.h, h, B * 128 * 4);
    same_bits("cell new_c", a.n, n, B * 128 * 4);
}

static void test_xent()
{
    enum { N = 2, V = 50257 };
    struct A {
        float *x;
        int *target;
        float *scale, *nll;
        int error[4];
    } a = {random_floats(N * V), NULL, random_floats(1), random_floats(N), {0, 0, 0, 0}};
    int target[N] = {7, V}; /* the second is out of range */
    float *x = copy_of(a.x, N * V), *nll = random_floats(N);
    int32_t error[4] = {0};
    a.target = target;
    void *p[] = {x, target, a.scale, nll, error};
    five_cpu[1](p, NULL, 0, N);
    emulate([](void *y) { A *q = (A *)y; gpt_k2_xent(q->x, q->target, q->scale, q->nll, N, q->error); },
            &a, N, 1, 1024, 1);
    close_to("xent nll", a.nll, nll, N, 1e-6f);
    close_to("xent logits", a.x, x, N * V, 1e-6f);
    same_bits("xent error", a.error, error, 12);
}

static void test_layernorm()
{
    enum { N = 11, C = 768, G = 3, S = 4 };
    struct A {
        float *dy, *x, *w, *mean, *rstd, *dx, *part;
    } a = {random_floats(N * C), random_floats(N * C), random_floats(C), random_floats(N),
           random_floats(N), random_floats(N * C), random_floats(G * 2 * C)};
    float *dx = random_floats(N * C), *part = random_floats(G * 2 * C);
    void *p[] = {a.dy, a.x, a.w, a.mean, a.rstd, dx, part};
    const int64_t sizes[] = {G, S, N};
    five_cpu[2](p, sizes, 0, G);
    emulate(
        [](void *y) {
            A *q = (A *)y;
            gpt_k3_layernorm_bwd(q->dy, q->x, q->w, q->mean, q->rstd, q->dx, q->part, G, S, N);
        },
        &a, G, 1, 192, 1);
    close_to("layernorm dx", a.dx, dx, N * C, 1e-5f);
    same_bits("layernorm part", a.part, part, G * 2 * C * 4); /* side sums: one lane a column */
}

static void test_colsum()
{
    enum { G = 21, M = 150 };
    struct A {
        float *part, *out;
    } a = {random_floats(G * M), random_floats(M)};
    float *out = random_floats(M);
    void *p[] = {a.part, out};
    const int64_t sizes[] = {M, G};
    five_cpu[3](p, sizes, 0, M);
    emulate([](void *y) { A *q = (A *)y; gpt_k4_colsum(q->part, q->out, M, G); }, &a, M, 32, 32, 8);
    close_to("colsum", a.out, out, M, 1e-6f);
}

static void test_stats()
{
    enum { B = 2, T = 3, C = 37, R = B * T };
    struct A {
        unsigned short *x;
        float *mean;
        unsigned short var[R];
        long long best[R];
    } a = {NULL, random_floats(R), {0}, {0}};
    unsigned short x[R * C], var[R];
    int64_t best[R];
    float *mean = random_floats(R), *values = random_floats(R * C);
    for (int i = 0; i < R * C; i++) {
        uint32_t bits;
        memcpy(&bits, values + i, 4);
        x[i] = (unsigned short)(bits >> 16);
    }
    x[3] = x[19] = 0x4100;
    x[C + 9] = 0x7fc0;
    a.x = x;
    void *p[] = {x, mean, var, best};
    const int64_t sizes[] = {B, T};
    five_cpu[4](p, sizes, 0, R);
    emulate([](void *y) { A *q = (A *)y; stats_k5_row(q->x, q->mean, q->var, q->best, B, T); }, &a, R,
            4, 32, 4);
    close_to("stats mean", a.mean, mean, R, 1e-6f);
    same_bits("stats best", a.best, best, sizeof best);
}

static void test_scalars()
{
    struct A {
        long long t;
        double rate;
    } a = {4, 0};
    int64_t t = 4;
    double rate = 0;
    void *p[] = {&t, &rate};
    five_cpu[5](p, NULL, 0, 1);
    emulate([](void *y) { A *q = (A *)y; opt_k6_scalars(&q->t, &q->rate); }, &a, 1, 1, 1, 1);
    same_bits("scalars t", &a.t, &t, 8);
    same_bits("scalars rate", &a.rate, &rate, 8);
}

static void test_pieces()
{
    enum { N = 3000 };
    struct A {
        float *a, *b;
        unsigned long long key;
        float *y;
    } a = {random_floats(N), random_floats(N), 0x9876543210ull, random_floats(2 * N)};
    float *y = random_floats(2 * N);
    void *p[] = {a.a, a.b, &a.key, y};
    const int64_t sizes[] = {N};
    five_cpu[6](p, sizes, 0, 2);
    emulate([](void *x) { A *q = (A *)x; mix_k7_map(q->a, q->b, &q->key, q->y, N); }, &a, 2 * N, 256,
            256, 1);
    same_bits("pieces", a.y, y, 2 * N * 4);
}

int main()
{
    test_cell();
    test_xent();
    test_layernorm();
    test_colsum();
    test_stats();
    test_scalars();
    test_pieces();
    printf("%s\n", failures ? "failed" : "all equal");
    return failures != 0;
}
