/* series.c: what an unrolled loop does once a step and then adds up is done once for all steps: the
 * gradient of a weight that every step multiplies by. Values of the steps lie one behind the other
 * in one concat, of which several readers may take ranges.
 *
 *   %a = dot %g1[32,512], %h0[32,128] {contract 0.0}      %g = concat %g0, %g1, .. {axis=0}
 *   %b = dot %g2[32,512], %h1[32,128] {contract 0.0}      %h = concat %h0, %h1, .. {axis=0}
 *   add (add %a, %b), ..                             =>   dot %g[T,32,512], %h[T,32,128]
 *                                                             {contract 0.0 1.1}
 *
 * SPDX-License-Identifier: MIT */
#include "passes/analysis.h"
#include "passes/pipeline.h"

enum { LEAST = 3 }; /* terms that are worth it */

/* Values of one type that lie one behind the other. */
typedef struct {
    VEC(Val) pieces; /* behind reshapes, in the old graph */
    Ty unit;         /* of a piece */
    uint32_t at;     /* the first node that reads it: all pieces are there before */
    uint32_t readers;
    Val made; /* [n, unit], in the new graph, or {0} */
} Base;

/* A range of a base. */
typedef struct {
    uint32_t base, from, n; /* base: index + 1, or 0 */
} Range;

/* Terms of a sum that become one: products, or sums of the rows of something. */
typedef struct {
    uint32_t root, first; /* the sum; a term, by whose attributes they are alike */
    VEC(Val) terms;
    VEC(uint32_t) place; /* of each term in the order of the series */
    Range side[2];
} Bundle;

typedef struct {
    Program *p;
    Graph *g;
    Arena *a;
    const bool *live;
    const uint32_t *uses;
    VEC(Base) bases;
    VEC(Bundle) bundles;
    Range *concat; /* of each concat that becomes a range */
    bool *inside;  /* node: a sum, or a term, that is not made any more */
} Series;

static const Node *node_of(const Series *s, Val v)
{
    return graph_node(s->g, v);
}

/* What a value is, apart from its shape. */
static Val source(const Series *s, Val v)
{
    while (node_of(s, v)->op == OP_reshape)
        v = node_of(s, v)->in[0];
    return v;
}

/* --- sums and their terms --------------------------------------------------------------------- */

static bool contracts_rows(const Node *n)
{
    const Attr a = node_attr(n, ATTR_contract_a), b = node_attr(n, ATTR_contract_b);
    return node_attr(n, ATTR_batch_a).n == 0 && a.n == 1 && a.at[0] == 0 && b.at[0] == 0;
}

static bool has_room(const Series *s, Val v)
{
    return val_info(s->p, s->g, v)->rank < MAX_RANK;
}

static bool is_term(const Series *s, Val v)
{
    const Node *n = node_of(s, v);
    if (s->uses[v.node] != 1)
        return false;
    if (n->op == OP_dot)
        return contracts_rows(n) && has_room(s, n->in[0]) && has_room(s, n->in[1]);
    return n->op == OP_reduce && node_int(n, ATTR_kind) == RED_add && has_room(s, n->in[0]);
}

static bool same_attr(Attr a, Attr b)
{
    bool same = a.n == b.n;
    for (uint32_t i = 0; i < a.n && same; i++)
        same = a.at[i] == b.at[i];
    return same;
}

/* Terms that differ in their operands alone. */
static bool alike(const Series *s, const Node *m, const Node *n)
{
    bool same = m->op == n->op && m->stage == n->stage && m->types[0].id == n->types[0].id;
    for (uint32_t i = 0; i < m->nin && same; i++)
        same = val_type(s->g, m->in[i]).id == val_type(s->g, n->in[i]).id;
    if (!same || m->op == OP_dot)
        return same;
    return same_attr(node_attr(m, ATTR_axes), node_attr(n, ATTR_axes));
}

static void collect_terms(Series *s, uint32_t root, Val v, uint32_t first)
{
    const Node *n = node_of(s, v);
    if (n->op == OP_add && (v.node == root || s->uses[v.node] == 1)) {
        s->inside[v.node] = true;
        collect_terms(s, root, n->in[0], first);
        collect_terms(s, root, n->in[1], first);
        return;
    }
    if (!is_term(s, v))
        return;
    for (uint32_t i = first; i < s->bundles.n; i++)
        if (alike(s, &s->g->nodes.at[s->bundles.at[i].first], n)) {
            vec_push(s->a, &s->bundles.at[i].terms, v);
            return;
        }
    Bundle made = {.root = root, .first = v.node};
    vec_push(s->a, &made.terms, v);
    vec_push(s->a, &s->bundles, made);
}

