/* allocate.c: registers share slots. Compilers write each register once, so a kernel of some
 * hundred instructions would fill more memory per warp than the caches hold; here registers whose
 * lives do not meet get the same slot. Lives are found lane by lane: however a warp diverges, each
 * lane follows one path of the graph and touches its own lanes of the slots.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/decode.h"

#include <stdlib.h>
#include <string.h>

enum { UNIT = LANES * 4 }; /* bytes of a slot of 32-bit lanes; those of 64 bits take two */

typedef struct {
    uint32_t from, to; /* instructions; of those that branch there is one stretch around */
    uint32_t slot;
    uint8_t width; /* 0: never touched; pinned ones stay 0 */
} Life;

typedef struct {
    uint32_t first, end; /* instructions */
    uint64_t *in, *out, *uses, *defines;
} Stretch;

typedef struct {
    Decoder *d;
    Life *lives;
    Stretch *blocks;
    uint32_t *block_of; /* by instruction */
    uint32_t nregs, nblocks, words;
} Allocator;

/* --- what an instruction touches ------------------------------------------------------------- */

typedef void Touch(Allocator *a, void *context, uint32_t *slot, uint8_t width, bool defines);

static void each_register(Allocator *a, uint32_t at, Touch *touch, void *context)
{
    Inst *i = &a->d->code.at[at];
    const Uses *u = &a->d->uses.at[at];
    uint32_t *fields[] = {&i->d, &i->a, &i->b, &i->c, &i->e};
    for (int k = 4; k >= 0; k--) /* sources before the destination */
        if (u->fields >> k & 1 && *fields[k] != NO_SLOT)
            touch(a, context, fields[k], i->wide >> k & 1 ? 8 : 4, k == 0);
    if (u->member)
        touch(a, context, &i->member, 4, false);
    for (uint32_t k = i->nlist; u->list_width && k-- > 0;)
        touch(a, context, (uint32_t *)(uintptr_t)&i->list[k], u->list_width, k < u->list_defines);
}

/* --- blocks ---------------------------------------------------------------------------------- */

static uint64_t *new_set(Allocator *a)
{
    return arena_array(a->d->scratch, uint64_t, a->words);
}

static void make_blocks(Allocator *a)
{
    uint32_t n = a->d->code.n, count = 0;
    for (uint32_t k = 0; k < n; k++)
        count += a->d->code.at[k].leader;
    a->blocks = arena_array(a->d->scratch, Stretch, count);
    a->block_of = arena_array(a->d->scratch, uint32_t, n);
    for (uint32_t k = 0; k < n; k++) {
        if (a->d->code.at[k].leader) {
            Stretch *b = &a->blocks[a->nblocks++];
            *b = (Stretch){k, k, new_set(a), new_set(a), new_set(a), new_set(a)};
        }
        a->blocks[a->nblocks - 1].end = k + 1;
        a->block_of[k] = a->nblocks - 1;
    }
}

static bool is_in(const uint64_t *set, uint32_t r)
{
    return set[r / 64] >> r % 64 & 1;
}

static void put_in(uint64_t *set, uint32_t r)
{
    set[r / 64] |= 1ull << r % 64;
}

typedef struct {
    Stretch *b;
    bool guarded; /* the lanes that the guard leaves out keep the old value, so it is used too */
} Collect;

static void collect(Allocator *a, void *context, uint32_t *slot, uint8_t width, bool defines)
{
    (void)a, (void)width;
    Collect *c = context;
    uint32_t r = *slot / UNIT;
    if ((!defines || c->guarded) && !is_in(c->b->defines, r))
        put_in(c->b->uses, r);
    if (defines && !c->guarded)
        put_in(c->b->defines, r);
}

/* What lives at the beginning of a successor lives at the end; says whether that is news. */
static bool flow(Allocator *a, Stretch *b, uint32_t successor)
{
    const Stretch *next = &a->blocks[a->block_of[successor]];
    bool news = false;
    for (uint32_t k = 0; k < a->words; k++) {
        uint64_t out = b->out[k] | next->in[k];
        news |= out != b->out[k];
        b->out[k] = out;
        b->in[k] = b->uses[k] | (out & ~b->defines[k]);
    }
    return news;
}

static bool flow_all(Allocator *a, Stretch *b)
{
    const Inst *last = &a->d->code.at[b->end - 1];
    bool news = false, falls = last->kind != INST_EXIT && last->kind != INST_TRAP;
    if (last->kind == INST_BRANCH) {
        news |= flow(a, b, last->target);
        falls = false;
    }
    if (last->kind == INST_BRANCH_INDEX) {
        for (uint32_t k = 0; k < last->nlist; k++)
            news |= flow(a, b, last->list[k]);
        falls = false;
    }
    if ((falls || last->guard != NO_GUARD) && b->end < a->d->code.n)
        news |= flow(a, b, b->end);
    return news;
}

static void find_lives_in_blocks(Allocator *a)
{
    for (uint32_t n = 0; n < a->nblocks; n++) {
        Stretch *b = &a->blocks[n];
        for (uint32_t k = b->first; k < b->end; k++) {
            Collect c = {b, a->d->code.at[k].guard != NO_GUARD};
            each_register(a, k, collect, &c);
        }
        memcpy(b->in, b->uses, a->words * sizeof *b->in);
    }
    for (bool news = true; news;) {
        news = false;
        for (uint32_t n = a->nblocks; n-- > 0;)
            news |= flow_all(a, &a->blocks[n]);
    }
}

