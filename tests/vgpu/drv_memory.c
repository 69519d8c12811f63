/* drv_memory.c: device memory, pinned host memory, managed memory, pools, and what is asked about
 * pointers. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv_memory.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096, ALIGN = 256, PITCH = 512 };

static Piece *pieces[BUCKETS];

static Piece **bucket_of(uint64_t base)
{
    return &pieces[(base >> 8) * 0x9e3779b97f4a7c15u >> 52];
}

static Piece *piece_add(PieceKind kind, const Alloc *a, Context *c)
{
    Piece *p = drv_alloc(sizeof *p);
    *p = (Piece){.next = *bucket_of(a->base),
                 .kind = kind,
                 .base = a->base,
                 .bytes = a->end - a->base,
                 .context = c,
                 .made_by = drv_intern(call_name())};
    *bucket_of(a->base) = p;
    return p;
}

Piece *piece_find(uint64_t base)
{
    Piece *p = *bucket_of(base);
    while (p && p->base != base)
        p = p->next;
    return p;
}

static void piece_remove(Piece *p)
{
    Piece **at = bucket_of(p->base);
    while (*at != p)
        at = &(*at)->next;
    *at = p->next;
    free(p);
}

void piece_each(void (*visit)(Piece *p, void *with), void *with)
{
    for (int k = 0; k < BUCKETS; k++)
        for (Piece *p = pieces[k], *next; p; p = next) {
            next = p->next;
            visit(p, with);
        }
}

/** Gives the memory back now: nothing that runs may use it any more. */
static void piece_free(Piece *p)
{
    Alloc *a = memory_find(p->base);
    if (a && !a->freed)
        memory_free(a);
    if (p->kind == PIECE_HOST || p->kind == PIECE_MANAGED)
        free((void *)(uintptr_t)p->base);
    if (p->pool)
        p->pool->used -= p->bytes;
    piece_remove(p);
}

static void end_piece(Piece *p, void *with)
{
    if (p->context == with)
        piece_free(p);
}

void context_memory_end(Context *c)
{
    piece_each(end_piece, c);
}

bool is_pinned(const void *host)
{
    const Alloc *a = memory_find((uint64_t)(uintptr_t)host);
    return a && !a->freed && !a->device;
}

/* --- device memory --------------------------------------------------------------------------- */

static CUresult allocate(CUdeviceptr *out, size_t bytes, Piece **piece)
{
    call_note("%zu", bytes);
    if (!out || bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    Context *c = context_current();
    Alloc *a = memory_alloc(c->device, bytes, ALIGN);
    if (!a) { /* what was freed in a stream's order may have to run first */
        queue_flush();
        a = memory_alloc(c->device, bytes, ALIGN);
    }
    if (!a)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *piece = piece_add(PIECE_DEVICE, a, c);
    *out = a->base;
    call_note("%zu -> 0x%llx", bytes, (unsigned long long)a->base);
    return CUDA_SUCCESS;
}

API cuMemAlloc(CUdeviceptr *out, size_t bytes)
{
    Piece *p;
    CUresult r = call_enter(__func__, WORKING);
    if (!r)
        r = capture_unsafe();
    if (!r)
        r = allocate(out, bytes, &p);
    return call_leave(r);
}

API cuMemAllocPitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                    unsigned int element)
{
    Piece *p;
    CUresult r = call_enter(__func__, WORKING);
    if (!r && (!pitch || !width || !height || (element != 4 && element != 8 && element != 16)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        r = capture_unsafe();
    if (!r) {
        *pitch = (width + PITCH - 1) / PITCH * PITCH;
        r = allocate(out, *pitch * height, &p);
    }
    return call_leave(r);
}

/** The piece that begins at `address` and may be freed so, or NULL after a finding. */
static Piece *piece_to_free(uint64_t address, bool host)
{
    Piece *p = piece_find(address);
    const Alloc *a = memory_find(address);
    bool fits =
        p && (host ? p->kind == PIECE_HOST : p->kind == PIECE_DEVICE || p->kind == PIECE_MANAGED);
    if (fits)
        return p;
    if (a && a->freed && a->base == address)
        misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx was freed before", (unsigned long long)address);
    else if (a && a->base != address)
        misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is byte %llu of an allocation, not its begin",
               (unsigned long long)address, (unsigned long long)(address - a->base));
    else
        misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is not memory that this call frees",
               (unsigned long long)address);
    return NULL;
}

