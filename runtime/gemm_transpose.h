/* gemm_transpose.h: transposing blocks of floats with AVX2. SPDX-License-Identifier: MIT */
#ifndef TENON_RUNTIME_GEMM_TRANSPOSE_H
#define TENON_RUNTIME_GEMM_TRANSPOSE_H

/* to[i * nr + j] = from[j * stride + i], a block of 8 x 8 */
#define TRANSPOSES(TARGET)                                                                         \
    static inline TARGET void tn__transpose_8(float *to, int64_t nr, const float *from,            \
                                              int64_t stride)                                      \
    {                                                                                              \
        __m256 r[8], p[8];                                                                         \
        for (int i = 0; i < 8; i++)                                                                \
            r[i] = _mm256_loadu_ps(from + i * stride);                                             \
        for (int i = 0; i < 4; i++) { /* pairs of rows */                                          \
            p[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);                                 \
            p[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);                             \
        }                                                                                          \
        for (int i = 0; i < 2; i++) /* columns of 4 rows in each half */                           \
            for (int j = 0; j < 2; j++) {                                                          \
                r[4 * i + 2 * j] = _mm256_shuffle_ps(p[4 * i + j], p[4 * i + j + 2], 0x44);        \
                r[4 * i + 2 * j + 1] = _mm256_shuffle_ps(p[4 * i + j], p[4 * i + j + 2], 0xee);    \
            }                                                                                      \
        for (int i = 0; i < 4; i++) {                                                              \
            _mm256_storeu_ps(to + i * nr, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));           \
            _mm256_storeu_ps(to + (i + 4) * nr, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));     \
        }                                                                                          \
    }

/* The same for a block of 16 x 16, with AVX-512: lines of memory are read and written as a whole.
 */
#define TRANSPOSES_16(TARGET)                                                                      \
    static inline TARGET void tn__transpose_16(float *to, int64_t nr, const float *from,           \
                                               int64_t stride)                                     \
    {                                                                                              \
        __m512 r[16], p[16];                                                                       \
        for (int i = 0; i < 16; i++)                                                               \
            r[i] = _mm512_loadu_ps(from + i * stride);                                             \
        for (int i = 0; i < 8; i++) { /* pairs of rows */                                          \
            p[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);                                 \
            p[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);                             \
        }                                                                                          \
        for (int i = 0; i < 4; i++) /* 4 rows in each quarter */                                   \
            for (int j = 0; j < 2; j++) {                                                          \
                r[4 * i + 2 * j] = _mm512_shuffle_ps(p[4 * i + j], p[4 * i + j + 2], 0x44);        \
                r[4 * i + 2 * j + 1] = _mm512_shuffle_ps(p[4 * i + j], p[4 * i + j + 2], 0xee);    \
            }                                                                                      \
        for (int j = 0; j < 4; j++) { /* 8 rows, then all */                                       \
            p[j] = _mm512_shuffle_f32x4(r[j], r[4 + j], 0x88);                                     \
            p[4 + j] = _mm512_shuffle_f32x4(r[j], r[4 + j], 0xdd);                                 \
            p[8 + j] = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0x88);                            \
            p[12 + j] = _mm512_shuffle_f32x4(r[8 + j], r[12 + j], 0xdd);                           \
        }                                                                                          \
        for (int j = 0; j < 8; j++) {                                                              \
            _mm512_storeu_ps(to + j * nr, _mm512_shuffle_f32x4(p[j], p[8 + j], 0x88));             \
            _mm512_storeu_ps(to + (8 + j) * nr, _mm512_shuffle_f32x4(p[j], p[8 + j], 0xdd));       \
        }                                                                                          \
    }

#endif
