/* c_loops.c: loops of kernels in C. A lanes loop is a plain loop; where it folds into accumulators
 * it goes in blocks of 16 with one accumulator a lane, joined pairwise, so that every vector width
 * gives the same bits. Lanes that have loops inside go in strips, with arrays for what each of them
 * owns. SPDX-License-Identifier: MIT */
#include "codegen/c_internal.h"
#include "ir/base/die.h"

#include <inttypes.h>
#include <string.h>

/* --- strips --------------------------------------------------------------------------------------
 */

bool c_can_strip(const CPrint *c, const KBlock *b, Symbol axis)
{
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        if (s->kind == KS_FOR &&
            (dim_mentions(c_dims(c), s->lo, axis) || dim_mentions(c_dims(c), s->hi, axis) ||
             dim_mentions_kind(c_dims(c), s->hi, SYM_LOADED) || s->loop == FOR_LANES))
            return false;
        if (s->kind == KS_WHEN && kblock_has_loop(&s->body))
            return false;
        if ((s->kind == KS_FOR || s->kind == KS_WHEN) && !c_can_strip(c, &s->body, axis))
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

void c_strip_begin(CPrint *c, Symbol axis, int width, const char *count, bool from_zero)
{
    KText *t = &c->t;
    Symbol l = dim_new_symbol(c_dims(c), SYM_AXIS, sym_of(t->p->cx->names, "l"),
                              dim_const(c_dims(c), width));
    t->symbol[l.id] = "l";
    t->wide[l.id] = false;
    CHECK(t->nsubst < MAX_SUBST);
    Dim base = from_zero ? dim_const(c_dims(c), 0) : dim_of(c_dims(c), axis);
    t->subst[t->nsubst++] = (DimSubst){axis, dim_add(c_dims(c), base, dim_of(c_dims(c), l))};
    t->strip = "l";
    c->strip = (Strip){true, axis, width, count};
}

void c_strip_end(CPrint *c, Strip before)
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

/* The four vectors of maxima that take turns (accs_lanes) are to stay in registers, and they lie in
 * memory as long as there is a loop over them, which -O2 leaves as it is. */
static bool takes_turns(const CPrint *c, const KBlock *b, uint32_t first, uint32_t end)
{
    if (strcmp(c->strip.count, arena_printf(c->t.a, "%d", STRIP_WIDE)) != 0)
        return false; /* the rest, or cells */
    for (uint32_t i = first; i < end; i++)
        if (b->at[i].kind == KS_FOLD && c->t.accs[b->at[i].acc].lanes == STRIP_WIDE)
            return true;
    return false;
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
    if (takes_turns(c, b, first, end))
        emit_raw(&t->e, "#pragma GCC unroll 16\n");
    emit_open(&t->e, "for (int l = 0; l < %s; l++) {", c->strip.count);
    Scope scope = scope_begin(t);
    for (uint32_t i = first; i < end; i++) {
        const KStmt *s = &b->at[i];
        if (!array[i - first]) {
            KBlock one = {(KStmt *)(uintptr_t)s, 1, 1};
            if (s->kind == KS_LET)
                c_let(c, s);
            else
                c_block(c, &one);
            continue;
        }
        const char *element = arena_printf(t->a, "%s[l]", array[i - first]);
        ktext_line(t, s);
        emit_line(&t->e, "%s = %s;", element, ktext_expr(t, s->expr).text);
        ktext_let(t, s->expr, (Text){element, PREC_PRIMARY});
    }
    scope_end(t, scope);
    emit_close(&t->e, "");
    for (uint32_t i = first; i < end; i++)
        if (array[i - first])
            ktext_let(t, b->at[i].expr,
                      (Text){arena_printf(t->a, "%s[l]", array[i - first]), PREC_PRIMARY});
}

static bool is_static_int(const CPrint *c, Dim d, int64_t *value)
{
    return dim_is_const(c_dims(c), d, value) && *value <= INT32_MAX - STRIP_CELLS;
}

static void print_for_head(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    int64_t hi;
    bool narrow = is_static_int(c, s->hi, &hi) && ktext_fits_int(t, s->lo);
    const char *lo = ktext_dim(t, s->lo).text;
    Text end = ktext_dim(t, s->hi);
    const char *name = ktext_symbol(t, s->axis, c_axis_name(c, s->axis), !narrow);
    const char *type = narrow ? "int" : "int64_t";
    if (end.prec == PREC_PRIMARY) {
        emit_open(&t->e, "for (%s %s = %s; %s < %s; %s++) {", type, name, lo, name, end.text, name);
        return;
    }
    const char *bound = name_unique(&t->names, arena_printf(t->a, "%s_end", name));
    emit_open(&t->e, "for (%s %s = %s, %s = %s; %s < %s; %s++) {", type, name, lo, bound, end.text,
              name, bound, name);
}

/* The same for all lanes: a value of its own, which others that are so may read outside of lanes.
 */
static bool is_shared(CPrint *c, const KStmt *s)
{
    return s->kind == KS_LET && !s->axis.id && !kexpr_depends(&c->t, s->expr, c->strip.axis);
}

void c_strip_block(CPrint *c, const KBlock *b)
{
    for (uint32_t i = 0; i < b->n;) {
        const KStmt *s = &b->at[i];
        if (is_shared(c, s)) {
            c_let(c, s);
            i++;
        } else if (s->kind == KS_FOR) {
            Scope scope = scope_begin(&c->t);
            ktext_line(&c->t, s);
            print_for_head(c, s);
            c_strip_block(c, &s->body);
            emit_close(&c->t.e, "");
            scope_end(&c->t, scope);
            i++;
        } else if (is_grouped(s)) {
            uint32_t end = i + 1;
            while (end < b->n && is_grouped(&b->at[end]) && !is_shared(c, &b->at[end]))
                end++;
            print_group(c, b, i, end);
            i = end;
        } else {
            if (s->kind == KS_ACC)
                c_acc(c, s);
            i++; /* TOTAL, BARRIER: a strip is one thread */
        }
    }
}

/* --- loops ---------------------------------------------------------------------------------------
 */

static void print_body(CPrint *c, const KBlock *b)
{
    Scope scope = scope_begin(&c->t);
    if (c->strip.on)
        c_strip_block(c, b);
    else
        c_block(c, b);
    scope_end(&c->t, scope);
}

/* The end of a loop; a variable of its own if it takes work. */
static const char *bound(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    Text end = ktext_dim(t, s->hi);
    if (end.prec == PREC_PRIMARY)
        return end.text;
    const char *name =
        name_unique(&t->names, arena_printf(t->a, "%s_end", c_axis_name(c, s->axis)));
    emit_line(&t->e, "const int64_t %s = %s;", name, end.text);
    return name;
}

/* What folds a whole block of values at once, at a fraction of the cost of one by one. */
static const char *block_fold(const CPrint *c, uint32_t acc)
{
    const KText *t = &c->t;
    if (t->accs[acc].store != ACC_LANES || strcmp(acc_field_type(t, acc, 0), "float") != 0)
        return NULL;
    switch (t->k->accs.at[acc].reducer) {
    case RED_moments:
        return "tn_moments_block_f32";
    case RED_logsumexp:
        return "tn_logsumexp_block_f32";
    default:
        return NULL;
    }
}

/* Whether all that a body folds can be folded by blocks. */
static bool folds_blocks(const CPrint *c, const KBlock *b)
{
    bool any = false;
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *s = &b->at[i];
        if (s->kind == KS_FOLD && !block_fold(c, s->acc))
            return false;
        if (s->kind != KS_LET && s->kind != KS_STORE && s->kind != KS_KEEP && s->kind != KS_FOLD)
            return false;
        any = any || s->kind == KS_FOLD;
    }
    return any;
}

