/* test_ops_half.c: f16, bf16 and conversions. Expected values come from exact values in binary128,
 * rounded by looking for the neighbours on both sides. SPDX-License-Identifier: MIT */
#include "tests/vgpu/test_ops.h"

__extension__ typedef __float128 Quad;

#define F test_f32
#define D test_f64

/* --- formats: codes without sign count up with their values ---------------------------------- */

typedef struct {
    int mantissa, exponent, bias;
    uint64_t top; /* code of infinity, or of the largest number + 1 */
    bool has_inf;
} Format;

static const Format F16 = {10, 5, 15, 0x7c00, true}, BF16 = {7, 8, 127, 0x7f80, true},
                    F32 = {23, 8, 127, 0x7f800000, true}, TF32 = {10, 8, 127, 0x3fc00, true},
                    F64 = {52, 11, 1023, 0x7ff0000000000000, true}, E4M3 = {3, 4, 7, 0x7f, false},
                    E5M2 = {2, 5, 15, 0x7c, true};

static Quad power(int e)
{
    Quad p = 1, two = e < 0 ? (Quad)0.5 : (Quad)2;
    for (int n = e < 0 ? -e : e; n; n >>= 1, two *= two)
        if (n & 1)
            p *= two;
    return p;
}

/* The value of a code; from the top on as if the exponents went on. */
static Quad value(const Format *f, uint64_t code)
{
    uint64_t m = code & ((1ull << f->mantissa) - 1), e = code >> f->mantissa;
    if (!e)
        return (Quad)m * power(1 - f->bias - f->mantissa);
    return (Quad)(m + (1ull << f->mantissa)) * power((int)e - f->bias - f->mantissa);
}

typedef enum { NEAREST, ZERO, DOWN, UP, AWAY } Mode;

static uint64_t nan_of(const Format *f)
{
    return f->top | 1ull << (f->mantissa - 1) | (f->has_inf ? 0 : f->top);
}

static uint64_t rounded(const Format *f, Quad v, bool minus, Mode mode, bool finite)
{
    uint64_t sign = (uint64_t)minus << (f->mantissa + f->exponent), low = 0, high = f->top;
    if (v != v)
        return nan_of(f);
    v = v < 0 ? -v : v;
    while (high - low > 1) { /* value(low) <= v < value(high) */
        uint64_t middle = low + (high - low) / 2;
        if (value(f, middle) <= v)
            low = middle;
        else
            high = middle;
    }
    Quad below = v - value(f, low), above = value(f, high) - v;
    bool up = mode == UP ? !minus && below > 0 : mode == DOWN ? minus && below > 0 : false;
    if (mode == NEAREST)
        up = below > above || (below == above && low & 1);
    if (mode == AWAY)
        up = below >= above;
    if (v >= value(f, f->top)) /* beyond the largest number by a unit or more */
        up = v == (Quad)INFINITY || mode == NEAREST || mode == AWAY || (mode == UP && !minus) ||
             (mode == DOWN && minus);
    if (low + up < f->top)
        return sign | (low + up);
    return sign | (finite || !f->has_inf ? f->top - 1 : f->top);
}

static Quad quad(const Format *f, uint64_t bits)
{
    bool minus = bits >> (f->mantissa + f->exponent) & 1;
    uint64_t code = bits & ((1ull << (f->mantissa + f->exponent)) - 1);
    Quad v = code > (f->has_inf ? f->top : f->top - 1) ? (Quad)NAN
             : code == f->top                          ? (Quad)INFINITY
                                                       : value(f, code);
    return minus ? -v : v;
}

static bool is_minus(Quad v, uint64_t zero_sign)
{
    return v < 0 || (v == 0 && zero_sign);
}

/* --- arithmetic: the sign of a zero is what float's arithmetic gives it ---------------------- */

static uint64_t two(const Format *f, char op, uint64_t x, uint64_t y, uint64_t z)
{
    Quad a = quad(f, x & 0xffff), b = quad(f, y & 0xffff), c = quad(f, z & 0xffff);
    Quad v = op == '+' ? a + b : op == '-' ? a - b : op == '*' ? a * b : a * b + c;
    Quad part = v - a * b, lost = op == 'f' ? (a * b - (v - part)) + (c - part) : 0;
    if (lost < 0 || lost > 0) /* too small for 113 bits, but it breaks ties */
        v += ((lost > 0) == (v > 0) ? v : -v) * power(-100);
    double zero = v == 0 ? (double)v : 1.0;
    return rounded(f, v, v < 0 || signbit(zero), NEAREST, false);
}

