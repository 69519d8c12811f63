/* elab_call.c: calls: arguments to parameters, bodies, results. SPDX-License-Identifier: MIT */
#include "frontend/elab.h"
#include "frontend/hints.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CALLS = 256 };

/* ---- frames ---- */

void push_frame(Elab *e, Frame *f, const char *name, Span call_at, Span def_at, Sym path)
{
    uint64_t chain = HASH_START;
    if (e->frame) {
        Sym s = sym_new(e, name);
        uint32_t ordinal = 0;
        for (uint32_t i = 0; i < e->frame->called.n; i++)
            ordinal += sym_eq(e->frame->called.at[i], s);
        vec_push(e->a, &e->frame->called, s);
        chain = hash_bytes(e->frame->chain, &ordinal, sizeof ordinal);
    }
    chain = hash_bytes(chain, name, strlen(name));
    *f = (Frame){.up = e->frame,
                 .name = name,
                 .call_at = call_at,
                 .def_at = def_at,
                 .chain = chain,
                 .path = path};
    e->frame = f;
    e->depth++;
}

void pop_frame(Elab *e)
{
    e->frame = e->frame->up;
    e->depth--;
}

/* ---- binding ---- */

static int find_param(const AstParams *params, Sym name)
{
    for (uint32_t i = 0; i < params->n; i++)
        if (sym_eq(params->at[i].name.sym, name))
            return (int)i;
    return -1;
}

/* The parameter that an argument names: `dim` and `axis` are one word, unless there are both. */
static int find_named(const Elab *e, const AstParams *params, Sym name)
{
    int i = find_param(params, name);
    if (i < 0 && sym_eq(name, e->word.dim))
        i = find_param(params, e->word.axis);
    if (i < 0 && sym_eq(name, e->word.axis))
        i = find_param(params, e->word.dim);
    return i;
}

static void note_definition(Elab *e, Diag *d, const char *who, Span def_at)
{
    if (def_at.file)
        elab_note(e, d, def_at, "%s is declared here", who);
}

/* Whether `brief` holds the first letters of the words in `name`: lr, learning_rate. */
static bool abbreviates(const char *brief, const char *name)
{
    for (bool is_first = true; *name; name++) {
        if (is_first && *name != '_' && *brief++ != *name)
            return false;
        is_first = *name == '_';
    }
    return !*brief;
}

static void unknown_param(Elab *e, const char *who, Span def_at, const AstParams *params,
                          const Arg *a)
{
    Diag *d = elab_error(e, DIAG_bad_call, a->name.at, "%s has no parameter '%s'", who,
                         sym(e, a->name.sym));
    VEC(const char *) words = {0};
    for (uint32_t i = 0; i < params->n; i++)
        vec_push(e->a, &words, sym(e, params->at[i].name.sym));
    const char *near = diag_nearest(sym(e, a->name.sym), words.at, (int)words.n);
    for (uint32_t i = 0; !near && i < words.n; i++)
        if (words.at[i][0] && words.at[i][1] && abbreviates(words.at[i], sym(e, a->name.sym)))
            near = words.at[i];
    if (near) {
        diag_note(e->diags, d, (Span){0}, "did you mean '%s'?", near);
        diag_fix(e->diags, d, a->name.at, "%s", near);
    }
    note_definition(e, d, who, def_at);
}