bool c_has_runs(const CPrint *c, const KStmt *s)
{
    return folds_lanes(c, &s->body) && c_can_strip(c, &s->body, s->axis) &&
           !folds_blocks(c, &s->body);
}

/* The body for a strip whose lanes are already in scope; in a wide block, values are kept and
 * folded behind it. */
static void print_lanes(CPrint *c, const KBlock *b)
{
    KText *t = &c->t;
    const bool wide = c->strip.width == STRIP_BLOCK;
    for (uint32_t i = 0; i < b->n && wide; i++)
        if (b->at[i].kind == KS_FOLD) {
            const char *base = c_name_of(c, t->k->accs.at[b->at[i].acc].name);
            AccInfo *acc = &t->accs[b->at[i].acc];
            acc->values = name_unique(&t->names, arena_printf(t->a, "%s_values", base));
            emit_line(&t->e, "float %s[%d];", acc->values, STRIP_BLOCK);
        }
    print_body(c, b);
    for (uint32_t i = 0; i < b->n && wide; i++)
        if (b->at[i].kind == KS_FOLD) {
            AccInfo *acc = &t->accs[b->at[i].acc];
            StrBuf args = {.a = t->a};
            int n = reducer_info(t->k->accs.at[b->at[i].acc].reducer)->nfields;
            for (int f = 0; f < n; f++)
                sb_printf(&args, "%s, ", acc->field[f]);
            emit_line(&t->e, "%s(%s%s);", block_fold(c, b->at[i].acc), sb_text(&args), acc->values);
            acc->values = NULL;
        }
}

