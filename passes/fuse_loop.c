/* fuse_loop.c: what a scan reads: values in memory, through views that are strides.
 *
 *   %p = transpose %x {perm=[1, 0, 2]}      %hT = scan %h0, %p, ..      the scan reads %x
 *
 * Products in the body want whole rows one behind the other.
 * SPDX-License-Identifier: MIT */
#include "ir/loop.h"
#include "passes/fuse_internal.h"

/* Something that knows no strides but those of rows reads the value, perhaps through views, or as a
 * piece of a product's operand. */
static bool wants_rows(const Program *p, const Graph *g, uint32_t id)
{
    for (uint32_t k = id + 1; k < g->nodes.n; k++) {
        const Node *n = &g->nodes.at[k];
        for (uint32_t i = 0; i < n->nin; i++)
            if (n->in[i].node == id &&
                (n->op == OP_dot || n->op == OP_scan || op_takes_views(n->op) ||
                 ((op_is_view(n->op) || n->op == OP_concat) && wants_rows(p, g, k))))
                return true;
    }
    return false;
}

/* Only axes of size 1 come or go. */
static bool only_ones(const Fuser *f, const TypeInfo *a, const TypeInfo *b)
{
    uint32_t i = 0, k = 0;
    for (;;) {
        while (i < a->rank && dim_is_one(f->t, a->shape[i]))
            i++;
        while (k < b->rank && dim_is_one(f->t, b->shape[k]))
            k++;
        if (i == a->rank || k == b->rank)
            return i == a->rank && k == b->rank;
        if (!dim_same(a->shape[i++], b->shape[k++]))
            return false;
    }
}

/* A range of the first axis; with steps only where that is the axis of the turns. */
static bool of_first_axis(const Fuser *f, const Node *n, Dim turns)
{
    const TypeInfo *x = val_info(f->p, f->g, n->in[0]);
    const Attr step = node_attr(n, ATTR_step);
    for (uint32_t i = 1; i < x->rank; i++)
        if (!dim_same(node_dim(n, ATTR_extent, i), x->shape[i]) || step.at[i] != 1)
            return false;
    return step.at[0] == 1 || (turns.id && dim_same(node_dim(n, ATTR_extent, 0), turns));
}

Val fuse_loop_source(const Fuser *f, const Node *scan, uint32_t i)
{
    const Loop l = loop_of(f->p, scan);
    const bool rows = i >= l.ncarry && wants_rows(f->p, l.body, l.body->params.at[i].val.node);
    const Dim turns = i < l.ncarry + l.nxs ? l.trip : (Dim){0};
    Val v = scan->in[i];
    while (f->kind[v.node] == NODE_CONE) {
        const Node *n = graph_node(f->g, v);
        const TypeInfo *r = val_info(f->p, f->g, v);
        bool through = false;
        if (n->op == OP_reshape)
            through = only_ones(f, r, val_info(f->p, f->g, n->in[0]));
        else if (n->op == OP_slice)
            through = !rows || of_first_axis(f, n, turns);
        else
            through = !rows && (n->op == OP_transpose || n->op == OP_broadcast);
        if (!through)
            break;
        v = n->in[0];
    }
    return v;
}
