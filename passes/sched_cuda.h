/* sched_cuda.h: schedules of loops on a GPU. SPDX-License-Identifier: MIT */
#ifndef TENON_SCHED_CUDA_H
#define TENON_SCHED_CUDA_H

#include "passes/lower_internal.h"

/** How many neighbours along `axis` a lane may own in the blocks' statements: 16 bytes of the
 * widest element, 1 where memory does not allow it. whole: only if the extent is a multiple. */
int sched_cuda_width(KBuild *b, Symbol axis, KBlock *const *blocks, uint32_t n, bool whole);

/** Loops over the axes around the stores of a map. */
void sched_cuda_map(KBuild *b, const Symbol *axes, uint32_t n, KBlock *stores);
/** Blocks of a kernel whose blocks are tiles (Kernel.turned). */
Dim sched_cuda_cells(KBuild *b);

#endif
