/* state_files.h: state of an instance in a file, with a few integers beside it (the position of a
 * training run). SPDX-License-Identifier: MIT */
#ifndef TENON_STATE_FILES_H
#define TENON_STATE_FILES_H

#include "runtime/include/tenon.h"

#include <stdbool.h>

/* Stored as an i64[] array "tenon.NAME". */
typedef struct {
    const char *name;
    int64_t value;
    bool found; /* by load */
} tn__extra;

tn_status tn__model_save(tn_model *m, const char *path, const tn__extra *extra, int nextra);
/** `need_optimizer`: optimiser state and counters must be there too (resuming), else they are
 * taken when they are there. */
tn_status tn__model_load(tn_model *m, const char *path, bool need_optimizer, tn__extra *extra,
                         int nextra);

#endif
