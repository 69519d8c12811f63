/* loop_batch.c: a value of one turn, made for all turns at once: each op gets a leading axis.
 *
 *   %x = slice %xs {start=[t, 0], extent=[1, F]}      =>   %xs
 *   %y = dot %x, %w {contract=1.1}                    =>   dot %xs, %w {contract=2.1}
 *
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/loop.h"
#include "ir/tensor_internal.h"

#include <string.h>

static bool depends(const Batch *q, Val v)
{
    return v.node < q->n && q->dep[v.node];
}

/* d = at0 + step * loop symbol, the step a number. */
static bool linear(const Batch *q, Dim d, Dim *at0, int64_t *step)
{
    DimTable *t = q->b->p->cx->dims;
    const DimSubst zero = {q->loop, dim_const(t, 0)}, one = {q->loop, dim_const(t, 1)};
    *at0 = dim_substitute(t, d, &zero, 1);
    if (!dim_is_const(t, dim_sub(t, dim_substitute(t, d, &one, 1), *at0), step))
        return false;
    return dim_same(d, dim_add(t, *at0, dim_mul(t, dim_const(t, *step), dim_of(t, q->loop))));
}

/* --- can it? ---------------------------------------------------------------------------------- */

/* A slice of something invariant that moves along one axis by an element a turn, or by as many as
 * it takes. */
static bool moving_axis(const Batch *q, const Node *n, uint32_t *axis, Dim *at0, int64_t *step)
{
    DimTable *t = q->b->p->cx->dims;
    const Attr start = node_attr(n, ATTR_start), extent = node_attr(n, ATTR_extent);
    int found = -1;
    for (uint32_t i = 0; i < start.n; i++) {
        if (dim_mentions(t, attr_dim(extent, i), q->loop))
            return false;
        if (!dim_mentions(t, attr_dim(start, i), q->loop))
            continue;
        if (found >= 0)
            return false;
        found = (int)i;
    }
    int64_t size;
    if (found < 0 || depends(q, n->in[0]) ||
        !dim_is_const(t, attr_dim(extent, (uint32_t)found), &size))
        return false;
    *axis = (uint32_t)found;
    return linear(q, attr_dim(start, *axis), at0, step) && *step != 0 &&
           (size == 1 || size * node_attr(n, ATTR_step).at[found] == *step);
}

static bool can_gather(const Batch *q, const Node *n)
{
    return (depends(q, n->in[0]) && depends(q, n->in[1])) || node_int(n, ATTR_batch) == 0;
}

bool batch_can(const Batch *q, uint32_t id)
{
    const Program *p = q->b->p;
    const Node *n = &q->b->g->nodes.at[id];
    uint32_t axis;
    Dim at0;
    int64_t step;
    for (uint32_t k = 0; k < n->nin; k++)
        if (depends(q, n->in[k]) && !q->can[n->in[k].node])
            return false;
    for (uint32_t k = 0; k < n->nout; k++)
        if (type_info(p, n->types[k])->rank == MAX_RANK)
            return false;
    if (node_mentions(p, n, q->loop)) {
        if (n->op == OP_dim)
            return linear(q, node_dim(n, ATTR_shape, 0), &at0, &step);
        return n->op == OP_slice && moving_axis(q, n, &axis, &at0, &step);
    }
    switch (n->op) {
    case OP_cast:
    case OP_bitcast:
    case OP_extern:
    case OP_broadcast:
    case OP_reshape:
    case OP_transpose:
    case OP_slice:
    case OP_concat:
    case OP_reduce:
    case OP_dot:
        return true;
    case OP_pad:
        return !depends(q, n->in[1]);
    case OP_cumulate:
        return n->nin == 1;
    case OP_gather:
        return can_gather(q, n);
    default:
        return op_is_pointwise(n->op);
    }
}

/* --- rules ------------------------------------------------------------------------------------ */

/* The shape with the leading axis; its rank. */
static uint32_t wide(const Batch *q, const TypeInfo *t, Dim *shape)
{
    shape[0] = q->trip;
    memcpy(shape + 1, t->shape, t->rank * sizeof *shape);
    return t->rank + 1u;
}

