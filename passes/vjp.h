/* vjp.h: between differentiate.c (the walk) and vjp*.c (one rule an op). Internal to passes/.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_VJP_H
#define TENON_VJP_H

#include "ir/tensor.h"

/* State of one reverse walk. Tables cover the nodes that exist when it starts. */
typedef struct {
    Builder *b;
    Program *p;
    Graph *g;
    uint32_t n;    /* nodes at the start */
    bool **stop;   /* [node][result]: cotangents are collected here, and go no further; or NULL */
    bool **active; /* [node][result]: depends on what is differentiated */
    struct Terms **terms; /* [node][result]: cotangents that arrived, not yet added up */
    bool failed;
} Reverse;

/* A rule. `n` is a copy of the node; dy[k] is {0,0} where nothing arrived at result k. It calls
 * vjp_give for its operands. */
typedef void VjpRule(Reverse *r, uint32_t id, const Node *n, const Val *dy);

/** True if operand k of the node is to get a cotangent. */
bool vjp_wants(const Reverse *r, const Node *n, uint32_t k);
/** Adds d to what operand k gets; d {0,0} is nothing. */
void vjp_give(Reverse *r, const Node *n, uint32_t k, Val d);
/** Reports that `n` cannot be differentiated (once a walk). */
void vjp_refuse(Reverse *r, const Node *n, DiagKind kind, const char *why);

/** The rule of an op, NULL if it has no derivative (its results are constants to the walk). */
VjpRule *vjp_rule(Op op);

/** [node][result] (or NULL): which values depend on `wrt` in a way that has a derivative. */
bool **vjp_active(Builder *b, const Val *wrt, uint32_t nwrt);

/** Pointwise rows of ops.def (vjp_rows.c). */
bool vjp_row_exists(Op op); /* some operand has a derivative */
VjpRule vjp_pointwise;
/** `differentiate` that stops at the values of `wrt`: what arrives at one goes no further up. */
bool vjp_differentiate_to(Builder *b, const Val *y, const Val *dy, uint32_t ny, const Val *wrt,
                          uint32_t nwrt, Val *out);
VjpRule vjp_window, vjp_fold, vjp_conv; /* vjp_window.c */
VjpRule vjp_scatter, vjp_sort;
VjpRule vjp_attention, vjp_attention_grad; /* vjp_attention.c */
VjpRule vjp_reduce, vjp_cumulate, vjp_dot, vjp_gather, vjp_call, vjp_scan;

/* Builder helpers: `back` makes the node belong to the backward stage even if all its operands are
 * forward values. Without it a node of forward values stays forward, and may be saved. */
Val vjp_op1(Reverse *r, bool back, Op op, Val x);
Val vjp_op2(Reverse *r, bool back, Op op, Val x, Val y);
Val vjp_op3(Reverse *r, bool back, Op op, Val x, Val y, Val z);
/** Runs `expr` with the builder's stage at backward. */
#define VJP_BACK(r, expr) (vjp_stage((r), STAGE_BACKWARD), (expr))
#define VJP_FORE(r, expr) (vjp_stage((r), -1), (expr))
void vjp_stage(Reverse *r, int stage);

/** x, reduced away or spread over the axes that are not in `axes`: to the shape of `like`. */
Val vjp_spread(Reverse *r, bool back, Val x, const TypeInfo *like, const int64_t *axes,
               uint32_t naxes);
/** Sums d (of a shape to which `to` broadcasts) down to the shape of `to`. */
Val vjp_unbroadcast(Reverse *r, Val d, const TypeInfo *to);
/** A 0-d value of type t: a size, or 1 over it. */
Val vjp_size(Reverse *r, DType t, Dim d);
Val vjp_one_over(Reverse *r, DType t, Dim d);
Val vjp_full(Reverse *r, double v, const TypeInfo *like);

#endif
