/* elab_scan.c: `scan`: one turn is traced with stand-ins for what it carries; ir/loop_build.c makes
 * a node of it. SPDX-License-Identifier: MIT */
#include "frontend/elab.h"
#include "ir/loop.h"

#include <string.h>

/* A name of outside that the body assigns. */
typedef struct {
    Local *local;
    Value old;
    uint32_t first, n; /* its tensors among all carries */
} Carried;

typedef struct Turns {
    Elab *e;
    const Env *env;
    const AstStmt *s;
    Span at;
    VEC(Carried) names;
    VEC(Val) init, before, after;
    Values yields;
    VEC(Span) yield_at;
    bool yielded;
    Dim trip;
    Symbol loop;
    Dim turn, turns; /* the user's count: which turn this is, of how many */
    bool outer;      /* a turn is k turns of the user's */
    struct Turns *up;
} Turns;

/* ---- what is carried ---- */

static void add_name(Turns *q, const AstExpr *place)
{
    Elab *e = q->e;
    while (place->kind == EX_index)
        place = place->a;
    if (place->kind == EX_list)
        for (uint32_t i = 0; i < place->items.n; i++)
            add_name(q, place->items.at[i]);
    if (place->kind != EX_name)
        return;
    Local *l = scope_find(q->env->scope, place->name);
    if (!l || l->is_size)
        return;
    for (uint32_t i = 0; i < q->names.n; i++)
        if (q->names.at[i].local == l)
            return;
    vec_push(e->a, &q->names, ((Carried){.local = l, .old = l->value}));
}

static void find_names(Turns *q, const AstStmts *body)
{
    for (uint32_t i = 0; i < body->n; i++) {
        const AstStmt *s = body->at[i];
        for (uint32_t k = 0; k < s->places.n; k++)
            add_name(q, s->places.at[k]);
        find_names(q, &s->body);
        find_names(q, &s->orelse);
        if (s->scan)
            find_names(q, &s->scan->body);
    }
}

/* A tensor of the value's kind: numbers become 0-d ones. */
static bool as_tensor(Turns *q, const Value *v, Val *out)
{
    Elab *e = q->e;
    if (v->kind == V_tensor)
        *out = use_val(e, v);
    else if (v->kind == V_float)
        *out = val_as(e, v, e->float_type);
    else if (v->kind == V_int || v->kind == V_size)
        *out = val_as(e, v, DT_i64);
    else if (v->kind == V_bool)
        *out = val_as(e, v, DT_bool);
    else if (v->kind == V_late)
        *out = use_val(e, v);
    else
        return false;
    return true;
}

/* The value with a stand-in for each tensor in it. */
static bool stand_in(Turns *q, const Value *v, Value *out)
{
    Elab *e = q->e;
    if (v->kind == V_list) {
        Values items = {0};
        for (uint32_t i = 0; i < v->list->n; i++) {
            Value x;
            if (!stand_in(q, &v->list->at[i], &x))
                return false;
            vec_push(e->a, &items, x);
        }
        List *l = arena_new(e->a, List);
        *l = (List){.at = items.at, .n = items.n, .names = v->list->names};
        *out = (Value){.kind = V_list, .list = l};
        return true;
    }
    Val x;
    if (!as_tensor(q, v, &x))
        return false;
    const Val p = loop_placeholder(&e->b, val_type(e->b.g, x), STAGE_FORWARD);
    const Written *const *how = written_get(e, x);
    if (how)
        written_set(e, p, how, type_at(e, x)->rank);
    vec_push(e->a, &q->init, x);
    vec_push(e->a, &q->before, p);
    *out = v_tensor(e, p);
    return true;
}

