/* op_mem.c: ld, st, prefetch. A request is checked as a whole where its lanes lie
 * in one allocation (or in shared memory) and nothing is wrong; else lane after lane, which finds
 * and says what is wrong. SPDX-License-Identifier: MIT */
#include "tests/vgpu/access.h"
#include "tests/vgpu/lanes.h"
#include "tests/vgpu/memory.h"
#include "tests/vgpu/op.h"
#include "tests/vgpu/order.h"

#define INLINE static inline __attribute__((always_inline))

/* Shape of a load or store. Where it is a constant, the compiler makes straight vector code of it.
 */
typedef struct {
    uint32_t size, n; /* bytes of an element; elements */
    bool is_signed;
} Shape;

/* --- between memory and registers
 * ------------------------------------------------------------------ */

INLINE uint64_t element(const uint8_t *at, Shape s)
{
    uint64_t x = 0;
    if (s.size == 8) {
        memcpy(&x, at, 8);
    } else if (s.size == 4) {
        uint32_t y;
        memcpy(&y, at, 4);
        x = y;
    } else if (s.size == 2) {
        uint16_t y;
        memcpy(&y, at, 2);
        x = s.is_signed ? (uint64_t)(int64_t)(int16_t)y : y;
    } else {
        x = s.is_signed ? (uint64_t)(int64_t)(int8_t)*at : *at;
    }
    return x;
}

/** 16 bytes of each lane to four registers. */
INLINE void load_fours(Warp *w, const Inst *i, uint32_t mask, const uint8_t *from,
                       const int32_t *delta)
{
    uint32_t *d[4];
    for (int k = 0; k < 4; k++)
        d[k] = REG(uint32_t, i->list[k]);
    for (int l = 0; l < LANES; l += 4) {
        V4 rows[4];
        for (int k = 0; k < 4; k++)
            rows[k] = v4_load(from + delta[l + k]);
        v4_transpose(rows);
        for (int k = 0; k < 4; k++) {
            if (mask == ALL_LANES)
                v4_store(d[k] + l, rows[k]);
            else
                for (int n = 0; n < 4; n++)
                    d[k][l + n] = IS_ON(mask, l + n) ? rows[k][n] : d[k][l + n];
        }
    }
}

/** Element k of each lane from from + delta[l]. */
INLINE void load_lanes(Warp *w, const Inst *i, uint32_t mask, const uint8_t *from,
                       const int32_t *delta, Shape s)
{
    if (s.size == 4 && s.n == 4) {
        load_fours(w, i, mask, from, delta);
        return;
    }
    for (uint32_t k = 0; k < s.n; k++) {
        if (s.size == 4) {
            uint32_t *d = REG(uint32_t, i->list[k]);
            for (int half = 0; half < LANES; half += 16) {
                V16 x = v16_gather_bytes(from + 4 * k, v16_load(delta + half));
                if (mask == ALL_LANES)
                    v16_store(d + half, x);
                else
                    for (int l = half; l < half + 16; l++)
                        d[l] = IS_ON(mask, l) ? x[l - half] : d[l];
            }
        } else if (s.size == 8) {
            uint64_t *d = REG(uint64_t, i->list[k]), x[LANES];
            EACH_LANE x[l] = element(from + delta[l] + 8 * k, s);
            if (mask == ALL_LANES)
                EACH_LANE d[l] = x[l];
            else
                EACH_LANE d[l] = IS_ON(mask, l) ? x[l] : d[l];
        } else {
            uint32_t *d = REG(uint32_t, i->list[k]), x[LANES];
            EACH_LANE x[l] = (uint32_t)element(from + delta[l] + s.size * k, s);
            if (mask == ALL_LANES)
                EACH_LANE d[l] = x[l];
            else
                EACH_LANE d[l] = IS_ON(mask, l) ? x[l] : d[l];
        }
    }
}

/** The lanes' elements stand one after another. */
INLINE void load_row(Warp *w, const Inst *i, const uint8_t *from, Shape s)
{
    for (uint32_t k = 0; k < s.n; k++) {
        if (s.size == 8) {
            uint64_t *d = REG(uint64_t, i->list[k]);
            EACH_LANE d[l] = element(from + (size_t)l * 8 * s.n + 8 * k, s);
        } else {
            uint32_t *d = REG(uint32_t, i->list[k]);
            EACH_LANE d[l] = (uint32_t)element(from + (size_t)l * s.size * s.n + s.size * k, s);
        }
    }
}

