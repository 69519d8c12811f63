/* vjp.c: which rule an op has, and the rules of views.
 * SPDX-License-Identifier: MIT */
#include "passes/vjp.h"

#include "ir/base/die.h"

static void vjp_cast(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id;
    DType t = val_info(r->p, r->g, n->in[0])->dtype;
    vjp_stage(r, STAGE_BACKWARD);
    vjp_give(r, n, 0, build_cast(r->b, dy[0], t));
}

/* New axes and stretched ones are summed. */
static void vjp_broadcast(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    TypeInfo to = *val_info(r->p, r->g, n->in[0]), from = *val_info(r->p, r->g, (Val){id, 0});
    Attr dims = node_attr(n, ATTR_dims);
    int64_t axes[MAX_RANK];
    uint32_t naxes = 0;
    for (uint32_t k = 0; k < from.rank; k++) {
        bool kept = false;
        for (uint32_t i = 0; i < dims.n; i++)
            kept |= dims.at[i] == (int64_t)k &&
                    dim_equal(r->p->cx->dims, to.shape[i], from.shape[k]) == YES;
        if (!kept)
            axes[naxes++] = k;
    }
    vjp_stage(r, STAGE_BACKWARD);
    Val d = naxes ? build_reduce(r->b, RED_add, dy[0], axes, naxes) : dy[0];
    vjp_give(r, n, 0, build_reshape(r->b, d, to.shape, to.rank));
}

static void vjp_reshape(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id;
    TypeInfo to = *val_info(r->p, r->g, n->in[0]);
    vjp_stage(r, STAGE_BACKWARD);
    vjp_give(r, n, 0, build_reshape(r->b, dy[0], to.shape, to.rank));
}

static void vjp_transpose(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id;
    Attr perm = node_attr(n, ATTR_perm);
    int64_t inverse[MAX_RANK];
    for (uint32_t k = 0; k < perm.n; k++)
        inverse[perm.at[k]] = k;
    vjp_stage(r, STAGE_BACKWARD);
    vjp_give(r, n, 0, build_transpose(r->b, dy[0], inverse));
}

/* Back into place among zeros; a negative step turns the axis round first. */
static void vjp_slice(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id;
    DimTable *t = r->p->cx->dims;
    TypeInfo to = *val_info(r->p, r->g, n->in[0]);
    Attr step = node_attr(n, ATTR_step);
    Dim lo[MAX_RANK], hi[MAX_RANK], begin[MAX_RANK], extent[MAX_RANK];
    int64_t interior[MAX_RANK], turn[MAX_RANK];
    bool turned = false;
    for (uint32_t k = 0; k < to.rank; k++) {
        int64_t s = step.n ? step.at[k] : 1, size = s < 0 ? -s : s;
        extent[k] = node_dim(n, ATTR_extent, k);
        Dim last = dim_sub(t, extent[k], dim_const(t, 1));
        Dim reach = dim_mul(t, last, dim_const(t, size));
        begin[k] = s < 0 ? last : dim_const(t, 0);
        turn[k] = s < 0 ? -1 : 1;
        turned |= s < 0;
        lo[k] = node_dim(n, ATTR_start, k);
        if (s < 0)
            lo[k] = dim_sub(t, lo[k], reach);
        hi[k] = dim_sub(t, to.shape[k], dim_add(t, lo[k], dim_add(t, reach, dim_const(t, 1))));
        interior[k] = size - 1;
    }
    vjp_stage(r, STAGE_BACKWARD);
    Val d = turned ? build_slice(r->b, dy[0], begin, turn, extent) : dy[0];
    vjp_give(r, n, 0, build_pad(r->b, d, build_const(r->b, to.dtype, 0), lo, hi, interior));
}

static void vjp_pad(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    TypeInfo to = *val_info(r->p, r->g, n->in[0]), from = *val_info(r->p, r->g, (Val){id, 0});
    Attr interior = node_attr(n, ATTR_interior);
    Dim start[MAX_RANK];
    int64_t step[MAX_RANK], axes[MAX_RANK];
    for (uint32_t k = 0; k < to.rank; k++) {
        start[k] = node_dim(n, ATTR_lo, k);
        step[k] = (interior.n ? interior.at[k] : 0) + 1;
        axes[k] = k;
    }
    vjp_stage(r, STAGE_BACKWARD);
    Val inside = build_slice(r->b, dy[0], start, step, to.shape);
    vjp_give(r, n, 0, inside);
    if (vjp_wants(r, n, 1) && from.rank) {
        Val all = build_reduce(r->b, RED_add, dy[0], axes, from.rank);
        Val kept = build_reduce(r->b, RED_add, inside, axes, to.rank);
        vjp_give(r, n, 1, build2(r->b, OP_sub, all, kept));
    }
}

static void vjp_concat(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id;
    DimTable *t = r->p->cx->dims;
    uint32_t axis = (uint32_t)node_int(n, ATTR_axis);
    Dim at = dim_const(t, 0);
    for (uint32_t k = 0; k < n->nin; k++) {
        Dim extent = val_info(r->p, r->g, n->in[k])->shape[axis];
        vjp_stage(r, STAGE_BACKWARD);
        if (vjp_wants(r, n, k))
            vjp_give(r, n, k, build_slice_axis(r->b, dy[0], axis, at, extent));
        at = dim_add(t, at, extent);
    }
}

static void vjp_extern(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id, (void)dy;
    vjp_refuse(r, n, DIAG_no_gradient, "an extern function without `grad` has no derivative");
}

static void vjp_transfer(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id;
    int64_t place = val_info(r->p, r->g, n->in[0])->place;
    Attr attr = {&place, 1};
    vjp_stage(r, STAGE_BACKWARD);
    vjp_give(r, n, 0, build(r->b, OP_transfer, dy, 1, &attr));
}

/* print hands its operand on. */
static void vjp_print(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id;
    vjp_give(r, n, 0, dy[0]);
}

VjpRule *vjp_rule(Op op)
{
    if (op_is_pointwise(op))
        return vjp_row_exists(op) ? vjp_pointwise : NULL;
    switch (op) {
    case OP_cast:
        return vjp_cast;
    case OP_extern:
        return vjp_extern;
    case OP_broadcast:
        return vjp_broadcast;
    case OP_reshape:
        return vjp_reshape;
    case OP_transpose:
        return vjp_transpose;
    case OP_slice:
        return vjp_slice;
    case OP_pad:
        return vjp_pad;
    case OP_concat:
        return vjp_concat;
    case OP_reduce:
        return vjp_reduce;
    case OP_cumulate:
        return vjp_cumulate;
    case OP_dot:
        return vjp_dot;
    case OP_gather:
        return vjp_gather;
    case OP_scatter:
        return vjp_scatter;
    case OP_sort:
        return vjp_sort;
    case OP_attention:
        return vjp_attention;
    case OP_attention_grad:
        return vjp_attention_grad;
    case OP_window:
        return vjp_window;
    case OP_fold:
        return vjp_fold;
    case OP_conv:
        return vjp_conv;
    case OP_call:
        return vjp_call;
    case OP_scan:
        return vjp_scan;
    case OP_transfer:
        return vjp_transfer;
    case OP_print:
        return vjp_print;
    default:
        return NULL;
    }
}
