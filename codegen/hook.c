/* hook.c: what a function of runtime/kernels does to each element in between: a function of its
 * own, and the structure that holds what it reads. In C it is called for a row:
 *
 *   struct y_hook { const float *slopes; int64_t S; };
 *   TN_INLINE void y_score(const void *hook, float *restrict score, float *restrict slope,
 *                          int64_t b, int64_t h, int64_t i, int64_t first, int64_t n) { .. }
 *
 * In CUDA, for an element:
 *
 *   struct y_hook {
 *       const float *slopes; int S;
 *       __device__ float operator()(float s, .., long long j, float *slope) const { .. }
 *   };
 *
 * SPDX-License-Identifier: MIT */
#include "codegen/ktext.h"
#include "ir/base/die.h"

#include <ctype.h>
#include <string.h>

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static bool mentions(const char *text, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = strstr(text, name); p; p = strstr(p + 1, name))
        if ((p == text || !is_word(p[-1])) && !is_word(p[n]))
            return true;
    return false;
}

static void mark(const Kernel *k, KExpr e, bool *needed)
{
    if (!e.id || needed[e.id])
        return;
    needed[e.id] = true;
    for (uint32_t i = 0; i < kexpr(k, e)->nin; i++)
        mark(k, kexpr(k, e)->in[i], needed);
}

/* Each operation and load gets a name: no load stands under a condition (lower_let.c). */
static void print_values(KText *t, const KStmt *s)
{
    bool *needed = arena_array(t->a, bool, t->k->exprs.n);
    for (int i = 0; i < 2; i++)
        mark(t->k, s->hook[i], needed);
    for (uint32_t id = 1; id < t->k->exprs.n; id++) {
        const KExprInfo *x = &t->k->exprs.at[id];
        if (!needed[id] || x->kind == KE_CONST || x->kind == KE_INDEX || x->kind == KE_ACC)
            continue;
        const char *value = ktext_expr(t, (KExpr){id}).text;
        const char *name = name_unique(&t->names, "v");
        emit_line(&t->e, "const %s %s = %s;", ktext_value(t, x->type), name, value);
        ktext_let(t, (KExpr){id}, (Text){name, PREC_PRIMARY});
    }
}

static const char *size_type(const KText *t, Symbol s)
{
    return t->wide[s.id] ? ktext_int64(t) : "int";
}

/* The names of the function's arguments: what it reads may be called so, too. */
typedef struct {
    const char *hook, *with, *score, *slope, *index[4], *first, *n;
} Arguments;

