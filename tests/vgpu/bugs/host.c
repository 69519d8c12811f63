/* host.c: mistakes in how a program uses the driver and the libraries. SPDX-License-Identifier: MIT
 */
#include "tests/vgpu/bugs/bugs.h"

#include <cublas_v2.h>

#include <stdlib.h>
#include <string.h>

static void leak_memory(CUmodule m, int wrong)
{
    (void)m;
    CUdeviceptr d = user_alloc(1000);
    if (!wrong)
        CHECK(cuMemFree(d));
}

static void leak_event(CUmodule m, int wrong)
{
    CUevent e;
    (void)m;
    CHECK(cuEventCreate(&e, 0));
    if (!wrong)
        CHECK(cuEventDestroy(e));
}

/* A block of arguments that is too short. */
static void argument_size(CUmodule m, int wrong)
{
    struct {
        CUdeviceptr out;
        float value;
        int n;
    } args = {user_alloc(128), 1.0f, 32};
    size_t size = wrong ? sizeof args - 4 : sizeof args;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &args, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CUresult r = cuLaunchKernel(user_function(m, "fill"), 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra);
    cuMemFree(args.out);
    EXPECT(r);
    EXPECT(cuCtxSynchronize());
}

/* Two arguments for a kernel that takes three. */
static void argument_count(CUmodule m, int wrong)
{
    CUdeviceptr out = user_alloc(128);
    float value = 1;
    int n = 32;
    void *args[] = {&out, &value, wrong ? NULL : &n};
    CUresult r = launch(m, "fill", 1, 32, args);
    cuMemFree(out);
    EXPECT(r);
}

static void too_many_threads(CUmodule m, int wrong)
{
    CUdeviceptr out = user_alloc(4096);
    void *args[] = {&out};
    CUresult r = launch(m, "bounded", 1, wrong ? 256 : 128, args);
    cuMemFree(out);
    EXPECT(r);
}

/* More than 48 KiB of shared memory have to be asked for. */
static void shared_not_asked(CUmodule m, int wrong)
{
    int n = 15000;
    CUdeviceptr out = user_alloc(256);
    CUfunction f = user_function(m, "dynamic_shared");
    void *args[] = {&out, &n};
    if (!wrong)
        CHECK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000));
    CUresult r = cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 60000, NULL, args, NULL);
    CUresult end = cuCtxSynchronize();
    cuMemFree(out);
    EXPECT(r);
    EXPECT(end);
}

/* One stream fills, another one copies: without the event their order is luck. */
static void event_wait(CUmodule m, int wrong)
{
    enum { N = 4096 };
    CUdeviceptr a = user_alloc(N * 4), b = user_alloc(N * 4);
    CUstream one, two;
    CUevent filled;
    float value = 3, *host = user_malloc(N * 4);
    int n = N;
    CHECK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&filled, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemsetD8(a, 0, N * 4));
    CHECK(cuCtxSynchronize());
    void *fill[] = {&a, &value, &n}, *copy[] = {&a, &b, &n};
    CHECK(cuLaunchKernel(user_function(m, "fill"), N / 128, 1, 1, 128, 1, 1, 0, one, fill, NULL));
    CHECK(cuEventRecord(filled, one));
    if (!wrong)
        CHECK(cuStreamWaitEvent(two, filled, 0));
    CHECK(cuLaunchKernel(user_function(m, "copy"), N / 128, 1, 1, 128, 1, 1, 0, two, copy, NULL));
    cuStreamSynchronize(two);
    cuStreamSynchronize(one);
    CHECK(cuMemcpyDtoH(host, b, N * 4));
    cuEventDestroy(filled);
    cuStreamDestroy(one);
    cuStreamDestroy(two);
    cuMemFree(a);
    cuMemFree(b);
    free(host);
}

