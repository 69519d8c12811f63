/* fuse_place.c: storage without kernels: arguments, state and views of it; and concats whose pieces
 * are written where they belong.
 *
 *   %dz = concat %di, %do, %dg {axis=1}     %dz has a buffer [B,384]; %di is its columns 0..128
 *   commit grad <- concat(add(slice grad 0:n, %dw), ..)      each piece is added in place
 *
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "passes/fuse_internal.h"

#include <stdlib.h>

static void row_major(const Fuser *f, const TypeInfo *t, Dim *stride)
{
    Dim s = dim_const(f->t, 1);
    for (uint32_t k = t->rank; k-- > 0;) {
        stride[k] = s;
        s = dim_mul(f->t, s, t->shape[k]);
    }
}

void fuse_strides(const Fuser *f, Val v, Dim *stride)
{
    const Placement *pl = fuse_placement(f, v);
    const TypeInfo *t = val_info(f->p, f->g, v);
    if (pl->set && f->kind[v.node] != NODE_LEAF) {
        for (uint32_t k = 0; k < t->rank; k++)
            stride[k] = pl->stride[k];
        return;
    }
    row_major(f, t, stride);
}

Dim fuse_offset(const Fuser *f, Val v)
{
    return fuse_placement(f, v)->set ? fuse_placement(f, v)->offset : dim_const(f->t, 0);
}

/* --- views of state --------------------------------------------------------------------------- */

/* A contiguous range of a slot: its beginning. */
static bool state_view(const Fuser *f, uint32_t id, uint32_t *slot, Dim *offset)
{
    const Node *n = fuse_node(f, id);
    if (n->op == OP_state) {
        *slot = (uint32_t)node_int(n, ATTR_slot);
        *offset = dim_const(f->t, 0);
        return true;
    }
    if (n->op == OP_reshape)
        return state_view(f, n->in[0].node, slot, offset);
    if (n->op != OP_slice || val_info(f->p, f->g, n->in[0])->rank != 1 ||
        node_attr(n, ATTR_step).at[0] != 1 || !state_view(f, n->in[0].node, slot, offset))
        return false;
    *offset = dim_add(f->t, *offset, node_dim(n, ATTR_start, 0));
    return true;
}

static void mark_leaves(Fuser *f)
{
    for (uint32_t id = 1; id < f->g->nodes.n; id++) {
        Placement *pl = &f->place[f->first[id]];
        Op op = fuse_node(f, id)->op;
        if (op == OP_input || op == OP_table)
            f->kind[id] = NODE_LEAF;
        if ((op == OP_state || op == OP_slice || op == OP_reshape) &&
            state_view(f, id, &pl->slot, &pl->offset)) {
            f->kind[id] = NODE_LEAF;
            pl->set = true;
        }
    }
}

/* --- concats ---------------------------------------------------------------------------------- */

/* The computed node behind an operand of a concat: through views that only rearrange. */
static Val piece_source(const Fuser *f, Val v)
{
    const Node *n = graph_node(f->g, v);
    while ((n->op == OP_reshape || n->op == OP_transpose) && f->kind[v.node] == NODE_CONE) {
        if (f->own[fuse_vid(f, v)])
            return v;
        v = n->in[0];
        n = graph_node(f->g, v);
    }
    return v;
}

/* Each result can be written where it belongs. */
static bool is_placeable(const Node *n)
{
    return n->nout == 1 || n->op == OP_attention || n->op == OP_attention_grad;
}

/* Strides of the operand of a reshape, given those of its result: an axis of the result that is
 * made of several of the operand splits; several that make up one must lie side by side. */
