/* builtin_pool.c: pooling, and windows as columns, of the prelude. row->op is the number of sliding
 * axes (pools), or how many and 8 for the maximum (adaptive pools).
 *
 * A pool is a reduction over the window axes of a window: no operator of its own.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"
#include "frontend/windows.h"

#include <math.h>
#include <string.h>

typedef struct {
    Elab *e;
    const Call *c;
    uint32_t n;
    Images x;
    int64_t size[MAX_RANK], stride[MAX_RANK], pad[MAX_RANK], dilation[MAX_RANK];
    bool ceil;
    Window axes[MAX_RANK];
} Pool;

static Dim num(const Pool *q, int64_t k)
{
    return dim_const(q->e->dims, k);
}

/* Number of windows: the last one begins inside the tensor or the padding before it. */
static Dim windows_along(const Pool *q, uint32_t i)
{
    DimTable *t = q->e->dims;
    const Dim stride = num(q, q->stride[i]),
              padded = dim_add(t, q->x.type.shape[2 + i], num(q, q->pad[i]));
    Dim room = dim_add(t, padded, num(q, q->pad[i]));
    room = dim_sub(t, room, window_reach(q->e, q->size[i], q->dilation[i]));
    if (!q->ceil)
        return dim_add(t, dim_floordiv(t, room, stride), num(q, 1));
    const Dim all = dim_add(t, dim_ceildiv(t, room, stride), num(q, 1));
    return dim_min(t, all, dim_ceildiv(t, padded, stride));
}

/* kernel_size, stride = none, padding; dilation where there is one (0: none). */
static bool get_windows(Pool *q, uint32_t dilation, uint32_t ceil_mode)
{
    Elab *e = q->e;
    const Call *c = q->c;
    if (!window_images(e, c, q->n, "[N, channels, sizes..]", &q->x) ||
        !window_ints(e, c, 1, q->n, 1, q->size))
        return false;
    memcpy(q->stride, q->size, sizeof q->stride);
    if ((arg_given(c, 2) && !window_ints(e, c, 2, q->n, 1, q->stride)) ||
        !window_ints(e, c, 3, q->n, 0, q->pad) || !arg_bool(e, c, ceil_mode, &q->ceil))
        return false;
    for (uint32_t i = 0; i < q->n; i++)
        q->dilation[i] = 1;
    if (dilation && !window_ints(e, c, dilation, q->n, 1, q->dilation))
        return false;
    for (uint32_t i = 0; i < q->n; i++) {
        if (2 * q->pad[i] > q->size[i]) {
            elab_error(e, DIAG_bad_number, c->arg_at[3],
                       "%s: padding %lld is more than half of the window of %lld", c->row->name,
                       (long long)q->pad[i], (long long)q->size[i]);
            return false;
        }
        q->axes[i] = (Window){.out = windows_along(q, i),
                              .size = num(q, q->size[i]),
                              .lo = num(q, q->pad[i]),
                              .stride = q->stride[i],
                              .dilation = q->dilation[i],
                              .spread = 1};
        if (!window_exists(e, c, q->axes[i].out, 2 + i))
            return false;
    }
    return true;
}

/* [N, C, k.., o..]: kernels run over the pixels, inside of the windows; the window axes into
 * `over`. */
static Val windows_of(const Pool *q, Val x, double around, int64_t *over)
{
    int64_t axes[MAX_RANK], perm[MAX_RANK] = {0, 1};
    for (uint32_t i = 0; i < q->n; i++) {
        axes[i] = over[i] = 2 + i;
        perm[2 + i] = 2 + q->n + i;
        perm[2 + q->n + i] = 2 + i;
    }
    const DType t = type_at(q->e, x)->dtype;
    const Val value = around != 0 ? build_const(&q->e->b, t, around) : (Val){0, 0};
    return build_transpose(&q->e->b, build_window(&q->e->b, x, value, axes, q->n, q->axes), perm);
}

/* --- indices ---------------------------------------------------------------------------------- */

