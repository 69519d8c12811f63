/* optext.h: rows of the op table as C text. SPDX-License-Identifier: MIT */
#ifndef TENON_OPTEXT_H
#define TENON_OPTEXT_H

#include "codegen/ktext.h"

/** The row's expression over the operands, computed in `type` (never a half type), with as few
 * parentheses as C needs. What has a function in runtime/kernels is a call of it; a row that needs
 * an operand twice, and gets more than a name for it, is a call of a function that `row_function`
 * makes. */
Text op_text(KText *t, Op op, DType type, const Text *in, uint32_t nin);

/** A user's C expression over a, b, c. */
Text extern_text(KText *t, const char *expression, DType type, const Text *in, uint32_t nin);

/** The definition of "tn_NAME" or "tn_NAME_TYPE" for a row of the op table; NULL: no such row. */
const char *row_function(Arena *a, Target target, const char *name);

#endif
