/* lower_tile.c: products as tiles of our own (runtime/kernels/tile.cuh), on CUDA. What follows a
 * product, one of its results at a time, is done where the result is in registers.
 *
 *   gates = h * w;   y = relu(gates + bias)
 *   kernel y contract (..) tile 64 x 64 .. { for m in 0..M grid { for n in 0..N grid {
 *     acc sum: add   for k in 0..K serial { sum <- h[m, k] * w[k, n] }   total sum
 *     store y[m, n] = relu(sum + bias[n]) } } }
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_contract.h"
#include "passes/sched_cuda.h"

enum {
    LARGE = 128,        /* a side of a large tile, with 256 threads */
    SMALL = 64,         /* of a small one: 128 threads on tensor cores, else 256 */
    ENOUGH_TILES = 132, /* keep the processors of a large GPU busy */
    FEW = 8             /* rows or columns that are too few for a tile */
};

typedef struct {
    Lower *l;
    const FuseGroup *grp;
    const FuseGemm *f;
    KBuild *b;
    Symbol batch[2], m, n, k;
    Dim at[4]; /* batch, batch, m, n */
    KBlock cell, fold, stores;
    bool tensor;
} Tile;

/* --- the product ---------------------------------------------------------------------------------
 */

static Dim batch_extent(Tile *w, int i)
{
    return w->f->batch[i].id ? w->f->batch[i] : dim_const(w->l->t, 1);
}

static void make_axes(Tile *w)
{
    DimTable *t = w->l->t;
    for (int i = 0; i < 2; i++) {
        Dim extent = batch_extent(w, i);
        w->batch[i] = dim_is_one(t, extent) ? (Symbol){0} : kbuild_axis(w->b, extent);
        w->at[i] = w->batch[i].id ? dim_of(t, w->batch[i]) : dim_const(t, 0);
    }
    w->m = kbuild_axis(w->b, w->f->m);
    w->n = kbuild_axis(w->b, w->f->n);
    w->k = kbuild_axis(w->b, w->f->k);
    w->at[2] = dim_of(t, w->m);
    w->at[3] = dim_of(t, w->n);
}

/* The sum, as the element of c that it becomes. */
static KExpr make_product(Tile *w, uint32_t *c)
{
    KBuild *b = w->b;
    Program *p = w->l->p;
    const FuseGemm *f = w->f;
    DType out = contract_type(w->l, &f->c), acc_t = dtype_compute(out);
    uint32_t a = contract_param(b, &f->a, f->m, f->k, f->batch, K_IN);
    uint32_t x = contract_param(b, &f->b, f->k, f->n, f->batch, K_IN);
    Dim k = dim_of(w->l->t, w->k);
    KExpr left = contract_load(b, a, w->at[2], k, w->at, acc_t);
    KExpr right = contract_load(b, x, k, w->at[3], w->at, acc_t);
    KAcc acc = {.reducer = RED_add, .type = acc_t, .name = kbuild_name(b, (Sym){0}, "sum")};
    vec_push(w->l->a, &b->k->accs, acc);
    KStmt *s = kblock_add(p, &w->fold, KS_FOLD);
    s->site = w->grp->site;
    s->expr = kernel_expr(
        p, b->k,
        (KExprInfo){.kind = KE_OP, .type = acc_t, .op = OP_mul, .nin = 2, .in = {left, right}});
    KExpr sum = kernel_expr(p, b->k, (KExprInfo){.kind = KE_ACC, .type = acc_t});
    if (f->accumulate) {
        *c = contract_param(b, &f->c, f->m, f->n, f->batch, K_INOUT);
        KExpr old = contract_load(b, *c, w->at[2], w->at[3], w->at, acc_t);
        sum = kernel_expr(
            p, b->k,
            (KExprInfo){.kind = KE_OP, .type = acc_t, .op = OP_add, .nin = 2, .in = {old, sum}});
    }
    return kbuild_cast(b, sum, out);
}

static void store_product(Tile *w, KExpr value, uint32_t c)
{
    KStmt *s = kblock_add(w->l->p, &w->stores, KS_STORE);
    s->param =
        w->f->accumulate ? c : contract_param(w->b, &w->f->c, w->f->m, w->f->n, w->f->batch, K_OUT);
    s->expr = value;
    s->site = w->grp->site;
    for (int i = 0; i < 4; i++)
        s->at[i] = w->at[i];
}