bool bind_args(Elab *e, const char *who, Span def_at, const AstParams *params, const Args *args,
               Span at, Value *value, Span *value_at)
{
    bool ok = true;
    uint32_t npos = 0;
    for (uint32_t i = 0; i < params->n; i++) {
        value[i] = (Value){.kind = V_unset};
        value_at[i] = at;
    }
    for (uint32_t i = 0; i < args->n; i++) {
        const Arg *a = &args->at[i];
        int k = a->name.sym.id ? find_named(e, params, a->name.sym) : (int)npos++;
        if (a->name.sym.id && k < 0) {
            unknown_param(e, who, def_at, params, a);
            ok = false;
        } else if (!a->name.sym.id && npos > params->n) {
            if (npos == params->n + 1) {
                Diag *d = elab_error(e, DIAG_bad_call, a->at, "%s takes %u argument%s", who,
                                     params->n, params->n == 1 ? "" : "s");
                note_definition(e, d, who, def_at);
            }
            ok = false;
        } else if (value[k].kind != V_unset) {
            elab_error(e, DIAG_bad_call, a->at, "%s: '%s' is given twice", who,
                       sym(e, params->at[k].name.sym));
            ok = false;
        } else {
            value[k] = a->value;
            value_at[k] = a->at;
        }
    }
    for (uint32_t i = 0; i < params->n; i++)
        if (value[i].kind == V_unset && !params->at[i].initial) {
            if (ok) {
                Diag *d = elab_error(e, DIAG_bad_call, at, "%s: argument '%s' is missing", who,
                                     sym(e, params->at[i].name.sym));
                note_definition(e, d, who, params->at[i].at);
            }
            ok = false;
        }
    return ok;
}

/* ---- functions ---- */

typedef struct {
    Val v;
    const Written *const *axes;
} TextOfArg;

typedef struct {
    Fn *fn;
    const char *who;
    Span at;
    Env env;
    Value *value;
    Span *value_at;
    Sizes sizes;
    VEC(TextOfArg) texts; /* of tensor arguments, as the caller has them */
} FnCall;

static bool word_fits(const char *want, const Value *v)
{
    if (strcmp(want, "int") == 0 || strcmp(want, "dim") == 0)
        return v->kind == V_int || v->kind == V_size ||
               (v->kind == V_late && strcmp(want, "int") == 0);
    if (strcmp(want, "float") == 0)
        return is_number(v);
    if (strcmp(want, "fn") == 0)
        return is_callable(v) || v->kind == V_list;
    if (strcmp(want, "module") == 0)
        return v->kind == V_instance || v->kind == V_module || holds_instance(v);
    if (strcmp(want, "device") == 0)
        return v->kind == V_device;
    return strcmp(want, value_kind(v)) == 0;
}

bool config_fits(Elab *e, const char *who, const AstParam *p, Value *v, Span at)
{
    if (!p->type || is_poison(v) || v->kind == V_none)
        return true;
    if (p->type->kind == TYPE_word) {
        const char *want = sym(e, p->type->name.sym);
        if (word_fits(want, v)) {
            if (strcmp(want, "float") == 0 && v->kind == V_int)
                *v = v_float((double)v->i);
            return true;
        }
        Diag *d = elab_error(e, DIAG_bad_type, at, "%s: '%s' must be %s, not %s (%s)", who,
                             sym(e, p->name.sym), want, value_kind(v), value_text(e, v));
        hint_note(e->diags, d, HINT_type, want);
        elab_note(e, d, p->at, "declared here");
        return false;
    }
    return true;
}

static const char *arg_what(Elab *e, const FnCall *c, uint32_t i)
{
    return arena_printf(e->a, "%s: '%s'", c->who, sym(e, c->fn->ast->params.at[i].name.sym));
}

/* A number for a tensor parameter becomes a 0-d tensor of the declared type. */
static bool as_tensor_arg(Elab *e, const FnCall *c, uint32_t i, const AstType *t)
{
    Value *v = &c->value[i];
    if (v->kind == V_tensor)
        return true;
    if (is_number(v) || v->kind == V_bool) {
        DType to = v->kind == V_bool ? DT_bool : e->float_type;
        if (t->is_dtype)
            to = dtype_named(e, sym(e, t->name.sym));
        else if (t->name.sym.id && strcmp(sym(e, t->name.sym), "int") == 0)
            to = DT_i64;
        bool whole = v->kind == V_int || v->kind == V_size || v->kind == V_bool ||
                     (v->kind == V_late && value_type(e, v)->dtype != DT_f64);
        if (!whole && !dtype_is_float(to)) {
            elab_error(e, DIAG_bad_type, c->value_at[i], "%s must be an integer, not a float",
                       arg_what(e, c, i));
            return false;
        }
        *v = v_tensor(e, val_as(e, v, to));
        return true;
    }
    Diag *d = elab_error(e, DIAG_bad_type, c->value_at[i], "%s must be a tensor, not %s",
                         arg_what(e, c, i), a_kind(v));
    elab_note(e, d, c->fn->ast->params.at[i].at, "declared here");
    return false;
}

