/* lower_reduce.c: reductions whose results are few: long ones are cut into parts by shape, which
 * are joined in fixed order: by a second kernel, or on a GPU by the last cell that made one.
 *
 *   for g in 0..ceil(N/4096) grid { acc a: add  for i in 4096*g..min(..) lanes { a <- x[i] } ..
 *                                   store part[g] = a }
 *   acc a: add   for g in 0..ceil(N/4096) lanes { a <- part[g] }   total a   store s = a
 *
 *   for g in 0..ceil(N/4096) grid { ..  store part[g] = a
 *     last at 0 of ceil(N/4096) { acc b: add  for h in 0..ceil(N/4096) lanes { b <- part[h] } .. }
 * }
 *
 * Where the size is not known, both forms are made and a guard on it chooses: the bits depend on
 * shapes only. SPDX-License-Identifier: MIT */
#include "passes/lower_row.h"
#include "passes/sched_cuda.h"

enum {
    ROW_WHOLE = 16384, /* elements of a row that one cell sums alone */
    ROW_PART = 4096,
    PART_LANES = 256,
    COLUMN_WHOLE = 1024, /* rows that one cell sums alone, for its columns */
    COLUMN_PART = 256,
    FEW_ROWS = 64,     /* more of them than this are parallel enough */
    BLOCK_COLUMNS = 32 /* a block on a GPU works on these together */
};

static bool is_part(const Split *w, uint32_t root)
{
    const FuseRoot *r = &w->grp->roots.at[root];
    return root_reduce(w->l, r) && r->side == w->side;
}

static Reducer reducer_of(const Split *w, uint32_t root)
{
    return (Reducer)node_int(graph_node(w->l->g, w->grp->roots.at[root].val), ATTR_kind);
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

uint32_t lower_part(Lower *l, const FuseGroup *grp, uint32_t root, uint32_t result, DType type,
                    const Dim *shape, uint32_t rank)
{
    Sym name = lower_name(l, val_result(grp->roots.at[root].val, result));
    const char *text = sym_text(l->p->cx->names, name);
    name = sym_of(l->p->cx->names, arena_printf(l->a, "%s_parts", text));
    const uint32_t buf = lower_buffer(l, BUF_TEMP, name, type, shape, rank);
    lower_note_part(l, root, result, buf);
    return buf;
}

/* part[g, ...] for columns, else part[..., g]. */
Loc split_part(Split *w, uint32_t root, uint32_t result, DType type, const LoopDomain *d, Dim g,
               Dim *at)
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
    if (!w->part[root][result])
        w->part[root][result] = lower_part(w->l, w->grp, root, result, type, shape, n);
    return loc_row_major(t, w->part[root][result], dim_const(t, 0), shape, n);
}

static void store_part(Split *w, KBuild *b, KBlock *block, uint32_t root, uint32_t result,
                       const LoopDomain *d, Dim g)
{
    uint32_t acc = b->l->acc_of[w->grp->roots.at[root].val.node] - 1;
    const Reducer r = b->k->accs.at[acc].reducer;
    Dim at[FUSE_AXES + 1];
    KExprInfo sum = {.kind = KE_ACC, .type = b->k->accs.at[acc].type, .acc = acc, .field = result};
    if (result && r != RED_moments)
        sum.type = DT_i64;
    if (b->k->accs.at[acc].side)
        sum.index = dim_of(w->l->t, b->k->accs.at[acc].axis);
    Loc loc = split_part(w, root, result, sum.type, d, g, at);
    uint32_t param = kbuild_param(b, &loc, sum.type, K_OUT, w->l->h->buffers.at[loc.buf].name);
    KStmt *s = kblock_add(w->l->p, block, KS_STORE);
    s->param = param;
    s->site = graph_node(w->l->g, w->grp->roots.at[root].val)->site;
    s->expr = kernel_expr(w->l->p, b->k, sum);
    for (uint32_t i = 0; i < loc.rank; i++)
        s->at[i] = at[i];
}

void split_store(Split *w, KBuild *b, KBlock *block, const LoopDomain *d, Dim g)
{
    for (uint32_t i = 0; i < w->grp->roots.n; i++)
        for (int r = 0; is_part(w, i) && r < reducer_info(reducer_of(w, i))->nresults; r++)
            store_part(w, b, block, i, (uint32_t)r, d, g);
}

