/* gemm_bench.c: the speed of products of matrices, beside what the processor can do at most and,
 * where they are installed, a BLAS and oneDNN.
 *
 *   gemm_bench [-t threads] [-r rounds] [-k base|avx2|avx512] [-l library] [-p 1]
 *              [[b]MxNxK[:NN|NT|TN|TT][:f32|f64|bf16|f16] ..]
 *
 * -l: a library with sgemm_ instead of OpenBLAS, or `none`: nobody else is measured.
 * -p 1: b is packed beforehand, where that helps.
 *
 * All of a shape takes turns in rounds, so that whatever else the machine does hits all alike; the
 * figures are each one's best round. One thread is timed by its processor time, several by the
 * clock. Operands lie in the caches as far as they fit. SPDX-License-Identifier: MIT */
#include "runtime/dtype.h"
#include "runtime/gemm.h"
#include "runtime/gemm_kernels.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CODES = 3, PEAK_STEPS = 200000, WAIT_NS = 150000000 };

static double now(int threads)
{
    struct timespec t;
    clock_gettime(threads > 1 ? CLOCK_MONOTONIC : CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* --- the most that the processor can do ---------------------------------------------------------
 */

#if defined(__x86_64__)
typedef float Wide __attribute__((vector_size(64), aligned(4)));
typedef float Half __attribute__((vector_size(32), aligned(4)));

#define CHAINS(V, TARGET, NAME, FMA)                                                               \
    __attribute__((target(TARGET), noinline)) static void NAME(float *to)                          \
    {                                                                                              \
        V a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, a4 = {0}, a5 = {0}, a6 = {0}, a7 = {0},          \
          a8 = {0}, a9 = {0}, a10 = {0}, a11 = {0}, x, y;                                          \
        memcpy(&x, to, sizeof x);                                                                  \
        memcpy(&y, to + 16, sizeof y);                                                             \
        for (int i = 0; i < PEAK_STEPS; i++) {                                                     \
            __asm__ volatile(FMA(0) FMA(1) FMA(2) FMA(3) FMA(4) FMA(5) FMA(6) FMA(7) FMA(8) FMA(9) \
                                 FMA(10) FMA(11)                                                   \
                             : "+v"(a0), "+v"(a1), "+v"(a2), "+v"(a3), "+v"(a4), "+v"(a5),         \
                               "+v"(a6), "+v"(a7), "+v"(a8), "+v"(a9), "+v"(a10), "+v"(a11)        \
                             : "v"(x), "v"(y));                                                    \
        }                                                                                          \
        a0 += a1 + a2 + a3 + a4 + a5 + a6 + a7 + a8 + a9 + a10 + a11;                              \
        memcpy(to, &a0, sizeof a0);                                                                \
    }
#define FMA(i) "vfmadd231ps %12, %13, %" #i "\n\t"
CHAINS(Wide, "avx512f", peak_avx512, FMA)
CHAINS(Half, "avx2,fma", peak_avx2, FMA)
#endif

typedef struct {
    tn__gemm_processor most;
    float at[8][64];
} Peak;

static void peak_cells(void *ctx, int64_t lo, int64_t hi)
{
    Peak *p = ctx;
    for (int64_t i = lo; i < hi; i++) {
#if defined(__x86_64__)
        if (p->most >= TN__GEMM_AVX512)
            peak_avx512(p->at[i % 8]);
        else
            peak_avx2(p->at[i % 8]);
#endif
    }
}

static double peak_of(tn__pool *pool, tn__gemm_processor most)
{
    static Peak p;
    const int threads = tn__pool_threads(pool);
    p.most = most;
    tn__pool_run(pool, peak_cells, &p, threads, 1); /* wakes the threads */
    const double t = now(threads);
    tn__pool_run(pool, peak_cells, &p, threads, 1);
    const double lanes = most >= TN__GEMM_AVX512 ? 16 : 8;
    return threads * 12.0 * PEAK_STEPS * 2 * lanes / (now(threads) - t) * 1e-9;
}

/* --- libraries ----------------------------------------------------------------------------------
 */

/* Fortran's interface, which every BLAS has: columns first. */
typedef void Sgemm(const char *ta, const char *tb, const int *m, const int *n, const int *k,
                   const float *alpha, const float *a, const int *lda, const float *b,
                   const int *ldb, const float *beta, float *c, const int *ldc);
typedef int Dnnl(char ta, char tb, int64_t m, int64_t n, int64_t k, float alpha, const float *a,
                 int64_t lda, const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

typedef struct {
    Sgemm *blas;
    Dnnl *dnnl;
} Libraries;

static void *function(const char *library, const char *name)
{
    void *so = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    return so ? dlsym(so, name) : NULL;
}

static Libraries open_libraries(const char *blas, int threads)
{
    char text[16];
    Libraries l;
    snprintf(text, sizeof text, "%d", threads);
    setenv("OMP_NUM_THREADS", text, 1);
    setenv("OPENBLAS_NUM_THREADS", text, 1);
    unsetenv("OPENBLAS_CORETYPE");
    l.blas = NULL;
    l.dnnl = NULL;
    if (!strcmp(blas, "none"))
        return l;
    *(void **)&l.blas = function(blas, "sgemm_");
    *(void **)&l.dnnl = function("libdnnl.so.2", "dnnl_sgemm");
    return l;
}

/* --- one shape ----------------------------------------------------------------------------------
 */

typedef struct {
    int64_t b, m, n, k;
    bool ta, tb;
    int dtype;
    const char *text;
} Shape;

static bool parse(const char *s, Shape *out)
{
    long long b = 1, m, n, k;
    int used = 0;
    *out = (Shape){.dtype = TN_F32, .text = s};
    if (sscanf(s, "%lldx%lldx%lldx%lld%n", &b, &m, &n, &k, &used) != 4) {
        b = 1;
        if (sscanf(s, "%lldx%lldx%lld%n", &m, &n, &k, &used) != 3)
            return false;
    }
    out->b = b;
    out->m = m;
    out->n = n;
    out->k = k;
    out->ta = strstr(s + used, ":TN") || strstr(s + used, ":TT");
    out->tb = strstr(s + used, ":NT") || strstr(s + used, ":TT");
    if (strstr(s + used, ":f64"))
        out->dtype = TN_F64;
    if (strstr(s + used, ":bf16"))
        out->dtype = TN_BF16;
    else if (strstr(s + used, ":f16"))
        out->dtype = TN_F16;
    return true;
}

typedef struct {
    Shape s;
    void *a, *b, *c;
    tn__gemm_args args;
    tn__gemm_processor most;
    bool pack;
} Case;

static bool make(Case *x)
{
    const Shape *s = &x->s;
    const size_t size = tn__dtype_size(s->dtype);
    const int64_t counts[] = {s->b * s->m * s->k, s->b * s->k * s->n, s->b * s->m * s->n};
    void **to[] = {&x->a, &x->b, &x->c};
    for (int i = 0; i < 3; i++) {
        *to[i] = aligned_alloc(64, ((size_t)counts[i] * size + 63) / 64 * 64);
        if (!*to[i])
            return false;
        for (int64_t j = 0; j < counts[i]; j++) {
            const float v = (float)((j * 37 + 11) % 17 - 8) / 16.0f;
            if (s->dtype == TN_F64)
                ((double *)*to[i])[j] = (double)v;
            else if (s->dtype == TN_F32)
                ((float *)*to[i])[j] = v;
            else
                ((uint16_t *)*to[i])[j] = (uint16_t)(0x3c00 + j % 64);
        }
    }
    x->args =
        (tn__gemm_args){.dtype = s->dtype, .m = s->m, .n = s->n, .k = s->k, .batch = {s->b, 1, 1}};
    x->args.a = (tn__gemm_operand){x->a, s->ta ? 1 : s->k, s->ta ? s->m : 1, {s->m * s->k, 0, 0}};
    x->args.b = (tn__gemm_operand){x->b, s->tb ? 1 : s->n, s->tb ? s->k : 1, {s->k * s->n, 0, 0}};
    x->args.c = (tn__gemm_operand){x->c, s->n, 1, {s->m * s->n, 0, 0}};
    return true;
}

static void run_one(const Case *x, int code, const Libraries *l, tn__pool *pool)
{
    const Shape *s = &x->s;
    const int64_t lda = s->ta ? s->m : s->k, ldb = s->tb ? s->k : s->n;
    if (code == 0) {
        tn__gemm_on(&x->args, pool, x->most);
        return;
    }
    for (int64_t i = 0; i < s->b; i++) {
        const float *a = (const float *)x->a + i * s->m * s->k;
        const float *b = (const float *)x->b + i * s->k * s->n;
        float *c = (float *)x->c + i * s->m * s->n;
        if (code == 1)
            l->blas(s->tb ? "T" : "N", s->ta ? "T" : "N", &(int){(int)s->n}, &(int){(int)s->m},
                    &(int){(int)s->k}, &(float){1}, b, &(int){(int)ldb}, a, &(int){(int)lda},
                    &(float){0}, c, &(int){(int)s->n});
        else
            l->dnnl(s->ta ? 'T' : 'N', s->tb ? 'T' : 'N', s->m, s->n, s->k, 1, a, lda, b, ldb, 0, c,
                    s->n);
    }
}

static void measure(Case *x, const Libraries *l, tn__pool *pool, int rounds)
{
    const Shape *s = &x->s;
    const double flops = 2.0 * (double)(s->b * s->m * s->n) * (double)s->k;
    const int threads = tn__pool_threads(pool);
    const int repeat = (int)(4e8 / flops) + 1;
    const size_t packed = x->pack ? tn__gemm_pack_bytes(&x->args, true) : 0;
    void *const panels = packed ? aligned_alloc(64, (packed + 63) / 64 * 64) : NULL;
    if (panels)
        tn__gemm_pack(&x->args, panels, pool);
    x->args.panels = panels;
    double best[CODES] = {0}, peak = 0;
    for (int r = -1; r < rounds; r++)
        for (int code = 0; code < CODES; code++) {
            if (code && (s->dtype != TN_F32 || (code == 1 ? !l->blas : !l->dnnl)))
                continue;
            /* threads of a library look for more work for a while */
            if (threads > 1 && (l->blas || l->dnnl))
                nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
            run_one(x, code, l, pool);
            const double t = now(threads);
            for (int i = 0; i < repeat; i++)
                run_one(x, code, l, pool);
            const double speed = flops * repeat / (now(threads) - t) * 1e-9;
            if (r >= 0 && speed > best[code])
                best[code] = speed;
            if (code == 0) {
                const double p = peak_of(pool, x->most);
                peak = p > peak ? p : peak;
            }
        }
    const double most = s->dtype == TN_F64 ? peak / 2 : peak;
    printf("%-24s %8.1f %6.1f%%", s->text, best[0], 100 * best[0] / most);
    for (int code = 1; code < CODES; code++)
        printf(best[code] > 0 ? " %9.1f" : "         -", best[code]);
    const double other = best[1] > best[2] ? best[1] : best[2];
    if (other > 0)
        printf(" %8.2fx", best[0] / other);
    printf("\n");
    fflush(stdout);
    free(panels);
}

static const char *const suite[] = {
    "256x256x256",        "1024x1024x1024",   "1024x1024x1024:NT", "1024x1024x1024:TN",
    "64x3072x768",        "64x3072x768:NT",   "8x768x3072",        "8x768x3072:NT",
    "8x3072x768",         "8x3072x768:NT",    "1x768x768",         "1x768x768:NT",
    "64x768x768:NT",      "64x2304x768:NT",   "256x3072x768",      "256x3072x768:NT",
    "1024x3072x768",      "1024x3072x768:NT", "1024x768x3072",     "1024x768x3072:NT",
    "3072x768x1024:TN",   "768x768x64:TN",    "3072x768x64:TN",    "16x384x160:NT",
    "64x2048x768:NT",     "64x512x784:NT",    "64x10x512:NT",      "512x784x64:TN",
    "48x256x256x64:NT",   "48x256x64x256",    "256x256x256:bf16",  "64x3072x768:NT:bf16",
    "64x3072x768:NT:f16", "256x256x256:f64",
};

int main(int argc, char **argv)
{
    bool pack = false;
    const char *blas = "libopenblas.so.0";
    int threads = 1, rounds = 5, at = 1;
    tn__gemm_processor most = TN__GEMM_AVX512;
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        if (argv[at][1] == 't')
            threads = atoi(argv[at + 1]);
        else if (argv[at][1] == 'r')
            rounds = atoi(argv[at + 1]);
        else if (argv[at][1] == 'p')
            pack = atoi(argv[at + 1]) != 0;
        else if (argv[at][1] == 'l')
            blas = argv[at + 1];
        else if (argv[at][1] == 'k')
            most = !strcmp(argv[at + 1], "base")   ? TN__GEMM_BASE
                   : !strcmp(argv[at + 1], "avx2") ? TN__GEMM_AVX2
                                                   : TN__GEMM_AVX512;
    }
    const Libraries l = open_libraries(blas, threads);
    tn__pool *pool = tn__pool_create(threads);
    if (!pool)
        return 1;
    printf("%d threads, at most %.0f GFLOP/s in f32\n", threads, peak_of(pool, most));
    printf("%-24s %8s %7s %9s %9s %9s\n", "shape", "GFLOP/s", "of most", "BLAS", "oneDNN",
           "to best");
    const int n = at < argc ? argc - at : (int)(sizeof suite / sizeof *suite);
    for (int i = 0; i < n; i++) {
        Case x = {.most = most, .pack = pack};
        if (!parse(at < argc ? argv[at + i] : suite[i], &x.s) || !make(&x)) {
            fprintf(stderr, "gemm_bench: what is %s?\n", argv[at + i]);
            return 1;
        }
        measure(&x, &l, pool, rounds);
        free(x.a);
        free(x.b);
        free(x.c);
    }
    tn__pool_destroy(pool);
    return 0;
}
