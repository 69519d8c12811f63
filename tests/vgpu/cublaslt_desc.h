/* cublaslt_desc.h: descriptors of the stand-in for cuBLASLt as they lie in cublasLt.h's opaque
 * structs. SPDX-License-Identifier: MIT */
#ifndef VGPU_CUBLASLT_DESC_H
#define VGPU_CUBLASLT_DESC_H

#include "tests/vgpu/blas.h"

#include <cublasLt.h>

typedef enum {
    DESC_LAYOUT = 0x4c594f54,
    DESC_MATMUL = 0x4d4d554c,
    DESC_PREFERENCE = 0x50524546
} DescKind;

typedef struct {
    uint32_t kind, type;
    int32_t order, batches;
    uint64_t rows, cols;
    int64_t ld, batch_stride;
} LayoutDesc;

typedef struct {
    uint32_t kind, epilogue;
    int32_t compute, scale, pointers, ta, tb, tc, fill, bias_type, aux_type, sm_count;
    uint64_t bias, aux;
    int64_t bias_batch, aux_ld, aux_batch;
    int8_t fast;
} MatmulDesc;

typedef struct {
    uint32_t kind, search, reductions;
    uint32_t align[4]; /* of A, B, C, D, in bytes */
    float waves;
    uint64_t workspace, implementations;
} PreferenceDesc;

/** Copies of what the handles hold; false: NULL, destroyed, or another kind of descriptor. */
bool desc_layout(const void *handle, LayoutDesc *out);
bool desc_matmul(const void *handle, MatmulDesc *out);
bool desc_preference(const void *handle, PreferenceDesc *out);

#endif
