/* conv.h: convolutions over two axes of images in C; T stands for f32 or f64 (see scatter.h).
 *
 * x[n, c, h, w] and w[m, c, kh, kw] lie anywhere (strides x_.., w_.. in elements, of any sign; neighbours
 * along a row of x are x_w apart), y is [N, G*M, OH, OW]. A group of G has C channels and M results.
 * Windows: s_ stride, d_ dilation, p_ what stands before the first element.
 *
 * Filters lie packed, 8 of a group next to each other. A cell packs the rows that it needs, with zeros
 * around them, so that neighbouring results read neighbouring elements whatever the stride is:
 * [channel][h % s_h][w % s_w][row][width]. Then a
 * tile of 8 channels by 48 pixels (of one flat index that runs over the gaps between rows too) stays
 * in registers while the sum runs over channels and window. Groups of one channel: conv_depth.h.
 *
 * Sums run serially, with fused multiply-adds: the bits do not depend on the width of vectors.
 * SPDX-License-Identifier: MIT */

/*@ conv_pack_T: */
TN_FN void tn_conv_pack_T(T_mem *restrict to, const T_mem *x, int64_t x_h, int64_t x_w, int64_t H,
                          int64_t W, int64_t row0, int64_t col0, int64_t rows, int64_t width,
                          int64_t s_h, int64_t s_w)
{
    /* one channel: s_h * s_w planes of rows * width; row i of plane p is row0 + i * s_h + p of x */
    for (int64_t p = 0; p < s_h; p++)
        for (int64_t q = 0; q < s_w; q++)
            for (int64_t i = 0; i < rows; i++, to += width) {
                const int64_t h = row0 + i * s_h + p, first = col0 + q;
                /* columns lo .. hi of this row are inside */
                int64_t lo = first >= 0 ? 0 : (-first + s_w - 1) / s_w;
                int64_t hi = W > first ? (W - first + s_w - 1) / s_w : 0;
                hi = hi < width ? hi : width;
                lo = h < 0 || h >= H || lo > hi ? hi : lo;
                if (h < 0 || h >= H)
                    lo = hi = 0;
                const T_mem *from = x + h * x_h + (first + lo * s_w) * x_w;
                const int64_t n = hi - lo, step = s_w * x_w;
                for (int64_t j = 0; j < lo; j++)
                    to[j] = 0;
                if (step == 1 && n > 0)
                    memcpy(to + lo, from, (size_t)n * sizeof(T_mem));
                else
                    for (int64_t j = 0; j < n; j++)
                        to[lo + j] = from[j * step];
                for (int64_t j = hi; j < width; j++)
                    to[j] = 0;
            }
}

/*@ conv_fma512_f32: */
typedef float tn_conv_v512_f32 __attribute__((vector_size(64), aligned(4), may_alias));
TN_FN __attribute__((always_inline, target("avx512f"))) tn_conv_v512_f32 tn_conv_fma512_f32(
    tn_conv_v512_f32 a, tn_conv_v512_f32 b, tn_conv_v512_f32 c)
{
#if defined __clang__ && __clang_major__ >= 17
    return __builtin_elementwise_fma(a, b, c);
#else
    return (tn_conv_v512_f32)__builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4);
#endif
}

/*@ conv_fma512_f64: */
typedef double tn_conv_v512_f64 __attribute__((vector_size(64), aligned(8), may_alias));
TN_FN __attribute__((always_inline, target("avx512f"))) tn_conv_v512_f64 tn_conv_fma512_f64(
    tn_conv_v512_f64 a, tn_conv_v512_f64 b, tn_conv_v512_f64 c)
{
#if defined __clang__ && __clang_major__ >= 17
    return __builtin_elementwise_fma(a, b, c);
#else
    return (tn_conv_v512_f64)__builtin_ia32_vfmaddpd512_mask(a, b, c, (unsigned char)-1, 4);
#endif
}

/*@ conv_store512_f32: conv_fma512_f32 */
TN_FN __attribute__((always_inline, target("avx512f"))) void tn_conv_store512_f32(
    void *to, tn_conv_v512_f32 x, uint32_t lanes)
{
    __builtin_ia32_storeups512_mask(to, x, (unsigned short)lanes);
}

