/* place.c: on which device each value lives. One place so far: the default one.
 * SPDX-License-Identifier: MIT */
#include "passes/pipeline.h"

bool pass_place(Pipeline *pl)
{
    Program *p = pl->p;
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        const Graph *g = p->graphs.at[i];
        for (uint32_t id = 1; id < g->nodes.n; id++) {
            const Node *n = &g->nodes.at[id];
            for (uint32_t k = 0; k < n->nout; k++) {
                if (type_info(p, n->types[k])->place == PLACE_D0)
                    continue;
                diag_report(p->cx->diags, DIAG_not_supported, n->site.at,
                            "several devices in one model are not supported yet");
                return false;
            }
        }
    }
    return true;
}