static bool begin_carries(Turns *q)
{
    Elab *e = q->e;
    for (uint32_t i = 0; i < q->names.n; i++) {
        Carried *c = &q->names.at[i];
        c->first = q->init.n;
        Value v;
        if (is_poison(&c->old))
            return false;
        if (!stand_in(q, &c->old, &v)) {
            Diag *d = elab_error(e, DIAG_bad_type, q->s->op_at,
                                 "'%s' is assigned in the scan: it must be a tensor, not %s",
                                 sym(e, c->local->name), a_kind(&c->old));
            elab_note(e, d, c->local->at, "it is declared here");
            return false;
        }
        c->n = q->init.n - c->first;
        c->local->value = v;
    }
    return true;
}

/* ---- what a turn leaves ---- */

static bool keeps_type(Turns *q, const Carried *c, uint32_t i, Val v)
{
    Elab *e = q->e;
    const TypeInfo a = *type_at(e, q->init.at[i]), b = *type_at(e, v);
    bool same = a.dtype == b.dtype && a.rank == b.rank && a.place == b.place;
    for (uint32_t k = 0; same && k < a.rank; k++)
        same = dim_equal(e->dims, a.shape[k], b.shape[k]) == YES;
    if (same)
        return true;
    Diag *d = elab_error(e, DIAG_shape_mismatch, c->local->set_at.file ? c->local->set_at : q->at,
                         "'%s' is carried from turn to turn: it begins as %s and becomes %s",
                         sym(e, c->local->name), type_str(e, q->init.at[i]), type_str(e, v));
    elab_note(e, d, q->s->op_at, "what a scan carries keeps its shape and dtype");
    return false;
}

static bool take_after(Turns *q, const Carried *c, const Value *old, const Value *now)
{
    Elab *e = q->e;
    if (is_poison(now))
        return false;
    if (old->kind == V_list) {
        bool ok = now->kind == V_list && now->list->n == old->list->n;
        if (!ok)
            elab_error(e, DIAG_bad_type, c->local->set_at.file ? c->local->set_at : q->at,
                       "'%s' is carried from turn to turn: it stays a list of %u",
                       sym(e, c->local->name), old->list->n);
        for (uint32_t i = 0; ok && i < old->list->n; i++)
            ok = take_after(q, c, &old->list->at[i], &now->list->at[i]);
        return ok;
    }
    const uint32_t i = q->after.n;
    const DType t = type_at(e, q->init.at[i])->dtype;
    Val v;
    if (is_number(now) && now->kind != V_late)
        v = val_as(e, now, t);
    else if (!as_tensor(q, now, &v)) {
        elab_error(e, DIAG_bad_type, c->local->set_at.file ? c->local->set_at : q->at,
                   "'%s' is carried from turn to turn: it stays a tensor, and does not become %s",
                   sym(e, c->local->name), a_kind(now));
        return false;
    }
    v = autocast_back(e, v, t);
    if (!keeps_type(q, c, i, v))
        return false;
    vec_push(e->a, &q->after, v);
    return true;
}

static Value rebuilt(Turns *q, const Value *old, const Val *last, uint32_t *at)
{
    Elab *e = q->e;
    if (old->kind != V_list)
        return v_tensor(e, last[(*at)++]);
    Values items = {0};
    for (uint32_t i = 0; i < old->list->n; i++) {
        const Value v = rebuilt(q, &old->list->at[i], last, at);
        vec_push(e->a, &items, v);
    }
    List *l = arena_new(e->a, List);
    *l = (List){.at = items.at, .n = items.n, .names = old->list->names};
    return (Value){.kind = V_list, .list = l};
}

/* ---- over what it runs ---- */

static const AstExpr *call_of(const AstExpr *x, Elab *e, const char *name)
{
    return x->kind == EX_call && x->a->kind == EX_name && !strcmp(sym(e, x->a->name), name) ? x
                                                                                            : NULL;
}

static bool range_part(Turns *q, const AstExpr *x, Dim *out)
{
    Elab *e = q->e;
    Value v = eval(e, q->env, x);
    if (is_poison(&v))
        return false;
    if (value_dim(e, &v, out))
        return true;
    elab_error(e, DIAG_bad_type, x->at, "a range is of ints and sizes, not %s", a_kind(&v));
    return false;
}