/*@ conv_store512_f64: conv_fma512_f64 */
TN_FN __attribute__((always_inline, target("avx512f"))) void tn_conv_store512_f64(
    void *to, tn_conv_v512_f64 x, uint32_t lanes)
{
    __builtin_ia32_storeupd512_mask(to, x, (unsigned char)lanes);
}

/*@ conv_runs_T: */
TN_FN void tn_conv_runs_T(int32_t *from, uint32_t *lanes, int64_t *at, int64_t v, int64_t end,
                          int64_t width, int64_t cols, int64_t OW)
{
    /* Pixels v .. end of rows of `width` are three vectors of 64 bytes: vector j is stored in runs
     * from[j] .. from[j + 1] - 1, lanes of it where lane 0 would lie at `at` */
    enum { L = 64 / sizeof(T_mem) };
    int32_t n = 0;
    for (int64_t j = 0; j < 3; j++) {
        from[j] = n;
        for (int64_t l = 0; l < L && v + l < end;) {
            const int64_t r = (v + l) / width, x = v + l - r * width, rest = width - x;
            const int64_t left = end - v - l < L - l ? end - v - l : L - l;
            const int64_t run = rest < left ? rest : left, inside = x < cols ? cols - x : 0;
            if (inside) {
                lanes[n] = ((1u << (inside < run ? inside : run)) - 1u) << l;
                at[n++] = r * OW + x - l;
            }
            l += run;
        }
        v += L;
    }
    from[3] = n;
}

/*@ conv_fma256_f32: */
typedef float tn_conv_v256_f32 __attribute__((vector_size(32), aligned(4), may_alias));
TN_FN __attribute__((always_inline, target("avx2,fma"))) tn_conv_v256_f32 tn_conv_fma256_f32(
    tn_conv_v256_f32 a, tn_conv_v256_f32 b, tn_conv_v256_f32 c)
{
#if defined __clang__ && __clang_major__ >= 17
    return __builtin_elementwise_fma(a, b, c);
#else
    return (tn_conv_v256_f32)__builtin_ia32_vfmaddps256(a, b, c);
#endif
}

/*@ conv_fma256_f64: */
typedef double tn_conv_v256_f64 __attribute__((vector_size(32), aligned(8), may_alias));
TN_FN __attribute__((always_inline, target("avx2,fma"))) tn_conv_v256_f64 tn_conv_fma256_f64(
    tn_conv_v256_f64 a, tn_conv_v256_f64 b, tn_conv_v256_f64 c)
{
#if defined __clang__ && __clang_major__ >= 17
    return __builtin_elementwise_fma(a, b, c);
#else
    return (tn_conv_v256_f64)__builtin_ia32_vfmaddpd256(a, b, c);
#endif
}

/*@ conv_body512_T: conv_fma512_T conv_store512_T */
TN_FN __attribute__((always_inline, target("avx512f"))) void tn_conv_body512_T(
    T_mem *restrict c, const T_mem *restrict a, const T_mem *restrict b, const int32_t *restrict off,
    int64_t channels, int64_t plane, int64_t taps, const int m, const int n, int add, T_mem *y, int64_t y_m,
    int64_t rows, const int32_t *from, const uint32_t *lanes, const int64_t *at)
{
    /* to c, or with y straight to where results lie: `rows` of them, y_m apart */
    enum { L = 64 / sizeof(T_mem) };
    tn_conv_v512_T s[8][3];
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 3
        for (int j = 0; j < n; j++)
            s[i][j] = add ? *(const tn_conv_v512_T *)(c + (i * 3 + j) * L) : (tn_conv_v512_T){0};
    for (int64_t k = 0; k < channels; k++, b += plane)
        for (int64_t t = 0; t < taps; t++, a += 8) {
            tn_conv_v512_T x[3];
#pragma GCC unroll 3
            for (int j = 0; j < n; j++)
                x[j] = *(const tn_conv_v512_T *)(b + off[t] + j * L);
#pragma GCC unroll 8
            for (int i = 0; i < m; i++)
#pragma GCC unroll 3
                for (int j = 0; j < n; j++)
                    s[i][j] = tn_conv_fma512_T(a[i] - (tn_conv_v512_T){0}, x[j], s[i][j]);
        }
    if (!y) {
#pragma GCC unroll 8
        for (int i = 0; i < m; i++)
#pragma GCC unroll 3
            for (int j = 0; j < n; j++)
                *(tn_conv_v512_T *)(c + (i * 3 + j) * L) = s[i][j];
        return;
    }
#pragma GCC unroll 8
    for (int i = 0; i < m; i++) {
        if (i == rows)
            return;
#pragma GCC unroll 3
        for (int j = 0; j < n; j++)
            for (int32_t q = from[j]; q < from[j + 1]; q++)
                tn_conv_store512_T((void *)((uintptr_t)y + sizeof(T_mem) * (uintptr_t)(i * y_m + at[q])),
                                   s[i][j], lanes[q]);
    }
}

