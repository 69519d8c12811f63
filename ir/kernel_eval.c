/* kernel_eval.c: the interpreter of kernel IR. Loops of every kind run in order; a LET is evaluated
 * where it stands. SPDX-License-Identifier: MIT */
#include "ir/kernel_eval.h"

#include "ir/base/die.h"
#include "ir/eval.h"
#include "ir/scalar.h"

#include <math.h>
#include <string.h>

/* An accumulator: fields as the rows of reducers.def name them. */
typedef struct {
    ScalarValue x; /* value; mean of moments; maximum of logsumexp */
    int64_t index; /* argmax, argmin */
    double n, m2, s;
    bool started;
} AccState;

/* How many came to a counter. */
typedef struct {
    const KStmt *at;
    int64_t counter, lane, n;
} Arrived;

typedef struct {
    Program *p;
    DimTable *t;
    const Kernel *k;
    const KernelArray *operands;
    const int64_t *offset;
    int64_t *values;
    ScalarValue *let;
    bool *has_let;
    AccState *acc;
    AccState **side; /* one for each element, of side sums */
    int64_t *side_n;
    ScalarValue **keep;
    int64_t *keep_n;
    VEC(Arrived) arrived;
    const char *failed;
    bool check;
} Run;

static void fail(Run *r, const char *fmt, const char *what)
{
    if (!r->failed)
        r->failed = arena_printf(r->p->cx->perm, fmt, what);
}

static int64_t size(Run *r, Dim d)
{
    int64_t v = 0;
    if (d.id && !dim_eval(r->t, d, r->values, &v))
        fail(r, "an index cannot be evaluated: %s", dim_text(r->t, r->p->cx->perm, d));
    return v;
}

static bool holds(Run *r, Guard g)
{
    for (uint32_t i = 0; i < g.n; i++) {
        const GuardTerm *x = &g.at[i];
        int64_t a = size(r, x->a), b = size(r, x->b);
        bool ok = true;
        switch (x->kind) {
        case G_EQ:
            ok = a == b;
            break;
        case G_NE:
            ok = a != b;
            break;
        case G_LT:
            ok = a < b;
            break;
        case G_LE:
            ok = a <= b;
            break;
        case G_DIVISIBLE:
            ok = a % x->k == 0;
            break;
        case G_ARCH:
        case G_HAS:
        case G_CHOICE:
            ok = false;
            break;
        case G_WANT:
            ok = true;
            break;
        }
        if (!ok)
            return false;
    }
    return true;
}

static ScalarValue *element(Run *r, uint32_t param, const Dim *at)
{
    const KParam *q = &r->k->params.at[param];
    int64_t linear = r->offset[param];
    for (uint32_t i = 0; i < q->rank; i++) {
        int64_t index = size(r, at[i]);
        if (index < 0 || index >= size(r, q->shape[i]))
            fail(r, "index out of the shape of %s", sym_text(r->p->cx->names, q->name));
        linear += index * size(r, q->stride[i]);
    }
    if (linear < 0 || linear >= r->operands[param].n) {
        fail(r, "index out of the memory of %s", sym_text(r->p->cx->names, q->name));
        return NULL;
    }
    return &r->operands[param].at[linear];
}

/* --- expressions
 * ---------------------------------------------------------------------------------- */

static ScalarValue eval(Run *r, KExpr e);

static ScalarValue eval_rng(Run *r, const KExprInfo *x)
{
    uint32_t w[4];
    ScalarValue v = {0};
    if (x->kind == KE_KEY) {
        uint64_t seed = (uint64_t)eval(r, x->in[0]).i, calls = (uint64_t)eval(r, x->in[1]).i;
        uint64_t loop = x->nin > 2 ? (uint64_t)eval(r, x->in[2]).i : 0;
        eval_philox((uint64_t)x->word, (calls & UINT32_MAX) | loop << 32, seed, w);
        v.i = (int64_t)((uint64_t)w[1] << 32 | w[0]);
        return v;
    }
    int64_t k = size(r, x->index);
    eval_philox((uint64_t)k / 4, 0, (uint64_t)eval(r, x->in[0]).i, w);
    if (x->field == RANDOM_BITS)
        v.i = eval_wrap(DT_i32, w[k % 4]);
    else if (x->field == RANDOM_UNIFORM)
        v.f = (double)(w[k % 4] >> 8) * 0x1p-24;
    else
        v.f = dtype_round(DT_f32, eval_normal(w[k % 4 / 2 * 2], w[k % 4 / 2 * 2 + 1], k % 2 != 0));
    return v;
}