/* range(n), range(a, b), range(a, b, step): the counter's value in turn t. */
static bool over_range(Turns *q, const AstExpr *x, Dim *first, Dim *step)
{
    Elab *e = q->e;
    DimTable *t = e->dims;
    Dim part[3];
    int64_t by = 1;
    const uint32_t n = x->args.n;
    if (n < 1 || n > 3) {
        elab_error(e, DIAG_bad_call, x->at, "range takes 1 to 3 numbers, not %u", n);
        return false;
    }
    for (uint32_t i = 0; i < n; i++)
        if (!range_part(q, x->args.at[i].value, &part[i]))
            return false;
    if (n == 3 && (!dim_is_const(t, part[2], &by) || by == 0)) {
        elab_error(e, DIAG_bad_type, x->args.at[2].value->at,
                   "the step of a range is an int that is not 0");
        return false;
    }
    *first = n == 1 ? dim_const(t, 0) : part[0];
    *step = dim_const(t, by);
    Dim span = n == 1 ? part[0] : dim_sub(t, part[1], part[0]);
    if (by < 0)
        span = dim_sub(t, dim_const(t, 0), span);
    q->trip = dim_ceildiv(t, span, dim_const(t, by < 0 ? -by : by));
    if (dim_le(t, dim_const(t, 0), q->trip) != YES)
        q->trip = dim_max(t, q->trip, dim_const(t, 0));
    return true;
}

static Value row(Elab *e, const Value *x, Dim at)
{
    const Val v = build_at(&e->b, use_val(e, x), at);
    return v_tensor(e, v);
}

static bool over_tensor(Turns *q, const AstExpr *x, Value *out)
{
    Elab *e = q->e;
    *out = eval(e, q->env, x);
    if (is_poison(out))
        return false;
    if (out->kind != V_tensor || value_type(e, out)->rank == 0) {
        Diag *d = elab_error(e, DIAG_bad_type, x->at,
                             "a scan runs over a range of sizes or the first axis of a tensor, "
                             "not %s",
                             out->kind == V_tensor ? "a tensor without axes" : a_kind(out));
        if (out->kind == V_list)
            diag_note(e->diags, d, (Span){0}, "`for` runs over a list");
        return false;
    }
    const Dim n = value_type(e, out)->shape[0];
    if (q->trip.id && !prove_equal(e, x->at, q->trip, n)) {
        elab_error(e, DIAG_shape_mismatch, x->at, "this has %s rows, the one before it %s",
                   dim_str(e, n), dim_str(e, q->trip));
        return false;
    }
    if (!q->trip.id)
        q->trip = n;
    return true;
}

/* What the names of the scan are in a turn: made once the loop's symbol exists. */
typedef struct {
    bool counter, backwards, zipped, numbered;
    Dim first, step;
    Values parts; /* tensors whose rows are taken */
} Source;

static bool read_source(Turns *q, const AstExpr *x, Source *s)
{
    Elab *e = q->e;
    Value v;
    if (call_of(x, e, "reversed") && x->args.n == 1) {
        s->backwards = true;
        x = x->args.at[0].value;
    }
    if (call_of(x, e, "range")) {
        s->counter = true;
        return over_range(q, x, &s->first, &s->step);
    }
    s->numbered = call_of(x, e, "enumerate") && x->args.n == 1;
    if (s->numbered)
        x = x->args.at[0].value;
    s->zipped = call_of(x, e, "zip") && x->args.n > 0;
    const uint32_t n = s->zipped ? x->args.n : 1;
    for (uint32_t i = 0; i < n; i++) {
        if (!over_tensor(q, s->zipped ? x->args.at[i].value : x, &v))
            return false;
        vec_push(e->a, &s->parts, v);
    }
    return true;
}

