/* lower_row.h: parts of row kernels that split reductions use too. SPDX-License-Identifier: MIT */
#ifndef TENON_LOWER_ROW_H
#define TENON_LOWER_ROW_H

#include "passes/lower_internal.h"

/* One pass over a row and what stands around it. */
typedef struct {
    KBlock before, fold, behind; /* row stores; folds and stores in the loops; results */
    VEC(uint32_t) accs;
} RowPhase;

typedef struct {
    KBuild *b;
    const FuseGroup *grp;
    LoopDomain d;
    uint32_t *acc; /* by root: accumulator + 1 */
    RowPhase *phase;
    uint32_t nphases;
} Row;

typedef struct {
    Symbol kept[FUSE_AXES], reduced[FUSE_AXES];
    uint32_t nkept, nreduced;
    bool columns; /* the innermost axis is kept */
} RowAxes;

typedef struct {
    ForKind outer, inner; /* of the loops over reduced axes */
    int vec;              /* neighbours that a lane owns, of the innermost reduced axis */
    bool grid_lanes, teams, over_block;
} RowSched;

/* Reductions that are cut into parts, and the kernel that joins them. */
typedef struct {
    Lower *l;
    const FuseGroup *grp;
    uint32_t reduced;    /* axes of the domain that the parts are of */
    bool columns;        /* the innermost axis is kept */
    bool side;           /* side sums of rows; else all roots */
    uint32_t (*part)[2]; /* by root: buffer of the parts of each result, 0: none */
    Dim parts;           /* how many */
    Dim size, rest, n;   /* a part is at most `size` of `n` elements of the outermost reduced axis,
                            each of them `rest` of all axes together */
    bool joined;         /* by the kernel that makes them */
} Split;

uint32_t row_acc(KBuild *b, const FuseRoot *r);
void row_fold(KBuild *b, KBlock *block, const FuseGroup *grp, const FuseRoot *r,
              const LoopDomain *d, uint32_t acc);
void row_result_index(KBuild *b, const FuseGroup *grp, const FuseRoot *r, const LoopDomain *d,
                      Dim *at);
void row_split_axes(const FuseGroup *grp, uint32_t reduced, const LoopDomain *d, RowAxes *x);
/** `resident`: values that a lane has for each element of the row at once: kept ones and side sums.
 */
void sched_row(KBuild *b, const RowAxes *x, uint32_t resident, RowSched *s);
KBlock *row_grid(KBuild *b, KBlock *block, const RowAxes *x, const RowSched *s);
KBlock *row_loops(KBuild *b, KBlock *block, const RowAxes *x, const RowSched *s);
void row_total(KBuild *b, KBlock *block, uint32_t acc, const RowSched *s);
/** Values that several passes need are made once and kept, where that pays; how many there are at
 * once (lower_keep.c). */
uint32_t row_keeps(Row *w, const RowAxes *x, uint32_t nside);
/** One pass for a maximum and the sum of exponentials under it (lower_online.c). */
void row_online(Row *w);
/** Stores the parts of the reductions `w` is about, as element `g` of each. */
void split_store(Split *w, KBuild *b, KBlock *block, const LoopDomain *d, Dim g);
/** Where element `g` of the parts is: its index goes to `at`. */
Loc split_part(Split *w, uint32_t root, uint32_t result, DType type, const LoopDomain *d, Dim g,
               Dim *at);
/** The grid of rows in shares, with their side sums; false: all is to be made again. `made`: the
 * parts, joined or not (lower_shares.c). */
bool row_shares(Row *w, Split *made, const RowAxes *x, const RowSched *s, const KBlock *row);
/** Stores what is made of the joined parts. */
void split_results(const Split *w, KBuild *b, KBlock *block, const LoopDomain *d);
/** The kernel that joins the parts. */
void split_join(Split *w);
void block_append(Lower *l, KBlock *to, const KBlock *from);
/** Reductions in parts, if that is what their size asks for; false: nothing was made. */
bool lower_split(Lower *l, const FuseGroup *grp);
/** The group as one kernel; its step. */
Step *lower_rows(Lower *l, const FuseGroup *grp);

#endif
