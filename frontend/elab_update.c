/* elab_update.c: the optimizer's step over the segments of a train: clipping, hyper-parameters,
 * buffers, one map a segment where the step is pointwise, else parameter by parameter.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab_program.h"

#include <math.h>
#include <string.h>

typedef struct {
    Model *m;
    Train *t;
    Elab *e;
    Graph *g, *init;
    Val *grads;     /* [segment] */
    bool **reached; /* [segment][parameter]: the loss reaches it */
    Val step;       /* i64[]: the number of this step, from 1 */
    Val last;       /* with `accumulate`: bool[], whether this call makes a step; else node 0 */
} Update;

/* What the average of a train's parameters is called in state files: METHOD.average.PARAMETER. */
static const char AVERAGE[] = "average";

/* slot <- v, on calls that make a step. */
static void commit(const Update *u, uint32_t slot, Val v)
{
    Elab *e = u->e;
    if (u->last.node)
        v = build3(&e->b, OP_where, u->last, v, build_state(&e->b, slot));
    graph_commit(e->p, u->g, slot, v);
}

/* ---- slots, made once and found again by name ---- */

static uint32_t find_slot(Elab *e, Sym name)
{
    for (uint32_t i = 1; i < e->p->slots.n; i++)
        if (sym_eq(e->p->slots.at[i].name, name))
            return i;
    return 0;
}

static uint32_t scalar_slot(const Update *u, const char *name, SlotKind kind, DType t,
                            double initial)
{
    Elab *e = u->e;
    Sym s = sym_new(e, arena_printf(e->a, "%s.%s", sym(e, u->t->name), name));
    uint32_t slot = find_slot(e, s);
    if (slot)
        return slot;
    slot = program_add_slot(e->p, (Slot){.name = s,
                                         .kind = kind,
                                         .type = type_of(e->p, t, NULL, 0, PLACE_D0),
                                         .saved = true,
                                         .initial = initial,
                                         .at = u->t->decl->at});
    StateView v = {.name = s,
                   .slot = slot,
                   .type = e->p->slots.at[slot].type,
                   .saved = true,
                   .at = u->t->decl->at};
    vec_push(e->a, &e->p->state, v);
    return slot;
}

static Value hyper(const Update *u, const char *name, double initial)
{
    const uint32_t before = u->e->p->slots.n;
    if (u->e->o->amp == DT_f16 && !strcmp(name, "scale")) {
        elab_error(u->e, DIAG_bad_train, u->t->decl->at,
                   "-famp=f16 has a 'scale' of its own, of the loss: that of the optimizer needs "
                   "another name");
        return v_poison();
    }
    uint32_t slot = scalar_slot(u, name, SLOT_HYPER, DT_f64, initial);
    if (u->e->p->slots.n > before)
        vec_push(u->e->a, &vec_last(&u->e->p->trains).hypers, slot);
    return v_late(u->e, build_state(&u->e->b, slot));
}

/* ---- hyper-parameters ---- */

/* A float is late, alone or in a list; a function is a schedule of the step; all else is static. */
static Value hyper_value(const Update *u, const char *name, const Value *v, Span at)
{
    Elab *e = u->e;
    if (v->kind == V_float)
        return hyper(u, name, v->f);
    if (v->kind == V_fn) {
        Value t = v_late(e, u->step);
        Value r = call1(e, v, t, at);
        if (is_static_number(&r))
            return v_float(static_number(&r));
        if (r.kind == V_late || r.kind == V_size)
            return v_late(e, build_cast(&e->b, use_val(e, &r), DT_f64));
        if (!is_poison(&r))
            elab_error(e, DIAG_bad_train, at, "a schedule gives a number, not %s", a_kind(&r));
        return v_poison();
    }
    if (v->kind != V_list)
        return *v;
    Values out = {0};
    for (uint32_t i = 0; i < v->list->n; i++)
        vec_push(e->a, &out,
                 hyper_value(u, arena_printf(e->a, "%s%u", name, i), &v->list->at[i], at));
    return v_list(e, out.at, out.n);
}

