/* intern.c: an open-addressing table over an array of names.
 * SPDX-License-Identifier: MIT */
#include "ir/base/intern.h"

#include "ir/base/vec.h"

#include <string.h>

typedef struct {
    const char *text;
    size_t n;
    uint64_t hash;
} Name;

struct Interner {
    Arena *a;
    VEC(Name) names;
    uint32_t *table; /* name ids; 0 is free */
    uint32_t size;   /* a power of two */
};

uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
    const unsigned char *b = p;
    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * 1099511628211ull;
    return h;
}

Interner *intern_create(Arena *a)
{
    Interner *in = arena_new(a, Interner);
    in->a = a;
    in->size = 1024;
    in->table = arena_array(a, uint32_t, in->size);
    vec_push(a, &in->names, ((Name){"", 0, 0}));
    return in;
}

static void place(Interner *in, uint32_t id)
{
    uint32_t i = (uint32_t)in->names.at[id].hash & (in->size - 1);
    while (in->table[i])
        i = (i + 1) & (in->size - 1);
    in->table[i] = id;
}

Sym sym_intern(Interner *in, const char *s, size_t n)
{
    if (!n)
        return (Sym){0};
    const uint64_t h = hash_bytes(HASH_START, s, n);
    for (uint32_t i = (uint32_t)h & (in->size - 1); in->table[i]; i = (i + 1) & (in->size - 1)) {
        const Name *name = &in->names.at[in->table[i]];
        if (name->hash == h && name->n == n && !memcmp(name->text, s, n))
            return (Sym){in->table[i]};
    }
    vec_push(in->a, &in->names, ((Name){arena_strndup(in->a, s, n), n, h}));
    const uint32_t id = in->names.n - 1;
    if (in->names.n * 2 > in->size) {
        in->size *= 2;
        in->table = arena_array(in->a, uint32_t, in->size);
        for (uint32_t k = 1; k < in->names.n; k++)
            place(in, k);
    } else {
        place(in, id);
    }
    return (Sym){id};
}

Sym sym_of(Interner *in, const char *s)
{
    return sym_intern(in, s, strlen(s));
}

const char *sym_text(const Interner *in, Sym s)
{
    return in->names.at[s.id].text;
}
