/* race.h: races in shared memory and between the blocks of a launch: race.c, blocks.c.
 * SPDX-License-Identifier: MIT */
#ifndef VGPU_RACE_H
#define VGPU_RACE_H

#include "tests/vgpu/run.h"

/* Inst.sub[1] of loads and stores: strong ones (volatile, relaxed, acquire, release) do not race
 * between blocks; sub[2]: it releases what the thread did before. */
enum { ACCESS_WEAK, ACCESS_STRONG };

/* --- shared memory: race.c ----------------------------------------------------------------------
 */

bool shared_prepare(Block *b);
void shared_free(Block *b);
/** The block begins: nothing in shared memory is written. */
void shared_begin(Block *b);
/** Warps have met at a barrier: it is complete. */
void shared_barrier(Block *b, const Barrier *bar);
/** A warp arrives there without waiting: what it does from now on is not ordered. */
void shared_arrive(Warp *w, Barrier *bar);
/** bar.warp.sync of a warp. */
void shared_moment(Warp *w);

/** These whole words count as not written (a copy to them is under way). */
void shared_unwritten(Block *b, uint32_t offset, uint32_t bytes);

/** All lanes of a request touch `words` whole words each, from word[l] on. What is as it should be
 * is noted; the lanes that are not (or that need a closer look) come back, for shared_touch_*. */
uint32_t shared_read(Warp *w, const Pattern *p, const uint32_t *word, int words);
uint32_t shared_write(Warp *w, const Pattern *p, const uint32_t *word, int words);

/** One lane touches bytes of shared memory; reports races and reads of what nothing wrote. `value`
 * of a write: what will stand there (equal to what stands there: no race). All atomics are writes
 * that do not race with each other. */
void shared_touch_read(Warp *w, const Inst *i, int lane, uint32_t offset, uint32_t bytes);
void shared_touch_write(Warp *w, const Inst *i, int lane, uint32_t offset, uint32_t bytes,
                        const uint8_t *value);
void shared_touch_atomic(Warp *w, const Inst *i, int lane, uint32_t offset, uint32_t bytes);

/** The tag of a lane of this warp now. */
static inline uint32_t tag_now(const Warp *w, int lane)
{
    return w->block->epoch << TAG_TIME_SHIFT | w->state->moment << TAG_MOMENT_SHIFT |
           (uint32_t)w->id << TAG_WARP_SHIFT | (uint32_t)lane << TAG_LANE_SHIFT | TAG_WHOLE;
}

/* --- between blocks: blocks.c -------------------------------------------------------------------
 */

/* Who wrote and read a word of device memory last: stamp of the block << 4 | bytes. The words of an
 * allocation are followed by as many for its readers. */
struct GlobalWord {
    uint32_t tag;
};

enum { STAMP_SHIFT = 4, STAMP_BYTES = 15 };

static inline uint64_t global_words(const Alloc *a)
{
    return (a->end - a->base + 3) / 4;
}

void blocks_launch(Run *r);
void blocks_end(Run *r);
void blocks_begin(Block *b);
void blocks_free(Block *b);

/** Whether an instruction lets blocks see what others do: an atomic or a fence on device memory. */
bool blocks_may_meet(const Inst *i);

/** `words` whole words from `word` on are touched by a block: true when that's fine, and noted. */
bool blocks_row(const Block *b, Alloc *a, uint64_t word, uint64_t words, bool write);
/** The same for `words` words from each word[l] on. */
bool blocks_words(const Block *b, Alloc *a, const uint32_t *word, int words, bool write);

typedef enum { BLOCKS_READ, BLOCKS_WRITE, BLOCKS_ATOMIC, BLOCKS_STRONG_READ } BlocksTouch;

/** One lane touches bytes of an allocation; reports races. `value` of a write: what will stand
 * there. */
void blocks_touch(Warp *w, const Inst *i, int lane, Alloc *a, uint64_t offset, uint32_t bytes,
                  BlocksTouch touch, const uint8_t *value);

/** membar.gl, fence. */
void blocks_fence(Block *b);
Exec exec_fence; /* op_warp.c */

/** What an atomic or strong access of an address does to the order of blocks. */
void blocks_meet(Block *b, uint64_t address, bool write, bool release);

#endif
