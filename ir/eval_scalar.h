/* eval_scalar.h: the scalar rows of ops.def as functions: what constant folding and the reference
 * evaluator compute. SPDX-License-Identifier: MIT */
#ifndef TENON_EVAL_SCALAR_H
#define TENON_EVAL_SCALAR_H

#include "ir/ops.h"

/* A scalar: `f` for float dtypes, `i` for the others (u64: its bits). */
typedef union {
    double f;
    int64_t i;
} ScalarValue;

/** One element of a pointwise op. `t` is the dtype of the last operand (for `where` the first is a
 * bool). The result is rounded to its dtype; integers wrap. */
ScalarValue eval_row(Op op, DType t, const ScalarValue *in);

/** Conversion: float to integer truncates and saturates, NaN to 0; integers wrap; to bool: != 0. */
ScalarValue eval_cast(DType from, DType to, ScalarValue x);

/** The value as a double, whatever the dtype. */
double eval_as_double(DType t, ScalarValue x);

/** The bits of an element in memory, in the low bytes; and back. */
uint64_t eval_to_bits(DType t, ScalarValue x);
ScalarValue eval_from_bits(DType t, uint64_t bits);

/** `x` as a value of integer dtype `t`, wrapped. */
int64_t eval_wrap(DType t, int64_t x);

#endif
