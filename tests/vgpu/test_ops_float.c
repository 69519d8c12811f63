/* test_ops_float.c: f32 and f64: rounding modes against the C library's, flushing done by hand,
 * approximations within the error that the hardware documents. SPDX-License-Identifier: MIT */
#include "tests/vgpu/test_ops.h"

#include <fenv.h>

#define F  test_f32
#define D  test_f64
#define BF test_bits_f32
#define BD test_bits_f64

/* --- one operation under a rounding mode; volatile keeps it where it stands ------------------ */

static uint64_t round_f32(int mode, char op, uint64_t x, uint64_t y, uint64_t z)
{
    volatile float a = F(x), b = F(y), c = F(z), r;
    fesetround(mode);
    switch (op) {
    case '+':
        r = a + b;
        break;
    case '-':
        r = a - b;
        break;
    case '*':
        r = a * b;
        break;
    case '/':
        r = a / b;
        break;
    case 's':
        r = sqrtf(a);
        break;
    default:
        r = fmaf(a, b, c);
        break;
    }
    fesetround(FE_TONEAREST);
    return BF(r);
}

static uint64_t round_f64(int mode, char op, uint64_t x, uint64_t y, uint64_t z)
{
    volatile double a = D(x), b = D(y), c = D(z), r;
    fesetround(mode);
    switch (op) {
    case '+':
        r = a + b;
        break;
    case '-':
        r = a - b;
        break;
    case '*':
        r = a * b;
        break;
    case '/':
        r = a / b;
        break;
    case 's':
        r = sqrt(a);
        break;
    default:
        r = fma(a, b, c);
        break;
    }
    fesetround(FE_TONEAREST);
    return BD(r);
}

#define ONE 0x3f800000
#define ALL_ROUNDINGS(op, letter)                                                                  \
    CHECK(op ".rn.f32", "fff", round_f32(FE_TONEAREST, letter, x, y, 0));                          \
    CHECK(op ".rz.f32", "fff", round_f32(FE_TOWARDZERO, letter, x, y, 0));                         \
    CHECK(op ".rm.f32", "fff", round_f32(FE_DOWNWARD, letter, x, y, 0));                           \
    CHECK(op ".rp.f32", "fff", round_f32(FE_UPWARD, letter, x, y, 0));                             \
    CHECK(op ".rn.f64", "ddd", round_f64(FE_TONEAREST, letter, x, y, 0));                          \
    CHECK(op ".rz.f64", "ddd", round_f64(FE_TOWARDZERO, letter, x, y, 0));                         \
    CHECK(op ".rm.f64", "ddd", round_f64(FE_DOWNWARD, letter, x, y, 0));                           \
    CHECK(op ".rp.f64", "ddd", round_f64(FE_UPWARD, letter, x, y, 0))

static void roundings(void **state)
{
    (void)state;
    ALL_ROUNDINGS("add", '+');
    ALL_ROUNDINGS("sub", '-');
    ALL_ROUNDINGS("mul", '*');
    ALL_ROUNDINGS("div", '/');
    CHECK("add.f32", "fff", round_f32(FE_TONEAREST, '+', x, y, 0));
    CHECK("mul.f64", "ddd", round_f64(FE_TONEAREST, '*', x, y, 0));
    CHECK("sqrt.rn.f32", "ff", round_f32(FE_TONEAREST, 's', x, 0, 0));
    CHECK("sqrt.rp.f32", "ff", round_f32(FE_UPWARD, 's', x, 0, 0));
    CHECK("sqrt.rz.f64", "dd", round_f64(FE_TOWARDZERO, 's', x, 0, 0));
    CHECK("rcp.rn.f32", "ff", round_f32(FE_TONEAREST, '/', ONE, x, 0));
    CHECK("rcp.rm.f32", "ff", round_f32(FE_DOWNWARD, '/', ONE, x, 0));
    CHECK("rcp.rn.f64", "dd", round_f64(FE_TONEAREST, '/', 0x3ff0000000000000, x, 0));
}

