/* c.c: see c.h. Statements, accumulators, cells and functions; loops are in c_loops.c.
 * SPDX-License-Identifier: MIT */
#include "codegen/c.h"
#include "codegen/c_internal.h"
#include "ir/base/die.h"
#include "ir/host.h"

#include <inttypes.h>
#include <string.h>

const char *c_name_of(const CPrint *c, Sym s)
{
    return sym_text(c->t.p->cx->names, s);
}

const char *c_axis_name(const CPrint *c, Symbol s)
{
    return c_name_of(c, dim_symbol(c_dims(c), s)->name);
}

/* --- plain statements ----------------------------------------------------------------------------
 */

void c_let(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    ktext_line(t, s);
    const char *value = ktext_expr(t, s->expr).text;
    DType type = kexpr(t->k, s->expr)->type;
    const char *name = ktext_let_name(t, s);
    emit_line(&t->e, "const %s %s = %s;", s->axis.id ? "int64_t" : ktext_value(t, type), name,
              value);
    ktext_let(t, s->expr, (Text){name, PREC_PRIMARY});
}

static void print_fold(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    ktext_line(t, s);
    const char *index = NULL;
    if (t->accs[s->acc].values) { /* folded with its block */
        emit_line(&t->e, "%s[l] = %s;", t->accs[s->acc].values, ktext_expr(t, s->expr).text);
        return;
    }
    if (s->fold_index.id) {
        Dim at = t->nsubst ? dim_substitute(c_dims(c), s->fold_index, t->subst, t->nsubst)
                           : s->fold_index;
        index = ktext_dim(t, at).text;
    }
    emit_line(&t->e, "%s;", acc_fold(t, s->acc, ktext_expr(t, s->expr).text, index));
}

static void print_keep(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    ktext_line(t, s);
    Dim at = s->keep_index.id ? s->keep_index : dim_of(c_dims(c), t->lane_axis);
    if (t->nsubst)
        at = dim_substitute(c_dims(c), at, t->subst, t->nsubst);
    emit_line(&t->e, "%s[%s] = %s;", t->keeps[s->keep], ktext_dim(t, at).text,
              ktext_expr(t, s->expr).text);
}

/* --- accumulators --------------------------------------------------------------------------------
 */

static void name_fields(CPrint *c, uint32_t acc, const char *tail)
{
    KText *t = &c->t;
    const char *base = c_name_of(c, t->k->accs.at[acc].name);
    int n = reducer_info(t->k->accs.at[acc].reducer)->nfields;
    for (int f = 0; f < n; f++)
        t->accs[acc].field[f] =
            name_unique(&t->names, arena_printf(t->a, "%s%s%s", *base ? base : "acc",
                                                acc_suffix(t, acc, f), tail));
}

static bool is_zero(const char *text)
{
    return !strcmp(text, "0") || !strcmp(text, "0.0") || !strcmp(text, "0.0f");
}

/* Arrays start at the identity: zeros by their initialiser, others in a loop. */
static void print_array_start(CPrint *c, uint32_t acc, const char *size)
{
    KText *t = &c->t;
    int n = reducer_info(t->k->accs.at[acc].reducer)->nfields, loops = 0;
    for (int f = 0; f < n; f++) {
        bool zero = is_zero(acc_identity(t, acc, f));
        loops += !zero;
        emit_line(&t->e, "%s %s[%s]%s;", acc_field_type(t, acc, f), t->accs[acc].field[f], size,
                  zero ? " = {0}" : "");
    }
    for (int f = 0; f < n && loops; f++) {
        const char *identity = acc_identity(t, acc, f);
        if (is_zero(identity))
            continue;
        emit_in(&t->e, "for (int l = 0; l < %s; l++)", size);
        emit_line(&t->e, "%s[l] = %s;", t->accs[acc].field[f], identity);
        emit_out(&t->e);
    }
}

