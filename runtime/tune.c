/* tune.c: alternatives that differ in time alone (and in the last bits of sums): which one a plan
 * takes. A plan with such choices measures in its first calls: each call runs one alternative of
 * every choice, as any call would, with events around their steps. Then the fastest is kept.
 *
 *   TENON_TUNE=FILE  answers are read from this file and written to it, a line each: later processes
 *                    measure nothing
 *   TENON_TUNE=0     nothing is measured: the first alternative that the machine has
 *
 * SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ALTERNATIVES = 4, ROUNDS = 4 /* of which the first does not count */ };

typedef struct {
    int first, last; /* steps of the alternative that runs now */
    bool possible[MOST_ALTERNATIVES];
    double ms[MOST_ALTERNATIVES];
    bool known; /* nothing to measure */
    tn_event *from, *to;
} Choice;

struct tn__tuning {
    int n, calls, alternatives;
    Choice *choices;
};

/* --- what there is to choose ---------------------------------------------------------------------
 */

static int choice_of(const tn_program *p, const tn_step *s, int *alternative)
{
    for (int i = 0; i < s->when.n; i++) {
        const tn_guard *g = &p->guards[s->when.first + i];
        if (g->kind != TN_G_CHOICE)
            continue;
        *alternative = (int)(g->k % 256);
        return (int)(g->k / 256);
    }
    return -1;
}

static int count_choices(const tn_program *p)
{
    int n = 0, a;
    for (int i = 0; i < p->nsteps; i++) {
        const int c = choice_of(p, &p->steps[i], &a);
        n = c >= n ? c + 1 : n;
    }
    return n;
}

static void set_active(tn_model *m, const tn_program *p, tn__plan *plan)
{
    for (int i = 0; i < p->nsteps; i++)
        plan->active[i] = tn__step_runs(m, p, &p->steps[i], plan);
}

/* --- answers that are known ----------------------------------------------------------------------
 */

static uint64_t add_text(uint64_t h, const char *s)
{
    for (; s && *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211ull;
    return (h ^ 255) * 1099511628211ull;
}

/* Of a choice: device, program, kernels, sizes. */
static uint64_t key_of(const tn_model *m, const tn_program *p, const tn__plan *plan, int choice)
{
    tn_device_info info = {.size = sizeof info};
    uint64_t h = 1469598103934665603ull;
    int a;
    if (!tn_device_properties(m->ctx, m->dev->dl, &info))
        h = add_text(h, info.name);
    h = add_text(add_text(h, m->d->name), p->name);
    for (int i = 0; i < p->nsteps; i++) {
        const tn_step *s = &p->steps[i];
        if (choice_of(p, s, &a) == choice && s->kind == TN_STEP_LAUNCH)
            h = add_text(h, m->d->kernels[s->kernel].name);
    }
    for (int i = 0; i < p->nsymbols; i++) {
        char text[32];
        snprintf(text, sizeof text, "%" PRId64, plan->symbols[i]);
        h = add_text(h, text);
    }
    return (h ^ (unsigned)choice) * 1099511628211ull;
}

static const char *answers(void)
{
    const char *file = getenv("TENON_TUNE");
    return file && *file && strcmp(file, "0") && strcmp(file, "1") ? file : NULL;
}

static int look_up(uint64_t key)
{
    FILE *f = answers() ? fopen(answers(), "r") : NULL;
    char line[64];
    int found = -1, alternative;
    uint64_t k;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "%" SCNx64 " %d", &k, &alternative) == 2 && k == key)
            found = alternative;
    if (f)
        fclose(f);
    return found;
}

static void write_down(uint64_t key, int alternative)
{
    FILE *f = answers() ? fopen(answers(), "a") : NULL;
    if (!f)
        return; /* measured again next time */
    fprintf(f, "%016" PRIx64 " %d\n", key, alternative);
    fclose(f);
}

/* --- a plan's choices ----------------------------------------------------------------------------
 */

void tn__tuning_free(tn__plan *plan)
{
    for (int i = 0; plan->tuning && i < plan->tuning->n; i++) {
        tn_event_destroy(plan->tuning->choices[i].from);
        tn_event_destroy(plan->tuning->choices[i].to);
    }
    if (plan->tuning)
        free(plan->tuning->choices);
    free(plan->tuning);
    plan->tuning = NULL;
}

/* Which alternatives have steps on this machine; the first of them is taken until one is known. */
static void find_possible(tn_model *m, const tn_program *p, tn__plan *plan, tn__tuning *t)
{
    for (int a = 0; a < MOST_ALTERNATIVES; a++) {
        int which;
        memset(plan->choice, a, (size_t)t->n);
        for (int i = 0; i < p->nsteps; i++) {
            const int c = choice_of(p, &p->steps[i], &which);
            if (c >= 0 && which == a && tn__step_runs(m, p, &p->steps[i], plan))
                t->choices[c].possible[a] = true;
        }
    }
    for (int c = 0; c < t->n; c++) {
        int n = 0;
        for (int a = MOST_ALTERNATIVES; a-- > 0;)
            if (t->choices[c].possible[a]) {
                plan->choice[c] = (uint8_t)a;
                n++;
            }
        t->choices[c].known = n < 2;
        t->alternatives = n > t->alternatives ? n : t->alternatives;
    }
}

