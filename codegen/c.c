/* c.c: see c.h. A lanes loop is a plain loop; where it folds into accumulators it goes in blocks of
 * 16 with one accumulator a lane, joined pairwise, so that every vector width gives the same bits.
 * Cells that are lanes (and lanes that have loops inside) go in strips, with arrays for what each
 * of them owns. SPDX-License-Identifier: MIT */
#include "codegen/c.h"
#include "ir/base/die.h"
#include "ir/host.h"

#include <inttypes.h>
#include <string.h>

/* A run of neighbouring indices of `axis`, printed as axis + l for l in 0..count. */
typedef struct {
    bool on;
    Symbol axis;
    int width;         /* of its arrays */
    const char *count; /* "16", or what the last run has */
} Strip;

typedef struct {
    KText t;
    Strip strip;
} CPrint;

static void print_block(CPrint *c, const KBlock *b);
static void print_strip_block(CPrint *c, const KBlock *b);

static const char *name_of(const CPrint *c, Sym s)
{
    return sym_text(c->t.p->cx->names, s);
}

static const char *axis_name(const CPrint *c, Symbol s)
{
    return name_of(c, dim_symbol(c->t.p->cx->dims, s)->name);
}

static DimTable *dims(const CPrint *c)
{
    return c->t.p->cx->dims;
}

/* --- plain statements ----------------------------------------------------------------------------
 */

static void print_let(CPrint *c, const KStmt *s)
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
    if (s->fold_index.id) {
        Dim at =
            t->nsubst ? dim_substitute(dims(c), s->fold_index, t->subst, t->nsubst) : s->fold_index;
        index = ktext_dim(t, at).text;
    }
    emit_line(&t->e, "%s;", acc_fold(t, s->acc, ktext_expr(t, s->expr).text, index));
}

static void print_keep(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    ktext_line(t, s);
    Dim at = s->keep_index.id ? s->keep_index : dim_of(dims(c), t->lane_axis);
    if (t->nsubst)
        at = dim_substitute(dims(c), at, t->subst, t->nsubst);
    emit_line(&t->e, "%s[%s] = %s;", t->keeps[s->keep], ktext_dim(t, at).text,
              ktext_expr(t, s->expr).text);
}

/* --- accumulators --------------------------------------------------------------------------------
 */

static void name_fields(CPrint *c, uint32_t acc, const char *tail)
{
    KText *t = &c->t;
    const char *base = name_of(c, t->k->accs.at[acc].name);
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

static void print_acc(CPrint *c, const KStmt *s)
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
        print_array_start(c, s->acc, "16");
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
    const char *base = name_of(c, a->name);
    int n = reducer_info(a->reducer)->nresults;
    for (int r = 0; r < n; r++) {
        const char *suffix = a->reducer == RED_moments ? (r ? "_var" : "_mean") : r ? "_at" : "";
        DType type = r && a->reducer != RED_moments ? DT_i64 : a->type;
        if (!acc_is_used(t, acc, r))
            continue;
        info->result[r] =
            name_unique(&t->names, arena_printf(t->a, "%s%s", *base ? base : "acc", suffix));
        emit_line(&t->e, "const %s %s = %s;", ktext_value(t, type), info->result[r],
                  acc_finish(t, acc, r, fields).text);
    }
    info->totalled = true;
}

static void print_total(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    AccInfo *info = &t->accs[s->acc];
    Reducer r = t->k->accs.at[s->acc].reducer;
    Text to[MAX_FIELDS], from[MAX_FIELDS];
    if (info->store == ACC_SCALAR && (r == RED_moments || r == RED_logsumexp)) {
        for (int f = 0; f < reducer_info(r)->nfields; f++)
            to[f] = acc_field(t, s->acc, f);
        print_results(c, s->acc, to);
    }
    if (info->store != ACC_LANES)
        return;
    for (int f = 0; f < reducer_info(r)->nfields; f++) {
        to[f] = acc_lane_field(t, s->acc, f, "l");
        from[f] = acc_lane_field(t, s->acc, f, "l + half");
    }
    /* always 8 at once: what lanes from `half` on get is not used, and the trip count is fixed */
    emit_in(&t->e, "for (int half = 8; half; half /= 2)");
    emit_in(&t->e, "for (int l = 0; l < 8; l++)");
    emit_line(&t->e, "%s;", acc_join(t, s->acc, to, from));
    emit_out(&t->e);
    emit_out(&t->e);
    for (int f = 0; f < reducer_info(r)->nfields; f++)
        to[f] = acc_lane_field(t, s->acc, f, "0");
    print_results(c, s->acc, to);
}

