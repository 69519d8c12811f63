/* elab_index.c: subscripts: x[i, a:b, ..., none, idx], read and assigned.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab_subs.h"

#include <string.h>

static void bad_index(Elab *e, Subs *s, Span at, const char *why)
{
    elab_error(e, DIAG_bad_index, at, "%s", why);
    s->ok = false;
}

/* ---- one subscript ---- */

/* A bound as a size; *size is the axis's, with its text. */
static bool bound_dim(Elab *e, const Env *env, const AstExpr *x, const Value *size, Value *out)
{
    if (!x)
        return true;
    Value v = eval(e, env, x);
    if (v.kind == V_none)
        return true;
    if (is_poison(&v))
        return false;
    Dim d, n;
    value_dim(e, size, &n);
    if (!value_dim(e, &v, &d)) {
        elab_error(e, DIAG_bad_index, x->at, "a slice bound must be an int or a size, not %s",
                   a_kind(&v));
        return false;
    }
    *out = v;
    if (v.kind == V_int && v.i < 0) { /* counted from the end */
        Value back = v_int(-v.i);
        back.how = written_negation_of(v.how);
        *out = v_dim(e, dim_add(e->dims, n, d));
        written_op(e, AST_sub, size, &back, out);
        if (out->kind == V_int && out->i < 0)
            *out = v_int(0);
    }
    if (size->kind == V_int && out->kind == V_int && out->i > size->i)
        *out = *size; /* known sizes: as in Python */
    return true;
}

/* stop - start, rounded up to whole steps; its text is known for step 1. */
static void slice_extent(Elab *e, const Value *start, const Value *stop, Sub *sub)
{
    Dim a, b;
    value_dim(e, start, &a);
    value_dim(e, stop, &b);
    Value n = v_dim(e, dim_ceildiv(e->dims, dim_sub(e->dims, b, a), dim_const(e->dims, sub->step)));
    if (sub->step == 1 && start->kind == V_int && start->i == 0)
        n.how = stop->how;
    else if (sub->step == 1)
        written_op(e, AST_sub, stop, start, &n);
    sub->start = a;
    sub->how = n.how;
    value_dim(e, &n, &sub->extent);
}

static void slice_sub(Elab *e, const Env *env, const AstExpr *x, const Value *base, Subs *s,
                      Sub *sub)
{
    const Value size = written_axis(e, base, sub->axis);
    Value start = v_int(0), stop = size;
    sub->kind = SUB_slice;
    sub->step = 1;
    if (x->c) {
        Value step = eval(e, env, x->c);
        if (step.kind != V_int || step.i == 0)
            bad_index(e, s, x->c->at, "the step of a slice must be an int that is not 0");
        else if (step.i < 0)
            bad_index(e, s, x->c->at, "a slice cannot run backwards: use flip");
        else
            sub->step = step.i;
    }
    if (!bound_dim(e, env, x->a, &size, &start) || !bound_dim(e, env, x->b, &size, &stop)) {
        s->ok = false;
        sub->start = dim_const(e->dims, 0);
        value_dim(e, &size, &sub->extent);
        return;
    }
    if (start.kind == V_int && stop.kind == V_int && start.i > stop.i)
        stop = start;
    Dim a, b, n;
    value_dim(e, &start, &a);
    value_dim(e, &stop, &b);
    value_dim(e, &size, &n);
    const char *what = arena_printf(e->a, "the slice %s:%s must lie inside the axis of size %s",
                                    dim_str(e, a), dim_str(e, b), dim_str(e, n));
    if (!prove_le(e, x->at, dim_const(e->dims, 0), a, what) || !prove_le(e, x->at, a, b, what) ||
        !prove_le(e, x->at, b, n, what))
        bad_index(e, s, x->at,
                  arena_printf(e->a, "the slice %s:%s must lie inside the axis of size %s",
                               value_size_str(e, &start), value_size_str(e, &stop),
                               value_size_str(e, &size)));
    slice_extent(e, &start, &stop, sub);
}

