/* lower_contract.c: products are gemm steps on strided operands; grouping has found the strides.
 *
 *   %gates = dot concat(%h, %x), %w {contract=1.1}
 *   gemm gates = h * w[:, 0:128]T;   gemm gates += x * w[:, 128:160]T
 *
 * Element types that the gemm does not have (integers, half types) get a loop kernel.
 * SPDX-License-Identifier: MIT */
#include "passes/lower_contract.h"

static const Loc *operand_loc(Lower *l, const FuseOperand *o)
{
    const Loc *loc = lower_loc(l, o->val);
    CHECK(loc);
    return loc;
}

static Dim or_zero(Lower *l, Dim d)
{
    return d.id ? d : dim_const(l->t, 0);
}

static GemmOperand gemm_operand(Lower *l, const FuseOperand *o)
{
    if (!o->val.node)
        return (GemmOperand){0};
    const Loc *loc = operand_loc(l, o);
    GemmOperand g = {.buf = loc->buf, .rows = or_zero(l, o->rows), .cols = or_zero(l, o->cols)};
    g.offset = dim_add(l->t, loc->offset, or_zero(l, o->offset));
    for (int i = 0; i < 2; i++)
        g.batch[i] = or_zero(l, o->batch[i]);
    return g;
}

DType contract_type(Lower *l, const FuseOperand *o)
{
    return val_info(l->p, l->g, o->val)->dtype;
}

static Guard some_elements(Lower *l, const FuseGemm *f)
{
    DimTable *t = l->t;
    Dim n = dim_mul(t, dim_mul(t, f->m, f->n), dim_mul(t, f->batch[0], f->batch[1]));
    if (dim_le(t, dim_const(t, 1), n) == YES)
        return (Guard){0};
    GuardTerm *g = arena_new(l->a, GuardTerm);
    *g = (GuardTerm){.kind = G_LT, .a = dim_const(t, 0), .b = n};
    return (Guard){g, 1};
}

static Step *gemm_step(Lower *l, const FuseGroup *grp, const FuseGemm *f)
{
    Step *s = lower_step(l, STEP_GEMM, grp->site);
    s->m = f->m;
    s->n = f->n;
    s->k = f->k;
    for (int i = 0; i < 2; i++)
        s->batch[i] = f->batch[i].id ? f->batch[i] : dim_const(l->t, 1);
    s->a = gemm_operand(l, &f->a);
    s->b = gemm_operand(l, &f->b);
    s->c = gemm_operand(l, &f->c);
    s->sum_a = gemm_operand(l, &f->sum_a);
    s->sum_b = gemm_operand(l, &f->sum_b);
    s->accumulate = f->accumulate;
    s->tf32 = l->o->cuda && l->o->tf32 && contract_type(l, &f->a) == DT_f32;
    s->when = some_elements(l, f);
    s->text = lower_text(l, f->c.val);
    return s;
}

/* --- a bias on GPUs ------------------------------------------------------------------------------
 */

static bool is_plain(Lower *l, Val v)
{
    const Loc *loc = lower_loc(l, v);
    return loc && loc_is_row_major(l->t, loc);
}

/* y = add c, x: what is added to each row of c, if it is a vector; else {0, 0}. */
static Val vector_beside(Lower *l, Val y, Val c)
{
    const Node *n = graph_node(l->g, y);
    const Val none = {0, 0};
    if (n->op != OP_add || val_eq(n->in[0], c) == val_eq(n->in[1], c))
        return none;
    const Node *x = graph_node(l->g, n->in[val_eq(n->in[0], c)]);
    if (x->op != OP_broadcast || !fuse_buffer(l->f, x->in[0]) ||
        val_info(l->p, l->g, x->in[0])->rank != 1 ||
        node_attr(x, ATTR_dims).at[0] + 1 != (int64_t)val_info(l->p, l->g, y)->rank)
        return none;
    return x->in[0];
}

static bool is_alone(Lower *l, const FuseGemm *f)
{
    const Dim one = dim_const(l->t, 1), zero = dim_const(l->t, 0);
    return !f->accumulate && !f->sum_a.val.node && !f->sum_b.val.node &&
           dim_same(f->batch[0].id ? f->batch[0] : one, one) &&
           dim_same(f->batch[1].id ? f->batch[1] : one, one) &&
           dim_same(or_zero(l, f->c.offset), zero) && dim_same(or_zero(l, f->c.cols), one) &&
           dim_same(or_zero(l, f->c.rows), f->n) && contract_type(l, &f->c) == DT_f32 &&
           contract_type(l, &f->a) == DT_f32;
}

/* The next group does nothing but add a vector to each row of the product: that is part of the
 * step, which libraries do at once, and with the same rounding. */