static void fused(void **state)
{
    (void)state;
    CHECK("fma.rn.f32", "ffff", round_f32(FE_TONEAREST, 'f', x, y, z));
    CHECK("fma.rz.f32", "ffff", round_f32(FE_TOWARDZERO, 'f', x, y, z));
    CHECK("fma.rm.f32", "ffff", round_f32(FE_DOWNWARD, 'f', x, y, z));
    CHECK("fma.rp.f32", "ffff", round_f32(FE_UPWARD, 'f', x, y, z));
    CHECK("mad.rn.f32", "ffff", round_f32(FE_TONEAREST, 'f', x, y, z));
    CHECK("fma.rn.f64", "dddd", round_f64(FE_TONEAREST, 'f', x, y, z));
    CHECK("fma.rz.f64", "dddd", round_f64(FE_TOWARDZERO, 'f', x, y, z));
}

/* --- .ftz, .sat ------------------------------------------------------------------------------ */

static uint64_t flush(uint64_t x)
{
    return x & 0x7f800000 ? x : x & 0x80000000;
}

static uint64_t saturated(uint64_t x)
{
    float f = F(x);
    return BF(f > 0 ? (f < 1 ? f : 1.0f) : 0.0f);
}

/* What is below the smallest normal number once it is rounded to 24 bits is flushed, also where the
 * rounding to a subnormal would have made it that number. */
static uint64_t flushed(char op, uint64_t x, uint64_t y, uint64_t z)
{
    double a = (double)F(flush(x)), b = (double)F(flush(y)), c = (double)F(flush(z));
    double exact = op == '+'   ? a + b
                   : op == '-' ? a - b
                   : op == '*' ? a * b
                   : op == '/' ? a / b
                               : a * b + c;
    if (fabsf((float)(exact * 0x1p64)) < 0x1p-62f)
        return BF(copysignf(0.0f, (float)exact));
    return round_f32(FE_TONEAREST, op, flush(x), flush(y), flush(z));
}

static uint64_t flush_f64(uint64_t x)
{
    return x & 0x7ff0000000000000 ? x : x & 0x8000000000000000;
}

#define FLUSHED(letter) flushed(letter, x, y, z)
#define UPPER           0xffffffff00000000

static void flushing(void **state)
{
    (void)state;
    CHECK("add.ftz.f32", "fff", FLUSHED('+'));
    CHECK("sub.rn.ftz.f32", "fff", FLUSHED('-'));
    CHECK("mul.ftz.f32", "fff", FLUSHED('*'));
    CHECK("div.rn.ftz.f32", "fff", FLUSHED('/'));
    CHECK("fma.rn.ftz.f32", "ffff", FLUSHED('f'));
    CHECK("add.rz.ftz.f32", "fff", flush(round_f32(FE_TOWARDZERO, '+', flush(x), flush(y), 0)));
    CHECK("neg.ftz.f32", "ff", flush(x) ^ 0x80000000);
    CHECK("abs.ftz.f32", "ff", flush(x) & 0x7fffffff);
    CHECK("setp.gt.ftz.f32", "pff", F(flush(x)) > F(flush(y)));
    CHECK("setp.eq.ftz.f32", "pff", F(flush(x)) == F(flush(y)));
    CHECK("setp.gt.f32", "pff", F(x) > F(y));
}

static void saturation(void **state)
{
    (void)state;
    CHECK("add.sat.f32", "fff", saturated(round_f32(FE_TONEAREST, '+', x, y, 0)));
    CHECK("sub.sat.f32", "fff", saturated(round_f32(FE_TONEAREST, '-', x, y, 0)));
    CHECK("mul.rz.sat.f32", "fff", saturated(round_f32(FE_TOWARDZERO, '*', x, y, 0)));
    CHECK("fma.rn.sat.f32", "ffff", saturated(round_f32(FE_TONEAREST, 'f', x, y, z)));
    CHECK("mul.ftz.sat.f32", "fff", saturated(FLUSHED('*')));
}

static void signs(void **state)
{
    (void)state;
    CHECK("neg.f32", "ff", x ^ 0x80000000);
    CHECK("abs.f32", "ff", x & 0x7fffffff);
    CHECK("neg.f64", "dd", x ^ 0x8000000000000000);
    CHECK("abs.f64", "dd", x & 0x7fffffffffffffff);
    /* the sign is the first source's */
    CHECK("copysign.f32", "fff", (x & 0x80000000) | (y & 0x7fffffff));
    CHECK("copysign.f64", "ddd", (x & 0x8000000000000000) | (y & 0x7fffffffffffffff));
}

