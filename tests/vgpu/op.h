/* op.h: for the files of instructions: registers as arrays of 32 lanes, loops over them that gcc
 * turns into vector code, and the instructions that the decoder itself puts in.
 * SPDX-License-Identifier: MIT */
#ifndef VGPU_OP_H
#define VGPU_OP_H

#include "tests/vgpu/vgpu.h"

#include <string.h>

/* The lanes of a slot. A destination is the same slot as a source or does not touch it. */
#define REG(T, slot) ((T *)__builtin_assume_aligned(w->regs + (slot), 64))
#define EACH_LANE    for (int l = 0; l < LANES; l++)
#define IS_ON(m, l)  ((m) >> (l)&1u)

/* d[l] = value for the lanes of mask. `load` declares what value reads from lane l. All lanes is
 * the usual case and has a loop without the blend. */
#define FOR_LANES(T, slot, load, value)                                                            \
    T *d = REG(T, slot);                                                                           \
    if (__builtin_expect(mask == ALL_LANES, 1)) {                                                  \
        _Pragma("GCC ivdep") EACH_LANE                                                             \
        {                                                                                          \
            load;                                                                                  \
            d[l] = (T)(value);                                                                     \
        }                                                                                          \
    } else {                                                                                       \
        _Pragma("GCC ivdep") EACH_LANE                                                             \
        {                                                                                          \
            load;                                                                                  \
            T result = (T)(value);                                                                 \
            d[l] = IS_ON(mask, l) ? result : d[l];                                                 \
        }                                                                                          \
    }

/* Instructions `name` of one to three sources x, y, z. */
#define UNARY(name, T, A, value)                                                                   \
    static void name(Warp *w, const Inst *i, uint32_t mask)                                        \
    {                                                                                              \
        const A *a = REG(const A, i->a);                                                           \
        FOR_LANES(T, i->d, A x = a[l], value)                                                      \
    }
#define BINARY(name, T, A, B, value)                                                               \
    static void name(Warp *w, const Inst *i, uint32_t mask)                                        \
    {                                                                                              \
        const A *a = REG(const A, i->a);                                                           \
        const B *b = REG(const B, i->b);                                                           \
        FOR_LANES(T, i->d, A x = a[l]; B y = b[l], value)                                          \
    }
#define TERNARY(name, T, A, B, C, value)                                                           \
    static void name(Warp *w, const Inst *i, uint32_t mask)                                        \
    {                                                                                              \
        const A *a = REG(const A, i->a);                                                           \
        const B *b = REG(const B, i->b);                                                           \
        const C *c = REG(const C, i->c);                                                           \
        FOR_LANES(T, i->d, A x = a[l]; B y = b[l]; C z = c[l], value)                              \
    }

/** One bit of each lane's word that is not 0, as a predicate. */
static inline uint32_t lanes_to_mask(const uint32_t *lanes)
{
    uint32_t m = 0;
#ifdef __AVX512F__
    typedef long long V __attribute__((vector_size(64), may_alias, aligned(4)));
    typedef int W __attribute__((vector_size(64)));
    W low = (W) * (const V *)lanes, high = (W) * (const V *)(lanes + 16);
    m = __builtin_ia32_ptestmd512((W)low, (W)low, 0xffff) |
        (uint32_t)__builtin_ia32_ptestmd512((W)high, (W)high, 0xffff) << 16;
#else
    EACH_LANE m |= (uint32_t)(lanes[l] != 0) << l;
#endif
    return m;
}

static inline void pred_write(Warp *w, uint32_t pred, uint32_t mask, uint32_t value)
{
    w->preds[pred] = (w->preds[pred] & ~mask) | (value & mask);
}

static inline float bits_float(uint32_t x)
{
    float f;
    memcpy(&f, &x, sizeof f);
    return f;
}

static inline uint32_t float_bits(float f)
{
    uint32_t x;
    memcpy(&x, &f, sizeof x);
    return x;
}

static inline double bits_double(uint64_t x)
{
    double f;
    memcpy(&f, &x, sizeof f);
    return f;
}

static inline uint64_t double_bits(double f)
{
    uint64_t x;
    memcpy(&x, &f, sizeof x);
    return x;
}

/* --- put in by the decoder ------------------------------------------------------------------- */

Exec exec_nop;
Exec exec_move_32, exec_move_64, exec_add_64, exec_add_32;
Exec exec_widen_unsigned, exec_widen_signed, exec_narrow; /* between 4- and 8-byte lanes */
Exec exec_not_pred;
Exec exec_set_pred; /* to imm != 0 */
Exec exec_pack;     /* mov d, {..}: size is the bytes of d */
Exec exec_unpack;   /* mov {..}, a: size is the bytes of a */
Exec exec_clock;    /* imm: Special; size: width */
Exec exec_assert, exec_print;

/* --- opcodes: opcode.c ----------------------------------------------------------------------- */

/** Whether one of the parts after the first is that text. */
bool opcode_has(const Opcode *o, const char *part);

/** Rounding (.rn .rz .rm .rp) and .ftz as MXCSR; 0 without any. */
uint16_t opcode_mxcsr(const Opcode *o);

/* One line of a table of instructions: `key` is the opcode without what opcode_key drops. */
typedef struct {
    const char *key;
    Exec *exec;
    uint8_t count, takes[6];
} Row;

/** The opcode's parts, without those in `dropped` (ends with NULL), joined with dots. False: too
 * long. */
bool opcode_key(const Opcode *o, const char *const *dropped, char *out, size_t size);

/** The row of that key, or NULL. */
const Row *row_find(const Row *rows, size_t n, const char *key);

/** A plain instruction as the row says. False: no row. */
bool row_rule(const Row *row, Rule *out);

#endif
