/* lanes.c: steps over several devices. Each device works through its steps in their order, and has
 * a second lane for copies from and to other devices; what one lane needs of another it waits for,
 * by an event behind the step in question. Which steps these are, the memory says that steps read
 * and write: found once a plan, and a step that waits for another waits for all that one has waited
 * for.
 *
 *     cuda:0       h = x * a .................. next slice ...
 *     cuda:0 copies          t = h
 *     cuda:1                       y = t * b .. next slice ...
 *
 * The CPU is a lane too: it works while steps are given out, and waits itself.
 * SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };

/* Steps that run one after the other on a lane. Lane 2 * place is the device's, the next one that
 * of its copies. */
typedef struct {
    int first, end, lane;
    bool serial;      /* a loop over several devices: alone, and one step after the other */
    int wait, nwaits; /* waits[wait ..]: units to wait for */
    tn_event event;   /* behind it, where others wait for it */
    bool waited_for;
} Unit;

/* A piece of memory that a unit reads or writes. Space: a device's temporaries, or a buffer. */
typedef struct {
    int space;
    size_t lo, hi;
    bool write;
} Access;

struct tn__lanes {
    tn__device **devices; /* of the lanes */
    Unit *units;
    int nunits, nlanes;
    int *waits, nwaits, room;
};

/* While the plan is made. */
typedef struct {
    tn_model *m;
    const tn_program *p;
    const tn__plan *plan;
    struct tn__lanes *l;
    Access *at; /* of all units */
    int n, room;
    int *from;  /* unit: the first of its accesses */
    int *known; /* [unit][lane]: the last unit of the lane that this one comes after */
    bool failed;
} Planner;

/* --- what steps read and write --------------------------------------------------------------- */

bool tn__crosses(const tn_program *p, const tn_step *s)
{
    const tn_operand *o = &p->operands[s->operands];
    return s->kind == TN_STEP_COPY && p->buffers[o[0].buf].place != p->buffers[o[1].buf].place;
}

static void *grow(Planner *q, void *at, int n, int *room, size_t size)
{
    if (n < *room)
        return at;
    const int more = 2 * *room + 64;
    void *grown = realloc(at, (size_t)more * size);
    q->failed |= !grown;
    if (!grown)
        return at;
    *room = more;
    return grown;
}

/* The buffer that one lies in, and where; a piece at an offset that turns change is the whole. */
static Access access_of(const Planner *q, int buf, bool whole, bool write)
{
    const tn_program *p = q->p;
    size_t offset = 0, bytes = q->plan->bytes[buf];
    int root = buf;
    while (p->buffers[root].of) {
        const tn_buffer *b = &p->buffers[root];
        offset += (size_t)q->plan->dims[b->offset] * tn__dtype_size(b->dtype);
        root = b->of;
    }
    if (whole) {
        offset = 0;
        bytes = q->plan->bytes[root];
    }
    Access a = {.space = root, .lo = offset, .hi = offset + bytes, .write = write};
    if (p->buffers[root].kind == TN_BUF_TEMP) {
        a.space = -1 - p->buffers[root].place;
        a.lo += q->plan->place[root];
        a.hi += q->plan->place[root];
    }
    return a;
}

static void add_access(Planner *q, int buf, bool whole, bool write)
{
    if (!buf || (q->p->buffers[buf].strip && !q->p->buffers[buf].of))
        return; /* seen by its strip alone */
    q->at = grow(q, q->at, q->n, &q->room, sizeof *q->at);
    if (!q->failed)
        q->at[q->n++] = access_of(q, buf, whole, write);
}

