/* builtin_resize.c: interpolate. Each axis by itself: its elements are chosen by index, and
 * weighed.
 *
 *   nearest, x2      reshape(broadcast(reshape x))
 *   linear           (1 - f[o]) * x[i[o]] + f[o] * x[i[o] + 1]
 *
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"
#include "frontend/windows.h"

#include <math.h>
#include <string.h>

typedef enum { NEAREST, EXACT, LINEAR, CUBIC, AREA } Mode;

typedef struct {
    Elab *e;
    const Call *c;
    uint32_t n;
    Images x;
    Mode mode;
    bool corners;
    bool smooth; /* antialias */
    Dim out[MAX_RANK];
    double scale[MAX_RANK]; /* given factors; 0: size over size */
} Resize;

/* --- arguments -------------------------------------------------------------------------------- */

static bool get_mode(Resize *q)
{
    static const struct {
        const char *name;
        Mode mode;
        uint32_t n; /* 0: any number of axes */
    } modes[] = {{"nearest", NEAREST, 0}, {"nearest-exact", EXACT, 0}, {"linear", LINEAR, 1},
                 {"bilinear", LINEAR, 2}, {"trilinear", LINEAR, 3},    {"bicubic", CUBIC, 2},
                 {"area", AREA, 0}};
    Elab *e = q->e;
    const char *mode;
    if (!arg_string(e, q->c, 3, &mode))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        if (strcmp(modes[i].name, mode))
            continue;
        q->mode = modes[i].mode;
        if (!modes[i].n || modes[i].n == q->n)
            return true;
        elab_error(e, DIAG_shape_mismatch, q->c->at,
                   "interpolate with mode \"%s\" wants a tensor of %u axes, not %s", mode,
                   modes[i].n + 2, type_str(e, q->x.val));
        return false;
    }
    elab_error(e, DIAG_bad_call, q->c->arg_at[3],
               "interpolate has no mode \"%s\", but nearest, nearest-exact, linear, bilinear, "
               "trilinear, bicubic and area",
               mode);
    return false;
}

/* Element i of an argument that is one value for all axes, or a list of n. */
static const Value *of_axis(Resize *q, uint32_t arg, uint32_t i)
{
    const Value *v = &q->c->arg[arg];
    if (v->kind != V_list)
        return v;
    if (v->list->n == q->n)
        return &v->list->at[i];
    elab_error(q->e, DIAG_bad_call, q->c->arg_at[arg],
               "interpolate wants one number here, or %u, not %u", q->n, v->list->n);
    return NULL;
}

static bool size_given(Resize *q, uint32_t i)
{
    const Value *v = of_axis(q, 1, i);
    int64_t k;
    if (!v || is_poison(v))
        return false;
    if (value_dim(q->e, v, &q->out[i]) && !(dim_is_const(q->e->dims, q->out[i], &k) && k < 1))
        return true;
    elab_error(q->e, DIAG_bad_number, q->c->arg_at[1], "interpolate: a size is a positive int");
    return false;
}

static bool scale_given(Resize *q, uint32_t i)
{
    Elab *e = q->e;
    const Value *v = of_axis(q, 2, i);
    if (!v || is_poison(v))
        return false;
    if (!is_static_number(v) || !(static_number(v) > 0)) {
        elab_error(e, DIAG_bad_number, q->c->arg_at[2],
                   "interpolate: a factor is a positive number");
        return false;
    }
    const double f = static_number(v);
    const Dim size = q->x.type.shape[2 + i];
    int64_t n;
    q->scale[i] = f;
    if (f == floor(f) && f < INT32_MAX) {
        q->out[i] = dim_mul(e->dims, size, dim_const(e->dims, (int64_t)f));
    } else if (dim_is_const(e->dims, size, &n)) {
        q->out[i] = dim_const(e->dims, (int64_t)floor((double)n * f));
    } else if (1 / f == floor(1 / f)) {
        q->out[i] = dim_floordiv(e->dims, size, dim_const(e->dims, (int64_t)(1 / f)));
    } else {
        elab_error(e, DIAG_not_static, q->c->arg_at[2],
                   "interpolate by %g wants a size known while compiling, not %s", f,
                   dim_str(e, size));
        return false;
    }
    return window_exists(e, q->c, q->out[i], 2 + i);
}

