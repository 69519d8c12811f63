/* elab_stmt.c: statements of functions. SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <string.h>

enum { MAX_STEPS = 4000000 };

bool count_step(Elab *e, Span at)
{
    if (++e->steps == MAX_STEPS)
        elab_error(e, DIAG_recursion, at, "the program runs too long while compiling");
    return e->steps < MAX_STEPS;
}

/* In no_grad { } whatever is assigned or returned carries no gradient. */
static Value without_grad(Elab *e, Value v)
{
    if (!e->no_grad)
        return v;
    if (v.kind == V_tensor && dtype_is_float(value_type(e, &v)->dtype))
        return v_tensor(e, build1(&e->b, OP_detach, use_val(e, &v)));
    if (v.kind == V_list) {
        Values out = {0};
        for (uint32_t i = 0; i < v.list->n; i++)
            vec_push(e->a, &out, without_grad(e, v.list->at[i]));
        List *l = arena_new(e->a, List);
        *l = (List){.at = out.at, .n = out.n, .names = v.list->names};
        v.list = l;
    }
    return v;
}

static void hint_name(Elab *e, const Value *v, Sym name)
{
    if (v->kind == V_tensor && v->graph == e->b.g)
        val_hint(&e->b, v->val, name);
}

/* ---- right sides ---- */

bool unpack(Elab *e, const Env *env, const AstExprs *values, uint32_t ntargets, Span at,
            Values *out, Span *value_at)
{
    if (values->n == 1 && ntargets > 1) {
        Value v = eval(e, env, values->at[0]);
        for (uint32_t i = 0; i < ntargets; i++)
            value_at[i] = values->at[0]->at;
        if (!value_items(e, values->at[0]->at, &v, out))
            return false;
    } else {
        for (uint32_t i = 0; i < values->n; i++) {
            vec_push(e->a, out, eval(e, env, values->at[i]));
            if (i < ntargets)
                value_at[i] = values->at[i]->at;
        }
    }
    if (out->n != ntargets) {
        elab_error(e, DIAG_unpack, at, "%u target%s for %u value%s", ntargets,
                   ntargets == 1 ? "" : "s", out->n, out->n == 1 ? "" : "s");
        return false;
    }
    return true;
}

static void poisoned(Elab *e, Values *v, uint32_t n)
{
    v->n = 0;
    for (uint32_t i = 0; i < n; i++)
        vec_push(e->a, v, v_poison());
}

/* What a scan yields, for n targets. */
static bool yielded(Elab *e, const Env *env, const AstStmt *scan, uint32_t n, Values *out, Span *at)
{
    for (uint32_t i = 0; i < n; i++)
        at[i] = scan->op_at;
    if (!run_scan(e, env, scan, out))
        return false;
    if (n == 1 && out->n > 1) {
        const Value all = v_list(e, out->at, out->n);
        out->n = 0;
        vec_push(e->a, out, all);
    }
    if (out->n == n)
        return true;
    if (out->n == 0)
        elab_error(e, DIAG_unpack, scan->op_at, "the scan yields nothing");
    else
        elab_error(e, DIAG_unpack, scan->op_at, "%u targets for %u yielded value%s", n, out->n,
                   out->n == 1 ? "" : "s");
    return false;
}

/* ---- let ---- */

static bool word_let(Elab *e, const AstTarget *t, const Value *v, Span at)
{
    const char *want = sym(e, t->type->name.sym), *got = value_kind(v);
    if (strcmp(want, got) == 0 || (strcmp(want, "float") == 0 && v->kind == V_int))
        return true;
    elab_error(e, DIAG_bad_type, at, "'%s' must be %s, not %s", sym(e, t->name.sym), want, got);
    return false;
}