/* The optimizer as an instance: its parameters are members. */
static Instance *optimizer_instance(const Update *u, int group)
{
    Elab *e = u->e;
    const AstDecl *d = u->t->optim->module->decl;
    const TrainGroup *g = &u->t->groups.at[group];
    Instance *inst = arena_new(e->a, Instance);
    *inst = (Instance){.module = u->t->optim->module,
                       .dtype = e->float_type,
                       .named = true,
                       .at = u->t->optim->at};
    for (uint32_t i = 0; i < d->params.n; i++) {
        const AstParam *p = &d->params.at[i];
        const char *name = sym(e, p->name.sym);
        bool own =
            group > 0 && g->own[i] && !value_equal(&g->config[i], &u->t->groups.at[0].config[i]);
        if (own)
            name = arena_printf(e->a, "group%d.%s", group - 1, name);
        Value v = hyper_value(u, name, &g->config[i], u->t->decl->value->at);
        vec_push(
            e->a, &inst->members,
            ((Member){.name = p->name.sym, .kind = MEMBER_config, .value = v, .at = p->name.at}));
    }
    return inst;
}

/* ---- buffers of the optimizer ---- */

static DType buffer_dtype(Elab *e, const AstType *t, DType p)
{
    if (!t || !t->is_dtype)
        return p;
    DType d = dtype_parse(sym(e, t->name.sym));
    return d == DT_none ? p : d;
}

/* INIT of a buffer for one parameter (or a whole segment, as a value of its shape). */
static bool buffer_initial(const Update *u, const Env *env, const AstStmt *s, Val p,
                           const TypeInfo *type, Val *out)
{
    Elab *e = u->e;
    Env inner = *env;
    inner.scope = scope_push(e, NULL);
    scope_set(e, inner.scope, sym_new(e, "p"), v_tensor(e, p), s->at);
    Value v = eval(e, &inner, s->value);
    return !is_poison(&v) && initial_value(e, &v, type, NULL, s->value->at, out);
}

static void init_moment(const Update *u, const Env *env, const AstStmt *s, const Segment *seg,
                        uint32_t slot, DType dtype)
{
    Elab *e = u->e;
    Builder outer = e->b;
    Graph *entry = e->entry;
    e->b = elab_builder(e, u->init);
    e->entry = NULL;
    TypeInfo type = *type_info(e->p, e->p->slots.at[slot].type);
    Val whole = {0, 0};
    if (s->value->kind == EX_name && strcmp(sym(e, s->value->name), "zeros") == 0) {
        whole =
            build_at_place(&e->b, build_full(&e->b, dtype, 0, type.shape, type.rank), type.place);
    } else {
        Val *parts = arena_array(e->a, Val, seg->states.n);
        bool ok = true;
        for (uint32_t i = 0; i < seg->states.n; i++) {
            Val p = use_val(e, &seg->states.at[i]->initial);
            TypeInfo t = seg->states.at[i]->type;
            t.dtype = dtype;
            ok &= buffer_initial(u, env, s, p, &t, &parts[i]);
        }
        if (ok)
            whole = join_segment(e, seg, parts, dtype);
    }
    if (whole.node)
        graph_commit(e->p, u->init, slot, whole);
    e->b = outer;
    e->entry = entry;
}

/* METHOD.WHAT.SEGMENT, with a view for each parameter, laid out as `seg` or in shapes of its own;
 * *made: it is new. */
