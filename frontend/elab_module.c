/* elab_module.c: instances: bodies of modules, parameters, buffers, ties, state names.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <string.h>

Member *member_find(Instance *inst, Sym name)
{
    for (uint32_t i = 0; i < inst->members.n; i++)
        if (sym_eq(inst->members.at[i].name, name))
            return &inst->members.at[i];
    return NULL;
}

Member *member_find_as(Instance *inst, Sym name)
{
    for (uint32_t i = 0; i < inst->members.n; i++) {
        Member *m = &inst->members.at[i];
        if (m->kind == MEMBER_state && m->as.id && sym_eq(m->as, name))
            return m;
    }
    return NULL;
}

/* ---- state ---- */

Value state_value(Elab *e, State *s)
{
    Value v;
    if (e->b.g == e->making) {
        v = s->initial;
        v.state = s;
        return v;
    }
    Graph *top = e->b.g, *inner = e->b.g;
    for (Capture *c = e->capture; c; c = c->up)
        top = c->outer;
    Capture *capture = e->capture;
    e->b.g = top;
    e->capture = NULL;
    if (s->now_graph == top && s->now.node) {
        v = v_tensor(e, s->now);
    } else if (s->stand_in_graph == top && s->stand_in.node) {
        v = v_tensor(e, s->stand_in);
    } else {
        CHECK(s->view > 0);
        v = v_tensor(e, build_view(&e->b, &e->p->state.at[s->view - 1]));
        written_set(e, v.val, s->how, s->type.rank);
    }
    e->b.g = inner;
    e->capture = capture;
    v.state = s;
    return v;
}

bool state_assign(Elab *e, State *s, const Value *v, Span at)
{
    if (e->b.g == e->making) {
        elab_error(e, DIAG_bad_target, at,
                   "a buffer is assigned in a method, not where it is made");
        return false;
    }
    if (is_poison(v))
        return false;
    if (v->kind != V_tensor && !is_number(v) && v->kind != V_bool) {
        elab_error(e, DIAG_bad_type, at, "a buffer holds a tensor, not %s", a_kind(v));
        return false;
    }
    Val x = val_as(e, v, s->type.dtype);
    const TypeInfo *t = type_at(e, x);
    bool fits = t->rank <= s->type.rank;
    for (uint32_t k = 0; fits && k < t->rank; k++) {
        Dim a = t->shape[t->rank - 1 - k], b = s->type.shape[s->type.rank - 1 - k];
        fits = dim_is_one(e->dims, a) || prove_equal(e, at, a, b);
    }
    if (!fits) {
        const Shape own = written_state_shape(s);
        Diag *d = elab_error(e, DIAG_shape_mismatch, at, "a buffer keeps its shape %s, this is %s",
                             shape_str(e, &own), val_shape_str(e, x));
        elab_note(e, d, s->at, "declared here");
        return false;
    }
    if (graph_node(e->b.g, x)->loose == LOOSE_NO &&
        !check_same_place(e, at, "this value of a buffer", t->place, s->type.place))
        return false;
    x = build_broadcast_to(&e->b, x, s->type.shape, s->type.rank);
    x = build_at_place(&e->b, x, s->type.place);
    if (dtype_is_float(s->type.dtype))
        x = build1(&e->b, OP_detach, x);
    s->now = x;
    s->now_graph = e->b.g;
    return true;
}

Value member_value(Elab *e, Instance *inst, Member *m, Span at)
{
    (void)at;
    if (m->kind == MEMBER_state)
        return state_value(e, m->state);
    Value v = m->value;
    if (m->kind == MEMBER_fn && inst->building) {
        v.fn->inst = inst;
    }
    return v;
}

/* ---- members ---- */

typedef struct {
    Elab *e;
    Instance *inst;
    int loop; /* depth of `for` around the statement */
} Maker;

