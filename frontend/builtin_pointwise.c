/* builtin_pointwise.c: functions of the prelude that work element by element, and products.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <string.h>

static bool is_int_tensor(Elab *e, const Value *v)
{
    return v->kind == V_tensor && dtype_is_int(value_type(e, v)->dtype);
}

/* Whether the first n arguments are numbers or tensors: said in the user's word for the function.
 */
static bool operands(Elab *e, const Call *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const Value *v = &c->arg[i];
        if (is_number(v) || v->kind == V_tensor || v->kind == V_bool)
            continue;
        if (!is_poison(v))
            elab_error(e, DIAG_bad_type, c->arg_at[i], "%s wants a number or a tensor, not %s",
                       c->row->name, a_kind(v));
        return false;
    }
    return true;
}

bool builtin_unary(Elab *e, const Call *c, Value *out)
{
    const Value *v = &c->arg[0];
    const Op op = (Op)c->row->op;
    if (!operands(e, c, 1))
        return false;
    if ((op == OP_floor || op == OP_ceil || op == OP_round || op == OP_trunc) &&
        is_int_tensor(e, v)) {
        *out = *v; /* whole already */
        return true;
    }
    if ((op == OP_not) && v->kind == V_bool) {
        *out = v_bool(!v->i);
        return true;
    }
    if (op == OP_detach && v->kind == V_tensor) {
        *out = v_tensor(e, build1(&e->b, OP_detach, use_val(e, v)));
        return true;
    }
    return pointwise(e, op, c->at, &v, c->arg_at, 1, false, out);
}

bool builtin_binary(Elab *e, const Call *c, Value *out)
{
    const Op op = (Op)c->row->op;
    static const struct {
        Op op;
        AstOp ast;
    } operators[] = {{OP_add, AST_add}, {OP_sub, AST_sub}, {OP_mul, AST_mul},
                     {OP_div, AST_div}, {OP_pow, AST_pow}, {OP_floordiv, AST_floordiv},
                     {OP_mod, AST_mod}, {OP_eq, AST_eq},   {OP_ne, AST_ne},
                     {OP_lt, AST_lt},   {OP_le, AST_le},   {OP_gt, AST_gt},
                     {OP_ge, AST_ge}};
    for (size_t i = 0; i < ARRAY_LEN(operators); i++)
        if (operators[i].op == op)
            return binary_op(e, operators[i].ast, c->at, &c->arg[0], c->arg_at[0], &c->arg[1],
                             c->arg_at[1], out);
    const Value *in[] = {&c->arg[0], &c->arg[1]};
    return operands(e, c, 2) && pointwise(e, op, c->at, in, c->arg_at, 2, false, out);
}

bool builtin_where(Elab *e, const Call *c, Value *out)
{
    const Value *cond = &c->arg[0];
    if (cond->kind == V_bool) { /* known now: still the broadcast of all three */
        Value other;
        const Value *in[] = {cond, &c->arg[1], &c->arg[2]};
        if (in[1]->kind != V_tensor && in[2]->kind != V_tensor) {
            *out = cond->i ? c->arg[1] : c->arg[2];
            return true;
        }
        return pointwise(e, OP_where, c->at, in, c->arg_at, 3, false, &other) &&
               (*out = other, true);
    }
    if (cond->kind == V_tensor && value_type(e, cond)->dtype != DT_bool) {
        elab_error(e, DIAG_dtype_mismatch, c->arg_at[0], "the condition of where is bool, not %s",
                   dtype_name(value_type(e, cond)->dtype));
        return false;
    }
    const Value *in[] = {cond, &c->arg[1], &c->arg[2]};
    return pointwise(e, OP_where, c->at, in, c->arg_at, 3, false, out);
}

bool builtin_masked_fill(Elab *e, const Call *c, Value *out)
{
    const Value *x = &c->arg[0];
    Val v;
    if (!arg_tensor(e, c, 0, &v))
        return false;
    const Value *value = &c->arg[2];
    if (!is_number(value) && value->kind != V_tensor && value->kind != V_bool) {
        if (!is_poison(value))
            elab_error(e, DIAG_bad_type, c->arg_at[2],
                       "masked_fill fills with a number or a 0-d tensor, not %s", a_kind(value));
        return false;
    }
    const Value fill = v_tensor(e, val_as(e, value, type_at(e, v)->dtype));
    if (c->arg[1].kind != V_tensor || value_type(e, &c->arg[1])->dtype != DT_bool) {
        elab_error(e, DIAG_dtype_mismatch, c->arg_at[1],
                   "the mask of masked_fill is a bool tensor");
        return false;
    }
    const Value *in[] = {&c->arg[1], &fill, x};
    const Span at[] = {c->arg_at[1], c->arg_at[2], c->arg_at[0]};
    return pointwise(e, OP_where, c->at, in, at, 3, false, out);
}

