/* tensor_attention.c: builds attention and its gradient, and what they are made of.
 * SPDX-License-Identifier: MIT */
#include "ir/tensor_internal.h"

#include <math.h>
#include <string.h>

static int64_t bits(double x)
{
    int64_t w;
    memcpy(&w, &x, sizeof w);
    return w;
}

static Val node(Builder *b, Op op, Val *in, uint32_t nin, const Attention *how, bool scores)
{
    const bool bias = how->bias.node != 0, drop = how->key.node != 0;
    const int64_t words[] = {(how->causal ? ATTENTION_CAUSAL : 0) | (bias ? ATTENTION_BIAS : 0) |
                                 (drop ? ATTENTION_DROP : 0) | (scores ? ATTENTION_BIAS_GRAD : 0) |
                                 (how->nan ? ATTENTION_NAN : 0),
                             bits(how->scale), drop ? bits(how->drop) : 0, how->hook};
    if (bias)
        in[nin++] = how->bias;
    if (drop)
        in[nin++] = how->key;
    for (uint32_t i = 0; i < how->ncaptured; i++)
        in[nin++] = how->captured[i];
    return build(b, op, in, nin,
                 (Attr[]){attr_words(&words[0], 1), attr_words(&words[1], 1),
                          attr_words(&words[2], 1), attr_words(&words[3], 1)});
}

Val build_attention(Builder *b, Val q, Val k, Val v, const Attention *how)
{
    Val in[5 + ATTENTION_CAPTURES] = {q, k, v};
    return node(b, OP_attention, in, 3, how, false);
}

Val build_attention_grad(Builder *b, Val q, Val k, Val v, Val dy, Val lse, Val y,
                         const Attention *how, bool scores)
{
    Val in[8 + ATTENTION_CAPTURES] = {q, k, v, dy, lse, y};
    return node(b, OP_attention_grad, in, 6, how, scores);
}

Attention node_attention(const Node *n)
{
    const int64_t mode = node_int(n, ATTR_mode);
    uint32_t at = n->op == OP_attention ? 3 : 6;
    Attention how = {.causal = mode & ATTENTION_CAUSAL,
                     .nan = mode & ATTENTION_NAN,
                     .hook = (uint32_t)node_int(n, ATTR_hook),
                     .scale = node_f64(n, ATTR_scale),
                     .drop = node_f64(n, ATTR_drop)};
    if (mode & ATTENTION_BIAS)
        how.bias = n->in[at++];
    if (mode & ATTENTION_DROP)
        how.key = n->in[at++];
    CHECK(n->nin - at <= ATTENTION_CAPTURES);
    while (at < n->nin)
        how.captured[how.ncaptured++] = n->in[at++];
    return how;
}

int64_t attention_keep(double drop, float *grow)
{
    *grow = (float)(1 / (1 - drop));
    return (int64_t)ceil((double)(float)(1 - drop) * 0x1p24);
}

/* --- by its definition ---------------------------------------------------------------------------
 */

AttentionPlain attention_plain(Builder *b, Val q, Val k, DType dtype)
{
    const TypeInfo x = *val_info(b->p, b->g, q), y = *val_info(b->p, b->g, k);
    int64_t h = 1, g = 1;
    dim_is_const(b->p->cx->dims, x.shape[2], &h);
    dim_is_const(b->p->cx->dims, y.shape[2], &g);
    return (AttentionPlain){.b = b,
                            .dtype = dtype,
                            .scores = {x.shape[0], x.shape[2], x.shape[1], y.shape[1]},
                            .groups = y.shape[2],
                            .share = dim_const(b->p->cx->dims, g > 0 ? h / g : 1)};
}

Val attention_product(const AttentionPlain *s, Val x, Val y, int64_t of_x, int64_t of_y)
{
    return build_dot(s->b, x, y, (int64_t[]){0, 1}, (int64_t[]){0, 1}, 2, &of_x, &of_y, 1,
                     s->dtype);
}

Val attention_heads_first(const AttentionPlain *s, Val x)
{
    return build_transpose(s->b, build_cast(s->b, x, s->dtype), (int64_t[]){0, 2, 1, 3});
}

Val attention_repeated(const AttentionPlain *s, Val x)
{
    const TypeInfo t = *val_info(s->b->p, s->b->g, x);
    const Dim shape[] = {t.shape[0], t.shape[2], s->share, t.shape[1], t.shape[3]};
    const Dim joined[] = {t.shape[0], s->scores[1], t.shape[1], t.shape[3]};
    const Val y =
        build_broadcast(s->b, attention_heads_first(s, x), shape, 5, (int64_t[]){0, 1, 3, 4});
    return build_reshape(s->b, y, joined, 4);
}

