/* vec.c: the growth behind vec_push; the old array stays in the arena until the phase ends.
 * SPDX-License-Identifier: MIT */
#include "ir/base/vec.h"

#include <string.h>

void *vec__grow(Arena *a, void *at, uint32_t n, uint32_t *cap, size_t size)
{
    *cap = *cap ? *cap * 2 : 8;
    void *grown = arena_alloc(a, *cap * size);
    if (n)
        memcpy(grown, at, n * size);
    return grown;
}