static bool bind_turn(Turns *q, const Env *env, const Source *s)
{
    Elab *e = q->e;
    DimTable *t = e->dims;
    const AstNames *names = &q->s->names;
    Dim turn = q->turn;
    if (s->backwards)
        turn = dim_sub(t, dim_sub(t, q->turns, dim_const(t, 1)), turn);
    Values items = {0}, inner = {0};
    if (s->counter) {
        const Value v = v_dim(e, dim_add(t, s->first, dim_mul(t, s->step, turn)));
        vec_push(e->a, &items, v);
    }
    if (s->numbered) {
        const Value v = v_dim(e, turn);
        vec_push(e->a, &items, v);
    }
    for (uint32_t i = 0; i < s->parts.n; i++) {
        const Value v = row(e, &s->parts.at[i], turn);
        vec_push(e->a, s->zipped && s->numbered ? &inner : &items, v);
    }
    if (inner.n) {
        const Value v = v_list(e, inner.at, inner.n);
        vec_push(e->a, &items, v);
    }
    if (items.n == 1 && names->n > 1) {
        const Value whole = items.at[0];
        items.n = 0;
        if (!value_items(e, q->s->list->at, &whole, &items))
            return false;
    } else if (items.n > 1 && names->n == 1) {
        const Value v = v_list(e, items.at, items.n);
        items.n = 0;
        vec_push(e->a, &items, v);
    }
    if (items.n != names->n) {
        elab_error(e, DIAG_unpack, q->s->list->at, "%u names for %u values", names->n, items.n);
        return false;
    }
    for (uint32_t i = 0; i < names->n; i++)
        scope_declare(e, env, names->at[i].sym, items.at[i], names->at[i].at);
    return true;
}

/* ---- yield ---- */

void run_yield(Elab *e, const Env *env, const AstStmt *s)
{
    Turns *q = e->turns;
    if (!q) {
        elab_error(e, DIAG_misplaced, s->at, "yield stands in a scan only");
        return;
    }
    if (q->yielded) {
        elab_error(e, DIAG_misplaced, s->at, "a turn of a scan yields once: `yield a, b`");
        return;
    }
    q->yielded = true;
    for (uint32_t i = 0; i < s->values.n; i++) {
        const Value v = eval(e, env, s->values.at[i]);
        vec_push(e->a, &q->yields, v);
        vec_push(e->a, &q->yield_at, s->values.at[i]->at);
    }
}

static bool yields_as_tensors(Turns *q, Val *out)
{
    Elab *e = q->e;
    for (uint32_t i = 0; i < q->yields.n; i++) {
        if (is_poison(&q->yields.at[i]))
            return false;
        if (as_tensor(q, &q->yields.at[i], &out[i]))
            continue;
        elab_error(e, DIAG_bad_type, q->yield_at.at[i],
                   "what is yielded is stacked: a tensor, not %s", a_kind(&q->yields.at[i]));
        return false;
    }
    return true;
}

/* ---- the whole ---- */

/* A buffer that a turn assigns would be state of its own each turn. */
static bool leaves_buffers(Turns *q, uint32_t first)
{
    Elab *e = q->e;
    for (uint32_t i = 0; i < e->states.n; i++) {
        const State *s = e->states.at[i];
        if (s->now_graph != e->b.g || s->now.node < first)
            continue;
        elab_error(e, DIAG_bad_target, q->s->op_at,
                   "the buffer '%s' is assigned in a scan: carry a local, and assign it behind",
                   sym(e, s->name));
        return false;
    }
    return true;
}

