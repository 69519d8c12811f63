/* lower_expr.c: a value at an index, as an expression of a kernel. Views become index maps:
 *
 *   %i = slice %z {axis=1, 128:256}                          %i at (b, s) is %z at (b, 128 + s)
 *   %y = pad %x, 0 {lo=1}                                    x[i - 1] if 1 <= i else 0
 *   %e = gather %w, %t {axis=0}                              t0 = t[n]; w[t0, c]
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"

#include <string.h>

static KExpr make(KBuild *b, KExprInfo info)
{
    return kernel_expr(b->l->p, b->k, info);
}

KExpr kbuild_const(KBuild *b, DType t, double value)
{
    if (dtype_is_float(t))
        return make(b, (KExprInfo){.kind = KE_CONST, .type = t, .value = dtype_round(t, value)});
    return make(b, (KExprInfo){.kind = KE_CONST, .type = t, .word = (int64_t)value});
}

KExpr kbuild_cast(KBuild *b, KExpr e, DType t)
{
    const KExprInfo x = *kexpr(b->k, e);
    if (x.type == t)
        return e;
    if (x.kind == KE_CONST && dtype_is_float(t)) {
        if (dtype_is_float(x.type))
            return kbuild_const(b, t, x.value);
        if (x.word > -(1ll << 53) && x.word < 1ll << 53)
            return kbuild_const(b, t, (double)x.word);
    }
    return make(b, (KExprInfo){.kind = KE_CAST, .type = t, .nin = 1, .in = {e}});
}

/* --- remembering ---------------------------------------------------------------------------------
 */

static uint64_t guard_key(const KBuild *b)
{
    uint64_t h = HASH_START;
    for (uint32_t i = 0; i < b->guard.n; i++) {
        const GuardTerm *t = &b->guard.at[i];
        h = hash_word(h, (uint64_t)t->kind << 32 | t->a.id);
        h = hash_word(hash_word(h, t->b.id), (uint64_t)t->k);
    }
    return h;
}

/* The slot of a key, or the free one where it belongs. */
static Memo *memo_find(const KBuild *b, const Memo *key)
{
    uint64_t h = hash_word(HASH_START ^ key->guard, (uint64_t)key->node << 32 | key->result);
    for (uint32_t i = 0; i < MAX_RANK; i += 2)
        h = hash_word(h, (uint64_t)key->at[i].id << 32 | key->at[i + 1].id);
    uint32_t at = (uint32_t)h & (b->memo_size - 1);
    while (b->memo[at].node && memcmp(&b->memo[at], key, offsetof(Memo, expr)) != 0)
        at = (at + 1) & (b->memo_size - 1);
    return &b->memo[at];
}

static void memo_put(KBuild *b, Memo m)
{
    if (2 * (b->nmemo + 1) > b->memo_size) {
        Memo *old = b->memo;
        uint32_t n = b->memo_size;
        b->memo_size = n ? 2 * n : 32;
        b->memo = arena_array(b->l->p->cx->scratch, Memo, b->memo_size);
        for (uint32_t i = 0; i < n; i++)
            if (old[i].node)
                *memo_find(b, &old[i]) = old[i];
    }
    *memo_find(b, &m) = m;
    b->nmemo++;
}

/* --- leaves
 * --------------------------------------------------------------------------------------- */

static KExpr value_const(KBuild *b, const Node *n, DType t)
{
    if (dtype_is_float(t))
        return kbuild_const(b, t, node_f64(n, ATTR_value));
    return make(b, (KExprInfo){.kind = KE_CONST, .type = t, .word = node_int(n, ATTR_value)});
}

static KExpr index_expr(KBuild *b, Dim d, DType t)
{
    int64_t c;
    if (dim_is_const(b->l->t, d, &c))
        return make(b, (KExprInfo){.kind = KE_CONST, .type = t, .word = c});
    return make(b, (KExprInfo){.kind = KE_INDEX, .type = t, .index = d});
}