/* --- lives ----------------------------------------------------------------------------------- */

static void live_at(Life *l, uint32_t at)
{
    l->from = at < l->from ? at : l->from;
    l->to = at > l->to ? at : l->to;
}

static void extend(Allocator *a, void *context, uint32_t *slot, uint8_t width, bool defines)
{
    (void)defines;
    Life *l = &a->lives[*slot / UNIT];
    l->width = width;
    live_at(l, *(const uint32_t *)context);
}

static void extend_set(Allocator *a, const uint64_t *set, uint32_t at)
{
    for (uint32_t k = 0; k < a->words; k++)
        for (uint64_t left = set[k]; left; left &= left - 1)
            live_at(&a->lives[k * 64 + (uint32_t)__builtin_ctzll(left)], at);
}

static void find_lives(Allocator *a)
{
    for (uint32_t r = 0; r < a->nregs; r++)
        a->lives[r] = (Life){.from = UINT32_MAX, .slot = NO_SLOT};
    for (uint32_t n = 0; n < a->nblocks; n++) {
        const Stretch *b = &a->blocks[n];
        extend_set(a, b->in, b->first);
        extend_set(a, b->out, b->end - 1);
        for (uint32_t k = b->first; k < b->end; k++)
            each_register(a, k, extend, &k);
    }
}

/* --- slots ----------------------------------------------------------------------------------- */

typedef struct {
    uint32_t bytes, words, most; /* words that live now, and at most */
    VEC(uint32_t) free[2];       /* slots of 4 and 8 bytes; the last one freed is used first */
} Slots;

static uint32_t slot_take(Allocator *a, Slots *s, uint8_t width)
{
    (void)a;
    bool wide = width == 8;
    s->words += width / 4u;
    s->most = s->words > s->most ? s->words : s->most;
    if (s->free[wide].n)
        return s->free[wide].at[--s->free[wide].n];
    uint32_t slot = s->bytes;
    s->bytes += UNIT * (width / 4u);
    return slot;
}

/* Filled before the kernel begins: they keep slots of their own. */
static void pin(Allocator *a, Slots *s)
{
    Decoder *d = a->d;
    a->lives[0].slot = 0; /* the carry flags */
    s->bytes = UNIT;
    for (uint32_t k = 0; k < d->constants.n + d->specials.n; k++) {
        struct Constant *c = k < d->constants.n ? &d->constants.at[k] : NULL;
        struct SpecialSlot *special = c ? NULL : &d->specials.at[k - d->constants.n];
        uint32_t *slot = c ? &c->slot : &special->slot;
        Life *l = &a->lives[*slot / UNIT];
        *slot = l->slot = s->bytes;
        s->bytes += UNIT * ((c ? c->width : special->width) / 4u);
    }
}

static uint32_t *by_begin(Allocator *a, bool ends)
{
    /* registers in the order of the instructions where their lives begin (or end): a counting sort
     */
    uint32_t n = a->d->code.n, *count = arena_array(a->d->scratch, uint32_t, n + 1),
             *order = arena_array(a->d->scratch, uint32_t, a->nregs + 1);
    for (uint32_t r = 0; r < a->nregs; r++)
        if (a->lives[r].width && a->lives[r].slot == NO_SLOT)
            count[(ends ? a->lives[r].to : a->lives[r].from) + 1]++;
    for (uint32_t k = 0; k < n; k++)
        count[k + 1] += count[k];
    uint32_t total = count[n];
    for (uint32_t r = 0; r < a->nregs; r++)
        if (a->lives[r].width && a->lives[r].slot == NO_SLOT)
            order[count[ends ? a->lives[r].to : a->lives[r].from]++] = r;
    order[total] = UINT32_MAX;
    return order;
}

static void give_slots(Allocator *a, Slots *s)
{
    const uint32_t *begins = by_begin(a, false), *ends = by_begin(a, true);
    for (; *begins != UINT32_MAX; begins++) {
        Life *l = &a->lives[*begins];
        /* a slot is free after the last instruction that reads it: no result overlaps a source */
        for (; *ends != UINT32_MAX && a->lives[*ends].to < l->from; ends++) {
            Life *over = &a->lives[*ends];
            vec_push(a->d->scratch, &s->free[over->width == 8], over->slot);
            s->words -= over->width / 4u;
        }
        l->slot = slot_take(a, s, l->width);
    }
}

static void rename_slot(Allocator *a, void *context, uint32_t *slot, uint8_t width, bool defines)
{
    (void)width, (void)defines, (void)context;
    *slot = a->lives[*slot / UNIT].slot;
}

uint32_t allocate_slots(Decoder *d)
{
    Allocator a = {.d = d, .nregs = d->reg_bytes / UNIT};
    Slots s = {0};
    a.words = (a.nregs + 63) / 64;
    a.lives = arena_array(d->scratch, Life, a.nregs);
    make_blocks(&a);
    find_lives_in_blocks(&a);
    find_lives(&a);
    pin(&a, &s);
    give_slots(&a, &s);
    for (uint32_t k = 0; k < d->code.n; k++)
        each_register(&a, k, rename_slot, NULL);
    d->reg_bytes = s.bytes;
    return s.most;
}
