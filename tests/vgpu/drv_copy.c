/* drv_copy.c: copies and fills.
 *
 * What the host may do after a call that returned is CUDA's rule, to the letter: a copy from
 * pageable memory has read it, one to pageable memory has ended; one from or to pinned memory has
 * done nothing yet. cuMemcpyHtoD from pageable memory need not have arrived: other streams must
 * wait for it. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv_memory.h"

typedef enum { ANY, HOST, DEVICE } Side;

/** Whether the address is one of a device, or of host memory that was registered. */
static bool is_known(uint64_t at)
{
    const Alloc *a = memory_find(at);
    return a && (a->device || !a->freed);
}

static CUresult check_range(const char *side, uint64_t at, uint64_t bytes)
{
    const Alloc *a = memory_find(at);
    if (!a || bytes > a->end - at)
        return misuse(CUDA_ERROR_INVALID_VALUE, "%s: %llu bytes at 0x%llx are not %s", side,
                      (unsigned long long)bytes, (unsigned long long)at,
                      a ? "within its allocation" : "in an allocation");
    if (a->freed)
        return misuse(CUDA_ERROR_INVALID_VALUE, "%s: 0x%llx was freed", side,
                      (unsigned long long)at);
    return CUDA_SUCCESS;
}

/** Fills in what the address is. `bytes`: from the first to the last byte of all rows. */
static CUresult place(Place *p, Side side, const char *name, uint64_t bytes)
{
    bool known = is_known(p->at);
    const Alloc *a = known ? memory_find(p->at) : NULL;
    if (side == HOST && a && a->device && !a->managed)
        return misuse(CUDA_ERROR_INVALID_VALUE, "%s: 0x%llx is device memory, not of the host",
                      name, (unsigned long long)p->at);
    if (side == DEVICE && !known)
        return misuse(CUDA_ERROR_INVALID_VALUE, "%s: 0x%llx is no device memory", name,
                      (unsigned long long)p->at);
    p->host = !known;
    if (p->at == 0)
        return misuse(CUDA_ERROR_INVALID_VALUE, "%s: NULL", name);
    p->device = a && a->device ? a->device : NULL;
    return known ? check_range(name, p->at, bytes) : CUDA_SUCCESS;
}

static uint64_t span(const CopyWork *c, const Place *p)
{
    return (c->depth - 1) * p->slice + (c->height - 1) * p->pitch + c->width;
}

static bool is_device(const Place *p)
{
    return p->device != NULL;
}

/** Whether the host waits for the copy before the call returns. */
static bool host_waits(const CopyWork *c, bool async)
{
    if (c->to.host) /* pageable */
        return true;
    bool to_device = is_device(&c->to), from_device = is_device(&c->from);
    if (async || (to_device && from_device))
        return false;
    return !to_device || !c->from.host;
}

/** Checks the copy and makes the work, which has staged nothing yet. */
static CUresult make(CopyWork c, Side to, Side from, Context *context, Work *out)
{
    CUresult r = place(&c.to, to, "destination", span(&c, &c.to));
    if (!r)
        r = place(&c.from, from, "source", span(&c, &c.from));
    c.pinned = !r && !c.from.host && !is_device(&c.from) && !memory_find(c.from.at)->managed;
    *out =
        (Work){.kind = WORK_COPY, .name = drv_intern(call_name()), .context = context, .copy = c};
    return r;
}

static CUresult copy(CopyWork c, Side to, Side from, Stream *s, bool async)
{
    call_note("0x%llx, 0x%llx, %llu", (unsigned long long)c.to.at, (unsigned long long)c.from.at,
              (unsigned long long)(c.width * c.height * c.depth));
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (c.width == 0 || c.height == 0 || c.depth == 0)
        return CUDA_SUCCESS;
    Work w;
    CUresult r = make(c, to, from, s->h.context, &w);
    if (!r && !async)
        r = capture_unsafe();
    bool waits = !r && host_waits(&w.copy, async);
    if (waits)
        r = capture_forbids(s);
    if (r)
        return r;
    if (w.copy.from.host && !s->capture) /* a graph reads what lies there when it runs */
        w.copy.staged = copy_packed(&w.copy, &w.copy.from, false);
    r = queue_push(s, &w);
    return !r && waits ? queue_sync(s) : r;
}