/* --- strips --------------------------------------------------------------------------------------
 */

/* Loops inside a strip run for all of its lanes together: their bounds must not depend on the lane.
 */
static bool can_strip(const CPrint *c, const KBlock *b, Symbol axis)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        if (s->kind == KS_FOR &&
            (dim_mentions(dims(c), s->lo, axis) || dim_mentions(dims(c), s->hi, axis) ||
             dim_mentions_kind(dims(c), s->hi, SYM_LOADED) || s->loop == FOR_LANES))
            return false;
        if (s->kind == KS_WHEN && kblock_has_loop(&s->body))
            return false;
        if ((s->kind == KS_FOR || s->kind == KS_WHEN) && !can_strip(c, &s->body, axis))
            return false;
    }
    return true;
}

static bool folds_lanes(const CPrint *c, const KBlock *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        if (s->kind == KS_FOLD && c->t.accs[s->acc].store == ACC_LANES)
            return true;
        if (folds_lanes(c, &s->body))
            return true;
    }
    return false;
}

static void strip_begin(CPrint *c, Symbol axis, int width, const char *count, bool from_zero)
{
    KText *t = &c->t;
    Symbol l =
        dim_new_symbol(dims(c), SYM_AXIS, sym_of(t->p->cx->names, "l"), dim_const(dims(c), width));
    t->symbol[l.id] = "l";
    t->wide[l.id] = false;
    CHECK(t->nsubst < MAX_SUBST);
    Dim base = from_zero ? dim_const(dims(c), 0) : dim_of(dims(c), axis);
    t->subst[t->nsubst++] = (DimSubst){axis, dim_add(dims(c), base, dim_of(dims(c), l))};
    t->strip = "l";
    c->strip = (Strip){true, axis, width, count};
}

static void strip_end(CPrint *c, Strip before)
{
    c->t.nsubst--;
    c->t.strip = before.on ? "l" : NULL;
    c->strip = before;
}

static bool is_grouped(const KStmt *s)
{
    return s->kind == KS_LET || s->kind == KS_STORE || s->kind == KS_FOLD || s->kind == KS_WHEN ||
           s->kind == KS_CHECK || s->kind == KS_KEEP;
}

/* A LET of a strip that other groups of statements read as well: an array, an element a lane. */
static bool crosses(CPrint *c, const KBlock *b, uint32_t let, uint32_t group_end)
{
    if (b->at[let].axis.id)
        return true; /* an index: read from sizes */
    for (uint32_t i = group_end; i < b->n; i++)
        if (kstmt_uses(&c->t, &b->at[i], b->at[let].expr))
            return true;
    return false;
}

static void declare_crossing(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    const char *name = ktext_let_name(t, s);
    DType type = kexpr(t->k, s->expr)->type;
    emit_line(&t->e, "%s %s[%d];", s->axis.id ? "int64_t" : ktext_value(t, type), name,
              c->strip.width);
    if (s->axis.id)
        t->symbol[s->axis.id] = arena_printf(t->a, "%s[l]", name);
}

static void print_group(CPrint *c, const KBlock *b, uint32_t first, uint32_t end)
{
    KText *t = &c->t;
    bool several = end < b->n || first > 0;
    const char **array = arena_array(t->a, const char *, end - first);
    for (uint32_t i = first; i < end && several; i++)
        if (b->at[i].kind == KS_LET && crosses(c, b, i, end)) {
            declare_crossing(c, &b->at[i]);
            array[i - first] = t->names.taken.at[t->names.taken.n - 1];
        }
    VEC(uint32_t) arrays = {0};
    emit_open(&t->e, "for (int l = 0; l < %s; l++) {", c->strip.count);
    Scope scope = scope_begin(t);
    for (uint32_t i = first; i < end; i++) {
        const KStmt *s = &b->at[i];
        if (!array[i - first]) {
            KBlock one = {(KStmt *)(uintptr_t)s, 1, 1};
            if (s->kind == KS_LET)
                print_let(c, s);
            else
                print_block(c, &one);
            continue;
        }
        const char *element = arena_printf(t->a, "%s[l]", array[i - first]);
        ktext_line(t, s);
        emit_line(&t->e, "%s = %s;", element, ktext_expr(t, s->expr).text);
        vec_push(t->a, &arrays, s->expr.id);
        ktext_let(t, s->expr, (Text){element, PREC_PRIMARY});
    }
    scope_end(t, scope);
    emit_close(&t->e, "");
    for (uint32_t i = first; i < end; i++)
        if (array[i - first])
            ktext_let(t, b->at[i].expr,
                      (Text){arena_printf(t->a, "%s[l]", array[i - first]), PREC_PRIMARY});
}

