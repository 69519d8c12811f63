/* remat.c: what may cross from forward to backward. A minimum cut by bytes decides which forward
 * values backward reads; it makes the others again, in stage 1.
 *
 *   %e = exp %x                       %e = exp %x
 *   %y = mul %e, 2                    %y = mul %e, 2
 *   return %y                   =>    return %y
 *   %d = mul %dy, %e     !1           %1 = exp %x        !1      ; %x is kept anyway
 *                                     %d = mul %dy, %1   !1
 *
 * Clones have stage 1, which is part of a node's identity: nothing merges them back.
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "passes/analysis.h"
#include "passes/pipeline.h"

#include <string.h>

/* --- which node is where ---------------------------------------------------------------------- */

static void mark_up(const Graph *g, bool *mark)
{
    for (uint32_t id = g->nodes.n; id-- > 1;)
        for (uint32_t k = 0; mark[id] && k < g->nodes.at[id].nin; k++)
            mark[g->nodes.at[id].in[k].node] = true;
}

bool *graph_backward(const Program *p, const Graph *g, const Joint *j)
{
    Arena *a = p->cx->scratch;
    bool *back = arena_array(a, bool, g->nodes.n), *fore = arena_array(a, bool, g->nodes.n);
    uint32_t nresults = j ? j->nresults : 0, ncommits = j ? j->ncommits : 0;
    for (uint32_t i = 0; i < nresults; i++)
        fore[g->results.at[i].val.node] = true;
    for (uint32_t i = 0; i < ncommits; i++)
        fore[g->commits.at[i].val.node] = true;
    for (uint32_t i = 0; j && i < g->effects.n; i++)
        fore[g->effects.at[i].node] = true;
    mark_up(g, fore);
    for (uint32_t i = j ? j->nparams : g->params.n; i < g->params.n; i++)
        back[g->params.at[i].val.node] = true;
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        const Node *n = &g->nodes.at[id];
        back[id] |= n->stage > STAGE_FORWARD;
        for (uint32_t k = 0; k < n->nin; k++)
            back[id] |= back[n->in[k].node];
        back[id] &= !fore[id];
    }
    return back;
}

/* --- maximum flow ----------------------------------------------------------------------------- */

typedef struct {
    uint32_t to;
    double cap; /* left */
} Edge;         /* edge e and e ^ 1 are each other's reverse */

typedef struct {
    Arena *a;
    VEC(Edge) edges;
    VEC(uint32_t) * out; /* edges that leave a vertex; see flow_vertex */
    int *level;
    uint32_t *next, n;
} Flow;

typedef VEC(uint32_t) List;

static Flow flow_create(Arena *a, uint32_t n)
{
    Flow f = {.a = a, .n = n};
    f.out = arena_alloc(a, sizeof(List) * n);
    f.level = arena_array(a, int, n);
    f.next = arena_array(a, uint32_t, n);
    return f;
}

static void flow_edge(Flow *f, uint32_t from, uint32_t to, double cap)
{
    vec_push(f->a, &f->edges, ((Edge){to, cap}));
    vec_push(f->a, &f->out[from], f->edges.n - 1);
    vec_push(f->a, &f->edges, ((Edge){from, 0}));
    vec_push(f->a, &f->out[to], f->edges.n - 1);
}

static const double LITTLE = 1e-6;

static bool flow_levels(Flow *f, uint32_t from, uint32_t to)
{
    uint32_t *queue = arena_array(f->a, uint32_t, f->n), head = 0, tail = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        f->level[i] = -1;
        f->next[i] = 0;
    }
    f->level[from] = 0;
    queue[tail++] = from;
    while (head < tail) {
        uint32_t v = queue[head++];
        for (uint32_t i = 0; i < f->out[v].n; i++) {
            const Edge *e = &f->edges.at[f->out[v].at[i]];
            if (e->cap > LITTLE && f->level[e->to] < 0) {
                f->level[e->to] = f->level[v] + 1;
                queue[tail++] = e->to;
            }
        }
    }
    return f->level[to] >= 0;
}

/* One path of the level graph from `from`, by an explicit stack of edges; false if there is none.
 */
