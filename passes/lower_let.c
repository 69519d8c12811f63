/* lower_let.c: names for what a kernel uses twice, or inside a loop that does not change it.
 *
 *   store y[n, c] = (x[n, c] - mv.mean) * rsqrt(mv.var + eps)
 * becomes, before the loop over c,
 *   %v0 = rsqrt(mv.var + eps)
 * Each goes to the outermost block where its operands exist, before the first statement there that
 * uses it. What may only be evaluated under a predicate (a guarded load) stays where it is.
 * SPDX-License-Identifier: MIT */
#include "passes/lower_internal.h"

#include <string.h>

enum { STRIP_WORK = 8 };

/* What an expression needs before it can be evaluated; bits. A kernel has few axes, but may have
 * any number of accumulators and loaded integers: words of Lets.accs and .loaded. */
typedef struct {
    uint64_t axes, *accs, *loaded;
    bool loads;
    bool inout; /* is itself a load of an inout parameter */
} Needs;

typedef struct {
    uint32_t refs;       /* from different places of the block */
    uint32_t first;      /* statement of the block that needs it first */
    bool plain, guarded; /* seen outside, inside of a select's first operand */
    bool inner;          /* used where more is known than in this block */
    bool arm;            /* used in a branch of a `where` */
} Seen;

typedef struct {
    KBuild *b;
    Kernel *k;
    VEC(Symbol) axes;
    Needs *needs;    /* by expression */
    bool *let;       /* has a LET in scope */
    bool *loaded_in; /* by loaded integer: has a LET in scope */
    uint64_t axes_in, *accs_in;
    uint32_t nacc, nloaded; /* words */
    Needs dim;              /* of a size that is looked at */
    uint64_t strip; /* C: the axis whose cells are worked off in strips, a loop inside all others */
    int *work;      /* of each expression, as far as it matters */
    bool *named;
} Lets;

/* --- sets ----------------------------------------------------------------------------------------
 */

static void set_bit(uint64_t *set, uint32_t i)
{
    set[i / 64] |= 1ull << (i % 64);
}

static bool has_bit(const uint64_t *set, uint32_t i)
{
    return set[i / 64] >> (i % 64) & 1;
}

static void join_bits(uint64_t *set, const uint64_t *more, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++)
        set[i] |= more[i];
}

static bool is_within(const uint64_t *set, const uint64_t *other, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++)
        if (set[i] & ~other[i])
            return false;
    return true;
}

/* --- needs
 * ---------------------------------------------------------------------------------------- */

static void find_axes(Lets *w, const KBlock *block)
{
    for (uint32_t i = 0; i < block->n; i++) {
        if (block->at[i].kind == KS_FOR) {
            uint32_t j = 0;
            while (j < w->axes.n && w->axes.at[j].id != block->at[i].axis.id)
                j++;
            if (j == w->axes.n)
                vec_push(w->b->l->a, &w->axes, block->at[i].axis);
        }
        find_axes(w, &block->at[i].body);
    }
}

static uint64_t axis_bit(const Lets *w, Symbol axis)
{
    for (uint32_t i = 0; i < w->axes.n; i++)
        if (w->axes.at[i].id == axis.id)
            return 1ull << i;
    return 0;
}

static void join_needs(const Lets *w, Needs *n, const Needs *more)
{
    n->axes |= more->axes;
    join_bits(n->accs, more->accs, w->nacc);
    join_bits(n->loaded, more->loaded, w->nloaded);
    n->loads |= more->loads;
}

static void need_dim(Lets *w, Needs *n, Dim d)
{
    const DimTable *t = w->b->l->t;
    if (!d.id)
        return;
    if (dim_mentions_kind(t, d, SYM_AXIS))
        for (uint32_t i = 0; i < w->axes.n; i++)
            if (dim_mentions(t, d, w->axes.at[i]))
                n->axes |= 1ull << i;
    if (!dim_mentions_kind(t, d, SYM_LOADED))
        return;
    for (uint32_t i = 0; i < w->b->loaded.n; i++) {
        if (dim_mentions(t, d, w->b->loaded.at[i].symbol)) {
            set_bit(n->loaded, i);
            join_needs(w, n, &w->needs[w->b->loaded.at[i].expr.id]);
        }
    }
}

static void need_guard(Lets *w, Needs *n, Guard g)
{
    for (uint32_t i = 0; i < g.n; i++) {
        need_dim(w, n, g.at[i].a);
        need_dim(w, n, g.at[i].b);
    }
}

