/* attention.cuh: attention.h's functions for blocks of 128 threads; the arguments are the same.
 * Forward: 32 rows of q stay in shared memory while 32 keys at a time pass by; four neighbouring
 * threads share a row. Gradients, in one launch: the first blocks (attention_dkv) keep 32 keys and
 * read 16 rows of q and dy at a time, the others (attention_dq) keep 32 rows of q and dy and read 16
 * keys; no atomics.
 * SPDX-License-Identifier: MIT */

/*@ cu_att_load_T: */
TN_FN void tn_cu_att_load_T(float *to, const T_mem *from, int64_t x_t, int64_t rows, int tile, int64_t D,
                            float scale)
{
    /* rows of 129 floats, zeros where there are none */
    for (int i = (int)threadIdx.x; i < tile * (int)D; i += 128) {
        const int r = i / (int)D, d = i % (int)D;
        to[r * 129 + d] = r < rows ? T_load(from[r * x_t + d]) * scale : 0.0f;
    }
}

/*@ cu_att_put: */
TN_FN void tn_cu_att_put(float *to, const float *x, float by, int64_t D)
{
    /* a thread's elements of its row, in rows of 132 floats: four threads by eight rows are all banks */
    #pragma unroll
    for (int i = 0; i < 32; i++)
        if ((int)threadIdx.x % 4 + 4 * i < D)
            to[(int)threadIdx.x / 4 * 132 + (int)threadIdx.x % 4 + 4 * i] = x[i] * by;
}

/*@ cu_att_rows: */
template <class M>
TN_FN void tn_cu_att_rows(M *to, const float *from, int64_t x_t, int64_t rows, int64_t D)
{
    /* whole rows to memory: threads are neighbours there */
    for (int i = (int)threadIdx.x; i < 32 * (int)D; i += 128) {
        const int r = i / (int)D, d = i % (int)D;
        if (r < rows)
            to[r * x_t + d] = from[r * 132 + d];
    }
}

/*@ cu_att_dot: */
TN_FN float tn_cu_att_dot(const float *a, const float *b, int64_t n)
{
    float sum = 0.0f;
    for (int64_t d = 0; d < n; d++)
        sum = fmaf(a[d], b[d], sum);
    return sum;
}

/*@ cu_att_kept: philox */
TN_FN float tn_cu_att_kept(const uint64_t *key, int64_t keep, float grow, int64_t i)
{
    uint32_t w[4];
    if (!key)
        return 1.0f;
    tn_philox(*key, (uint64_t)i >> 2, w);
    const uint32_t lo = i & 1 ? w[1] : w[0], hi = i & 1 ? w[3] : w[2];
    return (int64_t)((i & 2 ? hi : lo) >> 8) < keep ? grow : 0.0f;
}

/*@ cu_no_hook: */
struct tn_cu_no_hook {
    __device__ __forceinline__ float operator()(float s, int64_t, int64_t, int64_t, int64_t, float *) const { return s; }
};

/*@ cu_att_seen: inf */
template <class Hook>
TN_FN float tn_cu_att_seen(float s, const float *bias, int64_t b, int64_t h, int64_t t, int64_t j, int64_t T,
                           int64_t S, int64_t m_t, int64_t m_s, int64_t causal, const Hook &hook, float *slope)
{
    *slope = 1.0f;
    if (t >= T || j >= S || (causal && j > t))
        return -tn_inf();
    s = hook(s, b, h, t, j, slope);
    return bias ? s + bias[t * m_t + j * m_s] : s;
}