/* The device ends its work first, which is no promise to the host: it does not count as waiting. */
static CUresult free_now(uint64_t address, bool host)
{
    Piece *p = piece_to_free(address, host);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult error = p->context->error;
    queue_flush();
    piece_free(p);
    return error;
}

API cuMemFree(CUdeviceptr address)
{
    CUresult r = call_enter(__func__, CURRENT);
    call_note("0x%llx", (unsigned long long)address);
    if (!r)
        r = capture_unsafe();
    if (!r && address)
        r = free_now(address, false);
    return call_leave(r);
}

API cuMemGetInfo(size_t *available, size_t *total)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r && (!available || !total))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r) {
        const Device *d = context_current()->device;
        *total = memory_total(d);
        *available = memory_total(d) - memory_used(d);
    }
    return call_leave(r);
}

API cuMemGetAddressRange(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    CUresult r = call_enter(__func__, WORKING);
    const Alloc *a = r ? NULL : memory_find(address);
    if (!r && (!a || a->freed))
        r = CUDA_ERROR_NOT_FOUND;
    if (!r && base)
        *base = a->base;
    if (!r && bytes)
        *bytes = a->end - a->base;
    return call_leave(r);
}

API cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r && (!out || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r) {
        void *host = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
        Alloc *a = host ? memory_register_host(host, bytes) : NULL;
        if (a) {
            memset(host, 0xff, bytes);
            a->managed = true;
            piece_add(PIECE_MANAGED, a, context_current());
            *out = a->base;
        } else {
            free(host);
            r = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    return call_leave(r);
}

/** A hint about managed memory: nothing moves here. */
static CUresult check_hint(uint64_t address, size_t bytes)
{
    const Alloc *a = memory_find(address);
    if (a && a->managed && !a->freed && bytes && bytes <= a->end - address)
        return CUDA_SUCCESS;
    return misuse(CUDA_ERROR_INVALID_VALUE, "%zu bytes at 0x%llx are not managed memory", bytes,
                  (unsigned long long)address);
}

API cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUmemLocation location)
{
    CUresult r = call_enter(__func__, WORKING);
    (void)location;
    if (!r && (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        r = check_hint(address, bytes);
    return call_leave(r);
}

API cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUmemLocation location,
                       unsigned int flags, CUstream stream)
{
    CUresult r = call_enter(__func__, WORKING);
    Stream *s = r ? NULL : stream_get(stream);
    if (!r && !s)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && (flags || (location.type == CU_MEM_LOCATION_TYPE_DEVICE && !device_is(location.id))))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        r = check_hint(address, bytes);
    if (!r) {
        Work w = {.kind = WORK_NONE, .name = "cuMemPrefetchAsync", .context = s->h.context};
        r = queue_push(s, &w);
    }
    return call_leave(r);
}

/* --- host memory ----------------------------------------------------------------------------- */

static CUresult allocate_host(void **out, size_t bytes, unsigned flags)
{
    if (!out || !bytes || flags & ~7u)
        return CUDA_ERROR_INVALID_VALUE;
    void *host = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    Alloc *a = host ? memory_register_host(host, bytes) : NULL;
    if (!a) {
        free(host);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memset(host, 0xff, bytes);
    piece_add(PIECE_HOST, a, context_current())->flags = flags;
    *out = host;
    return CUDA_SUCCESS;
}

API cuMemAllocHost(void **out, size_t bytes)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r)
        r = capture_unsafe();
    if (!r)
        r = allocate_host(out, bytes, 0);
    return call_leave(r);
}

API cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r)
        r = capture_unsafe();
    if (!r)
        r = allocate_host(out, bytes, flags);
    return call_leave(r);
}

