/* program.c: see program.h. SPDX-License-Identifier: MIT */
#include "codegen/program.h"
#include "ir/base/die.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* --- small texts ---------------------------------------------------------------------------------
 */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

const char *model_prefix(Arena *a, const HostModel *m)
{
    return name_clean(a, sym_text(m->p->cx->names, m->p->name));
}

const char *model_source(Arena *a, const HostModel *m)
{
    return m->p->file ? base_name(m->p->file) : arena_printf(a, "%s.tn", model_prefix(a, m));
}

const char *where_text(const Program *p, Arena *a, Span at)
{
    return at.file ? base_name(source_where(p->cx->sources, a, at, false)) : "";
}

const char *quoted(Arena *a, const char *s)
{
    StrBuf out = {.a = a};
    sb_putc(&out, '"');
    for (; s && *s; s++) {
        if (*s == '"' || *s == '\\')
            sb_printf(&out, "\\%c", *s);
        else if (*s == '\n')
            sb_puts(&out, "\\n");
        else
            sb_putc(&out, (unsigned char)*s < ' ' ? ' ' : *s);
    }
    sb_putc(&out, '"');
    return sb_text(&out);
}

/* --- kernels -------------------------------------------------------------------------------------
 */

/* log2 of nanoseconds that a cell takes at the usual sizes: 4 operations or 8 bytes a nanosecond.
 */
static int cell_cost(const HostModel *m, const Kernel *k)
{
    DimTable *d = m->p->cx->dims;
    double cells = dim_hint(d, kernel_cells(m->p, k));
    double work = (k->flops.id ? dim_hint(d, k->flops) : 0) / 4;
    if (k->bytes_read.id && k->bytes_written.id)
        work += (dim_hint(d, k->bytes_read) + dim_hint(d, k->bytes_written)) / 8;
    double ns = work / (cells > 1 ? cells : 1);
    int cost = ns > 1 ? (int)log2(ns) : 0;
    return cost < 60 ? cost : 60;
}

static void print_checks(const HostModel *m, const PrintedKernel *k, const char *prefix,
                         StrBuf *out)
{
    Emit e = {.out = out};
    StrBuf s = {.a = out->a};
    if (!k->nsites)
        return;
    for (uint32_t i = 0; i < k->nsites; i++)
        sb_printf(&s, "%s%s", i ? ", " : "",
                  quoted(out->a, where_text(m->p, out->a, k->sites[i].at)));
    emit_line(&e, "static const char *const %s%s_checks[] = {%s};", prefix, k->name, sb_text(&s));
}

static int at_least_one(int n)
{
    return n > 0 ? n : 1;
}

static uint64_t written(const Kernel *k)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < k->params.n; i++)
        if (k->params.at[i].mode != K_IN)
            bits |= 1ull << (i < 63 ? i : 63);
    return bits;
}

static void print_kernels(const HostModel *m, const PrintedKernel *printed, const char *prefix,
                          StrBuf *out)
{
    Arena *a = out->a;
    Emit e = {.out = out};
    Symbol sizes[64];
    if (!m->kernels.n)
        return;
    for (uint32_t i = 0; i < m->kernels.n; i++)
        print_checks(m, &printed[i], prefix, out);
    emit_open(&e, "static const tn_kernel %skernels[] = {", prefix);
    for (uint32_t i = 0; i < m->kernels.n; i++) {
        const Kernel *k = m->kernels.at[i];
        const bool cuda = k->cuda;
        StrBuf s = {.a = a};
        sb_printf(&s, "{.name = \"%s\", .where = %s", printed[i].name,
                  quoted(a, kernel_where(m->p, k, a)));
        if (!cuda)
            sb_printf(&s,
                      printed[i].once    ? ", .cpu = %s_call"
                      : printed[i].heavy ? ", TN_CPU_WIDE(%s)"
                                         : ", TN_CPU(%s)",
                      printed[i].name);
        sb_printf(&s, ", .nparams = %u, .nsizes = %u", k->params.n,
                  kernel_sizes(m->p, k, sizes, 64));
        if (cuda)
            sb_printf(&s, ", .lanes = %d, .teams = %d, .block_cells = %d", at_least_one(k->lanes),
                      at_least_one(k->teams), printed[i].block_cells);
        else
            sb_printf(&s, ", .cost = %d", cell_cost(m, k));
        if (k->counters)
            sb_printf(&s, ", .counters = %d", k->counters);
        if (printed[i].wide)
            sb_printf(&s, ", .wide = %#" PRIx64, printed[i].wide);
        if (m->places.n > 1)
            sb_printf(&s, ", .writes = %#" PRIx64, written(k));
        if (printed[i].nsites)
            sb_printf(&s, ", .nchecks = %u, .checks = %s%s_checks", printed[i].nsites, prefix,
                      printed[i].name);
        emit_line(&e, "%s},", sb_text(&s));
    }
    emit_close(&e, ";");
    emit_line(&e, "%s", "");
}

