/* lower_keep.c: what several passes over a row need is made in the first of them, and kept.
 *
 *   for c in 0..1024 lanes { s <- exp(x[n, c] - m) }     for c .. { store y[n, c] = exp(x[n, c] -
 * m) / s } becomes for c .. { keep e[c] = exp(x[n, c] - m)   s <- e[c] }     for c .. { store y[n,
 * c] = e[c] / s }
 *
 * On CUDA kept values are registers, and spare a second read: either the largest expressions that
 * passes have in common, or the elements that they load, whichever are fewer. On CPUs the row is in
 * the cache: only work is kept. SPDX-License-Identifier: MIT */
#include "passes/lower_row.h"

enum {
    WORK = 4,         /* weight of what is worth a place in memory */
    WORK_ENOUGH = 1 << 20,
    CPU_KEPT = 32768, /* elements of local arrays */
    CUDA_LANES = 1024
};

typedef struct {
    Row *w;
    KBuild *b;
    Kernel *k;
    Symbol axis;      /* along the row */
    bool *varies;     /* by expression: along the row */
    bool *streams;    /* and from row to row: not in a cache already */
    uint32_t *weight; /* of all that an expression computes */
    uint32_t *first;  /* 1 + first pass that evaluates it for certain; 0: none */
    uint32_t *last;   /* last pass that uses it as a kept value; 0: it is not kept */
    uint32_t *keep;   /* number of its kept value + 1 */
    uint32_t *seen;   /* last walk that came to it */
    uint32_t walk;
    KExpr *map;       /* of the pass that is being rewritten */
    uint32_t n;       /* expressions before rewriting */
    VEC(uint32_t) chosen;
} Keeps;

/* --- properties of expressions -------------------------------------------------------------------
 */

typedef enum { ALONG = 1, ACROSS = 2 } Motion;

/* Whether an index changes along the row, and from row to row. */
static int motion_of(const Keeps *w, Dim d)
{
    const DimTable *t = w->b->l->t;
    int m = 0;
    if (!d.id)
        return 0;
    if (dim_mentions(t, d, w->axis))
        m |= ALONG;
    for (uint32_t i = 0; i < w->b->loaded.n; i++) {
        const Loaded *x = &w->b->loaded.at[i];
        if (dim_mentions(t, d, x->symbol))
            m |= (w->varies[x->expr.id] ? ALONG : 0) | ACROSS;
    }
    DimSubst zero = {w->axis, dim_const(w->b->l->t, 0)};
    if (dim_mentions_kind(t, dim_substitute(w->b->l->t, d, &zero, 1), SYM_AXIS))
        m |= ACROSS;
    return m;
}

static void find_properties(Keeps *w)
{
    for (uint32_t e = 1; e < w->n; e++) {
        const KExprInfo *x = &w->k->exprs.at[e];
        int m = motion_of(w, x->index);
        bool streams = false;
        w->weight[e] = x->kind == KE_OP ? (uint32_t)op_info(x->op)->weight
                       : x->kind == KE_RANDOM || x->kind == KE_EXTERN ? 2 * WORK
                                                                      : 0;
        for (uint32_t i = 0; x->kind == KE_LOAD && i < w->k->params.at[x->param].rank; i++)
            m |= motion_of(w, x->at[i]);
        for (uint32_t i = 0; i < x->pred.n; i++)
            m |= motion_of(w, x->pred.at[i].a) | motion_of(w, x->pred.at[i].b);
        w->varies[e] = m & ALONG;
        streams = (x->kind == KE_LOAD || x->kind == KE_RANDOM) && m == (ALONG | ACROSS);
        for (uint32_t i = 0; i < x->nin; i++) {
            w->varies[e] |= w->varies[x->in[i].id];
            streams |= w->streams[x->in[i].id];
            w->weight[e] += w->weight[x->in[i].id];
            if (w->weight[e] > WORK_ENOUGH)
                w->weight[e] = WORK_ENOUGH;
        }
        w->streams[e] = streams;
    }
}

