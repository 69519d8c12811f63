/* model.c: instances: memory of the state, names, numbers. SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

#include <stdlib.h>
#include <string.h>

size_t tn__slot_bytes(const tn_slot *s)
{
    return (size_t)s->numel * (size_t)tn__dtype_size(s->dtype);
}

static tn_status check_desc(const tn_model_desc *d)
{
    if (!d)
        return tn__fail(TN_INVALID, "the model's description is NULL");
    if (d->abi != TN_ABI || d->size < (int32_t)sizeof *d)
        return tn__fail(TN_ABI, "the model was compiled for version %d of the tables, this is %d",
                        d->abi, TN_ABI);
    return TN_OK;
}

/* --- state ---------------------------------------------------------------------------------------
 * In the order of the default stream, after the last call on any stream. */

/* The part of the model whose memory that is. */
static tn_model *holder(tn_model *m, const void *at)
{
    const char *p = at;
    for (int i = 1; m->parts && i < m->d->nslots; i++) {
        const char *slot = m->slots[i];
        if (slot && p >= slot && p < slot + tn__slot_bytes(&m->d->slots[i]))
            return m->parts[m->d->slots[i].place];
    }
    return m;
}

static tn_status slot_begin(tn_model *m)
{
    pthread_mutex_lock(&m->busy);
    m->dev->ops->enter(m->dev);
    return m->dev->ops->begin(m, m->dev->stream);
}

static tn_status slot_end(tn_model *m, tn_status s)
{
    const tn_status end = m->dev->ops->end(m, m->dev->stream);
    m->stream = m->dev->stream->id;
    m->dev->ops->leave(m->dev);
    pthread_mutex_unlock(&m->busy);
    return s ? s : end;
}

tn_status tn__state_read(const tn_model *of, const void *at, void *to, size_t bytes)
{
    /* its order of work changes, not what it is */
    tn_model *m = holder((tn_model *)(uintptr_t)of, at);
    tn_status s = slot_begin(m);
    if (!s)
        s = m->dev->ops->download(m->dev->stream, to, at, bytes);
    if (!s)
        s = m->dev->ops->sync(m->dev->stream);
    return slot_end(m, s);
}

tn_status tn__state_write(tn_model *of, void *at, const void *from, size_t bytes)
{
    tn_model *m = holder(of, at);
    const tn__backend *ops = m->dev->ops;
    tn_status s = slot_begin(m);
    if (!s && bytes == 8) { /* a number: without a copy from memory of the host, which would wait */
        s = ops->fill(m->dev->stream, at, from, 8, 1);
    } else if (!s && bytes) {
        s = ops->upload(m->dev->stream, at, from, bytes);
        if (!s)
            s = ops->sync(m->dev->stream);
    }
    return slot_end(m, s);
}

static tn_status clear_slot(tn_model *m, int i)
{
    static const unsigned char zero[8];
    const size_t size = tn__dtype_size(m->d->slots[i].dtype);
    tn_model *at = tn__part_of(m, m->d->slots[i].place);
    const tn_status s = slot_begin(at);
    return slot_end(at, s ? s
                          : at->dev->ops->fill(at->dev->stream, m->slots[i], zero, size,
                                               (size_t)m->d->slots[i].numel));
}

static tn_status reset_slot(tn_model *m, int i)
{
    const tn_slot *s = &m->d->slots[i];
    const int64_t count = (int64_t)s->initial;
    if (s->kind == TN_SLOT_HYPER && s->dtype == TN_F64)
        return tn__state_write(m, m->slots[i], &s->initial, sizeof s->initial);
    if (s->kind == TN_SLOT_COUNTER && s->dtype == TN_I64)
        return tn__state_write(m, m->slots[i], &count, sizeof count);
    return s->numel ? clear_slot(m, i) : TN_OK;
}

static int find_slot(const tn_model *m, int kind)
{
    for (int i = 1; i < m->d->nslots; i++)
        if (m->d->slots[i].kind == kind)
            return i;
    return 0;
}

tn_status tn_model_seed(tn_model *m, uint64_t seed)
{
    if (!m)
        return tn__fail(TN_INVALID, "the model is NULL");
    const int s = find_slot(m, TN_SLOT_SEED), calls = find_slot(m, TN_SLOT_CALLS);
    tn_status e = s ? tn__state_write(m, m->slots[s], &seed, sizeof seed) : TN_OK;
    if (calls && !e)
        e = clear_slot(m, calls);
    return e;
}

