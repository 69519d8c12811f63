/* cpu.c: the CPU as a device: memory of the host, kernels over the thread pool. Work is done when a
 * call returns, so streams and events have nothing to do but to count time.
 * SPDX-License-Identifier: MIT */
#include "runtime/cpu.h"
#include "runtime/backend.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static void nothing(tn__device *d)
{
    (void)d;
}

static void *cpu_alloc(tn__device *d, tn_stream *s, size_t bytes, tn__use use)
{
    (void)s, (void)use;
    return tn__alloc(d->ctx, bytes);
}

static void cpu_free(tn__device *d, void *p, uint64_t last)
{
    (void)last;
    tn__free(d->ctx, p);
}

static tn_status cpu_record(tn__device *d, void *p, tn_stream *s)
{
    (void)d, (void)p, (void)s;
    return TN_OK;
}

static tn_status cpu_copy_to(tn_stream *s, void *to, const void *from, size_t bytes)
{
    (void)s;
    memcpy(to, from, bytes);
    return TN_OK;
}

/* Steps may copy within a buffer. */
static tn_status cpu_copy(tn_stream *s, void *to, const void *from, size_t bytes)
{
    (void)s;
    memmove(to, from, bytes);
    return TN_OK;
}

static tn_status cpu_peer(tn_stream *s, void *to, tn__device *dst, const void *from,
                          tn__device *src, size_t bytes)
{
    (void)dst, (void)src;
    return cpu_copy(s, to, from, bytes);
}

static tn_status cpu_strided(tn_stream *s, const tn__strided *c)
{
    (void)s;
    tn__copy_strided(c);
    return TN_OK;
}

static tn_status cpu_fill(tn_stream *s, void *to, const void *one, size_t size, size_t n)
{
    static const unsigned char zero[8];
    (void)s;
    if (!memcmp(one, zero, size))
        memset(to, 0, n * size);
    else
        for (size_t i = 0; i < n; i++)
            memcpy((char *)to + i * size, one, size);
    return TN_OK;
}

