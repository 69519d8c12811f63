/* loop_build.c: from one traced turn to a scan. The turn stands in the graph itself; what depends
 * on neither a carry nor the loop's symbol is left where it is.
 *
 *   %x = slice %xs {start=[t, 0], ..}         %px = dot %xs, %wx      all turns at once, before
 *   %p = dot %x, %wx                     =>   %hT, %ys = scan %h0, %px, %wh { body }
 *   %h' = tanh add(%p, dot(%h, %wh))          %out = dot %ys, %wo     behind: it feeds no carry
 *   yield dot(%h', %wo)
 *
 * Sums over the turns (of derivatives) that are products become one product that contracts the
 * turns too; other sums are carries.
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/loop.h"
#include "ir/tensor_internal.h"

#include <string.h>

enum { WORTH = 4 }; /* a product moves behind the loop unless its operands are so much larger */

typedef VEC(Val) Vals;

typedef struct {
    Builder *b;
    Program *p;
    Graph *g;
    Arena *a;
    DimTable *t;
    const LoopTrace *trace;
    Batch q;
    uint32_t n;     /* nodes when the trace ended */
    bool *carry;    /* [node]: depends on a carry */
    bool *early;    /* [node]: can be made for all turns before the loop; q.can: also behind it */
    bool *feeds;    /* [node]: a carry or an effect needs it */
    bool *core;     /* [node]: of the body */
    bool *known;    /* [node]: all turns' values are there */
    uint8_t *moves; /* [node]: of moves_behind: 0 not asked yet, 1 no, 2 yes */
    uint32_t *maps; /* [node]: of hoisted_map: 2 * question + answer; [0]: the last question */
    bool *keep;     /* [carry] */
    Vals stacked;   /* core values that are needed for all turns */
    Vals sums;      /* core values that are added up by carries of their own */
    Vals xs, consts;
    /* the body */
    Builder bb;
    Val **map; /* [node][result] */
    Vals in_xs, in_consts;
    Val scan;
    const char *error;
    uint32_t at;
} Build;

static const Node *node_of(const Build *q, Val v)
{
    return graph_node(q->g, v);
}

static bool dep(const Build *q, Val v)
{
    return v.node < q->n && q->q.dep[v.node];
}

static double bytes(const Build *q, Val v)
{
    const TypeInfo *t = val_info(q->p, q->g, v);
    double n = dtype_size(t->dtype);
    for (uint32_t i = 0; i < t->rank; i++)
        n *= dim_hint(q->t, t->shape[i]);
    return n;
}

static int find(const Vals *l, Val v)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (val_eq(l->at[i], v))
            return (int)i;
    return -1;
}

static int carry_of(const Build *q, const Val *list, Val v)
{
    for (uint32_t c = 0; c < q->trace->ncarry; c++)
        if (val_eq(list[c], v))
            return (int)c;
    return -1;
}

Val loop_placeholder(Builder *b, Ty type, int stage)
{
    const int64_t word = 0;
    const Attr attr = attr_words(&word, 1);
    const Node n = {.op = OP_input,
                    .stage = (uint8_t)stage,
                    .nout = 1,
                    .types = &type,
                    .attrs = &attr,
                    .site = b->site};
    return node_append(b, &n);
}

/* --- what depends on what --------------------------------------------------------------------- */

static bool is_heavy(Op op)
{
    return op == OP_dot;
}

static bool is_view(Op op)
{
    return op == OP_broadcast || op == OP_reshape || op == OP_transpose || op == OP_slice;
}

