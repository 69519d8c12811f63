/* vjp_many.c: derivatives of the ops that combine many elements: reduce and dot; and of calls,
 * which bring their own. SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "passes/analysis.h"
#include "passes/pass.h"
#include "passes/vjp.h"

/* --- reduce ----------------------------------------------------------------------------------- */

typedef struct {
    Reverse *r;
    const Node *n;
    uint32_t id;
    TypeInfo x; /* of the operand */
    Attr axes;
    Dim count; /* elements reduced into one */
} Red;

static Val spread(const Red *e, bool back, Val v)
{
    return vjp_spread(e->r, back, v, &e->x, e->axes.at, e->axes.n);
}

/* where(cond, d, 0) over the operand's shape */
static Val masked(const Red *e, Val cond, Val d)
{
    vjp_stage(e->r, -1);
    Val zero = vjp_full(e->r, 0, &e->x);
    return vjp_op3(e->r, true, OP_where, cond, d, zero);
}

/* The row-major index, among the reduced axes, of each element (i64). */
static Val linear_index(const Red *e)
{
    Builder *b = e->r->b;
    DimTable *t = e->r->p->cx->dims;
    Val sum = {0, 0};
    Dim stride = dim_const(t, 1);
    vjp_stage(e->r, -1);
    for (uint32_t i = e->axes.n; i-- > 0;) {
        uint32_t axis = (uint32_t)e->axes.at[i];
        Val at = build_cast(b, build_iota(b, e->x.shape, e->x.rank, axis), DT_i64);
        if (!dim_is_one(t, stride)) {
            Val s = build_broadcast_to(b, vjp_size(e->r, DT_i64, stride), e->x.shape, e->x.rank);
            at = build2(b, OP_mul, at, s);
        }
        sum = sum.node ? build2(b, OP_add, sum, at) : at;
        stride = dim_mul(t, stride, e->x.shape[axis]);
    }
    return sum;
}

static Val where_index_is(const Red *e, Val index, Val d)
{
    Val hit = vjp_op2(e->r, false, OP_eq, linear_index(e), spread(e, false, index));
    return masked(e, hit, spread(e, true, d));
}

/* One axis: the chosen element (the lowest index). Several: shared by the equal ones. */
static Val of_extremum(const Red *e, Reducer kind, Val d)
{
    Reverse *r = e->r;
    if (e->axes.n == 1) {
        vjp_stage(r, -1);
        Reducer with_index = kind == RED_max ? RED_argmax : RED_argmin;
        Val m = build_reduce(r->b, with_index, e->n->in[0], e->axes.at, e->axes.n);
        return where_index_is(e, val_result(m, 1), d);
    }
    Val y = spread(e, false, (Val){e->id, 0});
    Val hit = vjp_op2(r, false, OP_eq, e->n->in[0], y);
    vjp_stage(r, -1);
    Val ones = build_cast(r->b, hit, e->x.dtype);
    Val ties = build_reduce(r->b, RED_add, ones, e->axes.at, e->axes.n);
    return masked(e, hit, spread(e, true, vjp_op2(r, true, OP_div, d, ties)));
}

/* The product of the others, safe at zeros: p is the product of what is not 0. Without zeros it is
 * p / x; with one zero only that element gets p; with more nobody gets anything. */
static Val of_product(const Red *e, Val d)
{
    Reverse *r = e->r;
    Builder *b = r->b;
    Val x = e->n->in[0];
    vjp_stage(r, -1);
    Val zero = vjp_full(r, 0, &e->x), one = vjp_full(r, 1, &e->x);
    Val is_zero = build2(b, OP_eq, x, zero);
    Val safe = build3(b, OP_where, is_zero, one, x);
    Val p = build_reduce(b, RED_mul, safe, e->axes.at, e->axes.n);
    Val zeros = build_reduce(b, RED_add, build_cast(b, is_zero, e->x.dtype), e->axes.at, e->axes.n);
    Val others = build2(b, OP_div, spread(e, false, p), safe);
    vjp_stage(r, -1);
    Val nz = spread(e, false, zeros);
    Val none = build2(b, OP_eq, nz, zero), single = build2(b, OP_eq, nz, one);
    Val rest = build3(b, OP_where, build2(b, OP_and, is_zero, single), others, zero);
    rest = build3(b, OP_where, none, others, rest);
    return vjp_op2(r, true, OP_mul, spread(e, true, d), rest);
}

