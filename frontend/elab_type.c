/* elab_type.c: tensor types of the language against actual tensors: sizes are bound, then checked.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab_program.h"

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

/* The device that a type names; where it names none, `otherwise`. */
static Place written_place(Elab *e, const Env *env, const AstType *t, Place otherwise)
{
    Place place;
    if (!t->on)
        return otherwise;
    const Value v = eval(e, env, t->on);
    return place_of(e, t->on->at, &v, "'on'", &place) ? place : otherwise;
}

/* ---- shapes ---- */

/* An axis as written: one size, or several (an ellipsis or a spread list). */
typedef enum { AXIS_one, AXIS_any, AXIS_known, AXIS_rest } AxisKind;
typedef struct {
    AxisKind kind;
    const AstExpr *x;
    Value size; /* AXIS_known: an element of a known list */
    Sym name;   /* AXIS_rest: what it is bound to, {0}: nothing */
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
        *v = written_name(e, b->value, name, written_scope(e));
        return true;
    }
    return lookup_user(e, env, name, v);
}

static bool add_list(Elab *e, const Value *v, const AstExpr *x, Axes *out)
{
    if (v->kind != V_list) {
        if (!is_poison(v))
            elab_error(e, DIAG_bad_type, x->at, "'*' in a type wants a list of sizes, not %s",
                       a_kind(v));
        return false;
    }
    for (uint32_t i = 0; i < v->list->n; i++) {
        const Axis a = {.kind = AXIS_known, .x = x, .size = v->list->at[i]};
        Dim d;
        if (!value_dim(e, &a.size, &d)) {
            elab_error(e, DIAG_bad_type, x->at, "a size must be an int, not %s",
                       a_kind(&v->list->at[i]));
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

bool is_size_name(Elab *e, Sym name)
{
    const char *s = sym(e, name);
    return s[0] >= 'A' && s[0] <= 'Z';
}

static bool axis_size(Elab *e, const Env *env, const Axis *axis, const Sizes *sizes, Value *out)
{
    Dim d;
    *out = axis->size;
    if (axis->kind == AXIS_known)
        return true;
    if (axis->x->kind != EX_name)
        *out = eval(e, env, axis->x);
    else if (!known_name(e, env, sizes, axis->x->name, out))
        *out = lookup_noted(e, env, axis->x->name, axis->x->at,
                            is_size_name(e, axis->x->name)
                                ? NULL
                                : "a size that the call brings begins with a capital letter");
    if (is_poison(out))
        return false;
    if (value_dim(e, out, &d))
        return true;
    elab_error(e, DIAG_bad_type, axis->x->at, "a size must be an int, not %s (%s)", a_kind(out),
               value_text(e, out));
    return false;
}

/* Arithmetic on names that have values. */
static bool is_known(Elab *e, const Env *env, const Sizes *sizes, const AstExpr *x)
{
    Value v;
    switch (x->kind) {
    case EX_int:
        return true;
    case EX_name:
        return known_name(e, env, sizes, x->name, &v) && !is_poison(&v);
    case EX_binary:
        return is_known(e, env, sizes, x->a) && is_known(e, env, sizes, x->b);
    default:
        return false;
    }
}

/* An axis of the type that does not fit: in the names of the place that the message is about, but
 * sizes that the signature itself introduces keep their names. */
static void write_wanted(Elab *e, const Env *env, const Axis *axis, const Sizes *sizes, StrBuf *b)
{
    Value v;
    Dim d;
    bool own = false;
    for (uint32_t i = 0; axis->kind == AXIS_one && i < sizes->n; i++)
        own |= expr_uses(axis->x, sizes->at[i].name);
    if (own ||
        (axis->kind == AXIS_one ? !is_known(e, env, sizes, axis->x) : axis->kind != AXIS_known)) {
        ast_write_expr(b, e->names, axis->x);
        return;
    }
    if (axis_size(e, env, axis, sizes, &v) && value_dim(e, &v, &d))
        sb_puts(b, size_str(e, v.how, d));
}

static const char *wanted_type(Elab *e, const Env *env, const AstType *t, const Sizes *sizes)
{
    StrBuf b = {.a = e->a};
    Axes axes = {0};
    if (t->name.sym.id)
        sb_puts(&b, sym(e, t->name.sym));
    sb_putc(&b, '[');
    written_axes(e, env, t, sizes, &axes);
    for (uint32_t i = 0; i < axes.n; i++) {
        if (i)
            sb_puts(&b, ", ");
        write_wanted(e, env, &axes.at[i], sizes, &b);
    }
    sb_putc(&b, ']');
    return sb_text(&b);
}

static void rank_error(Elab *e, const Env *env, const AstType *t, const char *what, Span at, Val v,
                       const Sizes *sizes)
{
    Diag *d = elab_error(e, DIAG_shape_mismatch, at, "%s is %s, wanted %s", what,
                         val_shape_str(e, v), wanted_type(e, env, t, sizes));
    elab_note(e, d, t->at, "declared here");
}

/* Walks the axes along the actual shape; `one` is called with each single axis k. */
typedef bool AxisFn(Elab *e, const Env *env, const Axis *axis, uint32_t k, Dim actual, void *ctx);

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
        rank_error(e, env, t, what, at, v, sizes);
        return false;
    }
    uint32_t k = 0;
    for (uint32_t i = 0; i < axes.n; i++) {
        const Axis *a = &axes.at[i];
        if (a->kind != AXIS_rest) {
            if (!one(e, env, a, k, info.shape[k], ctx))
                return false;
            k++;
            continue;
        }
        Value sizes_here[MAX_RANK];
        uint32_t n = info.rank - fixed;
        const Value tensor = v_tensor(e, v);
        for (uint32_t j = 0; j < n; j++)
            sizes_here[j] = written_axis(e, &tensor, k++);
        if (bind && a->name.id)
            vec_push(e->a, bind,
                     ((SizeBinding){
                         .name = a->name, .value = v_list(e, sizes_here, n), .at = a->x->at}));
    }
    return true;
}

/* ---- binding ---- */

typedef struct {
    Val v;
    Sizes *sizes;
    bool new_names;
} BindCtx;

static bool bind_axis(Elab *e, const Env *env, const Axis *axis, uint32_t k, Dim actual, void *ctx)
{
    (void)actual;
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
    const Value tensor = v_tensor(e, b->v), size = written_axis(e, &tensor, k);
    vec_push(e->a, b->sizes, ((SizeBinding){.name = name, .value = size, .at = axis->x->at}));
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
    BindCtx ctx = {v, sizes, new_names};
    return match_axes(e, env, t, what, at, v, new_names ? sizes : NULL, sizes, bind_axis, &ctx);
}

/* ---- checking ---- */

typedef struct {
    const AstType *type;
    const char *what;
    Span at;
    Val v;
    const Sizes *sizes;
    const Written *how[MAX_RANK]; /* of the axes so far */
} CheckCtx;

static bool check_axis(Elab *e, const Env *env, const Axis *axis, uint32_t k, Dim actual, void *ctx)
{
    CheckCtx *c = ctx;
    Dim want;
    Value size;
    if (axis->kind == AXIS_any)
        return true;
    if (!axis_size(e, env, axis, c->sizes, &size))
        return false;
    value_dim(e, &size, &want);
    if (prove_equal(e, c->at, want, actual)) {
        c->how[k] = size.how;
        return true;
    }
    const Shape is = written_shape(e, c->v);
    const SizePair pair = {NULL, is.how[k], size.how, actual, want};
    const char *shape = shape_str(e, &is), *wanted = wanted_type(e, env, c->type, c->sizes);
    const char *x = size_str(e, is.how[k], actual), *y = size_str(e, size.how, want);
    if (strcmp(x, y) == 0) { /* one name in two places */
        x = dim_str(e, actual);
        y = dim_str(e, want);
    }
    Diag *d = sizes_error(e, DIAG_sizes_differ, c->at, &pair, "%s is %s, wanted %s: %s is not %s",
                          c->what, shape, wanted, x, y);
    elab_note(e, d, c->type->at, "declared here");
    int64_t n;
    if (!dim_is_const(e->dims, want, &n) || !dim_is_const(e->dims, actual, &n))
        diag_note(e->diags, d, (Span){0}, "if they are always equal, say so first: assert %s == %s",
                  x, y);
    return false;
}

bool type_check(Elab *e, const Env *env, const AstType *t, const char *what, Span at, Val v,
                const Sizes *sizes)
{
    const Place got = type_at(e, v)->place;
    const Place want = written_place(e, env, t, got);
    if (graph_node(e->b.g, v)->loose != LOOSE_CONSTANT && !check_same_place(e, at, what, got, want))
        return false;
    CheckCtx ctx = {.type = t, .what = what, .at = at, .v = v, .sizes = sizes};
    if (!match_axes(e, env, t, what, at, v, NULL, sizes, check_axis, &ctx))
        return false;
    written_set(e, v, ctx.how, type_at(e, v)->rank);
    return true;
}

/* ---- declared types ---- */

bool type_eval(Elab *e, const Env *env, const AstType *t, TypeInfo *out, const Written **how)
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
    out->place = written_place(e, env, t, e->b.place);
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
        Value size;
        if (!axis_size(e, env, a, &none, &size))
            return false;
        if (size.kind == V_int && size.i < 0) {
            elab_error(e, DIAG_bad_number, a->x->at, "a size cannot be negative (%lld)",
                       (long long)size.i);
            return false;
        }
        value_dim(e, &size, &out->shape[i]);
        if (how)
            how[i] = size.how;
    }
    Shape s = {.rank = out->rank};
    memcpy(s.at, out->shape, sizeof s.at);
    if (how)
        memcpy(s.how, how, out->rank * sizeof *how);
    return check_extent(e, t->at, &s);
}

