/* math.h: scalar functions of generated kernels, one text for C and for CUDA. The includer defines
 * TN_FN and provides memcpy, the <stdint.h> types and fmaf, rintf, floorf, ceilf, truncf, sqrtf,
 * fmodf, fmod and floor. Printers paste single functions: each begins with a line that names it and
 * the functions it needs and ends at the next line that begins with a brace.
 *
 * Further functions in the same form are in number.h: conversions, integers, division, random
 * numbers.
 *
 * Float results have the same bits on every target (compile with contraction off:
 * -ffp-contract=off, -fmad=false) and are within 2 ulp. The text has no branches and no tables, so
 * loops over it vectorise: conditions are selects, and both sides of a select are always harmless
 * to compute. Coefficients come from tests/reference/fit_math.py. SPDX-License-Identifier: MIT */

/*@ float_bits: */
TN_FN float tn_float_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/*@ bits_float: */
TN_FN uint32_t tn_bits_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

/*@ inf: float_bits */
TN_FN float tn_inf(void)
{
    return tn_float_bits(0x7f800000u);
}

/*@ nan: float_bits */
TN_FN float tn_nan(void)
{
    return tn_float_bits(0x7fc00000u);
}

/*@ abs: float_bits bits_float */
TN_FN float tn_abs(float x)
{
    return tn_float_bits(tn_bits_float(x) & 0x7fffffffu);
}

/*@ copysign: float_bits bits_float */
TN_FN float tn_copysign(float x, float sign)
{
    return tn_float_bits((tn_bits_float(x) & 0x7fffffffu) | (tn_bits_float(sign) & 0x80000000u));
}

/*@ sign: */
TN_FN float tn_sign(float x)
{
    const float s = (float)((x > 0.0f) - (x < 0.0f));
    return x != x ? x : s;
}

/*@ max: */
TN_FN float tn_max(float a, float b)
{
    const float t = a > b ? a : b; /* one instruction; NaN wins */
    return a != a ? a : t;
}

/*@ min: */
TN_FN float tn_min(float a, float b)
{
    const float t = a < b ? a : b;
    return a != a ? a : t;
}

/*@ floor: */
TN_FN float tn_floor(float x)
{
    return floorf(x);
}

/*@ ceil: */
TN_FN float tn_ceil(float x)
{
    return ceilf(x);
}

/*@ trunc: */
TN_FN float tn_trunc(float x)
{
    return truncf(x);
}

/*@ round: */
TN_FN float tn_round(float x)
{
    return rintf(x); /* halves to even */
}

/*@ sqrt: */
TN_FN float tn_sqrt(float x)
{
    return sqrtf(x);
}

/*@ rsqrt: */
TN_FN float tn_rsqrt(float x)
{
    return 1.0f / sqrtf(x);
}

/*@ scale2: float_bits */
TN_FN float tn_scale2(float x, int n)
{
    /* x * 2^n for n in [-252, 254]: two factors, so that subnormal results are rounded once and
     * results near overflow have no infinite factor */
    const int h = (n + 1024) / 2 - 512;
    return x * tn_float_bits((uint32_t)(h + 127) << 23) *
           tn_float_bits((uint32_t)(n - h + 127) << 23);
}

/*@ quot2: */
TN_FN float tn_quot2(float n, float n_low, float d, float d_low)
{
    /* (n + n_low) / (d + d_low), nearly as if rounded once */
    const float i = 1.0f / d, v = n * i;
    return fmaf(fmaf(-v, d_low, fmaf(-v, d, n) + n_low), i, v);
}

/*@ at_most: float_bits bits_float */
TN_FN float tn_at_most(float x, float top)
{
    /* x, or top > 0 where x is larger or a NaN without sign; compares as integers, which no compiler
     * makes a branch of */
    const int i = (int)tn_bits_float(x), t = (int)tn_bits_float(top);
    return tn_float_bits((uint32_t)(i < t ? i : t));
}

