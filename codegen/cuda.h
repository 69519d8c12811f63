/* cuda.h: a kernel as a CUDA C++ function. kernels.md shows the target look.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_CODEGEN_CUDA_H
#define TENON_CODEGEN_CUDA_H

#include "codegen/c.h"

/** Appends `extern "C" __global__ void NAME(parameters, sizes, int *error if it has checks)`. Sizes
 * are int where their bound fits, else long long. */
PrintedKernel cuda_kernel(Program *p, const Kernel *k, uint32_t number, StrBuf *out);

/** The vector types (f32x4, ..) with load4 and store4 that `text` uses. */
void cuda_vectors(Arena *a, const char *text, StrBuf *out);

#endif
