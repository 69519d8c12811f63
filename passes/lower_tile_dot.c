/* lower_tile_dot.c: products of matrices as tiles of our own, on CUDA, and sums of their operands.
 *
 *   gemm gates = h * w, sum_b        kernel gates contract .. tile ..
 *
 * The sums are made beside the product; those of batches, of a second operand, or of many shares
 * are a kernel of their own.
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_contract.h"
#include "passes/lower_tile.h"

enum { FEW = 8 /* rows or columns that are too few for a tile */ };

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

/* --- products ------------------------------------------------------------------------------------
 */

static KExpr element(const TileProduct *p, KBuild *b, bool of_b, const Dim *batch, Dim row, Dim k)
{
    const FuseGemm *f = p->of;
    const uint32_t x = of_b ? contract_param(b, &f->b, f->k, f->n, f->batch, K_IN)
                            : contract_param(b, &f->a, f->m, f->k, f->batch, K_IN);
    return contract_load(b, x, of_b ? k : row, of_b ? row : k, batch, p->in);
}

static TileProduct product_of(Lower *l, const FuseGroup *grp, const FuseGemm *f)
{
    const Dim one = dim_const(l->t, 1);
    TileProduct p = {.grp = grp,
                     .result = f->c.val,
                     .in = contract_type(l, &f->a),
                     .out = contract_type(l, &f->c),
                     .m = f->m,
                     .n = f->n,
                     .k = f->k,
                     .name = lower_name(l, f->c.val),
                     .accumulate = f->accumulate,
                     .by_k = {true, true},
                     .element = element,
                     .of = f};
    for (int i = 0; i < 2; i++)
        p.batch[i] = f->batch[i].id ? f->batch[i] : one;
    p.to = contract_loc(l, &f->c, f->m, f->n, f->batch);
    return p;
}

static bool fits(Lower *l, const FuseGemm *f)
{
    const DType d = contract_type(l, &f->a);
    return contract_type(l, &f->b) == d && tile_has_type(d, contract_type(l, &f->c)) &&
           dim_hint(l->t, f->m) > FEW && dim_hint(l->t, f->n) > FEW;
}

bool lower_tile_sizes(Lower *l, const FuseGroup *grp)
{
    const TileProduct p = product_of(l, grp, &grp->gemms.at[0]);
    return tile_has_sizes(l, &p);
}

bool lower_tile(Lower *l, const FuseGroup *grp, TileSize size, bool followed)
{
    for (uint32_t i = 0; i < grp->gemms.n; i++)
        if (!fits(l, &grp->gemms.at[i]))
            return false;
    for (uint32_t i = 0; i < grp->gemms.n; i++) {
        const FuseGemm *f = &grp->gemms.at[i];
        TileProduct p = product_of(l, grp, f);
        p.sum = f->sum_a.val.node ? &f->sum_a : f->sum_b.val.node ? &f->sum_b : NULL;
        p.sum_of_a = f->sum_a.val.node != 0;
        if (p.sum && (!dim_is_one(l->t, p.batch[0]) || !dim_is_one(l->t, p.batch[1]) ||
                      contract_type(l, p.sum) != p.out || !tile_sums(l, &p)))
            p.sum = NULL;
        const uint32_t first = l->group;
        if (!tile_product(l, &p, size, followed, grp->gemms.n > 1))
            return false;
        const uint32_t last = l->group;
        l->group = first;
        if (f->sum_a.val.node && p.sum != &f->sum_a)
            sum_kernel(l, grp, f, true);
        if (f->sum_b.val.node && p.sum != &f->sum_b)
            sum_kernel(l, grp, f, false);
        l->group = last;
    }
    return true;
}
