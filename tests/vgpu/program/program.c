/* program.c: a CUDA program by itself, which knows nothing of Tenon and of the virtual GPU: it
 * compiles kernels.cu with NVRTC, and adds, sums up, transposes and multiplies with the driver API.
 * The same binary runs on a real GPU.
 *
 *     program kernels.cu
 *
 * Exit status: 0 right, 1 wrong, 77 no NVRTC. SPDX-License-Identifier: MIT */
#include <cuda.h>
#include <nvrtc.h>

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(CUresult r, const char *what)
{
    const char *name = NULL, *text = NULL;
    if (r == CUDA_SUCCESS)
        return;
    cuGetErrorName(r, &name);
    cuGetErrorString(r, &text);
    fprintf(stderr, "program: %s: %s: %s\n", what, name ? name : "?", text ? text : "?");
    exit(1);
}

#define CHECK(call) check(call, #call)

static void die(const char *what, const char *about)
{
    fprintf(stderr, "program: %s: %s\n", what, about);
    exit(1);
}

/* --- NVRTC, where it is
 * ------------------------------------------------------------------------------- */

static void *nvrtc(void)
{
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so",
                                        "/usr/local/cuda/lib64/libnvrtc.so"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        void *library = dlopen(names[i], RTLD_NOW);
        if (library)
            return library;
    }
    fprintf(stderr, "program: no NVRTC here\n");
    exit(77);
}

/* The detour from data pointers to functions that C needs. */
static void find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    if (!symbol)
        die("NVRTC has no", name);
    memcpy(function, &symbol, sizeof symbol);
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        die("cannot read", path);
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(n + 1);
    if (!text || fread(text, 1, n, f) != n)
        die("cannot read", path);
    text[n] = 0;
    fclose(f);
    return text;
}

static char *compile(const char *path, int capability)
{
    nvrtcResult (*create)(nvrtcProgram *, const char *, const char *, int, const char *const *,
                          const char *const *);
    nvrtcResult (*build)(nvrtcProgram, int, const char *const *);
    nvrtcResult (*log_size)(nvrtcProgram, size_t *), (*log)(nvrtcProgram, char *);
    nvrtcResult (*ptx_size)(nvrtcProgram, size_t *), (*ptx)(nvrtcProgram, char *);
    nvrtcResult (*destroy)(nvrtcProgram *);
    void *library = nvrtc();
    find(library, "nvrtcCreateProgram", &create);
    find(library, "nvrtcCompileProgram", &build);
    find(library, "nvrtcGetProgramLogSize", &log_size);
    find(library, "nvrtcGetProgramLog", &log);
    find(library, "nvrtcGetPTXSize", &ptx_size);
    find(library, "nvrtcGetPTX", &ptx);
    find(library, "nvrtcDestroyProgram", &destroy);
    char *text = read_file(path), arch[64];
    snprintf(arch, sizeof arch, "--gpu-architecture=compute_%d", capability);
    const char *const options[] = {arch, "-lineinfo"};
    nvrtcProgram p;
    size_t n = 0;
    if (create(&p, text, path, 0, NULL, NULL))
        die("NVRTC cannot begin with", path);
    if (build(p, 2, options)) {
        log_size(p, &n);
        char *message = calloc(1, n + 1);
        log(p, message);
        die("NVRTC does not like it", message);
    }
    if (ptx_size(p, &n))
        die("NVRTC made no PTX of", path);
    char *image = malloc(n);
    if (!image || ptx(p, image))
        die("NVRTC made no PTX of", path);
    destroy(&p);
    free(text);
    return image;
}

/* --- small things
 * ------------------------------------------------------------------------------------- */

static CUmodule module;
static CUstream stream;

static CUfunction function(const char *name)
{
    CUfunction f;
    CHECK(cuModuleGetFunction(&f, module, name));
    return f;
}

static float *numbers(size_t n, unsigned seed)
{
    float *x = malloc(n * sizeof *x);
    if (!x)
        die("no memory for", "numbers");
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    return x;
}

static CUdeviceptr upload(const float *x, size_t n)
{
    CUdeviceptr d;
    CHECK(cuMemAlloc(&d, n * sizeof *x));
    CHECK(cuMemcpyHtoD(d, x, n * sizeof *x));
    return d;
}

static bool close_to(const char *what, const float *got, const float *expected, size_t n,
                     float tolerance)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(got[i] - expected[i]) <= tolerance)) {
            printf("%s: element %zu is %g, not %g\n", what, i, (double)got[i], (double)expected[i]);
            return false;
        }
    printf("%s: %zu right\n", what, n);
    return true;
}

/* --- the four
 * ----------------------------------------------------------------------------------------- */

