/* place.c: on which device each value lives. Types say it; what is left to do is
 *
 *   %two = const {2} : f32[]            %two = const {2} : f32[] @d2
 *   %y = mul %x, %two : f32[B] @d2      %y = mul %x, %two : f32[B] @d2
 *
 * so that what is stored of constants and sizes lies where it is read. SPDX-License-Identifier: MIT
 */
#include "passes/pipeline.h"

static Place place_of(const Rewrite *rw, const Node *n)
{
    return type_info(rw->b.p, n->types[0])->place;
}

/* The node with constants of its own device. What a scan's body is given has the body's types. */
static void settle_node(Rewrite *rw, uint32_t id)
{
    const Node n = rw->old->nodes.at[id];
    Val *in = arena_array(rw->b.p->cx->scratch, Val, n.nin + 1u);
    if (n.op == OP_input || n.op == OP_scan || n.op == OP_transfer || n.nin == 0) {
        rewrite_copy(rw, id);
        return;
    }
    for (uint32_t i = 0; i < n.nin; i++) {
        in[i] = rewrite_get(rw, n.in[i]);
        if (graph_node(rw->b.g, in[i])->loose == LOOSE_CONSTANT && n.loose != LOOSE_CONSTANT)
            in[i] = build_at_place(&rw->b, in[i], place_of(rw, &n));
    }
    rw->b.site = n.site;
    rw->b.stage = n.stage;
    const Val v = build_again(&rw->b, &n, in);
    rw->b.stage = -1;
    val_hint(&rw->b, v, n.hint);
    for (uint32_t k = 0; k < n.nout; k++)
        rewrite_set(rw, (Val){id, k}, n.nout > 1 ? val_result(v, k) : v);
}

bool pass_settle(Pipeline *pl)
{
    Program *p = pl->p;
    if (!program_has_places(p))
        return true;
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        Rewrite rw = rewrite_begin(p, p->graphs.at[i]);
        for (uint32_t id = 1; id < rw.old->nodes.n; id++)
            if (rw.live[id])
                settle_node(&rw, id);
        p->graphs.at[i] = rewrite_end(&rw);
    }
    return true;
}
