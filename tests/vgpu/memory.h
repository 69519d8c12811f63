/* memory.h: what the checkers and op_*.c need of memory.c beyond vgpu.h.
 * SPDX-License-Identifier: MIT */
#ifndef VGPU_MEMORY_H
#define VGPU_MEMORY_H

#include "tests/vgpu/vgpu.h"

/** How many of these bytes, from the first on, have been written: `bytes` when all have. */
size_t memory_written(const Alloc *a, uint64_t offset, uint64_t bytes);

/** Marks bytes as written or as not written. */
void memory_mark(Alloc *a, uint64_t offset, uint64_t bytes, bool written);

/** Each allocation that stands now, in order of address. The lock is held: no allocation inside. */
void memory_each(void (*visit)(Alloc *a, void *with), void *with);

#endif
