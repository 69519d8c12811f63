/* fold_views.c: the canonical form of views: a view of a view is one view, views that change
 * nothing are dropped, sums of neighbouring pads become a concat.
 *
 *   reshape(reshape(x)) -> reshape(x)        slice(concat(a, b)) -> slice(b)  inside b
 *   transpose(transpose(x)) -> transpose(x)  concat(slice 0:n, slice n:m) -> slice 0:m
 *   add(pad(a, behind), pad(b, before)) -> concat(a, b)
 *
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/tensor_internal.h"

#include <string.h>

static const Val none = {0, 0};

static bool same_shape(const TypeInfo *a, const TypeInfo *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (!dim_same(a->shape[i], b->shape[i]))
            return false;
    return true;
}

static bool is_zero(const Builder *b, Dim d)
{
    return dim_is_zero(b->p->cx->dims, d);
}

static bool is_one(const Builder *b, Dim d)
{
    return dim_is_one(b->p->cx->dims, d);
}

/* A fill keeps its value under views that only rearrange: the constant below, or none. */
static Val fill_constant(const Builder *b, Val x)
{
    while (graph_node(b->g, x)->op == OP_broadcast)
        x = graph_node(b->g, x)->in[0];
    return graph_node(b->g, x)->op == OP_const ? x : none;
}

/* --- broadcast, reshape, transpose ---------------------------------------------------------------
 */

/* shape with axes of size 1 put in is what a reshape does: result axis of each operand axis. */
static bool inserts_ones(const Builder *b, const TypeInfo *from, const TypeInfo *to, int64_t *axis)
{
    uint32_t i = 0;
    for (uint32_t k = 0; k < to->rank; k++)
        if (i < from->rank && dim_same(from->shape[i], to->shape[k]))
            axis[i++] = k;
        else if (!is_one(b, to->shape[k]))
            return false;
    return i == from->rank;
}

static Val fold_broadcast(Builder *b, Val x, const Attr *attrs, Ty type)
{
    const TypeInfo r = *type_info(b->p, type), t = *val_info(b->p, b->g, x);
    if (same_shape(&t, &r))
        return x;
    const Node n = *graph_node(b->g, x);
    int64_t dims[MAX_RANK];
    if (n.op == OP_broadcast) {
        const Attr inner = node_attr(&n, ATTR_dims);
        for (uint32_t i = 0; i < inner.n; i++)
            dims[i] = attrs[1].at[inner.at[i]];
        return build_broadcast(b, n.in[0], r.shape, r.rank, dims);
    }
    if (n.op == OP_reshape && inserts_ones(b, val_info(b->p, b->g, n.in[0]), &t, dims)) {
        const uint32_t rank = val_info(b->p, b->g, n.in[0])->rank;
        for (uint32_t i = 0; i < rank; i++)
            dims[i] = attrs[1].at[dims[i]];
        return build_broadcast(b, n.in[0], r.shape, r.rank, dims);
    }
    return none;
}

static Val fold_reshape(Builder *b, Val x, Ty type)
{
    const TypeInfo r = *type_info(b->p, type), t = *val_info(b->p, b->g, x);
    if (same_shape(&t, &r))
        return x;
    const Node *n = graph_node(b->g, x);
    if (n->op == OP_reshape)
        return build_reshape(b, n->in[0], r.shape, r.rank);
    const Val c = fill_constant(b, x);
    return c.node ? build_broadcast(b, c, r.shape, r.rank, NULL) : none;
}

static Val fold_transpose(Builder *b, Val x, const Attr *attrs, Ty type)
{
    const TypeInfo r = *type_info(b->p, type);
    const int64_t *perm = attrs[0].at;
    bool identity = true;
    for (uint32_t i = 0; i < r.rank; i++)
        identity &= perm[i] == (int64_t)i;
    if (identity)
        return x;
    const Node n = *graph_node(b->g, x);
    int64_t words[MAX_RANK];
    if (n.op == OP_transpose) {
        const Attr inner = node_attr(&n, ATTR_perm);
        for (uint32_t i = 0; i < r.rank; i++)
            words[i] = inner.at[perm[i]];
        return build_transpose(b, n.in[0], words);
    }
    if (n.op != OP_broadcast)
        return none;
    const Attr dims = node_attr(&n, ATTR_dims); /* stays one broadcast if the order is kept */
    for (uint32_t i = 0; i < dims.n; i++)
        for (uint32_t k = 0; k < r.rank; k++)
            if (perm[k] == dims.at[i])
                words[i] = k;
    for (uint32_t i = 1; i < dims.n; i++)
        if (words[i] <= words[i - 1])
            return none;
    return build_broadcast(b, n.in[0], r.shape, r.rank, words);
}

