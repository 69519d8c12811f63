/* lex.h: PTX text as an array of tokens. SPDX-License-Identifier: MIT */
#ifndef VGPU_LEX_H
#define VGPU_LEX_H

#include "ir/base/intern.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    TOKEN_END,
    TOKEN_WORD,   /* identifier, register, opcode with its modifiers, directive with its dot */
    TOKEN_INT,    /* value */
    TOKEN_FLOAT,  /* 0f...: bits of a float in value */
    TOKEN_DOUBLE, /* 0d... or decimal: bits of a double in value */
    TOKEN_STRING, /* without the quotes */
    TOKEN_PUNCT   /* one character, in value */
} TokenKind;

typedef struct {
    const char *text;
    uint64_t value;
    uint32_t n, line;
    Sym sym; /* of words */
    uint8_t kind;
} Token;

/** The tokens of n bytes of PTX, the last one TOKEN_END. NULL: a character that is none of PTX's,
 * *bad_line says where. Tokens point into the text. */
Token *lex(Arena *a, Interner *names, const char *text, size_t n, uint32_t *bad_line);

static inline bool token_is(const Token *t, char c)
{
    return t->kind == TOKEN_PUNCT && t->value == (uint64_t)c;
}

/** Whether it's that word. */
bool token_word(const Token *t, const char *word);

#endif
