/* drv_capture.c: streams that record what is queued on them into a graph, with its dependencies.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv_graph.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* One capture: the stream that began it and those that joined through events. */
typedef struct CaptureGroup {
    struct CaptureGroup *next;
    Graph *graph;
    Stream *origin;
    uint64_t id, thread;
    CUstreamCaptureMode mode;
    bool spoiled; /* a call was made that a capture cannot have */
    Stream **streams;
    int nstreams;
} CaptureGroup;

/* Of a stream: after which nodes its next one comes. */
typedef struct Capture {
    CaptureGroup *group;
    GraphNode **tails;
    int ntails;
} Capture;

static CaptureGroup *groups;

static bool has_tail(const Capture *c, const GraphNode *n)
{
    for (int k = 0; k < c->ntails; k++)
        if (c->tails[k] == n)
            return true;
    return false;
}

static void add_tail(Capture *c, GraphNode *n)
{
    if (has_tail(c, n))
        return;
    c->tails = drv_grow(c->tails, (size_t)(c->ntails + 1) * sizeof *c->tails);
    c->tails[c->ntails++] = n;
}

static void join_group(Stream *s, CaptureGroup *g)
{
    Capture *c = drv_alloc(sizeof *c);
    c->group = g;
    s->capture = c;
    g->streams = drv_grow(g->streams, (size_t)(g->nstreams + 1) * sizeof *g->streams);
    g->streams[g->nstreams++] = s;
}

static void leave_group(Stream *s)
{
    free(s->capture->tails);
    free(s->capture);
    s->capture = NULL;
}

/* --- what a capture sees --------------------------------------------------------------------- */

CUresult capture_add(Stream *s, Work *w)
{
    Capture *c = s->capture;
    if (c->group->spoiled) {
        work_free(w);
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    GraphNode *n = graph_add(c->group->graph, w, c->tails, c->ntails);
    c->ntails = 0;
    add_tail(c, n);
    return CUDA_SUCCESS;
}

CUresult capture_add_child(Stream *s, Graph *child)
{
    Work w = {.kind = WORK_NONE, .name = "cuGraphLaunch", .context = s->h.context};
    CUresult r = capture_add(s, &w);
    if (!r)
        s->capture->tails[0]->child = child;
    return r;
}

CUresult capture_record(Stream *s, Event *e)
{
    Capture *c = s->capture;
    if (c->group->spoiled)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    e->captured = c->group->graph;
    e->tails = drv_grow(e->tails, (size_t)c->ntails * sizeof *e->tails);
    e->ntails = c->ntails;
    if (c->ntails)
        memcpy(e->tails, c->tails, (size_t)c->ntails * sizeof *e->tails);
    return CUDA_SUCCESS;
}

static CaptureGroup *group_of(const Graph *g)
{
    CaptureGroup *c = groups;
    while (c && c->graph != g)
        c = c->next;
    return c;
}

CUresult capture_wait(Stream *s, Event *e)
{
    CaptureGroup *g = e->captured ? group_of(e->captured) : NULL;
    if (e->captured && !g)
        return misuse(CUDA_ERROR_CAPTURED_EVENT, "the capture that recorded the event has ended");
    if (!g) { /* what was queued before the capture does not exist for a graph */
        s->capture->group->spoiled = true;
        return misuse(CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                      "event %llu was recorded outside of the capture",
                      (unsigned long long)e->h.number);
    }
    if (g->spoiled)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!s->capture)
        join_group(s, g);
    if (s->capture->group != g) {
        g->spoiled = s->capture->group->spoiled = true;
        return misuse(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures cannot be one");
    }
    for (int k = 0; k < e->ntails; k++)
        add_tail(s->capture, e->tails[k]);
    return CUDA_SUCCESS;
}

CUresult capture_forbids(Stream *s)
{
    if (!s->capture)
        return CUDA_SUCCESS;
    s->capture->group->spoiled = true;
    return misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not possible while the stream captures");
}

CUresult capture_unsafe(void)
{
    for (CaptureGroup *g = groups; g; g = g->next) {
        bool strict = g->mode == CU_STREAM_CAPTURE_MODE_GLOBAL ||
                      (g->mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL &&
                       g->thread == (uint64_t)pthread_self());
        if (strict) {
            g->spoiled = true;
            return misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                          "not possible while a stream captures");
        }
    }
    return CUDA_SUCCESS;
}

CUresult capture_implicit(Stream *s)
{
    if (!s->legacy)
        return CUDA_SUCCESS;
    for (CaptureGroup *g = groups; g; g = g->next)
        for (int k = 0; k < g->nstreams; k++)
            if (g->streams[k]->blocking && g->streams[k]->h.context == s->h.context) {
                g->spoiled = true;
                return misuse(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                              "the default stream would wait for a stream that captures");
            }
    return CUDA_SUCCESS;
}

