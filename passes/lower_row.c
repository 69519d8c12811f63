/* lower_row.c: reductions over one set of axes, with pointwise work before, between and behind
 * them. One grid cell is one row; each dependent reduction is a pass over it.
 *
 *   group row over [N, C], C reduced: %m, %v = reduce %x {moments};  %y = mul(sub(%x, %m), rsqrt
 * ..) for n in 0..N grid { acc m: moments    for c in 0..C lanes { m <- x[n, c] }    total m over
 * team for c in 0..C lanes { store y[n, c] = (x[n, c] - m.mean) * rsqrt(m.var + eps) } }
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_row.h"
#include "passes/sched_cuda.h"

/* --- roots
 * ---------------------------------------------------------------------------------------- */

static bool is_side(const FuseGroup *grp)
{
    for (uint32_t i = 0; i < grp->roots.n; i++)
        if (grp->roots.at[i].side)
            return true;
    return false;
}

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
    if (b->k->accs.at[acc].side)
        s->keep_index = dim_of(b->l->t, b->k->accs.at[acc].axis);
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

/* The sum is one for each element of the row. */
static void side_acc(Row *w, uint32_t acc)
{
    KAcc *a = &w->b->k->accs.at[acc];
    a->side = true;
    for (uint32_t i = 0; i < w->grp->rank; i++)
        if (w->grp->reduced >> i & 1 && w->d.axis[i].id)
            a->axis = w->d.axis[i];
    CHECK(a->axis.id);
}