tn_status tn_model_init(tn_model *m, uint64_t seed)
{
    if (!m)
        return tn__fail(TN_INVALID, "the model is NULL");
    tn_status s = TN_OK;
    m->broken = true; /* until all of it is done */
    for (int i = 1; i < m->d->nslots && !s; i++)
        s = reset_slot(m, i);
    if (!s)
        s = tn_model_seed(m, seed);
    for (int i = 0; i < m->d->nprograms && !s; i++)
        if (m->d->programs[i].kind == TN_INIT)
            s = tn__run(m, NULL, i, NULL, NULL, NULL);
    m->broken = s != TN_OK;
    m->version++;
    return s;
}

static tn_status make_slots(tn_model *m)
{
    m->slots = calloc((size_t)m->d->nslots + 1, sizeof *m->slots);
    if (!m->slots)
        return tn__fail(TN_MEMORY, "no memory for the state");
    for (int i = 1; i < m->d->nslots; i++) {
        tn__device *d = tn__part_of(m, m->d->slots[i].place)->dev;
        d->ops->enter(d);
        m->slots[i] = d->ops->alloc(d, d->stream, tn__slot_bytes(&m->d->slots[i]), TN_FOR_STATE);
        d->ops->leave(d);
        const tn_status s = m->slots[i] ? reset_slot(m, i) : TN_MEMORY;
        if (s)
            return s;
    }
    return TN_OK;
}

/* --- creation ------------------------------------------------------------------------------------
 */

/* Calls of generated code name programs by number, so both descriptions must list the same. */
static tn_status check_pair(const tn_model_desc *cpu, const tn_model_desc *cuda)
{
    bool same = cpu->nprograms == cuda->nprograms && cpu->nslots == cuda->nslots &&
                cpu->nviews == cuda->nviews;
    for (int i = 0; i < cpu->nprograms && same; i++)
        same = !strcmp(cpu->programs[i].name, cuda->programs[i].name);
    return same ? check_desc(cuda)
                : tn__fail(TN_ABI, "%s: the parts for CPU and CUDA do not fit together", cpu->name);
}

/* Which description runs, and where. */
static tn_status choose(tn_context *ctx, const tn_model_desc *d, DLDevice want, tn_model *m)
{
    const tn_model_desc *cuda = d->images ? d : d->cuda, *cpu = d->images ? NULL : d;
    tn_status s = cpu && cuda ? check_pair(cpu, cuda) : TN_OK;
    if (s)
        return s;
    if (cpu && cpu->level > ctx->level) /* a call would die of an unknown instruction */
        return tn__fail(TN_UNSUPPORTED,
                        "%s was compiled for x86-64-v%d, which this processor is not", d->name,
                        d->level);
    if (d->nplaces && d->images) { /* for its own mix of devices, with one default device */
        const bool host = d->places[0].type == kDLCPU;
        if (want.device_type && (want.device_type != kDLCUDA) != host)
            return tn__fail(TN_UNSUPPORTED, "%s was compiled with %s as its default device", d->name,
                            host ? "the CPU" : "a GPU");
        m->d = d;
        m->dev = tn__device_get(ctx, want.device_type ? want : (DLDevice){host ? kDLCPU : kDLCUDA, 0});
        return m->dev ? TN_OK : TN_UNSUPPORTED;
    }
    if (want.device_type == kDLCUDA && !cuda)
        return tn__fail(TN_UNSUPPORTED, "%s was compiled without CUDA", d->name);
    if ((want.device_type == kDLCPU || want.device_type == kDLCUDAHost) && !cpu)
        return tn__fail(TN_UNSUPPORTED, "%s was compiled for CUDA only", d->name);
    if (!want.device_type) {
        const bool gpu = cuda && (!cpu || tn__cuda_count(ctx) > 0);
        want = (DLDevice){gpu ? kDLCUDA : kDLCPU, 0};
    }
    m->dev = tn__device_get(ctx, want);
    m->d = want.device_type == kDLCUDA ? cuda : cpu;
    return m->dev ? TN_OK : TN_UNSUPPORTED;
}