static uint64_t clamp01(const Format *f, uint64_t h)
{
    Quad v = quad(f, h);
    return v != v || v <= 0 ? 0 : v > 1 ? rounded(f, 1, false, NEAREST, false) : h;
}

static uint64_t relu(const Format *f, uint64_t h)
{
    Quad v = quad(f, h);
    return v != v ? nan_of(f) : v <= 0 ? 0 : h;
}

static uint64_t flush(uint64_t h)
{
    return h & 0x7c00 ? h : h & 0x8000;
}

#define BOTH(format, op)                                                                           \
    (two(format, op, x, y, z) | two(format, op, x >> 16, y >> 16, z >> 16) << 16)

static void arithmetic(void **state)
{
    (void)state;
    CHECK("add.f16", "hhh", two(&F16, '+', x, y, 0));
    CHECK("add.rn.f16x2", "HHH", BOTH(&F16, '+'));
    CHECK("sub.f16", "hhh", two(&F16, '-', x, y, 0));
    CHECK("mul.f16", "hhh", two(&F16, '*', x, y, 0));
    CHECK("mul.f16x2", "HHH", BOTH(&F16, '*'));
    CHECK("fma.rn.f16", "hhhh", two(&F16, 'f', x, y, z));
    CHECK("fma.rn.f16x2", "HHHH", BOTH(&F16, 'f'));
    CHECK("add.bf16", "bbb", two(&BF16, '+', x, y, 0));
    CHECK("sub.bf16x2", "BBB", BOTH(&BF16, '-'));
    CHECK("mul.bf16", "bbb", two(&BF16, '*', x, y, 0));
    CHECK("fma.rn.bf16", "bbbb", two(&BF16, 'f', x, y, z));
    CHECK("fma.rn.bf16x2", "BBBB", BOTH(&BF16, 'f'));
    CHECK("add.sat.f16", "hhh", clamp01(&F16, two(&F16, '+', x, y, 0)));
    CHECK("fma.rn.sat.f16", "hhhh", clamp01(&F16, two(&F16, 'f', x, y, z)));
    CHECK("fma.rn.relu.f16", "hhhh", relu(&F16, two(&F16, 'f', x, y, z)));
    CHECK("fma.rn.relu.bf16", "bbbb", relu(&BF16, two(&BF16, 'f', x, y, z)));
    CHECK("mul.ftz.f16", "hhh", flush(two(&F16, '*', flush(x), flush(y), 0)));
    CHECK("neg.f16", "hh", x ^ 0x8000);
    CHECK("neg.bf16x2", "BB", x ^ 0x80008000);
    CHECK("abs.f16x2", "HH", x & 0x7fff7fff);
    CHECK("abs.ftz.f16", "hh", flush(x) & 0x7fff);
}

/* --- min, max, comparisons ------------------------------------------------------------------- */

static uint64_t lesser(const Format *f, uint64_t x, uint64_t y)
{
    Quad a = quad(f, x), b = quad(f, y);
    if (a != a || b != b)
        return a != a ? y : x;
    if (a == b)
        return x | y; /* -0 is the lesser zero */
    return a < b ? x : y;
}

static uint64_t greater(const Format *f, uint64_t x, uint64_t y)
{
    return lesser(f, x ^ 0x8000, y ^ 0x8000) ^ 0x8000;
}

static bool either_nan(const Format *f, uint64_t x, uint64_t y)
{
    return quad(f, x) != quad(f, x) || quad(f, y) != quad(f, y);
}

#define HX(v) quad(&F16, v)
#define BX(v) quad(&BF16, v)

