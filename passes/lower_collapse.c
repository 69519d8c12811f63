/* lower_collapse.c: two loops become one where all indices allow it, so that inner loops are long.
 *
 *   for b in 0..B, c in 0..128: store y[b, c] = relu(x[b, c])      (x, y: f32[B, 128])
 * becomes
 *   for i in 0..128*B: store y[i] = relu(x[i])                     (x, y: f32[128*B])
 *
 * but with `+ bias[c]` it stays as it is. SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"

#include <string.h>

typedef struct {
    KBuild *b;
    DimTable *t;
    Symbol outer, inner;
    Dim a, i, n;   /* the two axes, the extent of the inner one */
    Dim merged;    /* the new axis, once it exists */
    uint8_t *pair; /* by parameter: 1 + the axis that is merged with the next one, 0: none */
} Collapse;

static bool mentions(const Collapse *c, Dim d)
{
    return d.id && (dim_mentions(c->t, d, c->outer) || dim_mentions(c->t, d, c->inner));
}

/* d is f + k * (outer * n + inner) with f and k free of both. */
static bool is_linear(const Collapse *c, Dim d, Dim *f, Dim *k)
{
    DimTable *t = c->t;
    DimSubst zero[] = {{c->outer, dim_const(t, 0)}, {c->inner, dim_const(t, 0)}};
    DimSubst one[] = {{c->outer, dim_const(t, 0)}, {c->inner, dim_const(t, 1)}};
    *f = dim_substitute(t, d, zero, 2);
    *k = dim_sub(t, dim_substitute(t, d, one, 2), *f);
    Dim linear = dim_add(t, dim_mul(t, c->a, c->n), c->i);
    return dim_same(d, dim_add(t, *f, dim_mul(t, *k, linear)));
}

static bool check_dim(const Collapse *c, Dim d)
{
    Dim f, k;
    return !mentions(c, d) || is_linear(c, d, &f, &k);
}

static Dim map_dim(const Collapse *c, Dim d)
{
    Dim f, k;
    if (!mentions(c, d))
        return d;
    CHECK(is_linear(c, d, &f, &k));
    return dim_add(c->t, f, dim_mul(c->t, k, c->merged));
}

static bool check_guard(const Collapse *c, Guard g)
{
    for (uint32_t i = 0; i < g.n; i++)
        if (!check_dim(c, g.at[i].a) || !check_dim(c, g.at[i].b))
            return false;
    return true;
}

static Guard map_guard(const Collapse *c, Guard g)
{
    GuardTerm *terms = arena_array(c->b->l->a, GuardTerm, g.n);
    for (uint32_t i = 0; i < g.n; i++) {
        terms[i] = g.at[i];
        terms[i].a = map_dim(c, g.at[i].a);
        terms[i].b = map_dim(c, g.at[i].b);
    }
    return (Guard){terms, g.n};
}

/* --- accesses
 * ------------------------------------------------------------------------------------- */

static bool is_pair(const Collapse *c, const KParam *q, const Dim *at, uint32_t k)
{
    return k + 1 < q->rank && dim_same(at[k], c->a) && dim_same(at[k + 1], c->i) &&
           dim_same(q->shape[k + 1], c->n) &&
           dim_same(q->stride[k], dim_mul(c->t, q->stride[k + 1], c->n));
}

static bool check_access(Collapse *c, uint32_t param, const Dim *at)
{
    const KParam *q = &c->b->k->params.at[param];
    for (uint32_t k = 0; k < q->rank; k++) {
        if (is_pair(c, q, at, k)) {
            if (c->pair[param] && c->pair[param] != k + 1)
                return false;
            c->pair[param] = (uint8_t)(k + 1);
            k++;
        } else if (!check_dim(c, at[k])) {
            return false;
        }
    }
    return true;
}

/* With the parameter's shape as it was. */
static void map_access(const Collapse *c, uint32_t param, Dim *at)
{
    const KParam *q = &c->b->k->params.at[param];
    uint32_t n = 0, pair = c->pair[param];
    for (uint32_t k = 0; k < q->rank; k++) {
        if (pair == k + 1) {
            at[n++] = is_pair(c, q, at, k)
                          ? c->merged
                          : dim_add(c->t, dim_mul(c->t, map_dim(c, at[k]), q->shape[k + 1]),
                                    map_dim(c, at[k + 1]));
            k++;
        } else {
            at[n++] = map_dim(c, at[k]);
        }
    }
    if (pair)
        at[n] = (Dim){0};
}

/* A pair that other accesses know only by its parts has to be one run of memory. */
static bool check_pairs(const Collapse *c)
{
    for (uint32_t i = 0; i < c->b->k->params.n; i++) {
        const KParam *q = &c->b->k->params.at[i];
        uint32_t k = c->pair[i];
        if (k && !dim_same(q->stride[k - 1], dim_mul(c->t, q->stride[k], q->shape[k])))
            return false;
    }
    return true;
}