static tn_status open_model(tn_model *m)
{
    m->dev->ops->enter(m->dev);
    const tn_status s = m->dev->ops->open(m);
    m->dev->ops->leave(m->dev);
    return s;
}

/* Nobody asked for a GPU, and the code is not for this one: the CPU's is. */
static tn_status open_on_cpu(tn_model *m)
{
    m->dev->ops->enter(m->dev);
    m->dev->ops->close(m);
    m->dev->ops->leave(m->dev);
    m->dev = m->ctx->cpu;
    m->d = m->made_of;
    m->stream = 0;
    return open_model(m);
}

/* Options of any version; what an older caller does not know keeps its default. */
static tn_model_options options_of(const tn_model_options *opt)
{
    tn_model_options o = {0};
    if (opt) {
        const size_t oldest = offsetof(tn_model_options, device);
        const size_t given = opt->size ? opt->size : oldest;
        memcpy(&o, opt, given < sizeof o ? given : sizeof o);
    }
    return o;
}

/* `print` of the caller's may ask for numbers in the middle of a call. */
void tn__lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t a;
    pthread_mutexattr_init(&a);
    pthread_mutexattr_settype(&a, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(lock, &a);
    pthread_mutexattr_destroy(&a);
}

tn_status tn_model_create(tn_context *ctx, const void *desc, const tn_model_options *opt,
                          tn_model **out)
{
    if (!ctx || !out)
        return tn__fail(TN_INVALID, "ctx or out is NULL");
    *out = NULL;
    const tn_model_options o = options_of(opt);
    tn_status s = check_desc(desc);
    if (s)
        return s;
    tn_model *m = calloc(1, sizeof *m);
    if (!m)
        return tn__fail(TN_MEMORY, "no memory for an instance");
    m->ctx = ctx;
    m->made_of = desc;
    s = choose(ctx, desc, o.device, m);
    if (s) {
        free(m);
        return s;
    }
    tn__lock_init(&m->busy);
    s = open_model(m);
    if (s == TN_UNSUPPORTED && !o.device.device_type && m->d != m->made_of)
        s = open_on_cpu(m);
    if (!s)
        s = tn__parts_open(m);
    if (!s)
        s = make_slots(m);
    if (!s)
        s = o.no_init ? tn_model_seed(m, o.seed) : tn_model_init(m, o.seed);
    if (s) {
        tn_model_destroy(m);
        return s;
    }
    *out = m;
    return TN_OK;
}

void tn_model_destroy(tn_model *m)
{
    if (!m)
        return;
    tn__device *d = m->dev;
    tn__parts_wait(m);
    d->ops->enter(d);
    d->ops->close(m);
    for (int i = 0; i < m->nplans; i++)
        tn__plan_free(m->plans[i]);
    free(m->plans);
    free(m->call);
    for (int i = 1; m->slots && i < m->d->nslots; i++) {
        const tn_model *part = tn__part_of(m, m->d->slots[i].place);
        if (!part || !part->dev)
            continue;
        part->dev->ops->enter(part->dev);
        part->dev->ops->free(part->dev, m->slots[i], 0);
        part->dev->ops->leave(part->dev);
    }
    free(m->slots);
    tn__arena_free(m, 0);
    d->ops->leave(d);
    tn__parts_close(m);
    pthread_mutex_destroy(&m->busy);
    free(m);
}

/* The state of one instance goes to another of the same description. */
static tn_status copy_state(tn_model *to, const tn_model *from)
{
    tn_status s = TN_OK;
    for (int i = 1; i < from->d->nslots && !s; i++) {
        const size_t bytes = tn__slot_bytes(&from->d->slots[i]);
        void *copy = tn__alloc(from->ctx, bytes);
        s = copy ? tn__state_read(from, from->slots[i], copy, bytes) : TN_MEMORY;
        if (!s)
            s = tn__state_write(to, to->slots[i], copy, bytes);
        tn__free(from->ctx, copy);
    }
    return s;
}

