/* lower_reduce.c: reductions whose results are few: long ones are cut into parts by shape, and a
 * second kernel joins the parts in fixed order.
 *
 *   for g in 0..ceil(N/4096) grid { acc a: add  for i in 4096*g..min(..) lanes { a <- x[i] } ..
 *                                   store part[g] = a }
 *   acc a: add   for g in 0..ceil(N/4096) lanes { a <- part[g] }   total a   store s = a
 *
 * Where the size is not known, both forms are made and a guard on it chooses: the bits depend on
 * shapes only. SPDX-License-Identifier: MIT */
#include "passes/lower_row.h"

enum {
    ROW_WHOLE = 16384, /* elements of a row that one cell sums alone */
    ROW_PART = 4096,
    COLUMN_WHOLE = 1024, /* rows that one cell sums alone, for its columns */
    COLUMN_PART = 256,
    FEW_ROWS = 64 /* more of them than this are parallel enough */
};

static bool is_part(const Split *w, uint32_t root)
{
    const FuseRoot *r = &w->grp->roots.at[root];
    return root_reduce(w->l, r) && r->side == w->side;
}

static bool one_field(Reducer r)
{
    return reducer_info(r)->nfields == 1;
}

/* --- first stage
 * --------------------------------------------------------------------------------------- */

static Dim part_size(const Split *w, DimTable *t, const RowAxes *x)
{
    int64_t whole = w->columns ? COLUMN_PART : ROW_PART, rest = 1;
    for (uint32_t i = 1; i < x->nreduced; i++) {
        int64_t n;
        if (!dim_is_const(t, dim_symbol(t, x->reduced[i])->extent, &n))
            return dim_const(t, 1);
        rest *= n < 1 ? 1 : n;
    }
    return dim_const(t, rest >= whole ? 1 : whole / rest);
}

/* part[g, ...] for columns, else part[..., g]. */
static Loc part_loc(Split *w, uint32_t root, KBuild *b, const LoopDomain *d, Dim g, Dim *at)
{
    DimTable *t = w->l->t;
    Dim shape[FUSE_AXES + 1];
    uint32_t n = 0;
    if (w->columns) {
        shape[n] = w->parts;
        at[n++] = g;
    }
    for (uint32_t i = 0; i < w->grp->rank; i++) {
        if (w->reduced >> i & 1 || dim_is_one(t, w->grp->domain[i]))
            continue;
        shape[n] = w->grp->domain[i];
        at[n++] = d->at[i];
    }
    if (!w->columns) {
        shape[n] = w->parts;
        at[n++] = g;
    }
    if (!w->part[root]) {
        const FuseRoot *r = &w->grp->roots.at[root];
        DType type = b->k->accs.at[b->l->acc_of[r->val.node] - 1].type;
        Sym name = lower_name(w->l, r->val);
        const char *text = sym_text(w->l->p->cx->names, name);
        name = sym_of(w->l->p->cx->names, arena_printf(w->l->a, "%s_parts", text));
        w->part[root] = lower_buffer(w->l, BUF_TEMP, name, type, shape, n);
    }
    return loc_row_major(t, w->part[root], dim_const(t, 0), shape, n);
}

static void store_part(Split *w, KBuild *b, KBlock *block, uint32_t root, const LoopDomain *d,
                       Dim g)
{
    uint32_t acc = b->l->acc_of[w->grp->roots.at[root].val.node] - 1;
    Dim at[FUSE_AXES + 1];
    Loc loc = part_loc(w, root, b, d, g, at);
    const Buffer *buf = &w->l->h->buffers.at[loc.buf];
    DType type = buf->dtype;
    uint32_t param = kbuild_param(b, &loc, type, K_OUT, buf->name);
    KStmt *s = kblock_add(w->l->p, block, KS_STORE);
    s->param = param;
    s->site = graph_node(w->l->g, w->grp->roots.at[root].val)->site;
    KExprInfo sum = {.kind = KE_ACC, .type = type, .acc = acc};
    if (b->k->accs.at[acc].side)
        sum.index = dim_of(w->l->t, b->k->accs.at[acc].axis);
    s->expr = kernel_expr(w->l->p, b->k, sum);
    for (uint32_t i = 0; i < loc.rank; i++)
        s->at[i] = at[i];
}

