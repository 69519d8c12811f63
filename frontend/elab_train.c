/* elab_train.c: `train` declarations: which parameters move, by which optimizer, in which group;
 * and the STEP and UPDATE graphs. SPDX-License-Identifier: MIT */
#include "frontend/elab_program.h"

#include "passes/pass.h"

#include <string.h>

/* ---- selectors ---- */

static bool glob_match(const char *p, const char *s)
{
    const char *star = NULL, *retry = NULL;
    while (*s) {
        if (*p == '*') {
            star = p++;
            retry = s;
        } else if (*p == '?' || *p == *s) {
            p++;
            s++;
        } else if (star) {
            p = star + 1;
            s = ++retry;
        } else {
            return false;
        }
    }
    while (*p == '*')
        p++;
    return *p == 0;
}

static bool select_one(Elab *e, const Value *sel, State *s, Span at, bool *hit)
{
    if (sel->kind == V_list) {
        for (uint32_t i = 0; i < sel->list->n; i++)
            if (!select_one(e, &sel->list->at[i], s, at, hit))
                return false;
        return true;
    }
    if (sel->kind == V_string) {
        bool exclude = sel->s[0] == '!';
        if (glob_match(sel->s + exclude, sym(e, s->name)))
            *hit = !exclude;
        return true;
    }
    if (sel->kind == V_fn) {
        Value info = {.kind = V_info, .state = s};
        Value v = call1(e, sel, info, at);
        if (v.kind == V_bool) {
            *hit |= v.i != 0;
            return true;
        }
        if (!is_poison(&v))
            elab_error(e, DIAG_bad_train, at, "a selector gives true or false, not %s", a_kind(&v));
        return false;
    }
    if (!is_poison(sel))
        elab_error(e, DIAG_bad_train, at, "a selector is a pattern or a function, not %s",
                   a_kind(sel));
    return false;
}

/* ---- settings ---- */

enum { MAX_MICRO = 1024 };

static bool int_setting(Elab *e, const AstBinding *b, const Value *v, int64_t *out)
{
    if (v->kind == V_int && v->i >= 1) {
        *out = v->i;
        return true;
    }
    if (!is_poison(v))
        elab_error(e, DIAG_bad_train, b->value->at, "'%s' must be an int of at least 1",
                   sym(e, b->name.sym));
    return false;
}

static void read_setting(Model *m, Train *t, const Env *env, const AstBinding *b, Value *params)
{
    Elab *e = m->e;
    static const char *const known[] = {"clip_norm", "clip_value", "accumulate",
                                        "micro",     "params",     "average"};
    const char *name = sym(e, b->name.sym);
    Value v = eval(e, env, b->value);
    if (strcmp(name, "params") == 0) {
        *params = v;
    } else if (strcmp(name, "average") == 0) {
        if (v.kind == V_fn)
            t->average = v;
        else if (!is_poison(&v) && v.kind != V_none)
            elab_error(e, DIAG_bad_train, b->value->at,
                       "'average' is a function of an average, the new value and the step, such as "
                       "optim.ema(0.999), not %s",
                       a_kind(&v));
    } else if (strcmp(name, "accumulate") == 0) {
        int_setting(e, b, &v, &t->accumulate);
    } else if (strcmp(name, "micro") == 0) {
        if (int_setting(e, b, &v, &t->micro) && t->micro > MAX_MICRO)
            elab_error(e, DIAG_bad_train, b->value->at, "micro: at most %d slices", MAX_MICRO);
    } else if (strcmp(name, "clip_norm") == 0 || strcmp(name, "clip_value") == 0) {
        if (is_static_number(&v) && static_number(&v) > 0)
            *(name[5] == 'n' ? &t->clip_norm : &t->clip_value) = v;
        else if (!is_poison(&v) && v.kind != V_none)
            elab_error(e, DIAG_bad_train, b->value->at, "'%s' must be a number above 0", name);
    } else {
        Diag *d = elab_error(e, DIAG_bad_train, b->name.at, "a train has no setting '%s'", name);
        const char *near = diag_nearest(name, known, ARRAY_LEN(known));
        if (near)
            diag_note(e->diags, d, (Span){0}, "did you mean '%s'?", near);
    }
}

static void read_group(Model *m, Train *t, const Env *env, const AstGroup *g)
{
    Elab *e = m->e;
    const AstDecl *d = t->optim->module->decl;
    TrainGroup group = {.ast = g};
    group.config = arena_array(e->a, Value, d->params.n);
    group.own = arena_array(e->a, bool, d->params.n);
    memcpy(group.config, t->optim->config, d->params.n * sizeof *group.config);
    for (uint32_t i = 0; i < g->settings.n; i++) {
        const AstBinding *b = &g->settings.at[i];
        uint32_t k = 0;
        while (k < d->params.n && !sym_eq(d->params.at[k].name.sym, b->name.sym))
            k++;
        Value v = eval(e, env, b->value);
        if (k == d->params.n) {
            Diag *diag = elab_error(e, DIAG_bad_train, b->name.at, "%s has no '%s'",
                                    sym(e, d->name.sym), sym(e, b->name.sym));
            elab_note(e, diag, d->name.at, "declared here");
            continue;
        }
        group.config[k] = v;
        group.own[k] = true;
    }
    vec_push(e->a, &t->groups, group);
}

