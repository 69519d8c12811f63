/* c.h: a kernel as a C function over a range of its cells. kernels.md shows the target look.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_CODEGEN_C_H
#define TENON_CODEGEN_C_H

#include "codegen/ktext.h"

/* What the program tables need to know about a printed kernel. */
typedef struct {
    const char *name;
    uint32_t nsites;
    const Site *sites; /* of its checks, numbered from 1 */
    int block_cells;   /* CUDA: cells a block works on */
    bool once;         /* C: has one function only */
    bool heavy;        /* C: has a function for AVX-512 as well */
    uint64_t wide;     /* CUDA: bit i: size i is a long long */
} PrintedKernel;

/* How often a kernel runs: often ones are compiled for several processors, rare ones for size. */
typedef enum { RUNS_OFTEN, RUNS_RARELY } HowOften;

/** Appends `TN_KERNEL NAME(...)` and TN_CALL, which makes NAME_call of the type tn_cpu_kernel.
 * `number` is the kernel's place in the model, for the head comment. */
PrintedKernel c_kernel(Program *p, const Kernel *k, uint32_t number, HowOften often, StrBuf *out);

/** The head comment of a kernel: what it computes, source lines, class, bytes. */
void kernel_comment(Program *p, const Kernel *k, uint32_t number, StrBuf *out);

/* The source lines of a kernel: those in the model's own file; in an import or the library only if
 * there are no others. file 0: it has none. */
typedef struct {
    uint32_t file;
    int lo, hi;
} KernelLines;
KernelLines kernel_lines(const Program *p, const Kernel *k);

/** "lltm.tn:9-12" of the kernel's source lines; "" if it has none. */
const char *kernel_where(Program *p, const Kernel *k, Arena *a);

#endif
