/* elaborate.c: files and their imports, the command line's definitions, and models one by one.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab_program.h"

#include <errno.h>
#include <string.h>

/* ---- declarations of a file ---- */

static void add_global(Elab *e, FileEnv *f, const AstDecl *d, Sym name, Value v, Lazy lazy)
{
    Global *old = file_find(f, name);
    Span at = d->name.at.file ? d->name.at : d->at;
    if (old) {
        Diag *diag = diag_report(e->diags, DIAG_duplicate_name, at,
                                 "'%s' is declared twice in this file", sym(e, name));
        elab_note(e, diag, old->decl->name.at.file ? old->decl->name.at : old->decl->at,
                  "the other one is here");
        return;
    }
    vec_push(e->a, &f->globals, ((Global){.name = name, .decl = d, .value = v, .lazy = lazy}));
}

static Value fn_value(Elab *e, FileEnv *f, const AstFn *ast)
{
    Fn *fn = arena_new(e->a, Fn);
    *fn = (Fn){.ast = ast, .file = f, .name = ast->name.sym};
    return (Value){.kind = V_fn, .fn = fn};
}

static Value module_value(Elab *e, FileEnv *f, const AstDecl *d)
{
    ModuleRef *m = arena_new(e->a, ModuleRef);
    *m = (ModuleRef){f, d};
    return (Value){.kind = V_module, .module = m};
}

/* ---- finding files ---- */

static const char *dir_of(Elab *e, const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? arena_strndup(e->a, path, (size_t)(slash - path) + 1) : "";
}

/* 0: not found; then *why is set if it is there and cannot be read. */
static uint32_t try_file(Elab *e, const char *path, bool is_std, const char **why)
{
    for (uint32_t i = 1; i <= source_count(e->cx->sources); i++)
        if (strcmp(source_file(e->cx->sources, i)->path, path) == 0)
            return i;
    const uint32_t file = source_read(e->cx->sources, path, is_std);
    if (!file && !*why && errno != ENOENT && errno != ENOTDIR)
        *why = arena_printf(e->a, "cannot read %s: %s", path, strerror(errno));
    return file;
}

static uint32_t std_file(Elab *e, const char *name)
{
    if (e->o->std_dir) {
        const char *why = NULL;
        uint32_t f = try_file(e, arena_printf(e->a, "%s/%s.tn", e->o->std_dir, name), true, &why);
        if (f)
            return f;
    }
    const char *path = arena_printf(e->a, "<std>/%s.tn", name);
    for (uint32_t i = 1; i <= source_count(e->cx->sources); i++)
        if (strcmp(source_file(e->cx->sources, i)->path, path) == 0)
            return i;
    const char *text = std_text(name);
    return text ? source_add(e->cx->sources, path, text, strlen(text), true) : 0;
}

static uint32_t find_import(Elab *e, const FileEnv *from, const AstDecl *d, const char **why)
{
    const char *dir = dir_of(e, from->path);
    if (d->is_path)
        return try_file(e, d->path[0] == '/' ? d->path : arena_printf(e->a, "%s%s", dir, d->path),
                        from->is_std, why);
    uint32_t f =
        from->is_std ? 0 : try_file(e, arena_printf(e->a, "%s%s.tn", dir, d->path), false, why);
    for (int i = 0; !f && i < e->o->ninclude_dirs; i++)
        f = try_file(e, arena_printf(e->a, "%s/%s.tn", e->o->include_dirs[i], d->path), false, why);
    return f ? f : std_file(e, d->path);
}

static void load_import(Elab *e, FileEnv *f, const AstDecl *d)
{
    const char *why = NULL;
    uint32_t n = find_import(e, f, d, &why);
    Value v = v_poison();
    Span at = d->path_at.file ? d->path_at : d->at;
    if (!n) {
        e->unimported++;
        if (why)
            diag_report(e->diags, DIAG_file, at, "%s", why);
        else
            diag_report(e->diags, DIAG_file, at, "cannot find '%s'%s", d->path,
                        d->is_path ? "" : " (beside the file, in -I, or in the standard library)");
    } else {
        const SourceFile *s = source_file(e->cx->sources, n);
        FileEnv *other = file_load(e, n, s->is_std, s->path);
        if (other->loading) {
            e->unimported++;
            Diag *diag = diag_report(e->diags, DIAG_import_cycle, at,
                                     "'%s' imports itself in a circle", d->path);
            for (uint32_t i = 0; i < e->files.n; i++)
                if (e->files.at[i]->loading)
                    diag_note(e->diags, diag, (Span){0}, "by way of %s", e->files.at[i]->path);
        } else {
            v = (Value){.kind = V_file, .file = other};
        }
    }
    add_global(e, f, d, d->name.sym, v, LAZY_no);
}

