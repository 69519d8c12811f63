/* blocks.c: races between the blocks of a launch. A byte of device memory that two blocks touch,
 * one of them writing, is a race, since blocks run in any order; atomics do not race with each
 * other, and a fence followed by an atomic operation orders what a block did before whoever looks
 * at that address later (the "last block" of a reduction, barriers of a whole grid).
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/lanes.h"
#include "tests/vgpu/memory.h"
#include "tests/vgpu/race.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Stamps of a launch: the first ones have a meaning, then one for each block. */
enum { STAMP_MANY, STAMP_ATOMIC, STAMP_SPLIT, STAMP_BLOCKS };
enum { STAMPS_MAX = 1 << 28, MEETINGS_BYTES = 64 << 20 };

/* Bytes of a word that different blocks touch. */
typedef struct {
    const Alloc *alloc;
    uint64_t word;
    uint32_t write[4], read[4];
} SplitWord;

/* An address at which blocks meet: who released something there. */
typedef struct {
    uint64_t address;
    uint64_t *set;
} Meeting;

typedef struct Meetings {
    Meeting *at;
    size_t n, room;
    size_t set_words, bytes;
    bool all; /* too many to keep: everybody has met everybody */
} Meetings;

static struct {
    pthread_mutex_t lock; /* of `split`, and of all that is not one comparison */
    uint32_t next;        /* stamp */
    SplitWord *split;     /* open addressing */
    size_t nsplit, room;
} blocks = {.lock = PTHREAD_MUTEX_INITIALIZER, .next = 1};

static void clear_words(Alloc *a, void *with)
{
    (void)with;
    if (a->words)
        memset(a->words, 0, 2 * global_words(a) * sizeof *a->words);
}

void blocks_launch(Run *r)
{
    uint64_t need = r->nblocks + STAMP_BLOCKS;
    if (r->nblocks < 2 || need >= STAMPS_MAX - 1)
        r->blocks = false;
    if (!r->blocks)
        return;
    if (blocks.next + need > STAMPS_MAX) {
        memory_each(clear_words, NULL);
        blocks.next = 1;
    }
    r->stamps = blocks.next;
    blocks.next += (uint32_t)need;
    if (blocks.nsplit)
        memset(blocks.split, 0, blocks.room * sizeof *blocks.split);
    blocks.nsplit = 0;
}

void blocks_end(Run *r)
{
    Meetings *m = r->meetings;
    for (size_t k = 0; m && k < m->room; k++)
        free(m->at[k].set);
    if (m)
        free(m->at);
    free(m);
    r->meetings = NULL;
}

void blocks_free(Block *b)
{
    free(block_state(b)->met);
    block_state(b)->met = NULL;
}

void blocks_begin(Block *b)
{
    BlockState *s = block_state(b);
    s->stamp = b->worker->run->stamps + STAMP_BLOCKS + (uint32_t)b->number;
    s->fenced = false;
    blocks_free(b);
}

/* --- order
 * ---------------------------------------------------------------------------------------- */

bool blocks_may_meet(const Inst *i)
{
    bool shared = i->space == SPACE_SHARED;
    return (i->count == COUNT_ATOMIC && !shared) || i->exec == exec_fence ||
           ((i->count == COUNT_LOAD || i->count == COUNT_STORE) && i->sub[1] == ACCESS_STRONG &&
            !shared);
}

void blocks_fence(Block *b)
{
    block_state(b)->fenced = true;
}

static Meeting *meeting_at(Meetings *m, uint64_t address, bool add)
{
    if (add && 2 * m->n >= m->room) {
        Meetings grown = {.room = m->room ? 2 * m->room : 64};
        grown.at = calloc(grown.room, sizeof *grown.at);
        if (!grown.at)
            return NULL;
        for (size_t k = 0; k < m->room; k++) {
            if (m->at[k].set)
                *meeting_at(&grown, m->at[k].address, false) = m->at[k];
        }
        free(m->at);
        m->at = grown.at;
        m->room = grown.room;
    }
    if (!m->room)
        return NULL;
    size_t k = (size_t)(address * 0x9e3779b97f4a7c15u >> 20) % m->room;
    while (m->at[k].set && m->at[k].address != address)
        k = (k + 1) % m->room;
    return &m->at[k];
}

static void join_sets(uint64_t *to, const uint64_t *from, size_t n)
{
    for (size_t k = 0; k < n; k++)
        to[k] |= from[k];
}

