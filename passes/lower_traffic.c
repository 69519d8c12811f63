/* lower_traffic.c: what a kernel moves and computes, for -report. SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"

/* Work of one evaluation; what has a LET counts where the LET stands. */
static int64_t expr_work(const Kernel *k, KExpr e, const bool *let, bool top)
{
    if (!e.id || (!top && let[e.id]))
        return 0;
    const KExprInfo *x = kexpr(k, e);
    int64_t n = x->kind == KE_OP ? op_info(x->op)->weight : x->kind == KE_RANDOM ? 20 : 0;
    for (uint32_t i = 0; i < x->nin; i++)
        n += expr_work(k, x->in[i], let, false);
    return n;
}

static void find_lets(const KBlock *b, bool *let)
{
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->at[i].kind == KS_LET && !b->at[i].axis.id)
            let[b->at[i].expr.id] = true;
        find_lets(&b->at[i].body, let);
    }
}

/* The loops around a statement, and how often each runs. */
typedef struct {
    Symbol axis[32];
    Dim n[32];
    uint32_t depth;
} Around;

static Dim product_of(DimTable *t, const Around *w)
{
    Dim times = dim_const(t, 1);
    for (uint32_t i = 0; i < w->depth; i++)
        times = dim_mul(t, times, w->n[i]);
    return times;
}

/* Around the body of a loop. A loop over a part of an axis, from a bound that an outer loop gives,
 * counts the whole axis, and that outer loop not at all: its parts make up the whole. One up to a
 * bound that an outer loop gives (the last share is shorter) counts as if it always were as long.
 */
static Around inside(DimTable *t, const Around *w, const KStmt *loop)
{
    Around in = {.depth = 0};
    const bool part = dim_mentions_kind(t, loop->lo, SYM_AXIS);
    for (uint32_t i = 0; i < w->depth && in.depth + 1 < ARRAY_LEN(in.axis); i++)
        if (!part || !dim_mentions(t, loop->lo, w->axis[i])) {
            in.axis[in.depth] = w->axis[i];
            in.n[in.depth++] = w->n[i];
        }
    in.axis[in.depth] = loop->axis;
    const bool all = part || dim_mentions_kind(t, loop->hi, SYM_AXIS) ||
                     dim_mentions_kind(t, loop->hi, SYM_LOADED);
    in.n[in.depth++] = all ? dim_symbol(t, loop->axis)->extent : dim_sub(t, loop->hi, loop->lo);
    return in;
}

static Dim smaller(DimTable *t, Dim a, Dim b)
{
    return dim_hint(t, a) <= dim_hint(t, b) ? a : b;
}

/* Around what one cell does of all that come to a counter. */
static Around behind_counter(DimTable *t, const Around *w, const KStmt *last, int counters)
{
    Around in = {.depth = 0};
    for (uint32_t i = 0; i < w->depth; i++)
        if (dim_mentions(t, last->lo, w->axis[i])) {
            in.axis[in.depth] = w->axis[i];
            in.n[in.depth++] = w->n[i];
        }
    if (in.depth == 1 && !last->over_block)
        in.n[0] = smaller(t, in.n[0], dim_const(t, counters));
    return in;
}

/* How many elements a load takes in all turns of the loops around it. An index that is loaded may
 * be another one in each turn. */
static Dim load_elements(DimTable *t, const Kernel *k, const KExprInfo *x, const Around *w)
{
    Dim n = dim_const(t, 1);
    for (uint32_t i = 0; i < w->depth; i++) {
        bool used = false;
        for (uint32_t j = 0; j < k->params.at[x->param].rank; j++)
            used |=
                dim_mentions(t, x->at[j], w->axis[i]) || dim_mentions_kind(t, x->at[j], SYM_LOADED);
        if (used)
            n = dim_mul(t, n, w->n[i]);
    }
    return n;
}

/* What is loaded in one block. */
typedef struct {
    DimTable *t;
    const Kernel *k;
    const bool *let;
    const Around *around;
    bool *seen; /* by expression */
    Dim *loads; /* by parameter: elements; {0}: none */
} Loads;

