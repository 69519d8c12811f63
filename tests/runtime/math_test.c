/* math_test.c: the scalar functions of runtime/kernels against the f64 functions of libm (2 ulp),
 * their special values, and the same bits from builds for different processors.
 * SPDX-License-Identifier: MIT */
#include "tests/runtime/math_vectors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TN_FN static inline __attribute__((unused))
#include "runtime/kernels/math.h"
#include "runtime/kernels/number.h"
#include "runtime/kernels/reducers.h"

enum { CHUNK = 4096 };

static double want_sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static double want_rsqrt(double x)
{
    return 1.0 / sqrt(x);
}

static double (*const want[UNARY_COUNT])(double) = {
    exp,  exp2, expm1, log, log2, log10,        log1p,      sin,  cos,   tan,  asin,  acos, atan,
    sinh, cosh, tanh,  erf, erfc, want_sigmoid, want_rsqrt, sqrt, floor, ceil, trunc, rint};

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

/* The error of got in units of the last place of a float near x. */
static double ulps(float got, double x)
{
    const float w = (float)x;
    if (isnan(x))
        return isnan(got) ? 0.0 : HUGE_VAL;
    if (got == w)
        return 0.0;
    if (isnan(got) || (isinf(w) && isinf(got)))
        return HUGE_VAL;
    int e;
    frexp(isinf(w) || isinf(got) ? 3.4e38 : x, &e);
    const double unit = ldexp(1.0, e - 24 < -149 ? -149 : e - 24);
    return fabs((isinf(got) ? copysign(0x1p128, got) : (double)got) -
                (isinf(w) ? copysign(0x1p128, x) : x)) /
           unit;
}

static void report(const char *name, float x, float y, float got, double right, double error)
{
    if (error > 2.0)
        print_error("%s(%.9g, %.9g) = %.9g, should be %.9g: %.2f ulp\n", name, x, y, got, right,
                    error);
}

static void test_unary(void **state)
{
    (void)state;
    static float x[CHUNK], y[CHUNK];
    for (int f = 0; f < UNARY_COUNT; f++) {
        double worst = 0.0;
        int at = 0;
        uint64_t bits = 0;
        while (bits < UINT64_C(1) << 32) {
            for (int i = 0; i < CHUNK; i++, bits += 4099)
                x[i] = float_of((uint32_t)bits);
            math_vectors_base.unary[f].f(x, y, CHUNK);
            double chunk = 0.0;
            for (int i = 0; i < CHUNK; i++) {
                const double error = ulps(y[i], want[f]((double)x[i]));
                at = error > chunk ? i : at;
                chunk = error > chunk ? error : chunk;
            }
            report(math_vectors_base.unary[f].name, x[at], 0.0f, y[at], want[f]((double)x[at]),
                   chunk);
            worst = chunk > worst ? chunk : worst;
        }
        assert_true(worst <= 2.0);
    }
}

static void test_unary_special(void **state)
{
    (void)state;
    const float inf = HUGE_VALF;
    static const float xs[] = {
        0.0f,           -0.0f,           1.0f,       -1.0f,       1e-45f,
        -1e-45f,        1.17549435e-38f, 0.5f,       -0.5f,       88.7228394f,
        88.72284f,      -103.97f,        -104.0f,    89.4159851f, 89.41599f,
        128.0f,         127.99999f,      -126.0f,    -149.0f,     -150.0f,
        3.40282347e38f, -3.40282347e38f, 1.5707964f, 3.1415927f,  16367173e12f,
        0.0078125f};
    for (int f = 0; f < UNARY_COUNT; f++) {
        float x[32], y[32];
        int n = 0;
        for (; n < (int)(sizeof xs / sizeof *xs); n++)
            x[n] = xs[n];
        x[n++] = inf;
        x[n++] = -inf;
        x[n++] = NAN;
        math_vectors_base.unary[f].f(x, y, n);
        for (int i = 0; i < n; i++) {
            const double right = want[f]((double)x[i]), error = ulps(y[i], right);
            report(math_vectors_base.unary[f].name, x[i], 0.0f, y[i], right, error);
            assert_true(error <= 2.0);
            if (right == 0.0 && y[i] == 0.0f && !isnan(x[i]))
                assert_int_equal(signbit(y[i]) != 0, signbit(right) != 0);
        }
    }
}

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 3 ^ *seed << 15;
}

