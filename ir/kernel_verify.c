/* kernel_verify.c: what every kernel must keep: names, types and ranks fit, axes are used inside
 * their loops, accumulators are read behind their totals, stores hit each element once.
 * SPDX-License-Identifier: MIT */
#include "ir/kernel.h"

#include <string.h>

/* The innermost KS_LAST around, and how many loops are around that. */
typedef struct {
    const KStmt *at;
    uint32_t loops;
} Last;

typedef struct {
    const Program *p;
    const Kernel *k;
    DimTable *t;
    VEC(const KStmt *) loops; /* around, outermost first */
    VEC(Symbol) loaded;       /* integers in scope */
    VEC(const KStmt *) whens;
    Last last;
    bool *started, *totalled; /* accumulators */
    bool *seen;               /* expressions, for one statement */
    bool *inside; /* loads whose place was compared with the shape: that holds everywhere */
    const char *why;
} Verify;

static void bad(Verify *v, const char *fmt, const char *what)
{
    if (!v->why)
        v->why = arena_printf(v->p->cx->scratch, fmt, what);
}

static const char *param_name(const Verify *v, uint32_t i)
{
    return sym_text(v->p->cx->names, v->k->params.at[i].name);
}

/* --- indices -------------------------------------------------------------------------------------
 */

static bool in_scope(const Verify *v, Symbol s)
{
    for (uint32_t i = 0; i < v->loops.n; i++)
        if (v->loops.at[i]->axis.id == s.id)
            return true;
    for (uint32_t i = 0; i < v->loaded.n; i++)
        if (v->loaded.at[i].id == s.id)
            return true;
    return false;
}

static void check_dim(Verify *v, Dim d)
{
    if (!d.id)
        return;
    if (!dim_mentions_kind(v->t, d, SYM_AXIS) && !dim_mentions_kind(v->t, d, SYM_LOADED))
        return;
    const Term *terms;
    const uint32_t n = dim_terms(v->t, d, &terms);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < terms[i].n; k++) {
            const Atom *atom = &terms[i].factors[k].atom;
            if (atom->kind != ATOM_SYMBOL) {
                check_dim(v, atom->a);
                check_dim(v, atom->b);
                continue;
            }
            const SymbolInfo *s = dim_symbol(v->t, atom->symbol);
            if (s->kind != SYM_SIZE && s->kind != SYM_LOOP && !in_scope(v, atom->symbol))
                bad(v, "%s is used outside its loop", sym_text(v->p->cx->names, s->name));
        }
}

static void check_guard(Verify *v, Guard g)
{
    for (uint32_t i = 0; i < g.n; i++) {
        check_dim(v, g.at[i].a);
        check_dim(v, g.at[i].b);
    }
}

/* Some loop around never turns: nothing is read or written. */
static bool is_dead(const Verify *v)
{
    for (uint32_t i = 0; i < v->loops.n; i++)
        if (dim_le(v->t, v->loops.at[i]->hi, v->loops.at[i]->lo) == YES)
            return true;
    return false;
}

/* Inside the shape, unless a predicate may know more. */
static void check_at(Verify *v, uint32_t param, const Dim *at, bool guarded)
{
    if (param >= v->k->params.n) {
        bad(v, "%s", "no such parameter");
        return;
    }
    const KParam *q = &v->k->params.at[param];
    for (uint32_t i = 0; i < q->rank; i++) {
        if (!at[i].id) {
            bad(v, "an index of %s is missing", param_name(v, param));
            return;
        }
        check_dim(v, at[i]);
        if (guarded)
            continue;
        /* what intervals tell is enough: a mistake is off by its whole axis, or a wrong sign */
        int64_t lo, hi;
        dim_interval(v->t, dim_sub(v->t, at[i], q->shape[i]), &lo, &hi);
        if (lo >= 0 && dim_le(v->t, dim_const(v->t, 1), q->shape[i]) == YES && !is_dead(v))
            bad(v, "%s is indexed behind its end", param_name(v, param));
        dim_interval(v->t, at[i], &lo, &hi);
        if (hi < 0 && !is_dead(v))
            bad(v, "%s is indexed before its beginning", param_name(v, param));
    }
}

/* --- expressions
 * ----------------------------------------------------------------------------------- */