static bool gemm_with_bias(Lower *l, const FuseGroup *grp, const FuseGemm *f)
{
    const uint32_t after = l->group + 1;
    const FuseGroup *next = after < l->f->groups.n ? &l->f->groups.at[after] : NULL;
    if (!l->o->cuda || !next || next->class != CLASS_MAP || next->roots.n != 1 ||
        next->roots.at[0].stored != 1 || grp->outputs.n != 1 || !is_alone(l, f))
        return false;
    const Val y = next->roots.at[0].val, x = vector_beside(l, y, f->c.val);
    if (!x.node || !is_plain(l, f->c.val) || !is_plain(l, y) ||
        val_type(l->g, y).id != val_type(l->g, f->c.val).id || !lower_dies(l, after, f->c.val) ||
        !dim_same(val_info(l->p, l->g, x)->shape[0], f->n))
        return false;
    const Loc *bias = lower_loc(l, x), *to = lower_loc(l, y);
    const Dim zero = dim_const(l->t, 0);
    Step *s = gemm_step(l, grp, f);
    s->c.buf = to->buf;
    s->c.offset = to->offset;
    s->bias = (GemmOperand){.buf = bias->buf,
                            .offset = bias->offset,
                            .rows = zero,
                            .cols = bias->stride[0],
                            .batch = {zero, zero}};
    l->group = after;
    s->text = lower_text(l, y);
    return true;
}

/* --- the loop form
 * -------------------------------------------------------------------------------- */

Loc contract_loc(Lower *l, const FuseOperand *o, Dim rows, Dim cols, const Dim *batch)
{
    const Loc *in = operand_loc(l, o);
    Loc loc = {.buf = in->buf, .rank = 4};
    loc.offset = dim_add(l->t, in->offset, or_zero(l, o->offset));
    const Dim shape[] = {batch[0], batch[1], rows, cols};
    const Dim stride[] = {o->batch[0], o->batch[1], o->rows, o->cols};
    for (int i = 0; i < 4; i++) {
        loc.shape[i] = shape[i].id ? shape[i] : dim_const(l->t, 1);
        loc.stride[i] = or_zero(l, stride[i]);
    }
    return loc;
}

uint32_t contract_param(KBuild *b, const FuseOperand *o, Dim rows, Dim cols, const Dim *batch,
                        KMode mode)
{
    const Loc loc = contract_loc(b->l, o, rows, cols, batch);
    return kbuild_param(b, &loc, contract_type(b->l, o), mode, lower_name(b->l, o->val));
}

KExpr contract_load(KBuild *b, uint32_t param, Dim row, Dim col, const Dim *batch, DType t)
{
    KExprInfo e = {.kind = KE_LOAD, .type = b->k->params.at[param].dtype, .param = param};
    e.at[0] = batch[0];
    e.at[1] = batch[1];
    e.at[2] = row;
    e.at[3] = col;
    return kbuild_cast(b, kernel_expr(b->l->p, b->k, e), t);
}

static Dim axis_or_zero(KBuild *b, Dim extent, KBlock **block, ForKind kind)
{
    DimTable *t = b->l->t;
    if (!extent.id || dim_is_one(t, extent))
        return dim_const(t, 0);
    Symbol axis = kbuild_axis(b, extent);
    *block = &kbuild_for(b, *block, axis, kind)->body;
    return dim_of(t, axis);
}

