/* elab_written.h: how sizes were written. A config value is a plain int and a size of a tensor a
 * Dim; beside them goes the text that they came from, so that a message says
 * `[B, features + state]` and not `[B, 160]`. Nothing but messages depends on it.
 * frontend/README.md, "Sizes in messages". SPDX-License-Identifier: MIT */
#ifndef TENON_ELAB_WRITTEN_H
#define TENON_ELAB_WRITTEN_H

#include "frontend/ast.h"
#include "ir/tensor.h"

typedef struct Written Written;

typedef enum {
    WRITTEN_value,  /* nothing but its value */
    WRITTEN_name,   /* a name that stands for a size; a: what it was given, or NULL */
    WRITTEN_op,     /* a op b */
    WRITTEN_call,   /* min(a, b) or max(a, b): `name` */
    WRITTEN_axis,   /* an axis of a tensor; a: what was set for it, or NULL */
    WRITTEN_either, /* a, or b if a says nothing */
    WRITTEN_sum,    /* of parts, which nobody wrote as such: the joined axis of cat */
    WRITTEN_product /* of parts: merged axes */
} WrittenKind;

/* One size; it never changes. NULL is like WRITTEN_value. */
struct Written {
    WrittenKind kind;
    AstOp op;
    bool is_int;
    uint32_t n; /* parts */
    int64_t i;  /* the value, if is_int; else size */
    Dim size;
    Sym name;
    const void *owner; /* of a name: the Instance, FileEnv or Scope that it belongs to */
    const Written *a, *b;
    const Written *const *parts;
    const Dim *part_sizes;
    const Graph *graph; /* WRITTEN_axis */
    Val val;
    uint32_t axis;
};

/* A shape with its text: axis[i] may be NULL. */
typedef struct {
    uint32_t rank;
    Dim at[MAX_RANK];
    const Written *how[MAX_RANK];
} Shape;

/* What is known of a value: an array by axis. */
typedef struct {
    const Graph *g;
    Val v;
    const Written *const *axes;
} WrittenCell;

/* What is found out about the values of a graph when a message needs it: by node, then
 * result * MAX_RANK + axis. */
typedef struct {
    const Graph *g;
    VEC(const Written **) nodes;
} WrittenGraph;

/* A name that a message has used, and its value. */
typedef struct {
    const char *name;
    int64_t value;
} Said;

typedef struct {
    WrittenCell *cells; /* open addressing */
    uint32_t n, size;
    VEC(WrittenGraph *) graphs;
    VEC(Said) said;   /* by the message being put together */
    const char *note; /* takes the place of their values */
    int budget;
} WrittenTable;

#endif
