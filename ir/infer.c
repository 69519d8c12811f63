/* infer.c: type rules. Each gives the result types of an op, or says in plain words why the
 * operands do not fit. Two sizes are the same when dims_equal proves it; a reshape needs only that
 * the element counts are not known to differ (the entry checks see to the rest).
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/infer_internal.h"
#include "ir/scalar.h"

#include <string.h>

const char *infer_say(Infer *q, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *s = arena_vprintf(q->p->cx->scratch, fmt, ap);
    va_end(ap);
    return s;
}

static const char *show(Infer *q, const TypeInfo *t)
{
    return arena_printf(q->p->cx->scratch, "%s%s", dtype_name(t->dtype),
                        shape_text(q->p, q->p->cx->scratch, t->shape, t->rank));
}

static const char *size(Infer *q, Dim d)
{
    return dim_text(q->dims, q->p->cx->scratch, d);
}

static Attr attr(const Infer *q, AttrName name)
{
    return q->attrs[attr_index(q->op, name)];
}

static int64_t word(const Infer *q, AttrName name)
{
    const Attr a = attr(q, name);
    CHECK(a.n > 0);
    return a.at[0];
}

const char *infer_result(Infer *q, DType t, const Dim *shape, uint32_t rank)
{
    if (q->n == MAX_RESULTS)
        return "there are too many results";
    if (rank > MAX_RANK)
        return infer_say(q, "a tensor may have at most %d axes", MAX_RANK);
    q->types[q->n++] = type_of(q->p, t, shape, rank, q->place);
    return NULL;
}

bool infer_same_size(Infer *q, Dim a, Dim b)
{
    return dim_same(a, b) || dim_equal(q->dims, a, b) == YES;
}

static const char *bad_axes(Infer *q, Attr a, uint32_t rank, bool increasing)
{
    for (uint32_t i = 0; i < a.n; i++) {
        if (a.at[i] < 0 || a.at[i] >= (int64_t)rank)
            return infer_say(q, "there is no axis %lld in %u axes", (long long)a.at[i], rank);
        if (increasing && i && a.at[i] <= a.at[i - 1])
            return "the axes must increase";
        for (uint32_t k = 0; k < i; k++)
            if (a.at[k] == a.at[i])
                return infer_say(q, "axis %lld is given twice", (long long)a.at[i]);
    }
    return NULL;
}

/* --- pointwise -----------------------------------------------------------------------------------
 */

static bool in_domain(Domain d, DType t)
{
    switch (d) {
    case DOM_FLOAT:
        return dtype_is_float(t);
    case DOM_NUMBER:
        return t != DT_bool;
    case DOM_BITS:
        return !dtype_is_float(t);
    case DOM_ANY:
        return true;
    }
    return false;
}

static const char *domain_text(Domain d)
{
    return d == DOM_FLOAT ? "floats" : d == DOM_NUMBER ? "numbers" : "integers and bool";
}

/* Joins the shape of one more operand, aligned at the last axis. */
static const char *broadcast_join(Infer *q, TypeInfo *r, const TypeInfo *x)
{
    Dim shape[MAX_RANK];
    const uint32_t rank = r->rank > x->rank ? r->rank : x->rank;
    for (uint32_t i = rank; i-- > 0;) {
        const int a = (int)i - (int)(rank - r->rank), b = (int)i - (int)(rank - x->rank);
        const bool has_a = a >= 0, has_b = b >= 0;
        const Dim da = has_a ? r->shape[a] : (Dim){0}, db = has_b ? x->shape[b] : (Dim){0};
        if (!has_b || (has_a && (dim_same(da, db) || dim_is_one(q->dims, db))))
            shape[i] = da;
        else if (!has_a || dim_is_one(q->dims, da))
            shape[i] = db;
        else if (infer_same_size(q, da, db))
            shape[i] = da;
        else
            return infer_say(q, "the shapes %s and %s do not broadcast: %s against %s",
                             shape_text(q->p, q->p->cx->scratch, r->shape, r->rank),
                             shape_text(q->p, q->p->cx->scratch, x->shape, x->rank), size(q, da),
                             size(q, db));
    }
    r->rank = (uint8_t)rank;
    memcpy(r->shape, shape, rank * sizeof *shape);
    return NULL;
}

