/* number.h: conversions, integer and division rules and random numbers of generated kernels; the
 * form and the rules are those of math.h, whose functions some of these need.
 * SPDX-License-Identifier: MIT */

/*@ pick: bits_float float_bits */
TN_FN float tn_pick(int c, float a, float b)
{
    /* c ? a : b for several selects by one condition: what compilers would make a branch of */
    const uint32_t mask = 0u - (uint32_t)(c != 0);
    return tn_float_bits((tn_bits_float(a) & mask) | (tn_bits_float(b) & ~mask));
}

/*@ f32_from_bf16: float_bits */
TN_FN float tn_f32_from_bf16(uint16_t x)
{
    return tn_float_bits((uint32_t)x << 16);
}

/*@ bf16_from_f32: bits_float */
TN_FN uint16_t tn_bf16_from_f32(float x)
{
    const uint32_t bits = tn_bits_float(x);
    const uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16; /* halves to even */
    return (uint16_t)(x != x ? bits >> 16 | 0x40u : rounded);
}

/*@ f32_from_f16: float_bits */
TN_FN float tn_f32_from_f16(uint16_t x)
{
    const uint32_t sign = (uint32_t)(x & 0x8000) << 16, rest = (uint32_t)(x & 0x7fff) << 13;
    const uint32_t special = rest >= 0x0f800000u ? 0x70000000u : 0u; /* infinity, NaN */
    const float y = tn_float_bits(rest) * 5.19229686e+33f;           /* 2^112: subnormals too */
    uint32_t bits;
    memcpy(&bits, &y, 4);
    return tn_float_bits((special ? rest + special : bits) | sign);
}

/*@ f16_from_f32: float_bits bits_float */
TN_FN uint16_t tn_f16_from_f32(float x)
{
    const uint32_t all = tn_bits_float(x), bits = all & 0x7fffffffu;
    const uint32_t normal = (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1)) >> 13;
    const float c = bits < 0x38800000u ? tn_float_bits(bits) : 0.0f;
    const uint32_t small = tn_bits_float(c + 0.5f) - 0x3f000000u; /* the sum rounds at 2^-24 */
    const uint32_t big = bits > 0x7f800000u ? 0x7e00u : 0x7c00u;
    const uint32_t y = bits >= 0x477ff000u ? big : bits < 0x38800000u ? small : normal;
    return (uint16_t)(y | (all >> 16 & 0x8000u));
}

/*@ f32_odd_from_f64: float_bits bits_float */
TN_FN float tn_f32_odd_from_f64(double x)
{
    /* rounded to odd, so that rounding once more to a shorter type is right */
    const float y = (float)x;
    const double back = (double)y;
    const uint32_t bits = tn_bits_float(y), down = (x < 0.0 ? back < x : back > x);
    const uint32_t cut = bits - down; /* towards zero */
    const float odd = tn_float_bits(back != x ? cut | 1u : bits);
    return x != x ? y : odd;
}

/*@ bf16_from_f64: bf16_from_f32 f32_odd_from_f64 */
TN_FN uint16_t tn_bf16_from_f64(double x)
{
    return tn_bf16_from_f32(tn_f32_odd_from_f64(x));
}

/*@ f16_from_f64: f16_from_f32 f32_odd_from_f64 */
TN_FN uint16_t tn_f16_from_f64(double x)
{
    return tn_f16_from_f32(tn_f32_odd_from_f64(x));
}

/*@ i32_from_f32: */
TN_FN int32_t tn_i32_from_f32(float x)
{
    const float c = x > -2147483648.0f ? (x < 2147483520.0f ? x : 2147483520.0f) : -2147483648.0f;
    const int32_t y = x >= 2147483648.0f ? 2147483647 : (int32_t)c;
    return x != x ? 0 : y;
}

/*@ i32_from_f64: */
TN_FN int32_t tn_i32_from_f64(double x)
{
    const double c = x > -2147483648.0 ? (x < 2147483647.0 ? x : 2147483647.0) : -2147483648.0;
    return x != x ? 0 : (int32_t)c;
}

/*@ i64_from_f64: */
TN_FN int64_t tn_i64_from_f64(double x)
{
    const double top = 9223372036854774784.0; /* the largest double below 2^63 */
    const double c = x > -9223372036854775808.0 ? (x < top ? x : top) : -9223372036854775808.0;
    const int64_t y = x >= 9223372036854775808.0 ? 0x7fffffffffffffff : (int64_t)c;
    return x != x ? 0 : y;
}

