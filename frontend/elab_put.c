/* elab_put.c: a[i, :, pos] = e where some subscripts are tensors, or slices with a step: one
 * scatter.
 *
 *   cache[0, :, pos] = k        the index of cache's axes 0 .. 2 as one: (0 * H + h) * S + pos
 *
 * A part that was read from an argument or a buffer (t = cache[i]) and is then changed is changed
 * where it lies: t becomes a view of the whole with that change, so that cache[i] = t costs
 * nothing. SPDX-License-Identifier: MIT */
#include "frontend/elab_subs.h"

#include <string.h>

typedef struct {
    Elab *e;
    Span op, at;
    Val x;
    TypeInfo t;
    Subs s;
    uint32_t first, last;       /* axes that the index counts through */
    const Sub *g[3 * MAX_RANK]; /* tensors */
    uint32_t ng, where;         /* ... and before which other axis of the part theirs stand */
    TypeInfo gt;                /* what they broadcast to */
    bool apart;
    Dim part[3 * MAX_RANK], index[3 * MAX_RANK]; /* shapes: of the part, of its indexed axes */
    uint32_t npart, nindex, lead, ones;
} Put;

static bool is_whole(const Put *q, const Sub *sub)
{
    return sub->kind == SUB_slice && sub->step == 1 && dim_same(sub->extent, q->t.shape[sub->axis]);
}

/* The tensors, broadcast to one shape. */
static bool find_tensors(Put *q)
{
    Elab *e = q->e;
    Value sum = v_none();
    uint32_t axis = 0, last = 0;
    for (uint32_t i = 0; i < q->s.n; i++) {
        const Sub *sub = &q->s.at[i];
        if (sub->kind == SUB_gather) {
            q->apart |= q->ng && last + 1 != axis;
            last = axis;
            q->g[q->ng++] = sub;
            const Value v = v_tensor(e, build_cast(&e->b, sub->index, DT_i64)), before = sum;
            if (q->ng == 1)
                sum = v;
            else if (!binary_op(e, AST_add, sub->at, &before, q->g[0]->at, &v, sub->at, &sum))
                return false;
        }
        axis += sub->kind != SUB_at;
    }
    if (q->ng)
        q->gt = *value_type(e, &sum);
    if (q->apart) {
        elab_error(e, DIAG_bad_index, q->op,
                   "tensors that index a part which is assigned must stand side by side: use "
                   "index_copy");
        return false;
    }
    return true;
}

static void add_shape(Put *q, Dim d, bool indexed)
{
    q->part[q->npart++] = d;
    if (indexed)
        q->index[q->nindex++] = d;
}

static void find_shapes(Put *q)
{
    bool some = false, placed = false;
    q->first = q->last = 0;
    for (uint32_t i = 0; i < q->s.n; i++) {
        const Sub *sub = &q->s.at[i];
        if (sub->kind == SUB_new || is_whole(q, sub))
            continue;
        q->first = some ? q->first : sub->axis;
        q->last = sub->axis;
        some = true;
    }
    q->lead = q->first;
    for (uint32_t i = 0; i < q->s.n; i++) {
        const Sub *sub = &q->s.at[i];
        if (sub->kind == SUB_new) {
            q->ones++;
            add_shape(q, dim_const(q->e->dims, 1), false);
        } else if (sub->kind == SUB_slice) {
            add_shape(q, sub->extent, sub->axis >= q->first && sub->axis <= q->last);
        } else if (sub->kind == SUB_gather && !placed) {
            placed = true;
            q->where = q->nindex;
            for (uint32_t k = 0; k < q->gt.rank; k++)
                add_shape(q, q->gt.shape[k], true);
        }
    }
}

/* v over the axes [at, at + its rank) of the index. */
static Val over_index(Put *q, Val v, uint32_t at)
{
    int64_t dims[MAX_RANK];
    const uint32_t rank = type_at(q->e, v)->rank;
    for (uint32_t i = 0; i < rank; i++)
        dims[i] = at + i;
    return build_broadcast(&q->e->b, v, q->index, q->nindex, dims);
}

/* A tensor's index over all: -1 where it is out of range, which is reported. */
static Val checked(Put *q, const Sub *sub)
{
    Elab *e = q->e;
    const Dim size = q->t.shape[sub->axis];
    const Val one = build_broadcast_to(&e->b, build_const_int(&e->b, DT_i64, 1), &size, 1);
    Val places = build_cast(&e->b, build_iota(&e->b, &size, 1, 0), DT_i64);
    places = build2(&e->b, OP_add, places, one);
    Val at = build_gather(&e->b, places, sub->index, 0, 0, GATHER_CHECK);
    const TypeInfo t = *type_at(e, at);
    at = build2(&e->b, OP_sub, at,
                build_broadcast_to(&e->b, build_const_int(&e->b, DT_i64, 1), t.shape, t.rank));
    at = build_broadcast_to(&e->b, at, q->gt.shape, q->gt.rank);
    return over_index(q, at, q->where);
}

