/* lower_shares.c: sums beside rows (the gradients of a norm's weight and bias): rows are dealt out
 * in shares, each with side sums of its own, which are joined in fixed order: by a second kernel,
 * or on a GPU by the last cells. So that no cell has to go over all shares, those that leave the
 * same rest are joined first.
 *
 *   for g in 0..G grid { acc a side c: add   for n in the share of g serial { .. a[c] <- .. }
 *     for c lanes { store part[g, c] = a[c] }
 *     last at 1 + g % 16 of how many leave that rest {
 *       acc b side c: add   for h serial { for c lanes { b[c] <- part[g % 16 + 16 * h, c] } }
 *       for c lanes { store rest[g % 16, c] = b[c] }
 *       last at 0 of 16 { acc d side c: add  .. d[c] <- rest[h, c] ..  store the results } } }
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_row.h"

enum { RESTS = 16 };

/* Rows are dealt out in shares, each with its own side sums: the first axes are grid axes as they
 * are, the next one is cut, the others are loops. */
typedef struct {
    uint32_t whole; /* axes in front of the one that is cut */
    Symbol cut;     /* shares of axis `whole` */
    Dim size, index;
    Dim count; /* of all shares: split.parts, by the name that it has in the kernel */
    Split split;
} Shares;

/* A size that the kernel uses often: a variable in it. */
static Dim named(Row *w, Dim size, const char *name)
{
    KBuild *b = w->b;
    DimTable *t = b->l->t;
    int64_t n;
    if (!b->l->o->cuda || dim_is_const(t, size, &n))
        return size;
    const Symbol s = dim_new_symbol(t, SYM_LOADED, kbuild_name(b, (Sym){0}, name), (Dim){0});
    SymbolInfo *info = dim_symbol(t, s);
    dim_interval(t, size, &info->lo, &info->hi);
    const KExprInfo e = {.kind = KE_INDEX, .type = DT_i64, .index = size};
    vec_push(b->l->a, &b->loaded,
             ((Loaded){.symbol = s, .expr = kernel_expr(b->l->p, b->k, e), .site = w->grp->site}));
    return dim_of(t, s);
}

/* Of no rows there is one share, too: its sums are results. */
static void make_shares(Row *w, const RowAxes *x, Shares *s)
{
    DimTable *t = w->b->l->t;
    Dim parts = dim_const(t, 1);
    double cells = 1;
    *s = (Shares){.index = dim_const(t, 0)};
    while (s->whole + 1 < x->nkept &&
           cells * dim_hint(t, dim_symbol(t, x->kept[s->whole])->extent) <= FUSE_SIDE_ROWS) {
        Dim n = dim_symbol(t, x->kept[s->whole])->extent;
        s->index = dim_add(t, dim_mul(t, s->index, n), dim_of(t, x->kept[s->whole++]));
        parts = dim_mul(t, parts, n);
        cells *= dim_hint(t, n);
    }
    /* what is left of the limits for the axis that is cut */
    const int64_t most = (int64_t)(FUSE_SIDE_PARTS / cells);
    Dim n = dim_symbol(t, x->kept[s->whole])->extent, rows = dim_const(t, 1);
    for (uint32_t i = s->whole + 1; i < x->nkept; i++)
        rows = dim_mul(t, rows, dim_symbol(t, x->kept[i])->extent);
    int64_t inner;
    int64_t least = dim_is_const(t, rows, &inner) && inner < FUSE_SIDE_ROWS && inner > 0
                        ? (FUSE_SIDE_ROWS + inner - 1) / inner
                        : 1;
    if (!w->b->l->o->cuda)
        least = 8 * least;
    s->size = dim_max(t, dim_const(t, least), dim_ceildiv(t, n, dim_const(t, most < 1 ? 1 : most)));
    Dim shares = dim_ceildiv(t, n, s->size);
    if (w->b->l->o->cuda && !s->whole)
        shares = dim_max(t, dim_const(t, 1), shares);
    s->cut = kbuild_axis(w->b, shares);
    s->index = dim_add(t, dim_mul(t, s->index, shares), dim_of(t, s->cut));
    s->split = (Split){.l = w->b->l,
                       .grp = w->grp,
                       .reduced = ~w->grp->reduced,
                       .columns = true,
                       .side = true,
                       .part = arena_alloc(w->b->l->a, sizeof(uint32_t[2]) * w->grp->roots.n),
                       .parts = dim_mul(t, parts, shares)};
    s->size = named(w, s->size, "rows");
    s->count = named(w, s->split.parts, "shares");
}

