/* attention.h: softmax(scale * q k^T + bias) v by blocks of 64 rows and 64 keys, and its gradients,
 * in C; the form is that of math.h, and T stands for the type of elements. Scores exist a block at
 * a time. Row r of head h of entry b begins at x + b * x_b + r * x_t + h * x_h.
 *
 * bias may be NULL, else it is added to the scores: element (b, h, t, s) at bias + b * m_b + h * m_h
 * + t * m_t + s * m_s. key may be NULL, else scores are left out at random: of 2^24 draws `keep` are
 * kept, and multiplied by `grow` (dropout). scale and grow are given as the bits of an f32.
 * A row that sees nothing gives 0, and lse is then +infinity; with `nothing` both are no numbers.
 * hook: NULL, or what scores go through before the bias is added, a row of a block at a time:
 * tn_hook_score, for which each instance has a function of its own (codegen/paste.c).
 * SPDX-License-Identifier: MIT */

/*@ att_tile_512: */
#if defined __x86_64__ && defined __GNUC__
#define TN_ATT_TARGET(isa) __attribute__((target(isa)))
#else
#define TN_ATT_TARGET(isa)
#endif
typedef float tn_att_lanes16 __attribute__((vector_size(64), aligned(4), may_alias));
TN_ATT_TARGET("avx512f") TN_FN void tn_att_tile_512(float *restrict c, int64_t c_m, const float *restrict a,
                                                    int64_t a_m, int64_t a_k, const float *restrict b,
                                                    int64_t b_k, int64_t k, int add)
{
#if defined __x86_64__ && defined __GNUC__
    /* four rows of 32 columns, in registers while k runs */
    tn_att_lanes16 s[4][2];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        s[i][0] = add ? *(const tn_att_lanes16 *)(c + i * c_m) : (tn_att_lanes16){0};
        s[i][1] = add ? *(const tn_att_lanes16 *)(c + i * c_m + 16) : (tn_att_lanes16){0};
    }
    for (int64_t l = 0; l < k; l++) {
        const tn_att_lanes16 b0 = *(const tn_att_lanes16 *)(b + l * b_k);
        const tn_att_lanes16 b1 = *(const tn_att_lanes16 *)(b + l * b_k + 16);
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            const tn_att_lanes16 x = a[i * a_m + l * a_k] - (tn_att_lanes16){0};
#if defined __clang__ && __clang_major__ >= 17
            s[i][0] = __builtin_elementwise_fma(x, b0, s[i][0]);
            s[i][1] = __builtin_elementwise_fma(x, b1, s[i][1]);
#else
            s[i][0] = (tn_att_lanes16)__builtin_ia32_vfmaddps512_mask(x, b0, s[i][0], (unsigned short)-1, 4);
            s[i][1] = (tn_att_lanes16)__builtin_ia32_vfmaddps512_mask(x, b1, s[i][1], (unsigned short)-1, 4);
#endif
        }
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        *(tn_att_lanes16 *)(c + i * c_m) = s[i][0];
        *(tn_att_lanes16 *)(c + i * c_m + 16) = s[i][1];
    }
#else
    (void)c, (void)c_m, (void)a, (void)a_m, (void)a_k, (void)b, (void)b_k, (void)k, (void)add;
#endif
}

/*@ att_product_512: att_tile_512 */
TN_ATT_TARGET("avx512f") static void tn_att_product_512(float *restrict c, int64_t c_m, const float *restrict a,
                                                        int64_t a_m, int64_t a_k, const float *restrict b,
                                                        int64_t b_k, int64_t m, int64_t n, int64_t k, int add)
{
    for (int64_t j = 0; j < n; j += 32) {
        for (int64_t i = 0; i < m; i += 4)
            tn_att_tile_512(c + i * c_m + j, c_m, a + i * a_m, a_m, a_k, b + j, b_k, k, add);
    }
}

