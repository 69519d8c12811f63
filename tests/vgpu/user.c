/* user.c: see user.h. SPDX-License-Identifier: MIT */
#include "tests/vgpu/user.h"

#include <nvrtc.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what, const char *about)
{
    fprintf(stderr, "%s: %s\n", what, about);
    exit(1);
}

void *user_malloc(size_t bytes)
{
    void *p = malloc(bytes);
    if (!p)
        die("no memory for", "a test");
    return p;
}

char *user_read(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END))
        die("cannot read", path);
    size_t bytes = (size_t)ftell(f);
    char *text = user_malloc(bytes + 1);
    rewind(f);
    if (fread(text, 1, bytes, f) != bytes)
        die("cannot read", path);
    text[bytes] = 0;
    fclose(f);
    if (n)
        *n = bytes;
    return text;
}

static void *nvrtc(void)
{
    static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12"};
    char path[1024];
    const char *home = getenv("CUDA_HOME");
    const char *const folders[] = {"", home ? home : "", "/usr/local/cuda"};
    for (size_t d = 0; d < sizeof folders / sizeof folders[0]; d++)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            snprintf(path, sizeof path, "%s%s%s", folders[d], *folders[d] ? "/lib64/" : "",
                     names[i]);
            void *library = dlopen(path, RTLD_NOW);
            if (library)
                return library;
        }
    fprintf(stderr, "skipped: no NVRTC here\n");
    exit(77);
}

static void find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    if (!symbol)
        die("NVRTC has no", name);
    memcpy(function, &symbol, sizeof symbol);
}

static void refused(void *library, nvrtcProgram p, const char *path)
{
    nvrtcResult (*log_size)(nvrtcProgram, size_t *), (*log)(nvrtcProgram, char *);
    size_t n = 0;
    find(library, "nvrtcGetProgramLogSize", &log_size);
    find(library, "nvrtcGetProgramLog", &log);
    log_size(p, &n);
    char *text = user_malloc(n + 1);
    text[0] = 0;
    log(p, text);
    die(path, text);
}

char *user_compile(const char *path, int sm, size_t *n)
{
    nvrtcResult (*create)(nvrtcProgram *, const char *, const char *, int, const char *const *,
                          const char *const *);
    nvrtcResult (*build)(nvrtcProgram, int, const char *const *), (*destroy)(nvrtcProgram *);
    nvrtcResult (*ptx_size)(nvrtcProgram, size_t *), (*ptx)(nvrtcProgram, char *);
    void *library = nvrtc();
    find(library, "nvrtcCreateProgram", &create);
    find(library, "nvrtcCompileProgram", &build);
    find(library, "nvrtcDestroyProgram", &destroy);
    find(library, "nvrtcGetPTXSize", &ptx_size);
    find(library, "nvrtcGetPTX", &ptx);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *text = user_read(path, NULL), arch[64];
    const char *home = getenv("CUDA_HOME");
    char include[1024];
    snprintf(arch, sizeof arch, "--gpu-architecture=compute_%d", sm);
    snprintf(include, sizeof include, "-I%s/include", home ? home : "/usr/local/cuda");
    const char *const options[] = {arch, "-lineinfo", "--std=c++14", include};
    nvrtcProgram p;
    if (create(&p, text, name, 0, NULL, NULL))
        die("NVRTC cannot begin with", path);
    if (build(p, 4, options))
        refused(library, p, path);
    if (ptx_size(p, n))
        die("NVRTC made no PTX of", path);
    char *image = user_malloc(*n);
    if (ptx(p, image))
        die("NVRTC made no PTX of", path);
    destroy(&p);
    free(text);
    return image;
}

void user_check(CUresult r, const char *what)
{
    const char *name = NULL;
    if (r == CUDA_SUCCESS)
        return;
    cuGetErrorName(r, &name);
    fprintf(stderr, "%s: %s\n", what, name ? name : "?");
    exit(1);
}

CUcontext user_context(void)
{
    CUcontext c;
    CUdevice d;
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&d, 0));
    CHECK(cuDevicePrimaryCtxRetain(&c, d));
    CHECK(cuCtxSetCurrent(c));
    return c;
}

int user_capability(void)
{
    int major = 0, minor = 0;
    CHECK(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    CHECK(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0));
    return major * 10 + minor;
}

CUfunction user_function(CUmodule m, const char *name)
{
    CUfunction f;
    user_check(cuModuleGetFunction(&f, m, name), name);
    return f;
}

CUdeviceptr user_alloc(size_t bytes)
{
    CUdeviceptr d;
    CHECK(cuMemAlloc(&d, bytes));
    return d;
}

CUdeviceptr user_upload(const void *x, size_t bytes)
{
    CUdeviceptr d = user_alloc(bytes);
    CHECK(cuMemcpyHtoD(d, x, bytes));
    CHECK(cuStreamSynchronize(NULL)); /* that copy may return before it has arrived */
    return d;
}

float *user_numbers(size_t n, unsigned seed)
{
    float *x = user_malloc((n ? n : 1) * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = (float)(seed >> 8) / 8388608.0f - 1.0f;
    }
    return x;
}
