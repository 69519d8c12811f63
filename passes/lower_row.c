/* lower_row.c: reductions over one set of axes, with pointwise work before, between and behind
 * them. One grid cell is one row; each dependent reduction is a pass over it.
 *
 *   group row over [N, C], C reduced: %m, %v = reduce %x {moments};  %y = mul(sub(%x, %m), rsqrt
 * ..) for n in 0..N grid { acc m: moments    for c in 0..C lanes { m <- x[n, c] }    total m over
 * team for c in 0..C lanes { store y[n, c] = (x[n, c] - m.mean) * rsqrt(m.var + eps) } }
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_row.h"

/* --- roots
 * ---------------------------------------------------------------------------------------- */

static bool over_reduced(const FuseGroup *grp, const FuseRoot *r)
{
    for (uint32_t i = 0; i < grp->rank; i++)
        if (grp->reduced >> i & 1 && r->axis_of[i] >= 0)
            return true;
    return false;
}

static DType acc_type(DType t)
{
    return dtype_compute(t);
}

uint32_t row_acc(KBuild *b, const FuseRoot *r)
{
    const Node *n = graph_node(b->l->g, r->val);
    Reducer kind = (Reducer)node_int(n, ATTR_kind);
    KAcc acc = {.reducer = kind, .type = acc_type(val_info(b->l->p, b->l->g, n->in[0])->dtype)};
    acc.name = kbuild_name(b, (Sym){0}, reducer_info(kind)->name);
    vec_push(b->l->a, &b->k->accs, acc);
    return b->k->accs.n - 1;
}

/* The place of an element among the reduced ones, in row-major order of the operand. */
static Dim linear_index(KBuild *b, const Node *n, const Dim *at)
{
    DimTable *t = b->l->t;
    const TypeInfo *in = val_info(b->l->p, b->l->g, n->in[0]);
    Attr axes = node_attr(n, ATTR_axes);
    Dim d = dim_const(t, 0);
    for (uint32_t i = 0; i < axes.n; i++)
        d = dim_add(t, dim_mul(t, d, in->shape[axes.at[i]]), at[axes.at[i]]);
    return d;
}

void row_fold(KBuild *b, KBlock *block, const FuseGroup *grp, const FuseRoot *r,
              const LoopDomain *d, uint32_t acc)
{
    const Node *n = graph_node(b->l->g, r->val);
    Dim at[MAX_RANK];
    root_index(b, grp, r, d, at);
    KExpr e = kbuild_cast(b, kbuild_value(b, n->in[0], at), b->k->accs.at[acc].type);
    KStmt *s = kblock_add(b->l->p, block, KS_FOLD);
    s->acc = acc;
    s->expr = e;
    s->site = n->site;
    Reducer kind = b->k->accs.at[acc].reducer;
    if (kind == RED_argmax || kind == RED_argmin)
        s->fold_index = linear_index(b, n, at);
}

/* The index of a reduce's result: the operand's without the reduced axes. */
void row_result_index(KBuild *b, const FuseGroup *grp, const FuseRoot *r, const LoopDomain *d,
                      Dim *at)
{
    const Node *n = root_reduce(b->l, r);
    Dim full[MAX_RANK];
    root_index(b, grp, r, d, n ? full : at);
    if (!n)
        return;
    Attr axes = node_attr(n, ATTR_axes);
    uint32_t rank = val_info(b->l->p, b->l->g, n->in[0])->rank, k = 0, out = 0;
    for (uint32_t i = 0; i < rank; i++) {
        if (k < axes.n && axes.at[k] == (int64_t)i)
            k++;
        else
            at[out++] = full[i];
    }
}

/* --- passes over the row
 * --------------------------------------------------------------------------- */

static void make_phase(Row *w, uint32_t phase)
{
    KBuild *b = w->b;
    const FuseGroup *grp = w->grp;
    RowPhase *p = &w->phase[phase];
    Dim at[MAX_RANK];
    for (uint32_t i = 0; i < grp->roots.n; i++) {
        const FuseRoot *r = &grp->roots.at[i];
        if ((uint32_t)r->phase != phase)
            continue;
        if (root_reduce(b->l, r)) {
            uint32_t acc = row_acc(b, r);
            vec_push(b->l->a, &p->accs, acc);
            row_fold(b, &p->fold, grp, r, &w->d, acc);
            w->acc[i] = acc + 1;
        } else {
            root_index(b, grp, r, &w->d, at);
            root_store(b, over_reduced(grp, r) ? &p->fold : &p->before, r, at);
        }
    }
    for (uint32_t i = 0; i < grp->roots.n; i++) {
        const FuseRoot *r = &grp->roots.at[i];
        if ((uint32_t)r->phase != phase || !w->acc[i])
            continue;
        kbuild_acc(b, r->val.node, w->acc[i] - 1);
        row_result_index(b, grp, r, &w->d, at);
        root_store(b, &p->behind, r, at);
    }
}

void row_split_axes(const FuseGroup *grp, const LoopDomain *d, RowAxes *x)
{
    *x = (RowAxes){0};
    for (uint32_t i = 0; i < grp->rank; i++) {
        if (!d->axis[i].id)
            continue;
        bool reduced = grp->reduced >> i & 1;
        if (reduced)
            x->reduced[x->nreduced++] = d->axis[i];
        else
            x->kept[x->nkept++] = d->axis[i];
        x->columns = !reduced;
    }
    x->columns = x->columns && x->nreduced;
}

/* --- schedule
 * ----------------------------------------------------------------------------------------- */

