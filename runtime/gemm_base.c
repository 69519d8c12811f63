/* gemm_base.c: register-tile kernels for any processor. SPDX-License-Identifier: MIT */
#include "runtime/gemm_kernels.h"

#define TARGET
#define MR 4

typedef float Floats __attribute__((vector_size(16)));
typedef double Doubles __attribute__((vector_size(16)));
typedef float LooseFloats __attribute__((vector_size(16), aligned(4), may_alias));
typedef double LooseDoubles __attribute__((vector_size(16), aligned(8), may_alias));

/* Fused where the processor has it; else two roundings: an exact emulation would be very slow. */
static inline Floats fma_floats(Floats a, Floats b, Floats c)
{
#ifdef __FP_FAST_FMAF
    for (int i = 0; i < 4; i++)
        c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
#else
    return a * b + c;
#endif
}

static inline Doubles fma_doubles(Doubles a, Doubles b, Doubles c)
{
#ifdef __FP_FAST_FMA
    for (int i = 0; i < 2; i++)
        c[i] = __builtin_fma(a[i], b[i], c[i]);
    return c;
#else
    return a * b + c;
#endif
}

#define DOT_MAX      2
#define T            float
#define V            Floats
#define LANES        4
#define NAME(x)      x##_f32
#define KERNELS      tn__gemm_f32_base
#define LOAD(p)      ((Floats)(*(const LooseFloats *)(p)))
#define STORE(p, x)  (*(LooseFloats *)(p) = (x))
#define SET1(x)      ((Floats){(x), (x), (x), (x)})
#define ZERO()       ((Floats){0})
#define FMA(a, b, c) fma_floats(a, b, c)
#define ADD(a, b)    ((a) + (b))
#include "runtime/gemm_tile.h"
#undef T
#undef V
#undef LANES
#undef NAME
#undef KERNELS
#undef LOAD
#undef STORE
#undef SET1
#undef ZERO
#undef FMA
#undef ADD

#define DOT_MAX      2
#define T            double
#define V            Doubles
#define LANES        2
#define NAME(x)      x##_f64
#define KERNELS      tn__gemm_f64_base
#define LOAD(p)      ((Doubles)(*(const LooseDoubles *)(p)))
#define STORE(p, x)  (*(LooseDoubles *)(p) = (x))
#define SET1(x)      ((Doubles){(x), (x)})
#define ZERO()       ((Doubles){0})
#define FMA(a, b, c) fma_doubles(a, b, c)
#define ADD(a, b)    ((a) + (b))
#include "runtime/gemm_tile.h"