static void test_pow(void **state)
{
    (void)state;
    uint32_t seed = 1;
    double worst = 0.0;
    for (int i = 0; i < 2000000; i++) {
        float x = float_of(next(&seed)), y = float_of(next(&seed));
        if (i % 2) { /* results within range are rare among random bits */
            x = float_of((next(&seed) & 0x3ffffffu) + 0x3e000000u);
            y = (float)(int)(next(&seed) & 0xffffffu) * 0x1p-16f - 128.0f;
        }
        if (i % 5 == 0)
            y = rintf(y);
        const double right = pow((double)x, (double)y), error = ulps(tn_pow(x, y), right);
        report("pow", x, y, tn_pow(x, y), right, error);
        worst = error > worst ? error : worst;
    }
    assert_true(worst <= 2.0);
}

static void test_pow_atan2_special(void **state)
{
    (void)state;
    const float v[] = {0.0f,   -0.0f,       1.0f,        -1.0f,     2.0f,       -2.0f,
                       3.0f,   -3.0f,       0.5f,        -0.5f,     1e-40f,     1e30f,
                       -1e30f, 16777215.0f, 16777216.0f, HUGE_VALF, -HUGE_VALF, NAN};
    const int n = sizeof v / sizeof *v;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < n; k++) {
            const double p = pow((double)v[i], (double)v[k]), a = atan2((double)v[i], (double)v[k]);
            const float gp = tn_pow(v[i], v[k]), ga = tn_atan2(v[i], v[k]);
            report("pow", v[i], v[k], gp, p, ulps(gp, p));
            report("atan2", v[i], v[k], ga, a, ulps(ga, a));
            assert_true(ulps(gp, p) <= 2.0 && ulps(ga, a) <= 2.0);
            assert_true(isnan(p) || (signbit(gp) != 0) == (signbit(p) != 0));
            assert_true(isnan(a) || (signbit(ga) != 0) == (signbit(a) != 0));
        }
}

static void test_atan2(void **state)
{
    (void)state;
    uint32_t seed = 7;
    double worst = 0.0;
    for (int i = 0; i < 1000000; i++) {
        const float y = float_of(next(&seed)),
                    x = i % 3 ? y * ((float)(next(&seed) >> 8) * 0x1p-20f - 8.0f)
                              : float_of(next(&seed));
        const double right = atan2((double)y, (double)x), error = ulps(tn_atan2(y, x), right);
        report("atan2", y, x, tn_atan2(y, x), right, error);
        worst = error > worst ? error : worst;
    }
    assert_true(worst <= 2.0);
}