/*@ at_least: float_bits bits_float */
TN_FN float tn_at_least(float x, float bottom)
{
    /* x, or bottom < 0 where x is smaller or a NaN with a sign */
    const uint32_t i = tn_bits_float(x), b = tn_bits_float(bottom);
    return tn_float_bits(i < b ? i : b);
}

/*@ power_bits: float_bits bits_float */
TN_FN float tn_power_bits(float t)
{
    /* 2^n of t = 1.5 * 2^23 + 127 + n: the sum has n + 127 in its lowest bits */
    return tn_float_bits(tn_bits_float(t) << 23);
}

/*@ exp_rest: */
TN_FN float tn_exp_rest(float r)
{
    /* exp(r) - 1, |r| <= ln(2) / 2 */
    float p = 0.00139358034f;
    p = fmaf(p, r, 0.00836896338f);
    p = fmaf(p, r, 0.0416664556f);
    p = fmaf(p, r, 0.166665182f);
    p = fmaf(p, r, 0.5f);
    return fmaf(p, r * r, r);
}

/*@ exp_shift: at_most at_least power_bits exp_rest */
TN_FN float tn_exp_shift(float x, float shifted)
{
    /* exp(x) * 2^(shifted - 12583039). Two factors make the power of two, so that subnormal results
     * are rounded once, and results near overflow have no infinite factor */
    const float c = tn_at_least(tn_at_most(x, 90.0f), -110.0f);
    const float t = fmaf(c, 1.44269502f, 12583039.0f), n = t - 12583039.0f;
    const float h = fmaf(n, 0.5f, shifted), f = tn_power_bits(h);
    const float p = tn_exp_rest(fmaf(n, -1.42860677e-06f, fmaf(n, -0.693145752f, c)));
    const float y = fmaf(p, f, f) * tn_power_bits(t - (h - shifted));
    return x != x ? x : y;
}

/*@ exp: exp_shift */
TN_FN float tn_exp(float x)
{
    return tn_exp_shift(x, 12583039.0f);
}

/*@ exp_share: at_most at_least power_bits exp_rest */
TN_FN float tn_exp_share(float x)
{
    /* exp(x) of x <= 0, 0 where that is subnormal: a share of something whose largest is 1; infinity
     * and NaN stay what they are */
    const float c = tn_at_least(tn_at_most(x, 0.0f), -87.0f);
    const float t = fmaf(c, 1.44269502f, 12583039.0f), n = t - 12583039.0f;
    const float f = tn_power_bits(t);
    const float p = tn_exp_rest(fmaf(n, -1.42860677e-06f, fmaf(n, -0.693145752f, x)));
    return x < -87.0f ? 0.0f : fmaf(p, f, f);
}

/*@ exp2_rest: */
TN_FN float tn_exp2_rest(float r)
{
    /* (2^r - 1) / r, |r| <= 1/2 */
    float p = 0.000154587964f;
    p = fmaf(p, r, 0.00133911474f);
    p = fmaf(p, r, 0.00961807184f);
    p = fmaf(p, r, 0.0555035919f);
    p = fmaf(p, r, 0.240226507f);
    return fmaf(p, r, 0.693147182f);
}

/*@ exp2: at_most at_least power_bits exp2_rest */
TN_FN float tn_exp2(float x)
{
    const float c = tn_at_least(tn_at_most(x, 129.0f), -152.0f);
    const float t = c + 12583039.0f, n = t - 12583039.0f, r = c - n;
    const float h = fmaf(n, 0.5f, 12583039.0f), f = tn_power_bits(h);
    const float y =
        fmaf(tn_exp2_rest(r), r, 1.0f) * f * tn_power_bits(t - (h - 12583039.0f));
    return x != x ? x : y;
}

