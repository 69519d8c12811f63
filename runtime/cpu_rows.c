/* cpu_rows.c: a loop whose rows know nothing of each other (passes/lower_loop_rows.c): each thread
 * takes a block of rows through all turns and waits for nobody, where the threads would share every
 * step of every turn otherwise. What a block makes stays in its processor's cache. Products' other
 * operands are packed once for all turns. SPDX-License-Identifier: MIT */
#include "runtime/cpu.h"

#include <string.h>

enum {
    LEAST_ROWS = 12,      /* a block of fewer keeps no multiplier busy */
    MOST_BYTES = 3 << 19, /* of all operands that each thread reads every turn: its second cache */
    MAX_STEPS = 16        /* of the loop */
};

typedef struct {
    Call *c;
    const tn__loop *loop;
    const tn_step *step;
    int64_t rows, turns, blocks;
    const void *panels[MAX_STEPS]; /* by step of the loop: the packed operand */
    char *own;                     /* what changes from turn to turn, for each block */
    size_t own_bytes;
    atomic_int status;
} RowLoop;

/* A call as a block sees it: sizes, symbols and places are its own. */
typedef struct {
    Call call;
    tn__plan plan;
} View;

static View view_of(const RowLoop *w, int64_t block)
{
    const Call *c = w->c;
    View v = {.call = *c, .plan = *c->plan};
    char *at = w->own + (size_t)block * w->own_bytes;
    const size_t dims = (size_t)c->p->ndims * sizeof *v.plan.dims;
    const size_t symbols = (size_t)c->p->nsymbols * sizeof *v.plan.symbols;
    v.plan.dims = memcpy(at, c->plan->dims, dims);
    v.plan.symbols = memcpy(at + dims, c->plan->symbols, symbols);
    v.call.at = memcpy(at + dims + symbols, c->at, (size_t)c->p->nbuffers * sizeof *c->at);
    return v;
}