/* A loop over whole runs of `width` lanes; what is left stays for the next one. */
static void print_runs(CPrint *c, const KStmt *s, int width, const char *end, const char *head)
{
    KText *t = &c->t;
    Strip before = c->strip;
    const char *name = t->symbol[s->axis.id];
    if (head)
        emit_open(&t->e, "for (%s; %s < %s; %s += %d) {", head, name, end, name, width);
    else
        emit_open(&t->e, "for (; %s + %d <= %s; %s += %d) {", name, width, end, name, width);
    c_ahead_print(c, s);
    c_strip_begin(c, s->axis, width, arena_printf(t->a, "%d", width), false);
    Scope scope = scope_begin(t);
    c_draw_runs(c, &s->body, dim_of(c_dims(c), s->axis), dim_divisible(c_dims(c), s->lo, 4) == YES);
    print_lanes(c, &s->body);
    scope_end(t, scope);
    c_strip_end(c, before);
    emit_close(&t->e, "");
}

/* Blocks of 256 lanes where that pays, blocks of 16 (maxima: 64), then the rest: element v + l
 * belongs to lane l % 16. */
static void print_lane_blocks(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    Strip before = c->strip;
    int64_t extent = 0;
    bool fixed = is_static_int(c, s->hi, &extent) && dim_is_zero(c_dims(c), s->lo);
    bool wide = folds_blocks(c, &s->body) && (!fixed || extent >= STRIP_BLOCK);
    int64_t narrow = wide ? extent % STRIP_BLOCK : extent;
    const int lanes = accs_lanes(t, s);
    bool tail = !fixed || extent % lanes, blocks = !fixed || narrow >= lanes;
    bool several = wide + blocks + tail > 1;
    if (several)
        emit_open(&t->e, "{"); /* index and end are read behind the loop, and live no longer */
    const char *end = bound(c, s), *lo = ktext_dim(t, s->lo).text;
    const char *name = ktext_symbol(t, s->axis, c_axis_name(c, s->axis), !fixed);
    const char *start = arena_printf(t->a, "%s %s = %s", fixed ? "int" : "int64_t", name, lo);
    if (several)
        emit_line(&t->e, "%s;", start);
    if (wide)
        print_runs(c, s, STRIP_BLOCK, end, several ? NULL : start);
    if (blocks)
        print_runs(c, s, lanes, end, several ? NULL : start);
    if (tail) {
        c_strip_begin(c, s->axis, lanes, several ? "rest" : end, !several);
        if (several) {
            emit_open(&t->e, "{");
            emit_line(&t->e,
                      fixed ? "const int rest = %s - %s;" : "const int rest = (int)(%s - %s);", end,
                      name);
        }
        Scope scope = scope_begin(t);
        c_draw_runs(c, &s->body, several ? dim_of(c_dims(c), s->axis) : dim_const(c_dims(c), 0),
                    dim_divisible(c_dims(c), s->lo, 4) == YES);
        print_body(c, &s->body);
        scope_end(t, scope);
        c_strip_end(c, before);
        if (several)
            emit_close(&t->e, "");
    }
    if (several)
        emit_close(&t->e, "");
}

