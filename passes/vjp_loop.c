/* vjp_loop.c: the derivative of a scan is a scan that runs the other way.
 *
 *   %hT = scan (%h0) xs(%x) consts(%w) {body: %h' = tanh(dot(%h, %w) + %x)}
 *
 *   %H, %Z = scan (%h0) xs(%x) consts(%w) {the same, keeps all %h and yields the product}
 *   %dh0, %dx = scan (%dhT) xs(%H[0:T], %Z, %x) consts(%w) {reverse}          carries d%h
 *   %dw = dot %dx, %H[0:T]                                                    one product, behind
 *
 * The scan that is there and the one that keeps more become one again (pass scan).
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/loop.h"
#include "passes/pass.h"
#include "passes/vjp.h"

typedef VEC(Val) Vals;

typedef struct {
    Reverse *r;
    const Node *n;
    const Val *dy;
    Loop l;
    Arena *a;
    Val kept;              /* the scan that keeps and yields what the other one needs */
    Vals saved;            /* of the body: yielded by it behind its own results */
    Vals known, known_all; /* these in the turn that is traced, and of all turns */
    Val **map;             /* [node of the body][result]: in the turn that is traced */
    Vals carry;            /* a turn's own operands */
    Vals xs;
    uint32_t *number; /* [carry]: of its cotangent among the carries; UINT32_MAX: it has none */
} Turn;

/* What a turn of the reversed scan would not compute again. */
static bool is_saved(const Turn *q, const Node *n)
{
    if (q->l.body->segment || (n->site.block && n->site.block != q->n->site.block))
        return false; /* the user wants it made again */
    return (n->op == OP_dot || n->op == OP_conv || n->op == OP_reduce || n->op == OP_cumulate ||
            n->op == OP_sort) &&
           type_info(q->r->p, n->types[0])->rank < MAX_RANK;
}

static bool of_the_turn(const Turn *q, const Node *n)
{
    for (uint32_t k = 0; k < n->nout; k++) {
        const TypeInfo *t = type_info(q->r->p, n->types[k]);
        for (uint32_t i = 0; i < t->rank; i++)
            if (dim_mentions(q->r->p->cx->dims, t->shape[i], q->l.loop))
                return false;
    }
    return true;
}

/* A sum that is all that reads a product is kept in its stead: no derivative asks for its terms. */
static uint32_t behind_sums(const Turn *q, const bool *live, uint32_t id)
{
    const Graph *g = q->l.body;
    for (;;) {
        uint32_t user = 0, uses = 0;
        for (uint32_t k = id + 1; k < g->nodes.n; k++)
            for (uint32_t i = 0; live[k] && i < g->nodes.at[k].nin; i++)
                if (g->nodes.at[k].in[i].node == id) {
                    user = k;
                    uses++;
                }
        for (uint32_t i = 0; i < g->results.n; i++)
            uses += g->results.at[i].val.node == id;
        if (uses != 1 || (g->nodes.at[user].op != OP_add && g->nodes.at[user].op != OP_sub) ||
            g->nodes.at[user].types[0].id != g->nodes.at[id].types[0].id)
            return id;
        id = user;
    }
}

/* The body that yields more. */
static uint32_t extended(Turn *q)
{
    Program *p = q->r->p;
    Rewrite rw = rewrite_begin(p, (Graph *)q->l.body);
    for (uint32_t id = 1; id < q->l.body->nodes.n; id++)
        if (rw.live[id])
            rewrite_copy(&rw, id);
    Graph *g = rewrite_end(&rw);
    uint32_t room = g->results.n < 32 ? 32 - g->results.n : 0; /* a group stores as many */
    for (uint32_t id = 1; id < q->l.body->nodes.n; id++) {
        const Node *n = &q->l.body->nodes.at[id];
        if (!rw.live[id] || !is_saved(q, n) || !of_the_turn(q, n) || n->nout > room)
            continue;
        const uint32_t kept = n->nout == 1 ? behind_sums(q, rw.live, id) : id;
        for (uint32_t k = 0; k < n->nout; k++, room--) {
            const Val v = {kept, k};
            vec_push(q->a, &q->saved, v);
            const char *name = arena_printf(q->a, "saved%u", q->saved.n);
            graph_result(p, g, sym_of(p->cx->names, name), rewrite_get(&rw, v), n->site.at);
        }
    }
    g->extends = q->l.graph + 1;
    vec_push(p->cx->perm, &p->graphs, g);
    return p->graphs.n - 1;
}

static void keep_more(Turn *q)
{
    bool *keep = arena_array(q->a, bool, q->l.ncarry + 1);
    for (uint32_t c = 0; c < q->l.ncarry; c++)
        keep[c] = type_info(q->r->p, val_type(q->r->g, q->n->in[c]))->rank < MAX_RANK;
    const uint32_t body = extended(q);
    vjp_stage(q->r, -1);
    q->kept = build_scan(q->r->b, body, q->l.trip, q->l.loop, q->l.reverse, q->l.ncarry, q->l.nxs,
                         keep, q->n->in, q->n->nin);
}

