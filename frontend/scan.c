/* scan.c: the values of tokens: words, numbers, strings, documentation.
 * SPDX-License-Identifier: MIT */
#include "frontend/parse.h"

#include "ir/base/die.h"

#include "parser.tab.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    int kind;
} keywords[] = {
    {"and", TOK_AND},
    {"as", TOK_AS},
    {"assert", TOK_ASSERT},
    {"buffer", TOK_BUFFER},
    {"checkpoint", TOK_CHECKPOINT},
    {"const", TOK_CONST},
    {"cpu", TOK_DEVICE},
    {"cuda", TOK_DEVICE},
    {"else", TOK_ELSE},
    {"extern", TOK_EXTERN},
    {"false", TOK_FALSE},
    {"fn", TOK_FN},
    {"for", TOK_FOR},
    {"if", TOK_IF},
    {"import", TOK_IMPORT},
    {"in", TOK_IN},
    {"let", TOK_LET},
    {"module", TOK_MODULE},
    {"no_grad", TOK_NO_GRAD},
    {"none", TOK_NONE},
    {"not", TOK_NOT},
    {"on", TOK_ON},
    {"or", TOK_OR},
    {"param", TOK_PARAM},
    {"return", TOK_RETURN},
    {"scan", TOK_SCAN},
    {"true", TOK_TRUE},
    {"with", TOK_WITH},
    {"yield", TOK_YIELD},
    {"f64", TOK_DTYPE},
    {"f32", TOK_DTYPE},
    {"bf16", TOK_DTYPE},
    {"f16", TOK_DTYPE},
    {"i64", TOK_DTYPE},
    {"i32", TOK_DTYPE},
    {"i16", TOK_DTYPE},
    {"i8", TOK_DTYPE},
    {"u8", TOK_DTYPE},
    {"bool", TOK_DTYPE},
    /* names wherever the grammar wants a name */
    {"grad", TOK_GRAD},
    {"group", TOK_GROUP},
    {"model", TOK_MODEL},
    {"optimizer", TOK_OPTIMIZER},
    {"tenon", TOK_TENON},
    {"test", TOK_TEST},
    {"train", TOK_TRAIN},
};

void scan_error(Parser *p, Span at, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    diag_vreport(p->ctx->diags, DIAG_lexical, at, fmt, ap);
    va_end(ap);
    p->is_bad = true;
}

/* ---- layout ---- */

void scan_newline(Parser *p, Span at)
{
    if (!p->newline)
        p->newline_at = at;
    p->newline = true;
    p->line_has_token = false;
    p->line++;
}

/* `##` lines directly above a token document it; the ones at the head of a file, with something
 * else between, document the file. `##` after code on a line is a plain comment. */
void scan_comment(Parser *p, Span at, const char *text, size_t n)
{
    (void)at;
    if (n < 2 || text[1] != '#' || p->line_has_token)
        return;
    const size_t skip = n > 2 && text[2] == ' ' ? 3 : 2;
    while (n > skip && (text[n - 1] == '\r' || text[n - 1] == ' '))
        n--;
    const char *line = arena_strndup(p->arena, text + skip, n > skip ? n - skip : 0);
    if (p->doc && p->doc_line == p->line - 1) {
        p->doc = arena_printf(p->arena, "%s\n%s", p->doc, line);
    } else {
        if (p->doc && !p->seen_token && !p->out->doc)
            p->out->doc = p->doc;
        p->doc = line;
    }
    p->doc_line = p->line;
}

static void take_doc(Parser *p, Span at)
{
    if (!p->doc)
        return;
    if (p->doc_line == p->line - 1)
        vec_push(p->arena, &p->docs, ((Doc){at.start, p->doc}));
    else if (!p->seen_token && !p->out->doc)
        p->out->doc = p->doc;
    p->doc = NULL;
}

static int indent_of(const Parser *p, Span at)
{
    const char *text = source_file(p->ctx->sources, p->file)->text;
    int indent = 0;
    for (uint32_t i = at.start; i > 0 && text[i - 1] != '\n'; i--)
        indent++;
    return indent;
}

void scan_place(Parser *p, Token *t)
{
    take_doc(p, t->value.at);
    /* the text's documentation may stand below the version */
    p->seen_token = t->kind != TOK_TENON && p->last != TOK_TENON;
    t->newline = p->newline || !p->line_has_token;
    if (!p->line_has_token)
        p->indent = indent_of(p, t->value.at);
    t->newline_at = p->newline ? p->newline_at : t->value.at;
    t->line = p->line;
    t->indent = p->indent;
    t->is_bad = p->is_bad;
    p->is_bad = false;
    p->newline = false;
    p->line_has_token = true;
}

