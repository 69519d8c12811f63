/* lower_index.c: indices through views, and places of values.
 *
 *   y = reshape x {[B,4,32] -> [B,128]}:   y[b, c] is x[b, c//32, c - 32*(c//32)]
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"

Loc loc_row_major(DimTable *t, uint32_t buf, Dim offset, const Dim *shape, uint32_t rank)
{
    Loc loc = {.buf = buf, .offset = offset, .rank = rank};
    Dim stride = dim_const(t, 1);
    for (uint32_t i = rank; i-- > 0;) {
        loc.shape[i] = shape[i];
        loc.stride[i] = stride;
        stride = dim_mul(t, stride, shape[i]);
    }
    return loc;
}

bool loc_is_row_major(DimTable *t, const Loc *loc)
{
    Dim stride = dim_const(t, 1);
    for (uint32_t i = loc->rank; i-- > 0;) {
        if (!dim_is_one(t, loc->shape[i]) && !dim_same(loc->stride[i], stride))
            return false;
        stride = dim_mul(t, stride, loc->shape[i]);
    }
    return true;
}

/* Axes in[i0..i1) and out[j0..j1) have the same product: a merge, a split, or both. */
static void reshape_group(DimTable *t, const Dim *in, uint32_t i0, uint32_t i1, const Dim *out,
                          uint32_t j0, uint32_t j1, const Dim *at, Dim *result)
{
    Dim linear = dim_const(t, 0);
    for (uint32_t j = j0; j < j1; j++)
        linear = dim_add(t, dim_mul(t, linear, out[j]), at[j]);
    uint32_t first = i0; /* the outermost axis of this group takes the quotient as it is */
    while (first < i1 && dim_is_one(t, in[first]))
        result[first++] = dim_const(t, 0);
    for (uint32_t i = i1; i-- > first;) {
        if (i == first) {
            result[i] = linear;
        } else if (dim_is_one(t, in[i])) {
            result[i] = dim_const(t, 0);
        } else {
            result[i] = dim_mod(t, linear, in[i]);
            linear = dim_floordiv(t, linear, in[i]);
        }
    }
}

void index_reshape(DimTable *t, const Dim *in, uint32_t nin, const Dim *out, uint32_t nout,
                   const Dim *at, Dim *result)
{
    uint32_t i = 0, j = 0;
    while (i < nin || j < nout) {
        uint32_t i0 = i, j0 = j;
        Dim pin = dim_const(t, 1), pout = dim_const(t, 1);
        if (i < nin)
            pin = in[i++];
        if (j < nout)
            pout = out[j++];
        while (!dim_same(pin, pout)) {
            /* take from the side that is not ahead; symbolic products that compare as unknown grow
             * on the left first, and in the end both are whole */
            bool grow_in = i < nin && (j == nout || dim_le(t, pin, pout) == YES ||
                                       dim_le(t, pout, pin) != YES);
            if (grow_in)
                pin = dim_mul(t, pin, in[i++]);
            else if (j < nout)
                pout = dim_mul(t, pout, out[j++]);
            else
                break;
        }
        reshape_group(t, in, i0, i, out, j0, j, at, result);
    }
}
