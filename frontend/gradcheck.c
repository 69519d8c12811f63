/* gradcheck.c: (f(x + h) - f(x - h)) / 2h, element by element. SPDX-License-Identifier: MIT */
#include "frontend/gradcheck.h"

#include "ir/eval.h"

#include <math.h>
#include <string.h>

enum { MOST_ELEMENTS = 48 }; /* of one argument; of more, so many one by one and all together */
#define TOLERANCE 1e-6

typedef struct {
    Program *p;
    Arena *a;
    const Graph *loss;
    EvalTensor *inputs, *slots;
    int64_t *sizes;
} Check;

static const char *evaluate(const Check *k, const Graph *g, const EvalTensor *inputs,
                            EvalTensor *results, EvalTensor *slots)
{
    Eval e = {.a = k->a, .p = k->p, .sizes = k->sizes, .inputs = inputs, .slots = slots};
    const char *bad = eval_graph(&e, g);
    if (!bad && g->results.n)
        memcpy(results, e.results, sizeof *results * g->results.n);
    return bad ? bad : e.failed;
}

/* State as a new instance has it. */
static const char *make_slots(Check *k, uint64_t seed)
{
    k->slots = arena_array(k->a, EvalTensor, k->p->slots.n + 1);
    for (uint32_t i = 1; i < k->p->slots.n; i++) {
        const Slot *s = &k->p->slots.at[i];
        k->slots[i] = eval_of_type(k->a, k->p, s->type, k->sizes);
        if (s->kind == SLOT_SEED)
            k->slots[i].at[0].i = (int64_t)seed;
        else if (s->kind == SLOT_HYPER)
            k->slots[i].at[0].f = s->initial;
        else if (s->kind == SLOT_COUNTER)
            k->slots[i].at[0].i = (int64_t)s->initial;
    }
    for (uint32_t i = 0; i < k->p->graphs.n; i++) {
        const Graph *g = k->p->graphs.at[i];
        if (g->kind != GRAPH_INIT)
            continue;
        EvalTensor *none = arena_array(k->a, EvalTensor, g->results.n + 1);
        const char *bad = evaluate(k, g, NULL, none, k->slots);
        if (bad)
            return bad;
    }
    return NULL;
}

/* The loss with element i of input `n` at x. NaN when it cannot be evaluated. */
static double loss_at(const Check *k, uint32_t n, int64_t i, double x)
{
    const ArenaMark mark = arena_mark(k->a);
    EvalTensor *results = arena_array(k->a, EvalTensor, k->loss->results.n + 1);
    EvalTensor *slots = arena_array(k->a, EvalTensor, k->p->slots.n + 1);
    memcpy(slots, k->slots, sizeof *slots * k->p->slots.n);
    const double old = k->inputs[n].at[i].f;
    k->inputs[n].at[i].f = x;
    const char *bad = evaluate(k, k->loss, k->inputs, results, slots);
    const double y = bad ? (double)NAN : results[0].at[0].f;
    k->inputs[n].at[i].f = old;
    arena_reset(k->a, mark);
    return y;
}

static double difference(const Check *k, uint32_t n, int64_t i, double h)
{
    const double x = k->inputs[n].at[i].f;
    /* the step that the rounded points really have */
    const double hi = x + h, lo = x - h;
    return (loss_at(k, n, i, hi) - loss_at(k, n, i, lo)) / (hi - lo);
}

static bool agrees(const Check *k, uint32_t n, int64_t i, double analytic, double *numeric)
{
    const double scale = fmax(1.0, fabs(k->inputs[n].at[i].f));
    static const double steps[] = {1e-5, 1e-6, 1e-4, 1e-7};
    double best = INFINITY;
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        const double d = difference(k, n, i, steps[s] * scale);
        const double error = fabs(d - analytic);
        if (error < best) {
            best = error;
            *numeric = d;
        }
        if (error <= TOLERANCE * fmax(1.0, fmax(fabs(d), fabs(analytic))))
            return true;
    }
    return false;
}

/* 1 or -1, the same for the same element. */
static double sign_of(int64_t i)
{
    uint64_t x = (uint64_t)i * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u;
    x ^= x >> 31;
    return x * 0xbf58476d1ce4e5b9u >> 63 ? 1 : -1;
}