/* Stretched to a rank (right-aligned) and a leading axis; what is invariant stays as it is. */
static Val aligned(Batch *q, Val v, uint32_t rank, bool *has)
{
    *has = depends(q, v);
    if (!*has)
        return v;
    v = batch_value(q, v);
    const TypeInfo t = *val_info(q->b->p, q->b->g, v);
    Dim shape[MAX_RANK];
    if (t.rank == rank + 1u)
        return v;
    shape[0] = q->trip;
    const uint32_t gap = rank + 1u - t.rank;
    for (uint32_t i = 1; i <= rank; i++)
        shape[i] = i <= gap ? dim_const(q->b->p->cx->dims, 1) : t.shape[i - gap];
    return build_reshape(q->b, v, shape, rank + 1u);
}

static Val batch_pointwise(Batch *q, const Node *n)
{
    Val in[3];
    bool has;
    const uint32_t rank = type_info(q->b->p, n->types[0])->rank;
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = aligned(q, n->in[k], rank, &has);
    /* explicit where it was: an invariant operand of full rank is spread */
    const TypeInfo r = *type_info(q->b->p, n->types[0]);
    Dim shape[MAX_RANK];
    const uint32_t wide_rank = wide(q, &r, shape);
    for (uint32_t k = 0; k < n->nin; k++)
        in[k] = build_broadcast_to(q->b, in[k], shape, wide_rank);
    return build_again(q->b, n, in);
}

static Val batch_broadcast(Batch *q, const Node *n, Val x)
{
    const Attr dims = node_attr(n, ATTR_dims);
    const TypeInfo r = *type_info(q->b->p, n->types[0]);
    Dim shape[MAX_RANK];
    int64_t to[MAX_RANK] = {0};
    const uint32_t rank = wide(q, &r, shape);
    for (uint32_t i = 0; i < dims.n; i++)
        to[i + 1] = dims.at[i] + 1;
    return build_broadcast(q->b, x, shape, rank, to);
}

static Val batch_transpose(Batch *q, const Node *n, Val x)
{
    const Attr perm = node_attr(n, ATTR_perm);
    int64_t to[MAX_RANK] = {0};
    for (uint32_t i = 0; i < perm.n; i++)
        to[i + 1] = perm.at[i] + 1;
    return build_transpose(q->b, x, to);
}

/* Axis `from` becomes axis 0. */
static Val to_front(Batch *q, Val x, uint32_t from)
{
    const uint32_t rank = val_info(q->b->p, q->b->g, x)->rank;
    int64_t perm[MAX_RANK];
    perm[0] = from;
    for (uint32_t i = 0, k = 1; i < rank; i++)
        if (i != from)
            perm[k++] = i;
    return from ? build_transpose(q->b, x, perm) : x;
}

static Val moving_slice(Batch *q, const Node *n)
{
    uint32_t axis = 0;
    Dim at0, start[MAX_RANK], extent[MAX_RANK], shape[MAX_RANK];
    int64_t by, step[MAX_RANK];
    const TypeInfo r = *type_info(q->b->p, n->types[0]);
    CHECK(moving_axis(q, n, &axis, &at0, &by));
    DimTable *t = q->b->p->cx->dims;
    const bool many = !dim_is_one(t, r.shape[axis]);
    for (uint32_t i = 0; i < r.rank; i++) {
        start[i] = i == axis ? at0 : node_dim(n, ATTR_start, i);
        extent[i] = i == axis ? dim_mul(t, q->trip, r.shape[axis]) : r.shape[i];
        step[i] = i == axis && !many ? by : node_attr(n, ATTR_step).at[i];
    }
    Val v = build_slice(q->b, n->in[0], start, step, extent);
    if (many) { /* the axis is cut into turns and what each takes */
        memcpy(shape, extent, axis * sizeof *shape);
        shape[axis] = q->trip;
        memcpy(shape + axis + 1, r.shape + axis, (r.rank - axis) * sizeof *shape);
        v = build_reshape(q->b, v, shape, r.rank + 1u);
    }
    v = to_front(q, v, axis);
    return build_reshape(q->b, v, shape, wide(q, &r, shape));
}

static Val batch_slice(Batch *q, const Node *n, Val x)
{
    DimTable *t = q->b->p->cx->dims;
    const TypeInfo r = *type_info(q->b->p, n->types[0]);
    Dim start[MAX_RANK] = {dim_const(t, 0)}, extent[MAX_RANK];
    int64_t step[MAX_RANK] = {1};
    wide(q, &r, extent);
    for (uint32_t i = 0; i < r.rank; i++) {
        start[i + 1] = node_dim(n, ATTR_start, i);
        step[i + 1] = node_attr(n, ATTR_step).at[i];
    }
    return build_slice(q->b, x, start, step, extent);
}

