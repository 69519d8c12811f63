/* dim.c: sizes as polynomials in normal form: the table and arithmetic.
 *
 * A polynomial is a sorted list of terms, a term a coefficient and an interned monomial. Division
 * is normalised by long division (a = b*q + r, so a//b = q + r//b), by removing common factors, and
 * by merging nested divisions; what is left becomes an atom. So `b*(a//b)` stays a product with an
 * atom, and `a - b*(a//b)` cancels by plain arithmetic. SPDX-License-Identifier: MIT */
#include "ir/dim.h"

#include "ir/base/die.h"
#include "ir/dim_internal.h"

#include <string.h>

DimTable *dims_create(Arena *a, Interner *names)
{
    DimTable *t = arena_new(a, DimTable);
    t->arena = a;
    t->names = names;
    vec_push(a, &t->symbols, ((SymbolInfo){.div = 1}));
    vec_push(a, &t->polys, ((Poly){0}));
    vec_push(a, &t->monos, ((Mono){0}));
    return t;
}

Interner *dims_names(const DimTable *t)
{
    return t->names;
}

Symbol dim_new_symbol(DimTable *t, SymbolKind kind, Sym name, Dim extent)
{
    SymbolInfo s = {.name = name, .kind = kind, .div = 1, .hint = 64, .extent = extent};
    s.hi = INT32_MAX;
    if (kind == SYM_LOADED)
        s.lo = INT32_MIN;
    vec_push(t->arena, &t->symbols, s);
    return (Symbol){t->symbols.n - 1};
}

SymbolInfo *dim_symbol(DimTable *t, Symbol s)
{
    CHECK(s.id > 0 && s.id < t->symbols.n);
    return &t->symbols.at[s.id];
}

uint32_t dim_nsymbols(const DimTable *t)
{
    return t->symbols.n - 1;
}

bool dim_overflowed(DimTable *t)
{
    const bool o = t->overflow;
    t->overflow = false;
    return o;
}

/* --- order ------------------------------------------------------------------------------------ */

int atom_compare(const DimTable *t, const Atom *a, const Atom *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->symbol.id != b->symbol.id)
        return a->symbol.id < b->symbol.id ? -1 : 1;
    const int c = dim_compare(t, a->a, b->a);
    return c ? c : dim_compare(t, a->b, b->b);
}

/* Higher degree first, then the smaller atom, then its higher power: a monomial order. */
static int mono_compare(const DimTable *t, const Term *x, const Term *y)
{
    if (x->factors == y->factors)
        return 0;
    int dx = 0, dy = 0;
    for (uint32_t i = 0; i < x->n; i++)
        dx += x->factors[i].power;
    for (uint32_t i = 0; i < y->n; i++)
        dy += y->factors[i].power;
    if (dx != dy)
        return dx > dy ? -1 : 1;
    for (uint32_t i = 0; i < x->n && i < y->n; i++) {
        const int c = atom_compare(t, &x->factors[i].atom, &y->factors[i].atom);
        if (c)
            return c;
        if (x->factors[i].power != y->factors[i].power)
            return x->factors[i].power > y->factors[i].power ? -1 : 1;
    }
    return 0;
}

int dim_compare(const DimTable *t, Dim a, Dim b)
{
    if (a.id == b.id)
        return 0;
    const Poly *x = poly(t, a), *y = poly(t, b);
    for (uint32_t i = 0; i < x->n && i < y->n; i++) {
        const int c = mono_compare(t, &x->terms[i], &y->terms[i]);
        if (c)
            return c;
        if (x->terms[i].coefficient != y->terms[i].coefficient)
            return x->terms[i].coefficient > y->terms[i].coefficient ? -1 : 1;
    }
    return x->n == y->n ? 0 : x->n > y->n ? -1 : 1;
}

/* --- interning -------------------------------------------------------------------------------- */

static void grow(DimTable *t, uint32_t **table, uint32_t *size, uint32_t n,
                 uint64_t (*hash)(const DimTable *, uint32_t))
{
    if (*size && n * 2 < *size)
        return;
    const uint32_t bigger = *size ? *size * 2 : 256;
    *table = arena_array(t->arena, uint32_t, bigger);
    *size = bigger;
    for (uint32_t id = 1; id < n; id++) {
        uint32_t h = (uint32_t)hash(t, id) & (bigger - 1);
        while ((*table)[h])
            h = (h + 1) & (bigger - 1);
        (*table)[h] = id;
    }
}

