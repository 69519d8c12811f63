/* tensor.h: the tensor IR: what is computed. No buffers, no loops. Read this first.
 *
 *   graph @lltm.forward(%x: f32[B,32], %h: f32[B,128]) {
 *     %hx = concat %h, %x {axis=1}                 : f32[B,160]
 *     %gates = dot %hx, %weights {contract=1.1}    : f32[B,384]
 *     return %gates }
 *
 * Nodes are appended only (operands precede users) and hash-consed on (op, attributes, operands,
 * stage). Values are pure; state is read as of entry and written by commits at exit.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_TENSOR_H
#define TENON_TENSOR_H

#include "ir/base/diag.h"
#include "ir/base/intern.h"
#include "ir/base/source.h"
#include "ir/base/vec.h"
#include "ir/dim.h"
#include "ir/dtype.h"
#include "ir/ops.h"

enum { MAX_RANK = 8 };

/* --- types ------------------------------------------------------------------------------------ */

typedef uint8_t Place;
/* @d0 is the default device, equal to no other; @d1 is cuda:0, @d2 is cuda:1 ..; @host is the CPU */
enum { PLACE_D0 = 0, PLACE_CUDA = 1, PLACE_HOST = 255 };
enum { MAX_GPUS = 64 };

typedef struct {
    uint32_t id;
} Ty; /* interned: equal id, equal type. {0} is none */

typedef struct {
    DType dtype;
    uint8_t rank;
    Place place;
    Dim shape[MAX_RANK];
} TypeInfo;

/* --- values and nodes ------------------------------------------------------------------------- */

typedef struct {
    uint32_t node;   /* 0: none */
    uint32_t result; /* which result of the node */
} Val;

static inline bool val_eq(Val a, Val b)
{
    return a.node == b.node && a.result == b.result;
}

typedef enum { STAGE_FORWARD, STAGE_BACKWARD, STAGE_UPDATE } Stage;

/* What may be used together with values of any device: made of constants and sizes alone (each
 * device has its own); or a number of the host's (learning rates, counters), which is copied. */
typedef enum { LOOSE_NO, LOOSE_NUMBER, LOOSE_CONSTANT } Loose;

/* Where a node comes from: the path of the instance ("blocks.0.attn") and the user's text. */
typedef struct {
    Sym path;
    Span at;
    uint32_t block; /* the `checkpoint { }` that it stands in: backward makes it again; 0: none */
} Site;

/* An attribute is a list of words; its kind (attribute table in ops.h) says what they are:
 * integers, Dim ids, Sym ids, dtype numbers, reducer numbers, or the bits of a double. */
typedef struct {
    const int64_t *at;
    uint32_t n;
} Attr;

typedef struct {
    Op op;
    uint8_t stage, loose;
    uint32_t nin, nout;
    const Val *in;
    const Ty *types;   /* nout result types */
    const Attr *attrs; /* one for each attribute of the op's row, in row order */
    Site site;
    Sym hint; /* the name that the user gave the value, or {0} */
} Node;

/* --- graphs ----------------------------------------------------------------------------------- */

typedef struct {
    Sym name;
    Val val;
    Span at;
} GraphResult;

/* state slot <- value, at exit. At most one a slot. */
typedef struct {
    uint32_t slot;
    Val val;
} Commit;

typedef struct {
    Sym name;
    Val val;       /* the OP_input node */
    bool optional; /* may be NULL in C: `has_default` graphs then supply the value */
    int32_t inout; /* number of the result that updates this argument in place, or -1 */
    bool wants_grad;
    Span at;
    const char *doc;
} GraphParam;

/* An entry check on sizes: `guard` must hold, else `message` names what was expected. */
typedef struct {
    GuardTerm guard;
    const char *message;
    Span at;
} EntryCheck;