void c_acc(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    AccInfo *acc = &t->accs[s->acc];
    acc->totalled = false;
    if (acc->store != ACC_SIDE && acc->store != ACC_LANES)
        acc->store = c->strip.on ? ACC_STRIP : ACC_SCALAR;
    int n = reducer_info(t->k->accs.at[s->acc].reducer)->nfields;
    switch (acc->store) {
    case ACC_SCALAR:
        name_fields(c, s->acc, "");
        for (int f = 0; f < n; f++)
            emit_line(&t->e, "%s %s = %s;", acc_field_type(t, s->acc, f), acc->field[f],
                      acc_identity(t, s->acc, f));
        break;
    case ACC_LANES:
        name_fields(c, s->acc, "_lanes");
        print_array_start(c, s->acc, arena_printf(t->a, "%d", acc->lanes));
        break;
    case ACC_STRIP:
        name_fields(c, s->acc, "");
        print_array_start(c, s->acc, arena_printf(t->a, "%d", c->strip.width));
        break;
    case ACC_SIDE:
        name_fields(c, s->acc, "");
        print_array_start(c, s->acc, ktext_dim(t, acc->extent).text);
        break;
    }
}

static void print_results(CPrint *c, uint32_t acc, const Text *fields)
{
    KText *t = &c->t;
    AccInfo *info = &t->accs[acc];
    const KAcc *a = &t->k->accs.at[acc];
    const char *base = c_name_of(c, a->name);
    const bool lse = a->reducer == RED_logsumexp;
    for (int r = 0; r < kacc_results(a); r++) {
        DType type = r && a->reducer != RED_moments && !lse ? DT_i64 : a->type;
        if (!acc_is_used(t, acc, r))
            continue;
        info->result[r] = name_unique(&t->names, arena_printf(t->a, "%s%s", *base ? base : "acc",
                                                              acc_result_suffix(a->reducer, r)));
        emit_line(&t->e, "const %s %s = %s;", ktext_value(t, type), info->result[r],
                  acc_finish(t, acc, r, fields).text);
    }
    info->totalled = true;
}

/* Half of the lanes are joined with the others, and half of those: all in registers. */
static void print_halves(CPrint *c, uint32_t acc)
{
    KText *t = &c->t;
    Text to = acc_lane_field(t, acc, 0, "l");
    for (int half = t->accs[acc].lanes / 2; half > 1; half /= 2) {
        Text from = acc_lane_field(t, acc, 0, arena_printf(t->a, "l + %d", half));
        emit_in(&t->e, "for (int l = 0; l < %d; l++)", half);
        emit_line(&t->e, "%s;", acc_join(t, acc, &to, &from));
        emit_out(&t->e);
    }
    Text first = acc_lane_field(t, acc, 0, "0"), second = acc_lane_field(t, acc, 0, "1");
    emit_line(&t->e, "%s;", acc_join(t, acc, &first, &second));
}

/* The same in one loop, where a join is a function. Always 8 at once: what lanes from `half` on get
 * is not used, and the trip count is fixed. */
static void print_joins(CPrint *c, uint32_t acc)
{
    KText *t = &c->t;
    Text to[MAX_FIELDS], from[MAX_FIELDS];
    for (int f = 0; f < reducer_info(t->k->accs.at[acc].reducer)->nfields; f++) {
        to[f] = acc_lane_field(t, acc, f, "l");
        from[f] = acc_lane_field(t, acc, f, "l + half");
    }
    emit_in(&t->e, "for (int half = 8; half; half /= 2)");
    emit_in(&t->e, "for (int l = 0; l < 8; l++)");
    emit_line(&t->e, "%s;", acc_join(t, acc, to, from));
    emit_out(&t->e);
    emit_out(&t->e);
}

static void print_total(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    AccInfo *info = &t->accs[s->acc];
    Reducer r = t->k->accs.at[s->acc].reducer;
    Text to[MAX_FIELDS];
    if (info->store == ACC_SCALAR && (r == RED_moments || r == RED_logsumexp)) {
        for (int f = 0; f < reducer_info(r)->nfields; f++)
            to[f] = acc_field(t, s->acc, f);
        print_results(c, s->acc, to);
    }
    if (info->store != ACC_LANES)
        return;
    if (reducer_info(r)->nfields == 1)
        print_halves(c, s->acc);
    else
        print_joins(c, s->acc);
    for (int f = 0; f < reducer_info(r)->nfields; f++)
        to[f] = acc_lane_field(t, s->acc, f, "0");
    print_results(c, s->acc, to);
}

