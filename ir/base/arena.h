/* arena.h: bump allocation. Lifetime is a phase: nothing in the compiler is freed one by one.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_ARENA_H
#define TENON_ARENA_H

#include <stdarg.h>
#include <stddef.h>

typedef struct Arena Arena;
typedef struct {
    void *chunk;
    size_t used;
} ArenaMark;

/** A new, empty arena. Never NULL: running out of memory ends the compilation (`die`). */
Arena *arena_create(void);

/** Frees the arena and everything allocated from it. NULL is allowed. */
void arena_destroy(Arena *a);

/** `size` zeroed bytes, aligned to 16. Never NULL; a size of 0 gives a valid pointer. */
void *arena_alloc(Arena *a, size_t size);

/** Room for `size` bytes with the first `old` of those at p, the others zero: the newest allocation
 * grows where it stands, others are copied. `old` is what p was allocated with. */
void *arena_grow(Arena *a, void *p, size_t old, size_t size);

/** Copies of text; `arena_strndup` adds the terminator. */
char *arena_strdup(Arena *a, const char *s);
char *arena_strndup(Arena *a, const char *s, size_t n);

/** Formatted text, allocated in the arena. */
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

/** Scratch use: mark, work, reset. Memory past the mark is poisoned in debug builds. */
ArenaMark arena_mark(const Arena *a);
void arena_reset(Arena *a, ArenaMark mark);

/** Bytes that are handed out, for -bench. */
size_t arena_bytes(const Arena *a);

#define arena_new(a, T)      ((T *)arena_alloc((a), sizeof(T)))
#define arena_array(a, T, n) ((T *)arena_alloc((a), sizeof(T) * (size_t)(n)))

#endif
