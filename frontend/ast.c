/* ast.c: makes the nodes of the tree, with the few rules that need no names.
 * SPDX-License-Identifier: MIT */
#include "frontend/parse.h"

#include "ir/base/die.h"

enum { VERSION = 1 };

const char *ast_op_text(AstOp op)
{
    static const char *const text[AST_OP_COUNT] = {
        [AST_or] = "or",  [AST_and] = "and", [AST_eq] = "==",  [AST_ne] = "!=",
        [AST_lt] = "<",   [AST_le] = "<=",   [AST_gt] = ">",   [AST_ge] = ">=",
        [AST_in] = "in",  [AST_bor] = "|",   [AST_xor] = "^",  [AST_not_in] = "not in",
        [AST_band] = "&", [AST_shl] = "<<",  [AST_shr] = ">>", [AST_add] = "+",
        [AST_sub] = "-",  [AST_mul] = "*",   [AST_div] = "/",  [AST_floordiv] = "//",
        [AST_mod] = "%",  [AST_pow] = "**",  [AST_neg] = "-",  [AST_matmul] = "@",
        [AST_inv] = "~",  [AST_not] = "not",
    };
    CHECK(op < AST_OP_COUNT);
    return text[op];
}

/* ---- expressions ---- */

AstExpr *make_expr(Parser *p, AstExprKind kind, Span at)
{
    AstExpr *e = arena_new(p->arena, AstExpr);
    e->kind = kind;
    e->at = at;
    e->op_at = at;
    e->depth = 1;
    return e;
}

/* Long chains such as a + b + ... nest without brackets, so the grammar's own limit misses them. */
static void nest(Parser *p, AstExpr *e, const AstExpr *part)
{
    if (!part || part->depth < e->depth)
        return;
    e->depth = part->depth + 1;
    if (e->depth == AST_DEPTH)
        diag_report(p->ctx->diags, DIAG_syntax, e->at,
                    "expression nested more than %d deep: give parts of it names", AST_DEPTH);
    if (e->depth >= AST_DEPTH) {
        e->kind = EX_error;
        e->a = e->b = e->c = NULL;
        e->depth = 1;
    }
}

AstExpr *make_unary(Parser *p, AstOp op, Span op_at, AstExpr *a, Span at)
{
    AstExpr *e = make_expr(p, EX_unary, at);
    e->op = op;
    e->op_at = op_at;
    e->a = a;
    nest(p, e, a);
    return e;
}

AstExpr *make_binary(Parser *p, AstOp op, Span op_at, AstExpr *a, AstExpr *b, Span at)
{
    AstExpr *e = make_expr(p, EX_binary, at);
    e->op = op;
    e->op_at = op_at;
    e->a = a;
    e->b = b;
    nest(p, e, a);
    nest(p, e, b);
    return e;
}

AstExpr *make_cond(Parser *p, AstExpr *c, Span op_at, AstExpr *a, AstExpr *b, Span at)
{
    AstExpr *e = make_expr(p, EX_cond, at);
    e->op_at = op_at;
    e->a = a;
    e->b = b;
    e->c = c;
    nest(p, e, a);
    nest(p, e, b);
    nest(p, e, c);
    return e;
}

AstExpr *make_list(Parser *p, AstExprs items, Span at)
{
    AstExpr *e = make_expr(p, EX_list, at);
    set_items(p, e, items);
    return e;
}

AstExprs prepend(Parser *p, AstExpr *first, AstExprs rest)
{
    AstExprs all = {0};
    vec_push(p->arena, &all, first);
    for (uint32_t i = 0; i < rest.n; i++)
        vec_push(p->arena, &all, rest.at[i]);
    return all;
}

AstExpr *make_slice(Parser *p, AstExpr *a, AstExpr *b, AstExpr *c, Span at)
{
    AstExpr *e = make_expr(p, EX_slice, at);
    e->a = a;
    e->b = b;
    e->c = c;
    nest(p, e, a);
    nest(p, e, b);
    nest(p, e, c);
    return e;
}

AstExpr *make_literal(Parser *p, AstExprKind kind, TokenValue v)
{
    AstExpr *e = make_expr(p, kind, v.at);
    e->name = v.sym;
    if (kind == EX_float) {
        e->f = v.f;
    } else if (kind == EX_string) {
        e->text = v.text;
        e->ntext = v.ntext;
    } else {
        e->i = v.i;
    }
    return e;
}

AstExpr *make_postfix(Parser *p, AstExprKind kind, AstExpr *a, Span op_at, Span at)
{
    AstExpr *e = make_expr(p, kind, at);
    e->a = a;
    e->op_at = op_at;
    nest(p, e, a);
    return e;
}

void set_items(Parser *p, AstExpr *e, AstExprs items)
{
    e->items = items;
    for (uint32_t i = 0; i < items.n && e->kind != EX_error; i++)
        nest(p, e, items.at[i]);
}

