/* report.c: bytes, operations and launches of a compiled model at given sizes.
 * SPDX-License-Identifier: MIT */
#include "frontend/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const Program *p;
    int64_t *values; /* per symbol */
    Arena *a;
} At;

static At at_sizes(const HostModel *m, const ReportSize *sizes, int nsizes)
{
    DimTable *t = m->p->cx->dims;
    At at = {m->p, NULL, m->p->cx->perm};
    const uint32_t n = dim_nsymbols(t);
    at.values = arena_array(at.a, int64_t, n + 1);
    for (uint32_t i = 1; i <= n; i++) {
        const SymbolInfo *s = dim_symbol(t, (Symbol){i});
        at.values[i] = s->lo == s->hi ? s->lo : s->hint;
        if (s->kind == SYM_SIZE)
            for (int k = 0; k < nsizes; k++)
                if (!strcmp(sizes[k].name, sym_text(m->p->cx->names, s->name)))
                    at.values[i] = sizes[k].value;
    }
    return at;
}

/* Several methods may have sizes of one name: they are reported as one. */
static bool is_repeated(const HostModel *m, uint32_t symbol)
{
    DimTable *t = m->p->cx->dims;
    const SymbolInfo *s = dim_symbol(t, (Symbol){symbol});
    for (uint32_t i = 1; i < symbol; i++)
        if (dim_symbol(t, (Symbol){i})->kind == SYM_SIZE &&
            sym_eq(dim_symbol(t, (Symbol){i})->name, s->name))
            return true;
    return false;
}

int report_sizes(const HostModel *m, const char **names, int max)
{
    DimTable *t = m->p->cx->dims;
    int n = 0;
    for (uint32_t i = 1; i <= dim_nsymbols(t) && n < max; i++)
        if (dim_symbol(t, (Symbol){i})->kind == SYM_SIZE && !is_repeated(m, i))
            names[n++] = sym_text(m->p->cx->names, dim_symbol(t, (Symbol){i})->name);
    return n;
}

static int64_t value(const At *at, Dim d)
{
    int64_t v = 0;
    return d.id && dim_eval(at->p->cx->dims, d, at->values, &v) ? v : 0;
}

/* Costs of absurd sizes stop at the largest number. */
static int64_t sum(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}

static int64_t product(int64_t a, int64_t b)
{
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}

static void add(int64_t *to, int64_t more)
{
    *to = sum(*to, more);
}

static int64_t buffer_bytes(const At *at, const Buffer *b)
{
    int64_t n = dtype_size(b->dtype);
    for (uint32_t i = 0; i < b->rank; i++)
        n = product(n, value(at, b->shape[i]));
    return n;
}

/* What one method costs. */
typedef struct {
    int launches, gemms;
    int64_t read, written, least, flops, peak, saved, gemm_flops;
} Cost;

/* The most temporary memory alive at one step; results and tape count all the time. */
static int64_t peak_of(const At *at, const HostProgram *h)
{
    int64_t peak = 0;
    for (uint32_t s = 0; s < h->steps.n; s++) {
        int64_t now = 0;
        for (uint32_t i = 1; i < h->buffers.n; i++) {
            const Buffer *b = &h->buffers.at[i];
            if (b->kind == BUF_TEMP && !b->of && b->first <= s && s <= b->last)
                add(&now, buffer_bytes(at, b));
        }
        if (now > peak)
            peak = now;
    }
    return peak;
}

static int64_t gemm_flops(const At *at, const Step *s)
{
    const Dim factors[] = {s->m, s->n, s->k, s->batch[0], s->batch[1]};
    int64_t n = 2;
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        n = product(n, value(at, factors[i]));
    return n;
}

