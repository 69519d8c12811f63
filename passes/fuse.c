/* fuse.c: which values are stored, and the kernels that compute them. Everything else is recomputed
 * by its readers through index maps. Costs are bytes at hint sizes; nothing depends on anything but
 * the graph. fuse_place.c: where; fuse_contract.c: products; fuse_merge.c: fewer kernels.
 * SPDX-License-Identifier: MIT */
#include "passes/fuse.h"

#include "ir/base/die.h"
#include "passes/fuse_internal.h"

#include <stdlib.h>
#include <string.h>

enum { HEAVY = 40, SCALAR_HEAVY = 8, TOO_HEAVY = 1 << 20, PICKED = 4, TURNS = 3 };

/* --- what is stored --------------------------------------------------------------------------- */

static void keep(Fuser *f, Val v, bool own)
{
    f->keep[fuse_vid(f, v)] = true;
    f->own[fuse_vid(f, v)] |= own;
}

static void make_real(Fuser *f, uint32_t id)
{
    if (f->kind[id] == NODE_CONE)
        f->kind[id] = NODE_REAL;
}

static int weight(const Node *n)
{
    if (op_is_pointwise(n->op))
        return op_info(n->op)->weight;
    if (op_is_view(n->op) || op_is_free(n->op))
        return 0;
    return n->op == OP_random ? 10 : n->op == OP_key ? 20 : n->op == OP_extern ? 8 : 1;
}

/* Behind these a value is needed at other places than where the result is. */
static bool moves(Op op)
{
    return op == OP_slice || op == OP_pad || op == OP_concat || op == OP_gather ||
           op == OP_window || op == OP_unwindow || op == OP_transpose;
}

/* The weight of a node's cone: what is read in place counts once, however many read it; what is
 * read elsewhere is computed again, with all that it needs. */
static int cone_weight(Fuser *f, uint32_t id, uint32_t top)
{
    const Node *n = fuse_node(f, id);
    if (f->seen[id] == f->stamp || (id != top && f->kind[id] != NODE_CONE))
        return 0;
    f->seen[id] = f->stamp;
    int sum = weight(n);
    for (uint32_t i = 0; i < n->nin && sum < TOO_HEAVY; i++)
        sum +=
            moves(n->op) ? f->weight[fuse_piece(f, n->in[i])] : cone_weight(f, n->in[i].node, top);
    return sum < TOO_HEAVY ? sum : TOO_HEAVY;
}

/* The stored values that a node's cone reads. */
typedef VEC(uint32_t) Nodes;

static void cone_sources(Fuser *f, uint32_t id, uint32_t top, Nodes *sources)
{
    const Node *n = fuse_node(f, id);
    if (f->seen[id] == f->stamp)
        return;
    f->seen[id] = f->stamp;
    if (id != top && f->kind[id] != NODE_CONE) {
        vec_push(f->a, sources, id);
        return;
    }
    for (uint32_t i = 0; i < n->nin; i++)
        cone_sources(f, n->in[i].node, top, sources);
}

/* Readers of a value through views; how often they read it, all together, where one that reads half
 * of it counts half (the gates of an LSTM: four readers of a quarter each); and the bytes of
 * `sources` that they would read in its place. */
typedef struct {
    uint32_t n;
    double reads, extra;
} Consumers;

static bool reads_directly(const Fuser *f, const Node *n, uint32_t source)
{
    for (uint32_t i = 0; i < n->nin; i++) {
        Val v = n->in[i];
        while (f->kind[v.node] == NODE_CONE && op_is_view(graph_node(f->g, v)->op))
            v = graph_node(f->g, v)->in[0];
        if (v.node == source)
            return true;
    }
    return false;
}