/*@ u64_from_f64: */
TN_FN uint64_t tn_u64_from_f64(double x)
{
    const double top = 18446744073709549568.0; /* the largest double below 2^64 */
    const double c = x > 0.0 ? (x < top ? x : top) : 0.0;
    return x >= 18446744073709551616.0 ? 0xffffffffffffffffu : (uint64_t)c;
}

/*@ i64_from_f32: i64_from_f64 */
TN_FN int64_t tn_i64_from_f32(float x)
{
    return tn_i64_from_f64((double)x);
}

/*@ u64_from_f32: u64_from_f64 */
TN_FN uint64_t tn_u64_from_f32(float x)
{
    return tn_u64_from_f64((double)x);
}

/*@ i16_from_f32: */
TN_FN int16_t tn_i16_from_f32(float x)
{
    const float c = x > -32768.0f ? (x < 32767.0f ? x : 32767.0f) : -32768.0f;
    return x != x ? 0 : (int16_t)(int)c;
}

/*@ i16_from_f64: */
TN_FN int16_t tn_i16_from_f64(double x)
{
    const double c = x > -32768.0 ? (x < 32767.0 ? x : 32767.0) : -32768.0;
    return x != x ? 0 : (int16_t)(int)c;
}

/*@ i8_from_f32: */
TN_FN int8_t tn_i8_from_f32(float x)
{
    const float c = x > -128.0f ? (x < 127.0f ? x : 127.0f) : -128.0f;
    return x != x ? 0 : (int8_t)(int)c;
}

/*@ i8_from_f64: */
TN_FN int8_t tn_i8_from_f64(double x)
{
    const double c = x > -128.0 ? (x < 127.0 ? x : 127.0) : -128.0;
    return x != x ? 0 : (int8_t)(int)c;
}

/*@ u8_from_f32: */
TN_FN uint8_t tn_u8_from_f32(float x)
{
    const float c = x > 0.0f ? (x < 255.0f ? x : 255.0f) : 0.0f;
    return x != x ? 0 : (uint8_t)(int)c;
}

/*@ u8_from_f64: */
TN_FN uint8_t tn_u8_from_f64(double x)
{
    const double c = x > 0.0 ? (x < 255.0 ? x : 255.0) : 0.0;
    return x != x ? 0 : (uint8_t)(int)c;
}

/*@ quot_i32: */
TN_FN int32_t tn_quot_i32(int32_t a, int32_t b)
{
    /* towards zero; x / 0 is 0, the lowest number divided by -1 wraps to itself */
    const int32_t d = b == 0 || (a == -2147483647 - 1 && b == -1) ? 1 : b;
    return b == 0 ? 0 : a / d;
}

/*@ floordiv_i32: quot_i32 */
TN_FN int32_t tn_floordiv_i32(int32_t a, int32_t b)
{
    const int32_t q = tn_quot_i32(a, b);
    const int32_t r = (int32_t)((uint32_t)a - (uint32_t)q * (uint32_t)b);
    return b != 0 && r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}

/*@ mod_i32: quot_i32 */
TN_FN int32_t tn_mod_i32(int32_t a, int32_t b)
{
    /* the sign of b; x mod 0 is 0 */
    const int32_t r = (int32_t)((uint32_t)a - (uint32_t)tn_quot_i32(a, b) * (uint32_t)b);
    const int32_t m = r != 0 && (r < 0) != (b < 0) ? r + b : r;
    return b == 0 ? 0 : m;
}

/*@ shl_i32: */
TN_FN int32_t tn_shl_i32(int32_t a, int32_t n)
{
    /* distances outside 0..31 shift everything out */
    const int in = n >= 0 && n < 32;
    return in ? (int32_t)((uint32_t)a << (n & 31)) : 0;
}

/*@ shr_i32: */
TN_FN int32_t tn_shr_i32(int32_t a, int32_t n)
{
    const int in = n >= 0 && n < 32;
    return a >> (in ? n : 31);
}

/*@ quot_i64: */
TN_FN int64_t tn_quot_i64(int64_t a, int64_t b)
{
    /* towards zero; x / 0 is 0, the lowest number divided by -1 wraps to itself */
    const int64_t d = b == 0 || (a == -0x7fffffffffffffff - 1 && b == -1) ? 1 : b;
    return b == 0 ? 0 : a / d;
}

