/* analysis.h: questions about graphs that several passes ask.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_ANALYSIS_H
#define TENON_ANALYSIS_H

#include "ir/tensor.h"

/** True if every element of v is one number known while compiling (a constant behind views). */
bool graph_constant(const Graph *g, Val v, double *value);

/** Copies the nodes of `def` into the builder's graph with its parameters replaced by args;
 * results[k] gets the value of result k. Checks and prints of the definition come along. */
void graph_inline(Builder *b, const Graph *def, const Val *args, uint32_t nargs, Val *results);

/** Bytes of all results of a node, or of one value, at hint sizes. */
double node_bytes(const Program *p, const Graph *g, uint32_t node);
double val_bytes(const Program *p, const Graph *g, Val v);

/** broadcast reshape transpose slice: results are elements of the operand. */
bool op_is_view(Op op);
/** Leaves that cost nothing to make again: const iota dim table. */
bool op_is_free(Op op);
/** Elements of the result at hint sizes (for costs). */
double val_count(const Program *p, const Graph *g, Val v);

/** The nodes that read each node, once for each operand, in order (scratch). */
typedef struct {
    uint32_t *start; /* users of node i: list[start[i]] .. list[start[i + 1] - 1] */
    uint32_t *list;
} Users;
Users graph_users(const Program *p, const Graph *g, const bool *live);

#endif
