/* gemm.h: products of matrices on the CPU. SPDX-License-Identifier: MIT */
#ifndef TENON_RUNTIME_GEMM_H
#define TENON_RUNTIME_GEMM_H

#include "runtime/pool.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TN__GEMM_BATCHES = 3 };

/* A matrix (or, for sums, a vector) for each batch index; strides in elements, of any sign. */
typedef struct {
    void *data; /* element 0; never written for a and b */
    int64_t rows, cols;
    int64_t batch[TN__GEMM_BATCHES];
} tn__gemm_operand;

/* c[i.., m, n] = sum over k of a[i.., m, k] b[i.., k, n], and while at it, if they have data,
 * sum_a[i.., m] = sum over k of a[i.., m, k] and sum_b[i.., n] = sum over k of b[i.., k, n].
 * All indices of an operand give different elements, except that inputs may have strides of 0.
 * Outputs do not overlap inputs. */
typedef struct {
    int dtype;   /* of a and b: TN_F32, TN_F64, TN_BF16, TN_F16 */
    int c_dtype; /* of c and the sums: the same, or TN_F32 for the 16-bit ones; 0: dtype */
    int64_t m, n, k;
    int64_t
        batch[TN__GEMM_BATCHES]; /* 0 in place of 1 is allowed when all of them are 0: no batch */
    tn__gemm_operand a, b, c;
    tn__gemm_operand sum_a, sum_b; /* stride: rows or cols, whichever is not 0 */
    int accumulate;                /* c += instead of c = */
    int accumulate_sums;
    const void *panels; /* b as tn__gemm_pack wrote it: read in its place where that is faster; or
                           NULL. b still has its data: sums, and few rows, read that */
} tn__gemm_args;

/** Computes as described. Accumulates in f32 (f64 for f64) and rounds 16-bit results once. The bits
 * of a result depend on shapes only, neither on the number of threads nor on the kind of processor,
 * provided it has fused multiply-add; one without has its own. Returns 0, or -1 for arguments that
 * make no sense (an unknown dtype, negative sizes). Uses up to 160 KiB of stack, and for
 * large products memory that the pool keeps; without memory or pool they are slower, or allocate.
 */
int tn__gemm(const tn__gemm_args *g, tn__pool *pool);

/** Memory for a copy of b that products of its shape read fastest; 0: b is best as it is. The copy
 * is for all batches: they must share b. kept: for many products to come, not for this one alone. */
size_t tn__gemm_pack_bytes(const tn__gemm_args *g, bool kept);
void tn__gemm_pack(const tn__gemm_args *g, void *to, tn__pool *pool);

/** Rows lo .. hi-1 of c alone, without the sums, in the calling thread; rows are counted over
 * (batch[0], batch[1], batch[2], m). The bits are those of tn__gemm. */
int tn__gemm_rows(const tn__gemm_args *g, int64_t lo, int64_t hi);
/** The sums alone. */
int tn__gemm_sums(const tn__gemm_args *g, tn__pool *pool);

#endif
