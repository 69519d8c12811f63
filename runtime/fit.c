/* fit.c: see fit.h. SPDX-License-Identifier: MIT */
#include "runtime/fit.h"

#include <stdint.h>
#include <stdlib.h>

static int by_place(const void *a, const void *b)
{
    const tn__range *x = a, *y = b;
    return x->lo < y->lo ? -1 : x->lo > y->lo;
}

size_t tn__fit(tn__range *taken, int n, size_t size)
{
    qsort(taken, (size_t)n, sizeof *taken, by_place);
    size_t at = 0, best = SIZE_MAX, best_gap = SIZE_MAX;
    for (int k = 0; k < n; k++) {
        if (taken[k].lo >= at) {
            const size_t gap = taken[k].lo - at;
            if (gap >= size && gap < best_gap) {
                best = at;
                best_gap = gap;
            }
        }
        if (taken[k].hi > at)
            at = taken[k].hi;
    }
    return best != SIZE_MAX ? best : at;
}