/* The host changes pinned memory that a copy still reads. */
static void pinned_changed(CUmodule m, int wrong)
{
    enum { BYTES = 4096 };
    CUstream s;
    unsigned char *pinned;
    (void)m;
    CUdeviceptr d = user_alloc(BYTES);
    CHECK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CHECK(cuMemHostAlloc((void **)&pinned, BYTES, 0));
    memset(pinned, 1, BYTES);
    CHECK(cuMemcpyHtoDAsync(d, pinned, BYTES, s));
    if (!wrong)
        CHECK(cuStreamSynchronize(s));
    memset(pinned, 2, BYTES);
    CHECK(cuStreamSynchronize(s));
    cuMemFreeHost(pinned);
    cuStreamDestroy(s);
    cuMemFree(d);
}

static void copy_uninit(CUmodule m, int wrong)
{
    char bytes[256] = {0};
    (void)m;
    CUdeviceptr d = wrong ? user_alloc(sizeof bytes) : user_upload(bytes, sizeof bytes);
    CUresult r = cuMemcpyDtoH(bytes, d, sizeof bytes);
    cuMemFree(d);
    EXPECT(r);
}

static void copy_bounds(CUmodule m, int wrong)
{
    char bytes[256] = {0};
    (void)m;
    CUdeviceptr d = user_alloc(sizeof bytes);
    CUresult r = cuMemcpyHtoD(d + (wrong ? 1 : 0), bytes, sizeof bytes);
    cuMemFree(d);
    EXPECT(r);
}

static void free_twice(CUmodule m, int wrong)
{
    (void)m;
    CUdeviceptr d = user_alloc(64);
    CHECK(cuMemFree(d));
    if (wrong)
        EXPECT(cuMemFree(d));
}

static void dead_stream(CUmodule m, int wrong)
{
    CUstream s;
    (void)m;
    CHECK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
    CHECK(cuStreamDestroy(s));
    if (wrong)
        EXPECT(cuStreamSynchronize(s));
}

/* A program that watches for errors sees the failure, and gives back what it has. */
static void injected(CUmodule m, int wrong)
{
    (void)m, (void)wrong;
    CUdeviceptr a = 0, b = 0;
    CUresult r = cuMemAlloc(&a, 64);
    if (r == CUDA_SUCCESS)
        r = cuMemAlloc(&b, 64);
    if (b)
        cuMemFree(b);
    if (a)
        cuMemFree(a);
    EXPECT(r);
}

static void blas(cublasStatus_t s, const char *what)
{
    if (s != CUBLAS_STATUS_SUCCESS)
        failure(what, cublasGetStatusName(s));
}

static void multiply(cublasHandle_t h, CUdeviceptr a, CUdeviceptr c, int n)
{
    float one = 1, zero = 0;
    blas(cublasSgemm(h, CUBLAS_OP_N, CUBLAS_OP_T, n, n, n, &one, (float *)a, n, (float *)a, n,
                     &zero, (float *)c, n),
         "cublasSgemm");
}

/* The output has one row too few. */
static void product_bounds(CUmodule m, int wrong)
{
    enum { N = 16 };
    float *x = user_numbers(N * N, 1);
    cublasHandle_t h;
    (void)m;
    CUdeviceptr a = user_upload(x, N * N * 4), c = user_alloc(N * N * 4 - (wrong ? 4 : 0));
    blas(cublasCreate(&h), "cublasCreate");
    multiply(h, a, c, N);
    CUresult r = cuCtxSynchronize();
    blas(cublasDestroy(h), "cublasDestroy");
    cuMemFree(a);
    cuMemFree(c);
    free(x);
    EXPECT(r);
}

/* An input that nothing has written in full. */
static void product_uninit(CUmodule m, int wrong)
{
    enum { N = 16 };
    float *x = user_numbers(N * N, 1);
    cublasHandle_t h;
    (void)m;
    CUdeviceptr a = user_alloc(N * N * 4), c = user_alloc(N * N * 4);
    CHECK(cuMemcpyHtoD(a, x, N * N * 4 - (wrong ? 4 : 0)));
    blas(cublasCreate(&h), "cublasCreate");
    multiply(h, a, c, N);
    CUresult r = cuCtxSynchronize();
    blas(cublasDestroy(h), "cublasDestroy");
    cuMemFree(a);
    cuMemFree(c);
    free(x);
    EXPECT(r);
}