bool check_let_type(Elab *e, const Env *env, const AstTarget *t, const Value *v, Span at)
{
    if (t->type->kind == TYPE_word)
        return word_let(e, t, v, at);
    if (t->type->kind != TYPE_tensor)
        return true;
    if (v->kind != V_tensor) {
        elab_error(e, DIAG_bad_type, at, "'%s' must be a tensor, not %s", sym(e, t->name.sym),
                   a_kind(v));
        return false;
    }
    Sizes sizes = {0};
    Val x = use_val(e, v);
    const char *what = arena_printf(e->a, "'%s'", sym(e, t->name.sym));
    if (!type_bind(e, env, t->type, what, at, x, &sizes, true))
        return false;
    for (uint32_t i = 0; i < sizes.n; i++)
        if (!sym_eq(sizes.at[i].name, e->word.ellipsis))
            scope_declare(e, env, sizes.at[i].name, sizes.at[i].value, sizes.at[i].at);
    return type_check(e, env, t->type, what, at, x, &sizes);
}

static void run_let(Elab *e, const Env *env, const AstStmt *s)
{
    Values values = {0};
    uint32_t n = s->targets.n;
    Span *at = arena_array(e->a, Span, n);
    if (s->scan ? !yielded(e, env, s->scan, n, &values, at)
                : !unpack(e, env, &s->values, n, s->at, &values, at))
        poisoned(e, &values, n);
    for (uint32_t i = 0; i < n; i++) {
        const AstTarget *t = &s->targets.at[i];
        Value v = without_grad(e, values.at[i]);
        if (t->type && (is_poison(&v) || !check_let_type(e, env, t, &v, at[i]))) {
            poison_sizes(e, env, t->type);
            v = v_poison();
        }
        hint_name(e, &v, t->name.sym);
        v.state = NULL;
        scope_declare(e, env, t->name.sym, v, t->name.at);
    }
}

/* ---- assignment ---- */

static bool assign_member(Elab *e, const Env *env, Sym name, const Value *v, Span at)
{
    Member *m = env->inst ? member_find(env->inst, name) : NULL;
    if (!m)
        return false;
    if (m->kind == MEMBER_state && !m->state->is_param) {
        state_assign(e, m->state, v, at);
        return true;
    }
    if (m->kind == MEMBER_let && env->inst->building) {
        m->value = *v;
        return true;
    }
    Diag *d = elab_error(e, DIAG_bad_target, at, "'%s' cannot be assigned here", sym(e, name));
    elab_note(e, d, m->at,
              m->kind == MEMBER_state ? "it is a parameter: only a train step moves it"
                                      : "it is a member of the module");
    return true;
}

static void assign_name(Elab *e, const Env *env, Sym name, Value v, Span at)
{
    if (sym_eq(name, e->word.underscore))
        return;
    Local *l = scope_find(env->scope, name);
    if (l && l->is_size) {
        elab_error(e, DIAG_bad_target, at, "'%s' is a size of the signature: it does not change",
                   sym(e, name));
        return;
    }
    hint_name(e, &v, name);
    v.state = NULL;
    if (l) {
        l->value = v;
        l->set_at = at;
        return;
    }
    if (assign_member(e, env, name, &v, at))
        return;
    Diag *d = elab_error(e, DIAG_bad_target, at, "'%s' is not a variable here", sym(e, name));
    diag_note(e->diags, d, (Span){0}, "a new name is declared by 'let %s = ...'", sym(e, name));
    if (env->scope)
        scope_set(e, env->scope, name, v_poison(), at);
}

Value run_assign(Elab *e, const Env *env, const AstExpr *place, Value v, Span at)
{
    v = without_grad(e, v);
    if (place->kind == EX_name) {
        assign_name(e, env, place->name, v, place->at);
        return v;
    }
    if (place->kind == EX_index) {
        Value base = eval(e, env, place->a);
        Value whole = store_index(e, env, place, &base, &v, at);
        return run_assign(e, env, place->a, whole, at);
    }
    if (place->kind != EX_error)
        elab_error(e, DIAG_bad_target, place->at, "this cannot be assigned to");
    return v_poison();
}

static void run_set(Elab *e, const Env *env, const AstStmt *s)
{
    Values values = {0};
    uint32_t n = s->places.n;
    Span *at = arena_array(e->a, Span, n);
    if (n == 1 && s->places.at[0]->kind == EX_field) {
        set_member_state(e, env, s);
        return;
    }
    if (s->scan ? !yielded(e, env, s->scan, n, &values, at)
                : !unpack(e, env, &s->values, n, s->at, &values, at))
        poisoned(e, &values, n);
    for (uint32_t i = 0; i < n; i++)
        run_assign(e, env, s->places.at[i], values.at[i], at[i].file ? at[i] : s->at);
}

