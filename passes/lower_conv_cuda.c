/* lower_conv_cuda.c: convolutions over one or two axes on GPUs: tiles that read the windows where
 * the image lies, and take along what follows; or, for few rows, stored windows and the library.
 *
 *   %y = conv %x, %w     y[n, m, o] = sum over c, k of w[m, (c, k)] * x[n, c, o * stride + k - lo]:
 *                        a product with a tile's rows m, columns o (of one image, or of all of
 *                        them), and k = (c, k)
 *   windows [G, C, k.., N, o..], and a gemm for each image and group
 *
 * SPDX-License-Identifier: MIT */
#include "passes/lower_conv.h"
#include "passes/lower_tile.h"

#include <string.h>

enum {
    FEW = 8, /* rows or columns that are too few for a tile */
    SIDE = 64
};

/* --- windows where they are ----------------------------------------------------------------------
 */

/* x at a window's element, 0 outside. at: image, channel of the group, group, o, k. */
static KExpr window_element(const Conv *q, KBuild *b, uint32_t x, Dim image, Dim channel,
                            const Dim *o, const Dim *k)
{
    GuardTerm *terms = arena_array(q->l->a, GuardTerm, 4);
    uint32_t n = 0;
    KExprInfo load = {.kind = KE_LOAD, .type = q->type, .param = x};
    load.at[0] = dim_is_one(q->t, q->images) ? conv_num(q, 0) : image;
    load.at[1] = channel;
    for (int i = 0; i < 2; i++) {
        const Window *a = &q->axes[i];
        Dim at = dim_add(q->t, dim_mul(q->t, o[i], conv_num(q, a->stride)),
                         dim_mul(q->t, k[i], conv_num(q, a->dilation)));
        at = dim_sub(q->t, at, a->lo);
        const Dim last = dim_sub(q->t, q->size[i], conv_num(q, 1));
        if (dim_le(q->t, conv_num(q, 0), at) != YES)
            terms[n++] = (GuardTerm){.kind = G_LE, .a = conv_num(q, 0), .b = at};
        if (dim_le(q->t, at, last) != YES)
            terms[n++] = (GuardTerm){.kind = G_LE, .a = at, .b = last};
        load.at[2 + i] = at;
    }
    const KExpr e = kernel_expr(q->l->p, b->k, load);
    if (!n)
        return e;
    return kernel_expr(q->l->p, b->k,
                       (KExprInfo){.kind = KE_SELECT,
                                   .type = q->type,
                                   .nin = 2,
                                   .in = {e, kbuild_const(b, q->type, 0)},
                                   .pred = {terms, n}});
}

/* (channel, k..) of what a window has, and (h, w) of a pixel. */
static void split_index(const Conv *q, Dim at, const Dim *shape, uint32_t n, Dim *of)
{
    const Dim flat[] = {dim_product(q->t, shape, n)};
    index_reshape(q->t, shape, n, flat, 1, &at, of);
}

static KExpr tile_element(const TileProduct *p, KBuild *b, bool of_b, const Dim *batch, Dim row,
                          Dim k)
{
    const Conv *q = p->of;
    const Dim inside[] = {q->in, q->axes[0].size, q->axes[1].size};
    const Dim pixels[] = {q->axes[0].out, q->axes[1].out};
    Dim in[3], o[2], image = batch[0];
    split_index(q, k, inside, 3, in);
    if (!of_b) {
        KExprInfo w = {.kind = KE_LOAD, .type = q->type};
        w.param = kbuild_param(b, &q->w, q->type, K_IN, lower_name(q->l, q->n->in[1]));
        w.at[0] = dim_add(q->t, dim_mul(q->t, batch[1], q->out), row);
        for (int i = 0; i < 3; i++)
            w.at[1 + i] = in[i];
        return kernel_expr(q->l->p, b->k, w);
    }
    if (p->inner.id) {
        image = dim_floordiv(q->t, row, p->inner);
        row = dim_mod(q->t, row, p->inner);
    }
    split_index(q, row, pixels, 2, o);
    const uint32_t x = kbuild_param(b, &q->x, q->type, K_IN, lower_name(q->l, q->n->in[0]));
    const Dim channel = dim_add(q->t, dim_mul(q->t, batch[1], q->in), in[0]);
    return window_element(q, b, x, image, channel, o, in + 1);
}

/* Pixels of an image fill tiles rather well; else those of all images stand in one row. */
static bool by_image(const Conv *q, Dim pixels)
{
    const double n = dim_hint(q->t, pixels);
    return dim_is_one(q->t, q->images) ||
           SIDE * (double)(int64_t)((n + SIDE - 1) / SIDE) <= 1.2 * n;
}

