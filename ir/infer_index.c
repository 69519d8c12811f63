/* infer_index.c: type rules of ops that choose or order elements: scatter, sort, cumulate.
 *
 *   scatter f32[V, C], i64[T], f32[T, C] {axis=0, kind=add}      f32[V, C]
 *   sort f32[B, V] {axis=1, mode=1, extent=K}                    f32[B, K], i32[B, K]
 *
 * SPDX-License-Identifier: MIT */
#include "ir/infer_internal.h"
#include "ir/scalar.h"

static int64_t word(const Infer *q, AttrName name)
{
    return q->attrs[attr_index(q->op, name)].at[0];
}

/* upd has the shape of what gather would give. */
static const char *bad_updates(Infer *q, uint32_t axis, uint32_t batch, uint32_t joint)
{
    const TypeInfo *x = &q->x[0], *idx = &q->x[1], *u = &q->x[2];
    const uint32_t rank = x->rank - joint + idx->rank - batch;
    if (u->rank != rank)
        return infer_say(q, "the updates have %u axes instead of %u", u->rank, rank);
    for (uint32_t i = 0, k = 0; i < x->rank; i++) {
        if (i == axis) {
            for (uint32_t j = batch; j < idx->rank; j++, k++)
                if (!infer_same_size(q, u->shape[k], idx->shape[j]))
                    return infer_say(q, "axis %u of the updates does not fit the index", k);
            i += joint - 1;
            continue;
        }
        if (!infer_same_size(q, u->shape[k], x->shape[i]))
            return infer_say(q, "axis %u of the updates does not fit", k);
        k++;
    }
    return NULL;
}

const char *infer_scatter(Infer *q)
{
    const TypeInfo *x = &q->x[0], *idx = &q->x[1];
    const int64_t axis = word(q, ATTR_axis), batch = word(q, ATTR_batch), mode = word(q, ATTR_mode);
    const int64_t kind = word(q, ATTR_kind), joint = word(q, ATTR_joint);
    if (!dtype_is_int(idx->dtype))
        return infer_say(q, "an index is of integers, not %s", dtype_name(idx->dtype));
    if (axis < 0 || joint < 1 || axis + joint > x->rank)
        return "there is no such axis";
    if (batch < 0 || batch > axis || batch > idx->rank)
        return "there are not that many axes in common";
    if (mode < GATHER_CHECK || mode > GATHER_FILL)
        return "there is no such mode";
    if (kind != RED_none && kind != RED_add && kind != RED_max && kind != RED_min)
        return "there is no such kind of scatter";
    if (q->x[2].dtype != x->dtype)
        return infer_say(q, "the dtypes %s and %s differ", dtype_name(x->dtype),
                         dtype_name(q->x[2].dtype));
    if (kind != RED_none && !infer_reducer_takes((Reducer)kind, x->dtype))
        return infer_say(q, "%s is not for %s", reducer_info((Reducer)kind)->name,
                         dtype_name(x->dtype));
    for (uint32_t i = 0; i < batch; i++)
        if (!infer_same_size(q, x->shape[i], idx->shape[i]))
            return infer_say(q, "axis %u of the index does not fit", i);
    const char *error = bad_updates(q, (uint32_t)axis, (uint32_t)batch, (uint32_t)joint);
    return error ? error : infer_result(q, x->dtype, x->shape, x->rank);
}

const char *infer_sort(Infer *q)
{
    const TypeInfo x = q->x[0];
    const int64_t axis = word(q, ATTR_axis), mode = word(q, ATTR_mode);
    const Attr k = q->attrs[attr_index(q->op, ATTR_extent)];
    Dim shape[MAX_RANK];
    if (axis < 0 || axis >= x.rank)
        return "there is no such axis";
    if (mode < 0 || mode > 1)
        return "there is no such mode";
    if (k.n != 1)
        return "the number of elements is missing";
    for (uint32_t i = 0; i < x.rank; i++)
        shape[i] = i == axis ? attr_dim(k, 0) : x.shape[i];
    if (dim_le(q->dims, shape[axis], x.shape[axis]) == NO)
        return "more elements are asked for than there are";
    const char *error = infer_result(q, x.dtype, shape, x.rank);
    return error ? error : infer_result(q, DT_i32, shape, x.rank);
}
