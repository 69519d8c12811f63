/* builtin_make.c: new tensors, random ones, conversions.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <string.h>

/* A value of a shape that the user wrote. */
static bool give_shaped(Elab *e, Val v, const Shape *s, Value *out)
{
    written_set(e, v, s->how, s->rank);
    return give(e, v, out);
}

static Dim num(Elab *e, int64_t k)
{
    return dim_const(e->dims, k);
}

/* ---- conversions ---- */

bool builtin_to(Elab *e, const Call *c, Value *out)
{
    const Value *what = &c->arg[1];
    Val x;
    if (is_poison(what) || !arg_tensor(e, c, 0, &x))
        return false;
    switch (what->kind) {
    case V_dtype:
        return give(e, build_cast(&e->b, x, what->dtype), out);
    case V_tensor:
        x = build_cast(&e->b, x, value_type(e, what)->dtype);
        return give(e, build_at_place(&e->b, x, value_type(e, what)->place), out);
    case V_device: {
        Place place;
        if (!place_of(e, c->arg_at[1], what, ".to", &place))
            return false;
        const Val y = build_at_place(&e->b, x, place);
        written_copy(e, e->b.g, x, y);
        return give(e, y, out);
    }
    default:
        elab_error(e, DIAG_bad_type, c->arg_at[1], "to: a dtype, a device or a tensor, not %s",
                   a_kind(what));
        return false;
    }
}

/* ---- a value everywhere ---- */

static bool filled(Elab *e, const Call *c, uint32_t shape_arg, DType t, const Value *v, Value *out)
{
    Shape s;
    return arg_shape(e, c, shape_arg, &s, NULL) &&
           give_shaped(e, build_broadcast_to(&e->b, val_as(e, v, t), s.at, s.rank), &s, out);
}

/* The dtype of a fill value when none is asked for. */
static DType fill_dtype(Elab *e, const Value *v)
{
    if (v->kind == V_tensor)
        return value_type(e, v)->dtype;
    if (v->kind == V_bool)
        return DT_bool;
    return v->kind == V_int || v->kind == V_size ? DT_i64 : e->float_type;
}

static bool fill_ok(Elab *e, const Call *c, uint32_t i)
{
    const Value *v = &c->arg[i];
    if (is_number(v) || v->kind == V_bool || (v->kind == V_tensor && !value_type(e, v)->rank))
        return true;
    if (!is_poison(v))
        elab_error(e, DIAG_bad_type, c->arg_at[i], "%s: the value is a number, not %s",
                   c->row->name, a_kind(v));
    return false;
}

bool builtin_full(Elab *e, const Call *c, Value *out)
{
    DType t;
    const Value v = v_int(c->row->op);
    return arg_dtype(e, c, 1, e->float_type, &t) && filled(e, c, 0, t, &v, out);
}

bool builtin_full_of(Elab *e, const Call *c, Value *out)
{
    DType t;
    return fill_ok(e, c, 1) && arg_dtype(e, c, 2, fill_dtype(e, &c->arg[1]), &t) &&
           filled(e, c, 0, t, &c->arg[1], out);
}

static bool filled_like(Elab *e, const Call *c, const Value *v, uint32_t dtype_arg, Value *out)
{
    Val x;
    DType t;
    if (!arg_tensor(e, c, 0, &x))
        return false;
    if (!arg_dtype(e, c, dtype_arg, type_at(e, x)->dtype, &t))
        return false;
    const Shape s = written_shape(e, x);
    const Val y = build_broadcast_to(&e->b, val_as(e, v, t), s.at, s.rank);
    return give_shaped(e, build_at_place(&e->b, y, type_at(e, x)->place), &s, out);
}

bool builtin_like(Elab *e, const Call *c, Value *out)
{
    const Value v = v_int(c->row->op);
    return filled_like(e, c, &v, 1, out);
}

bool builtin_full_like(Elab *e, const Call *c, Value *out)
{
    return fill_ok(e, c, 1) && filled_like(e, c, &c->arg[1], 2, out);
}

static bool new_filled(Elab *e, const Call *c, const Value *v, uint32_t dtype_arg, Value *out)
{
    Val x;
    DType t;
    if (!arg_tensor(e, c, 0, &x) || !arg_dtype(e, c, dtype_arg, type_at(e, x)->dtype, &t))
        return false;
    const Place outer = e->b.place;
    e->b.place = type_at(e, x)->place;
    const bool ok = filled(e, c, 1, t, v, out);
    e->b.place = outer;
    return ok;
}

bool builtin_new_full(Elab *e, const Call *c, Value *out)
{
    const Value v = v_int(c->row->op);
    return new_filled(e, c, &v, 2, out);
}

bool builtin_new_full_of(Elab *e, const Call *c, Value *out)
{
    return fill_ok(e, c, 2) && new_filled(e, c, &c->arg[2], 3, out);
}

/* ---- patterns ---- */

