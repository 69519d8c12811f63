/* images.h: device code of a model: a cubin for each architecture and PTX of the lowest, which
 * newer devices compile themselves. SPDX-License-Identifier: MIT */
#ifndef TENON_CODEGEN_IMAGES_H
#define TENON_CODEGEN_IMAGES_H

#include "ir/host.h"

#include <stddef.h>

typedef struct {
    int arch; /* 80 */
    bool is_ptx;
    const void *data; /* PTX with its 0 byte */
    size_t n;
} DeviceImage;

/* Like exit statuses: 0 done, 2 NVRTC does not know an architecture, 3 there is no NVRTC, 4 it
 * refused what was generated. */
typedef struct {
    int status;
    const char *message; /* status != 0 */
    VEC(DeviceImage) at;
} DeviceImages;

/** Compiles CUDA text for architectures ("sm_80"); `lines`: device code knows the lines. */
DeviceImages images_make(Arena *a, const char *text, const char *name, const char *const *archs,
                         int narchs, bool lines);

/** "13.0" of the NVRTC that images_make uses, or NULL and *why where there is none. */
const char *images_compiler(Arena *a, const char **why);

/** One LZ4 block, or NULL where packing does not pay. */
const void *image_pack(Arena *a, const DeviceImage *image, size_t *n);

#endif