static bool is_tensor_type(const AstType *t)
{
    return t && t->kind == TYPE_tensor;
}

/* What types that use other arguments need: words first, then sizes of tensors. */
static bool bind_sizes(Elab *e, FnCall *c)
{
    const AstParams *params = &c->fn->ast->params;
    Scope *scope = c->env.scope;
    bool ok = true;
    for (uint32_t i = 0; i < params->n; i++) {
        const AstParam *p = &params->at[i];
        if (is_tensor_type(p->type) || c->value[i].kind == V_unset)
            continue;
        ok &= config_fits(e, c->who, p, &c->value[i], c->value_at[i]);
        scope_set(e, scope, p->name.sym, c->value[i], p->name.at);
    }
    for (uint32_t i = 0; ok && i < params->n; i++) {
        const AstParam *p = &params->at[i];
        Value *v = &c->value[i];
        if (!is_tensor_type(p->type) || v->kind == V_unset || v->kind == V_none)
            continue;
        ok = as_tensor_arg(e, c, i, p->type) &&
             type_bind(e, &c->env, p->type, arg_what(e, c, i), c->value_at[i], use_val(e, v),
                       &c->sizes, true);
    }
    for (uint32_t i = 0; i < c->sizes.n; i++) {
        const SizeBinding *s = &c->sizes.at[i];
        vec_push(e->a, &scope->locals,
                 ((Local){.name = s->name, .value = s->value, .at = s->at, .is_size = true}));
    }
    return ok;
}

static bool default_value(Elab *e, FnCall *c, uint32_t i)
{
    const AstParam *p = &c->fn->ast->params.at[i];
    Value v = eval(e, &c->env, p->initial);
    c->value[i] = v;
    c->value_at[i] = p->initial->at;
    if (is_poison(&v))
        return false;
    if (is_tensor_type(p->type) && v.kind != V_none) {
        TypeInfo t;
        Val x;
        const Written *how[MAX_RANK] = {0};
        if (!type_eval(e, &c->env, p->type, &t, how) ||
            !initial_value(e, &v, &t, how, p->initial->at, &x))
            return false;
        c->value[i] = v_tensor(e, x);
        return true;
    }
    return config_fits(e, c->who, p, &c->value[i], c->value_at[i]);
}

static void clash(Elab *e, const FnCall *c, Sym name, Span at, const char *what)
{
    Span old = {0};
    Env outer = {.file = c->env.file, .inst = c->env.inst};
    if (!name.id || !name_declared(e, &outer, name, &old))
        return;
    Diag *d = diag_report(e->diags, DIAG_duplicate_name, at, "%s '%s' of %s hides another name",
                          what, sym(e, name), c->who);
    elab_note(e, d, old, "the other one is here");
    if (strcmp(what, "result") == 0)
        diag_note(e->diags, d, (Span){0}, "only %s itself may have a result of this name",
                  sym(e, name));
}