static bool run_add(void)
{
    enum { N = 10007 };
    float *x = numbers(N, 1), *y = numbers(N, 2), *z = numbers(N, 3);
    CUdeviceptr dx = upload(x, N), dy = upload(y, N), dz;
    CHECK(cuMemAlloc(&dz, N * sizeof *z));
    int n = N;
    void *args[] = {&dx, &dy, &dz, &n};
    CHECK(cuLaunchKernel(function("add"), (N + 255) / 256, 1, 1, 256, 1, 1, 0, stream, args, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(z, dz, N * sizeof *z));
    for (int i = 0; i < N; i++)
        x[i] += y[i];
    bool ok = close_to("vector addition", z, x, N, 0);
    CHECK(cuMemFree(dx));
    CHECK(cuMemFree(dy));
    CHECK(cuMemFree(dz));
    free(x);
    free(y);
    free(z);
    return ok;
}

/* Pinned memory, two streams and an event between them. */
static bool run_sum(void)
{
    enum { N = 100003 };
    float *x = numbers(N, 4), *pinned, got = 0, expected = 0;
    CUdeviceptr dx, dtotal;
    CUstream copies;
    CUevent uploaded;
    CHECK(cuStreamCreate(&copies, CU_STREAM_NON_BLOCKING));
    CHECK(cuEventCreate(&uploaded, CU_EVENT_DISABLE_TIMING));
    CHECK(cuMemHostAlloc((void **)&pinned, N * sizeof *x, 0));
    CHECK(cuMemAlloc(&dx, N * sizeof *x));
    CHECK(cuMemAlloc(&dtotal, sizeof got));
    memcpy(pinned, x, N * sizeof *x);
    CHECK(cuMemcpyHtoDAsync(dx, pinned, N * sizeof *x, copies));
    CHECK(cuEventRecord(uploaded, copies));
    CHECK(cuStreamWaitEvent(stream, uploaded, 0));
    CHECK(cuMemsetD32Async(dtotal, 0, 1, stream));
    int n = N;
    void *args[] = {&dx, &dtotal, &n};
    CHECK(cuLaunchKernel(function("sum"), (N + 511) / 512, 1, 1, 256, 1, 1, 0, stream, args, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(&got, dtotal, sizeof got));
    double total = 0;
    for (int i = 0; i < N; i++)
        total += (double)x[i];
    expected = (float)total;
    bool ok = close_to("sum of blocks", &got, &expected, 1, 0.05f);
    CHECK(cuMemFreeHost(pinned));
    CHECK(cuMemFree(dx));
    CHECK(cuMemFree(dtotal));
    CHECK(cuEventDestroy(uploaded));
    CHECK(cuStreamDestroy(copies));
    free(x);
    return ok;
}

static bool run_transpose(void)
{
    enum { ROWS = 217, COLS = 333, N = ROWS * COLS };
    float *from = numbers(N, 5), *to = numbers(N, 6), *expected = numbers(N, 7);
    CUdeviceptr dfrom = upload(from, N), dto;
    CHECK(cuMemAlloc(&dto, N * sizeof *to));
    int rows = ROWS, cols = COLS;
    void *args[] = {&dfrom, &dto, &rows, &cols};
    CHECK(cuLaunchKernel(function("transpose"), (COLS + 31) / 32, (ROWS + 31) / 32, 1, 32, 8, 1, 0,
                         stream, args, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(to, dto, N * sizeof *to));
    for (int r = 0; r < ROWS; r++)
        for (int c = 0; c < COLS; c++)
            expected[c * ROWS + r] = from[r * COLS + c];
    bool ok = close_to("transposition", to, expected, N, 0);
    CHECK(cuMemFree(dfrom));
    CHECK(cuMemFree(dto));
    free(from);
    free(to);
    free(expected);
    return ok;
}

static bool run_multiply(void)
{
    enum { M = 75, N = 130, K = 101 };
    float *a = numbers(M * K, 8), *b = numbers(K * N, 9), *c = numbers(M * N, 10);
    float *expected = numbers(M * N, 11);
    CUdeviceptr da = upload(a, M * K), db = upload(b, K * N), dc;
    CHECK(cuMemAlloc(&dc, M * N * sizeof *c));
    int m = M, n = N, k = K;
    void *args[] = {&da, &db, &dc, &m, &n, &k};
    CHECK(cuLaunchKernel(function("multiply"), (N + 15) / 16, (M + 15) / 16, 1, 16, 16, 1,
                         2 * 16 * 16 * sizeof(float), stream, args, NULL));
    CHECK(cuStreamSynchronize(stream));
    CHECK(cuMemcpyDtoH(c, dc, M * N * sizeof *c));
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int l = 0; l < K; l++)
                sum += (double)a[i * K + l] * (double)b[l * N + j];
            expected[i * N + j] = (float)sum;
        }
    bool ok = close_to("matrix product", c, expected, M * N, 1e-4f);
    CHECK(cuMemFree(da));
    CHECK(cuMemFree(db));
    CHECK(cuMemFree(dc));
    free(a);
    free(b);
    free(c);
    free(expected);
    return ok;
}

int main(int argc, char **argv)
{
    CUdevice device;
    CUcontext context;
    int major = 0, minor = 0;
    char name[256];
    if (argc != 2)
        die("usage", "program kernels.cu");
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    CHECK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    /* one that waits for the default stream: a copy from pageable memory may return before it has
     * arrived */
    CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    printf("device: %s, compute capability %d.%d\n", name, major, minor);
    char *image = compile(argv[1], major * 10 + minor);
    CHECK(cuModuleLoadData(&module, image));
    free(image);
    bool ok = run_add();
    ok = run_sum() && ok;
    ok = run_transpose() && ok;
    ok = run_multiply() && ok;
    CHECK(cuStreamDestroy(stream));
    CHECK(cuModuleUnload(module));
    CHECK(cuDevicePrimaryCtxRelease(device));
    return ok ? 0 : 1;
}