/* Long strips draw few blocks twice; a short axis is one strip. */
static int draw_width(const CPrint *c, const KStmt *s)
{
    int64_t extent;
    if (!is_static_int(c, s->hi, &extent) || extent > STRIP_BLOCK || extent < 1)
        return STRIP_BLOCK;
    return (int)((extent + 3) / 4 * 4);
}

static void print_strips(CPrint *c, const KStmt *s, int width)
{
    KText *t = &c->t;
    Strip before = c->strip;
    int64_t extent;
    bool fixed = is_static_int(c, s->hi, &extent) && dim_is_zero(c_dims(c), s->lo);
    const char *end = bound(c, s), *lo = ktext_dim(t, s->lo).text, *cast = fixed ? "" : "(int)";
    const char *name = ktext_symbol(t, s->axis, c_axis_name(c, s->axis), !fixed);
    const char *count = arena_printf(t->a, "%d", width);
    emit_open(&t->e, "for (%s %s = %s; %s < %s; %s += %d) {", fixed ? "int" : "int64_t", name, lo,
              name, end, name, width);
    if (!fixed || extent % width) {
        count = arena_printf(t->a, "n_%s", name);
        emit_line(&t->e, "const int %s = %s - %s < %d ? %s(%s - %s) : %d;", count, end, name, width,
                  cast, end, name, width);
    }
    c_strip_begin(c, s->axis, width, count, false);
    Scope scope = scope_begin(t);
    c_draw_runs(c, &s->body, dim_of(c_dims(c), s->axis), dim_divisible(c_dims(c), s->lo, 4) == YES);
    print_body(c, &s->body);
    scope_end(t, scope);
    c_strip_end(c, before);
    emit_close(&t->e, "");
}

/* Strips that ask for memory ahead, then what is left of the last one. */
static void print_stream(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    Strip before = c->strip;
    int64_t extent, length;
    bool fixed = is_static_int(c, s->hi, &extent) && dim_is_zero(c_dims(c), s->lo);
    bool whole = dim_is_const(c_dims(c), dim_sub(c_dims(c), s->hi, s->lo), &length) &&
                 length % STRIP_CELLS == 0;
    if (!whole)
        emit_open(&t->e, "{"); /* index and end are read behind the loop, and live no longer */
    const char *end = bound(c, s), *lo = ktext_dim(t, s->lo).text;
    const char *name = ktext_symbol(t, s->axis, c_axis_name(c, s->axis), !fixed);
    const char *start = arena_printf(t->a, "%s %s = %s", fixed ? "int" : "int64_t", name, lo);
    if (!whole)
        emit_line(&t->e, "%s;", start);
    print_runs(c, s, STRIP_CELLS, end, whole ? start : NULL);
    if (whole)
        return;
    emit_line(&t->e, fixed ? "const int rest = %s - %s;" : "const int rest = (int)(%s - %s);", end,
              name);
    c_strip_begin(c, s->axis, STRIP_CELLS, "rest", false);
    Scope scope = scope_begin(t);
    print_body(c, &s->body);
    scope_end(t, scope);
    c_strip_end(c, before);
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

void c_for(CPrint *c, const KStmt *s)
{
    KText *t = &c->t;
    Symbol before = t->lane_axis;
    ktext_line(t, s);
    Scope scope = scope_begin(t);
    bool loops = kblock_has_loop(&s->body);
    if (s->loop == FOR_LANES)
        t->lane_axis = s->axis;
    if (s->loop == FOR_LANES && folds_lanes(c, &s->body) && c_can_strip(c, &s->body, s->axis))
        print_lane_blocks(c, s);
    else if (s->loop == FOR_LANES && loops && c_can_strip(c, &s->body, s->axis) && !c->strip.on)
        print_strips(c, s, STRIP_CELLS);
    else if (s->loop == FOR_LANES && !c->strip.on && c_draws_runs(c, &s->body, s->axis))
        print_strips(c, s, draw_width(c, s));
    else if (s->loop == FOR_LANES && !c->strip.on && c_ahead_streams(c, s))
        print_stream(c, s);
    else
        print_plain_for(c, s);
    t->lane_axis = before;
    scope_end(t, scope);
}
