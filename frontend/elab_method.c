/* elab_method.c: exported methods as graphs: symbols for sizes, inputs, results, commits.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab_program.h"
#include "frontend/hints.h"

#include <string.h>

/* ---- which methods ---- */

/* Whether an axis as written stands for several that nothing names: `...` or a new `*S`. */
static bool is_open(Elab *e, const Env *env, const AstExpr *x)
{
    Value known;
    if (x->kind == EX_ellipsis)
        return !scope_find(env->scope, e->word.ellipsis);
    return x->kind == EX_splat && x->a->kind == EX_name && !lookup_user(e, env, x->a->name, &known);
}

/* The axis of a type that stands for any number of them, or NULL. In a module made on the command
 * line such axes are one axis N. */
static const AstExpr *open_axis(Elab *e, const Fn *fn, const AstType *t)
{
    Env env = {.file = fn->file, .inst = fn->inst};
    for (uint32_t i = 0; !e->o->instantiate && i < t->dims.n; i++)
        if (is_open(e, &env, t->dims.at[i]))
            return t->dims.at[i];
    return NULL;
}

static const AstParam *param_named(const AstFn *ast, Sym name)
{
    for (uint32_t i = 0; i < ast->params.n; i++)
        if (sym_eq(ast->params.at[i].name.sym, name))
            return &ast->params.at[i];
    return NULL;
}

static bool is_result(const AstFn *ast, Sym name)
{
    for (uint32_t i = 0; i < ast->results.n; i++)
        if (sym_eq(ast->results.at[i].name.sym, name))
            return true;
    return false;
}

uint32_t optional_count(const Fn *fn)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < fn->ast->params.n; i++)
        n += fn->ast->params.at[i].initial != NULL;
    return n < MAX_OPTIONAL ? n : MAX_OPTIONAL;
}

Sym variant_name(Elab *e, const Fn *fn, uint32_t absent)
{
    StrBuf b = {.a = e->a};
    sb_puts(&b, sym(e, fn->name));
    uint32_t nth = 0;
    for (uint32_t i = 0; i < fn->ast->params.n; i++) {
        const AstParam *p = &fn->ast->params.at[i];
        if (!p->initial || nth == MAX_OPTIONAL)
            continue;
        if (absent >> nth++ & 1)
            sb_printf(&b, "_without_%s", sym(e, p->name.sym));
    }
    return sym_new(e, sb_text(&b));
}

static const char *why_param(Elab *e, const Fn *fn, const AstParam *p)
{
    const char *name = sym(e, p->name.sym);
    if (!p->type)
        return strcmp(name, "self") == 0 ? "`self` has no type (there is no self: a method's "
                                           "parameters are its arguments)"
                                         : arena_printf(e->a, "`%s` has no type", name);
    const char *word = p->type->kind == TYPE_word ? sym(e, p->type->name.sym) : "";
    const char *hint = hint_for(HINT_type, word, strlen(word));
    if (hint)
        return arena_printf(e->a, "`%s` is no tensor (%s)", name, hint);
    if (p->type->kind != TYPE_tensor)
        return arena_printf(e->a, "`%s` is no tensor (sizes come with the tensors: `x: [N]`)",
                            name);
    const AstExpr *open = open_axis(e, fn, p->type);
    if (!open)
        return NULL;
    const char *axis =
        open->kind == EX_ellipsis ? "..." : arena_printf(e->a, "*%s", sym(e, open->a->name));
    return arena_printf(e->a, "the rank of `%s` is open (`%s`)", name, axis);
}

const char *why_not_exported(Elab *e, const Fn *fn)
{
    const AstFn *ast = fn->ast;
    if (sym(e, fn->name)[0] == '_')
        return "its name begins with `_`";
    for (uint32_t i = 0; i < ast->params.n; i++) {
        const char *why = why_param(e, fn, &ast->params.at[i]);
        if (why)
            return why;
    }
    if (!ast->has_results || ast->results.n == 0)
        return "its results have no types (`-> [B]`)";
    for (uint32_t i = 0; i < ast->results.n; i++) {
        const AstResult *r = &ast->results.at[i];
        const char *name = r->name.sym.id ? sym(e, r->name.sym) : "_";
        if (!r->type && !param_named(ast, r->name.sym))
            return arena_printf(e->a, "the result `%s` has no type", name);
        if (r->type && r->type->kind != TYPE_tensor)
            return r->name.sym.id ? arena_printf(e->a, "the result `%s` is no tensor", name)
                                  : "its result is no tensor";
    }
    return NULL;
}

