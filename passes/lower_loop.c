/* lower_loop.c: a scan is a loop of steps. Carries that are kept lie in their history, one slot a
 * turn; the others in two buffers that change places. Slices are offsets: nothing is copied.
 *
 *   %H = scan %h0, %x, %w {keep=0}     ->   copy H[0] = h0
 *                                           loop t in 0..T
 *                                             gemm z = H[t] * w
 *                                             launch cell (z, x[t], H[t + 1])
 *                                           end
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_loop.h"

#include <string.h>

/* --- places ----------------------------------------------------------------------------------- */

static Loc loc_transposed(const Node *n, const Loc *x)
{
    const Attr perm = node_attr(n, ATTR_perm);
    Loc loc = *x;
    for (uint32_t i = 0; i < x->rank; i++) {
        loc.shape[i] = x->shape[perm.at[i]];
        loc.stride[i] = x->stride[perm.at[i]];
    }
    return loc;
}

static Loc loc_sliced(Lower *l, const Node *n, const Loc *x)
{
    DimTable *t = l->t;
    const Attr step = node_attr(n, ATTR_step);
    Loc loc = *x;
    for (uint32_t i = 0; i < x->rank; i++) {
        loc.offset = dim_add(t, loc.offset, dim_mul(t, node_dim(n, ATTR_start, i), x->stride[i]));
        loc.stride[i] = dim_mul(t, x->stride[i], dim_const(t, step.at[i]));
        loc.shape[i] = node_dim(n, ATTR_extent, i);
    }
    return loc;
}

static Loc loc_spread(Lower *l, const Node *n, const Loc *x)
{
    DimTable *t = l->t;
    const Attr dims = node_attr(n, ATTR_dims);
    const TypeInfo *r = type_info(l->p, n->types[0]);
    Loc loc = {.buf = x->buf, .offset = x->offset, .rank = r->rank};
    for (uint32_t i = 0; i < r->rank; i++) {
        loc.shape[i] = r->shape[i];
        loc.stride[i] = dim_const(t, 0);
    }
    for (uint32_t i = 0; i < dims.n; i++)
        if (dim_same(x->shape[i], r->shape[dims.at[i]]))
            loc.stride[dims.at[i]] = x->stride[i];
    return loc;
}

/* Axes of size 1 come and go. */
static Loc loc_reshaped(Lower *l, const Node *n, const Loc *x)
{
    const TypeInfo *r = type_info(l->p, n->types[0]);
    Loc loc = {.buf = x->buf, .offset = x->offset, .rank = r->rank};
    for (uint32_t i = 0, k = 0; i < r->rank; i++) {
        loc.shape[i] = r->shape[i];
        loc.stride[i] = dim_const(l->t, 0);
        if (dim_is_one(l->t, r->shape[i]))
            continue;
        while (dim_is_one(l->t, x->shape[k]))
            k++;
        loc.stride[i] = x->stride[k++];
    }
    return loc;
}

static Loc view_loc(Lower *l, Val v)
{
    if (fuse_buffer(l->f, v))
        return *lower_loc(l, v);
    const Node *n = graph_node(l->g, v);
    CHECK(n->op == OP_transpose || n->op == OP_slice || n->op == OP_broadcast ||
          n->op == OP_reshape);
    const Loc x = view_loc(l, n->in[0]);
    return n->op == OP_transpose   ? loc_transposed(n, &x)
           : n->op == OP_slice     ? loc_sliced(l, n, &x)
           : n->op == OP_broadcast ? loc_spread(l, n, &x)
                                   : loc_reshaped(l, n, &x);
}

/* Element `at` of axis 0. */
static Loc loc_at(Lower *l, const Loc *x, Dim at)
{
    Loc loc = *x;
    loc.offset = dim_add(l->t, x->offset, dim_mul(l->t, at, x->stride[0]));
    loc.rank = x->rank - 1;
    memmove(loc.shape, x->shape + 1, loc.rank * sizeof *loc.shape);
    memmove(loc.stride, x->stride + 1, loc.rank * sizeof *loc.stride);
    return loc;
}

