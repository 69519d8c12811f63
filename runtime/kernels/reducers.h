/* reducers.h: joins of reducers with several fields, and of those without an operator in C; one text
 * for C and for CUDA, pasted like math.h (which see for TN_FN and the form of the lines in between).
 * A join is branch-free, so that 16 lanes at a time vectorise; identities are finite where a
 * difference of fields is taken. SPDX-License-Identifier: MIT */

/*@ max_f64: */
TN_FN double tn_max_f64(double a, double b)
{
    return a > b || a != a ? a : b; /* NaN wins */
}

/*@ min_f64: */
TN_FN double tn_min_f64(double a, double b)
{
    return a < b || a != a ? a : b;
}

/*@ max_i64: */
TN_FN int64_t tn_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/*@ min_i64: */
TN_FN int64_t tn_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/*@ max_i32: */
TN_FN int32_t tn_max_i32(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/*@ min_i32: */
TN_FN int32_t tn_min_i32(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/*@ argmax_f32: */
TN_FN void tn_argmax_f32(float *v, int64_t *i, float x, int64_t j)
{
    /* the first NaN, else the first of the largest */
    const int above = (x > *v) | ((x != x) & (*v == *v));
    const int equal = (x == *v) | ((x != x) & (*v != *v));
    const int take = above | (equal & (j < *i));
    *v = take ? x : *v;
    *i = take ? j : *i;
}

/*@ argmin_f32: */
TN_FN void tn_argmin_f32(float *v, int64_t *i, float x, int64_t j)
{
    const int below = (x < *v) | ((x != x) & (*v == *v));
    const int equal = (x == *v) | ((x != x) & (*v != *v));
    const int take = below | (equal & (j < *i));
    *v = take ? x : *v;
    *i = take ? j : *i;
}

/*@ argmax_f64: */
TN_FN void tn_argmax_f64(double *v, int64_t *i, double x, int64_t j)
{
    const int above = (x > *v) | ((x != x) & (*v == *v));
    const int equal = (x == *v) | ((x != x) & (*v != *v));
    const int take = above | (equal & (j < *i));
    *v = take ? x : *v;
    *i = take ? j : *i;
}

/*@ argmin_f64: */
TN_FN void tn_argmin_f64(double *v, int64_t *i, double x, int64_t j)
{
    const int below = (x < *v) | ((x != x) & (*v == *v));
    const int equal = (x == *v) | ((x != x) & (*v != *v));
    const int take = below | (equal & (j < *i));
    *v = take ? x : *v;
    *i = take ? j : *i;
}

/*@ argmax_i64: */
TN_FN void tn_argmax_i64(int64_t *v, int64_t *i, int64_t x, int64_t j)
{
    const int take = (x > *v) | ((x == *v) & (j < *i));
    *v = take ? x : *v;
    *i = take ? j : *i;
}

/*@ argmin_i64: */
TN_FN void tn_argmin_i64(int64_t *v, int64_t *i, int64_t x, int64_t j)
{
    const int take = (x < *v) | ((x == *v) & (j < *i));
    *v = take ? x : *v;
    *i = take ? j : *i;
}

/*@ moments_f32: */
TN_FN void tn_moments_f32(float *n, float *mean, float *m2, float n1, float mean1, float m21)
{
    /* count, mean, sum of squared differences from the mean: Chan, Golub and LeVeque */
    const float t = *n + n1, share = t > 0.0f ? n1 / t : 0.0f, d = mean1 - *mean;
    *mean += d * share;
    *m2 += m21 + d * d * (*n * share);
    *n = t;
}

/*@ moments_f64: */
TN_FN void tn_moments_f64(double *n, double *mean, double *m2, double n1, double mean1, double m21)
{
    const double t = *n + n1, share = t > 0.0 ? n1 / t : 0.0, d = mean1 - *mean;
    *mean += d * share;
    *m2 += m21 + d * d * (*n * share);
    *n = t;
}

/*@ moments_block_f32: moments_f32 */
TN_FN void tn_moments_block_f32(float *n, float *mean, float *m2, const float *values)
{
    /* 256 values into 16 lanes: mean and squares of a lane's 16 values, then one join a lane */
    float m[16], q[16];
    for (int l = 0; l < 16; l++)
        m[l] = q[l] = 0.0f;
    for (int i = 0; i < 256; i += 16)
        for (int l = 0; l < 16; l++)
            m[l] += values[i + l];
    for (int l = 0; l < 16; l++)
        m[l] *= 0.0625f;
    for (int i = 0; i < 256; i += 16)
        for (int l = 0; l < 16; l++) {
            const float d = values[i + l] - m[l];
            q[l] += d * d;
        }
    for (int l = 0; l < 16; l++)
        tn_moments_f32(&n[l], &mean[l], &m2[l], 16.0f, m[l], q[l]);
}

/*@ logsumexp_f32: exp_share at_most */
TN_FN void tn_logsumexp_f32(float *m, float *s, float m1, float s1)
{
    /* maximum so far, sum of exp(x - m); m stays finite, since inf - inf is no number: an infinite x
     * makes the sum infinite. One of the differences a and b is 0, or b is infinite */
    const int up = *m < m1;
    const float k = tn_at_most(up ? m1 : *m, 3.40282347e+38f), a = *m - k, b = m1 - k;
    const float e = tn_exp_share(up ? a : b), t = fmaf(s1, b, s1);
    *s = fmaf(up ? *s : s1, e, up ? t : *s);
    *m = k;
}

/*@ logsumexp_block_f32: exp_share at_most */
TN_FN void tn_logsumexp_block_f32(float *m, float *s, const float *values)
{
    /* 256 values into 16 lanes: first the largest of each lane, then one exponential a value */
    float top[16];
    for (int l = 0; l < 16; l++)
        top[l] = m[l];
    for (int i = 0; i < 256; i += 16)
        for (int l = 0; l < 16; l++)
            top[l] = top[l] < values[i + l] ? values[i + l] : top[l];
    for (int l = 0; l < 16; l++) {
        top[l] = tn_at_most(top[l], 3.40282347e+38f);
        s[l] *= tn_exp_share(m[l] - top[l]);
        m[l] = top[l];
    }
    for (int i = 0; i < 256; i += 16)
        for (int l = 0; l < 16; l++)
            s[l] += tn_exp_share(values[i + l] - top[l]);
}

/*@ logsumexp_f64: */
TN_FN void tn_logsumexp_f64(double *m, double *s, double m1, double s1)
{
    const double top = *m < m1 ? m1 : *m;
    const double k = top < 1.7976931348623157e+308 ? top : 1.7976931348623157e+308;
    *s = *s * exp(*m - k) + s1 * exp(m1 - k);
    *m = k;
}

/*@ double_bits: */
TN_FN double tn_double_bits(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, 8);
    return d;
}

/*@ bits_double: */
TN_FN uint64_t tn_bits_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, 8);
    return bits;
}

