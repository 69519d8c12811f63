/* intern.h: equal text, equal handle.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_INTERN_H
#define TENON_INTERN_H

#include "ir/base/arena.h"

#include <stdbool.h>
#include <stdint.h>

/* A name. {0} is "no name" and reads as the empty string. Ids are dense, in order of first use. */
typedef struct {
    uint32_t id;
} Sym;

typedef struct Interner Interner;

Interner *intern_create(Arena *a);

/** The handle of the n bytes at s; text of length 0 is {0}. */
Sym sym_intern(Interner *in, const char *s, size_t n);
Sym sym_of(Interner *in, const char *s);

/** The text of a handle, NUL-terminated, living as long as the interner. */
const char *sym_text(const Interner *in, Sym s);

static inline bool sym_eq(Sym a, Sym b)
{
    return a.id == b.id;
}

/** FNV-1a over bytes, chained through `h` (start with HASH_START); also the hash of hash-consing.
 */
#define HASH_START 14695981039346656037ull
uint64_t hash_bytes(uint64_t h, const void *p, size_t n);

/** The same idea a word at a time, for tables in memory only: the values are no part of any file.
 */
static inline uint64_t hash_word(uint64_t h, uint64_t w)
{
    h = (h ^ w) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 32;
}

#endif
