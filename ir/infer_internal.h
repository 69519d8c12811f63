/* infer_internal.h: what the files of type rules share. SPDX-License-Identifier: MIT */
#ifndef TENON_INFER_INTERNAL_H
#define TENON_INFER_INTERNAL_H

#include "ir/tensor_internal.h"

typedef struct {
    Builder *b;
    Program *p;
    DimTable *dims;
    Op op;
    const Val *in;
    uint32_t nin;
    const Attr *attrs;
    TypeInfo x[4]; /* types of the first operands (copies: the table may move) */
    Ty *types;
    uint32_t n;
    Place place;
} Infer;

/** Text in scratch. */
const char *infer_say(Infer *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** One more result; NULL, or why it cannot be. */
const char *infer_result(Infer *q, DType t, const Dim *shape, uint32_t rank);

/** Two sizes are proved to be the same. */
bool infer_same_size(Infer *q, Dim a, Dim b);
/** Whether a reducer is for elements of a type. */
bool infer_reducer_takes(Reducer r, DType t);

/* infer_index.c */
const char *infer_scatter(Infer *q);
const char *infer_sort(Infer *q);

/* infer_attention.c */
const char *infer_attention(Infer *q);
const char *infer_attention_grad(Infer *q);

/* infer_window.c */
const char *infer_window(Infer *q);
const char *infer_fold(Infer *q);
const char *infer_conv(Infer *q);

#endif