static const char *infer_pointwise(Infer *q)
{
    const OpInfo *info = op_info(q->op);
    const DType t = q->x[q->nin - 1].dtype;
    TypeInfo r = q->x[0];
    for (uint32_t i = 0; i < q->nin; i++) {
        const bool cond = q->op == OP_where && i == 0;
        if (cond && q->x[0].dtype != DT_bool)
            return infer_say(q, "the condition is %s, not bool", dtype_name(q->x[0].dtype));
        if (!cond && q->x[i].dtype != t)
            return infer_say(q, "the dtypes %s and %s differ", dtype_name(q->x[i].dtype),
                             dtype_name(t));
        const char *error = i ? broadcast_join(q, &r, &q->x[i]) : NULL;
        if (error)
            return error;
    }
    if (q->op == OP_extern) {
        static const char *const names[3] = {"a", "b", "c"};
        const char *error, *c = sym_text(q->p->cx->names, (Sym){(uint32_t)word(q, ATTR_text)});
        uint32_t at;
        if (!scalar_parse(q->p->cx->scratch, c, names, q->nin, &error, &at))
            return infer_say(q, "in \"%s\", at character %u: %s", c, at + 1, error);
    }
    const Domain domain = info->pointwise ? info->domain : DOM_FLOAT;
    if (!in_domain(domain, t))
        return infer_say(q, "%s is for %s, not %s", info->name, domain_text(domain), dtype_name(t));
    return infer_result(q, info->pointwise && info->result == RES_BOOL ? DT_bool : t, r.shape,
                        r.rank);
}

/* --- leaves and conversions ----------------------------------------------------------------------
 */

static const char *sizes_of(Infer *q, AttrName name, Dim *shape, uint32_t *rank)
{
    const Attr a = attr(q, name);
    if (a.n > MAX_RANK)
        return infer_say(q, "a tensor may have at most %d axes", MAX_RANK);
    for (uint32_t i = 0; i < a.n; i++) {
        shape[i] = attr_dim(a, i);
        int64_t lo, hi;
        dim_interval(q->dims, shape[i], &lo, &hi);
        if (hi < 0)
            return infer_say(q, "the size %s is negative", size(q, shape[i]));
    }
    *rank = a.n;
    return NULL;
}

static const char *infer_leaf(Infer *q)
{
    Dim shape[MAX_RANK];
    uint32_t rank = 0;
    const char *error;
    switch (q->op) {
    case OP_state: {
        const int64_t slot = word(q, ATTR_slot);
        if (slot < 1 || slot >= (int64_t)q->p->slots.n)
            return infer_say(q, "there is no slot %lld", (long long)slot);
        q->types[q->n++] = q->p->slots.at[slot].type;
        return NULL;
    }
    case OP_table: {
        const int64_t table = word(q, ATTR_table);
        if (table < 0 || table >= (int64_t)q->p->tables.n)
            return infer_say(q, "there is no table %lld", (long long)table);
        TypeInfo t = *type_info(q->p, q->p->tables.at[table].type);
        t.place = q->place;
        q->types[q->n++] = type_make(q->p, t);
        return NULL;
    }
    case OP_const: {
        const int64_t t = word(q, ATTR_dtype);
        return t > DT_none && t < DT_COUNT ? infer_result(q, (DType)t, NULL, 0) : "no such dtype";
    }
    case OP_iota:
        error = sizes_of(q, ATTR_shape, shape, &rank);
        if (!error && (word(q, ATTR_axis) < 0 || word(q, ATTR_axis) >= (int64_t)rank))
            error = "there is no such axis";
        return error ? error : infer_result(q, DT_i32, shape, rank);
    case OP_dim:
        return attr(q, ATTR_shape).n == 1 ? infer_result(q, DT_i64, NULL, 0) : "one size is needed";
    case OP_random: {
        error = sizes_of(q, ATTR_shape, shape, &rank);
        const int64_t mode = word(q, ATTR_mode);
        if (!error && (q->x[0].dtype != DT_u64 || q->x[0].rank))
            error = "the key must be u64[]";
        if (!error && (mode < RANDOM_BITS || mode > RANDOM_NORMAL))
            error = "there is no such distribution";
        return error ? error : infer_result(q, mode == RANDOM_BITS ? DT_i32 : DT_f32, shape, rank);
    }
    case OP_key:
        for (uint32_t i = 0; i < q->nin; i++)
            if (q->x[i].rank || (i < 2 ? q->x[i].dtype != DT_u64 : !dtype_is_int(q->x[i].dtype)))
                return "a key is made of u64[] seed and count and an integer counter";
        return infer_result(q, DT_u64, NULL, 0);
    default:
        die("op %s is made by a function of its own", op_name(q->op));
    }
}

