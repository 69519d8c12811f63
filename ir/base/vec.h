/* vec.h: a typed array that grows in an arena. VEC(Node) nodes; vec_push(arena, &nodes, n);
 * SPDX-License-Identifier: MIT */
#ifndef TENON_VEC_H
#define TENON_VEC_H

#include "ir/base/arena.h"

#include <stdint.h>

#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *at;                                                                                     \
        uint32_t n, cap;                                                                           \
    }

/** Makes room for one more element; used by vec_push. */
void *vec__grow(Arena *a, void *at, uint32_t n, uint32_t *cap, size_t size);

#define vec_push(a, v, x)                                                                          \
    do {                                                                                           \
        if ((v)->n == (v)->cap)                                                                    \
            (v)->at = vec__grow((a), (v)->at, (v)->n, &(v)->cap, sizeof *(v)->at);                 \
        (v)->at[(v)->n++] = (x);                                                                   \
    } while (0)

#define vec_last(v) ((v)->at[(v)->n - 1])

#endif
