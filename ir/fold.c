/* fold.c: the canonical form of scalar work: constants are computed, operations that change nothing
 * are dropped. Only exact rules: a folded program gives the same bits; but for pow(x, 3), which is
 * two products here as it is in torch. Views are in fold_views.c.
 *
 *   mul(x, 1) -> x    sub(x, 0) -> x    neg(neg(x)) -> x    pow(x, 2) -> square(x)
 *   cast(cast(x, wider), t) -> cast(x, t)    where(true, x, y) -> x
 *   mul(where(c, d, 0), t) -> where(c, mul(d, t), 0)  in gradients: what is not taken leaks no NaN
 *   add(where(c, d, 0), where(c, 0, e)) -> where(c, d, e)  in gradients
 *
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/eval_scalar.h"
#include "ir/tensor_internal.h"

#include <math.h>
#include <string.h>

static const Val none = {0, 0};

/* x, if it has the type of the result (an operand may be smaller: implicit broadcasting). */
static Val if_typed(const Builder *b, Val x, Ty type)
{
    const TypeInfo *t = val_info(b->p, b->g, x), *r = type_info(b->p, type);
    if (t->dtype != r->dtype || t->rank != r->rank)
        return none;
    for (uint32_t i = 0; i < t->rank; i++)
        if (!dim_same(t->shape[i], r->shape[i]))
            return none;
    return x;
}

/* A view of `like` filled with a value. */
static Val fill(Builder *b, DType t, ScalarValue v, Ty type)
{
    const TypeInfo r = *type_info(b->p, type);
    const Val c = dtype_is_float(t) ? build_const(b, t, v.f) : build_const_int(b, t, v.i);
    return build_broadcast(b, c, r.shape, r.rank, NULL);
}

static ScalarValue fill_value(const Builder *b, Val v)
{
    const Node *n = val_fill(b->g, v);
    ScalarValue s = {.i = node_int(n, ATTR_value)};
    if (dtype_is_float(val_info(b->p, b->g, v)->dtype))
        s.f = node_f64(n, ATTR_value);
    return s;
}

static Val fold_constants(Builder *b, Op op, const Val *in, uint32_t nin, Ty type)
{
    ScalarValue x[3];
    for (uint32_t i = 0; i < nin; i++) {
        if (!val_fill(b->g, in[i]))
            return none;
        x[i] = fill_value(b, in[i]);
    }
    const DType from = val_info(b->p, b->g, in[nin - 1])->dtype;
    const DType to = type_info(b->p, type)->dtype;
    return fill(b, to, op == OP_cast ? eval_cast(from, to, x[0]) : eval_row(op, from, x), type);
}

/* Every value of `from` is a value of `to`. */
static bool widens(DType from, DType to)
{
    if (from == to || from == DT_bool)
        return true;
    if (to == DT_bool)
        return false;
    static const signed char bits[DT_COUNT] = {
        [DT_f64] = 53, [DT_f32] = 24, [DT_bf16] = 8, [DT_f16] = 11, [DT_i64] = 63,
        [DT_i32] = 31, [DT_i16] = 15, [DT_i8] = 7,   [DT_u8] = 8,   [DT_u64] = 64};
    if (dtype_is_float(from))
        return dtype_is_float(to) && dtype_size(to) > dtype_size(from);
    if (to == DT_f16 || (dtype_kind(to) == DK_UINT && dtype_kind(from) != DK_UINT))
        return from == DT_u8 || from == DT_i8 ? to == DT_f16 : false;
    return bits[from] <= bits[to];
}

static Val fold_cast(Builder *b, Val x, Ty type)
{
    const DType to = type_info(b->p, type)->dtype;
    if (val_info(b->p, b->g, x)->dtype == to)
        return x;
    const Node *n = graph_node(b->g, x);
    if (n->op != OP_cast)
        return none;
    const Val inner = n->in[0];
    return widens(val_info(b->p, b->g, inner)->dtype, val_info(b->p, b->g, x)->dtype)
               ? build_cast(b, inner, to)
               : none;
}

