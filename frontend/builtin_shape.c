/* builtin_shape.c: views and rearrangements of the prelude. SPDX-License-Identifier: MIT */
#include "frontend/elab.h"
#include "frontend/windows.h"

#include <string.h>

static Dim sub(Elab *e, Dim a, Dim b)
{
    return dim_sub(e->dims, a, b);
}

static Dim num(Elab *e, int64_t k)
{
    return dim_const(e->dims, k);
}

bool builtin_reshape(Elab *e, const Call *c, Value *out)
{
    Val x, y;
    Shape to;
    bool rest;
    return arg_tensor(e, c, 0, &x) && arg_shape(e, c, 1, &to, &rest) &&
           reshape_to(e, c->at, x, &to, &y) && give(e, y, out);
}

bool builtin_flatten(Elab *e, const Call *c, Value *out)
{
    Val x;
    if (!arg_tensor(e, c, 0, &x))
        return false;
    const TypeInfo t = *type_at(e, x);
    if (t.rank == 0) {
        const Dim one = num(e, 1);
        return give(e, build_reshape(&e->b, x, &one, 1), out);
    }
    uint32_t from, to;
    if (!arg_axis(e, c, 1, t.rank, &from) || !arg_axis(e, c, 2, t.rank, &to))
        return false;
    if (from > to) {
        elab_error(e, DIAG_bad_axis, c->at, "flatten: axis %u is behind axis %u", from, to);
        return false;
    }
    Dim shape[MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t.rank; i++)
        if (i > from && i <= to)
            shape[n - 1] = dim_mul(e->dims, shape[n - 1], t.shape[i]);
        else
            shape[n++] = t.shape[i];
    return give(e, build_reshape(&e->b, x, shape, n), out);
}

bool builtin_unflatten(Elab *e, const Call *c, Value *out)
{
    Val x, y;
    uint32_t axis;
    Shape sizes, to = {0};
    bool rest;
    if (!arg_tensor(e, c, 0, &x))
        return false;
    const TypeInfo t = *type_at(e, x);
    if (!arg_axis(e, c, 1, t.rank, &axis) || !arg_shape(e, c, 2, &sizes, &rest))
        return false;
    if (t.rank + sizes.rank - 1 > MAX_RANK) {
        elab_error(e, DIAG_shape_mismatch, c->at, "unflatten: more than %d axes", MAX_RANK);
        return false;
    }
    for (uint32_t i = 0; i < t.rank; i++) {
        if (i != axis) {
            to.at[to.rank++] = t.shape[i];
            continue;
        }
        for (uint32_t k = 0; k < sizes.rank; k++) {
            to.how[to.rank] = sizes.how[k];
            to.at[to.rank++] = sizes.at[k];
        }
    }
    return reshape_to(e, c->at, x, &to, &y) && give(e, y, out);
}

static bool axis_error(Elab *e, const Call *c, uint32_t i, const char *what)
{
    elab_error(e, DIAG_bad_axis, c->arg_at[i], "%s: %s", c->row->name, what);
    return false;
}

bool builtin_permute(Elab *e, const Call *c, Value *out)
{
    Val x;
    int64_t perm[MAX_RANK];
    uint32_t n;
    if (!arg_tensor(e, c, 0, &x) || !arg_ints(e, c, 1, perm, &n, MAX_RANK))
        return false;
    const uint32_t rank = type_at(e, x)->rank;
    bool used[MAX_RANK] = {false};
    if (n != rank)
        return axis_error(e, c, 1, "every axis must be named once");
    for (uint32_t i = 0; i < n; i++) {
        if (perm[i] < 0)
            perm[i] += rank;
        if (perm[i] < 0 || perm[i] >= rank || used[perm[i]])
            return axis_error(e, c, 1, "every axis must be named once");
        used[perm[i]] = true;
    }
    return give(e, build_transpose(&e->b, x, perm), out);
}

