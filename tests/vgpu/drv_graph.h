/* drv_graph.h: graphs, and their executable form. SPDX-License-Identifier: MIT */
#ifndef VGPU_DRV_GRAPH_H
#define VGPU_DRV_GRAPH_H

#include "tests/vgpu/drv.h"

Graph *graph_new(void);
void graph_end(Graph *g);
/** Its nodes in an order that their dependencies allow, in `out` (g->n of them); false: a cycle. */
bool graph_sort(const Graph *g, GraphNode **out);
/** A graph launched on a stream that captures: its nodes become one. */
CUresult capture_add_child(Stream *s, Graph *child);
typedef struct GraphExec GraphExec;
/** The work that a node of the graph became, or NULL. */
Work *exec_work(GraphExec *e, const GraphNode *n);
/** Whether a node's kind of work is the same: an executable graph may take its values over. */
bool work_matches(const Work *a, const Work *b);

#endif