static void int_sub(Elab *e, const Value *v, const Value *base, Span at, Subs *s, Sub *sub)
{
    const Dim size = value_type(e, base)->shape[sub->axis];
    sub->kind = SUB_at;
    sub->step = 1;
    sub->extent = dim_const(e->dims, 1);
    value_dim(e, v, &sub->start);
    if (v->kind == V_int && v->i < 0)
        sub->start = dim_add(e->dims, size, sub->start);
    const char *what = arena_printf(e->a, "index %s is outside of an axis of size %s",
                                    value_text(e, v), dim_str(e, size));
    Dim last = dim_add(e->dims, sub->start, dim_const(e->dims, 1));
    if (prove_le(e, at, dim_const(e->dims, 0), sub->start, what) &&
        prove_le(e, at, last, size, what))
        return;
    const Value axis = written_axis(e, base, sub->axis);
    bad_index(e, s, at,
              arena_printf(e->a, "index %s is outside of an axis of size %s", value_size_str(e, v),
                           value_size_str(e, &axis)));
}

static void tensor_sub(Elab *e, Val x, Span at, Dim size, Subs *s, Sub *sub)
{
    const TypeInfo *t = type_at(e, x);
    sub->kind = SUB_gather;
    if (!dtype_is_int(t->dtype)) {
        bad_index(e, s, at,
                  arena_printf(e->a, "an index must be of an integer type, not %s",
                               dtype_name(t->dtype)));
        return;
    }
    Val n = build_cast(&e->b, build_dim(&e->b, size), t->dtype);
    Val wrapped = build2(&e->b, OP_add, x, n);
    Val negative = build2(&e->b, OP_lt, x, build_const(&e->b, t->dtype, 0));
    sub->index = build3(&e->b, OP_where, negative, wrapped, x);
    sub->given = x;
}

/* How many axes of x a subscript takes. */
static uint32_t axes_taken(Elab *e, const Value *v)
{
    if (v->kind == V_none)
        return 0;
    if (v->kind == V_tensor && value_type(e, v)->dtype == DT_bool)
        return value_type(e, v)->rank;
    return 1;
}

static Value list_index(Elab *e, const Value *v)
{
    Values out = {0};
    for (uint32_t i = 0; i < v->list->n; i++)
        vec_push(e->a, &out, v->list->at[i]);
    Val *parts = arena_array(e->a, Val, out.n);
    Dim one = dim_const(e->dims, 1);
    for (uint32_t i = 0; i < out.n; i++) {
        if (out.at[i].kind != V_int)
            return v_poison();
        parts[i] = build_reshape(&e->b, val_as(e, &out.at[i], DT_i64), &one, 1);
    }
    return out.n ? v_tensor(e, build_concat(&e->b, parts, out.n, 0)) : v_poison();
}

static void one_sub(Elab *e, const Env *env, const AstExpr *item, const Value *v, const Value *base,
                    uint32_t axis, Subs *s)
{
    const TypeInfo *t = value_type(e, base);
    Sub *sub = &s->at[s->n++];
    *sub = (Sub){.axis = axis, .at = item->at, .step = 1};
    Dim size = axis < t->rank ? t->shape[axis] : (Dim){0};
    if (item->kind == EX_slice) {
        slice_sub(e, env, item, base, s, sub);
        return;
    }
    Value list;
    switch (v->kind) {
    case V_none:
        sub->kind = SUB_new;
        break;
    case V_int:
    case V_size:
        int_sub(e, v, base, item->at, s, sub);
        break;
    case V_late:
        tensor_sub(e, use_val(e, v), item->at, size, s, sub);
        break;
    case V_tensor:
        if (value_type(e, v)->dtype == DT_bool) {
            sub->kind = SUB_mask;
            sub->index = use_val(e, v);
        } else {
            tensor_sub(e, use_val(e, v), item->at, size, s, sub);
        }
        break;
    case V_list:
        list = list_index(e, v);
        if (!is_poison(&list)) {
            tensor_sub(e, use_val(e, &list), item->at, size, s, sub);
            break;
        } /* fallthrough */
    default:
        if (!is_poison(v))
            bad_index(e, s, item->at,
                      arena_printf(e->a,
                                   "an index must be an int, a slice, none or a tensor of "
                                   "integers, not %s",
                                   a_kind(v)));
        s->ok = false;
    }
}