/** What this block has done and seen becomes visible at the address. */
static void release_at(Block *b, Meetings *m, uint64_t address)
{
    BlockState *s = block_state(b);
    Meeting *at = meeting_at(m, address, true);
    if (at && !at->set && m->bytes < MEETINGS_BYTES) {
        at->set = calloc(m->set_words, sizeof *at->set);
        at->address = address;
        m->n += at->set != NULL;
        m->bytes += m->set_words * sizeof *at->set;
    }
    if (!at || !at->set) {
        m->all = true;
        return;
    }
    at->set[b->number / 64] |= 1ull << b->number % 64;
    if (s->met)
        join_sets(at->set, s->met, m->set_words);
}

void blocks_meet(Block *b, uint64_t address, bool write, bool release)
{
    Run *r = b->worker->run;
    BlockState *s = block_state(b);
    release = write && (release || s->fenced);
    if (!r->blocks || (!release && !r->meetings))
        return;
    if (!r->meetings) {
        r->meetings = calloc(1, sizeof *r->meetings);
        if (!r->meetings)
            return;
        r->meetings->set_words = (size_t)(r->nblocks + 63) / 64;
    }
    Meetings *m = r->meetings;
    Meeting *at = meeting_at(m, address, false);
    if (at && at->set) {
        if (!s->met)
            s->met = calloc(m->set_words, sizeof *s->met);
        if (s->met)
            join_sets(s->met, at->set, m->set_words);
    }
    if (release)
        release_at(b, m, address);
}

/** Whether what the holder of a stamp did is ordered before this block now. */
static bool has_met(const Block *b, uint32_t stamp)
{
    const Run *r = b->worker->run;
    const uint64_t *met = block_state((Block *)b)->met;
    if (r->meetings && r->meetings->all)
        return true;
    if (!met)
        return false;
    if (stamp >= r->stamps + STAMP_BLOCKS) {
        uint32_t other = stamp - r->stamps - STAMP_BLOCKS;
        return met[other / 64] >> other % 64 & 1;
    }
    for (uint64_t k = 0; k < r->nblocks; k++) {
        if (k != b->number && !(met[k / 64] >> k % 64 & 1))
            return false;
    }
    return true;
}

/* --- one word
 * ------------------------------------------------------------------------------------- */

typedef struct {
    Warp *w;
    const Inst *i;
    Alloc *alloc;
    const uint8_t *value; /* of a write, from `offset` on */
    uint64_t offset;
    uint32_t first, stamp; /* of the launch, of the block */
    int lane;
    BlocksTouch touch;
} Toucher;

static void report(const Toucher *t, uint64_t offset, uint32_t other, const char *did)
{
    static const char *const does[] = {"reads", "writes", "does an atomic operation on",
                                       "reads (volatile)"};
    const Grid *g = t->w->block->grid;
    char who[80];
    uint32_t number = other - t->first - STAMP_BLOCKS;
    if (other < t->first + STAMP_BLOCKS)
        snprintf(who, sizeof who, "other blocks");
    else
        snprintf(who, sizeof who, "block (%u,%u,%u)", number % g->grid[0],
                 number / g->grid[0] % g->grid[1], number / g->grid[0] / g->grid[1]);
    finding_kernel(FINDING_BLOCK_RACE, t->w, t->i, t->lane, t->alloc->base + offset,
                   "%s 0x%llx, which %s %s in the same launch", does[t->touch],
                   (unsigned long long)(t->alloc->base + offset), who, did);
}

static bool is_other(const Toucher *t, uint32_t tag)
{
    return tag >> STAMP_SHIFT >= t->first && tag >> STAMP_SHIFT != t->stamp;
}

static bool is_atomic(const Toucher *t, uint32_t tag)
{
    return tag >> STAMP_SHIFT == t->first + STAMP_ATOMIC || !(tag & STAMP_BYTES);
}

