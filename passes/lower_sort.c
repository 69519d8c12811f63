/* lower_sort.c: elements in order: calls of functions of runtime/kernels/sort.h, a cell for each
 * row. SPDX-License-Identifier: MIT */
#include "passes/lower_opaque.h"

enum {
    THREADS = 256,
    FEW = 64,        /* CPU: so many first elements are kept in order while the row is read */
    IN_SHARED = 1024 /* CUDA: rows that fit into shared memory */
};

static Loc result_or_temp(Lower *l, Val v, const char *name)
{
    const TypeInfo t = *val_info(l->p, l->g, v);
    return opaque_wanted(l, v) ? opaque_result(l, v)
                               : opaque_temp(l, name, t.dtype, t.shape, t.rank);
}

void lower_sort(Lower *l, const FuseGroup *grp)
{
    const Val values = {grp->roots.at[0].val.node, 0}, indices = {values.node, 1};
    const Node *n = graph_node(l->g, values);
    const TypeInfo x = *val_info(l->p, l->g, n->in[0]), y = *val_info(l->p, l->g, values);
    const uint32_t axis = (uint32_t)node_int(n, ATTR_axis);
    const Dim size = x.shape[axis], k = y.shape[axis];
    const Dim inner = opaque_product(l, &x, axis + 1, x.rank);
    const Dim rows = dim_mul(l->t, opaque_product(l, &x, 0, axis), inner);
    const bool small =
        dim_le(l->t, l->o->cuda ? size : k, dim_const(l->t, l->o->cuda ? IN_SHARED : FEW)) == YES;
    const Loc out = result_or_temp(l, values, "values"), at = result_or_temp(l, indices, "at");
    OpaqueCall c = {.threads = THREADS};
    c.function = opaque_name(l, small ? "sort_small" : "sort", x.dtype);
    opaque_arg(&c, &out, x.dtype, K_OUT, lower_name(l, values));
    opaque_arg(&c, &at, DT_i32, K_OUT, sym_of(l->p->cx->names, "at"));
    if (!small) {
        const Dim two[] = {rows, dim_const(l->t, 2), size};
        const DType key = dtype_size(x.dtype) == 8 ? DT_i64 : DT_i32;
        const Loc keys = opaque_temp(l, "keys", key, two, 3),
                  order = opaque_temp(l, "order", DT_i32, two, 3);
        opaque_arg(&c, &keys, key, K_OUT, sym_of(l->p->cx->names, "keys"));
        opaque_arg(&c, &order, DT_i32, K_OUT, sym_of(l->p->cx->names, "order"));
    }
    const Loc from = opaque_operand(l, n->in[0]);
    opaque_arg(&c, &from, x.dtype, K_IN, lower_name(l, n->in[0]));
    opaque_grid(&c, rows);
    const Dim ints[] = {size, k, inner, dim_const(l->t, node_int(n, ATTR_mode))};
    for (uint32_t i = 0; i < ARRAY_LEN(ints); i++)
        opaque_int(&c, ints[i]);
    opaque_call(l, &c, grp);
    if (opaque_wanted(l, values))
        opaque_finish(l, values, &out);
    if (opaque_wanted(l, indices))
        opaque_finish(l, indices, &at);
}
