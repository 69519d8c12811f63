/* hook.h: what the stand-ins of libraries (cuBLAS, cuBLASLt) ask of the virtual driver. These
 * functions are exported by libcuda.so.1 beside CUDA's own; the driver's part implements them.
 * SPDX-License-Identifier: MIT */
#ifndef VGPU_HOOK_H
#define VGPU_HOOK_H

#include "tests/vgpu/vgpu.h"

#include <cuda.h>

#define VGPU_EXPORT __attribute__((visibility("default")))

/** The work of one library call, when its turn in the stream has come. It reaches device memory
 * through vgpu_access only, with the `d` and `op` given here. */
typedef void LibraryWork(void *args, Device *d, uint32_t op);

/** Queues `work` as one operation of the current context's `stream`, like cuLaunchHostFunc, but as
 * work of the device: it is ordered, counted and captured into graphs as a kernel is. `args` are
 * copied
 * (`bytes` of them; a graph keeps the copy for each of its launches). `name` is a literal:
 * "cublasSgemm_v2". Fails as cuLaunchKernel does: no current context, a stream of another one, an
 * error before. */
VGPU_EXPORT CUresult vgpu_enqueue(CUstream stream, const char *name, LibraryWork *work,
                                  const void *args, size_t bytes);

/** memory_access for a library: checked host memory behind device addresses, or NULL after a
 * finding. */
VGPU_EXPORT uint8_t *vgpu_access(uint64_t address, uint64_t bytes, bool write, Device *d,
                                 uint32_t op, const char *what);

/** Fills with 0xff and marks as not written: what a workspace holds after use. */
VGPU_EXPORT void vgpu_poison(uint64_t address, uint64_t bytes, Device *d, uint32_t op,
                             const char *what);

/** Whether this call of `name` shall fail (VGPU_FAIL=cublasSgemm_v2:2), and the trace of calls. */
VGPU_EXPORT bool vgpu_call_fails(const char *name);

/** finding(FINDING_LIBRARY, ...) */
VGPU_EXPORT void vgpu_library_finding(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** A thing that must be given back (a handle) was made (+1) or destroyed (-1): counted for leaks at
 * exit. */
VGPU_EXPORT void vgpu_library_live(const char *kind, int change);

/** The device of the current context, or -1. */
VGPU_EXPORT int vgpu_current_device(void);

#endif
