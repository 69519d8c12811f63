/* broadcast.c: implicit broadcasting becomes explicit.
 *
 *   %y = add %x, %b : f32[B,3]          %1 = broadcast %b {shape=[B,3] dims=1} : f32[B,3]
 *                                =>     %y = add %x, %1                        : f32[B,3]
 *
 * No pass behind this one knows implicit broadcasting. SPDX-License-Identifier: MIT */
#include "passes/pipeline.h"

static bool spreads(Op op)
{
    return op_is_pointwise(op) || op == OP_extern;
}

static void spread_operands(Rewrite *rw, uint32_t id)
{
    Program *p = rw->b.p;
    Node n = rw->old->nodes.at[id];
    TypeInfo t = *type_info(p, n.types[0]);
    Val in[3];
    rw->b.site = n.site;
    for (uint32_t k = 0; k < n.nin; k++)
        in[k] = build_broadcast_to(&rw->b, rewrite_get(rw, n.in[k]), t.shape, t.rank);
    rw->b.stage = n.stage;
    Val v = build_again(&rw->b, &n, in);
    rw->b.stage = -1;
    val_hint(&rw->b, v, n.hint);
    rewrite_set(rw, (Val){id, 0}, v);
}

Graph *broadcast_graph(Program *p, Graph *g)
{
    Rewrite rw = rewrite_begin(p, g);
    for (uint32_t id = 1; id < rw.old->nodes.n; id++) {
        if (!rw.live[id])
            continue;
        if (spreads(rw.old->nodes.at[id].op))
            spread_operands(&rw, id);
        else
            rewrite_copy(&rw, id);
    }
    return rewrite_end(&rw);
}

bool pass_broadcast(Pipeline *pl)
{
    Program *p = pl->p;
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        Graph *g = broadcast_graph(p, p->graphs.at[i]);
        p->graphs.at[i] = g;
    }
    return true;
}
