/* analysis.c: questions about graphs. SPDX-License-Identifier: MIT */
#include "passes/analysis.h"

#include "ir/base/die.h"

bool op_is_view(Op op)
{
    return op == OP_broadcast || op == OP_reshape || op == OP_transpose || op == OP_slice;
}

bool op_is_free(Op op)
{
    return op == OP_const || op == OP_iota || op == OP_dim || op == OP_table;
}

bool graph_constant(const Graph *g, Val v, double *value)
{
    const Node *n = graph_node(g, v);
    while (op_is_view(n->op))
        n = graph_node(g, n->in[0]);
    if (n->op != OP_const)
        return false;
    DType t = (DType)node_int(n, ATTR_dtype);
    *value = dtype_is_float(t) ? node_f64(n, ATTR_value) : (double)node_int(n, ATTR_value);
    return true;
}

double val_count(const Program *p, const Graph *g, Val v)
{
    const TypeInfo *t = val_info(p, g, v);
    double n = 1;
    for (uint32_t k = 0; k < t->rank; k++)
        n *= dim_hint(p->cx->dims, t->shape[k]);
    return n;
}

double val_bytes(const Program *p, const Graph *g, Val v)
{
    return val_count(p, g, v) * dtype_size(val_info(p, g, v)->dtype);
}

double node_bytes(const Program *p, const Graph *g, uint32_t node)
{
    double sum = 0;
    for (uint32_t k = 0; k < g->nodes.at[node].nout; k++)
        sum += val_bytes(p, g, (Val){node, k});
    return sum;
}

void graph_inline(Builder *b, const Graph *def, const Val *args, uint32_t nargs, Val *results)
{
    Arena *a = b->p->cx->scratch;
    Val **map = arena_array(a, Val *, def->nodes.n);
    Site site = b->site;
    CHECK(nargs == def->params.n);
    for (uint32_t k = 0; k < nargs; k++) {
        Val v = def->params.at[k].val;
        map[v.node] = arena_array(a, Val, 1);
        map[v.node][v.result] = args[k];
    }
    for (uint32_t id = 1; id < def->nodes.n; id++) {
        if (map[id])
            continue;
        Node n = def->nodes.at[id];
        Val *in = arena_array(a, Val, n.nin);
        for (uint32_t k = 0; k < n.nin; k++)
            in[k] = map[n.in[k].node][n.in[k].result];
        b->site = n.site;
        map[id] = arena_array(a, Val, n.nout);
        Val v = build_again(b, &n, in);
        for (uint32_t k = 0; k < n.nout; k++)
            map[id][k] = k ? val_result(v, v.result + k) : v;
        if (n.nout == 1)
            val_hint(b, v, n.hint);
    }
    for (uint32_t k = 0; k < def->results.n; k++) {
        Val v = def->results.at[k].val;
        results[k] = map[v.node][v.result];
    }
    b->site = site;
}

Users graph_users(const Program *p, const Graph *g, const bool *live)
{
    Arena *a = p->cx->scratch;
    Users u = {arena_array(a, uint32_t, g->nodes.n + 1), NULL};
    uint32_t total = 0;
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        const Node *n = &g->nodes.at[id];
        if (live && !live[id])
            continue;
        total += n->nin;
        for (uint32_t k = 0; k < n->nin; k++)
            u.start[n->in[k].node + 1]++;
    }
    for (uint32_t id = 1; id <= g->nodes.n; id++)
        u.start[id] += u.start[id - 1];
    uint32_t *at = arena_array(a, uint32_t, g->nodes.n + 1);
    u.list = arena_array(a, uint32_t, total);
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        const Node *n = &g->nodes.at[id];
        if (live && !live[id])
            continue;
        for (uint32_t k = 0; k < n->nin; k++)
            u.list[u.start[n->in[k].node] + at[n->in[k].node]++] = id;
    }
    return u;
}
