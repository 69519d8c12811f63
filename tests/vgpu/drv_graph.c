/* drv_graph.c: graphs of work, made node by node. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv_graph.h"

#include <stdlib.h>
#include <string.h>

Graph *graph_new(void)
{
    return handle_new(HANDLE_GRAPH, sizeof(Graph), NULL);
}

GraphNode *graph_add(Graph *g, Work *w, GraphNode *const *deps, int ndeps)
{
    GraphNode *n = handle_new(HANDLE_NODE, sizeof *n, NULL);
    n->h.inner = true;
    n->graph = g;
    n->work = *w;
    n->index = g->n;
    n->deps = drv_copy(deps, (size_t)ndeps * sizeof *deps);
    n->ndeps = ndeps;
    g->nodes = drv_grow(g->nodes, (size_t)(g->n + 1) * sizeof *g->nodes);
    g->nodes[g->n++] = n;
    return n;
}

static void node_end(GraphNode *n)
{
    work_free(&n->work);
    free(n->deps);
    n->deps = NULL;
    if (n->child)
        graph_end(n->child);
    n->child = NULL;
    handle_kill(&n->h);
}

void graph_end(Graph *g)
{
    for (int k = 0; k < g->n; k++)
        node_end(g->nodes[k]);
    free(g->nodes);
    g->nodes = NULL;
    g->n = 0;
    handle_kill(&g->h);
}

bool graph_sort(const Graph *g, GraphNode **out)
{
    bool *done = drv_alloc((size_t)g->n);
    int n = 0;
    for (int before = -1; n < g->n && n != before;) {
        before = n;
        for (int k = 0; k < g->n; k++) {
            bool ready = !done[k];
            for (int d = 0; ready && d < g->nodes[k]->ndeps; d++)
                ready = done[g->nodes[k]->deps[d]->index];
            if (ready) {
                out[n++] = g->nodes[k];
                done[k] = true;
            }
        }
    }
    free(done);
    return n == g->n;
}

static Graph *graph_clone(const Graph *g)
{
    Graph *c = graph_new();
    GraphNode **sorted = drv_alloc((size_t)g->n * sizeof *sorted);
    GraphNode **made = drv_alloc((size_t)g->n * sizeof *made);
    graph_sort(g, sorted);
    for (int k = 0; k < g->n; k++) {
        const GraphNode *n = sorted[k];
        GraphNode **deps = drv_alloc((size_t)n->ndeps * sizeof *deps);
        for (int d = 0; d < n->ndeps; d++)
            deps[d] = made[n->deps[d]->index];
        Work w = work_copy(&n->work);
        made[n->index] = graph_add(c, &w, deps, n->ndeps);
        if (n->child) {
            made[n->index]->child = graph_clone(n->child);
            made[n->index]->child->h.inner = true;
        }
        free(deps);
    }
    free(sorted);
    free(made);
    return c;
}

/* --- calls about graphs ---------------------------------------------------------------------- */

/** The graph of a call; NULL with *r set. */
static Graph *enter_graph(const char *name, CUgraph handle, CUresult *r)
{
    *r = call_enter(name, INIT);
    Graph *g = *r ? NULL : handle_get(handle, HANDLE_GRAPH);
    if (!*r && !g)
        *r = CUDA_ERROR_INVALID_VALUE;
    return g;
}

API cuGraphCreate(CUgraph *out, unsigned int flags)
{
    CUresult r = call_enter(__func__, INIT);
    if (!r && (!out || flags))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *out = (CUgraph)graph_new();
    return call_leave(r);
}

API cuGraphDestroy(CUgraph handle)
{
    CUresult r;
    Graph *g = enter_graph(__func__, handle, &r);
    if (g && (g->capturing || g->h.inner))
        r = misuse(CUDA_ERROR_INVALID_VALUE, "the graph belongs to a capture or to another graph");
    if (!r)
        graph_end(g);
    return call_leave(r);
}

