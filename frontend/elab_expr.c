/* elab_expr.c: expressions. SPDX-License-Identifier: MIT */
#include "frontend/elab.h"
#include "frontend/hints.h"

#include <string.h>

/* ---- static bools ---- */

bool to_bool(Elab *e, const Value *v, Span at, bool *out, const char *what)
{
    *out = false;
    if (v->kind == V_bool) {
        *out = v->i != 0;
        return true;
    }
    if (is_poison(v))
        return false;
    if (v->kind == V_tensor) {
        Diag *d = elab_error(e, DIAG_not_static, at,
                             "a tensor cannot %s: its value is known only "
                             "at run time",
                             what);
        d->withdrawn = false; /* whatever the sizes are */
        diag_note(e->diags, d, (Span){0},
                  "where(c, a, b) chooses element by element; & | ~ combine bool tensors");
    } else if (v->kind == V_late || v->kind == V_size) {
        Diag *d = elab_error(e, DIAG_not_static, at, "a number of the run cannot %s", what);
        diag_note(e->diags, d, (Span){0},
                  "use where, or fix the size with -D NAME=N or `model m = M() with NAME = N`");
    } else {
        elab_error(e, DIAG_bad_type, at, "a bool is needed here, not %s (%s)", value_kind(v),
                   "write the comparison out");
    }
    return false;
}

bool eval_bool(Elab *e, const Env *env, const AstExpr *x, bool *out, const char *what)
{
    Value v = eval(e, env, x);
    return to_bool(e, &v, x->at, out, what);
}

static Value eval_logic(Elab *e, const Env *env, const AstExpr *x)
{
    bool a, b;
    if (!eval_bool(e, env, x->a, &a, "be an operand of and, or, not"))
        return v_poison();
    if ((x->op == AST_and && !a) || (x->op == AST_or && a))
        return v_bool(a);
    return eval_bool(e, env, x->b, &b, "be an operand of and, or, not") ? v_bool(b) : v_poison();
}

/* ---- lists ---- */

bool value_items(Elab *e, Span at, const Value *v, Values *out)
{
    if (is_poison(v))
        return false;
    if (v->kind == V_list) {
        for (uint32_t i = 0; i < v->list->n; i++)
            vec_push(e->a, out, v->list->at[i]);
        return true;
    }
    if (v->kind != V_tensor) {
        elab_error(e, DIAG_bad_type, at, "a list is needed here, not %s", a_kind(v));
        return false;
    }
    Val x = use_val(e, v);
    TypeInfo t = *type_at(e, x);
    int64_t n;
    if (t.rank == 0 || !dim_is_const(e->dims, t.shape[0], &n)) {
        elab_error(e, DIAG_not_static, at,
                   t.rank ? "axis 0 of %s is not known while compiling"
                          : "%s has no axis to unpack",
                   type_str(e, x));
        return false;
    }
    if (n > 65536) {
        elab_error(e, DIAG_recursion, at, "%lld elements are too many to unroll", (long long)n);
        return false;
    }
    for (int64_t i = 0; i < n; i++) {
        Val s = build_slice_axis(&e->b, x, 0, dim_const(e->dims, i), dim_const(e->dims, 1));
        vec_push(e->a, out, v_tensor(e, build_reshape(&e->b, s, t.shape + 1, t.rank - 1u)));
    }
    return true;
}

static bool append_splat(Elab *e, const Env *env, const AstExpr *x, Values *out)
{
    Value v = eval(e, env, x->a);
    return value_items(e, x->at, &v, out);
}

static Value eval_list(Elab *e, const Env *env, const AstExpr *x)
{
    Values out = {0};
    bool bad = false;
    for (uint32_t i = 0; i < x->items.n; i++) {
        const AstExpr *item = x->items.at[i];
        if (item->kind == EX_splat) {
            bad |= !append_splat(e, env, item, &out);
        } else {
            Value v = eval(e, env, item);
            bad |= is_poison(&v);
            vec_push(e->a, &out, v);
        }
    }
    return bad ? v_poison() : v_list(e, out.at, out.n);
}

