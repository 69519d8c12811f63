/* cuda_blaslt.c: products with a vector beside them, by cuBLASLt: one that is added to each column,
 * or the sums of an operand. Only what it computes exactly as we do is asked for: an addition is
 * one; its ReLU makes 0 of NaN, its GELU has a tanh of its own. Which algorithm is best for a shape
 * is asked for once and kept, with the descriptors. SPDX-License-Identifier: MIT */
#include "runtime/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { SHAPES = 256 /* that are kept; then the oldest goes */ };

/* Attributes of cublasLt.h. */
enum { DESC_TRANSA = 3, DESC_TRANSB = 4, DESC_EPILOGUE = 7, DESC_BIAS_POINTER = 8 };
enum { PREFERENCE_WORKSPACE = 1, PREFERENCE_REDUCTIONS = 3, PREFERENCE_ALIGNMENT = 5 };
enum { REDUCTIONS = 2 /* in f32, in workspace: none that depends on who comes first */ };

typedef struct {
    int64_t m, n, k, lda, ldb, ldd;
    int type, tf32, op_a, op_b, epilogue;
    uint32_t aligned[4]; /* bytes */
} Key;

typedef struct {
    Key key;
    bool there; /* there is an algorithm */
    void *op, *a, *b, *d;
    tn__lt_algo algo;
} Shape;

struct tn__lt_shapes {
    cublasLtHandle_t handle;
    int n, oldest;
    Shape shape[SHAPES];
};

/* --- the library ---------------------------------------------------------------------------------
 */

static void find_lt(tn__cuda *c)
{
    static const tn__symbol functions[] = {
#define LT(field, symbol, parameters) {symbol, offsetof(tn__lt, field)},
#include "runtime/cuda_blaslt.def"
#undef LT
    };
    void *lib = tn__toolkit_library("libcublasLt");
    const size_t n = sizeof functions / sizeof *functions;
    c->lt_state = lib && !tn__find_symbols(lib, functions, n, &c->lt) ? 1 : -1;
}

static bool has_lt(tn__gpu *g)
{
    pthread_mutex_lock(&g->base.ctx->lock);
    if (!g->cuda->lt_state)
        find_lt(g->cuda);
    const bool there = g->cuda->lt_state > 0;
    pthread_mutex_unlock(&g->base.ctx->lock);
    return there;
}

/* --- shapes --------------------------------------------------------------------------------------
 */

static void forget(const tn__lt *lt, Shape *s)
{
    if (s->op)
        lt->desc_destroy(s->op);
    void *const layouts[] = {s->a, s->b, s->d};
    for (int i = 0; i < 3; i++)
        if (layouts[i])
            lt->layout_destroy(layouts[i]);
    memset(s, 0, sizeof *s);
}

static uint32_t alignment(const void *p)
{
    const uintptr_t at = (uintptr_t)p;
    uint32_t bytes = 256;
    while (at % bytes)
        bytes /= 2;
    return bytes;
}

static Key key_of(const tn__lt_product *p)
{
    Key k;
    memset(&k, 0, sizeof k); /* keys are compared byte by byte */
    k.m = p->m;
    k.n = p->n;
    k.k = p->k;
    k.lda = p->lda;
    k.ldb = p->ldb;
    k.ldd = p->ldd;
    k.type = p->type;
    k.tf32 = p->tf32;
    k.op_a = p->op_a;
    k.op_b = p->op_b;
    k.epilogue = p->epilogue;
    k.aligned[0] = alignment(p->a);
    k.aligned[1] = alignment(p->b);
    k.aligned[2] = k.aligned[3] = alignment(p->d);
    return k;
}

