/* elab_type.c: tensor types of the language against actual tensors: sizes are bound, then checked.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <string.h>

/* ---- dtypes ---- */

DType dtype_named(const Elab *e, const char *name)
{
    DType t = dtype_parse(name);
    return e->as_f64 && dtype_is_float(t) ? DT_f64 : t;
}

bool dtype_fits(Elab *e, const Env *env, const AstType *t, DType got, const char **wanted)
{
    if (!t->name.sym.id) {
        *wanted = "a float type";
        return dtype_is_float(got);
    }
    const char *name = sym(e, t->name.sym);
    *wanted = name;
    if (t->is_dtype)
        return dtype_named(e, name) == got;
    if (strcmp(name, "int") == 0) {
        *wanted = "an integer type";
        return dtype_is_int(got);
    }
    if (strcmp(name, "float") == 0)
        return dtype_is_float(got);
    Value v = lookup(e, env, t->name.sym, t->name.at);
    if (v.kind != V_dtype) {
        if (!is_poison(&v))
            elab_error(e, DIAG_bad_type, t->name.at, "'%s' is no dtype but %s", name,
                       value_kind(&v));
        return true;
    }
    *wanted = dtype_name(v.dtype);
    return v.dtype == got;
}

/* The dtype of a param, buffer or argument of this type. */
static DType declared_dtype(Elab *e, const Env *env, const AstType *t)
{
    if (!t->name.sym.id)
        return e->float_type;
    const char *name = sym(e, t->name.sym);
    if (t->is_dtype)
        return dtype_named(e, name);
    if (strcmp(name, "int") == 0)
        return DT_i64;
    if (strcmp(name, "float") == 0)
        return e->float_type;
    Value v = lookup(e, env, t->name.sym, t->name.at);
    if (v.kind == V_dtype)
        return v.dtype;
    if (!is_poison(&v))
        elab_error(e, DIAG_bad_type, t->name.at, "'%s' is no dtype", name);
    return e->float_type;
}

static void check_place(Elab *e, const Env *env, const AstType *t)
{
    if (!t->on)
        return;
    Value v = eval(e, env, t->on);
    if (v.kind == V_device && v.i > 0)
        elab_unsupported(e, t->on->at, "a second device");
    else if (v.kind != V_device && !is_poison(&v))
        elab_error(e, DIAG_bad_type, t->on->at, "'on' wants a device, not a %s", value_kind(&v));
}

/* ---- shapes ---- */

/* An axis as written: one size, or several (an ellipsis or a spread list). */
typedef enum { AXIS_one, AXIS_any, AXIS_known, AXIS_rest } AxisKind;
typedef struct {
    AxisKind kind;
    const AstExpr *x;
    Dim dim;  /* AXIS_known: an element of a known list */
    Sym name; /* AXIS_rest: what it is bound to, {0}: nothing */
} Axis;
typedef VEC(Axis) Axes;

static const SizeBinding *find_size(const Sizes *sizes, Sym name)
{
    for (uint32_t i = 0; i < sizes->n; i++)
        if (sym_eq(sizes->at[i].name, name))
            return &sizes->at[i];
    return NULL;
}

static bool known_name(Elab *e, const Env *env, const Sizes *sizes, Sym name, Value *v)
{
    const SizeBinding *b = find_size(sizes, name);
    if (b) {
        *v = b->value;
        return true;
    }
    return lookup_user(e, env, name, v);
}

static bool add_list(Elab *e, const Value *v, const AstExpr *x, Axes *out)
{
    if (v->kind != V_list) {
        if (!is_poison(v))
            elab_error(e, DIAG_bad_type, x->at, "'*' in a type wants a list of sizes, not a %s",
                       value_kind(v));
        return false;
    }
    for (uint32_t i = 0; i < v->list->n; i++) {
        Axis a = {.kind = AXIS_known, .x = x};
        if (!value_dim(e, &v->list->at[i], &a.dim)) {
            elab_error(e, DIAG_bad_type, x->at, "a size must be an int, not a %s",
                       value_kind(&v->list->at[i]));
            return false;
        }
        vec_push(e->a, out, a);
    }
    return true;
}

