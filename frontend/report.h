/* report.h: `-report`: what each kernel and method costs. SPDX-License-Identifier: MIT */
#ifndef TENON_REPORT_H
#define TENON_REPORT_H

#include "codegen/ptxas.h"
#include "frontend/ceilings.h"
#include "ir/host.h"

/** A size given on the command line (`B=64`): overrides the hint. */
typedef struct {
    const char *name;
    int64_t value;
} ReportSize;

/** What a report is about, besides the model. */
typedef struct {
    bool cuda;
    int sm;                 /* of the architecture, as in sm_80; cuda only */
    const KernelUses *uses; /* what kernels need of a multiprocessor; NULL: not known */
    Ceilings ceilings;      /* of the machine; for html only */
    const ReportSize *sizes;
    int nsizes;
} Report;

/** Names of the sizes that a model has, each once, into `names`. How many: at most `max`. */
int report_sizes(const HostModel *m, const char **names, int max);
/** Whether several sizes of a model have the name of this symbol, and it is not the first. */
bool report_repeated(const HostModel *m, uint32_t symbol);

void report_text(const HostModel *m, const Report *r, StrBuf *out);
void report_json(const HostModel *m, const Report *r, StrBuf *out);
/** One page: its head, each model of the file, its end. */
void report_html_head(const char *title, StrBuf *out);
void report_html(const HostModel *m, const Report *r, StrBuf *out);
void report_html_tail(StrBuf *out);

#endif