/* i64 of a shape: the index along an axis. */
static Val iota(const Pool *q, const TypeInfo *of, uint32_t axis)
{
    return build_cast(&q->e->b, build_iota(&q->e->b, of->shape, of->rank, axis), DT_i64);
}

static Val size_of(const Pool *q, Dim d, const TypeInfo *of)
{
    int64_t k;
    const Val v = dim_is_const(q->e->dims, d, &k) ? build_const_int(&q->e->b, DT_i64, k)
                                                  : build_dim(&q->e->b, d);
    return build_broadcast_to(&q->e->b, v, of->shape, of->rank);
}

static Val op2(const Pool *q, Op op, Val x, Val y)
{
    return build2(&q->e->b, op, x, y);
}

/* Where in the plane of the tensor the element number `k` of each window lies. */
static Val place_in_plane(const Pool *q, Val k)
{
    const TypeInfo t = *type_at(q->e, k);
    Val sum = {0, 0}, rest = k;
    Dim stride = num(q, 1);
    for (uint32_t i = q->n; i-- > 0;) {
        const Val size = size_of(q, q->axes[i].size, &t);
        Val at = i ? op2(q, OP_mod, rest, size) : rest;
        rest = i ? op2(q, OP_floordiv, rest, size) : rest;
        at = op2(q, OP_mul, at, size_of(q, num(q, q->dilation[i]), &t));
        at = op2(q, OP_add, at,
                 op2(q, OP_mul, iota(q, &t, 2 + i), size_of(q, num(q, q->stride[i]), &t)));
        at = op2(q, OP_sub, at, size_of(q, q->axes[i].lo, &t));
        at = op2(q, OP_mul, at, size_of(q, stride, &t));
        sum = sum.node ? op2(q, OP_add, sum, at) : at;
        stride = dim_mul(q->e->dims, stride, q->x.type.shape[2 + i]);
    }
    return sum;
}

static bool give_both(const Pool *q, Val y, Val index, Value *out)
{
    static const char *const names[] = {"values", "indices"};
    const Value both[] = {v_tensor(q->e, window_result(q->e, &q->x, y)),
                          v_tensor(q->e, window_result(q->e, &q->x, index))};
    *out = v_named(q->e, both, 2, names);
    return true;
}

static double lowest(DType t)
{
    if (dtype_is_float(t))
        return -INFINITY;
    return t == DT_u8 || t == DT_u64 ? 0 : -ldexp(1, 8 * dtype_size(t) - 1);
}

bool builtin_max_pool(Elab *e, const Call *c, Value *out)
{
    Pool q = {.e = e, .c = c, .n = (uint32_t)c->row->op};
    bool indices;
    int64_t over[MAX_RANK];
    if (!get_windows(&q, 4, 5) || !arg_bool(e, c, 6, &indices))
        return false;
    if (q.x.type.dtype == DT_bool) {
        elab_error(e, DIAG_dtype_mismatch, c->arg_at[0], "%s wants numbers, not bool",
                   c->row->name);
        return false;
    }
    const Val w = windows_of(&q, q.x.val, lowest(q.x.type.dtype), over);
    const Val y = build_reduce(&e->b, RED_argmax, w, over, q.n);
    return indices ? give_both(&q, y, place_in_plane(&q, val_result(y, 1)), out)
                   : give(e, window_result(e, &q.x, y), out);
}

/* --- averages --------------------------------------------------------------------------------- */

/* Elements of each window along axis i, [o] as t: inside the padded tensor, or the tensor. */
static Val count_along(const Pool *q, uint32_t i, bool padding, DType t)
{
    const Window *w = &q->axes[i];
    const TypeInfo of = {.dtype = DT_i64, .rank = 1, .shape = {w->out}};
    const Dim end = q->x.type.shape[2 + i];
    Val from = op2(q, OP_mul, iota(q, &of, 0), size_of(q, num(q, w->stride), &of));
    from = op2(q, OP_sub, from, size_of(q, w->lo, &of));
    Val to = op2(q, OP_add, from, size_of(q, w->size, &of));
    const Dim last = padding ? dim_add(q->e->dims, end, w->lo) : end;
    to = op2(q, OP_min, to, size_of(q, last, &of));
    if (!padding)
        from = op2(q, OP_max, from, size_of(q, num(q, 0), &of));
    return build_cast(&q->e->b, op2(q, OP_sub, to, from), t);
}