/*@ expm1: abs at_most at_least power_bits */
TN_FN float tn_expm1(float x)
{
    const float c = tn_at_least(tn_at_most(x, 89.0f), -18.0f);
    const float t = fmaf(c, 1.44269502f, 12583038.0f), n = t - 12583038.0f;
    const float r = fmaf(n, -1.42860677e-06f, fmaf(n, -0.693145752f, c));
    float p = 0.00019955929f;
    p = fmaf(p, r, 0.00139330165f);
    p = fmaf(p, r, 0.008333195f);
    p = fmaf(p, r, 0.0416664854f);
    p = fmaf(p, r, 0.166666672f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r * r, r);            /* exp(r) - 1 */
    const float f = tn_power_bits(t); /* 2^n / 2 */
    const float y = 2.0f * fmaf(p, f, f - 0.5f);
    return tn_abs(x) >= 2.98023224e-08f ? y : x;
}

/*@ log_split: float_bits bits_float */
TN_FN float tn_log_split(float x, float *e)
{
    /* x = 2^e (1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1), for positive finite x */
    const int tiny = x < 1.17549435e-38f;
    const float y = tiny ? x * 8388608.0f : x;
    const uint32_t bits = tn_bits_float(y);
    const int k = (int)(bits - 0x3f3504f3u) >> 23;
    *e = (float)(tiny ? k - 23 : k);
    return tn_float_bits(bits - ((uint32_t)k << 23)) - 1.0f;
}

/*@ log_edge: inf nan */
TN_FN float tn_log_edge(float x, float y)
{
    /* y = log(x) of a positive finite x, put right for all others */
    const float z = x < tn_inf() ? y : x; /* infinity and NaN stay */
    return (x > 0.0f) | (x != x) ? z : x == 0.0f ? -tn_inf() : tn_nan();
}

/*@ log1p_sum: */
TN_FN float tn_log1p_sum(float f, float e)
{
    /* e ln 2 + log(1 + f) for a small f */
    const float s = f * f;
    float p = 0.069146134f;
    p = fmaf(p, f, -0.117888458f);
    p = fmaf(p, f, 0.118727393f);
    p = fmaf(p, f, -0.12384481f);
    p = fmaf(p, f, 0.142187133f);
    p = fmaf(p, f, -0.166692466f);
    p = fmaf(p, f, 0.200022236f);
    p = fmaf(p, f, -0.249999866f);
    p = fmaf(p, f, 0.333333105f);
    p = fmaf(p * s, f, -0.5f * s);
    p = fmaf(e, 1.42860677e-06f, p);
    return fmaf(e, 0.693145752f, f + p);
}

/*@ log: log_split log_edge log1p_sum */
TN_FN float tn_log(float x)
{
    float e;
    const float f = tn_log_split(x, &e);
    return tn_log_edge(x, tn_log1p_sum(f, e));
}

/*@ log1p: float_bits bits_float abs log_edge log1p_sum */
TN_FN float tn_log1p(float x)
{
    /* the exponent of 1 + x, then f = (1 + x) / 2^e - 1 from x itself with a single rounding */
    const uint32_t bits = tn_bits_float(1.0f + x);
    const int k = (int)(bits - 0x3f3504f3u) >> 23, h = k / 2;
    const float a = tn_float_bits((uint32_t)(127 - h) << 23);
    const float b = tn_float_bits((uint32_t)(127 - k + h) << 23);
    const float y = tn_log1p_sum(fmaf(x * a, b, a * b - 1.0f), (float)k);
    const float z = tn_log_edge(1.0f + x, y);
    return tn_abs(x) < 2.98023224e-08f ? x : z;
}

/*@ log2: log_split log_edge */
TN_FN float tn_log2(float x)
{
    float e;
    const float f = tn_log_split(x, &e);
    float p = 0.0981541947f;
    p = fmaf(p, f, -0.168616399f);
    p = fmaf(p, f, 0.171309009f);
    p = fmaf(p, f, -0.178979471f);
    p = fmaf(p, f, 0.205169082f);
    p = fmaf(p, f, -0.24046275f);
    p = fmaf(p, f, 0.28856805f);
    p = fmaf(p, f, -0.360674351f);
    p = fmaf(p, f, 0.480898082f);
    p = fmaf(p, f, -0.721347511f);
    p = fmaf(p * f, f, f * 1.92596303e-08f);
    return tn_log_edge(x, e + fmaf(f, 1.44269502f, p));
}

