/* conflicts.c: when temporaries live: those that live at the same time get places of their own in
 * the plan. SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"

typedef struct {
    HostProgram *h;
    bool *seen;
    uint32_t step;
} Live;

static void touch(Live *w, uint32_t buf)
{
    if (!buf)
        return;
    uint32_t root = host_root(w->h, buf);
    Buffer *b = &w->h->buffers.at[root];
    if (!w->seen[root])
        b->first = w->step;
    w->seen[root] = true;
    b->last = w->step;
}

static void touch_step(Live *w, const Step *s)
{
    switch (s->kind) {
    case STEP_LAUNCH:
        for (uint32_t i = 0; i < s->operands.n; i++)
            touch(w, s->operands.at[i].buf);
        break;
    case STEP_GEMM:
        touch(w, s->a.buf);
        touch(w, s->b.buf);
        touch(w, s->bias.buf);
        touch(w, s->c.buf);
        touch(w, s->sum_a.buf);
        touch(w, s->sum_b.buf);
        break;
    case STEP_COPY:
    case STEP_PRINT:
    case STEP_SWAP:
        touch(w, s->src);
        touch(w, s->dst);
        break;
    case STEP_FILL:
        touch(w, s->dst);
        break;
    case STEP_LOOP:
    case STEP_END:
        break;
    }
}

/* What is alive when a loop begins or ends, or is handed from turn to turn, is so all the time;
 * where rows go through the turns by themselves, one is here while another is there: so is
 * everything. */
static void stretch(const HostProgram *h, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) { /* a pair that changes places */
        const Step *s = &h->steps.at[i];
        const uint32_t pair[] = {s->dst, s->src};
        for (int k = 0; s->kind == STEP_SWAP && k < 2; k++)
            if (h->buffers.at[pair[k]].first > from)
                h->buffers.at[pair[k]].first = from;
    }
    for (uint32_t i = 1; i < h->buffers.n; i++) {
        Buffer *b = &h->buffers.at[i];
        const bool touched = b->last > from && b->first < to && b->first <= b->last;
        const bool inside = b->first > from && b->last < to;
        if (!touched || (inside && !h->steps.at[from].rows.id))
            continue;
        b->first = b->first > from ? from : b->first;
        b->last = b->last < to ? to : b->last;
    }
}

/* All that a strip touches is in use from its first step to its last. */
static void touch_strip(Live *w, const StepStrip *s)
{
    for (uint32_t i = 0; i < 2; i++) {
        const HostProgram *h = w->h;
        w->step = i ? s->first + s->n - 1 : s->first;
        for (uint32_t k = s->first; k < s->first + s->n; k++)
            touch_step(w, &h->steps.at[k]);
    }
}

/* Behind a loop of an odd number of turns each of a pair has the other's memory. */
static void join_pairs(HostProgram *h)
{
    for (uint32_t i = 0; i < h->steps.n; i++) {
        const Step *s = &h->steps.at[i];
        if (s->kind != STEP_SWAP)
            continue;
        Buffer *a = &h->buffers.at[host_root(h, s->dst)], *b = &h->buffers.at[host_root(h, s->src)];
        a->first = b->first = a->first < b->first ? a->first : b->first;
        a->last = b->last = a->last > b->last ? a->last : b->last;
    }
}

void host_conflicts(Lower *l)
{
    HostProgram *h = l->h;
    Live w = {.h = h, .seen = arena_array(l->a, bool, h->buffers.n)};
    for (uint32_t i = 0, strip = 0; i < h->steps.n; i++) {
        w.step = i;
        if (strip < h->strips.n && h->strips.at[strip].first == i) {
            touch_strip(&w, &h->strips.at[strip]);
            i += h->strips.at[strip++].n - 1;
        } else {
            touch_step(&w, &h->steps.at[i]);
        }
    }
    for (uint32_t i = 1; i < h->buffers.n; i++)
        if (!w.seen[i])
            h->buffers.at[i].first = UINT32_MAX;
    for (uint32_t i = h->steps.n; i-- > 0;) /* inner loops first */
        if (h->steps.at[i].kind == STEP_LOOP)
            stretch(h, i, h->steps.at[i].other);
    join_pairs(h);
    for (uint32_t i = 1; i < h->buffers.n; i++)
        if (!w.seen[i] || h->buffers.at[i].strip) {
            h->buffers.at[i].first = 1;
            h->buffers.at[i].last = 0;
        } else if (l->o->no_sharing) {
            h->buffers.at[i].first = 0;
            h->buffers.at[i].last = h->steps.n;
        }
}
