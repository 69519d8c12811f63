/* user.h: what the test programs of the virtual GPU share: NVRTC, one context and module, checked
 * calls. They use the driver as any program does. SPDX-License-Identifier: MIT */
#ifndef VGPU_USER_H
#define VGPU_USER_H

#include <cuda.h>

#include <stddef.h>
#include <stdint.h>

/** Compiles a file to PTX for compute capability `sm`; *n: its bytes. Ends the process with 77
 * where there is no NVRTC, and with 1 after printing why it does not compile. */
char *user_compile(const char *path, int sm, size_t *n);
char *user_read(const char *path, size_t *n);

/** cuInit, the primary context of device 0 made current. */
CUcontext user_context(void);
/** Compute capability of device 0: 80. */
int user_capability(void);

/** Ends the process with status 1 when the call failed. */
void user_check(CUresult r, const char *what);
#define CHECK(call) user_check(call, #call)

CUfunction user_function(CUmodule m, const char *name);
CUdeviceptr user_alloc(size_t bytes);
CUdeviceptr user_upload(const void *x, size_t bytes);
/** n floats of -1 .. 1, from the heap. */
float *user_numbers(size_t n, unsigned seed);
void *user_malloc(size_t bytes);

#endif