/*@ att_product_256: */
#if defined __x86_64__ && defined __GNUC__
typedef float tn_att_lanes8 __attribute__((vector_size(32), aligned(4), may_alias));
#endif
TN_ATT_TARGET("avx2,fma") static void tn_att_product_256(float *restrict c, int64_t c_m, const float *restrict a,
                                                         int64_t a_m, int64_t a_k, const float *restrict b,
                                                         int64_t b_k, int64_t m, int64_t n, int64_t k, int add)
{
#if defined __x86_64__ && defined __GNUC__
    for (int64_t j = 0; j < n; j += 16)
        for (int64_t i = 0; i < m; i += 4) {
            tn_att_lanes8 s[4][2];
#pragma GCC unroll 4
            for (int r = 0; r < 4; r++) {
                const float *const from = c + (i + r) * c_m + j;
                s[r][0] = add ? *(const tn_att_lanes8 *)from : (tn_att_lanes8){0};
                s[r][1] = add ? *(const tn_att_lanes8 *)(from + 8) : (tn_att_lanes8){0};
            }
            for (int64_t l = 0; l < k; l++) {
                const tn_att_lanes8 b0 = *(const tn_att_lanes8 *)(b + l * b_k + j);
                const tn_att_lanes8 b1 = *(const tn_att_lanes8 *)(b + l * b_k + j + 8);
#pragma GCC unroll 4
                for (int r = 0; r < 4; r++) {
                    const tn_att_lanes8 x = a[(i + r) * a_m + l * a_k] - (tn_att_lanes8){0};
#if defined __clang__ && __clang_major__ >= 17
                    s[r][0] = __builtin_elementwise_fma(x, b0, s[r][0]);
                    s[r][1] = __builtin_elementwise_fma(x, b1, s[r][1]);
#else
                    s[r][0] = (tn_att_lanes8)__builtin_ia32_vfmaddps256(x, b0, s[r][0]);
                    s[r][1] = (tn_att_lanes8)__builtin_ia32_vfmaddps256(x, b1, s[r][1]);
#endif
                }
            }
#pragma GCC unroll 4
            for (int r = 0; r < 4; r++) {
                *(tn_att_lanes8 *)(c + (i + r) * c_m + j) = s[r][0];
                *(tn_att_lanes8 *)(c + (i + r) * c_m + j + 8) = s[r][1];
            }
        }
#else
    (void)c, (void)c_m, (void)a, (void)a_m, (void)a_k, (void)b, (void)b_k, (void)m, (void)n, (void)k, (void)add;
#endif
}

/*@ att_product: att_product_512 att_product_256 */
TN_FN void tn_att_product(float *restrict c, int64_t c_m, const float *restrict a, int64_t a_m,
                          int64_t a_k, const float *restrict b, int64_t b_k, int64_t m, int64_t n,
                          int64_t k, int add)
{
    /* c (+)= a b; m is a multiple of 4, n of 32; a sum is one chain of fused multiply-adds, so the bits do
     * not depend on the processor */
#if defined __x86_64__ && defined __GNUC__
    if (__builtin_cpu_supports("avx512f")) {
        tn_att_product_512(c, c_m, a, a_m, a_k, b, b_k, m, n, k, add);
        return;
    }
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        tn_att_product_256(c, c_m, a, a_m, a_k, b, b_k, m, n, k, add);
        return;
    }
#endif
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n && !add; j++)
            c[i * c_m + j] = 0.0f;
        for (int64_t l = 0; l < k; l++)
            for (int64_t j = 0; j < n; j++)
                c[i * c_m + j] = fmaf(a[i * a_m + l * a_k], b[l * b_k + j], c[i * c_m + j]);
    }
}

/*@ att_rows_T: f32_from_T */
TN_FN void tn_att_rows_T(float *restrict to, int64_t width, const T_mem *from, int64_t x_t, int64_t rows,
                         int64_t D, float scale)
{
    /* 64 rows of width: times scale, zeros around */
    for (int64_t r = 0; r < 64; r++) {
        for (int64_t d = 0; d < D; d++)
            to[r * width + d] = r < rows ? T_load(from[r * x_t + d]) * scale : 0.0f;
        for (int64_t d = D; d < width; d++)
            to[r * width + d] = 0.0f;
    }
}

