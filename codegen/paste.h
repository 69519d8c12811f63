/* paste.h: the functions of runtime/kernels that a printed file needs. SPDX-License-Identifier: MIT
 */
#ifndef TENON_PASTE_H
#define TENON_PASTE_H

#include "codegen/ktext.h"

/** Whether runtime/kernels/math.h or reducers.h has a function tn_NAME. */
bool paste_has(const char *name);

/** Appends the definitions of all functions tn_NAME that `text` calls, each after what it needs
 * itself, in C or CUDA. */
void paste_functions(Arena *a, Target target, const char *text, StrBuf *out);

#endif
