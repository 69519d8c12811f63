/* kept.c: large blocks of the host that were freed and will be wanted again: a call in training
 * asks for a tape as large as the last one's, and the system clears the pages of a new block, which
 * takes as long as many a kernel. What is allocated and what is kept are never more than was
 * allocated at most; what nobody took while others came and went is given back.
 * SPDX-License-Identifier: MIT */
#include "runtime/rt.h"

#include <stdlib.h>
#include <string.h>

enum {
    KEPT_LEAST = 1 << 20, /* bytes; smaller blocks the C library keeps itself */
    KEPT_TURNS = 64       /* that a block waits: blocks that were taken or freed */
};

bool tn__no_cache(void)
{
    const char *plain = getenv("TENON_NO_CACHE");
    return plain && *plain && strcmp(plain, "0") != 0;
}

void tn__kept_open(tn_context *ctx)
{
    pthread_mutex_init(&ctx->kept.lock, NULL);
    ctx->kept.off = tn__no_cache();
#if defined __SANITIZE_ADDRESS__
    ctx->kept.off = true;
#endif
}

void tn__kept_close(tn_context *ctx)
{
    tn__kept_release(ctx);
    pthread_mutex_destroy(&ctx->kept.lock);
}

static void *take(tn__kept *k, int i)
{
    void *p = k->block[i].at;
    k->bytes -= k->block[i].bytes;
    memmove(&k->block[i], &k->block[i + 1], sizeof k->block[0] * (size_t)(k->n - 1 - i));
    k->n--;
    return p;
}

/* A turn: those that waited too long, which are the first, go. */
static void turn(tn__kept *k)
{
    k->turn++;
    while (k->n && k->block[0].turn + KEPT_TURNS < k->turn)
        free(take(k, 0));
}

/* The smallest that is large enough, and not much larger. */
static int fitting(const tn__kept *k, size_t bytes)
{
    int best = -1;
    for (int i = 0; i < k->n; i++)
        if (k->block[i].bytes >= bytes && k->block[i].bytes - bytes <= bytes / 4 &&
            (best < 0 || k->block[i].bytes < k->block[best].bytes))
            best = i;
    return best;
}

void *tn__kept_take(tn_context *ctx, size_t bytes)
{
    tn__kept *k = &ctx->kept;
    if (bytes < KEPT_LEAST || k->off)
        return NULL;
    pthread_mutex_lock(&k->lock);
    turn(k);
    const int i = fitting(k, bytes);
    void *p = i < 0 ? NULL : take(k, i);
    const size_t held = atomic_load(&ctx->bytes), peak = atomic_load(&ctx->peak);
    while (!p && k->n && held + bytes + k->bytes > peak)
        free(take(k, 0));
    pthread_mutex_unlock(&k->lock);
    return p;
}

void tn__kept_put(tn_context *ctx, void *block, size_t bytes)
{
    tn__kept *k = &ctx->kept;
    if (bytes < KEPT_LEAST || k->off) {
        free(block);
        return;
    }
    pthread_mutex_lock(&k->lock);
    turn(k);
    if (k->n == TN_KEPT_MOST)
        free(take(k, 0));
    k->block[k->n].at = block;
    k->block[k->n].bytes = bytes;
    k->block[k->n].turn = k->turn;
    k->n++;
    k->bytes += bytes;
    pthread_mutex_unlock(&k->lock);
}

void tn__kept_release(tn_context *ctx)
{
    tn__kept *k = &ctx->kept;
    pthread_mutex_lock(&k->lock);
    while (k->n)
        free(take(k, 0));
    pthread_mutex_unlock(&k->lock);
}

size_t tn__kept_bytes(tn_context *ctx)
{
    pthread_mutex_lock(&ctx->kept.lock);
    const size_t n = ctx->kept.bytes;
    pthread_mutex_unlock(&ctx->kept.lock);
    return n;
}
