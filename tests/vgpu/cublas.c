/* cublas.c: stand-in for libcublas.so: handles, and the matrix products that a runtime calls, as
 * cuBLAS documents them. Everything else that cuBLAS exports is absent. SPDX-License-Identifier:
 * MIT */
#include "tests/vgpu/blas.h"

#include <cublas_v2.h>

#ifndef VGPU_CUBLAS_MAJOR
#define VGPU_CUBLAS_MAJOR 13
#endif

#define API VGPU_EXPORT

struct cublasContext {
    BlasHandle base;
    CUstream stream;
    cublasMath_t math;
    cublasPointerMode_t pointers;
    cublasAtomicsMode_t atomics;
    uint64_t workspace, workspace_bytes;
};

static const char HANDLE[] = "cuBLAS handle";

/* --- handles
 * ------------------------------------------------------------------------------------------
 */

static cublasStatus_t enter(cublasHandle_t h, const char *call)
{
    return blas_enter(h ? &h->base : NULL, call);
}

API cublasStatus_t cublasCreate_v2(cublasHandle_t *h)
{
    if (!h)
        return CUBLAS_STATUS_INVALID_VALUE;
    *h = NULL;
    if (vgpu_call_fails("cublasCreate_v2"))
        return CUBLAS_STATUS_ALLOC_FAILED;
    if (vgpu_current_device() < 0)
        return blas_refuse("cublasCreate_v2", CUBLAS_STATUS_NOT_INITIALIZED,
                           "no context is current");
    void *c = blas_handle_new(sizeof **h, HANDLE);
    if (!c)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *h = c;
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasDestroy_v2(cublasHandle_t h)
{
    cublasStatus_t s = enter(h, "cublasDestroy_v2");
    if (s != CUBLAS_STATUS_SUCCESS)
        return s;
    blas_handle_end(&h->base, HANDLE);
    return s;
}

/* CUDA's headers call streams of the runtime and of the driver differently; they are the same. */
API cublasStatus_t cublasSetStream_v2(cublasHandle_t h, cudaStream_t stream)
{
    cublasStatus_t s = enter(h, "cublasSetStream_v2");
    if (s == CUBLAS_STATUS_SUCCESS) {
        h->stream = (CUstream)stream;
        h->workspace = h->workspace_bytes = 0; /* as documented: back to the default workspace */
    }
    return s;
}

API cublasStatus_t cublasGetStream_v2(cublasHandle_t h, cudaStream_t *stream)
{
    cublasStatus_t s = enter(h, "cublasGetStream_v2");
    if (s != CUBLAS_STATUS_SUCCESS || !stream)
        return s != CUBLAS_STATUS_SUCCESS ? s : CUBLAS_STATUS_INVALID_VALUE;
    *stream = (cudaStream_t)h->stream;
    return s;
}

API cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t h, void *workspace, size_t bytes)
{
    cublasStatus_t s = enter(h, "cublasSetWorkspace_v2");
    if (s != CUBLAS_STATUS_SUCCESS)
        return s;
    if ((uintptr_t)workspace % 256 || (!workspace && bytes))
        return blas_refuse("cublasSetWorkspace_v2", CUBLAS_STATUS_INVALID_VALUE,
                           "the workspace is not aligned to 256 bytes");
    h->workspace = (uint64_t)(uintptr_t)workspace;
    h->workspace_bytes = bytes;
    return s;
}

API cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t h, cublasPointerMode_t mode)
{
    cublasStatus_t s = enter(h, "cublasSetPointerMode_v2");
    if (s != CUBLAS_STATUS_SUCCESS)
        return s;
    if (mode != CUBLAS_POINTER_MODE_HOST && mode != CUBLAS_POINTER_MODE_DEVICE)
        return CUBLAS_STATUS_INVALID_VALUE;
    h->pointers = mode;
    return s;
}

API cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t h, cublasPointerMode_t *mode)
{
    cublasStatus_t s = enter(h, "cublasGetPointerMode_v2");
    if (s != CUBLAS_STATUS_SUCCESS || !mode)
        return s != CUBLAS_STATUS_SUCCESS ? s : CUBLAS_STATUS_INVALID_VALUE;
    *mode = h->pointers;
    return s;
}

API cublasStatus_t cublasSetMathMode(cublasHandle_t h, cublasMath_t mode)
{
    cublasStatus_t s = enter(h, "cublasSetMathMode");
    if (s != CUBLAS_STATUS_SUCCESS)
        return s;
    int base = (int)mode & ~(int)CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    if (base < CUBLAS_DEFAULT_MATH || base > CUBLAS_TF32_TENSOR_OP_MATH)
        return blas_refuse("cublasSetMathMode", CUBLAS_STATUS_INVALID_VALUE, "mode %d", (int)mode);
    h->math = mode;
    return s;
}

