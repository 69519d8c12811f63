/* joint.c: pass differentiate: training graphs get their derivatives.
 *
 *   graph @m.f(%x) {                       graph @m.f(%x, %d_y) {
 *     return %y }                   =>       return %y, %d_x
 *                                            commit grad.seg0 <- concat(add(slice grad.seg0, ..)..)
 * }
 *
 * A method whose first result is a 0-d float also gets a GRAD graph: value and parameter gradients
 * in one. SPDX-License-Identifier: MIT */
#include "passes/analysis.h"
#include "passes/pipeline.h"
#include "passes/vjp.h"

#include <string.h>

/* Argument `name` is in -fgrad. */
static bool wanted_name(const char *list, const char *name)
{
    if (!list || !strcmp(list, "all"))
        return true;
    size_t n = strlen(name);
    for (const char *at = list; *at;) {
        size_t len = strcspn(at, ",");
        if (len == n && !strncmp(at, name, n))
            return true;
        at += len + (at[len] == ',');
    }
    return false;
}

uint32_t segment_grad_slot(Program *p, uint32_t segment)
{
    for (uint32_t s = 1; s < p->slots.n; s++)
        if (p->slots.at[s].kind == SLOT_GRAD && p->slots.at[s].segment == segment)
            return s;
    Slot slot = p->slots.at[segment];
    const char *name = sym_text(p->cx->names, slot.name);
    Slot grad = {.name = sym_of(p->cx->names, arena_printf(p->cx->scratch, "grad.%s", name)),
                 .kind = SLOT_GRAD,
                 .type = slot.type,
                 .segment = segment,
                 .at = slot.at};
    return program_add_slot(p, grad);
}

/* What a training graph is differentiated by: arguments, then whole segments. */
typedef struct {
    VEC(Val) wrt;
    VEC(uint32_t) params;   /* index of the argument, for the first of wrt */
    VEC(uint32_t) segments; /* slot, for the others */
} Wanted;

static Wanted find_wanted(Pipeline *pl, Graph *g, bool arguments)
{
    Program *p = pl->p;
    Arena *a = p->cx->scratch;
    Wanted w = {0};
    for (uint32_t i = 0; i < g->params.n && arguments; i++) {
        GraphParam *param = &g->params.at[i];
        param->wants_grad = dtype_is_float(val_info(p, g, param->val)->dtype) &&
                            wanted_name(pl->o->fgrad, sym_text(p->cx->names, param->name));
        if (param->wants_grad) {
            vec_push(a, &w.wrt, param->val);
            vec_push(a, &w.params, i);
        }
    }
    uint32_t nodes = g->nodes.n;
    for (uint32_t id = 1; id < nodes; id++) {
        const Node *n = &g->nodes.at[id];
        if (n->op != OP_state)
            continue;
        uint32_t slot = (uint32_t)node_int(n, ATTR_slot);
        if (p->slots.at[slot].kind != SLOT_PARAM ||
            !dtype_is_float(type_info(p, p->slots.at[slot].type)->dtype))
            continue;
        vec_push(a, &w.wrt, ((Val){id, 0}));
        vec_push(a, &w.segments, slot);
    }
    return w;
}

/* What of a slot does not move. */
typedef struct {
    Dim from, to;
} Range;
typedef VEC(Range) Ranges;

static Ranges frozen_ranges(const Program *p, uint32_t slot)
{
    DimTable *t = p->cx->dims;
    Ranges r = {0};
    for (uint32_t i = 0; i < p->state.n; i++) {
        const StateView *v = &p->state.at[i];
        if (v->slot != slot || v->trainable)
            continue;
        const Dim from = dim_const(t, v->offset);
        vec_push(p->cx->scratch, &r,
                 ((Range){from, dim_add(t, from, type_numel((Program *)p, v->type))}));
    }
    return r;
}

/* lo .. lo + n lies inside a parameter that does not move. */
static bool frozen(const Program *p, const Ranges *still, Dim lo, Dim n)
{
    DimTable *t = p->cx->dims;
    for (uint32_t i = 0; i < still->n; i++)
        if (dim_le(t, still->at[i].from, lo) == YES &&
            dim_le(t, dim_add(t, lo, n), still->at[i].to) == YES)
            return true;
    return false;
}

/* Pieces of parameters that do not move become zeros; what only they needed is dead then. {0,0} if
 * nothing moves. */
static Val drop_frozen(Builder *b, uint32_t slot, Val d)
{
    Program *p = b->p;
    DimTable *t = p->cx->dims;
    Node n = *graph_node(b->g, d);
    TypeInfo type = *val_info(p, b->g, d);
    bool pieces = n.op == OP_concat, moves = false;
    uint32_t count = pieces ? n.nin : 1;
    Val *in = arena_array(p->cx->scratch, Val, count);
    const Ranges still = frozen_ranges(p, slot);
    Dim at = dim_const(t, 0);
    for (uint32_t k = 0; k < count; k++) {
        double c;
        in[k] = pieces ? n.in[k] : d;
        Dim extent = val_info(p, b->g, in[k])->shape[0];
        if (frozen(p, &still, at, extent))
            in[k] = build_full(b, type.dtype, 0, &extent, 1);
        moves |= !graph_constant(b->g, in[k], &c) || c != 0;
        at = dim_add(t, at, extent);
    }
    return moves ? build_concat(b, in, count, 0) : (Val){0, 0};
}

/* A segment's gradient divided by the number in a slot, where there is one: piece by piece, as it
 * is added to the gradients so far. */
