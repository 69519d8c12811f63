/* builtin_reduce.c: reductions of the prelude. SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <math.h>
#include <string.h>

/* The reduced value with its axes kept as 1. */
static Val kept(Elab *e, Val y, const TypeInfo *x, const int64_t *axes, uint32_t n, bool keepdim)
{
    if (!keepdim || !n)
        return y;
    Dim shape[MAX_RANK];
    memcpy(shape, x->shape, sizeof shape);
    for (uint32_t i = 0; i < n; i++)
        shape[axes[i]] = dim_const(e->dims, 1);
    return build_reshape(&e->b, y, shape, x->rank);
}

/* The number of elements behind one result, as a scalar of dtype t. */
static Val count(Elab *e, const TypeInfo *x, const int64_t *axes, uint32_t n, DType t)
{
    Dim d = dim_const(e->dims, 1);
    for (uint32_t i = 0; i < n; i++)
        d = dim_mul(e->dims, d, x->shape[axes[i]]);
    int64_t k;
    if (dim_is_const(e->dims, d, &k))
        return build_const(&e->b, t, (double)k);
    return build_cast(&e->b, build_dim(&e->b, d), t);
}

typedef struct {
    Val x;
    TypeInfo type;
    int64_t axes[MAX_RANK];
    uint32_t n;
    bool keepdim;
} Over;

static bool over(Elab *e, const Call *c, uint32_t axis, uint32_t keepdim, Over *o)
{
    if (!arg_tensor(e, c, 0, &o->x))
        return false;
    o->type = *type_at(e, o->x);
    return arg_axes(e, c, axis, o->type.rank, o->axes, &o->n) &&
           arg_bool(e, c, keepdim, &o->keepdim);
}

static void retype(Elab *e, Over *o, DType t)
{
    o->x = build_cast(&e->b, o->x, t);
    o->type.dtype = t;
}

static bool need_float(Elab *e, const Call *c, const Over *o)
{
    if (dtype_is_float(o->type.dtype))
        return true;
    elab_error(e, DIAG_dtype_mismatch, c->arg_at[0],
               "%s wants a float tensor, not %s; write .to(f32) first", c->row->name,
               dtype_name(o->type.dtype));
    return false;
}

/* sum prod any all of a list of static values; false: not such a list. */
static bool of_list(Elab *e, const Call *c, Value *out)
{
    if (c->arg[0].kind != V_list)
        return false;
    const List *l = c->arg[0].list;
    const Reducer r = (Reducer)c->row->op;
    if (r == RED_or || r == RED_and) {
        bool any = false, all = true;
        for (uint32_t i = 0; i < l->n; i++) {
            if (l->at[i].kind != V_bool)
                return false;
            any |= l->at[i].i != 0;
            all &= l->at[i].i != 0;
        }
        *out = v_bool(r == RED_or ? any : all);
        return true;
    }
    if (r != RED_add && r != RED_mul)
        return false;
    *out = v_int(r == RED_mul);
    for (uint32_t i = 0; i < l->n; i++) {
        const Value so_far = *out;
        if (!binary_op(e, r == RED_add ? AST_add : AST_mul, c->at, &so_far, c->at, &l->at[i],
                       c->arg_at[0], out))
            return true; /* reported */
    }
    return true;
}

bool builtin_reduce(Elab *e, const Call *c, Value *out)
{
    if (of_list(e, c, out))
        return !is_poison(out);
    Over o;
    if (!over(e, c, 1, 2, &o))
        return false;
    const Reducer r = (Reducer)c->row->op;
    const DType t = o.type.dtype;
    if ((r == RED_or || r == RED_and) && t != DT_bool) {
        o.x = build2(&e->b, OP_ne, o.x, build_const(&e->b, t, 0));
        o.type.dtype = DT_bool;
    } else if ((r == RED_add || r == RED_mul) && !dtype_is_float(t)) {
        retype(e, &o, DT_i64);
    } else if (r == RED_logsumexp && !dtype_is_float(t)) {
        retype(e, &o, e->float_type);
    } else if ((r == RED_max || r == RED_min) && t == DT_bool) {
        const Val y = build_reduce(&e->b, r == RED_max ? RED_or : RED_and, o.x, o.axes, o.n);
        *out = v_tensor(e, kept(e, y, &o.type, o.axes, o.n, o.keepdim));
        return true;
    }
    const Val y = build_reduce(&e->b, r, o.x, o.axes, o.n);
    *out = v_tensor(e, kept(e, y, &o.type, o.axes, o.n, o.keepdim));
    return true;
}

