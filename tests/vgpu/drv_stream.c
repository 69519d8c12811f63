/* drv_stream.c: streams, events, host functions. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv.h"

#include <pthread.h>
#include <stdlib.h>

Stream *stream_per_thread(Context *c)
{
    uint64_t me = (uint64_t)pthread_self();
    for (ThreadStream *t = c->per_thread; t; t = t->next)
        if (t->thread == me)
            return t->stream;
    ThreadStream *t = drv_alloc(sizeof *t);
    t->thread = me;
    t->stream = stream_new(c, true);
    t->stream->h.inner = true;
    t->next = c->per_thread;
    c->per_thread = t;
    return t->stream;
}

/** The stream of a call that needs a working context; NULL with *r set. */
static Stream *enter_stream(const char *name, CUstream handle, CUresult *r)
{
    *r = call_enter(name, WORKING);
    Stream *s = *r ? NULL : stream_get(handle);
    if (!*r && !s)
        *r = CUDA_ERROR_INVALID_HANDLE;
    else if (s && s->h.context->error)
        *r = s->h.context->error;
    return *r ? NULL : s;
}

/* --- streams --------------------------------------------------------------------------------- */

static CUresult create(CUstream *out, unsigned flags, int priority)
{
    if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    Stream *s = stream_new(context_current(), !(flags & CU_STREAM_NON_BLOCKING));
    s->flags = flags;
    s->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    *out = (CUstream)s;
    return CUDA_SUCCESS;
}

API cuStreamCreate(CUstream *out, unsigned int flags)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r)
        r = create(out, flags, 0);
    return call_leave(r);
}

API cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r)
        r = create(out, flags, priority);
    return call_leave(r);
}

/* What is queued still runs; the call does not wait for it. */
API cuStreamDestroy(CUstream handle)
{
    CUresult r = call_enter(__func__, CURRENT);
    Stream *s = r ? NULL : handle_get(handle, HANDLE_STREAM);
    if (!r && !s)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && s->capture)
        r = misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "the stream captures");
    if (!r) {
        stream_delete(s);
        r = context_current()->error;
    }
    return call_leave(r);
}

API cuStreamSynchronize(CUstream handle)
{
    CUresult r;
    Stream *s = enter_stream(__func__, handle, &r);
    if (s)
        r = capture_forbids(s);
    if (!r)
        r = queue_sync(s);
    return call_leave(r);
}

API cuStreamQuery(CUstream handle)
{
    CUresult r;
    Stream *s = enter_stream(__func__, handle, &r);
    if (s)
        r = capture_forbids(s);
    if (!r) {
        queue_poll(s);
        r = queue_ended(s, s->queued) ? queue_sync(s) : CUDA_ERROR_NOT_READY;
    }
    return call_leave(r);
}

API cuStreamGetFlags(CUstream handle, unsigned int *flags)
{
    CUresult r;
    Stream *s = enter_stream(__func__, handle, &r);
    if (s && !flags)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *flags = s->flags;
    return call_leave(r);
}

API cuStreamGetPriority(CUstream handle, int *priority)
{
    CUresult r;
    Stream *s = enter_stream(__func__, handle, &r);
    if (s && !priority)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *priority = s->priority;
    return call_leave(r);
}

API cuStreamGetId(CUstream handle, unsigned long long *id)
{
    CUresult r;
    Stream *s = enter_stream(__func__, handle, &r);
    if (s && !id)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *id = s->h.number;
    return call_leave(r);
}

API cuStreamGetCtx(CUstream handle, CUcontext *out)
{
    CUresult r;
    Stream *s = enter_stream(__func__, handle, &r);
    if (s && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *out = (CUcontext)s->h.context;
    return call_leave(r);
}

API cuStreamGetDevice(CUstream handle, CUdevice *out)
{
    CUresult r;
    Stream *s = enter_stream(__func__, handle, &r);
    if (s && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *out = s->h.context->device->ordinal;
    return call_leave(r);
}

API cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t bytes, unsigned int flags)
{
    CUresult r;
    Stream *s = enter_stream(__func__, handle, &r);
    const Alloc *a = s ? memory_find(address) : NULL;
    if (s && (!a || !a->managed || a->freed || flags > CU_MEM_ATTACH_SINGLE || bytes > a->end))
        r = misuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is not managed memory",
                   (unsigned long long)address);
    return call_leave(r);
}

/* --- events ---------------------------------------------------------------------------------- */

API cuEventCreate(CUevent *out, unsigned int flags)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r && (!out || flags & ~7u ||
               (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING))))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r) {
        Event *e = handle_new(HANDLE_EVENT, sizeof *e, context_current());
        e->timing = !(flags & CU_EVENT_DISABLE_TIMING);
        *out = (CUevent)e;
    }
    return call_leave(r);
}

API cuEventDestroy(CUevent handle)
{
    CUresult r = call_enter(__func__, INIT);
    Event *e = r ? NULL : handle_get(handle, HANDLE_EVENT);
    if (!r && !e)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r) {
        free(e->tails);
        e->tails = NULL;
        handle_kill(&e->h);
    }
    return call_leave(r);
}

