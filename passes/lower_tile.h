/* lower_tile.h: a product of any operands as tiles of our own, on CUDA. SPDX-License-Identifier:
 * MIT
 */
#ifndef TENON_LOWER_TILE_H
#define TENON_LOWER_TILE_H

#include "passes/lower_internal.h"

/* c(m, n) (+)= sum over k of a(m, k) b(n, k), for each batch. */
typedef struct TileProduct TileProduct;
struct TileProduct {
    const FuseGroup *grp;
    Val result;            /* the value that c is */
    DType in, out;         /* elements of both operands; of c */
    Dim batch[2], m, n, k; /* batch: 1 where absent */
    Dim inner; /* {0}; or what n is made of: c has axes [n / inner, batch 1, m, inner], and there is
                  no batch 0 */
    Loc to;    /* c as [batch 0, batch 1, m, n], or by those axes */
    Sym name;
    bool accumulate;
    const FuseOperand *sum; /* where the sums over k of one operand go, too; NULL: nowhere */
    bool sum_of_a;
    bool by_k[2]; /* neighbours along k are read together where neither axis lies so in memory */
    /* A load of a's (b's) element in memory, or a select of it and 0. */
    KExpr (*element)(const TileProduct *p, KBuild *b, bool of_b, const Dim *batch, Dim row, Dim k);
    const void *of; /* of `element` */
};

/** A tile may be of these elements. */
bool tile_has_type(DType in, DType out);

/** What is made of it: SMALL and LARGE tiles are of 64 and 128 results a side, BEST is up to the
 * sizes. */
typedef enum { TILE_BEST, TILE_SMALL, TILE_LARGE } TileSize;

/** Whether tiles make the sums of an operand: the shares of a long k are joined by the last block.
 */
bool tile_sums(Lower *l, const TileProduct *p);

/** The kernels of a product, with the groups behind Lower.group as far as they read one of its
 * results at a time; Lower.group is then the last of them. On tensor cores where its type has them,
 * and once more without, for devices that have none. followed: false, and nothing was made, if no
 * group goes with it. lone: none shall. */
bool tile_product(Lower *l, const TileProduct *p, TileSize size, bool followed, bool lone);

/** Whether both sizes make sense for the product. */
bool tile_has_sizes(Lower *l, const TileProduct *p);

/** Holds for alternative `which` of a choice that the runtime measures. */
static inline GuardTerm tile_alternative(uint32_t choice, int which)
{
    return (GuardTerm){.kind = G_CHOICE, .k = (int64_t)choice * 256 + which};
}

#endif