/* With a repeated index only the last of several sums would stay. */
static bool indexed_by_tensor(Elab *e, const Env *env, const AstExpr *place)
{
    for (uint32_t i = 0; place->kind == EX_index && i < place->items.n; i++) {
        const AstExpr *item = place->items.at[i];
        if (item->kind == EX_slice || item->kind == EX_ellipsis)
            continue;
        Value v = eval(e, env, item);
        if (v.kind != V_tensor || value_type(e, &v)->rank == 0)
            continue;
        Diag *d = elab_error(e, DIAG_bad_target, item->at,
                             "a part that a tensor indexes cannot be added to");
        diag_note(e->diags, d, (Span){0}, "index_add sums over repeated indices");
        return true;
    }
    return false;
}

static void run_aug(Elab *e, const Env *env, const AstStmt *s)
{
    const AstExpr *place = s->places.at[0];
    if (indexed_by_tensor(e, env, place))
        return;
    Value old, sum;
    if (place->kind == EX_name)
        old = lookup_noted(
            e, env, place->name, place->at,
            arena_printf(e->a, "a new name is declared by 'let %s = ...'", sym(e, place->name)));
    else
        old = eval(e, env, place);
    Value v = eval(e, env, s->values.at[0]);
    if (place->kind == EX_name &&
        is_poison(&old)) { /* said; a name that is new has no value, either */
        Span declared;
        if (!name_declared(e, env, place->name, &declared) && env->scope)
            scope_set(e, env->scope, place->name, v_poison(), place->at);
        return;
    }
    binary_op(e, s->op, s->op_at, &old, place->at, &v, s->values.at[0]->at, &sum);
    if (sum.kind == V_tensor && old.kind == V_tensor) {
        const TypeInfo *a = value_type(e, &old), *b = value_type(e, &sum);
        bool same = a->rank == b->rank;
        for (uint32_t i = 0; same && i < a->rank; i++)
            same = prove_equal(e, s->op_at, a->shape[i], b->shape[i]);
        if (!same) {
            elab_error(e, DIAG_shape_mismatch, s->op_at,
                       "'%s=' keeps the shape: %s would become %s", ast_op_text(s->op),
                       val_shape_str(e, use_val(e, &old)), val_shape_str(e, use_val(e, &sum)));
            sum = v_poison();
        }
    }
    run_assign(e, env, place, sum, s->at);
}

/* ---- assert ---- */

static void fact_bound(Elab *e, Dim small, Dim large)
{
    Symbol sym_id;
    int64_t c;
    if (dim_is_symbol(e->dims, large, &sym_id) && dim_is_const(e->dims, small, &c)) {
        SymbolInfo *info = dim_symbol(e->dims, sym_id);
        if (c > info->lo)
            info->lo = c;
    } else if (dim_is_symbol(e->dims, small, &sym_id) && dim_is_const(e->dims, large, &c)) {
        SymbolInfo *info = dim_symbol(e->dims, sym_id);
        if (c < info->hi)
            info->hi = c;
    }
}

static void entry_check(Elab *e, GuardTerm guard, const char *message, Span at)
{
    if (e->entry)
        vec_push(e->a, &e->entry->checks,
                 ((EntryCheck){.guard = guard, .message = message, .at = at}));
}

/* `a % k == 0` on a size: a fact about its symbol. */
static bool fact_divisible(Elab *e, const Env *env, const AstExpr *c, const char *message)
{
    if (c->op != AST_eq || c->a->kind != EX_binary || c->a->op != AST_mod || c->b->kind != EX_int ||
        c->b->i != 0)
        return false;
    Value a = eval(e, env, c->a->a), k = eval(e, env, c->a->b);
    Symbol s;
    if (a.kind != V_size || k.kind != V_int || k.i <= 0)
        return false;
    entry_check(e, (GuardTerm){.kind = G_DIVISIBLE, .a = a.size, .k = k.i}, message, c->at);
    if (dim_is_symbol(e->dims, a.size, &s)) {
        SymbolInfo *info = dim_symbol(e->dims, s);
        if (k.i % info->div == 0) {
            info->div = k.i;
            info->rem = 0;
        }
    }
    return true;
}

