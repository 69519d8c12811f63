/* run.h: what sched.c, race.c and the op_*.c that touch memory share: workers, states of warps.
 * SPDX-License-Identifier: MIT */
#ifndef VGPU_RUN_H
#define VGPU_RUN_H

#include "tests/vgpu/vgpu.h"

/* --- shared memory: who touched a word, race.c ------------------------------------------------ */

/* A tag says who touched a 4-byte word last. From the top: time of the block (counts barriers),
 * moment of the warp (counts bar.warp.sync), many warps, warp, many lanes, lane, whole. Numbers
 * grow with time, so one comparison tells what is ordered by a barrier. Where bytes of a word were
 * touched one by one the word is split: `whole` is 0 in its write tag and each byte has tags of its
 * own. In write tags "many lanes" means an atomic operation, and "many warps" several of them by
 * several threads. */
enum {
    TAG_WHOLE = 1,
    TAG_LANE_SHIFT = 1,
    TAG_MANY_LANES = 1 << 6,
    TAG_WARP_SHIFT = 7,
    TAG_MANY_WARPS = 1 << 12,
    TAG_MOMENT_SHIFT = 13,
    TAG_MOMENTS = 1 << 8,
    TAG_TIME_SHIFT = 21,
    TAG_TIMES = 1 << 11
};

/* --- where lanes of one request lie ------------------------------------------------------------
 */

typedef enum { LANES_CONTIGUOUS, LANES_SAME, LANES_ANY } Layout;

/* Worked out once for an instruction and kept while the distances between lanes stay the same, as
 * they do in loops: what follows from distances (bank conflicts, twins, bounds) is then known. */
typedef struct {
    _Alignas(
        64) int32_t delta[LANES]; /* from the address of lane `first`; 0 for lanes that are off */
    uint32_t lane[LANES]; /* the lane's part of a tag; of lanes that are off: that of `first` */
    uint32_t tag[LANES];  /* the same for the lanes that have one address together */
    uint32_t mask;        /* lanes; 0: nothing is known */
    uint32_t twins;       /* lanes whose address another lane has too */
    uint32_t fresh;       /* lanes whose address no lane before has */
    uint32_t low_bits;    /* of all deltas, or'ed */
    int32_t min, max;
    uint16_t bytes; /* of one lane */
    uint8_t first;
    uint8_t layout;         /* Layout */
    bool shared;            /* passes are known */
    uint8_t passes;         /* over the banks of shared memory */
    uint8_t sectors, phase; /* of 32 bytes, when address % 32 is `phase` */
} Pattern;

enum { PATTERNS = 4 };

typedef struct {
    Alloc *alloc;     /* the last one used here */
    Pattern *pattern; /* PATTERNS of them */
    uint32_t newest;
} Site;

/* --- running ------------------------------------------------------------------------------------
 */

/* Lanes of a warp at one instruction. */
typedef struct {
    uint32_t pc, mask;
    bool waits; /* at an INST_WARP, for the others of the member mask */
} Path;

/* Inst.sub[0] and [1] of an INST_BARRIER. */
enum { BARRIER_SYNC, BARRIER_ARRIVE };
enum { BARRIER_PLAIN, BARRIER_POPC, BARRIER_AND, BARRIER_OR };

typedef enum { WARP_READY, WARP_AT_BARRIER, WARP_DONE } WarpPhase;

/* A copy of cp.async whose wait has not come. */
typedef struct {
    uint64_t source;
    uint32_t target, group;
    uint8_t bytes, from, lane; /* `from` of them come from source, the rest is zero */
} Copy;

typedef struct WarpState {
    Path path[LANES];
    int npaths;
    WarpPhase phase;
    uint32_t barrier; /* where it waits */
    bool released;    /* the barrier has let it go */
    uint32_t result;  /* of bar.red */
    uint8_t wants;    /* which result: Inst.sub[1] */
    uint32_t members; /* INST_WARP: lanes that take part with the lanes of the mask */
    /* race.c */
    uint32_t moment;
    uint32_t ordered;         /* tags below are ordered before this warp's next instruction */
    uint32_t seen[MAX_WARPS]; /* the last time of each warp that is ordered */
    /* op_copy.c */
    Copy *copies;
    uint32_t ncopies, capcopies;
    uint32_t groups[LANES]; /* committed so far */
    /* grid.c: bytes that there is room for */
    uint32_t reg_room, pred_room, local_room;
} WarpState;

typedef struct {
    uint32_t arrived;         /* warps; bits */
    uint32_t time[MAX_WARPS]; /* when a warp arrived that does not wait; 0: it waits */
    uint32_t expected;        /* threads; 0: all */
    uint32_t count, any, all; /* bar.red */
} Barrier;

/* One thread of the host that runs blocks, and the block that it runs. */
typedef struct Worker {
    Block *block;
    struct Run *run;
    Site *sites; /* for each instruction of the function */
    size_t nsites;
    Counters counters;
    uint64_t executed; /* warp instructions in this launch */
} Worker;

/* A block and what it has beside the fields of Block. */
typedef struct BlockState {
    Block block;
    Barrier barrier[MAX_BARRIERS];
    struct SharedTags {
        uint32_t *write, *read;           /* of words */
        uint32_t *byte_write, *byte_read; /* of split words; NULL: none was ever split */
        uint32_t words, room;
        uint32_t begin; /* write tags below: not written in this block */
        bool partial;   /* a barrier of some of the warps was seen */
    } tags;
    uint64_t random;
    int live; /* warps that have not ended */
    uint64_t executed;
    bool done;
    uint32_t stamp; /* of the block in GlobalWord; blocks.c */
    bool fenced;    /* a fence since it last met others */
    uint64_t *met;  /* blocks whose accesses are ordered before: bits; NULL: none; blocks.c */
} BlockState;

static inline BlockState *block_state(Block *b)
{
    return (BlockState *)b;
}

/* A launch while it runs. */
typedef struct Run {
    Grid *grid;
    bool uninit, race, order, blocks; /* what is checked */
    uint64_t nblocks, first, stride;  /* order of blocks: (first + k * stride) % nblocks */
    uint64_t next;                    /* k of the next block; atomic */
    int error;                        /* CUresult of the first failure; atomic */
    uint32_t stamps;                  /* blocks.c: first stamp of this launch */
    struct Meetings *meetings;        /* blocks.c */
} Run;

typedef enum { BLOCK_GOES_ON, BLOCK_DONE, BLOCK_STUCK } BlockStep;

/** Runs each warp of a block that can run for up to `slice` instructions, and lets go whom barriers
 * hold when they are complete. */
BlockStep block_step(Block *b, uint64_t slice);

/** Says which warps of a stuck block wait where. */
void block_report_deadlock(Block *b);

/** Ends the launch whatever VGPU_KEEP says. */
void grid_stop(Run *r, int error);

#endif