/* --- min, max -------------------------------------------------------------------------------- */

static float slow_min(float a, float b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    if (a == b)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}

static float slow_max(float a, float b)
{
    return -slow_min(-a, -b);
}

static double slow_min_f64(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    if (a == b)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}

static float xorsign(float m, float a, float b)
{
    return copysignf(m, copysignf(1.0f, a) * copysignf(1.0f, b));
}

static void extremes(void **state)
{
    (void)state;
    CHECK("min.f32", "fff", BF(slow_min(F(x), F(y))));
    CHECK("max.f32", "fff", BF(slow_max(F(x), F(y))));
    CHECK("min.ftz.f32", "fff", BF(slow_min(F(flush(x)), F(flush(y)))));
    CHECK("min.NaN.f32", "fff", BF(isnan(F(x)) || isnan(F(y)) ? NAN : slow_min(F(x), F(y))));
    CHECK("max.ftz.NaN.f32", "fff",
          BF(isnan(F(x)) || isnan(F(y)) ? NAN : slow_max(F(flush(x)), F(flush(y)))));
    CHECK("max.xorsign.abs.f32", "fff",
          BF(xorsign(slow_max(fabsf(F(x)), fabsf(F(y))), F(x), F(y))));
    CHECK("min.f64", "ddd", BD(slow_min_f64(D(x), D(y))));
    CHECK("max.f64", "ddd", BD(-slow_min_f64(-D(x), -D(y))));
    CHECK("max.f32", "ffff", BF(slow_max(slow_max(F(x), F(y)), F(z))));
}

/* --- comparisons ----------------------------------------------------------------------------- */

#define NANS(x, y) (isnan(x) || isnan(y))
#define ALL_COMPARISONS(type, letters, V)                                                          \
    CHECK("setp.eq." type, letters, V(x) == V(y));                                                 \
    CHECK("setp.ne." type, letters, !NANS(V(x), V(y)) && V(x) != V(y));                            \
    CHECK("setp.lt." type, letters, V(x) < V(y));                                                  \
    CHECK("setp.le." type, letters, V(x) <= V(y));                                                 \
    CHECK("setp.gt." type, letters, V(x) > V(y));                                                  \
    CHECK("setp.ge." type, letters, V(x) >= V(y));                                                 \
    CHECK("setp.equ." type, letters, NANS(V(x), V(y)) || V(x) == V(y));                            \
    CHECK("setp.neu." type, letters, V(x) != V(y));                                                \
    CHECK("setp.ltu." type, letters, NANS(V(x), V(y)) || V(x) < V(y));                             \
    CHECK("setp.leu." type, letters, NANS(V(x), V(y)) || V(x) <= V(y));                            \
    CHECK("setp.gtu." type, letters, NANS(V(x), V(y)) || V(x) > V(y));                             \
    CHECK("setp.geu." type, letters, NANS(V(x), V(y)) || V(x) >= V(y));                            \
    CHECK("setp.num." type, letters, !NANS(V(x), V(y)));                                           \
    CHECK("setp.nan." type, letters, NANS(V(x), V(y)))

static void comparisons(void **state)
{
    (void)state;
    ALL_COMPARISONS("f32", "pff", F);
    ALL_COMPARISONS("f64", "pdd", D);
    CHECK("setp.lt.or.f32", "pffp", F(x) < F(y) || z);
    CHECK("set.lt.f32.f32", "fff", F(x) < F(y) ? ONE : 0);
    CHECK("set.geu.u32.f64", "idd", NANS(D(x), D(y)) || D(x) >= D(y) ? UINT32_MAX : 0);
    CHECK("testp.finite.f32", "pf", isfinite(F(x)));
    CHECK("testp.infinite.f64", "pd", isinf(D(x)));
    CHECK("testp.number.f32", "pf", !isnan(F(x)));
    CHECK("testp.notanumber.f64", "pd", isnan(D(x)));
    CHECK("testp.normal.f32", "pf", isnormal(F(x)));
    CHECK("testp.subnormal.f64", "pd", fpclassify(D(x)) == FP_SUBNORMAL);
}

/* --- approximations -------------------------------------------------------------------------- */

static double slow_ex2(double v)
{
    return exp2(v);
}

