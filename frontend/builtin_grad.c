/* builtin_grad.c: grad(y, x) as a value, and calls of modules with other parameters.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"
#include "passes/pass.h"

#include <string.h>

/* What a gradient is asked in: float tensors of the graph at hand. */
static bool add_wrt(Elab *e, Span at, const Value *v, Val *out)
{
    if (v->kind != V_tensor || !dtype_is_float(value_type(e, v)->dtype)) {
        if (!is_poison(v))
            elab_error(e, DIAG_bad_type, at, "a gradient is in tensors of floats, not %s",
                       v->kind == V_tensor ? type_str(e, use_val(e, v)) : a_kind(v));
        return false;
    }
    *out = use_val(e, v);
    return true;
}

bool builtin_grad(Elab *e, const Call *c, Value *out)
{
    const Value *y = &c->arg[0], *x = &c->arg[1];
    if (y->kind != V_tensor || value_type(e, y)->rank || !dtype_is_float(value_type(e, y)->dtype)) {
        if (!is_poison(y))
            elab_error(e, DIAG_bad_type, c->arg_at[0], "grad is of a 0-d float, not of %s",
                       y->kind == V_tensor ? type_str(e, use_val(e, y)) : a_kind(y));
        return false;
    }
    const bool list = x->kind == V_list;
    const uint32_t n = list ? x->list->n : 1;
    Val *wrt = arena_array(e->a, Val, n + 1), *d = arena_array(e->a, Val, n + 1);
    for (uint32_t i = 0; i < n; i++)
        if (!add_wrt(e, c->arg_at[1], list ? &x->list->at[i] : x, &wrt[i]))
            return false;
    const Val of = use_val(e, y);
    if (!differentiate(&e->b, &of, NULL, 1, wrt, n, d))
        return false;
    bool any = false;
    for (uint32_t i = 0; i < n; i++)
        any |= d[i].node != 0;
    if (!any) {
        Diag *m = elab_error(e, DIAG_no_gradient, c->arg_at[1],
                             "the value was not computed from %s", list ? "any of these" : "this");
        diag_note(e->diags, m, (Span){0}, "a gradient ends at detach, no_grad and integers");
        return false;
    }
    Values all = {0};
    for (uint32_t i = 0; i < n; i++) {
        const TypeInfo t = *type_at(e, wrt[i]);
        if (!d[i].node)
            d[i] = build_full(&e->b, t.dtype, 0, t.shape, t.rank);
        const Written *const *how = written_get(e, wrt[i]);
        if (how)
            written_set(e, d[i], how, t.rank);
        const Value v = v_tensor(e, d[i]);
        vec_push(e->a, &all, v);
    }
    *out = list ? v_list(e, all.at, all.n) : all.at[0];
    return true;
}

/* ---- other parameters ---- */

/* Before the first step a parameter stands for its average: it may have come from a file since. Of
 * the dtype that the parameter has here: gradcheck computes in f64. */
static Val average_of(Elab *e, State *s)
{
    Builder *b = &e->b;
    const Value now = state_value(e, s);
    const Val begun = build2(b, OP_gt, build_state(b, s->steps), build_const_int(b, DT_i64, 0));
    const Val kept = build_view(b, &e->p->state.at[s->average - 1]);
    const Val own = build_view(b, &e->p->state.at[s->view - 1]);
    const Val v = build3(b, OP_where, build_at_place(b, begun, s->type.place), kept,
                         build1(b, OP_detach, own));
    return build_cast(b, v, value_type(e, &now)->dtype);
}

