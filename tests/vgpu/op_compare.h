/* op_compare.h: comparisons: one macro makes the forms of setp and set for it.
 * SPDX-License-Identifier: MIT */
#ifndef VGPU_OP_COMPARE_H
#define VGPU_OP_COMPARE_H

#include "tests/vgpu/op.h"

/* Inst.sub[0]: what is done with the predicate c, and sub[1]: what `set` writes for true. */
typedef enum { COMBINE_NONE, COMBINE_AND, COMBINE_OR, COMBINE_XOR } Combine;
typedef enum { SET_NONE, SET_F32, SET_MASK, SET_F16, SET_BF16 } SetOne;

typedef struct {
    const char *key; /* "lt.s32" */
    Exec *plain, *set;
    uint8_t takes; /* TAKES_32, TAKES_64 */
} CompareRow;

/** setp: p (and its opposite to d2), combined with c, into predicates. */
void compare_write(Warp *w, const Inst *i, uint32_t mask, uint32_t p);
/** set: p as a number. */
void compare_set(Warp *w, const Inst *i, uint32_t mask, uint32_t p);

/** The comparison, combination and source type of setp (types 1) or set (2). */
bool compare_split(const Opcode *o, int types, char *key, size_t size, Combine *combine, int *last);

/** The rule of setp or set by a table. */
bool compare_rule(const Opcode *o, const CompareRow *table, size_t n, Rule *out);

/* Two instructions (name_setp, name_set) of a comparison of x and y. */
#define COMPARISON(name, T, value)                                                                 \
    static inline uint32_t name(const Warp *w, const Inst *i)                                      \
    {                                                                                              \
        const T *a = REG(const T, i->a), *b = REG(const T, i->b);                                  \
        uint32_t is[LANES] __attribute__((aligned(64)));                                           \
        EACH_LANE                                                                                  \
        {                                                                                          \
            T x = a[l], y = b[l];                                                                  \
            is[l] = (value) ? UINT32_MAX : 0;                                                      \
        }                                                                                          \
        return lanes_to_mask(is);                                                                  \
    }                                                                                              \
    static void name##_setp(Warp *w, const Inst *i, uint32_t mask)                                 \
    {                                                                                              \
        const uint32_t p = name(w, i);                                                             \
        if (i->sub[0] == COMBINE_NONE && i->d2 == NO_SLOT)                                         \
            pred_write(w, i->d, mask, p);                                                          \
        else                                                                                       \
            compare_write(w, i, mask, p);                                                          \
    }                                                                                              \
    static void name##_set(Warp *w, const Inst *i, uint32_t mask)                                  \
    {                                                                                              \
        compare_set(w, i, mask, name(w, i));                                                       \
    }
#define COMPARE_ROW(key, name, n)                                                                  \
    {                                                                                              \
        key, name##_setp, name##_set, TAKES_##n                                                    \
    }

#endif