/* --- calls ----------------------------------------------------------------------------------- */

static CUresult begin(Stream *s, CUstreamCaptureMode mode)
{
    static uint64_t ids;
    if (s->legacy)
        return misuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                      "the legacy default stream cannot capture");
    if (s->capture)
        return misuse(CUDA_ERROR_ILLEGAL_STATE, "the stream captures already");
    if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    CaptureGroup *g = drv_alloc(sizeof *g);
    *g = (CaptureGroup){.next = groups,
                        .graph = graph_new(),
                        .origin = s,
                        .id = ++ids,
                        .thread = (uint64_t)pthread_self(),
                        .mode = mode};
    g->graph->capturing = g->graph->h.inner = true;
    groups = g;
    join_group(s, g);
    return CUDA_SUCCESS;
}

API cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    CUresult r = call_enter(__func__, WORKING);
    Stream *s = r ? NULL : stream_get(stream);
    if (!r)
        r = s ? begin(s, mode) : CUDA_ERROR_INVALID_HANDLE;
    return call_leave(r);
}

/** Whether all that the other streams captured is waited for by the first one. */
static bool all_joined(const CaptureGroup *g)
{
    bool *reached = drv_alloc((size_t)g->graph->n);
    const Capture *c = g->origin->capture;
    bool all = true;
    for (int k = 0; k < c->ntails; k++)
        reached[c->tails[k]->index] = true;
    for (int k = g->graph->n - 1; k >= 0; k--) { /* dependencies have lower numbers */
        const GraphNode *n = g->graph->nodes[k];
        all = all && reached[k];
        for (int d = 0; reached[k] && d < n->ndeps; d++)
            reached[n->deps[d]->index] = true;
    }
    free(reached);
    return all;
}

static void end_group(CaptureGroup *g)
{
    CaptureGroup **at = &groups;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    for (int k = 0; k < g->nstreams; k++)
        leave_group(g->streams[k]);
    free(g->streams);
    free(g);
}

static CUresult end(Stream *s, CUgraph *out)
{
    CaptureGroup *g = s->capture ? s->capture->group : NULL;
    if (!g)
        return misuse(CUDA_ERROR_ILLEGAL_STATE, "the stream does not capture");
    if (g->origin != s)
        return misuse(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the capture began on another stream");
    if (g->mode != CU_STREAM_CAPTURE_MODE_RELAXED && g->thread != (uint64_t)pthread_self())
        return misuse(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread began the capture");
    CUresult r = CUDA_SUCCESS;
    if (g->spoiled)
        r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!all_joined(g))
        r = misuse(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                   "work of another stream is not waited for by the one that began the capture");
    Graph *graph = g->graph;
    graph->capturing = graph->h.inner = false;
    end_group(g);
    if (r)
        graph_end(graph);
    *out = r ? NULL : (CUgraph)graph;
    return r;
}

API cuStreamEndCapture(CUstream stream, CUgraph *out)
{
    CUresult r = call_enter(__func__, WORKING);
    Stream *s = r ? NULL : stream_get(stream);
    if (!r && !s)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r)
        r = out ? end(s, out) : CUDA_ERROR_INVALID_VALUE;
    return call_leave(r);
}

static CUstreamCaptureStatus status_of(const Stream *s)
{
    if (!s->capture)
        return CU_STREAM_CAPTURE_STATUS_NONE;
    return s->capture->group->spoiled ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                      : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

API cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus *status)
{
    CUresult r = call_enter(__func__, WORKING);
    const Stream *s = r ? NULL : stream_get(stream);
    if (!r && !s)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && !status)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *status = status_of(s);
    return call_leave(r);
}

API cuStreamGetCaptureInfo(CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
                           CUgraph *graph, const CUgraphNode **deps, const CUgraphEdgeData **edges,
                           size_t *n)
{
    CUresult r = call_enter(__func__, WORKING);
    const Stream *s = r ? NULL : stream_get(stream);
    if (!r && !s)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && !status)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r)
        return call_leave(r);
    *status = status_of(s);
    if (!s->capture)
        return call_leave(r);
    if (id)
        *id = s->capture->group->id;
    if (graph)
        *graph = (CUgraph)s->capture->group->graph;
    if (deps)
        *deps = (const CUgraphNode *)(const void *)s->capture->tails;
    if (edges)
        *edges = NULL;
    if (n)
        *n = (size_t)s->capture->ntails;
    return call_leave(r);
}

API cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    static _Thread_local CUstreamCaptureMode current;
    CUresult r = call_enter(__func__, INIT);
    if (!r && !mode)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r) {
        CUstreamCaptureMode old = current;
        current = *mode;
        *mode = old;
    }
    return call_leave(r);
}