static Val batch_pad(Batch *q, const Node *n, Val x)
{
    DimTable *t = q->b->p->cx->dims;
    const TypeInfo r = *type_info(q->b->p, n->types[0]);
    Dim lo[MAX_RANK] = {dim_const(t, 0)}, hi[MAX_RANK] = {dim_const(t, 0)};
    int64_t interior[MAX_RANK] = {0};
    for (uint32_t i = 0; i < r.rank; i++) {
        lo[i + 1] = node_dim(n, ATTR_lo, i);
        hi[i + 1] = node_dim(n, ATTR_hi, i);
        interior[i + 1] = node_attr(n, ATTR_interior).at[i];
    }
    return build_pad(q->b, x, n->in[1], lo, hi, interior);
}

static Val batch_concat(Batch *q, const Node *n)
{
    Val *in = arena_array(q->b->p->cx->scratch, Val, n->nin);
    for (uint32_t k = 0; k < n->nin; k++) {
        bool has;
        const TypeInfo t = *val_info(q->b->p, q->b->g, n->in[k]);
        Dim shape[MAX_RANK];
        in[k] = aligned(q, n->in[k], t.rank, &has);
        if (!has)
            in[k] = build_broadcast_to(q->b, in[k], shape, wide(q, &t, shape));
    }
    return build_concat(q->b, in, n->nin, (uint32_t)node_int(n, ATTR_axis) + 1);
}

static Val batch_reduce(Batch *q, const Node *n, Val x, bool sum)
{
    const Attr axes = node_attr(n, ATTR_axes);
    int64_t to[MAX_RANK] = {0};
    for (uint32_t i = 0; i < axes.n; i++)
        to[i + sum] = axes.at[i] + 1;
    return build_reduce(q->b, (Reducer)node_int(n, ATTR_kind), x, to, axes.n + sum);
}

/* One side of a product: its axes with a leading one. */
typedef struct {
    bool has;
    Val v;
    int64_t batch[MAX_RANK], contract[MAX_RANK];
    uint32_t nfree;
} Side;

static Side side(Batch *q, Val v, Attr batch, Attr contract, uint32_t behind)
{
    Side s = {.has = depends(q, v)};
    s.v = s.has ? batch_value(q, v) : v;
    for (uint32_t i = 0; i < batch.n; i++)
        s.batch[i + behind] = batch.at[i] + s.has;
    for (uint32_t i = 0; i < contract.n; i++)
        s.contract[i + behind] = contract.at[i] + s.has;
    s.nfree = val_info(q->b->p, q->b->g, v)->rank - batch.n - contract.n;
    return s;
}

/* Both sides depend on the turn: it is a batch axis, or, in a sum, contracted. One: it is the first
 * free axis of that side, and comes to the front. */
static Val batch_dot(Batch *q, const Node *n, bool sum)
{
    const Attr ba = node_attr(n, ATTR_batch_a), bb = node_attr(n, ATTR_batch_b);
    const Attr ca = node_attr(n, ATTR_contract_a), cb = node_attr(n, ATTR_contract_b);
    const DType t = (DType)node_int(n, ATTR_dtype);
    const bool both = depends(q, n->in[0]) && depends(q, n->in[1]);
    CHECK(both || !sum);
    Side a = side(q, n->in[0], ba, ca, both), b = side(q, n->in[1], bb, cb, both);
    if (both) {
        int64_t *lists[4] = {a.batch, b.batch, a.contract, b.contract};
        for (int i = 0; i < 4; i++) {
            const bool used = (i < 2) != sum;
            const uint32_t len = i < 2 ? ba.n : ca.n;
            if (used)
                lists[i][0] = 0;
            else
                memmove(lists[i], lists[i] + 1, len * sizeof(int64_t));
        }
        return build_dot(q->b, a.v, b.v, a.batch, b.batch, ba.n + !sum, a.contract, b.contract,
                         ca.n + sum, t);
    }
    const Val v =
        build_dot(q->b, a.v, b.v, a.batch, b.batch, ba.n, a.contract, b.contract, ca.n, t);
    return to_front(q, v, ba.n + (a.has ? 0 : a.nfree));
}