/* dmean / n + dvar * 2 * (x - mean) / n: the dependence of var on mean sums to 0. */
static Val of_moments(const Red *e, Val dmean, Val dvar)
{
    Reverse *r = e->r;
    Val over_n = vjp_one_over(r, e->x.dtype, e->count), sum = {0, 0};
    if (dmean.node) {
        TypeInfo t = *val_info(r->p, r->g, dmean);
        vjp_stage(r, -1);
        Val f = build_broadcast_to(r->b, over_n, t.shape, t.rank);
        sum = spread(e, true, vjp_op2(r, true, OP_mul, dmean, f));
    }
    if (dvar.node) {
        TypeInfo t = *val_info(r->p, r->g, dvar);
        vjp_stage(r, -1);
        Val f = build_broadcast_to(r->b, over_n, t.shape, t.rank);
        f = build2(r->b, OP_mul, f, vjp_full(r, 2, &t));
        Val scale = spread(e, true, vjp_op2(r, true, OP_mul, dvar, f));
        Val centred = vjp_op2(r, false, OP_sub, e->n->in[0], spread(e, false, (Val){e->id, 0}));
        Val d = vjp_op2(r, true, OP_mul, centred, scale);
        sum = sum.node ? vjp_op2(r, true, OP_add, sum, d) : d;
    }
    return sum;
}

void vjp_reduce(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    Red e = {r, n, id, *val_info(r->p, r->g, n->in[0]), node_attr(n, ATTR_axes), {0}};
    e.count = dim_const(r->p->cx->dims, 1);
    for (uint32_t i = 0; i < e.axes.n; i++)
        e.count = dim_mul(r->p->cx->dims, e.count, e.x.shape[e.axes.at[i]]);
    Reducer kind = (Reducer)node_int(n, ATTR_kind);
    Val d = {0, 0};
    switch (kind) {
    case RED_add:
        d = spread(&e, true, dy[0]);
        break;
    case RED_mul:
        d = of_product(&e, dy[0]);
        break;
    case RED_max:
    case RED_min:
        d = of_extremum(&e, kind, dy[0]);
        break;
    case RED_argmax:
    case RED_argmin:
        if (dy[0].node)
            d = where_index_is(&e, (Val){id, 1}, dy[0]);
        break;
    case RED_moments:
        d = of_moments(&e, dy[0], dy[1]);
        break;
    case RED_logsumexp: {
        Val y = spread(&e, false, (Val){id, 0});
        Val p = vjp_op1(r, false, OP_exp, vjp_op2(r, false, OP_sub, n->in[0], y));
        d = vjp_op2(r, true, OP_mul, spread(&e, true, dy[0]), p);
        break;
    }
    default:
        die("reducer %s of a float has no derivative rule", reducer_info(kind)->name);
    }
    vjp_give(r, n, 0, d);
}

/* --- dot -------------------------------------------------------------------------------------- */

/* One side of a contraction: which axes of the operand are what. */
typedef struct {
    Val v;
    TypeInfo t;
    Attr batch, contract;
    int64_t free[MAX_RANK];
    uint32_t nfree;
} Side;

static bool among(Attr axes, int64_t axis)
{
    for (uint32_t i = 0; i < axes.n; i++)
        if (axes.at[i] == axis)
            return true;
    return false;
}

static Side side(Reverse *r, Val v, Attr batch, Attr contract)
{
    Side s = {v, *val_info(r->p, r->g, v), batch, contract, {0}, 0};
    for (uint32_t k = 0; k < s.t.rank; k++)
        if (!among(batch, k) && !among(contract, k))
            s.free[s.nfree++] = k;
    return s;
}

/* The cotangent of x in y = dot(x, other): contracts dy's axes of `other`. dy's axes are batch,
 * then x's free ones from x_free, then other's from other_free. Two orders of the operands give
 * two orders of the result; the one that needs no transpose is taken if there is one. */
static Val of_side(Reverse *r, const Side *x, const Side *other, Val dy, uint32_t x_free,
                   uint32_t other_free)
{
    int64_t batch_y[MAX_RANK], contract_y[MAX_RANK], order[MAX_RANK], perm[MAX_RANK];
    uint32_t nb = x->batch.n, nc = x->contract.n;
    (void)x_free;
    for (uint32_t i = 0; i < nb; i++)
        batch_y[i] = i;
    for (uint32_t i = 0; i < other->nfree; i++)
        contract_y[i] = other_free + i;
    /* other's contracted axes come out in the order of its axes: sort the pairs by them */
    uint32_t by_other[MAX_RANK];
    for (uint32_t i = 0; i < nc; i++) {
        uint32_t at = i;
        for (; at > 0 && other->contract.at[by_other[at - 1]] > other->contract.at[i]; at--)
            by_other[at] = by_other[at - 1];
        by_other[at] = i;
    }
    bool dy_first = true, plain = false;
    for (int turn = 0; turn < 2 && !plain; turn++) {
        uint32_t at = 0;
        dy_first = turn == 0;
        for (uint32_t i = 0; i < nb; i++)
            order[at++] = x->batch.at[i];
        for (uint32_t i = 0; i < x->nfree && dy_first; i++)
            order[at++] = x->free[i];
        for (uint32_t i = 0; i < nc; i++)
            order[at++] = x->contract.at[by_other[i]];
        for (uint32_t i = 0; i < x->nfree && !dy_first; i++)
            order[at++] = x->free[i];
        plain = true;
        for (uint32_t i = 0; i < at; i++)
            plain &= order[i] == (int64_t)i;
        if (!plain && turn == 1) {
            /* neither: dy first, and a transpose */
            dy_first = true;
            at = nb;
            for (uint32_t i = 0; i < x->nfree; i++)
                order[at++] = x->free[i];
            for (uint32_t i = 0; i < nc; i++)
                order[at++] = x->contract.at[by_other[i]];
        }
    }
    vjp_stage(r, STAGE_BACKWARD);
    Val d = build_cast(r->b, dy, other->t.dtype);
    d = dy_first ? build_dot(r->b, d, other->v, batch_y, other->batch.at, nb, contract_y,
                             other->free, other->nfree, x->t.dtype)
                 : build_dot(r->b, other->v, d, other->batch.at, batch_y, nb, other->free,
                             contract_y, other->nfree, x->t.dtype);
    for (uint32_t i = 0; i < x->t.rank; i++)
        perm[order[i]] = i;
    return build_transpose(r->b, d, perm);
}

