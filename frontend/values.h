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
    bool no_memory;    /* why the last message came */
} Sizes;

/** Name of the size that alone is an axis of an argument, or NULL. */
const char *argument_size(const tn_program *p, int arg, int axis);
/** The axis of an argument if it is a constant, else -1. */
int64_t argument_constant(const tn_program *p, int arg, int axis);
/** What an argument wants: "i64[B, 4]". */
const char *argument_text(Arena *a, const tn_program *p, int arg);
/** It has the dtype, the rank and, from axis `from` on, the constant axes of the argument. */
bool argument_fits(const tn_program *p, int arg, const DLTensor *x, int from);

/* Each returns NULL, or a message. */
const char *sizes_begin(Sizes *s, Arena *a, const tn_program *p);
/** Takes one NAME=VALUE: a size, or an argument (whose file is read now and binds sizes). */
const char *sizes_operand(Sizes *s, Arrays *in, const char *text);
/** The tensor of argument number `i`: what was given, NULL where it may be left out. */
const char *sizes_argument(Sizes *s, Arrays *in, int i, uint64_t seed, const DLTensor **out);
/** Fills a tensor of known shape from VALUE: @file, a number, zeros, ones, arange, randn. A number
 * that the dtype cannot hold is a message, not another number. */
const char *value_fill(Arena *a, Arrays *in, const char *name, const char *value, uint64_t seed,
                       DLTensor *t);

#endif
