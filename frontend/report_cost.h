/* report_cost.h: what -report prints, in numbers: the forms of the report share them.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_REPORT_COST_H
#define TENON_REPORT_COST_H

#include "frontend/report.h"

/* A model at given sizes. */
typedef struct {
    const HostModel *m;
    const Report *r;
    int64_t *values; /* per symbol */
    Arena *a;
} At;

At report_at(const HostModel *m, const Report *r);
int64_t report_value(const At *at, Dim d);
/** Whether the step runs at these sizes: of several versions of a kernel one does. */
bool report_runs(const At *at, const Step *s);

/* One call of a kernel, or one product of matrices. Sums stop at the largest number. */
typedef struct {
    const char *name, *class, *lines; /* lines: "a.tn:3,8 b.tn:5" */
    int64_t read, written, least, flops;
    const Kernel *kernel; /* NULL: a product of the library */
    const KernelUse *use; /* NULL: not known */
} ReportWork;

/** Fills *w; false where the step is neither (a copy, a fill), or does not run. */
bool report_work(const At *at, const HostProgram *h, const Step *s, ReportWork *w);

/* What one method costs. */
typedef struct {
    int launches, products;
    int64_t read, written, least, flops;
    int64_t peak;  /* bytes of the arena of temporaries, placed as the runtime does: of the fullest
                      device */
    int64_t saved; /* bytes that wait for the backward pass */
} ReportCost;

ReportCost report_cost(const At *at, const HostProgram *h);

/* A buffer in the timeline: bytes [at, at + bytes) from step `first` to `last`. */
typedef struct {
    const char *name;
    bool saved; /* on the tape, else temporary */
    int64_t at, bytes;
    Place place; /* bytes are those of a device */
    uint32_t first, last;
} ReportBuffer;

typedef VEC(ReportBuffer) ReportBuffers;

ReportBuffers report_buffers(const At *at, const HostProgram *h);

int64_t report_sum(int64_t a, int64_t b);
/** a / b; 1 where nothing can be said. */
double report_ratio(int64_t a, int64_t b);

#endif
