/* elab_walk.c: searches in syntax trees. SPDX-License-Identifier: MIT */
#include "frontend/elab_program.h"

typedef struct {
    bool (*hit)(void *ctx, const AstExpr *x);
    void *ctx;
} Search;

static bool in_expr(const Search *s, const AstExpr *x);
static bool in_block(const Search *s, const AstStmts *body);
static bool in_fn(const Search *s, const AstFn *fn);

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
    case EX_index:
        return in_exprs(s, &x->items);
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
    case EX_fn:
        return in_fn(s, x->fn);
    default:
        return false;
    }
}

static bool in_type(const Search *s, const AstType *t)
{
    if (!t)
        return false;
    AstExpr name = {.kind = EX_name, .name = t->name.sym};
    return s->hit(s->ctx, &name) || in_exprs(s, &t->dims) || in_expr(s, t->on);
}

static bool in_fn(const Search *s, const AstFn *fn)
{
    for (uint32_t i = 0; i < fn->params.n; i++)
        if (in_type(s, fn->params.at[i].type) || in_expr(s, fn->params.at[i].initial))
            return true;
    for (uint32_t i = 0; i < fn->results.n; i++)
        if (in_type(s, fn->results.at[i].type))
            return true;
    return in_block(s, &fn->body) || in_block(s, &fn->grad_body);
}

static bool in_stmt(const Search *s, const AstStmt *t)
{
    for (uint32_t i = 0; i < t->targets.n; i++)
        if (in_type(s, t->targets.at[i].type))
            return true;
    if (in_type(s, t->type) || in_expr(s, t->as) || (t->fn && in_fn(s, t->fn)))
        return true;
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

static bool in_decl(const Search *s, const AstDecl *d)
{
    for (uint32_t i = 0; i < d->params.n; i++)
        if (in_type(s, d->params.at[i].type) || in_expr(s, d->params.at[i].initial))
            return true;
    for (uint32_t i = 0; i < d->bindings.n; i++)
        if (in_expr(s, d->bindings.at[i].value))
            return true;
    for (uint32_t i = 0; i < d->groups.n; i++) {
        const AstGroup *g = &d->groups.at[i];
        if (in_exprs(s, &g->selectors))
            return true;
        for (uint32_t k = 0; k < g->settings.n; k++)
            if (in_expr(s, g->settings.at[k].value))
                return true;
    }
    return in_expr(s, d->target) || in_expr(s, d->value) || in_block(s, &d->body) ||
           (d->fn && in_fn(s, d->fn));
}

void decl_visit(const AstDecl *d, bool (*visit)(void *ctx, const AstExpr *x), void *ctx)
{
    Search s = {visit, ctx};
    in_decl(&s, d);
}

bool decl_uses(const AstDecl *d, Sym name)
{
    Search s = {is_name, &name};
    return in_decl(&s, d);
}

bool fn_uses(const AstFn *fn, Sym name)
{
    Search s = {is_name, &name};
    return in_fn(&s, fn);
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
