/* gemm_tile.h: the register-tile kernels, a text included once for each element type and processor.
 * The includer defines
 *   T, V, LANES     number, vector and its length          MR      rows of the largest tile
 *   TARGET          function attribute with the processor   NAME(x) x with type and processor
 *   LOAD STORE SET1 ZERO FMA ADD                            on vectors, unaligned
 *   KERNELS         name of the exported table
 *   WIDE            columns of a panel of one or two rows at most; or nothing, and no tiles but the
 *                   plain ones: neither those that copy b nor dots of three rows
 *   WIDEN_F16(from) WIDEN_BF16(from)        a vector of f32 of 16-bit numbers; or nothing
 *   TRANSPOSE(to, to_stride, from, stride)  a block of 8 x 8; or nothing
 *   TRANSPOSE_16                            the same of 16 x 16; or nothing
 * A tile is rows x (1 or 2 vectors) of c, held in registers while k runs. Every element of c is one
 * chain of fused multiply-adds in the order of k, whatever the tile: bits do not depend on it.
 * SPDX-License-Identifier: MIT */

#define TILE_FN static inline __attribute__((always_inline)) TARGET void

/* copying: rows of b are written to p->copy as they are met. */
TILE_FN NAME(tile)(int rows, int vectors, int copying, const tn__gemm_panel *p, const T *a, T *c)
{
    V acc[MR][2];
    const int64_t a_m = p->a_m, a_k = p->a_k, c_m = p->c_m;
    const T *b = p->b;
    T *copy = p->copy;
    const int64_t b_k = p->b_k;
    const T *row[4]; /* rows 0, 4, 8, 12: the others are one multiple of a_m away */
    const T *next = c;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        row[i] = a + (4 * i < rows ? 4 * i : 0) * a_m;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        acc[i][0] = ZERO();
        acc[i][1] = ZERO();
    }
    /* c is fetched row by row while k runs: all of it at once would hold up a and b */
    const int64_t part = p->k / rows + 1;
    for (int64_t left = p->k, n; left > 0; left -= n) {
        n = left < part ? left : part;
        __builtin_prefetch(next, 1);
        if (vectors > 1)
            __builtin_prefetch(next + 2 * LANES - 1, 1);
        next += c_m;
        for (int64_t l = 0; l < n; l++) {
            const V b0 = LOAD(b), b1 = vectors > 1 ? LOAD(b + LANES) : b0;
            if (copying) {
                STORE(copy, b0);
                STORE(copy + LANES, b1);
                copy += 2 * LANES;
            }
            __builtin_prefetch(b + 16 * b_k);
            if (vectors > 1)
                __builtin_prefetch(b + 16 * b_k + LANES);
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
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < vectors; j++) {
            T *const to = c + i * c_m + j * LANES;
            STORE(to, p->add ? ADD(LOAD(to), acc[i][j]) : acc[i][j]);
        }
}

#ifdef WIDE
/* sums[i][0 .. n) += the products of `deep` rows of b. */
TILE_FN NAME(few_steps)(int rows, int deep, int64_t n, const T *a, int64_t a_m, int64_t a_k,
                        const T *b, int64_t b_k, T (*sums)[WIDE])
{
    V x[2][8];
#pragma GCC unroll 2
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (int l = 0; l < deep; l++)
            x[i][l] = SET1(a[i * a_m + l * a_k]);
    for (int64_t j = 0; j < n; j += LANES) {
        V s[2];
#pragma GCC unroll 2
        for (int i = 0; i < rows; i++)
            s[i] = LOAD(sums[i] + j);
#pragma GCC unroll 8
        for (int l = 0; l < deep; l++) {
            const V y = LOAD(b + l * b_k + j);
#pragma GCC unroll 2
            for (int i = 0; i < rows; i++)
                s[i] = FMA(x[i][l], y, s[i]);
        }
#pragma GCC unroll 2
        for (int i = 0; i < rows; i++)
            STORE(sums[i] + j, s[i]);
    }
}

