/* state_files.c: tn_model_save and tn_model_load. SPDX-License-Identifier: MIT */
#include "runtime/state_files.h"

#include "runtime/backend.h"
#include "runtime/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names of what is no parameter, buffer or optimiser state. */
static const char prefix[] = "tenon.";

static size_t numel_bytes(const DLTensor *t)
{
    size_t n = tn__dtype_size(tn__dtype_of(t->dtype));
    for (int i = 0; i < t->ndim; i++)
        n *= (size_t)t->shape[i];
    return n;
}

static void describe(tn__array *x, char *name, const DLTensor *t)
{
    x->name = name;
    x->dtype = tn__dtype_of(t->dtype);
    x->rank = t->ndim;
    for (int i = 0; i < t->ndim; i++)
        x->shape[i] = t->shape[i];
    x->data = t->data;
    x->bytes = numel_bytes(t);
}

static char *extra_name(const char *name)
{
    char *s = malloc(sizeof prefix + strlen(name));
    if (s)
        sprintf(s, "%s%s", prefix, name);
    return s;
}

/* Counters go on where they stopped: step counts and the count of random calls. */
static bool is_counter(const tn_slot *s)
{
    return s->kind == TN_SLOT_COUNTER || s->kind == TN_SLOT_CALLS || s->kind == TN_SLOT_SEED;
}

static int count_entries(const tn_model *m)
{
    int n = 0;
    for (int i = 1; i < m->d->nslots; i++)
        n += is_counter(&m->d->slots[i]);
    return n;
}

/* State of a device comes to memory of the host to be written: the first n arrays of the list. */
static tn_status fetch(const tn_model *m, tn__arrays *list, int n)
{
    for (int i = 0; i < n; i++) {
        tn__array *x = &list->at[i];
        void *copy = malloc(x->bytes + 1);
        const tn_status s = copy ? tn__state_read(m, x->data, copy, x->bytes)
                                 : tn__fail(TN_MEMORY, "no memory for a copy of the state");
        if (s) {
            free(copy);
            while (--i >= 0)
                free(list->at[i].data);
            return s;
        }
        x->data = copy;
    }
    return TN_OK;
}

static tn_status collect(tn_model *m, tn__arrays *list, const tn__extra *extra, int nextra)
{
    for (int i = 0; i < tn_model_state_count(m); i++) {
        tn_state_entry e;
        const tn_status s = tn_model_state(m, i, &e);
        if (s)
            return s;
        if (!e.saved)
            continue;
        char *name = strdup(e.name);
        describe(&list->at[list->n++], name, &e.tensor);
        if (!name)
            return tn__fail(TN_MEMORY, "no memory to list the state");
    }
    for (int i = 1; i < m->d->nslots; i++) {
        const tn_slot *s = &m->d->slots[i];
        if (!is_counter(s))
            continue;
        tn__array *x = &list->at[list->n++];
        *x = (tn__array){.name = extra_name(s->name), .dtype = s->dtype, .data = m->slots[i]};
        x->bytes = tn__dtype_size(s->dtype);
        if (!x->name)
            return tn__fail(TN_MEMORY, "no memory to list the state");
    }
    for (int i = 0; i < nextra; i++) {
        tn__array *x = &list->at[list->n++];
        *x = (tn__array){.name = extra_name(extra[i].name), .dtype = TN_I64, .bytes = 8};
        x->data = (void *)(uintptr_t)&extra[i].value;
        if (!x->name)
            return tn__fail(TN_MEMORY, "no memory to list the state");
    }
    return TN_OK;
}