static void add_methods(Elab *e, Instance *inst, const AstStmts *body)
{
    for (uint32_t i = 0; i < body->n; i++) {
        const AstStmt *s = body->at[i];
        if (s->kind != ST_fn)
            continue;
        Member *old = member_find(inst, s->fn->name.sym);
        if (old) {
            Diag *d = diag_report(e->diags, DIAG_duplicate_name, s->fn->name.at,
                                  "'%s' already names something in %s", sym(e, s->fn->name.sym),
                                  sym(e, inst->module->decl->name.sym));
            elab_note(e, d, old->at, "the other one is here");
            continue;
        }
        Fn *fn = arena_new(e->a, Fn);
        *fn = (Fn){.ast = s->fn, .file = inst->module->file, .inst = inst, .name = s->fn->name.sym};
        vec_push(e->a, &inst->members,
                 ((Member){.name = fn->name,
                           .kind = MEMBER_fn,
                           .value = {.kind = V_fn, .fn = fn},
                           .at = s->fn->name.at}));
    }
}

static void remove_member(Instance *inst, Member *m)
{
    uint32_t i = (uint32_t)(m - inst->members.at);
    memmove(m, m + 1, (inst->members.n - i - 1) * sizeof *m);
    inst->members.n--;
}

/* A new member; it may take the name of a config value. */
static Member *add_member(const Maker *k, const Env *env, Sym name, MemberKind kind, Span at)
{
    Elab *e = k->e;
    Member *old = member_find(k->inst, name);
    Span other = {0};
    const Local *local = scope_find(env->scope, name);
    const Global *global = file_find(env->file, name);
    if (old && old->kind == MEMBER_config && kind != MEMBER_let) {
        remove_member(k->inst, old);
        old = NULL;
    }
    if (old || local || global) {
        other = old ? old->at : local ? local->at : global->decl->name.at;
        Diag *d = elab_error(e, DIAG_duplicate_name, at, "'%s' already names something here",
                             sym(e, name));
        elab_note(e, d, other, "the other one is here");
    }
    if (k->loop)
        elab_error(e, DIAG_misplaced, at, "members are not declared in a loop: make a list");
    vec_push(e->a, &k->inst->members,
             ((Member){.name = name, .kind = kind, .value = v_poison(), .at = at}));
    return &vec_last(&k->inst->members);
}

static Sym state_segment(Elab *e, const Env *env, const AstStmt *s, Sym name, bool *none)
{
    *none = false;
    if (!s->as)
        return name;
    if (s->as->kind == EX_none) {
        *none = true;
        return name;
    }
    Value v = eval(e, env, s->as);
    if (v.kind == V_string)
        return sym_new(e, v.s);
    if (!is_poison(&v))
        elab_error(e, DIAG_bad_type, s->as->at, "a state name is a string, not %s", a_kind(&v));
    return name;
}

static bool static_shape(Elab *e, const TypeInfo *t, Span at)
{
    for (uint32_t i = 0; i < t->rank; i++) {
        int64_t c;
        if (!dim_is_const(e->dims, t->shape[i], &c)) {
            elab_error(e, DIAG_not_static, at, "the size %s is not known here",
                       dim_str(e, t->shape[i]));
            return false;
        }
    }
    return true;
}

/* INIT is evaluated in a frame of its own: its draws are named by the state alone, so that they
 * stay the same whatever else the model has. */
typedef struct {
    Frame frame, *outer_frame;
    State *outer;
} Initial;

static void begin_initial(Elab *e, Initial *i, State *s)
{
    i->outer = e->making_state;
    i->outer_frame = e->frame;
    i->frame = (Frame){.up = e->frame, .name = "INIT", .chain = HASH_START, .inside = true};
    if (e->frame) {
        i->frame.inst = e->frame->inst;
        i->frame.file = e->frame->file;
        i->frame.scope = e->frame->scope;
    }
    e->making_state = s;
    e->frame = &i->frame;
}

static void end_initial(Elab *e, const Initial *i)
{
    e->making_state = i->outer;
    e->frame = i->outer_frame;
}

static void set_initial(Elab *e, State *s, const Env *env, const AstExpr *init)
{
    Initial place;
    begin_initial(e, &place, s);
    Value v = eval(e, env, init);
    Val x;
    bool ok = !is_poison(&v) && initial_value(e, &v, &s->type, s->how, init->at, &x);
    if (!ok)
        x = build_full(&e->b, s->type.dtype, 0, s->type.shape, s->type.rank);
    written_set(e, x, s->how, s->type.rank);
    s->initial = v_tensor(e, x);
    end_initial(e, &place);
}