bool builtin_transpose(Elab *e, const Call *c, Value *out)
{
    Val x;
    if (!arg_tensor(e, c, 0, &x))
        return false;
    const uint32_t rank = type_at(e, x)->rank;
    uint32_t a, b;
    if (!arg_axis(e, c, 1, rank, &a) || !arg_axis(e, c, 2, rank, &b))
        return false;
    int64_t perm[MAX_RANK];
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = i == a ? b : i == b ? a : i;
    return give(e, build_transpose(&e->b, x, perm), out);
}

bool builtin_movedim(Elab *e, const Call *c, Value *out)
{
    Val x;
    if (!arg_tensor(e, c, 0, &x))
        return false;
    const uint32_t rank = type_at(e, x)->rank;
    uint32_t from, to, k = 0;
    if (!arg_axis(e, c, 1, rank, &from) || !arg_axis(e, c, 2, rank, &to))
        return false;
    int64_t perm[MAX_RANK];
    for (uint32_t i = 0; i < rank; i++) {
        if (k == from)
            k++;
        perm[i] = i == to ? from : k++;
    }
    return give(e, build_transpose(&e->b, x, perm), out);
}

/* x as shape, axes of 1 repeated; {0} keeps an axis. */
static bool expand(Elab *e, const Call *c, Val x, Shape *to, Value *out)
{
    Dim *shape = to->at;
    const uint32_t rank = to->rank;
    const TypeInfo t = *type_at(e, x);
    if (t.rank > rank) {
        elab_error(e, DIAG_shape_mismatch, c->at, "%s: %s has more axes than %s", c->row->name,
                   type_str(e, x), shape_str(e, to));
        return false;
    }
    for (uint32_t i = 0; i < rank; i++) {
        const bool old = i + t.rank >= rank;
        const Dim d = old ? t.shape[i + t.rank - rank] : num(e, 1);
        if (!shape[i].id && old)
            shape[i] = d;
        if (!shape[i].id || (!dim_is_one(e->dims, d) && !prove_equal(e, c->at, d, shape[i]))) {
            elab_error(e, DIAG_shape_mismatch, c->at, "%s: %s does not expand to %s", c->row->name,
                       type_str(e, x), shape_str(e, to));
            return false;
        }
    }
    const Val y = build_broadcast_to(&e->b, x, shape, rank);
    written_set(e, y, to->how, rank);
    return give(e, y, out);
}

bool builtin_expand(Elab *e, const Call *c, Value *out)
{
    Val x;
    Shape to = {0};
    if (!arg_tensor(e, c, 0, &x))
        return false;
    const Value *v = &c->arg[1];
    if (v->kind == V_list && v->list->n == 1 && v->list->at[0].kind == V_list)
        v = &v->list->at[0];
    to.rank = v->kind == V_list ? v->list->n : 0;
    if (to.rank > MAX_RANK || to.rank == 0)
        return axis_error(e, c, 1, "a shape is expected");
    for (uint32_t i = 0; i < to.rank; i++) { /* -1, any number of times, keeps an axis */
        const Value *d = &v->list->at[i];
        if (d->kind == V_int && d->i == -1)
            continue;
        if (is_poison(d) || !value_dim(e, d, &to.at[i]))
            return is_poison(d) ? false : axis_error(e, c, 1, "a size must be an int");
        to.how[i] = d->how;
    }
    return expand(e, c, x, &to, out);
}

bool builtin_expand_as(Elab *e, const Call *c, Value *out)
{
    Val x, y;
    if (!arg_tensor(e, c, 0, &x) || !arg_tensor(e, c, 1, &y))
        return false;
    Shape to = written_shape(e, y);
    return expand(e, c, x, &to, out);
}