/* What stands under a predicate may not be evaluated. */
static void mark(Keeps *w, KExpr e, uint32_t pass)
{
    const KExprInfo *x = kexpr(w->k, e);
    if (!e.id || w->first[e.id])
        return;
    w->first[e.id] = pass + 1;
    for (uint32_t i = 0; i < x->nin && x->kind != KE_SELECT; i++)
        mark(w, x->in[i], pass);
}

/* --- choosing
 * -------------------------------------------------------------------------------------
 */

typedef enum { KEEP_SHARED, KEEP_LOADS, KEEP_WORK } Choice;

static bool worth(const Keeps *w, KExpr e, Choice choice)
{
    if (!w->streams[e.id])
        return false;
    return choice == KEEP_LOADS  ? kexpr(w->k, e)->kind == KE_LOAD
           : choice == KEEP_WORK ? w->weight[e.id] >= WORK
                                 : true;
}

/* Most of the work is done in one operand, which can be kept as well. */
static bool work_below(const Keeps *w, KExpr e, uint32_t pass)
{
    const KExprInfo *x = kexpr(w->k, e);
    for (uint32_t i = 0; i < x->nin; i++) {
        const uint32_t in = x->in[i].id;
        if (w->first[in] && w->first[in] <= pass && worth(w, x->in[i], KEEP_WORK) &&
            w->weight[e.id] - w->weight[in] < WORK)
            return true;
    }
    return false;
}

static void choose_in(Keeps *w, KExpr e, uint32_t pass, Choice choice)
{
    if (!e.id || !w->varies[e.id] || w->seen[e.id] == w->walk)
        return;
    w->seen[e.id] = w->walk; /* a value used twice at every step is not walked both ways */
    const KExprInfo *x = kexpr(w->k, e);
    if (w->first[e.id] && w->first[e.id] <= pass && worth(w, e, choice) &&
        !(choice == KEEP_WORK && work_below(w, e, pass))) {
        if (!w->last[e.id])
            vec_push(w->b->l->a, &w->chosen, e.id);
        w->last[e.id] = pass;
        return;
    }
    for (uint32_t i = 0; i < x->nin; i++)
        choose_in(w, x->in[i], pass, choice);
}

/* How many values are held at once, at most. */
static uint32_t choose(Keeps *w, Choice choice)
{
    uint32_t most = 0;
    while (w->chosen.n)
        w->last[w->chosen.at[--w->chosen.n]] = 0;
    for (uint32_t p = 1; p < w->w->nphases; p++) {
        w->walk++;
        for (uint32_t i = 0; i < w->w->phase[p].fold.n; i++)
            choose_in(w, w->w->phase[p].fold.at[i].expr, p, choice);
    }
    for (uint32_t p = 1; p < w->w->nphases; p++) {
        uint32_t now = 0;
        for (uint32_t i = 0; i < w->chosen.n; i++)
            now += w->first[w->chosen.at[i]] <= p && w->last[w->chosen.at[i]] >= p;
        most = now > most ? now : most;
    }
    return most;
}

static uint32_t choose_best(Keeps *w, int64_t row, uint32_t nside)
{
    const int64_t room = w->b->l->o->cuda ? (int64_t)FUSE_REGISTERS * CUDA_LANES : CPU_KEPT;
    uint32_t n;
    if (!w->b->l->o->cuda) {
        n = choose(w, KEEP_WORK);
    } else {
        const uint32_t loads = choose(w, KEEP_LOADS);
        n = choose(w, KEEP_SHARED);
        if (loads < n)
            n = choose(w, KEEP_LOADS);
    }
    return (n + nside) * row <= room ? n : 0;
}

/* --- rewriting
 * ------------------------------------------------------------------------------------
 */