static KExpr load(KBuild *b, Val v, const Loc *loc, const Dim *at)
{
    const TypeInfo *ty = val_info(b->l->p, b->l->g, v);
    KExprInfo x = {.kind = KE_LOAD, .type = ty->dtype};
    if (b->own.buf && loc->buf == b->own.buf) {
        Dim place = loc->offset;
        for (uint32_t i = 0; i < loc->rank; i++)
            place = dim_add(b->l->t, place, dim_mul(b->l->t, at[i], loc->stride[i]));
        b->own.missed |=
            !dim_same(place, b->own.at) || kexpr(b->k, b->own.value)->type != ty->dtype;
        return b->own.value;
    }
    x.param = kbuild_param(b, loc, ty->dtype, K_IN, lower_name(b->l, v));
    for (uint32_t i = 0; i < loc->rank; i++)
        x.at[i] = dim_is_one(b->l->t, loc->shape[i]) ? dim_const(b->l->t, 0) : at[i];
    return make(b, x);
}

static KExpr value_random(KBuild *b, const Node *n, const TypeInfo *ty, const Dim *at)
{
    DimTable *t = b->l->t;
    Dim linear = dim_const(t, 0);
    for (uint32_t i = 0; i < ty->rank; i++)
        linear = dim_add(t, dim_mul(t, linear, ty->shape[i]), at[i]);
    KExpr key = kbuild_value(b, n->in[0], NULL);
    return make(b, (KExprInfo){.kind = KE_RANDOM,
                               .type = ty->dtype,
                               .nin = 1,
                               .in = {key},
                               .index = linear,
                               .field = (uint32_t)node_int(n, ATTR_mode)});
}

static KExpr value_key(KBuild *b, const Node *n)
{
    KExprInfo x = {.kind = KE_KEY, .type = DT_u64, .nin = n->nin};
    for (uint32_t i = 0; i < n->nin; i++)
        x.in[i] = kbuild_value(b, n->in[i], NULL);
    x.word = node_int(n, ATTR_site);
    return make(b, x);
}

/* --- pointwise
 * ------------------------------------------------------------------------------------ */

/* iota == t with a t of 64 bits: compared as 32, where no index is -1. Eight bytes for each of four
 * would halve the width of a vector, for a class that is the same along the row.
 *
 *   cast(i32(j), i64) == t     ->     i32(j) == where(cast(cast(t, i32), i64) == t, cast(t, i32),
 * -1)
 */
static void compare_narrow(KBuild *b, KExprInfo *x)
{
    for (uint32_t i = 0; i < 2; i++) {
        const KExprInfo wide = *kexpr(b->k, x->in[i]);
        const KExpr t = x->in[1 - i];
        if (wide.kind != KE_CAST || wide.type != DT_i64 || kexpr(b->k, t)->type != DT_i64)
            continue;
        const KExprInfo index = *kexpr(b->k, wide.in[0]);
        if (index.kind != KE_INDEX || index.type != DT_i32 || kexpr(b->k, t)->kind == KE_CAST)
            continue;
        const KExpr low = kbuild_cast(b, t, DT_i32);
        KExprInfo same = {.kind = KE_OP, .op = OP_eq, .type = DT_bool, .nin = 2};
        same.in[0] = kbuild_cast(b, low, DT_i64);
        same.in[1] = t;
        KExprInfo narrow = {.kind = KE_OP, .op = OP_where, .type = DT_i32, .nin = 3};
        narrow.in[0] = make(b, same);
        narrow.in[1] = low;
        narrow.in[2] = kbuild_const(b, DT_i32, -1);
        x->in[i] = wide.in[0];
        x->in[1 - i] = make(b, narrow);
        return;
    }
}

/* Half types: arithmetic in f32, rounded where the value is defined. */
static KExpr value_pointwise(KBuild *b, const Node *n, const TypeInfo *ty, const Dim *at)
{
    if (n->op == OP_detach)
        return kbuild_value(b, n->in[0], at);
    KExprInfo x = {.kind = KE_OP, .op = n->op, .nin = n->nin};
    if (n->op == OP_extern) {
        x.kind = KE_EXTERN;
        x.text = (Sym){(uint32_t)node_int(n, ATTR_text)};
    }
    for (uint32_t i = 0; i < n->nin; i++) {
        KExpr e = kbuild_value(b, n->in[i], at);
        x.in[i] = kbuild_cast(b, e, dtype_compute(kexpr(b->k, e)->type));
    }
    if (n->op == OP_eq || n->op == OP_ne)
        compare_narrow(b, &x);
    x.type = dtype_compute(ty->dtype);
    return kbuild_cast(b, make(b, x), ty->dtype);
}

