/* heap.c: see heap.h. Segments come from the device; they are cut into blocks, which join again
 * when they are free. Small blocks have segments of their own, so that they do not keep large ones
 * from joining. SPDX-License-Identifier: MIT */
#include "runtime/heap.h"

#include <stdlib.h>

enum {
    UNIT = 512,
    SMALL = 1 << 20, /* blocks up to this share small segments */
    SMALL_SEGMENT = 2 << 20,
    MEDIUM = 10 << 20, /* and up to this medium ones */
    MEDIUM_SEGMENT = 20 << 20,
    LARGE_UNIT = 2 << 20,
    BUCKETS = 256
};

typedef struct Block Block;
struct Block {
    uint64_t at;
    size_t bytes;
    uint64_t stream;
    int use;
    bool in_use, small;
    Block *before, *after;   /* neighbours in the segment; before NULL: its first */
    Block *next_hash;        /* blocks in use, by address */
    Block *prev_free, *next; /* free blocks, or blocks that wait */
    uint64_t *users;         /* other streams that use it */
    void **marks;            /* of a block that waits for them */
    int nusers, nmarks;
};

struct tn__heap {
    tn__heap_device device;
    bool plain;
    Block *used[BUCKETS], *free, *waiting;
    tn__heap_sums sums;
};

tn__heap *tn__heap_new(const tn__heap_device *device, bool plain)
{
    tn__heap *h = calloc(1, sizeof *h);
    if (h) {
        h->device = *device;
        h->plain = plain;
    }
    return h;
}

/* --- lists ---------------------------------------------------------------------------------------
 */

static Block **bucket(tn__heap *h, uint64_t at)
{
    return &h->used[(at / UNIT * 0x9e3779b97f4a7c15u) >> 56];
}

static Block *find(tn__heap *h, uint64_t at)
{
    Block *b = *bucket(h, at);
    while (b && b->at != at)
        b = b->next_hash;
    return b;
}

static void use_block(tn__heap *h, Block *b)
{
    Block **head = bucket(h, b->at);
    b->in_use = true;
    b->next_hash = *head;
    *head = b;
    h->sums.allocated += b->bytes;
    if (h->sums.allocated > h->sums.max_allocated)
        h->sums.max_allocated = h->sums.allocated;
}

static void unuse_block(tn__heap *h, Block *b)
{
    Block **at = bucket(h, b->at);
    while (*at != b)
        at = &(*at)->next_hash;
    *at = b->next_hash;
    b->next_hash = NULL;
    b->in_use = false;
    h->sums.allocated -= b->bytes;
}

static void push_free(tn__heap *h, Block *b)
{
    b->prev_free = NULL;
    b->next = h->free;
    if (h->free)
        h->free->prev_free = b;
    h->free = b;
}

static void pull_free(tn__heap *h, Block *b)
{
    if (b->prev_free)
        b->prev_free->next = b->next;
    else
        h->free = b->next;
    if (b->next)
        b->next->prev_free = b->prev_free;
    b->prev_free = b->next = NULL;
}

/* Free, not in use and not waiting. */
static bool is_free(const tn__heap *h, const Block *b)
{
    return b && !b->in_use && !b->nmarks && (b->prev_free || h->free == b);
}

/* --- segments ------------------------------------------------------------------------------------
 */

static void give_segment(tn__heap *h, Block *b)
{
    h->sums.reserved -= b->bytes;
    h->device.give(h->device.user, b->at);
    free(b->users);
    free(b->marks);
    free(b);
}

/* b takes over what follows it. */
static void join_next(tn__heap *h, Block *b)
{
    Block *n = b->after;
    pull_free(h, n);
    b->bytes += n->bytes;
    b->after = n->after;
    if (n->after)
        n->after->before = b;
    free(n->users);
    free(n->marks);
    free(n);
}

/* A block that nobody uses any more. */
static void set_free(tn__heap *h, Block *b)
{
    push_free(h, b);
    if (is_free(h, b->after) && b->after->stream == b->stream)
        join_next(h, b);
    if (is_free(h, b->before) && b->before->stream == b->stream) {
        b = b->before;
        join_next(h, b);
    }
    if (h->plain && !b->before && !b->after) {
        pull_free(h, b);
        give_segment(h, b);
    }
}