bool builtin_squeeze(Elab *e, const Call *c, Value *out)
{
    Val x;
    if (!arg_tensor(e, c, 0, &x))
        return false;
    const TypeInfo t = *type_at(e, x);
    Dim shape[MAX_RANK];
    int64_t axes[MAX_RANK];
    uint32_t rank = 0, n = 0;
    const bool given = arg_given(c, 1);
    if (given && !arg_axes(e, c, 1, t.rank, axes, &n))
        return false;
    bool drop[MAX_RANK] = {false};
    for (uint32_t i = 0; i < n; i++) {
        if (!dim_is_one(e->dims, t.shape[axes[i]])) {
            elab_error(e, DIAG_bad_axis, c->at, "squeeze: axis %lld of %s is not 1",
                       (long long)axes[i], type_str(e, x));
            return false;
        }
        drop[axes[i]] = true;
    }
    for (uint32_t i = 0; i < t.rank; i++)
        if (given ? !drop[i] : !dim_is_one(e->dims, t.shape[i]))
            shape[rank++] = t.shape[i];
    return give(e, build_reshape(&e->b, x, shape, rank), out);
}

static Val unsqueeze(Elab *e, Val x, uint32_t axis)
{
    const TypeInfo t = *type_at(e, x);
    Dim shape[MAX_RANK];
    for (uint32_t i = 0, k = 0; i <= t.rank; i++)
        shape[i] = i == axis ? num(e, 1) : t.shape[k++];
    return build_reshape(&e->b, x, shape, (uint32_t)t.rank + 1);
}

bool builtin_unsqueeze(Elab *e, const Call *c, Value *out)
{
    Val x;
    uint32_t axis;
    if (!arg_tensor(e, c, 0, &x))
        return false;
    const uint32_t rank = type_at(e, x)->rank;
    if (rank == MAX_RANK)
        return axis_error(e, c, 1, "a tensor has at most 8 axes");
    int64_t at;
    if (!arg_int(e, c, 1, &at))
        return false;
    if (at < -(int64_t)rank - 1 || at > rank)
        return axis_error(e, c, 1,
                          arena_printf(e->a, "the new axis of a tensor of %u axes is from %d to %u",
                                       rank, -(int)rank - 1, rank));
    return arg_axis(e, c, 1, rank + 1, &axis) && give(e, unsqueeze(e, x, axis), out);
}

/* ---- many and one ---- */

static void promote_all(Elab *e, Val *v, uint32_t n)
{
    DType t = type_at(e, v[0])->dtype;
    for (uint32_t i = 1; i < n; i++)
        t = dtype_promote(t, type_at(e, v[i])->dtype);
    for (uint32_t i = 0; i < n; i++)
        v[i] = build_cast(&e->b, v[i], t);
}

static bool not_alike(Elab *e, const Call *c, Val x, Val y, uint32_t except)
{
    const Shape a = written_shape(e, x), b = written_shape(e, y);
    const char *p = shape_str(e, &a), *q = shape_str(e, &b);
    if (a.rank != b.rank) {
        elab_error(e, DIAG_shape_mismatch, c->at, "%s of %s and %s: the numbers of axes differ",
                   c->row->name, p, q);
        return false;
    }
    uint32_t k = 0;
    while (k < a.rank && (k == except || prove_equal(e, c->at, a.at[k], b.at[k])))
        k++;
    const SizePair pair = {NULL, a.how[k], b.how[k], a.at[k], b.at[k]};
    sizes_error(e, DIAG_shape_mismatch, c->at, &pair, "%s of %s and %s: axis %u differs",
                c->row->name, p, q, k);
    return false;
}

static bool check_alike(Elab *e, const Call *c, Val *v, uint32_t n, uint32_t except)
{
    const TypeInfo first = *type_at(e, v[0]);
    for (uint32_t i = 1; i < n; i++) {
        const TypeInfo t = *type_at(e, v[i]);
        bool same = t.rank == first.rank;
        for (uint32_t k = 0; k < t.rank && same; k++)
            same = k == except || prove_equal(e, c->at, first.shape[k], t.shape[k]);
        if (!same)
            return not_alike(e, c, v[0], v[i], except);
    }
    return true;
}

bool builtin_cat(Elab *e, const Call *c, Value *out)
{
    Val *v;
    uint32_t n, axis;
    if (!arg_tensors(e, c, 0, &v, &n))
        return false;
    if (!n) {
        elab_error(e, DIAG_bad_call, c->at, "%s of no tensors", c->row->name);
        return false;
    }
    if (!arg_axis(e, c, 1, type_at(e, v[0])->rank, &axis) || !check_alike(e, c, v, n, axis))
        return false;
    promote_all(e, v, n);
    return give(e, build_concat(&e->b, v, n, axis), out);
}