static TileProduct tile_of(Conv *q)
{
    const Dim inside[] = {q->in, q->axes[0].size, q->axes[1].size};
    const Dim pixels = dim_mul(q->t, q->axes[0].out, q->axes[1].out),
              groups = conv_num(q, q->groups);
    const bool lengthy = conv_is_long(q->l->p, q->l->g, q->n);
    const Loc *y = lower_loc(q->l, q->y);
    const TypeInfo ty = *val_info(q->l->p, q->l->g, q->y);
    TileProduct p = {.grp = q->grp,
                     .result = q->y,
                     .in = q->type,
                     .out = q->type,
                     .batch = {q->images, groups},
                     .m = q->out,
                     .n = pixels,
                     .k = dim_product(q->t, inside, 3),
                     .name = lower_name(q->l, q->y),
                     .by_k = {true, lengthy},
                     .element = tile_element,
                     .of = q};
    if (!by_image(q, pixels)) {
        p.batch[0] = conv_num(q, 1);
        p.n = dim_mul(q->t, q->images, pixels);
        p.inner = pixels;
    }
    const Dim shape[] = {q->images, groups, q->out, pixels};
    p.to = loc_row_major(q->t, y->buf, y->offset, shape, 4);
    /* the pixels may lie anywhere, as long as they are in a row */
    p.to.stride[0] = y->stride[0];
    p.to.stride[1] = dim_mul(q->t, q->out, y->stride[1]);
    p.to.stride[2] = y->stride[1];
    p.to.stride[3] = y->stride[ty.rank - 1];
    return p;
}

/* The result's pixels are one axis where it lies. */
static bool has_place(const Conv *q)
{
    const Loc *y = lower_loc(q->l, q->y);
    return y->rank < 4 || dim_is_one(q->t, y->shape[2]) ||
           dim_same(y->stride[2], dim_mul(q->t, y->shape[3], y->stride[3]));
}

static bool fits_tile(const Conv *q, const TileProduct *p)
{
    const bool many = dim_hint(q->t, p->m) > FEW && dim_hint(q->t, p->n) > FEW;
    return tile_has_type(q->type, q->type) && has_place(q) && (many || q->l->o->no_cublas);
}

/* --- windows that are stored --------------------------------------------------------------------
 */

/* [G, C, k.., N, o..]; for long windows [G, N, o.., C, k..]. */
static Loc store_windows(const Conv *q, bool lengthy)
{
    const Window *h = &q->axes[0], *w = &q->axes[1];
    const Dim inside[] = {q->in, h->size, w->size}, outside[] = {q->images, h->out, w->out};
    Dim shape[7] = {conv_num(q, q->groups)};
    memcpy(shape + 1, lengthy ? outside : inside, sizeof inside);
    memcpy(shape + 4, lengthy ? inside : outside, sizeof inside);
    const Loc to = opaque_temp(q->l, "windows", q->type, shape, 7);
    KBuild *b = kbuild_begin(q->l, lower_kernel_name(q->l, q->grp), CLASS_MAP);
    Symbol axes[7];
    Dim at[7];
    uint32_t n = 0;
    for (int i = 0; i < 7; i++) {
        at[i] = conv_num(q, 0);
        if (dim_is_one(q->t, shape[i]))
            continue;
        axes[n] = kbuild_axis(b, shape[i]);
        at[i] = dim_of(q->t, axes[n++]);
    }
    const Dim *in = at + (lengthy ? 4 : 1), *out = at + (lengthy ? 1 : 4);
    const uint32_t x = kbuild_param(b, &q->x, q->type, K_IN, lower_name(q->l, q->n->in[0]));
    const Dim channel = dim_add(q->t, dim_mul(q->t, at[0], q->in), in[0]);
    const KExpr e = window_element(q, b, x, out[0], channel, out + 1, in + 1);
    KBlock stores = {0};
    KStmt *s = kblock_add(q->l->p, &stores, KS_STORE);
    s->param = kbuild_param(b, &to, q->type, K_OUT, sym_of(q->l->p->cx->names, "windows"));
    s->expr = e;
    s->site = q->n->site;
    for (int i = 0; i < 7; i++)
        s->at[i] = at[i];
    map_finish(b, axes, n, &stores, q->grp->site, lower_text(q->l, q->y));
    return to;
}

static Dim product(const Conv *q, Dim a, Dim b, Dim c)
{
    return dim_mul(q->t, dim_mul(q->t, a, b), c);
}

static Step *gemm(const Conv *q, Dim m, Dim n, Dim k, Dim batch)
{
    Step *s = lower_step(q->l, STEP_GEMM, q->grp->site);
    s->m = m;
    s->n = n;
    s->k = k;
    s->batch[0] = batch;
    s->batch[1] = conv_num(q, q->groups);
    s->text = lower_text(q->l, q->y);
    const Dim all = dim_mul(q->t, product(q, m, n, batch), s->batch[1]);
    if (dim_le(q->t, conv_num(q, 1), all) == YES)
        return s;
    GuardTerm *g = arena_new(q->l->a, GuardTerm);
    *g = (GuardTerm){.kind = G_LT, .a = conv_num(q, 0), .b = all};
    s->when = (Guard){g, 1};
    return s;
}

static Loc dense_weights(const Conv *q)
{
    if (loc_is_row_major(q->t, &q->w))
        return q->w;
    const Loc to = opaque_temp(q->l, "filters", q->type, q->w.shape, 4);
    lower_copy_loc(q->l, &to, &q->w, q->type, sym_of(q->l->p->cx->names, "filters"), q->grp->site);
    return to;
}

