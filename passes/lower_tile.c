/* lower_tile.c: products as tiles of our own (runtime/kernels/tile.cuh), on CUDA. What follows a
 * product, one of its results at a time, is done where the result is in registers.
 *
 *   gates = h * w;   y = relu(gates + bias)
 *   kernel y contract (..) tile 64 x 64 .. { for m in 0..M grid { for n in 0..N grid {
 *     acc sum: add   for k in 0..K serial { sum <- h[m, k] * w[k, n] }   total sum
 *     store y[m, n] = relu(sum + bias[n]) } } }
 *
 * Few results that are long sums (gradients of weights) are made in shares of k, which the last
 * block that makes one of a tile joins, or, where there are many, a second
 * kernel adds up.  SPDX-License-Identifier: MIT */
#include "passes/lower_tile.h"
#include "passes/lower_contract.h"
#include "passes/lower_row.h"
#include "passes/sched_cuda.h"

enum {
    LARGE = 128,        /* a side of a large tile, with 256 threads */
    SMALL = 64,         /* of a small one: 128 threads on tensor cores, else 256 */
    ENOUGH_TILES = 132, /* keep the processors of a large GPU busy */
    SHARE = 256,        /* of k, at least; a multiple of all stages */
    MOST_SHARES = 32,
    LAST_SHARES =
        16 /* more of them would keep the last block busy for longer than a launch takes */
};

typedef struct {
    Lower *l;
    const TileProduct *p;
    KBuild *b;
    Symbol batch[2], m, n, k;
    Symbol share;
    Dim shares, length;  /* of k in each; {0}: k is not shared */
    Dim of[2];           /* batches */
    Dim shape[4], at[4]; /* of the result */
    KExpr operand[2];
    KBlock cell, fold, stores;
    bool tensor;
    TileSize size;
    uint32_t sum; /* the accumulator of an operand's sums */
} Tile;

/* --- the product ---------------------------------------------------------------------------------
 */

static Dim count_tiles(Lower *l, const TileProduct *p, int size)
{
    DimTable *t = l->t;
    Dim d = dim_const(t, size);
    Dim n = dim_mul(t, dim_ceildiv(t, p->m, d), dim_ceildiv(t, p->n, d));
    return dim_mul(t, n, dim_mul(t, p->batch[0], p->batch[1]));
}

/* Large tiles: there are enough of them, and they compute little that nobody wants. */
static bool is_large(Lower *l, const TileProduct *p, TileSize size)
{
    const double large = dim_hint(l->t, count_tiles(l, p, LARGE));
    const double small = dim_hint(l->t, count_tiles(l, p, SMALL));
    if (size != TILE_BEST)
        return size == TILE_LARGE;
    return large >= ENOUGH_TILES && large * 4 <= small * 1.3;
}

bool tile_has_sizes(Lower *l, const TileProduct *p)
{
    return dim_hint(l->t, p->m) > SMALL && dim_hint(l->t, p->n) > SMALL;
}

/* Shares of k, so that there are tiles for many processors. Their number depends on sizes only. */
static void choose_shares(Tile *w)
{
    const TileProduct *p = w->p;
    DimTable *t = w->l->t;
    const double tiles = dim_hint(t, count_tiles(w->l, p, SMALL)), k = dim_hint(t, p->k);
    if (p->accumulate || !dim_is_one(t, p->batch[0]) || 2 * tiles > ENOUGH_TILES || k < 4 * SHARE)
        return;
    const int by_work = (int)(k / SHARE), by_tiles = (int)(ENOUGH_TILES / tiles);
    int n = by_work < by_tiles ? by_work : by_tiles;
    n = n > MOST_SHARES ? MOST_SHARES : n;
    const Dim step = dim_const(t, SHARE);
    const Dim steps = dim_ceildiv(t, p->k, dim_const(t, (int64_t)SHARE * n));
    w->length = dim_mul(t, step, dim_max(t, steps, dim_const(t, 1)));
    /* of nothing, too: its sum is a result */
    w->shares = dim_max(t, dim_const(t, 1), dim_ceildiv(t, p->k, w->length));
}

static Symbol batch_axis(Tile *w, Dim extent, Dim *at)
{
    DimTable *t = w->l->t;
    const Symbol axis = dim_is_one(t, extent) ? (Symbol){0} : kbuild_axis(w->b, extent);
    *at = axis.id ? dim_of(t, axis) : dim_const(t, 0);
    return axis;
}