static void approximations(void **state)
{
    const double ulp = 0x1p-23;
    (void)state;
    CHECK_NEAR("rcp.approx.f32", "ff", ulp, 0x1p-149, 1.0 / (double)F(x));
    CHECK_NEAR("rcp.approx.ftz.f32", "ff", ulp, 0.0,
               (double)F(flush(BF((float)(1.0 / (double)F(flush(x)))))));
    CHECK_NEAR("sqrt.approx.f32", "ff", ulp, 0.0, sqrt((double)F(x)));
    CHECK_NEAR("rsqrt.approx.f32", "ff", 2 * ulp, 0.0, 1.0 / sqrt((double)F(x)));
    CHECK_NEAR("ex2.approx.f32", "ff", 2 * ulp, 0x1p-149, slow_ex2((double)F(x)));
    CHECK_NEAR("lg2.approx.f32", "ff", 2 * ulp, 0x1p-22, log2((double)F(x)));
    CHECK_NEAR("lg2.approx.ftz.f32", "ff", 2 * ulp, 0x1p-22, log2((double)F(flush(x))));
    CHECK_NEAR("div.approx.f32", "fff", 2 * ulp, 0x1p-149, (double)(F(x) / F(y)));
    CHECK_NEAR("div.full.f32", "fff", 2 * ulp, 0x1p-149, (double)(F(x) / F(y)));
    CHECK_NEAR("tanh.approx.f32", "ff", 0x1p-11, 0.0, tanh((double)F(x)));
    CHECK("rcp.approx.ftz.f64", "dd", flush_f64(BD(1.0 / D(flush_f64(x & UPPER)))) & UPPER);
}

/* sin and cos are for angles in [-pi, pi]; ex2 and lg2 over their whole ranges. */
static void ranges(void **state)
{
    static const struct {
        const char *op;
        float from, to;
        double (*want)(double);
        double relative, absolute;
    } all[] = {{"sin.approx.f32", -3.14f, 3.14f, sin, 0, 0x1p-20},
               {"cos.approx.f32", -3.14f, 3.14f, cos, 0, 0x1p-20},
               {"ex2.approx.f32", -155.0f, 129.0f, slow_ex2, 0x1p-22, 0x1p-149},
               {"lg2.approx.f32", 0.0f, 40.0f, log2, 0x1p-22, 0x1p-22},
               {"tanh.approx.f32", -10.0f, 10.0f, tanh, 0x1p-11, 0}};
    (void)state;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        Case c;
        case_open(&c, all[k].op, "ff", "");
        c.relative = all[k].relative;
        c.absolute = all[k].absolute;
        c.mask = ALL_LANES;
        for (int n = 0; n < 1000; n++) {
            for (int l = 0; l < LANES; l++) {
                float v =
                    all[k].from + (all[k].to - all[k].from) * (float)(n * LANES + l) / 32000.0f;
                c.in[0][l] = BF(v);
                memcpy(c.w.regs + c.i->a + 4 * l, &v, sizeof v);
            }
            c.i->exec(&c.w, c.i, ALL_LANES);
            for (int l = 0; l < LANES; l++)
                case_check(&c, l, BF((float)all[k].want((double)F(c.in[0][l]))));
        }
        case_close(&c);
    }
}

static void pairs_of_floats(void **state)
{
    (void)state;
    CHECK("add.rn.f32x2", "xxx",
          round_f32(FE_TONEAREST, '+', x, y, 0) | round_f32(FE_TONEAREST, '+', x >> 32, y >> 32, 0)
                                                      << 32);
    CHECK("mul.rz.f32x2", "xxx",
          round_f32(FE_TOWARDZERO, '*', x, y, 0) |
              round_f32(FE_TOWARDZERO, '*', x >> 32, y >> 32, 0) << 32);
}

int test_floats(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roundings),   cmocka_unit_test(fused),
        cmocka_unit_test(flushing),    cmocka_unit_test(saturation),
        cmocka_unit_test(signs),       cmocka_unit_test(extremes),
        cmocka_unit_test(comparisons), cmocka_unit_test(approximations),
        cmocka_unit_test(ranges),      cmocka_unit_test(pairs_of_floats),
    };
    return cmocka_run_group_tests_name("floats", tests, NULL, NULL);
}
