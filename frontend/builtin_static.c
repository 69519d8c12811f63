/* builtin_static.c: functions of lists, numbers and modules: what runs while compiling.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <inttypes.h>
#include <string.h>

#define WORD_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

static bool bad_kind(Elab *e, const Call *c, uint32_t i, const char *what)
{
    const Value *v = &c->arg[i];
    if (is_poison(v))
        return false;
    Diag *d = elab_error(e, DIAG_bad_type, c->arg_at[i], "%s wants %s, not %s", c->row->name, what,
                         a_kind(v));
    const bool is_float = strcmp(c->row->name, "float") == 0;
    if (v->kind == V_tensor && (is_float || strcmp(c->row->name, "int") == 0))
        diag_note(e->diags, d, (Span){0}, "a tensor's cast is written 'x.to(%s)'",
                  is_float ? "f32" : "i32");
    else if (v->kind == V_string && is_float)
        diag_note(e->diags, d, (Span){0}, "infinity is written 'inf' or '-inf', no number 'nan'");
    return false;
}

bool builtin_len(Elab *e, const Call *c, Value *out)
{
    const Value *v = &c->arg[0];
    if (v->kind == V_list) {
        *out = v_int(v->list->n);
        return true;
    }
    if (v->kind == V_string) {
        *out = v_int((int64_t)strlen(v->s));
        return true;
    }
    if (v->kind != V_tensor || value_type(e, v)->rank == 0)
        return bad_kind(e, c, 0, "a list");
    *out = v_dim(e, value_type(e, v)->shape[0]);
    return true;
}

bool builtin_range(Elab *e, const Call *c, Value *out)
{
    const List *l = c->arg[0].list;
    int64_t b[3] = {0, 0, 1};
    if (l->n < 1 || l->n > 3) {
        elab_error(e, DIAG_bad_call, c->at, "range takes 1 to 3 ints");
        return false;
    }
    for (uint32_t i = 0; i < l->n; i++) {
        const Value *v = &l->at[i];
        if (v->kind == V_size || v->kind == V_late) {
            Diag *d = elab_error(e, DIAG_not_static, c->arg_at[0],
                                 "range over a size of the run (%s)", value_text(e, v));
            const char *size = v->kind == V_size ? value_text(e, v) : "N";
            if (strspn(size, WORD_LETTERS) != strlen(size))
                size = "N"; /* of a product, say */
            diag_note(e->diags, d, (Span){0},
                      "a `for` is unrolled while compiling: fix the size with -D %s=8 or "
                      "`model m = M() with %s = 8`",
                      size, size);
            diag_note(e->diags, d, (Span){0},
                      "over all elements of an axis without a loop: x.sum(axis = 0), arange(%s)",
                      value_text(e, v));
            return false;
        }
        if (v->kind != V_int)
            return bad_kind(e, c, 0, "ints");
        b[i] = v->i;
    }
    int64_t start = l->n > 1 ? b[0] : 0, stop = l->n > 1 ? b[1] : b[0], step = b[2];
    if (step == 0) {
        elab_error(e, DIAG_bad_number, c->at, "the step of a range cannot be 0");
        return false;
    }
    Values v = {0};
    for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
        if (v.n == 1000000) {
            elab_error(e, DIAG_recursion, c->at, "a range of more than a million elements");
            return false;
        }
        vec_push(e->a, &v, v_int(i));
    }
    *out = v_list(e, v.at, v.n);
    return true;
}

bool builtin_zip(Elab *e, const Call *c, Value *out)
{
    const List *l = c->arg[0].list;
    Values *lists = arena_array(e->a, Values, l->n);
    uint32_t n = UINT32_MAX;
    for (uint32_t i = 0; i < l->n; i++) {
        if (!value_items(e, c->arg_at[0], &l->at[i], &lists[i]))
            return false;
        n = lists[i].n < n ? lists[i].n : n;
    }
    Values rows = {0};
    for (uint32_t k = 0; l->n && k < n; k++) {
        Value *row = arena_array(e->a, Value, l->n);
        for (uint32_t i = 0; i < l->n; i++)
            row[i] = lists[i].at[k];
        vec_push(e->a, &rows, v_list(e, row, l->n));
    }
    *out = v_list(e, rows.at, rows.n);
    return true;
}

bool builtin_enumerate(Elab *e, const Call *c, Value *out)
{
    Values items = {0}, rows = {0};
    if (!value_items(e, c->arg_at[0], &c->arg[0], &items))
        return false;
    for (uint32_t i = 0; i < items.n; i++) {
        Value pair[2] = {v_int(i), items.at[i]};
        vec_push(e->a, &rows, v_list(e, pair, 2));
    }
    *out = v_list(e, rows.at, rows.n);
    return true;
}

bool builtin_reversed(Elab *e, const Call *c, Value *out)
{
    Values items = {0}, back = {0};
    if (!value_items(e, c->arg_at[0], &c->arg[0], &items))
        return false;
    for (uint32_t i = items.n; i-- > 0;)
        vec_push(e->a, &back, items.at[i]);
    *out = v_list(e, back.at, back.n);
    return true;
}

