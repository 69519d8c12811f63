/* builtin_conv.c: convolutions of the prelude. row->op is the number of sliding axes.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"
#include "frontend/windows.h"

#include <string.h>

bool window_ints(Elab *e, const Call *c, uint32_t i, uint32_t n, int64_t least, int64_t *out)
{
    uint32_t got;
    if (!arg_ints(e, c, i, out, &got, MAX_RANK))
        return false;
    if (got != 1 && got != n) {
        elab_error(e, DIAG_bad_call, c->arg_at[i], "%s wants one int here%s, not %u", c->row->name,
                   n > 1 ? arena_printf(e->a, ", or %u", n) : "", got);
        return false;
    }
    for (uint32_t k = got; k < n; k++)
        out[k] = out[0];
    for (uint32_t k = 0; k < n; k++)
        if (out[k] < least || out[k] > INT32_MAX) {
            elab_error(e, DIAG_bad_number, c->arg_at[i],
                       out[k] < least ? "%s: %lld is not possible here, %lld is the least"
                                      : "%s: %lld is not possible here, %lld is the most",
                       c->row->name, (long long)out[k],
                       out[k] < least ? (long long)least : (long long)INT32_MAX);
            return false;
        }
    return true;
}

bool window_images(Elab *e, const Call *c, uint32_t n, const char *what, Images *x)
{
    if (!arg_tensor(e, c, 0, &x->val))
        return false;
    x->type = *type_at(e, x->val);
    x->alone = x->type.rank == n + 1;
    if (x->type.rank != n + 2 && !x->alone) {
        elab_error(e, DIAG_shape_mismatch, c->arg_at[0], "%s wants %s, a tensor of %u axes, not %s",
                   c->row->name, what, n + 2, type_str(e, x->val));
        return false;
    }
    if (!x->alone)
        return true;
    memmove(x->type.shape + 1, x->type.shape, (n + 1) * sizeof *x->type.shape);
    x->type.shape[0] = dim_const(e->dims, 1);
    x->type.rank = (uint8_t)(n + 2);
    x->val = build_reshape(&e->b, x->val, x->type.shape, n + 2);
    return true;
}

Val window_result(Elab *e, const Images *x, Val y)
{
    if (!x->alone)
        return y;
    const TypeInfo t = *type_at(e, y);
    return build_reshape(&e->b, y, t.shape + 1, t.rank - 1u);
}

Dim window_reach(Elab *e, int64_t size, int64_t dilation)
{
    return dim_const(e->dims, dilation * (size - 1) + 1);
}

bool window_exists(Elab *e, const Call *c, Dim out, uint32_t axis)
{
    if (prove_le(e, c->at, dim_const(e->dims, 1), out, "the window is larger than the tensor"))
        return true;
    elab_error(e, DIAG_shape_mismatch, c->at,
               "%s: axis %u would have %s elements: the window is larger than the tensor",
               c->row->name, axis, dim_str(e, out));
    return false;
}

bool window_filled(Elab *e, const Call *c, Dim size, uint32_t axis)
{
    if (prove_le(e, c->at, dim_const(e->dims, 1), size,
                 arena_printf(e->a, "%s: axis %u has no elements", c->row->name, axis)))
        return true;
    elab_error(e, DIAG_shape_mismatch, c->at, "%s: axis %u has no elements", c->row->name, axis);
    return false;
}

/* --- conv ------------------------------------------------------------------------------------- */

typedef struct {
    Elab *e;
    const Call *c;
    uint32_t n;
    Images x;
    Val w;
    TypeInfo wt;
    int64_t groups, size[MAX_RANK], stride[MAX_RANK], dilation[MAX_RANK];
    Window axes[MAX_RANK];
} Conv;

static Dim num(const Conv *q, int64_t k)
{
    return dim_const(q->e->dims, k);
}

/* Weights are [rows, columns, sizes..] of a known size. */
static bool get_weights(Conv *q)
{
    Elab *e = q->e;
    const Call *c = q->c;
    if (!arg_tensor(e, c, 1, &q->w))
        return false;
    q->wt = *type_at(e, q->w);
    if (q->wt.rank != q->n + 2) {
        elab_error(e, DIAG_shape_mismatch, c->arg_at[1], "%s wants a weight of %u axes, not %s",
                   c->row->name, q->n + 2, type_str(e, q->w));
        return false;
    }
    if (q->wt.dtype != q->x.type.dtype || !dtype_is_float(q->wt.dtype)) {
        elab_error(e, DIAG_dtype_mismatch, c->at,
                   "%s wants floats of one dtype, not %s and %s; convert with .to(%s)",
                   c->row->name, dtype_name(q->x.type.dtype), dtype_name(q->wt.dtype),
                   dtype_name(dtype_is_float(q->wt.dtype) ? q->wt.dtype : e->float_type));
        return false;
    }
    for (uint32_t i = 0; i < q->n; i++)
        if (!dim_is_const(e->dims, q->wt.shape[2 + i], &q->size[i]) || q->size[i] < 1) {
            elab_error(e, DIAG_not_static, c->arg_at[1],
                       "%s: the sizes of the window must be known while compiling, and positive: "
                       "the weight is %s",
                       c->row->name, type_str(e, q->w));
            return false;
        }
    return true;
}

