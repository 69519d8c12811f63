/* elab_args.c: arguments of builtins as what the function wants.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <string.h>

bool arg_given(const Call *c, uint32_t i)
{
    return i < c->n && c->arg[i].kind != V_unset && c->arg[i].kind != V_none;
}

/* The name of parameter i, for messages. */
static const char *arg_name(Elab *e, const Call *c, uint32_t i)
{
    const char *p = c->row->params;
    for (; i > 0 && p; i--) {
        p = strchr(p, ' ');
        p += p != NULL;
    }
    if (!p)
        return "?";
    if (*p == '*')
        p++;
    return arena_strndup(e->a, p, strcspn(p, " ="));
}

/* f([a, b]) where f(a, b) is meant */
static const Value *inner_list(const Value *v)
{
    return v->list->n == 1 && v->list->at[0].kind == V_list ? &v->list->at[0] : v;
}

static bool wants(Elab *e, const Call *c, uint32_t i, const char *what)
{
    const Value *v = &c->arg[i];
    if (is_poison(v))
        return false;
    if (v->kind == V_size || v->kind == V_late) {
        elab_error(e, DIAG_not_static, c->arg_at[i],
                   "%s: '%s' must be known while compiling: %s, not a number of the run",
                   c->row->name, arg_name(e, c, i), what);
        return false;
    }
    elab_error(e, DIAG_bad_type, c->arg_at[i], "%s: '%s' must be %s, not %s%s", c->row->name,
               arg_name(e, c, i), what, v->kind == V_list ? "the list " : "",
               v->kind == V_list ? value_text(e, inner_list(v)) : a_kind(v));
    return false;
}

bool arg_tensor(Elab *e, const Call *c, uint32_t i, Val *out)
{
    const Value *v = &c->arg[i];
    switch (v->kind) {
    case V_tensor:
        *out = use_val(e, v);
        return true;
    case V_int:
    case V_size:
        *out = val_as(e, v, DT_i64);
        return true;
    case V_float:
        *out = val_as(e, v, e->float_type);
        return true;
    case V_bool:
        *out = val_as(e, v, DT_bool);
        return true;
    case V_late: {
        DType t = value_type(e, v)->dtype;
        *out = val_as(e, v, t == DT_f64 ? e->float_type : t);
        return true;
    }
    default:
        return wants(e, c, i, "a tensor");
    }
}

bool arg_float_tensor(Elab *e, const Call *c, uint32_t i, Val *out)
{
    if (!arg_tensor(e, c, i, out))
        return false;
    if (!dtype_is_float(type_at(e, *out)->dtype))
        *out = build_cast(&e->b, *out, e->float_type);
    return true;
}

bool arg_bool(Elab *e, const Call *c, uint32_t i, bool *out)
{
    if (c->arg[i].kind != V_bool)
        return wants(e, c, i, "true or false");
    *out = c->arg[i].i != 0;
    return true;
}

bool arg_int(Elab *e, const Call *c, uint32_t i, int64_t *out)
{
    if (c->arg[i].kind != V_int)
        return wants(e, c, i, "an int");
    *out = c->arg[i].i;
    return true;
}

bool arg_float(Elab *e, const Call *c, uint32_t i, double *out)
{
    if (!is_static_number(&c->arg[i]))
        return wants(e, c, i, "a number");
    *out = static_number(&c->arg[i]);
    return true;
}

bool arg_string(Elab *e, const Call *c, uint32_t i, const char **out)
{
    if (c->arg[i].kind != V_string)
        return wants(e, c, i, "a string");
    *out = c->arg[i].s;
    return true;
}

bool arg_dtype(Elab *e, const Call *c, uint32_t i, DType fallback, DType *out)
{
    *out = fallback;
    if (!arg_given(c, i))
        return true;
    if (c->arg[i].kind != V_dtype)
        return wants(e, c, i, "a dtype");
    *out = c->arg[i].dtype;
    return true;
}

bool arg_dim(Elab *e, const Call *c, uint32_t i, Dim *out)
{
    if (!value_dim(e, &c->arg[i], out))
        return wants(e, c, i, "an int or a size");
    const Shape s = {.rank = 1, .at = {*out}, .how = {c->arg[i].how}};
    return check_extent(e, c->arg_at[i], &s);
}

bool arg_size(Elab *e, const Call *c, uint32_t i, Dim *out)
{
    int64_t n;
    if (!arg_dim(e, c, i, out))
        return false;
    if (!dim_is_const(e->dims, *out, &n) || n >= 0)
        return true;
    elab_error(e, DIAG_bad_number, c->arg_at[i], "%s: '%s' cannot be negative", c->row->name,
               arg_name(e, c, i));
    return false;
}

static bool axis_of(Elab *e, const Call *c, Span at, int64_t axis, uint32_t rank, uint32_t *out)
{
    int64_t k = axis < 0 ? axis + rank : axis;
    if (k < 0 || k >= rank) {
        elab_error(e, DIAG_bad_axis, at, "%s: there is no axis %lld in a tensor of %u %s",
                   c->row->name, (long long)axis, rank, rank == 1 ? "axis" : "axes");
        return false;
    }
    *out = (uint32_t)k;
    return true;
}

