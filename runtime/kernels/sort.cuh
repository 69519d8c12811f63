/* sort.cuh: sort.h's functions for a block of 256 threads, a row a block. Up to 1024 elements are
 * sorted in shared memory by a bitonic network on (key, place), which makes it stable; longer rows
 * by four bits of the key a pass, tiles of 2048 elements after one another, eight neighbours a
 * thread. SPDX-License-Identifier: MIT */

/*@ cu_sort_give_T: */
TN_FN void tn_cu_sort_give_T(T_mem *out, int32_t *index, const T_mem *x, const int32_t *at,
                             int64_t row, int64_t N, int64_t K, int64_t inner)
{
    const int64_t outer = row / inner, c = row % inner;
    for (int64_t k = (int)threadIdx.x; k < K; k += 256) {
        out[(outer * K + k) * inner + c] = x[(outer * N + at[k]) * inner + c];
        index[(outer * K + k) * inner + c] = at[k];
    }
}

/*@ cu_sort_small_T: sortkey_T cu_sort_give_T */
TN_FN void tn_cu_sort_small_T(T_mem *out, int32_t *index, const T_mem *x, int64_t row, int64_t N,
                              int64_t K, int64_t inner, int descending)
{
    __shared__ T_key key[1024];
    __shared__ int32_t at[1024];
    const T_key all = (T_key) ~(T_key)0 >> (8 * sizeof(T_key) - T_bits),
                flip = descending ? all : 0;
    const int64_t from = row / inner * N * inner + row % inner;
    const int t = (int)threadIdx.x;
    int size = 2;
    while (size < N)
        size *= 2;
    for (int i = t; i < size; i += 256) { /* what is not there comes last */
        key[i] = i < N ? (T_key)(tn_sortkey_T(x[from + i * inner]) ^ flip) : all;
        at[i] = i;
    }
    __syncthreads();
    for (int run = 2; run <= size; run *= 2)
        for (int d = run / 2; d > 0; d /= 2) {
            for (int p = t; p < size / 2; p += 256) {
                const int i = p / d * 2 * d + p % d, j = i + d, up = !(i & run);
                const T_key a = key[i], b = key[j];
                const int32_t ia = at[i], ib = at[j];
                const int wrong = a > b || (a == b && ia > ib);
                if (wrong == up) {
                    key[i] = b;
                    key[j] = a;
                    at[i] = ib;
                    at[j] = ia;
                }
            }
            __syncthreads();
        }
    tn_cu_sort_give_T(out, index, x, at, row, N, K, inner);
}

/*@ cu_slot: */
TN_FN int tn_cu_slot(int i)
{
    return i + i / 16; /* sixteen neighbours a thread: each begins in another bank */
}

/*@ cu_sort_T: sortkey_T cu_sort_give_T cu_slot */
TN_FN void tn_cu_sort_T(T_mem *out, int32_t *index, void *scratch, int32_t *order, const T_mem *x,
                        int64_t row, int64_t N, int64_t K, int64_t inner, int descending)
{
    __shared__ int count[17 * 256], total[2][256];
    __shared__ int64_t base[16];
    __shared__ int begin[16];
    T_key *key = (T_key *)scratch + 2 * N * row, *next = key + N;
    int32_t *at = order + 2 * N * row, *then = at + N;
    const T_key all = (T_key) ~(T_key)0 >> (8 * sizeof(T_key) - T_bits),
                flip = descending ? all : 0;
    const int64_t from = row / inner * N * inner + row % inner;
    const int t = (int)threadIdx.x;
    for (int64_t i = t; i < N; i += 256) {
        key[i] = (T_key)(tn_sortkey_T(x[from + i * inner]) ^ flip);
        at[i] = (int32_t)i;
    }
    for (int shift = 0; shift < T_bits; shift += 4) {
        __syncthreads();
        for (int d = 0; d < 16; d++)
            count[tn_cu_slot(d * 256 + t)] = 0;
        for (int64_t i = t; i < N; i += 256)
            count[tn_cu_slot((int)((key[i] >> shift) & 15) * 256 + t)]++;
        __syncthreads();
        if (t < 16) { /* a thread adds up one digit */
            int n = 0;
            for (int j = 0; j < 256; j++)
                n += count[tn_cu_slot(t * 256 + (j + t) % 256)];
            total[0][t] = n;
        }
        __syncthreads();
        if (t < 16) {
            int64_t n = 0;
            for (int d = 0; d < t; d++)
                n += total[0][d];
            base[t] = n;
        }
        for (int64_t tile = 0; tile < N; tile += 2048) {
            const int64_t first = tile + 8 * t;
            const int mine = first >= N ? 0 : N - first < 8 ? (int)(N - first) : 8;
            __syncthreads();
            for (int d = 0; d < 16; d++)
                count[tn_cu_slot(d * 256 + t)] = 0;
            for (int q = 0; q < mine; q++)
                count[tn_cu_slot((int)((key[first + q] >> shift) & 15) * 256 + t)]++;
            __syncthreads();
            int sum = 0; /* sixteen neighbours a thread: exclusive sums by digit, then by thread */
            for (int q = 0; q < 16; q++) {
                const int n = count[tn_cu_slot(16 * t + q)];
                count[tn_cu_slot(16 * t + q)] = sum;
                sum += n;
            }
            total[0][t] = sum;
            __syncthreads();
            int now = 0;
            for (int d = 1; d < 256; d *= 2, now ^= 1) {
                total[now ^ 1][t] = total[now][t] + (t < d ? 0 : total[now][t - d]);
                __syncthreads();
            }
            const int before = t ? total[now][t - 1] : 0;
            for (int q = 0; q < 16; q++)
                count[tn_cu_slot(16 * t + q)] += before;
            __syncthreads();
            if (t < 16)
                begin[t] = count[tn_cu_slot(t * 256)];
            __syncthreads();
            for (int q = 0; q < mine; q++) { /* its own counters: one more for each that is put */
                const T_key k = key[first + q];
                const int d = (int)((k >> shift) & 15);
                const int64_t to = base[d] + count[tn_cu_slot(d * 256 + t)]++ - begin[d];
                next[to] = k;
                then[to] = at[first + q];
            }
            __syncthreads();
            if (t < 16)
                base[t] += (t == 15 ? total[now][255] : begin[t + 1]) - begin[t];
        }
        T_key *const old = key;
        int32_t *const was = at;
        key = next;
        next = old;
        at = then;
        then = was;
    }
    __syncthreads();
    tn_cu_sort_give_T(out, index, x, at, row, N, K, inner);
}
