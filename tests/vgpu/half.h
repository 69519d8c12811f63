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

/* A double as a float that is odd where it is inexact: rounding that once more to fewer bits gives
 * what rounding the double would have. */
static inline float to_odd(double v)
{
    float f = (float)v;
    uint32_t b = float_bits(f);
    double back = (double)f;
    bool away = back > v ? v > 0 || (v == 0 && !(b >> 31)) : back < v && v < 0;
    bool inexact = back != v && v == v && !(b & 1);
    uint32_t odd = away ? b - 1 : b + 1;
    return bits_float(inexact && (b & 0x7fffffffu) != 0x7f800000u ? odd : b);
}

/* The sum of doubles, odd where it is inexact. */
static inline double add_to_odd(double a, double b)
{
    double s = a + b, part = s - a;
    double error = (a - (s - part)) + (b - part); /* exact; of no use where s is no number */
    uint64_t bits = double_bits(s);
    bool inexact = (error < 0 || error > 0) && !(bits & 1);
    uint64_t odd = (error > 0) == (s > 0) ? bits + 1 : bits - 1;
    return bits_double(inexact && s - s == 0 ? odd : bits);
}

#endif
