/* ast_print.c: the tree as s-expressions (-E=ast).
 * SPDX-License-Identifier: MIT */
#include "frontend/ast.h"

#include <stdio.h>
#include <string.h>

typedef struct {
    StrBuf *out;
    const Interner *names;
    int depth;
} Printer;

static void print_expr(Printer *w, const AstExpr *e);
static void print_block(Printer *w, const AstStmts *body);
static void print_fn(Printer *w, const AstFn *fn);

/* ---- literals ---- */

static void put_string(StrBuf *out, const char *s, size_t n)
{
    sb_putc(out, '"');
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '\n')
            sb_puts(out, "\\n");
        else if (s[i] == '\t')
            sb_puts(out, "\\t");
        else if (s[i] == '"' || s[i] == '\\')
            sb_printf(out, "\\%c", s[i]);
        else
            sb_putc(out, s[i]);
    }
    sb_putc(out, '"');
}

/* The shortest decimal that reads back as the same number, with a dot or an exponent. */
static void put_float(StrBuf *out, double f)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        double back = 0;
        snprintf(text, sizeof text, "%.*g", digits, f);
        if (sscanf(text, "%lf", &back) == 1 && back == f)
            break;
    }
    sb_puts(out, text);
    if (!strpbrk(text, ".en"))
        sb_puts(out, ".0");
}

static void put_name(Printer *w, Sym name)
{
    sb_puts(w->out, name.id ? sym_text(w->names, name) : "-");
}

static void put_names(Printer *w, const AstNames *names)
{
    sb_putc(w->out, '(');
    for (uint32_t i = 0; i < names->n; i++) {
        sb_puts(w->out, i ? " " : "");
        put_name(w, names->at[i].sym);
    }
    sb_putc(w->out, ')');
}

void ast_write_literal(StrBuf *out, const Interner *names, const AstExpr *e)
{
    switch (e->kind) {
    case EX_int:
        sb_printf(out, "%lld", (long long)e->i);
        break;
    case EX_float:
        put_float(out, e->f);
        break;
    case EX_string:
        put_string(out, e->text, e->ntext);
        break;
    case EX_bool:
        sb_puts(out, e->i ? "true" : "false");
        break;
    case EX_none:
        sb_puts(out, "none");
        break;
    case EX_ellipsis:
        sb_puts(out, "...");
        break;
    case EX_name:
    case EX_device:
    case EX_dtype:
        sb_puts(out, sym_text(names, e->name));
        break;
    default:
        sb_puts(out, "error");
        break;
    }
}

/* ---- s-expressions ---- */

static void print_optional(Printer *w, const AstExpr *e)
{
    if (e)
        print_expr(w, e);
    else
        sb_putc(w->out, '-');
}

static void print_exprs(Printer *w, const AstExprs *list)
{
    for (uint32_t i = 0; i < list->n; i++) {
        sb_putc(w->out, ' ');
        print_expr(w, list->at[i]);
    }
}

static void print_args(Printer *w, const AstArgs *args)
{
    for (uint32_t i = 0; i < args->n; i++) {
        const AstArg *arg = &args->at[i];
        sb_putc(w->out, ' ');
        if (arg->name.sym.id) {
            sb_puts(w->out, "(= ");
            put_name(w, arg->name.sym);
            sb_putc(w->out, ' ');
        }
        print_expr(w, arg->value);
        sb_puts(w->out, arg->name.sym.id ? ")" : "");
    }
}

static void print_clauses(Printer *w, const AstClauses *clauses)
{
    sb_puts(w->out, " (");
    for (uint32_t i = 0; i < clauses->n; i++) {
        sb_puts(w->out, i ? " (" : "(");
        put_names(w, &clauses->at[i].names);
        sb_putc(w->out, ' ');
        print_expr(w, clauses->at[i].list);
        sb_putc(w->out, ')');
    }
    sb_puts(w->out, ") ");
}

static void print_parts(Printer *w, const char *head, const AstExpr *a, const AstExpr *b)
{
    sb_printf(w->out, "(%s ", head);
    print_optional(w, a);
    if (b) {
        sb_putc(w->out, ' ');
        print_expr(w, b);
    }
}

