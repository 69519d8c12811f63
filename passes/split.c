/* split.c: a training graph becomes two, joined by a tape.
 *
 *   graph @m.f(%x, %d_y) {              graph @m.f (forward_train) (%x) { .. return %y  saved %h,
 * %x } return %y, %d_x }           =>    graph @m.f (backward) (%d_y, %h, %x) { .. return %d_x }
 *
 * What backward reads of forward is saved, in order of definition; state that forward does not
 * change is read again instead. SPDX-License-Identifier: MIT */
#include "passes/analysis.h"
#include "passes/pipeline.h"

#include <string.h>

/* Of a symbol, as a name of the graph in question; what other graphs left behind has other numbers.
 */
typedef struct {
    uint32_t taken, counted; /* graph */
    uint32_t next;           /* numbers below are taken behind this hint */
} NameUse;

typedef struct {
    NameUse *at; /* by symbol */
    uint32_t n, graph;
} Names;

typedef struct {
    Program *p;
    const Graph *joint;
    const Joint *j;
    const bool *back;
    bool *saved;   /* [node] */
    bool *changed; /* slot: forward commits it */
    Names *names;  /* of backward's parameters */
} Split;

/* Backward has it by itself. */
static bool at_hand(const Split *s, const Node *n)
{
    return op_is_free(n->op) || (n->op == OP_state && !s->changed[node_int(n, ATTR_slot)]);
}

/* Views of what is at hand (parameters) are made again. */
static bool remade(const Split *s, uint32_t id)
{
    const Node *n = &s->joint->nodes.at[id];
    if (at_hand(s, n))
        return true;
    return op_is_view(n->op) && remade(s, n->in[0].node);
}

static void need(Split *s, Val v)
{
    if (!s->back[v.node] && !remade(s, v.node))
        s->saved[v.node] = true;
}

static Graph *graph_like(Program *p, const Graph *g, GraphKind kind)
{
    Graph *to = program_add_graph(p, g->name, kind);
    to->method = g->method;
    to->at = g->at;
    to->doc = g->doc;
    return to;
}

/* Copies one node; the map of values is `map`. */
static void copy_node(Builder *b, const Graph *from, uint32_t id, Val **map)
{
    Node n = from->nodes.at[id];
    Val *in = arena_array(b->p->cx->scratch, Val, n.nin);
    for (uint32_t k = 0; k < n.nin; k++) {
        if (!map[n.in[k].node])
            copy_node(b, from, n.in[k].node, map);
        in[k] = map[n.in[k].node][n.in[k].result];
    }
    b->site = n.site;
    b->stage = n.stage;
    Val v = build_again(b, &n, in);
    b->stage = -1;
    val_hint(b, v, n.hint);
    map[id] = arena_array(b->p->cx->scratch, Val, n.nout);
    for (uint32_t k = 0; k < n.nout; k++)
        map[id][k] = n.nout > 1 ? val_result(v, k) : v;
}

static void copy_input(Builder *b, const Graph *from, const GraphParam *param, Val **map)
{
    b->site = graph_node(from, param->val)->site;
    Val v = build_input(b, param->name, val_type(from, param->val));
    GraphParam *to = &vec_last(&b->g->params);
    Val made = to->val;
    *to = *param;
    to->val = made;
    map[param->val.node] = arena_array(b->p->cx->scratch, Val, 1);
    map[param->val.node][0] = v;
}

static Val mapped(Builder *b, const Graph *from, Val v, Val **map)
{
    if (!map[v.node])
        copy_node(b, from, v.node, map);
    return map[v.node][v.result];
}

static Graph *forward_graph(Split *s)
{
    Program *p = s->p;
    const Graph *from = s->joint;
    Graph *g = graph_like(p, from, GRAPH_FORWARD_TRAIN);
    Builder b = builder_for(p, g);
    Val **map = arena_array(p->cx->scratch, Val *, from->nodes.n);
    for (uint32_t i = 0; i < s->j->nparams; i++)
        copy_input(&b, from, &from->params.at[i], map);
    for (uint32_t i = 0; i < from->effects.n; i++)
        mapped(&b, from, from->effects.at[i], map);
    for (uint32_t i = 0; i < s->j->nresults; i++) {
        GraphResult r = from->results.at[i];
        graph_result(p, g, r.name, mapped(&b, from, r.val, map), r.at);
    }
    for (uint32_t i = 0; i < s->j->ncommits; i++) {
        Commit c = from->commits.at[i];
        graph_commit(p, g, c.slot, mapped(&b, from, c.val, map));
    }
    for (uint32_t id = 1; id < from->nodes.n; id++)
        for (uint32_t k = 0; s->saved[id] && k < from->nodes.at[id].nout; k++)
            vec_push(p->cx->perm, &g->saved, mapped(&b, from, (Val){id, k}, map));
    for (uint32_t i = 0; i < from->checks.n; i++)
        vec_push(p->cx->perm, &g->checks, from->checks.at[i]);
    return g;
}