/* All subscripts of x against a tensor; axes that are not named are whole. */
static void resolve(Elab *e, const Env *env, const AstExpr *x, const Value *base, Subs *s)
{
    const TypeInfo type = *value_type(e, base), *t = &type;
    *s = (Subs){.ok = true};
    Value *v = arena_array(e->a, Value, x->items.n);
    uint32_t taken = 0, ellipses = 0;
    for (uint32_t i = 0; i < x->items.n; i++) {
        const AstExpr *item = x->items.at[i];
        v[i] = v_int(0);
        if (item->kind == EX_ellipsis) {
            ellipses++;
            continue;
        }
        if (item->kind != EX_slice) {
            v[i] = eval(e, env, item);
            s->ok &= !is_poison(&v[i]);
        }
        taken += item->kind == EX_slice ? 1 : axes_taken(e, &v[i]);
    }
    if (!s->ok)
        return;
    if (ellipses > 1)
        bad_index(e, s, x->op_at, "'...' may stand once in an index");
    if (taken > t->rank)
        bad_index(e, s, x->op_at,
                  arena_printf(e->a, "%u subscripts for %s of %u axes", taken,
                               val_shape_str(e, use_val(e, base)), t->rank));
    if (x->items.n > 2 * MAX_RANK)
        bad_index(e, s, x->op_at, "too many subscripts");
    if (!s->ok)
        return;
    uint32_t axis = 0;
    for (uint32_t i = 0; i < x->items.n; i++) {
        const AstExpr *item = x->items.at[i];
        uint32_t whole = item->kind == EX_ellipsis ? t->rank - taken : 0;
        for (uint32_t k = 0; k < whole; k++)
            s->at[s->n++] = (Sub){.kind = SUB_slice,
                                  .axis = axis + k,
                                  .step = 1,
                                  .start = dim_const(e->dims, 0),
                                  .extent = t->shape[axis + k]};
        axis += whole;
        if (item->kind == EX_ellipsis)
            continue;
        one_sub(e, env, item, &v[i], base, axis, s);
        axis += item->kind == EX_slice ? 1 : axes_taken(e, &v[i]);
    }
    for (; axis < t->rank; axis++)
        s->at[s->n++] = (Sub){.kind = SUB_slice,
                              .axis = axis,
                              .step = 1,
                              .start = dim_const(e->dims, 0),
                              .extent = t->shape[axis]};
}

/* ---- reading ---- */

/* The slice of x that the static subscripts name; all its axes are kept. */
static Val sliced(Elab *e, Val x, const Subs *s)
{
    TypeInfo t = *type_at(e, x);
    Dim start[MAX_RANK], extent[MAX_RANK];
    const Written *how[MAX_RANK] = {0};
    int64_t step[MAX_RANK];
    bool whole = true;
    for (uint32_t i = 0; i < t.rank; i++) {
        start[i] = dim_const(e->dims, 0);
        extent[i] = t.shape[i];
        step[i] = 1;
    }
    for (uint32_t i = 0; i < s->n; i++) {
        const Sub *sub = &s->at[i];
        if (sub->kind != SUB_at && sub->kind != SUB_slice)
            continue;
        start[sub->axis] = sub->start;
        extent[sub->axis] = sub->extent;
        step[sub->axis] = sub->step;
        how[sub->axis] = sub->how;
        whole &= dim_same(sub->extent, t.shape[sub->axis]) && sub->step == 1;
    }
    if (whole)
        return x;
    const Val y = build_slice(&e->b, x, start, step, extent);
    written_set(e, y, how, t.rank);
    return y;
}

static bool is_whole_shape(const Dim *a, uint32_t na, const TypeInfo *t)
{
    if (na != t->rank)
        return false;
    for (uint32_t i = 0; i < na; i++)
        if (!dim_same(a[i], t->shape[i]))
            return false;
    return true;
}

/* Index tensors i, j, ... on neighbouring axes of sizes m, n, ... become (i * n + j) on one axis.
 */
static bool merge_indices(Elab *e, const Sub *const *g, uint32_t n, const Dim *sizes, Val *index)
{
    Value sum = v_tensor(e, g[0]->index);
    sum = v_tensor(e, build_cast(&e->b, use_val(e, &sum), DT_i64));
    for (uint32_t k = 1; k < n; k++) {
        Value size = v_tensor(e, build_dim(&e->b, sizes[k]));
        Value next = v_tensor(e, build_cast(&e->b, g[k]->index, DT_i64));
        Value product;
        if (!binary_op(e, AST_mul, g[k]->at, &sum, g[k]->at, &size, g[k]->at, &product) ||
            !binary_op(e, AST_add, g[k]->at, &product, g[0]->at, &next, g[k]->at, &sum))
            return false;
    }
    *index = use_val(e, &sum);
    return true;
}

