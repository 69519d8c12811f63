/* drv_queue.c: streams as queues. Nothing runs when it is queued: the order among streams is picked
 * late and, by VGPU_ORDER, at random (from VGPU_SEED), as late as can be, or at once. What the
 * program did not order runs in an order that it did not think of. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv.h"

#include <pthread.h>
#include <stdlib.h>

enum { QUEUED_MOST = 1024 }; /* of one stream: the host waits then, as with the real one */

static struct {
    Stream *streams; /* all that were ever made; the newest first */
    Clock host;      /* what the host knows to have ended */
    uint64_t random;
    bool seeded;
} queue;

uint64_t queue_random(void)
{
    if (!queue.seeded)
        queue.random = options()->seed;
    queue.seeded = true;
    return random_next(&queue.random) >> 11;
}

const Clock *host_clock(void)
{
    return &queue.host;
}

void host_joins(const Clock *c)
{
    clock_join(&queue.host, c);
    pinned_check(&queue.host);
}

/* --- streams --------------------------------------------------------------------------------- */

/** A stream that was deleted and has nothing left to do serves again; its Stream is pointed to by
 * events, so that it is never freed. */
static Stream *reuse_lane(Context *c)
{
    for (Stream *s = queue.streams; s; s = s->next)
        if (s->lane && s->h.dead && s->done == s->queued && s->h.context == c)
            return s;
    return NULL;
}

/** Forgets destroyed streams that have nothing left to do. Events may still point to them. */
static void sweep(void)
{
    for (Stream **at = &queue.streams; *at;) {
        Stream *s = *at;
        if (!s->h.dead || s->lane || s->done < s->queued) {
            at = &s->next;
            continue;
        }
        if (s->blocking) /* the default stream still comes after what it did */
            clock_join(&s->h.context->gone, &s->clock);
        clock_free(&s->clock);
        *at = s->next;
    }
}

Stream *stream_new(Context *c, bool blocking)
{
    sweep();
    Stream *s = handle_new(HANDLE_STREAM, sizeof *s, c);
    s->blocking = blocking;
    s->component = order_component_new(&queue.host, &s->last);
    s->next = queue.streams;
    queue.streams = s;
    return s;
}

Stream *stream_lane(Context *c)
{
    Stream *s = reuse_lane(c);
    if (s) {
        clock_free(&s->clock);
        s->component = order_component_new(&queue.host, &s->last);
    } else {
        s = stream_new(c, false);
    }
    s->lane = s->h.inner = true;
    s->h.dead = false;
    return s;
}

void stream_delete(Stream *s)
{
    order_component_free(s->component, s->last);
    if (s->lane)
        s->h.dead = true;
    else
        handle_kill(&s->h);
}

Stream *stream_legacy(Context *c)
{
    if (!c->legacy) {
        c->legacy = stream_new(c, true);
        c->legacy->h.inner = c->legacy->legacy = true;
        c->legacy->h.number = 0;
    }
    return c->legacy;
}

Stream *stream_get(CUstream handle)
{
    Context *c = context_current();
    if (!handle || handle == CU_STREAM_LEGACY)
        return stream_legacy(c);
    if (handle == CU_STREAM_PER_THREAD)
        return stream_per_thread(c);
    return handle_get(handle, HANDLE_STREAM);
}

/* --- running --------------------------------------------------------------------------------- */

bool queue_ended(const Stream *s, uint64_t number)
{
    return s->done >= number;
}

/** The first dependency of the stream's next operation that has not ended. */
static Stream *waits_for(const Stream *s)
{
    const Op *o = s->head;
    for (int k = 0; k < o->ndeps; k++)
        if (o->deps[k].stream->done < o->deps[k].number)
            return o->deps[k].stream;
    return NULL;
}

static void end_op(Stream *s)
{
    Op *o = s->head;
    s->running = false;
    s->head = o->next;
    if (!s->head)
        s->tail = NULL;
    s->done++;
    work_free(&o->work);
    clock_free(&o->clock);
    free(o->deps);
    free(o);
    call_wake();
}

/* Host functions run in a thread of their own, as CUDA has it: they may wait for what the program's
 * threads do next. */
static struct {
    Stream *first; /* whose next operation is one; by `next_host` */
    bool started;
} host_thread;

static void *run_host_functions(void *unused)
{
    call_lock();
    for (;;) {
        Stream *s = host_thread.first;
        if (!s) {
            call_wait();
            continue;
        }
        host_thread.first = s->next_host;
        host_joins(&s->head->clock); /* the function may tell other host code */
        work_run(&s->head->work, s->head->id, s);
        end_op(s);
    }
    return unused;
}

static void hand_over(Stream *s)
{
    Stream **at = &host_thread.first;
    while (*at)
        at = &(*at)->next_host;
    s->next_host = NULL;
    *at = s;
    pthread_t t;
    if (!host_thread.started &&
        (pthread_create(&t, NULL, run_host_functions, NULL) || pthread_detach(t))) {
        fprintf(stderr, "vgpu: no thread for host functions\n");
        abort();
    }
    host_thread.started = true;
    call_wake();
}

