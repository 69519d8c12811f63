/* drv_pool.c: memory pools, and what is asked about pointers. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv_memory.h"

#include <string.h>

static Pool *defaults[16], *currents[16];

static Pool *pool_new(int device)
{
    Pool *p = handle_new(HANDLE_POOL, sizeof *p, NULL);
    p->device = device;
    p->reuse[0] = p->reuse[1] = p->reuse[2] = 1;
    return p;
}

static Pool *pool_default(int device)
{
    if (!defaults[device]) {
        defaults[device] = pool_new(device);
        defaults[device]->h.inner = true;
    }
    return defaults[device];
}

Pool *pool_current(int device)
{
    return currents[device] && !currents[device]->h.dead ? currents[device] : pool_default(device);
}

static CUresult enter_device(const char *name, CUdevice device, const void *out)
{
    CUresult r = call_enter(name, INIT);
    if (!r && !out)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r && !device_is(device))
        r = CUDA_ERROR_INVALID_DEVICE;
    return r;
}

API cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice device)
{
    CUresult r = enter_device(__func__, device, out);
    if (!r)
        *out = (CUmemoryPool)pool_default(device);
    return call_leave(r);
}

API cuDeviceGetMemPool(CUmemoryPool *out, CUdevice device)
{
    CUresult r = enter_device(__func__, device, out);
    if (!r)
        *out = (CUmemoryPool)pool_current(device);
    return call_leave(r);
}

API cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
    CUresult r = enter_device(__func__, device, pool);
    Pool *p = r ? NULL : handle_get(pool, HANDLE_POOL);
    if (!r && (!p || p->device != device))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        currents[device] = p;
    return call_leave(r);
}

API cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props)
{
    CUresult r = call_enter(__func__, INIT);
    if (!r && (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
               props->location.type != CU_MEM_LOCATION_TYPE_DEVICE))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r && !device_is(props->location.id))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (!r)
        *out = (CUmemoryPool)pool_new(props->location.id);
    return call_leave(r);
}

/** The pool of a call; NULL with *r set. */
static Pool *enter_pool(const char *name, CUmemoryPool pool, CUresult *r)
{
    *r = call_enter(name, INIT);
    Pool *p = *r ? NULL : handle_get(pool, HANDLE_POOL);
    if (!*r && !p)
        *r = CUDA_ERROR_INVALID_VALUE;
    return p;
}

API cuMemPoolDestroy(CUmemoryPool pool)
{
    CUresult r;
    Pool *p = enter_pool(__func__, pool, &r);
    if (p && p->h.inner)
        r = misuse(CUDA_ERROR_INVALID_VALUE, "the default pool of a device stays");
    if (!r)
        handle_kill(&p->h);
    return call_leave(r);
}

API cuMemPoolTrimTo(CUmemoryPool pool, size_t keep)
{
    CUresult r;
    (void)keep; /* nothing is held back here */
    enter_pool(__func__, pool, &r);
    return call_leave(r);
}

/* The values of an attribute: int for the three about reuse, else 64 bits. */
static CUresult transfer(Pool *p, CUmemPool_attribute attribute, void *value, bool set)
{
    uint64_t *wide = NULL;
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES: {
        int *narrow = &p->reuse[attribute - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        memcpy(set ? (void *)narrow : value, set ? value : narrow, sizeof *narrow);
        return CUDA_SUCCESS;
    }
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        wide = &p->threshold;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        wide = set ? NULL : &p->used;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        wide = &p->used_high;
        break;
    default:
        break;
    }
    if (!wide)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(set ? (void *)wide : value, set ? value : wide, sizeof *wide);
    return CUDA_SUCCESS;
}

API cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    CUresult r;
    Pool *p = enter_pool(__func__, pool, &r);
    if (p)
        r = value ? transfer(p, attribute, value, true) : CUDA_ERROR_INVALID_VALUE;
    return call_leave(r);
}

API cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    CUresult r;
    Pool *p = enter_pool(__func__, pool, &r);
    if (p)
        r = value ? transfer(p, attribute, value, false) : CUDA_ERROR_INVALID_VALUE;
    return call_leave(r);
}

API cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    CUresult r;
    const Pool *p = enter_pool(__func__, pool, &r);
    for (size_t k = 0; !r && k < count; k++) {
        int d = map[k].location.id;
        if (map[k].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !device_is(d))
            r = CUDA_ERROR_INVALID_VALUE;
        else if (d != p->device)
            device_get(d)->peers[p->device] = map[k].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    }
    return call_leave(r);
}

/* --- pointers -------------------------------------------------------------------------------- */

static CUresult pointer_attribute(void *out, CUpointer_attribute attribute, uint64_t address)
{
    const Alloc *a = memory_find(address);
    const Piece *p = a && !a->freed ? piece_find(a->base) : NULL;
    if (!a || a->freed)
        return CUDA_ERROR_INVALID_VALUE;
    bool host = !a->device && !a->managed;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT: {
        CUcontext c = (CUcontext)(p ? p->context : NULL);
        memcpy(out, &c, sizeof c);
        return CUDA_SUCCESS;
    }
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: {
        unsigned type = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        memcpy(out, &type, sizeof type);
        return CUDA_SUCCESS;
    }
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR: {
        uint64_t at = attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER ? address : a->base;
        memcpy(out, &at, sizeof at);
        return CUDA_SUCCESS;
    }
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (a->device)
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(out, &address, sizeof address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        memcpy(out, &a->number, sizeof a->number);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: {
        size_t bytes = a->end - a->base;
        memcpy(out, &bytes, sizeof bytes);
        return CUDA_SUCCESS;
    }
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS: {
        unsigned flag = attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED
                            ? a->managed
                            : attribute == CU_POINTER_ATTRIBUTE_MAPPED;
        memcpy(out, &flag, sizeof flag);
        return CUDA_SUCCESS;
    }
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: {
        int d = a->device ? a->device->ordinal : p ? p->context->device->ordinal : 0;
        memcpy(out, &d, sizeof d);
        return CUDA_SUCCESS;
    }
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

API cuPointerGetAttribute(void *out, CUpointer_attribute attribute, CUdeviceptr address)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r)
        r = out ? pointer_attribute(out, attribute, address) : CUDA_ERROR_INVALID_VALUE;
    return call_leave(r);
}

/* Unlike the one above it answers for any pointer: zeros where it is not CUDA's. */
API cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes, void **out,
                           CUdeviceptr address)
{
    CUresult r = call_enter(__func__, WORKING);
    if (!r && (!n || !attributes || !out))
        r = CUDA_ERROR_INVALID_VALUE;
    for (unsigned k = 0; !r && k < n; k++)
        if (pointer_attribute(out[k], attributes[k], address))
            memset(out[k], 0,
                   attributes[k] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
                           attributes[k] == CU_POINTER_ATTRIBUTE_IS_MANAGED ||
                           attributes[k] == CU_POINTER_ATTRIBUTE_MAPPED ||
                           attributes[k] == CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
                           attributes[k] == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
                       ? sizeof(unsigned)
                       : sizeof(uint64_t));
    return call_leave(r);
}

API cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr address)
{
    CUresult r = call_enter(__func__, WORKING);
    const Alloc *a = r ? NULL : memory_find(address);
    if (!r && (!value || !a || a->freed || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS))
        r = CUDA_ERROR_INVALID_VALUE;
    return call_leave(r);
}
