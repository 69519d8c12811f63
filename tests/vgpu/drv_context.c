/* drv_context.c: contexts: primary ones and others, which one is current in a thread, their limits,
 * access among devices. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64 };

static _Thread_local struct {
    Context *stack[DEPTH];
    int n;
} thread;

static Context *primaries[16];

Context *context_current(void)
{
    return thread.n ? thread.stack[thread.n - 1] : NULL;
}

void context_break(Context *c, CUresult error)
{
    if (!c->error)
        c->error = error;
    c->device->broken = true;
    c->device->error = (int)c->error;
}

Context *context_of_device(int ordinal)
{
    Context *c = context_current();
    return c && c->device->ordinal == ordinal ? c : primaries[ordinal];
}

static Context *context_new(Device *d, unsigned flags)
{
    Context *c = handle_new(HANDLE_CONTEXT, sizeof *c, NULL);
    c->device = d;
    c->flags = flags;
    c->version = 3020;
    c->limits[CU_LIMIT_STACK_SIZE] = 1024;
    c->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    c->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    c->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    c->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    c->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    return c;
}

static CUresult check_flags(unsigned flags)
{
    unsigned schedule = flags & CU_CTX_SCHED_MASK;
    bool good = !(flags & ~(unsigned)CU_CTX_FLAGS_MASK) && schedule != 3 &&
                (schedule <= 4 && (schedule & (schedule - 1)) == 0);
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/** Waits for all work, says what was left, and takes it along. */
static void context_end(Context *c)
{
    queue_sync_context(c);
    if (options()->leaks && !c->error)
        leaks_report(c, "when its context was destroyed");
    context_memory_end(c);
    context_handles_end(c);
    c->device->broken = false;
    c->device->error = 0;
    handle_kill(&c->h);
}

/* --- the current context --------------------------------------------------------------------- */

static CUresult push(Context *c)
{
    if (thread.n == DEPTH)
        return CUDA_ERROR_INVALID_CONTEXT;
    thread.stack[thread.n++] = c;
    return CUDA_SUCCESS;
}

API cuCtxPushCurrent(CUcontext context)
{
    CUresult r = call_enter(__func__, INIT);
    if (!r && !handle_get(context, HANDLE_CONTEXT))
        r = CUDA_ERROR_INVALID_CONTEXT;
    if (!r)
        r = push((Context *)context);
    return call_leave(r);
}

API cuCtxPopCurrent(CUcontext *out)
{
    CUresult r = call_enter(__func__, INIT);
    if (!r && !context_current())
        r = CUDA_ERROR_INVALID_CONTEXT;
    if (!r) {
        if (out)
            *out = (CUcontext)context_current();
        thread.n--;
    }
    return call_leave(r);
}

API cuCtxSetCurrent(CUcontext context)
{
    CUresult r = call_enter(__func__, INIT);
    if (!r && context && !handle_get(context, HANDLE_CONTEXT))
        r = CUDA_ERROR_INVALID_CONTEXT;
    if (!r) {
        if (thread.n)
            thread.n--;
        if (context)
            r = push((Context *)context);
    }
    return call_leave(r);
}

API cuCtxGetCurrent(CUcontext *out)
{
    CUresult r = call_enter(__func__, INIT);
    if (!r && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *out = (CUcontext)context_current();
    return call_leave(r);
}

API cuCtxGetDevice(CUdevice *out)
{
    CUresult r = call_enter(__func__, CURRENT);
    if (!r && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *out = context_current()->device->ordinal;
    return call_leave(r);
}

/* --- making and destroying ------------------------------------------------------------------- */

static CUresult create(CUcontext *out, unsigned flags, CUdevice device)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_is(device))
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult r = check_flags(flags);
    if (r)
        return r;
    Context *c = context_new(device_get(device), flags);
    r = push(c);
    *out = (CUcontext)c;
    return r;
}

CUresult context_create(const char *name, CUcontext *out, unsigned flags, CUdevice device)
{
    CUresult r = call_enter(name, INIT);
    if (!r)
        r = create(out, flags, device);
    return call_leave(r);
}

API cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags, CUdevice device)
{
    CUresult r = call_enter(__func__, INIT);
    if (!r && params && (params->numExecAffinityParams || params->cigParams))
        r = CUDA_ERROR_NOT_SUPPORTED;
    if (!r)
        r = create(out, flags, device);
    return call_leave(r);
}

static CUresult destroy(CUcontext context)
{
    Context *c = handle_get(context, HANDLE_CONTEXT);
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (c->primary)
        return misuse(CUDA_ERROR_INVALID_CONTEXT,
                      "a primary context is released with cuDevicePrimaryCtxRelease");
    context_end(c);
    if (context_current() == c)
        thread.n--;
    return CUDA_SUCCESS;
}

API cuCtxDestroy(CUcontext context)
{
    CUresult r = call_enter(__func__, INIT);
    if (!r)
        r = destroy(context);
    return call_leave(r);
}

API cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    CUresult r = call_enter(__func__, INIT);
    if (!r && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r && !device_is(device))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (!r) {
        Context *c = primaries[device];
        if (!c)
            c = primaries[device] = context_new(device_get(device), 0);
        c->primary = true;
        c->retained++;
        *out = (CUcontext)c;
    }
    return call_leave(r);
}

static CUresult enter_primary(const char *name, CUdevice device)
{
    CUresult r = call_enter(name, INIT);
    return !r && !device_is(device) ? CUDA_ERROR_INVALID_DEVICE : r;
}

API cuDevicePrimaryCtxRelease(CUdevice device)
{
    CUresult r = enter_primary(__func__, device);
    if (r)
        return call_leave(r);
    Context *c = primaries[device];
    if (!c)
        r = misuse(CUDA_ERROR_INVALID_CONTEXT, "the primary context of device %d is not retained",
                   device);
    else if (--c->retained == 0) {
        primaries[device] = NULL;
        context_end(c);
    }
    return call_leave(r);
}

API cuDevicePrimaryCtxReset(CUdevice device)
{
    CUresult r = enter_primary(__func__, device);
    if (!r && primaries[device]) {
        context_end(primaries[device]);
        primaries[device] = NULL;
    }
    return call_leave(r);
}

API cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    CUresult r = enter_primary(__func__, device);
    if (!r)
        r = check_flags(flags);
    if (!r && primaries[device])
        primaries[device]->flags = flags;
    return call_leave(r);
}

API cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    CUresult r = enter_primary(__func__, device);
    if (!r && (!flags || !active))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r) {
        *active = primaries[device] != NULL;
        *flags = primaries[device] ? primaries[device]->flags : 0;
    }
    return call_leave(r);
}

/* --- waiting, asking ------------------------------------------------------------------------- */

API cuCtxSynchronize(void)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r)
        r = capture_unsafe();
    if (!r)
        r = queue_sync_context(context_current());
    return call_leave(r);
}

API cuCtxGetFlags(unsigned int *flags)
{
    CUresult r = call_enter(__func__, CURRENT);
    if (!r && !flags)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *flags = context_current()->flags;
    return call_leave(r);
}

API cuCtxGetId(CUcontext context, unsigned long long *id)
{
    CUresult r = call_enter(__func__, context ? INIT : CURRENT);
    if (!r && !id)
        r = CUDA_ERROR_INVALID_VALUE;
    Context *c = r ? NULL : context ? handle_get(context, HANDLE_CONTEXT) : context_current();
    if (!r && !c)
        r = CUDA_ERROR_INVALID_CONTEXT;
    if (!r)
        *id = c->h.number;
    return call_leave(r);
}

API cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    CUresult r = call_enter(__func__, INIT);
    if (!r && !version)
        r = CUDA_ERROR_INVALID_VALUE;
    Context *c = r ? NULL : context ? handle_get(context, HANDLE_CONTEXT) : context_current();
    if (!r && !c)
        r = CUDA_ERROR_INVALID_CONTEXT;
    if (!r)
        *version = c->version;
    return call_leave(r);
}

API cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    CUresult r = call_enter(__func__, CURRENT);
    if (!r && least)
        *least = 0;
    if (!r && greatest)
        *greatest = -5;
    return call_leave(r);
}

API cuCtxSetLimit(CUlimit limit, size_t value)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r && (limit < 0 || limit >= CU_LIMIT_MAX))
        r = CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (!r)
        context_current()->limits[limit] = value;
    return call_leave(r);
}

API cuCtxGetLimit(size_t *value, CUlimit limit)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r && !value)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r && (limit < 0 || limit >= CU_LIMIT_MAX))
        r = CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (!r)
        *value = context_current()->limits[limit];
    return call_leave(r);
}

API cuCtxSetCacheConfig(CUfunc_cache config)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r && (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        context_current()->cache = config;
    return call_leave(r);
}

API cuCtxGetCacheConfig(CUfunc_cache *config)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r && !config)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *config = context_current()->cache;
    return call_leave(r);
}

/* --- other devices --------------------------------------------------------------------------- */

API cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    CUresult r = call_enter(__func__, WORKING);
    Context *c = context_current(), *p = r ? NULL : handle_get(peer, HANDLE_CONTEXT);
    if (!r && flags)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r && (!p || p->device == c->device))
        r = CUDA_ERROR_INVALID_CONTEXT;
    if (!r && c->device->peers[p->device->ordinal])
        r = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    if (!r)
        c->device->peers[p->device->ordinal] = true;
    return call_leave(r);
}

API cuCtxDisablePeerAccess(CUcontext peer)
{
    CUresult r = call_enter(__func__, WORKING);
    Context *c = context_current(), *p = r ? NULL : handle_get(peer, HANDLE_CONTEXT);
    if (!r && (!p || p->device == c->device))
        r = CUDA_ERROR_INVALID_CONTEXT;
    if (!r && !c->device->peers[p->device->ordinal])
        r = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    if (!r) {
        queue_sync_context(c);
        c->device->peers[p->device->ordinal] = false;
    }
    return call_leave(r);
}
