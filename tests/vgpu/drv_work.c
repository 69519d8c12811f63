/* drv_work.c: what an operation does when its turn has come. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static void fail(Work *w, CUresult error)
{
    if (!options()->keep_going)
        context_break(w->context, error);
}

static void run_kernel(Work *w, uint32_t op)
{
    Grid g = w->kernel.grid;
    int error = CUDA_ERROR_LAUNCH_FAILED;
    g.params = w->kernel.params;
    g.op = op;
    if (!grid_run(&g, &error))
        fail(w, (CUresult)error);
}

/* --- copies ---------------------------------------------------------------------------------- */

static bool is_packed(const CopyWork *c, const Place *p)
{
    bool rows = p->pitch == c->width || c->height == 1;
    return rows && (p->slice == c->width * c->height || c->depth == 1);
}

uint8_t *copy_packed(const CopyWork *c, const Place *side, bool device)
{
    uint8_t *to = drv_alloc(c->width * c->height * c->depth), *at = to;
    const Alloc *a = device ? memory_find(side->at) : NULL;
    for (uint64_t z = 0; z < c->depth; z++)
        for (uint64_t y = 0; y < c->height; y++, at += c->width) {
            uint64_t from = side->at + z * side->slice + y * side->pitch;
            const uint8_t *bytes =
                a ? a->data + (from - a->base) : (const uint8_t *)(uintptr_t)from;
            memcpy(at, bytes, c->width);
        }
    return to;
}

static uint8_t *reach(const Place *p, uint64_t offset, uint64_t bytes, bool write, uint32_t op,
                      const char *what)
{
    if (p->host)
        return (uint8_t *)(uintptr_t)(p->at + offset);
    return memory_access(p->at + offset, bytes, write, p->device, op, what);
}

static void run_copy(Work *w, uint32_t op)
{
    CopyWork c = w->copy;
    char source[100], destination[100];
    snprintf(source, sizeof source, "source of %s", w->name);
    snprintf(destination, sizeof destination, "destination of %s", w->name);
    if (c.staged)
        c.from = (Place){.at = (uint64_t)(uintptr_t)c.staged,
                         .pitch = c.width,
                         .slice = c.width * c.height,
                         .host = true};
    if (is_packed(&c, &c.to) && is_packed(&c, &c.from)) {
        c.width *= c.height * c.depth;
        c.height = c.depth = 1;
    }
    for (uint64_t z = 0; z < c.depth; z++)
        for (uint64_t y = 0; y < c.height; y++) {
            const uint8_t *from =
                reach(&c.from, z * c.from.slice + y * c.from.pitch, c.width, false, op, source);
            uint8_t *to =
                from ? reach(&c.to, z * c.to.slice + y * c.to.pitch, c.width, true, op, destination)
                     : NULL;
            if (!to) {
                fail(w, CUDA_ERROR_ILLEGAL_ADDRESS);
                return;
            }
            memmove(to, from, c.width);
        }
}

static void fill(uint8_t *to, uint32_t value, uint32_t size, uint64_t n)
{
    if (size == 1)
        memset(to, (int)value, n);
    for (uint64_t k = 0; size > 1 && k < n; k++)
        memcpy(to + k * size, &value, size); /* little endian */
}

static void run_set(Work *w, uint32_t op)
{
    const SetWork *s = &w->set;
    char what[100];
    snprintf(what, sizeof what, "destination of %s", w->name);
    for (uint64_t y = 0; y < s->height; y++) {
        uint8_t *to = memory_access(s->at + y * s->pitch, s->width * s->size, true,
                                    w->context->device, op, what);
        if (!to) {
            fail(w, CUDA_ERROR_ILLEGAL_ADDRESS);
            return;
        }
        fill(to, s->value, s->size, s->width);
    }
}

/* --- pinned sources -------------------------------------------------------------------------- */

