/* test_blas.c: the stand-ins for cuBLAS and cuBLASLt against sums in double: types, transposition,
 * leading dimensions, batches, scalars, epilogues; and what they refuse. SPDX-License-Identifier:
 * MIT */
#include "tests/vgpu/user.h"

#include <cublasLt.h>
#include <cublas_v2.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static cublasHandle_t blas;
static cublasLtHandle_t light;

/* --- numbers of a type on the host
 * -------------------------------------------------------------------- */

static size_t size_of(cudaDataType t)
{
    return t == CUDA_R_64F ? 8 : t == CUDA_R_32F ? 4 : 2;
}

static double get(const void *p, size_t i, cudaDataType t)
{
    uint32_t w;
    uint16_t h;
    float f;
    if (t == CUDA_R_64F)
        return ((const double *)p)[i];
    if (t == CUDA_R_32F)
        return (double)((const float *)p)[i];
    if (t == CUDA_R_16F)
        return (double)((const _Float16 *)p)[i];
    h = ((const uint16_t *)p)[i];
    w = (uint32_t)h << 16;
    memcpy(&f, &w, sizeof f);
    return (double)f;
}

static void put(void *p, size_t i, cudaDataType t, double v)
{
    float f = (float)v;
    uint32_t w;
    if (t == CUDA_R_64F)
        ((double *)p)[i] = v;
    else if (t == CUDA_R_32F)
        ((float *)p)[i] = f;
    else if (t == CUDA_R_16F)
        ((_Float16 *)p)[i] = (_Float16)f;
    else {
        memcpy(&w, &f, sizeof w);
        ((uint16_t *)p)[i] = (uint16_t)((w + 0x7fff + (w >> 16 & 1)) >> 16);
    }
}

/* An array on both sides. */
typedef struct {
    cudaDataType type;
    size_t n;
    void *host;
    CUdeviceptr device;
} Array;

static Array array(cudaDataType type, size_t n, unsigned seed)
{
    Array a = {type, n, user_malloc(n * size_of(type)), 0};
    float *x = user_numbers(n, seed);
    for (size_t i = 0; i < n; i++)
        put(a.host, i, type, (double)x[i]);
    free(x);
    a.device = user_upload(a.host, n * size_of(type));
    return a;
}

static Array output(cudaDataType type, size_t n)
{
    return (Array){type, n, calloc(n, size_of(type)), user_alloc(n * size_of(type))};
}

static void drop(Array *a)
{
    free(a->host);
    CHECK(cuMemFree(a->device));
}

static double at(const Array *a, size_t i)
{
    return get(a->host, i, a->type);
}

/* Columns of `rows` elements, ld apart: what lies between was never written, and is not read. */
static void download(Array *a, size_t rows, size_t cols, size_t ld)
{
    CHECK(cuCtxSynchronize());
    for (size_t j = 0; j < cols; j++)
        CHECK(cuMemcpyDtoH((char *)a->host + j * ld * size_of(a->type),
                           a->device + j * ld * size_of(a->type), rows * size_of(a->type)));
}

static double tolerance(cudaDataType t, int compute)
{
    if (compute == CUBLAS_COMPUTE_32F_FAST_TF32 || compute == CUBLAS_COMPUTE_32F_FAST_16F)
        return 1e-2;
    return t == CUDA_R_64F ? 1e-12 : t == CUDA_R_32F ? 2e-5 : t == CUDA_R_16F ? 1e-2 : 8e-2;
}

static void assert_close(double got, double expected, double tolerance_)
{
    if (!(fabs(got - expected) <= tolerance_ * (1 + fabs(expected))))
        fail_msg("%.9g, expected %.9g", got, expected);
}

/* --- products
 * ----------------------------------------------------------------------------------------- */

typedef struct {
    int m, n, k, lda, ldb, ldc, batches;
    cublasOperation_t ta, tb;
    cudaDataType ab, c;
    int compute;
    double alpha, beta;
} Case;

static double expected_at(const Case *p, const Array *a, const Array *b, int batch, int i, int j)
{
    double sum = 0;
    size_t a0 = (size_t)batch * (size_t)p->lda * (size_t)(p->ta ? p->m : p->k);
    size_t b0 = (size_t)batch * (size_t)p->ldb * (size_t)(p->tb ? p->k : p->n);
    for (int l = 0; l < p->k; l++) {
        size_t ia = a0 + (size_t)(p->ta ? l + i * p->lda : i + l * p->lda);
        size_t ib = b0 + (size_t)(p->tb ? j + l * p->ldb : l + j * p->ldb);
        sum += at(a, ia) * at(b, ib);
    }
    return p->alpha * sum;
}

