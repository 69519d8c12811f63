/* drv_leak.c: what a program did not give back. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv_memory.h"
#include "tests/vgpu/drv_module.h"

enum { TOLD = 5 }; /* of each kind */

typedef struct {
    const Context *context;
    const char *when, *what;
    int n;
} Leaks;

static void more(const Leaks *l)
{
    if (l->n > TOLD)
        finding(FINDING_LEAK, "... and %d more %s", l->n - TOLD, l->what);
}

static void leaked_piece(Piece *p, void *with)
{
    Leaks *l = with;
    if ((l->context && p->context != l->context) || p->context->error)
        return;
    const Alloc *a = memory_find(p->base);
    if (++l->n <= TOLD)
        finding(FINDING_LEAK, "%s: %llu bytes at 0x%llx (allocation %llu) of %s were not freed",
                l->when, (unsigned long long)p->bytes, (unsigned long long)p->base,
                (unsigned long long)(a ? a->number : 0), p->made_by);
}

static void leaked_handle(Handle *h, void *with)
{
    Leaks *l = with;
    if (h->inner || (l->context && h->context != l->context) || (h->context && h->context->error))
        return;
    if (++l->n <= TOLD)
        finding(FINDING_LEAK, "%s: %s %llu of %s was not destroyed", l->when, l->what,
                (unsigned long long)h->number, h->made_by);
}

static void leaked_context(Handle *h, void *with)
{
    const Context *c = (const Context *)h;
    const Leaks *l = with;
    if (c->error)
        return;
    if (c->primary)
        finding(FINDING_LEAK, "%s: the primary context of device %d was not released (retained %d)",
                l->when, c->device->ordinal, c->retained);
    else
        finding(FINDING_LEAK, "%s: context %llu was not destroyed", l->when,
                (unsigned long long)h->number);
}

static void find_broken(Handle *h, void *with)
{
    if (((Context *)h)->error)
        *(bool *)with = true;
}

void leaks_report(Context *context, const char *when)
{
    Leaks l = {.context = context, .when = when, .what = "allocations"};
    bool broken = false;
    handle_each(HANDLE_CONTEXT, find_broken, &broken);
    if (broken) /* nothing can be given back after a sticky error */
        return;
    piece_each(leaked_piece, &l);
    more(&l);
    for (HandleKind k = HANDLE_STREAM; k < HANDLE_KINDS; k++) {
        bool of_context = k == HANDLE_STREAM || k == HANDLE_EVENT || k == HANDLE_MODULE;
        if (context && !of_context)
            continue;
        l.what = handle_kind_name(k);
        l.n = 0;
        handle_each(k, leaked_handle, &l);
        more(&l);
    }
    if (context)
        return;
    handle_each(HANDLE_CONTEXT, leaked_context, &l);
    library_leaks();
}

/* --- the end of a context -------------------------------------------------------------------- */

static void end_module(Handle *h, void *context)
{
    if (h->context == context)
        module_end((ModuleHandle *)h);
}

static void end_stream(Handle *h, void *context)
{
    if (h->context == context)
        stream_delete((Stream *)h);
}

static void end_event(Handle *h, void *context)
{
    if (h->context == context)
        handle_kill(h);
}

void context_handles_end(Context *c)
{
    handle_each(HANDLE_MODULE, end_module, c);
    handle_each(HANDLE_STREAM, end_stream, c);
    handle_each(HANDLE_EVENT, end_event, c);
}
