/* lower_map.c: pointwise groups: one loop nest over the domain, one store a root.
 *
 *   group map over [B, 128]: %new_c = add %c, mul(..)
 *   kernel cell map (..) { for b in 0..B grid { for i in 0..128 lanes { store new_c[b, i] = .. } }
 * }
 *
 * SPDX-License-Identifier: MIT */
#include "passes/sched_cuda.h"

enum {
    CHUNK = 4096 /* elements of a cell where the domain is one long axis (CPU) */
};

LoopDomain kbuild_domain(KBuild *b, const FuseGroup *grp)
{
    DimTable *t = b->l->t;
    LoopDomain d = {0};
    for (uint32_t i = 0; i < grp->rank; i++) {
        d.at[i] = dim_const(t, 0);
        if (dim_is_one(t, grp->domain[i]))
            continue;
        d.axis[i] = kbuild_axis(b, grp->domain[i]);
        d.at[i] = dim_of(t, d.axis[i]);
    }
    return d;
}

const Node *root_reduce(const Lower *l, const FuseRoot *r)
{
    const Node *n = graph_node(l->g, r->val);
    return n->op == OP_reduce ? n : NULL;
}

void root_index(KBuild *b, const FuseGroup *grp, const FuseRoot *r, const LoopDomain *d, Dim *at)
{
    DimTable *t = b->l->t;
    for (uint32_t i = 0; i < MAX_RANK; i++)
        at[i] = dim_const(t, 0);
    for (uint32_t i = 0; i < grp->rank; i++) {
        if (r->axis_of[i] < 0)
            continue;
        Dim *x = &at[r->axis_of[i]];
        *x = dim_add(t, dim_mul(t, *x, grp->domain[i]), d->at[i]);
    }
}

/* check %cond: the device error word is set where it is false. */
static void store_check(KBuild *b, KBlock *block, const Node *n, const Dim *at)
{
    DimTable *t = b->l->t;
    KExpr e = kbuild_cast(b, kbuild_value(b, n->in[0], at), DT_i64);
    Symbol s = dim_new_symbol(t, SYM_LOADED, kbuild_name(b, n->hint, "holds"), (Dim){0});
    vec_push(b->l->a, &b->loaded, ((Loaded){.symbol = s, .expr = e, .site = n->site}));
    GuardTerm *g = arena_new(b->l->a, GuardTerm);
    *g = (GuardTerm){.kind = G_NE, .a = dim_of(t, s), .b = dim_const(t, 0)};
    KStmt *x = kblock_add(b->l->p, block, KS_CHECK);
    x->pred = (Guard){g, 1};
    x->site = n->site;
}

void root_store(KBuild *b, KBlock *block, const FuseRoot *r, const Dim *at)
{
    const Node *n = graph_node(b->l->g, r->val);
    if (n->op == OP_check) {
        store_check(b, block, n, at);
        return;
    }
    for (uint32_t k = 0; k < n->nout; k++)
        if (r->stored >> k & 1)
            kbuild_store(b, block, val_result(r->val, k), at);
}

KBlock *kbuild_loops(KBuild *b, KBlock *block, const Symbol *axes, uint32_t n, ForKind outer,
                     ForKind last)
{
    for (uint32_t i = 0; i < n; i++)
        block = &kbuild_for(b, block, axes[i], i + 1 < n ? outer : last)->body;
    return block;
}

/* --- schedule
 * ----------------------------------------------------------------------------------------- */

/* One long axis in chunks: for g in 0..ceil(N/4096) grid { for i in 4096*g..min(N, 4096*g+4096) }.
 */
static void chunks(KBuild *b, Symbol axis, const KBlock *stores)
{
    DimTable *t = b->l->t;
    Dim n = dim_symbol(t, axis)->extent, size = dim_const(t, CHUNK);
    Symbol g = kbuild_axis(b, dim_ceildiv(t, n, size));
    KStmt *outer = kbuild_for(b, &b->k->body, g, FOR_GRID);
    Dim lo = dim_mul(t, size, dim_of(t, g));
    KStmt *s = kbuild_for(b, &outer->body, axis, FOR_LANES);
    s->lo = lo;
    s->hi = dim_min(t, n, dim_add(t, lo, size));
    s->body = *stores;
}

static void sched_cpu(KBuild *b, const Symbol *axes, uint32_t n, const KBlock *stores)
{
    DimTable *t = b->l->t;
    if (n == 0) {
        b->k->body = *stores;
    } else if (n > 1) {
        KBlock *body = kbuild_loops(b, &b->k->body, axes, n - 1, FOR_GRID, FOR_GRID);
        kbuild_for(b, body, axes[n - 1], FOR_LANES)->body = *stores;
    } else if (dim_le(t, dim_symbol(t, axes[0])->extent, dim_const(t, CHUNK)) == YES) {
        kbuild_for(b, &b->k->body, axes[0], FOR_LANES)->body = *stores;
    } else {
        chunks(b, axes[0], stores);
    }
}

/* The first `rows` axes are the rows of a contraction: so many cells to each of them. */
static void finish_rows(KBuild *b, Symbol *axes, uint32_t n, uint32_t rows, KBlock *stores)
{
    KBlock *blocks[] = {stores};
    uint32_t rest = n - rows;
    Symbol *const columns = axes + rows;
    kernel_collapse_all(b, axes, &rows, blocks, 1);
    kernel_collapse_all(b, columns, &rest, blocks, 1);
    KBlock *body = kbuild_loops(b, &b->k->body, axes, rows, FOR_GRID, FOR_GRID);
    if (rest)
        *kbuild_loops(b, body, columns, rest, FOR_GRID, FOR_LANES) = *stores;
    else
        *body = *stores;
}

void map_finish(KBuild *b, Symbol *axes, uint32_t n, KBlock *stores, Site site, const char *text)
{
    KBlock *blocks[] = {stores};
    kernel_collapse_all(b, axes, &n, blocks, 1);
    if (b->l->o->cuda)
        sched_cuda_map(b, axes, n, stores);
    else
        sched_cpu(b, axes, n, stores);
    const Dim cells = b->k->turned ? sched_cuda_cells(b) : (Dim){0};
    Step *s = kbuild_end(b, site, text);
    if (cells.id)
        s->cells = cells;
}

static bool build_map(Lower *l, const FuseGroup *grp)
{
    KBuild *b = kbuild_begin(l, lower_kernel_name(l, grp), grp->class);
    LoopDomain d = kbuild_domain(b, grp);
    KBlock stores = {0};
    for (uint32_t i = 0; i < grp->roots.n; i++) {
        Dim at[MAX_RANK];
        root_index(b, grp, &grp->roots.at[i], &d, at);
        root_store(b, &stores, &grp->roots.at[i], at);
    }
    Symbol axes[FUSE_AXES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < grp->rank; i++)
        if (d.axis[i].id)
            axes[n++] = d.axis[i];
    if (!kbuild_in_place(b, &stores))
        return false;
    const char *text = lower_text(l, vec_last(&grp->roots).val);
    if (grp->ride && !l->o->cuda) {
        uint32_t rows = 0;
        for (uint32_t i = 0; i < grp->rows; i++)
            rows += d.axis[i].id != 0;
        finish_rows(b, axes, n, rows, &stores);
        kbuild_end(b, grp->site, text);
    } else {
        map_finish(b, axes, n, &stores, grp->site, text);
    }
    return true;
}

void lower_map(Lower *l, const FuseGroup *grp)
{
    while (!build_map(l, grp)) {
    }
}