static void add_step(Planner *q, const tn_step *s, bool whole)
{
    const tn_operand *o = &q->p->operands[s->operands];
    if (s->kind == TN_STEP_LAUNCH) {
        const uint64_t writes = q->m->d->kernels[s->kernel].writes;
        for (int i = 0; i < s->nops; i++)
            add_access(q, o[i].buf, true, writes >> (i < 63 ? i : 63) & 1);
    } else if (s->kind == TN_STEP_GEMM) {
        const tn_gemm_step *g = &q->p->gemms[s->kernel];
        add_access(q, g->a.buf, true, false);
        add_access(q, g->b.buf, true, false);
        add_access(q, g->bias.buf, true, false);
        add_access(q, g->c.buf, true, true);
        add_access(q, g->sum_a.buf, true, true);
        add_access(q, g->sum_b.buf, true, true);
    } else if (s->kind == TN_STEP_COPY || s->kind == TN_STEP_SWAP) {
        add_access(q, o[0].buf, whole, true);
        add_access(q, o[1].buf, whole, s->kind == TN_STEP_SWAP);
    } else if (s->kind == TN_STEP_FILL || s->kind == TN_STEP_PRINT) {
        add_access(q, o[0].buf, whole, s->kind == TN_STEP_FILL);
    }
}

/* --- units ------------------------------------------------------------------------------------ */

/* A copy goes along the lane for copies of the GPU that it is read from, else that it is made on.
 */
static int lane_of(const tn_model *m, const tn_program *p, const tn_step *s)
{
    if (!tn__crosses(p, s))
        return 2 * s->place;
    const int to = p->buffers[p->operands[s->operands].buf].place;
    if (!m->parts[s->place]->dev->ops->host)
        return 2 * s->place + 1;
    return m->parts[to]->dev->ops->host ? 2 * s->place : 2 * to + 1;
}

static bool one_lane(const Planner *q, int from, int to, int *lane)
{
    *lane = NONE;
    for (int i = from; i < to; i++) {
        const int kind = q->p->steps[i].kind;
        if (kind == TN_STEP_LOOP || kind == TN_STEP_END)
            continue;
        const int of = lane_of(q->m, q->p, &q->p->steps[i]);
        if (*lane != NONE && *lane != of)
            return false;
        *lane = of;
    }
    return true;
}

static void add_unit(Planner *q, int first, int end)
{
    struct tn__lanes *l = q->l;
    Unit *u = &l->units[l->nunits];
    const bool loop = q->p->steps[first].kind == TN_STEP_LOOP;
    *u = (Unit){.first = first, .end = end};
    u->serial = !one_lane(q, first, end, &u->lane);
    if (u->lane == NONE) /* a loop of nothing */
        return;
    q->from[l->nunits++] = q->n;
    for (int i = first; i < end; i++)
        if (loop || q->plan->active[i] || q->plan->strip[first])
            add_step(q, &q->p->steps[i], loop);
    q->from[l->nunits] = q->n;
}

static void make_units(Planner *q)
{
    const tn_program *p = q->p;
    for (int i = 0; i < p->nsteps && !q->failed;) {
        const int strip = q->plan->strip[i];
        const int end = strip                              ? i + p->strips[strip - 1].n
                        : p->steps[i].kind == TN_STEP_LOOP ? p->steps[i].operands + 1
                                                           : i + 1;
        if (strip || q->plan->active[i])
            add_unit(q, i, end);
        i = end;
    }
}

/* --- what waits for what ---------------------------------------------------------------------- */

static bool conflict(const Planner *q, int a, int b)
{
    for (int i = q->from[a]; i < q->from[a + 1]; i++)
        for (int k = q->from[b]; k < q->from[b + 1]; k++) {
            const Access *x = &q->at[i], *y = &q->at[k];
            if (x->space == y->space && (x->write || y->write) && x->lo < y->hi && y->lo < x->hi)
                return true;
        }
    return false;
}

static void wait_for(Planner *q, int unit, int other)
{
    struct tn__lanes *l = q->l;
    l->waits = grow(q, l->waits, l->nwaits, &l->room, sizeof *l->waits);
    if (q->failed)
        return;
    l->waits[l->nwaits++] = other;
    l->units[unit].nwaits++;
    l->units[other].waited_for = true;
    int *mine = q->known + (ptrdiff_t)unit * l->nlanes;
    const int *its = q->known + (ptrdiff_t)other * l->nlanes;
    for (int i = 0; i < l->nlanes; i++)
        mine[i] = its[i] > mine[i] ? its[i] : mine[i];
}

