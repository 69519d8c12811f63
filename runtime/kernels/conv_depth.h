/* conv_depth.h: convolutions of conv.h whose groups have one channel each: a tile is of pixels alone.
 * Windows of 3 x 3 and 5 x 5 in steps of one slide over rows where they lie: what lies beyond a row's
 * ends is masked out, and each row is read once for all the rows of results that it is in. Others find
 * their rows packed as conv.h has them. SPDX-License-Identifier: MIT */

/*@ conv_deep512_T: conv_fma512_T */
static __attribute__((noinline, target("avx512f"))) void tn_conv_deep512_T(
    T_mem *restrict c, const T_mem *restrict f, const T_mem *restrict b, const int32_t *restrict off,
    int64_t taps, int64_t n)
{
    enum { L = 64 / sizeof(T_mem) };
    for (int64_t v = 0; v < n; v += 4 * L) {
        tn_conv_v512_T s[4] = {{0}, {0}, {0}, {0}};
        for (int64_t t = 0; t < taps; t++) {
            const tn_conv_v512_T a = f[t] - (tn_conv_v512_T){0};
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++)
                s[j] = tn_conv_fma512_T(a, *(const tn_conv_v512_T *)(b + off[t] + v + j * L), s[j]);
        }
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            *(tn_conv_v512_T *)(c + v + j * L) = s[j];
    }
}

/*@ conv_deep256_T: conv_fma256_T */
static __attribute__((noinline, target("avx2,fma"))) void tn_conv_deep256_T(
    T_mem *restrict c, const T_mem *restrict f, const T_mem *restrict b, const int32_t *restrict off,
    int64_t taps, int64_t n)
{
    enum { L = 32 / sizeof(T_mem) };
    for (int64_t v = 0; v < n; v += 8 * L) {
        tn_conv_v256_T s[8] = {{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}};
        for (int64_t t = 0; t < taps; t++) {
            const tn_conv_v256_T a = f[t] - (tn_conv_v256_T){0};
#pragma GCC unroll 8
            for (int j = 0; j < 8; j++)
                s[j] = tn_conv_fma256_T(a, *(const tn_conv_v256_T *)(b + off[t] + v + j * L), s[j]);
        }
#pragma GCC unroll 8
        for (int j = 0; j < 8; j++)
            *(tn_conv_v256_T *)(c + v + j * L) = s[j];
    }
}

/*@ conv_deep_T: conv_one_T conv_deep512_T conv_deep256_T */
TN_FN void tn_conv_deep_T(T_mem *restrict c, const T_mem *restrict f, const T_mem *restrict b,
                          const int32_t *restrict off, int64_t taps, int64_t n, int level)
{
    /* c[v] = sum over taps of f[tap] * b[off[tap] + v], v < n and up to the next 256 bytes */
#if defined __x86_64__ && defined __GNUC__
    if (level) {
        if (level == 2)
            tn_conv_deep512_T(c, f, b, off, taps, n);
        else
            tn_conv_deep256_T(c, f, b, off, taps, n);
        return;
    }
#endif
    (void)level;
    for (int64_t v = 0; v < n; v++) {
        T_mem s = 0;
        for (int64_t t = 0; t < taps; t++)
            s = tn_conv_one_T(f[t], b[off[t] + v], s);
        c[v] = s;
    }
}

/*@ conv_load512_f32: conv_fma512_f32 */
TN_FN __attribute__((always_inline, target("avx512f"))) tn_conv_v512_f32 tn_conv_load512_f32(
    const void *from, uint32_t lanes)
{
    /* zeros elsewhere; vectors as in tn_conv_fma512_f32(a, b, c) */
    return (tn_conv_v512_f32)__builtin_ia32_loadups512_mask(from, (tn_conv_v512_f32){0},
                                                            (unsigned short)lanes);
}

/*@ conv_load512_f64: conv_fma512_f64 */
TN_FN __attribute__((always_inline, target("avx512f"))) tn_conv_v512_f64 tn_conv_load512_f64(
    const void *from, uint32_t lanes)
{
    /* zeros elsewhere; vectors as in tn_conv_fma512_f64(a, b, c) */
    return (tn_conv_v512_f64)__builtin_ia32_loadupd512_mask(from, (tn_conv_v512_f64){0},
                                                            (unsigned char)lanes);
}