/** All lanes read the same. */
INLINE void load_same(Warp *w, const Inst *i, uint32_t mask, const uint8_t *from, Shape s)
{
    for (uint32_t k = 0; k < s.n; k++) {
        uint64_t x = element(from + s.size * k, s);
        if (s.size == 8) {
            uint64_t *d = REG(uint64_t, i->list[k]);
            EACH_LANE d[l] = IS_ON(mask, l) ? x : d[l];
        } else {
            uint32_t *d = REG(uint32_t, i->list[k]);
            EACH_LANE d[l] = IS_ON(mask, l) ? (uint32_t)x : d[l];
        }
    }
}

INLINE void put(uint8_t *at, uint64_t x, uint32_t size)
{
    if (size == 8) {
        memcpy(at, &x, 8);
    } else if (size == 4) {
        uint32_t y = (uint32_t)x;
        memcpy(at, &y, 4);
    } else if (size == 2) {
        uint16_t y = (uint16_t)x;
        memcpy(at, &y, 2);
    } else {
        *at = (uint8_t)x;
    }
}

INLINE uint64_t source(const Warp *w, const Inst *i, uint32_t k, int l, uint32_t size)
{
    return size == 8 ? REG(const uint64_t, i->list[k])[l] : REG(const uint32_t, i->list[k])[l];
}

INLINE void store_lanes(Warp *w, const Inst *i, uint32_t mask, uint8_t *to, const int32_t *delta,
                        Shape s)
{
    if (mask == ALL_LANES) {
        for (uint32_t k = 0; k < s.n; k++)
            EACH_LANE put(to + delta[l] + s.size * k, source(w, i, k, l, s.size), s.size);
        return;
    }
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        for (uint32_t k = 0; k < s.n; k++)
            put(to + delta[l] + s.size * k, source(w, i, k, l, s.size), s.size);
    }
}

INLINE void store_row(Warp *w, const Inst *i, uint8_t *to, Shape s)
{
    for (uint32_t k = 0; k < s.n; k++)
        EACH_LANE put(to + ((size_t)l * s.n + k) * s.size, source(w, i, k, l, s.size), s.size);
}

/* --- lane after lane
 * ------------------------------------------------------------------------------- */

static void load_slowly(Warp *w, const Inst *i, uint32_t mask, Space space, const uint64_t *at,
                        Shape s)
{
    static const uint8_t nothing[64];
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        const uint8_t *from = lane_memory(w, i, l, space, at[l], s.size * s.n, LANE_READ, NULL);
        if (!from)
            from = nothing;
        for (uint32_t k = 0; k < s.n; k++) {
            uint64_t x = element(from + s.size * k, s);
            if (s.size == 8)
                REG(uint64_t, i->list[k])[l] = x;
            else
                REG(uint32_t, i->list[k])[l] = (uint32_t)x;
        }
    }
}

static void lane_value(Warp *w, const Inst *i, int l, Shape s, uint8_t *value)
{
    for (uint32_t k = 0; k < s.n; k++)
        put(value + s.size * k, source(w, i, k, l, s.size), s.size);
}

static void store_slowly(Warp *w, const Inst *i, uint32_t mask, Space space, const uint64_t *at,
                         Shape s)
{
    uint8_t value[64];
    for (uint32_t rest = mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        lane_value(w, i, l, s, value);
        uint8_t *to = lane_memory(w, i, l, space, at[l], s.size * s.n, LANE_WRITE, value);
        if (to)
            memcpy(to, value, (size_t)s.size * s.n);
    }
}

/* --- device memory
 * --------------------------------------------------------------------------------- */

/** Whether all bytes of a row are written. */
INLINE bool row_written(const uint8_t *shadow, size_t bytes)
{
    uint8_t all = 1;
    for (size_t k = 0; k < bytes; k++)
        all &= shadow[k];
    return all;
}

INLINE bool lanes_written(const uint8_t *shadow, const int32_t *delta, Shape s)
{
    uint32_t bytes = s.size * s.n;
    if (bytes % 4) {
        uint8_t all = 1;
        for (uint32_t k = 0; k < bytes; k++)
            EACH_LANE all &= shadow[delta[l] + (int32_t)k];
        return all;
    }
    V16 all = v16_all(0x01010101);
    for (uint32_t k = 0; k < bytes; k += 4) {
        all &= v16_gather_bytes(shadow + k, v16_load(delta));
        all &= v16_gather_bytes(shadow + k, v16_load(delta + 16));
    }
    return !v16_test(all ^ 0x01010101);
}

