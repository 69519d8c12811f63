/* conv.c: what kernels have no words for becomes what they have. Convolutions over one or two axes
 * stay, if lower_conv.c can do them; those that are products do not.
 *
 *   %y = conv %x, %w               %y = dot %w, transpose(window %x)     one product: the window is
 *                                                                        an operand that is stored
 *   %y = conv %x, %w {1 x 1}       %y = dot %w, %x
 *   %y = conv %x, %w {groups=C}    %y = reduce mul(window %x, broadcast %w) {add}
 *   %y = conv %x, %w {spread=2}    %y = fold dot(%w', %x)                no product with a zero
 *   %y = fold %x                   %y = reduce (unwindow %x) {add}
 *   %y = fold %x {side by side}    %y = reshape (transpose %x)
 *
 * SPDX-License-Identifier: MIT */
#include "passes/conv.h"

#include "passes/analysis.h"
#include "passes/pipeline.h"

enum { FEW_CHANNELS = 4 }; /* products of fewer rows than this do not pay: sums do */

typedef struct {
    Builder *b;
    DimTable *t;
    Val x, w;
    TypeInfo xt, wt;
    uint32_t n; /* windowed axes */
    int64_t groups;
    Window axes[MAX_RANK];
    Dim images, in, out; /* in, out: channels of a group */
} Conv;

static int64_t count_of(const Conv *c, Dim d, int64_t otherwise)
{
    int64_t n;
    return dim_is_const(c->t, d, &n) ? n : otherwise;
}

/* Elements of a window, or of what it slides over. */
static double elements(DimTable *t, const Window *w, uint32_t n, bool windows)
{
    double product = 1;
    for (uint32_t i = 0; i < n; i++)
        product *= dim_hint(t, windows ? w[i].size : w[i].out);
    return product;
}

/* A gradient of weights. */
static bool is_long(DimTable *t, const Window *w, uint32_t n)
{
    return elements(t, w, n, true) > elements(t, w, n, false);
}

/* --- fold ------------------------------------------------------------------------------------- */

/* y with its last n axes in front of `n` others: what is reduced away stands outside of the pixels,
 * over which a kernel runs. The axes reduced are then `at`, at + 1, .. */
static Val windows_before(Builder *b, Val y, uint32_t at, uint32_t n)
{
    const uint32_t rank = val_info(b->p, b->g, y)->rank;
    int64_t perm[MAX_RANK];
    for (uint32_t i = 0; i < rank; i++)
        perm[i] = i < at ? i : i < at + n ? rank - n + (i - at) : i - n;
    return build_transpose(b, y, perm);
}

static Val fold_sum(Builder *b, Val y, const int64_t *axes, uint32_t n, const Window *w)
{
    const uint32_t first = (uint32_t)axes[0];
    const Val placed = windows_before(b, build_unwindow(b, y, axes, n, w), first, n);
    int64_t over[MAX_RANK];
    for (uint32_t i = 0; i < n; i++)
        over[i] = first + i;
    return build_reduce(b, RED_add, placed, over, n);
}

/* Windows side by side that fill their axes: each element has one place. */
static bool tiles(Builder *b, Val y, const int64_t *axes, uint32_t n, const Window *w)
{
    const TypeInfo *from = val_info(b->p, b->g, y);
    DimTable *t = b->p->cx->dims;
    for (uint32_t i = 0; i < n; i++) {
        int64_t size;
        if (!dim_is_const(t, w[i].size, &size) || w[i].stride != size || w[i].dilation != 1 ||
            w[i].spread != 1 || !dim_is_zero(t, w[i].lo) ||
            !dim_same(w[i].out, dim_mul(t, from->shape[axes[i]], w[i].size)))
            return false;
    }
    return true;
}

/* Each window's axes behind its place, and then they are one. */
static Val fold_tiles(Builder *b, Val y, const int64_t *axes, uint32_t n, const Node *fold)
{
    const TypeInfo to = *type_info(b->p, fold->types[0]);
    int64_t perm[MAX_RANK];
    uint32_t at = 0;
    for (uint32_t i = 0; i < to.rank; i++) {
        perm[at++] = i;
        for (uint32_t k = 0; k < n; k++)
            if (axes[k] == (int64_t)i)
                perm[at++] = to.rank + k;
    }
    return build_reshape(b, build_transpose(b, y, perm), to.shape, to.rank);
}

