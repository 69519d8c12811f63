/* executor.c: one call: bind sizes, find the plan, place everything, run the steps.
 * SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

#include <stdlib.h>
#include <string.h>

/* --- steps ---------------------------------------------------------------------------------------
 */

void *tn__operand(const Call *c, int i)
{
    const tn_operand *o = &c->p->operands[i];
    const int64_t offset = o->offset >= 0 ? c->plan->dims[o->offset] : 0;
    char *base = c->at[o->buf];
    return base ? base + offset * (int64_t)tn__dtype_size(c->p->buffers[o->buf].dtype) : NULL;
}

static tn_status run_fill(Call *c, const tn_step *s)
{
    const int buffer = c->p->operands[s->operands].buf;
    const tn_buffer *b = &c->p->buffers[buffer];
    const size_t size = tn__dtype_size(b->dtype), n = c->plan->bytes[buffer] / size;
    unsigned char one[8] = {0};
    tn__dtype_store(b->dtype, s->value, one);
    return n ? c->m->dev->ops->fill(c->stream, c->at[buffer], one, size, n) : TN_OK;
}

static tn_status run_copy(Call *c, const tn_step *s)
{
    char *to = tn__operand(c, s->operands), *from = tn__operand(c, s->operands + 1);
    const size_t bytes = c->plan->bytes[c->p->operands[s->operands].buf];
    if (to == from || !bytes) /* nothing may have no place */
        return TN_OK;
    if (tn__crosses(c->p, s))
        return tn__cross(c, s, c->stream);
    return c->m->dev->ops->copy(c->stream, to, from, bytes);
}

/* The value in memory of the host, in `copy` if that is not where it is. */
static tn_status fetch(Call *c, int buffer, void **copy, void **value)
{
    const tn__backend *ops = c->m->dev->ops;
    const size_t bytes = c->plan->bytes[buffer];
    *value = c->at[buffer];
    if (ops->host || !bytes)
        return TN_OK;
    *value = *copy = tn__alloc(c->m->ctx, bytes);
    if (!*copy)
        return TN_MEMORY;
    const tn_status s = ops->download(c->stream, *copy, c->at[buffer], bytes);
    return s ? s : ops->sync(c->stream);
}

static tn_status run_print(Call *c, const tn_step *s)
{
    const int buffer = c->p->operands[s->operands].buf;
    const tn_buffer *b = &c->p->buffers[buffer];
    int64_t shape[TN_MAX_RANK];
    void *copy = NULL;
    if (!c->m->ctx->print)
        return TN_OK;
    for (int i = 0; i < b->rank; i++)
        shape[i] = c->plan->dims[c->p->lists[b->shape + i]];
    DLTensor t = {.device = {kDLCPU, 0}, .ndim = b->rank, .shape = shape};
    tn__dl_type(b->dtype, &t.dtype);
    const tn_status e = fetch(c, buffer, &copy, &t.data);
    if (!e)
        c->m->ctx->print(c->m->ctx->print_user, s->text ? s->text : "", &t);
    tn__free(c->m->ctx, copy);
    return e;
}

void tn__swap(Call *c, const tn_step *s)
{
    const tn_operand *o = &c->p->operands[s->operands];
    void *at = c->at[o[0].buf];
    c->at[o[0].buf] = c->at[o[1].buf];
    c->at[o[1].buf] = at;
}

tn_status tn__run_step(Call *c, int i)
{
    const tn_step *s = &c->p->steps[i];
    switch (s->kind) {
    case TN_STEP_LAUNCH:
        return c->m->dev->ops->launch(c, i);
    case TN_STEP_GEMM:
        return c->m->dev->ops->gemm(c, i);
    case TN_STEP_COPY:
        return run_copy(c, s);
    case TN_STEP_FILL:
        return run_fill(c, s);
    case TN_STEP_PRINT:
        return run_print(c, s);
    case TN_STEP_SWAP:
        tn__swap(c, s);
        return TN_OK;
    case TN_STEP_END:
        return TN_OK;
    default:
        return tn__fail(TN_ABI, "%s: step %d is of an unknown kind", c->p->name, i);
    }
}

