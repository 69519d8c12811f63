/* eval_internal.h: what eval.c and eval_ops.c share. SPDX-License-Identifier: MIT */
#ifndef TENON_EVAL_INTERNAL_H
#define TENON_EVAL_INTERNAL_H

#include "ir/eval.h"

typedef struct {
    Eval *e;
    const Graph *g;
    const Node *n;
    const EvalTensor *in[8]; /* the first operands */
    const EvalTensor **all;  /* all of them */
    EvalTensor *out;         /* results, allocated */
    const char *error;
} EvalNode;

void eval_structural(EvalNode *q);
void eval_scan(EvalNode *q); /* loop.c */
/** window, fold, unwindow, conv (eval_window.c). */
void eval_windows(EvalNode *q);
/** scatter, sort, and cumulate with an index (eval_index.c). */
void eval_chosen(EvalNode *q);
/** attention and its gradient (eval_attention.c). */
void eval_attention(EvalNode *q);
void eval_random(EvalNode *q);
/** The index of element k along each axis. */
void eval_unravel(const EvalTensor *x, int64_t k, int64_t *index);
int64_t eval_ravel(const EvalTensor *x, const int64_t *index);
bool eval_size(const EvalNode *q, Dim d, int64_t *value);
void eval_fail(EvalNode *q, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
