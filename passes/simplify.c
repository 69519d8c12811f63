/* simplify.c: copies what is live through the builder, which folds and shares; inlines calls and
 * drops detach once no derivative is taken any more.
 *
 *   %1 = add %x, %y                     %1 = add %x, %y
 *   %2 = add %x, %y              =>     %3 = mul %1, %1
 *   %3 = mul %1, %2
 *
 * SPDX-License-Identifier: MIT */
#include "passes/analysis.h"
#include "passes/pipeline.h"

static void inline_call(Rewrite *rw, uint32_t id)
{
    Program *p = rw->b.p;
    Arena *a = p->cx->scratch;
    Node n = rw->old->nodes.at[id];
    const Graph *def = p->graphs.at[node_int(&n, ATTR_graph)];
    Val *in = arena_array(a, Val, n.nin), *out = arena_array(a, Val, n.nout);
    for (uint32_t k = 0; k < n.nin; k++)
        in[k] = rewrite_get(rw, n.in[k]);
    rw->b.stage = n.stage;
    graph_inline(&rw->b, def, in, n.nin, out);
    rw->b.stage = -1;
    for (uint32_t k = 0; k < n.nout; k++)
        rewrite_set(rw, (Val){id, k}, out[k]);
}

Graph *simplify_graph(Program *p, Graph *g, bool final)
{
    for (bool again = true; again;) {
        again = false;
        Rewrite rw = rewrite_begin(p, g);
        for (uint32_t id = 1; id < g->nodes.n; id++) {
            const Node *n = &g->nodes.at[id];
            if (!rw.live[id])
                continue;
            if (final && n->op == OP_call) {
                inline_call(&rw, id);
                again = true; /* a definition may hold calls */
            } else if (final && n->op == OP_detach) {
                rewrite_set(&rw, (Val){id, 0}, rewrite_get(&rw, n->in[0]));
            } else {
                rewrite_copy(&rw, id);
            }
        }
        g = rewrite_end(&rw);
    }
    return g;
}

/* A slot that keeps its value needs no commit. */
static void drop_commits(Graph *g)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < g->commits.n; i++) {
        Commit c = g->commits.at[i];
        const Node *n = graph_node(g, c.val);
        if (n->op != OP_state || node_int(n, ATTR_slot) != (int64_t)c.slot)
            g->commits.at[kept++] = c;
    }
    g->commits.n = kept;
}

bool pass_simplify(Pipeline *pl)
{
    Program *p = pl->p;
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        GraphKind kind = p->graphs.at[i]->kind;
        if (kind == GRAPH_DEF)
            continue;
        p->graphs.at[i] = simplify_graph(p, p->graphs.at[i], kind != GRAPH_TRAINING);
        drop_commits(p->graphs.at[i]);
    }
    return true;
}
