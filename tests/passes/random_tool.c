/* random_tool.c: prints a random well-typed program of tensor IR: one training graph over arguments
 * and parameters. The same seed, the same program.
 *   random_tool SEED
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "ir/tensor.h"

enum { POOL = 64, STEPS = 18, DIMS = 5 };

typedef struct {
    Ctx *cx;
    Program *p;
    Graph *g;
    Builder b;
    uint64_t seed;
    Dim dims[DIMS];
    Val pool[POOL];
    uint32_t n;
} Gen;

static uint32_t pick(Gen *r, uint32_t n)
{
    r->seed = r->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(r->seed >> 33) % n;
}

static void add(Gen *r, Val v)
{
    const TypeInfo *t = val_info(r->p, r->g, v);
    if (r->n < POOL && t->rank <= 4 && t->dtype == DT_f32)
        r->pool[r->n++] = v;
}

/* Younger values more often: chains rather than stars. */
static Val any(Gen *r)
{
    uint32_t a = pick(r, r->n), b = pick(r, r->n);
    return r->pool[a > b ? a : b];
}

static TypeInfo type(Gen *r, Val v)
{
    return *val_info(r->p, r->g, v);
}

static bool same_shape(const TypeInfo *a, const TypeInfo *b)
{
    if (a->rank != b->rank)
        return false;
    for (uint32_t k = 0; k < a->rank; k++)
        if (!dim_same(a->shape[k], b->shape[k]))
            return false;
    return true;
}

static void unary(Gen *r)
{
    static const Op ops[] = {OP_sin, OP_tanh, OP_sigmoid, OP_relu, OP_neg, OP_abs, OP_cos};
    add(r, build1(&r->b, ops[pick(r, 7)], any(r)));
}

/* y, spread to the shape of x if its axes are found there in order; {0,0} if not. */
static Val spread(Gen *r, Val y, const TypeInfo *x)
{
    TypeInfo t = type(r, y);
    int64_t dims[MAX_RANK];
    uint32_t at = 0;
    for (uint32_t k = 0; k < x->rank && at < t.rank; k++)
        if (dim_same(x->shape[k], t.shape[at]))
            dims[at++] = k;
    return at == t.rank ? build_broadcast(&r->b, y, x->shape, x->rank, dims) : (Val){0, 0};
}

static void binary(Gen *r)
{
    static const Op ops[] = {OP_add, OP_mul, OP_sub, OP_max};
    Val x = any(r), y = any(r);
    TypeInfo t = type(r, x), u = type(r, y);
    Val z = same_shape(&t, &u) ? y : spread(r, y, &t);
    if (z.node)
        add(r, build2(&r->b, ops[pick(r, 4)], x, z));
}

static void reduce(Gen *r)
{
    static const Reducer kinds[] = {RED_add,       RED_max,    RED_moments,
                                    RED_logsumexp, RED_argmax, RED_add};
    Val x = any(r);
    TypeInfo t = type(r, x);
    int64_t axes[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t k = 0; k < t.rank; k++)
        if (pick(r, 2))
            axes[n++] = k;
    if (!n)
        return;
    Reducer kind = kinds[pick(r, 6)];
    Val v = build_reduce(&r->b, kind, x, axes, n);
    add(r, build1(&r->b, OP_tanh, v));
    if (kind == RED_moments)
        add(r, build1(&r->b, OP_tanh, val_result(v, 1)));
    Val back = {0, 0};
    if (pick(r, 2)) { /* as softmax and norms do */
        int64_t dims[MAX_RANK];
        uint32_t at = 0;
        for (uint32_t k = 0; k < t.rank; k++) {
            bool gone = false;
            for (uint32_t i = 0; i < n; i++)
                gone |= axes[i] == (int64_t)k;
            if (!gone)
                dims[at++] = k;
        }
        back = build_broadcast(&r->b, v, t.shape, t.rank, dims);
        add(r, build1(&r->b, OP_tanh, build2(&r->b, OP_sub, x, back)));
    }
}

static void transpose(Gen *r)
{
    Val x = any(r);
    TypeInfo t = type(r, x);
    int64_t perm[MAX_RANK];
    for (uint32_t k = 0; k < t.rank; k++)
        perm[k] = k;
    for (uint32_t k = 1; k < t.rank; k++) {
        uint32_t j = pick(r, k + 1);
        int64_t p = perm[k];
        perm[k] = perm[j];
        perm[j] = p;
    }
    add(r, build_transpose(&r->b, x, perm));
}