static bool splat_axes(Elab *e, const Env *env, const AstExpr *x, const Sizes *sizes, Axes *out)
{
    Value v;
    if (x->a->kind == EX_name) {
        Sym name = x->a->name;
        if (sym_eq(name, e->word.underscore)) {
            vec_push(e->a, out, ((Axis){.kind = AXIS_rest, .x = x}));
            return true;
        }
        if (!known_name(e, env, sizes, name, &v)) {
            vec_push(e->a, out, ((Axis){.kind = AXIS_rest, .x = x, .name = name}));
            return true;
        }
    } else {
        v = eval(e, env, x->a);
    }
    return add_list(e, &v, x, out);
}

/* The axes as written; at most one AXIS_rest is left. */
static bool written_axes(Elab *e, const Env *env, const AstType *t, const Sizes *sizes, Axes *out)
{
    uint32_t rests = 0;
    for (uint32_t i = 0; i < t->dims.n; i++) {
        const AstExpr *x = t->dims.at[i];
        if (x->kind == EX_ellipsis) {
            const SizeBinding *b = find_size(sizes, e->word.ellipsis);
            Value v;
            if (b)
                v = b->value;
            else if (scope_find(env->scope, e->word.ellipsis))
                v = scope_find(env->scope, e->word.ellipsis)->value;
            else {
                vec_push(e->a, out, ((Axis){.kind = AXIS_rest, .x = x, .name = e->word.ellipsis}));
                rests++;
                continue;
            }
            if (!add_list(e, &v, x, out))
                return false;
        } else if (x->kind == EX_splat) {
            uint32_t before = out->n;
            if (!splat_axes(e, env, x, sizes, out))
                return false;
            rests += out->n > before && vec_last(out).kind == AXIS_rest;
        } else if (x->kind == EX_error) {
            return false;
        } else {
            bool any = x->kind == EX_name && sym_eq(x->name, e->word.underscore);
            vec_push(e->a, out, ((Axis){.kind = any ? AXIS_any : AXIS_one, .x = x}));
        }
    }
    if (rests > 1) {
        elab_error(e, DIAG_unknown_size, t->at, "two parts of unknown length in one shape");
        return false;
    }
    return true;
}

static const char *written_type(Elab *e, const AstType *t)
{
    StrBuf b = {.a = e->a};
    ast_write_type(&b, e->names, t);
    return sb_text(&b);
}

static bool is_size_name(Elab *e, Sym name)
{
    const char *s = sym(e, name);
    return s[0] >= 'A' && s[0] <= 'Z';
}

static void type_error(Elab *e, const AstType *t, const char *what, Span at, Val v, const char *why)
{
    const TypeInfo *info = type_at(e, v);
    Diag *d = elab_error(e, DIAG_shape_mismatch, at, "%s is %s, wanted %s%s", what,
                         shape_str(e, info->shape, info->rank), written_type(e, t), why);
    elab_note(e, d, t->at, "declared here");
}

/* Walks the axes along the actual shape; `one` is called with each single axis. */
typedef bool AxisFn(Elab *e, const Env *env, const Axis *axis, Dim actual, void *ctx);

static bool match_axes(Elab *e, const Env *env, const AstType *t, const char *what, Span at, Val v,
                       Sizes *bind, const Sizes *sizes, AxisFn *one, void *ctx)
{
    Axes axes = {0};
    if (!written_axes(e, env, t, sizes, &axes))
        return false;
    TypeInfo info = *type_at(e, v);
    bool rest = false;
    for (uint32_t i = 0; i < axes.n; i++)
        rest |= axes.at[i].kind == AXIS_rest;
    uint32_t fixed = axes.n - rest;
    if (rest ? info.rank < fixed : info.rank != fixed) {
        type_error(e, t, what, at, v, "");
        return false;
    }
    uint32_t k = 0;
    for (uint32_t i = 0; i < axes.n; i++) {
        const Axis *a = &axes.at[i];
        if (a->kind != AXIS_rest) {
            if (!one(e, env, a, info.shape[k++], ctx))
                return false;
            continue;
        }
        Value sizes_here[MAX_RANK];
        uint32_t n = info.rank - fixed;
        for (uint32_t j = 0; j < n; j++)
            sizes_here[j] = v_dim(e, info.shape[k++]);
        if (bind && a->name.id)
            vec_push(e->a, bind,
                     ((SizeBinding){
                         .name = a->name, .value = v_list(e, sizes_here, n), .at = a->x->at}));
    }
    return true;
}