static const char *infer_cast(Infer *q)
{
    const int64_t t = word(q, ATTR_dtype);
    if (t <= DT_none || t >= DT_COUNT)
        return "no such dtype";
    if (q->op == OP_bitcast && dtype_size((DType)t) != dtype_size(q->x[0].dtype))
        return infer_say(q, "%s and %s differ in size", dtype_name(q->x[0].dtype),
                         dtype_name((DType)t));
    return infer_result(q, (DType)t, q->x[0].shape, q->x[0].rank);
}

/* --- views ---------------------------------------------------------------------------------------
 */

static const char *infer_broadcast(Infer *q)
{
    Dim shape[MAX_RANK];
    uint32_t rank;
    const char *error = sizes_of(q, ATTR_shape, shape, &rank);
    const Attr dims = attr(q, ATTR_dims);
    if (!error)
        error = bad_axes(q, dims, rank, true);
    if (!error && dims.n != q->x[0].rank)
        error = "one result axis for each axis of the operand is needed";
    for (uint32_t i = 0; !error && i < dims.n; i++) {
        const Dim d = q->x[0].shape[i], to = shape[dims.at[i]];
        if (!dim_is_one(q->dims, d) && !infer_same_size(q, d, to))
            error = infer_say(q, "an axis of size %s cannot become %s", size(q, d), size(q, to));
    }
    return error ? error : infer_result(q, q->x[0].dtype, shape, rank);
}

static const char *infer_reshape(Infer *q)
{
    Dim shape[MAX_RANK];
    uint32_t rank;
    const char *error = sizes_of(q, ATTR_shape, shape, &rank);
    if (error)
        return error;
    const Dim from = dim_product(q->dims, q->x[0].shape, q->x[0].rank);
    const Dim to = dim_product(q->dims, shape, rank);
    if (!dim_same(from, to) && dim_equal(q->dims, from, to) == NO)
        return infer_say(q, "%s has %s elements, %s has %s", show(q, &q->x[0]), size(q, from),
                         shape_text(q->p, q->p->cx->scratch, shape, rank), size(q, to));
    return infer_result(q, q->x[0].dtype, shape, rank);
}

static const char *infer_transpose(Infer *q)
{
    const Attr perm = attr(q, ATTR_perm);
    const char *error = bad_axes(q, perm, q->x[0].rank, false);
    if (!error && perm.n != q->x[0].rank)
        error = infer_say(q, "%u axes are named for a tensor of %u", perm.n, q->x[0].rank);
    if (error)
        return error;
    Dim shape[MAX_RANK];
    for (uint32_t i = 0; i < perm.n; i++)
        shape[i] = q->x[0].shape[perm.at[i]];
    return infer_result(q, q->x[0].dtype, shape, perm.n);
}

/* Element start + step * (extent - 1) must exist, unless the extent may be 0. */
static const char *slice_axis(Infer *q, Dim n, Dim start, int64_t step, Dim extent)
{
    DimTable *t = q->dims;
    if (step == 0)
        return "the step is 0";
    const Dim zero = dim_const(t, 0), one = dim_const(t, 1);
    const Dim reach = dim_mul(t, dim_const(t, step), dim_sub(t, extent, one));
    const Dim last = dim_add(t, start, reach);
    int64_t lo, hi;
    dim_interval(t, extent, &lo, &hi);
    if (hi < 0)
        return infer_say(q, "the size %s is negative", size(q, extent));
    if (dim_mentions_kind(t, start, SYM_LOOP)) /* there may be no turn */
        return NULL;
    if (lo < 1)
        return dim_le(t, zero, start) == NO ? infer_say(q, "index %s is negative", size(q, start))
                                            : NULL;
    const Dim low = step > 0 ? start : last, high = step > 0 ? last : start;
    if (dim_le(t, zero, low) == NO || dim_le(t, high, dim_sub(t, n, one)) == NO)
        return infer_say(q, "the range %s to %s is not inside an axis of size %s", size(q, low),
                         size(q, high), size(q, n));
    return NULL;
}