/* Few rows, and a b that is read where it lies, as it lies: it is memory that decides here. */
TILE_FN NAME(few_rows)(int rows, int deep, const tn__gemm_panel *p)
{
    _Alignas(64) T sums[2][WIDE];
    const int64_t n = (int64_t)p->vectors * LANES;
    const T *a = p->a, *b = p->b;
    for (int i = 0; i < rows; i++)
        memset(sums[i], 0, (size_t)n * sizeof(T));
    int64_t l = 0;
    for (; l + deep <= p->k; l += deep)
        NAME(few_steps)
    (rows, deep, n, a + l * p->a_k, p->a_m, p->a_k, b + l * p->b_k, p->b_k, sums);
    for (; l < p->k; l++)
        NAME(few_steps)(rows, 1, n, a + l * p->a_k, p->a_m, p->a_k, b + l * p->b_k, p->b_k, sums);
    for (int i = 0; i < rows; i++) {
        T *const c = (T *)p->c + i * p->c_m;
        for (int64_t j = 0; j < n; j += LANES)
            STORE(c + j, p->add ? ADD(LOAD(c + j), LOAD(sums[i] + j)) : LOAD(sums[i] + j));
    }
}
#define WIDTHS .wide = WIDE / LANES, .copies = 1,
#define COPIES 1
#else
#define WIDTHS
#define COPIES 0
#endif

#define TILE(rows)                                                                                 \
    case rows:                                                                                     \
        if (COPIES && rows == MR && p->copy)                                                       \
            NAME(tile)(rows, 2, 1, p, a, c);                                                       \
        else if (p->vectors > 1)                                                                   \
            NAME(tile)(rows, 2, 0, p, a, c);                                                       \
        else                                                                                       \
            NAME(tile)(rows, 1, 0, p, a, c);                                                       \
        break;

static TARGET void NAME(panel)(const tn__gemm_panel *p)
{
#ifdef WIDE
    if (p->vectors > 2) {
        if (p->m == 1)
            NAME(few_rows)(1, 8, p);
        else
            NAME(few_rows)(2, 4, p);
        return;
    }
#endif
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
#endif
#if MR > 8
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
        int64_t l = 0;
        whole = cols / 8 * 8;
#ifdef TRANSPOSE_16
        if (cols % 16 == 0)
            for (; l + 16 <= k; l += 16)
                for (int64_t n = 0; n < cols; n += 16)
                    TRANSPOSE_16(to + l * to_k + n, to_k, b + l + n * b_n, b_n);
#endif
        for (; l < deep; l += 8)
            for (int64_t n = 0; n < whole; n += 8)
                TRANSPOSE(to + l * to_k + n, to_k, b + l + n * b_n, b_n);
        NAME(pack_rest)(to + deep * to_k, to_k, b + deep, 1, b_n, k - deep, 0, whole, whole);
    }
#endif
    NAME(pack_rest)(to, to_k, b, b_k, b_n, k, whole, cols, width);
}

/* --- sums along k -------------------------------------------------------------------------------
 * Where k runs along the memory of both operands and there are few rows, vectors lie along k.
 * Element l of a sum goes to lane l % DOT_LANES; the lanes are joined in halves. */

/* 64 bytes of numbers on every processor: the bits are the same. */
#define DOT_LANES   ((int)(64 / sizeof(T)))
#define DOT_VECTORS (DOT_LANES / LANES)

/* Not a part of every tile: it would be most of their code. */
static __attribute__((noinline)) TARGET T NAME(join)(T *x)
{
    for (int w = DOT_LANES / 2; w; w /= 2)
        for (int i = 0; i < w; i++)
            x[i] += x[i + w];
    return x[0];
}

typedef T NAME(Four) __attribute__((vector_size(4 * sizeof(T)), aligned(sizeof(T))));

