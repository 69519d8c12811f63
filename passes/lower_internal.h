/* lower_internal.h: what the files of lowering share: places of values, and the builder of one
 * kernel. Entry points are in ir/host.h. SPDX-License-Identifier: MIT */
#ifndef TENON_LOWER_INTERNAL_H
#define TENON_LOWER_INTERNAL_H

#include "ir/base/die.h"
#include "ir/host.h"
#include "passes/fuse.h"
#include "passes/lower_names.h"

/* --- where values lie ----------------------------------------------------------------------------
 */

/* Element (i0, i1, ..) of a value is at offset + sum of i * stride of a buffer. */
typedef struct {
    uint32_t buf; /* 0: nowhere */
    Dim offset;
    uint32_t rank;
    Dim shape[MAX_RANK], stride[MAX_RANK];
} Loc;

Loc loc_row_major(DimTable *t, uint32_t buf, Dim offset, const Dim *shape, uint32_t rank);
bool loc_is_row_major(DimTable *t, const Loc *loc);

/* --- one program --------------------------------------------------------------------------------
 */

/* Kernels of the model so far, by structure: equal groups share one. */
typedef struct {
    uint64_t hash;
    const char *text; /* NULL: was not needed yet */
    uint32_t kernel;
} KnownKernel;

typedef struct LowerRecipe LowerRecipe; /* how a group was lowered (lower_again.c) */

typedef struct {
    HostModel *m;
    VEC(LowerRecipe *) recipes;
    uint32_t *recipe_of, recipes_size; /* hash table of their numbers + 1 */
    VEC(KnownKernel) known;
    VEC(Sym) names; /* of kernels, to keep them unique */
} LowerModel;

typedef struct {
    Loc dst, src;
    DType dtype;
    Sym name;
    Site site;
    bool piece; /* of a value that later groups may read as a whole: not late at all */
} LateCopy;

typedef struct {
    Program *p;
    DimTable *t;
    Arena *a; /* perm */
    const LowerOptions *o;    /* of the place at hand: one of `options` */
    LowerOptions options[2]; /* for the CPU, for GPUs */
    Place place;             /* of steps and temporaries that are made */
    LowerModel *lm;
    HostModel *m;
    const Graph *g;
    HostProgram *h;
    const Fusion *f;
    Loc *loc;                  /* by number of FuseBuffer; buf 0: not made yet */
    uint32_t *slot_buf;        /* buffer of each state slot, 0: none yet */
    uint32_t group;            /* being lowered */
    const FuseGroup *making;   /* the same, while steps of it are made; else NULL */
    const FuseGroup *contract; /* that it is or rides with; or NULL */
    uint32_t group_first;      /* those from this one on are lowered together */
    GuardTerm choice;        /* holds for the steps of groups up to choice_last, and the library */
    uint32_t choice_last;    /* 0: there is none */
    VEC(LateCopy) late;      /* at the end of the program */
    bool failed;             /* a diagnostic was given */
    uint32_t *acc_of;        /* by node: accumulator + 1 of a reduce, in the kernel that is built */
    VEC(uint32_t) acc_nodes; /* those that have one */
    LowerRecipe *noting;     /* of the group that is lowered, or NULL */
    NameSet buffer_names;    /* of the program */
    NameSet kernel_names;    /* in the kernel that is built */
} Lower;

/** What is made from now on is for that place. */
void lower_at(Lower *l, Place place);
/** Where a value that has a FuseBuffer lies; NULL for others. */
const Loc *lower_loc(Lower *l, Val v);
uint32_t lower_buffer(Lower *l, BufKind kind, Sym name, DType dtype, const Dim *shape,
                      uint32_t rank);
/** A name for the value: the user's, else made of its op. */
Sym lower_name(Lower *l, Val v);
Step *lower_step(Lower *l, StepKind kind, Site site);
const char *lower_text(Lower *l, Val v); /* "new_h = ..." of the model, for comments */

/* --- one kernel ----------------------------------------------------------------------------------
 */

/* An integer that the kernel loads and uses in indices. */
typedef struct {
    Symbol symbol;
    KExpr expr;
    Guard check; /* n 0: none; false: the device error word is set */
    Site site;
} Loaded;