static bool get_sizes(Resize *q)
{
    const bool size = arg_given(q->c, 1), scale = arg_given(q->c, 2);
    if (size == scale) {
        elab_error(q->e, DIAG_bad_call, q->c->at, "interpolate wants either size or scale_factor");
        return false;
    }
    bool again = false;
    if (arg_given(q->c, 5) && !arg_bool(q->e, q->c, 5, &again))
        return false;
    for (uint32_t i = 0; i < q->n; i++) {
        if (size ? !size_given(q, i) : !scale_given(q, i))
            return false;
        if (again)
            q->scale[i] = 0;
    }
    return true;
}

static bool get_flags(Resize *q)
{
    if (arg_given(q->c, 4)) {
        if (!arg_bool(q->e, q->c, 4, &q->corners))
            return false;
        if (q->mode != LINEAR && q->mode != CUBIC) {
            elab_error(q->e, DIAG_bad_call, q->c->arg_at[4],
                       "interpolate: align_corners is for linear, bilinear, trilinear and bicubic");
            return false;
        }
    }
    if (!arg_bool(q->e, q->c, 6, &q->smooth))
        return false;
    if (q->smooth && (q->n != 2 || (q->mode != LINEAR && q->mode != CUBIC))) {
        elab_error(q->e, DIAG_bad_call, q->c->arg_at[6],
                   "interpolate: antialias is for bilinear and bicubic");
        return false;
    }
    return true;
}

/* --- one axis --------------------------------------------------------------------------------- */

typedef struct {
    Resize *q;
    Builder *b;
    DType t; /* of coordinates and weights */
    uint32_t axis;
    Dim in, out;
    TypeInfo of; /* of a vector over the result's axis, or of weights [result's, x's] */
} Along;

static Val number(const Along *a, double v)
{
    return build_full(a->b, a->t, v, a->of.shape, a->of.rank);
}

static Val size_as(const Along *a, Dim d)
{
    int64_t k;
    if (dim_is_const(a->q->e->dims, d, &k))
        return number(a, (double)k);
    return build_broadcast_to(a->b, build_cast(a->b, build_dim(a->b, d), a->t), a->of.shape,
                              a->of.rank);
}

/* How far the source moves for one step of the result. */
static Val step(const Along *a)
{
    const double f = a->q->scale[a->axis - 2];
    DimTable *t = a->q->e->dims;
    if (a->q->corners) {
        const Dim one = dim_const(t, 1);
        const Dim steps = dim_sub(t, a->out, one);
        return dim_is_zero(t, steps)
                   ? number(a, 0)
                   : build2(a->b, OP_div, size_as(a, dim_sub(t, a->in, one)), size_as(a, steps));
    }
    return f > 0 ? number(a, dtype_round(a->t, 1 / f))
                 : build2(a->b, OP_div, size_as(a, a->in), size_as(a, a->out));
}

/* Where each element of the result lies among those of x. */
static Val source(const Along *a)
{
    Builder *b = a->b;
    const Val o = build_cast(b, build_iota(b, a->of.shape, 1, 0), a->t), by = step(a);
    const Mode mode = a->q->mode;
    if (a->q->corners || mode == NEAREST)
        return build2(b, OP_mul, o, by);
    const Val half = number(a, 0.5);
    const Val y = build2(b, OP_mul, build2(b, OP_add, o, half), by);
    if (mode == EXACT)
        return y;
    const Val at = build2(b, OP_sub, y, half);
    return mode == LINEAR ? build2(b, OP_max, at, number(a, 0)) : at;
}

/* x at base + shift, kept inside the axis. */
static Val taken(const Along *a, Val x, Val base, int shift)
{
    Builder *b = a->b;
    Val at = build_cast(b, base, DT_i64);
    if (shift) {
        const Val k = build_broadcast_to(b, build_const_int(b, DT_i64, shift), a->of.shape, 1);
        at = build2(b, OP_add, at, k);
    }
    return build_gather(b, x, at, a->axis, 0, GATHER_CLAMP);
}

/* y times a weight for each element of the axis. */
static Val weighed(const Along *a, Val y, Val weight)
{
    const TypeInfo t = *type_at(a->q->e, y);
    const int64_t axis = a->axis;
    return build2(a->b, OP_mul, y, build_broadcast(a->b, weight, t.shape, t.rank, &axis));
}