static bool trace_turn(Turns *q, const Source *s)
{
    Elab *e = q->e;
    Env inner = *q->env;
    inner.scope = scope_push(e, q->env->scope);
    inner.body = false;
    Body ret = {0};
    if (!bind_turn(q, &inner, s))
        return false;
    const int before = diag_errors(e->diags);
    const Flow flow = run_block(e, &inner, &q->s->body, &ret);
    if (flow == FLOW_return && ret.returned)
        elab_error(e, DIAG_misplaced, ret.return_at,
                   "a scan runs to its end: return cannot leave it");
    bool ok = diag_errors(e->diags) == before;
    for (uint32_t i = 0; i < q->names.n && ok; i++)
        ok = take_after(q, &q->names.at[i], &q->names.at[i].old, &q->names.at[i].local->value);
    return ok;
}

static bool build_turns(Turns *q, uint32_t first, Values *out)
{
    Elab *e = q->e;
    const uint32_t n = q->yields.n;
    Val *yield = arena_array(e->a, Val, n + 1), *last = arena_array(e->a, Val, q->init.n + 1);
    if (!yields_as_tensors(q, yield))
        return false;
    const LoopTrace trace = {.trip = q->trip,
                             .loop = q->loop,
                             .name = dim_symbol(e->dims, q->loop)->name,
                             .first = first,
                             .ncarry = q->init.n,
                             .init = q->init.at,
                             .before = q->before.at,
                             .after = q->after.at,
                             .nyield = n,
                             .yield = yield,
                             .segment = q->outer};
    uint32_t at = 0;
    Val *stacked = arena_array(e->a, Val, n + 1);
    const char *why = loop_build(&e->b, &trace, last, stacked, &at);
    if (why) {
        elab_error(e, DIAG_shape_mismatch, q->yield_at.n ? q->yield_at.at[0] : q->at,
                   "what is yielded is stacked: %s", why);
        return false;
    }
    for (uint32_t i = 0; i < q->names.n; i++) {
        uint32_t k = q->names.at[i].first;
        q->names.at[i].local->value = rebuilt(q, &q->names.at[i].old, last, &k);
    }
    for (uint32_t i = 0; i < n; i++) {
        const Value v = v_tensor(e, stacked[i]);
        vec_push(e->a, out, v);
    }
    return true;
}

static void new_loop(Turns *q, Sym name, Dim trip)
{
    Elab *e = q->e;
    int64_t lo;
    q->trip = trip;
    q->loop = dim_new_symbol(e->dims, SYM_LOOP, name, trip);
    SymbolInfo *info = dim_symbol(e->dims, q->loop);
    dim_interval(e->dims, trip, &lo, &info->hi);
    info->hi -= info->hi > 0 && info->hi != INT64_MAX;
    find_names(q, &q->s->body);
}

/* Turns `first` to first + trip of all. */
static bool run_turns(Turns *q, const Source *source, Sym name, Dim first, Dim trip, Values *out)
{
    Elab *e = q->e;
    const Site site = e->b.site;
    q->up = e->turns;
    new_loop(q, name, trip);
    q->turn = dim_add(e->dims, first, dim_of(e->dims, q->loop));
    const uint32_t from = e->b.g->nodes.n;
    e->turns = q;
    bool ok = begin_carries(q) && trace_turn(q, source) && leaves_buffers(q, from);
    e->turns = q->up;
    e->b.site.at = q->s->op_at;
    ok = ok && build_turns(q, from, out);
    e->b.site = site;
    return ok;
}

/* checkpoint(k): turns of a loop around are k of the user's turns each: what it carries is kept,
 * and what the loop in it does is done again by its derivative. */
