/* device.c: the virtual devices, and the attributes of the real ones that they stand for.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/drv.h"

#include <pthread.h>

static const Model models[] = {
    /* sm, processors, threads, blocks, shared, opt-in, reserved, L2, kHz, memory kHz, bus */
    {75, 40, 1024, 16, 65536, 65536, 0, 4194304, 1590000, 5001000, 256, "Virtual T4"},
    {80, 108, 2048, 32, 167936, 166912, 1024, 41943040, 1410000, 1215000, 5120, "Virtual A100"},
    {86, 72, 1536, 16, 102400, 101376, 1024, 6291456, 1695000, 6251000, 384, "Virtual A10"},
    {89, 58, 1536, 24, 102400, 101376, 1024, 50331648, 2040000, 6251000, 192, "Virtual L4"},
    {90, 132, 2048, 32, 233472, 232448, 1024, 52428800, 1980000, 2619000, 5120, "Virtual H100"},
    {100, 148, 2048, 32, 233472, 232448, 1024, 132644864, 1965000, 3996000, 8192, "Virtual B200"},
    {120, 170, 1536, 24, 102400, 101376, 1024, 100663296, 2407000, 14001000, 512, "Virtual RTX"},
};

const Model *device_model(void)
{
    size_t k = 0;
    while (models[k].capability != options()->capability)
        k++;
    return &models[k];
}

static Device devices[16];

static void make_devices(void)
{
    for (int k = 0; k < 16; k++) {
        devices[k].ordinal = k;
        devices[k].bytes = options()->memory;
    }
}

Device *device_get(int ordinal)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_devices);
    return ordinal >= 0 && ordinal < options()->devices ? &devices[ordinal] : NULL;
}

/* What is the same on all of them. Those not named here and below are 0: not there. */
static const struct {
    int attribute, value;
} fixed[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_MODE, CU_COMPUTEMODE_DEFAULT},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
};

static bool attribute_of_model(int *out, int attribute, const Model *m, const Device *d)
{
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *out = m->capability / 10;
        return true;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *out = m->capability % 10;
        return true;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *out = m->processors;
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        *out = m->threads_per_processor;
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        *out = m->blocks_per_processor;
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        *out = m->shared_per_processor;
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        *out = m->shared_optin;
        return true;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        *out = m->reserved_shared;
        return true;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        *out = m->l2;
        return true;
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE:
        *out = m->capability >= 80 ? m->l2 / 4 * 3 : 0;
        return true;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        *out = m->clock_khz;
        return true;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        *out = m->memory_khz;
        return true;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        *out = m->bus;
        return true;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        *out = d->ordinal + 1;
        return true;
    case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
        *out = d->ordinal;
        return true;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
        *out = 0; /* thread block clusters are not run here */
        return true;
    default:
        return false;
    }
}

bool device_attribute(int *out, int attribute, const Device *d)
{
    if (attribute < 1 || attribute >= CU_DEVICE_ATTRIBUTE_MAX)
        return false;
    if (attribute_of_model(out, attribute, device_model(), d))
        return true;
    *out = 0;
    for (size_t k = 0; k < sizeof fixed / sizeof *fixed; k++)
        if (fixed[k].attribute == attribute)
            *out = fixed[k].value;
    return true;
}

int function_max_threads(const Function *f)
{
    if (f->required[0]) {
        uint32_t y = f->required[1] ? f->required[1] : 1, z = f->required[2] ? f->required[2] : 1;
        return (int)(f->required[0] * y * z);
    }
    return f->max_threads ? (int)f->max_threads : 1024;
}

int function_registers(const Function *f)
{
    /* The compiler keeps to what lets a block of the largest size it was told of run. */
    int most = 65536 / function_max_threads(f) / 8 * 8, n = (int)f->nregisters;
    if (f->max_threads == 0 && most < 128)
        most = 128;
    if (most > 255)
        most = 255;
    return n < 16 ? 16 : n > most ? most : n;
}

static int at_most(int n, int limit)
{
    return n < limit ? n : limit;
}

int occupancy(const Function *f, int threads, uint64_t dynamic_shared)
{
    const Model *m = device_model();
    int warps = (threads + 31) / 32;
    uint64_t grain = m->capability >= 80 ? 128 : 256;
    uint64_t shared =
        (f->shared_bytes + dynamic_shared + (uint64_t)m->reserved_shared + grain - 1) / grain *
        grain;
    int per_warp = (function_registers(f) * LANES + 255) / 256 * 256;
    int n = at_most(m->blocks_per_processor, m->threads_per_processor / (warps * 32));
    n = at_most(n, 65536 / per_warp / warps);
    if (shared)
        n = at_most(n, (int)((uint64_t)m->shared_per_processor / shared));
    return n;
}
