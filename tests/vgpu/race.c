/* race.c: shared memory of a block: which bytes are written, and who touched them since the last
 * barrier. Accesses of two threads to a byte, one of them a write, must be ordered by a barrier of
 * their warps, or, within a warp, by bar.warp.sync: lanes that run in step here need not do so on a
 * device. Two writes of the same value are let pass. SPDX-License-Identifier: MIT */
#include "tests/vgpu/race.h"

#include <stdlib.h>
#include <string.h>

enum {
    LANE_BITS = 31 << TAG_LANE_SHIFT,
    WARP_BITS = 31 << TAG_WARP_SHIFT,
    TIME_BIT = 1 << TAG_TIME_SHIFT
};

static bool is_tracked(const Block *b)
{
    return b->worker->run->race || b->worker->run->uninit;
}

static inline uint32_t tag_warp(uint32_t tag)
{
    return (tag & WARP_BITS) >> TAG_WARP_SHIFT;
}

static inline uint32_t tag_lane(uint32_t tag)
{
    return (tag & LANE_BITS) >> TAG_LANE_SHIFT;
}

/* --- time --------------------------------------------------------------------------------------
 */

bool shared_prepare(Block *b)
{
    struct SharedTags *t = &block_state(b)->tags;
    t->words = b->shared_bytes / 4 + 4;
    if (t->words <= t->room)
        return true;
    shared_free(b);
    size_t n = ((size_t)t->words + 63) & ~(size_t)63;
    b->shared = aligned_alloc(64, n * 4);
    t->write = calloc(n, sizeof *t->write);
    t->read = calloc(n, sizeof *t->read);
    if (!b->shared || !t->write || !t->read) {
        shared_free(b);
        return false;
    }
    t->room = (uint32_t)n;
    b->epoch = 0;
    return true;
}

void shared_free(Block *b)
{
    struct SharedTags *t = &block_state(b)->tags;
    free(b->shared);
    free(t->write);
    free(t->read);
    free(t->byte_write);
    free(t->byte_read);
    b->shared = NULL;
    t->write = t->read = t->byte_write = t->byte_read = NULL;
    t->room = 0;
}

/** From which tag on accesses of others are not ordered before this warp. */
static void set_ordered(Block *b, WarpState *s, int id)
{
    uint32_t least = UINT32_MAX;
    for (int v = 0; v < b->nwarps; v++) {
        if (v != id && s->seen[v] < least)
            least = s->seen[v];
    }
    if (least == UINT32_MAX)
        least = block_state(b)->tags.begin >> TAG_TIME_SHIFT;
    s->ordered = (least + 1) << TAG_TIME_SHIFT;
}

static void forget_all(Block *b, uint32_t seen)
{
    for (int k = 0; k < b->nwarps; k++) {
        WarpState *s = b->warps[k].state;
        s->moment = 1;
        for (int v = 0; v < b->nwarps; v++)
            s->seen[v] = seen;
        set_ordered(b, s, k);
    }
}

void shared_begin(Block *b)
{
    struct SharedTags *t = &block_state(b)->tags;
    memset(b->shared, 0xff, b->shared_bytes);
    if (++b->epoch >= TAG_TIMES - 2 || b->epoch == 1) {
        memset(t->write, 0, (size_t)t->room * sizeof *t->write);
        memset(t->read, 0, (size_t)t->room * sizeof *t->read);
        b->epoch = 1;
    }
    t->begin = b->epoch++ << TAG_TIME_SHIFT;
    t->partial = false;
    forget_all(b, b->epoch - 1);
}

static void renew(uint32_t *write, uint32_t *read, size_t n, uint32_t begin)
{
    for (size_t k = 0; k < n; k++) {
        write[k] = write[k] < begin ? 0 : (uint32_t)TIME_BIT | (write[k] & TAG_WHOLE);
        read[k] = 0;
    }
}

/** Time has reached its end: it begins anew, with what is written and without who did it. */
static void start_over(Block *b)
{
    struct SharedTags *t = &block_state(b)->tags;
    renew(t->write, t->read, t->room, t->begin);
    if (t->byte_write)
        renew(t->byte_write, t->byte_read, (size_t)t->room * 4, t->begin);
    t->begin = TIME_BIT;
    b->epoch = 2;
    forget_all(b, 1);
}

