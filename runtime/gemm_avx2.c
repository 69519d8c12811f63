/* gemm_avx2.c: register-tile kernels for x86-64 processors with AVX2 and FMA.
 * SPDX-License-Identifier: MIT */
#if defined(__x86_64__)

#include "runtime/gemm_kernels.h"
#include "runtime/gemm_transpose.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx2,fma,f16c")))
#define MR     6

#define T            float
#define V            __m256
#define LANES        8
#define NAME(x)      x##_f32
#define KERNELS      tn__gemm_f32_avx2
#define WIDE         1024
#define LOAD(p)      _mm256_loadu_ps(p)
#define STORE(p, x)  _mm256_storeu_ps(p, x)
#define SET1(x)      _mm256_set1_ps(x)
#define ZERO()       _mm256_setzero_ps()
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define ADD(a, b)    _mm256_add_ps(a, b)
#define TRANSPOSE    tn__transpose_8
#define WIDEN_F16(p) _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p)))
#define WIDEN_BF16(p)                                                                              \
    _mm256_castsi256_ps(                                                                           \
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p))), 16))
TRANSPOSES(TARGET)
#include "runtime/gemm_tile.h"
#undef T
#undef V
#undef LANES
#undef NAME
#undef KERNELS
#undef LOAD
#undef STORE
#undef SET1
#undef ZERO
#undef FMA
#undef ADD
#undef TRANSPOSE
#undef WIDEN_F16
#undef WIDEN_BF16
#undef WIDE

/* less code: f64 is rare */
#undef MR
#define MR           4
#define DOT_MAX      2
#define T            double
#define V            __m256d
#define LANES        4
#define NAME(x)      x##_f64
#define KERNELS      tn__gemm_f64_avx2
#define LOAD(p)      _mm256_loadu_pd(p)
#define STORE(p, x)  _mm256_storeu_pd(p, x)
#define SET1(x)      _mm256_set1_pd(x)
#define ZERO()       _mm256_setzero_pd()
#define FMA(a, b, c) _mm256_fmadd_pd(a, b, c)
#define ADD(a, b)    _mm256_add_pd(a, b)
#include "runtime/gemm_tile.h"

#else
typedef int tn__gemm_avx2_empty; /* a file of C has at least one declaration */
#endif
