/* differentiate.c: reverse mode, appended to the graph.
 *
 *   %y = tanh %x                               %y = tanh %x
 *   return %y              d y / d x           %1 = mul %y, %y
 *                          given %dy           %2 = sub 1, %1
 *                             =>               %3 = mul %dy, %2      !1
 *
 * One adjoint a value, absent until something arrives: zeros are never built. What is made of
 * forward values only stays in the forward stage, so that remat may save it. Every rule emits ops
 * that have rules: differentiating twice needs nothing more.
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "passes/analysis.h"
#include "passes/pass.h"
#include "passes/vjp.h"

typedef struct Terms {
    VEC(Val) at;
    bool summed; /* at[0] is the sum */
} Terms;

/* --- helpers of the rules --------------------------------------------------------------------- */

void vjp_stage(Reverse *r, int stage)
{
    r->b->stage = stage;
}

Val vjp_op1(Reverse *r, bool back, Op op, Val x)
{
    vjp_stage(r, back ? STAGE_BACKWARD : -1);
    return build1(r->b, op, x);
}

Val vjp_op2(Reverse *r, bool back, Op op, Val x, Val y)
{
    vjp_stage(r, back ? STAGE_BACKWARD : -1);
    return build2(r->b, op, x, y);
}

Val vjp_op3(Reverse *r, bool back, Op op, Val x, Val y, Val z)
{
    vjp_stage(r, back ? STAGE_BACKWARD : -1);
    return build3(r->b, op, x, y, z);
}

Val vjp_full(Reverse *r, double v, const TypeInfo *like)
{
    const Val full = build_full(r->b, like->dtype, v, like->shape, like->rank);
    return build_at_place(r->b, full, like->place);
}

Val vjp_spread(Reverse *r, bool back, Val x, const TypeInfo *like, const int64_t *axes,
               uint32_t naxes)
{
    int64_t dims[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t k = 0; k < like->rank; k++) {
        bool gone = false;
        for (uint32_t i = 0; i < naxes; i++)
            gone |= axes[i] == (int64_t)k;
        if (!gone)
            dims[n++] = k;
    }
    vjp_stage(r, back ? STAGE_BACKWARD : -1);
    return build_broadcast(r->b, x, like->shape, like->rank, dims);
}

Val vjp_unbroadcast(Reverse *r, Val d, const TypeInfo *to)
{
    TypeInfo from = *val_info(r->p, r->g, d);
    CHECK(from.rank >= to->rank);
    uint32_t lead = from.rank - to->rank, n = 0;
    int64_t axes[MAX_RANK];
    for (uint32_t k = 0; k < from.rank; k++)
        if (k < lead || dim_equal(r->p->cx->dims, from.shape[k], to->shape[k - lead]) != YES)
            axes[n++] = k;
    vjp_stage(r, STAGE_BACKWARD);
    if (n)
        d = build_reduce(r->b, RED_add, d, axes, n);
    return build_reshape(r->b, d, to->shape, to->rank);
}

Val vjp_size(Reverse *r, DType t, Dim d)
{
    int64_t v;
    vjp_stage(r, -1);
    if (dim_is_const(r->p->cx->dims, d, &v))
        return dtype_is_float(t) ? build_const(r->b, t, (double)v) : build_const_int(r->b, t, v);
    return build_cast(r->b, build_dim(r->b, d), t);
}

Val vjp_one_over(Reverse *r, DType t, Dim d)
{
    int64_t v;
    vjp_stage(r, -1);
    if (dim_is_const(r->p->cx->dims, d, &v) && v)
        return build_const(r->b, t, 1.0 / (double)v);
    return build2(r->b, OP_div, build_const(r->b, t, 1), vjp_size(r, t, d));
}

bool vjp_wants(const Reverse *r, const Node *n, uint32_t k)
{
    Val v = n->in[k];
    return v.node < r->n && r->active[v.node] && r->active[v.node][v.result];
}

static void give(Reverse *r, Val x, Val d)
{
    if (!d.node || x.node >= r->n || !r->active[x.node] || !r->active[x.node][x.result])
        return;
    Terms *t = &r->terms[x.node][x.result];
    vec_push(r->p->cx->scratch, &t->at, d);
}

void vjp_give(Reverse *r, const Node *n, uint32_t k, Val d)
{
    give(r, n->in[k], d);
}