static void order(void **state)
{
    (void)state;
    CHECK("min.f16", "hhh", lesser(&F16, x, y));
    CHECK("max.f16", "hhh", greater(&F16, x, y));
    CHECK("max.bf16", "bbb", greater(&BF16, x, y));
    CHECK("min.NaN.f16", "hhh", either_nan(&F16, x, y) ? nan_of(&F16) : lesser(&F16, x, y));
    CHECK("max.f16x2", "HHH",
          greater(&F16, x & 0xffff, y & 0xffff) | greater(&F16, x >> 16, y >> 16) << 16);
    CHECK("setp.lt.f16", "phh", HX(x) < HX(y));
    CHECK("setp.eq.f16", "phh", HX(x) == HX(y));
    CHECK("setp.neu.f16", "phh", !(HX(x) == HX(y)));
    CHECK("setp.geu.bf16", "pbb", !(BX(x) < BX(y)));
    CHECK("setp.num.bf16", "pbb", !either_nan(&BF16, x, y));
    CHECK("set.eq.f16.f16", "ihh", HX(x) == HX(y) ? 0x3c00 : 0);
    CHECK("set.le.f16x2.f16x2", "iHH",
          (HX(x & 0xffff) <= HX(y & 0xffff) ? 0x3c00 : 0) |
              (HX(x >> 16) <= HX(y >> 16) ? 0x3c000000 : 0));
    CHECK("set.ltu.u32.bf16x2", "iBB",
          (BX(x & 0xffff) >= BX(y & 0xffff) ? 0 : 0xffff) |
              (BX(x >> 16) >= BX(y >> 16) ? 0 : 0xffff0000));
    CHECK("tanh.approx.f16", "hh",
          rounded(&F16, (Quad)tanh((double)HX(x)), x >> 15 & 1, NEAREST, false));
}

/* --- conversions ----------------------------------------------------------------------------- */

#define FROM_F32(v)         quad(&F32, v)
#define TO(format, v, mode) rounded(format, v, is_minus(v, x >> 31), mode, false)
#define PAIR(format, mode, bits)                                                                   \
    (rounded(format, FROM_F32(x), x >> 31, mode, false) << (bits) |                                \
     rounded(format, FROM_F32(y), y >> 31, mode, false))
#define FINITE(format, bits)                                                                       \
    (rounded(format, FROM_F32(x), x >> 31, NEAREST, true) << (bits) |                              \
     rounded(format, FROM_F32(y), y >> 31, NEAREST, true))

static void to_small_floats(void **state)
{
    (void)state;
    CHECK("cvt.rn.f16.f32", "hf", TO(&F16, FROM_F32(x), NEAREST));
    CHECK("cvt.rz.f16.f32", "hf", TO(&F16, FROM_F32(x), ZERO));
    CHECK("cvt.rm.f16.f32", "hf", TO(&F16, FROM_F32(x), DOWN));
    CHECK("cvt.rp.f16.f32", "hf", TO(&F16, FROM_F32(x), UP));
    CHECK("cvt.rn.bf16.f32", "bf", TO(&BF16, FROM_F32(x), NEAREST));
    CHECK("cvt.rz.bf16.f32", "bf", TO(&BF16, FROM_F32(x), ZERO));
    CHECK("cvt.rn.relu.f16.f32", "hf", relu(&F16, TO(&F16, FROM_F32(x), NEAREST)));
    CHECK("cvt.rn.f16.f64", "hd", rounded(&F16, quad(&F64, x), x >> 63, NEAREST, false));
    CHECK("cvt.rn.f16x2.f32", "Hff", PAIR(&F16, NEAREST, 16));
    CHECK("cvt.rz.f16x2.f32", "Hff", PAIR(&F16, ZERO, 16));
    CHECK("cvt.rn.bf16x2.f32", "Bff", PAIR(&BF16, NEAREST, 16));
    CHECK("cvt.rna.tf32.f32", "ff", rounded(&TF32, FROM_F32(x), x >> 31, AWAY, false) << 13);
    CHECK("cvt.rn.satfinite.e4m3x2.f32", "kff", FINITE(&E4M3, 8));
    CHECK("cvt.rn.satfinite.e5m2x2.f32", "kff",
          FROM_F32(x) != FROM_F32(x) || FROM_F32(y) != FROM_F32(y)
              ? (FINITE(&E5M2, 8) | (FROM_F32(x) != FROM_F32(x) ? 0x7f00 : 0) |
                 (FROM_F32(y) != FROM_F32(y) ? 0x7f : 0))
              : FINITE(&E5M2, 8));
}

static uint64_t from_small(const Format *f, uint64_t bits)
{
    Quad v = quad(f, bits & 0xff);
    return rounded(&F16, v, bits >> 7 & 1, NEAREST, false);
}

