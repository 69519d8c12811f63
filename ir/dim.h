/* dim.h: sizes. A Dim is a polynomial with integer coefficients over atoms, in normal form and
 * hash-consed: equal handle means equal size. ir.md section 3. SPDX-License-Identifier: MIT */
#ifndef TENON_DIM_H
#define TENON_DIM_H

#include "ir/base/intern.h"
#include "ir/base/strbuf.h"
#include "ir/base/vec.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    uint32_t id;
} Dim; /* {0} is "none" */

/* A symbol stands alone in a shape (SIZE), counts a kernel's axis (AXIS), is an integer that a
 * kernel loads from memory (LOADED), or counts the turns of a scan (LOOP): a number of the host. */
typedef enum { SYM_SIZE, SYM_AXIS, SYM_LOADED, SYM_LOOP } SymbolKind;
typedef struct {
    uint32_t id;
} Symbol; /* {0} is none */

typedef struct {
    Sym name;
    SymbolKind kind;
    int64_t lo, hi;   /* inclusive interval; sizes default to 0 .. 2^31-1 */
    int64_t div, rem; /* value % div == rem; div >= 1 */
    int64_t hint;     /* representative size, default 64: costs only */
    Dim equals;       /* from `assert A == B`: normalisation replaces the symbol by this */
    Dim extent;       /* AXIS, LOOP: values are 0 .. extent-1 */
} SymbolInfo;

typedef struct DimTable DimTable;
typedef enum { NO, YES, UNKNOWN } Answer;

DimTable *dims_create(Arena *a, Interner *names);
Interner *dims_names(const DimTable *t);

/** A new symbol, even if the name exists; for AXIS, `extent` bounds it. */
Symbol dim_new_symbol(DimTable *t, SymbolKind kind, Sym name, Dim extent);
SymbolInfo *dim_symbol(DimTable *t, Symbol s);
uint32_t dim_nsymbols(const DimTable *t); /* ids run from 1 to this */

Dim dim_const(DimTable *t, int64_t c);
Dim dim_of(DimTable *t, Symbol s);
Dim dim_add(DimTable *t, Dim a, Dim b);
Dim dim_sub(DimTable *t, Dim a, Dim b);
Dim dim_mul(DimTable *t, Dim a, Dim b);
Dim dim_floordiv(DimTable *t, Dim a, Dim b); /* floor; b == 0 constant: overflow flag is set */
Dim dim_mod(DimTable *t, Dim a, Dim b);      /* a - b*(a//b) */
Dim dim_min(DimTable *t, Dim a, Dim b);
Dim dim_max(DimTable *t, Dim a, Dim b);
Dim dim_ceildiv(DimTable *t, Dim a, Dim b);
Dim dim_product(DimTable *t, const Dim *d, uint32_t n); /* 1 for n == 0 */

/** Adds `a == b` as a fact: a symbol with coefficient +-1 on one side is replaced; where there is
 * none, the leading product of `a - b` is, in multiples. False if it contradicts what is known. */
bool dim_assume_equal(DimTable *t, Dim a, Dim b);
/** The differences that are 0 by facts that replace no symbol. */
uint32_t dim_zeros(const DimTable *t, const Dim **at);
/** Whether a == b follows from one of those only: each entry must then check it. */
bool dim_equal_by_zeros(DimTable *t, Dim a, Dim b);

bool dim_is_const(const DimTable *t, Dim d, int64_t *value);
bool dim_is_one(const DimTable *t, Dim d);
bool dim_is_zero(const DimTable *t, Dim d);
bool dim_is_symbol(const DimTable *t, Dim d, Symbol *s);
bool dim_mentions(const DimTable *t, Dim d, Symbol s);
/** Bit id % 64 of every symbol that d mentions. */
uint64_t dim_symbol_bits(const DimTable *t, Dim d);
bool dim_mentions_kind(const DimTable *t, Dim d, SymbolKind kind);

