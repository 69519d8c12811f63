/* loop.h: scans: a node whose body is a graph of its own.
 *
 *   %h, %ys = scan %h0, %xs, %w {trip=T, loop=t, body=3, counts=[1, 1]} : f32[B,H], f32[T,B,H]
 *   graph @step body (%h, %x, %w) { .. return %new_h, %y }        %x is xs[t]
 *
 * Operands: carries as they begin, xs (sliced along axis 0, one slice a turn), constants. Results
 * of the body: new carries, then what is stacked. Results of the scan: for each carry its last
 * value, or, where `keep` lists it, all T + 1 of them by time: slot t is what turn t starts from
 * (of a reverse scan, which runs from T - 1 down: what turn t ends with; slot t + 1 what it starts
 * from). Sizes in the body may mention the loop's symbol. SPDX-License-Identifier: MIT */
#ifndef TENON_LOOP_H
#define TENON_LOOP_H

#include "ir/tensor.h"

/* A scan node, taken apart. */
typedef struct {
    const Graph *body;
    uint32_t graph; /* its index */
    Dim trip;
    Symbol loop;
    bool reverse;
    uint32_t ncarry, nxs, nconst, nys;
} Loop;

Loop loop_of(const Program *p, const Node *n);
bool loop_keeps(const Node *n, uint32_t carry);
/** The slot of a kept carry from which a turn starts, or which it fills. */
Dim loop_slot(const Program *p, const Loop *l, bool after);
/** The node of an attribute or body that mentions the symbol. */
bool node_mentions(const Program *p, const Node *n, Symbol s);

/** Builds a scan; keep[c]: all values of carry c. nin operands, carries first. */
Val build_scan(Builder *b, uint32_t body, Dim trip, Symbol loop, bool reverse, uint32_t ncarry,
               uint32_t nxs, const bool *keep, const Val *in, uint32_t nin);
/** The last value of carry c of a scan. */
Val loop_last(Builder *b, Val scan, uint32_t c);
/** All values of a kept carry that turns start from (after: end with), one a turn: [T, ..]. */
Val loop_values(Builder *b, Val scan, uint32_t c, bool after);
/** x[at] along axis 0, without that axis. */
Val build_at(Builder *b, Val x, Dim at);

/* --- from a trace to a scan (loop_build.c) -----------------------------------------------------
 */

/* One turn was traced into the builder's graph itself, behind node `first`: what depends on the
 * carries or on the loop's symbol becomes the body; all else is invariant and stays where it is.
 * Contractions that depend on no carry are made for all turns at once before the loop; those that
 * feed no carry, behind it. */
typedef struct {
    Dim trip;
    Symbol loop;
    bool reverse;
    Sym name;       /* of the body */
    uint32_t first; /* nodes from here on are of the turn */
    uint32_t ncarry;
    const Val *init, *before, *after; /* before: placeholders of loop_placeholder */
    uint32_t nyield;
    const Val *yield;
    const bool *sum; /* yield k is added up over the turns, not stacked; or NULL */
    uint32_t nknown; /* values of the turn whose values of all turns are there already: known_all */
    const Val *known, *known_all;
    bool segment; /* a turn is k turns of the user's: no product leaves it, as what the product
                   * needs would then be there for all turns at once */
} LoopTrace;

/** A value that stands for a carry while a turn is traced. */
Val loop_placeholder(Builder *b, Ty type, int stage);
/** last[c]: carry c after the loop; out[k]: yield k, stacked or summed. NULL, or why it cannot be
 * (and *at, a node that is to blame). */
const char *loop_build(Builder *b, const LoopTrace *t, Val *last, Val *out, uint32_t *at);

/* --- one value for all turns (loop_batch.c) ----------------------------------------------------
 */

typedef struct {
    Builder *b;
    Dim trip;
    Symbol loop;
    bool *can;  /* [node]: can be made for all turns at once */
    bool *dep;  /* [node]: depends on the turn */
    Val **made; /* [node][result]: with a leading axis of turns; node 0: not yet */
    uint32_t n;
} Batch;

/** Whether a rule exists for the node, given that its operands can (batch->can). */
bool batch_can(const Batch *q, uint32_t id);
/** The value with a leading axis of turns; it depends on the turn. */
Val batch_value(Batch *q, Val v);
/** The sum over all turns of a value that depends on the turn; only where batch_can. */
Val batch_sum(Batch *q, Val v);

#endif
