/* elab_op.c: operators on values: promotion as PyTorch's, broadcasting with the user's shapes in
 * the messages, and emission of pointwise nodes. SPDX-License-Identifier: MIT */
#include "frontend/elab_number.h"

#include <math.h>
#include <string.h>

Val t_const(Elab *e, DType t, double v)
{
    return build_const(&e->b, t, v);
}

/* ---- promotion ---- */

/* torch's combine_categories: `low` only counts where its category is higher. */
static DType combine(DType high, DType low)
{
    if (high == DT_none)
        return low;
    if (low == DT_none || dtype_is_float(high))
        return high;
    if (high == DT_bool || dtype_is_float(low))
        return dtype_promote(high, low);
    return high;
}

static DType join(DType a, DType b)
{
    return a == DT_none ? b : b == DT_none ? a : dtype_promote(a, b);
}

/* The type that a number brings: only its category matters. */
static DType number_dtype(Elab *e, const Value *v)
{
    switch (v->kind) {
    case V_float:
        return e->float_type;
    case V_bool:
        return DT_bool;
    case V_late: {
        DType t = value_type(e, v)->dtype;
        return t == DT_f64 ? e->float_type : t;
    }
    default:
        return DT_i64;
    }
}

DType promote_values(Elab *e, const Value *const *v, uint32_t n)
{
    DType dims = DT_none, zero = DT_none, number = DT_none;
    for (uint32_t i = 0; i < n; i++) {
        if (v[i]->kind != V_tensor) {
            number = join(number, number_dtype(e, v[i]));
            continue;
        }
        const TypeInfo *t = value_type(e, v[i]);
        if (t->rank)
            dims = join(dims, t->dtype);
        else
            zero = join(zero, t->dtype);
    }
    return combine(dims, combine(zero, number));
}

Val val_as(Elab *e, const Value *v, DType t)
{
    switch (v->kind) {
    case V_int:
        if (!dtype_is_float(t) && t != DT_bool)
            return build_const_int(&e->b, t, v->i);
        return build_const(&e->b, t, (double)v->i);
    case V_bool:
        return build_const(&e->b, t, (double)v->i);
    case V_float:
        if (!dtype_is_float(t))
            return build_cast(&e->b, build_const(&e->b, DT_f64, v->f), t);
        return build_const(&e->b, t, v->f);
    default:
        return build_cast(&e->b, use_val(e, v), t);
    }
}

/* ---- broadcasting ---- */

static void pad_to(StrBuf *b, size_t n)
{
    while (b->n < n)
        sb_putc(b, ' ');
}

/* The shapes right-aligned axis by axis, the axis that does not fit marked. */
static void note_aligned(Elab *e, Diag *d, const Shape *x, const Shape *y, uint32_t bad)
{
    StrBuf lines[3] = {{.a = e->a}, {.a = e->a}, {.a = e->a}};
    uint32_t rank = x->rank > y->rank ? x->rank : y->rank;
    for (uint32_t k = rank; k-- > 0;) { /* k: axis counted from the end */
        const uint32_t p = x->rank - 1 - k, q = y->rank - 1 - k;
        const char *a = k < x->rank ? size_str(e, x->how[p], x->at[p]) : "";
        const char *c = k < y->rank ? size_str(e, y->how[q], y->at[q]) : "";
        size_t width = strlen(a) > strlen(c) ? strlen(a) : strlen(c);
        size_t end = lines[0].n + width + 1;
        pad_to(&lines[0], end - strlen(a));
        sb_puts(&lines[0], a);
        pad_to(&lines[1], end - strlen(c));
        sb_puts(&lines[1], c);
        while (lines[2].n < end)
            sb_putc(&lines[2], k == bad && lines[2].n + width >= end ? '^' : ' ');
        if (k)
            for (int i = 0; i < 3; i++)
                sb_putc(&lines[i], i == 2 ? ' ' : ',');
    }
    diag_note(e->diags, d, (Span){0}, "aligned at the last axis: [%s ]", sb_text(&lines[0]));
    diag_note(e->diags, d, (Span){0}, "                          [%s ]", sb_text(&lines[1]));
    diag_note(e->diags, d, (Span){0}, "                           %s", sb_text(&lines[2]));
}