/* c[m, n] (+)= sum_k a[m, k] * b[k, n]; without `factor`, the sum of a alone. */
static void loop_kernel(Lower *l, const FuseGroup *grp, const FuseGemm *f, const FuseOperand *to,
                        const FuseOperand *left, const FuseOperand *right)
{
    DimTable *t = l->t;
    KBuild *b = kbuild_begin(l, lower_kernel_name(l, grp), CLASS_REDUCE);
    DType out = contract_type(l, to), acc_t = dtype_compute(out);
    Dim one = dim_const(t, 1), m = left ? f->m : one, n = right ? f->n : one, at[2];
    KBlock *cell = &b->k->body;
    for (int i = 0; i < 2; i++)
        at[i] = axis_or_zero(b, left && right ? f->batch[i] : one, &cell, FOR_GRID);
    Dim row = axis_or_zero(b, m, &cell, FOR_GRID), col = axis_or_zero(b, n, &cell, FOR_GRID);
    KAcc acc = {.reducer = RED_add, .type = acc_t, .name = kbuild_name(b, (Sym){0}, "sum")};
    vec_push(l->a, &b->k->accs, acc);
    kblock_add(l->p, cell, KS_ACC)->acc = 0;
    KBlock *inner = cell;
    Dim k = axis_or_zero(b, f->k, &inner, FOR_LANES);
    KExpr value = {0};
    if (left)
        value = contract_load(b, contract_param(b, left, f->m, f->k, f->batch, K_IN), row, k, at,
                              acc_t);
    if (right) {
        KExpr y = contract_load(b, contract_param(b, right, f->k, f->n, f->batch, K_IN), k, col, at,
                                acc_t);
        value =
            !left
                ? y
                : kernel_expr(
                      l->p, b->k,
                      (KExprInfo){
                          .kind = KE_OP, .type = acc_t, .op = OP_mul, .nin = 2, .in = {value, y}});
    }
    KStmt *fold = kblock_add(l->p, inner, KS_FOLD);
    fold->expr = value;
    fold->site = grp->site;
    kblock_add(l->p, cell, KS_TOTAL)->acc = 0;
    KExpr sum = kernel_expr(l->p, b->k, (KExprInfo){.kind = KE_ACC, .type = acc_t});
    uint32_t param = contract_param(b, to, m, n, f->batch, K_OUT);
    if (f->accumulate) {
        b->k->params.at[param].mode = K_INOUT;
        KExpr old = contract_load(b, param, row, col, at, acc_t);
        sum = kernel_expr(
            l->p, b->k,
            (KExprInfo){.kind = KE_OP, .type = acc_t, .op = OP_add, .nin = 2, .in = {old, sum}});
    }
    KExpr result = kbuild_cast(b, sum, out);
    KStmt *s = kblock_add(l->p, cell, KS_STORE);
    s->param = param;
    s->expr = result;
    s->site = grp->site;
    const Dim where[] = {at[0], at[1], row, col};
    for (int i = 0; i < 4; i++)
        s->at[i] = where[i];
    b->k->lanes = l->o->cuda ? 32 : 1;
    b->k->teams = l->o->cuda ? 8 : 1;
    kbuild_end(b, grp->site, lower_text(l, to->val));
}

static bool has_gemm(Lower *l, const FuseGemm *f)
{
    DType t = contract_type(l, &f->a);
    const bool half = t == DT_bf16 || t == DT_f16;
    const DType c = contract_type(l, &f->c);
    return (t == DT_f32 || t == DT_f64 || half) && contract_type(l, &f->b) == t &&
           (c == t || (half && !l->o->cuda && c == DT_f32));
}

static void loop_kernels(Lower *l, const FuseGroup *grp, const FuseGemm *f)
{
    loop_kernel(l, grp, f, &f->c, &f->a, &f->b);
    if (f->sum_a.val.node)
        loop_kernel(l, grp, f, &f->sum_a, &f->a, NULL);
    if (f->sum_b.val.node)
        loop_kernel(l, grp, f, &f->sum_b, NULL, &f->b);
}

/* All forms where a tile takes along what follows it: the library's, and maps behind it, or a tile
 * of one or two sizes. Groups that follow are lowered as usual, as part of the first
 * (Lower.choice). */
static void lower_all(Lower *l, const FuseGroup *grp)
{
    static const TileSize sizes[] = {TILE_SMALL, TILE_LARGE};
    const uint32_t first = l->group;
    if (!has_gemm(l, &grp->gemms.at[0]))
        return;
    const bool both = lower_tile_sizes(l, grp);
    int made = 0;
    for (; made < 1 + both; made++) {
        const uint32_t from = l->h->steps.n;
        if (!lower_tile(l, grp, both ? sizes[made] : TILE_BEST, true))
            break;
        l->choice_last = l->group;
        steps_when(l, from, tile_alternative(l->h->nchoices, 1 + made));
        l->group = l->group_first = first;
    }
    if (made)
        l->choice = tile_alternative(l->h->nchoices++, 0);
}

void lower_chosen(Lower *l, uint32_t from)
{
    if (!l->choice_last || l->group > l->choice_last)
        return;
    steps_when(l, from, l->choice);
    steps_when(l, from, (GuardTerm){.kind = G_HAS, .k = HAS_CUBLAS});
}

void lower_contract(Lower *l, const FuseGroup *grp)
{
    const bool own = l->o->cuda && l->o->no_cublas;
    if (own && lower_tile(l, grp, TILE_BEST, false))
        return;
    if (l->o->cuda && l->o->tune && !own && grp->gemms.n == 1)
        lower_all(l, grp);
    const uint32_t from = l->h->steps.n;
    for (uint32_t i = 0; i < grp->gemms.n; i++) {
        const FuseGemm *f = &grp->gemms.at[i];
        if (has_gemm(l, f) && !own && grp->gemms.n == 1 && gemm_with_bias(l, grp, f))
            continue;
        if (has_gemm(l, f) && !own)
            gemm_step(l, grp, f);
        else
            loop_kernels(l, grp, f);
    }
    lower_chosen(l, from);
}
