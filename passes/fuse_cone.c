/* fuse_cone.c: how the index of each value in a kernel follows from the kernel's axes, and with
 * that what the kernel computes, reads and moves.
 *
 *   kernel over [B, C]: %y = mul %x, broadcast(%w {dims=1})      %x is read at (0, 1), %w at (-, 0)
 *
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "passes/fuse_internal.h"

#include <string.h>

/* --- access maps ------------------------------------------------------------------------------ */

static bool same_map(const AxisMap *a, const AxisMap *b)
{
    return a->exact == b->exact &&
           (!a->exact || !memcmp(a->axis_of, b->axis_of, sizeof a->axis_of));
}

/* The result's axes are regrouped into the operand's, in row-major order. */
static AxisMap through_reshape(const Fuser *f, const Kern *k, const AxisMap *m, const TypeInfo *r,
                               const TypeInfo *x)
{
    int8_t order[FUSE_AXES];
    uint32_t n = 0, at = 0;
    for (uint32_t axis = 0; axis < r->rank; axis++) {
        Dim product = dim_const(f->t, 1);
        for (uint32_t d = 0; d < k->rank; d++)
            if (m->axis_of[d] == (int8_t)axis) {
                order[n++] = (int8_t)d;
                product = dim_mul(f->t, product, k->domain[d]);
            }
        if (!dim_same(product, r->shape[axis]))
            return fuse_no_axes(false);
    }
    AxisMap out = fuse_no_axes(true);
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        Dim product = dim_const(f->t, 1);
        int last = -1;
        while (!dim_same(product, x->shape[axis])) {
            if (at == n || order[at] < last)
                return fuse_no_axes(false);
            last = order[at];
            product = dim_mul(f->t, product, k->domain[order[at]]);
            out.axis_of[order[at++]] = (int8_t)axis;
        }
    }
    for (; at < n; at++)
        if (!dim_is_one(f->t, k->domain[order[at]]))
            return fuse_no_axes(false);
    return out;
}

/* The map of operand i, given that of the result. */
static AxisMap operand_map(const Fuser *f, const Kern *k, const Node *n, uint32_t i,
                           const AxisMap *m)
{
    const TypeInfo *x = val_info(f->p, f->g, n->in[i]);
    if (x->rank == 0)
        return fuse_no_axes(true);
    if (!m->exact)
        return fuse_no_axes(false);
    if (op_is_pointwise(n->op))
        return *m;
    const TypeInfo *r = type_info(f->p, n->types[0]);
    AxisMap out = fuse_no_axes(true);
    switch (n->op) {
    case OP_transpose: {
        Attr perm = node_attr(n, ATTR_perm);
        for (uint32_t d = 0; d < k->rank; d++)
            if (m->axis_of[d] >= 0)
                out.axis_of[d] = (int8_t)perm.at[m->axis_of[d]];
        return out;
    }
    case OP_broadcast: {
        Attr dims = node_attr(n, ATTR_dims);
        for (uint32_t d = 0; d < k->rank; d++)
            for (uint32_t j = 0; j < dims.n; j++)
                if (m->axis_of[d] == dims.at[j] && dim_same(x->shape[j], r->shape[dims.at[j]]))
                    out.axis_of[d] = (int8_t)j;
        return out;
    }
    case OP_reshape:
        return through_reshape(f, k, m, r, x);
    case OP_slice:
    case OP_pad:
    case OP_window:
    case OP_unwindow:
    case OP_concat:
    case OP_cumulate:
        return fuse_no_axes(false);
    case OP_gather: {
        int64_t axis = node_int(n, ATTR_axis), batch = node_int(n, ATTR_batch);
        if (i == 0)
            return fuse_no_axes(false);
        for (uint32_t d = 0; d < k->rank; d++) {
            int8_t at = m->axis_of[d];
            if (at >= 0 && at < batch)
                out.axis_of[d] = at;
            else if (at >= axis && at < axis + (int64_t)x->rank - batch)
                out.axis_of[d] = (int8_t)(at - axis + batch);
        }
        return out;
    }
    default:
        return *m;
    }
}