static void mark(Build *q)
{
    for (uint32_t c = 0; c < q->trace->ncarry; c++)
        q->q.dep[q->trace->before[c].node] = q->carry[q->trace->before[c].node] = true;
    /* equal nodes are shared: of those that mention the loop, some may be of an earlier trace */
    for (uint32_t id = 1; id < q->n; id++) {
        const Node *n = &q->g->nodes.at[id];
        q->q.dep[id] |= node_mentions(q->p, n, q->trace->loop);
        for (uint32_t k = 0; k < n->nin; k++) {
            q->q.dep[id] |= q->q.dep[n->in[k].node];
            q->carry[id] |= q->carry[n->in[k].node];
        }
        q->q.can[id] = q->q.dep[id] && !q->carry[id] && n->op != OP_input && batch_can(&q->q, id);
    }
}

/* What is made of products that are outside, element by element: a bias that is added. */
static bool hoisted_map(const Build *q, uint32_t id)
{
    const Node *n = &q->g->nodes.at[id];
    if (!op_is_pointwise(n->op) || n->nout > 1)
        return false;
    if (q->maps[id] / 2 == q->maps[0])
        return q->maps[id] % 2;
    q->maps[id] = 2 * q->maps[0];
    bool any = false;
    for (uint32_t k = 0; k < n->nin; k++) {
        if (!dep(q, n->in[k]))
            continue;
        const uint32_t x = n->in[k].node;
        any = true;
        if (q->known[x] || q->carry[x] || !q->early[x] ||
            bytes(q, n->in[k]) < bytes(q, (Val){id, 0}) ||
            !(is_heavy(q->g->nodes.at[x].op) || hoisted_map(q, x)))
            return false;
    }
    q->maps[id] += any;
    return any;
}

static bool is_hoisted_map(const Build *q, uint32_t id)
{
    q->maps[0]++;
    return hoisted_map(q, id);
}

/* Comes from outside, one slice a turn. */
static bool is_sliced(const Build *q, uint32_t id)
{
    const Node *n = &q->g->nodes.at[id];
    if (!q->early[id] || q->carry[id])
        return false;
    if (q->known[id])
        return true;
    if (n->op == OP_reshape)
        return is_sliced(q, n->in[0].node);
    if (n->op == OP_slice && !dep(q, n->in[0]))
        return true;
    return !q->trace->segment && (is_heavy(n->op) || is_hoisted_map(q, id));
}

static void need(Build *q, Val v, bool *marks)
{
    if (!dep(q, v) || marks[v.node])
        return;
    marks[v.node] = true;
    if (is_sliced(q, v.node))
        return;
    const Node *n = node_of(q, v);
    for (uint32_t k = 0; k < n->nin; k++)
        need(q, n->in[k], marks);
}

static bool is_effect(const Build *q, uint32_t i)
{
    const uint32_t id = q->g->effects.at[i].node;
    return id >= q->trace->first && q->q.dep[id];
}

/* --- what is needed for all turns ------------------------------------------------------------- */

/* v will be there for all turns. Its cost: 0 if it is anyway. */
static double cost_out(const Build *q, Val v)
{
    const Node *n = node_of(q, v);
    if (!dep(q, v) || q->q.can[v.node] || find(&q->stacked, v) >= 0)
        return 0;
    if (carry_of(q, q->trace->before, v) >= 0 || carry_of(q, q->trace->after, v) >= 0)
        return q->keep[carry_of(q, q->trace->before, v) >= 0 ? carry_of(q, q->trace->before, v)
                                                             : carry_of(q, q->trace->after, v)]
                   ? 0
                   : bytes(q, v);
    return is_view(n->op) && n->op != OP_slice && !node_mentions(q->p, n, q->trace->loop)
               ? cost_out(q, n->in[0])
               : bytes(q, v);
}

static void take_out(Build *q, Val v)
{
    const Node *n = node_of(q, v);
    if (!dep(q, v) || q->q.can[v.node])
        return;
    const int before = carry_of(q, q->trace->before, v), after = carry_of(q, q->trace->after, v);
    q->q.can[v.node] = true;
    if (before >= 0 || after >= 0) {
        q->keep[before >= 0 ? before : after] = true;
    } else if (is_view(n->op) && n->op != OP_slice && !node_mentions(q->p, n, q->trace->loop)) {
        take_out(q, n->in[0]);
        return;
    } else if (find(&q->stacked, v) < 0) {
        vec_push(q->a, &q->stacked, v);
    }
}