void split_store(Split *w, KBuild *b, KBlock *block, const LoopDomain *d, Dim g)
{
    for (uint32_t i = 0; i < w->grp->roots.n; i++)
        if (is_part(w, i))
            store_part(w, b, block, i, d, g);
}

static Step *first_stage(Split *w)
{
    Lower *l = w->l;
    DimTable *t = l->t;
    KBuild *b = kbuild_begin(l, lower_kernel_name(l, w->grp), CLASS_REDUCE);
    LoopDomain d = kbuild_domain(b, w->grp);
    KBlock fold = {0}, store = {0}, cell = {0};
    RowAxes x;
    row_split_axes(w->grp, w->reduced, &d, &x);
    for (uint32_t i = 0; i < w->grp->roots.n; i++) {
        const FuseRoot *r = &w->grp->roots.at[i];
        if (!root_reduce(l, r))
            continue;
        uint32_t acc = row_acc(b, r);
        row_fold(b, &fold, w->grp, r, &d, acc);
        kbuild_acc(b, r->val.node, acc);
    }
    KBlock *blocks[] = {&fold, &store};
    kernel_collapse_all(b, x.reduced, &x.nreduced, blocks, 1);
    Dim size = part_size(w, t, &x), n = dim_symbol(t, x.reduced[0])->extent;
    w->parts = dim_ceildiv(t, n, size);
    Symbol g = kbuild_axis(b, w->parts);
    split_store(w, b, &store, &d, dim_of(t, g));
    kernel_collapse_all(b, x.kept, &x.nkept, blocks, 2);
    RowSched s = {.vec = 1};
    sched_row(b, &x, 0, &s);
    for (uint32_t i = 0; i < b->k->accs.n; i++)
        kblock_add(l->p, &cell, KS_ACC)->acc = i;
    block_append(l, row_loops(b, &cell, &x, &s), &fold);
    KStmt *loop = &vec_last(&cell);
    loop->lo = dim_mul(t, size, dim_of(t, g));
    loop->hi = dim_min(t, n, dim_add(t, loop->lo, size));
    for (uint32_t i = 0; i < b->k->accs.n; i++)
        row_total(b, &cell, i, &s);
    block_append(l, &cell, &store);
    *row_grid(b, &kbuild_for(b, &b->k->body, g, FOR_GRID)->body, &x, &s) = cell;
    return kbuild_end(b, w->grp->site, lower_text(l, vec_last(&w->grp->roots).val));
}

/* --- second stage
 * -------------------------------------------------------------------------------------- */

static void join_root(Split *w, KBuild *b, uint32_t root, const LoopDomain *d, Dim g, KBlock *fold)
{
    const FuseRoot *r = &w->grp->roots.at[root];
    uint32_t acc = row_acc(b, r);
    Dim at[FUSE_AXES + 1];
    kbuild_acc(b, r->val.node, acc);
    Loc loc = part_loc(w, root, b, d, g, at);
    const Buffer *buf = &w->l->h->buffers.at[loc.buf];
    KExprInfo e = {.kind = KE_LOAD, .type = buf->dtype};
    e.param = kbuild_param(b, &loc, e.type, K_IN, buf->name);
    for (uint32_t i = 0; i < loc.rank; i++)
        e.at[i] = at[i];
    KExpr load = kernel_expr(w->l->p, b->k, e);
    KStmt *s = kblock_add(w->l->p, fold, KS_FOLD);
    s->acc = acc;
    s->expr = load;
    s->site = graph_node(w->l->g, r->val)->site;
}

static LoopDomain kept_domain(const Split *w, KBuild *b)
{
    DimTable *t = w->l->t;
    LoopDomain d = {0};
    for (uint32_t i = 0; i < w->grp->rank; i++) {
        d.at[i] = dim_const(t, 0);
        if (w->reduced >> i & 1 || dim_is_one(t, w->grp->domain[i]))
            continue;
        d.axis[i] = kbuild_axis(b, w->grp->domain[i]);
        d.at[i] = dim_of(t, d.axis[i]);
    }
    return d;
}

