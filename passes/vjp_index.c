/* vjp_index.c: derivatives of what chooses, orders and accumulates elements: gather, scatter, sort,
 * cumulate.
 *
 *   y = gather x, idx                 dx = scatter 0, idx, dy {add}
 *   y = scatter x, idx, u {add}       dx = dy, du = gather dy, idx
 *   y = cumulate x {add}              dx = cumulate dy {add, the other way}
 *   y_t = a_t * y_(t-1) + b_t         r_t = dy_t + a_(t+1) * r_(t+1); da = r * y_(t-1); db = r
 *
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "passes/analysis.h"
#include "passes/vjp.h"

/* --- gather and scatter ----------------------------------------------------------------------- */

/* What was checked on the way forward need not be reported again. */
static int quiet(int64_t mode)
{
    return mode == GATHER_CHECK ? GATHER_FILL : (int)mode;
}

/* One index for each row of the leading axes: where(iota == index, dy, 0). */
static Val of_one_a_row(Reverse *r, const Node *n, Val dy)
{
    TypeInfo x = *val_info(r->p, r->g, n->in[0]), ix = *val_info(r->p, r->g, n->in[1]);
    int64_t axis = node_int(n, ATTR_axis), lead[MAX_RANK];
    for (uint32_t k = 0; k < ix.rank; k++)
        lead[k] = k;
    Builder *b = r->b;
    vjp_stage(r, -1);
    Val at = n->in[1];
    Val iota = build_iota(b, x.shape, x.rank, (uint32_t)axis);
    if (node_int(n, ATTR_mode) == GATHER_CLAMP) {
        Dim last = dim_sub(r->p->cx->dims, x.shape[axis], dim_const(r->p->cx->dims, 1));
        Val lo = vjp_full(r, 0, &ix);
        Val hi = build_broadcast_to(b, vjp_size(r, ix.dtype, last), ix.shape, ix.rank);
        at = build3(b, OP_clamp, at, lo, hi);
    }
    Val hit = build2(b, OP_eq, build_cast(b, iota, ix.dtype),
                     build_broadcast(b, at, x.shape, x.rank, lead));
    Val zero = vjp_full(r, 0, &x);
    Val d = vjp_spread(r, true, dy, &x, &axis, 1);
    return vjp_op3(r, true, OP_where, hit, d, zero);
}

void vjp_gather(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id;
    TypeInfo x = *val_info(r->p, r->g, n->in[0]), ix = *val_info(r->p, r->g, n->in[1]);
    int64_t axis = node_int(n, ATTR_axis), batch = node_int(n, ATTR_batch);
    int64_t mode = node_int(n, ATTR_mode);
    if ((int64_t)ix.rank == batch && batch > 0) {
        vjp_give(r, n, 0, of_one_a_row(r, n, dy[0]));
        return;
    }
    bool unique = mode != GATHER_CLAMP && index_is_unique(r->p, r->g, n->in[1], (uint32_t)batch);
    vjp_stage(r, STAGE_BACKWARD);
    Val zero = vjp_full(r, 0, &x);
    vjp_give(r, n, 0,
             build_scatter(r->b, zero, n->in[1], dy[0], (uint32_t)axis, (uint32_t)batch, RED_add,
                           quiet(mode), unique));
}

typedef struct {
    Reverse *r;
    Val init, idx, upd;
    TypeInfo x, ix, u;
    uint32_t axis, joint, batch;
    Dim n; /* places that the index chooses from */
    int mode;
    bool unique;
} Scatter;

static Val scattered(const Scatter *s, Val init, Val upd, Reducer kind)
{
    return build_scatter_joint(s->r->b, init, s->idx, upd, s->axis, s->joint, s->batch, kind,
                               s->mode, s->unique);
}

static Val chosen(const Scatter *s, Val from)
{
    Dim shape[MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < s->x.rank; i++)
        if (i <= s->axis || i >= s->axis + s->joint)
            shape[rank++] = i == s->axis ? s->n : s->x.shape[i];
    from = build_reshape(s->r->b, from, shape, rank);
    return build_gather(s->r->b, from, s->idx, s->axis, s->batch, s->mode);
}

/* An index's own axes inside those of the updates. */
static Val over_updates(const Scatter *s, Val v)
{
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i < s->ix.rank; i++)
        dims[i] = i < s->batch ? i : s->axis + i - s->batch;
    return build_broadcast(s->r->b, v, s->u.shape, s->u.rank, dims);
}