static void declare_state(const Maker *k, const Env *env, const AstStmt *s)
{
    Elab *e = k->e;
    TypeInfo type = {.dtype = e->float_type};
    const Written *how[MAX_RANK] = {0};
    bool none = false;
    Sym as = state_segment(e, env, s, s->name.sym, &none);
    bool ok = true;
    if (s->type)
        ok = type_eval(e, env, s->type, &type, how) && static_shape(e, &type, s->type->at);
    else
        elab_error(e, DIAG_bad_type, s->name.at, "'%s' needs a type", sym(e, s->name.sym));
    State *st = arena_new(e->a, State);
    *st = (State){.is_param = s->kind == ST_param,
                  .trainable = s->kind == ST_param,
                  .saved = !none,
                  .type = type,
                  .id = ++e->nstates,
                  .at = s->name.at,
                  .doc = s->doc,
                  .written = s->type,
                  .file = env->file};
    memcpy(st->how, how, sizeof how);
    if (st->is_param && !dtype_is_float(type.dtype)) {
        elab_error(e, DIAG_bad_state, s->name.at, "a parameter is of a float type, not %s",
                   dtype_name(type.dtype));
        ok = false;
    }
    if (!ok)
        st->type = (TypeInfo){.dtype = e->float_type};
    if (ok)
        set_initial(e, st, env, s->value);
    else
        st->initial = v_poison();
    Member *m = add_member(k, env, s->name.sym, MEMBER_state, s->name.at);
    m->state = st;
    m->as = as;
    m->has_as = s->as != NULL;
}

static void declare_lets(const Maker *k, const Env *env, const AstStmt *s)
{
    Elab *e = k->e;
    Values values = {0};
    uint32_t n = s->targets.n;
    Span *at = arena_array(e->a, Span, n);
    if (s->scan)
        elab_error(e, DIAG_misplaced, s->scan->op_at,
                   "a scan stands in a function, which the module's body may call");
    bool ok = !s->scan && unpack(e, env, &s->values, n, s->at, &values, at);
    for (uint32_t i = 0; i < n; i++) {
        Value v = ok ? values.at[i] : v_poison();
        const AstTarget *t = &s->targets.at[i];
        Sym name = t->name.sym;
        if (t->type && (is_poison(&v) || !check_let_type(e, env, t, &v, at[i]))) {
            poison_sizes(e, env, t->type);
            v = v_poison();
        }
        if (sym_eq(name, e->word.underscore))
            continue;
        Member *m = add_member(k, env, name, MEMBER_let, s->targets.at[i].name.at);
        m->value = v;
    }
}

static void declare_sub(const Maker *k, const Env *env, const AstStmt *s, Sym name, Span at)
{
    Elab *e = k->e;
    Value v = s->values.n == 1 ? eval(e, env, s->values.at[0]) : v_poison();
    if (s->values.n != 1)
        elab_error(e, DIAG_unpack, s->at, "a member takes one value");
    bool none = false;
    Sym as = state_segment(e, env, s, name, &none);
    Member *m = add_member(k, env, name, MEMBER_sub, at);
    m->as = as;
    m->has_as = s->as != NULL;
    if (!is_poison(&v) && !is_callable(&v) && v.kind != V_list) {
        elab_error(e, DIAG_bad_type, s->at,
                   "a member is a module, a function or a list of them, "
                   "not %s: write let",
                   a_kind(&v));
        return;
    }
    m->value = v;
}