static bool second_stage(Split *w)
{
    Lower *l = w->l;
    KBuild *b = kbuild_begin(l, lower_kernel_name(l, w->grp), CLASS_REDUCE);
    LoopDomain d = kept_domain(w, b);
    RowAxes x;
    row_split_axes(w->grp, w->reduced, &d, &x);
    KBlock fold = {0}, store = {0}, cell = {0};
    Symbol g = kbuild_axis(b, w->parts);
    for (uint32_t i = 0; i < w->grp->roots.n; i++)
        if (is_part(w, i))
            join_root(w, b, i, &d, dim_of(l->t, g), &fold);
    for (uint32_t i = 0; i < w->grp->roots.n; i++) {
        Dim at[MAX_RANK];
        if (w->side && !w->grp->roots.at[i].side)
            continue;
        row_result_index(b, w->grp, &w->grp->roots.at[i], &d, at);
        root_store(b, &store, &w->grp->roots.at[i], at);
    }
    KBlock *blocks[] = {&fold, &store};
    kernel_collapse_all(b, x.kept, &x.nkept, blocks, 2);
    x.reduced[0] = g;
    x.nreduced = 1;
    x.columns = w->columns;
    RowSched s = {.vec = 1};
    sched_row(b, &x, 0, &s);
    for (uint32_t i = 0; i < b->k->accs.n; i++)
        kblock_add(l->p, &cell, KS_ACC)->acc = i;
    block_append(l, row_loops(b, &cell, &x, &s), &fold);
    for (uint32_t i = 0; i < b->k->accs.n; i++)
        row_total(b, &cell, i, &s);
    block_append(l, &cell, &store);
    if (!kbuild_in_place(b, &cell))
        return false;
    *row_grid(b, &b->k->body, &x, &s) = cell;
    kbuild_end(b, w->grp->site, lower_text(l, vec_last(&w->grp->roots).val));
    return true;
}

void split_join(Split *w)
{
    while (!second_stage(w)) {
    }
}

/* --- choice
 * ------------------------------------------------------------------------------------------- */

static bool may_split(Lower *l, const FuseGroup *grp, bool columns, Dim kept)
{
    for (uint32_t i = 0; i < grp->roots.n; i++) {
        const FuseRoot *r = &grp->roots.at[i];
        const Node *n = root_reduce(l, r);
        if (n && !one_field((Reducer)node_int(n, ATTR_kind)))
            return false;
        for (uint32_t k = 0; !n && k < grp->rank; k++)
            if (grp->reduced >> k & 1 && r->axis_of[k] >= 0)
                return false; /* stores an element for each one that it reads */
        if (n ? r->phase != 0 : r->phase != 1)
            return false;
    }
    return columns || dim_le(l->t, kept, dim_const(l->t, FEW_ROWS)) == YES;
}

static void step_when(Lower *l, uint32_t from, GuardKind kind, Dim a, Dim b)
{
    for (uint32_t i = from; i < l->h->steps.n; i++) {
        Guard *g = &l->h->steps.at[i].when;
        GuardTerm *terms = arena_array(l->a, GuardTerm, g->n + 1);
        for (uint32_t k = 0; k < g->n; k++)
            terms[k] = g->at[k];
        terms[g->n] = (GuardTerm){.kind = kind, .a = a, .b = b};
        *g = (Guard){terms, g->n + 1};
    }
}

void lower_reduce(Lower *l, const FuseGroup *grp)
{
    DimTable *t = l->t;
    Split w = {.l = l, .grp = grp, .reduced = grp->reduced};
    Dim reduced = dim_const(t, 1), kept = reduced;
    for (uint32_t i = 0; i < grp->rank; i++) {
        if (dim_is_one(t, grp->domain[i]))
            continue;
        bool is_reduced = grp->reduced >> i & 1;
        Dim *d = is_reduced ? &reduced : &kept;
        *d = dim_mul(t, *d, grp->domain[i]);
        w.columns = !is_reduced;
    }
    Dim whole = dim_const(t, w.columns ? COLUMN_WHOLE : ROW_WHOLE);
    Answer fits = dim_le(t, reduced, whole);
    if (fits == YES || !may_split(l, grp, w.columns, kept)) {
        lower_rows(l, grp);
        return;
    }
    uint32_t from = l->h->steps.n;
    if (fits == UNKNOWN) {
        lower_rows(l, grp);
        step_when(l, from, G_LE, reduced, whole);
        from = l->h->steps.n;
    }
    w.part = arena_array(l->a, uint32_t, grp->roots.n);
    first_stage(&w);
    split_join(&w);
    if (fits == UNKNOWN)
        step_when(l, from, G_LT, whole, reduced);
}