/* --- slice ---------------------------------------------------------------------------------------
 */

typedef struct {
    Dim start[MAX_RANK], extent[MAX_RANK];
    int64_t step[MAX_RANK];
    uint32_t n;
} Range;

static Range range_of(const Attr *attrs)
{
    Range r = {.n = attrs[0].n};
    for (uint32_t i = 0; i < r.n; i++) {
        r.start[i] = attr_dim(attrs[0], i);
        r.step[i] = attrs[1].at[i];
        r.extent[i] = attr_dim(attrs[2], i);
    }
    return r;
}

static Val build_range(Builder *b, Val x, const Range *r)
{
    return build_slice(b, x, r->start, r->step, r->extent);
}

static Val slice_of_slice(Builder *b, const Node *n, const Range *r)
{
    DimTable *t = b->p->cx->dims;
    Range in = range_of(n->attrs);
    for (uint32_t i = 0; i < in.n; i++) {
        const Dim offset = dim_mul(t, dim_const(t, in.step[i]), r->start[i]);
        in.start[i] = dim_add(t, in.start[i], offset);
        in.step[i] *= r->step[i];
        in.extent[i] = r->extent[i];
    }
    return build_range(b, n->in[0], &in);
}

/* Inside one operand, along the joined axis. */
static Val slice_of_concat(Builder *b, const Node *n, const Range *r)
{
    DimTable *t = b->p->cx->dims;
    const uint32_t axis = (uint32_t)node_int(n, ATTR_axis);
    if (r->step[axis] != 1)
        return none;
    const Dim end = dim_add(t, r->start[axis], r->extent[axis]);
    Dim offset = dim_const(t, 0);
    for (uint32_t k = 0; k < n->nin; k++) {
        const Dim next = dim_add(t, offset, val_info(b->p, b->g, n->in[k])->shape[axis]);
        if (dim_le(t, offset, r->start[axis]) == YES && dim_le(t, end, next) == YES) {
            Range in = *r;
            in.start[axis] = dim_sub(t, in.start[axis], offset);
            return build_range(b, n->in[k], &in);
        }
        offset = next;
    }
    return none;
}

/* A range of a pad that takes nothing of the padding. */
static Val slice_of_pad(Builder *b, const Node *n, const Range *r)
{
    DimTable *t = b->p->cx->dims;
    const TypeInfo x = *val_info(b->p, b->g, n->in[0]);
    Range in = *r;
    for (uint32_t i = 0; i < in.n; i++) {
        const Dim lo = node_dim(n, ATTR_lo, i);
        in.start[i] = dim_sub(t, r->start[i], lo);
        const Dim end = dim_add(t, in.start[i], r->extent[i]);
        if (node_attr(n, ATTR_interior).at[i] || r->step[i] != 1 ||
            dim_le(t, dim_const(t, 0), in.start[i]) != YES || dim_le(t, end, x.shape[i]) != YES)
            return none;
    }
    return build_range(b, n->in[0], &in);
}

static Val fold_slice(Builder *b, Val x, const Attr *attrs, Ty type)
{
    const TypeInfo r = *type_info(b->p, type), t = *val_info(b->p, b->g, x);
    const Range range = range_of(attrs);
    bool identity = same_shape(&t, &r);
    for (uint32_t i = 0; i < range.n; i++)
        identity &= is_zero(b, range.start[i]) && range.step[i] == 1;
    if (identity)
        return x;
    const Val c = fill_constant(b, x);
    if (c.node)
        return build_broadcast(b, c, r.shape, r.rank, NULL);
    const Node n = *graph_node(b->g, x);
    if (n.op == OP_slice)
        return slice_of_slice(b, &n, &range);
    if (n.op == OP_concat)
        return slice_of_concat(b, &n, &range);
    return n.op == OP_pad ? slice_of_pad(b, &n, &range) : none;
}