/*@ conv_tile512_T: conv_body512_T */
static __attribute__((noinline, target("avx512f"))) void tn_conv_tile512_T(
    T_mem *restrict c, const T_mem *restrict a, const T_mem *restrict b, const int32_t *restrict off,
    int64_t channels, int64_t plane, int64_t taps, int64_t m, int64_t n, int add, T_mem *y, int64_t y_m,
    const int32_t *from, const uint32_t *lanes, const int64_t *at)
{
    /* n pixels are wanted */
    enum { L = 64 / sizeof(T_mem) };
    if (m == 1)
        tn_conv_body512_T(c, a, b, off, channels, plane, taps, 1, 3, add, y, y_m, m, from, lanes, at);
    else if (m <= 4)
        tn_conv_body512_T(c, a, b, off, channels, plane, taps, 4, 3, add, y, y_m, m, from, lanes, at);
    else if (n <= L)
        tn_conv_body512_T(c, a, b, off, channels, plane, taps, 8, 1, add, y, y_m, m, from, lanes, at);
    else if (n <= 2 * L)
        tn_conv_body512_T(c, a, b, off, channels, plane, taps, 8, 2, add, y, y_m, m, from, lanes, at);
    else
        tn_conv_body512_T(c, a, b, off, channels, plane, taps, 8, 3, add, y, y_m, m, from, lanes, at);
}

/*@ conv_body256_T: conv_fma256_T */
TN_FN __attribute__((always_inline, target("avx2,fma"))) void tn_conv_body256_T(
    T_mem *restrict c, const T_mem *restrict a, const T_mem *restrict b, const int32_t *restrict off,
    int64_t channels, int64_t plane, int64_t taps, const int m, int add)
{
    enum { L = 32 / sizeof(T_mem) };
    tn_conv_v256_T s[4][3];
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++)
            s[i][j] = add ? *(const tn_conv_v256_T *)(c + (i * 3 + j) * L) : (tn_conv_v256_T){0};
    for (int64_t k = 0; k < channels; k++, b += plane)
        for (int64_t t = 0; t < taps; t++, a += 8) {
            tn_conv_v256_T x[3];
#pragma GCC unroll 3
            for (int j = 0; j < 3; j++)
                x[j] = *(const tn_conv_v256_T *)(b + off[t] + j * L);
#pragma GCC unroll 8
            for (int i = 0; i < m; i++)
#pragma GCC unroll 3
                for (int j = 0; j < 3; j++)
                    s[i][j] = tn_conv_fma256_T(a[i] - (tn_conv_v256_T){0}, x[j], s[i][j]);
        }
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++)
            *(tn_conv_v256_T *)(c + (i * 3 + j) * L) = s[i][j];
}

/*@ conv_tile256_T: conv_body256_T */
static __attribute__((noinline, target("avx2,fma"))) void tn_conv_tile256_T(
    T_mem *restrict c, const T_mem *restrict a, const T_mem *restrict b, const int32_t *restrict off,
    int64_t channels, int64_t plane, int64_t taps, int64_t m, int add)
{
    if (m == 1)
        tn_conv_body256_T(c, a, b, off, channels, plane, taps, 1, add);
    else
        tn_conv_body256_T(c, a, b, off, channels, plane, taps, 4, add);
}

