/* builtin_order.c: elements in order, and prefix reductions: sort argsort topk, cumsum cumprod
 * cummax cummin, linear_scan. SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

static bool tensor_axis(Elab *e, const Call *c, uint32_t axis_arg, Val *x, uint32_t *axis)
{
    if (!arg_tensor(e, c, 0, x))
        return false;
    const uint32_t rank = type_at(e, *x)->rank;
    if (rank == 0) {
        elab_error(e, DIAG_shape_mismatch, c->arg_at[0], "%s: a 0-d tensor has no axis",
                   c->row->name);
        return false;
    }
    return arg_axis(e, c, axis_arg, rank, axis);
}

static bool values_and_indices(Elab *e, Val y, Value *out)
{
    static const char *const names[] = {"values", "indices"};
    const Value both[] = {v_tensor(e, y), v_tensor(e, build_cast(&e->b, val_result(y, 1), DT_i64))};
    *out = v_named(e, both, 2, names);
    return true;
}

/* ---- sorted ---- */

/* row->op: 1 gives the indices only. */
bool builtin_sort(Elab *e, const Call *c, Value *out)
{
    Val x;
    uint32_t axis;
    bool descending, stable;
    if (!tensor_axis(e, c, 1, &x, &axis) || !arg_bool(e, c, 2, &descending) ||
        !arg_bool(e, c, 3, &stable))
        return false;
    const Val y = build_sort(&e->b, x, axis, descending, type_at(e, x)->shape[axis]);
    if (c->row->op)
        return give(e, build_cast(&e->b, val_result(y, 1), DT_i64), out);
    return values_and_indices(e, y, out);
}

bool builtin_topk(Elab *e, const Call *c, Value *out)
{
    Val x;
    uint32_t axis;
    bool largest, sorted;
    Dim k;
    if (!tensor_axis(e, c, 2, &x, &axis) || !arg_size(e, c, 1, &k) ||
        !arg_bool(e, c, 3, &largest) || !arg_bool(e, c, 4, &sorted))
        return false;
    const Dim n = type_at(e, x)->shape[axis];
    const char *what = arena_printf(e->a, "topk: %s of %s elements", dim_str(e, k), dim_str(e, n));
    if (!prove_le(e, c->at, dim_const(e->dims, 0), k, what) || !prove_le(e, c->at, k, n, what)) {
        elab_error(e, DIAG_shape_mismatch, c->arg_at[1],
                   "topk: k is %s, but axis %u has %s elements", dim_str(e, k), axis,
                   dim_str(e, n));
        return false;
    }
    return values_and_indices(e, build_sort(&e->b, x, axis, largest, k), out);
}

/* ---- prefixes ---- */

bool builtin_cumulate(Elab *e, const Call *c, Value *out)
{
    Val x;
    uint32_t axis;
    DType t;
    if (!tensor_axis(e, c, 1, &x, &axis))
        return false;
    const DType from = type_at(e, x)->dtype;
    if (!arg_dtype(e, c, 2, dtype_is_float(from) ? from : DT_i64, &t))
        return false;
    x = build_cast(&e->b, x, t);
    if (t == DT_bool) {
        elab_error(e, DIAG_dtype_mismatch, c->arg_at[2], "%s does not give bools", c->row->name);
        return false;
    }
    return give(e, build_cumulate(&e->b, (Reducer)c->row->op, x, axis, 0), out);
}

bool builtin_cumextreme(Elab *e, const Call *c, Value *out)
{
    Val x;
    uint32_t axis;
    if (!tensor_axis(e, c, 1, &x, &axis))
        return false;
    if (type_at(e, x)->dtype == DT_bool) {
        elab_error(e, DIAG_dtype_mismatch, c->arg_at[0], "%s is not for bool", c->row->name);
        return false;
    }
    return values_and_indices(e, build_cumulate(&e->b, (Reducer)c->row->op, x, axis, 0), out);
}

/* y[t] = a[t] * y[t-1] + b[t] */
bool builtin_linear_scan(Elab *e, const Call *c, Value *out)
{
    Val a, b, init;
    uint32_t axis;
    bool reverse;
    if (!arg_float_tensor(e, c, 0, &a) || !arg_float_tensor(e, c, 1, &b) ||
        !arg_bool(e, c, 4, &reverse))
        return false;
    const Value va = v_tensor(e, a), vb = v_tensor(e, b);
    const Value *both[] = {&va, &vb};
    if (!check_broadcast(e, c->at, both, c->arg_at, 2))
        return false;
    const DType dt = promote_values(e, both, 2);
    Val shape = build2(&e->b, OP_add, val_as(e, &va, dt), val_as(e, &vb, dt));
    const TypeInfo t = *type_at(e, shape);
    if (t.rank == 0) {
        elab_error(e, DIAG_shape_mismatch, c->at, "linear_scan: a 0-d tensor has no axis");
        return false;
    }
    if (!arg_axis(e, c, 3, t.rank, &axis))
        return false;
    a = build_broadcast_to(&e->b, val_as(e, &va, dt), t.shape, t.rank);
    b = build_broadcast_to(&e->b, val_as(e, &vb, dt), t.shape, t.rank);
    TypeInfo outer = t;
    for (uint32_t i = axis; i + 1 < t.rank; i++)
        outer.shape[i] = t.shape[i + 1];
    outer.rank--;
    init = build_const(&e->b, dt, 0);
    if (arg_given(c, 2)) {
        if (!arg_float_tensor(e, c, 2, &init))
            return false;
        const TypeInfo it = *type_at(e, init);
        bool fits = it.rank <= outer.rank;
        for (uint32_t k = 0; k < it.rank && fits; k++)
            fits =
                dim_is_one(e->dims, it.shape[it.rank - 1 - k]) ||
                prove_equal(e, c->at, it.shape[it.rank - 1 - k], outer.shape[outer.rank - 1 - k]);
        if (!fits) {
            elab_error(e, DIAG_shape_mismatch, c->arg_at[2],
                       "linear_scan: init %s does not fit one step of %s", val_shape_str(e, init),
                       val_shape_str(e, shape));
            return false;
        }
        init = build_cast(&e->b, init, dt);
    }
    init = build_broadcast_to(&e->b, init, outer.shape, outer.rank);
    return give(e, build_linear(&e->b, a, b, init, axis, reverse ? CUMULATE_REVERSE : 0), out);
}
