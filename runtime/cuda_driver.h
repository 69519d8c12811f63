/* cuda_driver.h: the part of the CUDA driver's and cuBLAS's binary interface that is used, found
 * with dlopen, so that nothing is needed to build and one binary runs with and without them.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_CUDA_DRIVER_H
#define TENON_CUDA_DRIVER_H

#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
    CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
    CUDA_ERROR_NOT_READY = 600
};
enum {
    CU_ATTR_MAX_THREADS_PER_BLOCK = 1,
    CU_ATTR_SHARED_PER_BLOCK = 8,
    CU_ATTR_WARP_SIZE = 10,
    CU_ATTR_MULTIPROCESSORS = 16,
    CU_ATTR_MAJOR = 75,
    CU_ATTR_MINOR = 76
};
enum { CU_EVENT_DEFAULT = 0, CU_EVENT_DISABLE_TIMING = 2 };
enum { CU_HOST_PORTABLE = 1 };
enum { CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 };

typedef struct {
#define CU(field, symbol, parameters) CUresult(*field) parameters;
#include "runtime/cuda_driver.def"
#undef CU
} tn__driver;

typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
enum { CU_STREAM_NON_BLOCKING = 1 };

/* CUDA_KERNEL_NODE_PARAMS of CUDA 12 */
typedef struct {
    CUfunction function;
    unsigned grid[3], block[3], shared;
    void **parameters, **extra;
    void *kernel;
    CUcontext context;
} tn__kernel_node;

/* All NULL where the driver is too old. */
typedef struct {
#define CU(field, symbol, parameters) CUresult(*field) parameters;
#include "runtime/cuda_graphs.def"
#undef CU
} tn__graphs;

typedef struct cublasContext *cublasHandle_t;

enum { CUBLAS_OP_N = 0, CUBLAS_OP_T = 1 };
enum { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum { CUBLAS_GEMM_DEFAULT = -1 };
/* Products of f32 in f32, sums of 16-bit numbers in f32 to the end. */
enum { CUBLAS_DEFAULT_MATH = 0, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16 };

typedef struct {
#define BLAS(field, symbol, parameters) int(*field) parameters;
#include "runtime/cuda_blas.def"
#undef BLAS
} tn__blas;

/* cuBLASLt: products with an epilogue. */
typedef struct cublasLtContext *cublasLtHandle_t;
typedef struct {
    uint64_t data[8];
} tn__lt_algo;
typedef struct {
    tn__lt_algo algo;
    size_t workspace;
    int state; /* 0: it can be used */
    float waves;
    int reserved[4];
} tn__lt_result;

typedef struct {
#define LT(field, symbol, parameters) int(*field) parameters;
#include "runtime/cuda_blaslt.def"
#undef LT
} tn__lt;

#endif