/* The map of a root's result: a reduce loses its axes. */
AxisMap fuse_root_map(const Fuser *f, const Kern *k, const FuseRoot *r)
{
    AxisMap m = fuse_no_axes(true);
    const Node *n = graph_node(f->g, r->val);
    int8_t to[MAX_RANK];
    memcpy(m.axis_of, r->axis_of, sizeof m.axis_of);
    if (n->op != OP_reduce)
        return m;
    Attr axes = node_attr(n, ATTR_axes);
    uint32_t rank = val_info(f->p, f->g, n->in[0])->rank;
    int8_t at = 0;
    for (uint32_t i = 0; i < rank; i++) {
        bool gone = false;
        for (uint32_t j = 0; j < axes.n; j++)
            gone |= axes.at[j] == (int64_t)i;
        to[i] = gone ? -1 : at;
        at = (int8_t)(at + !gone);
    }
    for (uint32_t d = 0; d < k->rank; d++)
        m.axis_of[d] = m.axis_of[d] < 0 ? -1 : to[m.axis_of[d]];
    return m;
}

/* --- cones ------------------------------------------------------------------------------------ */

typedef struct {
    Fuser *f;
    Kern *k;
    VEC(uint32_t) again; /* nodes met under a second map */
    VEC(AxisMap) again_map;
    int phase;
    bool late; /* the root is made of side sums */
    bool bad;
} Walk;

static void add_read(Walk *w, Val v, const AxisMap *m, double elements)
{
    Fuser *f = w->f;
    double all = val_bytes(f->p, f->g, v);
    double bytes = elements * dtype_size(val_info(f->p, f->g, v)->dtype);
    bytes = bytes < all ? bytes : all;
    for (uint32_t i = 0; i < w->k->reads.n; i++) {
        Read *r = &w->k->reads.at[i];
        if (!val_eq(r->v, v))
            continue;
        if (m->exact && same_map(&r->map, m))
            return;
        r->bytes = r->bytes + bytes < all ? r->bytes + bytes : all;
        if (!same_map(&r->map, m))
            r->map.exact = false;
        return;
    }
    vec_push(f->a, &w->k->reads, ((Read){v, bytes, *m}));
}

/* True the first time that a node is met under this map. */
static bool first_time(Walk *w, uint32_t id, const AxisMap *m, bool *new_node)
{
    Fuser *f = w->f;
    *new_node = f->seen[id] != f->stamp;
    if (*new_node) {
        f->seen[id] = f->stamp;
        f->seen_map[id] = *m;
        return true;
    }
    if (same_map(&f->seen_map[id], m))
        return false;
    for (uint32_t i = 0; i < w->again.n; i++)
        if (w->again.at[i] == id && same_map(&w->again_map.at[i], m))
            return false;
    vec_push(f->a, &w->again, id);
    vec_push(f->a, &w->again_map, *m);
    return true;
}

static FuseRoot *find_root(Kern *k, uint32_t node)
{
    for (uint32_t i = 0; i < k->roots.n; i++)
        if (k->roots.at[i].val.node == node)
            return &k->roots.at[i];
    return NULL;
}

static void walk_operands(Walk *w, const Node *n, const AxisMap *m, double elements);

static void walk(Walk *w, Val v, AxisMap m, double elements)
{
    Fuser *f = w->f;
    const Node *n = graph_node(f->g, v);
    bool new_node;
    if (f->kind[v.node] != NODE_CONE) {
        FuseRoot *r = find_root(w->k, v.node);
        if (!r) {
            add_read(w, v, &m, elements);
            return;
        }
        AxisMap want = fuse_root_map(f, w->k, r);
        /* side sums are complete in the second stage, which knows nothing else of the rows */
        w->bad |= r->side != w->late || !same_map(&want, &m);
        int phase = r->phase + (n->op == OP_reduce);
        w->phase = phase > w->phase ? phase : w->phase;
        return;
    }
    if (!first_time(w, v.node, &m, &new_node))
        return;
    if (new_node)
        vec_push(f->a, &w->k->body, v.node);
    if (n->op == OP_slice || n->op == OP_gather) {
        double count = val_count(f->p, f->g, v);
        elements = count < elements ? count : elements;
    }
    walk_operands(w, n, &m, elements);
}