/*@ log10: log_split log_edge */
TN_FN float tn_log10(float x)
{
    float e;
    const float f = tn_log_split(x, &e);
    float p = -0.0333513096f;
    p = fmaf(p, f, 0.0562239587f);
    p = fmaf(p, f, -0.0575057454f);
    p = fmaf(p, f, 0.0615621135f);
    p = fmaf(p, f, -0.0721289068f);
    p = fmaf(p, f, 0.0868687704f);
    p = fmaf(p, f, -0.108580738f);
    p = fmaf(p, f, 0.144764781f);
    p = fmaf(p, f, -0.217147186f);
    p = fmaf(p * f, f, f * -1.010305e-08f);
    p = fmaf(e, -1.43209888e-08f, fmaf(f, 0.434294492f, p));
    return tn_log_edge(x, fmaf(e, 0.30103001f, p));
}

/*@ quadrant: bits_float */
TN_FN int tn_quadrant(float x, float *high, float *low)
{
    /* |x| = (q + f) pi/2 with |f| <= 1/2, f = high + low, q modulo 4; for every |x| >= 2^-7. The
     * product of the 24-bit significand with a window of 96 bits of 2/pi, chosen by the exponent,
     * is exact enough for all floats: dropped bits in front weigh multiples of 4. The words are 32
     * zero bits and then 2/pi. */
    const uint32_t bits = tn_bits_float(x) & 0x7fffffffu, m = (bits & 0x7fffffu) | 0x800000u;
    const int e = (int)(bits >> 23) - 120;
    const uint32_t s = (uint32_t)(e > 0 ? e : 0), word = s >> 5, k = s & 31;
    const uint32_t two = 0u - ((word >> 1) & 1), one = 0u - (word & 1), four = 0u - (word >> 2);
    const uint32_t a0 = two & 0x4e441529u, a1 = 0xa2f9836eu ^ (two & (0xa2f9836eu ^ 0xfc2757d1u)),
                   a2 = 0x4e441529u ^ (two & (0x4e441529u ^ 0xf534ddc0u)),
                   a3 = 0xfc2757d1u ^ (two & (0xfc2757d1u ^ 0xdb629599u)),
                   a4 = 0xf534ddc0u ^ (two & (0xf534ddc0u ^ 0x3c439041u));
    uint32_t w0 = a0 ^ (one & (a0 ^ a1)), w1 = a1 ^ (one & (a1 ^ a2));
    uint32_t w2 = a2 ^ (one & (a2 ^ a3)), w3 = a3 ^ (one & (a3 ^ a4));
    w0 ^= four & (w0 ^ 0xf534ddc0u);
    w1 ^= four & (w1 ^ 0xdb629599u);
    w2 ^= four & (w2 ^ 0x3c439041u);
    w3 ^= four & (w3 ^ 0xfe5163abu);
    w0 = w0 << k | w1 >> 1 >> (31 - k);
    w1 = w1 << k | w2 >> 1 >> (31 - k);
    w2 = w2 << k | w3 >> 1 >> (31 - k);
    const uint64_t t = (uint64_t)m * w1 + ((uint64_t)m * w2 >> 32);
    const uint32_t h = m * w0 + (uint32_t)(t >> 32), l = (uint32_t)t;
    const uint32_t q = (h + 0x20000000u) >> 30, f = h - (q << 30);
    const float f0 = (float)((int)f >> 8) * 2.38418579e-07f; /* 22, 24 and 16 bits */
    const float f1 = (float)(int)((f & 0xffu) << 16 | l >> 16);
    const float f2 = (float)(int)(l & 0xffffu) * 2.16840434e-19f;
    *high = fmaf(f1, 1.42108547e-14f, f0);
    *low = fmaf(f1, 1.42108547e-14f, f0 - *high) + f2;
    return (int)(q & 3);
}