typedef enum {
    GRAPH_METHOD,        /* inference form of an exported method */
    GRAPH_TRAINING,      /* the same with training = true: source of TRAIN, BACKWARD, GRAD */
    GRAPH_FORWARD_TRAIN, /* made by split: results, then saved values (tape) */
    GRAPH_BACKWARD,      /* made by split */
    GRAPH_GRAD,          /* forward + backward in one, gradients into segments */
    GRAPH_STEP,          /* forward + backward + update */
    GRAPH_UPDATE,        /* applies accumulated gradients */
    GRAPH_INIT,          /* initial values of the state */
    GRAPH_TEST,          /* one `test` declaration; results are its run-time assertions (bool[]) */
    GRAPH_BODY,          /* body of a scan */
    GRAPH_DEF,           /* definition of a call */
    GRAPH_CHECK          /* of a gradient check (GradCheck): for the reference evaluator only */
} GraphKind;

typedef struct Graph {
    Sym name; /* "forward", "loss", "loss.step" */
    GraphKind kind;
    Sym method;      /* the method that it comes from */
    VEC(Node) nodes; /* [0] unused */
    VEC(GraphParam) params;
    VEC(GraphResult) results;
    VEC(Commit) commits;
    VEC(EntryCheck) checks;
    VEC(Val) effects; /* print, check, collective: in source order; the builder lists them */
    VEC(Val)
    saved;            /* FORWARD_TRAIN: values kept on the tape, in order; BACKWARD reads
                         them as its parameters after the cotangents */
    bool sliced;      /* slices of a batch go through it one after the other: nothing waits for all
                         of them that need not */
    uint32_t extends; /* BODY: index + 1 of the body whose results are the first of these */
    bool segment;     /* BODY: k turns of a `checkpoint(k)`; nothing of it is kept for all turns */
    Span at;
    const char *doc;
    uint32_t *table; /* hash-consing; private to tensor_build.c */
    uint32_t table_size;
    const struct Fusion *fused[2]; /* not merged, merged: kept for the second target, by fuse.c */
} Graph;

/* --- programs --------------------------------------------------------------------------------- */

typedef enum {
    SLOT_PARAM,   /* a segment of parameters, rank 1 */
    SLOT_GRAD,    /* its gradients: same layout */
    SLOT_MOMENT,  /* optimiser state for a segment: same layout (dtype may differ), or for one
                     parameter */
    SLOT_BUFFER,  /* one buffer of a module */
    SLOT_HYPER,   /* a 0-d f64 that can be set at run time by name ("loss.lr") */
    SLOT_COUNTER, /* 0-d i64: step counts */
    SLOT_SEED,    /* 0-d u64: the model's seed */
    SLOT_CALLS    /* 0-d u64: count of calls that drew random numbers */
} SlotKind;

typedef struct {
    Sym name; /* of the slot: "seg0", "grad.seg0", "loss.m.seg0", "loss.lr" */
    SlotKind kind;
    Ty type;
    bool saved;       /* goes into a state file */
    double initial;   /* HYPER, COUNTER: value at creation */
    uint32_t segment; /* GRAD, MOMENT: slot of the parameters that it belongs to, else 0 */
    Span at;
} Slot;

/* A named piece of a slot: what is saved, loaded and listed. */
typedef struct {
    Sym name;         /* PyTorch's state name: "layers.0.weight"; "loss.exp_avg.layers.0.weight" */
    VEC(Sym) aliases; /* other names of a shared parameter */
    uint32_t slot;
    int64_t offset; /* elements */
    Ty type;        /* static shape */
    bool trainable, is_param, saved;
    Span at;
    const char *doc;
} StateView;

typedef struct {
    Sym method;           /* the loss: "loss" */
    uint32_t graph_step;  /* index in graphs, set by the frontend */
    int accumulate;       /* N calls a step; 1 normally */
    uint32_t scale;       /* slot of what the loss's gradient is multiplied by, or 0 */
    VEC(uint32_t) hypers; /* slots */
    Span at;
} TrainInfo;

/* `gradcheck(f, ..)` of a test: run by the evaluator, in f64. The graph `inputs` has no parameters;
 * its results are the parameters of the graph `loss`, in order. That one's first result is the
 * loss, then come the derivatives of its float parameters that are differentiated, named
 * "d_PARAMETER". */
typedef struct {
    Sym test, inputs, loss; /* graphs by name: program_find_graph(p, inputs, GRAPH_CHECK) */
    const char *text;       /* as written */
    Span at;
} GradCheck;

