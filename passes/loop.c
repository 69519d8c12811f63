/* loop.c: pass scan: scans that do no more than is needed. A scan and the one that keeps more of it
 * for a derivative become one; results, carries and operands that nobody reads go; all values of a
 * carry are kept only where they are read; a carry that stays as it was is a constant.
 *
 *   %h, = scan %h0, %x {body=2}                      %H, %Z = scan %h0, %x {body=5, keep=0}
 *   %H, %Z, %R = scan %h0, %x {body=4, keep=0}   =>  %h = slice %H {start=[T, ..]}
 *
 * Bodies are done with derivatives now: calls in them are inlined.
 * SPDX-License-Identifier: MIT */
#include "ir/loop.h"
#include "ir/base/die.h"
#include "passes/pipeline.h"

#include <string.h>

typedef struct {
    Program *p;
    Graph *g;
    Arena *a;
    bool **used;  /* [node][result]: somebody reads it */
    bool **whole; /* [node][result]: of a scan's carry: all values are read, not the last alone */
    Rewrite rw;
} Prune;

/* --- one scan that extends another ------------------------------------------------------------ */

static bool same_operands(const Node *a, const Node *b)
{
    if (a->nin != b->nin || a->stage > b->stage)
        return false;
    for (uint32_t i = 0; i < a->nin; i++)
        if (!val_eq(a->in[i], b->in[i]))
            return false;
    return true;
}

/* The scan behind `id` that gives all it gives and more, or 0. */
static uint32_t find_extension(const Program *p, const Graph *g, const bool *live, uint32_t id)
{
    const Node *n = &g->nodes.at[id];
    for (uint32_t k = id + 1; k < g->nodes.n; k++) {
        const Node *m = &g->nodes.at[k];
        if (m->op == OP_scan && live[k] && same_operands(n, m) &&
            p->graphs.at[node_int(m, ATTR_body)]->extends == node_int(n, ATTR_body) + 1)
            return k;
    }
    return 0;
}

/* The results of scan `id`, made of those of its extension. */
static void read_extension(Rewrite *rw, uint32_t id, uint32_t more)
{
    const Node n = rw->old->nodes.at[id];
    Builder *b = &rw->b;
    rewrite_copy(rw, more);
    const uint32_t ncarry = (uint32_t)node_attr(&n, ATTR_counts).at[0];
    for (uint32_t k = 0; k < n.nout; k++) {
        Val v = rewrite_get(rw, (Val){more, k});
        if (k < ncarry && !loop_keeps(&n, k))
            v = loop_last(b, (Val){v.node, 0}, k);
        rewrite_set(rw, (Val){id, k}, v);
    }
}

static Graph *merge_extensions(Program *p, Graph *g)
{
    Rewrite rw = rewrite_begin(p, g);
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        if (!rw.live[id] || rw.map[id][0].node)
            continue;
        const uint32_t more = g->nodes.at[id].op == OP_scan ? find_extension(p, g, rw.live, id) : 0;
        if (more)
            read_extension(&rw, id, more);
        else
            rewrite_copy(&rw, id);
    }
    return rewrite_end(&rw);
}

/* --- who reads what --------------------------------------------------------------------------- */

/* Reads the last value alone of all those that are kept. */
static bool reads_last(const Program *p, const Graph *g, const Node *n, Val v)
{
    DimTable *t = p->cx->dims;
    const Node *scan = graph_node(g, v);
    if (n->op != OP_slice || scan->op != OP_scan)
        return false;
    const Loop l = loop_of(p, scan);
    const TypeInfo *x = val_info(p, g, v);
    const Dim at = l.reverse ? dim_const(t, 0) : l.trip;
    if (v.result >= l.ncarry || !dim_same(node_dim(n, ATTR_start, 0), at) ||
        !dim_is_one(t, node_dim(n, ATTR_extent, 0)))
        return false;
    for (uint32_t i = 1; i < x->rank; i++)
        if (!dim_same(node_dim(n, ATTR_extent, i), x->shape[i]))
            return false;
    return true;
}