typedef struct {
    uint32_t node, result;
    uint64_t guard;
    Dim at[MAX_RANK];
    KExpr expr;
} Memo;

/* A result of a reduce that is made of several accumulators. */
typedef struct {
    uint32_t acc, result;
    KExpr expr;
} AccResult;

typedef struct {
    Lower *l;
    Kernel *k;
    ArenaMark kernels; /* before the kernel */
    ArenaMark mark;    /* of scratch: what only this kernel's making needs goes at its end */
    VEC(LaunchOperand) operands; /* one for each parameter */
    VEC(Loaded) loaded;
    VEC(AccResult) results;
    VEC(DimSubst) lifted; /* sizes that the launch computes */
    uint32_t nv;          /* v0 .. are in use up to here */
    VEC(GuardTerm) guard; /* in force where the expression being made is evaluated */
    Memo *memo;
    uint32_t nmemo, memo_size;
    VEC(Site) sites; /* lines of the model */
    /* CONTRACT: what lies in this buffer at this element is the kernel's own result */
    struct {
        uint32_t buf; /* 0: there is none */
        Dim at;
        KExpr value;
        bool missed; /* something else of the buffer is read: it cannot be one kernel */
    } own;
} KBuild;

KBuild *kbuild_begin(Lower *l, Sym name, KClass class);
/** The reduce `node` is accumulator `acc`. */
void kbuild_acc(KBuild *b, uint32_t node, uint32_t acc);
/** Places LETs, counts traffic, and gives the launch step. Equal kernels are shared. */
Step *kbuild_end(KBuild *b, Site site, const char *text);

/** Names that no kernel may give to a value. */
void lower_names(Lower *l);
Sym kbuild_name(KBuild *b, Sym wanted, const char *otherwise);
/** A new axis of the kernel, named after its extent or i, j, k... */
Symbol kbuild_axis(KBuild *b, Dim extent);
uint32_t kbuild_param(KBuild *b, const Loc *loc, DType dtype, KMode mode, Sym name);
/** The value at an index. */
KExpr kbuild_value(KBuild *b, Val v, const Dim *at);
KExpr kbuild_cast(KBuild *b, KExpr e, DType t);
KExpr kbuild_const(KBuild *b, DType t, double value);
void kbuild_store(KBuild *b, KBlock *block, Val v, const Dim *at);
KStmt *kbuild_for(KBuild *b, KBlock *block, Symbol axis, ForKind kind);

/** Index of an operand of a reshape, from the index of the result. */
void index_reshape(DimTable *t, const Dim *in, uint32_t nin, const Dim *out, uint32_t nout,
                   const Dim *at, Dim *result);

/** Whether kbuild_in_place would find something. */
bool kbuild_clashes(KBuild *b, const KBlock *cell);
/** Every inout parameter is read only where it may be: at the index that is written, or earlier in
 * the cell. False: an output that clashed lies in a temporary now, and the group is built anew. */
bool kbuild_in_place(KBuild *b, const KBlock *cell);

/* --- a group's domain
 * ------------------------------------------------------------------------------ */

typedef struct {
    Symbol axis[FUSE_AXES]; /* {0} where the extent is 1 */
    Dim at[FUSE_AXES];
} LoopDomain;

LoopDomain kbuild_domain(KBuild *b, const FuseGroup *grp);
/** Index of a root's value (of a reduce: of its operand). */
void root_index(KBuild *b, const FuseGroup *grp, const FuseRoot *r, const LoopDomain *d, Dim *at);
/** Stores (or checks) what a pointwise root gives. */
void root_store(KBuild *b, KBlock *block, const FuseRoot *r, const Dim *at);
/** The reduce that a root is, or NULL. */
const Node *root_reduce(const Lower *l, const FuseRoot *r);
/** Loops over axes around statements, the last one of kind `last`, the others of kind `outer`. */
KBlock *kbuild_loops(KBuild *b, KBlock *block, const Symbol *axes, uint32_t n, ForKind outer,
                     ForKind last);

/* --- classes: one function each; sched_CLASS in the same file chooses the shape of the loops
 * -------- */