/*@ att_columns_T: f32_from_T */
TN_FN void tn_att_columns_T(float *restrict to, int64_t depth, const T_mem *from, int64_t x_t,
                            int64_t rows, int64_t D)
{
    /* depth rows of 64: the transpose, zeros around; 16 rows at a time, whose lines stay near */
    for (int64_t r0 = 0; r0 < 64; r0 += 16) {
        const int64_t n = rows - r0 < 16 ? rows - r0 : 16;
        for (int64_t d = 0; d < D; d++) {
            for (int64_t r = 0; r < n; r++)
                to[d * 64 + r0 + r] = T_load(from[(r0 + r) * x_t + d]);
            for (int64_t r = n < 0 ? 0 : n; r < 16; r++)
                to[d * 64 + r0 + r] = 0.0f;
        }
    }
    for (int64_t i = D * 64; i < depth * 64; i++)
        to[i] = 0.0f;
}

/*@ att_mask: */
TN_FN void tn_att_mask(float *restrict s, int64_t rows, int64_t t0, int64_t s0, int64_t S, const float *bias,
                       int64_t m_t, int64_t m_s, int causal)
{
    /* a block of scores: bias is added, what is not there or not seen becomes -infinity */
    const int64_t cols = S - s0 < 64 ? S - s0 : 64;
    for (int64_t r = 0; r < rows; r++) {
        float *const at = s + r * 64;
        if (bias && m_s == 1)
            for (int64_t c = 0; c < cols; c++)
                at[c] += bias[(t0 + r) * m_t + s0 + c];
        else if (bias)
            for (int64_t c = 0; c < cols; c++)
                at[c] += bias[(t0 + r) * m_t + (s0 + c) * m_s];
        int64_t seen = causal && t0 + r - s0 + 1 < cols ? t0 + r - s0 + 1 : cols;
        for (seen = seen < 0 ? 0 : seen; seen < 64; seen++)
            at[seen] = -tn_inf();
    }
}

/*@ att_drop: philox */
TN_FN void tn_att_drop(float *restrict kept, const uint64_t *key, int64_t keep, float grow, int64_t first,
                       int64_t rows, int64_t s0, int64_t S)
{
    /* what a block of scores is multiplied by: draw (b, h, t, s) is element first + t * S + s */
    const int64_t cols = S - s0 < 64 ? S - s0 : 64;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++) {
            const int64_t i = first + r * S + s0 + c;
            uint32_t w[4];
            tn_philox(*key, (uint64_t)i >> 2, w);
            const uint32_t lo = i & 1 ? w[1] : w[0], hi = i & 1 ? w[3] : w[2];
            kept[r * 64 + c] = (int64_t)((i & 2 ? hi : lo) >> 8) < keep ? grow : 0.0f;
        }
}

/*@ hook_score: */
TN_FN void tn_hook_score(const void *hook, float *restrict score, float *restrict slope, int64_t b, int64_t h, int64_t i,
                         int64_t first, int64_t n)
{
    /* of an instance without a hook: is not called */
    (void)hook, (void)score, (void)slope, (void)b, (void)h, (void)i, (void)first, (void)n;
}