static CopyWork line(uint64_t to, uint64_t from, uint64_t bytes)
{
    return (CopyWork){.width = bytes,
                      .height = 1,
                      .depth = 1,
                      .to = {.at = to, .pitch = bytes, .slice = bytes},
                      .from = {.at = from, .pitch = bytes, .slice = bytes}};
}

static uint64_t address_of(const void *host)
{
    return (uint64_t)(uintptr_t)host;
}

/* --- one dimension --------------------------------------------------------------------------- */

static CUresult copy_line(const char *name, CopyWork c, Side to, Side from)
{
    CUresult r = call_enter(name, WORKING);
    if (!r)
        r = copy(c, to, from, stream_get(NULL), false);
    return call_leave(r);
}

static CUresult copy_line_async(const char *name, CopyWork c, Side to, Side from, CUstream stream)
{
    CUresult r = call_enter(name, WORKING);
    if (!r)
        r = copy(c, to, from, stream_get(stream), true);
    return call_leave(r);
}

API cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_line(__func__, line(to, from, bytes), ANY, ANY);
}

API cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes)
{
    return copy_line(__func__, line(to, address_of(from), bytes), DEVICE, HOST);
}

API cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes)
{
    return copy_line(__func__, line(address_of(to), from, bytes), HOST, DEVICE);
}

API cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
    return copy_line(__func__, line(to, from, bytes), DEVICE, DEVICE);
}

API cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_line_async(__func__, line(to, from, bytes), ANY, ANY, stream);
}

API cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    return copy_line_async(__func__, line(to, address_of(from), bytes), DEVICE, HOST, stream);
}

API cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_line_async(__func__, line(address_of(to), from, bytes), HOST, DEVICE, stream);
}

API cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    return copy_line_async(__func__, line(to, from, bytes), DEVICE, DEVICE, stream);
}

/** Both contexts of a copy between devices. */
static CUresult check_peers(CUcontext to, CUcontext from)
{
    bool good = handle_get(to, HANDLE_CONTEXT) && handle_get(from, HANDLE_CONTEXT);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

API cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
                 size_t bytes)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r)
        r = check_peers(to_context, from_context);
    if (!r)
        r = copy(line(to, from, bytes), DEVICE, DEVICE, stream_get(NULL), false);
    return call_leave(r);
}

API cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t bytes, CUstream stream)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r)
        r = check_peers(to_context, from_context);
    if (!r)
        r = copy(line(to, from, bytes), DEVICE, DEVICE, stream_get(stream), true);
    return call_leave(r);
}

/* --- two and three dimensions ---------------------------------------------------------------- */

static bool place_of_type(Place *p, Side *side, CUmemorytype type, const void *host,
                          CUdeviceptr device)
{
    if (type != CU_MEMORYTYPE_HOST && type != CU_MEMORYTYPE_DEVICE && type != CU_MEMORYTYPE_UNIFIED)
        return false; /* arrays */
    *side = type == CU_MEMORYTYPE_HOST ? HOST : type == CU_MEMORYTYPE_DEVICE ? DEVICE : ANY;
    p->at += type == CU_MEMORYTYPE_HOST ? address_of(host) : device;
    return true;
}