tn_status tn__run_steps(Call *c, int from, int to)
{
    tn_status s = TN_OK;
    for (int i = from; i < to && !s; i++) {
        const bool loop = c->p->steps[i].kind == TN_STEP_LOOP;
        const int strip = c->plan->strip[i];
        if (!strip && !c->plan->active[i]) {
            i = loop ? c->p->steps[i].operands : i;
            continue;
        }
        Call *on =
            c->serial && !loop && c->p->steps[i].kind != TN_STEP_END ? tn__lanes_next(c, i) : c;
        if (!on)
            return TN_DRIVER;
        tn__device *d = on->m->dev;
        if (c->serial)
            d->ops->enter(d);
        if (strip) {
            s = d->ops->strip(on, strip - 1);
            i += c->p->strips[strip - 1].n - 1;
        } else
            s = loop ? tn__run_loop(c, i) : tn__run_step(on, i);
        if (c->serial)
            d->ops->leave(d);
        if (loop)
            i = c->p->steps[i].operands;
    }
    return s;
}

tn_status tn__index_error(const tn_program *p, const tn_kernel *k, const char *where,
                          const int32_t *error)
{
    const int32_t check = error[0];
    if (k && check >= 1 && check <= k->nchecks)
        where = k->checks[check - 1];
    return tn__fail(TN_INDEX, "%s%s%s: index %d is out of range: the axis has %d elements",
                    where ? where : "", where ? ": " : "", p->name, (int)error[1], (int)error[2]);
}

tn_status tn__index_error_within(const Call *c, int from, int to)
{
    const int32_t check = c->m->error[0];
    const char *where = NULL;
    bool sure = true;
    if (!check)
        return TN_OK;
    for (int i = from; i < to; i++) {
        const tn_step *s = &c->p->steps[i];
        const tn_kernel *k = s->kind == TN_STEP_LAUNCH ? &c->m->d->kernels[s->kernel] : NULL;
        if (!k || check < 1 || check > k->nchecks)
            continue;
        sure = sure && (!where || !strcmp(where, k->checks[check - 1]));
        where = k->checks[check - 1];
    }
    const tn_status e = tn__index_error(c->p, NULL, sure ? where : NULL, c->m->error);
    memset(c->m->error, 0, sizeof c->m->error);
    return e;
}

/* --- a call --------------------------------------------------------------------------------------
 */

/* What a call notes down, in one block that the instance keeps: a call that has run before
 * allocates nothing. */
typedef struct {
    int64_t *symbols;
    uint8_t *bound, *given;
} Sizes;

static tn_status begin_call(Call *c, Sizes *sizes)
{
    const tn_program *p = c->p;
    const size_t nargs = (size_t)p->nargs + 1, nsymbols = (size_t)p->nsymbols + 1;
    const size_t at = ((size_t)p->nbuffers + 1) * sizeof *c->at, staged = nargs * sizeof *c->staged;
    const size_t made = nargs * sizeof *c->made, symbols = nsymbols * sizeof *sizes->symbols;
    const size_t parts = c->m->parts ? (size_t)c->m->nparts * sizeof *c->parts : 0;
    const size_t bytes = at + staged + made + parts + symbols + nsymbols + nargs;
    tn_model *m = c->m;
    if (m->call_bytes < bytes) {
        free(m->call);
        m->call = malloc(bytes);
        m->call_bytes = m->call ? bytes : 0;
    }
    if (!m->call)
        return tn__fail(TN_MEMORY, "no memory for a call");
    char *block = memset(m->call, 0, bytes);
    c->at = (void **)block;
    c->staged = (Staged *)(block + at);
    c->made = (Made *)(block + at + staged);
    c->parts = parts ? (Call *)(block + at + staged + made) : NULL;
    sizes->symbols = (int64_t *)(block + at + staged + made + parts);
    sizes->bound = (uint8_t *)(block + at + staged + made + parts + symbols);
    sizes->given = sizes->bound + nsymbols;
    return TN_OK;
}

static tn_status find_plan(Call *c, int program, const Sizes *sizes)
{
    const tn_program *p = c->p;
    for (int i = 0; i < p->nargs; i++)
        sizes->given[i] = c->args[i] != NULL;
    if (c->tape_in)
        tn__tape_sizes(c->tape_in, p, sizes->symbols, sizes->bound);
    const tn_status s = tn__bind(c->m, p, c->args, sizes->symbols, sizes->bound);
    if (s)
        return s;
    c->plan = tn__plan_get(c->m, program, sizes->symbols, sizes->given);
    return c->plan ? TN_OK : TN_SHAPE;
}