/* --- state ---------------------------------------------------------------------------------------
 */

static int64_t fixed(const HostModel *m, Dim d, Sym name)
{
    int64_t n = 0;
    if (!dim_is_const(m->p->cx->dims, d, &n))
        die("state %s has no fixed size", sym_text(m->p->cx->names, name));
    return n;
}

static void print_slots(const HostModel *m, StrBuf *out)
{
    static const char *const kinds[] = {
        [SLOT_PARAM] = "PARAM",   [SLOT_GRAD] = "GRAD",   [SLOT_MOMENT] = "MOMENT",
        [SLOT_BUFFER] = "BUFFER", [SLOT_HYPER] = "HYPER", [SLOT_COUNTER] = "COUNTER",
        [SLOT_SEED] = "SEED",     [SLOT_CALLS] = "CALLS"};
    Emit e = {.out = out};
    emit_open(&e, "static const tn_slot slots[] = {");
    emit_line(&e, "{0},");
    for (uint32_t i = 1; i < m->p->slots.n; i++) {
        const Slot *s = &m->p->slots.at[i];
        emit_line(&e, "{%s, TN_SLOT_%s, %d, %d, %" PRId64 ", %.17g, %u, %u}, /* %u: %s */",
                  quoted(out->a, sym_text(m->p->cx->names, s->name)), kinds[s->kind],
                  (int)type_info(m->p, s->type)->dtype, s->saved,
                  fixed(m, type_numel(m->p, s->type), s->name), s->initial, s->segment,
                  host_place(m, type_info(m->p, s->type)->place), i,
                  type_text(m->p, out->a, s->type));
    }
    emit_close(&e, ";");
}

static const char *view_aliases(const HostModel *m, uint32_t i, StrBuf *out)
{
    const StateView *v = &m->p->state.at[i];
    Emit e = {.out = out};
    StrBuf s = {.a = out->a};
    if (!v->aliases.n)
        return "NULL";
    for (uint32_t k = 0; k < v->aliases.n; k++)
        sb_printf(&s, "%s, ", quoted(out->a, sym_text(m->p->cx->names, v->aliases.at[k])));
    emit_line(&e, "static const char *const aliases%u[] = {%sNULL};", i, sb_text(&s));
    return arena_printf(out->a, "aliases%u", i);
}

static void print_views(const HostModel *m, StrBuf *out)
{
    Emit e = {.out = out};
    const char **aliases = arena_array(out->a, const char *, m->p->state.n + 1);
    if (!m->p->state.n)
        return;
    for (uint32_t i = 0; i < m->p->state.n; i++)
        aliases[i] = view_aliases(m, i, out);
    emit_open(&e, "static const tn_state_view views[] = {");
    for (uint32_t i = 0; i < m->p->state.n; i++) {
        const StateView *v = &m->p->state.at[i];
        const TypeInfo *type = type_info(m->p, v->type);
        StrBuf shape = {.a = out->a};
        for (uint32_t d = 0; d < type->rank; d++)
            sb_printf(&shape, "%s%" PRId64, d ? ", " : "", fixed(m, type->shape[d], v->name));
        emit_line(&e, "{%s, %s, %u, %" PRId64 ", %d, %u, %d, %d, %d, {%s}},",
                  quoted(out->a, sym_text(m->p->cx->names, v->name)), aliases[i], v->slot,
                  v->offset, (int)type->dtype, type->rank, v->is_param, v->trainable, v->saved,
                  type->rank ? sb_text(&shape) : "0");
    }
    emit_close(&e, ";");
}

static void print_trains(const HostModel *m, StrBuf *out)
{
    Emit e = {.out = out};
    if (!m->p->trains.n)
        return;
    emit_open(&e, "static const tn_train trains[] = {");
    for (uint32_t i = 0; i < m->p->trains.n; i++) {
        const TrainInfo *t = &m->p->trains.at[i];
        const char *method = sym_text(m->p->cx->names, t->method);
        emit_line(&e, "{\"%s\", \"%s_step\", %d},", method, method, t->accumulate);
    }
    emit_close(&e, ";");
}

/* --- the whole -----------------------------------------------------------------------------------
 */

static const char *table_or_null(bool there, const char *name)
{
    return there ? name : "NULL";
}

