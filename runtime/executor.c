/* executor.c: one call: bind sizes, find the plan, resolve pointers, run the steps.
 * SPDX-License-Identifier: MIT */
#include "runtime/exec.h"

#include <stdlib.h>
#include <string.h>

/* --- checking arguments --------------------------------------------------------------------------
 */

int tn__dtype_of(DLDataType t)
{
    if (t.lanes != 1)
        return 0;
    switch (t.code) {
    case kDLFloat:
        return t.bits == 64 ? TN_F64 : t.bits == 32 ? TN_F32 : t.bits == 16 ? TN_F16 : 0;
    case kDLBfloat:
        return t.bits == 16 ? TN_BF16 : 0;
    case kDLInt:
        return t.bits == 64   ? TN_I64
               : t.bits == 32 ? TN_I32
               : t.bits == 16 ? TN_I16
               : t.bits == 8  ? TN_I8
                              : 0;
    case kDLUInt:
        return t.bits == 8 ? TN_U8 : t.bits == 64 ? TN_U64 : 0;
    case TN_DL_BOOL:
        return t.bits == 8 ? TN_BOOL : 0;
    default:
        return 0;
    }
}

void tn__dl_type(int dtype, DLDataType *out)
{
    static const DLDataType types[] = {
        [TN_F64] = {kDLFloat, 64, 1},   [TN_F32] = {kDLFloat, 32, 1},
        [TN_BF16] = {kDLBfloat, 16, 1}, [TN_F16] = {kDLFloat, 16, 1},
        [TN_I64] = {kDLInt, 64, 1},     [TN_I32] = {kDLInt, 32, 1},
        [TN_I16] = {kDLInt, 16, 1},     [TN_I8] = {kDLInt, 8, 1},
        [TN_U8] = {kDLUInt, 8, 1},      [TN_BOOL] = {TN_DL_BOOL, 8, 1},
        [TN_U64] = {kDLUInt, 64, 1},
    };
    *out = types[dtype];
}

static void shape_text(const DLTensor *t, char *out, size_t n)
{
    size_t at = 0;
    out[0] = 0;
    for (int i = 0; i < t->ndim && at + 24 < n; i++)
        at += (size_t)snprintf(out + at, n - at, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
}

static tn_status check_kind(const tn_program *p, const tn_arg *a, const DLTensor *t)
{
    const tn_buffer *b = &p->buffers[a->buffer];
    if (t->device.device_type != kDLCPU && t->device.device_type != kDLCUDAHost)
        return tn__fail(TN_DEVICE, "%s: '%s' must be in host memory", p->name, a->name);
    const int dtype = tn__dtype_of(t->dtype);
    const bool fits = dtype == b->dtype || (b->dtype == TN_BOOL && dtype == TN_U8);
    if (!fits)
        return tn__fail(TN_DTYPE, "%s: '%s' must be %s, but is %s", p->name, a->name,
                        tn__dtype_name(b->dtype), tn__dtype_name(dtype));
    if (t->ndim != b->rank) {
        char shape[256];
        shape_text(t, shape, sizeof shape);
        return tn__fail(TN_SHAPE, "%s: '%s' must have %d axes, but has %d: [%s]", p->name, a->name,
                        b->rank, t->ndim, shape);
    }
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] < 0)
            return tn__fail(TN_SHAPE, "%s: axis %d of '%s' is negative", p->name, i, a->name);
    return TN_OK;
}