static void walk_operands(Walk *w, const Node *n, const AxisMap *m, double elements)
{
    for (uint32_t i = 0; i < n->nin; i++)
        walk(w, n->in[i], operand_map(w->f, w->k, n, i, m), elements);
}

bool fuse_cone(Fuser *f, Kern *k)
{
    Walk w = {.f = f, .k = k};
    f->stamp++;
    k->body.n = k->reads.n = 0;
    for (uint32_t i = 0; i < k->roots.n; i++) {
        FuseRoot *r = &k->roots.at[i];
        const Node *n = graph_node(f->g, r->val);
        AxisMap m = fuse_no_axes(true);
        memcpy(m.axis_of, r->axis_of, sizeof m.axis_of);
        double elements =
            n->op == OP_slice || n->op == OP_gather ? val_count(f->p, f->g, r->val) : 1e300;
        /* a second walk from another root must see nodes again for its phase */
        w.phase = 0;
        w.late = r->side && n->op != OP_reduce;
        vec_push(f->a, &k->body, r->val.node);
        f->stamp++;
        w.again.n = w.again_map.n = 0;
        if (n->op == OP_reduce)
            walk(&w, n->in[0], m, elements);
        else
            walk_operands(&w, n, &m, elements);
        r->phase = w.phase;
    }
    return !w.bad;
}

/* --- traffic ---------------------------------------------------------------------------------- */

static bool reads(const Kern *k, Val v)
{
    for (uint32_t i = 0; k && i < k->reads.n; i++)
        if (val_eq(k->reads.at[i].v, v))
            return true;
    return false;
}

/* Result `result` of root r of k must be in memory: somebody but k and `with` reads it. */
bool fuse_stored(const Fuser *f, const Kern *k, const Kern *with, const FuseRoot *r,
                 uint32_t result)
{
    Val v = {r->val.node, result};
    uint32_t vid = fuse_vid(f, v);
    if (f->keep[vid])
        return true;
    uint32_t others = f->readers[vid];
    others -= (uint32_t)reads(k, v) + (uint32_t)(with != k && reads(with, v));
    return others > 0;
}

/* Side sums are written once a part and read again by the second stage. */
double fuse_side_bytes(const Fuser *f, const Kern *k)
{
    double rows = 1, sum = 0;
    for (uint32_t d = 0; d < k->rank; d++)
        if (!(k->reduced >> d & 1))
            rows *= dim_hint(f->t, k->domain[d]);
    const double parts = rows / FUSE_SIDE_ROWS;
    for (uint32_t i = 0; i < k->roots.n; i++)
        if (k->roots.at[i].side && graph_node(f->g, k->roots.at[i].val)->op == OP_reduce)
            sum += 2 * val_bytes(f->p, f->g, k->roots.at[i].val) *
                   (parts < FUSE_SIDE_PARTS ? parts : FUSE_SIDE_PARTS);
    return sum;
}

double fuse_traffic(const Fuser *f, const Kern *k, double *read_bytes)
{
    double in = 0, out = fuse_side_bytes(f, k);
    for (uint32_t i = 0; i < k->reads.n; i++)
        in += k->reads.at[i].bytes;
    for (uint32_t i = 0; i < k->roots.n; i++)
        for (uint32_t j = 0; j < graph_node(f->g, k->roots.at[i].val)->nout; j++)
            if (k->class == CLASS_CONTRACT ? k->roots.at[i].stored >> j & 1
                                           : fuse_stored(f, k, k, &k->roots.at[i], j))
                out += val_bytes(f->p, f->g, (Val){k->roots.at[i].val.node, j});
    if (read_bytes)
        *read_bytes = in;
    return in + out;
}

double fuse_merged_traffic(const Fuser *f, const Kern *m, const Kern *a, const Kern *b)
{
    double sum = fuse_side_bytes(f, m);
    for (uint32_t i = 0; i < m->reads.n; i++)
        sum += m->reads.at[i].bytes;
    for (uint32_t i = 0; i < m->roots.n; i++)
        for (uint32_t j = 0; j < graph_node(f->g, m->roots.at[i].val)->nout; j++)
            if (fuse_stored(f, a, b, &m->roots.at[i], j))
                sum += val_bytes(f->p, f->g, (Val){m->roots.at[i].val.node, j});
    return sum;
}