static KExpr value_cast(KBuild *b, const Node *n, const TypeInfo *ty, const Dim *at)
{
    KExpr e = kbuild_value(b, n->in[0], at);
    if (n->op == OP_cast)
        return kbuild_cast(b, e, ty->dtype);
    return make(b, (KExprInfo){.kind = KE_BITCAST, .type = ty->dtype, .nin = 1, .in = {e}});
}

/* --- views
 * ---------------------------------------------------------------------------------------- */

static KExpr value_broadcast(KBuild *b, const Node *n, const Dim *at)
{
    const TypeInfo *in = val_info(b->l->p, b->l->g, n->in[0]);
    Attr dims = node_attr(n, ATTR_dims);
    Dim inner[MAX_RANK];
    for (uint32_t i = 0; i < in->rank; i++)
        inner[i] = dim_is_one(b->l->t, in->shape[i]) ? dim_const(b->l->t, 0) : at[dims.at[i]];
    return kbuild_value(b, n->in[0], inner);
}

static KExpr value_reshape(KBuild *b, const Node *n, const TypeInfo *ty, const Dim *at)
{
    const TypeInfo *in = val_info(b->l->p, b->l->g, n->in[0]);
    Dim inner[MAX_RANK];
    index_reshape(b->l->t, in->shape, in->rank, ty->shape, ty->rank, at, inner);
    return kbuild_value(b, n->in[0], inner);
}

static KExpr value_transpose(KBuild *b, const Node *n, const TypeInfo *ty, const Dim *at)
{
    Attr perm = node_attr(n, ATTR_perm);
    Dim inner[MAX_RANK];
    for (uint32_t i = 0; i < ty->rank; i++)
        inner[perm.at[i]] = at[i];
    return kbuild_value(b, n->in[0], inner);
}

static KExpr value_slice(KBuild *b, const Node *n, const TypeInfo *ty, const Dim *at)
{
    DimTable *t = b->l->t;
    Attr step = node_attr(n, ATTR_step);
    Dim inner[MAX_RANK];
    for (uint32_t i = 0; i < ty->rank; i++)
        inner[i] =
            dim_add(t, node_dim(n, ATTR_start, i), dim_mul(t, dim_const(t, step.at[i]), at[i]));
    return kbuild_value(b, n->in[0], inner);
}

/* --- what needs a predicate
 * ----------------------------------------------------------------------- */

typedef struct {
    VEC(GuardTerm) terms;
    bool never;
} Pred;

/* a <= b, unless that is known. */
static void pred_le(KBuild *b, Pred *p, Dim x, Dim y)
{
    Answer known = dim_le(b->l->t, x, y);
    if (known == NO)
        p->never = true;
    if (known == UNKNOWN)
        vec_push(b->l->a, &p->terms, ((GuardTerm){.kind = G_LE, .a = x, .b = y}));
}

/* yes() where the predicate holds, else `otherwise`. */
static KExpr guarded(KBuild *b, Pred *p, Val v, const Dim *at, KExpr otherwise)
{
    if (p->never)
        return otherwise;
    if (!p->terms.n)
        return kbuild_value(b, v, at);
    uint32_t before = b->guard.n;
    for (uint32_t i = 0; i < p->terms.n; i++)
        vec_push(b->l->a, &b->guard, p->terms.at[i]);
    KExpr yes = kbuild_value(b, v, at);
    b->guard.n = before;
    return make(b, (KExprInfo){.kind = KE_SELECT,
                               .type = kexpr(b->k, yes)->type,
                               .nin = 2,
                               .in = {yes, otherwise},
                               .pred = {p->terms.at, p->terms.n}});
}

/* q / every, of an axis of that size: where that is inside, and exact. */
static Dim pred_place(KBuild *b, Pred *p, Dim q, Dim size, int64_t every)
{
    DimTable *t = b->l->t;
    const Dim span = dim_mul(t, dim_sub(t, size, dim_const(t, 1)), dim_const(t, every));
    pred_le(b, p, dim_const(t, 0), q);
    pred_le(b, p, q, span);
    if (every > 1 && dim_divisible(t, q, every) != YES)
        vec_push(b->l->a, &p->terms, ((GuardTerm){.kind = G_DIVISIBLE, .a = q, .k = every}));
    return dim_floordiv(t, q, dim_const(t, every));
}

