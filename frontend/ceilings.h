/* ceilings.h: the most that a machine can do, for roofline plots. SPDX-License-Identifier: MIT */
#ifndef TENON_CEILINGS_H
#define TENON_CEILINGS_H

#include "ir/base/arena.h"

typedef struct {
    const char *name;  /* "A100 (sm_80)" */
    double operations; /* of f32, a second */
    double bytes;      /* of main memory, a second */
} Ceilings;

/** Of the chip that stands for an architecture, or for the next lower one that is known. */
Ceilings ceilings_of_gpu(Arena *a, int sm);
/** Measured, in about a tenth of a second, with as many threads (0: the processors there are). */
Ceilings ceilings_of_cpu(Arena *a, int threads);

#endif