/* Declares the names of a `for` for one element. */
static bool bind_names(Elab *e, const Env *env, const AstNames *names, const Value *item, Span at)
{
    if (names->n == 1)
        return scope_declare(e, env, names->at[0].sym, *item, names->at[0].at) || true;
    Values parts = {0};
    bool ok = value_items(e, at, item, &parts);
    if (ok && parts.n != names->n) {
        elab_error(e, DIAG_unpack, at, "%u names for %u values", names->n, parts.n);
        ok = false;
    }
    for (uint32_t i = 0; i < names->n; i++)
        scope_declare(e, env, names->at[i].sym, ok ? parts.at[i] : v_poison(), names->at[i].at);
    return ok;
}

static bool comp_clause(Elab *e, const Env *env, const AstExpr *x, uint32_t k, Values *out)
{
    if (k == x->clauses.n) {
        bool keep = true;
        if (x->c && !eval_bool(e, env, x->c, &keep, "filter a list"))
            return false;
        if (keep) {
            Value v = eval(e, env, x->a);
            vec_push(e->a, out, v);
            return !is_poison(&v);
        }
        return true;
    }
    const AstClause *c = &x->clauses.at[k];
    Value list = eval(e, env, c->list);
    Values items = {0};
    if (!value_items(e, c->list->at, &list, &items))
        return false;
    bool ok = true;
    for (uint32_t i = 0; i < items.n && ok; i++) {
        if (!count_step(e, c->list->at))
            return false;
        Env inner = *env;
        inner.scope = scope_push(e, env->scope);
        inner.body = false;
        ok = bind_names(e, &inner, &c->names, &items.at[i], c->list->at) &&
             comp_clause(e, &inner, x, k + 1, out);
    }
    return ok;
}

/* ---- fields ---- */

static Value shape_list(Elab *e, const Value *tensor)
{
    Value v[MAX_RANK];
    const uint32_t rank = value_type(e, tensor)->rank;
    for (uint32_t i = 0; i < rank; i++)
        v[i] = written_axis(e, tensor, i);
    return v_list(e, v, rank);
}

static Value transposed(Elab *e, const Value *base, Span at, bool last_two)
{
    Val x = use_val(e, base);
    const TypeInfo *t = type_at(e, x);
    if (last_two ? t->rank < 2 : t->rank != 2) {
        elab_error(e, DIAG_bad_axis, at,
                   last_two ? ".mT wants at least 2 axes, not %s"
                            : ".T wants 2 axes, not %s; .mT swaps the last two",
                   val_shape_str(e, x));
        return v_poison();
    }
    int64_t perm[MAX_RANK];
    for (uint32_t i = 0; i < t->rank; i++)
        perm[i] = i;
    perm[t->rank - 1] = t->rank - 2;
    perm[t->rank - 2] = t->rank - 1;
    return v_tensor(e, build_transpose(&e->b, x, perm));
}

static bool tensor_field(Elab *e, const Value *base, const char *name, Span at, Value *out)
{
    const TypeInfo *t = value_type(e, base);
    if (strcmp(name, "T") == 0 || strcmp(name, "mT") == 0)
        *out = transposed(e, base, at, name[0] == 'm');
    else if (strcmp(name, "shape") == 0)
        *out = shape_list(e, base);
    else if (strcmp(name, "ndim") == 0)
        *out = v_int(t->rank);
    else if (strcmp(name, "numel") == 0)
        *out = v_dim(e, dim_product(e->dims, t->shape, t->rank));
    else if (strcmp(name, "dtype") == 0)
        *out = v_dtype(t->dtype);
    else if (strcmp(name, "device") == 0)
        *out = device_value(e, t->place);
    else
        return false;
    return true;
}

static bool info_field(Elab *e, const State *s, const char *name, Value *out)
{
    Value sizes[MAX_RANK];
    for (uint32_t i = 0; i < s->type.rank; i++)
        sizes[i] = v_dim(e, s->type.shape[i]);
    if (strcmp(name, "name") == 0)
        *out = v_string(sym(e, s->name));
    else if (strcmp(name, "shape") == 0)
        *out = v_list(e, sizes, s->type.rank);
    else if (strcmp(name, "ndim") == 0)
        *out = v_int(s->type.rank);
    else if (strcmp(name, "dtype") == 0)
        *out = v_dtype(s->type.dtype);
    else
        return false;
    return true;
}

