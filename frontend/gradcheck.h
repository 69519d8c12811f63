/* gradcheck.h: derivatives against central differences. SPDX-License-Identifier: MIT */
#ifndef TENON_GRADCHECK_H
#define TENON_GRADCHECK_H

#include "ir/tensor.h"

/** Compares every derivative of the check with central differences in f64, on the reference
 * evaluator: relative error at most 1e-6. The step shrinks where a kink is near. NULL when they
 * agree, else what does not (in perm). */
const char *gradcheck_run(Program *p, const GradCheck *c, uint64_t seed);

#endif
