/* simplify.c: copies what is live through the builder, which folds and shares; inlines calls, drops
 * detach and turns operands of dots once no derivative is taken any more.
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

/* Contracted axes, from..: they stand side by side in this order. */
static bool side_by_side(const int64_t *axes, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (axes[i] != axes[i - 1] + 1)
            return false;
    return true;
}

/* x with the contracted axes last, in the order of the pairs; axes and batch are renumbered. */
static Val contracted_last(Builder *b, Val x, int64_t *axes, uint32_t n, int64_t *batch,
                           uint32_t nbatch)
{
    uint32_t rank = val_info(b->p, b->g, x)->rank, at = 0;
    int64_t perm[MAX_RANK], to[MAX_RANK];
    for (uint32_t k = 0; k < rank; k++) {
        bool contracted = false;
        for (uint32_t i = 0; i < n; i++)
            contracted |= axes[i] == (int64_t)k;
        if (!contracted)
            perm[at++] = k;
    }
    for (uint32_t i = 0; i < n; i++)
        perm[at++] = axes[i];
    for (uint32_t k = 0; k < rank; k++)
        to[perm[k]] = k;
    for (uint32_t i = 0; i < n; i++)
        axes[i] = to[axes[i]];
    for (uint32_t i = 0; i < nbatch; i++)
        batch[i] = to[batch[i]];
    return build_transpose(b, x, perm);
}

/* A product has one contracted loop: several axes must stand side by side in both operands. The
 * pairs are put in a's order; an operand where that is not enough is turned. */
static void copy_dot(Rewrite *rw, uint32_t id)
{
    Node n = rw->old->nodes.at[id];
    Attr a = node_attr(&n, ATTR_contract_a), b = node_attr(&n, ATTR_contract_b);
    Attr batch_a = node_attr(&n, ATTR_batch_a), batch_b = node_attr(&n, ATTR_batch_b);
    int64_t ca[MAX_RANK], cb[MAX_RANK], ba[MAX_RANK], bb[MAX_RANK];
    for (uint32_t i = 0; i < a.n; i++) {
        uint32_t at = i;
        for (; at > 0 && ca[at - 1] > a.at[i]; at--) {
            ca[at] = ca[at - 1];
            cb[at] = cb[at - 1];
        }
        ca[at] = a.at[i];
        cb[at] = b.at[i];
    }
    if (a.n < 2 || (side_by_side(a.at, a.n) && side_by_side(b.at, a.n))) {
        rewrite_copy(rw, id);
        return;
    }
    for (uint32_t i = 0; i < batch_a.n; i++) {
        ba[i] = batch_a.at[i];
        bb[i] = batch_b.at[i];
    }
    Val x = rewrite_get(rw, n.in[0]), y = rewrite_get(rw, n.in[1]);
    rw->b.site = n.site;
    rw->b.stage = n.stage;
    if (!side_by_side(ca, a.n))
        x = contracted_last(&rw->b, x, ca, a.n, ba, batch_a.n);
    if (!side_by_side(cb, a.n))
        y = contracted_last(&rw->b, y, cb, a.n, bb, batch_a.n);
    Val v =
        build_dot(&rw->b, x, y, ba, bb, batch_a.n, ca, cb, a.n, (DType)node_int(&n, ATTR_dtype));
    rw->b.stage = -1;
    val_hint(&rw->b, v, n.hint);
    rewrite_set(rw, (Val){id, 0}, v);
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
            } else if (final && n->op == OP_dot) {
                copy_dot(&rw, id);
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
        const bool final = kind != GRAPH_TRAINING && kind != GRAPH_BODY; /* bodies: pass scan */
        p->graphs.at[i] = simplify_graph(p, p->graphs.at[i], final);
        drop_commits(p->graphs.at[i]);
    }
    return true;
}