static const char *infer_slice(Infer *q)
{
    const Attr start = attr(q, ATTR_start), step = attr(q, ATTR_step);
    Dim extent[MAX_RANK];
    uint32_t rank;
    const char *error = sizes_of(q, ATTR_extent, extent, &rank);
    if (error)
        return error;
    if (start.n != q->x[0].rank || step.n != start.n || rank != start.n)
        return "a range for each axis is needed";
    for (uint32_t i = 0; i < rank; i++) {
        error = slice_axis(q, q->x[0].shape[i], attr_dim(start, i), step.at[i], extent[i]);
        if (error)
            return error;
    }
    return infer_result(q, q->x[0].dtype, extent, rank);
}

static const char *infer_pad(Infer *q)
{
    DimTable *t = q->dims;
    const TypeInfo *x = &q->x[0];
    const Attr lo = attr(q, ATTR_lo), hi = attr(q, ATTR_hi), interior = attr(q, ATTR_interior);
    if (q->x[1].rank || q->x[1].dtype != x->dtype)
        return "the padding must be a scalar of the same dtype";
    if (lo.n != x->rank || hi.n != x->rank || interior.n != x->rank)
        return "a padding for each axis is needed";
    Dim shape[MAX_RANK];
    const Dim zero = dim_const(t, 0), one = dim_const(t, 1);
    for (uint32_t i = 0; i < x->rank; i++) {
        if (interior.at[i] < 0 || dim_le(t, zero, attr_dim(lo, i)) == NO ||
            dim_le(t, zero, attr_dim(hi, i)) == NO)
            return "a padding is negative";
        const Dim gaps = interior.at[i] ? dim_max(t, dim_sub(t, x->shape[i], one), zero) : zero;
        shape[i] = dim_add(t, dim_add(t, attr_dim(lo, i), attr_dim(hi, i)), x->shape[i]);
        shape[i] = dim_add(t, shape[i], dim_mul(t, gaps, dim_const(t, interior.at[i])));
    }
    return infer_result(q, x->dtype, shape, x->rank);
}

static const char *infer_concat(Infer *q)
{
    const int64_t axis = word(q, ATTR_axis);
    TypeInfo r = q->x[0];
    if (axis < 0 || axis >= r.rank)
        return "there is no such axis";
    for (uint32_t k = 1; k < q->nin; k++) {
        const TypeInfo x = *val_info(q->p, q->b->g, q->in[k]);
        if (x.dtype != r.dtype)
            return infer_say(q, "the dtypes %s and %s differ", dtype_name(r.dtype),
                             dtype_name(x.dtype));
        if (x.rank != r.rank)
            return infer_say(q, "%s and %s differ in the number of axes", show(q, &r), show(q, &x));
        for (int64_t i = 0; i < r.rank; i++)
            if (i != axis && !infer_same_size(q, x.shape[i], r.shape[i]))
                return infer_say(q, "%s and %s differ in axis %lld, not only in the joined one",
                                 show(q, &r), show(q, &x), (long long)i);
        r.shape[axis] = dim_add(q->dims, r.shape[axis], x.shape[axis]);
    }
    return infer_result(q, r.dtype, r.shape, r.rank);
}

/* --- reductions, products, choice ----------------------------------------------------------------
 */

bool infer_reducer_takes(Reducer r, DType t)
{
    switch (r) {
    case RED_moments:
    case RED_logsumexp:
        return dtype_is_float(t);
    case RED_or:
    case RED_and:
        return !dtype_is_float(t);
    default:
        return t != DT_bool;
    }
}

