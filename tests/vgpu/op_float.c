/* op_float.c: arithmetic of f32, f64 and pairs of f32. Rounding and flushing are MXCSR's; what the
 * hardware approximates is computed in double and rounded once, so within its documented error.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/approximate.h"
#include "tests/vgpu/op_alu.h"

#include <math.h>

#define NAN_F64 bits_double(0x7fffffffffffffffu)

/* --- arithmetic ------------------------------------------------------------------------------ */

/* To [0, 1]; a NaN becomes 0. */
static inline float saturate(float v)
{
    return v > 0.0f ? (v < 1.0f ? v : 1.0f) : 0.0f;
}

#define F32_BINARY(name, value)                                                                    \
    BINARY(name##_f32, float, float, float, value)                                                 \
    BINARY(name##_sat_f32, float, float, float, saturate(value))                                   \
    BINARY(name##_f64, double, double, double, value)
F32_BINARY(add, x + y)
F32_BINARY(sub, x - y)
F32_BINARY(mul, x *y)
TERNARY(fma_f32, float, float, float, float, __builtin_fmaf(x, y, z))
TERNARY(fma_sat_f32, float, float, float, float, saturate(__builtin_fmaf(x, y, z)))
TERNARY(fma_f64, double, double, double, double, __builtin_fma(x, y, z))
BINARY(div_f32, float, float, float, x / y)
BINARY(div_f64, double, double, double, x / y)
UNARY(sqrt_f32, float, float, __builtin_sqrtf(x))
UNARY(sqrt_f64, double, double, __builtin_sqrt(x))
UNARY(rcp_f32, float, float, 1.0f / x)
UNARY(rcp_f64, double, double, 1.0 / x)

/* Signs are bits; only .ftz makes these compute. */
UNARY(neg_f32, uint32_t, uint32_t, x ^ 0x80000000u)
UNARY(abs_f32, uint32_t, uint32_t, x & 0x7fffffffu)
UNARY(neg_f64, uint64_t, uint64_t, x ^ 0x8000000000000000u)
UNARY(abs_f64, uint64_t, uint64_t, x & 0x7fffffffffffffffu)
#define FLUSHED(x) (((x)&0x7f800000u) ? (x) : (x)&0x80000000u)
UNARY(neg_ftz_f32, uint32_t, uint32_t, FLUSHED(x) ^ 0x80000000u)
UNARY(abs_ftz_f32, uint32_t, uint32_t, FLUSHED(x) & 0x7fffffffu)
BINARY(copysign_f32, uint32_t, uint32_t, uint32_t, (x & 0x80000000u) | (y & 0x7fffffffu))
BINARY(copysign_f64, uint64_t, uint64_t, uint64_t,
       (x & 0x8000000000000000u) | (y & 0x7fffffffffffffffu))

/* --- min, max: a NaN loses unless .NaN is asked for, and -0 is less than 0 ------------------- */

/* Of two zeros the bits decide. */
#define PICKED(name, T, bits, from_bits, less, zeros, nan)                                         \
    static inline T name(T x, T y)                                                                 \
    {                                                                                              \
        T m = x less y ? x : y; /* a NaN in x gives y */                                           \
        m = x == y ? from_bits(bits(x) zeros bits(y)) : m;                                         \
        m = y != y ? x : m;                                                                        \
        return m != m ? nan : m;                                                                   \
    }
PICKED(min_of_f32, float, float_bits, bits_float, <, |, NAN_F32)
PICKED(max_of_f32, float, float_bits, bits_float, >, &, NAN_F32)
PICKED(min_of_f64, double, double_bits, bits_double, <, |, NAN_F64)
PICKED(max_of_f64, double, double_bits, bits_double, >, &, NAN_F64)

static inline float or_nan(float m, float x, float y)
{
    return x != x || y != y ? NAN_F32 : m;
}

/* .xorsign.abs: of the magnitudes, with the sign of the product. */
static inline float with_xorsign(float m, float x, float y)
{
    uint32_t sign = (float_bits(x) ^ float_bits(y)) & 0x80000000u;
    return m != m ? m : bits_float((float_bits(m) & 0x7fffffffu) | sign);
}

static inline float magnitude(float x)
{
    return bits_float(float_bits(x) & 0x7fffffffu);
}

static inline float flushed(float x)
{
    return bits_float(FLUSHED(float_bits(x)));
}

/* A third source is there or not: NO_SLOT. */
#define MIN_MAX(name, load, pick, combine)                                                         \
    static inline float name##_of(float x, float y)                                                \
    {                                                                                              \
        x = load(x), y = load(y);                                                                  \
        return combine(pick, x, y);                                                                \
    }                                                                                              \
    static void name##_f32(Warp *w, const Inst *i, uint32_t mask)                                  \
    {                                                                                              \
        const float *a = REG(const float, i->a), *b = REG(const float, i->b);                      \
        if (i->c == NO_SLOT) {                                                                     \
            FOR_LANES(float, i->d, , name##_of(a[l], b[l]))                                        \
        } else {                                                                                   \
            const float *c = REG(const float, i->c);                                               \
            FOR_LANES(float, i->d, , name##_of(name##_of(a[l], b[l]), c[l]))                       \
        }                                                                                          \
    }
#define AS_IS(x)                (x)
#define PLAIN(pick, x, y)       pick(x, y)
#define WITH_NAN(pick, x, y)    or_nan(pick(x, y), x, y)
#define XORSIGN(pick, x, y)     with_xorsign(pick(magnitude(x), magnitude(y)), x, y)
#define XORSIGN_NAN(pick, x, y) or_nan(XORSIGN(pick, x, y), x, y)
#define MIN_MAX_FORMS(op, pick)                                                                    \
    MIN_MAX(op, AS_IS, pick, PLAIN)                                                                \
    MIN_MAX(op##_ftz, flushed, pick, PLAIN)                                                        \
    MIN_MAX(op##_nan, AS_IS, pick, WITH_NAN)                                                       \
    MIN_MAX(op##_ftz_nan, flushed, pick, WITH_NAN)                                                 \
    MIN_MAX(op##_xorsign, AS_IS, pick, XORSIGN)                                                    \
    MIN_MAX(op##_ftz_xorsign, flushed, pick, XORSIGN)                                              \
    MIN_MAX(op##_nan_xorsign, AS_IS, pick, XORSIGN_NAN)                                            \
    MIN_MAX(op##_ftz_nan_xorsign, flushed, pick, XORSIGN_NAN)
MIN_MAX_FORMS(min, min_of_f32)
MIN_MAX_FORMS(max, max_of_f32)
BINARY(min_f64, double, double, double, min_of_f64(x, y))
BINARY(max_f64, double, double, double, max_of_f64(x, y))

/* --- approximations -------------------------------------------------------------------------- */

static inline float rsqrt_of(float v)
{
    return (float)(1.0 / __builtin_sqrt((double)v));
}

UNARY(ex2_f32, float, float, exp2_of(x))
UNARY(lg2_f32, float, float, log2_of(x))
UNARY(rsqrt_f32, float, float, rsqrt_of(x))

/* One lane after the other, through the C library. */
#define BY_LANE(name, T, value)                                                                    \
    static void name(Warp *w, const Inst *i, uint32_t mask)                                        \
    {                                                                                              \
        const T *a = REG(const T, i->a);                                                           \
        T *d = REG(T, i->d);                                                                       \
        EACH_LANE if (IS_ON(mask, l))                                                              \
        {                                                                                          \
            T x = a[l];                                                                            \
            d[l] = value;                                                                          \
        }                                                                                          \
    }
BY_LANE(sin_f32, float, sinf(x))
BY_LANE(cos_f32, float, cosf(x))
BY_LANE(tanh_f32, float, tanhf(x))

/* approx.ftz.f64 look at the upper 32 bits and give 20 bits: here exact, and flushed to zero. */
#define UPPER(x) bits_double(double_bits(x) & 0xffffffff00000000u)
UNARY(rcp_approx_f64, double, double, UPPER(1.0 / UPPER(x)))
UNARY(rsqrt_approx_f64, double, double, UPPER(1.0 / __builtin_sqrt(UPPER(x))))

/* --- pairs of f32 in 64 bits ----------------------------------------------------------------- */

#define PAIR_OP(name, value)                                                                       \
    static void name(Warp *w, const Inst *i, uint32_t mask)                                        \
    {                                                                                              \
        const float *a = REG(const float, i->a), *b = REG(const float, i->b);                      \
        const float *c = i->c == NO_SLOT ? b : REG(const float, i->c);                             \
        float *d = REG(float, i->d);                                                               \
        for (int k = 0; k < 2 * LANES; k++) {                                                      \
            float x = a[k], y = b[k], z = c[k], r = value;                                         \
            (void)z;                                                                               \
            d[k] = IS_ON(mask, k / 2) ? r : d[k];                                                  \
        }                                                                                          \
    }
PAIR_OP(add_f32x2, x + y)
PAIR_OP(sub_f32x2, x - y)
PAIR_OP(mul_f32x2, x *y)
PAIR_OP(fma_f32x2, __builtin_fmaf(x, y, z))

/* --- the table ------------------------------------------------------------------------------- */

#define F32_1(key, exec)                                                                           \
    {                                                                                              \
        key ".f32", exec, COUNT_FLOAT,                                                             \
        {                                                                                          \
            TAKES_32, TAKES_32                                                                     \
        }                                                                                          \
    }
#define F32_2(key, exec)                                                                           \
    {                                                                                              \
        key ".f32", exec, COUNT_FLOAT,                                                             \
        {                                                                                          \
            TAKES_32, TAKES_32, TAKES_32                                                           \
        }                                                                                          \
    }
#define F32_3(key, exec)                                                                           \
    {                                                                                              \
        key ".f32", exec, COUNT_FLOAT,                                                             \
        {                                                                                          \
            TAKES_32, TAKES_32, TAKES_32, TAKES_32                                                 \
        }                                                                                          \
    }
#define F64_1(key, exec)                                                                           \
    {                                                                                              \
        key ".f64", exec, COUNT_DOUBLE,                                                            \
        {                                                                                          \
            TAKES_64, TAKES_64                                                                     \
        }                                                                                          \
    }
#define F64_2(key, exec)                                                                           \
    {                                                                                              \
        key ".f64", exec, COUNT_DOUBLE,                                                            \
        {                                                                                          \
            TAKES_64, TAKES_64, TAKES_64                                                           \
        }                                                                                          \
    }
#define F64_3(key, exec)                                                                           \
    {                                                                                              \
        key ".f64", exec, COUNT_DOUBLE,                                                            \
        {                                                                                          \
            TAKES_64, TAKES_64, TAKES_64, TAKES_64                                                 \
        }                                                                                          \
    }
#define SPECIAL_1(key, exec)                                                                       \
    {                                                                                              \
        key, exec, COUNT_SPECIAL,                                                                  \
        {                                                                                          \
            TAKES_32, TAKES_32                                                                     \
        }                                                                                          \
    }
#define X2_2(key, exec)                                                                            \
    {                                                                                              \
        key ".f32x2", exec, COUNT_FLOAT,                                                           \
        {                                                                                          \
            TAKES_64, TAKES_64, TAKES_64                                                           \
        }                                                                                          \
    }
#define MIN_MAX_ROWS(op)                                                                           \
    F32_3(#op, op##_f32), F32_3(#op ".ftz", op##_ftz_f32), F32_3(#op ".NaN", op##_nan_f32),        \
        F32_3(#op ".ftz.NaN", op##_ftz_nan_f32), F32_3(#op ".xorsign.abs", op##_xorsign_f32),      \
        F32_3(#op ".ftz.xorsign.abs", op##_ftz_xorsign_f32),                                       \
        F32_3(#op ".NaN.xorsign.abs", op##_nan_xorsign_f32),                                       \
        F32_3(#op ".ftz.NaN.xorsign.abs", op##_ftz_nan_xorsign_f32), F64_2(#op, op##_f64)

/* With rounding and .ftz, which become MXCSR. */
static const Row rounded[] = {
    F32_2("add", add_f32),
    F32_2("add.sat", add_sat_f32),
    F64_2("add", add_f64),
    F32_2("sub", sub_f32),
    F32_2("sub.sat", sub_sat_f32),
    F64_2("sub", sub_f64),
    F32_2("mul", mul_f32),
    F32_2("mul.sat", mul_sat_f32),
    F64_2("mul", mul_f64),
    F32_3("fma", fma_f32),
    F32_3("fma.sat", fma_sat_f32),
    F64_3("fma", fma_f64),
    F32_3("mad", fma_f32),
    F32_3("mad.sat", fma_sat_f32),
    F64_3("mad", fma_f64),
    F32_2("div", div_f32),
    F32_2("div.approx", div_f32),
    F32_2("div.full", div_f32),
    F64_2("div", div_f64),
    F32_1("sqrt", sqrt_f32),
    SPECIAL_1("sqrt.approx.f32", sqrt_f32),
    F64_1("sqrt", sqrt_f64),
    F32_1("rcp", rcp_f32),
    SPECIAL_1("rcp.approx.f32", rcp_f32),
    F64_1("rcp", rcp_f64),
    {"rcp.approx.f64", rcp_approx_f64, COUNT_SPECIAL, {TAKES_64, TAKES_64}},
    SPECIAL_1("rsqrt.approx.f32", rsqrt_f32),
    {"rsqrt.approx.f64", rsqrt_approx_f64, COUNT_SPECIAL, {TAKES_64, TAKES_64}},
    SPECIAL_1("ex2.approx.f32", ex2_f32),
    SPECIAL_1("lg2.approx.f32", lg2_f32),
    SPECIAL_1("sin.approx.f32", sin_f32),
    SPECIAL_1("cos.approx.f32", cos_f32),
    SPECIAL_1("tanh.approx.f32", tanh_f32),
    X2_2("add", add_f32x2),
    X2_2("sub", sub_f32x2),
    X2_2("mul", mul_f32x2),
    {"fma.f32x2", fma_f32x2, COUNT_FLOAT, {TAKES_64, TAKES_64, TAKES_64, TAKES_64}},
};

/* As they stand: bits are picked, nothing is rounded. */
static const Row exact[] = {
    F32_1("neg", neg_f32),
    F32_1("neg.ftz", neg_ftz_f32),
    F64_1("neg", neg_f64),
    F32_1("abs", abs_f32),
    F32_1("abs.ftz", abs_ftz_f32),
    F64_1("abs", abs_f64),
    F32_2("copysign", copysign_f32),
    F64_2("copysign", copysign_f64),
    MIN_MAX_ROWS(min),
    MIN_MAX_ROWS(max),
};

bool rule_float(const Opcode *o, Rule *out)
{
    static const char *const modes[] = {"rn", "rz", "rm", "rp", "ftz", NULL};
    static const char *const none[] = {NULL};
    char key[64];
    if (opcode_key(o, none, key, sizeof key) &&
        row_rule(row_find(exact, sizeof exact / sizeof *exact, key), out)) {
        out->optional = !strncmp(key, "m", 1) && out->takes[3] != TAKES_NONE;
        return true;
    }
    if (!opcode_key(o, modes, key, sizeof key) ||
        !row_rule(row_find(rounded, sizeof rounded / sizeof *rounded, key), out))
        return false;
    out->mxcsr = opcode_mxcsr(o);
    if (!out->mxcsr)
        out->mxcsr = MXCSR_NEAREST;
    return true;
}
