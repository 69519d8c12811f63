/* dim_value.c: sizes with something put in for their symbols: other sizes, numbers, hints.
 * SPDX-License-Identifier: MIT */
#include "ir/dim_internal.h"

/* --- substitution ----------------------------------------------------------------------------- */

typedef struct {
    const DimSubst *map; /* NULL: the known equalities */
    uint32_t n;
    uint64_t symbols;
} Subst;

static Dim substitute(DimTable *t, Dim d, const Subst *s);

static Dim atom_value(DimTable *t, const Atom *a, const Subst *s)
{
    if (a->kind == ATOM_SYMBOL) {
        for (uint32_t i = 0; s->map && i < s->n; i++)
            if (s->map[i].from.id == a->symbol.id)
                return s->map[i].to;
        if (!s->map && t->symbols.at[a->symbol.id & ~HIDDEN].equals.id)
            return substitute(t, t->symbols.at[a->symbol.id & ~HIDDEN].equals, s);
        return dim_of_atom(t, *a);
    }
    const Dim x = substitute(t, a->a, s), y = substitute(t, a->b, s);
    if (dim_same(x, a->a) && dim_same(y, a->b))
        return dim_of_atom(t, *a);
    return a->kind == ATOM_FLOORDIV ? dim_floordiv(t, x, y)
           : a->kind == ATOM_MIN    ? dim_min(t, x, y)
                                    : dim_max(t, x, y);
}

static Dim substitute(DimTable *t, Dim d, const Subst *s)
{
    const Poly p = *poly(t, d);
    if (!(p.symbols & s->symbols))
        return d;
    Dim r = dim_const(t, 0);
    for (uint32_t i = 0; i < p.n; i++) {
        Dim x = dim_const(t, p.terms[i].coefficient);
        for (uint32_t k = 0; k < p.terms[i].n; k++) {
            const Factor f = p.terms[i].factors[k];
            const Dim v = atom_value(t, &f.atom, s);
            for (int e = 0; e < f.power; e++)
                x = dim_mul(t, x, v);
        }
        r = dim_add(t, r, x);
    }
    return r;
}

Dim dim_substitute(DimTable *t, Dim d, const DimSubst *map, uint32_t n)
{
    Subst s = {map, n, 0};
    for (uint32_t i = 0; i < n; i++)
        s.symbols |= 1ull << (map[i].from.id & 63);
    return n ? substitute(t, d, &s) : d;
}

Dim dim_normalize(DimTable *t, Dim d)
{
    const Subst s = {NULL, 0, t->replaced};
    return t->replaced ? substitute(t, d, &s) : d;
}

/* --- values ----------------------------------------------------------------------------------- */

static bool eval_atom(const DimTable *t, const Atom *a, const int64_t *values, int64_t *out)
{
    if (a->kind == ATOM_SYMBOL) {
        *out = values[a->symbol.id];
        return true;
    }
    int64_t x, y;
    if (!dim_eval(t, a->a, values, &x) || !dim_eval(t, a->b, values, &y))
        return false;
    if (a->kind == ATOM_FLOORDIV) {
        if (y == 0 || (x == INT64_MIN && y == -1))
            return false;
        *out = floor_div(x, y);
    } else {
        *out = (x < y) == (a->kind == ATOM_MIN) ? x : y;
    }
    return true;
}

bool dim_eval(const DimTable *t, Dim d, const int64_t *values, int64_t *out)
{
    const Poly *p = poly(t, d);
    *out = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        int64_t x = p->terms[i].coefficient;
        for (uint32_t k = 0; k < p->terms[i].n; k++) {
            int64_t v;
            if (!eval_atom(t, &p->terms[i].factors[k].atom, values, &v))
                return false;
            for (int e = 0; e < p->terms[i].factors[k].power; e++)
                if (__builtin_mul_overflow(x, v, &x))
                    return false;
        }
        if (__builtin_add_overflow(*out, x, out))
            return false;
    }
    return true;
}

double dim_hint(DimTable *t, Dim d)
{
    const Poly p = *poly(t, d);
    double r = 0;
    if (p.n == 1 && !p.terms[0].n)
        return (double)p.terms[0].coefficient;
    for (uint32_t i = 0; i < p.n; i++) {
        double x = (double)p.terms[i].coefficient;
        for (uint32_t k = 0; k < p.terms[i].n; k++) {
            const Atom *a = &p.terms[i].factors[k].atom;
            double v;
            if (a->kind == ATOM_SYMBOL) {
                const SymbolInfo *s = &t->symbols.at[a->symbol.id & ~HIDDEN];
                v = s->kind == SYM_AXIS && s->extent.id ? dim_hint(t, s->extent) / 2
                    : s->equals.id                      ? dim_hint(t, s->equals)
                                                        : (double)s->hint;
            } else {
                const double l = dim_hint(t, a->a), m = dim_hint(t, a->b);
                v = a->kind == ATOM_FLOORDIV           ? (m != 0 ? (double)(int64_t)(l / m) : 0)
                    : (l < m) == (a->kind == ATOM_MIN) ? l
                                                       : m;
            }
            for (int e = 0; e < p.terms[i].factors[k].power; e++)
                x *= v;
        }
        r += x;
    }
    return r;
}

enum { DOUBLED = 16 }; /* at most; nothing depends on larger hints */

/* Symbol s, or with s == 0 all that d mentions. */
static void scale_hints(DimTable *t, Dim d, uint32_t s, int by)
{
    for (uint32_t k = 1; k <= dim_nsymbols(t); k++) {
        SymbolInfo *info = dim_symbol(t, (Symbol){k});
        if ((!s || s == k) && info->kind == SYM_SIZE && dim_mentions(t, d, (Symbol){k}))
            info->hint = by > 0 ? info->hint << by : info->hint >> -by;
    }
}

void dim_hint_some(DimTable *t, Dim d)
{
    if (!d.id || dim_hint(t, d) >= 1)
        return;
    for (int by = 1; by <= DOUBLED; by++)
        for (uint32_t s = 0; s <= dim_nsymbols(t); s++) {
            const uint32_t one = s < dim_nsymbols(t) ? s + 1 : 0; /* one alone before all */
            if (one && !dim_mentions(t, d, (Symbol){one}))
                continue;
            scale_hints(t, d, one, by);
            if (dim_hint(t, d) >= 1)
                return;
            scale_hints(t, d, one, -by);
        }
}