/* What belongs to a device changes hands; the instance itself stays where it is. */
static void exchange(tn_model *a, tn_model *b)
{
#define EXCHANGE(type, field)                                                                      \
    {                                                                                              \
        type kept = a->field;                                                                      \
        a->field = b->field;                                                                       \
        b->field = kept;                                                                           \
    }
    pthread_mutex_lock(&a->busy);
    pthread_mutex_lock(&b->busy);
    EXCHANGE(tn__device *, dev)
    EXCHANGE(const tn_model_desc *, d)
    EXCHANGE(void **, slots)
    EXCHANGE(void *, impl)
    EXCHANGE(uint64_t, stream)
    EXCHANGE(tn__plan **, plans)
    EXCHANGE(int, nplans)
    EXCHANGE(void *, arena)
    EXCHANGE(size_t, arena_bytes)
#undef EXCHANGE
    a->dev->ops->adopt(a);
    b->dev->ops->adopt(b);
    pthread_mutex_unlock(&b->busy);
    pthread_mutex_unlock(&a->busy);
}

/* Waits for an instance's work; a mistake that its kernels reported belongs to the device, and
 * would stay behind there unseen. */
static tn_status settle(tn_model *m)
{
    tn__device *d = m->dev;
    pthread_mutex_lock(&m->busy);
    d->ops->enter(d);
    tn_status s = d->ops->begin(m, d->stream);
    if (!s)
        s = d->ops->sync(d->stream);
    if (!s)
        s = d->ops->mistakes(m, true);
    d->ops->leave(d);
    pthread_mutex_unlock(&m->busy);
    return s;
}

tn_status tn_model_to(tn_model *m, DLDevice device)
{
    if (!m)
        return tn__fail(TN_INVALID, "the model is NULL");
    if (device.device_type == m->dev->dl.device_type && device.device_id == m->dev->dl.device_id)
        return TN_OK;
    if (m->parts)
        return tn__fail(TN_UNSUPPORTED, "%s lives on several devices, which its text names",
                        m->d->name);
    const tn_model_options o = {.size = sizeof o, .no_init = 1, .device = device};
    tn_model *there = NULL;
    tn_status s = settle(m);
    if (!s)
        s = tn_model_create(m->ctx, m->made_of, &o, &there);
    if (!s)
        s = copy_state(there, m);
    if (!s && there->dev != m->dev) {
        exchange(m, there);
        m->version++; /* tapes do not come along */
    }
    tn_model_destroy(there);
    return s;
}

const char *tn_model_name(const tn_model *m)
{
    return m ? m->d->name : "";
}

tn_context *tn_model_context(const tn_model *m)
{
    return m ? m->ctx : NULL;
}

DLDevice tn_model_device(const tn_model *m)
{
    return m ? m->dev->dl : (DLDevice){0};
}

tn_status tn_model_zero_grad(tn_model *m)
{
    if (!m)
        return tn__fail(TN_INVALID, "the model is NULL");
    tn_status s = TN_OK;
    for (int i = 1; i < m->d->nslots && !s; i++)
        if (m->d->slots[i].kind == TN_SLOT_GRAD && m->d->slots[i].numel)
            s = clear_slot(m, i);
    return s;
}

int tn_model_state_count(const tn_model *m)
{
    return m ? m->d->nviews : 0;
}

static DLTensor view_of(const tn_model *m, const tn_state_view *v, int slot)
{
    const int place = m->d->slots[slot].place;
    DLTensor t = {.ndim = v->rank, .device = (m->parts ? m->parts[place] : m)->dev->dl};
    tn__dl_type(m->d->slots[slot].dtype, &t.dtype);
    t.shape = (int64_t *)(uintptr_t)v->shape; /* DLPack has no const */
    t.data = (char *)m->slots[slot] + v->offset * (int64_t)tn__dtype_size(m->d->slots[slot].dtype);
    return t;
}

tn_status tn_model_state(tn_model *m, int i, tn_state_entry *out)
{
    if (!m || !out || i < 0 || i >= m->d->nviews)
        return tn__fail(TN_INVALID, "there is no state number %d", i);
    const tn_state_view *v = &m->d->views[i];
    *out = (tn_state_entry){.name = v->name, .saved = v->saved};
    out->kind = v->is_param                                   ? TN_STATE_PARAM
                : m->d->slots[v->slot].kind == TN_SLOT_BUFFER ? TN_STATE_BUFFER
                                                              : TN_STATE_OPTIMIZER;
    out->tensor = view_of(m, v, v->slot);
    if (v->is_param)
        for (int s = 1; s < m->d->nslots; s++)
            if (m->d->slots[s].kind == TN_SLOT_GRAD && m->d->slots[s].segment == v->slot)
                out->grad = view_of(m, v, s);
    return TN_OK;
}