static ScalarValue eval_extern(Run *r, const KExprInfo *x)
{
    static const char *const names[3] = {"a", "b", "c"};
    const char *error;
    uint32_t at;
    double in[3] = {0};
    ScalarValue v = {0};
    const ScalarExpr *text = scalar_parse(r->p->cx->perm, sym_text(r->p->cx->names, x->text), names,
                                          x->nin, &error, &at);
    for (uint32_t i = 0; i < x->nin; i++)
        in[i] = eval(r, x->in[i]).f;
    if (text)
        v.f = dtype_round(x->type, scalar_eval(text, in));
    else
        fail(r, "extern: %s", error);
    return v;
}

/* The accumulator, or its element `at` if it is a side sum. */
static AccState *acc_state(Run *r, uint32_t acc, Dim at)
{
    if (!r->k->accs.at[acc].side)
        return &r->acc[acc];
    const int64_t i = size(r, at);
    if (i >= 0 && i < r->side_n[acc])
        return &r->side[acc][i];
    fail(r, "index out of %s", "a side sum");
    return &r->acc[acc];
}

static ScalarValue eval_acc(Run *r, const KExprInfo *x)
{
    const KAcc *acc = &r->k->accs.at[x->acc];
    const AccState *s = acc_state(r, x->acc, x->index);
    ScalarValue v = s->x;
    if (acc->reducer == RED_moments)
        v.f = x->field ? s->m2 / s->n : s->x.f;
    else if (acc->reducer == RED_logsumexp && x->field == 2)
        v.f = s->started ? s->s : 0;
    else if (acc->reducer == RED_logsumexp && x->field == 1)
        v.f = s->started ? s->x.f : -INFINITY;
    else if (acc->reducer == RED_logsumexp)
        v.f = s->started ? s->x.f + log(s->s) : -INFINITY;
    else if (x->field)
        v.i = s->index;
    if (dtype_is_float(x->type))
        v.f = dtype_round(x->type, v.f);
    return v;
}

static ScalarValue eval_kept(Run *r, const KExprInfo *x)
{
    int64_t i = size(r, x->index);
    if (i < 0 || i >= r->keep_n[x->keep]) {
        fail(r, "index out of %s", "a kept value");
        return (ScalarValue){0};
    }
    return r->keep[x->keep][i];
}

static ScalarValue eval_op(Run *r, const KExprInfo *x)
{
    ScalarValue in[3];
    for (uint32_t i = 0; i < x->nin; i++)
        in[i] = eval(r, x->in[i]);
    return eval_row(x->op, kexpr(r->k, x->in[x->nin - 1])->type, in);
}

static ScalarValue eval(Run *r, KExpr e)
{
    const KExprInfo *x = kexpr(r->k, e);
    ScalarValue v = {0};
    if (r->failed)
        return v;
    if (r->has_let[e.id])
        return r->let[e.id];
    switch (x->kind) {
    case KE_CONST:
        if (dtype_is_float(x->type))
            v.f = x->value;
        else
            v.i = x->word;
        return v;
    case KE_INDEX:
        v.i = eval_wrap(x->type, size(r, x->index));
        return v;
    case KE_LOAD: {
        const ScalarValue *p = element(r, x->param, x->at);
        return p ? *p : v;
    }
    case KE_OP:
        return eval_op(r, x);
    case KE_EXTERN:
        return eval_extern(r, x);
    case KE_CAST:
        return eval_cast(kexpr(r->k, x->in[0])->type, x->type, eval(r, x->in[0]));
    case KE_BITCAST:
        return eval_from_bits(x->type,
                              eval_to_bits(kexpr(r->k, x->in[0])->type, eval(r, x->in[0])));
    case KE_SELECT:
        return eval(r, x->in[holds(r, x->pred) ? 0 : 1]);
    case KE_ACC:
        return eval_acc(r, x);
    case KE_KEEP:
        return eval_kept(r, x);
    case KE_KEY:
    case KE_RANDOM:
        return eval_rng(r, x);
    }
    return v;
}