void split_results(const Split *w, KBuild *b, KBlock *block, const LoopDomain *d)
{
    Dim at[MAX_RANK];
    for (uint32_t i = 0; i < w->grp->roots.n; i++) {
        const FuseRoot *r = &w->grp->roots.at[i];
        if (w->side && !r->side)
            continue;
        row_result_index(b, w->grp, r, d, at);
        root_store(b, block, r, at);
    }
}

/* --- second stage
 * -------------------------------------------------------------------------------------- */

/* It goes over the parts once or twice: a variance needs the mean of all first.
 *
 *   mean = sum of n[g] * mean[g] / n        var = sum of n[g] * (var[g] + (mean[g] - mean)^2) / n
 */
typedef struct {
    Split *w;
    KBuild *b;
    const LoopDomain *d;
    Dim g;
    bool here;      /* in the kernel that makes the parts */
    KBlock fold[2]; /* of each pass */
    VEC(uint32_t) accs[2];
} Join;

static KExpr join_op(Join *j, Op op, DType t, KExpr a, KExpr b)
{
    return kernel_expr(j->b->l->p, j->b->k,
                       (KExprInfo){.kind = KE_OP, .op = op, .type = t, .nin = 2, .in = {a, b}});
}

static KExpr join_count(Join *j, DType t, Dim n)
{
    KExprInfo x = {.kind = KE_INDEX, .type = DT_i64, .index = n};
    int64_t c;
    if (dim_is_const(j->b->l->t, n, &c))
        return kbuild_const(j->b, t, (double)c);
    return kbuild_cast(j->b, kernel_expr(j->b->l->p, j->b->k, x), t);
}

static KExpr join_load(Join *j, uint32_t root, uint32_t result, Dim g)
{
    const Buffer *buf = &j->w->l->h->buffers.at[j->w->part[root][result]];
    KExprInfo e = {.kind = KE_LOAD, .type = buf->dtype};
    Dim at[FUSE_AXES + 1];
    Loc loc = split_part(j->w, root, result, e.type, j->d, g, at);
    e.param = kbuild_param(j->b, &loc, e.type, j->here ? K_OUT : K_IN, buf->name);
    for (uint32_t i = 0; i < loc.rank; i++)
        e.at[i] = at[i];
    return kernel_expr(j->b->l->p, j->b->k, e);
}

static uint32_t join_acc(Join *j, int pass, Reducer r, DType type, KExpr e, Site site)
{
    KAcc acc = {.reducer = r, .type = type};
    acc.name = kbuild_name(j->b, (Sym){0}, reducer_info(r)->name);
    vec_push(j->b->l->a, &j->b->k->accs, acc);
    const uint32_t number = j->b->k->accs.n - 1;
    vec_push(j->b->l->a, &j->accs[pass], number);
    KStmt *s = kblock_add(j->b->l->p, &j->fold[pass], KS_FOLD);
    s->acc = number;
    s->expr = e;
    s->site = site;
    if (r == RED_argmax || r == RED_argmin)
        s->fold_index = j->g;
    return number;
}

static KExpr acc_value(Join *j, uint32_t acc, uint32_t field, DType type)
{
    return kernel_expr(j->b->l->p, j->b->k,
                       (KExprInfo){.kind = KE_ACC, .type = type, .acc = acc, .field = field});
}

static void add_result(Join *j, uint32_t acc, uint32_t result, KExpr e)
{
    vec_push(j->b->l->a, &j->b->results, ((AccResult){acc, result, e}));
}

static void join_moments(Join *j, uint32_t root, Site site)
{
    const Split *w = j->w;
    DimTable *t = w->l->t;
    const DType type = w->l->h->buffers.at[w->part[root][0]].dtype;
    const Dim lo = dim_mul(t, w->size, j->g);
    const Dim hi = dim_min(t, w->n, dim_add(t, lo, w->size));
    const KExpr n = join_count(j, type, dim_mul(t, w->rest, dim_sub(t, hi, lo)));
    const KExpr all = join_count(j, type, dim_mul(t, w->rest, w->n));
    const KExpr mean = join_load(j, root, 0, j->g), var = join_load(j, root, 1, j->g);
    uint32_t sum = join_acc(j, 0, RED_add, type, join_op(j, OP_mul, type, n, mean), site);
    KExpr whole = join_op(j, OP_div, type, acc_value(j, sum, 0, type), all);
    KExpr off = join_op(j, OP_sub, type, mean, whole);
    off = join_op(j, OP_add, type, var, join_op(j, OP_mul, type, off, off));
    uint32_t squares = join_acc(j, 1, RED_add, type, join_op(j, OP_mul, type, n, off), site);
    KExpr spread = join_op(j, OP_div, type, acc_value(j, squares, 0, type), all);
    kbuild_acc(j->b, w->grp->roots.at[root].val.node, sum);
    add_result(j, sum, 0, whole);
    add_result(j, sum, 1, spread);
}