API cuGraphClone(CUgraph *out, CUgraph handle)
{
    CUresult r;
    const Graph *g = enter_graph(__func__, handle, &r);
    if (g && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *out = (CUgraph)graph_clone(g);
    return call_leave(r);
}

/** Gives up to *n handles and sets *n; with no place for them it only counts. */
static void give_nodes(CUgraphNode *out, size_t *n, GraphNode *const *nodes, size_t have)
{
    for (size_t k = 0; out && k < *n; k++)
        out[k] = k < have ? (CUgraphNode)nodes[k] : NULL;
    if (!out || *n > have)
        *n = have;
}

API cuGraphGetNodes(CUgraph handle, CUgraphNode *out, size_t *n)
{
    CUresult r;
    const Graph *g = enter_graph(__func__, handle, &r);
    if (g && !n)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        give_nodes(out, n, g->nodes, (size_t)g->n);
    return call_leave(r);
}

API cuGraphGetRootNodes(CUgraph handle, CUgraphNode *out, size_t *n)
{
    CUresult r;
    const Graph *g = enter_graph(__func__, handle, &r);
    if (g && !n)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r) {
        GraphNode **roots = drv_alloc((size_t)g->n * sizeof *roots);
        size_t have = 0;
        for (int k = 0; k < g->n; k++)
            if (g->nodes[k]->ndeps == 0)
                roots[have++] = g->nodes[k];
        give_nodes(out, n, roots, have);
        free(roots);
    }
    return call_leave(r);
}

static int edges_of(const Graph *g)
{
    int n = 0;
    for (int k = 0; k < g->n; k++)
        n += g->nodes[k]->ndeps;
    return n;
}

API cuGraphGetEdges(CUgraph handle, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                    size_t *n)
{
    CUresult r;
    const Graph *g = enter_graph(__func__, handle, &r);
    if (g && (!n || !from != !to))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r)
        return call_leave(r);
    size_t at = 0;
    for (int k = 0; k < g->n; k++)
        for (int d = 0; d < g->nodes[k]->ndeps && from && at < *n; d++, at++) {
            from[at] = (CUgraphNode)g->nodes[k]->deps[d];
            to[at] = (CUgraphNode)g->nodes[k];
            if (data)
                memset(&data[at], 0, sizeof *data);
        }
    *n = from ? at : (size_t)edges_of(g);
    return call_leave(r);
}

/* --- edges ----------------------------------------------------------------------------------- */

static void add_edge(GraphNode *from, GraphNode *to)
{
    to->deps = drv_grow(to->deps, (size_t)(to->ndeps + 1) * sizeof *to->deps);
    to->deps[to->ndeps++] = from;
}

static bool remove_edge(const GraphNode *from, GraphNode *to)
{
    for (int k = 0; k < to->ndeps; k++)
        if (to->deps[k] == from) {
            to->deps[k] = to->deps[--to->ndeps];
            return true;
        }
    return false;
}

static CUresult change_edges(const char *name, CUgraph handle, const CUgraphNode *from,
                             const CUgraphNode *to, size_t n, bool add)
{
    CUresult r;
    const Graph *g = enter_graph(name, handle, &r);
    if (g && n && (!from || !to))
        r = CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; !r && k < n; k++) {
        GraphNode *a = handle_get(from[k], HANDLE_NODE), *b = handle_get(to[k], HANDLE_NODE);
        if (!a || !b || a->graph != g || b->graph != g || a == b)
            r = CUDA_ERROR_INVALID_VALUE;
        else if (add)
            add_edge(a, b);
        else if (!remove_edge(a, b))
            r = CUDA_ERROR_INVALID_VALUE;
    }
    return call_leave(r);
}

API cuGraphAddDependencies(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                           const CUgraphEdgeData *data, size_t n)
{
    (void)data;
    return change_edges(__func__, handle, from, to, n, true);
}

API cuGraphRemoveDependencies(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                              const CUgraphEdgeData *data, size_t n)
{
    (void)data;
    return change_edges(__func__, handle, from, to, n, false);
}

/* --- nodes ----------------------------------------------------------------------------------- */

/** Enters a call that adds a node after `deps`; NULL with *r set. */
static Graph *enter_add(const char *name, CUgraph handle, const CUgraphNode *out,
                        const CUgraphNode *deps, size_t n, CUresult *r)
{
    Graph *g = enter_graph(name, handle, r);
    if (g && (!out || (n && !deps)))
        *r = CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; !*r && k < n; k++) {
        const GraphNode *d = handle_get(deps[k], HANDLE_NODE);
        if (!d || d->graph != g)
            *r = CUDA_ERROR_INVALID_VALUE;
    }
    return *r ? NULL : g;
}

static GraphNode *add(Graph *g, Work *w, const CUgraphNode *deps, size_t n)
{
    return graph_add(g, w, (GraphNode *const *)(const void *)deps, (int)n);
}

/** The context that a node without one runs in. */
static Context *context_for(CUcontext handle, CUresult *r)
{
    Context *c = handle ? handle_get(handle, HANDLE_CONTEXT) : context_current();
    if (!c)
        *r = CUDA_ERROR_INVALID_CONTEXT;
    return c;
}