/*@ sin_quarter: */
TN_FN float tn_sin_quarter(float f, float low)
{
    /* sin(pi/2 (f + low)), |f| <= 1/2 */
    const float z = f * f;
    float p = 0.000154621826f;
    p = fmaf(p, z, -0.00467954483f);
    p = fmaf(p, z, 0.0796923339f);
    p = fmaf(p, z, -0.645964086f);
    p = fmaf(p * z, f, fmaf(low, 1.57079637f, f * -4.37113883e-08f));
    return fmaf(f, 1.57079637f, p);
}

/*@ cos_quarter: */
TN_FN float tn_cos_quarter(float f)
{
    const float z = f * f;
    float p = 0.000893445918f;
    p = fmaf(p, z, -0.0208552331f);
    p = fmaf(p, z, 0.253668517f);
    p = fmaf(p, z, -1.23370051f);
    return fmaf(p, z, 1.0f);
}

/*@ sin: abs float_bits bits_float quadrant sin_quarter cos_quarter */
TN_FN float tn_sin(float x)
{
    float f, low;
    const int q = tn_quadrant(x, &f, &low);
    const float s = tn_sin_quarter(f, low), c = tn_cos_quarter(f);
    const uint32_t flip = (uint32_t)(q & 2) << 30 ^ (tn_bits_float(x) & 0x80000000u);
    const float z = tn_float_bits(tn_bits_float(q & 1 ? c : s) ^ flip);
    const float t = x * fmaf(x * x, -0.166666672f, 1.0f), a = tn_abs(x);
    return a < 0.0078125f ? t : a <= 3.40282347e+38f ? z : x - x;
}

/*@ cos: abs quadrant sin_quarter cos_quarter */
TN_FN float tn_cos(float x)
{
    float f, low;
    const int q = tn_quadrant(x, &f, &low);
    const float s = tn_sin_quarter(f, low), c = tn_cos_quarter(f);
    const float y = q & 1 ? s : c, z = ((q + 1) & 2) != 0 ? -y : y;
    const float t = fmaf(x * x, -0.5f, 1.0f), a = tn_abs(x);
    return a < 0.0078125f ? t : a <= 3.40282347e+38f ? z : x - x;
}

/*@ tan: abs quadrant quot2 */
TN_FN float tn_tan(float x)
{
    /* sine and cosine of the rest as sums of two floats */
    float f, low;
    const int q = tn_quadrant(x, &f, &low);
    const float k = f * f;
    float p = 0.000154621826f;
    p = fmaf(p, k, -0.00467954483f);
    p = fmaf(p, k, 0.0796923339f);
    p = fmaf(p, k, -0.645964086f);
    p = fmaf(p * k, f, fmaf(low, 1.57079637f, f * -4.37113883e-08f));
    const float s = fmaf(f, 1.57079637f, p), sl = fmaf(f, 1.57079637f, -s) + p;
    float r = 0.000893445918f;
    r = fmaf(r, k, -0.0208552331f);
    r = fmaf(r, k, 0.253668517f);
    r = fmaf(r, k, -1.23370051f);
    const float c = fmaf(r, k, 1.0f), cl = fmaf(r, k, 1.0f - c);
    const int odd = q & 1;
    const float y = tn_quot2(odd ? -c : s, odd ? -cl : sl, odd ? s : c, odd ? sl : cl);
    const float z = x < 0.0f ? -y : y, t = fmaf(x * x * x, 0.333333343f, x), a = tn_abs(x);
    return a < 0.0078125f ? t : a <= 3.40282347e+38f ? z : x - x;
}