void program_state(const HostModel *m, StrBuf *out)
{
    Emit e = {.out = out};
    emit_line(&e, "/* --- state --- */");
    emit_line(&e, "%s", "");
    print_slots(m, out);
    print_views(m, out);
    print_trains(m, out);
    emit_line(&e, "%s", "");
}

/* DLPack's numbers of devices: 1 is a CPU, 2 a GPU. */
static void print_places(const HostModel *m, const char *prefix, StrBuf *out)
{
    Emit e = {.out = out};
    if (m->places.n < 2)
        return;
    emit_open(&e, "static const tn_place %splaces[] = {", prefix);
    emit_line(&e, "{%d, -1}, /* the default device */", m->cuda ? 2 : 1);
    for (uint32_t i = 1; i < m->places.n; i++) {
        const Place p = m->places.at[i];
        emit_line(&e, "{%d, %d},", p == PLACE_HOST ? 1 : 2, p == PLACE_HOST ? 0 : p - PLACE_CUDA);
    }
    emit_close(&e, ";");
    emit_line(&e, "%s", "");
}

static void print_desc(const HostModel *m, const TableOptions *o, const char *prefix, StrBuf *out)
{
    Emit e = {.out = out};
    const char *model = model_prefix(out->a, m);
    emit_open(&e, "%sconst tn_model_desc %s_%sdesc = {", o->second ? "static " : "", model, prefix);
    emit_line(&e, ".abi = TN_ABI,");
    emit_line(&e, ".size = sizeof(tn_model_desc),");
    emit_line(&e, ".level = TN_LEVEL,");
    emit_line(&e, ".name = %s,", quoted(out->a, sym_text(m->p->cx->names, m->p->name)));
    emit_line(&e, ".version = \"%s\",", TENON_VERSION);
    emit_line(&e, ".source = %s,", quoted(out->a, model_source(out->a, m)));
    emit_line(&e, ".nslots = %u,", m->p->slots.n ? m->p->slots.n : 1);
    emit_line(&e, ".nviews = %u,", m->p->state.n);
    emit_line(&e, ".nkernels = %u,", m->kernels.n);
    emit_line(&e, ".nprograms = %u,", m->programs.n);
    emit_line(&e, ".ntrains = %u,", m->p->trains.n);
    emit_line(&e, ".slots = slots,");
    emit_line(&e, ".views = %s,", table_or_null(m->p->state.n, "views"));
    emit_line(&e, ".kernels = %s%s,", m->kernels.n ? prefix : "",
              table_or_null(m->kernels.n, "kernels"));
    emit_line(&e, ".programs = %s%s,", m->programs.n ? prefix : "",
              table_or_null(m->programs.n, "programs"));
    emit_line(&e, ".trains = %s,", table_or_null(m->p->trains.n, "trains"));
    if (o->nimages)
        emit_line(&e, ".images = images,");
    if (o->nimages)
        emit_line(&e, ".nimages = %d,", o->nimages);
    if (o->cuda_desc)
        emit_line(&e, ".cuda = %s,", o->cuda_desc);
    if (m->places.n > 1) {
        emit_line(&e, ".nplaces = %u,", m->places.n);
        emit_line(&e, ".places = %splaces,", prefix);
    }
    emit_close(&e, ";");
    emit_line(&e, "%s", "");
}

void program_tables(const HostModel *m, const PrintedKernel *kernels, const TableOptions *o,
                    StrBuf *out)
{
    const char *prefix = o->second ? "cuda_" : "";
    SizeCode code = {.lines = intern_create(out->a)};
    StrBuf elements = {.a = out->a};
    Emit e = {.out = out};
    print_kernels(m, kernels, prefix, out);
    for (uint32_t i = 0; i < m->programs.n; i++) {
        emit_line(&e, "/* --- %s%s --- */", sym_text(m->p->cx->names, m->programs.at[i]->name),
                  o->second ? " on CUDA" : "");
        emit_line(&e, "%s", "");
        program_table(m, m->programs.at[i], prefix, &code, out, &elements);
    }
    program_size_code(&code, prefix, out);
    if (m->programs.n) {
        emit_line(&e, "static const tn_program %sprograms[] = {", prefix);
        sb_puts(out, sb_text(&elements));
        emit_line(&e, "};");
        emit_line(&e, "%s", "");
    }
    print_places(m, prefix, out);
    print_desc(m, o, prefix, out);
}

/* --- entry points --------------------------------------------------------------------------------
 */