/** Bytes with one pair of tags that are touched together. */
static void touch_tags(const Toucher *t, uint64_t offset, uint32_t bytes, uint32_t set,
                       uint32_t *write, uint32_t *read)
{
    uint32_t me = t->stamp << STAMP_SHIFT, old = *write, reader = *read;
    Block *b = t->w->block;
    bool plain = t->touch == BLOCKS_READ || t->touch == BLOCKS_WRITE;
    if (is_other(t, old) && (plain || !is_atomic(t, old)) && !has_met(b, old >> STAMP_SHIFT)) {
        bool same =
            t->value && !memcmp(t->alloc->data + offset, t->value + (offset - t->offset), bytes);
        if (!same)
            report(t, offset, old >> STAMP_SHIFT,
                   is_atomic(t, old) ? "changes by atomics" : "writes");
    }
    bool writes = t->touch == BLOCKS_WRITE || t->touch == BLOCKS_ATOMIC;
    if (writes && is_other(t, reader) && !has_met(b, reader >> STAMP_SHIFT))
        report(t, offset, reader >> STAMP_SHIFT, "reads");
    bool mine = old >> STAMP_SHIFT == t->stamp;
    switch (t->touch) {
    case BLOCKS_READ:
        if (is_other(t, reader))
            *read = (t->first + STAMP_MANY) << STAMP_SHIFT | STAMP_BYTES;
        else
            *read = me | set | (reader >> STAMP_SHIFT == t->stamp ? reader & STAMP_BYTES : 0);
        break;
    case BLOCKS_WRITE:
        *write = me | set | (mine ? old & STAMP_BYTES : 0);
        break;
    case BLOCKS_ATOMIC:
        if (is_other(t, old) && is_atomic(t, old))
            *write = (t->first + STAMP_ATOMIC) << STAMP_SHIFT;
        else if (!mine)
            *write = me;
        break;
    case BLOCKS_STRONG_READ:
        break;
    }
}

static SplitWord *split_find(const Alloc *a, uint64_t word)
{
    size_t k = (size_t)((word + (uint64_t)(uintptr_t)a) * 0x9e3779b97f4a7c15u >> 20) % blocks.room;
    while (blocks.split[k].alloc && (blocks.split[k].alloc != a || blocks.split[k].word != word))
        k = (k + 1) % blocks.room;
    return &blocks.split[k];
}

static bool split_grow(void)
{
    SplitWord *old = blocks.split;
    size_t n = blocks.room, room = n ? 2 * n : 1024;
    SplitWord *made = calloc(room, sizeof *made);
    if (!made)
        return false;
    blocks.split = made;
    blocks.room = room;
    for (size_t k = 0; k < n; k++) {
        if (old[k].alloc)
            *split_find(old[k].alloc, old[k].word) = old[k];
    }
    free(old);
    return true;
}

/** The word's bytes get tags of their own. */
static SplitWord *split(const Toucher *t, uint64_t word, uint32_t *write, uint32_t *read)
{
    uint32_t mark = (t->first + STAMP_SPLIT) << STAMP_SHIFT | STAMP_BYTES;
    if (*write == mark)
        return split_find(t->alloc, word);
    if (2 * blocks.nsplit >= blocks.room && !split_grow())
        return NULL;
    SplitWord *s = split_find(t->alloc, word);
    blocks.nsplit++;
    s->alloc = t->alloc;
    s->word = word;
    for (int k = 0; k < 4; k++) {
        uint32_t bit = 1u << k;
        bool atomic = is_atomic(t, *write);
        s->write[k] = atomic ? *write : *write & bit ? *write | STAMP_BYTES : 0;
        s->read[k] = *read & bit ? *read | STAMP_BYTES : 0;
    }
    *write = *read = mark;
    return s;
}

/** Whether a tag tells all that there is to tell when bytes `set` are touched. */
static bool is_simple(const Toucher *t, uint32_t tag, uint32_t set)
{
    uint32_t bytes = tag & STAMP_BYTES;
    return !is_other(t, tag) || (set == STAMP_BYTES && (bytes == STAMP_BYTES || !bytes));
}

static void touch_word(const Toucher *t, uint64_t word, uint64_t begin, uint64_t end)
{
    uint32_t *write = &t->alloc->words[word].tag;
    uint32_t *read = &t->alloc->words[global_words(t->alloc) + word].tag;
    uint32_t set = ((1u << (end - begin)) - 1) << (begin - 4 * word);
    bool is_split = *write == ((t->first + STAMP_SPLIT) << STAMP_SHIFT | STAMP_BYTES);
    if (!is_split && is_simple(t, *write, set) && is_simple(t, *read, set)) {
        touch_tags(t, begin, (uint32_t)(end - begin), set, write, read);
        return;
    }
    SplitWord *s = split(t, word, write, read);
    for (uint64_t k = begin; s && k < end; k++)
        touch_tags(t, k, 1, STAMP_BYTES, &s->write[k % 4], &s->read[k % 4]);
}

