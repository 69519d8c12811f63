/* eval.h: the reference evaluator of tensor IR: one element at a time, in double and int64, rounded
 * to the dtype after each node. Slow on purpose; what kernels compute is compared with it.
 *
 * Random numbers, which every target must reproduce bit for bit (philox is Philox4x32-10):
 *   key(seed, calls, site, loop)  words w0 w1 .. of philox(counter = {site lo, site hi, calls lo,
 *                                 loop or 0}, key = {seed lo, seed hi}); the key is w1 << 32 | w0
 *   random element i              word i % 4 of philox(counter = {i/4 lo, i/4 hi, 0, 0},
 *                                 key = {key lo, key hi})
 *   bits                          the word; uniform: (word >> 8) * 2^-24
 *   normal                        words in pairs (u, v): r = sqrt(-2 log(((u >> 8) + 1) * 2^-24));
 *                                 the angle is v * 2^-32 turns, cut to 2^-26 around the nearest
 *                                 quarter; even elements r cos, odd ones r sin
 * SPDX-License-Identifier: MIT */
#ifndef TENON_EVAL_H
#define TENON_EVAL_H

#include "ir/eval_scalar.h"
#include "ir/tensor.h"

typedef struct {
    DType dtype;
    uint32_t rank;
    int64_t shape[MAX_RANK];
    int64_t n;       /* elements */
    ScalarValue *at; /* row-major; f for float dtypes, i for the others */
} EvalTensor;

typedef struct {
    Arena *a; /* everything new is allocated here */
    const Program *p;
    const int64_t *sizes;     /* of symbol s: sizes[s.id] */
    const EvalTensor *inputs; /* one a parameter of the graph */
    EvalTensor *slots;        /* [0] unused: read as of entry, replaced by commits at exit */
    EvalTensor *results;      /* out: one a result of the graph */
    const char *failed;       /* out: what the first failing check or index said, or NULL */
    StrBuf *printed;          /* where `print` goes, or NULL */
} Eval;

/** Evaluates a graph. NULL on success, else why it cannot be (shapes that do not fit). */
const char *eval_graph(Eval *e, const Graph *g);

/** A tensor of zeros; the shape has `rank` sizes. */
EvalTensor eval_tensor(Arena *a, DType t, const int64_t *shape, uint32_t rank);
/** The same with the type's sizes evaluated; n == -1 if a size cannot be. */
EvalTensor eval_of_type(Arena *a, const Program *p, Ty t, const int64_t *sizes);
/** Element k as a double. */
static inline double eval_at(const EvalTensor *x, int64_t k)
{
    return eval_as_double(x->dtype, x->at[k]);
}

/** The words of one Philox4x32-10 block. */
void eval_philox(uint64_t counter_lo, uint64_t counter_hi, uint64_t key, uint32_t out[4]);
/** The standard normal deviate of two words, unrounded. */
double eval_normal(uint32_t u, uint32_t v, bool odd);

#endif