bool builtin_eye(Elab *e, const Call *c, Value *out)
{
    Shape s = {.rank = 2};
    DType t;
    if (!arg_size(e, c, 0, &s.at[0]) || !arg_dtype(e, c, 2, e->float_type, &t))
        return false;
    s.at[1] = s.at[0];
    if (arg_given(c, 1) && !arg_size(e, c, 1, &s.at[1]))
        return false;
    s.how[0] = c->arg[0].how;
    s.how[1] = arg_given(c, 1) ? c->arg[1].how : s.how[0];
    const Val on =
        build2(&e->b, OP_eq, build_iota(&e->b, s.at, 2, 0), build_iota(&e->b, s.at, 2, 1));
    return give_shaped(e, build_cast(&e->b, on, t), &s, out);
}

/* start + step * i; ints in i64, floats computed in f64. */
static Val progression(Elab *e, const Value *start, const Value *step, Dim n, DType t)
{
    const DType wide = dtype_is_float(t) ? DT_f64 : DT_i64;
    Val v = build_cast(&e->b, build_iota(&e->b, &n, 1, 0), wide);
    v = build2(&e->b, OP_mul, v, val_as(e, step, wide));
    v = build2(&e->b, OP_add, v, val_as(e, start, wide));
    return build_cast(&e->b, v, t);
}

bool builtin_arange(Elab *e, const Call *c, Value *out)
{
    const List *l = c->arg[0].kind == V_list ? c->arg[0].list : NULL;
    if (!l || l->n < 1 || l->n > 3) {
        elab_error(e, DIAG_bad_call, c->at, "arange takes stop, or start and stop, or a step too");
        return false;
    }
    const Value start = l->n > 1 ? l->at[0] : v_int(0), stop = l->at[l->n > 1];
    const Value step = l->n > 2 ? l->at[2] : v_int(1);
    const Value *all[] = {&start, &stop, &step};
    bool floats = false;
    for (int i = 0; i < 3; i++) {
        if (is_poison(all[i]))
            return false;
        if (!is_number(all[i]) || all[i]->kind == V_late) {
            elab_error(e, DIAG_not_static, c->at,
                       "arange: bounds are sizes or numbers known while "
                       "compiling");
            return false;
        }
        floats |= all[i]->kind == V_float;
    }
    DType t;
    if (!arg_dtype(e, c, 1, floats ? e->float_type : DT_i64, &t))
        return false;
    Dim n;
    if (floats) {
        if (!is_static_number(&start) || !is_static_number(&stop) || static_number(&step) == 0) {
            elab_error(e, DIAG_bad_call, c->at,
                       "arange: float bounds are known while compiling, "
                       "and the step is not 0");
            return false;
        }
        const double k = (static_number(&stop) - static_number(&start)) / static_number(&step);
        if (!(k < 1e15)) {
            elab_error(e, DIAG_bad_number, c->at, "arange has too many elements");
            return false;
        }
        n = num(e, k > 0 ? (int64_t)k + ((double)(int64_t)k < k) : 0);
    } else {
        Dim from, to;
        if (step.kind != V_int || step.i == 0) {
            elab_error(e, DIAG_bad_call, c->at, "arange: the step is an int other than 0");
            return false;
        }
        if (!value_dim(e, &start, &from) || !value_dim(e, &stop, &to))
            return false;
        const Dim span = step.i > 0 ? dim_sub(e->dims, to, from) : dim_sub(e->dims, from, to);
        n = dim_ceildiv(e->dims, span, num(e, step.i > 0 ? step.i : -step.i));
        /* as torch's, the bounds are in order; an entry check where they are not known */
        if (!prove_le(e, c->at, num(e, 0), span, "arange: the bounds are in order")) {
            elab_error(e, DIAG_bad_call, c->at,
                       "arange: from %s to %s there is no way with a step of %lld",
                       dim_str(e, from), dim_str(e, to), (long long)step.i);
            return false;
        }
    }
    const Shape s = {.rank = 1, .how = {l->n == 1 && !floats ? stop.how : NULL}};
    return give_shaped(e, progression(e, &start, &step, n, t), &s, out);
}

bool builtin_linspace(Elab *e, const Call *c, Value *out)
{
    double from, to;
    Dim n;
    DType t;
    int64_t k;
    if (!arg_float(e, c, 0, &from) || !arg_float(e, c, 1, &to) || !arg_size(e, c, 2, &n) ||
        !arg_dtype(e, c, 3, e->float_type, &t))
        return false;
    if (dim_is_const(e->dims, n, &k)) {
        const Value start = v_float(from),
                    step = v_float(k > 1 ? (to - from) / (double)(k - 1) : 0);
        return give(e, progression(e, &start, &step, n, t), out);
    }
    Val v = build_cast(&e->b, build_iota(&e->b, &n, 1, 0), DT_f64);
    const Val last = build_dim(&e->b, dim_max(e->dims, num(e, 1), dim_sub(e->dims, n, num(e, 1))));
    v = build2(&e->b, OP_mul, v, build_const(&e->b, DT_f64, to - from));
    v = build2(&e->b, OP_div, v, build_cast(&e->b, last, DT_f64));
    v = build2(&e->b, OP_add, v, build_const(&e->b, DT_f64, from));
    return give(e, build_cast(&e->b, v, t), out);
}