/* The rows of one share in a loop, and behind it its side sums. */
static void emit_shares(Row *w, Shares *sh, const RowAxes *x, const RowSched *s, const KBlock *row,
                        KBlock *share)
{
    KBuild *b = w->b;
    DimTable *t = b->l->t;
    for (uint32_t i = 0; i < w->grp->roots.n; i++)
        if (w->grp->roots.at[i].side && w->acc[i])
            kblock_add(b->l->p, share, KS_ACC)->acc = w->acc[i] - 1;
    KBlock *in = share;
    for (uint32_t i = sh->whole; i < x->nkept; i++) {
        KStmt *loop = kbuild_for(b, in, x->kept[i], FOR_SERIAL);
        if (i == sh->whole) {
            loop->lo = dim_mul(t, sh->size, dim_of(t, sh->cut));
            loop->hi = dim_min(t, loop->hi, dim_add(t, loop->lo, sh->size));
        }
        in = &loop->body;
    }
    *in = *row;
    KBlock *lanes = row_loops(b, share, x, s);
    split_store(&sh->split, b, lanes, &w->d, sh->index);
}

/* --- joins by the last cells --------------------------------------------------------------------
 */

/* Sums of one lane's own elements need no totals; what has no share at all gets none. */
static bool last_joins(const Row *w, const Shares *sh, const RowAxes *x)
{
    int64_t lo, hi;
    dim_interval(w->b->l->t, sh->split.parts, &lo, &hi);
    if (!w->b->l->o->cuda || lo < 1 || x->nreduced != 1)
        return false;
    for (uint32_t i = 0; i < w->grp->roots.n; i++) {
        if (!w->grp->roots.at[i].side || !w->acc[i])
            continue;
        const KAcc *a = &w->b->k->accs.at[w->acc[i] - 1];
        const Reducer r = a->reducer;
        if (a->axis.id != x->reduced[0].id || r == RED_moments || reducer_info(r)->nresults > 1)
            return false;
    }
    return true;
}

typedef struct {
    Row *w;
    const RowAxes *x;
    const RowSched *s;
    LoopDomain d; /* at no row */
} LastShares;

/* Element at[..] of the parts, which earlier statements of cells stored. */
static KExpr load_part(const LastShares *j, Split *of, uint32_t root, Dim g)
{
    KBuild *b = j->w->b;
    Dim at[FUSE_AXES + 1];
    KExprInfo e = {.kind = KE_LOAD, .type = b->k->accs.at[j->w->acc[root] - 1].type};
    const Loc loc = split_part(of, root, 0, e.type, &j->d, g, at);
    e.param = kbuild_param(b, &loc, e.type, K_OUT, b->l->h->buffers.at[loc.buf].name);
    for (uint32_t i = 0; i < loc.rank; i++)
        e.at[i] = at[i];
    return kernel_expr(b->l->p, b->k, e);
}