static int choose_group(Model *m, Train *t, const Env *env, const Value *params, Span params_at,
                        State *s)
{
    Elab *e = m->e;
    bool hit = params->kind == V_unset;
    if (!hit && !select_one(e, params, s, params_at, &hit))
        return -1;
    if (!hit)
        return -1;
    for (uint32_t i = 1; i < t->groups.n; i++) {
        TrainGroup *g = &t->groups.at[i];
        bool in = false;
        for (uint32_t k = 0; k < g->ast->selectors.n; k++) {
            Value sel = eval(e, env, g->ast->selectors.at[k]);
            if (!select_one(e, &sel, s, g->ast->selectors.at[k]->at, &in))
                return -1;
        }
        if (in) {
            g->matches++;
            return (int)i;
        }
    }
    return 0;
}

/* A pattern of `params` that no parameter's name fits, or NULL. */
static const char *idle_pattern(Elab *e, const Value *sel)
{
    const char *idle = NULL;
    if (sel->kind == V_list)
        for (uint32_t i = 0; !idle && i < sel->list->n; i++)
            idle = idle_pattern(e, &sel->list->at[i]);
    if (sel->kind != V_string || sel->s[0] == '!')
        return idle;
    for (uint32_t i = 0; i < e->states.n; i++)
        if (e->states.at[i]->is_param && glob_match(sel->s, sym(e, e->states.at[i]->name)))
            return NULL;
    return sel->s;
}

static void report_unmoved(Elab *e, const Value *params, Span at)
{
    enum { SHOWN = 8 };
    const char *idle = idle_pattern(e, params);
    Diag *d = idle ? elab_error(e, DIAG_bad_train, at,
                                "no parameter is trained: '%s' matches the name of none", idle)
                   : elab_error(e, DIAG_bad_train, at, "no parameter is trained");
    StrBuf names = {.a = e->a};
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->states.n; i++) {
        const State *s = e->states.at[i];
        if (!s->is_param || !s->trainable)
            continue;
        if (n < SHOWN)
            sb_printf(&names, "%s%s", n ? ", " : "", sym(e, s->name));
        n++;
    }
    if (!n)
        diag_note(e->diags, d, (Span){0}, "the model has no parameter that can be trained");
    else
        diag_note(e->diags, d, (Span){0}, "its parameters are %s%s", sb_text(&names),
                  n > SHOWN ? ", ..." : "");
}

static bool train_method(Model *m, const AstDecl *d, Train *t)
{
    Elab *e = m->e;
    const AstExpr *x = d->target;
    Value root = {.kind = V_instance, .inst = e->root};
    Member *member = member_find(e->root, x->name);
    if (!member || member->kind != MEMBER_fn) {
        value_field(e, NULL, &root, x->name, x->at, x->op_at); /* reports an unknown name */
        if (member)
            elab_error(e, DIAG_bad_train, x->op_at, "'%s' is no method", sym(e, x->name));
        return false;
    }
    t->method = member->value.fn;
    t->name = x->name;
    const char *why = why_not_exported(e, t->method);
    if (why) {
        Diag *diag =
            elab_error(e, DIAG_bad_train, x->at, "'%s' cannot be trained: it is not exported: %s",
                       sym(e, x->name), why);
        elab_note(e, diag, t->method->ast->name.at,
                  "an exported method has typed tensor parameters and written result types");
        return false;
    }
    return true;
}

