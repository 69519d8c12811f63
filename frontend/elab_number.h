/* elab_number.h: arithmetic on what is not a tensor. SPDX-License-Identifier: MIT */
#ifndef TENON_ELAB_NUMBER_H
#define TENON_ELAB_NUMBER_H

#include "frontend/elab.h"

/** Two static numbers (int or float). Poison after a message. */
Value number_op(Elab *e, AstOp op, Span at, const Value *a, const Value *b);

/** Two ints or sizes, where the result is an int, a size or a decided comparison. False (no
 * message) where it is something else, such as a true quotient. */
bool size_op(Elab *e, AstOp op, Span at, const Value *a, const Value *b, Value *out);

/** Lists, strings, bools, none, dtypes ... False (no message) if the operation makes no sense. */
bool object_op(Elab *e, AstOp op, Span at, const Value *a, const Value *b, Value *out);

#endif
