/* c_ahead.c: what memory kernels ask for ahead. A row goes over its elements several times; in the
 * last of the loops that fold, while it computes, it asks for the lines that a later loop stores
 * to, and for those that the next row reads:
 *
 *   for (int j = 0; j < 1024; j += 16) {
 *       TN_AHEAD_STORE(&y[i * 1024 + j]);
 *       TN_AHEAD(&x[(i + 1) * 1024 + j]);
 *       for (int l = 0; l < 16; l++) ..
 *
 * Processors fetch ahead by themselves within a page only, and rows end with pages. For the same
 * reason a map that streams asks for what it reads and writes some strips later.
 * SPDX-License-Identifier: MIT */
#include "codegen/c_internal.h"

typedef struct {
    CPrint *c;
    const KStmt *loop; /* whose accesses are looked at */
    Symbol row;
    bool *seen; /* by expression: its loads were looked at */
} Search;

/* One element further along the carrier's axis lies directly behind. */
static bool is_dense(CPrint *c, Dim offset, Symbol axis)
{
    DimTable *d = c_dims(c);
    const DimSubst next = {axis, dim_add(d, dim_of(d, axis), dim_const(d, 1))};
    int64_t step;
    return dim_is_const(d, dim_sub(d, dim_substitute(d, offset, &next, 1), offset), &step) &&
           step == 1;
}

/* The address that belongs to the carrier's index: of the same row, or (reads) of the next one. Of
 * a map, which has no rows, that of the index alone. */
static void add_access(const Search *s, uint32_t param, const Dim *at, bool store)
{
    CPrint *c = s->c;
    KText *t = &c->t;
    DimTable *d = c_dims(c);
    Ahead *a = &c->ahead;
    const Symbol axis = a->carrier->axis;
    const uint32_t before = t->nsubst;
    if (before + 1 > MAX_SUBST || dtype_size(t->k->params.at[param].dtype) > 8)
        return;
    if (s->loop->axis.id != axis.id)
        t->subst[t->nsubst++] = (DimSubst){s->loop->axis, dim_of(d, axis)};
    Dim offset = ktext_offset(t, param, at);
    t->nsubst = before;
    const DimSubst next = {s->row,
                           s->row.id ? dim_add(d, dim_of(d, s->row), dim_const(d, 1)) : offset};
    if (!is_dense(c, offset, axis) || (s->row.id && !dim_mentions(d, offset, s->row)))
        return;
    if (!store && s->row.id)
        offset = dim_substitute(d, offset, &next, 1);
    for (int i = 0; i < a->n; i++)
        if (a->at[i].param == param && dim_same(a->at[i].offset, offset)) {
            a->at[i].store |= store;
            return;
        }
    if (a->n < MAX_AHEAD)
        a->at[a->n++] = (AheadAccess){param, offset, store};
}

/* What is loaded whatever the index; the side of a select may not be. */
static void add_loads(const Search *s, KExpr e)
{
    const KExprInfo *x = kexpr(s->c->t.k, e);
    if (!e.id || x->kind == KE_SELECT || s->seen[e.id])
        return;
    s->seen[e.id] = true;
    if (x->kind == KE_LOAD)
        add_access(s, x->param, x->at, false);
    for (uint32_t i = 0; i < x->nin; i++)
        add_loads(s, x->in[i]);
}

static void search_loop(const Search *from, bool stores)
{
    const KBlock *b = &from->loop->body;
    Search own = *from, *s = &own;
    own.seen = arena_array(from->c->t.a, bool, from->c->t.k->exprs.n);
    for (uint32_t i = 0; i < b->n; i++) {
        const KStmt *q = &b->at[i];
        if (stores && q->kind == KS_STORE)
            add_access(s, q->param, q->at, true);
        if (!stores &&
            (q->kind == KS_LET || q->kind == KS_STORE || q->kind == KS_FOLD || q->kind == KS_KEEP))
            add_loads(s, q->expr);
    }
}

/* Phases of the same length: an index of the one is an index of the other. */
static bool same_length(const KStmt *x, const KStmt *y)
{
    return dim_same(x->lo, y->lo) && dim_same(x->hi, y->hi);
}

static bool is_phase(const KStmt *s)
{
    return s->kind == KS_FOR && s->loop == FOR_LANES && !kblock_has_loop(&s->body);
}

