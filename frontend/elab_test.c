/* elab_test.c: `test` declarations as graphs whose results are the assertions of the run, and
 * gradient checks. SPDX-License-Identifier: MIT */
#include "frontend/elab_program.h"

#include "passes/pass.h"

/* ---- tests ---- */

/* How many models of the file a test names; *owner: the first of these, else the file's first. */
static uint32_t models_named(const FileEnv *f, const AstDecl *test, const AstDecl **owner)
{
    const AstDecls *decls = &f->ast->decls;
    const AstDecl *first = NULL;
    uint32_t n = 0;
    *owner = NULL;
    for (uint32_t i = 0; i < decls->n; i++) {
        if (decls->at[i]->kind != DECL_model)
            continue;
        first = first ? first : decls->at[i];
        if (body_uses(&test->body, decls->at[i]->name.sym) && !n++)
            *owner = decls->at[i];
    }
    *owner = *owner ? *owner : first;
    return n;
}

/* A test that names several models, or stands in a file without any, is no single one's. */
static bool belongs(Model *m, const AstDecl *test)
{
    const AstDecl *owner;
    const bool several = models_named(m->file, test, &owner) > 1 || !owner;
    if (several || !m->decl)
        return several && !m->decl;
    return sym_eq(owner->name.sym, m->e->p->name);
}

bool tested_jointly(const FileEnv *f, Sym model)
{
    const AstDecls *decls = &f->ast->decls;
    const AstDecl *owner;
    for (uint32_t i = 0; i < decls->n; i++)
        if (decls->at[i]->kind == DECL_test && body_uses(&decls->at[i]->body, model) &&
            models_named(f, decls->at[i], &owner) > 1)
            return true;
    return false;
}

bool tests_alone(const FileEnv *f)
{
    bool tests = false;
    for (uint32_t i = 0; i < f->ast->decls.n; i++) {
        if (f->ast->decls.at[i]->kind == DECL_model)
            return false;
        tests = tests || f->ast->decls.at[i]->kind == DECL_test;
    }
    return tests;
}

void make_test(Model *m, const AstDecl *d)
{
    Elab *e = m->e;
    Sym name = sym_new(e, d->path);
    Graph *g = begin_trace(m, name, name, GRAPH_TEST, false);
    g->at = d->at;
    g->doc = d->doc;
    e->entry = NULL;
    e->in_test = true;
    e->test = name;
    e->asserts.n = e->assert_texts.n = e->assert_at.n = 0;
    Env env = {.file = m->file, .models = true, .scope = scope_push(e, NULL)};
    Body ret = {0};
    run_block(e, &env, &d->body, &ret);
    for (uint32_t i = 0; i < e->asserts.n; i++)
        graph_result(e->p, g, sym_new(e, e->assert_texts.at[i]), use_val(e, &e->asserts.at[i]),
                     e->assert_at.at[i]);
    for (uint32_t i = 0; i < e->states.n; i++) {
        e->states.at[i]->now = (Val){0, 0};
        e->states.at[i]->now_graph = NULL;
    }
    e->in_test = false;
    end_trace(m, g);
}

void make_tests(Model *m)
{
    if (!m->decl && m->e->root->module) /* -m */
        return;
    const AstDecls *decls = &m->file->ast->decls;
    for (uint32_t i = 0; i < decls->n; i++)
        if (decls->at[i]->kind == DECL_test && belongs(m, decls->at[i]))
            make_test(m, decls->at[i]);
}

/* ---- gradient checks ---- */

typedef struct {
    Elab *e;
    const Call *c;
    Graph *inputs, *loss;
    VEC(Val) in;     /* inputs of the loss graph */
    VEC(Val) floats; /* those that are differentiated */
    Builder outer;
    bool training;
} Check;

static Graph *check_graph(Check *k, const char *what)
{
    Elab *e = k->e;
    const char *name =
        arena_printf(e->a, "%s.gradcheck%u.%s", sym(e, e->test), e->p->gradchecks.n, what);
    Graph *g = program_add_graph(e->p, sym_new(e, name), GRAPH_CHECK);
    g->method = g->name;
    g->at = k->c->at;
    return g;
}

/* One value: computed in the graph of inputs, an input of the graph of the loss. */
static Val hand_over(Check *k, Sym name, const Value *v, bool differentiate_it)
{
    Elab *e = k->e;
    e->b = elab_builder(e, k->inputs);
    Val x = use_val(e, v);
    if (dtype_is_float(type_at(e, x)->dtype))
        x = build_cast(&e->b, x, DT_f64);
    graph_result(e->p, k->inputs, name, x, k->c->at);
    Ty type = val_type(k->inputs, x);
    e->b = elab_builder(e, k->loss);
    Val in = build_input(&e->b, name, type);
    written_link(e, in, k->inputs, x);
    vec_push(e->a, &k->in, in);
    if (differentiate_it && dtype_is_float(type_info(e->p, type)->dtype))
        vec_push(e->a, &k->floats, in);
    return in;
}

