/* memory.c: device memory. Every device has a range of addresses without rights (a host that
 * dereferences a device pointer crashes, as it should); the bytes lie elsewhere. Allocations stand
 * far apart, and an address is not used a second time before the whole range has been used.
 * SPDX-License-Identifier: MIT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* MAP_FIXED_NOREPLACE */
#endif
#include "tests/vgpu/memory.h"
#include "tests/vgpu/race.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Clear of where AddressSanitizer, the C library and the kernel put things. */
#define RANGE_FIRST 0x200000000000u
#define RANGE_SIZE  0x020000000000u /* of one device: 2 TiB */
#define GAP         (1u << 20)      /* between allocations */

enum { DEVICES_MAX = 16, FREED_KEPT = 4096, ATOM = 64 };

static struct {
    pthread_mutex_t lock;
    Alloc **sorted; /* by base; live and freed */
    size_t n, capacity;
    Alloc *freed[FREED_KEPT]; /* ring: those that make room in `sorted` first */
    uint64_t nfreed, nallocs;
    struct Range {
        uint64_t next; /* 0: not reserved yet */
    } range[DEVICES_MAX];
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

/** Number of allocations whose base is at most `address`. */
static size_t rank(uint64_t address)
{
    size_t low = 0, high = memory.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (memory.sorted[middle]->base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool index_add(Alloc *a)
{
    if (memory.n == memory.capacity) {
        size_t capacity = memory.capacity ? 2 * memory.capacity : 256;
        Alloc **grown = realloc(memory.sorted, capacity * sizeof *grown);
        if (!grown)
            return false;
        memory.sorted = grown;
        memory.capacity = capacity;
    }
    size_t at = rank(a->base);
    memmove(memory.sorted + at + 1, memory.sorted + at, (memory.n - at) * sizeof *memory.sorted);
    memory.sorted[at] = a;
    memory.n++;
    return true;
}

static void index_remove(Alloc *a)
{
    size_t at = rank(a->base);
    while (at > 0 && memory.sorted[at - 1] != a)
        at--;
    if (!at)
        return;
    memmove(memory.sorted + at - 1, memory.sorted + at, (memory.n - at) * sizeof *memory.sorted);
    memory.n--;
}

static bool reserve(Device *d)
{
    struct Range *r = &memory.range[d->ordinal];
    if (r->next)
        return true;
    uint64_t base = RANGE_FIRST + (uint64_t)d->ordinal * RANGE_SIZE;
    void *want = (void *)(uintptr_t)base;
    void *got = mmap(want, RANGE_SIZE, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED)
        return false;
    if (got != want) {
        munmap(got, RANGE_SIZE);
        return false;
    }
    d->base = base;
    r->next = base + GAP;
    return true;
}

/** An address aligned to `align` and to nothing more, so that code which assumes more is found. */
static uint64_t align_exactly(uint64_t address, uint64_t align)
{
    return ((address + 2 * align - 1) & ~(2 * align - 1)) + align;
}

/** Room for `bytes` in the range of `d`: behind the last one, or, when the range has been used up,
 * from its begin on between those that stand there. 0: none. */
static uint64_t place(Device *d, uint64_t bytes, uint64_t align)
{
    struct Range *r = &memory.range[d->ordinal];
    uint64_t end = d->base + RANGE_SIZE, at = align_exactly(r->next, align);
    for (int round = 0; round < 2; round++) {
        while (at + bytes + GAP <= end) {
            size_t next = rank(at + bytes + GAP - 1);
            Alloc *before = next ? memory.sorted[next - 1] : NULL;
            if (!before || before->end + GAP <= at || before->base < d->base) {
                r->next = at + bytes + GAP;
                return at;
            }
            at = align_exactly(before->end + GAP, align);
        }
        at = align_exactly(d->base + GAP, align);
    }
    return 0;
}

static void drop_backing(Alloc *a)
{
    if (a->data && a->device)
        free(a->data - a->base % ATOM);
    free(a->shadow);
    free(a->words);
    free(a->order);
    a->data = a->shadow = NULL;
    a->words = NULL;
    a->order = NULL;
}

/** Backing that is aligned as the device address is, up to 64 bytes. */
static bool make_backing(Alloc *a)
{
    uint64_t bytes = a->end - a->base;
    size_t skew = (size_t)(a->base % ATOM);
    size_t room = ((size_t)bytes + skew + 2 * ATOM - 1) & ~(size_t)(ATOM - 1);
    uint8_t *raw = aligned_alloc(ATOM, room);
    if (!raw)
        return false;
    a->data = raw + skew;
    memset(a->data, 0xff, (size_t)bytes);
    if (options()->uninit)
        a->shadow = calloc(1, (size_t)bytes + ATOM);
    if (options()->blocks)
        a->words = calloc(2 * (size_t)global_words(a) + 1, sizeof *a->words);
    return (a->shadow || !options()->uninit) && (a->words || !options()->blocks);
}

Alloc *memory_alloc(Device *d, uint64_t bytes, uint64_t align)
{
    if (align < 4)
        align = 4; /* checkers count in words */
    Alloc *a = calloc(1, sizeof *a);
    pthread_mutex_lock(&memory.lock);
    bool fits = bytes <= d->bytes && d->used <= d->bytes - bytes;
    if (!a || !fits || d->ordinal >= DEVICES_MAX || !reserve(d) ||
        !(a->base = place(d, bytes, align))) {
        pthread_mutex_unlock(&memory.lock);
        free(a);
        return NULL;
    }
    a->end = a->base + bytes;
    a->device = d;
    a->number = ++memory.nallocs;
    if (!make_backing(a) || !index_add(a)) {
        drop_backing(a);
        free(a);
        a = NULL;
    } else {
        d->used += bytes;
    }
    pthread_mutex_unlock(&memory.lock);
    return a;
}

Alloc *memory_register_host(void *host, uint64_t bytes)
{
    Alloc *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    pthread_mutex_lock(&memory.lock);
    a->base = (uint64_t)(uintptr_t)host;
    a->end = a->base + bytes;
    a->data = host;
    /* A stale entry of memory that was registered here before would hide this one. */
    for (size_t k = rank(a->end); k-- > 0 && memory.sorted[k]->end > a->base;) {
        if (memory.sorted[k]->freed && !memory.sorted[k]->device)
            memory.sorted[k]->end = memory.sorted[k]->base;
    }
    a->number = ++memory.nallocs;
    if (!index_add(a)) {
        free(a);
        a = NULL;
    }
    pthread_mutex_unlock(&memory.lock);
    return a;
}

void memory_free(Alloc *a)
{
    pthread_mutex_lock(&memory.lock);
    if (a->device)
        a->device->used -= a->end - a->base;
    a->freed = true;
    drop_backing(a);
    Alloc **oldest = &memory.freed[memory.nfreed++ % FREED_KEPT];
    if (*oldest) {
        index_remove(*oldest);
        free(*oldest);
    }
    *oldest = a;
    pthread_mutex_unlock(&memory.lock);
}

Alloc *memory_find(uint64_t address)
{
    pthread_mutex_lock(&memory.lock);
    size_t at = rank(address);
    Alloc *a = at ? memory.sorted[at - 1] : NULL;
    pthread_mutex_unlock(&memory.lock);
    return a && address < a->end ? a : NULL;
}

Alloc *memory_near(uint64_t address)
{
    pthread_mutex_lock(&memory.lock);
    size_t at = rank(address);
    Alloc *below = at ? memory.sorted[at - 1] : NULL;
    Alloc *above = at < memory.n ? memory.sorted[at] : NULL;
    pthread_mutex_unlock(&memory.lock);
    if (!below || !above)
        return below ? below : above;
    if (address < below->end)
        return below;
    return address - below->end <= above->base - address ? below : above;
}

bool memory_can_access(const Device *from, const Alloc *a)
{
    return !a->device || a->managed || a->device == from || from->peers[a->device->ordinal];
}

uint64_t memory_used(const Device *d)
{
    return d->used;
}

uint64_t memory_total(const Device *d)
{
    return d->bytes;
}

/** Each allocation that stands now, in order of address. */
void memory_each(void (*visit)(Alloc *a, void *with), void *with)
{
    pthread_mutex_lock(&memory.lock);
    for (size_t k = 0; k < memory.n; k++) {
        if (!memory.sorted[k]->freed)
            visit(memory.sorted[k], with);
    }
    pthread_mutex_unlock(&memory.lock);
}

size_t memory_written(const Alloc *a, uint64_t offset, uint64_t bytes)
{
    const uint8_t *s = a->shadow ? a->shadow + offset : NULL;
    if (!s || !bytes)
        return (size_t)bytes;
    const uint8_t *hole = memchr(s, 0, (size_t)bytes);
    return hole ? (size_t)(hole - s) : (size_t)bytes;
}

void memory_mark(Alloc *a, uint64_t offset, uint64_t bytes, bool written)
{
    if (a->shadow)
        memset(a->shadow + offset, written, (size_t)bytes);
}

uint8_t *memory_access(uint64_t address, uint64_t bytes, bool write, Device *d, uint32_t op,
                       const char *what)
{
    unsigned long long at = address, n = bytes;
    Alloc *a = memory_find(address);
    if (!a || bytes > a->end - address) {
        finding(FINDING_BOUNDS, "%s: %llu bytes at 0x%llx %s", what, n, at,
                a ? "reach beyond the end of the allocation" : "are in no allocation");
        return NULL;
    }
    unsigned long long offset = address - a->base;
    if (a->freed) {
        finding(FINDING_FREED, "%s: 0x%llx is in allocation %llu, which was freed", what, at,
                (unsigned long long)a->number);
        return NULL;
    }
    if (d && !memory_can_access(d, a)) {
        finding(FINDING_BOUNDS, "%s: 0x%llx belongs to device %d, which device %d has no access to",
                what, at, a->device->ordinal, d->ordinal);
        return NULL;
    }
    size_t good = write ? (size_t)bytes : memory_written(a, offset, bytes);
    if (good < bytes) {
        finding(FINDING_UNINIT, "%s: byte %llu of allocation %llu (%llu bytes) was never written",
                what, offset + good, (unsigned long long)a->number,
                (unsigned long long)(a->end - a->base));
        memory_mark(a, offset, bytes, true); /* said once */
    }
    if (options()->order && bytes)
        order_access(a, offset, bytes, write, op, NULL, NULL, 0);
    if (write)
        memory_mark(a, offset, bytes, true);
    return a->data + offset;
}

uint8_t *memory_lane(Warp *w, const Inst *i, int lane, uint64_t address, uint32_t size, bool write)
{
    const char *does = write ? "writes" : "reads";
    unsigned long long at = address;
    if (address % size) {
        finding_kernel(FINDING_MISALIGNED, w, i, lane, address,
                       "%s %u bytes at 0x%llx, which is not aligned to %u", does, size, at, size);
        grid_fail(w, 716);
        return NULL;
    }
    Alloc *a = memory_find(address);
    if (!a || size > a->end - address) {
        finding_kernel(FINDING_BOUNDS, w, i, lane, address, "%s %u bytes at 0x%llx, %s", does, size,
                       at, a ? "beyond the end of its allocation" : "in no allocation");
        grid_fail(w, 700);
        return NULL;
    }
    if (a->freed) {
        finding_kernel(FINDING_FREED, w, i, lane, address, "%s %u bytes at 0x%llx, freed before",
                       does, size, at);
        grid_fail(w, 700);
        return NULL;
    }
    const Device *d = w->block->grid->device;
    if (!memory_can_access(d, a)) {
        finding_kernel(FINDING_BOUNDS, w, i, lane, address,
                       "%s memory of device %d from device %d without access to it", does,
                       a->device->ordinal, d->ordinal);
        grid_fail(w, 700);
        return NULL;
    }
    uint64_t offset = address - a->base;
    if (!write && memory_written(a, offset, size) < size) {
        finding_kernel(FINDING_UNINIT, w, i, lane, address,
                       "reads %u bytes at 0x%llx that nothing has written", size, at);
        memory_mark(a, offset, size, true);
    }
    return a->data + offset;
}
