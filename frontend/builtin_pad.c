/* builtin_pad.c: pad with what the tensor itself holds: each axis becomes a concat of its parts.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"
#include "frontend/windows.h"

#include <string.h>

typedef enum { REFLECT, REPLICATE, CIRCULAR } Mode;

/* `extent` elements of an axis from `start` on, forwards or backwards. */
static Val part(Elab *e, Val x, uint32_t axis, Dim from, int64_t step, Dim extent)
{
    const TypeInfo t = *type_at(e, x);
    Dim start[MAX_RANK], size[MAX_RANK];
    int64_t steps[MAX_RANK];
    for (uint32_t i = 0; i < t.rank; i++) {
        start[i] = i == axis ? from : dim_const(e->dims, 0);
        size[i] = i == axis ? extent : t.shape[i];
        steps[i] = i == axis ? step : 1;
    }
    return build_slice(&e->b, x, start, steps, size);
}

/* What stands before (or behind) the axis: n elements. */
static Val side(Elab *e, Val x, uint32_t axis, Mode mode, bool behind, int64_t n)
{
    DimTable *t = e->dims;
    TypeInfo ty = *type_at(e, x);
    const Dim size = ty.shape[axis], count = dim_const(t, n),
              last = dim_sub(t, size, dim_const(t, 1));
    switch (mode) {
    case REFLECT: /* the edge itself is not repeated */
        return part(e, x, axis, behind ? dim_sub(t, last, dim_const(t, 1)) : count, -1, count);
    case CIRCULAR:
        return part(e, x, axis, behind ? dim_const(t, 0) : dim_sub(t, size, count), 1, count);
    case REPLICATE:
        x = part(e, x, axis, behind ? last : dim_const(t, 0), 1, dim_const(t, 1));
        ty.shape[axis] = count;
        return build_broadcast_to(&e->b, x, ty.shape, ty.rank);
    }
    return x;
}

static bool pad_axis(Elab *e, const Call *c, Val *x, uint32_t axis, Mode mode, const int64_t *by)
{
    const Dim size = type_at(e, *x)->shape[axis];
    Val parts[3];
    uint32_t n = 0;
    for (int i = 0; i < 2; i++) {
        const int64_t least = mode == REFLECT ? by[i] + 1 : mode == CIRCULAR ? by[i] : 1;
        if (by[i] < 0) {
            elab_error(e, DIAG_bad_number, c->arg_at[1], "pad with this mode cannot cut: %lld",
                       (long long)by[i]);
            return false;
        }
        if (by[i] && !prove_le(e, c->at, dim_const(e->dims, least), size,
                               "there is more padding than the axis can give")) {
            elab_error(e, DIAG_shape_mismatch, c->at,
                       "pad by %lld wants %lld elements or more, axis %u has %s", (long long)by[i],
                       (long long)least, axis, dim_str(e, size));
            return false;
        }
    }
    if (by[0])
        parts[n++] = side(e, *x, axis, mode, false, by[0]);
    parts[n++] = *x;
    if (by[1])
        parts[n++] = side(e, *x, axis, mode, true, by[1]);
    if (n > 1)
        *x = build_concat(&e->b, parts, n, axis);
    return true;
}

bool pad_with_itself(Elab *e, const Call *c, Val x, const char *mode, Value *out)
{
    static const char *const names[] = {"reflect", "replicate", "circular"};
    const TypeInfo t = *type_at(e, x);
    int64_t by[2 * MAX_RANK];
    uint32_t n, m = 0;
    while (m < ARRAY_LEN(names) && strcmp(names[m], mode))
        m++;
    if (m == ARRAY_LEN(names)) {
        elab_error(e, DIAG_bad_call, c->arg_at[2],
                   "pad has no mode \"%s\", but constant, reflect, replicate and circular", mode);
        return false;
    }
    if (!arg_ints(e, c, 1, by, &n, 2 * MAX_RANK))
        return false;
    if (n % 2 || n > 2u * t.rank) {
        elab_error(e, DIAG_bad_axis, c->arg_at[1],
                   "pad wants two numbers an axis, the last axis first, not %u for %u axes", n,
                   t.rank);
        return false;
    }
    for (uint32_t i = 0; i < n / 2; i++)
        if (!pad_axis(e, c, &x, t.rank - 1 - i, (Mode)m, by + 2 * i))
            return false;
    return give(e, x, out);
}
