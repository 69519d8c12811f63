/* fuse_merge.c: kernels and which of them become one.
 *
 * A kernel is its roots (stored values) over one domain, with the cone of nodes that each needs.
 * Two kernels merge when one reads the other's root, or both read a large value, at the same index
 * of a common domain, no third kernel lies between, and bytes are saved. Best pair first; ties go
 * to source order. SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "passes/fuse_internal.h"

#include <string.h>

enum { MAX_READS = 16, MAX_BODY = 160, RESIDENT = 16384, LONG_ROWS = 512 };

/* --- access maps ------------------------------------------------------------------------------ */

static AxisMap no_axes(bool exact)
{
    AxisMap m = {.exact = exact};
    memset(m.axis_of, -1, sizeof m.axis_of);
    return m;
}

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
            return no_axes(false);
    }
    AxisMap out = no_axes(true);
    for (uint32_t axis = 0; axis < x->rank; axis++) {
        Dim product = dim_const(f->t, 1);
        int last = -1;
        while (!dim_same(product, x->shape[axis])) {
            if (at == n || order[at] < last)
                return no_axes(false);
            last = order[at];
            product = dim_mul(f->t, product, k->domain[order[at]]);
            out.axis_of[order[at++]] = (int8_t)axis;
        }
    }
    for (; at < n; at++)
        if (!dim_is_one(f->t, k->domain[order[at]]))
            return no_axes(false);
    return out;
}

/* The map of operand i, given that of the result. */
static AxisMap operand_map(const Fuser *f, const Kern *k, const Node *n, uint32_t i,
                           const AxisMap *m)
{
    AxisMap out = no_axes(true);
    TypeInfo r = *type_info(f->p, n->types[0]), x = *val_info(f->p, f->g, n->in[i]);
    if (x.rank == 0)
        return out;
    if (!m->exact)
        return no_axes(false);
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
                if (m->axis_of[d] == dims.at[j] && dim_same(x.shape[j], r.shape[dims.at[j]]))
                    out.axis_of[d] = (int8_t)j;
        return out;
    }
    case OP_reshape:
        return through_reshape(f, k, m, &r, &x);
    case OP_slice:
    case OP_pad:
    case OP_concat:
    case OP_cumulate:
        return no_axes(false);
    case OP_gather: {
        int64_t axis = node_int(n, ATTR_axis), batch = node_int(n, ATTR_batch);
        if (i == 0)
            return no_axes(false);
        for (uint32_t d = 0; d < k->rank; d++) {
            int8_t at = m->axis_of[d];
            if (at >= 0 && at < batch)
                out.axis_of[d] = at;
            else if (at >= axis && at < axis + (int64_t)x.rank - batch)
                out.axis_of[d] = (int8_t)(at - axis + batch);
        }
        return out;
    }
    default:
        return *m;
    }
}

