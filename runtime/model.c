/* model.c: instances: memory of the state, names, numbers. SPDX-License-Identifier: MIT */
#include "runtime/rt.h"

#include <stdlib.h>
#include <string.h>

static size_t slot_bytes(const tn_slot *s)
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

static void reset_slot(tn_model *m, int i)
{
    const tn_slot *s = &m->d->slots[i];
    if (s->kind == TN_SLOT_HYPER && s->dtype == TN_F64)
        *(double *)m->slots[i] = s->initial;
    else if (s->kind == TN_SLOT_COUNTER && s->dtype == TN_I64)
        *(int64_t *)m->slots[i] = (int64_t)s->initial;
    else
        memset(m->slots[i], 0, slot_bytes(s));
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
    if (s)
        *(uint64_t *)m->slots[s] = seed;
    if (calls)
        *(uint64_t *)m->slots[calls] = 0;
    return TN_OK;
}

tn_status tn_model_init(tn_model *m, uint64_t seed)
{
    if (!m)
        return tn__fail(TN_INVALID, "the model is NULL");
    for (int i = 1; i < m->d->nslots; i++)
        reset_slot(m, i);
    tn_status s = tn_model_seed(m, seed);
    for (int i = 0; i < m->d->nprograms && !s; i++)
        if (m->d->programs[i].kind == TN_INIT)
            s = tn__run(m, NULL, i, NULL, NULL, NULL);
    m->version++;
    return s;
}

static tn_status make_slots(tn_model *m)
{
    m->slots = calloc((size_t)m->d->nslots + 1, sizeof *m->slots);
    if (!m->slots)
        return tn__fail(TN_MEMORY, "no memory for the state");
    for (int i = 1; i < m->d->nslots; i++) {
        m->slots[i] = tn__alloc(m->ctx, slot_bytes(&m->d->slots[i]));
        if (!m->slots[i])
            return TN_MEMORY;
        reset_slot(m, i);
    }
    return TN_OK;
}

tn_status tn_model_create(tn_context *ctx, const void *desc, const tn_model_options *opt,
                          tn_model **out)
{
    if (!ctx || !out)
        return tn__fail(TN_INVALID, "ctx or out is NULL");
    *out = NULL;
    tn_status s = check_desc(desc);
    if (s)
        return s;
    tn_model *m = calloc(1, sizeof *m);
    if (!m)
        return tn__fail(TN_MEMORY, "no memory for an instance");
    m->ctx = ctx;
    m->d = desc;
    s = make_slots(m);
    const uint64_t seed = opt ? opt->seed : 0;
    if (!s)
        s = opt && opt->no_init ? tn_model_seed(m, seed) : tn_model_init(m, seed);
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
    for (int i = 0; i < m->nplans; i++)
        tn__plan_free(m->plans[i]);
    free(m->plans);
    if (m->slots)
        for (int i = 1; i < m->d->nslots; i++)
            tn__free(m->ctx, m->slots[i]);
    free(m->slots);
    tn__free(m->ctx, m->arena);
    free(m);
}

const char *tn_model_name(const tn_model *m)
{
    return m ? m->d->name : "";
}

tn_context *tn_model_context(const tn_model *m)
{
    return m ? m->ctx : NULL;
}

tn_status tn_model_zero_grad(tn_model *m)
{
    if (!m)
        return tn__fail(TN_INVALID, "the model is NULL");
    for (int i = 1; i < m->d->nslots; i++)
        if (m->d->slots[i].kind == TN_SLOT_GRAD)
            memset(m->slots[i], 0, slot_bytes(&m->d->slots[i]));
    return TN_OK;
}

int tn_model_state_count(const tn_model *m)
{
    return m ? m->d->nviews : 0;
}

static DLTensor view_of(const tn_model *m, const tn_state_view *v, int slot)
{
    DLTensor t = {.ndim = v->rank, .device = {kDLCPU, 0}};
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
    if (m->d->slots[i].kind == TN_SLOT_HYPER)
        *(double *)m->slots[i] = value;
    else
        *(int64_t *)m->slots[i] = (int64_t)value;
    return TN_OK;
}

tn_status tn_model_get_number(const tn_model *m, const char *name, double *value)
{
    if (!m || !name || !value)
        return tn__fail(TN_INVALID, "an argument is NULL");
    const int i = find_number(m, name);
    if (!i)
        return tn__fail(TN_NOT_FOUND, "%s has no number named '%s'", m->d->name, name);
    *value = m->d->slots[i].kind == TN_SLOT_HYPER ? *(double *)m->slots[i]
                                                  : (double)*(int64_t *)m->slots[i];
    return TN_OK;
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