/* --- what follows it -----------------------------------------------------------------------------
 */

static uint32_t whole_buffer(const Lower *l, uint32_t buf)
{
    while (l->h->buffers.at[buf].of)
        buf = l->h->buffers.at[buf].of;
    return buf;
}

/* The group has an element for each result, and is made of that result where it reads c. */
static bool add_group(Tile *w, const FuseGroup *grp)
{
    DimTable *t = w->l->t;
    KBuild *b = w->b;
    const Dim shape[] = {batch_extent(w, 0), batch_extent(w, 1), w->f->m, w->f->n};
    LoopDomain d = {0};
    if (grp->class != CLASS_MAP || !grp->rank ||
        !dim_same(dim_product(t, grp->domain, grp->rank), dim_product(t, shape, 4)))
        return false;
    index_reshape(t, grp->domain, grp->rank, shape, 4, w->at, d.at);
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
            whole_buffer(l, w->b->operands.at[i].buf) == whole_buffer(l, w->b->own.buf))
            return true;
    return false;
}

static Dim place_of_result(Tile *w)
{
    DimTable *t = w->l->t;
    const FuseOperand *c = &w->f->c;
    const Dim by[] = {c->batch[0], c->batch[1], c->rows, c->cols};
    Dim at = lower_loc(w->l, c->val)->offset;
    if (c->offset.id)
        at = dim_add(t, at, c->offset);
    for (int i = 0; i < 4; i++)
        if (by[i].id)
            at = dim_add(t, at, dim_mul(t, w->at[i], by[i]));
    return at;
}

/* The product and the groups behind its own up to `last`, as far as stores. */
static bool make_stores(Tile *w, uint32_t last)
{
    Lower *l = w->l;
    uint32_t c = 0, own = l->group;
    KExpr value = make_product(w, &c);
    bool good = true;
    w->b->own.buf = lower_loc(l, w->f->c.val)->buf;
    w->b->own.at = place_of_result(w);
    w->b->own.value = value;
    l->group_first = own + 1;
    l->group = last;
    for (uint32_t i = own + 1; i <= last && good; i++)
        good = add_group(w, &l->f->groups.at[i]);
    l->group = l->group_first = own;
    bool dies = last > own && !w->f->accumulate;
    for (uint32_t i = 0; i < w->grp->outputs.n && dies; i++)
        dies = lower_dies(l, last, w->grp->outputs.at[i]);
    if (!dies)
        store_product(w, value, c);
    return good && (last == own || (!w->b->own.missed && !reads_around(w)));
}

/* --- schedule ------------------------------------------------------------------------------------
 */

/* The largest of 16, 8, 4 bytes that all addresses of an operand are multiples of, neighbours
 * being `along` (its extent) elements; 0 if none is. */
static int copy_bytes(Tile *w, uint32_t param, int axis)
{
    DimTable *t = w->l->t;
    const KParam *q = &w->b->k->params.at[param];
    const int size = dtype_size(q->dtype);
    for (int bytes = 16; bytes >= 4; bytes /= 2) {
        const int64_t n = bytes / size;
        bool good = n > 0 && dim_divisible(t, w->b->operands.at[param].offset, n) == YES &&
                    dim_divisible(t, q->shape[axis], n) == YES;
        for (int i = 0; i < 4 && good; i++)
            good = i == axis || dim_divisible(t, q->stride[i], n) == YES;
        if (good && n > 0)
            return bytes;
    }
    return 0;
}

/* Copies want neighbours: along k if the operand lies so, else along its other axis. */
static int operand_bytes(Tile *w, uint32_t param, int k_axis)
{
    const KParam *q = &w->b->k->params.at[param];
    const int other = 5 - k_axis; /* axes 2 and 3 */
    if (dim_is_one(w->l->t, q->stride[k_axis]))
        return copy_bytes(w, param, k_axis);
    return dim_is_one(w->l->t, q->stride[other]) ? copy_bytes(w, param, other) : 0;
}

