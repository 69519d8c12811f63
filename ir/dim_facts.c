/* dim_facts.c: what is known about sizes: intervals, divisors, equalities, and the questions that
 * they answer. Intervals and rewriting of single atoms only: no solver.
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/dim_internal.h"

__extension__ typedef __int128 Wide;

/* INT64_MIN and INT64_MAX stand for "no bound". */
static int64_t clamp128(Wide x)
{
    return x <= INT64_MIN ? INT64_MIN : x >= INT64_MAX ? INT64_MAX : (int64_t)x;
}

static bool unbounded(int64_t x)
{
    return x == INT64_MIN || x == INT64_MAX;
}

static int64_t bound_mul(int64_t a, int64_t b)
{
    if (a == 0 || b == 0)
        return 0;
    if (unbounded(a) || unbounded(b))
        return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
    return clamp128((Wide)a * b);
}

/* The sum of two lower or two upper bounds; `none` is what "no bound" is on that side. */
static int64_t bound_add(int64_t a, int64_t b, int64_t none)
{
    return a == none || b == none ? none : clamp128((Wide)a + b);
}

static void interval_mul(int64_t *lo, int64_t *hi, int64_t lo2, int64_t hi2)
{
    const int64_t p[4] = {bound_mul(*lo, lo2), bound_mul(*lo, hi2), bound_mul(*hi, lo2),
                          bound_mul(*hi, hi2)};
    *lo = *hi = p[0];
    for (int i = 1; i < 4; i++) {
        *lo = p[i] < *lo ? p[i] : *lo;
        *hi = p[i] > *hi ? p[i] : *hi;
    }
}

/* floor(a / b) of bounds, b >= 1. An unbounded divisor leaves 0 or -1. */
static int64_t bound_div(int64_t a, int64_t b)
{
    if (b == INT64_MAX)
        return unbounded(a) ? a : a < 0 ? -1 : 0;
    if (unbounded(a))
        return a;
    const int64_t q = a / b;
    return a % b < 0 ? q - 1 : q;
}

/* The stand-in of symbol s: s = base + div * k. */
static int64_t hidden_base(const SymbolInfo *s)
{
    if (s->lo == INT64_MIN || s->div <= 1)
        return s->lo;
    int64_t r = (s->rem - s->lo) % s->div;
    if (r < 0)
        r += s->div;
    return s->lo + r;
}

void symbol_interval(DimTable *t, Symbol s, int64_t *lo, int64_t *hi)
{
    const SymbolInfo *info = &t->symbols.at[s.id & ~HIDDEN];
    *lo = info->lo;
    *hi = info->hi;
    if (counts(info) && info->extent.id) {
        int64_t a, b;
        dim_interval(t, info->extent, &a, &b);
        *lo = 0;
        *hi = b == INT64_MAX ? b : b > 0 ? b - 1 : 0;
    }
    if (s.id & HIDDEN) {
        const int64_t base = hidden_base(info);
        *lo = 0;
        *hi = *hi == INT64_MAX ? *hi : (*hi - base) / (info->div > 1 ? info->div : 1);
    }
}

static void atom_interval(DimTable *t, const Atom *a, int64_t *lo, int64_t *hi)
{
    if (a->kind == ATOM_SYMBOL) {
        symbol_interval(t, a->symbol, lo, hi);
        return;
    }
    int64_t lo1, hi1, lo2, hi2;
    dim_interval(t, a->a, &lo1, &hi1);
    dim_interval(t, a->b, &lo2, &hi2);
    if (a->kind == ATOM_MIN) {
        *lo = lo1 < lo2 ? lo1 : lo2;
        *hi = hi1 < hi2 ? hi1 : hi2;
    } else if (a->kind == ATOM_MAX) {
        *lo = lo1 > lo2 ? lo1 : lo2;
        *hi = hi1 > hi2 ? hi1 : hi2;
    } else if (hi2 <= 0) {
        *lo = INT64_MIN;
        *hi = INT64_MAX;
    } else {
        if (lo2 < 1)
            lo2 = 1; /* a divisor of 0 has no value */
        *lo = lo1 < 0 ? bound_div(lo1, lo2) : bound_div(lo1, hi2);
        *hi = hi1 < 0 ? bound_div(hi1, hi2) : bound_div(hi1, lo2);
    }
}