static void print_expr(Printer *w, const AstExpr *e)
{
    switch (e->kind) {
    case EX_device:
        sb_printf(w->out, "(device %s)", sym_text(w->names, e->name));
        return;
    case EX_dtype:
        sb_printf(w->out, "(dtype %s)", sym_text(w->names, e->name));
        return;
    case EX_unary:
        print_parts(w, e->op == AST_neg ? "neg" : ast_op_text(e->op), e->a, NULL);
        break;
    case EX_binary:
        print_parts(w, e->op == AST_not_in ? "not-in" : ast_op_text(e->op), e->a, e->b);
        break;
    case EX_cond:
        print_parts(w, "?:", e->c, e->a);
        sb_putc(w->out, ' ');
        print_expr(w, e->b);
        break;
    case EX_list:
        sb_puts(w->out, "(list");
        print_exprs(w, &e->items);
        break;
    case EX_comp:
        print_parts(w, "comp", e->a, NULL);
        print_clauses(w, &e->clauses);
        print_optional(w, e->c);
        break;
    case EX_call:
        print_parts(w, "call", e->a, NULL);
        print_args(w, &e->args);
        break;
    case EX_index:
        print_parts(w, "index", e->a, NULL);
        print_exprs(w, &e->items);
        break;
    case EX_field:
        print_parts(w, "field", e->a, NULL);
        sb_printf(w->out, " %s", sym_text(w->names, e->name));
        break;
    case EX_fn:
        print_fn(w, e->fn);
        return;
    case EX_slice:
        sb_puts(w->out, "(slice ");
        print_optional(w, e->a);
        sb_putc(w->out, ' ');
        print_optional(w, e->b);
        sb_putc(w->out, ' ');
        print_optional(w, e->c);
        break;
    case EX_splat:
        print_parts(w, "splat", e->a, NULL);
        break;
    default:
        ast_write_literal(w->out, w->names, e);
        return;
    }
    sb_putc(w->out, ')');
}

static void print_type(Printer *w, const AstType *t)
{
    if (!t) {
        sb_putc(w->out, '-');
        return;
    }
    if (t->kind == TYPE_word) {
        put_name(w, t->name.sym);
        return;
    }
    sb_puts(w->out, "(tensor ");
    put_name(w, t->name.sym);
    sb_puts(w->out, " (");
    for (uint32_t i = 0; i < t->dims.n; i++) {
        sb_puts(w->out, i ? " " : "");
        print_expr(w, t->dims.at[i]);
    }
    sb_putc(w->out, ')');
    if (t->on) {
        sb_puts(w->out, " (on ");
        print_expr(w, t->on);
        sb_putc(w->out, ')');
    }
    sb_putc(w->out, ')');
}

static void print_line(Printer *w)
{
    sb_putc(w->out, '\n');
    for (int i = 0; i < w->depth; i++)
        sb_puts(w->out, "  ");
}

static void print_doc(Printer *w, const char *doc)
{
    if (!doc)
        return;
    sb_puts(w->out, " (doc ");
    put_string(w->out, doc, strlen(doc));
    sb_putc(w->out, ')');
}

static void print_params(Printer *w, const AstParams *params)
{
    sb_puts(w->out, " (params");
    for (uint32_t i = 0; i < params->n; i++) {
        const AstParam *param = &params->at[i];
        sb_puts(w->out, " (");
        put_name(w, param->name.sym);
        sb_putc(w->out, ' ');
        print_type(w, param->type);
        sb_putc(w->out, ' ');
        print_optional(w, param->initial);
        print_doc(w, param->doc);
        sb_putc(w->out, ')');
    }
    sb_putc(w->out, ')');
}

static void print_results(Printer *w, const AstFn *fn)
{
    sb_puts(w->out, fn->has_results ? " (results" : " -");
    for (uint32_t i = 0; i < fn->results.n; i++) {
        sb_puts(w->out, " (");
        put_name(w, fn->results.at[i].name.sym);
        sb_putc(w->out, ' ');
        print_type(w, fn->results.at[i].type);
        print_doc(w, fn->results.at[i].doc);
        sb_putc(w->out, ')');
    }
    sb_puts(w->out, fn->has_results ? ")" : "");
}

