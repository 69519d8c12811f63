/* c_random.c: random numbers of a strip. Element i of a sequence is word i % 4 of block i / 4: a
 * strip of neighbours draws whole blocks into an array, four elements at the price of one.
 * SPDX-License-Identifier: MIT */
#include "codegen/c_internal.h"
#include "ir/base/die.h"

#include <stdlib.h>

/* How the index grows along the axis: by one, or in a way that runs do not fit. */
static bool is_run(CPrint *c, Dim index, Symbol axis)
{
    DimTable *d = c_dims(c);
    const DimSubst step = {axis, dim_add(d, dim_of(d, axis), dim_const(d, 1))};
    if (!index.id || dim_mentions_kind(d, index, SYM_LOADED))
        return false;
    return dim_is_one(d, dim_sub(d, dim_substitute(d, index, &step, 1), index));
}

typedef struct {
    CPrint *c;
    Symbol axis;
    VEC(KExpr) found;
} Search;

static void search_expr(Search *s, KExpr e)
{
    KText *t = &s->c->t;
    const KExprInfo *x = kexpr(t->k, e);
    if (t->let[e.id].text || t->seen[e.id] == t->mark)
        return;
    t->seen[e.id] = t->mark;
    for (uint32_t i = 0; i < x->nin; i++)
        search_expr(s, x->in[i]);
    if (x->kind == KE_RANDOM)
        vec_push(t->a, &s->found, e);
}

static bool search_block(Search *s, const KBlock *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->at[i].kind == KS_FOR)
            return false;
        if (b->at[i].expr.id)
            search_expr(s, b->at[i].expr);
        if (!search_block(s, &b->at[i].body))
            return false;
    }
    return true;
}

/* The draws of a body without loops that are runs along the axis. */
static Search find_runs(CPrint *c, const KBlock *b, Symbol axis)
{
    Search s = {.c = c, .axis = axis};
    c->t.mark++;
    if (!search_block(&s, b))
        s.found.n = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < s.found.n; i++) {
        const KExprInfo *x = kexpr(c->t.k, s.found.at[i]);
        if (is_run(c, x->index, axis) && !kexpr_depends(&c->t, x->in[0], axis))
            s.found.at[n++] = s.found.at[i];
    }
    s.found.n = n;
    return s;
}

bool c_draws_runs(CPrint *c, const KBlock *b, Symbol axis)
{
    return find_runs(c, b, axis).found.n > 0;
}

/* Whether the first index of every strip is the first of a block. */
static bool is_aligned(CPrint *c, Dim index, bool starts_at_multiple)
{
    DimTable *d = c_dims(c);
    if (!starts_at_multiple)
        return false;
    const DimSubst four = {c->strip.axis, dim_mul(d, dim_of(d, c->strip.axis), dim_const(d, 4))};
    return dim_divisible(d, dim_substitute(d, index, &four, 1), 4) == YES;
}

static void print_run(CPrint *c, KExpr e, Dim start, bool starts_at_multiple)
{
    static const char *const functions[] = {
        [RANDOM_BITS] = "tn_bits_run",
        [RANDOM_UNIFORM] = "tn_uniform_run",
        [RANDOM_NORMAL] = "tn_normal_run",
    };
    KText *t = &c->t;
    DimTable *d = c_dims(c);
    const KExprInfo *x = kexpr(t->k, e);
    CHECK(x->field < ARRAY_LEN(functions));
    const DimSubst to_start = {c->strip.axis, start};
    const char *first = ktext_dim_at(t, dim_substitute(d, x->index, &to_start, 1), PREC_UNARY);
    const char *key = ktext_expr(t, x->in[0]).text;
    const bool aligned = is_aligned(c, x->index, starts_at_multiple);
    const char *name = name_unique(&t->names, "drawn"), *at = "";
    const int room = c->strip.width + (aligned ? 0 : 3); /* runs are of 16 blocks */
    emit_line(&t->e, "%s %s[%d];", ktext_value(t, x->type), name, (room + 63) / 64 * 64);
    if (!aligned) {
        const char *skip = name_unique(&t->names, "skipped");
        emit_line(&t->e, "const int %s = (int)((uint64_t)%s %% 4);", skip, first);
        at = arena_printf(t->a, "%s + ", skip);
    }
    char *end;
    const long count = strtol(c->strip.count, &end, 10);
    const char *blocks = !*end && aligned
                             ? arena_printf(t->a, "%ld", (count + 3) / 4)
                             : arena_printf(t->a, "(%s%s + 3) / 4", at, c->strip.count);
    /* a run under a condition may begin before element 0: its block is the one before block 0 */
    emit_line(&t->e, "%s(%s, (uint64_t)((int64_t)%s >> 2), %s, %s);", functions[x->field], key,
              first, blocks, name);
    ktext_let(t, e, (Text){arena_printf(t->a, "%s[%sl]", name, at), PREC_PRIMARY});
}

void c_draw_runs(CPrint *c, const KBlock *b, Dim start, bool starts_at_multiple)
{
    const Search s = find_runs(c, b, c->strip.axis);
    const uint32_t substitutions = c->t.nsubst;
    c->t.nsubst = substitutions - 1; /* without the strip's own: indices from its start */
    for (uint32_t i = 0; i < s.found.n; i++)
        print_run(c, s.found.at[i], start, starts_at_multiple);
    c->t.nsubst = substitutions;
}