/*@ floordiv_i64: quot_i64 */
TN_FN int64_t tn_floordiv_i64(int64_t a, int64_t b)
{
    const int64_t q = tn_quot_i64(a, b);
    const int64_t r = (int64_t)((uint64_t)a - (uint64_t)q * (uint64_t)b);
    return b != 0 && r != 0 && (r < 0) != (b < 0) ? q - 1 : q;
}

/*@ mod_i64: quot_i64 */
TN_FN int64_t tn_mod_i64(int64_t a, int64_t b)
{
    /* the sign of b; x mod 0 is 0 */
    const int64_t r = (int64_t)((uint64_t)a - (uint64_t)tn_quot_i64(a, b) * (uint64_t)b);
    const int64_t m = r != 0 && (r < 0) != (b < 0) ? r + b : r;
    return b == 0 ? 0 : m;
}

/*@ shl_i64: */
TN_FN int64_t tn_shl_i64(int64_t a, int64_t n)
{
    /* distances outside 0..63 shift everything out */
    const int in = n >= 0 && n < 64;
    return in ? (int64_t)((uint64_t)a << (n & 63)) : 0;
}

/*@ shr_i64: */
TN_FN int64_t tn_shr_i64(int64_t a, int64_t n)
{
    const int in = n >= 0 && n < 64;
    return a >> (in ? n : 63);
}