/* The nodes of the body, in the graph at hand, with the operands of turn t. */
static void inline_turn(Turn *q)
{
    Builder *b = q->r->b;
    DimTable *t = q->r->p->cx->dims;
    const Graph *body = q->l.body;
    const Dim at = dim_of(t, q->l.loop);
    q->map = arena_array(q->a, Val *, body->nodes.n);
    for (uint32_t i = 0; i < body->params.n; i++) {
        Val v = q->n->in[i];
        if (i < q->l.ncarry) {
            v = build_at(b, val_result(q->kept, i), loop_slot(q->r->p, &q->l, false));
            vec_push(q->a, &q->carry, v);
        } else if (i < q->l.ncarry + q->l.nxs) {
            v = build_at(b, v, at);
            vec_push(q->a, &q->xs, v);
        }
        const uint32_t id = body->params.at[i].val.node;
        q->map[id] = arena_array(q->a, Val, 1);
        q->map[id][0] = v;
    }
    const bool *live = graph_live(q->r->p, body);
    for (uint32_t id = 1; id < body->nodes.n; id++) {
        const Node n = body->nodes.at[id];
        if (!live[id] || q->map[id] || n.op == OP_print || n.op == OP_check)
            continue;
        Val *in = arena_array(q->a, Val, n.nin);
        for (uint32_t k = 0; k < n.nin; k++)
            in[k] = q->map[n.in[k].node][n.in[k].result];
        b->site = n.site;
        q->map[id] = arena_array(q->a, Val, n.nout);
        const Val v = build_quietly(b, &n, in);
        for (uint32_t k = 0; k < n.nout; k++)
            q->map[id][k] = n.nout > 1 ? val_result(v, v.result + k) : v;
    }
    for (uint32_t i = 0; i < q->saved.n; i++) {
        const Val v = q->saved.at[i];
        vec_push(q->a, &q->known, q->map[v.node][v.result]);
        vec_push(q->a, &q->known_all, val_result(q->kept, body->results.n + i));
    }
    for (uint32_t c = 0; c < q->l.ncarry; c++) { /* the new carries are kept too */
        const Val v = body->results.at[c].val;
        if (!q->map[v.node] || !loop_keeps(graph_node(b->g, q->kept), c))
            continue;
        const Val all = loop_values(b, q->kept, c, true);
        vec_push(q->a, &q->known, q->map[v.node][v.result]);
        vec_push(q->a, &q->known_all, all);
    }
}

static Val in_turn(const Turn *q, Val v)
{
    const Node *n = graph_node(q->l.body, v);
    while (!q->map[v.node]) { /* a print hands its operand on */
        CHECK(n->op == OP_print || n->op == OP_check);
        v = n->in[0];
        n = graph_node(q->l.body, v);
    }
    return q->map[v.node][v.result];
}

static bool is_float(const Turn *q, Val v)
{
    return dtype_is_float(val_info(q->r->p, q->r->g, v)->dtype);
}

/* Cotangents of what a turn gives: those carried, and slices of those that came from outside. */
static void seeds(Turn *q, const Val *before, Vals *y, Vals *dy)
{
    Builder *b = q->r->b;
    const Graph *body = q->l.body;
    const Dim at = dim_of(q->r->p->cx->dims, q->l.loop);
    for (uint32_t k = 0; k < body->results.n; k++) {
        const bool carry = k < q->l.ncarry;
        Val d = {0, 0};
        vjp_stage(q->r, STAGE_BACKWARD);
        if (carry && q->number[k] != UINT32_MAX)
            d = before[q->number[k]];
        if (q->dy[k].node && carry && loop_keeps(q->n, k))
            d = build2(b, OP_add, d, build_at(b, q->dy[k], loop_slot(q->r->p, &q->l, true)));
        else if (q->dy[k].node && !carry)
            d = build_at(b, q->dy[k], at);
        if (!d.node)
            continue;
        vec_push(q->a, y, in_turn(q, body->results.at[k].val));
        vec_push(q->a, dy, d);
    }
}

/* What a cotangent starts from: of the last value, or zeros where all values have theirs. */
static Val first_cotangent(Turn *q, uint32_t c)
{
    if (q->dy[c].node && !loop_keeps(q->n, c))
        return q->dy[c];
    const TypeInfo t = *val_info(q->r->p, q->r->g, q->n->in[c]);
    return vjp_full(q->r, 0, &t);
}

typedef struct {
    Vals init, before, after, yield, wrt;
    VEC(uint32_t) operand; /* of each yield */
    bool *sum;
} Reversed;