static void use(Prune *q, Val v, const Node *by)
{
    q->used[v.node][v.result] = true;
    if (!by || !reads_last(q->p, q->g, by, v))
        q->whole[v.node][v.result] = true;
}

static void find_uses(Prune *q)
{
    Graph *g = q->g;
    q->used = arena_array(q->a, bool *, g->nodes.n);
    q->whole = arena_array(q->a, bool *, g->nodes.n);
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        q->used[id] = arena_array(q->a, bool, g->nodes.at[id].nout);
        q->whole[id] = arena_array(q->a, bool, g->nodes.at[id].nout);
    }
    for (uint32_t id = 1; id < g->nodes.n; id++)
        for (uint32_t k = 0; q->rw.live[id] && k < g->nodes.at[id].nin; k++)
            use(q, g->nodes.at[id].in[k], &g->nodes.at[id]);
    for (uint32_t i = 0; i < g->results.n; i++)
        use(q, g->results.at[i].val, NULL);
    for (uint32_t i = 0; i < g->commits.n; i++)
        use(q, g->commits.at[i].val, NULL);
}

/* --- what a scan needs ------------------------------------------------------------------------ */

typedef struct {
    Loop l;
    bool *result, *param; /* of the body: needed */
    bool *fixed;          /* carry: stays as it was */
} Needs;

/* Carries feed themselves: until nothing new is needed. */
static Needs find_needs(Prune *q, uint32_t id)
{
    const Node *n = &q->g->nodes.at[id];
    Needs s = {.l = loop_of(q->p, n)};
    const Graph *body = s.l.body;
    s.result = arena_array(q->a, bool, body->results.n);
    s.param = arena_array(q->a, bool, body->params.n + 1);
    s.fixed = arena_array(q->a, bool, s.l.ncarry + 1);
    for (uint32_t k = 0; k < body->results.n; k++)
        s.result[k] = q->used[id][k];
    for (uint32_t c = 0; c < s.l.ncarry; c++)
        s.fixed[c] = val_eq(body->results.at[c].val, body->params.at[c].val);
    for (bool again = true; again;) {
        Graph some = *body;
        some.results.n = 0;
        some.results.at = arena_array(q->a, GraphResult, body->results.n + 1);
        for (uint32_t k = 0; k < body->results.n; k++)
            if (s.result[k] && !(k < s.l.ncarry && s.fixed[k]))
                some.results.at[some.results.n++] = body->results.at[k];
        const bool *live = graph_live(q->p, &some);
        again = false;
        for (uint32_t i = 0; i < body->params.n; i++) {
            s.param[i] = live[body->params.at[i].val.node];
            if (i < s.l.ncarry && s.param[i] && !s.result[i] && !s.fixed[i])
                s.result[i] = again = true;
        }
    }
    return s;
}

/* The body with what is needed alone: carries, xs, constants (fixed carries first among these). */
static uint32_t smaller_body(Prune *q, const Needs *s)
{
    Graph some = *s->l.body;
    VEC(GraphParam) params = {0};
    VEC(GraphResult) results = {0};
    const Graph *body = s->l.body;
    const uint32_t ncarry = s->l.ncarry;
    for (uint32_t c = 0; c < ncarry; c++)
        if (s->result[c] && !s->fixed[c])
            vec_push(q->p->cx->perm, &params, body->params.at[c]);
    for (uint32_t i = ncarry; i < ncarry + s->l.nxs; i++)
        if (s->param[i])
            vec_push(q->p->cx->perm, &params, body->params.at[i]);
    for (uint32_t c = 0; c < ncarry; c++)
        if (s->fixed[c] && s->param[c])
            vec_push(q->p->cx->perm, &params, body->params.at[c]);
    for (uint32_t i = ncarry + s->l.nxs; i < body->params.n; i++)
        if (s->param[i])
            vec_push(q->p->cx->perm, &params, body->params.at[i]);
    for (uint32_t k = 0; k < body->results.n; k++)
        if (s->result[k] && !(k < ncarry && s->fixed[k]))
            vec_push(q->p->cx->perm, &results, body->results.at[k]);
    memcpy(&some.params, &params, sizeof params);
    memcpy(&some.results, &results, sizeof results);
    Graph *g = simplify_graph(q->p, &some, true);
    g->extends = 0;
    vec_push(q->p->cx->perm, &q->p->graphs, g);
    return q->p->graphs.n - 1;
}