static void make_axes(Tile *w)
{
    const TileProduct *p = w->p;
    DimTable *t = w->l->t;
    for (int i = 0; i < 2; i++) {
        w->batch[i] = batch_axis(w, p->batch[i], &w->of[i]);
        w->shape[i] = p->batch[i];
        w->at[i] = w->of[i];
    }
    if (w->length.id)
        w->share = kbuild_axis(w->b, w->shares);
    w->m = kbuild_axis(w->b, p->m);
    w->n = kbuild_axis(w->b, p->n);
    w->k = kbuild_axis(w->b, w->length.id ? w->length : p->k);
    w->shape[2] = p->m;
    w->at[2] = dim_of(t, w->m);
    w->shape[3] = p->n;
    w->at[3] = dim_of(t, w->n);
    if (p->inner.id && !w->length.id) {
        w->shape[0] = dim_floordiv(t, p->n, p->inner);
        w->shape[3] = p->inner;
        w->at[0] = dim_floordiv(t, dim_of(t, w->n), p->inner);
        w->at[3] = dim_mod(t, dim_of(t, w->n), p->inner);
    }
}

static uint32_t sum_acc(Tile *w, KBuild *b, DType type)
{
    KAcc acc = {.reducer = RED_add, .type = type, .name = kbuild_name(b, (Sym){0}, "sum")};
    vec_push(w->l->a, &b->k->accs, acc);
    return b->k->accs.n - 1;
}

static KExpr sum_of(Tile *w, KExpr x, KExpr y)
{
    const DType type = kexpr(w->b->k, x)->type;
    return kernel_expr(
        w->l->p, w->b->k,
        (KExprInfo){.kind = KE_OP, .type = type, .op = OP_add, .nin = 2, .in = {x, y}});
}

static uint32_t result_param(Tile *w)
{
    return kbuild_param(w->b, &w->p->to, w->p->out, w->p->accumulate ? K_INOUT : K_OUT, w->p->name);
}

/* The sum, as the element of c that it becomes. */
static KExpr make_product(Tile *w)
{
    KBuild *b = w->b;
    Program *p = w->l->p;
    DimTable *t = w->l->t;
    const DType acc_t = dtype_compute(w->p->out);
    Dim k = dim_of(t, w->k);
    KExprInfo mul = {.kind = KE_OP, .type = acc_t, .op = OP_mul, .nin = 2};
    if (w->share.id)
        k = dim_add(t, dim_mul(t, dim_of(t, w->share), w->length), k);
    for (int i = 0; i < 2; i++) {
        w->operand[i] = w->p->element(w->p, b, i == 1, w->of, dim_of(t, i ? w->n : w->m), k);
        mul.in[i] = kbuild_cast(b, w->operand[i], acc_t);
    }
    const uint32_t acc = sum_acc(w, b, acc_t);
    KStmt *s = kblock_add(p, &w->fold, KS_FOLD);
    s->acc = acc;
    s->site = w->p->grp->site;
    s->expr = kernel_expr(p, b->k, mul);
    if (w->p->sum) {
        w->sum = sum_acc(w, b, acc_t);
        s = kblock_add(p, &w->fold, KS_FOLD);
        s->acc = w->sum;
        s->site = w->p->grp->site;
        s->expr = mul.in[w->p->sum_of_a ? 0 : 1];
    }
    KExpr sum = kernel_expr(p, b->k, (KExprInfo){.kind = KE_ACC, .type = acc_t});
    if (w->p->accumulate) {
        KExprInfo old = {.kind = KE_LOAD, .type = w->p->out, .param = result_param(w)};
        for (int i = 0; i < 4; i++)
            old.at[i] = w->at[i];
        sum = sum_of(w, kbuild_cast(b, kernel_expr(p, b->k, old), acc_t), sum);
    }
    return w->length.id ? sum : kbuild_cast(b, sum, w->p->out);
}

static void add_store(Tile *w, uint32_t param, KExpr value, const Dim *at)
{
    KStmt *s = kblock_add(w->l->p, &w->stores, KS_STORE);
    s->param = param;
    s->expr = value;
    s->site = w->p->grp->site;
    for (int i = 0; i < 4; i++)
        s->at[i] = at[i];
}

