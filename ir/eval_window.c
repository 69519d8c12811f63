/* eval_window.c: window, fold, unwindow and conv of the reference evaluator, by their definition.
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/eval_internal.h"

#include <string.h>

typedef struct {
    uint32_t n;
    int64_t axes[MAX_RANK], lo[MAX_RANK];
    int64_t stride[MAX_RANK], dilation[MAX_RANK], spread[MAX_RANK];
} Windows;

static bool windows_of(EvalNode *q, Windows *w)
{
    const Attr stride = node_attr(q->n, ATTR_stride), dilation = node_attr(q->n, ATTR_dilation);
    const Attr spread = node_attr(q->n, ATTR_spread);
    w->n = stride.n;
    for (uint32_t i = 0; i < w->n; i++) {
        w->axes[i] = q->n->op == OP_conv ? 2 + (int64_t)i : node_attr(q->n, ATTR_axes).at[i];
        w->stride[i] = stride.at[i];
        w->dilation[i] = dilation.at[i];
        w->spread[i] = spread.at[i];
        if (!eval_size(q, node_dim(q->n, ATTR_lo, i), &w->lo[i])) {
            eval_fail(q, "%s: a size cannot be computed", op_name(q->n->op));
            return false;
        }
    }
    return true;
}

/* The element of an axis of x that element k of window o is; -1: none. */
static int64_t place(const Windows *w, uint32_t i, int64_t size, int64_t o, int64_t k)
{
    const int64_t at = o * w->stride[i] + k * w->dilation[i] - w->lo[i];
    return at < 0 || at % w->spread[i] || at / w->spread[i] >= size ? -1 : at / w->spread[i];
}

static void eval_window(EvalNode *q, const Windows *w)
{
    const EvalTensor *x = q->in[0];
    for (int64_t k = 0; k < q->out->n; k++) {
        int64_t index[MAX_RANK], from[MAX_RANK];
        bool there = true;
        eval_unravel(q->out, k, index);
        memcpy(from, index, sizeof from);
        for (uint32_t i = 0; i < w->n; i++) {
            const int64_t axis = w->axes[i];
            from[axis] = place(w, i, x->shape[axis], index[axis], index[x->rank + i]);
            there &= from[axis] >= 0;
        }
        if (there)
            q->out->at[k] = x->at[eval_ravel(x, from)];
        else if (q->n->nin > 1)
            q->out->at[k] = q->in[1]->at[0];
    }
}

/* Every element of the windows goes where it lies: added (fold), or beside the others. */
static void eval_fold(EvalNode *q, const Windows *w)
{
    const EvalTensor *y = q->in[0];
    const DType t = y->dtype;
    const bool sum = q->n->op == OP_fold;
    const uint32_t rank = y->rank - w->n;
    for (int64_t k = 0; k < y->n; k++) {
        int64_t index[MAX_RANK], to[MAX_RANK];
        bool there = true;
        eval_unravel(y, k, index);
        memcpy(to, index, sizeof to);
        for (uint32_t i = 0; i < w->n; i++) {
            const int64_t axis = w->axes[i];
            to[axis] = place(w, i, q->out->shape[axis], index[axis], index[rank + i]);
            there &= to[axis] >= 0;
        }
        if (!there)
            continue;
        ScalarValue *z = &q->out->at[eval_ravel(q->out, to)];
        if (!sum)
            *z = y->at[k];
        else if (dtype_is_float(t))
            z->f += y->at[k].f;
        else
            z->i = eval_wrap(t, (int64_t)((uint64_t)z->i + (uint64_t)y->at[k].i));
    }
    for (int64_t k = 0; sum && dtype_is_float(t) && k < q->out->n; k++)
        q->out->at[k].f = dtype_round(t, q->out->at[k].f);
}

static double product(const EvalTensor *x, const EvalTensor *f, const Windows *w,
                      const int64_t *index, int64_t group, int64_t element)
{
    int64_t at[MAX_RANK], from[MAX_RANK];
    eval_unravel(f, element, at); /* of weights [channel, c, k..] */
    if (at[0] != index[1])
        return 0;
    from[0] = index[0];
    from[1] = group * f->shape[1] + at[1];
    for (uint32_t i = 0; i < w->n; i++) {
        from[2 + i] = place(w, i, x->shape[2 + i], index[2 + i], at[2 + i]);
        if (from[2 + i] < 0)
            return 0;
    }
    return x->at[eval_ravel(x, from)].f * f->at[element].f;
}

static void eval_conv(EvalNode *q, const Windows *w)
{
    const EvalTensor *x = q->in[0], *f = q->in[1];
    const int64_t groups = node_int(q->n, ATTR_groups), each = f->shape[0] / groups;
    const int64_t part = f->shape[0] ? f->n / f->shape[0] : 0;
    for (int64_t k = 0; k < q->out->n; k++) {
        int64_t index[MAX_RANK];
        double sum = 0;
        eval_unravel(q->out, k, index);
        for (int64_t i = index[1] * part; i < (index[1] + 1) * part; i++)
            sum += product(x, f, w, index, index[1] / each, i);
        q->out->at[k].f = dtype_round(q->out->dtype, sum);
    }
}

void eval_windows(EvalNode *q)
{
    Windows w;
    if (!windows_of(q, &w))
        return;
    if (q->n->op == OP_window)
        eval_window(q, &w);
    else if (q->n->op == OP_conv)
        eval_conv(q, &w);
    else
        eval_fold(q, &w);
}
