/* place.h: where this installation keeps its headers and libraries. SPDX-License-Identifier: MIT */
#ifndef TENON_PLACE_H
#define TENON_PLACE_H

#include "ir/base/arena.h"

/** Folders with tenon.h, at most `max`; how many. */
int place_include_dirs(Arena *a, const char **out, int max);
/** Path of a library file, or NULL: beside the command (a build folder), else in ../lib. */
const char *place_library(Arena *a, const char *name);

#endif