static void count_consumers(const Fuser *f, uint32_t id, const Nodes *sources, double size,
                            double share, Consumers *c)
{
    for (uint32_t i = f->users.start[id]; i < f->users.start[id + 1]; i++) {
        uint32_t u = f->users.list[i];
        const Node *n = fuse_node(f, u);
        if (op_is_view(n->op) && f->kind[u] == NODE_CONE) {
            const double left =
                n->op == OP_slice ? node_bytes(f->p, f->g, u) / node_bytes(f->p, f->g, id) : 1;
            count_consumers(f, u, sources, size, left < 1 ? share * left : share, c);
            continue;
        }
        c->n++;
        c->reads += share;
        for (uint32_t k = 0; k < sources->n; k++) {
            double bytes = node_bytes(f->p, f->g, sources->at[k]);
            if (8 * bytes > size && !reads_directly(f, n, sources->at[k]))
                c->extra += share * (bytes < size ? bytes : size);
        }
    }
}

static bool wider_reader(const Fuser *f, uint32_t id)
{
    for (uint32_t i = f->users.start[id]; i < f->users.start[id + 1]; i++)
        if (type_info(f->p, fuse_node(f, f->users.list[i])->types[0])->rank > 0)
            return true;
    return false;
}

static void store(Fuser *f, uint32_t id)
{
    make_real(f, id);
    f->weight[id] = 0;
}

/* How often a value's places are transposed and then reshaped before a stored value is read: each
 * time the quotients and remainders of its index stand in those of the next, several times over. */
static Turns turns_of(const Fuser *f, uint32_t id)
{
    const Node *n = fuse_node(f, id);
    Turns t = {0};
    for (uint32_t i = 0; i < n->nin; i++) {
        const uint32_t from = n->in[i].node;
        if (f->kind[from] != NODE_CONE)
            continue;
        t.n = t.n > f->turns[from].n ? t.n : f->turns[from].n;
        t.transposed |= f->turns[from].transposed;
    }
    if (n->op == OP_transpose)
        t.transposed = true;
    if (n->op == OP_reshape && t.transposed)
        t = (Turns){t.n + 1, false};
    return t;
}

/* A value of several readers is stored if making it again costs more than one write and the reads;
 * a scalar, if it is worth a moment's work for every element of a larger kernel. */
static void may_store(Fuser *f, uint32_t id)
{
    const Node *n = fuse_node(f, id);
    if (f->kind[id] != NODE_CONE)
        return;
    f->turns[id] = turns_of(f, id);
    if (f->turns[id].n > TURNS) {
        store(f, id);
        return;
    }
    f->stamp++;
    const int w = cone_weight(f, id, id);
    f->weight[id] = w;
    if (op_is_view(n->op) || op_is_free(n->op) || n->nout != 1)
        return;
    Nodes sources = {0};
    f->stamp++;
    cone_sources(f, id, id, &sources);
    if (type_info(f->p, n->types[0])->rank == 0) {
        if (w > SCALAR_HEAVY && wider_reader(f, id))
            store(f, id);
        return;
    }
    double size = node_bytes(f->p, f->g, id);
    Consumers c = {0};
    count_consumers(f, id, &sources, size, 1, &c);
    if (c.n > 1 && ((w > HEAVY && c.reads > 1) || c.extra > size * (1 + c.reads)))
        store(f, id);
}

/* A gather in the cone of a node that picks one element of each row of what others read whole. */
static bool picks_from_rows(Fuser *f, uint32_t id, uint32_t top)
{
    const Node *n = fuse_node(f, id);
    if (f->seen[id] == f->stamp || (id != top && f->kind[id] != NODE_CONE))
        return false;
    f->seen[id] = f->stamp;
    if (n->op == OP_gather && node_int(n, ATTR_batch) > 0 &&
        val_count(f->p, f->g, (Val){id, 0}) * PICKED <= val_count(f->p, f->g, n->in[0]))
        return true;
    for (uint32_t i = 0; i < n->nin; i++)
        if (picks_from_rows(f, n->in[i].node, top))
            return true;
    return false;
}

/* What a sum over rows takes from each row is stored: so it joins the kernel that reads the rows,
 * which then may be the last one to read them (the loss of a cross-entropy, whose gradient takes
 * the place of the logits). */