static bool gather_part(Elab *e, Val x, const Sub *const *g, uint32_t n, uint32_t axis, Val *out)
{
    TypeInfo t = *type_at(e, x);
    Val index = g[0]->index;
    if (n > 1) {
        if (!merge_indices(e, g, n, &t.shape[axis], &index))
            return false;
        Dim shape[MAX_RANK];
        uint32_t rank = 0;
        for (uint32_t i = 0; i < t.rank; i++) {
            if (i > axis && i < axis + n)
                shape[rank - 1] = dim_mul(e->dims, shape[rank - 1], t.shape[i]);
            else
                shape[rank++] = t.shape[i];
        }
        x = build_reshape(&e->b, x, shape, rank);
        t = *type_at(e, x);
    }
    uint32_t rank = t.rank - 1u + type_at(e, index)->rank;
    if (rank > MAX_RANK) {
        elab_error(e, DIAG_bad_index, g[0]->at, "the result has %u axes; at most %d", rank,
                   MAX_RANK);
        return false;
    }
    *out = build_gather(&e->b, x, index, axis, 0, GATHER_CHECK);
    return true;
}

/* The part that all but the tensors choose, with an axis for each of those; *rank 0: too many. */
static Val static_part(Elab *e, Val v, const Subs *s, uint32_t *rank)
{
    Dim shape[3 * MAX_RANK];
    v = sliced(e, v, s);
    const TypeInfo t = *type_at(e, v);
    *rank = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->at[i].kind == SUB_new)
            shape[(*rank)++] = dim_const(e->dims, 1);
        else if (s->at[i].kind != SUB_at)
            shape[(*rank)++] = t.shape[s->at[i].axis];
    }
    if (*rank <= MAX_RANK && !is_whole_shape(shape, *rank, &t))
        v = build_reshape(&e->b, v, shape, *rank);
    return v;
}

Val read_subs(Elab *e, Val x, const Subs *s)
{
    uint32_t rank;
    return static_part(e, x, s, &rank);
}

/* Tensors whose axes are not neighbours: their axes go to the front, as in torch. */
static Val gathered_first(Elab *e, Val v, uint32_t *axes, uint32_t n)
{
    const uint32_t rank = type_at(e, v)->rank;
    int64_t perm[MAX_RANK];
    uint32_t at = 0;
    for (uint32_t k = 0; k < n; k++)
        perm[at++] = axes[k];
    for (uint32_t i = 0; i < rank; i++) {
        bool taken = false;
        for (uint32_t k = 0; k < n; k++)
            taken |= axes[k] == i;
        if (!taken)
            perm[at++] = i;
    }
    for (uint32_t k = 0; k < n; k++)
        axes[k] = k;
    return build_transpose(&e->b, v, perm);
}

static Value read_tensor(Elab *e, const AstExpr *x, const Value *base, const Subs *s)
{
    const Sub *g[3 * MAX_RANK];
    uint32_t axes[3 * MAX_RANK], n = 0, axis = 0, rank;
    bool apart = false;
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->at[i].kind == SUB_mask) {
            elab_error(e, DIAG_bad_index, s->at[i].at,
                       "the size of x[mask] depends on values: use where or masked_fill");
            return v_poison();
        }
        if (s->at[i].kind == SUB_gather) {
            apart |= n && axes[n - 1] + 1 != axis;
            g[n] = &s->at[i];
            axes[n++] = axis;
        }
        axis += s->at[i].kind != SUB_at;
    }
    Val v = static_part(e, use_val(e, base), s, &rank);
    if (rank > MAX_RANK) {
        elab_error(e, DIAG_bad_index, x->op_at, "the result has %u axes; at most %d", rank,
                   MAX_RANK);
        return v_poison();
    }
    if (apart)
        v = gathered_first(e, v, axes, n);
    if (n && !gather_part(e, v, g, n, axes[0], &v))
        return v_poison();
    return v_tensor(e, v);
}

