/* context.c: contexts, streams, events and counted memory of the CPU. SPDX-License-Identifier: MIT
 */
#include "runtime/rt.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_THREADS = 256 };

static int usable_cores(void)
{
#ifdef __linux__
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set);
#endif
    return 1;
}

static tn_status count_threads(const tn_context_options *opt, int *threads)
{
    *threads = opt && (opt->size == 0 || opt->size >= sizeof *opt) ? opt->threads : 0;
    const char *text = getenv("TENON_THREADS");
    if (*threads == 0 && text && *text) {
        char *end;
        errno = 0;
        const long n = strtol(text, &end, 10);
        if (*end || errno || n < 1 || n > MAX_THREADS)
            return tn__fail(TN_INVALID, "TENON_THREADS is '%s': expected a number from 1 to %d",
                            text, MAX_THREADS);
        *threads = (int)n;
    }
    if (*threads == 0)
        *threads = usable_cores();
    if (*threads < 1 || *threads > MAX_THREADS)
        return tn__fail(TN_INVALID, "%d threads: expected 1 to %d", *threads, MAX_THREADS);
    return TN_OK;
}

tn_status tn_context_create(const tn_context_options *opt, tn_context **out)
{
    if (!out)
        return tn__fail(TN_INVALID, "out is NULL");
    *out = NULL;
    int threads;
    const tn_status s = count_threads(opt, &threads);
    if (s)
        return s;
    tn_context *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return tn__fail(TN_MEMORY, "no memory for a context");
    ctx->threads = threads;
    ctx->pool = tn__pool_create(threads);
    if (!ctx->pool) {
        free(ctx);
        return tn__fail(TN_MEMORY, "cannot start %d threads", threads);
    }
    *out = ctx;
    return TN_OK;
}

void tn_context_destroy(tn_context *ctx)
{
    if (!ctx)
        return;
    tn__pool_destroy(ctx->pool);
    free(ctx);
}

void tn_context_set_print(tn_context *ctx, tn_print *print, void *user)
{
    if (ctx) {
        ctx->print = print;
        ctx->print_user = user;
    }
}

int tn_context_threads(const tn_context *ctx)
{
    return ctx ? ctx->threads : 0;
}

/* A header in front of the memory keeps its size; the memory itself is aligned to TN_ALIGN. */
void *tn__alloc(tn_context *ctx, size_t bytes)
{
    if (bytes > SIZE_MAX / 2 - 2 * TN_ALIGN)
        return tn__fail(TN_MEMORY, "%zu bytes are more than there can be", bytes), NULL;
    const size_t whole = (bytes + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN + TN_ALIGN;
    char *p = aligned_alloc(TN_ALIGN, whole);
    if (!p) {
        tn__fail(TN_MEMORY, "out of memory: %zu bytes wanted, %zu held", bytes,
                 atomic_load(&ctx->bytes));
        return NULL;
    }
    memcpy(p, &whole, sizeof whole);
    const size_t now = atomic_fetch_add(&ctx->bytes, whole) + whole;
    size_t peak = atomic_load(&ctx->peak);
    while (now > peak && !atomic_compare_exchange_weak(&ctx->peak, &peak, now)) {
    }
    return p + TN_ALIGN;
}

void tn__free(tn_context *ctx, void *p)
{
    if (!p)
        return;
    char *block = (char *)p - TN_ALIGN;
    size_t whole;
    memcpy(&whole, block, sizeof whole);
    atomic_fetch_sub(&ctx->bytes, whole);
    free(block);
}

size_t tn_memory_allocated(const tn_context *ctx)
{
    return ctx ? atomic_load(&ctx->bytes) : 0;
}

size_t tn_memory_max_allocated(const tn_context *ctx)
{
    return ctx ? atomic_load(&ctx->peak) : 0;
}

void tn_memory_reset_peak(tn_context *ctx)
{
    if (ctx)
        atomic_store(&ctx->peak, atomic_load(&ctx->bytes));
}

tn_status tn_stream_create(tn_context *ctx, tn_stream **out)
{
    if (!ctx || !out)
        return tn__fail(TN_INVALID, "ctx or out is NULL");
    *out = calloc(1, sizeof **out);
    if (!*out)
        return tn__fail(TN_MEMORY, "no memory for a stream");
    (*out)->ctx = ctx;
    return TN_OK;
}

void tn_stream_destroy(tn_stream *s)
{
    free(s);
}

tn_status tn_stream_synchronize(tn_stream *s)
{
    (void)s; /* work on the CPU is done when the call returns */
    return TN_OK;
}

tn_status tn_event_create(tn_context *ctx, tn_event **out)
{
    if (!ctx || !out)
        return tn__fail(TN_INVALID, "ctx or out is NULL");
    *out = calloc(1, sizeof **out);
    if (!*out)
        return tn__fail(TN_MEMORY, "no memory for an event");
    (*out)->ms = -1;
    return TN_OK;
}

void tn_event_destroy(tn_event *e)
{
    free(e);
}

tn_status tn_event_record(tn_event *e, tn_stream *s)
{
    (void)s;
    if (!e)
        return tn__fail(TN_INVALID, "the event is NULL");
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    e->ms = (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
    return TN_OK;
}

tn_status tn_event_elapsed_ms(const tn_event *from, const tn_event *to, double *ms)
{
    if (!from || !to || !ms)
        return tn__fail(TN_INVALID, "an event or the result is NULL");
    if (from->ms < 0 || to->ms < 0)
        return tn__fail(TN_STATE, "an event was not recorded");
    *ms = to->ms - from->ms;
    return TN_OK;
}

tn_status tn_stream_wait_event(tn_stream *s, const tn_event *e)
{
    (void)s; /* what was recorded has happened */
    return e ? TN_OK : tn__fail(TN_INVALID, "the event is NULL");
}
