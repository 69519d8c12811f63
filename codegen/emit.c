/* emit.c: see emit.h. SPDX-License-Identifier: MIT */
#include "codegen/emit.h"

#include <string.h>

enum { MAX_OPEN = 32 };

/* Where a line may end: behind a comma, semicolon or binary operator that a space follows. The rank
 * is how much one wants to break there: fewer open brackets first, then commas, ?:, ||, &&,
 * comparisons, sums, products. */
static int break_rank(const char *s, size_t i, int depth)
{
    if (s[i + 1] != ' ' || i == 0)
        return -1;
    char c = s[i];
    bool spaced = s[i - 1] == ' ';
    if (c == ',' || c == ';')
        return depth * 16;
    if ((c == '&' || c == '|') && s[i - 1] == c)
        return depth * 16 + 2;
    if (c == '=' && spaced)
        return depth * 16 + 9;
    if (!spaced)
        return -1;
    if (c == '+' || c == '-')
        return depth * 16 + 4;
    if (c == '*' || c == '/' || c == '%')
        return depth * 16 + 6;
    return -1;
}

/* clang-format puts ? and : at the beginning of the next line. */
static bool breaks_before(const char *s, size_t i)
{
    return s[i] == ' ' && (s[i + 1] == '?' || s[i + 1] == ':') && s[i + 2] == ' ';
}

typedef struct {
    size_t columns[MAX_OPEN];
    int depth;
} Brackets;

static void track(Brackets *b, char c, size_t column)
{
    if (c == '(' || c == '[' || c == '{') {
        if (b->depth < MAX_OPEN)
            b->columns[b->depth] = column + 1;
        b->depth++;
    } else if ((c == ')' || c == ']' || c == '}') && b->depth > 0) {
        b->depth--;
    }
}

/* The best place to end the line that starts at s[0] in `column`; 0: there is none. */
static size_t find_break(const char *s, size_t column, Brackets b)
{
    size_t best = 0;
    int best_rank = 1 << 30;
    bool quoted = false;
    for (size_t i = 0; s[i] && column + i < EMIT_WIDTH; i++) {
        if (s[i] == '"' && (i == 0 || s[i - 1] != '\\'))
            quoted = !quoted;
        if (quoted)
            continue;
        track(&b, s[i], column + i);
        int rank = breaks_before(s, i) ? b.depth * 16 + 1 : break_rank(s, i, b.depth);
        if (rank < 0 || rank > best_rank)
            continue;
        best_rank = rank;
        best = breaks_before(s, i) ? i : i + 1;
    }
    return best;
}

/* Where the text behind a break continues: under the innermost open bracket, under what follows the
 * "=" or "return" of the statement, or one step deeper. */
static size_t continuation(const Brackets *b, size_t base, size_t after_assign)
{
    if (b->depth > 0 && b->depth <= MAX_OPEN)
        return b->columns[b->depth - 1];
    return after_assign ? after_assign : base + EMIT_INDENT;
}

static size_t assignment_column(const char *s, size_t column)
{
    if (!strncmp(s, "return ", 7))
        return column + 7;
    int depth = 0;
    for (size_t i = 0; s[i] && column + i < EMIT_WIDTH / 2; i++) {
        depth += s[i] == '(' || s[i] == '{';
        depth -= s[i] == ')' || s[i] == '}';
        if (depth == 0 && i > 1 && s[i] == '=' && s[i + 1] == ' ' && strchr(" +*-", s[i - 1]))
            return column + i + 2;
    }
    return 0;
}

static void put_spaces(StrBuf *out, size_t n)
{
    static const char spaces[] = "                                ";
    for (; n > sizeof spaces - 1; n -= sizeof spaces - 1)
        sb_write(out, spaces, sizeof spaces - 1);
    sb_write(out, spaces, n);
}

/* The directive, unless compilers count on to the line anyway. */
static void put_directive(Emit *e)
{
    EmitLines *l = e->lines;
    if (l->next != l->line)
        sb_printf(e->out, "#line %d %s\n", l->line, l->file);
    l->next = l->line + 1;
}

