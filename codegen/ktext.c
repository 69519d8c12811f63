/* ktext.c: the state of a kernel that is being printed: names and scopes.
 * SPDX-License-Identifier: MIT */
#include "codegen/c.h"
#include "codegen/program.h"
#include "ir/base/die.h"

#include <string.h>

/* The kernel's lines are those of one file. */
static void find_lines(KText *t)
{
    KernelLines l = kernel_lines(t->p, t->k);
    if (!l.file)
        return;
    t->line_file = l.file;
    t->lines = arena_new(t->a, EmitLines);
    t->lines->file = quoted(t->a, source_file(t->p->cx->sources, l.file)->path);
    t->lines->line = l.lo;
    t->e.lines = t->lines;
}

Emit ktext_frame(KText *t, StrBuf *out)
{
    if (t->lines) {
        t->lines->next = 0;
        t->lines->line = kernel_lines(t->p, t->k).lo;
    }
    return (Emit){.out = out, .lines = t->lines};
}

KText ktext_begin(Program *p, const Kernel *k, Target target, StrBuf *out)
{
    Arena *a = out->a;
    uint32_t nsymbols = dim_nsymbols(p->cx->dims) + 64; /* counters of strips are made later */
    uint32_t nexprs = k->exprs.n + 1, nparams = k->params.n + 1;
    KText t = {.p = p, .k = k, .a = a, .target = target};
    t.e = (Emit){.out = out};
    t.names.a = a;
    t.param = arena_array(a, const char *, nparams);
    t.let = arena_array(a, Text, nexprs);
    t.vector = arena_array(a, Text, nexprs);
    t.seen = arena_array(a, uint32_t, nexprs);
    t.symbol = arena_array(a, const char *, nsymbols + 1);
    t.wide = arena_array(a, bool, nsymbols + 1);
    t.keeps = arena_array(a, const char *, k->keeps.n + 1);
    static const char *const counters[][8] = {
        [TARGET_C] = {"cell", "half", "hook", "l", "n_cells", "next", "rest"},
        [TARGET_CUDA] = {"cell", "hook", "j", "k", "mask", "q"},
    };
    for (int i = 0; counters[target][i]; i++)
        name_take(&t.names, counters[target][i]);
    static const char *const hooks[] = {"a",       "b",     "store", "T",  "S",  "W",
                                        "to",      "chunk", "h",     "m0", "n0", "rows",
                                        "columns", "tiles", "e"}; /* of tiles (cuda_tile.c) */
    for (size_t i = 0; k->tile.m && target == TARGET_CUDA && i < ARRAY_LEN(hooks); i++)
        name_take(&t.names, hooks[i]);
    for (uint32_t i = 0; i < k->params.n; i++)
        t.param[i] = name_unique(&t.names, sym_text(p->cx->names, k->params.at[i].name));
    accs_analyse(&t);
    if (p->debug)
        find_lines(&t);
    return t;
}

/* Where a statement comes from: its own place, its expression's, or that of what it holds. */
static Span stmt_place(const KText *t, const KStmt *s)
{
    Span at = s->site.at;
    if (!at.file && s->expr.id)
        at = kexpr(t->k, s->expr)->site.at;
    for (uint32_t i = 0; i < s->body.n && !at.file; i++)
        at = stmt_place(t, &s->body.at[i]);
    return at;
}

void ktext_line(KText *t, const KStmt *s)
{
    if (!t->lines)
        return;
    Span at = stmt_place(t, s);
    int col;
    if (at.file == t->line_file) /* what another file says belongs to the line that calls it */
        source_position(t->p->cx->sources, at.file, at.start, &t->lines->line, &col);
}

Scope scope_begin(const KText *t)
{
    return (Scope){t->lets.n, t->names.taken.n};
}

void scope_end(KText *t, Scope s)
{
    while (t->lets.n > s.lets)
        t->let[t->lets.at[--t->lets.n]] = (Text){NULL, 0};
    t->names.taken.n = s.names;
}

void ktext_let(KText *t, KExpr e, Text text)
{
    t->let[e.id] = text;
    vec_push(t->a, &t->lets, e.id);
}

const char *ktext_symbol(KText *t, Symbol s, const char *wanted, bool wide)
{
    t->symbol[s.id] = name_unique(&t->names, wanted);
    t->wide[s.id] = wide;
    return t->symbol[s.id];
}

