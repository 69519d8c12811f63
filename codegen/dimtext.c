/* dimtext.c: sizes, indices and guards as C text, with 64-bit arithmetic only where it is needed.
 * SPDX-License-Identifier: MIT */
#include "codegen/ktext.h"
#include "ir/base/die.h"

#include <inttypes.h>
#include <string.h>

const char *ktext_int64(const KText *t)
{
    return t->target == TARGET_CUDA ? "long long" : "int64_t";
}

const char *ktext_wrap(const KText *t, Text x, int prec)
{
    return x.prec < prec ? arena_printf(t->a, "(%s)", x.text) : x.text;
}

bool ktext_fits_int(KText *t, Dim d)
{
    int64_t lo, hi;
    dim_interval(t->p->cx->dims, d, &lo, &hi);
    return lo >= INT32_MIN && hi <= INT32_MAX;
}

static Text int_text(KText *t, int64_t v)
{
    bool small = v >= INT32_MIN && v <= INT32_MAX;
    return (Text){arena_printf(t->a, "%" PRId64 "%s", v, small ? "" : "LL"),
                  v < 0 ? PREC_UNARY : PREC_PRIMARY};
}

bool ktext_is_wide(const KText *t, Dim d)
{
    const Term *terms;
    uint32_t n = dim_terms(t->p->cx->dims, d, &terms);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < terms[i].n; j++) {
            const Atom *atom = &terms[i].factors[j].atom;
            if (atom->kind == ATOM_SYMBOL ? t->wide[atom->symbol.id]
                                          : ktext_is_wide(t, atom->a) || ktext_is_wide(t, atom->b))
                return true;
        }
        if (terms[i].coefficient > INT32_MAX || terms[i].coefficient < INT32_MIN)
            return true;
    }
    return false;
}

static Text atom_text(KText *t, const Atom *atom)
{
    if (atom->kind == ATOM_SYMBOL) {
        const char *name = t->symbol[atom->symbol.id];
        if (!name)
            die("kernel %s: size %s is not in scope", sym_text(t->p->cx->names, t->k->name),
                sym_text(t->p->cx->names, dim_symbol(t->p->cx->dims, atom->symbol)->name));
        return (Text){name, PREC_PRIMARY};
    }
    Text a = ktext_dim(t, atom->a), b = ktext_dim(t, atom->b);
    if (atom->kind == ATOM_FLOORDIV) {
        int64_t lo, hi;
        dim_interval(t->p->cx->dims, atom->a, &lo, &hi);
        if (lo < 0)
            return (Text){arena_printf(t->a, "tn_floordiv_i64(%s, %s)", a.text, b.text),
                          PREC_PRIMARY};
        return (Text){arena_printf(t->a, "%s / %s", ktext_wrap(t, a, PREC_PRODUCT),
                                   ktext_wrap(t, b, PREC_UNARY)),
                      PREC_PRODUCT};
    }
    return (Text){arena_printf(t->a, "%s %s %s ? %s : %s", ktext_wrap(t, a, PREC_SUM),
                               atom->kind == ATOM_MIN ? "<" : ">", ktext_wrap(t, b, PREC_SUM),
                               ktext_wrap(t, a, PREC_OR), ktext_wrap(t, b, PREC_TERNARY)),
                  PREC_TERNARY};
}

/* The product, without the sign of its coefficient. */
static Text term_text(KText *t, const Term *term, bool widen)
{
    int64_t c = term->coefficient < 0 ? -term->coefficient : term->coefficient;
    if (!term->n)
        return int_text(t, c);
    StrBuf out = {.a = t->a};
    int prec = PREC_PRIMARY;
    for (uint32_t i = 0; i < term->n; i++)
        for (int power = 0; power < term->factors[i].power; power++) {
            Text x = atom_text(t, &term->factors[i].atom);
            bool first = !out.n;
            bool alone = first && c == 1 && term->n == 1 && term->factors[0].power == 1;
            if (first && widen)
                sb_printf(&out, "(%s)%s", ktext_int64(t), ktext_wrap(t, x, PREC_UNARY));
            else
                sb_printf(&out, "%s%s", first ? "" : " * ",
                          alone ? x.text : ktext_wrap(t, x, first ? PREC_PRODUCT : PREC_UNARY));
            prec = !first ? PREC_PRODUCT : widen ? PREC_UNARY : x.prec;
        }
    if (c != 1) {
        sb_printf(&out, " * %s", int_text(t, c).text);
        prec = PREC_PRODUCT;
    }
    return (Text){sb_text(&out), prec};
}