static KExpr value_pad(KBuild *b, const Node *n, const TypeInfo *ty, const Dim *at)
{
    DimTable *t = b->l->t;
    const TypeInfo *in = val_info(b->l->p, b->l->g, n->in[0]);
    Attr interior = node_attr(n, ATTR_interior);
    Pred p = {0};
    Dim inner[MAX_RANK], one = dim_const(t, 1);
    for (uint32_t i = 0; i < ty->rank; i++) {
        int64_t every = interior.at[i] + 1;
        Dim lo = node_dim(n, ATTR_lo, i), x = dim_sub(t, at[i], lo);
        Dim span = dim_mul(t, dim_sub(t, in->shape[i], one), dim_const(t, every));
        pred_le(b, &p, dim_const(t, 0), x);
        pred_le(b, &p, x, span);
        if (every > 1 && dim_divisible(t, x, every) != YES)
            vec_push(b->l->a, &p.terms, ((GuardTerm){.kind = G_DIVISIBLE, .a = x, .k = every}));
        inner[i] = dim_floordiv(t, x, dim_const(t, every));
    }
    return guarded(b, &p, n->in[0], inner, kbuild_value(b, n->in[1], NULL));
}

/* y[.., o, .., k] is x[.., o * stride + k * dilation - lo, ..] of an x that is spread out. */
static KExpr value_window(KBuild *b, const Node *n, const Dim *at)
{
    DimTable *t = b->l->t;
    const TypeInfo x = *val_info(b->l->p, b->l->g, n->in[0]);
    const Attr axes = node_attr(n, ATTR_axes);
    Window w[MAX_RANK];
    Dim inner[MAX_RANK];
    Pred p = {0};
    node_windows(b->l->p, b->l->g, n, w);
    for (uint32_t i = 0; i < x.rank; i++)
        inner[i] = at[i];
    for (uint32_t i = 0; i < axes.n; i++) {
        const Dim o = at[axes.at[i]], k = at[x.rank + i];
        Dim q = dim_add(t, dim_mul(t, o, dim_const(t, w[i].stride)),
                        dim_mul(t, k, dim_const(t, w[i].dilation)));
        q = dim_sub(t, q, w[i].lo);
        inner[axes.at[i]] = pred_place(b, &p, q, x.shape[axes.at[i]], w[i].spread);
    }
    const KExpr around = n->nin > 1 ? kbuild_value(b, n->in[1], NULL) : kbuild_const(b, x.dtype, 0);
    return guarded(b, &p, n->in[0], inner, around);
}

/* z[.., i, .., k] is y[.., o, .., k] with o * stride + k * dilation - lo = i * spread. */
static KExpr value_unwindow(KBuild *b, const Node *n, const Dim *at)
{
    DimTable *t = b->l->t;
    const TypeInfo y = *val_info(b->l->p, b->l->g, n->in[0]);
    const Attr axes = node_attr(n, ATTR_axes);
    Window w[MAX_RANK];
    Dim inner[MAX_RANK];
    Pred p = {0};
    node_windows(b->l->p, b->l->g, n, w);
    for (uint32_t i = 0; i < y.rank; i++)
        inner[i] = at[i];
    for (uint32_t i = 0; i < axes.n; i++) {
        const Dim k = at[y.rank - axes.n + i];
        Dim q = dim_mul(t, at[axes.at[i]], dim_const(t, w[i].spread));
        q = dim_add(t, q, dim_sub(t, w[i].lo, dim_mul(t, k, dim_const(t, w[i].dilation))));
        inner[axes.at[i]] = pred_place(b, &p, q, y.shape[axes.at[i]], w[i].stride);
    }
    return guarded(b, &p, n->in[0], inner, kbuild_const(b, y.dtype, 0));
}

