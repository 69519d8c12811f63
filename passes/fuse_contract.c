/* fuse_contract.c: a dot as strided products, with what rides along:
 *   - an operand that is a concat: one product a piece, never a copy;
 *   - sums of an operand over the contracted axes (the gradient of a bias);
 *   - results that are slices of the dot, or the dot added to a gradient slot in place.
 *
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "passes/fuse_internal.h"

#include <string.h>

/* --- strided views ---------------------------------------------------------------------------- */

/* v[i0, i1, ..] is element offset + sum i[k] * stride[k] of the source's storage. */
typedef struct {
    Val source;
    Dim offset, stride[MAX_RANK];
    uint32_t rank;
} Strided;

/* While walking down: index of each axis of the current value = off + sum coef[j] * i[j]. */
typedef struct {
    Dim off[MAX_RANK], coef[MAX_RANK][MAX_RANK];
} Affine;

static bool is_source(const Fuser *f, Val v)
{
    return f->kind[v.node] != NODE_CONE || !op_is_view(graph_node(f->g, v)->op);
}

static void finish(const Fuser *f, Val source, const Affine *x, const Dim *st, uint32_t rank,
                   Strided *out)
{
    out->source = source;
    out->offset = dim_const(f->t, 0);
    for (uint32_t j = 0; j < out->rank; j++)
        out->stride[j] = dim_const(f->t, 0);
    for (uint32_t k = 0; k < rank; k++) {
        out->offset = dim_add(f->t, out->offset, dim_mul(f->t, x->off[k], st[k]));
        for (uint32_t j = 0; j < out->rank; j++)
            out->stride[j] = dim_add(f->t, out->stride[j], dim_mul(f->t, x->coef[k][j], st[k]));
    }
}

static bool contiguous(const Fuser *f, Val v)
{
    Dim st[MAX_RANK], s = dim_const(f->t, 1);
    const TypeInfo *t = val_info(f->p, f->g, v);
    fuse_strides(f, v, st);
    for (uint32_t k = t->rank; k-- > 0;) {
        if (!dim_same(st[k], s) && !dim_is_one(f->t, t->shape[k]))
            return false;
        s = dim_mul(f->t, s, t->shape[k]);
    }
    return true;
}

/* Axes of the reshape's result that make up one axis of the operand become one affine index. */
static bool through_reshape(const Fuser *f, const TypeInfo *r, const TypeInfo *x, uint32_t nv,
                            Affine *a)
{
    Affine b = {0};
    uint32_t at = 0;
    for (uint32_t k = 0; k < x->rank; k++) {
        b.off[k] = dim_const(f->t, 0);
        for (uint32_t j = 0; j < nv; j++)
            b.coef[k][j] = dim_const(f->t, 0);
        if (dim_is_one(f->t, x->shape[k]))
            continue;
        Dim product = dim_const(f->t, 1);
        while (!dim_same(product, x->shape[k])) {
            if (at == r->rank)
                return false;
            Dim e = r->shape[at];
            product = dim_mul(f->t, product, e);
            b.off[k] = dim_add(f->t, dim_mul(f->t, b.off[k], e), a->off[at]);
            for (uint32_t j = 0; j < nv; j++)
                b.coef[k][j] = dim_add(f->t, dim_mul(f->t, b.coef[k][j], e), a->coef[at][j]);
            at++;
        }
    }
    for (; at < r->rank; at++)
        if (!dim_is_one(f->t, r->shape[at]))
            return false;
    *a = b;
    return true;
}