static bool run_segments(Turns *q, const Source *source, Sym name, int64_t k, Dim count,
                         Values *out)
{
    Elab *e = q->e;
    DimTable *t = e->dims;
    Turns inner = *q;
    q->outer = true;
    q->up = e->turns;
    new_loop(q, sym_new(e, "segment"), count);
    const uint32_t from = e->b.g->nodes.n;
    const Site site = e->b.site;
    e->b.site.block = 0;
    e->turns = q;
    bool ok = begin_carries(q);
    const Dim size = dim_const(t, k);
    ok = ok &&
         run_turns(&inner, source, name, dim_mul(t, size, dim_of(t, q->loop)), size, &q->yields);
    for (uint32_t i = 0; i < q->names.n && ok; i++)
        ok = take_after(q, &q->names.at[i], &q->names.at[i].old, &q->names.at[i].local->value);
    q->yield_at = inner.yield_at;
    e->turns = q->up;
    e->b.site.at = q->s->op_at;
    Values parts = {0};
    ok = ok && build_turns(q, from, &parts);
    for (uint32_t i = 0; i < parts.n && ok; i++) {
        const Val v = use_val(e, &parts.at[i]);
        TypeInfo x = *type_at(e, v);
        x.shape[1] = dim_mul(t, x.shape[0], x.shape[1]);
        const Value y = v_tensor(e, build_reshape(&e->b, v, x.shape + 1, x.rank - 1u));
        vec_push(e->a, out, y);
    }
    e->b.site = site;
    return ok;
}

/* What is left over, and made again as any other values of a checkpoint are. */
static bool run_rest(Turns *q, const Source *source, Sym name, Dim first, uint32_t called,
                     Values *out)
{
    Elab *e = q->e;
    const Dim rest = dim_sub(e->dims, q->turns, first);
    if (dim_is_zero(e->dims, rest))
        return true;
    const uint32_t block = e->b.site.block;
    if (!block)
        e->b.site.block = ++e->blocks;
    Values more = {0};
    e->frame->called.n = called; /* the same draws again */
    const bool ok = run_turns(q, source, name, first, rest, &more);
    e->b.site.block = block;
    for (uint32_t i = 0; ok && i < more.n; i++) {
        if (i == out->n) {
            vec_push(e->a, out, more.at[i]);
            continue;
        }
        const Val parts[2] = {use_val(e, &out->at[i]), use_val(e, &more.at[i])};
        out->at[i] = v_tensor(e, build_concat(&e->b, parts, 2, 0));
    }
    return ok;
}

bool run_scan(Elab *e, const Env *env, const AstStmt *s, Values *out)
{
    Turns q = {.e = e, .env = env, .s = s, .at = s->at};
    Source source = {0};
    if (!read_source(&q, s->list, &source)) {
        poison_assigned(env, &s->body);
        return false;
    }
    q.turns = q.trip;
    const Sym name = s->names.n && source.counter ? s->names.at[0].sym : sym_new(e, "turn");
    Turns first = q;
    const int64_t k = e->segment;
    e->segment = 0;
    find_names(&first, &s->body); /* to put back what a mistake leaves behind */
    DimTable *t = e->dims;
    bool ok;
    if (!k) {
        ok = run_turns(&q, &source, name, dim_const(t, 0), q.turns, out);
    } else {
        const Dim count = dim_floordiv(t, q.turns, dim_const(t, k));
        Turns rest = q;
        const uint32_t called = e->frame->called.n;
        ok = dim_is_zero(t, count) || run_segments(&q, &source, name, k, count, out);
        ok = ok && run_rest(&rest, &source, name, dim_mul(t, count, dim_const(t, k)), called, out);
    }
    e->segment = k;
    if (!ok) {
        for (uint32_t i = 0; i < first.names.n; i++)
            first.names.at[i].local->value = first.names.at[i].old;
        poison_assigned(env, &s->body);
    }
    return ok;
}

Dim turn_number(const Elab *e)
{
    Dim n = dim_const(e->dims, 0);
    const Turns *list[16];
    uint32_t depth = 0;
    for (const Turns *q = e->turns; q && depth < ARRAY_LEN(list); q = q->up)
        if (!q->outer)
            list[depth++] = q;
    while (depth-- > 0)
        n = dim_add(e->dims, dim_mul(e->dims, n, list[depth]->turns), list[depth]->turn);
    return n;
}
