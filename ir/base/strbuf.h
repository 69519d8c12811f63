/* strbuf.h: text that grows in an arena.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_STRBUF_H
#define TENON_STRBUF_H

#include "ir/base/arena.h"

typedef struct {
    Arena *a;
    char *text; /* NUL-terminated once something was written; NULL before */
    size_t n, cap;
} StrBuf;

/** Appends formatted text / n bytes / one character. */
void sb_printf(StrBuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sb_vprintf(StrBuf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
void sb_write(StrBuf *b, const char *s, size_t n);
void sb_puts(StrBuf *b, const char *s);
void sb_putc(StrBuf *b, char c);

/** The text so far; "" when empty. Valid until the next append. */
const char *sb_text(const StrBuf *b);

#endif