/* A copy from pinned memory reads it late. Until the host has waited for the copy it must not write
 * there; what operations write there is judged by their order. */
typedef struct Watch {
    struct Watch *next;
    CopyWork copy;
    uint8_t *bytes; /* at the call */
    const char *name;
    uint64_t ran; /* operations that had run then */
    uint32_t op, component, number;
} Watch;

static Watch *watches;

void pinned_watch(const Work *w, uint32_t op, uint32_t component, uint32_t number)
{
    if (!options()->order)
        return;
    Watch *x = drv_alloc(sizeof *x);
    *x = (Watch){.next = watches,
                 .copy = w->copy,
                 .bytes = copy_packed(&w->copy, &w->copy.from, true),
                 .name = w->name,
                 .ran = order_ops_ran(),
                 .op = op,
                 .component = component,
                 .number = number};
    watches = x;
}

/** True after a finding. */
static bool row_changed(const Watch *x, const Alloc *a, uint64_t at, const uint8_t *before)
{
    const uint8_t *now = a->data + (at - a->base);
    if (!memcmp(now, before, x->copy.width))
        return false;
    for (uint64_t k = 0; k < x->copy.width; k++) {
        uint64_t offset = at + k - a->base;
        if (now[k] == before[k] || order_op_ran(order_writer(a, offset)) > x->ran)
            continue;
        finding(FINDING_ORDER,
                "the host wrote byte %llu of pinned memory %llu while %s could still read it: it "
                "did not wait for the copy",
                (unsigned long long)offset, (unsigned long long)a->number, order_op_name(x->op));
        return true;
    }
    return false;
}

static void compare(const Watch *x)
{
    const CopyWork *c = &x->copy;
    const Alloc *a = memory_find(c->from.at);
    const uint8_t *before = x->bytes;
    bool said = !a || a->freed;
    for (uint64_t z = 0; z < c->depth; z++)
        for (uint64_t y = 0; y < c->height && !said; y++, before += c->width)
            said = row_changed(x, a, c->from.at + z * c->from.slice + y * c->from.pitch, before);
}

void pinned_check(const Clock *host)
{
    for (Watch **at = &watches; *at;) {
        Watch *x = *at;
        if (clock_get(host, x->component) < x->number) {
            at = &x->next;
            continue;
        }
        *at = x->next;
        compare(x);
        free(x->bytes);
        free(x);
    }
}

/* --- pinned destinations --------------------------------------------------------------------- */

/** Behind the last byte of a side of a copy. */
static uint64_t end_of(const CopyWork *c, const Place *p)
{
    return p->at + (c->depth - 1) * p->slice + (c->height - 1) * p->pitch + c->width;
}

static bool overlaps(uint64_t a, uint64_t a_end, uint64_t b, uint64_t b_end)
{
    return a < b_end && b < a_end;
}

/** Whether these arguments hold an address of the allocation. */
static bool holds_address(const void *args, size_t bytes, const Alloc *a)
{
    for (size_t k = 0; k + 8 <= bytes; k += 4) {
        uint64_t value;
        memcpy(&value, (const uint8_t *)args + k, sizeof value);
        if (value >= a->base && value < a->end)
            return true;
    }
    return false;
}

bool work_touches(const Work *w, uint64_t at, uint64_t end, const Alloc *a)
{
    switch (w->kind) {
    case WORK_KERNEL:
        return holds_address(w->kernel.params, w->kernel.grid.function->param_bytes, a);
    case WORK_LIBRARY:
        return holds_address(w->external.args, w->external.bytes, a);
    case WORK_COPY:
        return overlaps(at, end, w->copy.to.at, end_of(&w->copy, &w->copy.to)) ||
               overlaps(at, end, w->copy.from.at, end_of(&w->copy, &w->copy.from));
    case WORK_SET:
        return w->set.at >= a->base && w->set.at < a->end;
    case WORK_HOST:
    case WORK_CALLBACK:
        return true; /* who knows */
    case WORK_NONE:
    case WORK_RECORD:
    case WORK_WAIT:
    case WORK_ALLOC:
    case WORK_FREE:
        break;
    }
    return false;
}