bool is_exported(Elab *e, const Fn *fn)
{
    return !why_not_exported(e, fn);
}

/* ---- sizes and inputs ---- */

static Value size_value(Model *m, Sym method, Sym name)
{
    Elab *e = m->e;
    for (uint32_t i = 0; i < m->fixed.n; i++)
        if (sym_eq(m->fixed.at[i].name, name))
            return m->fixed.at[i].value;
    for (uint32_t i = 0; i < m->sizes.n; i++)
        if (sym_eq(m->sizes.at[i].method, method) && sym_eq(m->sizes.at[i].name, name))
            return v_dim(e, dim_of(e->dims, m->sizes.at[i].symbol));
    Symbol s = dim_new_symbol(e->dims, SYM_SIZE, name, (Dim){0});
    vec_push(e->a, &m->sizes, ((MethodSize){.method = method, .name = name, .symbol = s}));
    return v_dim(e, dim_of(e->dims, s));
}

void declare_sizes(Model *m, Sym method, const Env *env, const AstType *t)
{
    Elab *e = m->e;
    for (uint32_t i = 0; i < t->dims.n; i++) {
        const AstExpr *x = t->dims.at[i];
        Value known;
        if (is_open(e, env, x)) {
            Value n = size_value(m, method, sym_new(e, "N"));
            Sym name = x->kind == EX_ellipsis ? e->word.ellipsis : x->a->name;
            scope_set(e, env->scope, name, v_list(e, &n, 1), x->at);
            continue;
        }
        if (x->kind != EX_name || lookup_user(e, env, x->name, &known))
            continue;
        const char *s = sym(e, x->name);
        if (s[0] < 'A' || s[0] > 'Z')
            continue; /* type_eval reports it */
        vec_push(e->a, &env->scope->locals,
                 ((Local){.name = x->name,
                          .value = size_value(m, method, x->name),
                          .at = x->at,
                          .is_size = true}));
    }
}

static bool make_inputs(Model *m, Graph *g, const Fn *fn, Args *args)
{
    const uint32_t absent = m->absent;
    uint32_t nth = 0;
    Elab *e = m->e;
    const AstFn *ast = fn->ast;
    Env env = {.file = fn->file, .inst = fn->inst, .scope = scope_push(e, NULL)};
    bool ok = true;
    e->b.place = fn->inst ? fn->inst->place : PLACE_D0;
    for (uint32_t i = 0; i < ast->params.n; i++)
        declare_sizes(m, g->method, &env, ast->params.at[i].type);
    for (uint32_t i = 0; i < ast->params.n; i++) {
        const AstParam *p = &ast->params.at[i];
        TypeInfo t;
        const bool optional = p->initial && nth < MAX_OPTIONAL;
        if (optional && absent >> nth++ & 1)
            continue;
        if (g->kind == GRAPH_STEP && p->initial && !is_result(ast, p->name.sym))
            continue; /* a step computes what has a default */
        const Written *how[MAX_RANK] = {0};
        if (!type_eval(e, &env, p->type, &t, how)) {
            ok = false;
            continue;
        }
        Val v = build_input(&e->b, p->name.sym, type_make(e->p, t));
        written_set(e, v, how, t.rank);
        GraphParam *gp = &vec_last(&g->params);
        gp->optional = optional && !absent && g->kind != GRAPH_STEP;
        gp->wants_grad = dtype_is_float(t.dtype);
        gp->at = p->at;
        gp->doc = p->doc;
        vec_push(e->a, args, ((Arg){.name = p->name, .value = v_tensor(e, v), .at = p->at}));
    }
    e->b.place = PLACE_D0;
    return ok;
}

/* ---- results ---- */

