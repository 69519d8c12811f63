/* scalar.h: the scalar C expressions of a user's `extern fn`: parsed and checked, since their text
 * goes into kernels as it stands, and evaluated. SPDX-License-Identifier: MIT */
#ifndef TENON_SCALAR_H
#define TENON_SCALAR_H

#include "ir/base/arena.h"

#include <stdint.h>

typedef enum { SC_NUMBER, SC_OPERAND, SC_UNARY, SC_BINARY, SC_TERNARY, SC_CALL } ScalarKind;

typedef struct ScalarExpr {
    ScalarKind kind;
    double number;    /* SC_NUMBER */
    uint32_t operand; /* SC_OPERAND: which of the names */
    const char *op;   /* SC_UNARY, SC_BINARY: the operator; SC_CALL: the function */
    uint32_t n;
    const struct ScalarExpr *arg[3];
} ScalarExpr;

/** Parses a C expression over the n names (a parameter each), numbers, the operators of C that
 * change nothing, and the functions of <tgmath.h> on reals. NULL on failure: then *error says why
 * and *at is the offset in the text. */
const ScalarExpr *scalar_parse(Arena *a, const char *text, const char *const *names, uint32_t n,
                               const char **error, uint32_t *at);

/** The value in double: what is computed in f32 or f64 up to rounding. Numbers are reals: 1/2 is
 * 0.5, as it is in kernels. */
double scalar_eval(const ScalarExpr *e, const double *operands);

#endif
