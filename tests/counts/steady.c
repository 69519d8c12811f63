/* steady.c: calls that have run before allocate nothing: neither for what they compute with (plans,
 * temporaries, packed operands) nor for what a call notes down. Linked with --wrap for the
 * allocator. SPDX-License-Identifier: MIT */
#include "steady.h"

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 40, WIDTH = 48, CLASSES = 10, WARM = 3, CALLS = 6 };

/* The linker sends every allocation of the program and of libtenon.a here. Only one thread counts:
 * those of the pool must not allocate either, but then all would have to be atomic. */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
int __real_posix_memalign(void **p, size_t align, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
int __wrap_posix_memalign(void **p, size_t align, size_t n);

static _Atomic int allocations;

void *__wrap_malloc(size_t n)
{
    allocations++;
    return __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size)
{
    allocations++;
    return __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n)
{
    allocations++;
    return __real_realloc(p, n);
}
void *__wrap_aligned_alloc(size_t align, size_t n)
{
    allocations++;
    return __real_aligned_alloc(align, n);
}
int __wrap_posix_memalign(void **p, size_t align, size_t n)
{
    allocations++;
    return __real_posix_memalign(p, align, n);
}

static void must(tn_status s, const char *what)
{
    if (s == TN_OK)
        return;
    fprintf(stderr, "steady: %s: %s\n", what, tn_last_error());
    exit(1);
}

static int expect_none(const char *what, int before)
{
    const int now = allocations - before;
    if (now)
        fprintf(stderr, "steady: %s allocates %d times in %d calls\n", what, now, CALLS);
    return now != 0;
}

int main(void)
{
    static float x[BATCH * WIDTH], y[BATCH * CLASSES], loss;
    static int64_t target[BATCH];
    int64_t x_shape[] = {BATCH, WIDTH}, y_shape[] = {BATCH, CLASSES}, t_shape[] = {BATCH};
    const DLDevice cpu = {kDLCPU, 0};
    const DLDataType f32 = {kDLFloat, 32, 1}, i64 = {kDLInt, 64, 1};
    DLTensor xt = {.data = x, .device = cpu, .ndim = 2, .dtype = f32, .shape = x_shape};
    DLTensor yt = {.data = y, .device = cpu, .ndim = 2, .dtype = f32, .shape = y_shape};
    DLTensor tt = {.data = target, .device = cpu, .ndim = 1, .dtype = i64, .shape = t_shape};
    DLTensor lt = {.data = &loss, .device = cpu, .ndim = 0, .dtype = f32, .shape = x_shape};
    tn_context *ctx = NULL;
    net *m = NULL;
    int wrong = 0, before = 0;
    for (int i = 0; i < BATCH * WIDTH; i++)
        x[i] = (float)(i * 7919 % 200) / 100.0f - 1;
    for (int i = 0; i < BATCH; i++)
        target[i] = i % CLASSES;
    must(tn_context_create(NULL, &ctx), "context");
    must(net_create(ctx, NULL, &m), "create");
    for (int i = 0; i < WARM + CALLS; i++) {
        if (i == WARM)
            before = allocations;
        must(net_loss_step(m, NULL, &xt, &tt, &lt), "loss_step");
    }
    wrong += expect_none("loss_step", before);
    if (!before) {
        fprintf(stderr, "steady: nothing was counted\n");
        wrong++;
    }
    for (int i = 0; i < WARM + CALLS; i++) {
        if (i == WARM)
            before = allocations;
        must(net_forward(m, NULL, &xt, &yt), "forward");
    }
    wrong += expect_none("forward", before);
    net_destroy(m);
    tn_context_destroy(ctx);
    printf("loss %g\n", (double)loss);
    return wrong != 0;
}
