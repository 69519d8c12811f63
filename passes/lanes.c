/* lanes.c: the order of steps over several devices. One after the other, as groups come, a device
 * that waits for another would stand still though later steps are ready: what is given out in
 * another order keeps all of them busy. Each lane (a device, or its copies) takes the first step,
 * in the old order, whose operands are there by the time that it is free; times are those of hint
 * sizes.
 *
 *   cuda:0  a0 . . b0 a1 . . b1            cuda:0  a0 a1 a2 b0 a3 b1 ..
 *   cuda:1     c0 d0     c1 d1     ->      cuda:1     c0 d0 c1 d1 ..
 *
 * Old before new: a slice's gradient goes before the next slice, as soon as it can, and its memory
 * is free again. SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"

#include <string.h>

typedef VEC(uint32_t) Numbers;

/* Steps that stay together. */
typedef struct {
    uint32_t first, n, lane;
    bool barrier; /* a loop over several devices */
    double cost, ready;
    uint32_t waits; /* for so many others */
    Numbers next;   /* that wait for this one */
} Unit;

typedef struct {
    Lower *l;
    HostProgram *h;
    Arena *a;
    VEC(Unit) units;
    int32_t *writer;  /* root buffer: the last unit that wrote it, or -1 */
    Numbers *readers; /* root buffer: units that read it since */
    int32_t printed;
} Lanes;

/* --- units ------------------------------------------------------------------------------------ */

/* Whether it copies from one device to another. */
static bool crosses(const HostProgram *h, const Step *s)
{
    return s->kind == STEP_COPY && h->buffers.at[s->dst].place != h->buffers.at[s->src].place;
}

/* As the runtime has them: copies go with the GPU that they are read from, else with the other. */
static uint32_t lane_of(const Lanes *w, const Step *s)
{
    const HostModel *m = w->l->m;
    if (!crosses(w->h, s))
        return 2 * host_place(m, s->place);
    const Place from = w->h->buffers.at[s->src].place, to = w->h->buffers.at[s->dst].place;
    return 2 * host_place(m, host_on_cuda(m, from) ? from : to) + 1;
}

double host_step_time(const HostModel *m, const HostProgram *h, const Step *s)
{
    DimTable *t = m->p->cx->dims;
    const bool gpu = host_on_cuda(m, s->place);
    double bytes = 0, flops = 0;
    if (s->kind == STEP_LOOP || s->kind == STEP_END || s->kind == STEP_SWAP)
        return 0;
    if (s->kind == STEP_GEMM) {
        flops = 2 * dim_hint(t, s->m) * dim_hint(t, s->n) * dim_hint(t, s->k);
        for (int i = 0; i < 2; i++)
            flops *= s->batch[i].id ? dim_hint(t, s->batch[i]) : 1;
    } else if (s->kind == STEP_LAUNCH) {
        const Kernel *k = m->kernels.at[s->kernel];
        bytes += k->bytes_read.id ? dim_hint(t, k->bytes_read) : 0;
        bytes += k->bytes_written.id ? dim_hint(t, k->bytes_written) : 0;
    } else if (s->kind == STEP_COPY || s->kind == STEP_FILL) {
        const Buffer *b = &h->buffers.at[s->dst];
        bytes = dim_hint(t, dim_product(t, b->shape, b->rank)) * dtype_size(b->dtype);
    }
    if (crosses(h, s)) /* latency, and 25 GB a second */
        return 10 + bytes / 25e3;
    return gpu ? 5 + bytes / 1e6 + flops / 20e6 : 1 + bytes / 20e3 + flops / 100e3;
}

static uint32_t unit_length(const Lanes *w, uint32_t i)
{
    const HostProgram *h = w->h;
    const Step *s = &h->steps.at[i];
    if (s->kind == STEP_LOOP)
        return s->other + 1 - i;
    uint32_t n = 1;
    while (i + n < h->steps.n && h->steps.at[i + n].kind != STEP_LOOP &&
           lane_of(w, &h->steps.at[i + n]) == lane_of(w, s) &&
           ((s->group && h->steps.at[i + n].group == s->group) ||
            (s->contract && h->steps.at[i + n].contract == s->contract)))
        n++;
    return n;
}

static void depend(Lanes *w, uint32_t unit, int32_t on)
{
    if (on < 0 || (uint32_t)on == unit)
        return;
    Numbers *next = &w->units.at[on].next;
    if (next->n && next->at[next->n - 1] == unit)
        return;
    vec_push(w->a, next, unit);
    w->units.at[unit].waits++;
}

static void touch(Lanes *w, uint32_t unit, uint32_t buf, bool write)
{
    if (!buf)
        return;
    const uint32_t root = host_root(w->h, buf);
    depend(w, unit, w->writer[root]);
    if (!write) {
        vec_push(w->a, &w->readers[root], unit);
        return;
    }
    for (uint32_t i = 0; i < w->readers[root].n; i++)
        depend(w, unit, (int32_t)w->readers[root].at[i]);
    w->readers[root].n = 0;
    w->writer[root] = (int32_t)unit;
}

static void touch_step(Lanes *w, uint32_t unit, const Step *s)
{
    if (s->kind == STEP_LAUNCH) {
        const Kernel *k = w->l->m->kernels.at[s->kernel];
        for (uint32_t i = 0; i < s->operands.n; i++)
            touch(w, unit, s->operands.at[i].buf, k->params.at[i].mode != K_IN);
        return;
    }
    if (s->kind == STEP_GEMM) {
        touch(w, unit, s->a.buf, false);
        touch(w, unit, s->b.buf, false);
        touch(w, unit, s->bias.buf, false);
        touch(w, unit, s->c.buf, true);
        touch(w, unit, s->sum_a.buf, true);
        touch(w, unit, s->sum_b.buf, true);
        return;
    }
    if (s->kind == STEP_PRINT) {
        depend(w, unit, w->printed);
        w->printed = (int32_t)unit;
    }
    touch(w, unit, s->src, s->kind == STEP_SWAP);
    touch(w, unit, s->dst, true);
}