static bool fits_axis(Elab *e, Span at, Dim x, Dim y, Dim *out)
{
    if (dim_is_one(e->dims, x) || dim_is_one(e->dims, y)) {
        *out = dim_is_one(e->dims, x) ? y : x;
        return true;
    }
    *out = x;
    return prove_equal(e, at, x, y);
}

/* Fills in how the sizes of the first n operands, joined, were written. */
static void describe(Elab *e, const Value *const *in, uint32_t n, Shape *all)
{
    for (uint32_t i = 0; i < n; i++) {
        if (in[i]->kind != V_tensor)
            continue;
        const Shape s = written_shape(e, use_val(e, in[i]));
        for (uint32_t k = 0; k < s.rank; k++) {
            const uint32_t to = all->rank - s.rank + k;
            if (!all->how[to] && dim_same(all->at[to], s.at[k]))
                all->how[to] = s.how[k];
        }
    }
}

/* `x[:, none]` and its kind: who writes a new axis means what follows. An axis that a sum keeps is
 * none. */
static bool has_new_axis(Elab *e, const Value *x)
{
    const Val v = use_val(e, x);
    const Node *n = graph_node(e->b.g, v);
    return n->op == OP_reshape && graph_node(e->b.g, n->in[0])->op != OP_reduce &&
           val_info(e->p, e->b.g, n->in[0])->rank < val_info(e->p, e->b.g, v)->rank;
}

/* The operands before n and n itself have as many elements as each other, all together more, and
 * nobody has written where the axes go. */
static void warn_broadcast(Elab *e, Span at, const Value *const *in, uint32_t n, Shape *so_far,
                           Shape *all)
{
    const TypeInfo *y = value_type(e, in[n]);
    if (so_far->rank == 0 || y->rank == 0 || so_far->rank == y->rank)
        return;
    const Dim nx = dim_product(e->dims, so_far->at, so_far->rank);
    const Dim ny = dim_product(e->dims, y->shape, y->rank);
    if (!dim_same(nx, ny) || dim_same(dim_product(e->dims, all->at, all->rank), nx))
        return;
    for (uint32_t i = 0; i <= n; i++)
        if (in[i]->kind == V_tensor && has_new_axis(e, in[i]))
            return;
    describe(e, in, n, so_far);
    describe(e, in, n + 1, all);
    elab_error(e, DIAG_broadcast, at, "%s and %s broadcast to %s", shape_str(e, so_far),
               val_shape_str(e, use_val(e, in[n])), shape_str(e, all));
}

static bool broadcast_error(Elab *e, Span at, const Value *const *in, const Span *in_at, uint32_t n,
                            Shape *so_far, Span so_far_at, uint32_t bad)
{
    describe(e, in, n, so_far);
    const Shape y = written_shape(e, use_val(e, in[n]));
    const uint32_t i = so_far->rank - 1 - bad, k = y.rank - 1 - bad;
    const SizePair pair = {NULL, so_far->how[i], y.how[k], so_far->at[i], y.at[k]};
    Diag *d = sizes_error(e, DIAG_broadcast_mismatch, at, &pair, "cannot broadcast %s with %s",
                          shape_str(e, so_far), shape_str(e, &y));
    diag_range(d, so_far_at);
    diag_range(d, in_at[n]);
    note_aligned(e, d, so_far, &y, bad);
    said_values(e, "");
    return false;
}