/* A kernel makes the input on one stream, the product is on another one. */
static void product_order(CUmodule m, int wrong)
{
    enum { N = 32 };
    CUdeviceptr a = user_alloc(N * N * 4), c = user_alloc(N * N * 4);
    CUstream one, two;
    CUevent filled;
    cublasHandle_t h;
    float value = 3;
    int n = N * N;
    void *args[] = {&a, &value, &n};
    CHECK(cuMemsetD8(a, 0, N * N * 4));
    CHECK(cuCtxSynchronize());
    CHECK(cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&filled, CU_EVENT_DISABLE_TIMING));
    blas(cublasCreate(&h), "cublasCreate");
    blas(cublasSetStream(h, (cudaStream_t)two), "cublasSetStream");
    CHECK(cuLaunchKernel(user_function(m, "fill"), N, 1, 1, N, 1, 1, 0, one, args, NULL));
    CHECK(cuEventRecord(filled, one));
    if (!wrong)
        CHECK(cuStreamWaitEvent(two, filled, 0));
    multiply(h, a, c, N);
    CHECK(cuStreamSynchronize(one));
    CHECK(cuStreamSynchronize(two));
    blas(cublasDestroy(h), "cublasDestroy");
    cuEventDestroy(filled);
    cuStreamDestroy(one);
    cuStreamDestroy(two);
    cuMemFree(a);
    cuMemFree(c);
}

