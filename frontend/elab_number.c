/* elab_number.c: arithmetic on static numbers, sizes, strings and lists.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab_number.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static Value overflow(Elab *e, Span at)
{
    elab_error(e, DIAG_bad_number, at, "the result does not fit 64 bits");
    return v_poison();
}

static Value by_zero(Elab *e, Span at)
{
    elab_error(e, DIAG_bad_number, at, "division by zero");
    return v_poison();
}

static int64_t floordiv_int(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static Value pow_int(Elab *e, Span at, int64_t a, int64_t n)
{
    if (n < 0)
        return v_float(pow((double)a, (double)n));
    int64_t r = 1;
    for (; n > 0; n >>= 1) {
        if ((n & 1) && __builtin_mul_overflow(r, a, &r))
            return overflow(e, at);
        if (n > 1 && __builtin_mul_overflow(a, a, &a))
            return overflow(e, at);
    }
    return v_int(r);
}

static Value int_op(Elab *e, AstOp op, Span at, int64_t a, int64_t b)
{
    int64_t r = 0;
    switch (op) {
    case AST_add:
        return __builtin_add_overflow(a, b, &r) ? overflow(e, at) : v_int(r);
    case AST_sub:
        return __builtin_sub_overflow(a, b, &r) ? overflow(e, at) : v_int(r);
    case AST_mul:
        return __builtin_mul_overflow(a, b, &r) ? overflow(e, at) : v_int(r);
    case AST_div:
        return b ? v_float((double)a / (double)b) : by_zero(e, at);
    case AST_floordiv:
        if (b == 0)
            return by_zero(e, at);
        return a == INT64_MIN && b == -1 ? overflow(e, at) : v_int(floordiv_int(a, b));
    case AST_mod:
        if (b == 0)
            return by_zero(e, at);
        return v_int(b == -1 ? 0 : a - b * floordiv_int(a, b));
    case AST_pow:
        return pow_int(e, at, a, b);
    case AST_lt:
        return v_bool(a < b);
    case AST_le:
        return v_bool(a <= b);
    case AST_gt:
        return v_bool(a > b);
    case AST_ge:
        return v_bool(a >= b);
    case AST_band:
        return v_int(a & b);
    case AST_bor:
        return v_int(a | b);
    case AST_xor:
        return v_int(a ^ b);
    case AST_shl:
        if (b < 0 || b > 62 || a > (INT64_MAX >> b) || a < (INT64_MIN >> b))
            return overflow(e, at);
        return v_int((int64_t)((uint64_t)a << b));
    case AST_shr:
        return b < 0 ? overflow(e, at) : v_int(a >> (b > 63 ? 63 : b));
    default:
        return v_poison();
    }
}

static Value float_op(Elab *e, AstOp op, Span at, double a, double b)
{
    switch (op) {
    case AST_add:
        return v_float(a + b);
    case AST_sub:
        return v_float(a - b);
    case AST_mul:
        return v_float(a * b);
    case AST_div:
        return b != 0 ? v_float(a / b) : by_zero(e, at);
    case AST_floordiv:
        return b != 0 ? v_float(floor(a / b)) : by_zero(e, at);
    case AST_mod:
        return b != 0 ? v_float(a - b * floor(a / b)) : by_zero(e, at);
    case AST_pow:
        return v_float(pow(a, b));
    case AST_lt:
        return v_bool(a < b);
    case AST_le:
        return v_bool(a <= b);
    case AST_gt:
        return v_bool(a > b);
    case AST_ge:
        return v_bool(a >= b);
    default:
        elab_error(e, DIAG_bad_type, at, "'%s' wants integers, not floats", ast_op_text(op));
        return v_poison();
    }
}

Value number_op(Elab *e, AstOp op, Span at, const Value *a, const Value *b)
{
    if (op == AST_eq || op == AST_ne)
        return v_bool(value_equal(a, b) == (op == AST_eq));
    if (a->kind == V_int && b->kind == V_int)
        return int_op(e, op, at, a->i, b->i);
    return float_op(e, op, at, static_number(a), static_number(b));
}

static Value size_pow(Elab *e, Span at, Dim a, const Value *b)
{
    if (b->kind != V_int || b->i < 0 || b->i > 16) {
        elab_error(e, DIAG_not_static, at, "a size takes a constant exponent from 0 to 16");
        return v_poison();
    }
    Dim r = dim_const(e->dims, 1);
    for (int64_t i = 0; i < b->i; i++)
        r = dim_mul(e->dims, r, a);
    return v_dim(e, r);
}

static bool size_compare(Elab *e, AstOp op, Dim a, Dim b, Value *out)
{
    Dim one = dim_const(e->dims, 1);
    Answer ans = UNKNOWN;
    switch (op) {
    case AST_eq:
    case AST_ne:
        ans = dim_equal(e->dims, a, b);
        break;
    case AST_le:
        ans = dim_le(e->dims, a, b);
        break;
    case AST_lt:
        ans = dim_le(e->dims, dim_add(e->dims, a, one), b);
        break;
    case AST_ge:
        ans = dim_le(e->dims, b, a);
        break;
    case AST_gt:
        ans = dim_le(e->dims, dim_add(e->dims, b, one), a);
        break;
    default:
        break;
    }
    if (ans == UNKNOWN)
        return false;
    *out = v_bool((ans == YES) != (op == AST_ne));
    return true;
}

bool size_op(Elab *e, AstOp op, Span at, const Value *a, const Value *b, Value *out)
{
    Dim x, y;
    if (!value_dim(e, a, &x) || !value_dim(e, b, &y))
        return false;
    switch (op) {
    case AST_add:
        *out = v_dim(e, dim_add(e->dims, x, y));
        break;
    case AST_sub:
        *out = v_dim(e, dim_sub(e->dims, x, y));
        break;
    case AST_mul:
        *out = v_dim(e, dim_mul(e->dims, x, y));
        break;
    case AST_floordiv:
    case AST_mod:
        if (dim_is_zero(e->dims, y)) {
            *out = by_zero(e, at);
            return true;
        }
        *out = v_dim(e, op == AST_mod ? dim_mod(e->dims, x, y) : dim_floordiv(e->dims, x, y));
        break;
    case AST_pow:
        *out = size_pow(e, at, x, b);
        break;
    default:
        return size_compare(e, op, x, y, out);
    }
    if (dim_overflowed(e->dims))
        *out = overflow(e, at);
    return true;
}

static Value list_concat(Elab *e, const Value *a, const Value *b)
{
    Values v = {0};
    for (uint32_t i = 0; i < a->list->n; i++)
        vec_push(e->a, &v, a->list->at[i]);
    for (uint32_t i = 0; i < b->list->n; i++)
        vec_push(e->a, &v, b->list->at[i]);
    return v_list(e, v.at, v.n);
}

static Value list_repeat(Elab *e, Span at, const Value *a, int64_t n)
{
    if (n > 1000000) {
        elab_error(e, DIAG_bad_number, at, "the list would have more than a million elements");
        return v_poison();
    }
    Values v = {0};
    for (int64_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < a->list->n; i++)
            vec_push(e->a, &v, a->list->at[i]);
    return v_list(e, v.at, v.n);
}

bool object_op(Elab *e, AstOp op, Span at, const Value *a, const Value *b, Value *out)
{
    if (a->kind == V_list && b->kind == V_list && op == AST_add) {
        *out = list_concat(e, a, b);
        return true;
    }
    if (a->kind == V_list && b->kind == V_int && op == AST_mul) {
        *out = list_repeat(e, at, a, b->i);
        return true;
    }
    if (a->kind == V_int && b->kind == V_list && op == AST_mul) {
        *out = list_repeat(e, at, b, a->i);
        return true;
    }
    if (a->kind == V_string && b->kind == V_string && op == AST_add) {
        *out = v_string(arena_printf(e->a, "%s%s", a->s, b->s));
        return true;
    }
    if (op == AST_eq || op == AST_ne) {
        *out = v_bool(value_equal(a, b) == (op == AST_eq));
        return true;
    }
    if (op == AST_in || op == AST_not_in) {
        bool in = false;
        if (b->kind == V_string && a->kind == V_string)
            in = strstr(b->s, a->s) != NULL;
        else if (b->kind == V_list)
            for (uint32_t i = 0; i < b->list->n; i++)
                in |= value_equal(a, &b->list->at[i]);
        else
            return false;
        *out = v_bool(in == (op == AST_in));
        return true;
    }
    if (a->kind == V_bool && b->kind == V_bool) {
        if (op == AST_band || op == AST_bor || op == AST_xor) {
            *out = v_bool(op == AST_band ? a->i & b->i : op == AST_bor ? a->i | b->i : a->i ^ b->i);
            return true;
        }
    }
    return false;
}
