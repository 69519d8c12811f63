/* elab_subs.h: subscripts of a tensor, shared by reading (elab_index.c) and by putting values where
 * tensors say (elab_put.c). SPDX-License-Identifier: MIT */
#ifndef TENON_ELAB_SUBS_H
#define TENON_ELAB_SUBS_H

#include "frontend/elab.h"

typedef enum { SUB_at, SUB_slice, SUB_new, SUB_gather, SUB_mask } SubKind;

/* One subscript, resolved against its axis. */
typedef struct {
    SubKind kind;
    uint32_t axis;
    Dim start, extent;  /* SUB_at: extent 1 */
    const Written *how; /* of the extent of a slice */
    int64_t step;
    Val index; /* SUB_gather (counted from the front), SUB_mask */
    Val given; /* SUB_gather: as the user gave it */
    Span at;
} Sub;

typedef struct {
    Sub at[3 * MAX_RANK];
    uint32_t n;
    bool ok;
} Subs;

/** x with the part that the subscripts name replaced; some of them are tensors, or have steps.
 * `op`: the caret of the index, `at`: the value's place. */
Value store_places(Elab *e, const Value *base, const Subs *s, const Value *part, Span op, Span at);
/** What x[static subscripts] gives. */
Val read_subs(Elab *e, Val x, const Subs *s);
/** part is `same`, x's own part as it is read, but for what was put into it: *out is x with that
 * put into it. */
bool changed_in_place(Elab *e, Val x, Val same, Val part, Val *out);

#endif
