/* images.c: see images.h. SPDX-License-Identifier: MIT */
#include "codegen/images.h"
#include "codegen/nvrtc.h"

#include <limits.h>
#include <lz4hc.h>
#include <stdlib.h>
#include <string.h>

const char *images_compiler(Arena *a, const char **why)
{
    Nvrtc *n = nvrtc_open(a, why);
    const char *version = n ? arena_strdup(a, nvrtc_version(n)) : NULL;
    nvrtc_close(n);
    return version;
}

static int number_of(const char *arch) /* "sm_90a": 90 */
{
    const char *digits = strchr(arch, '_');
    return digits ? atoi(digits + 1) : 0;
}

/* "sm_90a" has instructions that no other architecture has: its PTX is of no use to later ones. */
static bool is_portable(const char *arch)
{
    const size_t n = strlen(arch);
    return n && arch[n - 1] >= '0' && arch[n - 1] <= '9';
}

static void add_image(Arena *a, DeviceImages *r, const char *arch, bool is_ptx, NvrtcBytes bytes)
{
    const DeviceImage image = {number_of(arch), is_ptx, bytes.data, bytes.n};
    vec_push(a, &r->at, image);
}

static bool make_one(Arena *a, Nvrtc *n, const char *text, const char *name, const char *arch,
                     bool lines, NvrtcImage *image, DeviceImages *r)
{
    if (nvrtc_compile(n, text, name, arch, lines ? NVRTC_LINES : 0, image))
        return true;
    const bool unknown = strstr(image->log, "--gpu-architecture") != NULL;
    r->status = unknown ? 2 : 4;
    r->message =
        unknown ? arena_printf(a, "-arch=%s: NVRTC %s makes no code for it", arch, nvrtc_version(n))
                : arena_printf(a, "NVRTC refused the generated code for %s:\n%s", arch, image->log);
    return false;
}

DeviceImages images_make(Arena *a, const char *text, const char *name, const char *const *archs,
                         int narchs, bool lines)
{
    DeviceImages r = {.status = 0};
    const char *why = NULL, *lowest = NULL;
    NvrtcBytes ptx = {NULL, 0};
    Nvrtc *n = nvrtc_open(a, &why);
    if (!n) {
        r.status = 3;
        r.message = arena_printf(a, "no NVRTC (install the CUDA toolkit): %s", why);
        return r;
    }
    for (int i = 0; i < narchs && !r.status; i++) {
        NvrtcImage image;
        if (!make_one(a, n, text, name, archs[i], lines, &image, &r))
            continue;
        if (image.cubin.n)
            add_image(a, &r, archs[i], false, image.cubin);
        if (is_portable(archs[i]) && (!lowest || number_of(archs[i]) < number_of(lowest))) {
            lowest = archs[i];
            ptx = image.ptx;
        }
    }
    if (!r.status && lowest)
        add_image(a, &r, lowest, true, ptx);
    nvrtc_close(n);
    return r;
}

const void *image_pack(Arena *a, const DeviceImage *image, size_t *n)
{
    if (image->n > INT_MAX / 2)
        return NULL;
    const int bound = LZ4_compressBound((int)image->n);
    char *to = arena_alloc(a, (size_t)bound);
    const int size = LZ4_compress_HC(image->data, to, (int)image->n, bound, LZ4HC_CLEVEL_MAX);
    *n = size > 0 ? (size_t)size : 0;
    return size > 0 && *n < image->n ? to : NULL;
}
