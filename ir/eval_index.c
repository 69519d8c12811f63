/* eval_index.c: scatter, sort, and prefix reductions with an index, by their definition.
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/eval_internal.h"
#include "ir/scalar.h"

#include <math.h>

/* b comes after a: NaN is the largest. */
static bool is_less(DType t, ScalarValue a, ScalarValue b)
{
    if (dtype_is_float(t))
        return isnan(a.f) ? false : isnan(b.f) ? true : a.f < b.f;
    return t == DT_u64 ? (uint64_t)a.i < (uint64_t)b.i : a.i < b.i;
}

static ScalarValue joined(Reducer kind, DType t, ScalarValue a, ScalarValue b)
{
    if (kind == RED_none)
        return b;
    if (kind == RED_add) {
        if (dtype_is_float(t))
            a.f += b.f;
        else
            a.i = eval_wrap(t, (int64_t)((uint64_t)a.i + (uint64_t)b.i));
        return a;
    }
    if (dtype_is_float(t) && (isnan(a.f) || isnan(b.f)))
        return isnan(a.f) ? a : b;
    const bool less = is_less(t, a, b);
    return less == (kind == RED_max) ? b : a;
}

static void eval_scatter(EvalNode *q)
{
    const EvalTensor *x = q->in[0], *idx = q->in[1], *u = q->in[2];
    const int64_t axis = node_int(q->n, ATTR_axis), batch = node_int(q->n, ATTR_batch);
    const int64_t mode = node_int(q->n, ATTR_mode), joint = node_int(q->n, ATTR_joint);
    int64_t n = 1;
    for (int64_t i = axis; i < axis + joint; i++)
        n *= x->shape[i];
    const Reducer kind = (Reducer)node_int(q->n, ATTR_kind);
    const uint32_t nidx = idx->rank - (uint32_t)batch;
    for (int64_t k = 0; k < x->n; k++)
        q->out->at[k] = x->at[k];
    for (int64_t k = 0; k < u->n; k++) {
        int64_t index[MAX_RANK], at[MAX_RANK], to[MAX_RANK];
        eval_unravel(u, k, index);
        for (uint32_t i = 0; i < batch; i++)
            at[i] = index[i];
        for (uint32_t i = 0; i < nidx; i++)
            at[batch + i] = index[axis + i];
        int64_t chosen = idx->at[eval_ravel(idx, at)].i;
        if (mode == GATHER_CLAMP)
            chosen = chosen < 0 ? 0 : chosen >= n ? n - 1 : chosen;
        if (chosen < 0 || chosen >= n) {
            if (mode == GATHER_CHECK && !q->e->failed)
                q->e->failed = arena_printf(q->e->a, "index %lld is out of range 0 to %lld",
                                            (long long)chosen, (long long)n - 1);
            continue;
        }
        for (uint32_t i = 0; i < x->rank; i++)
            to[i] = i < axis ? index[i] : i < axis + joint ? 0 : index[i - joint + nidx];
        for (int64_t i = axis + joint; i-- > axis;) {
            to[i] = chosen % x->shape[i];
            chosen /= x->shape[i];
        }
        ScalarValue *y = &q->out->at[eval_ravel(q->out, to)];
        *y = joined(kind, x->dtype, *y, u->at[k]);
    }
    for (int64_t k = 0; dtype_is_float(x->dtype) && k < q->out->n; k++)
        q->out->at[k].f = dtype_round(x->dtype, q->out->at[k].f);
}

/* Insertion sort of the indices of one row: stable. */
static void sort_row(DType t, bool descending, const ScalarValue *row, int64_t *order, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t k = i;
        for (; k > 0; k--) {
            const ScalarValue before = row[order[k - 1]];
            if (descending ? !is_less(t, before, row[i]) : !is_less(t, row[i], before))
                break;
            order[k] = order[k - 1];
        }
        order[k] = i;
    }
}

static void eval_sort(EvalNode *q)
{
    const EvalTensor *x = q->in[0];
    const int64_t axis = node_int(q->n, ATTR_axis), n = x->shape[axis];
    const bool descending = node_int(q->n, ATTR_mode) == 1;
    ScalarValue *row = arena_array(q->e->a, ScalarValue, n + 1);
    int64_t *order = arena_array(q->e->a, int64_t, n + 1);
    if (q->out->shape[axis] > n) {
        eval_fail(q, "sort: %lld elements of %lld", (long long)q->out->shape[axis], (long long)n);
        return;
    }
    for (int64_t k = 0; k < q->out->n; k++) {
        int64_t index[MAX_RANK];
        eval_unravel(q->out, k, index);
        if (index[axis])
            continue;
        for (int64_t i = 0; i < n; i++) {
            index[axis] = i;
            row[i] = x->at[eval_ravel(x, index)];
        }
        sort_row(x->dtype, descending, row, order, n);
        for (int64_t i = 0; i < q->out->shape[axis]; i++) {
            index[axis] = i;
            const int64_t at = eval_ravel(q->out, index);
            q->out[0].at[at] = row[order[i]];
            q->out[1].at[at].i = order[i];
        }
    }
}

/* The extreme element so far, the latest of equal ones, as torch's cummax. */
static void eval_extreme(EvalNode *q)
{
    const EvalTensor *x = q->in[0];
    const int64_t axis = node_int(q->n, ATTR_axis), mode = node_int(q->n, ATTR_mode);
    const bool max = (Reducer)node_int(q->n, ATTR_kind) == RED_argmax;
    const DType t = x->dtype;
    for (int64_t k = 0; k < x->n; k++) {
        int64_t index[MAX_RANK], best = 0;
        ScalarValue value = {.i = 0};
        eval_unravel(x, k, index);
        if (index[axis])
            continue;
        for (int64_t i = 0; i < x->shape[axis]; i++) {
            const int64_t here = mode & CUMULATE_REVERSE ? x->shape[axis] - 1 - i : i;
            index[axis] = here;
            const int64_t at = eval_ravel(x, index);
            const ScalarValue v = x->at[at];
            const bool nan = dtype_is_float(t) && isnan(value.f),
                       now = dtype_is_float(t) && isnan(v.f);
            const bool keeps = max ? is_less(t, v, value) : is_less(t, value, v);
            if (i == 0 || now || (!nan && !keeps)) {
                value = v;
                best = here;
            }
            q->out[0].at[at] = value;
            q->out[1].at[at].i = best;
        }
    }
}

void eval_chosen(EvalNode *q)
{
    if (q->n->op == OP_scatter)
        eval_scatter(q);
    else if (q->n->op == OP_sort)
        eval_sort(q);
    else
        eval_extreme(q);
}
