/* convert.h: conversions between any two types of numbers. SPDX-License-Identifier: MIT */
#ifndef VGPU_CONVERT_H
#define VGPU_CONVERT_H

#include "tests/vgpu/op.h"

typedef enum { ROUND_NEAREST, ROUND_ZERO, ROUND_DOWN, ROUND_UP, ROUND_AWAY } Rounding;

/* How a format of floats is laid out; the value of 1.0 has exponent bias `bias`. */
typedef struct {
    uint8_t mantissa, exponent; /* bits */
    int16_t bias;
    bool has_inf; /* else the largest code is the only NaN (e4m3), or there is none */
    bool has_nan;
} Format;

/** v to the nearest number of the format under `mode`, as bits with the sign on top. An overflow
 * gives infinity or the largest number as the mode says, always the largest when `finite`. */
uint64_t format_round(const Format *f, long double v, Rounding mode, bool finite);

/** The value of those bits. */
long double format_value(const Format *f, uint64_t bits);

extern const Format format_f16, format_bf16, format_f32, format_f64, format_tf32, format_e4m3,
    format_e5m2;

/** Every form of cvt, one lane after the other. */
bool rule_convert(const Opcode *o, Rule *out);

#endif