static int64_t gemm_bytes(const At *at, const HostProgram *h, const Step *s, bool written)
{
    const int64_t batch = product(value(at, s->batch[0]), value(at, s->batch[1]));
    const int64_t m = value(at, s->m), n = value(at, s->n), k = value(at, s->k);
    const int64_t c =
        product(product(batch, product(m, n)), dtype_size(h->buffers.at[s->c.buf].dtype));
    if (written)
        return c;
    const int64_t in = product(batch, sum(product(m, k), product(k, n)));
    return sum(product(in, dtype_size(h->buffers.at[s->a.buf].dtype)), s->accumulate ? c : 0);
}

static Cost cost_of(const HostModel *m, const At *at, const HostProgram *h)
{
    Cost c = {0};
    for (uint32_t i = 0; i < h->steps.n; i++) {
        const Step *s = &h->steps.at[i];
        if (s->kind == STEP_LAUNCH) {
            const Kernel *k = m->kernels.at[s->kernel];
            c.launches++;
            add(&c.read, value(at, k->bytes_read));
            add(&c.written, value(at, k->bytes_written));
            add(&c.least, value(at, k->bytes_least));
            add(&c.flops, value(at, k->flops));
        } else if (s->kind == STEP_GEMM) {
            c.gemms++;
            add(&c.gemm_flops, gemm_flops(at, s));
            const int64_t read = gemm_bytes(at, h, s, false), written = gemm_bytes(at, h, s, true);
            add(&c.read, read);
            add(&c.written, written);
            add(&c.least, sum(read, written));
        }
    }
    c.peak = peak_of(at, h);
    if (h->graph->kind == GRAPH_FORWARD_TRAIN)
        for (uint32_t i = 0; i < h->tape.n; i++)
            if (h->buffers.at[h->tape.at[i]].kind == BUF_TAPE)
                add(&c.saved, buffer_bytes(at, &h->buffers.at[h->tape.at[i]]));
    return c;
}

static const char *class_name(KClass c)
{
    static const char *const names[] = {"map", "row", "reduce", "contract", "scalar", "copy"};
    return names[c];
}

typedef struct {
    uint32_t file;
    int line;
} SourceLine;

static int compare_lines(const void *left, const void *right)
{
    const SourceLine *a = left, *b = right;
    return a->file != b->file ? (a->file < b->file ? -1 : 1)
                              : (a->line > b->line) - (a->line < b->line);
}

/* Each line once and in order, file by file: "a.tn:3,8 b.tn:5". */
static const char *lines_of(const At *at, const Kernel *k)
{
    StrBuf b = {.a = at->a};
    SourceLine *lines = arena_array(at->a, SourceLine, k->lines.n + 1);
    size_t n = 0;
    for (uint32_t i = 0; i < k->lines.n; i++) {
        const Span s = k->lines.at[i];
        int line, col;
        if (!s.file)
            continue;
        source_position(at->p->cx->sources, s.file, s.start, &line, &col);
        lines[n++] = (SourceLine){s.file, line};
    }
    qsort(lines, n, sizeof *lines, compare_lines);
    for (size_t i = 0; i < n; i++) {
        const SourceLine *p = &lines[i];
        if (!i || p->file != p[-1].file)
            sb_printf(&b, "%s%s:%d", i ? " " : "", source_file(at->p->cx->sources, p->file)->path,
                      p->line);
        else if (p->line != p[-1].line)
            sb_printf(&b, ",%d", p->line);
    }
    return sb_text(&b);
}

static double ratio(int64_t a, int64_t b)
{
    return b > 0 ? (double)a / (double)b : 1.0;
}

/* Registers, spilled bytes and shared bytes of a kernel, in columns. */
static const char *use_text(const At *at, const KernelUses *uses, const char *kernel)
{
    const KernelUse *use = uses ? ptxas_find(uses, kernel) : NULL;
    return !uses ? ""
           : use ? arena_printf(at->a, " %5d %6d %7d", use->registers,
                                use->spill_stores + use->spill_loads, use->shared)
                 : arena_printf(at->a, " %5s %6s %7s", "", "", "");
}