static void expand_fold(Rewrite *rw, uint32_t id)
{
    const Node n = rw->old->nodes.at[id];
    Window w[MAX_RANK];
    node_windows(rw->b.p, rw->old, &n, w);
    const Attr axes = node_attr(&n, ATTR_axes);
    const Val y = rewrite_get(rw, n.in[0]);
    rewrite_set(rw, (Val){id, 0},
                tiles(&rw->b, y, axes.at, axes.n, w)
                    ? fold_tiles(&rw->b, y, axes.at, axes.n, &n)
                    : fold_sum(&rw->b, y, axes.at, axes.n, w));
}

/* --- pieces ----------------------------------------------------------------------------------- */

/* x as [N, G, C, s..] (without G where there is one group). */
static Val images_by_group(const Conv *c)
{
    if (c->groups == 1)
        return c->x;
    Dim shape[MAX_RANK] = {c->images, dim_const(c->t, c->groups), c->in};
    for (uint32_t i = 0; i < c->n; i++)
        shape[3 + i] = c->xt.shape[2 + i];
    return build_reshape(c->b, c->x, shape, 3 + c->n);
}

/* w as [G, M, C, k..]. */
static Val weights_by_group(const Conv *c, Val w)
{
    if (c->groups == 1)
        return w;
    const TypeInfo ty = *val_info(c->b->p, c->b->g, w);
    Dim shape[MAX_RANK] = {dim_const(c->t, c->groups), c->out, c->in};
    for (uint32_t i = 0; i < c->n; i++)
        shape[3 + i] = ty.shape[2 + i];
    return build_reshape(c->b, w, shape, 3 + c->n);
}

/* [G, M, N, o..] (or with k.. behind M) to [N, G*M, o.., k..]. */
static Val images_first(const Conv *c, Val y, uint32_t nk)
{
    const uint32_t g = c->groups > 1, rank = val_info(c->b->p, c->b->g, y)->rank;
    int64_t perm[MAX_RANK];
    uint32_t at = 0;
    perm[at++] = g + 1 + nk;
    for (uint32_t i = 0; i <= g; i++)
        perm[at++] = i;
    for (uint32_t i = g + 2 + nk; i < rank; i++)
        perm[at++] = i;
    for (uint32_t i = 0; i < nk; i++)
        perm[at++] = g + 1 + i;
    y = build_transpose(c->b, y, perm);
    if (!g)
        return y;
    const TypeInfo ty = *val_info(c->b->p, c->b->g, y);
    Dim shape[MAX_RANK] = {ty.shape[0], dim_mul(c->t, ty.shape[1], ty.shape[2])};
    for (uint32_t i = 3; i < ty.rank; i++)
        shape[i - 1] = ty.shape[i];
    return build_reshape(c->b, y, shape, ty.rank - 1u);
}

/* --- forms ------------------------------------------------------------------------------------ */

/* Windows of one element that are x itself. */
static bool is_pointwise(const Conv *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const Window *a = &c->axes[i];
        if (!dim_is_one(c->t, a->size) || a->stride != 1 || a->spread != 1 ||
            !dim_is_zero(c->t, a->lo) || !dim_same(a->out, c->xt.shape[2 + i]))
            return false;
    }
    return true;
}

/* w[G, M, C] times x[N, G, C, s..]. */
static Val pointwise_form(const Conv *c)
{
    const uint32_t g = c->groups > 1;
    Dim shape[3] = {dim_const(c->t, c->groups), c->out, c->in};
    const Val w = build_reshape(c->b, c->w, shape + !g, 2 + g);
    const Val x = images_by_group(c);
    const int64_t batch_w = 0, batch_x = 1, axis_w = 1 + (int64_t)g, axis_x = 1 + (int64_t)g;
    return images_first(
        c, build_dot(c->b, w, x, &batch_w, &batch_x, g, &axis_w, &axis_x, 1, c->xt.dtype), 0);
}

/* One row a group: nothing of x is used twice by the rows. The sum runs over the channels of the
 * group and the window. */