/* The part with the extreme value knows where in it that is. */
static void join_extreme(Join *j, uint32_t root, Reducer r, Site site)
{
    const Split *w = j->w;
    const DType type = w->l->h->buffers.at[w->part[root][0]].dtype;
    uint32_t acc = join_acc(j, 0, r, type, join_load(j, root, 0, j->g), site);
    Symbol s = dim_new_symbol(w->l->t, SYM_LOADED, kbuild_name(j->b, (Sym){0}, "best"), (Dim){0});
    vec_push(j->b->l->a, &j->b->loaded,
             ((Loaded){.symbol = s, .expr = acc_value(j, acc, 1, DT_i64), .site = site}));
    kbuild_acc(j->b, w->grp->roots.at[root].val.node, acc);
    add_result(j, acc, 1, join_load(j, root, 1, dim_of(w->l->t, s)));
}

static void join_root(Join *j, uint32_t root)
{
    const FuseRoot *r = &j->w->grp->roots.at[root];
    const Reducer kind = reducer_of(j->w, root);
    const Site site = graph_node(j->w->l->g, r->val)->site;
    if (kind == RED_moments) {
        join_moments(j, root, site);
    } else if (kind == RED_argmax || kind == RED_argmin) {
        join_extreme(j, root, kind, site);
    } else {
        KExpr part = join_load(j, root, 0, j->g);
        uint32_t acc = join_acc(j, 0, kind, kexpr(j->b->k, part)->type, part, site);
        kbuild_acc(j->b, r->val.node, acc);
    }
}

/* The loops over the parts, one for each pass that there is. */
static void join_loops(Join *j, KBlock *cell, const RowAxes *x, const RowSched *s)
{
    Lower *l = j->b->l;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < j->accs[pass].n; i++)
            kblock_add(l->p, cell, KS_ACC)->acc = j->accs[pass].at[i];
        if (j->accs[pass].n)
            block_append(l, row_loops(j->b, cell, x, s), &j->fold[pass]);
        for (uint32_t i = 0; i < j->accs[pass].n; i++)
            row_total(j->b, cell, j->accs[pass].at[i], s);
    }
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

/* What the results are made of, and their stores. */
static void join_all(Join *j, KBlock *store)
{
    const Split *w = j->w;
    for (uint32_t i = 0; i < w->grp->roots.n; i++)
        if (is_part(w, i))
            join_root(j, i);
    split_results(w, j->b, store, j->d);
}

/* At the axes that parts are of: the beginning. */
static LoopDomain without_reduced(const Split *w, const LoopDomain *d)
{
    LoopDomain kept = *d;
    for (uint32_t i = 0; i < w->grp->rank; i++)
        if (w->reduced >> i & 1)
            kept.at[i] = dim_const(w->l->t, 0);
    return kept;
}

