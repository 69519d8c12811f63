/* cumulate.h: prefix reductions and linear recurrences, in C; T stands for the type (see
 * scatter.h).
 *
 * x is [outer, N, inner]: a cell is one outer index and a strip of up to 64 inner ones, whose
 * accumulators go along the axis side by side. mode: 1 from the end, 2 exclusive. lines: on a GPU.
 * SPDX-License-Identifier: MIT */

/*@ cumulate_T: */
TN_FN void tn_cumulate_T(T_mem *restrict out, const T_mem *restrict x, int64_t outer, int64_t strip,
                         int64_t N, int64_t inner, int64_t lines, int kind, int mode)
{
    const int64_t lo = 64 * strip, n = inner - lo < 64 ? inner - lo : 64,
                  start = outer * N * inner + lo;
    T_val acc[64];
    for (int64_t c = 0; c < n; c++)
        acc[c] = (T_val)(kind == 1 ? 1 : 0);
    for (int64_t t = 0; t < N; t++) {
        const int64_t at = start + (mode & 1 ? N - 1 - t : t) * inner;
        for (int64_t c = 0; c < n; c++) {
            const T_val v = (T_val)T_load(x[at + c]);
            const T_val y = (T_val)(kind == 1 ? acc[c] * v : acc[c] + v);
            out[at + c] = (T_mem)T_store(mode & 2 ? acc[c] : y);
            acc[c] = y;
        }
    }
}

/*@ linear_T: */
TN_FN void tn_linear_T(T_mem *restrict out, const T_mem *restrict a, const T_mem *restrict b,
                       const T_mem *restrict init, int64_t outer, int64_t strip, int64_t N,
                       int64_t inner, int64_t lines, int mode)
{
    /* mode + 4: init is an element of the result; + 8: each step takes the factor before its own */
    const int64_t lo = 64 * strip, n = inner - lo < 64 ? inner - lo : 64,
                  start = outer * N * inner + lo;
    const int64_t full = mode >> 2 & 1, to = outer * (N + full) * inner + lo;
    T_val acc[64];
    for (int64_t c = 0; c < n; c++)
        acc[c] = (T_val)T_load(init[outer * inner + lo + c]);
    for (int64_t c = 0; c < n && full; c++)
        out[to + (mode & 1 ? N * inner : 0) + c] = init[outer * inner + lo + c];
    for (int64_t t = 0; t < N; t++) {
        const int64_t i = mode & 1 ? N - 1 - t : t, at = start + i * inner;
        const int64_t by = mode & 8 ? at + (mode & 1 ? inner : -inner) : at;
        const int64_t y_at = to + (i + (mode & 1 ? 0 : full)) * inner;
        if (mode & 8 && t == 0) {
            for (int64_t c = 0; c < n; c++) {
                acc[c] = (T_val)T_load(b[at + c]);
                out[y_at + c] = b[at + c];
            }
            continue;
        }
        for (int64_t c = 0; c < n; c++) {
            const T_val y = (T_val)T_load(a[by + c]) * acc[c] + (T_val)T_load(b[at + c]);
            out[y_at + c] = (T_mem)T_store(mode & 2 ? acc[c] : y);
            acc[c] = y;
        }
    }
}

/*@ extreme_T: */
TN_FN void tn_extreme_T(T_mem *restrict out, int32_t *restrict index, const T_mem *restrict x,
                        int64_t outer, int64_t strip, int64_t N, int64_t inner, int64_t lines,
                        int max, int mode)
{
    /* of equal ones the latest, as torch does; NaN stays */
    const int64_t lo = 64 * strip, n = inner - lo < 64 ? inner - lo : 64,
                  start = outer * N * inner + lo;
    T_val acc[64];
    int32_t best[64];
    for (int64_t t = 0; t < N; t++) {
        const int64_t i = mode & 1 ? N - 1 - t : t, at = start + i * inner;
        for (int64_t c = 0; c < n; c++) {
            const T_val v = (T_val)T_load(x[at + c]);
            const int takes =
                t == 0 || v != v || (acc[c] == acc[c] && (max ? v >= acc[c] : v <= acc[c]));
            acc[c] = takes ? v : acc[c];
            best[c] = takes ? (int32_t)i : best[c];
            out[at + c] = (T_mem)T_store(acc[c]);
            index[at + c] = best[c];
        }
    }
}
