/* arguments.c: the arguments of a call are checked, and their sizes bound to the program's symbols.
 * SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

static void shape_text(const DLTensor *t, char *out, size_t n)
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < t->ndim && at + 24 < n; i++)
        at += (size_t)snprintf(out + at, n - at, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
}

/* In host memory, or on the device of the model. */
static tn_status check_device(const tn_model *m, const tn_program *p, const tn_arg *a,
                              const DLTensor *t)
{
    const tn__device *dev = tn__part_of((tn_model *)(uintptr_t)m, p->buffers[a->buffer].place)->dev;
    const DLDevice have = t->device, want = dev->dl;
    if (tn__on_host(t) ||
        (have.device_type == want.device_type && have.device_id == want.device_id))
        return TN_OK;
    if (dev->ops->host)
        return tn__fail(TN_DEVICE, "%s: '%s' must be in host memory", p->name, a->name);
    return tn__fail(TN_DEVICE, "%s: '%s' must be in host memory or on cuda:%d, where the model is",
                    p->name, a->name, (int)want.device_id);
}

static tn_status check_kind(const tn_model *m, const tn_program *p, const tn_arg *a,
                            const DLTensor *t)
{
    const tn_buffer *b = &p->buffers[a->buffer];
    const tn_status s = check_device(m, p, a, t);
    if (s)
        return s;
    const int dtype = tn__dtype_of(t->dtype);
    const bool fits = dtype == b->dtype || (b->dtype == TN_BOOL && dtype == TN_U8);
    if (!fits)
        return tn__fail(TN_DTYPE, "%s: '%s' must be %s, but is %s", p->name, a->name,
                        tn__dtype_name(b->dtype), tn__dtype_name(dtype));
    if (t->ndim && !t->shape)
        return tn__fail(TN_INVALID, "%s: '%s' has no shape: it is NULL", p->name, a->name);
    if (t->ndim != b->rank) {
        char shape[256];
        shape_text(t, shape, sizeof shape);
        return tn__fail(TN_SHAPE, "%s: '%s' must have %d axes, but has %d: [%s]", p->name, a->name,
                        b->rank, t->ndim, shape);
    }
    bool empty = false;
    for (int i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0)
            return tn__fail(TN_SHAPE, "%s: axis %d of '%s' is negative", p->name, i, a->name);
        empty = empty || t->shape[i] == 0;
    }
    if (!t->data && !empty)
        return tn__fail(TN_INVALID, "%s: '%s' has no data: it is NULL", p->name, a->name);
    return TN_OK;
}

static tn_status set_symbol(const tn_program *p, int s, int64_t value, const char *arg, int axis,
                            int64_t *symbols, uint8_t *bound)
{
    const tn_symbol *y = &p->symbols[s];
    if (bound[s] && symbols[s] != value)
        return tn__fail(TN_SHAPE, "%s: axis %d of '%s' is %lld, but %s is %lld", p->name, axis, arg,
                        (long long)value, y->name, (long long)symbols[s]);
    if (value < y->lo || value > y->hi)
        return tn__fail(TN_SHAPE, "%s: axis %d of '%s' is %lld, which %s cannot be (%lld to %lld)",
                        p->name, axis, arg, (long long)value, y->name, (long long)y->lo,
                        (long long)y->hi);
    symbols[s] = value;
    bound[s] = 1;
    return TN_OK;
}

/* The one unbound symbol of a size that is linear in it, found by its values at 0 and 1. */
static int solve(const tn_program *p, int dim, int64_t value, int64_t *symbols,
                 const uint8_t *bound, int64_t *out)
{
    int unknown = -1;
    for (const int64_t *c = p->code + p->dim_code[dim]; *c != TN_D_END; c++) {
        if (*c == TN_D_SYM && !bound[c[1]]) {
            if (unknown >= 0 && unknown != c[1])
                return -1;
            unknown = (int)c[1];
        }
        if (*c <= TN_D_DIM)
            c++;
    }
    if (unknown < 0)
        return -1;
    int64_t at[3];
    for (int i = 0; i < 3; i++) {
        symbols[unknown] = i;
        if (!tn__dim_eval(p, dim, symbols, NULL, &at[i]))
            return -1;
    }
    const int64_t slope = at[1] - at[0];
    if (slope == 0 || at[2] - at[1] != slope || (value - at[0]) % slope != 0)
        return -1;
    *out = (value - at[0]) / slope;
    return unknown;
}

