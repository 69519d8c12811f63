/* cuda_model.c: instances on a GPU: code, constants, the order of their calls, what kernels report,
 * launches. SPDX-License-Identifier: MIT */
#include "runtime/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- error words and counters --------------------------------------------------------------------
 * Each step whose kernel checks something has four numbers of its own, as a kernel knows only its
 * checks, and what it wrote is read much later. Each step whose cells count themselves has counters
 * of its own: they are 0 between launches, and calls of an instance follow each other. */

static tn_status number_words(tn__gpu_model *x)
{
    const tn_model_desc *d = x->m->d;
    int steps = 0, buffers = 0;
    x->first_step = calloc((size_t)d->nprograms + 1, sizeof *x->first_step);
    x->first_constant = calloc((size_t)d->nprograms + 1, sizeof *x->first_constant);
    if (!x->first_step || !x->first_constant)
        return tn__fail(TN_MEMORY, "no memory for an instance");
    for (int i = 0; i < d->nprograms; i++) {
        x->first_step[i] = steps;
        x->first_constant[i] = buffers;
        steps += d->programs[i].nsteps;
        buffers += d->programs[i].nbuffers + 1;
    }
    x->words = calloc((size_t)steps + 1, sizeof *x->words);
    x->counters = calloc((size_t)steps + 1, sizeof *x->counters);
    x->constants = calloc((size_t)buffers + 1, sizeof *x->constants);
    if (!x->words || !x->counters || !x->constants)
        return tn__fail(TN_MEMORY, "no memory for an instance");
    for (int i = 0; i < d->nprograms; i++)
        for (int k = 0; k < d->programs[i].nsteps; k++) {
            const tn_step *s = &d->programs[i].steps[k];
            const bool checks = s->kind == TN_STEP_LAUNCH && d->kernels[s->kernel].nchecks > 0;
            x->words[x->first_step[i] + k] = checks ? x->nwords++ : -1;
            x->counters[x->first_step[i] + k] = x->ncounters;
            if (s->kind == TN_STEP_LAUNCH)
                x->ncounters += d->kernels[s->kernel].counters;
        }
    return TN_OK;
}

static size_t words_bytes(const tn__gpu_model *x)
{
    return (size_t)x->nwords * 4 * sizeof(int32_t);
}

static tn_status make_words(tn__gpu *g, tn__gpu_model *x)
{
    void *seen = NULL;
    if (!x->nwords)
        return TN_OK;
    tn_status s =
        tn__cu(g, g->cu->host_alloc(&seen, words_bytes(x), CU_HOST_PORTABLE), "pinned memory");
    if (s)
        return s;
    x->seen = seen;
    memset(seen, 0, words_bytes(x));
    x->word = (CUdeviceptr)(uintptr_t)tn__gpu_alloc(&g->base, g->base.stream, words_bytes(x),
                                                    TN_FOR_STATE);
    if (!x->word)
        return TN_MEMORY;
    return tn__cu(g, g->cu->fill8(x->word, 0, words_bytes(x), g->base.stream->native),
                  "clearing error words");
}

static tn_status make_counters(tn__gpu *g, tn__gpu_model *x)
{
    const size_t bytes = (size_t)x->ncounters * sizeof(uint32_t);
    if (!bytes)
        return TN_OK;
    x->arrived =
        (CUdeviceptr)(uintptr_t)tn__gpu_alloc(&g->base, g->base.stream, bytes, TN_FOR_STATE);
    if (!x->arrived)
        return TN_MEMORY;
    return tn__cu(g, g->cu->fill8(x->arrived, 0, bytes, g->base.stream->native),
                  "clearing counters");
}

/* --- instances -----------------------------------------------------------------------------------
 */

static void list_model(tn__gpu *g, tn__gpu_model *x, bool add)
{
    pthread_mutex_lock(&g->lock);
    tn__gpu_model **at = &g->models;
    while (*at && *at != x)
        at = &(*at)->next;
    if (*at)
        *at = x->next;
    if (add) {
        x->next = g->models;
        g->models = x;
    }
    pthread_mutex_unlock(&g->lock);
}

