/* elab_split.c: -fplace=auto over several GPUs: the longest list of modules is cut into neighbours,
 * a GPU each, so that the largest share of parameters is as small as it can be. What the model has
 * before the list goes with the first share, what it has behind it with the last, unless it shares
 * a parameter with the first. A value goes to the next GPU where a module of the next share is
 * called with it. SPDX-License-Identifier: MIT */
#include "frontend/elab_program.h"

#include <stdio.h>

enum { WORTH = 1 << 20 }; /* bytes of parameters for which a GPU of its own is no waste */

typedef struct {
    Elab *e;
    const List *list; /* the modules */
    Member *member;   /* that holds them */
    const Instance *holder;
    double bytes;
} Found;

static double bytes_of(const Elab *e, const States *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const TypeInfo *t = &s->at[i]->type;
        double n = dtype_size(t->dtype);
        for (uint32_t k = 0; k < t->rank; k++)
            n *= dim_hint(e->dims, t->shape[k]);
        sum += n;
    }
    return sum;
}

static double bytes_below(Elab *e, const Value *v)
{
    States below = {0};
    states_below(e, v, &below);
    return bytes_of(e, &below);
}

/* The list with the most parameters; lists in its modules are no better. */
static void find_list(Found *f, Instance *inst)
{
    for (uint32_t i = 0; i < inst->members.n; i++) {
        Member *m = &inst->members.at[i];
        if (m->kind == MEMBER_state || m->kind == MEMBER_fn || !holds_instance(&m->value))
            continue;
        if (m->value.kind == V_instance) {
            find_list(f, m->value.inst);
            continue;
        }
        const double bytes = m->value.kind == V_list ? bytes_below(f->e, &m->value) : 0;
        if (bytes > f->bytes && m->value.list->n > 1) {
            *f = (Found){f->e, m->value.list, m, inst, bytes};
        }
    }
}

/* Shares of neighbours, the largest of which is at most `most`: how many there must be. */
static uint32_t shares(const double *w, uint32_t n, double most, uint32_t *share)
{
    uint32_t k = 0;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (sum > 0 && sum + w[i] > most) {
            k++;
            sum = 0;
        }
        sum += w[i];
        if (share)
            share[i] = k;
    }
    return k + 1;
}

/* The smallest bound that so many shares keep: halving finds it, to a thousandth. */
static void balance(const double *w, uint32_t n, uint32_t gpus, uint32_t *share)
{
    double lo = 0, hi = 0;
    for (uint32_t i = 0; i < n; i++) {
        lo = w[i] > lo ? w[i] : lo;
        hi += w[i];
    }
    while (hi - lo > 1e-3 * hi) {
        const double middle = (lo + hi) / 2;
        if (shares(w, n, middle, NULL) <= gpus)
            hi = middle;
        else
            lo = middle;
    }
    shares(w, n, hi, share);
}

static void place_below(Elab *e, const Value *v, Place place)
{
    States below = {0};
    if (v->kind == V_list)
        for (uint32_t i = 0; i < v->list->n; i++)
            place_below(e, &v->list->at[i], place);
    if (v->kind != V_instance)
        return;
    states_below(e, v, &below);
    for (uint32_t i = 0; i < below.n; i++)
        below.at[i]->type.place = place;
    v->inst->place = place;
    v->inst->moved = true;
    for (uint32_t i = 0; i < v->inst->members.n; i++)
        if (v->inst->members.at[i].kind != MEMBER_state &&
            holds_instance(&v->inst->members.at[i].value))
            place_below(e, &v->inst->members.at[i].value, place);
}

/* Whether a module holds a parameter that is on another device already: such as tied weights. */
static bool shares_state(Elab *e, const Value *v, Place place)
{
    States below = {0};
    states_below(e, v, &below);
    for (uint32_t i = 0; i < below.n; i++)
        if (below.at[i]->now_graph == NULL && below.at[i]->id && below.at[i]->type.place != place &&
            below.at[i]->aliases.n)
            return true;
    return false;
}

