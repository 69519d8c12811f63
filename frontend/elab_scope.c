/* elab_scope.c: names: scopes of functions, members, declarations of a file, the prelude.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"
#include "frontend/hints.h"

#include <string.h>

Scope *scope_push(Elab *e, Scope *up)
{
    Scope *s = arena_new(e->a, Scope);
    s->up = up;
    return s;
}

static Local *find_here(const Scope *s, Sym name)
{
    for (uint32_t i = s->locals.n; i-- > 0;)
        if (sym_eq(s->locals.at[i].name, name))
            return &s->locals.at[i];
    return NULL;
}

Local *scope_find(const Scope *s, Sym name)
{
    for (; s; s = s->up) {
        Local *l = find_here(s, name);
        if (l)
            return l;
    }
    return NULL;
}

void scope_set(Elab *e, Scope *s, Sym name, Value v, Span at)
{
    Local *l = find_here(s, name);
    if (l) {
        l->value = v;
        return;
    }
    vec_push(e->a, &s->locals, ((Local){.name = name, .value = v, .at = at}));
}

Scope *scope_capture(Elab *e, const Scope *s)
{
    if (!s)
        return NULL;
    Scope *out = scope_push(e, NULL);
    for (; s; s = s->up)
        for (uint32_t i = s->locals.n; i-- > 0;)
            if (!find_here(out, s->locals.at[i].name))
                vec_push(e->a, &out->locals, s->locals.at[i]);
    return out;
}

Global *file_find(FileEnv *f, Sym name)
{
    for (uint32_t i = 0; i < f->globals.n; i++)
        if (sym_eq(f->globals.at[i].name, name))
            return &f->globals.at[i];
    return NULL;
}

bool name_declared(Elab *e, const Env *env, Sym name, Span *at)
{
    (void)e;
    const Local *l = scope_find(env->scope, name);
    if (l) {
        *at = l->at;
        return true;
    }
    const Member *m = env->inst ? member_find(env->inst, name) : NULL;
    if (m) {
        *at = m->at;
        return true;
    }
    /* anything may hide the prelude, its own parameters too */
    const Global *g = env->file == e->prelude ? NULL : file_find(env->file, name);
    if (g) {
        *at = g->decl->name.at.file ? g->decl->name.at : g->decl->at;
        return true;
    }
    return false;
}

bool scope_declare(Elab *e, const Env *env, Sym name, Value v, Span at)
{
    if (sym_eq(name, e->word.underscore))
        return true;
    Span old = {0};
    if (name_declared(e, env, name, &old)) {
        Diag *d = elab_error(e, DIAG_duplicate_name, at, "'%s' already names something here",
                             sym(e, name));
        if (old.file)
            elab_note(e, d, old, "the other one is here");
        scope_set(e, env->scope, name, v, at);
        return false;
    }
    scope_set(e, env->scope, name, v, at);
    return true;
}

/* ---- looking up ---- */

Value global_value(Elab *e, FileEnv *f, Global *g)
{
    if (g->lazy == LAZY_no)
        return g->value;
    if (g->lazy == LAZY_running) {
        elab_error(e, DIAG_recursion, g->decl->at, "the value of '%s' depends on itself",
                   sym(e, g->name));
        return v_poison();
    }
    g->lazy = LAZY_running;
    Env env = {.file = f};
    Value v = eval(e, &env, g->decl->value);
    /* a tensor belongs to the graph being traced: made again where it is read */
    bool is_static = v.kind != V_tensor && v.kind != V_late;
    if (v.kind == V_list)
        for (uint32_t i = 0; i < v.list->n; i++)
            is_static &= v.list->at[i].kind != V_tensor && v.list->at[i].kind != V_list;
    if (v.kind == V_instance) {
        elab_error(e, DIAG_misplaced, g->decl->at, "a module is made in a `model` or a module");
        v = v_poison();
    }
    g->lazy = is_static ? LAZY_no : LAZY_waiting;
    g->value = v;
    return v;
}

static bool lookup_model(Elab *e, Sym name, Value *out)
{
    if (!e->root || !e->p)
        return false;
    if (!e->root->module) { /* the program of tests that name several models */
        const Member *m = member_find(e->root, name);
        if (m)
            *out = m->value;
        return m != NULL;
    }
    if (!sym_eq(e->p->name, name))
        return false;
    *out = (Value){.kind = V_instance, .inst = e->root};
    return true;
}

