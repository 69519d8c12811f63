/* scatter.cuh: scatter.h's functions for a block of threads. Each block owns a range of the places
 * and looks at all indices, a tile at a time: those that are its own go into a list, in their
 * order, and teams of lanes work the list off; one team works on any one place, so what arrives
 * there does so in the order of the indices. SPDX-License-Identifier: MIT */

/*@ cu_scatter_row_T: */
TN_FN void tn_cu_scatter_row_T(T_mem *o, const T_mem *u, int64_t R, int lane, int lanes, int kind)
{
    for (int64_t r = lane; r < R; r += lanes) {
        const T_mem x = o[r], y = u[r];
        if (kind == 0)
            o[r] = y;
        else if (kind == 1)
            o[r] = (T_mem)(x + y);
        else if (kind == 2)
            o[r] = x > y || x != x ? x : y;
        else
            o[r] = x < y || x != x ? x : y;
    }
}

/*@ cu_scatter_report: */
TN_FN void tn_cu_scatter_report(int32_t *error, int site, int64_t k, int64_t N)
{
    if (atomicCAS((int *)error, 0, site) == 0) {
        error[1] = (int32_t)k;
        error[2] = (int32_t)N;
    }
}

/*@ cu_scatter_T_I: cu_scatter_row_T cu_scatter_report */
TN_FN void tn_cu_scatter_T_I(T_mem *out, const I_mem *idx, const T_mem *upd, int64_t outer,
                             int64_t part, int64_t parts, int64_t M, int64_t N, int64_t I,
                             int64_t R, int kind, int mode, int32_t *error, int site)
{
    __shared__ int64_t place[256];
    __shared__ int32_t from[256], before[9];
    const int64_t lo = N * part / parts, hi = N * (part + 1) / parts;
    const I_mem *at = idx + outer / M * I;
    const int t = (int)threadIdx.x, warp = t / 32;
    int lanes = 1;
    while (lanes < 256 && lanes < R)
        lanes *= 2;
    const int team = t / lanes, teams = 256 / lanes, lane = t % lanes;
    out += outer * N * R;
    upd += outer * I * R;
    for (int64_t base = 0; base < I; base += 256) {
        int64_t k = base + t < I ? (int64_t)at[base + t] : -1;
        if (mode == 1 && base + t < I)
            k = k < 0 ? 0 : k >= N ? N - 1 : k;
        if (mode == 0 && part == 0 && base + t < I && (k < 0 || k >= N))
            tn_cu_scatter_report(error, site, k, N);
        const int mine = k >= lo && k < hi;
        const unsigned found = __ballot_sync(0xffffffffu, mine);
        if (t % 32 == 0)
            before[warp + 1] = __popc(found);
        __syncthreads();
        int first = 0;
        for (int w = 0; w < warp; w++)
            first += before[w + 1];
        if (mine) {
            first += __popc(found & ((1u << (t % 32)) - 1u));
            place[first] = k;
            from[first] = t;
        }
        int n = 0;
        for (int w = 0; w < 8; w++)
            n += before[w + 1];
        __syncthreads();
        for (int q = 0; q < n; q++)
            if ((int)(place[q] % teams) == team)
                tn_cu_scatter_row_T(out + place[q] * R, upd + (base + from[q]) * R, R, lane, lanes,
                                    kind);
        __syncthreads();
    }
}

/*@ cu_scatter_unique_T_I: cu_scatter_row_T cu_scatter_report */
TN_FN void tn_cu_scatter_unique_T_I(T_mem *out, const I_mem *idx, const T_mem *upd, int64_t outer,
                                    int64_t part, int64_t parts, int64_t M, int64_t N, int64_t I,
                                    int64_t R, int kind, int mode, int32_t *error, int site)
{
    const I_mem *at = idx + outer / M * I;
    int lanes = 1;
    while (lanes < 256 && lanes < R)
        lanes *= 2;
    const int t = (int)threadIdx.x;
    out += outer * N * R;
    upd += outer * I * R;
    const int64_t end = I * (part + 1) / parts;
    for (int64_t i = I * part / parts + t / lanes; i < end; i += 256 / lanes) {
        const int64_t k = (int64_t)at[i];
        if (k >= 0 && k < N)
            tn_cu_scatter_row_T(out + k * R, upd + i * R, R, t % lanes, lanes, kind);
        else if (mode == 0 && t % lanes == 0)
            tn_cu_scatter_report(error, site, k, N);
    }
}