/* The same for four sums at once. */
static __attribute__((noinline)) TARGET void NAME(join_four)(T (*lanes)[DOT_LANES], T *sums)
{
    NAME(Four) x[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const NAME(Four) *const l = (const void *)lanes[i];
        x[i] = DOT_LANES == 16 ? (l[0] + l[2 % (DOT_LANES / 4)]) + (l[1] + l[3 % (DOT_LANES / 4)])
                               : l[0] + l[1];
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        sums[i] = (x[i][0] + x[i][2]) + (x[i][1] + x[i][3]);
}

TILE_FN NAME(dot_steps)(int rows, int cols, int64_t steps, const T *a, int64_t a_m, const T *b,
                        int64_t b_n, int ahead, V (*restrict acc)[4][DOT_VECTORS])
{
    for (int64_t l = 0; l < steps; l++) {
#pragma GCC unroll 4
        for (int v = 0; v < DOT_VECTORS; v++) {
            V y[4];
#pragma GCC unroll 4
            for (int j = 0; j < cols; j++) {
                y[j] = LOAD(b + j * b_n + v * LANES);
                __builtin_prefetch(b + j * b_n + v * LANES + ahead);
            }
#pragma GCC unroll 4
            for (int i = 0; i < rows; i++) {
                const V x = LOAD(a + i * a_m + v * LANES);
#pragma GCC unroll 4
                for (int j = 0; j < cols; j++)
                    acc[i][j][v] = FMA(x, y[j], acc[i][j][v]);
            }
        }
        a += DOT_LANES;
        b += DOT_LANES;
    }
}

TILE_FN NAME(dot_tile)(int rows, int cols, const tn__gemm_dots *p, const T *a, const T *b, T *c)
{
    V acc[4][4][DOT_VECTORS];
    _Alignas(64) T rest[8][DOT_LANES]; /* of a and of b, when k ends inside a step */
    const int64_t left = p->k % DOT_LANES;
    int64_t steps = p->k / DOT_LANES, a_m = p->a_m, b_n = p->b_n;
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < cols; j++)
#pragma GCC unroll 4
            for (int v = 0; v < DOT_VECTORS; v++)
                acc[i][j][v] = ZERO();
    if (left) {
        memset(rest, 0, sizeof rest);
        for (int i = 0; i < rows; i++)
            memcpy(rest[i], a + i * a_m + steps * DOT_LANES, (size_t)left * sizeof(T));
        for (int j = 0; j < cols; j++)
            memcpy(rest[4 + j], b + j * b_n + steps * DOT_LANES, (size_t)left * sizeof(T));
    }
    for (int part = 0; part < 1 + (left > 0); part++) {
        NAME(dot_steps)(rows, cols, steps, a, a_m, b, b_n, part ? 0 : 16 * DOT_LANES, acc);
        a = rest[0], b = rest[4];
        a_m = b_n = DOT_LANES;
        steps = 1;
    }
    _Alignas(64) T lanes[16][DOT_LANES], sum[16];
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < cols; j++)
#pragma GCC unroll 4
            for (int v = 0; v < DOT_VECTORS; v++)
                STORE(lanes[i * cols + j] + v * LANES, acc[i][j][v]);
    int joined = 0;
    for (; joined + 4 <= rows * cols; joined += 4)
        NAME(join_four)(lanes + joined, sum + joined);
    for (; joined < rows * cols; joined++)
        sum[joined] = NAME(join)(lanes[joined]);
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < cols; j++) {
            T *const to = c + i * p->c_m + j * p->c_n;
            *to = p->add ? *to + sum[i * cols + j] : sum[i * cols + j];
        }
}

#define DOT(rows, cols)                                                                            \
    case 10 * rows + cols:                                                                         \
        NAME(dot_tile)(rows, cols, p, a, b, c);                                                    \
        break;

#ifndef DOT_MAX
#define DOT_MAX 4 /* rows and columns of a tile of sums */
#endif