tn_status tn__model_save(tn_model *m, const char *path, const tn__extra *extra, int nextra)
{
    if (!m || !path)
        return tn__fail(TN_INVALID, "the model or the path is NULL");
    tn__arrays list = {0};
    const size_t most = (size_t)(tn_model_state_count(m) + count_entries(m) + nextra + 1);
    list.at = calloc(most, sizeof *list.at);
    if (!list.at)
        return tn__fail(TN_MEMORY, "no memory to list the state");
    tn_status s = collect(m, &list, extra, nextra);
    const int fetched = m->dev->ops->host && !m->parts ? 0 : list.n - nextra;
    struct tn__err err;
    if (!s)
        s = fetch(m, &list, fetched);
    if (!s) {
        if (tn__arrays_save(&list, path, &err))
            s = tn__fail(TN_FILE, "%s", err.text);
        for (int i = 0; i < fetched; i++)
            free(list.at[i].data);
    }
    for (int i = 0; i < list.n; i++)
        free(list.at[i].name);
    free(list.at);
    return s;
}

tn_status tn_model_save(tn_model *m, const char *path)
{
    return tn__model_save(m, path, NULL, 0);
}

/* Everything that does not fit, in one message. */
typedef struct {
    char text[1600];
    size_t n;
    int count;
} Complaint;

static void complain(Complaint *c, const char *what, const char *name, const char *detail)
{
    enum { SHOWN = 12 };
    if (c->count++ < SHOWN) {
        const int n = snprintf(c->text + c->n, sizeof c->text - c->n, "%s%s '%s'%s",
                               c->count > 1 ? "; " : "", what, name, detail);
        if (n > 0)
            c->n = c->n + (size_t)n < sizeof c->text ? c->n + (size_t)n : sizeof c->text - 1;
    }
}

static void shape_text(char *out, size_t n, int dtype, int rank, const int64_t *shape)
{
    int at = snprintf(out, n, "%s[", tn__dtype_name(dtype));
    for (int i = 0; i < rank && at > 0 && (size_t)at + 24 < n; i++)
        at += snprintf(out + at, n - (size_t)at, "%s%lld", i ? ", " : "", (long long)shape[i]);
    snprintf(out + at, n - (size_t)at, "]");
}

static bool same_shape(const tn__array *x, const DLTensor *t)
{
    if (x->dtype != tn__dtype_of(t->dtype) || x->rank != t->ndim)
        return false;
    for (int i = 0; i < x->rank; i++)
        if (x->shape[i] != t->shape[i])
            return false;
    return true;
}

/* The array of a view: under its name, or one that a shared parameter has besides. */
static const tn__array *find_view(const tn_model *m, int i, const tn__arrays *list)
{
    const tn_state_view *v = &m->d->views[i];
    const tn__array *x = tn__arrays_find(list, v->name);
    for (const char *const *a = v->aliases; !x && a && *a; a++)
        x = tn__arrays_find(list, *a);
    return x;
}

static void check_view(tn_model *m, int i, const tn__arrays *list, bool need, Complaint *c)
{
    tn_state_entry e;
    if (tn_model_state(m, i, &e) || !e.saved)
        return;
    const tn__array *x = find_view(m, i, list);
    if (!x) {
        if (need || e.kind != TN_STATE_OPTIMIZER)
            complain(c, "missing", e.name, "");
        return;
    }
    if (same_shape(x, &e.tensor))
        return;
    char got[200], want[200], detail[440];
    shape_text(got, sizeof got, x->dtype, x->rank, x->shape);
    shape_text(want, sizeof want, tn__dtype_of(e.tensor.dtype), e.tensor.ndim, e.tensor.shape);
    snprintf(detail, sizeof detail, " is %s, expected %s", got, want);
    complain(c, "", e.name, detail);
}

static bool names_view(const tn_state_view *v, const char *name)
{
    if (!strcmp(v->name, name))
        return true;
    for (const char *const *a = v->aliases; a && *a; a++)
        if (!strcmp(*a, name))
            return true;
    return false;
}

/* Optimiser state of another run of training is no mistake where only weights are wanted. */
static bool is_known(const tn_model *m, const char *name)
{
    if (!strncmp(name, prefix, sizeof prefix - 1))
        return true;
    for (int i = 0; i < m->d->nviews; i++)
        if (names_view(&m->d->views[i], name))
            return true;
    return false;
}