static void text_kernel(const At *at, const Kernel *k, const KernelUses *uses, StrBuf *out)
{
    const int64_t read = value(at, k->bytes_read), written = value(at, k->bytes_written);
    const int64_t flops = value(at, k->flops);
    const char *name = sym_text(at->p->cx->names, k->name);
    sb_printf(out, "  %-32s %-8s %12lld %12lld %12lld %8.2f%s  %s\n", name, class_name(k->class),
              (long long)read, (long long)written, (long long)flops,
              ratio(flops, sum(read, written)), use_text(at, uses, name), lines_of(at, k));
}

static void text_gemm(const At *at, const HostProgram *h, const Step *s, const KernelUses *uses,
                      StrBuf *out)
{
    const int64_t read = gemm_bytes(at, h, s, false), written = gemm_bytes(at, h, s, true);
    const int64_t flops = gemm_flops(at, s);
    char name[64];
    snprintf(name, sizeof name, "gemm %lldx%lldx%lld", (long long)value(at, s->m),
             (long long)value(at, s->n), (long long)value(at, s->k));
    sb_printf(out, "  %-32s %-8s %12lld %12lld %12lld %8.2f%s  %s\n", name, "contract",
              (long long)read, (long long)written, (long long)flops,
              ratio(flops, sum(read, written)), use_text(at, uses, ""),
              source_where(at->p->cx->sources, at->a, s->site.at, false));
}

static void sizes_text(const HostModel *m, const At *at, StrBuf *out)
{
    DimTable *t = m->p->cx->dims;
    for (uint32_t i = 1; i <= dim_nsymbols(t); i++) {
        const SymbolInfo *s = dim_symbol(t, (Symbol){i});
        if (s->kind == SYM_SIZE && !is_repeated(m, i))
            sb_printf(out, " %s=%lld", sym_text(m->p->cx->names, s->name),
                      (long long)at->values[i]);
    }
}

void report_text(const HostModel *m, bool cuda, const KernelUses *uses, const ReportSize *sizes,
                 int nsizes, StrBuf *out)
{
    const At at = at_sizes(m, sizes, nsizes);
    sb_printf(out, "model %s   target %s  ", sym_text(m->p->cx->names, m->p->name),
              cuda ? "cuda" : "cpu");
    sizes_text(m, &at, out);
    sb_putc(out, '\n');
    for (uint32_t i = 0; i < m->programs.n; i++) {
        const HostProgram *h = m->programs.at[i];
        const Cost c = cost_of(m, &at, h);
        sb_printf(out,
                  "\n%s: %d launches, %d gemms; %lld bytes moved, %.2f of the least; %lld FLOPs; "
                  "temporaries %lld bytes, saved %lld bytes\n",
                  sym_text(m->p->cx->names, h->name), c.launches, c.gemms,
                  (long long)sum(c.read, c.written), ratio(sum(c.read, c.written), c.least),
                  (long long)sum(c.flops, c.gemm_flops), (long long)c.peak, (long long)c.saved);
        sb_printf(out, "  %-32s %-8s %12s %12s %12s %8s%s  %s\n", "kernel", "class", "read",
                  "written", "FLOPs", "FLOP/B", uses ? "  regs spills  shared" : "", "lines");
        for (uint32_t k = 0; k < h->steps.n; k++)
            if (h->steps.at[k].kind == STEP_LAUNCH)
                text_kernel(&at, m->kernels.at[h->steps.at[k].kernel], uses, out);
            else if (h->steps.at[k].kind == STEP_GEMM)
                text_gemm(&at, h, &h->steps.at[k], uses, out);
    }
}

static void json_string(const char *s, StrBuf *out)
{
    sb_putc(out, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            sb_putc(out, '\\');
        if ((unsigned char)*s < 0x20)
            sb_printf(out, "\\u%04x", *s);
        else
            sb_putc(out, *s);
    }
    sb_putc(out, '"');
}