static Arguments arguments(KText *t)
{
    Arguments x = {0};
    const char **const names[] = {&x.hook,     &x.with,     &x.score,    &x.slope, &x.index[0],
                                  &x.index[1], &x.index[2], &x.index[3], &x.first, &x.n};
    static const char *const wanted[] = {"hook", "with", "score", "slope", "b",
                                         "h",    "i",    "j",     "first", "n"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        *names[i] = name_unique(&t->names, wanted[i]);
    return x;
}

/* The loop over a row, or the element. */
static const char *body_text(KText *t, const KStmt *s, const Arguments *x)
{
    StrBuf out = {.a = t->a};
    const Emit around = t->e;
    const bool cuda = t->target == TARGET_CUDA;
    const char *at = cuda ? "" : "[l]"; /* `l` is the name of no parameter: ktext_begin */
    t->e = (Emit){.out = &out, .depth = cuda ? 2 : 1};
    for (int i = 0; i < 4; i++) {
        t->symbol[s->hook_at[i].id] = x->index[i];
        t->wide[s->hook_at[i].id] = true;
    }
    t->accs[0].totalled = true;
    t->accs[0].result[0] = arena_printf(t->a, "%s%s", x->score, at);
    if (!cuda) {
        emit_line(&t->e, "(void)%s, (void)%s, (void)%s, (void)%s;", x->slope, x->index[0],
                  x->index[1], x->index[2]);
        emit_open(&t->e, "for (int64_t l = 0; l < %s; l++) {", x->n);
        emit_line(&t->e, "const int64_t %s = %s + l;", x->index[3], x->first);
        emit_line(&t->e, "(void)%s;", x->index[3]);
    }
    print_values(t, s);
    if (s->hook[1].id)
        emit_line(&t->e, "%s%s%s = %s;", cuda ? "*" : "", x->slope, at,
                  ktext_expr(t, s->hook[1]).text);
    const char *value = ktext_expr(t, s->hook[0]).text;
    if (cuda) {
        emit_line(&t->e, "return %s;", value);
    } else {
        emit_line(&t->e, "%s%s = %s;", x->score, at, value);
        emit_close(&t->e, "");
    }
    t->e = around;
    return sb_text(&out);
}

/* Members of the structure, or their values in front of the function's body, or what the kernel
 * puts into it: of those that the body mentions. */
typedef enum { MEMBERS, COPIES, VALUES } Print;

static void print_members(KText *t, const char *body, Print how, const char *with, StrBuf *values)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->k->params.n; i++) {
        const char *type = ktext_element(t, t->k->params.at[i].dtype), *name = t->param[i];
        if (!mentions(body, name))
            continue;
        n++;
        if (how == MEMBERS)
            emit_line(&t->e, "const %s *%s;", type, name);
        else if (how == COPIES)
            emit_line(&t->e, "const %s *restrict const %s = %s->%s;", type, name, with, name);
        else
            sb_printf(values, "%s%s", values->n ? ", " : "", name);
    }
    for (uint32_t i = 0; i < t->nsizes; i++) {
        const char *type = size_type(t, t->sizes[i]), *name = t->symbol[t->sizes[i].id];
        if (!mentions(body, name))
            continue;
        n++;
        if (how == MEMBERS)
            emit_line(&t->e, "%s %s;", type, name);
        else if (how == COPIES)
            emit_line(&t->e, "const %s %s = %s->%s;", type, name, with, name);
        else
            sb_printf(values, "%s%s", values->n ? ", " : "", name);
    }
    if (!n && how == MEMBERS)
        emit_line(&t->e, "int nothing;");
    if (!n && how == VALUES)
        sb_puts(values, "0");
}

const char *ktext_print_hook(KText *t, const KStmt *s)
{
    const bool cuda = t->target == TARGET_CUDA;
    const Scope scope = scope_begin(t);
    const Arguments x = arguments(t);
    const char *name = t->kernel, *body = body_text(t, s, &x);
    const char *const *at = x.index;
    const Emit around = t->e;
    StrBuf values = {.a = t->a};
    CHECK(t->hooks && name);
    t->e = (Emit){.out = t->hooks};
    emit_open(&t->e, "struct %s_hook {", name);
    print_members(t, body, MEMBERS, NULL, NULL);
    if (cuda) {
        emit_line(&t->e,
                  "__device__ __forceinline__ float operator()(float %s, long long %s, long long "
                  "%s, long long %s, long long %s, float *%s) const",
                  x.score, at[0], at[1], at[2], at[3], x.slope);
        emit_open(&t->e, "{");
        emit_raw(&t->e, body);
        emit_close(&t->e, "");
    }
    emit_close(&t->e, ";");
    if (!cuda) {
        emit_function(&t->e, arena_printf(t->a, "TN_INLINE void %s_score", name),
                      arena_printf(t->a,
                                   "const void *%s, float *restrict %s, float *restrict %s, "
                                   "int64_t %s, int64_t %s, int64_t %s, int64_t %s, int64_t %s",
                                   x.hook, x.score, x.slope, at[0], at[1], at[2], x.first, x.n));
        emit_open(&t->e, "{");
        emit_line(&t->e, "const struct %s_hook *const %s = %s;", name, x.with, x.hook);
        emit_line(&t->e, "(void)%s;", x.with);
        print_members(t, body, COPIES, x.with, NULL);
        emit_raw(&t->e, body);
        emit_close(&t->e, "");
    }
    emit_line(&t->e, "%s", "");
    t->e = around;
    scope_end(t, scope);
    print_members(t, body, VALUES, NULL, &values);
    emit_line(&t->e, "const %s%s_hook hook = {%s};", cuda ? "" : "struct ", name, sb_text(&values));
    return name;
}