static Val divided_by(Builder *b, Val v, uint32_t slot)
{
    if (!slot)
        return v;
    const TypeInfo t = *val_info(b->p, b->g, v);
    const Node n = *graph_node(b->g, v);
    b->stage = STAGE_BACKWARD;
    const Val inverse = build2(b, OP_div, build_const(b, DT_f64, 1), build_state(b, slot));
    const Val by = build_cast(b, build_at_place(b, inverse, t.place), t.dtype);
    if (n.op != OP_concat)
        return build2(b, OP_mul, v, by);
    Val *in = arena_array(b->p->cx->scratch, Val, n.nin);
    for (uint32_t k = 0; k < n.nin; k++) {
        double zero;
        const bool none = graph_constant(b->g, n.in[k], &zero) && zero == 0;
        in[k] = none ? n.in[k] : build2(b, OP_mul, n.in[k], by);
    }
    return build_concat(b, in, n.nin, 0);
}

/* scale: the slot of the number that all of d is multiplied by, or 0. */
static void commit_gradients(Builder *b, const Wanted *w, const Val *d, uint32_t scale)
{
    for (uint32_t i = 0; i < w->segments.n; i++) {
        Val v = d[w->params.n + i];
        uint32_t slot = w->segments.at[i];
        if (v.node)
            v = drop_frozen(b, slot, v);
        if (v.node) {
            uint32_t grad = segment_grad_slot(b->p, slot);
            graph_commit(b->p, b->g, grad, segment_accumulate(b, grad, divided_by(b, v, scale)));
        }
    }
}

static bool any(const Val *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (v[i].node)
            return true;
    return false;
}

/* Adds cotangents, gradients and commits to a training graph; *made is false if there are none. */
static bool add_derivatives(Pipeline *pl, uint32_t index, bool *made)
{
    Program *p = pl->p;
    Arena *a = p->cx->scratch;
    Graph *g = p->graphs.at[index];
    Wanted w = find_wanted(pl, g, true);
    Builder b = builder_for(p, g);
    Joint joint = {index, g->results.n, g->params.n, g->commits.n};
    Val *y = arena_array(a, Val, joint.nresults), *dy = arena_array(a, Val, joint.nresults);
    uint32_t ny = 0;
    bool **active = vjp_active(&b, w.wrt.at, w.wrt.n);
    for (uint32_t i = 0; i < joint.nresults; i++) {
        GraphResult r = g->results.at[i];
        if (!active[r.val.node] || !active[r.val.node][r.val.result])
            continue;
        const char *name = sym_text(p->cx->names, r.name);
        b.site = (Site){.at = r.at};
        y[ny] = r.val;
        dy[ny++] = build_input(&b, sym_of(p->cx->names, arena_printf(a, "d_%s", name)),
                               val_type(g, r.val));
    }
    Val *d = arena_array(a, Val, w.wrt.n);
    if (!differentiate(&b, y, dy, ny, w.wrt.at, w.wrt.n, d))
        return false;
    *made = ny > 0 && any(d, w.wrt.n);
    if (!*made)
        return true;
    for (uint32_t i = 0; i < w.params.n; i++) {
        GraphParam param = g->params.at[w.params.at[i]];
        TypeInfo t = *val_info(p, g, param.val);
        b.stage = STAGE_BACKWARD;
        Val v = d[i].node ? d[i] : build_full(&b, t.dtype, 0, t.shape, t.rank);
        const char *name = sym_text(p->cx->names, param.name);
        graph_result(p, g, sym_of(p->cx->names, arena_printf(a, "d_%s", name)), v, param.at);
    }
    commit_gradients(&b, &w, d, 0);
    vec_push(p->cx->perm, &pl->joints, joint);
    return true;
}

/* The scale of the method's train under -famp=f16: small gradients would be lost on their way back
 * through halves without it. */
static uint32_t loss_scale(const Program *p, const Graph *g)
{
    for (uint32_t i = 0; i < p->trains.n; i++)
        if (sym_eq(p->trains.at[i].method, g->method))
            return p->trains.at[i].scale;
    return 0;
}

/* Value and gradients of the parameters in one graph. */
static bool add_grad_graph(Pipeline *pl, const Graph *training)
{
    Program *p = pl->p;
    Graph *g = simplify_graph(p, (Graph *)training, false);
    Wanted w = find_wanted(pl, g, false);
    Builder b = builder_for(p, g);
    Val y = g->results.at[0].val;
    Val *d = arena_array(p->cx->scratch, Val, w.wrt.n);
    const uint32_t scale = loss_scale(p, g);
    Val dy = {0, 0}; /* 1 */
    if (scale)
        dy = build_cast(&b, build_state(&b, scale), val_info(p, g, y)->dtype);
    if (!differentiate(&b, &y, &dy, 1, w.wrt.at, w.wrt.n, d))
        return false;
    if (!any(d, w.wrt.n))
        return true;
    commit_gradients(&b, &w, d, scale);
    g->kind = GRAPH_GRAD;
    vec_push(p->cx->perm, &p->graphs, simplify_graph(p, g, true));
    return true;
}

bool pass_differentiate(Pipeline *pl)
{
    Program *p = pl->p;
    uint32_t n = p->graphs.n;
    for (uint32_t i = 0; i < n; i++) {
        Graph *g = p->graphs.at[i];
        if (g->kind != GRAPH_TRAINING)
            continue;
        const TypeInfo *first = g->results.n ? val_info(p, g, g->results.at[0].val) : NULL;
        if (first && first->rank == 0 && dtype_is_float(first->dtype) && !add_grad_graph(pl, g))
            return false;
        bool made = false;
        if (!add_derivatives(pl, i, &made))
            return false;
        if (made)
            p->graphs.at[i] = simplify_graph(p, p->graphs.at[i], true);
    }
    return true;
}