/*@ attention_T: */
TN_FN __attribute__((always_inline)) void tn_attention_T(T_mem *restrict out, float *restrict lse, const T_mem *q, const T_mem *k,
                          const T_mem *v, const float *bias, const uint64_t *key, int64_t cell,
                          int64_t block, int64_t H, int64_t G, int64_t T, int64_t S, int64_t D,
                          int64_t E, int64_t o_b, int64_t o_t, int64_t o_h, int64_t q_b, int64_t q_t,
                          int64_t q_h, int64_t k_b, int64_t k_t, int64_t k_h, int64_t v_b, int64_t v_t,
                          int64_t v_h, int64_t m_b, int64_t m_h, int64_t m_t, int64_t m_s, int64_t causal,
                          int64_t scale, int64_t keep, int64_t grow, int64_t nothing, const void *hook)
{
    float rows_q[64 * 128], block_k[128 * 64], block_v[64 * 128], s[64 * 64], kept[64 * 64], o[64 * 128];
    float top[64], sum[64];
    const int64_t b = cell / H, h = cell % H, g = h / (H / G), t0 = 64 * block;
    const int64_t rows = T - t0 < 64 ? T - t0 : 64, wide = (E + 31) / 32 * 32;
    const int64_t last = causal && t0 + rows < S ? t0 + rows : S; /* keys that somebody sees */
    tn_att_rows_T(rows_q, D, q + b * q_b + t0 * q_t + h * q_h, q_t, rows, D, tn_float_bits((uint32_t)scale));
    for (int r = 0; r < 64; r++) {
        top[r] = -tn_inf();
        sum[r] = 0.0f;
    }
    for (int64_t i = 0; i < 64 * wide; i++)
        o[i] = 0.0f;
    for (int64_t s0 = 0; s0 < last; s0 += 64) {
        const int64_t cols = S - s0 < 64 ? S - s0 : 64;
        tn_att_columns_T(block_k, D, k + b * k_b + s0 * k_t + g * k_h, k_t, cols, D);
        tn_att_rows_T(block_v, wide, v + b * v_b + s0 * v_t + g * v_h, v_t, cols, E, 1.0f);
        tn_att_product(s, 64, rows_q, D, 1, block_k, 64, 64, 64, D, 0);
        for (int64_t r = 0; hook && r < rows; r++)
            tn_hook_score(hook, s + r * 64, NULL, b, h, t0 + r, s0, cols);
        tn_att_mask(s, rows, t0, s0, S, bias ? bias + b * m_b + h * m_h : NULL, m_t, m_s, (int)causal);
        for (int64_t r = 0; r < rows; r++) {
            float *const x = s + r * 64;
            float big = top[r], most[16], part[16];
            for (int l = 0; l < 16; l++)
                most[l] = big;
            for (int c = 0; c < 64; c += 16)
                for (int l = 0; l < 16; l++)
                    most[l] = x[c + l] > most[l] ? x[c + l] : most[l];
            for (int l = 0; l < 16; l++)
                big = most[l] > big ? most[l] : big;
            const float base = big == -tn_inf() ? 0.0f : big, shrink = tn_exp_share(top[r] - base);
            for (int c = 0; c < 64; c++)
                x[c] = tn_exp_share(x[c] - base);
            for (int l = 0; l < 16; l++)
                part[l] = x[l] + x[16 + l] + x[32 + l] + x[48 + l];
            for (int w = 8; w; w /= 2)
                for (int l = 0; l < w; l++)
                    part[l] += part[l + w];
            sum[r] = sum[r] * shrink + part[0];
            top[r] = big;
            for (int64_t e = 0; e < wide; e++)
                o[r * wide + e] *= shrink;
        }
        if (key) {
            tn_att_drop(kept, key, keep, tn_float_bits((uint32_t)grow), (cell * T + t0) * S, rows, s0, S);
            for (int64_t r = 0; r < rows; r++)
                for (int64_t c = 0; c < cols; c++)
                    s[r * 64 + c] *= kept[r * 64 + c];
        }
        tn_att_product(o, wide, s, 64, 1, block_v, wide, (rows + 3) / 4 * 4, wide, 64, 1);
    }
    for (int64_t r = 0; r < rows; r++) {
        T_mem *const to = out + b * o_b + (t0 + r) * o_t + h * o_h;
        const float none = nothing && S ? tn_nan() : 0.0f, once = sum[r] > 0.0f ? 1.0f / sum[r] : none;
        for (int64_t e = 0; e < E; e++)
            to[e] = T_store(o[r * wide + e] * once);
        lse[cell * T + t0 + r] = sum[r] > 0.0f ? top[r] + tn_log(sum[r]) : tn_inf() + none;
    }
}

/*@ att_share: */
TN_FN void tn_att_share(float *restrict p, float *restrict dp, float *restrict ds, const float *kept,
                        float lse, float delta)
{
    /* a row: p = exp(score - lse), ds its gradient; what the products with dy and v take goes to p and dp */
    float share[64];
    for (int c = 0; c < 64; c++) {
        share[c] = tn_exp_share(p[c] - lse);
        const float z = kept ? kept[c] : 1.0f;
        ds[c] = share[c] * (dp[c] * z - delta);
        p[c] = share[c] * z;
    }
}

