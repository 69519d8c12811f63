// bugs.cu: one mistake of each kind in device code. Every kernel takes `wrong`: 1 makes the
// mistake, 0 is the kernel as it should be, which must give no finding. A line that a finding has
// to name is marked with "planted: NAME". SPDX-License-Identifier: MIT

// One thread too many writes.
extern "C" __global__ void bounds_global(float *out, int n, int wrong)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n + wrong)
        out[i] = i; // planted: bounds_global
}

// The last thread's neighbour lies outside.
extern "C" __global__ void bounds_shared(float *out, int wrong)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    tile[t] = t;
    __syncthreads();
    out[t] = tile[wrong ? t + 1 : t]; // planted: bounds_shared
}

// A table in local memory, and an index behind it.
extern "C" __global__ void bounds_local(int *out, const int *at, int wrong)
{
    int table[16];
    for (int k = 0; k < 16; k++)
        table[k] = k * at[k];
    out[threadIdx.x] = table[at[threadIdx.x] + (wrong ? 4096 : 0)]; // planted: bounds_local
}

// Reads what the host gave.
extern "C" __global__ void copy(const float *in, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = in[i]; // planted: copy
}

// Four floats at once from an address that is no multiple of 16.
extern "C" __global__ void misaligned(const float *in, float *out, int wrong)
{
    float4 v = *(const float4 *)(in + 4 * threadIdx.x + wrong); // planted: misaligned
    out[threadIdx.x] = v.x + v.y + v.z + v.w;
}

// Shared memory is read where nothing wrote.
extern "C" __global__ void uninit_shared(float *out, int wrong)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    if (!wrong || t != 40)
        tile[t] = t;
    __syncthreads();
    out[t] = tile[63 - t]; // planted: uninit_shared
}

// The second warp reads what the first one writes, without a barrier between. Which of the two
// comes too early depends on who runs first.
extern "C" __global__ void shared_race(float *out, int wrong)
{
    __shared__ float tile[32];
    int t = threadIdx.x;
    if (t < 32)
        tile[t] = 0;
    __syncthreads();
    if (t < 32)
        tile[t] = t; // planted: shared_race
    if (!wrong)
        __syncthreads();
    out[t] = t < 32 ? 0 : tile[t - 32]; // planted: shared_race
}

// The same within a warp, where the hardware gives no guarantee either.
extern "C" __global__ void shared_race_warp(float *out, int wrong)
{
    __shared__ float tile[32];
    int t = threadIdx.x;
    tile[t] = 0;
    __syncwarp();
    tile[t] = t;
    if (!wrong)
        __syncwarp();
    out[t] = tile[(t + 1) % 32]; // planted: shared_race_warp
}

// Blocks write one word, each its own number.
extern "C" __global__ void block_race(int *last, int wrong)
{
    if (threadIdx.x == 0 && (wrong || blockIdx.x == 0))
        *last = blockIdx.x; // planted: block_race
}

// Half of a warp waits at one barrier, the rest at another.
extern "C" __global__ void barrier_divergent(float *out, int wrong)
{
    __shared__ float tile[64];
    int t = threadIdx.x;
    tile[t] = t;
    if (wrong && t < 16)
        __syncthreads(); // planted: barrier_divergent
    __syncthreads();     // planted: barrier_divergent
    out[t] = tile[63 - t];
}

// A named barrier for two warps, of which one comes.
extern "C" __global__ void deadlock(float *out, int wrong)
{
    if (!wrong || threadIdx.x < 32)
        asm volatile("bar.sync 1, 64;" ::: "memory"); // planted: deadlock
    out[threadIdx.x] = threadIdx.x;
}

// Waits for a word that nobody writes.
extern "C" __global__ void hang(volatile int *flag, int wrong)
{
    if (!wrong)
        *flag = 1;
    while (*flag == 0) // planted: hang
        ;
}

// The mask names lanes that are elsewhere, at an exchange of their own.
extern "C" __global__ void warp_sync(int *out, int wrong)
{
    int t = threadIdx.x, v = t;
    unsigned mask = wrong ? 0xffffffffu : t < 16 ? 0xffffu : 0xffff0000u;
    if (t < 16)
        v = __shfl_xor_sync(mask, v, 1); // planted: warp_sync
    else
        v = __shfl_down_sync(mask, v, 2); // planted: warp_sync
    out[t] = v;
}

extern "C" __global__ void asserts(int *out, int wrong)
{
    assert(!wrong || threadIdx.x != 5); // planted: asserts
    out[threadIdx.x] = 0;
}

extern "C" __global__ void traps(int *out, int wrong)
{
    if (wrong && threadIdx.x == 5)
        __trap(); // planted: traps
    out[threadIdx.x] = 0;
}

extern "C" __global__ void fill(float *out, float value, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = value;
}

extern "C" __global__ void dynamic_shared(float *out, int n)
{
    extern __shared__ float tile[];
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        tile[i] = i;
    __syncthreads();
    out[threadIdx.x] = tile[n - 1 - threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(128) bounded(float *out)
{
    out[threadIdx.x] = 0;
}