FileEnv *file_load(Elab *e, uint32_t file, bool is_std, const char *path)
{
    for (uint32_t i = 0; i < e->files.n; i++)
        if (e->files.at[i]->file == file)
            return e->files.at[i];
    FileEnv *f = arena_new(e->a, FileEnv);
    *f = (FileEnv){.file = file, .path = path, .is_std = is_std, .loading = true};
    vec_push(e->a, &e->files, f);
    if (!is_std)
        vec_push(e->a, &e->out->files, path);
    f->ast = parse_file(&e->parse, file);
    for (uint32_t i = 0; i < f->ast->decls.n; i++) {
        const AstDecl *d = f->ast->decls.at[i];
        switch (d->kind) {
        case DECL_import:
            load_import(e, f, d);
            break;
        case DECL_const:
            add_global(e, f, d, d->name.sym, v_none(), LAZY_waiting);
            break;
        case DECL_fn:
            add_global(e, f, d, d->fn->name.sym, fn_value(e, f, d->fn), LAZY_no);
            break;
        case DECL_module:
        case DECL_optimizer:
            add_global(e, f, d, d->name.sym, module_value(e, f, d), LAZY_no);
            break;
        case DECL_model:
        case DECL_train:
        case DECL_test:
            break;
        }
    }
    f->loading = false;
    return f;
}

/* ---- -D ---- */

static bool define_value(Elab *e, FileEnv *f, const Define *d, Value *out)
{
    const char *path = arena_printf(e->a, "<-D %s>", d->name);
    uint32_t file = source_add(e->cx->sources, path, d->value, strlen(d->value), false);
    AstExpr *x = parse_expr(&e->parse, file);
    if (!x)
        return false;
    Env env = {.file = f};
    *out = eval(e, &env, x);
    return !is_poison(out);
}

/* Whether a module has a config value, or a method of one a size, of this name. */
static bool define_fits(Elab *e, const FileEnv *f, Sym name)
{
    for (uint32_t i = 0; i < f->ast->decls.n; i++) {
        const AstDecl *d = f->ast->decls.at[i];
        if (d->kind != DECL_module)
            continue;
        for (uint32_t k = 0; k < d->params.n; k++)
            if (sym_eq(d->params.at[k].name.sym, name))
                return true;
        for (uint32_t k = 0; k < d->body.n; k++) {
            const AstFn *fn = d->body.at[k]->kind == ST_fn ? d->body.at[k]->fn : NULL;
            for (uint32_t j = 0; fn && j < fn->params.n; j++) {
                const AstType *t = fn->params.at[j].type;
                for (uint32_t x = 0; t && x < t->dims.n; x++)
                    if (expr_uses(t->dims.at[x], name))
                        return true;
            }
        }
    }
    return e->o->instantiate != NULL; /* a module of another file */
}

/* A definition changes a const of the file, a config value of the model, or fixes a size. */
static void apply_defines(Elab *e, FileEnv *f)
{
    for (int i = 0; i < e->o->ndefines; i++) {
        Value v;
        if (!define_value(e, f, &e->o->defines[i], &v))
            continue;
        Sym name = sym_new(e, e->o->defines[i].name);
        Global *g = file_find(f, name);
        if (g && g->decl->kind == DECL_const) {
            g->value = v;
            g->lazy = LAZY_no;
            continue;
        }
        if (!define_fits(e, f, name))
            diag_report(e->diags, DIAG_unknown_name, (Span){0},
                        "-D %s: no const, config value or size has this name",
                        e->o->defines[i].name);
        vec_push(e->a, &e->defined, ((SizeBinding){.name = name, .value = v}));
    }
}

/* ---- models ---- */

