/* report.c: -report as text. SPDX-License-Identifier: MIT */
#include "frontend/report_cost.h"

/* Registers, spilled bytes and shared bytes of a kernel, in columns. */
static const char *use_text(const At *at, const KernelUse *use)
{
    return !at->r->uses ? ""
           : use        ? arena_printf(at->a, " %5d %6d %7d", use->registers,
                                       use->spill_stores + use->spill_loads, use->shared)
                        : arena_printf(at->a, " %5s %6s %7s", "", "", "");
}

static void text_work(const At *at, const ReportWork *w, StrBuf *out)
{
    sb_printf(out, "  %-32s %-8s %12lld %12lld %12lld %8.2f%s  %s\n", w->name, w->class,
              (long long)w->read, (long long)w->written, (long long)w->flops,
              report_ratio(w->flops, report_sum(w->read, w->written)), use_text(at, w->use),
              w->lines);
}

static void text_sizes(const At *at, StrBuf *out)
{
    const Program *p = at->m->p;
    for (uint32_t i = 1; i <= dim_nsymbols(p->cx->dims); i++) {
        const SymbolInfo *s = dim_symbol(p->cx->dims, (Symbol){i});
        if (s->kind == SYM_SIZE && !report_repeated(at->m, i))
            sb_printf(out, " %s=%lld", sym_text(p->cx->names, s->name), (long long)at->values[i]);
    }
}

static void text_method(const At *at, const HostProgram *h, StrBuf *out)
{
    const ReportCost c = report_cost(at, h);
    const int64_t moved = report_sum(c.read, c.written);
    sb_printf(out,
              "\n%s: %d launches, %d gemms; %lld bytes moved, %.2f of the least; %lld FLOPs; "
              "temporaries %lld bytes, saved %lld bytes\n",
              sym_text(at->m->p->cx->names, h->name), c.launches, c.products, (long long)moved,
              report_ratio(moved, c.least), (long long)c.flops, (long long)c.peak,
              (long long)c.saved);
    sb_printf(out, "  %-32s %-8s %12s %12s %12s %8s%s  %s\n", "kernel", "class", "read", "written",
              "FLOPs", "FLOP/B", at->r->uses ? "  regs spills  shared" : "", "lines");
    for (uint32_t k = 0; k < h->steps.n; k++) {
        ReportWork w;
        if (report_work(at, h, &h->steps.at[k], &w))
            text_work(at, &w, out);
    }
}

void report_text(const HostModel *m, const Report *r, StrBuf *out)
{
    const At at = report_at(m, r);
    sb_printf(out, "model %s   target %s  ", sym_text(m->p->cx->names, m->p->name),
              r->cuda ? "cuda" : "cpu");
    text_sizes(&at, out);
    sb_putc(out, '\n');
    for (uint32_t i = 0; i < m->programs.n; i++)
        text_method(&at, m->programs.at[i], out);
}
