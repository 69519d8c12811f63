/* drv_exec.c: executable graphs. A launch queues the nodes on inner streams ("lanes"): one for each
 * chain, with the dependencies between them, so that they run in any order that the graph allows
 * and are checked as what is queued on streams is. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv_graph.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    Work work;
    const GraphNode *source;
    int *deps; /* earlier ExecNodes */
    int ndeps, lane;
    bool waited; /* another node comes after it */
    /* of the launch that is being queued: */
    uint64_t number;
    Clock clock;
} ExecNode;

typedef struct {
    Stream *stream;
    int last; /* node, while lanes are given out */
} Lane;

struct GraphExec {
    Handle h;
    ExecNode *nodes;
    int n;
    Lane *lanes;
    int nlanes;
    Dep last; /* the end of the launch before: launches of one graph do not overlap */
    Clock last_clock;
};

/* --- making ---------------------------------------------------------------------------------- */

static int exec_add(GraphExec *e, const GraphNode *n, const Work *w, const int *deps, int ndeps)
{
    e->nodes = drv_grow(e->nodes, (size_t)(e->n + 1) * sizeof *e->nodes);
    e->nodes[e->n] = (ExecNode){.work = work_copy(w),
                                .source = n,
                                .deps = drv_copy(deps, (size_t)ndeps * sizeof *deps),
                                .ndeps = ndeps,
                                .lane = -1};
    return e->n++;
}

/** Adds the nodes of `g` behind `first` (-1: nothing), then an empty node behind all of them, whose
 * number it gives; -1: a cycle. */
static int add_graph(GraphExec *e, const Graph *g, int first, Context *c)
{
    GraphNode **sorted = drv_alloc((size_t)g->n * sizeof *sorted);
    int *made = drv_alloc((size_t)g->n * sizeof *made), *deps = NULL, end = -1;
    bool fits = graph_sort(g, sorted);
    for (int k = 0; k < g->n && fits; k++) {
        const GraphNode *n = sorted[k];
        deps = drv_grow(deps, (size_t)(n->ndeps + 1) * sizeof *deps);
        for (int d = 0; d < n->ndeps; d++)
            deps[d] = made[n->deps[d]->index];
        if (n->ndeps == 0)
            deps[0] = first;
        int ndeps = n->ndeps ? n->ndeps : first >= 0;
        int at = exec_add(e, n, &n->work, deps, ndeps);
        if (n->child)
            at = add_graph(e, n->child, at, n->work.context);
        made[n->index] = at;
        fits = at >= 0;
    }
    if (fits && first >= 0) { /* a child */
        Work none = {.kind = WORK_NONE, .name = "end of a child graph", .context = c};
        deps = drv_grow(deps, (size_t)(g->n + 1) * sizeof *deps);
        memcpy(deps, made, (size_t)g->n * sizeof *deps);
        deps[g->n] = first;
        end = exec_add(e, NULL, &none, deps, g->n + 1);
    }
    free(sorted);
    free(made);
    free(deps);
    return fits ? end < 0 ? 0 : end : -1;
}

/** A node follows one that it depends on in its lane when nothing else has; else it gets a new one.
 */
static void give_lane(GraphExec *e, int k)
{
    ExecNode *n = &e->nodes[k];
    for (int d = 0; d < n->ndeps; d++) {
        e->nodes[n->deps[d]].waited = true;
        Lane *l = &e->lanes[e->nodes[n->deps[d]].lane];
        if (n->lane < 0 && l->last == n->deps[d] && l->stream->h.context == n->work.context)
            n->lane = e->nodes[n->deps[d]].lane;
    }
    if (n->lane < 0) {
        e->lanes = drv_grow(e->lanes, (size_t)(e->nlanes + 1) * sizeof *e->lanes);
        e->lanes[e->nlanes].stream = stream_lane(n->work.context);
        n->lane = e->nlanes++;
    }
    e->lanes[n->lane].last = k;
}

