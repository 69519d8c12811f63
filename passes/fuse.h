/* fuse.h: which values are stored, and which kernel computes them. Lowering reads this.
 *
 *   %gates = dot concat(%h, %x), %w         group 0 contract: two products into gates
 *   %new_c = add %c, mul(.. slice(add(%gates, bias)) ..)      group 1 map over [B,128]
 *
 * A value either has a buffer (FuseBuffer) or is recomputed inside every group that reads it, by
 * pushing indices through its cone of nodes down to values that have buffers.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_FUSE_H
#define TENON_FUSE_H

#include "ir/kernel.h"

enum {
    FUSE_AXES = 12,       /* axes of a domain */
    FUSE_ROW = 16384,     /* elements of a row that may stay resident */
    FUSE_REGISTERS = 24,  /* elements of it that a lane may hold */
    FUSE_SIDE_ROWS = 8,   /* rows that share a part of their side sums, at least */
    FUSE_SIDE_PARTS = 512 /* parts, at most */
};

/* Storage of a value: an argument, a state slot or a contiguous view of one, a stored value, or a
 * piece of a stored concat. Element i of `val` is at offset + sum i[k] * stride[k] of its base. */
typedef struct {
    Val val;
    Val base;             /* the stored concat whose buffer this is a piece of, or {0, 0} */
    uint32_t slot;        /* != 0: lies in that state slot (an OP_state, a view of it, or a value
                             that is written into it in place because its commit allows that) */
    Dim offset;           /* elements, in the base's or the slot's storage; {0}: none */
    Dim stride[MAX_RANK]; /* elements */
    int32_t group;        /* that writes it, or -1: argument, state, or a concat (written by the
                             groups of its pieces) */
    bool is_concat;       /* has storage, and nobody writes it as a whole */
} FuseBuffer;

/* A value that a group computes over its domain. */
typedef struct {
    Val val;         /* result 0 of its node. A reduce; or anything that is computed pointwise, a
                        view that is copied too; or a check (no result) */
    uint32_t stored; /* bit k: result k is written to its buffer */
    /* The axis of `val` (of a reduce: of its operand) to which a domain axis belongs, -1: none.
     * Several domain axes of one axis stand in row-major order: index = i * extent + j. An axis of
     * extent 1 may have none: its index is 0. */
    int8_t axis_of[FUSE_AXES];
    bool side; /* rows: a reduce over the axes that the row does not reduce (`reduced` are the ones
                  that it keeps), summed up next to the rows; or something made of such sums, by the
                  second stage that completes them. Read by later groups only */
    int phase; /* rows: how many dependent reductions come before it; a reduce of phase 0 is
                  folded in the first pass and may be used in phase 1 */
} FuseRoot;

/* An operand of a product: element (b0, b1, row, col) is at offset + b0*batch[0] + b1*batch[1] +
 * row*rows + col*cols elements of val's buffer (on top of the buffer's own place; its strides are
 * accounted for). */
typedef struct {
    Val val; /* {0, 0}: absent */
    Dim offset, rows, cols, batch[2];
} FuseOperand;

/* c(m,n) (+)= sum_k a(m,k) b(k,n) for each batch; a has rows m, cols k; b rows k, cols n; c rows m,
 * cols n; sum_a[m] (+)= sum_k a(m,k): rows; sum_b[n] (+)= sum_k b(k,n): cols. */
typedef struct {
    Dim m, n, k, batch[2]; /* batch: 1 where absent */
    FuseOperand a, b, c, sum_a, sum_b;
    bool accumulate; /* adds to what is there: later pieces of a concat along k, or gradients
                        that are added in place to their slot */
} FuseGemm;