/* Bounds that are not given are the ends of the type: min and max keep NaN. */
bool builtin_clamp(Elab *e, const Call *c, Value *out)
{
    const bool lo = arg_given(c, 1), hi = arg_given(c, 2);
    if (!lo && !hi) {
        elab_error(e, DIAG_bad_call, c->at, "%s needs a bound: min, max or both", c->row->name);
        return false;
    }
    if (!operands(e, c, 1))
        return false;
    if (lo && hi) {
        const Value *in[] = {&c->arg[0], &c->arg[1], &c->arg[2]};
        return pointwise(e, OP_clamp, c->at, in, c->arg_at, 3, false, out);
    }
    /* one bound: the slope on it is 1, which maximum would halve */
    Value open = v_float(lo ? 1e308 * 10 : -1e308 * 10);
    if (is_int_tensor(e, &c->arg[0]) || c->arg[0].kind == V_int)
        open = v_int(lo ? INT64_MAX : INT64_MIN);
    if (is_int_tensor(e, &c->arg[0]) && value_type(e, &c->arg[0])->dtype != DT_i64) {
        const Value *in[] = {&c->arg[0], lo ? &c->arg[1] : &c->arg[2]};
        const Span at[] = {c->arg_at[0], c->arg_at[lo ? 1 : 2]};
        return pointwise(e, lo ? OP_max : OP_min, c->at, in, at, 2, false, out);
    }
    const Value *in[] = {&c->arg[0], lo ? &c->arg[1] : &open, lo ? &open : &c->arg[2]};
    const Span at[] = {c->arg_at[0], c->arg_at[lo ? 1 : 2], c->arg_at[lo ? 1 : 2]};
    return pointwise(e, OP_clamp, c->at, in, at, 3, false, out);
}

/* ---- products ---- */

bool builtin_matmul(Elab *e, const Call *c, Value *out)
{
    Val x, y, z;
    if (!arg_tensor(e, c, 0, &x) || !arg_tensor(e, c, 1, &y) ||
        !matmul(e, c->at, c->arg_at[0], c->arg_at[1], x, y, &z))
        return false;
    return give(e, z, out);
}

static bool vectors(Elab *e, const Call *c, Val *x, Val *y)
{
    if (!arg_tensor(e, c, 0, x) || !arg_tensor(e, c, 1, y))
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const Val v = i ? *y : *x;
        if (type_at(e, v)->rank != 1) {
            elab_error(e, DIAG_shape_mismatch, c->arg_at[i], "%s wants vectors, not %s",
                       c->row->name, type_str(e, v));
            return false;
        }
    }
    const Value *in[] = {&c->arg[0], &c->arg[1]};
    const DType t = promote_values(e, in, 2);
    if (t == DT_bool) {
        elab_error(e, DIAG_dtype_mismatch, c->at, "%s is of numbers, not of bools: write .to(f32)",
                   c->row->name);
        return false;
    }
    *x = build_cast(&e->b, *x, t);
    *y = build_cast(&e->b, *y, t);
    return true;
}

bool builtin_dot(Elab *e, const Call *c, Value *out)
{
    Val x, y;
    if (!vectors(e, c, &x, &y))
        return false;
    const Dim a = type_at(e, x)->shape[0], b = type_at(e, y)->shape[0];
    if (!prove_equal(e, c->at, a, b)) {
        const SizePair pair = {NULL, written_shape(e, x).how[0], written_shape(e, y).how[0], a, b};
        sizes_error(e, DIAG_sizes_differ, c->at, &pair, "dot of vectors of %s and %s elements",
                    size_str(e, pair.a_how, a), size_str(e, pair.b_how, b));
        return false;
    }
    const int64_t axis = 0;
    const Val z = build2(&e->b, OP_mul, x, y);
    *out = v_tensor(e, build_reduce(&e->b, RED_add, z, &axis, 1));
    return true;
}

bool builtin_outer(Elab *e, const Call *c, Value *out)
{
    Val x, y;
    if (!vectors(e, c, &x, &y))
        return false;
    const Dim shape[] = {type_at(e, x)->shape[0], type_at(e, y)->shape[0]};
    const int64_t rows = 0, cols = 1;
    x = build_broadcast(&e->b, x, shape, 2, &rows);
    y = build_broadcast(&e->b, y, shape, 2, &cols);
    return give(e, build2(&e->b, OP_mul, x, y), out);
}