/* A product that feeds no carry, and what is made of it, moves behind the loop. */
static bool moves_behind(Build *q, Val v);

static bool may_move(Build *q, Val v)
{
    const Node *n = node_of(q, v);
    if (q->trace->segment || !dep(q, v) || !q->carry[v.node] || q->feeds[v.node] || n->nout > 1 ||
        node_mentions(q->p, n, q->trace->loop))
        return false;
    if (n->op == OP_dot)
        return cost_out(q, n->in[0]) + cost_out(q, n->in[1]) <= WORTH * bytes(q, v);
    if (!op_is_pointwise(n->op) && !is_view(n->op) && n->op != OP_cast)
        return false;
    double cost = 0;
    bool any = false;
    for (uint32_t k = 0; k < n->nin; k++) {
        const bool moves = moves_behind(q, n->in[k]);
        cost += moves ? 0 : cost_out(q, n->in[k]);
        any |= moves;
    }
    return any && cost <= WORTH * bytes(q, v);
}

static bool moves_behind(Build *q, Val v)
{
    if (v.node >= q->n)
        return false;
    if (!q->moves[v.node])
        q->moves[v.node] = may_move(q, v) ? 2 : 1;
    return q->moves[v.node] == 2;
}

static void plan_stack(Build *q, Val v)
{
    if (!dep(q, v) || q->q.can[v.node])
        return;
    if (!moves_behind(q, v)) {
        take_out(q, v);
        return;
    }
    const Node *n = node_of(q, v);
    for (uint32_t k = 0; k < n->nin; k++)
        plan_stack(q, n->in[k]);
    q->q.can[v.node] = true;
}

/* --- sums over the turns ---------------------------------------------------------------------- */

typedef enum { SUM_times, SUM_linear, SUM_dot, SUM_factor, SUM_reduce, SUM_carry } SumKind;

/* How the sum of v is made. A factor: one side of a product is invariant. */
static SumKind sum_kind(const Build *q, Val v)
{
    const Node *n = node_of(q, v);
    if (!dep(q, v))
        return SUM_times;
    if (n->nout > 1 || node_mentions(q->p, n, q->trace->loop))
        return SUM_carry;
    switch (n->op) {
    case OP_add: {
        const TypeInfo *x = val_info(q->p, q->g, n->in[0]), *y = val_info(q->p, q->g, n->in[1]);
        return x->rank == y->rank && !memcmp(x->shape, y->shape, x->rank * sizeof *x->shape)
                   ? SUM_linear
                   : SUM_carry;
    }
    case OP_neg:
    case OP_broadcast:
    case OP_reshape:
    case OP_transpose:
    case OP_slice:
        return SUM_linear;
    case OP_pad:
        return val_is_fill(q->p, q->g, n->in[1], 0) ? SUM_linear : SUM_carry;
    case OP_dot: {
        const bool a = dep(q, n->in[0]), b = dep(q, n->in[1]);
        if (a != b)
            return SUM_factor;
        return !q->trace->segment &&
                       cost_out(q, n->in[0]) + cost_out(q, n->in[1]) <=
                       WORTH * (bytes(q, v) + bytes(q, n->in[0]))
                   ? SUM_dot
                   : SUM_carry;
    }
    case OP_reduce:
        return !q->trace->segment && node_int(n, ATTR_kind) == RED_add &&
                       cost_out(q, n->in[0]) == 0
                   ? SUM_reduce
                   : SUM_carry;
    default:
        return SUM_carry;
    }
}

