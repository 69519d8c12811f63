/* pipeline.h: what the passes share while they run. Internal to passes/.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_PIPELINE_H
#define TENON_PIPELINE_H

#include "passes/pass.h"

/* A training graph with its derivatives: behind the first nresults results are gradients, behind
 * the first nparams parameters cotangents, behind the first ncommits commits gradient slots. */
typedef struct {
    uint32_t graph; /* index */
    uint32_t nresults, nparams, ncommits;
} Joint;

typedef struct {
    Program *p;
    const PassOptions *o;
    VEC(Joint) joints;
} Pipeline;

#define PASS(name, required, doc) bool pass_##name(Pipeline *pl);
#include "passes/passes.def"
#undef PASS

/** Copies a graph: live nodes only. final: calls are inlined and detach goes, as no derivative is
 * taken any more. */
Graph *simplify_graph(Program *p, Graph *g, bool final);

/** Copies a graph; implicit broadcasts become nodes (broadcast.c). */
Graph *broadcast_graph(Program *p, Graph *g);

/** Drops what nobody reads of scans: as pass scan does, for when readers went. */
Graph *tidy_scans(Program *p, Graph *g);

/** Which nodes belong to backward and update (scratch): they depend on a cotangent, or have a later
 * stage and no result, commit or effect of forward needs them. j is NULL for a step or grad graph:
 * everything of stage 0 is forward there. */
bool *graph_backward(const Program *p, const Graph *g, const Joint *j);

/** The joint of a graph, or NULL. */
const Joint *pipeline_joint(const Pipeline *pl, uint32_t graph);

#endif
