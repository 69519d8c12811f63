/* dim_text.c: sizes as text, as a user would write them: "3*state + H//2 - 1", "B*(T % 8)".
 * SPDX-License-Identifier: MIT */
#include "ir/dim_internal.h"

#include <ctype.h>
#include <string.h>

/* --- printing --------------------------------------------------------------------------------- */

enum { PREC_SUM, PREC_PRODUCT, PREC_ATOM };

static void print(DimTable *t, Dim d, int prec, StrBuf *out);

static void print_name(const DimTable *t, Symbol s, StrBuf *out)
{
    const char *name = sym_text(t->names, t->symbols.at[s.id & ~HIDDEN].name);
    if (*name)
        sb_puts(out, name);
    else
        sb_printf(out, "s%u", s.id);
}

static void print_atom(DimTable *t, const Atom *a, int prec, StrBuf *out)
{
    if (a->kind == ATOM_SYMBOL) {
        print_name(t, a->symbol, out);
    } else if (a->kind == ATOM_FLOORDIV) {
        if (prec > PREC_SUM)
            sb_putc(out, '(');
        print(t, a->a, PREC_PRODUCT, out);
        sb_puts(out, "//");
        print(t, a->b, PREC_ATOM, out);
        if (prec > PREC_SUM)
            sb_putc(out, ')');
    } else {
        sb_puts(out, a->kind == ATOM_MIN ? "min(" : "max(");
        print(t, a->a, PREC_SUM, out);
        sb_puts(out, ", ");
        print(t, a->b, PREC_SUM, out);
        sb_putc(out, ')');
    }
}

/* |coefficient| * factors; after a leading minus, a division needs parentheses */
static void print_term(DimTable *t, const Term *x, uint64_t k, bool minus, StrBuf *out)
{
    bool first = true;
    if (k != 1 || x->n == 0) {
        sb_printf(out, "%llu", (unsigned long long)k);
        first = false;
    }
    const bool alone = !minus && first && x->n == 1 && x->factors[0].power == 1;
    for (uint32_t i = 0; i < x->n; i++)
        for (int e = 0; e < x->factors[i].power; e++) {
            if (!first)
                sb_putc(out, '*');
            first = false;
            print_atom(t, &x->factors[i].atom, alone ? PREC_SUM : PREC_ATOM, out);
        }
}

static uint64_t magnitude(int64_t k)
{
    return k < 0 ? 0 - (uint64_t)k : (uint64_t)k;
}

/* d = rest + u * (A % B), if that is shorter. */
static bool as_mod(DimTable *t, Dim d, Dim *rest, Dim *u, Dim *a, Dim *b)
{
    const Poly p = *poly(t, d);
    for (uint32_t i = 0; i < p.n; i++)
        for (uint32_t k = 0; k < p.terms[i].n; k++) {
            const Factor f = p.terms[i].factors[k];
            if (f.atom.kind != ATOM_FLOORDIV || f.power != 1)
                continue;
            const Dim factor = dim_exact_div(t, dim_of_term(t, p.terms[i]), dim_of_atom(t, f.atom));
            Dim q = dim_exact_div(t, factor, f.atom.b);
            if (!q.id)
                continue;
            *u = dim_sub(t, dim_const(t, 0), q);
            *a = f.atom.a;
            *b = f.atom.b;
            const Dim mod =
                dim_add(t, *a, dim_mul(t, dim_sub(t, dim_const(t, 0), *b), dim_of_atom(t, f.atom)));
            *rest = dim_sub(t, d, dim_mul(t, *u, mod));
            if (poly(t, *rest)->n + poly(t, *a)->n + 1 == p.n)
                return true;
        }
    return false;
}

static void print_mod(DimTable *t, Dim rest, Dim u, Dim a, Dim b, int prec, StrBuf *out)
{
    int64_t k = 0;
    const bool alone = dim_is_zero(t, rest), constant = dim_is_const(t, u, &k);
    const bool minus = constant && k < 0;
    if (prec > PREC_SUM)
        sb_putc(out, '(');
    if (!alone) {
        print(t, rest, PREC_SUM, out);
        sb_puts(out, minus ? " - " : " + ");
    } else if (minus) {
        sb_putc(out, '-');
    }
    const bool factor = !constant || magnitude(k) != 1;
    if (factor && constant)
        sb_printf(out, "%llu*", (unsigned long long)magnitude(k));
    else if (factor) {
        print(t, u, PREC_PRODUCT, out);
        sb_putc(out, '*');
    }
    if (factor || minus)
        sb_putc(out, '(');
    print(t, a, PREC_PRODUCT, out);
    sb_puts(out, " % ");
    print(t, b, PREC_ATOM, out);
    if (factor || minus)
        sb_putc(out, ')');
    if (prec > PREC_SUM)
        sb_putc(out, ')');
}

