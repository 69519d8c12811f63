/* parts.c: instances over several devices: what they have on each but the first.
 * SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tn_status events_new(tn_model *part)
{
    tn_event **const wanted[] = {&part->mark, &part->copied};
    for (int i = 0; i < 2; i++) {
        tn_event *e = calloc(1, sizeof *e);
        if (!e)
            return tn__fail(TN_MEMORY, "no memory for an instance");
        e->ctx = part->ctx;
        e->dev = part->dev;
        *wanted[i] = e;
    }
    return TN_OK;
}

static void event_end(tn_event *e)
{
    if (e)
        e->dev->ops->event_close(e);
    free(e);
}

/* The streams and events of a part, where it is a GPU. */
static tn_status open_streams(tn_model *part, bool first)
{
    tn_status s = events_new(part);
    if (part->dev->ops->host)
        return s;
    if (!s && !first)
        s = tn__stream_new(part->dev, NULL, false, &part->own);
    return s ? s : tn__stream_new(part->dev, NULL, false, &part->copies);
}

/* "two: cuda:1: there is 1 CUDA device" */
static tn_status missing(const tn_model *m)
{
    char why[512];
    snprintf(why, sizeof why, "%s", tn_last_error());
    return tn__fail(TN_UNSUPPORTED, "%s needs a device that is not there: %s", m->d->name, why);
}

static tn_status open_part(tn_model *m, int place)
{
    const tn_place *at = &m->d->places[place];
    tn_model *part = calloc(1, sizeof *part);
    if (!part)
        return tn__fail(TN_MEMORY, "no memory for an instance");
    m->parts[place] = part;
    part->ctx = m->ctx;
    part->made_of = m->made_of;
    part->d = m->d;
    tn__lock_init(&part->busy);
    part->dev = tn__device_get(m->ctx, (DLDevice){(DLDeviceType)at->type, at->number});
    if (!part->dev)
        return missing(m);
    part->dev->ops->enter(part->dev);
    const tn_status s = part->dev->ops->open(part);
    part->dev->ops->leave(part->dev);
    return s ? s : open_streams(part, false);
}

tn_status tn__parts_open(tn_model *m)
{
    if (m->d->nplaces < 2)
        return TN_OK;
    m->parts = calloc((size_t)m->d->nplaces, sizeof *m->parts);
    if (!m->parts)
        return tn__fail(TN_MEMORY, "no memory for an instance");
    m->nparts = m->d->nplaces;
    m->parts[0] = m;
    tn_status s = open_streams(m, true);
    for (int i = 1; i < m->nparts && !s; i++)
        s = open_part(m, i);
    return s;
}

void tn__arena_free(tn_model *m, uint64_t stream)
{
    if (m->pinned)
        tn__cuda_host_free(m->ctx, m->arena);
    else
        m->dev->ops->free(m->dev, m->arena, stream);
    m->arena = NULL;
    m->arena_bytes = 0;
    m->pinned = false;
}

/* Streams wait for their work when they end. */
static void close_streams(tn_model *part)
{
    tn__device *d = part->dev;
    if (part->copies)
        tn__stream_end(part->copies);
    if (part->own)
        tn__stream_end(part->own);
    d->ops->enter(d);
    event_end(part->mark);
    event_end(part->copied);
    d->ops->leave(d);
    part->copies = part->own = NULL;
    part->mark = part->copied = NULL;
}

void tn__parts_wait(tn_model *m)
{
    for (int i = 0; m->parts && i < m->nparts; i++) {
        const tn_model *part = m->parts[i];
        tn_stream *const streams[] = {part ? part->own : NULL, part ? part->copies : NULL};
        for (int k = 0; k < 2; k++)
            if (streams[k]) {
                part->dev->ops->enter(part->dev);
                part->dev->ops->sync(streams[k]);
                part->dev->ops->leave(part->dev);
            }
    }
}

static void close_part(tn_model *part)
{
    tn__device *d = part->dev;
    if (d) {
        d->ops->enter(d);
        d->ops->close(part);
        tn__arena_free(part, 0);
        d->ops->leave(d);
        close_streams(part);
    }
    pthread_mutex_destroy(&part->busy);
    free(part);
}

void tn__parts_close(tn_model *m)
{
    if (!m->parts)
        return;
    for (int i = 1; i < m->nparts; i++)
        if (m->parts[i])
            close_part(m->parts[i]);
    if (m->mark)
        close_streams(m);
    free(m->parts);
    m->parts = NULL;
}
