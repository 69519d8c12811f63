/* place.c: where everything of a call lies: arguments and results in place or staged, temporaries,
 * tape, state. SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

#include <stdlib.h>
#include <string.h>

/* --- arguments and results -----------------------------------------------------------------------
 */

static void *device_alloc(Call *c, size_t bytes, tn__use use)
{
    return c->m->dev->ops->alloc(c->m->dev, c->stream, bytes, use);
}

/* Of an argument that cannot be used where it is. */
static tn_status stage_in(Call *c, Staged *g, size_t bytes)
{
    const tn__backend *ops = c->m->dev->ops;
    const DLTensor *t = g->of;
    if (!tn__on_host(t) || ops->host) {
        const tn__strided pack = tn__packing(t, g->copy, true);
        return ops->strided(c->stream, &pack);
    }
    if (g->packed) {
        const tn__strided pack = tn__packing(t, g->packed, true);
        tn__copy_strided(&pack);
    }
    return ops->upload(c->stream, g->copy, g->packed ? g->packed : tn__data(t), bytes);
}

static tn_status stage(Call *c, const DLTensor *t, int buffer, bool is_argument, bool is_result)
{
    const size_t bytes = c->plan->bytes[buffer];
    Staged *g = &c->staged[c->nstaged++];
    *g = (Staged){.of = t, .is_result = is_result};
    g->copy = device_alloc(c, bytes, TN_FOR_COPY);
    if (!g->copy)
        return TN_MEMORY;
    c->at[buffer] = g->copy;
    if (tn__on_host(t) && !c->m->dev->ops->host) {
        c->waits |= is_result || t->device.device_type != kDLCUDAHost;
        if (!tn__contiguous(t)) {
            c->waits = true;
            g->packed = tn__alloc(c->m->ctx, bytes);
            if (!g->packed)
                return TN_MEMORY;
        }
    }
    return is_argument && bytes ? stage_in(c, g, bytes) : TN_OK;
}

/* A staged argument is a result too. */
static tn_status share_stage(Call *c, Staged *g)
{
    g->is_result = true;
    c->waits |= tn__on_host(g->of) && !c->m->dev->ops->host;
    return TN_OK;
}

/* Results of ours are in memory of the host where nothing of the call is on the device. */
static bool results_to_host(const Call *c)
{
    for (int i = 0; i < c->p->nargs; i++)
        if (c->args[i] && c->args[i]->data && !tn__on_host(c->args[i]))
            return false;
    return true;
}

/* Results of ours are in plain memory of the host, or on the model's device. */
static tn_status check_wish(const Call *c, const char *name, DLDevice wanted)
{
    const DLDevice have = c->m->dev->dl;
    char place[32] = "";
    if (!wanted.device_type || wanted.device_type == kDLCPU ||
        (wanted.device_type == have.device_type && wanted.device_id == have.device_id))
        return TN_OK;
    if (wanted.device_type == kDLCUDAHost)
        return tn__fail(TN_DEVICE,
                        "%s: '%s' is wanted in pinned memory, which a call does not allocate: pass "
                        "memory of tn_host_alloc",
                        c->p->name, name);
    if (!c->m->dev->ops->host)
        snprintf(place, sizeof place, " or on cuda:%d", (int)have.device_id);
    return tn__fail(TN_DEVICE, "%s: '%s' is wanted on another device: it may be in host memory%s",
                    c->p->name, name, place);
}

/* A result that the caller left to us. */
static tn_status make_result(Call *c, DLTensor *t, const tn_arg *a)
{
    const int buffer = a->buffer;
    const tn_buffer *b = &c->p->buffers[buffer];
    const DLTensor was = *t;
    int64_t shape[TN_MAX_RANK];
    const bool host = was.device.device_type ? tn__on_host(t) : c->to_host;
    const tn_status wish = check_wish(c, a->name, was.device);
    if (wish)
        return wish;
    for (int i = 0; i < b->rank; i++)
        shape[i] = c->plan->dims[c->p->lists[b->shape + i]];
    const tn_status s = tn__tensor_make(host ? c->m->ctx->cpu : c->m->dev, c->stream, b->dtype,
                                        b->rank, shape, c->plan->bytes[buffer], t);
    if (s)
        return s;
    c->made[c->nmade++] = (Made){t, was};
    if (host && !c->m->dev->ops->host)
        return stage(c, t, buffer, false, true);
    c->at[buffer] = t->data;
    return TN_OK;
}

static bool in_place(const Call *c, const DLTensor *t, size_t size)
{
    const tn__backend *ops = c->m->dev->ops;
    const size_t align = size > ops->align ? size : ops->align;
    return (ops->host || !tn__on_host(t)) && tn__contiguous(t) &&
           (uintptr_t)tn__data(t) % align == 0;
}