static Val number(Put *q, Dim d)
{
    return over_index(q, build_dim(&q->e->b, d), 0);
}

/* The place of each element of the part among all of axes first .. last. */
static Val linear_index(Put *q)
{
    Builder *b = &q->e->b;
    DimTable *t = q->e->dims;
    Val sum = {0, 0}, bad = {0, 0};
    uint32_t at = 0;
    for (uint32_t i = 0; i < q->s.n; i++) {
        const Sub *sub = &q->s.at[i];
        if (sub->kind == SUB_new || sub->axis < q->first || sub->axis > q->last)
            continue;
        Dim stride = dim_const(t, 1);
        for (uint32_t k = sub->axis + 1; k <= q->last; k++)
            stride = dim_mul(t, stride, q->t.shape[k]);
        Val here;
        if (sub->kind == SUB_gather) {
            here = checked(q, sub);
            const Val out = build2(b, OP_lt, here, number(q, dim_const(t, 0)));
            bad = bad.node ? build2(b, OP_or, bad, out) : out;
            at = at <= q->where ? q->where + q->gt.rank : at;
            here = build2(b, OP_mul, here, number(q, stride));
        } else if (sub->kind == SUB_slice) {
            here = build_cast(b, build_iota(b, q->index, q->nindex, at++), DT_i64);
            here = build2(b, OP_mul, here, number(q, dim_mul(t, stride, dim_const(t, sub->step))));
            here = build2(b, OP_add, here, number(q, dim_mul(t, stride, sub->start)));
        } else {
            here = number(q, dim_mul(t, stride, sub->start));
        }
        sum = sum.node ? build2(b, OP_add, sum, here) : here;
    }
    return bad.node ? build3(b, OP_where, bad, number(q, dim_const(t, -1)), sum) : sum;
}

/* The value in the shape of the part, without its new axes. */
static bool part_of(Put *q, const Value *part, Val *out)
{
    Elab *e = q->e;
    Val v = val_as(e, part, q->t.dtype);
    const TypeInfo got = *type_at(e, v);
    bool fits = got.rank <= q->npart && q->npart <= MAX_RANK;
    for (uint32_t k = 0; fits && k < got.rank; k++) {
        const Dim a = got.shape[got.rank - 1 - k], b = q->part[q->npart - 1 - k];
        fits = dim_is_one(e->dims, a) || prove_equal(e, q->at, a, b);
    }
    if (!fits) {
        elab_error(e, DIAG_shape_mismatch, q->at, "cannot put %s into a part of shape %s",
                   val_shape_str(e, v), shape_text(e->p, e->a, q->part, q->npart));
        return false;
    }
    v = build_broadcast_to(&e->b, v, q->part, q->npart);
    if (q->ones) {
        Dim shape[MAX_RANK];
        uint32_t rank = 0;
        for (uint32_t i = 0; i < q->first; i++)
            shape[rank++] = q->t.shape[i];
        for (uint32_t i = 0; i < q->nindex; i++)
            shape[rank++] = q->index[i];
        for (uint32_t i = q->last + 1; i < q->t.rank; i++)
            shape[rank++] = q->t.shape[i];
        v = build_reshape(&e->b, v, shape, rank);
    }
    *out = v;
    return true;
}

/* Two tensors may name one place twice; one may, if it holds a number twice. */
static bool is_unique(Put *q)
{
    uint32_t wide = 0;
    bool unique = true;
    for (uint32_t i = 0; i < q->ng; i++) {
        const uint32_t rank = type_at(q->e, q->g[i]->index)->rank;
        wide += rank > 0;
        unique &= rank == 0 || (index_is_unique(q->e->p, q->e->b.g, q->g[i]->given, 0) &&
                                dim_le(q->e->dims, type_at(q->e, q->g[i]->given)->shape[0],
                                       q->t.shape[q->g[i]->axis]) == YES);
    }
    return unique && wide <= 1;
}

static Val put(Put *q, Val upd)
{
    Builder *b = &q->e->b;
    const bool unique = is_unique(q);
    const bool alone = q->ng == 1 && q->first == q->last;
    if (alone) { /* the tensor itself */
        const Val index = build_broadcast_to(b, q->g[0]->index, q->gt.shape, q->gt.rank);
        return build_scatter(b, q->x, index, upd, q->first, 0, RED_none, GATHER_CHECK, unique);
    }
    return build_scatter_joint(b, q->x, linear_index(q), upd, q->first, q->last - q->first + 1, 0,
                               RED_none, q->ng ? GATHER_FILL : GATHER_CHECK, unique);
}

/* ---- parts of arguments and buffers ---- */

