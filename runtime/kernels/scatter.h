/* scatter.h: updates to chosen places of an array, in C; the form is that of math.h, and T, I stand
 * for the types of elements and indices (codegen/paste.c).
 *
 * out[b, m, idx[b, i], r] (op)= upd[b, m, i, r]: outer = b * M + m. Each part owns a range of the N
 * places and looks at all I indices, so that what arrives at one place does so in the order of i,
 * however many threads work: the same bits, without atomics.
 * kind: 0 the last one stays, 1 added, 2 larger one, 3 smaller one (NaN wins).
 * mode: an index out of range is 0 reported, 1 clamped, 2 left out.
 * SPDX-License-Identifier: MIT */

/*@ scatter_row_T: */
TN_FN void tn_scatter_row_T(T_mem *restrict o, const T_mem *restrict u, int64_t R, int kind)
{
    if (kind == 0)
        for (int64_t r = 0; r < R; r++)
            o[r] = u[r];
    else if (kind == 1)
        for (int64_t r = 0; r < R; r++)
            o[r] = (T_mem)(o[r] + u[r]);
    else if (kind == 2)
        for (int64_t r = 0; r < R; r++)
            o[r] = o[r] > u[r] || o[r] != o[r] ? o[r] : u[r];
    else
        for (int64_t r = 0; r < R; r++)
            o[r] = o[r] < u[r] || o[r] != o[r] ? o[r] : u[r];
}

/*@ scatter_T_I: scatter_row_T */
TN_FN void tn_scatter_T_I(T_mem *restrict out, const I_mem *restrict idx, const T_mem *restrict upd,
                          int64_t outer, int64_t part, int64_t parts, int64_t M, int64_t N,
                          int64_t I, int64_t R, int kind, int mode, int32_t *error, int site)
{
    const int64_t lo = N * part / parts, hi = N * (part + 1) / parts;
    const I_mem *at = idx + outer / M * I;
    out += outer * N * R;
    upd += outer * I * R;
    for (int64_t i = 0; i < I; i++) {
        int64_t k = (int64_t)at[i];
        if (mode == 1)
            k = k < 0 ? 0 : k >= N ? N - 1 : k;
        if (k < lo || k >= hi) {
            if (mode == 0 && part == 0 && (k < 0 || k >= N)) {
                error[0] = site;
                error[1] = (int32_t)k;
                error[2] = (int32_t)N;
            }
            continue;
        }
        tn_scatter_row_T(out + k * R, upd + i * R, R, kind);
    }
}

/*@ scatter_unique_T_I: scatter_row_T */
TN_FN void tn_scatter_unique_T_I(T_mem *restrict out, const I_mem *restrict idx,
                                 const T_mem *restrict upd, int64_t outer, int64_t part,
                                 int64_t parts, int64_t M, int64_t N, int64_t I, int64_t R,
                                 int kind, int mode, int32_t *error, int site)
{
    /* no place comes twice: parts are ranges of the indices */
    const I_mem *at = idx + outer / M * I;
    out += outer * N * R;
    upd += outer * I * R;
    for (int64_t i = I * part / parts; i < I * (part + 1) / parts; i++) {
        const int64_t k = (int64_t)at[i];
        if (k < 0 || k >= N) {
            if (mode == 0) {
                error[0] = site;
                error[1] = (int32_t)k;
                error[2] = (int32_t)N;
            }
            continue;
        }
        tn_scatter_row_T(out + k * R, upd + i * R, R, kind);
    }
}