/* Behind the last unit of each lane. */
static void wait_for_all(Planner *q, int unit, const int *last)
{
    for (int lane = 0; lane < q->l->nlanes; lane++)
        if (lane != q->l->units[unit].lane && last[lane] > q->known[unit * q->l->nlanes + lane])
            wait_for(q, unit, last[lane]);
}

static void find_waits(Planner *q, int unit, const int *last, int alone)
{
    struct tn__lanes *l = q->l;
    Unit *u = &l->units[unit];
    int *mine = q->known + (ptrdiff_t)unit * l->nlanes;
    for (int i = 0; i < l->nlanes; i++)
        mine[i] = last[u->lane] == NONE ? NONE : q->known[last[u->lane] * l->nlanes + i];
    u->wait = l->nwaits;
    if (u->serial)
        wait_for_all(q, unit, last);
    else if (alone != NONE && l->units[alone].lane != u->lane && mine[l->units[alone].lane] < alone)
        wait_for(q, unit, alone);
    for (int k = unit - 1; k >= 0 && !u->serial && !q->failed; k--)
        if (l->units[k].lane != u->lane && k > mine[l->units[k].lane] && conflict(q, unit, k))
            wait_for(q, unit, k);
    mine[u->lane] = unit;
}

static tn_status connect(Planner *q)
{
    struct tn__lanes *l = q->l;
    int *last = malloc((size_t)l->nlanes * sizeof *last), alone = NONE;
    q->known = malloc((size_t)(l->nunits + 1) * (size_t)l->nlanes * sizeof *q->known);
    q->failed |= !last || !q->known;
    for (int i = 0; i < l->nlanes && !q->failed; i++)
        last[i] = NONE;
    for (int i = 0; i < l->nunits && !q->failed; i++) {
        find_waits(q, i, last, alone);
        last[l->units[i].lane] = i;
        alone = l->units[i].serial ? i : alone;
    }
    free(last);
    free(q->known);
    return q->failed ? tn__fail(TN_MEMORY, "no memory for a plan") : TN_OK;
}

tn_status tn__lanes_plan(tn_model *m, const tn_program *p, tn__plan *plan)
{
    struct tn__lanes *l = calloc(1, sizeof *l);
    Planner q = {.m = m, .p = p, .plan = plan, .l = l};
    if (!l)
        return tn__fail(TN_MEMORY, "no memory for a plan");
    plan->lanes = l;
    l->nlanes = 2 * m->nparts;
    l->units = calloc((size_t)p->nsteps + 1, sizeof *l->units);
    l->devices = calloc((size_t)l->nlanes, sizeof *l->devices);
    q.from = calloc((size_t)p->nsteps + 2, sizeof *q.from);
    q.failed = !l->units || !l->devices || !q.from;
    for (int i = 0; i < l->nlanes && !q.failed; i++)
        l->devices[i] = m->parts[i / 2]->dev;
    if (!q.failed)
        make_units(&q);
    const tn_status s = connect(&q);
    for (int i = 0; i < l->nunits && !s; i++)
        l->units[i].event = (tn_event){.ctx = m->ctx, .dev = l->devices[l->units[i].lane]};
    free(q.from);
    free(q.at);
    return s;
}

void tn__lanes_free(tn__lanes *l)
{
    if (!l)
        return;
    for (int i = 0; i < l->nunits && l->units && l->devices; i++) {
        tn__device *d = l->units[i].event.dev;
        if (!d)
            continue;
        d->ops->enter(d);
        d->ops->event_close(&l->units[i].event);
        d->ops->leave(d);
    }
    free(l->units);
    free(l->devices);
    free(l->waits);
    free(l);
}

/* --- a call ----------------------------------------------------------------------------------- */