static bool strided(const Fuser *f, Val v, Strided *out)
{
    TypeInfo t = *val_info(f->p, f->g, v);
    Affine a = {0};
    Dim st[MAX_RANK];
    uint32_t nv = out->rank = t.rank;
    for (uint32_t k = 0; k < nv; k++) {
        a.off[k] = dim_const(f->t, 0);
        for (uint32_t j = 0; j < nv; j++)
            a.coef[k][j] = dim_const(f->t, k == j);
    }
    while (!is_source(f, v)) {
        const Node *n = graph_node(f->g, v);
        TypeInfo x = *val_info(f->p, f->g, n->in[0]);
        Affine b = {0};
        if (n->op == OP_reshape) {
            if (is_source(f, n->in[0]) && contiguous(f, n->in[0])) {
                Dim s = dim_const(f->t, 1); /* the linear index is all that matters */
                for (uint32_t k = t.rank; k-- > 0;) {
                    st[k] = s;
                    s = dim_mul(f->t, s, t.shape[k]);
                }
                finish(f, n->in[0], &a, st, t.rank, out);
                return true;
            }
            if (!through_reshape(f, &t, &x, nv, &a))
                return false;
        } else {
            for (uint32_t k = 0; k < x.rank; k++) {
                uint32_t from = k;
                if (n->op == OP_transpose)
                    for (uint32_t i = 0; i < x.rank; i++)
                        if (node_attr(n, ATTR_perm).at[i] == (int64_t)k)
                            from = i;
                if (n->op == OP_broadcast)
                    from = (uint32_t)node_attr(n, ATTR_dims).at[k];
                Dim start = dim_const(f->t, 0), step = dim_const(f->t, 1);
                if (n->op == OP_slice) {
                    start = node_dim(n, ATTR_start, k);
                    step = dim_const(f->t, node_attr(n, ATTR_step).at[k]);
                }
                if (n->op == OP_broadcast && !dim_same(x.shape[k], t.shape[from]))
                    step = dim_const(f->t, 0);
                b.off[k] = dim_add(f->t, start, dim_mul(f->t, step, a.off[from]));
                for (uint32_t j = 0; j < nv; j++)
                    b.coef[k][j] = dim_mul(f->t, step, a.coef[from][j]);
            }
            a = b;
        }
        v = n->in[0];
        t = x;
    }
    fuse_strides(f, v, st);
    finish(f, v, &a, st, t.rank, out);
    return true;
}

bool fuse_strided(const Fuser *f, Val v, FuseView *out)
{
    Strided s;
    if (!strided(f, v, &s))
        return false;
    out->source = s.source;
    out->offset = s.offset;
    memcpy(out->stride, s.stride, sizeof out->stride);
    return true;
}

/* --- axes of a dot ---------------------------------------------------------------------------- */

/* One loop of the product: how far a, b and c move. */
typedef struct {
    Dim extent, a, b, c;
} Loop;

typedef struct {
    Loop loop[2 * MAX_RANK];
    uint32_t n;
} Loops;

static void add_loop(const Fuser *f, Loops *l, Loop x)
{
    if (dim_is_one(f->t, x.extent))
        return;
    Loop *last = l->n ? &l->loop[l->n - 1] : NULL;
    if (last && dim_same(last->a, dim_mul(f->t, x.a, x.extent)) &&
        dim_same(last->b, dim_mul(f->t, x.b, x.extent)) &&
        dim_same(last->c, dim_mul(f->t, x.c, x.extent))) {
        last->extent = dim_mul(f->t, last->extent, x.extent);
        last->a = x.a;
        last->b = x.b;
        last->c = x.c;
        return;
    }
    l->loop[l->n++] = x;
}

static bool among(Attr axes, uint32_t axis)
{
    for (uint32_t i = 0; i < axes.n; i++)
        if (axes.at[i] == (int64_t)axis)
            return true;
    return false;
}

/* The product of strided a, b and c (by the dot's result axes). False if it needs more than one
 * row, column and contracted loop and two batches. extents are of a and b as given here. */
