/* heap.h: memory of a device, kept for later when it is freed. Knows the device by a few functions
 * only. A block belongs to a stream: freed memory is used again at once by work that comes later on
 * the same stream, and never by another stream before the work on it is done.
 * Not safe for several threads: the owner locks. SPDX-License-Identifier: MIT */
#ifndef TENON_HEAP_H
#define TENON_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tn__heap tn__heap;

/* The device. Addresses of 0 are none. */
typedef struct {
    void *user;
    uint64_t (*take)(void *user, size_t bytes); /* 0: there is no more */
    void (*give)(void *user, uint64_t at);
    void (*settle)(void *user); /* waits for all work of the device */
    /* A mark behind the work given to a stream so far; NULL where the stream is gone (its work is
     * done then). `passed`: whether that work is done. `drop` forgets a mark. */
    void *(*mark)(void *user, uint64_t stream);
    bool (*passed)(void *user, void *mark);
    void (*drop)(void *user, void *mark);
} tn__heap_device;

typedef struct {
    size_t allocated, max_allocated, reserved, max_reserved;
} tn__heap_sums;

/** `plain`: nothing is kept, so that tools which watch memory see every block by itself. NULL
 * without memory. */
tn__heap *tn__heap_new(const tn__heap_device *device, bool plain);
/** Gives everything back, also what is still in use. */
void tn__heap_destroy(tn__heap *h);
/** At least `bytes`, aligned to 512, for work on a stream; `use` is shown by sums and snapshots.
 * Before it fails (0) it gives back what it keeps. */
uint64_t tn__heap_alloc(tn__heap *h, uint64_t stream, size_t bytes, int use);
/** `last`: the stream in whose order the last use is; 0: the block's own. False: not a block. */
bool tn__heap_free(tn__heap *h, uint64_t at, uint64_t last);
/** The block is used on this stream too. False: not a block, or no memory to remember it. */
bool tn__heap_record(tn__heap *h, uint64_t at, uint64_t stream);
/** A stream ends; its work is done. Its blocks go over to another. */
void tn__heap_forget(tn__heap *h, uint64_t stream, uint64_t heir);
/** Gives back what is kept. */
void tn__heap_empty(tn__heap *h);
tn__heap_sums tn__heap_sum(const tn__heap *h);
void tn__heap_reset_peak(tn__heap *h);
/** Bytes in use for each use 0 .. n-1. */
void tn__heap_uses(const tn__heap *h, size_t *bytes, int n);
/** Calls `see` for every block. */
void tn__heap_each(const tn__heap *h,
                   void (*see)(void *user, uint64_t at, size_t bytes, int use, bool in_use,
                               uint64_t stream),
                   void *user);

#endif