/* Arguments, sizes and defaults into the scope; types checked. */
static bool enter(Elab *e, FnCall *c)
{
    const AstParams *params = &c->fn->ast->params;
    if (!bind_sizes(e, c))
        return false;
    bool ok = true;
    for (uint32_t i = 0; ok && i < params->n; i++) {
        const AstParam *p = &params->at[i];
        clash(e, c, p->name.sym, p->name.at, "argument");
        if (c->value[i].kind == V_unset)
            ok = default_value(e, c, i);
        scope_set(e, c->env.scope, p->name.sym, c->value[i], p->name.at);
    }
    for (uint32_t i = 0; ok && i < params->n; i++) {
        if (!is_tensor_type(params->at[i].type) || c->value[i].kind != V_tensor)
            continue;
        const Val v = use_val(e, &c->value[i]);
        vec_push(e->a, &c->texts, ((TextOfArg){v, written_get(e, v)}));
        ok = type_check(e, &c->env, params->at[i].type, arg_what(e, c, i), c->value_at[i], v,
                        &c->sizes);
    }
    e->frame->inside = true;
    return ok;
}

static void declare_results(Elab *e, FnCall *c)
{
    const AstFn *ast = c->fn->ast;
    for (uint32_t i = 0; i < ast->results.n; i++) {
        Sym name = ast->results.at[i].name.sym;
        if (!name.id || find_param(&ast->params, name) >= 0)
            continue;
        if (!sym_eq(name, ast->name.sym))
            clash(e, c, name, ast->results.at[i].name.at, "result");
        vec_push(
            e->a, &c->env.scope->locals,
            ((Local){.name = name, .value = {.kind = V_unset}, .at = ast->results.at[i].name.at}));
    }
}

/* The values of named results that were assigned. */
static bool assigned_results(Elab *e, const FnCall *c, Body *b)
{
    const AstResults *r = &c->fn->ast->results;
    for (uint32_t i = 0; i < r->n; i++) {
        const Local *l = r->at[i].name.sym.id ? scope_find(c->env.scope, r->at[i].name.sym) : NULL;
        if (!l || l->value.kind == V_unset) {
            elab_error(e, DIAG_bad_call, c->fn->ast->results_at,
                       l ? "%s: result '%s' gets no value" : "%s returns nothing%s", c->who,
                       l ? sym(e, r->at[i].name.sym) : "");
            return false;
        }
        vec_push(e->a, &b->values, l->value);
        vec_push(e->a, &b->at, l->set_at.file ? l->set_at : r->at[i].at);
    }
    return true;
}

/* Results may refer to sizes and arguments; the locals of the body are not seen. */
static bool check_result(Elab *e, const FnCall *c, const AstResult *r, const Env *env, Value *v,
                         Span at)
{
    if (!r->type || is_poison(v))
        return true;
    const char *what = r->name.sym.id
                           ? arena_printf(e->a, "%s: result '%s'", c->who, sym(e, r->name.sym))
                           : arena_printf(e->a, "the result of %s", c->who);
    if (r->type->kind == TYPE_word) {
        if (word_fits(sym(e, r->type->name.sym), v))
            return true;
        elab_error(e, DIAG_bad_type, at, "%s must be %s, not %s", what, sym(e, r->type->name.sym),
                   value_kind(v));
        return false;
    }
    if (r->type->kind != TYPE_tensor)
        return true;
    if (is_number(v) && r->type->dims.n == 0) /* a number where a 0-d tensor is expected */
        *v = v_tensor(e, val_as(e, v,
                                r->type->is_dtype ? dtype_named(e, sym(e, r->type->name.sym))
                                                  : e->float_type));
    if (v->kind != V_tensor) {
        elab_error(e, DIAG_bad_type, at, "%s must be a tensor, not %s", what, a_kind(v));
        return false;
    }
    Sizes sizes = c->sizes;
    Val x = use_val(e, v);
    TypeInfo declared;
    if (e->o->amp && c->fn->inst == e->root && e->frame->up == &e->root_frame &&
        e->b.g == e->entry && type_eval(e, env, r->type, &declared, NULL)) {
        x = autocast_back(e, x, declared.dtype);
        *v = v_tensor(e, x);
    }
    return type_bind(e, env, r->type, what, at, x, &sizes, false) &&
           type_check(e, env, r->type, what, at, x, &sizes);
}

