/* sched_cuda.c: the shape of maps' loops on a GPU, and how many neighbours a lane owns.
 *
 *   for i in 0..N grid lanes vec 4 { store y[i] = .. }               one long axis: a flat grid
 *   for b in 0..B grid { for c in 0..768 lanes vec 4 { .. } }        rows that share something
 *
 * A lane owns as many neighbours as make 16 bytes of the widest element that it touches, so that
 * every access of a warp is whole sectors. SPDX-License-Identifier: MIT */
#include "passes/sched_cuda.h"

#include "ir/base/die.h"

#include <string.h>

enum {
    BLOCK = 256, /* threads of a block */
    WORD = 16,   /* bytes of the widest access */
    HEAVY = 64   /* weight of what is done for two neighbours at most */
};

/* --- how many neighbours -------------------------------------------------------------------------
 */

typedef struct {
    KBuild *b;
    Symbol axis;
    int widest;           /* bytes of the largest element that neighbours differ in */
    int by;               /* neighbours that are asked for */
    bool strict;          /* nothing but whole vectors: the last ones may be behind the end */
    bool *depends, *seen; /* by expression */
    bool *walked;
} Widths;

static bool dim_depends(const Widths *w, Dim d);

/* Whether neighbours along the axis have different values of it. */
static bool expr_depends(const Widths *w, KExpr e)
{
    const KExprInfo *x = kexpr(w->b->k, e);
    if (!e.id || w->seen[e.id])
        return e.id && w->depends[e.id];
    w->seen[e.id] = true;
    bool yes = x->kind == KE_KEEP || (x->index.id && dim_depends(w, x->index));
    for (uint32_t i = 0; i < x->nin && !yes; i++)
        yes = expr_depends(w, x->in[i]);
    for (uint32_t i = 0; x->kind == KE_LOAD && i < MAX_RANK && !yes; i++)
        yes = x->at[i].id && dim_depends(w, x->at[i]);
    for (uint32_t i = 0; i < x->pred.n && !yes; i++)
        yes = dim_depends(w, x->pred.at[i].a) || dim_depends(w, x->pred.at[i].b);
    w->depends[e.id] = yes;
    return yes;
}

static bool dim_depends(const Widths *w, Dim d)
{
    if (dim_mentions(w->b->l->t, d, w->axis))
        return true;
    if (!dim_mentions_kind(w->b->l->t, d, SYM_LOADED))
        return false;
    for (uint32_t i = 0; i < w->b->loaded.n; i++) {
        const Loaded *x = &w->b->loaded.at[i];
        if (dim_mentions(w->b->l->t, d, x->symbol) && expr_depends(w, x->expr))
            return true;
    }
    return false;
}

/* Neighbours are neighbours in memory, from an aligned place on; or all are the same element. */
static bool access_fits(Widths *w, uint32_t param, const Dim *at)
{
    DimTable *t = w->b->l->t;
    const KParam *q = &w->b->k->params.at[param];
    Dim place = w->b->operands.at[param].offset;
    for (uint32_t i = 0; i < q->rank; i++)
        place = dim_add(t, place, dim_mul(t, at[i], q->stride[i]));
    if (!dim_depends(w, place))
        return true;
    Dim rest = dim_sub(t, place, dim_of(t, w->axis));
    if (dim_depends(w, rest) || dim_divisible(t, rest, w->by) != YES)
        return false;
    if (dtype_size(q->dtype) > w->widest)
        w->widest = dtype_size(q->dtype);
    return true;
}

static bool expr_fits(Widths *w, KExpr e)
{
    const KExprInfo *x = kexpr(w->b->k, e);
    if (!e.id || w->walked[e.id])
        return true;
    w->walked[e.id] = true;
    for (uint32_t i = 0; i < x->pred.n; i++)
        if (dim_depends(w, x->pred.at[i].a) || dim_depends(w, x->pred.at[i].b))
            return false; /* neighbours may differ in what they may load */
    if (x->kind == KE_LOAD && !access_fits(w, x->param, x->at))
        return false;
    for (uint32_t i = 0; i < x->nin; i++)
        if (!expr_fits(w, x->in[i]))
            return false;
    return true;
}

static bool block_fits(Widths *w, const KBlock *block)
{
    for (uint32_t i = 0; i < block->n; i++) {
        const KStmt *s = &block->at[i];
        if (!expr_fits(w, s->expr))
            return false;
        if (s->kind == KS_STORE && !access_fits(w, s->param, s->at))
            return false;
        if (s->kind == KS_CHECK && w->strict)
            return false;
    }
    return true;
}