static void merge_params(const Collapse *c)
{
    for (uint32_t i = 0; i < c->b->k->params.n; i++) {
        KParam *q = &c->b->k->params.at[i];
        if (!c->pair[i])
            continue;
        uint32_t k = c->pair[i] - 1u;
        q->shape[k] = dim_mul(c->t, q->shape[k], q->shape[k + 1]);
        q->stride[k] = q->stride[k + 1];
        for (uint32_t j = k + 1; j + 1 < q->rank; j++) {
            q->shape[j] = q->shape[j + 1];
            q->stride[j] = q->stride[j + 1];
        }
        q->rank--;
        q->shape[q->rank] = q->stride[q->rank] = (Dim){0};
    }
}

/* --- the whole kernel
 * ------------------------------------------------------------------------------ */

static bool check_stmt(Collapse *c, const KStmt *s)
{
    if (s->kind == KS_STORE && !check_access(c, s->param, s->at))
        return false;
    return check_dim(c, s->fold_index) && check_dim(c, s->keep_index) && check_guard(c, s->pred);
}

static bool check_all(Collapse *c, KBlock *const *blocks, uint32_t n)
{
    const Kernel *k = c->b->k;
    for (uint32_t i = 1; i < k->exprs.n; i++) {
        const KExprInfo *x = &k->exprs.at[i];
        if (x->kind == KE_LOAD && !check_access(c, x->param, x->at))
            return false;
        if (!check_dim(c, x->index) || !check_guard(c, x->pred))
            return false;
    }
    for (uint32_t i = 0; i < c->b->loaded.n; i++)
        if (!check_guard(c, c->b->loaded.at[i].check))
            return false;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < blocks[i]->n; j++)
            if (!check_stmt(c, &blocks[i]->at[j]))
                return false;
    return check_pairs(c);
}

static KExpr *map_exprs(Collapse *c)
{
    Kernel *k = c->b->k;
    uint32_t n = k->exprs.n;
    KExprInfo *old = k->exprs.at;
    KExpr *map = arena_array(c->b->l->a, KExpr, n);
    k->exprs.at = NULL;
    k->exprs.n = k->exprs.cap = k->table_size = 0;
    vec_push(c->b->l->a, &k->exprs, ((KExprInfo){0}));
    for (uint32_t i = 1; i < n; i++) {
        KExprInfo x = old[i];
        for (uint32_t j = 0; j < x.nin; j++)
            x.in[j] = map[x.in[j].id];
        if (x.kind == KE_LOAD)
            map_access(c, x.param, x.at);
        x.index = map_dim(c, x.index);
        x.pred = map_guard(c, x.pred);
        map[i] = kernel_expr(c->b->l->p, k, x);
    }
    return map;
}

static void map_stmt(const Collapse *c, KStmt *s, const KExpr *map)
{
    s->expr = map[s->expr.id];
    if (s->kind == KS_STORE)
        map_access(c, s->param, s->at);
    s->fold_index = map_dim(c, s->fold_index);
    s->keep_index = map_dim(c, s->keep_index);
    s->pred = map_guard(c, s->pred);
}

static void forget_name(KBuild *b, Symbol axis)
{
    names_release(&b->l->kernel_names, dim_symbol(b->l->t, axis)->name);
}

Symbol kernel_collapse(KBuild *b, Symbol outer, Symbol inner, KBlock *const *blocks, uint32_t n)
{
    DimTable *t = b->l->t;
    Collapse c = {.b = b,
                  .t = t,
                  .outer = outer,
                  .inner = inner,
                  .a = dim_of(t, outer),
                  .i = dim_of(t, inner),
                  .n = dim_symbol(t, inner)->extent,
                  .pair = arena_array(b->l->a, uint8_t, b->k->params.n + 1)};
    if (!check_all(&c, blocks, n))
        return (Symbol){0};
    forget_name(b, outer);
    forget_name(b, inner);
    Symbol merged = kbuild_axis(b, dim_mul(t, dim_symbol(t, outer)->extent, c.n));
    c.merged = dim_of(t, merged);
    KExpr *map = map_exprs(&c);
    for (uint32_t i = 0; i < b->loaded.n; i++) {
        b->loaded.at[i].expr = map[b->loaded.at[i].expr.id];
        b->loaded.at[i].check = map_guard(&c, b->loaded.at[i].check);
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < blocks[i]->n; j++)
            map_stmt(&c, &blocks[i]->at[j], map);
    merge_params(&c);
    b->memo = NULL;
    b->nmemo = b->memo_size = 0;
    return merged;
}

void kernel_collapse_all(KBuild *b, Symbol *axes, uint32_t *n, KBlock *const *blocks,
                         uint32_t nblocks)
{
    for (uint32_t i = *n; i-- > 1;) {
        Symbol merged = kernel_collapse(b, axes[i - 1], axes[i], blocks, nblocks);
        if (!merged.id)
            continue;
        axes[i - 1] = merged;
        for (uint32_t j = i; j + 1 < *n; j++)
            axes[j] = axes[j + 1];
        (*n)--;
    }
}