/*@ asin_cubic: */
TN_FN float tn_asin_cubic(float x, float z)
{
    /* asin(x) - x for z = x^2 <= 1/4 */
    float p = 0.0375904776f;
    p = fmaf(p, z, 0.0143808639f);
    p = fmaf(p, z, 0.0318246894f);
    p = fmaf(p, z, 0.0445146523f);
    p = fmaf(p, z, 0.0750051811f);
    p = fmaf(p, z, 0.166666597f);
    return p * z * x;
}

/*@ asin: abs copysign asin_cubic */
TN_FN float tn_asin(float x)
{
    const float a = tn_abs(x);
    const int far = a > 0.5f;
    const float z = far ? 0.5f - 0.5f * a : x * x, s = far ? sqrtf(z) : x;
    const float c = tn_asin_cubic(s, z);
    const float y = (1.57079637f - 2.0f * s) - (2.0f * c + 4.37113883e-08f);
    return far ? tn_copysign(y, x) : x + c;
}

/*@ acos: abs asin_cubic */
TN_FN float tn_acos(float x)
{
    const float a = tn_abs(x);
    const int far = a > 0.5f;
    const float z = far ? 0.5f - 0.5f * a : x * x, s = far ? sqrtf(z) : x;
    const float c = tn_asin_cubic(s, z);
    const float y =
        x > 0.0f ? 2.0f * (s + c) : (3.14159274f - 2.0f * s) - (2.0f * c + 8.74227766e-08f);
    return far ? y : (1.57079637f - s) - (c + 4.37113883e-08f);
}

/*@ atan_unit: */
TN_FN float tn_atan_unit(float x)
{
    /* |x| <= 1 */
    const float z = x * x;
    float p = 0.00114904612f;
    p = fmaf(p, z, -0.00749593787f);
    p = fmaf(p, z, 0.0229222961f);
    p = fmaf(p, z, -0.0451457351f);
    p = fmaf(p, z, 0.0677450076f);
    p = fmaf(p, z, -0.0882583335f);
    p = fmaf(p, z, 0.11062257f);
    p = fmaf(p, z, -0.142804682f);
    p = fmaf(p, z, 0.199997216f);
    p = fmaf(p, z, -0.333333284f);
    return fmaf(p * z, x, x);
}

/*@ atan: abs copysign atan_unit */
TN_FN float tn_atan(float x)
{
    const float a = tn_abs(x);
    const float t = tn_atan_unit(a > 1.0f ? 1.0f / a : a);
    return tn_copysign(a > 1.0f ? 1.57079637f - (t + 4.37113883e-08f) : t, x);
}

/*@ atan2: abs copysign bits_float atan_unit */
TN_FN float tn_atan2(float y, float x)
{
    const float a = tn_abs(x), b = tn_abs(y);
    const int steep = b > a;
    const float n = steep ? a : b, d = steep ? b : a;
    const float q = n == d ? (n == 0.0f ? 0.0f : 1.0f) : n / d; /* 0/0 and inf/inf have a value */
    const float t = tn_atan_unit(q);
    const float u = steep ? 1.57079637f - (t + 4.37113883e-08f) : t;
    const float v = tn_bits_float(x) >> 31 ? 3.14159274f - (u + 8.74227766e-08f) : u;
    return (a != a) | (b != b) ? x + y : tn_copysign(v, y);
}

/*@ sinh: abs copysign exp_shift */
TN_FN float tn_sinh(float x)
{
    const float a = tn_abs(x), z = x * x;
    float p = 2.78392531e-06f;
    p = fmaf(p, z, 0.000198426351f);
    p = fmaf(p, z, 0.00833331142f);
    p = fmaf(p, z, 0.166666672f);
    const float e = tn_exp_shift(a, 12583038.0f);
    return tn_copysign(a < 1.0f ? fmaf(p * z, a, a) : e - 0.25f / e, x);
}

/*@ cosh: abs exp_shift */
TN_FN float tn_cosh(float x)
{
    const float e = tn_exp_shift(tn_abs(x), 12583038.0f);
    return e + 0.25f / e;
}

