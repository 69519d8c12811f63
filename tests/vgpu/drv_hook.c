/* drv_hook.c: what the stand-ins of libraries ask of the driver: see hook.h.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv.h"

#include "tests/vgpu/memory.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

CUresult vgpu_enqueue(CUstream stream, const char *name, LibraryWork *work, const void *args,
                      size_t bytes)
{
    CUresult r =
        call_enter(__func__, WORKING); /* the call of `name` was counted by vgpu_call_fails */
    call_note("%s", name);
    Stream *s = r ? NULL : stream_get(stream);
    if (!r && !s)
        r = CUDA_ERROR_INVALID_HANDLE;
    if (!r && s->h.context != context_current())
        r = misuse(CUDA_ERROR_INVALID_CONTEXT, "%s: the stream is of another context", name);
    if (!r) {
        Work w = {.kind = WORK_LIBRARY,
                  .name = drv_intern(name),
                  .context = s->h.context,
                  .external = {work, drv_copy(args, bytes), bytes}};
        r = queue_push(s, &w);
    }
    return call_leave(r);
}

/* Called while the operation runs: the lock is held. */
uint8_t *vgpu_access(uint64_t address, uint64_t bytes, bool write, Device *d, uint32_t op,
                     const char *what)
{
    return memory_access(address, bytes, write, d, op, what);
}

void vgpu_poison(uint64_t address, uint64_t bytes, Device *d, uint32_t op, const char *what)
{
    uint8_t *at = memory_access(address, bytes, true, d, op, what);
    Alloc *a = at ? memory_find(address) : NULL;
    if (!a)
        return;
    memset(at, 0xff, bytes);
    memory_mark(a, address - a->base, bytes, false);
}

void vgpu_library_finding(const char *fmt, ...)
{
    char text[1000];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    finding(FINDING_LIBRARY, "%s", text);
}

static struct {
    const char *kind;
    int live;
} things[32];

void vgpu_library_live(const char *kind, int change)
{
    call_lock();
    int k = 0;
    while (k < 31 && things[k].kind && strcmp(things[k].kind, kind))
        k++;
    things[k].kind = drv_intern(kind);
    things[k].live += change;
    call_unlock();
}

void library_leaks(void)
{
    for (int k = 0; k < 32; k++)
        if (things[k].live > 0)
            finding(FINDING_LEAK, "%d %s%s never destroyed", things[k].live, things[k].kind,
                    things[k].live == 1 ? " was" : "s were");
}

int vgpu_current_device(void)
{
    const Context *c = context_current();
    return c ? c->device->ordinal : -1;
}
