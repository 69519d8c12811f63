/* suite.h: what the parts of the kernel suite share. SPDX-License-Identifier: MIT */
#ifndef VGPU_SUITE_H
#define VGPU_SUITE_H

#include "tests/vgpu/user.h"

typedef struct {
    CUmodule module;
    int capability, scale; /* scale: 1 small, 8 for the bench */
    int kernels, failures;
} Suite;

typedef struct {
    unsigned gx, gy, gz, bx, by, bz;
} Shape;

/** One launch, and wait. */
void run(Suite *s, const char *kernel, Shape shape, void **args);
void wrong(Suite *s, const char *kernel, size_t at, double got, double expected);
/** |got - expected| <= tolerance (1 + |expected|) */
void near(Suite *s, const char *kernel, size_t at, double got, double expected, double tolerance);
void *download(CUdeviceptr from, size_t bytes);

void suite_floats(Suite *s);   /* floats.c: kernels over arrays of numbers */
void suite_matrices(Suite *s); /* matrices.c: products, convolution, attention */
void suite_others(Suite *s);   /* others.c: integers, votes, atomics, local memory */

#endif
