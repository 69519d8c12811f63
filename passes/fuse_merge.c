/* fuse_merge.c: kernels and which of them become one.
 *
 * A kernel is its roots (stored values) over one domain, with the cone of nodes that each needs.
 * Two kernels merge when one reads the other's root, or both read a large value, at the same index
 * of a common domain, no third kernel lies between, and bytes are saved. Best pair first; ties go
 * to source order. SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "passes/fuse_internal.h"

#include <string.h>

enum {
    MAX_READS = 16,
    MAX_BODY = 160,
    LONG_ROWS = 64,
    WHOLE = 1024,
    COLUMNS = 2048,
    SMALL = 1 << 20,
    SIBLINGS = 64 /* of those that read a value, so many are looked at, the nearest */
};

static const double LEAST_SAVED = 0.15; /* of what the lighter of two siblings moves */

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

/* How two kernels become one. */
typedef struct {
    KClass class;
    uint32_t reduced;
    bool base_side, other_side; /* their sums become side sums */
} Union;

/* Axes of base that are more than one index. */
static uint32_t wide_axes(const Fuser *f, const Kern *base)
{
    uint32_t wide = 0;
    for (uint32_t d = 0; d < base->rank; d++)
        if (!dim_is_one(f->t, base->domain[d]))
            wide |= 1u << d;
    return wide;
}

static bool has_side(const Kern *k)
{
    for (uint32_t i = 0; i < k->roots.n; i++)
        if (k->roots.at[i].side)
            return true;
    return false;
}

/* Sums over all axes but the innermost one beside rows (or a map) along that one. */
static bool side_union(const Fuser *f, const Kern *base, uint32_t other, uint32_t sums,
                       bool base_sums, Union *u)
{
    const uint32_t wide = wide_axes(f, base), row = wide & ~sums;
    int64_t n;
    if (!(sums & wide) || !row || row & (row - 1) || row < (sums & wide) ||
        (other && (other & wide) != row))
        return false;
    uint32_t inner = 0;
    while (!(row >> inner & 1))
        inner++;
    if (!dim_is_const(f->t, base->domain[inner], &n) || n > FUSE_ROW)
        return false;
    *u = (Union){CLASS_ROW, row, base_sums, !base_sums};
    return true;
}

/* Short columns, and many of them: passes over one find it in a cache. */
static bool column_union(const Fuser *f, const Kern *base, uint32_t sums, Union *u)
{
    const uint32_t wide = wide_axes(f, base);
    Dim length = dim_const(f->t, 1);
    double columns = 1;
    int64_t n;
    for (uint32_t d = 0; d < base->rank; d++)
        if (sums >> d & 1)
            length = dim_mul(f->t, length, base->domain[d]);
        else
            columns *= dim_hint(f->t, base->domain[d]);
    *u = (Union){.class = CLASS_REDUCE, .reduced = sums};
    return (wide & ~sums) > (wide & sums) && dim_is_const(f->t, length, &n) && n <= WHOLE &&
           columns >= COLUMNS;
}

/* False if the two cannot be one. `covered`: axes of base that `other` has; `reduced`: other's
 * reduced axes in base's numbering. `columns`: a map and sums over columns, not as side sums. */