static bool all_fit(Widths *w, KBlock *const *blocks, uint32_t n)
{
    w->widest = 0;
    memset(w->walked, 0, w->b->k->exprs.n * sizeof *w->walked);
    for (uint32_t i = 0; i < w->b->loaded.n; i++)
        if (expr_depends(w, w->b->loaded.at[i].expr) || !expr_fits(w, w->b->loaded.at[i].expr))
            return false;
    for (uint32_t i = 0; i < n; i++)
        if (!block_fits(w, blocks[i]))
            return false;
    return w->widest > 0;
}

/* Work for one element. */
static int expr_work(Widths *w, KExpr e)
{
    const KExprInfo *x = kexpr(w->b->k, e);
    if (!e.id || w->walked[e.id])
        return 0;
    w->walked[e.id] = true;
    int work = x->kind == KE_OP ? op_info(x->op)->weight : 0;
    for (uint32_t i = 0; i < x->nin; i++)
        work += expr_work(w, x->in[i]);
    return work;
}

/* Much work for many neighbours at once takes more registers than there are. */
static bool is_heavy(Widths *w, KBlock *const *blocks, uint32_t n)
{
    int work = 0;
    memset(w->walked, 0, w->b->k->exprs.n * sizeof *w->walked);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < blocks[i]->n; k++)
            work += expr_work(w, blocks[i]->at[k].expr);
    return work > HEAVY;
}

int sched_cuda_width(KBuild *b, Symbol axis, KBlock *const *blocks, uint32_t n, bool whole)
{
    DimTable *t = b->l->t;
    Widths w = {.b = b, .axis = axis};
    w.depends = arena_array(b->l->a, bool, b->k->exprs.n);
    w.seen = arena_array(b->l->a, bool, b->k->exprs.n);
    w.walked = arena_array(b->l->a, bool, b->k->exprs.n);
    const Dim extent = dim_symbol(t, axis)->extent;
    for (w.by = WORD; w.by > 1; w.by /= 2) {
        w.strict = dim_divisible(t, extent, w.by) != YES;
        if ((whole && w.strict) || !all_fit(&w, blocks, n))
            continue;
        if (w.by * w.widest <= WORD && (w.by == 2 || !is_heavy(&w, blocks, n)))
            return w.by;
    }
    return 1;
}

/* --- maps ----------------------------------------------------------------------------------------
 */

/* One cell a lane, or one vector; all axes in one grid. */
static void flat(KBuild *b, const Symbol *axes, uint32_t n, KBlock *stores)
{
    KBlock *body = &b->k->body;
    KBlock *blocks[] = {stores};
    b->k->lanes = BLOCK;
    if (n > 1)
        body = kbuild_loops(b, body, axes, n - 1, FOR_GRID, FOR_GRID);
    KStmt *s = kbuild_for(b, body, axes[n - 1], FOR_GRID);
    s->grid_lanes = true;
    s->vec = sched_cuda_width(b, axes[n - 1], blocks, 1, n > 1);
    s->body = *stores;
}

/* Rows so short that a team of 32 lanes would be mostly idle. */
static bool is_short(KBuild *b, Symbol axis, int width)
{
    int64_t n;
    return dim_is_const(b->l->t, dim_symbol(b->l->t, axis)->extent, &n) && n < 24 * width;
}

/* --- operands that lie across --------------------------------------------------------------------
 */

static Dim place_of(KBuild *b, uint32_t param, const Dim *at)
{
    DimTable *t = b->l->t;
    const KParam *q = &b->k->params.at[param];
    Dim place = dim_const(t, 0);
    for (uint32_t i = 0; i < q->rank; i++)
        place = dim_add(t, place, dim_mul(t, at[i], q->stride[i]));
    return place;
}

/* Neighbours along the axis are neighbours in memory. */
static bool lies_along(KBuild *b, Dim place, Symbol axis)
{
    return !dim_mentions(b->l->t, dim_sub(b->l->t, place, dim_of(b->l->t, axis)), axis);
}