static void run_case(const Case *p)
{
    size_t na = (size_t)p->lda * (size_t)(p->ta ? p->m : p->k) * (size_t)p->batches;
    size_t nb = (size_t)p->ldb * (size_t)(p->tb ? p->k : p->n) * (size_t)p->batches;
    size_t nc = (size_t)p->ldc * (size_t)p->n * (size_t)p->batches;
    Array a = array(p->ab, na, 1), b = array(p->ab, nb, 2);
    Array c = p->beta != 0 ? array(p->c, nc, 3) : output(p->c, nc), before = array(p->c, nc, 3);
    bool half = p->compute == CUBLAS_COMPUTE_16F, twice = p->compute == CUBLAS_COMPUTE_64F;
    char alpha[8], beta[8];
    put(alpha, 0, half ? CUDA_R_16F : twice ? CUDA_R_64F : CUDA_R_32F, p->alpha);
    put(beta, 0, half ? CUDA_R_16F : twice ? CUDA_R_64F : CUDA_R_32F, p->beta);
    cublasStatus_t s = cublasGemmStridedBatchedEx(
        blas, p->ta, p->tb, p->m, p->n, p->k, alpha, (void *)a.device, p->ab, p->lda,
        (long long)na / p->batches, (void *)b.device, p->ab, p->ldb, (long long)nb / p->batches,
        beta, (void *)c.device, p->c, p->ldc, (long long)nc / p->batches, p->batches,
        (cublasComputeType_t)p->compute, CUBLAS_GEMM_DEFAULT);
    assert_int_equal(s, CUBLAS_STATUS_SUCCESS);
    download(&c, (size_t)p->m, (size_t)(p->n * p->batches), (size_t)p->ldc);
    for (int batch = 0; batch < p->batches; batch++)
        for (int j = 0; j < p->n; j++)
            for (int i = 0; i < p->m; i++) {
                size_t ic = (size_t)((batch * p->n + j) * p->ldc + i);
                double e = expected_at(p, &a, &b, batch, i, j);
                if (p->beta != 0)
                    e += p->beta * at(&before, ic);
                assert_close(at(&c, ic), e, tolerance(p->c, p->compute));
            }
    drop(&a);
    drop(&b);
    drop(&c);
    drop(&before);
}

static void products(void **state)
{
    (void)state;
    static const struct {
        cudaDataType ab, c;
        int compute;
    } types[] = {{CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
                 {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F},
                 {CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F},
                 {CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
                 {CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_16F},
                 {CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F},
                 {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F},
                 {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32},
                 {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_16F}};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
        for (int trans = 0; trans < 4; trans++)
            for (int scaled = 0; scaled < 3; scaled++) {
                Case p = {.m = 19,
                          .n = 23,
                          .k = 31,
                          .lda = 37,
                          .ldb = 41,
                          .ldc = scaled == 1 ? 19 : 29,
                          .batches = scaled == 2 ? 3 : 1,
                          .ta = trans & 1 ? CUBLAS_OP_T : CUBLAS_OP_N,
                          .tb = trans & 2 ? CUBLAS_OP_T : CUBLAS_OP_N,
                          .ab = types[t].ab,
                          .c = types[t].c,
                          .compute = types[t].compute,
                          .alpha = scaled ? 0.75 : 1,
                          .beta = scaled == 2 ? -0.5 : 0};
                run_case(&p);
            }
}

/* Empty sums scale C only; empty outputs do nothing. */
static void empty(void **state)
{
    (void)state;
    float two = 2, zero = 0, c[30], *before = user_numbers(30, 3);
    CUdeviceptr d = user_upload(before, sizeof c);
    assert_int_equal(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 5, 6, 0, &two, NULL, 5, NULL, 1,
                                 &two, (float *)d, 5),
                     CUBLAS_STATUS_SUCCESS);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(c, d, sizeof c));
    for (int i = 0; i < 30; i++)
        assert_true(c[i] == 2 * before[i]);
    assert_int_equal(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 0, 6, 3, &two, NULL, 1, NULL, 3,
                                 &zero, NULL, 1),
                     CUBLAS_STATUS_SUCCESS);
    CHECK(cuMemFree(d));
    free(before);
}