/* --- statements
 * ----------------------------------------------------------------------------------- */

static void start_state(const KAcc *a, AccState *s)
{
    memset(s, 0, sizeof *s);
    bool real = dtype_is_float(a->type);
    bool high = a->reducer == RED_max || a->reducer == RED_argmax;
    bool low = a->reducer == RED_min || a->reducer == RED_argmin;
    int bits = 8 * dtype_size(a->type);
    if (!real && dtype_kind(a->type) == DK_INT && (high || low)) {
        int64_t lowest = INT64_MIN >> (64 - bits);
        s->x.i = high ? lowest : -(lowest + 1);
    } else if (!real && low) {
        s->x.i = a->type == DT_u8 ? UINT8_MAX : a->type == DT_bool ? 1 : -1;
    }
    if (a->reducer == RED_mul) {
        if (real)
            s->x.f = 1;
        else
            s->x.i = 1;
    }
    if (a->reducer == RED_and)
        s->x.i = a->type == DT_bool ? 1 : -1;
    if (real && (a->reducer == RED_max || a->reducer == RED_argmax || a->reducer == RED_logsumexp))
        s->x.f = -INFINITY;
    if (real && (a->reducer == RED_min || a->reducer == RED_argmin))
        s->x.f = INFINITY;
}

static void start_acc(Run *r, uint32_t acc)
{
    const KAcc *a = &r->k->accs.at[acc];
    start_state(a, &r->acc[acc]);
    if (!a->side)
        return;
    const int64_t n = size(r, dim_symbol(r->t, a->axis)->extent);
    if (!r->side[acc])
        r->side[acc] = arena_array(r->p->cx->perm, AccState, n);
    r->side_n[acc] = n;
    for (int64_t i = 0; i < n; i++)
        start_state(a, &r->side[acc][i]);
}

static void fold_logsumexp(AccState *s, double x)
{
    double m = s->started && s->x.f > x ? s->x.f : x;
    if (m == -INFINITY)
        return;
    s->s = (s->started ? s->s * exp(s->x.f - m) : 0) + exp(x - m);
    s->x.f = m;
    s->started = true;
}

static void fold_moments(AccState *s, double x)
{
    s->n++;
    double d = x - s->x.f;
    s->x.f += d / s->n;
    s->m2 += d * (x - s->x.f);
}

static void fold_extreme(const KAcc *a, AccState *s, ScalarValue x, int64_t index)
{
    bool high = a->reducer == RED_max || a->reducer == RED_argmax, real = dtype_is_float(a->type);
    bool better = real ? (high ? x.f > s->x.f : x.f < s->x.f) || (x.f != x.f && s->x.f == s->x.f)
                       : (high ? x.i > s->x.i : x.i < s->x.i);
    if (better || !s->started) {
        s->x = x;
        s->index = index;
    }
    s->started = true;
}

static void fold(Run *r, const KStmt *st)
{
    const KAcc *a = &r->k->accs.at[st->acc];
    AccState *s = acc_state(r, st->acc, st->keep_index);
    ScalarValue x = eval(r, st->expr), pair[2] = {s->x, x};
    switch (a->reducer) {
    case RED_add:
        if (dtype_is_float(a->type))
            s->x.f += x.f; /* in double: an order of summation is not what is tested */
        else
            s->x = eval_row(OP_add, a->type, pair);
        break;
    case RED_mul:
        s->x = eval_row(OP_mul, a->type, pair);
        break;
    case RED_or:
        s->x = eval_row(OP_or, a->type, pair);
        break;
    case RED_and:
        s->x = eval_row(OP_and, a->type, pair);
        break;
    case RED_logsumexp:
        fold_logsumexp(s, x.f);
        break;
    case RED_moments:
        fold_moments(s, x.f);
        break;
    default:
        fold_extreme(a, s, x, size(r, st->fold_index));
    }
}

static void keep(Run *r, const KStmt *s)
{
    int64_t n = size(r, r->k->keeps.at[s->keep].extent), i = size(r, s->keep_index);
    if (!r->keep[s->keep]) {
        r->keep[s->keep] = arena_array(r->p->cx->perm, ScalarValue, n);
        r->keep_n[s->keep] = n;
    }
    if (i >= 0 && i < n)
        r->keep[s->keep][i] = eval(r, s->expr);
    else
        fail(r, "index out of %s", "a kept value");
}

