/* place.c: where everything of a call lies: arguments and results in place or staged, temporaries,
 * tape, state. SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

#include <stdlib.h>
#include <string.h>

/* --- arguments and results -----------------------------------------------------------------------
 */

/* On the device of a place. */
static void *device_alloc(Call *c, int place, size_t bytes, tn__use use)
{
    const Call *on = tn__at(c, place);
    tn__device *d = on->m->dev;
    d->ops->enter(d);
    void *p = d->ops->alloc(d, on->stream, bytes, use);
    d->ops->leave(d);
    return p;
}

/* Of an argument that cannot be used where it is. */
static tn_status stage_in(Call *c, Staged *g, size_t bytes)
{
    const Call *on = tn__at(c, g->place);
    const tn__backend *ops = on->m->dev->ops;
    const DLTensor *t = g->of;
    tn_status s;
    ops->enter(on->m->dev);
    if (!tn__on_host(t) || ops->host) {
        const tn__strided pack = tn__packing(t, g->copy, true);
        s = ops->strided(on->stream, &pack);
    } else {
        if (g->packed) {
            const tn__strided pack = tn__packing(t, g->packed, true);
            tn__copy_strided(&pack);
        }
        s = ops->upload(on->stream, g->copy, g->packed ? g->packed : tn__data(t), bytes);
    }
    ops->leave(on->m->dev);
    return s;
}

