/* tensor_internal.h: what the builder, the type rules and the folder share.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_TENSOR_INTERNAL_H
#define TENON_TENSOR_INTERNAL_H

#include "ir/tensor.h"

enum { MAX_RESULTS = 64 };

/** The result types of an op (infer.c): NULL, or why the operands do not fit. A `call` may have
 * more results than others; `types` holds MAX_RESULTS. */
const char *infer_types(Builder *b, Op op, const Val *in, uint32_t nin, const Attr *attrs,
                        Ty *types, uint32_t *n);

/** The same of a scan (loop.c). */
const char *infer_scan(Builder *b, const Val *in, uint32_t nin, const Attr *attrs, Ty *types,
                       uint32_t *nout);

/** A simpler equal value, or {0} (fold.c, fold_views.c). `stage` is what the node would get. */
Val fold_node(Builder *b, Op op, const Val *in, uint32_t nin, const Attr *attrs, Ty type,
              int stage);
Val fold_view(Builder *b, Op op, const Val *in, uint32_t nin, const Attr *attrs, Ty type);
/** Sums of pads along one axis that lie side by side become a concat. */
Val fold_pads(Builder *b, Val x, Val y);

/** x + y where one is a sum of updates on zeros: it begins with the other (tensor_index.c). */
Val fold_scatter_sum(Builder *b, Val x, Val y);

/** The scalar that fills v: a const, or a broadcast of one; its node, or NULL. */
const Node *val_fill(const Graph *g, Val v);
bool val_is_fill(const Program *p, const Graph *g, Val v, double value);

/** The node as it is asked for (hash-consed, not folded); used by the copying of inputs too. */
Val node_append(Builder *b, const Node *n);

/** Position of an attribute in the row of op. */
int attr_index(Op op, AttrName name);

/* --- what the printer and the parser of the text agree on
 * ----------------------------------------- */

/** "param", "hyper", ...; "method", "step", ... */
const char *slot_kind_text(SlotKind kind);
const char *graph_kind_text(GraphKind kind);
enum { SLOT_KINDS = SLOT_CALLS + 1, GRAPH_KINDS = GRAPH_CHECK + 1 };

/** Attributes that the result type (or the rank) gives are not printed. */
typedef enum { SHOWN, FROM_SHAPE, FROM_DTYPE, ALL_ZERO, ALL_ONE } AttrDefault;
AttrDefault attr_default(Op op, AttrName name);

static inline Attr attr_words(const int64_t *at, uint32_t n)
{
    return (Attr){at, n};
}

/* Words of a list of sizes; `words` holds n. */
static inline Attr attr_dims(int64_t *words, const Dim *d, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        words[i] = (int64_t)d[i].id;
    return (Attr){words, n};
}

static inline Dim attr_dim(Attr a, uint32_t i)
{
    return (Dim){(uint32_t)a.at[i]};
}

#endif
