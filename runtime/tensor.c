/* tensor.c: DLPack tensors: dtypes, strided copies, tensors that the runtime allocates, tn_copy.
 * SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

#include <stdlib.h>
#include <string.h>

int tn__dtype_of(DLDataType t)
{
    if (t.lanes != 1)
        return 0;
    switch (t.code) {
    case kDLFloat:
        return t.bits == 64 ? TN_F64 : t.bits == 32 ? TN_F32 : t.bits == 16 ? TN_F16 : 0;
    case kDLBfloat:
        return t.bits == 16 ? TN_BF16 : 0;
    case kDLInt:
        return t.bits == 64   ? TN_I64
               : t.bits == 32 ? TN_I32
               : t.bits == 16 ? TN_I16
               : t.bits == 8  ? TN_I8
                              : 0;
    case kDLUInt:
        return t.bits == 8 ? TN_U8 : t.bits == 64 ? TN_U64 : 0;
    case TN_DL_BOOL:
        return t.bits == 8 ? TN_BOOL : 0;
    default:
        return 0;
    }
}

void tn__dl_type(int dtype, DLDataType *out)
{
    static const DLDataType types[] = {
        [TN_F64] = {kDLFloat, 64, 1},   [TN_F32] = {kDLFloat, 32, 1},
        [TN_BF16] = {kDLBfloat, 16, 1}, [TN_F16] = {kDLFloat, 16, 1},
        [TN_I64] = {kDLInt, 64, 1},     [TN_I32] = {kDLInt, 32, 1},
        [TN_I16] = {kDLInt, 16, 1},     [TN_I8] = {kDLInt, 8, 1},
        [TN_U8] = {kDLUInt, 8, 1},      [TN_BOOL] = {TN_DL_BOOL, 8, 1},
        [TN_U64] = {kDLUInt, 64, 1},
    };
    *out = types[dtype];
}

char *tn__data(const DLTensor *t)
{
    return (char *)t->data + t->byte_offset;
}

bool tn__on_host(const DLTensor *t)
{
    return t->device.device_type == kDLCPU || t->device.device_type == kDLCUDAHost;
}

bool tn__contiguous(const DLTensor *t)
{
    if (!t->strides)
        return true;
    int64_t want = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] != 1 && t->strides[i] != want)
            return false;
        want *= t->shape[i];
    }
    return true;
}

int64_t tn__numel(const DLTensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    return n;
}

/* --- strided copies ------------------------------------------------------------------------------
 */

/* Strides in bytes; of a tensor without strides those of packed memory. */
static void byte_strides(const DLTensor *t, bool packed, int64_t *out)
{
    const int64_t size = (int64_t)tn__dtype_size(tn__dtype_of(t->dtype));
    int64_t dense = size;
    for (int i = t->ndim - 1; i >= 0; i--) {
        out[i] = packed || !t->strides ? dense : t->strides[i] * size;
        dense *= t->shape[i];
    }
}

tn__strided tn__packing(const DLTensor *t, void *packed, bool pack)
{
    tn__strided c = {.size = tn__dtype_size(tn__dtype_of(t->dtype)), .rank = t->ndim};
    for (int i = 0; i < t->ndim; i++)
        c.shape[i] = t->shape[i];
    c.to = pack ? packed : tn__data(t);
    c.from = pack ? tn__data(t) : packed;
    byte_strides(t, pack, c.to_stride);
    byte_strides(t, !pack, c.from_stride);
    return c;
}

void tn__copy_strided(const tn__strided *c)
{
    int64_t at[TN_MAX_RANK] = {0}, n = 1;
    for (int i = 0; i < c->rank; i++)
        n *= c->shape[i];
    for (int64_t e = 0; e < n; e++) {
        int64_t to = 0, from = 0;
        for (int i = 0; i < c->rank; i++) {
            to += at[i] * c->to_stride[i];
            from += at[i] * c->from_stride[i];
        }
        memcpy(c->to + to, c->from + from, c->size);
        for (int i = c->rank - 1; i >= 0 && ++at[i] == c->shape[i]; i--)
            at[i] = 0;
    }
}

/* --- tensors of the runtime ----------------------------------------------------------------------
 */

/* What stands behind the shape of a tensor that the runtime made. Its strides lie in the same
 * block, which no tensor of others has there, with the mark in front of them. */
typedef struct {
    int64_t shape[TN_MAX_RANK];
    uint64_t mark;
    int64_t strides[TN_MAX_RANK];
    tn__device *dev;
    void *data;
} Owner;

static const uint64_t owner_mark = 0x746e2d74656e736full;