/*@ conv_slide512_T: conv_fma512_T conv_load512_T conv_store512_T */
TN_FN __attribute__((always_inline, target("avx512f"))) void tn_conv_slide512_T(
    T_mem *y, const T_mem *x, const T_mem *restrict f, const uint32_t *restrict lanes, uint32_t out,
    int64_t rows, int64_t row0, int64_t H, int64_t OW, int64_t x_h, const int K,
    int64_t d_w)
{
    /* 8 rows of a vector of pixels: each row of x is read once. row0 is x's first, at x + row0 * x_h */
    tn_conv_v512_T s[8] = {{0}, {0}, {0}, {0}, {0}, {0}, {0}, {0}}, a[25];
#pragma GCC unroll 25
    for (int t = 0; t < K * K; t++)
        a[t] = f[t] - (tn_conv_v512_T){0};
#pragma GCC unroll 16
    for (int i = 0; i < 7 + K; i++) {
        const int inside = row0 + i >= 0 && row0 + i < H;
#pragma GCC unroll 8
        for (int q = 0; q < K; q++) {
            tn_conv_v512_T v = {0};
            if (inside)
                v = tn_conv_load512_T(
                    (const void *)((uintptr_t)x +
                                   sizeof(T_mem) * (uintptr_t)((row0 + i) * x_h + q * d_w)),
                    lanes[q]);
#pragma GCC unroll 8
            for (int p = 0; p < K; p++)
                if (i >= p && i - p < 8)
                    s[i - p] = tn_conv_fma512_T(a[p * K + q], v, s[i - p]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        if (i < rows)
            tn_conv_store512_T((void *)((uintptr_t)y + sizeof(T_mem) * (uintptr_t)(i * OW)), s[i], out);
}

/*@ conv_rows512_T: conv_slide512_T */
static __attribute__((noinline, target("avx512f"))) void tn_conv_rows512_T(
    T_mem *y, const T_mem *x, const T_mem *restrict f, int64_t oh, int64_t rows, int64_t H, int64_t W,
    int64_t OW, int64_t K, int64_t x_h, int64_t d_w, int64_t p_h, int64_t p_w)
{
    /* rows of one channel under a window of 3 x 3 or 5 x 5, read where they lie: steps of one */
    enum { L = 64 / sizeof(T_mem) };
    uint32_t lanes[5];
    for (int64_t v = 0; v < OW; v += L) {
        const uint32_t out = (uint32_t)((1u << (OW - v < L ? OW - v : L)) - 1u);
        for (int64_t q = 0; q < K; q++) { /* lane l is column first + l of x */
            const int64_t first = v + q * d_w - p_w, end = W - first;
            const uint32_t before = end <= 0 ? 0 : end < L ? (1u << end) - 1u : (1u << L) - 1u;
            lanes[q] = first >= 0 ? before : first <= -L ? 0 : before & ~((1u << -first) - 1u);
        }
        for (int64_t r = 0; r < rows; r += 8) {
            const T_mem *from = (const T_mem *)((uintptr_t)x + sizeof(T_mem) * (uintptr_t)(v - p_w));
            T_mem *to = y + r * OW + v;
            if (K == 3)
                tn_conv_slide512_T(to, from, f, lanes, out, rows - r, oh + r - p_h, H, OW, x_h, 3, d_w);
            else
                tn_conv_slide512_T(to, from, f, lanes, out, rows - r, oh + r - p_h, H, OW, x_h, 5, d_w);
        }
    }
}

/*@ conv_slides: */
TN_FN int tn_conv_slides(int level, int64_t OH, int64_t KH, int64_t KW, int64_t x_w, int64_t s_h,
                         int64_t s_w, int64_t d_h)
{
    /* whether tn_conv_rows512_T is for these */
    return level == 2 && OH >= 4 && KH == KW && (KH == 3 || KH == 5) && x_w == 1 && s_h == 1 &&
           s_w == 1 && d_h == 1;
}

/*@ conv_depth_T: conv_level conv_pack_T conv_deep_T conv_offsets conv_rows512_T conv_slides */
TN_FN void tn_conv_depth_T(T_mem *restrict y, const T_mem *restrict x, const T_mem *restrict w,
                           int64_t image, int64_t block, int64_t G, int64_t M, int64_t H, int64_t W,
                           int64_t OH, int64_t OW, int64_t KH, int64_t KW, int64_t R, int64_t x_n,
                           int64_t x_c, int64_t x_h, int64_t x_w, int64_t w_m, int64_t w_h, int64_t w_w,
                           int64_t s_h, int64_t s_w, int64_t d_h, int64_t d_w, int64_t p_h, int64_t p_w)
{
    /* R rows of the results of a group of one channel, of one image */
    enum { PACK = 131072 / sizeof(T_mem), MOST = 256 / sizeof(T_mem) };
    T_mem pack[PACK] __attribute__((aligned(64))), c[PACK] __attribute__((aligned(64)));
    T_mem f[512];
    int32_t off[512];
    const int level = tn_conv_level();
    const int64_t n = image / G, g = image % G, oh = block * R, taps = KH * KW;
    const int64_t rows = OH - oh < R ? OH - oh : R, reach_h = (KH - 1) * d_h / s_h;
    const int64_t reach_w = (KW - 1) * d_w / s_w, high = rows + reach_h;
    int64_t cols = (PACK - 2 * MOST) / (s_h * s_w * high) - reach_w;
    cols = cols < OW ? cols : OW;
    x += n * x_n + g * x_c;
#if defined __x86_64__ && defined __GNUC__
    if (tn_conv_slides(level, OH, KH, KW, x_w, s_h, s_w, d_h)) {
        for (int64_t m = 0; m < M; m++) {
            for (int64_t t = 0; t < taps; t++)
                f[t] = w[(g * M + m) * w_m + t / KW * w_h + t % KW * w_w];
            tn_conv_rows512_T(y + ((image * M + m) * OH + oh) * OW, x, f, oh, rows, H, W, OW, KH, x_h, d_w,
                              p_h, p_w);
        }
        return;
    }
#endif
    for (int64_t ow = 0; ow < OW; ow += cols) {
        const int64_t wide = OW - ow < cols ? OW - ow : cols, width = wide + reach_w;
        const int64_t plane = s_h * s_w * high * width;
        tn_conv_offsets(off, KH, KW, s_h, s_w, d_h, d_w, high, width);
        tn_conv_pack_T(pack, x, x_h, x_w, H, W, oh * s_h - p_h, ow * s_w - p_w, high, width, s_h, s_w);
        for (int64_t i = 0; i < 2 * MOST; i++)
            pack[plane + i] = 0;
        for (int64_t m = 0; m < M; m++) {
            T_mem *to = y + ((image * M + m) * OH + oh) * OW + ow;
            for (int64_t t = 0; t < taps; t++)
                f[t] = w[(g * M + m) * w_m + t / KW * w_h + t % KW * w_w];
            tn_conv_deep_T(c, f, pack, off, taps, (rows - 1) * width + wide, level);
            for (int64_t r = 0; r < rows; r++)
                memcpy(to + r * OW, c + r * width, (size_t)wide * sizeof(T_mem));
        }
    }
}