static bool describe(const tn__lt *lt, Shape *s, void *vector)
{
    const Key *k = &s->key;
    const int compute = k->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const int32_t ops[] = {k->op_a, k->op_b};
    const uint32_t epilogue = (uint32_t)k->epilogue;
    const bool ta = k->op_a != CUBLAS_OP_N, tb = k->op_b != CUBLAS_OP_N;
    int bad = lt->desc_create(&s->op, compute, CUDA_R_32F);
    for (int i = 0; i < 2 && !bad; i++)
        bad = lt->desc_set(s->op, i ? DESC_TRANSB : DESC_TRANSA, &ops[i], sizeof ops[i]);
    if (!bad)
        bad = lt->desc_set(s->op, DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (!bad)
        bad = lt->desc_set(s->op, DESC_BIAS_POINTER, &vector, sizeof vector);
    if (!bad)
        bad = lt->layout_create(&s->a, k->type, (uint64_t)(ta ? k->k : k->m),
                                (uint64_t)(ta ? k->m : k->k), k->lda);
    if (!bad)
        bad = lt->layout_create(&s->b, k->type, (uint64_t)(tb ? k->n : k->k),
                                (uint64_t)(tb ? k->k : k->n), k->ldb);
    if (!bad)
        bad = lt->layout_create(&s->d, k->type, (uint64_t)k->m, (uint64_t)k->n, k->ldd);
    return !bad;
}

/* Asks for an algorithm; there may be none for this shape. */
static void choose(const tn__lt *lt, cublasLtHandle_t h, Shape *s, size_t bytes)
{
    void *preference = NULL;
    tn__lt_result result;
    const uint64_t workspace = bytes;
    const uint32_t reductions = REDUCTIONS;
    int found = 0;
    memset(&result, 0, sizeof result);
    int bad = lt->preference_create(&preference);
    if (!bad)
        bad = lt->preference_set(preference, PREFERENCE_WORKSPACE, &workspace, sizeof workspace);
    if (!bad)
        bad = lt->preference_set(preference, PREFERENCE_REDUCTIONS, &reductions, sizeof reductions);
    for (int i = 0; i < 4 && !bad; i++)
        bad = lt->preference_set(preference, PREFERENCE_ALIGNMENT + i, &s->key.aligned[i],
                                 sizeof s->key.aligned[i]);
    if (!bad)
        bad = lt->heuristic(h, s->op, s->a, s->b, s->d, s->d, preference, 1, &result, &found);
    if (preference)
        lt->preference_destroy(preference);
    s->there = !bad && found > 0 && !result.state && result.workspace <= bytes;
    s->algo = result.algo;
}

/* The shape of a product, asked for if it is new. The device is locked. */
static Shape *shape_of(tn__gpu *g, const tn__lt_product *p, size_t bytes)
{
    const tn__lt *lt = &g->cuda->lt;
    tn__lt_shapes *all = g->shapes;
    const Key key = key_of(p);
    for (int i = 0; i < all->n; i++)
        if (!memcmp(&all->shape[i].key, &key, sizeof key))
            return &all->shape[i];
    Shape *s = &all->shape[all->n < SHAPES ? all->n++ : all->oldest++ % SHAPES];
    forget(lt, s);
    s->key = key;
    if (describe(lt, s, p->vector))
        choose(lt, all->handle, s, bytes);
    return s;
}

/* --- products ------------------------------------------------------------------------------------
 */

static bool ready(tn__gpu *g)
{
    if (g->shapes)
        return g->shapes->handle != NULL;
    g->shapes = calloc(1, sizeof *g->shapes);
    if (g->shapes && g->cuda->lt.create(&g->shapes->handle))
        g->shapes->handle = NULL;
    return g->shapes && g->shapes->handle;
}

bool tn__gpu_lt(tn_stream *s, const tn__lt_product *p, void *workspace, size_t bytes, int *status)
{
    tn__gpu *g = tn__gpu_of(s->dev);
    const tn__lt *lt = &g->cuda->lt;
    const float one = 1, zero = 0;
    *status = 0;
    if (!has_lt(g))
        return false;
    pthread_mutex_lock(&g->lock);
    Shape *x = ready(g) ? shape_of(g, p, bytes) : NULL;
    const bool done = x && x->there;
    if (done)
        *status = lt->desc_set(x->op, DESC_BIAS_POINTER, &p->vector, sizeof p->vector);
    if (done && !*status)
        *status = lt->matmul(g->shapes->handle, x->op, &one, p->a, x->a, p->b, x->b, &zero, p->d,
                             x->d, p->d, x->d, &x->algo, workspace, bytes, s->native);
    pthread_mutex_unlock(&g->lock);
    return done;
}

void tn__gpu_lt_close(tn__gpu *g)
{
    for (int i = 0; g->shapes && i < g->shapes->n; i++)
        forget(&g->cuda->lt, &g->shapes->shape[i]);
    if (g->shapes && g->shapes->handle)
        g->cuda->lt.destroy(g->shapes->handle);
    free(g->shapes);
    g->shapes = NULL;
}