void lower_map(Lower *l, const FuseGroup *grp);
/** Merges axes of the stores, loops over them, and ends the kernel. */
void map_finish(KBuild *b, Symbol *axes, uint32_t n, KBlock *stores, Site site, const char *text);
void lower_row(Lower *l, const FuseGroup *grp);
void lower_reduce(Lower *l, const FuseGroup *grp);
void lower_contract(Lower *l, const FuseGroup *grp);
/** The steps from number `from` on are the library's alternative of a product that is measured, if
 * this group is part of one. */
void lower_chosen(Lower *l, uint32_t from);
/** Adds a term to the guards of the steps from number `from` on. */
void steps_when(Lower *l, uint32_t from, GuardTerm term);
/** Nobody but the groups up to `group` reads the value, and nothing else keeps it. */
bool lower_dies(const Lower *l, uint32_t group, Val v);
void lower_copy(Lower *l, const FuseGroup *grp);
void lower_opaque(Lower *l, const FuseGroup *grp);
/** A copy between devices. */
void lower_transfer(Lower *l, const FuseGroup *grp);
/** dst <- src of equal shape, as a COPY step or a kernel. */
void lower_copy_loc(Lower *l, const Loc *dst, const Loc *src, DType dtype, Sym name, Site site);
/** Puts pieces that the group just lowered could not write where they belong. */
void lower_copy_pieces(Lower *l);
/** A whole buffer for something that lies in a row inside another one. */
uint32_t lower_piece(Lower *l, const Loc *loc, DType dtype);
Sym lower_kernel_name(Lower *l, const FuseGroup *grp);

/* --- equal groups (lower_again.c) -----------------------------------------------------------------
 */

/** Makes the steps of a group like those of an equal earlier one. False: there is none; it has to be
 * lowered, and lower_noted called behind that. */
bool lower_again(Lower *l, const FuseGroup *grp);
/** The steps from number `from` on are those of the group. */
void lower_noted(Lower *l, const FuseGroup *grp, uint32_t from);
/** While it is lowered: FuseBuffer `number` was asked for; parts of result `result` of root `root`
 * lie in `buf`; what it writes had to move. */
void lower_note_use(Lower *l, uint32_t number);
void lower_note_part(Lower *l, uint32_t root, uint32_t result, uint32_t buf);
void lower_note_moved(Lower *l);
/** A buffer for the parts of a reduction's result. */
uint32_t lower_part(Lower *l, const FuseGroup *grp, uint32_t root, uint32_t result, DType type,
                    const Dim *shape, uint32_t rank);

/* --- host passes
 * ------------------------------------------------------------------------------------- */

/** The values that this group writes at an operand get temporaries, and are copied to their place
 * at the end of the program. False if there is none that can move. */
bool lower_unplace(Lower *l, const LaunchOperand *o);

/** Skips steps that only an unwanted result needs. */
void host_order(Lower *l);
/** Over several devices: an order that keeps them busy (lanes.c). */
void host_lanes(Lower *l);
/** Steps that run row block by row block together (lower_strip.c). */
void host_strips(Lower *l);
/** Finds the rows of loops that have some: Step.rows (lower_loop_rows.c). */
void host_loop_rows(Lower *l);
/** When temporaries live, and which of them at the same time. */
void host_conflicts(Lower *l);

/* --- passes over one kernel ----------------------------------------------------------------------
 */

/** Names what is used twice or does not change in a loop (LETs), at the outermost place. */
void kernel_lets(KBuild *b);
/** bytes_read, bytes_written, bytes_least and flops. */
void kernel_traffic(Program *p, Kernel *k);
/** Merges two neighbouring axes into one of extent |outer| * |inner|, in all expressions and in the
 * statements of n blocks that are not inside loops yet; parameters lose an axis where needed. {0},
 * and nothing changed, if some index does not allow it. Nothing can be added with the builder
 * afterwards. */
Symbol kernel_collapse(KBuild *b, Symbol outer, Symbol inner, KBlock *const *blocks, uint32_t n);
/** Merges all neighbours among axes[0..*n) that can be merged. */
void kernel_collapse_all(KBuild *b, Symbol *axes, uint32_t *n, KBlock *const *blocks,
                         uint32_t nblocks);

#endif
