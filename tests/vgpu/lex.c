/* lex.c: see lex.h. A directive ends at the next dot (`.reg.b16` is two words, as compilers' inline
 * assembly has it without a space); an opcode keeps its modifiers. SPDX-License-Identifier: MIT */
#include "tests/vgpu/lex.h"

#include "ir/base/vec.h"

#include <stdlib.h>
#include <string.h>

typedef VEC(Token) Tokens;

typedef struct {
    const char *p, *end;
    uint32_t line;
    Arena *a;
    Interner *names;
    Tokens out;
} Lexer;

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char at(const Lexer *l, size_t i)
{
    return (size_t)(l->end - l->p) > i ? l->p[i] : '\0';
}

static void skip_comment(Lexer *l)
{
    bool block = l->p[1] == '*';
    l->p += 2;
    while (l->p < l->end) {
        if (!block && *l->p == '\n')
            return;
        if (block && l->p[0] == '*' && at(l, 1) == '/') {
            l->p += 2;
            return;
        }
        l->line += *l->p++ == '\n';
    }
}

static void skip_space(Lexer *l)
{
    while (l->p < l->end) {
        char c = *l->p;
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\0') {
            l->line += c == '\n';
            l->p++;
        } else if (c == '/' && (at(l, 1) == '/' || at(l, 1) == '*')) {
            skip_comment(l);
        } else {
            return;
        }
    }
}

static Token *push(Lexer *l, TokenKind kind, const char *from)
{
    Token t = {.text = from, .n = (uint32_t)(l->p - from), .line = l->line, .kind = (uint8_t)kind};
    vec_push(l->a, &l->out, t);
    return &vec_last(&l->out);
}

static void word(Lexer *l)
{
    const char *from = l->p;
    bool directive = *l->p == '.';
    l->p++;
    for (;;) {
        char c = at(l, 0);
        if (is_letter(c) || is_digit(c))
            l->p++;
        else if (c == '.' && !directive && (is_letter(at(l, 1)) || is_digit(at(l, 1))))
            l->p += 2;
        else if (c == ':' && at(l, 1) == ':' && is_letter(at(l, 2)))
            l->p += 3;
        else
            break;
    }
    Token *t = push(l, TOKEN_WORD, from);
    t->sym = sym_intern(l->names, t->text, t->n);
}

static int digit_of(char c)
{
    if (is_digit(c))
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return 99;
}

static uint64_t digits(Lexer *l, int base)
{
    uint64_t v = 0;
    for (int d; (d = digit_of(at(l, 0))) < base; l->p++)
        v = v * (uint64_t)base + (uint64_t)d;
    return v;
}

/* A decimal fraction, which only people write. */
static void decimal(Lexer *l, const char *from)
{
    char text[64];
    size_t n =
        (size_t)(l->end - from) < sizeof text - 1 ? (size_t)(l->end - from) : sizeof text - 1;
    memcpy(text, from, n);
    text[n] = '\0';
    char *after;
    double d = strtod(text, &after);
    l->p = from + (after - text);
    memcpy(&push(l, TOKEN_DOUBLE, from)->value, &d, sizeof d);
}

static void number(Lexer *l)
{
    const char *from = l->p;
    char c = *l->p == '0' ? at(l, 1) : '\0';
    TokenKind kind = TOKEN_INT;
    uint64_t v;
    if (c == 'f' || c == 'F' || c == 'd' || c == 'D') {
        kind = c == 'f' || c == 'F' ? TOKEN_FLOAT : TOKEN_DOUBLE;
        l->p += 2;
        v = digits(l, 16);
    } else if (c == 'x' || c == 'X') {
        l->p += 2;
        v = digits(l, 16);
    } else if (c == 'b' || c == 'B') {
        l->p += 2;
        v = digits(l, 2);
    } else {
        v = digits(l, is_digit(c) ? 8 : 10);
        if (at(l, 0) == '.' && is_digit(at(l, 1))) {
            decimal(l, from);
            return;
        }
    }
    if (kind == TOKEN_INT && at(l, 0) == 'U')
        l->p++;
    push(l, kind, from)->value = v;
}

static bool string(Lexer *l)
{
    const char *from = ++l->p;
    while (l->p < l->end && *l->p != '"' && *l->p != '\n')
        l->p += *l->p == '\\' && l->p + 1 < l->end ? 2 : 1;
    push(l, TOKEN_STRING, from);
    return at(l, 0) == '"' && l->p++;
}

Token *lex(Arena *a, Interner *names, const char *text, size_t n, uint32_t *bad_line)
{
    Lexer l = {.p = text, .end = text + n, .line = 1, .a = a, .names = names};
    for (;;) {
        skip_space(&l);
        if (l.p >= l.end)
            break;
        char c = *l.p;
        bool ok = true;
        if (is_letter(c) || (c == '.' && is_letter(at(&l, 1)))) {
            word(&l);
        } else if (is_digit(c)) {
            number(&l);
        } else if (c == '"') {
            ok = string(&l);
        } else {
            l.p++;
            push(&l, TOKEN_PUNCT, l.p - 1)->value = (unsigned char)c;
            ok = strchr("{}()[]<>,;:+-!|@=*~/&^?", c) != NULL;
        }
        if (!ok) {
            *bad_line = l.line;
            return NULL;
        }
    }
    push(&l, TOKEN_END, l.end)->n = 0;
    return l.out.at;
}

bool token_word(const Token *t, const char *text)
{
    return t->kind == TOKEN_WORD && strlen(text) == t->n && !memcmp(t->text, text, t->n);
}
