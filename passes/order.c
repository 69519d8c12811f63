/* order.c: the order of steps is the order of groups, which is topological; what is decided here is
 * which steps are left out. A gradient that the caller does not want is not computed:
 *
 *   launch k4 (dz, weights, d_x) when want(d_x)
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"

#define ALWAYS (1ull << 63)

typedef struct {
    Lower *l;
    uint64_t *needed; /* by root buffer: results that need what is in it now */
} Want;

static uint64_t *needed(const Want *w, uint32_t buf)
{
    return &w->needed[host_root(w->l->h, buf)];
}

/* Calls f for each buffer that the step reads or writes. */
static void each_operand(const Want *w, const Step *s, bool writes, uint64_t *mask, bool set)
{
    uint32_t bufs[8];
    uint32_t n = 0;
    if (s->kind == STEP_LAUNCH) {
        const Kernel *k = w->l->m->kernels.at[s->kernel];
        for (uint32_t i = 0; i < s->operands.n; i++) {
            bool write = k->params.at[i].mode != K_IN;
            if (writes ? !write : k->params.at[i].mode == K_OUT)
                continue;
            uint64_t *p = needed(w, s->operands.at[i].buf);
            if (set)
                *p |= *mask;
            else
                *mask |= *p;
        }
        return;
    }
    if (s->kind == STEP_GEMM && writes) {
        bufs[n++] = s->c.buf;
        bufs[n++] = s->sum_a.buf;
        bufs[n++] = s->sum_b.buf;
    } else if (s->kind == STEP_GEMM) {
        bufs[n++] = s->a.buf;
        bufs[n++] = s->b.buf;
        bufs[n++] = s->bias.buf;
    } else if (s->kind == STEP_SWAP) {
        bufs[n++] = s->dst;
        bufs[n++] = s->src;
    } else {
        bufs[n++] = writes ? s->dst : s->src;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!bufs[i])
            continue;
        if (set)
            *needed(w, bufs[i]) |= *mask;
        else
            *mask |= *needed(w, bufs[i]);
    }
}

static void add_want(Lower *l, Step *s, uint64_t mask)
{
    if (!mask || mask & ALWAYS || mask & (mask - 1))
        return;
    GuardTerm *g = arena_array(l->a, GuardTerm, s->when.n + 1);
    for (uint32_t i = 0; i < s->when.n; i++)
        g[i] = s->when.at[i];
    g[s->when.n] = (GuardTerm){.kind = G_WANT};
    while (mask >>= 1)
        g[s->when.n].k++;
    s->when = (Guard){g, s->when.n + 1};
}

/* A print, or a kernel that checks. */
static bool has_effect(const Lower *l, const Step *s)
{
    if (s->kind == STEP_PRINT)
        return true;
    if (s->kind != STEP_LAUNCH)
        return false;
    const Kernel *k = l->m->kernels.at[s->kernel];
    for (uint32_t i = 0; i < k->params.n; i++)
        if (k->params.at[i].mode != K_IN)
            return false;
    return true;
}

/* A loop is needed as a whole, by all that needs what is written in it: what a turn writes another
 * may read. */
static uint32_t order_loop(Want *w, uint32_t end)
{
    HostProgram *h = w->l->h;
    const uint32_t first = h->steps.at[end].other;
    uint64_t mask = 0;
    for (uint32_t i = first; i <= end; i++) {
        mask |= has_effect(w->l, &h->steps.at[i]) ? ALWAYS : 0;
        each_operand(w, &h->steps.at[i], true, &mask, false);
    }
    for (uint32_t i = first; i <= end; i++) {
        add_want(w->l, &h->steps.at[i], mask);
        each_operand(w, &h->steps.at[i], true, &mask, true);
        each_operand(w, &h->steps.at[i], false, &mask, true);
    }
    return first;
}

void host_order(Lower *l)
{
    HostProgram *h = l->h;
    if (l->g->kind != GRAPH_BACKWARD || h->args.n - h->nargs > 62)
        return;
    Want w = {l, arena_array(l->a, uint64_t, h->buffers.n)};
    for (uint32_t i = 1; i < h->buffers.n; i++)
        if (h->buffers.at[i].kind != BUF_TEMP)
            w.needed[i] = ALWAYS;
    for (uint32_t i = h->nargs; i < h->args.n; i++)
        if (h->buffers.at[h->args.at[i].buf].kind == BUF_RESULT && !h->args.at[i].inout)
            w.needed[h->args.at[i].buf] = 1ull << (i - h->nargs);
    for (uint32_t i = h->steps.n; i-- > 0;) {
        Step *s = &h->steps.at[i];
        if (s->kind == STEP_END) {
            i = order_loop(&w, i);
            continue;
        }
        uint64_t mask = has_effect(l, s) ? ALWAYS : 0;
        each_operand(&w, s, true, &mask, false);
        add_want(l, s, mask);
        each_operand(&w, s, false, &mask, true);
    }
}