/** Whether each of these words is known to be read (written) by `op` already. */
static bool row_known(const Alloc *a, uint64_t word, uint64_t n, bool write, uint32_t op)
{
    const OrderMap *m = __atomic_load_n((void *const *)&a->order, __ATOMIC_ACQUIRE);
    uint32_t want = op << ORDER_SHIFT | ORDER_BYTES, differs = 0;
    if (!m)
        return false;
    const OrderWord *at = m->words + word;
    if (write) {
        for (uint64_t k = 0; k < n; k++)
            differs |= at[k].writer ^ want;
    } else {
        for (uint64_t k = 0; k < n; k++)
            differs |= at[k].reader ^ want;
    }
    return !differs;
}

/** The same for words of lanes at offset + delta[l]; of allocations that 32 bits can count. */
static bool lanes_known(const Alloc *a, uint64_t offset, const Pattern *p, bool write, uint32_t op)
{
    const OrderMap *m = __atomic_load_n((void *const *)&a->order, __ATOMIC_ACQUIRE);
    if (!m || a->end - a->base > 1u << 31)
        return false;
    V16 differs = {0};
    for (uint32_t k = 0; k < p->bytes / 4u; k++) {
        for (int half = 0; half < LANES; half += 16) {
            V16 word = (v16_load(p->delta + half) + (uint32_t)offset) / 4 + k;
            V16 tag = v16_gather(&m->words[0].writer, 2 * word + !write);
            differs |= tag ^ (op << ORDER_SHIFT | ORDER_BYTES);
        }
    }
    return !v16_test(differs);
}

static void tell_order(Warp *w, const Inst *i, Alloc *a, uint64_t offset, const Pattern *p,
                       bool write)
{
    uint32_t op = w->block->grid->op;
    if (p->layout == LANES_CONTIGUOUS) {
        uint64_t bytes = (uint64_t)p->bytes * LANES;
        if (offset % 4 || !row_known(a, offset / 4, bytes / 4, write, op))
            order_access(a, offset, bytes, write, op, w, i, 0);
        return;
    }
    bool whole = p->bytes % 4 == 0;
    if (whole && lanes_known(a, offset, p, write, op))
        return;
    for (uint32_t rest = whole ? p->fresh : p->mask; rest; rest &= rest - 1) {
        int l = __builtin_ctz(rest);
        uint64_t at = offset + (uint64_t)(int64_t)p->delta[l];
        bool known = whole;
        for (uint64_t k = at / 4; known && k < (at + p->bytes) / 4; k++)
            known = order_known(a, k, write, op);
        if (!known)
            order_access(a, at, p->bytes, write, op, w, i, l);
        if (p->layout == LANES_SAME)
            return;
    }
}

/** Between blocks: notes the request, or says that it wants a closer look. */
static bool tell_blocks(Warp *w, Alloc *a, uint64_t offset, const Pattern *p, bool write)
{
    uint32_t bytes = p->bytes;
    if (p->layout == LANES_CONTIGUOUS && !(offset % 4))
        return blocks_row(w->block, a, offset / 4, (uint64_t)bytes * LANES / 4, write);
    if (bytes % 4)
        return false;
    if (p->layout == LANES_SAME)
        return blocks_row(w->block, a, offset / 4, bytes / 4, write);
    uint32_t word[LANES];
    if (a->end - a->base > (uint64_t)UINT32_MAX)
        return false;
    EACH_LANE word[l] = (uint32_t)(offset + (uint64_t)(int64_t)p->delta[l]) / 4;
    return blocks_words(w->block, a, word, (int)bytes / 4, write);
}

