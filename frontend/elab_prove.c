/* elab_prove.c: questions about sizes: proved, left to an entry check, or refused (language.md,
 * "Tensor types"). SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <math.h>
#include <string.h>

/* Value of a size with // read as an exact quotient, at pseudo-random sizes. */
static double real_value(Elab *e, Dim d, uint64_t seed);

static double atom_value(Elab *e, const Atom *a, uint64_t seed)
{
    switch (a->kind) {
    case ATOM_SYMBOL: {
        uint64_t key[2] = {seed, a->symbol.id};
        return 3 + (double)(hash_bytes(HASH_START, key, sizeof key) >> 16 & 0xffff) / 64;
    }
    case ATOM_FLOORDIV:
        return real_value(e, a->a, seed) / real_value(e, a->b, seed);
    case ATOM_MIN:
        return fmin(real_value(e, a->a, seed), real_value(e, a->b, seed));
    default:
        return fmax(real_value(e, a->a, seed), real_value(e, a->b, seed));
    }
}

static double real_value(Elab *e, Dim d, uint64_t seed)
{
    const Term *terms;
    uint32_t n = dim_terms(e->dims, d, &terms);
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        double product = (double)terms[i].coefficient;
        for (uint32_t k = 0; k < terms[i].n; k++)
            product *=
                pow(atom_value(e, &terms[i].factors[k].atom, seed), terms[i].factors[k].power);
        sum += product;
    }
    return sum;
}

/* Whether a and b differ by a constant when divisions are read as exact. */
static bool differ_by_constant(Elab *e, Dim a, Dim b)
{
    double first = 0;
    for (uint64_t k = 0; k < 6; k++) {
        double x = real_value(e, a, k), y = real_value(e, b, k), d = x - y;
        if (k == 0)
            first = d;
        else if (!(fabs(d - first) <= 1e-9 * (1 + fabs(x) + fabs(y))))
            return false;
    }
    return true;
}

/* a - b at the turn where it is largest: entry checks know of no turns. False: not known. */
static bool at_worst_turn(Elab *e, Dim *a, Dim *b)
{
    DimTable *t = e->dims;
    for (uint32_t id = dim_nsymbols(t); id > 0; id--) {
        const Symbol s = {id};
        const SymbolInfo *info = dim_symbol(t, s);
        const Dim d = dim_sub(t, *a, *b);
        if (info->kind != SYM_LOOP || !dim_mentions(t, d, s))
            continue;
        const Dim first = dim_const(t, 0), last = dim_sub(t, info->extent, dim_const(t, 1));
        const Dim one = dim_const(t, 1), next = dim_add(t, dim_of(t, s), one);
        const Dim step = dim_sub(t, dim_substitute(t, d, &(DimSubst){s, next}, 1), d);
        const bool rises = dim_le(t, first, step) == YES;
        if (!rises && dim_le(t, step, first) != YES)
            return false;
        const DimSubst to = {s, rises ? last : first};
        *a = dim_substitute(t, *a, &to, 1);
        *b = dim_substitute(t, *b, &to, 1);
    }
    return true;
}

static void add_check(Elab *e, Span at, GuardTerm guard, const char *message)
{
    Graph *g = e->entry;
    for (uint32_t i = 0; i < g->checks.n; i++) {
        const GuardTerm *old = &g->checks.at[i].guard;
        if (old->kind == guard.kind && dim_same(old->a, guard.a) && dim_same(old->b, guard.b) &&
            old->k == guard.k)
            return;
    }
    vec_push(e->a, &g->checks,
             ((EntryCheck){.guard = guard, .message = message, .at = user_at(e, at)}));
}