static int calls_of(const HostProgram *h, uint32_t kernel)
{
    int n = 0;
    for (uint32_t i = 0; i < h->steps.n; i++)
        n += h->steps.at[i].kind == STEP_LAUNCH && h->steps.at[i].kernel == kernel;
    return n;
}

static void json_number(const char *name, const int *value, StrBuf *out)
{
    if (value)
        sb_printf(out, ", \"%s\": %d", name, *value);
    else
        sb_printf(out, ", \"%s\": null", name);
}

static void json_use(const KernelUses *uses, const char *kernel, StrBuf *out)
{
    const KernelUse *use = uses ? ptxas_find(uses, kernel) : NULL;
    const int spills = use ? use->spill_stores + use->spill_loads : 0;
    json_number("registers", use ? &use->registers : NULL, out);
    json_number("spill_bytes", use ? &spills : NULL, out);
    json_number("shared_bytes", use ? &use->shared : NULL, out);
}

static void json_kernels(const HostModel *m, const At *at, const HostProgram *h,
                         const KernelUses *uses, StrBuf *out)
{
    bool first = true;
    for (uint32_t k = 0; k < m->kernels.n; k++) {
        const int calls = calls_of(h, k);
        const Kernel *kernel = m->kernels.at[k];
        if (!calls)
            continue;
        sb_puts(out, first ? "\n        {\"name\": " : ",\n        {\"name\": ");
        first = false;
        json_string(sym_text(at->p->cx->names, kernel->name), out);
        sb_printf(out, ", \"class\": \"%s\", \"lines\": ", class_name(kernel->class));
        json_string(lines_of(at, kernel), out);
        sb_printf(out,
                  ", \"calls\": %d, \"bytes_read\": %lld, \"bytes_written\": %lld, "
                  "\"bytes_least\": %lld, \"flops\": %lld",
                  calls, (long long)value(at, kernel->bytes_read),
                  (long long)value(at, kernel->bytes_written),
                  (long long)value(at, kernel->bytes_least), (long long)value(at, kernel->flops));
        json_use(uses, sym_text(at->p->cx->names, kernel->name), out);
        sb_putc(out, '}');
    }
}

void report_json(const HostModel *m, bool cuda, const KernelUses *uses, const ReportSize *sizes,
                 int nsizes, StrBuf *out)
{
    const At at = at_sizes(m, sizes, nsizes);
    DimTable *t = m->p->cx->dims;
    sb_puts(out, "{\n  \"model\": ");
    json_string(sym_text(m->p->cx->names, m->p->name), out);
    sb_printf(out, ",\n  \"target\": \"%s\",\n  \"dims\": {", cuda ? "cuda" : "cpu");
    bool first = true;
    for (uint32_t i = 1; i <= dim_nsymbols(t); i++) {
        const SymbolInfo *s = dim_symbol(t, (Symbol){i});
        if (s->kind != SYM_SIZE || is_repeated(m, i))
            continue;
        sb_puts(out, first ? "" : ", ");
        json_string(sym_text(m->p->cx->names, s->name), out);
        sb_printf(out, ": %lld", (long long)at.values[i]);
        first = false;
    }
    sb_puts(out, "},\n  \"methods\": [");
    for (uint32_t i = 0; i < m->programs.n; i++) {
        const HostProgram *h = m->programs.at[i];
        const Cost c = cost_of(m, &at, h);
        sb_puts(out, i ? ",\n    {\"name\": " : "\n    {\"name\": ");
        json_string(sym_text(m->p->cx->names, h->name), out);
        sb_printf(out,
                  ", \"launches\": %d, \"library_calls\": %d, \"peak_bytes\": %lld, "
                  "\"saved_bytes\": %lld,\n      \"kernels\": [",
                  c.launches, c.gemms, (long long)c.peak, (long long)c.saved);
        json_kernels(m, &at, h, uses, out);
        sb_puts(out, "]}");
    }
    sb_puts(out, "]\n}\n");
}