bool builtin_stack(Elab *e, const Call *c, Value *out)
{
    Val *v;
    uint32_t n, axis;
    if (!arg_tensors(e, c, 0, &v, &n))
        return false;
    if (!n) {
        elab_error(e, DIAG_bad_call, c->at, "stack of no tensors");
        return false;
    }
    const uint32_t rank = type_at(e, v[0])->rank;
    if (rank == MAX_RANK)
        return axis_error(e, c, 1, "a tensor has at most 8 axes");
    if (!arg_axis(e, c, 1, rank + 1, &axis) || !check_alike(e, c, v, n, MAX_RANK))
        return false;
    promote_all(e, v, n);
    for (uint32_t i = 0; i < n; i++)
        v[i] = unsqueeze(e, v[i], axis);
    return give(e, build_concat(&e->b, v, n, axis), out);
}

static Val without_axis(Elab *e, Val x, uint32_t axis)
{
    const TypeInfo t = *type_at(e, x);
    Dim shape[MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < t.rank; i++)
        if (i != axis)
            shape[rank++] = t.shape[i];
    return build_reshape(&e->b, x, shape, rank);
}

bool builtin_unbind(Elab *e, const Call *c, Value *out)
{
    Val x;
    uint32_t axis;
    if (!arg_tensor(e, c, 0, &x) || !arg_axis(e, c, 1, type_at(e, x)->rank, &axis))
        return false;
    int64_t n;
    if (!dim_is_const(e->dims, type_at(e, x)->shape[axis], &n) || n > 65536) {
        e->unproved = true;
        return axis_error(e, c, 1, "the size of the axis must be known while compiling");
    }
    Value *v = arena_array(e->a, Value, n);
    for (int64_t i = 0; i < n; i++)
        v[i] = v_tensor(
            e, without_axis(e, build_slice_axis(&e->b, x, axis, num(e, i), num(e, 1)), axis));
    *out = v_list(e, v, (uint32_t)n);
    return true;
}

/* A range of an axis, with the text of its size. */
static Val part_of(Elab *e, Val x, uint32_t axis, Dim start, Dim size, const Written *how)
{
    const Val v = build_slice_axis(&e->b, x, axis, start, size);
    const Written *axes[MAX_RANK] = {0};
    axes[axis] = how;
    written_set(e, v, axes, type_at(e, v)->rank);
    return v;
}

static bool pieces(Elab *e, Val x, uint32_t axis, const Dim *size, const Written *const *how,
                   uint32_t n, Value *out)
{
    Value *v = arena_array(e->a, Value, n);
    Dim at = num(e, 0);
    for (uint32_t i = 0; i < n; i++) {
        v[i] = v_tensor(e, part_of(e, x, axis, at, size[i], how[i]));
        at = dim_add(e->dims, at, size[i]);
    }
    *out = v_list(e, v, n);
    return true;
}

static bool does_not_divide(Elab *e, const Call *c, Val x, uint32_t axis, const char *by)
{
    elab_error(e, DIAG_sizes_differ, c->at, "%s: %s does not divide axis %u of %s", c->row->name,
               by, axis, type_str(e, x));
    return false;
}

bool builtin_chunk(Elab *e, const Call *c, Value *out)
{
    Val x;
    uint32_t axis;
    int64_t n;
    if (!arg_tensor(e, c, 0, &x) || !arg_axis(e, c, 2, type_at(e, x)->rank, &axis) ||
        !arg_int(e, c, 1, &n))
        return false;
    const Dim whole = type_at(e, x)->shape[axis];
    if (n < 1 || n > 65536 || !prove_divisible(e, c->at, whole, n))
        return does_not_divide(e, c, x, axis, value_size_str(e, &c->arg[1]));
    Dim *size = arena_array(e->a, Dim, n);
    const Written **how = arena_array(e->a, const Written *, n);
    const Value tensor = v_tensor(e, x), axis_size = written_axis(e, &tensor, axis);
    Value part = v_dim(e, dim_floordiv(e->dims, whole, num(e, n)));
    written_op(e, AST_floordiv, &axis_size, &c->arg[1], &part);
    for (int64_t i = 0; i < n; i++) {
        value_dim(e, &part, &size[i]);
        how[i] = part.how;
    }
    return pieces(e, x, axis, size, how, (uint32_t)n, out);
}

