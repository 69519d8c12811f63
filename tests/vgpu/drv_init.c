/* drv_init.c: the driver and its devices: cuInit, versions, names, attributes, errors' texts, entry
 * points by name. SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv.h"

#include <dlfcn.h>
#include <string.h>

/* --- errors ---------------------------------------------------------------------------------- */

static const struct {
    int result;
    const char *name, *text;
} results[] = {
#define RESULT(name, number, text) {number, number ? "CUDA_ERROR_" #name : "CUDA_" #name, text},
#include "tests/vgpu/result.def"
#undef RESULT
};

static const char *result_find(CUresult r, bool text)
{
    for (size_t k = 0; k < sizeof results / sizeof *results; k++)
        if (results[k].result == (int)r)
            return text ? results[k].text : results[k].name;
    return NULL;
}

const char *result_name(CUresult r)
{
    return result_find(r, false);
}

bool result_is_sticky(CUresult r)
{
    switch (r) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
        return true;
    default:
        return false;
    }
}

static CUresult give_text(CUresult r, const char **out, bool text)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = result_find(r, text);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API cuGetErrorName(CUresult error, const char **out)
{
    return give_text(error, out, false);
}

API cuGetErrorString(CUresult error, const char **out)
{
    return give_text(error, out, true);
}

/* --- the driver ------------------------------------------------------------------------------ */

API cuInit(unsigned int flags)
{
    CUresult r = call_enter(__func__, ALWAYS);
    if (!r && flags)
        r = CUDA_ERROR_INVALID_VALUE;
    return call_leave(r);
}

API cuDriverGetVersion(int *version)
{
    CUresult r = call_enter(__func__, ALWAYS);
    if (!r && !version)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *version = CUDA_VERSION;
    return call_leave(r);
}

/* NVRTC opens any libcuda.so.1 that it finds and calls this without a look at what it got. */
API cuGetExportTable(const void **table, const CUuuid *id)
{
    (void)id;
    if (table)
        *table = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

/* A name without version stands for the newest version that the caller's CUDA has. Where that is
 * not
 * "_v2 since 3.2", the newest first. */
static const struct {
    const char *name;
    int since;
    const char *full;
} renamed[] = {
    {"cuCtxCreate", 12050, "cuCtxCreate_v4"},
    {"cuCtxCreate", 11040, "cuCtxCreate_v3"},
    {"cuEventElapsedTime", 12080, "cuEventElapsedTime_v2"},
    {"cuEventElapsedTime", 0, "cuEventElapsedTime"},
    {"cuGetProcAddress", 12000, "cuGetProcAddress_v2"},
    {"cuGetProcAddress", 0, "cuGetProcAddress"},
    {"cuGraphInstantiate", 12000, "cuGraphInstantiateWithFlags"},
    {"cuGraphInstantiate", 11000, "cuGraphInstantiate_v2"},
    {"cuGraphExecUpdate", 12000, "cuGraphExecUpdate_v2"},
    {"cuGraphExecUpdate", 0, "cuGraphExecUpdate"},
    {"cuGraphAddKernelNode", 12000, "cuGraphAddKernelNode_v2"},
    {"cuGraphAddKernelNode", 0, "cuGraphAddKernelNode"},
    {"cuGraphKernelNodeSetParams", 0, "cuGraphKernelNodeSetParams_v2"},
    {"cuGraphExecKernelNodeSetParams", 12000, "cuGraphExecKernelNodeSetParams_v2"},
    {"cuGraphExecKernelNodeSetParams", 0, "cuGraphExecKernelNodeSetParams"},
    {"cuGraphAddDependencies", 12030, "cuGraphAddDependencies_v2"},
    {"cuGraphAddDependencies", 0, "cuGraphAddDependencies"},
    {"cuGraphRemoveDependencies", 12030, "cuGraphRemoveDependencies_v2"},
    {"cuGraphRemoveDependencies", 0, "cuGraphRemoveDependencies"},
    {"cuGraphGetEdges", 12030, "cuGraphGetEdges_v2"},
    {"cuGraphGetEdges", 0, "cuGraphGetEdges"},
    {"cuGraphNodeGetDependencies", 12030, "cuGraphNodeGetDependencies_v2"},
    {"cuGraphNodeGetDependencies", 0, "cuGraphNodeGetDependencies"},
    {"cuStreamBeginCapture", 10010, "cuStreamBeginCapture_v2"},
    {"cuStreamBeginCapture", 0, "cuStreamBeginCapture"},
    {"cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"},
    {"cuStreamGetCaptureInfo", 0, "cuStreamGetCaptureInfo_v2"},
    {"cuDeviceGetUuid", 11040, "cuDeviceGetUuid_v2"},
};

static void *look_up(void *driver, const char *name, bool per_thread)
{
    static const char *const ends[] = {"_ptsz", "_ptds", ""};
    void *found = NULL;
    for (size_t k = per_thread ? 0 : 2; k < 3 && !found; k++) {
        char full[128];
        snprintf(full, sizeof full, "%s%s", name, ends[k]);
        found = dlsym(driver ? driver : RTLD_DEFAULT, full);
    }
    return found;
}

static void *entry_point(const char *name, int version, bool per_thread)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *found = NULL;
    char full[128];
    for (size_t k = 0; k < sizeof renamed / sizeof *renamed && !found; k++)
        if (!strcmp(renamed[k].name, name) && version >= renamed[k].since)
            found = look_up(driver, renamed[k].full, per_thread);
    snprintf(full, sizeof full, "%s_v2", name);
    if (!found && version >= 3020)
        found = look_up(driver, full, per_thread);
    if (!found)
        found = look_up(driver, name, per_thread);
    if (driver)
        dlclose(driver);
    return found;
}

API cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status)
{
    CUresult r = call_enter(__func__, ALWAYS);
    call_note("%s, %d", symbol ? symbol : "NULL", version);
    if (!r && (!symbol || !out || flags > 2))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r)
        return call_leave(r);
    *out =
        strncmp(symbol, "cu", 2)
            ? NULL
            : entry_point(symbol, version, flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
    if (status)
        *status = *out ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    /* With a place for the status, a name that is not there is no error. */
    return call_leave(*out || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
}

/* --- devices --------------------------------------------------------------------------------- */

bool device_is(CUdevice device)
{
    return device_get(device) != NULL;
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

API cuDeviceGetCount(int *count)
{
    CUresult r = call_enter(__func__, INIT);
    if (!r && !count)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *count = options()->devices;
    return call_leave(r);
}

API cuDeviceGet(CUdevice *device, int ordinal)
{
    CUresult r = enter_device(__func__, ordinal, device);
    if (!r)
        *device = ordinal;
    return call_leave(r);
}

API cuDeviceGetName(char *name, int room, CUdevice device)
{
    CUresult r = enter_device(__func__, device, name);
    if (!r && room <= 0)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        snprintf(name, (size_t)room, "%s", device_model()->name);
    return call_leave(r);
}

API cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    CUresult r = enter_device(__func__, device, bytes);
    if (!r)
        *bytes = device_get(device)->bytes;
    return call_leave(r);
}

API cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CUresult r = enter_device(__func__, device, value);
    if (!r && !device_attribute(value, (int)attribute, device_get(device)))
        r = CUDA_ERROR_INVALID_VALUE;
    return call_leave(r);
}

API cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    CUresult r = enter_device(__func__, device, uuid);
    if (!r) {
        memset(uuid->bytes, 0, sizeof uuid->bytes);
        memcpy(uuid->bytes, "virtual gpu", 11);
        uuid->bytes[15] = (char)(device + 1);
    }
    return call_leave(r);
}

API cuDeviceGetPCIBusId(char *id, int room, CUdevice device)
{
    CUresult r = enter_device(__func__, device, id);
    if (!r && room < 13)
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        snprintf(id, (size_t)room, "0000:%02x:00.0", (unsigned)device + 1);
    return call_leave(r);
}

API cuDeviceGetByPCIBusId(CUdevice *device, const char *id)
{
    CUresult r = enter_device(__func__, 0, device);
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    if (!r && (!id || sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r && (domain || slot || function || !device_is((CUdevice)bus - 1)))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (!r)
        *device = (CUdevice)bus - 1;
    return call_leave(r);
}

API cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    CUresult r = enter_device(__func__, device, can);
    if (!r && !device_is(peer))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (!r)
        *can = device != peer;
    return call_leave(r);
}

API cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from, CUdevice to)
{
    CUresult r = enter_device(__func__, from, value);
    if (!r && (!device_is(to) || from == to))
        r = CUDA_ERROR_INVALID_DEVICE;
    if (!r && (attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ||
               attribute > CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED))
        r = CUDA_ERROR_INVALID_VALUE;
    if (!r)
        *value = attribute == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
                 attribute == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    return call_leave(r);
}
