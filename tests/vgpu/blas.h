/* blas.h: matrix products of the stand-ins for cuBLAS and cuBLASLt: what a call asks for, and the
 * work that is queued for it. Both libraries have an own copy of it. SPDX-License-Identifier: MIT
 */
#ifndef VGPU_BLAS_H
#define VGPU_BLAS_H

#include "tests/vgpu/hook.h"

#include <cublas_api.h>

/* A matrix in device memory: element (i, j) of batch b is at `at` + (i * rows + j * cols + b *
 * batch) elements. */
typedef struct {
    uint64_t at;
    int type; /* cudaDataType_t */
    int64_t rows, cols, batch;
} Matrix;

/* What inputs are rounded to before they are multiplied. */
typedef enum { ROUND_NOT, ROUND_TF32, ROUND_F16, ROUND_BF16 } Rounding;

/* alpha or beta: a number, or where one lies in device memory. */
typedef struct {
    double value;
    uint64_t at;
    int type;
} Scalar;

/* After the product: bits of cublasLtEpilogue_t. */
enum {
    EPILOGUE_DEFAULT = 1,
    EPILOGUE_RELU = 2,
    EPILOGUE_BIAS = 4,
    EPILOGUE_DRELU = 8,
    EPILOGUE_BGRAD = 16,
    EPILOGUE_GELU = 32,
    EPILOGUE_DGELU = 64,
    EPILOGUE_AUX = 128,
    EPILOGUE_BGRADA = 256,
    EPILOGUE_BGRADB = 512
};

/* d = act(alpha a b + beta c + bias), a: m x k, b: k x n, for each batch. Plain bytes: the driver
 * keeps a copy. */
typedef struct {
    const char *call; /* "cublasSgemm_v2" */
    int64_t m, n, k, batches;
    bool arrays; /* a.at, b.at, c.at, d.at: arrays of `batches` addresses in device memory */
    Matrix a, b, c, d;
    Rounding rounding;
    Scalar alpha, beta;
    uint32_t epilogue;
    uint64_t bias, aux;
    int64_t bias_batch, aux_ld, aux_batch;
    uint64_t workspace, workspace_bytes;
} Product;

/** Bytes of an element, 0: a type that the stand-in does not have. */
int64_t blas_size(int type);
const char *blas_type(int type);

/** A host value of the type, as alpha and beta are given. */
double blas_read(const void *p, int type);
void blas_write(void *p, int type, double value);

/** Whether cuBLAS multiplies these types; *rounding: what the compute type lets it do to inputs.
 * Returns NULL, or why not. `scale`: the type that alpha and beta must have. */
const char *blas_types(int compute, int a, int b, int c, int *scale, Rounding *rounding);

/** Says on stderr why a call is refused; returns the status. */
cublasStatus_t blas_refuse(const char *call, cublasStatus_t status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/** Checks what both libraries check (overlaps, alignment of elements, strides of batches) and
 * queues. */
cublasStatus_t blas_enqueue(const Product *p, CUstream stream);

/** The work: blas_run.c. */
LibraryWork blas_run;

/* What the handles of both libraries begin with: one of cuBLAS may be given to cuBLASLt. They are
 * never freed, so that use after destruction is seen. */
typedef struct BlasHandle {
    uint64_t magic;
    struct BlasHandle *all;
    int device; /* that it was made for, or -1 */
} BlasHandle;

/** NULL: no memory. `kind`: "cuBLAS handle", as the leak check calls it. */
BlasHandle *blas_handle_new(size_t bytes, const char *kind);
void blas_handle_end(BlasHandle *h, const char *kind);
/** Whether the handle lives and this call is not made to fail (VGPU_FAIL). */
cublasStatus_t blas_enter(const BlasHandle *h, const char *call);
/** The same, and the handle's device is current. */
cublasStatus_t blas_enter_work(const BlasHandle *h, const char *call);

/** For status codes, both libraries the same texts. */
const char *blas_status_name(cublasStatus_t s);
const char *blas_status_text(cublasStatus_t s);

#endif