/* Accumulators that hold the sum of parts `first` + `step` * (0..count) for each element. */
static void sum_parts(const LastShares *j, Split *of, KBlock *block, Dim first, Dim step, Dim count)
{
    KBuild *b = j->w->b;
    DimTable *t = b->l->t;
    const FuseGroup *grp = j->w->grp;
    const Symbol h = kbuild_axis(b, dim_ceildiv(t, of->parts, step));
    const Dim g = dim_add(t, first, dim_mul(t, step, dim_of(t, h)));
    KBlock fold = {0};
    for (uint32_t i = 0; i < grp->roots.n; i++) {
        if (!grp->roots.at[i].side || !j->w->acc[i])
            continue;
        const KExpr part = load_part(j, of, i, g);
        KAcc acc = b->k->accs.at[j->w->acc[i] - 1];
        acc.name = kbuild_name(b, (Sym){0}, reducer_info(acc.reducer)->name);
        vec_push(b->l->a, &b->k->accs, acc);
        kblock_add(b->l->p, block, KS_ACC)->acc = b->k->accs.n - 1;
        kbuild_acc(b, grp->roots.at[i].val.node, b->k->accs.n - 1);
        KStmt *s = kblock_add(b->l->p, &fold, KS_FOLD);
        s->acc = b->k->accs.n - 1;
        s->expr = part;
        s->keep_index = dim_of(t, acc.axis);
        s->site = graph_node(b->l->g, grp->roots.at[i].val)->site;
    }
    KStmt *loop = kbuild_for(b, block, h, FOR_UNROLL);
    loop->hi = count;
    block_append(b->l, row_loops(b, &loop->body, j->x, j->s), &fold);
}

/* What a reduction's value is in the stores: the lane's own sum. */
static void use_sums(const LastShares *j)
{
    KBuild *b = j->w->b;
    const FuseGroup *grp = j->w->grp;
    for (uint32_t i = 0; i < grp->roots.n; i++) {
        if (!grp->roots.at[i].side || !j->w->acc[i])
            continue;
        const uint32_t acc = b->l->acc_of[grp->roots.at[i].val.node] - 1;
        const KAcc *a = &b->k->accs.at[acc];
        const KExprInfo sum = {
            .kind = KE_ACC, .type = a->type, .acc = acc, .index = dim_of(b->l->t, a->axis)};
        vec_push(b->l->a, &b->results, ((AccResult){acc, 0, kernel_expr(b->l->p, b->k, sum)}));
    }
}

static void join_last(Row *w, Shares *sh, const RowAxes *x, const RowSched *s, KBlock *share)
{
    KBuild *b = w->b;
    DimTable *t = b->l->t;
    LastShares j = {w, x, s, w->d};
    for (uint32_t i = 0; i < w->grp->rank; i++)
        if (!(w->grp->reduced >> i & 1))
            j.d.at[i] = dim_const(t, 0);
    const Dim zero = dim_const(t, 0), one = dim_const(t, 1), rests = dim_const(t, RESTS);
    Split rest = sh->split;
    rest.parts = dim_min(t, rests, sh->split.parts);
    rest.part = arena_alloc(b->l->a, sizeof *rest.part * w->grp->roots.n);
    const Dim r = dim_mod(t, sh->index, rests);
    const Dim count = dim_ceildiv(t, dim_sub(t, sh->count, r), rests);
    const Dim nrests = dim_min(t, rests, sh->count);
    KStmt *last = kblock_add(b->l->p, share, KS_LAST);
    last->lo = dim_add(t, one, r);
    last->hi = count;
    KBlock body = {0}, all = {0};
    sum_parts(&j, &sh->split, &body, r, rests, count);
    split_store(&rest, b, row_loops(b, &body, x, s), &j.d, r);
    sum_parts(&j, &rest, &all, zero, one, nrests);
    use_sums(&j);
    split_results(&rest, b, row_loops(b, &all, x, s), &j.d);
    last->body = body;
    last = kblock_add(b->l->p, &last->body, KS_LAST);
    last->lo = zero;
    last->hi = nrests;
    last->body = all;
    b->k->counters = 1 + RESTS;
}

bool row_shares(Row *w, Split *made, const RowAxes *x, const RowSched *s, const KBlock *row)
{
    Shares sh;
    KBlock share = {0};
    make_shares(w, x, &sh);
    emit_shares(w, &sh, x, s, row, &share);
    sh.split.joined = last_joins(w, &sh, x);
    if (sh.split.joined) {
        join_last(w, &sh, x, s, &share);
        if (!kbuild_in_place(w->b, &share))
            return false;
    }
    KBlock *grid = &w->b->k->body;
    for (uint32_t i = 0; i < sh.whole; i++)
        grid = &kbuild_for(w->b, grid, x->kept[i], FOR_GRID)->body;
    kbuild_for(w->b, grid, sh.cut, FOR_GRID)->body = share;
    *made = sh.split;
    return true;
}