/* Joins the shape of operand n to that of those before it. */
static bool join_shape(Elab *e, Span at, const Value *const *in, const Span *in_at, uint32_t n,
                       Shape *so_far, Span so_far_at)
{
    const TypeInfo *y = value_type(e, in[n]);
    const Shape x = *so_far;
    Shape all = {.rank = x.rank > y->rank ? x.rank : y->rank};
    for (uint32_t k = 0; k < all.rank; k++) {
        Dim *to = &all.at[all.rank - 1 - k];
        if (k >= x.rank)
            *to = y->shape[y->rank - 1 - k];
        else if (k >= y->rank)
            *to = x.at[x.rank - 1 - k];
        else if (!fits_axis(e, at, x.at[x.rank - 1 - k], y->shape[y->rank - 1 - k], to))
            return broadcast_error(e, at, in, in_at, n, so_far, so_far_at, k);
    }
    warn_broadcast(e, at, in, n, so_far, &all);
    memset(all.how, 0, sizeof all.how);
    *so_far = all;
    return true;
}

bool check_broadcast(Elab *e, Span at, const Value *const *in, const Span *in_at, uint32_t n)
{
    Shape so_far = {0};
    Span so_far_at = in_at[0];
    for (uint32_t i = 0; i < n; i++) {
        if (in[i]->kind != V_tensor)
            continue;
        if (!join_shape(e, at, in, in_at, i, &so_far, so_far_at))
            return false;
        so_far_at = in_at[i];
    }
    return true;
}

/* ---- pointwise ---- */

static bool is_math_op(Op op, double a, double b, double c, double *out)
{
    switch (op) {
    case OP_neg:
        *out = -a;
        break;
    case OP_abs:
        *out = fabs(a);
        break;
    case OP_sign:
        *out = (a > 0) - (a < 0);
        break;
    case OP_square:
        *out = a * a;
        break;
    case OP_reciprocal:
        *out = 1 / a;
        break;
    case OP_exp:
        *out = exp(a);
        break;
    case OP_exp2:
        *out = exp2(a);
        break;
    case OP_expm1:
        *out = expm1(a);
        break;
    case OP_log:
        *out = log(a);
        break;
    case OP_log2:
        *out = log2(a);
        break;
    case OP_log10:
        *out = log10(a);
        break;
    case OP_log1p:
        *out = log1p(a);
        break;
    case OP_sqrt:
        *out = sqrt(a);
        break;
    case OP_rsqrt:
        *out = 1 / sqrt(a);
        break;
    case OP_sigmoid:
        *out = 1 / (1 + exp(-a));
        break;
    case OP_tanh:
        *out = tanh(a);
        break;
    case OP_sinh:
        *out = sinh(a);
        break;
    case OP_cosh:
        *out = cosh(a);
        break;
    case OP_sin:
        *out = sin(a);
        break;
    case OP_cos:
        *out = cos(a);
        break;
    case OP_tan:
        *out = tan(a);
        break;
    case OP_asin:
        *out = asin(a);
        break;
    case OP_acos:
        *out = acos(a);
        break;
    case OP_atan:
        *out = atan(a);
        break;
    case OP_atan2:
        *out = atan2(a, b);
        break;
    case OP_erf:
        *out = erf(a);
        break;
    case OP_erfc:
        *out = erfc(a);
        break;
    case OP_floor:
        *out = floor(a);
        break;
    case OP_ceil:
        *out = ceil(a);
        break;
    case OP_round:
        *out = nearbyint(a);
        break;
    case OP_trunc:
        *out = trunc(a);
        break;
    case OP_pow:
        *out = pow(a, b);
        break;
    case OP_min:
        *out = a < b ? a : b;
        break;
    case OP_max:
        *out = a > b ? a : b;
        break;
    case OP_clamp:
        *out = a < b ? (b < c ? b : c) : a > c ? c : a;
        break;
    case OP_relu:
        *out = a < 0 ? 0 : a;
        break;
    case OP_detach:
        *out = a;
        break;
    default:
        return false;
    }
    return true;
}

