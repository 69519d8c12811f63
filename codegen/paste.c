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
static const char *const c_words[][2] = {{"TN_FN", "TN_INLINE"}};

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

/* --- functions for every type ------------------------------------------------------------------
 * A piece "sort_T" serves as sort_f32, sort_bf16, ..; "scatter_T_I" has a type of indices as well.
 * T_mem and I_mem are the types in memory, T_val the one that is computed in, T_load and T_store
 * convert, T_key and T_bits are those of its sort keys; other words that end in _T get the name. */

static const char *half_name(DType t, bool load)
{
    if (t != DT_f16 && t != DT_bf16)
        return NULL;
    return load ? (t == DT_f16 ? "tn_f32_from_f16" : "tn_f32_from_bf16")
                : (t == DT_f16 ? "tn_f16_from_f32" : "tn_bf16_from_f32");
}

static const char *type_word(Arena *a, const char *word, DType t, DType index)
{
    const bool wide = dtype_size(t) == 8;
    if (!strcmp(word, "T_mem"))
        return dtype_ctype(t);
    if (!strcmp(word, "I_mem"))
        return index == DT_none ? NULL : dtype_ctype(index);
    if (!strcmp(word, "T_val"))
        return dtype_ctype(dtype_compute(t));
    if (!strcmp(word, "T_load"))
        return half_name(t, true) ? half_name(t, true) : "";
    if (!strcmp(word, "T_store"))
        return half_name(t, false) ? half_name(t, false) : arena_printf(a, "(%s)", dtype_ctype(t));
    if (!strcmp(word, "T_key"))
        return wide ? "uint64_t" : "uint32_t";
    if (!strcmp(word, "T_bits"))
        return arena_printf(a, "%d", 8 * dtype_size(t));
    size_t n = strlen(word);
    if (index != DT_none && n > 4 && !strcmp(word + n - 4, "_T_I"))
        return arena_printf(a, "%.*s_%s_%s", (int)(n - 4), word, dtype_name(t), dtype_name(index));
    if (n > 2 && !strcmp(word + n - 2, "_T"))
        return arena_printf(a, "%.*s_%s", (int)(n - 2), word, dtype_name(t));
    return NULL;
}

/* An instance with a hook: "attention_with_y_f32" is attention_f32 that calls y_score. */
typedef struct {
    const char *base, *hook; /* "attention", "y" */
} With;

static const char *hooked_word(Arena *a, const char *word, const With *with, DType t)
{
    if (!with)
        return NULL;
    if (!strcmp(word, "tn_hook_score"))
        return arena_printf(a, "%s_score", with->hook);
    if (!strcmp(word, arena_printf(a, "tn_%s_T", with->base)))
        return arena_printf(a, "tn_%s_with_%s_%s", with->base, with->hook, dtype_name(t));
    return NULL;
}

static const char *typed_piece(Arena *a, const TextPiece *piece, DType t, DType index,
                               const With *with)
{
    StrBuf out = {.a = a};
    if (with)
        sb_printf(
            &out,
            "TN_FN void %s_score(const void *hook, float *restrict score, float *restrict slope, "
            "int64_t b, int64_t h,\n    int64_t i, int64_t first, int64_t n);\n",
            with->hook);
    for (size_t i = 0; i < piece->ntext;) {
        size_t len = 0;
        while (i + len < piece->ntext && is_word(piece->text[i + len]))
            len++;
        if (!len) {
            sb_putc(&out, piece->text[i++]);
            continue;
        }
        const char *word = arena_strndup(a, piece->text + i, len);
        const char *now = hooked_word(a, word, with, t);
        now = now ? now : type_word(a, word, t, index);
        sb_puts(&out, now ? now : word);
        i += len;
    }
    return sb_text(&out);
}

static const char *made_for_types(Arena *a, const char *name)
{
    const char *last = strrchr(name, '_');
    const DType t = last ? dtype_parse(last + 1) : DT_none;
    if (t == DT_none)
        return NULL;
    const int n = (int)(last - name);
    const TextPiece *piece = find_piece(arena_printf(a, "%.*s_T", n, name));
    if (piece)
        return typed_piece(a, piece, t, DT_none, NULL);
    const char *mark = strstr(name, "_with_");
    if (mark) {
        const With with = {arena_strndup(a, name, (size_t)(mark - name)),
                           arena_strndup(a, mark + 6, (size_t)(last - mark - 6))};
        piece = find_piece(arena_printf(a, "%s_T", with.base));
        return piece ? typed_piece(a, piece, t, DT_none, &with) : NULL;
    }
    const char *front = arena_strndup(a, name, (size_t)n), *first = strrchr(front, '_');
    const DType value = first ? dtype_parse(first + 1) : DT_none;
    if (value == DT_none)
        return NULL;
    piece = find_piece(arena_printf(a, "%.*s_T_I", (int)(first - front), front));
    return piece ? typed_piece(a, piece, value, t, NULL) : NULL;
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
    const char *typed = made_for_types(p->a, copy);
    if (typed) {
        need_all(p, typed, strlen(typed));
        put_translated(p, typed, strlen(typed));
        sb_putc(p->out, '\n');
        return;
    }
    const char *made = row_function(p->a, p->target, copy);
    if (made) {
        need_all(p, made, strlen(made));
        sb_printf(p->out, "%s\n", made);
    }
}

/* Calls are "tn_NAME(", of templates "tn_NAME<". */
static void need_all(Paste *p, const char *text, size_t n)
{
    for (size_t i = 0; i + 3 < n; i++) {
        if (memcmp(text + i, "tn_", 3) || (i && is_word(text[i - 1])))
            continue;
        size_t len = 3;
        while (i + len < n && is_word(text[i + len]))
            len++;
        if (i + len < n && (text[i + len] == '(' || text[i + len] == '<'))
            need(p, text + i + 3, len - 3);
        i += len - 1;
    }
}

void paste_functions(Arena *a, Target target, const char *text, StrBuf *out)
{
    Paste p = {.a = a, .target = target, .out = out};
    need_all(&p, text, strlen(text));
}