static void check_expr(Verify *v, KExpr e, bool guarded)
{
    if (!e.id || e.id >= v->k->exprs.n) {
        bad(v, "%s", "an expression is missing");
        return;
    }
    if (v->seen[e.id] || v->why)
        return;
    v->seen[e.id] = true;
    const KExprInfo *x = kexpr(v->k, e);
    for (uint32_t i = 0; i < x->nin; i++) {
        if (x->in[i].id >= e.id)
            bad(v, "%s", "an operand comes after its user");
        else
            check_expr(v, x->in[i], guarded || (x->kind == KE_SELECT && i == 0));
    }
    check_dim(v, x->index);
    check_guard(v, x->pred);
    switch (x->kind) {
    case KE_LOAD:
        check_at(v, x->param, x->at, guarded || v->inside[e.id]);
        v->inside[e.id] |= !guarded;
        if (!v->why && v->k->params.at[x->param].mode == K_OUT && !v->last.at)
            bad(v, "%s is read, but only written to", param_name(v, x->param));
        if (!v->why && v->k->params.at[x->param].dtype != x->type)
            bad(v, "%s is loaded as another type", param_name(v, x->param));
        break;
    case KE_ACC:
        /* side sums have no total: each is its lane's own */
        if (x->acc >= v->k->accs.n ||
            !(v->k->accs.at[x->acc].side ? v->started : v->totalled)[x->acc])
            bad(v, "%s", "an accumulator is read before its total");
        else if ((int)x->field >= kacc_results(&v->k->accs.at[x->acc]))
            bad(v, "%s", "an accumulator has fewer results");
        break;
    case KE_OP:
        if (!op_is_pointwise(x->op) || (int)x->nin != op_info(x->op)->nmin)
            bad(v, "%s has another number of operands", op_name(x->op));
        break;
    case KE_KEEP:
        if (x->keep >= v->k->keeps.n)
            bad(v, "%s", "no such kept value");
        break;
    default:
        break;
    }
}

/* --- statements
 * ------------------------------------------------------------------------------------ */

/* Inside of a condition that only the first turn of the loop meets. */
static bool is_first(const Verify *v, Symbol axis)
{
    for (uint32_t i = 0; i < v->whens.n; i++)
        for (uint32_t k = 0; k < v->whens.at[i]->pred.n; k++) {
            const GuardTerm *term = &v->whens.at[i]->pred.at[k];
            if (term->kind == G_LT && dim_same(term->a, dim_of(v->t, axis)) &&
                dim_is_one(v->t, term->b))
                return true;
        }
    return false;
}

static bool names_axis(const Verify *v, const KStmt *s, Symbol axis)
{
    for (uint32_t k = 0; k < v->k->params.at[s->param].rank; k++)
        if (dim_mentions(v->t, s->at[k], axis))
            return true;
    return false;
}

/* Each of the loops that run at once shows in the index: itself, or as what bounds a loop that
 * does. */
static void check_store(Verify *v, const KStmt *s)
{
    check_at(v, s->param, s->at, false);
    if (v->why)
        return;
    const KParam *q = &v->k->params.at[s->param];
    if (q->mode == K_IN)
        bad(v, "%s is stored to, but only read", param_name(v, s->param));
    if (q->dtype != kexpr(v->k, s->expr)->type)
        bad(v, "%s is stored as another type", param_name(v, s->param));
    for (uint32_t i = 0; i < v->loops.n; i++) {
        const KStmt *loop = v->loops.at[i];
        bool used = names_axis(v, s, loop->axis);
        for (uint32_t j = i + 1; j < v->loops.n; j++)
            used |= dim_mentions(v->t, v->loops.at[j]->lo, loop->axis) &&
                    names_axis(v, s, v->loops.at[j]->axis);
        if (is_first(v, loop->axis))
            continue;
        if (i < v->last.loops && !dim_mentions(v->t, v->last.at->lo, loop->axis))
            continue;
        if (!used && (loop->loop == FOR_GRID || loop->loop == FOR_LANES))
            bad(v, "cells store the same element of %s", param_name(v, s->param));
    }
}

static void check_block(Verify *v, const KBlock *b);

static void check_for(Verify *v, const KStmt *s)
{
    check_dim(v, s->lo);
    check_dim(v, s->hi);
    if (in_scope(v, s->axis))
        bad(v, "%s", "a loop inside itself");
    vec_push(v->p->cx->scratch, &v->loops, s);
    check_block(v, &s->body);
    v->loops.n--;
}

