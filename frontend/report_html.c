/* report_html.c: -report=html: one page that needs nothing else. The report as JSON stands in it,
 * too. SPDX-License-Identifier: MIT */
#include "codegen/cuda.h"
#include "frontend/report_plots.h"

#include <math.h>

static const char style[] =
    "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;max-width:78em;padding:0 1em;"
    "color:#222;background:#fff}\n"
    "h1{font-size:1.5em}h2{font-size:1.2em;margin-top:2.2em;border-bottom:2px solid #1b6ac9}"
    "h3{font-size:1em;margin:1.2em 0 .3em}\n"
    ".plots{display:flex;flex-wrap:wrap;gap:1em}.plots figure{flex:1 1 28em;margin:0}"
    "figcaption{color:#555;font-size:.9em}\n"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.92em;"
    "display:block;overflow-x:auto}"
    "td,th{padding:.15em .5em;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}"
    "td.l,th.l{text-align:left}\n"
    "pre{background:#f5f6f8;padding:.8em;overflow-x:auto;font-size:.85em;line-height:1.35}"
    "summary{cursor:pointer;font-family:monospace}.note{color:#666}\n"
    "svg{width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#444}"
    ".grid{stroke:#e6e6e6}.roof{fill:none;stroke:#333;stroke-width:2}"
    ".level{stroke:#555;stroke-dasharray:4 3}svg text.ceiling{fill:#1b6ac9}\n"
    ".dot{fill:#1b6ac9;fill-opacity:.65;stroke:#0d3f7d}.product{fill:#d9622b;stroke:#8a3a12}"
    ".could{fill:none;stroke:#999;stroke-dasharray:2 2}\n"
    ".temp{stroke:#fff;fill:#8fb8e8}.temp.c1{fill:#a9d18e}.temp.c2{fill:#f0c27b}"
    ".temp.c3{fill:#c3a6e0}.temp.c4{fill:#9ad3d0}.saved{stroke:#fff;fill:#e59a9a}";

static const char *digits(Arena *a, int64_t n)
{
    return arena_printf(a, "%lld", (long long)n);
}

static void cell(const char *text, StrBuf *out)
{
    sb_puts(out, "<td>");
    html_text(text, out);
    sb_puts(out, "</td>");
}

static void left_cell(const char *text, StrBuf *out)
{
    sb_puts(out, "<td class=\"l\">");
    html_text(text, out);
    sb_puts(out, "</td>");
}

/* Seconds that the machine's ceilings allow. */
static const char *time_text(const At *at, const ReportWork *w)
{
    const Ceilings *c = &at->r->ceilings;
    const double compute = (double)w->flops / c->operations;
    const double memory = (double)report_sum(w->read, w->written) / c->bytes;
    return arena_printf(at->a, "%.2f us, %s", 1e6 * fmax(compute, memory),
                        compute > memory ? "operations" : "bytes");
}

static void row(const At *at, uint32_t step, const ReportWork *w, StrBuf *out)
{
    const int64_t moved = report_sum(w->read, w->written);
    sb_puts(out, "<tr>");
    cell(digits(at->a, step + 1), out);
    left_cell(w->name, out);
    left_cell(w->class, out);
    cell(digits(at->a, w->read), out);
    cell(digits(at->a, w->written), out);
    cell(arena_printf(at->a, "%.2f", report_ratio(moved, w->least)), out);
    cell(digits(at->a, w->flops), out);
    cell(arena_printf(at->a, "%.2f", report_ratio(w->flops, moved)), out);
    cell(time_text(at, w), out);
    if (at->r->uses) {
        const KernelUse *u = w->use;
        cell(u ? digits(at->a, u->registers) : "", out);
        cell(u ? digits(at->a, u->spill_stores + u->spill_loads) : "", out);
        cell(u ? digits(at->a, u->shared) : "", out);
    }
    left_cell(w->lines, out);
    sb_puts(out, "</tr>\n");
}