static uint32_t segment_slot(const Update *u, const char *what, const Segment *seg, DType dtype,
                             Span at, bool *made)
{
    Elab *e = u->e;
    const char *base = arena_printf(e->a, "%s.%s", sym(e, u->t->name), what);
    Sym name =
        sym_new(e, arena_printf(e->a, "%s.%s", base, sym(e, e->p->slots.at[seg->slot].name)));
    uint32_t slot = find_slot(e, name);
    *made = slot == 0;
    if (slot)
        return slot;
    TypeInfo t = *type_info(e->p, e->p->slots.at[seg->slot].type);
    t.dtype = dtype;
    t.shape[0] = dim_const(e->dims, seg->size);
    slot = program_add_slot(e->p, (Slot){.name = name,
                                         .kind = SLOT_MOMENT,
                                         .type = type_make(e->p, t),
                                         .saved = true,
                                         .segment = seg->slot,
                                         .at = at});
    for (uint32_t i = 0; i < seg->states.n; i++) {
        TypeInfo part = seg->states.at[i]->type;
        part.dtype = dtype;
        StateView v = {
            .name = sym_new(e, arena_printf(e->a, "%s.%s", base, sym(e, seg->states.at[i]->name))),
            .slot = slot,
            .offset = seg->offset.at[i],
            .type = type_make(e->p, part),
            .saved = true,
            .at = at};
        vec_push(e->a, &e->p->state, v);
    }
    return slot;
}

/* The shape of a buffer that has one of its own, from its type, in which `p` has the parameter's.
 */
static bool shape_for(const Update *u, const Env *env, const AstStmt *s, State *st)
{
    Elab *e = u->e;
    Env inner = *env;
    const Value info = {.kind = V_info, .state = st};
    TypeInfo type;
    inner.scope = scope_push(e, NULL);
    scope_set(e, inner.scope, sym_new(e, "p"), info, s->at);
    if (!type_eval(e, &inner, s->type, &type, NULL))
        return false;
    for (uint32_t i = 0; i < type.rank; i++) {
        int64_t n;
        if (!dim_is_const(e->dims, type.shape[i], &n)) {
            elab_error(e, DIAG_bad_type, s->type->at,
                       "the sizes of an optimizer's buffer are known while compiling");
            return false;
        }
    }
    type.place = st->type.place;
    st->type = type;
    return true;
}

/* `buffer b: [..] = ..`: for each parameter a tensor of this shape. Else buffers are like the
 * parameters, all behind each other as these are. NULL: a message was given. */
static const Segment *buffer_layout(const Update *u, const Env *env, const AstStmt *s,
                                    const Segment *seg)
{
    Elab *e = u->e;
    if (!s->type || s->type->kind != TYPE_tensor)
        return seg;
    Segment *own = arena_new(e->a, Segment);
    *own = (Segment){.slot = seg->slot, .dtype = seg->dtype, .place = seg->place};
    for (uint32_t i = 0; i < seg->states.n; i++) {
        State *st = arena_new(e->a, State);
        *st = *seg->states.at[i];
        if (!shape_for(u, env, s, st))
            return NULL;
        segment_add(e, own, st);
    }
    return own;
}

/* ---- the body of the optimizer ---- */

typedef struct {
    const AstStmt *stmt;
    State *state;
    uint32_t slot;
    const Segment *layout;
} Moment;
typedef VEC(Moment) Moments;

static void declare_buffer(const Update *u, const Env *env, const AstStmt *s, const Segment *seg,
                           Moments *moments)
{
    Elab *e = u->e;
    const char *name = sym(e, s->name.sym);
    if (u->t->average.kind == V_fn && strcmp(name, AVERAGE) == 0) {
        elab_error(
            e, DIAG_bad_train, s->name.at,
            "a train with an average needs the name '%s': the optimizer's buffer needs another",
            name);
        return;
    }
    State *st = arena_new(e->a, State);
    *st = (State){.saved = true, .name = s->name.sym, .at = s->name.at, .file = env->file};
    Moment mo = {.stmt = s, .state = st, .layout = buffer_layout(u, env, s, seg)};
    if (!mo.layout)
        return;
    bool made;
    const DType dtype = buffer_dtype(e, s->type, seg->dtype);
    mo.slot = segment_slot(u, name, mo.layout, dtype, s->at, &made);
    if (made && u->init)
        init_moment(u, env, s, mo.layout, mo.slot, dtype);
    vec_push(e->a, moments, mo);
    vec_push(e->a, &env->inst->members,
             ((Member){.name = s->name.sym, .kind = MEMBER_state, .state = st, .at = s->name.at}));
}