bool prove_equal(Elab *e, Span at, Dim a, Dim b)
{
    if (dim_same(a, b))
        return true;
    Answer ans = dim_equal(e->dims, a, b);
    if (e->entry && dim_equal_by_zeros(e->dims, a, b))
        ans = UNKNOWN; /* known from another entry of the same sizes */
    e->unproved = ans == UNKNOWN;
    if (ans != UNKNOWN)
        return ans == YES;
    if (!e->entry || !differ_by_constant(e, a, b) ||
        dim_mentions_kind(e->dims, dim_sub(e->dims, a, b), SYM_LOOP))
        return false;
    add_check(e, at, (GuardTerm){.kind = G_EQ, .a = a, .b = b},
              arena_printf(e->a, "%s must be %s", dim_str(e, a), dim_str(e, b)));
    dim_assume_equal(e->dims, a, b); /* so that every later question gets the same answer */
    e->unproved = false;
    return true;
}

/* In a turn of a loop that has none nothing is wrong. */
static bool never_runs(Elab *e, Dim a, Dim b)
{
    for (uint32_t id = dim_nsymbols(e->dims); id > 0; id--) {
        const SymbolInfo *info = dim_symbol(e->dims, (Symbol){id});
        if (info->kind == SYM_LOOP && dim_is_zero(e->dims, info->extent) &&
            (dim_mentions(e->dims, a, (Symbol){id}) || dim_mentions(e->dims, b, (Symbol){id})))
            return true;
    }
    return false;
}

bool prove_le(Elab *e, Span at, Dim a, Dim b, const char *what)
{
    if (dim_mentions_kind(e->dims, dim_sub(e->dims, a, b), SYM_LOOP) && never_runs(e, a, b))
        return true;
    Answer ans = dim_le(e->dims, a, b);
    e->unproved = ans == UNKNOWN;
    if (ans != UNKNOWN || !e->entry || !at_worst_turn(e, &a, &b))
        return ans == YES;
    ans = dim_le(e->dims, a, b);
    e->unproved = ans == UNKNOWN;
    if (ans != UNKNOWN)
        return ans == YES;
    add_check(e, at, (GuardTerm){.kind = G_LE, .a = a, .b = b}, what);
    e->unproved = false;
    return true;
}

bool prove_divisible(Elab *e, Span at, Dim a, int64_t by)
{
    Answer ans = dim_divisible(e->dims, a, by);
    e->unproved = ans == UNKNOWN;
    if (ans != UNKNOWN || !e->entry || dim_mentions_kind(e->dims, a, SYM_LOOP))
        return ans == YES;
    add_check(e, at, (GuardTerm){.kind = G_DIVISIBLE, .a = a, .k = by},
              arena_printf(e->a, "%s must be a multiple of %lld", dim_str(e, a), (long long)by));
    e->unproved = false;
    return true;
}

/* ---- extents ---- */

bool check_extent(Elab *e, Span at, const Shape *s)
{
    enum { BITS = 48 };
    int64_t n = 1, c;
    for (uint32_t i = 0; i < s->rank; i++)
        if (dim_is_const(e->dims, s->at[i], &c) &&
            (c > (int64_t)1 << BITS || __builtin_mul_overflow(n, c ? c : 1, &n) ||
             n > (int64_t)1 << BITS)) {
            elab_error(e, DIAG_bad_number, at, "a tensor of %s has more than 2^%d elements",
                       shape_str(e, s), BITS);
            return false;
        }
    return true;
}

bool give(Elab *e, Val v, Value *out)
{
    const TypeInfo *t = type_at(e, v);
    Shape s = {.rank = t->rank};
    memcpy(s.at, t->shape, sizeof s.at);
    if (!check_extent(e, e->b.site.at, &s))
        return false;
    *out = v_tensor(e, v);
    return true;
}

/* ---- reshapes ---- */

