/* source.h: texts of the compilation, and places in them.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_SOURCE_H
#define TENON_SOURCE_H

#include "ir/base/arena.h"

#include <stdbool.h>
#include <stdint.h>

/* Bytes start..end of file `file`; file 0 is "nowhere" (built in, or made by the compiler). */
typedef struct {
    uint32_t file, start, end;
} Span;

typedef struct Sources Sources;

typedef struct {
    const char *path; /* as the user wrote it, or found it by an import */
    const char *text; /* NUL-terminated */
    uint32_t n;
    bool is_std; /* from the standard library */
} SourceFile;

Sources *sources_create(Arena *a);

/** Adds a text; both strings are copied. Returns its file number, from 1. */
uint32_t source_add(Sources *s, const char *path, const char *text, size_t n, bool is_std);

/** Reads a file and adds it. Returns 0 on failure, with errno set (EFBIG above 64 MiB). */
uint32_t source_read(Sources *s, const char *path, bool is_std);

const SourceFile *source_file(const Sources *s, uint32_t file);
uint32_t source_count(const Sources *s);

/** Line and column, both from 1, columns in bytes, of a byte offset. */
void source_position(const Sources *s, uint32_t file, uint32_t offset, int *line, int *col);

/** The text of a line (from 1), without its end; *n gets its length. */
const char *source_line(const Sources *s, uint32_t file, int line, int *n);

/** "file.tn:12:5" of a span, or "" for nowhere; "file.tn:12" without the column. */
const char *source_where(const Sources *s, Arena *a, Span at, bool column);

static inline Span span_join(Span a, Span b)
{
    if (!a.file)
        return b;
    if (!b.file)
        return a;
    return (Span){a.file, a.start < b.start ? a.start : b.start, a.end > b.end ? a.end : b.end};
}

#endif