typedef struct Ctx {
    Arena *perm, *scratch;
    Arena *kernels; /* kernel IR: of those that turn out equal to earlier ones nothing is kept */
    Interner *names;
    Sources *sources;
    Diags *diags;
    DimTable *dims;
} Ctx;

/* A tensor whose elements are known while compiling: read from a file. */
typedef struct {
    Sym key;          /* where it is from: equal ones are there once */
    Ty type;          /* sizes are static */
    const void *data; /* row-major, as memory holds it */
} ConstTable;

/* Everything of one `model`. */
typedef struct Program {
    Ctx *cx;
    Sym name;        /* the model's */
    VEC(Slot) slots; /* [0] unused */
    VEC(StateView) state;
    VEC(Graph *) graphs;
    VEC(TrainInfo) trains;
    VEC(GradCheck) gradchecks;
    VEC(ConstTable) tables;
    VEC(TypeInfo) types;  /* [0] unused; use type_make */
    uint32_t *type_table; /* private to tensor.c */
    uint32_t type_table_size;
    const char *doc, *file_doc, *file; /* file: the .tn as given */
    bool debug;                        /* -g: printed kernels name the lines of the model */
} Program;

Ctx *ctx_create(void);
void ctx_destroy(Ctx *cx); /* frees everything made with it */

Program *program_create(Ctx *cx, Sym name);
uint32_t program_add_slot(Program *p, Slot slot);
Graph *program_add_graph(Program *p, Sym name, GraphKind kind);
/** Whether anything is on a device other than the default one */
bool program_has_places(const Program *p);
/** The lowest number N of a cuda:N that the program names, or -1. */
int program_gpu(const Program *p);
Graph *program_find_graph(const Program *p, Sym method, GraphKind kind); /* or NULL */

/* --- types ------------------------------------------------------------------------------------ */

Ty type_make(Program *p, TypeInfo info);
Ty type_of(Program *p, DType dtype, const Dim *shape, uint32_t rank, Place place);
static inline const TypeInfo *type_info(const Program *p, Ty t)
{
    CHECK(t.id > 0 && t.id < p->types.n);
    return &p->types.at[t.id];
}
Dim type_numel(Program *p, Ty t);
/** "f32[B, 3*state]"; without the dtype: "[B, 3*state]". */
const char *type_text(const Program *p, Arena *a, Ty t);
const char *shape_text(const Program *p, Arena *a, const Dim *shape, uint32_t rank);

static inline const Node *graph_node(const Graph *g, Val v)
{
    return &g->nodes.at[v.node];
}
static inline Ty val_type(const Graph *g, Val v)
{
    return g->nodes.at[v.node].types[v.result];
}
static inline const TypeInfo *val_info(const Program *p, const Graph *g, Val v)
{
    return type_info(p, val_type(g, v));
}

/* --- attributes ------------------------------------------------------------------------------- */

/** The attribute, which the op must have. */
Attr node_attr(const Node *n, AttrName name);
int64_t node_int(const Node *n, AttrName name); /* first word */
double node_f64(const Node *n, AttrName name);  /* first word as a double */
Dim node_dim(const Node *n, AttrName name, uint32_t i);

/* --- building --------------------------------------------------------------------------------- */

/* The only way to make a node. Infers types, folds, keeps the canonical form (ir.md), hash-conses.
 * A wrong call is an internal error; callers check the user's shapes first (infer_check). */
typedef struct {
    Program *p;
    Graph *g;
    Site site;    /* given to new nodes */
    int stage;    /* -1: the largest of the operands (default); else at least this */
    bool no_fold; /* keep exactly what is asked for (the text parser) */
    Place place;  /* of constants */
    /* Operands a and b are on different devices: reports it, or NULL: an internal error */
    void (*crossed)(void *ctx, Op op, Val a, Val b);
    void *crossed_ctx;
} Builder;

Builder builder_for(Program *p, Graph *g);

/** Any op. `attrs` has one entry for each attribute of the op's row. Result 0 is returned. */
Val build(Builder *b, Op op, const Val *in, uint32_t nin, const Attr *attrs);
/** A node of some graph once more, of other operands: constants keep their place. */
Val build_again(Builder *b, const Node *n, const Val *in);
/** The value on a device: constants are made there, all else is copied. */
Val build_at_place(Builder *b, Val x, Place place);
/** "cuda:1", "the CPU", "the default device". */
const char *device_text(Arena *a, Place place);
/** NULL if `build` would accept this, else why not (allocated in scratch). */
const char *infer_check(Builder *b, Op op, const Val *in, uint32_t nin, const Attr *attrs);

