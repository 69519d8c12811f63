/* order.c: finds accesses of operations that no event, stream or wait puts in an order.
 *
 * It needs no luck: whatever order the operations run in, the second one of an unordered pair sees
 * that its clock does not cover the first. Readers that are unordered among each other are kept as
 * a set, so that a later write is compared with all of them. SPDX-License-Identifier: MIT */
#include "tests/vgpu/order.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* --- clocks ---------------------------------------------------------------------------------- */

static void *must(void *p)
{
    if (!p) {
        fprintf(stderr, "vgpu: out of host memory\n");
        abort();
    }
    return p;
}

static void clock_grow(Clock *c, uint32_t n)
{
    if (c->n >= n)
        return;
    c->at = must(realloc(c->at, n * sizeof *c->at));
    memset(c->at + c->n, 0, (n - c->n) * sizeof *c->at);
    c->n = n;
}

void clock_join(Clock *to, const Clock *from)
{
    clock_grow(to, from->n);
    for (uint32_t k = 0; k < from->n; k++)
        if (from->at[k] > to->at[k])
            to->at[k] = from->at[k];
}

void clock_copy(Clock *to, const Clock *from)
{
    if (to->n)
        memset(to->at, 0, to->n * sizeof *to->at);
    clock_join(to, from);
}

void clock_set(Clock *c, uint32_t component, uint32_t number)
{
    clock_grow(c, component + 1);
    c->at[component] = number;
}

uint32_t clock_get(const Clock *c, uint32_t component)
{
    return component < c->n ? c->at[component] : 0;
}

void clock_free(Clock *c)
{
    free(c->at);
    *c = (Clock){0};
}

/* --- components ------------------------------------------------------------------------------ */

static struct {
    pthread_mutex_t lock;
    uint32_t *last; /* of each component: its last number */
    bool *unused;
    uint32_t n;
} components = {.lock = PTHREAD_MUTEX_INITIALIZER};

uint32_t order_component_new(const Clock *now, uint32_t *number)
{
    pthread_mutex_lock(&components.lock);
    uint32_t k = 0;
    while (k < components.n && !(components.unused[k] && clock_get(now, k) >= components.last[k]))
        k++;
    if (k == components.n) {
        uint32_t n = components.n + 16;
        components.last = must(realloc(components.last, n * sizeof *components.last));
        components.unused = must(realloc(components.unused, n * sizeof *components.unused));
        for (uint32_t j = components.n; j < n; j++) {
            components.last[j] = 0;
            components.unused[j] = true;
        }
        components.n = n;
    }
    components.unused[k] = false;
    *number = components.last[k];
    pthread_mutex_unlock(&components.lock);
    return k;
}

void order_component_free(uint32_t component, uint32_t number)
{
    pthread_mutex_lock(&components.lock);
    components.last[component] = number;
    components.unused[component] = true;
    pthread_mutex_unlock(&components.lock);
}

/* --- operations ------------------------------------------------------------------------------ */

typedef struct {
    const char *name;
    uint64_t stream, ran;
    uint32_t component, number;
} OpInfo;

enum { CHUNK = 4096, CHUNKS = (1 << (32 - ORDER_SHIFT)) / CHUNK };

/* In chunks that never move: workers read without a lock. Only one operation runs at a time. */
static struct {
    OpInfo *chunks[CHUNKS];
    uint32_t n;
    uint32_t current;
    const Clock *clock;
    uint64_t ran;
} ops; /* numbers begin with 1 */

static OpInfo *op_info(uint32_t op)
{
    return &ops.chunks[op / CHUNK][op % CHUNK];
}

uint32_t order_op_new(uint32_t component, uint32_t number, uint64_t stream, const char *name)
{
    uint32_t op = ++ops.n;
    if (op / CHUNK >= CHUNKS) {
        fprintf(stderr, "vgpu: more than %u operations in one process\n", op);
        abort();
    }
    if (!ops.chunks[op / CHUNK])
        ops.chunks[op / CHUNK] = must(calloc(CHUNK, sizeof(OpInfo)));
    *op_info(op) =
        (OpInfo){.name = name, .stream = stream, .component = component, .number = number};
    return op;
}

void order_op_run(uint32_t op, const Clock *clock)
{
    ops.current = op;
    ops.clock = clock;
    if (op)
        op_info(op)->ran = ++ops.ran;
}

uint64_t order_op_ran(uint32_t op)
{
    return op ? op_info(op)->ran : 0;
}

uint64_t order_ops_ran(void)
{
    return ops.ran;
}

