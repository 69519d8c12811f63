/* tensor_window.c: builds windows and convolutions, and reads their attributes.
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"
#include "ir/tensor_internal.h"

/* Words of the attributes, by axis. */
typedef struct {
    int64_t out[MAX_RANK], size[MAX_RANK], lo[MAX_RANK];
    int64_t stride[MAX_RANK], dilation[MAX_RANK], spread[MAX_RANK];
} Words;

static void fill_words(const Window *w, uint32_t n, Words *to)
{
    CHECK(n <= MAX_RANK);
    for (uint32_t i = 0; i < n; i++) {
        to->out[i] = (int64_t)w[i].out.id;
        to->size[i] = (int64_t)w[i].size.id;
        to->lo[i] = (int64_t)w[i].lo.id;
        to->stride[i] = w[i].stride;
        to->dilation[i] = w[i].dilation;
        to->spread[i] = w[i].spread;
    }
}

static Attr words_of(const Words *w, AttrName name, uint32_t n)
{
    switch (name) {
    case ATTR_out:
        return attr_words(w->out, n);
    case ATTR_size:
        return attr_words(w->size, n);
    case ATTR_lo:
        return attr_words(w->lo, n);
    case ATTR_stride:
        return attr_words(w->stride, n);
    case ATTR_dilation:
        return attr_words(w->dilation, n);
    case ATTR_spread:
        return attr_words(w->spread, n);
    default:
        die("a window has no attribute %s", attr_text(name));
    }
}

static Val build_windows(Builder *b, Op op, const Val *in, uint32_t nin, const Window *w,
                         uint32_t n, Attr other)
{
    Words words;
    fill_words(w, n, &words);
    const OpInfo *info = op_info(op);
    Attr attrs[MAX_ATTRS];
    for (int i = 0; i < info->nattrs; i++) {
        const AttrName name = info->attrs[i];
        attrs[i] = name == ATTR_axes || name == ATTR_groups ? other : words_of(&words, name, n);
    }
    return build(b, op, in, nin, attrs);
}

Val build_window(Builder *b, Val x, Val value, const int64_t *axes, uint32_t n, const Window *w)
{
    return build_windows(b, OP_window, (Val[]){x, value}, value.node ? 2 : 1, w, n,
                         attr_words(axes, n));
}

Val build_fold(Builder *b, Val y, const int64_t *axes, uint32_t n, const Window *w)
{
    return build_windows(b, OP_fold, &y, 1, w, n, attr_words(axes, n));
}

Val build_unwindow(Builder *b, Val y, const int64_t *axes, uint32_t n, const Window *w)
{
    return build_windows(b, OP_unwindow, &y, 1, w, n, attr_words(axes, n));
}

Val build_conv(Builder *b, Val x, Val w, const Window *axes, int64_t groups)
{
    const uint32_t n = val_info(b->p, b->g, x)->rank - 2u;
    return build_windows(b, OP_conv, (Val[]){x, w}, 2, axes, n, attr_words(&groups, 1));
}

uint32_t node_windows(const Program *p, const Graph *g, const Node *n, Window *w)
{
    const uint32_t count = node_attr(n, ATTR_out).n;
    const bool conv = n->op == OP_conv;
    const TypeInfo *of = val_info(p, g, n->in[conv]);
    for (uint32_t i = 0; i < count; i++)
        w[i] = (Window){.out = node_dim(n, ATTR_out, i),
                        .size = n->op == OP_window ? node_dim(n, ATTR_size, i)
                                                   : of->shape[of->rank - count + i],
                        .lo = node_dim(n, ATTR_lo, i),
                        .stride = node_attr(n, ATTR_stride).at[i],
                        .dilation = node_attr(n, ATTR_dilation).at[i],
                        .spread = node_attr(n, ATTR_spread).at[i]};
    return count;
}
