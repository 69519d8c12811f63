/* paste.c: see paste.h. In the library texts each function begins with a line that names it and
 * what it needs, and ends at the next line that begins with a brace; embed.c finds them.
 * SPDX-License-Identifier: MIT */
#include "codegen/paste.h"
#include "codegen/optext.h"
#include "codegen/texts.h"
#include "ir/base/die.h"

#include <ctype.h>
#include <string.h>

typedef struct {
    Arena *a;
    Target target;
    VEC(const char *) done;
    StrBuf *out;
} Paste;

static const TextPiece *find_piece(const char *name)
{
    size_t lo = 0, hi = codegen_npieces;
    while (lo < hi) {
        const size_t mid = (lo + hi) / 2;
        const int c = strcmp(codegen_pieces[mid].name, name);
        if (!c)
            return &codegen_pieces[mid];
        if (c < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

bool paste_has(const char *name)
{
    return find_piece(name) != NULL;
}

/* --- C's types in CUDA ---------------------------------------------------------------------------
 */

static const char *const cuda_words[][2] = {
    {"TN_FN", "static __device__ __forceinline__"},
    {"uint8_t", "unsigned char"},
    {"int8_t", "signed char"},
    {"uint16_t", "unsigned short"},
    {"int16_t", "short"},
    {"uint32_t", "unsigned"},
    {"int32_t", "int"},
    {"uint64_t", "unsigned long long"},
    {"int64_t", "long long"},
    {"INT32_MIN", "(-2147483647 - 1)"},
    {"INT32_MAX", "2147483647"},
    {"INT64_MIN", "(-9223372036854775807LL - 1)"},
    {"INT64_MAX", "9223372036854775807LL"},
    {"UINT64_MAX", "18446744073709551615ULL"},
};
static const char *const c_words[][2] = {{"TN_FN", "static inline"}};

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void put_translated(Paste *p, const char *text, size_t n)
{
    const char *const(*words)[2] = p->target == TARGET_CUDA ? cuda_words : c_words;
    size_t nwords = p->target == TARGET_CUDA ? ARRAY_LEN(cuda_words) : ARRAY_LEN(c_words);
    for (size_t i = 0; i < n;) {
        size_t len = 0;
        while (i + len < n && is_word(text[i + len]))
            len++;
        if (!len) {
            sb_putc(p->out, text[i++]);
            continue;
        }
        size_t w;
        for (w = 0; w < nwords; w++)
            if (strlen(words[w][0]) == len && !memcmp(words[w][0], text + i, len))
                break;
        if (w < nwords)
            sb_puts(p->out, words[w][1]);
        else
            sb_write(p->out, text + i, len);
        i += len;
    }
}

/* --- what is needed ------------------------------------------------------------------------------
 */

static void need_all(Paste *p, const char *text, size_t n);

static void need(Paste *p, const char *name, size_t n)
{
    for (uint32_t i = 0; i < p->done.n; i++)
        if (strlen(p->done.at[i]) == n && !memcmp(p->done.at[i], name, n))
            return;
    const char *copy = arena_strndup(p->a, name, n);
    vec_push(p->a, &p->done, copy);
    const TextPiece *piece = find_piece(copy);
    if (piece) {
        need_all(p, piece->text, piece->ntext);
        put_translated(p, piece->text, piece->ntext);
        sb_putc(p->out, '\n');
        return;
    }
    const char *made = row_function(p->a, p->target, copy);
    if (made) {
        need_all(p, made, strlen(made));
        sb_printf(p->out, "%s\n", made);
    }
}

/* Calls are "tn_NAME(". */
static void need_all(Paste *p, const char *text, size_t n)
{
    for (size_t i = 0; i + 3 < n; i++) {
        if (memcmp(text + i, "tn_", 3) || (i && is_word(text[i - 1])))
            continue;
        size_t len = 3;
        while (i + len < n && is_word(text[i + len]))
            len++;
        if (i + len < n && text[i + len] == '(')
            need(p, text + i + 3, len - 3);
        i += len - 1;
    }
}

void paste_functions(Arena *a, Target target, const char *text, StrBuf *out)
{
    Paste p = {.a = a, .target = target, .out = out};
    need_all(&p, text, strlen(text));
}