static size_t segment_bytes(const tn__heap *h, size_t bytes)
{
    if (h->plain)
        return bytes;
    if (bytes <= SMALL)
        return SMALL_SEGMENT;
    if (bytes <= MEDIUM)
        return MEDIUM_SEGMENT;
    return (bytes + LARGE_UNIT - 1) / LARGE_UNIT * LARGE_UNIT;
}

static Block *new_segment(tn__heap *h, size_t bytes, size_t whole)
{
    Block *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    b->at = h->device.take(h->device.user, whole);
    if (!b->at) {
        free(b);
        return NULL;
    }
    b->bytes = whole;
    b->small = bytes <= SMALL;
    h->sums.reserved += whole;
    if (h->sums.reserved > h->sums.max_reserved)
        h->sums.max_reserved = h->sums.reserved;
    return b;
}

/* Cuts off what is more than `bytes`, where that is worth a block. */
static void trim(tn__heap *h, Block *b, size_t bytes)
{
    const size_t rest = b->bytes - bytes;
    if (rest < (b->small ? UNIT : SMALL))
        return;
    Block *r = calloc(1, sizeof *r);
    if (!r)
        return;
    r->at = b->at + bytes;
    r->bytes = rest;
    r->stream = b->stream;
    r->small = b->small;
    r->before = b;
    r->after = b->after;
    if (r->after)
        r->after->before = r;
    b->after = r;
    b->bytes = bytes;
    push_free(h, r);
}

/* --- waiting for other streams -------------------------------------------------------------------
 */

static bool all_passed(tn__heap *h, Block *b, bool settled)
{
    while (b->nmarks) {
        void *mark = b->marks[b->nmarks - 1];
        if (!settled && !h->device.passed(h->device.user, mark))
            return false;
        h->device.drop(h->device.user, mark);
        b->nmarks--;
    }
    return true;
}

static void look_at_waiting(tn__heap *h, bool settled)
{
    Block **at = &h->waiting;
    while (*at) {
        Block *b = *at;
        if (!all_passed(h, b, settled)) {
            at = &b->next;
            continue;
        }
        *at = b->next;
        b->next = NULL;
        set_free(h, b);
    }
}

static void add_mark(tn__heap *h, Block *b, uint64_t stream)
{
    void *mark = h->device.mark(h->device.user, stream);
    if (mark)
        b->marks[b->nmarks++] = mark;
}

bool tn__heap_free(tn__heap *h, uint64_t at, uint64_t last)
{
    Block *b = find(h, at);
    if (!b)
        return false;
    const bool elsewhere = last && last != b->stream;
    if (elsewhere || b->nusers) {
        void **marks = realloc(b->marks, sizeof *marks * (size_t)(b->nusers + 1));
        if (marks)
            b->marks = marks;
        else
            h->device.settle(h->device.user);
        for (int i = 0; marks && i < b->nusers; i++)
            add_mark(h, b, b->users[i]);
        if (marks && elsewhere)
            add_mark(h, b, last);
    }
    b->nusers = 0;
    unuse_block(h, b);
    if (b->nmarks) {
        b->next = h->waiting;
        h->waiting = b;
    } else {
        set_free(h, b);
    }
    return true;
}

bool tn__heap_record(tn__heap *h, uint64_t at, uint64_t stream)
{
    Block *b = find(h, at);
    if (!b)
        return false;
    if (b->stream == stream)
        return true;
    for (int i = 0; i < b->nusers; i++)
        if (b->users[i] == stream)
            return true;
    uint64_t *users = realloc(b->users, sizeof *users * (size_t)(b->nusers + 1));
    if (!users)
        return false;
    users[b->nusers++] = stream;
    b->users = users;
    return true;
}

/* --- blocks --------------------------------------------------------------------------------------
 */

static Block *best_fit(tn__heap *h, uint64_t stream, size_t bytes)
{
    Block *best = NULL;
    for (Block *b = h->free; b; b = b->next)
        if (b->stream == stream && b->small == (bytes <= SMALL) && b->bytes >= bytes &&
            (!best || b->bytes < best->bytes || (b->bytes == best->bytes && b->at < best->at)))
            best = b;
    if (best)
        pull_free(h, best);
    return best;
}