static bool leave(Elab *e, FnCall *c, const Scope *entry, Body *b, Value *out)
{
    const AstFn *ast = c->fn->ast;
    if (!b->returned && ast->results.n && !assigned_results(e, c, b))
        return false;
    /* `return f(x)` of a list, where several results are declared or none */
    if (b->returned && b->values.n == 1 && b->values.at[0].kind == V_list && ast->results.n > 1) {
        Value list = b->values.at[0];
        Span at = b->at.at[0];
        b->values.n = b->at.n = 0;
        for (uint32_t i = 0; i < list.list->n; i++) {
            vec_push(e->a, &b->values, list.list->at[i]);
            vec_push(e->a, &b->at, at);
        }
    }
    uint32_t n = b->values.n;
    bool ok = true, named = false;
    for (uint32_t i = 0; i < n; i++)
        ok &= !is_poison(&b->values.at[i]);
    if (!ok && n == 1)
        return false; /* perhaps a list that could not be made: not counted */
    if (ast->results.n && n != ast->results.n) {
        Diag *d = elab_error(e, DIAG_unpack, b->returned ? b->return_at : ast->results_at,
                             "%s gives %u value%s, declared are %u", c->who, n, n == 1 ? "" : "s",
                             ast->results.n);
        elab_note(e, d, ast->results_at, "declared here");
        return false;
    }
    Scope *types = scope_push(e, c->fn->scope);
    types->locals.at = entry->locals.at;
    types->locals.n = types->locals.cap = entry->locals.n;
    Env env = c->env;
    env.scope = types;
    Sym *names = arena_array(e->a, Sym, n);
    for (uint32_t i = 0; i < ast->results.n; i++) {
        ok &= check_result(e, c, &ast->results.at[i], &env, &b->values.at[i], b->at.at[i]);
        names[i] = ast->results.at[i].name.sym;
        named |= names[i].id != 0;
        if (names[i].id && b->values.at[i].kind == V_tensor)
            val_hint(&e->b, use_val(e, &b->values.at[i]), names[i]);
    }
    if (n == 1) {
        *out = b->values.at[0];
        return ok;
    }
    *out = n ? v_list(e, b->values.at, n) : v_none();
    if (n && named) {
        List *l = arena_new(e->a, List);
        *l = (List){.at = out->list->at, .n = n, .names = names};
        out->list = l;
    }
    return ok;
}

/* The caller's names for the sizes of its tensors are valid again. */
static void give_back(Elab *e, const FnCall *c)
{
    for (uint32_t i = c->texts.n; i-- > 0;)
        written_restore(e, c->texts.at[i].v, c->texts.at[i].axes);
}

static Value run_body(Elab *e, FnCall *c)
{
    const AstFn *ast = c->fn->ast;
    if (ast->has_grad || ast->extern_c)
        return call_custom(e, c->fn, &c->env, c->value, c->at);
    Scope entry = {0}; /* arguments and sizes as they came in */
    for (uint32_t i = 0; i < c->env.scope->locals.n; i++)
        vec_push(e->a, &entry.locals, c->env.scope->locals.at[i]);
    declare_results(e, c);
    Body body = {0};
    run_block(e, &c->env, &ast->body, &body);
    Value out = v_poison();
    if (!leave(e, c, &entry, &body, &out))
        return v_poison();
    return out;
}

static Value run_fn(Elab *e, FnCall *c)
{
    Value out = enter(e, c) ? run_body(e, c) : v_poison();
    give_back(e, c);
    return out;
}

static const char *fn_name(Elab *e, const Fn *fn)
{
    const char *name = fn->name.id ? sym(e, fn->name) : "fn";
    if (fn->inst && fn->name.id)
        return arena_printf(e->a, "%s.%s", sym(e, fn->inst->module->decl->name.sym), name);
    return name;
}