static void print_fn(Printer *w, const AstFn *fn)
{
    sb_puts(w->out, fn->extern_c ? "(extern " : "(fn ");
    put_name(w, fn->name.sym);
    print_doc(w, fn->doc);
    print_params(w, &fn->params);
    print_results(w, fn);
    if (fn->extern_c) {
        sb_putc(w->out, ' ');
        put_string(w->out, fn->extern_c, strlen(fn->extern_c));
    } else {
        print_block(w, &fn->body);
    }
    if (fn->has_grad) {
        sb_puts(w->out, " (grad ");
        put_names(w, &fn->grad_names);
        print_block(w, &fn->grad_body);
        sb_putc(w->out, ')');
    }
    sb_putc(w->out, ')');
}

static void print_targets(Printer *w, const AstTargets *targets)
{
    sb_puts(w->out, " (");
    for (uint32_t i = 0; i < targets->n; i++) {
        sb_puts(w->out, i ? " (" : "(");
        put_name(w, targets->at[i].name.sym);
        sb_putc(w->out, ' ');
        print_type(w, targets->at[i].type);
        sb_putc(w->out, ')');
    }
    sb_putc(w->out, ')');
}

static void print_stmt(Printer *w, const AstStmt *s);

static void print_value(Printer *w, const AstStmt *s)
{
    if (s->scan) {
        w->depth++;
        print_line(w);
        print_stmt(w, s->scan);
        w->depth--;
    } else {
        print_exprs(w, &s->values);
    }
}

static void print_as(Printer *w, const AstStmt *s)
{
    if (!s->as)
        return;
    sb_puts(w->out, " (as ");
    print_expr(w, s->as);
    sb_putc(w->out, ')');
}

static void print_state(Printer *w, const AstStmt *s)
{
    sb_puts(w->out, s->kind == ST_param ? "(param " : "(buffer ");
    put_name(w, s->name.sym);
    print_doc(w, s->doc);
    sb_putc(w->out, ' ');
    print_type(w, s->type);
    sb_putc(w->out, ' ');
    print_expr(w, s->value);
    print_as(w, s);
    sb_putc(w->out, ')');
}

static void print_assign(Printer *w, const AstStmt *s)
{
    if (s->kind == ST_let) {
        sb_puts(w->out, "(let");
        print_doc(w, s->doc);
        print_targets(w, &s->targets);
    } else if (s->kind == ST_aug) {
        sb_printf(w->out, "(aug %s", ast_op_text(s->op));
        print_exprs(w, &s->places);
    } else {
        sb_puts(w->out, "(set");
        print_doc(w, s->doc);
        sb_puts(w->out, " (");
        for (uint32_t i = 0; i < s->places.n; i++) {
            sb_puts(w->out, i ? " " : "");
            print_expr(w, s->places.at[i]);
        }
        sb_putc(w->out, ')');
    }
    print_value(w, s);
    print_as(w, s);
    sb_putc(w->out, ')');
}

/* (word [names] [expression] body [else body]) */
static void print_nested(Printer *w, const AstStmt *s, const char *word)
{
    sb_printf(w->out, "(%s", word);
    if (s->kind == ST_for || s->kind == ST_scan) {
        sb_putc(w->out, ' ');
        put_names(w, &s->names);
    }
    if (s->list) {
        sb_putc(w->out, ' ');
        print_expr(w, s->list);
    }
    print_block(w, &s->body);
    if (s->has_else) {
        print_line(w);
        sb_puts(w->out, "else");
        print_block(w, &s->orelse);
    }
    sb_putc(w->out, ')');
}

