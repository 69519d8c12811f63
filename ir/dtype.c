/* dtype.c: names, sizes, promotion and rounding of element types. SPDX-License-Identifier: MIT */
#include "ir/dtype.h"

#include "ir/base/die.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef struct {
    const char *name, *ctype;
    int size;
    DTypeKind kind;
} Row;

static const Row rows[DT_COUNT] = {
    [DT_none] = {"none", "void", 0, DK_FLOAT},
#define DTYPE(n, bytes, k, c, text) [DT_##n] = {#n, c, bytes, DK_##k},
#include "ir/dtype.def"
#undef DTYPE
};

static const Row *row(DType t)
{
    CHECK((unsigned)t < DT_COUNT);
    return &rows[t];
}

const char *dtype_name(DType t)
{
    return row(t)->name;
}

const char *dtype_ctype(DType t)
{
    return row(t)->ctype;
}

int dtype_size(DType t)
{
    return row(t)->size;
}

DTypeKind dtype_kind(DType t)
{
    return row(t)->kind;
}

DType dtype_parse(const char *name)
{
    for (int t = 1; t < DT_COUNT; t++)
        if (!strcmp(rows[t].name, name))
            return (DType)t;
    return DT_none;
}

DType dtype_compute(DType t)
{
    return t == DT_bf16 || t == DT_f16 ? DT_f32 : t;
}

DType dtype_promote(DType a, DType b)
{
    if (a == b || b == DT_bool)
        return a;
    if (a == DT_bool)
        return b;
    const bool fa = dtype_is_float(a), fb = dtype_is_float(b);
    if (fa != fb)
        return fa ? a : b;
    if (fa) {
        if (dtype_size(a) == dtype_size(b)) /* f16 with bf16 */
            return DT_f32;
        return dtype_size(a) > dtype_size(b) ? a : b;
    }
    if (dtype_kind(a) == dtype_kind(b))
        return dtype_size(a) > dtype_size(b) ? a : b;
    /* signed with unsigned: the signed type that holds both */
    const DType s = dtype_kind(a) == DK_INT ? a : b, u = s == a ? b : a;
    if (dtype_size(s) > dtype_size(u))
        return s;
    return u == DT_u8 ? DT_i16 : DT_i64;
}

/* Rounds to `bits` bits of mantissa (hidden one included), ties to even, with the smallest
 * exponent `emin` of a normal number; overflow past `max` gives infinity. */
static double round_float(double x, int bits, int emin, double max)
{
    if (isnan(x) || isinf(x) || x == 0)
        return x;
    int e;
    (void)frexp(x, &e); /* |x| in [2^(e-1), 2^e) */
    if (e - 1 < emin)
        e = emin + 1;
    const double scale = ldexp(1.0, e - bits);
    const double r = rint(x / scale) * scale;
    return fabs(r) > max ? copysign(INFINITY, x) : r;
}

static double to_integer(double x, double lo, double hi)
{
    if (isnan(x))
        return 0;
    x = trunc(x);
    return x < lo ? lo : x > hi ? hi : x;
}

double dtype_round(DType t, double x)
{
    switch (t) {
    case DT_f64:
        return x;
    case DT_f32:
        return (double)(float)x;
    case DT_bf16:
        return round_float(x, 8, -126, 0x1.fep127);
    case DT_f16:
        return round_float(x, 11, -14, 65504.0);
    case DT_i64:
        return to_integer(x, -0x1p63, 0x1p63);
    case DT_i32:
        return to_integer(x, -0x1p31, 0x1p31 - 1);
    case DT_i16:
        return to_integer(x, -32768, 32767);
    case DT_i8:
        return to_integer(x, -128, 127);
    case DT_u8:
        return to_integer(x, 0, 255);
    case DT_u64:
        return to_integer(x, 0, 0x1p64);
    case DT_bool:
        return x != 0;
    case DT_none:
    case DT_COUNT:
        break;
    }
    die("dtype %d cannot be rounded to", (int)t);
}