/* --- pad and concat ------------------------------------------------------------------------------
 */

static Val fold_pad(Builder *b, Val x, Val value, const Attr *attrs, Ty type)
{
    const TypeInfo r = *type_info(b->p, type), t = *val_info(b->p, b->g, x);
    bool nothing = same_shape(&t, &r), plain = true;
    for (uint32_t i = 0; i < r.rank; i++) {
        nothing &= is_zero(b, attr_dim(attrs[0], i)) && is_zero(b, attr_dim(attrs[1], i));
        plain &= attrs[2].at[i] == 0;
    }
    if (nothing)
        return x;
    const Val c = fill_constant(b, x);
    if (c.node && val_eq(c, value))
        return build_broadcast(b, c, r.shape, r.rank, NULL);
    const Node n = *graph_node(b->g, x);
    if (n.op != OP_pad || !val_eq(n.in[1], value) || !plain)
        return none;
    Dim lo[MAX_RANK], hi[MAX_RANK];
    for (uint32_t i = 0; i < r.rank; i++) {
        lo[i] = dim_add(b->p->cx->dims, attr_dim(attrs[0], i), node_dim(&n, ATTR_lo, i));
        hi[i] = dim_add(b->p->cx->dims, attr_dim(attrs[1], i), node_dim(&n, ATTR_hi, i));
    }
    return build_pad(b, n.in[0], value, lo, hi, node_attr(&n, ATTR_interior).at);
}

/* x and y are ranges of one tensor, y directly behind x. */
static Val join_slices(Builder *b, Val x, Val y, uint32_t axis)
{
    DimTable *t = b->p->cx->dims;
    const Node *m = graph_node(b->g, x), *n = graph_node(b->g, y);
    if (m->op != OP_slice || n->op != OP_slice || !val_eq(m->in[0], n->in[0]))
        return none;
    Range r = range_of(m->attrs);
    const Range s = range_of(n->attrs);
    for (uint32_t i = 0; i < r.n; i++) {
        if (r.step[i] != s.step[i] || (i == axis && r.step[i] != 1))
            return none;
        const Dim start = i == axis ? dim_add(t, r.start[i], r.extent[i]) : r.start[i];
        if (!dim_same(start, s.start[i]))
            return none;
    }
    r.extent[axis] = dim_add(t, r.extent[axis], s.extent[axis]);
    return build_range(b, m->in[0], &r);
}

static Val fold_concat(Builder *b, const Val *in, uint32_t nin, uint32_t axis)
{
    VEC(Val) parts = {0};
    bool changed = false;
    for (uint32_t k = 0; k < nin; k++) {
        const Node *n = graph_node(b->g, in[k]);
        const bool nested = n->op == OP_concat && (uint32_t)node_int(n, ATTR_axis) == axis;
        const Val *from = nested ? n->in : &in[k];
        const uint32_t count = nested ? n->nin : 1;
        changed |= nested;
        for (uint32_t i = 0; i < count; i++) {
            const Val v = from[i];
            if (is_zero(b, val_info(b->p, b->g, v)->shape[axis]) && nin > 1) {
                changed = true;
                continue;
            }
            const Val joined = parts.n ? join_slices(b, vec_last(&parts), v, axis) : none;
            if (joined.node)
                parts.at[parts.n - 1] = joined;
            else
                vec_push(b->p->cx->scratch, &parts, v);
            changed |= joined.node != 0;
        }
    }
    if (parts.n == 1)
        return parts.at[0];
    if (!parts.n)
        return in[0];
    return changed ? build_concat(b, parts.at, parts.n, axis) : none;
}

/* --- sums of pads --------------------------------------------------------------------------------
 */

typedef struct {
    Val x; /* what is padded */
    Dim lo, size;
} Part;