static void one_result(Model *m, Graph *g, const AstFn *ast, uint32_t i, const Value *v)
{
    Elab *e = m->e;
    const AstResult *r = &ast->results.at[i];
    Sym name = r->name.sym.id ? r->name.sym : e->word.out;
    if (v->kind != V_tensor && !is_number(v)) {
        elab_error(e, DIAG_bad_type, r->at,
                   "result '%s' of an exported method must be a tensor, "
                   "not %s",
                   sym(e, name), a_kind(v));
        return;
    }
    Val x = v->kind == V_tensor ? use_val(e, v) : val_as(e, v, e->float_type);
    for (uint32_t k = 0; k < g->params.n; k++) {
        GraphParam *p = &g->params.at[k];
        if (!sym_eq(p->name, name))
            continue;
        x = autocast_back(e, x, val_info(e->p, g, p->val)->dtype);
        if (e->o->gpus)
            x = build_at_place(&e->b, x, val_info(e->p, g, p->val)->place);
        if (val_type(g, p->val).id != val_type(g, x).id)
            elab_error(e, DIAG_shape_mismatch, r->at,
                       "'%s' is updated in place: it cannot change from %s to %s", sym(e, name),
                       type_str(e, p->val), type_str(e, x));
        p->inout = (int32_t)g->results.n;
    }
    graph_result(e->p, g, name, x, r->at);
}

static bool set_results(Model *m, Graph *g, const AstFn *ast, const Value *v)
{
    if (is_poison(v))
        return false;
    if (ast->results.n == 1) {
        one_result(m, g, ast, 0, v);
        return true;
    }
    if (v->kind != V_list || v->list->n != ast->results.n)
        return false;
    for (uint32_t i = 0; i < v->list->n; i++)
        one_result(m, g, ast, i, &v->list->at[i]);
    return true;
}

void commit_states(Elab *e, Graph *g)
{
    for (uint32_t i = 0; i < e->states.n; i++) {
        State *s = e->states.at[i];
        if (s->now_graph == g && s->now.node && !s->is_param)
            graph_commit(e->p, g, e->p->state.at[s->view - 1].slot, s->now);
        s->now = (Val){0, 0};
        s->now_graph = NULL;
    }
    if (!e->drew)
        return;
    Val calls = build_state(&e->b, e->calls_slot);
    Val one = build_const_int(&e->b, DT_u64, 1);
    graph_commit(e->p, g, e->calls_slot, build2(&e->b, OP_add, calls, one));
    e->drew = false;
}

/* ---- tracing ---- */

Graph *begin_trace(Model *m, Sym name, Sym method, GraphKind kind, bool training)
{
    Elab *e = m->e;
    Graph *g = program_add_graph(e->p, name, kind);
    g->method = method;
    e->b.place = PLACE_D0;
    e->b = elab_builder(e, g);
    e->entry = g;
    e->training = training;
    e->drew = false;
    e->capture = NULL;
    const char *called = sym(e, method);
    e->root_frame = (Frame){.name = called,
                            .chain = hash_bytes(HASH_START, called, strlen(called)),
                            .inst = e->root,
                            .file = m->file,
                            .scope = g,
                            .inside = true};
    e->frame = &e->root_frame;
    e->depth = 0;
    e->float_type = e->base_float;
    return g;
}

void end_trace(Model *m, Graph *g)
{
    (void)g;
    m->e->entry = NULL;
    m->e->training = false;
}

bool trace_body(Model *m, Graph *g, Fn *fn, const Train *t)
{
    Elab *e = m->e;
    Args args = {0};
    g->at = fn->ast->at;
    g->doc = fn->ast->doc;
    if (!make_inputs(m, g, fn, &args))
        return false;
    e->amp = e->as_f64 ? DT_none : e->o->amp;
    Value v = t && t->micro > 1 ? call_in_slices(e, g, t, &args) : call_fn(e, fn, &args, (Span){0});
    e->amp = DT_none;
    return set_results(m, g, fn->ast, &v);
}

Graph *trace_method(Model *m, Fn *fn, GraphKind kind, uint32_t absent, bool training)
{
    Elab *e = m->e;
    int before = diag_errors(e->diags);
    Sym name = variant_name(e, fn, absent);
    Graph *g = begin_trace(m, name, name, kind, training);
    m->absent = absent;
    bool ok = trace_body(m, g, fn, NULL) && diag_errors(e->diags) == before;
    m->absent = 0;
    commit_states(e, g);
    end_trace(m, g);
    return ok ? g : NULL;
}