void shared_barrier(Block *b, uint32_t warps)
{
    uint32_t seen[MAX_WARPS] = {0}, all = 0;
    for (int k = 0; k < b->nwarps; k++) {
        all |= 1u << k;
        for (int v = 0; (warps >> k & 1) && v < b->nwarps; v++) {
            uint32_t time = v == k ? b->epoch : b->warps[k].state->seen[v];
            seen[v] = time > seen[v] ? time : seen[v];
        }
    }
    uint32_t live = 0;
    for (int k = 0; k < b->nwarps; k++)
        live |= (uint32_t)(b->warps[k].state->phase != WARP_DONE) << k;
    /* Those that have ended came to every barrier, in a way: what they did is ordered. */
    bool complete = !(live & ~warps);
    block_state(b)->tags.partial |= !complete;
    for (int k = 0; k < b->nwarps; k++) {
        WarpState *s = b->warps[k].state;
        if (!(warps >> k & 1))
            continue;
        for (int v = 0; v < b->nwarps; v++)
            s->seen[v] = complete ? b->epoch : seen[v];
        set_ordered(b, s, k);
    }
    if (++b->epoch >= TAG_TIMES)
        start_over(b);
}

void shared_moment(Warp *w)
{
    if (++w->state->moment < TAG_MOMENTS)
        return;
    /* Moments start over: what this warp did since the last barrier stays known to the others only.
     */
    struct SharedTags *t = &block_state(w->block)->tags;
    uint32_t now = tag_now(w, 0) & ~(uint32_t)((TAG_MOMENTS - 1) << TAG_MOMENT_SHIFT);
    uint32_t who = (uint32_t)WARP_BITS | TAG_MANY_WARPS | (UINT32_MAX << TAG_TIME_SHIFT);
    uint32_t moments = (uint32_t)(TAG_MOMENTS - 1) << TAG_MOMENT_SHIFT;
    for (size_t k = 0; k < t->room; k++) {
        if (((t->write[k] ^ now) & who) == 0)
            t->write[k] &= ~moments;
        if (((t->read[k] ^ now) & who) == 0)
            t->read[k] &= ~moments;
    }
    w->state->moment = 1;
}

/* --- one lane ----------------------------------------------------------------------------------
 */

/** Whether the access that a tag stands for is not ordered before lane `lane` of w, now. */
static bool is_open(const Warp *w, int lane, uint32_t tag, bool of_write)
{
    const WarpState *s = w->state;
    uint32_t time = tag >> TAG_TIME_SHIFT, now = tag_now(w, lane);
    if (tag < s->ordered)
        return false;
    if (tag & TAG_MANY_WARPS) {
        for (int v = 0; v < w->block->nwarps; v++) {
            if (v != w->id && s->seen[v] < time)
                return true;
        }
        return false;
    }
    if (tag_warp(tag) != (uint32_t)w->id)
        return s->seen[tag_warp(tag)] < time;
    bool step = !((tag ^ now) >> TAG_MOMENT_SHIFT);
    return step && ((!of_write && tag & TAG_MANY_LANES) || tag_lane(tag) != (uint32_t)lane);
}

static uint32_t note_read(const Warp *w, int lane, uint32_t old)
{
    uint32_t now = tag_now(w, lane);
    if (old < w->state->ordered)
        return now;
    uint32_t many = (now & UINT32_MAX << TAG_TIME_SHIFT) | TAG_MANY_WARPS | TAG_WHOLE;
    if ((old & TAG_MANY_WARPS) || tag_warp(old) != (uint32_t)w->id)
        return many;
    if ((old ^ now) >> TAG_MOMENT_SHIFT)
        return now;
    if (old & TAG_MANY_LANES || tag_lane(old) != (uint32_t)lane)
        return (now & ~(uint32_t)LANE_BITS) | TAG_MANY_LANES;
    return now;
}

static void who(char *out, size_t size, uint32_t tag, bool of_write)
{
    uint32_t thread = tag_warp(tag) * LANES + tag_lane(tag);
    if (tag & TAG_MANY_WARPS)
        snprintf(out, size, "threads of several warps");
    else if (!of_write && tag & TAG_MANY_LANES)
        snprintf(out, size, "several threads of warp %u", tag_warp(tag));
    else
        snprintf(out, size, "thread %u", thread);
}