/* Takes `training = B` out of the arguments, where the function has no such parameter. */
static bool take_training(Elab *e, const Args *args, Args *rest, bool *value)
{
    bool found = false;
    for (uint32_t i = 0; i < args->n; i++) {
        const Arg *a = &args->at[i];
        if (!sym_eq(a->name.sym, e->word.training)) {
            vec_push(e->a, rest, *a);
            continue;
        }
        found = true;
        if (a->value.kind == V_bool)
            *value = a->value.i != 0;
        else if (!is_poison(&a->value))
            elab_error(e, DIAG_bad_type, a->at, "'training' must be true or false");
    }
    return found;
}

Value call_fn(Elab *e, Fn *fn, const Args *args, Span at)
{
    const AstFn *ast = fn->ast;
    if (e->depth >= MAX_CALLS) {
        elab_error(e, DIAG_recursion, at, "calls are nested more than %d deep", MAX_CALLS);
        return v_poison();
    }
    Args rest = {0};
    bool outer_training = e->training, training = e->training;
    if (find_param(&ast->params, e->word.training) < 0 &&
        take_training(e, args, &rest, &training)) {
        args = &rest;
        e->training = training;
    }
    FnCall c = {.fn = fn, .who = fn_name(e, fn), .at = at};
    c.value = arena_array(e->a, Value, ast->params.n);
    c.value_at = arena_array(e->a, Span, ast->params.n);
    c.env = (Env){.file = fn->file,
                  .inst = fn->inst,
                  .scope = scope_push(e, fn->scope),
                  .models = fn->models};
    Value out = v_poison();
    Span def_at =
        ast->name.sym.id ? ast->name.at : (Span){ast->at.file, ast->at.start, ast->at.start + 2};
    if (bind_args(e, c.who, def_at, &ast->params, args, at, c.value, c.value_at)) {
        Frame frame;
        Sym path = fn->inst && fn->inst->named ? fn->inst->path : e->b.site.path;
        Sym outer_path = e->b.site.path;
        DType outer_float = e->float_type;
        if (e->o->check && !fn->file->is_std && !has_run(e, ast))
            vec_push(e->a, &e->ran, ast);
        push_frame(e, &frame, c.who, at, def_at, path);
        frame.inst = fn->inst;
        frame.file = fn->file;
        frame.scope = c.env.scope;
        e->b.site.path = path;
        if (fn->inst && !e->as_f64)
            e->float_type = fn->inst->dtype;
        const DType outer_amp = e->amp;
        if (fn->file == e->prelude) {
            autocast(e, c.who, c.value, ast->params.n);
            e->amp = DT_none;
        } else if (e->b.g->kind == GRAPH_TEST && fn->inst && !e->as_f64) {
            e->amp = e->o->amp;
        }
        const Place outer_place = e->b.place;
        enter_instance(e, fn->inst, c.value, ast->params.n);
        out = run_fn(e, &c);
        e->b.place = outer_place;
        e->amp = outer_amp;
        e->float_type = outer_float;
        e->b.site.path = outer_path;
        pop_frame(e);
    }
    e->training = outer_training;
    return out;
}

/* ---- builtins ---- */

const Builtin *find_builtin(Elab *e, Sym name)
{
    static const Builtin rows[] = {
#define BUILTIN(name, fn, op, params, doc) {#name, builtin_##fn, op, params},
#include "frontend/builtins.def"
#undef BUILTIN
    };
    const char *s = sym(e, name);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, s) == 0)
            return &rows[i];
    return NULL;
}

typedef struct {
    const char *name;
    size_t n;
    bool rest;
    const char *initial; /* NULL: needed */
    size_t ninitial;
} RowParam;

static uint32_t row_params(const char *p, RowParam *out)
{
    uint32_t n = 0;
    while (*p) {
        CHECK(n < 16);
        RowParam *r = &out[n++];
        *r = (RowParam){.rest = *p == '*'};
        p += r->rest;
        r->name = p;
        r->n = strcspn(p, " =");
        p += r->n;
        if (*p == '=') {
            r->initial = ++p;
            r->ninitial = strcspn(p, " ");
            p += r->ninitial;
        }
        p += *p == ' ';
    }
    return n;
}