static bool is_sum(const Conv *c)
{
    const int64_t out = count_of(c, c->out, FEW_CHANNELS), in = count_of(c, c->in, 2);
    return c->groups > 1 && (out == 1 || (in == 1 && out < FEW_CHANNELS)) &&
           (in == 1 || 3 + 2 * c->n <= MAX_RANK);
}

static Val sum_form(const Conv *c)
{
    const bool deep = !dim_is_one(c->t, c->in);
    const Dim rows = c->wt.shape[0];
    Val x = c->x;
    uint32_t lead = 2;
    if (deep) {
        x = images_by_group(c); /* [N, G, C, s..], and a row for each group */
        lead = 3;
    } else if (!dim_is_one(c->t, c->out)) {
        Dim wide[MAX_RANK] = {c->images, c->in, c->out}, flat[MAX_RANK] = {c->images, rows};
        int64_t dims[MAX_RANK] = {0, 1};
        wide[1] = dim_const(c->t, c->groups);
        for (uint32_t i = 0; i < c->n; i++) {
            wide[3 + i] = flat[2 + i] = c->xt.shape[2 + i];
            dims[2 + i] = 3 + i;
        }
        x = build_broadcast(c->b, x, wide, 3 + c->n, dims);
        x = build_reshape(c->b, x, flat, 2 + c->n);
    }
    int64_t axes[MAX_RANK], dims[MAX_RANK], over[MAX_RANK];
    for (uint32_t i = 0; i < c->n; i++)
        axes[i] = lead + i;
    x = build_window(c->b, x, (Val){0, 0}, axes, c->n, c->axes);
    x = windows_before(c->b, x, lead, c->n);
    const TypeInfo ty = *val_info(c->b->p, c->b->g, x);
    Dim shape[MAX_RANK] = {rows, c->in};
    uint32_t rank = 1 + deep, nover = 0;
    for (uint32_t i = 0; i <= deep; i++)
        dims[i] = 1 + i;
    if (deep)
        over[nover++] = 2;
    for (uint32_t i = 0; i < c->n; i++) {
        shape[rank] = c->axes[i].size;
        dims[rank++] = over[nover++] = lead + i;
    }
    const Val w =
        build_broadcast(c->b, build_reshape(c->b, c->w, shape, rank), ty.shape, ty.rank, dims);
    const DType wide = dtype_compute(ty.dtype);
    const Val y = build2(c->b, OP_mul, build_cast(c->b, x, wide), build_cast(c->b, w, wide));
    return build_cast(c->b, build_reduce(c->b, RED_add, y, over, nover), ty.dtype);
}

static bool is_spread(const Conv *c)
{
    bool any = false;
    for (uint32_t i = 0; i < c->n; i++) {
        any |= c->axes[i].spread > 1;
        if (c->axes[i].stride != 1)
            return false;
    }
    return any && (c->groups == 1 || c->n < 3);
}

/* w turned round, [G, M, k.., C]. */
static Val weights_turned(const Conv *c)
{
    Dim start[MAX_RANK];
    int64_t step[MAX_RANK], perm[MAX_RANK];
    for (uint32_t i = 0; i < c->wt.rank; i++) {
        const bool turn = i >= 2 && !dim_is_one(c->t, c->wt.shape[i]);
        start[i] = turn ? dim_sub(c->t, c->wt.shape[i], dim_const(c->t, 1)) : dim_const(c->t, 0);
        step[i] = turn ? -1 : 1;
    }
    const Val w = weights_by_group(c, build_slice(c->b, c->w, start, step, c->wt.shape));
    const uint32_t g = c->groups > 1;
    for (uint32_t i = 0; i <= g; i++)
        perm[i] = i;
    for (uint32_t i = 0; i < c->n; i++)
        perm[1 + g + i] = 2 + g + i;
    perm[1 + g + c->n] = 1 + g;
    return build_transpose(c->b, w, perm);
}