/*@ cu_attention_T: */
template <class Hook>
TN_FN void tn_cu_attention_T(T_mem *out, float *lse, const T_mem *q, const T_mem *k, const T_mem *v,
                             const float *bias, const uint64_t *key, int64_t cell, int64_t block,
                             int64_t H, int64_t G, int64_t T, int64_t S, int64_t D, int64_t E,
                             int64_t o_b, int64_t o_t, int64_t o_h, int64_t q_b, int64_t q_t, int64_t q_h,
                             int64_t k_b, int64_t k_t, int64_t k_h, int64_t v_b, int64_t v_t, int64_t v_h,
                             int64_t m_b, int64_t m_h, int64_t m_t, int64_t m_s, int64_t causal,
                             int64_t scale, int64_t keep, int64_t grow,
                             int64_t nothing, const Hook &hook)
{
    __shared__ float rows_q[32 * 132], tile[32 * 129], share[32 * 36];
    const int64_t b = cell / H, h = cell % H, g = h / (H / G), t0 = 32 * block;
    const int r = (int)threadIdx.x / 4, lane = (int)threadIdx.x % 4;
    const int64_t last = causal && t0 + 32 < S ? t0 + 32 : S, t = t0 + r;
    const float *const m = bias ? bias + b * m_b + h * m_h : bias;
    float o[32], top = -tn_inf(), sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < 32; i++)
        o[i] = 0.0f;
    tn_cu_att_load_T(rows_q, q + b * q_b + t0 * q_t + h * q_h, q_t, T - t0, 32, D,
                     tn_float_bits((uint32_t)scale));
    for (int64_t s0 = 0; s0 < last; s0 += 32) {
        float s[8], slope, big = top;
        __syncthreads();
        tn_cu_att_load_T(tile, k + b * k_b + s0 * k_t + g * k_h, k_t, S - s0, 32, D, 1.0f);
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            const int c = lane + 4 * i;
            s[i] = tn_cu_att_seen(tn_cu_att_dot(rows_q + r * 129, tile + c * 129, D), m, b, h, t, s0 + c, T, S,
                                  m_t, m_s, causal, hook, &slope);
            big = s[i] > big ? s[i] : big;
        }
        for (int d = 1; d < 4; d *= 2) {
            const float other = __shfl_xor_sync(~0u, big, d);
            big = other > big ? other : big;
        }
        const float base = big == -tn_inf() ? 0.0f : big, shrink = tn_exp_share(top - base);
        float part = 0.0f;
        #pragma unroll
        for (int i = 0; i < 8; i++) {
            const int c = lane + 4 * i;
            const float p = tn_exp_share(s[i] - base);
            part += p;
            share[r * 36 + c] = p == 0.0f ? 0.0f
                                          : p * tn_cu_att_kept(key, keep, tn_float_bits((uint32_t)grow),
                                                               (cell * T + t) * S + s0 + c);
        }
        part += __shfl_xor_sync(~0u, part, 1);
        part += __shfl_xor_sync(~0u, part, 2);
        sum = sum * shrink + part;
        top = big;
        __syncthreads();
        tn_cu_att_load_T(tile, v + b * v_b + s0 * v_t + g * v_h, v_t, S - s0, 32, E, 1.0f);
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 32; i++)
            o[i] *= shrink;
        for (int c = 0; c < 32; c++) {
            const float p = share[r * 36 + c];
            #pragma unroll
            for (int i = 0; i < 32; i++)
                if (lane + 4 * i < E)
                    o[i] = fmaf(p, tile[c * 129 + lane + 4 * i], o[i]);
        }
    }
    const float none = nothing && S ? tn_nan() : 0.0f, once = sum > 0.0f ? 1.0f / sum : none;
    __syncthreads();
    tn_cu_att_put(rows_q, o, once, E);
    __syncthreads();
    for (int i = (int)threadIdx.x; i < 32 * (int)E; i += 128) {
        const int row = i / (int)E, d = i % (int)E;
        if (t0 + row < T)
            out[b * o_b + (t0 + row) * o_t + h * o_h + d] = T_store(rows_q[row * 132 + d]);
    }
    if (lane == 0 && t < T)
        lse[cell * T + t] = sum > 0.0f ? top + tn_log(sum) : tn_inf() + none;
}

/*@ cu_att_deltas_T: */
TN_FN void tn_cu_att_deltas_T(float *to, const float *dy, int rows, const T_mem *y, int64_t o_t, const float *given,
                              int64_t first, int64_t left, int64_t E)
{
    /* sums of y dy, a warp for a row; or what is given, from element `first` on */
    for (int r = (int)threadIdx.x / 32; r < rows; r += 4) {
        float sum = 0.0f;
        if (r < left && given)
            sum = threadIdx.x % 32 == 0 ? given[first + r] : 0.0f;
        else if (r < left)
            for (int e = (int)threadIdx.x % 32; e < E; e += 32)
                sum = fmaf(T_load(y[r * o_t + e]), dy[r * 129 + e], sum);
        for (int d = 16; d; d /= 2)
            sum += __shfl_xor_sync(~0u, sum, d);
        if (threadIdx.x % 32 == 0)
            to[r] = sum;
    }
}

