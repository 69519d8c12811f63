/* cuda_memory.c: memory of GPUs, copies and fills. SPDX-License-Identifier: MIT */
#include "runtime/cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the heap's device ---------------------------------------------------------------------------
 * The device is locked and entered. */

static uint64_t heap_take(void *user, size_t bytes)
{
    tn__gpu *g = user;
    CUdeviceptr at = 0;
    g->refusal = g->cu->alloc(&at, bytes);
    return g->refusal ? 0 : (uint64_t)at;
}

static void heap_give(void *user, uint64_t at)
{
    const tn__gpu *g = user;
    g->cu->free(at);
}

static void heap_settle(void *user)
{
    const tn__gpu *g = user;
    g->cu->sync_context();
}

static void *heap_mark(void *user, uint64_t stream)
{
    const tn__gpu *g = user;
    const tn_stream *s = g->streams;
    CUevent e = NULL;
    while (s && s->id != stream)
        s = s->next;
    if (!s)
        return NULL;
    CUresult r = g->cu->event_create(&e, CU_EVENT_DISABLE_TIMING);
    if (!r)
        r = g->cu->event_record(e, s->native);
    if (!r)
        return e;
    if (e)
        g->cu->event_destroy(e);
    g->cu->stream_sync(s->native); /* as good, and needs nothing */
    return NULL;
}

static bool heap_passed(void *user, void *mark)
{
    const tn__gpu *g = user;
    return g->cu->event_query(mark) != CUDA_ERROR_NOT_READY;
}

static void heap_drop(void *user, void *mark)
{
    const tn__gpu *g = user;
    g->cu->event_destroy(mark);
}

tn_status tn__gpu_heap_open(tn__gpu *g)
{
    const tn__heap_device device = {.user = g,
                                    .take = heap_take,
                                    .give = heap_give,
                                    .settle = heap_settle,
                                    .mark = heap_mark,
                                    .passed = heap_passed,
                                    .drop = heap_drop};
    g->heap = tn__heap_new(&device, tn__no_cache());
    return g->heap ? TN_OK : tn__fail(TN_MEMORY, "no memory for a device");
}

/* --- blocks --------------------------------------------------------------------------------------
 */

static const char *use_name(int use)
{
    static const char *const names[TN_FOR_USES] = {
        [TN_FOR_STATE] = "state", [TN_FOR_TEMPS] = "temporary values",
        [TN_FOR_TAPE] = "tapes",  [TN_FOR_RESULT] = "results",
        [TN_FOR_COPY] = "copies", [TN_FOR_LIBRARY] = "libraries",
    };
    return use >= 0 && use < TN_FOR_USES ? names[use] : "?";
}

static size_t mib(size_t bytes)
{
    return (bytes + (1 << 20) - 1) >> 20;
}

/* Who holds what, in the message. */
static void no_memory(tn__gpu *g, size_t bytes, tn__use use)
{
    size_t uses[TN_FOR_USES], free_bytes = 0, total = 0, n = 0;
    char held[512] = "";
    g->cu->info(&free_bytes, &total);
    tn__heap_uses(g->heap, uses, TN_FOR_USES);
    const size_t reserved = tn__heap_sum(g->heap).reserved;
    for (int i = 0; i < TN_FOR_USES; i++)
        if (uses[i] && n < sizeof held)
            n += (size_t)snprintf(held + n, sizeof held - n, "%s%s %zu MiB", n ? ", " : "",
                                  use_name(i), mib(uses[i]));
    const size_t used = total - free_bytes, others = used > reserved ? used - reserved : 0;
    tn__fail(TN_MEMORY,
             "out of memory on cuda:%d: %zu MiB wanted for %s; of %zu MiB, %zu are free; held "
             "here: %s; by others: %zu MiB",
             (int)g->base.dl.device_id, mib(bytes), use_name((int)use), total >> 20,
             free_bytes >> 20, n ? held : "nothing", mib(others));
}

void *tn__gpu_alloc(tn__device *d, tn_stream *s, size_t bytes, tn__use use)
{
    tn__gpu *g = tn__gpu_of(d);
    pthread_mutex_lock(&g->lock);
    const uint64_t at = tn__heap_alloc(g->heap, s->id, bytes, (int)use);
    if (!at && g->refusal != CUDA_ERROR_OUT_OF_MEMORY && g->refusal) /* of earlier work */
        tn__cu(g, g->refusal, "cuMemAlloc");
    else if (!at)
        no_memory(g, bytes, use);
    if (at && s->recorder)
        tn__record_memory(s, (void *)(uintptr_t)at);
    pthread_mutex_unlock(&g->lock);
    return (void *)(uintptr_t)at;
}

