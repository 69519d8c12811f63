/* lanes.h: vectors of 16 and 4 numbers for the hot paths where gcc does not find them by itself:
 * gather, scatter, tests. Elsewhere plain loops will do. SPDX-License-Identifier: MIT */
#ifndef VGPU_LANES_H
#define VGPU_LANES_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#ifndef __AVX512F__
#pragma GCC diagnostic ignored "-Wpsabi" /* these vectors pass no border of a file */
#endif

/* Half of the lanes of a warp. Comparisons give all ones where they hold. */
typedef uint32_t V16 __attribute__((vector_size(64)));
typedef uint32_t V4 __attribute__((vector_size(16)));

static inline V16 v16_load(const void *from)
{
    V16 v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void v16_store(void *to, V16 v)
{
    memcpy(to, &v, sizeof v);
}

static inline V16 v16_all(uint32_t x)
{
    return x - (V16){0};
}

static inline V4 v4_load(const void *from)
{
    V4 v;
    memcpy(&v, from, sizeof v);
    return v;
}

static inline void v4_store(void *to, V4 v)
{
    memcpy(to, &v, sizeof v);
}

static inline V4 v4_all(uint32_t x)
{
    return x - (V4){0};
}

/** a where `where` is all ones, b where it is 0. */
static inline V16 v16_select(V16 where, V16 a, V16 b)
{
    return (where & a) | (~where & b);
}

static inline V4 v4_select(V4 where, V4 a, V4 b)
{
    return (where & a) | (~where & b);
}

/** Bits of the lanes that are not 0. */
static inline uint32_t v16_test(V16 v)
{
#ifdef __AVX512F__
    return _mm512_test_epi32_mask((__m512i)v, (__m512i)v);
#else
    uint32_t lanes = 0;
    for (int l = 0; l < 16; l++)
        lanes |= (uint32_t)(v[l] != 0) << l;
    return lanes;
#endif
}

/** Whether any lane is not 0. */
static inline int v4_any(V4 v)
{
#ifdef __SSE4_1__
    return !_mm_testz_si128((__m128i)v, (__m128i)v);
#else
    return (v[0] | v[1] | v[2] | v[3]) != 0;
#endif
}

/** The numbers at from + index (in units of 4 bytes). */
static inline V16 v16_gather(const uint32_t *from, V16 index)
{
#ifdef __AVX512F__
    return (V16)_mm512_i32gather_epi32((__m512i)index, from, 4);
#else
    V16 v;
    for (int l = 0; l < 16; l++)
        v[l] = from[index[l]];
    return v;
#endif
}

/** The numbers at from + offset (signed, in bytes). */
static inline V16 v16_gather_bytes(const uint8_t *from, V16 offset)
{
#ifdef __AVX512F__
    return (V16)_mm512_i32gather_epi32((__m512i)offset, from, 1);
#else
    V16 v;
    for (int l = 0; l < 16; l++) {
        uint32_t x;
        memcpy(&x, from + (int32_t)offset[l], sizeof x);
        v[l] = x;
    }
    return v;
#endif
}

/** The numbers at from[index] of 32 numbers; index is below 32. */
static inline V16 v16_pick(const uint32_t *from, V16 index)
{
#ifdef __AVX512F__
    return (V16)_mm512_permutex2var_epi32(_mm512_loadu_si512(from), (__m512i)index,
                                          _mm512_loadu_si512(from + 16));
#else
    return v16_gather(from, index);
#endif
}

/** Where lanes go to the same place, the highest one stays. */
static inline void v16_scatter(uint32_t *to, V16 index, V16 v)
{
#ifdef __AVX512F__
    _mm512_i32scatter_epi32(to, (__m512i)index, (__m512i)v, 4);
#else
    for (int l = 0; l < 16; l++)
        to[index[l]] = v[l];
#endif
}

/** Four rows become four columns. */
static inline void v4_transpose(V4 *r)
{
    V4 a = __builtin_shuffle(r[0], r[1], (V4){0, 4, 1, 5});
    V4 b = __builtin_shuffle(r[2], r[3], (V4){0, 4, 1, 5});
    V4 c = __builtin_shuffle(r[0], r[1], (V4){2, 6, 3, 7});
    V4 d = __builtin_shuffle(r[2], r[3], (V4){2, 6, 3, 7});
    r[0] = __builtin_shuffle(a, b, (V4){0, 1, 4, 5});
    r[1] = __builtin_shuffle(a, b, (V4){2, 3, 6, 7});
    r[2] = __builtin_shuffle(c, d, (V4){0, 1, 4, 5});
    r[3] = __builtin_shuffle(c, d, (V4){2, 3, 6, 7});
}

#endif
