/* access.c: addresses of a request's lanes; checks of one lane. SPDX-License-Identifier: MIT */
#include "tests/vgpu/access.h"

#include "tests/vgpu/memory.h"
#include "tests/vgpu/op.h"
#include "tests/vgpu/order.h"

#include <stdlib.h>

static Site *site_of(Warp *w, const Inst *i)
{
    return &w->block->worker->sites[i - w->block->grid->function->code];
}

/* --- layout
 * ---------------------------------------------------------------------------------------- */

/* Which lanes have the number of another lane, of one before, of one before in the same group. */
typedef struct {
    uint32_t twins, seen, seen_in_group;
} Twins;

/** Off lanes have numbers that no other has. Groups are of `together` lanes. */
static Twins compare_lanes(const uint32_t *x, uint32_t together)
{
    uint32_t padded[3 * LANES], any[LANES] = {0}, before[LANES] = {0}, group[LANES] = {0};
    memset(padded, 0xff, sizeof padded);
    memcpy(padded + LANES, x, LANES * sizeof *x);
    for (uint32_t far = 1; far < LANES; far++) {
        const uint32_t *low = padded + LANES - far, *high = padded + LANES + far;
        for (uint32_t l = 0; l < LANES; l++) {
            uint32_t same = (uint32_t)(x[l] == low[l]);
            any[l] |= same | (uint32_t)(x[l] == high[l]);
            before[l] |= same;
            group[l] |= same & (uint32_t)((l & (together - 1)) >= far);
        }
    }
    return (Twins){lanes_to_mask(any), lanes_to_mask(before), lanes_to_mask(group)};
}

/** Passes over the banks beyond those that so many bytes need anyway: threads that access different
 * words of one bank come after each other. Up to 128 bytes are served at once. `fresh`: lanes whose
 * word none before them in their group has. */
static uint8_t bank_passes(const Request *r, uint32_t fresh, uint32_t bytes)
{
    uint32_t words = bytes < 4 ? 1 : bytes / 4, together = LANES / words, extra = 0;
    for (uint32_t group = 0; group < LANES; group += together) {
        uint8_t uses[LANES] = {0}, most = 1;
        for (uint32_t l = group; l < group + together; l++) {
            for (uint32_t k = 0; k < words; k++)
                uses[(r->at[l] / 4 + k) % LANES] += fresh >> l & 1;
        }
        for (int k = 0; k < LANES; k++)
            most = uses[k] > most ? uses[k] : most;
        extra += most - 1u;
    }
    return (uint8_t)(extra > 255 ? 255 : extra);
}

static void pattern_make(Pattern *p, const Request *r, uint32_t mask, uint32_t bytes, bool shared)
{
    uint32_t row = 0, same = 0, low_bits = 0, number[LANES];
    int32_t min = 0, max = 0;
    p->mask = mask;
    p->bytes = (uint16_t)bytes;
    p->first = (uint8_t)__builtin_ctz(mask);
    p->shared = shared;
    p->passes = 0;
    p->phase = 255;
    for (int l = 0; l < LANES; l++) {
        int32_t d = p->delta[l];
        row |= (uint32_t)(d - l * (int32_t)bytes);
        same |= (uint32_t)d;
        min = d < min ? d : min;
        max = d > max ? d : max;
    }
    low_bits = same;
    p->low_bits = low_bits;
    p->min = min;
    p->max = max;
    p->layout = !same ? LANES_SAME : !row && mask == ALL_LANES ? LANES_CONTIGUOUS : LANES_ANY;
    uint32_t together = bytes <= 4 ? LANES : LANES * 4 / bytes;
    for (uint32_t l = 0; l < LANES; l++) {
        uint32_t word = (uint32_t)((int32_t)(r->base % 4) + p->delta[l]) & ~3u;
        number[l] = mask >> l & 1 ? bytes < 4 ? word : (uint32_t)p->delta[l] : 0x7f000001u + 2 * l;
    }
    Twins t = {0};
    if (p->layout == LANES_ANY)
        t = compare_lanes(number, together);
    else if (p->layout == LANES_SAME)
        t.twins = t.seen = mask & (mask - 1);
    if (p->layout == LANES_SAME && t.twins)
        t.twins = mask;
    p->twins = t.twins & mask;
    p->fresh = mask & ~t.seen;
    for (uint32_t l = 0; l < LANES; l++) {
        p->lane[l] = (mask >> l & 1 ? l : p->first) << TAG_LANE_SHIFT;
        p->tag[l] = p->twins >> (p->lane[l] >> TAG_LANE_SHIFT) & 1 ? TAG_MANY_LANES : p->lane[l];
    }
    if (shared && p->layout == LANES_ANY)
        p->passes = bank_passes(r, mask & ~t.seen_in_group, bytes);
}