bool builtin_split(Elab *e, const Call *c, Value *out)
{
    Val x;
    uint32_t axis;
    if (!arg_tensor(e, c, 0, &x) || !arg_axis(e, c, 2, type_at(e, x)->rank, &axis))
        return false;
    const Dim whole = type_at(e, x)->shape[axis];
    if (c->arg[1].kind == V_list) {
        const List *l = c->arg[1].list;
        Dim *size = arena_array(e->a, Dim, l->n), sum = num(e, 0);
        const Written **how = arena_array(e->a, const Written *, l->n);
        Value total = v_int(0);
        for (uint32_t i = 0; i < l->n; i++) {
            if (is_poison(&l->at[i]))
                return false;
            if (!value_dim(e, &l->at[i], &size[i]))
                return axis_error(e, c, 1, "sizes are ints");
            const Value so_far = total;
            sum = dim_add(e->dims, sum, size[i]);
            how[i] = l->at[i].how;
            total = v_dim(e, sum);
            if (i)
                written_op(e, AST_add, &so_far, &l->at[i], &total);
            else
                total.how = l->at[i].how;
        }
        if (!prove_equal(e, c->at, sum, whole)) {
            const SizePair pair = {NULL, total.how, written_shape(e, x).how[axis], sum, whole};
            sizes_error(e, DIAG_sizes_differ, c->at, &pair,
                        "split: the pieces add up to %s, axis %u is %s",
                        size_str(e, pair.a_how, sum), axis, size_str(e, pair.b_how, whole));
            return false;
        }
        return pieces(e, x, axis, size, how, l->n, out);
    }
    Dim size;
    int64_t n;
    if (!arg_dim(e, c, 1, &size))
        return false;
    const Dim q = dim_exact_div(e->dims, whole, size);
    e->unproved = !dim_is_const(e->dims, whole, &n);
    if (!q.id || !dim_is_const(e->dims, q, &n) || n < 1 || n > 65536)
        return does_not_divide(e, c, x, axis, value_size_str(e, &c->arg[1]));
    Dim *sizes = arena_array(e->a, Dim, n);
    const Written **how = arena_array(e->a, const Written *, n);
    for (int64_t i = 0; i < n; i++) {
        sizes[i] = size;
        how[i] = c->arg[1].how;
    }
    return pieces(e, x, axis, sizes, how, (uint32_t)n, out);
}

/* ---- rearrangements ---- */

/* torch's order: two numbers for each axis, the last axis first; negative ones cut. */
bool builtin_pad(Elab *e, const Call *c, Value *out)
{
    Val x;
    const char *mode;
    Dim by[2 * MAX_RANK];
    if (!arg_tensor(e, c, 0, &x) || !arg_string(e, c, 2, &mode))
        return false;
    if (strcmp(mode, "constant"))
        return pad_with_itself(e, c, x, mode, out);
    const TypeInfo t = *type_at(e, x);
    const List *l = c->arg[1].kind == V_list ? c->arg[1].list : NULL;
    if (!l || l->n % 2 || l->n > 2u * t.rank)
        return axis_error(e, c, 1, "a list of two numbers an axis, the last axis first");
    for (uint32_t i = 0; i < l->n; i++)
        if (is_poison(&l->at[i]) || !value_dim(e, &l->at[i], &by[i]))
            return is_poison(&l->at[i]) ? false : axis_error(e, c, 1, "sizes are ints");
    Dim lo[MAX_RANK], hi[MAX_RANK], start[MAX_RANK], extent[MAX_RANK];
    int64_t interior[MAX_RANK] = {0}, step[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        const uint32_t k = 2 * (t.rank - 1 - i);
        lo[i] = k < l->n ? by[k] : num(e, 0);
        hi[i] = k < l->n ? by[k + 1] : num(e, 0);
        int64_t v, cut_lo = 0, cut_hi = 0;
        if (dim_is_const(e->dims, lo[i], &v) && v < 0) {
            cut_lo = -v;
            lo[i] = num(e, 0);
        }
        if (dim_is_const(e->dims, hi[i], &v) && v < 0) {
            cut_hi = -v;
            hi[i] = num(e, 0);
        }
        start[i] = num(e, cut_lo);
        step[i] = 1;
        extent[i] = sub(e, t.shape[i], num(e, cut_lo + cut_hi));
        if (!prove_le(e, c->at, num(e, 0), extent[i], "pad cuts more than there is")) {
            elab_error(e, DIAG_sizes_differ, c->at, "pad cuts more of axis %u than there is", i);
            return false;
        }
    }
    const Val part = build_slice(&e->b, x, start, step, extent);
    return give(e, build_pad(&e->b, part, val_as(e, &c->arg[3], t.dtype), lo, hi, interior), out);
}