INLINE void load_global(Warp *w, const Inst *i, uint32_t mask, const Request *r, Shape s)
{
    const Run *run = w->block->worker->run;
    Counters *c = w->block->counters;
    c->load_requests++;
    c->load_sectors += request_sectors(r);
    c->load_bytes += (uint32_t)__builtin_popcount(mask) * s.size * s.n;
    Alloc *a = request_alloc(r, w, i);
    if (!a || i->sub[1] == ACCESS_STRONG) {
        load_slowly(w, i, mask, SPACE_GLOBAL, r->at, s);
        return;
    }
    const Pattern *p = r->p;
    uint64_t offset = r->base - a->base;
    const uint8_t *from = a->data + offset, *shadow = a->shadow ? a->shadow + offset : NULL;
    bool good = true;
    if (shadow)
        good = p->layout == LANES_CONTIGUOUS ? row_written(shadow, (size_t)s.size * s.n * LANES)
               : p->layout == LANES_SAME     ? row_written(shadow, (size_t)s.size * s.n)
                                             : lanes_written(shadow, p->delta, s);
    if (good && run->blocks && a->words)
        good = tell_blocks(w, a, offset, p, false);
    if (!good) {
        load_slowly(w, i, mask, SPACE_GLOBAL, r->at, s);
        return;
    }
    if (run->order)
        tell_order(w, i, a, offset, p, false);
    if (p->layout == LANES_CONTIGUOUS)
        load_row(w, i, from, s);
    else if (p->layout == LANES_SAME)
        load_same(w, i, mask, from, s);
    else
        load_lanes(w, i, mask, from, p->delta, s);
}

INLINE void store_global(Warp *w, const Inst *i, uint32_t mask, const Request *r, Shape s)
{
    const Run *run = w->block->worker->run;
    Counters *c = w->block->counters;
    c->store_requests++;
    c->store_sectors += request_sectors(r);
    c->store_bytes += (uint32_t)__builtin_popcount(mask) * s.size * s.n;
    Alloc *a = request_alloc(r, w, i);
    if (!a || i->sub[1] == ACCESS_STRONG ||
        (run->blocks && a->words && !tell_blocks(w, a, r->base - a->base, r->p, true))) {
        store_slowly(w, i, mask, SPACE_GLOBAL, r->at, s);
        return;
    }
    const Pattern *p = r->p;
    uint64_t offset = r->base - a->base;
    uint8_t *to = a->data + offset, *shadow = a->shadow ? a->shadow + offset : NULL;
    if (run->order)
        tell_order(w, i, a, offset, p, true);
    if (p->layout == LANES_CONTIGUOUS) {
        if (shadow)
            memset(shadow, 1, (size_t)s.size * s.n * LANES);
        store_row(w, i, to, s);
        return;
    }
    if (shadow) {
        EACH_LANE memset(shadow + p->delta[l], 1, (size_t)s.size * s.n);
    }
    store_lanes(w, i, mask, to, p->delta, s);
}

/* --- shared memory
 * ---------------------------------------------------------------------------------- */

/** Whether all lanes are inside and aligned; counts the request. */
INLINE bool shared_fits(Warp *w, const Request *r)
{
    Counters *c = w->block->counters;
    c->shared_requests++;
    if (!r->p)
        return false;
    c->shared_conflicts += r->p->passes;
    uint64_t low = r->base + (uint64_t)(int64_t)r->p->min;
    uint64_t high = r->base + (uint64_t)(int64_t)r->p->max + r->p->bytes;
    return low <= high && high <= w->block->shared_bytes && request_aligned(r);
}

INLINE void load_shared(Warp *w, const Inst *i, uint32_t mask, const Request *r, Shape s)
{
    if (!shared_fits(w, r)) {
        load_slowly(w, i, mask, SPACE_SHARED, r->at, s);
        return;
    }
    const Pattern *p = r->p;
    const uint8_t *from = w->block->shared + r->base;
    uint32_t slow = mask;
    if (s.size * s.n % 4 == 0) {
        uint32_t word[LANES];
        EACH_LANE word[l] = (uint32_t)r->at[l] / 4;
        slow = shared_read(w, p, word, (int)(s.size * s.n / 4));
    }
    for (; slow; slow &= slow - 1) {
        int l = __builtin_ctz(slow);
        shared_touch_read(w, i, l, (uint32_t)r->at[l], s.size * s.n);
    }
    if (p->layout == LANES_CONTIGUOUS)
        load_row(w, i, from, s);
    else if (p->layout == LANES_SAME)
        load_same(w, i, mask, from, s);
    else
        load_lanes(w, i, mask, from, p->delta, s);
}

