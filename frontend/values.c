/* values.c: NAME=VALUE of the command line. SPDX-License-Identifier: MIT */
#include "frontend/values.h"

#include "ir/base/intern.h"
#include "ir/base/strbuf.h"
#include "runtime/dtype.h"
#include "runtime/rt.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* --- what an argument wants ----------------------------------------------------------------------
 */

static const tn_buffer *arg_buffer(const tn_program *p, int arg)
{
    return &p->buffers[p->args[arg].buffer];
}

const char *argument_size(const tn_program *p, int arg, int axis)
{
    const tn_buffer *b = arg_buffer(p, arg);
    if (axis >= b->rank)
        return NULL;
    const int symbol = tn__lone_symbol(p, p->lists[b->shape + axis]);
    return symbol >= 0 ? p->symbols[symbol].name : NULL;
}

int64_t argument_constant(const tn_program *p, int arg, int axis)
{
    const tn_buffer *b = arg_buffer(p, arg);
    if (axis >= b->rank)
        return -1;
    const int64_t *c = p->code + p->dim_code[p->lists[b->shape + axis]];
    return c[0] == TN_D_CONST && c[2] == TN_D_END ? c[1] : -1;
}

const char *argument_text(Arena *a, const tn_program *p, int arg)
{
    const tn_buffer *b = arg_buffer(p, arg);
    StrBuf s = {.a = a};
    sb_printf(&s, "%s[", tn__dtype_name(b->dtype));
    for (int i = 0; i < b->rank; i++) {
        const char *size = argument_size(p, arg, i);
        const int64_t n = argument_constant(p, arg, i);
        sb_puts(&s, i ? ", " : "");
        if (size)
            sb_puts(&s, size);
        else if (n >= 0)
            sb_printf(&s, "%lld", (long long)n);
        else
            sb_putc(&s, '_');
    }
    sb_putc(&s, ']');
    return sb_text(&s);
}

bool argument_fits(const tn_program *p, int arg, const DLTensor *x, int from)
{
    const tn_buffer *b = arg_buffer(p, arg);
    if (data_dtype(x) != b->dtype || x->ndim != b->rank)
        return false;
    for (int i = from; i < b->rank; i++) {
        const int64_t n = argument_constant(p, arg, i);
        if (n >= 0 && n != x->shape[i])
            return false;
    }
    return true;
}

/* --- sizes ---------------------------------------------------------------------------------------
 */

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
    const char *colon = access(spec, F_OK) ? strrchr(spec, ':') : NULL; /* names may have a ':' */
    const char *path = colon ? arena_strndup(a, spec, (size_t)(colon - spec)) : spec;
    const char *want = colon ? colon + 1 : name;
    if (!*path)
        return arena_printf(a, "%s=@: expected the name of a file behind the @", name);
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
    const tn_buffer *b = arg_buffer(s->p, arg);
    const char *name = s->p->args[arg].name;
    const DLTensor *t;
    const char *bad = read_array(s->a, in, name, spec, &t);
    if (bad)
        return bad;
    if (!argument_fits(s->p, arg, t, 0))
        return arena_printf(s->a, "%s: '%s' is %s, but '%s' of %s is %s", spec, name,
                            tensor_text(s->a, t), name, s->p->method,
                            argument_text(s->a, s->p, arg));
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

/* --- values --------------------------------------------------------------------------------------
 */

static double normal(uint64_t *s)
{
    const double u = ((double)(random_next(s) >> 11) + 1) * 0x1p-53,
                 v = (double)(random_next(s) >> 11) * 0x1p-53;
    return sqrt(-2 * log(u)) * cos(6.283185307179586 * v);
}

typedef struct {
    int64_t least, most; /* of a whole number type; u64 goes on to UINT64_MAX */
} Range;

static Range range_of(int dtype)
{
    switch (dtype) {
    case TN_I64:
        return (Range){INT64_MIN, INT64_MAX};
    case TN_I32:
        return (Range){INT32_MIN, INT32_MAX};
    case TN_I16:
        return (Range){INT16_MIN, INT16_MAX};
    case TN_I8:
        return (Range){INT8_MIN, INT8_MAX};
    case TN_U64:
        return (Range){0, INT64_MAX};
    case TN_U8:
        return (Range){0, UINT8_MAX};
    default:
        return (Range){0, 1};
    }
}

static bool is_float_dtype(int dtype)
{
    return dtype >= TN_F64 && dtype <= TN_F16;
}

/* Bits as they are stored: through a double, large ones would be rounded. */
static void store_whole(DLTensor *t, int64_t i, uint64_t bits)
{
    const size_t size = tn__dtype_size(data_dtype(t));
    memcpy((char *)t->data + t->byte_offset + (size_t)i * size, &bits, size); /* little-endian */
}