bool builtin_flip(Elab *e, const Call *c, Value *out)
{
    Val x;
    int64_t axes[MAX_RANK];
    uint32_t n;
    if (!arg_tensor(e, c, 0, &x))
        return false;
    const TypeInfo t = *type_at(e, x);
    if (!arg_axes(e, c, 1, t.rank, axes, &n))
        return false;
    Dim start[MAX_RANK];
    int64_t step[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        start[i] = num(e, 0);
        step[i] = 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        start[axes[i]] = sub(e, t.shape[axes[i]], num(e, 1));
        step[axes[i]] = -1;
    }
    return give(e, build_slice(&e->b, x, start, step, t.shape), out);
}

static Val roll_axis(Elab *e, Val x, uint32_t axis, Dim shift)
{
    const Dim n = type_at(e, x)->shape[axis];
    int64_t k;
    if (dim_is_const(e->dims, shift, &k) && k < 0) /* -k mod n, without a division by n */
        shift = dim_is_const(e->dims, n, &(int64_t){0}) ? dim_mod(e->dims, shift, n)
                                                        : dim_add(e->dims, n, shift);
    else if (dim_is_const(e->dims, n, &k) && k > 0)
        shift = dim_mod(e->dims, shift, n);
    const Dim rest = sub(e, n, shift);
    const Val parts[] = {build_slice_axis(&e->b, x, axis, rest, shift),
                         build_slice_axis(&e->b, x, axis, num(e, 0), rest)};
    return build_concat(&e->b, parts, 2, axis);
}

bool builtin_roll(Elab *e, const Call *c, Value *out)
{
    Val x;
    if (!arg_tensor(e, c, 0, &x))
        return false;
    const TypeInfo t = *type_at(e, x);
    const Value *s = &c->arg[1];
    const Value *at = s->kind == V_list ? s->list->at : s;
    const uint32_t n = s->kind == V_list ? s->list->n : 1;
    int64_t axes[MAX_RANK];
    uint32_t naxes = 0;
    if (arg_given(c, 2)) {
        if (!arg_ints(e, c, 2, axes, &naxes, MAX_RANK))
            return false;
    }
    Val y = x;
    if (!naxes) { /* over all elements in order */
        Dim all = dim_product(e->dims, t.shape, t.rank);
        y = build_reshape(&e->b, x, &all, 1);
        axes[0] = 0;
    }
    if (n != (naxes ? naxes : 1))
        return axis_error(e, c, 1, "one shift for each axis");
    const uint32_t rank = naxes ? t.rank : 1;
    for (uint32_t i = 0; i < n; i++) {
        Dim shift;
        if (axes[i] < 0)
            axes[i] += rank;
        if (axes[i] < 0 || axes[i] >= rank)
            return axis_error(e, c, 2, "there is no such axis");
        if (is_poison(&at[i]) || !value_dim(e, &at[i], &shift))
            return is_poison(&at[i]) ? false : axis_error(e, c, 1, "shifts are ints");
        const Dim size = type_at(e, y)->shape[axes[i]];
        int64_t k, whole;
        const bool wraps = dim_is_const(e->dims, shift, &k) && dim_is_const(e->dims, size, &whole);
        const Dim most = wraps                                       ? num(e, 0)
                         : dim_is_const(e->dims, shift, &k) && k < 0 ? num(e, -k)
                                                                     : shift;
        if (!prove_le(e, c->at, most, size, "roll moves by more than the axis has")) {
            elab_error(e, DIAG_bad_index, c->at, "roll: the shift must lie inside the axis");
            return false;
        }
        y = roll_axis(e, y, (uint32_t)axes[i], shift);
    }
    return give(e, naxes ? y : build_reshape(&e->b, y, t.shape, t.rank), out);
}