/* ---- binding ---- */

typedef struct {
    Sizes *sizes;
    bool new_names;
} BindCtx;

static bool bind_axis(Elab *e, const Env *env, const Axis *axis, Dim actual, void *ctx)
{
    BindCtx *b = ctx;
    if (axis->kind != AXIS_one || axis->x->kind != EX_name)
        return true;
    Sym name = axis->x->name;
    Value v;
    if (known_name(e, env, b->sizes, name, &v))
        return true;
    if (!b->new_names || !is_size_name(e, name)) {
        Diag *d = elab_error(e, DIAG_unknown_size, axis->x->at, "unknown name '%s' in a type",
                             sym(e, name));
        diag_note(e->diags, d, (Span){0}, "%s",
                  b->new_names
                      ? "a size that the type introduces begins with a capital"
                      : "a result's sizes must be known from the arguments; '_' is any size");
        return false;
    }
    vec_push(e->a, b->sizes,
             ((SizeBinding){.name = name, .value = v_dim(e, actual), .at = axis->x->at}));
    return true;
}

bool type_bind(Elab *e, const Env *env, const AstType *t, const char *what, Span at, Val v,
               Sizes *sizes, bool new_names)
{
    const char *wanted;
    DType got = type_at(e, v)->dtype;
    if (!dtype_fits(e, env, t, got, &wanted)) {
        Diag *d = elab_error(e, DIAG_dtype_mismatch, at, "%s is %s, wanted %s", what,
                             dtype_name(got), wanted);
        elab_note(e, d, t->at, "declared here");
        return false;
    }
    BindCtx ctx = {sizes, new_names};
    return match_axes(e, env, t, what, at, v, new_names ? sizes : NULL, sizes, bind_axis, &ctx);
}

/* ---- checking ---- */

typedef struct {
    const AstType *type;
    const char *what;
    Span at;
    Val v;
    const Sizes *sizes;
} CheckCtx;

static bool axis_size(Elab *e, const Env *env, const Axis *axis, const Sizes *sizes, Dim *out)
{
    if (axis->kind == AXIS_known) {
        *out = axis->dim;
        return true;
    }
    Value v;
    if (axis->x->kind != EX_name || !known_name(e, env, sizes, axis->x->name, &v))
        v = eval(e, env, axis->x);
    if (is_poison(&v))
        return false;
    if (value_dim(e, &v, out))
        return true;
    elab_error(e, DIAG_bad_type, axis->x->at, "a size must be an int, not a %s (%s)",
               value_kind(&v), value_text(e, &v));
    return false;
}

static bool check_axis(Elab *e, const Env *env, const Axis *axis, Dim actual, void *ctx)
{
    const CheckCtx *c = ctx;
    Dim want;
    if (axis->kind == AXIS_any)
        return true;
    if (!axis_size(e, env, axis, c->sizes, &want))
        return false;
    if (prove_equal(e, c->at, want, actual))
        return true;
    const TypeInfo *info = type_at(e, c->v);
    Diag *d = elab_error(e, DIAG_sizes_differ, c->at, "%s is %s, wanted %s: %s is not %s", c->what,
                         shape_str(e, info->shape, info->rank), written_type(e, c->type),
                         dim_str(e, actual), dim_str(e, want));
    elab_note(e, d, c->type->at, "declared here");
    int64_t x, y;
    if (!dim_is_const(e->dims, want, &x) || !dim_is_const(e->dims, actual, &y))
        diag_note(e->diags, d, (Span){0}, "if they are always equal, say so first: assert %s == %s",
                  dim_str(e, actual), dim_str(e, want));
    return false;
}

