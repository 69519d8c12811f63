/* tile.cu: kernels that are nothing but the tile skeleton (runtime/kernels/tile.cuh stands in front
 * of this text): every kind of product, each operand lying along k or across, odd sizes by plain
 * stores, others by asynchronous copies. tile.c runs them. SPDX-License-Identifier: MIT */
template <class T_, class S_, int W_, bool A_K, bool B_K, int BYTES> struct Hooks {
    typedef T_ T;
    typedef S_ S;
    enum { W = W_ };
    const T *A, *B; /* (M, K) or (K, M); (N, K) or (K, N) */
    S *C;           /* (M, N) */
    int M, N, K;

    template <bool ALONG_K> __device__ void put(const T *p, int rows, int m, int k, T *to) const
    {
        const T *const from = ALONG_K ? p + (long long)m * K + k : p + (long long)k * rows + m;
        const int left = m >= rows || k >= K ? 0 : ALONG_K ? K - k : rows - m;
        if (BYTES > 0)
            tn_copy<BYTES == 0 ? 16 : BYTES>(to, from, left * (int)sizeof(T));
        else
            *(tn_tile_vector<T, 16 / sizeof(T)> *)to = gather(from, left);
    }
    static __device__ tn_tile_vector<T, 16 / sizeof(T)> gather(const T *from, int left)
    {
        tn_tile_vector<T, 16 / sizeof(T)> x;
#pragma unroll
        for (int j = 0; j < 16 / (int)sizeof(T); j++)
            x.v[j] = j < left ? from[j] : (T)0;
        return x;
    }
    __device__ void a(int m, int k, T *to) const { put<A_K>(A, M, m, k, to); }
    __device__ void b(int n, int k, T *to) const { put<B_K>(B, N, n, k, to); }
    __device__ void store(int m, int n, const S (&x)[W]) const
    {
        struct __align__(sizeof(S) * W) Vector {
            S v[W];
        } y;
#pragma unroll
        for (int j = 0; j < W; j++)
            y.v[j] = x[j];
        *(Vector *)(C + (long long)m * N + n) = y;
    }
};

#define KERNEL(name, tile, threads, math, size, T, S, W, A_K, B_K, bytes)                           \
    extern "C" __global__ void __launch_bounds__(threads)                                          \
        name(const T *A, const T *B, S *C, int M, int N, int K)                                    \
    {                                                                                              \
        const Hooks<T, S, W, A_K, B_K, bytes> h = {A, B, C, M, N, K};                              \
        const int columns = (N + size - 1) / size;                                                 \
        tile<math, size, size, A_K, B_K>(h, blockIdx.x / columns * size,                           \
                                         blockIdx.x % columns * size, M, N, K);                    \
    }
/* both along k, one of them, none */
#define LAYOUTS(name, tile, threads, math, size, T, S, W, V, bytes)                                \
    KERNEL(name##_kk, tile, threads, math, size, T, S, W, true, true, bytes)                       \
    KERNEL(name##_kn, tile, threads, math, size, T, S, V, true, false, bytes)                      \
    KERNEL(name##_mk, tile, threads, math, size, T, S, W, false, true, bytes)                      \
    KERNEL(name##_mn, tile, threads, math, size, T, S, V, false, false, bytes)

LAYOUTS(f32, tn_tile, 256, 0, 64, float, float, 4, 4, 16)
LAYOUTS(f32_odd, tn_tile, 256, 0, 64, float, float, 1, 1, 0)
KERNEL(f64_odd_kn, tn_tile, 256, 0, 64, double, double, 1, true, false, 0)
KERNEL(f16_plain_kk, tn_tile, 256, 3, 64, unsigned short, float, 1, true, true, 0)
#if __CUDA_ARCH__ >= 800
KERNEL(f32_large_kn, tn_tile, 256, 0, 128, float, float, 4, true, false, 16)
LAYOUTS(tf32, tn_tensor_tile, 128, 1, 64, float, float, 4, 2, 16)
KERNEL(tf32_odd_kk, tn_tensor_tile, 128, 1, 64, float, float, 1, true, true, 4)
KERNEL(tf32_odd_mn, tn_tensor_tile, 128, 1, 64, float, float, 1, false, false, 0)
KERNEL(tf32_large_kk, tn_tensor_tile, 256, 1, 128, float, float, 4, true, true, 16)
LAYOUTS(bf16, tn_tensor_tile, 128, 2, 64, unsigned short, float, 4, 2, 16)
KERNEL(bf16_odd_mk, tn_tensor_tile, 128, 2, 64, unsigned short, float, 1, false, true, 0)
KERNEL(bf16_large_kk, tn_tensor_tile, 256, 2, 128, unsigned short, float, 4, true, true, 16)
KERNEL(f16_kk, tn_tensor_tile, 128, 3, 64, unsigned short, float, 4, true, true, 16)
KERNEL(f16_odd_kn, tn_tensor_tile, 128, 3, 64, unsigned short, float, 1, true, false, 0)
#endif