bool builtin_repeat(Elab *e, const Call *c, Value *out)
{
    Val x;
    Dim wide[2 * MAX_RANK], shape[MAX_RANK];
    Shape all;
    if (!arg_tensor(e, c, 0, &x) || !arg_shape(e, c, 1, &all, NULL))
        return false;
    const TypeInfo t = *type_at(e, x);
    const Dim *times = all.at;
    const uint32_t n = all.rank;
    if (n < t.rank)
        return axis_error(e, c, 1, "one number for each axis, and more for new axes");
    /* [n0, d0, n1, d1, ..]: only as many axes as there are real repetitions */
    int64_t dims[MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < n; i++) {
        const bool old = i + t.rank >= n;
        const Dim d = old ? t.shape[i + t.rank - n] : num(e, 1);
        shape[i] = dim_mul(e->dims, d, times[i]);
        if (!dim_is_one(e->dims, times[i]) || !old)
            wide[rank++] = times[i];
        if (old) {
            dims[i + t.rank - n] = rank;
            wide[rank++] = d;
        }
    }
    if (rank > MAX_RANK)
        return axis_error(e, c, 1, "too many axes");
    const Val y = build_broadcast(&e->b, x, wide, rank, dims);
    return give(e, y, out) && give(e, build_reshape(&e->b, y, shape, n), out);
}

bool builtin_repeat_interleave(Elab *e, const Call *c, Value *out)
{
    Val x;
    Dim times;
    uint32_t axis = 0;
    if (!arg_tensor(e, c, 0, &x) || !arg_size(e, c, 1, &times))
        return false;
    TypeInfo t = *type_at(e, x);
    if (!arg_given(c, 2)) {
        t.shape[0] = dim_product(e->dims, t.shape, t.rank);
        t.rank = 1;
        x = build_reshape(&e->b, x, t.shape, 1);
    } else if (!arg_axis(e, c, 2, t.rank, &axis)) {
        return false;
    }
    if (t.rank == MAX_RANK)
        return axis_error(e, c, 2, "too many axes");
    Dim wide[MAX_RANK];
    int64_t dims[MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < t.rank; i++) {
        dims[i] = rank;
        wide[rank++] = t.shape[i];
        if (i == axis)
            wide[rank++] = times;
    }
    t.shape[axis] = dim_mul(e->dims, t.shape[axis], times);
    const Val y = build_broadcast(&e->b, x, wide, rank, dims);
    return give(e, y, out) && give(e, build_reshape(&e->b, y, t.shape, t.rank), out);
}

/* i32 indices along the last two axes, broadcast over [n, m]. */
static Val index_of(Elab *e, const Dim *shape, uint32_t axis)
{
    return build_iota(&e->b, shape, 2, axis);
}

