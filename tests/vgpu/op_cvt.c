/* op_cvt.c: cvt. What kernels use often has a loop that becomes vector code; all other forms go
 * through one that is exact for every pair of types (convert.c). SPDX-License-Identifier: MIT */
#include "tests/vgpu/convert.h"
#include "tests/vgpu/half.h"

#include <math.h>

/* --- integers -------------------------------------------------------------------------------- */

/* Types and the slots that they live in; a narrow result fills its slot with zeros or its sign. */
typedef uint32_t slot_u8, slot_u16, slot_u32;
typedef int32_t slot_s8, slot_s16, slot_s32;
typedef uint64_t slot_u64;
typedef int64_t slot_s64;
#define TYPE_u8  uint8_t
#define TYPE_u16 uint16_t
#define TYPE_u32 uint32_t
#define TYPE_u64 uint64_t
#define TYPE_s8  int8_t
#define TYPE_s16 int16_t
#define TYPE_s32 int32_t
#define TYPE_s64 int64_t

#define CAST(d, s) UNARY(d##_##s, slot_##d, slot_##s, (TYPE_##d)(TYPE_##s)x)
#define TO_FLOAT(s)                                                                                \
    UNARY(f32_##s, float, slot_##s, (float)(TYPE_##s)x)                                            \
    UNARY(f64_##s, double, slot_##s, (double)(TYPE_##s)x)
#define FROM(s)                                                                                    \
    CAST(u8, s)                                                                                    \
    CAST(u16, s)                                                                                   \
    CAST(u32, s)                                                                                   \
    CAST(u64, s)                                                                                   \
    CAST(s8, s)                                                                                    \
    CAST(s16, s)                                                                                   \
    CAST(s32, s)                                                                                   \
    CAST(s64, s)                                                                                   \
    TO_FLOAT(s)
FROM(u8)
FROM(u16)
FROM(u32)
FROM(u64)
FROM(s8)
FROM(s16)
FROM(s32)
FROM(s64)

/* --- floats ---------------------------------------------------------------------------------- */

/* A NaN becomes 0, or the upper bit alone where either side has 64 bits. */
#define TO_INT(name, F, round)                                                                     \
    static inline int32_t name##_to_s32(F x)                                                       \
    {                                                                                              \
        F r = round(x);                                                                            \
        return r != r                 ? (sizeof(F) == 8 ? INT32_MIN : 0)                           \
               : r < (F)INT32_MIN     ? INT32_MIN                                                  \
               : r >= (F)2147483648.0 ? INT32_MAX                                                  \
                                      : (int32_t)r;                                                \
    }                                                                                              \
    static inline uint32_t name##_to_u32(F x)                                                      \
    {                                                                                              \
        F r = round(x);                                                                            \
        return r != r                 ? (sizeof(F) == 8 ? 0x80000000u : 0)                         \
               : r < 0                ? 0                                                          \
               : r >= (F)4294967296.0 ? UINT32_MAX                                                 \
                                      : (uint32_t)r;                                               \
    }                                                                                              \
    static inline int64_t name##_to_s64(F x)                                                       \
    {                                                                                              \
        F r = round(x);                                                                            \
        return r != r                          ? INT64_MIN                                         \
               : r < (F)INT64_MIN              ? INT64_MIN                                         \
               : r >= (F)9223372036854775808.0 ? INT64_MAX                                         \
                                               : (int64_t)r;                                       \
    }                                                                                              \
    static inline uint64_t name##_to_u64(F x)                                                      \
    {                                                                                              \
        F r = round(x);                                                                            \
        return r != r                           ? 1ull << 63                                       \
               : r < 0                          ? 0                                                \
               : r >= (F)18446744073709551616.0 ? UINT64_MAX                                       \
                                                : (uint64_t)r;                                     \
    }                                                                                              \
    UNARY(name##_s32, int32_t, F, name##_to_s32(x))                                                \
    UNARY(name##_u32, uint32_t, F, name##_to_u32(x))                                               \
    UNARY(name##_s64, int64_t, F, name##_to_s64(x))                                                \
    UNARY(name##_u64, uint64_t, F, name##_to_u64(x))                                               \
    UNARY(name##_same, F, F, round(x))
TO_INT(rni_f32, float, __builtin_rintf)
TO_INT(rzi_f32, float, __builtin_truncf)
TO_INT(rmi_f32, float, __builtin_floorf)
TO_INT(rpi_f32, float, __builtin_ceilf)
TO_INT(rni_f64, double, __builtin_rint)
TO_INT(rzi_f64, double, __builtin_trunc)
TO_INT(rmi_f64, double, __builtin_floor)
TO_INT(rpi_f64, double, __builtin_ceil)

UNARY(f32_f64, float, double, (float)x)
UNARY(f64_f32, double, float, x)
UNARY(sat_f32, float, float, x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f)
UNARY(f32_f16, float, uint32_t, half_to_float(x))
UNARY(f32_bf16, float, uint32_t, bf16_to_float(x))
UNARY(f16_f32, uint32_t, float, float_to_half(x))
UNARY(bf16_f32, uint32_t, float, float_to_bf16(x))
/* away from zero at the middle: the magnitude grows and is cut; infinity and NaN stay */
UNARY(tf32_f32, uint32_t, uint32_t,
      (x & 0x7f800000u) == 0x7f800000u ? (x & 0x7fffffu ? 0x7fffe000u : x)
                                       : (x + 0x1000u) & 0xffffe000u)
/* the first source goes to the upper half */
BINARY(f16x2_f32, uint32_t, float, float, float_to_half(x) << 16 | float_to_half(y))
BINARY(bf16x2_f32, uint32_t, float, float, float_to_bf16(x) << 16 | float_to_bf16(y))

/* --- the table ------------------------------------------------------------------------------- */

#define SLOT_u8  TAKES_32
#define SLOT_u16 TAKES_32
#define SLOT_u32 TAKES_32
#define SLOT_u64 TAKES_64
#define SLOT_s8  TAKES_32
#define SLOT_s16 TAKES_32
#define SLOT_s32 TAKES_32
#define SLOT_s64 TAKES_64
#define CAST_ROW(d, s)                                                                             \
    {                                                                                              \
        "cvt." #d "." #s, d##_##s, COUNT_CONVERT,                                                  \
        {                                                                                          \
            SLOT_##d, SLOT_##s                                                                     \
        }                                                                                          \
    }
#define CAST_ROWS(s)                                                                               \
    CAST_ROW(u8, s), CAST_ROW(u16, s), CAST_ROW(u32, s), CAST_ROW(u64, s), CAST_ROW(s8, s),        \
        CAST_ROW(s16, s), CAST_ROW(s32, s), CAST_ROW(s64, s)
#define TO_FLOAT_ROWS(s)                                                                           \
    {"cvt.f32." #s, f32_##s, COUNT_CONVERT, {TAKES_32, SLOT_##s}},                                 \
    {                                                                                              \
        "cvt.f64." #s, f64_##s, COUNT_CONVERT,                                                     \
        {                                                                                          \
            TAKES_64, SLOT_##s                                                                     \
        }                                                                                          \
    }
#define TO_INT_ROWS(round, f, F)                                                                   \
    {"cvt." #round ".s32." #f, round##_##f##_s32, COUNT_CONVERT, {TAKES_32, F}},                   \
        {"cvt." #round ".u32." #f, round##_##f##_u32, COUNT_CONVERT, {TAKES_32, F}},               \
        {"cvt." #round ".s64." #f, round##_##f##_s64, COUNT_CONVERT, {TAKES_64, F}},               \
        {"cvt." #round ".u64." #f, round##_##f##_u64, COUNT_CONVERT, {TAKES_64, F}},               \
    {                                                                                              \
        "cvt." #round "." #f "." #f, round##_##f##_same, COUNT_CONVERT,                            \
        {                                                                                          \
            F, F                                                                                   \
        }                                                                                          \
    }
#define ALL_ROUNDINGS(f, F)                                                                        \
    TO_INT_ROWS(rni, f, F), TO_INT_ROWS(rzi, f, F), TO_INT_ROWS(rmi, f, F), TO_INT_ROWS(rpi, f, F)

static const Row integers[] = {CAST_ROWS(u8), CAST_ROWS(u16), CAST_ROWS(u32), CAST_ROWS(u64),
                               CAST_ROWS(s8), CAST_ROWS(s16), CAST_ROWS(s32), CAST_ROWS(s64)};

/* Rounding by MXCSR where the key does not say it. */
static const Row floats[] = {
    TO_FLOAT_ROWS(u8),
    TO_FLOAT_ROWS(u16),
    TO_FLOAT_ROWS(u32),
    TO_FLOAT_ROWS(u64),
    TO_FLOAT_ROWS(s8),
    TO_FLOAT_ROWS(s16),
    TO_FLOAT_ROWS(s32),
    TO_FLOAT_ROWS(s64),
    ALL_ROUNDINGS(f32, TAKES_32),
    ALL_ROUNDINGS(f64, TAKES_64),
    {"cvt.f32.f64", f32_f64, COUNT_CONVERT, {TAKES_32, TAKES_64}},
    {"cvt.f64.f32", f64_f32, COUNT_CONVERT, {TAKES_64, TAKES_32}},
    {"cvt.sat.f32.f32", sat_f32, COUNT_CONVERT, {TAKES_32, TAKES_32}},
};

/* Only as they stand, without .ftz. */
static const Row halves[] = {
    {"cvt.f32.f16", f32_f16, COUNT_CONVERT, {TAKES_32, TAKES_32}},
    {"cvt.f32.bf16", f32_bf16, COUNT_CONVERT, {TAKES_32, TAKES_32}},
    {"cvt.rn.f16.f32", f16_f32, COUNT_CONVERT, {TAKES_32, TAKES_32}},
    {"cvt.rn.bf16.f32", bf16_f32, COUNT_CONVERT, {TAKES_32, TAKES_32}},
    {"cvt.rna.tf32.f32", tf32_f32, COUNT_CONVERT, {TAKES_32, TAKES_32}},
    {"cvt.rn.f16x2.f32", f16x2_f32, COUNT_CONVERT, {TAKES_32, TAKES_32, TAKES_32}},
    {"cvt.rn.bf16x2.f32", bf16x2_f32, COUNT_CONVERT, {TAKES_32, TAKES_32, TAKES_32}},
};

#define FIND(table, key) row_rule(row_find(table, sizeof table / sizeof *table, key), out)

bool rule_cvt(const Opcode *o, Rule *out)
{
    static const char *const none[] = {NULL};
    static const char *const modes[] = {"rn", "rz", "rm", "rp", "ftz", NULL};
    char key[64];
    if (strcmp(o->part[0], "cvt") || !opcode_key(o, none, key, sizeof key))
        return false;
    if (FIND(integers, key))
        return true;
    if (FIND(halves, key)) {
        out->mxcsr = MXCSR_NEAREST;
        return true;
    }
    if (opcode_key(o, modes, key, sizeof key) && FIND(floats, key)) {
        out->mxcsr = MXCSR_NEAREST | opcode_mxcsr(o);
        return true;
    }
    return rule_convert(o, out);
}
