/* cuda_vector.c: lanes that own 2, 4, 8 or 16 neighbours: vector loads, a loop over the neighbours,
 * vector stores. What does not lie next to each other is loaded and stored one by one. Where the
 * loop's end is no multiple, the last vector is loaded and stored in part.
 * SPDX-License-Identifier: MIT */
#include "codegen/cuda_internal.h"
#include "ir/base/die.h"

#include <inttypes.h>
#include <string.h>

/* A multiple of `width` for certain, or by the guard of this version of the kernel. */
static bool is_multiple(Cuda *c, Dim d, int width)
{
    const Guard *when = &c->t.k->when;
    const Term *terms;
    uint32_t n = dim_terms(cuda_dims(c), d, &terms);
    if (dim_divisible(cuda_dims(c), d, width) == YES)
        return true;
    for (uint32_t i = 0; i < n; i++) {
        bool good = terms[i].coefficient % width == 0;
        for (uint32_t j = 0; j < terms[i].n && !good; j++) {
            const Atom *atom = &terms[i].factors[j].atom;
            if (atom->kind != ATOM_SYMBOL)
                continue;
            Dim symbol = dim_of(cuda_dims(c), atom->symbol);
            good = dim_divisible(cuda_dims(c), symbol, width) == YES;
            for (uint32_t g = 0; g < when->n && !good; g++)
                good = when->at[g].kind == G_DIVISIBLE && when->at[g].k % width == 0 &&
                       dim_same(when->at[g].a, symbol);
        }
        if (!good)
            return false;
    }
    return true;
}

typedef struct {
    KExpr load[64];
    Guard under[64]; /* it happens where this holds, for all neighbours; n 0: always */
    int n;
} Loads;

/* Names the number of elements from the lane's first one on, where that may be less than a whole
 * vector; else NULL. */
static const char *print_rest(Cuda *c, const KStmt *loop, int width)
{
    DimTable *d = cuda_dims(c);
    KText *t = &c->t;
    if (is_multiple(c, loop->hi, width))
        return NULL;
    const char *name = name_unique(&t->names, "rest");
    const Dim rest = dim_sub(d, loop->hi, dim_of(d, loop->axis));
    emit_line(&t->e, "const %s %s = %s;", ktext_is_wide(t, rest) ? "long long" : "int", name,
              ktext_dim(t, rest).text);
    return name;
}

/* Whether it has a loaded integer that is not known yet: another one for each neighbour. */
static bool loads_behind(Cuda *c, Dim d)
{
    if (!dim_mentions_kind(cuda_dims(c), d, SYM_LOADED))
        return false;
    for (uint32_t i = 1; i <= dim_nsymbols(cuda_dims(c)); i++) {
        const Symbol s = {i};
        if (dim_symbol(cuda_dims(c), s)->kind == SYM_LOADED && !c->t.symbol[i] &&
            dim_mentions(cuda_dims(c), d, s))
            return true;
    }
    return false;
}

/* Whether neighbours along `axis` are neighbours in memory, from an aligned place on. */
static bool is_vector(Cuda *c, uint32_t param, const Dim *at, Symbol axis, int width)
{
    DimTable *d = cuda_dims(c);
    Dim offset = ktext_offset(&c->t, param, at);
    DimSubst zero = {axis, dim_const(d, 0)};
    Dim rest = dim_substitute(d, offset, &zero, 1);
    int size = dtype_size(c->t.k->params.at[param].dtype);
    if (loads_behind(c, rest))
        return false;
    return size * width <= 16 && dim_same(dim_sub(d, offset, rest), dim_of(d, axis)) &&
           is_multiple(c, rest, width);
}

/* The same for all neighbours, and known before the first of them. */
static bool is_uniform(Cuda *c, Guard g, Symbol axis)
{
    for (uint32_t i = 0; i < g.n; i++)
        if (g.at[i].kind > G_DIVISIBLE || dim_mentions(cuda_dims(c), g.at[i].a, axis) ||
            loads_behind(c, g.at[i].a) ||
            (g.at[i].b.id &&
             (dim_mentions(cuda_dims(c), g.at[i].b, axis) || loads_behind(c, g.at[i].b))))
            return false;
    return g.n > 0;
}