void vjp_refuse(Reverse *r, const Node *n, DiagKind kind, const char *why)
{
    if (!r->failed)
        diag_report(r->p->cx->diags, kind, n->site.at, "%s", why);
    r->failed = true;
}

/* --- adding up what arrives ------------------------------------------------------------------- */

/* A term that is a piece of zeros: where it lies along one axis. */
typedef struct {
    Val x;
    Dim lo, extent;
} Piece;

/* The term as a piece along *axis (-1: not yet known); false if it is something else. */
static bool as_piece(Reverse *r, Val d, int *axis, Piece *out)
{
    const Node *n = graph_node(r->g, d);
    double zero;
    if (n->op != OP_pad || !graph_constant(r->g, n->in[1], &zero) || zero != 0)
        return false;
    DimTable *t = r->p->cx->dims;
    const TypeInfo *from = val_info(r->p, r->g, n->in[0]);
    Attr interior = node_attr(n, ATTR_interior);
    int at = -1;
    for (uint32_t k = 0; k < from->rank; k++) {
        if (interior.n > k && interior.at[k] != 0)
            return false;
        if (dim_is_zero(t, node_dim(n, ATTR_lo, k)) && dim_is_zero(t, node_dim(n, ATTR_hi, k)))
            continue;
        if (at >= 0)
            return false;
        at = (int)k;
    }
    if (at < 0 || (*axis >= 0 && at != *axis))
        return false;
    *axis = at;
    *out = (Piece){n->in[0], node_dim(n, ATTR_lo, (uint32_t)at), from->shape[at]};
    return true;
}

/* Puts x into the list, sorted by where it begins, as far as that is known. */
static void insert_piece(DimTable *t, Piece *piece, uint32_t n, Piece x)
{
    uint32_t at = n;
    while (at > 0 && !dim_same(x.lo, piece[at - 1].lo) &&
           dim_le(t, x.lo, piece[at - 1].lo) == YES) {
        piece[at] = piece[at - 1];
        at--;
    }
    piece[at] = x;
}

/* x with zeros around it along the axis: the range lo .. lo + extent. */
static Val widen(Reverse *r, const Piece *x, Dim lo, Dim extent, int axis)
{
    DimTable *t = r->p->cx->dims;
    TypeInfo type = *val_info(r->p, r->g, x->x);
    Dim before[MAX_RANK], behind[MAX_RANK];
    int64_t interior[MAX_RANK] = {0};
    if (dim_same(lo, x->lo) && dim_same(extent, x->extent))
        return x->x;
    for (uint32_t k = 0; k < type.rank; k++)
        before[k] = behind[k] = dim_const(t, 0);
    before[axis] = dim_sub(t, x->lo, lo);
    behind[axis] = dim_sub(t, dim_add(t, lo, extent), dim_add(t, x->lo, x->extent));
    vjp_stage(r, STAGE_BACKWARD);
    return build_pad(r->b, x->x, build_const(r->b, type.dtype, 0), before, behind, interior);
}

/* Pieces that overlap the one before are added to it. False if it cannot be told. */
static bool merge_overlaps(Reverse *r, Piece *piece, uint32_t *n, int axis)
{
    DimTable *t = r->p->cx->dims;
    uint32_t kept = 1;
    for (uint32_t i = 1; i < *n; i++) {
        Piece *last = &piece[kept - 1], x = piece[i];
        Dim end = dim_add(t, last->lo, last->extent), x_end = dim_add(t, x.lo, x.extent);
        if (dim_le(t, end, x.lo) == YES) {
            piece[kept++] = x;
            continue;
        }
        Answer inside = dim_le(t, x_end, end);
        if (dim_le(t, last->lo, x.lo) != YES || inside == UNKNOWN)
            return false;
        Dim extent = dim_sub(t, inside == YES ? end : x_end, last->lo);
        Val a = widen(r, last, last->lo, extent, axis), b = widen(r, &x, last->lo, extent, axis);
        last->x = vjp_op2(r, true, OP_add, a, b);
        last->extent = extent;
    }
    *n = kept;
    return true;
}