/* Addresses in device memory; scalars there too. */
static void arrays_of_pointers(void **state)
{
    (void)state;
    enum { N = 8, BATCHES = 5 };
    Array a = array(CUDA_R_32F, N * N * BATCHES, 1), b = array(CUDA_R_32F, N * N, 2);
    Array c = output(CUDA_R_32F, N * N * BATCHES);
    CUdeviceptr pa[BATCHES], pb[BATCHES], pc[BATCHES];
    float scalars[2] = {2, 0};
    for (int i = 0; i < BATCHES; i++) {
        pa[i] = a.device + (CUdeviceptr)(BATCHES - 1 - i) * N * N * 4;
        pb[i] = b.device;
        pc[i] = c.device + (CUdeviceptr)i * N * N * 4;
    }
    CUdeviceptr da = user_upload(pa, sizeof pa), db = user_upload(pb, sizeof pb);
    CUdeviceptr dc = user_upload(pc, sizeof pc), ds = user_upload(scalars, sizeof scalars);
    assert_int_equal(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_DEVICE), CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cublasGemmBatchedEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, (void *)ds,
                                         (const void *const *)da, CUDA_R_32F, N,
                                         (const void *const *)db, CUDA_R_32F, N, (void *)(ds + 4),
                                         (void *const *)dc, CUDA_R_32F, N, BATCHES,
                                         CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                     CUBLAS_STATUS_SUCCESS);
    assert_int_equal(cublasSetPointerMode(blas, CUBLAS_POINTER_MODE_HOST), CUBLAS_STATUS_SUCCESS);
    download(&c, N, N * BATCHES, N);
    for (int batch = 0; batch < BATCHES; batch++)
        for (int i = 0; i < N * N; i++) {
            double sum = 0;
            for (int l = 0; l < N; l++)
                sum += at(&a, (size_t)((BATCHES - 1 - batch) * N * N + i % N + l * N)) *
                       at(&b, (size_t)(l + i / N * N));
            assert_close(at(&c, (size_t)(batch * N * N + i)), 2 * sum, 1e-5);
        }
    CUdeviceptr all[] = {da, db, dc, ds};
    for (int i = 0; i < 4; i++)
        CHECK(cuMemFree(all[i]));
    drop(&a);
    drop(&b);
    drop(&c);
}

static void vectors(void **state)
{
    (void)state;
    enum { M = 13, N = 9, LD = 17 };
    static const int steps[][2] = {{1, 1}, {2, 3}, {-1, 1}, {-2, -3}};
    Array a = array(CUDA_R_32F, LD * N, 1);
    float alpha = 1.5f, beta = 0.5f;
    for (int s = 0; s < 4; s++)
        for (int t = 0; t < 2; t++) {
            int in = t ? M : N, out = t ? N : M, dx = steps[s][0], dy = steps[s][1];
            Array x = array(CUDA_R_32F, (size_t)(in * abs(dx)), 2);
            Array y = array(CUDA_R_32F, (size_t)(out * abs(dy)), 3);
            Array before = array(CUDA_R_32F, y.n, 3);
            assert_int_equal(cublasSgemv(blas, t ? CUBLAS_OP_T : CUBLAS_OP_N, M, N, &alpha,
                                         (float *)a.device, LD, (float *)x.device, dx, &beta,
                                         (float *)y.device, dy),
                             CUBLAS_STATUS_SUCCESS);
            download(&y, y.n, 1, y.n);
            for (int i = 0; i < out; i++) {
                size_t iy = (size_t)(dy > 0 ? i * dy : (i - out + 1) * dy);
                double sum = 0;
                for (int l = 0; l < in; l++)
                    sum += at(&a, (size_t)(t ? l + i * LD : i + l * LD)) *
                           at(&x, (size_t)(dx > 0 ? l * dx : (l - in + 1) * dx));
                assert_close(at(&y, iy), 1.5 * sum + 0.5 * at(&before, iy), 1e-5);
            }
            drop(&x);
            drop(&y);
            drop(&before);
        }
    drop(&a);
}

