/* lower_opaque.c: ops that functions of runtime/kernels compute: where their operands and results
 * lie, and the kernel that calls such a function.
 *
 *   group opaque: %y = cumulate %x {add, axis=1}
 *   kernel y opaque (x: f32[R,N] in, y: f32[R,N] out) { for i in 0..R grid { call cumsum_f32 (x, y)
 * {i, N} } }
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_opaque.h"
#include "passes/lower_loop.h"

#include <string.h>

/* --- places -----------------------------------------------------------------------------------
 */

static Loc whole(Lower *l, const Loc *loc, const TypeInfo *ty)
{
    Loc to = loc_row_major(l->t, loc->buf, loc->offset, ty->shape, ty->rank);
    return to;
}

Loc opaque_temp(Lower *l, const char *name, DType dtype, const Dim *shape, uint32_t rank)
{
    uint32_t buf = lower_buffer(l, BUF_TEMP, sym_of(l->p->cx->names, name), dtype, shape, rank);
    return loc_row_major(l->t, buf, dim_const(l->t, 0), shape, rank);
}

Loc opaque_operand(Lower *l, Val v)
{
    const TypeInfo as = *val_info(l->p, l->g, v);
    while (!fuse_buffer(l->f, v)) {
        CHECK(graph_node(l->g, v)->op == OP_reshape);
        v = graph_node(l->g, v)->in[0];
    }
    const TypeInfo ty = *val_info(l->p, l->g, v);
    Loc loc = *lower_loc(l, v);
    if (!loc_is_row_major(l->t, &loc)) {
        Sym name = lower_name(l, v);
        Loc to = opaque_temp(l, sym_text(l->p->cx->names, name), ty.dtype, ty.shape, ty.rank);
        lower_copy_loc(l, &to, &loc, ty.dtype, name, graph_node(l->g, v)->site);
        loc = to;
    }
    return whole(l, &loc, &as);
}

bool opaque_wanted(const Lower *l, Val v)
{
    return fuse_buffer(l->f, v) != NULL;
}

Loc opaque_result(Lower *l, Val v)
{
    const Loc *loc = lower_loc(l, v);
    const TypeInfo ty = *val_info(l->p, l->g, v);
    CHECK(loc);
    if (loc_is_row_major(l->t, loc))
        return *loc;
    return opaque_temp(l, sym_text(l->p->cx->names, lower_name(l, v)), ty.dtype, ty.shape, ty.rank);
}

void opaque_finish(Lower *l, Val v, const Loc *from)
{
    const Loc *loc = lower_loc(l, v);
    if (from->buf == loc->buf && dim_same(from->offset, loc->offset))
        return;
    lower_copy_loc(l, loc, from, val_info(l->p, l->g, v)->dtype, lower_name(l, v),
                   graph_node(l->g, v)->site);
}

Dim opaque_product(Lower *l, const TypeInfo *t, uint32_t from, uint32_t to)
{
    Dim n = dim_const(l->t, 1);
    for (uint32_t i = from; i < to; i++)
        n = dim_mul(l->t, n, t->shape[i]);
    return n;
}

/* --- calls ------------------------------------------------------------------------------------
 */

const char *opaque_name(Lower *l, const char *base, DType t)
{
    return arena_printf(l->a, "%s_%s", base, dtype_name(t));
}

void opaque_arg(OpaqueCall *c, const Loc *loc, DType dtype, KMode mode, Sym name)
{
    CHECK(c->nargs < ARRAY_LEN(c->args));
    c->args[c->nargs++] = (OpaqueArg){*loc, dtype, mode, name};
}

void opaque_int(OpaqueCall *c, Dim d)
{
    CHECK(c->nints < ARRAY_LEN(c->ints));
    c->ints[c->nints++] = d;
}

void opaque_grid(OpaqueCall *c, Dim extent)
{
    CHECK(c->ngrid < ARRAY_LEN(c->grid));
    c->grid[c->ngrid++] = extent;
}

void opaque_call(Lower *l, const OpaqueCall *c, const FuseGroup *grp)
{
    KBuild *b = kbuild_begin(l, lower_kernel_name(l, grp), CLASS_OPAQUE);
    KBlock *block = &b->k->body;
    uint32_t *args = arena_array(l->a, uint32_t, c->nargs);
    Dim *ints = arena_array(l->a, Dim, c->ngrid + c->nints);
    for (uint32_t i = 0; i < c->nargs; i++) {
        const OpaqueArg *q = &c->args[i];
        args[i] = q->loc.buf ? kbuild_param(b, &q->loc, q->dtype, q->mode, q->name) : NO_PARAM;
    }
    for (uint32_t i = 0; i < c->ngrid; i++) {
        ints[i] = dim_const(l->t, 0);
        if (dim_is_one(l->t, c->grid[i]))
            continue;
        Symbol axis = kbuild_axis(b, c->grid[i]);
        block = &kbuild_for(b, block, axis, FOR_GRID)->body;
        ints[i] = dim_of(l->t, axis);
    }
    for (uint32_t i = 0; i < c->nints; i++)
        ints[c->ngrid + i] = c->ints[i];
    KStmt *s = kblock_add(l->p, block, KS_CALL);
    s->call = sym_of(l->p->cx->names, c->function);
    s->args = args;
    s->nargs = c->nargs;
    s->ints = ints;
    s->nints = c->ngrid + c->nints;
    s->reports = c->reports;
    s->hooked = c->hooked;
    s->site = grp->site;
    if (c->hook)
        c->hook(c->hook_ctx, b, s);
    b->k->lanes = l->o->cuda ? c->threads : 1;
    b->k->teams = 1;
    kbuild_end(b, grp->site, lower_text(l, grp->roots.at[0].val));
}

/* --- ops --------------------------------------------------------------------------------------
 */

void lower_opaque(Lower *l, const FuseGroup *grp)
{
    const Node *n = graph_node(l->g, grp->roots.at[0].val);
    switch (n->op) {
    case OP_scan:
        lower_scan(l, grp);
        break;
    case OP_transfer:
        lower_transfer(l, grp);
        break;
    case OP_scatter:
        lower_scatter(l, grp);
        break;
    case OP_cumulate:
        lower_cumulate(l, grp);
        break;
    case OP_sort:
        lower_sort(l, grp);
        break;
    case OP_conv:
        lower_conv(l, grp);
        break;
    case OP_attention:
    case OP_attention_grad:
        lower_attention(l, grp);
        break;
    default:
        die("op %s has no function", op_name(n->op));
    }
}