/* Integers stay integers in these. */
static bool keeps_int(Op op)
{
    return op == OP_neg || op == OP_abs || op == OP_sign || op == OP_square || op == OP_min ||
           op == OP_max || op == OP_clamp || op == OP_relu || op == OP_detach || op == OP_floor ||
           op == OP_ceil || op == OP_round || op == OP_trunc;
}

static bool static_pointwise(Elab *e, Op op, Span at, const Value *const *in, uint32_t n,
                             Value *out)
{
    double x[3] = {0}, y = 0;
    bool ints = true;
    for (uint32_t i = 0; i < n; i++) {
        if (!is_static_number(in[i]))
            return false;
        x[i] = static_number(in[i]);
        ints &= in[i]->kind == V_int;
    }
    if (!is_math_op(op, x[0], x[1], x[2], &y))
        return false;
    if (y != y && x[0] == x[0]) {
        elab_error(e, DIAG_bad_number, at, "%s of %s is not a number", op_name(op),
                   value_text(e, in[0]));
        *out = v_poison();
        return true;
    }
    bool rounds = op == OP_floor || op == OP_ceil || op == OP_round || op == OP_trunc;
    bool fits = fabs(y) < 9.0e15;
    *out = ((ints && keeps_int(op)) || rounds) && fits ? v_int((int64_t)y) : v_float(y);
    if (op == OP_min || op == OP_max)
        written_call(e, op_name(op), in[0], in[1], out);
    return true;
}

static bool size_minmax(Elab *e, Op op, const Value *const *in, Value *out)
{
    Dim a, b;
    if ((op != OP_min && op != OP_max) || !value_dim(e, in[0], &a) || !value_dim(e, in[1], &b))
        return false;
    *out = v_dim(e, op == OP_min ? dim_min(e->dims, a, b) : dim_max(e->dims, a, b));
    written_call(e, op_name(op), in[0], in[1], out);
    return true;
}

static bool bad_operand(Elab *e, Op op, Span at, const Value *v)
{
    if (!is_poison(v))
        elab_error(e, DIAG_bad_type, at, "%s wants a number or a tensor, not %s", op_name(op),
                   a_kind(v));
    return false;
}

/* The dtype in which an op computes; DT_none after a message. */
static DType op_dtype(Elab *e, Op *op, Span at, DType t, bool force_float)
{
    Domain dom = op_info(*op)->domain;
    if ((dom == DOM_FLOAT || force_float) && !dtype_is_float(t))
        return e->float_type;
    if (dom == DOM_NUMBER && t == DT_bool) {
        if (*op == OP_mul || *op == OP_add) {
            *op = *op == OP_mul ? OP_and : OP_or;
            return t;
        }
        if (*op == OP_min || *op == OP_max) {
            *op = *op == OP_min ? OP_and : OP_or;
            return t;
        }
        elab_error(e, DIAG_dtype_mismatch, at, "%s of bool tensors: use ~ & | ^, or .to(i64)",
                   op_name(*op));
        return DT_none;
    }
    if (dom == DOM_BITS && dtype_is_float(t)) {
        elab_error(e, DIAG_dtype_mismatch, at, "bit operations want integers or bool, not %s",
                   dtype_name(t));
        return DT_none;
    }
    return t;
}

