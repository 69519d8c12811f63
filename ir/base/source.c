/* source.c: files and a line table for each, made when a position is first asked for.
 * SPDX-License-Identifier: MIT */
#include "ir/base/source.h"

#include "ir/base/vec.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    SourceFile pub;
    uint32_t *lines; /* offset of each line's first byte */
    uint32_t nlines;
} File;

struct Sources {
    Arena *a;
    VEC(File) files; /* [0] is nowhere */
};

Sources *sources_create(Arena *a)
{
    Sources *s = arena_new(a, Sources);
    s->a = a;
    vec_push(a, &s->files, ((File){{"", "", 0, false}, NULL, 0}));
    return s;
}

uint32_t source_add(Sources *s, const char *path, const char *text, size_t n, bool is_std)
{
    const SourceFile f = {arena_strdup(s->a, path), arena_strndup(s->a, text, n), (uint32_t)n,
                          is_std};
    vec_push(s->a, &s->files, ((File){f, NULL, 0}));
    return s->files.n - 1;
}

uint32_t source_read(Sources *s, const char *path, bool is_std)
{
    enum { LIMIT = 64 << 20 };
    FILE *f = fopen(path, "rb");
    if (!f)
        return 0;
    uint32_t file = 0;
    size_t n = 0, cap = 1 << 16;
    ArenaMark mark = arena_mark(s->a);
    char *text = arena_alloc(s->a, cap);
    for (;;) {
        n += fread(text + n, 1, cap - n, f);
        if (n < cap)
            break;
        if (cap >= LIMIT) {
            errno = EFBIG;
            break;
        }
        char *more = arena_alloc(s->a, cap * 2);
        memcpy(more, text, n);
        text = more;
        cap *= 2;
    }
    const int failed = ferror(f) || n >= LIMIT ? errno : 0;
    fclose(f);
    (void)mark; /* the pieces stay: source_add below must come after them */
    if (!failed)
        file = source_add(s, path, text, n, is_std);
    errno = failed;
    return file;
}

const SourceFile *source_file(const Sources *s, uint32_t file)
{
    return &s->files.at[file < s->files.n ? file : 0].pub;
}

uint32_t source_count(const Sources *s)
{
    return s->files.n;
}

static void make_lines(const Sources *s, File *f)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < f->pub.n; i++)
        n += f->pub.text[i] == '\n';
    f->lines = arena_array(s->a, uint32_t, n);
    f->nlines = n;
    uint32_t k = 1;
    for (uint32_t i = 0; i < f->pub.n; i++)
        if (f->pub.text[i] == '\n')
            f->lines[k++] = i + 1;
}

static File *with_lines(const Sources *s, uint32_t file)
{
    File *f = &s->files.at[file < s->files.n ? file : 0];
    if (!f->lines)
        make_lines(s, f);
    return f;
}

void source_position(const Sources *s, uint32_t file, uint32_t offset, int *line, int *col)
{
    const File *f = with_lines(s, file);
    uint32_t lo = 0, hi = f->nlines;
    while (hi - lo > 1) {
        const uint32_t mid = (lo + hi) / 2;
        if (f->lines[mid] <= offset)
            lo = mid;
        else
            hi = mid;
    }
    *line = (int)lo + 1;
    *col = (int)(offset - f->lines[lo]) + 1;
}

const char *source_line(const Sources *s, uint32_t file, int line, int *n)
{
    const File *f = with_lines(s, file);
    *n = 0;
    if (line < 1 || (uint32_t)line > f->nlines)
        return "";
    const char *text = f->pub.text + f->lines[line - 1];
    const uint32_t end = (uint32_t)line < f->nlines ? f->lines[line] - 1 : f->pub.n;
    *n = (int)(end - f->lines[line - 1]);
    if (*n && text[*n - 1] == '\r')
        (*n)--;
    return text;
}

const char *source_where(const Sources *s, Arena *a, Span at, bool column)
{
    if (!at.file)
        return "";
    int line, col;
    source_position(s, at.file, at.start, &line, &col);
    const char *path = source_file(s, at.file)->path;
    return column ? arena_printf(a, "%s:%d:%d", path, line, col)
                  : arena_printf(a, "%s:%d", path, line);
}
