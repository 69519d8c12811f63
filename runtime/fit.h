/* fit.h: where a temporary goes in the arena: the one rule of plans and of -report's pictures.
 * SPDX-License-Identifier: MIT */
#ifndef TN_FIT_H
#define TN_FIT_H

#include <stddef.h>

/* Places are multiples of it. */
enum { TN_ALIGN = 64 };

/* Bytes [lo, hi) of the arena. */
typedef struct {
    size_t lo, hi;
} tn__range;

/** Best fit: the start of the smallest gap of at least `size` bytes between the ranges taken (by
 * what lives at the same time), else what follows the last of them. Sorts `taken`. */
size_t tn__fit(tn__range *taken, int n, size_t size);

#endif
