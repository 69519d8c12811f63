/* lower_conv.c: convolutions over one or two axes. On CPUs a function of runtime/kernels/conv.h
 * reads images and weights where views put them; on GPUs the windows are stored, for a product.
 *
 *   %y = conv %x, %w            cpu: conv by rows of an image; conv_long where the windows are
 * larger than what they slide over (gradients of weights) cuda: windows [G, C, k.., N, o..], and a
 * gemm for each image and group
 *
 * SPDX-License-Identifier: MIT */
#include "passes/conv.h"
#include "passes/lower_opaque.h"

#include <string.h>

enum {
    PIXELS = 512
}; /* of a cell, about: its rows are a constant, so that bits depend on nothing */

typedef struct {
    Lower *l;
    DimTable *t;
    const FuseGroup *grp;
    const Node *n;
    DType type;
    Val y;
    Loc x, w;            /* [N, G*C, h, w], [G*M, C, h, w] */
    Window axes[2];      /* h, w */
    Dim images, in, out; /* N, C, M */
    int64_t groups;
    Dim size[2]; /* of x */
} Conv;

static Dim num(const Conv *q, int64_t k)
{
    return dim_const(q->t, k);
}

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
        at.shape[k] = none ? num(q, 1) : ty.shape[from];
        at.stride[k] = none ? num(q, 0) : view->stride[from];
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
        q.axes[0] = (Window){.out = num(&q, 1),
                             .size = num(&q, 1),
                             .lo = num(&q, 0),
                             .stride = 1,
                             .dilation = 1,
                             .spread = 1};
    }
    q.images = q.x.shape[0];
    q.in = q.w.shape[1];
    q.out = dim_floordiv(l->t, q.w.shape[0], num(&q, q.groups));
    q.size[0] = q.x.shape[2];
    q.size[1] = q.x.shape[3];
    return q;
}

/* --- CPU -------------------------------------------------------------------------------------- */

static void give_operands(const Conv *q, OpaqueCall *c, const Loc *y)
{
    opaque_arg(c, y, q->type, K_OUT, lower_name(q->l, q->y));
    opaque_arg(c, &q->x, q->type, K_IN, lower_name(q->l, q->n->in[0]));
    opaque_arg(c, &q->w, q->type, K_IN, lower_name(q->l, q->n->in[1]));
}

static void give_sizes(const Conv *q, OpaqueCall *c)
{
    opaque_int(c, q->in);
    opaque_int(c, q->out);
    for (int i = 0; i < 2; i++)
        opaque_int(c, q->size[i]);
    for (int i = 0; i < 2; i++)
        opaque_int(c, q->axes[i].out);
    for (int i = 0; i < 2; i++)
        opaque_int(c, q->axes[i].size);
}

static void give_steps(const Conv *q, OpaqueCall *c)
{
    for (int i = 0; i < 4; i++)
        opaque_int(c, q->x.stride[i]);
    for (int i = 0; i < 4; i++)
        opaque_int(c, q->w.stride[i]);
    for (int i = 0; i < 2; i++)
        opaque_int(c, num(q, q->axes[i].stride));
    for (int i = 0; i < 2; i++)
        opaque_int(c, num(q, q->axes[i].dilation));
    for (int i = 0; i < 2; i++)
        opaque_int(c, q->axes[i].lo);
}

static void short_windows(const Conv *q, const Loc *y)
{
    OpaqueCall c = {.function = opaque_name(q->l, "conv", q->type)};
    int64_t wide, rows = 1;
    if (dim_is_const(q->t, q->axes[1].out, &wide) && wide > 0)
        rows = wide < PIXELS ? PIXELS / wide : 1;
    int64_t high; /* blocks of equal height */
    if (dim_is_const(q->t, q->axes[0].out, &high) && high > 0) {
        const int64_t blocks = (high + rows - 1) / rows;
        rows = (high + blocks - 1) / blocks;
    }
    give_operands(q, &c, y);
    opaque_grid(&c, dim_mul(q->t, q->images, num(q, q->groups)));
    opaque_grid(&c, dim_ceildiv(q->t, q->axes[0].out, num(q, rows)));
    opaque_int(&c, num(q, q->groups));
    give_sizes(q, &c);
    opaque_int(&c, num(q, rows));
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
    give_operands(q, &c, y);
    opaque_grid(&c, num(q, q->groups));
    opaque_grid(&c, dim_ceildiv(q->t, q->images, num(q, together)));
    opaque_grid(&c, dim_ceildiv(q->t, q->out, num(q, 16)));
    opaque_int(&c, q->images);
    opaque_int(&c, num(q, together));
    give_sizes(q, &c);
    give_steps(q, &c);
    opaque_int(&c, num(q, q->groups));
    opaque_call(q->l, &c, q->grp);
}

/* --- GPU -------------------------------------------------------------------------------------- */

