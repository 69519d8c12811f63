/* elab_value.c: values of the static interpreter, and messages about them.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

Value v_poison(void)
{
    return (Value){.kind = V_poison};
}

Value v_none(void)
{
    return (Value){.kind = V_none};
}

Value v_int(int64_t i)
{
    return (Value){.kind = V_int, .i = i};
}

Value v_float(double f)
{
    return (Value){.kind = V_float, .f = f};
}

Value v_bool(bool b)
{
    return (Value){.kind = V_bool, .i = b};
}

Value v_string(const char *s)
{
    return (Value){.kind = V_string, .s = s};
}

Value v_dtype(DType t)
{
    return (Value){.kind = V_dtype, .dtype = t};
}

Value v_list(Elab *e, const Value *at, uint32_t n)
{
    List *l = arena_new(e->a, List);
    Value *copy = arena_array(e->a, Value, n);
    if (n)
        memcpy(copy, at, n * sizeof *at);
    *l = (List){.at = copy, .n = n};
    return (Value){.kind = V_list, .list = l};
}

Value v_named(Elab *e, const Value *at, uint32_t n, const char *const *names)
{
    Value v = v_list(e, at, n);
    Sym *syms = arena_array(e->a, Sym, n);
    for (uint32_t i = 0; i < n; i++)
        syms[i] = sym_new(e, names[i]);
    List *l = arena_new(e->a, List);
    *l = (List){.at = v.list->at, .n = n, .names = syms};
    v.list = l;
    return v;
}

Value v_dim(Elab *e, Dim d)
{
    d = dim_normalize(e->dims, d);
    int64_t c;
    if (dim_is_const(e->dims, d, &c))
        return v_int(c);
    return (Value){.kind = V_size, .size = d};
}

Value v_tensor(Elab *e, Val v)
{
    return (Value){.kind = V_tensor, .val = v, .graph = e->b.g};
}

Value v_late(Elab *e, Val v)
{
    return (Value){.kind = V_late, .val = v, .graph = e->b.g};
}

const char *a_kind(const Value *v)
{
    static const char *const names[] = {
        [V_poison] = "an error",   [V_unset] = "nothing",
        [V_none] = "none",         [V_int] = "an int",
        [V_float] = "a float",     [V_bool] = "a bool",
        [V_string] = "a string",   [V_dtype] = "a dtype",
        [V_device] = "a device",   [V_list] = "a list",
        [V_fn] = "a fn",           [V_module] = "a module",
        [V_instance] = "a module", [V_optimizer] = "an optimizer",
        [V_builtin] = "a fn",      [V_file] = "an import",
        [V_info] = "a parameter",  [V_size] = "an int",
        [V_late] = "a float",      [V_tensor] = "a tensor",
    };
    return names[v->kind];
}

const char *value_kind(const Value *v)
{
    const char *text = a_kind(v), *space = strchr(text, ' ');
    return space ? space + 1 : text;
}

static void write_float(StrBuf *b, double f)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, f);
        double back = 0;
        sscanf(text, "%lf", &back);
        if (back == f || f != f)
            break;
    }
    sb_puts(b, isnan(f) ? "nan" : text); /* printf writes the sign of a NaN, too */
    if (isfinite(f) && !strpbrk(text, ".e"))
        sb_puts(b, ".0");
}