static Dim term_dim(KText *t, const Term *term)
{
    DimTable *d = t->p->cx->dims;
    Dim x = dim_const(d, term->coefficient);
    for (uint32_t i = 0; i < term->n; i++) {
        const Atom *atom = &term->factors[i].atom;
        Dim f = atom->kind == ATOM_SYMBOL     ? dim_of(d, atom->symbol)
                : atom->kind == ATOM_FLOORDIV ? dim_floordiv(d, atom->a, atom->b)
                : atom->kind == ATOM_MIN      ? dim_min(d, atom->a, atom->b)
                                              : dim_max(d, atom->a, atom->b);
        for (int power = 0; power < term->factors[i].power; power++)
            x = dim_mul(d, x, f);
    }
    return x;
}

/* rest + a - b * (a // b) is rest + a % b: which term has such a quotient? */
typedef struct {
    Dim rest, a, b;
    int64_t times; /* rest + times * (a % b) */
} Modulo;

static bool find_modulo(KText *t, Dim d, Modulo *out)
{
    DimTable *dt = t->p->cx->dims;
    const Term *terms;
    uint32_t n = dim_terms(dt, d, &terms);
    for (uint32_t i = 0; i < n; i++) {
        if (terms[i].n != 1 || terms[i].factors[0].power != 1 ||
            terms[i].factors[0].atom.kind != ATOM_FLOORDIV)
            continue;
        Dim a = terms[i].factors[0].atom.a, b = terms[i].factors[0].atom.b;
        int64_t by, lo, hi;
        if (!dim_is_const(dt, b, &by) || by <= 1 || terms[i].coefficient % by)
            continue;
        dim_interval(dt, a, &lo, &hi);
        int64_t times = -terms[i].coefficient / by;
        if (lo < 0 || times <= 0)
            continue;
        Dim quotient = term_dim(t, &terms[i]);
        Dim rest = dim_sub(dt, dim_sub(dt, d, quotient), dim_mul(dt, dim_const(dt, times), a));
        const Term *unused, *terms_a;
        uint32_t left = dim_terms(dt, rest, &unused), na = dim_terms(dt, a, &terms_a);
        if (left + na > n - 1)
            continue;
        *out = (Modulo){rest, a, b, times};
        return true;
    }
    return false;
}

static Text modulo_text(KText *t, const Modulo *m, bool whole_fits)
{
    Text a = ktext_dim(t, m->a), b = ktext_dim(t, m->b);
    int64_t by = 1;
    dim_is_const(t->p->cx->dims, m->b, &by);
    const char *text = arena_printf(t->a, "%s %% %s", ktext_wrap(t, a, PREC_PRODUCT),
                                    ktext_wrap(t, b, PREC_UNARY));
    const bool product_fits = m->times <= INT32_MAX / by;
    const bool sum_fits = whole_fits || ktext_is_wide(t, m->rest) || !ktext_fits_int(t, m->rest);
    if (!ktext_is_wide(t, m->a) && !(product_fits && sum_fits))
        text = arena_printf(t->a, "(%s)(%s)", ktext_int64(t), text);
    if (m->times != 1)
        text = arena_printf(t->a, "%s * %" PRId64, text, m->times);
    if (dim_is_zero(t->p->cx->dims, m->rest))
        return (Text){text, PREC_PRODUCT};
    return (Text){arena_printf(t->a, "%s + %s", ktext_dim_at(t, m->rest, PREC_SUM), text),
                  PREC_SUM};
}

/* Which term is printed at place j: a positive one comes first. */
static uint32_t printed_at(uint32_t j, uint32_t first)
{
    return j == 0 ? first : j <= first ? j - 1 : j;
}

/* Whether what is summed up on the way fits an int too. */
static bool sums_fit(KText *t, const Term *terms, uint32_t n, uint32_t first)
{
    DimTable *d = t->p->cx->dims;
    Dim sum = term_dim(t, &terms[first]);
    for (uint32_t j = 1; j + 1 < n; j++) {
        sum = dim_add(d, sum, term_dim(t, &terms[printed_at(j, first)]));
        if (!ktext_fits_int(t, sum))
            return false;
    }
    return true;
}

