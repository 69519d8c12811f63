/* op_alu.c: integers, bits, moves and selections. Registers of 16 bits live in 32-bit slots whose
 * upper half means nothing: sources are cut off as they are read. SPDX-License-Identifier: MIT */
#include "tests/vgpu/op_alu.h"

#define S16(x) ((int16_t)(x))
#define U16(x) ((uint16_t)(x))

/* --- arithmetic ------------------------------------------------------------------------------ */

BINARY(add_32, uint32_t, uint32_t, uint32_t, x + y)
BINARY(sub_32, uint32_t, uint32_t, uint32_t, x - y)
BINARY(mul_lo_32, uint32_t, uint32_t, uint32_t, x *y)
BINARY(add_64, uint64_t, uint64_t, uint64_t, x + y)
BINARY(sub_64, uint64_t, uint64_t, uint64_t, x - y)
BINARY(mul_lo_64, uint64_t, uint64_t, uint64_t, x *y)

static inline int32_t saturate(int64_t v)
{
    return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
}

BINARY(add_sat_s32, int32_t, int32_t, int32_t, saturate((int64_t)x + y))
BINARY(sub_sat_s32, int32_t, int32_t, int32_t, saturate((int64_t)x - y))

BINARY(mul_hi_s16, uint32_t, uint32_t, uint32_t, U16(S16(x) * S16(y) >> 16))
BINARY(mul_hi_u16, uint32_t, uint32_t, uint32_t, (uint32_t)U16(x) * U16(y) >> 16)
BINARY(mul_wide_s16, int32_t, uint32_t, uint32_t, S16(x) * S16(y))
BINARY(mul_wide_u16, uint32_t, uint32_t, uint32_t, (uint32_t)U16(x) * U16(y))
BINARY(mul_hi_s32, uint32_t, int32_t, int32_t, (uint64_t)((int64_t)x *y) >> 32)
BINARY(mul_hi_u32, uint32_t, uint32_t, uint32_t, (uint64_t)x *y >> 32)
BINARY(mul_wide_s32, int64_t, int32_t, int32_t, (int64_t)x *y)
BINARY(mul_wide_u32, uint64_t, uint32_t, uint32_t, (uint64_t)x *y)

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

static inline uint64_t high_signed(int64_t x, int64_t y)
{
    return (uint64_t)((Uint128)((Int128)x * y) >> 64);
}

static inline uint64_t high_unsigned(uint64_t x, uint64_t y)
{
    return (uint64_t)((Uint128)x * y >> 64);
}

BINARY(mul_hi_s64, uint64_t, int64_t, int64_t, high_signed(x, y))
BINARY(mul_hi_u64, uint64_t, uint64_t, uint64_t, high_unsigned(x, y))

TERNARY(mad_lo_32, uint32_t, uint32_t, uint32_t, uint32_t, x *y + z)
TERNARY(mad_lo_64, uint64_t, uint64_t, uint64_t, uint64_t, x *y + z)
TERNARY(mad_hi_s32, uint32_t, int32_t, int32_t, uint32_t,
        (uint32_t)((uint64_t)((int64_t)x *y) >> 32) + z)
TERNARY(mad_hi_sat_s32, int32_t, int32_t, int32_t, int32_t, saturate(((int64_t)x * y >> 32) + z))
TERNARY(mad_hi_u32, uint32_t, uint32_t, uint32_t, uint32_t, (uint32_t)((uint64_t)x *y >> 32) + z)
TERNARY(mad_hi_s64, uint64_t, int64_t, int64_t, uint64_t, high_signed(x, y) + z)
TERNARY(mad_hi_u64, uint64_t, uint64_t, uint64_t, uint64_t, high_unsigned(x, y) + z)
TERNARY(mad_hi_s16, uint32_t, uint32_t, uint32_t, uint32_t, U16(S16(x) * S16(y) >> 16) + z)
TERNARY(mad_hi_u16, uint32_t, uint32_t, uint32_t, uint32_t, ((uint32_t)U16(x) * U16(y) >> 16) + z)
TERNARY(mad_wide_s16, uint32_t, uint32_t, uint32_t, uint32_t, (uint32_t)(S16(x) * S16(y)) + z)
TERNARY(mad_wide_u16, uint32_t, uint32_t, uint32_t, uint32_t, (uint32_t)U16(x) * U16(y) + z)
TERNARY(mad_wide_s32, uint64_t, int32_t, int32_t, uint64_t, (uint64_t)((int64_t)x *y) + z)
TERNARY(mad_wide_u32, uint64_t, uint32_t, uint32_t, uint64_t, (uint64_t)x *y + z)

/* 24 bits of each factor; .hi gives bits 16 to 47 of the product. */
#define S24(x) ((int64_t)((int32_t)((uint32_t)(x) << 8) >> 8))
#define U24(x) ((uint64_t)((x)&0xffffff))
BINARY(mul24_lo_s32, uint32_t, uint32_t, uint32_t, (uint64_t)(S24(x) * S24(y)))
BINARY(mul24_lo_u32, uint32_t, uint32_t, uint32_t, U24(x) * U24(y))
BINARY(mul24_hi_s32, uint32_t, uint32_t, uint32_t, (uint64_t)(S24(x) * S24(y)) >> 16)
BINARY(mul24_hi_u32, uint32_t, uint32_t, uint32_t, U24(x) * U24(y) >> 16)
TERNARY(mad24_lo_s32, uint32_t, uint32_t, uint32_t, uint32_t, (uint64_t)(S24(x) * S24(y)) + z)
TERNARY(mad24_lo_u32, uint32_t, uint32_t, uint32_t, uint32_t, U24(x) * U24(y) + z)