INLINE void store_shared(Warp *w, const Inst *i, uint32_t mask, const Request *r, Shape s)
{
    if (!shared_fits(w, r)) {
        store_slowly(w, i, mask, SPACE_SHARED, r->at, s);
        return;
    }
    const Pattern *p = r->p;
    uint8_t *to = w->block->shared + r->base;
    uint32_t slow = mask;
    if (s.size * s.n % 4 == 0) {
        uint32_t word[LANES];
        EACH_LANE word[l] = (uint32_t)r->at[l] / 4;
        slow = shared_write(w, p, word, (int)(s.size * s.n / 4));
    }
    if (slow) {
        /* Lanes in order, since a lane compares with what those before it have written. */
        store_slowly(w, i, slow, SPACE_SHARED, r->at, s);
        mask &= ~slow;
        if (mask)
            store_lanes(w, i, mask, to, p->delta, s);
        return;
    }
    if (p->layout == LANES_CONTIGUOUS)
        store_row(w, i, to, s);
    else
        store_lanes(w, i, mask, to, p->delta, s);
}

/* --- the other spaces
 * -------------------------------------------------------------------------------- */

/** Parameters, read by all lanes at one address nearly always. */
static void load_param(Warp *w, const Inst *i, uint32_t mask, const Request *r, Shape s)
{
    const Grid *g = w->block->grid;
    uint32_t bytes = s.size * s.n;
    bool fits = r->p && r->p->layout == LANES_SAME && request_aligned(r) &&
                r->base + bytes <= g->function->param_bytes;
    if (fits)
        load_same(w, i, mask, g->params + r->base, s);
    else
        load_slowly(w, i, mask, SPACE_PARAM, r->at, s);
}

/** Where the lanes' accesses lie in the local memory of the warp, from the first lane's address in
 * lane 0 on. False: not all are inside and aligned. */
static bool local_fits(const Warp *w, const Request *r, int32_t *delta)
{
    const Pattern *p = r->p;
    if (!p || !request_aligned(r) || w->local_bytes > 1u << 20)
        return false;
    uint64_t low = r->base + (uint64_t)(int64_t)p->min;
    uint64_t high = r->base + (uint64_t)(int64_t)p->max + p->bytes;
    if (low > high || high > w->local_bytes)
        return false;
    for (int l = 0; l < LANES; l++) {
        int32_t lane = p->mask >> l & 1 ? l : p->first;
        delta[l] = lane * (int32_t)w->local_bytes + p->delta[l];
    }
    return true;
}

static void load_local(Warp *w, const Inst *i, uint32_t mask, const Request *r, Shape s)
{
    int32_t delta[LANES];
    if (local_fits(w, r, delta)) {
        const uint8_t *from = w->local + r->base;
        const uint8_t *shadow = from + (size_t)w->local_bytes * LANES;
        if (!w->block->worker->run->uninit || lanes_written(shadow, delta, s)) {
            load_lanes(w, i, mask, from, delta, s);
            return;
        }
    }
    load_slowly(w, i, mask, SPACE_LOCAL, r->at, s);
}

static void store_local(Warp *w, const Inst *i, uint32_t mask, const Request *r, Shape s)
{
    int32_t delta[LANES];
    if (!local_fits(w, r, delta)) {
        store_slowly(w, i, mask, SPACE_LOCAL, r->at, s);
        return;
    }
    uint8_t *to = w->local + r->base, *shadow = to + (size_t)w->local_bytes * LANES;
    EACH_LANE memset(shadow + delta[l], 1, (size_t)s.size * s.n);
    store_lanes(w, i, mask, to, delta, s);
}

static void load_space(Warp *w, const Inst *i, uint32_t mask, Request *r, Space space, Shape s)
{
    if (space == SPACE_SHARED)
        load_shared(w, i, mask, r, s);
    else if (space == SPACE_GLOBAL)
        load_global(w, i, mask, r, s);
    else if (space == SPACE_PARAM)
        load_param(w, i, mask, r, s);
    else if (space == SPACE_LOCAL)
        load_local(w, i, mask, r, s);
    else
        load_slowly(w, i, mask, space, r->at, s);
}

static void store_space(Warp *w, const Inst *i, uint32_t mask, Request *r, Space space, Shape s)
{
    if (space == SPACE_SHARED)
        store_shared(w, i, mask, r, s);
    else if (space == SPACE_GLOBAL)
        store_global(w, i, mask, r, s);
    else if (space == SPACE_LOCAL)
        store_local(w, i, mask, r, s);
    else
        store_slowly(w, i, mask, space, r->at, s);
}

