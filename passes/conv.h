/* conv.h: which convolutions stay as they are until they are lowered. SPDX-License-Identifier: MIT
 */
#ifndef TENON_PASSES_CONV_H
#define TENON_PASSES_CONV_H

#include "ir/tensor.h"

/* What runtime/kernels/conv.h has room for. */
enum { CONV_ROOM = 14000, CONV_TAPS = 512, CONV_LONG_TAPS = 128, CONV_SUMS = 2304 };

/** The windows are larger than what they slide over: a gradient of weights. */
bool conv_is_long(const Program *p, const Graph *g, const Node *n);
/** Each channel by itself, with one or more results: its rows are (image, channel). */
bool conv_by_channel(const Program *p, const Graph *g, const Node *n);
/** lower_conv.c has a form for it. */
bool conv_is_direct(const Program *p, const Graph *g, const Node *n);

#endif