static Val fold_unary(Builder *b, Op op, Val x)
{
    const Node *n = graph_node(b->g, x);
    const bool self_inverse = op == OP_neg || op == OP_not;
    if (self_inverse && n->op == op)
        return n->in[0];
    const bool idempotent = op == OP_abs || op == OP_relu || op == OP_floor || op == OP_ceil ||
                            op == OP_round || op == OP_trunc || op == OP_sign || op == OP_detach;
    if (idempotent && n->op == op)
        return x;
    if ((op == OP_abs || op == OP_square) && n->op == OP_neg)
        return build1(b, op, n->in[0]);
    return none;
}

/* 1 / v is exact and normal. */
static bool exact_reciprocal(DType t, double v)
{
    int e;
    return isfinite(v) && v != 0 && fabs(frexp(v, &e)) == 0.5 && e > -14 && e < 14 && t != DT_none;
}

static Val fold_power(Builder *b, Val x, Val y)
{
    const Val two_or_three = val_is_fill(b->p, b->g, y, 2) || val_is_fill(b->p, b->g, y, 3)
                                 ? build1(b, OP_square, x)
                                 : none;
    if (val_is_fill(b->p, b->g, y, 3))
        return build2(b, OP_mul, two_or_three, x);
    if (val_is_fill(b->p, b->g, y, -1))
        return build1(b, OP_reciprocal, x);
    return two_or_three;
}

static Val fold_binary(Builder *b, Op op, Val x, Val y, Ty type)
{
    const Program *p = b->p;
    const Graph *g = b->g;
    const Val keep = if_typed(b, x, type);
    const DType t = val_info(p, g, x)->dtype;
    const bool exact = !dtype_is_float(t);
    switch (op) {
    case OP_mul:
        return val_is_fill(p, g, y, 1) ? keep : none;
    case OP_add:
        return (exact && val_is_fill(p, g, y, 0)) || val_is_fill(p, g, y, -0.0) ? keep : none;
    case OP_sub:
        return val_is_fill(p, g, y, 0) ? keep : none;
    case OP_div:
        if (val_is_fill(p, g, y, 1))
            return keep;
        if (val_fill(g, y) && exact_reciprocal(t, fill_value(b, y).f))
            return build2(b, OP_mul, x,
                          fill(b, t, (ScalarValue){.f = 1 / fill_value(b, y).f}, val_type(g, y)));
        return none;
    case OP_floordiv:
        return exact && val_is_fill(p, g, y, 1) ? keep : none;
    case OP_pow:
        if (val_is_fill(p, g, y, 1))
            return keep;
        return keep.node ? fold_power(b, x, y) : none;
    case OP_min:
    case OP_max:
        return val_eq(x, y) ? keep : none;
    case OP_and:
    case OP_or:
        if (val_eq(x, y))
            return keep;
        if (t == DT_bool && val_fill(g, y)) {
            const bool one = fill_value(b, y).i != 0;
            return one == (op == OP_and) ? keep : if_typed(b, y, type);
        }
        return none;
    default:
        return none;
    }
}

static Val fold_where(Builder *b, const Val *in, Ty type)
{
    if (val_fill(b->g, in[0]))
        return if_typed(b, fill_value(b, in[0]).i ? in[1] : in[2], type);
    if (val_eq(in[1], in[2]))
        return if_typed(b, in[1], type);
    const Node *n = graph_node(b->g, in[0]);
    if (n->op == OP_not)
        return build3(b, OP_where, n->in[0], in[2], in[1]);
    return none;
}

/* x = where(c, d, 0) or where(c, 0, d): which operand is the 0, or 0. */
static int zero_branch(const Builder *b, Val x)
{
    const Node *n = graph_node(b->g, x);
    if (n->op != OP_where || n->stage < STAGE_BACKWARD)
        return 0;
    for (int k = 2; k >= 1; k--)
        if (val_is_fill(b->p, b->g, n->in[k], 0))
            return k;
    return 0;
}