/*@ conv_level: */
TN_FN int tn_conv_level(void)
{
    /* how wide tiles are: of 8 x 3 vectors of 64 bytes, of 4 x 3 of 32, or of 4 x 48 bytes one by one */
#if defined __x86_64__ && defined __GNUC__
    return __builtin_cpu_supports("avx512f")                                     ? 2
           : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 1
                                                                                 : 0;
#else
    return 0;
#endif
}

/*@ conv_one_T: */
TN_FN T_mem tn_conv_one_T(T_mem a, T_mem b, T_mem c)
{
    return sizeof(T_mem) == 4 ? (T_mem)fmaf((float)a, (float)b, (float)c) : (T_mem)fma(a, b, c);
}

/*@ conv_tile_T: conv_one_T conv_tile512_T conv_tile256_T */
TN_FN void tn_conv_tile_T(T_mem *restrict c, const T_mem *restrict a, const T_mem *restrict b,
                          const int32_t *restrict off, int64_t channels, int64_t plane, int64_t taps,
                          int64_t m, int64_t n, int add, int level)
{
    /* c[i][v] (+)= sum over channels and taps of a[k][i] * b[plane * channel + off[tap] + v], v < n */
    enum { V = 3 * 32 / sizeof(T_mem) };
#if defined __x86_64__ && defined __GNUC__
    if (level == 2) {
        tn_conv_tile512_T(c, a, b, off, channels, plane, taps, m, n, add, NULL, 0, NULL, NULL, NULL);
        return;
    }
    if (level == 1) {
        tn_conv_tile256_T(c, a, b, off, channels, plane, taps, m, add);
        return;
    }
#endif
    (void)level;
    for (int64_t i = 0; i < m; i++)
        for (int64_t v = 0; v < n; v++) {
            T_mem s = add ? c[i * V + v] : 0;
            for (int64_t k = 0; k < channels; k++)
                for (int64_t t = 0; t < taps; t++)
                    s = tn_conv_one_T(a[(k * taps + t) * 8 + i], b[plane * k + off[t] + v], s);
            c[i * V + v] = s;
        }
}

/*@ conv_put_T: */
TN_FN void tn_conv_put_T(T_mem *restrict y, T_mem *restrict c, int64_t v, int64_t end, int64_t width,
                         int64_t cols, int64_t OW, int64_t plane, int64_t m, int64_t pitch,
                         int fetch)
{
    /* between results in rows of OW, m planes, and a tile of pixels v .. end of rows of `width` */
    for (int64_t j = v; j < end;) {
        const int64_t r = j / width, at = j - r * width, rest = width - at;
        const int64_t run = rest < end - j ? rest : end - j, inside = at < cols ? cols - at : 0;
        const int64_t n = inside < run ? inside : run;
        for (int64_t i = 0; i < m; i++) {
            T_mem *restrict to = y + i * plane + r * OW + at;
            T_mem *restrict tile = c + i * pitch + (j - v);
            if (fetch)
                for (int64_t l = 0; l < n; l++)
                    tile[l] = to[l];
            else
                for (int64_t l = 0; l < n; l++)
                    to[l] = tile[l];
        }
        j += run;
    }
}

/*@ conv_offsets: */
TN_FN void tn_conv_offsets(int32_t *off, int64_t KH, int64_t KW, int64_t s_h, int64_t s_w, int64_t d_h,
                           int64_t d_w, int64_t high, int64_t width)
{
    /* of the window's elements from the first one, in a packed channel of rows of `width` */
    for (int64_t t = 0; t < KH * KW; t++) {
        const int64_t h = t / KW * d_h, v = t % KW * d_w;
        off[t] = (int32_t)(((h % s_h) * s_w + v % s_w) * high * width + h / s_h * width + v / s_w);
    }
}