static void report(Warp *w, const Inst *i, int lane, uint32_t offset, const char *does,
                   const char *did, uint32_t tag, bool of_write)
{
    char other[64];
    who(other, sizeof other, tag, of_write);
    bool same = !(tag & TAG_MANY_WARPS) && tag_warp(tag) == (uint32_t)w->id;
    finding_kernel(FINDING_SHARED_RACE, w, i, lane, 0,
                   "thread %d %s shared memory +0x%x, which %s %s, with no %s in between",
                   w->id * LANES + lane, does, offset, other, did, same ? "__syncwarp" : "barrier");
}

typedef enum { TOUCH_READ, TOUCH_WRITE, TOUCH_ATOMIC } Touch;

typedef struct {
    Warp *w;
    const Inst *i;
    const uint8_t *value; /* of a write, from `offset` on */
    uint32_t offset;
    int lane;
    Touch touch;
} Toucher;

/** `bytes` at `offset` have one pair of tags. */
static void touch_tags(const Toucher *t, uint32_t offset, uint32_t bytes, uint32_t *write,
                       uint32_t *read)
{
    Warp *w = t->w;
    const Run *r = w->block->worker->run;
    uint32_t begin = block_state(w->block)->tags.begin, old = *write, now = tag_now(w, t->lane);
    if (t->touch != TOUCH_WRITE && old < begin) {
        if (r->uninit)
            finding_kernel(FINDING_UNINIT, w, t->i, t->lane, 0,
                           "reads shared memory +0x%x that nothing has written", offset);
        *write = old = begin | TAG_WHOLE;
    }
    bool open = r->race && old >= begin && is_open(w, t->lane, old, true);
    bool atomic = old & TAG_MANY_LANES;
    if (t->touch == TOUCH_READ) {
        if (open)
            report(w, t->i, t->lane, offset, "reads", "wrote", old, true);
        *read = note_read(w, t->lane, *read);
        return;
    }
    bool harmless = t->touch == TOUCH_ATOMIC
                        ? atomic
                        : t->value && !memcmp(w->block->shared + offset,
                                              t->value + (offset - t->offset), bytes);
    const char *does = t->touch == TOUCH_ATOMIC ? "does an atomic operation on" : "writes";
    if (open && !harmless)
        report(w, t->i, t->lane, offset, does, "wrote", old, true);
    else if (r->race && is_open(w, t->lane, *read, false))
        report(w, t->i, t->lane, offset, does, "read", *read, false);
    if (t->touch == TOUCH_WRITE)
        *write = now;
    else if (old >= begin && old >= w->state->ordered && atomic && open)
        *write = now | TAG_MANY_LANES | TAG_MANY_WARPS;
    else if (old < begin || old < w->state->ordered || atomic || open)
        *write = now | TAG_MANY_LANES;
}

/** Gives the bytes of a word tags of their own. False: no memory. */
static bool split(struct SharedTags *t, uint32_t word)
{
    if (!t->byte_write) {
        t->byte_write = calloc((size_t)t->room * 4, sizeof *t->byte_write);
        t->byte_read = calloc((size_t)t->room * 4, sizeof *t->byte_read);
        if (!t->byte_write || !t->byte_read)
            return false;
    }
    if (t->write[word] >= t->begin && !(t->write[word] & TAG_WHOLE))
        return true;
    for (uint32_t k = 4 * word; k < 4 * word + 4; k++) {
        t->byte_write[k] = t->write[word];
        t->byte_read[k] = t->read[word];
    }
    t->write[word] = t->begin;
    return true;
}

/** After whole accesses of a split word: one pair of tags will do again. */
static void join(const Toucher *t, struct SharedTags *tags, uint32_t word)
{
    const uint32_t *write = tags->byte_write + 4 * word, *read = tags->byte_read + 4 * word;
    uint32_t ordered = t->w->state->ordered;
    for (int k = 0; k < 4; k++) {
        bool mine = t->touch == TOUCH_WRITE || (write[k] < ordered && !tags->partial);
        if (!mine || read[k] != read[0])
            return;
    }
    tags->write[word] = t->touch == TOUCH_WRITE ? write[0] : tags->begin | TAG_WHOLE;
    tags->read[word] = read[0];
}