static bool make_gemm(const Fuser *f, const Node *n, const Strided *a, const Dim *ae,
                      const Strided *b, const Dim *be, const Strided *c, FuseGemm *out)
{
    Attr ba = node_attr(n, ATTR_batch_a), bb = node_attr(n, ATTR_batch_b);
    Attr ca = node_attr(n, ATTR_contract_a), cb = node_attr(n, ATTR_contract_b);
    Dim zero = dim_const(f->t, 0), one = dim_const(f->t, 1);
    Loops batch = {0}, m = {0}, nn = {0}, k = {0};
    uint32_t at = 0;
    for (uint32_t i = 0; i < ba.n; i++, at++)
        add_loop(f, &batch,
                 (Loop){ae[ba.at[i]], a->stride[ba.at[i]], b->stride[bb.at[i]], c->stride[at]});
    for (uint32_t i = 0; i < a->rank; i++)
        if (!among(ba, i) && !among(ca, i))
            add_loop(f, &m, (Loop){ae[i], a->stride[i], zero, c->stride[at++]});
    for (uint32_t i = 0; i < b->rank; i++)
        if (!among(bb, i) && !among(cb, i))
            add_loop(f, &nn, (Loop){be[i], zero, b->stride[i], c->stride[at++]});
    for (uint32_t i = 0; i < ca.n; i++)
        add_loop(f, &k, (Loop){ae[ca.at[i]], a->stride[ca.at[i]], b->stride[cb.at[i]], zero});
    /* leading rows or columns that do not join the others are batches that do not move b or a */
    for (uint32_t i = 0; i + 1 < m.n; i++)
        batch.loop[batch.n++] = m.loop[i];
    for (uint32_t i = 0; i + 1 < nn.n; i++)
        batch.loop[batch.n++] = nn.loop[i];
    if (batch.n > 2 || k.n > 1)
        return false;
    Loop none = {one, zero, zero, zero};
    Loop lm = m.n ? m.loop[m.n - 1] : none, ln = nn.n ? nn.loop[nn.n - 1] : none;
    Loop lk = k.n ? k.loop[0] : none;
    Loop b0 = batch.n == 2 ? batch.loop[0] : none;
    Loop b1 = batch.n ? batch.loop[batch.n - 1] : none;
    *out =
        (FuseGemm){.m = lm.extent, .n = ln.extent, .k = lk.extent, .batch = {b0.extent, b1.extent}};
    out->a = (FuseOperand){a->source, a->offset, lm.a, lk.a, {b0.a, b1.a}};
    out->b = (FuseOperand){b->source, b->offset, lk.b, ln.b, {b0.b, b1.b}};
    out->c = (FuseOperand){c->source, c->offset, lm.c, ln.c, {b0.c, b1.c}};
    return true;
}

/* --- operands --------------------------------------------------------------------------------- */

static bool in_pieces(const Fuser *f, Val v)
{
    return graph_node(f->g, v)->op == OP_concat && f->kind[v.node] == NODE_CONE;
}

static void store(Fuser *f, Val v)
{
    if (f->kind[v.node] == NODE_CONE)
        f->kind[v.node] = NODE_REAL;
}

static void prepare_operand(Fuser *f, Val v)
{
    Strided s;
    if (in_pieces(f, v)) {
        const Node *n = graph_node(f->g, v);
        for (uint32_t k = 0; k < n->nin; k++)
            prepare_operand(f, n->in[k]);
    } else if (strided(f, v, &s)) {
        store(f, s.source);
    } else {
        store(f, v);
    }
}

/* c as if the dot had storage of its own. */
static Strided own_storage(const Fuser *f, uint32_t id)
{
    TypeInfo t = *val_info(f->p, f->g, (Val){id, 0});
    Strided c = {.source = {id, 0}, .offset = dim_const(f->t, 0), .rank = t.rank};
    fuse_strides(f, c.source, c.stride);
    return c;
}

/* The contracted axes of an operand make up one loop. */
static bool contracted_join(const Fuser *f, Attr axes, const Strided *s, const Dim *extent)
{
    for (uint32_t i = 1; i < axes.n; i++) {
        uint32_t x = (uint32_t)axes.at[i - 1], y = (uint32_t)axes.at[i];
        if (!dim_same(s->stride[x], dim_mul(f->t, s->stride[y], extent[y])))
            return false;
    }
    return true;
}