/*@ conv_filters_T: */
TN_FN void tn_conv_filters_T(T_mem *restrict f, const T_mem *restrict w, int64_t g, int64_t block,
                             int64_t M, int64_t C, int64_t KH, int64_t KW, int64_t w_m, int64_t w_c,
                             int64_t w_h, int64_t w_w)
{
    /* 8 filters of a group: [channel][tap][8], zeros where there are fewer */
    const int64_t n = C * KH * KW, m = M - 8 * block < 8 ? M - 8 * block : 8;
    f += (g * ((M + 7) / 8) + block) * n * 8;
    w += (g * M + 8 * block) * w_m;
    for (int64_t i = 0; i < 8; i++) {
        T_mem *to = f + i;
        for (int64_t c = 0; c < C; c++)
            for (int64_t h = 0; h < KH; h++)
                for (int64_t v = 0; v < KW; v++, to += 8)
                    *to = i < m ? w[i * w_m + c * w_c + h * w_h + v * w_w] : 0;
    }
}

/*@ conv_straight_T: conv_runs_T conv_tile512_T */
TN_FN void tn_conv_straight_T(T_mem *y, const T_mem *restrict a, const T_mem *restrict b,
                              const int32_t *restrict off, int64_t channels, int64_t plane, int64_t taps,
                              int64_t m, int64_t v, int64_t end, int64_t width, int64_t cols, int64_t OW,
                              int64_t y_m)
{
    /* a tile of pixels v .. end of rows of `width` that is complete: stored where it belongs */
#if defined __x86_64__ && defined __GNUC__
    int32_t from[4];
    uint32_t lanes[12];
    int64_t at[12];
    tn_conv_runs_T(from, lanes, at, v, end, width, cols, OW);
    tn_conv_tile512_T(NULL, a, b, off, channels, plane, taps, m, end - v, 0, y, y_m, from, lanes, at);
#else
    (void)y, (void)a, (void)b, (void)off, (void)channels, (void)plane, (void)taps, (void)m, (void)v;
    (void)end, (void)width, (void)cols, (void)OW, (void)y_m;
#endif
}

/*@ conv_T: conv_level conv_pack_T conv_tile_T conv_put_T conv_offsets conv_straight_T */
TN_FN void tn_conv_T(T_mem *restrict y, const T_mem *restrict x, const T_mem *restrict f, int64_t image,
                     int64_t block, int64_t G, int64_t C, int64_t M, int64_t H, int64_t W, int64_t OH,
                     int64_t OW, int64_t KH, int64_t KW, int64_t R, int64_t x_n, int64_t x_c, int64_t x_h,
                     int64_t x_w, int64_t s_h, int64_t s_w, int64_t d_h, int64_t d_w, int64_t p_h,
                     int64_t p_w)
{
    /* R rows of the results of one group of one image */
    enum { PACK = 196608 / sizeof(T_mem), MOST = 192 / sizeof(T_mem) };
    T_mem pack[PACK] __attribute__((aligned(64))), c[8 * MOST] __attribute__((aligned(64)));
    const int level = tn_conv_level();
    const int64_t TILE = level == 2 ? MOST : MOST / 2, ROWS = level == 2 ? 8 : 4;
    int32_t off[1024];
    const int64_t n = image / G, g = image % G, oh = block * R, taps = KH * KW;
    const int64_t rows = OH - oh < R ? OH - oh : R, reach_h = (KH - 1) * d_h / s_h;
    const int64_t reach_w = (KW - 1) * d_w / s_w, high = rows + reach_h;
    /* columns at once: all, or what fits for one channel */
    int64_t cols = (PACK - 2 * MOST) / (s_h * s_w * high) - reach_w;
    cols = cols < OW ? cols : OW;
    x += n * x_n + g * C * x_c;
    f += g * ((M + 7) / 8) * C * taps * 8;
    y += (image * M * OH + oh) * OW;
    for (int64_t ow = 0; ow < OW; ow += cols) {
        const int64_t wide = OW - ow < cols ? OW - ow : cols, width = wide + reach_w;
        const int64_t plane = s_h * s_w * high * width, end = (rows - 1) * width + wide;
        const int64_t some = (PACK - 2 * MOST) / plane;
        tn_conv_offsets(off, KH, KW, s_h, s_w, d_h, d_w, high, width);
        for (int64_t c0 = 0; c0 < C; c0 += some) {
            const int64_t channels = C - c0 < some ? C - c0 : some;
            for (int64_t k = 0; k < channels; k++)
                tn_conv_pack_T(pack + k * plane, x + (c0 + k) * x_c, x_h, x_w, H, W, oh * s_h - p_h,
                               ow * s_w - p_w, high, width, s_h, s_w);
            for (int64_t i = 0; i < 2 * MOST; i++)
                pack[channels * plane + i] = 0;
            for (int64_t m0 = 0; m0 < M; m0 += ROWS) {
                const int64_t m = M - m0 < ROWS ? M - m0 : ROWS;
                const T_mem *filters = f + (m0 / 8 * C + c0) * taps * 8 + m0 % 8;
                T_mem *to = y + m0 * OH * OW + ow;
                for (int64_t v = 0; v < end; v += TILE) {
                    const int64_t last = end - v < TILE ? end : v + TILE;
                    if (level == 2 && some >= C && width >= 8) {
                        tn_conv_straight_T(to, filters, pack + v, off, channels, plane, taps, m, v, last,
                                           width, wide, OW, OH * OW);
                        continue;
                    }
                    if (c0)
                        tn_conv_put_T(to, c, v, last, width, wide, OW, OH * OW, m, TILE, 1);
                    tn_conv_tile_T(c, filters, pack + v, off, channels, plane, taps, m, last - v, c0 > 0,
                                   level);
                    tn_conv_put_T(to, c, v, last, width, wide, OW, OH * OW, m, TILE, 0);
                }
            }
        }
    }
}