/* What a copy to pinned memory will bring is not there before the host has waited. A host that
 * looks earlier shall not find what the copy before brought, which may look right. */
void pinned_spoil(const CopyWork *c)
{
    const Alloc *a = memory_find(c->to.at);
    uint64_t end = end_of(c, &c->to);
    if (!a || a->freed || a->device || a->managed || options()->eager || !options()->order ||
        overlaps(c->to.at, end, c->from.at, end_of(c, &c->from)) || queue_touches(c->to.at, end, a))
        return;
    for (const Watch *x = watches; x; x = x->next)
        if (overlaps(c->to.at, end, x->copy.from.at, end_of(&x->copy, &x->copy.from)))
            return;
    for (uint64_t z = 0; z < c->depth; z++)
        for (uint64_t y = 0; y < c->height; y++)
            memset(a->data + (c->to.at - a->base) + z * c->to.slice + y * c->to.pitch, 0xff,
                   c->width);
}

/* --- the rest -------------------------------------------------------------------------------- */

static void run_host(Work *w)
{
    call_unlock(); /* other threads may run operations meanwhile */
    call_in_host_function(true);
    if (w->kind == WORK_HOST)
        w->host.fn(w->host.arg);
    else
        w->callback.fn(w->callback.stream, w->context->error, w->callback.arg);
    call_in_host_function(false);
    call_lock();
}

static void run_record(Work *w, const Stream *s)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    w->event->pending--;
    if (w->event->last.stream == s && w->event->last.number == s->done + 1)
        w->event->ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void run_free(const Work *w, uint32_t op)
{
    Alloc *a = memory_find(w->memory);
    if (!a || a->freed || a->base != w->memory)
        return; /* the context was destroyed and took it along */
    order_freed(a, op);
    memory_free(a);
}

/** What still happens in a broken context. */
static bool runs_broken(const Work *w)
{
    return w->kind == WORK_RECORD || w->kind == WORK_WAIT || w->kind == WORK_FREE ||
           w->kind == WORK_CALLBACK;
}

void work_run(Work *w, uint32_t op, Stream *s)
{
    if (w->context->error && !runs_broken(w))
        return;
    switch (w->kind) {
    case WORK_KERNEL:
        run_kernel(w, op);
        break;
    case WORK_COPY:
        run_copy(w, op);
        break;
    case WORK_SET:
        run_set(w, op);
        break;
    case WORK_HOST:
    case WORK_CALLBACK:
        run_host(w);
        break;
    case WORK_LIBRARY:
        w->external.fn(w->external.args, w->context->device, op);
        break;
    case WORK_RECORD:
        run_record(w, s);
        break;
    case WORK_FREE:
        run_free(w, op);
        break;
    case WORK_NONE:
    case WORK_WAIT:
    case WORK_ALLOC:
        break;
    }
}

Work work_copy(const Work *w)
{
    Work c = *w;
    if (w->kind == WORK_KERNEL)
        c.kernel.params = drv_copy(w->kernel.params, w->kernel.grid.function->param_bytes + 16u);
    else if (w->kind == WORK_COPY && w->copy.staged)
        c.copy.staged = drv_copy(w->copy.staged, w->copy.width * w->copy.height * w->copy.depth);
    else if (w->kind == WORK_LIBRARY)
        c.external.args = drv_copy(w->external.args, w->external.bytes);
    return c;
}

void work_free(Work *w)
{
    if (w->kind == WORK_KERNEL)
        free(w->kernel.params);
    else if (w->kind == WORK_COPY)
        free(w->copy.staged);
    else if (w->kind == WORK_LIBRARY)
        free(w->external.args);
    w->kind = WORK_NONE;
}