static Val all(const AttentionPlain *s, DType t, double v)
{
    return build_full(s->b, t, v, s->scores, 4);
}

static Val spread(const AttentionPlain *s, Val x)
{
    return build_broadcast_to(s->b, x, s->scores, 4);
}

/* The hook's operations on whole arrays of scores. */
static void through_hook(const AttentionPlain *s, const Attention *how, Val *x, Val *slope)
{
    Builder *b = s->b;
    const Graph *def = b->p->graphs.at[how->hook - 1];
    Val *map = arena_array(b->p->cx->scratch, Val, def->nodes.n);
    for (uint32_t i = 0; i < def->params.n; i++)
        map[def->params.at[i].val.node] = i == HOOK_S ? build_cast(b, *x, DT_f32)
                                          : i < HOOK_CAPTURED
                                              ? build_iota(b, s->scores, 4, i - HOOK_B)
                                              : spread(s, how->captured[i - HOOK_CAPTURED]);
    for (uint32_t id = 1; id < def->nodes.n; id++) {
        const Node n = def->nodes.at[id];
        Val in[3];
        if (n.op == OP_input)
            continue;
        CHECK(n.nin <= ARRAY_LEN(in) && n.nout == 1);
        for (uint32_t i = 0; i < n.nin; i++)
            in[i] = map[n.in[i].node];
        map[id] = n.nin ? build_again(b, &n, in) : spread(s, build_again(b, &n, in));
    }
    if (slope)
        *slope = build_cast(b, map[def->results.at[1].val.node], s->dtype);
    *x = build_cast(b, map[def->results.at[0].val.node], s->dtype);
}

Val attention_scores(const AttentionPlain *s, Val q, Val k, const Attention *how, Val *slope)
{
    Builder *b = s->b;
    Val x = build2(b, OP_mul, attention_product(s, q, k, 3, 3), all(s, s->dtype, how->scale));
    if (slope)
        *slope = (Val){0, 0};
    if (how->hook)
        through_hook(s, how, &x, slope);
    if (how->bias.node)
        x = build2(b, OP_add, x, spread(s, build_cast(b, how->bias, s->dtype)));
    if (!how->causal)
        return x;
    const Val sees =
        build2(b, OP_ge, build_iota(b, s->scores, 4, 2), build_iota(b, s->scores, 4, 3));
    return build3(b, OP_where, sees, x, all(s, s->dtype, -INFINITY));
}

Val attention_kept(const AttentionPlain *s, const Attention *how)
{
    float grow;
    const double most = (double)attention_keep(how->drop, &grow) * 0x1p-24;
    const Val draws = build_random(s->b, how->key, RANDOM_UNIFORM, s->scores, 4);
    return build3(s->b, OP_where, build2(s->b, OP_lt, draws, all(s, DT_f32, most)),
                  all(s, s->dtype, (double)grow), all(s, s->dtype, 0));
}

Val build_attention_plain(Builder *b, Val q, Val k, Val v, const Attention *how)
{
    const DType t = val_info(b->p, b->g, q)->dtype;
    const AttentionPlain s = attention_plain(b, q, k, t == DT_f64 ? DT_f64 : DT_f32);
    const Val x =
        attention_scores(&s, attention_heads_first(&s, q), attention_repeated(&s, k), how, NULL);
    const Val lse = build_reduce(b, RED_logsumexp, x, (int64_t[]){3}, 1);
    const TypeInfo rows = *val_info(b->p, b->g, lse);
    const Val none = build_full(b, s.dtype, -INFINITY, rows.shape, rows.rank);
    const Val most = build_full(b, s.dtype, INFINITY, rows.shape, rows.rank);
    const Val some = build3(b, OP_where, build2(b, OP_eq, lse, none), most, lse);
    Val p =
        build1(b, OP_exp,
               build2(b, OP_sub, x, build_broadcast(b, some, s.scores, 4, (int64_t[]){0, 1, 2})));
    if (how->key.node)
        p = build2(b, OP_mul, p, attention_kept(&s, how));
    const Val y = attention_product(&s, p, attention_repeated(&s, v), 3, 2);
    return build_cast(b, build_transpose(b, y, (int64_t[]){0, 2, 1, 3}), t);
}