/* `sub.weight = x`: the same parameter, if x is one; else another initial value. */
void set_member_state(Elab *e, const Env *env, const AstStmt *s)
{
    const AstExpr *place = s->places.at[0];
    Value base = eval(e, env, place->a);
    if (is_poison(&base))
        return;
    Member *m = NULL;
    if (base.kind == V_instance) {
        m = member_find_as(base.inst, place->name);
        if (!m)
            m = member_find(base.inst, place->name);
    }
    if (!m || m->kind != MEMBER_state || s->values.n != 1 || e->b.g != e->making) {
        elab_error(e, DIAG_bad_target, place->at,
                   "only a parameter or buffer of a module can be set here");
        return;
    }
    Instance *inst = base.inst;
    uint32_t index = (uint32_t)(m - inst->members.at);
    State *old = m->state;
    Initial init;
    begin_initial(e, &init, old);
    Value v = eval(e, env, s->values.at[0]);
    end_initial(e, &init);
    m = &inst->members.at[index];
    if (v.kind == V_tensor && v.state && v.state->is_param) {
        const TypeInfo *a = &old->type, *b = &v.state->type;
        bool same = a->rank == b->rank && a->dtype == b->dtype;
        for (uint32_t i = 0; same && i < a->rank; i++)
            same = dim_same(a->shape[i], b->shape[i]);
        if (!same) {
            const Shape p = written_state_shape(old), q = written_state_shape(v.state);
            elab_error(e, DIAG_bad_state, s->at, "cannot tie parameters of shape %s and %s",
                       shape_str(e, &p), shape_str(e, &q));
            return;
        }
        m->state = v.state;
        return;
    }
    if (is_poison(&v))
        return;
    Val x;
    begin_initial(e, &init, old);
    if (initial_value(e, &v, &old->type, old->how, s->values.at[0]->at, &x))
        old->initial = v_tensor(e, x);
    end_initial(e, &init);
}

static void make_block(const Maker *k, const Env *env, const AstStmts *body);

static void make_stmt(const Maker *k, const Env *env, const AstStmt *s)
{
    Elab *e = k->e;
    Body ret = {0};
    switch (s->kind) {
    case ST_param:
    case ST_buffer:
        declare_state(k, env, s);
        return;
    case ST_fn:
        return;
    case ST_let:
        if (env->body)
            declare_lets(k, env, s);
        else
            run_stmt(e, env, s, &ret);
        return;
    case ST_set:
        if (s->places.n == 1 && !s->scan) {
            const AstExpr *p = s->places.at[0];
            Member *m = p->kind == EX_name ? member_find(k->inst, p->name) : NULL;
            bool is_new = p->kind == EX_name && !scope_find(env->scope, p->name) &&
                          (!m || m->kind == MEMBER_config);
            if (is_new) {
                declare_sub(k, env, s, p->name, p->at);
                return;
            }
            if (p->kind == EX_field) {
                set_member_state(e, env, s);
                return;
            }
        }
        run_stmt(e, env, s, &ret);
        return;
    case ST_if: {
        bool c;
        if (!eval_bool(e, env, s->list, &c, "choose a branch")) {
            poison_members(e, env, k->inst, &s->body);
            poison_members(e, env, k->inst, &s->orelse);
            return;
        }
        if (!c && !s->has_else)
            return;
        Env inner = *env;
        inner.scope = scope_push(e, env->scope);
        inner.body = false;
        add_methods(e, k->inst, c ? &s->body : &s->orelse);
        make_block(k, &inner, c ? &s->body : &s->orelse);
        return;
    }
    case ST_for: {
        Value list = eval(e, env, s->list);
        Values items = {0};
        if (!value_items(e, s->list->at, &list, &items))
            return;
        Maker inside = *k;
        inside.loop++;
        for (uint32_t i = 0; i < items.n; i++) {
            Env inner = *env;
            inner.scope = scope_push(e, env->scope);
            inner.body = false;
            Values parts = {0};
            if (s->names.n == 1)
                vec_push(e->a, &parts, items.at[i]);
            else if (!value_items(e, s->list->at, &items.at[i], &parts))
                return;
            if (parts.n != s->names.n) {
                elab_error(e, DIAG_unpack, s->list->at, "%u names for %u values", s->names.n,
                           parts.n);
                return;
            }
            for (uint32_t j = 0; j < parts.n; j++)
                scope_declare(e, &inner, s->names.at[j].sym, parts.at[j], s->names.at[j].at);
            make_block(&inside, &inner, &s->body);
        }
        return;
    }
    case ST_on: {
        const Value d = eval(e, env, s->list);
        const Place outer = e->b.place;
        Place place;
        if (place_of(e, s->list->at, &d, "'on'", &place))
            e->b.place = place;
        make_block(k, env, &s->body);
        e->b.place = outer;
        return;
    }
    default:
        run_stmt(e, env, s, &ret);
        return;
    }
}

