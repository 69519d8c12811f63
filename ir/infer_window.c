/* infer_window.c: type rules of window, fold, unwindow and conv.
 *
 *   window f32[N, C, H] {axes=2, out=O, size=3}      f32[N, C, O, 3]
 *   fold   f32[N, C, O, 3] {axes=2, out=H}           f32[N, C, H]
 *   conv   f32[N, 4*C, H], f32[4*M, C, 3] {out=O, groups=4}    f32[N, 4*M, O]
 *
 * SPDX-License-Identifier: MIT */
#include "ir/infer_internal.h"

static Attr attr(const Infer *q, AttrName name)
{
    return q->attrs[attr_index(q->op, name)];
}

/* Every list has a word for each of the n windowed axes; steps are positive. */
static const char *bad_lists(Infer *q, uint32_t n)
{
    static const AttrName steps[] = {ATTR_stride, ATTR_dilation, ATTR_spread};
    if (attr(q, ATTR_out).n != n || attr(q, ATTR_lo).n != n)
        return "sizes for each windowed axis are needed";
    for (uint32_t i = 0; i < 3; i++) {
        const Attr a = attr(q, steps[i]);
        if (a.n != n)
            return infer_say(q, "%s: a step for each windowed axis is needed", attr_text(steps[i]));
        for (uint32_t k = 0; k < n; k++)
            if (a.at[k] < 1)
                return infer_say(q, "%s: %lld is not positive", attr_text(steps[i]),
                                 (long long)a.at[k]);
    }
    return NULL;
}

static const char *bad_axes(Infer *q, uint32_t rank)
{
    const Attr axes = attr(q, ATTR_axes);
    for (uint32_t i = 0; i < axes.n; i++)
        if (axes.at[i] < 0 || axes.at[i] >= (int64_t)rank || (i && axes.at[i] <= axes.at[i - 1]))
            return "the windowed axes do not exist or do not increase";
    return axes.n ? NULL : "no axis is windowed";
}

const char *infer_window(Infer *q)
{
    const TypeInfo *x = &q->x[0];
    const Attr axes = attr(q, ATTR_axes), out = attr(q, ATTR_out), size = attr(q, ATTR_size);
    const char *error = bad_axes(q, x->rank);
    error = error ? error : bad_lists(q, axes.n);
    if (!error && size.n != axes.n)
        error = "a size for each windowed axis is needed";
    if (!error && x->rank + axes.n > MAX_RANK)
        error = infer_say(q, "a tensor may have at most %d axes", MAX_RANK);
    if (!error && q->nin == 2 && (q->x[1].rank || q->x[1].dtype != x->dtype))
        error = "what surrounds x must be a scalar of the same dtype";
    if (error)
        return error;
    Dim shape[MAX_RANK];
    for (uint32_t i = 0; i < x->rank; i++)
        shape[i] = x->shape[i];
    for (uint32_t i = 0; i < axes.n; i++) {
        shape[axes.at[i]] = attr_dim(out, i);
        shape[x->rank + i] = attr_dim(size, i);
    }
    return infer_result(q, x->dtype, shape, x->rank + axes.n);
}

/* fold drops the window axes, unwindow keeps them. */
const char *infer_fold(Infer *q)
{
    const TypeInfo *x = &q->x[0];
    const Attr axes = attr(q, ATTR_axes), out = attr(q, ATTR_out);
    if (axes.n >= x->rank)
        return "the operand has no axis but those of the windows";
    const uint32_t rank = x->rank - axes.n;
    const char *error = bad_axes(q, rank);
    error = error ? error : bad_lists(q, axes.n);
    if (!error && q->op == OP_fold && x->dtype == DT_bool)
        error = "a sum is of numbers, not bool";
    if (error)
        return error;
    Dim shape[MAX_RANK];
    for (uint32_t i = 0; i < x->rank; i++)
        shape[i] = x->shape[i];
    for (uint32_t i = 0; i < axes.n; i++)
        shape[axes.at[i]] = attr_dim(out, i);
    return infer_result(q, x->dtype, shape, q->op == OP_fold ? rank : x->rank);
}

const char *infer_conv(Infer *q)
{
    DimTable *t = q->dims;
    const TypeInfo *x = &q->x[0], *w = &q->x[1];
    const Attr out = attr(q, ATTR_out), groups = attr(q, ATTR_groups);
    if (x->dtype != w->dtype)
        return infer_say(q, "the dtypes %s and %s differ", dtype_name(x->dtype),
                         dtype_name(w->dtype));
    if (!dtype_is_float(x->dtype))
        return infer_say(q, "a convolution is of floats, not %s", dtype_name(x->dtype));
    if (x->rank < 3 || w->rank != x->rank)
        return "a convolution is of [N, channels, sizes..] and [channels, channels, sizes..]";
    const char *error = bad_lists(q, x->rank - 2u);
    if (error)
        return error;
    const Dim g = dim_const(t, groups.n ? groups.at[0] : 0);
    if (groups.n != 1 || groups.at[0] < 1 ||
        dim_equal(t, x->shape[1], dim_mul(t, g, w->shape[1])) != YES ||
        !dim_exact_div(t, w->shape[0], g).id)
        return "the channels, the weights and the groups do not fit";
    Dim shape[MAX_RANK] = {x->shape[0], w->shape[0]};
    for (uint32_t i = 0; i < out.n; i++)
        shape[2 + i] = attr_dim(out, i);
    return infer_result(q, x->dtype, shape, x->rank);
}
