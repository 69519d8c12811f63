/* fuse_opaque.c: ops that stand for themselves: their operands lie in memory as wholes, and so do
 * their results; functions of runtime/kernels do the work (lower_opaque.c).
 *
 *   %y = sort add(%a, %b) {axis=1}          the sum is stored; group opaque: %y, %y#1
 *
 * A reshape of an operand costs nothing: the elements lie in the same order.
 * SPDX-License-Identifier: MIT */
#include "passes/fuse_internal.h"

#include <string.h>

bool op_is_opaque(Op op)
{
    return op == OP_cumulate || op == OP_scatter || op == OP_sort || op == OP_scan ||
           op == OP_transfer || op_takes_views(op);
}

bool op_takes_views(Op op)
{
    return op == OP_attention || op == OP_attention_grad || op == OP_conv;
}

bool op_updates_first(Op op)
{
    return op == OP_scatter;
}

/* Attention reads vectors of its operands: q, k, v, dy, y; any elements of a bias; the others
 * whole.
 */
static FuseView view_of(const Fuser *f, const Node *n, uint32_t i)
{
    const uint32_t vectors = n->op == OP_attention ? 3 : 4, fixed = n->op == OP_attention ? 3 : 6;
    const TypeInfo t = *val_info(f->p, f->g, n->in[i]);
    FuseView view = {0}, whole = {.source = n->in[i], .offset = dim_const(f->t, 0)};
    Dim size = dim_const(f->t, 1);
    for (uint32_t k = t.rank; k-- > 0;) {
        whole.stride[k] = size;
        size = dim_mul(f->t, size, t.shape[k]);
    }
    const bool is_vectors = i < vectors || (i == 5 && fixed == 6 && t.rank == 4);
    if ((n->op != OP_conv && !is_vectors && i < fixed) || t.rank == 0 ||
        !fuse_strided(f, n->in[i], &view))
        return whole;
    if (n->op == OP_conv)
        return view;
    return is_vectors && !dim_is_one(f->t, view.stride[3]) ? whole : view;
}

/* Where the elements of an operand lie, in their order. */
static Val source(const Fuser *f, const Node *n, uint32_t i)
{
    Val v = n->in[i];
    if (n->op == OP_scan)
        return fuse_loop_source(f, n, i);
    if (op_takes_views(n->op))
        return view_of(f, n, i).source;
    while (f->kind[v.node] == NODE_CONE && graph_node(f->g, v)->op == OP_reshape)
        v = graph_node(f->g, v)->in[0];
    return v;
}

bool opaque_fills(const Graph *g, const Node *n, uint32_t i, double *value)
{
    const bool start = (n->op == OP_scatter && i == 0) || (n->op == OP_cumulate && i == 2) ||
                       (n->op == OP_scan && (int64_t)i < node_attr(n, ATTR_counts).at[0]);
    return start && graph_constant(g, n->in[i], value);
}

void fuse_own_operands(Fuser *f)
{
    for (uint32_t id = 1; id < f->g->nodes.n; id++) {
        const Node *n = fuse_node(f, id);
        for (uint32_t i = 0; i < n->nin && f->live[id] && op_takes_views(n->op); i++) {
            Val v = n->in[i];
            while (op_is_view(graph_node(f->g, v)->op))
                v = graph_node(f->g, v)->in[0];
            f->own[fuse_vid(f, v)] = true;
        }
    }
}

void fuse_prepare_opaque(Fuser *f, uint32_t id)
{
    const Node *n = fuse_node(f, id);
    if (f->kind[id] == NODE_CONE)
        f->kind[id] = NODE_REAL;
    for (uint32_t i = 0; i < n->nin; i++) {
        Val v = source(f, n, i);
        double value;
        if (opaque_fills(f->g, n, i, &value))
            continue;
        if (f->kind[v.node] == NODE_CONE)
            f->kind[v.node] = NODE_REAL;
        f->keep[fuse_vid(f, v)] = true;
        if (op_takes_views(n->op) && f->kind[v.node] == NODE_REAL)
            f->own[fuse_vid(f, v)] = true; /* row-major */
    }
}

Kern *fuse_opaque(Fuser *f, uint32_t id)
{
    const Node *n = fuse_node(f, id);
    Kern *k = arena_new(f->a, Kern);
    FuseRoot r = {.val = {id, 0}};
    memset(r.axis_of, -1, sizeof r.axis_of);
    k->class = CLASS_OPAQUE;
    k->after = -1;
    vec_push(f->a, &k->roots, r);
    vec_push(f->a, &k->body, id);
    for (uint32_t i = 0; i < n->nin; i++) {
        Val v = source(f, n, i);
        double value;
        bool again = opaque_fills(f->g, n, i, &value);
        for (uint32_t j = 0; j < k->reads.n; j++)
            again |= val_eq(k->reads.at[j].v, v);
        if (!again)
            vec_push(f->a, &k->reads, ((Read){.v = v, .bytes = val_bytes(f->p, f->g, v)}));
    }
    for (uint32_t i = 0; i < n->nin && op_takes_views(n->op); i++)
        vec_push(f->a, &k->views, view_of(f, n, i));
    f->owner[id] = (int32_t)f->ks.n;
    return k;
}
