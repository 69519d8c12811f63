/* five.h: kernels made by hand, as lowering makes them, for tests of the printers.
 * SPDX-License-Identifier: MIT */
#ifndef TESTS_CODEGEN_FIVE_H
#define TESTS_CODEGEN_FIVE_H

#include "ir/host.h"

typedef struct {
    Ctx *cx;
    Program *p;
    VEC(Kernel *) kernels;
} Five;

/** All kernels: cell (map), xent, layernorm_bwd (rows), colsum (reduce), and more; `cuda` chooses
 * lanes, teams and vectors. */
Five five_make(bool cuda);
void five_free(Five *f);

#endif
