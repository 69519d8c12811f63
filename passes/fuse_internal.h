/* fuse_internal.h: shared by fuse.c (what is stored), fuse_place.c (where), fuse_contract.c (dots
 * as products) and fuse_merge.c (which kernels become one). SPDX-License-Identifier: MIT */
#ifndef TENON_FUSE_INTERNAL_H
#define TENON_FUSE_INTERNAL_H

#include "passes/analysis.h"
#include "passes/fuse.h"

#include <string.h>

typedef enum {
    NODE_CONE,  /* recomputed by each reader */
    NODE_LEAF,  /* has storage without being computed: argument, state, view of a state */
    NODE_REAL,  /* a root of some kernel */
    NODE_JOINED /* a concat whose pieces are written in place */
} NodeKind;

/* Where a value lies that does not have storage of its own. */
typedef struct {
    bool set;
    Val base;
    uint32_t slot;
    Dim offset;
    Dim stride[MAX_RANK];
} Placement;

/* How an index of a value follows from the axes of a domain. */
typedef struct {
    int8_t axis_of[FUSE_AXES];
    bool exact; /* false: shifted, gathered or otherwise not the plain index */
} AxisMap;

typedef struct {
    Val v;
    double bytes;
    AxisMap map;
} Read;

typedef struct {
    bool dead, effect;
    KClass class;
    uint32_t rank, reduced;
    Dim domain[FUSE_AXES];
    VEC(FuseRoot) roots;
    VEC(uint32_t) body;
    VEC(Read) reads;
    VEC(FuseGemm) gemms;
    VEC(FuseView) views;
    uint32_t visit; /* stamp of searches */
    uint32_t order; /* its place in Fuser.order: behind all that it depends on */
    Val into;       /* COPY, fill: see FuseGroup */
    Dim offset, count;
    double value;
    int32_t after; /* effects: the one before, behind which it runs; -1: none */
} Kern;

/* A constant piece of a concat is filled in by kernel `kern`. */
typedef struct {
    uint32_t concat;
    int32_t kern;
} Fill;

/* Of a value that is not stored: see turns_of. */
typedef struct {
    int n;
    bool transposed; /* since the last reshape */
} Turns;

typedef struct {
    Program *p;
    Graph *g;
    Arena *a;
    DimTable *t;
    VEC(Fill) fills;
    bool *live;
    Users users;
    uint8_t *kind;    /* NodeKind of each node */
    int *weight;      /* of the cone of each node that is not stored */
    Turns *turns;     /* of its places, before a stored value is read */
    Placement *place; /* of each value: see fuse_placement */
    uint32_t *first;  /* number of result 0 of each node among all values */
    uint32_t nvals;
    bool *keep;        /* value: must be in memory whoever reads it */
    bool *own;         /* value: result, saved or commit: needs storage of its own */
    int32_t *owner;    /* node: kernel that computes it, or -1 */
    uint32_t *readers; /* value: kernels that read it */
    VEC(Kern *) ks;
    uint32_t *order; /* numbers of kernels, each behind what it depends on; UINT32_MAX: nobody */
    uint32_t stamp, *seen; /* node: last walk that was here */
    AxisMap *seen_map;
    bool failed;
} Fuser;

static inline uint32_t fuse_vid(const Fuser *f, Val v)
{
    return f->first[v.node] + v.result;
}
static inline Placement *fuse_placement(const Fuser *f, Val v)
{
    return &f->place[fuse_vid(f, v)];
}
static inline const Node *fuse_node(const Fuser *f, uint32_t id)
{
    return &f->g->nodes.at[id];
}

/** Decides NODE_LEAF and NODE_JOINED, and where pieces of concats lie (fuse_place.c). */
void fuse_place(Fuser *f);
/** Strides of the storage of a value that has one. */
void fuse_strides(const Fuser *f, Val v, Dim *stride);
/** Strides of the operand of a reshape (x), given those of its result (r); false if it has none. */
bool fuse_reshape_strides(const Fuser *f, const TypeInfo *r, const Dim *of_r, const TypeInfo *x,
                          Dim *of_x);
/** Strides of the value of node `to`, given those of v, which is made of it by transposes and
 * reshapes. */
bool fuse_strides_through(const Fuser *f, Val v, uint32_t to, const Dim *of_v, Dim *stride);
/** Where the storage begins in its base or slot. */
Dim fuse_offset(const Fuser *f, Val v);

/** Makes the operands of a dot addressable; marks what must be stored for that. */
void fuse_prepare_dot(Fuser *f, uint32_t id);
/** The kernel of a dot, with the sums and additions that ride along. */
Kern *fuse_contract(Fuser *f, uint32_t id);

/** The stored value that v is a strided view of (v itself: none); false: it is no such view. */
bool fuse_strided(const Fuser *f, Val v, FuseView *out);
/** What ops read through views is no piece of a concat: strides are those of its own storage. */
void fuse_own_operands(Fuser *f);
/** Stores the operands of an opaque op, and its kernel (fuse_opaque.c). */
void fuse_prepare_opaque(Fuser *f, uint32_t id);
Kern *fuse_opaque(Fuser *f, uint32_t id);
/** The value in memory that operand i of a scan is a view of (fuse_loop.c). */
Val fuse_loop_source(const Fuser *f, const Node *scan, uint32_t i);

/** The kernel of one stored node. */
Kern *fuse_kern(Fuser *f, uint32_t id);
/** Recomputes body, reads and phases from the roots; false if a root is read at another index. */
bool fuse_cone(Fuser *f, Kern *k);
void fuse_merge(Fuser *f);
/** A map of no axes. */
static inline AxisMap fuse_no_axes(bool exact)
{
    AxisMap m = {.exact = exact};
    memset(m.axis_of, -1, sizeof m.axis_of);
    return m;
}
/** The map of a root's result. */
AxisMap fuse_root_map(const Fuser *f, const Kern *k, const FuseRoot *r);
/** Bytes that m, made of a and b, would move. */
double fuse_merged_traffic(const Fuser *f, const Kern *m, const Kern *a, const Kern *b);
/** Of these, those of side sums. */
double fuse_side_bytes(const Fuser *f, const Kern *k);
/** Bytes that a kernel reads and writes. */
double fuse_traffic(const Fuser *f, const Kern *k, double *reads);
bool fuse_stored(const Fuser *f, const Kern *k, const Kern *with, const FuseRoot *r,
                 uint32_t result);
/** Which groups ride along with a contraction, and an order where they stand beside it
 * (fuse_strip.c). */
void fuse_strips(Fusion *out);
/** Groups of equal structure get equal words (fuse_text.c). */
void fuse_same(Fusion *out);

/** The value whose storage a piece of a concat is. */
static inline uint32_t fuse_piece(const Fuser *f, Val v)
{
    while (f->kind[v.node] == NODE_CONE && op_is_view(graph_node(f->g, v)->op))
        v = graph_node(f->g, v)->in[0];
    return v.node;
}

/** Puts the kernels into their first order; a and b have become kernel `number`; does `from` depend
 * on `to` through at least one other kernel? (fuse_order.c) */
void fuse_order(Fuser *f);
void fuse_order_merge(Fuser *f, const Kern *a, const Kern *b, uint32_t number);
bool fuse_reaches(Fuser *f, Kern *from, Kern *to);

/** The kernels in the order in which they run (fuse_sequence.c). */
uint32_t *fuse_sequence(const Fuser *f, uint32_t *count);
/** The kernels that must run before k. */
uint32_t fuse_deps(const Fuser *f, const Kern *k, int32_t **list);

#endif