/* Modules behind the list, in what holds it. */
static void place_rest(const Found *f, Place last)
{
    Elab *e = f->e;
    bool behind = false;
    for (uint32_t i = 0; i < f->holder->members.n; i++) {
        const Member *m = &f->holder->members.at[i];
        behind |= m == f->member;
        if (behind && m != f->member && m->kind != MEMBER_state && m->kind != MEMBER_fn &&
            holds_instance(&m->value) && !shares_state(e, &m->value, last))
            place_below(e, &m->value, last);
    }
}

static Place gpu_place(const Elab *e, uint32_t nth)
{
    const Value first = device_value(e, PLACE_D0);
    const int64_t own = first.i < 0 ? 0 : first.i;
    const int64_t number = nth == 0 ? own : nth <= own ? (int64_t)nth - 1 : (int64_t)nth;
    return nth == 0 ? PLACE_D0 : (Place)(PLACE_CUDA + number);
}

static const char *gpu_name(const Elab *e, Place place)
{
    const int64_t own = device_value(e, PLACE_D0).i;
    return arena_printf(e->a, "cuda:%d",
                        place == PLACE_D0 ? (own < 0 ? 0 : (int)own) : place - PLACE_CUDA);
}

/* What was chosen, and how the text would say it. */
static void say_choice(const Found *f, const uint32_t *share, const double *w)
{
    Elab *e = f->e;
    const char *name = sym(e, f->member->name);
    StrBuf said = {.a = e->a}, kept = {.a = e->a};
    for (uint32_t i = 0, from = 0; i < f->list->n; i++) {
        const char *gpu = gpu_name(e, gpu_place(e, share[i]));
        sb_printf(&kept, "%s%s", i ? ", " : "", gpu);
        if (i + 1 < f->list->n && share[i + 1] == share[i])
            continue;
        double bytes = 0;
        for (uint32_t k = from; k <= i; k++)
            bytes += w[k];
        sb_printf(&said, "%s%s[%u..%u] on %s (%.1f MB)", from ? ", " : "", name, from, i, gpu,
                  bytes / 1e6);
        from = i + 1;
    }
    fprintf(stderr, "tenon: note: -fplace=auto: %s: %s\n", sym(e, e->p->name), sb_text(&said));
    fprintf(stderr, "tenon: note: to keep it: .to([%s][i]) behind the i-th module of `%s`\n",
            sb_text(&kept), name);
}

void split_over_gpus(Elab *e)
{
    Found f = {.e = e};
    if (e->o->gpus < 2)
        return;
    find_list(&f, e->root);
    const double most = f.bytes / WORTH;
    const uint32_t gpus = most < e->o->gpus ? (uint32_t)most : (uint32_t)e->o->gpus;
    if (!f.list || gpus < 2)
        return;
    double *w = arena_array(e->a, double, f.list->n);
    uint32_t *share = arena_array(e->a, uint32_t, f.list->n);
    for (uint32_t i = 0; i < f.list->n; i++)
        w[i] = bytes_below(e, &f.list->at[i]);
    balance(w, f.list->n, gpus, share);
    for (uint32_t i = 0; i < f.list->n; i++)
        place_below(e, &f.list->at[i], gpu_place(e, share[i]));
    place_rest(&f, gpu_place(e, share[f.list->n - 1]));
    say_choice(&f, share, w);
}

Value moved_to_place(Elab *e, const Value *v, Place place)
{
    Values items = {0};
    if (v->kind == V_tensor) {
        Value w = v_tensor(e, build_at_place(&e->b, use_val(e, v), place));
        w.state = v->state;
        return w;
    }
    if (v->kind != V_list || holds_instance(v))
        return *v;
    for (uint32_t i = 0; i < v->list->n; i++)
        vec_push(e->a, &items, moved_to_place(e, &v->list->at[i], place));
    Value w = v_list(e, items.at, items.n);
    List *named = arena_new(e->a, List);
    *named = *w.list;
    named->names = v->list->names;
    w.list = named;
    return w;
}

void enter_instance(Elab *e, const Instance *inst, Value *value, uint32_t n)
{
    if (!inst || (inst->place == PLACE_D0 && !inst->moved))
        return;
    e->b.place = inst->place;
    for (uint32_t i = 0; i < n && inst->moved; i++)
        value[i] = moved_to_place(e, &value[i], inst->place);
}
