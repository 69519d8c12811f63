/* arena.c: a list of chunks; the newest is filled from the front.
 * SPDX-License-Identifier: MIT */
#include "ir/base/arena.h"

#include "ir/base/die.h"
#include "ir/base/strbuf.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    FIRST_CHUNK = 64 * 1024,
    MOST_CHUNK = 8 << 20,
    ALIGN = 16,
    PAGE = 4096,
    HUGE_PAGE = 2 << 20,
    AHEAD = 512 * 1024
};

typedef struct Chunk {
    struct Chunk *below;
    void *map; /* with its own pages, `mapped` bytes from here on; NULL: from the heap */
    size_t mapped;
    size_t size, used;
    size_t dirty; /* was in use up to here; zero behind */
    size_t ready; /* has pages up to here */
    _Alignas(ALIGN) unsigned char data[];
} Chunk;

struct Arena {
    Chunk *top;
    Chunk *spare; /* the largest that a reset left over: work comes in waves */
    size_t bytes;
};

/* A large chunk has huge pages where there are some: faults for small ones cost as much as all the
 * compiler's work on them. */
static Chunk *chunk_map(size_t size)
{
    const size_t whole = (sizeof(Chunk) + size + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    const size_t mapped = whole + HUGE_PAGE;
    void *map = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    const uintptr_t start = ((uintptr_t)map + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
#ifdef MADV_HUGEPAGE
    (void)madvise((void *)start, whole, MADV_HUGEPAGE);
#endif
    Chunk *c = (Chunk *)start;
    *c = (Chunk){.map = map, .mapped = mapped, .size = whole - sizeof *c};
    return c;
}

static Chunk *chunk_create(size_t size)
{
    Chunk *c;
    if (size >= HUGE_PAGE / 2) {
        c = chunk_map(size);
    } else {
        c = calloc(1, sizeof *c + size);
        if (c)
            c->size = size;
        if (c && size < AHEAD)
            c->ready = size;
    }
    if (!c)
        die("out of memory (%zu bytes)", size);
    return c;
}

static void chunk_free(Chunk *c)
{
    if (c && c->map)
        munmap(c->map, c->mapped);
    else
        free(c);
}

/* Pages by the hundred: a fault for each one costs more than the compiler's work on it. */
static void chunk_ready(Chunk *c, size_t need)
{
#ifdef MADV_POPULATE_WRITE
    const uintptr_t start = ((uintptr_t)c->data + c->used + PAGE - 1) / PAGE * PAGE;
    const uintptr_t end = ((uintptr_t)c->data + c->size) / PAGE * PAGE;
    const uintptr_t want = ((uintptr_t)c->data + need) / PAGE * PAGE + AHEAD;
    if (start < end) /* an older kernel refuses; then they come one by one */
        (void)madvise((void *)start, (want < end ? want : end) - start, MADV_POPULATE_WRITE);
#endif
    c->ready = need + AHEAD;
}

Arena *arena_create(void)
{
    Arena *a = malloc(sizeof *a);
    if (!a)
        die("out of memory");
    *a = (Arena){.top = chunk_create(FIRST_CHUNK)};
    return a;
}

void arena_destroy(Arena *a)
{
    if (!a)
        return;
    for (Chunk *c = a->top; c;) {
        Chunk *below = c->below;
        chunk_free(c);
        c = below;
    }
    chunk_free(a->spare);
    free(a);
}

static void add_chunk(Arena *a, size_t size)
{
    Chunk *c = a->spare;
    if (c && c->size >= size) {
        a->spare = NULL;
    } else {
        size_t want = a->top->size * 4;
        if (want > MOST_CHUNK)
            want = MOST_CHUNK - sizeof(Chunk);
        c = chunk_create(size > want ? size : want);
    }
    c->below = a->top;
    c->used = 0;
    a->top = c;
}

void *arena_alloc(Arena *a, size_t size)
{
    if (size > SIZE_MAX / 4)
        die("an allocation of %zu bytes", size);
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    Chunk *c = a->top;
    if (c->size - c->used < size) {
        add_chunk(a, size);
        c = a->top;
    }
    void *p = c->data + c->used;
    const size_t end = c->used + size;
    if (end <= c->ready && c->used == c->dirty) { /* by far the most */
        c->used = c->dirty = end;
        a->bytes += size;
        return p;
    }
    if (end > c->ready)
        chunk_ready(c, end);
    if (c->used < c->dirty)
        memset(p, 0, end < c->dirty ? size : c->dirty - c->used);
    c->used = end;
    if (end > c->dirty)
        c->dirty = end;
    a->bytes += size;
    return p;
}

/* A size that was rounded up may be the first part of a larger block that somebody else still
 * fills. */
void *arena_grow(Arena *a, void *p, size_t old, size_t size)
{
    Chunk *c = a->top;
    const unsigned char *end = c->data + c->used;
    if (p && old && old % ALIGN == 0 && (unsigned char *)p + old == end && size >= old &&
        size - old <= c->size - c->used) {
        arena_alloc(a, size - old);
        return p;
    }
    void *grown = arena_alloc(a, size);
    if (old)
        memcpy(grown, p, old < size ? old : size);
    return grown;
}

char *arena_strndup(Arena *a, const char *s, size_t n)
{
    char *p = arena_alloc(a, n + 1);
    if (n)
        memcpy(p, s, n);
    return p;
}

char *arena_strdup(Arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_vprintf(Arena *a, const char *fmt, va_list ap)
{
    char local[256]; /* nearly all texts fit: the arena gets what they need, no more */
    StrBuf text = {.a = a, .text = local, .cap = sizeof local};
    local[0] = 0;
    sb_vprintf(&text, fmt, ap);
    return text.text == local ? arena_strndup(a, local, text.n) : text.text;
}

char *arena_printf(Arena *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    char *p = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return p;
}

ArenaMark arena_mark(const Arena *a)
{
    return (ArenaMark){a->top, a->top->used};
}

void arena_reset(Arena *a, ArenaMark mark)
{
    while (a->top != mark.chunk) {
        Chunk *c = a->top;
        a->top = c->below;
        a->bytes -= c->used;
        if (a->spare && a->spare->size >= c->size) {
            chunk_free(c);
        } else {
            chunk_free(a->spare);
            a->spare = c;
        }
    }
#ifndef NDEBUG
    memset(a->top->data + mark.used, 0xAB, a->top->used - mark.used);
#endif
    a->bytes -= a->top->used - mark.used;
    a->top->used = mark.used;
}

size_t arena_bytes(const Arena *a)
{
    return a->bytes;
}