/* Two rounds: what products need decides which reductions are cheap. */
static void plan_sum(Build *q, Val v, SumKind *kinds, bool products, bool *met)
{
    const Node *n = node_of(q, v);
    SumKind *kind = &kinds[v.node];
    if (met[v.node] && n->nout == 1)
        return;
    met[v.node] = true;
    if (products || *kind == SUM_carry)
        *kind = sum_kind(q, v);
    switch (*kind) {
    case SUM_linear:
        for (uint32_t k = 0; k < (n->op == OP_pad ? 1 : n->nin); k++)
            plan_sum(q, n->in[k], kinds, products, met);
        break;
    case SUM_factor:
        plan_sum(q, n->in[dep(q, n->in[0]) ? 0 : 1], kinds, products, met);
        break;
    case SUM_dot:
        take_out(q, n->in[0]);
        take_out(q, n->in[1]);
        q->q.can[v.node] = true;
        break;
    case SUM_reduce:
        take_out(q, n->in[0]);
        q->q.can[v.node] = true;
        break;
    case SUM_carry:
        if (!products && find(&q->sums, v) < 0)
            vec_push(q->a, &q->sums, v);
        break;
    case SUM_times:
        break;
    }
}

static Val emit_sum(Build *q, Val v, const SumKind *kinds, Val *made);

/* A part of a sum; it may be part of several. */
static Val emit_part(Build *q, Val v, const SumKind *kinds, Val *made)
{
    if (node_of(q, v)->nout > 1)
        return emit_sum(q, v, kinds, made);
    if (!made[v.node].node)
        made[v.node] = emit_sum(q, v, kinds, made);
    return made[v.node];
}

static Val emit_sum(Build *q, Val v, const SumKind *kinds, Val *made)
{
    const Node n = *node_of(q, v);
    const TypeInfo t = *val_info(q->p, q->g, v);
    Val *in = arena_array(q->a, Val, n.nin);
    memcpy(in, n.in, n.nin * sizeof *in);
    switch (kinds[v.node]) {
    case SUM_times: {
        const Val times = build_cast(q->b, build_dim(q->b, q->trace->trip), t.dtype);
        return build2(q->b, OP_mul, v, build_broadcast_to(q->b, times, t.shape, t.rank));
    }
    case SUM_linear:
        for (uint32_t k = 0; k < (n.op == OP_pad ? 1 : n.nin); k++)
            in[k] = emit_part(q, n.in[k], kinds, made);
        return build_again(q->b, &n, in);
    case SUM_factor: {
        const uint32_t k = dep(q, n.in[0]) ? 0 : 1;
        in[k] = emit_part(q, n.in[k], kinds, made);
        return build_again(q->b, &n, in);
    }
    case SUM_dot:
    case SUM_reduce:
        return batch_sum(&q->q, v);
    default:
        return loop_last(q->b, q->scan, q->trace->ncarry + (uint32_t)find(&q->sums, v));
    }
}

/* --- the body --------------------------------------------------------------------------------- */

static Val body_value(Build *q, Val v);

static bool is_state_view(const Build *q, Val v)
{
    const Node *n = node_of(q, v);
    while (n->op == OP_reshape || n->op == OP_slice)
        n = node_of(q, n->in[0]);
    return n->op == OP_state;
}

static Val input(Build *q, const char *what, uint32_t i, Ty type)
{
    const Sym name = sym_of(q->p->cx->names, arena_printf(q->p->cx->scratch, "%s%u", what, i));
    return build_input(&q->bb, name, type);
}

static void set_map(Build *q, Val v, Val to)
{
    if (!q->map[v.node])
        q->map[v.node] = arena_array(q->a, Val, node_of(q, v)->nout);
    q->map[v.node][v.result] = to;
}

static Val clone(Build *q, Val v)
{
    const Node n = *node_of(q, v);
    Val *in = arena_array(q->a, Val, n.nin);
    for (uint32_t k = 0; k < n.nin; k++)
        in[k] = body_value(q, n.in[k]);
    q->bb.site = n.site;
    q->bb.stage = n.stage;
    const Val w = build_again(&q->bb, &n, in);
    val_hint(&q->bb, w, n.hint);
    for (uint32_t k = 0; k < n.nout; k++)
        set_map(q, (Val){v.node, k}, n.nout > 1 ? val_result(w, w.result + k) : w);
    return q->map[v.node][v.result];
}

