/* report.h: `-report`: what each kernel and method costs. SPDX-License-Identifier: MIT */
#ifndef TENON_REPORT_H
#define TENON_REPORT_H

#include "codegen/ptxas.h"
#include "ir/host.h"

/** A size given on the command line (`B=64`): overrides the hint. */
typedef struct {
    const char *name;
    int64_t value;
} ReportSize;

/** Names of the sizes that a model has, each once, into `names`. How many: at most `max`. */
int report_sizes(const HostModel *m, const char **names, int max);

/** `uses`: what kernels for CUDA need of a multiprocessor, or NULL where that is not known. */
void report_text(const HostModel *m, bool cuda, const KernelUses *uses, const ReportSize *sizes,
                 int nsizes, StrBuf *out);
void report_json(const HostModel *m, bool cuda, const KernelUses *uses, const ReportSize *sizes,
                 int nsizes, StrBuf *out);

#endif
