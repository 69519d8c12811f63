/* cuda_internal.h: shared by cuda.c (statements and loops), cuda_vector.c (loops whose lanes own
 * neighbours), cuda_tile.c (products) and cuda_total.c (joins over lanes and teams).
 * SPDX-License-Identifier: MIT */
#ifndef TENON_CUDA_INTERNAL_H
#define TENON_CUDA_INTERNAL_H

#include "codegen/cuda.h"

typedef struct {
    KText t;
    int lanes, teams;
    bool cooperate;     /* teams of a block share a cell: there are loops over teams */
    bool cell_per_lane; /* grid lanes */
    int cell_width;     /* grid lanes: neighbouring cells that a lane owns */
    bool in_lanes, in_teams;
    int lane_loops;   /* loops over lanes in the kernel */
    bool heavy_loops; /* some are not unrolled as the compiler likes */
    int loops;        /* loops around this statement that run more than once */
} Cuda;

static inline DimTable *cuda_dims(const Cuda *c)
{
    return c->t.p->cx->dims;
}
const char *cuda_name(const Cuda *c, Sym s);
void cuda_block(Cuda *c, const KBlock *b);

/** The body of a loop over lanes, for `width` neighbours a lane. */
void cuda_lane_body(Cuda *c, const KStmt *s, int width, const char *registers);

/** A product as tiles: its hooks, and in place the body of its kernel. */
void cuda_tile(Cuda *c, const char *name, const Symbol *sizes, uint32_t nsizes, StrBuf *hooks);

/** A map as tiles of 32 x 32, operands that lie across turned in shared memory. */
void cuda_turned(Cuda *c);

/** The body of a lanes loop for `width` neighbours from `axis` on. */
void cuda_vector_body(Cuda *c, const KStmt *loop, int width, const char *registers);

/** All totals of b->at[first..end) together: shuffles, then shared memory, one barrier. */
void cuda_totals(Cuda *c, const KBlock *b, uint32_t first, uint32_t end);

#endif