/* The value in the body; collects xs and constants on a first walk (bb.g NULL). */
static Val body_value(Build *q, Val v)
{
    if (q->map[v.node] && q->map[v.node][v.result].node)
        return q->map[v.node][v.result];
    return clone(q, v);
}

static bool made_again(const Build *q, Val v)
{
    const Op op = node_of(q, v)->op;
    if (node_of(q, v)->loose == LOOSE_CONSTANT && program_has_places(q->p))
        return true; /* each device has its own */
    return op == OP_const || op == OP_iota || op == OP_dim ||
           ((op == OP_broadcast || op == OP_transpose || op == OP_reshape) && !is_state_view(q, v));
}

/* Walks down from what the body gives. */
static void collect(Build *q, Val v)
{
    const Node *n = node_of(q, v);
    if (!dep(q, v)) {
        if (q->core[v.node] && find(&q->consts, v) >= 0)
            return;
        if (!made_again(q, v)) {
            if (find(&q->consts, v) < 0)
                vec_push(q->a, &q->consts, v);
            return;
        }
        for (uint32_t k = 0; k < n->nin; k++)
            collect(q, n->in[k]);
        return;
    }
    if (is_sliced(q, v.node)) {
        if (find(&q->xs, v) < 0)
            vec_push(q->a, &q->xs, v);
        return;
    }
    if (q->core[v.node])
        return;
    q->core[v.node] = true;
    for (uint32_t k = 0; k < n->nin; k++)
        collect(q, n->in[k]);
}

static void collect_all(Build *q)
{
    const LoopTrace *t = q->trace;
    for (uint32_t c = 0; c < t->ncarry; c++) {
        q->core[t->before[c].node] = true;
        collect(q, t->after[c]);
    }
    for (uint32_t i = 0; i < q->sums.n; i++)
        collect(q, q->sums.at[i]);
    for (uint32_t i = 0; i < q->stacked.n; i++)
        collect(q, q->stacked.at[i]);
    for (uint32_t i = 0; i < q->g->effects.n; i++)
        if (is_effect(q, i))
            collect(q, q->g->effects.at[i]);
}

static uint32_t make_body(Build *q)
{
    const LoopTrace *t = q->trace;
    Program *p = q->p;
    Graph *body = program_add_graph(p, t->name, GRAPH_BODY);
    body->segment = t->segment;
    const uint32_t index = p->graphs.n - 1;
    q->bb = builder_for(p, body);
    q->map = arena_array(q->a, Val *, q->n);
    for (uint32_t c = 0; c < t->ncarry; c++)
        set_map(q, t->before[c], input(q, "carry", c, val_type(q->g, t->init[c])));
    Vals sums = {0};
    for (uint32_t i = 0; i < q->sums.n; i++) {
        const Val v = input(q, "sum", i, val_type(q->g, q->sums.at[i]));
        vec_push(q->a, &sums, v);
    }
    for (uint32_t i = 0; i < q->xs.n; i++)
        set_map(q, q->xs.at[i], input(q, "x", i, val_type(q->g, q->xs.at[i])));
    for (uint32_t i = 0; i < q->consts.n; i++)
        set_map(q, q->consts.at[i], input(q, "w", i, val_type(q->g, q->consts.at[i])));
    for (uint32_t id = 1; id < q->n; id++) /* in order, as effects are */
        if (q->core[id] && q->q.dep[id] && !q->map[id])
            clone(q, (Val){id, 0});
    uint32_t k = 0;
#define RESULT(what, i, v)                                                                         \
    graph_result(p, body, sym_of(p->cx->names, arena_printf(p->cx->scratch, "%s%u", what, i)), v,  \
                 q->b->site.at)
    for (uint32_t c = 0; c < t->ncarry; c++, k++)
        RESULT("new", k, body_value(q, t->after[c]));
    for (uint32_t i = 0; i < q->sums.n; i++, k++) {
        q->bb.stage = q->b->stage;
        RESULT("new", k, build2(&q->bb, OP_add, sums.at[i], body_value(q, q->sums.at[i])));
    }
    for (uint32_t i = 0; i < q->stacked.n; i++)
        RESULT("y", i, body_value(q, q->stacked.at[i]));
#undef RESULT
    return index;
}

