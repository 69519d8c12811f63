/* nvrtc.c: see nvrtc.h. SPDX-License-Identifier: MIT */
#include "codegen/nvrtc.h"

#include "ir/base/die.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

typedef struct NvrtcProgram NvrtcProgram; /* NVRTC's own, opaque */

struct Nvrtc {
    Arena *a;
    void *library;
    const char *version;
    int (*get_version)(int *major, int *minor);
    int (*create)(NvrtcProgram **out, const char *text, const char *name, int nheaders,
                  const char *const *headers, const char *const *include_names);
    int (*destroy)(NvrtcProgram **p);
    int (*compile)(NvrtcProgram *p, int n, const char *const *options);
    int (*log_size)(NvrtcProgram *p, size_t *n);
    int (*log)(NvrtcProgram *p, char *to);
    int (*cubin_size)(NvrtcProgram *p, size_t *n);
    int (*cubin)(NvrtcProgram *p, char *to);
    int (*ptx_size)(NvrtcProgram *p, size_t *n);
    int (*ptx)(NvrtcProgram *p, char *to);
};

static void *open_library(Arena *a)
{
    static const char *const names[] = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12",
                                        "libnvrtc.so.11.2"};
    const char *home = getenv("CUDA_HOME");
    const char *const dirs[] = {"", home ? arena_printf(a, "%s/lib64/", home) : "",
                                "/usr/local/cuda/lib64/"};
    for (size_t d = 0; d < ARRAY_LEN(dirs); d++)
        for (size_t i = 0; i < ARRAY_LEN(names); i++) {
            /* it keeps memory until the process ends: unloading it would lose that each time */
            void *library = dlopen(arena_printf(a, "%s%s", dirs[d], names[i]),
                                   RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
            if (library)
                return library;
        }
    return NULL;
}

/* POSIX lets data pointers hold functions; C needs the detour. */
static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_all(Nvrtc *n)
{
    return find(n->library, "nvrtcVersion", &n->get_version) &&
           find(n->library, "nvrtcCreateProgram", &n->create) &&
           find(n->library, "nvrtcDestroyProgram", &n->destroy) &&
           find(n->library, "nvrtcCompileProgram", &n->compile) &&
           find(n->library, "nvrtcGetProgramLogSize", &n->log_size) &&
           find(n->library, "nvrtcGetProgramLog", &n->log) &&
           find(n->library, "nvrtcGetCUBINSize", &n->cubin_size) &&
           find(n->library, "nvrtcGetCUBIN", &n->cubin) &&
           find(n->library, "nvrtcGetPTXSize", &n->ptx_size) &&
           find(n->library, "nvrtcGetPTX", &n->ptx);
}

Nvrtc *nvrtc_open(Arena *a, const char **why)
{
    int major = 0, minor = 0;
    Nvrtc *n = arena_new(a, Nvrtc);
    n->a = a;
    n->library = open_library(a);
    if (!n->library) {
        *why = "libnvrtc.so is neither in the library path nor in $CUDA_HOME/lib64 nor in "
               "/usr/local/cuda/lib64";
        return NULL;
    }
    if (!find_all(n) || n->get_version(&major, &minor)) {
        *why = "the libnvrtc.so that was found is too old: 11.1 is needed";
        dlclose(n->library);
        return NULL;
    }
    n->version = arena_printf(a, "%d.%d", major, minor);
    return n;
}

void nvrtc_close(Nvrtc *n)
{
    if (n)
        dlclose(n->library);
}

const char *nvrtc_version(const Nvrtc *n)
{
    return n->version;
}

static const char *read_log(Nvrtc *n, NvrtcProgram *p)
{
    size_t size = 0;
    if (n->log_size(p, &size) || size < 2)
        return "";
    char *log = arena_alloc(n->a, size + 1);
    if (n->log(p, log))
        return "";
    return log;
}

static bool read_ptx(Nvrtc *n, NvrtcProgram *p, NvrtcBytes *out)
{
    if (n->ptx_size(p, &out->n))
        return false;
    char *data = arena_alloc(n->a, out->n + 1);
    out->data = data;
    return out->n > 0 && !n->ptx(p, data);
}

static bool read_cubin(Nvrtc *n, NvrtcProgram *p, NvrtcBytes *out)
{
    if (n->cubin_size(p, &out->n))
        return false;
    char *data = arena_alloc(n->a, out->n + 1);
    out->data = data;
    return out->n > 0 && !n->cubin(p, data);
}

bool nvrtc_compile(Nvrtc *n, const char *text, const char *name, const char *arch, unsigned flags,
                   NvrtcImage *out)
{
    NvrtcProgram *p = NULL;
    *out = (NvrtcImage){.log = "NVRTC has no memory"};
    if (n->create(&p, text, name, 0, NULL, NULL))
        return false;
    /* no contraction: the bits are those of the C text */
    const char *options[8] = {arena_printf(n->a, "--gpu-architecture=%s", arch), "--fmad=false",
                              "--std=c++14"};
    int noptions = 3;
    if (flags & NVRTC_LINES)
        options[noptions++] = "-lineinfo";
    if (flags & NVRTC_USE)
        options[noptions++] = "--ptxas-options=-v";
    bool ok = !n->compile(p, noptions, options);
    out->log = read_log(n, p);
    ok = ok && read_ptx(n, p, &out->ptx);
    if (strncmp(arch, "compute_", 8))
        ok = ok && read_cubin(n, p, &out->cubin);
    n->destroy(&p);
    return ok;
}