bool lookup_user(Elab *e, const Env *env, Sym name, Value *out)
{
    const Local *l = scope_find(env->scope, name);
    if (l) {
        *out = written_name(e, l->value, name, written_scope(e));
        return true;
    }
    Member *m = env->inst ? member_find(env->inst, name) : NULL;
    if (m) {
        *out = written_name(e, member_value(e, env->inst, m, m->at), name, env->inst);
        return true;
    }
    Global *g = env->file ? file_find(env->file, name) : NULL;
    if (g) {
        *out = written_name(e, global_value(e, env->file, g), name, env->file);
        return true;
    }
    return env->models && lookup_model(e, name, out);
}

static bool lookup_prelude(Elab *e, Sym name, Value *out)
{
    if (sym_eq(name, e->word.training)) {
        *out = v_bool(e->training);
        return true;
    }
    Global *g = e->prelude ? file_find(e->prelude, name) : NULL;
    if (g) {
        *out = global_value(e, e->prelude, g);
        return true;
    }
    const Builtin *b = find_builtin(e, name);
    if (!b)
        return false;
    *out = (Value){.kind = V_builtin, .builtin = b};
    return true;
}

typedef VEC(const char *) Words;

/* Names that begin with '_' are the library's own. */
static void names_of_file(Elab *e, const FileEnv *f, bool all, Words *out)
{
    for (uint32_t i = 0; f && i < f->globals.n; i++) {
        const char *name = sym(e, f->globals.at[i].name);
        if (all || name[0] != '_')
            vec_push(e->a, out, name);
    }
}

static void visible_names(Elab *e, const Env *env, Words *out)
{
    for (const Scope *s = env->scope; s; s = s->up)
        for (uint32_t i = 0; i < s->locals.n; i++)
            vec_push(e->a, out, sym(e, s->locals.at[i].name));
    if (env->inst)
        for (uint32_t i = 0; i < env->inst->members.n; i++)
            vec_push(e->a, out, sym(e, env->inst->members.at[i].name));
    names_of_file(e, env->file, true, out);
    names_of_file(e, e->prelude, false, out);
#define BUILTIN(name, fn, op, params, doc) vec_push(e->a, out, #name);
#include "frontend/builtins.def"
#undef BUILTIN
}

/* `x.relu_()`: what ends in '_' changes its tensor in PyTorch. Its name without that, or NULL. */
static const char *in_place_name(Elab *e, const char *text)
{
    const size_t n = strlen(text);
    Value v;
    if (n < 2 || text[n - 1] != '_' || text[n - 2] == '_')
        return NULL;
    const char *pure = arena_printf(e->a, "%.*s", (int)n - 1, text);
    return lookup_prelude(e, sym_new(e, pure), &v) ? pure : NULL;
}

/* How this name of PyTorch or Python is written here. */
static bool note_other_ways(Elab *e, Diag *d, const char *text)
{
    if (hint_note(e->diags, d, HINT_name, text))
        return true;
    const char *pure = in_place_name(e, text);
    if (pure)
        diag_note(e->diags, d, (Span){0}, "values do not change: write 'x = %s(x)'", pure);
    return pure != NULL;
}

Value lookup(Elab *e, const Env *env, Sym name, Span at)
{
    return lookup_noted(e, env, name, at, NULL);
}

Value lookup_noted(Elab *e, const Env *env, Sym name, Span at, const char *note)
{
    Value v;
    if (lookup_user(e, env, name, &v) || lookup_prelude(e, name, &v)) {
        if (v.kind == V_unset) {
            elab_error(e, DIAG_unknown_name, at, "'%s' has no value yet", sym(e, name));
            return v_poison();
        }
        return v;
    }
    Diag *d = elab_error(e, DIAG_unknown_name, at, "unknown name '%s'", sym(e, name));
    if (note_other_ways(e, d, sym(e, name)))
        return v_poison();
    Words words = {0};
    visible_names(e, env, &words);
    const char *near = diag_nearest(sym(e, name), words.at, (int)words.n);
    if (near) {
        diag_note(e->diags, d, (Span){0}, "did you mean '%s'?", near);
        diag_fix(e->diags, d, at, "%s", near);
    } else if (note) {
        diag_note(e->diags, d, (Span){0}, "%s", note);
    }
    return v_poison();
}