const char *order_op_name(uint32_t op)
{
    static _Thread_local char text[4][200];
    static _Thread_local unsigned turn;
    char *to = text[turn++ % 4];
    if (!op)
        return "the host";
    const OpInfo *o = op_info(op);
    if (o->stream)
        snprintf(to, sizeof text[0], "%s (stream %llu, operation %u)", o->name,
                 (unsigned long long)o->stream, op);
    else
        snprintf(to, sizeof text[0], "%s (default stream, operation %u)", o->name, op);
    return to;
}

/** Whether `op` comes before the one that runs. The last answer "yes" is remembered by thread. */
static bool comes_before(uint32_t op)
{
    static _Thread_local uint32_t yes, yes_for;
    if (op == ops.current || (op == yes && ops.current == yes_for))
        return true;
    const OpInfo *o = op_info(op);
    if (clock_get(ops.clock, o->component) < o->number)
        return false;
    yes = op;
    yes_for = ops.current;
    return true;
}

/* --- sets of readers ------------------------------------------------------------------------- */

typedef struct {
    uint32_t n, op[];
} Readers;

enum { SETS = 1 << 20 };

static struct {
    pthread_mutex_t lock;
    Readers *set[SETS]; /* numbers begin with 1 */
    uint32_t n;
    uint32_t buckets[4 * SETS]; /* open hash from contents to number */
} sets = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint32_t hash_of(const uint32_t *at, uint32_t n)
{
    uint32_t h = 2166136261u;
    for (uint32_t k = 0; k < n; k++)
        h = (h ^ at[k]) * 16777619u;
    return h ^ h >> 15;
}

/** The number of the set with these operations, 0 when there are too many sets. */
static uint32_t set_intern(const uint32_t *op, uint32_t n)
{
    uint32_t h = hash_of(op, n) % (4 * SETS), found = 0;
    pthread_mutex_lock(&sets.lock);
    for (; sets.buckets[h] && !found; h = (h + 1) % (4 * SETS)) {
        const Readers *s = sets.set[sets.buckets[h]];
        if (s->n == n && !memcmp(s->op, op, n * sizeof *op))
            found = sets.buckets[h];
    }
    if (!found && sets.n + 1 < SETS) {
        Readers *s = must(malloc(sizeof *s + n * sizeof *op));
        s->n = n;
        memcpy(s->op, op, n * sizeof *op);
        found = ++sets.n;
        sets.set[found] = s;
        sets.buckets[h] = found;
    }
    pthread_mutex_unlock(&sets.lock);
    return found;
}

/** Adds the operation that runs to the readers `old`; those that come before it are dropped: who
 * comes after it comes after them. The result has no bytes. */
static uint32_t readers_with(uint32_t old, uint32_t op)
{
    static _Thread_local uint32_t last_old, last_op, last_result;
    old &= ~(uint32_t)ORDER_BYTES;
    if (old == last_old && op == last_op)
        return last_result;
    enum { MOST = 64 };
    uint32_t keep[MOST + 1], n = 0, one = old >> ORDER_SHIFT;
    const Readers *s = old & ORDER_FLAG ? sets.set[one] : NULL;
    for (uint32_t k = 0; k < (s ? s->n : 1) && n < MOST; k++) {
        uint32_t x = s ? s->op[k] : one;
        if (x != op && !comes_before(x))
            keep[n++] = x;
    }
    keep[n++] = op;
    uint32_t set = n > 1 ? set_intern(keep, n) : 0;
    last_old = old;
    last_op = op;
    last_result = set ? set << ORDER_SHIFT | ORDER_FLAG : op << ORDER_SHIFT;
    return last_result;
}

/* --- findings -------------------------------------------------------------------------------- */

typedef enum { READ, WRITE, ATOMIC, FREE } Access;

typedef struct {
    Alloc *alloc;
    uint64_t offset; /* of the word */
    uint32_t op, bytes;
    Access access;
    Warp *warp;
    const Inst *inst;
    int lane;
} Touch;

/* One finding for each pair of operations of the same names, streams and kinds of access. */
static bool is_new_pair(uint32_t a, uint32_t b, unsigned kinds)
{
    static struct {
        pthread_mutex_t lock;
        struct Pair {
            const char *a, *b;
            uint64_t stream_a, stream_b;
            unsigned kinds;
        } pair[256];
        unsigned n;
    } seen = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const OpInfo *x = op_info(a), *y = op_info(b);
    struct Pair p = {x->name, y->name, x->stream, y->stream, kinds};
    bool is_new = true;
    pthread_mutex_lock(&seen.lock);
    for (unsigned k = 0; k < seen.n && is_new; k++)
        is_new = seen.pair[k].kinds != kinds || seen.pair[k].stream_a != p.stream_a ||
                 seen.pair[k].stream_b != p.stream_b || strcmp(seen.pair[k].a, p.a) ||
                 strcmp(seen.pair[k].b, p.b);
    if (is_new && seen.n < sizeof seen.pair / sizeof *seen.pair)
        seen.pair[seen.n++] = p;
    pthread_mutex_unlock(&seen.lock);
    return is_new;
}