bool pointwise(Elab *e, Op op, Span at, const Value *const *in, const Span *in_at, uint32_t n,
               bool force_float, Value *out)
{
    *out = v_poison();
    bool has_tensor = false, has_float = false;
    for (uint32_t i = 0; i < n; i++) {
        const Value *v = in[i];
        if (!is_number(v) && v->kind != V_tensor && v->kind != V_bool)
            return bad_operand(e, op, in_at[i], v);
        has_tensor |= v->kind == V_tensor;
        has_float |= v->kind == V_float || (v->kind == V_late && value_type(e, v)->dtype == DT_f64);
    }
    if (!has_tensor && static_pointwise(e, op, at, in, n, out))
        return !is_poison(out);
    if (!has_tensor && n == 2 && size_minmax(e, op, in, out))
        return true;
    uint32_t first = op == OP_where ? 1 : 0;
    DType t;
    if (has_tensor)
        t = promote_values(e, in + first, n - first);
    else
        t = has_float ? DT_f64 : DT_i64;
    if (!has_tensor && t != DT_f64) {
        bool bools = true;
        for (uint32_t i = first; i < n; i++)
            bools &= in[i]->kind == V_bool ||
                     (in[i]->kind == V_late && value_type(e, in[i])->dtype == DT_bool);
        t = bools ? DT_bool : t;
    }
    if (!has_tensor && (op_info(op)->domain == DOM_FLOAT || force_float))
        t = DT_f64;
    t = op_dtype(e, &op, at, t, force_float);
    if (t == DT_none || (has_tensor && !check_broadcast(e, at, in, in_at, n)))
        return false;
    Val x[3];
    for (uint32_t i = 0; i < n; i++)
        x[i] = val_as(e, in[i], i < first ? DT_bool : t);
    Val y = n == 1   ? build1(&e->b, op, x[0])
            : n == 2 ? build2(&e->b, op, x[0], x[1])
                     : build3(&e->b, op, x[0], x[1], x[2]);
    if (has_tensor)
        return give(e, y, out);
    *out = v_late(e, y);
    return true;
}

/* ---- operators ---- */

static Op op_of(AstOp op)
{
    switch (op) {
    case AST_add:
        return OP_add;
    case AST_sub:
        return OP_sub;
    case AST_mul:
        return OP_mul;
    case AST_div:
        return OP_div;
    case AST_floordiv:
        return OP_floordiv;
    case AST_mod:
        return OP_mod;
    case AST_pow:
        return OP_pow;
    case AST_eq:
        return OP_eq;
    case AST_ne:
        return OP_ne;
    case AST_lt:
        return OP_lt;
    case AST_le:
        return OP_le;
    case AST_gt:
        return OP_gt;
    case AST_ge:
        return OP_ge;
    case AST_band:
        return OP_and;
    case AST_bor:
        return OP_or;
    case AST_xor:
        return OP_xor;
    case AST_shl:
        return OP_shl;
    case AST_shr:
        return OP_shr;
    default:
        return OP_none;
    }
}

/* x ** n for a small constant: products, as PyTorch does for 2 and 3, and roots. */
static bool pow_special(Elab *e, Span at, const Value *a, Span a_at, const Value *b, Value *out)
{
    if (a->kind != V_tensor || !is_static_number(b))
        return false;
    double n = static_number(b);
    DType t = value_type(e, a)->dtype;
    if (!dtype_is_float(t) && (b->kind == V_float || n < 0))
        return false;
    if (n == 0.5 || n == -0.5)
        return pointwise(e, n > 0 ? OP_sqrt : OP_rsqrt, at, &a, &a_at, 1, true, out);
    if (n == -1)
        return pointwise(e, OP_reciprocal, at, &a, &a_at, 1, true, out);
    if (n != floor(n) || n < 0 || (dtype_is_float(t) && n > 4) || n > 64)
        return false;
    Val x = use_val(e, a);
    if (t == DT_bool)
        x = build_cast(&e->b, x, t = DT_i64);
    const TypeInfo *ty = type_at(e, x);
    if (n == 0) {
        *out = v_tensor(e, build_full(&e->b, t, 1, ty->shape, ty->rank));
        return true;
    }
    Val y = n >= 2 ? build1(&e->b, OP_square, x) : x;
    Val square = y;
    for (int64_t k = 2; k + 2 <= (int64_t)n; k += 2)
        y = build2(&e->b, OP_mul, y, square);
    if (n > 2 && (int64_t)n % 2)
        y = build2(&e->b, OP_mul, y, x);
    *out = v_tensor(e, y);
    return true;
}

static bool operands_error(Elab *e, AstOp op, Span at, const Value *a, Span a_at, const Value *b,
                           Span b_at)
{
    Diag *d = elab_error(e, DIAG_bad_type, at, "'%s' does not work on %s and %s", ast_op_text(op),
                         a_kind(a), a_kind(b));
    diag_range(d, a_at);
    diag_range(d, b_at);
    return false;
}