static NameUse *name_use(Names *names, Arena *a, Sym s)
{
    if (s.id >= names->n) {
        const uint32_t n = s.id * 2 + 64;
        NameUse *at = arena_array(a, NameUse, n);
        if (names->n)
            memcpy(at, names->at, names->n * sizeof *at);
        names->at = at;
        names->n = n;
    }
    return &names->at[s.id];
}

/* False if it was taken before. */
static bool take_name(Split *s, Sym name)
{
    NameUse *use = name_use(s->names, s->p->cx->scratch, name);
    const bool taken = use->taken == s->names->graph;
    use->taken = s->names->graph;
    return !taken;
}

/* A name that no parameter of the graph has: HINT or HINT.NUMBER. */
static Sym free_name(Split *s, const Node *n, uint32_t k)
{
    Interner *in = s->p->cx->names;
    Arena *a = s->p->cx->scratch;
    const char *hint = n->hint.id ? sym_text(in, n->hint) : op_name(n->op);
    const Sym base = sym_of(in, hint);
    const NameUse *use = name_use(s->names, a, base);
    uint32_t i = use->counted == s->names->graph ? use->next : 0;
    i = i > k ? i : k;
    Sym name = i ? sym_of(in, arena_printf(a, "%s.%u", hint, i)) : base;
    while (!take_name(s, name))
        name = sym_of(in, arena_printf(a, "%s.%u", hint, ++i));
    if (!k) {
        NameUse *of_base = name_use(s->names, a, base);
        of_base->counted = s->names->graph;
        of_base->next = i + 1;
    }
    return name;
}

static Graph *backward_graph(Split *s)
{
    Program *p = s->p;
    const Graph *from = s->joint;
    Graph *g = graph_like(p, from, GRAPH_BACKWARD);
    Builder b = builder_for(p, g);
    Val **map = arena_array(p->cx->scratch, Val *, from->nodes.n);
    for (uint32_t i = s->j->nparams; i < from->params.n; i++)
        copy_input(&b, from, &from->params.at[i], map);
    s->names->graph++;
    for (uint32_t i = 0; i < g->params.n; i++)
        take_name(s, g->params.at[i].name);
    for (uint32_t id = 1; id < from->nodes.n; id++) {
        const Node *n = &from->nodes.at[id];
        if (!s->saved[id])
            continue;
        map[id] = arena_array(p->cx->scratch, Val, n->nout);
        for (uint32_t k = 0; k < n->nout; k++) {
            b.site = n->site;
            map[id][k] = build_input(&b, free_name(s, n, k), n->types[k]);
            vec_push(p->cx->perm, &g->saved, map[id][k]);
        }
    }
    for (uint32_t i = s->j->nresults; i < from->results.n; i++) {
        GraphResult r = from->results.at[i];
        graph_result(p, g, r.name, mapped(&b, from, r.val, map), r.at);
    }
    for (uint32_t i = s->j->ncommits; i < from->commits.n; i++) {
        Commit c = from->commits.at[i];
        graph_commit(p, g, c.slot, mapped(&b, from, c.val, map));
    }
    return g;
}

static void split_graph(Pipeline *pl, const Joint *j, Names *names)
{
    Program *p = pl->p;
    Arena *a = p->cx->scratch;
    Graph *g = p->graphs.at[j->graph];
    Split s = {p,
               g,
               j,
               graph_backward(p, g, j),
               arena_array(a, bool, g->nodes.n),
               arena_array(a, bool, p->slots.n),
               names};
    const bool *live = graph_live(p, g);
    for (uint32_t i = 0; i < j->ncommits; i++)
        s.changed[g->commits.at[i].slot] = true;
    for (uint32_t id = 1; id < g->nodes.n; id++)
        for (uint32_t k = 0; live[id] && s.back[id] && k < g->nodes.at[id].nin; k++)
            need(&s, g->nodes.at[id].in[k]);
    for (uint32_t i = j->nresults; i < g->results.n; i++)
        need(&s, g->results.at[i].val);
    for (uint32_t i = j->ncommits; i < g->commits.n; i++)
        need(&s, g->commits.at[i].val);
    Graph *forward = forward_graph(&s), *backward = backward_graph(&s);
    /* forward takes the place of the training graph, backward stays behind all */
    p->graphs.at[j->graph] = forward;
    p->graphs.n -= 2;
    p->graphs.at[p->graphs.n++] = backward;
}

bool pass_split(Pipeline *pl)
{
    Names names = {0};
    for (uint32_t i = 0; i < pl->joints.n; i++)
        split_graph(pl, &pl->joints.at[i], &names);
    return true;
}