static Shape shape_of(const Inst *i)
{
    return (Shape){i->size, i->nlist, i->sub[0]};
}

/** Generic addresses: the lanes of each space by themselves. */
static void each_space(Warp *w, const Inst *i, uint32_t mask,
                       void (*with)(Warp *, const Inst *, uint32_t, Request *, Space, Shape))
{
    Shape s = shape_of(i);
    Request r;
    request_make(&r, w, i, mask, s.size * s.n);
    while (mask) {
        Space space;
        Request part = r;
        uint32_t lanes = request_space(&part, mask, &space);
        request_layout(&part, w, i, lanes, s.size * s.n);
        with(w, i, lanes, &part, space, s);
        mask &= ~lanes;
    }
}

/* --- instructions
 * ------------------------------------------------------------------------------------ */

static void exec_load(Warp *w, const Inst *i, uint32_t mask)
{
    if (i->space == SPACE_GENERIC) {
        each_space(w, i, mask, load_space);
        return;
    }
    Request r;
    request_make(&r, w, i, mask, (uint32_t)i->size * i->nlist);
    load_space(w, i, mask, &r, i->space == SPACE_CONST ? SPACE_GLOBAL : (Space)i->space,
               shape_of(i));
}

/** ld.param of one place, as nearly all are: no need to look at the lanes' distances. */
static void exec_load_param(Warp *w, const Inst *i, uint32_t mask)
{
    const Grid *g = w->block->grid;
    uint64_t at, differs = 0;
    if (i->wide & 2) {
        const uint64_t *a = REG(const uint64_t, i->a);
        at = a[0] + (uint64_t)i->imm;
        EACH_LANE differs |= a[l] ^ a[0];
    } else {
        const uint32_t *a = REG(const uint32_t, i->a);
        at = a[0] + (uint64_t)i->imm;
        EACH_LANE differs |= a[l] ^ a[0];
    }
    Shape s = shape_of(i);
    uint32_t bytes = s.size * s.n;
    if (differs || at % bytes || at > g->function->param_bytes ||
        bytes > g->function->param_bytes - at)
        exec_load(w, i, mask);
    else
        load_same(w, i, mask, g->params + at, s);
}

static void exec_store(Warp *w, const Inst *i, uint32_t mask)
{
    if (i->space == SPACE_GENERIC) {
        each_space(w, i, mask, store_space);
        return;
    }
    Request r;
    request_make(&r, w, i, mask, (uint32_t)i->size * i->nlist);
    store_space(w, i, mask, &r, (Space)i->space, shape_of(i));
}

/* The usual shapes of the spaces that matter, each with code of its own. */
#define MEMORY(name, does, bytes, count)                                                           \
    static void name(Warp *w, const Inst *i, uint32_t mask)                                        \
    {                                                                                              \
        Request r;                                                                                 \
        request_make(&r, w, i, mask, bytes *count);                                                \
        does(w, i, mask, &r, (Shape){bytes, count, false});                                        \
    }