/* y[n, g, m, o] = sum over c, k of w[g, m, (c, k)] * windows[g, (c, k), n, o] */
static void product_of_windows(const Conv *q, const Loc *y)
{
    const Loc w = dense_weights(q), cols = store_windows(q, false);
    const Dim k = product(q, q->in, q->axes[0].size, q->axes[1].size), zero = conv_num(q, 0);
    const Dim p = dim_mul(q->t, q->axes[0].out, q->axes[1].out), all = dim_mul(q->t, q->images, p);
    Step *s = gemm(q, q->out, p, k, q->images);
    s->a = (GemmOperand){.buf = w.buf, .offset = w.offset, .rows = k, .cols = conv_num(q, 1)};
    s->a.batch[0] = zero;
    s->a.batch[1] = dim_mul(q->t, q->out, k);
    s->b = (GemmOperand){.buf = cols.buf, .offset = zero, .rows = all, .cols = conv_num(q, 1)};
    s->b.batch[0] = p;
    s->b.batch[1] = dim_mul(q->t, k, all);
    s->c = (GemmOperand){.buf = y->buf, .offset = y->offset, .rows = p, .cols = conv_num(q, 1)};
    s->c.batch[1] = dim_mul(q->t, q->out, p);
    s->c.batch[0] = dim_mul(q->t, s->c.batch[1], conv_num(q, q->groups));
}

/* t[g, m, (n, o)] = sum over c, k of w[g, m, (c, k)] * windows[g, (n, o), (c, k)], then y[n, g, m,
 * o] */
static void product_of_long_windows(const Conv *q, const Loc *y)
{
    const Loc w = dense_weights(q), cols = store_windows(q, true);
    const Dim k = product(q, q->in, q->axes[0].size, q->axes[1].size), zero = conv_num(q, 0);
    const Dim p = dim_mul(q->t, q->axes[0].out, q->axes[1].out), all = dim_mul(q->t, q->images, p);
    const Dim shape[] = {conv_num(q, q->groups), q->out, q->images, p};
    const Loc to = opaque_temp(q->l, "sums", q->type, shape, 4);
    Step *s = gemm(q, q->out, all, k, conv_num(q, 1));
    s->a = (GemmOperand){.buf = w.buf, .offset = w.offset, .rows = k, .cols = conv_num(q, 1)};
    s->a.batch[0] = zero;
    s->a.batch[1] = dim_mul(q->t, q->out, k);
    s->b = (GemmOperand){.buf = cols.buf, .offset = zero, .rows = conv_num(q, 1), .cols = k};
    s->b.batch[0] = zero;
    s->b.batch[1] = dim_mul(q->t, k, all);
    s->c = (GemmOperand){.buf = to.buf, .offset = zero, .rows = all, .cols = conv_num(q, 1)};
    s->c.batch[0] = zero;
    s->c.batch[1] = dim_mul(q->t, q->out, all);
    Loc from = to; /* by y's axes */
    const Dim order[] = {q->images, conv_num(q, q->groups), q->out, p};
    const uint32_t axis[] = {2, 0, 1, 3};
    for (int i = 0; i < 4; i++) {
        from.shape[i] = order[i];
        from.stride[i] = to.stride[axis[i]];
    }
    const Loc whole = loc_row_major(q->t, y->buf, y->offset, order, 4);
    lower_copy_loc(q->l, &whole, &from, q->type, lower_name(q->l, q->y), q->grp->site);
}

static void stored_windows(Conv *q)
{
    const Loc y = opaque_result(q->l, q->y);
    if (conv_is_long(q->l->p, q->l->g, q->n))
        product_of_long_windows(q, &y);
    else
        product_of_windows(q, &y);
    opaque_finish(q->l, q->y, &y);
}

/* Tiles of one or two sizes, and the library, as alternatives that the runtime measures. What
 * follows is lowered as usual, too, as part of the library's (Lower.choice). */
static void all_forms(Conv *q, const TileProduct *p)
{
    static const TileSize sizes[] = {TILE_SMALL, TILE_LARGE};
    Lower *l = q->l;
    const uint32_t first = l->group, choice = l->h->nchoices++;
    const bool both = tile_has_sizes(l, p);
    for (int i = 0; i < 1 + both; i++) {
        const uint32_t from = l->h->steps.n;
        tile_product(l, p, both ? sizes[i] : TILE_BEST, false, false);
        steps_when(l, from, tile_alternative(choice, 1 + i));
        l->choice_last = l->group > first ? l->group : l->choice_last;
        l->group = l->group_first = first;
    }
    l->choice = tile_alternative(choice, 0);
    const uint32_t from = l->h->steps.n;
    stored_windows(q);
    steps_when(l, from, l->choice);
    steps_when(l, from, (GuardTerm){.kind = G_HAS, .k = HAS_CUBLAS});
}

void lower_conv_cuda(Conv *q)
{
    const TileProduct p = tile_of(q);
    if (!fits_tile(q, &p))
        stored_windows(q);
    else if (q->l->o->tune && !q->l->o->no_cublas)
        all_forms(q, &p);
    else
        tile_product(q->l, &p, TILE_BEST, false, false);
}