/* --- the node --------------------------------------------------------------------------------- */

static void make_scan(Build *q)
{
    const LoopTrace *t = q->trace;
    Vals in = {0}, xs = {0};
    for (uint32_t i = 0; i < q->xs.n; i++) {
        const Val v = batch_value(&q->q, q->xs.at[i]);
        vec_push(q->a, &xs, v);
    }
    const uint32_t body = make_body(q), ncarry = t->ncarry + q->sums.n;
    for (uint32_t c = 0; c < t->ncarry; c++)
        vec_push(q->a, &in, t->init[c]);
    for (uint32_t i = 0; i < q->sums.n; i++) {
        const TypeInfo s = *val_info(q->p, q->g, q->sums.at[i]);
        const Val zero =
            build_at_place(q->b, build_full(q->b, s.dtype, 0, s.shape, s.rank), s.place);
        vec_push(q->a, &in, zero);
    }
    for (uint32_t i = 0; i < xs.n; i++)
        vec_push(q->a, &in, xs.at[i]);
    for (uint32_t i = 0; i < q->consts.n; i++)
        vec_push(q->a, &in, q->consts.at[i]);
    bool *keep = arena_array(q->a, bool, ncarry + 1);
    memcpy(keep, q->keep, t->ncarry * sizeof *keep);
    q->scan =
        build_scan(q->b, body, t->trip, t->loop, t->reverse, ncarry, q->xs.n, keep, in.at, in.n);
    for (uint32_t c = 0; c < t->ncarry; c++) {
        if (!q->keep[c])
            continue;
        const Val values[2] = {t->before[c], t->after[c]};
        for (int k = 0; k < 2; k++) {
            if (!dep(q, values[k]) ||
                (q->q.made[values[k].node] && q->q.made[values[k].node][values[k].result].node))
                continue;
            if (!q->q.made[values[k].node])
                q->q.made[values[k].node] = arena_array(q->a, Val, node_of(q, values[k])->nout);
            q->q.made[values[k].node][values[k].result] = loop_values(q->b, q->scan, c, k);
        }
    }
    for (uint32_t i = 0; i < q->stacked.n; i++) {
        const Val v = q->stacked.at[i];
        if (!q->q.made[v.node])
            q->q.made[v.node] = arena_array(q->a, Val, node_of(q, v)->nout);
        q->q.made[v.node][v.result] = val_result(q->scan, ncarry + i);
    }
}

static void drop_effects(Build *q, const bool *moved, uint32_t n)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < q->g->effects.n; i++)
        if (i >= n || !moved[i])
            q->g->effects.at[kept++] = q->g->effects.at[i];
    q->g->effects.n = kept;
}

static bool stacked_shapes(Build *q)
{
    for (uint32_t i = 0; i < q->stacked.n; i++) {
        const TypeInfo *t = val_info(q->p, q->g, q->stacked.at[i]);
        for (uint32_t k = 0; k < t->rank; k++)
            if (dim_mentions(q->t, t->shape[k], q->trace->loop)) {
                q->error = "its size changes from turn to turn";
                q->at = q->stacked.at[i].node;
                return false;
            }
    }
    return true;
}

