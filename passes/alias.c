/* alias.c: values in the memory of arguments and slots. A kernel that reads what it writes does so
 * in place: one inout parameter, read at the index that is written, or earlier in the cell.
 *
 *   commit seg0 <- %p       p: read P[i], store P[i]: legal
 *   %y = add %x, reverse %x, y in x's memory: not legal; y gets a temporary, copied at the end
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"

typedef struct {
    const KBlock *block;
    uint32_t order;
} Position;

typedef struct {
    KBuild *b;
    const KBlock *cell;
    uint32_t param;
    const KStmt *store; /* the one that writes the parameter */
    Position store_at;
    uint32_t order, stores;
    uint32_t *seen; /* by expression, plain and guarded: the last use that came by */
    bool bad;
} InPlace;

/* --- finding the store
 * ---------------------------------------------------------------------------- */

static void find_store(InPlace *w, const KBlock *block)
{
    for (uint32_t i = 0; i < block->n; i++) {
        const KStmt *s = &block->at[i];
        w->order++;
        if (s->kind == KS_STORE && s->param == w->param) {
            w->store = s;
            w->store_at = (Position){block, w->order};
            w->stores++;
        }
        find_store(w, &s->body);
    }
}

/* --- looking at the loads
 * --------------------------------------------------------------------------- */

static bool same_at(const InPlace *w, const Dim *at)
{
    for (uint32_t i = 0; i < w->b->k->params.at[w->param].rank; i++)
        if (!dim_same(at[i], w->store->at[i]))
            return false;
    return true;
}

static Dim without_inner(const InPlace *w, const KBlock *block, Dim d)
{
    for (uint32_t i = 0; i < block->n; i++) {
        if (block->at[i].kind == KS_FOR) {
            DimSubst zero = {block->at[i].axis, dim_const(w->b->l->t, 0)};
            d = dim_substitute(w->b->l->t, d, &zero, 1);
        }
        d = without_inner(w, &block->at[i].body, d);
    }
    return d;
}

/* In the row of the same cell: what differs from the store's index is indexed there by an axis that
 * runs inside the cell. */
static bool same_cell(const InPlace *w, const Dim *at)
{
    DimTable *t = w->b->l->t;
    for (uint32_t i = 0; i < w->b->k->params.at[w->param].rank; i++) {
        if (dim_same(at[i], w->store->at[i]))
            continue;
        Dim rest = without_inner(w, w->cell, w->store->at[i]);
        if (dim_mentions_kind(t, rest, SYM_AXIS) || dim_mentions_kind(t, at[i], SYM_AXIS))
            return false;
    }
    return true;
}

static void check_expr(InPlace *w, KExpr e, Position use, bool guarded, const KStmt *user)
{
    uint32_t *seen = &w->seen[2 * e.id + guarded];
    if (!e.id || w->bad || *seen == use.order)
        return;
    *seen = use.order;
    const KExprInfo *x = kexpr(w->b->k, e);
    if (x->kind == KE_LOAD && x->param == w->param) {
        bool here = use.block == w->store_at.block, earlier = use.order < w->store_at.order;
        bool same = same_at(w, x->at);
        if (here)
            w->bad |= !same || (guarded && user != w->store);
        else
            w->bad |= !earlier || (!same && !same_cell(w, x->at));
    }
    for (uint32_t i = 0; i < x->nin; i++)
        check_expr(w, x->in[i], use, guarded || (x->kind == KE_SELECT && i == 0), user);
}

static void check_block(InPlace *w, const KBlock *block)
{
    for (uint32_t i = 0; i < block->n; i++) {
        const KStmt *s = &block->at[i];
        w->order++;
        check_expr(w, s->expr, (Position){block, w->order}, false, s);
        check_block(w, &s->body);
    }
}

/* Integers may be loaded anywhere: never from what is written. */
static void check_loaded(InPlace *w)
{
    for (uint32_t i = 0; i < w->b->loaded.n; i++)
        check_expr(w, w->b->loaded.at[i].expr, (Position){NULL, UINT32_MAX}, true, NULL);
}

/* --- different views of one buffer
 * -------------------------------------------------------------------- */

static Dim param_numel(const KBuild *b, uint32_t i)
{
    const KParam *q = &b->k->params.at[i];
    return dim_product(b->l->t, q->shape, q->rank);
}

static bool row_major_param(const KBuild *b, uint32_t i)
{
    const KParam *q = &b->k->params.at[i];
    Loc loc = {.rank = q->rank};
    for (uint32_t k = 0; k < q->rank; k++) {
        loc.shape[k] = q->shape[k];
        loc.stride[k] = q->stride[k];
    }
    return loc_is_row_major(b->l->t, &loc);
}

/* One ends before the other begins; or they are columns of one matrix beside each other. */
static bool apart(const KBuild *b, uint32_t i, uint32_t j)
{
    DimTable *t = b->l->t;
    Dim oi = b->operands.at[i].offset, oj = b->operands.at[j].offset;
    if (row_major_param(b, i) && row_major_param(b, j))
        return dim_le(t, dim_add(t, oi, param_numel(b, i)), oj) == YES ||
               dim_le(t, dim_add(t, oj, param_numel(b, j)), oi) == YES;
    const KParam *p = &b->k->params.at[i], *q = &b->k->params.at[j];
    if (p->rank != q->rank)
        return false;
    for (uint32_t k = 0; k < p->rank; k++) {
        if (!dim_same(p->stride[k], q->stride[k]))
            return false;
        Dim after_p = dim_add(t, oi, dim_mul(t, p->shape[k], p->stride[k]));
        Dim after_q = dim_add(t, oj, dim_mul(t, q->shape[k], q->stride[k]));
        Dim outer = k ? p->stride[k - 1] : (Dim){0};
        bool inside = !k || (dim_le(t, dim_sub(t, after_p, oi), outer) == YES &&
                             dim_le(t, dim_sub(t, after_q, oj), outer) == YES);
        if (inside && (dim_le(t, after_p, oj) == YES || dim_le(t, after_q, oi) == YES))
            return true;
    }
    return false;
}

static bool clashes(KBuild *b, uint32_t i)
{
    uint32_t root = host_root(b->l->h, b->operands.at[i].buf);
    for (uint32_t j = 0; j < b->k->params.n; j++)
        if (j != i && host_root(b->l->h, b->operands.at[j].buf) == root && !apart(b, i, j))
            return true;
    return false;
}

static bool reads_wrong(KBuild *b, uint32_t i, const KBlock *cell)
{
    if (b->k->params.at[i].mode != K_INOUT)
        return false;
    InPlace w = {.b = b, .param = i, .cell = cell};
    w.seen = arena_array(b->l->p->cx->scratch, uint32_t, 2 * b->k->exprs.n);
    find_store(&w, cell);
    if (w.stores != 1)
        return true;
    w.order = 0;
    check_block(&w, cell);
    check_loaded(&w);
    return w.bad;
}

bool kbuild_clashes(KBuild *b, const KBlock *cell)
{
    for (uint32_t i = 0; i < b->k->params.n; i++)
        if (b->k->params.at[i].mode != K_IN && (clashes(b, i) || reads_wrong(b, i, cell)))
            return true;
    return false;
}

bool kbuild_in_place(KBuild *b, const KBlock *cell)
{
    bool fine = true;
    for (uint32_t i = 0; i < b->k->params.n; i++) {
        if (b->k->params.at[i].mode == K_IN)
            continue;
        if ((clashes(b, i) || reads_wrong(b, i, cell)) && lower_unplace(b->l, &b->operands.at[i]))
            fine = false;
    }
    return fine;
}