void set_args(Parser *p, AstExpr *e, AstArgs args)
{
    e->args = args;
    for (uint32_t i = 0; i < args.n && e->kind != EX_error; i++)
        nest(p, e, args.at[i].value);
}

/* ---- statements ---- */

AstStmt *make_stmt(Parser *p, AstStmtKind kind, Span op_at, Span at)
{
    AstStmt *s = arena_new(p->arena, AstStmt);
    s->kind = kind;
    s->at = at;
    s->op_at = op_at;
    s->doc = parse_doc(p, at);
    return s;
}

void set_else(Parser *p, AstStmt *s, AstStmt *other)
{
    if (!other)
        return;
    s->has_else = true;
    if (other->kind == ST_if)
        vec_push(p->arena, &s->orelse, other);
    else
        s->orelse = other->body;
}

AstStmt *make_set(Parser *p, AstExprs places, Span op_at, Span at)
{
    AstStmt *s = make_stmt(p, ST_set, op_at, at);
    s->places = places;
    for (uint32_t i = 0; i < places.n; i++) {
        const AstExprKind kind = places.at[i]->kind;
        if (kind != EX_name && kind != EX_field && kind != EX_index && kind != EX_error)
            diag_report(p->ctx->diags, DIAG_bad_target, places.at[i]->at,
                        "only a name, a member or a part of a tensor can be assigned to");
    }
    return s;
}

/* Whether it is the first thing on its line. */
static bool begins_line(const Parser *p, Span at)
{
    const char *text = source_file(p->ctx->sources, at.file)->text;
    uint32_t i = at.start;
    while (i > 0 && (text[i - 1] == ' ' || text[i - 1] == '\t'))
        i--;
    return i == 0 || text[i - 1] == '\n';
}

AstStmt *make_expr_stmt(Parser *p, AstExprs values, Span at)
{
    AstStmt *s = make_stmt(p, ST_expr, at, at);
    s->values = values;
    const AstExpr *e = values.at[0];
    if (values.n == 1 && (e->kind == EX_call || e->kind == EX_error))
        return s;
    const AstExpr *first = e;
    while (first->kind == EX_binary)
        first = first->a;
    if (first->kind == EX_unary && first->op == AST_neg && begins_line(p, at))
        diag_report(p->ctx->diags, DIAG_syntax, first->op_at,
                    "a line cannot begin with '-': end the line above with it, or put the whole "
                    "in ( )");
    else if (values.n == 1 && e->kind == EX_binary && e->op == AST_eq)
        diag_report(p->ctx->diags, DIAG_misplaced, e->op_at,
                    "a comparison is no statement (assignment is '=')");
    else
        diag_report(p->ctx->diags, DIAG_misplaced, at,
                    "only a call is a statement; the value of this is lost");
    return s;
}

/* ---- declarations ---- */

AstType *make_type(Parser *p, AstTypeKind kind, AstName name, bool is_dtype, Span at)
{
    AstType *t = arena_new(p->arena, AstType);
    t->kind = kind;
    t->name = name;
    t->is_dtype = is_dtype;
    t->at = at;
    return t;
}

AstDecl *make_decl(Parser *p, AstDeclKind kind, AstName name, Span at)
{
    AstDecl *d = arena_new(p->arena, AstDecl);
    d->kind = kind;
    d->name = name;
    d->at = at;
    d->doc = parse_doc(p, at);
    return d;
}

AstFn *make_fn(Parser *p, AstParams params, Span at)
{
    AstFn *fn = arena_new(p->arena, AstFn);
    fn->params = params;
    fn->at = at;
    return fn;
}

void name_fn(Parser *p, AstFn *fn, AstName name, Span at)
{
    fn->name = name;
    fn->at = at;
    fn->doc = parse_doc(p, at);
}

void set_grad(AstFn *fn, const AstFn *grad)
{
    if (!grad)
        return;
    fn->has_grad = true;
    fn->grad_at = grad->at;
    fn->grad_names = grad->grad_names;
    fn->grad_body = grad->grad_body;
}

void parse_version(Parser *p, TokenValue v)
{
    p->out->version = v.i;
    if (v.i < 1 || v.i > VERSION)
        diag_report(p->ctx->diags, DIAG_version, v.at,
                    "language version %lld: this compiler knows 1 to %d", (long long)v.i, VERSION);
}

const char *parse_doc(const Parser *p, Span at)
{
    uint32_t lo = 0, hi = p->docs.n;
    while (lo < hi) {
        const uint32_t mid = (lo + hi) / 2;
        if (p->docs.at[mid].start < at.start)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < p->docs.n && p->docs.at[lo].start == at.start ? p->docs.at[lo].text : NULL;
}