/* Division: a quotient of 32-bit integers through doubles is exact, and so is one of 64-bit
 * integers below 2^52: the distance of the quotient from the next integer is more than the rounding
 * error. By zero the hardware gives all ones, and the dividend as the remainder; nothing traps. */

static inline int32_t divide_s32(int32_t x, int32_t y)
{
    int64_t q = (int64_t)((double)x / (double)(y ? y : 1));
    return y ? (int32_t)q : -1;
}

static inline uint32_t divide_u32(uint32_t x, uint32_t y)
{
    uint64_t q = (uint64_t)(int64_t)((double)x / (double)(y ? y : 1));
    return y ? (uint32_t)q : UINT32_MAX;
}

static inline int64_t divide_small(int64_t x, int64_t y)
{
    int64_t q = (int64_t)((double)x / (double)(y ? y : 1));
    return y ? q : -1;
}

static inline int64_t divide_s64(int64_t x, int64_t y)
{
    return y == 0 ? -1 : y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static inline uint64_t divide_u64(uint64_t x, uint64_t y)
{
    return y ? x / y : UINT64_MAX;
}

BINARY(div_s32, int32_t, int32_t, int32_t, divide_s32(x, y))
BINARY(div_u32, uint32_t, uint32_t, uint32_t, divide_u32(x, y))
BINARY(rem_s32, uint32_t, int32_t, int32_t,
       y ? (uint32_t)x - (uint32_t)divide_s32(x, y) * (uint32_t)y : (uint32_t)x)
BINARY(rem_u32, uint32_t, uint32_t, uint32_t, y ? x - divide_u32(x, y) * y : x)
BINARY(div_s16, uint32_t, uint32_t, uint32_t, S16(y) ? U16(divide_s32(S16(x), S16(y))) : 0xffff)
BINARY(div_u16, uint32_t, uint32_t, uint32_t, U16(y) ? U16(divide_s32(U16(x), U16(y))) : 0xffff)
BINARY(rem_s16, uint32_t, uint32_t, uint32_t,
       S16(y) ? U16(S16(x) - divide_s32(S16(x), S16(y)) * S16(y)) : x)
BINARY(rem_u16, uint32_t, uint32_t, uint32_t,
       U16(y) ? U16(x) - divide_s32(U16(x), U16(y)) * U16(y) : U16(x))

/* -below <= x < 2^52, for all lanes */
static bool all_exact(const uint64_t *x, const uint64_t *y, uint64_t below)
{
    uint64_t inexact = 0;
    EACH_LANE inexact |= ((x[l] + below) | (y[l] + below)) >> 52 > (below ? 1 : 0);
    return !inexact;
}

#define DIVISION_64(name, T, below, small, full)                                                   \
    static void name(Warp *w, const Inst *i, uint32_t mask)                                        \
    {                                                                                              \
        const T *a = REG(const T, i->a), *b = REG(const T, i->b);                                  \
        if (all_exact((const uint64_t *)a, (const uint64_t *)b, below)) {                          \
            FOR_LANES(T, i->d, T x = a[l]; T y = b[l], small)                                      \
        } else {                                                                                   \
            FOR_LANES(T, i->d, T x = a[l]; T y = b[l], full)                                       \
        }                                                                                          \
    }
#define SMALL(x, y) divide_small((int64_t)(x), (int64_t)(y))
DIVISION_64(div_s64, int64_t, 1ull << 52, SMALL(x, y), divide_s64(x, y))
DIVISION_64(rem_s64, int64_t, 1ull << 52, y ? x - SMALL(x, y) * y : x,
            (int64_t)(y ? (uint64_t)x - (uint64_t)divide_s64(x, y) * (uint64_t)y : (uint64_t)x))
DIVISION_64(div_u64, uint64_t, 0, SMALL(x, y), divide_u64(x, y))
DIVISION_64(rem_u64, uint64_t, 0, y ? x - (uint64_t)SMALL(x, y) * y : x,
            y ? x - divide_u64(x, y) * y : x)

UNARY(neg_16, uint32_t, uint32_t, U16(0 - x))
UNARY(neg_32, uint32_t, uint32_t, 0 - x)
UNARY(neg_64, uint64_t, uint64_t, 0 - x)
UNARY(abs_s16, uint32_t, uint32_t, U16(S16(x) < 0 ? 0 - x : x))
UNARY(abs_s32, uint32_t, uint32_t, (int32_t)x < 0 ? 0 - x : x)
UNARY(abs_s64, uint64_t, uint64_t, (int64_t)x < 0 ? 0 - x : x)

#define MIN(x, y) ((x) < (y) ? (x) : (y))
#define MAX(x, y) ((x) > (y) ? (x) : (y))
#define MIN_MAX(type, T, cut)                                                                      \
    BINARY(min_##type, T, T, T, MIN(cut(x), cut(y)))                                               \
    BINARY(max_##type, T, T, T, MAX(cut(x), cut(y)))
MIN_MAX(s16, uint32_t, S16)
MIN_MAX(u16, uint32_t, U16)
MIN_MAX(s32, int32_t, )
MIN_MAX(u32, uint32_t, )
MIN_MAX(s64, int64_t, )
MIN_MAX(u64, uint64_t, )
BINARY(min_relu_s32, int32_t, int32_t, int32_t, MAX(MIN(x, y), 0))
BINARY(max_relu_s32, int32_t, int32_t, int32_t, MAX(MAX(x, y), 0))

/* Two 16-bit integers in a register. */
#define BOTH(low, high) (U16(low) | (uint32_t)U16(high) << 16)
#define HI(x)           ((x) >> 16)
BINARY(add_16x2, uint32_t, uint32_t, uint32_t, BOTH(x + y, HI(x) + HI(y)))
BINARY(sub_16x2, uint32_t, uint32_t, uint32_t, BOTH(x - y, HI(x) - HI(y)))
#define MIN_MAX_X2(name, pick, cut)                                                                \
    BINARY(name, uint32_t, uint32_t, uint32_t,                                                     \
           BOTH(pick(cut(x), cut(y)), pick(cut(HI(x)), cut(HI(y)))))
MIN_MAX_X2(min_s16x2, MIN, S16)
MIN_MAX_X2(max_s16x2, MAX, S16)
MIN_MAX_X2(min_u16x2, MIN, U16)
MIN_MAX_X2(max_u16x2, MAX, U16)
#define RELU(v) MAX(v, 0)
BINARY(min_relu_s16x2, uint32_t, uint32_t, uint32_t,
       BOTH(RELU(MIN(S16(x), S16(y))), RELU(MIN(S16(HI(x)), S16(HI(y))))))
BINARY(max_relu_s16x2, uint32_t, uint32_t, uint32_t,
       BOTH(RELU(MAX(S16(x), S16(y))), RELU(MAX(S16(HI(x)), S16(HI(y))))))

#define SAD(x, y) ((x) > (y) ? (x) - (y) : (y) - (x))
TERNARY(sad_u32, uint32_t, uint32_t, uint32_t, uint32_t, SAD(x, y) + z)
TERNARY(sad_s32, uint32_t, int32_t, int32_t, uint32_t, (uint32_t)SAD((int64_t)x, (int64_t)y) + z)
TERNARY(sad_u16, uint32_t, uint32_t, uint32_t, uint32_t, SAD(U16(x), U16(y)) + (int)z)
TERNARY(sad_s16, uint32_t, uint32_t, uint32_t, uint32_t, SAD(S16(x), S16(y)) + (int)z)
TERNARY(sad_u64, uint64_t, uint64_t, uint64_t, uint64_t, SAD(x, y) + z)
TERNARY(sad_s64, uint64_t, int64_t, int64_t, uint64_t,
        (x > y ? (uint64_t)x - (uint64_t)y : (uint64_t)y - (uint64_t)x) + z)

/* --- bits ------------------------------------------------------------------------------------ */

#define LOGIC(name, T)                                                                             \
    BINARY(and_##name, T, T, T, x &y)                                                              \
    BINARY(or_##name, T, T, T, x | y)                                                              \
    BINARY(xor_##name, T, T, T, x ^ y)                                                             \
    UNARY(not_##name, T, T, ~x)
LOGIC(32, uint32_t)
LOGIC(64, uint64_t)
UNARY(cnot_16, uint32_t, uint32_t, U16(x) == 0)
UNARY(cnot_32, uint32_t, uint32_t, x == 0)
UNARY(cnot_64, uint64_t, uint64_t, x == 0)

/* A shift by the width or more clears, or copies the sign. */
BINARY(shl_16, uint32_t, uint32_t, uint32_t, y > 15 ? 0 : U16(x << (y & 15)))
BINARY(shl_32, uint32_t, uint32_t, uint32_t, y > 31 ? 0 : x << (y & 31))
BINARY(shl_64, uint64_t, uint64_t, uint32_t, y > 63 ? 0 : x << (y & 63))
BINARY(shr_u16, uint32_t, uint32_t, uint32_t, y > 15 ? 0 : (uint32_t)U16(x) >> (y & 15))
BINARY(shr_u32, uint32_t, uint32_t, uint32_t, y > 31 ? 0 : x >> (y & 31))
BINARY(shr_u64, uint64_t, uint64_t, uint32_t, y > 63 ? 0 : x >> (y & 63))
BINARY(shr_s16, uint32_t, uint32_t, uint32_t, U16(S16(x) >> MIN(y, 15)))
BINARY(shr_s32, int32_t, int32_t, uint32_t, x >> MIN(y, 31))
BINARY(shr_s64, int64_t, int64_t, uint32_t, x >> MIN(y, 63))

/* Funnel shifts: x is the low, y the high half. */
#define PAIR(x, y) ((uint64_t)(y) << 32 | (x))
TERNARY(shf_l_wrap, uint32_t, uint32_t, uint32_t, uint32_t, (PAIR(x, y) << (z & 31)) >> 32)
TERNARY(shf_r_wrap, uint32_t, uint32_t, uint32_t, uint32_t, PAIR(x, y) >> (z & 31))
TERNARY(shf_l_clamp, uint32_t, uint32_t, uint32_t, uint32_t, (PAIR(x, y) << MIN(z, 32)) >> 32)
TERNARY(shf_r_clamp, uint32_t, uint32_t, uint32_t, uint32_t, PAIR(x, y) >> MIN(z, 32))

UNARY(popc_32, uint32_t, uint32_t, __builtin_popcount(x))
UNARY(popc_64, uint32_t, uint64_t, __builtin_popcountll(x))
UNARY(clz_32, uint32_t, uint32_t, x ? __builtin_clz(x) : 32)
UNARY(clz_64, uint32_t, uint64_t, x ? __builtin_clzll(x) : 64)

static inline uint32_t reverse(uint32_t x)
{
    x = (x >> 1 & 0x55555555) | (x & 0x55555555) << 1;
    x = (x >> 2 & 0x33333333) | (x & 0x33333333) << 2;
    x = (x >> 4 & 0x0f0f0f0f) | (x & 0x0f0f0f0f) << 4;
    return __builtin_bswap32(x);
}

UNARY(brev_32, uint32_t, uint32_t, reverse(x))
UNARY(brev_64, uint64_t, uint64_t, PAIR(reverse((uint32_t)(x >> 32)), reverse((uint32_t)x)))

/* The highest bit that is not the sign; none: all ones. */
#define TOP_32(x)      ((x) ? 31 - (uint32_t)__builtin_clz(x) : UINT32_MAX)
#define TOP_64(x)      ((x) ? 63 - (uint32_t)__builtin_clzll(x) : UINT32_MAX)
#define UP_32(x)       ((x) ? (uint32_t)__builtin_clz(x) : UINT32_MAX)
#define UP_64(x)       ((x) ? (uint32_t)__builtin_clzll(x) : UINT32_MAX)
#define UNSIGNED_32(x) ((x) ^ (uint32_t)((int32_t)(x) >> 31))
#define UNSIGNED_64(x) ((x) ^ (uint64_t)((int64_t)(x) >> 63))
UNARY(bfind_u32, uint32_t, uint32_t, TOP_32(x))
UNARY(bfind_u64, uint32_t, uint64_t, TOP_64(x))
UNARY(bfind_s32, uint32_t, uint32_t, TOP_32(UNSIGNED_32(x)))
UNARY(bfind_s64, uint32_t, uint64_t, TOP_64(UNSIGNED_64(x)))
UNARY(bfind_up_u32, uint32_t, uint32_t, UP_32(x))
UNARY(bfind_up_u64, uint32_t, uint64_t, UP_64(x))
UNARY(bfind_up_s32, uint32_t, uint32_t, UP_32(UNSIGNED_32(x)))
UNARY(bfind_up_s64, uint32_t, uint64_t, UP_64(UNSIGNED_64(x)))

/* n low bits; n may be the width or more. */
static inline uint64_t low_bits(uint32_t n)
{
    return n > 63 ? UINT64_MAX : (1ull << n) - 1;
}

static inline uint64_t extract(uint64_t x, uint32_t at, uint32_t n, uint32_t width, bool is_signed)
{
    at &= 255;
    n &= 255;
    uint64_t field = at < width ? x >> at : 0;
    if (!is_signed || !n)
        return field & low_bits(n);
    uint32_t sign_at = MIN(at + n - 1, width - 1);
    uint64_t sign = 0 - (x >> sign_at & 1);
    uint32_t real = at < width ? MIN(n, width - at) : 0;
    return (field & low_bits(real)) | (sign & ~low_bits(real));
}

static inline uint64_t insert(uint64_t x, uint64_t into, uint32_t at, uint32_t n, uint32_t width)
{
    at &= 255;
    n &= 255;
    if (at >= width)
        return into;
    uint64_t bits = low_bits(n) << at;
    return (into & ~bits) | (x << at & bits);
}

TERNARY(bfe_u32, uint32_t, uint32_t, uint32_t, uint32_t, extract(x, y, z, 32, false))
TERNARY(bfe_s32, uint32_t, uint32_t, uint32_t, uint32_t, extract(x, y, z, 32, true))
TERNARY(bfe_u64, uint64_t, uint64_t, uint32_t, uint32_t, extract(x, y, z, 64, false))
TERNARY(bfe_s64, uint64_t, uint64_t, uint32_t, uint32_t, extract(x, y, z, 64, true))

#define BIT_INSERT(name, T, width)                                                                 \
    static void name(Warp *w, const Inst *i, uint32_t mask)                                        \
    {                                                                                              \
        const T *a = REG(const T, i->a), *b = REG(const T, i->b);                                  \
        const uint32_t *at = REG(const uint32_t, i->c), *n = REG(const uint32_t, i->e);            \
        FOR_LANES(T, i->d, , insert(a[l], b[l], at[l], n[l], width))                               \
    }
BIT_INSERT(bfi_32, uint32_t, 32)
BIT_INSERT(bfi_64, uint64_t, 64)

#define CLAMP_32(n) MIN(n, 32)
#define WRAP_32(n)  ((n)&31)
BINARY(bmsk_clamp, uint32_t, uint32_t, uint32_t, x > 31 ? 0 : low_bits(CLAMP_32(y)) << (x & 31))
BINARY(bmsk_wrap, uint32_t, uint32_t, uint32_t, low_bits(WRAP_32(y)) << (x & 31))
BINARY(szext_clamp_u32, uint32_t, uint32_t, uint32_t, x &low_bits(CLAMP_32(y)))
BINARY(szext_wrap_u32, uint32_t, uint32_t, uint32_t, x &low_bits(WRAP_32(y)))
BINARY(szext_clamp_s32, uint32_t, uint32_t, uint32_t, extract(x, 0, CLAMP_32(y), 32, true))
BINARY(szext_wrap_s32, uint32_t, uint32_t, uint32_t, extract(x, 0, WRAP_32(y), 32, true))

/* The |n|-th set bit from `base` upwards (n > 0) or downwards. */
static inline uint32_t nth_set(uint32_t bits, uint32_t base, int32_t n)
{
    if (n == 0)
        return base < 32 && bits >> base & 1 ? base : UINT32_MAX;
    int step = n > 0 ? 1 : -1;
    for (int64_t at = base; at >= 0 && at < 32; at += step)
        if (bits >> at & 1 && !(n -= step))
            return (uint32_t)at;
    return UINT32_MAX;
}

TERNARY(fns_32, uint32_t, uint32_t, uint32_t, int32_t, nth_set(x, y, z))

/* Any function of three bits; its table of eight results is imm. */
static void lop3_32(Warp *w, const Inst *i, uint32_t mask)
{
    const uint32_t *a = REG(const uint32_t, i->a), *b = REG(const uint32_t, i->b),
                   *c = REG(const uint32_t, i->c);
    uint32_t t[8];
    for (int k = 0; k < 8; k++)
        t[k] = i->imm >> k & 1 ? UINT32_MAX : 0;
    FOR_LANES(uint32_t, i->d, uint32_t x = a[l]; uint32_t y = b[l];
              uint32_t z = c[l], (~x & ~y & ~z & t[0]) | (~x & ~y & z & t[1]) |
                                     (~x & y & ~z & t[2]) | (~x & y & z & t[3]) |
                                     (x & ~y & ~z & t[4]) | (x & ~y & z & t[5]) |
                                     (x & y & ~z & t[6]) | (x & y & z & t[7]))
}

/* Selects bytes of the pair x, y. The modes of prmt other than by nibbles follow from z's low bits.
 */
static inline uint32_t pick_byte(uint64_t pair, uint32_t n)
{
    uint32_t byte = (uint32_t)(pair >> (8 * (n & 7))) & 255;
    return n & 8 ? (byte & 128 ? 255 : 0) : byte;
}

static inline uint32_t permute(uint32_t x, uint32_t y, uint32_t z)
{
    uint64_t pair = PAIR(x, y);
    return pick_byte(pair, z & 15) | pick_byte(pair, z >> 4 & 15) << 8 |
           pick_byte(pair, z >> 8 & 15) << 16 | pick_byte(pair, z >> 12 & 15) << 24;
}

static inline uint32_t by_mode(const uint16_t selectors[4], uint32_t z)
{
    return selectors[z & 3];
}

TERNARY(prmt_32, uint32_t, uint32_t, uint32_t, uint32_t, permute(x, y, z))
#define PERMUTE_MODE(name, s0, s1, s2, s3)                                                         \
    TERNARY(prmt_##name, uint32_t, uint32_t, uint32_t, uint32_t,                                   \
            permute(x, y, by_mode((const uint16_t[4]){s0, s1, s2, s3}, z)))
PERMUTE_MODE(f4e, 0x3210, 0x4321, 0x5432, 0x6543)
PERMUTE_MODE(b4e, 0x5670, 0x6701, 0x7012, 0x0123)
PERMUTE_MODE(rc8, 0x0000, 0x1111, 0x2222, 0x3333)
PERMUTE_MODE(ecl, 0x3210, 0x3211, 0x3222, 0x3333)
PERMUTE_MODE(ecr, 0x0000, 0x1110, 0x2210, 0x3210)
PERMUTE_MODE(rc16, 0x1010, 0x3232, 0x1010, 0x3232)

/* Products of four bytes, or of two halves with two of the bytes, summed up. */
#define S8(x, k) ((int32_t)(int8_t)((x) >> 8 * (k)))
#define U8(x, k) ((int32_t)(uint8_t)((x) >> 8 * (k)))
#define DOT4(A, B)                                                                                 \
    (uint32_t)(A(x, 0) * B(y, 0) + A(x, 1) * B(y, 1) + A(x, 2) * B(y, 2) + A(x, 3) * B(y, 3)) + z
TERNARY(dp4a_ss, uint32_t, uint32_t, uint32_t, uint32_t, DOT4(S8, S8))
TERNARY(dp4a_su, uint32_t, uint32_t, uint32_t, uint32_t, DOT4(S8, U8))
TERNARY(dp4a_us, uint32_t, uint32_t, uint32_t, uint32_t, DOT4(U8, S8))
TERNARY(dp4a_uu, uint32_t, uint32_t, uint32_t, uint32_t, DOT4(U8, U8))
#define DOT2(A, B, k) (uint32_t)(A(x) * B(y, k) + A(HI(x)) * B(y, (k) + 1)) + z
#define DP2A(name, A, B)                                                                           \
    TERNARY(dp2a_lo_##name, uint32_t, uint32_t, uint32_t, uint32_t, DOT2(A, B, 0))                 \
    TERNARY(dp2a_hi_##name, uint32_t, uint32_t, uint32_t, uint32_t, DOT2(A, B, 2))
DP2A(ss, S16, S8)
DP2A(su, S16, U8)
DP2A(us, U16, S8)
DP2A(uu, U16, U8)

/* Differences of four bytes or two halves, each in its place or summed up. */
#define DIFFERENCE(x, y, n, bits)                                                                  \
    SAD((uint32_t)(x) >> (n) * (bits) & ((1u << (bits)) - 1),                                      \
        (uint32_t)(y) >> (n) * (bits) & ((1u << (bits)) - 1))
#define BYTE(n) DIFFERENCE(x, y, n, 8)
#define HALF(n) DIFFERENCE(x, y, n, 16)
TERNARY(vabsdiff4, uint32_t, uint32_t, uint32_t, uint32_t,
        ((void)z, BYTE(0) | BYTE(1) << 8 | BYTE(2) << 16 | BYTE(3) << 24))
TERNARY(vabsdiff4_add, uint32_t, uint32_t, uint32_t, uint32_t,
        BYTE(0) + BYTE(1) + BYTE(2) + BYTE(3) + z)
TERNARY(vabsdiff2, uint32_t, uint32_t, uint32_t, uint32_t, ((void)z, HALF(0) | HALF(1) << 16))
TERNARY(vabsdiff2_add, uint32_t, uint32_t, uint32_t, uint32_t, HALF(0) + HALF(1) + z)

/* --- carries: the flag of each lane is in slot 0, which the decoder leaves free -------------- */

#define CARRY(name, T, reads, writes, sum)                                                         \
    static void name(Warp *w, const Inst *i, uint32_t mask)                                        \
    {                                                                                              \
        const T *a = REG(const T, i->a), *b = REG(const T, i->b);                                  \
        uint32_t *flag = REG(uint32_t, 0);                                                         \
        T *d = REG(T, i->d);                                                                       \
        EACH_LANE if (IS_ON(mask, l))                                                              \
        {                                                                                          \
            Uint128 x = a[l], y = b[l], in = (reads) ? flag[l] : 0, r = sum;                       \
            (void)in;                                                                              \
            d[l] = (T)r;                                                                           \
            if (writes)                                                                            \
                flag[l] = (uint32_t)(r >> (8 * sizeof(T))) & 1;                                    \
        }                                                                                          \
    }
#define CARRIES(width, T)                                                                          \
    CARRY(add_cc_##width, T, false, true, x + y)                                                   \
    CARRY(addc_cc_##width, T, true, true, x + y + in)                                              \
    CARRY(addc_##width, T, true, false, x + y + in)                                                \
    CARRY(sub_cc_##width, T, false, true, x - y)                                                   \
    CARRY(subc_cc_##width, T, true, true, x - y - in)                                              \
    CARRY(subc_##width, T, true, false, x - y - in)
CARRIES(32, uint32_t)
CARRIES(64, uint64_t)

#define MAD_CARRY(name, T, W, reads, writes, shift)                                                \
    static void name(Warp *w, const Inst *i, uint32_t mask)                                        \
    {                                                                                              \
        const T *a = REG(const T, i->a), *b = REG(const T, i->b), *c = REG(const T, i->c);         \
        uint32_t *flag = REG(uint32_t, 0);                                                         \
        T *d = REG(T, i->d);                                                                       \
        EACH_LANE if (IS_ON(mask, l))                                                              \
        {                                                                                          \
            Uint128 part = (T)((W)a[l] * b[l] >> (shift)), in = (reads) ? flag[l] : 0;             \
            Uint128 r = part + c[l] + in;                                                          \
            d[l] = (T)r;                                                                           \
            if (writes)                                                                            \
                flag[l] = (uint32_t)(r >> (8 * sizeof(T))) & 1;                                    \
        }                                                                                          \
    }
#define MAD_CARRIES(type, T, W)                                                                    \
    MAD_CARRY(mad_lo_cc_##type, T, W, false, true, 0)                                              \
    MAD_CARRY(mad_hi_cc_##type, T, W, false, true, 8 * sizeof(T))                                  \
    MAD_CARRY(madc_lo_cc_##type, T, W, true, true, 0)                                              \
    MAD_CARRY(madc_hi_cc_##type, T, W, true, true, 8 * sizeof(T))                                  \
    MAD_CARRY(madc_lo_##type, T, W, true, false, 0)                                                \
    MAD_CARRY(madc_hi_##type, T, W, true, false, 8 * sizeof(T))
MAD_CARRIES(u32, uint32_t, uint64_t)
MAD_CARRIES(u64, uint64_t, Uint128)

/* --- the table ------------------------------------------------------------------------------- */

#define R1(key, exec, D, A)                                                                        \
    {                                                                                              \
        key, exec, COUNT_INT,                                                                      \
        {                                                                                          \
            TAKES_##D, TAKES_##A                                                                   \
        }                                                                                          \
    }
#define R2(key, exec, D, A, B)                                                                     \
    {                                                                                              \
        key, exec, COUNT_INT,                                                                      \
        {                                                                                          \
            TAKES_##D, TAKES_##A, TAKES_##B                                                        \
        }                                                                                          \
    }
#define R3(key, exec, D, A, B, C)                                                                  \
    {                                                                                              \
        key, exec, COUNT_INT,                                                                      \
        {                                                                                          \
            TAKES_##D, TAKES_##A, TAKES_##B, TAKES_##C                                             \
        }                                                                                          \
    }
#define BOTH_SIGNS_2(op, exec, n) R2(op ".s" #n, exec, n, n, n), R2(op ".u" #n, exec, n, n, n)
#define SIGNS_2(op, name, n, D, A)                                                                 \
    R2(op ".s" #n, name##_s##n, D, A, A), R2(op ".u" #n, name##_u##n, D, A, A)
#define SIGNS_3(op, name, n, D, A, C)                                                              \
    R3(op ".s" #n, name##_s##n, D, A, A, C), R3(op ".u" #n, name##_u##n, D, A, A, C)
#define ALL_SIGNS_2(op, name)                                                                      \
    SIGNS_2(op, name, 16, 32, 32), SIGNS_2(op, name, 32, 32, 32), SIGNS_2(op, name, 64, 64, 64)
#define LOGIC_ROWS(op, name)                                                                       \
    R2(op ".b16", name##_32, 32, 32, 32), R2(op ".b32", name##_32, 32, 32, 32),                    \
        R2(op ".b64", name##_64, 64, 64, 64)
#define SHIFT_ROWS(n, T)                                                                           \
    R2("shl.b" #n, shl_##n, T, T, 32), R2("shr.b" #n, shr_u##n, T, T, 32),                         \
        R2("shr.u" #n, shr_u##n, T, T, 32), R2("shr.s" #n, shr_s##n, T, T, 32)
#define CARRY_ROWS(op, name) BOTH_SIGNS_2(op, name##_32, 32), BOTH_SIGNS_2(op, name##_64, 64)
#define MAD_CARRY_ROWS(op, name)                                                                   \
    R3(op ".u32", name##_u32, 32, 32, 32, 32), R3(op ".u64", name##_u64, 64, 64, 64, 64)

static const Row rows[] = {
    R2("add.s16", add_32, 32, 32, 32),
    R2("add.u16", add_32, 32, 32, 32),
    BOTH_SIGNS_2("add", add_32, 32),
    BOTH_SIGNS_2("add", add_64, 64),
    R2("add.sat.s32", add_sat_s32, 32, 32, 32),
    R2("add.s16x2", add_16x2, 32, 32, 32),
    R2("add.u16x2", add_16x2, 32, 32, 32),
    R2("sub.s16", sub_32, 32, 32, 32),
    R2("sub.u16", sub_32, 32, 32, 32),
    BOTH_SIGNS_2("sub", sub_32, 32),
    BOTH_SIGNS_2("sub", sub_64, 64),
    R2("sub.sat.s32", sub_sat_s32, 32, 32, 32),
    R2("sub.s16x2", sub_16x2, 32, 32, 32),
    R2("sub.u16x2", sub_16x2, 32, 32, 32),
    R2("mul.lo.s16", mul_lo_32, 32, 32, 32),
    R2("mul.lo.u16", mul_lo_32, 32, 32, 32),
    BOTH_SIGNS_2("mul.lo", mul_lo_32, 32),
    BOTH_SIGNS_2("mul.lo", mul_lo_64, 64),
    ALL_SIGNS_2("mul.hi", mul_hi),
    SIGNS_2("mul.wide", mul_wide, 16, 32, 32),
    SIGNS_2("mul.wide", mul_wide, 32, 64, 32),
    SIGNS_2("mul24.lo", mul24_lo, 32, 32, 32),
    SIGNS_2("mul24.hi", mul24_hi, 32, 32, 32),
    SIGNS_3("mad24.lo", mad24_lo, 32, 32, 32, 32),
    R3("mad.lo.s16", mad_lo_32, 32, 32, 32, 32),
    R3("mad.lo.u16", mad_lo_32, 32, 32, 32, 32),
    R3("mad.lo.s32", mad_lo_32, 32, 32, 32, 32),
    R3("mad.lo.u32", mad_lo_32, 32, 32, 32, 32),
    R3("mad.lo.s64", mad_lo_64, 64, 64, 64, 64),
    R3("mad.lo.u64", mad_lo_64, 64, 64, 64, 64),
    SIGNS_3("mad.hi", mad_hi, 16, 32, 32, 32),
    SIGNS_3("mad.hi", mad_hi, 32, 32, 32, 32),
    SIGNS_3("mad.hi", mad_hi, 64, 64, 64, 64),
    R3("mad.hi.sat.s32", mad_hi_sat_s32, 32, 32, 32, 32),
    SIGNS_3("mad.wide", mad_wide, 16, 32, 32, 32),
    SIGNS_3("mad.wide", mad_wide, 32, 64, 32, 64),
    ALL_SIGNS_2("div", div),
    ALL_SIGNS_2("rem", rem),
    R1("neg.s16", neg_16, 32, 32),
    R1("neg.s32", neg_32, 32, 32),
    R1("neg.s64", neg_64, 64, 64),
    R1("abs.s16", abs_s16, 32, 32),
    R1("abs.s32", abs_s32, 32, 32),
    R1("abs.s64", abs_s64, 64, 64),
    ALL_SIGNS_2("min", min),
    ALL_SIGNS_2("max", max),
    R2("min.relu.s32", min_relu_s32, 32, 32, 32),
    R2("min.s32.relu", min_relu_s32, 32, 32, 32),
    R2("max.s32.relu", max_relu_s32, 32, 32, 32),
    R2("min.s16x2.relu", min_relu_s16x2, 32, 32, 32),
    R2("max.s16x2.relu", max_relu_s16x2, 32, 32, 32),
    R2("max.relu.s32", max_relu_s32, 32, 32, 32),
    R2("min.s16x2", min_s16x2, 32, 32, 32),
    R2("max.s16x2", max_s16x2, 32, 32, 32),
    R2("min.u16x2", min_u16x2, 32, 32, 32),
    R2("max.u16x2", max_u16x2, 32, 32, 32),
    R2("min.relu.s16x2", min_relu_s16x2, 32, 32, 32),
    R2("max.relu.s16x2", max_relu_s16x2, 32, 32, 32),
    SIGNS_3("sad", sad, 16, 32, 32, 32),
    SIGNS_3("sad", sad, 32, 32, 32, 32),
    SIGNS_3("sad", sad, 64, 64, 64, 64),
    LOGIC_ROWS("and", and),
    LOGIC_ROWS("or", or),
    LOGIC_ROWS("xor", xor),
    R1("not.b16", not_32, 32, 32),
    R1("not.b32", not_32, 32, 32),
    R1("not.b64", not_64, 64, 64),
    R1("cnot.b16", cnot_16, 32, 32),
    R1("cnot.b32", cnot_32, 32, 32),
    R1("cnot.b64", cnot_64, 64, 64),
    SHIFT_ROWS(16, 32),
    SHIFT_ROWS(32, 32),
    SHIFT_ROWS(64, 64),
    R3("shf.l.wrap.b32", shf_l_wrap, 32, 32, 32, 32),
    R3("shf.r.wrap.b32", shf_r_wrap, 32, 32, 32, 32),
    R3("shf.l.clamp.b32", shf_l_clamp, 32, 32, 32, 32),
    R3("shf.r.clamp.b32", shf_r_clamp, 32, 32, 32, 32),
    R1("popc.b32", popc_32, 32, 32),
    R1("popc.b64", popc_64, 32, 64),
    R1("clz.b32", clz_32, 32, 32),
    R1("clz.b64", clz_64, 32, 64),
    R1("brev.b32", brev_32, 32, 32),
    R1("brev.b64", brev_64, 64, 64),
    R1("bfind.u32", bfind_u32, 32, 32),
    R1("bfind.s32", bfind_s32, 32, 32),
    R1("bfind.u64", bfind_u64, 32, 64),
    R1("bfind.s64", bfind_s64, 32, 64),
    R1("bfind.shiftamt.u32", bfind_up_u32, 32, 32),
    R1("bfind.shiftamt.s32", bfind_up_s32, 32, 32),
    R1("bfind.shiftamt.u64", bfind_up_u64, 32, 64),
    R1("bfind.shiftamt.s64", bfind_up_s64, 32, 64),
    R3("bfe.u32", bfe_u32, 32, 32, 32, 32),
    R3("bfe.s32", bfe_s32, 32, 32, 32, 32),
    R3("bfe.u64", bfe_u64, 64, 64, 32, 32),
    R3("bfe.s64", bfe_s64, 64, 64, 32, 32),
    {"bfi.b32", bfi_32, COUNT_INT, {TAKES_32, TAKES_32, TAKES_32, TAKES_32, TAKES_32}},
    {"bfi.b64", bfi_64, COUNT_INT, {TAKES_64, TAKES_64, TAKES_64, TAKES_32, TAKES_32}},
    R2("bmsk.clamp.b32", bmsk_clamp, 32, 32, 32),
    R2("bmsk.wrap.b32", bmsk_wrap, 32, 32, 32),
    R2("szext.clamp.u32", szext_clamp_u32, 32, 32, 32),
    R2("szext.clamp.s32", szext_clamp_s32, 32, 32, 32),
    R2("szext.wrap.u32", szext_wrap_u32, 32, 32, 32),
    R2("szext.wrap.s32", szext_wrap_s32, 32, 32, 32),
    R3("fns.b32", fns_32, 32, 32, 32, 32),
    {"lop3.b32", lop3_32, COUNT_INT, {TAKES_32, TAKES_32, TAKES_32, TAKES_32, TAKES_IMMEDIATE}},
    R3("prmt.b32", prmt_32, 32, 32, 32, 32),
    R3("prmt.b32.f4e", prmt_f4e, 32, 32, 32, 32),
    R3("prmt.b32.b4e", prmt_b4e, 32, 32, 32, 32),
    R3("prmt.b32.rc8", prmt_rc8, 32, 32, 32, 32),
    R3("prmt.b32.ecl", prmt_ecl, 32, 32, 32, 32),
    R3("prmt.b32.ecr", prmt_ecr, 32, 32, 32, 32),
    R3("prmt.b32.rc16", prmt_rc16, 32, 32, 32, 32),
    R3("dp4a.s32.s32", dp4a_ss, 32, 32, 32, 32),
    R3("dp4a.s32.u32", dp4a_su, 32, 32, 32, 32),
    R3("dp4a.u32.s32", dp4a_us, 32, 32, 32, 32),
    R3("dp4a.u32.u32", dp4a_uu, 32, 32, 32, 32),
    R3("dp2a.lo.s32.s32", dp2a_lo_ss, 32, 32, 32, 32),
    R3("dp2a.lo.s32.u32", dp2a_lo_su, 32, 32, 32, 32),
    R3("dp2a.lo.u32.s32", dp2a_lo_us, 32, 32, 32, 32),
    R3("dp2a.lo.u32.u32", dp2a_lo_uu, 32, 32, 32, 32),
    R3("dp2a.hi.s32.s32", dp2a_hi_ss, 32, 32, 32, 32),
    R3("dp2a.hi.s32.u32", dp2a_hi_su, 32, 32, 32, 32),
    R3("dp2a.hi.u32.s32", dp2a_hi_us, 32, 32, 32, 32),
    R3("dp2a.hi.u32.u32", dp2a_hi_uu, 32, 32, 32, 32),
    R3("vabsdiff4.u32.u32.u32", vabsdiff4, 32, 32, 32, 32),
    R3("vabsdiff4.u32.u32.u32.add", vabsdiff4_add, 32, 32, 32, 32),
    R3("vabsdiff2.u32.u32.u32", vabsdiff2, 32, 32, 32, 32),
    R3("vabsdiff2.u32.u32.u32.add", vabsdiff2_add, 32, 32, 32, 32),
    CARRY_ROWS("add.cc", add_cc),
    CARRY_ROWS("addc", addc),
    CARRY_ROWS("addc.cc", addc_cc),
    CARRY_ROWS("sub.cc", sub_cc),
    CARRY_ROWS("subc", subc),
    CARRY_ROWS("subc.cc", subc_cc),
    MAD_CARRY_ROWS("mad.lo.cc", mad_lo_cc),
    MAD_CARRY_ROWS("mad.hi.cc", mad_hi_cc),
    MAD_CARRY_ROWS("madc.lo", madc_lo),
    MAD_CARRY_ROWS("madc.hi", madc_hi),
    MAD_CARRY_ROWS("madc.lo.cc", madc_lo_cc),
    MAD_CARRY_ROWS("madc.hi.cc", madc_hi_cc),
};

bool rule_alu(const Opcode *o, Rule *out)
{
    static const char *const none[] = {NULL};
    char key[64];
    if (!opcode_key(o, none, key, sizeof key))
        return false;
    return row_rule(row_find(rows, sizeof rows / sizeof *rows, key), out) || rule_move(o, out) ||
           rule_compare(o, out) || rule_float(o, out);
}