/* Loads that happen for all neighbours, or for none: under one predicate at most. */
static void find_loads(Cuda *c, KExpr e, Symbol axis, int width, Guard under, Loads *out)
{
    const KExprInfo *x = kexpr(c->t.k, e);
    if (c->t.let[e.id].text || c->t.seen[e.id] == c->t.mark)
        return;
    c->t.seen[e.id] = c->t.mark;
    if (x->kind == KE_LOAD && out->n < 64 && is_vector(c, x->param, x->at, axis, width)) {
        out->under[out->n] = under;
        out->load[out->n++] = e;
    }
    for (uint32_t i = 0; i < x->nin && x->kind != KE_SELECT; i++)
        find_loads(c, x->in[i], axis, width, under, out);
    if (x->kind == KE_SELECT && !under.n && is_uniform(c, x->pred, axis))
        find_loads(c, x->in[0], axis, width, x->pred, out);
}

/* Whether e is evaluated with `load` in every case: both arms of a select have it. An expression
 * that has it is marked by the next number. */
static bool always_loads(const Cuda *c, KExpr e, KExpr load)
{
    const KExprInfo *x = kexpr(c->t.k, e);
    uint32_t *seen = &c->t.seen[e.id];
    if (e.id == load.id || *seen == c->t.mark + 1)
        return true;
    if (*seen == c->t.mark)
        return false;
    const bool all = x->kind == KE_SELECT;
    bool found = all && x->nin > 1;
    for (uint32_t i = 0; i < x->nin && found == all; i++)
        found = always_loads(c, x->in[i], load);
    *seen = c->t.mark + found;
    return found;
}

/* Whether e has `load` anywhere but where `under` holds. */
static bool loads_elsewhere(const Cuda *c, KExpr e, KExpr load, Guard under)
{
    const KExprInfo *x = kexpr(c->t.k, e);
    if (e.id == load.id)
        return true;
    if (c->t.seen[e.id] == c->t.mark)
        return false;
    c->t.seen[e.id] = c->t.mark;
    for (uint32_t i = x->kind == KE_SELECT && guard_same(x->pred, under); i < x->nin; i++)
        if (loads_elsewhere(c, x->in[i], load, under))
            return true;
    return false;
}

/* A load that was found under a predicate may be read where that does not hold, too: then it is one
 * for all cases, or each neighbour's own. */
static void settle_conditions(Cuda *c, const KStmt *loop, Loads *loads)
{
    int kept = 0;
    for (int n = 0; n < loads->n; n++) {
        bool always = !loads->under[n].n, elsewhere = false;
        for (uint32_t i = 0; i < loop->body.n && !always; i++) {
            c->t.mark += 2;
            always = loop->body.at[i].expr.id &&
                     always_loads(c, loop->body.at[i].expr, loads->load[n]);
        }
        for (uint32_t i = 0; i < loop->body.n && !always && !elsewhere; i++) {
            c->t.mark += 2;
            elsewhere = loop->body.at[i].expr.id && loads_elsewhere(c, loop->body.at[i].expr,
                                                                    loads->load[n], loads->under[n]);
        }
        if (elsewhere)
            continue;
        loads->load[kept] = loads->load[n];
        loads->under[kept++] = always ? (Guard){0} : loads->under[n];
    }
    c->t.mark++; /* see always_loads */
    loads->n = kept;
}

static const char *element_word(DType d)
{
    static const char *const words[DT_COUNT] = {
        [DT_f64] = "f64", [DT_f32] = "f32", [DT_bf16] = "u16", [DT_f16] = "u16",
        [DT_i64] = "i64", [DT_i32] = "i32", [DT_i16] = "i16",  [DT_i8] = "i8",
        [DT_u8] = "u8",   [DT_bool] = "u8", [DT_u64] = "u64"};
    return words[d];
}

static const char *vector_type(Cuda *c, DType d, int width)
{
    return arena_printf(c->t.a, "%sx%d", element_word(d), width);
}

static const char *address(Cuda *c, uint32_t param, const Dim *at)
{
    KText *t = &c->t;
    Dim offset = ktext_offset(t, param, at);
    if (dim_is_zero(cuda_dims(c), offset))
        return t->param[param];
    return arena_printf(t->a, "%s + %s", t->param[param], ktext_dim_at(t, offset, PREC_SUM));
}