API cuMemFreeHost(void *host)
{
    CUresult r = call_enter(__func__, CURRENT);
    if (!r)
        r = capture_unsafe();
    if (!r && host)
        r = free_now((uint64_t)(uintptr_t)host, true);
    return call_leave(r);
}

API cuMemHostRegister(void *host, size_t bytes, unsigned int flags)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r && (!host || !bytes || flags & ~15u))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r && (is_pinned(host) || is_pinned((char *)host + bytes - 1)))
        r = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    if (!r) {
        Alloc *a = memory_register_host(host, bytes);
        if (a)
            piece_add(PIECE_REGISTERED, a, context_current())->flags = flags;
        else
            r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return call_leave(r);
}

API cuMemHostUnregister(void *host)
{
    CUresult r = call_enter(__func__, CURRENT);
    Piece *p = r ? NULL : piece_find((uint64_t)(uintptr_t)host);
    if (!r && (!p || p->kind != PIECE_REGISTERED))
        r = misuse(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "%p is not registered", host);
    if (!r) {
        r = p->context->error;
        queue_flush();
        piece_free(p);
    }
    return call_leave(r);
}

API cuMemHostGetDevicePointer(CUdeviceptr *out, void *host, unsigned int flags)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r && (!out || flags || !is_pinned(host)))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *out = (CUdeviceptr)(uintptr_t)host;
    return call_leave(r);
}

API cuMemHostGetFlags(unsigned int *flags, void *host)
{
    CUresult r = call_enter(__func__, WORKING);
    const Piece *p = r ? NULL : piece_find((uint64_t)(uintptr_t)host);
    if (!r && (!flags || !p || p->kind != PIECE_HOST))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *flags = p->flags;
    return call_leave(r);
}

/* --- in the order of a stream ---------------------------------------------------------------- */

static CUresult allocate_async(CUdeviceptr *out, size_t bytes, Stream *s, Pool *pool)
{
    if (s->capture)
        return capture_forbids(s);
    Piece *p;
    CUresult r = allocate(out, bytes, &p);
    if (r)
        return r;
    p->pool = pool;
    pool->used += bytes;
    pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
    Work w = {.kind = WORK_ALLOC,
              .name = drv_intern(call_name()),
              .context = s->h.context,
              .memory = p->base};
    queue_add(s, &w, NULL, 0);
    order_made(memory_find(p->base), s->tail->id);
    queue_progress(s);
    return CUDA_SUCCESS;
}

API cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream)
{
    CUresult r = call_enter(__func__, WORKING);
    Stream *s = r ? NULL : stream_get(stream);
    if (!r)
        r = s ? allocate_async(out, bytes, s, pool_current(s->h.context->device->ordinal))
              : CUDA_ERROR_INVALID_HANDLE;
    return call_leave(r);
}

API cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    CUresult r = call_enter(__func__, WORKING);
    Stream *s = r ? NULL : stream_get(stream);
    Pool *p = s ? handle_get(pool, HANDLE_POOL) : NULL;
    if (!r)
        r = p ? allocate_async(out, bytes, s, p) : CUDA_ERROR_INVALID_HANDLE;
    return call_leave(r);
}

static CUresult free_async(uint64_t address, Stream *s)
{
    if (s->capture)
        return capture_forbids(s);
    Piece *p = piece_to_free(address, false);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->kind == PIECE_MANAGED)
        return misuse(CUDA_ERROR_INVALID_VALUE, "managed memory is freed with cuMemFree");
    if (p->pool)
        p->pool->used -= p->bytes;
    piece_remove(p);
    Work w = {
        .kind = WORK_FREE, .name = "cuMemFreeAsync", .context = s->h.context, .memory = address};
    return queue_push(s, &w);
}

API cuMemFreeAsync(CUdeviceptr address, CUstream stream)
{
    CUresult r = call_enter(__func__, WORKING);
    call_note("0x%llx", (unsigned long long)address);
    Stream *s = r ? NULL : stream_get(stream);
    if (!r && !s)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r)
        r = address ? free_async(address, s) : CUDA_ERROR_INVALID_VALUE;
    return call_leave(r);
}