static tn_status take_counters(tn_model *m, const tn__arrays *list)
{
    tn_status status = TN_OK;
    for (int i = 1; i < m->d->nslots && !status; i++) {
        const tn_slot *s = &m->d->slots[i];
        if (!is_counter(s))
            continue;
        char name[256];
        snprintf(name, sizeof name, "%s%s", prefix, s->name);
        const tn__array *x = tn__arrays_find(list, name);
        if (x && x->dtype == s->dtype && x->bytes == tn__dtype_size(s->dtype))
            status = tn__state_write(m, m->slots[i], x->data, x->bytes);
    }
    return status;
}

static tn_status take_views(tn_model *m, const tn__arrays *list)
{
    tn_status s = TN_OK;
    for (int i = 0; i < tn_model_state_count(m) && !s; i++) {
        tn_state_entry e;
        const tn__array *x = find_view(m, i, list);
        if (x && !tn_model_state(m, i, &e) && e.saved)
            s = tn__state_write(m, e.tensor.data, x->data, x->bytes);
    }
    tn_model_state_changed(m);
    m->broken = s != TN_OK;
    return s;
}

static void take_extra(const tn__arrays *list, tn__extra *extra, int nextra)
{
    for (int i = 0; i < nextra; i++) {
        char name[256];
        snprintf(name, sizeof name, "%s%s", prefix, extra[i].name);
        const tn__array *x = tn__arrays_find(list, name);
        extra[i].found = x && x->dtype == TN_I64 && x->bytes == 8;
        if (extra[i].found)
            memcpy(&extra[i].value, x->data, 8);
    }
}

/* What wrappers of PyTorch put in front of each name, where this model has none of them; or NULL. */
static const char *wrapped(const tn_model *m, const tn__arrays *list)
{
    static const char *const fronts[] = {"module.", "_orig_mod."};
    for (size_t k = 0; k < sizeof fronts / sizeof *fronts; k++) {
        int n = 0;
        while (n < list->n && !strncmp(list->at[n].name, fronts[k], strlen(fronts[k])) &&
               !is_known(m, list->at[n].name))
            n++;
        if (n && n == list->n)
            return fronts[k];
    }
    return NULL;
}

tn_status tn__model_load(tn_model *m, const char *path, bool need_optimizer, tn__extra *extra,
                         int nextra)
{
    if (!m || !path)
        return tn__fail(TN_INVALID, "the model or the path is NULL");
    tn__arrays list = {0};
    struct tn__err err;
    if (tn__arrays_load(&list, path, &err))
        return tn__fail(TN_FILE, "%s", err.text);
    Complaint c = {.n = 0};
    for (int i = 0; i < tn_model_state_count(m); i++)
        check_view(m, i, &list, need_optimizer, &c);
    for (int i = 0; i < list.n; i++)
        if (!is_known(m, list.at[i].name))
            complain(&c, "unknown", list.at[i].name, "");
    tn_status s = TN_OK;
    const char *front = c.count ? wrapped(m, &list) : NULL;
    if (front) {
        s = tn__fail(TN_STATE,
                     "%s does not fit %s: all its names begin with '%s', which a wrapper put there: "
                     "save the state of the module inside",
                     path, m->d->name, front);
    } else if (c.count) {
        s = tn__fail(TN_STATE, "%s does not fit %s: %s%s", path, m->d->name, c.text,
                     c.count > 12 ? "; and more" : "");
    } else {
        s = take_views(m, &list);
        if (need_optimizer && !s)
            s = take_counters(m, &list);
        take_extra(&list, extra, nextra);
    }
    tn__arrays_free(&list);
    return s;
}

tn_status tn_model_load(tn_model *m, const char *path)
{
    return tn__model_load(m, path, false, NULL, 0);
}
