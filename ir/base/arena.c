/* arena.c: a list of chunks; the newest is filled from the front.
 * SPDX-License-Identifier: MIT */
#include "ir/base/arena.h"

#include "ir/base/die.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CHUNK = 64 * 1024, ALIGN = 16 };

typedef struct Chunk {
    struct Chunk *below;
    size_t size, used;
    _Alignas(ALIGN) unsigned char data[];
} Chunk;

struct Arena {
    Chunk *top;
    size_t bytes;
};

static Chunk *chunk_create(Chunk *below, size_t size)
{
    Chunk *c = malloc(sizeof *c + size);
    if (!c)
        die("out of memory (%zu bytes)", size);
    c->below = below;
    c->size = size;
    c->used = 0;
    return c;
}

Arena *arena_create(void)
{
    Arena *a = malloc(sizeof *a);
    if (!a)
        die("out of memory");
    a->top = chunk_create(NULL, FIRST_CHUNK);
    a->bytes = 0;
    return a;
}

void arena_destroy(Arena *a)
{
    if (!a)
        return;
    for (Chunk *c = a->top; c;) {
        Chunk *below = c->below;
        free(c);
        c = below;
    }
    free(a);
}

void *arena_alloc(Arena *a, size_t size)
{
    if (size > SIZE_MAX / 2)
        die("an allocation of %zu bytes", size);
    size = (size + ALIGN - 1) / ALIGN * ALIGN;
    if (a->top->size - a->top->used < size) {
        size_t want = a->top->size * 2;
        if (want > 8u << 20)
            want = 8u << 20;
        a->top = chunk_create(a->top, size > want ? size : want);
    }
    void *p = a->top->data + a->top->used;
    a->top->used += size;
    a->bytes += size;
    return memset(p, 0, size);
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
    char local[256]; /* nearly all texts fit, and need no second turn */
    va_list again;
    va_copy(again, ap);
    const int n = vsnprintf(local, sizeof local, fmt, ap);
    if (n < 0)
        die("cannot format '%s'", fmt);
    char *p = arena_alloc(a, (size_t)n + 1);
    if ((size_t)n < sizeof local)
        memcpy(p, local, (size_t)n);
    else
        vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
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
        Chunk *below = a->top->below;
        free(a->top);
        a->top = below;
    }
#ifndef NDEBUG
    memset(a->top->data + mark.used, 0xAB, a->top->used - mark.used);
#endif
    a->top->used = mark.used;
}

size_t arena_bytes(const Arena *a)
{
    return a->bytes;
}
