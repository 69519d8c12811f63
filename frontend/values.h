/* values.h: NAME=VALUE of the command line against the arguments of a program.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_VALUES_H
#define TENON_VALUES_H

#include "frontend/data.h"
#include "ir/base/diag.h"
#include "runtime/include/tenon_program.h"

/* Sizes of a program as they become known from files and words. */
typedef struct {
    Arena *a;
    const tn_program *p;
    int64_t *value; /* per symbol */
    uint8_t *known;
    const char **text; /* per argument: the VALUE given, or NULL */
    DLTensor **file;   /* per argument: the array read for it, or NULL */
} Sizes;

/* Each returns NULL, or a message. */
const char *sizes_begin(Sizes *s, Arena *a, const tn_program *p);
/** Takes one NAME=VALUE: a size, or an argument (whose file is read now and binds sizes). */
const char *sizes_operand(Sizes *s, Arrays *in, const char *text);
/** The tensor of argument number `i`: what was given, NULL where it may be left out. */
const char *sizes_argument(Sizes *s, Arrays *in, int i, uint64_t seed, const DLTensor **out);
/** Fills a tensor of known shape from VALUE: @file, a number, zeros, ones, arange, randn. */
const char *value_fill(Arena *a, Arrays *in, const char *name, const char *value, uint64_t seed,
                       DLTensor *t);

#endif