static void store_picks(Fuser *f, uint32_t id)
{
    const Node *n = fuse_node(f, id);
    if (n->op != OP_reduce)
        return;
    const uint32_t x = n->in[0].node;
    f->stamp++;
    if (f->kind[x] == NODE_CONE && op_is_pointwise(fuse_node(f, x)->op) &&
        fuse_node(f, x)->nout == 1 && picks_from_rows(f, x, x))
        store(f, x);
}

static void must_store(Fuser *f)
{
    Graph *g = f->g;
    for (uint32_t i = 0; i < g->results.n; i++)
        keep(f, g->results.at[i].val, true);
    for (uint32_t i = 0; i < g->commits.n; i++)
        keep(f, g->commits.at[i].val, true);
    for (uint32_t i = 0; i < g->saved.n; i++)
        keep(f, g->saved.at[i], true);
    fuse_own_operands(f);
    fuse_place(f);
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        const Node *n = fuse_node(f, id);
        if (!f->live[id])
            continue;
        for (uint32_t k = 0; k < n->nout; k++)
            if (f->keep[f->first[id] + k])
                make_real(f, id);
        if (n->op == OP_reduce)
            make_real(f, id);
        if (n->op == OP_print) {
            make_real(f, n->in[0].node);
            keep(f, n->in[0], false);
        }
        if (op_is_opaque(n->op))
            fuse_prepare_opaque(f, id);
        if (n->op == OP_call) {
            diag_report(f->p->cx->diags, DIAG_not_supported, n->site.at,
                        "kernels for `%s` are not supported yet", op_name(n->op));
            f->failed = true;
        }
    }
    for (uint32_t id = 1; id < g->nodes.n && !f->failed; id++)
        if (f->live[id] && fuse_node(f, id)->op == OP_dot)
            fuse_prepare_dot(f, id);
    for (uint32_t id = 1; id < g->nodes.n; id++)
        if (f->live[id])
            store_picks(f, id);
    for (uint32_t id = 1; id < g->nodes.n; id++)
        if (f->live[id])
            may_store(f, id);
}

/* --- kernels ---------------------------------------------------------------------------------- */

static void add_kern(Fuser *f, Kern *k)
{
    for (uint32_t i = 0; i < k->reads.n; i++)
        f->readers[fuse_vid(f, k->reads.at[i].v)]++;
    vec_push(f->a, &f->ks, k);
}

static void read_operand(Fuser *f, Kern *k, const FuseOperand *o)
{
    for (uint32_t i = 0; i < k->reads.n; i++)
        if (val_eq(k->reads.at[i].v, o->val))
            return;
    vec_push(f->a, &k->reads, ((Read){.v = o->val, .bytes = val_bytes(f->p, f->g, o->val)}));
}

static void add_contract(Fuser *f, uint32_t id)
{
    Kern *k = fuse_contract(f, id);
    for (uint32_t i = 0; i < k->gemms.n; i++) {
        read_operand(f, k, &k->gemms.at[i].a);
        read_operand(f, k, &k->gemms.at[i].b);
    }
    for (uint32_t i = 0; i < k->roots.n; i++)
        vec_push(f->a, &k->body, k->roots.at[i].val.node);
    add_kern(f, k);
}

/* Constant pieces of a concat that is written in place. */
static void add_fills(Fuser *f, uint32_t id)
{
    const Node *n = fuse_node(f, id);
    uint32_t axis = (uint32_t)node_int(n, ATTR_axis);
    Dim at = dim_const(f->t, 0), stride[MAX_RANK];
    fuse_strides(f, (Val){id, 0}, stride);
    for (uint32_t i = 0; i < n->nin; i++) {
        Dim extent = val_info(f->p, f->g, n->in[i])->shape[axis];
        double value;
        if (graph_constant(f->g, n->in[i], &value)) {
            Kern *k = arena_new(f->a, Kern);
            *k = (Kern){.class = CLASS_COPY, .after = -1, .into = {id, 0}, .value = value};
            k->offset = dim_mul(f->t, at, stride[axis]);
            k->count = dim_mul(f->t, extent, stride[axis]);
            vec_push(f->a, &f->fills, ((Fill){id, (int32_t)f->ks.n}));
            add_kern(f, k);
        }
        at = dim_add(f->t, at, extent);
    }
}