static void touch(const Toucher *t, uint32_t bytes)
{
    if (!is_tracked(t->w->block))
        return;
    struct SharedTags *tags = &block_state(t->w->block)->tags;
    for (uint32_t at = t->offset; at < t->offset + bytes;) {
        uint32_t word = at / 4, end = word * 4 + 4;
        if (end > t->offset + bytes)
            end = t->offset + bytes;
        uint32_t *write = &tags->write[word];
        bool whole = end - at == 4;
        if (whole && (*write < tags->begin || *write & TAG_WHOLE)) {
            touch_tags(t, at, 4, write, &tags->read[word]);
        } else if (split(tags, word)) {
            for (uint32_t k = at; k < end; k++)
                touch_tags(t, k, 1, &tags->byte_write[k], &tags->byte_read[k]);
            if (whole)
                join(t, tags, word);
        }
        at = end;
    }
}

void shared_touch_read(Warp *w, const Inst *i, int lane, uint32_t offset, uint32_t bytes)
{
    touch(&(Toucher){w, i, NULL, offset, lane, TOUCH_READ}, bytes);
}

void shared_touch_write(Warp *w, const Inst *i, int lane, uint32_t offset, uint32_t bytes,
                        const uint8_t *value)
{
    touch(&(Toucher){w, i, value, offset, lane, TOUCH_WRITE}, bytes);
}

void shared_touch_atomic(Warp *w, const Inst *i, int lane, uint32_t offset, uint32_t bytes)
{
    touch(&(Toucher){w, i, NULL, offset, lane, TOUCH_ATOMIC}, bytes);
}

void shared_unwritten(Block *b, uint32_t offset, uint32_t bytes)
{
    memset(block_state(b)->tags.write + offset / 4, 0, bytes);
}

/* --- all lanes of a request ----------------------------------------------------------------------
 */

/* Word k of each lane. Off lanes have the word and the tag of the first lane: what is computed for
 * them is what is computed for that one. */
typedef struct {
    uint32_t at[LANES], old[LANES], next[LANES];
    uint32_t now[LANES];   /* as the lane alone touches the word */
    uint32_t noted[LANES]; /* with the lanes that touch the same word */
} Gathered;

static inline void tags_now(const Warp *w, const Pattern *p, Gathered *g)
{
    uint32_t base = tag_now(w, 0);
    for (int l = 0; l < LANES; l++) {
        g->now[l] = base | p->lane[l];
        g->noted[l] = base | p->tag[l];
    }
}

/** Nonzero for lanes where the write tag is not known to be harmless. */
static inline uint32_t writes_open(const uint32_t *old, const uint32_t *now, uint32_t begin,
                                   uint32_t ordered, uint32_t *bad)
{
    uint32_t any = 0;
    for (int l = 0; l < LANES; l++) {
        uint32_t since = (uint32_t)(old[l] - begin >= ordered - begin);
        bad[l] = since | (~old[l] & TAG_WHOLE);
        any |= bad[l];
    }
    if (!any)
        return 0;
    any = 0;
    for (int l = 0; l < LANES; l++) {
        uint32_t differs = old[l] ^ now[l];
        uint32_t other = differs & (WARP_BITS | TAG_MANY_WARPS | TAG_WHOLE);
        uint32_t step = differs & LANE_BITS;
        step = differs >> TAG_MOMENT_SHIFT ? 0 : step;
        uint32_t ordered_or_mine = (uint32_t)(old[l] >= begin) & (uint32_t)((other | step) == 0);
        bad[l] &= ordered_or_mine - 1;
        any |= bad[l];
    }
    return any;
}

static inline uint32_t bad_lanes(const uint32_t *bad)
{
    uint32_t lanes = 0;
    for (int l = 0; l < LANES; l++)
        lanes |= (uint32_t)(bad[l] != 0) << l;
    return lanes;
}

/** note_read for 32 lanes; true when a tag changes. */
static inline bool next_reads(const uint32_t *old, const uint32_t *now, uint32_t ordered,
                              uint32_t *next)
{
    uint32_t changed = 0;
    for (int l = 0; l < LANES; l++) {
        uint32_t differs = old[l] ^ now[l];
        uint32_t many_warps = (now[l] & UINT32_MAX << TAG_TIME_SHIFT) | TAG_MANY_WARPS | TAG_WHOLE;
        uint32_t many_lanes = (now[l] & ~(uint32_t)LANE_BITS) | TAG_MANY_LANES;
        uint32_t same_step = differs & (LANE_BITS | TAG_MANY_LANES) ? many_lanes : now[l];
        uint32_t same_warp = differs >> TAG_MOMENT_SHIFT ? now[l] : same_step;
        uint32_t since = differs & WARP_BITS || old[l] & TAG_MANY_WARPS ? many_warps : same_warp;
        next[l] = old[l] < ordered ? now[l] : since;
        changed |= next[l] ^ old[l];
    }
    return changed != 0;
}