static void write_value(Elab *e, StrBuf *b, const Value *v)
{
    switch (v->kind) {
    case V_int:
        sb_printf(b, "%" PRId64, v->i);
        break;
    case V_float:
        write_float(b, v->f);
        break;
    case V_bool:
        sb_puts(b, v->i ? "true" : "false");
        break;
    case V_string:
        sb_printf(b, "\"%s\"", v->s);
        break;
    case V_dtype:
        sb_puts(b, dtype_name(v->dtype));
        break;
    case V_device:
        if (v->i < 0)
            sb_puts(b, v->i == -1 ? "cpu" : "the default device");
        else
            sb_printf(b, "cuda:%" PRId64, v->i);
        break;
    case V_list:
        sb_putc(b, '[');
        for (uint32_t i = 0; i < v->list->n; i++) {
            if (i)
                sb_puts(b, ", ");
            write_value(e, b, &v->list->at[i]);
        }
        sb_putc(b, ']');
        break;
    case V_size:
        sb_puts(b, dim_text(e->dims, e->a, v->size));
        break;
    case V_tensor:
        sb_puts(b, type_text(e->p, e->a, val_type(v->graph, v->val)));
        break;
    case V_instance:
        sb_puts(b, sym(e, v->inst->module->decl->name.sym));
        break;
    case V_module:
        sb_puts(b, sym(e, v->module->decl->name.sym));
        break;
    case V_builtin:
        sb_puts(b, v->builtin->name);
        break;
    case V_fn:
        sb_puts(b, v->fn->name.id ? sym(e, v->fn->name) : "fn");
        break;
    default:
        sb_puts(b, value_kind(v));
        break;
    }
}

const char *value_text(Elab *e, const Value *v)
{
    StrBuf b = {.a = e->a};
    write_value(e, &b, v);
    return sb_text(&b);
}

bool is_static_number(const Value *v)
{
    return v->kind == V_int || v->kind == V_float;
}

bool is_number(const Value *v)
{
    return is_static_number(v) || v->kind == V_size || v->kind == V_late;
}

double static_number(const Value *v)
{
    return v->kind == V_float ? v->f : (double)v->i;
}

bool is_callable(const Value *v)
{
    return v->kind == V_fn || v->kind == V_builtin || v->kind == V_module || v->kind == V_instance;
}

bool holds_instance(const Value *v)
{
    if (v->kind == V_instance)
        return true;
    if (v->kind == V_list)
        for (uint32_t i = 0; i < v->list->n; i++)
            if (holds_instance(&v->list->at[i]))
                return true;
    return false;
}

bool value_equal(const Value *a, const Value *b)
{
    if (is_static_number(a) && is_static_number(b))
        return a->kind == V_int && b->kind == V_int ? a->i == b->i
                                                    : static_number(a) == static_number(b);
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case V_none:
        return true;
    case V_bool:
    case V_device:
        return a->i == b->i;
    case V_string:
        return strcmp(a->s, b->s) == 0;
    case V_dtype:
        return a->dtype == b->dtype;
    case V_size:
        return dim_same(a->size, b->size);
    case V_fn:
        return a->fn == b->fn;
    case V_builtin:
        return a->builtin == b->builtin;
    case V_module:
        return a->module->decl == b->module->decl;
    case V_instance:
        return a->inst == b->inst;
    case V_tensor:
    case V_late:
        return a->graph == b->graph && val_eq(a->val, b->val);
    case V_list:
        if (a->list->n != b->list->n)
            return false;
        for (uint32_t i = 0; i < a->list->n; i++)
            if (!value_equal(&a->list->at[i], &b->list->at[i]))
                return false;
        return true;
    default:
        return false;
    }
}

bool value_dim(Elab *e, const Value *v, Dim *out)
{
    if (v->kind == V_int)
        *out = dim_const(e->dims, v->i);
    else if (v->kind == V_size)
        *out = v->size;
    else
        return false;
    return true;
}

const TypeInfo *type_at(Elab *e, Val v)
{
    return val_info(e->p, e->b.g, v);
}

const TypeInfo *value_type(Elab *e, const Value *v)
{
    return val_info(e->p, v->graph, v->val);
}

/* A value of the graph around the one being traced: handed in as an operand. */
static Val use_captured(Elab *e, const Value *v)
{
    Capture *c = e->capture;
    Val outer = v->val;
    if (v->graph != c->outer) { /* from further out: capture there first */
        Graph *inner = e->b.g;
        e->b.g = c->outer;
        e->capture = c->up;
        outer = use_val(e, v);
        e->capture = c;
        e->b.g = inner;
    }
    for (uint32_t i = 0; i < c->outer_vals.n; i++)
        if (val_eq(c->outer_vals.at[i], outer))
            return c->inner_vals.at[i];
    Sym name = sym_new(e, arena_printf(e->a, "captured%u", c->outer_vals.n));
    Val in = build_input(&e->b, name, val_type(c->outer, outer));
    written_link(e, in, c->outer, outer);
    vec_push(e->a, &c->outer_vals, outer);
    vec_push(e->a, &c->inner_vals, in);
    return in;
}