/* --- one scan --------------------------------------------------------------------------------- */

typedef struct {
    Lower *l;
    const Node *n;
    uint32_t id;
    Loop loop;
    Loc *operand; /* as wholes */
    Loc *result;  /* as wholes; of carries that are not kept: what a turn starts from */
    Loc *other;   /* these carries: what a turn ends with */
} Scan;

static DType dtype_at(const Scan *q, uint32_t k)
{
    return type_info(q->l->p, q->n->types[k])->dtype;
}

static Loc temp_like(const Scan *q, uint32_t c, const char *name)
{
    Lower *l = q->l;
    const TypeInfo *t = val_info(l->p, l->g, q->n->in[c]);
    const uint32_t buf =
        lower_buffer(l, BUF_TEMP, sym_of(l->p->cx->names, name), t->dtype, t->shape, t->rank);
    l->h->buffers.at[buf].place = t->place;
    return loc_row_major(l->t, buf, dim_const(l->t, 0), t->shape, t->rank);
}

static void fill(Lower *l, const Loc *to, DType dtype, double value, Site site)
{
    Loc whole = *to;
    if (!loc_is_row_major(l->t, to)) {
        const uint32_t buf =
            lower_buffer(l, BUF_TEMP, sym_of(l->p->cx->names, "start"), dtype, to->shape, to->rank);
        l->h->buffers.at[buf].place = l->h->buffers.at[to->buf].place;
        whole = loc_row_major(l->t, buf, dim_const(l->t, 0), to->shape, to->rank);
    }
    const uint32_t dst = lower_piece(l, &whole, dtype);
    Step *s = lower_step(l, STEP_FILL, site);
    s->place = l->h->buffers.at[dst].place;
    s->dst = dst;
    s->value = value;
    s->text = "before the first turn";
    if (!loc_is_row_major(l->t, to))
        lower_copy_loc(l, to, &whole, dtype, l->h->buffers.at[dst].name, site);
}

static void place_operands(Scan *q)
{
    Lower *l = q->l;
    double value;
    for (uint32_t i = 0; i < q->n->nin; i++)
        if (!opaque_fills(l->g, q->n, i, &value))
            q->operand[i] = view_loc(l, q->n->in[i]);
    for (uint32_t k = 0; k < q->n->nout; k++) {
        const Loc *loc = lower_loc(l, (Val){q->id, k});
        if (k < q->loop.ncarry && !loop_keeps(q->n, k)) {
            q->result[k] = temp_like(q, k, "now");
            q->other[k] = temp_like(q, k, "next");
        } else if (loc) {
            q->result[k] = *loc;
        } else { /* nobody reads it */
            const TypeInfo *t = type_info(l->p, q->n->types[k]);
            const uint32_t buf = lower_buffer(l, BUF_TEMP, sym_of(l->p->cx->names, "unread"),
                                              t->dtype, t->shape, t->rank);
            l->h->buffers.at[buf].place = t->place;
            q->result[k] = loc_row_major(l->t, buf, dim_const(l->t, 0), t->shape, t->rank);
        }
    }
}

static void start_carries(Scan *q)
{
    Lower *l = q->l;
    for (uint32_t c = 0; c < q->loop.ncarry; c++) {
        const Dim first = q->loop.reverse ? q->loop.trip : dim_const(l->t, 0);
        const Loc to = loop_keeps(q->n, c) ? loc_at(l, &q->result[c], first) : q->result[c];
        double value;
        if (opaque_fills(l->g, q->n, c, &value))
            fill(l, &to, dtype_at(q, c), value, q->n->site);
        else
            lower_copy_loc(l, &to, &q->operand[c], dtype_at(q, c), l->h->buffers.at[to.buf].name,
                           q->n->site);
    }
}