/*@ tanh: abs copysign at_most power_bits exp_rest */
TN_FN float tn_tanh(float x)
{
    const float a = tn_abs(x), z = x * x;
    float p = -0.00116542331f;
    p = fmaf(p, z, 0.00372045813f);
    p = fmaf(p, z, -0.00901268609f);
    p = fmaf(p, z, 0.0219184011f);
    p = fmaf(p, z, -0.0539754704f);
    p = fmaf(p, z, 0.133333802f);
    p = fmaf(p, z, -0.333333343f);
    /* from 0.625: 1 - 2 / (exp(2a) + 1), which is 1 long before a = 10 */
    const float c = tn_at_most(a, 10.0f);
    const float t = fmaf(c, 2.88539004f, 12583039.0f), n = t - 12583039.0f;
    const float f = tn_power_bits(t);
    const float q = tn_exp_rest(fmaf(n, -1.42860677e-06f, fmaf(n, -0.693145752f, 2.0f * c)));
    const float y = 1.0f - 2.0f / (fmaf(q, f, f) + 1.0f);
    return tn_copysign(a >= 0.625f ? y : fmaf(p * z, a, a), x);
}

/*@ sigmoid: abs exp quot2 */
TN_FN float tn_sigmoid(float x)
{
    const float e = tn_exp(-tn_abs(x)), d = 1.0f + e;
    return tn_quot2(x < 0.0f ? e : 1.0f, 0.0f, d, e - (d - 1.0f));
}

/*@ erf_near: */
TN_FN float tn_erf_near(float x)
{
    /* |x| <= 1 */
    const float z = x * x;
    float p = -8.7234348e-06f;
    p = fmaf(p, z, 0.000109454217f);
    p = fmaf(p, z, -0.000844166381f);
    p = fmaf(p, z, 0.0052182856f);
    p = fmaf(p, z, -0.0268645398f);
    p = fmaf(p, z, 0.112837695f);
    p = fmaf(p, z, -0.376126379f);
    p = fmaf(p, z, -5.86353828e-08f);
    return fmaf(x, 1.12837923f, x * p);
}

/*@ erf: abs copysign at_most power_bits exp2_rest erf_near */
TN_FN float tn_erf(float x)
{
    const float a = tn_abs(x), c = tn_at_most(a, 4.0f); /* beyond 1: 1 - 2^p(a) */
    float p = 0.000267629046f;
    p = fmaf(p, c, -0.00424001412f);
    p = fmaf(p, c, 0.0314546973f);
    p = fmaf(p, c, -0.148643777f);
    p = fmaf(p, c, -0.920773864f);
    p = fmaf(p, c, -1.62596977f);
    p = fmaf(p, c, -0.000511610298f);
    const float t = p + 12583039.0f, r = p - (t - 12583039.0f);
    const float y = 1.0f - fmaf(tn_exp2_rest(r), r, 1.0f) * tn_power_bits(t);
    return tn_copysign(a >= 1.0f ? y : tn_erf_near(x), x);
}