void dim_interval(DimTable *t, Dim d, int64_t *lo, int64_t *hi)
{
    const Poly p = *poly(t, d);
    *lo = *hi = 0;
    for (uint32_t i = 0; i < p.n; i++) {
        int64_t a = p.terms[i].coefficient, b = a;
        for (uint32_t k = 0; k < p.terms[i].n; k++) {
            int64_t x, y;
            atom_interval(t, &p.terms[i].factors[k].atom, &x, &y);
            int power = p.terms[i].factors[k].power;
            if (power % 2 == 0 && x < 0) { /* an even power is not negative */
                int64_t m = x, n = y;
                interval_mul(&m, &n, x, y);
                m = m < 0 ? 0 : m;
                if (y >= 0)
                    m = 0;
                for (; power > 0; power -= 2)
                    interval_mul(&a, &b, m, n);
            }
            for (; power > 0; power--)
                interval_mul(&a, &b, x, y);
        }
        *lo = bound_add(*lo, a, INT64_MIN);
        *hi = bound_add(*hi, b, INT64_MAX);
    }
}

/* --- proofs ----------------------------------------------------------------------------------- */

/* d with the atom of a term replaced by a size. */
static Dim replace_atom(DimTable *t, Dim d, const Atom *atom, Dim to)
{
    const Poly p = *poly(t, d);
    Dim r = d;
    for (uint32_t i = 0; i < p.n; i++)
        for (uint32_t k = 0; k < p.terms[i].n; k++) {
            const Factor *f = &p.terms[i].factors[k];
            if (atom_compare(t, &f->atom, atom))
                continue;
            const Dim term = dim_of_term(t, p.terms[i]);
            Dim x = term;
            for (int e = 0; e < f->power; e++)
                x = dim_mul(t, dim_exact_div(t, x, dim_of_atom(t, *atom)), to);
            r = dim_add(t, dim_sub(t, r, term), x);
            break;
        }
    return r;
}

typedef struct {
    DimSubst map[16];
    uint32_t n;
} Hidden;

/* Adds the stand-ins of the symbols of d that have a fact beyond "s >= 0". */
static void hide(DimTable *t, Dim d, Hidden *h)
{
    const Poly p = *poly(t, d);
    for (uint32_t i = 0; i < p.n; i++)
        for (uint32_t k = 0; k < p.terms[i].n; k++) {
            const Atom *a = &p.terms[i].factors[k].atom;
            if (a->kind != ATOM_SYMBOL) {
                hide(t, a->a, h);
                hide(t, a->b, h);
                continue;
            }
            const SymbolInfo *s = &t->symbols.at[a->symbol.id & ~HIDDEN];
            if (a->symbol.id & HIDDEN || counts(s) || s->lo == INT64_MIN)
                continue;
            const int64_t base = hidden_base(s), div = s->div > 1 ? s->div : 1;
            bool done = (base == 0 && div == 1) || base > s->hi || h->n == ARRAY_LEN(h->map);
            for (uint32_t m = 0; m < h->n; m++)
                done |= h->map[m].from.id == a->symbol.id;
            if (done)
                continue;
            const Dim x = dim_mul(t, dim_of(t, (Symbol){a->symbol.id | HIDDEN}), dim_const(t, div));
            h->map[h->n++] = (DimSubst){a->symbol, dim_add(t, x, dim_const(t, base))};
        }
}

/* d in terms of stand-ins, all of which are >= 0. */
static Dim expand(DimTable *t, Dim d)
{
    Hidden h = {.n = 0};
    hide(t, d, &h);
    return dim_substitute(t, d, h.map, h.n);
}

/* The axis of the highest number that stands in a term with power 1. */
static bool linear_axis(const DimTable *t, Dim d, Symbol *s)
{
    s->id = 0;
    const Poly *p = poly(t, d);
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t k = 0; k < p->terms[i].n; k++) {
            const Factor *f = &p->terms[i].factors[k];
            if (f->atom.kind == ATOM_SYMBOL && f->power == 1 && !(f->atom.symbol.id & HIDDEN) &&
                counts(&t->symbols.at[f->atom.symbol.id]) && f->atom.symbol.id > s->id)
                *s = f->atom.symbol;
        }
    return s->id != 0;
}

static bool nonneg(DimTable *t, Dim d);