/* However the pieces of a concat lie, each is one product: there are no more loops than those. */
static bool pieces_fit(const Fuser *f, const Node *n)
{
    const uint32_t nb = node_attr(n, ATTR_batch_a).n, nc = node_attr(n, ATTR_contract_a).n;
    uint32_t loops = nb;
    for (int side = 0; side < 2; side++) {
        const uint32_t rank = val_info(f->p, f->g, n->in[side])->rank;
        loops += rank - nb - nc > 1 ? rank - nb - nc - 1 : 0;
    }
    return nc == 1 && loops <= 2;
}

static void prepare_operands(Fuser *f, uint32_t id)
{
    const Node *n = fuse_node(f, id);
    for (int side = 0; side < 2; side++)
        if (in_pieces(f, n->in[side]) && !pieces_fit(f, n))
            store(f, n->in[side]);
    prepare_operand(f, n->in[0]);
    prepare_operand(f, n->in[1]);
    for (int turn = 0; turn < 4; turn++) {
        Strided a, b, c = own_storage(f, id);
        FuseGemm gemm;
        if (in_pieces(f, n->in[0]) || in_pieces(f, n->in[1]))
            return;
        CHECK(strided(f, n->in[0], &a) && strided(f, n->in[1], &b));
        const Dim *ae = val_info(f->p, f->g, n->in[0])->shape;
        const Dim *be = val_info(f->p, f->g, n->in[1])->shape;
        if (make_gemm(f, n, &a, ae, &b, be, &c, &gemm))
            return;
        /* a contiguous copy may do: of the operand whose contracted axes are apart */
        bool apart = !contracted_join(f, node_attr(n, ATTR_contract_a), &a, ae);
        store(f, n->in[turn < 2 ? !apart : apart]);
    }
    die("a product of node %u over axes that stand apart: pass dot has not put them in order", id);
}

/* --- the kernel ------------------------------------------------------------------------------- */

static uint32_t uses(const Fuser *f, uint32_t id)
{
    return f->users.start[id + 1] - f->users.start[id];
}

static uint32_t only_user(const Fuser *f, uint32_t id)
{
    return f->users.list[f->users.start[id]];
}

static FuseRoot root_of(Val v, uint32_t stored)
{
    FuseRoot r = {.val = v, .stored = stored};
    memset(r.axis_of, -1, sizeof r.axis_of);
    return r;
}

/* x = add(range of a slot, y) and x lies in just that range: y may be added in place. */
static bool added_in_place(const Fuser *f, uint32_t add, uint32_t y)
{
    const Node *n = fuse_node(f, add);
    const Placement *to = fuse_placement(f, (Val){add, 0});
    if (n->op != OP_add || !to->set || !to->slot || f->kind[add] != NODE_REAL)
        return false;
    Val old = n->in[n->in[0].node == y];
    const Placement *from = fuse_placement(f, old);
    return f->kind[old.node] == NODE_LEAF && from->set && from->slot == to->slot &&
           dim_same(from->offset, to->offset);
}

/* Where the result of node id (a dot, or a sum) goes: through single-use views to a value that has
 * its own place. */
typedef struct {
    Val out;
    bool accumulate;
    Strided c; /* by the axes of id's result */
} Target;

/* One product can write c. */
static bool writes(const Fuser *f, uint32_t id, const Strided *c)
{
    const Node *n = fuse_node(f, id);
    Strided a, b;
    FuseGemm gemm;
    if (n->op != OP_dot || in_pieces(f, n->in[0]) || in_pieces(f, n->in[1]))
        return true;
    return strided(f, n->in[0], &a) && strided(f, n->in[1], &b) &&
           make_gemm(f, n, &a, val_info(f->p, f->g, n->in[0])->shape, &b,
                     val_info(f->p, f->g, n->in[1])->shape, c, &gemm);
}