static bool is_memory(Elab *e, Val x)
{
    for (;;) {
        const Node *n = graph_node(e->b.g, x);
        if (n->op == OP_input || n->op == OP_state)
            return true;
        if (n->op != OP_scatter && n->op != OP_slice && n->op != OP_reshape)
            return false;
        x = n->in[0];
    }
}

/* x is X[.., i, ..]: single places of some axes, and all of the others. Gives the subscripts of X
 * that are those of x. */
static bool widen(Elab *e, Val x, const Subs *s, Val *whole, Subs *out)
{
    const Node *r = graph_node(e->b.g, x);
    const Node *n = r->op == OP_reshape ? graph_node(e->b.g, r->in[0]) : r;
    if (n->op != OP_slice || !is_memory(e, n->in[0]))
        return false;
    const TypeInfo from = *type_at(e, n->in[0]), to = *type_at(e, x);
    const Attr step = node_attr(n, ATTR_step);
    uint32_t axis = 0, i = 0;
    *out = (Subs){.ok = true};
    for (uint32_t k = 0; k < from.rank; k++) {
        const bool all = dim_same(node_dim(n, ATTR_extent, k), from.shape[k]) && step.at[k] == 1;
        if (!all && !dim_is_one(e->dims, node_dim(n, ATTR_extent, k)))
            return false;
        if (!all) {
            out->at[out->n++] = (Sub){.kind = SUB_at,
                                      .axis = k,
                                      .step = 1,
                                      .start = node_dim(n, ATTR_start, k),
                                      .extent = dim_const(e->dims, 1)};
            continue;
        }
        if (axis >= to.rank || !dim_same(to.shape[axis], from.shape[k]))
            return false;
        while (i < s->n && (s->at[i].kind == SUB_new || s->at[i].axis == axis)) {
            out->at[out->n] = s->at[i++];
            out->at[out->n++].axis = k;
        }
        axis++;
    }
    while (i < s->n)
        out->at[out->n++] = s->at[i++];
    *whole = n->in[0];
    return axis == to.rank;
}

/* view, made of `from`, made of `to` instead; {0} if it is not made of it. */
static Val again(Elab *e, Val view, Val from, Val to)
{
    if (val_eq(view, from))
        return to;
    const Node n = *graph_node(e->b.g, view);
    if (n.op != OP_reshape && n.op != OP_slice)
        return (Val){0, 0};
    const Val x = again(e, n.in[0], from, to);
    return x.node ? build(&e->b, n.op, &x, 1, n.attrs) : x;
}

static bool place(Elab *e, Val x, const Subs *s, const Value *part, Span op, Span at, Val *out)
{
    Val whole;
    Subs wide;
    if (widen(e, x, s, &whole, &wide)) {
        Val y;
        if (!place(e, whole, &wide, part, op, at, &y))
            return false;
        *out = again(e, x, whole, y);
        return true;
    }
    Put q = {.e = e, .op = op, .at = at, .x = x, .t = *type_at(e, x), .s = *s};
    Val upd;
    if (!find_tensors(&q))
        return false;
    find_shapes(&q);
    if (q.nindex > MAX_RANK || q.npart > MAX_RANK) {
        elab_error(e, DIAG_bad_index, op, "the part has too many axes; at most %d", MAX_RANK);
        return false;
    }
    if (!part_of(&q, part, &upd))
        return false;
    *out = put(&q, upd);
    return true;
}

Value store_places(Elab *e, const Value *base, const Subs *s, const Value *part, Span op, Span at)
{
    Val y;
    return place(e, use_val(e, base), s, part, op, at, &y) ? v_tensor(e, y) : v_poison();
}

/* a and b are the same views of two values of one type. */
static bool same_view(Elab *e, Val a, Val b, Val *of_a, Val *of_b)
{
    const Node *m = graph_node(e->b.g, a), *n = graph_node(e->b.g, b);
    const bool view = m->op == OP_reshape || m->op == OP_slice;
    if (!view || m->op != n->op || val_type(e->b.g, a).id != val_type(e->b.g, b).id) {
        *of_a = a;
        *of_b = b;
        return val_type(e->b.g, a).id == val_type(e->b.g, b).id;
    }
    for (int i = 0; i < op_info(m->op)->nattrs; i++)
        if (m->attrs[i].n != n->attrs[i].n ||
            memcmp(m->attrs[i].at, n->attrs[i].at, m->attrs[i].n * sizeof(int64_t)) != 0)
            return false;
    return same_view(e, m->in[0], n->in[0], of_a, of_b);
}

bool changed_in_place(Elab *e, Val x, Val same, Val part, Val *out)
{
    Val from, to;
    if (val_eq(same, x) || !same_view(e, same, part, &from, &to))
        return false;
    *out = to;
    while (!val_eq(to, from)) {
        const Node *n = graph_node(e->b.g, to);
        if (n->op != OP_scatter)
            return false;
        to = n->in[0];
    }
    *out = again(e, x, from, *out); /* x itself may be a view of what was read */
    return out->node != 0;
}
