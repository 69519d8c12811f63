/* eval_attention.c: attention and its gradient by their definition, in f64.
 *
 *   s = hook(scale * q k^T) + bias   p = exp(s - lse)   y = (p z) v      z: dropout
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
    const Graph *hook;
    ScalarValue *values; /* of its nodes */
    uint32_t captured;   /* the first operand that it reads */
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
        s.key = (uint64_t)q->in[at++]->at[0].i;
        s.keep = attention_keep(s.how.drop, &s.grow);
    }
    if (s.how.hook) {
        s.hook = q->e->p->graphs.at[s.how.hook - 1];
        s.values = arena_array(q->e->a, ScalarValue, s.hook->nodes.n);
        s.captured = at;
    }
    return s;
}

/* An operand of 4 axes, of which some are stretched. */
static ScalarValue element(const EvalTensor *x, const int64_t *index)
{
    int64_t at[4];
    for (int i = 0; i < 4; i++)
        at[i] = x->shape[i] == 1 ? 0 : index[i];
    return x->at[eval_ravel(x, at)];
}

static DType scalar_type(const Scores *s, Val v)
{
    return val_info(s->q->e->p, s->hook, v)->dtype;
}

/* A node of the hook that is no parameter. */
static ScalarValue hook_node(const Scores *s, uint32_t id)
{
    const Node *n = &s->hook->nodes.at[id];
    ScalarValue in[3] = {{0}}, v = {0};
    const DType t = scalar_type(s, (Val){id, 0});
    for (uint32_t i = 0; i < n->nin; i++)
        in[i] = s->values[n->in[i].node];
    if (n->op == OP_const && dtype_is_float(t))
        v.f = node_f64(n, ATTR_value);
    else if (n->op == OP_const)
        v.i = node_int(n, ATTR_value);
    else if (n->op == OP_dim)
        eval_size(s->q, node_dim(n, ATTR_shape, 0), &v.i);
    else if (n->op == OP_cast)
        v = eval_cast(scalar_type(s, n->in[0]), t, in[0]);
    else
        v = eval_row(n->op, scalar_type(s, n->in[n->nin - 1]), in);
    return v;
}

/* What becomes of a score, and the derivative of that. */
static double through_hook(const Scores *s, double x, const int64_t *index, double *slope)
{
    const Graph *g = s->hook;
    for (uint32_t i = 0; i < g->params.n; i++) {
        ScalarValue *v = &s->values[g->params.at[i].val.node];
        if (i == HOOK_S)
            v->f = dtype_round(DT_f32, x);
        else if (i < HOOK_CAPTURED)
            v->i = index[i - HOOK_B];
        else
            *v = element(s->q->all[s->captured + i - HOOK_CAPTURED], index);
    }
    for (uint32_t id = 1; id < g->nodes.n; id++)
        if (g->nodes.at[id].op != OP_input)
            s->values[id] = hook_node(s, id);
    *slope = s->values[g->results.at[1].val.node].f;
    return s->values[g->results.at[0].val.node].f;
}

/* slope: d score / d (scale * q k^T) */
static double score(const Scores *s, int64_t b, int64_t h, int64_t t, int64_t j, double *slope)
{
    *slope = 1;
    if (s->how.causal && j > t)
        return -INFINITY;
    const ScalarValue *x = row(s->q->in[0], b, t, h),
                      *k = row(s->q->in[1], b, j, h / (s->H / s->G));
    double sum = 0;
    for (int64_t d = 0; d < s->D; d++)
        sum += x[d].f * k[d].f;
    sum *= s->how.scale;
    const int64_t index[] = {b, h, t, j};
    if (s->hook)
        sum = through_hook(s, sum, index, slope);
    return s->bias ? sum + element(s->bias, index).f : sum;
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
    const double nothing = s->how.nan ? NAN : 0;
    double most = -INFINITY, sum = 0, slope;
    for (int64_t j = 0; j < s->S; j++) {
        p[j] = score(s, b, h, t, j, &slope);
        if (p[j] > most || isnan(p[j]))
            most = p[j];
    }
    for (int64_t j = 0; j < s->S; j++) {
        p[j] = most == -INFINITY ? 0 : exp(p[j] - most);
        sum += p[j];
    }
    q->out[1].at[(b * s->H + h) * s->T + t].f =
        sum == 0 ? INFINITY + nothing : dtype_round(DT_f32, most + log(sum));
    ScalarValue *y = result_row(&q->out[0], b, t, h);
    for (int64_t e = 0; e < s->E; e++) {
        double x = 0;
        for (int64_t j = 0; j < s->S; j++)
            x += p[j] * kept(s, b, h, t, j) * row(q->in[2], b, j, h / (s->H / s->G))[e].f;
        y[e].f = dtype_round(q->out[0].dtype, sum == 0 ? nothing : x / sum);
    }
}

/* sum of y dy, or given: less the gradient of lse */
static double delta_of(const Scores *s, int64_t b, int64_t h, int64_t t)
{
    EvalNode *q = s->q;
    if (q->in[5]->rank == 3)
        return q->in[5]->at[(b * s->H + h) * s->T + t].f;
    const ScalarValue *dy = row(q->in[3], b, t, h), *y = row(q->in[5], b, t, h);
    double sum = 0;
    for (int64_t e = 0; e < s->E; e++)
        sum += y[e].f * dy[e].f;
    return sum;
}

static void backward_row(const Scores *s, int64_t b, int64_t h, int64_t t)
{
    EvalNode *q = s->q;
    const int64_t at = (b * s->H + h) * s->T + t, g = h / (s->H / s->G);
    const double lse = q->in[4]->at[at].f, delta = delta_of(s, b, h, t);
    const ScalarValue *x = row(q->in[0], b, t, h), *dy = row(q->in[3], b, t, h);
    ScalarValue *dq = result_row(&q->out[0], b, t, h);
    for (int64_t j = 0; j < s->S; j++) {
        const ScalarValue *k = row(q->in[1], b, j, g), *v = row(q->in[2], b, j, g);
        ScalarValue *dk = result_row(&q->out[1], b, j, g), *dv = result_row(&q->out[2], b, j, g);
        double dp = 0, slope;
        const double z = kept(s, b, h, t, j), p = exp(score(s, b, h, t, j, &slope) - lse);
        for (int64_t e = 0; e < s->E; e++) {
            dp += dy[e].f * v[e].f;
            dv[e].f += p * z * dy[e].f;
        }
        const double ds = p * (dp * z - delta);
        for (int64_t d = 0; d < s->D; d++) {
            dq[d].f += s->how.scale * slope * ds * k[d].f;
            dk[d].f += s->how.scale * slope * ds * x[d].f;
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