/*@ cu_attention_dq_T: */
template <class Hook>
TN_FN void tn_cu_attention_dq_T(float *shared, float *dq, float *dbias, const T_mem *q, const T_mem *k, const T_mem *v,
                                const T_mem *dy, const float *lse, const T_mem *y, const float *delta,
                                const float *bias,
                                const uint64_t *key, int64_t cell, int64_t block, int64_t H, int64_t G,
                                int64_t T, int64_t S, int64_t D, int64_t E, int64_t dq_b, int64_t dq_t,
                                int64_t dq_h, int64_t q_b, int64_t q_t, int64_t q_h, int64_t k_b,
                                int64_t k_t, int64_t k_h, int64_t v_b, int64_t v_t, int64_t v_h,
                                int64_t y_b, int64_t y_t, int64_t y_h, int64_t o_b, int64_t o_t, int64_t o_h,
                                int64_t m_b, int64_t m_h,
                                int64_t m_t, int64_t m_s, int64_t causal, int64_t scale, int64_t keep,
                                int64_t grow, const Hook &hook)
{
    float *const rows_q = shared, *const rows_y = shared + 32 * 132, *const tile = shared + 64 * 132,
                 *const ds = tile + 16 * 129, *const deltas = ds + 32 * 20;
    const int64_t b = cell / H, h = cell % H, g = h / (H / G), t0 = 32 * block;
    const int r = (int)threadIdx.x / 4, lane = (int)threadIdx.x % 4;
    const int64_t last = causal && t0 + 32 < S ? t0 + 32 : S, t = t0 + r;
    const float *const m = bias ? bias + b * m_b + h * m_h : bias;
    const float by = tn_float_bits((uint32_t)scale);
    const float row_lse = t < T ? lse[cell * T + t] : tn_inf();
    float sum[32];
    #pragma unroll
    for (int i = 0; i < 32; i++)
        sum[i] = 0.0f;
    tn_cu_att_load_T(rows_q, q + b * q_b + t0 * q_t + h * q_h, q_t, T - t0, 32, D, by);
    tn_cu_att_load_T(rows_y, dy + b * y_b + t0 * y_t + h * y_h, y_t, T - t0, 32, E, 1.0f);
    __syncthreads();
    tn_cu_att_deltas_T(deltas, rows_y, 32, y + b * o_b + t0 * o_t + h * o_h, o_t, delta, cell * T + t0, T - t0, E);
    __syncthreads();
    const float row_delta = deltas[r];
    for (int64_t s0 = 0; s0 < last; s0 += 16) {
        float dp[4];
        __syncthreads();
        tn_cu_att_load_T(tile, v + b * v_b + s0 * v_t + g * v_h, v_t, S - s0, 16, E, 1.0f);
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 4; i++)
            dp[i] = tn_cu_att_dot(rows_y + r * 129, tile + (lane + 4 * i) * 129, E);
        __syncthreads();
        tn_cu_att_load_T(tile, k + b * k_b + s0 * k_t + g * k_h, k_t, S - s0, 16, D, 1.0f);
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 4; i++) {
            const int c = lane + 4 * i;
            const int64_t j = s0 + c, at = (cell * T + t) * S + j;
            float slope;
            const float s = tn_cu_att_seen(tn_cu_att_dot(rows_q + r * 129, tile + c * 129, D), m, b, h, t, j, T,
                                           S, m_t, m_s, causal, hook, &slope);
            const float p = tn_exp_share(s - row_lse);
            const float z = p == 0.0f ? 1.0f : tn_cu_att_kept(key, keep, tn_float_bits((uint32_t)grow), at);
            const float d = p * (dp[i] * z - row_delta);
            ds[r * 20 + c] = d == 0.0f ? d : d * slope; /* what is hidden stays 0 */
            if (dbias && t < T && j < S)
                dbias[at] = d;
        }
        __syncwarp();
        for (int c = 0; c < 16; c++) {
            const float d = ds[r * 20 + c];
            #pragma unroll
            for (int i = 0; i < 32; i++)
                if (lane + 4 * i < D)
                    sum[i] = fmaf(d, tile[c * 129 + lane + 4 * i], sum[i]);
        }
    }
    if (dbias && t < T)
        for (int64_t j = (last + 15) / 16 * 16 + lane; j < S; j += 4)
            dbias[(cell * T + t) * S + j] = 0.0f;
    __syncthreads();
    tn_cu_att_put(rows_q, sum, by, D);
    __syncthreads();
    tn_cu_att_rows(dq + b * dq_b + t0 * dq_t + h * dq_h, rows_q, dq_t, T - t0, D);
}

