/* nvrtc_check.c: nvrtc_check ARCH[,ARCH...] FILE.cu...: compiles the files with NVRTC for each
 * architecture and says how large the code is and how many registers it takes. Exit status 0: all
 * compile without a warning and no kernel spills registers or has local memory; 1: not so; 2:
 * usage; 3: there is no NVRTC here. SPDX-License-Identifier: MIT */
#include "codegen/nvrtc.h"
#include "codegen/ptxas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_text(Arena *a, const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    size_t n = 0, cap = 1 << 16;
    char *text = malloc(cap), *copy = NULL;
    while (text) {
        n += fread(text + n, 1, cap - n, f);
        if (n < cap)
            break;
        cap *= 2;
        char *more = realloc(text, cap);
        if (!more)
            break;
        text = more;
    }
    if (text && !ferror(f))
        copy = arena_strndup(a, text, n);
    free(text);
    fclose(f);
    return copy;
}

/* Kernels of one thread may call functions of CUDA's library that have tables in local memory. */
static bool is_alone(Arena *a, const char *text, const char *kernel)
{
    return strstr(text, arena_printf(a, "__launch_bounds__(1) %s(", kernel)) != NULL;
}

static int report(Arena *a, const char *text, const char *path, const char *arch, size_t bytes,
                  const KernelUses *uses)
{
    const KernelUse *most = NULL;
    int bad = 0;
    for (uint32_t i = 0; i < uses->n; i++) {
        const KernelUse *u = &uses->at[i];
        most = !most || u->registers > most->registers ? u : most;
        if (u->spill_stores + u->spill_loads == 0 && (!u->stack || is_alone(a, text, u->kernel)))
            continue;
        fprintf(stderr, "%s for %s: %s spills: %d bytes stored, %d loaded, %d of local memory\n",
                path, arch, u->kernel, u->spill_stores, u->spill_loads, u->stack);
        bad = 1;
    }
    printf("%s: %s: %u kernels, %zu bytes, at most %d registers (%s)\n", path, arch, uses->n, bytes,
           most ? most->registers : 0, most ? most->kernel : "none");
    return bad;
}

static int check(Arena *a, Nvrtc *n, const char *path, const char *arch)
{
    const char *text = read_text(a, path);
    NvrtcImage image;
    if (!text) {
        perror(path);
        return 1;
    }
    const unsigned flags = NVRTC_USE | (strstr(text, "\n#line ") ? NVRTC_LINES : 0);
    const bool ok = nvrtc_compile(n, text, path, arch, flags, &image);
    KernelUses uses = {0};
    const char *warnings = ptxas_read(a, image.log, &uses);
    if (*warnings)
        fprintf(stderr, "%s for %s:\n%s\n", path, arch, warnings);
    if (!ok || *warnings)
        return 1;
    return report(a, text, path, arch, image.cubin.n, &uses);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: nvrtc_check ARCH[,ARCH...] FILE.cu...\n", stderr);
        return 2;
    }
    Arena *a = arena_create();
    const char *why = "";
    Nvrtc *n = nvrtc_open(a, &why);
    if (!n) {
        fprintf(stderr, "no NVRTC: %s\n", why);
        arena_destroy(a);
        return 3;
    }
    int status = 0;
    char *archs = arena_strdup(a, argv[1]);
    for (char *arch = strtok(archs, ","); arch; arch = strtok(NULL, ","))
        for (int i = 2; i < argc; i++)
            status |= check(a, n, argv[i], arch);
    nvrtc_close(n);
    arena_destroy(a);
    return status;
}