/* Adds what an expression loads to its parameters. */
static void add_loads(Loads *w, KExpr e, bool top)
{
    if (!e.id || w->seen[e.id] || (!top && w->let[e.id]))
        return;
    const KExprInfo *x = kexpr(w->k, e);
    w->seen[e.id] = true;
    if (x->kind == KE_LOAD) {
        Dim *to = &w->loads[x->param], n = load_elements(w->t, w->k, x, w->around);
        *to = to->id ? dim_add(w->t, *to, n) : n;
    }
    for (uint32_t i = 0; i < x->nin; i++)
        add_loads(w, x->in[i], false);
}

static Dim param_elements(DimTable *t, const KParam *q)
{
    Dim n = dim_const(t, 1);
    for (uint32_t j = 0; j < q->rank; j++)
        if (!dim_is_zero(t, q->stride[j]))
            n = dim_mul(t, n, q->shape[j]);
    return n;
}

typedef struct {
    Program *p;
    Kernel *k;
    const bool *let;
    Dim *reads, *most; /* by parameter: elements of all passes; of the largest one. {0}: none */
} Count;

/* Counts operations; each block that loads a parameter in its own statements is a pass over it, or
 * over the part of it that is asked for; what is loaded around it counts once. */
static void count_block(Count *c, const KBlock *b, const Around *w)
{
    Kernel *k = c->k;
    DimTable *t = c->p->cx->dims;
    Arena *a = c->p->cx->scratch;
    Loads loads = {
        t, k, c->let, w, arena_array(a, bool, k->exprs.n), arena_array(a, Dim, k->params.n + 1)};
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        const int64_t work = expr_work(k, s->expr, c->let, true) + (s->kind == KS_FOLD);
        if (work)
            k->flops = dim_add(t, k->flops, dim_mul(t, dim_const(t, work), product_of(t, w)));
        add_loads(&loads, s->expr, true);
        if (s->kind == KS_FOR) {
            const Around in = inside(t, w, s);
            count_block(c, &s->body, &in);
        } else if (s->kind == KS_WHEN) {
            count_block(c, &s->body, w);
        } else if (s->kind == KS_LAST) {
            const Around in = behind_counter(t, w, s, k->counters);
            count_block(c, &s->body, &in);
        }
    }
    for (uint32_t i = 0; i < k->params.n; i++) {
        if (!loads.loads[i].id)
            continue;
        Dim n = smaller(t, loads.loads[i], param_elements(t, &k->params.at[i]));
        c->most[i] = c->most[i].id && smaller(t, c->most[i], n).id == n.id ? c->most[i] : n;
        c->reads[i] = c->reads[i].id ? dim_add(t, c->reads[i], n) : n;
    }
}

void kernel_traffic(Program *p, Kernel *k)
{
    DimTable *t = p->cx->dims;
    Arena *a = p->cx->scratch;
    bool *let = arena_array(a, bool, k->exprs.n);
    find_lets(&k->body, let);
    Count c = {p, k, let, arena_array(a, Dim, k->params.n + 1),
               arena_array(a, Dim, k->params.n + 1)};
    const Around none = {.depth = 0};
    count_block(&c, &k->body, &none);
    for (uint32_t i = 0; i < k->params.n; i++) {
        const KParam *q = &k->params.at[i];
        const Dim size = dim_const(t, dtype_size(q->dtype)), all = param_elements(t, q);
        /* a call, or an index, reads without a load that is seen here */
        const Dim reads = c.reads[i].id ? c.reads[i] : all, least = c.most[i].id ? c.most[i] : all;
        if (q->mode != K_OUT || c.reads[i].id) {
            k->bytes_read = dim_add(t, k->bytes_read, dim_mul(t, size, reads));
            k->bytes_least = dim_add(t, k->bytes_least, dim_mul(t, size, least));
        }
        if (q->mode != K_IN) {
            k->bytes_written = dim_add(t, k->bytes_written, dim_mul(t, size, all));
            k->bytes_least = dim_add(t, k->bytes_least, dim_mul(t, size, all));
        }
    }
}