/* `prec` says what surrounds: PREC_PRODUCT allows a product, but no sum and no division. */
static void print(DimTable *t, Dim d, int prec, StrBuf *out)
{
    const Poly p = *poly(t, d);
    if (!d.id || p.n == 0) {
        sb_puts(out, d.id ? "0" : "?");
        return;
    }
    Dim rest, u, a, b;
    if (as_mod(t, d, &rest, &u, &a, &b)) {
        print_mod(t, rest, u, a, b, prec, out);
        return;
    }
    const Term *x = &p.terms[0];
    const bool atomic =
        p.n == 1 && x->coefficient >= 0 &&
        (x->n == 0 || (x->n == 1 && x->coefficient == 1 && x->factors[0].power == 1 &&
                       x->factors[0].atom.kind != ATOM_FLOORDIV));
    const bool product = p.n == 1 && x->coefficient >= 0 &&
                         !(x->n == 1 && x->coefficient == 1 && x->factors[0].power == 1 &&
                           x->factors[0].atom.kind == ATOM_FLOORDIV);
    const bool paren = prec == PREC_ATOM ? !atomic : prec == PREC_PRODUCT ? !product : false;
    if (paren)
        sb_putc(out, '(');
    /* a positive term first: "n - 2*k" rather than "-2*k + n" */
    uint32_t first = 0;
    while (first < p.n && p.terms[first].coefficient < 0)
        first++;
    if (first == p.n)
        first = 0;
    const bool minus = p.terms[first].coefficient < 0;
    if (minus)
        sb_putc(out, '-');
    print_term(t, &p.terms[first], magnitude(p.terms[first].coefficient), minus, out);
    for (uint32_t i = 0; i < p.n; i++)
        if (i != first) {
            sb_puts(out, p.terms[i].coefficient < 0 ? " - " : " + ");
            print_term(t, &p.terms[i], magnitude(p.terms[i].coefficient), false, out);
        }
    if (paren)
        sb_putc(out, ')');
}

/* Printing may intern helper sizes (for `%`), which changes no existing one. */
void dim_print(const DimTable *t, Dim d, StrBuf *out)
{
    print((DimTable *)t, d, PREC_SUM, out);
}

const char *dim_text(const DimTable *t, Arena *a, Dim d)
{
    StrBuf b = {.a = a};
    dim_print(t, d, &b);
    return sb_text(&b);
}

/* --- parsing ---------------------------------------------------------------------------------- */

typedef struct {
    DimTable *t;
    const char *p;
    const char *error;
    Symbol (*lookup)(void *ctx, const char *name, size_t n);
    void *ctx;
    int depth;
} Parser;

static Dim parse_sum(Parser *q);

static Dim fail(Parser *q, const char *why)
{
    if (!q->error)
        q->error = why;
    return dim_const(q->t, 0);
}

static bool accept(Parser *q, const char *what)
{
    while (*q->p == ' ')
        q->p++;
    const size_t n = strlen(what);
    if (strncmp(q->p, what, n))
        return false;
    q->p += n;
    return true;
}

static Dim parse_number(Parser *q)
{
    int64_t v = 0;
    for (; isdigit((unsigned char)*q->p); q->p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *q->p - '0', &v))
            return fail(q, "a size is too large");
    return dim_const(q->t, v);
}

static Dim parse_atom(Parser *q)
{
    if (++q->depth > 100)
        return fail(q, "a size is nested too deeply");
    Dim r;
    if (accept(q, "(")) {
        r = parse_sum(q);
        if (!accept(q, ")"))
            fail(q, "a ) is missing in a size");
    } else if (accept(q, "-")) {
        r = dim_sub(q->t, dim_const(q->t, 0), parse_atom(q));
    } else if (isdigit((unsigned char)*q->p)) {
        r = parse_number(q);
    } else if (isalpha((unsigned char)*q->p) || *q->p == '_') {
        const char *name = q->p;
        while (isalnum((unsigned char)*q->p) || *q->p == '_' || *q->p == '.')
            q->p++;
        const size_t n = (size_t)(q->p - name);
        const bool least = n == 3 && !memcmp(name, "min", 3);
        if ((least || (n == 3 && !memcmp(name, "max", 3))) && accept(q, "(")) {
            const Dim a = parse_sum(q);
            if (!accept(q, ","))
                fail(q, "min and max need two sizes");
            const Dim b = parse_sum(q);
            if (!accept(q, ")"))
                fail(q, "a ) is missing in a size");
            r = least ? dim_min(q->t, a, b) : dim_max(q->t, a, b);
        } else {
            const Symbol s = q->lookup ? q->lookup(q->ctx, name, n) : (Symbol){0};
            r = s.id ? dim_of(q->t, s) : fail(q, "unknown size");
        }
    } else {
        r = fail(q, "a size is expected");
    }
    q->depth--;
    return r;
}

static Dim parse_product(Parser *q)
{
    Dim a = parse_atom(q);
    while (!q->error) {
        if (accept(q, "*")) {
            a = dim_mul(q->t, a, parse_atom(q));
            continue;
        }
        const bool mod = accept(q, "%");
        if (!mod && !accept(q, "//"))
            break;
        const Dim b = parse_atom(q);
        if (dim_is_zero(q->t, b))
            return fail(q, "a size is divided by 0");
        a = mod ? dim_mod(q->t, a, b) : dim_floordiv(q->t, a, b);
    }
    return a;
}

static Dim parse_sum(Parser *q)
{
    Dim a = parse_product(q);
    while (!q->error) {
        if (accept(q, "+"))
            a = dim_add(q->t, a, parse_product(q));
        else if (accept(q, "-"))
            a = dim_sub(q->t, a, parse_product(q));
        else
            break;
    }
    return a;
}

const char *dim_parse(DimTable *t, const char *text, const char **end,
                      Symbol (*lookup)(void *ctx, const char *name, size_t n), void *ctx, Dim *out)
{
    Parser q = {.t = t, .p = text, .lookup = lookup, .ctx = ctx};
    *out = parse_sum(&q);
    if (end)
        *end = q.p;
    return q.error;
}
