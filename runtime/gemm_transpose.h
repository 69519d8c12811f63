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

#endif
