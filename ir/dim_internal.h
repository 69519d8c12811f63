/* dim_internal.h: what dim.c, dim_facts.c and dim_text.c share. SPDX-License-Identifier: MIT */
#ifndef TENON_DIM_INTERNAL_H
#define TENON_DIM_INTERNAL_H

#include "ir/dim.h"

/* A monomial: factors sorted, powers >= 1. Interned, so equal monomials have equal pointers. */
typedef struct {
    const Factor *factors;
    uint32_t n;
} Mono;

typedef struct {
    const Term *terms; /* sorted, coefficients != 0 */
    uint32_t n;
    uint64_t symbols; /* bit id % 64 of every symbol inside, atoms included */
    uint32_t kinds;   /* bit 1 << SymbolKind */
} Poly;

struct DimTable {
    Arena *arena;
    Interner *names;
    VEC(SymbolInfo) symbols; /* [0] unused */
    VEC(Poly) polys;         /* [0] unused */
    VEC(Mono) monos;         /* [0] is the empty product */
    uint32_t *poly_table, poly_size;
    uint32_t *mono_table, mono_size;
    Dim numbers[256]; /* constants -64 .. 191 that were made; {0}: not yet */
    uint64_t replaced; /* bits of the symbols that have `equals` */
    VEC(Dim) zeros;    /* what is 0 by facts that replace no symbol, in normal form */
    int depth;         /* of proofs, which may ask further questions */
    bool overflow;
};

/* For proofs, a symbol s with value base + div * k, k >= 0, is written with a stand-in for k. The
 * stand-in of symbol id is id | HIDDEN; it never leaves this module. */
#define HIDDEN 0x80000000u

/* Terms being collected; sorted and summed by poly_make. */
typedef struct {
    Term local[32];
    Term *at;
    uint32_t n, cap;
} TermBuf;

static inline const Poly *poly(const DimTable *t, Dim d)
{
    return &t->polys.at[d.id];
}

/* Has values 0 .. extent - 1. */
static inline bool counts(const SymbolInfo *s)
{
    return s->kind == SYM_AXIS || s->kind == SYM_LOOP;
}

static inline int64_t floor_div(int64_t a, int64_t b)
{
    const int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

void termbuf_init(TermBuf *b);
void termbuf_add(DimTable *t, TermBuf *b, int64_t coefficient, const Factor *factors, uint32_t n);
Dim poly_make(DimTable *t, TermBuf *b);

/** a = b*q + r by long division. */
void dim_divide(DimTable *t, Dim a, Dim b, Dim *q, Dim *r);
/** a + k * b */
Dim dim_add_scaled(DimTable *t, Dim a, Dim b, int64_t k);
Dim dim_of_atom(DimTable *t, Atom atom);
Dim dim_of_term(DimTable *t, Term term);
int atom_compare(const DimTable *t, const Atom *a, const Atom *b);
int dim_compare(const DimTable *t, Dim a, Dim b);

void symbol_interval(DimTable *t, Symbol s, int64_t *lo, int64_t *hi);
/** d >= 0 for all values that the facts allow. */
bool dim_proves_nonneg(DimTable *t, Dim d);

#endif