/* Operands have smaller numbers, and so have the integers in an index: one forward sweep. */
static void find_needs(Lets *w)
{
    for (uint32_t i = 1; i < w->k->exprs.n; i++) {
        const KExprInfo *x = &w->k->exprs.at[i];
        Needs *n = &w->needs[i];
        w->work[i] = x->kind == KE_OP ? op_info(x->op)->weight : 0;
        for (uint32_t k = 0; k < x->nin; k++) {
            join_needs(w, n, &w->needs[x->in[k].id]);
            w->work[i] += w->work[x->in[k].id];
        }
        w->work[i] = w->work[i] < STRIP_WORK ? w->work[i] : STRIP_WORK;
        need_dim(w, n, x->index);
        need_guard(w, n, x->pred);
        if (x->kind == KE_LOAD) {
            for (uint32_t k = 0; k < w->k->params.at[x->param].rank; k++)
                need_dim(w, n, x->at[k]);
            n->loads = true;
            n->inout = w->k->params.at[x->param].mode == K_INOUT;
        }
        if (x->kind == KE_ACC)
            set_bit(n->accs, x->acc);
    }
}

static bool available(const Lets *w, const Needs *n)
{
    return !(n->axes & ~w->axes_in) && is_within(n->accs, w->accs_in, w->nacc);
}

/* --- uses in one block
 * ----------------------------------------------------------------------------- */

typedef struct {
    Lets *w;
    Seen *seen;
    uint32_t *loaded_first; /* by loaded integer: first statement + 1 that needs it */
    uint32_t stmt;
    bool inner, guarded, arm;
} Walk;

static void walk_expr(Walk *s, KExpr e, bool guarded, bool inner);

static void walk_loaded(Walk *s, const uint64_t *loaded, bool guarded)
{
    for (uint32_t i = 0; i < s->w->b->loaded.n; i++) {
        if (!has_bit(loaded, i) || s->w->loaded_in[i])
            continue;
        if (!s->loaded_first[i]) {
            s->loaded_first[i] = s->stmt + 1;
            (void)guarded; /* what is loaded under a guard carries the guard itself */
            walk_expr(s, s->w->b->loaded.at[i].expr, false, false);
        }
    }
}

/* Work that a strip of cells would do for each of them, and that is the same for all. */
static bool same_for_strip(const Lets *w, KExpr e, KExpr operand)
{
    return w->needs[e.id].axes & w->strip && !(w->needs[operand.id].axes & w->strip) &&
           w->work[operand.id] >= STRIP_WORK;
}

static bool worth_naming(const KExprInfo *x)
{
    return x->kind != KE_CONST && x->kind != KE_INDEX && x->kind != KE_ACC && x->kind != KE_KEEP;
}

static void walk_expr(Walk *s, KExpr e, bool guarded, bool inner)
{
    if (!e.id)
        return;
    Lets *w = s->w;
    Seen *seen = &s->seen[e.id];
    const KExprInfo *x = kexpr(w->k, e);
    if (seen->refs == 0)
        seen->first = s->stmt;
    seen->refs++;
    seen->inner |= inner;
    seen->arm |= s->arm;
    bool again = guarded ? seen->plain || seen->guarded : seen->plain;
    if (guarded)
        seen->guarded = true;
    else
        seen->plain = true;
    if (again || w->let[e.id])
        return;
    walk_loaded(s, w->needs[e.id].loaded, guarded);
    bool here = available(w, &w->needs[e.id]);
    const bool arm = s->arm;
    for (uint32_t i = 0; i < x->nin; i++) {
        s->arm = arm || (x->kind == KE_OP && x->op == OP_where && i > 0);
        const bool once = same_for_strip(w, e, x->in[i]);
        /* either side of a select may be out of bounds where the other is taken (concat) */
        walk_expr(s, x->in[i], guarded || x->kind == KE_SELECT, (inner && !here) || once);
    }
    s->arm = arm;
}

static void walk_dim(Walk *s, Dim d, bool guarded)
{
    Lets *w = s->w;
    if (!d.id || !w->b->loaded.n)
        return;
    memset(w->dim.accs, 0, w->nacc * sizeof *w->dim.accs);
    memset(w->dim.loaded, 0, w->nloaded * sizeof *w->dim.loaded);
    need_dim(w, &w->dim, d);
    walk_loaded(s, w->dim.loaded, guarded);
}

