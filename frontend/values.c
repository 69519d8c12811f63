/* values.c: NAME=VALUE of the command line. SPDX-License-Identifier: MIT */
#include "frontend/values.h"

#include "ir/base/intern.h"
#include "runtime/dtype.h"
#include "runtime/rt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const tn_buffer *buffer_of(const Sizes *s, int arg)
{
    return &s->p->buffers[s->p->args[arg].buffer];
}

const char *sizes_begin(Sizes *s, Arena *a, const tn_program *p)
{
    *s = (Sizes){.a = a, .p = p};
    s->value = arena_array(a, int64_t, p->nsymbols + 1);
    s->known = arena_array(a, uint8_t, p->nsymbols + 1);
    s->text = arena_array(a, const char *, p->nargs + 1);
    s->file = arena_array(a, DLTensor *, p->nargs + 1);
    for (int i = 0; i < p->nsymbols; i++)
        if (p->symbols[i].fixed) {
            s->value[i] = p->symbols[i].lo;
            s->known[i] = 1;
        }
    return NULL;
}

static const char *bind(Sizes *s, int symbol, int64_t v, const char *whence)
{
    if (s->known[symbol] && s->value[symbol] != v)
        return arena_printf(s->a, "%s says %s = %lld, but it is %lld", whence,
                            s->p->symbols[symbol].name, (long long)v, (long long)s->value[symbol]);
    s->value[symbol] = v;
    s->known[symbol] = 1;
    return NULL;
}

/* "@f.npz:name", "@f.npy", or "@f.npz" (the array called as the argument). */
static const char *read_array(Arena *a, Arrays *in, const char *name, const char *spec,
                              const DLTensor **out)
{
    const char *colon = strrchr(spec, ':');
    const char *path = colon ? arena_strndup(a, spec, (size_t)(colon - spec)) : spec;
    const char *want = colon ? colon + 1 : name;
    Arrays *file = arrays_create(a);
    const char *bad = arrays_load(file, path, want);
    if (!bad) {
        const Array *x = arrays_find(file, want);
        if (!x)
            bad = arena_printf(a, "%s has no array '%s'", path, want);
        else
            *out = &x->tensor;
    }
    /* the list of what is passed keeps the file alive */
    arrays_adopt(in, file);
    return bad;
}

static const char *take_file(Sizes *s, Arrays *in, int arg, const char *spec)
{
    const tn_buffer *b = buffer_of(s, arg);
    const char *name = s->p->args[arg].name;
    const DLTensor *t;
    const char *bad = read_array(s->a, in, name, spec, &t);
    if (bad)
        return bad;
    if (t->ndim != b->rank || data_dtype(t) != b->dtype)
        return arena_printf(s->a, "%s: '%s' is %s, but %s of %s is %s with %d axes", spec, name,
                            tensor_text(s->a, t), name, s->p->name, tn__dtype_name(b->dtype),
                            b->rank);
    for (int i = 0; i < b->rank; i++) {
        const int symbol = tn__lone_symbol(s->p, s->p->lists[b->shape + i]);
        if (symbol >= 0 && (bad = bind(s, symbol, t->shape[i], spec)))
            return bad;
    }
    s->file[arg] = arena_new(s->a, DLTensor);
    *s->file[arg] = *t;
    return NULL;
}

static bool parse_int(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return *text && !*end && !errno;
}

const char *sizes_operand(Sizes *s, Arrays *in, const char *text)
{
    const char *eq = strchr(text, '=');
    const size_t n = (size_t)(eq - text);
    for (int i = 0; i < s->p->nargs; i++) {
        const char *name = s->p->args[i].name;
        if (s->p->args[i].is_result || strlen(name) != n || strncmp(name, text, n))
            continue;
        if (s->text[i])
            return arena_printf(s->a, "'%s' is given twice", name);
        s->text[i] = eq + 1;
        return eq[1] == '@' ? take_file(s, in, i, eq + 2) : NULL;
    }
    for (int i = 0; i < s->p->nsymbols; i++) {
        if (strlen(s->p->symbols[i].name) != n || strncmp(s->p->symbols[i].name, text, n))
            continue;
        int64_t v;
        if (!parse_int(eq + 1, &v) || v < 0)
            return arena_printf(s->a, "%s: expected a size", text);
        return bind(s, i, v, text);
    }
    return NULL;
}

