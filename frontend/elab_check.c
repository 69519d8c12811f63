/* elab_check.c: -check of what no model runs. Functions are traced with a symbol for each size that
 * their arguments have, modules are made with the defaults of their config values. Such sizes and
 * dtypes are guesses: a message that depends on them is withdrawn (Elab.guess). What cannot be run
 * at all is searched for unknown names. SPDX-License-Identifier: MIT */
#include "frontend/elab_program.h"

bool has_run(const Elab *e, const AstFn *fn)
{
    for (uint32_t i = 0; i < e->ran.n; i++)
        if (e->ran.at[i] == fn)
            return true;
    return false;
}

static bool was_made(const Elab *e, const AstDecl *d)
{
    for (uint32_t i = 0; i < e->made.n; i++)
        if (e->made.at[i] == d)
            return true;
    return false;
}

/* ---- functions ---- */

/* Every argument is a tensor or has a default. */
static bool can_run(const AstFn *fn)
{
    for (uint32_t i = 0; i < fn->params.n; i++) {
        const AstParam *p = &fn->params.at[i];
        if (!p->initial && (!p->type || p->type->kind != TYPE_tensor))
            return false;
    }
    return true;
}

static bool guess_arguments(Model *m, Graph *g, const Fn *fn, Args *args)
{
    Elab *e = m->e;
    const AstParams *params = &fn->ast->params;
    Env env = {.file = fn->file, .inst = fn->inst, .scope = scope_push(e, NULL)};
    for (uint32_t i = 0; i < params->n; i++)
        if (!params->at[i].initial)
            declare_sizes(m, g->method, &env, params->at[i].type);
    bool ok = true;
    for (uint32_t i = 0; i < params->n; i++) {
        const AstParam *p = &params->at[i];
        const Written *how[MAX_RANK] = {0};
        TypeInfo t;
        if (p->initial)
            continue;
        if (!type_eval(e, &env, p->type, &t, how)) {
            ok = false;
            continue;
        }
        Val v = build_input(&e->b, p->name.sym, type_make(e->p, t));
        written_set(e, v, how, t.rank);
        vec_push(e->a, args, ((Arg){.name = p->name, .value = v_tensor(e, v), .at = p->at}));
    }
    return ok;
}

static void run_alone(Model *m, Fn *fn)
{
    Elab *e = m->e;
    if (!can_run(fn->ast) || has_run(e, fn->ast))
        return;
    Graph *g = begin_trace(m, fn->name, fn->name, GRAPH_METHOD, false);
    Args args = {0};
    if (guess_arguments(m, g, fn, &args))
        call_fn(e, fn, &args, (Span){0});
    commit_states(e, g);
    end_trace(m, g);
}

static void run_function(Elab *e, FileEnv *f, const AstDecl *d)
{
    Model m = {.e = e, .file = f};
    const Global *g = file_find(f, d->name.sym);
    if (!g || g->decl != d || g->value.kind != V_fn || has_run(e, d->fn))
        return;
    begin_program(e, f, d->name.sym);
    run_alone(&m, g->value.fn);
}

/* ---- modules ---- */

static bool has_defaults(const AstDecl *d)
{
    for (uint32_t i = 0; i < d->params.n; i++)
        if (!d->params.at[i].initial)
            return false;
    return true;
}

static void run_module(Elab *e, FileEnv *f, const AstDecl *d)
{
    Model m = {.e = e, .file = f};
    const Global *g = file_find(f, d->name.sym);
    if (!g || g->decl != d || g->value.kind != V_module || !has_defaults(d) || was_made(e, d))
        return;
    const int before = diag_errors(e->diags);
    begin_program(e, f, d->name.sym);
    Args none = {0};
    Env env = {.file = f};
    Value v = make_instance(e, &env, g->value.module, &none, (Span){0});
    if (v.kind != V_instance || diag_errors(e->diags) > before)
        return;
    e->root = v.inst;
    name_states(e, e->root);
    if (diag_errors(e->diags) > before)
        return;
    layout_states(&m);
    for (uint32_t i = 0; i < v.inst->members.n; i++)
        if (v.inst->members.at[i].kind == MEMBER_fn)
            run_alone(&m, v.inst->members.at[i].value.fn);
}

/* ---- the file ---- */

static void run_const(Elab *e, FileEnv *f, const AstDecl *d)
{
    Global *g = file_find(f, d->name.sym);
    if (!g || g->decl != d)
        return;
    begin_program(e, f, d->name.sym);
    global_value(e, f, g);
}

/* Names of what was not run: a function, or the part of a module that nothing calls. */
static void check_unrun(Elab *e, FileEnv *f, const AstDecl *d)
{
    bool all = d->fn ? has_run(e, d->fn) : was_made(e, d);
    for (uint32_t i = 0; i < d->body.n; i++)
        if (d->body.at[i]->kind == ST_fn)
            all &= has_run(e, d->body.at[i]->fn);
    if (!all)
        check_names(e, f, d);
}

/* Tests of a file without a model: their sizes are real. */
static void run_tests(Elab *e, FileEnv *f)
{
    const AstDecls *decls = &f->ast->decls;
    for (uint32_t i = 0; i < decls->n; i++)
        if (decls->at[i]->kind == DECL_model)
            return; /* they have been run */
    for (uint32_t i = 0; i < decls->n; i++) {
        if (decls->at[i]->kind != DECL_test)
            continue;
        Model m = {.e = e, .file = f};
        begin_program(e, f, sym_new(e, "test"));
        make_test(&m, decls->at[i]);
    }
}

void check_rest(Elab *e, FileEnv *f)
{
    const AstDecls *decls = &f->ast->decls;
    run_tests(e, f);
    e->guess = true;
    for (uint32_t i = 0; i < decls->n; i++) {
        const AstDecl *d = decls->at[i];
        if (d->kind == DECL_const)
            run_const(e, f, d);
        else if (d->kind == DECL_fn)
            run_function(e, f, d);
        else if (d->kind == DECL_module)
            run_module(e, f, d);
        if (d->kind == DECL_fn || d->kind == DECL_module || d->kind == DECL_optimizer)
            check_unrun(e, f, d);
    }
    e->guess = false;
}
