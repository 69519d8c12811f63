/* twice.c: a value that stands twice in a concat, such as the gradient of two biases that are added
 * up, has one place there; the other one gets a copy of its own, so that no piece has to be copied
 * but that one.
 *
 *   concat %w, %b, %b {axis=0}     =>     concat %w, %b, (detach %b) {axis=0}
 *
 * Behind the last pass that drops what changes nothing. SPDX-License-Identifier: MIT */
#include "passes/pipeline.h"

/* How often operand k stands among those before it. */
static uint32_t earlier(const Node *n, uint32_t k)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < k; i++)
        count += val_eq(n->in[i], n->in[k]);
    return count;
}

/* Constants are filled in; a concat of higher rank may be an operand in pieces. */
static bool has_twice(const Program *p, const Graph *g, const Node *n)
{
    if (n->op != OP_concat || type_info(p, n->types[0])->rank != 1)
        return false;
    for (uint32_t k = 1; k < n->nin; k++)
        if (earlier(n, k) && graph_node(g, n->in[k])->nin > 0)
            return true;
    return false;
}

/* The copy number `i` from 1 on: equal nodes are one, but for the rank of what is copied. */
static Val copy_of(Builder *b, Val v, uint32_t i)
{
    const TypeInfo t = *val_info(b->p, b->g, v);
    Dim shape[MAX_RANK];
    if (i > MAX_RANK)
        return v;
    for (uint32_t k = 0; k < i; k++)
        shape[k] = k + 1 < i ? dim_const(b->p->cx->dims, 1) : t.shape[0];
    return build_reshape(b, build1(b, OP_detach, build_reshape(b, v, shape, i)), t.shape, 1);
}

static void copy_second(Rewrite *rw, uint32_t id)
{
    const Node n = rw->old->nodes.at[id];
    Val *in = arena_array(rw->b.p->cx->scratch, Val, n.nin);
    rw->b.site = n.site;
    rw->b.stage = n.stage;
    for (uint32_t k = 0; k < n.nin; k++) {
        in[k] = rewrite_get(rw, n.in[k]);
        if (earlier(&n, k) && graph_node(rw->old, n.in[k])->nin > 0)
            in[k] = copy_of(&rw->b, in[k], earlier(&n, k));
    }
    const Val v = build_concat(&rw->b, in, n.nin, (uint32_t)node_int(&n, ATTR_axis));
    val_hint(&rw->b, v, n.hint);
    rw->b.stage = -1;
    rewrite_set(rw, (Val){id, 0}, v);
}

bool pass_twice(Pipeline *pl)
{
    Program *p = pl->p;
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        Graph *g = p->graphs.at[i];
        bool any = false;
        for (uint32_t id = 1; id < g->nodes.n && !any; id++)
            any = has_twice(p, g, &g->nodes.at[id]);
        if (!any || g->kind == GRAPH_CHECK)
            continue;
        Rewrite rw = rewrite_begin(p, g);
        for (uint32_t id = 1; id < g->nodes.n; id++) {
            if (!rw.live[id])
                continue;
            if (has_twice(p, g, &g->nodes.at[id]))
                copy_second(&rw, id);
            else
                rewrite_copy(&rw, id);
        }
        p->graphs.at[i] = rewrite_end(&rw);
    }
    return true;
}
