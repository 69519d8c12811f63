/* lower_copy.c: constants that fill a buffer, copies, and prints. SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"

#include <string.h>

uint32_t lower_piece(Lower *l, const Loc *loc, DType dtype)
{
    DimTable *t = l->t;
    const Buffer *b = &l->h->buffers.at[loc->buf];
    Dim whole = dim_product(t, b->shape, b->rank), part = dim_product(t, loc->shape, loc->rank);
    CHECK(loc_is_row_major(t, loc));
    if (dim_same(whole, part) && dim_is_zero(t, loc->offset))
        return loc->buf;
    uint32_t piece = lower_buffer(l, b->kind, b->name, dtype, loc->shape, loc->rank);
    Buffer *p = &l->h->buffers.at[piece];
    p->slot = l->h->buffers.at[loc->buf].slot;
    p->place = l->h->buffers.at[loc->buf].place;
    p->of = loc->buf;
    p->offset = loc->offset;
    return piece;
}

static void copy_kernel(Lower *l, const Loc *dst, const Loc *src, DType dtype, Sym name, Site site)
{
    DimTable *t = l->t;
    KBuild *b = kbuild_begin(l, name, CLASS_COPY);
    KBlock stores = {0};
    Symbol axes[MAX_RANK];
    Dim at[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < dst->rank; i++) {
        at[i] = dim_const(t, 0);
        if (dim_is_one(t, dst->shape[i]))
            continue;
        axes[n] = kbuild_axis(b, dst->shape[i]);
        at[i] = dim_of(t, axes[n++]);
    }
    KExprInfo e = {.kind = KE_LOAD, .type = dtype};
    e.param = kbuild_param(b, src, dtype, K_IN, l->h->buffers.at[src->buf].name);
    memcpy(e.at, at, dst->rank * sizeof *at);
    KExpr load = kernel_expr(l->p, b->k, e);
    uint32_t to = kbuild_param(b, dst, dtype, K_OUT, l->h->buffers.at[dst->buf].name);
    KStmt *s = kblock_add(l->p, &stores, KS_STORE);
    s->param = to;
    s->expr = load;
    s->site = site;
    memcpy(s->at, at, dst->rank * sizeof *at);
    map_finish(b, axes, n, &stores, site, "copy");
}

void lower_copy_loc(Lower *l, const Loc *dst, const Loc *src, DType dtype, Sym name, Site site)
{
    const Place outer = l->place;
    lower_at(l, l->h->buffers.at[src->buf].place);
    if (!loc_is_row_major(l->t, dst) || !loc_is_row_major(l->t, src)) {
        copy_kernel(l, dst, src, dtype, name, site);
        lower_at(l, outer);
        return;
    }
    uint32_t to = lower_piece(l, dst, dtype), from = lower_piece(l, src, dtype);
    Step *s = lower_step(l, STEP_COPY, site);
    s->dst = to;
    s->src = from;
    s->text = sym_text(l->p->cx->names, l->h->buffers.at[to].name);
    lower_at(l, outer);
}

/* In an argument or slot, too: a value is made there in pieces only where no group reads what was
 * there before once the first of them is written. */
void lower_copy_pieces(Lower *l)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < l->late.n; i++) {
        const LateCopy c = l->late.at[i];
        if (c.piece)
            lower_copy_loc(l, &c.dst, &c.src, c.dtype, c.name, c.site);
        else
            l->late.at[left++] = c;
    }
    l->late.n = left;
}

/* A value as a whole in a row, on the device where it is. */
static Loc in_a_row(Lower *l, const Loc *loc, DType dtype)
{
    const Buffer *b = &l->h->buffers.at[loc->buf];
    if (loc_is_row_major(l->t, loc))
        return *loc;
    const Place outer = l->place;
    lower_at(l, b->place);
    const uint32_t buf = lower_buffer(l, BUF_TEMP, b->name, dtype, loc->shape, loc->rank);
    lower_at(l, outer);
    return loc_row_major(l->t, buf, dim_const(l->t, 0), loc->shape, loc->rank);
}

/* Copies between devices are of what lies in a row: else a kernel puts it so first, or takes it
 * from there. */