static const char *infer_reduce(Infer *q)
{
    const TypeInfo *x = &q->x[0];
    const int64_t kind = word(q, ATTR_kind);
    const Attr axes = attr(q, ATTR_axes);
    if (kind <= RED_none || kind >= RED_COUNT)
        return "there is no such reduction";
    if (!infer_reducer_takes((Reducer)kind, x->dtype))
        return infer_say(q, "the reduction %s is not for %s", reducer_info((Reducer)kind)->name,
                         dtype_name(x->dtype));
    const char *error = bad_axes(q, axes, x->rank, true);
    if (error)
        return error;
    Dim shape[MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0, k = 0; i < x->rank; i++)
        if (k < axes.n && axes.at[k] == (int64_t)i)
            k++;
        else
            shape[rank++] = x->shape[i];
    const DType t = x->dtype;
    error = infer_result(q, t, shape, rank);
    if (!error && reducer_info((Reducer)kind)->nresults == 2)
        error = infer_result(q, kind == RED_moments ? t : DT_i64, shape, rank);
    return error;
}

/* One operand: a prefix reduction. Three: y = a * y' + b from an init of one axis less. */
static const char *infer_cumulate(Infer *q)
{
    const TypeInfo *x = &q->x[0];
    const int64_t axis = word(q, ATTR_axis), kind = word(q, ATTR_kind), mode = word(q, ATTR_mode);
    if (axis < 0 || axis >= x->rank)
        return "there is no such axis";
    const bool both = mode & CUMULATE_FULL && mode & (CUMULATE_BEHIND | CUMULATE_EXCLUSIVE);
    if (mode < 0 || mode > (q->nin == 3 ? 15 : 3) || both)
        return "there is no such mode";
    if (!infer_reducer_takes(RED_add, x->dtype))
        return infer_say(q, "cumulate is not for %s", dtype_name(x->dtype));
    if (q->nin == 2)
        return "a linear recurrence has an init";
    if (q->nin == 3) {
        if (kind != RED_none || !dtype_is_float(x->dtype))
            return "a linear recurrence is of floats and has no reducer";
        if (q->x[1].dtype != x->dtype || q->x[2].dtype != x->dtype || q->x[1].rank != x->rank ||
            q->x[2].rank != x->rank - 1)
            return "the operands of a linear recurrence do not fit";
        for (uint32_t i = 0; i < x->rank; i++) {
            const uint32_t k = i > axis ? i - 1 : i;
            if (!infer_same_size(q, x->shape[i], q->x[1].shape[i]) ||
                (i != axis && !infer_same_size(q, x->shape[i], q->x[2].shape[k])))
                return "the operands of a linear recurrence do not fit";
        }
    } else if (kind != RED_add && kind != RED_mul && kind != RED_max && kind != RED_min &&
               kind != RED_argmax && kind != RED_argmin) {
        return "there is no such prefix reduction";
    }
    const bool index = q->nin == 1 && (kind == RED_argmax || kind == RED_argmin);
    if (q->nin == 1 && kind != RED_add && kind != RED_mul && mode & CUMULATE_EXCLUSIVE)
        return "an extreme of nothing";
    TypeInfo t = *x;
    if (mode & CUMULATE_FULL)
        t.shape[axis] = dim_add(q->dims, t.shape[axis], dim_const(q->dims, 1));
    const char *error = infer_result(q, t.dtype, t.shape, t.rank);
    return error || !index ? error : infer_result(q, DT_i32, t.shape, t.rank);
}

static bool listed(Attr a, uint32_t axis)
{
    for (uint32_t i = 0; i < a.n; i++)
        if (a.at[i] == (int64_t)axis)
            return true;
    return false;
}