/* Pieces along one axis become one concat, with zeros in the gaps; {0,0} if they do not fit. */
static Val join_pieces(Reverse *r, const Val *d, uint32_t n, const TypeInfo *type)
{
    DimTable *t = r->p->cx->dims;
    Arena *a = r->p->cx->scratch;
    Piece *piece = arena_array(a, Piece, n + 1);
    int axis = -1;
    for (uint32_t i = 0; i < n; i++) {
        Piece x;
        if (!as_piece(r, d[i], &axis, &x))
            return (Val){0, 0};
        insert_piece(t, piece, i, x);
    }
    if (!merge_overlaps(r, piece, &n, axis))
        return (Val){0, 0};
    Val *in = arena_array(a, Val, 2 * n + 1);
    uint32_t nin = 0;
    Dim end = dim_const(t, 0);
    for (uint32_t i = 0; i <= n; i++) {
        Dim lo = i < n ? piece[i].lo : type->shape[axis];
        if (dim_le(t, end, lo) != YES)
            return (Val){0, 0};
        if (!dim_same(end, lo)) {
            TypeInfo gap = *type;
            gap.shape[axis] = dim_sub(t, lo, end);
            vjp_stage(r, -1);
            in[nin++] = vjp_full(r, 0, &gap);
        }
        if (i < n) {
            in[nin++] = piece[i].x;
            end = dim_add(t, lo, piece[i].extent);
        }
    }
    vjp_stage(r, STAGE_BACKWARD);
    return build_concat(r->b, in, nin, (uint32_t)axis);
}

/* Joins the terms that are pads (one is enough for a state slot: its gradient has pieces), adds up
 * the rest. */
static Val add_terms(Reverse *r, Val x, const Terms *t)
{
    Arena *a = r->p->cx->scratch;
    TypeInfo type = *val_info(r->p, r->g, x);
    Val *pad = arena_array(a, Val, t->at.n), *rest = arena_array(a, Val, t->at.n + 1);
    uint32_t npad = 0, nrest = 0;
    int axis = -1;
    for (uint32_t i = 0; i < t->at.n; i++) {
        Piece piece;
        if (as_piece(r, t->at.at[i], &axis, &piece))
            pad[npad++] = t->at.at[i];
        else
            rest[nrest++] = t->at.at[i];
    }
    bool is_state = r->g->nodes.at[x.node].op == OP_state;
    Val joined = {0, 0};
    if (npad > 1 || (npad == 1 && is_state))
        joined = join_pieces(r, pad, npad, &type);
    Val sum = joined;
    for (uint32_t i = 0; i < t->at.n; i++) {
        Val d = i < nrest ? rest[i] : joined.node ? (Val){0, 0} : pad[i - nrest];
        if (d.node)
            sum = sum.node ? vjp_op2(r, true, OP_add, sum, d) : d;
    }
    return sum;
}

/* The adjoint of a value; {0,0} if nothing arrived. */
static Val adjoint(Reverse *r, Val x)
{
    Terms *t = &r->terms[x.node][x.result];
    if (!t->at.n)
        return (Val){0, 0};
    if (!t->summed)
        t->at.at[0] = add_terms(r, x, t);
    t->at.n = 1;
    t->summed = true;
    return t->at.at[0];
}

Val segment_accumulate(Builder *b, uint32_t slot, Val d)
{
    DimTable *t = b->p->cx->dims;
    Val old = build_state(b, slot);
    Node n = *graph_node(b->g, d);
    int stage = b->stage;
    Val sum;
    b->stage = STAGE_BACKWARD;
    if (n.op != OP_concat || val_info(b->p, b->g, d)->rank != 1) {
        sum = build2(b, OP_add, old, d);
    } else {
        Val *in = arena_array(b->p->cx->scratch, Val, n.nin);
        Dim at = dim_const(t, 0);
        for (uint32_t k = 0; k < n.nin; k++) {
            Dim extent = val_info(b->p, b->g, n.in[k])->shape[0];
            double zero;
            in[k] = build_slice_axis(b, old, 0, at, extent);
            if (!graph_constant(b->g, n.in[k], &zero) || zero != 0)
                in[k] = build2(b, OP_add, in[k], n.in[k]);
            at = dim_add(t, at, extent);
        }
        sum = build_concat(b, in, n.nin, 0);
    }
    b->stage = stage;
    return sum;
}

/* --- the walk --------------------------------------------------------------------------------- */

/* A value depends on what is differentiated: it is one of those, or a float that is computed from
 * such a value by an op that has a derivative. */