static void hand_over_states(Check *k)
{
    Elab *e = k->e;
    for (uint32_t i = 0; i < e->states.n; i++) {
        State *s = e->states.at[i];
        e->b = elab_builder(e, k->inputs);
        Value v = v_tensor(e, build_view(&e->b, &e->p->state.at[s->view - 1]));
        s->stand_in = hand_over(k, s->name, &v, s->is_param);
        s->stand_in_graph = k->loss;
    }
}

static bool check_loss_graph(Check *k, const Value *y)
{
    Elab *e = k->e;
    Value loss = y->kind == V_list && y->list->n ? y->list->at[0] : *y;
    if (loss.kind != V_tensor || value_type(e, &loss)->rank != 0) {
        if (!is_poison(&loss))
            elab_error(e, DIAG_bad_type, k->c->arg_at[0],
                       "gradcheck wants a function whose first result is a 0-d float");
        return false;
    }
    Val v = build_cast(&e->b, use_val(e, &loss), DT_f64), zero = {0, 0};
    Val *d = arena_array(e->a, Val, k->floats.n);
    graph_result(e->p, k->loss, sym_new(e, "loss"), v, k->c->at);
    if (!differentiate(&e->b, &v, &zero, 1, k->floats.at, k->floats.n, d))
        return false;
    for (uint32_t i = 0; i < k->floats.n; i++) {
        const TypeInfo *t = type_at(e, k->floats.at[i]);
        if (!d[i].node)
            d[i] = build_full(&e->b, DT_f64, 0, t->shape, t->rank);
        Sym name = graph_node(k->loss, k->floats.at[i])->hint;
        graph_result(e->p, k->loss, sym_new(e, arena_printf(e->a, "d_%s", sym(e, name))), d[i],
                     k->c->at);
    }
    return true;
}

static bool run_check(Check *k)
{
    Elab *e = k->e;
    const List *args = k->c->arg[1].list;
    Args call = {0};
    hand_over_states(k);
    for (uint32_t i = 0; i < args->n; i++) {
        Value v = args->at[i];
        if (v.kind == V_tensor) {
            Sym name = sym_new(e, arena_printf(e->a, "arg%u", i));
            Val in = hand_over(k, name, &v, true);
            v = v_tensor(e, in);
        }
        vec_push(e->a, &call, ((Arg){.value = v, .at = k->c->arg_at[1]}));
    }
    e->b = elab_builder(e, k->loss);
    e->as_f64 = true;
    DType outer = e->float_type;
    e->float_type = DT_f64;
    Value y = call_value(e, k->c->env, &k->c->arg[0], &call, k->c->at, k->c->arg_at[0]);
    bool ok = check_loss_graph(k, &y);
    e->float_type = outer;
    e->as_f64 = false;
    return ok;
}

bool builtin_gradcheck(Elab *e, const Call *c, Value *out)
{
    if (!e->in_test) {
        elab_error(e, DIAG_misplaced, c->at, "gradcheck stands in a test only");
        return false;
    }
    if (!is_callable(&c->arg[0])) {
        elab_error(e, DIAG_bad_type, c->arg_at[0], "gradcheck wants a function, not %s",
                   a_kind(&c->arg[0]));
        return false;
    }
    Check k = {.e = e, .c = c, .outer = e->b};
    k.inputs = check_graph(&k, "inputs");
    k.loss = check_graph(&k, "loss");
    bool ok = run_check(&k);
    for (uint32_t i = 0; i < e->states.n; i++) {
        State *s = e->states.at[i];
        if (s->now_graph == k.loss)
            s->now = (Val){0, 0};
        s->stand_in = (Val){0, 0};
        s->stand_in_graph = NULL;
    }
    e->b = k.outer;
    if (!ok)
        return false;
    GradCheck check = {
        .test = e->test, .inputs = k.inputs->method, .loss = k.loss->method, .at = c->at};
    const SourceFile *f = source_file(e->cx->sources, c->at.file);
    check.text = arena_strndup(e->a, f->text + c->at.start, c->at.end - c->at.start);
    vec_push(e->a, &e->p->gradchecks, check);
    *out = v_bool(true); /* its outcome is reported by whoever runs the check */
    return true;
}
