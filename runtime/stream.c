/* stream.c: streams and events of any device. SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

#include <stdlib.h>

/* Streams of a context have different numbers, so that one may be remembered beyond its end. */
tn_status tn__stream_new(tn__device *d, void *native, bool wrap, tn_stream **out)
{
    tn_stream *s = calloc(1, sizeof *s);
    if (!s)
        return tn__fail(TN_MEMORY, "no memory for a stream");
    s->dev = d;
    s->id = atomic_fetch_add(&d->ctx->streams, 1) + 1;
    s->native = native;
    s->wrapped = wrap;
    pthread_mutex_init(&s->lock, NULL);
    d->ops->enter(d);
    const tn_status e = d->ops->stream_open(s);
    d->ops->leave(d);
    if (e) {
        pthread_mutex_destroy(&s->lock);
        free(s);
        s = NULL;
    }
    *out = s;
    return e;
}

void tn__stream_end(tn_stream *s)
{
    tn__device *d = s->dev;
    d->ops->enter(d);
    d->ops->stream_close(s);
    d->ops->leave(d);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

tn_stream *tn__stream_on(tn__device *d, tn_stream *s)
{
    if (!s || s->dev == d)
        return s ? s : d->stream;
    if (d->ops->host) { /* work of the host in order with a stream of a GPU */
        const tn_status e = tn_stream_synchronize(s);
        return e ? NULL : d->stream;
    }
    tn__fail(TN_DEVICE, "the stream is one of another device than cuda:%d", (int)d->dl.device_id);
    return NULL;
}

tn_status tn_stream_create_on(tn_context *ctx, DLDevice device, tn_stream **out)
{
    if (!ctx || !out)
        return tn__fail(TN_INVALID, "ctx or out is NULL");
    *out = NULL;
    tn__device *d = tn__device_get(ctx, device);
    return d ? tn__stream_new(d, NULL, false, out) : TN_UNSUPPORTED;
}

tn_status tn_stream_create(tn_context *ctx, tn_stream **out)
{
    return tn_stream_create_on(ctx, (DLDevice){0}, out);
}

tn_status tn_stream_wrap(tn_context *ctx, DLDevice device, void *native, tn_stream **out)
{
    if (!ctx || !out)
        return tn__fail(TN_INVALID, "ctx or out is NULL");
    *out = NULL;
    tn__device *d = tn__device_get(ctx, device);
    if (!d)
        return TN_UNSUPPORTED;
    if (d->ops->host)
        return tn__fail(TN_INVALID, "the CPU has no streams of others");
    return tn__stream_new(d, native, true, out);
}

void tn_stream_destroy(tn_stream *s)
{
    if (s && s != s->dev->stream)
        tn__stream_end(s);
}

tn_stream *tn_stream_default(tn_context *ctx, DLDevice device)
{
    if (!ctx) {
        tn__fail(TN_INVALID, "ctx is NULL");
        return NULL;
    }
    const tn__device *d = tn__device_get(ctx, device);
    return d ? d->stream : NULL;
}

DLDevice tn_stream_device(const tn_stream *s)
{
    return s ? s->dev->dl : (DLDevice){0};
}

void *tn_stream_native(const tn_stream *s)
{
    return s ? s->native : NULL;
}

tn_status tn_stream_synchronize(tn_stream *s)
{
    if (!s)
        return TN_OK; /* of which device is not known, and the CPU's has nothing to wait for */
    tn__device *d = s->dev;
    d->ops->enter(d);
    const tn_status e = d->ops->sync(s);
    d->ops->leave(d);
    return e ? e : d->ops->mistakes_on(d, s->id);
}

tn_status tn_stream_wait_stream(tn_stream *s, tn_stream *other)
{
    if (!s || !other)
        return tn__fail(TN_INVALID, "a stream is NULL");
    tn_event *e;
    tn_status status = tn_event_create(s->dev->ctx, &e);
    if (status)
        return status;
    status = tn_event_record(e, other);
    if (!status)
        status = tn_stream_wait_event(s, e);
    tn_event_destroy(e);
    return status;
}

/* --- events --------------------------------------------------------------------------------------
 */

tn_status tn_event_create(tn_context *ctx, tn_event **out)
{
    if (!ctx || !out)
        return tn__fail(TN_INVALID, "ctx or out is NULL");
    *out = calloc(1, sizeof **out);
    if (!*out)
        return tn__fail(TN_MEMORY, "no memory for an event");
    (*out)->ctx = ctx;
    return TN_OK;
}

static void forget(tn_event *e)
{
    if (!e->dev)
        return;
    e->dev->ops->enter(e->dev);
    e->dev->ops->event_close(e);
    e->dev->ops->leave(e->dev);
    e->dev = NULL;
}

void tn_event_destroy(tn_event *e)
{
    if (!e)
        return;
    forget(e);
    free(e);
}

tn_status tn_event_record(tn_event *e, tn_stream *s)
{
    if (!e)
        return tn__fail(TN_INVALID, "the event is NULL");
    tn__device *d = s ? s->dev : tn__device_get(e->ctx, (DLDevice){0});
    if (!d)
        return TN_UNSUPPORTED;
    if (e->dev != d)
        forget(e);
    d->ops->enter(d);
    e->dev = d;
    const tn_status status = d->ops->event_record(e, s ? s : d->stream);
    d->ops->leave(d);
    return status;
}

tn_status tn_event_synchronize(tn_event *e)
{
    if (!e)
        return tn__fail(TN_INVALID, "the event is NULL");
    if (!e->dev)
        return tn__fail(TN_STATE, "the event was not recorded");
    e->dev->ops->enter(e->dev);
    const tn_status s = e->dev->ops->event_sync(e);
    e->dev->ops->leave(e->dev);
    return s;
}

tn_status tn_event_elapsed_ms(const tn_event *from, const tn_event *to, double *ms)
{
    if (!from || !to || !ms)
        return tn__fail(TN_INVALID, "an event or the result is NULL");
    if (!from->dev || !to->dev)
        return tn__fail(TN_STATE, "an event was not recorded");
    if (from->dev != to->dev)
        return tn__fail(TN_DEVICE, "the events were recorded on two devices");
    tn__device *d = from->dev;
    d->ops->enter(d);
    const tn_status s = d->ops->event_elapsed(from, to, ms);
    d->ops->leave(d);
    return s;
}

tn_status tn_stream_wait_event(tn_stream *s, const tn_event *e)
{
    if (!e)
        return tn__fail(TN_INVALID, "the event is NULL");
    if (!e->dev) /* as in CUDA: nothing to wait for */
        return TN_OK;
    tn__device *d = s ? s->dev : e->dev;
    if (d->ops->host || e->dev->ops->host) {
        e->dev->ops->enter(e->dev);
        const tn_status status = e->dev->ops->event_sync(e);
        e->dev->ops->leave(e->dev);
        return status;
    }
    d->ops->enter(d);
    const tn_status status = d->ops->event_wait(s ? s : d->stream, e);
    d->ops->leave(d);
    return status;
}