static void declare_body(const Update *u, const Env *env, const AstStmts *body, const Segment *seg,
                         Moments *moments)
{
    Elab *e = u->e;
    Instance *inst = env->inst;
    for (uint32_t i = 0; i < body->n; i++) {
        const AstStmt *s = body->at[i];
        Body ret = {0};
        if (s->kind == ST_buffer) {
            declare_buffer(u, env, s, seg, moments);
        } else if (s->kind == ST_fn) {
            Fn *fn = arena_new(e->a, Fn);
            *fn = (Fn){.ast = s->fn, .file = env->file, .inst = inst, .name = s->fn->name.sym};
            vec_push(e->a, &inst->members,
                     ((Member){.name = fn->name,
                               .kind = MEMBER_fn,
                               .value = {.kind = V_fn, .fn = fn},
                               .at = s->fn->name.at}));
        } else if (s->kind == ST_if) {
            bool c;
            if (eval_bool(e, env, s->list, &c, "choose a branch"))
                declare_body(u, env, c ? &s->body : &s->orelse, seg, moments);
        } else if (s->kind == ST_param) {
            elab_error(e, DIAG_misplaced, s->at, "an optimizer has buffers, no parameters");
        } else {
            run_stmt(e, env, s, &ret);
        }
    }
}

/* ---- stepping ---- */

