/* drive_show.c: -E and -report. SPDX-License-Identifier: MIT */
#include "frontend/device.h"
#include "frontend/drive.h"
#include "frontend/report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int put(Drive *d, const StrBuf *text)
{
    if (d->o->output)
        return drive_write(d, d->o->output, text);
    fputs(sb_text(text), stdout);
    return STATUS_DONE;
}

static void commas(StrBuf *out, int64_t n)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%lld", (long long)n);
    const size_t len = strlen(digits);
    for (size_t i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            sb_putc(out, ',');
        sb_putc(out, digits[i]);
    }
}

/* Where values are, as the text says it. */
static const char *place_name(Arena *a, Place place)
{
    return place == PLACE_D0 ? "auto" : place == PLACE_HOST ? "cpu" : device_text(a, place);
}

static void show_value(Drive *d, const Program *p, const Graph *g, Sym name, Val v, StrBuf *out)
{
    const Place place = val_info(p, g, v)->place;
    sb_printf(out, "%s: %s", sym_text(d->c->cx->names, name), type_text(p, d->a, val_type(g, v)));
    if (place != PLACE_D0)
        sb_printf(out, " on %s", place_name(d->a, place));
}

static void show_model(Drive *d, const Program *p, StrBuf *out)
{
    const Interner *names = d->c->cx->names;
    int64_t total = 0, trainable = 0;
    sb_printf(out, "model %s\n", sym_text(names, p->name));
    for (uint32_t i = 0; i < p->state.n; i++) {
        const StateView *v = &p->state.at[i];
        const SlotKind kind = p->slots.at[v->slot].kind;
        if (kind != SLOT_PARAM && kind != SLOT_BUFFER)
            continue;
        int64_t n = 1;
        dim_is_const(d->c->cx->dims, type_numel((Program *)(uintptr_t)p, v->type), &n);
        sb_printf(out, "  %-10s %-40s %-24s %s ",
                  !v->is_param   ? "buffer"
                  : v->trainable ? "param"
                                 : "frozen",
                  sym_text(names, v->name), type_text(p, d->a, v->type),
                  place_name(d->a, type_info(p, v->type)->place));
        commas(out, n);
        for (uint32_t k = 0; k < v->aliases.n; k++)
            sb_printf(out, "%s%s", k ? ", " : "   also ", sym_text(names, v->aliases.at[k]));
        sb_putc(out, '\n');
        if (v->is_param) {
            total += n;
            trainable += v->trainable ? n : 0;
        }
    }
    sb_puts(out, "  parameters ");
    commas(out, total);
    sb_puts(out, ", trainable ");
    commas(out, trainable);
    sb_putc(out, '\n');
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        const Graph *g = p->graphs.at[i];
        if (g->kind != GRAPH_METHOD)
            continue;
        sb_printf(out, "  method %s(", sym_text(names, g->name));
        for (uint32_t k = 0; k < g->params.n; k++) {
            sb_puts(out, k ? ", " : "");
            show_value(d, p, g, g->params.at[k].name, g->params.at[k].val, out);
        }
        sb_puts(out, ") -> (");
        for (uint32_t k = 0; k < g->results.n; k++) {
            sb_puts(out, k ? ", " : "");
            show_value(d, p, g, g->results.at[k].name, g->results.at[k].val, out);
        }
        sb_puts(out, ")\n");
    }
}

static void show_dot(Drive *d, const Program *p, StrBuf *out)
{
    const Interner *names = d->c->cx->names;
    for (uint32_t i = 0; i < p->graphs.n; i++) {
        const Graph *g = p->graphs.at[i];
        sb_printf(out, "digraph \"%s.%s\" {\n  node [shape=box];\n", sym_text(names, p->name),
                  sym_text(names, g->name));
        for (uint32_t n = 1; n < g->nodes.n; n++) {
            const Node *node = &g->nodes.at[n];
            sb_printf(out, "  n%u [label=\"%s %s\\n%s\"];\n", n, op_name(node->op),
                      sym_text(names, node->hint),
                      node->nout ? type_text(p, d->a, node->types[0]) : "");
            for (uint32_t k = 0; k < node->nin; k++)
                sb_printf(out, "  n%u -> n%u;\n", node->in[k].node, n);
        }
        sb_puts(out, "}\n");
    }
}

static int show_ast(Drive *d)
{
    Compile *c = d->c;
    if (!compile_read(c))
        return drive_messages(d);
    const ParseCtx parse = {c->cx->perm, c->cx->names, c->cx->sources, c->cx->diags};
    const AstFile *f = parse_file(&parse, c->file);
    const int status = drive_messages(d);
    if (status || !f)
        return STATUS_INPUT;
    StrBuf out = {.a = d->a};
    ast_print(&out, c->cx->names, f);
    return put(d, &out);
}

static int show_ir(Drive *d)
{
    Compile *c = d->c;
    StrBuf out = {.a = d->a};
    if (d->o->show_pass) {
        c->pass.stop_after = d->o->show_pass;
        c->pass.dump = &out;
    }
    const int status = drive_front(d);
    if (status)
        return status;
    if (!d->o->show_pass)
        for (uint32_t i = 0; i < c->models.models.n; i++)
            tensor_print(c->models.models.at[i], &out);
    return put(d, &out);
}

