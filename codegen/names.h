/* names.h: readable C identifiers, unique within a scope.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_NAMES_H
#define TENON_NAMES_H

#include "ir/base/arena.h"
#include "ir/base/vec.h"

#include <stdbool.h>

typedef struct {
    Arena *a;
    VEC(const char *) taken;
} Names;

/** True for what C11, C++ or CUDA reserve, and for names of <math.h> and friends that a local would
 * hide to the reader's surprise. */
bool name_is_reserved(const char *name);

/** A C identifier like `wanted` ("layers.0.weight" becomes layers_0_weight), unlike all that this
 * scope gave before; ties get a number. NULL or "" reads as `t`. */
const char *name_unique(Names *n, const char *wanted);

/** Takes a name as it is. False if it is taken. */
bool name_take(Names *n, const char *name);

/** "LLTM" of "lltm", for macros. */
const char *name_upper(Arena *a, const char *name);

/** The identifier alone, without uniqueness; a reserved word gets a trailing "_". */
const char *name_clean(Arena *a, const char *wanted);

#endif