static bool merged_class(const Fuser *f, const Kern *base, const Kern *other, uint32_t covered,
                         uint32_t reduced, bool columns, Union *u)
{
    bool full = covered == axes_mask(base->rank);
    KClass a = base->class, b = other->class;
    if (columns)
        return full &&
               ((a == CLASS_MAP && b == CLASS_REDUCE) || (a == CLASS_REDUCE && b == CLASS_MAP)) &&
               column_union(f, base, base->reduced | reduced, u);
    *u = (Union){.class = a, .reduced = base->reduced | reduced};
    if (a == CLASS_SCALAR && b == CLASS_SCALAR)
        return true;
    if (a == CLASS_MAP && b == CLASS_MAP)
        return full;
    if (a == CLASS_ROW && b == CLASS_MAP) {
        if (full || covered == (axes_mask(base->rank) & ~base->reduced))
            return true;
        u->other_side = has_side(base);
        return u->other_side && (covered & base->reduced) == base->reduced &&
               !(covered & wide_axes(f, base) & ~base->reduced);
    }
    /* what is made of whole sums, where these are complete */
    if (a == CLASS_REDUCE && (b == CLASS_MAP || b == CLASS_SCALAR) &&
        covered == (axes_mask(base->rank) & ~base->reduced))
        return true;
    u->class = CLASS_ROW;
    if (a == CLASS_MAP && b == CLASS_ROW)
        return full;
    if (a == CLASS_ROW && b == CLASS_ROW)
        return full && reduced == base->reduced;
    if (full && b == CLASS_REDUCE && (a == CLASS_ROW || a == CLASS_MAP))
        return side_union(f, base, base->reduced, reduced, false, u);
    if (full && a == CLASS_REDUCE && (b == CLASS_ROW || b == CLASS_MAP))
        return side_union(f, base, reduced, base->reduced, true, u);
    u->class = CLASS_REDUCE;
    return a == CLASS_REDUCE && b == CLASS_REDUCE && full && reduced == base->reduced;
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

/* Side sums, of one number each, fit the registers beside one value that is kept. */
static bool sides_fit(const Fuser *f, const Kern *m)
{
    double rows = 1, row = 1;
    uint32_t sides = 0;
    for (uint32_t d = 0; d < m->rank; d++)
        if (m->reduced >> d & 1)
            row *= dim_hint(f->t, m->domain[d]);
        else
            rows *= dim_hint(f->t, m->domain[d]);
    for (uint32_t i = 0; i < m->roots.n; i++) {
        const Node *n = graph_node(f->g, m->roots.at[i].val);
        if (!m->roots.at[i].side || n->op != OP_reduce)
            continue;
        sides++;
        if (reducer_info((Reducer)node_int(n, ATTR_kind))->nfields != 1)
            return false;
    }
    return rows >= 2 * FUSE_SIDE_ROWS && (sides + 1) * row <= FUSE_REGISTERS * 1024;
}

/* Rows of more than one pass must be short enough to stay resident, or many. */
static bool rows_fit(const Fuser *f, const Kern *m)
{
    int last = 0;
    if (has_side(m))
        return sides_fit(f, m);
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
    return (dim_is_const(f->t, length, &n) && n <= FUSE_ROW) || rows >= LONG_ROWS;
}

/* Sums that need other sums of the same kernel: only where one cell does all of each. */
static bool phases_fit(const Fuser *f, const Kern *m)
{
    Dim length = dim_const(f->t, 1);
    int64_t n;
    bool later = false;
    for (uint32_t i = 0; i < m->roots.n; i++)
        later |= m->roots.at[i].phase > (graph_node(f->g, m->roots.at[i].val)->op != OP_reduce);
    for (uint32_t d = 0; d < m->rank; d++)
        if (m->reduced >> d & 1)
            length = dim_mul(f->t, length, m->domain[d]);
    return !later || (dim_is_const(f->t, length, &n) && n <= WHOLE);
}

static const Read *find_read(const Kern *k, uint32_t node)
{
    for (uint32_t i = 0; i < k->reads.n; i++)
        if (k->reads.at[i].v.node == node)
            return &k->reads.at[i];
    return NULL;
}

static bool has_root(const Kern *k, uint32_t node)
{
    for (uint32_t i = 0; i < k->roots.n; i++)
        if (k->roots.at[i].val.node == node)
            return true;
    return false;
}

static bool reads_val(const Kern *k, Val v)
{
    for (uint32_t i = 0; i < k->reads.n; i++)
        if (val_eq(k->reads.at[i].v, v))
            return true;
    return false;
}

/* What the two read and compute together is what each does, however the axes are paired: whether
 * that is too much is known without walking the cones. */
static bool too_large(const Kern *a, const Kern *b)
{
    if (a->body.n + b->body.n > MAX_BODY)
        return true;
    uint32_t n = a->reads.n + b->reads.n;
    for (uint32_t i = 0; i < a->reads.n && n > MAX_READS; i++)
        n -= has_root(b, a->reads.at[i].v.node) || reads_val(b, a->reads.at[i].v);
    for (uint32_t i = 0; i < b->reads.n && n > MAX_READS; i++)
        n -= has_root(a, b->reads.at[i].v.node);
    return n > MAX_READS;
}

static Kern *try_union(Fuser *f, Kern *base, Kern *other, const AxisMap *mb, const AxisMap *mo,
                       uint32_t rank, bool columns)
{
    int8_t to[FUSE_AXES];
    Union u;
    uint32_t covered = 0, reduced = 0;
    if (!mb->exact || !mo->exact || base->rank < other->rank || too_large(base, other) ||
        !pair_axes(base, other, mb, mo, rank, to))
        return NULL;
    for (uint32_t e = 0; e < other->rank; e++) {
        covered |= 1u << to[e];
        if (other->reduced >> e & 1)
            reduced |= 1u << to[e];
    }
    if (!merged_class(f, base, other, covered, reduced, columns, &u))
        return NULL;
    Kern *m = arena_new(f->a, Kern);
    m->class = u.class;
    m->rank = base->rank;
    m->reduced = u.reduced;
    m->after = -1;
    memcpy(m->domain, base->domain, sizeof m->domain);
    for (uint32_t i = 0; i < base->roots.n; i++) {
        FuseRoot r = base->roots.at[i];
        r.side |= u.base_side;
        add_root(f, m, r);
    }
    for (uint32_t i = 0; i < other->roots.n; i++) {
        FuseRoot r = other->roots.at[i], old = r;
        memset(r.axis_of, -1, sizeof r.axis_of);
        r.side |= u.other_side;
        for (uint32_t e = 0; e < other->rank; e++)
            r.axis_of[to[e]] = old.axis_of[e];
        /* several domain axes of one axis keep their order */
        for (uint32_t e = 1; e < other->rank; e++)
            for (uint32_t d = 0; d < e; d++)
                if (old.axis_of[e] >= 0 && old.axis_of[d] == old.axis_of[e] && to[d] > to[e])
                    return NULL;
        add_root(f, m, r);
    }
    if (!fuse_cone(f, m))
        return NULL;
    CHECK(m->reads.n <= MAX_READS && m->body.n <= MAX_BODY);
    if (m->class == CLASS_REDUCE && !phases_fit(f, m))
        return NULL;
    return m->class == CLASS_ROW && !rows_fit(f, m) ? NULL : m;
}

/* On which device it works. */
static Place place_of(const Fuser *f, const Kern *k)
{
    return val_info(f->p, f->g, k->roots.at[0].val)->place;
}

static Kern *try_pair(Fuser *f, Kern *base, Kern *other, const AxisMap *mb, const AxisMap *mo,
                      uint32_t rank)
{
    if (place_of(f, base) != place_of(f, other))
        return NULL;
    Kern *m = try_union(f, base, other, mb, mo, rank, false);
    return m ? m : try_union(f, base, other, mb, mo, rank, true);
}

/* --- choosing --------------------------------------------------------------------------------- */

static bool mergeable(const Kern *k)
{
    return !k->dead && !k->effect && k->class != CLASS_CONTRACT && k->class != CLASS_COPY &&
           k->class != CLASS_OPAQUE;
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

static bool reads_root(const Kern *b, const Kern *a)
{
    for (uint32_t i = 0; i < a->roots.n; i++)
        if (find_read(b, a->roots.at[i].val.node))
            return true;
    return false;
}

/* Neither reads a root of the other: no more is saved than what both read, and their side sums.
 * False: that is too little. */
static bool may_save(const Fuser *f, const Kern *a, const Kern *b)
{
    double shared = fuse_side_bytes(f, a) + fuse_side_bytes(f, b), of_a = 0, of_b = 0;
    for (uint32_t i = 0; i < a->reads.n; i++)
        of_a += a->reads.at[i].bytes;
    for (uint32_t k = 0; k < b->reads.n; k++) {
        const Read *y = &b->reads.at[k];
        of_b += y->bytes;
        for (uint32_t i = 0; i < a->reads.n; i++)
            if (val_eq(a->reads.at[i].v, y->v))
                shared += a->reads.at[i].bytes + y->bytes;
    }
    return shared >= LEAST_SAVED * (of_a < of_b ? of_a : of_b);
}

/* a's root is read by b, or (sibling) both read a value. The merged kernel and what it saves. */
static Kern *consider(Fuser *f, Kern *a, Kern *b, double *gain)
{
    Kern *m = NULL;
    bool vertical = false;
    if (too_large(a, b) || (!reads_root(b, a) && !may_save(f, a, b)))
        return NULL;
    if (fuse_reaches(f, b, a) || fuse_reaches(f, a, b)) /* cheaper than the union, and often so */
        return NULL;
    for (uint32_t i = 0; i < a->roots.n && !m; i++) {
        const Read *r = find_read(b, a->roots.at[i].val.node);
        if (!r)
            continue;
        vertical = true;
        AxisMap ma = fuse_root_map(f, a, &a->roots.at[i]);
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
            AxisMap none = fuse_no_axes(true);
            m = try_pair(f, a, b, &none, &none, 0);
        }
    }
    if (!m || reads_written(f, m, a, b))
        return NULL;
    double ta = fuse_traffic(f, a, NULL), tb = fuse_traffic(f, b, NULL);
    *gain = ta + tb - fuse_merged_traffic(f, m, a, b);
    double least = ta < tb ? ta : tb;
    if (*gain <= 0 || (!vertical && *gain < LEAST_SAVED * least))
        return NULL;
    return m;
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
    const bool b_reads_a = reads_root(b, a), a_reads_b = reads_root(a, b);
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

/* Those that are still there. */
static Numbers *alive(const Fuser *f, Numbers *by)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < by->n; i++)
        if (!f->ks.at[by->at[i]]->dead)
            by->at[n++] = by->at[i];
    by->n = n;
    return by;
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
        const Numbers *by = alive(f, &w->readers[k->roots.at[x].val.node]);
        for (uint32_t r = 0; r < by->n; r++)
            push_near(w, i, by->at[r], first);
    }
    for (uint32_t x = 0; x < k->reads.n; x++) {
        Val v = k->reads.at[x].v;
        push_near(w, i, f->owner[v.node], first);
        if (!val_info(f->p, f->g, v)->rank)
            continue;
        const Numbers *by = alive(f, &w->readers[v.node]);
        for (uint32_t r = by->n; r > 0 && r + SIBLINGS > by->n; r--)
            push_near(w, i, by->at[r - 1], first);
    }
}

