/* lower_names.c: see lower_names.h. A set is emptied by counting its scope on; where a search for a
 * free number stopped is kept, as a thousand values may be called `add`. SPDX-License-Identifier:
 * MIT */
#include "passes/lower_names.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_ALWAYS = UINT32_MAX };

NameSet names_create(Arena *a, Interner *names)
{
    return (NameSet){.a = a, .names = names, .scope = 1, .count = 1};
}

static NameUse *use_of(NameSet *s, Sym name)
{
    if (name.id >= s->n) {
        uint32_t n = s->n ? s->n : 256;
        while (n <= name.id)
            n *= 2;
        NameUse *use = arena_array(s->a, NameUse, n);
        if (s->n)
            memcpy(use, s->use, s->n * sizeof *use);
        s->use = use;
        s->n = n;
    }
    return &s->use[name.id];
}

void names_clear(NameSet *s)
{
    s->scope++;
    s->count++;
}

void names_reserve(NameSet *s, Sym name)
{
    use_of(s, name)->scope = NAMES_ALWAYS;
}

void names_take(NameSet *s, Sym name)
{
    NameUse *u = use_of(s, name);
    if (u->scope != NAMES_ALWAYS)
        u->scope = s->scope;
}

void names_release(NameSet *s, Sym name)
{
    NameUse *u = use_of(s, name);
    if (u->scope != NAMES_ALWAYS)
        u->scope = 0;
    s->count++;
}

bool names_has(const NameSet *s, Sym name)
{
    if (name.id >= s->n)
        return false;
    const uint32_t scope = s->use[name.id].scope;
    return scope == s->scope || scope == NAMES_ALWAYS;
}

Sym names_unique(NameSet *s, Sym name, const char *gap)
{
    if (!names_has(s, name)) {
        names_take(s, name);
        return name;
    }
    const char *base = sym_text(s->names, name);
    const NameUse *known = use_of(s, name);
    Sym free = name;
    uint32_t i = known->count == s->count ? known->next : 2;
    for (; names_has(s, free); i++) {
        char local[128];
        const int n = snprintf(local, sizeof local, "%s%s%u", base, gap, i);
        free = n < (int)sizeof local ? sym_intern(s->names, local, (size_t)n)
                                     : sym_of(s->names, arena_printf(s->a, "%s%s%u", base, gap, i));
    }
    names_take(s, free);
    NameUse *u = use_of(s, name);
    u->count = s->count;
    u->next = i;
    return free;
}