/* op(where(c, d, 0), t) is 0 where d is not taken, whatever t is. */
static Val fold_masked(Builder *b, Op op, const Val *in, Ty type)
{
    const int nin = op == OP_neg ? 1 : 2;
    for (int i = 0; i < (op == OP_mul ? 2 : 1); i++) {
        const int zero = zero_branch(b, in[i]);
        if (!zero || !if_typed(b, in[i], type).node)
            continue;
        const Node n = *graph_node(b->g, in[i]);
        Val args[2] = {in[0], in[nin - 1]};
        args[i] = n.in[3 - zero];
        const Val taken = build(b, op, args, (uint32_t)nin, NULL);
        if (!if_typed(b, taken, type).node)
            continue;
        return zero == 2 ? build3(b, OP_where, n.in[0], taken, n.in[2])
                         : build3(b, OP_where, n.in[0], n.in[1], taken);
    }
    return none;
}

/* where(c, d, 0) + where(c, 0, e), the gradients of both branches, is where(c, d, e). */
static Val fold_branches(Builder *b, Val x, Val y, Ty type)
{
    const int zero_x = zero_branch(b, x), zero_y = zero_branch(b, y);
    if (!zero_x || !zero_y || zero_x == zero_y || !if_typed(b, x, type).node ||
        !if_typed(b, y, type).node)
        return none;
    const Node m = *graph_node(b->g, x), n = *graph_node(b->g, y);
    if (!val_eq(m.in[0], n.in[0]))
        return none;
    return zero_x == 2 ? build3(b, OP_where, m.in[0], m.in[1], n.in[2])
                       : build3(b, OP_where, m.in[0], n.in[1], m.in[2]);
}

static Val fold_scalar(Builder *b, Op op, const Val *in, uint32_t nin, Ty type, int stage)
{
    Val v = fold_constants(b, op, in, nin, type);
    if (v.node)
        return v;
    if (nin == 1)
        v = fold_unary(b, op, in[0]);
    else if (nin == 2)
        v = fold_binary(b, op, in[0], in[1], type);
    else if (op == OP_where)
        v = fold_where(b, in, type);
    if (!v.node && op == OP_add)
        v = fold_pads(b, in[0], in[1]);
    if (!v.node && op == OP_add && stage >= STAGE_BACKWARD)
        v = fold_branches(b, in[0], in[1], type);
    if (!v.node && op == OP_add && stage == STAGE_BACKWARD)
        v = fold_scatter_sum(b, in[0], in[1]);
    if (!v.node && stage >= STAGE_BACKWARD && (op == OP_mul || op == OP_div || op == OP_neg))
        v = fold_masked(b, op, in, type);
    return v;
}

Val fold_node(Builder *b, Op op, const Val *in, uint32_t nin, const Attr *attrs, Ty type, int stage)
{
    if (op_is_pointwise(op))
        return fold_scalar(b, op, in, nin, type, stage);
    if (op == OP_cast) {
        const Val v = fold_constants(b, op, in, nin, type);
        return v.node ? v : fold_cast(b, in[0], type);
    }
    if (op == OP_dim) {
        int64_t c;
        return dim_is_const(b->p->cx->dims, attr_dim(attrs[0], 0), &c)
                   ? build_const_int(b, DT_i64, c)
                   : none;
    }
    if (op == OP_reduce) {
        const int64_t kind = attrs[0].at[0];
        return attrs[1].n == 0 && reducer_info((Reducer)kind)->nresults == 1 &&
                       kind != RED_logsumexp
                   ? in[0]
                   : none;
    }
    if (op == OP_transfer) {
        const Place to = (Place)attrs[0].at[0];
        if (val_info(b->p, b->g, in[0])->place == to)
            return in[0];
        return graph_node(b->g, in[0])->loose == LOOSE_CONSTANT ? build_at_place(b, in[0], to)
                                                                : none;
    }
    return fold_view(b, op, in, nin, attrs, type);
}