static bool flow_path(Flow *f, uint32_t from, uint32_t to, uint32_t *stack)
{
    uint32_t v = from, depth = 0;
    while (v != to) {
        bool stepped = false;
        for (; f->next[v] < f->out[v].n && !stepped; f->next[v] += !stepped) {
            uint32_t e = f->out[v].at[f->next[v]];
            uint32_t w = f->edges.at[e].to;
            if (f->edges.at[e].cap > LITTLE && f->level[w] == f->level[v] + 1) {
                stack[depth++] = e;
                v = w;
                stepped = true;
                break;
            }
        }
        if (stepped)
            continue;
        if (!depth)
            return false;
        f->level[v] = -1; /* a dead end */
        v = f->edges.at[stack[--depth] ^ 1].to;
        f->next[v]++;
    }
    double least = f->edges.at[stack[0]].cap;
    for (uint32_t i = 1; i < depth; i++)
        least = f->edges.at[stack[i]].cap < least ? f->edges.at[stack[i]].cap : least;
    for (uint32_t i = 0; i < depth; i++) {
        f->edges.at[stack[i]].cap -= least;
        f->edges.at[stack[i] ^ 1].cap += least;
    }
    return true;
}

static void flow_run(Flow *f, uint32_t from, uint32_t to)
{
    uint32_t *stack = arena_array(f->a, uint32_t, f->n + 1);
    while (flow_levels(f, from, to))
        while (flow_path(f, from, to, stack))
            ;
}

/* --- the cut ---------------------------------------------------------------------------------- */

/* Who reads a value, perhaps through views: an attention of forward; an op of backward that cannot
 * recompute its operand; forward, outside of the value's `checkpoint { }`. */
enum { FOR_ATTENTION = 1, FOR_PRODUCT = 2, FOR_OUTSIDE = 4 };

typedef struct {
    const Program *p;
    const Graph *g;
    const bool *live, *back;
    Users users;
    uint8_t *uses;   /* of each node */
    bool *committed; /* slot: this graph writes it, so it must be kept by value */
    int mode;        /* 0 auto, 1 none: save all, 2 all: recompute all that can be */
} Cut;

static const double FOREVER = 1e30;

static bool is_made_freely(const Node *n)
{
    return op_is_view(n->op) || n->op == OP_concat || n->op == OP_random;
}

/* q, k or v of an attention, or of its gradient. */
static bool is_vectors(const Node *n, uint32_t id)
{
    return n->in[0].node == id || n->in[1].node == id || n->in[2].node == id;
}

/* What a value is to the node that reads it, or, where that is a view or another that is made
 * freely, to those that read that. */
static int use_of(const Cut *c, uint32_t id, uint32_t user)
{
    const Node *n = &c->g->nodes.at[user];
    const bool back = c->back[user], view = op_is_view(n->op);
    int use = 0;
    if (!back && n->op == OP_attention && is_vectors(n, id))
        use |= FOR_ATTENTION;
    if (back && (n->op == OP_dot || n->op == OP_conv || n->op == OP_scan ||
                 (n->op == OP_attention_grad && is_vectors(n, id))))
        use |= FOR_PRODUCT;
    if (!back && n->site.block != c->g->nodes.at[id].site.block)
        use |= FOR_OUTSIDE;
    if (!back && view)
        use |= c->uses[user] & FOR_ATTENTION;
    if (view || n->op == OP_concat)
        use |= c->uses[user] & FOR_PRODUCT;
    if (!back && is_made_freely(n))
        use |= c->uses[user] & FOR_OUTSIDE;
    return use;
}

/* Readers stand behind what they read: each value is looked at once. */
static void find_uses(Cut *c)
{
    for (uint32_t id = c->g->nodes.n; id-- > 1;)
        for (uint32_t i = c->users.start[id]; i < c->users.start[id + 1]; i++)
            c->uses[id] |= (uint8_t)use_of(c, id, c->users.list[i]);
}

/* Arguments, state that this graph leaves alone, views of it (parameters), and constants. */
static bool kept_by_reference(const Cut *c, const Node *n)
{
    if (n->op == OP_state)
        return !c->committed[node_int(n, ATTR_slot)];
    if (n->op == OP_slice || n->op == OP_reshape) {
        const Node *x = graph_node(c->g, n->in[0]);
        return x->op != OP_input && !op_is_free(x->op) && kept_by_reference(c, x);
    }
    return n->op == OP_input || op_is_free(n->op);
}