bool fuse_reshape_strides(const Fuser *f, const TypeInfo *r, const Dim *of_r, const TypeInfo *x,
                          Dim *of_x)
{
    uint32_t i = r->rank, k = x->rank;
    while (i > 0 || k > 0) {
        if (k > 0 && dim_is_one(f->t, x->shape[k - 1])) {
            of_x[--k] = dim_const(f->t, 0);
            continue;
        }
        if (i > 0 && dim_is_one(f->t, r->shape[i - 1])) {
            i--;
            continue;
        }
        if (i == 0 || k == 0)
            return false;
        Dim have = r->shape[i - 1], want = x->shape[k - 1], stride = of_r[i - 1];
        of_x[k - 1] = stride;
        while (!dim_same(have, want)) {
            if (i > 1 && dim_exact_div(f->t, want, have).id) { /* take one more of the result's */
                i--;
                if (!dim_same(of_r[i - 1], dim_mul(f->t, of_r[i], r->shape[i])))
                    return false;
                have = dim_mul(f->t, have, r->shape[i - 1]);
            } else if (k > 1 && dim_exact_div(f->t, have, want).id) {
                k--;
                of_x[k - 1] = dim_mul(f->t, stride, want);
                want = dim_mul(f->t, want, x->shape[k - 1]);
            } else {
                return false;
            }
        }
        i--;
        k--;
    }
    return true;
}

bool fuse_strides_through(const Fuser *f, Val v, uint32_t to, const Dim *of_v, Dim *stride)
{
    Dim now[MAX_RANK], next[MAX_RANK];
    TypeInfo t = *val_info(f->p, f->g, v);
    for (uint32_t k = 0; k < t.rank; k++)
        now[k] = of_v[k];
    while (v.node != to) {
        const Node *n = graph_node(f->g, v);
        TypeInfo x = *val_info(f->p, f->g, n->in[0]);
        if (n->op == OP_transpose) {
            for (uint32_t k = 0; k < t.rank; k++)
                next[node_attr(n, ATTR_perm).at[k]] = now[k];
        } else if (!fuse_reshape_strides(f, &t, now, &x, next)) {
            return false;
        }
        v = n->in[0];
        t = x;
        for (uint32_t k = 0; k < t.rank; k++)
            now[k] = next[k];
    }
    for (uint32_t k = 0; k < t.rank; k++)
        stride[k] = now[k];
    return true;
}

/* A slot's own range, which the concat leaves as it is. */
static bool keeps_slot(const Fuser *f, Val v, uint32_t slot, Dim at)
{
    const Placement *pl = fuse_placement(f, v);
    return slot && f->kind[v.node] == NODE_LEAF && pl->slot == slot && dim_same(pl->offset, at);
}

/* Where a piece's elements come from in the same order. */
static uint32_t same_order(const Fuser *f, Val v)
{
    while (f->kind[v.node] == NODE_CONE && graph_node(f->g, v)->op == OP_reshape)
        v = graph_node(f->g, v)->in[0];
    return v.node;
}

/* An opaque op may read the slot only as what it changes. */
static bool reads_in_place(const Fuser *f, uint32_t id, uint32_t slot)
{
    const Node *n = fuse_node(f, id);
    for (uint32_t i = op_updates_first(n->op); i < n->nin && op_is_opaque(n->op); i++) {
        const uint32_t x = same_order(f, n->in[i]);
        if (f->kind[x] == NODE_LEAF && f->place[f->first[x]].slot == slot)
            return false;
    }
    return true;
}

/* v is u, or what ops make of u by changing it where it lies. */
static bool is_made_of(const Fuser *f, Val v, uint32_t u)
{
    for (;;) {
        const uint32_t s = same_order(f, v);
        if (s == u)
            return true;
        if (!op_updates_first(fuse_node(f, s)->op) ||
            f->users.start[s + 1] - f->users.start[s] != 1)
            return false;
        v = fuse_node(f, s)->in[0];
    }
}

/* A piece of a concat along its first axis, by the place where it begins. */
typedef struct {
    Dim at;
    uint32_t k;
} PieceAt;

static int by_place(const void *a, const void *b)
{
    const PieceAt *x = a, *y = b;
    return x->at.id != y->at.id ? (x->at.id < y->at.id ? -1 : 1) : (x->k > y->k) - (x->k < y->k);
}

static const PieceAt *pieces_at(const Fuser *f, const Node *concat)
{
    PieceAt *list = arena_array(f->a, PieceAt, concat->nin + 1);
    Dim at = dim_const(f->t, 0);
    for (uint32_t k = 0; k < concat->nin; k++) {
        list[k] = (PieceAt){at, k};
        at = dim_add(f->t, at, val_info(f->p, f->g, concat->in[k])->shape[0]);
    }
    qsort(list, concat->nin, sizeof *list, by_place);
    return list;
}