/*@ conv_sums512_T: conv_fma512_T */
TN_FN __attribute__((always_inline, target("avx512f"))) void tn_conv_sums512_T(
    T_mem *restrict sums, int64_t step, const T_mem *restrict a, int64_t a_m, const T_mem *restrict b,
    const int32_t *off, int64_t n, const int m, const int taps)
{
    enum { L = 64 / sizeof(T_mem), P = 1 };
    tn_conv_v512_T s[8][9][P];
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 9
        for (int t = 0; t < taps; t++)
#pragma GCC unroll 2
            for (int j = 0; j < P; j++)
                s[i][t][j] = *(const tn_conv_v512_T *)(sums + i * step + (t * P + j) * L);
    for (int64_t v = 0; v < n * P * L; v += P * L)
#pragma GCC unroll 2
        for (int j = 0; j < P; j++) {
            tn_conv_v512_T x[9];
#pragma GCC unroll 9
            for (int t = 0; t < taps; t++)
                x[t] = *(const tn_conv_v512_T *)(b + off[t] + v + j * L);
#pragma GCC unroll 8
            for (int i = 0; i < m; i++) {
                const tn_conv_v512_T u = *(const tn_conv_v512_T *)(a + i * a_m + v + j * L);
#pragma GCC unroll 9
                for (int t = 0; t < taps; t++)
                    s[i][t][j] = tn_conv_fma512_T(u, x[t], s[i][t][j]);
            }
        }
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 9
        for (int t = 0; t < taps; t++)
#pragma GCC unroll 2
            for (int j = 0; j < P; j++)
                *(tn_conv_v512_T *)(sums + i * step + (t * P + j) * L) = s[i][t][j];
}

/*@ conv_dots512_T: conv_sums512_T */
static __attribute__((noinline, target("avx512f"))) void tn_conv_dots512_T(
    T_mem *restrict sums, int64_t step, const T_mem *restrict a, int64_t a_m, const T_mem *restrict b,
    const int32_t *off, int64_t n, int64_t m, int64_t taps)
{
    if (m == 1 && taps == 9)
        tn_conv_sums512_T(sums, step, a, a_m, b, off, n, 1, 9);
    else if (m == 1)
        tn_conv_sums512_T(sums, step, a, a_m, b, off, n, 1, 1);
    else if (taps == 3)
        tn_conv_sums512_T(sums, step, a, a_m, b, off, n, 8, 3);
    else
        tn_conv_sums512_T(sums, step, a, a_m, b, off, n, 8, 1);
}