/* Steps in loops run many times a call: they are not measured. */
static void skip_loops(const tn_program *p, tn__tuning *t)
{
    int depth = 0, a;
    for (int i = 0; i < p->nsteps; i++) {
        const int kind = p->steps[i].kind, c = choice_of(p, &p->steps[i], &a);
        depth += (kind == TN_STEP_LOOP) - (kind == TN_STEP_END);
        if (c >= 0 && depth)
            t->choices[c].known = true;
    }
}

tn_status tn__tuning_begin(tn_model *m, const tn_program *p, tn__plan *plan)
{
    const int n = count_choices(p);
    const char *wish = getenv("TENON_TUNE");
    bool open = false;
    if (!n)
        return TN_OK;
    tn__tuning *t = plan->tuning = calloc(1, sizeof *t);
    plan->choice = calloc((size_t)n, 1);
    if (t)
        t->choices = calloc((size_t)n, sizeof *t->choices);
    if (!t || !t->choices || !plan->choice)
        return tn__fail(TN_MEMORY, "no memory for a plan");
    t->n = n;
    find_possible(m, p, plan, t);
    skip_loops(p, t);
    for (int c = 0; c < n; c++) {
        const int known = t->choices[c].known ? -1 : look_up(key_of(m, p, plan, c));
        if (known >= 0 && known < MOST_ALTERNATIVES && t->choices[c].possible[known]) {
            plan->choice[c] = (uint8_t)known;
            t->choices[c].known = true;
        }
        open |= !t->choices[c].known;
    }
    set_active(m, p, plan);
    if (!open || (wish && !strcmp(wish, "0")))
        tn__tuning_free(plan);
    return TN_OK;
}

/* --- measuring -----------------------------------------------------------------------------------
 */

/* The alternative of this call: the next one that is possible, in turns. */
static void take_turn(const tn__tuning *t, tn__plan *plan)
{
    for (int c = 0; c < t->n; c++) {
        const Choice *x = &t->choices[c];
        int turn = t->calls % t->alternatives, last = plan->choice[c];
        for (int a = 0; a < MOST_ALTERNATIVES && !x->known; a++)
            if (x->possible[a]) {
                last = a;
                if (!turn--)
                    break;
            }
        plan->choice[c] = (uint8_t)last;
    }
}

static void find_steps(const tn_program *p, const tn__plan *plan, tn__tuning *t)
{
    for (int c = 0; c < t->n; c++)
        t->choices[c].first = t->choices[c].last = -1;
    for (int i = 0; i < p->nsteps; i++) {
        int a;
        const int c = choice_of(p, &p->steps[i], &a);
        if (c < 0 || !plan->active[i] || t->choices[c].known)
            continue;
        if (t->choices[c].first < 0)
            t->choices[c].first = i;
        t->choices[c].last = i;
    }
}

static tn_status mark(const Call *c, tn_event **e)
{
    tn_status s = *e ? TN_OK : tn_event_create(c->m->ctx, e);
    return s ? s : tn_event_record(*e, c->stream);
}

static tn_status run_measured(Call *c, tn__tuning *t)
{
    tn_status s = TN_OK;
    for (int i = 0; i < c->p->nsteps && !s; i++) {
        const int end = c->p->steps[i].kind == TN_STEP_LOOP ? c->p->steps[i].operands : i;
        for (int k = 0; k < t->n && !s; k++)
            if (t->choices[k].first == i)
                s = mark(c, &t->choices[k].from);
        if (!s)
            s = tn__run_steps(c, i, end + 1);
        for (int k = 0; k < t->n && !s; k++)
            if (t->choices[k].first >= 0 && t->choices[k].last == i)
                s = mark(c, &t->choices[k].to);
        i = end;
    }
    return s ? s : c->m->dev->ops->sync(c->stream);
}

static void decide(const Call *c, tn__tuning *t)
{
    for (int k = 0; k < t->n; k++) {
        Choice *x = &t->choices[k];
        int best = -1;
        for (int a = 0; a < MOST_ALTERNATIVES && !x->known; a++)
            if (x->possible[a] && (best < 0 || x->ms[a] < x->ms[best]))
                best = a;
        if (best < 0)
            continue;
        c->plan->choice[k] = (uint8_t)best;
        write_down(key_of(c->m, c->p, c->plan, k), best);
    }
}

tn_status tn__tune(Call *c)
{
    tn__plan *plan = c->plan;
    tn__tuning *t = plan->tuning;
    take_turn(t, plan);
    set_active(c->m, c->p, plan);
    find_steps(c->p, plan, t);
    const tn_status s = run_measured(c, t);
    if (s)
        return s;
    for (int k = 0; k < t->n; k++) {
        Choice *x = &t->choices[k];
        double ms = 0;
        if (x->first >= 0 && t->calls >= t->alternatives &&
            !tn_event_elapsed_ms(x->from, x->to, &ms))
            x->ms[plan->choice[k]] += ms;
    }
    if (++t->calls < ROUNDS * t->alternatives)
        return TN_OK;
    decide(c, t);
    set_active(c->m, c->p, plan);
    tn__tuning_free(plan);
    return TN_OK;
}