API cublasStatus_t cublasGetMathMode(cublasHandle_t h, cublasMath_t *mode)
{
    cublasStatus_t s = enter(h, "cublasGetMathMode");
    if (s != CUBLAS_STATUS_SUCCESS || !mode)
        return s != CUBLAS_STATUS_SUCCESS ? s : CUBLAS_STATUS_INVALID_VALUE;
    *mode = h->math;
    return s;
}

API cublasStatus_t cublasSetAtomicsMode(cublasHandle_t h, cublasAtomicsMode_t mode)
{
    cublasStatus_t s = enter(h, "cublasSetAtomicsMode");
    if (s == CUBLAS_STATUS_SUCCESS)
        h->atomics = mode;
    return s;
}

API cublasStatus_t cublasGetVersion_v2(cublasHandle_t h, int *version)
{
    (void)h; /* NULL is allowed */
    if (!version)
        return CUBLAS_STATUS_INVALID_VALUE;
    *version = VGPU_CUBLAS_MAJOR * 10000;
    return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasGetProperty(libraryPropertyType type, int *value)
{
    if (!value || (int)type < 0 || type > PATCH_LEVEL)
        return CUBLAS_STATUS_INVALID_VALUE;
    *value = type == MAJOR_VERSION ? VGPU_CUBLAS_MAJOR : 0;
    return CUBLAS_STATUS_SUCCESS;
}

API const char *cublasGetStatusName(cublasStatus_t s)
{
    return blas_status_name(s);
}

API const char *cublasGetStatusString(cublasStatus_t s)
{
    return blas_status_text(s);
}

/* --- products
 * ----------------------------------------------------------------------------------------- */

/* The arguments that all products have. */
typedef struct {
    cublasHandle_t h;
    const char *call;
    cublasOperation_t ta, tb;
    int m, n, k;
    const void *alpha, *beta;
    const void *a, *b;
    void *c;
    cudaDataType_t at, bt, ct;
    int lda, ldb, ldc;
    long long sa, sb, sc;
    int batches;
    bool arrays;
    int compute;
} Call;

static bool is_transposed(cublasOperation_t t)
{
    return t != CUBLAS_OP_N; /* C of real numbers is T */
}

static Matrix matrix(const void *at, int type, int ld, long long batch, bool transposed)
{
    return (Matrix){(uint64_t)(uintptr_t)at, type, transposed ? ld : 1, transposed ? 1 : ld, batch};
}

static bool scalar(const struct cublasContext *h, const void *p, int type, Scalar *out)
{
    *out = (Scalar){0, 0, type};
    if (!p)
        return false;
    if (h->pointers == CUBLAS_POINTER_MODE_DEVICE)
        out->at = (uint64_t)(uintptr_t)p;
    else
        out->value = blas_read(p, type);
    return true;
}

static const char *check_sizes(const Call *c)
{
    if (c->ta < CUBLAS_OP_N || c->ta > CUBLAS_OP_C || c->tb < CUBLAS_OP_N || c->tb > CUBLAS_OP_C)
        return "an operation is none of N, T, C";
    if (c->m < 0 || c->n < 0 || c->k < 0 || c->batches < 0)
        return "m, n, k or the number of batches is negative";
    int rows_a = is_transposed(c->ta) ? c->k : c->m, rows_b = is_transposed(c->tb) ? c->n : c->k;
    if (c->lda < (rows_a > 1 ? rows_a : 1))
        return "lda is less than A has rows";
    if (c->ldb < (rows_b > 1 ? rows_b : 1))
        return "ldb is less than B has rows";
    if (c->ldc < (c->m > 1 ? c->m : 1))
        return "ldc is less than C has rows";
    return NULL;
}

/* What the handle's math mode makes of a product in f32. */
static int compute_of(const Call *c)
{
    int math = (int)c->h->math & ~(int)CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION;
    if (c->compute != CUBLAS_COMPUTE_32F || c->at != CUDA_R_32F || c->bt != CUDA_R_32F)
        return c->compute;
    return math == CUBLAS_TF32_TENSOR_OP_MATH ? CUBLAS_COMPUTE_32F_FAST_TF32
           : math == CUBLAS_TENSOR_OP_MATH    ? CUBLAS_COMPUTE_32F_FAST_16F
                                              : c->compute;
}

static cublasStatus_t product(const Call *c)
{
    int scale = 0;
    Rounding rounding = ROUND_NOT;
    cublasStatus_t s = blas_enter_work(c->h ? &c->h->base : NULL, c->call);
    if (s != CUBLAS_STATUS_SUCCESS)
        return s;
    const char *why = check_sizes(c);
    if (why)
        return blas_refuse(c->call, CUBLAS_STATUS_INVALID_VALUE, "%s: m %d n %d k %d ld %d %d %d",
                           why, c->m, c->n, c->k, c->lda, c->ldb, c->ldc);
    why = blas_types(compute_of(c), (int)c->at, (int)c->bt, (int)c->ct, &scale, &rounding);
    if (why)
        return blas_refuse(c->call, CUBLAS_STATUS_NOT_SUPPORTED, "%s: compute %d, A %s, B %s, C %s",
                           why, c->compute, blas_type((int)c->at), blas_type((int)c->bt),
                           blas_type((int)c->ct));
    Product p = {.call = c->call,
                 .m = c->m,
                 .n = c->n,
                 .k = c->k,
                 .batches = c->batches,
                 .arrays = c->arrays,
                 .a = matrix(c->a, (int)c->at, c->lda, c->sa, is_transposed(c->ta)),
                 .b = matrix(c->b, (int)c->bt, c->ldb, c->sb, is_transposed(c->tb)),
                 .c = matrix(c->c, (int)c->ct, c->ldc, c->sc, false),
                 .d = matrix(c->c, (int)c->ct, c->ldc, c->sc, false),
                 .rounding = rounding,
                 .epilogue = EPILOGUE_DEFAULT,
                 .workspace = c->h->workspace};
    /* partial sums: what a split sum would use of it */
    uint64_t partial = (uint64_t)c->m * (uint64_t)c->n * (uint64_t)c->batches * 4;
    p.workspace_bytes = partial < c->h->workspace_bytes ? partial : c->h->workspace_bytes;
    if (!scalar(c->h, c->alpha, scale, &p.alpha) || !scalar(c->h, c->beta, scale, &p.beta))
        return blas_refuse(c->call, CUBLAS_STATUS_INVALID_VALUE, "alpha or beta is NULL");
    return blas_enqueue(&p, c->h->stream);
}

API cublasStatus_t cublasSgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                                  int m, int n, int k, const float *alpha, const float *A, int lda,
                                  const float *B, int ldb, const float *beta, float *C, int ldc)
{
    return product(&(Call){h,          __func__,   ta,         tb,  m,     n,
                           k,          alpha,      beta,       A,   B,     C,
                           CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, lda, ldb,   ldc,
                           0,          0,          0,          1,   false, CUBLAS_COMPUTE_32F});
}