/** Interval arithmetic and gcds; UNKNOWN never means NO. Substitutions are applied first. */
Answer dim_equal(DimTable *t, Dim a, Dim b);
Answer dim_le(DimTable *t, Dim a, Dim b);
Answer dim_divisible(DimTable *t, Dim a, int64_t by);
void dim_interval(DimTable *t, Dim d, int64_t *lo, int64_t *hi);

/** d = quotient * by exactly (as polynomials), or {0}. */
Dim dim_exact_div(DimTable *t, Dim d, Dim by);

/** Solves d == value for symbol s: needs d linear in s. On success *num / *den is s
 * (den a positive constant; when > 1 the division must be checked). */
bool dim_solve(DimTable *t, Dim d, Dim value, Symbol s, Dim *num, int64_t *den);

/** Applies known equalities; replaces symbols (map[k].from -> map[k].to). */
Dim dim_normalize(DimTable *t, Dim d);
typedef struct {
    Symbol from;
    Dim to;
} DimSubst;
Dim dim_substitute(DimTable *t, Dim d, const DimSubst *map, uint32_t n);

/** The value with symbol s = values[s.id]; false on overflow or division by 0. */
bool dim_eval(const DimTable *t, Dim d, const int64_t *values, int64_t *out);
/** The value at hint sizes (axes: half their extent). Costs only. */
double dim_hint(DimTable *t, Dim d);
/** Raises hints of sizes until d, an extent, is at least 1 at them: where texts are cut into pieces
 * of 512 a length of 64 has none, and nothing made of pieces would cost anything. */
void dim_hint_some(DimTable *t, Dim d);

/** True (and clears) if a compile-time overflow happened since the last call. */
bool dim_overflowed(DimTable *t);

/** "3*state + features", as a user would write it. */
void dim_print(const DimTable *t, Dim d, StrBuf *out);
const char *dim_text(const DimTable *t, Arena *a, Dim d);
/** Parses what dim_print prints. `lookup` gives the symbol of a name ({0}: unknown). NULL on
 * success, else a message; *end is set behind what was read. */
const char *dim_parse(DimTable *t, const char *text, const char **end,
                      Symbol (*lookup)(void *ctx, const char *name, size_t n), void *ctx, Dim *out);

/* The structure, for code generators: a sum of coefficient * product of atom powers. */
typedef enum { ATOM_SYMBOL, ATOM_FLOORDIV, ATOM_MIN, ATOM_MAX } AtomKind;
typedef struct {
    AtomKind kind;
    Symbol symbol; /* ATOM_SYMBOL */
    Dim a, b;      /* the others */
} Atom;
typedef struct {
    Atom atom;
    int power;
} Factor;
typedef struct {
    int64_t coefficient;
    const Factor *factors;
    uint32_t n; /* 0: the constant term */
} Term;
/** The terms of d in print order (constant last); 0 terms is the size 0. */
uint32_t dim_terms(const DimTable *t, Dim d, const Term **terms);

static inline bool dim_same(Dim a, Dim b)
{
    return a.id == b.id;
}

/* A guard is a conjunction; the empty one is true. */
typedef enum { G_EQ, G_NE, G_LT, G_LE, G_DIVISIBLE, G_ARCH, G_HAS, G_WANT, G_CHOICE } GuardKind;
typedef enum { HAS_CUBLAS = 1 } Library; /* as TN_HAS_BLAS */
typedef struct {
    GuardKind kind;
    Dim a, b;  /* EQ NE LT LE: a op b; DIVISIBLE: a % k == 0 */
    int64_t k; /* DIVISIBLE, ARCH (>= k), HAS (Library), WANT (result number); -k: not so.
                * CHOICE: alternative k % 256 of choice k / 256, which is measured */
} GuardTerm;
typedef struct {
    GuardTerm *at;
    uint32_t n;
} Guard;

#endif