static void print_loads(Cuda *c, const KStmt *loop, int width, const char *rest)
{
    KText *t = &c->t;
    Loads loads = {.n = 0};
    t->mark++;
    for (uint32_t i = 0; i < loop->body.n; i++)
        if (loop->body.at[i].expr.id)
            find_loads(c, loop->body.at[i].expr, loop->axis, width, (Guard){0}, &loads);
    settle_conditions(c, loop, &loads);
    for (int i = 0; i < loads.n; i++) {
        const KExprInfo *x = kexpr(t->k, loads.load[i]);
        const char *name = name_unique(
            &t->names,
            arena_printf(t->a, "%s%d", cuda_name(c, t->k->params.at[x->param].name), width));
        const char *type = vector_type(c, t->k->params.at[x->param].dtype, width);
        const char *from = address(c, x->param, x->at);
        if (loads.under[i].n && rest)
            continue; /* element by element */
        if (loads.under[i].n)
            emit_line(&t->e, "const %s %s = %s ? load%d(%s) : %s{};", type, name,
                      ktext_wrap(t, ktext_guard(t, loads.under[i]), PREC_OR), width, from, type);
        else if (rest)
            emit_line(&t->e, "const %s %s = %s >= %d ? load%d(%s) : load_part<%s>(%s, %s);", type,
                      name, rest, width, width, from, type, from, rest);
        else
            emit_line(&t->e, "const %s %s = load%d(%s);", type, name, width, from);
        t->vector[loads.load[i].id] = (Text){arena_printf(t->a, "%s.v[k]", name), PREC_PRIMARY};
    }
}

/* --- random numbers ---
 * Element i is word i % 4 of block i / 4: neighbours draw whole blocks. */

/* Uniform numbers that happen for all neighbours, from the first of a block on. */
static void find_draws(Cuda *c, KExpr e, Symbol axis, Loads *out)
{
    DimTable *d = cuda_dims(c);
    const KExprInfo *x = kexpr(c->t.k, e);
    if (c->t.let[e.id].text || c->t.seen[e.id] == c->t.mark)
        return;
    c->t.seen[e.id] = c->t.mark;
    for (uint32_t i = 0; i < x->nin && x->kind != KE_SELECT; i++)
        find_draws(c, x->in[i], axis, out);
    if (x->kind != KE_RANDOM || x->field != RANDOM_UNIFORM || out->n == 64 ||
        dim_mentions_kind(d, x->index, SYM_LOADED))
        return;
    const DimSubst zero = {axis, dim_const(d, 0)};
    const Dim rest = dim_substitute(d, x->index, &zero, 1);
    if (dim_same(dim_sub(d, x->index, rest), dim_of(d, axis)) && is_multiple(c, rest, 4))
        out->load[out->n++] = e;
}

static void print_draws(Cuda *c, const KStmt *loop, int width)
{
    KText *t = &c->t;
    Loads draws = {.n = 0};
    t->mark++;
    for (uint32_t i = 0; i < loop->body.n && width % 4 == 0; i++)
        if (loop->body.at[i].expr.id)
            find_draws(c, loop->body.at[i].expr, loop->axis, &draws);
    for (int i = 0; i < draws.n; i++) {
        const KExprInfo *x = kexpr(t->k, draws.load[i]);
        if (kexpr_depends(t, x->in[0], loop->axis))
            continue;
        const char *name = name_unique(&t->names, "drawn");
        const char *first = ktext_dim_at(t, x->index, PREC_UNARY);
        emit_line(&t->e, "float %s[%d];", name, width);
        for (int at = 0; at < width; at += 4)
            emit_line(&t->e, "tn_uniform4(%s, (unsigned long long)%s / 4 + %d, %s + %d);",
                      ktext_expr(t, x->in[0]).text, first, at / 4, name, at);
        t->vector[draws.load[i].id] = (Text){arena_printf(t->a, "%s[k]", name), PREC_PRIMARY};
    }
}

