/* cumulate.cuh: cumulate.h's functions for a block of 256 threads. Where the axis is not the last
 * one a lane goes along it by itself, and neighbours read neighbours: a strip is 256 of the `lines`
 * (outer, inner). Along the last axis (lines 0) the block works on one line, in tiles of 1024
 * elements: four a thread, then the threads' totals by doubling steps, always in the same order.
 * SPDX-License-Identifier: MIT */

/*@ cu_cumulate_T: */
TN_FN void tn_cu_cumulate_T(T_mem *out, const T_mem *x, int64_t outer, int64_t strip, int64_t N,
                            int64_t inner, int64_t lines, int kind, int mode)
{
    const int t = (int)threadIdx.x;
    if (lines) {
        const int64_t q = 256 * strip + t, first = q / inner * N * inner + q % inner;
        if (q >= lines)
            return;
        T_val acc = (T_val)(kind == 1 ? 1 : 0);
        for (int64_t i = 0; i < N; i++) {
            const int64_t at = first + (mode & 1 ? N - 1 - i : i) * inner;
            const T_val v = (T_val)T_load(x[at]), y = (T_val)(kind == 1 ? acc * v : acc + v);
            out[at] = (T_mem)T_store(mode & 2 ? acc : y);
            acc = y;
        }
        return;
    }
    __shared__ T_val total[2][256];
    T_val carry = (T_val)(kind == 1 ? 1 : 0);
    for (int64_t base = 0; base < N; base += 1024) {
        T_val v[4];
        for (int q = 0; q < 4; q++) {
            const int64_t i = base + 4 * t + q;
            const int64_t at = outer * N + (mode & 1 ? N - 1 - i : i);
            v[q] = i < N ? (T_val)T_load(x[at]) : (T_val)(kind == 1 ? 1 : 0);
            if (q)
                v[q] = (T_val)(kind == 1 ? v[q - 1] * v[q] : v[q - 1] + v[q]);
        }
        total[0][t] = v[3];
        __syncthreads();
        int now = 0;
        for (int d = 1; d < 256; d *= 2, now ^= 1) {
            const T_val y = total[now][t];
            total[now ^ 1][t] =
                t < d ? y : (T_val)(kind == 1 ? total[now][t - d] * y : total[now][t - d] + y);
            __syncthreads();
        }
        T_val before = carry;
        if (t)
            before = (T_val)(kind == 1 ? carry * total[now][t - 1] : carry + total[now][t - 1]);
        for (int q = 0; q < 4; q++) {
            const int64_t i = base + 4 * t + q;
            const T_val y = (T_val)(kind == 1 ? before * v[q] : before + v[q]);
            const T_val old =
                q ? (T_val)(kind == 1 ? before * v[q - 1] : before + v[q - 1]) : before;
            if (i < N)
                out[outer * N + (mode & 1 ? N - 1 - i : i)] = (T_mem)T_store(mode & 2 ? old : y);
        }
        carry = (T_val)(kind == 1 ? carry * total[now][255] : carry + total[now][255]);
        __syncthreads();
    }
}

/*@ cu_linear_T: */
TN_FN void tn_cu_linear_T(T_mem *out, const T_mem *a, const T_mem *b, const T_mem *init,
                          int64_t outer, int64_t strip, int64_t N, int64_t inner, int64_t lines,
                          int mode)
{
    const int t = (int)threadIdx.x;
    const int64_t full = mode >> 2 & 1;
    if (lines) {
        const int64_t q = 256 * strip + t, first = q / inner * N * inner + q % inner;
        const int64_t to = q / inner * (N + full) * inner + q % inner;
        if (q >= lines)
            return;
        T_val acc = (T_val)T_load(init[q]), factor = (T_val)0;
        if (full)
            out[to + (mode & 1 ? N * inner : 0)] = init[q];
        for (int64_t i = 0; i < N; i++) {
            const int64_t p = mode & 1 ? N - 1 - i : i, at = first + p * inner;
            const T_val own = (T_val)T_load(a[at]), x = (T_val)T_load(b[at]);
            const T_val y = (mode & 8) == 0 ? own * acc + x : i ? factor * acc + x : x;
            out[to + (p + (mode & 1 ? 0 : full)) * inner] = (T_mem)T_store(mode & 2 ? acc : y);
            acc = y;
            factor = own;
        }
        return;
    }
    /* the steps y -> p * y + s of four elements, then of all before a thread, put together */
    __shared__ T_val factor[2][256], offset[2][256];
    T_val carry = (T_val)T_load(init[outer]);
    const int64_t to = outer * (N + full);
    if (full && t == 0)
        out[to + (mode & 1 ? N : 0)] = init[outer];
    for (int64_t base = 0; base < N; base += 1024) {
        T_val p[4], s[4];
        for (int q = 0; q < 4; q++) {
            const int64_t i = base + 4 * t + q;
            const int64_t at = outer * N + (mode & 1 ? N - 1 - i : i);
            const int64_t by = mode & 8 ? at + (mode & 1 ? 1 : -1) : at;
            const int there = i < N, first = mode & 8 && i == 0;
            const T_val f = first ? (T_val)0 : there ? (T_val)T_load(a[by]) : (T_val)1;
            const T_val g = there ? (T_val)T_load(b[at]) : (T_val)0;
            p[q] = q ? f * p[q - 1] : f;
            s[q] = q ? f * s[q - 1] + g : g;
        }
        factor[0][t] = p[3];
        offset[0][t] = s[3];
        __syncthreads();
        int now = 0;
        for (int d = 1; d < 256; d *= 2, now ^= 1) {
            const T_val f = factor[now][t], g = offset[now][t];
            factor[now ^ 1][t] = t < d ? f : f * factor[now][t - d];
            offset[now ^ 1][t] = t < d ? g : f * offset[now][t - d] + g;
            __syncthreads();
        }
        const T_val before = t ? factor[now][t - 1] * carry + offset[now][t - 1] : carry;
        for (int q = 0; q < 4; q++) {
            const int64_t i = base + 4 * t + q;
            const T_val y = p[q] * before + s[q], old = q ? p[q - 1] * before + s[q - 1] : before;
            if (i < N)
                out[to + (mode & 1 ? N - 1 - i : i + full)] = (T_mem)T_store(mode & 2 ? old : y);
        }
        carry = factor[now][255] * carry + offset[now][255];
        __syncthreads();
    }
}

/*@ cu_extreme_T: */
TN_FN void tn_cu_extreme_T(T_mem *out, int32_t *index, const T_mem *x, int64_t outer, int64_t strip,
                           int64_t N, int64_t inner, int64_t lines, int max, int mode)
{
    const int64_t q = 256 * strip + (int)threadIdx.x, first = q / inner * N * inner + q % inner;
    if (q >= lines)
        return;
    T_val acc = (T_val)0;
    int32_t best = 0;
    for (int64_t t = 0; t < N; t++) {
        const int64_t i = mode & 1 ? N - 1 - t : t, at = first + i * inner;
        const T_val v = (T_val)T_load(x[at]);
        const int takes = t == 0 || v != v || (acc == acc && (max ? v >= acc : v <= acc));
        acc = takes ? v : acc;
        best = takes ? (int32_t)i : best;
        out[at] = (T_mem)T_store(acc);
        index[at] = best;
    }
}