static Build begin(Builder *b, const LoopTrace *t)
{
    Build q = {.b = b, .p = b->p, .g = b->g, .a = b->p->cx->scratch, .t = b->p->cx->dims};
    q.trace = t;
    q.n = b->g->nodes.n;
    q.carry = arena_array(q.a, bool, q.n);
    q.feeds = arena_array(q.a, bool, q.n);
    q.core = arena_array(q.a, bool, q.n);
    q.known = arena_array(q.a, bool, q.n);
    q.early = arena_array(q.a, bool, q.n);
    q.moves = arena_array(q.a, uint8_t, q.n);
    q.maps = arena_array(q.a, uint32_t, q.n);
    q.keep = arena_array(q.a, bool, t->ncarry + 1);
    q.q = (Batch){.b = b, .trip = t->trip, .loop = t->loop, .n = q.n};
    q.q.can = arena_array(q.a, bool, q.n);
    q.q.dep = arena_array(q.a, bool, q.n);
    q.q.made = arena_array(q.a, Val *, q.n);
    return q;
}

/* Yield k for all turns. */
static Val emit_stack(Build *q, Val v)
{
    if (dep(q, v))
        return batch_value(&q->q, v);
    const TypeInfo t = *val_info(q->p, q->g, v);
    Dim shape[MAX_RANK];
    shape[0] = q->trace->trip;
    memcpy(shape + 1, t.shape, t.rank * sizeof *shape);
    return build_broadcast_to(q->b, v, shape, t.rank + 1u);
}

static void set_known(Build *q)
{
    for (uint32_t i = 0; i < q->trace->nknown; i++) {
        const Val v = q->trace->known[i];
        if (!q->q.dep[v.node] || q->carry[v.node])
            continue;
        if (!q->q.made[v.node])
            q->q.made[v.node] = arena_array(q->a, Val, node_of(q, v)->nout);
        q->q.made[v.node][v.result] = q->trace->known_all[i];
        q->known[v.node] = q->q.can[v.node] = true;
    }
    for (uint32_t id = 1; id < q->n; id++) /* what is made of them */
        q->q.can[id] |= q->q.dep[id] && !q->carry[id] && q->g->nodes.at[id].op != OP_input &&
                        batch_can(&q->q, id);
}

const char *loop_build(Builder *b, const LoopTrace *t, Val *last, Val *out, uint32_t *at)
{
    Build q = begin(b, t);
    SumKind *kinds = arena_array(q.a, SumKind, q.n);
    Val *made = arena_array(q.a, Val, q.n);
    mark(&q);
    set_known(&q);
    memcpy(q.early, q.q.can, q.n * sizeof *q.early);
    for (uint32_t c = 0; c < t->ncarry; c++)
        need(&q, t->after[c], q.feeds);
    const uint32_t neffects = q.g->effects.n;
    bool *moved = arena_array(q.a, bool, neffects + 1);
    for (uint32_t i = 0; i < neffects; i++) {
        moved[i] = is_effect(&q, i);
        if (moved[i])
            need(&q, q.g->effects.at[i], q.feeds);
    }
    for (uint32_t k = 0; k < t->nyield; k++)
        if (!t->sum || !t->sum[k])
            plan_stack(&q, t->yield[k]);
    for (int round = 0; round < 2; round++) {
        bool *met = arena_array(q.a, bool, q.n);
        for (uint32_t k = 0; k < t->nyield; k++)
            if (t->sum && t->sum[k])
                plan_sum(&q, t->yield[k], kinds, round == 0, met);
    }
    if (!stacked_shapes(&q)) {
        *at = q.at;
        return q.error;
    }
    collect_all(&q);
    make_scan(&q);
    drop_effects(&q, moved, neffects);
    for (uint32_t c = 0; c < t->ncarry; c++)
        last[c] = loop_last(b, q.scan, c);
    for (uint32_t k = 0; k < t->nyield; k++)
        out[k] = t->sum && t->sum[k] ? emit_sum(&q, t->yield[k], kinds, made)
                                     : emit_stack(&q, t->yield[k]);
    return NULL;
}