/* What cuBLAS refuses, with its status. */
static void refused(void **state)
{
    (void)state;
    float one = 1, zero = 0, *p = (float *)user_alloc(4096);
    cublasOperation_t n = CUBLAS_OP_N;
    assert_int_equal(cublasSgemm(blas, n, n, 8, 8, 8, &one, p, 7, p + 64, 8, &zero, p + 128, 8),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasSgemm(blas, n, n, -1, 8, 8, &one, p, 8, p + 64, 8, &zero, p + 128, 8),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasSgemm(blas, n, n, 8, 8, 8, NULL, p, 8, p + 64, 8, &zero, p + 128, 8),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasSgemm(NULL, n, n, 8, 8, 8, &one, p, 8, p + 64, 8, &zero, p + 128, 8),
                     CUBLAS_STATUS_NOT_INITIALIZED);
    /* the output begins within an input */
    assert_int_equal(cublasSgemm(blas, n, n, 8, 8, 8, &one, p, 8, p + 64, 8, &zero, p + 32, 8),
                     CUBLAS_STATUS_INVALID_VALUE);
    /* batches of the output in each other */
    assert_int_equal(cublasSgemmStridedBatched(blas, n, n, 8, 8, 8, &one, p, 8, 0, p + 64, 8, 0,
                                               &zero, p + 128, 8, 32, 2),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasGemmEx(blas, n, n, 8, 8, 8, &one, p, CUDA_R_32F, 8, p + 64, CUDA_R_32F,
                                  8, &zero, p + 128, CUDA_R_16F, 8, CUBLAS_COMPUTE_32F,
                                  CUBLAS_GEMM_DEFAULT),
                     CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(cublasSetWorkspace(blas, (char *)p + 16, 1024), CUBLAS_STATUS_INVALID_VALUE);
    CHECK(cuMemFree((CUdeviceptr)p));
}

/* Slices that lie between each other are no overlap: columns 0..3 and 4..7 of rows of 8. */
static void slices(void **state)
{
    (void)state;
    enum { ROWS = 6 };
    float one = 1, zero = 0, *x = user_numbers(ROWS * 8, 1), *w = user_numbers(16, 2),
          got[ROWS * 8];
    CUdeviceptr d = user_upload(x, sizeof got), dw = user_upload(w, 64);
    assert_int_equal(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 4, ROWS, 4, &one, (float *)dw, 4,
                                 (float *)d, 8, &zero, (float *)d + 4, 8),
                     CUBLAS_STATUS_SUCCESS);
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(got, d, sizeof got));
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < 4; c++) {
            double sum = 0;
            for (int l = 0; l < 4; l++)
                sum += (double)x[r * 8 + l] * (double)w[l * 4 + c];
            assert_close((double)got[r * 8 + 4 + c], sum, 1e-5);
            assert_true(got[r * 8 + c] == x[r * 8 + c]);
        }
    CHECK(cuMemFree(d));
    CHECK(cuMemFree(dw));
    free(x);
    free(w);
}

/* A call that is captured runs once a launch of the graph, with its arguments of then. */
static void captured(void **state)
{
    (void)state;
    enum { N = 4 };
    float one = 1, *x = user_numbers(N * N, 1), got[N * N];
    CUdeviceptr a = user_upload(x, sizeof got), c = user_alloc(sizeof got);
    CUstream s;
    CUgraph g;
    CUgraphExec e;
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemsetD32Async(c, 0, N * N, s));
    assert_int_equal(cublasSetStream(blas, (cudaStream_t)s), CUBLAS_STATUS_SUCCESS);
    CHECK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_int_equal(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, N, N, N, &one, (float *)a, N,
                                 (float *)a, N, &one, (float *)c, N),
                     CUBLAS_STATUS_SUCCESS);
    CHECK(cuStreamEndCapture(s, &g));
    CHECK(cuGraphInstantiate(&e, g, 0));
    for (int k = 0; k < 3; k++)
        CHECK(cuGraphLaunch(e, s));
    CHECK(cuStreamSynchronize(s));
    CHECK(cuMemcpyDtoH(got, c, sizeof got));
    for (int i = 0; i < N * N; i++) {
        double sum = 0;
        for (int l = 0; l < N; l++)
            sum += (double)x[i % N + l * N] * (double)x[l + i / N * N];
        assert_close((double)got[i], 3 * sum, 1e-5);
    }
    assert_int_equal(cublasSetStream(blas, NULL), CUBLAS_STATUS_SUCCESS);
    CHECK(cuGraphExecDestroy(e));
    CHECK(cuGraphDestroy(g));
    CHECK(cuStreamDestroy(s));
    CHECK(cuMemFree(a));
    CHECK(cuMemFree(c));
    free(x);
}

