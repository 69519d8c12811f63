/* vjp_window.c: derivatives of window, fold and conv: a closed family.
 *
 *   y = window x {stride=s}     dx = fold dy {stride=s}          y = fold x    dx = window dy
 *   y = conv x, w {stride=s, dilation=d, spread=e}
 *     dx = conv dy, w' {stride=e, dilation=d, spread=s}     w' turned round, channels swapped
 *     dw = conv x', dy' {stride=d, dilation=s, spread=e}    x', dy' with batch and channels swapped
 *
 * SPDX-License-Identifier: MIT */
#include "passes/vjp.h"

void vjp_window(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id;
    TypeInfo x = *val_info(r->p, r->g, n->in[0]);
    const Attr axes = node_attr(n, ATTR_axes);
    Window w[MAX_RANK];
    node_windows(r->p, r->g, n, w);
    for (uint32_t i = 0; i < axes.n; i++)
        w[i].out = x.shape[axes.at[i]];
    vjp_stage(r, STAGE_BACKWARD);
    vjp_give(r, n, 0, build_fold(r->b, dy[0], axes.at, axes.n, w));
}

void vjp_fold(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id;
    TypeInfo y = *val_info(r->p, r->g, n->in[0]);
    const Attr axes = node_attr(n, ATTR_axes);
    Window w[MAX_RANK];
    node_windows(r->p, r->g, n, w);
    for (uint32_t i = 0; i < axes.n; i++)
        w[i].out = y.shape[axes.at[i]];
    vjp_stage(r, STAGE_BACKWARD);
    vjp_give(r, n, 0, build_window(r->b, dy[0], (Val){0, 0}, axes.at, axes.n, w));
}

/* --- conv ------------------------------------------------------------------------------------- */

typedef struct {
    Builder *b;
    DimTable *t;
    TypeInfo x, w; /* of the operands */
    uint32_t n;    /* windowed axes */
    int64_t groups;
    Window axes[MAX_RANK];
} Conv;

/* v[g*A, B, s..] becomes [g*B, A, s..]; with `outer`, v[A, g*B, s..] becomes [B, g*A, s..]: the two
 * leading axes change places inside each group. */
static Val swapped(const Conv *c, Val v, bool outer)
{
    const TypeInfo ty = *val_info(c->b->p, c->b->g, v);
    int64_t perm[MAX_RANK];
    for (uint32_t i = 0; i < ty.rank; i++)
        perm[i] = i;
    if (c->groups == 1) {
        perm[0] = 1;
        perm[1] = 0;
        return build_transpose(c->b, v, perm);
    }
    const Dim g = dim_const(c->t, c->groups);
    const Dim first = outer ? ty.shape[0] : dim_floordiv(c->t, ty.shape[0], g);
    const Dim second = outer ? dim_floordiv(c->t, ty.shape[1], g) : ty.shape[1];
    /* the axis of the groups goes along with the first of the two */
    Dim split[MAX_RANK], joined[MAX_RANK];
    Val out = v;
    const uint32_t spatial = ty.rank - 2u;
    for (uint32_t i = 0; i < spatial; i++)
        joined[2 + i] = ty.shape[2 + i];
    split[0] = outer ? first : g;
    split[1] = outer ? g : first;
    split[2] = second;
    joined[0] = outer ? second : dim_mul(c->t, g, second);
    joined[1] = outer ? dim_mul(c->t, g, first) : first;
    /* sizes of windows join into one axis for the moment: ranks stay within bounds */
    Dim rest = dim_const(c->t, 1);
    for (uint32_t i = 0; i < spatial; i++)
        rest = dim_mul(c->t, rest, ty.shape[2 + i]);
    split[3] = rest;
    out = build_reshape(c->b, out, split, 4);
    out = build_transpose(c->b, out, outer ? (int64_t[]){2, 1, 0, 3} : (int64_t[]){0, 2, 1, 3});
    return build_reshape(c->b, out, joined, ty.rank);
}

static Val turned_round(const Conv *c, Val w)
{
    const TypeInfo ty = *val_info(c->b->p, c->b->g, w);
    Dim start[MAX_RANK];
    int64_t step[MAX_RANK];
    for (uint32_t i = 0; i < ty.rank; i++) {
        const bool turn = i >= 2 && !dim_is_one(c->t, ty.shape[i]);
        start[i] = turn ? dim_sub(c->t, ty.shape[i], dim_const(c->t, 1)) : dim_const(c->t, 0);
        step[i] = turn ? -1 : 1;
    }
    return build_slice(c->b, w, start, step, ty.shape);
}

/* dx[i] = sum of dy[o] * w[k] with o * stride = i * spread + lo - k * dilation; k counted from the
 * other end, this is a window over dy. */
static Val of_x(const Conv *c, Val w, Val dy)
{
    Window axes[MAX_RANK];
    for (uint32_t i = 0; i < c->n; i++) {
        const Window *a = &c->axes[i];
        const Dim last = dim_sub(c->t, a->size, dim_const(c->t, 1));
        axes[i] = (Window){.out = c->x.shape[2 + i],
                           .stride = a->spread,
                           .dilation = a->dilation,
                           .spread = a->stride};
        axes[i].lo = dim_sub(c->t, dim_mul(c->t, dim_const(c->t, a->dilation), last), a->lo);
    }
    return build_conv(c->b, dy, turned_round(c, swapped(c, w, false)), axes, c->groups);
}

/* dw[m, c, k] = sum over n, o of dy[n, m, o] * x[n, c, o * stride + k * dilation - lo] */
static Val of_w(const Conv *c, Val x, Val dy)
{
    Window axes[MAX_RANK];
    Val images = swapped(c, x, true), filters = dy;
    int64_t perm[MAX_RANK];
    for (uint32_t i = 0; i < c->x.rank; i++)
        perm[i] = i;
    perm[0] = 1;
    perm[1] = 0;
    filters = build_transpose(c->b, filters, perm);
    for (uint32_t i = 0; i < c->n; i++) {
        const Window *a = &c->axes[i];
        axes[i] = (Window){.out = a->size,
                           .lo = a->lo,
                           .stride = a->dilation,
                           .dilation = a->stride,
                           .spread = a->spread};
    }
    return build_transpose(c->b, build_conv(c->b, images, filters, axes, c->groups), perm);
}

void vjp_conv(Reverse *r, uint32_t id, const Node *n, const Val *dy)
{
    (void)id;
    Conv c = {.b = r->b,
              .t = r->p->cx->dims,
              .x = *val_info(r->p, r->g, n->in[0]),
              .w = *val_info(r->p, r->g, n->in[1]),
              .groups = node_int(n, ATTR_groups)};
    c.n = node_windows(r->p, r->g, n, c.axes);
    vjp_stage(r, STAGE_BACKWARD);
    if (vjp_wants(r, n, 0))
        vjp_give(r, n, 0, of_x(&c, n->in[1], dy[0]));
    if (vjp_wants(r, n, 1))
        vjp_give(r, n, 1, of_w(&c, n->in[0], dy[0]));
}