static void run_next(Stream *s)
{
    Op *o = s->head;
    s->running = true;
    if (o->work.kind == WORK_HOST || o->work.kind == WORK_CALLBACK) {
        hand_over(s);
        return;
    }
    order_op_run(o->id, &o->clock);
    work_run(&o->work, o->id, s);
    order_op_run(0, NULL);
    end_op(s);
}

/** Runs one operation that is ready, any of them; false: there is none. */
static bool run_any(void)
{
    Stream *pick = NULL;
    uint64_t n = 0;
    for (Stream *s = queue.streams; s; s = s->next)
        if (s->head && !s->running && !waits_for(s) && queue_random() % ++n == 0)
            pick = s;
    if (pick)
        run_next(pick);
    return pick != NULL;
}

/** The stream whose next operation `s` needs to go on. */
static Stream *needed(Stream *s)
{
    while (!s->running && waits_for(s))
        s = waits_for(s);
    return s;
}

/** Runs that, or waits for the thread that runs it. */
static void run_needed(Stream *s)
{
    s = needed(s);
    if (s->running)
        call_wait();
    else
        run_next(s);
}

void queue_until(Stream *s, uint64_t number)
{
    while (s->done < number) {
        bool any = !options()->lazy && queue_random() % 2;
        if (!any || !run_any())
            run_needed(s);
    }
}

void queue_progress(Stream *s)
{
    if (options()->eager) {
        while (run_any())
            ;
    } else if (!options()->lazy) {
        while (queue_random() % 3 == 0 && run_any())
            ;
    }
    if (s->queued - s->done > QUEUED_MOST)
        queue_until(s, s->queued - QUEUED_MOST);
}

void queue_poll(Stream *s)
{
    if (s->head && queue_random() % 2 && !needed(s)->running)
        run_next(needed(s));
}

void queue_flush(void)
{
    for (Stream *s = queue.streams; s; s = s->next)
        queue_until(s, s->queued);
}

CUresult queue_sync(Stream *s)
{
    Clock c = {0};
    clock_copy(&c, &s->clock);
    queue_until(s, s->queued);
    host_joins(&c);
    clock_free(&c);
    return s->h.context->error;
}

CUresult queue_sync_context(Context *c)
{
    for (Stream *s = queue.streams; s; s = s->next)
        if (!c || s->h.context == c)
            queue_sync(s);
    return c ? c->error : CUDA_SUCCESS;
}

/* --- queueing -------------------------------------------------------------------------------- */

static void add_dep(Op *o, Stream *s, uint64_t number)
{
    if (s->done >= number)
        return;
    o->deps = drv_grow(o->deps, (size_t)(o->ndeps + 1) * sizeof *o->deps);
    o->deps[o->ndeps++] = (Dep){.stream = s, .number = number};
}

/** The legacy default stream waits for all blocking streams of its context, and they for it. */
static void legacy_rules(Stream *s, Op *o)
{
    Stream *legacy = s->h.context->legacy;
    if (!s->blocking || !legacy)
        return;
    if (s != legacy) {
        clock_join(&s->clock, &legacy->clock);
        add_dep(o, legacy, legacy->queued);
        return;
    }
    clock_join(&s->clock, &s->h.context->gone);
    for (Stream *q = queue.streams; q; q = q->next)
        if (q->blocking && q->h.context == s->h.context && q != s) {
            clock_join(&s->clock, &q->clock);
            add_dep(o, q, q->queued);
        }
}

uint64_t queue_add(Stream *s, Work *w, const Dep *deps, int ndeps)
{
    Op *o = drv_alloc(sizeof *o);
    o->work = *w;
    clock_join(&s->clock, &queue.host);
    legacy_rules(s, o);
    for (int k = 0; k < ndeps; k++) {
        clock_join(&s->clock, deps[k].clock);
        add_dep(o, deps[k].stream, deps[k].number);
    }
    o->number = ++s->last;
    clock_set(&s->clock, s->component, o->number);
    clock_copy(&o->clock, &s->clock);
    o->id = order_op_new(s->component, o->number, s->h.number, w->name);
    if (w->kind == WORK_COPY && w->copy.pinned)
        pinned_watch(w, o->id, s->component, o->number);
    if (s->tail)
        s->tail->next = o;
    else
        s->head = o;
    s->tail = o;
    return ++s->queued;
}

bool queue_touches(uint64_t at, uint64_t end, const Alloc *a)
{
    for (const Stream *s = queue.streams; s; s = s->next)
        for (const Op *o = s->head; o; o = o->next)
            if (work_touches(&o->work, at, end, a))
                return true;
    return false;
}

CUresult queue_push(Stream *s, Work *w)
{
    CUresult r = s->h.context->error;
    if (!r)
        r = capture_implicit(s);
    if (r) {
        work_free(w);
        return r;
    }
    if (s->capture)
        return capture_add(s, w);
    if (w->kind == WORK_COPY && !w->copy.to.host)
        pinned_spoil(&w->copy);
    queue_add(s, w, NULL, 0);
    queue_progress(s);
    return CUDA_SUCCESS;
}
