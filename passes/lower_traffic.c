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

static void count_block(Program *p, Kernel *k, const KBlock *b, Dim times, const bool *let)
{
    DimTable *t = p->cx->dims;
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        int64_t work = expr_work(k, s->expr, let, true) + (s->kind == KS_FOLD);
        if (work)
            k->flops = dim_add(t, k->flops, dim_mul(t, dim_const(t, work), times));
        if (s->kind != KS_FOR)
            continue;
        /* chunks: the loop inside the grid counts the whole axis */
        bool chunk = dim_mentions_kind(t, s->lo, SYM_AXIS);
        Dim n = chunk ? dim_symbol(t, s->axis)->extent : dim_sub(t, s->hi, s->lo);
        bool outer = s->loop == FOR_GRID && s->body.n && s->body.at[0].kind == KS_FOR &&
                     dim_mentions(t, s->body.at[0].lo, s->axis);
        count_block(p, k, &s->body, outer ? times : dim_mul(t, times, n), let);
    }
}

void kernel_traffic(Program *p, Kernel *k)
{
    DimTable *t = p->cx->dims;
    for (uint32_t i = 0; i < k->params.n; i++) {
        const KParam *q = &k->params.at[i];
        Dim bytes = dim_const(t, dtype_size(q->dtype));
        for (uint32_t j = 0; j < q->rank; j++)
            if (!dim_is_zero(t, q->stride[j]))
                bytes = dim_mul(t, bytes, q->shape[j]);
        if (q->mode != K_OUT)
            k->bytes_read = dim_add(t, k->bytes_read, bytes);
        if (q->mode != K_IN)
            k->bytes_written = dim_add(t, k->bytes_written, bytes);
    }
    k->bytes_least = dim_add(t, k->bytes_read, k->bytes_written);
    bool *let = arena_array(p->cx->perm, bool, k->exprs.n);
    find_lets(&k->body, let);
    count_block(p, k, &k->body, dim_const(t, 1), let);
}