void val_hint(Builder *b, Val v, Sym name); /* names a value if it has no name yet */
static inline Val val_result(Val v, uint32_t k)
{
    return (Val){v.node, k};
}

Val build_input(Builder *b, Sym name, Ty type); /* also appends to g->params */
Val build_state(Builder *b, uint32_t slot);
Val build_table(Builder *b, uint32_t table);
/** A view of a parameter or buffer: slice + reshape of its slot. */
Val build_view(Builder *b, const StateView *view);
Val build_const(Builder *b, DType t, double value); /* [] ; integers up to 2^53, bool 0/1 */
Val build_const_int(Builder *b, DType t, int64_t value);
Val build_full(Builder *b, DType t, double value, const Dim *shape, uint32_t rank);
Val build_dim(Builder *b, Dim d);                                           /* i64[] */
Val build_iota(Builder *b, const Dim *shape, uint32_t rank, uint32_t axis); /* i32 */
Val build_cast(Builder *b, Val x, DType t); /* x itself if it has that type */
/** Pointwise ops accept operands whose shapes broadcast (before pass `broadcast`); dtypes equal. */
Val build1(Builder *b, Op op, Val x);
Val build2(Builder *b, Op op, Val x, Val y);
Val build3(Builder *b, Op op, Val x, Val y, Val z);
/** dims[i] is the result axis of operand axis i (increasing). */
Val build_broadcast(Builder *b, Val x, const Dim *shape, uint32_t rank, const int64_t *dims);
/** Right-aligned broadcasting to a shape, 1s stretched; x itself if nothing changes. */
Val build_broadcast_to(Builder *b, Val x, const Dim *shape, uint32_t rank);
Val build_reshape(Builder *b, Val x, const Dim *shape, uint32_t rank);
Val build_transpose(Builder *b, Val x, const int64_t *perm);
/** start and extent per axis; step may be negative. */
Val build_slice(Builder *b, Val x, const Dim *start, const int64_t *step, const Dim *extent);
Val build_slice_axis(Builder *b, Val x, uint32_t axis, Dim start, Dim extent);
/** lo, hi per axis (>= 0), interior: elements put between neighbours. */
Val build_pad(Builder *b, Val x, Val value, const Dim *lo, const Dim *hi, const int64_t *interior);
Val build_concat(Builder *b, const Val *in, uint32_t nin, uint32_t axis);
/** Reduces axes away. Several results: val_result(v, k). axes increasing. */
Val build_reduce(Builder *b, Reducer kind, Val x, const int64_t *axes, uint32_t naxes);
/** batch and contract pair operand axes; result axes: batch, a free, b free. */
Val build_dot(Builder *b, Val x, Val y, const int64_t *batch_x, const int64_t *batch_y,
              uint32_t nbatch, const int64_t *contract_x, const int64_t *contract_y,
              uint32_t ncontract, DType result);
/** out[b.., i.., r..] = x[b.., idx[b.., i..], r..]: `batch` leading axes in common (batch <= axis).
 * mode: GATHER_CHECK (device check, out of range reads nothing), GATHER_CLAMP, GATHER_FILL (0). */
Val build_gather(Builder *b, Val x, Val idx, uint32_t axis, uint32_t batch, int mode);
enum { GATHER_CHECK, GATHER_CLAMP, GATHER_FILL };
/** init with upd, of the shape that gather would give, put (RED_none: of several the last one
 * stays), added, or joined by RED_max, RED_min at out[b.., idx[b.., i..], r..]. unique: no index
 * comes twice. */
Val build_scatter(Builder *b, Val init, Val idx, Val upd, uint32_t axis, uint32_t batch,
                  Reducer kind, int mode, bool unique);
/** The index counts through `joint` axes, from `axis` on, in row-major order. */
Val build_scatter_joint(Builder *b, Val init, Val idx, Val upd, uint32_t axis, uint32_t joint,
                        uint32_t batch, Reducer kind, int mode, bool unique);
