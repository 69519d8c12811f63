/* context.c: contexts: threads, devices. SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

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

/* TENON_CPU asks for less than the processor has, to see what others compute. */
static tn_status choose_level(int *level)
{
    static const struct {
        const char *name;
        int level;
    } names[] = {{"x86-64", 1}, {"x86-64-v3", 3}, {"x86-64-v4", 4}};
    const char *text = getenv("TENON_CPU");
    *level = tn__cpu_level();
    if (!text || !*text)
        return TN_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(text, names[i].name)) {
            *level = names[i].level < *level ? names[i].level : *level;
            return TN_OK;
        }
    return tn__fail(TN_INVALID, "TENON_CPU is '%s': expected x86-64, x86-64-v3 or x86-64-v4", text);
}

tn_status tn_context_create(const tn_context_options *opt, tn_context **out)
{
    if (!out)
        return tn__fail(TN_INVALID, "out is NULL");
    *out = NULL;
    int threads, level;
    tn_status s = count_threads(opt, &threads);
    if (!s)
        s = choose_level(&level);
    if (s)
        return s;
    tn_context *ctx = calloc(1, sizeof *ctx);
    if (!ctx)
        return tn__fail(TN_MEMORY, "no memory for a context");
    ctx->threads = threads;
    ctx->level = level;
    ctx->pool = tn__pool_create(threads);
    if (!ctx->pool) {
        free(ctx);
        return tn__fail(TN_MEMORY, "cannot start %d threads", threads);
    }
    pthread_mutex_init(&ctx->lock, NULL);
    tn__kept_open(ctx);
    const tn_status e = tn__cpu_open(ctx);
    if (e) {
        tn_context_destroy(ctx);
        return e;
    }
    *out = ctx;
    return TN_OK;
}

void tn_context_destroy(tn_context *ctx)
{
    if (!ctx)
        return;
    tn__cuda_close(ctx);
    tn__cpu_close(ctx);
    tn__pool_destroy(ctx->pool);
    tn__kept_close(ctx);
    pthread_mutex_destroy(&ctx->lock);
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