static void from_small_floats(void **state)
{
    (void)state;
    CHECK("cvt.f32.f16", "fh", rounded(&F32, HX(x), x >> 15, NEAREST, false));
    CHECK("cvt.f32.bf16", "fb", x << 16);
    CHECK("cvt.f64.f16", "dh", rounded(&F64, HX(x), x >> 15, NEAREST, false));
    CHECK("cvt.rn.f16x2.e4m3x2", "Hk", from_small(&E4M3, x) | from_small(&E4M3, x >> 8) << 16);
    CHECK("cvt.rn.f16x2.e5m2x2", "Hk", from_small(&E5M2, x) | from_small(&E5M2, x >> 8) << 16);
    CHECK("cvt.rni.f16.f16", "hh",
          rounded(&F16, (Quad)rint((double)HX(x)), x >> 15, NEAREST, false));
}

static void between_floats(void **state)
{
    (void)state;
    CHECK("cvt.f64.f32", "df", test_bits_f64((double)F(x)));
    CHECK("cvt.rn.f32.f64", "fd", rounded(&F32, quad(&F64, x), x >> 63, NEAREST, false));
    CHECK("cvt.rz.f32.f64", "fd", rounded(&F32, quad(&F64, x), x >> 63, ZERO, false));
    CHECK("cvt.rm.f32.f64", "fd", rounded(&F32, quad(&F64, x), x >> 63, DOWN, false));
    CHECK("cvt.rp.f32.f64", "fd", rounded(&F32, quad(&F64, x), x >> 63, UP, false));
    CHECK("cvt.rni.f32.f32", "ff", test_bits_f32(rintf(F(x))));
    CHECK("cvt.rzi.f32.f32", "ff", test_bits_f32(truncf(F(x))));
    CHECK("cvt.rmi.f32.f32", "ff", test_bits_f32(floorf(F(x))));
    CHECK("cvt.rpi.f64.f64", "dd", test_bits_f64(ceil(D(x))));
    CHECK("cvt.sat.f32.f32", "ff", test_bits_f32(F(x) > 0 ? (F(x) < 1 ? F(x) : 1.0f) : 0.0f));
}

/* To integers: what does not fit stops at the end; a NaN gives 0, or the upper bit where 64 bits
 * are involved. */
static uint64_t integer(Quad v, int bits, bool is_signed, bool wide, double (*round)(double))
{
    Quad most = power(is_signed ? bits - 1 : bits) - 1, least = is_signed ? -most - 1 : 0;
    if (v != v)
        return wide || bits == 64 ? 1ull << (bits - 1) : 0;
    if (v < power(60) && v > -power(60))
        v = (Quad)round((double)v);
    v = v > most ? most : v < least ? least : v;
    return v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
}

static void to_integers(void **state)
{
    (void)state;
    CHECK("cvt.rzi.s32.f32", "if", integer(FROM_F32(x), 32, true, false, trunc));
    CHECK("cvt.rni.s32.f32", "if", integer(FROM_F32(x), 32, true, false, rint));
    CHECK("cvt.rmi.s32.f32", "if", integer(FROM_F32(x), 32, true, false, floor));
    CHECK("cvt.rpi.u32.f32", "if", integer(FROM_F32(x), 32, false, false, ceil));
    CHECK("cvt.rzi.u32.f32", "if", integer(FROM_F32(x), 32, false, false, trunc));
    CHECK("cvt.rzi.s64.f32", "lf", integer(FROM_F32(x), 64, true, false, trunc));
    CHECK("cvt.rzi.u64.f32", "lf", integer(FROM_F32(x), 64, false, false, trunc));
    CHECK("cvt.rzi.s32.f64", "id", integer(quad(&F64, x), 32, true, true, trunc));
    CHECK("cvt.rni.s64.f64", "ld", integer(quad(&F64, x), 64, true, true, rint));
    CHECK("cvt.rzi.u64.f64", "ld", integer(quad(&F64, x), 64, false, true, trunc));
    CHECK("cvt.rzi.u16.f32", "kf", integer(FROM_F32(x), 16, false, false, trunc));
    CHECK("cvt.rni.s8.f32", "if", integer(FROM_F32(x), 8, true, false, rint));
    CHECK("cvt.rni.s32.f16", "ih", integer(HX(x), 32, true, false, rint));
    CHECK("cvt.rzi.s64.bf16", "lb", integer(BX(x), 64, true, false, trunc));
    CHECK("cvt.rmi.ftz.s32.f32", "if",
          x & 0x7f800000 ? integer(FROM_F32(x), 32, true, false, floor) : 0);
}

#define SIGNED(v) ((Quad)(int64_t)(v))