/* Made in a `checkpoint { }`: nothing of it is kept but what others read. */
static bool of_checkpoint(const Cut *c, uint32_t id)
{
    const Node *n = &c->g->nodes.at[id];
    return n->site.block && !c->back[id] && n->op != OP_key && n->op != OP_state &&
           n->op != OP_transfer && !kept_by_reference(c, n);
}

/* Only a whole node is kept: of a scan that would be all that its derivative reads. */
static bool leaves_checkpoint(const Cut *c, uint32_t id)
{
    const Node *n = &c->g->nodes.at[id];
    return n->op != OP_scan && !is_made_freely(n) && (c->uses[id] & FOR_OUTSIDE);
}

static bool never_again(const Cut *c, uint32_t id)
{
    const Node *n = &c->g->nodes.at[id];
    if (of_checkpoint(c, id))
        return leaves_checkpoint(c, id); /* what it is made of would be kept in its stead */
    if (kept_by_reference(c, n) || n->op == OP_dot || n->op == OP_conv || n->op == OP_cumulate ||
        n->op == OP_scan || n->op == OP_key || n->op == OP_state || n->op == OP_transfer ||
        n->op == OP_print || n->op == OP_check)
        return true;
    if (is_made_freely(n))
        return false;
    if (n->op == OP_reduce && 4 * node_bytes(c->p, c->g, id) <= val_bytes(c->p, c->g, n->in[0]))
        return true;
    return c->mode == 1 || (c->mode == 0 && (c->uses[id] & FOR_PRODUCT));
}

/* What it costs to keep a value: bytes, twice for one that forward would not store anyway. */
static double cost_of_keeping(const Cut *c, uint32_t id)
{
    const Node *n = &c->g->nodes.at[id];
    if (n->op == OP_input)
        return 1;
    if (kept_by_reference(c, n))
        return 1e-3;
    if (is_made_freely(n) || (of_checkpoint(c, id) && !leaves_checkpoint(c, id)))
        return FOREVER;
    bool stored = n->op == OP_dot || n->op == OP_conv || n->op == OP_fold || n->op == OP_reduce ||
                  n->op == OP_key || n->op == OP_cumulate || n->op == OP_scan ||
                  (c->uses[id] & FOR_ATTENTION);
    for (uint32_t i = 0; i < c->g->results.n && !stored; i++)
        stored = c->g->results.at[i].val.node == id;
    for (uint32_t i = c->users.start[id]; i < c->users.start[id + 1] && !stored; i++) {
        uint32_t u = c->users.list[i];
        stored = !c->back[u] && (c->g->nodes.at[u].op == OP_dot || c->g->nodes.at[u].op == OP_conv);
    }
    return node_bytes(c->p, c->g, id) * (stored ? 1 : 2);
}

/* saved[node]: backward reads this forward value. Vertices: 2 id into a node, 2 id + 1 out of it.
 */
static bool *find_cut(const Cut *c)
{
    const Graph *g = c->g;
    Arena *a = c->p->cx->scratch;
    Flow f = flow_create(a, 2 * g->nodes.n + 2);
    uint32_t from = 2 * g->nodes.n, to = from + 1;
    bool *saved = arena_array(a, bool, g->nodes.n);
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        if (!c->live[id] || c->back[id])
            continue;
        double cost = cost_of_keeping(c, id);
        flow_edge(&f, 2 * id, 2 * id + 1, cost);
        if (never_again(c, id))
            flow_edge(&f, from, 2 * id, FOREVER);
        for (uint32_t i = c->users.start[id]; i < c->users.start[id + 1]; i++) {
            uint32_t u = c->users.list[i];
            flow_edge(&f, 2 * id + 1, c->back[u] ? to : 2 * u, FOREVER);
        }
    }
    flow_run(&f, from, to);
    for (uint32_t id = 1; id < g->nodes.n; id++)
        saved[id] = c->live[id] && !c->back[id] && f.level[2 * id] >= 0 && f.level[2 * id + 1] < 0;
    return saved;
}

/* --- cloning ---------------------------------------------------------------------------------- */

typedef struct {
    const Cut *c;
    Rewrite *rw;
    const bool *saved;
    Val **again; /* [node][result]: the clone */
} Cloner;

