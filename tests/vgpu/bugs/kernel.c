/* kernel.c: mistakes inside of kernels; the kernels are in bugs.cu. SPDX-License-Identifier: MIT */
#include "tests/vgpu/bugs/bugs.h"

#include <stdlib.h>

/* Most kernels take an output and `wrong`. */
static void plain(CUmodule m, const char *kernel, unsigned blocks, unsigned threads, int wrong)
{
    CUdeviceptr out = user_alloc(4 * (size_t)blocks * threads);
    void *args[] = {&out, &wrong};
    CUresult r = launch(m, kernel, blocks, threads, args);
    cuMemFree(out);
    EXPECT(r);
}

static void bounds_global(CUmodule m, int wrong)
{
    int n = 100;
    CUdeviceptr out = user_alloc(4 * (size_t)n);
    void *args[] = {&out, &n, &wrong};
    CUresult r = launch(m, "bounds_global", 4, 32, args);
    cuMemFree(out);
    EXPECT(r);
}

static void bounds_shared(CUmodule m, int wrong)
{
    plain(m, "bounds_shared", 1, 64, wrong);
}

static void bounds_local(CUmodule m, int wrong)
{
    int indices[32];
    for (int k = 0; k < 32; k++)
        indices[k] = k % 16;
    CUdeviceptr out = user_alloc(sizeof indices), at = user_upload(indices, sizeof indices);
    void *args[] = {&out, &at, &wrong};
    CUresult r = launch(m, "bounds_local", 1, 32, args);
    cuMemFree(out);
    cuMemFree(at);
    EXPECT(r);
}

static void copy(CUmodule m, CUdeviceptr in, bool free_first)
{
    int n = 64;
    CUdeviceptr out = user_alloc(4 * (size_t)n);
    void *args[] = {&in, &out, &n};
    if (free_first)
        CHECK(cuMemFree(in));
    CUresult r = launch(m, "copy", 2, 32, args);
    if (!free_first)
        cuMemFree(in);
    cuMemFree(out);
    EXPECT(r);
}

static void freed(CUmodule m, int wrong)
{
    float x[64] = {0};
    copy(m, user_upload(x, sizeof x), wrong);
}

static void uninit_global(CUmodule m, int wrong)
{
    float x[64] = {0};
    copy(m, wrong ? user_alloc(sizeof x) : user_upload(x, sizeof x), false);
}

/* Half of an array is copied, all of it is read. */
static void uninit_half(CUmodule m, int wrong)
{
    float x[64] = {0};
    CUdeviceptr in = user_alloc(sizeof x);
    CHECK(cuMemcpyHtoD(in, x, wrong ? sizeof x / 2 : sizeof x));
    copy(m, in, false);
}

static void misaligned(CUmodule m, int wrong)
{
    float x[132] = {0};
    CUdeviceptr in = user_upload(x, sizeof x), out = user_alloc(128);
    void *args[] = {&in, &out, &wrong};
    CUresult r = launch(m, "misaligned", 1, 32, args);
    cuMemFree(in);
    cuMemFree(out);
    EXPECT(r);
}

static void uninit_shared(CUmodule m, int wrong)
{
    plain(m, "uninit_shared", 1, 64, wrong);
}

static void shared_race(CUmodule m, int wrong)
{
    plain(m, "shared_race", 1, 64, wrong);
}

static void shared_race_warp(CUmodule m, int wrong)
{
    plain(m, "shared_race_warp", 1, 32, wrong);
}

static void block_race(CUmodule m, int wrong)
{
    int zero = 0;
    CUdeviceptr total = user_upload(&zero, sizeof zero);
    void *args[] = {&total, &wrong};
    CUresult r = launch(m, "block_race", 8, 32, args);
    cuMemFree(total);
    EXPECT(r);
}

static void barrier(CUmodule m, int wrong)
{
    plain(m, "barrier_divergent", 1, 64, wrong);
}

static void deadlock(CUmodule m, int wrong)
{
    plain(m, "deadlock", 1, 64, wrong);
}

static void hang(CUmodule m, int wrong)
{
    int zero = 0;
    CUdeviceptr flag = user_upload(&zero, sizeof zero);
    void *args[] = {&flag, &wrong};
    CUresult r = launch(m, "hang", 1, 1, args);
    cuMemFree(flag);
    EXPECT(r);
}

static void warp_sync(CUmodule m, int wrong)
{
    plain(m, "warp_sync", 1, 32, wrong);
}

static void asserts(CUmodule m, int wrong)
{
    plain(m, "asserts", 1, 32, wrong);
}

static void traps(CUmodule m, int wrong)
{
    plain(m, "traps", 1, 32, wrong);
}

const Bug bugs_kernel[] = {
    {"bounds_global", "bounds", "thread (4,0,0)", "bounds_global", bounds_global, .status = 86},
    {"bounds_shared", "bounds", "thread (63,0,0)", "bounds_shared", bounds_shared, .status = 86},
    {"bounds_local", "bounds", "kernel bounds_local", "bounds_local", bounds_local, .status = 86},
    {"freed", "freed", "kernel copy", "copy", freed, .status = 86},
    {"misaligned", "misaligned", "kernel misaligned", "misaligned", misaligned, .status = 86},
    {"uninit_global", "uninit", "kernel copy", "copy", uninit_global, .status = 86},
    {"uninit_half", "uninit", "thread (0,0,0)", "copy", uninit_half, .status = 86},
    {"uninit_shared", "uninit", "thread (23,0,0)", "uninit_shared", uninit_shared, .status = 86},
    {"shared_race", "shared-race", "kernel shared_race", "shared_race", shared_race, .status = 86},
    {"shared_race_warp", "shared-race", "kernel shared_race_warp", "shared_race_warp",
     shared_race_warp, .status = 86},
    {"block_race", "block-race", "kernel block_race", "block_race", block_race, .status = 86},
    {"barrier", "barrier", "kernel barrier_divergent", "barrier_divergent", barrier, .status = 86},
    {"deadlock", "deadlock", "kernel deadlock", NULL, deadlock, .status = 86},
    {"hang", "hang", "kernel hang", NULL, hang, "VGPU_BUDGET=1000000", .status = 86},
    {"warp_sync", "warp-sync", "kernel warp_sync", "warp_sync", warp_sync, .status = 86},
    {"assert", "assert", "kernel asserts", "asserts", asserts, .status = 86},
    {"trap", "trap", "kernel traps", "traps", traps, .status = 86},
    {0},
};