static tn_stream *stream_of(Call *c, int lane)
{
    Call *on = tn__at(c, lane / 2);
    return lane % 2 ? on->m->copies : on->stream;
}

static tn_status record(tn_event *e, tn_stream *s)
{
    tn__device *d = s->dev;
    d->ops->enter(d);
    const tn_status r = d->ops->event_record(e, s);
    d->ops->leave(d);
    return r;
}

/* Work of the CPU is done when it has been given out. */
static tn_status wait_on(tn_stream *s, const tn_event *e)
{
    tn__device *waits = s->dev, *works = e->dev;
    if (works->ops->host)
        return TN_OK;
    tn__device *d = waits->ops->host ? works : waits;
    d->ops->enter(d);
    const tn_status r = waits->ops->host ? works->ops->event_sync(e) : waits->ops->event_wait(s, e);
    d->ops->leave(d);
    return r;
}

tn_status tn__lanes_begin(Call *c)
{
    tn_model *m = c->m;
    tn_status s = record(m->mark, c->stream);
    for (int i = 1; i < m->nparts; i++) {
        tn_model *part = m->parts[i];
        tn__device *d = part->dev;
        pthread_mutex_lock(&part->busy);
        part->slots = m->slots;
        part->version = m->version;
        c->parts[i] = *c;
        c->parts[i].m = part;
        c->parts[i].parts = NULL;
        c->parts[i].stream = part->own ? part->own : d->stream;
        d->ops->enter(d);
        if (!s)
            s = d->ops->begin(part, c->parts[i].stream);
        d->ops->leave(d);
    }
    for (int i = 1; i < m->nparts && !s; i++)
        s = wait_on(stream_of(c, 2 * i), m->mark);
    return s;
}

/* Copies see what was there before the call, and what the call has put in its place, everywhere. */
static tn_status open_copies(Call *c)
{
    const tn_model *m = c->m;
    tn_status s = TN_OK;
    for (int i = 0; i < m->nparts && !s; i++)
        s = record(m->parts[i]->mark, stream_of(c, 2 * i));
    for (int i = 0; i < m->nparts; i++)
        for (int k = 0; k < m->nparts && !s && m->parts[i]->copies; k++)
            s = wait_on(m->parts[i]->copies, m->parts[k]->mark);
    return s;
}

/* The devices wait for all copies. */
static tn_status close_copies(Call *c)
{
    const tn_model *m = c->m;
    tn_status s = TN_OK;
    for (int i = 0; i < m->nparts && !s; i++)
        if (m->parts[i]->copies)
            s = record(m->parts[i]->copied, m->parts[i]->copies);
    for (int i = 0; i < m->nparts; i++)
        for (int k = 0; k < m->nparts && !s; k++)
            if (m->parts[k]->copies)
                s = wait_on(stream_of(c, 2 * i), m->parts[k]->copied);
    return s;
}

/* The caller's stream waits for all devices. */
static tn_status end_call(Call *c)
{
    tn_model *m = c->m;
    tn_status s = TN_OK;
    for (int i = 1; i < m->nparts; i++) {
        tn_model *part = m->parts[i];
        tn_stream *on = stream_of(c, 2 * i);
        part->dev->ops->enter(part->dev);
        const tn_status end = part->dev->ops->end(part, on);
        part->dev->ops->leave(part->dev);
        part->stream = on->id;
        s = s ? s : end;
        if (!s)
            s = record(part->mark, on);
        if (!s)
            s = wait_on(c->stream, part->mark);
    }
    const tn_status end = m->dev->ops->end(m, c->stream);
    m->stream = c->stream->id;
    s = s ? s : end;
    if (s || !c->waits)
        return s;
    s = m->dev->ops->sync(c->stream);
    for (int i = 0; i < m->nparts && !s; i++) {
        tn__device *d = m->parts[i]->dev;
        d->ops->enter(d);
        s = d->ops->mistakes(m->parts[i], true);
        d->ops->leave(d);
    }
    return s;
}