static tn_status cpu_sync(tn_stream *s)
{
    (void)s;
    return TN_OK;
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
int64_t tn__cpu_grain(const tn_kernel *k)
{
    enum { WORTH = 13 };
    return k->cost >= WORTH ? 1 : (int64_t)1 << (WORTH - k->cost);
}

int tn__cpu_level(void)
{
#if defined __x86_64__ && defined __GNUC__
    const int v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                   __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    const int v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return v3 && v4 ? 4 : v3 ? 3 : 1;
#else
    return 1;
#endif
}

/* The kernel's code for this processor. */
tn_cpu_kernel *tn__cpu_code(const tn_kernel *k, int level)
{
    return level >= 4 && k->widest ? k->widest : level >= 3 && k->fast ? k->fast : k->cpu;
}

bool tn__cpu_arguments(const Call *c, const tn_step *s, void **p, int64_t *n)
{
    if (s->nops > TN_MAX_OPERANDS - 1 || s->nints > TN_MAX_SIZES)
        return false;
    for (int i = 0; i < s->nops; i++)
        p[i] = tn__operand(c, s->operands + i);
    p[s->nops] = c->m->error;
    for (int i = 0; i < s->nints; i++)
        n[i] = c->plan->dims[c->p->lists[s->ints + i]];
    return true;
}

static tn_status cpu_launch(Call *c, int step)
{
    const tn_step *s = &c->p->steps[step];
    const tn_kernel *k = &c->m->d->kernels[s->kernel];
    if (!k->cpu)
        return tn__fail(TN_UNSUPPORTED, "%s: kernel %s was not compiled for the CPU", c->p->name,
                        k->name);
    void *p[TN_MAX_OPERANDS];
    int64_t n[TN_MAX_SIZES];
    if (!tn__cpu_arguments(c, s, p, n))
        return tn__fail(TN_ABI, "%s: kernel %s has too many parameters", c->p->name, k->name);
    Launch l = {tn__cpu_code(k, c->m->ctx->level), p, n};
    tn__pool_run(c->m->ctx->pool, launch_cells, &l, c->plan->dims[s->cells], tn__cpu_grain(k));
    if (!c->m->error[0])
        return TN_OK;
    const tn_status e = tn__index_error(c->p, k, s->where, c->m->error);
    memset(c->m->error, 0, sizeof c->m->error);
    return e;
}

static tn__gemm_operand gemm_operand(const Call *c, const tn_gemm_operand *o)
{
    tn__gemm_operand out = {0};
    if (!o->buf)
        return out;
    const int64_t *d = c->plan->dims;
    const int64_t size = (int64_t)tn__dtype_size(c->p->buffers[o->buf].dtype);
    out.data = (char *)c->at[o->buf] + d[o->offset] * size;
    out.rows = d[o->rows];
    out.cols = d[o->cols];
    out.batch[0] = d[o->batch0];
    out.batch[1] = d[o->batch1];
    return out;
}

tn__gemm_args tn__cpu_gemm_args(const Call *c, int step)
{
    const tn_gemm_step *g = &c->p->gemms[c->p->steps[step].kernel];
    const int64_t *d = c->plan->dims;
    return (tn__gemm_args){
        .dtype = c->p->buffers[g->a.buf].dtype,
        .c_dtype = c->p->buffers[g->c.buf].dtype,
        .m = d[g->m],
        .n = d[g->n],
        .k = d[g->k],
        .batch = {d[g->batch0], d[g->batch1], 1},
        .a = gemm_operand(c, &g->a),
        .b = gemm_operand(c, &g->b),
        .c = gemm_operand(c, &g->c),
        .sum_a = gemm_operand(c, &g->sum_a),
        .sum_b = gemm_operand(c, &g->sum_b),
        .accumulate = g->accumulate,
        .accumulate_sums = g->accumulate,
    };
}

static tn_status cpu_gemm(Call *c, int step)
{
    tn__gemm_args args = tn__cpu_gemm_args(c, step);
    tn__cpu_use_panels(c, step, &args);
    if (tn__gemm(&args, c->m->ctx->pool))
        return tn__fail(TN_ABI, "%s: a product has operands that do not fit", c->p->name);
    return TN_OK;
}

/* Guards of other devices never hold. */
static bool no(tn__device *d, int64_t k)
{
    (void)d, (void)k;
    return false;
}

static tn_status cpu_constant(Call *c, int buffer, void **out)
{
    *out = (void *)(uintptr_t)c->p->buffers[buffer].data;
    return TN_OK;
}

/* --- instances, streams, events ------------------------------------------------------------------
 */

static tn_status cpu_open(tn_model *m)
{
    (void)m;
    return TN_OK;
}

static void cpu_close(tn_model *m)
{
    tn__cpu_free_panels(m);
}

static void cpu_adopt(tn_model *m)
{
    (void)m;
}

static tn_status cpu_turn(tn_model *m, tn_stream *s)
{
    (void)m, (void)s;
    return TN_OK;
}

/* cpu_launch reports them at once. */
static tn_status cpu_mistakes(tn_model *m, bool synchronised)
{
    (void)m, (void)synchronised;
    return TN_OK;
}

static tn_status cpu_mistakes_on(tn__device *d, uint64_t stream)
{
    (void)d, (void)stream;
    return TN_OK;
}

static tn_status cpu_stream_open(tn_stream *s)
{
    (void)s;
    return TN_OK;
}

static void cpu_stream_close(tn_stream *s)
{
    (void)s;
}

static void cpu_event_close(tn_event *e)
{
    (void)e;
}

static tn_status cpu_event_record(tn_event *e, tn_stream *s)
{
    struct timespec t;
    (void)s;
    clock_gettime(CLOCK_MONOTONIC, &t);
    e->ms = (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
    return TN_OK;
}

static tn_status cpu_event_wait(tn_stream *s, const tn_event *e)
{
    (void)s, (void)e; /* what was recorded has happened */
    return TN_OK;
}

static tn_status cpu_event_sync(const tn_event *e)
{
    (void)e;
    return TN_OK;
}

static tn_status cpu_event_elapsed(const tn_event *from, const tn_event *to, double *ms)
{
    *ms = to->ms - from->ms;
    return TN_OK;
}

const tn__backend tn__cpu_backend = {
    .host = true,
    .align = 1,
    .enter = nothing,
    .leave = nothing,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .record = cpu_record,
    .upload = cpu_copy_to,
    .download = cpu_copy_to,
    .copy = cpu_copy,
    .peer = cpu_peer,
    .strided = cpu_strided,
    .fill = cpu_fill,
    .sync = cpu_sync,
    .launch = cpu_launch,
    .gemm = cpu_gemm,
    .strip = tn__cpu_strip,
    .strip_bytes = tn__cpu_strip_bytes,
    .rows = tn__cpu_rows,
    .arch = no,
    .has = no,
    .open = cpu_open,
    .close = cpu_close,
    .adopt = cpu_adopt, /* there is nothing to do */
    .begin = cpu_turn,
    .end = cpu_turn,
    .mistakes = cpu_mistakes,
    .mistakes_on = cpu_mistakes_on,
    .constant = cpu_constant,
    .stream_open = cpu_stream_open,
    .stream_close = cpu_stream_close,
    .event_close = cpu_event_close,
    .event_record = cpu_event_record,
    .event_wait = cpu_event_wait,
    .event_sync = cpu_event_sync,
    .event_elapsed = cpu_event_elapsed,
};