/* The value that backward reads for a forward value. */
static Val for_backward(Cloner *cl, Val old)
{
    const Node *n = graph_node(cl->rw->old, old);
    if (cl->c->back[old.node] || cl->saved[old.node] || kept_by_reference(cl->c, n) ||
        never_again(cl->c, old.node))
        return rewrite_get(cl->rw, old);
    if (n->op == OP_print || n->op == OP_check)
        return for_backward(cl, n->in[0]);
    if (!cl->again[old.node]) {
        Val *in = arena_array(cl->rw->b.p->cx->scratch, Val, n->nin);
        Node copy = *n;
        for (uint32_t k = 0; k < copy.nin; k++)
            in[k] = for_backward(cl, copy.in[k]);
        cl->rw->b.site = copy.site;
        cl->rw->b.stage = STAGE_BACKWARD;
        Val v = build_quietly(&cl->rw->b, &copy, in);
        cl->rw->b.stage = -1;
        val_hint(&cl->rw->b, v, copy.hint);
        cl->again[old.node] = arena_array(cl->rw->b.p->cx->scratch, Val, copy.nout);
        for (uint32_t k = 0; k < copy.nout; k++)
            cl->again[old.node][k] = copy.nout > 1 ? val_result(v, k) : v;
    }
    return cl->again[old.node][old.result];
}

static Graph *clone_for_backward(const Cut *c, Program *p, const bool *saved)
{
    Rewrite rw = rewrite_begin(p, (Graph *)c->g);
    Graph *old = rw.old;
    Cloner cl = {c, &rw, saved, arena_array(p->cx->scratch, Val *, c->g->nodes.n)};
    for (uint32_t id = 1; id < old->nodes.n; id++) {
        if (!c->live[id])
            continue;
        Node n = old->nodes.at[id];
        if (!c->back[id] || !n.nin) {
            rewrite_copy(&rw, id);
            continue;
        }
        Val *in = arena_array(p->cx->scratch, Val, n.nin);
        for (uint32_t k = 0; k < n.nin; k++)
            in[k] = for_backward(&cl, n.in[k]);
        rw.b.site = n.site;
        rw.b.stage = n.stage;
        Val v = build_again(&rw.b, &n, in);
        rw.b.stage = -1;
        val_hint(&rw.b, v, n.hint);
        for (uint32_t k = 0; k < n.nout; k++)
            rewrite_set(&rw, (Val){id, k}, n.nout > 1 ? val_result(v, k) : v);
    }
    return rewrite_end(&rw);
}

static Graph *remat_graph(Pipeline *pl, uint32_t index)
{
    Program *p = pl->p;
    Arena *a = p->cx->scratch;
    Graph *g = p->graphs.at[index];
    const Joint *j = pipeline_joint(pl, index);
    Cut c = {.p = p, .g = g, .live = graph_live(p, g), .back = graph_backward(p, g, j)};
    c.users = graph_users(p, g, c.live);
    c.uses = arena_array(p->cx->scratch, uint8_t, g->nodes.n);
    find_uses(&c);
    c.committed = arena_array(a, bool, p->slots.n);
    for (uint32_t i = 0; j && i < j->ncommits; i++)
        c.committed[g->commits.at[i].slot] = true;
    c.mode = !pl->o->remat || !strcmp(pl->o->remat, "auto") ? 0
             : !strcmp(pl->o->remat, "none")                ? 1
                                                            : 2;
    const bool *saved = find_cut(&c);
    bool again = false; /* a scan: what it kept for its derivative, the one of backward keeps */
    for (uint32_t id = 1; id < g->nodes.n; id++)
        again |= c.live[id] && g->nodes.at[id].op == OP_scan && of_checkpoint(&c, id);
    g = simplify_graph(p, clone_for_backward(&c, p, saved), true);
    return again ? tidy_scans(p, g) : g;
}

bool pass_remat(Pipeline *pl)
{
    Program *p = pl->p;
    const uint32_t n = p->graphs.n;
    for (uint32_t i = 0; i < n; i++) {
        GraphKind kind = p->graphs.at[i]->kind;
        if (pipeline_joint(pl, i) || kind == GRAPH_GRAD || kind == GRAPH_STEP) {
            Graph *g = remat_graph(pl, i); /* the list of graphs may move meanwhile */
            p->graphs.at[i] = g;
        }
    }
    return true;
}
