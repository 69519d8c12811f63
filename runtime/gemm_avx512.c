/* gemm_avx512.c: register-tile kernels for x86-64 processors with AVX-512. SPDX-License-Identifier:
 * MIT */
#if defined(__x86_64__)

#include "runtime/gemm_kernels.h"
#include "runtime/gemm_transpose.h"

#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")))
#define MR     14

#define T            float
#define V            __m512
#define LANES        16
#define NAME(x)      x##_f32
#define KERNELS      tn__gemm_f32_avx512
#define WIDE         1024
#define LOAD(p)      _mm512_loadu_ps(p)
#define STORE(p, x)  _mm512_storeu_ps(p, x)
#define SET1(x)      _mm512_set1_ps(x)
#define ZERO()       _mm512_setzero_ps()
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define ADD(a, b)    _mm512_add_ps(a, b)
#define TRANSPOSE    tn__transpose_8
#define TRANSPOSE_16 tn__transpose_16
#define WIDEN_F16(p) _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(p)))
#define WIDEN_BF16(p)                                                                              \
    _mm512_castsi512_ps(                                                                           \
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(p))), 16))
TRANSPOSES(TARGET)
TRANSPOSES_16(TARGET)
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
#undef TRANSPOSE_16
#undef WIDEN_F16
#undef WIDEN_BF16
#undef WIDE

/* less code: f64 is rare */
#undef MR
#define MR           6
#define DOT_MAX      2
#define T            double
#define V            __m512d
#define LANES        8
#define NAME(x)      x##_f64
#define KERNELS      tn__gemm_f64_avx512
#define LOAD(p)      _mm512_loadu_pd(p)
#define STORE(p, x)  _mm512_storeu_pd(p, x)
#define SET1(x)      _mm512_set1_pd(x)
#define ZERO()       _mm512_setzero_pd()
#define FMA(a, b, c) _mm512_fmadd_pd(a, b, c)
#define ADD(a, b)    _mm512_add_pd(a, b)
#include "runtime/gemm_tile.h"

#else
typedef int tn__gemm_avx512_empty; /* a file of C has at least one declaration */
#endif