/* A comparison of sizes: checked on entry, and used by later proofs. False: it is none. */
static bool assert_sizes(Elab *e, const Env *env, const AstExpr *c, const char *message)
{
    if (c->kind != EX_binary || c->op < AST_eq || c->op > AST_ge)
        return false;
    if (fact_divisible(e, env, c, message))
        return true;
    Value x = eval(e, env, c->a), y = eval(e, env, c->b);
    Dim a, b, one = dim_const(e->dims, 1);
    if ((x.kind != V_size && y.kind != V_size) || !value_dim(e, &x, &a) || !value_dim(e, &y, &b))
        return false;
    GuardTerm g = {.a = a, .b = b};
    switch (c->op) {
    case AST_eq:
        g.kind = G_EQ;
        break;
    case AST_ne:
        g.kind = G_NE;
        break;
    case AST_lt:
        g.kind = G_LT;
        break;
    case AST_le:
        g.kind = G_LE;
        break;
    case AST_gt:
        g = (GuardTerm){.kind = G_LT, .a = b, .b = a};
        break;
    default:
        g = (GuardTerm){.kind = G_LE, .a = b, .b = a};
        break;
    }
    if (!message)
        message = arena_printf(e->a, "%s %s %s", dim_str(e, a), ast_op_text(c->op), dim_str(e, b));
    entry_check(e, g, message, c->at);
    if (g.kind == G_EQ && dim_equal(e->dims, a, b) == NO)
        elab_error(e, DIAG_assertion, c->at, "%s: %s is never %s", message, value_size_str(e, &x),
                   value_size_str(e, &y));
    else if (g.kind == G_EQ && dim_equal(e->dims, a, b) == UNKNOWN)
        dim_assume_equal(e->dims, a, b);
    else if (g.kind == G_LE)
        fact_bound(e, g.a, g.b);
    else if (g.kind == G_LT)
        fact_bound(e, dim_add(e->dims, g.a, one), g.b);
    return true;
}

static void assert_run_time(Elab *e, const AstStmt *s, Value *v, const char *message)
{
    if (!e->in_test) {
        elab_error(e, DIAG_misplaced, s->list->at,
                   "a value of the run can be asserted in a test only");
        return;
    }
    Val x = use_val(e, v);
    TypeInfo t = *type_at(e, x);
    if (t.dtype != DT_bool) {
        elab_error(e, DIAG_bad_type, s->list->at, "an assertion is a bool, not %s", type_str(e, x));
        return;
    }
    if (t.rank) {
        int64_t axes[MAX_RANK];
        for (uint32_t i = 0; i < t.rank; i++)
            axes[i] = i;
        x = build_reduce(&e->b, RED_and, x, axes, t.rank);
    }
    const SourceFile *f = source_file(e->cx->sources, s->list->at.file);
    const char *text = message ? message
                               : arena_strndup(e->a, f->text + s->list->at.start,
                                               s->list->at.end - s->list->at.start);
    vec_push(e->a, &e->asserts, v_tensor(e, x));
    vec_push(e->a, &e->assert_texts, text);
    vec_push(e->a, &e->assert_at, s->list->at);
}

/* `not` of a 0-d bool in a test. Of more elements it could mean two things, and stays an error. */
static Value assert_not(Elab *e, const Env *env, const AstExpr *c)
{
    bool b;
    const AstExpr *x = c->a;
    const bool twice = x->kind == EX_unary && x->op == AST_not;
    Value v = twice ? assert_not(e, env, x) : eval(e, env, x);
    if (is_poison(&v))
        return v;
    if (e->in_test && v.kind == V_tensor && value_type(e, &v)->dtype == DT_bool &&
        !value_type(e, &v)->rank) {
        Value out;
        return unary_op(e, AST_inv, c->op_at, &v, &out) ? out : v_poison();
    }
    return to_bool(e, &v, x->at, &b, "be an operand of and, or, not") ? v_bool(!b) : v_poison();
}