bool arg_axis(Elab *e, const Call *c, uint32_t i, uint32_t rank, uint32_t *out)
{
    int64_t axis;
    return arg_int(e, c, i, &axis) && axis_of(e, c, c->arg_at[i], axis, rank, out);
}

bool arg_axes(Elab *e, const Call *c, uint32_t i, uint32_t rank, int64_t *axes, uint32_t *n)
{
    *n = 0;
    bool used[MAX_RANK] = {false};
    bool all = !arg_given(c, i);
    if (!all) {
        int64_t given[MAX_RANK];
        uint32_t ngiven = 0;
        if (!arg_ints(e, c, i, given, &ngiven, MAX_RANK))
            return false;
        for (uint32_t k = 0; k < ngiven; k++) {
            uint32_t axis;
            if (!axis_of(e, c, c->arg_at[i], given[k], rank, &axis))
                return false;
            if (used[axis]) {
                elab_error(e, DIAG_bad_axis, c->arg_at[i], "%s: axis %lld is given twice",
                           c->row->name, (long long)given[k]);
                return false;
            }
            used[axis] = true;
        }
        all = ngiven == 0; /* as in PyTorch: an empty list is all axes */
    }
    for (uint32_t k = 0; k < rank; k++)
        if (all || used[k])
            axes[(*n)++] = k;
    return true;
}

bool arg_ints(Elab *e, const Call *c, uint32_t i, int64_t *out, uint32_t *n, uint32_t max)
{
    const Value *v = &c->arg[i];
    if (v->kind == V_list && v->list->n == 1 && v->list->at[0].kind == V_list)
        v = &v->list->at[0];
    if (v->kind == V_int) {
        out[0] = v->i;
        *n = 1;
        return true;
    }
    if (v->kind != V_list)
        return wants(e, c, i, "an int or a list of ints");
    if (v->list->n > max) {
        elab_error(e, DIAG_bad_call, c->arg_at[i], "%s: at most %u axes", c->row->name, max);
        return false;
    }
    for (uint32_t k = 0; k < v->list->n; k++) {
        if (v->list->at[k].kind != V_int)
            return is_poison(&v->list->at[k]) ? false : wants(e, c, i, "a list of ints");
        out[k] = v->list->at[k].i;
    }
    *n = v->list->n;
    return true;
}

bool arg_shape(Elab *e, const Call *c, uint32_t i, Shape *out, bool *minus_one)
{
    const Value *v = &c->arg[i];
    if (v->kind == V_list && v->list->n == 1 && v->list->at[0].kind == V_list)
        v = &v->list->at[0];
    const Value *at = v->kind == V_list ? v->list->at : v;
    uint32_t n = v->kind == V_list ? v->list->n : 1;
    *out = (Shape){0};
    if (minus_one)
        *minus_one = false;
    if (n > MAX_RANK) {
        elab_error(e, DIAG_bad_call, c->arg_at[i], "%s: a tensor has at most %d axes", c->row->name,
                   MAX_RANK);
        return false;
    }
    for (uint32_t k = 0; k < n; k++) {
        if (minus_one && at[k].kind == V_int && at[k].i == -1) {
            if (*minus_one) {
                elab_error(e, DIAG_bad_call, c->arg_at[i], "%s: only one axis may be -1",
                           c->row->name);
                return false;
            }
            *minus_one = true;
            continue;
        }
        if (is_poison(&at[k]))
            return false;
        if (!value_dim(e, &at[k], &out->at[k])) {
            elab_error(e, DIAG_bad_type, c->arg_at[i], "%s: a size must be an int, not %s",
                       c->row->name, a_kind(&at[k]));
            return false;
        }
        if (at[k].kind == V_int && at[k].i < 0) {
            elab_error(e, DIAG_bad_number, c->arg_at[i], "%s: a size cannot be negative",
                       c->row->name);
            return false;
        }
        out->how[k] = at[k].how;
    }
    out->rank = n;
    return check_extent(e, c->arg_at[i], out);
}

bool arg_tensors(Elab *e, const Call *c, uint32_t i, Val **out, uint32_t *n)
{
    Values items = {0};
    if (c->arg[i].kind != V_list && c->arg[i].kind != V_tensor)
        return wants(e, c, i, "a list of tensors");
    const Value *given = &c->arg[i];
    if (given->kind == V_list && given->list->n == 1 && given->list->at[0].kind == V_list)
        given = &given->list->at[0]; /* f([a, b]) where f(a, b) is meant */
    if (!value_items(e, c->arg_at[i], given, &items))
        return false;
    Val *v = arena_array(e->a, Val, items.n);
    for (uint32_t k = 0; k < items.n; k++) {
        if (items.at[k].kind != V_tensor)
            return is_poison(&items.at[k]) ? false : wants(e, c, i, "a list of tensors");
        v[k] = use_val(e, &items.at[k]);
    }
    *out = v;
    *n = items.n;
    return true;
}