static uint64_t hash_factors(const Factor *f, uint32_t n)
{
    uint64_t h = HASH_START;
    for (uint32_t i = 0; i < n; i++) {
        h = hash_word(h, (uint64_t)f[i].atom.kind << 32 | f[i].atom.symbol.id);
        h = hash_word(h, (uint64_t)f[i].atom.a.id << 32 | f[i].atom.b.id);
        h = hash_word(h, (uint64_t)f[i].power);
    }
    return h;
}

static uint64_t mono_hash(const DimTable *t, uint32_t id)
{
    return hash_factors(t->monos.at[id].factors, t->monos.at[id].n);
}

static bool same_factors(const Factor *x, const Factor *y, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (x[i].atom.kind != y[i].atom.kind || x[i].atom.symbol.id != y[i].atom.symbol.id ||
            x[i].atom.a.id != y[i].atom.a.id || x[i].atom.b.id != y[i].atom.b.id ||
            x[i].power != y[i].power)
            return false;
    return true;
}

/* The one copy of a monomial. Monomials live forever, so pointers to them may be compared. */
static const Factor *mono_intern(DimTable *t, const Factor *f, uint32_t n)
{
    if (!n)
        return NULL;
    grow(t, &t->mono_table, &t->mono_size, t->monos.n, mono_hash);
    uint32_t h = (uint32_t)hash_factors(f, n) & (t->mono_size - 1);
    for (; t->mono_table[h]; h = (h + 1) & (t->mono_size - 1)) {
        const Mono *m = &t->monos.at[t->mono_table[h]];
        if (m->n == n && (m->factors == f || same_factors(m->factors, f, n)))
            return m->factors;
    }
    Factor *copy = arena_array(t->arena, Factor, n);
    memcpy(copy, f, n * sizeof *f);
    t->mono_table[h] = t->monos.n;
    vec_push(t->arena, &t->monos, ((Mono){copy, n}));
    return copy;
}

static uint64_t hash_terms(const Term *terms, uint32_t n)
{
    uint64_t h = HASH_START;
    for (uint32_t i = 0; i < n; i++) {
        h = hash_word(h, (uint64_t)terms[i].coefficient);
        h = hash_word(h, (uintptr_t)terms[i].factors);
    }
    return h;
}

static uint64_t poly_hash(const DimTable *t, uint32_t id)
{
    return hash_terms(t->polys.at[id].terms, t->polys.at[id].n);
}

static void poly_summary(const DimTable *t, Poly *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t k = 0; k < p->terms[i].n; k++) {
            const Atom *a = &p->terms[i].factors[k].atom;
            if (a->kind == ATOM_SYMBOL) {
                const uint32_t id = a->symbol.id & ~HIDDEN;
                p->symbols |= 1ull << (id & 63);
                p->kinds |= 1u << t->symbols.at[id].kind;
            } else {
                p->symbols |= poly(t, a->a)->symbols | poly(t, a->b)->symbols;
                p->kinds |= poly(t, a->a)->kinds | poly(t, a->b)->kinds;
            }
        }
}

static Dim poly_intern(DimTable *t, const Term *terms, uint32_t n)
{
    grow(t, &t->poly_table, &t->poly_size, t->polys.n, poly_hash);
    uint32_t h = (uint32_t)hash_terms(terms, n) & (t->poly_size - 1);
    for (; t->poly_table[h]; h = (h + 1) & (t->poly_size - 1)) {
        const Poly *p = &t->polys.at[t->poly_table[h]];
        uint32_t i = 0;
        while (p->n == n && i < n && p->terms[i].coefficient == terms[i].coefficient &&
               p->terms[i].factors == terms[i].factors)
            i++;
        if (p->n == n && i == n)
            return (Dim){t->poly_table[h]};
    }
    Term *copy = arena_array(t->arena, Term, n);
    if (n)
        memcpy(copy, terms, n * sizeof *terms);
    Poly p = {.terms = copy, .n = n};
    poly_summary(t, &p);
    t->poly_table[h] = t->polys.n;
    vec_push(t->arena, &t->polys, p);
    return (Dim){t->polys.n - 1};
}

