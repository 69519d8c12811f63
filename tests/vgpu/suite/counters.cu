// counters.cu: kernels whose accesses are known by count; counters.c has the numbers. Each is
// launched as one block of 128 threads. SPDX-License-Identifier: MIT
#define KERNEL extern "C" __global__

KERNEL void neighbours(const float *in, float *out)
{
    out[threadIdx.x] = in[threadIdx.x];
}

// The first and the last lane's floats share a sector with nobody's.
KERNEL void shifted(const float *in, float *out)
{
    out[threadIdx.x] = in[threadIdx.x + 1];
}

KERNEL void far_apart(const float *in, float *out)
{
    out[threadIdx.x] = in[threadIdx.x * 8];
}

KERNEL void one_place(const float *in, float *out)
{
    out[threadIdx.x] = in[0];
}

KERNEL void four_at_once(const float4 *in, float4 *out)
{
    out[threadIdx.x] = in[threadIdx.x];
}

KERNEL void columns(const float *in, float *out)
{
    __shared__ float tile[32 * 32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    tile[lane * 32 + warp] = in[threadIdx.x]; // all lanes in one bank
    __syncthreads();
    out[threadIdx.x] = tile[lane * 32 + warp];
}

KERNEL void padded(const float *in, float *out)
{
    __shared__ float tile[32 * 33];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    tile[lane * 33 + warp] = in[threadIdx.x];
    __syncthreads();
    __syncthreads();
    out[threadIdx.x] = tile[lane * 33 + warp];
}

// Half of each warp goes the long way.
KERNEL void parted(const float *in, float *out)
{
    float v = in[threadIdx.x];
    if (threadIdx.x % 32 < 16)
        for (int k = 0; k < 10; k++)
            v = sinf(v);
    out[threadIdx.x] = v;
}

KERNEL void counts(const float *in, float *out)
{
    atomicAdd(out, in[threadIdx.x]);
}
