/* report_cost.c: bytes, operations, launches and memory of a compiled model at given sizes.
 * SPDX-License-Identifier: MIT */
#include "frontend/report_cost.h"

#include "ir/kernel_text.h"
#include "runtime/fit.h"

#include <stdlib.h>
#include <string.h>

At report_at(const HostModel *m, const Report *r)
{
    DimTable *t = m->p->cx->dims;
    At at = {m, r, NULL, m->p->cx->perm};
    const uint32_t n = dim_nsymbols(t);
    at.values = arena_array(at.a, int64_t, n + 1);
    for (uint32_t i = 1; i <= n; i++) {
        const SymbolInfo *s = dim_symbol(t, (Symbol){i});
        at.values[i] = s->lo == s->hi ? s->lo : s->hint;
        if (s->kind == SYM_SIZE)
            for (int k = 0; k < r->nsizes; k++)
                if (!strcmp(r->sizes[k].name, sym_text(m->p->cx->names, s->name)))
                    at.values[i] = r->sizes[k].value;
    }
    return at;
}

/* Several methods may have sizes of one name: they are reported as one. */
bool report_repeated(const HostModel *m, uint32_t symbol)
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
        if (dim_symbol(t, (Symbol){i})->kind == SYM_SIZE && !report_repeated(m, i))
            names[n++] = sym_text(m->p->cx->names, dim_symbol(t, (Symbol){i})->name);
    return n;
}

int64_t report_value(const At *at, Dim d)
{
    int64_t v = 0;
    return d.id && dim_eval(at->m->p->cx->dims, d, at->values, &v) ? v : 0;
}

/* Costs of absurd sizes stop at the largest number. */
int64_t report_sum(int64_t a, int64_t b)
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
    *to = report_sum(*to, more);
}

static int64_t buffer_bytes(const At *at, const Buffer *b)
{
    int64_t n = dtype_size(b->dtype);
    for (uint32_t i = 0; i < b->rank; i++)
        n = product(n, report_value(at, b->shape[i]));
    return n;
}

static int64_t gemm_flops(const At *at, const Step *s)
{
    const Dim factors[] = {s->m, s->n, s->k, s->batch[0], s->batch[1]};
    int64_t n = 2;
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        n = product(n, report_value(at, factors[i]));
    return n;
}

static int64_t gemm_bytes(const At *at, const HostProgram *h, const Step *s, bool written)
{
    const int64_t batch = product(report_value(at, s->batch[0]), report_value(at, s->batch[1]));
    const int64_t m = report_value(at, s->m), n = report_value(at, s->n),
                  k = report_value(at, s->k);
    const int64_t c =
        product(product(batch, product(m, n)), dtype_size(h->buffers.at[s->c.buf].dtype));
    if (written)
        return c;
    const int64_t in = product(batch, report_sum(product(m, k), product(k, n)));
    const int64_t bias = s->bias.buf ? product(n, dtype_size(h->buffers.at[s->bias.buf].dtype)) : 0;
    return report_sum(product(in, dtype_size(h->buffers.at[s->a.buf].dtype)),
                      s->accumulate ? c : bias);
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
        source_position(at->m->p->cx->sources, s.file, s.start, &line, &col);
        lines[n++] = (SourceLine){s.file, line};
    }
    qsort(lines, n, sizeof *lines, compare_lines);
    for (size_t i = 0; i < n; i++) {
        const SourceLine *p = &lines[i];
        if (!i || p->file != p[-1].file)
            sb_printf(&b, "%s%s:%d", i ? " " : "",
                      source_file(at->m->p->cx->sources, p->file)->path, p->line);
        else if (p->line != p[-1].line)
            sb_printf(&b, ",%d", p->line);
    }
    return sb_text(&b);
}

static bool guard_holds(const At *at, const GuardTerm *g)
{
    const int64_t a = report_value(at, g->a), b = report_value(at, g->b);
    switch (g->kind) {
    case G_EQ:
        return a == b;
    case G_NE:
        return a != b;
    case G_LT:
        return a < b;
    case G_LE:
        return a <= b;
    case G_DIVISIBLE:
        return a % g->k == 0;
    case G_ARCH:
        return at->r->cuda && (g->k < 0 ? at->r->sm < -g->k : at->r->sm >= g->k);
    case G_HAS:
        return at->r->cuda && g->k > 0;
    case G_CHOICE: /* what is taken before anything was measured */
        return g->k % 256 == 0;
    case G_WANT:
        return true;
    }
    return false;
}