/* Riding along. A CONTRACT group computes c = a b; rows of c (and of a) are counted in row-major
 * order over (batch[0], batch[1], m). Groups beside it in Fusion.groups may go with it, block of
 * rows by block of rows, so that what passes between them stays in the cache, and needs no memory
 * as a whole if nobody else reads it:
 *
 *     RIDE_LOADER .., CONTRACT, RIDE_EPILOGUE ..          consecutive; `with` is the CONTRACT's
 * index
 *
 * - RIDE_EPILOGUE (MAP, or ROW without sums over rows): the first `rows` axes of its domain are the
 *   rows of c; it reads c, and what other riders have written, at its own row only (at any column).
 *   A CONTRACT rides so, too, whose operand a is such a value and whose rows are the same; and an
 *   OPAQUE group that convolves each channel of such a value by itself, the rows being channels.
 * - RIDE_LOADER (MAP): writes operand `a` (of every product of the group), and the first `rows`
 * axes of its domain are the rows of a (LOAD_ROWS), or writes a or b, and they are the index k
 *   (LOAD_DEPTH).
 *
 * Riding is a permission: all groups are complete, and one after the other they compute the same. A
 * CPU runs the steps in strips (Step.strip). A GPU may make the cone of an epilogue the store hook
 * of a tile skeleton where it reads c at its own column too (class MAP, FuseRoot.axis_of plain), or
 * take a library's epilogue. */
typedef enum { RIDE_NONE, RIDE_EPILOGUE, RIDE_LOAD_ROWS, RIDE_LOAD_DEPTH } FuseRide;

/* A view of a stored value that an opaque op reads as it lies: element i is at offset + sum i[k] *
 * stride[k] of the storage of `source`, which is row-major. */
typedef struct {
    Val source;
    Dim offset, stride[MAX_RANK];
} FuseView;

typedef struct {
    KClass class; /* MAP ROW REDUCE CONTRACT SCALAR; COPY: a fill (`into`), or a print whose
                     node is the only root */
    uint32_t rank;
    Dim domain[FUSE_AXES];
    uint32_t reduced;    /* ROW, REDUCE: bit per domain axis */
    VEC(FuseRoot) roots; /* operands first */
    /* values with buffers that are read, in order of first use by the walk over the roots: equal
     * kernels see their operands in equal order */
    VEC(Val) inputs;
    VEC(Val) outputs;    /* values with buffers that are written, in order of the roots */
    VEC(uint32_t) nodes; /* the cone: nodes evaluated here, increasing */
    VEC(FuseGemm) gemms; /* CONTRACT: in order of execution */
    VEC(FuseView) views; /* OPAQUE, of ops that take views (op_takes_views): one an operand */
    FuseRide ride;
    int32_t with;  /* ride: the CONTRACT group's index */
    uint32_t rows; /* ride: leading axes of the domain that are rows of the product */
    Val into;      /* COPY, fill: `count` elements of into's storage, from `offset` on (on top
                      of its own place), get `value`: a constant piece of a concat */
    Dim offset, count;
    double value;
    const int64_t *words; /* equal words (and hash): equal structure */
    uint32_t nwords;
    uint64_t hash;
    uint32_t same_as; /* first group of equal structure; its own index if there is none: then
                         inputs and outputs correspond by position */
    double bytes_read, bytes_written; /* at hint sizes */
    Site site;                        /* of the last root */
} FuseGroup;

typedef struct Fusion {
    const Program *p;
    Graph *g;
    VEC(FuseGroup) groups; /* in topological order */
    VEC(FuseBuffer) buffers;
    int32_t **buffer_of; /* [node][result]: index in buffers, or -1 */
} Fusion;

/** Groups a graph that went through the passes (broadcasts explicit, no calls). merge = false
 * (-fno-fuse) keeps one group a stored value. Allocated in perm. NULL after a diagnostic. */
const Fusion *fuse_graph(Program *p, Graph *g, bool merge);

/** The buffer of a value, or NULL: it is recomputed by its readers. */
const FuseBuffer *fuse_buffer(const Fusion *f, Val v);

/** Ops whose operands and results lie in memory as wholes: groups of class OPAQUE (fuse_opaque.c).
 */
bool op_is_opaque(Op op);
/** Its operands may be views: FuseGroup.views. */
bool op_takes_views(Op op);
/** The result may lie where the first operand lay. */
bool op_updates_first(Op op);
/** Operand i is a constant that the lowering fills in itself: nobody stores it. */
bool opaque_fills(const Graph *g, const Node *n, uint32_t i, double *value);

/** Readable form of the grouping, for -E=ir:fuse and the tests. */
void fuse_print(const Fusion *f, StrBuf *out);

#endif
