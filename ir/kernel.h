/* kernel.h: the kernel IR: how one kernel loops. No devices, no memory planning. ir.md section 4.
 *
 *   kernel lltm_cell map (gates: f32[B,384] in, c: f32[B,128] in, new_c: f32[B,128] out) team 32 x
 * 8 { for b in 0..B grid { for s in 0..128 lanes vec 4 { %i = gates[b, s] store new_c[b, s] = c[b,
 * s] * sigmoid(%i) } } }
 *
 * An index is a Dim over axes (SYM_AXIS), sizes and loaded integers (SYM_LOADED).
 *
 * What lowering guarantees to printers:
 *  - The grid loops are the outermost statements and perfectly nested: the body is one FOR_GRID
 * whose body is one FOR_GRID ...; a kernel without any runs as one cell. Their `lo` is 0.
 *  - Every expression that is used twice has a KS_LET in scope (constants, indices, accumulators
 * and kept values excepted), at the outermost place where its operands exist; so a printer names
 * what has a LET and prints the rest in place, and needs no analysis. The exception is what may
 * only be evaluated under a KE_SELECT's predicate: that stands in the select, as often as needed.
 *  - A LET with `axis` (a SYM_LOADED symbol) makes the integer (int64) that Dims refer to; every
 *    other LET has a name in its expression (KExprInfo.name) that is unique in the kernel.
 *  - Loads of an inout parameter come before the stores to it in the same block.
 *  - KE_ACC's `field` counts results, not accumulator fields: moments 0 mean, 1 variance; logsumexp
 * 0, 1 maximum, 2 sum of exp(x - maximum), no number where an x is infinite; argmax, argmin 0
 * value, 1 index (i64). KE_ACC's `type` is the accumulator's (index: i64).
 * SPDX-License-Identifier: MIT */
#ifndef TENON_KERNEL_H
#define TENON_KERNEL_H

#include "ir/tensor.h"

typedef struct {
    uint32_t id;
} KExpr; /* index into Kernel.exprs; {0} is none; hash-consed */

typedef enum {
    CLASS_MAP,
    CLASS_ROW,
    CLASS_REDUCE,
    CLASS_CONTRACT,
    CLASS_SCALAR,
    CLASS_COPY,
    CLASS_OPAQUE /* calls a function of runtime/kernels: sort, scatter, cumulate.. */
} KClass;
typedef enum { K_IN, K_OUT /* a KS_LAST may read what the kernel stored */, K_INOUT } KMode;

typedef struct {
    Sym name; /* unique in the kernel, a C identifier, after the model's name for the value */
    DType dtype;
    uint32_t rank;
    Dim shape[MAX_RANK];
    Dim stride[MAX_RANK]; /* in elements; row-major when the buffer is whole */
    KMode mode;
    bool readonly_scalar; /* rank 0 input: loaded once */
} KParam;

typedef enum {
    KE_CONST,  /* value (f64 or i64, by type) */
    KE_INDEX,  /* `index` as an integer of type i64 or i32 */
    KE_LOAD,   /* param[at...] */
    KE_OP,     /* pointwise row `op` of in[] */
    KE_EXTERN, /* C expression `text` over a, b, c = in[] */
    KE_CAST,   /* in[0] to `type` (rounds for f16, bf16; saturates float -> integer) */
    KE_BITCAST,
    KE_SELECT, /* in[0] if pred else in[1]; lazy: in[0] may be out of bounds where pred is false */
    KE_ACC,    /* result `field` of accumulator `acc`, after its total */
    KE_KEEP,   /* kept value `keep` at its axis */
    KE_KEY,    /* u64: random key of seed in[0], calls in[1] (both u64) and `word` = site */
    KE_RANDOM  /* random of key in[0] at linear element `index`; kind in `field` (RANDOM_...) */
} KExprKind;

typedef struct {
    KExprKind kind;
    DType type;
    Op op;
    uint32_t nin;
    KExpr in[3];
    double value;
    int64_t word; /* integer constant; site */
    Dim index;
    uint32_t param;   /* LOAD */
    Dim at[MAX_RANK]; /* LOAD: index per axis of the param */
    Guard pred;       /* SELECT: terms over axes and sizes */
    uint32_t acc, field, keep;
    Sym text;
    Sym name; /* what the model calls it, or {0} */
    Site site;
} KExprInfo;

typedef struct {
    Sym name;
    Reducer reducer;
    DType type; /* of the accumulator: f32 or f64 for floats */
    bool side;  /* lives as long as the grid cell, one per owned index of `axis` */
    Symbol axis;
} KAcc;

/** How many results an accumulator has in a kernel. */
static inline int kacc_results(const KAcc *a)
{
    return a->reducer == RED_logsumexp ? 3 : reducer_info(a->reducer)->nresults;
}

/* A value kept between the phases of a row: v[c]. */
typedef struct {
    Sym name;
    DType type;
    Symbol axis; /* loop axis that indexes it in the defining loop */
    Dim extent;
} KKeep;

typedef enum { FOR_GRID, FOR_TEAMS, FOR_LANES, FOR_SERIAL, FOR_UNROLL } ForKind;
typedef enum {
    KS_FOR,
    KS_WHEN,
    KS_LET, /* %name = expr; with `axis`: that SYM_LOADED symbol = expr, and no name */
    KS_STORE,
    KS_FOLD,
    KS_TOTAL,
    KS_KEEP,
    KS_ACC, /* (re)starts an accumulator at its identity, here */
    KS_BARRIER,
    KS_LAST,  /* CUDA: what the last of `hi` teams (over_block: blocks) that come to counter `lo`
                 does  when all have stored; the outermost statement of a cell, or of another KS_LAST
               */
    KS_CHECK, /* device error word when `pred` is false: index out of range; `site` names the line
               */
    KS_CALL   /* a function of runtime/kernels: see KStmt.call */
} KStmtKind;