Val use_val(Elab *e, const Value *v)
{
    switch (v->kind) {
    case V_tensor:
    case V_late:
        if (v->graph == e->b.g)
            return v->val;
        for (const Capture *c = e->capture; c; c = c->up)
            if (c->outer == v->graph)
                return use_captured(e, v);
        return import_val(e, v->graph, v->val);
    case V_int:
        return build_const_int(&e->b, DT_i64, v->i);
    case V_float:
        return build_const(&e->b, DT_f64, v->f);
    case V_bool:
        return build_const(&e->b, DT_bool, (double)v->i);
    case V_size:
        return build_dim(&e->b, v->size);
    default:
        die("a %s has no value in a graph", value_kind(v));
    }
}

/* ---- messages ---- */

const char *sym(Elab *e, Sym s)
{
    return sym_text(e->names, s);
}

Sym sym_new(Elab *e, const char *text)
{
    return sym_of(e->names, text);
}

static bool in_std(Elab *e, Span at)
{
    return at.file == 0 || source_file(e->cx->sources, at.file)->is_std;
}

/* The place to show: `at`, or the user's call that led into the standard library. */
static Span user_place(Elab *e, Span at, const Frame **from)
{
    for (const Frame *f = e->frame; f && in_std(e, at); f = f->up) {
        if (!f->call_at.file)
            continue;
        at = f->call_at;
        *from = f;
    }
    return at;
}

Span user_at(Elab *e, Span at)
{
    const Frame *from = NULL;
    return user_place(e, at, &from);
}

const char *library_function(Elab *e, Span at)
{
    const Frame *from = NULL;
    user_place(e, at, &from);
    return from ? from->name : NULL;
}

const char *element_text(Elab *e, const Value *list, uint32_t i)
{
    return arena_printf(e->a, "element %u of the list that is called (%s)", i,
                        value_text(e, &list->list->at[i]));
}

static void note_frames(Elab *e, Diag *d, Span at, const Frame *shown)
{
    int n = 0;
    if (e->element)
        diag_note(e->diags, d, (Span){0}, "in %s", e->element);
    if (shown && at.file)
        diag_note(e->diags, d, at, "in %s, called here", shown->name);
    for (const Frame *f = shown ? shown->up : e->frame; f && n < 4; f = f->up)
        if (f->call_at.file && !in_std(e, f->call_at)) {
            diag_note(e->diags, d, f->call_at, "in call to %s", f->name);
            n++;
        }
}

Diag *elab_error(Elab *e, DiagKind kind, Span at, const char *fmt, ...)
{
    const Frame *from = NULL;
    Span shown = user_place(e, at, &from);
    va_list ap;
    va_start(ap, fmt);
    Diag *d = diag_vreport(e->diags, kind, shown, fmt, ap);
    va_end(ap);
    const char *values = said_values(e, d->text),
               *note = e->written.note ? e->written.note : values;
    e->written.note = NULL;
    if (note && kind != DIAG_bad_axis && kind != DIAG_dtype_mismatch)
        diag_note(e->diags, d, (Span){0}, "%s", note);
    note_frames(e, d, at, from);
    d->withdrawn = e->guess && (e->unproved || kind == DIAG_not_static || kind == DIAG_recursion ||
                                kind == DIAG_dtype_mismatch);
    e->unproved = false;
    return d;
}

void elab_note(Elab *e, Diag *d, Span at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_note(e->diags, d, at, "%s", arena_vprintf(e->a, fmt, ap));
    va_end(ap);
}
