/* windows.h: what the functions with sliding windows share (builtin_conv.c, builtin_pool.c,
 * builtin_pad.c).
 * SPDX-License-Identifier: MIT */
#ifndef TENON_WINDOWS_H
#define TENON_WINDOWS_H

#include "frontend/elab.h"

/* [N, C, sizes..]; an image alone, [C, sizes..], gets a first axis of 1. */
typedef struct {
    Val val;
    TypeInfo type;
    bool alone;
} Images;

/** n ints of argument i, of which one may stand for all. */
bool window_ints(Elab *e, const Call *c, uint32_t i, uint32_t n, int64_t least, int64_t *out);
/** Argument 0, with n sliding axes. */
bool window_images(Elab *e, const Call *c, uint32_t n, const char *what, Images *x);
/** y without the first axis, where x came without. */
Val window_result(Elab *e, const Images *x, Val y);
/** Elements from the first to the last one of a window, both counted. */
Dim window_reach(Elab *e, int64_t size, int64_t dilation);
/** pad by what the tensor holds: mode reflect, replicate or circular (builtin_pad.c). */
bool pad_with_itself(Elab *e, const Call *c, Val x, const char *mode, Value *out);
/** At least one window fits, or an entry check says so. */
bool window_exists(Elab *e, const Call *c, Dim out, uint32_t axis);
/** An axis has elements, or an entry check says so. */
bool window_filled(Elab *e, const Call *c, Dim size, uint32_t axis);

#endif