/* --- blocks ------------------------------------------------------------------------------------
 */

static void print_when(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    ktext_line(t, s);
    emit_open(&t->e, "if (%s) {", ktext_guard(t, s->pred).text);
    Scope scope = scope_begin(t);
    c_block(c, &s->body);
    scope_end(t, scope);
    emit_close(&t->e, "");
}

void c_block(CPrint *c, const KBlock *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        switch (s->kind) {
        case KS_FOR:
            c_for(c, s);
            break;
        case KS_WHEN:
            print_when(c, s);
            break;
        case KS_LET:
            c_let(c, s);
            break;
        case KS_STORE:
            ktext_print_store(&c->t, s);
            break;
        case KS_FOLD:
            print_fold(c, s);
            break;
        case KS_TOTAL:
            print_total(c, s);
            break;
        case KS_KEEP:
            print_keep(c, s);
            break;
        case KS_ACC:
            c_acc(c, s);
            break;
        case KS_CHECK:
            ktext_print_check(&c->t, s);
            break;
        case KS_LAST: /* kernels for GPUs only */
        case KS_BARRIER:
            break; /* one thread works on a cell */
        case KS_CALL:
            ktext_print_call(&c->t, s);
            break;
        }
    }
}

/* --- cells ---------------------------------------------------------------------------------------
 */

typedef struct {
    const KStmt *loops[8];
    int n;
    const KBlock *body;
} Grid;

static Grid grid_of(const Kernel *k)
{
    Grid g = {.n = 0, .body = &k->body};
    while (g.body->n == 1 && g.body->at[0].kind == KS_FOR && g.body->at[0].loop == FOR_GRID) {
        CHECK(g.n < 8);
        g.loops[g.n++] = &g.body->at[0];
        g.body = &g.body->at[0].body;
    }
    return g;
}

static void declare_keeps(CPrint *c)
{
    KText *t = &c->t;
    for (uint32_t i = 0; i < t->k->keeps.n; i++) {
        const KKeep *k = &t->k->keeps.at[i];
        t->keeps[i] = name_unique(&t->names, c_name_of(c, k->name));
        emit_line(&t->e, "%s %s[%s];", ktext_value(t, k->type), t->keeps[i],
                  ktext_dim(t, k->extent).text);
    }
}

/* Values that are the same for every cell are computed once, before the loop. */
static uint32_t print_uniform(CPrint *c, const Grid *g)
{
    uint32_t i = 0;
    for (; i < g->body->n && g->body->at[i].kind == KS_LET && !g->body->at[i].axis.id; i++) {
        for (int j = 0; j < g->n; j++)
            if (kexpr_depends(&c->t, g->body->at[i].expr, g->loops[j]->axis))
                return i;
        c_let(c, &g->body->at[i]);
    }
    return i;
}

/* cell -> axes: the innermost axis is cell % extent. */
static void print_axes(CPrint *c, const Grid *g)
{
    KText *t = &c->t;
    StrBuf out = {.a = t->a};
    for (int i = 0; i < g->n; i++) {
        const KStmt *s = g->loops[i];
        Dim inner = dim_const(c_dims(c), 1);
        for (int j = i + 1; j < g->n; j++)
            inner = dim_mul(c_dims(c), inner, g->loops[j]->hi);
        const char *name = ktext_symbol(t, s->axis, c_axis_name(c, s->axis), true);
        sb_printf(&out, "%s%s = cell", i ? ", " : "const int64_t ", name);
        if (!dim_is_one(c_dims(c), inner))
            sb_printf(&out, " / %s", ktext_dim_at(t, inner, PREC_UNARY));
        if (i)
            sb_printf(&out, " %% %s", ktext_dim_at(t, s->hi, PREC_UNARY));
    }
    emit_line(&t->e, "%s;", sb_text(&out));
}