/* Which updates stayed: of equal indices the last one. */
static Val winners(const Scatter *s)
{
    Builder *b = s->r->b;
    DimTable *t = s->r->p->cx->dims;
    Dim n = dim_const(t, 1), shape[MAX_RANK];
    for (uint32_t i = s->batch; i < s->ix.rank; i++)
        n = dim_mul(t, n, s->ix.shape[i]);
    for (uint32_t i = 0; i < s->batch; i++)
        shape[i] = s->ix.shape[i];
    shape[s->batch] = n;
    Val number = build_iota(b, shape, s->batch + 1, s->batch);
    number = build_reshape(b, number, s->ix.shape, s->ix.rank);
    shape[s->batch] = s->n;
    Val nobody = build_full(b, DT_i32, -1, shape, s->batch + 1);
    Val last =
        build_scatter(b, nobody, s->idx, number, s->batch, s->batch, RED_none, s->mode, false);
    last = build_gather(b, last, s->idx, s->batch, s->batch, s->mode);
    return over_updates(s, build2(b, OP_eq, last, number));
}

static void of_set(const Scatter *s, const Node *n, Val dy)
{
    Reverse *r = s->r;
    if (vjp_wants(r, n, 0)) {
        vjp_stage(r, STAGE_BACKWARD);
        Val zero = vjp_full(r, 0, &s->u);
        vjp_give(r, n, 0, scattered(s, dy, zero, RED_none));
    }
    if (!vjp_wants(r, n, 2))
        return;
    vjp_stage(r, -1);
    Val won = s->unique ? (Val){0, 0} : winners(s);
    vjp_stage(r, STAGE_BACKWARD);
    Val d = chosen(s, dy);
    if (won.node)
        d = vjp_op3(r, true, OP_where, won, d, vjp_full(r, 0, &s->u));
    vjp_give(r, n, 2, d);
}

/* Shared evenly by all that are as large. */
static void of_extremum(const Scatter *s, uint32_t id, const Node *n, Val dy)
{
    Reverse *r = s->r;
    Builder *b = r->b;
    vjp_stage(r, -1);
    Val y = {id, 0}, hit_x = build2(b, OP_eq, s->init, y);
    Val hit_u = build2(b, OP_eq, s->upd, chosen(s, y));
    Val count =
        scattered(s, build_cast(b, hit_x, s->x.dtype), build_cast(b, hit_u, s->x.dtype), RED_add);
    Val share = vjp_op2(r, true, OP_div, dy, count);
    vjp_give(r, n, 0, vjp_op3(r, true, OP_where, hit_x, share, vjp_full(r, 0, &s->x)));
    vjp_stage(r, STAGE_BACKWARD);
    Val d = chosen(s, share);
    vjp_give(r, n, 2, vjp_op3(r, true, OP_where, hit_u, d, vjp_full(r, 0, &s->u)));
}

void vjp_scatter(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    Scatter s = {.r = r,
                 .init = n->in[0],
                 .idx = n->in[1],
                 .upd = n->in[2],
                 .x = *val_info(r->p, r->g, n->in[0]),
                 .ix = *val_info(r->p, r->g, n->in[1]),
                 .u = *val_info(r->p, r->g, n->in[2]),
                 .axis = (uint32_t)node_int(n, ATTR_axis),
                 .joint = (uint32_t)node_int(n, ATTR_joint),
                 .batch = (uint32_t)node_int(n, ATTR_batch),
                 .n = dim_const(r->p->cx->dims, 1),
                 .mode = quiet(node_int(n, ATTR_mode)),
                 .unique = node_int(n, ATTR_unique) != 0};
    for (uint32_t i = s.axis; i < s.axis + s.joint; i++)
        s.n = dim_mul(r->p->cx->dims, s.n, s.x.shape[i]);
    switch ((Reducer)node_int(n, ATTR_kind)) {
    case RED_none:
        of_set(&s, n, dy[0]);
        break;
    case RED_add:
        vjp_give(r, n, 0, dy[0]);
        if (vjp_wants(r, n, 2)) {
            vjp_stage(r, STAGE_BACKWARD);
            vjp_give(r, n, 2, chosen(&s, dy[0]));
        }
        break;
    default:
        of_extremum(&s, id, n, dy[0]);
        break;
    }
}

/* --- sort ------------------------------------------------------------------------------------- */