/* d is monotone in an axis, so its least value is at one of the ends. */
static bool nonneg_at_ends(DimTable *t, Dim d, Symbol axis)
{
    const Dim zero = dim_const(t, 0), at0 = dim_substitute(t, d, &(DimSubst){axis, zero}, 1);
    const Dim slope = dim_exact_div(t, dim_sub(t, d, at0), dim_of(t, axis));
    const Dim extent = t->symbols.at[axis.id].extent;
    if (!slope.id || dim_mentions(t, slope, axis) || !extent.id)
        return false;
    if (nonneg(t, slope))
        return nonneg(t, at0);
    const Dim last = dim_sub(t, extent, dim_const(t, 1));
    return nonneg(t, dim_add_scaled(t, zero, slope, -1)) &&
           nonneg(t, dim_add(t, at0, dim_mul(t, slope, last)));
}

/* An atom that is no symbol, alone in its term (k * atom), is replaced by a bound. */
static bool nonneg_by_bound(DimTable *t, Dim d, int64_t k, Atom a)
{
    if (a.kind != ATOM_FLOORDIV) {
        const bool x = nonneg(t, replace_atom(t, d, &a, a.a));
        /* The value is one of both, so both must hold; one is enough where the atom occurs once
         * and the sign says that the other can only be better. */
        const Dim other = dim_add_scaled(t, d, dim_of_atom(t, a), -k);
        if ((k > 0) == (a.kind == ATOM_MIN) || !dim_same(other, replace_atom(t, other, &a, a.a)))
            return x && nonneg(t, replace_atom(t, d, &a, a.b));
        return x || nonneg(t, replace_atom(t, d, &a, a.b));
    }
    int64_t c; /* a - c + 1 <= c * (a//c) <= a */
    if (!dim_is_const(t, a.b, &c) || c < 2 || c > 1 << 20 || k > 1 << 20 || k < -(1 << 20))
        return false;
    const Dim scaled = dim_add_scaled(t, dim_const(t, 0), d, c);
    const Dim rest = dim_add_scaled(t, scaled, dim_of_atom(t, a), -k * c);
    const Dim bound = k < 0 ? a.a : dim_sub(t, a.a, dim_const(t, c - 1));
    return nonneg(t, dim_add_scaled(t, rest, bound, k));
}

static bool nonneg_steps(DimTable *t, Dim d)
{
    Symbol axis;
    if (linear_axis(t, d, &axis) && nonneg_at_ends(t, d, axis))
        return true;
    const Dim e = expand(t, d);
    int64_t lo, hi;
    dim_interval(t, e, &lo, &hi);
    if (lo >= 0)
        return true;
    const Poly p = *poly(t, d);
    for (uint32_t i = 0; i < p.n; i++)
        if (p.terms[i].n == 1 && p.terms[i].factors[0].power == 1 &&
            p.terms[i].factors[0].atom.kind != ATOM_SYMBOL &&
            nonneg_by_bound(t, d, p.terms[i].coefficient, p.terms[i].factors[0].atom))
            return true;
    return false;
}

static bool nonneg(DimTable *t, Dim d)
{
    int64_t lo, hi;
    dim_interval(t, d, &lo, &hi);
    if (lo >= 0 || hi < 0 || t->depth >= 5)
        return lo >= 0;
    t->depth++;
    const bool overflow = t->overflow, r = nonneg_steps(t, d), sound = t->overflow == overflow;
    t->overflow = overflow; /* a proof that overflows is none, and no mistake of the user */
    t->depth--;
    return r && sound;
}

bool dim_proves_nonneg(DimTable *t, Dim d)
{
    return nonneg(t, d);
}

/* d without multiples of what is known to be 0; both in terms of stand-ins. */
static Dim without_zeros(DimTable *t, Dim d)
{
    for (uint32_t i = 0; i < t->zeros.n && !dim_is_zero(t, d); i++)
        if (poly(t, d)->symbols & poly(t, t->zeros.at[i])->symbols) {
            const Dim zero = expand(t, dim_normalize(t, t->zeros.at[i]));
            Dim q;
            if (!dim_is_zero(t, zero))
                dim_divide(t, d, zero, &q, &d);
        }
    return d;
}

/* --- questions -------------------------------------------------------------------------------- */

