/* builtin_index.c: choice by index, and its opposite: gather index_select embedding one_hot,
 * scatter index_add index_copy. An index out of range is reported at run time.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <string.h>

static bool int_index(Elab *e, const Call *c, uint32_t i, Val *out)
{
    if (!arg_tensor(e, c, i, out))
        return false;
    if (dtype_is_int(type_at(e, *out)->dtype))
        return true;
    elab_error(e, DIAG_dtype_mismatch, c->arg_at[i], "%s: indices are integers, not %s",
               c->row->name, dtype_name(type_at(e, *out)->dtype));
    return false;
}

/* ---- an axis at another place ---- */

typedef struct {
    int64_t to[MAX_RANK], back[MAX_RANK];
} Perm;

/* The axis goes to the end; all others are a batch. */
static Perm axis_last(uint32_t rank, uint32_t axis)
{
    Perm p;
    for (uint32_t i = 0; i < rank; i++)
        p.to[i] = i + 1 == rank ? axis : i < axis ? i : i + 1;
    for (uint32_t i = 0; i < rank; i++)
        p.back[p.to[i]] = i;
    return p;
}

/* ---- one index for each element ---- */

/* x, its axis and an index that has x's other sizes. */
typedef struct {
    Val x, index;
    TypeInfo t, it;
    uint32_t axis;
    Val shared; /* all others see this vector: the index is one, broadcast; or {0} */
} Along;

/* A vector that is the same at all places but along `axis`. */
static Val shared_index(Elab *e, Val index, uint32_t axis)
{
    const Node *n = graph_node(e->b.g, index);
    if (n->op != OP_broadcast)
        return (Val){0, 0};
    const TypeInfo in = *type_at(e, n->in[0]), t = *type_at(e, index);
    const Attr dims = node_attr(n, ATTR_dims);
    bool along = false;
    for (uint32_t i = 0; i < dims.n; i++) {
        if (dims.at[i] == (int64_t)axis)
            along = dim_same(in.shape[i], t.shape[axis]);
        else if (!dim_is_one(e->dims, in.shape[i]))
            return (Val){0, 0};
    }
    return along ? build_reshape(&e->b, n->in[0], &t.shape[axis], 1) : (Val){0, 0};
}

/* other: sizes that the index must have, but for the axis. Where they are known to be larger, the
 * index takes the first ones, as torch has it. */
static bool fits(Elab *e, const Call *c, const Along *a, Val *other, const char *what)
{
    const TypeInfo t = *type_at(e, *other);
    bool same = t.rank == a->it.rank;
    for (uint32_t i = 0; i < t.rank && same; i++) {
        int64_t have, want;
        if (i == a->axis)
            continue;
        if (dim_is_const(e->dims, t.shape[i], &have) &&
            dim_is_const(e->dims, a->it.shape[i], &want) && want < have)
            *other = build_slice_axis(&e->b, *other, i, dim_const(e->dims, 0), a->it.shape[i]);
        else
            same = prove_equal(e, c->at, t.shape[i], a->it.shape[i]);
    }
    if (!same)
        elab_error(e, DIAG_shape_mismatch, c->at,
                   "%s: the index %s must have the sizes of %s%s, but for axis %u", c->row->name,
                   val_shape_str(e, a->index), what, val_shape_str(e, *other), a->axis);
    return same;
}

static bool along(Elab *e, const Call *c, uint32_t axis_arg, uint32_t index_arg, Along *a)
{
    if (!arg_tensor(e, c, 0, &a->x) || !int_index(e, c, index_arg, &a->index))
        return false;
    a->t = *type_at(e, a->x);
    a->it = *type_at(e, a->index);
    if (!arg_axis(e, c, axis_arg, a->t.rank, &a->axis))
        return false;
    if (a->t.rank == 0) {
        elab_error(e, DIAG_shape_mismatch, c->arg_at[0], "%s: a 0-d tensor has no axis",
                   c->row->name);
        return false;
    }
    a->shared = a->t.rank == a->it.rank ? shared_index(e, a->index, a->axis) : (Val){0, 0};
    return true;
}

static bool gather_along(Elab *e, const Call *c, Along *a, Value *out)
{
    if (!fits(e, c, a, &a->x, ""))
        return false;
    if (a->shared.node && a->t.rank > 1)
        return give(e, build_gather(&e->b, a->x, a->shared, a->axis, 0, GATHER_CHECK), out);
    const uint32_t last = a->t.rank - 1u;
    const Perm p = axis_last(a->t.rank, a->axis);
    const Val x = build_transpose(&e->b, a->x, p.to);
    Val index = build_transpose(&e->b, a->index, p.to), y;
    const TypeInfo rows = *type_at(e, index);
    if (dim_is_one(e->dims, rows.shape[last]) && last) { /* one element a row */
        index = build_reshape(&e->b, index, rows.shape, last);
        y = build_gather(&e->b, x, index, last, last, GATHER_CHECK);
        y = build_reshape(&e->b, y, rows.shape, a->t.rank);
    } else {
        y = build_gather(&e->b, x, index, last, last, GATHER_CHECK);
    }
    return give(e, build_transpose(&e->b, y, p.back), out);
}