/* The memory of the host and its head are one block. */
static const size_t head_bytes = (sizeof(Owner) + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;

tn_status tn__tensor_make(tn__device *d, tn_stream *s, int dtype, int rank, const int64_t *shape,
                          size_t bytes, DLTensor *t)
{
    const bool host = d->ops->host;
    if (host && bytes > SIZE_MAX - head_bytes)
        return tn__fail(TN_MEMORY, "%zu bytes are more than there can be", bytes);
    Owner *o = host ? tn__alloc(d->ctx, head_bytes + bytes) : malloc(sizeof *o);
    if (!o)
        return host ? TN_MEMORY : tn__fail(TN_MEMORY, "no memory for a tensor");
    o->dev = d;
    o->mark = owner_mark;
    o->data = host ? (char *)o + head_bytes : d->ops->alloc(d, s, bytes, TN_FOR_RESULT);
    if (!o->data) {
        free(o);
        return TN_MEMORY;
    }
    int64_t dense = 1;
    for (int i = rank - 1; i >= 0; i--) {
        o->shape[i] = shape[i];
        o->strides[i] = dense;
        dense *= shape[i];
    }
    *t = (DLTensor){.data = o->data, .device = d->dl, .ndim = rank};
    t->shape = o->shape;
    t->strides = o->strides;
    tn__dl_type(dtype, &t->dtype);
    return TN_OK;
}

static Owner *owner_of(const DLTensor *t)
{
    if (!t || !t->data || !t->shape)
        return NULL;
    Owner *o = (Owner *)(void *)t->shape;
    return t->strides == o->strides && o->mark == owner_mark && o->data == t->data ? o : NULL;
}

tn_status tn_tensor_create(tn_context *ctx, DLDevice device, DLDataType dtype, int ndim,
                           const int64_t *shape, DLTensor *out)
{
    const int type = tn__dtype_of(dtype);
    if (!ctx || !out || ndim < 0 || ndim > TN_MAX_RANK || (ndim && !shape))
        return tn__fail(TN_INVALID, "a tensor has 0 to %d axes", TN_MAX_RANK);
    if (!type)
        return tn__fail(TN_DTYPE, "tensors of this dtype are not known");
    tn__device *d = tn__device_get(ctx, device);
    if (!d)
        return TN_UNSUPPORTED;
    int64_t bytes = (int64_t)tn__dtype_size(type);
    for (int i = 0; i < ndim; i++)
        if (shape[i] < 0 || __builtin_mul_overflow(bytes, shape[i], &bytes))
            return tn__fail(TN_SHAPE, "the size of a tensor overflows or is negative");
    d->ops->enter(d);
    const tn_status s = tn__tensor_make(d, d->stream, type, ndim, shape, (size_t)bytes, out);
    d->ops->leave(d);
    return s;
}

void tn_tensor_release(DLTensor *t)
{
    Owner *o = owner_of(t);
    if (!o)
        return; /* not one of ours */
    tn__device *d = o->dev;
    o->mark = 0;
    if (d->ops->host) {
        tn__free(d->ctx, o);
    } else {
        d->ops->enter(d);
        d->ops->free(d, o->data, 0);
        d->ops->leave(d);
        free(o);
    }
    t->data = NULL;
    t->shape = NULL;
    t->strides = NULL;
    t->ndim = 0;
    t->device = (DLDevice){0};
}

tn_status tn_tensor_record_stream(const DLTensor *t, tn_stream *s)
{
    const Owner *o = owner_of(t);
    if (!o)
        return tn__fail(TN_INVALID, "the tensor was not allocated by the runtime");
    tn_stream *on = tn__stream_on(o->dev, s);
    if (!on)
        return TN_DEVICE;
    o->dev->ops->enter(o->dev);
    const tn_status e = o->dev->ops->record(o->dev, o->data, on);
    o->dev->ops->leave(o->dev);
    return e;
}

/* --- tn_copy -------------------------------------------------------------------------------------
 */

static tn_status check_copy(const DLTensor *dst, const DLTensor *src)
{
    if (!dst || !src || dst->ndim < 0 || dst->ndim > TN_MAX_RANK)
        return tn__fail(TN_INVALID, "a tensor is NULL or has too many axes");
    const int type = tn__dtype_of(dst->dtype);
    if (!type || type != tn__dtype_of(src->dtype))
        return tn__fail(TN_DTYPE, "copy: the dtypes are %s and %s", tn__dtype_name(type),
                        tn__dtype_name(tn__dtype_of(src->dtype)));
    bool same = dst->ndim == src->ndim;
    for (int i = 0; i < dst->ndim && same; i++)
        same = dst->shape[i] == src->shape[i] && dst->shape[i] >= 0;
    return same ? TN_OK : tn__fail(TN_SHAPE, "copy: the shapes differ");
}

static tn_status copy_on_host(const DLTensor *dst, const DLTensor *src)
{
    tn__strided c = tn__packing(src, tn__data(dst), true);
    byte_strides(dst, false, c.to_stride);
    tn__copy_strided(&c);
    return TN_OK;
}

static bool is_on(const DLTensor *t, const tn__device *d)
{
    return t->device.device_type == d->dl.device_type && t->device.device_id == d->dl.device_id;
}

/* Both on the stream's device. */
static tn_status copy_on_device(const DLTensor *dst, const DLTensor *src, tn_stream *s)
{
    const tn__backend *ops = s->dev->ops;
    if (tn__contiguous(dst) && tn__contiguous(src))
        return ops->copy(s, tn__data(dst), tn__data(src),
                         (size_t)tn__numel(dst) * tn__dtype_size(tn__dtype_of(dst->dtype)));
    tn__strided c = tn__packing(src, tn__data(dst), true);
    byte_strides(dst, false, c.to_stride);
    return ops->strided(s, &c);
}

/* Between the host and the stream's device; strided tensors by way of packed memory. */
static tn_status copy_across(const DLTensor *dst, const DLTensor *src, tn_stream *s, bool up)
{
    tn__device *d = s->dev;
    const DLTensor *here = up ? src : dst, *there = up ? dst : src;
    const size_t bytes = (size_t)tn__numel(dst) * tn__dtype_size(tn__dtype_of(dst->dtype));
    const bool pack_here = !tn__contiguous(here), pack_there = !tn__contiguous(there);
    char *h = pack_here ? tn__alloc(d->ctx, bytes) : tn__data(here);
    char *t = pack_there ? d->ops->alloc(d, s, bytes, TN_FOR_COPY) : tn__data(there);
    tn_status e = h && t ? TN_OK : TN_MEMORY;
    const tn__strided on_host = tn__packing(here, h, up);
    const tn__strided on_device = tn__packing(there, t, !up);
    if (!e && up) {
        if (pack_here)
            tn__copy_strided(&on_host);
        e = d->ops->upload(s, t, h, bytes);
    }
    if (!e && pack_there)
        e = d->ops->strided(s, &on_device);
    if (!e && !up)
        e = d->ops->download(s, h, t, bytes);
    if (!e && pack_here)
        e = d->ops->sync(s);
    if (!e && pack_here && !up)
        tn__copy_strided(&on_host);
    if (pack_here)
        tn__free(d->ctx, h);
    if (pack_there && t)
        d->ops->free(d, t, s->id);
    return e;
}

/* Between two devices, one of them the stream's. */
static tn_status copy_peer(const DLTensor *dst, const DLTensor *src, tn_stream *s)
{
    tn__device *to = tn__device_get(s->dev->ctx, dst->device);
    tn__device *from = tn__device_get(s->dev->ctx, src->device);
    if (!to || !from)
        return TN_UNSUPPORTED;
    if (to != s->dev && from != s->dev)
        return tn__fail(TN_DEVICE, "copy: the stream must be one of the device of a tensor");
    if (!tn__contiguous(dst) || !tn__contiguous(src))
        return tn__fail(TN_UNSUPPORTED, "copy: strided tensors on two devices");
    return s->dev->ops->peer(s, tn__data(dst), to, tn__data(src), from,
                             (size_t)tn__numel(dst) * tn__dtype_size(tn__dtype_of(dst->dtype)));
}

tn_status tn_copy(const DLTensor *dst, const DLTensor *src, tn_stream *s, int non_blocking)
{
    tn_status e = check_copy(dst, src);
    if (e || !tn__numel(dst))
        return e;
    const bool to_host = tn__on_host(dst), from_host = tn__on_host(src);
    if (!s || s->dev->ops->host) {
        if (to_host && from_host)
            return copy_on_host(dst, src);
        return tn__fail(TN_DEVICE, "copy: the stream must be one of the device of a tensor");
    }
    tn__device *d = s->dev;
    const bool to_device = is_on(dst, d), from_device = is_on(src, d);
    d->ops->enter(d);
    if (to_host && from_host) {
        e = d->ops->sync(s);
        if (!e)
            e = copy_on_host(dst, src);
    } else if (to_device && from_device) {
        e = copy_on_device(dst, src, s);
    } else if ((to_device && from_host) || (to_host && from_device)) {
        e = copy_across(dst, src, s, to_device);
        if (!e && !non_blocking)
            e = d->ops->sync(s);
    } else {
        e = copy_peer(dst, src, s);
    }
    d->ops->leave(d);
    return e;
}
