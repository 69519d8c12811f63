/* test_run.h: small kernels in PTX, launched without a driver, and what is found in them.
 * SPDX-License-Identifier: MIT */
#ifndef VGPU_TEST_RUN_H
#define VGPU_TEST_RUN_H

#include "tests/vgpu/vgpu.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

enum { WORDS = 16384 };

/* Where a kernel runs. p: address of WORDS words, which the host filled from `words` (none of them
 * is written when `words` is NULL) and which stand in `after` afterwards; q: any number. Threads of
 * x only. */
typedef struct {
    unsigned blocks, threads, shared; /* shared: dynamic */
    const uint32_t *words;
    uint32_t after[WORDS];
    uint64_t q;
    bool cooperative;
    uint32_t op; /* number of the launch, which decides the order of blocks; 0: a new one */
    int error;   /* CUresult of the launch */
    Counters counters;
} Launch;

/** Runs a kernel of this body. In it: %rd1 p; %rd2 p + 4 * tid; %rd3 p + 4 * (tid + ctaid * ntid);
 * %rd4 q; %r1 tid; %r2 ctaid; %r3 tid + ctaid * ntid; %r4 address of the shared memory `s` (8 KiB);
 * %r5 that of word tid of it; local memory `l` (64 bytes). Registers %r10.. %rd10.. %f %h %p are
 * free. All that is found must be of kind `kind` ("bounds"), and something must be; NULL: nothing
 * is. */
void launch(Launch *l, const char *body, const char *kind);

/** The same on fresh memory where word k holds k; blocks x threads. */
void finds(const char *kind, unsigned blocks, unsigned threads, const char *body);

/** 0, 1, 2 ... */
const uint32_t *counted(void);

Device *test_device(void);

/** What the last launch said. */
const char *said(void);

int test_memory(void);
int test_races(void);
int test_warps(void);

#endif
