/* diag.c: collects messages, then shows them in the order of the text.
 * SPDX-License-Identifier: MIT */
#include "ir/base/diag.h"

#include "ir/base/die.h"
#include "ir/base/vec.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *code, *name, *explain;
    Severity severity;
    bool on; /* before any -W */
} Row;

/* The word in diag.def's third column gives two facts. */
enum { IS_ERROR = SEV_ERROR, IS_WARNING = SEV_WARNING, IS_EXTRA = SEV_WARNING };
enum { ON_ERROR = 1, ON_WARNING = 1, ON_EXTRA = 0 };

static const Row rows[DIAG_COUNT] = {
    [DIAG_none] = {"", "", "", SEV_ERROR, true},
#define DIAG(code, name, severity, text)                                                           \
    [DIAG_##name] = {#code, #name, text, (Severity)IS_##severity, ON_##severity},
#include "ir/base/diag.def"
#undef DIAG
};

struct Diags {
    Arena *a;
    const Sources *sources;
    VEC(Diag *) all;
    bool on[DIAG_COUNT];
    bool werror, silent;
};

Diags *diags_create(Arena *a, const Sources *sources)
{
    Diags *d = arena_new(a, Diags);
    d->a = a;
    d->sources = sources;
    for (int i = 0; i < DIAG_COUNT; i++)
        d->on[i] = rows[i].on;
    return d;
}

Diag *diag_vreport(Diags *d, DiagKind kind, Span at, const char *fmt, va_list ap)
{
    CHECK(kind < DIAG_COUNT);
    Diag *diag = arena_new(d->a, Diag);
    diag->kind = kind;
    diag->severity = rows[kind].severity;
    diag->at = at;
    diag->text = arena_vprintf(d->a, fmt, ap);
    diag->order = d->all.n;
    vec_push(d->a, &d->all, diag);
    return diag;
}

Diag *diag_report(Diags *d, DiagKind kind, Span at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    Diag *diag = diag_vreport(d, kind, at, fmt, ap);
    va_end(ap);
    return diag;
}

void diag_range(Diag *diag, Span range)
{
    if (range.file && diag->nranges < DIAG_RANGES)
        diag->ranges[diag->nranges++] = range;
}

void diag_note(Diags *d, Diag *diag, Span at, const char *fmt, ...)
{
    if (diag->nnotes == DIAG_NOTES)
        return;
    va_list ap;
    va_start(ap, fmt);
    diag->notes[diag->nnotes++] = (DiagNote){at, arena_vprintf(d->a, fmt, ap)};
    va_end(ap);
}

void diag_fix(Diags *d, Diag *diag, Span at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag->fix_at = at;
    diag->fix_text = arena_vprintf(d->a, fmt, ap);
    va_end(ap);
}

bool diag_enable(Diags *d, const char *name, bool on)
{
    const bool all = !strcmp(name, "all");
    bool found = all;
    for (int i = 1; i < DIAG_COUNT; i++)
        if (rows[i].severity == SEV_WARNING && (all || !strcmp(name, rows[i].name))) {
            d->on[i] = on;
            found = true;
        }
    return found;
}

void diag_warnings_are_errors(Diags *d, bool on)
{
    d->werror = on;
}

void diag_no_warnings(Diags *d, bool on)
{
    d->silent = on;
}

static bool is_shown(const Diags *d, const Diag *diag)
{
    return !diag->withdrawn && (diag->severity == SEV_ERROR || (!d->silent && d->on[diag->kind]));
}

static bool is_error(const Diags *d, const Diag *diag)
{
    return diag->severity == SEV_ERROR || d->werror;
}

int diag_errors(const Diags *d)
{
    int n = 0;
    for (uint32_t i = 0; i < d->all.n; i++)
        n += is_shown(d, d->all.at[i]) && is_error(d, d->all.at[i]);
    return n;
}

int diag_count(const Diags *d)
{
    int n = 0;
    for (uint32_t i = 0; i < d->all.n; i++)
        n += is_shown(d, d->all.at[i]);
    return n;
}

const char *diag_code(DiagKind kind)
{
    return rows[kind].code;
}

const char *diag_name(DiagKind kind)
{
    return rows[kind].name;
}

const char *diag_explain(DiagKind kind)
{
    return rows[kind].explain;
}

/* ---- widths ---- */

/* Decodes one character of at most n bytes; a byte that is not UTF-8 gives -1 and length 1. */
static long decode(const char *s, int n, int *length)
{
    const unsigned char c = (unsigned char)*s;
    const int want = c < 0x80 ? 1 : c >= 0xF0 && c < 0xF5 ? 4 : c >= 0xE0 ? 3 : c >= 0xC2 ? 2 : 0;
    *length = 1;
    if (!want || want > n || c >= 0xF5)
        return -1;
    long cp = want == 1 ? c : c & (0x7F >> want);
    for (int i = 1; i < want; i++) {
        if (((unsigned char)s[i] & 0xC0) != 0x80)
            return -1;
        cp = cp << 6 | ((unsigned char)s[i] & 0x3F);
    }
    *length = want;
    return cp;
}

/* Columns that a character takes: marks that combine take none, East Asian wide two. */
static int width_of(long cp)
{
    static const struct {
        long lo, hi;
        int width;
    } ranges[] = {
        {0x0300, 0x036F, 0}, {0x200B, 0x200F, 0},   {0x20D0, 0x20FF, 0},   {0xFE00, 0xFE0F, 0},
        {0xFE20, 0xFE2F, 0}, {0x1100, 0x115F, 2},   {0x2E80, 0x303E, 2},   {0x3041, 0xA4CF, 2},
        {0xAC00, 0xD7A3, 2}, {0xF900, 0xFAFF, 2},   {0xFE30, 0xFE6F, 2},   {0xFF00, 0xFF60, 2},
        {0xFFE0, 0xFFE6, 2}, {0x1F300, 0x1F64F, 2}, {0x1F900, 0x1F9FF, 2}, {0x20000, 0x3FFFD, 2},
    };
    for (size_t i = 0; i < ARRAY_LEN(ranges); i++)
        if (cp >= ranges[i].lo && cp <= ranges[i].hi)
            return ranges[i].width;
    return 1;
}

enum { TAB = 4, LINE_MAX_COLUMNS = 240, LINE_BEFORE_CARET = 80 };

/* ---- the source line and what is under it ---- */

/* A line laid out in columns: cells[i] is the byte offset shown in column i, marks[i] what stands
 * under it. */
typedef struct {
    StrBuf text;
    uint32_t *cell; /* byte offset in the file of each column */
    char *mark;
    int n;
} Layout;

static void put_cell(Layout *l, uint32_t offset, int width)
{
    for (int i = 0; i < width; i++)
        l->cell[l->n++] = offset;
}

static Layout lay_out(Arena *a, const char *text, int n, uint32_t first)
{
    Layout l = {.text = {.a = a}};
    l.cell = arena_array(a, uint32_t, (size_t)n * TAB + 2);
    for (int i = 0, length = 0; i < n; i += length) {
        const long cp = decode(text + i, n - i, &length);
        const uint32_t offset = first + (uint32_t)i;
        if (cp == '\t') {
            const int width = TAB - l.n % TAB;
            for (int k = 0; k < width; k++)
                sb_putc(&l.text, ' ');
            put_cell(&l, offset, width);
        } else if (cp < 0 || cp < 0x20 || (cp >= 0x7F && cp < 0xA0)) {
            sb_puts(&l.text, "\xEF\xBF\xBD"); /* never send control characters to a terminal */
            put_cell(&l, offset, 1);
        } else {
            sb_write(&l.text, text + i, (size_t)length);
            put_cell(&l, offset, width_of(cp));
        }
    }
    put_cell(&l, first + (uint32_t)n, 1); /* one past the end can be marked too */
    l.mark = arena_array(a, char, l.n + 1);
    memset(l.mark, ' ', (size_t)l.n);
    return l;
}

static void mark_range(Layout *l, Span range)
{
    for (int i = 0; i < l->n - 1; i++)
        if (l->cell[i] >= range.start && l->cell[i] < range.end && l->mark[i] == ' ')
            l->mark[i] = '~';
}

static void mark_caret(Layout *l, Span at)
{
    mark_range(l, at);
    for (int i = 0; i < l->n; i++)
        if (l->cell[i] >= at.start) {
            l->mark[i] = '^';
            return;
        }
    l->mark[l->n - 1] = '^';
}

/* The columns shown of a long line: [from, to), around the caret. */
static void window(const Layout *l, int *from, int *to)
{
    *from = 0;
    *to = l->n - 1;
    if (l->n <= LINE_MAX_COLUMNS)
        return;
    int caret = 0;
    while (caret < l->n && l->mark[caret] != '^')
        caret++;
    if (caret > LINE_BEFORE_CARET)
        *from = caret - LINE_BEFORE_CARET;
    if (*to > *from + LINE_MAX_COLUMNS)
        *to = *from + LINE_MAX_COLUMNS;
}

typedef struct {
    const Diags *d;
    DiagStyle style;
    StrBuf *out;
    Arena *scratch;
} Render;

static void color(Render *r, const char *code)
{
    if (r->style.color)
        sb_printf(r->out, "\033[%sm", code);
}

static void show_text(Render *r, const Layout *l, const char *text, uint32_t first, int from,
                      int to)
{
    if (from == 0 && to == l->n - 1) {
        sb_puts(r->out, sb_text(&l->text));
        return;
    }
    /* cut at whole characters: by the bytes that the columns come from */
    const uint32_t start = l->cell[from] - first, end = l->cell[to] - first;
    const Layout part = lay_out(r->scratch, text + start, (int)(end - start), 0);
    sb_puts(r->out, sb_text(&part.text));
}

static void show_source(Render *r, Span at, const Span *ranges, int nranges)
{
    const SourceFile *file = source_file(r->d->sources, at.file);
    int line, col, n;
    source_position(r->d->sources, at.file, at.start, &line, &col);
    const char *text = source_line(r->d->sources, at.file, line, &n);
    if (n > 0 && memchr(text, 0, (size_t)n))
        return; /* not a text */
    const uint32_t first = (uint32_t)(text - file->text);
    const ArenaMark mark = arena_mark(r->scratch);
    Layout l = lay_out(r->scratch, text, n, first);
    mark_caret(&l, at);
    for (int i = 0; i < nranges; i++)
        if (ranges[i].file == at.file)
            mark_range(&l, ranges[i]);
    int from, to;
    window(&l, &from, &to);
    show_text(r, &l, text, first, from, to);
    sb_putc(r->out, '\n');
    int end = l.n;
    while (end > from && l.mark[end - 1] == ' ')
        end--;
    color(r, "1;32");
    sb_write(r->out, l.mark + from, (size_t)((end > to + 1 ? to + 1 : end) - from));
    color(r, "0");
    sb_putc(r->out, '\n');
    arena_reset(r->scratch, mark);
}

/* ---- one message ---- */

/* A message may quote the program's strings: control characters never reach a terminal. */
static void put_clean(StrBuf *out, const char *text)
{
    int n = (int)strlen(text);
    for (int length = 0; n > 0; text += length, n -= length) {
        const long cp = decode(text, n, &length);
        if (cp < 0x20 || (cp >= 0x7F && cp < 0xA0))
            sb_puts(out, "\xEF\xBF\xBD");
        else
            sb_write(out, text, (size_t)length);
    }
}

static void show_head(Render *r, Span at, const char *word, const char *tint, const char *text,
                      const char *suffix)
{
    color(r, "1");
    if (at.file)
        sb_printf(r->out, "%s: ", source_where(r->d->sources, r->scratch, at, true));
    color(r, tint);
    sb_printf(r->out, "%s: ", word);
    color(r, "0");
    put_clean(r->out, text);
    sb_printf(r->out, "%s\n", suffix);
}

static void show_fix(Render *r, const Diag *diag)
{
    const SourceFile *file = source_file(r->d->sources, diag->fix_at.file);
    int line, fix_line, col;
    source_position(r->d->sources, diag->at.file, diag->at.start, &line, &col);
    source_position(r->d->sources, diag->fix_at.file, diag->fix_at.start, &fix_line, &col);
    const bool elsewhere = diag->fix_at.file != diag->at.file || line != fix_line;
    const int n = (int)(diag->fix_at.end - diag->fix_at.start);
    const char *old = file->text + diag->fix_at.start;
    const char *text = !n                 ? arena_printf(r->scratch, "insert '%s'", diag->fix_text)
                       : !*diag->fix_text ? arena_printf(r->scratch, "remove '%.*s'", n, old)
                                          : arena_printf(r->scratch, "write '%s' for '%.*s'",
                                                         diag->fix_text, n, old);
    show_head(r, elsewhere ? diag->fix_at : (Span){0, 0, 0}, "fix", "1;32", text, "");
}

static void show(Render *r, const Diag *diag)
{
    const bool error = is_error(r->d, diag);
    const char *suffix = diag->severity == SEV_WARNING
                             ? arena_printf(r->scratch, " [-W%s]", rows[diag->kind].name)
                             : "";
    if (!diag->at.file)
        sb_puts(r->out, "tenon: "); /* as other messages about the command line */
    show_head(r, diag->at, error ? "error" : "warning", error ? "1;31" : "1;35", diag->text,
              suffix);
    if (diag->at.file)
        show_source(r, diag->at, diag->ranges, diag->nranges);
    for (int i = 0; i < diag->nnotes; i++) {
        const DiagNote *note = &diag->notes[i];
        show_head(r, note->at, "note", "1;36", note->text, "");
        if (note->at.file)
            show_source(r, note->at, NULL, 0);
    }
    if (diag->fix_at.file)
        show_fix(r, diag);
}

/* ---- JSON ---- */

static void json_string(StrBuf *out, const char *s)
{
    int n = (int)strlen(s);
    sb_putc(out, '"');
    for (int length; n > 0; s += length, n -= length) {
        const long cp = decode(s, n, &length);
        if (cp < 0)
            sb_puts(out, "\\ufffd");
        else if (cp == '"' || cp == '\\')
            sb_printf(out, "\\%c", (char)cp);
        else if (cp == '\n')
            sb_puts(out, "\\n");
        else if (cp < 0x20)
            sb_printf(out, "\\u%04lx", (unsigned long)cp);
        else
            sb_write(out, s, (size_t)length);
    }
    sb_putc(out, '"');
}

static void json_span(Render *r, Span at)
{
    int line, col, end_line, end_col;
    source_position(r->d->sources, at.file, at.start, &line, &col);
    source_position(r->d->sources, at.file, at.end, &end_line, &end_col);
    sb_puts(r->out, "\"file\": ");
    json_string(r->out, source_file(r->d->sources, at.file)->path);
    sb_printf(r->out, ", \"line\": %d, \"column\": %d, \"end_line\": %d, \"end_column\": %d", line,
              col, end_line, end_col);
}

static void json_show(Render *r, const Diag *diag)
{
    sb_printf(r->out, "{\"severity\": \"%s\", \"code\": \"%s\", \"name\": \"%s\", \"message\": ",
              is_error(r->d, diag) ? "error" : "warning", rows[diag->kind].code,
              rows[diag->kind].name);
    json_string(r->out, diag->text);
    if (diag->at.file) {
        sb_puts(r->out, ", ");
        json_span(r, diag->at);
    }
    sb_puts(r->out, ", \"ranges\": [");
    for (int i = 0; i < diag->nranges; i++) {
        sb_puts(r->out, i ? ", {" : "{");
        json_span(r, diag->ranges[i]);
        sb_putc(r->out, '}');
    }
    sb_puts(r->out, "], \"notes\": [");
    for (int i = 0; i < diag->nnotes; i++) {
        sb_puts(r->out, i ? ", {\"message\": " : "{\"message\": ");
        json_string(r->out, diag->notes[i].text);
        if (diag->notes[i].at.file) {
            sb_puts(r->out, ", ");
            json_span(r, diag->notes[i].at);
        }
        sb_putc(r->out, '}');
    }
    sb_putc(r->out, ']');
    if (diag->fix_at.file) {
        sb_puts(r->out, ", \"fix\": {");
        json_span(r, diag->fix_at);
        sb_puts(r->out, ", \"text\": ");
        json_string(r->out, diag->fix_text);
        sb_putc(r->out, '}');
    }
    sb_putc(r->out, '}');
}

/* ---- all ---- */

static int by_place(const void *x, const void *y)
{
    const Diag *a = *(Diag *const *)x, *b = *(Diag *const *)y;
    if (a->at.file != b->at.file)
        return a->at.file < b->at.file ? -1 : 1;
    if (a->at.start != b->at.start)
        return a->at.start < b->at.start ? -1 : 1;
    return a->order < b->order ? -1 : a->order > b->order;
}

static bool is_repeated(Diag *const *list, int i)
{
    for (int k = i - 1; k >= 0 && list[k]->at.file == list[i]->at.file; k--) {
        if (list[k]->at.start != list[i]->at.start)
            return false;
        if (list[k]->kind == list[i]->kind && !strcmp(list[k]->text, list[i]->text))
            return true;
    }
    return false;
}

void diag_render(const Diags *d, DiagStyle style, StrBuf *out)
{
    Arena *scratch = arena_create();
    Render r = {d, style, out, scratch};
    Diag **list = arena_array(scratch, Diag *, d->all.n + 1);
    int n = 0, errors = 0, hidden = 0, shown = 0;
    int before = style.from;
    for (uint32_t i = 0; i < d->all.n; i++)
        if (is_shown(d, d->all.at[i]) && before-- <= 0)
            list[n++] = d->all.at[i];
    qsort(list, (size_t)n, sizeof *list, by_place);
    if (style.json)
        sb_putc(out, '[');
    for (int i = 0; i < n; i++) {
        if (is_repeated(list, i))
            continue;
        if (errors >= (style.limit > 0 ? style.limit : 20) && !style.json) {
            hidden += is_error(d, list[i]);
            continue;
        }
        errors += is_error(d, list[i]);
        if (style.json) {
            sb_puts(out, shown ? ",\n " : "");
            json_show(&r, list[i]);
        } else {
            show(&r, list[i]);
        }
        shown++;
    }
    if (style.json)
        sb_puts(out, "]\n");
    if (hidden)
        sb_printf(out, "%d more error%s not shown\n", hidden, hidden == 1 ? "" : "s");
    arena_destroy(scratch);
}

/* ---- suggestions ---- */

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

/* Edits that turn a into b (letter case is free), a swap of neighbours counting as one; more than
 * `limit` is limit + 1. */
static int distance(const char *a, const char *b, int limit)
{
    enum { LONGEST = 64 };
    const int n = (int)strlen(a), m = (int)strlen(b);
    if (n > LONGEST || m > LONGEST || abs(n - m) > limit)
        return limit + 1;
    int row[3][LONGEST + 1];
    for (int j = 0; j <= m; j++)
        row[0][j] = j;
    for (int i = 1; i <= n; i++) {
        int *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= m; j++) {
            const int change = last[j - 1] + (lower(a[i - 1]) != lower(b[j - 1]));
            int best = last[j] + 1 < now[j - 1] + 1 ? last[j] + 1 : now[j - 1] + 1;
            best = change < best ? change : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

const char *diag_nearest(const char *word, const char *const *candidates, int n)
{
    /* in short words an edit more leads to other words: median, mean */
    const size_t length = strlen(word);
    const int limit = length < 3 ? 0 : length <= 6 ? 1 : 2;
    const char *best = NULL;
    int best_distance = limit + 1;
    for (int i = 0; i < n; i++) {
        const int k = distance(word, candidates[i], limit);
        if (k < best_distance) {
            best = candidates[i];
            best_distance = k;
        }
    }
    return best;
}
