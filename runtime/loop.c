/* loop.c: loops of a program: what changes from turn to turn, found once a plan, and the turns
 * themselves. SPDX-License-Identifier: MIT */
#include "runtime/backend.h"

#include <stdlib.h>
#include <string.h>

static bool mentions(const tn_program *p, int dim, int symbol)
{
    for (const int64_t *c = p->code + p->dim_code[dim]; *c != TN_D_END; c++) {
        if (*c > TN_D_DIM)
            continue;
        const int64_t op = *c++;
        if ((op == TN_D_SYM && *c == symbol) || (op == TN_D_DIM && mentions(p, (int)*c, symbol)))
            return true;
    }
    return false;
}

static bool step_varies(const tn_program *p, const tn_step *s, int symbol)
{
    if (s->kind == TN_STEP_LAUNCH && mentions(p, s->cells, symbol))
        return true;
    for (int i = 0; i < s->when.n; i++) {
        const tn_guard *g = &p->guards[s->when.first + i];
        if (mentions(p, g->a, symbol) || mentions(p, g->b, symbol))
            return true;
    }
    return false;
}

/* Sizes, steps and buffers, in a list each; count: only how many there are. */
static void collect(const tn_program *p, tn__loop *l, bool count)
{
    const tn_step *s = &p->steps[l->step];
    l->ndims = l->nsteps = l->npieces = 0;
    for (int i = 0; i < p->ndims; i++)
        if (mentions(p, i, s->kernel)) {
            if (!count)
                l->dims[l->ndims] = i;
            l->ndims++;
        }
    for (int i = l->step + 1; i < s->operands; i++)
        if (step_varies(p, &p->steps[i], s->kernel)) {
            if (!count)
                l->steps[l->nsteps] = i;
            l->nsteps++;
        }
    for (int i = 1; i < p->nbuffers; i++)
        if (p->buffers[i].of && mentions(p, p->buffers[i].offset, s->kernel)) {
            if (!count)
                l->pieces[l->npieces] = i;
            l->npieces++;
        }
}

tn_status tn__loops_find(const tn_program *p, tn__plan *plan)
{
    int n = 0;
    for (int i = 0; i < p->nsteps; i++)
        n += p->steps[i].kind == TN_STEP_LOOP;
    if (!n)
        return TN_OK;
    plan->loops = calloc((size_t)n, sizeof *plan->loops);
    if (!plan->loops)
        return tn__fail(TN_MEMORY, "no memory for a plan");
    for (int i = 0; i < p->nsteps; i++) {
        if (p->steps[i].kind != TN_STEP_LOOP)
            continue;
        tn__loop *l = &plan->loops[plan->nloops++];
        l->step = i;
        collect(p, l, true);
        l->dims = malloc(sizeof *l->dims * (size_t)(l->ndims + l->nsteps + l->npieces + 1));
        if (!l->dims)
            return tn__fail(TN_MEMORY, "no memory for a plan");
        l->steps = l->dims + l->ndims;
        l->pieces = l->steps + l->nsteps;
        collect(p, l, false);
    }
    return TN_OK;
}

void tn__loops_free(tn__plan *plan)
{
    for (int i = 0; i < plan->nloops; i++)
        free(plan->loops[i].dims);
    free(plan->loops);
}

bool tn__loop_turn(Call *c, const tn__loop *l, int64_t turn)
{
    const tn_program *p = c->p;
    tn__plan *plan = c->plan;
    plan->symbols[p->steps[l->step].kernel] = turn;
    for (int i = 0; i < l->ndims; i++)
        if (!tn__dim_eval(p, l->dims[i], plan->symbols, plan->dims, &plan->dims[l->dims[i]]))
            return false;
    for (int i = 0; i < l->nsteps; i++)
        plan->active[l->steps[i]] = tn__step_runs(c->m, p, &p->steps[l->steps[i]], plan);
    for (int i = 0; i < l->npieces; i++)
        tn__place_piece(c, l->pieces[i]);
    return true;
}

tn_status tn__run_loop(Call *c, int step)
{
    const tn_step *s = &c->p->steps[step];
    const tn__loop *l = c->plan->loops;
    while (l->step != step)
        l++;
    const int64_t n = c->plan->dims[s->cells];
    tn_status e = TN_OK;
    bool done = false;
    if (s->nints && c->m->dev->ops->rows && !c->serial)
        e = c->m->dev->ops->rows(c, l, &done);
    for (int64_t i = done ? n : 0; i < n && !e; i++)
        e = tn__loop_turn(c, l, s->nops ? n - 1 - i : i)
                ? tn__run_steps(c, step + 1, s->operands)
                : tn__fail(TN_SHAPE, "%s: a size overflows", c->p->name);
    c->plan->symbols[s->kernel] = 0; /* plans are found by the values of symbols */
    return e;
}