static void test_half(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 65536; i++) {
        const uint16_t h = (uint16_t)i;
        const int e = h >> 10 & 31, m = h & 1023;
        double right = e ? ldexp(1.0 + m / 1024.0, e - 15) : ldexp(m, -24);
        if (e == 31)
            right = m ? NAN : HUGE_VAL;
        right = h >> 15 ? -right : right;
        const float x = tn_f32_from_f16(h);
        assert_true(isnan(right) ? isnan(x) : (double)x == right);
        assert_true(isnan(right) ? isnan(tn_f32_from_f16(tn_f16_from_f32(x)))
                                 : tn_f16_from_f32(x) == h);
        const float b = tn_f32_from_bf16(h);
        assert_true(isnan(b) ? isnan(tn_f32_from_bf16(tn_bf16_from_f32(b)))
                             : tn_bf16_from_f32(b) == h);
        /* the middle between two neighbours goes to the even one, anything more goes away */
        if ((h & 0x7fff) < 0x7bff) {
            const float up = tn_f32_from_f16((uint16_t)(h + 1)), middle = (x + up) / 2;
            assert_int_equal(tn_f16_from_f32(middle), h & 1 ? h + 1 : h);
            assert_int_equal(tn_f16_from_f32(nextafterf(middle, up)), h + 1);
            assert_int_equal(tn_f16_from_f32(nextafterf(middle, x)), h);
            const double mid = ((double)x + (double)up) / 2;
            assert_int_equal(tn_f16_from_f64(nextafter(mid, (double)up)), h + 1);
            assert_int_equal(tn_f16_from_f64(nextafter(mid, (double)x)), h);
        }
        if ((h & 0x7fff) < 0x7f7f) {
            const float middle = float_of((uint32_t)h << 16 | 0x8000u);
            assert_int_equal(tn_bf16_from_f32(middle), h & 1 ? h + 1 : h);
            assert_int_equal(tn_bf16_from_f32(float_of((uint32_t)h << 16 | 0x8001u)), h + 1);
            assert_int_equal(tn_bf16_from_f32(float_of((uint32_t)h << 16 | 0x7fffu)), h);
        }
    }
    assert_int_equal(tn_f16_from_f32(65519.996f), 0x7bff);
    assert_int_equal(tn_f16_from_f32(65520.0f), 0x7c00);
    assert_int_equal(tn_f16_from_f32(-1e30f), 0xfc00);
    assert_int_equal(tn_bf16_from_f32(3.4e38f), 0x7f80);
    assert_int_equal(tn_bf16_from_f64(1e300), 0x7f80);
    assert_true(isnan(tn_f32_from_bf16(tn_bf16_from_f32(float_of(0x7f800001u)))));
}

static void test_casts(void **state)
{
    (void)state;
    assert_int_equal(tn_i32_from_f32(NAN), 0);
    assert_int_equal(tn_i32_from_f32(3e9f), INT32_MAX);
    assert_int_equal(tn_i32_from_f32(-3e9f), INT32_MIN);
    assert_int_equal(tn_i32_from_f32(2147483520.0f), 2147483520);
    assert_int_equal(tn_i32_from_f32(-2.9f), -2);
    assert_int_equal(tn_i32_from_f64(2147483647.9), INT32_MAX);
    assert_int_equal(tn_i32_from_f64(-HUGE_VAL), INT32_MIN);
    assert_true(tn_i64_from_f64(1e19) == INT64_MAX && tn_i64_from_f64(-1e19) == INT64_MIN);
    assert_true(tn_i64_from_f32(NAN) == 0 && tn_i64_from_f32(-1e18f) == -999999984306749440);
    assert_true(tn_u64_from_f64(-1.0) == 0 && tn_u64_from_f64(2e19) == UINT64_MAX);
    assert_true(tn_u64_from_f32(1e19f) == 9999999980506447872u && tn_u64_from_f64(NAN) == 0);
    assert_int_equal(tn_u8_from_f32(256.5f), 255);
    assert_int_equal(tn_u8_from_f64(-1.0), 0);
    assert_int_equal(tn_i8_from_f32(-200.0f), -128);
    assert_int_equal(tn_i16_from_f64(1e9), 32767);
    assert_int_equal(tn_i16_from_f32(NAN), 0);
}

static void test_integers(void **state)
{
    (void)state;
    assert_int_equal(tn_floordiv_i32(7, -2), -4);
    assert_int_equal(tn_floordiv_i32(-7, -2), 3);
    assert_int_equal(tn_floordiv_i32(6, 0), 0);
    assert_int_equal(tn_floordiv_i32(INT32_MIN, -1), INT32_MIN);
    assert_int_equal(tn_quot_i32(-7, 2), -3);
    assert_int_equal(tn_mod_i32(-7, 3), 2);
    assert_int_equal(tn_mod_i32(7, -3), -2);
    assert_int_equal(tn_mod_i32(5, 0), 0);
    assert_int_equal(tn_mod_i32(INT32_MIN, -1), 0);
    assert_true(tn_floordiv_i64(-7, 2) == -4 && tn_mod_i64(-7, 2) == 1);
    assert_true(tn_floordiv_i64(INT64_MIN, -1) == INT64_MIN && tn_floordiv_i64(1, 0) == 0);
    assert_int_equal(tn_shl_i32(1, 31), INT32_MIN);
    assert_int_equal(tn_shl_i32(1, 32), 0);
    assert_int_equal(tn_shl_i32(1, -1), 0);
    assert_int_equal(tn_shr_i32(-8, 1), -4);
    assert_int_equal(tn_shr_i32(-8, 99), -1);
    assert_true(tn_shr_i64(-8, 64) == -1 && tn_shl_i64(3, 40) == INT64_C(3) << 40);
}

