/* tensor_verify.c: is a graph well formed? Run after every pass.
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/tensor_internal.h"

#include <string.h>

typedef struct {
    const Program *p;
    const Graph *g;
    const char *error;
} Verifier;

static void fail(Verifier *q, uint32_t node, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void fail(Verifier *q, uint32_t node, const char *fmt, ...)
{
    if (q->error)
        return;
    va_list ap;
    va_start(ap, fmt);
    const char *what = arena_vprintf(q->p->cx->scratch, fmt, ap);
    va_end(ap);
    const Node *n = node && node < q->g->nodes.n ? &q->g->nodes.at[node] : NULL;
    q->error = n ? arena_printf(q->p->cx->scratch, "node %u (%s %s): %s", node, op_name(n->op),
                                sym_text(q->p->cx->names, n->hint), what)
                 : what;
}

static bool is_val(const Verifier *q, Val v)
{
    return v.node > 0 && v.node < q->g->nodes.n && v.result < q->g->nodes.at[v.node].nout;
}

static void verify_shape_words(Verifier *q, uint32_t id)
{
    const Node *n = &q->g->nodes.at[id];
    const OpInfo *info = op_info(n->op);
    for (int i = 0; i < info->nattrs; i++)
        for (uint32_t k = 0; k < n->attrs[i].n; k++) {
            const int64_t w = n->attrs[i].at[k];
            if (attr_kind(info->attrs[i]) == AK_DIMS && w <= 0)
                fail(q, id, "attribute %s holds no size", attr_text(info->attrs[i]));
        }
}

/* The types must be those that the rules give. */
static void verify_types(Verifier *q, uint32_t id)
{
    const Node *n = &q->g->nodes.at[id];
    Builder b = builder_for((Program *)q->p, (Graph *)q->g);
    b.place = n->nin ? PLACE_D0 : type_info(q->p, n->types[0])->place;
    Ty types[MAX_RESULTS];
    uint32_t nout = 0;
    const char *error = infer_types(&b, n->op, n->in, n->nin, n->attrs, types, &nout);
    if (error) {
        fail(q, id, "%s", error);
        return;
    }
    if (nout != n->nout) {
        fail(q, id, "%u results, not %u", n->nout, nout);
        return;
    }
    for (uint32_t k = 0; k < nout; k++)
        if (types[k].id != n->types[k].id)
            fail(q, id, "result %u is %s, not %s", k,
                 type_text(q->p, q->p->cx->scratch, n->types[k]),
                 type_text(q->p, q->p->cx->scratch, types[k]));
}

static void verify_explicit(Verifier *q, uint32_t id)
{
    const Node *n = &q->g->nodes.at[id];
    const TypeInfo r = *type_info(q->p, n->types[0]);
    for (uint32_t i = 0; i < n->nin; i++) {
        const TypeInfo x = *val_info(q->p, q->g, n->in[i]);
        bool same = x.rank == r.rank;
        for (uint32_t k = 0; same && k < r.rank; k++)
            same = dim_equal(q->p->cx->dims, x.shape[k], r.shape[k]) == YES;
        if (!same)
            fail(q, id, "operand %u broadcasts, which should be explicit here", i);
    }
}

static void verify_node(Verifier *q, uint32_t id, bool explicit_shapes)
{
    const Node *n = &q->g->nodes.at[id];
    if (n->op <= OP_none || n->op >= OP_COUNT || n->nout == 0 || n->nout > MAX_RESULTS) {
        fail(q, 0, "node %u is none", id);
        return;
    }
    for (uint32_t i = 0; i < n->nin; i++) {
        if (!is_val(q, n->in[i]) || n->in[i].node >= id) {
            fail(q, id, "operand %u does not precede it", i);
            return;
        }
        if (q->g->nodes.at[n->in[i].node].stage > n->stage)
            fail(q, id, "operand %u is of a later stage", i);
    }
    if (n->stage > STAGE_UPDATE)
        fail(q, id, "there is no stage %d", n->stage);
    verify_shape_words(q, id);
    if (!q->error && n->op != OP_input)
        verify_types(q, id);
    if (!q->error && explicit_shapes && (op_is_pointwise(n->op) || n->op == OP_extern))
        verify_explicit(q, id);
}

static void verify_params(Verifier *q)
{
    const Graph *g = q->g;
    uint32_t inputs = 0;
    for (uint32_t id = 1; id < g->nodes.n; id++)
        inputs += g->nodes.at[id].op == OP_input;
    if (inputs != g->params.n)
        fail(q, 0, "%u inputs for %u parameters", inputs, g->params.n);
    for (uint32_t i = 0; i < g->params.n && !q->error; i++) {
        const GraphParam *p = &g->params.at[i];
        if (!is_val(q, p->val) || graph_node(g, p->val)->op != OP_input) {
            fail(q, 0, "parameter %u is no input", i);
            return;
        }
        for (uint32_t k = 0; k < i; k++)
            if (val_eq(g->params.at[k].val, p->val))
                fail(q, p->val.node, "two parameters are one input");
        if (p->inout >= (int32_t)g->results.n)
            fail(q, p->val.node, "it is updated by a result that does not exist");
    }
}

static void verify_inout(Verifier *q)
{
    const Graph *g = q->g;
    for (uint32_t i = 0; i < g->params.n && !q->error; i++) {
        const GraphParam *p = &g->params.at[i];
        if (p->inout < 0)
            continue;
        const TypeInfo x = *val_info(q->p, g, p->val);
        const TypeInfo y = *val_info(q->p, g, g->results.at[p->inout].val);
        bool same = x.dtype == y.dtype && x.rank == y.rank;
        for (uint32_t k = 0; same && k < x.rank; k++)
            same = dim_equal(q->p->cx->dims, x.shape[k], y.shape[k]) == YES;
        if (!same)
            fail(q, p->val.node, "the result that updates it has another type");
    }
}