/** The first k in (descending) order along an axis; result 1: their i32 indices. Stable. */
Val build_sort(Builder *b, Val x, uint32_t axis, bool descending, Dim k);
/** Whether an index certainly has no element twice in a row of its leading axes. */
bool index_is_unique(const Program *p, const Graph *g, Val idx, uint32_t batch);
/* Modes. Of a linear recurrence also: FULL, the result holds init as well, one element more;
 * BEHIND, each step takes the factor of the step before it, and the first one none (y = b). */
enum { CUMULATE_REVERSE = 1, CUMULATE_EXCLUSIVE = 2, CUMULATE_FULL = 4, CUMULATE_BEHIND = 8 };
/** Prefix reductions along an axis: RED_add, mul, max, min; argmax and argmin have a second result.
 */
Val build_cumulate(Builder *b, Reducer kind, Val x, uint32_t axis, int mode);
/** y_t = a_t * y_(t-1) + x_t along an axis; y before the first is init (without the axis). A view
 * of a FULL one, unless FULL or BEHIND is asked for. */
Val build_linear(Builder *b, Val a, Val x, Val init, uint32_t axis, int mode);
/* Attention; the shapes are those of ops.def. */
enum {
    ATTENTION_CAUSAL = 1,
    ATTENTION_BIAS = 2,
    ATTENTION_DROP = 4,
    ATTENTION_BIAS_GRAD = 8,
    ATTENTION_NAN = 16
};
/* A score hook is a DEF graph of scalars: parameters s f32[] (a scaled score), b, h, i, j i32[] (its
 * index) and an element of each captured tensor; results: what becomes of s, and its derivative. */
enum { HOOK_S, HOOK_B, HOOK_H, HOOK_I, HOOK_J, HOOK_CAPTURED, ATTENTION_CAPTURES = 4 };
typedef struct {
    bool causal;        /* row t sees keys 0 .. t */
    bool nan;           /* a row that sees nothing is NaN, as written out; else 0 */
    double scale, drop; /* drop: the share that is left out; needs `key` */
    Val bias, key;      /* {0, 0}: none. bias: f32, each axis B H T S or 1 */
    uint32_t hook;      /* index + 1 of the graph that scaled scores go through; 0: none */
    uint32_t ncaptured;
    Val captured[ATTENTION_CAPTURES]; /* of any type, each axis B H T S or 1 */
} Attention;
/** Result 1 is the log of the sum of exp of each row; +infinity (or NaN) where one sees nothing. */
Val build_attention(Builder *b, Val q, Val k, Val v, const Attention *how);
/** Results: gradients of q, k, v in f32; with `scores` that of the scores f32[B,H,T,S]. */
Val build_attention_grad(Builder *b, Val q, Val k, Val v, Val dy, Val lse, Val y,
                         const Attention *how, bool scores);
/** The attributes and last operands of such a node. */
Attention node_attention(const Node *n);
/** Result 0 in other operations, for what build_attention is not for: any float type and size. */
Val build_attention_plain(Builder *b, Val q, Val k, Val v, const Attention *how);
/* What attention is made of, as ops; arrays are [B, H, rows, columns]. */
typedef struct {
    Builder *b;
    DType dtype;       /* that is computed in */
    Dim scores[4];     /* B, H, T, S */
    Dim groups, share; /* heads of k; heads of q to each of them */
} AttentionPlain;
AttentionPlain attention_plain(Builder *b, Val q, Val k, DType dtype);
/** The product over axis of_x of x and of_y of y, for each b and h. */
Val attention_product(const AttentionPlain *s, Val x, Val y, int64_t of_x, int64_t of_y);
Val attention_heads_first(const AttentionPlain *s, Val x); /* of [B, rows, H, columns] */
Val attention_repeated(const AttentionPlain *s, Val x);    /* of [B, S, G, columns]: H heads */
/** hook(scale * q k^T) + bias; -infinity where `causal` hides it. slope: the hook's derivative, or
 * {0, 0} without one; NULL: not wanted. */
