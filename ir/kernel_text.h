/* kernel_text.h: words of the text of kernel IR, shared by its printer and its parser, and the
 * text in which equal kernels are equal. SPDX-License-Identifier: MIT */
#ifndef TENON_KERNEL_TEXT_H
#define TENON_KERNEL_TEXT_H

#include "ir/kernel.h"

extern const char *const kernel_class_names[7];  /* by KClass */
extern const char *const kernel_mode_names[3];   /* by KMode */
extern const char *const kernel_loop_names[5];   /* by ForKind */
extern const char *const kernel_random_names[3]; /* by RANDOM_... */
extern const char *const kernel_guard_names[9];  /* by GuardKind */

/** The kernel's text without the names of the model: kernels with equal text do the same work, and
 * one serves for all, with pointers as parameters. Allocated in `scratch`. */
const char *kernel_structure(const Program *p, const Kernel *k);

#endif