static const char *infer_dot(Infer *q)
{
    const TypeInfo *x = &q->x[0], *y = &q->x[1];
    const Attr ba = attr(q, ATTR_batch_a), bb = attr(q, ATTR_batch_b);
    const Attr ca = attr(q, ATTR_contract_a), cb = attr(q, ATTR_contract_b);
    if (x->dtype != y->dtype)
        return infer_say(q, "the dtypes %s and %s differ", dtype_name(x->dtype),
                         dtype_name(y->dtype));
    if (x->dtype == DT_bool)
        return "a product is of numbers, not bool";
    if (ba.n != bb.n || ca.n != cb.n)
        return "axes are paired, so both operands name as many";
    const char *error = bad_axes(q, ba, x->rank, false);
    error = error ? error : bad_axes(q, bb, y->rank, false);
    error = error ? error : bad_axes(q, ca, x->rank, false);
    error = error ? error : bad_axes(q, cb, y->rank, false);
    Dim shape[2 * MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; !error && i < ba.n; i++) {
        const Dim d = x->shape[ba.at[i]], e = y->shape[bb.at[i]];
        if (listed(ca, (uint32_t)ba.at[i]) || listed(cb, (uint32_t)bb.at[i]))
            error = "an axis is both batch and contracted";
        else if (!infer_same_size(q, d, e))
            error = infer_say(q, "the batch sizes %s and %s differ", size(q, d), size(q, e));
        shape[rank++] = d;
    }
    for (uint32_t i = 0; !error && i < ca.n; i++) {
        const Dim d = x->shape[ca.at[i]], e = y->shape[cb.at[i]];
        if (!infer_same_size(q, d, e))
            error = infer_say(q, "the sizes %s and %s of the contracted axes of %s and %s differ",
                              size(q, d), size(q, e), show(q, x), show(q, y));
    }
    for (uint32_t i = 0; i < x->rank; i++)
        if (!listed(ba, i) && !listed(ca, i))
            shape[rank++] = x->shape[i];
    for (uint32_t i = 0; i < y->rank; i++)
        if (!listed(bb, i) && !listed(cb, i))
            shape[rank++] = y->shape[i];
    const int64_t t = word(q, ATTR_dtype);
    if (!error &&
        (t <= DT_none || t >= DT_COUNT || dtype_is_float((DType)t) != dtype_is_float(x->dtype)))
        error = "the dtype of the product does not fit the operands";
    return error ? error : infer_result(q, (DType)t, shape, rank);
}

static const char *infer_gather(Infer *q)
{
    const TypeInfo *x = &q->x[0], *idx = &q->x[1];
    const int64_t axis = word(q, ATTR_axis), batch = word(q, ATTR_batch), mode = word(q, ATTR_mode);
    if (!dtype_is_int(idx->dtype))
        return infer_say(q, "an index is of integers, not %s", dtype_name(idx->dtype));
    if (axis < 0 || axis >= x->rank)
        return "there is no such axis";
    if (batch < 0 || batch > axis || batch > idx->rank)
        return "there are not that many axes in common";
    if (mode < GATHER_CHECK || mode > GATHER_FILL)
        return "there is no such mode";
    Dim shape[2 * MAX_RANK];
    uint32_t rank = 0;
    for (uint32_t i = 0; i < axis; i++) {
        if (i < batch && !infer_same_size(q, x->shape[i], idx->shape[i]))
            return infer_say(q, "the sizes %s and %s of axis %u differ", size(q, x->shape[i]),
                             size(q, idx->shape[i]), i);
        shape[rank++] = x->shape[i];
    }
    for (uint32_t i = (uint32_t)batch; i < idx->rank; i++)
        shape[rank++] = idx->shape[i];
    for (uint32_t i = (uint32_t)axis + 1; i < x->rank; i++)
        shape[rank++] = x->shape[i];
    return infer_result(q, x->dtype, shape, rank);
}

/* --- the rest ------------------------------------------------------------------------------------
 */

static const char *infer_call(Infer *q)
{
    const int64_t graph = word(q, ATTR_graph), results = word(q, ATTR_results);
    if (graph < 0 || graph >= (int64_t)q->p->graphs.n)
        return "there is no such graph";
    const Graph *g = q->p->graphs.at[graph];
    if (g->params.n != q->nin)
        return infer_say(q, "%u operands for %u parameters", q->nin, g->params.n);
    if (g->results.n == 0 || results < 0 || results > (int64_t)g->results.n)
        return "the number of results is wrong";
    for (uint32_t i = 0; i < q->nin; i++) {
        const TypeInfo x = *val_info(q->p, q->b->g, q->in[i]);
        const TypeInfo y = *val_info(q->p, g, g->params.at[i].val);
        bool same = x.dtype == y.dtype && x.rank == y.rank;
        for (uint32_t k = 0; same && k < x.rank; k++)
            same = infer_same_size(q, x.shape[k], y.shape[k]);
        if (!same)
            return infer_say(q, "operand %u is %s, the parameter %s", i, show(q, &x), show(q, &y));
    }
    for (uint32_t i = 0; i < g->results.n; i++) {
        const TypeInfo r = *val_info(q->p, g, g->results.at[i].val);
        q->place = r.place;
        const char *error = infer_result(q, r.dtype, r.shape, r.rank);
        if (error)
            return error;
    }
    return NULL;
}