void vjp_dot(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id;
    Side a = side(r, n->in[0], node_attr(n, ATTR_batch_a), node_attr(n, ATTR_contract_a));
    Side b = side(r, n->in[1], node_attr(n, ATTR_batch_b), node_attr(n, ATTR_contract_b));
    uint32_t fa = a.batch.n, fb = fa + a.nfree;
    if (vjp_wants(r, n, 0))
        vjp_give(r, n, 0, of_side(r, &a, &b, dy[0], fa, fb));
    if (vjp_wants(r, n, 1))
        vjp_give(r, n, 1, of_side(r, &b, &a, dy[0], fb, fa));
}

/* --- call ------------------------------------------------------------------------------------- */

/* Derivative through the definition: inlines it and walks the copy. Only results k with dy[k]. */
static void through_definition(Reverse *r, const Node *n, const Val *dy)
{
    Arena *a = r->p->cx->scratch;
    Graph *def = r->p->graphs.at[node_int(n, ATTR_graph)];
    Val *y = arena_array(a, Val, n->nout), *d = arena_array(a, Val, n->nin);
    vjp_stage(r, -1);
    graph_inline(r->b, def, n->in, n->nin, y);
    Val *some_y = arena_array(a, Val, n->nout), *some_dy = arena_array(a, Val, n->nout);
    uint32_t ny = 0;
    for (uint32_t k = 0; k < n->nout; k++)
        if (dy[k].node) {
            some_y[ny] = y[k];
            some_dy[ny++] = dy[k];
        }
    if (!vjp_differentiate_to(r->b, some_y, some_dy, ny, n->in, n->nin, d)) {
        r->failed = true;
        return;
    }
    for (uint32_t k = 0; k < n->nin; k++) {
        bool again = false; /* an operand given twice got its whole cotangent the first time */
        for (uint32_t i = 0; i < k; i++)
            again |= val_eq(n->in[i], n->in[k]);
        if (!again)
            vjp_give(r, n, k, d[k]);
    }
}

/* The user's own derivative: a graph of (operands, all results, cotangents of the leading results)
 * whose results are named like the operands of the definition; a missing one is no gradient. */
static void through_grad(Reverse *r, uint32_t id, const Node *n, const Val *dy, uint32_t nres)
{
    Arena *a = r->p->cx->scratch;
    Graph *def = r->p->graphs.at[node_int(n, ATTR_graph)];
    Graph *grad = r->p->graphs.at[node_int(n, ATTR_grad) - 1];
    uint32_t nargs = n->nin + n->nout + nres, at = 0;
    CHECK(grad->params.n == nargs && def->params.n == n->nin);
    Val *args = arena_array(a, Val, nargs), *d = arena_array(a, Val, grad->results.n);
    for (uint32_t k = 0; k < n->nin; k++)
        args[at++] = n->in[k];
    for (uint32_t k = 0; k < n->nout; k++)
        args[at++] = (Val){id, k};
    for (uint32_t k = 0; k < nres; k++) {
        TypeInfo t = *val_info(r->p, r->g, (Val){id, k});
        vjp_stage(r, STAGE_BACKWARD);
        args[at++] = dy[k].node ? dy[k] : vjp_full(r, 0, &t);
    }
    vjp_stage(r, -1);
    graph_inline(r->b, grad, args, nargs, d);
    for (uint32_t i = 0; i < grad->results.n; i++)
        for (uint32_t k = 0; k < n->nin; k++)
            if (sym_eq(grad->results.at[i].name, def->params.at[k].name))
                vjp_give(r, n, k, d[i]);
}

void vjp_call(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    Arena *a = r->p->cx->scratch;
    uint32_t nres = node_int(n, ATTR_grad) ? (uint32_t)node_int(n, ATTR_results) : 0;
    Val *inner = arena_array(a, Val, n->nout); /* differentiated twice: what reads inner values */
    bool own = false, through = false;
    for (uint32_t k = 0; k < n->nout; k++) {
        own |= k < nres && dy[k].node != 0;
        inner[k] = k < nres ? (Val){0, 0} : dy[k];
        through |= inner[k].node != 0;
    }
    if (own)
        through_grad(r, id, n, dy, nres);
    if (through && !r->failed)
        through_definition(r, n, inner);
}