static Value row_default(Elab *e, const RowParam *p)
{
    const char *s = arena_strndup(e->a, p->initial, p->ninitial);
    if (strcmp(s, "none") == 0)
        return v_none();
    if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0)
        return v_bool(*s == 't');
    if (*s == '"')
        return v_string(arena_strndup(e->a, s + 1, strlen(s) - 2));
    if (strpbrk(s, ".e"))
        return v_float(strtod(s, NULL));
    return v_int(strtoll(s, NULL, 10));
}

static bool row_named(Elab *e, const RowParam *p, Sym name)
{
    const char *s = sym(e, name);
    if (strlen(s) == p->n && memcmp(s, p->name, p->n) == 0)
        return true;
    return sym_eq(name, e->word.dim) && p->n == 4 && memcmp(p->name, "axis", 4) == 0;
}

/* Which parameter an argument belongs to, or -1 after a message. */
static int row_place(Elab *e, const Builtin *b, const RowParam *p, uint32_t n, const Arg *a,
                     uint32_t *npos)
{
    if (!a->name.sym.id) {
        if (*npos < n && p[*npos].rest)
            return (int)*npos;
        bool after_rest = *npos > 0 && p[*npos - 1].rest;
        if (*npos < n && !after_rest)
            return (int)(*npos)++;
        elab_error(e, DIAG_bad_call, a->at, "%s takes at most %u argument%s", b->name, n,
                   n == 1 ? "" : "s");
        return -1;
    }
    for (uint32_t i = 0; i < n; i++)
        if (row_named(e, &p[i], a->name.sym))
            return (int)i;
    Diag *d = elab_error(e, DIAG_bad_call, a->name.at, "%s has no parameter '%s'", b->name,
                         sym(e, a->name.sym));
    diag_note(e->diags, d, (Span){0}, "its parameters are: %s", b->params);
    return -1;
}

Value call_builtin(Elab *e, const Env *env, const Builtin *b, const Args *args, Span at)
{
    RowParam p[16];
    Value value[16];
    Span value_at[16];
    Values rest = {0};
    uint32_t n = row_params(b->params, p), npos = 0;
    for (uint32_t i = 0; i < n; i++) {
        value[i] = (Value){.kind = V_unset};
        value_at[i] = at;
    }
    for (uint32_t i = 0; i < args->n; i++) {
        const Arg *a = &args->at[i];
        if (is_poison(&a->value))
            return v_poison();
        int k = row_place(e, b, p, n, a, &npos);
        if (k < 0)
            return v_poison();
        if (p[k].rest && !a->name.sym.id) {
            value_at[k] = rest.n ? span_join(value_at[k], a->at) : a->at;
            vec_push(e->a, &rest, a->value);
            value[k] = v_list(e, rest.at, rest.n);
            continue;
        }
        if (value[k].kind != V_unset) {
            elab_error(e, DIAG_bad_call, a->at, "%s: '%.*s' is given twice", b->name, (int)p[k].n,
                       p[k].name);
            return v_poison();
        }
        value[k] = p[k].rest && a->value.kind != V_list ? v_list(e, &a->value, 1) : a->value;
        value_at[k] = a->at;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (value[i].kind != V_unset)
            continue;
        if (p[i].rest) {
            value[i] = v_list(e, NULL, 0);
        } else if (p[i].initial) {
            value[i] = row_default(e, &p[i]);
        } else {
            elab_error(e, DIAG_bad_call, at, "%s: argument '%.*s' is missing", b->name, (int)p[i].n,
                       p[i].name);
            return v_poison();
        }
    }
    autocast(e, b->name, value, n);
    Call c = {.row = b, .at = at, .arg = value, .arg_at = value_at, .n = n, .env = env};
    Value out = v_poison();
    const DType amp = e->amp;
    const bool calls_back = b->op == 0; /* `grad`, `functional_call` run the user's functions */
    e->amp = calls_back ? amp : DT_none;
    const bool good = b->fn(e, &c, &out);
    e->amp = amp;
    return good ? out : v_poison();
}