static void run_condition(Elab *e, const Env *env, const AstStmt *s, const AstExpr *c,
                          const char *message)
{
    if (c->kind == EX_binary && c->op == AST_and) {
        run_condition(e, env, s, c->a, message);
        run_condition(e, env, s, c->b, message);
        return;
    }
    if (assert_sizes(e, env, c, message))
        return;
    const bool negated = c->kind == EX_unary && c->op == AST_not;
    Value v = negated ? assert_not(e, env, c) : eval(e, env, c);
    if (is_poison(&v))
        return;
    if (v.kind == V_tensor || v.kind == V_late) {
        assert_run_time(e, s, &v, message);
    } else if (v.kind != V_bool) {
        elab_error(e, DIAG_bad_type, c->at, "an assertion is a bool, not %s", a_kind(&v));
    } else if (!v.i) {
        if (message)
            elab_error(e, DIAG_assertion, c->at, "%s", message);
        else
            elab_error(e, DIAG_assertion, c->at, "this assertion does not hold");
    }
}

static void run_assert(Elab *e, const Env *env, const AstStmt *s)
{
    const char *message = NULL;
    if (s->message) {
        Value m = eval(e, env, s->message);
        if (m.kind == V_string)
            message = m.s;
        else if (!is_poison(&m))
            elab_error(e, DIAG_bad_type, s->message->at, "the message must be a string");
    }
    run_condition(e, env, s, s->list, message);
}

/* ---- control ---- */

static Flow run_if(Elab *e, const Env *env, const AstStmt *s, Body *ret)
{
    bool c;
    if (!eval_bool(e, env, s->list, &c, "choose a branch")) {
        poison_assigned(env, &s->body);
        poison_assigned(env, &s->orelse);
        return FLOW_next;
    }
    if (!c && !s->has_else)
        return FLOW_next;
    Env inner = *env;
    inner.scope = scope_push(e, env->scope);
    inner.body = false;
    return run_block(e, &inner, c ? &s->body : &s->orelse, ret);
}

static bool bind_turn(Elab *e, const Env *env, const AstStmt *s, const Value *item)
{
    Values parts = {0};
    if (s->names.n == 1)
        vec_push(e->a, &parts, *item);
    else if (!value_items(e, s->list->at, item, &parts))
        return false;
    if (parts.n != s->names.n) {
        elab_error(e, DIAG_unpack, s->list->at, "%u names for %u values", s->names.n, parts.n);
        return false;
    }
    for (uint32_t k = 0; k < parts.n; k++)
        scope_declare(e, env, s->names.at[k].sym, parts.at[k], s->names.at[k].at);
    return true;
}

static Flow run_for(Elab *e, const Env *env, const AstStmt *s, Body *ret)
{
    Value list = eval(e, env, s->list);
    Values items = {0};
    bool ok = value_items(e, s->list->at, &list, &items);
    for (uint32_t i = 0; ok && i < items.n; i++) {
        Env inner = *env;
        inner.scope = scope_push(e, env->scope);
        inner.body = false;
        const int before = diag_errors(e->diags);
        if (!bind_turn(e, &inner, s, &items.at[i])) {
            ok = false;
            break;
        }
        if (run_block(e, &inner, &s->body, ret) == FLOW_return)
            return FLOW_return;
        ok = diag_errors(e->diags) == before; /* else the other turns would say the same */
    }
    if (!ok)
        poison_assigned(env, &s->body);
    return FLOW_next;
}