/* One product of T * K rows writes its result once; T of them write it T times, to be added up; but
 * the operands may have to be copied. */
static bool pays(const Series *s, const Bundle *b)
{
    const Node *n = &s->g->nodes.at[b->first];
    if (b->terms.n < LEAST)
        return false;
    if (n->op == OP_reduce)
        return true;
    const double operands = val_count(s->p, s->g, n->in[0]) + val_count(s->p, s->g, n->in[1]);
    return 2 * operands <= 3 * val_count(s->p, s->g, (Val){b->first, 0});
}

static void find_bundles(Series *s)
{
    for (uint32_t id = s->g->nodes.n; id-- > 1;) {
        const Node *n = &s->g->nodes.at[id];
        if (!s->live[id] || n->op != OP_add || s->inside[id] ||
            !dtype_is_float(type_info(s->p, n->types[0])->dtype))
            continue;
        const uint32_t first = s->bundles.n;
        collect_terms(s, id, (Val){id, 0}, first);
        uint32_t kept = first;
        for (uint32_t i = first; i < s->bundles.n; i++)
            if (pays(s, &s->bundles.at[i]))
                s->bundles.at[kept++] = s->bundles.at[i];
        s->bundles.n = kept;
    }
}

/* --- bases ------------------------------------------------------------------------------------ */

/* A concat of equal pieces along its first axis. */
static bool is_row(Series *s, uint32_t id, Base *out)
{
    const Node *n = &s->g->nodes.at[id];
    if (!s->live[id] || n->op != OP_concat || node_int(n, ATTR_axis) != 0 || n->nin < 2)
        return false;
    *out = (Base){.at = id, .unit = val_type(s->g, source(s, n->in[0]))};
    for (uint32_t k = 0; k < n->nin; k++) {
        const Val v = source(s, n->in[k]);
        if (val_type(s->g, v).id != out->unit.id || !has_room(s, v))
            return false;
        vec_push(s->a, &out->pieces, v);
    }
    return true;
}

/* Where in the base the pieces of w lie, in this order. */
static bool lies_in(const Base *b, const Base *w, uint32_t *from)
{
    for (uint32_t i = 0; i + w->pieces.n <= b->pieces.n; i++) {
        uint32_t k = 0;
        while (k < w->pieces.n && val_eq(b->pieces.at[i + k], w->pieces.at[k]))
            k++;
        if (k == w->pieces.n) {
            *from = i;
            return true;
        }
    }
    return false;
}

/* How many of the last pieces of x are the first ones of y. */
static uint32_t overlap(const Base *x, const Base *y)
{
    const uint32_t most = x->pieces.n < y->pieces.n ? x->pieces.n : y->pieces.n;
    for (uint32_t n = most; n > 0; n--) {
        uint32_t k = 0;
        while (k < n && val_eq(x->pieces.at[x->pieces.n - n + k], y->pieces.at[k]))
            k++;
        if (k == n)
            return n;
    }
    return 0;
}

/* All pieces can be there when its first reader, or one at `at`, asks for them. */
static bool there(const Series *s, const Base *b, uint32_t at)
{
    for (uint32_t i = 0; i < b->pieces.n; i++) {
        double c;
        const uint32_t id = b->pieces.at[i].node;
        if ((id >= at || id >= b->at) && !graph_constant(s->g, b->pieces.at[i], &c))
            return false;
    }
    return true;
}

static void shift(Series *s, uint32_t base, uint32_t by)
{
    for (uint32_t i = 0; i < s->g->nodes.n; i++)
        if (s->concat[i].base == base)
            s->concat[i].from += by;
    for (uint32_t i = 0; i < s->bundles.n; i++)
        for (int k = 0; k < 2; k++)
            if (s->bundles.at[i].side[k].base == base)
                s->bundles.at[i].side[k].from += by;
}