uint32_t ktext_site(KText *t, Site site)
{
    t->reports = true;
    for (uint32_t i = 0; i < t->sites.n; i++) {
        const Span *at = &t->sites.at[i].at;
        if (at->file == site.at.file && at->start == site.at.start && at->end == site.at.end)
            return i + 1;
    }
    vec_push(t->a, &t->sites, site);
    return t->sites.n;
}

bool ktext_checked(KText *t, Guard pred, const char **index, const char **size)
{
    DimTable *d = t->p->cx->dims;
    for (uint32_t i = 0; i < pred.n; i++) {
        const GuardTerm *g = &pred.at[i];
        if ((g->kind != G_LT && g->kind != G_LE) || !dim_mentions_kind(d, g->a, SYM_LOADED))
            continue;
        const char *cast = t->target == TARGET_CUDA ? "(int)" : "(int32_t)";
        Dim n = g->kind == G_LE ? dim_add(d, g->b, dim_const(d, 1)) : g->b;
        *index = arena_printf(t->a, "%s%s", cast, ktext_dim_at(t, g->a, PREC_UNARY));
        *size = arena_printf(t->a, "%s%s", ktext_is_wide(t, n) ? cast : "",
                             ktext_dim_at(t, n, PREC_UNARY));
        return true;
    }
    return false;
}

const char *ktext_let_name(KText *t, const KStmt *s)
{
    const Interner *names = t->p->cx->names;
    if (s->axis.id)
        return ktext_symbol(t, s->axis, sym_text(names, dim_symbol(t->p->cx->dims, s->axis)->name),
                            true);
    return name_unique(&t->names, sym_text(names, kexpr(t->k, s->expr)->name));
}

void ktext_print_check(KText *t, const KStmt *s)
{
    const char *index, *size, *guard = ktext_guard(t, s->pred).text;
    const bool first = t->target == TARGET_CUDA; /* many may fail: one of them writes */
    const uint32_t site = ktext_site(t, s->site);
    ktext_line(t, s);
    if (first) {
        emit_open(&t->e, "if (!(%s) && atomicCAS(error, 0, %u) == 0) {", guard, site);
    } else {
        emit_open(&t->e, "if (!(%s)) {", guard);
        emit_line(&t->e, "error[0] = %u;", site);
    }
    if (ktext_checked(t, s->pred, &index, &size)) {
        emit_line(&t->e, "error[1] = %s;", index);
        emit_line(&t->e, "error[2] = %s;", size);
    }
    emit_close(&t->e, "");
}

void ktext_print_store(KText *t, const KStmt *s)
{
    ktext_line(t, s);
    const char *value = ktext_to_memory(t, s->param, s->expr);
    emit_line(&t->e, "%s = %s;", ktext_access(t, s->param, s->at), value);
}

void ktext_print_call(KText *t, const KStmt *s)
{
    const bool cuda = t->target == TARGET_CUDA;
    StrBuf out = {.a = t->a};
    const char *hook = s->hook[0].id ? ktext_print_hook(t, s) : NULL;
    const char *function = sym_text(t->p->cx->names, s->call), *type = strrchr(function, '_');
    if (hook && !cuda) /* an instance of its own: paste.c */
        function =
            arena_printf(t->a, "%.*s_with_%s%s", (int)(type - function), function, hook, type);
    sb_printf(&out, "tn_%s%s(", cuda ? "cu_" : "", function);
    for (uint32_t i = 0; i < s->nargs; i++)
        sb_printf(&out, "%s%s", i ? ", " : "", s->args[i] == NO_PARAM ? "0" : t->param[s->args[i]]);
    for (uint32_t i = 0; i < s->nints; i++)
        sb_printf(&out, "%s%s", i || s->nargs ? ", " : "", ktext_dim(t, s->ints[i]).text);
    if (s->hooked)
        sb_puts(&out, cuda ? hook ? ", hook" : ", tn_cu_no_hook()" : hook ? ", &hook" : ", 0");
    if (s->reports)
        sb_printf(&out, ", error, %u", ktext_site(t, s->site));
    ktext_line(t, s);
    emit_line(&t->e, "%s);", sb_text(&out));
}