/* A number for an argument of whole numbers or of bools. */
static const char *fill_whole(Arena *a, const char *name, const char *value, DLTensor *t)
{
    const int dtype = data_dtype(t);
    const Range range = range_of(dtype);
    const char *type = tn__dtype_name(dtype);
    char *end;
    errno = 0;
    const int64_t v = strtoll(value, &end, 10);
    bool out = errno || v < range.least || v > range.most;
    uint64_t bits = (uint64_t)v;
    if (dtype == TN_BOOL && (!strcmp(value, "true") || !strcmp(value, "false"))) {
        bits = *value == 't';
        out = false;
    } else if (!*value || *end) {
        double x = strtod(value, &end);
        return *value && !*end && isfinite(x) && dtype != TN_BOOL
                   ? arena_printf(a, "%s=%s: '%s' is %s: expected a whole number", name, value,
                                  name, type)
               : dtype == TN_BOOL
                   ? arena_printf(a,
                                  "%s=%s: '%s' is bool: expected @FILE, true, false, 0, 1, zeros "
                                  "or ones",
                                  name, value, name)
                   : arena_printf(a, "%s=%s: expected @FILE, a whole number, zeros, ones or arange",
                                  name, value);
    } else if (dtype == TN_U64 && *value != '-') {
        errno = 0;
        bits = strtoull(value, &end, 10);
        out = errno != 0;
    }
    if (out && dtype == TN_BOOL)
        return arena_printf(a, "%s=%s: '%s' is bool: expected true, false, 0 or 1", name, value,
                            name);
    if (out)
        return arena_printf(a, "%s=%s: '%s' is %s, which cannot hold this number", name, value,
                            name, type);
    for (int64_t i = 0; i < tensor_numel(t); i++)
        store_whole(t, i, bits);
    return NULL;
}

static const char *fill_float(Arena *a, const char *name, const char *value, DLTensor *t)
{
    char *end;
    const double x = strtod(value, &end);
    if (!*value || *end)
        return arena_printf(a, "%s=%s: expected @FILE, a number, zeros, ones, arange or randn",
                            name, value);
    const int64_t n = tensor_numel(t);
    for (int64_t i = 0; i < n; i++)
        tensor_set(t, i, x);
    const bool endless = !strncmp(value + (*value == '-' || *value == '+'), "inf", 3);
    if (n && (isinf(x) || isinf(tensor_get(t, 0))) && !endless)
        return arena_printf(a, "%s=%s: '%s' is %s, which cannot hold this number", name, value,
                            name, tn__dtype_name(data_dtype(t)));
    return NULL;
}

static const char *fill_arange(Arena *a, const char *name, DLTensor *t)
{
    const int64_t n = tensor_numel(t);
    const int dtype = data_dtype(t);
    if (is_float_dtype(dtype)) {
        for (int64_t i = 0; i < n; i++)
            tensor_set(t, i, (double)i);
        return NULL;
    }
    if (n - 1 > range_of(dtype).most)
        return arena_printf(a, "%s=arange: '%s' is %s, which cannot hold %lld", name, name,
                            tn__dtype_name(dtype), (long long)(n - 1));
    for (int64_t i = 0; i < n; i++)
        store_whole(t, i, (uint64_t)i);
    return NULL;
}

static const char *fill_from_file(Arena *a, Arrays *in, const char *name, const char *spec,
                                  DLTensor *t)
{
    const DLTensor *x;
    const char *bad = read_array(a, in, name, spec, &x);
    if (bad)
        return bad;
    if (tensor_bytes(x) != tensor_bytes(t) || strcmp(tensor_text(a, x), tensor_text(a, t)))
        return arena_printf(a, "%s: '%s' is %s, expected %s", spec, name, tensor_text(a, x),
                            tensor_text(a, t));
    memcpy(t->data, (const char *)x->data + x->byte_offset, tensor_bytes(t));
    return NULL;
}

const char *value_fill(Arena *a, Arrays *in, const char *name, const char *value, uint64_t seed,
                       DLTensor *t)
{
    const int64_t n = tensor_numel(t);
    const bool is_float = is_float_dtype(data_dtype(t));
    if (*value == '@')
        return fill_from_file(a, in, name, value + 1, t);
    if (!strcmp(value, "arange"))
        return fill_arange(a, name, t);
    if (!strcmp(value, "zeros") || !strcmp(value, "ones")) {
        for (int64_t i = 0; i < n; i++)
            tensor_set(t, i, *value == 'o');
        return NULL;
    }
    if (strcmp(value, "randn"))
        return is_float ? fill_float(a, name, value, t) : fill_whole(a, name, value, t);
    if (!is_float)
        return arena_printf(a, "%s=randn: '%s' is %s: randn makes fractions", name, name,
                            tn__dtype_name(data_dtype(t)));
    uint64_t s = seed ^ hash_bytes(HASH_START, name, strlen(name));
    for (int64_t i = 0; i < n; i++)
        tensor_set(t, i, normal(&s));
    return NULL;
}

const char *sizes_argument(Sizes *s, Arrays *in, int i, uint64_t seed, const DLTensor **out)
{
    const tn_buffer *b = arg_buffer(s->p, i);
    const char *name = s->p->args[i].name;
    *out = NULL;
    if (!s->text[i])
        return s->p->args[i].optional
                   ? NULL
                   : arena_printf(s->a, "%s needs %s=VALUE (it is %s)", s->p->method, name,
                                  argument_text(s->a, s->p, i));
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
    s->no_memory = !t->data;
    if (!t->data)
        return arena_printf(s->a, "out of memory for '%s', %s", name, tensor_text(s->a, t));
    *out = t;
    if (s->file[i]) { /* updated in place: the file's memory is not ours to write */
        memcpy(t->data, (const char *)s->file[i]->data + s->file[i]->byte_offset, tensor_bytes(t));
        return NULL;
    }
    return value_fill(s->a, in, name, s->text[i], seed, t);
}