/* row->op 0: tril (column <= row + diagonal), 1: triu. */
bool builtin_tril(Elab *e, const Call *c, Value *out)
{
    Val x;
    int64_t k;
    if (!arg_tensor(e, c, 0, &x) || !arg_int(e, c, 1, &k))
        return false;
    const TypeInfo t = *type_at(e, x);
    if (t.rank < 2)
        return axis_error(e, c, 0, "a tensor of at least two axes is expected");
    const Dim *last = t.shape + t.rank - 2;
    const Val row = build2(&e->b, OP_add, index_of(e, last, 0), build_const_int(&e->b, DT_i32, k));
    const Val inside = build2(&e->b, c->row->op ? OP_ge : OP_le, index_of(e, last, 1), row);
    const Val mask = build_broadcast_to(&e->b, inside, t.shape, t.rank);
    return give(e, build3(&e->b, OP_where, mask, x, build_const(&e->b, t.dtype, 0)), out);
}

bool builtin_diag(Elab *e, const Call *c, Value *out)
{
    Val x;
    if (!arg_tensor(e, c, 0, &x))
        return false;
    const TypeInfo t = *type_at(e, x);
    if (t.rank != 1 && t.rank != 2)
        return axis_error(e, c, 0, "a vector or a matrix is expected");
    Dim square[2] = {t.shape[0], t.shape[t.rank - 1]};
    if (t.rank == 2) { /* the leading square, then the sum of each row's only element */
        const Dim n = dim_min(e->dims, square[0], square[1]);
        square[0] = square[1] = n;
        x = build_slice_axis(&e->b, build_slice_axis(&e->b, x, 0, num(e, 0), n), 1, num(e, 0), n);
    }
    const Val on = build2(&e->b, OP_eq, index_of(e, square, 0), index_of(e, square, 1));
    const int64_t cols = 1;
    const Val wide = t.rank == 1 ? build_broadcast(&e->b, x, square, 2, &cols) : x;
    const Val y = build3(&e->b, OP_where, on, wide, build_const(&e->b, t.dtype, 0));
    const Reducer sum = t.dtype == DT_bool ? RED_or : RED_add;
    return give(e, t.rank == 1 ? y : build_reduce(&e->b, sum, y, &cols, 1), out);
}

bool builtin_narrow(Elab *e, const Call *c, Value *out)
{
    Val x;
    uint32_t axis;
    Dim start, length;
    if (!arg_tensor(e, c, 0, &x) || !arg_axis(e, c, 1, type_at(e, x)->rank, &axis) ||
        !arg_dim(e, c, 2, &start) || !arg_size(e, c, 3, &length))
        return false;
    const Dim size = type_at(e, x)->shape[axis];
    if (!prove_le(e, c->at, dim_add(e->dims, start, length), size,
                  "narrow must lie inside the axis") ||
        !prove_le(e, c->at, num(e, 0), start, "narrow must begin at 0 or later")) {
        elab_error(
            e, DIAG_bad_index, c->at, "narrow: %s elements from %s on are not in axis %u of %s",
            value_size_str(e, &c->arg[3]), value_size_str(e, &c->arg[2]), axis, type_str(e, x));
        return false;
    }
    return give(e, part_of(e, x, axis, start, length, c->arg[3].how), out);
}

bool builtin_select(Elab *e, const Call *c, Value *out)
{
    Val x;
    uint32_t axis;
    Dim at;
    if (!arg_tensor(e, c, 0, &x) || !arg_axis(e, c, 1, type_at(e, x)->rank, &axis) ||
        !arg_dim(e, c, 2, &at))
        return false;
    const Dim size = type_at(e, x)->shape[axis];
    int64_t k;
    if (dim_is_const(e->dims, at, &k) && k < 0)
        at = dim_add(e->dims, size, at);
    if (!prove_le(e, c->at, num(e, 0), at, "the index must be 0 or more") ||
        !prove_le(e, c->at, dim_add(e->dims, at, num(e, 1)), size,
                  "the index must lie inside the axis")) {
        elab_error(e, DIAG_bad_index, c->at, "select: axis %u of %s has no element %s", axis,
                   type_str(e, x), value_size_str(e, &c->arg[2]));
        return false;
    }
    return give(e, without_axis(e, build_slice_axis(&e->b, x, axis, at, num(e, 1)), axis), out);
}

bool builtin_same(Elab *e, const Call *c, Value *out)
{
    Val x;
    return arg_tensor(e, c, 0, &x) && (*out = c->arg[0], true);
}
