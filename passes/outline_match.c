/* outline_match.c: views and softmaxes, recognised.
 *
 *   %m = reduce %z {kind=max, axes=3}
 *   %e = exp (sub %z, broadcast %m)                   y is the softmax of z along axis 3
 *   %y = mul %e, broadcast (div 1, reduce %e {add})
 *
 * SPDX-License-Identifier: MIT */
#include "passes/outline.h"

static bool same_size(DimTable *t, Dim a, Dim b)
{
    return dim_equal(t, a, b) == YES;
}

static bool below_reshape(DimTable *t, const TypeInfo *out, const TypeInfo *in, const Axes *of,
                          Axes *below)
{
    uint32_t i = 0, k = 0;
    *below = (Axes){.rank = in->rank};
    while (i < out->rank || k < in->rank) {
        const bool more = i < out->rank, wants = k < in->rank;
        if (more && wants && same_size(t, out->shape[i], in->shape[k])) {
            below->at[k++] = of->at[i++];
        } else if (more && dim_is_one(t, out->shape[i])) {
            i++;
        } else if (wants && dim_is_one(t, in->shape[k])) {
            below->at[k++] = AXIS_ONE;
        } else if (more && k + 1 < in->rank && of->at[i] == AXIS_N &&
                   same_size(t, out->shape[i], dim_mul(t, in->shape[k], in->shape[k + 1]))) {
            below->at[k++] = AXIS_B;
            below->at[k++] = AXIS_H;
            i++;
        } else if (wants && i + 1 < out->rank && of->at[i] == AXIS_B && of->at[i + 1] == AXIS_H &&
                   same_size(t, in->shape[k], dim_mul(t, out->shape[i], out->shape[i + 1]))) {
            below->at[k++] = AXIS_N;
            i += 2;
        } else {
            return false;
        }
    }
    return true;
}

bool axes_below(DimTable *t, const Program *p, const Graph *g, const Node *view, Axes of, Axes *out)
{
    const TypeInfo *to = type_info(p, view->types[0]), *from = val_info(p, g, view->in[0]);
    const uint32_t rank = from->rank;
    switch (view->op) {
    case OP_reshape:
        return below_reshape(t, to, from, &of, out);
    case OP_transpose:
        *out = (Axes){.rank = rank};
        for (uint32_t k = 0; k < rank; k++)
            out->at[node_attr(view, ATTR_perm).at[k]] = of.at[k];
        return true;
    case OP_broadcast:
        *out = (Axes){.rank = rank};
        for (uint32_t k = 0; k < rank; k++) {
            const int64_t at = node_attr(view, ATTR_dims).at[k];
            out->at[k] = dim_is_one(t, from->shape[k]) ? AXIS_ONE : of.at[at];
            if (out->at[k] != AXIS_ONE && !same_size(t, from->shape[k], to->shape[at]))
                return false;
        }
        return true;
    default:
        return false;
    }
}

/* --- softmax ------------------------------------------------------------------------------------
 */

typedef struct {
    Outline *w;
    const Graph *g;
    VEC(uint32_t) nodes;
} Match;

static void note(Match *m, Val v)
{
    vec_push(m->w->a, &m->nodes, v.node);
}

/* v spreads the reduction of a tensor, whose axes are numbered, along the reduced axis: the reduce,
 * or NULL. Views and, in front of them, `one / sum`: *inverse. */
static const Node *spread_reduce(Match *m, Val v, uint32_t rank, bool *inverse)
{
    const Program *p = m->w->p;
    Axes axes = {.rank = rank};
    double one;
    for (uint32_t k = 0; k < rank; k++)
        axes.at[k] = (Axis)(AXIS_D + 1 + k);
    *inverse = false;
    for (const Node *n = graph_node(m->g, v);; n = graph_node(m->g, v)) {
        note(m, v);
        if (n->op == OP_reduce) {
            const Attr at = node_attr(n, ATTR_axes);
            bool right = at.n == 1 && axes.rank + 1 == rank && v.result == 0;
            for (uint32_t k = 0; k < axes.rank && right; k++)
                right = axes.at[k] == (Axis)(AXIS_D + 1 + k + (k >= (uint32_t)at.at[0])) ||
                        dim_is_one(m->w->t, val_info(p, m->g, v)->shape[k]);
            return right ? n : NULL;
        }
        if (n->op == OP_div && !*inverse && graph_constant(m->g, n->in[0], &one) && one == 1) {
            *inverse = true;
            v = n->in[1];
        } else if (n->op == OP_detach) {
            v = n->in[0];
        } else if (!op_is_view(n->op) || !axes_below(m->w->t, p, m->g, n, axes, &axes)) {
            return NULL;
        } else {
            v = n->in[0];
        }
    }
}

static bool reduces(const Node *r, Reducer kind, Val x, int64_t axis)
{
    return r && (Reducer)node_int(r, ATTR_kind) == kind && val_eq(r->in[0], x) &&
           (axis < 0 || node_attr(r, ATTR_axes).at[0] == axis);
}

/* y = exp(z - something of each row): that, and its kind */
static bool exp_of_row(Match *m, Val y, Val *z, Reducer kind, int64_t *axis)
{
    const Node *n = graph_node(m->g, y);
    bool inverse;
    if (n->op != OP_exp)
        return false;
    note(m, y);
    note(m, n->in[0]);
    const Node *d = graph_node(m->g, n->in[0]);
    if (d->op != OP_sub)
        return false;
    const Node *r = spread_reduce(m, d->in[1], val_info(m->w->p, m->g, y)->rank, &inverse);
    if (inverse || !reduces(r, kind, d->in[0], -1))
        return false;
    *z = d->in[0];
    *axis = node_attr(r, ATTR_axes).at[0];
    return true;
}

/* e over its sum */
static bool divided(Match *m, Val y, Val e, Val by, bool multiplied, Val *z, int64_t *axis)
{
    bool inverse;
    m->nodes.n = 0;
    note(m, y);
    const Node *r = spread_reduce(m, by, val_info(m->w->p, m->g, y)->rank, &inverse);
    return inverse == multiplied && reduces(r, RED_add, e, -1) &&
           exp_of_row(m, e, z, RED_max, axis) && reduces(r, RED_add, e, *axis);
}

bool match_softmax(Outline *w, const Graph *g, Val y, Val *z, uint32_t *axis, bool inside)
{
    const Node *n = graph_node(g, y);
    Match m = {.w = w, .g = g};
    int64_t at = 0;
    bool found = false;
    if (n->op == OP_mul)
        found = divided(&m, y, n->in[0], n->in[1], true, z, &at) ||
                divided(&m, y, n->in[1], n->in[0], true, z, &at);
    else if (n->op == OP_div)
        found = divided(&m, y, n->in[0], n->in[1], false, z, &at);
    else
        found = exp_of_row(&m, y, z, RED_logsumexp, &at);
    for (uint32_t i = 0; found && inside && i < m.nodes.n; i++)
        vec_push(w->a, &w->inside, m.nodes.at[i]);
    *axis = (uint32_t)at;
    return found;
}