/* The base grows by what w has in front, or behind. */
static bool grow(Series *s, uint32_t index, const Base *w, uint32_t *from)
{
    Base *b = &s->bases.at[index], joined = *b;
    const uint32_t front = overlap(w, b), back = overlap(b, w), n = w->pieces.n;
    const bool in_front = front >= back;
    const uint32_t common = in_front ? front : back, rest = n - common;
    if (2 * common < n)
        return false;
    joined.pieces.at = NULL;
    joined.pieces.n = joined.pieces.cap = 0;
    for (uint32_t i = 0; i < rest && in_front; i++)
        vec_push(s->a, &joined.pieces, w->pieces.at[i]);
    for (uint32_t i = 0; i < b->pieces.n; i++)
        vec_push(s->a, &joined.pieces, b->pieces.at[i]);
    for (uint32_t i = common; i < n && !in_front; i++)
        vec_push(s->a, &joined.pieces, w->pieces.at[i]);
    if (!there(s, &joined, w->at))
        return false;
    if (in_front)
        shift(s, index + 1, rest);
    *from = in_front ? 0 : b->pieces.n - common;
    *b = joined;
    return true;
}

/* The range that holds w: of a base there is, of one made longer, or of a new one. */
static Range place(Series *s, const Base *w)
{
    for (uint32_t i = 0; i < s->bases.n; i++) {
        Base *b = &s->bases.at[i];
        uint32_t from = 0;
        if (b->unit.id != w->unit.id)
            continue;
        if (lies_in(b, w, &from) ? there(s, b, w->at) : grow(s, i, w, &from)) {
            b->readers++;
            b->at = b->at < w->at ? b->at : w->at;
            return (Range){i + 1, from, w->pieces.n};
        }
    }
    vec_push(s->a, &s->bases, *w);
    vec_last(&s->bases).readers = 1;
    return (Range){s->bases.n, 0, w->pieces.n};
}

/* --- the order of a series -------------------------------------------------------------------- */

static Val operand(const Series *s, const Bundle *b, uint32_t term, uint32_t k)
{
    return source(s, node_of(s, b->terms.at[term])->in[k]);
}

/* Orders the terms as operand k lies in a base; false if some do not lie there. */
static bool order_as(Series *s, Bundle *b, uint32_t k, const Base *base)
{
    const uint32_t n = b->terms.n;
    Val *sorted = arena_array(s->a, Val, n);
    uint32_t found = 0;
    for (uint32_t i = 0; i < base->pieces.n && found < n; i++)
        for (uint32_t t = 0; t < n; t++)
            if (val_eq(operand(s, b, t, k), base->pieces.at[i])) {
                if (found == n)
                    return false;
                sorted[found++] = b->terms.at[t];
            }
    for (uint32_t i = 0; i < n && found == n; i++)
        b->terms.at[i] = sorted[i];
    return found == n;
}

/* As they lie already, else as the second operands came to be: the steps of the forward half. */
static void find_order(Series *s, Bundle *b)
{
    const uint32_t sides = s->g->nodes.at[b->first].nin;
    for (uint32_t k = 0; k < sides; k++)
        for (uint32_t i = 0; i < s->bases.n; i++)
            if (order_as(s, b, k, &s->bases.at[i]))
                return;
    for (uint32_t i = 1; i < b->terms.n; i++)
        for (uint32_t k = i;
             k > 0 && operand(s, b, k, sides - 1).node < operand(s, b, k - 1, sides - 1).node;
             k--) {
            const Val v = b->terms.at[k];
            b->terms.at[k] = b->terms.at[k - 1];
            b->terms.at[k - 1] = v;
        }
}

static Base wanted(Series *s, const Bundle *b, uint32_t k)
{
    Base w = {.at = b->root, .unit = val_type(s->g, operand(s, b, 0, k))};
    for (uint32_t i = 0; i < b->terms.n; i++)
        vec_push(s->a, &w.pieces, operand(s, b, i, k));
    return w;
}

/* Sources of one type, or they cannot lie in one row. */
static bool is_uniform(const Series *s, const Base *w)
{
    bool same = true;
    for (uint32_t i = 0; i < w->pieces.n; i++)
        same &= val_type(s->g, w->pieces.at[i]).id == w->unit.id;
    return same && has_room(s, w->pieces.at[0]);
}

static bool is_product(const Series *s, const Bundle *b)
{
    return s->g->nodes.at[b->first].op == OP_dot;
}