static void read_train(Model *m, const AstDecl *d)
{
    Elab *e = m->e;
    Train t = {.decl = d, .accumulate = 1, .micro = 1};
    Env env = {.file = m->file, .models = true, .scope = scope_push(e, NULL)};
    Value params = {.kind = V_unset};
    Span params_at = d->at;
    if (!train_method(m, d, &t))
        return;
    Value opt = eval(e, &env, d->value);
    if (opt.kind != V_optimizer) {
        if (!is_poison(&opt))
            elab_error(e, DIAG_bad_train, d->value->at, "'with' wants an optimizer, not %s",
                       a_kind(&opt));
        return;
    }
    t.optim = opt.optim;
    const uint32_t n = t.optim->module->decl->params.n;
    TrainGroup rest = {.config = t.optim->config, .own = arena_array(e->a, bool, n)};
    for (uint32_t i = 0; i < n; i++)
        rest.own[i] = true;
    vec_push(e->a, &t.groups, rest);
    for (uint32_t i = 0; i < d->bindings.n; i++) {
        read_setting(m, &t, &env, &d->bindings.at[i], &params);
        if (params.kind != V_unset && params_at.start == d->at.start)
            params_at = d->bindings.at[i].value->at;
    }
    for (uint32_t i = 0; i < d->groups.n; i++)
        read_group(m, &t, &env, &d->groups.at[i]);
    uint32_t moved = 0;
    for (uint32_t i = 0; i < e->states.n; i++) {
        State *s = e->states.at[i];
        int g = s->is_param && s->trainable ? choose_group(m, &t, &env, &params, params_at, s) : -1;
        moved += g >= 0;
        vec_push(e->a, &t.group_of, g);
    }
    for (uint32_t i = 1; i < t.groups.n; i++)
        if (t.groups.at[i].matches == 0)
            elab_error(e, DIAG_bad_train, t.groups.at[i].ast->at,
                       "this group selects no parameter that an earlier one has not taken");
    if (moved == 0)
        report_unmoved(e, &params, params_at);
    vec_push(e->a, &m->trains, t);
}

static bool trains_model(Elab *e, const AstDecl *d)
{
    return d->kind == DECL_train && d->target->kind == EX_field && d->target->a->kind == EX_name &&
           sym_eq(d->target->a->name, e->p->name);
}

void read_trains(Model *m)
{
    if (!m->decl)
        return;
    const AstDecls *decls = &m->file->ast->decls;
    for (uint32_t i = 0; i < decls->n; i++)
        if (trains_model(m->e, decls->at[i]))
            read_train(m, decls->at[i]);
}

/* ---- STEP ---- */

/* In the graph that is differentiated a trained parameter is an input: what arrives there is its
 * gradient, whatever views the method takes of it. */
static void stand_in(Elab *e, Graph *g, State *s)
{
    s->stand_in = build_input(&e->b, s->name, type_make(e->p, s->type));
    s->stand_in_graph = g;
}

static void drop_stand_ins(Graph *g, const States *moved)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->params.n; i++) {
        bool is_one = false;
        for (uint32_t k = 0; k < moved->n; k++)
            is_one |= val_eq(moved->at[k]->stand_in, g->params.at[i].val);
        if (!is_one)
            g->params.at[n++] = g->params.at[i];
    }
    g->params.n = n;
}

static bool check_loss(Elab *e, Graph *g, const Train *t)
{
    if (g->results.n == 0)
        return false;
    const TypeInfo *info = val_info(e->p, g, g->results.at[0].val);
    if (info->rank == 0 && dtype_is_float(info->dtype))
        return true;
    Diag *d = elab_error(e, DIAG_bad_train, t->decl->target->at,
                         "the first result of '%s' must be a 0-d float: it is %s", sym(e, t->name),
                         type_text(e->p, e->a, val_type(g, g->results.at[0].val)));
    elab_note(e, d, t->method->ast->results_at, "declared here");
    return false;
}

/* Attention that is written out becomes an op before the derivative is taken. */
static Graph *outlined(Elab *e, Graph *g, uint32_t index, const States *moved)
{
    Graph *made = e->o->no_outline ? g : outline_early(e->p, g);
    if (made == g)
        return g;
    for (uint32_t i = 0; i < moved->n; i++)
        for (uint32_t k = 0; k < g->params.n; k++)
            if (val_eq(moved->at[i]->stand_in, g->params.at[k].val)) {
                moved->at[i]->stand_in = made->params.at[k].val;
                moved->at[i]->stand_in_graph = made;
                break;
            }
    e->p->graphs.at[index] = made;
    e->entry = made;
    e->b = elab_builder(e, made);
    return made;
}