static CUresult record(Event *e, Stream *s)
{
    if (e->h.context != s->h.context)
        return misuse(CUDA_ERROR_INVALID_HANDLE, "event %llu and the stream are of two contexts",
                      (unsigned long long)e->h.number);
    CUresult r = capture_implicit(s);
    if (r || s->capture)
        return r ? r : capture_record(s, e);
    e->captured = NULL;
    e->pending++;
    Work w = {.kind = WORK_RECORD, .name = "cuEventRecord", .context = s->h.context, .event = e};
    uint64_t number = queue_add(s, &w, NULL, 0);
    e->last = (Dep){.stream = s, .number = number};
    clock_copy(&e->clock, &s->clock);
    queue_progress(s);
    return CUDA_SUCCESS;
}

static CUresult enter_record(const char *name, CUevent event, CUstream stream)
{
    CUresult r;
    Stream *s = enter_stream(name, stream, &r);
    Event *e = s ? handle_get(event, HANDLE_EVENT) : NULL;
    if (s)
        r = e ? record(e, s) : CUDA_ERROR_INVALID_HANDLE;
    return call_leave(r);
}

API cuEventRecord(CUevent event, CUstream stream)
{
    return enter_record(__func__, event, stream);
}

API cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
    if (flags > CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    return enter_record(__func__, event, stream);
}

/** The event of a call that asks about it; NULL with *r set. */
static Event *enter_event(const char *name, CUevent handle, CUresult *r)
{
    *r = call_enter(name, INIT);
    Event *e = *r ? NULL : handle_get(handle, HANDLE_EVENT);
    if (!*r && !e)
        *r = CUDA_ERROR_INVALID_HANDLE;
    else if (e && e->captured)
        *r = misuse(CUDA_ERROR_CAPTURED_EVENT, "event %llu was recorded in a capture",
                    (unsigned long long)e->h.number);
    else if (e && e->h.context->error)
        *r = e->h.context->error;
    return *r ? NULL : e;
}

API cuEventSynchronize(CUevent handle)
{
    CUresult r;
    Event *e = enter_event(__func__, handle, &r);
    if (e && e->last.stream) {
        Clock c = {0};
        clock_copy(&c, &e->clock);
        queue_until(e->last.stream, e->last.number);
        host_joins(&c);
        clock_free(&c);
        r = e->h.context->error;
    }
    return call_leave(r);
}

API cuEventQuery(CUevent handle)
{
    CUresult r;
    Event *e = enter_event(__func__, handle, &r);
    if (e && e->last.stream) {
        if (!queue_ended(e->last.stream, e->last.number))
            queue_poll(e->last.stream);
        if (queue_ended(e->last.stream, e->last.number))
            host_joins(&e->clock);
        else
            r = CUDA_ERROR_NOT_READY;
        if (e->h.context->error)
            r = e->h.context->error;
    }
    return call_leave(r);
}

CUresult event_elapsed(const char *name, float *ms, CUevent start, CUevent end)
{
    CUresult r;
    Event *a = enter_event(name, start, &r);
    Event *b = a ? handle_get(end, HANDLE_EVENT) : NULL;
    if (a && (!b || !ms || !a->timing || !b->timing || !a->last.stream || !b->last.stream ||
              a->h.context != b->h.context))
        r = ms && b ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    if (!r && (!queue_ended(a->last.stream, a->last.number) ||
               !queue_ended(b->last.stream, b->last.number)))
        r = CUDA_ERROR_NOT_READY;
    if (!r)
        *ms = (float)((double)((int64_t)b->ns - (int64_t)a->ns) * 1e-6);
    return call_leave(r);
}

API cuEventElapsedTime(float *ms, CUevent start, CUevent end)
{
    return event_elapsed(__func__, ms, start, end);
}

static CUresult wait_event(Stream *s, Event *e)
{
    if (e->captured || s->capture)
        return capture_wait(s, e);
    if (!e->last.stream)
        return CUDA_SUCCESS; /* never recorded: nothing to wait for */
    CUresult r = capture_implicit(s);
    if (r)
        return r;
    Work w = {.kind = WORK_WAIT, .name = "cuStreamWaitEvent", .context = s->h.context};
    Dep d = e->last;
    d.clock = &e->clock;
    queue_add(s, &w, &d, 1);
    queue_progress(s);
    return CUDA_SUCCESS;
}

API cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags)
{
    CUresult r;
    Stream *s = enter_stream(__func__, stream, &r);
    Event *e = s ? handle_get(event, HANDLE_EVENT) : NULL;
    if (s && !e)
        r = CUDA_ERROR_INVALID_HANDLE;
    else if (s && flags > CU_EVENT_WAIT_EXTERNAL)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        r = wait_event(s, e);
    return call_leave(r);
}

/* --- host functions -------------------------------------------------------------------------- */

API cuLaunchHostFunc(CUstream stream, CUhostFn fn, void *arg)
{
    CUresult r;
    Stream *s = enter_stream(__func__, stream, &r);
    if (s && !fn)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r) {
        Work w = {.kind = WORK_HOST,
                  .name = "cuLaunchHostFunc",
                  .context = s->h.context,
                  .host = {fn, arg}};
        r = queue_push(s, &w);
    }
    return call_leave(r);
}

API cuStreamAddCallback(CUstream stream, CUstreamCallback fn, void *arg, unsigned int flags)
{
    CUresult r;
    Stream *s = enter_stream(__func__, stream, &r);
    if (s && (!fn || flags))
        r = CUDA_ERROR_INVALID_VALUE;
    if (s && !r)
        r = capture_forbids(s);
    if (!r) {
        Work w = {.kind = WORK_CALLBACK,
                  .name = "cuStreamAddCallback",
                  .context = s->h.context,
                  .callback = {fn, arg, stream}};
        r = queue_push(s, &w);
    }
    return call_leave(r);
}