/* What each sum is divided by, of the shape of y. */
static Val divisor(const Pool *q, Val y, bool padding)
{
    const TypeInfo t = *type_at(q->e, y);
    Val all = {0, 0};
    double known = 1;
    for (uint32_t i = 0; i < q->n; i++) {
        if (!q->pad[i] || padding) {
            int64_t n;
            const bool fit = !q->ceil || (dim_is_const(q->e->dims, q->x.type.shape[2 + i], &n) &&
                                          (n + 2 * q->pad[i] - q->size[i]) % q->stride[i] == 0);
            if (fit) {
                known *= (double)q->size[i];
                continue;
            }
        }
        const int64_t axis = 2 + i;
        const Val n =
            build_broadcast(&q->e->b, count_along(q, i, padding, t.dtype), t.shape, t.rank, &axis);
        all = all.node ? op2(q, OP_mul, all, n) : n;
    }
    const Val k = build_full(&q->e->b, t.dtype, known, t.shape, t.rank);
    return !all.node ? k : known == 1 ? all : op2(q, OP_mul, all, k);
}

static bool need_float(const Pool *q)
{
    if (dtype_is_float(q->x.type.dtype))
        return true;
    elab_error(q->e, DIAG_dtype_mismatch, q->c->arg_at[0],
               "%s wants a float tensor, not %s; write .to(f32) first", q->c->row->name,
               dtype_name(q->x.type.dtype));
    return false;
}

bool builtin_avg_pool(Elab *e, const Call *c, Value *out)
{
    Pool q = {.e = e, .c = c, .n = (uint32_t)c->row->op};
    bool padding;
    int64_t over[MAX_RANK], by = 0;
    if (!get_windows(&q, 0, 4) || !arg_bool(e, c, 5, &padding) || !need_float(&q))
        return false;
    if (arg_given(c, 6)) {
        if (!arg_int(e, c, 6, &by))
            return false;
        if (!by) {
            elab_error(e, DIAG_bad_number, c->arg_at[6], "%s: the divisor is 0", c->row->name);
            return false;
        }
    }
    const DType t = q.x.type.dtype, wide = dtype_compute(t);
    const Val w = windows_of(&q, build_cast(&e->b, q.x.val, wide), 0, over);
    Val y = build_reduce(&e->b, RED_add, w, over, q.n);
    const TypeInfo ty = *type_at(e, y);
    const Val d =
        by ? build_full(&e->b, wide, (double)by, ty.shape, ty.rank) : divisor(&q, y, padding);
    y = build_cast(&e->b, op2(&q, OP_div, y, d), t);
    return give(e, window_result(e, &q.x, y), out);
}

/* --- adaptive pools --------------------------------------------------------------------------- */

/* Sizes of the result: one for all, or one an axis; `none` keeps the axis. */
static bool get_sizes(Pool *q, Dim *out)
{
    Elab *e = q->e;
    const Call *c = q->c;
    const Value *v = &c->arg[1];
    const bool list = v->kind == V_list;
    if (list && v->list->n != q->n && v->list->n != 1) {
        elab_error(e, DIAG_bad_call, c->arg_at[1], "%s wants one size here%s, not %u", c->row->name,
                   q->n > 1 ? arena_printf(e->a, ", or %u", q->n) : "", v->list->n);
        return false;
    }
    for (uint32_t i = 0; i < q->n; i++) {
        const Value *one = !list ? v : &v->list->at[v->list->n == 1 ? 0 : i];
        int64_t k;
        if (!window_filled(e, c, q->x.type.shape[2 + i], 2 + i))
            return false;
        if (is_poison(one))
            return false;
        if (one->kind == V_none) {
            out[i] = q->x.type.shape[2 + i];
            continue;
        }
        if (!value_dim(e, one, &out[i]) || (dim_is_const(e->dims, out[i], &k) && k < 1)) {
            elab_error(e, DIAG_bad_number, c->arg_at[1], "%s: a size is a positive int, or none",
                       c->row->name);
            return false;
        }
    }
    return true;
}