/* Forward and backward with stand-ins, then once more with the parameters in their segments. */
static Graph *forward_backward(Model *m, Train *t, States *moved, Val *grads)
{
    Elab *e = m->e;
    int before = diag_errors(e->diags);
    Sym name = sym_new(e, arena_printf(e->a, "%s.step", sym(e, t->name)));
    Graph *g = begin_trace(m, name, t->name, GRAPH_STEP, true);
    uint32_t index = e->p->graphs.n - 1;
    for (uint32_t i = 0; i < e->states.n; i++)
        if (t->group_of.at[i] >= 0) {
            stand_in(e, g, e->states.at[i]);
            vec_push(e->a, moved, e->states.at[i]);
        }
    bool ok =
        trace_body(m, g, t->method, t) && diag_errors(e->diags) == before && check_loss(e, g, t);
    commit_states(e, g);
    if (ok)
        g = outlined(e, g, index, moved);
    Val *wrt = arena_array(e->a, Val, moved->n);
    Val *d = arena_array(e->a, Val, moved->n);
    for (uint32_t i = 0; i < moved->n; i++)
        wrt[i] = moved->at[i]->stand_in;
    Val dy = {0, 0}; /* 1 */
    if (ok && e->o->amp == DT_f16)
        dy = build_cast(&e->b, build_state(&e->b, loss_scale(e, t)),
                        val_info(e->p, g, g->results.at[0].val)->dtype);
    if (ok)
        ok = differentiate(&e->b, &g->results.at[0].val, &dy, 1, wrt, moved->n, d);
    if (!ok) {
        end_trace(m, g);
        return NULL;
    }
    drop_stand_ins(g, moved);
    Rewrite rw = rewrite_begin(e->p, g);
    for (uint32_t i = 0; i < moved->n; i++) {
        Val view = build_view(&rw.b, &e->p->state.at[moved->at[i]->view - 1]);
        rewrite_set(&rw, wrt[i], view);
        moved->at[i]->stand_in = (Val){0, 0};
        moved->at[i]->stand_in_graph = NULL;
    }
    for (uint32_t i = 0; i < moved->n; i++) {
        grads[i] = (Val){0, 0};
        if (!d[i].node)
            continue;
        rewrite_copy(&rw, d[i].node);
        grads[i] = rewrite_get(&rw, d[i]);
    }
    Graph *out = rewrite_end(&rw);
    e->p->graphs.at[index] = out;
    e->b = elab_builder(e, out);
    return out;
}

/* Gradients of one train, segment by segment: grads[i][k] of the k-th parameter of segment i. */
static Val **by_segment(Model *m, const States *moved, const Val *grads)
{
    Elab *e = m->e;
    Val **out = arena_array(e->a, Val *, m->segments.n);
    for (uint32_t i = 0; i < m->segments.n; i++) {
        const Segment *s = &m->segments.at[i];
        out[i] = arena_array(e->a, Val, s->states.n);
        for (uint32_t k = 0; k < s->states.n; k++)
            for (uint32_t j = 0; j < moved->n; j++)
                if (moved->at[j] == s->states.at[k])
                    out[i][k] = grads[j];
    }
    return out;
}

static bool segment_moves(const Model *m, const Segment *s, const Train *t)
{
    return s->grad && s->key.at[t - m->trains.at] >= 0;
}

static void make_step(Model *m, Train *t, Graph *init)
{
    Elab *e = m->e;
    States moved = {0};
    Val *grads = arena_array(e->a, Val, e->states.n);
    Graph *g = forward_backward(m, t, &moved, grads);
    if (!g)
        return;
    uint32_t index = 0;
    for (uint32_t i = 0; i < e->p->graphs.n; i++)
        if (e->p->graphs.at[i] == g)
            index = i;
    Val **parts = by_segment(m, &moved, grads);
    Val *whole = arena_array(e->a, Val, m->segments.n);
    bool **reached = arena_array(e->a, bool *, m->segments.n);
    e->b.stage = STAGE_UPDATE;
    for (uint32_t i = 0; i < m->segments.n; i++) {
        const Segment *s = &m->segments.at[i];
        reached[i] = arena_array(e->a, bool, s->states.n);
        if (!segment_moves(m, s, t))
            continue;
        for (uint32_t k = 0; k < s->states.n; k++)
            reached[i][k] = parts[i][k].node != 0;
        whole[i] = join_segment(e, s, parts[i], s->dtype);
    }
    TrainInfo info = {.method = t->name,
                      .graph_step = index,
                      .accumulate = (int)t->accumulate,
                      .scale = e->o->amp == DT_f16 ? loss_scale(e, t) : 0,
                      .at = t->decl->at};
    vec_push(e->a, &e->p->trains, info);
    if (!make_update(m, t, g, whole, reached, init))
        return;
    end_trace(m, g);

    Sym name = sym_new(e, arena_printf(e->a, "%s.update", sym(e, t->name)));
    g = begin_trace(m, name, t->name, GRAPH_UPDATE, true);
    g->at = t->decl->at;
    e->b.stage = STAGE_UPDATE;
    for (uint32_t i = 0; i < m->segments.n; i++) {
        if (!segment_moves(m, &m->segments.at[i], t))
            continue;
        Val sum = build_state(&e->b, m->segments.at[i].grad);
        Val n = build_const(&e->b, m->segments.at[i].dtype, 1.0 / (double)t->accumulate);
        whole[i] = t->accumulate > 1 ? build2(&e->b, OP_mul, sum, n) : sum;
    }
    make_update(m, t, g, whole, reached, NULL);
    end_trace(m, g);
}

void make_steps(Model *m, Graph *init)
{
    for (uint32_t i = 0; i < m->trains.n; i++)
        make_step(m, &m->trains.at[i], init);
}