static size_t view_bytes(const Call *c)
{
    const size_t n = (size_t)c->p->ndims * sizeof(int64_t) +
                     (size_t)c->p->nsymbols * sizeof(int64_t) +
                     (size_t)c->p->nbuffers * sizeof(void *);
    return (n + 2 * TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN; /* blocks share no line */
}

static tn_status launch(const Call *c, const tn_step *s, int64_t rows, int64_t lo, int64_t hi)
{
    const tn_kernel *k = &c->m->d->kernels[s->kernel];
    tn_cpu_kernel *fn = tn__cpu_code(k, c->m->ctx->level);
    void *p[TN_MAX_OPERANDS];
    int64_t n[TN_MAX_SIZES];
    const int64_t cells = c->plan->dims[s->cells] / rows;
    if (!fn || !tn__cpu_arguments(c, s, p, n))
        return TN_ABI;
    fn(p, n, lo * cells, hi * cells);
    return TN_OK;
}

static tn_status run_turn(const RowLoop *w, Call *c, int64_t lo, int64_t hi)
{
    const int first = w->loop->step + 1;
    for (int i = first; i < w->step->operands; i++) {
        const tn_step *s = &c->p->steps[i];
        if (!c->plan->active[i])
            continue;
        if (s->kind == TN_STEP_SWAP) {
            tn__swap(c, s);
        } else if (s->kind == TN_STEP_GEMM) {
            tn__gemm_args g = tn__cpu_gemm_args(c, i);
            g.panels = w->panels[i - first];
            if (tn__gemm_rows(&g, lo, hi))
                return TN_ABI;
        } else if (launch(c, s, w->rows, lo, hi)) {
            return TN_ABI;
        }
    }
    return TN_OK;
}

static void run_blocks(void *ctx, int64_t from, int64_t to)
{
    RowLoop *w = ctx;
    for (int64_t b = from; b < to; b++) {
        View v = view_of(w, b);
        v.call.plan = &v.plan;
        const int64_t lo = w->rows * b / w->blocks, hi = w->rows * (b + 1) / w->blocks;
        tn_status e = TN_OK;
        for (int64_t i = 0; i < w->turns && !e; i++)
            e = tn__loop_turn(&v.call, w->loop, w->step->nops ? w->turns - 1 - i : i)
                    ? run_turn(w, &v.call, lo, hi)
                    : TN_SHAPE;
        if (e)
            atomic_store(&w->status, (int)e);
    }
}

/* --- whether, and with what ---------------------------------------------------------------------
 */

static bool varies(const tn__loop *l, int dim)
{
    for (int i = 0; i < l->ndims; i++)
        if (l->dims[i] == dim)
            return true;
    return false;
}

/* The other operand is in the same place each turn. */
static bool stays(const RowLoop *w, const tn_gemm_step *g)
{
    for (int i = 0; i < w->loop->npieces; i++)
        if (w->loop->pieces[i] == g->b.buf)
            return false;
    return !varies(w->loop, g->b.offset) && !varies(w->loop, g->n) && !varies(w->loop, g->k) &&
           !varies(w->loop, g->b.rows) && !varies(w->loop, g->b.cols);
}

/* Enough rows for the threads, and products by little enough. */
static bool is_worth(RowLoop *w)
{
    const Call *c = w->c;
    const int64_t threads = tn__pool_threads(c->m->ctx->pool);
    const int first = w->loop->step + 1;
    int64_t bytes = 0;
    w->blocks = w->rows / LEAST_ROWS < threads ? w->rows / LEAST_ROWS : threads;
    if (w->blocks < 2 || 2 * w->blocks <= threads || w->loop->nsteps || w->turns < 2 ||
        w->step->operands - first > MAX_STEPS)
        return false;
    for (int i = first; i < w->step->operands; i++) {
        const tn_step *s = &c->p->steps[i];
        if (c->plan->strip[i])
            return false;
        if (s->kind != TN_STEP_GEMM || !c->plan->active[i])
            continue;
        const tn_gemm_step *g = &c->p->gemms[s->kernel];
        bytes += c->plan->dims[g->n] * c->plan->dims[g->k] *
                 (int64_t)tn__dtype_size(c->p->buffers[g->b.buf].dtype);
    }
    return bytes <= MOST_BYTES;
}

/* Which products read what parameters have packed already; which ones want a copy, and where in
 * memory for all of them (offset + 1); their bytes. */
static size_t plan_packs(RowLoop *w, size_t *at)
{
    Call *c = w->c;
    const int first = w->loop->step + 1;
    size_t bytes = 0;
    for (int i = 0; first + i < w->step->operands; i++) {
        const tn_step *s = &c->p->steps[first + i];
        at[i] = 0;
        if (s->kind != TN_STEP_GEMM || !c->plan->active[first + i] ||
            !stays(w, &c->p->gemms[s->kernel]))
            continue;
        tn__gemm_args g = tn__cpu_gemm_args(c, first + i);
        tn__cpu_use_panels(c, first + i, &g);
        w->panels[i] = g.panels;
        const size_t need = g.panels ? 0 : tn__gemm_pack_bytes(&g, true);
        at[i] = need ? bytes + 1 : 0;
        bytes += (need + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
    }
    return bytes;
}

static void pack(RowLoop *w, const size_t *at, char *memory)
{
    const int first = w->loop->step + 1;
    for (int i = 0; first + i < w->step->operands; i++)
        if (at[i]) {
            const tn__gemm_args g = tn__cpu_gemm_args(w->c, first + i);
            w->panels[i] = memory + at[i] - 1;
            tn__gemm_pack(&g, memory + at[i] - 1, w->c->m->ctx->pool);
        }
}

/* Behind the loop, too, those that changed places are where the last turn left them. */
static void swap_all(const RowLoop *w)
{
    for (int64_t turn = 0; turn < w->turns % 2; turn++)
        for (int i = w->loop->step + 1; i < w->step->operands; i++)
            if (w->c->p->steps[i].kind == TN_STEP_SWAP)
                tn__swap(w->c, &w->c->p->steps[i]);
}

tn_status tn__cpu_rows(Call *c, const tn__loop *l, bool *done)
{
    const tn_step *s = &c->p->steps[l->step];
    tn__pool *pool = c->m->ctx->pool;
    RowLoop w = {.c = c, .loop = l, .step = s};
    w.rows = c->plan->dims[s->ints];
    w.turns = c->plan->dims[s->cells];
    *done = false;
    if (!is_worth(&w) || !tn__loop_turn(c, l, 0))
        return TN_OK;
    size_t at[MAX_STEPS];
    const size_t packed = plan_packs(&w, at);
    w.own_bytes = view_bytes(c);
    w.own = tn__pool_take(pool, packed + (size_t)w.blocks * w.own_bytes);
    if (!w.own)
        return TN_OK;
    *done = true;
    pack(&w, at, w.own);
    w.own += packed;
    tn__pool_run(pool, run_blocks, &w, w.blocks, 1);
    tn__pool_give(pool, w.own - packed);
    swap_all(&w);
    const tn_status e = (tn_status)atomic_load(&w.status);
    if (e)
        return tn__fail(e, e == TN_SHAPE ? "%s: a size overflows" : "%s: a loop cannot run by rows",
                        c->p->name);
    return tn__index_error_within(c, l->step + 1, s->operands);
}
