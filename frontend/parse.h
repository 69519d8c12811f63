/* parse.h: what lexer.l, parser.y and parse.c share. Others include ast.h.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_PARSE_H
#define TENON_PARSE_H

#include "frontend/ast.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef YY_TYPEDEF_YY_SCANNER_T
#define YY_TYPEDEF_YY_SCANNER_T
typedef void *yyscan_t;
#endif

/* The value of a token; which fields count depends on its kind. */
typedef struct {
    Span at;
    Sym sym; /* words */
    const char *text;
    uint32_t ntext; /* strings, decoded */
    int64_t i;
    double f;
} TokenValue;

typedef struct {
    int kind;
    TokenValue value;
    int line, indent; /* where it is, and the column (from 0) at which its line begins */
    bool newline;     /* first on its line */
    bool is_bad;      /* a message about its text was given */
    Span newline_at;
} Token;

/* An open bracket. */
typedef struct {
    char close;
    int line;
    int indent; /* of the statement that it is in */
    int body;   /* indent of the first line inside; -1: not yet known */
    Span at;
} Bracket;

typedef struct {
    uint32_t start; /* of the token that it stands above */
    const char *text;
} Doc;

typedef struct {
    const ParseCtx *ctx;
    Arena *arena;
    uint32_t file;
    AstFile *out;
    AstExpr *expr; /* of parse_expr */
    void *scanner;
    Span scan_at;

    /* bytes to tokens (scan.c) */
    int line, indent;
    bool newline, line_has_token, is_bad;
    Span newline_at;
    const char *doc; /* comment lines above the next token */
    int doc_line;    /* the last of them */
    bool seen_token;
    VEC(Doc) docs;
    int last; /* kind of the token given last */

    /* tokens to statements (parse.c) */
    int start;        /* a first token that says what the text is; 0: was given */
    Token current;    /* the one the grammar looks at */
    Token pending[3]; /* read, and not given */
    int npending;
    int closers;    /* '}' to give in place of missing ones, before what is pending */
    bool owes_term; /* ... and then an end of line */
    VEC(Bracket) open;
    bool closed_block;    /* the current '}' had its '{' */
    Span left_open;       /* the last ( or [ that was given up */
    Token first;          /* of this statement */
    uint32_t first_depth; /* brackets open around it */
    uint32_t second;      /* where the token after it starts */
    bool at_start;        /* the next token begins a statement */
    int top_indent;       /* of the declarations */

    /* after an error (parse.c) */
    bool is_quiet;    /* this statement has had its message */
    bool panic;       /* dropping the rest of the statement */
    bool wants_block; /* the mistake was a missing '{': its '}' goes too */
    uint32_t base;    /* brackets open around what is dropped */
    int panic_indent; /* deeper lines belong to what is dropped */
    uint32_t retried; /* the token that was read again after a mistake: never twice */
    Span unclosed;    /* the first '{' that the layout says lacks its '}' */
} Parser;

/* ---- scan.c ---- */

void scan_newline(Parser *p, Span at);
void scan_comment(Parser *p, Span at, const char *text, size_t n);

/** Fills the value and returns the token's kind. */
int scan_word(Parser *p, TokenValue *v, Span at, const char *text, size_t n);
int scan_device(Parser *p, TokenValue *v, Span at, const char *text, size_t n);
int scan_int(Parser *p, TokenValue *v, Span at, const char *text, size_t n);
int scan_float(Parser *p, TokenValue *v, Span at, const char *text, size_t n);
int scan_string(Parser *p, TokenValue *v, Span at, const char *text, size_t n);

/** Reports what is no token; the statement gets no second message. */
void scan_error(Parser *p, Span at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/** The next token of the text, END at its end; `at` moves along. scan_place adds its line. */
Token scan_token(Parser *p, void *scanner, Span *at);
void scan_place(Parser *p, Token *t);
void *scan_create(Parser *p, const char *text, size_t n);
void scan_destroy(void *scanner);

/** Whether the last token, on this line, ends a value; whether one of this kind can. */
bool scan_after_value(const Parser *p);
bool scan_can_end(int kind);

/* ---- ast.c: makers, for the grammar ---- */

AstExpr *make_expr(Parser *p, AstExprKind kind, Span at);
AstExpr *make_unary(Parser *p, AstOp op, Span op_at, AstExpr *a, Span at);
AstExpr *make_binary(Parser *p, AstOp op, Span op_at, AstExpr *a, AstExpr *b, Span at);
AstExpr *make_cond(Parser *p, AstExpr *c, Span op_at, AstExpr *a, AstExpr *b, Span at);
AstExpr *make_list(Parser *p, AstExprs items, Span at);
AstExpr *make_slice(Parser *p, AstExpr *a, AstExpr *b, AstExpr *c, Span at);
AstExpr *make_literal(Parser *p, AstExprKind kind, TokenValue v);
AstExpr *make_postfix(Parser *p, AstExprKind kind, AstExpr *a, Span op_at, Span at);
AstExprs prepend(Parser *p, AstExpr *first, AstExprs rest);
void set_items(Parser *p, AstExpr *e, AstExprs items);
void set_args(Parser *p, AstExpr *e, AstArgs args);
AstStmt *make_stmt(Parser *p, AstStmtKind kind, Span op_at, Span at);
AstStmt *make_set(Parser *p, AstExprs places, Span op_at, Span at);
AstStmt *make_expr_stmt(Parser *p, AstExprs values, Span at);
AstType *make_type(Parser *p, AstTypeKind kind, AstName name, bool is_dtype, Span at);
AstDecl *make_decl(Parser *p, AstDeclKind kind, AstName name, Span at);
AstFn *make_fn(Parser *p, AstParams params, Span at);
void name_fn(Parser *p, AstFn *fn, AstName name, Span at);
void set_grad(AstFn *fn, const AstFn *grad);
void set_else(Parser *p, AstStmt *s, AstStmt *other);
void parse_version(Parser *p, TokenValue v);

/** The `##` comment above the token at this place, or NULL. */
const char *parse_doc(const Parser *p, Span at);

/* ---- parse.c: for the grammar ---- */

typedef struct {
    int got;
    const char *got_name; /* as users read it */
    Span at;
    const char *expected[4]; /* the tokens that fit; nexpected is 0 where they are more */
    int nexpected;
    bool decl;                                       /* a declaration fits */
    bool eq, rparen, rbracket, lbrace, rbrace, name; /* would these fit? */
} SyntaxError;

/** Reports, unless the statement has had a message, and starts to drop the rest of it. */
void parse_error(Parser *p, const SyntaxError *e);

/** The statement has ended: the next may have its own message. */
void parse_statement_end(Parser *p);

#endif