static Dim tiles(Tile *w, int size)
{
    DimTable *t = w->l->t;
    Dim d = dim_const(t, size);
    Dim n = dim_mul(t, dim_ceildiv(t, w->f->m, d), dim_ceildiv(t, w->f->n, d));
    return dim_mul(t, n, dim_mul(t, batch_extent(w, 0), batch_extent(w, 1)));
}

static void schedule(Tile *w)
{
    Kernel *k = w->b->k;
    KBlock *blocks[] = {&w->stores};
    const bool large = dim_hint(w->l->t, tiles(w, LARGE)) >= ENOUGH_TILES;
    const int size = large ? LARGE : SMALL;
    int width = sched_cuda_width(w->b, w->n, blocks, 1, true);
    const bool b_along_k = dim_is_one(w->l->t, k->params.at[1].stride[2]) ||
                           !dim_is_one(w->l->t, k->params.at[1].stride[3]);
    const int most = w->tensor && !b_along_k ? 2 : 4;
    k->tile = (KTile){.m = size, .n = size, .tensor = w->tensor};
    k->tile.a_bytes = operand_bytes(w, 0, 3);
    k->tile.b_bytes = operand_bytes(w, 1, 2);
    k->tile.width = width < most ? width : most;
    k->lanes = large || !w->tensor ? 256 : 128;
    k->teams = 1;
}

static void make_loops(Tile *w)
{
    Program *p = w->l->p;
    KBuild *b = w->b;
    KBlock *body = &b->k->body;
    const Symbol axes[] = {w->batch[0], w->batch[1], w->m, w->n};
    for (int i = 0; i < 4; i++)
        if (axes[i].id)
            body = &kbuild_for(b, body, axes[i], FOR_GRID)->body;
    kblock_add(p, &w->cell, KS_ACC)->acc = 0;
    kbuild_for(b, &w->cell, w->k, FOR_SERIAL)->body = w->fold;
    kblock_add(p, &w->cell, KS_TOTAL)->acc = 0;
    for (uint32_t i = 0; i < w->stores.n; i++)
        vec_push(p->cx->kernels, &w->cell, w->stores.at[i]);
    *body = w->cell;
}

/* The kernel of the product and what follows up to `last`; false if they do not fit together. */
static bool tile_kernel(Lower *l, const FuseGroup *grp, const FuseGemm *f, uint32_t last,
                        bool tensor)
{
    const FuseGroup *end = &l->f->groups.at[last];
    Tile w = {.l = l, .grp = grp, .f = f, .tensor = tensor};
    w.b = kbuild_begin(l, lower_kernel_name(l, end), CLASS_CONTRACT);
    make_axes(&w);
    if (!make_stores(&w, last))
        return false;
    schedule(&w);
    make_loops(&w);
    if (last > l->group && kbuild_clashes(w.b, &w.cell))
        return false;
    const Val what = last > l->group ? vec_last(&end->roots).val : f->c.val;
    Step *s = kbuild_end(w.b, end->site, lower_text(l, what));
    s->cells = tiles(&w, w.b->k->tile.m);
    return true;
}

/* --- sums of an operand --------------------------------------------------------------------------
 */

