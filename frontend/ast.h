/* ast.h: the syntax tree of a `.tn` file: what the text says, before any name is looked up.
 * Every node carries the bytes it was written in; lists are never NULL, optional pointers may be.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_AST_H
#define TENON_AST_H

#include "ir/base/arena.h"
#include "ir/base/diag.h"
#include "ir/base/intern.h"
#include "ir/base/source.h"
#include "ir/base/strbuf.h"
#include "ir/base/vec.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct AstExpr AstExpr;
typedef struct AstStmt AstStmt;
typedef struct AstType AstType;
typedef struct AstFn AstFn;
typedef VEC(AstExpr *) AstExprs;
typedef VEC(AstStmt *) AstStmts;

/* A name as written, with its place. sym {0}: there is none. */
typedef struct {
    Sym sym;
    Span at;
} AstName;
typedef VEC(AstName) AstNames;

/* ---- expressions ---- */

typedef enum {
    EX_error,    /* could not be read; a message was given */
    EX_name,     /* name */
    EX_int,      /* i */
    EX_float,    /* f */
    EX_string,   /* text, ntext (escapes decoded) */
    EX_bool,     /* i: 0 or 1 */
    EX_none,     /* - */
    EX_device,   /* name as written ("cpu", "cuda", "cuda:1"); i: -1 for cpu, else the GPU's number.
                    `cuda(e)` is an EX_call whose a is the EX_device named "cuda" */
    EX_dtype,    /* name ("f32") */
    EX_unary,    /* op (AST_neg, AST_inv, AST_not), a, op_at */
    EX_binary,   /* op, a, b, op_at */
    EX_cond,     /* c ? a : b; op_at is the '?' */
    EX_list,     /* items (an item may be EX_splat); `(a, b)` and `[a, b]` alike */
    EX_comp,     /* a, clauses, c (the filter, or NULL) */
    EX_call,     /* a(args); op_at is the '(' up to the ')' */
    EX_index,    /* a[items]; an item may be EX_slice or EX_ellipsis; op_at as of a call */
    EX_field,    /* a.name; op_at is the name's place */
    EX_fn,       /* fn: a function value; its name is {0} */
    EX_slice,    /* a:b:c, each NULL where left out; only in the items of EX_index */
    EX_ellipsis, /* `...`: only in the items of EX_index and in the dims of a tensor type */
    EX_splat,    /* *a: only in lists, arguments and dims */
} AstExprKind;

typedef enum {
    AST_or,
    AST_and,
    AST_eq,
    AST_ne,
    AST_lt,
    AST_le,
    AST_gt,
    AST_ge,
    AST_in,
    AST_not_in,
    AST_bor,
    AST_xor,
    AST_band,
    AST_shl,
    AST_shr,
    AST_add,
    AST_sub,
    AST_mul,
    AST_div,
    AST_floordiv,
    AST_mod,
    AST_matmul,
    AST_pow,
    AST_neg, /* unary from here */
    AST_inv,
    AST_not,
    AST_OP_COUNT
} AstOp;

/* An argument: `value`, `name = value`, or `*list`, which is an EX_splat in value. */
typedef struct {
    AstName name;
    AstExpr *value;
} AstArg;
typedef VEC(AstArg) AstArgs;

/* `for a, b in list` of a comprehension. */
typedef struct {
    Span at;
    AstNames names;
    AstExpr *list;
} AstClause;
typedef VEC(AstClause) AstClauses;

enum { AST_DEPTH = 2000 };

struct AstExpr {
    AstExprKind kind;
    AstOp op;
    uint32_t depth; /* of the tree below; the parser keeps it under AST_DEPTH: walks may recurse */
    Span at;        /* the whole, with the ( ) around it */
    Span op_at;     /* where an error about the operation puts its caret */
    Sym name;
    AstExpr *a, *b, *c;
    union {
        int64_t i;
        double f;
        struct {
            const char *text;
            uint32_t ntext;
        };
        AstExprs items;
        AstArgs args;
        AstClauses clauses;
        AstFn *fn;
    };
};

/* ---- types ---- */

typedef enum {
    TYPE_error,
    TYPE_word,   /* name: `int`, `fn`, `module`, `dim`, ..., or a dtype alone (is_dtype) */
    TYPE_tensor, /* name, is_dtype, dims, on */
} AstTypeKind;

struct AstType {
    AstTypeKind kind;
    bool is_dtype; /* name is one of the reserved dtypes (f32, bool, ...) */
    Span at;
    AstName name; /* of a tensor: {0} is any float; `int` any integer; else a static dtype's name */
    AstExprs dims; /* expressions (`_` is an EX_name), EX_ellipsis, EX_splat */
    AstExpr *on;   /* the device, or NULL */
};

/* ---- functions ---- */

typedef struct {
    Span at;
    AstName name;
    AstType *type;    /* NULL: untyped */
    AstExpr *initial; /* the default, or NULL */
    const char *doc;
} AstParam;
typedef VEC(AstParam) AstParams;

typedef struct {
    Span at;
    AstName name;  /* {0}: a lone `-> TYPE` */
    AstType *type; /* NULL: left out */
    const char *doc;
} AstResult;
typedef VEC(AstResult) AstResults;

