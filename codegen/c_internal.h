/* c_internal.h: what the files of the C printer share. SPDX-License-Identifier: MIT */
#ifndef TENON_C_INTERNAL_H
#define TENON_C_INTERNAL_H

#include "codegen/ktext.h"

/* A run of neighbouring indices of `axis`, printed as axis + l for l in 0..count. */
typedef struct {
    bool on;
    Symbol axis;
    int width;         /* of its arrays */
    const char *count; /* "16", or what the last run has */
} Strip;

/* Memory that is asked for in a loop of a row, the carrier: see c_ahead.c. */
enum { MAX_AHEAD = 6 };
typedef struct {
    uint32_t param;
    Dim offset; /* in elements, at the carrier's index */
    bool store;
} AheadAccess;
typedef struct {
    const KStmt *carrier; /* or NULL */
    AheadAccess at[MAX_AHEAD];
    int n;
    bool streams; /* a map: the carrier's own accesses, further along */
} Ahead;

typedef struct {
    KText t;
    Strip strip;
    Ahead ahead;
} CPrint;

static inline DimTable *c_dims(const CPrint *c)
{
    return c->t.p->cx->dims;
}
const char *c_name_of(const CPrint *c, Sym s);
const char *c_axis_name(const CPrint *c, Symbol s);

/* c.c: statements and accumulators. */
void c_block(CPrint *c, const KBlock *b);
void c_let(CPrint *c, const KStmt *s);
void c_acc(CPrint *c, const KStmt *s);

/* c_loops.c */
void c_for(CPrint *c, const KStmt *s);
/** Loops inside a strip run for all of its lanes together: their bounds must not depend on the
 * lane. */
bool c_can_strip(const CPrint *c, const KBlock *b, Symbol axis);
/** Until the end, `axis` is axis + l (from_zero: l), and statements stand in loops over l. */
void c_strip_begin(CPrint *c, Symbol axis, int width, const char *count, bool from_zero);
void c_strip_end(CPrint *c, Strip before);
void c_strip_block(CPrint *c, const KBlock *b);

/** Whether the loop folds in runs of 16 lanes. */
bool c_has_runs(const CPrint *c, const KStmt *s);

/* c_ahead.c */
/** Finds out what the cells of a row ask for ahead; `row` counts them. */
void c_ahead_plan(CPrint *c, const KBlock *cell, Symbol row);
/** Asks for it, if `loop` is the one to do so: at the beginning of a run. */
void c_ahead_print(CPrint *c, const KStmt *loop);
/** Whether the loop is one of a map that streams: it goes in strips then, and each asks ahead. */
bool c_ahead_streams(CPrint *c, const KStmt *s);

/* c_random.c */
/** Whether the body, which has no loops, draws random numbers whose indices are neighbours along
 * the axis. */
bool c_draws_runs(CPrint *c, const KBlock *b, Symbol axis);
/** Draws those of the strip that has begun into arrays; until the scope ends, they stand for the
 * draws. start: its first index (the axis itself or 0); starts_at_multiple: a multiple of 4, as far
 * as the axis is concerned. */
void c_draw_runs(CPrint *c, const KBlock *b, Dim start, bool starts_at_multiple);

#endif
