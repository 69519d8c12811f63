/* math_cuda.cu: the scalar functions compile as CUDA, each in a kernel of its own.
 * SPDX-License-Identifier: MIT */
#include <stdint.h>

#define TN_FN static __device__ __forceinline__
#include "runtime/kernels/math.h"
#include "runtime/kernels/number.h"

#define KERNEL(name)                                                                               \
    extern "C" __global__ void __launch_bounds__(256) name(                                        \
        float *__restrict__ y, const float *__restrict__ x, const int *__restrict__ k,             \
        const double *__restrict__ d, const unsigned short *__restrict__ h)

#define UNARY(name)                                                                                \
    KERNEL(k_##name)                                                                               \
    {                                                                                              \
        const int i = blockIdx.x * 256 + threadIdx.x;                                              \
        y[i] = tn_##name(x[i]);                                                                    \
    }
#include "tests/runtime/math_functions.def"

KERNEL(k_two)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    const float a = x[2 * i], b = x[2 * i + 1];
    y[i] = tn_pow(a, b) + tn_atan2(a, b) + tn_max(a, b) * tn_min(a, b) + tn_copysign(a, b) +
           tn_sign(b) + tn_mod_f32(a, b) + tn_floordiv_f32(a, b);
}

KERNEL(k_convert)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    y[i] = tn_f32_from_bf16(h[i]) + tn_f32_from_f16(h[i]) + (float)tn_bf16_from_f32(x[i]) +
           (float)tn_f16_from_f32(x[i]) + (float)tn_bf16_from_f64(d[i]) +
           (float)tn_f16_from_f64(d[i]) + (float)tn_i32_from_f32(x[i]) +
           (float)tn_i64_from_f64(d[i]) + (float)tn_u64_from_f32(x[i]) +
           (float)tn_u8_from_f32(x[i]) + (float)tn_i16_from_f64(d[i]) +
           (float)tn_mod_f64(d[i], 3.0) + (float)tn_floordiv_f64(d[i], 3.0);
}

KERNEL(k_integers)
{
    const int i = blockIdx.x * 256 + threadIdx.x, a = k[2 * i], b = k[2 * i + 1];
    const long long c = tn_floordiv_i64(a, b) + tn_mod_i64(a, b) + tn_shl_i64(a, b) +
                        tn_shr_i64(a, b);
    y[i] = (float)(c + tn_floordiv_i32(a, b) + tn_mod_i32(a, b) + tn_shl_i32(a, b) +
                   tn_shr_i32(a, b));
}

KERNEL(k_random)
{
    const int i = blockIdx.x * 256 + threadIdx.x;
    float u[4], z[4];
    tn_uniform4(7, i, u);
    tn_normal4(7, i, z);
    y[i] = u[0] + u[3] + z[1] + z[2] + tn_uniform(8, i) + tn_normal(9, i);
}
