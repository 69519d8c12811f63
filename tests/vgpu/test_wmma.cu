// test_wmma.cu: one tile of each shape and type of mma.h. SPDX-License-Identifier: MIT
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// c = 2 * (a * b + c); doubling goes through the fragment's elements.
#define TILE(name, M, N, K, IN, T, C, LAYOUT_A, lda, LAYOUT_B, ldb, LAYOUT_C, ldc)                                     \
    extern "C" __global__ void name(const IN *a, const IN *b, C *c)                                                    \
    {                                                                                                                  \
        wmma::fragment<wmma::matrix_a, M, N, K, T, wmma::LAYOUT_A> fa;                                                 \
        wmma::fragment<wmma::matrix_b, M, N, K, T, wmma::LAYOUT_B> fb;                                                 \
        wmma::fragment<wmma::accumulator, M, N, K, C> fc;                                                              \
        wmma::load_matrix_sync(fa, a, lda);                                                                            \
        wmma::load_matrix_sync(fb, b, ldb);                                                                            \
        wmma::load_matrix_sync(fc, c, ldc, wmma::LAYOUT_C);                                                            \
        wmma::mma_sync(fc, fa, fb, fc);                                                                                \
        for (int e = 0; e < fc.num_elements; e++)                                                                      \
            fc.x[e] = fc.x[e] * (C)2;                                                                                  \
        wmma::store_matrix_sync(c, fc, ldc, wmma::LAYOUT_C);                                                           \
    }
TILE(half_f32, 16, 16, 16, half, half, float, row_major, 24, col_major, 16, mem_row_major, 16)
TILE(half_f16, 32, 8, 16, half, half, half, col_major, 32, row_major, 8, mem_row_major, 16)
TILE(bf16_f32, 8, 32, 16, __nv_bfloat16, __nv_bfloat16, float, row_major, 16, row_major, 32, mem_col_major, 8)
TILE(tf32_f32, 16, 16, 8, float, wmma::precision::tf32, float, row_major, 8, col_major, 8, mem_row_major, 16)
TILE(s8_s32, 16, 16, 16, signed char, signed char, int, row_major, 16, col_major, 32, mem_col_major, 16)
TILE(f64_f64, 8, 8, 4, double, double, double, row_major, 4, col_major, 4, mem_row_major, 8)

// Through shared memory, where addresses are of the block.
extern "C" __global__ void shared_half(const half *a, const half *b, float *c)
{
    __shared__ __align__(32) half sa[256], sb[256];
    __shared__ __align__(32) float sc[256];
    for (int i = threadIdx.x; i < 256; i += 32) {
        sa[i] = a[i];
        sb[i] = b[i];
        sc[i] = c[i];
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::load_matrix_sync(fa, sa, 16);
    wmma::load_matrix_sync(fb, sb, 16);
    wmma::load_matrix_sync(fc, sc, 16, wmma::mem_row_major);
    __syncwarp();
    wmma::mma_sync(fc, fa, fb, fc);
    for (int e = 0; e < fc.num_elements; e++)
        fc.x[e] *= 2;
    wmma::store_matrix_sync(sc, fc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int i = threadIdx.x; i < 256; i += 32)
        c[i] = sc[i];
}