static void test_float_division(void **state)
{
    (void)state;
    assert_true(tn_mod_f32(-7.5f, 2.0f) == 0.5f && tn_mod_f32(7.5f, -2.0f) == -0.5f);
    assert_true(isnan(tn_mod_f32(1.0f, 0.0f)));
    assert_true(tn_floordiv_f32(-7.5f, 2.0f) == -4.0f && tn_floordiv_f32(1.0f, 0.1f) == 9.0f);
    assert_true(isinf(tn_floordiv_f32(1.0f, 0.0f)) && signbit(tn_floordiv_f32(-0.0f, 2.0f)));
    assert_true(tn_floordiv_f64(1.0, 0.1) == 9.0 && tn_mod_f64(-1.0, 3.0) == 2.0);
    assert_true(isnan(tn_max(NAN, 1.0f)) && isnan(tn_max(1.0f, NAN)) && tn_max(1.0f, 2.0f) == 2.0f);
    assert_true(isnan(tn_min(NAN, 1.0f)) && isnan(tn_min(1.0f, NAN)) && tn_min(1.0f, 2.0f) == 1.0f);
    assert_true(tn_sign(-3.0f) == -1.0f && tn_sign(0.0f) == 0.0f && isnan(tn_sign(NAN)));
    assert_true(tn_abs(-2.0f) == 2.0f && tn_copysign(3.0f, -0.0f) == -3.0f);
}

static void test_philox(void **state)
{
    (void)state;
    uint32_t w[4]; /* the first test vector of the generator's authors: key and counter 0 */
    tn_philox(0, 0, w);
    const uint32_t right[4] = {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u};
    assert_memory_equal(w, right, sizeof w);
    float u[4], z[4];
    double sum = 0.0, square = 0.0, fourth = 0.0, cross = 0.0;
    const int blocks = 250000;
    for (int b = 0; b < blocks; b++) {
        tn_uniform4(99, (uint64_t)b, u);
        tn_normal4(99, (uint64_t)b, z);
        for (int i = 0; i < 4; i++) {
            if (b < 1000) {
                assert_true(u[i] == tn_uniform(99, (uint64_t)(4 * b + i)));
                assert_true(z[i] == tn_normal(99, (uint64_t)(4 * b + i)));
            }
            assert_true(u[i] >= 0.0f && u[i] < 1.0f);
            sum += z[i];
            square += (double)z[i] * z[i];
            fourth += pow(z[i], 4.0);
        }
        cross += (double)z[0] * z[1] + (double)z[2] * z[3];
    }
    const double n = 4.0 * blocks;
    assert_true(fabs(sum / n) < 0.004 && fabs(square / n - 1.0) < 0.006);
    assert_true(fabs(fourth / n - 3.0) < 0.05 && fabs(cross / n) < 0.003);
    float x, y; /* the angle is counted from b's quarter turns */
    tn_normal2(0x80000000u, 0x40000000u, &x, &y);
    assert_true(fabsf(x) < 1e-7f && fabsf(y - 1.17741f) < 1e-4f);
    tn_normal2(0x80000000u, 0xa0000000u, &x, &y);
    assert_true(fabsf(x + 0.832555f) < 1e-4f && fabsf(y + 0.832555f) < 1e-4f);
}

