/* gemm_tile.h: the register-tile kernels, a text included once for each element type and processor.
 * The includer defines
 *   T, V, LANES     number, vector and its length          MR      rows of the largest tile
 *   TARGET          function attribute with the processor   NAME(x) x with type and processor
 *   LOAD STORE SET1 ZERO FMA ADD                            on vectors, unaligned
 *   KERNELS         name of the exported table
 *   TRANSPOSE(to, to_stride, from, stride)  a block of 8 x 8; or nothing
 * A tile is rows x (1 or 2 vectors) of c, held in registers while k runs. Every element of c is one
 * chain of fused multiply-adds in the order of k, whatever the tile: bits do not depend on it.
 * SPDX-License-Identifier: MIT */

#define TILE_FN static inline __attribute__((always_inline)) TARGET void

TILE_FN NAME(tile)(int rows, int vectors, int64_t k, const T *a, int64_t a_m, int64_t a_k,
                   const T *b, int64_t b_k, T *c, int64_t c_m, int add)
{
    V acc[MR][2];
    const T *row[4]; /* rows 0, 4, 8, 12: the others are one multiple of a_m away */
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        row[i] = a + (4 * i < rows ? 4 * i : 0) * a_m;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        __builtin_prefetch(c + i * c_m, 1);
        if (vectors > 1)
            __builtin_prefetch(c + i * c_m + 2 * LANES - 1, 1);
        acc[i][0] = ZERO();
        acc[i][1] = ZERO();
    }
    for (int64_t l = 0; l < k; l++) {
        const V b0 = LOAD(b), b1 = vectors > 1 ? LOAD(b + LANES) : b0;
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const V x = SET1(row[i / 4][i % 4 * a_m]);
            acc[i][0] = FMA(x, b0, acc[i][0]);
            if (vectors > 1)
                acc[i][1] = FMA(x, b1, acc[i][1]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            row[i] += a_k;
        b += b_k;
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++) {
            T *const to = c + i * c_m + j * LANES;
            STORE(to, add ? ADD(LOAD(to), acc[i][j]) : acc[i][j]);
        }
}

#define TILE(rows)                                                                                 \
    case rows:                                                                                     \
        if (p->vectors > 1)                                                                        \
            NAME(tile)(rows, 2, p->k, a, p->a_m, p->a_k, p->b, p->b_k, c, p->c_m, p->add);         \
        else                                                                                       \
            NAME(tile)(rows, 1, p->k, a, p->a_m, p->a_k, p->b, p->b_k, c, p->c_m, p->add);         \
        break;

static TARGET void NAME(panel)(const tn__gemm_panel *p)
{
    /* tiles of nearly equal height: a last one of a row or two would waste registers */
    const int64_t tiles = (p->m + MR - 1) / MR;
    for (int64_t t = 0, m = 0; t < tiles; t++) {
        const int64_t rows = (p->m - m + (tiles - t) - 1) / (tiles - t);
        const T *const a = (const T *)p->a + m * p->a_m;
        T *const c = (T *)p->c + m * p->c_m;
        switch (rows) {
            TILE(1)
            TILE(2)
            TILE(3)
            TILE(4)
#if MR > 4
            TILE(5)
            TILE(6)
#endif
#if MR > 6
            TILE(7)
            TILE(8)
            TILE(9)
            TILE(10)
            TILE(11)
            TILE(12)
            TILE(13)
            TILE(14)
#endif
        }
        m += rows;
    }
}

/* Columns first .. cols-1 one by one, and zeros behind them. */
static TARGET void NAME(pack_rest)(T *to, int64_t to_k, const T *b, int64_t b_k, int64_t b_n,
                                   int64_t k, int64_t first, int64_t cols, int64_t width)
{
    if (first == width)
        return;
    for (int64_t l = 0; l < k; l++) {
        for (int64_t n = first; n < cols; n++)
            to[l * to_k + n] = b[l * b_k + n * b_n];
        for (int64_t n = cols; n < width; n++)
            to[l * to_k + n] = 0;
    }
}

static TARGET void NAME(pack)(void *to_, int64_t to_k, const void *b_, int64_t b_k, int64_t b_n,
                              int64_t k, int64_t cols, int64_t width)
{
    T *const to = to_;
    const T *const b = b_;
    int64_t whole = 0; /* columns that vectors take */
    if (b_n == 1) {
        whole = cols / LANES * LANES;
        for (int64_t l = 0; l < k; l++)
            for (int64_t n = 0; n < whole; n += LANES)
                STORE(to + l * to_k + n, LOAD(b + l * b_k + n));
    }
#ifdef TRANSPOSE
    else if (b_k == 1) {
        const int64_t deep = k / 8 * 8;
        whole = cols / 8 * 8;
        for (int64_t l = 0; l < deep; l += 8)
            for (int64_t n = 0; n < whole; n += 8)
                TRANSPOSE(to + l * to_k + n, to_k, b + l + n * b_n, b_n);
        NAME(pack_rest)(to + deep * to_k, to_k, b + deep, 1, b_n, k - deep, 0, whole, whole);
    }
#endif
    NAME(pack_rest)(to, to_k, b, b_k, b_n, k, whole, cols, width);
}

const tn__gemm_kernels KERNELS = {
    .lanes = LANES, .mr = MR, .panel = NAME(panel), .pack = NAME(pack)};

#undef TILE
#undef TILE_FN
