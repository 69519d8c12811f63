/* strbuf.c: doubling growth, in place while the text is the newest in the arena.
 * SPDX-License-Identifier: MIT */
#include "ir/base/strbuf.h"

#include <stdio.h>
#include <string.h>

static void room(StrBuf *b, size_t more)
{
    if (b->n + more + 1 <= b->cap)
        return;
    size_t cap = b->cap ? b->cap : 256;
    while (cap < b->n + more + 1)
        cap *= 2;
    b->text = arena_grow(b->a, b->text, b->cap, cap);
    b->cap = cap;
}

void sb_write(StrBuf *b, const char *s, size_t n)
{
    room(b, n);
    if (n)
        memcpy(b->text + b->n, s, n);
    b->n += n;
    b->text[b->n] = 0;
}

void sb_puts(StrBuf *b, const char *s)
{
    sb_write(b, s, strlen(s));
}

void sb_putc(StrBuf *b, char c)
{
    room(b, 1);
    b->text[b->n++] = c;
    b->text[b->n] = 0;
}

void sb_vprintf(StrBuf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    const size_t left = b->cap - b->n;
    const int n = vsnprintf(left ? b->text + b->n : NULL, left, fmt, ap);
    if (n > 0) {
        if ((size_t)n >= left) {
            room(b, (size_t)n);
            vsnprintf(b->text + b->n, (size_t)n + 1, fmt, again);
        }
        b->n += (size_t)n;
    }
    va_end(again);
}

void sb_printf(StrBuf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    sb_vprintf(b, fmt, ap);
    va_end(ap);
}

const char *sb_text(const StrBuf *b)
{
    return b->text ? b->text : "";
}