/* Blocks drawn at once are what single elements are, wherever they begin. */
static void test_runs(void **state)
{
    (void)state;
    static const uint64_t starts[] = {0, 1, 77, (UINT64_C(1) << 32) - 2, UINT64_C(1) << 40};
    float u[192], z[192];
    int32_t w[192];
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        tn_uniform_run(42, starts[i], 33, u);
        tn_normal_run(42, starts[i], 33, z);
        tn_bits_run(42, starts[i], 33, w);
        for (int k = 0; k < 132; k++) {
            const uint64_t at = 4 * starts[i] + (uint64_t)k;
            uint32_t block[4];
            tn_philox(42, at / 4, block);
            assert_true(u[k] == tn_uniform(42, at) && z[k] == tn_normal(42, at));
            assert_true(w[k] == (int32_t)block[k % 4]);
        }
    }
}

static void test_exp_share(void **state)
{
    (void)state;
    double worst = 0.0;
    for (int i = 0; i < 2000000; i++) {
        const float x = -87.0f * (float)i / 2000000.0f;
        const double error = ulps(tn_exp_share(x), exp((double)x));
        worst = error > worst ? error : worst;
    }
    assert_true(worst <= 2.0);
    assert_true(tn_exp_share(0.0f) == 1.0f && tn_exp_share(-0.0f) == 1.0f);
    assert_true(tn_exp_share(-87.5f) == 0.0f && tn_exp_share(-1e30f) == 0.0f);
    assert_true(tn_exp_share(-HUGE_VALF) == 0.0f && isinf(tn_exp_share(HUGE_VALF)));
    assert_true(isnan(tn_exp_share(NAN)) && isnan(tn_exp_share(-NAN)));
}

enum { BLOCK = 256, LANES = 16 };

/* Blocks of 256 against the same values one by one in f64. */
static void test_blocks(void **state)
{
    (void)state;
    static float v[BLOCK], n[LANES], mean[LANES], m2[LANES], m[LANES], s[LANES];
    uint32_t seed = 3;
    for (int l = 0; l < LANES; l++) {
        n[l] = mean[l] = m2[l] = s[l] = 0.0f;
        m[l] = -3.40282347e+38f;
    }
    double x[3][BLOCK];
    for (int b = 0; b < 3; b++) {
        for (int i = 0; i < BLOCK; i++) {
            v[i] = 100.0f + (float)(int)(next(&seed) & 0xffffu) * 0x1p-12f;
            x[b][i] = (double)v[i];
        }
        tn_moments_block_f32(n, mean, m2, v);
        tn_logsumexp_block_f32(m, s, v);
    }
    for (int l = 0; l < LANES; l++) {
        double sum = 0.0, square = 0.0, top = -HUGE_VAL, share = 0.0;
        for (int i = l; i < 3 * BLOCK; i += LANES) {
            sum += x[i / BLOCK][i % BLOCK];
            top = fmax(top, x[i / BLOCK][i % BLOCK]);
        }
        for (int i = l; i < 3 * BLOCK; i += LANES) {
            const double d = x[i / BLOCK][i % BLOCK] - sum / 48;
            square += d * d;
            share += exp(x[i / BLOCK][i % BLOCK] - top);
        }
        assert_true(n[l] == 48.0f && (double)m[l] == top);
        assert_true(fabs((double)mean[l] - sum / 48) < 2e-5);
        assert_true(fabs((double)m2[l] / square - 1.0) < 2e-5);
        assert_true(fabs((double)s[l] / share - 1.0) < 1e-5);
    }
}