void tn__lanes_sync(Call *c)
{
    for (int lane = 0; lane < 2 * c->m->nparts; lane++) {
        if ((lane % 2 && !c->m->parts[lane / 2]->copies) || (lane > 1 && !c->parts[lane / 2].m))
            continue; /* it has none, or the call did not begin there */
        tn_stream *s = stream_of(c, lane);
        s->dev->ops->enter(s->dev);
        s->dev->ops->sync(s);
        s->dev->ops->leave(s->dev);
    }
}

tn_status tn__cross(Call *c, const tn_step *step, tn_stream *on)
{
    const tn_operand *o = &c->p->operands[step->operands];
    void *to = tn__operand(c, step->operands), *from = tn__operand(c, step->operands + 1);
    const size_t bytes = c->plan->bytes[o[0].buf];
    tn__device *dst = tn__part_of(c->whole, c->p->buffers[o[0].buf].place)->dev;
    tn__device *src = tn__part_of(c->whole, c->p->buffers[o[1].buf].place)->dev;
    const tn__backend *ops = on->dev->ops;
    if (dst == src)
        return ops->copy(on, to, from, bytes);
    return dst->ops->host   ? ops->download(on, to, from, bytes)
           : src->ops->host ? ops->upload(on, to, from, bytes)
                            : ops->peer(on, to, dst, from, src, bytes);
}

static tn_status run_unit(Call *c, Unit *u)
{
    tn_stream *on = stream_of(c, u->lane);
    Call *part = tn__at(c, u->lane / 2);
    const struct tn__lanes *l = c->plan->lanes;
    tn_status s = TN_OK;
    for (int i = 0; i < u->nwaits && !s; i++)
        s = wait_on(on, &l->units[l->waits[u->wait + i]].event);
    if (s)
        return s;
    on->dev->ops->enter(on->dev);
    if (u->serial) {
        c->serial = 1 + u->lane;
        s = tn__run_steps(c, u->first, u->end);
        if (!s && c->serial != 1 + u->lane) {
            tn_stream *last = stream_of(c, c->serial - 1);
            s = record(tn__at(c, (c->serial - 1) / 2)->m->mark, last);
            s = s ? s : wait_on(on, tn__at(c, (c->serial - 1) / 2)->m->mark);
        }
        c->serial = 0;
    } else if (u->lane % 2) {
        s = tn__cross(part, &c->p->steps[u->first], on);
    } else {
        s = tn__run_steps(part, u->first, u->end);
    }
    if (!s && u->waited_for)
        s = on->dev->ops->event_record(&u->event, on);
    on->dev->ops->leave(on->dev);
    return s;
}

Call *tn__lanes_next(Call *c, int step)
{
    const tn_step *s = &c->p->steps[step];
    const int before = c->serial - 1;
    const int lane = lane_of(c->m, c->p, s) / 2 * 2; /* no lane for copies: all waits for all */
    tn_status e = TN_OK;
    if (lane != before) {
        tn_event *mark = tn__at(c, before / 2)->m->mark;
        e = record(mark, stream_of(c, before));
        if (!e)
            e = wait_on(stream_of(c, lane), mark);
        c->serial = 1 + lane;
    }
    return e ? NULL : tn__at(c, lane / 2);
}

tn_status tn__lanes_run(Call *c)
{
    struct tn__lanes *l = c->plan->lanes;
    tn_status s = TN_OK;
    for (int i = 1; i < c->m->nparts; i++) {
        c->parts[i].plan = c->plan;
        c->parts[i].at = c->at;
    }
    s = open_copies(c);
    for (int i = 0; i < l->nunits && !s; i++)
        s = run_unit(c, &l->units[i]);
    const tn_status copied = close_copies(c);
    s = s ? s : copied;
    if (!s)
        s = tn__write_back(c);
    const tn_status end = end_call(c);
    s = s ? s : end;
    if (!s && c->waits)
        tn__unpack_results(c);
    return s;
}