/*@ conv_sums256_T: conv_fma256_T */
TN_FN __attribute__((always_inline, target("avx2,fma"))) void tn_conv_sums256_T(
    T_mem *restrict sums, int64_t step, const T_mem *restrict a, int64_t a_m, const T_mem *restrict b,
    const int32_t *off, int64_t n, const int m, const int taps)
{
    enum { L = 32 / sizeof(T_mem), P = 2 };
    tn_conv_v256_T s[2][3][P];
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 3
        for (int t = 0; t < taps; t++)
#pragma GCC unroll 2
            for (int j = 0; j < P; j++)
                s[i][t][j] = *(const tn_conv_v256_T *)(sums + i * step + (t * P + j) * L);
    for (int64_t v = 0; v < n * P * L; v += P * L)
#pragma GCC unroll 2
        for (int j = 0; j < P; j++) {
            tn_conv_v256_T x[3];
#pragma GCC unroll 3
            for (int t = 0; t < taps; t++)
                x[t] = *(const tn_conv_v256_T *)(b + off[t] + v + j * L);
#pragma GCC unroll 8
            for (int i = 0; i < m; i++) {
                const tn_conv_v256_T u = *(const tn_conv_v256_T *)(a + i * a_m + v + j * L);
#pragma GCC unroll 3
                for (int t = 0; t < taps; t++)
                    s[i][t][j] = tn_conv_fma256_T(u, x[t], s[i][t][j]);
            }
        }
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 3
        for (int t = 0; t < taps; t++)
#pragma GCC unroll 2
            for (int j = 0; j < P; j++)
                *(tn_conv_v256_T *)(sums + i * step + (t * P + j) * L) = s[i][t][j];
}

/*@ conv_dots256_T: conv_sums256_T */
static __attribute__((noinline, target("avx2,fma"))) void tn_conv_dots256_T(
    T_mem *restrict sums, int64_t step, const T_mem *restrict a, int64_t a_m, const T_mem *restrict b,
    const int32_t *off, int64_t n, int64_t m, int64_t taps)
{
    if (m == 1)
        for (int64_t t = 0; t < taps; t++)
            tn_conv_sums256_T(sums + t * (64 / (int64_t)sizeof(T_mem)), step, a, a_m, b, off + t, n, 1, 1);
    else if (taps == 3)
        tn_conv_sums256_T(sums, step, a, a_m, b, off, n, 2, 3);
    else
        tn_conv_sums256_T(sums, step, a, a_m, b, off, n, 2, 1);
}

/*@ conv_dots_T: conv_one_T conv_dots512_T conv_dots256_T */
TN_FN void tn_conv_dots_T(T_mem *restrict sums, int64_t step, const T_mem *restrict a, int64_t a_m,
                          const T_mem *restrict b, const int32_t *off, int64_t n, int64_t m, int64_t taps,
                          int level)
{
    /* sums[i][t], of 64 bytes, += a[i][v] * b[off[t] + v] over n times 64 bytes; step: from i to i + 1.
     * taps: 1 or 3, or with m = 1 also 9 */
    enum { L = 64 / sizeof(T_mem) };
#if defined __x86_64__ && defined __GNUC__
    if (level == 2) {
        tn_conv_dots512_T(sums, step, a, a_m, b, off, n, m, taps);
        return;
    }
    if (level == 1) {
        tn_conv_dots256_T(sums, step, a, a_m, b, off, n, m, taps);
        return;
    }
#endif
    (void)level;
    for (int64_t i = 0; i < m; i++)
        for (int64_t t = 0; t < taps; t++)
            for (int64_t v = 0; v < n * L; v++) {
                T_mem *s = &sums[i * step + t * L + v % L];
                *s = tn_conv_one_T(a[i * a_m + v], b[off[t] + v], *s);
            }
}