/* A carry that stays as it was: its value, or all of its values. */
static Val constant_carry(Prune *q, uint32_t id, uint32_t c)
{
    const Node *n = &q->g->nodes.at[id];
    const Val init = rewrite_get(&q->rw, n->in[c]);
    if (!loop_keeps(n, c))
        return init;
    const TypeInfo t = *type_info(q->p, n->types[c]);
    return build_broadcast_to(&q->rw.b, init, t.shape, t.rank);
}

static void prune_scan(Prune *q, uint32_t id)
{
    Builder *b = &q->rw.b;
    const Node n = q->g->nodes.at[id];
    const Needs s = find_needs(q, id);
    const uint32_t body = smaller_body(q, &s), ncarry = s.l.ncarry;
    Val *in = arena_array(q->a, Val, n.nin + 1);
    bool *keep = arena_array(q->a, bool, ncarry + 1);
    uint32_t nin = 0, nxs = 0, carries = 0;
    for (uint32_t c = 0; c < ncarry; c++)
        if (s.result[c] && !s.fixed[c]) {
            keep[carries++] = loop_keeps(&n, c) && q->whole[id][c];
            in[nin++] = rewrite_get(&q->rw, n.in[c]);
        }
    for (uint32_t i = ncarry; i < ncarry + s.l.nxs; i++)
        if (s.param[i]) {
            in[nin++] = rewrite_get(&q->rw, n.in[i]);
            nxs++;
        }
    for (uint32_t c = 0; c < ncarry; c++)
        if (s.fixed[c] && s.param[c])
            in[nin++] = rewrite_get(&q->rw, n.in[c]);
    for (uint32_t i = ncarry + s.l.nxs; i < n.nin; i++)
        if (s.param[i])
            in[nin++] = rewrite_get(&q->rw, n.in[i]);
    b->site = n.site;
    b->stage = n.stage;
    Val v = {0, 0};
    if (q->p->graphs.at[body]->results.n || q->p->graphs.at[body]->effects.n)
        v = build_scan(b, body, s.l.trip, s.l.loop, s.l.reverse, carries, nxs, keep, in, nin);
    b->stage = -1;
    for (uint32_t k = 0, at = 0; k < n.nout; k++) {
        const bool fixed = k < ncarry && s.fixed[k];
        if (fixed)
            rewrite_set(&q->rw, (Val){id, k}, constant_carry(q, id, k));
        else if (s.result[k])
            rewrite_set(&q->rw, (Val){id, k}, val_result(v, at++));
    }
}

/* The slice that reads the last value of a carry whose other values are not kept any more. */
static bool read_last(Prune *q, uint32_t id)
{
    const Node n = q->g->nodes.at[id];
    if (n.op != OP_slice || !reads_last(q->p, q->g, &n, n.in[0]))
        return false;
    const Node *scan = graph_node(q->g, n.in[0]);
    if (!loop_keeps(scan, n.in[0].result) || q->whole[n.in[0].node][n.in[0].result])
        return false;
    const Val v = rewrite_get(&q->rw, n.in[0]);
    const TypeInfo t = *type_info(q->p, n.types[0]);
    if (val_info(q->p, q->rw.b.g, v)->rank == t.rank) /* a constant carry: all values are made */
        return false;
    rewrite_set(&q->rw, (Val){id, 0}, build_reshape(&q->rw.b, v, t.shape, t.rank));
    return true;
}

