/* lower_attention.c: attention and its gradient: calls of functions of runtime/kernels/attention.h.
 * Vectors of q, k, v lie where views put them; results go where they are wanted.
 *
 *   %y, %lse = attention %q, %k, %v {mode=1, ..}
 *   cpu: a cell for 64 rows of a head; gradient: a cell for a head of k
 *   cuda: forward as on CPUs, blocks of 32 rows; gradient: blocks of 32 keys, then of 32 rows
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_opaque.h"

#include <string.h>

enum { ROWS_CPU = 64, ROWS_CUDA = 32, THREADS = 128 };

typedef struct {
    Lower *l;
    const FuseGroup *grp;
    const Node *n;
    Attention how;
    TypeInfo q, k, v;
    Dim strides[28]; /* of what was given so far: three an array of vectors */
    uint32_t nstrides;
} Att;

static bool there(Val v)
{
    return v.node != 0;
}

static Dim number(const Att *x, int64_t i)
{
    return dim_const(x->l->t, i);
}

/* An operand where it lies. */
static Loc operand(Att *x, uint32_t i)
{
    const FuseView *view = &x->grp->views.at[i];
    const TypeInfo t = *val_info(x->l->p, x->l->g, x->n->in[i]);
    Loc at = *lower_loc(x->l, view->source);
    CHECK(loc_is_row_major(x->l->t, &at));
    at.offset = dim_add(x->l->t, at.offset, view->offset);
    at.rank = t.rank;
    memcpy(at.shape, t.shape, sizeof at.shape);
    memcpy(at.stride, view->stride, sizeof at.stride);
    return at;
}

/* Axes B, T, H of [B, T, H, D]. */
static void add_strides(Att *x, const Loc *at)
{
    for (int i = 0; i < 3; i++)
        x->strides[x->nstrides++] = at->stride[i];
}

static void give(Att *x, OpaqueCall *c, uint32_t i, bool vectors)
{
    const Loc at = operand(x, i);
    opaque_arg(c, &at, val_info(x->l->p, x->l->g, x->n->in[i])->dtype, K_IN,
               lower_name(x->l, x->n->in[i]));
    if (vectors)
        add_strides(x, &at);
}

/* Where a result of vectors goes: its place, if its vectors have no gaps in them. */
static Loc result(Att *x, uint32_t i, const char *name)
{
    const Val v = {x->grp->roots.at[0].val.node, i};
    const TypeInfo t = *val_info(x->l->p, x->l->g, v);
    if (!opaque_wanted(x->l, v))
        return opaque_temp(x->l, name, t.dtype, t.shape, t.rank);
    const Loc at = *lower_loc(x->l, v);
    return t.rank == 4 && dim_is_one(x->l->t, at.stride[3]) ? at : opaque_result(x->l, v);
}

static void finish(Att *x, uint32_t i, const Loc *at)
{
    const Val v = {x->grp->roots.at[0].val.node, i};
    if (opaque_wanted(x->l, v))
        opaque_finish(x->l, v, at);
}

static void put(Att *x, OpaqueCall *c, const Loc *at, uint32_t i, const char *name, bool vectors)
{
    const Val v = {x->grp->roots.at[0].val.node, i};
    opaque_arg(c, at, val_info(x->l->p, x->l->g, v)->dtype, K_OUT,
               sym_of(x->l->p->cx->names, name));
    if (vectors)
        add_strides(x, at);
}

static void give_optional(Att *x, OpaqueCall *c, Dim bias[4])
{
    const Loc nowhere = {0};
    uint32_t i = x->n->op == OP_attention ? 3 : 6;
    for (int k = 0; k < 4; k++)
        bias[k] = number(x, 0);
    if (there(x->how.bias)) {
        const Loc at = operand(x, i);
        for (uint32_t k = 0; k < 4; k++)
            if (!dim_is_one(x->l->t, at.shape[k]))
                bias[k] = at.stride[k];
        give(x, c, i++, false);
    } else {
        opaque_arg(c, &nowhere, DT_f32, K_IN, (Sym){0});
    }
    if (there(x->how.key))
        give(x, c, i, false);
    else
        opaque_arg(c, &nowhere, DT_u64, K_IN, (Sym){0});
}