static bool instance_field(Elab *e, const Value *base, Sym name, Span at, Value *out)
{
    Member *m = member_find_as(base->inst, name);
    if (!m)
        m = member_find(base->inst, name);
    if (!m)
        return false;
    *out = member_value(e, base->inst, m, at);
    return true;
}

static bool file_field(Elab *e, const Value *base, Sym name, Value *out)
{
    Global *g = file_find(base->file, name);
    if (g)
        *out = global_value(e, base->file, g);
    return g != NULL;
}

static bool list_field(const Value *base, Sym name, Value *out)
{
    const List *l = base->list;
    for (uint32_t i = 0; l->names && i < l->n; i++)
        if (sym_eq(l->names[i], name)) {
            *out = l->at[i];
            return true;
        }
    return false;
}

static void suggest_field(Elab *e, Diag *d, const Value *base, Sym name, Span at)
{
    if (base->kind == V_file && hint_note(e->diags, d, HINT_member, sym(e, name)))
        return;
    VEC(const char *) words = {0};
    if (base->kind == V_instance)
        for (uint32_t i = 0; i < base->inst->members.n; i++)
            vec_push(e->a, &words, sym(e, base->inst->members.at[i].name));
    else if (base->kind == V_file)
        for (uint32_t i = 0; i < base->file->globals.n; i++)
            vec_push(e->a, &words, sym(e, base->file->globals.at[i].name));
    else if (base->kind == V_list)
        for (uint32_t i = 0; base->list->names && i < base->list->n; i++)
            vec_push(e->a, &words, sym(e, base->list->names[i]));
    const char *near = diag_nearest(sym(e, name), words.at, (int)words.n);
    if (near) {
        diag_note(e->diags, d, (Span){0}, "did you mean '%s'?", near);
        diag_fix(e->diags, d, at, "%s", near);
    }
}

Value value_field(Elab *e, const Env *env, const Value *base, Sym name, Span at, Span name_at)
{
    (void)env;
    (void)at;
    Value out;
    const char *text = sym(e, name);
    switch (base->kind) {
    case V_poison:
        return v_poison();
    case V_tensor:
        if (tensor_field(e, base, text, name_at, &out))
            return out;
        break;
    case V_info:
        if (info_field(e, base->state, text, &out))
            return out;
        break;
    case V_instance:
        if (instance_field(e, base, name, name_at, &out))
            return out;
        break;
    case V_file:
        if (file_field(e, base, name, &out))
            return out;
        break;
    case V_list:
        if (list_field(base, name, &out))
            return out;
        break;
    default:
        break;
    }
    const char *library = library_function(e, name_at);
    Diag *d;
    if (library && base->kind != V_tensor && base->kind != V_instance && base->kind != V_file) {
        elab_error(e, DIAG_bad_type, name_at, "%s wants a tensor, not %s", library, a_kind(base));
        return v_poison();
    }
    if (base->kind == V_instance || base->kind == V_file)
        d = elab_error(e, DIAG_unknown_name, name_at, "%s has no '%s'",
                       base->kind == V_file ? base->file->path : value_text(e, base), text);
    else
        d = elab_error(e, DIAG_unknown_name, name_at, "%s has no field '%s'", a_kind(base), text);
    suggest_field(e, d, base, name, name_at);
    return v_poison();
}

/* ---- calls ---- */

static bool eval_args(Elab *e, const Env *env, const AstArgs *in, Args *out)
{
    bool ok = true;
    for (uint32_t i = 0; i < in->n; i++) {
        const AstArg *a = &in->at[i];
        if (a->value->kind == EX_splat) {
            Values items = {0};
            ok &= append_splat(e, env, a->value, &items);
            for (uint32_t k = 0; k < items.n; k++)
                vec_push(e->a, out, ((Arg){.value = items.at[k], .at = a->value->at}));
            continue;
        }
        Value v = eval(e, env, a->value);
        ok &= !is_poison(&v);
        vec_push(e->a, out, ((Arg){.name = a->name, .value = v, .at = a->value->at}));
    }
    return ok;
}