/* Gives the strides of `id`'s axes inside the storage of `out`, which is made of it by views. */
static bool target_strides(const Fuser *f, uint32_t id, Val last, Val out, Target *t)
{
    Dim of_out[MAX_RANK], now[MAX_RANK];
    fuse_strides(f, out, of_out);
    if (!fuse_strides_through(f, last, id, of_out, now))
        return false;
    *t = (Target){.out = out};
    TypeInfo type = *val_info(f->p, f->g, (Val){id, 0});
    t->c = (Strided){.source = out, .offset = dim_const(f->t, 0), .rank = type.rank};
    memcpy(t->c.stride, now, sizeof now);
    return writes(f, id, &t->c);
}

/* A product that is only read transposed, element by element, is stored as it is read: then its
 * readers go through it row by row, too. Columns stay neighbours. */
static void store_as_read(Fuser *f, uint32_t id)
{
    const uint32_t rank = val_info(f->p, f->g, (Val){id, 0})->rank;
    if (uses(f, id) != 1 || f->keep[f->first[id]])
        return;
    const uint32_t u = only_user(f, id);
    const Node *n = fuse_node(f, u);
    Target t;
    if (n->op != OP_transpose || f->kind[u] != NODE_CONE || !uses(f, u) ||
        node_attr(n, ATTR_perm).at[rank - 1] != (int64_t)rank - 1)
        return;
    for (uint32_t i = f->users.start[u]; i < f->users.start[u + 1]; i++)
        if (!op_is_pointwise(fuse_node(f, f->users.list[i])->op))
            return;
    if (target_strides(f, id, (Val){u, 0}, (Val){u, 0}, &t))
        f->kind[u] = NODE_REAL;
}

void fuse_prepare_dot(Fuser *f, uint32_t id)
{
    f->kind[id] = NODE_REAL;
    prepare_operands(f, id);
    store_as_read(f, id);
}

static Target find_target(const Fuser *f, uint32_t id)
{
    Target t = {.out = {id, 0}, .c = own_storage(f, id)}, better;
    uint32_t at = id;
    while (uses(f, at) == 1 && !f->keep[f->first[at]]) {
        uint32_t u = only_user(f, at);
        Op op = fuse_node(f, u)->op;
        if ((op == OP_reshape || op == OP_transpose) && f->kind[u] != NODE_JOINED) {
            at = u;
            if (f->kind[u] != NODE_REAL)
                continue;
            return target_strides(f, id, (Val){u, 0}, (Val){u, 0}, &better) ? better : t;
        }
        if (added_in_place(f, u, at) && target_strides(f, id, (Val){at, 0}, (Val){u, 0}, &better)) {
            better.accumulate = true;
            return better;
        }
        break;
    }
    return t;
}

/* The dot's readers are stored slices of it along one axis that is alone in its rows or columns. */
static bool sliced_results(const Fuser *f, uint32_t id, int *axis)
{
    *axis = -1;
    if (uses(f, id) < 2 || f->keep[f->first[id]])
        return false;
    TypeInfo t = *val_info(f->p, f->g, (Val){id, 0});
    for (uint32_t i = f->users.start[id]; i < f->users.start[id + 1]; i++) {
        const Node *u = fuse_node(f, f->users.list[i]);
        if (u->op != OP_slice || f->kind[f->users.list[i]] != NODE_REAL)
            return false;
        for (uint32_t k = 0; k < t.rank; k++) {
            if (dim_same(node_dim(u, ATTR_extent, k), t.shape[k]) &&
                node_attr(u, ATTR_step).at[k] == 1)
                continue;
            if (node_attr(u, ATTR_step).at[k] != 1 || (*axis >= 0 && *axis != (int)k))
                return false;
            *axis = (int)k;
        }
    }
    const Node *n = fuse_node(f, id);
    uint32_t nbatch = node_attr(n, ATTR_batch_a).n;
    return *axis >= (int)nbatch;
}