/* to[i] (+)= the sum over k of what lies there: by rows, or 32 columns at a time. */
static void sum_kernel(Lower *l, const FuseGroup *grp, const FuseGemm *f, bool of_a)
{
    DimTable *t = l->t;
    const FuseOperand *from = of_a ? &f->a : &f->b, *to = of_a ? &f->sum_a : &f->sum_b;
    const Dim one = dim_const(t, 1), no = dim_const(t, 0);
    const Dim none[2] = {one, one}, zero[2] = {no, no};
    KBuild *b = kbuild_begin(l, lower_kernel_name(l, grp), CLASS_REDUCE);
    DType out = contract_type(l, to), acc_t = dtype_compute(out);
    Symbol i = kbuild_axis(b, of_a ? f->m : f->n), k = kbuild_axis(b, f->k);
    Dim row = dim_of(t, of_a ? i : k), col = dim_of(t, of_a ? k : i);
    uint32_t x = contract_param(b, from, of_a ? f->m : f->k, of_a ? f->k : f->n, none, K_IN);
    const bool columns = !dim_is_one(t, b->k->params.at[x].stride[of_a ? 3 : 2]);
    KStmt *grid = kbuild_for(b, &b->k->body, i, FOR_GRID);
    grid->grid_lanes = columns;
    KBlock *cell = &grid->body;
    KAcc acc = {.reducer = RED_add, .type = acc_t, .name = kbuild_name(b, (Sym){0}, "sum")};
    vec_push(l->a, &b->k->accs, acc);
    kblock_add(l->p, cell, KS_ACC)->acc = 0;
    KBlock *in = &kbuild_for(b, cell, k, columns ? FOR_TEAMS : FOR_LANES)->body;
    KStmt *s = kblock_add(l->p, in, KS_FOLD);
    s->expr = contract_load(b, x, row, col, zero, acc_t);
    s->site = grp->site;
    KStmt *total = kblock_add(l->p, cell, KS_TOTAL);
    total->over_block = columns;
    KExpr sum = kernel_expr(l->p, b->k, (KExprInfo){.kind = KE_ACC, .type = acc_t});
    Dim m = of_a ? f->m : one, n = of_a ? one : f->n;
    uint32_t y = contract_param(b, to, m, n, none, f->accumulate ? K_INOUT : K_OUT);
    row = of_a ? row : no;
    col = of_a ? no : col;
    if (f->accumulate) {
        KExpr old = contract_load(b, y, row, col, zero, acc_t);
        sum = kernel_expr(
            l->p, b->k,
            (KExprInfo){.kind = KE_OP, .type = acc_t, .op = OP_add, .nin = 2, .in = {old, sum}});
    }
    sum = kbuild_cast(b, sum, out);
    s = kblock_add(l->p, cell, KS_STORE);
    s->param = y;
    s->expr = sum;
    s->site = grp->site;
    const Dim at[] = {no, no, row, col};
    for (int j = 0; j < 4; j++)
        s->at[j] = at[j];
    b->k->lanes = 32;
    b->k->teams = 8;
    kbuild_end(b, grp->site, lower_text(l, to->val));
}

/* --- choice --------------------------------------------------------------------------------------
 */

static bool fits(Lower *l, const FuseGemm *f)
{
    DimTable *t = l->t;
    const DType d = contract_type(l, &f->a);
    const bool kind = d == DT_f32 || d == DT_f64 || d == DT_bf16 || d == DT_f16;
    return kind && contract_type(l, &f->b) == d &&
           dtype_compute(contract_type(l, &f->c)) == dtype_compute(d) && dim_hint(t, f->m) > FEW &&
           dim_hint(t, f->n) > FEW;
}

/* The last group that goes with the product. followed: where none does, nothing is made. */
static uint32_t with_followers(Lower *l, const FuseGroup *grp, const FuseGemm *f, bool tensor,
                               bool followed)
{
    uint32_t last = l->group;
    if (grp->gemms.n == 1)
        while (last + 1 < l->f->groups.n && l->f->groups.at[last + 1].class == CLASS_MAP)
            last++;
    while (!(followed && last == l->group) && !tile_kernel(l, grp, f, last, tensor))
        last--;
    return last;
}

bool lower_tile(Lower *l, const FuseGroup *grp, bool followed)
{
    for (uint32_t i = 0; i < grp->gemms.n; i++)
        if (!fits(l, &grp->gemms.at[i]))
            return false;
    uint32_t last = l->group;
    for (uint32_t i = 0; i < grp->gemms.n; i++) {
        const FuseGemm *f = &grp->gemms.at[i];
        const DType d = contract_type(l, &f->a);
        const bool tensor = d == DT_bf16 || d == DT_f16 || (d == DT_f32 && l->o->tf32);
        uint32_t from = l->h->steps.n;
        last = with_followers(l, grp, f, tensor, followed);
        if (followed && last == l->group)
            return false;
        if (tensor) {
            steps_when(l, from, (GuardTerm){.kind = G_ARCH, .k = 80});
            from = l->h->steps.n;
            CHECK(tile_kernel(l, grp, f, last, false));
            steps_when(l, from, (GuardTerm){.kind = G_ARCH, .k = -80});
        }
        if (f->sum_a.val.node)
            sum_kernel(l, grp, f, true);
        if (f->sum_b.val.node)
            sum_kernel(l, grp, f, false);
    }
    l->group = last;
    return true;
}