static void place_products(Series *s)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->bundles.n; i++) {
        Bundle *b = &s->bundles.at[i];
        if (is_product(s, b)) {
            find_order(s, b);
            const Base x = wanted(s, b, 0), y = wanted(s, b, 1);
            if (!is_uniform(s, &x) || !is_uniform(s, &y))
                continue;
            b->side[0] = place(s, &x);
            b->side[1] = place(s, &y);
        }
        s->bundles.at[kept++] = *b;
    }
    s->bundles.n = kept;
}

/* Sums are taken of what lies in a row for a product; they alone are no reason. */
static void place_sums(Series *s)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < s->bundles.n; i++) {
        Bundle *b = &s->bundles.at[i];
        for (uint32_t k = 0; k < s->bases.n && !is_product(s, b) && !b->side[0].base; k++) {
            uint32_t from = 0;
            if (!order_as(s, b, 0, &s->bases.at[k]))
                continue;
            const Base w = wanted(s, b, 0);
            Base *base = &s->bases.at[k];
            if (w.unit.id == base->unit.id && lies_in(base, &w, &from) && there(s, base, w.at)) {
                base->readers++;
                base->at = base->at < w.at ? base->at : w.at;
                b->side[0] = (Range){k + 1, from, w.pieces.n};
            }
        }
        if (b->side[0].base)
            s->bundles.at[kept++] = *b;
    }
    s->bundles.n = kept;
}

/* --- the new graph ---------------------------------------------------------------------------- */

/* The range as [n, shape]. */
static Val range_of(Series *s, Rewrite *rw, Range r, const TypeInfo *as)
{
    Base *base = &s->bases.at[r.base - 1];
    const TypeInfo unit = *type_info(s->p, base->unit);
    DimTable *t = s->p->cx->dims;
    Dim shape[MAX_RANK] = {dim_const(t, 1)};
    const int stage = rw->b.stage;
    rw->b.stage = -1;
    /* steps of an argument have this axis already: their concat is the argument */
    const uint32_t one = unit.rank && dim_is_one(t, unit.shape[0]) ? 0 : 1;
    for (uint32_t k = 0; k < unit.rank; k++)
        shape[k + one] = unit.shape[k];
    if (!base->made.node) {
        Val *in = arena_array(s->a, Val, base->pieces.n);
        for (uint32_t i = 0; i < base->pieces.n; i++) {
            rewrite_copy(rw, base->pieces.at[i].node);
            in[i] =
                build_reshape(&rw->b, rewrite_get(rw, base->pieces.at[i]), shape, unit.rank + one);
        }
        base->made = build_concat(&rw->b, in, base->pieces.n, 0);
    }
    Val v = build_slice_axis(&rw->b, base->made, 0, dim_const(t, r.from), dim_const(t, r.n));
    shape[0] = dim_const(t, r.n);
    for (uint32_t k = 0; k < as->rank; k++)
        shape[k + 1] = as->shape[k];
    v = build_reshape(&rw->b, v, shape, as->rank + 1);
    rw->b.stage = stage;
    return v;
}

static Val one_for_all(Series *s, Rewrite *rw, const Bundle *b)
{
    const Node n = s->g->nodes.at[b->first];
    const TypeInfo x = *val_info(s->p, s->g, n.in[0]);
    int64_t axes[MAX_RANK] = {0, 1};
    rw->b.site = n.site;
    rw->b.stage = n.stage;
    const Val v = range_of(s, rw, b->side[0], &x);
    if (is_product(s, b)) {
        const TypeInfo y = *val_info(s->p, s->g, n.in[1]);
        const Val w = range_of(s, rw, b->side[1], &y);
        return build_dot(&rw->b, v, w, NULL, NULL, 0, axes, axes, 2,
                         (DType)node_int(&n, ATTR_dtype));
    }
    const Attr reduced = node_attr(&n, ATTR_axes);
    for (uint32_t k = 0; k < reduced.n; k++)
        axes[k + 1] = reduced.at[k] + 1;
    return build_reduce(&rw->b, RED_add, v, axes, reduced.n + 1);
}

/* The terms of a sum that are in no bundle of it, added up in their order. */
static Val other_terms(Series *s, Rewrite *rw, uint32_t root, Val v, Val sum)
{
    const Node *n = node_of(s, v);
    if (n->op == OP_add && (v.node == root || s->uses[v.node] == 1)) {
        const Val x = n->in[0], y = n->in[1];
        return other_terms(s, rw, root, y, other_terms(s, rw, root, x, sum));
    }
    for (uint32_t i = 0; i < s->bundles.n; i++)
        for (uint32_t k = 0; k < s->bundles.at[i].terms.n && s->bundles.at[i].root == root; k++)
            if (val_eq(s->bundles.at[i].terms.at[k], v))
                return sum;
    rewrite_copy(rw, v.node);
    rw->b.stage = s->g->nodes.at[root].stage;
    const Val term = rewrite_get(rw, v);
    return sum.node ? build2(&rw->b, OP_add, sum, term) : term;
}