/* 4, 2 or 1 rows or columns of what is left. */
static inline int64_t NAME(dots_of)(int64_t left)
{
    return left >= DOT_MAX ? DOT_MAX : left >= 2 ? 2 : 1;
}

static TARGET void NAME(dots)(const tn__gemm_dots *p)
{
    int64_t rows, cols;
    for (int64_t n = 0; n < p->n; n += cols) {
        cols = NAME(dots_of)(p->n - n);
        for (int64_t m = 0; m < p->m; m += rows) {
            const T *const a = (const T *)p->a + m * p->a_m;
            const T *const b = (const T *)p->b + n * p->b_n;
            T *const c = (T *)p->c + m * p->c_m + n * p->c_n;
            rows = NAME(dots_of)(p->m - m);
#ifdef WIDE
            rows = cols == 4 && p->m - m == 3 ? 3 : rows;
#endif
            switch (10 * rows + cols) {
                DOT(1, 1)
                DOT(1, 2)
                DOT(2, 1)
                DOT(2, 2)
#if DOT_MAX > 2
                DOT(1, 4)
                DOT(2, 4)
                DOT(4, 1)
                DOT(4, 2)
                DOT(4, 4)
#ifdef WIDE
                DOT(3, 4)
#endif
#endif
            }
        }
    }
}

#ifdef WIDEN_F16
/* A vector of 16-bit numbers. */
static inline __attribute__((always_inline)) TARGET V NAME(wide)(int bf16, const uint16_t *from)
{
    return bf16 ? WIDEN_BF16(from) : WIDEN_F16(from);
}

/* Whole vectors of n_k x n_n numbers, of which k's are neighbours, into rows of n. */
TILE_FN NAME(widen_across)(int bf16, T *to, int64_t width, const uint16_t *from, int64_t step,
                           int64_t n_k, int64_t n_n)
{
    T block[8 * LANES];
    for (int64_t k = 0; k < n_k; k += LANES)
        for (int64_t n = 0; n < n_n; n += 8) {
            for (int i = 0; i < 8; i++)
                STORE(block + i * LANES, NAME(wide)(bf16, from + k + (n + i) * step));
            for (int l = 0; l < LANES; l += 8)
                TRANSPOSE(to + (k + l) * width + n, width, block + l, LANES);
        }
}

TILE_FN NAME(widen_as)(int bf16, T *to, int64_t width, const uint16_t *from, int64_t rows,
                       int64_t cols, int64_t *n_i, int64_t *n_j)
{
    if (cols == 1) {
        *n_j = *n_j / LANES * LANES;
        for (int64_t i = 0; i < *n_i; i++)
            for (int64_t j = 0; j < *n_j; j += LANES)
                STORE(to + i * width + j, NAME(wide)(bf16, from + i * rows + j));
    } else if (rows == 1) {
        *n_i = *n_i / LANES * LANES;
        *n_j = *n_j / 8 * 8;
        NAME(widen_across)(bf16, to, width, from, cols, *n_i, *n_j);
    } else {
        *n_i = *n_j = 0;
    }
}

static TARGET void NAME(widen)(int bf16, T *to, int64_t width, const uint16_t *from, int64_t rows,
                               int64_t cols, int64_t *n_i, int64_t *n_j)
{
    if (bf16)
        NAME(widen_as)(1, to, width, from, rows, cols, n_i, n_j);
    else
        NAME(widen_as)(0, to, width, from, rows, cols, n_i, n_j);
}
#define WIDEN .widen = NAME(widen),
#else
#define WIDEN
#endif

const tn__gemm_kernels KERNELS = {.lanes = LANES,
                                  .mr = MR,
                                  .panel = NAME(panel),
                                  .dots = NAME(dots),
                                  WIDEN WIDTHS.pack = NAME(pack)};

#undef WIDTHS
#undef COPIES

#undef WIDEN

#undef DOT
#undef DOT_MAX
#undef DOT_LANES
#undef DOT_VECTORS
#undef TILE
#undef TILE_FN