bool builtin_gather(Elab *e, const Call *c, Value *out)
{
    Along a;
    return along(e, c, 1, 2, &a) && gather_along(e, c, &a, out);
}

bool builtin_take_along(Elab *e, const Call *c, Value *out)
{
    Along a;
    if (arg_given(c, 2))
        return along(e, c, 2, 1, &a) && gather_along(e, c, &a, out);
    Val x, index;
    if (!arg_tensor(e, c, 0, &x) || !int_index(e, c, 1, &index))
        return false;
    const Dim all = type_numel(e->p, val_type(e->b.g, x));
    x = build_reshape(&e->b, x, &all, 1);
    return give(e, build_gather(&e->b, x, index, 0, 0, GATHER_CHECK), out);
}

/* src, or a number for all. */
static bool updates(Elab *e, const Call *c, uint32_t i, const Along *a, Val *out)
{
    const Value *v = &c->arg[i];
    if (is_poison(v))
        return false;
    if (v->kind != V_tensor || type_at(e, use_val(e, v))->rank == 0) {
        if (!is_number(v) && v->kind != V_tensor && v->kind != V_bool) {
            elab_error(e, DIAG_bad_type, c->arg_at[i], "%s: a tensor or a number, not %s",
                       c->row->name, a_kind(v));
            return false;
        }
        *out = build_broadcast_to(&e->b, val_as(e, v, a->t.dtype), a->it.shape, a->it.rank);
        return true;
    }
    *out = use_val(e, v);
    const TypeInfo u = *type_at(e, *out);
    if (u.dtype != a->t.dtype) {
        elab_error(e, DIAG_dtype_mismatch, c->arg_at[i],
                   "%s: %s goes into a tensor of %s; write .to(%s) first", c->row->name,
                   dtype_name(u.dtype), dtype_name(a->t.dtype), dtype_name(a->t.dtype));
        return false;
    }
    bool same = u.rank == a->it.rank;
    for (uint32_t k = 0; k < u.rank && same; k++)
        same = prove_equal(e, c->at, u.shape[k], a->it.shape[k]);
    if (!same)
        elab_error(e, DIAG_shape_mismatch, c->arg_at[i], "%s: %s, but the index asks for %s",
                   c->row->name, val_shape_str(e, *out),
                   shape_text(e->p, e->a, a->it.shape, a->it.rank));
    return same;
}

static bool may_reduce(Elab *e, const Call *c, DType t, Reducer kind)
{
    if (kind == RED_none || t != DT_bool)
        return true;
    elab_error(e, DIAG_dtype_mismatch, c->arg_at[0], "%s is not for bool", c->row->name);
    return false;
}

static Val scatter_along(Elab *e, const Along *a, Val x, Val upd, Reducer kind)
{
    if (a->shared.node && a->t.rank > 1)
        return build_scatter(&e->b, x, a->shared, upd, a->axis, 0, kind, GATHER_CHECK,
                             index_is_unique(e->p, e->b.g, a->shared, 0));
    const uint32_t last = a->t.rank - 1u;
    const Perm p = axis_last(a->t.rank, a->axis);
    const Val index = build_transpose(&e->b, a->index, p.to);
    const Val y = build_scatter(&e->b, build_transpose(&e->b, x, p.to), index,
                                build_transpose(&e->b, upd, p.to), last, last, kind, GATHER_CHECK,
                                index_is_unique(e->p, e->b.g, index, last));
    return build_transpose(&e->b, y, p.back);
}

bool builtin_scatter(Elab *e, const Call *c, Value *out)
{
    Along a;
    Val upd;
    const Reducer kind = (Reducer)c->row->op;
    if (!along(e, c, 1, 2, &a) || !fits(e, c, &a, &a.x, "") || !updates(e, c, 3, &a, &upd) ||
        !may_reduce(e, c, a.t.dtype, kind))
        return false;
    return give(e, scatter_along(e, &a, a.x, upd, kind), out);
}