static tn_status place_argument(Call *c, int i)
{
    const tn_arg *a = &c->p->args[i];
    const int buffer = a->buffer;
    const DLTensor *t = c->args[i];
    const tn_buffer *b = &c->p->buffers[buffer];
    if (b->kind != TN_BUF_ARG && b->kind != TN_BUF_RESULT)
        return TN_OK; /* a result that is state or a piece of another buffer has its own place */
    if (!t && !a->is_result)
        return TN_OK;
    if (t && c->at[buffer]) { /* updated in place: argument and result are one buffer */
        for (int k = 0; k < c->nstaged; k++)
            if (c->staged[k].copy == c->at[buffer] && c->staged[k].of)
                return share_stage(c, &c->staged[k]);
        return TN_OK;
    }
    if (!t) { /* not wanted: computed into memory of our own */
        void *p = device_alloc(c, c->plan->bytes[buffer], TN_FOR_TEMPS);
        if (!p)
            return TN_MEMORY;
        c->staged[c->nstaged++] = (Staged){.copy = p};
        c->at[buffer] = p;
        return TN_OK;
    }
    if (a->is_result && !t->data)
        return make_result(c, (DLTensor *)(uintptr_t)t, a);
    if (in_place(c, t, tn__dtype_size(b->dtype))) {
        c->at[buffer] = tn__data(t);
        return TN_OK;
    }
    return stage(c, t, buffer, !a->is_result || a->inout, a->is_result || a->inout);
}

static tn_status place_arguments(Call *c)
{
    tn_status s = TN_OK;
    c->to_host = c->m->dev->ops->host || results_to_host(c);
    for (int i = 0; i < c->p->nargs && !s; i++)
        s = place_argument(c, i);
    return s;
}

tn_status tn__write_back(Call *c)
{
    const tn__backend *ops = c->m->dev->ops;
    tn_status s = TN_OK;
    for (int i = 0; i < c->nstaged && !s; i++) {
        const Staged *g = &c->staged[i];
        if (!g->is_result || !tn__numel(g->of))
            continue;
        if (tn__on_host(g->of) && !ops->host) {
            const size_t size = tn__dtype_size(tn__dtype_of(g->of->dtype));
            s = ops->download(c->stream, g->packed ? g->packed : tn__data(g->of), g->copy,
                              (size_t)tn__numel(g->of) * size);
        } else {
            const tn__strided unpack = tn__packing(g->of, g->copy, false);
            s = ops->strided(c->stream, &unpack);
        }
    }
    return s;
}

void tn__unpack_results(const Call *c)
{
    for (int i = 0; i < c->nstaged; i++)
        if (c->staged[i].is_result && c->staged[i].packed) {
            const tn__strided unpack = tn__packing(c->staged[i].of, c->staged[i].packed, false);
            tn__copy_strided(&unpack);
        }
}

void tn__unplace(Call *c, bool failed)
{
    tn__device *d = c->m->dev;
    if (failed && c->waits)
        d->ops->sync(c->stream); /* memory of the host may be in use: this call's error stands */
    for (int i = 0; i < c->nstaged; i++) {
        if (c->staged[i].copy)
            d->ops->free(d, c->staged[i].copy, c->stream->id);
        tn__free(c->m->ctx, c->staged[i].packed);
    }
    while (failed && c->nmade) { /* what is wanted where stays, for another try */
        const Made *m = &c->made[--c->nmade];
        tn_tensor_release(m->t);
        *m->t = m->was;
    }
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

static tn_status place_memory(Call *c)
{
    tn_model *m = c->m;
    if (c->plan->arena > m->arena_bytes) {
        /* the old one first: there may not be room for both */
        m->dev->ops->free(m->dev, m->arena, c->stream->id);
        m->arena_bytes = 0;
        m->arena = device_alloc(c, c->plan->arena, TN_FOR_TEMPS);
        if (!m->arena)
            return TN_MEMORY;
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
        case TN_BUF_CONST: {
            const tn_status s = m->dev->ops->constant(c, i, &c->at[i]);
            if (s)
                return s;
            break;
        }
        default:
            break;
        }
    }
    return TN_OK;
}

/* It follows the buffer that it lies in; chains are short. */
void tn__place_piece(Call *c, int buffer)
{
    int64_t offset = 0;
    int k = buffer;
    while (c->p->buffers[k].of) {
        offset += c->plan->dims[c->p->buffers[k].offset] *
                  (int64_t)tn__dtype_size(c->p->buffers[k].dtype);
        k = c->p->buffers[k].of;
    }
    if (k != buffer)
        c->at[buffer] = c->at[k] ? (char *)c->at[k] + offset : NULL;
}

static void place_pieces(Call *c)
{
    for (int i = 1; i < c->p->nbuffers; i++)
        tn__place_piece(c, i);
}

tn_status tn__place(Call *c)
{
    tn_status s = place_arguments(c);
    if (!s)
        s = check_overlap(c);
    if (!s)
        s = place_memory(c);
    if (!s)
        place_pieces(c);
    return s;
}