Val attention_scores(const AttentionPlain *s, Val q, Val k, const Attention *how, Val *slope);
Val attention_kept(const AttentionPlain *s, const Attention *how); /* dropout's factors */
/** Numbers are kept where a draw, of 2^24, is below this, and multiplied by `grow`. */
int64_t attention_keep(double drop, float *grow);
/* Windows along some axes: element k of window o is x[o * stride + k * dilation - lo], of an x
 * whose elements lie `spread` apart; 0 where there is none. `out` windows of `size` elements. lo
 * may be negative. Words of one axis; ir/ops.def. */
typedef struct {
    Dim out, size, lo;
    int64_t stride, dilation, spread;
} Window;
/** axes increasing; the result has x's axes (out for those), then a window axis for each. `value`
 * ([], a constant) surrounds x; {0, 0}: zeros. */
Val build_window(Builder *b, Val x, Val value, const int64_t *axes, uint32_t n, const Window *w);
/** The transpose of build_window: y's last n axes are the window axes; out is x's size. */
Val build_fold(Builder *b, Val y, const int64_t *axes, uint32_t n, const Window *w);
/** x[N, groups*C, s..], w[groups*M, C, k..] -> [N, groups*M, out..]; size is not looked at. */
Val build_conv(Builder *b, Val x, Val w, const Window *axes, int64_t groups);
/** The view that fold sums up; made behind the derivatives only. */
Val build_unwindow(Builder *b, Val y, const int64_t *axes, uint32_t n, const Window *w);
/** The windows of a node (window, fold, unwindow, conv); sizes of windows from its operand. */
uint32_t node_windows(const Program *p, const Graph *g, const Node *n, Window *w);
Val build_key(Builder *b, Val seed, Val calls, uint64_t site); /* u64[] */
enum { RANDOM_BITS, RANDOM_UNIFORM, RANDOM_NORMAL };
/** i32 bits, or f32 in [0, 1), or f32 standard normal. */
Val build_random(Builder *b, Val key, int kind, const Dim *shape, uint32_t rank);

void graph_result(Program *p, Graph *g, Sym name, Val v, Span at);
void graph_commit(Program *p, Graph *g, uint32_t slot, Val v); /* replaces an earlier one */

/* --- copy-forward rewriting ------------------------------------------------------------------- */

/* A pass reads the old graph and re-issues nodes into a new one through the builder.
 *   Rewrite rw = rewrite_begin(p, old);
 *   for each node id: Val v = rewrite_copy(&rw, id)  or  rewrite_set(&rw, old_val, new_val)
 *   Graph *g = rewrite_end(&rw);      maps params, results, commits, effects, saved, checks
 * rewrite_end copies what is still unmapped; nodes that nobody asked for stay behind. It does not
 * put the new graph into p->graphs: the caller replaces the old one there. */
typedef struct {
    Builder b;
    Graph *old;
    Val **map;  /* map[node][result] */
    bool *live; /* live[node]: reaches a result, commit, effect or saved value */
} Rewrite;
Rewrite rewrite_begin(Program *p, Graph *old);
Val rewrite_get(const Rewrite *rw, Val old);
void rewrite_set(Rewrite *rw, Val old, Val new_val);
Val rewrite_copy(Rewrite *rw, uint32_t node);
Graph *rewrite_end(Rewrite *rw);
/** Which nodes reach a result, commit, effect or saved value (scratch; index = node). */
bool *graph_live(const Program *p, const Graph *g);
/** users count per node (all results together), in scratch; of nodes that are `live`, or of all where
 * that is NULL. */
uint32_t *graph_uses(const Program *p, const Graph *g, const bool *live);

/* --- text and checks -------------------------------------------------------------------------- */

void tensor_print_graph(const Program *p, const Graph *g, StrBuf *out);
void tensor_print(const Program *p, StrBuf *out); /* "tenon-ir 1", slots, symbols, graphs */
/** Parses tensor IR text; NULL after diagnostics. */
Program *tensor_parse(Ctx *cx, uint32_t file);
/** NULL if the graph is well formed, else what is wrong. explicit_shapes: after `broadcast`. */
const char *tensor_verify(const Program *p, const Graph *g, bool explicit_shapes);
/** The same for slots, views and trains. */
const char *program_verify(const Program *p);

#endif
