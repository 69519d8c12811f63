/* elab.h: what the files of the elaborator share. Others include elaborate.h.
 *
 * Elaboration is a static interpreter: expressions are evaluated to Values; operations on tensors
 * append nodes to the graph being traced (e->b). A mistake is reported once and gives a poison
 * value, which every operation passes on silently.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_ELAB_H
#define TENON_ELAB_H

#include "frontend/elab_written.h"
#include "frontend/elaborate.h"

#include "ir/base/die.h"

typedef struct Elab Elab;
typedef struct Value Value;
typedef struct Scope Scope;
typedef struct Instance Instance;
typedef struct FileEnv FileEnv;
typedef struct Fn Fn;
typedef struct State State;
typedef struct Builtin Builtin;
typedef struct Optim Optim;

/* ---- values ---- */

typedef enum {
    V_poison, /* an error was reported */
    V_unset,  /* no value yet; an argument that was not given */
    V_none,
    V_int,       /* i, how */
    V_float,     /* f */
    V_bool,      /* i: 0 or 1 */
    V_string,    /* s */
    V_dtype,     /* dtype */
    V_device,    /* i: -2 the default device, -1 cpu, n: cuda:n */
    V_list,      /* list */
    V_fn,        /* fn */
    V_module,    /* module: a module or an optimizer that can be called */
    V_instance,  /* inst */
    V_optimizer, /* optim: an optimizer with its hyper-parameters */
    V_builtin,   /* builtin */
    V_file,      /* file: what `import` names */
    V_info,      /* state: the `p` of a selector: name shape ndim dtype */
    V_size,      /* size, how: a late integer made of sizes, not constant */
    V_late,      /* val: a late number: rank 0, f64, i64 or bool; does not promote tensors */
    V_tensor,    /* val */
} ValueKind;

typedef struct {
    const Value *at;
    uint32_t n;
    const Sym *names; /* of a call's results, or NULL */
} List;

typedef struct {
    FileEnv *file;
    const AstDecl *decl;
} ModuleRef;

struct Value {
    ValueKind kind;
    State *state; /* of V_tensor: the parameter or buffer that was read, or NULL; of V_info */
    union {
        struct {
            union {
                int64_t i;
                Dim size;
            };
            const Written *how; /* it was written; or NULL */
        };
        double f;
        const char *s;
        DType dtype;
        const List *list;
        Fn *fn;
        const ModuleRef *module;
        Instance *inst;
        Optim *optim;
        const Builtin *builtin;
        FileEnv *file;
        struct {
            Val val;
            Graph *graph; /* that val belongs to; read it by use_val */
        };
    };
};
typedef VEC(Value) Values;

/* A function: declared, a method, or a value. */
struct Fn {
    const AstFn *ast;
    FileEnv *file;
    Instance *inst; /* NULL: not of a module */
    Scope *scope;   /* what a function value has captured, or NULL */
    Sym name;       /* {0}: a function value */
    bool models;    /* made in a `train` or `test` */
};

/* ---- scopes ---- */

typedef struct {
    Sym name;
    Value value;
    Span at;
    Span set_at; /* where it was assigned last */
    bool is_size;
} Local;

struct Scope {
    Scope *up;
    VEC(Local) locals;
};

/* Where an expression is evaluated. */
typedef struct {
    FileEnv *file;
    Instance *inst;
    Scope *scope;
    bool models; /* in `train` and `test`: model names are visible */
    bool body;   /* in the outermost block of a module's body */
} Env;

/* ---- files ---- */

typedef enum { LAZY_no, LAZY_waiting, LAZY_running } Lazy;

typedef struct {
    Sym name;
    const AstDecl *decl;
    Value value;
    Lazy lazy; /* of a const: not evaluated yet */
} Global;

struct FileEnv {
    uint32_t file;
    const char *path; /* or "<std>/nn" */
    bool is_std;
    AstFile *ast;
    VEC(Global) globals; /* without models */
    bool loading;
};

/* ---- instances ---- */