static void reshape(Gen *r)
{
    Val x = any(r);
    TypeInfo t = type(r, x);
    Dim shape[MAX_RANK];
    DimTable *d = r->cx->dims;
    uint32_t n = 0, at = t.rank ? pick(r, t.rank) : 0;
    int64_t size;
    for (uint32_t k = 0; k < t.rank; k++) {
        if (k == at && k + 1 < t.rank && pick(r, 2)) {
            shape[n++] = dim_mul(d, t.shape[k], t.shape[k + 1]);
            k++;
        } else if (k == at && dim_is_const(d, t.shape[k], &size) && size % 2 == 0) {
            shape[n++] = dim_const(d, 2);
            shape[n++] = dim_const(d, size / 2);
        } else {
            shape[n++] = t.shape[k];
        }
    }
    if (n <= 4)
        add(r, build_reshape(&r->b, x, shape, n));
}

static void slice(Gen *r)
{
    Val x = any(r);
    TypeInfo t = type(r, x);
    DimTable *d = r->cx->dims;
    int64_t size;
    for (uint32_t k = 0; k < t.rank; k++) {
        if (!dim_is_const(d, t.shape[k], &size) || size < 3 || !pick(r, 2))
            continue;
        uint32_t lo = pick(r, 2), parts = pick(r, 2);
        if (parts && size % 2 == 0) { /* two halves, as gates do */
            Dim half = dim_const(d, size / 2);
            add(r, build1(&r->b, OP_sin, build_slice_axis(&r->b, x, k, dim_const(d, 0), half)));
            add(r, build1(&r->b, OP_cos, build_slice_axis(&r->b, x, k, half, half)));
        } else {
            add(r, build_slice_axis(&r->b, x, k, dim_const(d, lo),
                                    dim_const(d, size - lo - (int64_t)pick(r, 2))));
        }
        return;
    }
}

static void concat(Gen *r)
{
    Val x = any(r), in[3];
    TypeInfo t = type(r, x);
    uint32_t n = 0;
    if (!t.rank)
        return;
    in[n++] = x;
    for (uint32_t i = 0; i < r->n && n < 3; i++) {
        TypeInfo u = type(r, r->pool[i]);
        if (same_shape(&t, &u) && pick(r, 2))
            in[n++] = r->pool[i];
    }
    if (n > 1)
        add(r, build_concat(&r->b, in, n, pick(r, t.rank)));
}

static void pad(Gen *r)
{
    Val x = any(r);
    TypeInfo t = type(r, x);
    Dim lo[MAX_RANK], hi[MAX_RANK];
    int64_t gaps[MAX_RANK];
    for (uint32_t k = 0; k < t.rank; k++) {
        lo[k] = dim_const(r->cx->dims, pick(r, 2));
        hi[k] = dim_const(r->cx->dims, pick(r, 2));
        gaps[k] = pick(r, 4) == 0;
    }
    add(r, build_pad(&r->b, x, build_const(&r->b, DT_f32, pick(r, 2) * 0.5), lo, hi, gaps));
}

static void dot(Gen *r)
{
    Val x = any(r), y = any(r);
    TypeInfo t = type(r, x), u = type(r, y);
    int64_t bx[MAX_RANK], by[MAX_RANK], cx[MAX_RANK], cy[MAX_RANK];
    uint32_t nb = 0, nc = 0, used = 0;
    for (uint32_t i = 0; i < t.rank; i++)
        for (uint32_t k = 0; k < u.rank; k++) {
            if (used >> k & 1 || !dim_same(t.shape[i], u.shape[k]))
                continue;
            if (nc == 0 && pick(r, 2)) {
                cx[nc] = i;
                cy[nc++] = k;
            } else if (nb == 0 && nc == 1 && pick(r, 3) == 0) {
                bx[nb] = i;
                by[nb++] = k;
            } else {
                continue;
            }
            used |= 1u << k;
            break;
        }
    if (nc && t.rank + u.rank - nb - 2 * nc <= 3)
        add(r, build1(&r->b, OP_tanh, build_dot(&r->b, x, y, bx, by, nb, cx, cy, nc, DT_f32)));
}

static void choose(Gen *r)
{
    Val x = any(r), y = any(r);
    TypeInfo t = type(r, x), u = type(r, y);
    if (same_shape(&t, &u))
        add(r, build3(&r->b, OP_where, build2(&r->b, OP_lt, x, y), build1(&r->b, OP_square, x),
                      build1(&r->b, OP_sigmoid, y)));
}

