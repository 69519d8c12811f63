/* test_ops.h: one instruction, made from its text, on many values: what its lanes give is compared
 * with an expression in C. SPDX-License-Identifier: MIT */
#ifndef VGPU_TEST_OPS_H
#define VGPU_TEST_OPS_H

#include "tests/vgpu/vgpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* Letters of a signature, result first, say where values come from and how results are compared:
 * i 32-bit integers, l 64-bit integers, k 16-bit integers, s shifts, w pairs of 16-bit integers,
 * f floats, x pairs of floats, d doubles, h f16, H pairs of f16, b bf16, B pairs of bf16, p
 * predicates. e5m2. A NaN equals every NaN. ? skips the comparison. */
typedef struct {
    Module *m;
    const Inst *i;
    Warp w;
    char signature[8];
    const char *op;
    int sources;
    uint64_t in[4][LANES], before[LANES];
    uint32_t mask;
    uint64_t at, count;        /* of combinations of values */
    double relative, absolute; /* tolerance of approximations */
} Case;

void case_open(Case *c, const char *op, const char *signature, const char *more);
/** Fills the next 32 combinations and runs them. False: all are done. */
bool case_next(Case *c);
/** The result of lane l must be `want`, or what it was before where the lane is off. */
void case_check(Case *c, int l, uint64_t want);
/** A predicate that is the second result. */
void case_check_second(Case *c, int l, bool want);
void case_close(Case *c);

/** Whether that text, as a body, is refused, with a message that holds `why`. */
void refused(const char *body, const char *why);

/* x, y, z, u: bits of the sources. */
#define CHECK_MORE(op, signature, more, tolerance_r, tolerance_a, value)                           \
    do {                                                                                           \
        Case c_;                                                                                   \
        case_open(&c_, op, signature, more);                                                       \
        c_.relative = tolerance_r;                                                                 \
        c_.absolute = tolerance_a;                                                                 \
        while (case_next(&c_))                                                                     \
            for (int l_ = 0; l_ < LANES; l_++) {                                                   \
                const uint64_t x = c_.in[0][l_], y = c_.in[1][l_], z = c_.in[2][l_],               \
                               u = c_.in[3][l_];                                                   \
                (void)x, (void)y, (void)z, (void)u;                                                \
                case_check(&c_, l_, (uint64_t)(value));                                            \
            }                                                                                      \
        case_close(&c_);                                                                           \
    } while (0)
#define CHECK(op, signature, value) CHECK_MORE(op, signature, "", 0.0, 0.0, value)
/* Within a relative or an absolute error; the value is a double. */
#define CHECK_NEAR(op, signature, relative, absolute, value)                                       \
    CHECK_MORE(op, signature, "", relative, absolute, test_bits_f32((float)(value)))

static inline float test_f32(uint64_t x)
{
    float f;
    uint32_t b = (uint32_t)x;
    memcpy(&f, &b, sizeof f);
    return f;
}

static inline uint64_t test_bits_f32(float f)
{
    uint32_t b;
    memcpy(&b, &f, sizeof b);
    return b;
}

static inline double test_f64(uint64_t x)
{
    double d;
    memcpy(&d, &x, sizeof d);
    return d;
}

static inline uint64_t test_bits_f64(double d)
{
    uint64_t b;
    memcpy(&b, &d, sizeof b);
    return b;
}

int test_integers(void);
int test_floats(void);
int test_halves(void);
int test_conversions(void);
int test_modules(void);

#endif
