/* tensor_scan.c: the words of tensor IR text: names, numbers, strings, sizes, types.
 * SPDX-License-Identifier: MIT */
#include "ir/tensor_scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void text_fail(Scan *q, const char *fmt, ...)
{
    if (q->failed)
        return;
    q->failed = true;
    const uint32_t at = (uint32_t)(q->at - q->text);
    va_list ap;
    va_start(ap, fmt);
    diag_vreport(q->cx->diags, DIAG_syntax, (Span){q->file, at, at + (*q->at != 0)}, fmt, ap);
    va_end(ap);
}

/* --- tokens ----------------------------------------------------------------------------------- */

void text_skip(Scan *q)
{
    for (;; q->at++) {
        if (*q->at == ';')
            while (*q->at && *q->at != '\n')
                q->at++;
        if (!*q->at || !isspace((unsigned char)*q->at))
            return;
    }
}

bool text_accept(Scan *q, const char *token)
{
    text_skip(q);
    const size_t n = strlen(token);
    if (q->failed || strncmp(q->at, token, n))
        return false;
    const unsigned char last = (unsigned char)token[n - 1], next = (unsigned char)q->at[n];
    if (isalnum(last) && (isalnum(next) || next == '_' || next == '.')) /* a longer word */
        return false;
    q->at += n;
    return true;
}

void text_expect(Scan *q, const char *token)
{
    if (!text_accept(q, token))
        text_fail(q, "'%s' is expected", token);
}

static bool in_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

/* A bare name; {0} (and a message) if there is none. */
Sym text_word(Scan *q)
{
    text_skip(q);
    const char *start = q->at;
    while (in_name(*q->at))
        q->at++;
    if (q->at == start)
        text_fail(q, "a name is expected");
    return sym_intern(q->cx->names, start, (size_t)(q->at - start));
}

const char *text_word_text(Scan *q)
{
    return sym_text(q->cx->names, text_word(q));
}

Sym text_string(Scan *q)
{
    text_skip(q);
    if (*q->at != '"') {
        text_fail(q, "a string is expected");
        return (Sym){0};
    }
    StrBuf s = {.a = q->cx->scratch};
    for (q->at++; *q->at && *q->at != '"'; q->at++) {
        char c = *q->at;
        if (c == '\\' && q->at[1]) {
            c = *++q->at;
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        sb_putc(&s, c);
    }
    if (!*q->at)
        text_fail(q, "a string does not end");
    else
        q->at++;
    return sym_intern(q->cx->names, sb_text(&s), s.n);
}

Sym text_name(Scan *q)
{
    text_skip(q);
    return *q->at == '"' ? text_string(q) : text_word(q);
}

int64_t text_integer(Scan *q)
{
    text_skip(q);
    char *end;
    errno = 0;
    const bool hex = q->at[0] == '0' && q->at[1] == 'x';
    const int64_t v = hex ? (int64_t)strtoull(q->at, &end, 16) : strtoll(q->at, &end, 10);
    if (end == q->at || errno)
        text_fail(q, "an integer is expected");
    else
        q->at = end;
    return v;
}

int64_t text_integer_in(Scan *q, int64_t lo, int64_t hi)
{
    const int64_t v = text_integer(q);
    if (!q->failed && (v < lo || v > hi))
        text_fail(q, "%lld is out of range", (long long)v);
    return q->failed ? lo : v;
}

double text_number(Scan *q)
{
    text_skip(q);
    char *end;
    const double v = strtod(q->at, &end);
    if (end == q->at)
        text_fail(q, "a number is expected");
    q->at = end;
    return v;
}

/* --- sizes and types -------------------------------------------------------------------------- */

Symbol text_symbol(void *ctx, const char *s, size_t n)
{
    const Scan *q = ctx;
    const DimTable *t = q->cx->dims;
    for (uint32_t id = dim_nsymbols(t); id > 0; id--) {
        const char *known = sym_text(q->cx->names, dim_symbol(q->cx->dims, (Symbol){id})->name);
        if (strlen(known) == n && !memcmp(known, s, n))
            return (Symbol){id};
    }
    return (Symbol){0};
}

Dim text_size(Scan *q)
{
    text_skip(q);
    Dim d;
    const char *end;
    const char *error = dim_parse(q->cx->dims, q->at, &end, text_symbol, q, &d);
    q->at = end;
    if (error)
        text_fail(q, "%s", error);
    else if (dim_overflowed(q->cx->dims))
        text_fail(q, "a size is too large");
    return d;
}

static Place scan_place(Scan *q)
{
    if (text_accept(q, "@host"))
        return PLACE_HOST;
    text_skip(q);
    if (strncmp(q->at, "@d", 2))
        return PLACE_D0;
    q->at += 2;
    return (Place)text_integer_in(q, 0, PLACE_HOST - 1);
}

Ty text_type(Scan *q)
{
    TypeInfo t = {.dtype = dtype_parse(text_word_text(q))};
    if (t.dtype == DT_none)
        text_fail(q, "a dtype is expected");
    text_expect(q, "[");
    while (!q->failed && !text_accept(q, "]")) {
        if (t.rank)
            text_expect(q, ",");
        if (t.rank == MAX_RANK)
            text_fail(q, "a tensor may have at most %d axes", MAX_RANK);
        else
            t.shape[t.rank++] = text_size(q);
    }
    t.place = scan_place(q);
    return q->failed ? (Ty){0} : type_make(q->p, t);
}
