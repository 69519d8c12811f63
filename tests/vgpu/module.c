/* module.c: loading of PTX: parses, gives variables their memory, decodes the entries.
 * SPDX-License-Identifier: MIT */
#include "tests/vgpu/decode.h"

#include <string.h>

typedef struct {
    Module m;
    Arena *a;
    Alloc **allocs; /* by variable; NULL: not in device memory */
    Alloc *workspace;
} Loaded;

static bool in_device_memory(const Variable *v)
{
    return v->space == SPACE_GLOBAL || v->space == SPACE_CONST;
}

/* Each variable is an allocation, so that accesses beside it are found. */
static bool place_variables(Loaded *l, Text *x)
{
    Module *m = &l->m;
    m->nvariables = (int)x->vars.n;
    m->variables = arena_array(l->a, Variable, x->vars.n);
    l->allocs = arena_array(l->a, Alloc *, x->vars.n);
    for (uint32_t k = 0; k < x->vars.n; k++) {
        VarDecl *d = &x->vars.at[k];
        if (in_device_memory(&d->v)) {
            Alloc *to = memory_alloc(m->device, d->v.size ? d->v.size : 1, d->v.align);
            if (!to)
                return parse_error(x, d->line, "no memory is left for '%s'", d->v.name);
            l->allocs[k] = to;
            to->is_variable = true;
            to->name = d->v.name;
            d->v.address = to->base;
            memset(to->data, 0, d->v.size);
            if (to->shadow) /* it is not kept with VGPU_CHECK=none */
                memset(to->shadow, 1, d->v.size);
            if (d->init)
                memcpy(to->data, d->init, d->v.size);
        }
        m->variables[k] = d->v;
    }
    return true;
}

/* Initialisers that hold addresses, once all variables have theirs. */
static bool write_addresses(Loaded *l, Text *x)
{
    for (uint32_t k = 0; k < x->vars.n; k++) {
        const VarDecl *d = &x->vars.at[k];
        for (uint32_t n = 0; n < d->naddresses && l->allocs[k]; n++) {
            const AddressIn *in = &d->addresses[n];
            const VarDecl *to = find_variable(x, in->symbol);
            if (!to || !in_device_memory(&to->v))
                return parse_error(x, d->line, "'%s' is initialised with the address of '%s'",
                                   d->v.name, sym_text(x->names, in->symbol));
            uint64_t value = (to->v.address + in->add) & in->mask;
            value >>= in->mask ? __builtin_ctzll(in->mask) : 0;
            memcpy(l->allocs[k]->data + in->offset, &value, in->size);
        }
    }
    return true;
}

uint64_t module_workspace(Module *m)
{
    enum { BYTES = 64 };
    Loaded *l = (Loaded *)m;
    if (!l->workspace) {
        l->workspace = memory_alloc(m->device, BYTES, BYTES);
        if (!l->workspace)
            return 0;
        l->workspace->is_variable = true;
        memset(l->workspace->data, 0, BYTES);
        memset(l->workspace->shadow, 1, BYTES);
    }
    return l->workspace->base;
}

static bool decode_entries(Loaded *l, Text *x)
{
    RuleCache rules = {.a = l->a, .scratch = arena_create()};
    ArenaMark empty = arena_mark(rules.scratch);
    Module *m = &l->m;
    bool ok = true;
    m->functions = arena_array(l->a, Function, x->funcs.n);
    for (uint32_t k = 0; ok && k < x->funcs.n; k++) {
        const FuncDecl *d = &x->funcs.at[k];
        if (!d->entry || !d->body)
            continue;
        ok = decode_function(x, m, &rules, d, &m->functions[m->nfunctions++]);
        arena_reset(rules.scratch, empty);
    }
    arena_destroy(rules.scratch);
    return ok;
}

Module *module_load(Device *device, const char *ptx, size_t n, const char **why)
{
    static _Thread_local char reason[1024];
    Arena *a = arena_create();
    Loaded *l = arena_new(a, Loaded);
    l->a = a;
    l->m.device = device;
    Text x = {.a = a, .names = intern_create(a)};
    n = strnlen(ptx, n);
    const char *text = arena_strndup(a, ptx, n); /* instructions point into it */
    bool ok = parse_module(&x, text, n) && place_variables(l, &x) && write_addresses(l, &x);
    l->m.target = x.target;
    l->m.files = x.files.at;
    l->m.nfiles = (int)x.files.n;
    if (ok && decode_entries(l, &x))
        return &l->m;
    strncpy(reason, x.error ? x.error : "the PTX cannot be read", sizeof reason - 1);
    *why = reason;
    module_unload(&l->m);
    return NULL;
}

void module_unload(Module *m)
{
    Loaded *l = (Loaded *)m;
    if (!m)
        return;
    for (int k = 0; k < m->nvariables; k++)
        if (l->allocs[k]) {
            l->allocs[k]->name =
                NULL; /* it goes with the module, what was allocated is remembered */
            memory_free(l->allocs[k]);
        }
    if (l->workspace)
        memory_free(l->workspace);
    arena_destroy(l->a);
}

Function *module_function(Module *m, const char *name)
{
    for (int k = 0; k < m->nfunctions; k++)
        if (!strcmp(m->functions[k].name, name))
            return &m->functions[k];
    return NULL;
}

Variable *module_variable(Module *m, const char *name)
{
    for (int k = 0; k < m->nvariables; k++)
        if (!strcmp(m->variables[k].name, name))
            return &m->variables[k];
    return NULL;
}