/* 0 with dy added along `axis` where the index of each element says. */
static Val scatter_along(Reverse *r, const TypeInfo *x, Val index, Val dy, uint32_t axis,
                         bool unique)
{
    int64_t perm[MAX_RANK], back[MAX_RANK];
    const uint32_t last = x->rank - 1u;
    TypeInfo to = *x;
    for (uint32_t i = 0; i < x->rank; i++)
        perm[i] = i == last ? axis : i < axis ? i : i + 1;
    for (uint32_t i = 0; i < x->rank; i++) {
        back[perm[i]] = i;
        to.shape[i] = x->shape[perm[i]];
    }
    vjp_stage(r, -1);
    index = build_transpose(r->b, index, perm);
    vjp_stage(r, STAGE_BACKWARD);
    Val zero = vjp_full(r, 0, &to);
    Val d = build_scatter(r->b, zero, index, build_transpose(r->b, dy, perm), last, last, RED_add,
                          GATHER_FILL, unique);
    return build_transpose(r->b, d, back);
}

void vjp_sort(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    TypeInfo x = *val_info(r->p, r->g, n->in[0]);
    uint32_t axis = (uint32_t)node_int(n, ATTR_axis);
    vjp_give(r, n, 0, scatter_along(r, &x, (Val){id, 1}, dy[0], axis, true));
}

/* --- cumulate --------------------------------------------------------------------------------- */

/* v, each element one step later (or earlier) along the axis; what is new is `first`. */
static Val shifted(Reverse *r, bool back, Val v, Val first, uint32_t axis, bool later)
{
    DimTable *t = r->p->cx->dims;
    TypeInfo x = *val_info(r->p, r->g, v), one = x;
    Dim rest = dim_sub(t, x.shape[axis], dim_const(t, 1));
    vjp_stage(r, back ? STAGE_BACKWARD : -1);
    one.shape[axis] = dim_const(t, 1);
    Val edge = build_reshape(r->b, first, one.shape, one.rank);
    Val kept = build_slice_axis(r->b, v, axis, dim_const(t, later ? 0 : 1), rest);
    Val pieces[2] = {later ? edge : kept, later ? kept : edge};
    return build_concat(r->b, pieces, 2, axis);
}

/* F holds init and all steps: forward F_(t+1) = a_t * F_t + b_t. */
typedef struct {
    Reverse *r;
    Val a, f;
    TypeInfo x, outer; /* of a; of init */
    uint32_t axis;
    bool reverse;
} Linear;

/* n elements along the axis: of F, of its cotangent. */
static Val part(const Linear *l, Val v, int64_t from, Dim n)
{
    return build_slice_axis(l->r->b, v, l->axis, dim_const(l->r->p->cx->dims, from), n);
}

/* The element at one end, without the axis. */
static Val end_of(const Linear *l, Val v, bool last)
{
    DimTable *t = l->r->p->cx->dims;
    const Dim one = dim_const(t, 1), n = val_info(l->r->p, l->r->g, v)->shape[l->axis];
    Val edge =
        build_slice_axis(l->r->b, v, l->axis, last ? dim_sub(t, n, one) : dim_const(t, 0), one);
    return build_reshape(l->r->b, edge, l->outer.shape, l->outer.rank);
}

/* The cotangent of F is that of the steps alone: zero for init. Gives it, or {0}. */
static Val of_steps(const Linear *l, Val df)
{
    const Node *n = graph_node(l->r->g, df);
    double zero;
    if (n->op != OP_pad || !graph_constant(l->r->g, n->in[1], &zero) || zero != 0 ||
        val_type(l->r->g, n->in[0]).id != val_type(l->r->g, l->a).id)
        return (Val){0, 0};
    int64_t lo;
    return dim_is_const(l->r->p->cx->dims, node_dim(n, ATTR_lo, l->axis), &lo) && lo == !l->reverse
               ? n->in[0]
               : (Val){0, 0};
}

/* Given the cotangent of F: those of a, b and init. */
static void of_linear(const Linear *l, Val df, Val *da, Val *db, Val *dinit)
{
    Reverse *r = l->r;
    const Dim n = l->x.shape[l->axis];
    const int way = l->reverse ? 0 : CUMULATE_REVERSE;
    const Val dy = of_steps(l, df);
    const Val before = part(l, l->f, l->reverse, n);
    if (dy.node) {
        Val none = vjp_full(r, 0, &l->outer);
        vjp_stage(r, STAGE_BACKWARD);
        *db = build_linear(r->b, l->a, dy, none, l->axis, way | CUMULATE_BEHIND);
        *dinit = build2(r->b, OP_mul, end_of(l, l->a, l->reverse), end_of(l, *db, l->reverse));
    } else {
        vjp_stage(r, STAGE_BACKWARD);
        Val all = build_linear(r->b, l->a, part(l, df, l->reverse, n), end_of(l, df, !l->reverse),
                               l->axis, way | CUMULATE_FULL);
        *db = part(l, all, !l->reverse, n);
        *dinit = end_of(l, all, l->reverse);
    }
    *da = vjp_op2(r, true, OP_mul, *db, before);
}

