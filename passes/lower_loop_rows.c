/* lower_loop_rows.c: loops whose rows know nothing of each other: the cells of a recurrent network,
 * one sequence a row. Threads can take rows then, and go through all turns without waiting for the
 * others.
 *
 *   loop t in 0..T                      rows B: row b of everything that the loop writes is made
 *     gemm y = H[t] * w     B rows      of row b of what it wrote before
 *     launch cell (x[t], y, H[t + 1])
 *   end
 *
 * What is looked at is memory: all that reads or writes a buffer which the loop writes finds row b
 * at b * pitch within blocks of B * pitch elements, the same pitch for all.
 * SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"

typedef struct {
    Lower *l;
    HostProgram *h;
    DimTable *t;
    uint32_t from, to; /* the loop and its end */
    Dim rows;
    bool *written; /* by buffer that is no piece: the loop writes it */
    Dim *pitch;    /* of these */
} Rows;

/* Nobody else has it: what the caller gives or the state is may be there twice. */
static bool note_written(Rows *w, uint32_t buf)
{
    if (!buf)
        return true;
    const Buffer *b = &w->h->buffers.at[host_root(w->h, buf)];
    w->written[host_root(w->h, buf)] = true;
    return b->kind == BUF_TEMP || b->kind == BUF_TAPE || b->kind == BUF_RESULT;
}

static bool note_step(Rows *w, const Step *s)
{
    if (host_on_cuda(w->l->m, s->place))
        return false;
    switch (s->kind) {
    case STEP_GEMM:
        return note_written(w, s->c.buf) && !s->sum_a.buf && !s->sum_b.buf && !s->bias.buf;
    case STEP_SWAP:
        return note_written(w, s->src) && note_written(w, s->dst);
    case STEP_LAUNCH: {
        const Kernel *k = w->l->m->kernels.at[s->kernel];
        for (uint32_t i = 0; i < s->operands.n; i++)
            if (k->params.at[i].mode != K_IN && !note_written(w, s->operands.at[i].buf))
                return false;
        return true;
    }
    default:
        return false;
    }
}

/* --- one access ---------------------------------------------------------------------------------
 */

/* Row b lies at offset + b * pitch and is `width` long. */
static bool access_rows(Rows *w, uint32_t buf, Dim offset, Dim pitch, Dim width)
{
    DimTable *t = w->t;
    uint32_t root = buf;
    for (; w->h->buffers.at[root].of; root = w->h->buffers.at[root].of)
        offset = dim_add(t, offset, w->h->buffers.at[root].offset);
    if (!w->written[root])
        return true;
    if (w->pitch[root].id && !dim_same(w->pitch[root], pitch))
        return false;
    w->pitch[root] = pitch;
    const Dim block = dim_mul(t, w->rows, pitch);
    if (dim_is_zero(t, offset) || dim_exact_div(t, offset, block).id)
        return dim_le(t, width, pitch) == YES;
    const DimSubst start = {w->h->steps.at[w->from].loop, dim_const(t, 0)};
    const Dim first = dim_substitute(t, offset, &start, 1), rest = dim_sub(t, offset, first);
    int64_t within;
    return dim_is_const(t, first, &within) && within >= 0 &&
           (dim_is_zero(t, rest) || dim_exact_div(t, rest, block).id) &&
           dim_le(t, dim_add(t, first, width), pitch) == YES;
}

static bool gemm_rows(Rows *w, const Step *s)
{
    DimTable *t = w->t;
    const DType type = w->h->buffers.at[s->a.buf].dtype;
    return dim_is_one(t, s->batch[0]) && dim_is_one(t, s->batch[1]) && dim_same(s->m, w->rows) &&
           (type == DT_f32 || type == DT_f64) && w->h->buffers.at[s->c.buf].dtype == type &&
           !w->written[host_root(w->h, s->b.buf)] && dim_is_one(t, s->a.cols) &&
           dim_is_one(t, s->c.cols) && access_rows(w, s->a.buf, s->a.offset, s->a.rows, s->k) &&
           access_rows(w, s->c.buf, s->c.offset, s->c.rows, s->n);
}

/* --- kernels ------------------------------------------------------------------------------------
 */