/* A parameter or buffer of an instance: shared when tied. */
struct State {
    bool is_param, trainable, saved;
    TypeInfo type;
    Value initial; /* a tensor of the graph in which the model is made */
    Sym name;      /* state name, once the model is complete */
    VEC(Sym) aliases;
    uint32_t id;   /* from 1, in order of making */
    uint32_t view; /* index in p->state + 1, once laid out */
    uint32_t average, steps; /* the same of the average that a train keeps of it, or 0; and the slot
                              * that counts its steps */
    Val now;       /* value assigned in the graph now_graph, or node 0 */
    Graph *now_graph;
    Val stand_in; /* an input that stands for the parameter in stand_in_graph, or node 0 */
    Graph *stand_in_graph;
    Span at;
    const char *doc;
    AstType *written; /* its type, for messages */
    const Written *how[MAX_RANK];
    FileEnv *file;
};

typedef enum { MEMBER_config, MEMBER_let, MEMBER_state, MEMBER_sub, MEMBER_fn } MemberKind;

typedef struct {
    Sym name;
    MemberKind kind;
    Value value;  /* not of MEMBER_state */
    State *state; /* MEMBER_state */
    Sym as;       /* its segment of state names */
    bool has_as;
    Span at;
} Member;

struct Instance {
    const ModuleRef *module; /* NULL: the root of several models, which are its members */
    VEC(Member) members;
    Values args; /* as configured, for copy() */
    bool building;
    DType dtype; /* default float type */
    Place place; /* methods make their tensors there; PLACE_D0: where they are called */
    bool frozen;
    bool moved; /* by -fplace=auto: what its methods are given is copied to `place` */
    Sym path; /* "blocks.0", once the model is complete */
    bool named;
    uint32_t id;
    Span at;
};

/* An optimizer with the values of its parameters. */
struct Optim {
    const ModuleRef *module;
    Value *config; /* one for each of decl->params */
    Span at;
};

/* ---- calls ---- */

/* What is given to a call, evaluated. */
typedef struct {
    AstName name; /* {0}: by position */
    Value value;
    Span at;
} Arg;
typedef VEC(Arg) Args;

/* A row of builtins.def. `params` are separated by spaces: `x` is needed, `x=1` has a default
 * (none true false a number or a "string"), `*shape` takes the rest, one list or several. A
 * parameter called `axis` may be given as `dim`. */
typedef struct Call Call;
typedef bool BuiltinFn(Elab *e, const Call *c, Value *out);
struct Builtin {
    const char *name;
    BuiltinFn *fn;
    int op; /* Op or Reducer, for functions that serve several rows */
    const char *params;
};

/* A call of a builtin: arg[i] belongs to parameter i of the row; V_unset where there is none. */
struct Call {
    const Builtin *row;
    Span at; /* the whole call */
    const Value *arg;
    const Span *arg_at;
    uint32_t n;
    const Env *env;
};

/* Functions that run at the moment, innermost first: for messages and for the sites of draws. */
typedef struct Frame Frame;
struct Frame {
    Frame *up;
    const char *name; /* "MLP.forward" */
    Span call_at, def_at;
    uint64_t chain;  /* hash of the chain of calls */
    VEC(Sym) called; /* names called from here so far, for the ordinals of sites */
    Sym path;        /* of the instance */
    /* whose names a message may use */
    const Instance *inst; /* of a method */
    const FileEnv *file;
    const void *scope; /* owner of the locals */
    bool inside;       /* arguments have been taken: messages are about the body */
};

/* The graph of a function with a derivative of its own takes what it uses from outside as
 * operands. */
typedef struct Capture Capture;
struct Capture {
    Capture *up;
    Graph *outer, *inner;
    VEC(Val) outer_vals;
    VEC(Val) inner_vals;
};

/* A size, or a value that the command line defines. */
typedef struct {
    Sym name; /* "...": the axes of an ellipsis */
    Value value;
    Span at;
} SizeBinding;
typedef VEC(SizeBinding) Sizes;
typedef VEC(State *) States;

typedef struct {
    Graph *from, *to;
    VEC(Val) old; /* result 0 of old node i is new.at[i] */
    VEC(Val) new_vals;
} Import;

struct Elab {
    Ctx *cx;
    Arena *a;
    const ElabOptions *o;
    Elaborated *out;
    ParseCtx parse;
    Interner *names;
    DimTable *dims;
    Diags *diags;