static void forget_loads(KText *t)
{
    for (uint32_t i = 0; i < t->k->exprs.n; i++)
        t->vector[i] = (Text){NULL, 0};
}

/* The names of the vectors that stores go to; NULL where a store goes element by element. */
static const char **declare_stores(Cuda *c, const KStmt *loop, int width)
{
    KText *t = &c->t;
    const char **to = arena_array(t->a, const char *, loop->body.n + 1);
    for (uint32_t i = 0; i < loop->body.n; i++) {
        const KStmt *s = &loop->body.at[i];
        if (s->kind != KS_STORE || !is_vector(c, s->param, s->at, loop->axis, width))
            continue;
        const KParam *q = &t->k->params.at[s->param];
        to[i] = name_unique(&t->names, arena_printf(t->a, "%s_out", cuda_name(c, q->name)));
        emit_line(&t->e, "%s %s;", vector_type(c, q->dtype, width), to[i]);
    }
    return to;
}

static void print_elements(Cuda *c, const KStmt *loop, const char **to)
{
    KText *t = &c->t;
    Scope scope = scope_begin(t);
    for (uint32_t i = 0; i < loop->body.n; i++) {
        const KStmt *s = &loop->body.at[i];
        if (to[i]) {
            ktext_line(t, s);
            emit_line(&t->e, "%s.v[k] = %s;", to[i], ktext_to_memory(t, s->param, s->expr));
            continue;
        }
        KBlock one = {(KStmt *)(uintptr_t)s, 1, 1};
        cuda_block(c, &one);
    }
    scope_end(t, scope);
}

/* What is the same for all neighbours comes first: vectors may lie where it says, and draws take the
 * key that it reads. Returns the loop with the other statements. */
static KStmt print_uniform(Cuda *c, const KStmt *loop)
{
    KStmt others = *loop;
    uint32_t i = 0, n = 0;
    others.body.at = arena_array(c->t.a, KStmt, loop->body.n + 1);
    for (; i < loop->body.n; i++) {
        const KStmt *s = &loop->body.at[i];
        if (s->kind != KS_LET && s->kind != KS_CHECK)
            break;
        if (s->kind == KS_LET ? kexpr_depends(&c->t, s->expr, loop->axis)
                              : n > 0 || !is_uniform(c, s->pred, loop->axis)) {
            others.body.at[n++] = *s;
            continue;
        }
        KBlock one = {(KStmt *)(uintptr_t)s, 1, 1};
        cuda_block(c, &one);
    }
    for (; i < loop->body.n; i++)
        others.body.at[n++] = loop->body.at[i];
    others.body.n = n;
    return others;
}

static void store_vectors(Cuda *c, const KStmt *loop, int width, const char **to, const char *rest)
{
    KText *t = &c->t;
    for (uint32_t i = 0; i < loop->body.n; i++) {
        if (!to[i])
            continue;
        const KStmt *s = &loop->body.at[i];
        const char *where = address(c, s->param, s->at);
        ktext_line(t, s);
        if (!rest) {
            emit_line(&t->e, "store%d(%s, %s);", width, where, to[i]);
            continue;
        }
        emit_in(&t->e, "if (%s >= %d)", rest, width);
        emit_line(&t->e, "store%d(%s, %s);", width, where, to[i]);
        emit_out(&t->e);
        emit_in(&t->e, "else");
        emit_line(&t->e, "store_part(%s, %s, %s);", where, to[i], rest);
        emit_out(&t->e);
    }
}

void cuda_vector_body(Cuda *c, const KStmt *whole, int width, const char *registers)
{
    KText *t = &c->t;
    DimTable *d = cuda_dims(c);
    Text keep = t->keep_index;
    const KStmt others = print_uniform(c, whole), *loop = &others;
    const char *rest = print_rest(c, loop, width);
    print_loads(c, loop, width, rest);
    print_draws(c, loop, width);
    const char **to = declare_stores(c, loop, width);
    Symbol k = dim_new_symbol(d, SYM_AXIS, sym_of(t->p->cx->names, "k"), dim_const(d, width));
    t->symbol[k.id] = "k";
    t->wide[k.id] = false;
    CHECK(t->nsubst < MAX_SUBST);
    t->subst[t->nsubst++] = (DimSubst){loop->axis, dim_add(d, dim_of(d, loop->axis), dim_of(d, k))};
    t->keep_index =
        (Text){!strcmp(registers, "0") ? "k" : arena_printf(t->a, "%d * %s + k", width, registers),
               PREC_SUM};
    emit_raw(&t->e, "#pragma unroll\n"); /* else vectors lie in local memory */
    emit_open(&t->e, "for (int k = 0; k < %d; k++) {", width);
    print_elements(c, loop, to);
    emit_close(&t->e, "");
    t->nsubst--;
    t->keep_index = keep;
    forget_loads(t);
    store_vectors(c, loop, width, to, rest);
}