/* A parameter without an average stands for itself. */
bool builtin_averages(Elab *e, const Call *c, Value *out)
{
    States below = {0};
    Values v = {0};
    uint32_t kept = 0;
    if (!holds_instance(&c->arg[0])) {
        elab_error(e, DIAG_bad_type, c->arg_at[0], "averages wants a module, not %s",
                   a_kind(&c->arg[0]));
        return false;
    }
    if (e->b.g == e->making || e->capture) {
        elab_error(
            e, DIAG_misplaced, c->at,
            e->capture
                ? "averages cannot stand in a scan or in a function with a derivative of its own"
                : "averages stands in a method");
        return false;
    }
    states_below(e, &c->arg[0], &below);
    for (uint32_t i = 0; i < below.n; i++) {
        State *s = below.at[i];
        if (!s->is_param)
            continue;
        kept += s->average > 0;
        vec_push(e->a, &v, s->average ? v_tensor(e, average_of(e, s)) : state_value(e, s));
    }
    if (!kept) {
        Diag *d =
            elab_error(e, DIAG_bad_state, c->at, "no train keeps averages of these parameters");
        diag_note(e->diags, d, (Span){0},
                  "one does with a setting such as: average = optim.ema(0.999)");
        return false;
    }
    *out = v_list(e, v.at, v.n);
    return true;
}

typedef struct {
    State *state;
    Val stand_in;
    Graph *graph;
} Replaced;

static bool replace(Elab *e, const Call *c, State *s, const Value *v, uint32_t i)
{
    const Val x = v->kind == V_tensor ? use_val(e, v) : (Val){0, 0};
    bool fits = x.node != 0;
    if (fits) {
        const TypeInfo t = *type_at(e, x);
        fits = t.rank == s->type.rank && dtype_is_float(t.dtype) == dtype_is_float(s->type.dtype);
        for (uint32_t k = 0; fits && k < t.rank; k++)
            fits = dim_equal(e->dims, t.shape[k], s->type.shape[k]) == YES;
    }
    if (!fits) {
        const Shape shape = written_state_shape(s);
        elab_error(e, DIAG_shape_mismatch, c->arg_at[1],
                   "value %u of the list stands for '%s', which is %s%s, not %s", i,
                   sym(e, s->name), dtype_name(s->type.dtype), shape_str(e, &shape),
                   x.node ? type_str(e, x) : a_kind(v));
        return false;
    }
    s->stand_in = x;
    s->stand_in_graph = e->b.g;
    return true;
}

bool builtin_functional_call(Elab *e, const Call *c, Value *out)
{
    const Value *m = &c->arg[0], *list = &c->arg[1];
    States below = {0};
    if (!holds_instance(m) || list->kind != V_list) {
        elab_error(e, DIAG_bad_type, c->arg_at[holds_instance(m)],
                   "functional_call takes a module and a list of its parameters, not %s",
                   a_kind(holds_instance(m) ? list : m));
        return false;
    }
    if (e->b.g == e->making || e->capture) {
        elab_error(e, DIAG_misplaced, c->at,
                   e->capture ? "functional_call cannot stand in a function with a derivative of "
                                "its own"
                              : "functional_call stands in a method");
        return false;
    }
    states_below(e, m, &below);
    VEC(Replaced) old = {0};
    bool ok = true;
    for (uint32_t i = 0; i < below.n && ok; i++) {
        State *s = below.at[i];
        if (!s->is_param)
            continue;
        vec_push(e->a, &old, ((Replaced){s, s->stand_in, s->stand_in_graph}));
        ok = old.n <= list->list->n && replace(e, c, s, &list->list->at[old.n - 1], old.n - 1);
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < below.n; i++)
        n += below.at[i]->is_param;
    if (n != list->list->n) {
        elab_error(e, DIAG_bad_call, c->arg_at[1], "the module has %u parameters; the list has %u",
                   n, list->list->n);
        ok = false;
    }
    if (ok) {
        Args args = {0};
        for (uint32_t i = 0; i < c->arg[2].list->n; i++)
            vec_push(e->a, &args, ((Arg){.value = c->arg[2].list->at[i], .at = c->arg_at[2]}));
        *out = call_value(e, c->env, m, &args, c->at, c->arg_at[0]);
    }
    for (uint32_t i = 0; i < old.n; i++) {
        old.at[i].state->stand_in = old.at[i].stand_in;
        old.at[i].state->stand_in_graph = old.at[i].graph;
    }
    return ok;
}
