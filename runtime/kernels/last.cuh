/* last.cuh: which of the cells that count themselves is the last. What the others stored before is
 * there for it; the counter is 0 again for the next launch. Memory fences order it: CUDA C++
 * Programming Guide, "Memory Fence Functions". SPDX-License-Identifier: MIT */

/*@ last_team: of `count` warps. */
TN_FN bool tn_last_team(uint32_t *counter, int64_t count)
{
    uint32_t before = 0;
    __threadfence();
    __syncwarp();
    if (threadIdx.x == 0)
        before = atomicInc(counter, (uint32_t)count - 1);
    before = __shfl_sync(~0u, before, 0);
    __threadfence();
    return before == (uint32_t)count - 1;
}

/*@ last_block: of `count` blocks. */
TN_FN bool tn_last_block(uint32_t *counter, int64_t count)
{
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && threadIdx.y == 0)
        last = atomicInc(counter, (uint32_t)count - 1) == (uint32_t)count - 1;
    __syncthreads();
    __threadfence();
    return last;
}