static void make_block(const Maker *k, const Env *env, const AstStmts *body)
{
    for (uint32_t i = 0; i < body->n; i++)
        make_stmt(k, env, body->at[i]);
}

/* ---- instances ---- */

static bool configure(Elab *e, Instance *inst, const char *who, const Args *args, Span at)
{
    const AstDecl *d = inst->module->decl;
    Value *value = arena_array(e->a, Value, d->params.n);
    Span *value_at = arena_array(e->a, Span, d->params.n);
    if (!bind_args(e, who, d->name.at, &d->params, args, at, value, value_at))
        return false;
    Env env = {.file = inst->module->file, .inst = inst};
    for (uint32_t i = 0; i < d->params.n; i++) {
        const AstParam *p = &d->params.at[i];
        if (value[i].kind == V_unset)
            value[i] = eval(e, &env, p->initial);
        if (is_poison(&value[i]) || !config_fits(e, who, p, &value[i], value_at[i]))
            return false;
        if (member_find(inst, p->name.sym)) {
            elab_error(e, DIAG_duplicate_name, p->name.at, "two config values are named '%s'",
                       sym(e, p->name.sym));
            return false;
        }
        vec_push(e->a, &inst->args, value[i]);
        vec_push(e->a, &inst->members,
                 ((Member){.name = p->name.sym,
                           .kind = MEMBER_config,
                           .value = value[i],
                           .as = p->name.sym,
                           .at = p->name.at}));
    }
    return true;
}

Value make_instance(Elab *e, const Env *caller, const ModuleRef *module, const Args *args, Span at)
{
    (void)caller;
    const AstDecl *d = module->decl;
    const char *who = sym(e, d->name.sym);
    if (e->b.g != e->making) {
        if (e->in_test) {
            Diag *diag = elab_error(e, DIAG_misplaced, at, "%s: a test cannot make a module", who);
            diag_note(e->diags, diag, (Span){0},
                      "declare a model, and call it in the test: module M { inner = %s(...); "
                      "fn forward(x: [B, 4]) -> [B, 4] { return inner(x) } }, model m = M(), m(x)",
                      who);
        } else {
            elab_error(e, DIAG_misplaced, at,
                       "%s: a module is made in a module's body or a model, not in a method", who);
        }
        return v_poison();
    }
    if (e->depth > 200) {
        elab_error(e, DIAG_recursion, at, "modules are nested too deeply");
        return v_poison();
    }
    Instance *inst = arena_new(e->a, Instance);
    if (e->o->check && !module->file->is_std)
        vec_push(e->a, &e->made, d);
    *inst = (Instance){.module = module,
                       .building = true,
                       .dtype = e->float_type,
                       .place = e->b.place,
                       .id = ++e->ninstances,
                       .at = at};
    int before = diag_errors(e->diags);
    State *outer = e->making_state;
    e->making_state = NULL;
    bool ok = configure(e, inst, who, args, at);
    Frame frame;
    push_frame(e, &frame, who, at, d->name.at, (Sym){0});
    frame.inst = inst;
    frame.file = module->file;
    frame.scope = inst;
    frame.inside = true;
    if (ok) {
        Maker k = {.e = e, .inst = inst};
        Env env = {.file = module->file, .inst = inst, .scope = scope_push(e, NULL), .body = true};
        add_methods(e, inst, &d->body);
        make_block(&k, &env, &d->body);
    }
    e->making_state = outer;
    pop_frame(e);
    inst->building = false;
    if (!ok || diag_errors(e->diags) > before)
        return v_poison();
    return (Value){.kind = V_instance, .inst = inst};
}

