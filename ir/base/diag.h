/* diag.h: messages to the user about their text. They are collected, sorted and rendered at the
 * end; reporting never exits. Rows (codes) are in diag.def. SPDX-License-Identifier: MIT */
#ifndef TENON_DIAG_H
#define TENON_DIAG_H

#include "ir/base/source.h"
#include "ir/base/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum {
    DIAG_none,
#define DIAG(code, name, severity, text) DIAG_##name,
#include "ir/base/diag.def"
#undef DIAG
    DIAG_COUNT
} DiagKind;

typedef enum { SEV_ERROR, SEV_WARNING } Severity;

enum { DIAG_NOTES = 8, DIAG_RANGES = 4 };

typedef struct {
    Span at; /* file 0: a note without a place */
    const char *text;
} DiagNote;

typedef struct {
    DiagKind kind;
    Severity severity;
    Span at;                  /* primary: the caret */
    Span ranges[DIAG_RANGES]; /* underlined with ~ */
    int nranges;
    const char *text;
    DiagNote notes[DIAG_NOTES];
    int nnotes;
    Span fix_at; /* file 0: none; else fix_text replaces these bytes */
    const char *fix_text;
    uint32_t order;
    bool withdrawn; /* as if it had never been reported */
} Diag;

typedef struct Diags Diags;

Diags *diags_create(Arena *a, const Sources *sources);

/** Reports an error (or, for rows of severity WARNING, a warning). The message is one line, lower
 * case, without a period. The result may be given ranges, notes and a fix; it is never NULL. */
Diag *diag_report(Diags *d, DiagKind kind, Span at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
Diag *diag_vreport(Diags *d, DiagKind kind, Span at, const char *fmt, va_list ap)
    __attribute__((format(printf, 4, 0)));

void diag_range(Diag *diag, Span range);
void diag_note(Diags *d, Diag *diag, Span at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void diag_fix(Diags *d, Diag *diag, Span at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/** Warnings: `name` is a row's name or "all"; on = false for -Wno-NAME. False if there is none. */
bool diag_enable(Diags *d, const char *name, bool on);
void diag_warnings_are_errors(Diags *d, bool on);
void diag_no_warnings(Diags *d, bool on);

int diag_errors(const Diags *d);
int diag_count(const Diags *d);

typedef struct {
    bool color, json;
    int limit; /* errors shown; 0: 20 */
    int from;  /* how many of them are left out, since they were shown already */
} DiagStyle;

/** Renders everything so far, sorted by file and position, equal messages once. */
void diag_render(const Diags *d, DiagStyle style, StrBuf *out);

/** The row's code ("E0401"), name ("shape_mismatch") and explanation. */
const char *diag_code(DiagKind kind);
const char *diag_name(DiagKind kind);
const char *diag_explain(DiagKind kind);

/** The nearest of n candidates by edit distance (1 in words of 3 to 6 letters, 2 in
 * longer ones), or NULL. */
const char *diag_nearest(const char *word, const char *const *candidates, int n);

#endif