/* The axis that some load lies along, which changes along `last` too; {0}: there is none. */
static Symbol across(KBuild *b, KExpr e, const Symbol *axes, uint32_t n, Symbol last, bool *seen)
{
    const KExprInfo *x = kexpr(b->k, e);
    Symbol found = {0};
    if (!e.id || seen[e.id])
        return found;
    seen[e.id] = true;
    if (x->kind == KE_LOAD) {
        const Dim place = place_of(b, x->param, x->at);
        if (!dim_mentions(b->l->t, place, last) || lies_along(b, place, last) ||
            dim_mentions_kind(b->l->t, place, SYM_LOADED))
            return found;
        for (uint32_t i = 0; i < n; i++)
            if (lies_along(b, place, axes[i]))
                return axes[i];
    }
    for (uint32_t i = 0; i < x->nin && !found.id && x->kind != KE_SELECT; i++)
        found = across(b, x->in[i], axes, n, last, seen);
    return found;
}

static bool is_wide(KBuild *b, Symbol axis)
{
    int64_t n;
    return !dim_is_const(b->l->t, dim_symbol(b->l->t, axis)->extent, &n) || n >= TURN_FEW;
}

/* The axis that a block's tile has beside the last one, to turn what lies along it. */
static Symbol turned_axis(KBuild *b, const Symbol *axes, uint32_t n, const KBlock *stores)
{
    Symbol found = {0};
    if (n < 2)
        return found;
    bool *seen = arena_array(b->l->a, bool, b->k->exprs.n);
    for (uint32_t i = 0; i < stores->n; i++) {
        const KStmt *s = &stores->at[i];
        if (s->kind != KS_STORE || !lies_along(b, place_of(b, s->param, s->at), axes[n - 1]))
            return (Symbol){0};
        if (!found.id)
            found = across(b, s->expr, axes, n - 1, axes[n - 1], seen);
    }
    /* one axis may be short, such as channels */
    return found.id && (is_wide(b, found) || is_wide(b, axes[n - 1])) ? found : (Symbol){0};
}

static void turn(KBuild *b, const Symbol *axes, uint32_t n, Symbol with, const KBlock *stores)
{
    KBlock *body = &b->k->body;
    b->k->lanes = TURN_SIDE;
    b->k->teams = BLOCK / TURN_SIDE;
    b->k->turned = true;
    for (uint32_t i = 0; i + 1 < n; i++)
        if (axes[i].id != with.id)
            body = &kbuild_for(b, body, axes[i], FOR_GRID)->body;
    body = &kbuild_for(b, body, with, FOR_GRID)->body;
    kbuild_for(b, body, axes[n - 1], FOR_GRID)->body = *stores;
}

Dim sched_cuda_cells(KBuild *b)
{
    DimTable *t = b->l->t;
    const KBlock *body = &b->k->body;
    const KStmt *i = NULL, *j = NULL; /* the last two loops */
    Dim outer = dim_const(t, 1);
    for (; body->n == 1 && body->at[0].kind == KS_FOR && body->at[0].loop == FOR_GRID;
         body = &body->at[0].body) {
        outer = i ? dim_mul(t, outer, i->hi) : outer;
        i = j;
        j = &body->at[0];
    }
    CHECK(i);
    const KTurn tile = kernel_turn(t, i->hi, j->hi);
    return dim_mul(t, outer,
                   dim_mul(t, dim_ceildiv(t, i->hi, dim_const(t, tile.i)),
                           dim_ceildiv(t, j->hi, dim_const(t, tile.j))));
}

void sched_cuda_map(KBuild *b, const Symbol *axes, uint32_t n, KBlock *stores)
{
    const Symbol with = turned_axis(b, axes, n, stores);
    if (with.id && !b->loaded.n) {
        turn(b, axes, n, with, stores);
        return;
    }
    KBlock *blocks[] = {stores};
    b->k->lanes = 1;
    if (n == 0) {
        b->k->body = *stores;
        return;
    }
    int width = n == 1 ? 1 : sched_cuda_width(b, axes[n - 1], blocks, 1, true);
    if (n == 1 || is_short(b, axes[n - 1], width)) {
        flat(b, axes, n, stores);
        return;
    }
    int64_t lo, hi;
    dim_interval(b->l->t, dim_symbol(b->l->t, axes[n - 1])->extent, &lo, &hi);
    int lanes = 32;
    while (lanes < BLOCK && lanes * width < hi)
        lanes *= 2;
    b->k->lanes = lanes;
    b->k->teams = BLOCK / lanes;
    KBlock *body = kbuild_loops(b, &b->k->body, axes, n - 1, FOR_GRID, FOR_GRID);
    KStmt *s = kbuild_for(b, body, axes[n - 1], FOR_LANES);
    s->vec = width;
    s->body = *stores;
}