/* y[.., k] = sum_ij x1[.., i] w[k, i, j] x2[.., j] (+ b[k]) */
bool builtin_bilinear(Elab *e, const Call *c, Value *out)
{
    Val x, y, w, z;
    if (!arg_float_tensor(e, c, 0, &x) || !arg_float_tensor(e, c, 1, &y) ||
        !arg_float_tensor(e, c, 2, &w))
        return false;
    const TypeInfo xt = *type_at(e, x), yt = *type_at(e, y), wt = *type_at(e, w);
    if (wt.rank != 3 || xt.rank < 1 || xt.rank != yt.rank ||
        !prove_equal(e, c->at, xt.shape[xt.rank - 1], wt.shape[1]) ||
        !prove_equal(e, c->at, yt.shape[yt.rank - 1], wt.shape[2])) {
        elab_error(e, DIAG_shape_mismatch, c->at, "bilinear of %s, %s with a weight %s",
                   val_shape_str(e, x), val_shape_str(e, y), val_shape_str(e, w));
        return false;
    }
    const int64_t last = xt.rank - 1, one = 1;
    /* [.., k, j], times x2 over j */
    const Val t = build_dot(&e->b, x, w, NULL, NULL, 0, &last, &one, 1, xt.dtype);
    Dim wide[MAX_RANK];
    int64_t dims[MAX_RANK];
    for (uint32_t i = 0; i + 1 < xt.rank; i++) {
        wide[i] = xt.shape[i];
        dims[i] = i;
    }
    wide[xt.rank - 1] = wt.shape[0];
    wide[xt.rank] = wt.shape[2];
    dims[xt.rank - 1] = xt.rank;
    const Val y2 = build_broadcast(&e->b, y, wide, (uint32_t)xt.rank + 1, dims);
    const int64_t sum = xt.rank;
    z = build_reduce(&e->b, RED_add, build2(&e->b, OP_mul, t, y2), &sum, 1);
    if (!arg_given(c, 3)) {
        *out = v_tensor(e, z);
        return true;
    }
    const Value zv = v_tensor(e, z);
    return binary_op(e, AST_add, c->at, &zv, c->at, &c->arg[3], c->arg_at[3], out);
}

/* ---- einsum ---- */

typedef struct {
    char label[MAX_RANK + 1];
    uint32_t n;
    Val v;
} Labeled;

static int label_at(const Labeled *t, char l)
{
    const char *p = memchr(t->label, l, t->n);
    return p ? (int)(p - t->label) : -1;
}

/* Sums the axes of t whose labels stand neither in `other` nor in `out`. */
static void sum_alone(Elab *e, Labeled *t, const Labeled *other, const char *out)
{
    int64_t axes[MAX_RANK];
    uint32_t n = 0, kept = 0;
    char left[MAX_RANK + 1];
    for (uint32_t i = 0; i < t->n; i++)
        if (!strchr(out, t->label[i]) && (!other || label_at(other, t->label[i]) < 0))
            axes[n++] = i;
        else
            left[kept++] = t->label[i];
    if (!n)
        return;
    t->v = build_reduce(&e->b, RED_add, t->v, axes, n);
    memcpy(t->label, left, kept);
    t->n = kept;
}

static bool einsum_pair(Elab *e, const Call *c, Labeled *x, Labeled *y, const char *rest,
                        Labeled *z)
{
    sum_alone(e, x, y, rest);
    sum_alone(e, y, x, rest);
    int64_t bx[MAX_RANK], by[MAX_RANK], cx[MAX_RANK], cy[MAX_RANK];
    uint32_t nb = 0, nc = 0;
    z->n = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        const int k = label_at(y, x->label[i]);
        if (k < 0)
            continue;
        if (!prove_equal(e, c->at, type_at(e, x->v)->shape[i], type_at(e, y->v)->shape[k])) {
            const Shape p = written_shape(e, x->v), q = written_shape(e, y->v);
            const SizePair pair = {NULL, p.how[i], q.how[k], p.at[i], q.at[k]};
            sizes_error(e, DIAG_sizes_differ, c->at, &pair, "einsum: '%c' is %s in %s and %s in %s",
                        x->label[i], size_str(e, pair.a_how, pair.a), shape_str(e, &p),
                        size_str(e, pair.b_how, pair.b), shape_str(e, &q));
            return false;
        }
        if (strchr(rest, x->label[i])) {
            bx[nb] = i;
            by[nb++] = k;
            z->label[z->n++] = x->label[i];
        } else {
            cx[nc] = i;
            cy[nc++] = k;
        }
    }
    uint32_t total = z->n;
    for (uint32_t i = 0; i < x->n; i++)
        total += label_at(y, x->label[i]) < 0;
    for (uint32_t i = 0; i < y->n; i++)
        total += label_at(x, y->label[i]) < 0;
    if (total > MAX_RANK) {
        elab_error(e, DIAG_shape_mismatch, c->at, "einsum: more than %d axes", MAX_RANK);
        return false;
    }
    for (uint32_t i = 0; i < x->n; i++)
        if (label_at(y, x->label[i]) < 0)
            z->label[z->n++] = x->label[i];
    for (uint32_t i = 0; i < y->n; i++)
        if (label_at(x, y->label[i]) < 0)
            z->label[z->n++] = y->label[i];
    const DType t = dtype_promote(type_at(e, x->v)->dtype, type_at(e, y->v)->dtype);
    z->v = build_dot(&e->b, build_cast(&e->b, x->v, t), build_cast(&e->b, y->v, t), bx, by, nb, cx,
                     cy, nc, t);
    return true;
}