void sched_row(KBuild *b, const RowAxes *x, RowSched *s)
{
    *s = (RowSched){.outer = FOR_SERIAL, .inner = FOR_LANES};
    if (x->columns) {
        s->grid_lanes = true;
        s->inner = FOR_SERIAL;
    }
    if (!b->l->o->cuda)
        return;
    if (!x->nreduced) {
        b->k->lanes = 1;
        b->k->teams = 128;
    } else if (x->columns) { /* 8 teams share the rows of 32 columns */
        b->k->lanes = 32;
        b->k->teams = 8;
        s->teams = s->over_block = true;
    } else { /* registers: at most 24 elements a lane, else the passes read again */
        int64_t lo, row;
        Dim n = dim_symbol(b->l->t, x->reduced[x->nreduced - 1])->extent;
        dim_interval(b->l->t, n, &lo, &row);
        int lanes = 32;
        while (lanes < 1024 && 24 * lanes < row)
            lanes *= 2;
        b->k->lanes = lanes;
        b->k->teams = lanes == 32 && x->nkept ? 8 : 1;
    }
}

KBlock *row_grid(KBuild *b, KBlock *block, const RowAxes *x, const RowSched *s)
{
    for (uint32_t i = 0; i < x->nkept; i++) {
        KStmt *f = kbuild_for(b, block, x->kept[i], FOR_GRID);
        f->grid_lanes = s->grid_lanes && i + 1 == x->nkept;
        block = &f->body;
    }
    return block;
}

KBlock *row_loops(KBuild *b, KBlock *block, const RowAxes *x, const RowSched *s)
{
    for (uint32_t i = 0; i < x->nreduced; i++) {
        ForKind kind = i + 1 < x->nreduced ? s->outer : s->inner;
        if (s->teams && i == 0)
            kind = FOR_TEAMS;
        block = &kbuild_for(b, block, x->reduced[i], kind)->body;
    }
    return block;
}

void block_append(Lower *l, KBlock *to, const KBlock *from)
{
    for (uint32_t i = 0; i < from->n; i++)
        vec_push(l->p->cx->kernels, to, from->at[i]);
}

void row_total(KBuild *b, KBlock *block, uint32_t acc, const RowSched *s)
{
    KStmt *t = kblock_add(b->l->p, block, KS_TOTAL);
    t->acc = acc;
    t->over_block = s->over_block;
}

static bool has_inout(const KBuild *b)
{
    for (uint32_t i = 0; i < b->k->params.n; i++)
        if (b->k->params.at[i].mode == K_INOUT)
            return true;
    return false;
}

static void emit_phase(Row *w, KBlock *cell, const RowPhase *p, const RowAxes *x, const RowSched *s)
{
    KBuild *b = w->b;
    block_append(b->l, cell, &p->before);
    if (p->fold.n) {
        if (w->b->l->o->cuda && has_inout(b) && cell->n)
            kblock_add(b->l->p, cell, KS_BARRIER);
        for (uint32_t i = 0; i < p->accs.n; i++)
            kblock_add(b->l->p, cell, KS_ACC)->acc = p->accs.at[i];
        KBlock *inner = row_loops(b, cell, x, s);
        block_append(b->l, inner, &p->fold);
        for (uint32_t i = 0; i < p->accs.n; i++)
            row_total(b, cell, p->accs.at[i], s);
    }
    block_append(b->l, cell, &p->behind);
}

static void make_row(Lower *l, const FuseGroup *grp, Row *w)
{
    *w = (Row){.grp = grp};
    w->b = kbuild_begin(l, lower_kernel_name(l, grp), grp->class);
    w->d = kbuild_domain(w->b, grp);
    w->acc = arena_array(l->a, uint32_t, grp->roots.n);
    for (uint32_t i = 0; i < grp->roots.n; i++)
        if ((uint32_t)grp->roots.at[i].phase + 1 > w->nphases)
            w->nphases = (uint32_t)grp->roots.at[i].phase + 1;
    w->phase = arena_array(l->a, RowPhase, w->nphases);
    for (uint32_t i = 0; i < w->nphases; i++)
        make_phase(w, i);
}

static bool build_row(Lower *l, const FuseGroup *grp, Step **step)
{
    Row w;
    make_row(l, grp, &w);
    RowAxes x;
    row_split_axes(grp, &w.d, &x);
    x.columns = x.columns && grp->class == CLASS_REDUCE;
    KBlock **blocks = arena_array(l->a, KBlock *, 3 * w.nphases);
    for (uint32_t i = 0; i < w.nphases; i++) {
        blocks[3 * i] = &w.phase[i].before;
        blocks[3 * i + 1] = &w.phase[i].fold;
        blocks[3 * i + 2] = &w.phase[i].behind;
    }
    kernel_collapse_all(w.b, x.kept, &x.nkept, blocks, 3 * w.nphases);
    kernel_collapse_all(w.b, x.reduced, &x.nreduced, blocks, 3 * w.nphases);
    RowSched s;
    sched_row(w.b, &x, &s);
    KBlock cell = {0};
    for (uint32_t i = 0; i < w.nphases; i++)
        emit_phase(&w, &cell, &w.phase[i], &x, &s);
    if (!kbuild_in_place(w.b, &cell))
        return false;
    *row_grid(w.b, &w.b->k->body, &x, &s) = cell;
    *step = kbuild_end(w.b, grp->site, lower_text(l, grp->roots.at[grp->roots.n - 1].val));
    return true;
}

Step *lower_rows(Lower *l, const FuseGroup *grp)
{
    Step *step = NULL;
    while (!build_row(l, grp, &step)) {
    }
    return step;
}

void lower_row(Lower *l, const FuseGroup *grp)
{
    lower_rows(l, grp);
}