/*@ cu_attention_dkv_T: */
template <class Hook>
TN_FN void tn_cu_attention_dkv_T(float *shared, float *dk, float *dv, const T_mem *q, const T_mem *k, const T_mem *v,
                                 const T_mem *dy, const float *lse, const T_mem *y, const float *delta,
                                const float *bias,
                                 const uint64_t *key, int64_t cell, int64_t block, int64_t H, int64_t G,
                                 int64_t T, int64_t S, int64_t D, int64_t E, int64_t dk_b, int64_t dk_t,
                                 int64_t dk_h, int64_t dv_b, int64_t dv_t, int64_t dv_h, int64_t q_b,
                                 int64_t q_t, int64_t q_h, int64_t k_b, int64_t k_t, int64_t k_h,
                                 int64_t v_b, int64_t v_t, int64_t v_h, int64_t y_b, int64_t y_t,
                                 int64_t y_h, int64_t o_b, int64_t o_t, int64_t o_h, int64_t m_b, int64_t m_h,
                                 int64_t m_t, int64_t m_s,
                                 int64_t causal, int64_t scale, int64_t keep, int64_t grow, const Hook &hook)
{
    float *const rows_k = shared, *const rows_v = shared + 32 * 132, *const tile = shared + 64 * 132,
                 *const w = tile + 16 * 129, *const deltas = w + 32 * 20;
    const int64_t b = cell / G, g = cell % G, each = H / G, s0 = 32 * block;
    const int r = (int)threadIdx.x / 4, lane = (int)threadIdx.x % 4;
    const int64_t j = s0 + r, first = causal ? s0 / 16 * 16 : 0;
    const float by = tn_float_bits((uint32_t)scale);
    float sum_k[32], sum_v[32];
    #pragma unroll
    for (int i = 0; i < 32; i++) {
        sum_k[i] = 0.0f;
        sum_v[i] = 0.0f;
    }
    tn_cu_att_load_T(rows_k, k + b * k_b + s0 * k_t + g * k_h, k_t, S - s0, 32, D, 1.0f);
    tn_cu_att_load_T(rows_v, v + b * v_b + s0 * v_t + g * v_h, v_t, S - s0, 32, E, 1.0f);
    for (int64_t h = g * each; h < (g + 1) * each; h++) {
        const float *const m = bias ? bias + b * m_b + h * m_h : bias;
        for (int64_t t0 = first; t0 < T; t0 += 16) {
            const T_mem *const from_q = q + b * q_b + t0 * q_t + h * q_h;
            float p[4], z[4], d[4], slope[4];
            __syncthreads();
            tn_cu_att_load_T(tile, from_q, q_t, T - t0, 16, D, by);
            __syncthreads();
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                const int c = lane + 4 * i;
                const int64_t t = t0 + c, row = (b * H + h) * T + t;
                const float s = tn_cu_att_seen(tn_cu_att_dot(rows_k + r * 129, tile + c * 129, D), m, b, h, t, j,
                                               T, S, m_t, m_s, causal, hook, &slope[i]);
                p[i] = t < T ? tn_exp_share(s - lse[row]) : 0.0f;
                z[i] = p[i] == 0.0f ? 1.0f
                                    : tn_cu_att_kept(key, keep, tn_float_bits((uint32_t)grow), row * S + j);
                w[r * 20 + c] = p[i] * z[i];
            }
            __syncthreads();
            tn_cu_att_load_T(tile, dy + b * y_b + t0 * y_t + h * y_h, y_t, T - t0, 16, E, 1.0f);
            __syncthreads();
            tn_cu_att_deltas_T(deltas, tile, 16, y + b * o_b + t0 * o_t + h * o_h, o_t, delta, (b * H + h) * T + t0,
                               T - t0, E);
            __syncthreads();
            #pragma unroll
            for (int i = 0; i < 4; i++) {
                const float dp = tn_cu_att_dot(rows_v + r * 129, tile + (lane + 4 * i) * 129, E);
                d[i] = p[i] * (dp * z[i] - deltas[lane + 4 * i]);
            }
            for (int c = 0; c < 16; c++) {
                const float x = w[r * 20 + c];
                #pragma unroll
                for (int i = 0; i < 32; i++)
                    if (lane + 4 * i < E)
                        sum_v[i] = fmaf(x, tile[c * 129 + lane + 4 * i], sum_v[i]);
            }
            __syncthreads();
            #pragma unroll
            for (int i = 0; i < 4; i++)
                w[r * 20 + lane + 4 * i] = d[i] == 0.0f ? d[i] : d[i] * slope[i];
            tn_cu_att_load_T(tile, from_q, q_t, T - t0, 16, D, by);
            __syncthreads();
            for (int c = 0; c < 16; c++) {
                const float x = w[r * 20 + c];
                #pragma unroll
                for (int i = 0; i < 32; i++)
                    if (lane + 4 * i < D)
                        sum_k[i] = fmaf(x, tile[c * 129 + lane + 4 * i], sum_k[i]);
            }
        }
    }
    __syncthreads();
    tn_cu_att_put(rows_k, sum_k, 1.0f, D);
    tn_cu_att_put(rows_v, sum_v, 1.0f, E);
    __syncthreads();
    tn_cu_att_rows(dk + b * dk_b + s0 * dk_t + g * dk_h, rows_k, dk_t, S - s0, D);
    tn_cu_att_rows(dv + b * dv_b + s0 * dv_t + g * dv_h, rows_v, dv_t, S - s0, E);
}