static bool differentiate_turn(Turn *q, Reversed *v)
{
    const uint32_t ncarry = q->l.ncarry, nfixed = ncarry + q->l.nxs;
    Vals y = {0}, dy = {0};
    seeds(q, v->before.at, &y, &dy);
    VEC(uint32_t) operand = {0};
    for (uint32_t i = 0; i < q->n->nin; i++) {
        if (!is_float(q, q->n->in[i]) || (i >= ncarry && !vjp_wants(q->r, q->n, i)))
            continue;
        const Val x = i < ncarry ? q->carry.at[i] : i < nfixed ? q->xs.at[i - ncarry] : q->n->in[i];
        bool again = false; /* one given twice gets its whole cotangent the first time */
        for (uint32_t k = 0; k < v->wrt.n; k++)
            again |= val_eq(v->wrt.at[k], x);
        if (again && i >= ncarry)
            continue;
        vec_push(q->a, &v->wrt, x);
        vec_push(q->a, &operand, i);
    }
    Val *d = arena_array(q->a, Val, v->wrt.n + 1);
    if (!vjp_differentiate_to(q->r->b, y.at, dy.at, y.n, v->wrt.at, v->wrt.n, d))
        return false;
    v->sum = arena_array(q->a, bool, v->wrt.n + 1);
    for (uint32_t k = 0; k < v->wrt.n; k++) {
        const uint32_t i = operand.at[k];
        if (i < ncarry) {
            const TypeInfo t = *val_info(q->r->p, q->r->g, q->n->in[i]);
            vjp_stage(q->r, -1);
            const Val x = d[k].node ? d[k] : vjp_full(q->r, 0, &t);
            vec_push(q->a, &v->after, x);
        } else if (d[k].node) {
            v->sum[v->yield.n] = i >= nfixed;
            vec_push(q->a, &v->yield, d[k]);
            vec_push(q->a, &v->operand, i);
        }
    }
    return true;
}

/* What the reversed scan gives goes to the operands. */
static void give_all(Turn *q, const Reversed *v, const Val *last, const Val *out)
{
    Reverse *r = q->r;
    for (uint32_t c = 0; c < q->l.ncarry; c++) {
        if (q->number[c] == UINT32_MAX)
            continue;
        Val d = last[q->number[c]];
        if (q->dy[c].node && loop_keeps(q->n, c)) {
            const Dim at = q->l.reverse ? q->l.trip : dim_const(r->p->cx->dims, 0);
            vjp_stage(r, STAGE_BACKWARD);
            d = build2(r->b, OP_add, d, build_at(r->b, q->dy[c], at));
        }
        vjp_give(r, q->n, c, d);
    }
    for (uint32_t k = 0; k < v->yield.n; k++)
        vjp_give(r, q->n, v->operand.at[k], out[k]);
}

void vjp_scan(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id;
    Turn q = {.r = r, .n = n, .dy = dy, .a = r->p->cx->scratch};
    Reversed v = {0};
    q.l = loop_of(r->p, n);
    q.number = arena_array(q.a, uint32_t, q.l.ncarry + 1);
    const Site site = r->b->site;
    keep_more(&q);
    r->b->site = site;
    const uint32_t first = r->g->nodes.n;
    for (uint32_t c = 0; c < q.l.ncarry; c++) {
        q.number[c] = UINT32_MAX;
        if (!is_float(&q, n->in[c]))
            continue;
        q.number[c] = v.before.n;
        vec_push(q.a, &v.before, loop_placeholder(r->b, val_type(r->g, n->in[c]), STAGE_BACKWARD));
        vjp_stage(r, STAGE_BACKWARD);
        const Val start = first_cotangent(&q, c);
        vec_push(q.a, &v.init, start);
    }
    vjp_stage(r, -1);
    inline_turn(&q);
    r->b->site = site;
    if (!differentiate_turn(&q, &v)) {
        r->failed = true;
        return;
    }
    const LoopTrace t = {.trip = q.l.trip,
                         .loop = q.l.loop,
                         .reverse = !q.l.reverse,
                         .name = q.l.body->name,
                         .first = first,
                         .ncarry = v.init.n,
                         .init = v.init.at,
                         .before = v.before.at,
                         .after = v.after.at,
                         .nyield = v.yield.n,
                         .yield = v.yield.at,
                         .sum = v.sum,
                         .segment = q.l.body->segment,
                         .nknown = q.known.n,
                         .known = q.known.at,
                         .known_all = q.known_all.at};
    Val *last = arena_array(q.a, Val, v.init.n + 1), *out = arena_array(q.a, Val, v.yield.n + 1);
    uint32_t at = 0;
    vjp_stage(r, STAGE_BACKWARD);
    const char *why = loop_build(r->b, &t, last, out, &at);
    if (why) {
        vjp_refuse(r, n, DIAG_no_gradient,
                   arena_printf(q.a, "the derivative of this scan cannot be stacked: %s", why));
        return;
    }
    give_all(&q, &v, last, out);
}