static Value move_to(Elab *e, const Value *base, const Args *args, Span at)
{
    if (args->n != 1) {
        elab_error(e, DIAG_bad_call, at, ".to takes one argument: a dtype, a device or a tensor");
        return v_poison();
    }
    if (base->kind == V_list) {
        Values out = {0};
        for (uint32_t i = 0; i < base->list->n; i++) {
            Value v = move_to(e, &base->list->at[i], args, at);
            if (is_poison(&v))
                return v;
            vec_push(e->a, &out, v);
        }
        return v_list(e, out.at, out.n);
    }
    if (base->kind == V_tensor && args->at[0].value.kind == V_device) {
        Place place;
        if (!place_of(e, args->at[0].at, &args->at[0].value, ".to", &place))
            return v_poison();
        return v_tensor(e, build_at_place(&e->b, use_val(e, base), place));
    }
    if (base->kind != V_instance)
        return *base;
    return instance_to(e, base->inst, &args->at[0].value, at);
}

/* `x.f(a)` on a tensor or number: f of the file or the prelude. */
static Value call_method(Elab *e, const Env *env, const AstExpr *x, const Value *base, Args *rest)
{
    Sym name = x->a->name;
    Env outside = {.file = env->file};
    Args args = {0};
    vec_push(e->a, &args, ((Arg){.value = *base, .at = x->a->a->at}));
    for (uint32_t i = 0; i < rest->n; i++)
        vec_push(e->a, &args, rest->at[i]);
    Value f = lookup(e, &outside, name, x->a->op_at);
    if (is_poison(&f))
        return f;
    return call_value(e, env, &f, &args, x->at, x->a->op_at);
}

static Value eval_call(Elab *e, const Env *env, const AstExpr *x)
{
    Args args = {0};
    const AstExpr *callee = x->a;
    if (callee->kind == EX_field) {
        Value base = eval(e, env, callee->a);
        bool ok = eval_args(e, env, &x->args, &args);
        if (!ok && (base.kind == V_instance || base.kind == V_file))
            value_field(e, env, &base, callee->name, callee->at, callee->op_at); /* reports */
        if (is_poison(&base) || !ok)
            return v_poison();
        if (base.kind == V_tensor || is_number(&base))
            return call_method(e, env, x, &base, &args);
        bool moves = sym_eq(callee->name, e->word.to) &&
                     (base.kind == V_list ||
                      (base.kind == V_instance && !member_find(base.inst, callee->name)));
        if (moves)
            return move_to(e, &base, &args, x->at);
        Value f = value_field(e, env, &base, callee->name, callee->at, callee->op_at);
        return call_value(e, env, &f, &args, x->at, callee->op_at);
    }
    Value f = eval(e, env, callee);
    if (!eval_args(e, env, &x->args, &args))
        return v_poison();
    return call_value(e, env, &f, &args, x->at, callee->at);
}

/* ---- */

static Value eval_fn(Elab *e, const Env *env, const AstExpr *x)
{
    Fn *fn = arena_new(e->a, Fn);
    *fn = (Fn){.ast = x->fn,
               .file = env->file,
               .inst = env->inst,
               .scope = scope_capture(e, env->scope),
               .models = env->models};
    return (Value){.kind = V_fn, .fn = fn};
}

static Value eval_unary(Elab *e, const Env *env, const AstExpr *x)
{
    if (x->op == AST_not) {
        bool b;
        return eval_bool(e, env, x->a, &b, "be an operand of and, or, not") ? v_bool(!b)
                                                                            : v_poison();
    }
    Value a = eval(e, env, x->a), out;
    unary_op(e, x->op, x->op_at, &a, &out);
    return out;
}

static Value eval_binary(Elab *e, const Env *env, const AstExpr *x)
{
    if (x->op == AST_and || x->op == AST_or)
        return eval_logic(e, env, x);
    Value a = eval(e, env, x->a), b = eval(e, env, x->b), out;
    binary_op(e, x->op, x->op_at, &a, x->a->at, &b, x->b->at, &out);
    return out;
}

