/* infer_attention.c: type rules of attention and its gradient.
 *
 *   attention q[B,T,H,D], k[B,S,G,D], v[B,S,G,E]      [B,T,H,E], f32[B,H,T]
 *
 * SPDX-License-Identifier: MIT */
#include "ir/infer_internal.h"

static const char *bad_bias(Infer *q, const TypeInfo *bias, const Dim *scores)
{
    if (bias->dtype != DT_f32 || bias->rank != 4)
        return "the bias is not f32 of 4 axes";
    for (int i = 0; i < 4; i++)
        if (!dim_is_one(q->dims, bias->shape[i]) && !infer_same_size(q, bias->shape[i], scores[i]))
            return infer_say(q, "axis %d of the bias does not fit", i);
    return NULL;
}

static const TypeInfo *captured(const Infer *q, uint32_t first, uint32_t i)
{
    return val_info(q->p, q->b->g, q->in[first + i]);
}

/* The graph that scores go through, and what it reads: operands from `first` on. */
static const char *bad_hook(Infer *q, int64_t hook, uint32_t first, const Dim *scores)
{
    if (hook < 0 || hook > (int64_t)q->p->graphs.n)
        return "there is no such hook";
    const Graph *g = q->p->graphs.at[hook - 1];
    const uint32_t ncaptured = q->nin - first;
    if (ncaptured > ATTENTION_CAPTURES || g->params.n != HOOK_CAPTURED + ncaptured ||
        g->results.n != 2)
        return "the hook's parameters and the operands do not fit";
    for (uint32_t i = 0; i < g->params.n; i++) {
        const TypeInfo *t = val_info(q->p, g, g->params.at[i].val);
        const DType want = i == HOOK_S         ? DT_f32
                           : i < HOOK_CAPTURED ? DT_i32
                                               : captured(q, first, i - HOOK_CAPTURED)->dtype;
        if (t->rank || t->dtype != want)
            return infer_say(q, "parameter %u of the hook does not fit", i);
    }
    for (uint32_t i = 0; i < ncaptured; i++) {
        const TypeInfo x = *captured(q, first, i);
        if (x.rank != 4)
            return "what a hook reads has not 4 axes";
        for (int k = 0; k < 4; k++)
            if (!dim_is_one(q->dims, x.shape[k]) && !infer_same_size(q, x.shape[k], scores[k]))
                return infer_say(q, "axis %d of what the hook reads does not fit", k);
    }
    return NULL;
}

/* scores: B, H, T, S. `first`: the first operand behind those that are always there. */
static const char *bad_operands(Infer *q, uint32_t first, Dim *scores)
{
    const TypeInfo *x = q->x;
    const int64_t mode = q->attrs[attr_index(q->op, ATTR_mode)].at[0];
    const int64_t hook = q->attrs[attr_index(q->op, ATTR_hook)].at[0];
    const uint32_t more = (mode & ATTENTION_BIAS ? 1u : 0u) + (mode & ATTENTION_DROP ? 1u : 0u);
    for (int i = 0; i < 3; i++)
        if (x[i].rank != 4 || !dtype_is_float(x[i].dtype) || x[i].dtype != x[0].dtype)
            return "q, k and v are not of one float type and 4 axes";
    for (int i = 1; i < 3; i++)
        if (!infer_same_size(q, x[i].shape[0], x[0].shape[0]))
            return "the batches differ";
    if (!infer_same_size(q, x[1].shape[3], x[0].shape[3]))
        return "q and k have vectors of different lengths";
    if (!infer_same_size(q, x[2].shape[1], x[1].shape[1]) ||
        !infer_same_size(q, x[2].shape[2], x[1].shape[2]))
        return "k and v differ";
    int64_t h, g;
    if (!dim_is_const(q->dims, x[0].shape[2], &h) || !dim_is_const(q->dims, x[1].shape[2], &g) ||
        (g > 0 && h % g != 0) || (g == 0 && h != 0))
        return "the heads of q are no multiple of those of k";
    if (q->nin < first + more || (!hook && q->nin != first + more))
        return "mode and operands do not fit";
    const Dim all[] = {x[0].shape[0], x[0].shape[2], x[0].shape[1], x[1].shape[1]};
    for (int i = 0; i < 4; i++)
        scores[i] = all[i];
    if (mode & ATTENTION_BIAS) {
        const TypeInfo bias = *val_info(q->p, q->b->g, q->in[first]);
        const char *error = bad_bias(q, &bias, scores);
        if (error)
            return error;
    }
    if (mode & ATTENTION_DROP) {
        const TypeInfo key = *val_info(q->p, q->b->g, q->in[first + more - 1]);
        if (key.dtype != DT_u64 || key.rank != 0)
            return "the key is no key";
    }
    return hook ? bad_hook(q, hook, first + more, scores) : NULL;
}

const char *infer_attention(Infer *q)
{
    Dim scores[4];
    const char *error = bad_operands(q, 3, scores);
    if (error)
        return error;
    const Dim out[] = {q->x[0].shape[0], q->x[0].shape[1], q->x[0].shape[2], q->x[2].shape[3]};
    error = infer_result(q, q->x[0].dtype, out, 4);
    return error ? error : infer_result(q, DT_f32, scores, 3);
}

const char *infer_attention_grad(Infer *q)
{
    Dim scores[4];
    const char *error = bad_operands(q, 6, scores);
    const TypeInfo y = *val_info(q->p, q->b->g, q->in[5]);
    if (!error && !(y.rank == 4 && y.dtype == q->x[0].dtype) && !(y.rank == 3 && y.dtype == DT_f32))
        error = "it is neither the result nor f32 of 3 axes that is given beside lse";
    for (int i = 0; i < 3 && !error; i++)
        error = infer_result(q, DT_f32, q->x[i].shape, 4);
    if (!error && q->attrs[attr_index(q->op, ATTR_mode)].at[0] & ATTENTION_BIAS_GRAD)
        error = infer_result(q, DT_f32, scores, 4);
    return error;
}