static KExpr rewrite(Keeps *w, KExpr e, uint32_t pass)
{
    if (!e.id || !w->varies[e.id] || w->map[e.id].id)
        return e.id && w->map[e.id].id ? w->map[e.id] : e;
    KExprInfo x = *kexpr(w->k, e);
    KExpr to;
    if (w->keep[e.id] && w->first[e.id] <= pass) {
        to = kernel_expr(w->b->l->p, w->k,
                         (KExprInfo){.kind = KE_KEEP,
                                     .type = x.type,
                                     .keep = w->keep[e.id] - 1,
                                     .index = dim_of(w->b->l->t, w->axis)});
    } else {
        for (uint32_t i = 0; i < x.nin; i++)
            x.in[i] = rewrite(w, x.in[i], pass);
        to = kernel_expr(w->b->l->p, w->k, x);
    }
    w->map[e.id] = to;
    return to;
}

static void rewrite_pass(Keeps *w, uint32_t pass)
{
    KBlock *fold = &w->w->phase[pass].fold, old = *fold;
    *fold = (KBlock){0};
    w->map = arena_array(w->b->l->p->cx->scratch, KExpr, w->n);
    for (uint32_t i = 0; i < w->chosen.n; i++) {
        const uint32_t e = w->chosen.at[i];
        if (w->first[e] != pass + 1)
            continue;
        KExpr value = rewrite(w, (KExpr){e}, pass);
        KStmt *s = kblock_add(w->b->l->p, fold, KS_KEEP);
        s->keep = w->keep[e] - 1;
        s->keep_index = dim_of(w->b->l->t, w->axis);
        s->expr = value;
        s->site = kexpr(w->k, value)->site;
    }
    for (uint32_t i = 0; i < old.n; i++) {
        KStmt s = old.at[i];
        if (s.expr.id)
            s.expr = rewrite(w, s.expr, pass);
        vec_push(w->b->l->p->cx->kernels, fold, s);
    }
}

static void make_keeps(Keeps *w)
{
    for (uint32_t i = 0; i < w->chosen.n; i++) {
        const KExprInfo *x = kexpr(w->k, (KExpr){w->chosen.at[i]});
        KKeep keep = {
            .type = x->type, .axis = w->axis, .extent = dim_symbol(w->b->l->t, w->axis)->extent};
        keep.name = kbuild_name(w->b, x->name, "kept");
        vec_push(w->b->l->a, &w->k->keeps, keep);
        w->keep[w->chosen.at[i]] = w->k->keeps.n;
    }
    for (uint32_t p = 0; p < w->w->nphases; p++)
        rewrite_pass(w, p);
}

uint32_t row_keeps(Row *row, const RowAxes *x, uint32_t nside)
{
    KBuild *b = row->b;
    Arena *a = b->l->p->cx->scratch;
    int64_t n;
    if (row->nphases < 2 || x->nreduced != 1 || x->columns ||
        !dim_is_const(b->l->t, dim_symbol(b->l->t, x->reduced[0])->extent, &n) || n > FUSE_ROW)
        return 0;
    Keeps w = {.w = row, .b = b, .k = b->k, .axis = x->reduced[0], .n = b->k->exprs.n};
    w.varies = arena_array(a, bool, w.n);
    w.streams = arena_array(a, bool, w.n);
    w.weight = arena_array(a, uint32_t, w.n);
    w.first = arena_array(a, uint32_t, w.n);
    w.last = arena_array(a, uint32_t, w.n);
    w.keep = arena_array(a, uint32_t, w.n);
    w.seen = arena_array(a, uint32_t, w.n);
    find_properties(&w);
    for (uint32_t p = 0; p < row->nphases; p++)
        for (uint32_t i = 0; i < row->phase[p].fold.n; i++)
            mark(&w, row->phase[p].fold.at[i].expr, p);
    const uint32_t most = choose_best(&w, n, nside);
    if (most)
        make_keeps(&w);
    return most;
}