static void table(const At *at, const HostProgram *h, StrBuf *out)
{
    sb_puts(out, "<table class=\"work\"><tr><th>step</th><th class=\"l\">kernel</th><th "
                 "class=\"l\">class</th><th>read</th><th>written</th><th>of the least</th>"
                 "<th>FLOPs</th><th>FLOP/B</th><th>at least, for its</th>");
    if (at->r->uses)
        sb_puts(out, "<th>registers</th><th>spilled</th><th>shared</th>");
    sb_puts(out, "<th class=\"l\">lines</th></tr>\n");
    for (uint32_t i = 0; i < h->steps.n; i++) {
        ReportWork w;
        if (report_work(at, h, &h->steps.at[i], &w))
            row(at, i, &w, out);
    }
    sb_puts(out, "</table>\n");
}

static void method(const At *at, const HostProgram *h, StrBuf *out)
{
    const ReportCost c = report_cost(at, h);
    const int64_t moved = report_sum(c.read, c.written);
    sb_puts(out, "<section class=\"method\"><h2>");
    html_text(sym_text(at->m->p->cx->names, h->name), out);
    sb_printf(out,
              "</h2>\n<p>%d launches, %d products by library; %s moved, <b>%.2f</b> of the least; "
              "%s; temporaries %s, saved %s.</p>\n",
              c.launches, c.products, html_quantity(at->a, (double)moved, "B"),
              report_ratio(moved, c.least), html_quantity(at->a, (double)c.flops, "FLOP"),
              html_quantity(at->a, (double)c.peak, "B"),
              html_quantity(at->a, (double)c.saved, "B"));
    sb_puts(out, "<div class=\"plots\"><figure>\n");
    plot_roofline(at, h, out);
    sb_puts(out,
            "<figcaption>What the machine allows each kernel: larger dots are more of the time; "
            "rings: with the least traffic.</figcaption></figure>\n<figure>\n");
    plot_memory(at, h, out);
    sb_puts(out, "<figcaption>Temporaries and saved values: which bytes, from which step to "
                 "which.</figcaption></figure></div>\n");
    table(at, h, out);
    sb_puts(out, "</section>\n");
}

static void kernels(const At *at, StrBuf *out)
{
    const HostModel *m = at->m;
    sb_puts(out, "<section class=\"code\"><h2>Kernels</h2>\n");
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        StrBuf text = {.a = at->a};
        const Kernel *k = m->kernels.at[i];
        if (at->r->cuda)
            cuda_kernel(m->p, k, i + 1, &text);
        else
            c_kernel(m->p, k, i + 1, RUNS_OFTEN, &text);
        sb_puts(out, "<details><summary>");
        html_text(sym_text(m->p->cx->names, k->name), out);
        sb_puts(out, "</summary><pre>");
        html_text(sb_text(&text), out);
        sb_puts(out, "</pre></details>\n");
    }
    sb_puts(out, "</section>\n");
}

void report_html(const HostModel *m, const Report *r, StrBuf *out)
{
    const At at = report_at(m, r);
    const Program *p = m->p;
    const Ceilings *c = &r->ceilings;
    sb_puts(out, "<h1>");
    html_text(sym_text(p->cx->names, p->name), out);
    sb_printf(out, "</h1>\n<p>Target %s;", r->cuda ? "cuda" : "cpu");
    for (uint32_t i = 1; i <= dim_nsymbols(p->cx->dims); i++) {
        const SymbolInfo *s = dim_symbol(p->cx->dims, (Symbol){i});
        if (s->kind == SYM_SIZE && !report_repeated(m, i))
            sb_printf(out, " %s = %lld", sym_text(p->cx->names, s->name), (long long)at.values[i]);
    }
    sb_printf(out, ". Ceilings: %s, %s and %s.</p>\n", c->name,
              html_quantity(at.a, c->operations, "FLOP/s"), html_quantity(at.a, c->bytes, "B/s"));
    for (uint32_t i = 0; i < m->programs.n; i++)
        method(&at, m->programs.at[i], out);
    kernels(&at, out);
    sb_puts(out, "<script type=\"application/json\" class=\"report\">\n");
    report_json(m, r, out);
    sb_puts(out, "</script>\n");
}

void report_html_head(const char *title, StrBuf *out)
{
    sb_puts(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    html_text(title, out);
    sb_printf(out, ": what it costs</title><style>\n%s\n</style></head><body>\n", style);
}

void report_html_tail(StrBuf *out)
{
    sb_puts(out, "</body></html>\n");
}
