/* emulate.hpp: runs CUDA C++ text on the CPU, for tests where there is no GPU: a fiber a thread, one
 * block after the other. A barrier or shuffle that not all threads reach ends the test.
 * SPDX-License-Identifier: MIT */
#ifndef TESTS_EMULATE_HPP
#define TESTS_EMULATE_HPP

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static

struct __align__(8) uint2 {
    unsigned x, y;
};
struct __align__(16) uint4 {
    unsigned x, y, z, w;
};
template <class T> static inline void __stwb(T *at, T value) { memcpy(at, &value, sizeof value); }

struct emulated_index {
    unsigned x, y, z;
};
static emulated_index threadIdx, blockIdx;

enum emulated_state { RUNS, AT_WARP, AT_BLOCK, DONE };
enum { MAX_THREADS = 1024, STACK_BYTES = 65536 };

static struct {
    ucontext_t scheduler, fiber[MAX_THREADS];
    emulated_state state[MAX_THREADS];
    unsigned char slot[MAX_THREADS][8];
    int current, lanes, n;
    char *stacks;
    void (*body)(void *);
    void *argument;
} emulated;

static void emulated_wait(emulated_state s)
{
    int me = emulated.current;
    emulated.state[me] = s;
    swapcontext(&emulated.fiber[me], &emulated.scheduler);
}

static inline void __syncthreads()
{
    emulated_wait(AT_BLOCK);
}

static inline int atomicCAS(int *at, int compare, int value)
{
    const int old = *at; /* fibers give way at barriers only */
    if (old == compare)
        *at = value;
    return old;
}

static inline void __syncwarp()
{
    emulated_wait(AT_WARP);
}

/* All lanes of the warp that still run put their value down, then look at another's. */
template <class T> static inline T emulated_exchange(T x, int from)
{
    memcpy(emulated.slot[emulated.current], &x, sizeof x);
    emulated_wait(AT_WARP);
    memcpy(&x, emulated.slot[from], sizeof x);
    emulated_wait(AT_WARP);
    return x;
}

template <class T> static inline T __shfl_xor_sync(unsigned, T x, int mask)
{
    return emulated_exchange(x, emulated.current ^ mask);
}

template <class T> static inline T __shfl_sync(unsigned, T x, int lane, int width = 32)
{
    return emulated_exchange(x, emulated.current / width * width + lane);
}

static void emulated_entry()
{
    emulated.body(emulated.argument);
    emulated_wait(DONE);
}

/* Lets waiting threads go on whose warp (or block) is complete. */
static bool emulated_release(int first, int end, emulated_state s)
{
    int waiting = 0;
    for (int i = first; i < end; i++) {
        if (emulated.state[i] != s && emulated.state[i] != DONE)
            return false;
        waiting += emulated.state[i] == s;
    }
    for (int i = first; i < end && waiting; i++)
        if (emulated.state[i] == s)
            emulated.state[i] = RUNS;
    return waiting > 0;
}

static void emulated_start()
{
    for (int i = 0; i < emulated.n; i++) {
        getcontext(&emulated.fiber[i]);
        emulated.fiber[i].uc_stack.ss_sp = emulated.stacks + (size_t)i * STACK_BYTES;
        emulated.fiber[i].uc_stack.ss_size = STACK_BYTES;
        emulated.fiber[i].uc_link = NULL;
        makecontext(&emulated.fiber[i], emulated_entry, 0);
        emulated.state[i] = RUNS;
    }
}

static void emulated_block()
{
    emulated_start();
    for (;;) {
        bool moved = false, done = true;
        for (int i = 0; i < emulated.n; i++) {
            if (emulated.state[i] != RUNS)
                continue;
            emulated.current = i;
            threadIdx.x = (unsigned)(i % emulated.lanes);
            threadIdx.y = (unsigned)(i / emulated.lanes);
            swapcontext(&emulated.scheduler, &emulated.fiber[i]);
            moved = true;
        }
        for (int w = 0; w < emulated.n; w += 32)
            moved |= emulated_release(w, w + 32 < emulated.n ? w + 32 : emulated.n, AT_WARP);
        moved |= emulated_release(0, emulated.n, AT_BLOCK);
        for (int i = 0; i < emulated.n; i++)
            done = done && emulated.state[i] == DONE;
        if (done)
            return;
        if (!moved) {
            fputs("threads wait for each other at different places\n", stderr);
            exit(1);
        }
    }
}

/* ceil(cells / block_cells) blocks of lanes x teams threads. */
static void emulate(void (*body)(void *), void *argument, long long cells, int block_cells, int lanes,
                    int teams)
{
    emulated.lanes = lanes;
    emulated.n = lanes * teams;
    emulated.body = body;
    emulated.argument = argument;
    if (!emulated.stacks)
        emulated.stacks = (char *)malloc((size_t)MAX_THREADS * STACK_BYTES);
    if (!emulated.stacks || emulated.n > MAX_THREADS)
        exit(1);
    for (long long b = 0; b * block_cells < cells; b++) {
        blockIdx.x = (unsigned)b;
        emulated_block();
    }
}

#endif
