/* lower_conv.h: a convolution that is lowered, and its forms on GPUs. SPDX-License-Identifier: MIT
 */
#ifndef TENON_LOWER_CONV_H
#define TENON_LOWER_CONV_H

#include "passes/conv.h"
#include "passes/lower_opaque.h"

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

static inline Dim conv_num(const Conv *q, int64_t k)
{
    return dim_const(q->t, k);
}

/** The convolution on a GPU, and the groups behind it that go with it (Lower.group is then the last
 * of them). */
void lower_conv_cuda(Conv *q);

#endif