static KExpr concat_from(KBuild *b, const Node *n, uint32_t k, uint32_t axis, Dim start,
                         const TypeInfo *ty, const Dim *at)
{
    DimTable *t = b->l->t;
    Dim inner[MAX_RANK];
    for (uint32_t i = 0; i < ty->rank; i++)
        inner[i] = at[i];
    inner[axis] = dim_sub(t, at[axis], start);
    Dim end = dim_add(t, start, val_info(b->l->p, b->l->g, n->in[k])->shape[axis]);
    if (k + 1 == n->nin)
        return kbuild_value(b, n->in[k], inner);
    Pred p = {0};
    pred_le(b, &p, dim_add(t, at[axis], dim_const(t, 1)), end);
    if (!p.never && !p.terms.n)
        return kbuild_value(b, n->in[k], inner);
    KExpr rest;
    if (p.never)
        return concat_from(b, n, k + 1, axis, end, ty, at);
    uint32_t before = b->guard.n;
    vec_push(b->l->a, &b->guard, ((GuardTerm){.kind = G_LE, .a = end, .b = at[axis]}));
    rest = concat_from(b, n, k + 1, axis, end, ty, at);
    b->guard.n = before;
    return guarded(b, &p, n->in[k], inner, rest);
}

/* The integer of a gather: loaded, checked or clamped. Under a guard it may not be loaded at all.
 */
static Dim loaded_index(KBuild *b, const Node *n, const Dim *at, Dim extent, Pred *p)
{
    DimTable *t = b->l->t;
    KExpr e = kbuild_cast(b, kbuild_value(b, n->in[1], at), DT_i64);
    if (b->guard.n) {
        GuardTerm *terms = arena_array(b->l->a, GuardTerm, b->guard.n);
        memcpy(terms, b->guard.at, b->guard.n * sizeof *terms);
        KExpr zero = make(b, (KExprInfo){.kind = KE_CONST, .type = DT_i64});
        e = make(b, (KExprInfo){.kind = KE_SELECT,
                                .type = DT_i64,
                                .nin = 2,
                                .in = {e, zero},
                                .pred = {terms, b->guard.n}});
    }
    Symbol s = {0};
    for (uint32_t i = 0; i < b->loaded.n; i++)
        if (b->loaded.at[i].expr.id == e.id)
            s = b->loaded.at[i].symbol;
    if (!s.id) {
        Sym name = kbuild_name(b, b->l->g->nodes.at[n->in[1].node].hint, "at");
        s = dim_new_symbol(t, SYM_LOADED, name, (Dim){0});
        vec_push(b->l->a, &b->loaded, ((Loaded){.symbol = s, .expr = e, .site = n->site}));
    }
    Dim d = dim_of(t, s), zero = dim_const(t, 0), last = dim_sub(t, extent, dim_const(t, 1));
    int64_t mode = node_int(n, ATTR_mode);
    if (mode == GATHER_CLAMP)
        return dim_max(t, zero, dim_min(t, d, last));
    GuardTerm range[2] = {{.kind = G_LE, .a = zero, .b = d}, {.kind = G_LE, .a = d, .b = last}};
    for (int i = 0; i < 2; i++)
        vec_push(b->l->a, &p->terms, range[i]);
    for (uint32_t i = 0; mode == GATHER_CHECK && i < b->loaded.n; i++) {
        if (b->loaded.at[i].symbol.id == s.id) {
            GuardTerm *check = arena_array(b->l->a, GuardTerm, 2);
            memcpy(check, range, sizeof range);
            b->loaded.at[i].check = (Guard){check, 2};
        }
    }
    return d;
}

/* out[b.., m.., i.., r..] = x[b.., m.., idx[b.., i..], r..]: the first `axis` axes are x's. */
static KExpr value_gather(KBuild *b, const Node *n, const TypeInfo *ty, const Dim *at)
{
    const TypeInfo *x = val_info(b->l->p, b->l->g, n->in[0]);
    const TypeInfo *idx = val_info(b->l->p, b->l->g, n->in[1]);
    uint32_t axis = (uint32_t)node_int(n, ATTR_axis), batch = (uint32_t)node_int(n, ATTR_batch);
    Dim where[MAX_RANK], inner[MAX_RANK];
    for (uint32_t i = 0; i < idx->rank; i++)
        where[i] = i < batch ? at[i] : at[axis + i - batch];
    Pred p = {0};
    for (uint32_t i = 0; i < x->rank; i++) {
        if (i < axis)
            inner[i] = at[i];
        else if (i > axis)
            inner[i] = at[i + idx->rank - batch - 1];
    }
    inner[axis] = loaded_index(b, n, where, x->shape[axis], &p);
    return guarded(b, &p, n->in[0], inner, kbuild_const(b, ty->dtype, 0));
}

