/* drv_handle.c: all that a program gets a pointer to. A pointer is looked up before it is used, so
 * that garbage and destroyed objects are findings, not crashes. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv.h"

#include <stdlib.h>

enum { DEAD_KEPT = 4096 };

/* A hash set of pointers with linear probing; TOMB stands where one was removed. */
#define TOMB ((Handle *)8)

static struct {
    Handle **slot;
    size_t room, used; /* used: with tombs */
    Handle *dead[DEAD_KEPT];
    uint64_t ndead, numbers[HANDLE_KINDS];
} handles;

static size_t slot_of(const void *p)
{
    return (size_t)(((uint64_t)(uintptr_t)p >> 4) * 0x9e3779b97f4a7c15u >> 20) & (handles.room - 1);
}

static void put(Handle *h)
{
    size_t k = slot_of(h);
    while (handles.slot[k] && handles.slot[k] != TOMB)
        k = (k + 1) & (handles.room - 1);
    handles.used += handles.slot[k] == NULL;
    handles.slot[k] = h;
}

static void make_room(void)
{
    if (handles.used * 2 < handles.room)
        return;
    Handle **old = handles.slot;
    size_t n = handles.room, live = 0;
    for (size_t k = 0; k < n; k++)
        live += old[k] && old[k] != TOMB;
    handles.room = 1024;
    while (handles.room < live * 4)
        handles.room *= 2;
    handles.slot = drv_alloc(handles.room * sizeof(Handle *));
    handles.used = 0;
    for (size_t k = 0; k < n; k++)
        if (old[k] && old[k] != TOMB)
            put(old[k]);
    free(old);
}

static Handle **find(const void *p)
{
    if (!handles.room)
        return NULL;
    for (size_t k = slot_of(p); handles.slot[k]; k = (k + 1) & (handles.room - 1))
        if (handles.slot[k] == p)
            return &handles.slot[k];
    return NULL;
}

void *handle_new(HandleKind kind, size_t bytes, Context *context)
{
    Handle *h = drv_alloc(bytes);
    h->kind = (uint8_t)kind;
    h->number = ++handles.numbers[kind];
    h->context = context;
    h->made_by = drv_intern(call_name());
    make_room();
    put(h);
    return h;
}

const char *handle_kind_name(HandleKind kind)
{
    static const char *const names[] = {"context",    "stream",          "event",       "module",
                                        "library",    "kernel",          "memory pool", "graph",
                                        "graph node", "executable graph"};
    return names[kind];
}

bool handle_is(const void *p, HandleKind kind)
{
    Handle **at = find(p);
    return at && (*at)->kind == kind && !(*at)->dead;
}

void *handle_get(const void *p, HandleKind kind)
{
    const char *name = handle_kind_name(kind);
    Handle **at = find(p);
    if (!p)
        misuse(CUDA_ERROR_INVALID_HANDLE, "the %s is NULL", name);
    else if (!at)
        misuse(CUDA_ERROR_INVALID_HANDLE, "%p is not a %s", p, name);
    else if ((*at)->kind != kind)
        misuse(CUDA_ERROR_INVALID_HANDLE, "%p is of kind %s, not %s", p,
               handle_kind_name((*at)->kind), name);
    else if ((*at)->dead)
        misuse(CUDA_ERROR_INVALID_HANDLE, "%s %llu was destroyed", name,
               (unsigned long long)(*at)->number);
    else
        return *at;
    return NULL;
}

/* Streams, events with queued records and contexts are pointed to by others: their bytes stay. */
static bool may_free(const Handle *h)
{
    return h->kind == HANDLE_EVENT && ((const Event *)h)->pending == 0;
}

void handle_kill(Handle *h)
{
    h->dead = true;
    Handle **oldest = &handles.dead[handles.ndead++ % DEAD_KEPT];
    if (*oldest) {
        *find(*oldest) = TOMB;
        if (may_free(*oldest)) {
            clock_free(&((Event *)*oldest)->clock);
            free(*oldest);
        }
    }
    *oldest = h;
}

static int by_number(const void *a, const void *b)
{
    const Handle *x = *(Handle *const *)a, *y = *(Handle *const *)b;
    return (x->number > y->number) - (x->number < y->number);
}

void handle_each(HandleKind kind, void (*visit)(Handle *h, void *with), void *with)
{
    Handle **all = drv_alloc(handles.used * sizeof *all);
    size_t n = 0;
    for (size_t k = 0; k < handles.room; k++) {
        Handle *h = handles.slot[k];
        if (h && h != TOMB && h->kind == kind && !h->dead)
            all[n++] = h;
    }
    if (n)
        qsort(all, n, sizeof *all, by_number);
    for (size_t k = 0; k < n; k++)
        visit(all[k], with);
    free(all);
}