bool type_check(Elab *e, const Env *env, const AstType *t, const char *what, Span at, Val v,
                const Sizes *sizes)
{
    check_place(e, env, t);
    CheckCtx ctx = {t, what, at, v, sizes};
    return match_axes(e, env, t, what, at, v, NULL, sizes, check_axis, &ctx);
}

/* ---- declared types ---- */

bool type_eval(Elab *e, const Env *env, const AstType *t, TypeInfo *out)
{
    Sizes none = {0};
    Axes axes = {0};
    *out = (TypeInfo){0};
    if (t->kind != TYPE_tensor) {
        if (t->kind == TYPE_word && t->is_dtype) {
            elab_error(e, DIAG_bad_type, t->at, "a tensor type has a shape: write %s[]",
                       sym(e, t->name.sym));
        } else if (t->kind == TYPE_word) {
            elab_error(e, DIAG_bad_type, t->at, "a tensor type is needed here");
        }
        return false;
    }
    check_place(e, env, t);
    out->dtype = declared_dtype(e, env, t);
    if (!written_axes(e, env, t, &none, &axes))
        return false;
    if (axes.n > MAX_RANK) {
        elab_error(e, DIAG_bad_axis, t->at, "a tensor has at most %d axes", MAX_RANK);
        return false;
    }
    out->rank = (uint8_t)axes.n;
    for (uint32_t i = 0; i < axes.n; i++) {
        const Axis *a = &axes.at[i];
        if (a->kind == AXIS_rest || a->kind == AXIS_any) {
            elab_error(e, DIAG_unknown_size, a->x->at, "every size must be known here");
            return false;
        }
        if (!axis_size(e, env, a, &none, &out->shape[i]))
            return false;
        int64_t c;
        if (dim_is_const(e->dims, out->shape[i], &c) && c < 0) {
            elab_error(e, DIAG_bad_number, a->x->at, "a size cannot be negative (%lld)",
                       (long long)c);
            return false;
        }
    }
    return true;
}

/* ---- initial values ---- */

static bool shape_matches(Elab *e, Span at, const TypeInfo *got, const TypeInfo *type)
{
    bool same = got->rank == type->rank;
    for (uint32_t i = 0; same && i < got->rank; i++)
        same = prove_equal(e, at, got->shape[i], type->shape[i]);
    return same;
}

bool initial_value(Elab *e, const Value *init, const TypeInfo *type, Span at, Val *out)
{
    Value v = *init;
    if (is_callable(&v)) {
        Value sizes[MAX_RANK];
        for (uint32_t i = 0; i < type->rank; i++)
            sizes[i] = v_dim(e, type->shape[i]);
        v = call1(e, &v, v_list(e, sizes, type->rank), at);
    }
    switch (v.kind) {
    case V_poison:
        return false;
    case V_int:
    case V_float:
    case V_bool:
        *out = build_full(&e->b, type->dtype, v.kind == V_float ? v.f : (double)v.i, type->shape,
                          type->rank);
        return true;
    case V_late:
        *out = build_broadcast_to(&e->b, val_as(e, &v, type->dtype), type->shape, type->rank);
        return true;
    case V_tensor: {
        Val x = use_val(e, &v);
        const TypeInfo *got = type_at(e, x);
        if (!shape_matches(e, at, got, type)) {
            elab_error(e, DIAG_shape_mismatch, at, "the initial value is %s, wanted %s",
                       shape_str(e, got->shape, got->rank), shape_str(e, type->shape, type->rank));
            return false;
        }
        *out = build_cast(&e->b, x, type->dtype);
        return true;
    }
    default:
        elab_error(e, DIAG_bad_type, at,
                   "an initial value is a number, a tensor or a function of the shape, not a %s",
                   value_kind(&v));
        return false;
    }
}