/** The site's pattern of these distances, which is made when it is not known. */
static Pattern *pattern_find(Site *site, const Request *r, const int32_t *delta, uint32_t mask,
                             uint32_t bytes, bool shared)
{
    for (uint32_t k = 0; k < PATTERNS; k++) {
        Pattern *p = &site->pattern[(site->newest - k) % PATTERNS];
        if (p->mask != mask || p->bytes != bytes || p->shared != shared)
            continue;
        uint32_t differs = 0;
        for (int l = 0; l < LANES; l++)
            differs |= (uint32_t)(delta[l] ^ p->delta[l]);
        if (!differs)
            return p;
    }
    Pattern *p = &site->pattern[++site->newest % PATTERNS];
    memcpy(p->delta, delta, sizeof p->delta);
    pattern_make(p, r, mask, bytes, shared);
    return p;
}

static bool site_prepare(Site *site)
{
    site->pattern = aligned_alloc(64, PATTERNS * sizeof *site->pattern);
    for (int k = 0; site->pattern && k < PATTERNS; k++)
        site->pattern[k].mask = 0;
    return site->pattern != NULL;
}

void request_layout(Request *r, Warp *w, const Inst *i, uint32_t mask, uint32_t bytes)
{
    r->base = r->at[__builtin_ctz(mask)];
    r->p = NULL;
    Site *site = site_of(w, i);
    if (!site->pattern && !site_prepare(site))
        return;
    uint64_t base = r->base, far = 0;
    int32_t delta[LANES];
    if (mask != ALL_LANES) {
        for (int l = 0; l < LANES; l++)
            r->at[l] = mask >> l & 1 ? r->at[l] : base;
    }
    for (int l = 0; l < LANES; l++) {
        uint64_t d = r->at[l] - base;
        far |= d ^ (uint64_t)(int64_t)(int32_t)d;
        delta[l] = (int32_t)d;
    }
    if (!far)
        r->p = pattern_find(site, r, delta, mask, bytes,
                            i->space == SPACE_SHARED || i->space == SPACE_GENERIC);
}

void request_make(Request *r, Warp *w, const Inst *i, uint32_t mask, uint32_t bytes)
{
    if (i->wide & 2) {
        const uint64_t *a = REG(const uint64_t, i->a);
        EACH_LANE r->at[l] = a[l] + (uint64_t)i->imm;
    } else {
        const uint32_t *a = REG(const uint32_t, i->a);
        EACH_LANE r->at[l] = (uint32_t)(a[l] + (uint32_t)i->imm);
    }
    request_layout(r, w, i, mask, bytes);
}

Alloc *request_alloc(const Request *r, Warp *w, const Inst *i)
{
    if (!r->p || !request_aligned(r))
        return NULL;
    Site *site = site_of(w, i);
    Alloc *a = site->alloc;
    uint64_t low = r->base + (uint64_t)(int64_t)r->p->min;
    uint64_t high = r->base + (uint64_t)(int64_t)r->p->max + r->p->bytes;
    if (!a || low < a->base || high > a->end) {
        a = memory_find(low);
        if (!a || high > a->end || a->freed || !memory_can_access(w->block->grid->device, a))
            return NULL;
        site->alloc = a;
    }
    return a;
}

uint32_t request_sectors(const Request *r)
{
    Pattern *p = (Pattern *)r->p;
    if (!p)
        return LANES;
    uint32_t phase = (uint32_t)(r->base + (uint64_t)(int64_t)p->min) % 32;
    if (p->layout == LANES_CONTIGUOUS)
        return (phase + LANES * p->bytes + 31u) / 32;
    if (p->phase == phase)
        return p->sectors;
    uint32_t sector[LANES];
    for (int l = 0; l < LANES; l++)
        sector[l] = (phase + (uint32_t)(p->delta[l] - p->min)) / 32;
    /* Lanes that are off have the sector of one that is on. */
    p->phase = (uint8_t)phase;
    p->sectors = (uint8_t)__builtin_popcount(~compare_lanes(sector, LANES).seen);
    return p->sectors;
}

static Space space_of(uint64_t address, uint64_t *offset)
{
    static const struct {
        uint64_t window;
        Space space;
    } windows[] = {
        {SHARED_WINDOW, SPACE_SHARED}, {LOCAL_WINDOW, SPACE_LOCAL}, {PARAM_WINDOW, SPACE_PARAM}};
    for (size_t k = 0; k < sizeof windows / sizeof *windows; k++) {
        if (address - windows[k].window < WINDOW_SIZE) {
            *offset = address - windows[k].window;
            return windows[k].space;
        }
    }
    *offset = address;
    return SPACE_GLOBAL;
}

uint32_t request_space(Request *r, uint32_t mask, Space *space)
{
    uint64_t offset;
    *space = space_of(r->at[__builtin_ctz(mask)], &offset);
    uint32_t lanes = 0;
    for (int l = 0; l < LANES; l++) {
        if (mask >> l & 1 && space_of(r->at[l], &offset) == *space) {
            lanes |= 1u << l;
            r->at[l] = offset;
        }
    }
    return lanes;
}

/* --- one lane
 * -------------------------------------------------------------------------------------- */

static uint8_t *outside(Warp *w, const Inst *i, int lane, const char *what, uint64_t address,
                        uint32_t bytes, uint64_t size)
{
    finding_kernel(FINDING_BOUNDS, w, i, lane, 0,
                   "accesses %u bytes at %s +0x%llx, of which there are %llu bytes", bytes, what,
                   (unsigned long long)address, (unsigned long long)size);
    grid_fail(w, 700);
    return NULL;
}

