/* elab_import.c: values of one graph made again in another. Modules are made in a graph of their
 * own (e->making); a method that uses a tensor `let` of it, and INIT, copy what they need.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <string.h>

static Import *find_import(Elab *e, Graph *from)
{
    for (uint32_t i = 0; i < e->imports.n; i++)
        if (e->imports.at[i]->from == from && e->imports.at[i]->to == e->b.g)
            return e->imports.at[i];
    Import *m = arena_new(e->a, Import);
    *m = (Import){.from = from, .to = e->b.g};
    vec_push(e->a, &e->imports, m);
    return m;
}

/* A draw's place is named by the state that it initialises: known only when all is named. */
static Val import_key(Elab *e, uint32_t node, const Node *n, const Val *in)
{
    uint64_t site = (uint64_t)node_int(n, ATTR_site);
    for (uint32_t i = 0; i < e->keys_made.n; i++)
        if (e->keys_made.at[i].node == node) {
            const State *s = e->key_states.at[i];
            const char *name = s ? sym(e, s->name) : "";
            site = hash_bytes(e->key_sites.at[i], name, strlen(name));
        }
    return build_key(&e->b, in[0], in[1], site);
}

static void copy_node(Elab *e, Import *m, uint32_t id)
{
    const Node n = m->from->nodes.at[id];
    Val *in = arena_array(e->a, Val, n.nin);
    for (uint32_t i = 0; i < n.nin; i++)
        in[i] = (Val){m->new_vals.at[n.in[i].node].node, n.in[i].result};
    for (uint32_t i = 0; i < n.nin; i++)
        if (m->from->nodes.at[n.in[i].node].nout == 1)
            in[i] = m->new_vals.at[n.in[i].node];
    CHECK(n.op != OP_input);
    Site site = e->b.site;
    int stage = e->b.stage;
    e->b.site = n.site;
    e->b.stage = n.stage;
    Val v = n.op == OP_key && m->from == e->making ? import_key(e, id, &n, in)
                                                   : build_again(&e->b, &n, in);
    e->b.site = site;
    e->b.stage = stage;
    if (n.hint.id)
        val_hint(&e->b, v, n.hint);
    m->new_vals.at[id] = v;
    if (n.nout == 1)
        written_copy(e, m->from, (Val){id, 0}, v);
}

Val import_val(Elab *e, Graph *from, Val v)
{
    Import *m = find_import(e, from);
    while (m->new_vals.n <= v.node)
        vec_push(e->a, &m->new_vals, ((Val){0, 0}));
    /* operands precede their users: mark what is needed downwards, then copy upwards */
    bool *need = arena_array(e->a, bool, v.node + 1);
    need[v.node] = true;
    for (uint32_t id = v.node; id > 0; id--) {
        if (!need[id] || m->new_vals.at[id].node)
            continue;
        const Node *n = &from->nodes.at[id];
        for (uint32_t i = 0; i < n->nin; i++)
            need[n->in[i].node] = true;
    }
    for (uint32_t id = 1; id <= v.node; id++)
        if (need[id] && !m->new_vals.at[id].node)
            copy_node(e, m, id);
    Val out = m->new_vals.at[v.node];
    return from->nodes.at[v.node].nout == 1 ? out : val_result(out, v.result);
}