static Value index_list(Elab *e, const Env *env, const AstExpr *x, const Value *base)
{
    if (x->items.n != 1) {
        elab_error(e, DIAG_bad_index, x->op_at, "a list takes one subscript");
        return v_poison();
    }
    const AstExpr *item = x->items.at[0];
    int64_t n = base->list->n;
    if (item->kind == EX_slice) {
        Value b[3] = {v_none(), v_none(), v_none()};
        const AstExpr *parts[3] = {item->a, item->b, item->c};
        for (int k = 0; k < 3; k++) {
            if (parts[k])
                b[k] = eval(e, env, parts[k]);
            if (b[k].kind != V_int && b[k].kind != V_none) {
                if (!is_poison(&b[k]))
                    elab_error(e, DIAG_not_static, parts[k]->at, "a list is sliced by ints");
                return v_poison();
            }
        }
        int64_t step = b[2].kind == V_int ? b[2].i : 1;
        if (step == 0) {
            elab_error(e, DIAG_bad_index, item->at, "the step of a slice cannot be 0");
            return v_poison();
        }
        int64_t lo = step > 0 ? 0 : -1, hi = step > 0 ? n : n - 1;
        int64_t start = step > 0 ? lo : hi, stop = step > 0 ? hi : lo;
        for (int k = 0; k < 2; k++) {
            if (b[k].kind != V_int)
                continue;
            int64_t i = b[k].i < 0 ? b[k].i + n : b[k].i;
            i = i < lo ? lo : i > hi ? hi : i;
            *(k ? &stop : &start) = i;
        }
        Values out = {0};
        for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step)
            vec_push(e->a, &out, base->list->at[i]);
        return v_list(e, out.at, out.n);
    }
    Value i = item->kind == EX_ellipsis ? v_none() : eval(e, env, item);
    if (i.kind != V_int) {
        if (!is_poison(&i))
            elab_error(e, DIAG_not_static, item->at, "a list is indexed by an int, not %s",
                       i.kind == V_size || i.kind == V_late ? "a number of the run" : a_kind(&i));
        return v_poison();
    }
    if (i.i < -n || i.i >= n) {
        elab_error(e, DIAG_bad_index, item->at, "index %lld is outside of a list of %lld elements",
                   (long long)i.i, (long long)n);
        return v_poison();
    }
    return base->list->at[i.i < 0 ? i.i + n : i.i];
}

Value eval_index(Elab *e, const Env *env, const AstExpr *x, const Value *base)
{
    if (is_poison(base))
        return v_poison();
    if (base->kind == V_list)
        return index_list(e, env, x, base);
    if (base->kind != V_tensor) {
        elab_error(e, DIAG_bad_type, x->op_at, "%s cannot be indexed", a_kind(base));
        return v_poison();
    }
    Subs s;
    resolve(e, env, x, base, &s);
    return s.ok ? read_tensor(e, x, base, &s) : v_poison();
}

/* ---- assigning ---- */

/* x with [start, start + extent) of `axis` replaced by `part` of the same rank. */
static Val replace_range(Elab *e, Val x, uint32_t axis, Dim start, Dim extent, Val part)
{
    const TypeInfo *t = type_at(e, x);
    Dim end = dim_add(e->dims, start, extent), rest = dim_sub(e->dims, t->shape[axis], end);
    Val pieces[3];
    uint32_t n = 0;
    if (!dim_is_zero(e->dims, start))
        pieces[n++] = build_slice_axis(&e->b, x, axis, dim_const(e->dims, 0), start);
    pieces[n++] = part;
    if (!dim_is_zero(e->dims, rest))
        pieces[n++] = build_slice_axis(&e->b, x, axis, end, rest);
    return n == 1 ? part : build_concat(&e->b, pieces, n, axis);
}

static Val replace_subs(Elab *e, Val x, const Subs *s, uint32_t k, Val part)
{
    while (k < s->n && s->at[k].kind == SUB_new)
        k++;
    if (k == s->n)
        return part;
    const Sub *sub = &s->at[k];
    const TypeInfo *t = type_at(e, x);
    if (dim_same(sub->extent, t->shape[sub->axis]))
        return replace_subs(e, x, s, k + 1, part);
    Val range = build_slice_axis(&e->b, x, sub->axis, sub->start, sub->extent);
    Val inner = replace_subs(e, range, s, k + 1, part);
    return replace_range(e, x, sub->axis, sub->start, sub->extent, inner);
}

/* The shape of the part, as written. */
static Shape part_shape(Elab *e, const Value *base, const Subs *s)
{
    const Shape all = written_shape(e, use_val(e, base));
    Shape out = {0};
    for (uint32_t i = 0; i < s->n && out.rank < MAX_RANK; i++) {
        const Sub *sub = &s->at[i];
        if (sub->kind == SUB_new)
            out.at[out.rank++] = dim_const(e->dims, 1);
        if (sub->kind != SUB_slice)
            continue;
        out.how[out.rank] =
            dim_same(sub->extent, all.at[sub->axis]) ? all.how[sub->axis] : sub->how;
        out.at[out.rank++] = sub->extent;
    }
    return out;
}

