/* gemm_kernels.h: what gemm.c wants from each kind of processor. SPDX-License-Identifier: MIT */
#ifndef TENON_RUNTIME_GEMM_KERNELS_H
#define TENON_RUNTIME_GEMM_KERNELS_H

#include "runtime/gemm.h"

#include <stdint.h>
#include <string.h>

enum {
    TN__GEMM_KB =
        256, /* k is summed in blocks of this length, on every processor: part of the result */
    TN__GEMM_MAX_NR = 32,
    TN__GEMM_WIDE_ROWS = 2
};

/* One block of k (k <= TN__GEMM_KB) of a panel of columns: c[m, 0 .. cols) (+)= sum of a[m, k] b[k,
 * 0 ..) */
typedef struct {
    int64_t m, k;
    const void *a;
    int64_t a_m, a_k;
    const void *b;
    int64_t b_k; /* columns are neighbours */
    void *copy;  /* NULL, or where b is written, side by side, while it is read: m is `mr` then, and
                    there are two vectors */
    void *c;
    int64_t c_m;
    int add;     /* 0: c is overwritten */
    int vectors; /* columns / lanes: 1, 2, or with few rows up to `wide` */
} tn__gemm_panel;

/* c[m, n] (+)= sum over all k of a[m, k] b[k, n]; k runs along the memory of a and b. */
typedef struct {
    int64_t m, n, k;
    const void *a;
    int64_t a_m;
    const void *b;
    int64_t b_n;
    void *c;
    int64_t c_m, c_n;
    int add;
} tn__gemm_dots;

typedef struct {
    int lanes; /* numbers in a vector */
    int mr;    /* rows of the largest register tile */
    int wide;  /* vectors of a panel of up to TN__GEMM_WIDE_ROWS rows at most; 0: 2 */
    int copies; /* whether `panel` heeds `copy` */
    void (*panel)(const tn__gemm_panel *p);
    /* to[i * width + j] = from[i * rows + j * cols] of f16 or bf16 numbers, for i < n_i, j < n_j,
     * which become less where the rest is left to the caller. NULL: all is */
    void (*widen)(int bf16, float *to, int64_t width, const uint16_t *from, int64_t rows,
                  int64_t cols, int64_t *n_i, int64_t *n_j);
    void (*dots)(const tn__gemm_dots *p);
    /* to[k * to_k + n] = b[k * b_k + n * b_n], zero for cols <= n < width */
    void (*pack)(void *to, int64_t to_k, const void *b, int64_t b_k, int64_t b_n, int64_t k,
                 int64_t cols, int64_t width);
} tn__gemm_kernels;

extern const tn__gemm_kernels tn__gemm_f32_base, tn__gemm_f64_base;
#if defined(__x86_64__)
extern const tn__gemm_kernels tn__gemm_f32_avx2, tn__gemm_f64_avx2;
extern const tn__gemm_kernels tn__gemm_f32_avx512, tn__gemm_f64_avx512;
#endif

typedef enum { TN__GEMM_BASE, TN__GEMM_AVX2, TN__GEMM_AVX512 } tn__gemm_processor;

/** tn__gemm with the kernels for `most` or, where the processor has less, the best it has. */
int tn__gemm_on(const tn__gemm_args *g, tn__pool *pool, tn__gemm_processor most);

#endif