bool builtin_str(Elab *e, const Call *c, Value *out)
{
    const Value *v = &c->arg[0];
    if (v->kind == V_string) {
        *out = *v;
        return true;
    }
    if (v->kind != V_int && v->kind != V_float && v->kind != V_bool)
        return bad_kind(e, c, 0, "an int");
    *out = v_string(value_text(e, v));
    return true;
}

bool builtin_int(Elab *e, const Call *c, Value *out)
{
    const Value *v = &c->arg[0];
    if (v->kind == V_int || v->kind == V_size) {
        *out = *v;
        return true;
    }
    if (v->kind == V_bool) {
        *out = v_int(v->i);
        return true;
    }
    if (v->kind == V_late) {
        *out = v_late(e, build_cast(&e->b, use_val(e, v), DT_i64));
        return true;
    }
    if (v->kind != V_float)
        return bad_kind(e, c, 0, "a number");
    if (!(v->f > -9.2e18 && v->f < 9.2e18)) {
        elab_error(e, DIAG_bad_number, c->at, "%s does not fit an int", value_text(e, v));
        return false;
    }
    *out = v_int((int64_t)v->f);
    return true;
}

bool builtin_float(Elab *e, const Call *c, Value *out)
{
    const Value *v = &c->arg[0];
    if (is_static_number(v) || v->kind == V_bool)
        *out = v_float(v->kind == V_float ? v->f : (double)v->i);
    else if (v->kind == V_size || v->kind == V_late)
        *out = v_late(e, build_cast(&e->b, use_val(e, v), DT_f64));
    else
        return bad_kind(e, c, 0, "a number");
    return true;
}

bool builtin_kind(Elab *e, const Call *c, Value *out)
{
    (void)e;
    const Value *v = &c->arg[0]; /* a size cannot stand where an int decides something */
    *out = v_string(v->kind == V_size ? "size" : value_kind(v));
    return true;
}

bool builtin_print(Elab *e, const Call *c, Value *out)
{
    const List *l = c->arg[0].list;
    *out = v_none();
    StrBuf text = {.a = e->a};
    for (uint32_t i = 0; i < l->n; i++) {
        const Value *v = &l->at[i];
        if (v->kind == V_tensor || v->kind == V_late || v->kind == V_size) {
            if (e->b.g == e->making)
                continue;
            int64_t word = sym_new(e, sb_text(&text)).id;
            Attr attr = {&word, 1};
            Val x = use_val(e, v);
            build(&e->b, OP_print, &x, 1, &attr);
            text = (StrBuf){.a = e->a};
        } else {
            sb_printf(&text, "%s%s", text.n ? " " : "",
                      v->kind == V_string ? v->s : value_text(e, v));
        }
    }
    return true;
}

bool builtin_allclose(Elab *e, const Call *c, Value *out)
{
    double rtol, atol;
    bool equal_nan;
    if (!arg_float(e, c, 2, &rtol) || !arg_float(e, c, 3, &atol) || !arg_bool(e, c, 4, &equal_nan))
        return false;
    /* |a - b| <= atol + rtol * |b|, and equal infinities */
    Value diff, size, bound, near, same, nans[2], v;
    const Value *in[2] = {&c->arg[0], &c->arg[1]};
    const Span *at = c->arg_at;
    Value rel = v_float(rtol), abs_tol = v_float(atol);
    const Value *p = &diff;
    if (!binary_op(e, AST_sub, c->at, in[0], at[0], in[1], at[1], &diff) ||
        !pointwise(e, OP_abs, c->at, &p, at, 1, false, &size) ||
        !pointwise(e, OP_abs, c->at, &in[1], at + 1, 1, false, &v) ||
        !binary_op(e, AST_mul, c->at, &rel, at[0], &v, at[1], &bound) ||
        !binary_op(e, AST_add, c->at, &abs_tol, at[0], &bound, at[1], &bound) ||
        !binary_op(e, AST_le, c->at, &size, at[0], &bound, at[1], &near) ||
        !binary_op(e, AST_eq, c->at, in[0], at[0], in[1], at[1], &same) ||
        !binary_op(e, AST_bor, c->at, &near, at[0], &same, at[1], &near))
        return false;
    if (equal_nan) {
        for (int i = 0; i < 2; i++)
            if (!pointwise(e, OP_isnan, c->at, &in[i], at + i, 1, false, &nans[i]))
                return false;
        if (!binary_op(e, AST_band, c->at, &nans[0], at[0], &nans[1], at[1], &v) ||
            !binary_op(e, AST_bor, c->at, &near, at[0], &v, at[1], &near))
            return false;
    }
    if (near.kind != V_tensor) {
        *out = near;
        return true;
    }
    Val x = use_val(e, &near);
    int64_t axes[MAX_RANK];
    uint32_t rank = type_at(e, x)->rank;
    for (uint32_t i = 0; i < rank; i++)
        axes[i] = i;
    *out = v_tensor(e, rank ? build_reduce(&e->b, RED_and, x, axes, rank) : x);
    return true;
}
