/* vjp_attention.c: derivatives of attention, and of its gradient.
 *
 *   y, lse = attention q, k, v          dq, dk, dv = attention_grad q, k, v, dy, lse, y
 *   where lse is used, too, instead of y: delta = sum(y * dy) - dlse
 *
 * The gradient is differentiated by its definition: scores are then in memory.
 * SPDX-License-Identifier: MIT */
#include "passes/vjp.h"

#include <string.h>

static bool there(Val v)
{
    return v.node != 0;
}

/* --- first derivative ---------------------------------------------------------------------------
 */

static Val wide(Builder *b, Val x)
{
    return build_cast(b, x, DT_f32);
}

static Val delta_of(Builder *b, Val y, Val dy)
{
    const Val products = build2(b, OP_mul, wide(b, y), wide(b, dy));
    const Val sums = build_reduce(b, RED_add, products, (int64_t[]){3}, 1);
    return build_transpose(b, sums, (int64_t[]){0, 2, 1});
}

void vjp_attention(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    const Attention how = node_attention(n);
    const Val y = {id, 0}, lse = {id, 1};
    const TypeInfo t = *val_info(r->p, r->g, y);
    vjp_stage(r, STAGE_BACKWARD);
    const Val d = there(dy[0]) ? dy[0] : vjp_full(r, 0, &t);
    const bool scores = there(how.bias) && vjp_wants(r, n, 3);
    const Val with = there(dy[1]) ? build2(r->b, OP_sub, delta_of(r->b, y, d), dy[1]) : y;
    const Val g =
        build_attention_grad(r->b, n->in[0], n->in[1], n->in[2], d, lse, with, &how, scores);
    for (uint32_t i = 0; i < 3; i++)
        vjp_give(r, n, i, build_cast(r->b, val_result(g, i), t.dtype));
    if (scores) {
        const TypeInfo bias = *val_info(r->p, r->g, how.bias);
        vjp_give(r, n, 3, vjp_unbroadcast(r, val_result(g, 3), &bias));
    }
}

/* --- second derivative --------------------------------------------------------------------------
 */

/* [B, H, S, D] -> [B, S, G, D]: the transpose of attention_repeated */
static Val summed(const AttentionPlain *s, Val x)
{
    const TypeInfo t = *val_info(s->b->p, s->b->g, x);
    const Dim shape[] = {t.shape[0], s->groups, s->share, t.shape[2], t.shape[3]};
    const Val y = build_reduce(s->b, RED_add, build_reshape(s->b, x, shape, 5), (int64_t[]){2}, 1);
    return build_transpose(s->b, y, (int64_t[]){0, 2, 1, 3});
}

static Val by(const AttentionPlain *s, Val x, double v)
{
    const TypeInfo t = *val_info(s->b->p, s->b->g, x);
    return build2(s->b, OP_mul, x, build_full(s->b, DT_f32, v, t.shape, t.rank));
}

static Val over_rows(const AttentionPlain *s, Val x)
{
    return build_broadcast(s->b, x, s->scores, 4, (int64_t[]){0, 1, 2});
}

static void gradient(const AttentionPlain *s, const Node *n, const Attention *how, Val out[4])
{
    Builder *b = s->b;
    const Val q = attention_heads_first(s, n->in[0]), dy = attention_heads_first(s, n->in[3]);
    const Val k = attention_repeated(s, n->in[1]), v = attention_repeated(s, n->in[2]);
    Val slope;
    const Val scores = attention_scores(s, q, k, how, &slope);
    const Val p = build1(b, OP_exp, build2(b, OP_sub, scores, over_rows(s, n->in[4])));
    Val dp = attention_product(s, dy, v, 3, 3), used = p;
    if (there(how->key)) {
        const Val z = attention_kept(s, how);
        dp = build2(b, OP_mul, dp, z);
        used = build2(b, OP_mul, p, z);
    }
    const bool given = val_info(b->p, b->g, n->in[5])->rank == 3;
    const Val delta = given ? n->in[5] : delta_of(b, n->in[5], n->in[3]);
    const Val ds = build2(b, OP_mul, p, build2(b, OP_sub, dp, over_rows(s, delta)));
    const Val of = there(slope) ? build2(b, OP_mul, ds, slope) : ds; /* before the hook */
    out[0] = build_transpose(b, by(s, attention_product(s, of, k, 3, 2), how->scale),
                             (int64_t[]){0, 2, 1, 3});
    out[1] = summed(s, by(s, attention_product(s, of, q, 2, 2), how->scale));
    out[2] = summed(s, attention_product(s, used, dy, 2, 2));
    out[3] = ds;
}

void vjp_attention_grad(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id;
    const Attention how = node_attention(n);
    const AttentionPlain s = attention_plain(r->b, n->in[0], n->in[1], DT_f32);
    Val y[4], some[4], d[4], of[7], out[7];
    uint32_t ny = 0, nof = 6;
    vjp_stage(r, STAGE_BACKWARD);
    gradient(&s, n, &how, y);
    for (uint32_t i = 0; i < n->nout; i++)
        if (there(dy[i])) {
            some[ny] = y[i];
            d[ny++] = dy[i];
        }
    memcpy(of, n->in, 6 * sizeof *of);
    if (there(how.bias))
        of[nof++] = how.bias;
    if (!vjp_differentiate_to(r->b, some, d, ny, of, nof, out)) {
        r->failed = true;
        return;
    }
    for (uint32_t i = 0; i < nof; i++)
        if (there(out[i]))
            vjp_give(r, n, i, out[i]);
}
