/* ceilings.c: see ceilings.h. SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* the processors a process may use */
#include "frontend/ceilings.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

Ceilings ceilings_of_gpu(Arena *a, int sm)
{
    static const struct {
        int sm;
        const char *name;
        double operations, bytes;
    } chips[] = {
#define CHIP(sm, name, operations, bytes) {sm, name, operations, bytes},
#include "frontend/ceilings.def"
#undef CHIP
    };
    size_t best = 0;
    for (size_t i = 0; i < sizeof chips / sizeof *chips; i++)
        if (chips[i].sm <= sm)
            best = i;
    return (Ceilings){arena_printf(a, "%s (sm_%d)", chips[best].name, chips[best].sm),
                      chips[best].operations, chips[best].bytes};
}

/* --- the processor -------------------------------------------------------------------------------
 * Multiply-adds on registers, in as many chains as hide their latency; then sums over more memory
 * than caches hold. The best of several tries counts: others may use the machine, too. */

enum { CHAINS = 20, STEPS = 20000, TRIES = 8, BYTES = 48 << 20 };

#if defined __x86_64__
#define WIDE_TARGET(name) __attribute__((target(name)))
#define HAS(name)         __builtin_cpu_supports(name)
#else
#define WIDE_TARGET(name)
#define HAS(name) 0
#endif

#define MULTIPLY_ADD(function, target, lanes)                                                      \
    target static float function(void)                                                             \
    {                                                                                              \
        typedef float Vector __attribute__((vector_size((lanes) * sizeof(float))));                \
        Vector v[CHAINS], sum;                                                                     \
        const Vector x = (Vector){0} + 0.999f, y = (Vector){0} + 1e-3f;                            \
        for (int i = 0; i < CHAINS; i++)                                                           \
            v[i] = (Vector){0} + (float)i;                                                         \
        for (int s = 0; s < STEPS; s++)                                                            \
            _Pragma("GCC unroll 20") for (int i = 0; i < CHAINS; i++) v[i] = v[i] * x + y;         \
        sum = v[0];                                                                                \
        for (int i = 1; i < CHAINS; i++)                                                           \
            sum += v[i];                                                                           \
        return sum[0];                                                                             \
    }

#pragma GCC push_options
#pragma GCC optimize("O2,fp-contract=fast")
MULTIPLY_ADD(multiply_add_v4, WIDE_TARGET("avx512f,fma"), 16)
MULTIPLY_ADD(multiply_add_v3, WIDE_TARGET("avx2,fma"), 8)
MULTIPLY_ADD(multiply_add_base, , 4)

static uint64_t read_memory(const uint64_t *at, size_t n)
{
    uint64_t sum[8] = {0};
    for (size_t i = 0; i + 8 <= n; i += 8)
        for (size_t k = 0; k < 8; k++)
            sum[k] += at[i + k];
    return sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}
#pragma GCC pop_options

typedef struct {
    float (*multiply_add)(void);
    const uint64_t *memory; /* NULL: operations are measured */
    double took;            /* seconds of the processor: what else it does is not counted */
    volatile double seen;   /* what was computed: keeps compilers from leaving it out */
} Worker;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *work(void *of)
{
    Worker *w = of;
    const double begin = now();
    w->seen = w->memory ? (double)read_memory(w->memory, BYTES / sizeof(uint64_t))
                        : (double)w->multiply_add();
    w->took = now() - begin;
    return NULL;
}

/* The shortest time in which every thread, beside the others, did its part. */
static double shortest(Worker *workers, int n)
{
    double best = 1e9;
    for (int try = 0; try < TRIES; try++) {
        pthread_t id[64];
        int started = 1;
        while (started < n && !pthread_create(&id[started], NULL, work, &workers[started]))
            started++;
        work(&workers[0]);
        double longest = workers[0].took;
        for (int i = 1; i < started; i++) {
            pthread_join(id[i], NULL);
            longest = workers[i].took > longest ? workers[i].took : longest;
        }
        const double took = longest * n / started;
        best = took < best ? took : best;
    }
    return best > 1e-9 ? best : 1e-9;
}

static int processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

Ceilings ceilings_of_cpu(Arena *a, int threads)
{
    int n = threads > 0 ? threads : processors();
    n = n > 64 ? 64 : n;
    const bool v4 = HAS("avx512f"), v3 = HAS("avx2") && HAS("fma");
    const int lanes = v4 ? 16 : v3 ? 8 : 4;
    Worker *workers = arena_array(a, Worker, (size_t)n);
    for (int i = 0; i < n; i++)
        workers[i].multiply_add = v4 ? multiply_add_v4 : v3 ? multiply_add_v3 : multiply_add_base;
    const double operations = 2.0 * CHAINS * lanes * STEPS * n / shortest(workers, n);
    uint64_t *memory = malloc((size_t)BYTES * (size_t)n);
    double bytes = 0;
    if (memory) {
        memset(memory, 1, (size_t)BYTES * (size_t)n);
        for (int i = 0; i < n; i++)
            workers[i].memory = memory + (size_t)i * (BYTES / sizeof(uint64_t));
        bytes = (double)BYTES * n / shortest(workers, n);
    }
    free(memory);
    return (Ceilings){
        arena_printf(a, "this processor, %d thread%s, as measured now", n, n == 1 ? "" : "s"),
        operations, bytes > 0 ? bytes : 1e10};
}
