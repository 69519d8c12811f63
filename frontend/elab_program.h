/* elab_program.h: from a model's instance to the graphs of its program.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_ELAB_PROGRAM_H
#define TENON_ELAB_PROGRAM_H

#include "frontend/elab.h"

/* One group of a `train`: who is in it and what it changes. Group 0 is everything else. */
typedef struct {
    Value *config; /* the optimizer's values, with the group's settings */
    bool *own;     /* [parameter]: set by this group, so that it has a hyper-parameter of its own */
    const AstGroup *ast;
    uint32_t matches;
} TrainGroup;

typedef struct {
    const AstDecl *decl;
    Fn *method;
    Sym name; /* "loss" */
    Optim *optim;
    VEC(TrainGroup) groups;
    VEC(int) group_of; /* e->states index -> group, or -1: not moved by this train */
    Value clip_norm, clip_value, average;
    int64_t accumulate, micro;
    uint32_t counter; /* slot of the step count */
} Train;
typedef VEC(Train) Trains;

/* A segment: parameters that every `train` treats alike, in one slot. */
typedef struct {
    uint32_t slot, grad; /* grad 0: not trained */
    DType dtype;
    Place place;
    bool trainable;
    VEC(State *) states;
    VEC(int64_t) offset; /* of each, in elements */
    VEC(int) key;        /* its group in every train */
    int64_t size;
} Segment;
typedef VEC(Segment) Segments;

typedef struct {
    Sym method, name;
    Symbol symbol;
} MethodSize;

/* A model on its way to a program. */
typedef struct {
    Elab *e;
    FileEnv *file;
    const AstDecl *decl; /* NULL: -m, or of several models */
    Trains trains;
    Segments segments;
    VEC(MethodSize) sizes;
    VEC(SizeBinding) fixed; /* sizes fixed by `with` and -D */
    uint32_t absent;        /* of the variant being traced */
} Model;

bool body_uses(const AstStmts *body, Sym name);
bool expr_uses(const AstExpr *x, Sym name);
bool fn_uses(const AstFn *fn, Sym name);
bool decl_uses(const AstDecl *d, Sym name);
/** Calls `visit` with every expression of a declaration until it says true. Names of types come as
 * an EX_name without a place. */
void decl_visit(const AstDecl *d, bool (*visit)(void *ctx, const AstExpr *x), void *ctx);

/** -Wunused: imports, lets and private functions of a file that nothing names. */
void warn_unused(Elab *e, const FileEnv *f);

/* ---- elab_check.c: -check ---- */

/** What no model of the file has run: functions and modules as far as they can be run alone, and
 * names everywhere. */
void check_rest(Elab *e, FileEnv *f);
/** The names of a declaration that was not run (elab_names.c). */
void check_names(Elab *e, FileEnv *f, const AstDecl *d);
/** A new program in e->p. */
void begin_program(Elab *e, const FileEnv *f, Sym name);

/* ---- elab_layout.c ---- */

/** Segments, slots and views for every state of the model. */
void layout_states(Model *m);
/** INIT: the initial value of every slot but hyper-parameters and counters. */
Graph *begin_init(Model *m);
void end_init(Model *m, Graph *g);
/** The parts one behind the other in a value of the segment's shape, gaps filled with zeros.
 * parts[i] {0,0}: zeros. */
Val join_segment(Elab *e, const Segment *s, const Val *parts, DType dtype);
Val segment_part(Elab *e, const Segment *s, uint32_t i, Val whole);
/** Puts a state behind those of the segment. */
void segment_add(Elab *e, Segment *seg, State *s);

/* ---- elab_method.c ---- */

bool is_exported(Elab *e, const Fn *fn);
/** NULL if it is; else a clause: "the rank of `x` is open (`...`)". */
const char *why_not_exported(Elab *e, const Fn *fn);
/* Arguments with a default may be left out: each set of them is a variant of the method, named
 * "loss_without_beta_without_mask". */
enum { MAX_OPTIONAL = 3 };
uint32_t optional_count(const Fn *fn);
Sym variant_name(Elab *e, const Fn *fn, uint32_t absent);
/** Traces an exported method; results, commits and checks are in the graph. Bit i of `absent`: the
 * i-th optional argument is left out. NULL after messages. */
Graph *trace_method(Model *m, Fn *fn, GraphKind kind, uint32_t absent, bool training);
/** The same without the commits: e->b is still at the graph (leave it with end_trace). */
Graph *begin_trace(Model *m, Sym name, Sym method, GraphKind kind, bool training);
void end_trace(Model *m, Graph *g);
bool trace_body(Model *m, Graph *g, Fn *fn, const Train *t);
/** The method of a train over slices of the batch (elab_micro.c): its results, of the whole batch. */
Value call_in_slices(Elab *e, Graph *g, const Train *t, const Args *args);
void commit_states(Elab *e, Graph *g);

/** Symbols for the sizes that the type of an argument introduces. */
void declare_sizes(Model *m, Sym method, const Env *env, const AstType *t);

/* ---- elab_train.c, elab_update.c ---- */

/** Evaluates the `train` declarations of the model. */
void read_trains(Model *m);
/** STEP and UPDATE graphs, slots of the optimizers; appends their INIT to `init`. */
void make_steps(Model *m, Graph *init);
/** The slot of the number that the loss's gradient begins with under -famp=f16. */
uint32_t loss_scale(Elab *e, Train *t);
/** Slots of the averages that trains keep of their parameters; appends their INIT to `init`. */
void make_averages(Model *m, Graph *init);
bool make_update(Model *m, Train *t, Graph *g, Val *grads, bool **reached, Graph *init);

/* ---- elab_test.c ---- */

/** The tests that belong to the model; to several: those that name more than one. */
void make_tests(Model *m);
/** Whether some test of the file names this model and another one. */
bool tested_jointly(const FileEnv *f, Sym model);
/** Whether the file has tests and no models. */
bool tests_alone(const FileEnv *f);
void make_test(Model *m, const AstDecl *d);

#endif
