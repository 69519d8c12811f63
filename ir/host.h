/* host.h: the host IR: in which order and in which memory. No arithmetic. ir.md section 5.
 * codegen/program.c prints it as the const tables of runtime/include/tenon_program.h.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_HOST_H
#define TENON_HOST_H

#include "ir/kernel.h"

typedef enum {
    BUF_ARG,    /* caller's memory */
    BUF_RESULT, /* caller's memory, or allocated when NULL was given */
    BUF_STATE,  /* a slot */
    BUF_TAPE,   /* lives from FORWARD_TRAIN to BACKWARD */
    BUF_TEMP,
    BUF_CONST /* values known while compiling */
} BufKind;

typedef struct {
    Sym name;
    BufKind kind;
    DType dtype;
    Place place;
    uint32_t rank;
    Dim shape[MAX_RANK];
    uint32_t slot; /* STATE: slot; TAPE: number of the saved value; ARG, RESULT: position */
    uint32_t of;   /* != 0: a piece of buffer `of` (placed concat, view, in-place pair) */
    Dim offset;    /* elements, in `of` */
    /* TEMP: steps between which it is live, filled by pass conflicts; first > last: never */
    uint32_t first, last;
    const void *data; /* CONST */
    uint32_t strip;   /* TEMP, != 0: only strip number `strip - 1` sees it: no memory as a whole */
} Buffer;

typedef enum {
    STEP_LAUNCH,
    STEP_GEMM,
    STEP_COPY,
    STEP_FILL,
    STEP_PRINT,
    STEP_LOOP, /* the steps up to its END, `cells` times; sizes may mention `loop` */
    STEP_END,
    STEP_SWAP /* dst and src change places */
} StepKind;

/* A strided operand of a gemm: element (b0, b1, row, col) is at
 * offset + b0*batch0 + b1*batch1 + row*rows + col*cols of the buffer. {buf 0}: absent. */
typedef struct {
    uint32_t buf;
    Dim offset, rows, cols, batch[2];
} GemmOperand;

typedef struct {
    uint32_t buf;
    Dim offset; /* elements, added to the buffer's own place */
} LaunchOperand;

typedef struct {
    StepKind kind;
    Place place; /* that works; a COPY between two: the one that it is read from */
    Guard when;
    Site site;
    const char *text; /* the model's line in words, for -S and traces */
    /* LAUNCH */
    uint32_t kernel;             /* index in HostProgram.kernels' table of the model */
    VEC(LaunchOperand) operands; /* one for each KParam, in order */
    VEC(Dim) ints; /* values of the kernel's free sizes, in the order of kernel_sizes() */
    Dim cells;     /* extent of the grid: product of the grid loops */
    /* GEMM: c(m,n) (+)= sum_k a(m,k) b(k,n), `batch` times; sum_a[m] (+)= sum_k a, sum_b[n]. On
     * GPUs, without sums and batches: c(m,n) = sum_k a(m,k) b(k,n) + bias[n] */
    Dim m, n, k, batch[2];
    GemmOperand a, b, c, sum_a, sum_b, bias;
    bool accumulate, tf32;
    /* LOOP: the symbol counts 0 .. cells - 1, or down; other: its END. END: other: its LOOP. rows:
     * so many rows may go through all turns each by itself, and nothing in the loop shares memory
     * with anything else in it; {0}: they may not */
    Symbol loop;
    Dim rows;
    bool reverse;
    uint32_t other;
    /* COPY dst <- src (whole buffers, equal size); FILL dst with value */
    uint32_t dst, src;
    double value;
    /* the FuseGroup that it was made of, and the contraction that this is or rides with; or NULL */
    const void *group, *contract;
} Step;

/* Steps first .. first + n - 1, products and launches, may run block by block of `rows`: one after
 * the other they compute the same, but for buffers that have no memory as a whole.
 * Rows: each product has them as batch[0] * batch[1] * m, each launch as `cells`, some to a row;
 * the blocks are independent. Depth: launches fill an operand of the one product, and the rows are
 * its k; the blocks follow each other. Row r of a buffer with `strip` is the r-th of `rows` equal
 * parts. */
