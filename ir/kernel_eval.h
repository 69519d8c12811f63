/* kernel_eval.h: runs kernels and host programs one element at a time, as their text says, so that
 * lowering can be compared with the evaluator of tensor IR. Not fast, and tied to no target.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_KERNEL_EVAL_H
#define TENON_KERNEL_EVAL_H

#include "ir/eval_scalar.h"
#include "ir/host.h"

/* Memory of a buffer; elements as in EvalTensor. */
typedef struct {
    DType dtype;
    int64_t n;
    ScalarValue *at;
} KernelArray;

/** Runs a kernel. operands[i]: parameter i's array, with offset[i] elements added to each index.
 * values: of symbols, by id; the kernel's axes are written there. *check is set to false when a
 * KS_CHECK fails. NULL on success, else why not (an index out of bounds). */
const char *kernel_eval(Program *p, const Kernel *k, const KernelArray *operands,
                        const int64_t *offset, int64_t *values, bool *check);

/** Runs a host program. buffers: by number; the caller provides ARG, STATE and (of a backward
 * program) TAPE arrays, the rest is allocated here. `values` has room for all symbols. */
const char *host_eval(HostModel *m, const HostProgram *h, KernelArray *buffers, int64_t *values,
                      bool *check);

#endif