/*@ att_sum_T: */
TN_FN float tn_att_sum_T(const T_mem *y, const float *dy, int64_t E)
{
    /* sum of y dy, 16 sums side by side */
    float sum[16] = {0};
    int64_t e = 0;
    for (; e + 16 <= E; e += 16)
        for (int i = 0; i < 16; i++)
            sum[i] = fmaf(T_load(y[e + i]), dy[e + i], sum[i]);
    for (int i = 0; e + i < E; i++)
        sum[i] = fmaf(T_load(y[e + i]), dy[e + i], sum[i]);
    for (int n = 8; n; n /= 2)
        for (int i = 0; i < n; i++)
            sum[i] += sum[i + n];
    return sum[0];
}

/*@ attention_grad_T: */
TN_FN __attribute__((always_inline)) void tn_attention_grad_T(float *restrict dq, float *restrict dk, float *restrict dv, float *restrict dbias,
                               const T_mem *q, const T_mem *k, const T_mem *v, const T_mem *dy,
                               const float *lse, const T_mem *y, const float *delta, const float *bias,
                               const uint64_t *key, int64_t cell, int64_t H, int64_t G, int64_t T, int64_t S,
                               int64_t D, int64_t E, int64_t dq_b, int64_t dq_t, int64_t dq_h, int64_t dk_b,
                               int64_t dk_t, int64_t dk_h, int64_t dv_b, int64_t dv_t, int64_t dv_h,
                               int64_t q_b, int64_t q_t, int64_t q_h, int64_t k_b, int64_t k_t, int64_t k_h,
                               int64_t v_b, int64_t v_t, int64_t v_h, int64_t y_b, int64_t y_t, int64_t y_h,
                               int64_t o_b, int64_t o_t, int64_t o_h, int64_t m_b, int64_t m_h, int64_t m_t, int64_t m_s, int64_t causal,
                               int64_t scale, int64_t keep, int64_t grow, int64_t nothing, const void *hook)
{
    /* a cell is a head of k and v; all heads of q that share it, one after another */
    float rows_q[64 * 128], rows_y[64 * 128], block_k[128 * 64], rows_k[64 * 128], block_v[128 * 64];
    float sum_k[64 * 128], sum_v[64 * 128], p[64 * 64], dp[64 * 64], ds[64 * 64], kept[64 * 64];
    float slope[64 * 64]; /* the hook's */
    float deltas[4096], behind[64]; /* of the first rows; of those behind them, each time anew */
    (void)nothing;
    const int64_t b = cell / G, g = cell % G, share = H / G, wide = (D + 31) / 32 * 32, broad = (E + 31) / 32 * 32;
    const float by = tn_float_bits((uint32_t)scale);
    for (int64_t s0 = 0; s0 < S; s0 += 64) {
        const int64_t cols = S - s0 < 64 ? S - s0 : 64;
        tn_att_columns_T(block_k, D, k + b * k_b + s0 * k_t + g * k_h, k_t, cols, D);
        tn_att_rows_T(rows_k, wide, k + b * k_b + s0 * k_t + g * k_h, k_t, cols, D, by);
        tn_att_columns_T(block_v, E, v + b * v_b + s0 * v_t + g * v_h, v_t, cols, E);
        for (int64_t i = 0; i < 64 * wide; i++)
            sum_k[i] = 0.0f;
        for (int64_t i = 0; i < 64 * broad; i++)
            sum_v[i] = 0.0f;
        for (int64_t h = g * share; h < (g + 1) * share; h++) {
            const int64_t head = b * H + h;
            for (int64_t t0 = 0; t0 < T; t0 += 64) {
                const int64_t rows = T - t0 < 64 ? T - t0 : 64, full = (rows + 3) / 4 * 4;
                float *const to = dq + b * dq_b + t0 * dq_t + h * dq_h;
                if (s0 == 0)
                    for (int64_t r = 0; r < rows; r++)
                        for (int64_t d = 0; d < D; d++)
                            to[r * dq_t + d] = 0.0f;
                if (causal && t0 + rows <= s0) {
                    if (dbias)
                        for (int64_t r = 0; r < rows; r++)
                            for (int64_t c = 0; c < cols; c++)
                                dbias[(head * T + t0 + r) * S + s0 + c] = 0.0f;
                    continue;
                }
                tn_att_rows_T(rows_q, wide, q + b * q_b + t0 * q_t + h * q_h, q_t, rows, D, by);
                tn_att_rows_T(rows_y, broad, dy + b * y_b + t0 * y_t + h * y_h, y_t, rows, E, 1.0f);
                tn_att_product(p, 64, rows_q, wide, 1, block_k, 64, full, 64, D, 0);
                tn_att_product(dp, 64, rows_y, broad, 1, block_v, 64, full, 64, E, 0);
                for (int64_t r = 0; hook && r < rows; r++)
                    tn_hook_score(hook, p + r * 64, slope + r * 64, b, h, t0 + r, s0, cols);
                tn_att_mask(p, rows, t0, s0, S, bias ? bias + b * m_b + h * m_h : NULL, m_t, m_s, (int)causal);
                if (key)
                    tn_att_drop(kept, key, keep, tn_float_bits((uint32_t)grow), (head * T + t0) * S, rows, s0, S);
                const int64_t at = (h - g * share) * T + t0;
                float *const sums = at + rows <= 4096 ? deltas + at : behind;
                if (s0 == 0 || sums == behind)
                    for (int64_t r = 0; r < rows; r++)
                        sums[r] = delta ? delta[head * T + t0 + r]
                                        : tn_att_sum_T(y + b * o_b + (t0 + r) * o_t + h * o_h, rows_y + r * broad, E);
                for (int64_t r = 0; r < rows; r++)
                    tn_att_share(p + r * 64, dp + r * 64, ds + r * 64, key ? kept + r * 64 : NULL,
                                 lse[head * T + t0 + r], sums[r]);
                if (dbias)
                    for (int64_t r = 0; r < rows; r++)
                        for (int64_t c = 0; c < cols; c++)
                            dbias[(head * T + t0 + r) * S + s0 + c] = ds[r * 64 + c];
                for (int64_t r = 0; hook && r < rows; r++)
                    for (int64_t c = 0; c < cols; c++) {
                        const float d = ds[r * 64 + c], by_hook = d * slope[r * 64 + c];
                        ds[r * 64 + c] = d == 0.0f ? d : by_hook; /* what is hidden stays 0 */
                    }
                tn_att_product(sum_v, broad, p, 1, 64, rows_y, broad, 64, broad, rows, 1);
                tn_att_product(sum_k, wide, ds, 1, 64, rows_q, wide, 64, wide, rows, 1);
                tn_att_product(dp, wide < 64 ? wide : 64, ds, 64, 1, rows_k, wide, full, wide < 64 ? wide : 64, 64, 0);
                for (int64_t r = 0; r < rows; r++)
                    for (int64_t d = 0; d < (D < 64 ? D : 64); d++)
                        to[r * dq_t + d] += dp[r * (wide < 64 ? wide : 64) + d];
                if (wide > 64) {
                    tn_att_product(dp, wide - 64, ds, 64, 1, rows_k + 64, wide, full, wide - 64, 64, 0);
                    for (int64_t r = 0; r < rows; r++)
                        for (int64_t d = 64; d < D; d++)
                            to[r * dq_t + d] += dp[r * (wide - 64) + d - 64];
                }
            }
        }
        for (int64_t r = 0; r < cols; r++) {
            float *const to_k = dk + b * dk_b + (s0 + r) * dk_t + g * dk_h;
            float *const to_v = dv + b * dv_b + (s0 + r) * dv_t + g * dv_h;
            for (int64_t d = 0; d < D; d++)
                to_k[d] = sum_k[r * wide + d];
            for (int64_t e = 0; e < E; e++)
                to_v[e] = sum_v[r * broad + e];
        }
    }
}