void lower_transfer(Lower *l, const FuseGroup *grp)
{
    const Node *n = graph_node(l->g, grp->roots.at[0].val);
    const DType dtype = type_info(l->p, n->types[0])->dtype;
    const Val to = grp->roots.at[0].val;
    Val v = n->in[0];
    while (!fuse_buffer(l->f, v) && graph_node(l->g, v)->op == OP_reshape)
        v = graph_node(l->g, v)->in[0];
    const Loc *from = lower_loc(l, v), *dst = lower_loc(l, to);
    CHECK(from && dst);
    const Loc whole = in_a_row(l, from, dtype), there = in_a_row(l, dst, dtype);
    if (whole.buf != from->buf)
        lower_copy_loc(l, &whole, from, dtype, lower_name(l, v), n->site);
    Loc same = whole; /* shapes may differ by axes of a reshape */
    same.rank = there.rank;
    memcpy(same.shape, there.shape, sizeof same.shape);
    memcpy(same.stride, there.stride, sizeof same.stride);
    lower_copy_loc(l, &there, &same, dtype, lower_name(l, to), n->site);
    if (there.buf != dst->buf)
        lower_copy_loc(l, dst, &there, dtype, lower_name(l, to), n->site);
}

static void print_step(Lower *l, const Node *n)
{
    const Loc *loc = lower_loc(l, n->in[0]);
    CHECK(loc);
    DType dtype = val_info(l->p, l->g, n->in[0])->dtype;
    Loc whole = *loc;
    if (!loc_is_row_major(l->t, loc)) {
        uint32_t buf =
            lower_buffer(l, BUF_TEMP, lower_name(l, n->in[0]), dtype, loc->shape, loc->rank);
        whole = loc_row_major(l->t, buf, dim_const(l->t, 0), loc->shape, loc->rank);
        lower_copy_loc(l, &whole, loc, dtype, l->h->buffers.at[buf].name, n->site);
    }
    uint32_t src = lower_piece(l, &whole, dtype);
    Step *s = lower_step(l, STEP_PRINT, n->site);
    s->src = src;
    s->text = sym_text(l->p->cx->names, (Sym){(uint32_t)node_int(n, ATTR_text)});
}

/* The constant that is broadcast, as FILL takes it. */
static bool fill_value(const Lower *l, Val v, double *value)
{
    const Node *n = graph_node(l->g, v);
    while (n->op == OP_broadcast || n->op == OP_reshape)
        n = graph_node(l->g, n->in[0]);
    if (n->op != OP_const)
        return false;
    DType t = val_info(l->p, l->g, v)->dtype;
    *value = dtype_is_float(t) ? node_f64(n, ATTR_value) : (double)node_int(n, ATTR_value);
    return true;
}

/* A constant piece of a concat that is written in place: a range of its storage. */
static void fill_piece(Lower *l, const FuseGroup *grp)
{
    const Loc *into = lower_loc(l, grp->into);
    CHECK(into);
    const Dim at = dim_add(l->t, into->offset, grp->offset);
    const Loc part = loc_row_major(l->t, into->buf, at, &grp->count, 1);
    const uint32_t dst = lower_piece(l, &part, val_info(l->p, l->g, grp->into)->dtype);
    Step *s = lower_step(l, STEP_FILL, grp->site);
    s->dst = dst;
    s->value = grp->value;
    s->text = lower_text(l, grp->into);
}

void lower_copy(Lower *l, const FuseGroup *grp)
{
    if (grp->into.node) {
        fill_piece(l, grp);
        return;
    }
    const FuseRoot *r = &grp->roots.at[0];
    const Node *n = graph_node(l->g, r->val);
    double value;
    if (n->op == OP_print) {
        print_step(l, n);
        return;
    }
    const Loc *loc = lower_loc(l, r->val);
    if (!loc || !loc_is_row_major(l->t, loc) || !fill_value(l, r->val, &value)) {
        lower_map(l, grp);
        return;
    }
    uint32_t dst = lower_piece(l, loc, val_info(l->p, l->g, r->val)->dtype);
    Step *s = lower_step(l, STEP_FILL, grp->site);
    s->dst = dst;
    s->value = value;
    s->text = lower_text(l, r->val);
}