/* The sum of the operand's row (column), beside the first column (row) of results; or, where that
 * is a share's, as that. */
static void store_sum(Tile *w, KBlock *block, uint32_t acc, const Loc *parts)
{
    Program *p = w->l->p;
    DimTable *t = w->l->t;
    KBuild *b = w->b;
    const TileProduct *q = w->p;
    const DType type = b->k->accs.at[acc].type;
    const Dim one = dim_const(t, 1), zero = dim_const(t, 0), batch[2] = {one, one};
    const Dim row = w->at[2], col = dim_of(t, w->n);
    const Dim at[] = {zero, zero, q->sum_of_a ? row : zero, q->sum_of_a ? zero : col};
    const Dim share[] = {parts ? dim_of(t, w->share) : zero, q->sum_of_a ? row : col, zero, zero};
    GuardTerm *first = arena_new(w->l->a, GuardTerm);
    *first = (GuardTerm){.kind = G_LT, .a = q->sum_of_a ? col : row, .b = one};
    KStmt when = {.kind = KS_WHEN, .pred = {first, 1}};
    KStmt *s = kblock_add(p, &when.body, KS_STORE);
    KExpr sum = kernel_expr(p, b->k, (KExprInfo){.kind = KE_ACC, .type = type, .acc = acc});
    s->site = q->grp->site;
    if (parts) {
        s->param = kbuild_param(b, parts, type, K_OUT, sym_of(p->cx->names, "sums"));
    } else {
        const DType out = contract_type(w->l, q->sum);
        s->param = contract_param(b, q->sum, q->sum_of_a ? q->m : one, q->sum_of_a ? one : q->n,
                                  batch, q->accumulate ? K_INOUT : K_OUT);
        if (q->accumulate)
            sum = sum_of(w, contract_load(b, s->param, at[2], at[3], at, type), sum);
        sum = kbuild_cast(b, sum, out);
    }
    s->expr = sum;
    for (int i = 0; i < 4; i++)
        s->at[i] = parts ? share[i] : at[i];
    vec_push(p->cx->kernels, block, when);
}

/* --- what follows it -----------------------------------------------------------------------------
 */

/* The group has an element for each result, and is made of that result where it reads c. */
static bool add_group(Tile *w, const FuseGroup *grp)
{
    DimTable *t = w->l->t;
    KBuild *b = w->b;
    LoopDomain d = {0};
    if (grp->class != CLASS_MAP || !grp->rank ||
        !dim_same(dim_product(t, grp->domain, grp->rank), dim_product(t, w->shape, 4)))
        return false;
    index_reshape(t, grp->domain, grp->rank, w->shape, 4, w->at, d.at);
    for (uint32_t i = 0; i < grp->roots.n; i++) {
        Dim at[MAX_RANK];
        if (graph_node(w->l->g, grp->roots.at[i].val)->op == OP_check)
            return false;
        root_index(b, grp, &grp->roots.at[i], &d, at);
        root_store(b, &w->stores, &grp->roots.at[i], at);
    }
    return !b->own.missed && !b->loaded.n;
}

/* Nothing but the sum itself comes from where c lies. */
static bool reads_around(const Tile *w)
{
    const Lower *l = w->l;
    for (uint32_t i = 0; i < w->b->k->params.n; i++)
        if (w->b->k->params.at[i].mode == K_IN &&
            host_root(l->h, w->b->operands.at[i].buf) == host_root(l->h, w->b->own.buf))
            return true;
    return false;
}

static Dim place_of_result(Tile *w)
{
    DimTable *t = w->l->t;
    Dim at = w->p->to.offset;
    for (int i = 0; i < 4; i++)
        at = dim_add(t, at, dim_mul(t, w->at[i], w->p->to.stride[i]));
    return at;
}

/* The product and the groups behind its own up to `last`, as far as stores. */
static bool make_stores(Tile *w, uint32_t last)
{
    Lower *l = w->l;
    const uint32_t own = l->group;
    KExpr value = make_product(w);
    bool good = true;
    w->b->own.buf = w->p->to.buf;
    w->b->own.at = place_of_result(w);
    w->b->own.value = value;
    l->group_first = own + 1;
    l->group = last;
    for (uint32_t i = own + 1; i <= last && good; i++)
        good = add_group(w, &l->f->groups.at[i]);
    l->group = l->group_first = own;
    bool dies = last > own && !w->p->accumulate;
    for (uint32_t i = 0; i < w->p->grp->outputs.n && dies; i++)
        dies = lower_dies(l, last, w->p->grp->outputs.at[i]);
    if (!dies)
        add_store(w, result_param(w), value, w->at);
    return good && (last == own || (!w->b->own.missed && !reads_around(w)));
}