static tn_status stage(Call *c, const DLTensor *t, int buffer, bool is_argument, bool is_result)
{
    const size_t bytes = c->plan->bytes[buffer];
    const int place = c->p->buffers[buffer].place;
    Staged *g = &c->staged[c->nstaged++];
    *g = (Staged){.of = t, .is_result = is_result, .place = place};
    g->copy = device_alloc(c, place, bytes, TN_FOR_COPY);
    if (!g->copy)
        return TN_MEMORY;
    c->at[buffer] = g->copy;
    if (tn__on_host(t) && !tn__at(c, place)->m->dev->ops->host) {
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
    c->waits |= tn__on_host(g->of) && !tn__at(c, g->place)->m->dev->ops->host;
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
static tn_status check_wish(const Call *c, const tn__device *d, const char *name, DLDevice wanted)
{
    const DLDevice have = d->dl;
    char place[32] = "";
    if (!wanted.device_type || wanted.device_type == kDLCPU ||
        (wanted.device_type == have.device_type && wanted.device_id == have.device_id))
        return TN_OK;
    if (wanted.device_type == kDLCUDAHost)
        return tn__fail(TN_DEVICE,
                        "%s: '%s' is wanted in pinned memory, which a call does not allocate: pass "
                        "memory of tn_host_alloc",
                        c->p->name, name);
    if (!d->ops->host)
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
    const Call *on = tn__at(c, b->place);
    tn__device *d = on->m->dev;
    const bool host = d->ops->host || (was.device.device_type ? tn__on_host(t) : c->to_host);
    const tn_status wish = check_wish(c, d, a->name, was.device);
    if (wish)
        return wish;
    for (int i = 0; i < b->rank; i++)
        shape[i] = c->plan->dims[c->p->lists[b->shape + i]];
    d->ops->enter(d);
    const tn_status s = tn__tensor_make(host ? c->m->ctx->cpu : d, on->stream, b->dtype, b->rank,
                                        shape, c->plan->bytes[buffer], t);
    d->ops->leave(d);
    if (s)
        return s;
    c->made[c->nmade++] = (Made){t, was};
    if (host && !d->ops->host)
        return stage(c, t, buffer, false, true);
    c->at[buffer] = t->data;
    return TN_OK;
}

static bool in_place(Call *c, const DLTensor *t, int place, size_t size)
{
    const tn__backend *ops = tn__at(c, place)->m->dev->ops;
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
        void *p = device_alloc(c, b->place, c->plan->bytes[buffer], TN_FOR_TEMPS);
        if (!p)
            return TN_MEMORY;
        c->staged[c->nstaged++] = (Staged){.copy = p, .place = b->place};
        c->at[buffer] = p;
        return TN_OK;
    }
    if (a->is_result && !t->data)
        return make_result(c, (DLTensor *)(uintptr_t)t, a);
    if (in_place(c, t, b->place, tn__dtype_size(b->dtype))) {
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
    tn_status s = TN_OK;
    for (int i = 0; i < c->nstaged && !s; i++) {
        const Staged *g = &c->staged[i];
        const Call *on = tn__at(c, g->place);
        const tn__backend *ops = on->m->dev->ops;
        if (!g->is_result || !tn__numel(g->of))
            continue;
        ops->enter(on->m->dev);
        if (tn__on_host(g->of) && !ops->host) {
            const size_t size = tn__dtype_size(tn__dtype_of(g->of->dtype));
            s = ops->download(on->stream, g->packed ? g->packed : tn__data(g->of), g->copy,
                              (size_t)tn__numel(g->of) * size);
        } else {
            const tn__strided unpack = tn__packing(g->of, g->copy, false);
            s = ops->strided(on->stream, &unpack);
        }
        ops->leave(on->m->dev);
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
    if (failed && c->parts)
        tn__lanes_sync(c);
    else if (failed && c->waits) /* memory of the host may be in use: this call's error stands */
        c->m->dev->ops->sync(c->stream);
    for (int i = 0; i < c->nstaged; i++) {
        const Call *on = tn__at(c, c->staged[i].place);
        if (c->staged[i].copy) {
            on->m->dev->ops->enter(on->m->dev);
            on->m->dev->ops->free(on->m->dev, c->staged[i].copy, on->stream->id);
            on->m->dev->ops->leave(on->m->dev);
        }
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

static void *tape_memory(const tn_tape *t, int place)
{
    return place ? t->further[place].memory : t->memory;
}

/* Copies to and from a GPU do not wait for the host where its memory is pinned. */
static void *arena_alloc(Call *c, int place, size_t bytes)
{
    tn_model *m = tn__at(c, place)->m;
    void *p = NULL;
    m->pinned = false;
    for (int i = 0; c->parts && m->dev->ops->host && i < c->m->nparts; i++) {
        tn__device *d = c->m->parts[i]->dev;
        if (d->ops->host)
            continue;
        d->ops->enter(d);
        m->pinned = tn__cuda_host_alloc(d, bytes, &p) == TN_OK;
        d->ops->leave(d);
        if (m->pinned)
            return p;
    }
    return device_alloc(c, place, bytes, TN_FOR_TEMPS);
}

static tn_status grow_arena(Call *c, int place, size_t bytes)
{
    const Call *on = tn__at(c, place);
    tn_model *m = on->m;
    if (bytes <= m->arena_bytes)
        return TN_OK;
    /* the old one first: there may not be room for both */
    m->dev->ops->enter(m->dev);
    tn__arena_free(m, on->stream->id);
    m->dev->ops->leave(m->dev);
    m->arena = arena_alloc(c, place, bytes);
    if (!m->arena)
        return TN_MEMORY;
    m->arena_bytes = bytes;
    return TN_OK;
}

static tn_status place_memory(Call *c)
{
    const int nparts = c->parts ? c->m->nparts : 1;
    for (int i = 0; i < nparts; i++) {
        const tn_status s = grow_arena(c, i, i ? c->plan->arenas[i] : c->plan->arena);
        if (s)
            return s;
    }
    for (int i = 1; i < c->p->nbuffers; i++) {
        const tn_buffer *b = &c->p->buffers[i];
        if (b->of)
            continue;
        switch (b->kind) {
        case TN_BUF_STATE:
            c->at[i] = c->m->slots[b->index];
            break;
        case TN_BUF_TEMP:
            c->at[i] = (char *)tn__at(c, b->place)->m->arena + c->plan->place[i];
            break;
        case TN_BUF_TAPE:
            c->at[i] = c->tape_in ? c->tape_in->at[b->index]
                                  : (char *)tape_memory(c->tape_out, b->place) + c->plan->place[i];
            break;
        case TN_BUF_CONST: {
            Call *on = tn__at(c, b->place);
            on->m->dev->ops->enter(on->m->dev);
            const tn_status s = on->m->dev->ops->constant(on, i, &c->at[i]);
            on->m->dev->ops->leave(on->m->dev);
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