/* v = pad(x, 0) along one axis, without gaps: the axis, or -1. */
static int padded_axis(const Builder *b, Val v)
{
    const Node *n = graph_node(b->g, v);
    if (n->op != OP_pad || !(val_is_fill(b->p, b->g, n->in[1], 0)))
        return -1;
    int axis = -1;
    const uint32_t rank = val_info(b->p, b->g, v)->rank;
    for (uint32_t i = 0; i < rank; i++) {
        if (node_attr(n, ATTR_interior).at[i])
            return -1;
        if (is_zero(b, node_dim(n, ATTR_lo, i)) && is_zero(b, node_dim(n, ATTR_hi, i)))
            continue;
        if (axis >= 0)
            return -1;
        axis = (int)i;
    }
    return axis;
}

enum { MAX_PARTS = 32 };

/* The pads that a tree of sums adds up. */
static bool collect(const Builder *b, Val v, int axis, Part *parts, uint32_t *n)
{
    const Node *m = graph_node(b->g, v);
    if (m->op == OP_add)
        return collect(b, m->in[0], axis, parts, n) && collect(b, m->in[1], axis, parts, n);
    if (padded_axis(b, v) != axis || *n == MAX_PARTS)
        return false;
    const Val x = m->in[0];
    parts[(*n)++] =
        (Part){x, node_dim(m, ATTR_lo, (uint32_t)axis), val_info(b->p, b->g, x)->shape[axis]};
    return true;
}

/* Joins parts that stand side by side; true if there were any. */
static bool join_parts(Builder *b, Part *parts, uint32_t *n, uint32_t axis)
{
    DimTable *t = b->p->cx->dims;
    bool joined = false;
    for (uint32_t i = 0; i < *n; i++)
        for (uint32_t k = 0; k < *n; k++) {
            if (i == k || !dim_same(dim_add(t, parts[i].lo, parts[i].size), parts[k].lo))
                continue;
            const Val both[2] = {parts[i].x, parts[k].x};
            parts[i].x = build_concat(b, both, 2, axis);
            parts[i].size = dim_add(t, parts[i].size, parts[k].size);
            parts[k] = parts[--*n];
            if (i == *n)
                i = k; /* the joined part was the last one, and has moved */
            joined = true;
            k = UINT32_MAX; /* look again from the start */
        }
    return joined;
}

Val fold_pads(Builder *b, Val x, Val y)
{
    Val first = x;
    for (int sums = 0; graph_node(b->g, first)->op == OP_add; sums++) {
        if (sums == MAX_PARTS) /* each adds one at least */
            return none;
        first = graph_node(b->g, first)->in[0];
    }
    const int axis = padded_axis(b, first);
    Part parts[MAX_PARTS];
    uint32_t n = 0;
    const TypeInfo t = *val_info(b->p, b->g, x), u = *val_info(b->p, b->g, y);
    if (axis < 0 || !same_shape(&t, &u) || !collect(b, x, axis, parts, &n) ||
        !collect(b, y, axis, parts, &n) || !join_parts(b, parts, &n, (uint32_t)axis))
        return none;
    DimTable *dims = b->p->cx->dims;
    const Val zero = graph_node(b->g, first)->in[1];
    Val sum = none;
    for (uint32_t i = 0; i < n; i++) {
        Dim lo[MAX_RANK], hi[MAX_RANK];
        const int64_t interior[MAX_RANK] = {0};
        for (uint32_t k = 0; k < t.rank; k++)
            lo[k] = hi[k] = dim_const(dims, 0);
        lo[axis] = parts[i].lo;
        hi[axis] = dim_sub(dims, dim_sub(dims, t.shape[axis], parts[i].lo), parts[i].size);
        const Val pad = build_pad(b, parts[i].x, zero, lo, hi, interior);
        sum = sum.node ? build2(b, OP_add, sum, pad) : pad;
    }
    return sum;
}

Val fold_view(Builder *b, Op op, const Val *in, uint32_t nin, const Attr *attrs, Ty type)
{
    switch (op) {
    case OP_broadcast:
        return fold_broadcast(b, in[0], attrs, type);
    case OP_reshape:
        return fold_reshape(b, in[0], type);
    case OP_transpose:
        return fold_transpose(b, in[0], attrs, type);
    case OP_slice:
        return fold_slice(b, in[0], attrs, type);
    case OP_pad:
        return fold_pad(b, in[0], in[1], attrs, type);
    case OP_concat:
        return fold_concat(b, in, nin, (uint32_t)attrs[0].at[0]);
    default:
        return none;
    }
}