static Kern *little_pair(Fuser *f, Kern *a, Kern *b)
{
    if (a->class != b->class || a->rank != b->rank || too_large(a, b) || fuse_reaches(f, a, b) ||
        fuse_reaches(f, b, a))
        return NULL;
    const AxisMap none = fuse_no_axes(true);
    Kern *m = try_pair(f, a, b, &none, &none, 0);
    return !m || reads_written(f, m, a, b) ? NULL : m;
}

/* All rank-0 work between two other kernels is one kernel, and so are small sums over equal
 * domains: nothing is saved but launches. The first pair, in the order of the list, that can be one
 * becomes one, at the list's end; what could not be one before cannot be later. */
static void merge_little(Fuser *f, KClass class)
{
    Numbers little = {0};
    for (uint32_t i = 0; i < f->ks.n; i++) {
        const Kern *k = f->ks.at[i];
        if (mergeable(k) && k->class == class && fuse_traffic(f, k, NULL) < SMALL)
            vec_push(f->a, &little, (int32_t)i);
    }
    uint32_t *tried = arena_array(f->a, uint32_t, 2 * little.n + 1); /* with those before this */
    for (uint32_t i = 0; i < little.n;) {
        Kern *a = f->ks.at[little.at[i]], *m = NULL;
        for (uint32_t j = tried[i] > i ? tried[i] : i + 1; j < little.n && !a->dead && !m; j++) {
            Kern *b = f->ks.at[little.at[j]];
            m = b->dead ? NULL : little_pair(f, a, b);
            if (m)
                replace(f, a, b, m);
        }
        tried[i] = little.n;
        if (m)
            vec_push(f->a, &little, (int32_t)f->ks.n - 1);
        i = m ? 0 : i + 1;
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
    merge_little(f, CLASS_REDUCE);
    merge_little(f, CLASS_SCALAR);
}
