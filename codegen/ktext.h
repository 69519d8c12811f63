/* ktext.h: what both kernel printers share: names in scope, sizes and expressions as C text.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_KTEXT_H
#define TENON_KTEXT_H

#include "codegen/emit.h"
#include "codegen/names.h"
#include "ir/kernel.h"

typedef enum { TARGET_C, TARGET_CUDA } Target;

/* C's precedences, as far as printed text has them: an operand that binds less gets parentheses. */
enum {
    PREC_TERNARY = 3,
    PREC_OR = 4,
    PREC_AND = 5,
    PREC_EQUAL = 9,
    PREC_LESS = 10,
    PREC_SUM = 12,
    PREC_PRODUCT = 13,
    PREC_UNARY = 14,
    PREC_PRIMARY = 16
};

typedef struct {
    const char *text; /* NULL: not in scope */
    int prec;
} Text;

/* How the value of an accumulator is held. */
typedef enum {
    ACC_SCALAR, /* one a thread */
    ACC_LANES,  /* C: lanes of a loop that is folded; joined by its total */
    ACC_STRIP,  /* C: one for each cell of a strip */
    ACC_SIDE    /* one for each index of a loop */
} AccStore;

enum { MAX_FIELDS = 3, MAX_SUBST = 4, STRIP_LANES = 16, STRIP_WIDE = 64, STRIP_CELLS = 64, STRIP_BLOCK = 256 };

typedef struct {
    AccStore store;
    bool has_total, over_block, under_lanes, under_teams;
    bool totalled;                 /* the total has been printed: result[] are in scope */
    const char *field[MAX_FIELDS]; /* names of its variables */
    const char *result[3];         /* names after the total */
    Dim extent;                    /* SIDE */
    int lanes;                     /* LANES: how many */
    const char *values;            /* LANES: the array that a block's values go to, or NULL */
} AccInfo;

typedef struct {
    Program *p;
    const Kernel *k;
    Arena *a;
    Target target;
    Emit e;
    Names names;
    const char **param;        /* by parameter */
    Text *let;                 /* by expression: its name while in scope */
    Text *vector;              /* by expression: what stands for a load in a vector loop */
    const char **symbol;       /* by symbol: its name */
    bool *wide;                /* by symbol: 64 bit */
    AccInfo *accs;             /* by accumulator */
    const char **keeps;        /* by kept value */
    Text keep_index;           /* CUDA: register number of kept and side values, in their loop */
    Symbol lane_axis;          /* innermost loop over lanes */
    DimSubst subst[MAX_SUBST]; /* axes that are printed as a sum, such as c + l in strips */
    uint32_t nsubst;
    const char *strip;    /* counter of the strip or vector being printed, or NULL */
    bool reports;         /* has a KS_CHECK: the kernel takes an error word */
    VEC(Site) sites;      /* of each check; its number is its place from 1 */
    VEC(uint32_t) lets;   /* expressions whose names are in scope, in order */
    bool picking;         /* C: a select that is printed is an arm of another one */
    uint32_t *seen, mark; /* by expression: visited by the walk number `mark` */
    EmitLines *lines;     /* -g: the model's line of what is printed; else NULL */
    uint32_t line_file;   /* which file its lines are in */
    const char *kernel;   /* its name, and its sizes: for hooks, which go in front of it */
    const Symbol *sizes;
    uint32_t nsizes;
    StrBuf *hooks;
} KText;

/** Starts the text of a kernel: parameters get their names, everything else is out of scope. */
KText ktext_begin(Program *p, const Kernel *k, Target target, StrBuf *out);

/** -g: what is printed next belongs to the statement's line, as far as that is known. */
void ktext_line(KText *t, const KStmt *s);
/** Lays out `e` like the text of the kernel: its head and its end have the kernel's first line. */
Emit ktext_frame(KText *t, StrBuf *out);

/* A block's names go out of scope at its end. */
typedef struct {
    uint32_t lets, names;
} Scope;
Scope scope_begin(const KText *t);
void scope_end(KText *t, Scope s);
/** Makes `text` stand for the expression until the scope ends. */
void ktext_let(KText *t, KExpr e, Text text);
/** The number of a check, from 1: the same for the same place in the model. */
uint32_t ktext_site(KText *t, Site site);
/** The index and the size that a check of an index compares, as ints. False: it checks something
 * else. */