API cublasStatus_t cublasDgemm_v2(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                                  int m, int n, int k, const double *alpha, const double *A,
                                  int lda, const double *B, int ldb, const double *beta, double *C,
                                  int ldc)
{
    return product(&(Call){h,          __func__,   ta,         tb,  m,     n,
                           k,          alpha,      beta,       A,   B,     C,
                           CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, lda, ldb,   ldc,
                           0,          0,          0,          1,   false, CUBLAS_COMPUTE_64F});
}

API cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta,
                                             cublasOperation_t tb, int m, int n, int k,
                                             const float *alpha, const float *A, int lda,
                                             long long int sa, const float *B, int ldb,
                                             long long int sb, const float *beta, float *C, int ldc,
                                             long long int sc, int batches)
{
    return product(&(Call){h,          __func__,   ta,         tb,      m,     n,
                           k,          alpha,      beta,       A,       B,     C,
                           CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, lda,     ldb,   ldc,
                           sa,         sb,         sc,         batches, false, CUBLAS_COMPUTE_32F});
}

API cublasStatus_t cublasDgemmStridedBatched(cublasHandle_t h, cublasOperation_t ta,
                                             cublasOperation_t tb, int m, int n, int k,
                                             const double *alpha, const double *A, int lda,
                                             long long int sa, const double *B, int ldb,
                                             long long int sb, const double *beta, double *C,
                                             int ldc, long long int sc, int batches)
{
    return product(&(Call){h,          __func__,   ta,         tb,      m,     n,
                           k,          alpha,      beta,       A,       B,     C,
                           CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, lda,     ldb,   ldc,
                           sa,         sb,         sc,         batches, false, CUBLAS_COMPUTE_64F});
}

API cublasStatus_t cublasSgemmBatched(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                                      int m, int n, int k, const float *alpha,
                                      const float *const A[], int lda, const float *const B[],
                                      int ldb, const float *beta, float *const C[], int ldc,
                                      int batches)
{
    /* the array is only read, as a value of the device */
    return product(&(Call){h,
                           __func__,
                           ta,
                           tb,
                           m,
                           n,
                           k,
                           alpha,
                           beta,
                           (const void *)A,
                           (const void *)B,
                           (void *)(uintptr_t)C,
                           CUDA_R_32F,
                           CUDA_R_32F,
                           CUDA_R_32F,
                           lda,
                           ldb,
                           ldc,
                           0,
                           0,
                           0,
                           batches,
                           true,
                           CUBLAS_COMPUTE_32F});
}

API cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m,
                                int n, int k, const void *alpha, const void *A, cudaDataType at,
                                int lda, const void *B, cudaDataType bt, int ldb, const void *beta,
                                void *C, cudaDataType ct, int ldc, cublasComputeType_t compute,
                                cublasGemmAlgo_t algo)
{
    (void)algo; /* has no meaning on newer devices */
    return product(&(Call){h,  __func__, ta,  tb,  m, n, k, alpha, beta,  A,           B, C, at, bt,
                           ct, lda,      ldb, ldc, 0, 0, 0, 1,     false, (int)compute});
}

API cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
    const void *alpha, const void *A, cudaDataType at, int lda, long long int sa, const void *B,
    cudaDataType bt, int ldb, long long int sb, const void *beta, void *C, cudaDataType ct, int ldc,
    long long int sc, int batches, cublasComputeType_t compute, cublasGemmAlgo_t algo)
{
    (void)algo;
    return product(&(Call){h,    __func__, ta, tb, m,  n,       k,     alpha,
                           beta, A,        B,  C,  at, bt,      ct,    lda,
                           ldb,  ldc,      sa, sb, sc, batches, false, (int)compute});
}

API cublasStatus_t cublasGemmBatchedEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb,
                                       int m, int n, int k, const void *alpha,
                                       const void *const A[], cudaDataType at, int lda,
                                       const void *const B[], cudaDataType bt, int ldb,
                                       const void *beta, void *const C[], cudaDataType ct, int ldc,
                                       int batches, cublasComputeType_t compute,
                                       cublasGemmAlgo_t algo)
{
    (void)algo;
    return product(&(Call){h,
                           __func__,
                           ta,
                           tb,
                           m,
                           n,
                           k,
                           alpha,
                           beta,
                           (const void *)A,
                           (const void *)B,
                           (void *)(uintptr_t)C,
                           at,
                           bt,
                           ct,
                           lda,
                           ldb,
                           ldc,
                           0,
                           0,
                           0,
                           batches,
                           true,
                           (int)compute});
}

/* --- matrix times vector
 * ------------------------------------------------------------------------------ */

/* A vector of n elements, `step` apart; with a negative one it begins at its end. */
static Matrix vector(const void *at, int type, int n, int step)
{
    int64_t back = step < 0 ? (int64_t)(1 - n) * step * blas_size(type) : 0;
    return (Matrix){(uint64_t)(uintptr_t)at + (uint64_t)back, type, step, step == 1 ? n : 1, 0};
}

typedef struct {
    const void *alpha, *a, *x, *beta;
    void *y;
} Pointers;

static cublasStatus_t gemv(cublasHandle_t h, const char *call, int type, cublasOperation_t t, int m,
                           int n, Pointers at, int lda, int incx, int incy)
{
    cublasStatus_t s = blas_enter_work(h ? &h->base : NULL, call);
    if (s != CUBLAS_STATUS_SUCCESS)
        return s;
    if (m < 0 || n < 0 || lda < (m > 1 ? m : 1) || !incx || !incy || t < CUBLAS_OP_N ||
        t > CUBLAS_OP_C)
        return blas_refuse(call, CUBLAS_STATUS_INVALID_VALUE, "m %d n %d lda %d incx %d incy %d", m,
                           n, lda, incx, incy);
    int out = is_transposed(t) ? n : m, in = is_transposed(t) ? m : n;
    Product p = {.call = call,
                 .m = out,
                 .n = 1,
                 .k = in,
                 .batches = m && n ? 1 : 0,
                 .a = matrix(at.a, type, lda, 0, is_transposed(t)),
                 .b = vector(at.x, type, in, incx),
                 .c = vector(at.y, type, out, incy),
                 .d = vector(at.y, type, out, incy),
                 .epilogue = EPILOGUE_DEFAULT};
    if (!scalar(h, at.alpha, type, &p.alpha) || !scalar(h, at.beta, type, &p.beta))
        return blas_refuse(call, CUBLAS_STATUS_INVALID_VALUE, "alpha or beta is NULL");
    return blas_enqueue(&p, h->stream);
}

API cublasStatus_t cublasSgemv_v2(cublasHandle_t h, cublasOperation_t t, int m, int n,
                                  const float *alpha, const float *A, int lda, const float *x,
                                  int incx, const float *beta, float *y, int incy)
{
    return gemv(h, __func__, CUDA_R_32F, t, m, n, (Pointers){alpha, A, x, beta, y}, lda, incx,
                incy);
}

API cublasStatus_t cublasDgemv_v2(cublasHandle_t h, cublasOperation_t t, int m, int n,
                                  const double *alpha, const double *A, int lda, const double *x,
                                  int incx, const double *beta, double *y, int incy)
{
    return gemv(h, __func__, CUDA_R_64F, t, m, n, (Pointers){alpha, A, x, beta, y}, lda, incx,
                incy);
}