Answer dim_le(DimTable *t, Dim a, Dim b)
{
    Dim d = dim_normalize(t, dim_sub(t, b, a));
    if (nonneg(t, d))
        return YES;
    if (t->zeros.n)
        d = without_zeros(t, expand(t, d));
    if (t->zeros.n && nonneg(t, d))
        return YES;
    const Dim over = dim_sub(t, dim_sub(t, dim_const(t, 0), d), dim_const(t, 1));
    return nonneg(t, over) ? NO : UNKNOWN;
}

static bool all_divisible(const DimTable *t, Dim d, int64_t by, int64_t *rest)
{
    const Poly *p = poly(t, d);
    *rest = 0;
    for (uint32_t i = 0; i < p->n; i++)
        if (p->terms[i].n == 0)
            *rest = p->terms[i].coefficient % by;
        else if (p->terms[i].coefficient % by)
            return false;
    return true;
}

Answer dim_divisible(DimTable *t, Dim a, int64_t by)
{
    CHECK(by > 0);
    const Dim d = expand(t, dim_normalize(t, a));
    int64_t rest;
    if (!all_divisible(t, d, by, &rest) && !all_divisible(t, without_zeros(t, d), by, &rest))
        return UNKNOWN;
    return rest == 0 ? YES : NO;
}

Answer dim_equal(DimTable *t, Dim a, Dim b)
{
    if (dim_same(a, b))
        return YES;
    Dim d = dim_normalize(t, dim_sub(t, a, b));
    int64_t lo, hi;
    dim_interval(t, d, &lo, &hi);
    if (lo == 0 && hi == 0)
        return YES;
    if (lo > 0 || hi < 0)
        return NO;
    d = without_zeros(t, expand(t, d));
    const Poly p = *poly(t, d);
    if (p.n == 0)
        return YES;
    int64_t rest, g = 0;
    for (uint32_t i = 0; i < p.n; i++)
        if (p.terms[i].n) {
            int64_t x = p.terms[i].coefficient;
            x = x == INT64_MIN ? 1 : x < 0 ? -x : x;
            while (x) { /* g = gcd(g, coefficients) */
                const int64_t r = g % x;
                g = x;
                x = r;
            }
        }
    if (g > 1 && all_divisible(t, d, g, &rest) && rest)
        return NO;
    const Dim one = dim_const(t, 1), minus = dim_sub(t, dim_const(t, 0), d);
    return nonneg(t, dim_sub(t, d, one)) || nonneg(t, dim_sub(t, minus, one)) ? NO : UNKNOWN;
}

bool dim_equal_by_zeros(DimTable *t, Dim a, Dim b)
{
    const uint32_t n = t->zeros.n;
    if (!n || dim_equal(t, a, b) != YES)
        return false;
    t->zeros.n = 0;
    const bool always = dim_equal(t, a, b) == YES;
    t->zeros.n = n;
    return !always;
}

/* --- equalities ------------------------------------------------------------------------------- */

/* Whether d is a symbol and a constant. */
static bool symbol_plus(DimTable *t, Dim d, Symbol *s, int64_t *k)
{
    const Poly p = *poly(t, d);
    *k = 0;
    for (uint32_t i = 0; i < p.n; i++)
        if (p.terms[i].n == 0)
            *k = p.terms[i].coefficient;
    return dim_is_symbol(t, dim_sub(t, d, dim_const(t, *k)), s);
}

/* (s + k) - c*((s + k)//c) == r says that s % c == (r - k) % c. */
static bool assume_remainder(DimTable *t, Dim d)
{
    const Poly p = *poly(t, d);
    for (uint32_t i = 0; i < p.n; i++) {
        const Term x = p.terms[i];
        int64_t c, k, r;
        Symbol s;
        if (x.n != 1 || x.factors[0].power != 1 || x.factors[0].atom.kind != ATOM_FLOORDIV ||
            !dim_is_const(t, x.factors[0].atom.b, &c) ||
            !symbol_plus(t, x.factors[0].atom.a, &s, &k) || (s.id & HIDDEN))
            continue;
        const Dim mod =
            dim_sub(t, x.factors[0].atom.a,
                    dim_mul(t, dim_const(t, c), dim_of_term(t, (Term){1, x.factors, x.n})));
        const Dim left = x.coefficient == -c ? dim_sub(t, d, mod) : dim_add(t, d, mod);
        if ((x.coefficient != c && x.coefficient != -c) || !dim_is_const(t, left, &r))
            continue;
        if (x.coefficient == -c)
            r = -r;
        SymbolInfo *info = &t->symbols.at[s.id];
        if (r < 0 || r >= c || (info->div > 1 && info->div % c && c % info->div))
            return false;
        r = ((r - k) % c + c) % c;
        if (c % info->div == 0 && r % info->div == info->rem) {
            info->div = c;
            info->rem = r;
            return true;
        }
        return info->div % c == 0 && info->rem % c == r;
    }
    return false;
}