/* bool[out, size]: which elements are in window o: from o * size // out to the end that is
 * ceil((o + 1) * size / out). */
static Val membership(const Pool *q, Dim out, Dim size)
{
    const TypeInfo t = {.dtype = DT_i64, .rank = 2, .shape = {out, size}};
    const Val o = iota(q, &t, 0), at = iota(q, &t, 1), n = size_of(q, size, &t),
              m = size_of(q, out, &t);
    const Val from = op2(q, OP_floordiv, op2(q, OP_mul, o, n), m);
    Val to = op2(q, OP_mul, op2(q, OP_add, o, size_of(q, num(q, 1), &t)), n);
    to = op2(q, OP_add, to, size_of(q, dim_sub(q->e->dims, out, num(q, 1)), &t));
    to = op2(q, OP_floordiv, to, m);
    return op2(q, OP_and, op2(q, OP_le, from, at), op2(q, OP_lt, at, to));
}

/* The axis becomes [out, size / out]; false: that does not divide. */
static bool cut(const Pool *q, Val *x, uint32_t axis, Dim out)
{
    const TypeInfo t = *type_at(q->e, *x);
    const Dim each = dim_exact_div(q->e->dims, t.shape[axis], out);
    if (!each.id || t.rank == MAX_RANK)
        return false;
    Dim shape[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++)
        shape[i + (i > axis)] = t.shape[i];
    shape[axis] = out;
    shape[axis + 1] = each;
    *x = build_reshape(&q->e->b, *x, shape, t.rank + 1u);
    return true;
}

static Val mean_along(const Pool *q, Val x, uint32_t axis, Dim out)
{
    Builder *b = &q->e->b;
    const TypeInfo t = *type_at(q->e, x);
    const Dim size = t.shape[axis];
    if (dim_same(size, out))
        return x;
    if (cut(q, &x, axis, out)) {
        const int64_t over = axis + 1;
        x = build_reduce(b, RED_add, x, &over, 1);
        const TypeInfo ty = *type_at(q->e, x);
        const TypeInfo scalar = {.dtype = DT_i64};
        const Val n =
            build_cast(b, size_of(q, dim_exact_div(q->e->dims, size, out), &scalar), t.dtype);
        return op2(q, OP_div, x, build_broadcast_to(b, n, ty.shape, ty.rank));
    }
    const Val in = build_cast(b, membership(q, out, size), t.dtype);
    const int64_t last = 1, contract = axis;
    const Val n = build_reduce(b, RED_add, in, &last, 1);
    const Dim shape[] = {out, size};
    const int64_t first = 0;
    const Val share = op2(q, OP_div, in, build_broadcast(b, n, shape, 2, &first));
    x = build_dot(b, x, share, NULL, NULL, 0, &contract, &last, 1, t.dtype);
    int64_t perm[MAX_RANK]; /* the new axis came last */
    for (uint32_t i = 0; i < t.rank; i++)
        perm[i] = i < axis ? (int64_t)i : i == axis ? t.rank - 1 : (int64_t)i - 1;
    return build_transpose(b, x, perm);
}

bool builtin_adaptive_avg_pool(Elab *e, const Call *c, Value *out)
{
    Pool q = {.e = e, .c = c, .n = (uint32_t)c->row->op};
    Dim size[MAX_RANK];
    if (!window_images(e, c, q.n, "[N, channels, sizes..]", &q.x) || !need_float(&q) ||
        !get_sizes(&q, size))
        return false;
    const DType t = q.x.type.dtype;
    Val y = build_cast(&e->b, q.x.val, dtype_compute(t));
    for (uint32_t i = q.n; i-- > 0;)
        y = mean_along(&q, y, 2 + i, size[i]);
    return give(e, window_result(e, &q.x, build_cast(&e->b, y, t)), out);
}