static CUresult kernel_work(const CUDA_KERNEL_NODE_PARAMS *p, Work *out)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    CUlaunchConfig c = {p->gridDimX,  p->gridDimY,       p->gridDimZ, p->blockDimX, p->blockDimY,
                        p->blockDimZ, p->sharedMemBytes, NULL,        NULL,         0};
    CUfunction f = p->func ? p->func : (CUfunction)p->kern;
    return launch_work(&c, f, p->kernelParams, p->extra, out);
}

static CUresult memset_work(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context, Work *out)
{
    CUresult r = CUDA_SUCCESS;
    Context *c = context_for(context, &r);
    if (!c || !p)
        return c ? CUDA_ERROR_INVALID_VALUE : r;
    SetWork s = {.at = p->dst,
                 .pitch = p->pitch,
                 .width = p->width,
                 .height = p->height,
                 .value = p->value,
                 .size = p->elementSize};
    return set_work(s, c, out);
}

static CUresult memcpy_work(const CUDA_MEMCPY3D *p, CUcontext context, Work *out)
{
    CUresult r = CUDA_SUCCESS;
    Context *c = context_for(context, &r);
    if (!c || !p)
        return c ? CUDA_ERROR_INVALID_VALUE : r;
    return copy_work(p, c, out);
}

static CUresult host_work(const CUDA_HOST_NODE_PARAMS *p, Work *out)
{
    CUresult r = CUDA_SUCCESS;
    Context *c = context_for(NULL, &r);
    if (!c || !p || !p->fn)
        return c ? CUDA_ERROR_INVALID_VALUE : r;
    *out =
        (Work){.kind = WORK_HOST, .name = "host node", .context = c, .host = {p->fn, p->userData}};
    return CUDA_SUCCESS;
}

API cuGraphAddKernelNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *deps, size_t n,
                         const CUDA_KERNEL_NODE_PARAMS *params)
{
    CUresult r;
    Work w;
    Graph *g = enter_add(__func__, handle, out, deps, n, &r);
    if (g)
        r = kernel_work(params, &w);
    if (!r)
        *out = (CUgraphNode)add(g, &w, deps, n);
    return call_leave(r);
}

API cuGraphAddMemsetNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *deps, size_t n,
                         const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    CUresult r;
    Work w;
    Graph *g = enter_add(__func__, handle, out, deps, n, &r);
    if (g)
        r = memset_work(params, context, &w);
    if (!r)
        *out = (CUgraphNode)add(g, &w, deps, n);
    return call_leave(r);
}

API cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *deps, size_t n,
                         const CUDA_MEMCPY3D *params, CUcontext context)
{
    CUresult r;
    Work w;
    Graph *g = enter_add(__func__, handle, out, deps, n, &r);
    if (g)
        r = memcpy_work(params, context, &w);
    if (!r)
        *out = (CUgraphNode)add(g, &w, deps, n);
    return call_leave(r);
}

API cuGraphAddHostNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *deps, size_t n,
                       const CUDA_HOST_NODE_PARAMS *params)
{
    CUresult r;
    Work w;
    Graph *g = enter_add(__func__, handle, out, deps, n, &r);
    if (g)
        r = host_work(params, &w);
    if (!r)
        *out = (CUgraphNode)add(g, &w, deps, n);
    return call_leave(r);
}

API cuGraphAddEmptyNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *deps, size_t n)
{
    CUresult r;
    Work w = {.kind = WORK_NONE, .name = "empty node"};
    Graph *g = enter_add(__func__, handle, out, deps, n, &r);
    if (g)
        w.context = context_for(NULL, &r);
    if (!r)
        *out = (CUgraphNode)add(g, &w, deps, n);
    return call_leave(r);
}

API cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph handle, const CUgraphNode *deps, size_t n,
                             CUgraph child)
{
    CUresult r;
    Work w = {.kind = WORK_NONE, .name = "child graph"};
    Graph *g = enter_add(__func__, handle, out, deps, n, &r);
    Graph *c = g ? handle_get(child, HANDLE_GRAPH) : NULL;
    if (g && (!c || c == g))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        w.context = context_for(NULL, &r);
    if (!r) {
        GraphNode *node = add(g, &w, deps, n);
        node->child = graph_clone(c);
        node->child->h.inner = true;
        *out = (CUgraphNode)node;
    }
    return call_leave(r);
}