/*@ random_bits: philox */
TN_FN int32_t tn_random_bits(uint64_t key, uint64_t i)
{
    uint32_t w[4];
    tn_philox(key, i >> 2, w);
    const uint32_t a = i & 1 ? w[1] : w[0], b = i & 1 ? w[3] : w[2];
    return (int32_t)(i & 2 ? b : a);
}

/*@ sign_f64: */
TN_FN double tn_sign_f64(double x)
{
    const double s = (double)((x > 0.0) - (x < 0.0));
    return x != x ? x : s;
}

/*@ abs_i64: */
TN_FN int64_t tn_abs_i64(int64_t x)
{
    return x < 0 ? (int64_t)(0u - (uint64_t)x) : x; /* the lowest number wraps to itself */
}

/*@ abs_i32: */
TN_FN int32_t tn_abs_i32(int32_t x)
{
    return x < 0 ? (int32_t)(0u - (uint32_t)x) : x;
}

/*@ neg_i64: */
TN_FN int64_t tn_neg_i64(int64_t x)
{
    return (int64_t)(0u - (uint64_t)x);
}

/*@ neg_i32: */
TN_FN int32_t tn_neg_i32(int32_t x)
{
    return (int32_t)(0u - (uint32_t)x);
}

/*@ key: */
TN_FN uint64_t tn_key(uint64_t seed, uint64_t calls, uint64_t site)
{
    /* the key of a draw: Philox4x32 of counter (site, calls) under the model's seed */
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)site, c1 = (uint32_t)(site >> 32);
    uint32_t c2 = (uint32_t)calls, c3 = (uint32_t)(calls >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)0xd2511f53u * c0, b = (uint64_t)0xcd9e8d57u * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)b;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    return (uint64_t)c1 << 32 | c0;
}
