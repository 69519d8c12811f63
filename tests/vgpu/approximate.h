/* approximate.h: what the hardware approximates, computed in double: far within its documented
 * error, and in loops that become vector code. SPDX-License-Identifier: MIT */
#ifndef VGPU_APPROXIMATE_H
#define VGPU_APPROXIMATE_H

#include "tests/vgpu/op.h"

#include <math.h>

#define NAN_F32 bits_float(0x7fffffffu)

/* 2^x: 2^n of the nearest integer n, times e^r by its series, |r| <= ln(2)/2: the error is below
 * 2^-40. */
static inline float exp2_of(float v)
{
    const double round =
        6755399441055744.0; /* 1.5 * 2^52: adding it leaves the integer in the low bits */
    double x = v < -160.0f ? -160.0 : v > 140.0f ? 140.0 : (double)v;
    double shifted = x + round, r = (x - (shifted - round)) * 0.69314718055994530942;
    double p = 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1.0;
    p = p * r + 1.0;
    p = bits_double(double_bits(p) + (double_bits(shifted) << 52));
    return v != v ? NAN_F32 : (float)p;
}

/* log2 of m * 2^e, m in [sqrt(1/2), sqrt(2)): the series of atanh in (m-1)/(m+1). */
static inline float log2_of(float v)
{
    double x = (double)v;
    uint64_t bits = double_bits(x);
    uint64_t up = bits - 0x3fe6a09e667f3bcdu; /* sqrt(1/2) */
    double e = (double)(int64_t)((int64_t)up >> 52);
    double m = bits_double((up & 0x000fffffffffffffu) + 0x3fe6a09e667f3bcdu);
    double t = (m - 1.0) / (m + 1.0), t2 = t * t, p = 1.0 / 15;
    p = p * t2 + 1.0 / 13;
    p = p * t2 + 1.0 / 11;
    p = p * t2 + 1.0 / 9;
    p = p * t2 + 1.0 / 7;
    p = p * t2 + 1.0 / 5;
    p = p * t2 + 1.0 / 3;
    p = p * t2 + 1.0;
    float r = (float)(e + p * t * (2.0 * 1.44269504088896340736));
    r = x == 0.0 ? -INFINITY : r;
    r = v == INFINITY ? INFINITY : r;
    return x < 0.0 || x != x ? NAN_F32 : r;
}

#endif