/* The axis of an operand that is result axis `axis`; *is_b tells which operand. */
static uint32_t operand_axis(const Fuser *f, const Node *n, uint32_t axis, bool *is_b)
{
    uint32_t at = node_attr(n, ATTR_batch_a).n;
    for (int side = 0; side < 2; side++)
        for (uint32_t i = 0; i < val_info(f->p, f->g, n->in[side])->rank; i++) {
            if (among(node_attr(n, side ? ATTR_batch_b : ATTR_batch_a), i) ||
                among(node_attr(n, side ? ATTR_contract_b : ATTR_contract_a), i))
                continue;
            if (at++ == axis) {
                *is_b = side;
                return i;
            }
        }
    die("result axis %u of a dot has no operand axis", axis);
}

typedef struct {
    Strided s;
    Dim extent[MAX_RANK];
} Side;

static Side whole_side(Fuser *f, Val v)
{
    Side s;
    CHECK(strided(f, v, &s.s));
    memcpy(s.extent, val_info(f->p, f->g, v)->shape, sizeof s.extent);
    return s;
}

static void cut_side(const Fuser *f, Side *s, uint32_t axis, Dim start, Dim extent)
{
    s->s.offset = dim_add(f->t, s->s.offset, dim_mul(f->t, start, s->s.stride[axis]));
    s->extent[axis] = extent;
}

static void push_gemm(Fuser *f, Kern *k, const Node *n, const Side *a, const Side *b,
                      const Strided *c, bool accumulate)
{
    FuseGemm gemm;
    CHECK(make_gemm(f, n, &a->s, a->extent, &b->s, b->extent, c, &gemm));
    gemm.accumulate = accumulate;
    vec_push(f->a, &k->gemms, gemm);
}

/* One product for each piece of the operand that is a concat. */
static void gemms_of_pieces(Fuser *f, Kern *k, const Node *n, int side, const Target *t)
{
    const Node *cat = graph_node(f->g, n->in[side]);
    uint32_t axis = (uint32_t)node_int(cat, ATTR_axis);
    Attr mine = node_attr(n, side ? ATTR_contract_b : ATTR_contract_a);
    Attr others = node_attr(n, side ? ATTR_contract_a : ATTR_contract_b);
    bool contracted = among(mine, axis);
    uint32_t other_axis = contracted ? (uint32_t)others.at[0] : 0, result_axis = 0;
    bool is_b = false;
    while (!contracted &&
           (operand_axis(f, n, node_attr(n, ATTR_batch_a).n + result_axis, &is_b) != axis ||
            is_b != (side == 1)))
        result_axis++;
    result_axis += node_attr(n, ATTR_batch_a).n;
    Dim at = dim_const(f->t, 0);
    for (uint32_t i = 0; i < cat->nin; i++) {
        Side piece = whole_side(f, cat->in[i]), other = whole_side(f, n->in[!side]);
        Strided c = t->c;
        Dim extent = piece.extent[axis];
        if (contracted)
            cut_side(f, &other, other_axis, at, extent);
        else
            c.offset = dim_add(f->t, c.offset, dim_mul(f->t, at, c.stride[result_axis]));
        push_gemm(f, k, n, side ? &other : &piece, side ? &piece : &other, &c,
                  t->accumulate || (contracted && i > 0));
        at = dim_add(f->t, at, extent);
    }
}

static void gemms_of_slices(Fuser *f, Kern *k, uint32_t id, int axis)
{
    const Node *n = fuse_node(f, id);
    bool is_b = false;
    uint32_t cut = operand_axis(f, n, (uint32_t)axis, &is_b);
    for (uint32_t i = f->users.start[id]; i < f->users.start[id + 1]; i++) {
        uint32_t u = f->users.list[i];
        const Node *slice = fuse_node(f, u);
        Side a = whole_side(f, n->in[0]), b = whole_side(f, n->in[1]);
        cut_side(f, is_b ? &b : &a, cut, node_dim(slice, ATTR_start, (uint32_t)axis),
                 node_dim(slice, ATTR_extent, (uint32_t)axis));
        Strided c = own_storage(f, u);
        push_gemm(f, k, n, &a, &b, &c, false);
        vec_push(f->a, &k->roots, root_of((Val){u, 0}, 1));
        f->owner[u] = (int32_t)f->ks.n;
    }
}