/* The loss with every element of input n moved by h, up or down. */
static double loss_along(const Check *k, uint32_t n, double h)
{
    EvalTensor *x = &k->inputs[n];
    const ArenaMark mark = arena_mark(k->a);
    double *old = arena_array(k->a, double, (size_t)x->n);
    for (int64_t i = 0; i < x->n; i++) {
        old[i] = x->at[i].f;
        x->at[i].f += h * sign_of(i);
    }
    const double y = loss_at(k, n, 0, x->at[0].f);
    for (int64_t i = 0; i < x->n; i++)
        x->at[i].f = old[i];
    arena_reset(k->a, mark);
    return y;
}

/* All elements at once: the derivative along a direction in which each has a part. */
static bool agrees_along(const Check *k, uint32_t n, const EvalTensor *d, double *analytic,
                         double *numeric)
{
    double sum = 0, size = 1, best = INFINITY;
    for (int64_t i = 0; i < d->n; i++) {
        sum += sign_of(i) * d->at[i].f;
        size = fmax(size, fabs(d->at[i].f));
    }
    *analytic = sum;
    static const double steps[] = {1e-5, 1e-6, 1e-7, 1e-8};
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
        const double up = loss_along(k, n, steps[s]), down = loss_along(k, n, -steps[s]);
        const double slope = (up - down) / (2 * steps[s]), error = fabs(slope - sum);
        if (error < best) {
            best = error;
            *numeric = slope;
        }
        if (error <= 10 * TOLERANCE * fmax(size, fmax(fabs(slope), fabs(sum))))
            return true;
    }
    return false;
}

static const char *check_input(const Check *k, uint32_t n, const EvalTensor *d, const char *name)
{
    const int64_t all = k->inputs[n].n, stride = all > MOST_ELEMENTS ? all / MOST_ELEMENTS : 1;
    if (d->n != all)
        return arena_printf(k->p->cx->perm, "the gradient of %s has %lld elements, not %lld", name,
                            (long long)d->n, (long long)all);
    for (int64_t i = 0; i < all; i += stride) {
        double numeric = (double)NAN;
        if (!agrees(k, n, i, d->at[i].f, &numeric))
            return arena_printf(k->p->cx->perm,
                                "element %lld of the gradient of %s is %.9g, differences give %.9g",
                                (long long)i, name, d->at[i].f, numeric);
    }
    double sum = 0, slope = (double)NAN;
    if (stride > 1 && !agrees_along(k, n, d, &sum, &slope))
        return arena_printf(k->p->cx->perm,
                            "along a direction the gradient of %s gives %.9g, differences %.9g",
                            name, sum, slope);
    return NULL;
}

static const char *check_all(Check *k, const Graph *inputs)
{
    EvalTensor *none = NULL;
    k->inputs = arena_array(k->a, EvalTensor, inputs->results.n + 1);
    const char *bad = evaluate(k, inputs, none, k->inputs, k->slots);
    if (bad)
        return bad;
    EvalTensor *results = arena_array(k->a, EvalTensor, k->loss->results.n + 1);
    EvalTensor *slots = arena_array(k->a, EvalTensor, k->p->slots.n + 1);
    memcpy(slots, k->slots, sizeof *slots * k->p->slots.n);
    bad = evaluate(k, k->loss, k->inputs, results, slots);
    for (uint32_t r = 1; r < k->loss->results.n && !bad; r++) {
        const char *name = sym_text(k->p->cx->names, k->loss->results.at[r].name);
        for (uint32_t n = 0; n < k->loss->params.n && !bad; n++) {
            const char *param = sym_text(k->p->cx->names, k->loss->params.at[n].name);
            if (!strncmp(name, "d_", 2) && !strcmp(name + 2, param))
                bad = check_input(k, n, &results[r], param);
        }
    }
    return bad ? arena_strdup(k->p->cx->perm, bad) : NULL;
}

const char *gradcheck_run(Program *p, const GradCheck *c, uint64_t seed)
{
    Check k = {.p = p, .a = arena_create()};
    const Graph *inputs = NULL;
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        const Graph *g = p->graphs.at[i];
        if (g->kind == GRAPH_CHECK && sym_eq(g->method, c->inputs))
            inputs = g;
        if (g->kind == GRAPH_CHECK && sym_eq(g->method, c->loss))
            k.loss = g;
    }
    const char *bad = inputs && k.loss ? NULL : "the check has no graphs";
    k.sizes = arena_array(k.a, int64_t, dim_nsymbols(p->cx->dims) + 1);
    if (!bad)
        bad = make_slots(&k, seed);
    if (!bad)
        bad = check_all(&k, inputs);
    bad = bad ? arena_strdup(p->cx->perm, bad) : NULL;
    arena_destroy(k.a);
    return bad;
}