void c_ahead_plan(CPrint *c, const KBlock *cell, Symbol row)
{
    int64_t length;
    uint32_t carrier = cell->n;
    c->ahead = (Ahead){.carrier = NULL};
    for (uint32_t i = 0; i < cell->n; i++)
        if (is_phase(&cell->at[i]) && c_has_runs(c, &cell->at[i]))
            carrier = i;
    if (carrier == cell->n)
        return;
    const KStmt *s = &cell->at[carrier];
    if (dim_is_const(c_dims(c), s->hi, &length) && length < 8 * STRIP_LANES)
        return; /* short rows come by themselves */
    c->ahead.carrier = s;
    for (uint32_t i = carrier + 1; i < cell->n; i++)
        if (is_phase(&cell->at[i]) && same_length(s, &cell->at[i]))
            search_loop(&(Search){.c = c, .loop = &cell->at[i], .row = row}, true);
    if (!c->ahead.n)
        return; /* nothing waits for memory but the loads, which come in order */
    for (uint32_t i = 0; i < cell->n; i++)
        if (is_phase(&cell->at[i]) && same_length(s, &cell->at[i]))
            search_loop(&(Search){.c = c, .loop = &cell->at[i], .row = row}, false);
}

static void print_row(CPrint *c)
{
    enum { LINE = 64 };
    KText *t = &c->t;
    const int lanes = accs_lanes(t, c->ahead.carrier);
    DimTable *d = c_dims(c);
    for (int i = 0; i < c->ahead.n; i++) {
        const AheadAccess *a = &c->ahead.at[i];
        const int64_t per_line = LINE / (int64_t)dtype_size(t->k->params.at[a->param].dtype);
        for (int64_t k = 0; k < lanes; k += per_line)
            emit_line(&t->e, "%s(&%s[%s]);", a->store ? "TN_AHEAD_STORE" : "TN_AHEAD",
                      t->param[a->param],
                      ktext_dim(t, dim_add(d, a->offset, dim_const(d, k))).text);
    }
}

/* --- maps ----------------------------------------------------------------------------------------
 */

enum { AHEAD_STRIP = 64, AHEAD_BY = 512, LONG_MAP = 1024 };

/* Long: by its size, or a share of a map that is cut into equal ones. */
static bool is_long(CPrint *c, const KStmt *s)
{
    int64_t length;
    if (!dim_is_const(c_dims(c), dim_sub(c_dims(c), s->hi, s->lo), &length))
        return !dim_is_zero(c_dims(c), s->lo);
    return length >= LONG_MAP;
}

bool c_ahead_streams(CPrint *c, const KStmt *s)
{
    if (c->t.k->class != CLASS_MAP || !is_phase(s) || !is_long(c, s))
        return false;
    c->ahead.carrier = s;
    c->ahead.n = 0;
    c->ahead.streams = true;
    const Search all = {.c = c, .loop = s};
    search_loop(&all, false);
    search_loop(&all, true);
    return c->ahead.n > 0;
}

static void print_strip(CPrint *c)
{
    KText *t = &c->t;
    DimTable *d = c_dims(c);
    Symbol l = dim_new_symbol(d, SYM_AXIS, sym_of(t->p->cx->names, "l"), dim_const(d, AHEAD_STRIP));
    t->symbol[l.id] = "l";
    t->wide[l.id] = false;
    size_t widest = 1;
    for (int i = 0; i < c->ahead.n; i++) {
        const size_t bytes = (size_t)dtype_size(t->k->params.at[c->ahead.at[i].param].dtype);
        widest = bytes > widest ? bytes : widest;
    }
    emit_open(&t->e, "for (int l = %d; l < %d; l += %d) {", AHEAD_BY, AHEAD_BY + AHEAD_STRIP,
              (int)(64 / widest));
    for (int i = 0; i < c->ahead.n; i++) {
        const AheadAccess *a = &c->ahead.at[i];
        emit_line(&t->e, "%s(&%s[%s]);", a->store ? "TN_AHEAD_STORE" : "TN_AHEAD",
                  t->param[a->param], ktext_dim(t, dim_add(d, a->offset, dim_of(d, l))).text);
    }
    emit_close(&t->e, "");
}

void c_ahead_print(CPrint *c, const KStmt *loop)
{
    if (c->ahead.carrier != loop)
        return;
    if (c->ahead.streams)
        print_strip(c);
    else
        print_row(c);
}
