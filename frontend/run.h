/* run.h: `tenon -run` and executables made by tenon: one method over named arrays.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_RUN_H
#define TENON_RUN_H

#include "frontend/data.h"
#include "runtime/include/tenon_program.h"

typedef struct {
    const char *method;          /* NULL: the model's only or first method */
    const char *inner;           /* why `method` is not exported, if it is in the model; or NULL */
    const char *const *operands; /* NAME=VALUE: @file, number, zeros ones arange randn, or a size */
    int noperands;
    bool grad;                     /* also gradients */
    bool training;                 /* the training form of the method */
    const char *const *cotangents; /* d_NAME=VALUE */
    int ncotangents;
    const char *load, *out; /* state file; result file; or NULL */
    uint64_t seed;
    int threads;
    DLDevice device;          /* {0, 0}: a GPU if the model was compiled for it and there is one */
    const char *const *files; /* the model's, as the user named them: for messages; or NULL */
    int nfiles;
    int repeat; /* > 0: also time so many calls and print the median (-bench) */
} RunOptions;

/** Runs and prints or saves the results. The exit status. */
int run_method(Arena *a, const tn_model_desc *desc, const RunOptions *o);

#endif