/* Loads are "const TYPE name = ", stores go through a variable "TYPE name;". */
static void find_uses(const char *text, const char *type, bool *loads, bool *stores)
{
    size_t n = strlen(type);
    for (const char *at = strstr(text, type); at; at = strstr(at + n, type)) {
        if (at == text || at[-1] != ' ' || at[n] != ' ')
            continue;
        bool is_load = at - text >= 6 && !memcmp(at - 6, "const ", 6);
        *loads |= is_load;
        *stores |= !is_load;
    }
}

/* A type that is stored by one instruction; NULL: there is none of so many bytes. */
static const char *word_of(int bytes)
{
    return bytes == 16  ? "uint4"
           : bytes == 8 ? "uint2"
           : bytes == 4 ? "unsigned"
           : bytes == 2 ? "unsigned short"
                        : NULL;
}

static void put_vector(Arena *a, DType t, int width, const char *text, StrBuf *out)
{
    const char *type = arena_printf(a, "%sx%d", element_word(t), width);
    KText cuda = {.target = TARGET_CUDA};
    const char *element = ktext_element(&cuda, t);
    bool loads = false, stores = false;
    find_uses(text, type, &loads, &stores);
    if (!loads && !stores)
        return;
    sb_printf(out, "struct __align__(%d) %s {\n    %s v[%d];\n};\n\n", dtype_size(t) * width, type,
              element, width);
    if (loads)
        sb_printf(out,
                  "static __device__ __forceinline__ %s load%d(const %s *p)\n{\n"
                  "    return *(const %s *)p;\n}\n\n",
                  type, width, element, type);
    /* an assignment is taken apart into elements by NVVM, and behind a branch never put together */
    const char *word = word_of(dtype_size(t) * width);
    if (stores)
        sb_printf(out, "static __device__ __forceinline__ void store%d(%s *p, %s x)\n{\n", width,
                  element, type);
    if (stores && word)
        sb_printf(out, "    __stwb((%s *)p, *(const %s *)&x);\n}\n\n", word, word);
    else if (stores)
        sb_printf(out, "    *(%s *)p = x;\n}\n\n", type);
}

/* Vectors that reach behind the end. */
static void put_parts(const char *text, StrBuf *out)
{
    if (strstr(text, "load_part<"))
        sb_puts(out, "/* the first n elements; the others are 0 */\n"
                     "template <class V, class T>\n"
                     "static __device__ __forceinline__ V load_part(const T *p, long long n)\n{\n"
                     "    V x = {};\n#pragma unroll\n"
                     "    for (int k = 0; k < (int)(sizeof x / sizeof *p); k++)\n"
                     "        if (k < n)\n            x.v[k] = p[k];\n    return x;\n}\n\n");
    if (strstr(text, "store_part("))
        sb_puts(out, "template <class V, class T>\n"
                     "static __device__ __forceinline__ void store_part(T *p, const V &x, "
                     "long long n)\n{\n#pragma unroll\n"
                     "    for (int k = 0; k < (int)(sizeof x / sizeof *p); k++)\n"
                     "        if (k < n)\n            p[k] = x.v[k];\n}\n\n");
}

void cuda_vectors(Arena *a, const char *text, StrBuf *out)
{
    for (int d = DT_none + 1; d < DT_COUNT; d++)
        for (int width = 2; width <= 16; width *= 2)
            if (d != DT_f16 && d != DT_bool) /* the same words as bf16 and u8 */
                put_vector(a, (DType)d, width, text, out);
    put_parts(text, out);
}