bool builtin_mean(Elab *e, const Call *c, Value *out)
{
    Over o;
    if (!over(e, c, 1, 2, &o) || !need_float(e, c, &o))
        return false;
    const DType t = o.type.dtype, wide = dtype_compute(t);
    retype(e, &o, wide);
    Val y = build_reduce(&e->b, RED_add, o.x, o.axes, o.n);
    y = build2(&e->b, OP_div, y, count(e, &o.type, o.axes, o.n, wide));
    *out = v_tensor(e, build_cast(&e->b, kept(e, y, &o.type, o.axes, o.n, o.keepdim), t));
    return true;
}

/* None of nothing is the largest, and has an index. */
static bool has_any(Elab *e, const Call *c, const TypeInfo *x, const int64_t *axes, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const int64_t axis = axes[i];
        const char *what =
            arena_printf(e->a, "%s: axis %lld has no elements", c->row->name, (long long)axis);
        if (prove_le(e, c->at, dim_const(e->dims, 1), x->shape[axis], what))
            continue;
        elab_error(e, DIAG_shape_mismatch, c->at, "%s", what);
        return false;
    }
    return true;
}

bool builtin_argmax(Elab *e, const Call *c, Value *out)
{
    Over o;
    if (!over(e, c, 1, 2, &o))
        return false;
    if (arg_given(c, 1) && o.n != 1) {
        elab_error(e, DIAG_bad_axis, c->arg_at[1], "%s takes one axis, or none for all",
                   c->row->name);
        return false;
    }
    if (!has_any(e, c, &o.type, o.axes, o.n))
        return false;
    if (o.type.dtype == DT_bool)
        o.x = build_cast(&e->b, o.x, DT_u8);
    const Val y = build_reduce(&e->b, (Reducer)c->row->op, o.x, o.axes, o.n);
    *out = v_tensor(e, kept(e, val_result(y, 1), &o.type, o.axes, o.n, o.keepdim));
    return true;
}

/* max and min: of numbers, of a list of numbers, or of a tensor. */
static bool extreme_of(Elab *e, const Call *c, const Value *v, uint32_t n, bool max, Value *out)
{
    if (!n) {
        elab_error(e, DIAG_bad_call, c->at, "%s of nothing", c->row->name);
        return false;
    }
    *out = v[0];
    for (uint32_t i = 0; i < n; i++)
        if (v[i].kind == V_tensor && n > 1) {
            elab_error(e, DIAG_bad_call, c->at, "%s of two tensors is written %s(x, y)",
                       c->row->name, max ? "maximum" : "minimum");
            return false;
        }
    for (uint32_t i = 1; i < n; i++) {
        const Value so_far = *out;
        const Value *in[] = {&so_far, &v[i]};
        const Span at[] = {c->at, c->at};
        if (!pointwise(e, max ? OP_max : OP_min, c->at, in, at, 2, false, out))
            return false;
    }
    return true;
}

bool builtin_max(Elab *e, const Call *c, Value *out)
{
    const bool max = c->row->op == RED_argmax;
    const List *more = c->arg[1].kind == V_list ? c->arg[1].list : NULL;
    uint32_t nmore = more ? more->n : 0;
    if (c->arg[0].kind == V_list && !nmore)
        return extreme_of(e, c, c->arg[0].list->at, c->arg[0].list->n, max, out);
    Value axis = c->arg[2];
    if (c->arg[0].kind == V_tensor && nmore == 1 && more->at[0].kind == V_int) {
        axis = more->at[0]; /* max(x, 1): torch's second argument is the axis */
        nmore = 0;
    }
    if (nmore || c->arg[0].kind != V_tensor) {
        Value *all = arena_array(e->a, Value, nmore + 1);
        all[0] = c->arg[0];
        for (uint32_t i = 0; i < nmore; i++)
            all[i + 1] = more->at[i];
        return extreme_of(e, c, all, nmore + 1, max, out);
    }
    const Val x = use_val(e, &c->arg[0]);
    const TypeInfo t = *type_at(e, x);
    bool keepdim;
    if (!arg_bool(e, c, 3, &keepdim))
        return false;
    if (axis.kind == V_unset || axis.kind == V_none) {
        int64_t axes[MAX_RANK];
        const bool bits = t.dtype == DT_bool;
        const Reducer all = max ? (bits ? RED_or : RED_max) : (bits ? RED_and : RED_min);
        for (uint32_t i = 0; i < t.rank; i++)
            axes[i] = i;
        *out = v_tensor(e, build_reduce(&e->b, all, x, axes, t.rank));
        return true;
    }
    Call one = *c;
    one.arg = &axis;
    one.n = 1;
    uint32_t k;
    if (!arg_axis(e, &one, 0, t.rank, &k))
        return false;
    const int64_t at = k;
    if (!has_any(e, c, &t, &at, 1))
        return false;
    const bool bits = t.dtype == DT_bool; /* an order of its own only numbers have */
    Val y =
        build_reduce(&e->b, (Reducer)c->row->op, bits ? build_cast(&e->b, x, DT_u8) : x, &at, 1);
    const Val index = val_result(y, 1);
    y = bits ? build_cast(&e->b, y, DT_bool) : y;
    const Value both[] = {v_tensor(e, kept(e, y, &t, &at, 1, keepdim)),
                          v_tensor(e, kept(e, index, &t, &at, 1, keepdim))};
    static const char *const names[] = {"values", "indices"};
    *out = v_named(e, both, 2, names);
    return true;
}

