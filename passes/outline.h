/* outline.h: what the files of pass outline share: an attention that was found in a graph, written
 * out as products and a softmax. SPDX-License-Identifier: MIT */
#ifndef TENON_OUTLINE_H
#define TENON_OUTLINE_H

#include "passes/analysis.h"

/* What an axis counts. N: B and H in one; ONE: nothing, its size is 1; D: elements of a vector. */
typedef enum { AXIS_B, AXIS_H, AXIS_T, AXIS_S, AXIS_N, AXIS_ONE, AXIS_D } Axis;
enum { COUNTED = 5 }; /* axes that have a size */

typedef struct {
    uint32_t rank;
    Axis at[MAX_RANK];
} Axes;

/* A tensor that the score hook reads, and what its axes count. */
typedef struct {
    Val val;
    Axes axes;
} Captured;

enum { MOST_CAPTURED = 12 }; /* while the hook is made */

typedef struct {
    Val node;
    Axes axes;
    Val made;
} HookMemo;

typedef struct {
    Program *p;
    const Graph *g;
    DimTable *t;
    Arena *a;
    const uint32_t *uses; /* of each node, by live nodes, results.. */
    bool **active;        /* what a derivative depends on; NULL: none is taken */
    /* what was found */
    uint32_t root;     /* the product with v */
    Val v, scores;     /* scores: the product of q and k */
    uint32_t weights;  /* which operand of root the weights are */
    uint32_t q;        /* which operand of the scores' product is q */
    Axes of_scores;    /* the axes of that product's result */
    Dim size[COUNTED]; /* by axis; {0}: not known */
    Val key;           /* of a dropout, or {0, 0} */
    double drop;
    VEC(uint32_t) inside; /* nodes that nobody else reads */
    /* the hook: scalars; ir/tensor.h */
    Builder hook;
    Val params[HOOK_CAPTURED + MOST_CAPTURED];
    Captured captured[MOST_CAPTURED];
    uint32_t ncaptured, work;
    bool *dependent; /* node: is made of the scores */
    VEC(HookMemo) memo;
    /* what it comes to */
    Attention how;        /* bias, captured: see below */
    int32_t bias, factor; /* captured tensors: added to scores, q is multiplied by; or -1 */
    bool divides;         /* q is divided by `factor` */
    Graph *made;          /* the hook, or NULL */
    uint32_t reads[ATTENTION_CAPTURES]; /* what its parameters are */
} Outline;

/** Whether an axis of x counts this. */
bool axes_have(const Axes *x, Axis axis);

/** Whether the axes of a tensor count as many as elsewhere; sizes that are new are noted. */
bool axes_agree(Outline *w, const TypeInfo *t, const Axes *axes);

/** What the axes of a view's operand count. False: they cannot be told. */
bool axes_below(DimTable *t, const Program *p, const Graph *g, const Node *view, Axes of,
                Axes *out);

/** y is the softmax of *z along *axis; the nodes between them are added to `inside`. */
bool match_softmax(Outline *w, const Graph *g, Val y, Val *z, uint32_t *axis, bool inside);

/** Makes the hook of what stands between the scores' product and the softmax, and takes out of it
 * what attention has attributes and operands for. */
bool outline_scores(Outline *w, Val z, Axes axes);

/** The pieces of the hook that attention has words for; the rest as a graph of its own. */
bool outline_hook(Outline *w, Val root);

#endif