/* ---- words ---- */

static void fill_sym(Parser *p, TokenValue *v, Span at, const char *text, size_t n)
{
    v->at = at;
    v->sym = sym_intern(p->ctx->names, text, n);
}

static int keyword(const char *text, size_t n)
{
    for (size_t i = 0; i < ARRAY_LEN(keywords); i++)
        if (keywords[i].text[0] == text[0] && !strncmp(keywords[i].text, text, n) &&
            !keywords[i].text[n])
            return keywords[i].kind;
    return TOK_IDENT;
}

int scan_word(Parser *p, TokenValue *v, Span at, const char *text, size_t n)
{
    fill_sym(p, v, at, text, n);
    const int kind = p->last == TOK_DOT ? TOK_IDENT : keyword(text, n);
    if (kind == TOK_DEVICE)
        v->i = text[1] == 'p' ? -1 : 0;
    return kind;
}

int scan_device(Parser *p, TokenValue *v, Span at, const char *text, size_t n)
{
    fill_sym(p, v, at, text, n);
    errno = 0;
    v->i = strtol(text + strlen("cuda:"), NULL, 10);
    if (errno || v->i > 1023) {
        diag_report(p->ctx->diags, DIAG_bad_number, at, "there is no such GPU");
        v->i = 0;
    }
    return TOK_DEVICE;
}

bool scan_can_end(int kind)
{
    switch (kind) {
    case TOK_IDENT:
    case TOK_INT:
    case TOK_FLOAT:
    case TOK_STRING:
    case TOK_DEVICE:
    case TOK_DTYPE:
    case TOK_TRUE:
    case TOK_FALSE:
    case TOK_NONE:
    case TOK_RETURN:
    case TOK_FN:
    case TOK_MODULE:
    case TOK_GRAD:
    case TOK_GROUP:
    case TOK_MODEL:
    case TOK_OPTIMIZER:
    case TOK_TENON:
    case TOK_TEST:
    case TOK_TRAIN:
    case TOK_RPAREN:
    case TOK_RBRACKET:
    case TOK_RBRACE:
        return true;
    default:
        return false;
    }
}

bool scan_after_value(const Parser *p)
{
    return scan_can_end(p->last) && !p->newline;
}

/* ---- numbers and strings ---- */

/* The text without its `_`, and in the form that strtod wants in this locale. */
static char *plain_number(Parser *p, const char *text, size_t n)
{
    char *s = arena_strndup(p->arena, text, n), *d = s;
    for (size_t i = 0; i < n; i++)
        if (text[i] != '_')
            *d++ = text[i] == '.' ? *localeconv()->decimal_point : text[i];
    *d = 0;
    return s;
}

int scan_int(Parser *p, TokenValue *v, Span at, const char *text, size_t n)
{
    v->at = at;
    errno = 0;
    v->i = strtoll(plain_number(p, text, n), NULL, 10);
    if (errno == ERANGE) {
        diag_report(p->ctx->diags, DIAG_bad_number, at, "an int has at most 64 bits");
        v->i = 0;
    }
    return TOK_INT;
}

int scan_float(Parser *p, TokenValue *v, Span at, const char *text, size_t n)
{
    v->at = at;
    v->f = strtod(plain_number(p, text, n), NULL);
    if (isinf(v->f)) {
        diag_report(p->ctx->diags, DIAG_bad_number, at, "too large for a float");
        v->f = 0;
    }
    return TOK_FLOAT;
}

int scan_string(Parser *p, TokenValue *v, Span at, const char *text, size_t n)
{
    const char *end = text + n - (n > 1 && text[n - 1] == *text);
    char *out = arena_alloc(p->arena, n + 1), *d = out;
    for (const char *s = text + 1; s < end; s++) {
        if (*s != '\\' || s + 1 == end) {
            *d++ = *s;
            continue;
        }
        switch (*++s) {
        case 'n':
            *d++ = '\n';
            break;
        case 't':
            *d++ = '\t';
            break;
        case '"':
        case '\\':
            *d++ = *s;
            break;
        default: {
            const uint32_t place = at.start + (uint32_t)(s - 1 - text);
            scan_error(p, (Span){at.file, place, place + 2},
                       "unknown escape \\%c: there are \\n \\t \\\" \\\\", *s);
        }
        }
    }
    v->at = at;
    v->text = out;
    v->ntext = (uint32_t)(d - out);
    return TOK_STRING;
}