/** The node of a call; NULL with *r set. */
static GraphNode *enter_node(const char *name, CUgraphNode handle, CUresult *r)
{
    *r = call_enter(name, INIT);
    GraphNode *n = *r ? NULL : handle_get(handle, HANDLE_NODE);
    if (!*r && !n)
        *r = CUDA_ERROR_INVALID_VALUE;
    return n;
}

API cuGraphDestroyNode(CUgraphNode handle)
{
    CUresult r;
    GraphNode *n = enter_node(__func__, handle, &r);
    if (n) {
        Graph *g = n->graph;
        int at = 0;
        for (int k = 0; k < g->n; k++) {
            while (remove_edge(n, g->nodes[k]))
                ;
            if (g->nodes[k] == n)
                continue;
            g->nodes[at] = g->nodes[k];
            g->nodes[at]->index = at;
            at++;
        }
        g->n = at;
        node_end(n);
    }
    return call_leave(r);
}

API cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType *type)
{
    CUresult r;
    const GraphNode *n = enter_node(__func__, handle, &r);
    if (n && !type)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r)
        return call_leave(r);
    WorkKind k = n->work.kind;
    *type = n->child                                ? CU_GRAPH_NODE_TYPE_GRAPH
            : k == WORK_KERNEL || k == WORK_LIBRARY ? CU_GRAPH_NODE_TYPE_KERNEL
            : k == WORK_COPY                        ? CU_GRAPH_NODE_TYPE_MEMCPY
            : k == WORK_SET                         ? CU_GRAPH_NODE_TYPE_MEMSET
            : k == WORK_HOST                        ? CU_GRAPH_NODE_TYPE_HOST
                                                    : CU_GRAPH_NODE_TYPE_EMPTY;
    return call_leave(r);
}

API cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode *deps, CUgraphEdgeData *data,
                               size_t *count)
{
    CUresult r;
    const GraphNode *n = enter_node(__func__, handle, &r);
    if (n && !count)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r) {
        give_nodes(deps, count, n->deps, (size_t)n->ndeps);
        if (data && deps)
            memset(data, 0, *count * sizeof *data);
    }
    return call_leave(r);
}

/** Puts checked new work in a node's place. */
static CUresult replace(Work *old, Work *w, CUresult r)
{
    if (r)
        return r;
    if (!work_matches(old, w)) {
        work_free(w);
        return CUDA_ERROR_INVALID_VALUE;
    }
    work_free(old);
    *old = *w;
    return CUDA_SUCCESS;
}

API cuGraphKernelNodeSetParams(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS *params)
{
    CUresult r;
    Work w;
    GraphNode *n = enter_node(__func__, handle, &r);
    if (n)
        r = replace(&n->work, &w, kernel_work(params, &w));
    return call_leave(r);
}

/* --- executable graphs: new values for a node; what they are made of is in drv_exec.c -------- */

/** The work of the node that `handle` became; NULL with *r set. */
static Work *enter_exec_node(const char *name, CUgraphExec exec, CUgraphNode handle, CUresult *r)
{
    *r = call_enter(name, INIT);
    GraphExec *e = *r ? NULL : handle_get(exec, HANDLE_EXEC);
    const GraphNode *n = e ? handle_get(handle, HANDLE_NODE) : NULL;
    Work *w = n ? exec_work(e, n) : NULL;
    if (!*r && !w)
        *r = CUDA_ERROR_INVALID_VALUE;
    return w;
}

API cuGraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                   const CUDA_KERNEL_NODE_PARAMS *params)
{
    CUresult r;
    Work w, *old = enter_exec_node(__func__, exec, node, &r);
    if (old)
        r = replace(old, &w, kernel_work(params, &w));
    return call_leave(r);
}

API cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                   const CUDA_MEMSET_NODE_PARAMS *params, CUcontext context)
{
    CUresult r;
    Work w, *old = enter_exec_node(__func__, exec, node, &r);
    if (old)
        r = replace(old, &w, memset_work(params, context, &w));
    return call_leave(r);
}

API cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D *params,
                                   CUcontext context)
{
    CUresult r;
    Work w, *old = enter_exec_node(__func__, exec, node, &r);
    if (old)
        r = replace(old, &w, memcpy_work(params, context, &w));
    return call_leave(r);
}

API cuGraphExecHostNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                 const CUDA_HOST_NODE_PARAMS *params)
{
    CUresult r;
    Work w, *old = enter_exec_node(__func__, exec, node, &r);
    if (old)
        r = replace(old, &w, host_work(params, &w));
    return call_leave(r);
}