static bool get_groups(Conv *q, uint32_t arg)
{
    if (!arg_int(q->e, q->c, arg, &q->groups))
        return false;
    if (q->groups >= 1)
        return true;
    elab_error(q->e, DIAG_bad_number, q->c->arg_at[arg], "%s: %lld is not a number of groups",
               q->c->row->name, (long long)q->groups);
    return false;
}

/* a equals b, which the message explains by `why`. */
static bool fits(Conv *q, uint32_t arg, Dim a, Dim b, const char *why)
{
    Elab *e = q->e;
    if (prove_equal(e, q->c->arg_at[arg], a, b))
        return true;
    elab_error(e, DIAG_shape_mismatch, q->c->at,
               "%s: the input has %s channels, the weight %s with groups = %lld is for %s %s",
               q->c->row->name, dim_str(e, a), type_str(e, q->w), (long long)q->groups,
               dim_str(e, b), why);
    return false;
}

/* y + bias along axis 1. */
static bool add_bias(Conv *q, Val y, uint32_t arg, Value *out)
{
    Elab *e = q->e;
    const Call *c = q->c;
    if (arg_given(c, arg)) {
        Val bias;
        if (!arg_tensor(e, c, arg, &bias))
            return false;
        const TypeInfo t = *type_at(e, bias), of = *type_at(e, y);
        if (t.rank != 1 || t.dtype != of.dtype ||
            !prove_equal(e, c->arg_at[arg], t.shape[0], of.shape[1])) {
            elab_error(e, DIAG_shape_mismatch, c->arg_at[arg], "%s wants a bias %s[%s], not %s",
                       c->row->name, dtype_name(of.dtype), dim_str(e, of.shape[1]),
                       type_str(e, bias));
            return false;
        }
        const int64_t axis = 1;
        y = build2(&e->b, OP_add, y, build_broadcast(&e->b, bias, of.shape, of.rank, &axis));
    }
    return give(e, window_result(e, &q->x, y), out);
}

/* "same", "valid", or numbers; lo and both paddings together. */
static bool get_padding(Conv *q, uint32_t arg, Dim *lo, Dim *both)
{
    Elab *e = q->e;
    const Call *c = q->c;
    int64_t pad[MAX_RANK] = {0};
    const bool text = c->arg[arg].kind == V_string;
    const bool same = text && !strcmp(c->arg[arg].s, "same");
    if (text && !same && strcmp(c->arg[arg].s, "valid")) {
        elab_error(e, DIAG_bad_call, c->arg_at[arg],
                   "%s: padding is numbers, \"same\" or \"valid\", not \"%s\"", c->row->name,
                   c->arg[arg].s);
        return false;
    }
    if (!text && !window_ints(e, c, arg, q->n, 0, pad))
        return false;
    for (uint32_t i = 0; i < q->n; i++) {
        const int64_t reach = q->dilation[i] * (q->size[i] - 1);
        if (same && q->stride[i] != 1) {
            elab_error(e, DIAG_bad_call, c->arg_at[arg], "%s: padding = \"same\" wants stride 1",
                       c->row->name);
            return false;
        }
        lo[i] = num(q, same ? reach / 2 : pad[i]);
        both[i] = num(q, same ? reach : 2 * pad[i]);
    }
    return true;
}

bool builtin_conv(Elab *e, const Call *c, Value *out)
{
    Conv q = {.e = e, .c = c, .n = (uint32_t)c->row->op};
    Dim lo[MAX_RANK], both[MAX_RANK];
    if (!window_images(e, c, q.n, "[N, channels, sizes..]", &q.x) || !get_weights(&q) ||
        !window_ints(e, c, 3, q.n, 1, q.stride) || !window_ints(e, c, 5, q.n, 1, q.dilation) ||
        !get_padding(&q, 4, lo, both) || !get_groups(&q, 6) ||
        !fits(&q, 0, q.x.type.shape[1], dim_mul(e->dims, q.wt.shape[1], num(&q, q.groups)),
              "channels"))
        return false;
    if (!prove_divisible(e, c->arg_at[1], q.wt.shape[0], q.groups)) {
        elab_error(e, DIAG_shape_mismatch, c->arg_at[1],
                   "%s: %s channels of the result are not in %lld equal groups", c->row->name,
                   dim_str(e, q.wt.shape[0]), (long long)q.groups);
        return false;
    }
    for (uint32_t i = 0; i < q.n; i++) {
        Dim room = dim_add(e->dims, q.x.type.shape[2 + i], both[i]);
        room = dim_sub(e->dims, room, window_reach(e, q.size[i], q.dilation[i]));
        room = dim_floordiv(e->dims, room, num(&q, q.stride[i]));
        room = dim_add(e->dims, room, num(&q, 1));
        if (!window_exists(e, c, room, 2 + i))
            return false;
        q.axes[i] = (Window){.out = room, .lo = lo[i], .size = q.wt.shape[2 + i]};
        q.axes[i].stride = q.stride[i];
        q.axes[i].dilation = q.dilation[i];
        q.axes[i].spread = 1;
    }
    return add_bias(&q, build_conv(&e->b, q.x.val, q.w, q.axes, q.groups), 2, out);
}