/* A model's module with the command line's config values in place of those written. */
static Value make_root(Elab *e, const Env *env, const AstExpr *x)
{
    Value f = x->kind == EX_call && x->a->kind != EX_field ? eval(e, env, x->a) : v_none();
    if (f.kind != V_module || e->defined.n == 0)
        return eval(e, env, x);
    Args args = {0};
    const AstParams *params = &f.module->decl->params;
    bool ok = true;
    uint32_t npos = 0;
    for (uint32_t i = 0; i < x->args.n; i++) {
        const AstArg *a = &x->args.at[i];
        Arg arg = {.name = a->name, .at = a->value->at};
        if (a->value->kind == EX_splat)
            return eval(e, env, x);
        if (!a->name.sym.id && npos < params->n)
            arg.name = params->at[npos++].name;
        bool replaced = false;
        for (uint32_t k = 0; k < e->defined.n; k++)
            replaced |= sym_eq(e->defined.at[k].name, arg.name.sym);
        if (replaced)
            continue;
        arg.value = eval(e, env, a->value);
        ok &= !is_poison(&arg.value);
        vec_push(e->a, &args, arg);
    }
    for (uint32_t k = 0; k < e->defined.n; k++)
        for (uint32_t i = 0; i < params->n; i++)
            if (sym_eq(params->at[i].name.sym, e->defined.at[k].name))
                vec_push(e->a, &args,
                         ((Arg){.name = params->at[i].name,
                                .value = e->defined.at[k].value,
                                .at = x->at}));
    return ok ? call_value(e, env, &f, &args, x->at, x->a->at) : v_poison();
}

static void fix_sizes(Model *m, const Env *env)
{
    Elab *e = m->e;
    for (uint32_t i = 0; i < e->defined.n; i++)
        if (e->defined.at[i].value.kind == V_int)
            vec_push(e->a, &m->fixed, e->defined.at[i]);
    for (uint32_t i = 0; m->decl && i < m->decl->bindings.n; i++) {
        const AstBinding *b = &m->decl->bindings.at[i];
        Value v = eval(e, env, b->value);
        if (v.kind == V_int && v.i >= 0)
            vec_push(e->a, &m->fixed, ((SizeBinding){.name = b->name.sym, .value = v}));
        else if (!is_poison(&v))
            elab_error(e, DIAG_bad_type, b->value->at, "a size is fixed by an int");
    }
}

void begin_program(Elab *e, const FileEnv *f, Sym name)
{
    e->p = program_create(e->cx, name);
    e->imports.n = e->keys_made.n = e->key_sites.n = e->key_states.n = 0;
    e->states = (States){0};
    e->nstates = e->ninstances = 0;
    e->root = NULL;
    e->capture = NULL;
    e->frame = NULL;
    e->root_frame = (Frame){.file = f, .inside = true};
    e->depth = 0;
    e->entry = NULL;
    e->training = false;
    e->drew = false;
    e->float_type = e->base_float;
    Slot seed = {.name = sym_new(e, "seed"),
                 .kind = SLOT_SEED,
                 .type = type_of(e->p, DT_u64, NULL, 0, PLACE_D0)};
    e->seed_slot = program_add_slot(e->p, seed);
    seed.name = sym_new(e, "calls");
    seed.kind = SLOT_CALLS;
    e->calls_slot = program_add_slot(e->p, seed);
    e->making = program_add_graph(e->p, sym_new(e, "making"), GRAPH_INIT);
    e->p->graphs.n--; /* no part of the program: INIT copies what it needs */
    e->b.place = PLACE_D0;
    e->b = elab_builder(e, e->making);
}

/* Says why each method stays inside; those with a `_` mean to. */
static void explain_exports(Elab *e, Diag *d)
{
    for (uint32_t i = 0; i < e->root->members.n; i++) {
        const Member *mem = &e->root->members.at[i];
        if (mem->kind != MEMBER_fn || sym(e, mem->name)[0] == '_')
            continue;
        elab_note(e, d, mem->value.fn->ast->name.at, "%s is not exported: %s", sym(e, mem->name),
                  why_not_exported(e, mem->value.fn));
    }
}

static const Fn *exported_method(Elab *e, const char *name, size_t n)
{
    for (uint32_t i = 0; i < e->root->members.n; i++) {
        const Member *mem = &e->root->members.at[i];
        const char *text = sym(e, mem->name);
        if (mem->kind == MEMBER_fn && strlen(text) == n && !memcmp(text, name, n) &&
            is_exported(e, mem->value.fn))
            return mem->value.fn;
    }
    return NULL;
}

static bool is_trained(const Model *m, const Fn *fn)
{
    for (uint32_t i = 0; i < m->trains.n; i++)
        if (m->trains.at[i].method == fn)
            return true;
    return false;
}