/* The steps of v among zeros: the cotangent of F from that of a view of it. */
static Val among_all(const Linear *l, Val d, bool steps)
{
    DimTable *t = l->r->p->cx->dims;
    Dim lo[MAX_RANK], hi[MAX_RANK];
    int64_t none[MAX_RANK] = {0};
    for (uint32_t i = 0; i < l->x.rank; i++)
        lo[i] = hi[i] = dim_const(t, 0);
    *(steps != l->reverse ? &lo[l->axis] : &hi[l->axis]) = dim_const(t, 1);
    vjp_stage(l->r, STAGE_BACKWARD);
    return build_pad(l->r->b, d, build_const(l->r->b, l->x.dtype, 0), lo, hi, none);
}

static void vjp_linear(Reverse *r, uint32_t id, const Node *n, const Val *dy, uint32_t axis,
                       const TypeInfo *outer)
{
    const int mode = (int)node_int(n, ATTR_mode), way = mode & CUMULATE_REVERSE;
    Linear l = {.r = r, .a = n->in[0], .f = {id, 0}, .axis = axis, .reverse = way != 0};
    l.x = *val_info(r->p, r->g, l.a);
    l.outer = *outer;
    const bool product = n->nin == 1, behind = mode & CUMULATE_BEHIND;
    const Val none = vjp_full(r, 0, outer);
    Val df = dy[0], da, db, dinit;
    if (behind)
        l.a = shifted(r, false, l.a, none, axis, !l.reverse);
    if (!(mode & CUMULATE_FULL)) {
        vjp_stage(r, -1);
        Val b = product ? vjp_full(r, 0, &l.x) : n->in[1];
        Val init = product ? vjp_full(r, 1, outer) : behind ? none : n->in[2];
        l.f = build_linear(r->b, l.a, b, init, axis, way | CUMULATE_FULL);
        df = among_all(&l, df, !(mode & CUMULATE_EXCLUSIVE));
    }
    of_linear(&l, df, &da, &db, &dinit);
    if (behind) { /* the factor of step t acted in the one behind it; the last one nowhere */
        vjp_stage(r, STAGE_BACKWARD);
        da = shifted(r, true, da, vjp_full(r, 0, outer), axis, l.reverse);
    }
    vjp_give(r, n, 0, da);
    if (product)
        return;
    vjp_give(r, n, 1, db);
    if (!behind)
        vjp_give(r, n, 2, dinit);
}

void vjp_cumulate(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    const Reducer kind = (Reducer)node_int(n, ATTR_kind);
    const uint32_t axis = (uint32_t)node_int(n, ATTR_axis);
    const int mode = (int)node_int(n, ATTR_mode);
    TypeInfo x = *val_info(r->p, r->g, n->in[0]), outer = x;
    for (uint32_t i = axis; i + 1 < x.rank; i++)
        outer.shape[i] = x.shape[i + 1];
    outer.rank--;
    switch (kind) {
    case RED_add:
        vjp_stage(r, STAGE_BACKWARD);
        vjp_give(r, n, 0, build_cumulate(r->b, RED_add, dy[0], axis, mode ^ CUMULATE_REVERSE));
        break;
    case RED_none:
    case RED_mul:
        vjp_linear(r, id, n, dy, axis, &outer);
        break;
    case RED_argmax:
    case RED_argmin:
        vjp_give(r, n, 0, scatter_along(r, &x, (Val){id, 1}, dy[0], axis, false));
        break;
    default: {
        vjp_stage(r, -1);
        const Reducer with_index = kind == RED_max ? RED_argmax : RED_argmin;
        Val y = build_cumulate(r->b, with_index, n->in[0], axis, mode & CUMULATE_REVERSE);
        vjp_give(r, n, 0, scatter_along(r, &x, val_result(y, 1), dy[0], axis, false));
        break;
    }
    }
}
