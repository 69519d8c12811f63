/* lower_traffic.c: what a kernel moves and computes, for -report. SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"

/* Work of one evaluation; what has a LET counts where the LET stands. */
static int64_t expr_work(const Kernel *k, KExpr e, const bool *let, bool top)
{
    if (!e.id || (!top && let[e.id]))
        return 0;
    const KExprInfo *x = kexpr(k, e);
    int64_t n = x->kind == KE_OP ? op_info(x->op)->weight : x->kind == KE_RANDOM ? 20 : 0;
    for (uint32_t i = 0; i < x->nin; i++)
        n += expr_work(k, x->in[i], let, false);
    return n;
}

static void find_lets(const KBlock *b, bool *let)
{
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->at[i].kind == KS_LET && !b->at[i].axis.id)
            let[b->at[i].expr.id] = true;
        find_lets(&b->at[i].body, let);
    }
}

/* The loops around a statement, and how often each runs. */
typedef struct {
    Symbol axis[32];
    Dim n[32];
    uint32_t depth;
} Around;

static Dim product_of(DimTable *t, const Around *w)
{
    Dim times = dim_const(t, 1);
    for (uint32_t i = 0; i < w->depth; i++)
        times = dim_mul(t, times, w->n[i]);
    return times;
}

/* Around the body of a loop. A loop over a part of an axis, from a bound that an outer loop gives,
 * counts the whole axis, and that outer loop not at all: its parts make up the whole. */
static Around inside(DimTable *t, const Around *w, const KStmt *loop)
{
    Around in = {.depth = 0};
    const bool part = dim_mentions_kind(t, loop->lo, SYM_AXIS);
    for (uint32_t i = 0; i < w->depth && in.depth + 1 < ARRAY_LEN(in.axis); i++)
        if (!part || !dim_mentions(t, loop->lo, w->axis[i])) {
            in.axis[in.depth] = w->axis[i];
            in.n[in.depth++] = w->n[i];
        }
    in.axis[in.depth] = loop->axis;
    in.n[in.depth++] = part ? dim_symbol(t, loop->axis)->extent : dim_sub(t, loop->hi, loop->lo);
    return in;
}

/* Marks the parameters that an expression loads. */
static void mark_loads(const Kernel *k, KExpr e, const bool *let, bool top, bool *loads)
{
    if (!e.id || (!top && let[e.id]))
        return;
    const KExprInfo *x = kexpr(k, e);
    if (x->kind == KE_LOAD)
        loads[x->param] = true;
    for (uint32_t i = 0; i < x->nin; i++)
        mark_loads(k, x->in[i], let, false, loads);
}

typedef struct {
    Program *p;
    Kernel *k;
    const bool *let;
    uint32_t *passes; /* loops that load each parameter, one after the other */
} Count;

/* Counts operations; each block that loads a parameter in its own statements is a pass over it,
 * with what is loaded around it counted once. */
static void count_block(Count *c, const KBlock *b, const Around *w)
{
    Kernel *k = c->k;
    DimTable *t = c->p->cx->dims;
    bool *loads = arena_array(c->p->cx->perm, bool, k->params.n + 1);
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        const int64_t work = expr_work(k, s->expr, c->let, true) + (s->kind == KS_FOLD);
        if (work)
            k->flops = dim_add(t, k->flops, dim_mul(t, dim_const(t, work), product_of(t, w)));
        mark_loads(k, s->expr, c->let, true, loads);
        if (s->kind == KS_FOR) {
            const Around in = inside(t, w, s);
            count_block(c, &s->body, &in);
        } else if (s->kind == KS_WHEN) {
            count_block(c, &s->body, w);
        }
    }
    for (uint32_t i = 0; i < k->params.n; i++)
        c->passes[i] += loads[i];
}

static Dim param_bytes(DimTable *t, const KParam *q)
{
    Dim bytes = dim_const(t, dtype_size(q->dtype));
    for (uint32_t j = 0; j < q->rank; j++)
        if (!dim_is_zero(t, q->stride[j]))
            bytes = dim_mul(t, bytes, q->shape[j]);
    return bytes;
}

void kernel_traffic(Program *p, Kernel *k)
{
    DimTable *t = p->cx->dims;
    bool *let = arena_array(p->cx->perm, bool, k->exprs.n);
    uint32_t *passes = arena_array(p->cx->perm, uint32_t, k->params.n + 1);
    find_lets(&k->body, let);
    Count c = {p, k, let, passes};
    const Around none = {.depth = 0};
    count_block(&c, &k->body, &none);
    for (uint32_t i = 0; i < k->params.n; i++) {
        const KParam *q = &k->params.at[i];
        const Dim bytes = param_bytes(t, q);
        /* a call, or an index, reads without a load that is seen here */
        const int64_t reads = passes[i] ? passes[i] : 1;
        if (q->mode != K_OUT) {
            k->bytes_read = dim_add(t, k->bytes_read, dim_mul(t, dim_const(t, reads), bytes));
            k->bytes_least = dim_add(t, k->bytes_least, bytes);
        }
        if (q->mode != K_IN) {
            k->bytes_written = dim_add(t, k->bytes_written, bytes);
            k->bytes_least = dim_add(t, k->bytes_least, bytes);
        }
    }
}