static bool second_stage(Split *w)
{
    Lower *l = w->l;
    KBuild *b = kbuild_begin(l, lower_kernel_name(l, w->grp), CLASS_REDUCE);
    LoopDomain d = kept_domain(w, b);
    RowAxes x;
    row_split_axes(w->grp, w->reduced, &d, &x);
    KBlock store = {0}, cell = {0};
    Symbol g = kbuild_axis(b, w->parts);
    Join j = {.w = w, .b = b, .d = &d, .g = dim_of(l->t, g)};
    join_all(&j, &store);
    KBlock *blocks[] = {&j.fold[0], &j.fold[1], &store};
    kernel_collapse_all(b, x.kept, &x.nkept, blocks, 3);
    x.reduced[0] = g;
    x.nreduced = 1;
    x.columns = w->columns;
    RowSched s = {.vec = 1};
    sched_row(b, &x, 0, &s);
    join_loops(&j, &cell, &x, &s);
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

/* Whether the last of the cells that make parts of a result can join them, so that no launch is
 * needed for that: cells are teams, or all lanes of a block come to the same counter; and there is
 * a counter for each. */
static bool last_joins(const Split *w, int *counters)
{
    DimTable *t = w->l->t;
    Dim kept = dim_const(t, 1), columns = kept;
    for (uint32_t i = 0; i < w->grp->rank; i++)
        if (!(w->reduced >> i & 1) && !dim_is_one(t, w->grp->domain[i])) {
            columns = w->grp->domain[i];
            kept = dim_mul(t, kept, columns);
        }
    int64_t lo, hi;
    dim_interval(t, kept, &lo, &hi);
    if (!w->l->o->cuda)
        return false;
    if (!w->columns) {
        *counters = hi < FEW_ROWS ? (int)hi : FEW_ROWS;
        return true;
    }
    *counters = hi / BLOCK_COLUMNS <= KERNEL_COUNTERS ? (int)(hi / BLOCK_COLUMNS) : 0;
    return *counters && dim_divisible(t, columns, BLOCK_COLUMNS) == YES;
}

static Dim counter_of(const Split *w, const RowAxes *x)
{
    DimTable *t = w->l->t;
    Dim cell = dim_const(t, 0);
    for (uint32_t i = 0; i < x->nkept; i++)
        cell =
            dim_add(t, dim_mul(t, cell, dim_symbol(t, x->kept[i])->extent), dim_of(t, x->kept[i]));
    return w->columns ? dim_floordiv(t, cell, dim_const(t, BLOCK_COLUMNS)) : cell;
}

/* The cell's last statement: the join, by the one that finds all parts there. */
static void join_last(Join *j, KBlock *cell, const KBlock *store, const RowAxes *x,
                      const RowSched *s, Symbol g)
{
    KBuild *b = j->b;
    RowAxes over = *x;
    RowSched plain = *s;
    KStmt *last = kblock_add(b->l->p, cell, KS_LAST);
    last->lo = counter_of(j->w, x);
    last->hi = j->w->parts;
    last->over_block = s->over_block;
    over.reduced[0] = g;
    over.nreduced = 1;
    plain.vec = 1;
    join_loops(j, &last->body, &over, &plain);
    block_append(b->l, &last->body, store);
}

/* --- first stage ---------------------------------------------------------------------------- */

static void fold_all(const Split *w, KBuild *b, KBlock *fold, const LoopDomain *d)
{
    for (uint32_t i = 0; i < w->grp->roots.n; i++) {
        const FuseRoot *r = &w->grp->roots.at[i];
        if (!root_reduce(w->l, r))
            continue;
        uint32_t acc = row_acc(b, r);
        row_fold(b, fold, w->grp, r, d, acc);
        kbuild_acc(b, r->val.node, acc);
    }
}

/* The outermost reduced axis is cut. */
static void cut_parts(Split *w, const RowAxes *x)
{
    DimTable *t = w->l->t;
    w->size = part_size(w, t, x);
    w->n = dim_symbol(t, x->reduced[0])->extent;
    w->parts = dim_ceildiv(t, w->n, w->size);
    w->rest = dim_const(t, 1);
    for (uint32_t i = 1; i < x->nreduced; i++)
        w->rest = dim_mul(t, w->rest, dim_symbol(t, x->reduced[i])->extent);
}

/* false: a result cannot be made where it was to be, and all is made again. */
static bool first_stage(Split *w)
{
    Lower *l = w->l;
    DimTable *t = l->t;
    int counters = 0;
    const bool joins = last_joins(w, &counters);
    KBuild *b = kbuild_begin(l, lower_kernel_name(l, w->grp), CLASS_REDUCE);
    LoopDomain d = kbuild_domain(b, w->grp);
    KBlock fold = {0}, store = {0}, results = {0}, cell = {0};
    RowAxes x;
    row_split_axes(w->grp, w->reduced, &d, &x);
    fold_all(w, b, &fold, &d);
    const LoopDomain kept = without_reduced(w, &d);
    Join j = {.w = w, .b = b, .d = &kept, .here = true};
    KBlock *blocks[] = {&fold, &store, &j.fold[0], &j.fold[1], &results};
    kernel_collapse_all(b, x.reduced, &x.nreduced, blocks, 1);
    cut_parts(w, &x);
    Symbol g = kbuild_axis(b, w->parts);
    split_store(w, b, &store, &d, dim_of(t, g));
    const uint32_t naccs = b->k->accs.n;
    Symbol h = {0};
    if (joins) {
        h = kbuild_axis(b, w->parts);
        j.g = dim_of(t, h);
        join_all(&j, &results);
    }
    kernel_collapse_all(b, x.kept, &x.nkept, blocks, ARRAY_LEN(blocks));
    RowSched s = {.vec = 1};
    if (l->o->cuda && !x.columns)
        s.vec = sched_cuda_width(b, x.reduced[x.nreduced - 1], blocks, 2, true);
    sched_row(b, &x, 0, &s);
    if (!x.columns && b->k->lanes > PART_LANES)
        b->k->lanes = PART_LANES; /* each with several loads under way */
    for (uint32_t i = 0; i < naccs; i++)
        kblock_add(l->p, &cell, KS_ACC)->acc = i;
    block_append(l, row_loops(b, &cell, &x, &s), &fold);
    KStmt *loop = &vec_last(&cell);
    loop->lo = dim_mul(t, w->size, dim_of(t, g));
    loop->hi = dim_min(t, w->n, dim_add(t, loop->lo, w->size));
    for (uint32_t i = 0; i < naccs; i++)
        row_total(b, &cell, i, &s);
    block_append(l, &cell, &store);
    if (joins) {
        b->k->counters = counters;
        join_last(&j, &cell, &results, &x, &s, h);
        if (!kbuild_in_place(b, &cell))
            return false;
    }
    *row_grid(b, &kbuild_for(b, &b->k->body, g, FOR_GRID)->body, &x, &s) = cell;
    kbuild_end(b, w->grp->site, lower_text(l, vec_last(&w->grp->roots).val));
    w->joined = joins;
    return true;
}

/* --- choice
 * ------------------------------------------------------------------------------------------- */

static bool may_split(Lower *l, const FuseGroup *grp)
{
    for (uint32_t i = 0; i < grp->roots.n; i++) {
        const FuseRoot *r = &grp->roots.at[i];
        const Node *n = root_reduce(l, r);
        for (uint32_t k = 0; !n && k < grp->rank; k++)
            if (grp->reduced >> k & 1 && r->axis_of[k] >= 0)
                return false; /* stores an element for each one that it reads */
        if (r->side || (n ? r->phase != 0 : r->phase > 1))
            return false;
    }
    return true;
}

void steps_when(Lower *l, uint32_t from, GuardTerm term)
{
    for (uint32_t i = from; i < l->h->steps.n; i++) {
        Guard *g = &l->h->steps.at[i].when;
        GuardTerm *terms = arena_array(l->a, GuardTerm, g->n + 1);
        for (uint32_t k = 0; k < g->n; k++)
            terms[k] = g->at[k];
        terms[g->n] = term;
        *g = (Guard){terms, g->n + 1};
    }
}

static void split(Split *w)
{
    w->part = arena_alloc(w->l->a, sizeof *w->part * w->grp->roots.n);
    while (!first_stage(w)) {
    }
    if (!w->joined)
        split_join(w);
}

/* Whole sums are for what is short, or has many of them: in parts, few long ones keep all cores
 * busy. Where sizes do not tell, both are made. */
bool lower_split(Lower *l, const FuseGroup *grp)
{
    DimTable *t = l->t;
    Split w = {.l = l, .grp = grp, .reduced = grp->reduced};
    Dim reduced = dim_const(t, 1), kept = reduced, few = dim_const(t, FEW_ROWS);
    for (uint32_t i = 0; i < grp->rank; i++) {
        if (dim_is_one(t, grp->domain[i]))
            continue;
        bool is_reduced = grp->reduced >> i & 1;
        Dim *d = is_reduced ? &reduced : &kept;
        *d = dim_mul(t, *d, grp->domain[i]);
        w.columns = !is_reduced;
    }
    const Dim whole = dim_const(t, w.columns ? COLUMN_WHOLE : ROW_WHOLE);
    const Answer fits = dim_le(t, reduced, whole);
    const Answer is_few = w.columns ? YES : dim_le(t, kept, few);
    if (fits == YES || is_few == NO || !may_split(l, grp))
        return false;
    const bool known = fits == NO && is_few == YES;
    Dim a = reduced, b = whole; /* whole where a <= b */
    if (is_few == UNKNOWN) {
        Dim rows = dim_sub(t, dim_add(t, few, dim_const(t, 1)), kept);
        a = fits == NO ? rows : dim_min(t, dim_sub(t, reduced, whole), rows);
        b = dim_const(t, 0);
    }
    uint32_t from = l->h->steps.n;
    if (!known) {
        lower_rows(l, grp);
        steps_when(l, from, (GuardTerm){.kind = G_LE, .a = a, .b = b});
        from = l->h->steps.n;
    }
    split(&w);
    if (!known)
        steps_when(l, from, (GuardTerm){.kind = G_LT, .a = b, .b = a});
    return true;
}

void lower_reduce(Lower *l, const FuseGroup *grp)
{
    if (!lower_split(l, grp))
        lower_rows(l, grp);
}