static void make_units(Lanes *w)
{
    HostProgram *h = w->h;
    for (uint32_t i = 0, n; i < h->steps.n; i += n) {
        n = unit_length(w, i);
        Unit u = {.first = i, .n = n, .lane = lane_of(w, &h->steps.at[i])};
        if (h->steps.at[i].kind == STEP_LOOP && n > 2)
            u.lane = lane_of(w, &h->steps.at[i + 1]);
        vec_push(w->a, &w->units, u);
        for (uint32_t k = i; k < i + n; k++) {
            const Step *s = &h->steps.at[k];
            const bool works = s->kind != STEP_LOOP && s->kind != STEP_END;
            Unit *unit = &vec_last(&w->units);
            unit->barrier |= works && lane_of(w, s) != u.lane;
            unit->cost += host_step_time(w->l->m, h, s);
            touch_step(w, w->units.n - 1, s);
        }
    }
}

/* --- the new order ---------------------------------------------------------------------------- */

/* Of the units that wait for nothing: the one that a lane would take, and when it begins. */
static int32_t candidate(const Lanes *w, const Numbers *ready, double free, double *start)
{
    int32_t best = -1;
    for (uint32_t i = 0; i < ready->n; i++) {
        const Unit *u = &w->units.at[ready->at[i]];
        const double at = u->ready > free ? u->ready : free;
        if (best < 0 || at < *start || (!(at > *start) && ready->at[i] < ready->at[best])) {
            best = (int32_t)i;
            *start = at;
        }
    }
    return best;
}

/* Units from .. to - 1, none of which is a barrier. */
static void order_units(Lanes *w, uint32_t from, uint32_t to, Numbers *out)
{
    const uint32_t nlanes = 2 * w->l->m->places.n;
    Numbers *ready = arena_alloc(w->a, nlanes * sizeof *ready);
    double *free = arena_alloc(w->a, nlanes * sizeof *free);
    memset(ready, 0, nlanes * sizeof *ready);
    for (uint32_t i = 0; i < nlanes; i++)
        free[i] = 0;
    for (uint32_t i = from; i < to; i++)
        if (!w->units.at[i].waits)
            vec_push(w->a, &ready[w->units.at[i].lane], i);
    for (uint32_t done = from; done < to; done++) {
        uint32_t lane = 0;
        int32_t pick = -1;
        double start = 0;
        for (uint32_t i = 0; i < nlanes; i++) {
            double at = 0;
            const int32_t k = candidate(w, &ready[i], free[i], &at);
            if (k >= 0 && (pick < 0 || at < start)) {
                lane = i;
                pick = k;
                start = at;
            }
        }
        CHECK(pick >= 0);
        const uint32_t unit = ready[lane].at[pick];
        ready[lane].at[pick] = ready[lane].at[--ready[lane].n];
        const Unit *u = &w->units.at[unit];
        vec_push(w->a, out, unit);
        free[lane] = start + u->cost;
        for (uint32_t i = 0; i < u->next.n; i++) {
            Unit *next = &w->units.at[u->next.at[i]];
            next->ready = next->ready > free[lane] ? next->ready : free[lane];
            if (--next->waits == 0 && u->next.at[i] < to)
                vec_push(w->a, &ready[next->lane], u->next.at[i]);
        }
    }
}

/* Ends and beginnings of loops know each other by number. */
static void reorder(Lanes *w, const Numbers *order)
{
    HostProgram *h = w->h;
    Step *steps = arena_alloc(w->a, h->steps.n * sizeof *steps);
    uint32_t n = 0;
    memcpy(steps, h->steps.at, h->steps.n * sizeof *steps);
    for (uint32_t i = 0; i < order->n; i++) {
        const Unit *u = &w->units.at[order->at[i]];
        for (uint32_t k = 0; k < u->n; k++, n++) {
            h->steps.at[n] = steps[u->first + k];
            if (steps[u->first + k].kind == STEP_LOOP || steps[u->first + k].kind == STEP_END)
                h->steps.at[n].other = h->steps.at[n].other + n - (u->first + k);
        }
    }
    CHECK(n == h->steps.n);
}

void host_lanes(Lower *l)
{
    HostProgram *h = l->h;
    if (l->m->places.n < 2)
        return;
    Lanes w = {.l = l, .h = h, .a = l->p->cx->scratch, .printed = -1};
    w.writer = arena_array(w.a, int32_t, h->buffers.n);
    w.readers = arena_alloc(w.a, h->buffers.n * sizeof *w.readers);
    memset(w.readers, 0, h->buffers.n * sizeof *w.readers);
    for (uint32_t i = 0; i < h->buffers.n; i++)
        w.writer[i] = -1;
    make_units(&w);
    Numbers order = {0};
    for (uint32_t from = 0, to; from < w.units.n; from = to + 1) {
        for (to = from; to < w.units.n && !w.units.at[to].barrier; to++)
            continue;
        order_units(&w, from, to, &order);
        if (to == w.units.n)
            break;
        vec_push(w.a, &order, to);
        const Unit *u = &w.units.at[to];
        for (uint32_t i = 0; i < u->next.n; i++)
            w.units.at[u->next.at[i]].waits--;
    }
    reorder(&w, &order);
}