/* The symbol to replace in d == 0: of `prefer` if there is one. *sign is its coefficient. */
static Symbol replaceable(const DimTable *t, Dim d, Dim prefer, int64_t *sign)
{
    Symbol found = {0};
    const Poly *p = poly(t, d);
    for (uint32_t i = 0; i < p->n; i++) {
        const Term *x = &p->terms[i];
        if (x->n != 1 || x->factors[0].power != 1 || x->factors[0].atom.kind != ATOM_SYMBOL ||
            (x->coefficient != 1 && x->coefficient != -1))
            continue;
        const Symbol s = x->factors[0].atom.symbol;
        const Dim rest =
            dim_add_scaled((DimTable *)t, d, dim_of((DimTable *)t, s), -x->coefficient);
        if (t->symbols.at[s.id].kind != SYM_SIZE || dim_mentions(t, rest, s))
            continue;
        const bool better = prefer.id && dim_mentions(t, prefer, s);
        if (!found.id || better) {
            found = s;
            *sign = x->coefficient;
        }
        if (better)
            break;
    }
    return found;
}

/* What was known of s must now be known of the symbol that replaces it. */
static bool move_facts(DimTable *t, Symbol s, Dim to)
{
    const SymbolInfo from = t->symbols.at[s.id];
    int64_t lo, hi;
    dim_interval(t, to, &lo, &hi);
    if (hi < from.lo || lo > from.hi)
        return false;
    Symbol other;
    if (!dim_is_symbol(t, to, &other))
        return true;
    SymbolInfo *info = &t->symbols.at[other.id];
    info->lo = from.lo > info->lo ? from.lo : info->lo;
    info->hi = from.hi < info->hi ? from.hi : info->hi;
    if (from.div > 1 && from.div % info->div == 0) {
        if (from.rem % info->div != info->rem)
            return false;
        info->div = from.div;
        info->rem = from.rem;
    }
    return true;
}

bool dim_assume_equal(DimTable *t, Dim a, Dim b)
{
    const Dim d = dim_normalize(t, dim_sub(t, a, b));
    if (dim_is_zero(t, d) || assume_remainder(t, d))
        return true;
    const Answer known = dim_equal(t, a, b);
    if (known != UNKNOWN)
        return known == YES;
    int64_t sign = 1;
    const Symbol s = replaceable(t, d,
                                 dim_is_symbol(t, a, NULL)   ? a
                                 : dim_is_symbol(t, b, NULL) ? b
                                                             : (Dim){0},
                                 &sign);
    if (!s.id) {
        vec_push(t->arena, &t->zeros, d);
        return true;
    }
    const Dim rest = dim_add_scaled(t, d, dim_of(t, s), -sign);
    const Dim to = sign > 0 ? dim_add_scaled(t, dim_const(t, 0), rest, -1) : rest;
    if (!move_facts(t, s, to))
        return false;
    t->symbols.at[s.id].equals = to;
    t->replaced |= 1ull << (s.id & 63);
    return true;
}

bool dim_solve(DimTable *t, Dim d, Dim value, Symbol s, Dim *num, int64_t *den)
{
    const Dim zero = dim_const(t, 0);
    if (!dim_mentions(t, d, s))
        return false;
    const Poly p = *poly(t, d);
    int64_t k = 0;
    for (uint32_t i = 0; i < p.n; i++)
        if (p.terms[i].n == 1 && p.terms[i].factors[0].power == 1 &&
            p.terms[i].factors[0].atom.kind == ATOM_SYMBOL &&
            p.terms[i].factors[0].atom.symbol.id == s.id)
            k = p.terms[i].coefficient;
    if (!k || k == INT64_MIN)
        return false;
    const Dim rest = dim_add_scaled(t, d, dim_of(t, s), -k);
    if (dim_mentions(t, rest, s))
        return false;
    *num = dim_sub(t, value, rest);
    if (k < 0)
        *num = dim_add_scaled(t, zero, *num, -1);
    *den = k < 0 ? -k : k;
    return true;
}
