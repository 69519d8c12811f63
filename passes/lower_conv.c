/* lower_conv.c: convolutions over one or two axes. On CPUs functions of runtime/kernels/conv*.h
 * read images and weights where views put them; lower_conv_cuda.c is for GPUs.
 *
 *   %y = conv %x, %w            conv_filters packs the weights, conv goes by rows of an image;
 *                               conv_depth where groups have one channel, conv_long where the
 *                               windows are larger than what they slide over (gradients of weights)
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_conv.h"

#include <string.h>

enum {
    PIXELS = 512,        /* of a cell, about, */
    DEPTH_PIXELS = 4096, /* of one channel alone; */
    SOME_ROWS = 8        /* where sizes are not known */
};

/* An operand where it lies, with two sliding axes. */
static Loc operand(const Conv *q, uint32_t i)
{
    const FuseView *view = &q->grp->views.at[i];
    const TypeInfo ty = *val_info(q->l->p, q->l->g, q->n->in[i]);
    Loc at = *lower_loc(q->l, view->source);
    CHECK(loc_is_row_major(q->t, &at));
    at.offset = dim_add(q->t, at.offset, view->offset);
    at.rank = 4;
    for (uint32_t k = 0; k < 4; k++) {
        const bool none = k == 2 && ty.rank == 3;
        const uint32_t from = ty.rank == 3 && k == 3 ? 2 : k;
        at.shape[k] = none ? conv_num(q, 1) : ty.shape[from];
        at.stride[k] = none ? conv_num(q, 0) : view->stride[from];
    }
    return at;
}

static Conv conv_of(Lower *l, const FuseGroup *grp)
{
    Conv q = {.l = l, .t = l->t, .grp = grp, .y = grp->roots.at[0].val};
    q.n = graph_node(l->g, q.y);
    q.type = val_info(l->p, l->g, q.y)->dtype;
    q.groups = node_int(q.n, ATTR_groups);
    q.x = operand(&q, 0);
    q.w = operand(&q, 1);
    const uint32_t n = node_windows(l->p, l->g, q.n, q.axes);
    if (n == 1) {
        q.axes[1] = q.axes[0];
        q.axes[0] = (Window){.out = conv_num(&q, 1),
                             .size = conv_num(&q, 1),
                             .lo = conv_num(&q, 0),
                             .stride = 1,
                             .dilation = 1,
                             .spread = 1};
    }
    q.images = q.x.shape[0];
    q.in = q.w.shape[1];
    q.out = dim_floordiv(l->t, q.w.shape[0], conv_num(&q, q.groups));
    q.size[0] = q.x.shape[2];
    q.size[1] = q.x.shape[3];
    return q;
}

/* --- CPU -------------------------------------------------------------------------------------- */

static void give_sizes(const Conv *q, OpaqueCall *c)
{
    for (int i = 0; i < 2; i++)
        opaque_int(c, q->size[i]);
    for (int i = 0; i < 2; i++)
        opaque_int(c, q->axes[i].out);
    for (int i = 0; i < 2; i++)
        opaque_int(c, q->axes[i].size);
}

static void give_strides(OpaqueCall *c, const Loc *of)
{
    for (int i = 0; i < 4; i++)
        opaque_int(c, of->stride[i]);
}

static void give_steps(const Conv *q, OpaqueCall *c)
{
    for (int i = 0; i < 2; i++)
        opaque_int(c, conv_num(q, q->axes[i].stride));
    for (int i = 0; i < 2; i++)
        opaque_int(c, conv_num(q, q->axes[i].dilation));
    for (int i = 0; i < 2; i++)
        opaque_int(c, q->axes[i].lo);
}

/* Rows of a cell: about so many pixels, in blocks of equal height, that have room with what their
 * windows reach (has_room in conv.c has seen to it that there are some). */
static int64_t rows_of(const Conv *q, int64_t pixels)
{
    int64_t wide, high, rows = SOME_ROWS, reach[2], k, some = 64;
    for (int i = 0; i < 2; i++)
        reach[i] = dim_is_const(q->t, q->axes[i].size, &k)
                       ? (k - 1) * q->axes[i].dilation / q->axes[i].stride
                       : 0;
    if (dim_is_const(q->t, q->axes[1].out, &wide) && wide > 0) {
        rows = wide < pixels ? pixels / wide : 1;
        some = wide < some ? wide : some;
    }
    const int64_t phases = q->axes[0].stride * q->axes[1].stride;
    const int64_t room = CONV_ROOM / (phases * (some + reach[1])) - reach[0];
    rows = rows < room ? rows : room < 1 ? 1 : room;
    if (dim_is_const(q->t, q->axes[0].out, &high) && high > 0) {
        const int64_t blocks = (high + rows - 1) / rows;
        rows = (high + blocks - 1) / blocks;
    }
    return rows;
}

static void give_grid(const Conv *q, OpaqueCall *c, int64_t rows)
{
    opaque_grid(c, dim_mul(q->t, q->images, conv_num(q, q->groups)));
    opaque_grid(c, dim_ceildiv(q->t, q->axes[0].out, conv_num(q, rows)));
    opaque_int(c, conv_num(q, q->groups));
}