static void add_effects(Fuser *f)
{
    int32_t before = -1;
    for (uint32_t i = 0; i < f->g->effects.n; i++) {
        Kern *k = fuse_kern(f, f->g->effects.at[i].node);
        f->owner[f->g->effects.at[i].node] = -1; /* a print's value is its operand's */
        fuse_cone(f, k);
        k->after = before;
        k->effect = true;
        before = (int32_t)f->ks.n;
        add_kern(f, k);
    }
}

static void make_kernels(Fuser *f)
{
    for (uint32_t id = 1; id < f->g->nodes.n && !f->failed; id++)
        if (f->live[id] && fuse_node(f, id)->op == OP_dot)
            add_contract(f, id);
    for (uint32_t id = 1; id < f->g->nodes.n; id++) {
        if (!f->live[id])
            continue;
        if (f->kind[id] == NODE_JOINED && fuse_node(f, id)->op == OP_concat)
            add_fills(f, id);
        if (f->kind[id] != NODE_REAL || f->owner[id] >= 0)
            continue;
        if (op_is_opaque(fuse_node(f, id)->op)) {
            add_kern(f, fuse_opaque(f, id));
            continue;
        }
        Kern *k = fuse_kern(f, id);
        fuse_cone(f, k);
        add_kern(f, k);
    }
    add_effects(f);
}

/* --- the answer ------------------------------------------------------------------------------- */

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void finish_roots(const Fuser *f, const Kern *k, FuseGroup *to, Arena *perm)
{
    for (uint32_t i = 0; i < k->roots.n; i++) {
        FuseRoot r = k->roots.at[i];
        const Node *n = graph_node(f->g, r.val);
        bool effect = n->op == OP_print || n->op == OP_check;
        if (k->class != CLASS_CONTRACT) {
            r.stored = 0;
            for (uint32_t j = 0; j < n->nout && !effect; j++)
                if (fuse_stored(f, k, k, &r, j))
                    r.stored |= 1u << j;
        }
        if (!r.stored && n->op != OP_reduce && n->op != OP_dot && !effect)
            continue; /* recomputed where it is used, within this kernel */
        vec_push(perm, &to->roots, r);
        for (uint32_t j = 0; j < n->nout; j++)
            if (r.stored >> j & 1)
                vec_push(perm, &to->outputs, ((Val){r.val.node, j}));
        to->site = n->site;
    }
}

static void add_group(const Fuser *f, const Kern *k, Fusion *out)
{
    Arena *perm = f->p->cx->perm;
    FuseGroup g = {.class = k->class,
                   .rank = k->rank,
                   .reduced = k->reduced,
                   .into = k->into,
                   .offset = k->offset,
                   .count = k->count,
                   .value = k->value};
    memcpy(g.domain, k->domain, sizeof g.domain);
    finish_roots(f, k, &g, perm);
    for (uint32_t i = 0; i < k->reads.n; i++)
        vec_push(perm, &g.inputs, k->reads.at[i].v);
    if (k->body.n)
        qsort(k->body.at, k->body.n, sizeof *k->body.at, by_number);
    for (uint32_t i = 0; i < k->body.n; i++)
        if (!i || k->body.at[i] != k->body.at[i - 1])
            vec_push(perm, &g.nodes, k->body.at[i]);
    for (uint32_t i = 0; i < k->gemms.n; i++)
        vec_push(perm, &g.gemms, k->gemms.at[i]);
    for (uint32_t i = 0; i < k->views.n; i++)
        vec_push(perm, &g.views, k->views.at[i]);
    double all = fuse_traffic(f, k, &g.bytes_read);
    g.bytes_written = all - g.bytes_read;
    for (uint32_t i = 0; i < g.outputs.n; i++) {
        Val v = g.outputs.at[i];
        out->buffer_of[v.node][v.result] = (int32_t)out->groups.n; /* until buffers have numbers */
    }
    vec_push(perm, &out->groups, g);
}