static void print_stmt(Printer *w, const AstStmt *s)
{
    switch (s->kind) {
    case ST_param:
    case ST_buffer:
        print_state(w, s);
        return;
    case ST_fn:
        print_fn(w, s->fn);
        return;
    case ST_let:
    case ST_set:
    case ST_aug:
        print_assign(w, s);
        return;
    case ST_scan:
        print_nested(w, s, "scan");
        return;
    case ST_if:
        print_nested(w, s, "if");
        return;
    case ST_for:
        print_nested(w, s, "for");
        return;
    case ST_on:
        print_nested(w, s, "on");
        return;
    case ST_no_grad:
        print_nested(w, s, "no_grad");
        return;
    case ST_checkpoint:
        print_nested(w, s, "checkpoint");
        return;
    case ST_expr:
        sb_puts(w->out, "(expr");
        break;
    case ST_yield:
        sb_puts(w->out, "(yield");
        break;
    case ST_return:
        sb_puts(w->out, "(return");
        break;
    case ST_assert:
        print_parts(w, "assert", s->list, s->message);
        break;
    }
    print_exprs(w, &s->values);
    sb_putc(w->out, ')');
}

static void print_block(Printer *w, const AstStmts *body)
{
    w->depth++;
    for (uint32_t i = 0; i < body->n; i++) {
        print_line(w);
        print_stmt(w, body->at[i]);
    }
    w->depth--;
}

static void print_bindings(Printer *w, const AstBindings *bindings)
{
    for (uint32_t i = 0; i < bindings->n; i++) {
        sb_puts(w->out, " (= ");
        put_name(w, bindings->at[i].name.sym);
        sb_putc(w->out, ' ');
        print_expr(w, bindings->at[i].value);
        sb_putc(w->out, ')');
    }
}

static void print_groups(Printer *w, const AstGroups *groups)
{
    for (uint32_t i = 0; i < groups->n; i++) {
        sb_puts(w->out, " (group (");
        for (uint32_t k = 0; k < groups->at[i].selectors.n; k++) {
            sb_puts(w->out, k ? " " : "");
            print_expr(w, groups->at[i].selectors.at[k]);
        }
        sb_putc(w->out, ')');
        print_bindings(w, &groups->at[i].settings);
        sb_putc(w->out, ')');
    }
}

static void print_named(Printer *w, const char *word, const AstDecl *d)
{
    sb_printf(w->out, "(%s %s", word, sym_text(w->names, d->name.sym));
    print_doc(w, d->doc);
}

static void print_decl(Printer *w, const AstDecl *d)
{
    switch (d->kind) {
    case DECL_fn:
        print_fn(w, d->fn);
        return;
    case DECL_import:
        print_named(w, "import", d);
        sb_putc(w->out, ' ');
        if (d->is_path)
            put_string(w->out, d->path, strlen(d->path));
        else
            sb_puts(w->out, d->path);
        break;
    case DECL_const:
        print_named(w, "const", d);
        sb_putc(w->out, ' ');
        print_expr(w, d->value);
        break;
    case DECL_module:
    case DECL_optimizer:
        print_named(w, d->kind == DECL_module ? "module" : "optimizer", d);
        print_params(w, &d->params);
        print_block(w, &d->body);
        break;
    case DECL_model:
        print_named(w, "model", d);
        sb_putc(w->out, ' ');
        print_expr(w, d->value);
        print_bindings(w, &d->bindings);
        break;
    case DECL_train:
        print_parts(w, "train", d->target, d->value);
        print_doc(w, d->doc);
        print_bindings(w, &d->bindings);
        print_groups(w, &d->groups);
        break;
    case DECL_test:
        sb_puts(w->out, "(test ");
        put_string(w->out, d->path, strlen(d->path));
        print_doc(w, d->doc);
        print_block(w, &d->body);
        break;
    }
    sb_putc(w->out, ')');
}

void ast_print(StrBuf *out, const Interner *names, const AstFile *file)
{
    Printer w = {out, names, 0};
    sb_printf(out, "(file %lld", (long long)file->version);
    print_doc(&w, file->doc);
    w.depth = 1;
    for (uint32_t i = 0; i < file->decls.n; i++) {
        print_line(&w);
        print_decl(&w, file->decls.at[i]);
    }
    sb_puts(out, ")\n");
}