static void mark_active(Reverse *r, const Val *wrt, uint32_t nwrt)
{
    Arena *a = r->p->cx->scratch;
    for (uint32_t i = 0; i < nwrt; i++) {
        uint32_t id = wrt[i].node;
        if (!r->active[id])
            r->active[id] = arena_array(a, bool, r->g->nodes.at[id].nout);
        r->active[id][wrt[i].result] = true;
    }
    for (uint32_t id = 1; id < r->n; id++) {
        const Node *n = &r->g->nodes.at[id];
        if (!n->nin || !vjp_rule(n->op))
            continue;
        bool any = false;
        for (uint32_t k = 0; k < n->nin; k++)
            any |= vjp_wants(r, n, k);
        if (!any)
            continue;
        if (!r->active[id])
            r->active[id] = arena_array(a, bool, n->nout);
        for (uint32_t k = 0; k < n->nout; k++)
            r->active[id][k] |= dtype_is_float(type_info(r->p, n->types[k])->dtype);
    }
}

bool **vjp_active(Builder *b, const Val *wrt, uint32_t nwrt)
{
    Reverse r = {.b = b, .p = b->p, .g = b->g, .n = b->g->nodes.n};
    r.active = arena_array(b->p->cx->scratch, bool *, r.n);
    mark_active(&r, wrt, nwrt);
    return r.active;
}

static bool active(const Reverse *r, Val v)
{
    return r->active[v.node] && r->active[v.node][v.result];
}

static void walk(Reverse *r, uint32_t last)
{
    for (uint32_t id = last; id >= 1 && !r->failed; id--) {
        if (!r->active[id])
            continue;
        Node n = r->g->nodes.at[id];
        VjpRule *rule = n.nin ? vjp_rule(n.op) : NULL;
        bool wanted = false;
        for (uint32_t k = 0; k < n.nin; k++)
            wanted |= vjp_wants(r, &n, k);
        if (!rule || !wanted)
            continue;
        Val *dy = arena_array(r->p->cx->scratch, Val, n.nout);
        bool any = false;
        r->b->site = n.site;
        for (uint32_t k = 0; k < n.nout; k++) {
            if (r->active[id][k] && !(r->stop && r->stop[id] && r->stop[id][k]))
                dy[k] = adjoint(r, (Val){id, k});
            any |= dy[k].node != 0;
        }
        if (any)
            rule(r, id, &n, dy);
    }
}

static bool reverse(Builder *b, const Val *y, const Val *dy, uint32_t ny, const Val *wrt,
                    uint32_t nwrt, Val *out, bool stop)
{
    Arena *a = b->p->cx->scratch;
    Reverse r = {.b = b, .p = b->p, .g = b->g, .n = b->g->nodes.n};
    Site site = b->site;
    int stage = b->stage;
    r.active = arena_array(a, bool *, r.n);
    r.terms = arena_array(a, Terms *, r.n);
    mark_active(&r, wrt, nwrt);
    for (uint32_t id = 1; id < r.n; id++)
        if (r.active[id])
            r.terms[id] = arena_array(a, Terms, r.g->nodes.at[id].nout);
    if (stop) {
        r.stop = arena_array(a, bool *, r.n);
        for (uint32_t k = 0; k < nwrt; k++) {
            if (!r.stop[wrt[k].node])
                r.stop[wrt[k].node] = arena_array(a, bool, r.g->nodes.at[wrt[k].node].nout);
            r.stop[wrt[k].node][wrt[k].result] = true;
        }
    }
    uint32_t last = 0;
    for (uint32_t i = 0; i < ny; i++) {
        if (!active(&r, y[i]))
            continue;
        Val seed = dy ? dy[i] : (Val){0, 0};
        if (!seed.node) {
            TypeInfo t = *val_info(r.p, r.g, y[i]);
            vjp_stage(&r, STAGE_BACKWARD);
            seed = vjp_full(&r, 1, &t);
        }
        give(&r, y[i], seed);
        last = y[i].node > last ? y[i].node : last;
    }
    walk(&r, last);
    for (uint32_t k = 0; k < nwrt; k++)
        out[k] = !r.failed && r.terms[wrt[k].node] ? adjoint(&r, wrt[k]) : (Val){0, 0};
    b->site = site;
    b->stage = stage;
    return !r.failed;
}

bool differentiate(Builder *b, const Val *y, const Val *dy, uint32_t ny, const Val *wrt,
                   uint32_t nwrt, Val *out)
{
    return reverse(b, y, dy, ny, wrt, nwrt, out, false);
}

bool vjp_differentiate_to(Builder *b, const Val *y, const Val *dy, uint32_t ny, const Val *wrt,
                          uint32_t nwrt, Val *out)
{
    return reverse(b, y, dy, ny, wrt, nwrt, out, true);
}
