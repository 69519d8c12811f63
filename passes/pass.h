/* pass.h: the pipeline (passes.def), its runner, and the one pass that elaboration calls too.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_PASS_H
#define TENON_PASS_H

#include "ir/tensor.h"

typedef struct {
    int level; /* 0..3, of -O */
    bool fast_math, deterministic;
    const char *stop_after;      /* name of a pass (-E=ir:PASS), or NULL */
    const char *const *disabled; /* -fno-PASS */
    int ndisabled;
    const char *remat; /* none, auto (NULL), all */
    const char *fgrad; /* -fgrad=: NULL or "all" (every float argument), "none" (parameters only),
                          or comma-separated argument names */
    bool verify;       /* verifier, and print/parse round trip, after every pass */
    StrBuf *dump;      /* stop_after: the text goes here */
    void (*timing)(void *ctx, const char *pass, double seconds); /* or NULL */
    void *timing_ctx;
} PassOptions;

/** Runs the tensor passes over every graph of the program. The frontend gave METHOD, TRAINING,
 * STEP, UPDATE, INIT and TEST graphs; afterwards FORWARD_TRAIN, BACKWARD and GRAD graphs exist for
 * each method that has anything to differentiate, and TRAINING ones are gone. False after
 * diagnostics. */
bool passes_run(Program *p, const PassOptions *o);

typedef struct {
    const char *name, *doc;
    bool required; /* has no -fno-NAME */
} PassInfo;
const PassInfo *pass_infos(int *n);
/** Whether no -fno-NAME leaves it out. */
bool pass_enabled(const PassOptions *o, const char *name);

/** Reverse-mode differentiation inside a graph: appends (stage 1) nodes that compute
 * out[k] = sum_i dy[i] * dy_i/dwrt[k]. dy[i] {0,0} stands for ones (y 0-d). out[k] is {0,0} where
 * nothing arrives. Works before and after `broadcast`. False after a diagnostic (no derivative). */
bool differentiate(Builder *b, const Val *y, const Val *dy, uint32_t ny, const Val *wrt,
                   uint32_t nwrt, Val *out);

/** Pass `outline` of a graph that is differentiated before the passes run, and of its scans' bodies:
 * the graph, where it has no attention that is written out, else a new one with broadcasts made
 * explicit and the same parameters and results. */
Graph *outline_early(Program *p, Graph *g);

/** Parameters: take the gradient with respect to build_state(b, segment), not to views of it. It
 * comes as a concat in the segment's layout, zeros where nothing arrives: the kernels that compute
 * the pieces write into it. A piece alone is a slice of that. {0,0}: nothing arrives anywhere.
 *
 * This adds such a gradient to what a gradient slot holds, piece by piece, for a commit. */
Val segment_accumulate(Builder *b, uint32_t slot, Val d);

/** The gradient slot of a segment of parameters; made if the program has none yet. */
uint32_t segment_grad_slot(Program *p, uint32_t segment);

/* A call with a derivative of its own: attribute `grad` is the index + 1 of a graph with parameters
 * (operands of the call, all its results, cotangents of the first `results` results), whose results
 * are named like the parameters of the call's definition; one that is absent has no gradient. */

/** The node once more; the body of a scan then prints and reports nothing: it has done so. */
Val build_quietly(Builder *b, const Node *n, const Val *in);

#endif