static void from_integers(void **state)
{
    (void)state;
    CHECK("cvt.rn.f32.s32", "fi", rounded(&F32, (Quad)(int32_t)x, x >> 31, NEAREST, false));
    CHECK("cvt.rn.f32.u32", "fi", rounded(&F32, (Quad)x, false, NEAREST, false));
    CHECK("cvt.rz.f32.u32", "fi", rounded(&F32, (Quad)x, false, ZERO, false));
    CHECK("cvt.rp.f32.s64", "fl", rounded(&F32, SIGNED(x), x >> 63, UP, false));
    CHECK("cvt.rn.f32.s64", "fl", rounded(&F32, SIGNED(x), x >> 63, NEAREST, false));
    CHECK("cvt.rn.f32.u64", "fl", rounded(&F32, (Quad)x, false, NEAREST, false));
    CHECK("cvt.rz.f32.u64", "fl", rounded(&F32, (Quad)x, false, ZERO, false));
    CHECK("cvt.rn.f64.s64", "dl", rounded(&F64, SIGNED(x), x >> 63, NEAREST, false));
    CHECK("cvt.rn.f64.u64", "dl", rounded(&F64, (Quad)x, false, NEAREST, false));
    CHECK("cvt.rn.f64.s32", "di", rounded(&F64, (Quad)(int32_t)x, x >> 31, NEAREST, false));
    CHECK("cvt.rn.f32.u8", "fk", rounded(&F32, (Quad)(uint8_t)x, false, NEAREST, false));
    CHECK("cvt.rn.f32.s16", "fk", rounded(&F32, (Quad)(int16_t)x, x >> 15 & 1, NEAREST, false));
    CHECK("cvt.rn.f16.s32", "hi", rounded(&F16, (Quad)(int32_t)x, x >> 31, NEAREST, false));
    CHECK("cvt.rn.f16.u64", "hl", rounded(&F16, (Quad)x, false, NEAREST, false));
    CHECK("cvt.rn.bf16.s64", "bl", rounded(&BF16, SIGNED(x), x >> 63, NEAREST, false));
}

static int64_t clamp(int64_t v, int64_t least, int64_t most)
{
    return v < least ? least : v > most ? most : v;
}

static void between_integers(void **state)
{
    (void)state;
    CHECK("cvt.s64.s32", "li", (int64_t)(int32_t)x);
    CHECK("cvt.u64.u32", "li", x);
    CHECK("cvt.u32.u64", "il", x);
    CHECK("cvt.u32.u16", "ik", (uint16_t)x);
    CHECK("cvt.s32.s16", "ik", (int16_t)x);
    CHECK("cvt.s32.s8", "ii", (int8_t)x);
    CHECK("cvt.s16.s8", "ii", (int8_t)x);
    CHECK("cvt.u16.u8", "ii", (uint8_t)x);
    CHECK("cvt.u16.u64", "il", (uint16_t)x);
    CHECK("cvt.s64.s8", "li", (int64_t)(int8_t)x);
    CHECK("cvt.sat.u8.s32", "ii", clamp((int32_t)x, 0, 255));
    CHECK("cvt.sat.s8.s32", "ii", clamp((int32_t)x, -128, 127));
    CHECK("cvt.sat.s32.s64", "il", clamp((int64_t)x, INT32_MIN, INT32_MAX));
    CHECK("cvt.sat.s32.u32", "ii", clamp((int64_t)x, 0, INT32_MAX));
    CHECK("cvt.pack.sat.s16.s32", "iii",
          (uint32_t)clamp((int32_t)x, -32768, 32767) << 16 |
              (clamp((int32_t)y, -32768, 32767) & 0xffff));
    CHECK("cvt.pack.sat.u8.s32.b32", "iiii",
          z << 16 | (uint64_t)clamp((int32_t)x, 0, 255) << 8 | (uint64_t)clamp((int32_t)y, 0, 255));
}

int test_halves(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(arithmetic), cmocka_unit_test(order)};
    return cmocka_run_group_tests_name("halves", tests, NULL, NULL);
}

int test_conversions(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(to_small_floats), cmocka_unit_test(from_small_floats),
        cmocka_unit_test(between_floats),  cmocka_unit_test(to_integers),
        cmocka_unit_test(from_integers),   cmocka_unit_test(between_integers),
    };
    return cmocka_run_group_tests_name("conversions", tests, NULL, NULL);
}