/* --- collecting terms ------------------------------------------------------------------------- */

void termbuf_init(TermBuf *b)
{
    b->at = b->local;
    b->n = 0;
    b->cap = (uint32_t)ARRAY_LEN(b->local);
}

static void termbuf_push(DimTable *t, TermBuf *b, Term term)
{
    if (b->n == b->cap) {
        Term *bigger = arena_array(t->arena, Term, b->cap * 2);
        memcpy(bigger, b->at, b->n * sizeof *bigger);
        b->at = bigger;
        b->cap *= 2;
    }
    b->at[b->n++] = term;
}

/* `factors` need not be interned, but must be sorted. */
void termbuf_add(DimTable *t, TermBuf *b, int64_t coefficient, const Factor *factors, uint32_t n)
{
    if (coefficient)
        termbuf_push(t, b, (Term){coefficient, mono_intern(t, factors, n), n});
}

static int64_t sum(DimTable *t, int64_t a, int64_t b)
{
    int64_t r = 0;
    if (__builtin_add_overflow(a, b, &r))
        t->overflow = true;
    return r;
}

static int64_t product(DimTable *t, int64_t a, int64_t b)
{
    int64_t r = 0;
    if (__builtin_mul_overflow(a, b, &r))
        t->overflow = true;
    return r;
}

/* Insertion sort: there are few terms, mostly in order already. */
Dim poly_make(DimTable *t, TermBuf *b)
{
    for (uint32_t i = 1; i < b->n; i++) {
        const Term x = b->at[i];
        uint32_t k = i;
        for (; k > 0 && mono_compare(t, &x, &b->at[k - 1]) < 0; k--)
            b->at[k] = b->at[k - 1];
        b->at[k] = x;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        if (n && b->at[n - 1].factors == b->at[i].factors)
            b->at[n - 1].coefficient = sum(t, b->at[n - 1].coefficient, b->at[i].coefficient);
        else
            b->at[n++] = b->at[i];
        if (!b->at[n - 1].coefficient)
            n--;
    }
    return poly_intern(t, b->at, n);
}

Dim dim_add_scaled(DimTable *t, Dim a, Dim b, int64_t k)
{
    const Poly x = *poly(t, a), y = *poly(t, b);
    if (y.n == 0 && a.id)
        return a;
    if (x.n == 0 && k == 1 && b.id)
        return b;
    if (x.n <= 1 && y.n == 1 && !y.terms[0].n && (!x.n || !x.terms[0].n))
        return dim_const(t, sum(t, x.n ? x.terms[0].coefficient : 0,
                                product(t, y.terms[0].coefficient, k)));
    TermBuf buf;
    termbuf_init(&buf);
    for (uint32_t i = 0, j = 0; i < x.n || j < y.n;) {
        const int c = i == x.n ? 1 : j == y.n ? -1 : mono_compare(t, &x.terms[i], &y.terms[j]);
        if (c <= 0)
            termbuf_push(t, &buf, x.terms[i++]);
        if (c >= 0) {
            Term y2 = y.terms[j++];
            y2.coefficient = product(t, y2.coefficient, k);
            if (y2.coefficient)
                termbuf_push(t, &buf, y2);
        }
    }
    return poly_make(t, &buf);
}

/* --- making ----------------------------------------------------------------------------------- */

Dim dim_const(DimTable *t, int64_t c)
{
    const Term term = {c, NULL, 0};
    const uint64_t place = (uint64_t)c + 64;
    if (place >= ARRAY_LEN(t->numbers))
        return poly_intern(t, &term, c != 0);
    if (!t->numbers[place].id)
        t->numbers[place] = poly_intern(t, &term, c != 0);
    return t->numbers[place];
}

Dim dim_of_atom(DimTable *t, Atom atom)
{
    const Factor f = {atom, 1};
    const Term term = {1, mono_intern(t, &f, 1), 1};
    return poly_intern(t, &term, 1);
}

Dim dim_of_term(DimTable *t, Term term)
{
    return poly_intern(t, &term, term.coefficient != 0);
}

Dim dim_of(DimTable *t, Symbol s)
{
    CHECK(s.id > 0 && (s.id & ~HIDDEN) < t->symbols.n);
    return dim_of_atom(t, (Atom){.kind = ATOM_SYMBOL, .symbol = s});
}