    VEC(FileEnv *) files;
    FileEnv *prelude;
    int unimported; /* imports that failed: their names are poison */

    Program *p; /* the program being made, and its graph being traced */
    Builder b;
    Graph *making;       /* the graph in which the instances are made */
    State *making_state; /* whose INIT is being evaluated */
    uint32_t nstates, ninstances;
    States states; /* of the model, in state order */
    Sizes defined; /* -D values that are no consts */
    Instance *root;
    uint32_t seed_slot, calls_slot;
    bool drew;    /* the graph uses the model's random numbers */
    Graph *entry; /* gets entry checks on sizes; NULL: everything must be proved */
    VEC(Import *) imports;
    WrittenTable written;

    Frame *frame;
    const char *element; /* of the list that is being called, for messages; or NULL */
    Frame root_frame; /* of what is traced: the graph itself */
    int depth;
    int64_t steps; /* statements run, to stop endless programs */
    int nesting;   /* of eval */
    Capture *capture;
    struct Turns *turns; /* scans of which a turn is traced, innermost first (elab_scan.c) */
    uint32_t blocks;            /* checkpoints so far: each has a number */
    struct Turns *block_turns;  /* the scan in whose turn the checkpoint at hand stands */
    int64_t segment;            /* k of the checkpoint(k) at hand, or 0 */
    bool training, no_grad;
    DType amp; /* the half type that casts are made to here, or DT_none */
    DType float_type;   /* the default float type here */
    DType base_float;   /* of the model */
    bool as_f64;        /* a gradient check is traced: f32 is f64 */
    VEC(Value) asserts; /* of the test being traced: run-time assertions */
    VEC(const char *) assert_texts;
    VEC(Span) assert_at;
    bool in_test;
    Sym test;
    VEC(const AstFn *) ran; /* with -check: the file's functions that were called */
    VEC(const AstDecl *) made;
    bool guess; /* sizes and dtypes are those of no real call: what depends on them is no error */
    bool unproved;           /* the last question about sizes had no certain answer */
    VEC(uint64_t) crossings; /* places of messages about devices */
    VEC(uint64_t) reported;  /* (construct, line) of not_supported messages */
    VEC(uint64_t) key_sites; /* of draws while the model is made: pairs (node, state or 0) */
    VEC(Val) keys_made;
    VEC(State *) key_states;

    struct {
        Sym forward, training, axis, dim, underscore, out, to, ellipsis;
    } word;
};

/* ---- elab_value.c ---- */

Value v_poison(void);
Value v_none(void);
Value v_int(int64_t i);
Value v_float(double f);
Value v_bool(bool b);
Value v_string(const char *s);
Value v_dtype(DType t);
Value v_list(Elab *e, const Value *at, uint32_t n);
Value v_named(Elab *e, const Value *at, uint32_t n, const char *const *names);
/** A V_int if the size is constant, else a V_size. */
Value v_dim(Elab *e, Dim d);
Value v_tensor(Elab *e, Val v);
/** A late number: v is rank 0, f64, i64 or bool. */
Value v_late(Elab *e, Val v);

/** "int", "float", "tensor", "list" ...: as kind(x) and messages name it. */
const char *value_kind(const Value *v);
const char *a_kind(const Value *v); /* "an int", "a list", "none" */
/** The value as written, for messages and print: `[1, 2]`, `f32[B, 64]`. */
const char *value_text(Elab *e, const Value *v);
/** `at`, or where the user called the library's function that `at` is in. */
Span user_at(Elab *e, Span at);
/** The library's function that the user called, where `at` is inside of it; else NULL. */
const char *library_function(Elab *e, Span at);
/** "element 1 of the list (nn.Linear)". */
const char *element_text(Elab *e, const Value *list, uint32_t i);
bool value_equal(const Value *a, const Value *b);
static inline bool is_poison(const Value *v)
{
    return v->kind == V_poison;
}
bool is_number(const Value *v); /* int, float, size, late (no bool) */
bool is_static_number(const Value *v);
double static_number(const Value *v);
bool is_callable(const Value *v);
bool holds_instance(const Value *v);
/** The size that an int or size stands for. False (no message) otherwise. */
bool value_dim(Elab *e, const Value *v, Dim *out);