static bool rest_size(Elab *e, Span at, Val x, Dim total, const Shape *to, uint32_t hole, Dim *out)
{
    const Dim *shape = to->at;
    const uint32_t rank = to->rank;
    Dim known = dim_const(e->dims, 1);
    for (uint32_t i = 0; i < rank; i++)
        if (i != hole)
            known = dim_mul(e->dims, known, shape[i]);
    int64_t c;
    if (dim_is_zero(e->dims, known)) {
        *out = dim_const(e->dims, 0);
        return true;
    }
    Dim q = dim_exact_div(e->dims, total, known);
    if (!q.id && dim_is_const(e->dims, known, &c) && prove_divisible(e, at, total, c))
        q = dim_floordiv(e->dims, total, known);
    if (!q.id && dim_equal(e->dims, dim_mod(e->dims, total, known), dim_const(e->dims, 0)) == YES)
        q = dim_floordiv(e->dims, total, known);
    if (!q.id) {
        e->unproved = !dim_is_const(e->dims, total, &c) || !dim_is_const(e->dims, known, &c);
        const SizePair pair = {.a = total, .b = known};
        sizes_error(e, DIAG_shape_mismatch, at, &pair,
                    "cannot reshape %s to %s: %s elements are no multiple of %s",
                    val_shape_str(e, x), shape_str(e, to), dim_str(e, total), dim_str(e, known));
        return false;
    }
    *out = q;
    return true;
}

bool reshape_to(Elab *e, Span at, Val x, Shape *to, Val *out)
{
    const TypeInfo *t = type_at(e, x);
    Dim total = dim_product(e->dims, t->shape, t->rank);
    for (uint32_t i = 0; i < to->rank; i++)
        if (!to->at[i].id && !rest_size(e, at, x, total, to, i, &to->at[i]))
            return false;
    Dim now = dim_product(e->dims, to->at, to->rank);
    if (!prove_equal(e, at, total, now)) {
        elab_error(e, DIAG_shape_mismatch, at, "cannot reshape %s to %s: %s and %s elements",
                   val_shape_str(e, x), shape_str(e, to), dim_str(e, total), dim_str(e, now));
        return false;
    }
    *out = build_reshape(&e->b, x, to->at, to->rank);
    written_set(e, *out, to->how, to->rank);
    return true;
}

/* ---- matrix products ---- */

typedef struct {
    Span at, a_at, b_at;
    Val x, y;
} Product;

static void mark_operands(const Product *p, Diag *d)
{
    diag_range(d, p->a_at);
    diag_range(d, p->b_at);
}

static bool matmul_error(Elab *e, const Product *p, const char *note)
{
    Diag *d = elab_error(e, DIAG_shape_mismatch, p->at, "cannot multiply %s by %s",
                         val_shape_str(e, p->x), val_shape_str(e, p->y));
    mark_operands(p, d);
    diag_note(e->diags, d, (Span){0}, "%s", note);
    return false;
}

/* Axis i of x and k of y differ. */
static bool axes_error(Elab *e, const Product *p, const char *what, uint32_t i, uint32_t k)
{
    const Shape x = written_shape(e, p->x), y = written_shape(e, p->y);
    const SizePair pair = {what, x.how[i], y.how[k], x.at[i], y.at[k]};
    Diag *d = sizes_error(e, DIAG_shape_mismatch, p->at, &pair, "cannot multiply %s by %s",
                          shape_str(e, &x), shape_str(e, &y));
    mark_operands(p, d);
    return false;
}

/* The shape of the batch axes of both, broadcast; false after a message. */
static bool matmul_batch(Elab *e, const Product *m, Dim *batch, uint32_t *nbatch)
{
    TypeInfo p = *type_at(e, m->x), q = *type_at(e, m->y);
    p.rank = (uint8_t)(p.rank > 2 ? p.rank - 2 : 0);
    q.rank = (uint8_t)(q.rank > 2 ? q.rank - 2 : 0);
    *nbatch = p.rank > q.rank ? p.rank : q.rank;
    for (uint32_t k = 0; k < *nbatch; k++) {
        Dim a = k < p.rank ? p.shape[p.rank - 1 - k] : dim_const(e->dims, 1);
        Dim b = k < q.rank ? q.shape[q.rank - 1 - k] : dim_const(e->dims, 1);
        bool one = dim_is_one(e->dims, a) || dim_is_one(e->dims, b);
        if (!one && !prove_equal(e, m->at, a, b))
            return axes_error(e, m, "batch axes are", p.rank - 1 - k, q.rank - 1 - k);
        batch[*nbatch - 1 - k] = dim_is_one(e->dims, a) ? b : a;
    }
    return true;
}

