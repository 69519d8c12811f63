/* train.h: `tenon -train`: epochs over named arrays. SPDX-License-Identifier: MIT */
#ifndef TENON_TRAIN_H
#define TENON_TRAIN_H

#include "frontend/data.h"
#include "runtime/include/tenon_program.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int epochs; /* 0: 10 */
    int batch;  /* 0: 32 */
    double lr;  /* <= 0: as the file says */
    double val; /* share of the examples held out, 0..1 */
    uint64_t seed;
    bool seed_given;
    const char *const *files; /* the model's, as the user named them: for messages; or NULL */
    int nfiles;
    const char *load;          /* weights to begin with, or NULL */
    const char *save, *resume; /* or NULL */
    const char *data;
    bool quiet; /* no progress bar even on a terminal */
    int threads;
    DLDevice device; /* where the model lives */
} TrainOptions;

/** Trains and reports on standard output; errors go to standard error. The exit status. */
int train_run(Arena *a, const tn_model_desc *desc, const TrainOptions *o);

#endif