static Val batch_gather(Batch *q, const Node *n)
{
    const bool x = depends(q, n->in[0]), i = depends(q, n->in[1]);
    const uint32_t axis = (uint32_t)node_int(n, ATTR_axis),
                   batch = (uint32_t)node_int(n, ATTR_batch);
    const Val vx = x ? batch_value(q, n->in[0]) : n->in[0];
    const Val vi = i ? batch_value(q, n->in[1]) : n->in[1];
    const Val v =
        build_gather(q->b, vx, vi, axis + x, batch + (x && i), (int)node_int(n, ATTR_mode));
    return x ? v : to_front(q, v, axis);
}

static Val batch_cumulate(Batch *q, const Node *n, Val x)
{
    const OpInfo *info = op_info(OP_cumulate);
    const int64_t axis = node_int(n, ATTR_axis) + 1;
    Attr attrs[MAX_ATTRS];
    for (int i = 0; i < info->nattrs; i++)
        attrs[i] = info->attrs[i] == ATTR_axis ? attr_words(&axis, 1) : n->attrs[i];
    return build(q->b, OP_cumulate, &x, 1, attrs);
}

/* at0 + step * t for all t */
static Val batch_dim(Batch *q, const Node *n)
{
    Dim at0;
    int64_t step;
    CHECK(linear(q, node_dim(n, ATTR_shape, 0), &at0, &step));
    Val t = build_cast(q->b, build_iota(q->b, &q->trip, 1, 0), DT_i64);
    Val by = build_broadcast_to(q->b, build_const_int(q->b, DT_i64, step), &q->trip, 1);
    Val from = build_broadcast_to(q->b, build_dim(q->b, at0), &q->trip, 1);
    return build2(q->b, OP_add, build2(q->b, OP_mul, t, by), from);
}

static Val batch_node(Batch *q, const Node *n)
{
    Dim shape[MAX_RANK];
    const TypeInfo r = *type_info(q->b->p, n->types[0]);
    switch (n->op) {
    case OP_dim:
        return batch_dim(q, n);
    case OP_dot:
        return batch_dot(q, n, false);
    case OP_gather:
        return batch_gather(q, n);
    case OP_concat:
        return batch_concat(q, n);
    case OP_slice:
        return depends(q, n->in[0]) ? batch_slice(q, n, batch_value(q, n->in[0]))
                                    : moving_slice(q, n);
    case OP_broadcast:
        return batch_broadcast(q, n, batch_value(q, n->in[0]));
    case OP_reshape:
        return build_reshape(q->b, batch_value(q, n->in[0]), shape, wide(q, &r, shape));
    case OP_transpose:
        return batch_transpose(q, n, batch_value(q, n->in[0]));
    case OP_pad:
        return batch_pad(q, n, batch_value(q, n->in[0]));
    case OP_reduce:
        return batch_reduce(q, n, batch_value(q, n->in[0]), false);
    case OP_cumulate:
        return batch_cumulate(q, n, batch_value(q, n->in[0]));
    case OP_cast:
    case OP_bitcast: {
        const Val x = batch_value(q, n->in[0]);
        return build(q->b, n->op, &x, 1, n->attrs);
    }
    default:
        return batch_pointwise(q, n);
    }
}

Val batch_value(Batch *q, Val v)
{
    CHECK(depends(q, v));
    Val *made = q->made[v.node];
    if (made && made[v.result].node)
        return made[v.result];
    const Node n = *graph_node(q->b->g, v);
    CHECK(q->can[v.node]);
    const Site site = q->b->site;
    q->b->site = n.site;
    const Val w = batch_node(q, &n);
    q->b->site = site;
    if (!q->made[v.node])
        q->made[v.node] = arena_array(q->b->p->cx->scratch, Val, n.nout);
    for (uint32_t k = 0; k < n.nout; k++)
        q->made[v.node][k] = n.nout > 1 ? val_result(w, w.result + k) : w;
    return q->made[v.node][v.result];
}

/* --- sums over the turns ---------------------------------------------------------------------- */

Val batch_sum(Batch *q, Val v)
{
    const Node n = *graph_node(q->b->g, v);
    const int64_t first = 0;
    const bool made = q->made[v.node] && q->made[v.node][v.result].node;
    if (n.op == OP_dot && !made && depends(q, n.in[0]) && depends(q, n.in[1]))
        return batch_dot(q, &n, true);
    if (n.op == OP_reduce && !made && node_int(&n, ATTR_kind) == RED_add)
        return batch_reduce(q, &n, batch_value(q, n.in[0]), true);
    return build_reduce(q->b, RED_add, batch_value(q, v), &first, 1);
}