static inline uint32_t reads_open(const uint32_t *old, const uint32_t *now, uint32_t ordered,
                                  uint32_t *bad)
{
    uint32_t any = 0;
    for (int l = 0; l < LANES; l++) {
        uint32_t differs = old[l] ^ now[l];
        uint32_t step = differs & (LANE_BITS | TAG_MANY_LANES);
        step = differs >> TAG_MOMENT_SHIFT ? 0 : step;
        uint32_t other = (differs & WARP_BITS) | (old[l] & TAG_MANY_WARPS) | step;
        bad[l] = old[l] >= ordered ? other : 0;
        any |= bad[l];
    }
    return any;
}

static inline void gather(uint32_t *to, const uint32_t *from, const uint32_t *at)
{
    for (int l = 0; l < LANES; l++)
        to[l] = from[at[l]];
}

static inline void scatter(uint32_t *to, const uint32_t *from, const uint32_t *at)
{
    for (int l = 0; l < LANES; l++)
        to[at[l]] = from[l];
}

uint32_t shared_read(Warp *w, const Pattern *p, const uint32_t *word, int words)
{
    const Run *r = w->block->worker->run;
    struct SharedTags *t = &block_state(w->block)->tags;
    if (!r->race && !r->uninit)
        return 0;
    uint32_t begin = t->begin, ordered = r->race ? w->state->ordered : UINT32_MAX;
    uint32_t bad[LANES], lanes = 0;
    Gathered g;
    tags_now(w, p, &g);
    bool row = p->layout == LANES_CONTIGUOUS && words == 1;
    for (int k = 0; k < words; k++) {
        for (int l = 0; l < LANES; l++)
            g.at[l] = word[l] + (uint32_t)k;
        if (row)
            memcpy(g.old, t->write + word[0], sizeof g.old);
        else
            gather(g.old, t->write, g.at);
        if (writes_open(g.old, g.now, begin, ordered, bad))
            lanes |= bad_lanes(bad);
        if (!r->race)
            continue;
        if (row) {
            if (next_reads(t->read + word[0], g.noted, ordered, g.next))
                memcpy(t->read + word[0], g.next, sizeof g.next);
            continue;
        }
        gather(g.old, t->read, g.at);
        if (next_reads(g.old, g.noted, ordered, g.next))
            scatter(t->read, g.next, g.at);
    }
    return lanes & p->mask;
}

uint32_t shared_write(Warp *w, const Pattern *p, const uint32_t *word, int words)
{
    const Run *r = w->block->worker->run;
    struct SharedTags *t = &block_state(w->block)->tags;
    if (!r->race && !r->uninit)
        return 0;
    uint32_t ordered = w->state->ordered, bad[LANES], lanes = p->twins;
    Gathered g;
    tags_now(w, p, &g);
    for (int k = 0; k < words && r->race; k++) {
        for (int l = 0; l < LANES; l++)
            g.at[l] = word[l] + (uint32_t)k;
        /* What is not written yet in this block is as good as written and ordered; a split word
         * is not. */
        gather(g.old, t->write, g.at);
        for (int l = 0; l < LANES; l++)
            g.old[l] = g.old[l] < t->begin ? t->begin | TAG_WHOLE : g.old[l];
        if (writes_open(g.old, g.now, t->begin, ordered, bad))
            lanes |= bad_lanes(bad);
        gather(g.old, t->read, g.at);
        if (reads_open(g.old, g.now, ordered, bad))
            lanes |= bad_lanes(bad);
    }
    lanes &= p->mask;
    for (int l = 0; l < LANES; l++) {
        if (!((p->mask & ~lanes) >> l & 1))
            continue;
        for (int k = 0; k < words; k++)
            t->write[word[l] + (uint32_t)k] = g.now[l];
    }
    return lanes;
}