/*@ erfc: abs scale2 quot2 erf_near */
TN_FN float tn_erfc(float x)
{
    /* beyond 0.4: exp(-a^2) (k + q(t)) / (1 + 2a), t = (a - 2) / (a + 2), every factor as a sum of
     * two floats, high and low */
    const float a = tn_abs(x), c = a < 10.1f ? a : 10.1f;
    const float t = (c - 2.0f) / (c + 2.0f);
    float q = 0.000193315791f;
    q = fmaf(q, t, -0.000300593325f);
    q = fmaf(q, t, -0.00144884596f);
    q = fmaf(q, t, 0.00120677194f);
    q = fmaf(q, t, 0.00872067269f);
    q = fmaf(q, t, -0.0080216825f);
    q = fmaf(q, t, -0.0542197824f);
    q = fmaf(q, t, 0.164050296f);
    q = fmaf(q, t, -0.166030407f);
    q = fmaf(q, t, -0.0927638039f);
    q = fmaf(q, t, 8.11736545e-09f);
    const float rh = 1.27697837f + q, rl = q - (rh - 1.27697837f);
    const float s = c * c, n = rintf(s * -1.44269502f);
    const float r = fmaf(n, -1.42860677e-06f, fmaf(n, -0.693145752f, -s)) - fmaf(c, c, -s);
    float p = 0.00139358034f;
    p = fmaf(p, r, 0.00836896338f);
    p = fmaf(p, r, 0.0416664556f);
    p = fmaf(p, r, 0.166665182f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r * r, r);
    const float eh = 1.0f + p, el = p - (eh - 1.0f);
    const float nh = rh * eh, nl = fmaf(rh, eh, -nh) + fmaf(rh, el, rl * eh);
    const float dh = fmaf(2.0f, c, 1.0f), dl = fmaf(2.0f, c, 1.0f - dh);
    const float y = tn_scale2(tn_quot2(nh, nl, dh, dl), (int)n), far = x < 0.0f ? 2.0f - y : y;
    return x != x ? x : a < 0.4f ? 1.0f - tn_erf_near(x) : far;
}

/*@ pow: abs bits_float log_split scale2 inf nan */
TN_FN float tn_pow(float x, float y)
{
    const float a = tn_abs(x);
    float e;
    const float f = tn_log_split(a, &e), d = f + 2.0f, dl = f - (d - 2.0f);
    /* log2(1 + f) = s (k + w), s = f / (f + 2), w = s^2 t(s^2): sums of two floats, relative error
     * 2^-34 */
    const float i = 1.0f / d, s = f * i, sl = (fmaf(-s, d, f) - s * dl) * i;
    const float z = s * s, zl = fmaf(s, s, -z) + 2.0f * s * sl;
    const float p =
        fmaf(fmaf(fmaf(0.336603045f, z, 0.411921978f), z, 0.577078879f), z, -7.02846181e-09f);
    const float t = 0.961796701f + p, tl = p - (t - 0.961796701f);
    const float w = z * t, wl = fmaf(z, t, -w) + fmaf(z, tl, zl * t) + 3.85192607e-08f;
    const float k = 2.88539004f + w, kl = (w - (k - 2.88539004f)) + wl;
    const float m = s * k, ml = fmaf(s, k, -m) + fmaf(s, kl, sl * k);
    const float g = e + m, gl = ((e - g) + m) + ml;
    const float h = a == 0.0f ? -tn_inf() : a < tn_inf() ? g : a; /* log2(a) */
    const float v = y * h;
    const float c = v > -152.0f ? (v < 129.0f ? v : 129.0f) : -152.0f, n = rintf(c);
    const float vl = fmaf(y, gl, fmaf(y, h, -v));
    const float r = (c - n) + ((v > -152.0f) & (v < 129.0f) ? vl : 0.0f);
    float b = 0.000154587964f;
    b = fmaf(b, r, 0.00133911474f);
    b = fmaf(b, r, 0.00961807184f);
    b = fmaf(b, r, 0.0555035919f);
    b = fmaf(b, r, 0.240226507f);
    b = fmaf(b, r, 0.693147182f);
    const float u = tn_scale2(fmaf(b, r, 1.0f), (int)n);
    const float mag = v >= 129.0f ? tn_inf() : v <= -152.0f ? 0.0f : u;
    const float half = 0.5f * y;
    const int whole = truncf(y) == y, odd = whole & (truncf(half) != half);
    const float pos = a == 1.0f ? 1.0f : mag;
    const float sgn = odd & (int)(tn_bits_float(x) >> 31) ? -pos : pos;
    const float z1 = (x < 0.0f) & !whole & (a < tn_inf()) & (tn_abs(y) < tn_inf()) ? tn_nan() : sgn;
    return (y == 0.0f) | (x == 1.0f) ? 1.0f : (x != x) | (y != y) ? x + y : z1;
}
