/* names.c: scopes of a function: registers, variables, labels. Braces nest and may declare a
 * register or a label again, as inline assembly does. SPDX-License-Identifier: MIT */
#include "tests/vgpu/decode.h"

#include <string.h>

void scope_open(Decoder *d)
{
    d->depth++;
    vec_push(d->scratch, &d->marks, d->declared.n);
}

static Name **head(Decoder *d, Sym sym)
{
    while (d->names.n <= sym.id)
        vec_push(d->scratch, &d->names, NULL);
    return &d->names.at[sym.id];
}

Name *name_add(Decoder *d, Sym sym, NameKind kind)
{
    Name *n = arena_new(d->scratch, Name), **at = head(d, sym);
    n->outer = *at;
    n->kind = (uint8_t)kind;
    n->depth = d->depth;
    n->slot = NO_SLOT;
    *at = n;
    vec_push(d->scratch, &d->declared, ((Declared){sym, d->depth}));
    return n;
}

static void resolve(Decoder *d, const Fixup *f, uint32_t target)
{
    Inst *i = &d->code.at[f->inst];
    if (f->list == NO_SLOT)
        i->target = target;
    else
        ((uint32_t *)(uintptr_t)i->list)[f->list] = target;
}

/* Branches that stay open are those of the scope around. */
static void close_branches(Decoder *d)
{
    uint32_t kept = 0;
    for (uint32_t k = 0; k < d->fixups.n; k++) {
        Fixup f = d->fixups.at[k];
        const Name *n = f.depth == d->depth ? *head(d, f.label) : NULL;
        if (n && n->kind == NAME_LABEL && n->depth == d->depth) {
            resolve(d, &f, (uint32_t)n->value);
        } else {
            if (f.depth == d->depth)
                f.depth--;
            d->fixups.at[kept++] = f;
        }
    }
    d->fixups.n = kept;
}

void scope_close(Decoder *d)
{
    uint32_t kept = d->marks.at[--d->marks.n];
    close_branches(d);
    for (uint32_t k = kept; k < d->declared.n; k++) {
        Declared was = d->declared.at[k];
        if (was.depth >= d->depth)
            *head(d, was.name) = (*head(d, was.name))->outer;
        else /* a name of an outer range, made in here: it stays */
            d->declared.at[kept++] = was;
    }
    d->declared.n = kept;
    while (d->ranges.n && vec_last(&d->ranges).depth >= d->depth)
        d->ranges.n--;
    d->depth--;
}

void branch_to(Decoder *d, uint32_t inst, uint32_t list, Sym label)
{
    vec_push(d->scratch, &d->fixups, ((Fixup){inst, list, label, d->depth, d->line}));
}

static void give_slot(Decoder *d, Name *n, uint8_t width)
{
    n->width = width;
    if (n->kind == NAME_PRED)
        n->slot = d->npreds++;
    else
        n->slot = slot_new(d, width);
}

/* %r12 of `%r<20>`; deeper than `depth` only. */
static const Range *find_range(const Decoder *d, const Token *t, int depth)
{
    uint32_t n = t->n, number = 0, scale = 1;
    while (n > 1 && t->text[n - 1] >= '0' && t->text[n - 1] <= '9' && scale < 100000000) {
        number += scale * (uint32_t)(t->text[--n] - '0');
        scale *= 10;
    }
    for (uint32_t k = d->ranges.n; k-- > 0;) {
        const Range *r = &d->ranges.at[k];
        if (r->depth <= depth)
            return NULL;
        if (r->n == n && number < r->count && t->n > n && !memcmp(r->prefix, t->text, n))
            return r;
    }
    return NULL;
}

static uint64_t place(uint32_t *used, const Variable *v)
{
    uint64_t at = (*used + v->align - 1) & ~(uint64_t)(v->align - 1);
    *used = (uint32_t)(at + v->size);
    return at;
}

/* A variable of the module. Shared ones get their place in the functions that use them. */
static Name *module_name(Decoder *d, const Token *t)
{
    const VarDecl *v = find_variable(d->x, t->sym);
    if (!v)
        return NULL;
    int depth = d->depth;
    d->depth = 1;
    Name *n = name_add(d, t->sym, NAME_VARIABLE);
    d->depth = depth;
    n->space = v->v.space;
    n->external = v->v.external;
    n->value = v->v.address;
    if (n->space == SPACE_SHARED && !n->external)
        n->value = place(&d->shared_bytes, &v->v);
    return n;
}

Name *name_find(Decoder *d, const Token *t)
{
    Name *n = *head(d, t->sym);
    int deepest = d->ranges.n ? vec_last(&d->ranges).depth : 0;
    if (n && n->depth >= deepest)
        return n;
    const Range *r = find_range(d, t, n ? n->depth : 0);
    if (!r)
        return n ? n : module_name(d, t);
    int depth = d->depth;
    d->depth = r->depth;
    n = name_add(d, t->sym, (NameKind)r->kind);
    give_slot(d, n, r->width);
    d->depth = depth;
    return n;
}

bool declare_registers(Decoder *d)
{
    const Token *t = d->x->t, *type = &t[d->i];
    uint32_t bytes = parse_type(type);
    bool pred = token_word(type, ".pred");
    if (!pred && !bytes)
        return parse_error(d->x, type->line, "registers of type '%.*s' are not known", (int)type->n,
                           type->text);
    uint8_t kind = pred ? NAME_PRED : NAME_REGISTER, width = bytes == 8 ? 8 : 4;
    do {
        const Token *name = &t[++d->i];
        if (name->kind != TOKEN_WORD)
            return parse_error(d->x, name->line, "the name of a register is missing");
        d->i++;
        if (token_is(&t[d->i], '<')) {
            uint64_t count = t[d->i + 1].value;
            vec_push(d->scratch, &d->ranges,
                     ((Range){name->text, name->n, (uint32_t)count, d->depth, kind, width}));
            d->i += 3;
        } else {
            give_slot(d, name_add(d, name->sym, (NameKind)kind), width);
        }
    } while (token_is(&t[d->i], ','));
    if (!token_is(&t[d->i], ';'))
        return parse_error(d->x, t[d->i].line, "the declaration of registers does not end in ';'");
    d->i++;
    return true;
}

static uint64_t place_shared(Decoder *d, uint32_t token, const Variable *v)
{
    for (uint32_t k = 0; k < d->shared_at.n; k++)
        if (d->shared_at.at[k].token == token)
            return d->shared_at.at[k].address;
    SharedAt at = {token, place(&d->shared_bytes, v)};
    vec_push(d->scratch, &d->shared_at, at);
    return at.address;
}

bool declare_variable(Decoder *d)
{
    uint32_t token = d->i++;
    bool shared = token_word(&d->x->t[token], ".shared");
    VarDecl v = {.v.space = shared ? SPACE_SHARED : SPACE_LOCAL};
    if (!parse_variable(d->x, &d->i, &v))
        return false;
    Name *n = name_add(d, v.name, NAME_VARIABLE);
    n->space = v.v.space;
    n->value = shared ? place_shared(d, token, &v.v) : place(&d->local_bytes, &v.v);
    return true;
}