void blocks_touch(Warp *w, const Inst *i, int lane, Alloc *a, uint64_t offset, uint32_t bytes,
                  BlocksTouch touch, const uint8_t *value)
{
    const Run *r = w->block->worker->run;
    if (!r->blocks || !a->words)
        return;
    Toucher t = {w, i, a, value, offset, r->stamps, block_state(w->block)->stamp, lane, touch};
    pthread_mutex_lock(&blocks.lock);
    for (uint64_t at = offset; at < offset + bytes;) {
        uint64_t end = (at & ~(uint64_t)3) + 4;
        end = end < offset + bytes ? end : offset + bytes;
        touch_word(&t, at / 4, at, end);
        at = end;
    }
    pthread_mutex_unlock(&blocks.lock);
}

/* --- many words
 * ------------------------------------------------------------------------------------ */

/* No locks here: two threads of the host that touch the same word within the same nanoseconds may
 * miss each other. One thread (VGPU_THREADS=1) misses nothing. */

bool blocks_row(const Block *b, Alloc *a, uint64_t word, uint64_t words, bool write)
{
    const Run *r = b->worker->run;
    if (!r->blocks || !a->words)
        return true;
    uint32_t stamp = block_state((Block *)b)->stamp, bad = 0;
    uint32_t base = r->stamps << STAMP_SHIFT, me = stamp << STAMP_SHIFT | STAMP_BYTES;
    uint32_t many = (r->stamps + STAMP_MANY) << STAMP_SHIFT | STAMP_BYTES;
    uint32_t *writer = &a->words[word].tag, *reader = &a->words[global_words(a) + word].tag;
    for (uint64_t k = 0; k < words; k++)
        bad |= (uint32_t)(writer[k] >= base) & (uint32_t)(writer[k] >> STAMP_SHIFT != stamp);
    if (write) {
        for (uint64_t k = 0; k < words; k++)
            bad |= (uint32_t)(reader[k] >= base) & (uint32_t)(reader[k] >> STAMP_SHIFT != stamp);
        if (bad)
            return false;
        for (uint64_t k = 0; k < words; k++)
            writer[k] = me;
        return true;
    }
    for (uint64_t k = 0; k < words; k++) {
        bool other = reader[k] >= base && reader[k] >> STAMP_SHIFT != stamp;
        bad |= (uint32_t)other & (uint32_t)((reader[k] & STAMP_BYTES) != STAMP_BYTES);
    }
    if (bad)
        return false;
    for (uint64_t k = 0; k < words; k++) {
        bool other = reader[k] >= base && reader[k] >> STAMP_SHIFT != stamp;
        reader[k] = other ? many : me;
    }
    return true;
}

bool blocks_words(const Block *b, Alloc *a, const uint32_t *word, int words, bool write)
{
    const Run *r = b->worker->run;
    if (!r->blocks || !a->words)
        return true;
    uint32_t stamp = block_state((Block *)b)->stamp;
    uint32_t base = r->stamps << STAMP_SHIFT, me = stamp << STAMP_SHIFT | STAMP_BYTES;
    uint32_t many = (r->stamps + STAMP_MANY) << STAMP_SHIFT | STAMP_BYTES;
    uint32_t *writer = &a->words[0].tag, *reader = &a->words[global_words(a)].tag;
    for (uint32_t k = 0; k < 2 * (uint32_t)words; k++) {
        V16 at = v16_load(word + k % 2 * 16) + k / 2;
        V16 wrote = v16_gather(writer, at), read = v16_gather(reader, at);
        V16 bad = (V16)(wrote >= base) & (V16)(wrote >> STAMP_SHIFT != stamp);
        V16 other = (V16)(read >= base) & (V16)(read >> STAMP_SHIFT != stamp);
        bad |= write ? other : other & (V16)((read & STAMP_BYTES) != STAMP_BYTES);
        if (v16_test(bad))
            return false;
        if (write && v16_test(wrote ^ me))
            v16_scatter(writer, at, v16_all(me));
        V16 next = v16_select(other, v16_all(many), v16_all(me));
        if (!write && v16_test(read ^ next))
            v16_scatter(reader, at, next);
    }
    return true;
}