static Value eval_cond(Elab *e, const Env *env, const AstExpr *x)
{
    bool c;
    if (!eval_bool(e, env, x->c, &c, "choose a branch"))
        return v_poison();
    return eval(e, env, c ? x->a : x->b);
}

enum { MAX_NESTING = 6000 }; /* of expressions, through calls: keeps the C stack bounded */

static Value eval_kind(Elab *e, const Env *env, const AstExpr *x);

Value eval(Elab *e, const Env *env, const AstExpr *x)
{
    if (e->nesting >= MAX_NESTING) {
        elab_error(e, DIAG_recursion, x->at, "expressions and calls are nested too deeply");
        return v_poison();
    }
    e->nesting++;
    Span outer = e->b.site.at;
    if (x->at.file && !source_file(e->cx->sources, x->at.file)->is_std)
        e->b.site.at = x->op_at.file ? x->op_at : x->at;
    Value v = eval_kind(e, env, x);
    e->b.site.at = outer;
    e->nesting--;
    return v;
}

/* `cell.state` is the name of a size where it is written. */
static Value written_member(Elab *e, const AstExpr *x, const Value *base, Value v)
{
    if ((v.kind != V_int && v.kind != V_size) || x->a->kind != EX_name || base->kind == V_tensor)
        return v;
    const char *name = arena_printf(e->a, "%s.%s", sym(e, x->a->name), sym(e, x->name));
    return written_name(e, v, sym_new(e, name), written_scope(e));
}

/* And so is `sizes[0]` or `sizes[i]`. */
static Value written_element(Elab *e, const AstExpr *x, Value v)
{
    const AstExpr *item = x->items.n == 1 ? x->items.at[0] : NULL;
    if ((v.kind != V_int && v.kind != V_size) || x->a->kind != EX_name || !item ||
        (item->kind != EX_int && item->kind != EX_name))
        return v;
    StrBuf name = {.a = e->a};
    ast_write_expr(&name, e->names, x);
    return written_name(e, v, sym_new(e, sb_text(&name)), written_scope(e));
}

static Value eval_kind(Elab *e, const Env *env, const AstExpr *x)
{
    Value v = v_poison();
    switch (x->kind) {
    case EX_error:
        break;
    case EX_name:
        v = lookup(e, env, x->name, x->at);
        break;
    case EX_int:
        v = v_int(x->i);
        break;
    case EX_float:
        v = v_float(x->f);
        break;
    case EX_string:
        v = v_string(x->text);
        break;
    case EX_bool:
        v = v_bool(x->i != 0);
        break;
    case EX_none:
        v = v_none();
        break;
    case EX_device:
        v = (Value){.kind = V_device, .i = x->i};
        break;
    case EX_dtype:
        v = v_dtype(dtype_named(e, sym(e, x->name)));
        break;
    case EX_unary:
        v = eval_unary(e, env, x);
        break;
    case EX_binary:
        v = eval_binary(e, env, x);
        break;
    case EX_cond:
        v = eval_cond(e, env, x);
        break;
    case EX_list:
        v = eval_list(e, env, x);
        break;
    case EX_comp: {
        Values out = {0};
        if (comp_clause(e, env, x, 0, &out))
            v = v_list(e, out.at, out.n);
        break;
    }
    case EX_call:
        v = eval_call(e, env, x);
        break;
    case EX_index: {
        Value base = eval(e, env, x->a);
        v = eval_index(e, env, x, &base);
        if (base.kind == V_list)
            v = written_element(e, x, v);
        break;
    }
    case EX_field: {
        Value base = eval(e, env, x->a);
        v = value_field(e, env, &base, x->name, x->at, x->op_at);
        v = written_member(e, x, &base, v);
        break;
    }
    case EX_fn:
        v = eval_fn(e, env, x);
        break;
    case EX_slice:
    case EX_ellipsis:
    case EX_splat:
        elab_error(e, DIAG_misplaced, x->at, "this stands only in an index, a list or a call");
        break;
    }
    return v;
}