static bool einsum_error(Elab *e, const Call *c, const char *what)
{
    elab_error(e, DIAG_bad_call, c->arg_at[0], "einsum: %s", what);
    return false;
}

/* "bij,bjk->bik" into labels per operand and of the result. */
static bool parse_equation(Elab *e, const Call *c, const char *text, Labeled *in, uint32_t n,
                           char *out)
{
    uint32_t k = 0;
    const char *p = text;
    memset(in, 0, sizeof *in * n);
    for (; *p && !(p[0] == '-' && p[1] == '>'); p++) {
        if (*p == ' ')
            continue;
        if (*p == ',') {
            if (++k >= n)
                return einsum_error(e, c, "more terms than operands");
            continue;
        }
        if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z')))
            return einsum_error(e, c, "axes are single letters, as in \"bij,bjk->bik\"");
        if (in[k].n == MAX_RANK || label_at(&in[k], *p) >= 0)
            return einsum_error(e, c, "a letter stands once in a term");
        in[k].label[in[k].n++] = *p;
    }
    if (k + 1 != n)
        return einsum_error(e, c, "fewer terms than operands");
    uint32_t nout = 0;
    if (*p) {
        for (p += 2; *p; p++) {
            if (*p == ' ')
                continue;
            bool known = false;
            for (uint32_t i = 0; i < n; i++)
                known |= label_at(&in[i], *p) >= 0;
            if (!known || memchr(out, *p, nout) || nout == MAX_RANK)
                return einsum_error(e, c,
                                    arena_printf(e->a, "the result's letter '%c' %s", *p,
                                                 !known                  ? "stands in no term"
                                                 : memchr(out, *p, nout) ? "stands there twice"
                                                                         : "is one axis too many"));
            out[nout++] = *p;
        }
    } else { /* implied: letters that stand once, in alphabetical order */
        for (int l = 'A'; l <= 'z'; l++) {
            int times = 0;
            for (uint32_t i = 0; i < n; i++)
                times += label_at(&in[i], (char)l) >= 0;
            if (times == 1 && nout < MAX_RANK)
                out[nout++] = (char)l;
        }
    }
    out[nout] = 0;
    return true;
}

bool builtin_einsum(Elab *e, const Call *c, Value *out)
{
    const char *text;
    Val *v;
    uint32_t n;
    if (!arg_string(e, c, 0, &text) || !arg_tensors(e, c, 1, &v, &n))
        return false;
    if (!n)
        return einsum_error(e, c, "no operands");
    Labeled *in = arena_array(e->a, Labeled, n);
    char result[MAX_RANK + 1];
    if (!parse_equation(e, c, text, in, n, result))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        in[i].v = v[i];
        if (type_at(e, v[i])->dtype == DT_bool)
            return einsum_error(e, c,
                                "sums of products are of numbers, not of bools: write .to(f32)");
        if (type_at(e, v[i])->rank != in[i].n) {
            elab_error(e, DIAG_shape_mismatch, c->at, "einsum: \"%s\" names %u axes of %s",
                       in[i].label, in[i].n, type_str(e, v[i]));
            return false;
        }
    }
    Labeled z = in[0];
    for (uint32_t i = 1; i < n; i++) {
        StrBuf rest = {.a = e->a}; /* what later operands and the result still need */
        sb_puts(&rest, result);
        for (uint32_t k = i + 1; k < n; k++)
            sb_write(&rest, in[k].label, in[k].n);
        Labeled next = {0};
        if (!einsum_pair(e, c, &z, &in[i], sb_text(&rest), &next))
            return false;
        z = next;
    }
    sum_alone(e, &z, NULL, result);
    int64_t perm[MAX_RANK];
    for (uint32_t i = 0; i < z.n; i++)
        perm[i] = label_at(&z, result[i]);
    return give(e, z.n ? build_transpose(&e->b, z.v, perm) : z.v, out);
}
