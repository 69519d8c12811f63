/* cuda_stream.c: streams and events of CUDA. SPDX-License-Identifier: MIT */
#include "runtime/cuda.h"

#include <stdlib.h>

tn_status tn__gpu_stream_open(tn_stream *s)
{
    tn__gpu *g = tn__gpu_of(s->dev);
    if (!s->wrapped) {
        /* in order with CUDA's own default stream, which other libraries use */
        CUstream native = NULL;
        const tn_status e = tn__cu(g, g->cu->stream_create(&native, 0), "cuStreamCreate");
        if (e)
            return e;
        s->native = native;
    }
    pthread_mutex_lock(&g->lock);
    s->next = g->streams;
    g->streams = s;
    pthread_mutex_unlock(&g->lock);
    return TN_OK;
}

void tn__gpu_stream_close(tn_stream *s)
{
    tn__gpu *g = tn__gpu_of(s->dev);
    const tn_stream *heir = g->base.stream;
    g->cu->stream_sync(s->native); /* its errors belong to the calls that gave the work */
    tn__gpu_blas_close(s);
    pthread_mutex_lock(&g->lock);
    for (tn_stream **at = &g->streams; *at; at = &(*at)->next)
        if (*at == s) {
            *at = s->next;
            break;
        }
    if (heir)
        tn__heap_forget(g->heap, s->id, heir->id);
    pthread_mutex_unlock(&g->lock);
    if (!s->wrapped)
        g->cu->stream_destroy(s->native);
}

tn_status tn__cuda_sync(tn__device *d)
{
    tn__gpu *g = tn__gpu_of(d);
    d->ops->enter(d);
    const tn_status s = tn__cu(g, g->cu->sync_context(), "earlier work");
    d->ops->leave(d);
    return s;
}

tn_status tn__gpu_sync(tn_stream *s)
{
    tn__gpu *g = tn__gpu_of(s->dev);
    return tn__cu(g, g->cu->stream_sync(s->native),
                  g->blocking ? "earlier work"
                              : "earlier work (CUDA_LAUNCH_BLOCKING=1 shows which kernel)");
}

void tn__gpu_event_close(tn_event *e)
{
    tn__gpu *g = tn__gpu_of(e->dev);
    if (e->native)
        g->cu->event_destroy(e->native);
    e->native = NULL;
}

tn_status tn__gpu_event_record(tn_event *e, tn_stream *s)
{
    tn__gpu *g = tn__gpu_of(s->dev);
    CUevent native = e->native;
    CUresult r = CUDA_SUCCESS;
    if (!native) {
        r = g->cu->event_create(&native, CU_EVENT_DEFAULT);
        e->native = native;
    }
    return tn__cu(g, r ? r : g->cu->event_record(native, s->native), "cuEventRecord");
}

tn_status tn__gpu_event_wait(tn_stream *s, const tn_event *e)
{
    tn__gpu *g = tn__gpu_of(s->dev);
    return tn__cu(g, g->cu->stream_wait(s->native, e->native, 0), "cuStreamWaitEvent");
}

tn_status tn__gpu_event_sync(const tn_event *e)
{
    tn__gpu *g = tn__gpu_of(e->dev);
    return tn__cu(g, g->cu->event_sync(e->native), "cuEventSynchronize");
}

tn_status tn__gpu_event_elapsed(const tn_event *from, const tn_event *to, double *ms)
{
    tn__gpu *g = tn__gpu_of(to->dev);
    float f = 0;
    CUresult r = g->cu->event_sync(from->native);
    if (!r)
        r = g->cu->event_sync(to->native);
    if (!r)
        r = g->cu->event_elapsed(&f, from->native, to->native);
    *ms = (double)f;
    return tn__cu(g, r, "cuEventElapsedTime");
}
