/* peak.c: what the processor can do: multiply-adds on registers, for each thread, until asked to
 * stop. peak THREADS      answers "run N" with "MEDIAN LEAST CPU" seconds, as driver.c does
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CHAINS = 24, LANES = 16, STEPS = 200000 };
typedef float Vector __attribute__((vector_size(LANES * sizeof(float))));

/* 24 chains hide the latency of a multiply-add; the empty statement keeps them in registers. */
static void *work(void *out)
{
    Vector v[CHAINS];
    const Vector a = (Vector){0} + 0.999f, b = (Vector){0} + 1e-3f;
    for (int i = 0; i < CHAINS; i++)
        v[i] = (Vector){0} + (float)i;
    for (int s = 0; s < STEPS; s++) {
#pragma GCC unroll 24
        for (int i = 0; i < CHAINS; i++)
            v[i] = v[i] * a + b;
    }
    Vector sum = v[0];
    for (int i = 1; i < CHAINS; i++)
        sum += v[i];
    *(float *)out = sum[0];
    return NULL;
}

static double now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 1;
    char line[256];
    int n;
    if (threads < 1 || threads > 64)
        return 2;
    puts("ready 0");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) && sscanf(line, "run %d", &n) == 1 && n > 0) {
        double *t = calloc((size_t)n, sizeof *t);
        const double cpu = now(CLOCK_PROCESS_CPUTIME_ID);
        for (int i = 0; t && i < n; i++) {
            pthread_t other[64];
            float out[64];
            const double begin = now(CLOCK_MONOTONIC);
            for (int k = 1; k < threads; k++)
                if (pthread_create(&other[k], NULL, work, &out[k]))
                    return 1;
            work(&out[0]);
            for (int k = 1; k < threads; k++)
                pthread_join(other[k], NULL);
            t[i] = now(CLOCK_MONOTONIC) - begin;
        }
        if (!t)
            return 1;
        qsort(t, (size_t)n, sizeof *t, by_value);
        printf("%.9g %.9g %.9g\n", t[n / 2], t[0], (now(CLOCK_PROCESS_CPUTIME_ID) - cpu) / n);
        fflush(stdout);
        free(t);
    }
    return 0;
}
