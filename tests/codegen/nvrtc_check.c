/* nvrtc_check.c: nvrtc_check ARCH[,ARCH...] FILE.cu...: compiles the files with NVRTC. Exit status 0:
 * fine and without a warning; 1: not; 2: usage; 3: there is no NVRTC here.
 * SPDX-License-Identifier: MIT */
#include "codegen/nvrtc.h"

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

static int check(Arena *a, Nvrtc *n, const char *path, const char *arch)
{
    const char *text = read_text(a, path);
    NvrtcImage image;
    if (!text) {
        perror(path);
        return 1;
    }
    bool ok = nvrtc_compile(n, text, path, arch, strstr(text, "\n#line "), &image);
    if (*image.log)
        fprintf(stderr, "%s for %s:\n%s\n", path, arch, image.log);
    return !ok || *image.log;
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