/* Each element of x times the turned weights, added up where the products lie. */
static Val spread_form(const Conv *c)
{
    const uint32_t g = c->groups > 1;
    const int64_t batch_w = 0, batch_x = 1, axis_w = 1 + g + c->n, axis_x = 1 + (int64_t)g;
    Val y = build_dot(c->b, weights_turned(c), images_by_group(c), &batch_w, &batch_x, g, &axis_w,
                      &axis_x, 1, c->xt.dtype);
    y = images_first(c, y, c->n);
    int64_t axes[MAX_RANK];
    Window w[MAX_RANK];
    for (uint32_t i = 0; i < c->n; i++) {
        const Window *a = &c->axes[i];
        const Dim last = dim_sub(c->t, a->size, dim_const(c->t, 1));
        axes[i] = 2 + i;
        w[i] = (Window){.out = a->out, .stride = a->spread, .dilation = a->dilation, .spread = 1};
        w[i].lo = dim_sub(c->t, dim_mul(c->t, dim_const(c->t, a->dilation), last), a->lo);
    }
    return fold_sum(c->b, y, axes, c->n, w);
}

/* The window as an operand of a product, in the order in which it is stored: the pixels of all
 * images last, be they the result's or (for the gradient of weights) contracted. */
static Val product_form(const Conv *c)
{
    const uint32_t g = c->groups > 1, n = c->n, spatial = 2 + g;
    int64_t axes[MAX_RANK], perm[MAX_RANK], axis_w[MAX_RANK], axis_x[MAX_RANK];
    for (uint32_t i = 0; i < n; i++)
        axes[i] = spatial + i;
    const Val x = build_window(c->b, images_by_group(c), (Val){0, 0}, axes, n, c->axes);
    const bool weights = is_long(c->t, c->axes, n);
    uint32_t at = 0;
    if (g)
        perm[at++] = 1;
    perm[at++] = weights ? 0 : 1 + (int64_t)g;
    for (uint32_t i = 0; i < n; i++)
        perm[at++] = weights ? spatial + i : spatial + n + i;
    perm[at++] = weights ? 1 + (int64_t)g : 0;
    for (uint32_t i = 0; i < n; i++)
        perm[at++] = weights ? spatial + n + i : spatial + i;
    const Val operand = build_transpose(c->b, x, perm);
    const int64_t batch = 0, contracted = weights ? 1 + g + n : g;
    for (uint32_t i = 0; i <= n; i++) {
        axis_w[i] = 1 + g + i;
        axis_x[i] = contracted + i;
    }
    const Val y = build_dot(c->b, weights_by_group(c, c->w), operand, &batch, &batch, g, axis_w,
                            axis_x, 1 + n, c->xt.dtype);
    return images_first(c, y, 0);
}

/* --- what stays ------------------------------------------------------------------------------- */

bool conv_is_long(const Program *p, const Graph *g, const Node *n)
{
    Window w[MAX_RANK];
    const uint32_t axes = node_windows(p, g, n, w);
    return is_long(p->cx->dims, w, axes);
}

/* Rows and columns that a cell packs for one channel, around the least that it works on. */
static bool has_room(const Program *p, const Window *w, uint32_t n, bool lengthy)
{
    int64_t taps = 1, high = 1, wide = 1, phases = 1;
    for (uint32_t i = 0; i < n; i++) {
        const Dim slides = lengthy ? w[i].out : w[i].size;
        const int64_t step = lengthy ? w[i].dilation : w[i].stride;
        const int64_t apart = lengthy ? w[i].stride : w[i].dilation;
        int64_t k, whole = 64;
        if (!dim_is_const(p->cx->dims, slides, &k) || k < 1 || k > CONV_TAPS)
            return false;
        if (lengthy && i + 1 == n && !dim_is_const(p->cx->dims, w[i].size, &whole))
            return false;
        taps *= k;
        phases *= step;
        if (i + 1 == n)
            wide = whole + (k - 1) * apart / step;
        else
            high = 3 + (k - 1) * apart / step;
    }
    const int64_t rows = lengthy ? 16 + phases * (high + 1) : phases * high;
    return taps <= (lengthy ? CONV_LONG_TAPS : CONV_TAPS) && rows * wide <= CONV_ROOM;
}

bool conv_is_direct(const Program *p, const Graph *g, const Node *n)
{
    Window w[MAX_RANK];
    const uint32_t axes = node_windows(p, g, n, w);
    const DType t = type_info(p, n->types[0])->dtype;
    if (axes > 2 || (t != DT_f32 && t != DT_f64))
        return false;
    for (uint32_t i = 0; i < axes; i++)
        if (w[i].spread != 1)
            return false;
    return has_room(p, w, axes, conv_is_long(p, g, n));
}