static Graph *prune_graph(Program *p, Graph *g)
{
    Prune q = {.p = p, .g = g, .a = p->cx->perm, .rw = rewrite_begin(p, g)};
    find_uses(&q);
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        if (!q.rw.live[id])
            continue;
        if (g->nodes.at[id].op == OP_scan)
            prune_scan(&q, id);
        else if (!read_last(&q, id))
            rewrite_copy(&q.rw, id);
    }
    return rewrite_end(&q.rw);
}

static bool has_scan(const Graph *g)
{
    for (uint32_t id = 1; id < g->nodes.n; id++)
        if (g->nodes.at[id].op == OP_scan)
            return true;
    return false;
}

static uint32_t quiet_body(Program *p, uint32_t index)
{
    Graph *body = p->graphs.at[index];
    bool any = body->effects.n > 0;
    for (uint32_t id = 1; id < body->nodes.n; id++)
        any |= body->nodes.at[id].op == OP_scan;
    if (!any)
        return index;
    Rewrite rw = rewrite_begin(p, body);
    for (uint32_t id = 1; id < body->nodes.n; id++) {
        const Node *n = &body->nodes.at[id];
        if (!rw.live[id])
            continue;
        if (n->op == OP_print || n->op == OP_check) {
            rewrite_set(&rw, (Val){id, 0}, rewrite_get(&rw, n->in[0]));
        } else if (n->op == OP_scan) {
            Val *in = arena_array(p->cx->perm, Val, n->nin);
            for (uint32_t k = 0; k < n->nin; k++)
                in[k] = rewrite_get(&rw, n->in[k]);
            rw.b.site = n->site;
            const Val v = build_quietly(&rw.b, n, in);
            for (uint32_t k = 0; k < n->nout; k++)
                rewrite_set(&rw, (Val){id, k}, n->nout > 1 ? val_result(v, k) : v);
        } else {
            rewrite_copy(&rw, id);
        }
    }
    Graph *g = rewrite_end(&rw);
    vec_push(p->cx->perm, &p->graphs, g);
    return p->graphs.n - 1;
}

Val build_quietly(Builder *b, const Node *n, const Val *in)
{
    Attr attrs[MAX_ATTRS];
    const OpInfo *info = op_info(n->op);
    int64_t body;
    for (int i = 0; i < info->nattrs; i++) {
        attrs[i] = n->attrs[i];
        if (info->attrs[i] == ATTR_body) {
            body = quiet_body(b->p, (uint32_t)n->attrs[i].at[0]);
            attrs[i] = (Attr){&body, 1};
        }
    }
    Node quiet = *n;
    quiet.attrs = attrs;
    return build_again(b, &quiet, in);
}

/* The graph, then the bodies that it still uses. */
Graph *tidy_scans(Program *p, Graph *g)
{
    if (!has_scan(g))
        return g;
    g = simplify_graph(p, prune_graph(p, merge_extensions(p, g)), true);
    const bool *live = graph_live(p, g);
    for (uint32_t id = 1; id < g->nodes.n; id++)
        if (live[id] && g->nodes.at[id].op == OP_scan) {
            const int64_t body = node_int(&g->nodes.at[id], ATTR_body);
            Graph *inner = tidy_scans(p, p->graphs.at[body]);
            p->graphs.at[body] = inner;
        }
    return g;
}

bool pass_scan(Pipeline *pl)
{
    Program *p = pl->p;
    const uint32_t n = p->graphs.n;
    for (uint32_t i = 0; i < n; i++)
        if (p->graphs.at[i]->kind != GRAPH_BODY && p->graphs.at[i]->kind != GRAPH_DEF) {
            Graph *g = tidy_scans(p, p->graphs.at[i]); /* the list of graphs may move meanwhile */
            p->graphs.at[i] = g;
        }
    return true;
}
