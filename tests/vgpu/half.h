/* half.h: f16 and bf16 as bits, to and from float; without branches, so that loops over lanes
 * become vector code. They expect round to nearest and no flushing. SPDX-License-Identifier: MIT */
#ifndef VGPU_HALF_H
#define VGPU_HALF_H

#include "tests/vgpu/op.h"

enum { NAN_HALF = 0x7fff };

static inline float half_to_float(uint32_t h)
{
    /* the exponent is rebased by a product, which also normalises subnormals */
    uint32_t shifted = (h & 0x7fff) << 13;
    float f = bits_float(shifted) * 0x1p112f;
    uint32_t special = (h & 0x7c00) == 0x7c00 ? shifted | 0x7f800000u : float_bits(f);
    return bits_float(special | (h & 0x8000) << 16);
}

static inline uint32_t float_to_half(float v)
{
    uint32_t b = float_bits(v), sign = b >> 16 & 0x8000, a = b & 0x7fffffffu;
    uint32_t normal = (a + 0xfff + (a >> 13 & 1) - (112u << 23)) >> 13;
    /* below 2^-14 the adder rounds at the last place of subnormals */
    uint32_t small = float_bits(bits_float(a) + 0.5f) - 0x3f000000u;
    uint32_t h = a < 0x38800000u ? small : normal > 0x7c00 ? 0x7c00 : normal;
    h = a >= 0x7f800000u ? 0x7c00 : h;
    return a > 0x7f800000u ? NAN_HALF : h | sign;
}

static inline float bf16_to_float(uint32_t h)
{
    return bits_float(h << 16);
}

static inline uint32_t float_to_bf16(float v)
{
    uint32_t b = float_bits(v);
    uint32_t rounded = (b + 0x7fff + (b >> 16 & 1)) >> 16;
    return (b & 0x7fffffffu) > 0x7f800000u ? NAN_HALF : rounded;
}

/* From double with one rounding; all in 64 bits, so that loops stay in vectors. */
static inline uint32_t double_to_half(double v)
{
    uint64_t b = double_bits(v), sign = b >> 48 & 0x8000, a = b & 0x7fffffffffffffffu;
    uint64_t normal = ((a + 0x1ffffffffffu + (a >> 42 & 1)) >> 42) - (1008u << 10);
    uint64_t small = double_bits(bits_double(a) + 0x1p28) - double_bits(0x1p28);
    uint64_t h = a < double_bits(0x1p-14) ? small : normal;
    h = a >= double_bits(65520.0) ? 0x7c00 : h;
    return (uint32_t)(a > 0x7ff0000000000000u ? (uint64_t)NAN_HALF : h | sign);
}

static inline uint32_t double_to_bf16(double v)
{
    uint64_t b = double_bits(v), sign = b >> 48 & 0x8000, a = b & 0x7fffffffffffffffu;
    uint64_t normal = ((a + 0xfffffffffffu + (a >> 45 & 1)) >> 45) - (896u << 7);
    uint64_t small = double_bits(bits_double(a) + 0x1p-81) - double_bits(0x1p-81);
    uint64_t h = a < double_bits(0x1p-126) ? small : normal;
    h = a >= double_bits(0x1.ffp127) ? 0x7f80 : h;
    return (uint32_t)(a > 0x7ff0000000000000u ? (uint64_t)NAN_HALF : h | sign);
}

/* The sum of doubles, odd where it is inexact: rounded once more it is what the exact sum would be.
 */
static inline double add_to_odd(double a, double b)
{
    double s = a + b, part = s - a;
    double error = (a - (s - part)) + (b - part); /* exact; of no use where s is no number */
    uint64_t bits = double_bits(s), inexact = error != 0 && s - s == 0;
    uint64_t down = (double_bits(error) ^ bits) >> 63; /* the exact sum is nearer to 0 */
    return bits_double(bits & 1 ? bits : bits + inexact - 2 * (inexact & down));
}

#endif