bool ktext_checked(KText *t, Guard pred, const char **index, const char **size);
/** Statements that read the same in both languages: a check of an index, and a store. */
void ktext_print_check(KText *t, const KStmt *s);
void ktext_print_store(KText *t, const KStmt *s);
/** A call of a function of runtime/kernels: C and CUDA have one each. */
void ktext_print_call(KText *t, const KStmt *s);
/** Its hook, in front of the kernel, and in place a variable `hook` (hook.c). */
const char *ktext_print_hook(KText *t, const KStmt *s);
/** The name of a LET statement's value; its symbol (if any) gets it too. */
const char *ktext_let_name(KText *t, const KStmt *s);

/** "int64_t" or "long long"; C's spelling of an element in memory and of a value in a variable. */
const char *ktext_int64(const KText *t);
const char *ktext_element(const KText *t, DType dtype);
const char *ktext_value(const KText *t, DType dtype);

/** Names a symbol; wide: the variable has 64 bit. */
const char *ktext_symbol(KText *t, Symbol s, const char *wanted, bool wide);
/** Parenthesised if it binds less than `prec`. */
const char *ktext_wrap(const KText *t, Text x, int prec);
Text ktext_dim(KText *t, Dim d);
const char *ktext_dim_at(KText *t, Dim d, int prec);
/** Whether the value is certain to fit an int. */
bool ktext_fits_int(KText *t, Dim d);
/** Whether C computes the text in 64 bit. */
bool ktext_is_wide(const KText *t, Dim d);
Text ktext_guard(KText *t, Guard g);
/** The element offset of an access, with the strip's substitutions. */
Dim ktext_offset(KText *t, uint32_t param, const Dim *at);
Text ktext_expr(KText *t, KExpr e);
const char *ktext_expr_at(KText *t, KExpr e, int prec);
/** An expression as the right side of a store to `param`: converted to its memory format. */
const char *ktext_to_memory(KText *t, uint32_t param, KExpr e);
/** "x[b * 384 + s]" or "*x". */
const char *ktext_access(KText *t, uint32_t param, const Dim *at);

/** Whether the expression's text depends on the symbol, through lets that are in scope or not. */
bool kexpr_depends(KText *t, KExpr e, Symbol s);
bool kstmt_uses(KText *t, const KStmt *s, KExpr what);
bool kblock_has_loop(const KBlock *b);

/* --- accumulators (accs.c) -----------------------------------------------------------------------
 */

/** Finds out how each accumulator is folded and joined. `cells`: C keeps private ones of a strip.
 */
void accs_analyse(KText *t);
/** Lanes of a loop over lanes that folds: how many accumulators take turns. */
int accs_lanes(const KText *t, const KStmt *loop);
/** Whether some expression of the kernel reads the result. */
bool acc_is_used(const KText *t, uint32_t acc, int result);
/** The fields' C types and identities. */
const char *acc_field_type(const KText *t, uint32_t acc, int field);
const char *acc_identity(KText *t, uint32_t acc, int field);
/** What the field is called behind the name of its accumulator: "", "_m", "_s". */
const char *acc_suffix(const KText *t, uint32_t acc, int field);
/** The text of field `f`: variable, lane, register or side element. */
Text acc_field(KText *t, uint32_t acc, int field);
Text acc_lane_field(KText *t, uint32_t acc, int field, const char *lane);
/** One statement that folds `value` into the accumulator, without its semicolon. */
const char *acc_fold(KText *t, uint32_t acc, const char *value, const char *index);
/** One statement: fields of `to` become the join of `to` and `from`. */
const char *acc_join(KText *t, uint32_t acc, const Text *to, const Text *from);
/** Result `r` as an expression over the fields. */
Text acc_finish(KText *t, uint32_t acc, int result, const Text *fields);
/** What its name has behind that of the accumulator. */
const char *acc_result_suffix(Reducer reducer, int result);

#endif