static bool numeric(const Value *v)
{
    return is_number(v) || v->kind == V_tensor || v->kind == V_bool;
}

/* Of sizes: what messages can show again. */
static void written_arithmetic(Elab *e, AstOp op, const Value *a, const Value *b, Value *out)
{
    if (op == AST_add || op == AST_sub || op == AST_mul || op == AST_floordiv || op == AST_mod ||
        op == AST_pow)
        written_op(e, op, a, b, out);
}

bool binary_op(Elab *e, AstOp op, Span at, const Value *a, Span a_at, const Value *b, Span b_at,
               Value *out)
{
    Value own[2] = {*a, *b}; /* out may be an operand */
    autocast(e, op == AST_matmul ? "@" : op == AST_pow ? "**" : "", own, 2);
    a = &own[0];
    b = &own[1];
    *out = v_poison();
    if (is_poison(a) || is_poison(b))
        return false;
    bool tensor = a->kind == V_tensor || b->kind == V_tensor;
    if (!tensor) {
        if (is_static_number(a) && is_static_number(b) && op != AST_in && op != AST_not_in &&
            op != AST_matmul) {
            *out = number_op(e, op, at, a, b);
            written_arithmetic(e, op, a, b, out);
            return !is_poison(out);
        }
        if (size_op(e, op, at, a, b, out)) {
            written_arithmetic(e, op, a, b, out);
            return !is_poison(out);
        }
        bool late =
            a->kind == V_late || b->kind == V_late || a->kind == V_size || b->kind == V_size;
        if (!(late && numeric(a) && numeric(b)) && object_op(e, op, at, a, b, out))
            return !is_poison(out);
    }
    if (op == AST_matmul && a->kind == V_tensor && b->kind == V_tensor) {
        Val product;
        if (!matmul(e, at, a_at, b_at, use_val(e, a), use_val(e, b), &product))
            return false;
        return give(e, product, out);
    }
    if ((op == AST_eq || op == AST_ne) && (!numeric(a) || !numeric(b))) {
        *out = v_bool(op == AST_ne); /* a tensor against none, a list ... */
        return true;
    }
    Op o = op_of(op);
    if (o == OP_none || !numeric(a) || !numeric(b))
        return operands_error(e, op, at, a, a_at, b, b_at);
    if (op == AST_pow && pow_special(e, at, a, a_at, b, out))
        return true;
    const Value *in[] = {a, b};
    Span in_at[] = {a_at, b_at};
    return pointwise(e, o, at, in, in_at, 2, op == AST_div || op == AST_pow, out);
}

bool unary_op(Elab *e, AstOp op, Span at, const Value *a, Value *out)
{
    *out = v_poison();
    if (is_poison(a))
        return false;
    if (op == AST_inv && a->kind == V_int) {
        *out = v_int(~a->i);
        return true;
    }
    if (op == AST_inv && a->kind == V_bool) {
        *out = v_bool(!a->i);
        return true;
    }
    Dim d;
    if (op == AST_neg && a->kind == V_size && value_dim(e, a, &d)) {
        *out = v_dim(e, dim_sub(e->dims, dim_const(e->dims, 0), d));
        written_negated(e, a, out);
        return true;
    }
    if (op == AST_neg && a->kind == V_int) {
        Value zero = v_int(0);
        *out = number_op(e, AST_sub, at, &zero, a);
        written_negated(e, a, out);
        return !is_poison(out);
    }
    if (!numeric(a) || (op == AST_neg && a->kind == V_bool)) {
        elab_error(e, DIAG_bad_type, at, "'%s' does not work on %s", ast_op_text(op), a_kind(a));
        return false;
    }
    return pointwise(e, op == AST_neg ? OP_neg : OP_not, at, &a, &at, 1, false, out);
}