/* Whether all cells that come to the counter are there with this one; the counter is 0 again. The
 * lanes of a grid, and the elements of a tile, count for themselves: each has cells of its own. */
static bool is_last(Run *r, const KStmt *s)
{
    Arrived now = {s, size(r, s->lo), 0, 0};
    const int64_t count = size(r, s->hi);
    if (now.counter < 0 || now.counter >= r->k->counters)
        fail(r, "%s", "there is no such counter");
    for (const KBlock *b = &r->k->body; b->n == 1 && b->at[0].kind == KS_FOR; b = &b->at[0].body)
        if (b->at[0].grid_lanes || (r->k->tile.m && b->at[0].loop == FOR_GRID))
            now.lane = dim_mentions(r->t, s->lo, b->at[0].axis)
                           ? now.lane << 20 | r->values[b->at[0].axis.id]
                           : 0;
    uint32_t i = 0;
    while (i < r->arrived.n && (r->arrived.at[i].at != s || r->arrived.at[i].lane != now.lane ||
                                r->arrived.at[i].counter != now.counter))
        i++;
    if (i == r->arrived.n)
        vec_push(r->p->cx->perm, &r->arrived, now);
    if (++r->arrived.at[i].n < count)
        return false;
    r->arrived.at[i].n = 0;
    return true;
}

static void run_block(Run *r, const KBlock *b);

static void run_stmt(Run *r, const KStmt *s)
{
    ScalarValue *to, v;
    switch (s->kind) {
    case KS_FOR: {
        int64_t hi = size(r, s->hi);
        for (int64_t i = size(r, s->lo); i < hi && !r->failed; i++) {
            r->values[s->axis.id] = i;
            run_block(r, &s->body);
        }
        break;
    }
    case KS_WHEN:
        if (holds(r, s->pred))
            run_block(r, &s->body);
        break;
    case KS_LAST:
        if (is_last(r, s))
            run_block(r, &s->body);
        break;
    case KS_LET:
        v = eval(r, s->expr);
        if (s->axis.id) {
            r->values[s->axis.id] = v.i;
        } else {
            r->let[s->expr.id] = v;
            r->has_let[s->expr.id] = true;
        }
        break;
    case KS_STORE:
        v = eval(r, s->expr);
        to = element(r, s->param, s->at);
        if (to)
            *to = v;
        break;
    case KS_FOLD:
        fold(r, s);
        break;
    case KS_KEEP:
        keep(r, s);
        break;
    case KS_ACC:
        start_acc(r, s->acc);
        break;
    case KS_CHECK:
        if (!holds(r, s->pred))
            r->check = false;
        break;
    case KS_CALL:
        fail(r, "%s is a function of the runtime, which is not evaluated",
             sym_text(r->p->cx->names, s->call));
        break;
    case KS_TOTAL:
    case KS_BARRIER:
        break;
    }
}

static void run_block(Run *r, const KBlock *b)
{
    for (uint32_t i = 0; i < b->n && !r->failed; i++)
        run_stmt(r, &b->at[i]);
    for (uint32_t i = 0; i < b->n; i++)
        if (b->at[i].kind == KS_LET)
            r->has_let[b->at[i].expr.id] = false;
}

const char *kernel_eval(Program *p, const Kernel *k, const KernelArray *operands,
                        const int64_t *offset, int64_t *values, bool *check)
{
    Arena *a = p->cx->perm;
    Run r = {.p = p,
             .t = p->cx->dims,
             .k = k,
             .operands = operands,
             .offset = offset,
             .values = values,
             .check = true};
    r.let = arena_array(a, ScalarValue, k->exprs.n);
    r.has_let = arena_array(a, bool, k->exprs.n);
    r.acc = arena_array(a, AccState, k->accs.n + 1);
    r.side = arena_array(a, AccState *, k->accs.n + 1);
    r.side_n = arena_array(a, int64_t, k->accs.n + 1);
    r.keep = arena_array(a, ScalarValue *, k->keeps.n + 1);
    r.keep_n = arena_array(a, int64_t, k->keeps.n + 1);
    if (holds(&r, k->when))
        run_block(&r, &k->body);
    if (!r.check)
        *check = false;
    return r.failed;
}
