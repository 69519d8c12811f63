// kernels.cu: four classics of CUDA, as one would write them for a real device; program.c runs
// them. SPDX-License-Identifier: MIT

extern "C" __global__ void add(const float *x, const float *y, float *z, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        z[i] = x[i] + y[i];
}

// The sum of each block's 512 elements, then one atomic addition a block.
extern "C" __global__ void sum(const float *x, float *total, int n)
{
    __shared__ float of_warp[8];
    int t = threadIdx.x, i = blockIdx.x * 512 + t;
    float v = (i < n ? x[i] : 0) + (i + 256 < n ? x[i + 256] : 0);
    for (int step = 16; step; step /= 2)
        v += __shfl_down_sync(0xffffffffu, v, step);
    if (t % 32 == 0)
        of_warp[t / 32] = v;
    __syncthreads();
    if (t < 32) {
        v = t < 8 ? of_warp[t] : 0;
        for (int step = 4; step; step /= 2)
            v += __shfl_down_sync(0xffffffffu, v, step);
        if (t == 0)
            atomicAdd(total, v);
    }
}

// to[c][r] = from[r][c] through a tile; the extra column keeps its banks apart.
extern "C" __global__ void transpose(const float *from, float *to, int rows, int cols)
{
    __shared__ float tile[32][33];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (c < cols && r + k < rows)
            tile[threadIdx.y + k][threadIdx.x] = from[(r + k) * cols + c];
    __syncthreads();
    c = blockIdx.y * 32 + threadIdx.x;
    r = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        if (c < rows && r + k < cols)
            to[(r + k) * rows + c] = tile[threadIdx.x][threadIdx.y + k];
}

// c[m][n] = a[m][k] b[k][n]; tiles of 16 x 16 in dynamic shared memory.
extern "C" __global__ void multiply(const float *a, const float *b, float *c, int m, int n, int k)
{
    extern __shared__ float tiles[];
    float *ta = tiles, *tb = tiles + 16 * 16;
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0;
    for (int at = 0; at < k; at += 16) {
        ta[y * 16 + x] = row < m && at + x < k ? a[row * k + at + x] : 0;
        tb[y * 16 + x] = at + y < k && col < n ? b[(at + y) * n + col] : 0;
        __syncthreads();
        for (int j = 0; j < 16; j++)
            sum += ta[y * 16 + j] * tb[j * 16 + x];
        __syncthreads();
    }
    if (row < m && col < n)
        c[row * n + col] = sum;
}