/* --- cuBLASLt
 * ----------------------------------------------------------------------------------------- */

enum { M = 24, N = 10, K = 17, MASK_LD = 128, AUX_LD = 24 };

typedef struct {
    cublasLtMatmulDesc_t op;
    cublasLtMatrixLayout_t a, b, c;
} Descs;

static Descs descs(uint32_t epilogue, CUdeviceptr bias, CUdeviceptr aux, int64_t aux_ld)
{
    Descs d;
    assert_int_equal(cublasLtMatmulDescCreate(&d.op, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                     CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulDescSetAttribute(d.op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    cublasLtMatmulDescSetAttribute(d.op, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    cublasLtMatmulDescSetAttribute(d.op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux,
                                   sizeof aux);
    cublasLtMatmulDescSetAttribute(d.op, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &aux_ld,
                                   sizeof aux_ld);
    cublasLtMatrixLayoutCreate(&d.a, CUDA_R_32F, M, K, M);
    cublasLtMatrixLayoutCreate(&d.b, CUDA_R_32F, K, N, K);
    cublasLtMatrixLayoutCreate(&d.c, CUDA_R_32F, M, N, M);
    return d;
}

static void drop_descs(Descs *d)
{
    cublasLtMatmulDescDestroy(d->op);
    cublasLtMatrixLayoutDestroy(d->a);
    cublasLtMatrixLayoutDestroy(d->b);
    cublasLtMatrixLayoutDestroy(d->c);
}

/* The best algorithm that the heuristic offers for so much workspace. */
static cublasLtMatmulHeuristicResult_t choose(const Descs *d, uint64_t workspace)
{
    cublasLtMatmulPreference_t p;
    cublasLtMatmulHeuristicResult_t r[4];
    int n = 0;
    assert_int_equal(cublasLtMatmulPreferenceCreate(&p), CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                         sizeof workspace);
    assert_int_equal(
        cublasLtMatmulAlgoGetHeuristic(light, d->op, d->a, d->b, d->c, d->c, p, 4, r, &n),
        CUBLAS_STATUS_SUCCESS);
    assert_true(n >= 1 && r[0].state == CUBLAS_STATUS_SUCCESS && r[0].workspaceSize <= workspace);
    cublasLtMatmulPreferenceDestroy(p);
    return r[0];
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / acos(-1.0)) * (x + 0.044715 * pow(x, 3))));
}

static double gelu_slope(double x)
{
    double h = 1e-5;
    return (gelu(x + h) - gelu(x - h)) / (2 * h);
}

/* The value that D should have, from the product without epilogue. */
static double through(uint32_t e, double v, double bias, double z)
{
    if (e & CUBLASLT_EPILOGUE_BIAS)
        v += bias;
    if (e & CUBLASLT_EPILOGUE_RELU)
        return v > 0 ? v : 0;
    if (e & CUBLASLT_EPILOGUE_GELU)
        return gelu(v);
    if (e & 8) /* DRELU */
        return z > 0 ? v : 0;
    if (e & 64) /* DGELU */
        return v * gelu_slope(z);
    return v;
}

typedef struct {
    Array a, b, d, bias, z, mask;
} Data;

static Data data(uint32_t e)
{
    Data x = {array(CUDA_R_32F, M * K, 1),      array(CUDA_R_32F, K * N, 2),
              output(CUDA_R_32F, M * N),        array(CUDA_R_32F, M > N ? M : N, 3),
              array(CUDA_R_32F, AUX_LD * N, 4), output(CUDA_R_32F, MASK_LD * N / 32)};
    if (e & 8)
        for (int j = 0; j < N; j++)
            for (int i = 0; i < M; i++)
                if (at(&x.z, (size_t)(i + j * AUX_LD)) > 0)
                    ((uint8_t *)x.mask.host)[(i + j * MASK_LD) / 8] |=
                        (uint8_t)(1 << (i + j * MASK_LD) % 8);
    CHECK(cuMemcpyHtoD(x.mask.device, x.mask.host, x.mask.n * 4));
    return x;
}

static double plain_product(const Data *x, int i, int j)
{
    double sum = 0;
    for (int l = 0; l < K; l++)
        sum += at(&x->a, (size_t)(i + l * M)) * at(&x->b, (size_t)(l + j * K));
    return sum;
}

/* Sums and auxiliary outputs. */
static void check_vectors(uint32_t e, Data *x)
{
    bool rows = e & (16 | CUBLASLT_EPILOGUE_BGRADA), cols = e & CUBLASLT_EPILOGUE_BGRADB;
    int n = cols ? N : M;
    if (!rows && !cols)
        return;
    download(&x->bias, (size_t)n, 1, (size_t)n);
    for (int i = 0; i < n; i++) {
        double sum = 0;
        for (int l = 0; l < (e & 16 ? N : K); l++)
            sum += e & 16 ? at(&x->d, (size_t)(i + l * M))
                   : cols ? at(&x->b, (size_t)(l + i * K))
                          : at(&x->a, (size_t)(i + l * M));
        assert_close(at(&x->bias, (size_t)i), sum, 1e-5);
    }
}

static void check_aux(uint32_t e, Data *x, const double *before)
{
    if (!(e & 128) || e & (8 | 64))
        return;
    if (e & CUBLASLT_EPILOGUE_GELU)
        download(&x->z, M, N, AUX_LD);
    else
        download(&x->mask, x->mask.n, 1, x->mask.n);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++) {
            int bit = i + j * MASK_LD;
            if (e & CUBLASLT_EPILOGUE_GELU)
                assert_close(at(&x->z, (size_t)(i + j * AUX_LD)), before[i + j * M], 1e-5);
            else
                assert_int_equal(((uint8_t *)x->mask.host)[bit / 8] >> bit % 8 & 1,
                                 before[i + j * M] > 0);
        }
}