static void print_cell_strips(CPrint *c, const Grid *g, const KBlock *body)
{
    KText *t = &c->t;
    const KStmt *inner = g->loops[g->n - 1];
    if (g->n == 1) {
        const char *name = ktext_symbol(t, inner->axis, c_axis_name(c, inner->axis), true);
        emit_open(&t->e, "for (int64_t %s = lo; %s < hi; %s += 64) {", name, name, name);
        emit_line(&t->e, "const int n_%s = hi - %s < 64 ? (int)(hi - %s) : 64;", name, name, name);
        c_strip_begin(c, inner->axis, STRIP_CELLS, arena_printf(t->a, "n_%s", name), false);
    } else { /* a strip stays within one run of the innermost axis */
        emit_open(&t->e, "for (int64_t cell = lo, next; cell < hi; cell = next) {");
        print_axes(c, g);
        emit_line(&t->e, "next = cell - %s + %s < hi ? cell - %s + %s : hi;",
                  t->symbol[inner->axis.id], ktext_dim(t, inner->hi).text,
                  t->symbol[inner->axis.id], ktext_dim(t, inner->hi).text);
        emit_line(&t->e, "next = cell + 64 < next ? cell + 64 : next;");
        emit_line(&t->e, "const int n_cells = (int)(next - cell);");
        c_strip_begin(c, inner->axis, STRIP_CELLS, "n_cells", false);
    }
    Scope scope = scope_begin(t);
    c_draw_runs(c, body, dim_of(c_dims(c), inner->axis), false);
    c_strip_block(c, body);
    scope_end(t, scope);
    c_strip_end(c, (Strip){.on = false});
    emit_close(&t->e, "");
}

static void print_cells(CPrint *c)
{
    KText *t = &c->t;
    Grid g = grid_of(t->k);
    if (!g.n) {
        declare_keeps(c);
        c_block(c, g.body);
        return;
    }
    uint32_t uniform = print_uniform(c, &g);
    KBlock body = {g.body->at + uniform, g.body->n - uniform, g.body->n - uniform};
    const KStmt *inner = g.loops[g.n - 1];
    bool owned = !t->k->keeps.n; /* kept values and side sums would need an array a lane */
    for (uint32_t i = 0; i < t->k->accs.n; i++)
        owned = owned && !t->k->accs.at[i].side;
    if (inner->grid_lanes && owned && kblock_has_loop(&body) &&
        c_can_strip(c, &body, inner->axis)) {
        print_cell_strips(c, &g, &body);
        return;
    }
    if (g.n == 1) {
        const char *name = ktext_symbol(t, inner->axis, c_axis_name(c, inner->axis), true);
        emit_open(&t->e, "for (int64_t %s = lo; %s < hi; %s++) {", name, name, name);
    } else {
        emit_open(&t->e, "for (int64_t cell = lo; cell < hi; cell++) {");
        print_axes(c, &g);
    }
    declare_keeps(c);
    c_ahead_plan(c, &body, inner->axis);
    c_block(c, &body);
    emit_close(&t->e, "");
}

/* --- functions -----------------------------------------------------------------------------------
 */

enum { MAX_SIZES = 64 };

/* Whether `text` mentions the identifier. */
static bool mentions(const char *text, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = strstr(text, name); p; p = strstr(p + 1, name)) {
        bool before =
            p > text && (p[-1] == '_' || (p[-1] >= '0' && p[-1] <= '9') ||
                         (p[-1] >= 'A' && p[-1] <= 'Z') || (p[-1] >= 'a' && p[-1] <= 'z'));
        char q = p[n];
        bool after =
            q == '_' || (q >= '0' && q <= '9') || (q >= 'A' && q <= 'Z') || (q >= 'a' && q <= 'z');
        if (!before && !after)
            return true;
    }
    return false;
}

typedef struct {
    StrBuf params, args;
    int n;
} Signature;

static void add_param(Signature *s, const char *param, const char *arg)
{
    sb_printf(&s->params, "%s%s", s->n ? ", " : "", param);
    sb_printf(&s->args, "%s%s", s->n ? ", " : "", arg);
    s->n++;
}