bool program_is_entry(const HostProgram *h)
{
    GraphKind k = h->graph->kind;
    return k == GRAPH_METHOD || k == GRAPH_FORWARD_TRAIN || k == GRAPH_BACKWARD ||
           k == GRAPH_GRAD || k == GRAPH_STEP || k == GRAPH_UPDATE;
}

/* Names that the entry points use themselves get a trailing "_". */
static const char *clean_name(Arena *a, const HostModel *m, Sym name)
{
    const char *clean = name_clean(a, sym_text(m->p->cx->names, name));
    bool own = !strcmp(clean, "m") || !strcmp(clean, "s") || !strcmp(clean, "tape") ||
               !strcmp(clean, "args");
    return own ? arena_printf(a, "%s_", clean) : clean;
}

bool entry_is_updated(const HostProgram *h, uint32_t result)
{
    for (uint32_t i = 0; i < h->nargs; i++)
        if (h->args.at[i].inout && sym_eq(h->args.at[i].name, h->args.at[result].name))
            return true;
    return false;
}

/* The backward call of a method that updates h in place takes d_h, of the new h, and gives d_h_out,
 * of the old one. */
const char *entry_arg_name(Arena *a, const HostModel *m, const HostProgram *h, uint32_t i)
{
    const char *name = clean_name(a, m, h->args.at[i].name);
    for (uint32_t k = 0; i >= h->nargs && k < h->nargs; k++)
        if (!entry_is_updated(h, i) && !strcmp(name, clean_name(a, m, h->args.at[k].name)))
            return arena_printf(a, "%s_out", name);
    return name;
}

const char *entry_prototype(Arena *a, const HostModel *m, const HostProgram *h)
{
    const char *model = model_prefix(a, m);
    StrBuf out = {.a = a};
    sb_printf(&out, "tn_status %s_%s(%s *m, tn_stream *s", model,
              name_clean(a, sym_text(m->p->cx->names, h->name)), model);
    if (h->graph->kind == GRAPH_BACKWARD)
        sb_puts(&out, ", tn_tape *tape");
    for (uint32_t i = 0; i < h->args.n; i++) {
        bool result = i >= h->nargs;
        if (result && entry_is_updated(h, i))
            continue;
        sb_printf(&out, ", %sDLTensor *%s", result || h->args.at[i].inout ? "" : "const ",
                  entry_arg_name(a, m, h, i));
    }
    if (h->graph->kind == GRAPH_FORWARD_TRAIN)
        sb_puts(&out, ", tn_tape **tape");
    sb_puts(&out, ")");
    return sb_text(&out);
}

static void print_entry(const HostModel *m, uint32_t program, StrBuf *out)
{
    const HostProgram *h = m->programs.at[program];
    Emit e = {.out = out};
    StrBuf args = {.a = out->a};
    for (uint32_t i = 0; i < h->args.n; i++)
        sb_printf(&args, "%s%s", i ? ", " : "", entry_arg_name(out->a, m, h, i));
    emit_line(&e, "%s", entry_prototype(out->a, m, h));
    emit_open(&e, "{");
    if (h->args.n)
        emit_line(&e, "const DLTensor *const args[] = {%s};", sb_text(&args));
    emit_line(&e, "return tn__run((tn_model *)m, s, %u, %s, %s, %s);", program,
              h->args.n ? "args" : "NULL", h->graph->kind == GRAPH_FORWARD_TRAIN ? "tape" : "NULL",
              h->graph->kind == GRAPH_BACKWARD ? "tape" : "NULL");
    emit_close(&e, "");
    emit_line(&e, "%s", "");
}

void program_entries(const HostModel *m, StrBuf *out)
{
    const char *model = model_prefix(out->a, m);
    Emit e = {.out = out};
    emit_line(&e, "tn_status %s_create(tn_context *ctx, const tn_model_options *opt, %s **out)",
              model, model);
    emit_open(&e, "{");
    emit_line(&e, "return tn_model_create(ctx, &%s_desc, opt, (tn_model **)out);", model);
    emit_close(&e, "");
    emit_line(&e, "%s", "");
    emit_line(&e, "void %s_destroy(%s *m)", model, model);
    emit_open(&e, "{");
    emit_line(&e, "tn_model_destroy((tn_model *)m);");
    emit_close(&e, "");
    emit_line(&e, "%s", "");
    emit_line(&e, "tn_model *%s_model(%s *m)", model, model);
    emit_open(&e, "{");
    emit_line(&e, "return (tn_model *)m;");
    emit_close(&e, "");
    emit_line(&e, "%s", "");
    for (uint32_t i = 0; i < m->programs.n; i++)
        if (program_is_entry(m->programs.at[i]))
            print_entry(m, i, out);
}
