/* lower_online.c: rows too long to be kept in registers are read once for the maximum and the sum
 * of exponentials together, as logsumexp does it, where a softmax asks for one after the other.
 *
 *   for c { m <- x[n, c] }   total m             for c { m <- x[n, c] }   total m: logsumexp
 *   for c { s <- exp(x[n, c] - m) }   total s    =>
 *   for c { y[n, c] = exp(x[n, c] - m) / s }     for c { y[n, c] = exp(x[n, c] - m.max) / m.sum }
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_row.h"

typedef struct {
    Row *w;
    KBuild *b;
    uint32_t max, sum; /* accumulators */
} Online;

static bool is_acc(const Kernel *k, KExpr e, uint32_t acc)
{
    const KExprInfo *x = kexpr(k, e);
    return x->kind == KE_ACC && x->acc == acc;
}

static const KStmt *fold_of(const RowPhase *p, uint32_t acc)
{
    for (uint32_t i = 0; i < p->fold.n; i++)
        if (p->fold.at[i].kind == KS_FOLD && p->fold.at[i].acc == acc)
            return &p->fold.at[i];
    return NULL;
}

/* exp(x - maximum), of what the maximum is of. */
static bool is_sum_of(const Kernel *k, const KStmt *sum, const KStmt *max)
{
    const KExprInfo *e = kexpr(k, sum->expr);
    if (e->kind != KE_OP || e->op != OP_exp)
        return false;
    const KExprInfo *d = kexpr(k, e->in[0]);
    return d->kind == KE_OP && d->op == OP_sub && d->in[0].id == max->expr.id &&
           is_acc(k, d->in[1], max->acc);
}

static bool find_sum(Online *o, uint32_t phase, const KStmt *max)
{
    const Kernel *k = o->b->k;
    for (uint32_t p = phase + 1; p < o->w->nphases; p++)
        for (uint32_t i = 0; i < o->w->phase[p].accs.n; i++) {
            o->sum = o->w->phase[p].accs.at[i];
            const KAcc *a = &k->accs.at[o->sum];
            const KStmt *fold = fold_of(&o->w->phase[p], o->sum);
            if (a->reducer == RED_add && a->type == k->accs.at[o->max].type && fold &&
                is_sum_of(k, fold, max))
                return true;
        }
    return false;
}

static void drop_acc(RowPhase *p, uint32_t acc)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->accs.n; i++)
        if (p->accs.at[i] != acc)
            p->accs.at[n++] = p->accs.at[i];
    p->accs.n = n;
    n = 0;
    for (uint32_t i = 0; i < p->fold.n; i++)
        if (p->fold.at[i].kind != KS_FOLD || p->fold.at[i].acc != acc)
            p->fold.at[n++] = p->fold.at[i];
    p->fold.n = n;
}

/* Nothing is built any more but statements: expressions may change where they stand. */
static void join(Online *o)
{
    Kernel *k = o->b->k;
    for (uint32_t e = 1; e < k->exprs.n; e++) {
        KExprInfo *x = &k->exprs.at[e];
        if (x->kind == KE_ACC && x->acc == o->max) {
            x->field = 1;
        } else if (x->kind == KE_ACC && x->acc == o->sum) {
            x->acc = o->max;
            x->field = 2;
        }
    }
    k->accs.at[o->max].reducer = RED_logsumexp;
    for (uint32_t p = 0; p < o->w->nphases; p++)
        drop_acc(&o->w->phase[p], o->sum);
}

void row_online(Row *w)
{
    Online o = {.w = w, .b = w->b};
    for (uint32_t p = 0; p + 1 < w->nphases; p++)
        for (uint32_t i = 0; i < w->phase[p].accs.n; i++) {
            o.max = w->phase[p].accs.at[i];
            const KAcc *a = &w->b->k->accs.at[o.max];
            const KStmt *max = fold_of(&w->phase[p], o.max);
            if (a->reducer == RED_max && (a->type == DT_f32 || a->type == DT_f64) && max &&
                find_sum(&o, p, max))
                join(&o);
        }
}