/* --- schedule ------------------------------------------------------------------------------------
 */

/* Where a load's element lies, in elements from the parameter on. */
static Dim place_of(Tile *w, const KExprInfo *load)
{
    DimTable *t = w->l->t;
    const KParam *q = &w->b->k->params.at[load->param];
    Dim place = dim_const(t, 0);
    for (uint32_t i = 0; i < q->rank; i++)
        place = dim_add(t, place, dim_mul(t, load->at[i], q->stride[i]));
    return place;
}

/* The same for n neighbours along the axis, from a multiple of n on: it depends on the axis through
 * quotients by multiples of n only. */
static bool is_constant(Tile *w, Dim d, Symbol axis, int64_t n)
{
    DimTable *t = w->l->t;
    const Term *terms;
    const uint32_t count = dim_terms(t, d, &terms);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < terms[i].n; j++) {
            const Atom a = terms[i].factors[j].atom;
            if (a.kind == ATOM_SYMBOL && a.symbol.id == axis.id)
                return false;
            if (a.kind == ATOM_SYMBOL ||
                (!dim_mentions(t, a.a, axis) && !dim_mentions(t, a.b, axis)))
                continue;
            if (a.kind != ATOM_FLOORDIV || dim_divisible(t, a.b, n) != YES ||
                dim_divisible(t, dim_sub(t, a.a, dim_of(t, axis)), n) != YES ||
                dim_mentions(t, dim_sub(t, a.a, dim_of(t, axis)), axis))
                return false;
        }
    return true;
}

/* The largest of 16, 8, 4 bytes that can be copied at once along the axis (of `extent`); 0: none.
 */
static int copy_bytes(Tile *w, const KExprInfo *load, Symbol axis, Dim extent)
{
    DimTable *t = w->l->t;
    const int size = dtype_size(load->type);
    if (load->kind != KE_LOAD)
        return 0;
    const Dim rest = dim_sub(t, place_of(w, load), dim_of(t, axis));
    const Dim offset = w->b->operands.at[load->param].offset;
    for (int bytes = 16; bytes >= 4; bytes /= 2) {
        const int64_t n = bytes / size;
        if (n > 0 && dim_divisible(t, offset, n) == YES && dim_divisible(t, extent, n) == YES &&
            dim_divisible(t, rest, n) == YES && is_constant(w, rest, axis, 16 / size))
            return bytes;
    }
    return 0;
}

/* Neighbours along the axis are neighbours in memory. */
static bool lies_along(Tile *w, const KExprInfo *load, Symbol axis)
{
    DimTable *t = w->l->t;
    return load->kind == KE_LOAD && is_constant(w, dim_sub(t, place_of(w, load), dim_of(t, axis)),
                                                axis, 16 / dtype_size(load->type));
}

/* Copies want neighbours: along k if the operand lies so, else along its other axis. */
static void choose_copies(Tile *w, int operand, bool *by_k, int *bytes)
{
    const KExprInfo load = *kexpr(w->b->k, w->operand[operand]);
    const Symbol other = operand ? w->n : w->m;
    *by_k = lies_along(w, &load, w->k) || (!lies_along(w, &load, other) && w->p->by_k[operand]);
    *bytes = *by_k ? copy_bytes(w, &load, w->k, w->p->k)
                   : copy_bytes(w, &load, other, operand ? w->p->n : w->p->m);
}

static void schedule(Tile *w)
{
    Kernel *k = w->b->k;
    KBlock *blocks[] = {&w->stores};
    const bool large = !w->length.id && is_large(w->l, w->p, w->size);
    const int size = large ? LARGE : SMALL;
    int width = sched_cuda_width(w->b, w->n, blocks, 1, true);
    k->tile = (KTile){.m = size, .n = size, .tensor = w->tensor};
    choose_copies(w, 0, &k->tile.a_by_k, &k->tile.a_bytes);
    choose_copies(w, 1, &k->tile.b_by_k, &k->tile.b_bytes);
    const int most = w->tensor && !k->tile.b_by_k ? 2 : 4;
    k->tile.width = width < most ? width : most;
    k->lanes = large || !w->tensor ? 256 : 128;
    k->teams = 1;
}