/* In C all that a model has is called MODEL_NAME. */
static void check_c_name(Model *m, const Fn *fn)
{
    Elab *e = m->e;
    static const char *const own[] = {"create", "destroy", "desc", "init", "model"};
    static const struct {
        const char *text;
        bool step;
    } ends[] = {{"_train", false},
                {"_backward", false},
                {"_grad", false},
                {"_step", true},
                {"_update", true}};
    const char *name = sym(e, fn->name);
    const size_t n = strlen(name);
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (!strcmp(name, own[i]))
            elab_error(e, DIAG_duplicate_name, fn->ast->name.at,
                       "an exported method cannot be called '%s': every model has one in C", name);
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        const size_t end = strlen(ends[i].text);
        const Fn *of = n > end && !strcmp(name + n - end, ends[i].text)
                           ? exported_method(e, name, n - end)
                           : NULL;
        if (!of || (ends[i].step && !is_trained(m, of)))
            continue;
        Diag *d = elab_error(e, DIAG_duplicate_name, fn->ast->name.at,
                             "'%s' is what %s '%s' is called in C", name,
                             ends[i].step ? "training" : "the derivative of", sym(e, of->name));
        elab_note(e, d, of->ast->name.at, "declared here");
    }
}

static void trace_methods(Model *m)
{
    Elab *e = m->e;
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->root->members.n; i++) {
        Member *mem = &e->root->members.at[i];
        if (mem->kind != MEMBER_fn)
            continue;
        Fn *fn = mem->value.fn;
        const char *why = why_not_exported(e, fn);
        if (why) {
            vec_push(e->a, &e->out->inner,
                     ((InnerMethod){sym(e, e->p->name), sym(e, mem->name), why}));
            continue;
        }
        n++;
        check_c_name(m, fn);
        for (uint32_t absent = 0; absent < 1u << optional_count(fn); absent++) {
            if (!trace_method(m, fn, GRAPH_METHOD, absent, false))
                break; /* training would repeat the messages */
            trace_method(m, fn, GRAPH_TRAINING, absent, !e->o->inference_gradients);
        }
    }
    if (n == 0) {
        Diag *d = elab_error(e, DIAG_bad_state, m->decl ? m->decl->name.at : e->root->at,
                             "%s exports no method", sym(e, e->p->name));
        explain_exports(e, d);
        if (e->root->module->file->is_std)
            diag_note(e->diags, d, (Span){0},
                      "a module of yours can hold it and say the shapes: "
                      "fn forward(x: [B, 4]) -> [B, 4] { return inner(x) }");
    }
}

static void make_model(Elab *e, FileEnv *f, const AstDecl *d, const AstExpr *value, Sym name)
{
    Model m = {.e = e, .file = f, .decl = d};
    int before = diag_errors(e->diags);
    begin_program(e, f, name);
    e->p->doc = d ? d->doc : NULL;
    e->p->file_doc = f->ast->doc;
    e->p->file = f->path;
    Env env = {.file = f, .scope = scope_push(e, NULL)};
    Value root = make_root(e, &env, value);
    if (root.kind != V_instance) {
        if (!is_poison(&root))
            elab_error(e, DIAG_bad_type, value->at, "a model is a module, not %s", a_kind(&root));
        return;
    }
    e->root = root.inst;
    e->base_float = root.inst->dtype;
    fix_sizes(&m, &env);
    name_states(e, e->root);
    split_over_gpus(e);
    if (diag_errors(e->diags) > before)
        return;
    read_trains(&m);
    if (diag_errors(e->diags) > before)
        return;
    layout_states(&m);
    Graph *init = begin_init(&m);
    make_averages(&m, init);
    trace_methods(&m);
    if (diag_errors(e->diags) == before)
        make_steps(&m, init);
    end_init(&m, init);
    if (e->o->tests && diag_errors(e->diags) == before)
        make_tests(&m);
    if (diag_errors(e->diags) == before)
        vec_push(e->a, &e->out->models, e->p);
    e->base_float = e->o->default_float ? e->o->default_float : DT_f32;
}

/* The program of tests that name several models, or none in a file without models: its root
 * holds them, and has no methods. */
static void make_joint(Elab *e, FileEnv *f)
{
    Model m = {.e = e, .file = f};
    const int before = diag_errors(e->diags);
    begin_program(e, f, sym_new(e, "several_models"));
    e->p->file = f->path;
    Env env = {.file = f, .scope = scope_push(e, NULL)};
    Instance *root = arena_new(e->a, Instance);
    root->dtype = e->base_float;
    for (uint32_t i = 0; i < f->ast->decls.n; i++) {
        const AstDecl *d = f->ast->decls.at[i];
        if (d->kind != DECL_model || !tested_jointly(f, d->name.sym))
            continue;
        const Value v = make_root(e, &env, d->value);
        const Member member = {.name = d->name.sym,
                               .kind = MEMBER_sub,
                               .value = v,
                               .as = d->name.sym,
                               .at = d->name.at};
        if (v.kind == V_instance)
            vec_push(e->a, &root->members, member);
    }
    if ((!root->members.n && !tests_alone(f)) || diag_errors(e->diags) > before)
        return;
    e->root = root;
    name_states(e, root);
    layout_states(&m);
    end_init(&m, begin_init(&m));
    make_tests(&m);
    if (diag_errors(e->diags) == before)
        vec_push(e->a, &e->out->models, e->p);
}