/* The assigned value, broadcast to the part's shape; int axes come back with extent 1. */
static bool part_value(Elab *e, const Value *part, const Value *base, const Subs *s, Span at,
                       Val *out)
{
    const TypeInfo type = *value_type(e, base), *t = &type;
    Dim shape[2 * MAX_RANK], full[MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        const Sub *sub = &s->at[i];
        if (sub->kind == SUB_new)
            shape[rank++] = dim_const(e->dims, 1);
        else if (sub->kind == SUB_slice)
            shape[rank++] = sub->extent;
        if (sub->kind != SUB_new)
            full[sub->axis] = sub->kind == SUB_slice ? sub->extent : dim_const(e->dims, 1);
    }
    Val v = val_as(e, part, t->dtype);
    TypeInfo got = *type_at(e, v);
    bool fits = got.rank <= rank;
    for (uint32_t k = 0; fits && k < got.rank; k++) {
        Dim a = got.shape[got.rank - 1 - k], b = shape[rank - 1 - k];
        fits = dim_is_one(e->dims, a) || prove_equal(e, at, a, b);
    }
    if (!fits) {
        const Shape to = part_shape(e, base, s);
        elab_error(e, DIAG_shape_mismatch, at, "cannot put %s into a part of shape %s",
                   val_shape_str(e, v), shape_str(e, &to));
        return false;
    }
    v = build_broadcast_to(&e->b, v, shape, rank);
    *out = build_reshape(&e->b, v, full, t->rank);
    return true;
}

static Value store_mask(Elab *e, const Value *base, const Sub *sub, const Value *part, Span at)
{
    TypeInfo t = *value_type(e, base), m = *type_at(e, sub->index);
    Dim shape[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        shape[i] = i < m.rank ? m.shape[i] : dim_const(e->dims, 1);
        if (i < m.rank && !prove_equal(e, at, m.shape[i], t.shape[i])) {
            elab_error(e, DIAG_shape_mismatch, sub->at, "a mask of shape %s does not fit %s",
                       val_shape_str(e, sub->index), val_shape_str(e, use_val(e, base)));
            return v_poison();
        }
    }
    Val v = val_as(e, part, t.dtype);
    if (type_at(e, v)->rank) {
        elab_error(e, DIAG_bad_index, at, "x[mask] = v takes a number or a 0-d tensor: use where");
        return v_poison();
    }
    Val mask = build_reshape(&e->b, sub->index, shape, t.rank);
    return v_tensor(e, build3(&e->b, OP_where, mask, v, use_val(e, base)));
}

Value store_index(Elab *e, const Env *env, const AstExpr *x, const Value *base, const Value *part,
                  Span at)
{
    if (is_poison(base) || is_poison(part))
        return v_poison();
    if (base->kind != V_tensor) {
        elab_error(e, DIAG_bad_target, x->op_at,
                   base->kind == V_list ? "a list never changes: build a new one"
                                        : "only parts of a tensor can be assigned");
        return v_poison();
    }
    if (!is_number(part) && part->kind != V_tensor && part->kind != V_bool) {
        elab_error(e, DIAG_bad_type, at, "cannot put %s into a tensor", a_kind(part));
        return v_poison();
    }
    Subs s;
    resolve(e, env, x, base, &s);
    if (!s.ok)
        return v_poison();
    bool places = false;
    for (uint32_t i = 0; i < s.n; i++) {
        const Sub *sub = &s.at[i];
        if (sub->kind == SUB_mask)
            return s.at[0].kind == SUB_mask ? store_mask(e, base, sub, part, at) : v_poison();
        places |= sub->kind == SUB_gather || sub->step != 1;
    }
    if (places) {
        const Span outer = e->b.site.at;
        e->b.site.at = x->op_at;
        const Value y = store_places(e, base, &s, part, x->op_at, at);
        e->b.site.at = outer;
        return y;
    }
    Val same = read_subs(e, use_val(e, base), &s), kept;
    if (part->kind == V_tensor &&
        changed_in_place(e, use_val(e, base), same, use_val(e, part), &kept))
        return v_tensor(e, kept);
    Val v;
    if (!part_value(e, part, base, &s, at, &v))
        return v_poison();
    return v_tensor(e, replace_subs(e, use_val(e, base), &s, 0, v));
}
