/* elab_written_text.c: sizes and shapes as text for messages: in the names that are seen where the
 * message is about, with a note of what these names stand for.
 * SPDX-License-Identifier: MIT */
#include "frontend/elab.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 4096, LONGEST = 60 }; /* of the search for names; characters of one size */

typedef enum { LEVEL_sum, LEVEL_product, LEVEL_atom } Level;

/* ---- values ---- */

const char *dim_str(Elab *e, Dim d)
{
    StrBuf b = {.a = e->a};
    for (const char *p = dim_text(e->dims, e->a, d); *p; p++) {
        if (*p != '*' && *p != '/') {
            sb_putc(&b, *p);
            continue;
        }
        sb_puts(&b, *p == '*' ? " * " : " // ");
        p += *p == '/'; /* sizes have no other division */
    }
    return sb_text(&b);
}

static void put(StrBuf *b, const char *text, bool paren)
{
    sb_printf(b, paren ? "(%s)" : "%s", text);
}

static void put_dim(Elab *e, StrBuf *b, Dim d, Level level)
{
    const char *text = dim_str(e, d);
    put(b, text, level > LEVEL_sum && (strchr(text, ' ') || *text == '-'));
}

static Dim value_of(Elab *e, const Written *w)
{
    return w->is_int ? dim_const(e->dims, w->i) : w->size;
}

/* ---- which names are seen ---- */

/* The user's function or module body that a message is about. */
static const Frame *view(const Elab *e)
{
    for (const Frame *f = e->frame; f; f = f->up)
        if (f->inside && f->file && !f->file->is_std)
            return f;
    return &e->root_frame;
}

static bool is_seen(const Elab *e, const Written *name)
{
    const Frame *f = view(e);
    return name->owner &&
           (name->owner == f->scope || name->owner == f->inst || name->owner == f->file);
}

static const Written *resolve(Elab *e, const Written *w);

static bool some_resolve(Elab *e, const Written *w)
{
    for (uint32_t i = 0; i < w->n; i++)
        if (resolve(e, w->parts[i]))
            return true;
    return w->n == 0 && (resolve(e, w->a) || resolve(e, w->b));
}

/* What to write for w, which has names that are seen; NULL: its value. */
static const Written *resolve(Elab *e, const Written *w)
{
    while (w && e->written.budget-- > 0) {
        switch (w->kind) {
        case WRITTEN_value:
            return NULL;
        case WRITTEN_name:
            if (is_seen(e, w))
                return w;
            w = w->a;
            break;
        case WRITTEN_axis:
            w = written_of_axis(e, w);
            break;
        case WRITTEN_either: {
            const Written *a = resolve(e, w->a);
            if (a)
                return a;
            w = w->b;
            break;
        }
        default:
            return some_resolve(e, w) ? w : NULL;
        }
    }
    return NULL;
}

/* ---- text ---- */

static void write(Elab *e, StrBuf *b, const Written *how, Dim d, Level level);

static void write_part(Elab *e, StrBuf *b, const Written *how, Level level)
{
    write(e, b, how, value_of(e, how), level);
}

static void write_name(Elab *e, StrBuf *b, const Written *w)
{
    const char *name = sym(e, w->name);
    WrittenTable *t = &e->written;
    for (uint32_t i = 0; w->is_int && i < t->said.n; i++) {
        if (strcmp(t->said.at[i].name, name) != 0)
            continue;
        if (t->said.at[i].value == w->i)
            sb_puts(b, name);
        else /* a variable that has had several values */
            sb_printf(b, "%" PRId64, w->i);
        return;
    }
    sb_puts(b, name);
    if (!w->is_int)
        return;
    vec_push(e->a, &t->said, ((Said){name, w->i}));
}

static void write_op(Elab *e, StrBuf *b, const Written *w, Level level)
{
    const bool sum = w->op == AST_add || w->op == AST_sub;
    const Level own = sum ? LEVEL_sum : LEVEL_product;
    if (w->op == AST_neg) {
        sb_puts(b, level > LEVEL_sum ? "(-" : "-");
        write_part(e, b, w->a, LEVEL_product);
        sb_puts(b, level > LEVEL_sum ? ")" : "");
        return;
    }
    const bool power = w->op == AST_pow, exact = w->op == AST_add || w->op == AST_mul;
    if (level > own)
        sb_putc(b, '(');
    write_part(e, b, w->a, power ? LEVEL_atom : own);
    sb_printf(b, " %s ", ast_op_text(w->op));
    write_part(e, b, w->b, exact ? own : power || !sum ? LEVEL_atom : LEVEL_product);
    if (level > own)
        sb_putc(b, ')');
}