/* row->op: 0 var, 1 std, 2 var_mean, 3 std_mean. */
bool builtin_var(Elab *e, const Call *c, Value *out)
{
    Over o;
    double correction;
    if (!over(e, c, 1, 3, &o) || !need_float(e, c, &o) || !arg_float(e, c, 2, &correction))
        return false;
    if (arg_given(c, 4)) {
        bool unbiased;
        if (!arg_bool(e, c, 4, &unbiased))
            return false;
        correction = unbiased;
    }
    const DType t = o.type.dtype, wide = dtype_compute(t);
    retype(e, &o, wide);
    const Val m = build_reduce(&e->b, RED_moments, o.x, o.axes, o.n);
    Val v = val_result(m, 1);
    if (correction != 0) {
        const Val n = count(e, &o.type, o.axes, o.n, wide);
        const Val rest = build2(&e->b, OP_sub, n, build_const(&e->b, wide, correction));
        v = build2(&e->b, OP_mul, v, build2(&e->b, OP_div, n, rest));
    }
    if (c->row->op & 1)
        v = build1(&e->b, OP_sqrt, v);
    v = build_cast(&e->b, kept(e, v, &o.type, o.axes, o.n, o.keepdim), t);
    if (c->row->op < 2) {
        *out = v_tensor(e, v);
        return true;
    }
    const Val mean = build_cast(&e->b, kept(e, m, &o.type, o.axes, o.n, o.keepdim), t);
    const Value both[] = {v_tensor(e, v), v_tensor(e, mean)};
    static const char *const names[] = {"var", "mean"};
    *out = v_named(e, both, 2, names);
    return true;
}

bool builtin_norm(Elab *e, const Call *c, Value *out)
{
    Over o;
    double p = 2;
    if (!over(e, c, 2, 3, &o) || !need_float(e, c, &o))
        return false;
    if (c->arg[1].kind == V_string) { /* torch's "fro" is the 2-norm of all elements */
        if (strcmp(c->arg[1].s, "fro")) {
            elab_error(e, DIAG_bad_call, c->arg_at[1], "norm: p is a number or \"fro\"");
            return false;
        }
    } else if (!arg_float(e, c, 1, &p)) {
        return false;
    }
    const DType t = o.type.dtype, wide = dtype_compute(t);
    retype(e, &o, wide);
    Val y;
    Builder *b = &e->b;
    if (p == 2) {
        y = build1(b, OP_sqrt, build_reduce(b, RED_add, build1(b, OP_square, o.x), o.axes, o.n));
    } else if (p == 1) {
        y = build_reduce(b, RED_add, build1(b, OP_abs, o.x), o.axes, o.n);
    } else if (isinf(p)) {
        y = build_reduce(b, p > 0 ? RED_max : RED_min, build1(b, OP_abs, o.x), o.axes, o.n);
    } else if (p == 0) {
        const Val some = build2(b, OP_ne, o.x, build_const(b, wide, 0));
        y = build_reduce(b, RED_add, build_cast(b, some, wide), o.axes, o.n);
    } else {
        const Val z = build2(b, OP_pow, build1(b, OP_abs, o.x), build_const(b, wide, p));
        y = build2(b, OP_pow, build_reduce(b, RED_add, z, o.axes, o.n),
                   build_const(b, wide, 1 / p));
    }
    *out = v_tensor(e, build_cast(b, kept(e, y, &o.type, o.axes, o.n, o.keepdim), t));
    return true;
}