static void put_in_order(const Fuser *f, Fusion *out)
{
    uint32_t n;
    const uint32_t *order = fuse_sequence(f, &n);
    for (uint32_t i = 0; i < n; i++)
        add_group(f, f->ks.at[order[i]], out);
}

static bool has_storage(const Fuser *f, const Fusion *out, Val v)
{
    NodeKind kind = (NodeKind)f->kind[v.node];
    return kind == NODE_LEAF || kind == NODE_JOINED || out->buffer_of[v.node][v.result] >= 0;
}

static void make_buffers(const Fuser *f, Fusion *out)
{
    for (uint32_t id = 1; id < f->g->nodes.n; id++)
        for (uint32_t k = 0; k < fuse_node(f, id)->nout; k++) {
            Val v = {id, k};
            bool used = f->live[id] || fuse_node(f, id)->op == OP_input;
            if (!used || !has_storage(f, out, v))
                continue;
            const Placement *pl = fuse_placement(f, v);
            FuseBuffer b = {.val = v,
                            .group = out->buffer_of[id][k],
                            .base = pl->base,
                            .slot = pl->slot,
                            .offset = fuse_offset(f, v),
                            .is_concat = f->kind[id] == NODE_JOINED};
            if (b.is_concat)
                b.group = -1;
            fuse_strides(f, v, b.stride);
            out->buffer_of[id][k] = (int32_t)out->buffers.n;
            vec_push(f->p->cx->perm, &out->buffers, b);
        }
}

static Fuser fuser_create(Program *p, Graph *g)
{
    Arena *a = p->cx->scratch;
    Fuser f = {.p = p, .g = g, .a = a, .t = p->cx->dims, .live = graph_live(p, g)};
    uint32_t n = g->nodes.n;
    f.users = graph_users(p, g, f.live);
    f.kind = arena_array(a, uint8_t, n);
    f.weight = arena_array(a, int, n);
    f.turns = arena_array(a, Turns, n);
    f.first = arena_array(a, uint32_t, n);
    f.owner = arena_array(a, int32_t, n);
    f.seen = arena_array(a, uint32_t, n);
    f.seen_map = arena_array(a, AxisMap, n);
    for (uint32_t id = 1; id < n; id++) {
        f.first[id] = f.nvals;
        f.nvals += g->nodes.at[id].nout;
        f.owner[id] = -1;
    }
    f.place = arena_array(a, Placement, f.nvals);
    f.keep = arena_array(a, bool, f.nvals);
    f.own = arena_array(a, bool, f.nvals);
    f.readers = arena_array(a, uint32_t, f.nvals);
    return f;
}

const Fusion *fuse_graph(Program *p, Graph *g, bool merge)
{
    if (g->fused[merge])
        return g->fused[merge];
    Arena *perm = p->cx->perm;
    Fuser f = fuser_create(p, g);
    Fusion *out = arena_new(perm, Fusion);
    out->p = p;
    out->g = g;
    out->buffer_of = arena_array(perm, int32_t *, g->nodes.n);
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        out->buffer_of[id] = arena_array(perm, int32_t, g->nodes.at[id].nout);
        for (uint32_t k = 0; k < g->nodes.at[id].nout; k++)
            out->buffer_of[id][k] = -1;
    }
    must_store(&f);
    if (!f.failed)
        make_kernels(&f);
    if (f.failed)
        return NULL;
    if (merge)
        fuse_merge(&f);
    put_in_order(&f, out);
    make_buffers(&f, out);
    if (merge)
        fuse_strips(out);
    fuse_same(out);
    g->fused[merge] = out;
    return out;
}

const FuseBuffer *fuse_buffer(const Fusion *f, Val v)
{
    int32_t i = f->buffer_of[v.node][v.result];
    return i < 0 ? NULL : &f->buffers.at[i];
}
