/* rewrite.c: copy-forward rewriting: a pass reads the old graph and re-issues its nodes into a new
 * one through the builder, which folds and shares again. SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/tensor_internal.h"

#include <string.h>

Rewrite rewrite_begin(Program *p, Graph *old)
{
    Graph *g = arena_new(p->cx->perm, Graph);
    *g = (Graph){.name = old->name,
                 .kind = old->kind,
                 .method = old->method,
                 .sliced = old->sliced,
                 .extends = old->extends,
                 .segment = old->segment,
                 .at = old->at,
                 .doc = old->doc};
    vec_push(p->cx->perm, &g->nodes, ((Node){0}));
    Rewrite rw = {.b = builder_for(p, g), .old = old};
    rw.map = arena_array(p->cx->perm, Val *, old->nodes.n);
    for (uint32_t id = 1; id < old->nodes.n; id++)
        rw.map[id] = arena_array(p->cx->perm, Val, old->nodes.at[id].nout);
    rw.live = graph_live(p, old);
    return rw;
}

Val rewrite_get(const Rewrite *rw, Val old)
{
    CHECK(old.node > 0 && old.node < rw->old->nodes.n && rw->map[old.node][old.result].node);
    return rw->map[old.node][old.result];
}

void rewrite_set(Rewrite *rw, Val old, Val new_val)
{
    CHECK(old.node > 0 && old.node < rw->old->nodes.n);
    rw->map[old.node][old.result] = new_val;
}

/* The operands are copied first where the caller has not mapped them. */
Val rewrite_copy(Rewrite *rw, uint32_t node)
{
    CHECK(node > 0 && node < rw->old->nodes.n);
    if (rw->map[node][0].node)
        return rw->map[node][0];
    const Node n = rw->old->nodes.at[node];
    Val *in = arena_array(rw->b.p->cx->perm, Val, n.nin);
    for (uint32_t i = 0; i < n.nin; i++) {
        if (!rw->map[n.in[i].node][n.in[i].result].node)
            rewrite_copy(rw, n.in[i].node);
        in[i] = rewrite_get(rw, n.in[i]);
    }
    const Site site = rw->b.site;
    const int stage = rw->b.stage;
    rw->b.site = n.site;
    rw->b.stage = n.stage;
    const Val v =
        n.op == OP_input ? node_append(&rw->b, &n) : build_again(&rw->b, &n, in);
    rw->b.site = site;
    rw->b.stage = stage;
    if (n.hint.id)
        val_hint(&rw->b, v, n.hint);
    for (uint32_t k = 0; k < n.nout; k++)
        rw->map[node][k] = n.nout > 1 ? val_result(v, k) : v;
    return v;
}

static Val mapped(Rewrite *rw, Val old)
{
    if (!rw->map[old.node][old.result].node)
        rewrite_copy(rw, old.node);
    return rewrite_get(rw, old);
}

Graph *rewrite_end(Rewrite *rw)
{
    Graph *g = rw->b.g;
    const Graph *old = rw->old;
    Arena *a = rw->b.p->cx->perm;
    for (uint32_t i = 0; i < old->params.n; i++) {
        GraphParam param = old->params.at[i];
        param.val = mapped(rw, param.val);
        vec_push(a, &g->params, param);
    }
    for (uint32_t i = 0; i < old->effects.n; i++)
        mapped(rw, old->effects.at[i]); /* the builder lists them */
    for (uint32_t i = 0; i < old->results.n; i++) {
        GraphResult r = old->results.at[i];
        r.val = mapped(rw, r.val);
        vec_push(a, &g->results, r);
    }
    for (uint32_t i = 0; i < old->commits.n; i++) {
        Commit c = old->commits.at[i];
        c.val = mapped(rw, c.val);
        vec_push(a, &g->commits, c);
    }
    for (uint32_t i = 0; i < old->checks.n; i++)
        vec_push(a, &g->checks, old->checks.at[i]);
    for (uint32_t i = 0; i < old->saved.n; i++)
        vec_push(a, &g->saved, mapped(rw, old->saved.at[i]));
    return g;
}