/* From the first element of a row of the parameter to its last one, and one more. */
static Dim row_width(DimTable *t, const KParam *p)
{
    Dim n = dim_const(t, 1);
    for (uint32_t i = 1; i < p->rank; i++)
        n = dim_add(t, n, dim_mul(t, dim_sub(t, p->shape[i], dim_const(t, 1)), p->stride[i]));
    return n;
}

/* Statements that a row may consist of, and what they store. */
static bool stores_rows(const Rows *w, const Step *s, const KBlock *b, Dim row)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *q = &b->at[i];
        if (q->kind == KS_CALL ||
            (q->kind == KS_STORE && w->written[host_root(w->h, s->operands.at[q->param].buf)] &&
             !dim_same(q->at[0], row)) ||
            !stores_rows(w, s, &q->body, row))
            return false;
    }
    return true;
}

static bool launch_rows(Rows *w, const Step *s)
{
    DimTable *t = w->t;
    const Kernel *k = w->l->m->kernels.at[s->kernel];
    const KStmt *grid = k->body.n == 1 ? &k->body.at[0] : NULL;
    if (!grid || grid->kind != KS_FOR || grid->loop != FOR_GRID || !dim_is_zero(t, grid->lo) ||
        !dim_same(grid->hi, w->rows) || !dim_exact_div(t, s->cells, w->rows).id)
        return false;
    const Dim row = dim_of(t, grid->axis);
    for (uint32_t i = 0; i < s->operands.n; i++) {
        const KParam *p = &k->params.at[i];
        if (!w->written[host_root(w->h, s->operands.at[i].buf)])
            continue;
        if (!p->rank || !dim_same(p->shape[0], w->rows) ||
            !access_rows(w, s->operands.at[i].buf, s->operands.at[i].offset, p->stride[0],
                         row_width(t, p)))
            return false;
    }
    for (uint32_t e = 1; e < k->exprs.n; e++) {
        const KExprInfo *x = &k->exprs.at[e];
        if (x->kind == KE_LOAD && w->written[host_root(w->h, s->operands.at[x->param].buf)] &&
            !dim_same(x->at[0], row))
            return false;
    }
    return stores_rows(w, s, &grid->body, row);
}

/* --- one loop -----------------------------------------------------------------------------------
 */

static bool step_rows(Rows *w, const Step *s)
{
    if (s->kind == STEP_GEMM)
        return gemm_rows(w, s);
    return s->kind == STEP_SWAP || launch_rows(w, s);
}

/* Two that change places are cut in the same way. */
static bool pairs_match(const Rows *w)
{
    for (uint32_t i = w->from + 1; i < w->to; i++) {
        const Step *s = &w->h->steps.at[i];
        if (s->kind == STEP_SWAP &&
            !dim_same(w->pitch[host_root(w->h, s->dst)], w->pitch[host_root(w->h, s->src)]))
            return false;
    }
    return true;
}

static bool has_rows(Rows *w)
{
    for (uint32_t i = w->from + 1; i < w->to; i++)
        if (!note_step(w, &w->h->steps.at[i]))
            return false;
    for (uint32_t i = w->from + 1; i < w->to && !w->rows.id; i++)
        if (w->h->steps.at[i].kind == STEP_GEMM)
            w->rows = w->h->steps.at[i].m;
    if (!w->rows.id || dim_mentions(w->t, w->rows, w->h->steps.at[w->from].loop))
        return false;
    for (uint32_t i = w->from + 1; i < w->to; i++)
        if (!step_rows(w, &w->h->steps.at[i]))
            return false;
    return pairs_match(w);
}

void host_loop_rows(Lower *l)
{
    HostProgram *h = l->h;
    if (l->o->no_fuse)
        return;
    for (uint32_t i = 0; i < h->steps.n; i++) {
        Step *s = &h->steps.at[i];
        if (s->kind != STEP_LOOP)
            continue;
        Rows w = {.l = l, .h = h, .t = l->t, .from = i, .to = s->other};
        w.written = arena_array(l->p->cx->scratch, bool, h->buffers.n);
        w.pitch = arena_array(l->p->cx->scratch, Dim, h->buffers.n);
        if (has_rows(&w))
            s->rows = w.rows;
    }
}