/* Two streams' products use one workspace. */
static void workspace_shared(CUmodule m, int wrong)
{
    enum { N = 32 };
    float *x = user_numbers(N * N, 1);
    CUdeviceptr a = user_upload(x, N * N * 4), c[2], space[2];
    CUstream s[2];
    cublasHandle_t h;
    (void)m;
    blas(cublasCreate(&h), "cublasCreate");
    for (int i = 0; i < 2; i++) {
        c[i] = user_alloc(N * N * 4);
        space[i] = user_alloc(1 << 16);
        CHECK(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    }
    for (int i = 0; i < 2; i++) {
        blas(cublasSetStream(h, (cudaStream_t)s[i]), "cublasSetStream");
        blas(cublasSetWorkspace(h, (void *)space[wrong ? 0 : i], 1 << 16), "cublasSetWorkspace");
        multiply(h, a, c[i], N);
    }
    for (int i = 0; i < 2; i++) {
        CHECK(cuStreamSynchronize(s[i]));
        cuStreamDestroy(s[i]);
        cuMemFree(c[i]);
    }
    cuMemFree(space[0]);
    cuMemFree(space[1]);
    cuMemFree(a);
    blas(cublasDestroy(h), "cublasDestroy");
    free(x);
}

/* A handle of device 0, while device 1 is current. */
static void handle_device(CUmodule m, int wrong)
{
    enum { N = 4 };
    CUcontext first, other;
    cublasHandle_t h;
    (void)m;
    CUdeviceptr a = user_alloc(N * N * 4), c = user_alloc(N * N * 4);
    CHECK(cuMemsetD8(a, 0, N * N * 4));
    CHECK(cuCtxGetCurrent(&first));
    CHECK(cuDevicePrimaryCtxRetain(&other, 1));
    blas(cublasCreate(&h), "cublasCreate");
    CHECK(cuCtxSetCurrent(wrong ? other : first));
    multiply(h, a, c, N);
    CHECK(cuCtxSetCurrent(first));
    CHECK(cuCtxSynchronize());
    blas(cublasDestroy(h), "cublasDestroy");
    cuMemFree(a);
    cuMemFree(c);
    CHECK(cuDevicePrimaryCtxRelease(1));
}

/* A kernel of device 0 reads device 1's memory. */
static void no_peer(CUmodule m, int wrong)
{
    CUcontext first, other;
    float x[64] = {0};
    int n = 64;
    CUdeviceptr out = user_alloc(sizeof x);
    CHECK(cuCtxGetCurrent(&first));
    CHECK(cuDevicePrimaryCtxRetain(&other, 1));
    CHECK(cuCtxSetCurrent(other));
    CUdeviceptr in = user_upload(x, sizeof x);
    CHECK(cuCtxSetCurrent(first));
    if (!wrong)
        CHECK(cuCtxEnablePeerAccess(other, 0));
    void *args[] = {&in, &out, &n};
    CUresult r = launch(m, "copy", 1, 64, args);
    cuMemFree(out);
    CHECK(cuCtxSetCurrent(other));
    CHECK(cuMemFree(in));
    CHECK(cuCtxSetCurrent(first));
    CHECK(cuDevicePrimaryCtxRelease(1));
    EXPECT(r);
}

static void dead_handle(CUmodule m, int wrong)
{
    cublasHandle_t h;
    (void)m;
    blas(cublasCreate(&h), "cublasCreate");
    blas(cublasDestroy(h), "cublasDestroy");
    if (wrong)
        blas(cublasSetStream(h, NULL), "cublasSetStream");
}

static void leak_handle(CUmodule m, int wrong)
{
    cublasHandle_t h;
    (void)m;
    blas(cublasCreate(&h), "cublasCreate");
    if (!wrong)
        blas(cublasDestroy(h), "cublasDestroy");
}

const Bug bugs_host[] = {
    {"leak_memory", "leak", "1000 bytes", NULL, leak_memory, .status = 86},
    {"leak_event", "leak", "event", NULL, leak_event, .status = 86},
    {"leak_handle", "leak", "cuBLAS handle", NULL, leak_handle, .status = 86},
    {"argument_size", "launch", "fill", NULL, argument_size, .status = 86},
    {"argument_count", "launch", "fill", NULL, argument_count, .status = 86},
    {"too_many_threads", "launch", "bounded", NULL, too_many_threads, .status = 86},
    {"shared_not_asked", "launch", "dynamic_shared", NULL, shared_not_asked, .status = 86},
    {"event_wait", "order", NULL, NULL, event_wait, .status = 86, .seeds = 20},
    {"pinned_changed", "order", NULL, NULL, pinned_changed, .status = 86},
    {"copy_uninit", "uninit", "cuMemcpyDtoH", NULL, copy_uninit, .status = 86},
    {"copy_bounds", "api", "not within its allocation", NULL, copy_bounds, .status = 86},
    {"free_twice", "api", "cuMemFree", NULL, free_twice, .status = 86},
    {"dead_stream", "api", "cuStreamSynchronize", NULL, dead_stream, .status = 86},
    {"injected", NULL, "CUDA_ERROR_OUT_OF_MEMORY", NULL, injected, "VGPU_FAIL=cuMemAlloc:2",
     .status = 3},
    {"product_bounds", "bounds", "cublasSgemm", NULL, product_bounds, .status = 86},
    {"product_uninit", "uninit", "A of cublasSgemm", NULL, product_uninit, .status = 86},
    {"product_order", "order", "cublasSgemm", NULL, product_order, .status = 86, .seeds = 4},
    {"workspace_shared", "order", "cublasSgemm", NULL, workspace_shared, .status = 86, .seeds = 4},
    {"handle_device", "library", "device 1", NULL, handle_device, .status = 86,
     .always = "VGPU_DEVICES=2"},
    {"no_peer", "bounds", "kernel copy", "copy", no_peer, .status = 86, .always = "VGPU_DEVICES=2"},
    {"dead_handle", "library", "cublasSetStream", NULL, dead_handle, .status = 86},
    {0},
};