static int64_t f32_bits(double v)
{
    const float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* --- the score hook -----------------------------------------------------------------------------
 */

static KExpr expr(KBuild *b, KExprInfo x)
{
    return kernel_expr(b->l->p, b->k, x);
}

/* An element of what the hook reads. */
static KExpr captured(Att *x, KBuild *b, uint32_t i, const KStmt *call)
{
    const uint32_t at = x->n->nin - x->how.ncaptured + i;
    const Loc loc = operand(x, at);
    const DType t = val_info(x->l->p, x->l->g, x->n->in[at])->dtype;
    KExprInfo load = {.kind = KE_LOAD,
                      .type = t,
                      .param = kbuild_param(b, &loc, t, K_IN, lower_name(x->l, x->n->in[at]))};
    for (int k = 0; k < 4; k++)
        load.at[k] =
            dim_is_one(x->l->t, loc.shape[k]) ? number(x, 0) : dim_of(x->l->t, call->hook_at[k]);
    return expr(b, load);
}

/* The parameters of the hook's graph. */
static KExpr parameter(Att *x, KBuild *b, uint32_t i, const KStmt *call)
{
    if (i == HOOK_S)
        return expr(b, (KExprInfo){.kind = KE_ACC, .type = DT_f32});
    if (i >= HOOK_CAPTURED)
        return captured(x, b, i - HOOK_CAPTURED, call);
    return expr(b, (KExprInfo){.kind = KE_INDEX,
                               .type = DT_i32,
                               .index = dim_of(x->l->t, call->hook_at[i - HOOK_B])});
}

static KExpr node_expr(KBuild *b, const Node *n, DType t, const KExpr *made)
{
    KExprInfo x = {.kind = KE_OP, .type = t, .op = n->op, .nin = n->nin};
    for (uint32_t i = 0; i < n->nin; i++)
        x.in[i] = made[n->in[i].node];
    if (n->op == OP_const) {
        x = (KExprInfo){.kind = KE_CONST, .type = t};
        if (dtype_is_float(t))
            x.value = node_f64(n, ATTR_value);
        else
            x.word = node_int(n, ATTR_value);
    } else if (n->op == OP_dim) {
        x = (KExprInfo){.kind = KE_INDEX, .type = t, .index = node_dim(n, ATTR_shape, 0)};
    } else if (n->op == OP_cast) {
        x.kind = KE_CAST;
    }
    return x.kind == KE_OP && n->op == OP_detach ? x.in[0] : expr(b, x);
}

static void make_hook(void *ctx, KBuild *b, KStmt *call)
{
    Att *x = ctx;
    const Graph *g = x->l->p->graphs.at[x->how.hook - 1];
    KExpr *made = arena_array(x->l->a, KExpr, g->nodes.n);
    const Dim sizes[] = {x->q.shape[0], x->q.shape[2], x->q.shape[1], x->k.shape[1]};
    const KAcc s = {.name = kbuild_name(b, sym_of(x->l->p->cx->names, "s"), "s"),
                    .reducer = RED_add,
                    .type = DT_f32};
    vec_push(b->l->a, &b->k->accs, s);
    for (int i = 0; i < 4; i++)
        call->hook_at[i] = kbuild_axis(b, sizes[i]);
    for (uint32_t i = 0; i < g->params.n; i++)
        made[g->params.at[i].val.node] = parameter(x, b, i, call);
    for (uint32_t id = 1; id < g->nodes.n; id++)
        if (g->nodes.at[id].op != OP_input)
            made[id] = node_expr(b, &g->nodes.at[id],
                                 type_info(x->l->p, g->nodes.at[id].types[0])->dtype, made);
    call->hook[0] = made[g->results.at[0].val.node];
    if (x->n->op == OP_attention_grad)
        call->hook[1] = made[g->results.at[1].val.node];
}

/* Sizes, strides and numbers, in the order of attention.h. */
static void give_ints(Att *x, OpaqueCall *c, const Dim bias[4])
{
    float grow = 1;
    const int64_t keep = there(x->how.key) ? attention_keep(x->how.drop, &grow) : 0;
    const Dim sizes[] = {x->q.shape[2], x->k.shape[2], x->q.shape[1],
                         x->k.shape[1], x->q.shape[3], x->v.shape[3]};
    for (int i = 0; i < 6; i++)
        opaque_int(c, sizes[i]);
    for (uint32_t i = 0; i < x->nstrides; i++)
        opaque_int(c, x->strides[i]);
    for (int i = 0; i < 4; i++)
        opaque_int(c, bias[i]);
    opaque_int(c, number(x, x->how.causal));
    opaque_int(c, number(x, f32_bits(x->how.scale)));
    opaque_int(c, number(x, keep));
    opaque_int(c, number(x, f32_bits((double)grow)));
    opaque_int(c, number(x, x->how.nan));
    c->hooked = true;
    c->hook = x->how.hook ? make_hook : NULL;
    c->hook_ctx = x;
}

static Dim cells(const Att *x, const TypeInfo *heads)
{
    return dim_mul(x->l->t, heads->shape[0], heads->shape[2]);
}

static Dim blocks(const Att *x, Dim rows)
{
    return dim_ceildiv(x->l->t, rows, number(x, x->l->o->cuda ? ROWS_CUDA : ROWS_CPU));
}

static void forward(Att *x)
{
    OpaqueCall c = {.function = opaque_name(x->l, "attention", x->q.dtype), .threads = THREADS};
    Dim bias[4];
    const Loc y = result(x, 0, "y"), lse = result(x, 1, "lse");
    put(x, &c, &y, 0, "y", true);
    put(x, &c, &lse, 1, "lse", false);
    for (uint32_t i = 0; i < 3; i++)
        give(x, &c, i, true);
    give_optional(x, &c, bias);
    opaque_grid(&c, cells(x, &x->q));
    opaque_grid(&c, blocks(x, x->q.shape[1]));
    give_ints(x, &c, bias);
    opaque_call(x->l, &c, x->grp);
    finish(x, 0, &y);
    finish(x, 1, &lse);
}

/* q k v dy lse y delta bias key, and what the hook reads */
static void give_operands(Att *x, OpaqueCall *c, Dim bias[4])
{
    const Loc nowhere = {0};
    for (uint32_t i = 0; i < 5; i++)
        give(x, c, i, i < 4);
    if (val_info(x->l->p, x->l->g, x->n->in[5])->rank == 4) {
        give(x, c, 5, true);
        opaque_arg(c, &nowhere, DT_f32, K_IN, (Sym){0});
    } else {
        opaque_arg(c, &nowhere, x->q.dtype, K_IN, (Sym){0});
        for (int i = 0; i < 3; i++)
            x->strides[x->nstrides++] = number(x, 0);
        give(x, c, 5, false);
    }
    give_optional(x, c, bias);
}

static void put_scores(Att *x, OpaqueCall *c, const Loc *scores)
{
    if (scores->buf)
        put(x, c, scores, 3, "ds", false);
    else
        opaque_arg(c, scores, DT_f32, K_OUT, (Sym){0});
}

/* On CUDA one grid has the blocks of keys, then those of rows. */
static void give_grid(Att *x, OpaqueCall *c, Dim keys)
{
    const Dim rows = dim_mul(x->l->t, cells(x, &x->q), blocks(x, x->q.shape[1]));
    opaque_grid(c, x->l->o->cuda ? dim_add(x->l->t, keys, rows) : cells(x, &x->k));
}

static void differentiate(Att *x, const Loc to[3], const Loc *scores)
{
    static const char *const names[] = {"dq", "dk", "dv"};
    OpaqueCall c = {.function = opaque_name(x->l, "attention_grad", x->q.dtype),
                    .threads = THREADS};
    const Dim keys = dim_mul(x->l->t, cells(x, &x->k), blocks(x, x->k.shape[1]));
    Dim bias[4];
    for (uint32_t i = 0; i < 3; i++)
        put(x, &c, &to[i], i, names[i], true);
    put_scores(x, &c, scores);
    give_operands(x, &c, bias);
    give_grid(x, &c, keys);
    give_ints(x, &c, bias);
    if (x->l->o->cuda)
        opaque_int(&c, keys);
    opaque_call(x->l, &c, x->grp);
}

static void backward(Att *x)
{
    static const char *const names[] = {"dq", "dk", "dv"};
    Loc to[3], scores = {0};
    for (uint32_t i = 0; i < 3; i++)
        to[i] = result(x, i, names[i]);
    if (x->n->nout > 3)
        scores = result(x, 3, "ds");
    if (scores.buf && !loc_is_row_major(x->l->t, &scores)) {
        const TypeInfo t = *val_info(x->l->p, x->l->g, (Val){x->grp->roots.at[0].val.node, 3});
        scores = opaque_temp(x->l, "ds", DT_f32, t.shape, t.rank);
    }
    differentiate(x, to, &scores);
    for (uint32_t i = 0; i < 3; i++)
        finish(x, i, &to[i]);
    if (scores.buf)
        finish(x, 3, &scores);
}

void lower_attention(Lower *l, const FuseGroup *grp)
{
    const Node *n = graph_node(l->g, grp->roots.at[0].val);
    Att x = {.l = l,
             .grp = grp,
             .n = n,
             .how = node_attention(n),
             .q = *val_info(l->p, l->g, n->in[0]),
             .k = *val_info(l->p, l->g, n->in[1]),
             .v = *val_info(l->p, l->g, n->in[2])};
    if (n->op == OP_attention)
        forward(&x);
    else
        backward(&x);
}