/* The cubic of torch at a distance: at most 1, or between 1 and 2. */
static Val cubic(const Along *a, double k, Val d, bool near)
{
    Builder *b = a->b;
    const double near_to[] = {k + 2, -(k + 3), 0, 1}, far_to[] = {k, -5 * k, 8 * k, -4 * k};
    const double *c = near ? near_to : far_to;
    Val y = number(a, c[0]);
    for (int i = 1; i < 4; i++) {
        y = build2(b, OP_mul, y, d);
        if (c[i] != 0)
            y = build2(b, OP_add, y, number(a, c[i]));
    }
    return y;
}

static Val resize_cubic(const Along *a, Val x)
{
    Builder *b = a->b;
    const double k = -0.75;
    const Val at = source(a), base = build1(b, OP_floor, at), f = build2(b, OP_sub, at, base);
    const Val one = number(a, 1), rest = build2(b, OP_sub, one, f);
    const Val weight[] = {cubic(a, k, build2(b, OP_add, f, one), false), cubic(a, k, f, true),
                          cubic(a, k, rest, true),
                          cubic(a, k, build2(b, OP_add, rest, one), false)};
    Val sum = {0, 0};
    for (int i = 0; i < 4; i++) {
        const Val part = weighed(a, taken(a, x, base, i - 1), weight[i]);
        sum = sum.node ? build2(b, OP_add, sum, part) : part;
    }
    return sum;
}

static Val resize_linear(const Along *a, Val x)
{
    Builder *b = a->b;
    const Val at = source(a), base = build1(b, OP_floor, at), f = build2(b, OP_sub, at, base);
    const Val near = weighed(a, taken(a, x, base, 0), build2(b, OP_sub, number(a, 1), f));
    return build2(b, OP_add, near, weighed(a, taken(a, x, base, 1), f));
}

/* The weight of a distance, in elements of the narrower side. */
static Val filter(const Along *a, Val d)
{
    Builder *b = a->b;
    const Val one = number(a, 1), zero = number(a, 0);
    if (a->q->mode == LINEAR)
        return build2(b, OP_max, build2(b, OP_sub, one, d), zero);
    const double k = -0.5; /* torch's, with antialias */
    const Val far =
        build3(b, OP_where, build2(b, OP_lt, d, number(a, 2)), cubic(a, k, d, false), zero);
    return build3(b, OP_where, build2(b, OP_lt, d, one), cubic(a, k, d, true), far);
}

/* antialias: a shrinking axis takes a weighed mean of all that an element of the result covers: a
 * product with weights [out, in]. */
static Val resize_smoothly(const Along *one_axis, Val x)
{
    Along whole = *one_axis, *const a = &whole;
    Builder *b = a->b;
    a->of = (TypeInfo){.rank = 2, .shape = {a->out, a->in}};
    const Val half = number(a, 0.5), by = step(a), wide = build2(b, OP_max, by, number(a, 1));
    const Val o = build_cast(b, build_iota(b, a->of.shape, 2, 0), a->t);
    const Val i = build_cast(b, build_iota(b, a->of.shape, 2, 1), a->t);
    const Val reach = build2(b, OP_mul, wide, number(a, a->q->mode == LINEAR ? 1 : 2));
    const Val center = build2(b, OP_mul, by, build2(b, OP_add, o, half));
    const Val from = build2(b, OP_add, build2(b, OP_sub, center, reach), half);
    const Val to = build2(b, OP_add, build2(b, OP_add, center, reach), half);
    const Val lo = build1(b, OP_floor, from), hi = build1(b, OP_floor, to);
    const Val at = build2(b, OP_add, build2(b, OP_sub, i, center), half);
    const Val weight = filter(a, build2(b, OP_div, build1(b, OP_abs, at), wide));
    const Val inside = build2(b, OP_and, build2(b, OP_ge, i, lo), build2(b, OP_lt, i, hi));
    const Val w = build3(b, OP_where, inside, weight, number(a, 0));
    const int64_t along = 1, first = 0, axis = a->axis;
    const Val total = build_reduce(b, RED_add, w, &along, 1);
    const Val share = build2(b, OP_div, w, build_broadcast(b, total, a->of.shape, 2, &first));
    const Val y = build_dot(b, x, share, NULL, NULL, 0, &axis, &along, 1, a->t);
    int64_t perm[MAX_RANK]; /* the new axis came last */
    const uint32_t rank = type_at(a->q->e, y)->rank;
    for (uint32_t k = 0; k < rank; k++)
        perm[k] = k < a->axis ? k : k == a->axis ? rank - 1 : k - 1;
    return build_transpose(b, y, perm);
}