/* Sums of an operand over the contracted axes join the product, if their target agrees, and not
 * where the other operand's rows became a batch: each of them would add the same sum. */
static void join_sums(Fuser *f, Kern *k, uint32_t id, bool accumulate)
{
    const Node *n = fuse_node(f, id);
    if (node_attr(n, ATTR_batch_a).n || !k->gemms.n)
        return;
    for (int i = 0; i < 2; i++)
        if (!dim_is_one(f->t, k->gemms.at[0].batch[i]))
            return;
    for (int side = 0; side < 2; side++) {
        Val v = n->in[side];
        Attr contract = node_attr(n, side ? ATTR_contract_b : ATTR_contract_a);
        if (in_pieces(f, v) ||
            (n->op == OP_dot && in_pieces(f, n->in[!side]) &&
             among(node_attr(n, side ? ATTR_contract_a : ATTR_contract_b),
                   (uint32_t)node_int(graph_node(f->g, n->in[!side]), ATTR_axis))))
            continue;
        for (uint32_t i = f->users.start[v.node]; i < f->users.start[v.node + 1]; i++) {
            uint32_t u = f->users.list[i];
            const Node *r = fuse_node(f, u);
            if (r->op != OP_reduce || node_int(r, ATTR_kind) != RED_add || f->owner[u] >= 0 ||
                !val_eq(r->in[0], v) || node_attr(r, ATTR_axes).n != contract.n)
                continue;
            bool same = true;
            for (uint32_t j = 0; j < contract.n; j++)
                same &= among(node_attr(r, ATTR_axes), (uint32_t)contract.at[j]);
            Target t = find_target(f, u);
            FuseGemm *gemm = &k->gemms.at[0];
            FuseOperand *sum = side ? &gemm->sum_b : &gemm->sum_a;
            if (!same || t.accumulate != accumulate || sum->val.node || t.c.rank > 1)
                continue;
            Dim zero = dim_const(f->t, 0);
            Dim step = t.c.rank ? t.c.stride[0] : zero;
            *sum = (FuseOperand){
                t.out, t.c.offset, side ? zero : step, side ? step : zero, {zero, zero}};
            vec_push(f->a, &k->roots, root_of((Val){u, 0}, t.out.node == u));
            f->owner[u] = (int32_t)f->ks.n;
            if (t.out.node != u)
                vec_push(f->a, &k->roots, root_of(t.out, 1));
            f->owner[t.out.node] = (int32_t)f->ks.n;
        }
    }
}

Kern *fuse_contract(Fuser *f, uint32_t id)
{
    const Node *n = fuse_node(f, id);
    Kern *k = arena_new(f->a, Kern);
    TypeInfo type = *val_info(f->p, f->g, (Val){id, 0});
    k->class = CLASS_CONTRACT;
    k->after = -1;
    k->rank = type.rank;
    memcpy(k->domain, type.shape, sizeof type.shape);
    FuseRoot root = root_of((Val){id, 0}, 0);
    for (uint32_t i = 0; i < type.rank; i++)
        root.axis_of[i] = (int8_t)i;
    vec_push(f->a, &k->roots, root);
    f->owner[id] = (int32_t)f->ks.n;
    int side = in_pieces(f, n->in[0]) ? 0 : in_pieces(f, n->in[1]) ? 1 : -1, axis;
    Target t = find_target(f, id);
    if (side < 0 && sliced_results(f, id, &axis)) {
        gemms_of_slices(f, k, id, axis);
        return k;
    }
    if (side >= 0) {
        gemms_of_pieces(f, k, n, side, &t);
    } else {
        Side a = whole_side(f, n->in[0]), b = whole_side(f, n->in[1]);
        push_gemm(f, k, n, &a, &b, &t.c, t.accumulate);
    }
    join_sums(f, k, id, t.accumulate);
    if (t.out.node != id) {
        vec_push(f->a, &k->roots, root_of(t.out, 1));
        f->owner[t.out.node] = (int32_t)f->ks.n;
    } else {
        k->roots.at[0].stored = 1;
    }
    return k;
}