Text ktext_dim(KText *t, Dim d)
{
    int64_t value;
    if (dim_is_const(t->p->cx->dims, d, &value))
        return int_text(t, value);
    Modulo modulo;
    bool widen_all = !ktext_fits_int(t, d);
    if (find_modulo(t, d, &modulo))
        return modulo_text(t, &modulo, !widen_all);
    const Term *terms;
    uint32_t n = dim_terms(t->p->cx->dims, d, &terms), first = 0;
    for (uint32_t i = 0; i < n; i++)
        if (terms[i].coefficient > 0) {
            first = i;
            break;
        }
    StrBuf out = {.a = t->a};
    int prec = n > 1 ? PREC_SUM : PREC_UNARY;
    if (n > 2)
        widen_all |= !sums_fit(t, terms, n, first);
    for (uint32_t j = 0; j < n; j++) {
        uint32_t i = printed_at(j, first);
        Dim one = term_dim(t, &terms[i]);
        bool wide = ktext_is_wide(t, one);
        bool widen = terms[i].n && !wide && (widen_all || !ktext_fits_int(t, one));
        widen_all = widen_all && !wide && !widen; /* one is enough for what comes behind it */
        Text x = term_text(t, &terms[i], widen);
        bool minus = terms[i].coefficient < 0;
        if (j)
            sb_printf(&out, " %c %s", minus ? '-' : '+', ktext_wrap(t, x, PREC_PRODUCT));
        else if (minus)
            sb_printf(&out, "-%s", ktext_wrap(t, x, PREC_PRODUCT));
        else
            sb_puts(&out, n > 1 ? ktext_wrap(t, x, PREC_SUM) : x.text);
        if (n == 1 && !minus)
            prec = x.prec;
        else if (n == 1)
            prec = x.prec < PREC_UNARY ? x.prec : PREC_UNARY;
    }
    return (Text){sb_text(&out), prec};
}

const char *ktext_dim_at(KText *t, Dim d, int prec)
{
    return ktext_wrap(t, ktext_dim(t, d), prec);
}

static Text guard_term(KText *t, const GuardTerm *g)
{
    static const char *const ops[] = {[G_EQ] = "==", [G_NE] = "!=", [G_LT] = "<", [G_LE] = "<="};
    DimTable *d = t->p->cx->dims;
    Dim a = t->nsubst ? dim_substitute(d, g->a, t->subst, t->nsubst) : g->a;
    if (g->kind == G_DIVISIBLE)
        return (Text){
            arena_printf(t->a, "%s %% %" PRId64 " == 0", ktext_dim_at(t, a, PREC_PRODUCT), g->k),
            PREC_EQUAL};
    CHECK(g->kind <= G_LE);
    Dim b = t->nsubst ? dim_substitute(d, g->b, t->subst, t->nsubst) : g->b;
    int prec = g->kind <= G_NE ? PREC_EQUAL : PREC_LESS;
    return (Text){arena_printf(t->a, "%s %s %s", ktext_dim_at(t, a, prec + 1), ops[g->kind],
                               ktext_dim_at(t, b, prec + 1)),
                  prec};
}

Text ktext_guard(KText *t, Guard g)
{
    if (!g.n)
        return (Text){"1", PREC_PRIMARY};
    Text first = guard_term(t, &g.at[0]);
    if (g.n == 1)
        return first;
    StrBuf out = {.a = t->a};
    for (uint32_t i = 0; i < g.n; i++)
        sb_printf(&out, "%s%s", i ? " && " : "",
                  ktext_wrap(t, guard_term(t, &g.at[i]), PREC_AND + 1));
    return (Text){sb_text(&out), PREC_AND};
}

Dim ktext_offset(KText *t, uint32_t param, const Dim *at)
{
    DimTable *d = t->p->cx->dims;
    const KParam *q = &t->k->params.at[param];
    Dim sum = dim_const(d, 0);
    for (uint32_t i = 0; i < q->rank; i++)
        sum = dim_add(d, sum, dim_mul(d, at[i], q->stride[i]));
    return t->nsubst ? dim_substitute(d, sum, t->subst, t->nsubst) : sum;
}