static bool has_name(const tn_state_view *v, const char *name)
{
    if (!strcmp(v->name, name))
        return true;
    for (const char *const *a = v->aliases; a && *a; a++)
        if (!strcmp(*a, name))
            return true;
    return false;
}

tn_status tn_model_state_find(tn_model *m, const char *name, tn_state_entry *out)
{
    if (!m || !name || !out)
        return tn__fail(TN_INVALID, "an argument is NULL");
    for (int i = 0; i < m->d->nviews; i++)
        if (has_name(&m->d->views[i], name))
            return tn_model_state(m, i, out);
    return tn__fail(TN_NOT_FOUND, "%s has no state named '%s'", m->d->name, name);
}

void tn_model_state_changed(tn_model *m)
{
    if (m)
        m->version++;
}

static bool is_number(const tn_slot *s)
{
    return (s->kind == TN_SLOT_HYPER && s->dtype == TN_F64) ||
           (s->kind == TN_SLOT_COUNTER && s->dtype == TN_I64);
}

static int find_number(const tn_model *m, const char *name)
{
    for (int i = 1; i < m->d->nslots; i++)
        if (is_number(&m->d->slots[i]) && !strcmp(m->d->slots[i].name, name))
            return i;
    return 0;
}

tn_status tn_model_set_number(tn_model *m, const char *name, double value)
{
    if (!m || !name)
        return tn__fail(TN_INVALID, "an argument is NULL");
    const int i = find_number(m, name);
    if (!i)
        return tn__fail(TN_NOT_FOUND, "%s has no number named '%s'", m->d->name, name);
    const int64_t count = (int64_t)value;
    return m->d->slots[i].kind == TN_SLOT_HYPER
               ? tn__state_write(m, m->slots[i], &value, sizeof value)
               : tn__state_write(m, m->slots[i], &count, sizeof count);
}

tn_status tn_model_get_number(const tn_model *m, const char *name, double *value)
{
    if (!m || !name || !value)
        return tn__fail(TN_INVALID, "an argument is NULL");
    const int i = find_number(m, name);
    if (!i)
        return tn__fail(TN_NOT_FOUND, "%s has no number named '%s'", m->d->name, name);
    int64_t count = 0;
    if (m->d->slots[i].kind == TN_SLOT_HYPER)
        return tn__state_read(m, m->slots[i], value, sizeof *value);
    const tn_status s = tn__state_read(m, m->slots[i], &count, sizeof count);
    *value = (double)count;
    return s;
}

int tn_model_number_count(const tn_model *m)
{
    int n = 0;
    for (int i = 1; m && i < m->d->nslots; i++)
        n += is_number(&m->d->slots[i]);
    return n;
}

const char *tn_model_number_name(const tn_model *m, int nth)
{
    for (int i = 1; m && i < m->d->nslots; i++)
        if (is_number(&m->d->slots[i]) && nth-- == 0)
            return m->d->slots[i].name;
    return NULL;
}

int tn_model_program(const tn_model *m, const char *name)
{
    for (int i = 0; m && name && i < m->d->nprograms; i++)
        if (!strcmp(m->d->programs[i].name, name))
            return i;
    return -1;
}

int tn_model_program_count(const tn_model *m)
{
    return m ? m->d->nprograms : 0;
}

const char *tn_model_program_name(const tn_model *m, int program)
{
    return m && program >= 0 && program < m->d->nprograms ? m->d->programs[program].name : NULL;
}

int tn_program_args(const tn_model *m, int program, tn_argument *out, int max)
{
    if (!m || program < 0 || program >= m->d->nprograms)
        return 0;
    const tn_program *p = &m->d->programs[program];
    for (int i = 0; i < p->nargs && i < max; i++) {
        const tn_buffer *b = &p->buffers[p->args[i].buffer];
        out[i] = (tn_argument){p->args[i].name,     b->dtype,         b->rank,
                               p->args[i].optional, p->args[i].inout, p->args[i].is_result};
    }
    return p->nargs;
}

void tn_model_last_memory(const tn_model *m, size_t *temps, size_t *tape)
{
    if (temps)
        *temps = m ? m->last_temps : 0;
    if (tape)
        *tape = m ? m->last_tape : 0;
}