/* ---- initial values ---- */

static bool shape_matches(Elab *e, Span at, const TypeInfo *got, const TypeInfo *type)
{
    bool same = got->rank == type->rank;
    for (uint32_t i = 0; same && i < got->rank; i++)
        same = prove_equal(e, at, got->shape[i], type->shape[i]);
    return same;
}

static bool initial_here(Elab *e, const Value *init, const TypeInfo *type,
                         const Written *const *how, Span at, Val *out)
{
    Value v = *init;
    if (is_callable(&v)) {
        Value sizes[MAX_RANK];
        for (uint32_t i = 0; i < type->rank; i++) {
            sizes[i] = v_dim(e, type->shape[i]);
            sizes[i].how = how ? how[i] : NULL;
        }
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
            Shape want = {.rank = type->rank};
            memcpy(want.at, type->shape, sizeof want.at);
            if (how)
                memcpy(want.how, how, type->rank * sizeof *how);
            elab_error(e, DIAG_shape_mismatch, at, "the initial value is %s, wanted %s",
                       val_shape_str(e, x), shape_str(e, &want));
            return false;
        }
        *out = build_cast(&e->b, x, type->dtype);
        return true;
    }
    default: {
        Diag *d =
            elab_error(e, DIAG_bad_type, at,
                       "an initial value is a number, a tensor or a function of the shape, not %s",
                       a_kind(&v));
        if (init->kind == V_fn && is_callable(&v))
            diag_note(e->diags, d, (Span){0}, "%s makes such a function: write %s()",
                      sym(e, init->fn->name), sym(e, init->fn->name));
        return false;
    }
    }
}

bool initial_value(Elab *e, const Value *init, const TypeInfo *type, const Written *const *how,
                   Span at, Val *out)
{
    const Place outer = e->b.place;
    e->b.place = type->place;
    const bool ok = initial_here(e, init, type, how, at, out);
    if (ok)
        *out = build_at_place(&e->b, *out, type->place);
    e->b.place = outer;
    return ok;
}