/* u becomes the piece that begins at `at`, with as many elements as `leaf`. */
static bool is_piece(const Fuser *f, const Node *concat, const PieceAt *list, Dim at, uint32_t u,
                     uint32_t leaf)
{
    uint32_t lo = 0, hi = concat->nin;
    while (lo < hi) { /* the first one there; empty pieces share a place */
        const uint32_t mid = lo + (hi - lo) / 2;
        if (list[mid].at.id < at.id)
            lo = mid + 1;
        else
            hi = mid;
    }
    const Dim n = type_numel(f->p, val_type(f->g, (Val){leaf, 0}));
    for (; lo < concat->nin && dim_same(list[lo].at, at); lo++) {
        const Val v = concat->in[list[lo].k];
        if (dim_same(type_numel(f->p, val_type(f->g, v)), n) && is_made_of(f, v, u))
            return true;
    }
    return false;
}

/* Every reader of a slot reads only what its own piece of the concat replaces. */
static bool slot_in_place(const Fuser *f, uint32_t concat, uint32_t slot)
{
    const Node *c = fuse_node(f, concat);
    const PieceAt *list = NULL;
    for (uint32_t id = 1; id < f->g->nodes.n; id++) {
        const Placement *pl = &f->place[f->first[id]];
        if (!f->live[id] || f->kind[id] != NODE_LEAF || pl->slot != slot)
            continue;
        for (uint32_t i = f->users.start[id]; i < f->users.start[id + 1]; i++) {
            uint32_t u = f->users.list[i];
            if (u == concat || f->kind[u] == NODE_LEAF)
                continue;
            /* a piece: its only reader is the concat, at the same place */
            if (!list)
                list = pieces_at(f, c);
            if (!is_piece(f, c, list, pl->offset, u, id) ||
                f->users.start[u + 1] - f->users.start[u] != 1 || !reads_in_place(f, u, slot))
                return false;
        }
    }
    return true;
}

/* The slot that a concat may be computed in: it is committed there and nowhere else. */
static uint32_t committed_slot(const Fuser *f, uint32_t id)
{
    uint32_t slot = 0, uses = f->users.start[id + 1] - f->users.start[id];
    if (uses || val_info(f->p, f->g, (Val){id, 0})->rank != 1)
        return 0;
    for (uint32_t i = 0; i < f->g->results.n; i++)
        if (f->g->results.at[i].val.node == id)
            return 0;
    for (uint32_t i = 0; i < f->g->saved.n; i++)
        if (f->g->saved.at[i].node == id)
            return 0;
    for (uint32_t i = 0; i < f->g->commits.n; i++)
        if (f->g->commits.at[i].val.node == id) {
            if (slot)
                return 0;
            slot = f->g->commits.at[i].slot;
        }
    if (!slot || f->p->slots.at[slot].type.id != val_type(f->g, (Val){id, 0}).id)
        return 0;
    return slot_in_place(f, id, slot) ? slot : 0;
}

/* Can operand k be written (or filled, or left) in place? */
static bool piece_fits(Fuser *f, uint32_t id, uint32_t k, uint32_t slot, Dim at, const Dim *stride)
{
    Val v = fuse_node(f, id)->in[k];
    double c;
    if (keeps_slot(f, v, slot, at))
        return true;
    if (graph_constant(f->g, v, &c))
        return node_int(fuse_node(f, id), ATTR_axis) == 0;
    const Val s = piece_source(f, v);
    const Node *n = graph_node(f->g, s);
    Dim through[MAX_RANK];
    if (f->kind[s.node] == NODE_LEAF || !is_placeable(n) || fuse_placement(f, s)->set ||
        f->own[fuse_vid(f, s)] || op_is_view(n->op))
        return false;
    /* one way only from the source to this concat: no other reader of the views between, and the
     * source is placed once */
    for (Val x = v; x.node != s.node; x = graph_node(f->g, x)->in[0])
        if (f->users.start[x.node + 1] - f->users.start[x.node] != 1)
            return false;
    for (uint32_t j = 0; j < fuse_node(f, id)->nin; j++)
        if (j != k && val_eq(piece_source(f, fuse_node(f, id)->in[j]), s))
            return false;
    return fuse_strides_through(f, v, s.node, stride, through);
}

