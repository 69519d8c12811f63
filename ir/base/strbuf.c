/* strbuf.c: doubling growth, in place while the text is the newest in the arena.
 * SPDX-License-Identifier: MIT */
#include "ir/base/strbuf.h"

#include <stdbool.h>
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

/* --- formatted text ------------------------------------------------------------------------------
 */

static void put_unsigned(StrBuf *b, unsigned long long x, bool negative)
{
    char digits[24], *end = digits + sizeof digits, *at = end;
    do
        *--at = (char)('0' + x % 10);
    while (x /= 10);
    if (negative)
        *--at = '-';
    sb_write(b, at, (size_t)(end - at));
}

static void put_signed(StrBuf *b, long long x)
{
    put_unsigned(b, x < 0 ? 0 - (unsigned long long)x : (unsigned long long)x, x < 0);
}

/* What the C library formats: it also knows the rest of the format. */
static void put_rest(StrBuf *b, const char *fmt, va_list ap)
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

/* Printing is a good part of what the compiler does, and most of it is %s, %d, %u and numbers of 64
 * bits; those are done here. */
void sb_vprintf(StrBuf *b, const char *fmt, va_list given)
{
    va_list ap;
    va_copy(ap, given);
    for (;;) {
        const size_t plain = strcspn(fmt, "%");
        if (plain)
            sb_write(b, fmt, plain);
        fmt += plain;
        if (!*fmt)
            break;
        if (fmt[1] == 's') {
            const char *s = va_arg(ap, const char *);
            sb_puts(b, s ? s : "(null)");
        } else if (fmt[1] == 'd')
            put_signed(b, va_arg(ap, int));
        else if (fmt[1] == 'u')
            put_unsigned(b, va_arg(ap, unsigned), false);
        else if (fmt[1] == 'c')
            sb_putc(b, (char)va_arg(ap, int));
        else if (fmt[1] == '%')
            sb_putc(b, '%');
        else if (fmt[1] == 'l' && fmt[2] == 'd')
            put_signed(b, va_arg(ap, long)), fmt++;
        else if (fmt[1] == 'z' && fmt[2] == 'u')
            put_unsigned(b, va_arg(ap, size_t), false), fmt++;
        else {
            put_rest(b, fmt, ap);
            break;
        }
        fmt += 2;
    }
    va_end(ap);
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
