/* head.c: the comment above a printed kernel: what it computes, from which lines, how much it
 * moves. SPDX-License-Identifier: MIT */
#include "codegen/c.h"

#include <string.h>

static const char *const class_names[] = {
    [CLASS_MAP] = "map",           [CLASS_ROW] = "row",       [CLASS_REDUCE] = "reduce",
    [CLASS_CONTRACT] = "contract", [CLASS_SCALAR] = "scalar", [CLASS_COPY] = "copy",
    [CLASS_OPAQUE] = "opaque",
};

KernelLines kernel_lines(const Program *p, const Kernel *k)
{
    KernelLines r = {0, 0, 0};
    for (int pass = 0; pass < 2 && !r.file; pass++)
        for (uint32_t i = 0; i < k->lines.n; i++) {
            Span at = k->lines.at[i];
            if (!at.file || (pass == 0 && source_file(p->cx->sources, at.file)->is_std) ||
                (r.file && at.file != r.file))
                continue;
            int line, col;
            source_position(p->cx->sources, at.file, at.start, &line, &col);
            r.lo = !r.file || line < r.lo ? line : r.lo;
            r.hi = !r.file || line > r.hi ? line : r.hi;
            r.file = at.file;
        }
    return r;
}

const char *kernel_where(Program *p, const Kernel *k, Arena *a)
{
    const KernelLines l = kernel_lines(p, k);
    if (!l.file)
        return "";
    const char *path = source_file(p->cx->sources, l.file)->path, *slash = strrchr(path, '/');
    path = slash ? slash + 1 : path;
    return l.lo == l.hi ? arena_printf(a, "%s:%d", path, l.lo)
                        : arena_printf(a, "%s:%d-%d", path, l.lo, l.hi);
}

static const char *bytes_text(Program *p, Arena *a, Dim d)
{
    int64_t n;
    if (!dim_is_const(p->cx->dims, d, &n))
        return arena_printf(a, "%s bytes", dim_text(p->cx->dims, a, d));
    if (n < 10240)
        return arena_printf(a, "%lld bytes", (long long)n);
    if (n < 10 << 20)
        return arena_printf(a, "%.1f KiB", (double)n / 1024);
    return arena_printf(a, "%.1f MiB", (double)n / 1048576);
}

/* A comment of several pieces with two spaces in between, broken between pieces. */
typedef struct {
    StrBuf *out;
    size_t column;
} Comment;

static void put_piece(Comment *c, const char *text)
{
    size_t n = strlen(text);
    if (c->column && c->column + 3 + n + 3 > EMIT_WIDTH) {
        sb_puts(c->out, "\n *   ");
        c->column = 5;
    } else if (c->column) {
        sb_puts(c->out, "   ");
        c->column += 3;
    }
    for (size_t i = 0; i < n; i++) /* a comment must not end in the model's words */
        sb_putc(c->out, text[i] == '/' && i && text[i - 1] == '*' ? '|' : text[i]);
    c->column += n;
}

static bool same_shape(const KParam *x, const KParam *y)
{
    if (x->rank != y->rank)
        return false;
    for (uint32_t i = 0; i < x->rank; i++)
        if (!dim_same(x->shape[i], y->shape[i]))
            return false;
    return true;
}

static void put_shapes(Program *p, const Kernel *k, Comment *c)
{
    Arena *a = c->out->a;
    for (uint32_t i = 0; i < k->params.n; i++) {
        const KParam *q = &k->params.at[i];
        StrBuf text = {.a = a};
        bool seen = q->rank == 0;
        for (uint32_t j = 0; j < i; j++)
            seen = seen || same_shape(&k->params.at[j], q);
        if (seen)
            continue;
        for (uint32_t j = i; j < k->params.n; j++)
            if (same_shape(&k->params.at[j], q))
                sb_printf(&text, "%s%s", j == i ? "" : ", ",
                          sym_text(p->cx->names, k->params.at[j].name));
        sb_puts(&text, ": (");
        for (uint32_t d = 0; d < q->rank; d++)
            sb_printf(&text, "%s%s", d ? ", " : "", dim_text(p->cx->dims, a, q->shape[d]));
        sb_putc(&text, ')');
        put_piece(c, sb_text(&text));
    }
}

void kernel_comment(Program *p, const Kernel *k, uint32_t number, StrBuf *out)
{
    Arena *a = out->a;
    Comment c = {out, 0};
    const char *where = kernel_where(p, k, a);
    sb_puts(out, "/* ");
    put_piece(&c, arena_printf(a, "kernel %u: %s", number,
                               k->doc && *k->doc ? k->doc : sym_text(p->cx->names, k->name)));
    if (*where)
        put_piece(&c, where);
    put_piece(&c, class_names[k->class]);
    if (k->bytes_read.id && !dim_is_zero(p->cx->dims, k->bytes_read))
        put_piece(&c, arena_printf(a, "reads %s", bytes_text(p, a, k->bytes_read)));
    if (k->bytes_written.id && !dim_is_zero(p->cx->dims, k->bytes_written))
        put_piece(&c, arena_printf(a, "writes %s", bytes_text(p, a, k->bytes_written)));
    put_shapes(p, k, &c);
    if (k->counters)
        put_piece(&c, arena_printf(a, "arrived: %d counter%s, 0 before and after", k->counters,
                                   k->counters > 1 ? "s" : ""));
    sb_puts(out, " */\n");
}