static void place_pieces(Fuser *f, uint32_t id, uint32_t slot)
{
    const Node *n = fuse_node(f, id);
    uint32_t axis = (uint32_t)node_int(n, ATTR_axis);
    Dim stride[MAX_RANK], at = dim_const(f->t, 0);
    Val base = f->place[f->first[id]].set && f->place[f->first[id]].base.node
                   ? f->place[f->first[id]].base
                   : (Val){id, 0};
    Dim begin = fuse_offset(f, (Val){id, 0});
    fuse_strides(f, (Val){id, 0}, stride);
    for (uint32_t k = 0; k < n->nin; k++) {
        const Val s = piece_source(f, n->in[k]);
        double c;
        Dim offset = dim_add(f->t, begin, dim_mul(f->t, at, stride[axis]));
        at = dim_add(f->t, at, val_info(f->p, f->g, n->in[k])->shape[axis]);
        if (f->kind[s.node] == NODE_LEAF || graph_constant(f->g, n->in[k], &c))
            continue;
        Placement *pl = fuse_placement(f, s);
        pl->set = true;
        pl->slot = slot;
        pl->base = slot ? (Val){0, 0} : base;
        pl->offset = offset;
        fuse_strides_through(f, n->in[k], s.node, stride, pl->stride);
        f->kind[s.node] = graph_node(f->g, s)->op == OP_concat ? NODE_JOINED : NODE_REAL;
        f->keep[fuse_vid(f, s)] = true;
    }
}

/* A piece lies turned: its axes cannot be contracted as one. */
static bool has_turned_piece(const Fuser *f, const Node *concat)
{
    for (uint32_t k = 0; k < concat->nin; k++)
        for (Val v = concat->in[k]; op_is_view(graph_node(f->g, v)->op);
             v = graph_node(f->g, v)->in[0])
            if (graph_node(f->g, v)->op == OP_transpose)
                return true;
    return false;
}

/* A concat that only dots read, each along a contracted or a single free axis, is not stored: its
 * operands become pieces of the product. */
static bool only_for_dots(const Fuser *f, uint32_t id)
{
    const Node *n = fuse_node(f, id);
    int64_t axis = node_int(n, ATTR_axis);
    uint32_t uses = 0;
    if (f->keep[f->first[id]])
        return false;
    for (uint32_t i = f->users.start[id]; i < f->users.start[id + 1]; i++) {
        const Node *u = fuse_node(f, f->users.list[i]);
        if (u->op != OP_dot || val_eq(u->in[0], u->in[1]))
            return false;
        bool is_a = u->in[0].node == id;
        Attr batch = node_attr(u, is_a ? ATTR_batch_a : ATTR_batch_b);
        Attr contract = node_attr(u, is_a ? ATTR_contract_a : ATTR_contract_b);
        /* one operand in pieces is enough; concats are decided from the last one on */
        uint32_t other = u->in[is_a].node;
        if (other > id && fuse_node(f, other)->op == OP_concat && f->kind[other] == NODE_CONE)
            return false;
        if (contract.n > 1 && has_turned_piece(f, n))
            return false;
        bool contracted = contract.n == 1 && contract.at[0] == axis;
        bool free = val_info(f->p, f->g, (Val){id, 0})->rank == batch.n + contract.n + 1;
        for (uint32_t k = 0; k < batch.n; k++)
            free &= batch.at[k] != axis;
        for (uint32_t k = 0; k < contract.n; k++)
            free &= contract.at[k] != axis;
        if (!contracted && !free)
            return false;
        uses++;
    }
    return uses > 0;
}