Dim dim_add(DimTable *t, Dim a, Dim b)
{
    return dim_add_scaled(t, a, b, 1);
}

Dim dim_sub(DimTable *t, Dim a, Dim b)
{
    return dim_add_scaled(t, a, b, -1);
}

static uint32_t mono_product(const DimTable *t, const Term *x, const Term *y, Factor *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0, j = 0; i < x->n || j < y->n;) {
        const int c = i == x->n   ? 1
                      : j == y->n ? -1
                                  : atom_compare(t, &x->factors[i].atom, &y->factors[j].atom);
        out[n] = c <= 0 ? x->factors[i++] : y->factors[j];
        if (c == 0)
            out[n].power += y->factors[j].power;
        j += c >= 0;
        n++;
    }
    return n;
}

Dim dim_mul(DimTable *t, Dim a, Dim b)
{
    int64_t k;
    if (dim_is_const(t, a, &k))
        return k == 1 ? b : dim_add_scaled(t, dim_const(t, 0), b, k);
    if (dim_is_const(t, b, &k))
        return k == 1 ? a : dim_add_scaled(t, dim_const(t, 0), a, k);
    TermBuf buf;
    termbuf_init(&buf);
    const Poly x = *poly(t, a), y = *poly(t, b);
    for (uint32_t i = 0; i < x.n; i++)
        for (uint32_t j = 0; j < y.n; j++) {
            Factor local[16], *f = local;
            if (x.terms[i].n + y.terms[j].n > ARRAY_LEN(local))
                f = arena_array(t->arena, Factor, x.terms[i].n + y.terms[j].n);
            const uint32_t n = mono_product(t, &x.terms[i], &y.terms[j], f);
            termbuf_add(t, &buf, product(t, x.terms[i].coefficient, y.terms[j].coefficient), f, n);
        }
    return poly_make(t, &buf);
}

Dim dim_product(DimTable *t, const Dim *d, uint32_t n)
{
    Dim p = dim_const(t, 1);
    for (uint32_t i = 0; i < n; i++)
        p = dim_mul(t, p, d[i]);
    return p;
}

/* --- division --------------------------------------------------------------------------------- */

/* x / y as monomials; false if y does not divide x. `out` holds x->n factors. */
static bool mono_quotient(const DimTable *t, const Term *x, const Term *y, Factor *out, uint32_t *n)
{
    uint32_t j = 0;
    *n = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        Factor f = x->factors[i];
        if (j < y->n && atom_compare(t, &f.atom, &y->factors[j].atom) == 0)
            f.power -= y->factors[j++].power;
        if (f.power < 0)
            return false;
        if (f.power > 0)
            out[(*n)++] = f;
    }
    return j == y->n;
}

static int64_t gcd(int64_t a, int64_t b)
{
    uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
    while (y) {
        const uint64_t r = x % y;
        x = y;
        y = r;
    }
    return x > INT64_MAX ? 1 : (int64_t)x;
}

/* One term of the quotient of `x` by the leading term of a divisor, or false. With a divisor of one
 * term the integer part of the coefficients' quotient is taken, else the division must be exact. */
static bool quotient_term(DimTable *t, const Term *x, const Term *lead, bool single, Dim *q)
{
    Factor local[16], *f = x->n > ARRAY_LEN(local) ? arena_array(t->arena, Factor, x->n) : local;
    uint32_t n;
    const int64_t k = x->coefficient, c = lead->coefficient;
    if ((!single && k % c) || !mono_quotient(t, x, lead, f, &n))
        return false;
    const int64_t r = n == 0 ? floor_div(k, c) : k / c;
    if (!r)
        return false;
    TermBuf buf;
    termbuf_init(&buf);
    termbuf_add(t, &buf, r, f, n);
    *q = poly_make(t, &buf);
    return true;
}

/* a = b*q + r by long division. */
void dim_divide(DimTable *t, Dim a, Dim b, Dim *q, Dim *r)
{
    *q = dim_const(t, 0);
    *r = a;
    const Poly y = *poly(t, b);
    for (int round = 0; round < 64; round++) {
        const Poly x = *poly(t, *r);
        Dim part = {0};
        uint32_t i = 0;
        while (i < x.n && !quotient_term(t, &x.terms[i], &y.terms[0], y.n == 1, &part))
            i++;
        if (i == x.n)
            return;
        *q = dim_add(t, *q, part);
        *r = dim_sub(t, *r, dim_mul(t, part, b));
    }
}