static void make_loops(Tile *w)
{
    Program *p = w->l->p;
    DimTable *t = w->l->t;
    KBuild *b = w->b;
    KBlock *body = &b->k->body;
    const Symbol axes[] = {w->share, w->batch[0], w->batch[1], w->m, w->n};
    for (int i = 0; i < 5; i++)
        if (axes[i].id)
            body = &kbuild_for(b, body, axes[i], FOR_GRID)->body;
    kblock_add(p, &w->cell, KS_ACC)->acc = 0;
    if (w->p->sum)
        kblock_add(p, &w->cell, KS_ACC)->acc = w->sum;
    KStmt *sum = kbuild_for(b, &w->cell, w->k, FOR_SERIAL);
    sum->body = w->fold;
    if (w->share.id) {
        const Dim before = dim_mul(t, dim_of(t, w->share), w->length);
        sum->hi = dim_min(t, w->length, dim_sub(t, w->p->k, before));
    }
    kblock_add(p, &w->cell, KS_TOTAL)->acc = 0;
    if (w->p->sum)
        kblock_add(p, &w->cell, KS_TOTAL)->acc = w->sum;
    for (uint32_t i = 0; i < w->stores.n; i++)
        vec_push(p->cx->kernels, &w->cell, w->stores.at[i]);
    *body = w->cell;
}

static void finish(Tile *w, const FuseGroup *end, Val what)
{
    DimTable *t = w->l->t;
    Step *s = kbuild_end(w->b, end->site, lower_text(w->l, what));
    s->cells = count_tiles(w->l, w->p, w->b->k->tile.m);
    if (w->share.id)
        s->cells = dim_mul(t, s->cells, w->shares);
}

/* The kernel of the product and what follows up to `last`; false if they do not fit together. */
static bool tile_kernel(Lower *l, const TileProduct *p, TileSize size, uint32_t last, bool tensor)
{
    const FuseGroup *end = &l->f->groups.at[last];
    Tile w = {.l = l, .p = p, .tensor = tensor, .size = size};
    w.b = kbuild_begin(l, lower_kernel_name(l, end), CLASS_CONTRACT);
    make_axes(&w);
    if (!make_stores(&w, last))
        return false;
    schedule(&w);
    if (p->sum)
        store_sum(&w, &w.stores, w.sum, NULL);
    make_loops(&w);
    if (last > l->group && kbuild_clashes(w.b, &w.cell))
        return false;
    finish(&w, end, last > l->group ? vec_last(&end->roots).val : p->result);
    return true;
}

/* --- shares of k ---------------------------------------------------------------------------------
 */

/* The element of c that `of`, an element of the product, is: where the inner axis is cut off, n is
 * two axes there. */
static void store_joined(Tile *w, KBuild *b, KBlock *block, uint32_t acc, const Dim of[3])
{
    Lower *l = w->l;
    const TileProduct *p = w->p;
    const DType type = b->k->accs.at[acc].type;
    KStmt *s = kblock_add(l->p, block, KS_STORE);
    s->param = kbuild_param(b, &p->to, p->out, K_OUT, p->name);
    s->expr = kbuild_cast(
        b, kernel_expr(l->p, b->k, (KExprInfo){.kind = KE_ACC, .type = type, .acc = acc}), p->out);
    s->site = p->grp->site;
    s->at[0] = p->inner.id ? dim_floordiv(l->t, of[2], p->inner) : dim_const(l->t, 0);
    s->at[1] = of[0];
    s->at[2] = of[1];
    s->at[3] = p->inner.id ? dim_mod(l->t, of[2], p->inner) : of[2];
}

static void fold_share(Tile *w, KBuild *b, KBlock *block, uint32_t acc, const KExprInfo *load)
{
    KStmt *fold = kblock_add(w->l->p, block, KS_FOLD);
    fold->acc = acc;
    fold->expr = kernel_expr(w->l->p, b->k, *load);
    fold->site = w->p->grp->site;
}