/* Maximum and index along one axis. */
static Val max_along(const Pool *q, Val x, uint32_t axis, Dim out, Val *index)
{
    Builder *b = &q->e->b;
    const TypeInfo t = *type_at(q->e, x);
    const Dim size = t.shape[axis];
    const int64_t over = axis + 1;
    if (cut(q, &x, axis, out)) {
        const Val y = build_reduce(b, RED_argmax, x, &over, 1);
        const TypeInfo ty = *type_at(q->e, y);
        const Dim each = dim_exact_div(q->e->dims, size, out);
        const Val from = op2(q, OP_mul, iota(q, &ty, axis), size_of(q, each, &ty));
        *index = op2(q, OP_add, from, val_result(y, 1));
        return y;
    }
    Dim wide[MAX_RANK];
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        dims[i] = i + (i >= axis);
        wide[dims[i]] = t.shape[i];
    }
    wide[axis] = out;
    const Val all = build_broadcast(b, x, wide, t.rank + 1u, dims);
    const int64_t pair[] = {axis, axis + 1};
    const Val in = build_broadcast(b, membership(q, out, size), wide, t.rank + 1u, pair);
    const Val low = build_full(b, t.dtype, lowest(t.dtype), wide, t.rank + 1u);
    const Val y = build_reduce(b, RED_argmax, build3(b, OP_where, in, all, low), &over, 1);
    *index = val_result(y, 1);
    return y;
}

/* place[.., at[.., o, r..], r..] */
static Val chosen(const Pool *q, Val place, Val at, uint32_t axis)
{
    Builder *b = &q->e->b;
    const uint32_t rank = type_at(q->e, at)->rank;
    int64_t last[MAX_RANK], back[MAX_RANK];
    for (uint32_t i = 0; i < rank; i++)
        last[i] = i < axis ? (int64_t)i : i + 1 == rank ? (int64_t)axis : (int64_t)i + 1;
    for (uint32_t i = 0; i < rank; i++)
        back[last[i]] = i;
    const Val y = build_gather(b, build_transpose(b, place, last), build_transpose(b, at, last),
                               rank - 1, rank - 1, GATHER_CLAMP);
    return build_transpose(b, y, back);
}

bool builtin_adaptive_max_pool(Elab *e, const Call *c, Value *out)
{
    Pool q = {.e = e, .c = c, .n = (uint32_t)c->row->op};
    Dim size[MAX_RANK];
    bool indices;
    if (!window_images(e, c, q.n, "[N, channels, sizes..]", &q.x) || !get_sizes(&q, size) ||
        !arg_bool(e, c, 2, &indices))
        return false;
    Val y = q.x.val, place = {0, 0};
    Dim stride = num(&q, 1);
    for (uint32_t i = q.n; i-- > 0;) {
        Val at;
        y = max_along(&q, y, 2 + i, size[i], &at);
        const TypeInfo t = *type_at(e, at);
        if (place.node && indices)
            place = chosen(&q, place, at, 2 + i);
        at = op2(&q, OP_mul, at, size_of(&q, stride, &t));
        place = place.node && indices ? op2(&q, OP_add, place, at) : at;
        stride = dim_mul(e->dims, stride, q.x.type.shape[2 + i]);
    }
    return indices ? give_both(&q, y, place, out) : give(e, window_result(e, &q.x, y), out);
}

/* --- windows as columns ----------------------------------------------------------------------- */

/* kernel_size, dilation, padding, stride from argument `first` on. */
static bool get_columns(Pool *q, uint32_t first)
{
    Elab *e = q->e;
    const Call *c = q->c;
    return window_ints(e, c, first, q->n, 1, q->size) &&
           window_ints(e, c, first + 1, q->n, 1, q->dilation) &&
           window_ints(e, c, first + 2, q->n, 0, q->pad) &&
           window_ints(e, c, first + 3, q->n, 1, q->stride);
}