static int show_lowered(Drive *d)
{
    const int status = drive_front(d);
    if (status)
        return status;
    StrBuf out = {.a = d->a};
    const bool cuda = d->o->target_given && d->o->cuda && !d->o->cpu;
    for (uint32_t i = 0; i < d->c->models.models.n; i++) {
        Program *p = d->c->models.models.at[i];
        HostModel *m = compile_lower(d->c, p, cuda || device_default_gpu(d->o, p));
        if (!m)
            return drive_messages(d);
        if (d->o->show == SHOW_kernels)
            for (uint32_t k = 0; k < m->kernels.n; k++)
                kernel_print(p, m->kernels.at[k], &out);
        else
            for (uint32_t k = 0; k < m->programs.n; k++)
                host_print(m, m->programs.at[k], &out);
    }
    return put(d, &out);
}

int drive_show(Drive *d)
{
    switch (d->o->show) {
    case SHOW_ast:
        return show_ast(d);
    case SHOW_ir:
        return show_ir(d);
    case SHOW_kernels:
    case SHOW_host:
        return show_lowered(d);
    default:
        break;
    }
    if (!compile_read(d->c) || !compile_elaborate(d->c)) {
        const int status = drive_messages(d);
        return status ? status : STATUS_INPUT;
    }
    drive_messages(d);
    StrBuf out = {.a = d->a};
    for (uint32_t i = 0; i < d->c->models.models.n; i++)
        if (d->o->show == SHOW_dot)
            show_dot(d, d->c->models.models.at[i], &out);
        else
            show_model(d, d->c->models.models.at[i], &out);
    return put(d, &out);
}

static int report_operands(Drive *d, ReportSize *sizes)
{
    const int n = (int)d->o->operands.n;
    for (int i = 0; i < n; i++) {
        const char *text = d->o->operands.at[i], *eq = strchr(text, '=');
        char *end = NULL;
        errno = 0;
        const long long v = strtoll(eq + 1, &end, 10);
        if (!eq[1] || *end || v < 0 || v > INT32_MAX || errno)
            return message_error(STATUS_USAGE, "'%s': expected SIZE=NUMBER", text);
        sizes[i] = (ReportSize){arena_strndup(d->a, text, (size_t)(eq - text)), v};
        for (int k = 0; k < i; k++)
            if (!strcmp(sizes[k].name, sizes[i].name))
                return message_error(STATUS_USAGE, "the size %s is given twice", sizes[i].name);
    }
    return STATUS_DONE;
}

/* Each size that is given must be one of some model. */
static int check_sizes(Drive *d, HostModel *const *models, const ReportSize *sizes)
{
    enum { MOST = 256 };
    const char *names[MOST];
    int n = 0;
    for (uint32_t i = 0; i < d->c->models.models.n; i++)
        n += report_sizes(models[i], names + n, MOST - n);
    for (uint32_t k = 0; k < d->o->operands.n; k++) {
        bool known = n == MOST;
        StrBuf all = {.a = d->a};
        for (int i = 0; i < n; i++) {
            known = known || !strcmp(names[i], sizes[k].name);
            sb_printf(&all, "%s%s", i ? ", " : "", names[i]);
        }
        const char *near = known ? NULL : diag_nearest(sizes[k].name, names, n);
        if (!known)
            return message_error(STATUS_USAGE, "%s has no size '%s'%s%s%s (it has: %s)", d->o->file,
                                 sizes[k].name, near ? "; did you mean '" : "", near ? near : "",
                                 near ? "'?" : "", n ? sb_text(&all) : "none");
    }
    return STATUS_DONE;
}

/* The architecture that is reported about, and what such a machine can do. */
static int report_machine(Drive *d, Report *r)
{
    const int status = r->cuda ? device_first_arch(d, &r->sm) : STATUS_DONE;
    if (!status && d->o->report == REPORT_html)
        r->ceilings = r->cuda ? ceilings_of_gpu(d->a, r->sm) : ceilings_of_cpu(d->a, d->o->threads);
    return status;
}

int drive_report(Drive *d)
{
    void (*const print[])(const HostModel *, const Report *, StrBuf *) = {
        [REPORT_text] = report_text, [REPORT_json] = report_json, [REPORT_html] = report_html};
    ReportSize *sizes = arena_array(d->a, ReportSize, d->o->operands.n + 1);
    int status = report_operands(d, sizes);
    if (!status)
        status = drive_front(d);
    if (status)
        return status;
    const uint32_t n = d->c->models.models.n;
    if (!n)
        return drive_model(d) ? STATUS_DONE : STATUS_INPUT;
    const bool cuda = d->o->target_given && d->o->cuda && !d->o->cpu;
    HostModel **models = arena_array(d->a, HostModel *, n);
    for (uint32_t i = 0; i < n; i++) {
        Program *p = d->c->models.models.at[i];
        models[i] = compile_lower(d->c, p, cuda || device_default_gpu(d->o, p));
        if (!models[i])
            return drive_messages(d);
    }
    status = check_sizes(d, models, sizes);
    if (status)
        return status;
    StrBuf out = {.a = d->a};
    Report r = {.cuda = cuda, .sizes = sizes, .nsizes = (int)d->o->operands.n};
    status = report_machine(d, &r);
    if (d->o->report == REPORT_html)
        report_html_head(d->o->file, &out);
    for (uint32_t i = 0; i < n && !status; i++) {
        if (cuda)
            status = device_uses(d, models[i], &r.uses);
        if (!status)
            print[d->o->report](models[i], &r, &out);
    }
    if (d->o->report == REPORT_html)
        report_html_tail(&out);
    if (status)
        return status;
    return put(d, &out);
}