static double normal(uint64_t *s)
{
    const double u = ((double)(random_next(s) >> 11) + 1) * 0x1p-53,
                 v = (double)(random_next(s) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

const char *value_fill(Arena *a, Arrays *in, const char *name, const char *value, uint64_t seed,
                       DLTensor *t)
{
    const int64_t n = tensor_numel(t);
    if (*value == '@') {
        const DLTensor *x;
        const char *bad = read_array(a, in, name, value + 1, &x);
        if (bad)
            return bad;
        if (tensor_bytes(x) != tensor_bytes(t) || strcmp(tensor_text(a, x), tensor_text(a, t)))
            return arena_printf(a, "%s: '%s' is %s, expected %s", value + 1, name,
                                tensor_text(a, x), tensor_text(a, t));
        memcpy(t->data, (const char *)x->data + x->byte_offset, tensor_bytes(t));
        return NULL;
    }
    if (!strcmp(value, "arange")) {
        for (int64_t i = 0; i < n; i++)
            tensor_set(t, i, (double)i);
        return NULL;
    }
    if (!strcmp(value, "randn")) {
        uint64_t s = seed ^ hash_bytes(HASH_START, name, strlen(name));
        for (int64_t i = 0; i < n; i++)
            tensor_set(t, i, normal(&s));
        return NULL;
    }
    char *end;
    errno = 0;
    double x = !strcmp(value, "zeros") ? 0 : !strcmp(value, "ones") ? 1 : strtod(value, &end);
    if (strcmp(value, "zeros") && strcmp(value, "ones") && (!*value || *end || errno))
        return arena_printf(a, "%s=%s: expected @FILE, a number, zeros, ones, arange or randn",
                            name, value);
    for (int64_t i = 0; i < n; i++)
        tensor_set(t, i, x);
    return NULL;
}

const char *sizes_argument(Sizes *s, Arrays *in, int i, uint64_t seed, const DLTensor **out)
{
    const tn_buffer *b = buffer_of(s, i);
    const char *name = s->p->args[i].name;
    *out = NULL;
    if (!s->text[i])
        return s->p->args[i].optional ? NULL
                                      : arena_printf(s->a, "%s needs %s=VALUE", s->p->name, name);
    if (s->file[i] && !s->p->args[i].inout) {
        *out = s->file[i];
        return NULL;
    }
    int64_t shape[TN_MAX_RANK];
    for (int k = 0; k < b->rank; k++) {
        const int symbol = tn__lone_symbol(s->p, s->p->lists[b->shape + k]);
        if (symbol >= 0 && !s->known[symbol])
            return arena_printf(s->a, "the size %s of '%s' is not known: give %s=N",
                                s->p->symbols[symbol].name, name, s->p->symbols[symbol].name);
        if (!tn__dim_eval(s->p, s->p->lists[b->shape + k], s->value, NULL, &shape[k]) ||
            shape[k] < 0)
            return arena_printf(s->a, "axis %d of '%s' has no valid size", k, name);
    }
    DLTensor *t = arena_new(s->a, DLTensor);
    *t = arrays_make(in, b->dtype, b->rank, shape);
    if (!t->data)
        return "out of memory";
    *out = t;
    if (s->file[i]) { /* updated in place: the file's memory is not ours to write */
        memcpy(t->data, (const char *)s->file[i]->data + s->file[i]->byte_offset, tensor_bytes(t));
        return NULL;
    }
    return value_fill(s->a, in, name, s->text[i], seed, t);
}