/*@ cu_attention_grad_T: */
template <class Hook>
TN_FN void tn_cu_attention_grad_T(float *dq, float *dk, float *dv, float *dbias, const T_mem *q, const T_mem *k,
                                  const T_mem *v, const T_mem *dy, const float *lse, const T_mem *y, const float *delta,
                                  const float *bias, const uint64_t *key, int64_t block, int64_t H, int64_t G,
                                  int64_t T, int64_t S, int64_t D, int64_t E, int64_t dq_b, int64_t dq_t,
                                  int64_t dq_h, int64_t dk_b, int64_t dk_t, int64_t dk_h, int64_t dv_b,
                                  int64_t dv_t, int64_t dv_h, int64_t q_b, int64_t q_t, int64_t q_h,
                                  int64_t k_b, int64_t k_t, int64_t k_h, int64_t v_b, int64_t v_t,
                                  int64_t v_h, int64_t y_b, int64_t y_t, int64_t y_h, int64_t o_b, int64_t o_t,
                                  int64_t o_h, int64_t m_b,
                                  int64_t m_h, int64_t m_t, int64_t m_s, int64_t causal, int64_t scale,
                                  int64_t keep, int64_t grow, int64_t nothing, int64_t keys, const Hook &hook)
{
    /* `keys` blocks have keys, the others rows */
    (void)nothing; /* lse says it */
    __shared__ float shared[64 * 132 + 16 * 129 + 32 * 20 + 32];
    const int64_t each_k = (S + 31) / 32, each_q = (T + 31) / 32, rest = block - keys;
    if (rest < 0)
        tn_cu_attention_dkv_T(shared, dk, dv, q, k, v, dy, lse, y, delta, bias, key, block / each_k, block % each_k,
                              H, G, T, S, D, E, dk_b, dk_t, dk_h, dv_b, dv_t, dv_h, q_b, q_t, q_h, k_b, k_t, k_h,
                              v_b, v_t, v_h, y_b, y_t, y_h, o_b, o_t, o_h, m_b, m_h, m_t, m_s, causal, scale, keep,
                              grow,
                              hook);
    else
        tn_cu_attention_dq_T(shared, dq, dbias, q, k, v, dy, lse, y, delta, bias, key, rest / each_q, rest % each_q,
                             H, G, T, S, D, E, dq_b, dq_t, dq_h, q_b, q_t, q_h, k_b, k_t, k_h, v_b, v_t, v_h, y_b,
                             y_t, y_h, o_b, o_t, o_h, m_b, m_h, m_t, m_s, causal, scale, keep, grow, hook);
}