/* ---- random ---- */

static Val draw(Elab *e, const char *name, int kind, const Dim *shape, uint32_t rank, DType t)
{
    const Val key = build_at_place(&e->b, draw_key(e, name), e->b.place);
    return build_cast(&e->b, build_random(&e->b, key, kind, shape, rank), t);
}

static bool float_dtype(Elab *e, const Call *c, uint32_t i, DType fallback, DType *t)
{
    if (!arg_dtype(e, c, i, fallback, t))
        return false;
    if (dtype_is_float(*t))
        return true;
    elab_error(e, DIAG_dtype_mismatch, c->arg_at[i], "%s draws floats, not %s", c->row->name,
               dtype_name(*t));
    return false;
}

bool builtin_rand(Elab *e, const Call *c, Value *out)
{
    Shape s;
    DType t;
    if (!arg_shape(e, c, 0, &s, NULL) || !float_dtype(e, c, 1, e->float_type, &t))
        return false;
    return give_shaped(e, draw(e, c->row->name, c->row->op, s.at, s.rank, t), &s, out);
}

bool builtin_rand_like(Elab *e, const Call *c, Value *out)
{
    Val x;
    DType t;
    if (!arg_tensor(e, c, 0, &x))
        return false;
    const TypeInfo of = *type_at(e, x);
    const DType same = dtype_is_float(of.dtype) ? of.dtype : e->float_type;
    if (!float_dtype(e, c, 1, same, &t))
        return false;
    const Shape s = written_shape(e, x);
    const Place outer = e->b.place;
    e->b.place = of.place;
    const Val drawn = draw(e, c->row->name, c->row->op, of.shape, of.rank, t);
    e->b.place = outer;
    return give_shaped(e, drawn, &s, out);
}

/* low + (31 random bits) % (high - low): exact in integers. */
bool builtin_randint(Elab *e, const Call *c, Value *out)
{
    Shape s;
    int64_t low, high;
    DType t;
    if (!arg_int(e, c, 0, &low) || !arg_int(e, c, 1, &high) || !arg_shape(e, c, 2, &s, NULL) ||
        !arg_dtype(e, c, 3, DT_i64, &t))
        return false;
    if (high <= low || high - low > INT32_MAX) {
        elab_error(e, DIAG_bad_number, c->at,
                   "randint: %lld to %lld is no range of 1 to 2^31-1 "
                   "numbers",
                   (long long)low, (long long)high);
        return false;
    }
    const Val key = build_at_place(&e->b, draw_key(e, "randint"), e->b.place);
    Val v = build_random(&e->b, key, RANDOM_BITS, s.at, s.rank);
    v = build_cast(&e->b, v, DT_i64);
    v = build2(&e->b, OP_and, v, build_const_int(&e->b, DT_i64, INT32_MAX));
    v = build2(&e->b, OP_mod, v, build_const_int(&e->b, DT_i64, high - low));
    v = build2(&e->b, OP_add, v, build_const_int(&e->b, DT_i64, low));
    return give_shaped(e, build_cast(&e->b, v, t), &s, out);
}

bool builtin_bernoulli(Elab *e, const Call *c, Value *out)
{
    Shape s = {0};
    DType t = e->float_type;
    if (c->arg[0].kind == V_tensor) {
        const TypeInfo of = *value_type(e, &c->arg[0]);
        if (!dtype_is_float(of.dtype)) {
            elab_error(e, DIAG_dtype_mismatch, c->arg_at[0], "bernoulli: probabilities are floats");
            return false;
        }
        t = of.dtype;
        s.rank = of.rank;
        memcpy(s.at, of.shape, sizeof s.at);
    }
    if (arg_given(c, 1) && !arg_shape(e, c, 1, &s, NULL))
        return false;
    if (!is_number(&c->arg[0]) && c->arg[0].kind != V_tensor)
        return is_poison(&c->arg[0]) ? false : fill_ok(e, c, 0);
    const Place outer = e->b.place;
    if (c->arg[0].kind == V_tensor)
        e->b.place = value_type(e, &c->arg[0])->place;
    const Value u = v_tensor(e, draw(e, "bernoulli", RANDOM_UNIFORM, s.at, s.rank, t));
    e->b.place = outer;
    Value less;
    if (!binary_op(e, AST_lt, c->at, &u, c->at, &c->arg[0], c->arg_at[0], &less))
        return false;
    return give_shaped(e, build_cast(&e->b, use_val(e, &less), t), &s, out);
}
