/* report_json.c: -report=json. Keys stay as they are; frontend/README.md lists them.
 * SPDX-License-Identifier: MIT */
#include "frontend/report_cost.h"

/* A string may stand in a page's script: < is written as a number. */
static void json_string(const char *s, StrBuf *out)
{
    sb_putc(out, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            sb_putc(out, '\\');
        if ((unsigned char)*s < 0x20 || *s == '<')
            sb_printf(out, "\\u%04x", *s);
        else
            sb_putc(out, *s);
    }
    sb_putc(out, '"');
}

static void json_number(const char *name, const int *value, StrBuf *out)
{
    if (value)
        sb_printf(out, ", \"%s\": %d", name, *value);
    else
        sb_printf(out, ", \"%s\": null", name);
}

static void json_use(const KernelUse *use, StrBuf *out)
{
    const int spills = use ? use->spill_stores + use->spill_loads : 0;
    json_number("registers", use ? &use->registers : NULL, out);
    json_number("spill_bytes", use ? &spills : NULL, out);
    json_number("shared_bytes", use ? &use->shared : NULL, out);
}

static void json_work(const ReportWork *w, bool first, StrBuf *out)
{
    sb_puts(out, first ? "\n        {\"name\": " : ",\n        {\"name\": ");
    json_string(w->name, out);
    sb_printf(out, ", \"class\": \"%s\", \"lines\": ", w->class);
    json_string(w->lines, out);
}

static void json_cost(const ReportWork *w, StrBuf *out)
{
    sb_printf(out,
              ", \"bytes_read\": %lld, \"bytes_written\": %lld, \"bytes_least\": %lld, "
              "\"flops\": %lld",
              (long long)w->read, (long long)w->written, (long long)w->least, (long long)w->flops);
}

/* Calls of the kernel of step i, if that is its first; else 0. */
static int calls_of(const At *at, const HostProgram *h, uint32_t i)
{
    int n = 0;
    for (uint32_t k = 0; k < h->steps.n; k++) {
        const Step *s = &h->steps.at[k];
        if (s->kind != STEP_LAUNCH || s->kernel != h->steps.at[i].kernel || !report_runs(at, s))
            continue;
        if (k < i)
            return 0;
        n++;
    }
    return n;
}

static void json_kernels(const At *at, const HostProgram *h, StrBuf *out)
{
    bool first = true;
    for (uint32_t i = 0; i < h->steps.n; i++) {
        ReportWork w;
        if (!report_work(at, h, &h->steps.at[i], &w) || !w.kernel)
            continue;
        const int calls = calls_of(at, h, i);
        if (!calls)
            continue;
        json_work(&w, first, out);
        sb_printf(out, ", \"calls\": %d", calls);
        json_cost(&w, out);
        json_use(w.use, out);
        sb_putc(out, '}');
        first = false;
    }
}

static void json_products(const At *at, const HostProgram *h, StrBuf *out)
{
    bool first = true;
    for (uint32_t i = 0; i < h->steps.n; i++) {
        ReportWork w;
        if (!report_work(at, h, &h->steps.at[i], &w) || w.kernel)
            continue;
        json_work(&w, first, out);
        json_cost(&w, out);
        sb_putc(out, '}');
        first = false;
    }
}

static void json_buffers(const At *at, const HostProgram *h, StrBuf *out)
{
    const ReportBuffers all = report_buffers(at, h);
    for (uint32_t i = 0; i < all.n; i++) {
        const ReportBuffer *b = &all.at[i];
        sb_puts(out, i ? ",\n        {\"name\": " : "\n        {\"name\": ");
        json_string(b->name, out);
        sb_printf(out,
                  ", \"kind\": \"%s\", \"offset\": %lld, \"bytes\": %lld, \"first_step\": %u, "
                  "\"last_step\": %u}",
                  b->saved ? "saved" : "temporary", (long long)b->at, (long long)b->bytes, b->first,
                  b->last);
    }
}

static void json_method(const At *at, const HostProgram *h, bool first, StrBuf *out)
{
    const ReportCost c = report_cost(at, h);
    sb_puts(out, first ? "\n    {\"name\": " : ",\n    {\"name\": ");
    json_string(sym_text(at->m->p->cx->names, h->name), out);
    sb_printf(out,
              ", \"launches\": %d, \"library_calls\": %d, \"steps\": %u, \"bytes_moved\": %lld, "
              "\"bytes_least\": %lld, \"flops\": %lld, \"peak_bytes\": %lld, "
              "\"saved_bytes\": %lld,\n      \"kernels\": [",
              c.launches, c.products, h->steps.n, (long long)report_sum(c.read, c.written),
              (long long)c.least, (long long)c.flops, (long long)c.peak, (long long)c.saved);
    json_kernels(at, h, out);
    sb_puts(out, "],\n      \"products\": [");
    json_products(at, h, out);
    sb_puts(out, "],\n      \"buffers\": [");
    json_buffers(at, h, out);
    sb_puts(out, "]}");
}

void report_json(const HostModel *m, const Report *r, StrBuf *out)
{
    const At at = report_at(m, r);
    DimTable *t = m->p->cx->dims;
    sb_puts(out, "{\n  \"model\": ");
    json_string(sym_text(m->p->cx->names, m->p->name), out);
    sb_printf(out, ",\n  \"target\": \"%s\",\n  \"dims\": {", r->cuda ? "cuda" : "cpu");
    bool first = true;
    for (uint32_t i = 1; i <= dim_nsymbols(t); i++) {
        const SymbolInfo *s = dim_symbol(t, (Symbol){i});
        if (s->kind != SYM_SIZE || report_repeated(m, i))
            continue;
        sb_puts(out, first ? "" : ", ");
        json_string(sym_text(m->p->cx->names, s->name), out);
        sb_printf(out, ": %lld", (long long)at.values[i]);
        first = false;
    }
    sb_puts(out, "},\n  \"methods\": [");
    for (uint32_t i = 0; i < m->programs.n; i++)
        json_method(&at, m->programs.at[i], !i, out);
    sb_puts(out, "]\n}\n");
}
