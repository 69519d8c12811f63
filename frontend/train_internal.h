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
    bool diverged; /* its loss was no finite number once, which has been said */
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
    bool fixed_batch; /* by -D or the file: no smaller batch can run */
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

/** Each says something, without disturbing the progress bar. train_error gives 1 back,
 * train_failed, which tells of the runtime's last failure, the exit status. */
int train_error(Trainer *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void train_warning(Trainer *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int train_failed(Trainer *t, tn_status s);
/** How many of n examples are used: all, or as many as fill batches that cannot be smaller. */
int64_t train_usable(const Trainer *t, int64_t n);
/** Loads the data, makes the model, binds arguments. 0, or the exit status after a message. */
int train_prepare(Trainer *t);
int train_save(Trainer *t, const char *path);
void train_end(Trainer *t);

#endif