/* out is a multiple of in: each element several times; else by index. */
static Val resize_nearest(const Along *a, Val x)
{
    DimTable *d = a->q->e->dims;
    const Dim times = dim_exact_div(d, a->out, a->in);
    TypeInfo t = *type_at(a->q->e, x);
    int64_t k;
    if (!times.id || !dim_is_const(d, times, &k) || t.rank == MAX_RANK)
        return taken(a, x, build1(a->b, OP_floor, source(a)), 0);
    Dim wide[MAX_RANK];
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        dims[i] = i + (i > a->axis);
        wide[dims[i]] = t.shape[i];
    }
    wide[a->axis + 1] = times;
    x = build_broadcast(a->b, x, wide, t.rank + 1u, dims);
    t.shape[a->axis] = a->out;
    return build_reshape(a->b, x, t.shape, t.rank);
}

static Val resize_axis(Resize *q, Val x, uint32_t i)
{
    const DType t = dtype_compute(q->x.type.dtype);
    const Along a = {.q = q,
                     .b = &q->e->b,
                     .t = dtype_is_float(t) ? t : DT_f32,
                     .axis = 2 + i,
                     .in = q->x.type.shape[2 + i],
                     .out = q->out[i],
                     .of = {.rank = 1, .shape = {q->out[i]}}};
    if (dim_same(a.in, a.out) && q->scale[i] <= 1 && q->mode != CUBIC)
        return x;
    if (q->smooth)
        return resize_smoothly(&a, x);
    if (q->mode == LINEAR)
        return resize_linear(&a, x);
    return q->mode == CUBIC ? resize_cubic(&a, x) : resize_nearest(&a, x);
}

/* Means over parts. */
static bool by_area(const Resize *q, Value *out)
{
    static const char *const names[] = {"adaptive_avg_pool1d", "adaptive_avg_pool2d",
                                        "adaptive_avg_pool3d"};
    Value size[MAX_RANK];
    for (uint32_t i = 0; i < q->n; i++)
        size[i] = v_dim(q->e, q->out[i]);
    const Value arg[] = {q->c->arg[0], v_list(q->e, size, q->n)};
    const Span at[] = {q->c->arg_at[0], q->c->at};
    const Call c = {.row = find_builtin(q->e, sym_new(q->e, names[q->n - 1])),
                    .at = q->c->at,
                    .arg = arg,
                    .arg_at = at,
                    .n = 2,
                    .env = q->c->env};
    return builtin_adaptive_avg_pool(q->e, &c, out);
}

bool builtin_interpolate(Elab *e, const Call *c, Value *out)
{
    Resize q = {.e = e, .c = c};
    Val x;
    if (!arg_tensor(e, c, 0, &x))
        return false;
    const uint32_t rank = type_at(e, x)->rank;
    if (rank < 3 || rank > 5) {
        elab_error(e, DIAG_shape_mismatch, c->arg_at[0],
                   "interpolate wants [N, channels, sizes..] with one to three sizes, not %s",
                   type_str(e, x));
        return false;
    }
    q.n = rank - 2;
    q.x.val = x;
    q.x.type = *type_at(e, x);
    if (!get_mode(&q) || !get_flags(&q) || !get_sizes(&q))
        return false;
    for (uint32_t i = 0; i < q.n; i++)
        if (!window_filled(e, c, q.x.type.shape[2 + i], 2 + i))
            return false;
    if (q.mode == AREA)
        return by_area(&q, out);
    const DType t = q.x.type.dtype;
    if (q.mode != NEAREST && q.mode != EXACT) {
        if (!dtype_is_float(t)) {
            elab_error(e, DIAG_dtype_mismatch, c->arg_at[0],
                       "interpolate by weights wants a float tensor, not %s", dtype_name(t));
            return false;
        }
        x = build_cast(&e->b, x, dtype_compute(t));
    }
    for (uint32_t i = q.n; i-- > 0;)
        x = resize_axis(&q, x, i);
    return give(e, build_cast(&e->b, x, t), out);
}
