/* tensor_index.c: builds scatters, sorts and prefix reductions. SPDX-License-Identifier: MIT */
#include "ir/tensor_internal.h"

Val build_scatter(Builder *b, Val init, Val idx, Val upd, uint32_t axis, uint32_t batch,
                  Reducer kind, int mode, bool unique)
{
    return build_scatter_joint(b, init, idx, upd, axis, 1, batch, kind, mode, unique);
}

/* Half types are added up, and compared, in f32. */
Val build_scatter_joint(Builder *b, Val init, Val idx, Val upd, uint32_t axis, uint32_t joint,
                        uint32_t batch, Reducer kind, int mode, bool unique)
{
    const DType t = val_info(b->p, b->g, init)->dtype;
    const bool half = (t == DT_f16 || t == DT_bf16) && kind != RED_none;
    const int64_t words[] = {axis, batch, kind, mode, unique, joint};
    Attr attrs[6];
    for (int i = 0; i < 6; i++)
        attrs[i] = attr_words(&words[i], 1);
    if (half) {
        init = build_cast(b, init, DT_f32);
        upd = build_cast(b, upd, DT_f32);
    }
    const Val y = build(b, OP_scatter, (Val[]){init, idx, upd}, 3, attrs);
    return half ? build_cast(b, y, t) : y;
}

Val build_sort(Builder *b, Val x, uint32_t axis, bool descending, Dim k)
{
    const int64_t words[] = {axis, descending};
    int64_t extent[1];
    return build(
        b, OP_sort, &x, 1,
        (Attr[]){attr_words(&words[0], 1), attr_words(&words[1], 1), attr_dims(extent, &k, 1)});
}

static Val cumulate(Builder *b, Reducer kind, const Val *in, uint32_t nin, uint32_t axis, int mode)
{
    const int64_t words[] = {kind, axis, mode};
    return build(
        b, OP_cumulate, in, nin,
        (Attr[]){attr_words(&words[0], 1), attr_words(&words[1], 1), attr_words(&words[2], 1)});
}

Val build_cumulate(Builder *b, Reducer kind, Val x, uint32_t axis, int mode)
{
    return cumulate(b, kind, &x, 1, axis, mode);
}

Val build_linear(Builder *b, Val a, Val x, Val init, uint32_t axis, int mode)
{
    DimTable *t = b->p->cx->dims;
    const Dim n = val_info(b->p, b->g, a)->shape[axis];
    if (mode & (CUMULATE_FULL | CUMULATE_BEHIND))
        return cumulate(b, RED_none, (Val[]){a, x, init}, 3, axis, mode);
    const int way = mode & CUMULATE_REVERSE;
    const Val all = cumulate(b, RED_none, (Val[]){a, x, init}, 3, axis, way | CUMULATE_FULL);
    const bool first = (way != 0) != ((mode & CUMULATE_EXCLUSIVE) != 0);
    return build_slice_axis(b, all, axis, dim_const(t, !first), n);
}

/* The same value at every place along an axis. */
static bool is_same_along(const Graph *g, Val v, uint32_t axis)
{
    const Node *n = graph_node(g, v);
    if (n->op == OP_cast)
        return is_same_along(g, n->in[0], axis);
    if (n->op != OP_broadcast)
        return false;
    const Attr dims = node_attr(n, ATTR_dims);
    for (uint32_t i = 0; i < dims.n; i++)
        if (dims.at[i] == axis)
            return is_same_along(g, n->in[0], i);
    return true;
}

/* Neighbours along the axis differ, and any two places do: true of an iota, and of what keeps it
 * apart. */
static bool is_injective(const Program *p, const Graph *g, Val v, uint32_t axis)
{
    const Node *n = graph_node(g, v);
    switch (n->op) {
    case OP_iota:
        return node_int(n, ATTR_axis) == axis;
    case OP_cast:
        return dtype_size(val_info(p, g, v)->dtype) >= 4 && is_injective(p, g, n->in[0], axis);
    case OP_slice:
        return is_injective(p, g, n->in[0], axis);
    case OP_sort: /* its indices are a permutation's */
        return v.result == 1 && node_int(n, ATTR_axis) == axis;
    case OP_broadcast: {
        const Attr dims = node_attr(n, ATTR_dims);
        for (uint32_t i = 0; i < dims.n; i++)
            if (dims.at[i] == axis)
                return dim_same(val_info(p, g, n->in[0])->shape[i],
                                val_info(p, g, v)->shape[axis]) &&
                       is_injective(p, g, n->in[0], i);
        return false;
    }
    case OP_add:
    case OP_sub:
        return (is_injective(p, g, n->in[0], axis) && is_same_along(g, n->in[1], axis)) ||
               (is_injective(p, g, n->in[1], axis) && is_same_along(g, n->in[0], axis));
    default:
        return false;
    }
}

bool index_is_unique(const Program *p, const Graph *g, Val idx, uint32_t batch)
{
    const uint32_t rank = val_info(p, g, idx)->rank;
    return rank <= batch || (rank == batch + 1 && is_injective(p, g, idx, batch));
}

/* --- sums ------------------------------------------------------------------------------------- */

/* y, a sum of updates, begun with x as well as with what it begins with. */
static Val begin_with(Builder *b, Val y, Val x)
{
    const Node n = *graph_node(b->g, y);
    if (n.op == OP_reshape) {
        const TypeInfo to = *val_info(b->p, b->g, n.in[0]), from = *val_info(b->p, b->g, y);
        const Val inner = begin_with(b, n.in[0], build_reshape(b, x, to.shape, to.rank));
        return inner.node ? build_reshape(b, inner, from.shape, from.rank) : inner;
    }
    if (n.op != OP_scatter || node_int(&n, ATTR_kind) != RED_add)
        return (Val){0, 0};
    if (!val_is_fill(b->p, b->g, n.in[0], 0)) {
        const Val inner = begin_with(b, n.in[0], x);
        x = inner.node ? inner : build2(b, OP_add, x, n.in[0]);
    }
    return build_scatter_joint(b, x, n.in[1], n.in[2], (uint32_t)node_int(&n, ATTR_axis),
                               (uint32_t)node_int(&n, ATTR_joint),
                               (uint32_t)node_int(&n, ATTR_batch), RED_add,
                               (int)node_int(&n, ATTR_mode), node_int(&n, ATTR_unique) != 0);
}

Val fold_scatter_sum(Builder *b, Val x, Val y)
{
    const Val both[2] = {x, y};
    for (int i = 1; i >= 0; i--) {
        const Node *n = graph_node(b->g, both[i]);
        while (n->op == OP_reshape)
            n = graph_node(b->g, n->in[0]);
        if (n->op != OP_scatter || val_type(b->g, x).id != val_type(b->g, y).id)
            continue;
        const Val v = begin_with(b, both[i], both[1 - i]);
        if (v.node)
            return v;
    }
    return (Val){0, 0};
}
