/* cpu.h: what the files of the CPU's backend share. SPDX-License-Identifier: MIT */
#ifndef TENON_RUNTIME_CPU_H
#define TENON_RUNTIME_CPU_H

#include "runtime/backend.h"
#include "runtime/gemm.h"

/** The kernel's code for this processor. */
tn_cpu_kernel *tn__cpu_code(const tn_kernel *k, int level);
/** What a kernel is called with: pointers and sizes; false: more of them than there may be. */
bool tn__cpu_arguments(const Call *c, const tn_step *s, void **p, int64_t *n);
/** Cells for which handing work to another thread pays. */
int64_t tn__cpu_grain(const tn_kernel *k);
/** The product of a step, with its operands where they lie. */
tn__gemm_args tn__cpu_gemm_args(const Call *c, int step);

/* cpu_panels.c */
/** A product by a parameter reads a packed copy of it where that is faster and the program changes
 * no state: made once, and anew when the state has changed. */
void tn__cpu_use_panels(Call *c, int step, tn__gemm_args *args);
/** Whether it may have one. */
bool tn__cpu_has_panels(const tn_program *p, const tn_gemm_step *g);
void tn__cpu_free_panels(tn_model *m);

/* cpu_rows.c */
/** A loop that has rows, if that pays; else `done` is false, and nothing has happened. */
tn_status tn__cpu_rows(Call *c, const tn__loop *l, bool *done);

/* cpu_strip.c */
tn_status tn__cpu_strip(Call *c, int strip);
size_t tn__cpu_strip_bytes(const tn__device *d, const tn_program *p, const tn__plan *plan,
                           int strip);

#endif