static CUresult read_box(CUDA_MEMCPY3D b, CopyWork *out, Side *to, Side *from)
{
    CopyWork c = {.width = b.WidthInBytes, .height = b.Height, .depth = b.Depth};
    size_t from_pitch = b.srcPitch ? b.srcPitch : b.WidthInBytes;
    size_t to_pitch = b.dstPitch ? b.dstPitch : b.WidthInBytes;
    size_t from_height = b.srcHeight ? b.srcHeight : b.Height;
    size_t to_height = b.dstHeight ? b.dstHeight : b.Height;
    if (b.srcXInBytes + b.WidthInBytes > from_pitch || b.dstXInBytes + b.WidthInBytes > to_pitch ||
        b.srcLOD || b.dstLOD)
        return misuse(CUDA_ERROR_INVALID_VALUE, "a row is wider than its pitch");
    c.from.pitch = from_pitch;
    c.from.slice = from_pitch * from_height;
    c.from.at = b.srcZ * c.from.slice + b.srcY * from_pitch + b.srcXInBytes;
    c.to.pitch = to_pitch;
    c.to.slice = to_pitch * to_height;
    c.to.at = b.dstZ * c.to.slice + b.dstY * to_pitch + b.dstXInBytes;
    if (!place_of_type(&c.from, from, b.srcMemoryType, b.srcHost, b.srcDevice) ||
        !place_of_type(&c.to, to, b.dstMemoryType, b.dstHost, b.dstDevice))
        return CUDA_ERROR_NOT_SUPPORTED;
    *out = c;
    return CUDA_SUCCESS;
}

static CUresult copy_box(CUDA_MEMCPY3D b, Stream *s, bool async)
{
    CopyWork c;
    Side to = ANY, from = ANY;
    CUresult r = read_box(b, &c, &to, &from);
    return r ? r : copy(c, to, from, s, async);
}

static CUDA_MEMCPY3D box_of(const CUDA_MEMCPY2D *p)
{
    return (CUDA_MEMCPY3D){.srcXInBytes = p->srcXInBytes,
                           .srcY = p->srcY,
                           .srcMemoryType = p->srcMemoryType,
                           .srcHost = p->srcHost,
                           .srcDevice = p->srcDevice,
                           .srcPitch = p->srcPitch,
                           .dstXInBytes = p->dstXInBytes,
                           .dstY = p->dstY,
                           .dstMemoryType = p->dstMemoryType,
                           .dstHost = p->dstHost,
                           .dstDevice = p->dstDevice,
                           .dstPitch = p->dstPitch,
                           .WidthInBytes = p->WidthInBytes,
                           .Height = p->Height,
                           .Depth = 1};
}

static CUresult enter_2d(const char *name, const CUDA_MEMCPY2D *p, CUstream stream, bool async)
{
    CUresult r = call_enter(name, WORKING);
    if (!r)
        r = p ? copy_box(box_of(p), stream_get(stream), async) : CUDA_ERROR_INVALID_VALUE;
    return call_leave(r);
}

API cuMemcpy2D(const CUDA_MEMCPY2D *p)
{
    return enter_2d(__func__, p, NULL, false);
}

API cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *p)
{
    return enter_2d(__func__, p, NULL, false);
}

API cuMemcpy2DAsync(const CUDA_MEMCPY2D *p, CUstream stream)
{
    return enter_2d(__func__, p, stream, true);
}

static CUresult enter_3d(const char *name, const CUDA_MEMCPY3D *p, CUstream stream, bool async)
{
    CUresult r = call_enter(name, WORKING);
    if (!r)
        r = p ? copy_box(*p, stream_get(stream), async) : CUDA_ERROR_INVALID_VALUE;
    return call_leave(r);
}

API cuMemcpy3D(const CUDA_MEMCPY3D *p)
{
    return enter_3d(__func__, p, NULL, false);
}

API cuMemcpy3DAsync(const CUDA_MEMCPY3D *p, CUstream stream)
{
    return enter_3d(__func__, p, stream, true);
}

CUresult copy_work(const CUDA_MEMCPY3D *p, Context *context, Work *out)
{
    CopyWork c;
    Side to = ANY, from = ANY;
    CUresult r = read_box(*p, &c, &to, &from);
    if (!r && (!c.width || !c.height || !c.depth))
        r = CUDA_ERROR_INVALID_VALUE;
    return r ? r : make(c, to, from, context, out);
}

/* --- fills ----------------------------------------------------------------------------------- */