typedef struct {
    VEC(const char *) terms;
    Dim rest;
} Sum;

static void add_term(Elab *e, Sum *s, const Written *how, Dim d)
{
    const Written *w = resolve(e, how);
    if (!w) {
        s->rest = dim_add(e->dims, s->rest, d);
    } else if (w->kind == WRITTEN_sum) {
        for (uint32_t i = 0; i < w->n; i++)
            add_term(e, s, w->parts[i], w->part_sizes[i]);
    } else if (w->kind == WRITTEN_op && w->op == AST_add) {
        add_term(e, s, w->a, value_of(e, w->a));
        add_term(e, s, w->b, value_of(e, w->b));
    } else {
        StrBuf b = {.a = e->a};
        write(e, &b, w, d, LEVEL_product);
        vec_push(e->a, &s->terms, sb_text(&b));
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Nobody wrote this sum: equal terms are counted, and they stand in the order of their names. */
static void write_sum(Elab *e, StrBuf *b, const Written *w, Level level)
{
    Sum s = {.rest = dim_const(e->dims, 0)};
    add_term(e, &s, w, value_of(e, w));
    if (s.terms.n)
        qsort(s.terms.at, s.terms.n, sizeof *s.terms.at, by_text);
    StrBuf text = {.a = e->a};
    uint32_t shown = 0;
    for (uint32_t i = 0, n = 1; i < s.terms.n; i += n, n = 1) {
        const char *term = s.terms.at[i];
        while (i + n < s.terms.n && strcmp(s.terms.at[i + n], term) == 0)
            n++;
        if (shown++)
            sb_puts(&text, " + ");
        if (n > 1)
            sb_printf(&text, "%u * ", n);
        put(&text, term, n > 1 && strchr(term, ' '));
        shown += n > 1;
    }
    if (!dim_is_zero(e->dims, s.rest)) {
        sb_puts(&text, " + ");
        put_dim(e, &text, s.rest, LEVEL_product);
        shown++;
    }
    put(b, sb_text(&text), level > LEVEL_sum && shown > 1);
}

static void write_product(Elab *e, StrBuf *b, const Written *w, Level level)
{
    if (level > LEVEL_product)
        sb_putc(b, '(');
    for (uint32_t i = 0; i < w->n; i++) {
        if (i)
            sb_puts(b, " * ");
        write(e, b, w->parts[i], w->part_sizes[i], i ? LEVEL_atom : LEVEL_product);
    }
    if (level > LEVEL_product)
        sb_putc(b, ')');
}

static void write(Elab *e, StrBuf *b, const Written *how, Dim d, Level level)
{
    const Written *w = resolve(e, how);
    if (!w) {
        put_dim(e, b, d, level);
        return;
    }
    switch (w->kind) {
    case WRITTEN_name:
        write_name(e, b, w);
        break;
    case WRITTEN_op:
        write_op(e, b, w, level);
        break;
    case WRITTEN_call:
        sb_printf(b, "%s(", sym(e, w->name));
        write_part(e, b, w->a, LEVEL_sum);
        sb_puts(b, ", ");
        write_part(e, b, w->b, LEVEL_sum);
        sb_putc(b, ')');
        break;
    case WRITTEN_sum:
        write_sum(e, b, w, level);
        break;
    case WRITTEN_product:
        write_product(e, b, w, level);
        break;
    default:
        put_dim(e, b, d, level);
        break;
    }
}

const char *size_str(Elab *e, const Written *how, Dim d)
{
    if (!d.id)
        return "-1"; /* "the rest", asked for in a shape */
    StrBuf b = {.a = e->a};
    const uint32_t said = e->written.said.n;
    e->written.budget = STEPS;
    write(e, &b, how, d, LEVEL_sum);
    if (b.n <= LONGEST && e->written.budget > 0)
        return sb_text(&b);
    e->written.said.n = said;
    return dim_str(e, d);
}

const char *shape_str(Elab *e, const Shape *s)
{
    StrBuf b = {.a = e->a};
    sb_putc(&b, '[');
    for (uint32_t i = 0; i < s->rank; i++)
        sb_printf(&b, "%s%s", i ? ", " : "", size_str(e, s->how[i], s->at[i]));
    sb_putc(&b, ']');
    return sb_text(&b);
}

const char *val_shape_str(Elab *e, Val v)
{
    const Shape s = written_shape(e, v);
    return shape_str(e, &s);
}

const char *type_str(Elab *e, Val v)
{
    const TypeInfo *t = type_at(e, v);
    return arena_printf(e->a, "%s%s%s%s", dtype_name(t->dtype), val_shape_str(e, v),
                        t->place == PLACE_D0 ? "" : " on ",
                        t->place == PLACE_D0 ? "" : place_str(e, t->place));
}

const char *value_size_str(Elab *e, const Value *v)
{
    Dim d;
    return value_dim(e, v, &d) ? size_str(e, v->how, d) : value_text(e, v);
}

/* ---- what the names stand for ---- */

static bool is_letter(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Where a name stands in a text first; behind its end if nowhere. */
static size_t place_in(const char *text, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = strstr(text, name); p; p = strstr(p + 1, name))
        if ((p == text || !is_letter(p[-1])) && !is_letter(p[n]))
            return (size_t)(p - text);
    return strlen(text);
}

static void sort_said(WrittenTable *t, const char *text)
{
    for (uint32_t i = 1; i < t->said.n; i++)
        for (uint32_t k = i; k > 0; k--) {
            Said *a = &t->said.at[k - 1], *b = &t->said.at[k], swap = *a;
            if (place_in(text, a->name) <= place_in(text, b->name))
                break;
            *a = *b;
            *b = swap;
        }
}

const char *said_values(Elab *e, const char *text)
{
    WrittenTable *t = &e->written;
    StrBuf b = {.a = e->a};
    sort_said(t, text);
    for (uint32_t i = 0; i < t->said.n; i++)
        sb_printf(&b, "%s%s = %" PRId64, i ? ", " : "", t->said.at[i].name, t->said.at[i].value);
    const bool any = t->said.n > 0;
    t->said.n = 0;
    return any ? sb_text(&b) : NULL;
}

/* A name or number: its value has been said. */
static bool is_plain(const char *text)
{
    return !strchr(text, ' ') && !strchr(text, '(');
}

static void note_pair(Elab *e, const SizePair *p, const char *text, StrBuf *out)
{
    const char *a = size_str(e, p->a_how, p->a), *b = size_str(e, p->b_how, p->b);
    const char *x = dim_str(e, p->a), *y = dim_str(e, p->b);
    if (strcmp(a, b) == 0) { /* one name for two sizes: of two places */
        a = x;
        b = y;
    }
    const char *values = said_values(e, text);
    const bool plain = is_plain(a) && is_plain(b);
    if (p->what)
        sb_printf(out, "%s %s and %s", p->what, a, b);
    if (!values)
        return;
    sb_printf(out, p->what ? "   (%s" : "%s", values);
    if (!plain && p->what)
        sb_printf(out, ": %s and %s", x, y);
    if (!plain && !p->what) {
        const char *mark = ":";
        if (!is_plain(a) && strcmp(a, x) != 0) {
            sb_printf(out, "%s %s is %s", mark, a, x);
            mark = ",";
        }
        if (!is_plain(b) && strcmp(b, y) != 0)
            sb_printf(out, "%s %s is %s", mark, b, y);
    }
    if (p->what)
        sb_putc(out, ')');
}

Diag *sizes_error(Elab *e, DiagKind kind, Span at, const SizePair *pair, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const char *text = arena_vprintf(e->a, fmt, ap);
    va_end(ap);
    StrBuf note = {.a = e->a};
    note_pair(e, pair, text, &note);
    e->written.note = note.n ? sb_text(&note) : NULL;
    return elab_error(e, kind, at, "%s", text);
}
