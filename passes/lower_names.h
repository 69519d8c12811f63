/* lower_names.h: which names are in use, and the next free one; many values may want the same.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_LOWER_NAMES_H
#define TENON_LOWER_NAMES_H

#include "ir/base/intern.h"

typedef struct {
    uint32_t scope;       /* the name is in use if this is the set's, or NAMES_ALWAYS */
    uint32_t count, next; /* of this count of the set's: suffixes below `next` are in use */
} NameUse;

typedef struct {
    Arena *a;
    Interner *names;
    NameUse *use; /* by Sym */
    uint32_t n, scope, count;
} NameSet;

NameSet names_create(Arena *a, Interner *names);
/** From here on, only words of names_reserve are in use. */
void names_clear(NameSet *s);
void names_reserve(NameSet *s, Sym name);
void names_take(NameSet *s, Sym name);
void names_release(NameSet *s, Sym name);
bool names_has(const NameSet *s, Sym name);
/** Takes the name, or the first of NAME2, NAME3 .. that is free; `gap` stands before the number. */
Sym names_unique(NameSet *s, Sym name, const char *gap);

#endif