typedef struct {
    uint32_t first, n;
    bool depth;
    Dim rows;
} StepStrip;
enum { STRIP_MAX_STEPS = 16, STRIP_MAX_BUFFERS = 16 }; /* as in tenon_program.h */

typedef struct {
    Sym name;
    uint32_t buf;
    bool optional, inout;
} HostArg;

typedef struct HostProgram {
    const Graph *graph;
    Sym name;            /* "forward", "forward_train", "forward_backward", "loss_step" */
    VEC(Buffer) buffers; /* [0] unused */
    VEC(HostArg) args;   /* arguments, then results; tape is separate */
    uint32_t nargs;      /* how many of `args` are arguments */
    VEC(uint32_t) tape;  /* buffers on the tape, in order of Graph.saved */
    VEC(Step) steps;
    VEC(StepStrip) strips; /* in order of their steps */
    uint32_t nchoices;     /* G_CHOICE */
} HostProgram;

typedef struct HostModel {
    Program *p;
    bool cuda; /* the default device is a GPU; else the CPU */
    VEC(Kernel *) kernels;
    VEC(HostProgram *) programs;
    VEC(Place) places; /* [0] is PLACE_D0; then those in use, increasing */
} HostModel;

/** Whether a place is a GPU of this model. */
static inline bool host_on_cuda(const HostModel *m, Place place)
{
    return place == PLACE_D0 ? m->cuda : place != PLACE_HOST;
}

/** The whole buffer that a piece lies in; of a whole one itself. */
static inline uint32_t host_root(const HostProgram *h, uint32_t buf)
{
    while (h->buffers.at[buf].of)
        buf = h->buffers.at[buf].of;
    return buf;
}

/** Number of a place in `places`. */
static inline uint32_t host_place(const HostModel *m, Place place)
{
    uint32_t i = 0;
    while (i + 1 < m->places.n && m->places.at[i] != place)
        i++;
    return i;
}
/** Whether a kernel of the model is for GPUs. */
static inline bool host_has_cuda(const HostModel *m)
{
    bool any = m->cuda;
    for (uint32_t i = 0; i < m->places.n; i++)
        any |= host_on_cuda(m, m->places.at[i]);
    return any;
}

/** The SIZE symbols that a kernel's text needs as integer parameters, in order of first use. */
uint32_t kernel_sizes(const Program *p, const Kernel *k, Symbol *out, uint32_t max);
/** The product of the extents of the kernel's grid loops. */
Dim kernel_cells(Program *p, const Kernel *k);

void host_print(const HostModel *m, const HostProgram *h, StrBuf *out);
const char *host_verify(const HostModel *m, const HostProgram *h);

/** Microseconds that a step takes at hint sizes, roughly: for choices between devices. */
double host_step_time(const HostModel *m, const HostProgram *h, const Step *s);

/* --- entry of lowering (passes/lower.c) ----------------------------------------------------------
 */

typedef struct {
    bool cuda; /* schedules for CUDA (lanes, teams, vectors); else CPU (team 1 x 1) */
    int level;
    bool fast_math;
    bool no_fuse;    /* -fno-fuse: one kernel a stored value */
    bool no_sharing; /* -fno-conflicts: each temporary has memory of its own */
    bool tf32;       /* products of f32 in TF32 on tensor cores */
    bool no_cublas;  /* products by kernels of our own alone */
    bool tune;       /* CUDA: alternatives that differ in time alone are all made, and measured */
} LowerOptions;
/** Lowers every graph of the program after passes_run: fuse, lower, alias, order, conflicts.
 * The same graphs give one HostModel a target. NULL after diagnostics. */
HostModel *lower_program(Program *p, const LowerOptions *o);

#endif