struct AstFn {
    Span at;      /* from `fn` (or `extern`) to the end */
    AstName name; /* {0}: a function value */
    const char *doc;
    AstParams params;
    bool has_results; /* `->` was written */
    AstResults results;
    Span results_at;
    AstStmts body;
    Span body_at;         /* { to } */
    const char *extern_c; /* the C expression of `extern fn`, which has no body; else NULL */
    Span extern_at;
    bool has_grad;
    Span grad_at; /* from `grad` to the end */
    AstNames grad_names;
    AstStmts grad_body;
};

/* ---- statements ---- */

typedef enum {
    ST_param,   /* name: type = value [as as] */
    ST_buffer,  /* name[: type] = value [as as] */
    ST_fn,      /* fn */
    ST_let,     /* targets = values, or = scan */
    ST_set,     /* places = values, or = scan; [as as] */
    ST_aug,     /* places[0] op= values[0]; op_at */
    ST_expr,    /* values: an expression alone (several: not allowed by the language) */
    ST_scan,    /* scan names in list { body } */
    ST_yield,   /* values */
    ST_return,  /* values, maybe none */
    ST_if,      /* list (the condition), body, orelse (has_else); `else if` is an ST_if in orelse */
    ST_for,     /* for names in list { body } */
    ST_on,      /* list (the device), body */
    ST_no_grad, /* body */
    ST_checkpoint, /* list (the k of checkpoint(k), or NULL), body */
    ST_assert,     /* list (the condition), message or NULL */
} AstStmtKind;

/* A target of `let`: name[: type]. The name `_` drops the value. */
typedef struct {
    AstName name;
    AstType *type;
} AstTarget;
typedef VEC(AstTarget) AstTargets;

struct AstStmt {
    AstStmtKind kind;
    AstOp op;       /* of ST_aug */
    Span at, op_at; /* op_at: the `=`, `+=` ... or the keyword */
    const char *doc;
    AstName name;       /* ST_param, ST_buffer */
    AstType *type;      /* ST_param, ST_buffer */
    AstExpr *value;     /* ST_param, ST_buffer: INIT */
    AstExpr *as;        /* the state name, or NULL */
    AstFn *fn;          /* ST_fn */
    AstTargets targets; /* ST_let */
    AstExprs places;    /* ST_set, ST_aug */
    AstExprs values;    /* ST_let, ST_set, ST_aug, ST_expr, ST_yield, ST_return */
    AstStmt *scan;      /* ST_let, ST_set: the right side is this ST_scan; values is empty */
    AstNames names;     /* ST_scan, ST_for */
    AstExpr *list;      /* ST_scan, ST_for, ST_if, ST_on, ST_checkpoint, ST_assert */
    AstExpr *message;   /* ST_assert */
    AstStmts body, orelse;
    bool has_else;
};

/* ---- declarations ---- */

typedef struct {
    Span at;
    AstName name;
    AstExpr *value;
} AstBinding;
typedef VEC(AstBinding) AstBindings;

typedef struct {
    Span at;
    AstExprs selectors;
    AstBindings settings;
} AstGroup;
typedef VEC(AstGroup) AstGroups;

typedef enum {
    DECL_import,    /* name (what it is called here), path (the text) and path_at, is_path */
    DECL_const,     /* name = value */
    DECL_fn,        /* fn (extern_c tells the two kinds apart); name is fn->name */
    DECL_module,    /* name(params) { body } */
    DECL_optimizer, /* name(params) { body } */
    DECL_model,     /* name = value [with bindings] */
    DECL_train,     /* train target with value { bindings, groups } */
    DECL_test,      /* test "path" { body } */
} AstDeclKind;

typedef struct {
    AstDeclKind kind;
    Span at;
    AstName name;
    const char *doc;
    const char *path;
    Span path_at;
    bool is_path; /* import "path" as name: looked up as a path; else the name of a module */
    AstExpr *target, *value;
    AstFn *fn;
    AstParams params;
    AstStmts body;
    Span body_at;
    AstBindings bindings;
    AstGroups groups;
} AstDecl;
typedef VEC(AstDecl *) AstDecls;

typedef struct {
    uint32_t file;
    int64_t version; /* 1 where none is written */
    const char *doc;
    AstDecls decls;
} AstFile;

/* ---- reading and printing ---- */

typedef struct {
    Arena *arena;
    Interner *names;
    Sources *sources;
    Diags *diags;
} ParseCtx;

/** Reads file number `file`. Never NULL: what could not be read was reported and is left out
 * (compare diag_errors before and after). */
AstFile *parse_file(const ParseCtx *ctx, uint32_t file);

/** Reads a text (added to the sources as one) that is a single expression, such as `-m`'s or
 * `-D`'s. NULL after a report. */
AstExpr *parse_expr(const ParseCtx *ctx, uint32_t file);

/** The operator as written: "+", "not in". */
const char *ast_op_text(AstOp op);

/** Prints as s-expressions, one declaration or statement a line. */
void ast_print(StrBuf *out, const Interner *names, const AstFile *file);

/** Prints an expression or a type the way it is written, for messages: `2 * state`. */
void ast_write_expr(StrBuf *out, const Interner *names, const AstExpr *e);
void ast_write_literal(StrBuf *out, const Interner *names, const AstExpr *e);
void ast_write_type(StrBuf *out, const Interner *names, const AstType *t);

#endif