static void walk_stmt(Walk *s, const KStmt *x, bool guarded, bool inner)
{
    walk_expr(s, x->expr, guarded, inner);
    walk_dim(s, x->lo, guarded);
    walk_dim(s, x->hi, guarded);
    walk_dim(s, x->fold_index, guarded);
    walk_dim(s, x->keep_index, guarded);
    for (uint32_t i = 0; i < x->pred.n; i++) {
        walk_dim(s, x->pred.at[i].a, guarded);
        walk_dim(s, x->pred.at[i].b, guarded);
    }
    for (uint32_t i = 0; x->kind == KS_STORE && i < MAX_RANK; i++)
        walk_dim(s, x->at[i], guarded);
    bool loop = x->kind == KS_FOR;
    for (uint32_t i = 0; i < x->body.n; i++)
        walk_stmt(s, &x->body.at[i], guarded || x->kind == KS_WHEN || x->kind == KS_LAST,
                  inner || loop);
}

/* --- placing
 * ---------------------------------------------------------------------------------------- */

static Sym unique_name(Lets *w, Sym wanted)
{
    Arena *a = w->b->l->p->cx->scratch;
    Interner *names = w->b->l->p->cx->names;
    if (wanted.id)
        return kbuild_name(w->b, wanted, "v");
    NameSet *taken = &w->b->l->kernel_names;
    for (uint32_t i = w->b->nv;; i++) {
        Sym name = sym_of(names, arena_printf(a, "v%u", i));
        if (!names_has(taken, name)) {
            names_take(taken, name);
            w->b->nv = i + 1;
            return name;
        }
    }
}

/* LETs of one block, in order of their expressions, in front of statement `first`. */
typedef struct {
    KExpr expr;
    uint32_t first;
    int32_t loaded; /* index, or -1 */
} Spot;

static uint32_t first_store(const KBlock *block, uint32_t param, uint32_t from)
{
    for (uint32_t i = 0; i < from; i++)
        if (block->at[i].kind == KS_STORE && block->at[i].param == param)
            return i;
    return from;
}

static bool wanted(const Lets *w, const Walk *s, uint32_t e)
{
    const KExprInfo *x = &w->k->exprs.at[e];
    const Seen *seen = &s->seen[e];
    if (!seen->refs || w->let[e] || !available(w, &w->needs[e]) || !worth_naming(x))
        return false;
    if (!seen->plain && w->needs[e].loads)
        return false;
    /* Both branches of a `where` may be evaluated. Loads that C's ?: would make conditional are
     * slower in vectors, and GCC 12 gets their masks wrong when it folds them (AVX-512, -O3). */
    const bool load_in_arm = seen->arm && x->kind == KE_LOAD;
    return seen->refs > 1 || seen->inner || w->needs[e].inout || load_in_arm;
}

static void add_let(Lets *w, KBlock *out, const Spot *p)
{
    Lower *l = w->b->l;
    if (p->loaded < 0) {
        KExprInfo *x = &w->k->exprs.at[p->expr.id];
        if (!w->named[p->expr.id])
            x->name = unique_name(w, x->name);
        w->named[p->expr.id] = true;
        kblock_add(l->p, out, KS_LET)->expr = p->expr;
        return;
    }
    const Loaded *d = &w->b->loaded.at[p->loaded];
    KStmt *s = kblock_add(l->p, out, KS_LET);
    s->expr = d->expr;
    s->axis = d->symbol;
    s->site = d->site;
    if (d->check.n) {
        s = kblock_add(l->p, out, KS_CHECK);
        s->pred = d->check;
        s->site = d->site;
    }
}

static void place_block(Lets *w, KBlock *block);

static void place_inside(Lets *w, KStmt *s)
{
    uint64_t axes = w->axes_in;
    if (s->kind == KS_FOR)
        w->axes_in |= axis_bit(w, s->axis);
    place_block(w, &s->body);
    w->axes_in = axes;
}

/* Marks what this block will name, so that inner blocks take it as given. */
static uint32_t choose(Lets *w, Walk *s, const KBlock *block, Spot *places, bool *set)
{
    uint32_t n = 0;
    for (uint32_t e = 1; e < w->k->exprs.n; e++) {
        if (wanted(w, s, e)) {
            uint32_t first = s->seen[e].first;
            if (w->needs[e].inout)
                first = first_store(block, w->k->exprs.at[e].param, first);
            places[n++] = (Spot){{e}, first, -1};
            w->let[e] = set[e] = true;
        }
        for (uint32_t i = 0; i < w->b->loaded.n; i++) {
            if (w->b->loaded.at[i].expr.id == e && s->loaded_first[i] && !w->loaded_in[i] &&
                available(w, &w->needs[e])) {
                places[n++] = (Spot){{e}, s->loaded_first[i] - 1, (int32_t)i};
                w->loaded_in[i] = true;
            }
        }
    }
    return n;
}