void tn__gpu_free(tn__device *d, void *p, uint64_t last)
{
    tn__gpu *g = tn__gpu_of(d);
    if (!p)
        return;
    pthread_mutex_lock(&g->lock);
    if (!tn__record_keeps(g, p))
        tn__heap_free(g->heap, (uint64_t)(uintptr_t)p, last);
    pthread_mutex_unlock(&g->lock);
}

tn_status tn__gpu_record(tn__device *d, void *p, tn_stream *s)
{
    tn__gpu *g = tn__gpu_of(d);
    pthread_mutex_lock(&g->lock);
    const bool done = tn__heap_record(g->heap, (uint64_t)(uintptr_t)p, s->id);
    pthread_mutex_unlock(&g->lock);
    return done ? TN_OK : tn__fail(TN_INVALID, "the memory is not the runtime's");
}

/* --- copies and fills ----------------------------------------------------------------------------
 */

static CUdeviceptr address(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

/* What a call gave to the device went well; where every step is waited for, it is done. */
static tn_status given(tn_stream *s, CUresult r, const char *what)
{
    const tn_status e = tn__cu(tn__gpu_of(s->dev), r, what);
    return e ? e : tn__cu_step(s, what);
}

tn_status tn__gpu_upload(tn_stream *s, void *to, const void *from, size_t bytes)
{
    const tn__gpu *g = tn__gpu_of(s->dev);
    return bytes ? given(s, g->cu->upload(address(to), from, bytes, s->native),
                         "a copy to the device")
                 : TN_OK;
}

tn_status tn__gpu_download(tn_stream *s, void *to, const void *from, size_t bytes)
{
    const tn__gpu *g = tn__gpu_of(s->dev);
    return bytes ? given(s, g->cu->download(to, address(from), bytes, s->native),
                         "a copy from the device")
                 : TN_OK;
}

tn_status tn__gpu_copy(tn_stream *s, void *to, const void *from, size_t bytes)
{
    const tn__gpu *g = tn__gpu_of(s->dev);
    const uint64_t words[] = {address(to), address(from), bytes};
    if (s->recorder && bytes && tn__record_other(s, words, 3))
        return TN_OK;
    return bytes ? given(s, g->cu->copy(address(to), address(from), bytes, s->native),
                         "a copy on the device")
                 : TN_OK;
}

tn_status tn__gpu_peer(tn_stream *s, void *to, tn__device *dst, const void *from, tn__device *src,
                       size_t bytes)
{
    const tn__gpu *g = tn__gpu_of(s->dev);
    return given(s,
                 g->cu->copy_peer(address(to), tn__gpu_of(dst)->context, address(from),
                                  tn__gpu_of(src)->context, bytes, s->native),
                 "a copy between devices");
}

/* The driver fills with up to 4 bytes; halves of 8 are two columns. */
static CUresult fill8_bytes(const tn__driver *cu, CUdeviceptr to, const void *one, size_t n,
                            CUstream s)
{
    uint32_t half[2];
    memcpy(half, one, 8);
    if (half[0] == half[1])
        return cu->fill32(to, half[0], 2 * n, s);
    if (n == 1) {
        const CUresult r = cu->fill32(to, half[0], 1, s);
        return r ? r : cu->fill32(to + 4, half[1], 1, s);
    }
    const CUresult r = cu->fill32_rows(to, 8, half[0], 1, n, s);
    return r ? r : cu->fill32_rows(to + 4, 8, half[1], 1, n, s);
}

tn_status tn__gpu_fill(tn_stream *s, void *to, const void *one, size_t size, size_t n)
{
    const tn__driver *cu = tn__gpu_of(s->dev)->cu;
    const CUdeviceptr at = address(to);
    uint16_t u16 = 0;
    uint32_t u32 = 0;
    CUresult r;
    uint64_t words[] = {at, n, 0};
    memcpy(&words[2], one, size);
    if (s->recorder && tn__record_other(s, words, 3))
        return TN_OK;
    switch (size) {
    case 1:
        r = cu->fill8(at, *(const unsigned char *)one, n, s->native);
        break;
    case 2:
        memcpy(&u16, one, sizeof u16);
        r = cu->fill16(at, u16, n, s->native);
        break;
    case 4:
        memcpy(&u32, one, sizeof u32);
        r = cu->fill32(at, u32, n, s->native);
        break;
    default:
        r = fill8_bytes(cu, at, one, n, s->native);
    }
    return given(s, r, "a fill");
}

/* --- numbers -------------------------------------------------------------------------------------
 */

tn__memory tn__cuda_memory(tn__device *d)
{
    tn__gpu *g = tn__gpu_of(d);
    pthread_mutex_lock(&g->lock);
    const tn__heap_sums m = tn__heap_sum(g->heap);
    pthread_mutex_unlock(&g->lock);
    return (tn__memory){m.allocated, m.max_allocated, m.reserved, m.max_reserved};
}

void tn__cuda_reset_peak(tn__device *d)
{
    tn__gpu *g = tn__gpu_of(d);
    pthread_mutex_lock(&g->lock);
    tn__heap_reset_peak(g->heap);
    pthread_mutex_unlock(&g->lock);
}

tn_status tn__cuda_empty_cache(tn__device *d)
{
    tn__gpu *g = tn__gpu_of(d);
    d->ops->enter(d);
    pthread_mutex_lock(&g->lock);
    tn__heap_empty(g->heap);
    pthread_mutex_unlock(&g->lock);
    d->ops->leave(d);
    return TN_OK;
}

typedef struct {
    char *out;
    size_t n, at;
    bool more;
} Text;

__attribute__((format(printf, 2, 3))) static void add(Text *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const bool room = t->at < t->n;
    const int k = vsnprintf(room ? t->out + t->at : NULL, room ? t->n - t->at : 0, fmt, ap);
    va_end(ap);
    t->at += k > 0 ? (size_t)k : 0;
}

static void add_block(void *user, uint64_t at, size_t bytes, int use, bool in_use, uint64_t stream)
{
    Text *t = user;
    add(t, "%s{\"address\": %llu, \"bytes\": %zu, \"use\": \"%s\", \"stream\": %llu}",
        t->more ? ", " : "", (unsigned long long)at, bytes, in_use ? use_name(use) : "free",
        (unsigned long long)stream);
    t->more = true;
}

size_t tn__cuda_snapshot(tn__device *d, char *out, size_t n)
{
    tn__gpu *g = tn__gpu_of(d);
    Text t = {.out = out, .n = n};
    pthread_mutex_lock(&g->lock);
    const tn__heap_sums m = tn__heap_sum(g->heap);
    add(&t,
        "{\"device\": \"cuda:%d\", \"allocated\": %zu, \"max_allocated\": %zu, \"reserved\": %zu, "
        "\"max_reserved\": %zu, \"blocks\": [",
        (int)d->dl.device_id, m.allocated, m.max_allocated, m.reserved, m.max_reserved);
    tn__heap_each(g->heap, add_block, &t);
    add(&t, "]}");
    pthread_mutex_unlock(&g->lock);
    return t.at;
}

/* --- pinned memory -------------------------------------------------------------------------------
 */

tn_status tn__cuda_host_alloc(tn__device *d, size_t bytes, void **out)
{
    tn__gpu *g = tn__gpu_of(d);
    tn__cuda *c = g->cuda;
    pthread_mutex_lock(&d->ctx->lock);
    void **list = realloc(c->pinned, sizeof *list * (size_t)(c->npinned + 1));
    tn_status s = list ? TN_OK : tn__fail(TN_MEMORY, "no memory to list pinned memory");
    if (list) {
        c->pinned = list;
        d->ops->enter(d);
        s = tn__cu(g, g->cu->host_alloc(out, bytes ? bytes : 1, CU_HOST_PORTABLE), "pinned memory");
        d->ops->leave(d);
        if (!s)
            list[c->npinned++] = *out;
    }
    pthread_mutex_unlock(&d->ctx->lock);
    return s;
}

bool tn__cuda_host_free(tn_context *ctx, void *p)
{
    bool found = false;
    pthread_mutex_lock(&ctx->lock);
    tn__cuda *c = ctx->cuda;
    for (int i = 0; c && i < c->npinned && !found; i++)
        if (c->pinned[i] == p) {
            c->pinned[i] = c->pinned[--c->npinned];
            found = true;
        }
    if (found) {
        tn__device *d = &c->gpus[0]->base;
        d->ops->enter(d);
        c->cu.host_free(p);
        d->ops->leave(d);
    }
    pthread_mutex_unlock(&ctx->lock);
    return found;
}

tn_status tn__cuda_host_register(tn__device *d, void *p, size_t bytes, bool on)
{
    tn__gpu *g = tn__gpu_of(d);
    d->ops->enter(d);
    const CUresult r =
        on ? g->cu->host_register(p, bytes, CU_HOST_PORTABLE) : g->cu->host_unregister(p);
    d->ops->leave(d);
    return tn__cu(g, r, on ? "pinning memory" : "unpinning memory");
}