/* The map of a root's result: a reduce loses its axes. */
static AxisMap root_map(const Fuser *f, const Kern *k, const FuseRoot *r)
{
    AxisMap m = no_axes(true);
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
        AxisMap want = root_map(f, w->k, r);
        w->bad |= !same_map(&want, &m);
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
        AxisMap m = no_axes(true);
        memcpy(m.axis_of, r->axis_of, sizeof m.axis_of);
        double elements =
            n->op == OP_slice || n->op == OP_gather ? val_count(f->p, f->g, r->val) : 1e300;
        /* a second walk from another root must see nodes again for its phase */
        w.phase = 0;
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

double fuse_traffic(const Fuser *f, const Kern *k, double *read_bytes)
{
    double in = 0, out = 0;
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

static double merged_traffic(const Fuser *f, const Kern *m, const Kern *a, const Kern *b)
{
    double sum = 0;
    for (uint32_t i = 0; i < m->reads.n; i++)
        sum += m->reads.at[i].bytes;
    for (uint32_t i = 0; i < m->roots.n; i++)
        for (uint32_t j = 0; j < graph_node(f->g, m->roots.at[i].val)->nout; j++)
            if (fuse_stored(f, a, b, &m->roots.at[i], j))
                sum += val_bytes(f->p, f->g, (Val){m->roots.at[i].val.node, j});
    return sum;
}

/* --- kernels ---------------------------------------------------------------------------------- */

Kern *fuse_kern(Fuser *f, uint32_t id)
{
    const Node *n = fuse_node(f, id);
    Kern *k = arena_new(f->a, Kern);
    Val v = {id, 0};
    const TypeInfo *t = n->op == OP_reduce || n->op == OP_check || n->op == OP_print
                            ? val_info(f->p, f->g, n->in[0])
                            : val_info(f->p, f->g, v);
    FuseRoot r = {.val = v};
    memset(r.axis_of, -1, sizeof r.axis_of);
    k->after = -1;
    k->rank = t->rank;
    for (uint32_t i = 0; i < t->rank; i++) {
        k->domain[i] = t->shape[i];
        r.axis_of[i] = (int8_t)i;
    }
    vec_push(f->a, &k->roots, r);
    k->class = n->op == OP_print ? CLASS_COPY : t->rank ? CLASS_MAP : CLASS_SCALAR;
    if (n->op == OP_reduce) {
        Attr axes = node_attr(n, ATTR_axes);
        for (uint32_t i = 0; i < axes.n; i++)
            k->reduced |= 1u << axes.at[i];
        uint32_t inner = ((1u << t->rank) - 1) & ~((1u << (t->rank - axes.n)) - 1);
        k->class = axes.n < t->rank && k->reduced == inner ? CLASS_ROW : CLASS_REDUCE;
    }
    f->owner[id] = (int32_t)f->ks.n;
    return k;
}

typedef VEC(int32_t) Numbers;

/* The kernels that write a stored value: one, or those of a concat's pieces. */
static void writers(const Fuser *f, uint32_t node, Numbers *out)
{
    if (f->owner[node] >= 0) {
        vec_push(f->a, out, f->owner[node]);
        return;
    }
    const Node *n = fuse_node(f, node);
    if (f->kind[node] != NODE_JOINED)
        return;
    for (uint32_t i = 0; i < f->fills.n; i++)
        if (f->fills.at[i].concat == node)
            vec_push(f->a, out, f->fills.at[i].kern);
    for (uint32_t i = 0; i < n->nin; i++)
        writers(f, fuse_piece(f, n->in[i]), out);
}

uint32_t fuse_deps(const Fuser *f, const Kern *k, int32_t **list)
{
    Numbers out = {0};
    for (uint32_t i = 0; i < k->reads.n; i++)
        writers(f, k->reads.at[i].v.node, &out);
    if (k->after >= 0)
        vec_push(f->a, &out, k->after);
    *list = out.at;
    return out.n;
}

/* --- pairing domains -------------------------------------------------------------------------- */

/* to[e]: axis of `base` that axis e of `other` is; through a value that both see under their maps;
 * what is left over pairs in order. */
static bool pair_axes(const Kern *base, const Kern *other, const AxisMap *mb, const AxisMap *mo,
                      uint32_t rank, int8_t *to)
{
    uint32_t used = 0;
    memset(to, -1, FUSE_AXES);
    for (uint32_t axis = 0; axis < rank; axis++) {
        uint32_t d = 0;
        for (uint32_t e = 0; e < other->rank; e++) {
            if (mo->axis_of[e] != (int8_t)axis)
                continue;
            while (d < base->rank && mb->axis_of[d] != (int8_t)axis)
                d++;
            if (d == base->rank || !dim_same(base->domain[d], other->domain[e]))
                return false;
            used |= 1u << d;
            to[e] = (int8_t)d++;
        }
        for (; d < base->rank; d++)
            if (mb->axis_of[d] == (int8_t)axis)
                return false;
    }
    uint32_t d = 0;
    for (uint32_t e = 0; e < other->rank; e++) {
        if (to[e] >= 0)
            continue;
        while (d < base->rank && used >> d & 1)
            d++;
        if (d == base->rank || !dim_same(base->domain[d], other->domain[e]))
            return false;
        used |= 1u << d;
        to[e] = (int8_t)d;
    }
    return true;
}

static uint32_t axes_mask(uint32_t rank)
{
    return (1u << rank) - 1;
}

/* The class of the merged kernel; false if the two cannot be one. `covered`: axes of base that
 * `other` has; `reduced`: other's reduced axes in base's numbering. */
static bool merged_class(const Kern *base, const Kern *other, uint32_t covered, uint32_t reduced,
                         KClass *class)
{
    bool full = covered == axes_mask(base->rank);
    KClass a = base->class, b = other->class;
    if (a == CLASS_SCALAR && b == CLASS_SCALAR)
        *class = CLASS_SCALAR;
    else if (a == CLASS_MAP && b == CLASS_MAP && full)
        *class = CLASS_MAP;
    else if (a == CLASS_ROW && b == CLASS_MAP &&
             (full || covered == (axes_mask(base->rank) & ~base->reduced)))
        *class = CLASS_ROW;
    else if (a == CLASS_MAP && b == CLASS_ROW && full)
        *class = CLASS_ROW;
    else if (a == CLASS_ROW && b == CLASS_ROW && full && reduced == base->reduced)
        *class = CLASS_ROW;
    else if (a == CLASS_REDUCE && b == CLASS_REDUCE && full && reduced == base->reduced)
        *class = CLASS_REDUCE;
    else
        return false;
    return true;
}

static void add_root(Fuser *f, Kern *m, FuseRoot r)
{
    vec_push(f->a, &m->roots, r);
    for (uint32_t i = m->roots.n - 1; i > 0; i--) {
        if (m->roots.at[i - 1].val.node < m->roots.at[i].val.node)
            break;
        FuseRoot t = m->roots.at[i];
        m->roots.at[i] = m->roots.at[i - 1];
        m->roots.at[i - 1] = t;
    }
}

/* Rows of more than one pass must be short enough to stay resident, or many. */
static bool rows_fit(const Fuser *f, const Kern *m)
{
    int last = 0;
    for (uint32_t i = 0; i < m->roots.n; i++) {
        const FuseRoot *r = &m->roots.at[i];
        bool row_wide = false;
        for (uint32_t d = 0; d < m->rank; d++)
            row_wide |= (m->reduced >> d & 1) && r->axis_of[d] >= 0;
        if (row_wide)
            last = r->phase > last ? r->phase : last;
    }
    if (last == 0)
        return true;
    double rows = 1;
    Dim length = dim_const(f->t, 1);
    for (uint32_t d = 0; d < m->rank; d++)
        if (m->reduced >> d & 1)
            length = dim_mul(f->t, length, m->domain[d]);
        else
            rows *= dim_hint(f->t, m->domain[d]);
    int64_t n;
    return (dim_is_const(f->t, length, &n) && n <= RESIDENT) || rows >= LONG_ROWS;
}

static Kern *try_pair(Fuser *f, Kern *base, Kern *other, const AxisMap *mb, const AxisMap *mo,
                      uint32_t rank)
{
    int8_t to[FUSE_AXES];
    KClass class;
    uint32_t covered = 0, reduced = 0;
    if (!mb->exact || !mo->exact || base->rank < other->rank ||
        !pair_axes(base, other, mb, mo, rank, to))
        return NULL;
    for (uint32_t e = 0; e < other->rank; e++) {
        covered |= 1u << to[e];
        if (other->reduced >> e & 1)
            reduced |= 1u << to[e];
    }
    if (!merged_class(base, other, covered, reduced, &class))
        return NULL;
    Kern *m = arena_new(f->a, Kern);
    m->class = class;
    m->rank = base->rank;
    m->reduced = base->reduced | reduced;
    m->after = -1;
    memcpy(m->domain, base->domain, sizeof m->domain);
    for (uint32_t i = 0; i < base->roots.n; i++)
        add_root(f, m, base->roots.at[i]);
    for (uint32_t i = 0; i < other->roots.n; i++) {
        FuseRoot r = other->roots.at[i], old = r;
        memset(r.axis_of, -1, sizeof r.axis_of);
        for (uint32_t e = 0; e < other->rank; e++)
            r.axis_of[to[e]] = old.axis_of[e];
        /* several domain axes of one axis keep their order */
        for (uint32_t e = 1; e < other->rank; e++)
            for (uint32_t d = 0; d < e; d++)
                if (old.axis_of[e] >= 0 && old.axis_of[d] == old.axis_of[e] && to[d] > to[e])
                    return NULL;
        add_root(f, m, r);
    }
    if (!fuse_cone(f, m) || m->reads.n > MAX_READS || m->body.n > MAX_BODY)
        return NULL;
    return class == CLASS_ROW && !rows_fit(f, m) ? NULL : m;
}

/* --- choosing --------------------------------------------------------------------------------- */

static const Read *find_read(const Kern *k, uint32_t node)
{
    for (uint32_t i = 0; i < k->reads.n; i++)
        if (k->reads.at[i].v.node == node)
            return &k->reads.at[i];
    return NULL;
}

static bool mergeable(const Kern *k)
{
    return !k->dead && !k->effect && k->class != CLASS_CONTRACT && k->class != CLASS_COPY;
}

/* m reads a concat whose pieces it would write itself, at other indices. */
static bool reads_written(const Fuser *f, const Kern *m, const Kern *a, const Kern *b)
{
    int32_t *list;
    uint32_t n = fuse_deps(f, m, &list);
    for (uint32_t i = 0; i < n; i++)
        if (f->ks.at[list[i]] == a || f->ks.at[list[i]] == b)
            return true;
    return false;
}

/* a's root is read by b, or (sibling) both read a value. The merged kernel and what it saves. */
static Kern *consider(Fuser *f, Kern *a, Kern *b, double *gain)
{
    Kern *m = NULL;
    bool vertical = false;
    for (uint32_t i = 0; i < a->roots.n && !m; i++) {
        const Read *r = find_read(b, a->roots.at[i].val.node);
        if (!r)
            continue;
        vertical = true;
        AxisMap ma = root_map(f, a, &a->roots.at[i]);
        uint32_t rank = val_info(f->p, f->g, r->v)->rank;
        m = a->rank >= b->rank ? try_pair(f, a, b, &ma, &r->map, rank)
                               : try_pair(f, b, a, &r->map, &ma, rank);
    }
    for (uint32_t i = 0; i < a->reads.n && !m && !vertical; i++) {
        const Read *x = &a->reads.at[i], *y = find_read(b, x->v.node);
        uint32_t rank = val_info(f->p, f->g, x->v)->rank;
        if (!y || !val_eq(x->v, y->v) || !rank)
            continue;
        m = a->rank >= b->rank ? try_pair(f, a, b, &x->map, &y->map, rank)
                               : try_pair(f, b, a, &y->map, &x->map, rank);
        if (!m && !x->map.exact && !y->map.exact && a->rank == b->rank) {
            /* both read pieces of it: pair the domains in order */
            AxisMap none = no_axes(true);
            m = try_pair(f, a, b, &none, &none, 0);
        }
    }
    if (!m || reads_written(f, m, a, b))
        return NULL;
    double ta = fuse_traffic(f, a, NULL), tb = fuse_traffic(f, b, NULL);
    *gain = ta + tb - merged_traffic(f, m, a, b);
    double least = ta < tb ? ta : tb;
    if (*gain <= 0 || (!vertical && *gain < 0.15 * least))
        return NULL;
    return fuse_reaches(f, b, a) || fuse_reaches(f, a, b) ? NULL : m;
}

static void count_reads(Fuser *f, const Kern *k, int by)
{
    for (uint32_t i = 0; i < k->reads.n; i++)
        f->readers[fuse_vid(f, k->reads.at[i].v)] += (uint32_t)by;
}

static void replace(Fuser *f, Kern *a, Kern *b, Kern *m)
{
    count_reads(f, a, -1);
    count_reads(f, b, -1);
    count_reads(f, m, 1);
    a->dead = b->dead = true;
    for (uint32_t i = 0; i < m->roots.n; i++)
        f->owner[m->roots.at[i].val.node] = (int32_t)f->ks.n;
    vec_push(f->a, &f->ks, m);
    fuse_order_merge(f, a, b, f->ks.n - 1);
}

/* --- candidates ------------------------------------------------------------------------------- */

typedef struct {
    double gain;
    uint32_t a, b;
} Candidate;

typedef struct {
    Fuser *f;
    VEC(Candidate) heap;   /* the best first */
    Numbers *readers;      /* by node: kernels that read it, dead ones too */
    uint32_t *near, stamp; /* kernel: last search for neighbours that met it */
} Merge;

static bool better(const Candidate *x, const Candidate *y)
{
    if (x->gain > y->gain || x->gain < y->gain)
        return x->gain > y->gain;
    return x->a != y->a ? x->a < y->a : x->b < y->b;
}

static void heap_push(Merge *w, Candidate x)
{
    vec_push(w->f->a, &w->heap, x);
    Candidate *at = w->heap.at;
    uint32_t i = w->heap.n - 1;
    for (; i && better(&x, &at[(i - 1) / 2]); i = (i - 1) / 2)
        at[i] = at[(i - 1) / 2];
    at[i] = x;
}

static Candidate heap_pop(Merge *w)
{
    Candidate *at = w->heap.at, top = at[0], x = at[--w->heap.n];
    uint32_t i = 0, n = w->heap.n;
    for (uint32_t k = 1; k < n; k = 2 * i + 1) {
        k += k + 1 < n && better(&at[k + 1], &at[k]);
        if (!better(&at[k], &x))
            break;
        at[i] = at[k];
        i = k;
    }
    at[i] = x;
    return top;
}

static void note_reads(Merge *w, uint32_t number)
{
    const Kern *k = w->f->ks.at[number];
    for (uint32_t i = 0; i < k->reads.n; i++)
        vec_push(w->f->a, &w->readers[k->reads.at[i].v.node], (int32_t)number);
}

static void push_candidate(Merge *w, uint32_t i, uint32_t j)
{
    Fuser *f = w->f;
    Kern *a = f->ks.at[i], *b = f->ks.at[j];
    double gain = 0;
    bool b_reads_a = false, a_reads_b = false;
    for (uint32_t x = 0; x < a->roots.n; x++)
        b_reads_a |= find_read(b, a->roots.at[x].val.node) != NULL;
    for (uint32_t x = 0; x < b->roots.n; x++)
        a_reads_b |= find_read(a, b->roots.at[x].val.node) != NULL;
    if (a_reads_b && b_reads_a)
        return;
    if (a_reads_b) {
        uint32_t t = i;
        i = j;
        j = t;
    }
    ArenaMark mark = arena_mark(f->a);
    bool saves = consider(f, f->ks.at[i], f->ks.at[j], &gain) != NULL;
    arena_reset(f->a, mark);
    if (saves)
        heap_push(w, (Candidate){gain, i, j});
}

/* A pair of kernel i and an earlier one, once. */
static void push_near(Merge *w, uint32_t i, int32_t j, bool first)
{
    if (j < 0 || (uint32_t)j >= i || w->near[j] == w->stamp || !mergeable(w->f->ks.at[j]))
        return;
    w->near[j] = w->stamp;
    if (first)
        push_candidate(w, (uint32_t)j, i);
    else
        push_candidate(w, i, (uint32_t)j);
}

/* Pairs that kernel i can be part of, with earlier ones: its neighbours in the graph of reads. */
static void neighbours(Merge *w, uint32_t i, bool first)
{
    const Fuser *f = w->f;
    const Kern *k = f->ks.at[i];
    if (!mergeable(k))
        return;
    w->stamp++;
    for (uint32_t x = 0; x < k->roots.n; x++) {
        const Numbers *by = &w->readers[k->roots.at[x].val.node];
        for (uint32_t r = 0; r < by->n; r++)
            push_near(w, i, by->at[r], first);
    }
    for (uint32_t x = 0; x < k->reads.n; x++) {
        Val v = k->reads.at[x].v;
        const Numbers *by = &w->readers[v.node];
        push_near(w, i, f->owner[v.node], first);
        for (uint32_t r = 0; r < by->n && val_info(f->p, f->g, v)->rank; r++)
            push_near(w, i, by->at[r], first);
    }
}

/* All rank-0 work between two other kernels is one kernel: nothing is saved but launches. */
static bool merge_scalar_pair(Fuser *f, const Numbers *scalars)
{
    for (uint32_t i = 0; i < scalars->n; i++)
        for (uint32_t j = i + 1; j < scalars->n; j++) {
            Kern *a = f->ks.at[scalars->at[i]], *b = f->ks.at[scalars->at[j]];
            if (a->dead || b->dead || fuse_reaches(f, a, b) || fuse_reaches(f, b, a))
                continue;
            AxisMap none = no_axes(true);
            Kern *m = try_pair(f, a, b, &none, &none, 0);
            if (!m)
                continue;
            replace(f, a, b, m);
            return true;
        }
    return false;
}

static void merge_scalars(Fuser *f)
{
    Numbers scalars = {0};
    for (uint32_t i = 0; i < f->ks.n; i++)
        if (mergeable(f->ks.at[i]) && f->ks.at[i]->class == CLASS_SCALAR)
            vec_push(f->a, &scalars, (int32_t)i);
    while (merge_scalar_pair(f, &scalars)) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < scalars.n; i++)
            if (!f->ks.at[scalars.at[i]]->dead)
                scalars.at[n++] = scalars.at[i];
        scalars.n = n;
        vec_push(f->a, &scalars, (int32_t)f->ks.n - 1);
    }
}

void fuse_merge(Fuser *f)
{
    Merge w = {.f = f};
    w.readers = arena_alloc(f->a, sizeof *w.readers * f->g->nodes.n);
    w.near = arena_array(f->a, uint32_t, 2 * f->ks.n + 1); /* each merge makes one of two */
    fuse_order(f);
    for (uint32_t i = 0; i < f->ks.n; i++) {
        neighbours(&w, i, true);
        note_reads(&w, i);
    }
    while (w.heap.n) {
        Candidate x = heap_pop(&w);
        Kern *a = f->ks.at[x.a], *b = f->ks.at[x.b];
        double gain = 0;
        if (a->dead || b->dead)
            continue;
        Kern *m = consider(f, a, b, &gain);
        if (!m)
            continue;
        if (gain < x.gain - 0.5) { /* a merge elsewhere took some of it */
            heap_push(&w, (Candidate){gain, x.a, x.b});
            continue;
        }
        replace(f, a, b, m);
        neighbours(&w, f->ks.n - 1, false);
        note_reads(&w, f->ks.n - 1);
    }
    merge_scalars(f);
}