Dim dim_exact_div(DimTable *t, Dim d, Dim by)
{
    if (dim_is_zero(t, by))
        return (Dim){0};
    Dim q, r;
    dim_divide(t, d, by, &q, &r);
    return dim_is_zero(t, r) ? q : (Dim){0};
}

/* The greatest monomial and coefficient that divide every term of d (and `g`, unless NULL). */
static Term content(DimTable *t, Dim d, const Term *g)
{
    const Poly p = *poly(t, d);
    Term r = g ? *g : p.terms[0];
    Factor *f = arena_array(t->arena, Factor, r.n);
    uint32_t n = r.n;
    if (n)
        memcpy(f, r.factors, n * sizeof *f);
    for (uint32_t i = 0; i < p.n; i++) {
        r.coefficient = gcd(r.coefficient, p.terms[i].coefficient);
        uint32_t m = 0;
        for (uint32_t k = 0; k < n; k++)
            for (uint32_t j = 0; j < p.terms[i].n; j++)
                if (!atom_compare(t, &f[k].atom, &p.terms[i].factors[j].atom)) {
                    f[m] = f[k];
                    if (p.terms[i].factors[j].power < f[m].power)
                        f[m].power = p.terms[i].factors[j].power;
                    m++;
                    break;
                }
        n = m;
    }
    r.factors = mono_intern(t, f, n);
    r.n = n;
    return r;
}

/* Common factors of r and b leave r//b; with a constant b, also those of r's other terms. */
static void cancel(DimTable *t, Dim *r, Dim *b)
{
    int64_t c, k = 0;
    Dim rest = *r;
    const Poly p = *poly(t, *r);
    if (dim_is_const(t, *b, &c) && p.n > 1 && p.terms[p.n - 1].n == 0) {
        k = p.terms[p.n - 1].coefficient; /* floor((g*x + k) / (g*d)) is floor((x + k//g) / d) */
        rest = dim_sub(t, *r, dim_const(t, k));
    }
    const Term of_b = content(t, *b, NULL), common = content(t, rest, &of_b);
    if (common.coefficient == 1 && common.n == 0)
        return;
    const Dim g = dim_of_term(t, common);
    *b = dim_exact_div(t, *b, g);
    rest = dim_exact_div(t, rest, g);
    CHECK(b->id && rest.id);
    *r = k ? dim_add(t, rest, dim_const(t, floor_div(k, common.coefficient))) : rest;
}

/* A term 1 * (a//m) of r: (a//m + x)//b is (a + m*x)//(m*b). */
static const Atom *nested(const DimTable *t, Dim r)
{
    const Poly *p = poly(t, r);
    for (uint32_t i = 0; i < p->n; i++) {
        const Term *x = &p->terms[i];
        if (x->coefficient == 1 && x->n == 1 && x->factors[0].power == 1 &&
            x->factors[0].atom.kind == ATOM_FLOORDIV)
            return &x->factors[0].atom;
    }
    return NULL;
}

Dim dim_floordiv(DimTable *t, Dim a, Dim b)
{
    int64_t c;
    const bool constant = dim_is_const(t, b, &c);
    if (constant && (c == 0 || c == INT64_MIN)) {
        t->overflow = true;
        return dim_const(t, 0);
    }
    if (constant && c < 0)
        return dim_floordiv(t, dim_add_scaled(t, dim_const(t, 0), a, -1), dim_const(t, -c));
    Dim q, r;
    dim_divide(t, a, b, &q, &r);
    if (dim_is_zero(t, r))
        return q;
    const Dim b0 = b;
    cancel(t, &r, &b);
    const Atom *in = dim_is_const(t, b, &c) ? nested(t, r) : NULL;
    if (in) {
        const Atom inner = *in;
        const Dim others = dim_sub(t, r, dim_of_atom(t, inner));
        r = dim_add(t, inner.a, dim_mul(t, inner.b, others));
        return dim_add(t, q, dim_floordiv(t, r, dim_mul(t, inner.b, b)));
    }
    if (!dim_same(b, b0))
        return dim_add(t, q, dim_floordiv(t, r, b));
    if (dim_is_const(t, b, &c)) {
        int64_t lo, hi;
        dim_interval(t, r, &lo, &hi);
        if (lo != INT64_MIN && hi != INT64_MAX && floor_div(lo, c) == floor_div(hi, c))
            return dim_add(t, q, dim_const(t, floor_div(lo, c)));
    }
    if (dim_proves_nonneg(t, r) &&
        dim_proves_nonneg(t, dim_sub(t, dim_sub(t, b, r), dim_const(t, 1))))
        return q;
    return dim_add(t, q, dim_of_atom(t, (Atom){.kind = ATOM_FLOORDIV, .a = r, .b = b}));
}

