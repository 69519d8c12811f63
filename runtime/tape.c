/* tape.c: what a forward call keeps for its backward. Memory of its own for saved values;
 * arguments, results and state are kept by reference. SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

#include <stdlib.h>
#include <string.h>

/* What lies on devices but the first. */
static tn_status further_memory(Call *c, tn_tape *t)
{
    t->further = calloc((size_t)c->m->nparts, sizeof *t->further);
    if (!t->further)
        return tn__fail(TN_MEMORY, "no memory for a tape");
    t->nfurther = c->m->nparts;
    for (int i = 1; i < t->nfurther; i++) {
        const Call *on = tn__at(c, i);
        tn__device *d = on->m->dev;
        t->further[i] = (tn__owned){.dev = d, .stream = on->stream->id};
        if (!c->plan->tapes[i])
            continue;
        d->ops->enter(d);
        t->further[i].memory = d->ops->alloc(d, on->stream, c->plan->tapes[i], TN_FOR_TAPE);
        d->ops->leave(d);
        if (!t->further[i].memory)
            return TN_MEMORY;
        t->bytes += c->plan->tapes[i];
    }
    return TN_OK;
}

tn_status tn__tape_create(Call *c, int program)
{
    tn_tape *t = calloc(1, sizeof *t);
    if (!t)
        return tn__fail(TN_MEMORY, "no memory for a tape");
    c->tape_out = t;
    t->model = c->m;
    t->dev = c->m->dev;
    t->program = program;
    t->nsymbols = c->p->nsymbols;
    t->bytes = c->plan->tape;
    t->stream = c->stream->id;
    t->at = calloc((size_t)c->p->ntape + 1, sizeof *t->at);
    t->symbols = calloc((size_t)t->nsymbols + 1, sizeof *t->symbols);
    t->staged = calloc((size_t)c->p->nargs + 1, sizeof *t->staged);
    if (!t->at || !t->symbols || !t->staged)
        return tn__fail(TN_MEMORY, "no memory for a tape");
    memcpy(t->symbols, c->plan->symbols, sizeof *t->symbols * (size_t)t->nsymbols);
    if (t->bytes) {
        t->memory = c->m->dev->ops->alloc(c->m->dev, c->stream, t->bytes, TN_FOR_TAPE);
        if (!t->memory)
            return TN_MEMORY;
    }
    return c->parts ? further_memory(c, t) : TN_OK;
}

void tn__tape_keep(Call *c)
{
    tn_tape *t = c->tape_out;
    t->version = c->m->version;
    for (int i = 0; i < c->p->ntape; i++)
        t->at[i] = c->at[c->p->tape[i]];
    for (int i = 0; i < c->nstaged; i++) { /* the tape may point into them */
        const Call *on = tn__at(c, c->staged[i].place);
        t->staged[t->nstaged++] = (tn__owned){on->m->dev, c->staged[i].copy, on->stream->id};
        c->staged[i].copy = NULL;
    }
}

tn_status tn__tape_check(const tn_tape *t, const tn_model *m, const tn_program *backward)
{
    if (!t)
        return tn__fail(TN_INVALID, "%s: the tape is NULL (it was used already?)", backward->name);
    if (t->model != m)
        return tn__fail(TN_STATE, "%s: the tape belongs to another instance", backward->name);
    const tn_program *forward = &m->d->programs[t->program];
    if (strcmp(forward->method, backward->method))
        return tn__fail(TN_STATE, "%s: the tape was made by %s", backward->name, forward->name);
    if (t->version != m->version)
        return tn__fail(TN_STATE, "%s: the parameters changed since the forward call",
                        backward->name);
    return TN_OK;
}

void tn__tape_sizes(const tn_tape *t, const tn_program *p, int64_t *symbols, uint8_t *bound)
{
    const tn_program *forward = &t->model->d->programs[t->program];
    for (int i = 0; i < p->nsymbols; i++)
        for (int k = 0; k < forward->nsymbols; k++)
            if (!strcmp(p->symbols[i].name, forward->symbols[k].name)) {
                symbols[i] = t->symbols[k];
                bound[i] = 1;
            }
}

/* What is on the model's first device was used last on the stream that the tape knows. */
static void give_back(const tn__owned *o, const tn__device *first, uint64_t stream)
{
    if (!o->memory)
        return;
    o->dev->ops->enter(o->dev);
    o->dev->ops->free(o->dev, o->memory, o->dev == first ? stream : o->stream);
    o->dev->ops->leave(o->dev);
}

void tn_tape_release(tn_tape *t)
{
    if (!t)
        return;
    tn__device *d = t->dev;
    d->ops->enter(d);
    d->ops->free(d, t->memory, t->stream);
    d->ops->leave(d);
    for (int i = 0; i < t->nstaged; i++)
        give_back(&t->staged[i], d, t->stream);
    for (int i = 1; i < t->nfurther; i++)
        give_back(&t->further[i], d, t->stream);
    free(t->further);
    free(t->at);
    free(t->symbols);
    free(t->staged);
    free(t);
}