static tn_status bind_lone(const tn_program *p, const DLTensor *const *args, int64_t *symbols,
                           uint8_t *bound)
{
    for (int i = 0; i < p->nargs; i++) {
        const DLTensor *t = args[i];
        const tn_arg *a = &p->args[i];
        if (!t || (a->is_result && !t->data))
            continue;
        const tn_buffer *b = &p->buffers[a->buffer];
        for (int k = 0; k < b->rank; k++) {
            const int s = tn__lone_symbol(p, p->lists[b->shape + k]);
            if (s >= 0 && !a->is_result) {
                const tn_status e = set_symbol(p, s, t->shape[k], a->name, k, symbols, bound);
                if (e)
                    return e;
            }
        }
    }
    return TN_OK;
}

static tn_status bind_linear(const tn_program *p, const DLTensor *const *args, int64_t *symbols,
                             uint8_t *bound)
{
    for (int i = 0; i < p->nargs; i++) {
        const tn_arg *a = &p->args[i];
        const DLTensor *t = args[i];
        if (!t || a->is_result)
            continue;
        const tn_buffer *b = &p->buffers[a->buffer];
        for (int k = 0; k < b->rank; k++) {
            int64_t v;
            const int s = solve(p, p->lists[b->shape + k], t->shape[k], symbols, bound, &v);
            if (s >= 0) {
                const tn_status e = set_symbol(p, s, v, a->name, k, symbols, bound);
                if (e)
                    return e;
            }
        }
    }
    return TN_OK;
}

static tn_status check_shapes(const tn_program *p, const DLTensor *const *args,
                              const int64_t *symbols)
{
    for (int i = 0; i < p->nargs; i++) {
        const tn_arg *a = &p->args[i];
        const DLTensor *t = args[i];
        if (!t || (a->is_result && !t->data))
            continue;
        const tn_buffer *b = &p->buffers[a->buffer];
        for (int k = 0; k < b->rank; k++) {
            int64_t want;
            if (!tn__dim_eval(p, p->lists[b->shape + k], symbols, NULL, &want))
                return tn__fail(TN_SHAPE, "%s: a size of '%s' overflows", p->name, a->name);
            if (want != t->shape[k])
                return tn__fail(TN_SHAPE, "%s: axis %d of '%s' is %lld, expected %lld", p->name, k,
                                a->name, (long long)t->shape[k], (long long)want);
        }
    }
    return TN_OK;
}

tn_status tn__bind(tn_model *m, const tn_program *p, const DLTensor *const *args, int64_t *symbols,
                   uint8_t *bound)
{
    for (int i = 0; i < p->nargs; i++) {
        const tn_arg *a = &p->args[i];
        if (!args[i]) {
            if (!a->optional && !a->is_result)
                return tn__fail(TN_INVALID, "%s: '%s' is missing", p->name, a->name);
            continue;
        }
        if (a->is_result && !args[i]->data)
            continue;
        const tn_status s = check_kind(m, p, a, args[i]);
        if (s)
            return s;
    }
    for (int i = 0; i < p->nsymbols; i++)
        if (p->symbols[i].fixed) {
            symbols[i] = p->symbols[i].lo;
            bound[i] = 1;
        }
    tn_status s = bind_lone(p, args, symbols, bound);
    if (!s)
        s = bind_linear(p, args, symbols, bound);
    for (int i = 0; i < p->nsymbols && !s; i++)
        if (!bound[i])
            s = tn__fail(TN_SHAPE, "%s: no argument gives the size %s", p->name,
                         p->symbols[i].name);
    return s ? s : check_shapes(p, args, symbols);
}
