/* lower_cumulate.c: prefix reductions and linear recurrences: calls of functions of
 * runtime/kernels/cumulate.h, a cell for each strip of neighbours along the axis.
 * SPDX-License-Identifier: MIT */
#include "passes/lower_opaque.h"

enum { THREADS = 256, STRIP_CPU = 64 };

/* The start of a recurrence: a constant is filled in. */
static Loc first_values(Lower *l, const FuseGroup *grp, const Node *n)
{
    const TypeInfo t = *val_info(l->p, l->g, n->in[2]);
    double value;
    if (!opaque_fills(l->g, n, 2, &value))
        return opaque_operand(l, n->in[2]);
    const Loc loc = opaque_temp(l, "init", t.dtype, t.shape, t.rank);
    Step *s = lower_step(l, STEP_FILL, grp->site);
    s->dst = loc.buf;
    s->value = value;
    s->text = "init";
    return loc;
}

void lower_cumulate(Lower *l, const FuseGroup *grp)
{
    const Val y = {grp->roots.at[0].val.node, 0}, index = {y.node, 1};
    const Node *n = graph_node(l->g, y);
    const TypeInfo x = *val_info(l->p, l->g, n->in[0]), yt = *val_info(l->p, l->g, y);
    const uint32_t axis = (uint32_t)node_int(n, ATTR_axis);
    const Reducer kind = (Reducer)node_int(n, ATTR_kind);
    const bool linear = n->nin == 3, extreme = !linear && kind != RED_add && kind != RED_mul;
    const bool max = kind == RED_max || kind == RED_argmax;
    const Dim outer = opaque_product(l, &x, 0, axis),
              inner = opaque_product(l, &x, axis + 1, x.rank);
    Loc out, places;
    OpaqueCall c = {.threads = THREADS};
    if (opaque_wanted(l, y))
        out = opaque_result(l, y);
    else
        out = opaque_temp(l, "values", yt.dtype, yt.shape, yt.rank);
    opaque_arg(&c, &out, x.dtype, K_OUT, lower_name(l, y));
    if (extreme) {
        const bool wanted = n->nout == 2 && opaque_wanted(l, index);
        places = wanted ? opaque_result(l, index) : opaque_temp(l, "at", DT_i32, x.shape, x.rank);
        opaque_arg(&c, &places, DT_i32, K_OUT, sym_of(l->p->cx->names, "at"));
    }
    for (uint32_t i = 0; i < n->nin; i++) {
        const Loc loc = i == 2 ? first_values(l, grp, n) : opaque_operand(l, n->in[i]);
        opaque_arg(&c, &loc, x.dtype, K_IN, lower_name(l, n->in[i]));
    }
    c.function = opaque_name(l, linear ? "linear" : extreme ? "extreme" : "cumulate", x.dtype);
    /* on a GPU a lane goes along a line by itself, but where the axis is the last one */
    Dim lines = dim_const(l->t, 0), across = inner, one = dim_const(l->t, 1);
    if (l->o->cuda && (extreme || !dim_is_one(l->t, inner)))
        lines = across = dim_mul(l->t, outer, inner);
    opaque_grid(&c, dim_is_zero(l->t, lines) ? outer : one);
    opaque_grid(&c, dim_ceildiv(l->t, across, dim_const(l->t, l->o->cuda ? THREADS : STRIP_CPU)));
    opaque_int(&c, x.shape[axis]);
    opaque_int(&c, inner);
    opaque_int(&c, lines);
    if (!linear)
        opaque_int(&c, dim_const(l->t, extreme ? max : kind == RED_mul));
    opaque_int(&c, dim_const(l->t, node_int(n, ATTR_mode)));
    opaque_call(l, &c, grp);
    if (opaque_wanted(l, y))
        opaque_finish(l, y, &out);
    if (extreme && n->nout == 2 && opaque_wanted(l, index))
        opaque_finish(l, index, &places);
}
