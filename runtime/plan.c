/* plan.c: what is known about a program once its sizes are: values of all sizes, which steps run,
 * where each temporary lies. Made once per sizes, kept in a small cache. SPDX-License-Identifier:
 * MIT */
#include "runtime/backend.h"

#include <stdlib.h>
#include <string.h>

enum { STACK = 64 };

static bool floor_div(int64_t a, int64_t b, int64_t *out)
{
    if (b == 0 || (a == INT64_MIN && b == -1))
        return false;
    *out = a / b - (a % b != 0 && (a < 0) != (b < 0));
    return true;
}

bool tn__dim_eval(const tn_program *p, int dim, const int64_t *symbols, const int64_t *dims,
                  int64_t *out)
{
    int64_t stack[STACK];
    int n = 0;
    for (const int64_t *c = p->code + p->dim_code[dim];;) {
        const int64_t op = *c++;
        if (op == TN_D_END)
            break;
        if (op <= TN_D_DIM) {
            if (n == STACK)
                return false;
            stack[n++] = op == TN_D_CONST ? *c : op == TN_D_SYM ? symbols[*c] : dims[*c];
            c++;
            continue;
        }
        if (n < 2)
            return false;
        const int64_t b = stack[--n], a = stack[--n];
        int64_t r = 0;
        bool ok = true;
        switch (op) {
        case TN_D_ADD:
            ok = !__builtin_add_overflow(a, b, &r);
            break;
        case TN_D_SUB:
            ok = !__builtin_sub_overflow(a, b, &r);
            break;
        case TN_D_MUL:
            ok = !__builtin_mul_overflow(a, b, &r);
            break;
        case TN_D_DIV:
            ok = floor_div(a, b, &r);
            break;
        case TN_D_MIN:
            r = a < b ? a : b;
            break;
        case TN_D_MAX:
            r = a > b ? a : b;
            break;
        default:
            ok = false;
        }
        if (!ok)
            return false;
        stack[n++] = r;
    }
    *out = n ? stack[n - 1] : 0;
    return n == 1;
}

int tn__lone_symbol(const tn_program *p, int dim)
{
    const int64_t *c = p->code + p->dim_code[dim];
    return c[0] == TN_D_SYM && c[2] == TN_D_END ? (int)c[1] : -1;
}

static bool guard_holds(tn__device *dev, const tn_program *p, const tn_guard *g,
                        const tn__plan *plan)
{
    const int64_t *d = plan->dims;
    switch (g->kind) {
    case TN_G_EQ:
        return d[g->a] == d[g->b];
    case TN_G_NE:
        return d[g->a] != d[g->b];
    case TN_G_LT:
        return d[g->a] < d[g->b];
    case TN_G_LE:
        return d[g->a] <= d[g->b];
    case TN_G_DIVISIBLE:
        return d[g->a] % g->k == 0;
    case TN_G_WANT: {
        /* results follow the arguments in `given` */
        int nth = 0;
        for (int i = 0; i < p->nargs; i++)
            if (p->args[i].is_result && nth++ == g->k)
                return plan->given[i] != 0;
        return true;
    }
    case TN_G_CHOICE:
        return plan->choice ? plan->choice[g->k / 256] == g->k % 256 : g->k % 256 == 0;
    case TN_G_ARCH:
        return g->k < 0 ? !dev->ops->arch(dev, -g->k) : dev->ops->arch(dev, g->k);
    case TN_G_HAS:
        return g->k < 0 ? !dev->ops->has(dev, -g->k) : dev->ops->has(dev, g->k);
    default:
        return false;
    }
}

bool tn__step_runs(tn_model *m, const tn_program *p, const tn_step *s, const tn__plan *plan)
{
    tn__device *dev = tn__part_of(m, s->place)->dev;
    for (int i = 0; i < s->when.n; i++)
        if (!guard_holds(dev, p, &p->guards[s->when.first + i], plan))
            return false;
    return s->kind != TN_STEP_LAUNCH || plan->dims[s->cells] > 0;
}

static bool buffer_bytes(const tn_program *p, const tn_buffer *b, const int64_t *dims, size_t *out)
{
    int64_t n = (int64_t)tn__dtype_size(b->dtype);
    for (int i = 0; i < b->rank; i++) {
        const int64_t d = dims[p->lists[b->shape + i]];
        if (d < 0 || __builtin_mul_overflow(n, d, &n))
            return false;
    }
    *out = (size_t)n;
    return true;
}

/* Bytes of temporaries, of tape, on the device of a place. */
static size_t *arena_of(tn__plan *plan, int place)
{
    return place ? &plan->arenas[place] : &plan->arena;
}