/** The Val in the graph being traced: of a tensor or late number (copied from another graph if
 * needed), or a number as a rank-0 const / size. */
Val use_val(Elab *e, const Value *v);
/** Type of a tensor or late value. */
const TypeInfo *value_type(Elab *e, const Value *v);
const TypeInfo *type_at(Elab *e, Val v);

/* ---- messages ---- */

/** Reports; the names of sizes that the text uses are explained in a note. A place in the standard
 * library becomes the user's call, with notes on the way. */
Diag *elab_error(Elab *e, DiagKind kind, Span at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void elab_note(Elab *e, Diag *d, Span at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
const char *sym(Elab *e, Sym s);
Sym sym_new(Elab *e, const char *text);
const char *dim_str(Elab *e, Dim d); /* as a user would space it: "3 * B + 1" */

/* ---- how sizes were written (elab_written.c) ---- */

/** An int or size with the name that it was read by. */
Value written_name(Elab *e, Value v, Sym name, const void *owner);
/** Owner of the locals of what runs. */
const void *written_scope(const Elab *e);
/** out, an int or size, is a op b. */
void written_op(Elab *e, AstOp op, const Value *a, const Value *b, Value *out);
/** out, an int or size, is -a. */
void written_negated(Elab *e, const Value *a, Value *out);
/** a of -a; else NULL. */
const Written *written_negation_of(const Written *w);
void written_call(Elab *e, const char *name, const Value *a, const Value *b, Value *out);
/** The size of an axis as a value. */
Value written_axis(Elab *e, const Value *tensor, uint32_t axis);
/** The shape of a value of the graph being traced. */
Shape written_shape(Elab *e, Val v);
Shape written_state_shape(const State *s);
/** From now on v is described by `how`, where that is not NULL. */
void written_set(Elab *e, Val v, const Written *const *how, uint32_t rank);
/** v of the graph being traced stands for a value of another graph. */
void written_link(Elab *e, Val v, const Graph *from, Val of);
/** What is set for a value of another graph is so for v too. */
void written_copy(Elab *e, const Graph *from, Val of, Val v);
/** The text that an axis has: set, or found out from the operations. */
const Written *written_of_axis(Elab *e, const Written *axis);
/** What is set for v, and back to it when a call is over. */
const Written *const *written_get(const Elab *e, Val v);
void written_restore(Elab *e, Val v, const Written *const *axes);

/* ---- sizes as text (elab_written_text.c); the names used are explained by the next message ----
 */

const char *size_str(Elab *e, const Written *how, Dim d);
const char *shape_str(Elab *e, const Shape *s); /* "[B, 2 * width]" */
const char *val_shape_str(Elab *e, Val v);
const char *type_str(Elab *e, Val v); /* "f32[B, 2 * width]" */
/** The size that a value is. */
const char *value_size_str(Elab *e, const Value *v);
/** "features = 32, state = 128" of the names said so far, in the order of the text, and forgets
 * them; NULL: none. */
const char *said_values(Elab *e, const char *text);

/* Two sizes that should be equal. */
typedef struct {
    const char *what; /* NULL: the message names them */
    const Written *a_how, *b_how;
    Dim a, b;
} SizePair;
/** Reports, with a note of what the two are: "inner dims are 2 * n and m   (n = 8, m = 9: 16 and
 * 9)". */
Diag *sizes_error(Elab *e, DiagKind kind, Span at, const SizePair *pair, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

/* ---- -famp (elab_autocast.c) ---- */

/** Casts the arguments of a function of the prelude, or of an operator, by PyTorch's lists. */
void autocast(Elab *e, const char *name, Value *values, uint32_t n);
/** With -famp: v in the float type that its place is declared with; else v. */
Val autocast_back(Elab *e, Val v, DType want);

/* ---- arguments of builtins (elab_args.c); each reports and returns false ---- */

bool arg_given(const Call *c, uint32_t i); /* neither left out nor none */
/** A tensor; a number becomes a 0-d one (float: default type, int: i64). */
bool arg_tensor(Elab *e, const Call *c, uint32_t i, Val *out);
bool arg_float_tensor(Elab *e, const Call *c, uint32_t i, Val *out);
bool arg_bool(Elab *e, const Call *c, uint32_t i, bool *out);
bool arg_int(Elab *e, const Call *c, uint32_t i, int64_t *out);
bool arg_float(Elab *e, const Call *c, uint32_t i, double *out); /* static int or float */
bool arg_string(Elab *e, const Call *c, uint32_t i, const char **out);
bool arg_dtype(Elab *e, const Call *c, uint32_t i, DType fallback, DType *out);
bool arg_dim(Elab *e, const Call *c, uint32_t i, Dim *out);
bool arg_size(Elab *e, const Call *c, uint32_t i, Dim *out); /* not below 0 */
/** An axis of a tensor of that rank (negative counts from the end), as 0..rank-1. */
bool arg_axis(Elab *e, const Call *c, uint32_t i, uint32_t rank, uint32_t *out);
/** One axis or a list, sorted, without repeats; none or left out: all. */
bool arg_axes(Elab *e, const Call *c, uint32_t i, uint32_t rank, int64_t *axes, uint32_t *n);
/** Ints in the order given: for permute, flip ... `shape` of a `*` parameter may be a list in it.
 */
bool arg_ints(Elab *e, const Call *c, uint32_t i, int64_t *out, uint32_t *n, uint32_t max);
/** A shape: a list, or spread arguments. -1 is given as {0} if minus_one is not NULL. */
bool arg_shape(Elab *e, const Call *c, uint32_t i, Shape *out, bool *minus_one);
/** A list's elements as tensors. */
bool arg_tensors(Elab *e, const Call *c, uint32_t i, Val **out, uint32_t *n);

/* ---- operations on values (elab_op.c): promote, broadcast, report ---- */

/** The result of PyTorch's promotion over values (tensors, 0-d tensors, numbers). */
DType promote_values(Elab *e, const Value *const *v, uint32_t n);
/** As a Val of dtype t (numbers become consts, late numbers are cast). */
Val val_as(Elab *e, const Value *v, DType t);
/** Whether the tensors among the operands broadcast; reports with shapes aligned. at: the
 * operator's caret. */
bool check_broadcast(Elab *e, Span at, const Value *const *in, const Span *in_at, uint32_t n);
/** n operands are promoted and broadcast; the op is emitted. force_float: ints become the default
 * float type. Works on static and late numbers too. */
bool pointwise(Elab *e, Op op, Span at, const Value *const *in, const Span *in_at, uint32_t n,
               bool force_float, Value *out);
bool binary_op(Elab *e, AstOp op, Span at, const Value *a, Span a_at, const Value *b, Span b_at,
               Value *out);
bool unary_op(Elab *e, AstOp op, Span at, const Value *a, Value *out);
bool matmul(Elab *e, Span at, Span a_at, Span b_at, Val x, Val y, Val *out);
/** Short names for tracing; dtypes must agree already. */
Val t_const(Elab *e, DType t, double v);
/** a must equal b: proved, or checked on entry; else false (no message). */
bool prove_equal(Elab *e, Span at, Dim a, Dim b);
/** a <= b likewise. `what` is the message of the entry check. */
bool prove_le(Elab *e, Span at, Dim a, Dim b, const char *what);
bool prove_divisible(Elab *e, Span at, Dim a, int64_t by);
/** Whether the known sizes are so small that numbers of elements and bytes never overflow. */
bool check_extent(Elab *e, Span at, const Shape *s);
/** A tensor that is not larger than that as the value of an expression. */
bool give(Elab *e, Val v, Value *out);
/** Reshape to a shape of which one axis may be {0}: "the rest". */
bool reshape_to(Elab *e, Span at, Val x, Shape *to, Val *out);

/* ---- devices (elab_device.c); e->b.place is where new tensors are made ---- */

/** The place that a device stands for; false after a message. `who`: "'on'". */
bool place_of(Elab *e, Span at, const Value *v, const char *who, Place *out);
Value device_value(const Elab *e, Place place);
const char *place_str(Elab *e, Place place); /* "cuda:1", "the default device" */
/** A builder that reports operands on different devices. */
Builder elab_builder(Elab *e, Graph *g);
/** -fplace=auto: places modules (elab_split.c); a value, or a list of them, on a device. */
void split_over_gpus(Elab *e);
Value moved_to_place(Elab *e, const Value *v, Place place);
/** A method is called: its tensors are made on the instance's device, and -fplace=auto copies there
 * what it is given. e->b.place is the caller's to keep. NULL: no method. */
void enter_instance(Elab *e, const Instance *inst, Value *value, uint32_t n);
/** cuda(i). */
Value gpu_numbered(Elab *e, int64_t i, Span at);
/** Reports where a value is not on the device that it should be on. */
bool check_same_place(Elab *e, Span at, const char *what, Place got, Place want);

/* ---- random numbers (elab_random.c) ---- */

/** The key of a draw made here; `name` is the function that draws. */
Val draw_key(Elab *e, const char *name);

/* ---- expressions and statements ---- */

typedef enum { FLOW_next, FLOW_return } Flow;

Value eval(Elab *e, const Env *env, const AstExpr *x);
/** A value as a bool known while compiling. False after a message; *out is false then. */
bool to_bool(Elab *e, const Value *v, Span at, bool *out, const char *what);
/** An expression as that. False after a message; *out is false then. */
bool eval_bool(Elab *e, const Env *env, const AstExpr *x, bool *out, const char *what);
/** Elements of a list, or a tensor's along axis 0. */
bool value_items(Elab *e, Span at, const Value *v, Values *out);
Value eval_index(Elab *e, const Env *env, const AstExpr *x, const Value *base);
/** base with the part at the subscripts of x replaced. */
Value store_index(Elab *e, const Env *env, const AstExpr *x, const Value *base, const Value *part,
                  Span at);
Value value_field(Elab *e, const Env *env, const Value *base, Sym name, Span at, Span name_at);

/* Results of a body are collected here. */
typedef struct {
    Values values; /* of `return` */
    VEC(Span) at;
    bool returned;
    Span return_at;
} Body;
/** One more statement or turn of a list; false (once with a message) when there were too many. */
bool count_step(Elab *e, Span at);
Flow run_block(Elab *e, const Env *env, const AstStmts *body, Body *ret);
Flow run_stmt(Elab *e, const Env *env, const AstStmt *s, Body *ret);
/** Whether the value of `let name: type` is of that type; declares the sizes that it names. */
bool check_let_type(Elab *e, const Env *env, const AstTarget *t, const Value *v, Span at);
bool unpack(Elab *e, const Env *env, const AstExprs *values, uint32_t ntargets, Span at,
            Values *out, Span *value_at);
Value run_assign(Elab *e, const Env *env, const AstExpr *place, Value v, Span at);

/* ---- scans (elab_scan.c) ---- */

/** Traces a turn and makes the node; what is yielded, stacked, is added to *out. */
bool run_scan(Elab *e, const Env *env, const AstStmt *s, Values *out);
void run_yield(Elab *e, const Env *env, const AstStmt *s);
/** Which turn of all scans around runs: for random keys. */
Dim turn_number(const Elab *e);

/* ---- after a mistake (elab_poison.c) ---- */

/** What the block, which is not run, would assign. */
void poison_assigned(const Env *env, const AstStmts *body);
/** The sizes that the type would name. */
void poison_sizes(Elab *e, const Env *env, const AstType *t);
/** The members of a module that the block would declare. */
void poison_members(Elab *e, const Env *env, Instance *inst, const AstStmts *body);

/* ---- calls (elab_call.c) ---- */

Value call_value(Elab *e, const Env *env, const Value *f, const Args *args, Span at, Span name_at);
Value call_fn(Elab *e, Fn *fn, const Args *args, Span at);
Value call1(Elab *e, const Value *f, Value arg, Span at); /* one argument, by position */
Value call_builtin(Elab *e, const Env *env, const Builtin *b, const Args *args, Span at);
const Builtin *find_builtin(Elab *e, Sym name);
/** Binds arguments to a declaration's parameters: value[i] is V_unset where nothing is given. */
bool bind_args(Elab *e, const char *who, Span def_at, const AstParams *params, const Args *args,
               Span at, Value *value, Span *value_at);
/** Whether a value fits a parameter's word type (int, list, fn ...); an int becomes a float. */
bool config_fits(Elab *e, const char *who, const AstParam *p, Value *v, Span at);
void push_frame(Elab *e, Frame *f, const char *name, Span call_at, Span def_at, Sym path);
void pop_frame(Elab *e);
/** With -check: whether the body of fn has been run. */
bool has_run(const Elab *e, const AstFn *fn);
/** Traces the body of fn with these arguments, for exported methods. */
Value call_custom(Elab *e, Fn *fn, Env *env, const Value *args, Span at); /* elab_custom.c */

/* ---- types (elab_type.c) ---- */

/** Binds the sizes that `t` introduces, from an actual tensor; what cannot be checked yet (it uses
 * names not bound so far) is left for type_check. */
bool type_bind(Elab *e, const Env *env, const AstType *t, const char *what, Span at, Val v,
               Sizes *sizes, bool new_names);
bool type_check(Elab *e, const Env *env, const AstType *t, const char *what, Span at, Val v,
                const Sizes *sizes);
/** Whether a type may introduce the name: it begins with a capital. */
bool is_size_name(Elab *e, Sym name);
/** The dtype of a reserved word; in gradient checks every float type is f64. */
DType dtype_named(const Elab *e, const char *name);
/** The type as a shape and dtype: every axis is known. how[MAX_RANK], if not NULL: as written. */
bool type_eval(Elab *e, const Env *env, const AstType *t, TypeInfo *out, const Written **how);
bool dtype_fits(Elab *e, const Env *env, const AstType *t, DType got, const char **wanted);
/** INIT: a number, a tensor of the shape, or a function from the shape to either. how[type->rank],
 * if not NULL: the text of the shape. */
bool initial_value(Elab *e, const Value *init, const TypeInfo *type, const Written *const *how,
                   Span at, Val *out);

/* ---- scopes (elab_scope.c) ---- */

Scope *scope_push(Elab *e, Scope *up);
Local *scope_find(const Scope *s, Sym name);
bool scope_declare(Elab *e, const Env *env, Sym name, Value v, Span at);
void scope_set(Elab *e, Scope *s, Sym name, Value v, Span at);
/** Any name; reports unknown ones with the nearest. */
Value lookup(Elab *e, const Env *env, Sym name, Span at);
/** The same; where no name is near, the message has this note (which may be NULL). */
Value lookup_noted(Elab *e, const Env *env, Sym name, Span at, const char *note);
bool lookup_user(Elab *e, const Env *env, Sym name, Value *out); /* not the prelude; no message */
bool name_declared(Elab *e, const Env *env, Sym name, Span *at);
Value global_value(Elab *e, FileEnv *f, Global *g);
Global *file_find(FileEnv *f, Sym name);
FileEnv *file_load(Elab *e, uint32_t file, bool is_std, const char *path);
Scope *scope_capture(Elab *e, const Scope *s); /* a copy by value, for function values */

/* ---- modules (elab_module.c) ---- */

Value make_instance(Elab *e, const Env *env, const ModuleRef *m, const Args *args, Span at);
Member *member_find(Instance *inst, Sym name);
Member *member_find_as(Instance *inst, Sym name);
Value member_value(Elab *e, Instance *inst, Member *m, Span at);
Value state_value(Elab *e, State *s);
bool state_assign(Elab *e, State *s, const Value *v, Span at);

/** `sub.weight = x` where modules are made: ties, or gives another initial value. */
void set_member_state(Elab *e, const Env *env, const AstStmt *s);
/** M(...).to(dtype or device). */
Value instance_to(Elab *e, Instance *inst, const Value *to, Span at);
/** Names every state and instance below the root; e->states gets them in PyTorch's order. */
void name_states(Elab *e, Instance *root);
/** States below an instance or list, shared ones once. */
void states_below(Elab *e, const Value *v, States *out);

/* ---- copies between graphs (elab_import.c) ---- */

/** The same value in the graph being traced: the nodes it is made of are made again there. */
Val import_val(Elab *e, Graph *from, Val v);

/* ---- the rows of builtins.def ---- */

#define BUILTIN(name, fn, op, params, doc) BuiltinFn builtin_##fn;
#include "frontend/builtins.def"
#undef BUILTIN

#endif