/*@ conv_long_T: conv_level conv_pack_T conv_dots_T conv_offsets */
TN_FN void tn_conv_long_T(T_mem *restrict y, const T_mem *restrict x, const T_mem *restrict w, int64_t g,
                          int64_t part, int64_t block, int64_t N, int64_t B, int64_t C, int64_t M,
                          int64_t H, int64_t W, int64_t OH, int64_t OW, int64_t KH, int64_t KW,
                          int64_t x_n, int64_t x_c, int64_t x_h, int64_t x_w, int64_t w_m, int64_t w_c,
                          int64_t w_h, int64_t w_w, int64_t s_h, int64_t s_w, int64_t d_h, int64_t d_w,
                          int64_t p_h, int64_t p_w, int64_t G)
{
    /* few results, from long windows (a gradient of weights): sums of products along the windows, B
     * images by 16 channels of results; y is [N, G*M, OH, OW] */
    enum { L = 64 / sizeof(T_mem), PACK = 131072 / sizeof(T_mem), SUMS = 2304 * L };
    const int level = tn_conv_level();
    const int64_t ROWS = level == 2 ? 8 : 2;
    T_mem pack[PACK] __attribute__((aligned(64))), sums[SUMS] __attribute__((aligned(64)));
    int32_t off[128];
    const int64_t n0 = part * B, images = N - n0 < B ? N - n0 : B, m0 = 16 * block;
    const int64_t m = M - m0 < 16 ? M - m0 : 16, out = OH * OW, step = out * L;
    const int64_t reach_h = (OH - 1) * s_h / d_h, reach_w = (OW - 1) * s_w / d_w, width = KW + reach_w;
    const int64_t filled = m == 1 ? 1 : (m + ROWS - 1) / ROWS * ROWS;
    /* rows of the windows at once: 16 of w's, and one image with what surrounds it */
    int64_t some = (PACK - 4 * L) / width - d_h * d_w * (reach_h + 2);
    some /= 16 + d_h * d_w;
    /* eight of them near the processor */
    const int64_t near = 24576 / (int64_t)sizeof(T_mem) / ((m == 1 ? 2 : 8) * width) + 1;
    some = some < near ? some : near;
    some = some < KH ? some : KH;
    x += (g * C) * x_c + n0 * x_n;
    w += (g * M + m0) * w_m;
    for (int64_t i = 0; i < images * 16 * step; i++)
        sums[i] = 0;
    for (int64_t c = 0; c < C; c++)
        for (int64_t k0 = 0; k0 < KH; k0 += some) {
            const int64_t rows = KH - k0 < some ? KH - k0 : some, high = rows + reach_h;
            const int64_t n = (rows * width + L - 1) / L, a_m = n * L;
            for (int64_t i = 0; i < filled; i++) {
                T_mem *to = pack + i * a_m;
                const T_mem *from = w + i * w_m + c * w_c + k0 * w_h;
                const int64_t copied = i < m ? rows : 0;
                for (int64_t r = 0; r < copied; r++, from += w_h, to += width) {
                    if (w_w == 1)
                        memcpy(to, from, (size_t)KW * sizeof(T_mem));
                    else
                        for (int64_t v = 0; v < KW; v++)
                            to[v] = from[v * w_w];
                    for (int64_t v = KW; v < width; v++)
                        to[v] = 0;
                }
                for (int64_t v = copied * width; v < a_m; v++)
                    pack[i * a_m + v] = 0;
            }
            tn_conv_offsets(off, OH, OW, d_h, d_w, s_h, s_w, high, width);
            T_mem *plane = pack + filled * a_m;
            for (int64_t b = 0; b < images; b++) {
                tn_conv_pack_T(plane, x + b * x_n + c * x_c, x_h, x_w, H, W, k0 * d_h - p_h, -p_w, high,
                               width, d_h, d_w);
                for (int64_t i = 0; i < 2 * L; i++)
                    plane[d_h * d_w * high * width + i] = 0;
                for (int64_t i = 0; i < m; i += ROWS)
                    for (int64_t t = 0, taps; t < out; t += taps) {
                        const int64_t together = m == 1 ? 1 : m - i < ROWS && !level ? m - i : ROWS;
                        taps = m == 1 && out - t >= 9 ? 9 : m > 1 && out - t >= 3 ? 3 : 1;
                        tn_conv_dots_T(sums + (b * 16 + i) * step + t * L, step, pack + i * a_m, a_m, plane,
                                       off + t, n, together, taps, level);
                    }
            }
        }
    for (int64_t b = 0; b < images; b++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t t = 0; t < out; t++) {
                T_mem *s = sums + (b * 16 + i) * step + t * L;
                for (int64_t half = L / 2; half; half /= 2)
                    for (int64_t l = 0; l < half; l++)
                        s[l] += s[l + half];
                y[((n0 + b) * G * M + g * M + m0 + i) * out + t] = s[0];
            }
}