Dim dim_mod(DimTable *t, Dim a, Dim b)
{
    return dim_sub(t, a, dim_mul(t, b, dim_floordiv(t, a, b)));
}

Dim dim_ceildiv(DimTable *t, Dim a, Dim b)
{
    return dim_floordiv(t, dim_sub(t, dim_add(t, a, b), dim_const(t, 1)), b);
}

static Dim extreme(DimTable *t, AtomKind kind, Dim a, Dim b)
{
    if (dim_same(a, b))
        return a;
    const Dim d = dim_sub(t, a, b);
    int64_t c;
    if (dim_is_const(t, d, &c))
        return (c < 0) == (kind == ATOM_MIN) ? a : b;
    if (dim_proves_nonneg(t, d))
        return kind == ATOM_MIN ? b : a;
    if (dim_proves_nonneg(t, dim_sub(t, b, a)))
        return kind == ATOM_MIN ? a : b;
    if (dim_compare(t, a, b) > 0) {
        const Dim x = a;
        a = b;
        b = x;
    }
    return dim_of_atom(t, (Atom){.kind = kind, .a = a, .b = b});
}

Dim dim_min(DimTable *t, Dim a, Dim b)
{
    return extreme(t, ATOM_MIN, a, b);
}

Dim dim_max(DimTable *t, Dim a, Dim b)
{
    return extreme(t, ATOM_MAX, a, b);
}

/* --- asking about the form -------------------------------------------------------------------- */

bool dim_is_const(const DimTable *t, Dim d, int64_t *value)
{
    const Poly *p = poly(t, d);
    if (p->n > 1 || (p->n == 1 && p->terms[0].n))
        return false;
    if (value)
        *value = p->n ? p->terms[0].coefficient : 0;
    return d.id != 0;
}

bool dim_is_one(const DimTable *t, Dim d)
{
    int64_t c;
    return dim_is_const(t, d, &c) && c == 1;
}

bool dim_is_zero(const DimTable *t, Dim d)
{
    return d.id && poly(t, d)->n == 0;
}

bool dim_is_symbol(const DimTable *t, Dim d, Symbol *s)
{
    const Poly *p = poly(t, d);
    if (p->n != 1 || p->terms[0].coefficient != 1 || p->terms[0].n != 1 ||
        p->terms[0].factors[0].power != 1 || p->terms[0].factors[0].atom.kind != ATOM_SYMBOL)
        return false;
    if (s)
        *s = p->terms[0].factors[0].atom.symbol;
    return true;
}

bool dim_mentions(const DimTable *t, Dim d, Symbol s)
{
    const Poly *p = poly(t, d);
    if (!(p->symbols & 1ull << (s.id & 63)))
        return false;
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t k = 0; k < p->terms[i].n; k++) {
            const Atom *a = &p->terms[i].factors[k].atom;
            if (a->kind == ATOM_SYMBOL ? a->symbol.id == s.id
                                       : dim_mentions(t, a->a, s) || dim_mentions(t, a->b, s))
                return true;
        }
    return false;
}

uint64_t dim_symbol_bits(const DimTable *t, Dim d)
{
    return poly(t, d)->symbols;
}

bool dim_mentions_kind(const DimTable *t, Dim d, SymbolKind kind)
{
    return poly(t, d)->kinds >> kind & 1;
}

uint32_t dim_zeros(const DimTable *t, const Dim **at)
{
    *at = t->zeros.at;
    return t->zeros.n;
}

uint32_t dim_terms(const DimTable *t, Dim d, const Term **terms)
{
    *terms = poly(t, d)->terms;
    return poly(t, d)->n;
}