static const char *access_name(Access a)
{
    static const char *const names[] = {"read", "write", "atomic access", "free"};
    return names[a];
}

static void report(const Touch *t, uint32_t other, Access before)
{
    if (!is_new_pair(t->op, other, (unsigned)t->access * 4 + before))
        return;
    char text[700];
    const Alloc *a = t->alloc;
    snprintf(text, sizeof text,
             "%s by %s is not ordered after the %s by %s (no event, stream or wait between them): "
             "%s %llu%s%s%s, offset 0x%llx",
             access_name(t->access), order_op_name(t->op),
             other == ((OrderMap *)a->order)->made_by && before == FREE ? "allocation"
                                                                        : access_name(before),
             order_op_name(other), a->device ? "allocation" : "host memory",
             (unsigned long long)a->number, a->name ? " '" : "", a->name ? a->name : "",
             a->name ? "'" : "", (unsigned long long)t->offset);
    if (t->warp)
        finding_kernel(FINDING_ORDER, t->warp, t->inst, t->lane, a->base + t->offset, "%s", text);
    else
        finding(FINDING_ORDER, "%s", text);
}

/* --- words ----------------------------------------------------------------------------------- */

static OrderMap *map_of(Alloc *a)
{
    OrderMap *m = __atomic_load_n(&a->order, __ATOMIC_ACQUIRE);
    if (m)
        return m;
    uint64_t n = (a->end - a->base + 3) / 4;
    void *none = NULL;
    m = must(calloc(1, sizeof *m + n * sizeof *m->words));
    if (__atomic_compare_exchange_n(&a->order, &none, (void *)m, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE))
        return m;
    free(m);
    return none;
}

static void compare_writer(const Touch *t, uint32_t writer)
{
    if (!(writer & t->bytes) || (writer & ORDER_FLAG && t->access == ATOMIC))
        return;
    uint32_t x = writer >> ORDER_SHIFT;
    if (!comes_before(x))
        report(t, x, writer & ORDER_FLAG ? ATOMIC : WRITE);
}

static void compare_readers(const Touch *t, uint32_t reader)
{
    if (!(reader & t->bytes))
        return;
    const Readers *s = reader & ORDER_FLAG ? sets.set[reader >> ORDER_SHIFT] : NULL;
    for (uint32_t k = 0; k < (s ? s->n : 1); k++) {
        uint32_t x = s ? s->op[k] : reader >> ORDER_SHIFT;
        if (!comes_before(x))
            report(t, x, READ);
    }
}

static OrderWord after_write(const Touch *t, OrderWord w)
{
    uint32_t mine = t->op << ORDER_SHIFT | t->bytes | (t->access == ATOMIC ? ORDER_FLAG : 0);
    if (w.writer >> ORDER_SHIFT == t->op) {
        mine |= w.writer & ORDER_BYTES;
        if (!(w.writer & ORDER_FLAG)) /* plain and atomic in one operation: plain */
            mine &= ~(uint32_t)ORDER_FLAG;
    }
    w.writer = mine;
    w.reader &= ~t->bytes;
    if (!(w.reader & ORDER_BYTES))
        w.reader = 0;
    return w;
}

static OrderWord after_read(const Touch *t, OrderWord w)
{
    if (!(w.reader & ORDER_FLAG) && w.reader >> ORDER_SHIFT == t->op)
        w.reader |= t->bytes;
    else if (w.reader & t->bytes)
        w.reader = readers_with(w.reader, t->op) | t->bytes;
    else
        w.reader = t->op << ORDER_SHIFT | t->bytes;
    return w;
}

/** Compares the access with who touched the word before; what the word is after it. */
static OrderWord touch(const Touch *t, const OrderMap *m, OrderWord w)
{
    uint32_t me = t->op << ORDER_SHIFT | t->bytes;
    if (t->access == READ ? w.reader == me
                          : w.writer == (t->access == ATOMIC ? me | ORDER_FLAG : me))
        return w;
    if (w.writer)
        compare_writer(t, w.writer);
    else if (m->made_by && !comes_before(m->made_by))
        report(t, m->made_by, FREE);
    if (t->access == READ)
        return after_read(t, w);
    if (w.reader)
        compare_readers(t, w.reader);
    return t->access == FREE ? w : after_write(t, w);
}

/* The words of a launch are touched by several workers at once. Each stores what follows from what
 * it has read; an update that gets lost loses at most a check. */
