/* eval_attention.c: attention and its gradient by their definition, in f64.
 *
 *   s = scale * q k^T + bias   p = exp(s - lse)   y = (p z) v            z: dropout
 *   dp = (dy v^T) z   ds = p (dp - delta)   dq = scale ds k   dk = scale ds^T q   dv = (p z)^T dy
 *
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/eval_internal.h"

#include <math.h>
#include <string.h>

typedef struct {
    EvalNode *q;
    Attention how;
    const EvalTensor *bias;
    uint64_t key;
    int64_t keep, B, T, H, D, S, G, E;
    float grow;
} Scores;

static const ScalarValue *row(const EvalTensor *x, int64_t b, int64_t t, int64_t h)
{
    return x->at + ((b * x->shape[1] + t) * x->shape[2] + h) * x->shape[3];
}

static ScalarValue *result_row(EvalTensor *x, int64_t b, int64_t t, int64_t h)
{
    return x->at + ((b * x->shape[1] + t) * x->shape[2] + h) * x->shape[3];
}

static Scores scores_of(EvalNode *q)
{
    const EvalTensor *x = q->in[0], *k = q->in[1], *v = q->in[2];
    Scores s = {.q = q,
                .how = node_attention(q->n),
                .grow = 1,
                .B = x->shape[0],
                .T = x->shape[1],
                .H = x->shape[2],
                .D = x->shape[3],
                .S = k->shape[1],
                .G = k->shape[2],
                .E = v->shape[3]};
    uint32_t at = q->n->op == OP_attention ? 3 : 6;
    if (s.how.bias.node)
        s.bias = q->in[at++];
    if (s.how.key.node) {
        s.key = (uint64_t)q->in[at]->at[0].i;
        s.keep = attention_keep(s.how.drop, &s.grow);
    }
    return s;
}

static double score(const Scores *s, int64_t b, int64_t h, int64_t t, int64_t j)
{
    if (s->how.causal && j > t)
        return -INFINITY;
    const ScalarValue *x = row(s->q->in[0], b, t, h),
                      *k = row(s->q->in[1], b, j, h / (s->H / s->G));
    double sum = 0;
    for (int64_t d = 0; d < s->D; d++)
        sum += x[d].f * k[d].f;
    sum *= s->how.scale;
    if (s->bias) {
        const int64_t index[] = {b, h, t, j};
        int64_t at[4];
        for (int i = 0; i < 4; i++)
            at[i] = s->bias->shape[i] == 1 ? 0 : index[i];
        sum += s->bias->at[eval_ravel(s->bias, at)].f;
    }
    return sum;
}

/* What dropout multiplies a score by. */
static double kept(const Scores *s, int64_t b, int64_t h, int64_t t, int64_t j)
{
    if (!s->how.key.node)
        return 1;
    const int64_t i = ((b * s->H + h) * s->T + t) * s->S + j;
    uint32_t w[4];
    eval_philox((uint64_t)i / 4, 0, s->key, w);
    return (int64_t)(w[i % 4] >> 8) < s->keep ? (double)s->grow : 0;
}

static void forward_row(const Scores *s, int64_t b, int64_t h, int64_t t, double *p)
{
    EvalNode *q = s->q;
    double most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s->S; j++) {
        p[j] = score(s, b, h, t, j);
        if (p[j] > most || isnan(p[j]))
            most = p[j];
    }
    for (int64_t j = 0; j < s->S; j++) {
        p[j] = most == -INFINITY ? 0 : exp(p[j] - most);
        sum += p[j];
    }
    q->out[1].at[(b * s->H + h) * s->T + t].f =
        sum == 0 ? INFINITY : dtype_round(DT_f32, most + log(sum));
    ScalarValue *y = result_row(&q->out[0], b, t, h);
    for (int64_t e = 0; e < s->E; e++) {
        double x = 0;
        for (int64_t j = 0; j < s->S; j++)
            x += p[j] * kept(s, b, h, t, j) * row(q->in[2], b, j, h / (s->H / s->G))[e].f;
        y[e].f = dtype_round(q->out[0].dtype, sum == 0 ? 0 : x / sum);
    }
}

static void backward_row(const Scores *s, int64_t b, int64_t h, int64_t t)
{
    EvalNode *q = s->q;
    const int64_t at = (b * s->H + h) * s->T + t, g = h / (s->H / s->G);
    const double lse = q->in[4]->at[at].f, delta = q->in[5]->at[at].f;
    const ScalarValue *x = row(q->in[0], b, t, h), *dy = row(q->in[3], b, t, h);
    ScalarValue *dq = result_row(&q->out[0], b, t, h);
    for (int64_t j = 0; j < s->S; j++) {
        const ScalarValue *k = row(q->in[1], b, j, g), *v = row(q->in[2], b, j, g);
        ScalarValue *dk = result_row(&q->out[1], b, j, g), *dv = result_row(&q->out[2], b, j, g);
        const double z = kept(s, b, h, t, j), p = exp(score(s, b, h, t, j) - lse);
        double dp = 0;
        for (int64_t e = 0; e < s->E; e++) {
            dp += dy[e].f * v[e].f;
            dv[e].f += p * z * dy[e].f;
        }
        const double ds = p * (dp * z - delta);
        for (int64_t d = 0; d < s->D; d++) {
            dq[d].f += s->how.scale * ds * k[d].f;
            dk[d].f += s->how.scale * ds * x[d].f;
        }
        if (node_int(q->n, ATTR_mode) & ATTENTION_BIAS_GRAD)
            q->out[3].at[at * s->S + j].f = dtype_round(DT_f32, ds);
    }
}

void eval_attention(EvalNode *q)
{
    const Scores s = scores_of(q);
    const bool forward = q->n->op == OP_attention;
    double *p = arena_array(q->e->a, double, (size_t)(s.S > 0 ? s.S : 1));
    for (int i = 0; i < 3 && !forward; i++)
        memset(q->out[i].at, 0, (size_t)q->out[i].n * sizeof *q->out[i].at);
    for (int64_t b = 0; b < s.B; b++)
        for (int64_t h = 0; h < s.H; h++)
            for (int64_t t = 0; t < s.T; t++) {
                if (forward)
                    forward_row(&s, b, h, t, p);
                else
                    backward_row(&s, b, h, t);
            }
    for (int i = 0; i < 3 && !forward; i++)
        for (int64_t k = 0; k < q->out[i].n; k++)
            q->out[i].at[k].f = dtype_round(DT_f32, q->out[i].at[k].f);
}