static tn_status set_symbol(const tn_program *p, int s, int64_t value, const char *arg, int axis,
                            int64_t *symbols, uint8_t *bound)
{
    const tn_symbol *y = &p->symbols[s];
    if (bound[s] && symbols[s] != value)
        return tn__fail(TN_SHAPE, "%s: axis %d of '%s' is %lld, but %s is %lld", p->name, axis, arg,
                        (long long)value, y->name, (long long)symbols[s]);
    if (value < y->lo || value > y->hi || (y->div > 1 && value % y->div != y->rem))
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
    (void)m;
    for (int i = 0; i < p->nargs; i++) {
        const tn_arg *a = &p->args[i];
        if (!args[i]) {
            if (!a->optional && !a->is_result)
                return tn__fail(TN_INVALID, "%s: '%s' is missing", p->name, a->name);
            continue;
        }
        if (a->is_result && !args[i]->data)
            continue;
        const tn_status s = check_kind(p, a, args[i]);
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

/* --- pointers ------------------------------------------------------------------------------------
 */

static bool is_contiguous(const DLTensor *t)
{
    if (!t->strides)
        return true;
    int64_t want = 1;
    for (int i = t->ndim - 1; i >= 0; i--) {
        if (t->shape[i] != 1 && t->strides[i] != want)
            return false;
        want *= t->shape[i];
    }
    return true;
}

static char *data_of(const DLTensor *t)
{
    return (char *)t->data + t->byte_offset;
}

/* Copies between a strided tensor and packed memory. */
static void copy_strided(const DLTensor *t, char *packed, size_t size, bool pack)
{
    int64_t at[TN_MAX_RANK] = {0}, n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->shape[i];
    for (int64_t e = 0; e < n; e++, packed += size) {
        int64_t offset = 0;
        for (int i = 0; i < t->ndim; i++)
            offset += at[i] * t->strides[i];
        char *there = data_of(t) + offset * (int64_t)size;
        memcpy(pack ? packed : there, pack ? there : packed, size);
        for (int i = t->ndim - 1; i >= 0 && ++at[i] == t->shape[i]; i--)
            at[i] = 0;
    }
}

/* A result that the caller left to us: shape and data in one block, freed by tn_tensor_release. */
static tn_status make_result(Call *c, DLTensor *t, int buffer)
{
    const tn_buffer *b = &c->p->buffers[buffer];
    const size_t head = TN_MAX_RANK * sizeof(int64_t);
    char *block = tn__alloc(c->m->ctx, head + c->plan->bytes[buffer]);
    if (!block)
        return TN_MEMORY;
    t->shape = (int64_t *)(void *)block;
    t->data = block + head;
    t->byte_offset = 0;
    t->strides = NULL;
    t->ndim = b->rank;
    t->device = (DLDevice){kDLCPU, 0};
    tn__dl_type(b->dtype, &t->dtype);
    for (int i = 0; i < b->rank; i++)
        t->shape[i] = c->plan->dims[c->p->lists[b->shape + i]];
    /* the allocator's owner, behind the shape: release needs it to keep the count */
    memcpy(block + head - sizeof(void *), &c->m->ctx, sizeof(void *));
    c->made[c->nmade++] = t;
    return TN_OK;
}

static tn_status stage(Call *c, const DLTensor *t, int buffer, bool is_result)
{
    char *copy = tn__alloc(c->m->ctx, c->plan->bytes[buffer]);
    if (!copy)
        return TN_MEMORY;
    c->staged[c->nstaged++] = (Staged){t, copy, is_result};
    return TN_OK;
}

static tn_status point_arguments(Call *c)
{
    for (int i = 0; i < c->p->nargs; i++) {
        const tn_arg *a = &c->p->args[i];
        const int buffer = a->buffer;
        const DLTensor *t = c->args[i];
        const tn_buffer *b = &c->p->buffers[buffer];
        if (b->kind != TN_BUF_ARG && b->kind != TN_BUF_RESULT)
            continue; /* a result that is state or a piece of another buffer has its own place */
        const size_t size = (size_t)tn__dtype_size(b->dtype);
        if (!t) {
            if (a->is_result) { /* not wanted: computed into memory of our own */
                char *p = tn__alloc(c->m->ctx, c->plan->bytes[buffer]);
                if (!p)
                    return TN_MEMORY;
                c->staged[c->nstaged++] = (Staged){NULL, p, false};
                c->at[buffer] = p;
            }
            continue;
        }
        tn_status s = TN_OK;
        if (a->is_result && !t->data && c->plan->bytes[buffer] + 1) {
            s = make_result(c, (DLTensor *)(uintptr_t)t, buffer);
            c->at[buffer] = s ? NULL : t->data;
        } else if (is_contiguous(t) && (uintptr_t)data_of(t) % size == 0) {
            c->at[buffer] = data_of(t);
        } else {
            s = stage(c, t, buffer, a->is_result || a->inout);
            if (!s) {
                c->at[buffer] = c->staged[c->nstaged - 1].copy;
                if (!a->is_result || a->inout)
                    copy_strided(t, c->at[buffer], size, true);
            }
        }
        if (s)
            return s;
    }
    return TN_OK;
}

static bool overlap(const char *a, size_t n, const char *b, size_t m)
{
    return n && m && a < b + m && b < a + n;
}

static tn_status check_overlap(const Call *c)
{
    for (int i = 0; i < c->p->nargs; i++) {
        const tn_arg *r = &c->p->args[i];
        if (!r->is_result || !c->args[i] || !c->at[r->buffer])
            continue;
        for (int k = 0; k < c->p->nargs; k++) {
            const tn_arg *a = &c->p->args[k];
            if (k == i || !c->args[k] || !c->at[a->buffer] || a->buffer == r->buffer ||
                (a->is_result && k > i))
                continue;
            if (overlap(c->at[r->buffer], c->plan->bytes[r->buffer], c->at[a->buffer],
                        c->plan->bytes[a->buffer]))
                return tn__fail(TN_OVERLAP, "%s: '%s' overlaps '%s'", c->p->name, r->name, a->name);
        }
    }
    return TN_OK;
}

static tn_status point_memory(Call *c)
{
    tn_model *m = c->m;
    if (c->plan->arena > m->arena_bytes) {
        void *arena = tn__alloc(m->ctx, c->plan->arena);
        if (!arena)
            return TN_MEMORY;
        tn__free(m->ctx, m->arena);
        m->arena = arena;
        m->arena_bytes = c->plan->arena;
    }
    for (int i = 1; i < c->p->nbuffers; i++) {
        const tn_buffer *b = &c->p->buffers[i];
        if (b->of)
            continue;
        switch (b->kind) {
        case TN_BUF_STATE:
            c->at[i] = m->slots[b->index];
            break;
        case TN_BUF_TEMP:
            c->at[i] = (char *)m->arena + c->plan->place[i];
            break;
        case TN_BUF_TAPE:
            c->at[i] = c->tape_in ? c->tape_in->at[b->index]
                                  : (char *)c->tape_out->memory + c->plan->place[i];
            break;
        case TN_BUF_CONST:
            c->at[i] = (void *)(uintptr_t)b->data;
            break;
        default:
            break;
        }
    }
    return TN_OK;
}

/* Pieces follow the buffer that they lie in; chains are short. */
static void point_pieces(Call *c)
{
    for (int i = 1; i < c->p->nbuffers; i++) {
        int64_t offset = 0;
        int k = i;
        while (c->p->buffers[k].of) {
            offset += c->plan->dims[c->p->buffers[k].offset] *
                      (int64_t)tn__dtype_size(c->p->buffers[k].dtype);
            k = c->p->buffers[k].of;
        }
        if (k != i)
            c->at[i] = c->at[k] ? (char *)c->at[k] + offset : NULL;
    }
}

/* --- steps ---------------------------------------------------------------------------------------
 */

typedef struct {
    tn_cpu_kernel *fn;
    void *const *p;
    const int64_t *n;
} Launch;

static void launch_cells(void *ctx, int64_t lo, int64_t hi)
{
    const Launch *l = ctx;
    l->fn(l->p, l->n, lo, hi);
}

/* Cells for which handing work to another thread pays: about 8 microseconds. */
static int64_t grain_of(const tn_kernel *k)
{
    enum { WORTH = 13 };
    return k->cost >= WORTH ? 1 : (int64_t)1 << (WORTH - k->cost);
}

/* The kernel's code for this processor. */
static tn_cpu_kernel *cpu_code(const tn_kernel *k)
{
#if defined __x86_64__ && defined __GNUC__
    if (k->fast && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("bmi2"))
        return k->fast;
#endif
    return k->cpu;
}

static tn_status run_launch(Call *c, const tn_step *s)
{
    const tn_kernel *k = &c->m->d->kernels[s->kernel];
    if (!k->cpu)
        return tn__fail(TN_UNSUPPORTED, "%s: kernel %s was not compiled for the CPU", c->p->name,
                        k->name);
    void *p[TN_MAX_OPERANDS];
    int64_t n[TN_MAX_SIZES];
    if (s->nops > TN_MAX_OPERANDS - 1 || s->nints > TN_MAX_SIZES)
        return tn__fail(TN_ABI, "%s: kernel %s has too many parameters", c->p->name, k->name);
    for (int i = 0; i < s->nops; i++) {
        const tn_operand *o = &c->p->operands[s->operands + i];
        const int64_t offset = o->offset >= 0 ? c->plan->dims[o->offset] : 0;
        char *base = c->at[o->buf];
        p[i] = base ? base + offset * (int64_t)tn__dtype_size(c->p->buffers[o->buf].dtype) : NULL;
    }
    p[s->nops] = c->m->error;
    for (int i = 0; i < s->nints; i++)
        n[i] = c->plan->dims[c->p->lists[s->ints + i]];
    Launch l = {cpu_code(k), p, n};
    tn__pool_run(c->m->ctx->pool, launch_cells, &l, c->plan->dims[s->cells], grain_of(k));
    return TN_OK;
}

static void run_fill(Call *c, const tn_step *s)
{
    const int buffer = c->p->operands[s->operands].buf;
    const tn_buffer *b = &c->p->buffers[buffer];
    const size_t size = (size_t)tn__dtype_size(b->dtype), n = c->plan->bytes[buffer] / size;
    char *to = c->at[buffer];
    unsigned char one[8] = {0};
    tn__dtype_store(b->dtype, s->value, one);
    bool zero = true;
    for (size_t i = 0; i < size; i++)
        zero = zero && !one[i];
    if (zero && n)
        memset(to, 0, n * size);
    else
        for (size_t i = 0; i < n; i++)
            memcpy(to + i * size, one, size);
}

static void run_copy(Call *c, const tn_step *s)
{
    const tn_operand *dst = &c->p->operands[s->operands], *src = dst + 1;
    const size_t size = (size_t)tn__dtype_size(c->p->buffers[dst->buf].dtype);
    char *to = (char *)c->at[dst->buf] +
               (dst->offset >= 0 ? c->plan->dims[dst->offset] : 0) * (int64_t)size;
    const char *from = (char *)c->at[src->buf] +
                       (src->offset >= 0 ? c->plan->dims[src->offset] : 0) * (int64_t)size;
    if (to != from && c->plan->bytes[dst->buf]) /* nothing may have no place */
        memmove(to, from, c->plan->bytes[dst->buf]);
}

static void run_print(Call *c, const tn_step *s)
{
    const int buffer = c->p->operands[s->operands].buf;
    const tn_buffer *b = &c->p->buffers[buffer];
    int64_t shape[TN_MAX_RANK];
    if (!c->m->ctx->print)
        return;
    for (int i = 0; i < b->rank; i++)
        shape[i] = c->plan->dims[c->p->lists[b->shape + i]];
    DLTensor t = {.data = c->at[buffer], .device = {kDLCPU, 0}, .ndim = b->rank, .shape = shape};
    tn__dl_type(b->dtype, &t.dtype);
    c->m->ctx->print(c->m->ctx->print_user, s->text ? s->text : "", &t);
}

static tn_status run_steps(Call *c)
{
    for (int i = 0; i < c->p->nsteps; i++) {
        if (!c->plan->active[i])
            continue;
        const tn_step *s = &c->p->steps[i];
        tn_status e = TN_OK;
        switch (s->kind) {
        case TN_STEP_LAUNCH:
            e = run_launch(c, s);
            break;
        case TN_STEP_GEMM:
            e = tn__step_gemm(c, &c->p->gemms[s->kernel]);
            break;
        case TN_STEP_COPY:
            run_copy(c, s);
            break;
        case TN_STEP_FILL:
            run_fill(c, s);
            break;
        case TN_STEP_PRINT:
            run_print(c, s);
            break;
        default:
            e = tn__fail(TN_ABI, "%s: step %d is of an unknown kind", c->p->name, i);
        }
        if (e)
            return e;
        if (c->m->error[0])
            return tn__error_word(c, s);
    }
    return TN_OK;
}

tn_status tn__error_word(Call *c, const tn_step *s)
{
    const tn_kernel *k = s->kind == TN_STEP_LAUNCH ? &c->m->d->kernels[s->kernel] : NULL;
    const int32_t check = c->m->error[0], index = c->m->error[1], size = c->m->error[2];
    memset(c->m->error, 0, sizeof c->m->error);
    const char *where = k && check <= k->nchecks ? k->checks[check - 1] : s->where;
    return tn__fail(TN_INDEX, "%s%s%s: index %d is out of range: the axis has %d elements",
                    where ? where : "", where ? ": " : "", c->p->name, (int)index, (int)size);
}

/* --- a call --------------------------------------------------------------------------------------
 */

static void write_back(Call *c)
{
    for (int i = 0; i < c->nstaged; i++)
        if (c->staged[i].is_result)
            copy_strided(c->staged[i].of, c->staged[i].copy,
                         (size_t)tn__dtype_size(tn__dtype_of(c->staged[i].of->dtype)), false);
}

static void end_call(Call *c, bool failed)
{
    for (int i = 0; i < c->nstaged; i++)
        if (c->staged[i].copy)
            tn__free(c->m->ctx, c->staged[i].copy);
    if (failed)
        for (int i = 0; i < c->nmade; i++)
            tn_tensor_release(c->made[i]);
    free(c->at);
    free(c->staged);
    free(c->made);
}

static tn_status begin_call(Call *c)
{
    const size_t n = (size_t)c->p->nargs + 1;
    c->at = calloc((size_t)c->p->nbuffers + 1, sizeof *c->at);
    c->staged = calloc(n, sizeof *c->staged);
    c->made = calloc(n, sizeof *c->made);
    return c->at && c->staged && c->made ? TN_OK : tn__fail(TN_MEMORY, "no memory for a call");
}

static tn_status find_plan(Call *c, int program)
{
    const tn_program *p = c->p;
    int64_t *symbols = calloc((size_t)p->nsymbols + 1, sizeof *symbols);
    uint8_t *bound = calloc((size_t)p->nsymbols + (size_t)p->nargs + 2, 1);
    tn_status s = symbols && bound ? TN_OK : tn__fail(TN_MEMORY, "no memory for a call");
    if (!s) {
        uint8_t *given = bound + p->nsymbols + 1;
        for (int i = 0; i < p->nargs; i++)
            given[i] = c->args[i] != NULL;
        if (c->tape_in)
            tn__tape_sizes(c->tape_in, p, symbols, bound);
        s = tn__bind(c->m, p, c->args, symbols, bound);
        if (!s)
            c->plan = tn__plan_get(c->m, program, symbols, given);
        if (!s && !c->plan)
            s = TN_SHAPE;
    }
    free(symbols);
    free(bound);
    return s;
}

static tn_status execute(Call *c, int program)
{
    tn_status s = begin_call(c);
    if (!s)
        s = find_plan(c, program);
    if (!s && c->p->kind == TN_FORWARD_TRAIN)
        s = tn__tape_create(c, program);
    if (!s)
        s = point_arguments(c);
    if (!s)
        s = check_overlap(c);
    if (!s)
        s = point_memory(c);
    if (!s) {
        point_pieces(c);
        s = run_steps(c);
    }
    if (!s) {
        write_back(c);
        if (c->tape_out)
            tn__tape_keep(c);
        c->m->last_temps = c->plan->arena;
        c->m->last_tape = c->plan->tape;
        if (c->p->kind == TN_STEP || c->p->kind == TN_UPDATE || c->p->kind == TN_INIT)
            c->m->version++;
    }
    return s;
}

tn_status tn__run(tn_model *m, tn_stream *stream, int program, const DLTensor *const *args,
                  tn_tape **tape_out, tn_tape *tape_in)
{
    (void)stream; /* the CPU has one lane: work is done when the call returns */
    if (!m)
        return tn__fail(TN_INVALID, "the model is NULL");
    if (program < 0 || program >= m->d->nprograms)
        return tn__fail(TN_NOT_FOUND, "%s has no program %d", m->d->name, program);
    const tn_program *p = &m->d->programs[program];
    const int variant = tn__variant(m, program, args, tape_in);
    if (variant != program) {
        if (variant < 0 || m->d->programs[variant].nargs > TN_MAX_ARGS)
            return tn__fail(TN_INVALID, "%s: these arguments cannot all be left out", p->name);
        const DLTensor *given[TN_MAX_ARGS];
        tn__variant_args(p, args, &m->d->programs[variant], given);
        return tn__run(m, stream, variant, given, tape_out, tape_in);
    }
    if (p->kind == TN_FORWARD_TRAIN && !tape_out)
        return tn__fail(TN_INVALID, "%s: there is no place for the tape", p->name);
    if (p->kind == TN_BACKWARD) {
        const tn_status s = tn__tape_check(tape_in, m, p);
        if (s) {
            tn_tape_release(tape_in); /* a backward call ends its tape in every case */
            return s;
        }
    }
    Call c = {.m = m, .p = p, .args = args, .tape_in = p->kind == TN_BACKWARD ? tape_in : NULL};
    const tn_status s = execute(&c, program);
    if (s) {
        tn_tape_release(c.tape_out);
        c.tape_out = NULL;
    }
    end_call(&c, s != TN_OK);
    if (tape_out && p->kind == TN_FORWARD_TRAIN)
        *tape_out = c.tape_out;
    if (p->kind == TN_BACKWARD)
        tn_tape_release(tape_in);
    return s;
}

tn_status tn_call(tn_model *m, tn_stream *s, int program, const DLTensor *const *args, int nargs,
                  tn_tape **tape)
{
    if (!m || program < 0 || program >= m->d->nprograms)
        return tn__fail(TN_NOT_FOUND, "there is no such program");
    const tn_program *p = &m->d->programs[program];
    if (nargs != p->nargs)
        return tn__fail(TN_INVALID, "%s takes %d arguments and results, not %d", p->name, p->nargs,
                        nargs);
    if (p->kind == TN_BACKWARD) {
        tn_tape *in = tape ? *tape : NULL;
        if (tape)
            *tape = NULL;
        return tn__run(m, s, program, args, NULL, in);
    }
    return tn__run(m, s, program, args, tape, NULL);
}

void tn_tensor_release(DLTensor *t)
{
    if (!t || !t->data || !t->shape)
        return;
    const size_t head = TN_MAX_RANK * sizeof(int64_t);
    char *block = (char *)t->shape;
    if ((char *)t->data != block + head)
        return; /* not one of ours */
    tn_context *ctx;
    memcpy(&ctx, block + head - sizeof ctx, sizeof ctx);
    tn__free(ctx, block);
    t->data = NULL;
    t->shape = NULL;
    t->ndim = 0;
}