#define NO_PARAM UINT32_MAX

typedef struct KStmt KStmt;
typedef struct {
    KStmt *at;
    uint32_t n, cap;
} KBlock;

struct KStmt {
    KStmtKind kind;
    /* FOR */
    Symbol axis;
    Dim lo, hi; /* LAST: number of the counter, and how many come to it */
    ForKind loop;
    bool grid_lanes; /* FOR_GRID: one cell a lane instead of one a team */
    int vec;         /* FOR_LANES: neighbours a lane owns; 1 normally */
    KBlock body;     /* FOR, WHEN, LAST */
    Guard pred;      /* WHEN, CHECK */
    KExpr expr;      /* LET STORE FOLD KEEP */
    Dim fold_index;  /* FOLD of argmax/argmin: linear index of the element */
    uint32_t acc;    /* ACC FOLD TOTAL */
    bool over_block; /* TOTAL, LAST: all teams of the block, else the team */
    uint32_t keep;   /* KEEP */
    Dim keep_index;
    uint32_t param; /* STORE */
    Dim at[MAX_RANK];
    /* CALL: tn_NAME (C) or tn_cu_NAME (CUDA: by all threads of a block) gets pointers to the
     * parameters `args` (NO_PARAM: a null pointer), then `ints` as 64-bit integers, then, if it
     * `reports`, the error word and the number of its line. A call stands alone in its cell: grid
     * loops around it, nothing else. */
    Sym call;
    const uint32_t *args;
    const Dim *ints;
    uint32_t nargs, nints;
    bool reports;
    /* Its hook, where it has one: what becomes of element hook_at (axes b, h, i, j) of scores,
     * whose value is result 0 of accumulator 0, and the derivative of that, or {0} */
    bool hooked; /* the function takes a hook */
    KExpr hook[2];
    Symbol hook_at[4];
    Site site;
};

/* CONTRACT on CUDA: how runtime/kernels/tile.cuh runs a kernel of this form:
 *
 *   for b .. grid { for m in 0..M grid { for n in 0..N grid {
 *     acc s: add   for k in 0..K serial { s <- a[b, m, k] * b[b, k, n] }   total s
 *     store c[b, m, n] = s ..     what surrounds a product: at the index (m, n) only
 *   } } }
 *
 * An operand may be a select of a load and 0. The grid's blocks are tiles: not the product of its
 * loops. */
typedef struct {
    int m, n;             /* results of a block; 0: no tile */
    bool tensor;          /* on tensor cores: from sm_80 on */
    bool a_by_k, b_by_k;  /* neighbours along k are read together, else along m, n */
    int a_bytes, b_bytes; /* that addresses are multiples of: 4, 8 or 16; 0: element by element */
    int width;            /* neighbours along n that are stored together */
} KTile;

typedef struct Kernel {
    Sym name; /* lltm_k1_cell: unique in the model */
    KClass class;
    int lanes, teams; /* of a CUDA block: threadIdx.x, threadIdx.y */
    bool cuda;        /* for GPUs; else for the CPU */
    KTile tile;
    bool turned; /* MAP on CUDA: blocks are tiles (kernel_turn) of the last two grid loops; operands
                    that lie along the last but one are turned in shared memory */
    int counters; /* of its KS_LAST: numbers are below it; each launch has its own, all 0 before it
                     and behind it */
    VEC(KParam) params;
    VEC(KExprInfo) exprs; /* [0] unused */
    VEC(KAcc) accs;
    VEC(KKeep) keeps;
    KBlock body;
    Guard when; /* a version of the kernel: holds only then; empty: always */
    /* provenance, for the head comment and -report */
    VEC(Span) lines;
    const char *doc; /* "new_h, new_c = ..." in the model's names */
    Dim bytes_read, bytes_written, bytes_least, flops;
    uint32_t *table; /* private to kernel.c */
    uint32_t table_size;
} Kernel;

enum { KERNEL_COUNTERS = 256 /* Kernel.counters, at most */ };

/* The results of a block of a turned map: 32 x 32; where one axis is short, all of it by many. */
typedef struct {
    int i, j; /* of the last but one loop, of the last */
    int few;  /* the length of the short axis; 0: there is none */
    bool few_i;
} KTurn;
enum { TURN_SIDE = 32, TURN_FEW = 16 /* a shorter axis is short */ };
KTurn kernel_turn(const DimTable *t, Dim i, Dim j);

Kernel *kernel_create(Program *p, Sym name, KClass class);
/** The same terms in the same order. */
bool guard_same(Guard a, Guard b);
/** The expression, hash-consed; folds casts to the same type. */
KExpr kernel_expr(Program *p, Kernel *k, KExprInfo info);
static inline const KExprInfo *kexpr(const Kernel *k, KExpr e)
{
    return &k->exprs.at[e.id];
}
KStmt *kblock_add(Program *p, KBlock *b, KStmtKind kind);

void kernel_print(const Program *p, const Kernel *k, StrBuf *out);
Kernel *kernel_parse(Program *p, uint32_t file);              /* NULL after diagnostics */
const char *kernel_verify(const Program *p, const Kernel *k); /* NULL: fine */

#endif