/* --- the dispatcher
 * ------------------------------------------------------------------------------- */

static KExpr value_reduced(KBuild *b, Val v, const TypeInfo *ty)
{
    uint32_t acc = b->l->acc_of[v.node];
    if (!acc)
        die("a reduction is read where it is not known: node %u", v.node);
    const KAcc *a = &b->k->accs.at[acc - 1];
    for (uint32_t i = 0; i < b->results.n; i++)
        if (b->results.at[i].acc == acc - 1 && b->results.at[i].result == v.result)
            return kbuild_cast(b, b->results.at[i].expr, ty->dtype);
    bool index = v.result == 1 && a->reducer != RED_moments;
    KExpr e = make(b, (KExprInfo){.kind = KE_ACC,
                                  .type = index ? DT_i64 : a->type,
                                  .acc = acc - 1,
                                  .field = v.result});
    return kbuild_cast(b, e, ty->dtype);
}

static KExpr value_made(KBuild *b, Val v, const Dim *at)
{
    const Node *n = graph_node(b->l->g, v);
    const TypeInfo *ty = val_info(b->l->p, b->l->g, v);
    if (op_is_pointwise(n->op))
        return value_pointwise(b, n, ty, at);
    switch (n->op) {
    case OP_extern:
        return value_pointwise(b, n, ty, at);
    case OP_const:
        return value_const(b, n, ty->dtype);
    case OP_iota:
        return index_expr(b, at[node_int(n, ATTR_axis)], ty->dtype);
    case OP_dim:
        return index_expr(b, node_dim(n, ATTR_shape, 0), ty->dtype);
    case OP_key:
        return value_key(b, n);
    case OP_random:
        return value_random(b, n, ty, at);
    case OP_cast:
    case OP_bitcast:
        return value_cast(b, n, ty, at);
    case OP_broadcast:
        return value_broadcast(b, n, at);
    case OP_reshape:
        return value_reshape(b, n, ty, at);
    case OP_transpose:
        return value_transpose(b, n, ty, at);
    case OP_slice:
        return value_slice(b, n, ty, at);
    case OP_pad:
        return value_pad(b, n, ty, at);
    case OP_concat:
        return concat_from(b, n, 0, (uint32_t)node_int(n, ATTR_axis), dim_const(b->l->t, 0), ty,
                           at);
    case OP_window:
        return value_window(b, n, at);
    case OP_unwindow:
        return value_unwindow(b, n, at);
    case OP_gather:
        return value_gather(b, n, ty, at);
    case OP_reduce:
        return value_reduced(b, v, ty);
    case OP_transfer:
    case OP_print:
        return kbuild_value(b, n->in[0], at);
    default:
        die("no expression for operator %s", op_name(n->op));
    }
}

/* A value is read from its buffer unless the group itself computes it. */
static bool is_loaded(KBuild *b, Val v)
{
    if (b->l->acc_of[v.node])
        return false;
    const FuseBuffer *buf = fuse_buffer(b->l->f, v);
    return buf && (buf->group < (int32_t)b->l->group_first || buf->group > (int32_t)b->l->group ||
                   buf->is_concat);
}

KExpr kbuild_value(KBuild *b, Val v, const Dim *at)
{
    const Node *n = graph_node(b->l->g, v);
    const TypeInfo *ty = val_info(b->l->p, b->l->g, v);
    Memo key;
    memset(&key, 0, sizeof key);
    key.node = v.node;
    key.result = v.result;
    key.guard = guard_key(b);
    if (ty->rank)
        memcpy(key.at, at, ty->rank * sizeof *at);
    if (b->memo_size) {
        const Memo *known = memo_find(b, &key);
        if (known->node)
            return known->expr;
    }
    bool stored = is_loaded(b, v);
    key.expr = stored ? load(b, v, lower_loc(b->l, v), at) : value_made(b, v, at);
    memo_put(b, key);
    if (!stored) {
        KExprInfo *x = &b->k->exprs.at[key.expr.id];
        if (!x->name.id)
            x->name = n->hint;
        if (!x->site.at.file)
            x->site = n->site;
        vec_push(b->l->p->cx->scratch, &b->sites, n->site);
    }
    return key.expr;
}