static void print_for_head(CPrint *c, const KStmt *s);

static void print_strip_block(CPrint *c, const KBlock *b)
{
    for (uint32_t i = 0; i < b->n;) {
        const KStmt *s = &b->at[i];
        if (s->kind == KS_LET && !s->axis.id && !kexpr_depends(&c->t, s->expr, c->strip.axis)) {
            print_let(c, s);
            i++;
        } else if (s->kind == KS_FOR) {
            Scope scope = scope_begin(&c->t);
            ktext_line(&c->t, s);
            print_for_head(c, s);
            print_strip_block(c, &s->body);
            emit_close(&c->t.e, "");
            scope_end(&c->t, scope);
            i++;
        } else if (is_grouped(s)) {
            uint32_t end = i + 1;
            while (end < b->n && is_grouped(&b->at[end]))
                end++;
            print_group(c, b, i, end);
            i = end;
        } else {
            if (s->kind == KS_ACC)
                print_acc(c, s);
            i++; /* TOTAL, BARRIER: a strip is one thread */
        }
    }
}

/* --- loops ---------------------------------------------------------------------------------------
 */

static bool is_static_int(const CPrint *c, Dim d, int64_t *value)
{
    return dim_is_const(dims(c), d, value) && *value <= INT32_MAX - STRIP_CELLS;
}

static void print_for_head(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    int64_t hi;
    bool narrow = is_static_int(c, s->hi, &hi) && ktext_fits_int(t, s->lo);
    const char *lo = ktext_dim(t, s->lo).text;
    Text end = ktext_dim(t, s->hi);
    const char *name = ktext_symbol(t, s->axis, axis_name(c, s->axis), !narrow);
    const char *type = narrow ? "int" : "int64_t";
    if (end.prec == PREC_PRIMARY) {
        emit_open(&t->e, "for (%s %s = %s; %s < %s; %s++) {", type, name, lo, name, end.text, name);
        return;
    }
    const char *bound = name_unique(&t->names, arena_printf(t->a, "%s_end", name));
    emit_open(&t->e, "for (%s %s = %s, %s = %s; %s < %s; %s++) {", type, name, lo, bound, end.text,
              name, bound, name);
}

static void print_body(CPrint *c, const KBlock *b)
{
    Scope scope = scope_begin(&c->t);
    if (c->strip.on)
        print_strip_block(c, b);
    else
        print_block(c, b);
    scope_end(&c->t, scope);
}

/* The end of a loop; a variable of its own if it takes work. */
static const char *bound(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    Text end = ktext_dim(t, s->hi);
    if (end.prec == PREC_PRIMARY)
        return end.text;
    const char *name = name_unique(&t->names, arena_printf(t->a, "%s_end", axis_name(c, s->axis)));
    emit_line(&t->e, "const int64_t %s = %s;", name, end.text);
    return name;
}