/*@ mod_f32: */
TN_FN float tn_mod_f32(float a, float b)
{
    /* the sign of b */
    const float r = fmodf(a, b);
    return r != 0.0f && (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

/*@ floordiv_f32: */
TN_FN float tn_floordiv_f32(float a, float b)
{
    /* from the remainder, which is exact: floor(a / b) may be one too high */
    const float r = fmodf(a, b), q = (a - r) / b;
    const float d = r != 0.0f && (r < 0.0f) != (b < 0.0f) ? q - 1.0f : q;
    const float f = floorf(d), near = d - f > 0.5f ? f + 1.0f : f;
    const float zero = a / b * 0.0f; /* signed */
    return b == 0.0f ? a / b : d != 0.0f ? near : zero;
}

/*@ mod_f64: */
TN_FN double tn_mod_f64(double a, double b)
{
    /* the sign of b */
    const double r = fmod(a, b);
    return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}

/*@ floordiv_f64: */
TN_FN double tn_floordiv_f64(double a, double b)
{
    /* from the remainder, which is exact: floor(a / b) may be one too high */
    const double r = fmod(a, b), q = (a - r) / b;
    const double d = r != 0.0 && (r < 0.0) != (b < 0.0) ? q - 1.0 : q;
    const double f = floor(d), near = d - f > 0.5 ? f + 1.0 : f;
    const double zero = a / b * 0.0; /* signed */
    return b == 0.0 ? a / b : d != 0.0 ? near : zero;
}

/*@ philox: */
TN_FN void tn_philox(uint64_t key, uint64_t block, uint32_t out[4])
{
    /* Philox4x32, 10 rounds, counter (block, 0) */
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xd2511f53u * c0, b = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/*@ philox16: */
TN_FN void tn_philox16(uint64_t key, uint64_t block, uint32_t c[64])
{
    /* 16 blocks from `block` on, all in one round before the next, so that loops over blocks
     * vectorise: the first words of all, then the second ones, and so on */
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int b = 0; b < 16; b++) {
        c[b] = (uint32_t)(block + (uint64_t)b);
        c[16 + b] = (uint32_t)((block + (uint64_t)b) >> 32);
        c[32 + b] = 0;
        c[48 + b] = 0;
    }
    for (int round = 0; round < 10; round++) {
        for (int b = 0; b < 16; b++) {
            const uint64_t x = (uint64_t)0xd2511f53u * c[b], y = (uint64_t)0xcd9e8d57u * c[32 + b];
            c[b] = (uint32_t)(y >> 32) ^ c[16 + b] ^ k0;
            c[16 + b] = (uint32_t)y;
            c[32 + b] = (uint32_t)(x >> 32) ^ c[48 + b] ^ k1;
            c[48 + b] = (uint32_t)x;
        }
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
}

/*@ unit: */
TN_FN float tn_unit(uint32_t bits)
{
    return (float)(int32_t)(bits >> 8) * 5.96046448e-08f; /* 24 bits, [0, 1) */
}

/*@ uniform4: philox unit */
TN_FN void tn_uniform4(uint64_t key, uint64_t block, float out[4])
{
    uint32_t bits[4];
    tn_philox(key, block, bits);
    out[0] = tn_unit(bits[0]);
    out[1] = tn_unit(bits[1]);
    out[2] = tn_unit(bits[2]);
    out[3] = tn_unit(bits[3]);
}

/*@ uniform_run: philox16 unit */
TN_FN void tn_uniform_run(uint64_t key, uint64_t block, int blocks, float *out)
{
    /* all elements of blocks, whose number is rounded up to a multiple of 16 */
    uint32_t c[64];
    for (int n = 0; n < blocks; n += 16) {
        tn_philox16(key, block + (uint64_t)n, c);
        for (int b = 0; b < 16; b++) {
            out[4 * (n + b)] = tn_unit(c[b]);
            out[4 * (n + b) + 1] = tn_unit(c[16 + b]);
            out[4 * (n + b) + 2] = tn_unit(c[32 + b]);
            out[4 * (n + b) + 3] = tn_unit(c[48 + b]);
        }
    }
}

/*@ uniform: philox unit */
TN_FN float tn_uniform(uint64_t key, uint64_t i)
{
    uint32_t w[4];
    tn_philox(key, i >> 2, w);
    const uint32_t a = i & 1 ? w[1] : w[0], b = i & 1 ? w[3] : w[2];
    return tn_unit(i & 2 ? b : a);
}

/*@ normal2: log sin_quarter cos_quarter */
TN_FN void tn_normal2(uint32_t a, uint32_t b, float *x, float *y)
{
    /* Box-Muller: radius from a, in (0, 1]; angle from b */
    const float u = (float)(int32_t)((a >> 8) + 1) * 5.96046448e-08f;
    const float r = sqrtf(-2.0f * tn_log(u));
    const uint32_t q = (b + 0x20000000u) >> 30;
    const float f = (float)((int32_t)(b - (q << 30)) >> 6) * 5.96046448e-08f; /* quarter turns */
    const float s = tn_sin_quarter(f, 0.0f), c = tn_cos_quarter(f);
    const float cx = q & 1 ? s : c, sx = q & 1 ? c : s;
    *x = r * (((q + 1) & 2) != 0 ? -cx : cx);
    *y = r * ((q & 2) != 0 ? -sx : sx);
}

/*@ normal4: philox normal2 */
TN_FN void tn_normal4(uint64_t key, uint64_t block, float out[4])
{
    uint32_t w[4];
    tn_philox(key, block, w);
    tn_normal2(w[0], w[1], &out[0], &out[1]);
    tn_normal2(w[2], w[3], &out[2], &out[3]);
}

/*@ normal: philox normal2 */
TN_FN float tn_normal(uint64_t key, uint64_t i)
{
    uint32_t w[4];
    float x, y;
    tn_philox(key, i >> 2, w);
    tn_normal2(i & 2 ? w[2] : w[0], i & 2 ? w[3] : w[1], &x, &y);
    return i & 1 ? y : x;
}

/*@ normal_run: philox16 normal2 */
TN_FN void tn_normal_run(uint64_t key, uint64_t block, int blocks, float *out)
{
    uint32_t c[64];
    for (int n = 0; n < blocks; n += 16) {
        tn_philox16(key, block + (uint64_t)n, c);
        for (int b = 0; b < 16; b++) {
            float *to = out + 4 * (n + b);
            tn_normal2(c[b], c[16 + b], &to[0], &to[1]);
            tn_normal2(c[32 + b], c[48 + b], &to[2], &to[3]);
        }
    }
}

/*@ bits_run: philox16 */
TN_FN void tn_bits_run(uint64_t key, uint64_t block, int blocks, int32_t *out)
{
    uint32_t c[64];
    for (int n = 0; n < blocks; n += 16) {
        tn_philox16(key, block + (uint64_t)n, c);
        for (int b = 0; b < 16; b++) {
            out[4 * (n + b)] = (int32_t)c[b];
            out[4 * (n + b) + 1] = (int32_t)c[16 + b];
            out[4 * (n + b) + 2] = (int32_t)c[32 + b];
            out[4 * (n + b) + 3] = (int32_t)c[48 + b];
        }
    }
}