static void run_epilogue(uint32_t e, uint64_t workspace)
{
    Data x = data(e);
    bool is_mask = e & (2 | 8);
    Descs d =
        descs(e, x.bias.device, is_mask ? x.mask.device : x.z.device, is_mask ? MASK_LD : AUX_LD);
    cublasLtMatmulHeuristicResult_t r = choose(&d, workspace);
    CUdeviceptr space = r.workspaceSize ? user_alloc(r.workspaceSize) : 0;
    float alpha = 1, beta = 0;
    double before[M * N];
    assert_true((workspace == 0) == (r.workspaceSize == 0));
    assert_int_equal(cublasLtMatmul(light, d.op, &alpha, (void *)x.a.device, d.a,
                                    (void *)x.b.device, d.b, &beta, NULL, d.c, (void *)x.d.device,
                                    d.c, &r.algo, (void *)space, r.workspaceSize, NULL),
                     CUBLAS_STATUS_SUCCESS);
    download(&x.d, M, N, M);
    for (int j = 0; j < N; j++)
        for (int i = 0; i < M; i++) {
            double v = plain_product(&x, i, j), bias = at(&x.bias, (size_t)i);
            before[i + j * M] = e & CUBLASLT_EPILOGUE_BIAS ? v + bias : v;
            assert_close(at(&x.d, (size_t)(i + j * M)),
                         through(e, v, bias, at(&x.z, (size_t)(i + j * AUX_LD))), 2e-5);
        }
    check_vectors(e, &x);
    check_aux(e, &x, before);
    if (space)
        CHECK(cuMemFree(space));
    Array *all[] = {&x.a, &x.b, &x.d, &x.bias, &x.z, &x.mask};
    for (int i = 0; i < 6; i++)
        drop(all[i]);
    drop_descs(&d);
}

static void epilogues(void **state)
{
    (void)state;
    static const uint32_t all[] = {
        CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_RELU,        CUBLASLT_EPILOGUE_RELU_AUX,
        CUBLASLT_EPILOGUE_BIAS,     CUBLASLT_EPILOGUE_RELU_BIAS,   CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DRELU,    CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_GELU,
        CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_BIAS,   CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_DGELU_BGRAD, CUBLASLT_EPILOGUE_BGRADA,
        CUBLASLT_EPILOGUE_BGRADB};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        run_epilogue(all[i], 0);
        run_epilogue(all[i], 1 << 20);
    }
}

