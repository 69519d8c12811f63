/* race.c: shared memory of a block: which bytes are written, and who touched them since the last
 * barrier. Accesses of two threads to a byte, one of them a write, must be ordered by a barrier of
 * their warps, or, within a warp, by bar.warp.sync: lanes that run in step here need not do so on a
 * device. Two writes of the same value are let pass. SPDX-License-Identifier: MIT */
#include "tests/vgpu/race.h"

#include "tests/vgpu/lanes.h"

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
    for (int k = 0; k < MAX_BARRIERS * MAX_WARPS; k++) {
        uint32_t *time = &block_state(b)->barrier[k / MAX_WARPS].time[k % MAX_WARPS];
        *time = *time ? 1 : 0;
    }
}

void shared_arrive(Warp *w, Barrier *bar)
{
    bar->time[w->id] = w->block->epoch;
    block_state(w->block)->tags.partial = true;
    if (++w->block->epoch >= TAG_TIMES)
        start_over(w->block);
}

void shared_barrier(Block *b, const Barrier *bar)
{
    uint32_t seen[MAX_WARPS] = {0}, live = 0;
    bool all_wait = true;
    for (int k = 0; k < b->nwarps; k++) {
        live |= (uint32_t)(b->warps[k].state->phase != WARP_DONE) << k;
        if (!(bar->arrived >> k & 1))
            continue;
        all_wait &= !bar->time[k];
        for (int v = 0; v < b->nwarps; v++) {
            uint32_t mine = bar->time[k] ? bar->time[k] : b->epoch;
            uint32_t time = v == k ? mine : b->warps[k].state->seen[v];
            seen[v] = time > seen[v] ? time : seen[v];
        }
    }
    /* Those that have ended came to every barrier, in a way: what they did is ordered. */
    bool complete = all_wait && !(live & ~bar->arrived);
    block_state(b)->tags.partial |= !complete;
    for (int k = 0; k < b->nwarps; k++) {
        WarpState *s = b->warps[k].state;
        if (!(bar->arrived >> k & 1) || bar->time[k])
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
    w->state->moment = 1;
    struct SharedTags *t = &block_state(w->block)->tags;
    uint32_t now = tag_now(w, 0);
    uint32_t who = (uint32_t)WARP_BITS | TAG_MANY_WARPS | (UINT32_MAX << TAG_TIME_SHIFT);
    uint32_t moments = (uint32_t)(TAG_MOMENTS - 1) << TAG_MOMENT_SHIFT;
    for (size_t k = 0; k < t->room; k++) {
        if (((t->write[k] ^ now) & who) == 0)
            t->write[k] &= ~moments;
        if (((t->read[k] ^ now) & who) == 0)
            t->read[k] &= ~moments;
    }
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

/* The same rules for many tags at once. They are written as macros over the type of the vector,
 * since requests of single words are done with 16 lanes at a time and those of four with the words
 * of one lane. `now` is the tag of the lane alone, `noted` that with the lanes that touch the same
 * word. */

typedef struct {
    uint32_t begin, ordered; /* tags in between are harmless */
    uint32_t base;           /* of the tags of this warp now */
} Moment;

#define RULES(V, all, select)                                                                      \
    /* Nonzero where it is not enough to know that a write tag is ordered. */                      \
    static inline V writes_doubtful_##V(V old, const Moment *m)                                    \
    {                                                                                              \
        V since = (V)((old - m->begin) >= all(m->ordered - m->begin));                             \
        return since | (~old & TAG_WHOLE);                                                         \
    }                                                                                              \
    /* Nonzero where the write is not this thread's own nor of an earlier step of its warp. */     \
    static inline V writes_open_##V(V old, V now, const Moment *m)                                 \
    {                                                                                              \
        V differs = old ^ now;                                                                     \
        V other = differs & (uint32_t)(WARP_BITS | TAG_MANY_WARPS | TAG_WHOLE);                    \
        V step = (differs & LANE_BITS) & (V)(differs >> TAG_MOMENT_SHIFT == 0);                    \
        return writes_doubtful_##V(old, m) & ((V)((other | step) != 0) | (V)(old < m->begin));     \
    }                                                                                              \
    static inline V reads_open_##V(V old, V now, const Moment *m)                                  \
    {                                                                                              \
        V differs = old ^ now;                                                                     \
        V step = (differs & (LANE_BITS | TAG_MANY_LANES)) & (V)(differs >> TAG_MOMENT_SHIFT == 0); \
        V other = (differs & WARP_BITS) | (old & TAG_MANY_WARPS) | step;                           \
        return other & (V)(old >= m->ordered);                                                     \
    }                                                                                              \
    /* note_read */                                                                                \
    static inline V next_reads_##V(V old, V noted, const Moment *m)                                \
    {                                                                                              \
        V differs = old ^ noted;                                                                   \
        V many_warps = all((m->base & UINT32_MAX << TAG_TIME_SHIFT) | TAG_MANY_WARPS | TAG_WHOLE); \
        V many_lanes = (noted & ~(uint32_t)LANE_BITS) | TAG_MANY_LANES;                            \
        V same = (V)((differs & (LANE_BITS | TAG_MANY_LANES)) == 0) |                              \
                 (V)(differs >> TAG_MOMENT_SHIFT != 0);                                            \
        V warps = (V)(((differs & WARP_BITS) | (old & TAG_MANY_WARPS)) != 0);                      \
        V since = select(warps, many_warps, select(same, noted, many_lanes));                      \
        return select((V)(old < m->ordered), noted, since);                                        \
    }

RULES(V16, v16_all, v16_select)
RULES(V4, v4_all, v4_select)

static inline Moment moment_of(const Warp *w, const Run *r)
{
    return (Moment){.begin = block_state(w->block)->tags.begin,
                    .ordered = r->race ? w->state->ordered : UINT32_MAX,
                    .base = tag_now(w, 0)};
}

/** One word of 16 lanes; returns those that need a closer look. */
static inline uint32_t read_16(struct SharedTags *t, const Moment *m, V16 at, V16 now, V16 noted,
                               bool row, bool race)
{
    V16 old = row ? v16_load(t->write + at[0]) : v16_gather(t->write, at);
    uint32_t bad = v16_test(writes_doubtful_V16(old, m));
    if (bad)
        bad = v16_test(writes_open_V16(old, now, m));
    if (!race)
        return bad;
    old = row ? v16_load(t->read + at[0]) : v16_gather(t->read, at);
    V16 next = next_reads_V16(old, noted, m);
    if (!v16_test(next ^ old))
        return bad;
    if (row)
        v16_store(t->read + at[0], next);
    else
        v16_scatter(t->read, at, next);
    return bad;
}

/** The four words of each lane that has an address no lane before it has. */
static inline uint32_t read_fours(struct SharedTags *t, const Moment *m, const Pattern *p,
                                  const uint32_t *word, bool race)
{
    uint32_t lanes = 0;
    for (uint32_t rest = p->fresh; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        V4 old = v4_load(t->write + word[l]);
        /* What one thread may read since it wrote it, the others that read it may not. */
        if (v4_any(writes_doubtful_V4(old, m)) &&
            (p->twins >> l & 1 || v4_any(writes_open_V4(old, v4_all(m->base | p->lane[l]), m))))
            lanes |= 1u << l;
        if (!race)
            continue;
        V4 noted = v4_all(m->base | p->tag[l]);
        old = v4_load(t->read + word[l]);
        if (v4_any(old ^ noted))
            v4_store(t->read + word[l], next_reads_V4(old, noted, m));
    }
    return lanes & p->twins ? lanes | p->twins : lanes;
}

uint32_t shared_read(Warp *w, const Pattern *p, const uint32_t *word, int words)
{
    const Run *r = w->block->worker->run;
    struct SharedTags *t = &block_state(w->block)->tags;
    if (!r->race && !r->uninit)
        return 0;
    Moment m = moment_of(w, r);
    if (words == 4)
        return read_fours(t, &m, p, word, r->race);
    uint32_t lanes = 0;
    bool row = p->layout == LANES_CONTIGUOUS && words == 1;
    for (uint32_t k = 0; k < (uint32_t)words; k++) {
        for (int half = 0; half < 2; half++) {
            V16 at = v16_load(word + 16 * half) + k;
            V16 now = m.base | v16_load(p->lane + 16 * half);
            V16 noted = m.base | v16_load(p->tag + 16 * half);
            lanes |= read_16(t, &m, at, now, noted, row, r->race) << 16 * half;
        }
    }
    return lanes & p->mask;
}

/** One word of 16 lanes. */
static inline uint32_t write_16(struct SharedTags *t, const Moment *m, V16 at, V16 now, bool row)
{
    /* What is not written yet in this block is as good as written and ordered. */
    V16 old = row ? v16_load(t->write + at[0]) : v16_gather(t->write, at);
    old = v16_select((V16)(old < m->begin), v16_all(m->begin | TAG_WHOLE), old);
    uint32_t bad = v16_test(writes_doubtful_V16(old, m));
    if (bad)
        bad = v16_test(writes_open_V16(old, now, m));
    old = row ? v16_load(t->read + at[0]) : v16_gather(t->read, at);
    return bad | v16_test(reads_open_V16(old, now, m));
}

static inline uint32_t write_fours(struct SharedTags *t, const Moment *m, const Pattern *p,
                                   const uint32_t *word)
{
    uint32_t lanes = 0;
    for (uint32_t rest = p->mask & ~p->twins; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        V4 now = v4_all(m->base | p->lane[l]), old = v4_load(t->write + word[l]);
        old = v4_select((V4)(old < m->begin), v4_all(m->begin | TAG_WHOLE), old);
        bool bad = v4_any(writes_doubtful_V4(old, m)) && v4_any(writes_open_V4(old, now, m));
        if (bad || v4_any(reads_open_V4(v4_load(t->read + word[l]), now, m)))
            lanes |= 1u << l;
    }
    return lanes;
}

uint32_t shared_write(Warp *w, const Pattern *p, const uint32_t *word, int words)
{
    const Run *r = w->block->worker->run;
    struct SharedTags *t = &block_state(w->block)->tags;
    if (!r->race && !r->uninit)
        return 0;
    Moment m = moment_of(w, r);
    uint32_t lanes = p->twins;
    bool row = p->layout == LANES_CONTIGUOUS && words == 1;
    if (words == 4 && r->race)
        lanes |= write_fours(t, &m, p, word);
    for (uint32_t k = 0; k < (uint32_t)words && r->race && words != 4; k++) {
        for (int half = 0; half < 2; half++) {
            V16 at = v16_load(word + 16 * half) + k;
            V16 now = m.base | v16_load(p->lane + 16 * half);
            lanes |= write_16(t, &m, at, now, row) << 16 * half;
        }
    }
    lanes &= p->mask;
    if (row && !lanes) {
        for (int l = 0; l < LANES; l++)
            t->write[word[0] + (uint32_t)l] = m.base | p->lane[l];
        return 0;
    }
    for (uint32_t rest = p->mask & ~lanes; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        if (words == 4)
            v4_store(t->write + word[l], v4_all(m.base | p->lane[l]));
        for (uint32_t k = 0; k < (uint32_t)words && words != 4; k++)
            t->write[word[l] + k] = m.base | p->lane[l];
    }
    return lanes;
}
