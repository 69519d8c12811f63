/* train_internal.h: what train.c and train_setup.c share. SPDX-License-Identifier: MIT */
#ifndef TENON_TRAIN_INTERNAL_H
#define TENON_TRAIN_INTERNAL_H

#include "frontend/train.h"

#include <stdbool.h>
#include <stdint.h>

enum { MAX_TRAIN_ARGS = 64, MAX_TASKS = 8 };

/* One argument of a loss. */
typedef struct {
    DLTensor batch;     /* what a call gets */
    bool batched;       /* rows are chosen; else the whole array is passed */
    bool carried;       /* updated in place: goes from batch to batch */
    int carry_axis;     /* its batch axis, or -1 */
    int64_t carry_rows; /* batch size of what it holds; -1: start from zeros */
} Input;

/* One `train` of the file. */
typedef struct {
    const char *method;
    int step, eval; /* programs */
    int nargs, nresults;
    const char *names[MAX_TRAIN_ARGS]; /* arguments, then results */
    Input in[MAX_TRAIN_ARGS];
    DLTensor out[MAX_TRAIN_ARGS];
    int carry_of[MAX_TRAIN_ARGS]; /* result: number of the argument that it updates, or -1 */
    bool scalar[MAX_TRAIN_ARGS];
    double sums[MAX_TRAIN_ARGS];
} Task;

typedef struct {
    Arena *a;
    const TrainOptions *o;
    const tn_model_desc *desc;
    tn_context *ctx;
    tn_model *m;
    Arrays *data, *test;
    Task tasks[MAX_TASKS];
    int ntasks;
    int64_t batch, ntrain, nval, ntest;
    int64_t *train_rows; /* ntrain, then nval */
    int64_t *rows;       /* of this epoch, shuffled */
    uint64_t seed;
    int start_epoch;
    int64_t start_batch; /* of the first epoch: resumed in its middle */
    int stopped_epoch;
    int64_t stopped_batch;
    bool bar;
} Trainer;

int train_error(Trainer *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Loads the data, makes the model, binds arguments. 0, or 1 after a message. */
int train_prepare(Trainer *t);
int train_save(Trainer *t, const char *path);
void train_end(Trainer *t);

#endif