/* Only what the body mentions becomes a parameter. */
static Signature signature(CPrint *c, const char *body, const Symbol *sizes, uint32_t nsizes)
{
    KText *t = &c->t;
    Signature s = {.params = {.a = t->a}, .args = {.a = t->a}};
    for (uint32_t i = 0; i < t->k->params.n; i++) {
        const KParam *q = &t->k->params.at[i];
        if (mentions(body, t->param[i]))
            add_param(&s,
                      arena_printf(t->a, "%s%s *restrict %s", q->mode == K_IN ? "const " : "",
                                   ktext_element(t, q->dtype), t->param[i]),
                      arena_printf(t->a, "p[%u]", i));
    }
    for (uint32_t i = 0; i < nsizes; i++)
        if (mentions(body, t->symbol[sizes[i].id]))
            add_param(&s, arena_printf(t->a, "int64_t %s", t->symbol[sizes[i].id]),
                      arena_printf(t->a, "n[%u]", i));
    if (t->reports)
        add_param(&s, "int32_t *error", arena_printf(t->a, "p[%u]", t->k->params.n));
    if (mentions(body, "lo")) {
        add_param(&s, "int64_t lo", "lo");
        add_param(&s, "int64_t hi", "hi");
    }
    if (!s.n)
        add_param(&s, "void", "");
    return s;
}

/* Whether some loop over lanes fills vectors of 512 bits more than once. */
static bool has_long_lanes(const DimTable *d, const KBlock *b)
{
    enum { LONG = 2 * STRIP_LANES };
    int64_t extent;
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        if (s->kind == KS_FOR && (s->loop == FOR_LANES || s->grid_lanes) &&
            (!dim_is_const(d, s->hi, &extent) || extent >= LONG))
            return true;
        if (has_long_lanes(d, &s->body))
            return true;
    }
    return false;
}

/* Whether it computes so much that vectors of 512 bits pay for their code: some function, random
 * numbers, or a reducer with functions. What only streams is as fast with half of that. */
static bool is_heavy(const DimTable *d, const Kernel *k)
{
    enum { HEAVY = 8 };
    if (k->class == CLASS_OPAQUE)
        return true;
    if (!has_long_lanes(d, &k->body))
        return false;
    for (uint32_t i = 1; i < k->exprs.n; i++) {
        const KExprInfo *x = &k->exprs.at[i];
        if (x->kind == KE_RANDOM || (x->kind == KE_OP && op_info(x->op)->weight >= HEAVY))
            return true;
    }
    for (uint32_t i = 0; i < k->accs.n; i++)
        if (reducer_info(k->accs.at[i].reducer)->nfields > 1)
            return true;
    return false;
}

PrintedKernel c_kernel(Program *p, const Kernel *k, uint32_t number, HowOften often, StrBuf *out)
{
    StrBuf body = {.a = out->a}, hooks = {.a = out->a};
    Symbol sizes[MAX_SIZES];
    uint32_t nsizes = kernel_sizes(p, k, sizes, MAX_SIZES);
    CPrint c = {.t = ktext_begin(p, k, TARGET_C, &body)};
    KText *t = &c.t;
    CHECK(nsizes <= MAX_SIZES);
    for (uint32_t i = 0; i < nsizes; i++)
        ktext_symbol(t, sizes[i], c_axis_name(&c, sizes[i]), true);
    t->e.depth = 1;
    const char *name = c_name_of(&c, k->name);
    t->kernel = name;
    t->sizes = sizes;
    t->nsizes = nsizes;
    t->hooks = &hooks;
    print_cells(&c);
    Signature s = signature(&c, sb_text(&body), sizes, nsizes);
    kernel_comment(p, k, number, out);
    sb_puts(out, sb_text(&hooks));
    t->e = ktext_frame(t, out);
    bool once = often == RUNS_RARELY || k->class == CLASS_SCALAR;
    emit_function(&t->e, arena_printf(t->a, "TN_KERNEL %s", name), sb_text(&s.params));
    emit_line(&t->e, "{");
    sb_puts(out, sb_text(&body));
    emit_line(&t->e, "}");
    emit_own_lines(&t->e);
    const bool heavy = !once && is_heavy(p->cx->dims, k);
    emit_line(&t->e, "%s(%s, %s)",
              once    ? "TN_CALL_ONCE"
              : heavy ? "TN_CALL_WIDE"
                      : "TN_CALL",
              name, sb_text(&s.args));
    emit_line(&t->e, "%s", "");
    return (PrintedKernel){.name = name,
                           .nsites = t->sites.n,
                           .sites = t->sites.at,
                           .block_cells = 1,
                           .once = once,
                           .heavy = heavy};
}