static void make_sum(Series *s, Rewrite *rw, uint32_t root)
{
    Val sum = {0, 0};
    for (uint32_t i = 0; i < s->bundles.n; i++) {
        if (s->bundles.at[i].root != root)
            continue;
        const Val v = one_for_all(s, rw, &s->bundles.at[i]);
        sum = sum.node ? build2(&rw->b, OP_add, sum, v) : v;
    }
    sum = other_terms(s, rw, root, (Val){root, 0}, sum);
    rw->b.stage = -1;
    val_hint(&rw->b, sum, s->g->nodes.at[root].hint);
    rewrite_set(rw, (Val){root, 0}, sum);
}

static void make_concat(Series *s, Rewrite *rw, uint32_t id)
{
    const Node n = s->g->nodes.at[id];
    const TypeInfo t = *type_info(s->p, n.types[0]),
                   unit = *type_info(s->p, s->bases.at[s->concat[id].base - 1].unit);
    rw->b.site = n.site;
    const Val v = range_of(s, rw, s->concat[id], &unit);
    rewrite_set(rw, (Val){id, 0}, build_reshape(&rw->b, v, t.shape, t.rank));
}

/* Everything inside a sum that is made anew. */
static void mark_inside(Series *s, uint32_t root, Val v)
{
    const Node *n = node_of(s, v);
    if (n->op == OP_add && (v.node == root || s->uses[v.node] == 1)) {
        s->inside[v.node] = true;
        mark_inside(s, root, n->in[0]);
        mark_inside(s, root, n->in[1]);
    }
}

static Graph *rewrite(Series *s)
{
    Rewrite rw = rewrite_begin(s->p, s->g);
    bool *root = arena_array(s->a, bool, s->g->nodes.n);
    for (uint32_t id = 0; id < s->g->nodes.n; id++)
        s->inside[id] = false;
    for (uint32_t i = 0; i < s->bundles.n; i++) {
        const Bundle *b = &s->bundles.at[i];
        root[b->root] = true;
        mark_inside(s, b->root, (Val){b->root, 0});
        for (uint32_t k = 0; k < b->terms.n; k++)
            s->inside[b->terms.at[k].node] = true;
    }
    for (uint32_t id = 1; id < s->g->nodes.n; id++) {
        if (!rw.live[id])
            continue;
        if (root[id])
            make_sum(s, &rw, id);
        else if (s->concat[id].base && s->bases.at[s->concat[id].base - 1].readers > 1)
            make_concat(s, &rw, id);
        else if (!s->inside[id])
            rewrite_copy(&rw, id);
    }
    return rewrite_end(&rw);
}

static Graph *series_graph(Program *p, Graph *g)
{
    const uint32_t n = g->nodes.n;
    Series s = {.p = p, .g = g, .a = p->cx->scratch, .live = graph_live(p, g)};
    s.inside = arena_array(s.a, bool, n);
    s.uses = graph_uses(p, g, NULL);
    s.concat = arena_array(s.a, Range, n);
    find_bundles(&s);
    bool products = false;
    for (uint32_t i = 0; i < s.bundles.n; i++)
        products |= is_product(&s, &s.bundles.at[i]);
    if (!products)
        return g;
    for (uint32_t id = 1; id < n; id++) {
        Base row;
        if (is_row(&s, id, &row))
            s.concat[id] = place(&s, &row);
    }
    place_products(&s);
    place_sums(&s);
    return s.bundles.n ? simplify_graph(p, rewrite(&s), true) : g;
}

bool pass_series(Pipeline *pl)
{
    Program *p = pl->p;
    for (uint32_t i = 0; i < p->graphs.n; i++)
        if (p->graphs.at[i]->kind != GRAPH_CHECK && p->graphs.at[i]->kind != GRAPH_DEF &&
            !p->graphs.at[i]->sliced)
            p->graphs.at[i] = series_graph(p, p->graphs.at[i]);
    return true;
}
