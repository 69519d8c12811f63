/* emit.h: writes indented source text; breaks statements that are wider than a line.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_EMIT_H
#define TENON_EMIT_H

#include "ir/base/strbuf.h"

#include <stdbool.h>

enum { EMIT_WIDTH = 100, EMIT_INDENT = 4 };

/* For debuggers: lines that are written get the numbers of another file's, by #line directives. */
typedef struct {
    const char *file; /* quoted */
    int line;         /* what is written next belongs to this line of it */
    int next;         /* what a compiler takes the next line for; 0: not known */
} EmitLines;

typedef struct {
    StrBuf *out;
    int depth;        /* levels of indentation */
    EmitLines *lines; /* or NULL; lines are not broken then */
} Emit;

/** One line, indented; text wider than a line is broken behind commas and operators, and continues
 * under the innermost bracket that is open. "" is an empty line. */
void emit_line(Emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** The head of a function, "head(params)"; long ones have their parameters on lines of their own.
 */
void emit_function(Emit *e, const char *head, const char *params);

/** A line that ends with "{", and the line that closes it. */
void emit_open(Emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void emit_close(Emit *e, const char *tail);

/** A loop or condition whose body is a single statement: no braces, one level deeper until
 * emit_out. */
void emit_in(Emit *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void emit_out(Emit *e);

/** Behind what has `lines`: lines are again those of the file that is written. */
void emit_own_lines(Emit *e);

/** Puts the numbers into the directives of emit_own_lines, now that the text is whole. */
void emit_resolve_lines(StrBuf *out, const char *file);

/** Text as it stands. */
void emit_raw(Emit *e, const char *text);

#endif