/* What is infinite or no number stays so, in blocks and one by one; -inf counts nothing. */
static void test_logsumexp_edges(void **state)
{
    (void)state;
    static const struct {
        float value, m, s;
    } rows[] = {{-HUGE_VALF, 1.0f, 1.0f},
                {HUGE_VALF, 3.40282347e+38f, HUGE_VALF},
                {NAN, 1.0f, NAN},
                {2.0f, 2.0f, 1.36787944f}};
    static float v[BLOCK], m[LANES], s[LANES];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int k = 0; k < BLOCK; k++)
            v[k] = -HUGE_VALF;
        for (int l = 0; l < LANES; l++) {
            m[l] = -3.40282347e+38f;
            s[l] = 0.0f;
        }
        v[5] = 1.0f;
        v[5 + LANES] = rows[i].value;
        tn_logsumexp_block_f32(m, s, v);
        float m1 = -3.40282347e+38f, s1 = 0.0f;
        tn_logsumexp_f32(&m1, &s1, 1.0f, 1.0f);
        tn_logsumexp_f32(&m1, &s1, rows[i].value, 1.0f);
        assert_true(m[5] == rows[i].m && m1 == rows[i].m);
        assert_true(isnan(rows[i].s) ? isnan(s[5]) && isnan(s1)
                                     : s[5] == rows[i].s && s1 == rows[i].s);
        assert_true(m[4] == -3.40282347e+38f && s[4] == 0.0f);
    }
}

static void same_bits(const MathVectors *a, const MathVectors *b)
{
    static float x[CHUNK], y[CHUNK], u[CHUNK], v[CHUNK];
    static uint16_t h[CHUNK], k[CHUNK];
    static int32_t i0[CHUNK], i1[CHUNK];
    uint32_t seed = 5;
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < CHUNK; i++) {
            x[i] = float_of(next(&seed));
            y[i] = (float)(next(&seed) & 0xffffffu) * 0x1p-19f - 16.0f;
            x[i] = round % 2 || isnan(x[i]) ? y[i] * 0.7f : x[i];
        }
        for (int f = 0; f < UNARY_COUNT; f++) {
            a->unary[f].f(x, u, CHUNK);
            b->unary[f].f(x, v, CHUNK);
            for (int i = 0; i < CHUNK; i++) { /* NaN has no promised bits */
                u[i] = isnan(u[i]) ? 0.0f : u[i];
                v[i] = isnan(v[i]) ? 0.0f : v[i];
            }
            assert_memory_equal(u, v, sizeof u);
        }
        for (int i = 0; i < CHUNK; i++)
            x[i] = fabsf(x[i]);
        a->pow(x, y, u, CHUNK);
        b->pow(x, y, v, CHUNK);
        assert_memory_equal(u, v, sizeof u);
        a->atan2(y, x, u, CHUNK);
        b->atan2(y, x, v, CHUNK);
        assert_memory_equal(u, v, sizeof u);
        a->uniform(seed, (uint64_t)round << 33, u, CHUNK);
        b->uniform(seed, (uint64_t)round << 33, v, CHUNK);
        assert_memory_equal(u, v, sizeof u);
        a->normal(seed, (uint64_t)round << 33, u, CHUNK);
        b->normal(seed, (uint64_t)round << 33, v, CHUNK);
        assert_memory_equal(u, v, sizeof u);
        a->f16(y, h, CHUNK);
        b->f16(y, k, CHUNK);
        assert_memory_equal(h, k, sizeof h);
        a->bf16(y, h, CHUNK);
        b->bf16(y, k, CHUNK);
        assert_memory_equal(h, k, sizeof h);
        a->i32(x, i0, CHUNK);
        b->i32(x, i1, CHUNK);
        assert_memory_equal(i0, i1, sizeof i0);
    }
}

static void test_bits(void **state)
{
    (void)state;
#ifdef HAVE_VARIANTS
    const int v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    const int v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    if (!v3)
        skip();
    same_bits(&math_vectors_base, &math_vectors_v3);
    if (v4)
        same_bits(&math_vectors_base, &math_vectors_v4);
#else
    same_bits(&math_vectors_base, &math_vectors_base);
    skip(); /* no other processor to compare with */
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary),
        cmocka_unit_test(test_unary_special),
        cmocka_unit_test(test_pow),
        cmocka_unit_test(test_pow_atan2_special),
        cmocka_unit_test(test_atan2),
        cmocka_unit_test(test_half),
        cmocka_unit_test(test_casts),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_float_division),
        cmocka_unit_test(test_philox),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_exp_share),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_logsumexp_edges),
        cmocka_unit_test(test_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
