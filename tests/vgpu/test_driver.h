/* test_driver.h: a test of the virtual driver is a program of its own, which test_driver.c runs as
 * a child: most of them make a mistake, and the driver must name it and end the child with
 * status 86. SPDX-License-Identifier: MIT */
#ifndef VGPU_TEST_DRIVER_H
#define VGPU_TEST_DRIVER_H

#include <cuda.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    const char *name;
    void (*run)(void);
    const char *finding; /* text of the one finding that must come; NULL: none may come */
    const char *env;     /* "VGPU_DEVICES=2 VGPU_MEMORY=1M", or NULL */
    bool every_order;    /* lazy, eager and random with many seeds */
} Case;

/** Runs a case with this environment and says what went wrong. */
bool run_once(const Case *c, const char *env);
/** Runs the random programs of these seeds, some of which are ordered. */
bool random_programs(int from, int to, int *ordered);

extern const Case driver_cases[], graph_cases[], order_cases[], misuse_cases[];

/** Ends the child with status 1 when a call does not give what it should. */
#define GIVES(want, call) gives((call), (want), #call, __FILE__, __LINE__)
#define OK(call)          GIVES(CUDA_SUCCESS, call)
/** ... or when something does not hold. */
#define HOLDS(what) holds((what), #what, __FILE__, __LINE__)

void gives(CUresult got, CUresult want, const char *call, const char *file, int line);
void holds(bool true_, const char *what, const char *file, int line);

/** cuInit, and the primary context of the first device as the current one. */
void begin(void);
/** Releases it. */
void end(void);

/* Kernels of the module: `set` p[i] = v, `add` q[i] = p[i] + v, `wild` writes to address 64. */
typedef struct {
    CUmodule module;
    CUfunction set, add, wild;
} Kernels;

extern const char kernels_ptx[];
Kernels load_kernels(void);
void launch_set(const Kernels *k, CUdeviceptr p, unsigned n, unsigned v, CUstream s);
void launch_add(const Kernels *k, CUdeviceptr q, CUdeviceptr p, unsigned n, unsigned v, CUstream s);
CUdeviceptr device_words(unsigned n);
/** Whether all words at `p` are `v`; waits for them. */
bool words_are(CUdeviceptr p, unsigned n, unsigned v);

#endif