static void exec_end(GraphExec *e)
{
    for (int k = 0; k < e->nlanes; k++)
        stream_delete(e->lanes[k].stream);
    for (int k = 0; k < e->n; k++) {
        work_free(&e->nodes[k].work);
        free(e->nodes[k].deps);
        clock_free(&e->nodes[k].clock);
    }
    free(e->nodes);
    free(e->lanes);
    e->nodes = NULL;
    e->lanes = NULL;
    e->n = e->nlanes = 0;
    clock_free(&e->last_clock);
    handle_kill(&e->h);
}

static CUresult instantiate(CUgraphExec *out, CUgraph handle, unsigned long long flags)
{
    const Graph *g = handle_get(handle, HANDLE_GRAPH);
    if (!g || !out || flags & ~15ull)
        return CUDA_ERROR_INVALID_VALUE;
    if (g->capturing)
        return misuse(CUDA_ERROR_INVALID_VALUE, "the graph is still being captured");
    GraphExec *e = handle_new(HANDLE_EXEC, sizeof *e, NULL);
    if (add_graph(e, g, -1, NULL) < 0) {
        exec_end(e);
        return misuse(CUDA_ERROR_INVALID_VALUE, "the graph has a cycle");
    }
    for (int k = 0; k < e->n; k++)
        give_lane(e, k);
    *out = (CUgraphExec)e;
    return CUDA_SUCCESS;
}

API cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
    CUresult r = call_enter(__func__, INIT);
    if (!r)
        r = instantiate(out, graph, flags);
    return call_leave(r);
}

API cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    CUresult r = call_enter(__func__, INIT);
    if (!r)
        r = p ? instantiate(out, graph, p->flags) : CUDA_ERROR_INVALID_VALUE;
    if (p)
        p->result_out = r ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
    return call_leave(r);
}

API cuGraphExecDestroy(CUgraphExec handle)
{
    CUresult r = call_enter(__func__, INIT);
    GraphExec *e = r ? NULL : handle_get(handle, HANDLE_EXEC);
    if (!r && !e)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        exec_end(e);
    return call_leave(r);
}

/* --- launching ------------------------------------------------------------------------------- */

static uint64_t push_marker(Stream *s, const char *name, const Dep *deps, int n)
{
    Work w = {.kind = WORK_NONE, .name = name, .context = s->h.context};
    return queue_add(s, &w, deps, n);
}

static void push_node(GraphExec *e, ExecNode *n, const Dep *begin)
{
    Dep *deps = drv_alloc((size_t)(n->ndeps + 1) * sizeof *deps);
    deps[0] = *begin;
    for (int d = 0; d < n->ndeps; d++) {
        const ExecNode *x = &e->nodes[n->deps[d]];
        deps[d + 1] = (Dep){e->lanes[x->lane].stream, x->number, &x->clock};
    }
    Stream *lane = e->lanes[n->lane].stream;
    Work w = work_copy(&n->work);
    n->number = queue_add(lane, &w, deps, n->ndeps + 1);
    clock_copy(&n->clock, &lane->clock);
    free(deps);
}

static CUresult check_nodes(const GraphExec *e)
{
    for (int k = 0; k < e->n; k++) {
        const Work *w = &e->nodes[k].work;
        if (w->context->h.dead)
            return misuse(CUDA_ERROR_INVALID_CONTEXT, "the context of a node was destroyed");
        if (w->kind == WORK_KERNEL && !function_context(w->kernel.grid.function))
            return misuse(CUDA_ERROR_INVALID_HANDLE, "the module of '%s' was unloaded", w->name);
    }
    return CUDA_SUCCESS;
}