/* A block in a block is part of it, unless a scan stands between. */
static Flow run_checkpoint(Elab *e, const Env *env, const AstStmt *s, Body *ret)
{
    const uint32_t outer = e->b.site.block;
    struct Turns *const turns = e->block_turns;
    const int64_t segment = e->segment;
    if (s->list) {
        const Value k = eval(e, env, s->list);
        if (!is_poison(&k) && (k.kind != V_int || k.i < 1))
            elab_error(
                e, DIAG_bad_type, s->list->at,
                "checkpoint(k) keeps what every k-th turn of a scan carries: k is an int from "
                "1 on, not %s",
                k.kind == V_int    ? arena_printf(e->a, "%lld", (long long)k.i)
                : k.kind == V_size ? "a size"
                                   : a_kind(&k));
        else if (k.kind == V_int)
            e->segment = k.i;
    }
    if (!outer || e->turns != turns) {
        e->b.site.block = ++e->blocks;
        e->block_turns = e->turns;
    }
    const Flow flow = run_block(e, env, &s->body, ret);
    e->b.site.block = outer;
    e->block_turns = turns;
    e->segment = segment;
    return flow;
}

static Flow run_on(Elab *e, const Env *env, const AstStmt *s, Body *ret)
{
    const Value d = eval(e, env, s->list);
    const Place outer = e->b.place;
    Place place;
    if (place_of(e, s->list->at, &d, "'on'", &place))
        e->b.place = place;
    const Flow flow = run_block(e, env, &s->body, ret);
    e->b.place = outer;
    return flow;
}

static Flow run_return(Elab *e, const Env *env, const AstStmt *s, Body *ret)
{
    ret->returned = true;
    ret->return_at = s->at;
    for (uint32_t i = 0; i < s->values.n; i++) {
        Value v = without_grad(e, eval(e, env, s->values.at[i]));
        vec_push(e->a, &ret->values, v);
        vec_push(e->a, &ret->at, s->values.at[i]->at);
    }
    return FLOW_return;
}

static void run_expr(Elab *e, const Env *env, const AstStmt *s)
{
    for (uint32_t i = 0; i < s->values.n; i++) {
        const AstExpr *x = s->values.at[i];
        if (x->kind == EX_error)
            continue;
        if (x->kind != EX_call || s->values.n > 1) {
            elab_error(e, DIAG_misplaced, x->at,
                       "this value is not used: only a call can stand "
                       "alone");
            return;
        }
        eval(e, env, x);
    }
}

Flow run_stmt(Elab *e, const Env *env, const AstStmt *s, Body *ret)
{
    if (!count_step(e, s->at))
        return FLOW_return;
    switch (s->kind) {
    case ST_let:
        run_let(e, env, s);
        break;
    case ST_set:
        run_set(e, env, s);
        break;
    case ST_aug:
        run_aug(e, env, s);
        break;
    case ST_expr:
        run_expr(e, env, s);
        break;
    case ST_scan: {
        Values dropped = {0};
        run_scan(e, env, s, &dropped);
        break;
    }
    case ST_yield:
        run_yield(e, env, s);
        break;
    case ST_return:
        return run_return(e, env, s, ret);
    case ST_if:
        return run_if(e, env, s, ret);
    case ST_for:
        return run_for(e, env, s, ret);
    case ST_on:
        return run_on(e, env, s, ret);
    case ST_checkpoint:
        return run_checkpoint(e, env, s, ret);
    case ST_no_grad: {
        bool outer = e->no_grad;
        e->no_grad = true;
        Flow flow = run_block(e, env, &s->body, ret);
        e->no_grad = outer;
        return flow;
    }
    case ST_assert:
        run_assert(e, env, s);
        break;
    case ST_param:
    case ST_buffer:
    case ST_fn:
        elab_error(e, DIAG_misplaced, s->at, "%s stands in a module, not in a function",
                   s->kind == ST_param    ? "param"
                   : s->kind == ST_buffer ? "buffer"
                                          : "fn");
        scope_set(e, env->scope, s->kind == ST_fn ? s->fn->name.sym : s->name.sym, v_poison(),
                  s->at);
        break;
    }
    return FLOW_next;
}

Flow run_block(Elab *e, const Env *env, const AstStmts *body, Body *ret)
{
    for (uint32_t i = 0; i < body->n; i++)
        if (run_stmt(e, env, body->at[i], ret) == FLOW_return)
            return FLOW_return;
    return FLOW_next;
}