static Value remake_with(Elab *e, Instance *inst, const Values *config, Span at)
{
    Args args = {0};
    for (uint32_t i = 0; i < config->n; i++)
        vec_push(e->a, &args, ((Arg){.value = config->at[i], .at = at}));
    Env env = {0};
    return make_instance(e, &env, inst->module, &args, at);
}

static Value remake(Elab *e, Instance *inst, Span at)
{
    return remake_with(e, inst, &inst->args, at);
}

static Value moved_to(Elab *e, const Value *v, const Value *device, Span at);

/* The module and all modules in its config, made anew on a device. */
static Value instance_on(Elab *e, Instance *inst, const Value *device, Span at)
{
    Values config = {0};
    Place outer = e->b.place, place;
    if (!place_of(e, at, device, ".to", &place))
        return v_poison();
    for (uint32_t i = 0; i < inst->args.n; i++)
        vec_push(e->a, &config, moved_to(e, &inst->args.at[i], device, at));
    const DType outer_float = e->float_type;
    e->float_type = inst->dtype;
    e->b.place = place;
    const Value v = remake_with(e, inst, &config, at);
    e->b.place = outer;
    e->float_type = outer_float;
    if (v.kind == V_instance)
        v.inst->frozen = inst->frozen;
    return v;
}

static Value moved_to(Elab *e, const Value *v, const Value *device, Span at)
{
    Values items = {0};
    if (v->kind == V_instance)
        return instance_on(e, v->inst, device, at);
    if (v->kind != V_list || !holds_instance(v))
        return *v;
    for (uint32_t i = 0; i < v->list->n; i++)
        vec_push(e->a, &items, moved_to(e, &v->list->at[i], device, at));
    return v_list(e, items.at, items.n);
}

Value instance_to(Elab *e, Instance *inst, const Value *to, Span at)
{
    if (to->kind == V_dtype) {
        if (!dtype_is_float(to->dtype)) {
            elab_error(e, DIAG_dtype_mismatch, at, "a module's float type cannot be %s",
                       dtype_name(to->dtype));
            return v_poison();
        }
        DType outer = e->float_type;
        e->float_type = to->dtype;
        Value v = remake(e, inst, at);
        e->float_type = outer;
        return v;
    }
    if (to->kind == V_device)
        return instance_on(e, inst, to, at);
    elab_error(e, DIAG_bad_type, at, ".to takes a dtype or a device, not %s", a_kind(to));
    return v_poison();
}

bool builtin_copy(Elab *e, const Call *c, Value *out)
{
    if (c->arg[0].kind != V_instance) {
        elab_error(e, DIAG_bad_type, c->arg_at[0], "copy wants a module, not %s",
                   a_kind(&c->arg[0]));
        return false;
    }
    *out = remake(e, c->arg[0].inst, c->at);
    return !is_poison(out);
}

/* ---- walking the tree ---- */

static bool contains(const Value *v, const Value *part)
{
    if (part->kind == V_list) {
        for (uint32_t i = 0; i < part->list->n; i++)
            if (holds_instance(&part->list->at[i]) && !contains(v, &part->list->at[i]))
                return false;
        return true;
    }
    if (v->kind == V_instance)
        return v->inst == part->inst;
    for (uint32_t i = 0; v->kind == V_list && i < v->list->n; i++)
        if (contains(&v->list->at[i], part))
            return true;
    return false;
}

/* A config value that the body placed in a member is held there. */
static bool is_child(const Instance *inst, const Member *m)
{
    if ((m->kind != MEMBER_sub && m->kind != MEMBER_config) || !holds_instance(&m->value))
        return false;
    for (uint32_t i = 0; i < inst->members.n && m->kind == MEMBER_config; i++)
        if (inst->members.at[i].kind == MEMBER_sub &&
            contains(&inst->members.at[i].value, &m->value))
            return false;
    return true;
}

static void push_state(Elab *e, State *s, States *out)
{
    for (uint32_t i = 0; i < out->n; i++)
        if (out->at[i] == s)
            return;
    vec_push(e->a, out, s);
}