/* Whether the last block at a tile can join its shares: there is a counter for each tile. */
static bool last_joins(const Tile *w, int *counters)
{
    int64_t lo, hi;
    dim_interval(w->l->t, count_tiles(w->l, w->p, SMALL), &lo, &hi);
    *counters = hi <= KERNEL_COUNTERS ? (int)hi : 0;
    return hi <= KERNEL_COUNTERS && hi > 0 && dim_hint(w->l->t, w->shares) <= LAST_SHARES;
}

/* The same of the operand's sums. */
static void join_sums(Tile *w, KBlock *block, const Loc *sums, DType type)
{
    KBuild *b = w->b;
    DimTable *t = w->l->t;
    const Symbol share = kbuild_axis(b, w->shares);
    const uint32_t acc = sum_acc(w, b, type);
    KStmt when = {0};
    KBlock stores = {0};
    KExprInfo load = {.kind = KE_LOAD,
                      .type = type,
                      .at = {dim_of(t, share), w->p->sum_of_a ? w->at[2] : dim_of(t, w->n)}};
    load.param = kbuild_param(b, sums, type, K_OUT, sym_of(w->l->p->cx->names, "sums"));
    store_sum(w, &stores, acc, NULL);
    when = stores.at[0];
    when.body = (KBlock){0};
    kblock_add(w->l->p, &when.body, KS_ACC)->acc = acc;
    fold_share(w, b, &kbuild_for(b, &when.body, share, FOR_SERIAL)->body, acc, &load);
    kblock_add(w->l->p, &when.body, KS_TOTAL)->acc = acc;
    block_append(w->l, &when.body, &stores.at[0].body);
    vec_push(w->l->p->cx->kernels, block, when);
}

/* c = the sum over the shares, by the block that finds all of a tile's there. */
static void join_last(Tile *w, const Loc *parts, const Loc *sums, DType type)
{
    KBuild *b = w->b;
    DimTable *t = w->l->t;
    const Dim size = dim_const(t, b->k->tile.n), of[] = {w->at[1], w->at[2], w->at[3]};
    const Symbol share = kbuild_axis(b, w->shares);
    KStmt *last = kblock_add(w->l->p, &w->stores, KS_LAST);
    const Dim row =
        dim_add(t, dim_mul(t, of[0], dim_ceildiv(t, w->p->m, size)), dim_floordiv(t, of[1], size));
    last->lo =
        dim_add(t, dim_mul(t, row, dim_ceildiv(t, w->p->n, size)), dim_floordiv(t, of[2], size));
    last->hi = w->shares;
    last->over_block = true;
    const uint32_t acc = sum_acc(w, b, type);
    KExprInfo load = {.kind = KE_LOAD, .type = type, .at = {dim_of(t, share), of[0], of[1], of[2]}};
    load.param = kbuild_param(b, parts, type, K_OUT, sym_of(w->l->p->cx->names, "shares"));
    kblock_add(w->l->p, &last->body, KS_ACC)->acc = acc;
    fold_share(w, b, &kbuild_for(b, &last->body, share, FOR_SERIAL)->body, acc, &load);
    kblock_add(w->l->p, &last->body, KS_TOTAL)->acc = acc;
    store_joined(w, b, &last->body, acc, of);
    if (w->p->sum)
        join_sums(w, &last->body, sums, type);
}

/* c = the sum over the shares of what each has made. */
static void join_shares(Tile *w, const Loc *parts, DType type)
{
    Lower *l = w->l;
    DimTable *t = l->t;
    const TileProduct *p = w->p;
    KBuild *b = kbuild_begin(l, lower_kernel_name(l, p->grp), CLASS_REDUCE);
    const Dim all = dim_mul(t, p->batch[1], dim_mul(t, p->m, p->n));
    const Symbol i = kbuild_axis(b, all), share = kbuild_axis(b, w->shares);
    const Dim flat_shape[] = {all}, flat_at[] = {dim_of(t, i)};
    Dim shape[] = {p->batch[1], p->m, p->n}, from[3];
    index_reshape(t, shape, 3, flat_shape, 1, flat_at, from);
    KStmt *grid = kbuild_for(b, &b->k->body, i, FOR_GRID);
    grid->grid_lanes = true;
    kblock_add(l->p, &grid->body, KS_ACC)->acc = sum_acc(w, b, type);
    Loc flat = {.buf = parts->buf, .offset = parts->offset, .rank = 2};
    flat.shape[0] = w->shares;
    flat.shape[1] = flat.stride[0] = all;
    flat.stride[1] = dim_const(t, 1);
    KExprInfo load = {.kind = KE_LOAD, .type = type};
    load.param = kbuild_param(b, &flat, type, K_IN, sym_of(l->p->cx->names, "shares"));
    load.at[0] = dim_of(t, share);
    load.at[1] = dim_of(t, i);
    fold_share(w, b, &kbuild_for(b, &grid->body, share, FOR_TEAMS)->body, 0, &load);
    kblock_add(l->p, &grid->body, KS_TOTAL)->over_block = true;
    store_joined(w, b, &grid->body, 0, from);
    b->k->lanes = 32;
    b->k->teams = 8;
    kbuild_end(b, p->grp->site, lower_text(l, p->result));
}