static void verify_outputs(Verifier *q)
{
    const Graph *g = q->g;
    for (uint32_t i = 0; i < g->results.n; i++)
        if (!is_val(q, g->results.at[i].val))
            fail(q, 0, "result %u is no value", i);
    for (uint32_t i = 0; i < g->saved.n; i++)
        if (!is_val(q, g->saved.at[i]))
            fail(q, 0, "saved value %u is none", i);
    for (uint32_t i = 0; i < g->commits.n && !q->error; i++) {
        const Commit *c = &g->commits.at[i];
        if (!is_val(q, c->val) || c->slot == 0 || c->slot >= q->p->slots.n) {
            fail(q, 0, "commit %u has no value or no slot", i);
            return;
        }
        if (val_type(g, c->val).id != q->p->slots.at[c->slot].type.id)
            fail(q, c->val.node, "slot %s gets a value of type %s",
                 sym_text(q->p->cx->names, q->p->slots.at[c->slot].name),
                 type_text(q->p, q->p->cx->scratch, val_type(g, c->val)));
        for (uint32_t k = 0; k < i; k++)
            if (g->commits.at[k].slot == c->slot)
                fail(q, c->val.node, "slot %s is committed twice",
                     sym_text(q->p->cx->names, q->p->slots.at[c->slot].name));
    }
}

static void verify_effects(Verifier *q)
{
    const Graph *g = q->g;
    uint32_t next = 0;
    for (uint32_t id = 1; id < g->nodes.n; id++)
        if (g->nodes.at[id].op == OP_print || g->nodes.at[id].op == OP_check) {
            if (next >= g->effects.n || g->effects.at[next].node != id)
                fail(q, id, "the list of effects lacks it, or has it twice or out of order");
            next++;
        }
    if (next != g->effects.n)
        fail(q, 0, "the list of effects is too long");
}

const char *tensor_verify(const Program *p, const Graph *g, bool explicit_shapes)
{
    Verifier q = {.p = p, .g = g};
    for (uint32_t id = 1; id < g->nodes.n && !q.error; id++)
        verify_node(&q, id, explicit_shapes);
    if (!q.error)
        verify_params(&q);
    if (!q.error)
        verify_outputs(&q);
    if (!q.error)
        verify_inout(&q);
    if (!q.error)
        verify_effects(&q);
    return q.error;
}

/* --- programs --------------------------------------------------------------------------------- */

static void verify_slots(Verifier *q)
{
    const Program *p = q->p;
    for (uint32_t i = 1; i < p->slots.n; i++) {
        const Slot *s = &p->slots.at[i];
        const char *name = sym_text(p->cx->names, s->name);
        const bool late = s->kind == SLOT_HYPER || s->kind == SLOT_COUNTER ||
                          s->kind == SLOT_SEED || s->kind == SLOT_CALLS;
        if (late && type_info(p, s->type)->rank)
            fail(q, 0, "slot %s is no scalar", name);
        for (uint32_t k = 0; k < type_info(p, s->type)->rank; k++)
            if (!dim_is_const(p->cx->dims, type_info(p, s->type)->shape[k], NULL))
                fail(q, 0, "slot %s has a size that is not static", name);
        if (s->segment >= p->slots.n || (s->segment && p->slots.at[s->segment].kind != SLOT_PARAM))
            fail(q, 0, "slot %s belongs to no segment of parameters", name);
        for (uint32_t k = 1; k < i; k++)
            if (sym_eq(p->slots.at[k].name, s->name))
                fail(q, 0, "two slots are called %s", name);
    }
}

static void verify_views(Verifier *q)
{
    const Program *p = q->p;
    for (uint32_t i = 0; i < p->state.n && !q->error; i++) {
        const StateView *v = &p->state.at[i];
        const char *name = sym_text(p->cx->names, v->name);
        int64_t n, room;
        if (v->slot == 0 || v->slot >= p->slots.n) {
            fail(q, 0, "%s is in no slot", name);
            return;
        }
        const Slot *s = &p->slots.at[v->slot];
        if (!dim_is_const(p->cx->dims, type_numel((Program *)p, v->type), &n) ||
            !dim_is_const(p->cx->dims, type_numel((Program *)p, s->type), &room) || v->offset < 0 ||
            v->offset > room - n)
            fail(q, 0, "%s is not inside slot %s", name, sym_text(p->cx->names, s->name));
        if (type_info(p, v->type)->dtype != type_info(p, s->type)->dtype)
            fail(q, 0, "%s has another dtype than slot %s", name, sym_text(p->cx->names, s->name));
    }
}

const char *program_verify(const Program *p)
{
    Verifier q = {.p = p};
    verify_slots(&q);
    if (!q.error)
        verify_views(&q);
    for (uint32_t i = 0; i < p->trains.n; i++) {
        const TrainInfo *t = &p->trains.at[i];
        if (t->graph_step >= p->graphs.n)
            fail(&q, 0, "train %s has no graph", sym_text(p->cx->names, t->method));
        if (t->scale >= p->slots.n)
            fail(&q, 0, "train %s has no scale", sym_text(p->cx->names, t->method));
        for (uint32_t k = 0; k < t->hypers.n; k++)
            if (t->hypers.at[k] >= p->slots.n || p->slots.at[t->hypers.at[k]].kind != SLOT_HYPER)
                fail(&q, 0, "train %s names a slot that is no hyper-parameter",
                     sym_text(p->cx->names, t->method));
    }
    return q.error;
}