/* ---- any value ---- */

static Value call_list(Elab *e, const Env *env, const Value *f, const Args *args, Span at)
{
    Args rest = {0};
    bool outer = e->training, training = outer;
    take_training(e, args, &rest, &training);
    if (rest.n != 1 || rest.at[0].name.sym.id) {
        elab_error(e, DIAG_bad_call, at, "a list of modules and functions takes one argument");
        return v_poison();
    }
    e->training = training;
    Value *x = &rest.at[0].value;
    const char *element = e->element;
    for (uint32_t i = 0; i < f->list->n && !is_poison(x); i++) {
        e->element = f->list->n > 1 ? element_text(e, f, i) : element;
        *x = call_value(e, env, &f->list->at[i], &rest, at, at);
    }
    e->element = element;
    e->training = outer;
    return *x;
}

static Value call_instance(Elab *e, const Value *f, const Args *args, Span at)
{
    Member *m = member_find(f->inst, e->word.forward);
    if (!m || m->kind != MEMBER_fn) {
        Diag *d = elab_error(e, DIAG_bad_call, at, "%s has no method 'forward'", value_text(e, f));
        elab_note(e, d, f->inst->module->decl->name.at, "declared here");
        return v_poison();
    }
    return call_fn(e, m->value.fn, args, at);
}

static Value call_optimizer(Elab *e, const ModuleRef *m, const Args *args, Span at)
{
    const AstDecl *d = m->decl;
    Optim *o = arena_new(e->a, Optim);
    o->module = m;
    o->at = at;
    o->config = arena_array(e->a, Value, d->params.n);
    Span *value_at = arena_array(e->a, Span, d->params.n);
    const char *who = sym(e, d->name.sym);
    if (!bind_args(e, who, d->name.at, &d->params, args, at, o->config, value_at))
        return v_poison();
    Env env = {.file = m->file, .scope = scope_push(e, NULL)};
    for (uint32_t i = 0; i < d->params.n; i++) {
        const AstParam *p = &d->params.at[i];
        if (o->config[i].kind == V_unset)
            o->config[i] = eval(e, &env, p->initial);
        if (!config_fits(e, who, p, &o->config[i], value_at[i]))
            return v_poison();
        scope_set(e, env.scope, p->name.sym, o->config[i], p->name.at);
    }
    return (Value){.kind = V_optimizer, .optim = o};
}

Value call_value(Elab *e, const Env *env, const Value *f, const Args *args, Span at, Span name_at)
{
    switch (f->kind) {
    case V_poison:
        return v_poison();
    case V_fn:
        return call_fn(e, f->fn, args, at);
    case V_builtin:
        return call_builtin(e, env, f->builtin, args, at);
    case V_instance:
        return call_instance(e, f, args, at);
    case V_list:
        return call_list(e, env, f, args, at);
    case V_module:
        return f->module->decl->kind == DECL_optimizer ? call_optimizer(e, f->module, args, at)
                                                       : make_instance(e, env, f->module, args, at);
    case V_device:
        if (f->i == 0 && args->n == 1 && args->at[0].value.kind == V_int)
            return gpu_numbered(e, args->at[0].value.i, args->at[0].at);
        break;
    default:
        break;
    }
    elab_error(e, DIAG_bad_call, name_at, "%s cannot be called", a_kind(f));
    return v_poison();
}

Value call1(Elab *e, const Value *f, Value arg, Span at)
{
    Args args = {0};
    vec_push(e->a, &args, ((Arg){.value = arg, .at = at}));
    Env env = {0};
    return call_value(e, &env, f, &args, at, at);
}