static OrderWord load(const OrderWord *at)
{
    return (OrderWord){__atomic_load_n(&at->writer, __ATOMIC_RELAXED),
                       __atomic_load_n(&at->reader, __ATOMIC_RELAXED)};
}

static void store(OrderWord *at, OrderWord old, OrderWord w)
{
    if (w.writer != old.writer)
        __atomic_store_n(&at->writer, w.writer, __ATOMIC_RELAXED);
    if (w.reader != old.reader)
        __atomic_store_n(&at->reader, w.reader, __ATOMIC_RELAXED);
}

/** A word at an end of the range, of which not all bytes are touched. */
static void touch_part(Touch *t, OrderMap *m, uint64_t word, uint64_t offset, uint64_t end)
{
    uint32_t first = word * 4 < offset ? (uint32_t)(offset - word * 4) : 0;
    uint32_t last = word * 4 + 4 > end ? (uint32_t)(end - word * 4) : 4;
    t->offset = word * 4;
    t->bytes = (1u << last) - (1u << first);
    OrderWord old = load(&m->words[word]);
    store(&m->words[word], old, touch(t, m, old));
}

enum { RUN = 32 };

/** Whether RUN words are all the same. */
static bool is_run(const OrderWord *at)
{
    uint32_t differs = 0;
    for (int k = 1; k < RUN; k++)
        differs |= (at[k].writer ^ at[0].writer) | (at[k].reader ^ at[0].reader);
    return !differs;
}

/* What a word becomes depends on what it is alone, and neighbours are mostly alike. */
static void touch_words(Touch *t, OrderMap *m, uint64_t word, uint64_t end)
{
    OrderWord was = {0}, is = {0};
    bool known = false;
    t->bytes = ORDER_BYTES;
    for (; end - word >= RUN && is_run(&m->words[word]); word += RUN) {
        OrderWord w = load(&m->words[word]);
        t->offset = word * 4;
        w = touch(t, m, w);
        for (uint64_t k = word; k < word + RUN; k++)
            m->words[k] = w;
    }
    for (; word < end; word++) {
        OrderWord w = load(&m->words[word]);
        if (!known || w.writer != was.writer || w.reader != was.reader) {
            t->offset = word * 4;
            was = w;
            is = touch(t, m, w);
            known = true;
        }
        store(&m->words[word], w, is);
    }
}

static void touch_all(Touch *t, uint64_t offset, uint64_t bytes)
{
    OrderMap *m = map_of(t->alloc);
    uint64_t end = offset + bytes, word = offset / 4, last = end / 4;
    if (offset % 4)
        touch_part(t, m, word++, offset, end);
    if (word < last)
        touch_words(t, m, word, last);
    if (end % 4 && word <= last)
        touch_part(t, m, last, offset, end);
}

/* The host writes while no operation runs (a module's variables): who waits for the host, waits. */
static void forget(Alloc *a, uint64_t offset, uint64_t bytes)
{
    OrderMap *m = __atomic_load_n(&a->order, __ATOMIC_ACQUIRE);
    if (m && bytes)
        memset(&m->words[offset / 4], 0,
               ((offset + bytes + 3) / 4 - offset / 4) * sizeof *m->words);
}

void order_access(Alloc *a, uint64_t offset, uint64_t bytes, bool write, uint32_t op, Warp *w,
                  const Inst *i, int lane)
{
    if (!options()->order || !bytes)
        return;
    if (op == 0 || op != ops.current) {
        if (write)
            forget(a, offset, bytes);
        return;
    }
    Touch t = {
        .alloc = a, .op = op, .access = write ? WRITE : READ, .warp = w, .inst = i, .lane = lane};
    touch_all(&t, offset, bytes);
}

void order_atomic(Alloc *a, uint64_t offset, uint64_t bytes, uint32_t op, Warp *w, const Inst *i,
                  int lane)
{
    if (!options()->order || !bytes || op == 0 || op != ops.current)
        return;
    Touch t = {.alloc = a, .op = op, .access = ATOMIC, .warp = w, .inst = i, .lane = lane};
    touch_all(&t, offset, bytes);
}

void order_made(Alloc *a, uint32_t op)
{
    if (options()->order)
        map_of(a)->made_by = op;
}

void order_freed(Alloc *a, uint32_t op)
{
    if (!options()->order || !a->order || op != ops.current)
        return;
    Touch t = {.alloc = a, .op = op, .access = FREE};
    touch_all(&t, 0, a->end - a->base);
}

uint32_t order_writer(const Alloc *a, uint64_t offset)
{
    const OrderMap *m = a->order;
    return m ? load(&m->words[offset / 4]).writer >> ORDER_SHIFT : 0;
}