static size_t *tape_of(tn__plan *plan, int place)
{
    return place ? &plan->tapes[place] : &plan->tape;
}

/* Best fit among the earlier buffers that are alive at the same time. */
static void place_temp(const tn_program *p, const tn_buffer *b, int i, tn__plan *plan,
                       tn__range *taken)
{
    const size_t size = (plan->bytes[i] + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
    int n = 0;
    for (int k = 1; k < i; k++) {
        const tn_buffer *other = &p->buffers[k];
        if (other->last < b->first || b->last < other->first || other->kind != TN_BUF_TEMP ||
            other->of || other->place != b->place)
            continue;
        const size_t bytes = (plan->bytes[k] + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
        if (bytes)
            taken[n++] = (tn__range){plan->place[k], plan->place[k] + bytes};
    }
    plan->place[i] = tn__fit(taken, n, size);
    size_t *arena = arena_of(plan, b->place);
    if (plan->place[i] + size > *arena)
        *arena = plan->place[i] + size;
}

/* Arguments have names of their own; what is in between has one in hand-written tables only. */
static const char *buffer_name(const tn_program *p, int buffer)
{
    for (int i = 0; i < p->nargs; i++)
        if (p->args[i].buffer == buffer)
            return p->args[i].name;
    return p->buffers[buffer].name ? p->buffers[buffer].name : "a temporary value";
}

static tn_status place_all(const tn_program *p, tn__plan *plan)
{
    tn__range *taken = malloc(sizeof *taken * (size_t)(p->nbuffers + 1));
    if (!taken)
        return tn__fail(TN_MEMORY, "no memory for a plan");
    tn_status s = TN_OK;
    for (int i = 1; i < p->nbuffers && !s; i++) {
        const tn_buffer *b = &p->buffers[i];
        if (!buffer_bytes(p, b, plan->dims, &plan->bytes[i]))
            s = tn__fail(TN_SHAPE, "%s: the size of %s overflows or is negative", p->name,
                         buffer_name(p, i));
        else if (b->kind == TN_BUF_TEMP && !b->of && b->first <= b->last)
            place_temp(p, b, i, plan, taken);
        else if (b->kind == TN_BUF_TAPE && !b->of && p->kind == TN_FORWARD_TRAIN) {
            size_t *tape = tape_of(plan, b->place);
            plan->place[i] = *tape;
            *tape += (plan->bytes[i] + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
        }
    }
    free(taken);
    return s;
}

static tn__plan *plan_alloc(const tn_program *p, int nparts)
{
    tn__plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->symbols = calloc((size_t)p->nsymbols + 1, sizeof *plan->symbols);
    plan->given = calloc((size_t)p->nargs + 1, sizeof *plan->given);
    plan->dims = calloc((size_t)p->ndims + 1, sizeof *plan->dims);
    plan->bytes = calloc((size_t)p->nbuffers + 1, sizeof *plan->bytes);
    plan->place = calloc((size_t)p->nbuffers + 1, sizeof *plan->place);
    plan->active = calloc((size_t)p->nsteps + 1, sizeof *plan->active);
    plan->strip = calloc((size_t)p->nsteps + 1, sizeof *plan->strip);
    if (nparts > 1) {
        plan->arenas = calloc(2 * (size_t)nparts, sizeof *plan->arenas);
        plan->tapes = plan->arenas ? plan->arenas + nparts : NULL;
    }
    if ((nparts < 2 || plan->arenas) && plan->symbols && plan->given && plan->dims && plan->bytes && plan->place && plan->active &&
        plan->strip)
        return plan;
    tn__plan_free(plan);
    return NULL;
}

void tn__plan_free(tn__plan *p)
{
    if (!p)
        return;
    if (p->graph)
        p->forget(p->graph);
    tn__lanes_free(p->lanes);
    free(p->arenas);
    tn__tuning_free(p);
    free(p->choice);
    free(p->symbols);
    free(p->given);
    free(p->dims);
    free(p->bytes);
    free(p->place);
    free(p->active);
    free(p->strip);
    tn__loops_free(p);
    free(p);
}

/* Divisors of sizes come last: where a check says the same, it names the user's line. */
static tn_status entry_checks(tn__device *dev, const tn_program *p, const tn__plan *plan)
{
    for (int i = 0; i < p->nchecks; i++)
        if (!guard_holds(dev, p, &p->checks[i].guard, plan))
            return tn__fail(TN_SHAPE, "%s: %s (%s)", p->name, p->checks[i].message,
                            p->checks[i].where);
    for (int i = 0; i < p->nsymbols; i++) {
        const tn_symbol *y = &p->symbols[i];
        if (y->div > 1 && plan->symbols[i] % y->div != y->rem)
            return tn__fail(TN_SHAPE, "%s: %s is %lld, but divided by %lld must leave %lld",
                            p->name, y->name, (long long)plan->symbols[i], (long long)y->div,
                            (long long)y->rem);
    }
    return TN_OK;
}

/* Strips run one after the other, behind the temporaries' memory. */
static tn_status plan_strips(tn_model *m, const tn_program *p, tn__plan *plan)
{
    size_t most = 0, behind = plan->arena;
    for (int i = 0; i < p->nstrips; i++) {
        const int place = p->steps[p->strips[i].first].place;
        tn__device *dev = tn__part_of(m, place)->dev;
        if (!dev->ops->strip)
            return tn__fail(TN_ABI, "%s: the device has no strips", p->name);
        behind = *arena_of(plan, place) > behind ? *arena_of(plan, place) : behind;
        const size_t bytes = dev->ops->strip_bytes(dev, p, plan, i);
        plan->strip[p->strips[i].first] = i + 1;
        most = bytes > most ? bytes : most;
    }
    plan->strips = (behind + TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
    for (int i = 0; i < p->nstrips && most; i++)
        *arena_of(plan, p->steps[p->strips[i].first].place) = plan->strips + most;
    return TN_OK;
}

static tn_status plan_fill(tn_model *m, const tn_program *p, tn__plan *plan)
{
    for (int i = 0; i < p->ndims; i++)
        if (!tn__dim_eval(p, i, plan->symbols, plan->dims, &plan->dims[i]))
            return tn__fail(TN_SHAPE, "%s: a size overflows", p->name);
    tn_status s = entry_checks(m->dev, p, plan);
    if (!s)
        s = tn__loops_find(p, plan);
    if (!s)
        s = place_all(p, plan);
    if (!s)
        s = plan_strips(m, p, plan);
    for (int i = 0; i < p->nsteps && !s; i++)
        plan->active[i] = tn__step_runs(m, p, &p->steps[i], plan);
    return s || !m->parts ? s : tn__lanes_plan(m, p, plan);
}

static uint64_t hash_words(uint64_t h, const void *at, size_t n)
{
    const unsigned char *b = at;
    for (size_t i = 0; i < n; i++)
        h = (h ^ b[i]) * 1099511628211ull;
    return h;
}

static bool same(const tn_program *p, const tn__plan *plan, const int64_t *symbols,
                 const uint8_t *given)
{
    return !memcmp(plan->symbols, symbols, sizeof *symbols * (size_t)p->nsymbols) &&
           !memcmp(plan->given, given, (size_t)p->nargs);
}

static tn_status keep(tn_model *m, tn__plan *plan)
{
    if (!m->plans) {
        m->plans = calloc(TN_MAX_PLANS, sizeof *m->plans);
        if (!m->plans)
            return tn__fail(TN_MEMORY, "no memory for a plan");
    }
    int at = m->nplans;
    if (at == TN_MAX_PLANS) {
        at = 0;
        for (int i = 1; i < TN_MAX_PLANS; i++)
            if (m->plans[i]->used < m->plans[at]->used)
                at = i;
        tn__plan_free(m->plans[at]);
    } else {
        m->nplans++;
    }
    m->plans[at] = plan;
    return TN_OK;
}

tn__plan *tn__plan_get(tn_model *m, int program, const int64_t *symbols, const uint8_t *given)
{
    const tn_program *p = &m->d->programs[program];
    uint64_t h = hash_words(14695981039346656037ull, &program, sizeof program);
    h = hash_words(h, symbols, sizeof *symbols * (size_t)p->nsymbols);
    h = hash_words(h, given, (size_t)p->nargs);
    m->clock++;
    for (int i = 0; i < m->nplans; i++) {
        tn__plan *plan = m->plans[i];
        if (plan->hash == h && plan->program == program && same(p, plan, symbols, given)) {
            plan->used = m->clock;
            return plan;
        }
    }
    tn__plan *plan = plan_alloc(p, m->parts ? m->nparts : 1);
    if (!plan) {
        tn__fail(TN_MEMORY, "no memory for a plan");
        return NULL;
    }
    plan->program = program;
    plan->hash = h;
    plan->used = m->clock;
    memcpy(plan->symbols, symbols, sizeof *symbols * (size_t)p->nsymbols);
    memcpy(plan->given, given, (size_t)p->nargs);
    if (plan_fill(m, p, plan) || (!m->parts && tn__tuning_begin(m, p, plan)) || keep(m, plan)) {
        tn__plan_free(plan);
        return NULL;
    }
    return plan;
}
