/* lower_opaque.h: how groups of class OPAQUE become calls of functions of runtime/kernels. One
 * function `lower_OP` an op, in a file of its own. SPDX-License-Identifier: MIT */
#ifndef TENON_LOWER_OPAQUE_H
#define TENON_LOWER_OPAQUE_H

#include "passes/lower_internal.h"

/** Where an operand lies as a whole, in row-major order: a copy is made if need be. */
Loc opaque_operand(Lower *l, Val v);
/** Where a result is written: its place if that is row-major, else a temporary, which
 * opaque_finish copies to its place. Not for results that nobody reads: opaque_wanted. */
Loc opaque_result(Lower *l, Val v);
void opaque_finish(Lower *l, Val v, const Loc *from);
bool opaque_wanted(const Lower *l, Val v);
/** A temporary, row-major. */
Loc opaque_temp(Lower *l, const char *name, DType dtype, const Dim *shape, uint32_t rank);

typedef struct {
    Loc loc;
    DType dtype;
    KMode mode;
    Sym name;
} OpaqueArg;

/* A kernel that calls tn_FUNCTION (C) or tn_cu_FUNCTION (CUDA) once a cell: with pointers to the
 * arguments, then the number of the cell in each axis of the grid, then the sizes. */
typedef struct {
    const char *function;
    OpaqueArg args[16];
    uint32_t nargs;
    Dim grid[3];
    uint32_t ngrid;
    Dim ints[48];
    uint32_t nints;
    bool reports; /* an index may be out of range: error word and line come last */
    bool hooked;  /* the function takes a hook, which this makes, or NULL */
    void (*hook)(void *ctx, KBuild *b, KStmt *call);
    void *hook_ctx;
    int threads;  /* CUDA: of a block, which works on one cell */
} OpaqueCall;

/** An operand of the node, or a result of it (mode K_OUT, K_INOUT). A loc without a buffer is a
 * null pointer. */
void opaque_arg(OpaqueCall *c, const Loc *loc, DType dtype, KMode mode, Sym name);
void opaque_int(OpaqueCall *c, Dim d);
void opaque_grid(OpaqueCall *c, Dim extent);
void opaque_call(Lower *l, const OpaqueCall *c, const FuseGroup *grp);

void lower_scatter(Lower *l, const FuseGroup *grp);
void lower_sort(Lower *l, const FuseGroup *grp);
void lower_conv(Lower *l, const FuseGroup *grp);
void lower_attention(Lower *l, const FuseGroup *grp);
void lower_cumulate(Lower *l, const FuseGroup *grp);

/** The product of the axes [from, to). */
Dim opaque_product(Lower *l, const TypeInfo *t, uint32_t from, uint32_t to);

/** A function of runtime/kernels for elements of a type: "sort" and f32 give "sort_f32". */
const char *opaque_name(Lower *l, const char *base, DType t);

#endif
