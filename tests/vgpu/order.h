/* order.h: vector clocks of streams, and which operation wrote and read each word of memory last.
 *
 * A component of a clock is a stream (or a lane of a graph); the operations of a component have the
 * numbers 1, 2, 3 ... Operation x comes before y when y's clock covers x's number in x's component.
 * What the host has waited for is a clock too: all host threads share it, so a program that passes
 * results between its threads gives no false alarm.
 * SPDX-License-Identifier: MIT */
#ifndef VGPU_ORDER_H
#define VGPU_ORDER_H

#include "tests/vgpu/vgpu.h"

/* Zeroed: nothing has happened. */
typedef struct {
    uint32_t n; /* entries of `at`; those beyond are 0 */
    uint32_t *at;
} Clock;

void clock_join(Clock *to, const Clock *from);
void clock_copy(Clock *to, const Clock *from);
void clock_set(Clock *c, uint32_t component, uint32_t number);
uint32_t clock_get(const Clock *c, uint32_t component);
void clock_free(Clock *c);

/** A component whose operations, if it had any, all come before `now`; *number is its last one. */
uint32_t order_component_new(const Clock *now, uint32_t *number);
/** Its stream is gone: others may have it once they come after all of its operations. */
void order_component_free(uint32_t component, uint32_t number);

/** Gives the operation a number (never 0) for Grid.op and order_access. `name` must stay. */
uint32_t order_op_new(uint32_t component, uint32_t number, uint64_t stream, const char *name);
/** The operation that runs now, with its clock; 0 and NULL when it has ended. */
void order_op_run(uint32_t op, const Clock *clock);
/** "kernel add (stream 2, operation 17)"; valid until the next call but three in this thread. */
const char *order_op_name(uint32_t op);
/** Whether `op` has been run, and as which in the order of running (1, 2 ...); 0: not yet. */
uint64_t order_op_ran(uint32_t op);
/** How many have been run. */
uint64_t order_ops_ran(void);

/** Atomic access: ordered after plain ones, free among each other. */
void order_atomic(Alloc *a, uint64_t offset, uint64_t bytes, uint32_t op, Warp *w, const Inst *i,
                  int lane);
/** The allocation was made by this operation: others that touch it must come after. */
void order_made(Alloc *a, uint32_t op);
/** `op` frees it: all that touched it must come before. */
void order_freed(Alloc *a, uint32_t op);
/** The operation that wrote the word at `offset` last, 0: none known. */
uint32_t order_writer(const Alloc *a, uint64_t offset);

/* --- the words, for fast paths: read only outside of order.c --------------------------------- */

enum { ORDER_SHIFT = 5, ORDER_BYTES = 15, ORDER_FLAG = 16 };

/* writer: operation << 5 | atomic << 4 | bytes; reader: the same, the flag says that it is a set.
 */
typedef struct {
    uint32_t writer, reader;
} OrderWord;

typedef struct {
    uint32_t made_by; /* operation, 0: made by the host */
    OrderWord words[];
} OrderMap;

/** True when this whole word is known to be read (written) by `op` already: nothing to do. */
static inline bool order_known(const Alloc *a, uint64_t word, bool write, uint32_t op)
{
    const OrderMap *m = __atomic_load_n((void *const *)&a->order, __ATOMIC_ACQUIRE);
    if (!m)
        return false;
    const OrderWord *w = &m->words[word];
    uint32_t want = op << ORDER_SHIFT | ORDER_BYTES;
    return __atomic_load_n(write ? &w->writer : &w->reader, __ATOMIC_RELAXED) == want;
}

#endif
