/* nvrtc_check.c: compiles CUDA C files by NVRTC, for each architecture named, and says how large
 * the images are.  nvrtc_check sm_80,sm_90 FILE.cu... Exit status 0: all compile; 1: one does not;
 * 2: usage; 3: no NVRTC on this machine. SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Program *Handle;

typedef struct {
    int (*create)(Handle *, const char *text, const char *name, int nheaders,
                  const char *const *headers, const char *const *names);
    int (*compile)(Handle, int nopts, const char *const *opts);
    int (*log_size)(Handle, size_t *);
    int (*log)(Handle, char *);
    int (*image_size)(Handle, size_t *);
    int (*destroy)(Handle *);
} Nvrtc;

static void *open_library(void)
{
    static const char *const names[] = {
        "libnvrtc.so.13",
        "libnvrtc.so.12",
        "libnvrtc.so.11.2",
        "libnvrtc.so",
        "/usr/local/cuda/lib64/libnvrtc.so",
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (lib)
            return lib;
    }
    return NULL;
}

/* POSIX lets an object pointer be read as a function pointer; C asks for the detour. */
static bool find(void *lib, const char *name, void *slot)
{
    void *p = dlsym(lib, name);
    memcpy(slot, &p, sizeof p);
    return p != NULL;
}

static bool load(Nvrtc *n)
{
    void *lib = open_library();
    return lib && find(lib, "nvrtcCreateProgram", &n->create) &&
           find(lib, "nvrtcCompileProgram", &n->compile) &&
           find(lib, "nvrtcGetProgramLogSize", &n->log_size) &&
           find(lib, "nvrtcGetProgramLog", &n->log) &&
           find(lib, "nvrtcGetCUBINSize", &n->image_size) &&
           find(lib, "nvrtcDestroyProgram", &n->destroy);
}

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    size_t n = 0, room = 1 << 16;
    char *text = malloc(room + 1);
    while (text) {
        n += fread(text + n, 1, room - n, f);
        if (n < room)
            break;
        room *= 2;
        char *more = realloc(text, room + 1);
        if (!more)
            free(text);
        text = more;
    }
    if (text)
        text[n] = 0;
    fclose(f);
    return text;
}

static void print_log(const Nvrtc *n, Handle h)
{
    size_t size = 0;
    if (n->log_size(h, &size) || size < 2)
        return;
    char *text = malloc(size);
    if (text && !n->log(h, text))
        fprintf(stderr, "%s\n", text);
    free(text);
}

static bool compile(const Nvrtc *n, const char *path, const char *text, const char *arch)
{
    char option[64];
    snprintf(option, sizeof option, "--gpu-architecture=%s", arch);
    const char *options[] = {option, "--fmad=false", "--std=c++17"};
    Handle h = NULL;
    if (n->create(&h, text, path, 0, NULL, NULL))
        return false;
    const bool ok = !n->compile(h, 3, options);
    size_t size = 0;
    print_log(n, h);
    if (ok && !n->image_size(h, &size))
        printf("%s  %s  %zu bytes\n", path, arch, size);
    n->destroy(&h);
    return ok && size > 0;
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: nvrtc_check sm_80,sm_90 FILE.cu...\n");
        return 2;
    }
    Nvrtc n;
    if (!load(&n)) {
        fprintf(stderr, "nvrtc_check: there is no NVRTC (libnvrtc.so of the CUDA toolkit) here\n");
        return 3;
    }
    int bad = 0;
    for (int i = 2; i < argc; i++) {
        char *text = read_text(argv[i]);
        if (!text) {
            fprintf(stderr, "nvrtc_check: cannot read %s\n", argv[i]);
            return 1;
        }
        char *list = strdup(argv[1]), *rest = NULL;
        for (char *arch = strtok_r(list, ",", &rest); arch; arch = strtok_r(NULL, ",", &rest))
            bad += !compile(&n, argv[i], text, arch);
        free(list);
        free(text);
    }
    return bad ? 1 : 0;
}
