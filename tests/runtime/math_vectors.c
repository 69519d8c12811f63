/* math_vectors.c: loops over the scalar functions, built several times for different processors:
 * every build must give the same bits. VARIANT names the build. SPDX-License-Identifier: MIT */
#include "tests/runtime/math_vectors.h"

#include <math.h>
#include <string.h>

#define TN_FN static inline
#include "runtime/kernels/math.h"
#include "runtime/kernels/number.h"

#define PASTE(a, b) a##b
#define NAME(v)     PASTE(math_vectors_, v)

#define UNARY(name)                                                                                \
    static void each_##name(const float *restrict x, float *restrict y, int n)                     \
    {                                                                                              \
        for (int i = 0; i < n; i++)                                                                \
            y[i] = tn_##name(x[i]);                                                                \
    }
#include "tests/runtime/math_functions.def"
#undef UNARY

static void each_pow(const float *restrict x, const float *restrict y, float *restrict z, int n)
{
    for (int i = 0; i < n; i++)
        z[i] = tn_pow(x[i], y[i]);
}

static void each_atan2(const float *restrict y, const float *restrict x, float *restrict z, int n)
{
    for (int i = 0; i < n; i++)
        z[i] = tn_atan2(y[i], x[i]);
}

static void each_uniform(uint64_t key, uint64_t at, float *restrict x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = tn_uniform(key, at + (uint64_t)i);
}

static void each_normal(uint64_t key, uint64_t at, float *restrict x, int n)
{
    for (int i = 0; i < n; i++)
        x[i] = tn_normal(key, at + (uint64_t)i);
}

static void each_f16(const float *restrict x, uint16_t *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = tn_f16_from_f32(x[i]);
}

static void each_bf16(const float *restrict x, uint16_t *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = tn_bf16_from_f32(x[i]);
}

static void each_i32(const float *restrict x, int32_t *restrict y, int n)
{
    for (int i = 0; i < n; i++)
        y[i] = tn_i32_from_f32(x[i]);
}

const MathVectors NAME(VARIANT) = {
#define UNARY(name) {#name, each_##name},
    .unary =
        {
#include "tests/runtime/math_functions.def"
        },
#undef UNARY
    .pow = each_pow,
    .atan2 = each_atan2,
    .uniform = each_uniform,
    .normal = each_normal,
    .f16 = each_f16,
    .bf16 = each_bf16,
    .i32 = each_i32,
};
