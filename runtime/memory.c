/* memory.c: counted memory of the host, pinned memory, and what is known about memory of devices.
 * SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE_PAGE ((size_t)2 << 20) /* bytes of a large page */

/* Large blocks ask for large pages: the first touch of a block costs a tenth of what it does with
 * small ones, and strides meet fewer pages. */
static void *host_alloc(size_t bytes)
{
    void *p = NULL;
    if (bytes < 2 * LARGE_PAGE)
        return aligned_alloc(TN_ALIGN, bytes);
    if (posix_memalign(&p, LARGE_PAGE, bytes))
        return NULL;
#ifdef MADV_HUGEPAGE
    (void)madvise(p, bytes / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE); /* a wish */
#endif
    return p;
}

/* A header in front of the memory keeps its size; the memory itself is aligned to TN_ALIGN. */
void *tn__alloc(tn_context *ctx, size_t bytes)
{
    if (bytes > SIZE_MAX / 2 - 2 * TN_ALIGN)
        return tn__fail(TN_MEMORY, "%zu bytes are more than there can be", bytes), NULL;
    size_t whole = (bytes + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN + TN_ALIGN;
    char *p = tn__kept_take(ctx, whole);
    if (p) {
        memcpy(&whole, p, sizeof whole); /* it may be larger */
    } else {
        p = host_alloc(whole);
        if (!p) {
            tn__kept_release(ctx);
            p = host_alloc(whole);
        }
    }
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
    tn__kept_put(ctx, block, whole);
}

/* The device, without waking the driver for what it does not hold anyway. */
static tn__device *known(tn_context *ctx, DLDevice device)
{
    return ctx ? tn__device_get(ctx, device) : NULL;
}

static tn__memory memory_of(tn_context *ctx, DLDevice device)
{
    tn__device *d = known(ctx, device);
    if (!d)
        return (tn__memory){0};
    if (!d->ops->host)
        return tn__cuda_memory(d);
    const size_t now = atomic_load(&ctx->bytes), peak = atomic_load(&ctx->peak);
    const size_t reserved =
        now + tn__kept_bytes(ctx); /* more than the peak only if that was reset */
    return (tn__memory){now, peak, reserved, reserved > peak ? reserved : peak};
}

size_t tn_memory_allocated(tn_context *ctx, DLDevice device)
{
    return memory_of(ctx, device).allocated;
}

size_t tn_memory_max_allocated(tn_context *ctx, DLDevice device)
{
    return memory_of(ctx, device).max_allocated;
}

size_t tn_memory_reserved(tn_context *ctx, DLDevice device)
{
    return memory_of(ctx, device).reserved;
}

size_t tn_memory_max_reserved(tn_context *ctx, DLDevice device)
{
    return memory_of(ctx, device).max_reserved;
}

void tn_memory_reset_peak(tn_context *ctx, DLDevice device)
{
    tn__device *d = known(ctx, device);
    if (d && !d->ops->host)
        tn__cuda_reset_peak(d);
    else if (d)
        atomic_store(&ctx->peak, atomic_load(&ctx->bytes));
}

tn_status tn_memory_empty_cache(tn_context *ctx, DLDevice device)
{
    if (!ctx)
        return tn__fail(TN_INVALID, "ctx is NULL");
    tn__device *d = known(ctx, device);
    if (!d)
        return TN_UNSUPPORTED;
    if (!d->ops->host)
        return tn__cuda_empty_cache(d);
    tn__kept_release(ctx);
    return TN_OK;
}

size_t tn_memory_snapshot(tn_context *ctx, DLDevice device, char *out, size_t n)
{
    tn__device *d = known(ctx, device);
    if (d && !d->ops->host)
        return tn__cuda_snapshot(d, out, n);
    const tn__memory m = memory_of(ctx, device);
    const int k =
        snprintf(out, n, "{\"device\": \"cpu\", \"allocated\": %zu, \"max_allocated\": %zu}",
                 m.allocated, m.max_allocated);
    return k > 0 ? (size_t)k : 0;
}

/* --- pinned memory -------------------------------------------------------------------------------
 */

/* Where there is a GPU, the first one; pinned memory is pinned for all. */
static tn__device *gpu(tn_context *ctx)
{
    return tn__cuda_count(ctx) > 0 ? tn__cuda_get(ctx, 0) : NULL;
}

tn_status tn_host_alloc(tn_context *ctx, size_t bytes, void **out)
{
    if (!ctx || !out)
        return tn__fail(TN_INVALID, "ctx or out is NULL");
    tn__device *d = gpu(ctx);
    if (d)
        return tn__cuda_host_alloc(d, bytes, out);
    *out = tn__alloc(ctx, bytes);
    return *out ? TN_OK : TN_MEMORY;
}

void tn_host_free(tn_context *ctx, void *p)
{
    if (ctx && p && !tn__cuda_host_free(ctx, p))
        tn__free(ctx, p);
}

tn_status tn_host_register(tn_context *ctx, void *p, size_t bytes)
{
    if (!ctx || !p || !bytes)
        return tn__fail(TN_INVALID, "ctx or p is NULL, or bytes is 0");
    tn__device *d = gpu(ctx);
    return d ? tn__cuda_host_register(d, p, bytes, true) : TN_OK;
}

tn_status tn_host_unregister(tn_context *ctx, void *p)
{
    if (!ctx || !p)
        return tn__fail(TN_INVALID, "ctx or p is NULL");
    tn__device *d = gpu(ctx);
    return d ? tn__cuda_host_register(d, p, 0, false) : TN_OK;
}
