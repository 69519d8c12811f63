/* ptxas.h: what a compiled kernel needs of a multiprocessor, as the assembler says.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_CODEGEN_PTXAS_H
#define TENON_CODEGEN_PTXAS_H

#include "ir/base/arena.h"
#include "ir/base/vec.h"

typedef struct {
    const char *kernel;
    int registers;                                /* of a thread */
    int stack, spill_stores, spill_loads, shared; /* bytes */
} KernelUse;

typedef VEC(KernelUse) KernelUses;

/** Reads the lines "ptxas info : ..." of an NVRTC log (NVRTC_USE) and adds one entry a kernel.
 * Returns what else the log says: warnings; "" if there are none. */
const char *ptxas_read(Arena *a, const char *log, KernelUses *out);
/** The entry of a kernel, or NULL. */
const KernelUse *ptxas_find(const KernelUses *uses, const char *kernel);

#endif