static void put_numbered(Emit *e, const char *s)
{
    put_directive(e);
    put_spaces(e->out, (size_t)e->depth * EMIT_INDENT);
    sb_puts(e->out, s);
    sb_putc(e->out, '\n');
}

static void put_wrapped(Emit *e, const char *s)
{
    size_t base = (size_t)e->depth * EMIT_INDENT, column = base, length = strlen(s);
    put_spaces(e->out, column);
    if (column + length <= EMIT_WIDTH) { /* nearly all lines */
        sb_write(e->out, s, length);
        sb_putc(e->out, '\n');
        return;
    }
    size_t assign = assignment_column(s, base);
    Brackets open = {.depth = 0};
    while (column + strlen(s) > EMIT_WIDTH) {
        size_t n = find_break(s, column, open);
        if (!n)
            break;
        for (size_t i = 0; i < n; i++)
            track(&open, s[i], column + i);
        sb_write(e->out, s, n);
        sb_putc(e->out, '\n');
        s += n;
        while (*s == ' ')
            s++;
        column = continuation(&open, base, assign);
        if (column > EMIT_WIDTH * 3 / 4)
            column = base + EMIT_INDENT;
        put_spaces(e->out, column);
    }
    sb_puts(e->out, s);
    sb_putc(e->out, '\n');
}

static void vline(Emit *e, const char *fmt, va_list ap)
{
    char local[512]; /* most lines fit: the arena keeps only what is longer */
    StrBuf text = {.a = e->out->a, .text = local, .cap = sizeof local};
    sb_vprintf(&text, fmt, ap);
    if (text.n && e->lines) {
        put_numbered(e, sb_text(&text));
    } else if (text.n) {
        put_wrapped(e, sb_text(&text));
    } else {
        sb_putc(e->out, '\n');
        if (e->lines)
            e->lines->next++;
    }
}

void emit_line(Emit *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vline(e, fmt, ap);
    va_end(ap);
}

void emit_function(Emit *e, const char *head, const char *params)
{
    size_t n = strlen(head);
    if (e->lines || n <= EMIT_WIDTH / 2 || n + strlen(params) + 2 <= EMIT_WIDTH) {
        emit_line(e, "%s(%s)", head, params);
        return;
    }
    emit_line(e, "%s(", head);
    e->depth++;
    for (const char *s = params;;) {
        size_t room = (size_t)(EMIT_WIDTH - EMIT_INDENT), fits = 0, left = strlen(s);
        for (size_t i = 0; i < left && i < room; i++)
            if (s[i] == ',')
                fits = i + 1;
        if (left + 1 <= room || !fits) {
            emit_line(e, "%s)", s);
            break;
        }
        emit_line(e, "%.*s", (int)fits, s);
        s += fits + (s[fits] == ' ');
    }
    e->depth--;
}

void emit_open(Emit *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vline(e, fmt, ap);
    va_end(ap);
    e->depth++;
}

void emit_close(Emit *e, const char *tail)
{
    e->depth--;
    emit_line(e, "}%s", tail);
}

void emit_in(Emit *e, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vline(e, fmt, ap);
    va_end(ap);
    e->depth++;
}

void emit_out(Emit *e)
{
    e->depth--;
}

void emit_raw(Emit *e, const char *text)
{
    sb_puts(e->out, text);
    for (; e->lines && *text; text++)
        e->lines->next += *text == '\n';
}

/* No compiler takes it: the number and the file's name are put in when the text is whole. */
static const char own_lines[] = "#line\n";

void emit_own_lines(Emit *e)
{
    if (!e->lines)
        return;
    sb_puts(e->out, own_lines);
    e->lines = NULL;
}

void emit_resolve_lines(StrBuf *out, const char *file)
{
    if (!out->n || !strstr(sb_text(out), own_lines))
        return;
    StrBuf to = {.a = out->a};
    int line = 1;
    for (const char *s = sb_text(out), *end; *s; s = end) {
        end = strchr(s, '\n');
        end = end ? end + 1 : s + strlen(s);
        line++;
        if (!strncmp(s, own_lines, sizeof own_lines - 1))
            sb_printf(&to, "#line %d \"%s\"\n", line, file);
        else
            sb_write(&to, s, (size_t)(end - s));
    }
    *out = to;
}