/* --- transposed ------------------------------------------------------------------------------- */

/* w[g*C, M, k..] as the weights of a convolution: [g*M, C, k..], turned round. */
static Val turned(const Conv *q)
{
    Builder *b = &q->e->b;
    DimTable *t = q->e->dims;
    Dim start[MAX_RANK], split[4], joined[MAX_RANK];
    int64_t step[MAX_RANK];
    const TypeInfo *w = &q->wt;
    Dim rest = num(q, 1);
    for (uint32_t i = 0; i < w->rank; i++) {
        const bool turn = i >= 2 && q->size[i - 2] > 1;
        start[i] = turn ? num(q, q->size[i - 2] - 1) : num(q, 0);
        step[i] = turn ? -1 : 1;
        joined[i] = w->shape[i];
        if (i >= 2)
            rest = dim_mul(t, rest, w->shape[i]);
    }
    const Val v = build_slice(b, q->w, start, step, w->shape);
    if (q->groups == 1) {
        int64_t perm[MAX_RANK] = {1, 0};
        for (uint32_t i = 2; i < w->rank; i++)
            perm[i] = i;
        return build_transpose(b, v, perm);
    }
    split[0] = num(q, q->groups);
    split[1] = dim_floordiv(t, w->shape[0], num(q, q->groups));
    split[2] = w->shape[1];
    split[3] = rest;
    joined[0] = dim_mul(t, split[0], split[2]);
    joined[1] = split[1];
    const Val parts = build_transpose(b, build_reshape(b, v, split, 4), (int64_t[]){0, 2, 1, 3});
    return build_reshape(b, parts, joined, w->rank);
}

bool builtin_conv_transpose(Elab *e, const Call *c, Value *out)
{
    Conv q = {.e = e, .c = c, .n = (uint32_t)c->row->op};
    int64_t pad[MAX_RANK], more[MAX_RANK];
    if (!window_images(e, c, q.n, "[N, channels, sizes..]", &q.x) || !get_weights(&q) ||
        !window_ints(e, c, 3, q.n, 1, q.stride) || !window_ints(e, c, 4, q.n, 0, pad) ||
        !window_ints(e, c, 5, q.n, 0, more) || !get_groups(&q, 6) ||
        !window_ints(e, c, 7, q.n, 1, q.dilation) ||
        !fits(&q, 0, q.x.type.shape[1], q.wt.shape[0], "channels"))
        return false;
    if (!prove_divisible(e, c->arg_at[1], q.wt.shape[0], q.groups)) {
        elab_error(e, DIAG_shape_mismatch, c->arg_at[1],
                   "%s: %s channels are not in %lld equal groups", c->row->name,
                   dim_str(e, q.wt.shape[0]), (long long)q.groups);
        return false;
    }
    for (uint32_t i = 0; i < q.n; i++) {
        if (more[i] >= q.stride[i] && more[i] >= q.dilation[i]) {
            elab_error(e, DIAG_bad_number, c->arg_at[5],
                       "%s: output_padding must be smaller than the stride or the dilation",
                       c->row->name);
            return false;
        }
        const int64_t reach = q.dilation[i] * (q.size[i] - 1);
        Dim room = dim_sub(e->dims, q.x.type.shape[2 + i], num(&q, 1));
        room = dim_mul(e->dims, room, num(&q, q.stride[i]));
        room = dim_add(e->dims, room, num(&q, reach + more[i] + 1 - 2 * pad[i]));
        if (!window_exists(e, c, room, 2 + i))
            return false;
        q.axes[i] = (Window){.out = room,
                             .lo = num(&q, reach - pad[i]),
                             .size = q.wt.shape[2 + i],
                             .stride = 1,
                             .dilation = q.dilation[i],
                             .spread = q.stride[i]};
    }
    return add_bias(&q, build_conv(&e->b, q.x.val, turned(&q), q.axes, q.groups), 2, out);
}