bool report_runs(const At *at, const Step *s)
{
    for (uint32_t i = 0; i < s->when.n; i++)
        if (!guard_holds(at, &s->when.at[i]))
            return false;
    return true;
}

bool report_work(const At *at, const HostProgram *h, const Step *s, ReportWork *w)
{
    const Program *p = at->m->p;
    if (!report_runs(at, s) || (s->kind != STEP_LAUNCH && s->kind != STEP_GEMM))
        return false;
    if (s->kind == STEP_LAUNCH) {
        const Kernel *k = at->m->kernels.at[s->kernel];
        const char *name = sym_text(p->cx->names, k->name);
        *w = (ReportWork){.name = name,
                          .class = kernel_class_names[k->class],
                          .lines = lines_of(at, k),
                          .read = report_value(at, k->bytes_read),
                          .written = report_value(at, k->bytes_written),
                          .least = report_value(at, k->bytes_least),
                          .flops = report_value(at, k->flops),
                          .kernel = k,
                          .use = at->r->uses ? ptxas_find(at->r->uses, name) : NULL};
        return true;
    }
    *w = (ReportWork){
        .name = arena_printf(at->a, "gemm %lldx%lldx%lld", (long long)report_value(at, s->m),
                             (long long)report_value(at, s->n), (long long)report_value(at, s->k)),
        .class = "contract",
        .lines = source_where(p->cx->sources, at->a, s->site.at, false),
        .read = gemm_bytes(at, h, s, false),
        .written = gemm_bytes(at, h, s, true),
        .flops = gemm_flops(at, s)};
    w->least = report_sum(w->read, w->written);
    return true;
}

static int64_t rounded(int64_t bytes)
{
    return report_sum(bytes, TN_ALIGN - 1) / TN_ALIGN * TN_ALIGN;
}

/* As plans do, by the same rule: best fit among earlier ones that live at the same time. */
static int64_t place_of(const At *at, const ReportBuffers *all, const ReportBuffer *b)
{
    tn__range *taken = arena_array(at->a, tn__range, all->n + 1);
    int n = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        const ReportBuffer *o = &all->at[i];
        if (!o->saved && o->bytes && o->place == b->place && o->first <= b->last &&
            b->first <= o->last)
            taken[n++] = (tn__range){(size_t)o->at, (size_t)report_sum(o->at, rounded(o->bytes))};
    }
    return (int64_t)tn__fit(taken, n, (size_t)rounded(b->bytes));
}

ReportBuffers report_buffers(const At *at, const HostProgram *h)
{
    ReportBuffers out = {0};
    int64_t tape = 0;
    for (uint32_t i = 1; i < h->buffers.n; i++) {
        const Buffer *b = &h->buffers.at[i];
        const bool saved = b->kind == BUF_TAPE && h->graph->kind == GRAPH_FORWARD_TRAIN;
        if (b->of || (!saved && (b->kind != BUF_TEMP || b->first > b->last)))
            continue;
        ReportBuffer r = {.name = b->name.id ? sym_text(at->m->p->cx->names, b->name) : "a value",
                          .saved = saved,
                          .bytes = buffer_bytes(at, b),
                          .place = b->place,
                          .first = saved ? 0 : b->first,
                          .last = saved ? h->steps.n - 1 : b->last};
        r.at = saved ? tape : place_of(at, &out, &r);
        if (saved)
            add(&tape, rounded(r.bytes));
        vec_push(at->a, &out, r);
    }
    return out;
}

ReportCost report_cost(const At *at, const HostProgram *h)
{
    ReportCost c = {0};
    for (uint32_t i = 0; i < h->steps.n; i++) {
        ReportWork w;
        if (!report_work(at, h, &h->steps.at[i], &w))
            continue;
        c.launches += w.kernel != NULL;
        c.products += !w.kernel;
        add(&c.read, w.read);
        add(&c.written, w.written);
        add(&c.least, w.least);
        add(&c.flops, w.flops);
    }
    const ReportBuffers buffers = report_buffers(at, h);
    for (uint32_t i = 0; i < buffers.n; i++) {
        const ReportBuffer *b = &buffers.at[i];
        const int64_t end = report_sum(b->at, rounded(b->bytes));
        if (b->saved)
            add(&c.saved, b->bytes);
        else if (end > c.peak)
            c.peak = end;
    }
    return c;
}

double report_ratio(int64_t a, int64_t b)
{
    return b > 0 ? (double)a / (double)b : 1.0;
}