void tn__heap_empty(tn__heap *h)
{
    if (!h->free && !h->waiting)
        return;
    h->device.settle(h->device.user);
    look_at_waiting(h, true);
    for (Block *b = h->free, *next; b; b = next) {
        next = b->next;
        if (b->before || b->after)
            continue;
        pull_free(h, b);
        give_segment(h, b);
    }
}

uint64_t tn__heap_alloc(tn__heap *h, uint64_t stream, size_t bytes, int use)
{
    if (bytes > SIZE_MAX / 2)
        return 0;
    bytes = bytes ? (bytes + UNIT - 1) / UNIT * UNIT : UNIT;
    look_at_waiting(h, false);
    Block *b = best_fit(h, stream, bytes);
    if (!b)
        b = new_segment(h, bytes, segment_bytes(h, bytes));
    if (!b) {
        tn__heap_empty(h);
        b = new_segment(h, bytes, segment_bytes(h, bytes));
    }
    if (!b && segment_bytes(h, bytes) > bytes) /* no room for others beside it */
        b = new_segment(h, bytes, bytes);
    if (!b)
        return 0;
    b->stream = stream;
    b->use = use;
    trim(h, b, bytes);
    use_block(h, b);
    return b->at;
}

static void forget_block(Block *b, uint64_t stream, uint64_t heir)
{
    int kept = 0;
    for (int i = 0; i < b->nusers; i++)
        if (b->users[i] != stream)
            b->users[kept++] = b->users[i];
    b->nusers = kept;
    if (b->stream == stream)
        b->stream = heir;
}

void tn__heap_forget(tn__heap *h, uint64_t stream, uint64_t heir)
{
    for (int i = 0; i < BUCKETS; i++)
        for (Block *b = h->used[i]; b; b = b->next_hash)
            forget_block(b, stream, heir);
    for (Block *b = h->free; b; b = b->next)
        forget_block(b, stream, heir);
    for (Block *b = h->waiting; b; b = b->next)
        forget_block(b, stream, heir);
    for (Block *b = h->free; b;) /* neighbours may be of one stream now */
        if (is_free(h, b->after) && b->after->stream == b->stream)
            join_next(h, b);
        else
            b = b->next;
}

/* --- numbers -------------------------------------------------------------------------------------
 */

tn__heap_sums tn__heap_sum(const tn__heap *h)
{
    return h->sums;
}

void tn__heap_reset_peak(tn__heap *h)
{
    h->sums.max_allocated = h->sums.allocated;
    h->sums.max_reserved = h->sums.reserved;
}

void tn__heap_uses(const tn__heap *h, size_t *bytes, int n)
{
    for (int i = 0; i < n; i++)
        bytes[i] = 0;
    for (int i = 0; i < BUCKETS; i++)
        for (const Block *b = h->used[i]; b; b = b->next_hash)
            if (b->use >= 0 && b->use < n)
                bytes[b->use] += b->bytes;
}

void tn__heap_each(const tn__heap *h,
                   void (*see)(void *user, uint64_t at, size_t bytes, int use, bool in_use,
                               uint64_t stream),
                   void *user)
{
    for (int i = 0; i < BUCKETS; i++)
        for (const Block *b = h->used[i]; b; b = b->next_hash)
            see(user, b->at, b->bytes, b->use, true, b->stream);
    for (const Block *b = h->free; b; b = b->next)
        see(user, b->at, b->bytes, b->use, false, b->stream);
    for (const Block *b = h->waiting; b; b = b->next)
        see(user, b->at, b->bytes, b->use, false, b->stream);
}

void tn__heap_destroy(tn__heap *h)
{
    if (!h)
        return;
    h->device.settle(h->device.user);
    look_at_waiting(h, true);
    for (int i = 0; i < BUCKETS; i++)
        while (h->used[i]) {
            Block *b = h->used[i];
            unuse_block(h, b);
            set_free(h, b);
        }
    /* neighbours of two streams do not join: what is left over hangs at the first of a segment */
    while (h->free) {
        Block *b = h->free;
        while (b->before)
            b = b->before;
        while (b->after)
            join_next(h, b);
        pull_free(h, b);
        give_segment(h, b);
    }
    free(h);
}
