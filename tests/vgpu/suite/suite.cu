// suite.cu: correct kernels of many kinds; suite.c knows what they compute. None may give a
// finding, on any compute capability. SPDX-License-Identifier: MIT
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define KERNEL  extern "C" __global__
#define LARGEST __int_as_float(0x7f800000) // infinity

__device__ float warp_sum(float v)
{
    for (int step = 16; step; step /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

__device__ float warp_max(float v)
{
    for (int step = 16; step; step /= 2)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, step));
    return v;
}

// Of a block of 256 threads; all get the result.
__device__ float block_sum(float v)
{
    __shared__ float parts[8];
    v = warp_sum(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = v;
    __syncthreads();
    return warp_sum(threadIdx.x % 32 < 8 ? parts[threadIdx.x % 32] : 0);
}

__device__ float block_max(float v)
{
    __shared__ float parts[8];
    v = warp_max(v);
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        parts[threadIdx.x / 32] = v;
    __syncthreads();
    return warp_max(threadIdx.x % 32 < 8 ? parts[threadIdx.x % 32] : -LARGEST);
}

KERNEL void softmax(const float *__restrict__ x, float *__restrict__ y, int cols)
{
    x += (size_t)blockIdx.x * cols;
    y += (size_t)blockIdx.x * cols;
    float high = -LARGEST, sum = 0;
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        high = fmaxf(high, x[c]);
    high = block_max(high);
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        sum += expf(x[c] - high);
    sum = block_sum(sum);
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        y[c] = expf(x[c] - high) / sum;
}

KERNEL void layernorm(const float *__restrict__ x, const float *__restrict__ scale,
                      float *__restrict__ y, int cols)
{
    x += (size_t)blockIdx.x * cols;
    y += (size_t)blockIdx.x * cols;
    float sum = 0, squares = 0;
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        sum += x[c];
    float mean = block_sum(sum) / cols;
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        squares += (x[c] - mean) * (x[c] - mean);
    float by = rsqrtf(block_sum(squares) / cols + 1e-5f);
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
        y[c] = (x[c] - mean) * by * scale[c];
}

KERNEL void gelu(const float4 *__restrict__ x, float4 *__restrict__ y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float4 v = x[i];
    float *e = &v.x;
    for (int k = 0; k < 4; k++)
        e[k] = 0.5f * e[k] * (1 + erff(e[k] * 0.70710678f));
    y[i] = v;
}

// 64 x 64 tiles, 256 threads, 4 x 4 results each; m, n, k are multiples of 64, 64, 16.
KERNEL void sgemm(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c,
                  int m, int n, int k)
{
    __shared__ float ta[16][68], tb[16][64];
    int t = threadIdx.x, tx = t % 16, ty = t / 16, row = blockIdx.y * 64, col = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int at = 0; at < k; at += 16) {
        float4 va = *(const float4 *)(a + (size_t)(row + t / 4) * k + at + t % 4 * 4);
        float4 vb = *(const float4 *)(b + (size_t)(at + t / 16) * n + col + t % 16 * 4);
        ta[t % 4 * 4][t / 4] = va.x;
        ta[t % 4 * 4 + 1][t / 4] = va.y;
        ta[t % 4 * 4 + 2][t / 4] = va.z;
        ta[t % 4 * 4 + 3][t / 4] = va.w;
        *(float4 *)&tb[t / 16][t % 16 * 4] = vb;
        __syncthreads();
        for (int l = 0; l < 16; l++) {
            float4 x = *(float4 *)&ta[l][ty * 4], y = *(float4 *)&tb[l][tx * 4];
            const float *ex = &x.x, *ey = &y.x;
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sum[i][j] += ex[i] * ey[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        *(float4 *)(c + (size_t)(row + ty * 4 + i) * n + col + tx * 4) =
            make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]);
}

KERNEL void transpose(const float *from, float *to, int rows, int cols)
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

// Counter-based random numbers: Philox 4x32, 10 rounds.
KERNEL void philox(uint4 *out, unsigned key0, unsigned key1, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    uint4 c = make_uint4(i, 0, 0, 0);
    for (int r = 0; r < 10; r++) {
        unsigned h0 = __umulhi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
        unsigned h1 = __umulhi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
        c = make_uint4(h1 ^ c.y ^ key0, l1, h0 ^ c.w ^ key1, l0);
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    out[i] = c;
}

KERNEL void histogram(const unsigned char *x, unsigned *bins, int n)
{
    __shared__ unsigned own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        atomicAdd(&own[x[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

// Inclusive sums of blocks of 256.
KERNEL void scan(const int *x, int *y)
{
    __shared__ int of_warp[8];
    int t = threadIdx.x, lane = t % 32, v = x[blockIdx.x * 256 + t];
    for (int step = 1; step < 32; step *= 2) {
        int left = __shfl_up_sync(0xffffffffu, v, step);
        if (lane >= step)
            v += left;
    }
    if (lane == 31)
        of_warp[t / 32] = v;
    __syncthreads();
    if (t < 8) {
        int w = of_warp[t];
        for (int step = 1; step < 8; step *= 2) {
            int left = __shfl_up_sync(0xffu, w, step);
            if (t >= step)
                w += left;
        }
        of_warp[t] = w;
    }
    __syncthreads();
    y[blockIdx.x * 256 + t] = v + (t >= 32 ? of_warp[t / 32 - 1] : 0);
}

// Index of the largest, of several the first: 64-bit keys, atomicMax.
KERNEL void argmax(const float *x, unsigned long long *best, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long key = 0;
    if (i < n) {
        unsigned bits = __float_as_uint(x[i]);
        bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
        key = (unsigned long long)bits << 32 | (0xffffffffu - i);
    }
    for (int step = 16; step; step /= 2) {
        unsigned long long other = __shfl_down_sync(0xffffffffu, key, step);
        key = other > key ? other : key;
    }
    if (threadIdx.x % 32 == 0)
        atomicMax(best, key);
}

// 3 x 3, padded with zeros; one thread a pixel and output channel.
KERNEL void conv(const float *x, const float *w, float *y, int channels, int height, int width)
{
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y, o = blockIdx.z;
    if (c >= width)
        return;
    float sum = 0;
    for (int i = 0; i < channels; i++)
        for (int dy = -1; dy <= 1; dy++)
            for (int dx = -1; dx <= 1; dx++)
                if (r + dy >= 0 && r + dy < height && c + dx >= 0 && c + dx < width)
                    sum += x[(i * height + r + dy) * width + c + dx] *
                           w[((o * channels + i) * 3 + dy + 1) * 3 + dx + 1];
    y[(o * height + r) * width + c] = sum;
}

struct Adam {
    float rate, beta1, beta2, epsilon;
    int step;
};

KERNEL void adam(float *p, const float *g, float *m, float *v, Adam a, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    m[i] = a.beta1 * m[i] + (1 - a.beta1) * g[i];
    v[i] = a.beta2 * v[i] + (1 - a.beta2) * g[i] * g[i];
    float mh = m[i] / (1 - powf(a.beta1, a.step)), vh = v[i] / (1 - powf(a.beta2, a.step));
    p[i] -= a.rate * mh / (sqrtf(vh) + a.epsilon);
}

// One warp a query, online softmax; heads of 32.
KERNEL void attention(const float *q, const float *k, const float *v, float *y, int n)
{
    int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    float query = q[row * 32 + lane], high = -LARGEST, sum = 0, out = 0;
    for (int at = 0; at <= row && at < n; at++) {
        float score = warp_sum(query * k[at * 32 + lane]) * 0.17677669f;
        float above = fmaxf(high, score), by = expf(high - above), e = expf(score - above);
        sum = sum * by + e;
        out = out * by + e * v[at * 32 + lane];
        high = above;
    }
    y[row * 32 + lane] = out / sum;
}

KERNEL void halves(const __half2 *x, const __nv_bfloat162 *y, __half2 *h, __nv_bfloat16 *b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    h[i] = __hfma2(x[i], x[i], __float2half2_rn(0.25f));
    b[2 * i] = __float2bfloat16(__bfloat162float(y[i].x) * 3.0f);
    b[2 * i + 1] = __hadd(y[i].y, y[i].y);
}

// What the sine and others need of local memory, tables and slow paths.
KERNEL void functions(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float v = x[i], a = fabsf(v) + 1e-3f;
    float all[12] = {sinf(v * 1000), cosf(v),     tanf(v),       expf(v),  logf(a),
                     tanhf(v),       erff(v),     powf(a, 2.5f), sqrtf(a), fmodf(v * 100, 0.7f),
                     floorf(v * 10), atan2f(v, a)};
    for (int k = 0; k < 12; k++)
        y[i * 12 + k] = all[k];
}

KERNEL void integers(const int *x, long long *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int a = x[2 * i], b = x[2 * i + 1] | 1;
    long long *to = y + i * 10;
    to[0] = a / b;
    to[1] = a % b;
    to[2] = (long long)a * b;
    to[3] = (long long)a * 1000003ll / b;
    to[4] = (unsigned)a / (unsigned)b;
    to[5] = __popc(a) * 1000 + __clz(b);
    to[6] = __brev(a) ^ __ffs(b);
    to[7] = a >> (b & 31);
    to[8] = (unsigned)a >> (b & 31);
    to[9] = min(a, b) ^ max((unsigned)a, (unsigned)b);
}

KERNEL void doubles(const double *x, double *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = exp(x[i]) / sqrt(x[i] * x[i] + 1.0) + sin(x[i]);
}

// Lanes leave the loop at different times.
KERNEL void collatz(const unsigned *x, unsigned *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned v = x[i], steps = 0;
    while (v != 1) {
        v = v % 2 ? 3 * v + 1 : v / 2;
        steps++;
    }
    y[i] = steps;
}

__constant__ float coefficients[4] = {1.0f, -0.5f, 0.25f, -0.125f};
__device__ int calls = 7;

__device__ __noinline__ float polynomial(float x, int degree)
{
    float v = 0;
    for (int k = degree; k >= 0; k--)
        v = v * x + coefficients[k];
    return v;
}

// Constants, a variable of the module, a function that is called, a switch.
KERNEL void various(const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0)
        atomicAdd(&calls, 1);
    if (i >= n)
        return;
    float v = x[i];
    switch (i % 6) {
    case 0:
        v = polynomial(v, 3);
        break;
    case 1:
        v = polynomial(v, 2) + 1;
        break;
    case 2:
        v = -v;
        break;
    case 3:
        v = v > 0 ? 2 : 3;
        break;
    case 4:
        v *= v;
        break;
    default:
        v = 0;
    }
    y[i] = v;
}

// Sorts 16 numbers of its own in local memory.
KERNEL void sorts(const float *x, float *y)
{
    float own[16];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 16; k++)
        own[k] = x[i * 16 + k];
    for (int k = 1; k < 16; k++) {
        float v = own[k];
        int at = k;
        for (; at > 0 && own[at - 1] > v; at--)
            own[at] = own[at - 1];
        own[at] = v;
    }
    for (int k = 0; k < 16; k++)
        y[i * 16 + k] = own[k];
}

// Votes and matches of lanes.
KERNEL void votes(const int *x, unsigned *y)
{
    int t = threadIdx.x, v = x[blockIdx.x * 32 + t];
    unsigned even = __ballot_sync(0xffffffffu, v % 2 == 0);
    unsigned same = __match_any_sync(0xffffffffu, v);
    int all = __all_sync(0xffffffffu, v >= 0), any = __any_sync(0xffffffffu, v == 3);
    y[blockIdx.x * 32 + t] = even ^ same * 3 ^ all << 1 ^ any;
    if (t == 0)
        atomicOr(&y[gridDim.x * 32], __activemask());
}

#if __CUDA_ARCH__ >= 800
__device__ unsigned shared_address(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

// One warp: c[16][8] = a[16][16 k] b[16 k][8], through cp.async, ldmatrix and mma.
KERNEL void tensor(const __half *a, const __half *b, float *c, int k)
{
    __shared__ __align__(16) __half ta[16 * 16], tb[8 * 16];
    int t = threadIdx.x;
    float d[4] = {};
    for (int at = 0; at < k; at += 16) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(ta + t * 8)),
                     "l"(a + t / 2 * k + at + t % 2 * 8));
        if (t < 16)
            asm volatile(
                "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(tb + t * 8)),
                "l"(b + t / 2 * k + at + t % 2 * 8));
        asm volatile("cp.async.commit_group;");
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();
        unsigned ra[4], rb[2];
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
                     : "r"(shared_address(ta + t % 16 * 16 + t / 16 * 8)));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                     : "=r"(rb[0]), "=r"(rb[1])
                     : "r"(shared_address(tb + t % 8 * 16 + t / 8 % 2 * 8)));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, "
                     "{%4,%5,%6,%7}, {%8,%9}, "
                     "{%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
        __syncthreads();
    }
    c[t / 4 * 8 + t % 4 * 2] = d[0];
    c[t / 4 * 8 + t % 4 * 2 + 1] = d[1];
    c[(t / 4 + 8) * 8 + t % 4 * 2] = d[2];
    c[(t / 4 + 8) * 8 + t % 4 * 2 + 1] = d[3];
}
#endif