bool conv_by_channel(const Program *p, const Graph *g, const Node *n)
{
    return node_int(n, ATTR_groups) > 1 && conv_is_direct(p, g, n) && !conv_is_long(p, g, n) &&
           dim_is_one(p->cx->dims, val_info(p, g, n->in[1])->shape[1]);
}

/* --- choice ----------------------------------------------------------------------------------- */

static Val expand(const Conv *c);

static Val channels(const Conv *c, Val v, uint32_t axis, Dim each, int64_t k)
{
    return build_slice_axis(c->b, v, axis, dim_mul(c->t, each, dim_const(c->t, k)), each);
}

/* Group by group, where one product for all would have too many axes. */
static Val by_groups(const Conv *c)
{
    Val *parts = arena_array(c->b->p->cx->scratch, Val, (size_t)c->groups);
    for (int64_t k = 0; k < c->groups; k++) {
        Conv one = *c;
        one.x = channels(c, c->x, 1, c->in, k);
        one.w = channels(c, c->w, 0, c->out, k);
        one.xt = *val_info(c->b->p, c->b->g, one.x);
        one.wt = *val_info(c->b->p, c->b->g, one.w);
        one.groups = 1;
        parts[k] = expand(&one);
    }
    return build_concat(c->b, parts, (uint32_t)c->groups, 1);
}

static Val expand(const Conv *c)
{
    if (is_pointwise(c))
        return pointwise_form(c);
    if (is_sum(c))
        return sum_form(c);
    if (is_spread(c))
        return spread_form(c);
    if (c->groups > 1 && 3 + 2 * c->n > MAX_RANK)
        return by_groups(c);
    return product_form(c);
}

static void expand_conv(Rewrite *rw, uint32_t id)
{
    const Node n = rw->old->nodes.at[id];
    const bool direct = conv_is_direct(rw->b.p, rw->old, &n);
    Conv c = {.b = &rw->b,
              .t = rw->b.p->cx->dims,
              .x = rewrite_get(rw, n.in[0]),
              .w = rewrite_get(rw, n.in[1]),
              .groups = node_int(&n, ATTR_groups)};
    c.xt = *val_info(rw->b.p, rw->b.g, c.x);
    c.wt = *val_info(rw->b.p, rw->b.g, c.w);
    c.n = node_windows(rw->b.p, rw->old, &n, c.axes);
    c.images = c.xt.shape[0];
    c.in = c.wt.shape[1];
    c.out = dim_floordiv(c.t, c.wt.shape[0], dim_const(c.t, c.groups));
    if (direct && !is_pointwise(&c))
        rewrite_copy(rw, id);
    else
        rewrite_set(rw, (Val){id, 0}, expand(&c));
}

static bool has_windows(const Graph *g)
{
    for (uint32_t id = 1; id < g->nodes.n; id++)
        if (g->nodes.at[id].op == OP_conv || g->nodes.at[id].op == OP_fold)
            return true;
    return false;
}

static Graph *expand_graph(Program *p, Graph *g)
{
    Rewrite rw = rewrite_begin(p, g);
    for (uint32_t id = 1; id < g->nodes.n; id++) {
        const Node *n = &g->nodes.at[id];
        if (!rw.live[id])
            continue;
        if (n->op != OP_conv && n->op != OP_fold) {
            rewrite_copy(&rw, id);
            continue;
        }
        rw.b.site = n->site;
        rw.b.stage = n->stage;
        if (n->op == OP_conv)
            expand_conv(&rw, id);
        else
            expand_fold(&rw, id);
        val_hint(&rw.b, rewrite_get(&rw, (Val){id, 0}), g->nodes.at[id].hint);
        rw.b.stage = -1;
    }
    return rewrite_end(&rw);
}

bool pass_conv(Pipeline *pl)
{
    Program *p = pl->p;
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        Graph *g = p->graphs.at[i];
        if (g->kind != GRAPH_CHECK && has_windows(g))
            p->graphs.at[i] = simplify_graph(p, expand_graph(p, g), true);
    }
    return true;
}