void states_below(Elab *e, const Value *v, States *out)
{
    if (v->kind == V_list) {
        for (uint32_t i = 0; i < v->list->n; i++)
            states_below(e, &v->list->at[i], out);
        return;
    }
    if (v->kind != V_instance)
        return;
    const Instance *inst = v->inst;
    for (int buffers = 0; buffers < 2; buffers++)
        for (uint32_t i = 0; i < inst->members.n; i++) {
            const Member *m = &inst->members.at[i];
            if (m->kind == MEMBER_state && m->state->is_param == !buffers)
                push_state(e, m->state, out);
        }
    for (uint32_t i = 0; i < inst->members.n; i++)
        if (is_child(inst, &inst->members.at[i]))
            states_below(e, &inst->members.at[i].value, out);
}

bool builtin_frozen(Elab *e, const Call *c, Value *out)
{
    if (!holds_instance(&c->arg[0])) {
        elab_error(e, DIAG_bad_type, c->arg_at[0], "frozen wants a module, not %s",
                   a_kind(&c->arg[0]));
        return false;
    }
    States below = {0};
    states_below(e, &c->arg[0], &below);
    for (uint32_t i = 0; i < below.n; i++)
        below.at[i]->trainable = false;
    *out = c->arg[0];
    return true;
}

bool builtin_parameters(Elab *e, const Call *c, Value *out)
{
    if (!holds_instance(&c->arg[0])) {
        elab_error(e, DIAG_bad_type, c->arg_at[0], "parameters wants a module, not %s",
                   a_kind(&c->arg[0]));
        return false;
    }
    States below = {0};
    Values v = {0};
    states_below(e, &c->arg[0], &below);
    for (uint32_t i = 0; i < below.n; i++)
        if (below.at[i]->is_param)
            vec_push(e->a, &v, state_value(e, below.at[i]));
    *out = v_list(e, v.at, v.n);
    return true;
}

/* ---- state names ---- */

static Sym joined(Elab *e, Sym prefix, const char *name)
{
    if (!prefix.id)
        return sym_new(e, name);
    return *name ? sym_new(e, arena_printf(e->a, "%s.%s", sym(e, prefix), name)) : prefix;
}

static void name_one(Elab *e, State *s, Sym name, Span at)
{
    if (s->name.id) {
        if (!sym_eq(s->name, name))
            vec_push(e->a, &s->aliases, name);
        return;
    }
    s->name = name;
    for (uint32_t i = 0; i < e->states.n; i++)
        if (sym_eq(e->states.at[i]->name, name)) {
            Diag *d = diag_report(e->diags, DIAG_bad_state, at, "two states are named '%s'",
                                  sym(e, name));
            diag_note(e->diags, d, e->states.at[i]->at, "the other one is here");
        }
    vec_push(e->a, &e->states, s);
}

static void name_below(Elab *e, const Value *v, Sym prefix, bool drop_index)
{
    if (v->kind == V_list) {
        for (uint32_t i = 0; i < v->list->n; i++)
            if (holds_instance(&v->list->at[i]))
                name_below(e, &v->list->at[i],
                           drop_index ? prefix : joined(e, prefix, arena_printf(e->a, "%u", i)),
                           false);
        return;
    }
    if (v->kind != V_instance)
        return;
    Instance *inst = v->inst;
    if (!inst->named) {
        inst->named = true;
        inst->path = prefix;
    }
    for (int buffers = 0; buffers < 2; buffers++)
        for (uint32_t i = 0; i < inst->members.n; i++) {
            const Member *m = &inst->members.at[i];
            if (m->kind == MEMBER_state && m->state->is_param == !buffers)
                name_one(e, m->state, joined(e, prefix, sym(e, m->as)), m->at);
        }
    for (uint32_t i = 0; i < inst->members.n; i++) {
        const Member *m = &inst->members.at[i];
        if (is_child(inst, m))
            name_below(e, &m->value, joined(e, prefix, sym(e, m->as)), !m->as.id);
    }
}

void name_states(Elab *e, Instance *root)
{
    Value v = {.kind = V_instance, .inst = root};
    name_below(e, &v, (Sym){0}, false);
}