static Val argument(Gen *r, const char *name, uint32_t rank)
{
    Dim shape[MAX_RANK];
    for (uint32_t k = 0; k < rank; k++)
        shape[k] = r->dims[pick(r, DIMS)];
    return build_input(&r->b, sym_of(r->cx->names, name), type_of(r->p, DT_f32, shape, rank, 0));
}

/* Parameters with a gap between them. */
static void parameters(Gen *r)
{
    DimTable *d = r->cx->dims;
    int64_t a = 2 + (int64_t)pick(r, 5), b = 3 + (int64_t)pick(r, 4),
            at = a * b + (int64_t)pick(r, 3);
    Dim n = dim_const(d, at + a), wshape[2] = {dim_const(d, a), dim_const(d, b)};
    uint32_t slot = program_add_slot(r->p, (Slot){.name = sym_of(r->cx->names, "seg0"),
                                                  .kind = SLOT_PARAM,
                                                  .saved = true,
                                                  .type = type_of(r->p, DT_f32, &n, 1, 0)});
    StateView w = {.name = sym_of(r->cx->names, "w"),
                   .slot = slot,
                   .trainable = true,
                   .is_param = true,
                   .saved = true,
                   .type = type_of(r->p, DT_f32, wshape, 2, 0)};
    StateView c = {.name = sym_of(r->cx->names, "c"),
                   .slot = slot,
                   .offset = at,
                   .trainable = true,
                   .is_param = true,
                   .saved = true,
                   .type = type_of(r->p, DT_f32, wshape, 1, 0)};
    vec_push(r->cx->perm, &r->p->state, w);
    vec_push(r->cx->perm, &r->p->state, c);
    Val v = build_view(&r->b, &w), u = build_view(&r->b, &c);
    add(r, v);
    add(r, u);
    add(r, build2(&r->b, OP_mul, v,
                  build_transpose(
                      &r->b,
                      build_broadcast(&r->b, u, (Dim[]){wshape[1], wshape[0]}, 2, (int64_t[]){1}),
                      (int64_t[]){1, 0})));
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    Gen r = {.cx = ctx_create(), .seed = strtoull(argv[1], NULL, 10) * 2654435761u + 1};
    DimTable *d = r.cx->dims;
    r.p = program_create(r.cx, sym_of(r.cx->names, "random"));
    r.g = program_add_graph(r.p, sym_of(r.cx->names, "f"), GRAPH_TRAINING);
    r.g->method = r.g->name;
    r.b = builder_for(r.p, r.g);
    for (int i = 0; i < 8; i++)
        pick(&r, 2);
    for (int k = 0; k < 2; k++) {
        Symbol s = dim_new_symbol(d, SYM_SIZE, sym_of(r.cx->names, k ? "T" : "B"), (Dim){0});
        dim_symbol(d, s)->lo = 1;
        dim_symbol(d, s)->hint = 8 << pick(&r, 8);
        r.dims[k] = dim_of(d, s);
    }
    r.dims[2] = dim_const(d, 4);
    r.dims[3] = dim_const(d, 6);
    r.dims[4] = dim_const(d, 3);
    Val x = build_input(&r.b, sym_of(r.cx->names, "x"), type_of(r.p, DT_f32, r.dims, 2, 0));
    add(&r, x); /* binds both sizes */
    add(&r, argument(&r, "y", 2));
    add(&r, argument(&r, "z", 3));
    add(&r, argument(&r, "u", 1));
    parameters(&r);
    static void (*const steps[])(Gen *) = {unary,   binary, binary, reduce, transpose,
                                           reshape, slice,  concat, pad,    dot,
                                           dot,     choose, binary, unary};
    for (int i = 0; i < STEPS; i++)
        steps[pick(&r, sizeof steps / sizeof *steps)](&r);
    uint32_t nresults = 1 + pick(&r, 3);
    for (uint32_t i = 0; i < nresults; i++) {
        char name[3] = {'r', (char)('0' + i), 0};
        graph_result(r.p, r.g, sym_of(r.cx->names, name), i ? any(&r) : r.pool[r.n - 1], (Span){0});
    }
    if (pick(&r, 2)) { /* a loss */
        Val v = r.g->results.at[0].val;
        int64_t axes[] = {0, 1, 2, 3};
        TypeInfo t = type(&r, v);
        r.g->results.at[0].val = build_reduce(&r.b, RED_add, v, axes, t.rank);
    }
    StrBuf out = {.a = r.cx->perm};
    tensor_print(r.p, &out);
    fputs(sb_text(&out), stdout);
    ctx_destroy(r.cx);
    return 0;
}
