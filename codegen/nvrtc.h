/* nvrtc.h: CUDA text to device code with NVRTC, which is looked for when it is first needed.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_NVRTC_H
#define TENON_NVRTC_H

#include "ir/base/arena.h"

#include <stdbool.h>

typedef struct Nvrtc Nvrtc;

/** NULL where there is no NVRTC; *why then says what was tried. */
Nvrtc *nvrtc_open(Arena *a, const char **why);
void nvrtc_close(Nvrtc *n);
/** "13.0" */
const char *nvrtc_version(const Nvrtc *n);

typedef struct {
    const void *data; /* a cubin, or PTX for arch "compute_XX" */
    size_t n;
    const char *log; /* warnings or errors; "" if there are none */
} NvrtcImage;

/** Compiles for one architecture ("sm_80"). False: see the log. */
bool nvrtc_compile(Nvrtc *n, const char *text, const char *name, const char *arch, NvrtcImage *out);

#endif