static bool looks_at_shape(Elab *e, const Fn *fn)
{
    static const char *const words[] = {"shape", "ndim", "numel", "T", "mT"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (body_uses(&fn->ast->body, sym_new(e, words[i])))
            return true;
    return false;
}

/* Runs step(p, g, t) with the buffers at these values; the new values of buffers are in .now. */
static bool call_step(const Update *u, Fn *step, Moments *moments, const Val *old, Val p, Val g,
                      Val *new_p)
{
    Elab *e = u->e;
    for (uint32_t i = 0; i < moments->n; i++) {
        State *s = moments->at[i].state;
        s->type = *type_at(e, old[i]);
        s->now = old[i];
        s->now_graph = e->b.g;
    }
    Args args = {0};
    Span at = u->t->decl->value->at;
    vec_push(e->a, &args, ((Arg){.value = v_tensor(e, p), .at = at}));
    vec_push(e->a, &args, ((Arg){.value = v_tensor(e, g), .at = at}));
    vec_push(e->a, &args, ((Arg){.value = v_late(e, u->step), .at = at}));
    Value v = call_fn(e, step, &args, at);
    if (v.kind != V_tensor) {
        if (!is_poison(&v))
            elab_error(e, DIAG_bad_train, step->ast->at, "step gives the new parameter, not %s",
                       a_kind(&v));
        return false;
    }
    TypeInfo want = *type_at(e, p), got = *value_type(e, &v);
    bool same = want.rank == got.rank;
    for (uint32_t i = 0; same && i < want.rank; i++)
        same = dim_equal(e->dims, want.shape[i], got.shape[i]) == YES;
    if (!same) {
        elab_error(e, DIAG_bad_train, step->ast->at, "step changes the shape %s to %s",
                   val_shape_str(e, p), val_shape_str(e, use_val(e, &v)));
        return false;
    }
    *new_p = build_cast(&e->b, use_val(e, &v), want.dtype);
    return true;
}

static bool all_pointwise(const Graph *g, uint32_t from)
{
    for (uint32_t i = from; i < g->nodes.n; i++) {
        Op op = g->nodes.at[i].op;
        if (!op_is_pointwise(op) && op != OP_const && op != OP_cast && op != OP_dim &&
            op != OP_broadcast && op != OP_state && op != OP_extern && op != OP_transfer)
            return false;
    }
    return true;
}

/* A parameter that the loss does not reach keeps its old values. */
static Val keep_unreached(const Update *u, const Segment *seg, const bool *reached, Val new_v,
                          Val old_v)
{
    Elab *e = u->e;
    bool all = true;
    for (uint32_t i = 0; i < seg->states.n; i++)
        all &= reached[i];
    if (all)
        return new_v;
    Val *parts = arena_array(e->a, Val, seg->states.n);
    for (uint32_t i = 0; i < seg->states.n; i++)
        parts[i] = segment_part(e, seg, i, reached[i] ? new_v : old_v);
    return join_segment(e, seg, parts, type_at(e, new_v)->dtype);
}

/* The average of a segment moves to where its train wants it, now that the parameters have moved:
 * of all of them, since what the loss does not reach may have come from a file. */
static bool follow(const Update *u, const Segment *seg, Val p)
{
    Elab *e = u->e;
    const Value *f = &u->t->average;
    const Span at = u->t->decl->at;
    if (f->kind != V_fn)
        return true;
    bool made;
    const uint32_t slot = segment_slot(u, AVERAGE, seg, seg->dtype, at, &made);
    const Val old = build_state(&e->b, slot);
    const uint32_t from = e->b.g->nodes.n;
    Args args = {0};
    vec_push(e->a, &args, ((Arg){.value = v_tensor(e, old), .at = at}));
    vec_push(e->a, &args, ((Arg){.value = v_tensor(e, p), .at = at}));
    vec_push(e->a, &args, ((Arg){.value = v_late(e, u->step), .at = at}));
    const Value v = call_fn(e, f->fn, &args, at);
    if (is_poison(&v))
        return false;
    const Val fresh = v.kind == V_tensor ? use_val(e, &v) : (Val){0, 0};
    if (!fresh.node || val_info(e->p, e->b.g, fresh)->rank != 1 ||
        dim_equal(e->dims, type_at(e, fresh)->shape[0], type_at(e, old)->shape[0]) != YES ||
        !all_pointwise(e->b.g, from)) {
        elab_error(e, DIAG_bad_train, f->fn->ast->at,
                   "an average is a value for each element of a parameter, of that element alone");
        return false;
    }
    commit(u, slot, build_cast(&e->b, fresh, seg->dtype));
    return true;
}

static bool step_whole(const Update *u, const Segment *seg, uint32_t k, Fn *step, Moments *moments)
{
    Elab *e = u->e;
    Val p = build_state(&e->b, seg->slot), new_p;
    Val *old = arena_array(e->a, Val, moments->n);
    for (uint32_t i = 0; i < moments->n; i++)
        old[i] = build_state(&e->b, moments->at[i].slot);
    uint32_t from = e->b.g->nodes.n;
    if (!call_step(u, step, moments, old, p, u->grads[k], &new_p) || !all_pointwise(e->b.g, from))
        return false;
    new_p = keep_unreached(u, seg, u->reached[k], new_p, p);
    commit(u, seg->slot, new_p);
    for (uint32_t i = 0; i < moments->n; i++)
        commit(u, moments->at[i].slot,
               keep_unreached(u, seg, u->reached[k], moments->at[i].state->now, old[i]));
    return follow(u, seg, new_p);
}

static bool step_each(const Update *u, const Segment *seg, uint32_t k, Fn *step, Moments *moments)
{
    Elab *e = u->e;
    uint32_t n = seg->states.n;
    Val whole = build_state(&e->b, seg->slot);
    Val *new_p = arena_array(e->a, Val, n);
    Val **new_m = arena_array(e->a, Val *, moments->n);
    for (uint32_t j = 0; j < moments->n; j++)
        new_m[j] = arena_array(e->a, Val, n);
    for (uint32_t i = 0; i < n; i++) {
        Val *old = arena_array(e->a, Val, moments->n);
        for (uint32_t j = 0; j < moments->n; j++)
            old[j] =
                segment_part(e, moments->at[j].layout, i, build_state(&e->b, moments->at[j].slot));
        Val p = segment_part(e, seg, i, whole), g = segment_part(e, seg, i, u->grads[k]);
        new_p[i] = p;
        if (u->reached[k][i] && !call_step(u, step, moments, old, p, g, &new_p[i]))
            return false;
        for (uint32_t j = 0; j < moments->n; j++)
            new_m[j][i] = u->reached[k][i] ? moments->at[j].state->now : old[j];
    }
    const Val joined = join_segment(e, seg, new_p, seg->dtype);
    commit(u, seg->slot, joined);
    for (uint32_t j = 0; j < moments->n; j++) {
        uint32_t slot = moments->at[j].slot;
        DType t = type_info(e->p, e->p->slots.at[slot].type)->dtype;
        commit(u, slot, join_segment(e, moments->at[j].layout, new_m[j], t));
    }
    return follow(u, seg, joined);
}

static bool step_segment(const Update *u, uint32_t k, int group)
{
    Elab *e = u->e;
    const Segment *seg = &u->m->segments.at[k];
    Moments moments = {0};
    Instance *inst = optimizer_instance(u, group);
    const AstDecl *d = u->t->optim->module->decl;
    Env env = {.file = u->t->optim->module->file, .inst = inst, .scope = scope_push(e, NULL)};
    int before = diag_errors(e->diags);
    declare_body(u, &env, &d->body, seg, &moments);
    Member *step = member_find(inst, sym_new(e, "step"));
    if (!step || step->kind != MEMBER_fn) {
        elab_error(e, DIAG_bad_train, d->name.at, "the optimizer %s has no fn step(p, g, t)",
                   sym(e, d->name.sym));
        return false;
    }
    if (diag_errors(e->diags) > before)
        return false;
    bool alike = true; /* all buffers lie as the parameters do */
    for (uint32_t i = 0; i < moments.n; i++)
        alike &= moments.at[i].layout == seg;
    if (alike && !looks_at_shape(e, step->value.fn) &&
        step_whole(u, seg, k, step->value.fn, &moments))
        return true;
    if (diag_errors(e->diags) > before)
        return false;
    return step_each(u, seg, k, step->value.fn, &moments);
}

/* ---- clipping ---- */

static bool moves(const Update *u, uint32_t k)
{
    return u->grads[k].node != 0 && u->m->segments.at[k].key.at[u->t - u->m->trains.at] >= 0;
}

static void clip(Update *u)
{
    Elab *e = u->e;
    Builder *b = &e->b;
    if (u->t->clip_value.kind == V_int || u->t->clip_value.kind == V_float) {
        Value limit = hyper(u, "clip_value", static_number(&u->t->clip_value));
        for (uint32_t k = 0; k < u->m->segments.n; k++) {
            if (!moves(u, k))
                continue;
            Val hi = build_cast(b, use_val(e, &limit), u->m->segments.at[k].dtype);
            u->grads[k] = build3(b, OP_clamp, u->grads[k], build1(b, OP_neg, hi), hi);
        }
    }
    if (u->t->clip_norm.kind != V_int && u->t->clip_norm.kind != V_float)
        return;
    Value limit = hyper(u, "clip_norm", static_number(&u->t->clip_norm));
    Val sum = {0, 0};
    int64_t axis = 0;
    DType wide = DT_f32;
    for (uint32_t k = 0; k < u->m->segments.n; k++)
        if (moves(u, k) && u->m->segments.at[k].dtype == DT_f64)
            wide = DT_f64;
    for (uint32_t k = 0; k < u->m->segments.n; k++) {
        if (!moves(u, k))
            continue;
        Val sq = build1(b, OP_square, build_cast(b, u->grads[k], wide));
        Val part = build_reduce(b, RED_add, sq, &axis, 1);
        part = build_at_place(b, part, PLACE_D0); /* the norm is one number */
        sum = sum.node ? build2(b, OP_add, sum, part) : part;
    }
    if (!sum.node)
        return;
    Val norm = build2(b, OP_add, build1(b, OP_sqrt, sum), build_const(b, wide, 1e-6));
    Val scale = build2(b, OP_div, build_cast(b, use_val(e, &limit), wide), norm);
    scale = build2(b, OP_min, scale, build_const(b, wide, 1));
    for (uint32_t k = 0; k < u->m->segments.n; k++) {
        const Segment *seg = &u->m->segments.at[k];
        if (moves(u, k))
            u->grads[k] = build2(b, OP_mul, u->grads[k],
                                 build_cast(b, build_at_place(b, scale, seg->place), seg->dtype));
    }
}

/* ---- accumulation ---- */

/* `accumulate = N`: a call adds its gradient to a sum; the N-th makes a step with the mean and
 * clears it. Which call this is, is state too, so the decision is a `where` over what is committed.
 */
static void accumulate(Update *u)
{
    Elab *e = u->e;
    Builder *b = &e->b;
    uint32_t counter = scalar_slot(u, "call", SLOT_COUNTER, DT_i64, 0);
    Val one = build_const_int(b, DT_i64, 1), zero = build_const_int(b, DT_i64, 0);
    Val call = build2(b, OP_add, build_state(b, counter), one);
    u->last = build2(b, OP_ge, call, build_const_int(b, DT_i64, u->t->accumulate));
    graph_commit(e->p, u->g, counter, build3(b, OP_where, u->last, zero, call));
    for (uint32_t k = 0; k < u->m->segments.n; k++) {
        if (!moves(u, k))
            continue;
        const Segment *seg = &u->m->segments.at[k];
        bool made;
        uint32_t slot = segment_slot(u, "accumulated", seg, seg->dtype, u->t->decl->at, &made);
        Val sum = build2(b, OP_add, build_state(b, slot), u->grads[k]);
        Val none = build_const(b, seg->dtype, 0);
        graph_commit(e->p, u->g, slot, build3(b, OP_where, u->last, none, sum));
        u->grads[k] =
            build2(b, OP_mul, sum, build_const(b, seg->dtype, 1.0 / (double)u->t->accumulate));
        Builder init = builder_for(e->p, u->init);
        const TypeInfo *t = type_info(e->p, e->p->slots.at[slot].type);
        graph_commit(e->p, u->init, slot, build_full(&init, t->dtype, 0, t->shape, t->rank));
    }
}

/* ---- loss scaling (-famp=f16) ---- */

enum { CALLS_TO_GROW = 2000 };

static const double LOSS_SCALE = 65536; /* to begin with */

uint32_t loss_scale(Elab *e, Train *t)
{
    const Update u = {.t = t, .e = e};
    return scalar_slot(&u, "scale", SLOT_HYPER, DT_f64, LOSS_SCALE);
}

/* Gradients in a step are those of the loss times the scale; those that a GRAD graph added up are
 * the loss's own. *good: all are finite. */
static void unscale(Update *u, Val *good)
{
    Elab *e = u->e;
    Builder *b = &e->b;
    const uint32_t slot = scalar_slot(u, "scale", SLOT_HYPER, DT_f64, LOSS_SCALE);
    const Val one = build_const(b, DT_f64, 1);
    const Val inverse = build2(b, OP_div, one, build_state(b, slot));
    const int64_t axis = 0;
    Val bad = {0, 0};
    for (uint32_t k = 0; k < u->m->segments.n; k++) {
        if (!moves(u, k))
            continue;
        const Segment *seg = &u->m->segments.at[k];
        const Val by = build_cast(b, build_at_place(b, inverse, seg->place), seg->dtype);
        if (u->init)
            u->grads[k] = build2(b, OP_mul, u->grads[k], by);
        const Val size = build1(b, OP_abs, u->grads[k]);
        const Val finite = build2(b, OP_lt, size, build_const(b, seg->dtype, INFINITY));
        const Val count = build3(b, OP_where, finite, build_const(b, DT_f32, 0),
                                 build_const(b, DT_f32, 1)); /* NaN is below nothing */
        const Val n = build_at_place(b, build_reduce(b, RED_add, count, &axis, 1), PLACE_D0);
        bad = bad.node ? build2(b, OP_add, bad, n) : n;
    }
    *good = bad.node ? build2(b, OP_eq, bad, build_const(b, DT_f32, 0)) : (Val){0, 0};
}

/* A step whose gradients are not finite changes nothing but the scale, as PyTorch's GradScaler
 * does: half of it then, twice after so many good ones. */
static void skip_if_bad(Update *u, Val good, uint32_t first)
{
    Elab *e = u->e;
    Builder *b = &e->b;
    for (uint32_t i = first; i < u->g->commits.n; i++) {
        const Commit c = u->g->commits.at[i];
        const Val old = build_state(b, c.slot);
        const Place place = type_at(e, old)->place;
        u->g->commits.at[i].val = build3(b, OP_where, build_at_place(b, good, place), c.val, old);
    }
    const uint32_t scale = scalar_slot(u, "scale", SLOT_HYPER, DT_f64, LOSS_SCALE);
    const uint32_t calls = scalar_slot(u, "scale_calls", SLOT_COUNTER, DT_i64, 0);
    const uint32_t skipped = scalar_slot(u, "skipped", SLOT_COUNTER, DT_i64, 0);
    const Val zero = build_const_int(b, DT_i64, 0), one = build_const_int(b, DT_i64, 1);
    const Val now = build2(b, OP_add, build_state(b, calls), one);
    const Val grown = build2(b, OP_ge, now, build_const_int(b, DT_i64, CALLS_TO_GROW));
    const Val old = build_state(b, scale);
    const Val twice = build2(b, OP_mul, old, build_const(b, DT_f64, 2));
    const Val half = build2(b, OP_mul, old, build_const(b, DT_f64, 0.5));
    const Val kept = build3(b, OP_where, grown, twice, old);
    graph_commit(e->p, u->g, scale, build3(b, OP_where, good, kept, half));
    const Val left = build3(b, OP_where, grown, zero, now);
    graph_commit(e->p, u->g, calls, build3(b, OP_where, good, left, zero));
    const Val more = build3(b, OP_where, good, zero, one);
    graph_commit(e->p, u->g, skipped, build2(b, OP_add, build_state(b, skipped), more));
}

void make_averages(Model *m, Graph *init)
{
    Elab *e = m->e;
    for (uint32_t i = 0; i < m->trains.n; i++) {
        Train *t = &m->trains.at[i];
        const Update u = {.m = m, .t = t, .e = e, .init = init};
        if (t->average.kind != V_fn)
            continue;
        const uint32_t steps = scalar_slot(&u, "t", SLOT_COUNTER, DT_i64, 0);
        for (uint32_t k = 0; k < m->segments.n; k++) {
            const Segment *seg = &m->segments.at[k];
            if (!seg->grad || seg->key.at[i] < 0)
                continue;
            bool made;
            const uint32_t before = e->p->state.n;
            const uint32_t slot = segment_slot(&u, AVERAGE, seg, seg->dtype, t->decl->at, &made);
            Val *parts = arena_array(e->a, Val, seg->states.n);
            for (uint32_t j = 0; j < seg->states.n; j++) {
                if (seg->states.at[j]->average)
                    elab_error(e, DIAG_bad_train, t->decl->at,
                               "another train keeps averages of '%s' already",
                               sym(e, seg->states.at[j]->name));
                parts[j] = use_val(e, &seg->states.at[j]->initial);
                seg->states.at[j]->average = before + j + 1;
                seg->states.at[j]->steps = steps;
            }
            graph_commit(e->p, init, slot, join_segment(e, seg, parts, seg->dtype));
        }
    }
}

bool make_update(Model *m, Train *t, Graph *g, Val *grads, bool **reached, Graph *init)
{
    Elab *e = m->e;
    Update u = {.m = m, .t = t, .e = e, .g = g, .init = init, .grads = grads, .reached = reached};
    e->training = true;
    const uint32_t first = g->commits.n;
    Val good = {0, 0};
    if (e->o->amp == DT_f16)
        unscale(&u, &good);
    uint32_t counter = scalar_slot(&u, "t", SLOT_COUNTER, DT_i64, 0);
    if (init && t->accumulate > 1)
        accumulate(&u);
    Val one = build_const_int(&e->b, DT_i64, 1);
    u.step = build2(&e->b, OP_add, build_state(&e->b, counter), one);
    commit(&u, counter, u.step);
    clip(&u);
    bool ok = true;
    for (uint32_t k = 0; k < m->segments.n; k++)
        if (moves(&u, k))
            ok &= step_segment(&u, k, m->segments.at[k].key.at[t - m->trains.at]);
    if (good.node)
        skip_if_bad(&u, good, first);
    return ok;
}