/* x at a window's element, 0 outside. at: image, channel of the group, group, o, k. */
static KExpr window_element(const Conv *q, KBuild *b, uint32_t x, Dim image, Dim channel,
                            const Dim *o, const Dim *k)
{
    GuardTerm *terms = arena_array(q->l->a, GuardTerm, 4);
    uint32_t n = 0;
    KExprInfo load = {.kind = KE_LOAD, .type = q->type, .param = x};
    load.at[0] = dim_is_one(q->t, q->images) ? num(q, 0) : image;
    load.at[1] = channel;
    for (int i = 0; i < 2; i++) {
        const Window *a = &q->axes[i];
        Dim at = dim_add(q->t, dim_mul(q->t, o[i], num(q, a->stride)),
                         dim_mul(q->t, k[i], num(q, a->dilation)));
        at = dim_sub(q->t, at, a->lo);
        const Dim last = dim_sub(q->t, q->size[i], num(q, 1));
        if (dim_le(q->t, num(q, 0), at) != YES)
            terms[n++] = (GuardTerm){.kind = G_LE, .a = num(q, 0), .b = at};
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

/* [G, C, k.., N, o..]; for long windows [G, N, o.., C, k..]. */
static Loc store_windows(const Conv *q, bool lengthy)
{
    const Window *h = &q->axes[0], *w = &q->axes[1];
    const Dim inside[] = {q->in, h->size, w->size}, outside[] = {q->images, h->out, w->out};
    Dim shape[7] = {num(q, q->groups)};
    memcpy(shape + 1, lengthy ? outside : inside, sizeof inside);
    memcpy(shape + 4, lengthy ? inside : outside, sizeof inside);
    const Loc to = opaque_temp(q->l, "windows", q->type, shape, 7);
    KBuild *b = kbuild_begin(q->l, lower_kernel_name(q->l, q->grp), CLASS_MAP);
    Symbol axes[7];
    Dim at[7];
    uint32_t n = 0;
    for (int i = 0; i < 7; i++) {
        at[i] = num(q, 0);
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
    s->batch[1] = num(q, q->groups);
    s->text = lower_text(q->l, q->y);
    const Dim all = dim_mul(q->t, product(q, m, n, batch), s->batch[1]);
    if (dim_le(q->t, num(q, 1), all) == YES)
        return s;
    GuardTerm *g = arena_new(q->l->a, GuardTerm);
    *g = (GuardTerm){.kind = G_LT, .a = num(q, 0), .b = all};
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
    const Dim k = product(q, q->in, q->axes[0].size, q->axes[1].size), zero = num(q, 0);
    const Dim p = dim_mul(q->t, q->axes[0].out, q->axes[1].out), all = dim_mul(q->t, q->images, p);
    Step *s = gemm(q, q->out, p, k, q->images);
    s->a = (GemmOperand){.buf = w.buf, .offset = w.offset, .rows = k, .cols = num(q, 1)};
    s->a.batch[0] = zero;
    s->a.batch[1] = dim_mul(q->t, q->out, k);
    s->b = (GemmOperand){.buf = cols.buf, .offset = zero, .rows = all, .cols = num(q, 1)};
    s->b.batch[0] = p;
    s->b.batch[1] = dim_mul(q->t, k, all);
    s->c = (GemmOperand){.buf = y->buf, .offset = y->offset, .rows = p, .cols = num(q, 1)};
    s->c.batch[1] = dim_mul(q->t, q->out, p);
    s->c.batch[0] = dim_mul(q->t, s->c.batch[1], num(q, q->groups));
}

/* t[g, m, (n, o)] = sum over c, k of w[g, m, (c, k)] * windows[g, (n, o), (c, k)], then y[n, g, m,
 * o] */
static void product_of_long_windows(const Conv *q, const Loc *y)
{
    const Loc w = dense_weights(q), cols = store_windows(q, true);
    const Dim k = product(q, q->in, q->axes[0].size, q->axes[1].size), zero = num(q, 0);
    const Dim p = dim_mul(q->t, q->axes[0].out, q->axes[1].out), all = dim_mul(q->t, q->images, p);
    const Dim shape[] = {num(q, q->groups), q->out, q->images, p};
    const Loc to = opaque_temp(q->l, "sums", q->type, shape, 4);
    Step *s = gemm(q, q->out, all, k, num(q, 1));
    s->a = (GemmOperand){.buf = w.buf, .offset = w.offset, .rows = k, .cols = num(q, 1)};
    s->a.batch[0] = zero;
    s->a.batch[1] = dim_mul(q->t, q->out, k);
    s->b = (GemmOperand){.buf = cols.buf, .offset = zero, .rows = num(q, 1), .cols = k};
    s->b.batch[0] = zero;
    s->b.batch[1] = dim_mul(q->t, k, all);
    s->c = (GemmOperand){.buf = to.buf, .offset = zero, .rows = all, .cols = num(q, 1)};
    s->c.batch[0] = zero;
    s->c.batch[1] = dim_mul(q->t, q->out, all);
    Loc from = to; /* by y's axes */
    const Dim order[] = {q->images, num(q, q->groups), q->out, p};
    const uint32_t axis[] = {2, 0, 1, 3};
    for (int i = 0; i < 4; i++) {
        from.shape[i] = order[i];
        from.stride[i] = to.stride[axis[i]];
    }
    const Loc whole = loc_row_major(q->t, y->buf, y->offset, order, 4);
    lower_copy_loc(q->l, &whole, &from, q->type, lower_name(q->l, q->y), q->grp->site);
}

void lower_conv(Lower *l, const FuseGroup *grp)
{
    const Conv q = conv_of(l, grp);
    const Loc y = opaque_result(l, q.y);
    const bool lengthy = conv_is_long(l->p, l->g, q.n);
    if (l->o->cuda && lengthy)
        product_of_long_windows(&q, &y);
    else if (l->o->cuda)
        product_of_windows(&q, &y);
    else if (lengthy)
        long_windows(&q, &y);
    else
        short_windows(&q, &y);
    opaque_finish(l, q.y, &y);
}