static void launch(GraphExec *e, Stream *s)
{
    e->last.clock = &e->last_clock;
    Dep begin = {.stream = s};
    begin.number = push_marker(s, "begin of a graph", &e->last, e->last.stream != NULL);
    Clock at_begin = {0};
    clock_copy(&at_begin, &s->clock);
    begin.clock = &at_begin;
    for (int k = 0; k < e->n; k++)
        push_node(e, &e->nodes[k], &begin);
    Dep *ends = drv_alloc((size_t)(e->n + 1) * sizeof *ends);
    int n = 0;
    for (int k = 0; k < e->n; k++)
        if (!e->nodes[k].waited)
            ends[n++] =
                (Dep){e->lanes[e->nodes[k].lane].stream, e->nodes[k].number, &e->nodes[k].clock};
    e->last = (Dep){.stream = s, .number = push_marker(s, "end of a graph", ends, n)};
    clock_copy(&e->last_clock, &s->clock);
    free(ends);
    clock_free(&at_begin);
    queue_progress(s);
}

/** A graph of what the executable one holds, for a launch that is captured. */
static Graph *graph_of(const GraphExec *e)
{
    Graph *g = graph_new();
    g->h.inner = true;
    for (int k = 0; k < e->n; k++) {
        const ExecNode *n = &e->nodes[k];
        GraphNode **deps = drv_alloc((size_t)n->ndeps * sizeof *deps);
        for (int d = 0; d < n->ndeps; d++)
            deps[d] = g->nodes[n->deps[d]];
        Work w = work_copy(&n->work);
        graph_add(g, &w, deps, n->ndeps);
        free(deps);
    }
    return g;
}

API cuGraphLaunch(CUgraphExec handle, CUstream stream)
{
    CUresult r = call_enter(__func__, WORKING);
    Stream *s = r ? NULL : stream_get(stream);
    GraphExec *e = s ? handle_get(handle, HANDLE_EXEC) : NULL;
    if (!r && !e)
        r = s ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    if (!r)
        r = s->h.context->error;
    if (!r)
        r = capture_implicit(s);
    if (!r)
        r = check_nodes(e);
    if (!r && s->capture)
        r = capture_add_child(s, graph_of(e));
    else if (!r)
        launch(e, s);
    return call_leave(r);
}

API cuGraphUpload(CUgraphExec handle, CUstream stream)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r && (!handle_get(handle, HANDLE_EXEC) || !stream_get(stream)))
        r = CUDA_ERROR_INVALID_VALUE;
    return call_leave(r);
}

/* --- changing -------------------------------------------------------------------------------- */

Work *exec_work(GraphExec *e, const GraphNode *n)
{
    for (int k = 0; k < e->n; k++)
        if (e->nodes[k].source == n)
            return &e->nodes[k].work;
    return NULL;
}

bool work_matches(const Work *a, const Work *b)
{
    return a->kind == b->kind && a->context == b->context;
}

static bool same_shape(const GraphExec *a, const GraphExec *b)
{
    if (a->n != b->n)
        return false;
    for (int k = 0; k < a->n; k++) {
        const ExecNode *x = &a->nodes[k], *y = &b->nodes[k];
        if (!work_matches(&x->work, &y->work) || x->ndeps != y->ndeps ||
            (x->ndeps && memcmp(x->deps, y->deps, (size_t)x->ndeps * sizeof *x->deps)))
            return false;
    }
    return true;
}

API cuGraphExecUpdate(CUgraphExec handle, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    CUresult r = call_enter(__func__, INIT);
    GraphExec *e = r ? NULL : handle_get(handle, HANDLE_EXEC);
    CUgraphExec made;
    if (!r && (!e || !info))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        r = instantiate(&made, graph, 0);
    if (r)
        return call_leave(r);
    GraphExec *other = (GraphExec *)made;
    memset(info, 0, sizeof *info);
    if (same_shape(e, other)) {
        for (int k = 0; k < e->n; k++) {
            Work w = e->nodes[k].work;
            e->nodes[k].work = other->nodes[k].work;
            e->nodes[k].source = other->nodes[k].source;
            other->nodes[k].work = w;
        }
        info->result = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    } else {
        info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
        r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    exec_end(other);
    return call_leave(r);
}
