/* lower_scatter.c: updates at chosen places: the result begins as the first operand, in its memory
 * where that is allowed, and a function of runtime/kernels/scatter.h changes it.
 *
 *   %y = scatter %x, %i, %u {axis=1, batch=1, kind=add}   copy y <- x; launch y (y, i, u): call
 * scatter_f32_i64
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_opaque.h"

enum { THREADS = 256, PARTS_CPU = 16, PARTS_CUDA = 512, ROWS = 64 };

/* The memory of the result holds the first operand. */
static void start(Lower *l, const FuseGroup *grp, const Node *n, const Loc *out)
{
    const TypeInfo t = *val_info(l->p, l->g, grp->roots.at[0].val);
    double value;
    if (opaque_fills(l->g, n, 0, &value)) {
        const uint32_t dst = lower_piece(l, out, t.dtype);
        Step *s = lower_step(l, STEP_FILL, grp->site);
        s->dst = dst;
        s->value = value;
        s->text = lower_text(l, grp->roots.at[0].val);
        return;
    }
    const Loc from = opaque_operand(l, n->in[0]);
    if (from.buf != out->buf || !dim_same(from.offset, out->offset))
        lower_copy_loc(l, out, &from, t.dtype, lower_name(l, n->in[0]), grp->site);
}

/* How many cells share the work on one [N, R] block of the result. Each looks at all indices, so
 * there are fewer where a place is small. Nothing but speed depends on it. */
static Dim parts_of(Lower *l, Dim outer, Dim places, Dim indices, Dim row, bool unique)
{
    DimTable *t = l->t;
    const double blocks = dim_hint(t, outer), r = dim_hint(t, row), most = dim_hint(t, places);
    if (unique) {
        const int64_t each = r >= 1024 ? 1 : 1024 / (int64_t)(r < 1 ? 1 : r);
        return dim_ceildiv(t, indices, dim_const(t, l->o->cuda && each > ROWS ? ROWS : each));
    }
    double want = (l->o->cuda ? PARTS_CUDA : r >= 8 ? PARTS_CPU : 4) / (blocks < 1 ? 1 : blocks);
    want = want > most ? most : want;
    return dim_const(t, want < 1 ? 1 : (int64_t)want);
}

void lower_scatter(Lower *l, const FuseGroup *grp)
{
    const Val y = grp->roots.at[0].val;
    const Node *n = graph_node(l->g, y);
    const TypeInfo x = *val_info(l->p, l->g, y), ix = *val_info(l->p, l->g, n->in[1]);
    const uint32_t axis = (uint32_t)node_int(n, ATTR_axis),
                   batch = (uint32_t)node_int(n, ATTR_batch);
    const uint32_t behind = axis + (uint32_t)node_int(n, ATTR_joint);
    const Reducer kind = (Reducer)node_int(n, ATTR_kind);
    const int64_t mode = node_int(n, ATTR_mode);
    const bool unique = node_int(n, ATTR_unique) && mode != GATHER_CLAMP;
    const Dim middle = opaque_product(l, &x, batch, axis),
              places = opaque_product(l, &x, axis, behind);
    const Dim row = opaque_product(l, &x, behind, x.rank), outer = opaque_product(l, &x, 0, axis);
    const Dim indices = opaque_product(l, &ix, batch, ix.rank);
    const Loc out = opaque_result(l, y), idx = opaque_operand(l, n->in[1]);
    const Loc upd = opaque_operand(l, n->in[2]);
    start(l, grp, n, &out);
    OpaqueCall c = {.threads = THREADS, .reports = mode == GATHER_CHECK};
    c.function = arena_printf(l->a, "scatter%s_%s_%s", unique ? "_unique" : "", dtype_name(x.dtype),
                              dtype_name(ix.dtype));
    opaque_arg(&c, &out, x.dtype, K_INOUT, lower_name(l, y));
    opaque_arg(&c, &idx, ix.dtype, K_IN, lower_name(l, n->in[1]));
    opaque_arg(&c, &upd, x.dtype, K_IN, lower_name(l, n->in[2]));
    const Dim parts = parts_of(l, outer, places, indices, row, unique);
    opaque_grid(&c, outer);
    opaque_grid(&c, parts);
    const int64_t number = kind == RED_none ? 0 : kind == RED_add ? 1 : kind == RED_max ? 2 : 3;
    const Dim ints[] = {
        parts, middle, places, indices, row, dim_const(l->t, number), dim_const(l->t, mode)};
    for (uint32_t i = 0; i < ARRAY_LEN(ints); i++)
        opaque_int(&c, ints[i]);
    if (!c.reports) { /* no error word, no line */
        opaque_int(&c, dim_const(l->t, 0));
        opaque_int(&c, dim_const(l->t, 0));
    }
    opaque_call(l, &c, grp);
    opaque_finish(l, y, &out);
}