static bool place_columns(Pool *q)
{
    for (uint32_t i = 0; i < q->n; i++) {
        q->axes[i] = (Window){.out = windows_along(q, i),
                              .size = num(q, q->size[i]),
                              .lo = num(q, q->pad[i]),
                              .stride = q->stride[i],
                              .dilation = q->dilation[i],
                              .spread = 1};
        if (!window_exists(q->e, q->c, q->axes[i].out, 2 + i))
            return false;
    }
    return true;
}

/* [N, C, H, W] becomes [N, C * window, windows]. */
bool builtin_unfold(Elab *e, const Call *c, Value *out)
{
    Pool q = {.e = e, .c = c, .n = 2};
    int64_t over[MAX_RANK];
    if (!window_images(e, c, q.n, "[N, channels, height, width]", &q.x) || !get_columns(&q, 1) ||
        !place_columns(&q))
        return false;
    const Val w = windows_of(&q, q.x.val, 0, over);
    const TypeInfo t = *type_at(e, w);
    Dim shape[3] = {t.shape[0]};
    shape[1] = dim_product(e->dims, t.shape + 1, 3);
    shape[2] = dim_product(e->dims, t.shape + 4, 2);
    return give(e, window_result(e, &q.x, build_reshape(&e->b, w, shape, 3)), out);
}

/* The other way: what lies in several windows is added up. */
bool builtin_fold(Elab *e, const Call *c, Value *out)
{
    Pool q = {.e = e, .c = c, .n = 2};
    Val y;
    Dim size[2];
    if (!arg_tensor(e, c, 0, &y) || !get_columns(&q, 2))
        return false;
    TypeInfo t = *type_at(e, y);
    const Value *v = &c->arg[1];
    for (uint32_t i = 0; i < 2; i++) {
        const Value *one = v->kind == V_list && v->list->n ? &v->list->at[i % v->list->n] : v;
        if (is_poison(one))
            return false;
        if ((v->kind == V_list && v->list->n != 2) || !value_dim(e, one, &size[i])) {
            elab_error(e, DIAG_bad_call, c->arg_at[1], "fold: output_size is one size, or two");
            return false;
        }
    }
    q.x.alone = t.rank == 2;
    if (t.rank != 2 && t.rank != 3) {
        elab_error(e, DIAG_shape_mismatch, c->arg_at[0],
                   "fold wants [N, channels * window, windows], not %s", type_str(e, y));
        return false;
    }
    const Dim *from = t.shape + (t.rank - 2);
    const Dim window = num(&q, q.size[0] * q.size[1]),
              channels = dim_exact_div(e->dims, from[0], window);
    q.x.type = (TypeInfo){.rank = 4, .shape = {{0}, {0}, size[0], size[1]}};
    if (!place_columns(&q))
        return false;
    const Dim count = dim_mul(e->dims, q.axes[0].out, q.axes[1].out);
    if (!channels.id || !prove_equal(e, c->arg_at[0], from[1], count)) {
        elab_error(e, DIAG_shape_mismatch, c->arg_at[0],
                   "fold: %s is not [.., channels * %s, %s]: these windows are %s", type_str(e, y),
                   dim_str(e, window), dim_str(e, count), dim_str(e, count));
        return false;
    }
    const Dim shape[] = {t.rank == 2 ? num(&q, 1) : t.shape[0],
                         channels,
                         num(&q, q.size[0]),
                         num(&q, q.size[1]),
                         q.axes[0].out,
                         q.axes[1].out};
    y = build_reshape(&e->b, y, shape, 6);
    y = build_transpose(&e->b, y, (int64_t[]){0, 1, 4, 5, 2, 3});
    for (uint32_t i = 0; i < 2; i++)
        q.axes[i].out = size[i];
    y = build_fold(&e->b, y, (int64_t[]){2, 3}, 2, q.axes);
    return give(e, window_result(e, &q.x, y), out);
}