/* 8 filters next to each other. */
static Loc packed_filters(const Conv *q)
{
    const Dim taps = dim_mul(q->t, q->axes[0].size, q->axes[1].size);
    const Dim blocks = dim_ceildiv(q->t, q->out, conv_num(q, 8));
    const Dim shape[] = {conv_num(q, q->groups), blocks, q->in, taps, conv_num(q, 8)};
    const Loc f = opaque_temp(q->l, "filters", q->type, shape, ARRAY_LEN(shape));
    OpaqueCall c = {.function = opaque_name(q->l, "conv_filters", q->type)};
    opaque_arg(&c, &f, q->type, K_OUT, sym_of(q->l->p->cx->names, "filters"));
    opaque_arg(&c, &q->w, q->type, K_IN, lower_name(q->l, q->n->in[1]));
    opaque_grid(&c, shape[0]);
    opaque_grid(&c, blocks);
    opaque_int(&c, q->out);
    opaque_int(&c, q->in);
    for (int i = 0; i < 2; i++)
        opaque_int(&c, q->axes[i].size);
    give_strides(&c, &q->w);
    opaque_call(q->l, &c, q->grp);
    return f;
}

static void short_windows(const Conv *q, const Loc *y)
{
    const int64_t rows = rows_of(q, PIXELS);
    const Loc f = packed_filters(q);
    OpaqueCall c = {.function = opaque_name(q->l, "conv", q->type)};
    opaque_arg(&c, y, q->type, K_OUT, lower_name(q->l, q->y));
    opaque_arg(&c, &q->x, q->type, K_IN, lower_name(q->l, q->n->in[0]));
    opaque_arg(&c, &f, q->type, K_IN, sym_of(q->l->p->cx->names, "filters"));
    give_grid(q, &c, rows);
    opaque_int(&c, q->in);
    opaque_int(&c, q->out);
    give_sizes(q, &c);
    opaque_int(&c, conv_num(q, rows));
    give_strides(&c, &q->x);
    give_steps(q, &c);
    opaque_call(q->l, &c, q->grp);
}

/* Groups of one channel. */
static void by_channel(const Conv *q, const Loc *y)
{
    const int64_t rows = rows_of(q, DEPTH_PIXELS);
    OpaqueCall c = {.function = opaque_name(q->l, "conv_depth", q->type)};
    opaque_arg(&c, y, q->type, K_OUT, lower_name(q->l, q->y));
    opaque_arg(&c, &q->x, q->type, K_IN, lower_name(q->l, q->n->in[0]));
    opaque_arg(&c, &q->w, q->type, K_IN, lower_name(q->l, q->n->in[1]));
    give_grid(q, &c, rows);
    opaque_int(&c, q->out);
    give_sizes(q, &c);
    opaque_int(&c, conv_num(q, rows));
    give_strides(&c, &q->x);
    opaque_int(&c, q->w.stride[0]);
    opaque_int(&c, q->w.stride[2]);
    opaque_int(&c, q->w.stride[3]);
    give_steps(q, &c);
    opaque_call(q->l, &c, q->grp);
}

static void long_windows(const Conv *q, const Loc *y)
{
    OpaqueCall c = {.function = opaque_name(q->l, "conv_long", q->type)};
    int64_t h = 1, w = 1;
    dim_is_const(q->t, q->axes[0].out, &h);
    dim_is_const(q->t, q->axes[1].out, &w);
    int64_t together = CONV_SUMS / (16 * h * w); /* images */
    together = together < 1 ? 1 : together > 16 ? 16 : together;
    opaque_arg(&c, y, q->type, K_OUT, lower_name(q->l, q->y));
    opaque_arg(&c, &q->x, q->type, K_IN, lower_name(q->l, q->n->in[0]));
    opaque_arg(&c, &q->w, q->type, K_IN, lower_name(q->l, q->n->in[1]));
    opaque_grid(&c, conv_num(q, q->groups));
    opaque_grid(&c, dim_ceildiv(q->t, q->images, conv_num(q, together)));
    opaque_grid(&c, dim_ceildiv(q->t, q->out, conv_num(q, 16)));
    opaque_int(&c, q->images);
    opaque_int(&c, conv_num(q, together));
    opaque_int(&c, q->in);
    opaque_int(&c, q->out);
    give_sizes(q, &c);
    give_strides(&c, &q->x);
    give_strides(&c, &q->w);
    give_steps(q, &c);
    opaque_int(&c, conv_num(q, q->groups));
    opaque_call(q->l, &c, q->grp);
}

void lower_conv(Lower *l, const FuseGroup *grp)
{
    Conv q = conv_of(l, grp);
    if (l->o->cuda) {
        lower_conv_cuda(&q);
        return;
    }
    const Loc y = opaque_result(l, q.y);
    if (conv_is_long(l->p, l->g, q.n))
        long_windows(&q, &y);
    else if (conv_by_channel(l->p, l->g, q.n))
        by_channel(&q, &y);
    else
        short_windows(&q, &y);
    opaque_finish(l, q.y, &y);
}