static bool changes_state(const tn_program *p)
{
    return p->kind == TN_STEP || p->kind == TN_UPDATE || p->kind == TN_INIT;
}

/* The steps, when everything has its place. */
static tn_status work(Call *c)
{
    const tn__backend *ops = c->m->dev->ops;
    if (c->parts)
        return tn__lanes_run(c);
    tn_status s = c->plan->tuning ? tn__tune(c)
                  : ops->run      ? ops->run(c)
                                  : tn__run_steps(c, 0, c->p->nsteps);
    if (!s)
        s = tn__write_back(c);
    const tn_status end = ops->end(c->m, c->stream);
    c->m->stream = c->stream->id;
    if (!s)
        s = end;
    if (s || !c->waits)
        return s;
    s = ops->sync(c->stream);
    if (!s)
        s = ops->mistakes(c->m, true);
    if (!s)
        tn__unpack_results(c);
    return s;
}

/* What a change that failed left behind is neither the old state nor the new one. */
static tn_status check_state(const Call *c)
{
    return !c->m->broken || c->p->kind == TN_INIT
               ? TN_OK
               : tn__fail(TN_STATE,
                          "%s: an earlier call of %s failed while it changed the state: load or "
                          "init it first",
                          c->p->name, c->m->d->name);
}

static tn_status execute(Call *c, int program)
{
    Sizes sizes = {0};
    tn_status s = begin_call(c, &sizes);
    if (!s)
        s = check_state(c);
    for (int i = 0; i < (c->m->parts ? c->m->nparts : 1) && !s; i++) {
        tn_model *part = tn__part_of(c->m, i);
        part->dev->ops->enter(part->dev);
        s = part->dev->ops->mistakes(part, false);
        part->dev->ops->leave(part->dev);
    }
    if (!s)
        s = find_plan(c, program, &sizes);
    if (!s)
        s = c->m->dev->ops->begin(c->m, c->stream);
    if (!s && c->parts)
        s = tn__lanes_begin(c);
    if (!s && c->p->kind == TN_FORWARD_TRAIN)
        s = tn__tape_create(c, program);
    if (!s)
        s = tn__place(c);
    if (s)
        return s;
    if (c->tape_in)
        c->tape_in->stream = c->stream->id;
    s = work(c);
    c->m->version += !s && changes_state(c->p);
    if (s) { /* kernels finish what they do beside a bad index */
        c->m->broken = c->m->broken || (s != TN_INDEX && changes_state(c->p));
        return s;
    }
    if (c->tape_out)
        tn__tape_keep(c);
    c->m->last_temps = c->plan->arena;
    c->m->last_tape = c->plan->tape;
    return TN_OK;
}

/* On the device of the model. */
static tn_status run_on(tn_model *m, tn_stream *stream, int program, const DLTensor *const *args,
                        tn_tape **tape_out, tn_tape *tape_in)
{
    const tn_program *p = &m->d->programs[program];
    Call c = {.m = m, .whole = m, .stream = stream, .p = p, .args = args};
    c.tape_in = p->kind == TN_BACKWARD ? tape_in : NULL;
    const tn_status s = execute(&c, program);
    tn__unplace(&c, s != TN_OK);
    for (int i = 1; c.parts && i < m->nparts; i++)
        if (c.parts[i].m) /* where the call began */
            pthread_mutex_unlock(&m->parts[i]->busy);
    if (s) {
        tn_tape_release(c.tape_out);
        c.tape_out = NULL;
    }
    if (tape_out && p->kind == TN_FORWARD_TRAIN)
        *tape_out = c.tape_out;
    return s;
}

tn_status tn__run(tn_model *m, tn_stream *stream, int program, const DLTensor *const *args,
                  tn_tape **tape_out, tn_tape *tape_in)
{
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
    tn_stream *on = tn__stream_on(m->dev, stream);
    tn_status s = TN_DEVICE;
    if (on) {
        pthread_mutex_lock(&m->busy);
        m->dev->ops->enter(m->dev);
        s = run_on(m, on, program, args, tape_out, tape_in);
        m->dev->ops->leave(m->dev);
        pthread_mutex_unlock(&m->busy);
    }
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
