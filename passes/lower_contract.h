/* lower_contract.h: operands of products, for the forms that products are lowered to.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_LOWER_CONTRACT_H
#define TENON_LOWER_CONTRACT_H

#include "passes/lower_tile.h"

DType contract_type(Lower *l, const FuseOperand *o);
/** Where the operand lies, by (batch, batch, row, col); axes that it lacks have extent 1. */
Loc contract_loc(Lower *l, const FuseOperand *o, Dim rows, Dim cols, const Dim *batch);
/** A parameter of rank 4 over (batch, batch, row, col); axes that the operand lacks have extent 1.
 */
uint32_t contract_param(KBuild *b, const FuseOperand *o, Dim rows, Dim cols, const Dim *batch,
                        KMode mode);
KExpr contract_load(KBuild *b, uint32_t param, Dim row, Dim col, const Dim *batch, DType t);

/** CUDA: the products as tiles of our own, with what follows them as far as it is one of their
 * results at a time; those groups are lowered then, too (Lower.group is the last of them). False:
 * some product cannot be one, and nothing was lowered. followed: only if something follows. */
bool lower_tile(Lower *l, const FuseGroup *grp, TileSize size, bool followed);
/** Tiles of both sizes make sense for the first product. */
bool lower_tile_sizes(Lower *l, const FuseGroup *grp);

#endif