static const char *infer_effect(Infer *q)
{
    if (q->op == OP_check && q->x[0].dtype != DT_bool)
        return infer_say(q, "a check is of bool, not %s", dtype_name(q->x[0].dtype));
    return infer_result(q, q->x[0].dtype, q->x[0].shape, q->x[0].rank);
}

/* Constants and sizes may be used on any device. */
static const char *find_place(Infer *q)
{
    bool found = false;
    q->place = q->nin ? val_info(q->p, q->b->g, q->in[0])->place : q->b->place;
    for (uint32_t i = 0; i < q->nin; i++) {
        if (graph_node(q->b->g, q->in[i])->loose == LOOSE_CONSTANT)
            continue;
        const Place at = val_info(q->p, q->b->g, q->in[i])->place;
        if (found && at != q->place)
            return "the operands are on different devices";
        q->place = at;
        found = true;
    }
    return NULL;
}

static const char *infer_op(Infer *q)
{
    switch (q->op) {
    case OP_cast:
    case OP_bitcast:
        return infer_cast(q);
    case OP_broadcast:
        return infer_broadcast(q);
    case OP_reshape:
        return infer_reshape(q);
    case OP_transpose:
        return infer_transpose(q);
    case OP_slice:
        return infer_slice(q);
    case OP_pad:
        return infer_pad(q);
    case OP_concat:
        return infer_concat(q);
    case OP_window:
        return infer_window(q);
    case OP_fold:
    case OP_unwindow:
        return infer_fold(q);
    case OP_conv:
        return infer_conv(q);
    case OP_reduce:
        return infer_reduce(q);
    case OP_cumulate:
        return infer_cumulate(q);
    case OP_dot:
        return infer_dot(q);
    case OP_gather:
        return infer_gather(q);
    case OP_scatter:
        return infer_scatter(q);
    case OP_sort:
        return infer_sort(q);
    case OP_attention:
        return infer_attention(q);
    case OP_attention_grad:
        return infer_attention_grad(q);
    case OP_call:
        return infer_call(q);
    case OP_transfer:
        q->place = (Place)word(q, ATTR_place);
        return infer_effect(q);
    case OP_print:
    case OP_check:
        return infer_effect(q);
    case OP_extern:
        return infer_pointwise(q);
    default:
        return op_is_pointwise(q->op) ? infer_pointwise(q) : infer_leaf(q);
    }
}

const char *infer_types(Builder *b, Op op, const Val *in, uint32_t nin, const Attr *attrs,
                        Ty *types, uint32_t *n)
{
    Infer q = {.b = b,
               .p = b->p,
               .dims = b->p->cx->dims,
               .op = op,
               .in = in,
               .nin = nin,
               .attrs = attrs,
               .types = types};
    const OpInfo *info = op_info(op);
    if ((int)nin < info->nmin || (info->nmax >= 0 && (int)nin > info->nmax))
        return infer_say(&q, "%u operands for %s", nin, info->name);
    for (uint32_t i = 0; i < nin; i++) {
        CHECK(in[i].node > 0 && in[i].node < b->g->nodes.n &&
              in[i].result < b->g->nodes.at[in[i].node].nout);
        if (i < ARRAY_LEN(q.x))
            q.x[i] = *val_info(b->p, b->g, in[i]);
    }
    if (op == OP_scan)
        return infer_scan(b, in, nin, attrs, types, n);
    const char *error = op == OP_call ? NULL : find_place(&q); /* a call's graph says its own */
    if (!error)
        error = infer_op(&q);
    *n = q.n;
    return error;
}

const char *infer_check(Builder *b, Op op, const Val *in, uint32_t nin, const Attr *attrs)
{
    Ty types[MAX_RESULTS];
    uint32_t n;
    return infer_types(b, op, in, nin, attrs, types, &n);
}
