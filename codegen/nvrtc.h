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
    const void *data;
    size_t n;
} NvrtcBytes;

typedef struct {
    NvrtcBytes cubin; /* for an arch "sm_XX" */
    NvrtcBytes ptx;   /* with its 0 byte at the end */
    const char *log;  /* warnings or errors; "" if there are none */
} NvrtcImage;

enum {
    NVRTC_LINES = 1, /* device code knows the lines of the text */
    NVRTC_USE = 2    /* the log says what each kernel needs (ptxas.h) */
};

/** Compiles for one architecture ("sm_80", or "compute_80" for PTX alone). False: see the log. */
bool nvrtc_compile(Nvrtc *n, const char *text, const char *name, const char *arch, unsigned flags,
                   NvrtcImage *out);

#endif