static Val with_batch(Elab *e, Val x, const Dim *batch, uint32_t nbatch)
{
    const TypeInfo *t = type_at(e, x);
    Dim shape[MAX_RANK];
    memcpy(shape, batch, nbatch * sizeof *batch);
    shape[nbatch] = t->shape[t->rank - 2];
    shape[nbatch + 1] = t->shape[t->rank - 1];
    return build_broadcast_to(&e->b, x, shape, nbatch + 2);
}

static Val batched_dot(Elab *e, Val x, Val y, const Dim *batch, uint32_t nbatch, DType t)
{
    int64_t axes[MAX_RANK], last = nbatch + 1, inner = nbatch;
    for (uint32_t i = 0; i < nbatch; i++)
        axes[i] = i;
    return build_dot(&e->b, with_batch(e, x, batch, nbatch), with_batch(e, y, batch, nbatch), axes,
                     axes, nbatch, &last, &inner, 1, t);
}

bool matmul(Elab *e, Span at, Span a_at, Span b_at, Val x, Val y, Val *out)
{
    TypeInfo p = *type_at(e, x), q = *type_at(e, y);
    Product m = {at, a_at, b_at, x, y};
    if (p.rank == 0 || q.rank == 0)
        return matmul_error(e, &m, "'@' wants at least one axis: write '*'");
    if (p.dtype == DT_bool && q.dtype == DT_bool)
        return matmul_error(e, &m, "products are of numbers, not of bools: write .to(f32)");
    if (p.dtype != q.dtype) {
        Diag *d = elab_error(e, DIAG_dtype_mismatch, at, "cannot multiply %s by %s", type_str(e, x),
                             type_str(e, y));
        diag_note(e->diags, d, (Span){0}, "convert one of them with .to(%s)", dtype_name(p.dtype));
        return false;
    }
    uint32_t inner_y = q.rank >= 2 ? q.rank - 2u : 0;
    Dim k = p.shape[p.rank - 1], l = q.shape[inner_y];
    if (!prove_equal(e, at, k, l))
        return axes_error(e, &m, "inner dims are", p.rank - 1u, inner_y);
    if (p.rank + q.rank > MAX_RANK + 2 || (p.rank > 2 && q.rank > 2 && p.rank > MAX_RANK))
        return matmul_error(e, &m, "the result has too many axes");
    int64_t last = p.rank - 1, inner = inner_y;
    if (q.rank <= 2) { /* x's leading axes stay free: one large product */
        const Node *n = graph_node(e->b.g, y);
        if (q.rank == 2 && n->op == OP_transpose && n->in[0].node) { /* x @ w.T reads w as it is */
            y = n->in[0];
            inner = 1 - inner;
        }
        *out = build_dot(&e->b, x, y, NULL, NULL, 0, &last, &inner, 1, p.dtype);
        return true;
    }
    Dim one = dim_const(e->dims, 1);
    bool vector = p.rank == 1;
    if (vector) {
        Dim shape[2] = {one, k};
        m.x = x = build_reshape(&e->b, x, shape, 2);
        p = *type_at(e, x);
    }
    Dim batch[MAX_RANK];
    uint32_t nbatch = 0;
    if (!matmul_batch(e, &m, batch, &nbatch))
        return false;
    Val r = batched_dot(e, x, y, batch, nbatch, p.dtype);
    if (vector) { /* drop the row axis */
        TypeInfo t = *type_at(e, r);
        t.shape[t.rank - 2] = t.shape[t.rank - 1];
        r = build_reshape(&e->b, r, t.shape, t.rank - 1u);
    }
    *out = r;
    return true;
}
