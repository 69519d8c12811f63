/* elab_names.c: names in text that is not run: every name used must be declared somewhere around
 * it, in the file, the prelude or the built-in functions. Where in its function a name is declared
 * is not looked at: running tells. SPDX-License-Identifier: MIT */
#include "frontend/elab_program.h"

typedef struct {
    Elab *e;
    Env env;
} Names;

static void declare(const Names *n, AstName name)
{
    if (name.sym.id && !sym_eq(name.sym, n->e->word.underscore))
        scope_set(n->e, n->env.scope, name.sym, v_poison(), name.at);
}

static void declare_all(const Names *n, const AstNames *names)
{
    for (uint32_t i = 0; i < names->n; i++)
        declare(n, names->at[i]);
}

/* Sizes that a type introduces; `results` have none of their own. */
static void declare_sizes_of(const Names *n, const AstType *t)
{
    for (uint32_t i = 0; t && t->kind == TYPE_tensor && i < t->dims.n; i++) {
        const AstExpr *x = t->dims.at[i]->kind == EX_splat ? t->dims.at[i]->a : t->dims.at[i];
        if (x->kind == EX_name && (x != t->dims.at[i] || is_size_name(n->e, x->name)))
            declare(n, (AstName){x->name, x->at});
    }
}

static void declare_block(const Names *n, const AstStmts *body, bool members);

static void declare_fn(const Names *n, const AstFn *fn)
{
    for (uint32_t i = 0; i < fn->params.n; i++) {
        declare(n, fn->params.at[i].name);
        declare_sizes_of(n, fn->params.at[i].type);
    }
    for (uint32_t i = 0; i < fn->results.n; i++)
        declare(n, fn->results.at[i].name);
    declare_all(n, &fn->grad_names);
    declare_block(n, &fn->body, false);
    declare_block(n, &fn->grad_body, false);
}

/* Function values and comprehensions declare names inside of expressions. */
static bool declare_inside(void *ctx, const AstExpr *x)
{
    const Names *n = ctx;
    if (x->kind == EX_fn)
        declare_fn(n, x->fn);
    for (uint32_t i = 0; x->kind == EX_comp && i < x->clauses.n; i++)
        declare_all(n, &x->clauses.at[i].names);
    return false;
}

static void declare_block(const Names *n, const AstStmts *body, bool members)
{
    for (uint32_t i = 0; i < body->n; i++) {
        const AstStmt *s = body->at[i];
        declare(n, s->name);
        declare_all(n, &s->names);
        for (uint32_t k = 0; k < s->targets.n; k++) {
            declare(n, s->targets.at[k].name);
            declare_sizes_of(n, s->targets.at[k].type);
        }
        for (uint32_t k = 0; members && k < s->places.n; k++)
            if (s->places.at[k]->kind == EX_name)
                declare(n, (AstName){s->places.at[k]->name, s->places.at[k]->at});
        if (s->fn) {
            declare(n, s->fn->name);
            declare_fn(n, s->fn);
        }
        if (s->scan) {
            declare_all(n, &s->scan->names);
            declare_block(n, &s->scan->body, false);
        }
        declare_block(n, &s->body, members);
        declare_block(n, &s->orelse, members);
    }
}

static bool use(void *ctx, const AstExpr *x)
{
    const Names *n = ctx;
    if (x->kind == EX_name && x->at.file && !sym_eq(x->name, n->e->word.underscore))
        lookup(n->e, &n->env, x->name, x->at);
    return false;
}

static Names begin_names(Elab *e, FileEnv *f, bool models)
{
    Names n = {.e = e, .env = {.file = f, .scope = scope_push(e, NULL)}};
    for (uint32_t i = 0; models && i < f->ast->decls.n; i++)
        if (f->ast->decls.at[i]->kind == DECL_model)
            declare(&n, f->ast->decls.at[i]->name);
    return n;
}

void check_names(Elab *e, FileEnv *f, const AstDecl *d)
{
    Names n = begin_names(e, f, d->kind == DECL_test);
    for (uint32_t i = 0; i < d->params.n; i++)
        declare(&n, d->params.at[i].name);
    if (d->fn)
        declare_fn(&n, d->fn);
    declare_block(&n, &d->body, d->kind == DECL_module || d->kind == DECL_optimizer);
    decl_visit(d, declare_inside, &n);
    decl_visit(d, use, &n);
}