static void make_phase(Row *w, uint32_t phase)
{
    KBuild *b = w->b;
    const FuseGroup *grp = w->grp;
    RowPhase *p = &w->phase[phase];
    Dim at[MAX_RANK];
    for (uint32_t i = 0; i < grp->roots.n; i++) {
        const FuseRoot *r = &grp->roots.at[i];
        if ((uint32_t)r->phase != phase || (r->side && !root_reduce(b->l, r)))
            continue;
        if (root_reduce(b->l, r)) {
            uint32_t acc = row_acc(b, r);
            if (r->side)
                side_acc(w, acc);
            else
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
        if (r->side)
            continue; /* its sum is complete in the second stage */
        row_result_index(b, grp, r, &w->d, at);
        root_store(b, &p->behind, r, at);
    }
}

void row_split_axes(const FuseGroup *grp, uint32_t mask, const LoopDomain *d, RowAxes *x)
{
    *x = (RowAxes){0};
    for (uint32_t i = 0; i < grp->rank; i++) {
        if (!d->axis[i].id)
            continue;
        bool reduced = mask >> i & 1;
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

/* The smallest team whose lanes hold at most FUSE_REGISTERS elements each. */
static int team_lanes(int64_t row, int64_t resident, int vec)
{
    int lanes = 32;
    for (; lanes < 1024; lanes += 32) {
        const int64_t share = (int64_t)lanes * vec;
        if ((row + share - 1) / share * vec * resident <= FUSE_REGISTERS)
            break;
    }
    return lanes;
}

void sched_row(KBuild *b, const RowAxes *x, uint32_t resident, RowSched *s)
{
    const int vec = s->vec > 1 ? s->vec : 1;
    *s = (RowSched){.outer = FOR_SERIAL, .inner = FOR_LANES, .vec = 1};
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
    } else {
        int64_t lo, row;
        Dim n = dim_symbol(b->l->t, x->reduced[x->nreduced - 1])->extent;
        dim_interval(b->l->t, n, &lo, &row);
        row = row < 1 << 20 ? row : 1 << 20;
        s->vec = vec;
        b->k->lanes = team_lanes(row, resident ? resident : 1, vec);
        b->k->teams = b->k->lanes == 32 && x->nkept ? 8 : 1;
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
        KStmt *loop = kbuild_for(b, block, x->reduced[i], kind);
        loop->vec = kind == FOR_LANES && i + 1 == x->nreduced && s->vec > 1 ? s->vec : 1;
        block = &loop->body;
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

/* --- the kernel
 * ---------------------------------------------------------------------------------------- */

typedef enum { ROW_MADE, ROW_AGAIN, ROW_PLAIN } RowResult;

/* vectors: nothing is made (ROW_PLAIN) if lanes cannot own neighbours; holds then for the kernel.
 */
static RowResult build_row(Lower *l, const FuseGroup *grp, GuardTerm *vectors, Step **step)
{
    Row w;
    make_row(l, grp, &w);
    RowAxes x;
    const bool side = is_side(grp);
    Split shares;
    uint32_t nside = 0;
    row_split_axes(grp, grp->reduced, &w.d, &x);
    x.columns = x.columns && grp->class == CLASS_REDUCE;
    KBlock **blocks = arena_array(l->a, KBlock *, 3 * w.nphases);
    for (uint32_t i = 0; i < w.nphases; i++) {
        blocks[3 * i] = &w.phase[i].before;
        blocks[3 * i + 1] = &w.phase[i].fold;
        blocks[3 * i + 2] = &w.phase[i].behind;
    }
    kernel_collapse_all(w.b, x.kept, &x.nkept, blocks, 3 * w.nphases);
    kernel_collapse_all(w.b, x.reduced, &x.nreduced, blocks, 3 * w.nphases);
    for (uint32_t i = 0; i < grp->roots.n; i++)
        nside += grp->roots.at[i].side && root_reduce(l, &grp->roots.at[i]);
    RowSched s = {.vec = 1};
    if (l->o->cuda && x.nreduced && !x.columns)
        s.vec = sched_cuda_width(w.b, x.reduced[x.nreduced - 1], blocks, 3 * w.nphases, true);
    if (vectors && s.vec == 1)
        return ROW_PLAIN;
    if (vectors)
        w.b->k->when = (Guard){vectors, 1};
    const uint32_t kept = row_keeps(&w, &x, nside);
    if (l->o->cuda && !kept && !x.columns)
        row_online(&w);
    sched_row(w.b, &x, kept + nside, &s);
    KBlock cell = {0};
    for (uint32_t i = 0; i < w.nphases; i++)
        emit_phase(&w, &cell, &w.phase[i], &x, &s);
    if (!kbuild_in_place(w.b, &cell))
        return ROW_AGAIN;
    if (side) {
        if (!row_shares(&w, &shares, &x, &s, &cell))
            return ROW_AGAIN;
    } else {
        *row_grid(w.b, &w.b->k->body, &x, &s) = cell;
    }
    *step = kbuild_end(w.b, grp->site, lower_text(l, grp->roots.at[grp->roots.n - 1].val));
    if (side && !shares.joined)
        split_join(&shares);
    return ROW_MADE;
}

Step *lower_rows(Lower *l, const FuseGroup *grp)
{
    Step *step = NULL;
    while (build_row(l, grp, NULL, &step) == ROW_AGAIN) {
    }
    return step;
}

/* The size that is the length of the rows, if that is no number; else {0}. */
static Symbol row_symbol(const Lower *l, const FuseGroup *grp)
{
    Symbol n = {0};
    const bool last = grp->rank && grp->reduced >> (grp->rank - 1) & 1;
    if (!l->o->cuda || is_side(grp) || !last ||
        !dim_is_symbol(l->t, grp->domain[grp->rank - 1], &n) ||
        dim_symbol(l->t, n)->kind != SYM_SIZE || dim_symbol(l->t, n)->div != 1)
        return (Symbol){0};
    return n;
}

/* Rows of any length on a GPU: besides, a version for lengths that are multiples of what a lane
 * reads at once. */
static void lower_long_rows(Lower *l, const FuseGroup *grp)
{
    const uint32_t from = l->h->steps.n;
    const Symbol n = row_symbol(l, grp);
    lower_rows(l, grp);
    if (!n.id)
        return;
    const int size = dtype_size(val_info(l->p, l->g, vec_last(&grp->roots).val)->dtype);
    const int64_t by = size >= 8 ? 2 : size <= 2 ? 8 : 4;
    const Dim length = dim_of(l->t, n);
    const Dim left = dim_mod(l->t, length, dim_const(l->t, by));
    GuardTerm *whole = arena_new(l->a, GuardTerm);
    *whole = (GuardTerm){.kind = G_DIVISIBLE, .a = length, .k = by};
    const uint32_t end = l->h->steps.n;
    Step *step = NULL;
    RowResult made;
    dim_symbol(l->t, n)->div = by;
    while ((made = build_row(l, grp, whole, &step)) == ROW_AGAIN) {
    }
    dim_symbol(l->t, n)->div = 1;
    if (made == ROW_PLAIN)
        return;
    steps_when(l, end, *whole);
    GuardTerm *rest = arena_new(l->a, GuardTerm);
    *rest = (GuardTerm){.kind = G_LT, .a = dim_const(l->t, 0), .b = left};
    for (uint32_t i = from; i < end; i++) {
        Guard *g = &l->h->steps.at[i].when;
        GuardTerm *terms = arena_array(l->a, GuardTerm, g->n + 1);
        for (uint32_t k = 0; k < g->n; k++)
            terms[k] = g->at[k];
        terms[g->n] = *rest;
        *g = (Guard){terms, g->n + 1};
    }
}

void lower_row(Lower *l, const FuseGroup *grp)
{
    if (!lower_split(l, grp))
        lower_long_rows(l, grp);
}