static bool shared(Lower *l, const TileProduct *p, bool tensor)
{
    Tile w = {.l = l, .p = p, .tensor = tensor};
    const DType type = dtype_compute(p->out);
    DimTable *t = l->t;
    choose_shares(&w);
    if (!w.length.id)
        return false;
    const Dim shape[] = {w.shares, p->batch[1], p->m, p->n};
    uint32_t buf = lower_buffer(l, BUF_TEMP, sym_of(l->p->cx->names, "shares"), type, shape, 4);
    Loc sums = {0};
    const Loc parts = loc_row_major(t, buf, dim_const(t, 0), shape, 4);
    w.b = kbuild_begin(l, lower_kernel_name(l, p->grp), CLASS_CONTRACT);
    make_axes(&w);
    const KExpr sum = make_product(&w);
    const Dim at[] = {dim_of(t, w.share), w.at[1], w.at[2], w.at[3]};
    add_store(&w, kbuild_param(w.b, &parts, type, K_OUT, sym_of(l->p->cx->names, "shares")), sum,
              at);
    schedule(&w);
    const bool joins = last_joins(&w, &w.b->k->counters);
    if (p->sum) {
        const Dim sums_shape[] = {w.shares, p->sum_of_a ? p->m : p->n};
        buf = lower_buffer(l, BUF_TEMP, sym_of(l->p->cx->names, "sums"), type, sums_shape, 2);
        sums = loc_row_major(t, buf, dim_const(t, 0), sums_shape, 2);
        store_sum(&w, &w.stores, w.sum, &sums);
    }
    if (joins)
        join_last(&w, &parts, &sums, type);
    make_loops(&w);
    finish(&w, p->grp, p->result);
    if (!joins)
        join_shares(&w, &parts, type);
    return true;
}

/* --- choice --------------------------------------------------------------------------------------
 */

bool tile_has_type(DType in, DType out)
{
    const bool kind = in == DT_f32 || in == DT_f64 || in == DT_bf16 || in == DT_f16;
    return kind && dtype_compute(out) == dtype_compute(in);
}

/* The last group that goes with the product. followed: where none does, nothing is made. */
static uint32_t with_followers(Lower *l, const TileProduct *p, TileSize size, bool tensor,
                               bool followed, bool lone)
{
    uint32_t last = l->group;
    while (!lone && last + 1 < l->f->groups.n && l->f->groups.at[last + 1].class == CLASS_MAP)
        last++;
    while (last > l->group && !tile_kernel(l, p, size, last, tensor))
        last--;
    if (last == l->group && !followed && !shared(l, p, tensor))
        CHECK(tile_kernel(l, p, size, last, tensor));
    return last;
}

bool tile_sums(Lower *l, const TileProduct *p)
{
    Tile w = {.l = l, .p = p};
    int counters;
    choose_shares(&w);
    return !w.length.id || last_joins(&w, &counters);
}

bool tile_product(Lower *l, const TileProduct *p, TileSize size, bool followed, bool lone)
{
    const bool tensor = p->in == DT_bf16 || p->in == DT_f16 || (p->in == DT_f32 && l->o->tf32);
    uint32_t from = l->h->steps.n;
    const uint32_t last = with_followers(l, p, size, tensor, followed, lone);
    if (followed && last == l->group)
        return false;
    if (tensor) {
        steps_when(l, from, (GuardTerm){.kind = G_ARCH, .k = 80});
        from = l->h->steps.n;
        if (last > l->group || !shared(l, p, false))
            CHECK(tile_kernel(l, p, size, last, false));
        steps_when(l, from, (GuardTerm){.kind = G_ARCH, .k = -80});
    }
    l->group = last;
    return true;
}