/* Behind it is one cell of all that come to the same counter. */
static void check_last(Verify *v, const KStmt *s)
{
    int64_t lo, hi;
    dim_interval(v->t, s->lo, &lo, &hi);
    check_dim(v, s->lo);
    check_dim(v, s->hi);
    for (uint32_t i = 0; i < v->loops.n; i++)
        if (v->loops.at[i]->loop != FOR_GRID)
            bad(v, "%s", "cells are waited for in a loop");
    if (!v->k->counters || hi < 0 || lo >= v->k->counters)
        bad(v, "%s", "no such counter");
    const Last outer = v->last;
    v->last = (Last){s, v->loops.n};
    check_block(v, &s->body);
    v->last = outer;
}

static void check_total(Verify *v, uint32_t acc)
{
    if (acc >= v->k->accs.n || !v->started[acc]) {
        bad(v, "%s", "an accumulator is used that was not started");
        return;
    }
}

static void check_stmt(Verify *v, const KStmt *s)
{
    memset(v->seen, 0, v->k->exprs.n * sizeof *v->seen);
    switch (s->kind) {
    case KS_FOR:
        check_for(v, s);
        break;
    case KS_WHEN:
        check_guard(v, s->pred);
        vec_push(v->p->cx->scratch, &v->whens, s);
        check_block(v, &s->body);
        v->whens.n--;
        break;
    case KS_LAST:
        check_last(v, s);
        break;
    case KS_LET:
        check_expr(v, s->expr, false);
        if (s->axis.id)
            vec_push(v->p->cx->scratch, &v->loaded, s->axis);
        break;
    case KS_STORE:
        check_expr(v, s->expr, false);
        if (!v->why)
            check_store(v, s);
        break;
    case KS_FOLD:
        check_total(v, s->acc);
        check_expr(v, s->expr, false);
        check_dim(v, s->fold_index);
        break;
    case KS_TOTAL:
        check_total(v, s->acc);
        if (!v->why)
            v->totalled[s->acc] = true;
        break;
    case KS_KEEP:
        check_expr(v, s->expr, false);
        check_dim(v, s->keep_index);
        break;
    case KS_ACC:
        if (s->acc >= v->k->accs.n) {
            bad(v, "%s", "no such accumulator");
        } else {
            v->started[s->acc] = true;
            v->totalled[s->acc] = false;
        }
        break;
    case KS_CHECK:
        check_guard(v, s->pred);
        break;
    case KS_BARRIER:
        break;
    case KS_CALL:
        for (uint32_t i = 0; i < s->nargs; i++)
            if (s->args[i] != NO_PARAM && s->args[i] >= v->k->params.n)
                bad(v, "%s", "no such parameter");
        for (uint32_t i = 0; i < s->nints; i++)
            check_dim(v, s->ints[i]);
        break;
    }
}

static void check_block(Verify *v, const KBlock *b)
{
    uint32_t loaded = v->loaded.n;
    for (uint32_t i = 0; i < b->n && !v->why; i++)
        check_stmt(v, &b->at[i]);
    v->loaded.n = loaded; /* loaded integers end with their block */
}

static void check_params(Verify *v)
{
    for (uint32_t i = 0; i < v->k->params.n; i++) {
        const KParam *q = &v->k->params.at[i];
        if (!q->name.id || q->dtype == DT_none || q->rank > MAX_RANK)
            bad(v, "%s", "a parameter without name or type");
        for (uint32_t j = 0; j < i; j++)
            if (sym_eq(q->name, v->k->params.at[j].name))
                bad(v, "two parameters are named %s", param_name(v, i));
    }
}

const char *kernel_verify(const Program *p, const Kernel *k)
{
    Verify v = {.p = p, .k = k, .t = p->cx->dims};
    v.started = arena_array(p->cx->scratch, bool, k->accs.n + 1);
    v.totalled = arena_array(p->cx->scratch, bool, k->accs.n + 1);
    v.seen = arena_array(p->cx->scratch, bool, k->exprs.n + 1);
    v.inside = arena_array(p->cx->scratch, bool, k->exprs.n + 1);
    check_params(&v);
    check_block(&v, &k->body);
    if (!v.why)
        return NULL;
    return arena_printf(p->cx->scratch, "kernel %s: %s", sym_text(p->cx->names, k->name), v.why);
}