static void check_trains(Elab *e, FileEnv *f)
{
    for (uint32_t i = 0; i < f->ast->decls.n; i++) {
        const AstDecl *d = f->ast->decls.at[i];
        if (d->kind != DECL_train)
            continue;
        bool found = false;
        bool plain = d->target->kind == EX_field && d->target->a->kind == EX_name;
        for (uint32_t k = 0; plain && k < f->ast->decls.n; k++)
            found |= f->ast->decls.at[k]->kind == DECL_model &&
                     sym_eq(f->ast->decls.at[k]->name.sym, d->target->a->name);
        if (!plain)
            diag_report(e->diags, DIAG_bad_train, d->target->at,
                        "a train names a method of a model: MODEL.METHOD");
        else if (!found)
            diag_report(e->diags, DIAG_unknown_name, d->target->a->at, "there is no model '%s'",
                        sym(e, d->target->a->name));
    }
}

static void make_models(Elab *e, FileEnv *f)
{
    if (e->o->instantiate) {
        const char *text = e->o->instantiate;
        uint32_t file = source_add(e->cx->sources, "<-m>", text, strlen(text), false);
        AstExpr *x = parse_expr(&e->parse, file);
        if (!x)
            return;
        Sym name = x->kind == EX_call && (x->a->kind == EX_name || x->a->kind == EX_field)
                       ? x->a->name
                       : sym_new(e, "model");
        make_model(e, f, NULL, x, name);
        return;
    }
    VEC(const char *) names = {0};
    bool found = false;
    for (uint32_t i = 0; i < f->ast->decls.n; i++) {
        const AstDecl *d = f->ast->decls.at[i];
        if (d->kind != DECL_model)
            continue;
        const char *name = sym(e, d->name.sym);
        vec_push(e->a, &names, name);
        if (e->o->only_model && strcmp(e->o->only_model, name) != 0)
            continue;
        found = true;
        make_model(e, f, d, d->value, d->name.sym);
    }
    const bool rest = e->o->check && tests_alone(f); /* check_rest reads those with all else */
    if (e->o->tests && !e->o->only_model && !rest && !diag_errors(e->diags))
        make_joint(e, f);
    if (!found && e->o->only_model) {
        Diag *d = diag_report(e->diags, DIAG_unknown_name, (Span){0}, "there is no model '%s'",
                              e->o->only_model);
        const char *near = diag_nearest(e->o->only_model, names.at, (int)names.n);
        if (near)
            diag_note(e->diags, d, (Span){0}, "did you mean '%s'?", near);
    }
}

bool elaborate(Ctx *cx, uint32_t file, const ElabOptions *o, Elaborated *out)
{
    static const ElabOptions none = {0};
    Elab e = {.cx = cx,
              .a = cx->perm,
              .o = o ? o : &none,
              .out = out,
              .names = cx->names,
              .dims = cx->dims,
              .diags = cx->diags};
    e.parse = (ParseCtx){
        .arena = cx->perm, .names = cx->names, .sources = cx->sources, .diags = cx->diags};
    e.word.forward = sym_new(&e, "forward");
    e.word.training = sym_new(&e, "training");
    e.word.axis = sym_new(&e, "axis");
    e.word.dim = sym_new(&e, "dim");
    e.word.underscore = sym_new(&e, "_");
    e.word.out = sym_new(&e, "out");
    e.word.to = sym_new(&e, "to");
    e.word.ellipsis = sym_new(&e, "...");
    e.base_float = e.o->default_float ? e.o->default_float : DT_f32;
    e.float_type = e.base_float;
    int before = diag_errors(cx->diags);
    uint32_t prelude = std_file(&e, "prelude");
    if (prelude)
        e.prelude = file_load(&e, prelude, true, source_file(cx->sources, prelude)->path);
    FileEnv *f = file_load(&e, file, false, source_file(cx->sources, file)->path);
    if (diag_errors(cx->diags) > before + e.unimported)
        return false; /* what could not be read would be missed everywhere */
    apply_defines(&e, f);
    for (uint32_t i = 0; i < e.files.n; i++)
        if (!e.files.at[i]->is_std)
            warn_unused(&e, e.files.at[i]);
    check_trains(&e, f);
    make_models(&e, f);
    if (e.o->check && diag_errors(cx->diags) == before + e.unimported)
        check_rest(&e, f);
    return diag_errors(cx->diags) == before;
}
