/* sort.h: rows in order, in C; T stands for the type (see scatter.h).
 *
 * x is [outer, N, inner], out and index are [outer, K, inner]; a cell is one row. Elements are
 * compared by keys, unsigned integers in the order of the elements, NaN last; equal ones keep their
 * order, also when descending. SPDX-License-Identifier: MIT */

/*@ sortkey_f32: bits_float */
TN_FN uint32_t tn_sortkey_f32(float x)
{
    const uint32_t b = tn_bits_float(x == 0.0f ? 0.0f : x);
    return x != x ? 0xffffffffu : b & 0x80000000u ? ~b : b | 0x80000000u;
}

/*@ sortkey_f64: bits_double */
TN_FN uint64_t tn_sortkey_f64(double x)
{
    const uint64_t b = (uint64_t)tn_bits_double(x == 0.0 ? 0.0 : x);
    return x != x ? ~(uint64_t)0 : b >> 63 ? ~b : b | (uint64_t)1 << 63;
}

/*@ sortkey_bf16: */
TN_FN uint32_t tn_sortkey_bf16(uint16_t x)
{
    const uint32_t b = (x & 0x7fffu) == 0 ? 0 : x;
    return (b & 0x7fffu) > 0x7f80u ? 0xffffu : b & 0x8000u ? b ^ 0xffffu : b | 0x8000u;
}

/*@ sortkey_f16: */
TN_FN uint32_t tn_sortkey_f16(uint16_t x)
{
    const uint32_t b = (x & 0x7fffu) == 0 ? 0 : x;
    return (b & 0x7fffu) > 0x7c00u ? 0xffffu : b & 0x8000u ? b ^ 0xffffu : b | 0x8000u;
}

/*@ sortkey_i64: */
TN_FN uint64_t tn_sortkey_i64(int64_t x)
{
    return (uint64_t)x ^ (uint64_t)1 << 63;
}

/*@ sortkey_u64: */
TN_FN uint64_t tn_sortkey_u64(uint64_t x)
{
    return x;
}

/*@ sortkey_i32: */
TN_FN uint32_t tn_sortkey_i32(int32_t x)
{
    return (uint32_t)x ^ 0x80000000u;
}

/*@ sortkey_i16: */
TN_FN uint32_t tn_sortkey_i16(int16_t x)
{
    return ((uint32_t)x & 0xffffu) ^ 0x8000u;
}

/*@ sortkey_i8: */
TN_FN uint32_t tn_sortkey_i8(int8_t x)
{
    return ((uint32_t)x & 0xffu) ^ 0x80u;
}

/*@ sortkey_u8: */
TN_FN uint32_t tn_sortkey_u8(uint8_t x)
{
    return x;
}

/*@ sortkey_bool: */
TN_FN uint32_t tn_sortkey_bool(uint8_t x)
{
    return x != 0;
}

/*@ sort_small_T: sortkey_T */
TN_FN void tn_sort_small_T(T_mem *restrict out, int32_t *restrict index, const T_mem *restrict x,
                           int64_t row, int64_t N, int64_t K, int64_t inner, int descending)
{
    /* the K <= 64 first so far, in order; what is not before the last of them is passed over */
    T_key best[64];
    int32_t at[64];
    const T_key flip = descending ? (T_key) ~(T_key)0 >> (8 * sizeof(T_key) - T_bits) : 0;
    const int64_t outer = row / inner, c = row % inner, from = outer * N * inner + c;
    int64_t n = 0;
    for (int64_t i = 0; i < N && K > 0; i++) {
        const T_key key = tn_sortkey_T(x[from + i * inner]) ^ flip;
        if (n == K && key >= best[n - 1])
            continue;
        int64_t k = n < K ? n++ : n - 1;
        for (; k > 0 && key < best[k - 1]; k--) {
            best[k] = best[k - 1];
            at[k] = at[k - 1];
        }
        best[k] = key;
        at[k] = (int32_t)i;
    }
    for (int64_t k = 0; k < n; k++) {
        out[(outer * K + k) * inner + c] = x[from + at[k] * inner];
        index[(outer * K + k) * inner + c] = at[k];
    }
}

/*@ sort_T: sortkey_T */
TN_FN void tn_sort_T(T_mem *restrict out, int32_t *restrict index, void *restrict scratch,
                     int32_t *restrict order, const T_mem *restrict x, int64_t row, int64_t N,
                     int64_t K, int64_t inner, int descending)
{
    /* byte by byte from the lowest one, each pass stable; a byte that is the same everywhere costs
     * nothing. Few elements are put in one by one. */
    T_key *key = (T_key *)scratch + 2 * N * row, *next = key + N;
    int32_t *at = order + 2 * N * row, *then = at + N;
    const T_key flip = descending ? (T_key) ~(T_key)0 >> (8 * sizeof(T_key) - T_bits) : 0;
    const int64_t outer = row / inner, c = row % inner, from = outer * N * inner + c;
    for (int64_t i = 0; i < N; i++) {
        key[i] = tn_sortkey_T(x[from + i * inner]) ^ flip;
        at[i] = (int32_t)i;
    }
    for (int64_t i = 1; i < N && N <= 48; i++) {
        const T_key k = key[i];
        int64_t j = i;
        for (; j > 0 && k < key[j - 1]; j--) {
            key[j] = key[j - 1];
            at[j] = at[j - 1];
        }
        key[j] = k;
        at[j] = (int32_t)i;
    }
    for (int shift = 0; shift < T_bits && N > 48; shift += 8) {
        int64_t start[256] = {0};
        for (int64_t i = 0; i < N; i++)
            start[(key[i] >> shift) & 255]++;
        if (start[(key[0] >> shift) & 255] == N)
            continue;
        int64_t sum = 0;
        for (int d = 0; d < 256; d++) {
            const int64_t n = start[d];
            start[d] = sum;
            sum += n;
        }
        for (int64_t i = 0; i < N; i++) {
            const int64_t to = start[(key[i] >> shift) & 255]++;
            next[to] = key[i];
            then[to] = at[i];
        }
        T_key *const old = key;
        int32_t *const was = at;
        key = next;
        next = old;
        at = then;
        then = was;
    }
    for (int64_t k = 0; k < K; k++) {
        out[(outer * K + k) * inner + c] = x[from + at[k] * inner];
        index[(outer * K + k) * inner + c] = at[k];
    }
}