/* Blocks of 16 lanes, then the rest: element v + l belongs to lane l. */
static void print_lane_blocks(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    Strip before = c->strip;
    int64_t extent = 0;
    bool fixed = is_static_int(c, s->hi, &extent) && dim_is_zero(dims(c), s->lo);
    bool tail = !fixed || extent % STRIP_LANES, blocks = !fixed || extent >= STRIP_LANES;
    if (blocks && tail)
        emit_open(&t->e, "{"); /* index and end are read behind the loop, and live no longer */
    const char *end = bound(c, s), *lo = ktext_dim(t, s->lo).text;
    const char *name = ktext_symbol(t, s->axis, axis_name(c, s->axis), !fixed);
    const char *type = fixed ? "int" : "int64_t";
    if (blocks) {
        if (tail) {
            emit_line(&t->e, "%s %s = %s;", type, name, lo);
            emit_open(&t->e, "for (; %s + 16 <= %s; %s += 16) {", name, end, name);
        } else {
            emit_open(&t->e, "for (%s %s = 0; %s < %s; %s += 16) {", type, name, name, end, name);
        }
        strip_begin(c, s->axis, STRIP_LANES, "16", false);
        print_body(c, &s->body);
        strip_end(c, before);
        emit_close(&t->e, "");
    }
    if (!tail)
        return;
    strip_begin(c, s->axis, STRIP_LANES, blocks ? "rest" : end, !blocks);
    if (blocks) {
        emit_open(&t->e, "{");
        emit_line(&t->e, fixed ? "const int rest = %s - %s;" : "const int rest = (int)(%s - %s);",
                  end, name);
    }
    print_body(c, &s->body);
    strip_end(c, before);
    if (blocks) {
        emit_close(&t->e, "");
        emit_close(&t->e, "");
    }
}

static void print_strips(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    Strip before = c->strip;
    int64_t extent;
    bool fixed = is_static_int(c, s->hi, &extent) && dim_is_zero(dims(c), s->lo);
    const char *end = bound(c, s), *lo = ktext_dim(t, s->lo).text, *cast = fixed ? "" : "(int)";
    const char *name = ktext_symbol(t, s->axis, axis_name(c, s->axis), !fixed);
    emit_open(&t->e, "for (%s %s = %s; %s < %s; %s += 64) {", fixed ? "int" : "int64_t", name, lo,
              name, end, name);
    emit_line(&t->e, "const int n_%s = %s - %s < 64 ? %s(%s - %s) : 64;", name, end, name, cast,
              end, name);
    strip_begin(c, s->axis, STRIP_CELLS, arena_printf(t->a, "n_%s", name), false);
    print_body(c, &s->body);
    strip_end(c, before);
    emit_close(&t->e, "");
}

static bool is_bare(const KBlock *b)
{
    return b->n == 1 &&
           (b->at[0].kind == KS_STORE || b->at[0].kind == KS_FOLD || b->at[0].kind == KS_KEEP);
}

static void print_plain_for(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    print_for_head(c, s);
    if (is_bare(&s->body)) { /* drop the brace that stands at the end of the line */
        t->e.out->n -= 3;
        sb_putc(t->e.out, '\n');
        print_body(c, &s->body);
        emit_out(&t->e);
    } else {
        print_body(c, &s->body);
        emit_close(&t->e, "");
    }
}

static void print_for(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    Symbol before = t->lane_axis;
    ktext_line(t, s);
    Scope scope = scope_begin(t);
    bool loops = kblock_has_loop(&s->body);
    if (s->loop == FOR_LANES)
        t->lane_axis = s->axis;
    if (s->loop == FOR_LANES && folds_lanes(c, &s->body) && can_strip(c, &s->body, s->axis))
        print_lane_blocks(c, s);
    else if (s->loop == FOR_LANES && loops && can_strip(c, &s->body, s->axis) && !c->strip.on)
        print_strips(c, s);
    else
        print_plain_for(c, s);
    t->lane_axis = before;
    scope_end(t, scope);
}

static void print_when(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    ktext_line(t, s);
    emit_open(&t->e, "if (%s) {", ktext_guard(t, s->pred).text);
    Scope scope = scope_begin(t);
    print_block(c, &s->body);
    scope_end(t, scope);
    emit_close(&t->e, "");
}