static bool kind_of(Elab *e, const Call *c, uint32_t i, bool sums, Reducer *kind, bool *mean)
{
    const char *name;
    if (!arg_string(e, c, i, &name))
        return false;
    *mean = !strcmp(name, "mean");
    if (!strcmp(name, "amax"))
        *kind = RED_max;
    else if (!strcmp(name, "amin"))
        *kind = RED_min;
    else if (sums && (!strcmp(name, "sum") || *mean))
        *kind = RED_add;
    else {
        elab_error(e, DIAG_bad_call, c->arg_at[i], "%s: reduce is %s\"amax\" or \"amin\"",
                   c->row->name, sums ? "\"sum\", \"mean\", " : "");
        return false;
    }
    return true;
}

/* x with what starts a reduction in the places that are written: they do not count themselves. */
static Val without_self(Elab *e, const Along *a, Val x, Reducer kind)
{
    const DType t = a->t.dtype;
    Val first = build_broadcast_to(&e->b, build_const(&e->b, t, 0), a->it.shape, a->it.rank);
    if (kind != RED_add) /* the elements themselves: any of them will do */
        return x;
    return scatter_along(e, a, x, first, RED_none);
}

static bool reduced_along(Elab *e, const Call *c, const Along *a, Val upd, bool sums, Value *out)
{
    Reducer kind;
    bool mean, self;
    if (!kind_of(e, c, 4, sums, &kind, &mean) || !arg_bool(e, c, 5, &self) ||
        !may_reduce(e, c, a->t.dtype, kind))
        return false;
    Val x = a->x;
    if (!self)
        x = kind == RED_add ? without_self(e, a, x, kind) : scatter_along(e, a, x, upd, RED_none);
    Val y = scatter_along(e, a, x, upd, kind);
    if (mean) {
        const TypeInfo t = a->t;
        Val one = build_broadcast_to(&e->b, build_const(&e->b, t.dtype, 1), t.shape, t.rank);
        const Val each =
            build_broadcast_to(&e->b, build_const(&e->b, t.dtype, 1), a->it.shape, a->it.rank);
        if (!self)
            one = without_self(e, a, one, RED_add);
        Val n = scatter_along(e, a, one, each, RED_add);
        n = build2(&e->b, OP_max, n, build_const(&e->b, t.dtype, 1));
        y = build2(&e->b, dtype_is_float(t.dtype) ? OP_div : OP_floordiv, y, n);
    }
    return give(e, y, out);
}

bool builtin_scatter_reduce(Elab *e, const Call *c, Value *out)
{
    Along a;
    Val upd;
    return along(e, c, 1, 2, &a) && fits(e, c, &a, &a.x, "") && updates(e, c, 3, &a, &upd) &&
           reduced_along(e, c, &a, upd, true, out);
}

/* ---- one index for each slice ---- */

static bool vector_index(Elab *e, const Call *c, uint32_t i, Val *index)
{
    if (!int_index(e, c, i, index))
        return false;
    if (type_at(e, *index)->rank == 1)
        return true;
    elab_error(e, DIAG_shape_mismatch, c->arg_at[i], "%s: the index is a vector, not %s",
               c->row->name, type_str(e, *index));
    return false;
}

bool builtin_index_select(Elab *e, const Call *c, Value *out)
{
    Val x, index;
    uint32_t axis;
    if (!arg_tensor(e, c, 0, &x) || !arg_axis(e, c, 1, type_at(e, x)->rank, &axis) ||
        !vector_index(e, c, 2, &index))
        return false;
    return give(e, build_gather(&e->b, x, index, axis, 0, GATHER_CHECK), out);
}

/* x, its axis, the vector as `shared`, and the shape that slices must have as `it`. */
static bool slices(Elab *e, const Call *c, Along *a)
{
    if (!arg_tensor(e, c, 0, &a->x))
        return false;
    a->t = *type_at(e, a->x);
    if (!arg_axis(e, c, 1, a->t.rank, &a->axis) || !vector_index(e, c, 2, &a->shared))
        return false;
    a->it = a->t;
    a->it.shape[a->axis] = type_at(e, a->shared)->shape[0];
    a->index = a->shared;
    return true;
}

static Val put_slices(Elab *e, const Along *a, Val x, Val upd, Reducer kind)
{
    return build_scatter(&e->b, x, a->shared, upd, a->axis, 0, kind, GATHER_CHECK,
                         index_is_unique(e->p, e->b.g, a->shared, 0));
}