static void place_concat(Fuser *f, uint32_t id)
{
    const Node *n = fuse_node(f, id);
    uint32_t axis = (uint32_t)node_int(n, ATTR_axis);
    if (!f->place[f->first[id]].set && only_for_dots(f, id))
        return;
    uint32_t slot =
        f->place[f->first[id]].set ? f->place[f->first[id]].slot : committed_slot(f, id);
    Dim stride[MAX_RANK], at = dim_const(f->t, 0);
    fuse_strides(f, (Val){id, 0}, stride);
    bool fits = true;
    for (uint32_t k = 0; k < n->nin && fits; k++) {
        fits = piece_fits(f, id, k, slot, at, stride);
        at = dim_add(f->t, at, val_info(f->p, f->g, n->in[k])->shape[axis]);
    }
    f->kind[id] = fits ? NODE_JOINED : NODE_REAL;
    if (!fits)
        return;
    if (slot && !f->place[f->first[id]].set) {
        f->place[f->first[id]] =
            (Placement){.set = true, .slot = slot, .offset = dim_const(f->t, 0)};
        f->place[f->first[id]].stride[0] = dim_const(f->t, 1);
    }
    place_pieces(f, id, slot);
}

/* What an op changes, and nobody else reads, is made where the result lies. */
static void place_first(Fuser *f, uint32_t id)
{
    const Node *n = fuse_node(f, id);
    Val v = n->in[0];
    const Placement *to = &f->place[f->first[id]];
    double constant;
    if (!to->set || f->kind[id] != NODE_REAL)
        return;
    for (;; v = graph_node(f->g, v)->in[0]) {
        const bool lone = f->users.start[v.node + 1] - f->users.start[v.node] == 1;
        if (!lone || f->own[fuse_vid(f, v)])
            return;
        if (graph_node(f->g, v)->op != OP_reshape || f->kind[v.node] != NODE_CONE)
            break;
    }
    const Node *x = graph_node(f->g, v);
    if (f->kind[v.node] != NODE_CONE || x->nout != 1 || op_is_view(x->op) || x->op == OP_concat ||
        fuse_placement(f, v)->set || graph_constant(f->g, v, &constant))
        return;
    Dim stride[MAX_RANK];
    if (!fuse_strides_through(f, n->in[0], v.node, to->stride, stride))
        return;
    Placement *pl = fuse_placement(f, v);
    *pl = *to;
    for (uint32_t k = 0; k < MAX_RANK; k++)
        pl->stride[k] = stride[k];
    f->kind[v.node] = NODE_REAL;
    f->keep[f->first[v.node]] = true;
}

/* A reshape that is committed, of what an op changes: it is changed in the slot. */
static void place_committed(Fuser *f, uint32_t id)
{
    const Node *n = fuse_node(f, id);
    const uint32_t slot = f->kind[id] == NODE_CONE ? committed_slot(f, id) : 0;
    Dim one = dim_const(f->t, 1), stride[MAX_RANK];
    uint32_t s = same_order(f, n->in[0]);
    if (!slot || !op_updates_first(fuse_node(f, s)->op) || f->kind[s] != NODE_CONE ||
        f->place[f->first[s]].set || f->own[f->first[s]])
        return;
    for (Val v = n->in[0];; v = graph_node(f->g, v)->in[0]) {
        if (f->users.start[v.node + 1] - f->users.start[v.node] != 1)
            return;
        if (v.node == s)
            break;
    }
    if (!fuse_strides_through(f, (Val){id, 0}, s, &one, stride))
        return;
    f->place[f->first[id]] = (Placement){.set = true, .slot = slot, .offset = dim_const(f->t, 0)};
    f->place[f->first[id]].stride[0] = one;
    f->place[f->first[s]] = f->place[f->first[id]];
    for (uint32_t k = 0; k < MAX_RANK; k++)
        f->place[f->first[s]].stride[k] = stride[k];
    f->kind[id] = NODE_JOINED;
    f->kind[s] = NODE_REAL;
    f->keep[f->first[s]] = true;
}

void fuse_place(Fuser *f)
{
    mark_leaves(f);
    for (uint32_t id = f->g->nodes.n; id-- > 1;)
        if (f->live[id] && fuse_node(f, id)->op == OP_concat)
            place_concat(f, id);
    for (uint32_t id = f->g->nodes.n; id-- > 1;)
        if (f->live[id] && fuse_node(f, id)->op == OP_reshape)
            place_committed(f, id);
    for (uint32_t id = f->g->nodes.n; id-- > 1;)
        if (f->live[id] && op_updates_first(fuse_node(f, id)->op))
            place_first(f, id);
}
