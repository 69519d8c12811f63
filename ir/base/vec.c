/* vec.c: the growth behind vec_push; an array that cannot grow in place stays in the arena until
 * the phase ends.
 * SPDX-License-Identifier: MIT */
#include "ir/base/vec.h"

void *vec__grow(Arena *a, void *at, uint32_t n, uint32_t *cap, size_t size)
{
    *cap = *cap ? *cap * 2 : size > 64 ? 2 : 8;
    return arena_grow(a, at, n * size, *cap * size);
}