/* Row order: the same product as columns of the transposed ones. */
static void rows(void **state)
{
    (void)state;
    int32_t order = CUBLASLT_ORDER_ROW;
    int64_t lds[3] = {K, N, N};
    Data x = data(0);
    Descs d = descs(CUBLASLT_EPILOGUE_DEFAULT, 0, 0, 0);
    cublasLtMatrixLayout_t all[3] = {d.a, d.b, d.c};
    for (int i = 0; i < 3; i++) {
        cublasLtMatrixLayoutSetAttribute(all[i], CUBLASLT_MATRIX_LAYOUT_ORDER, &order,
                                         sizeof order);
        cublasLtMatrixLayoutSetAttribute(all[i], CUBLASLT_MATRIX_LAYOUT_LD, &lds[i], sizeof lds[i]);
    }
    float alpha = 1, beta = 0;
    assert_int_equal(cublasLtMatmul(light, d.op, &alpha, (void *)x.a.device, d.a,
                                    (void *)x.b.device, d.b, &beta, (void *)x.d.device, d.c,
                                    (void *)x.d.device, d.c, NULL, NULL, 0, NULL),
                     CUBLAS_STATUS_SUCCESS);
    download(&x.d, M * N, 1, M * N);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int l = 0; l < K; l++)
                sum += at(&x.a, (size_t)(i * K + l)) * at(&x.b, (size_t)(l * N + j));
            assert_close(at(&x.d, (size_t)(i * N + j)), sum, 1e-5);
        }
    Array *arrays[] = {&x.a, &x.b, &x.d, &x.bias, &x.z, &x.mask};
    for (int i = 0; i < 6; i++)
        drop(arrays[i]);
    drop_descs(&d);
}

static cublasStatus_t matmul(const Descs *d, CUdeviceptr p, const cublasLtMatmulAlgo_t *algo,
                             CUdeviceptr space, size_t bytes)
{
    float one = 1, zero = 0;
    return cublasLtMatmul(light, d->op, &one, (void *)p, d->a, (void *)(p + 4096), d->b, &zero,
                          NULL, d->c, (void *)(p + 8192), d->c, algo, (void *)space, bytes, NULL);
}

static void light_refused(void **state)
{
    (void)state;
    CUdeviceptr p = user_alloc(16384);
    Descs d = descs(CUBLASLT_EPILOGUE_BIAS, 0, 0, 0);
    uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT, nonsense = 3;
    int64_t ld = M - 1;
    assert_int_equal(matmul(&d, p, NULL, 0, 0), CUBLAS_STATUS_INVALID_VALUE); /* bias NULL */
    cublasLtMatmulDescSetAttribute(d.op, CUBLASLT_MATMUL_DESC_EPILOGUE, &nonsense, sizeof nonsense);
    assert_int_equal(matmul(&d, p, NULL, 0, 0), CUBLAS_STATUS_NOT_SUPPORTED);
    cublasLtMatmulDescSetAttribute(d.op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    cublasLtMatmulHeuristicResult_t r = choose(&d, 1 << 20);
    /* the algorithm needs more workspace, or one that is aligned */
    assert_int_equal(matmul(&d, p, &r.algo, 0, 0), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(matmul(&d, p, &r.algo, p + 8 + 12288, 4000), CUBLAS_STATUS_INVALID_VALUE);
    /* aligned to 4 bytes where 16 were promised */
    r = choose(&d, 0);
    assert_int_equal(matmul(&d, p + 4, &r.algo, 0, 0), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(
        cublasLtMatmulDescSetAttribute(d.op, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, 8),
        CUBLAS_STATUS_INVALID_VALUE);
    cublasLtMatrixLayoutSetAttribute(d.a, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld);
    assert_int_equal(matmul(&d, p, NULL, 0, 0), CUBLAS_STATUS_INVALID_VALUE);
    drop_descs(&d);
    CHECK(cuMemFree(p));
}

static int begin(void **state)
{
    (void)state;
    user_context();
    return cublasCreate(&blas) || cublasLtCreate(&light);
}

static int end(void **state)
{
    (void)state;
    return cublasDestroy(blas) || cublasLtDestroy(light) || cuDevicePrimaryCtxRelease(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(products),
                                       cmocka_unit_test(empty),
                                       cmocka_unit_test(arrays_of_pointers),
                                       cmocka_unit_test(vectors),
                                       cmocka_unit_test(refused),
                                       cmocka_unit_test(slices),
                                       cmocka_unit_test(captured),
                                       cmocka_unit_test(epilogues),
                                       cmocka_unit_test(rows),
                                       cmocka_unit_test(light_refused)};
    return cmocka_run_group_tests(tests, begin, end);
}