/* Where the body has its parameters and leaves its results in a turn. */
static Loc param_loc(Scan *q, uint32_t i)
{
    const Dim at = dim_of(q->l->t, q->loop.loop);
    if (i < q->loop.ncarry)
        return loop_keeps(q->n, i)
                   ? loc_at(q->l, &q->result[i], loop_slot(q->l->p, &q->loop, false))
                   : q->result[i];
    return i < q->loop.ncarry + q->loop.nxs ? loc_at(q->l, &q->operand[i], at) : q->operand[i];
}

static Loc result_loc(Scan *q, uint32_t k)
{
    if (k >= q->loop.ncarry)
        return loc_at(q->l, &q->result[k], dim_of(q->l->t, q->loop.loop));
    return loop_keeps(q->n, k) ? loc_at(q->l, &q->result[k], loop_slot(q->l->p, &q->loop, true))
                               : q->other[k];
}

/* The steps of the body; the graph at hand is the body's meanwhile. */
static void lower_turn(Scan *q)
{
    Lower *l = q->l;
    const Graph *body = q->loop.body;
    const uint32_t nparams = body->params.n, nresults = body->results.n;
    Loc *params = arena_array(l->a, Loc, nparams + 1);
    Loc *results = arena_array(l->a, Loc, nresults + 1);
    for (uint32_t i = 0; i < nparams; i++)
        params[i] = param_loc(q, i);
    for (uint32_t k = 0; k < nresults; k++)
        results[k] = result_loc(q, k);
    lower_enter(l, body);
    if (!l->f)
        return;
    for (uint32_t i = 0; i < nparams; i++) {
        const int32_t number = l->f->buffer_of[body->params.at[i].val.node][0];
        if (number >= 0)
            l->loc[number] = params[i];
    }
    for (uint32_t k = 0; k < nresults; k++)
        lower_place_result(l, body->results.at[k].val, &results[k]);
    lower_groups(l);
    for (uint32_t k = 0; k < nresults; k++)
        lower_late_result(l, body->results.at[k].val, &results[k]);
    lower_late_copies(l);
}

static void swap_carries(Scan *q)
{
    for (uint32_t c = 0; c < q->loop.ncarry; c++) {
        if (loop_keeps(q->n, c))
            continue;
        Step *s = lower_step(q->l, STEP_SWAP, q->n->site);
        s->dst = q->result[c].buf;
        s->src = q->other[c].buf;
    }
}

static void finish_carries(Scan *q)
{
    for (uint32_t c = 0; c < q->loop.ncarry; c++) {
        const Loc *to = lower_loc(q->l, (Val){q->id, c});
        if (!loop_keeps(q->n, c) && to)
            lower_copy_loc(q->l, to, &q->result[c], dtype_at(q, c),
                           q->l->h->buffers.at[to->buf].name, q->n->site);
    }
}

void lower_scan(Lower *l, const FuseGroup *grp)
{
    const uint32_t id = grp->roots.at[0].val.node;
    Scan q = {.l = l, .n = graph_node(l->g, grp->roots.at[0].val), .id = id};
    q.loop = loop_of(l->p, q.n);
    q.operand = arena_array(l->a, Loc, q.n->nin + 1);
    q.result = arena_array(l->a, Loc, q.n->nout);
    q.other = arena_array(l->a, Loc, q.n->nout);
    place_operands(&q);
    start_carries(&q);
    const uint32_t first = l->h->steps.n;
    Step *s = lower_step(l, STEP_LOOP, q.n->site);
    s->cells = q.loop.trip;
    s->loop = q.loop.loop;
    s->reverse = q.loop.reverse;
    s->text = "";
    const Lower outer = *l;
    lower_turn(&q);
    lower_leave(l, &outer);
    swap_carries(&q);
    Step *end = lower_step(l, STEP_END, q.n->site);
    end->other = first;
    end->text = "";
    l->h->steps.at[first].other = l->h->steps.n - 1;
    finish_carries(&q);
}
