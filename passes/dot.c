/* dot.c: a product whose axes no strided loop runs over gets operands that one does: transposed,
 * which grouping stores where it has to.
 *
 *   dot %a[K,M,L], %b[K,L,N] {contract 0.0 2.1}       K and L are apart in %a
 *   dot (transpose %a {perm=1,0,2}), %b               a[M,K,L]: one loop over K * L
 *
 * SPDX-License-Identifier: MIT */
#include "passes/pipeline.h"

/* A list of axes that is one loop: each one directly behind the one before. */
static uint32_t breaks(Attr a, Attr b)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < a.n; i++)
        n += a.at[i] != a.at[i - 1] + 1 || (b.n && b.at[i] != b.at[i - 1] + 1);
    return n;
}

static bool has(Attr axes, int64_t axis)
{
    for (uint32_t i = 0; i < axes.n; i++)
        if (axes.at[i] == axis)
            return true;
    return false;
}

/* The axes of an operand that are neither batches nor contracted. */
static uint32_t free_axes(Attr batch, Attr contract, uint32_t rank, int64_t *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < rank; i++)
        if (!has(batch, i) && !has(contract, i))
            out[n++] = i;
    return n;
}

static uint32_t free_breaks(Attr batch, Attr contract, uint32_t rank)
{
    int64_t axes[MAX_RANK];
    uint32_t n = free_axes(batch, contract, rank, axes), count = 0;
    for (uint32_t i = 1; i < n; i++)
        count += axes[i] != axes[i - 1] + 1;
    return count;
}

/* More than one contracted loop, or more than two others than rows and columns. */
static bool is_apart(const Program *p, const Graph *g, const Node *n)
{
    if (n->op != OP_dot)
        return false;
    const Attr ba = node_attr(n, ATTR_batch_a), bb = node_attr(n, ATTR_batch_b);
    const Attr ca = node_attr(n, ATTR_contract_a), cb = node_attr(n, ATTR_contract_b);
    const uint32_t loops = (ba.n ? 1 + breaks(ba, bb) : 0) +
                           free_breaks(ba, ca, val_info(p, g, n->in[0])->rank) +
                           free_breaks(bb, cb, val_info(p, g, n->in[1])->rank);
    return breaks(ca, cb) > 0 || loops > 2;
}

/* The operand with its batches first, then (of a) free and contracted axes, (of b) the other way.
 */
static Val in_order(Rewrite *rw, const Node *n, int side, uint32_t *nfree)
{
    const Attr batch = node_attr(n, side ? ATTR_batch_b : ATTR_batch_a);
    const Attr contract = node_attr(n, side ? ATTR_contract_b : ATTR_contract_a);
    const uint32_t rank = val_info(rw->b.p, rw->old, n->in[side])->rank;
    int64_t rest[MAX_RANK], perm[MAX_RANK];
    uint32_t at = 0;
    *nfree = free_axes(batch, contract, rank, rest);
    for (uint32_t i = 0; i < batch.n; i++)
        perm[at++] = batch.at[i];
    for (uint32_t i = 0; i < *nfree && !side; i++)
        perm[at++] = rest[i];
    for (uint32_t i = 0; i < contract.n; i++)
        perm[at++] = contract.at[i];
    for (uint32_t i = 0; i < *nfree && side; i++)
        perm[at++] = rest[i];
    return build_transpose(&rw->b, rewrite_get(rw, n->in[side]), perm);
}

static void put_in_order(Rewrite *rw, uint32_t id)
{
    const Node n = rw->old->nodes.at[id];
    const uint32_t nb = node_attr(&n, ATTR_batch_a).n, nc = node_attr(&n, ATTR_contract_a).n;
    int64_t batch[MAX_RANK], ca[MAX_RANK], cb[MAX_RANK];
    uint32_t free_a, free_b;
    rw->b.site = n.site;
    rw->b.stage = n.stage;
    const Val a = in_order(rw, &n, 0, &free_a), b = in_order(rw, &n, 1, &free_b);
    for (uint32_t i = 0; i < nb; i++)
        batch[i] = i;
    for (uint32_t i = 0; i < nc; i++) {
        ca[i] = nb + free_a + i;
        cb[i] = nb + i;
    }
    const Val v = build_dot(&rw->b, a, b, batch, batch, nb, ca, cb, nc,
                            type_info(rw->b.p, n.types[0])->dtype);
    val_hint(&rw->b, v, n.hint);
    rw->b.stage = -1;
    rewrite_set(rw, (Val){id, 0}, v);
}

static bool has_apart(const Program *p, const Graph *g)
{
    for (uint32_t id = 1; id < g->nodes.n; id++)
        if (is_apart(p, g, &g->nodes.at[id]))
            return true;
    return false;
}

bool pass_dot(Pipeline *pl)
{
    Program *p = pl->p;
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        Graph *g = p->graphs.at[i];
        if (g->kind == GRAPH_CHECK || !has_apart(p, g))
            continue;
        Rewrite rw = rewrite_begin(p, g);
        for (uint32_t id = 1; id < rw.old->nodes.n; id++) {
            if (!rw.live[id])
                continue;
            if (is_apart(p, rw.old, &rw.old->nodes.at[id]))
                put_in_order(&rw, id);
            else
                rewrite_copy(&rw, id);
        }
        p->graphs.at[i] = rewrite_end(&rw);
    }
    return true;
}
