/* drv_missing.c: entry points that the virtual driver does not have: each says so and fails with
 * CUDA_ERROR_NOT_SUPPORTED, so that a program that needs one is not left guessing.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

/* The real ones have parameters, which are of no use here: cuda.h is not included. */
static int missing(const char *name)
{
    fprintf(stderr, "vgpu: %s is not in the virtual driver\n", name);
    return 801;
}

#define MISSING(name)                                                                              \
    __attribute__((visibility("default"))) int name(void);                                         \
    int name(void)                                                                                 \
    {                                                                                              \
        return missing(#name);                                                                     \
    }
#include "tests/vgpu/missing.def"
