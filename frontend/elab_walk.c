/* elab_walk.c: searches in syntax trees. SPDX-License-Identifier: MIT */
#include "frontend/elab_program.h"

typedef struct {
    bool (*hit)(void *ctx, const AstExpr *x);
    void *ctx;
} Search;

static bool in_expr(const Search *s, const AstExpr *x);
static bool in_block(const Search *s, const AstStmts *body);

static bool in_exprs(const Search *s, const AstExprs *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (in_expr(s, list->at[i]))
            return true;
    return false;
}

static bool in_expr(const Search *s, const AstExpr *x)
{
    if (!x)
        return false;
    if (s->hit(s->ctx, x) || in_expr(s, x->a) || in_expr(s, x->b) || in_expr(s, x->c))
        return true;
    switch (x->kind) {
    case EX_list:
    case EX_index: return in_exprs(s, &x->items);
    case EX_call:
        for (uint32_t i = 0; i < x->args.n; i++)
            if (in_expr(s, x->args.at[i].value))
                return true;
        return false;
    case EX_comp:
        for (uint32_t i = 0; i < x->clauses.n; i++)
            if (in_expr(s, x->clauses.at[i].list))
                return true;
        return false;
    case EX_fn: return in_block(s, &x->fn->body);
    default: return false;
    }
}

static bool in_stmt(const Search *s, const AstStmt *t)
{
    return in_expr(s, t->value) || in_expr(s, t->list) || in_expr(s, t->message) ||
           in_exprs(s, &t->places) || in_exprs(s, &t->values) || (t->scan && in_stmt(s, t->scan)) ||
           in_block(s, &t->body) || in_block(s, &t->orelse);
}

static bool in_block(const Search *s, const AstStmts *body)
{
    for (uint32_t i = 0; i < body->n; i++)
        if (in_stmt(s, body->at[i]))
            return true;
    return false;
}

static bool is_name(void *ctx, const AstExpr *x)
{
    const Sym *name = ctx;
    return (x->kind == EX_name || x->kind == EX_field) && sym_eq(x->name, *name);
}

bool body_uses(const AstStmts *body, Sym name)
{
    Search s = {is_name, &name};
    return in_block(&s, body);
}

bool expr_uses(const AstExpr *x, Sym name)
{
    Search s = {is_name, &name};
    return in_expr(&s, x);
}