tn_status tn__gpu_open_model(tn_model *m)
{
    tn__gpu *g = tn__gpu_of(m->dev);
    tn__gpu_model *x = calloc(1, sizeof *x);
    if (!x)
        return tn__fail(TN_MEMORY, "no memory for an instance");
    m->impl = x;
    x->m = m;
    tn_status s = number_words(x);
    if (!s)
        s = tn__cu(g, g->cu->event_create(&x->done, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    if (!s)
        s = tn__gpu_module(g, m->d, &x->module);
    if (!s)
        s = make_words(g, x);
    if (!s)
        s = make_counters(g, x);
    list_model(g, x, true);
    if (s)
        return s;
    /* the memory of the words belongs to the default stream */
    m->stream = g->base.stream->id;
    return tn__cu(g, g->cu->event_record(x->done, g->base.stream->native), "cuEventRecord");
}

void tn__gpu_close_model(tn_model *m)
{
    tn__gpu *g = tn__gpu_of(m->dev);
    tn__gpu_model *x = m->impl;
    if (!x)
        return;
    if (x->done) { /* memory and code may be in use until then */
        g->cu->event_sync(x->done);
        g->cu->event_destroy(x->done);
    }
    list_model(g, x, false);
    for (int i = 0; x->constants && i < m->d->nprograms; i++)
        for (int k = 0; k <= m->d->programs[i].nbuffers; k++)
            tn__gpu_free(m->dev, x->constants[x->first_constant[i] + k], 0);
    tn__gpu_free(m->dev, (void *)(uintptr_t)x->word, 0);
    tn__gpu_free(m->dev, (void *)(uintptr_t)x->arrived, 0);
    if (x->seen)
        g->cu->host_free(x->seen);
    tn__gpu_module_release(g, x->module);
    free(x->constants);
    free(x->first_constant);
    free(x->first_step);
    free(x->words);
    free(x->counters);
    free(x);
    m->impl = NULL;
}

void tn__gpu_adopt_model(tn_model *m)
{
    tn__gpu *g = tn__gpu_of(m->dev);
    tn__gpu_model *x = m->impl;
    pthread_mutex_lock(&g->lock);
    x->m = m;
    pthread_mutex_unlock(&g->lock);
}

tn_status tn__gpu_begin(tn_model *m, tn_stream *s)
{
    tn__gpu *g = tn__gpu_of(m->dev);
    const tn__gpu_model *x = m->impl;
    if (!m->stream || m->stream == s->id)
        return TN_OK;
    return tn__cu(g, g->cu->stream_wait(s->native, x->done, 0), "cuStreamWaitEvent");
}

tn_status tn__gpu_end(tn_model *m, tn_stream *s)
{
    tn__gpu *g = tn__gpu_of(m->dev);
    tn__gpu_model *x = m->impl;
    CUresult r = CUDA_SUCCESS;
    if (x->wrote) {
        r = g->cu->download(x->seen, x->word, words_bytes(x), s->native);
        x->asked = true;
        x->wrote = false;
    }
    if (!r)
        r = g->cu->event_record(x->done, s->native);
    return tn__cu(g, r, "the end of a call");
}

/* Words are cleared in the order of the default stream. */
static tn_status clear_words(tn_model *m)
{
    tn__gpu *g = tn__gpu_of(m->dev);
    tn__gpu_model *x = m->impl;
    tn_stream *s = g->base.stream;
    memset(x->seen, 0, words_bytes(x));
    tn_status e = tn__gpu_begin(m, s);
    if (!e)
        e = tn__cu(g, g->cu->fill8(x->word, 0, words_bytes(x), s->native), "clearing error words");
    if (!e)
        e = tn__gpu_end(m, s);
    m->stream = s->id;
    return e;
}

static tn_status report_word(tn_model *m, int word)
{
    const tn__gpu_model *x = m->impl;
    int32_t error[4];
    memcpy(error, x->seen + (ptrdiff_t)word * 4, sizeof error);
    const tn_status cleared = clear_words(m);
    if (cleared)
        return cleared;
    for (int i = 0; i < m->d->nprograms; i++) {
        const tn_program *p = &m->d->programs[i];
        for (int k = 0; k < p->nsteps; k++)
            if (x->words[x->first_step[i] + k] == word)
                return tn__index_error(p, &m->d->kernels[p->steps[k].kernel], p->steps[k].where,
                                       error);
    }
    return TN_OK;
}

tn_status tn__gpu_mistakes(tn_model *m, bool synchronised)
{
    tn__gpu *g = tn__gpu_of(m->dev);
    tn__gpu_model *x = m->impl;
    if (!x->asked)
        return TN_OK;
    if (!synchronised) {
        const CUresult r = g->cu->event_query(x->done);
        if (r)
            return r == CUDA_ERROR_NOT_READY ? TN_OK : tn__cu(g, r, "an earlier call");
    }
    x->asked = false;
    for (int i = 0; i < x->nwords; i++)
        if (x->seen[i * 4])
            return report_word(m, i);
    return TN_OK;
}

tn_status tn__gpu_mistakes_on(tn__device *d, uint64_t stream)
{
    tn__gpu *g = tn__gpu_of(d);
    tn_status s = TN_OK;
    d->ops->enter(d);
    pthread_mutex_lock(&g->lock);
    for (tn__gpu_model *x = g->models; x && !s; x = x->next)
        if ((!stream || x->m->stream == stream) && !pthread_mutex_trylock(&x->m->busy)) {
            /* another thread may have called it since the synchronisation: that is not done */
            s = tn__gpu_mistakes(x->m, false);
            pthread_mutex_unlock(&x->m->busy);
        } /* one that another thread calls now says it itself */
    pthread_mutex_unlock(&g->lock);
    d->ops->leave(d);
    return s;
}

tn_status tn__gpu_constant(Call *c, int buffer, void **out)
{
    const tn_model *m = c->m;
    tn__gpu_model *x = m->impl;
    void **at = &x->constants[x->first_constant[c->p - m->d->programs] + buffer];
    const size_t bytes = c->plan->bytes[buffer];
    if (!*at) { /* once: it stays, on the stream that the instance's calls follow */
        void *p = tn__gpu_alloc(m->dev, c->stream, bytes, TN_FOR_STATE);
        if (!p)
            return TN_MEMORY;
        tn_status s = tn__gpu_upload(c->stream, p, c->p->buffers[buffer].data, bytes);
        if (!s)
            s = tn__gpu_sync(c->stream);
        if (s) {
            tn__gpu_free(m->dev, p, c->stream->id);
            return s;
        }
        *at = p;
    }
    *out = *at;
    return TN_OK;
}

/* --- launches ------------------------------------------------------------------------------------
 */

/* Parameters in the kernel's order: pointers, sizes, the error word, the counters. */
typedef struct {
    uint64_t pointers[TN_MAX_OPERANDS];
    int64_t wide[TN_MAX_SIZES];
    int32_t narrow[TN_MAX_SIZES];
    CUdeviceptr word, arrived;
    void *at[TN_MAX_OPERANDS + TN_MAX_SIZES + 2];
} Parameters;

static tn_status parameters(Call *c, const tn_step *s, const tn_kernel *k, Parameters *p)
{
    int n = 0;
    if (s->nops > TN_MAX_OPERANDS || s->nints > TN_MAX_SIZES)
        return tn__fail(TN_ABI, "%s: kernel %s has too many parameters", c->p->name, k->name);
    for (int i = 0; i < s->nops; i++) {
        p->pointers[i] = (uintptr_t)tn__operand(c, s->operands + i);
        p->at[n++] = &p->pointers[i];
    }
    for (int i = 0; i < s->nints; i++) {
        const int64_t v = c->plan->dims[c->p->lists[s->ints + i]];
        p->wide[i] = v;
        p->narrow[i] = (int32_t)v;
        if (k->wide >> i & 1)
            p->at[n++] = &p->wide[i];
        else if (v == p->narrow[i])
            p->at[n++] = &p->narrow[i];
        else
            return tn__fail(TN_SHAPE, "%s: %lld is too large for kernel %s", c->p->name,
                            (long long)v, k->name);
    }
    if (k->nchecks)
        p->at[n++] = &p->word;
    if (k->counters)
        p->at[n++] = &p->arrived;
    return TN_OK;
}

static tn_status launch_failed(const Call *c, const tn_kernel *k, CUresult r)
{
    char text[256];
    tn__cu_text(tn__gpu_of(c->m->dev)->cu, r, text, sizeof text);
    return tn__fail(TN_DRIVER, "%s: kernel %s (%s) failed on cuda:%d: %s", c->p->name, k->name,
                    k->where ? k->where : "?", (int)c->m->dev->dl.device_id, text);
}

tn_status tn__gpu_launch(Call *c, int step)
{
    const tn__gpu *g = tn__gpu_of(c->m->dev);
    tn__gpu_model *x = c->m->impl;
    const tn_step *s = &c->p->steps[step];
    const tn_kernel *k = &c->m->d->kernels[s->kernel];
    const int word = x->words[x->first_step[c->p - c->m->d->programs] + step];
    Parameters p;
    p.word = word >= 0 ? x->word + (CUdeviceptr)word * 4 * sizeof(int32_t) : 0;
    p.arrived =
        x->arrived +
        (CUdeviceptr)x->counters[x->first_step[c->p - c->m->d->programs] + step] * sizeof(uint32_t);
    const tn_status e = parameters(c, s, k, &p);
    if (e)
        return e;
    const int64_t each = k->block_cells > 0 ? k->block_cells : 1;
    const int64_t blocks = (c->plan->dims[s->cells] + each - 1) / each;
    if (blocks > INT32_MAX)
        return tn__fail(TN_SHAPE, "%s: kernel %s: the sizes are too large", c->p->name, k->name);
    x->wrote |= word >= 0;
    if (c->stream->recorder) {
        const tn__kernel_node node = {.function = x->module->functions[s->kernel],
                                      .grid = {(unsigned)blocks, 1, 1},
                                      .block = {(unsigned)(k->lanes > 0 ? k->lanes : 1),
                                                (unsigned)(k->teams > 0 ? k->teams : 1), 1},
                                      .parameters = p.at};
        tn__record_launch(c->stream, step, p.pointers, s->nops, &node);
        return TN_OK;
    }
    CUresult r =
        g->cu->launch(x->module->functions[s->kernel], (unsigned)blocks, 1, 1,
                      (unsigned)(k->lanes > 0 ? k->lanes : 1),
                      (unsigned)(k->teams > 0 ? k->teams : 1), 1, 0, c->stream->native, p.at, NULL);
    if (!r && g->blocking)
        r = g->cu->stream_sync(c->stream->native);
    return r ? launch_failed(c, k, r) : TN_OK;
}