bool builtin_index_put(Elab *e, const Call *c, Value *out)
{
    Along a;
    Val upd;
    const Reducer kind = (Reducer)c->row->op;
    if (!slices(e, c, &a) || !updates(e, c, 3, &a, &upd) || !may_reduce(e, c, a.t.dtype, kind))
        return false;
    if (kind == RED_add && arg_given(c, 4)) {
        const Value u = v_tensor(e, upd);
        Value scaled;
        if (!binary_op(e, AST_mul, c->at, &u, c->arg_at[3], &c->arg[4], c->arg_at[4], &scaled))
            return false;
        upd = val_as(e, &scaled, a.t.dtype);
    }
    return give(e, put_slices(e, &a, a.x, upd, kind), out);
}

bool builtin_index_reduce(Elab *e, const Call *c, Value *out)
{
    Along a;
    Val upd;
    Reducer kind;
    bool mean, self;
    if (!slices(e, c, &a) || !updates(e, c, 3, &a, &upd) ||
        !kind_of(e, c, 4, false, &kind, &mean) || !arg_bool(e, c, 5, &self) ||
        !may_reduce(e, c, a.t.dtype, kind))
        return false;
    Val x = self ? a.x : put_slices(e, &a, a.x, upd, RED_none);
    return give(e, put_slices(e, &a, x, upd, kind), out);
}

bool builtin_index_fill(Elab *e, const Call *c, Value *out)
{
    Along a;
    Val upd;
    if (!slices(e, c, &a) || !updates(e, c, 3, &a, &upd))
        return false;
    if (c->arg[3].kind == V_tensor && value_type(e, &c->arg[3])->rank) {
        elab_error(e, DIAG_shape_mismatch, c->arg_at[3], "index_fill: one value, not %s",
                   type_str(e, upd));
        return false;
    }
    return give(e, put_slices(e, &a, a.x, upd, RED_none), out);
}

/* ---- tables ---- */

bool builtin_embedding(Elab *e, const Call *c, Value *out)
{
    Val index, weight;
    if (!int_index(e, c, 0, &index) || !arg_tensor(e, c, 1, &weight))
        return false;
    const TypeInfo t = *type_at(e, weight), it = *type_at(e, index);
    if (t.rank != 2 || it.rank + 1u > MAX_RANK) {
        elab_error(e, DIAG_shape_mismatch, c->arg_at[1], "embedding: the table is a matrix, not %s",
                   type_str(e, weight));
        return false;
    }
    Val y = build_gather(&e->b, weight, index, 0, 0, GATHER_CHECK);
    if (arg_given(c, 2)) { /* that row gets no gradient */
        int64_t row, rows, dims[MAX_RANK];
        if (!arg_int(e, c, 2, &row))
            return false;
        const bool known = dim_is_const(e->dims, t.shape[0], &rows);
        if (known && (row < -rows || row >= rows)) {
            elab_error(e, DIAG_bad_index, c->arg_at[2],
                       "embedding: padding_idx %lld is outside of a table of %lld rows",
                       (long long)row, (long long)rows);
            return false;
        }
        Dim at = dim_const(e->dims, row);
        if (row < 0)
            at = dim_add(e->dims, t.shape[0], at);
        for (uint32_t i = 0; i < it.rank; i++)
            dims[i] = i;
        const TypeInfo yt = *type_at(e, y);
        const Val pad = build_cast(&e->b, build_dim(&e->b, at), it.dtype);
        Val hit = build2(&e->b, OP_eq, index, pad);
        hit = build_broadcast(&e->b, hit, yt.shape, yt.rank, dims);
        y = build3(&e->b, OP_where, hit, build1(&e->b, OP_detach, y), y);
    }
    return give(e, y, out);
}

bool builtin_one_hot(Elab *e, const Call *c, Value *out)
{
    Val index;
    Dim classes;
    if (!int_index(e, c, 0, &index) || !arg_size(e, c, 1, &classes))
        return false;
    TypeInfo t = *type_at(e, index);
    if (t.rank == MAX_RANK) {
        elab_error(e, DIAG_shape_mismatch, c->at, "a tensor has at most %d axes", MAX_RANK);
        return false;
    }
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++)
        dims[i] = i;
    t.shape[t.rank] = classes;
    const Val all = build_cast(&e->b, build_iota(&e->b, &classes, 1, 0), t.dtype);
    const Val checked = build_gather(&e->b, all, index, 0, 0, GATHER_CHECK); /* each is itself */
    const Val wide = build_broadcast(&e->b, checked, t.shape, t.rank + 1u, dims);
    const Val at = build_cast(&e->b, build_iota(&e->b, t.shape, t.rank + 1u, t.rank), t.dtype);
    Shape s = written_shape(e, index);
    s.how[s.rank++] = c->arg[1].how;
    const Val y = build_cast(&e->b, build2(&e->b, OP_eq, at, wide), DT_i64);
    written_set(e, y, s.how, s.rank);
    return give(e, y, out);
}