/* A LET in front of statement 2 whose operand's LET stands in front of statement 3 moves it up. */
static void settle(const Lets *w, Spot *places, uint32_t n)
{
    for (uint32_t i = n; i-- > 0;) {
        const KExprInfo *x = kexpr(w->k, places[i].expr);
        const uint64_t *loaded = w->needs[places[i].expr.id].loaded;
        for (uint32_t j = 0; j < i; j++) {
            bool used = places[j].loaded >= 0 && has_bit(loaded, (uint32_t)places[j].loaded);
            for (uint32_t k = 0; k < x->nin; k++)
                used |= places[j].loaded < 0 && x->in[k].id == places[j].expr.id;
            if (used && places[j].first > places[i].first)
                places[j].first = places[i].first;
        }
    }
}

static void place_block(Lets *w, KBlock *block)
{
    if (block->n == 1 && block->at[0].kind == KS_FOR && block->at[0].loop == FOR_GRID) {
        place_inside(w, &block->at[0]); /* nothing stands outside the grid */
        return;
    }
    Arena *a = w->b->l->p->cx->scratch;
    uint64_t *accs = w->accs_in;
    w->accs_in = arena_array(a, uint64_t, w->nacc);
    join_bits(w->accs_in, accs, w->nacc);
    for (uint32_t i = 0; i < block->n; i++)
        if (block->at[i].kind == KS_TOTAL)
            set_bit(w->accs_in, block->at[i].acc);
    Walk s = {.w = w,
              .seen = arena_array(a, Seen, w->k->exprs.n),
              .loaded_first = arena_array(a, uint32_t, w->b->loaded.n + 1)};
    for (s.stmt = 0; s.stmt < block->n; s.stmt++)
        walk_stmt(&s, &block->at[s.stmt], false, false);
    Spot *places = arena_array(a, Spot, w->k->exprs.n + w->b->loaded.n + 1);
    bool *set = arena_array(a, bool, w->k->exprs.n);
    bool *loaded = arena_array(a, bool, w->b->loaded.n + 1);
    memcpy(loaded, w->loaded_in, w->b->loaded.n * sizeof *loaded);
    uint32_t n = choose(w, &s, block, places, set);
    settle(w, places, n);
    KBlock out = {0};
    for (uint32_t i = 0; i < block->n; i++) {
        for (uint32_t j = 0; j < n; j++)
            if (places[j].first == i)
                add_let(w, &out, &places[j]);
        vec_push(w->b->l->p->cx->kernels, &out, block->at[i]);
        place_inside(w, &vec_last(&out));
    }
    *block = out;
    for (uint32_t e = 1; e < w->k->exprs.n; e++)
        if (set[e])
            w->let[e] = false;
    memcpy(w->loaded_in, loaded, w->b->loaded.n * sizeof *loaded);
    w->accs_in = accs;
}

static Needs *needs_create(Arena *a, const Lets *w, uint32_t n)
{
    Needs *needs = arena_array(a, Needs, n);
    uint64_t *words = arena_array(a, uint64_t, (size_t)n * (w->nacc + w->nloaded));
    for (uint32_t i = 0; i < n; i++, words += w->nacc + w->nloaded) {
        needs[i].accs = words;
        needs[i].loaded = words + w->nacc;
    }
    return needs;
}

void kernel_lets(KBuild *b)
{
    Arena *a = b->l->p->cx->scratch;
    Lets w = {.b = b, .k = b->k};
    find_axes(&w, &b->k->body);
    for (const KBlock *at = &b->k->body; at->n == 1 && at->at[0].kind == KS_FOR;
         at = &at->at[0].body)
        if (at->at[0].loop == FOR_GRID && at->at[0].grid_lanes && !b->l->o->cuda)
            w.strip = axis_bit(&w, at->at[0].axis);
    CHECK(w.axes.n <= 64);
    w.nacc = b->k->accs.n / 64 + 1;
    w.nloaded = b->loaded.n / 64 + 1;
    w.accs_in = arena_array(a, uint64_t, w.nacc);
    w.needs = needs_create(a, &w, b->k->exprs.n);
    w.dim = *needs_create(a, &w, 1);
    w.work = arena_array(a, int, b->k->exprs.n);
    w.let = arena_array(a, bool, b->k->exprs.n);
    w.named = arena_array(a, bool, b->k->exprs.n);
    w.loaded_in = arena_array(a, bool, b->loaded.n + 1);
    find_needs(&w);
    place_block(&w, &b->k->body);
}
