/* pool.h: threads that share the cells of one piece of work at a time. SPDX-License-Identifier: MIT
 */
#ifndef TENON_RUNTIME_POOL_H
#define TENON_RUNTIME_POOL_H

#include <stddef.h>
#include <stdint.h>

typedef struct tn__pool tn__pool;

/** Work on the cells lo .. hi-1. Called from several threads at once, each cell exactly once. */
typedef void tn__pool_fn(void *ctx, int64_t lo, int64_t hi);

/** Starts threads - 1 threads; the caller of run is the last one. threads <= 0: as many as there
 * are processors for this process. NULL when threads or memory cannot be had. */
tn__pool *tn__pool_create(int threads);

/** Waits for the threads to end. NULL is nothing to destroy. */
void tn__pool_destroy(tn__pool *pool);

/** Threads that work at the same time, the caller's included; 1 for NULL. */
int tn__pool_threads(const tn__pool *pool);

/** Calls fn for ranges that cover the cells 0 .. cells-1, `grain` cells each (the last ones of a
 * share may be fewer), and returns when all are done. What fn writes before is visible after.
 * Everything runs in the caller's thread, as one range, when cells <= grain, when the pool is NULL,
 * or when the pool is at work for somebody else (fn itself, or another thread). Results must not
 * depend on how cells are grouped. */
void tn__pool_run(tn__pool *pool, tn__pool_fn *fn, void *ctx, int64_t cells, int64_t grain);

/** Memory for one piece of work, aligned to 64 bytes, with anything in it; kept by the pool from
 * one use to the next, so that repeated work allocates nothing. NULL: none to be had. Give it back.
 */
void *tn__pool_take(tn__pool *pool, size_t bytes);
void tn__pool_give(tn__pool *pool, void *memory);

#endif