#define MEMORIES(space)                                                                            \
    MEMORY(load_##space##_4, load_##space, 4, 1)                                                   \
    MEMORY(load_##space##_4x2, load_##space, 4, 2)                                                 \
    MEMORY(load_##space##_4x4, load_##space, 4, 4)                                                 \
    MEMORY(load_##space##_8, load_##space, 8, 1)                                                   \
    MEMORY(load_##space##_2, load_##space, 2, 1)                                                   \
    MEMORY(store_##space##_4, store_##space, 4, 1)                                                 \
    MEMORY(store_##space##_4x2, store_##space, 4, 2)                                               \
    MEMORY(store_##space##_4x4, store_##space, 4, 4)                                               \
    MEMORY(store_##space##_8, store_##space, 8, 1)                                                 \
    MEMORY(store_##space##_2, store_##space, 2, 1)

MEMORIES(global)
MEMORIES(shared)

static Exec *exec_of(bool load, Space space, uint32_t size, uint32_t n, bool is_signed)
{
    static const struct {
        uint32_t size, n;
        Exec *load[2], *store[2];
    } table[] = {{4, 1, {load_global_4, load_shared_4}, {store_global_4, store_shared_4}},
                 {4, 2, {load_global_4x2, load_shared_4x2}, {store_global_4x2, store_shared_4x2}},
                 {4, 4, {load_global_4x4, load_shared_4x4}, {store_global_4x4, store_shared_4x4}},
                 {8, 1, {load_global_8, load_shared_8}, {store_global_8, store_shared_8}},
                 {2, 1, {load_global_2, load_shared_2}, {store_global_2, store_shared_2}}};
    bool shared = space == SPACE_SHARED;
    if (load && space == SPACE_PARAM)
        return exec_load_param;
    for (size_t k = 0; k < sizeof table / sizeof *table; k++) {
        bool fits = table[k].size == size && table[k].n == n && (size > 2 || !is_signed);
        if (fits && (shared || space == SPACE_GLOBAL))
            return load ? table[k].load[shared] : table[k].store[shared];
    }
    return load ? exec_load : exec_store;
}

/* --- opcodes
 * ------------------------------------------------------------------------------------------ */

static bool is_one_of(const char *part, const char *const *texts)
{
    for (; *texts; texts++) {
        if (!strcmp(part, *texts))
            return true;
    }
    return false;
}

/** Bytes of .u8 to .b64; 0: no type. */
static uint32_t type_bytes(const char *part, bool *is_signed)
{
    if (!strchr("busf", part[0]) || !part[0])
        return 0;
    const char *bits = part + 1;
    *is_signed = part[0] == 's';
    return !strcmp(bits, "8")    ? 1
           : !strcmp(bits, "16") ? 2
           : !strcmp(bits, "32") ? 4
           : !strcmp(bits, "64") ? 8
                                 : 0;
}

/** What a load or store says between its name and its type. False: something else. */
static bool load_store(const Opcode *o, Rule *out)
{
    static const char *const strong[] = {"volatile", "relaxed", "acquire", "release", "mmio", NULL};
    static const char *const hints[] = {"weak", "sys", "gpu", "cta", "cluster", "ca", "cg",
                                        "cs",   "lu",  "cv",  "wb",  "wt",      "nc", NULL};
    bool load = !strcmp(o->part[0], "ld"), is_signed = false;
    Space space = SPACE_GENERIC;
    uint32_t n = 1, size = type_bytes(o->part[o->n - 1], &is_signed);
    for (int k = 1; k < o->n - 1; k++) {
        const char *part = o->part[k];
        if (is_one_of(part, strong))
            out->sub[1] = ACCESS_STRONG;
        else if (!strcmp(part, "v2") || !strcmp(part, "v4") || !strcmp(part, "v8"))
            n = (uint32_t)(part[1] - '0');
        else if (!space_part(part, &space) && !is_one_of(part, hints) && strncmp(part, "L1::", 4) &&
                 strncmp(part, "L2::", 4))
            return false;
        if (!strcmp(part, "release"))
            out->sub[2] = true;
        if (!strcmp(part, "L2::cache_hint"))
            return false;
    }
    if (!size || size * n > 32 || (!load && (space == SPACE_PARAM || space == SPACE_CONST)))
        return false;
    out->sub[0] = is_signed && size < 4;
    out->space = (uint8_t)space;
    out->size = (uint8_t)size;
    out->exec = exec_of(load, space, size, n, is_signed);
    out->count = load ? COUNT_LOAD : COUNT_STORE;
    uint8_t list = size == 8 ? TAKES_LIST64 : TAKES_LIST32;
    out->takes[0] = load ? list : TAKES_ADDRESS;
    out->takes[1] = load ? TAKES_ADDRESS : list;
    out->no_dest = !load;
    return true;
}

bool rule_mem(const Opcode *o, Rule *out)
{
    const char *name = o->part[0];
    if (!strcmp(name, "ld") || !strcmp(name, "st"))
        return o->n > 1 && load_store(o, out);
    if (!strcmp(name, "ldu") && o->n > 1) {
        Opcode plain = *o;
        strcpy(plain.part[0], "ld");
        return load_store(&plain, out);
    }
    if (!strcmp(name, "prefetch") || !strcmp(name, "prefetchu")) {
        out->exec = exec_nop;
        out->count = COUNT_LOAD;
        out->no_dest = true;
        out->takes[0] = TAKES_ADDRESS;
        return true;
    }
    return rule_space(o, out);
}