static void print_block(CPrint *c, const KBlock *b)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        switch (s->kind) {
        case KS_FOR:
            print_for(c, s);
            break;
        case KS_WHEN:
            print_when(c, s);
            break;
        case KS_LET:
            print_let(c, s);
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
            print_acc(c, s);
            break;
        case KS_CHECK:
            ktext_print_check(&c->t, s);
            break;
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
        t->keeps[i] = name_unique(&t->names, name_of(c, k->name));
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
        print_let(c, &g->body->at[i]);
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
        Dim inner = dim_const(dims(c), 1);
        for (int j = i + 1; j < g->n; j++)
            inner = dim_mul(dims(c), inner, g->loops[j]->hi);
        const char *name = ktext_symbol(t, s->axis, axis_name(c, s->axis), true);
        sb_printf(&out, "%s%s = cell", i ? ", " : "const int64_t ", name);
        if (!dim_is_one(dims(c), inner))
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
        const char *name = ktext_symbol(t, inner->axis, axis_name(c, inner->axis), true);
        emit_open(&t->e, "for (int64_t %s = lo; %s < hi; %s += 64) {", name, name, name);
        emit_line(&t->e, "const int n_%s = hi - %s < 64 ? (int)(hi - %s) : 64;", name, name, name);
        strip_begin(c, inner->axis, STRIP_CELLS, arena_printf(t->a, "n_%s", name), false);
    } else { /* a strip stays within one run of the innermost axis */
        emit_open(&t->e, "for (int64_t cell = lo, next; cell < hi; cell = next) {");
        print_axes(c, g);
        emit_line(&t->e, "next = cell - %s + %s < hi ? cell - %s + %s : hi;",
                  t->symbol[inner->axis.id], ktext_dim(t, inner->hi).text,
                  t->symbol[inner->axis.id], ktext_dim(t, inner->hi).text);
        emit_line(&t->e, "next = cell + 64 < next ? cell + 64 : next;");
        emit_line(&t->e, "const int n_cells = (int)(next - cell);");
        strip_begin(c, inner->axis, STRIP_CELLS, "n_cells", false);
    }
    print_strip_block(c, body);
    strip_end(c, (Strip){.on = false});
    emit_close(&t->e, "");
}

static void print_cells(CPrint *c)
{
    KText *t = &c->t;
    Grid g = grid_of(t->k);
    if (!g.n) {
        declare_keeps(c);
        print_block(c, g.body);
        return;
    }
    uint32_t uniform = print_uniform(c, &g);
    KBlock body = {g.body->at + uniform, g.body->n - uniform, g.body->n - uniform};
    const KStmt *inner = g.loops[g.n - 1];
    bool owned = !t->k->keeps.n; /* kept values and side sums would need an array a lane */
    for (uint32_t i = 0; i < t->k->accs.n; i++)
        owned = owned && !t->k->accs.at[i].side;
    if (inner->grid_lanes && owned && kblock_has_loop(&body) && can_strip(c, &body, inner->axis)) {
        print_cell_strips(c, &g, &body);
        return;
    }
    if (g.n == 1) {
        const char *name = ktext_symbol(t, inner->axis, axis_name(c, inner->axis), true);
        emit_open(&t->e, "for (int64_t %s = lo; %s < hi; %s++) {", name, name, name);
    } else {
        emit_open(&t->e, "for (int64_t cell = lo; cell < hi; cell++) {");
        print_axes(c, &g);
    }
    declare_keeps(c);
    print_block(c, &body);
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

PrintedKernel c_kernel(Program *p, const Kernel *k, uint32_t number, HowOften often, StrBuf *out)
{
    StrBuf body = {.a = out->a};
    Symbol sizes[MAX_SIZES];
    uint32_t nsizes = kernel_sizes(p, k, sizes, MAX_SIZES);
    CPrint c = {.t = ktext_begin(p, k, TARGET_C, &body)};
    KText *t = &c.t;
    CHECK(nsizes <= MAX_SIZES);
    for (uint32_t i = 0; i < nsizes; i++)
        ktext_symbol(t, sizes[i], axis_name(&c, sizes[i]), true);
    t->e.depth = 1;
    print_cells(&c);
    const char *name = name_of(&c, k->name);
    Signature s = signature(&c, sb_text(&body), sizes, nsizes);
    kernel_comment(p, k, number, out);
    t->e = ktext_frame(t, out);
    bool once = often == RUNS_RARELY || k->class == CLASS_SCALAR;
    emit_function(&t->e, arena_printf(t->a, "TN_KERNEL %s", name), sb_text(&s.params));
    emit_line(&t->e, "{");
    sb_puts(out, sb_text(&body));
    emit_line(&t->e, "}");
    emit_own_lines(&t->e);
    emit_line(&t->e, "%s(%s, %s)", once ? "TN_CALL_ONCE" : "TN_CALL", name, sb_text(&s.args));
    emit_line(&t->e, "%s", "");
    return (PrintedKernel){name, t->sites.n, t->sites.at, 1, once, 0};
}