static bool fits(uint64_t address, uint32_t bytes, uint64_t size)
{
    return address <= size && bytes <= size - address;
}

static uint8_t *lane_shared(Warp *w, const Inst *i, int lane, uint64_t address, uint32_t bytes,
                            LaneTouch touch, const uint8_t *value)
{
    if (!fits(address, bytes, w->block->shared_bytes))
        return outside(w, i, lane, "shared memory", address, bytes, w->block->shared_bytes);
    uint32_t offset = (uint32_t)address;
    if (touch == LANE_READ)
        shared_touch_read(w, i, lane, offset, bytes);
    else if (touch == LANE_WRITE)
        shared_touch_write(w, i, lane, offset, bytes, value);
    else
        shared_touch_atomic(w, i, lane, offset, bytes);
    return w->block->shared + offset;
}

static uint8_t *lane_local(Warp *w, const Inst *i, int lane, uint64_t address, uint32_t bytes,
                           LaneTouch touch)
{
    if (!fits(address, bytes, w->local_bytes))
        return outside(w, i, lane, "local memory", address, bytes, w->local_bytes);
    uint8_t *at = w->local + (size_t)lane * w->local_bytes + address;
    uint8_t *shadow = at + (size_t)w->local_bytes * LANES;
    if (touch != LANE_WRITE && memchr(shadow, 0, bytes) && w->block->worker->run->uninit)
        finding_kernel(FINDING_UNINIT, w, i, lane, 0,
                       "reads local memory +0x%llx that nothing has written",
                       (unsigned long long)address);
    memset(shadow, 1, bytes);
    return at;
}

/** Order, races between blocks, what is written: of an access that is right otherwise. */
static void lane_note(Warp *w, const Inst *i, int lane, Alloc *a, uint64_t address, uint32_t bytes,
                      LaneTouch touch, const uint8_t *value)
{
    const Run *r = w->block->worker->run;
    uint64_t offset = address - a->base;
    bool strong = i->sub[1] == ACCESS_STRONG && (i->count == COUNT_LOAD || i->count == COUNT_STORE);
    bool atomic = touch == LANE_ATOMIC || strong;
    if (r->order && atomic)
        order_atomic(a, offset, bytes, w->block->grid->op, w, i, lane);
    else if (r->order)
        order_access(a, offset, bytes, touch == LANE_WRITE, w->block->grid->op, w, i, lane);
    if (r->blocks) {
        bool writes = touch != LANE_READ;
        if (atomic)
            blocks_meet(w->block, address, writes, i->sub[2]);
        blocks_touch(w, i, lane, a, offset, bytes,
                     atomic ? (writes ? BLOCKS_ATOMIC : BLOCKS_STRONG_READ)
                            : (writes ? BLOCKS_WRITE : BLOCKS_READ),
                     value);
    }
    if (touch == LANE_WRITE)
        memory_mark(a, offset, bytes, true);
}

static uint8_t *lane_global(Warp *w, const Inst *i, int lane, uint64_t address, uint32_t bytes,
                            LaneTouch touch, const uint8_t *value)
{
    uint8_t *at = memory_lane(w, i, lane, address, bytes, touch == LANE_WRITE);
    const Run *r = w->block->worker->run;
    if (at && (r->order || r->blocks || touch == LANE_WRITE)) {
        Alloc *a = memory_find(address);
        if (a)
            lane_note(w, i, lane, a, address, bytes, touch, value);
    }
    return at;
}

uint8_t *lane_atomic(Warp *w, const Inst *i, int lane, Alloc *a, uint64_t address, uint32_t bytes)
{
    uint64_t offset = address - a->base;
    if (memory_written(a, offset, bytes) < bytes)
        return lane_global(w, i, lane, address, bytes, LANE_ATOMIC, NULL);
    lane_note(w, i, lane, a, address, bytes, LANE_ATOMIC, NULL);
    return a->data + offset;
}

uint8_t *lane_memory(Warp *w, const Inst *i, int lane, Space space, uint64_t address,
                     uint32_t bytes, LaneTouch touch, const uint8_t *value)
{
    if (space == SPACE_GLOBAL || space == SPACE_CONST)
        return lane_global(w, i, lane, address, bytes, touch, value);
    if (address % bytes) {
        finding_kernel(FINDING_MISALIGNED, w, i, lane, 0,
                       "accesses %u bytes at +0x%llx, which is not aligned to %u", bytes,
                       (unsigned long long)address, bytes);
        grid_fail(w, 716);
        return NULL;
    }
    if (space == SPACE_SHARED)
        return lane_shared(w, i, lane, address, bytes, touch, value);
    if (space == SPACE_LOCAL)
        return lane_local(w, i, lane, address, bytes, touch);
    const Function *f = w->block->grid->function;
    if (touch != LANE_READ || !fits(address, bytes, f->param_bytes))
        return outside(w, i, lane, "the parameters", address, bytes, f->param_bytes);
    return (uint8_t *)w->block->grid->params + address;
}
