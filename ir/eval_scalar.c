/* eval_scalar.c: compiles the scalar column of ops.def twice: for floats in double (each result is
 * rounded to its dtype afterwards), for integers in 128 bits (wrapped afterwards).
 * SPDX-License-Identifier: MIT */
#include "ir/eval_scalar.h"

#include "ir/base/die.h"

#include <float.h>
#include <math.h>
#include <string.h>

__extension__ typedef __int128 Wide;

#define MAX_FINITE DBL_MAX

/* --- helpers of the float rows: as torch's floor_divide and remainder ----------------------------
 */

static double floormod_f(double a, double b)
{
    const double m = fmod(a, b);
    return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}

static double floordiv_f(double a, double b)
{
    if (b == 0)
        return a / b;
    const double m = fmod(a, b);
    double q = (a - m) / b;
    if (m != 0 && (b < 0) != (m < 0))
        q -= 1;
    if (q == 0)
        return copysign(0.0, a / b);
    const double f = floor(q);
    return q - f > 0.5 ? f + 1 : f;
}

/* --- helpers of the integer rows -----------------------------------------------------------------
 */

static Wide floordiv_i(Wide a, Wide b)
{
    if (b == 0)
        return 0;
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static Wide floormod_i(Wide a, Wide b)
{
    return b == 0 ? 0 : a - b * floordiv_i(a, b);
}

static Wide shl_i(Wide a, Wide b, int bits)
{
    return b < 0 || b >= bits ? 0 : (Wide)((uint64_t)a << (int)b);
}

static Wide shr_i(Wide a, Wide b, int bits)
{
    if (b < 0 || b >= bits)
        return a < 0 ? -1 : 0;
    return a >> (int)b;
}

/* --- the rows ------------------------------------------------------------------------------------
 */

/* Rows whose domain lacks a kind of type are not compiled for it. */
#define FLOAT_ROW_FLOAT(e)  (double)(e)
#define FLOAT_ROW_NUMBER(e) (double)(e)
#define FLOAT_ROW_ANY(e)    (double)(e)
#define FLOAT_ROW_BITS(e)   NAN
#define INT_ROW_FLOAT(e)    0
#define INT_ROW_NUMBER(e)   (Wide)(e)
#define INT_ROW_ANY(e)      (Wide)(e)
#define INT_ROW_BITS(e)     (Wide)(e)

#define floordiv floordiv_f
#define floormod floormod_f
static double float_row(Op op, double a, double b, double c)
{
    switch (op) {
#define POINTWISE(n, arity, dom, res, w, expr, ga, gb, gc, doc)                                    \
    case OP_##n:                                                                                   \
        return FLOAT_ROW_##dom(expr);
#define STRUCTURAL(n, least, most, ...)
#include "ir/ops.def"
#undef POINTWISE
#undef STRUCTURAL
    default:
        break;
    }
    die("op %s is not pointwise", op_name(op));
}
#undef floordiv
#undef floormod

#define floordiv  floordiv_i
#define floormod  floormod_i
#define fabs(x)   ((x) < 0 ? -(x) : (x))
#define bitnot(x) (t == DT_bool ? (x) == 0 : ~(x))
#define shl(x, y) shl_i(x, y, bits)
#define shr(x, y) shr_i(x, y, bits)
static Wide int_row(Op op, DType t, Wide a, Wide b, Wide c)
{
    const int bits = t == DT_bool ? 1 : 8 * dtype_size(t);
    switch (op) {
#define POINTWISE(n, arity, dom, res, w, expr, ga, gb, gc, doc)                                    \
    case OP_##n:                                                                                   \
        return INT_ROW_##dom(expr);
#define STRUCTURAL(n, least, most, ...)
#include "ir/ops.def"
#undef POINTWISE
#undef STRUCTURAL
    default:
        break;
    }
    die("op %s is not pointwise", op_name(op));
}
#undef floordiv
#undef floormod
#undef fabs
#undef bitnot
#undef shl
#undef shr

int64_t eval_wrap(DType t, int64_t x)
{
    switch (t) {
    case DT_i32:
        return (int32_t)(uint32_t)(uint64_t)x;
    case DT_i16:
        return (int16_t)(uint16_t)(uint64_t)x;
    case DT_i8:
        return (int8_t)(uint8_t)(uint64_t)x;
    case DT_u8:
        return (uint8_t)(uint64_t)x;
    case DT_bool:
        return x & 1;
    default:
        return x;
    }
}

static Wide widen(DType t, int64_t x)
{
    return t == DT_u64 ? (Wide)(uint64_t)x : (Wide)x;
}

ScalarValue eval_row(Op op, DType t, const ScalarValue *in)
{
    const OpInfo *info = op_info(op);
    CHECK(info->pointwise);
    const bool to_bool = info->result == RES_BOOL;
    ScalarValue r = {0};
    if (dtype_is_float(t)) {
        double x[3] = {0};
        for (int i = 0; i < info->nmax; i++)
            x[i] = op == OP_where && i == 0 ? (double)(in[0].i != 0) : in[i].f;
        const double y = float_row(op, x[0], x[1], x[2]);
        if (to_bool)
            r.i = y != 0;
        else
            r.f = dtype_round(t, y);
        return r;
    }
    Wide x[3] = {0};
    for (int i = 0; i < info->nmax; i++)
        x[i] = widen(op == OP_where && i == 0 ? DT_bool : t, in[i].i);
    const Wide y = int_row(op, t, x[0], x[1], x[2]);
    r.i = to_bool ? y != 0 : eval_wrap(t, (int64_t)(uint64_t)y);
    return r;
}

double eval_as_double(DType t, ScalarValue x)
{
    return dtype_is_float(t) ? x.f : t == DT_u64 ? (double)(uint64_t)x.i : (double)x.i;
}

static int64_t saturate(DType to, double x)
{
    const double r = dtype_round(to, x);
    if (to == DT_i64)
        return r >= 0x1p63 ? INT64_MAX : (int64_t)r;
    if (to == DT_u64)
        return (int64_t)(r >= 0x1p64 ? UINT64_MAX : (uint64_t)r);
    return (int64_t)r;
}

ScalarValue eval_cast(DType from, DType to, ScalarValue x)
{
    ScalarValue r = {0};
    if (dtype_is_float(to)) {
        /* an integer of more than 53 bits must not be rounded twice */
        if (to == DT_f32 && !dtype_is_float(from))
            r.f = from == DT_u64 ? (double)(float)(uint64_t)x.i : (double)(float)x.i;
        else
            r.f = dtype_round(to, eval_as_double(from, x));
    } else if (to == DT_bool) {
        r.i = dtype_is_float(from) ? x.f != 0 : x.i != 0;
    } else {
        r.i = dtype_is_float(from) ? saturate(to, x.f) : eval_wrap(to, x.i);
    }
    return r;
}

/* --- bits ----------------------------------------------------------------------------------------
 */

static uint64_t half_bits(double x)
{
    const uint64_t sign = signbit(x) ? 0x8000 : 0;
    const double a = fabs(x);
    if (isnan(x))
        return sign | 0x7e00;
    if (isinf(x))
        return sign | 0x7c00;
    if (a < 0x1p-14)
        return sign | (uint64_t)(a * 0x1p24);
    int e;
    const double m = frexp(a, &e); /* m in [0.5, 1) */
    return sign | ((uint64_t)(e + 14) << 10) | ((uint64_t)(m * 2048) - 1024);
}

static double half_value(uint64_t bits)
{
    const int e = (int)(bits >> 10 & 31);
    const double m = (double)(bits & 1023);
    const double a = e == 31 ? (m != 0 ? NAN : INFINITY)
                     : e     ? ldexp(1024 + m, e - 25)
                             : m * 0x1p-24;
    return bits & 0x8000 ? -a : a;
}

uint64_t eval_to_bits(DType t, ScalarValue x)
{
    const float f = (float)(dtype_is_float(t) ? x.f : 0);
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    switch (t) {
    case DT_f32:
        return u;
    case DT_bf16:
        return isnan(f) ? (u >> 16 | 0x40) : u >> 16;
    case DT_f16:
        return half_bits(x.f);
    default:
        return (uint64_t)x.i & (dtype_size(t) == 8 ? ~0ull : (1ull << 8 * dtype_size(t)) - 1);
    }
}

ScalarValue eval_from_bits(DType t, uint64_t bits)
{
    ScalarValue r = {0};
    if (t == DT_f32 || t == DT_bf16) {
        const uint32_t u = t == DT_f32 ? (uint32_t)bits : (uint32_t)bits << 16;
        float f;
        memcpy(&f, &u, sizeof f);
        r.f = (double)f;
    } else if (t == DT_f16) {
        r.f = half_value(bits);
    } else if (t == DT_f64) {
        memcpy(&r.f, &bits, sizeof bits);
    } else {
        r.i = eval_wrap(t, (int64_t)bits);
    }
    return r;
}