CUresult set_work(SetWork set, Context *c, Work *out)
{
    if (set.size != 1 && set.size != 2 && set.size != 4)
        return CUDA_ERROR_INVALID_VALUE;
    if (set.at % set.size || (set.height > 1 && set.pitch % set.size))
        return misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is not aligned to %u",
                      (unsigned long long)set.at, set.size);
    uint64_t row = set.width * set.size;
    if (set.height > 1 && set.pitch < row)
        return misuse(CUDA_ERROR_INVALID_VALUE, "a row is wider than its pitch");
    CUresult r = is_known(set.at)
                     ? check_range("destination", set.at, (set.height - 1) * set.pitch + row)
                     : misuse(CUDA_ERROR_INVALID_VALUE, "destination: 0x%llx is no device memory",
                              (unsigned long long)set.at);
    *out = (Work){.kind = WORK_SET, .name = drv_intern(call_name()), .context = c, .set = set};
    return r;
}

static CUresult fill(const char *name, SetWork set, CUstream stream, bool async)
{
    CUresult r = call_enter(name, WORKING);
    call_note("0x%llx, %u, %llu", (unsigned long long)set.at, set.value,
              (unsigned long long)set.width);
    Stream *s = r ? NULL : stream_get(stream);
    if (!r && !s)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && !async)
        r = capture_unsafe();
    if (r || set.width == 0 || set.height == 0)
        return call_leave(r);
    Work w;
    r = set_work(set, s->h.context, &w);
    if (!r)
        r = queue_push(s, &w);
    if (!r && !async && is_pinned((void *)(uintptr_t)set.at))
        r = queue_sync(s);
    return call_leave(r);
}

static SetWork row_of(uint64_t at, uint32_t value, uint32_t size, uint64_t n)
{
    return (SetWork){.at = at, .width = n, .height = 1, .value = value, .size = size};
}

API cuMemsetD8(CUdeviceptr at, unsigned char value, size_t n)
{
    return fill(__func__, row_of(at, value, 1, n), NULL, false);
}

API cuMemsetD16(CUdeviceptr at, unsigned short value, size_t n)
{
    return fill(__func__, row_of(at, value, 2, n), NULL, false);
}

API cuMemsetD32(CUdeviceptr at, unsigned int value, size_t n)
{
    return fill(__func__, row_of(at, value, 4, n), NULL, false);
}

API cuMemsetD8Async(CUdeviceptr at, unsigned char value, size_t n, CUstream stream)
{
    return fill(__func__, row_of(at, value, 1, n), stream, true);
}

API cuMemsetD16Async(CUdeviceptr at, unsigned short value, size_t n, CUstream stream)
{
    return fill(__func__, row_of(at, value, 2, n), stream, true);
}

API cuMemsetD32Async(CUdeviceptr at, unsigned int value, size_t n, CUstream stream)
{
    return fill(__func__, row_of(at, value, 4, n), stream, true);
}

static SetWork rows_of(uint64_t at, size_t pitch, uint32_t value, uint32_t size, size_t width,
                       size_t height)
{
    return (SetWork){
        .at = at, .pitch = pitch, .width = width, .height = height, .value = value, .size = size};
}

API cuMemsetD2D8(CUdeviceptr at, size_t pitch, unsigned char value, size_t width, size_t height)
{
    return fill(__func__, rows_of(at, pitch, value, 1, width, height), NULL, false);
}

API cuMemsetD2D16(CUdeviceptr at, size_t pitch, unsigned short value, size_t width, size_t height)
{
    return fill(__func__, rows_of(at, pitch, value, 2, width, height), NULL, false);
}

API cuMemsetD2D32(CUdeviceptr at, size_t pitch, unsigned int value, size_t width, size_t height)
{
    return fill(__func__, rows_of(at, pitch, value, 4, width, height), NULL, false);
}

API cuMemsetD2D8Async(CUdeviceptr at, size_t pitch, unsigned char value, size_t width,
                      size_t height, CUstream stream)
{
    return fill(__func__, rows_of(at, pitch, value, 1, width, height), stream, true);
}

API cuMemsetD2D16Async(CUdeviceptr at, size_t pitch, unsigned short value, size_t width,
                       size_t height, CUstream stream)
{
    return fill(__func__, rows_of(at, pitch, value, 2, width, height), stream, true);
}

API cuMemsetD2D32Async(CUdeviceptr at, size_t pitch, unsigned int value, size_t width,
                       size_t height, CUstream stream)
{
    return fill(__func__, rows_of(at, pitch, value, 4, width, height), stream, true);
}
