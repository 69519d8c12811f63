/* recover.c: how many messages one slip gives. Deletes each token of each file in turn; at least 95
 * in 100 of the texts that are then wrong must give exactly one message, and none may give more
 * than eight. -v shows the texts that give more than one. SPDX-License-Identifier: MIT */
#include "frontend/ast.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    int wrong, one, most;
    int at_least; /* per cent */
    int verbose;
} Tally;

static const char *const pairs[] = {
    "->", "**", "//", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=", "*=", "/="};

static size_t word_length(const char *s)
{
    size_t n = 0;
    while (isalnum((unsigned char)s[n]) || s[n] == '_' ||
           (s[n] == '.' && isdigit((unsigned char)s[0]) && isdigit((unsigned char)s[n + 1])))
        n++;
    return n;
}

/* The length of the token at s; 0 for what is none (space, a comment's text). */
static size_t token_length(const char *s)
{
    if (isspace((unsigned char)*s))
        return 0;
    if (word_length(s))
        return word_length(s);
    if (*s == '"') {
        size_t n = 1;
        while (s[n] && s[n] != '"')
            n += s[n] == '\\' ? 2 : 1;
        return n + 1;
    }
    if (!strncmp(s, "...", 3))
        return 3;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (!strncmp(s, pairs[i], 2))
            return 2;
    return 1;
}

/* Parses the text without the n bytes at `from` and counts messages. */
static int messages_without(const char *text, size_t length, size_t from, size_t n, int show)
{
    Arena *arena = arena_create();
    Interner *names = intern_create(arena);
    Sources *sources = sources_create(arena);
    Diags *diags = diags_create(arena, sources);
    const ParseCtx ctx = {arena, names, sources, diags};
    char *part = arena_strndup(arena, text, length);
    memmove(part + from, part + from + n, length - from - n + 1);
    const uint32_t file = source_add(sources, "text", part, length - n, false);
    parse_file(&ctx, file);
    const int count = diag_count(diags);
    if (show && count > 1) {
        StrBuf out = {.a = arena};
        diag_render(diags, (DiagStyle){0}, &out);
        printf("%s\n", sb_text(&out));
    }
    arena_destroy(arena);
    return count;
}

static void delete_each(Tally *tally, const char *path, const SourceFile *file)
{
    for (size_t i = 0; i < file->n;) {
        if (file->text[i] == '#') {
            while (i < file->n && file->text[i] != '\n')
                i++;
            continue;
        }
        const size_t n = token_length(file->text + i);
        if (!n) {
            i++;
            continue;
        }
        const int count = messages_without(file->text, file->n, i, n, 0);
        tally->wrong += count > 0;
        tally->one += count == 1;
        tally->most = count > tally->most ? count : tally->most;
        if (tally->verbose && count > 1) {
            printf("%s: without '%.*s' at byte %zu: %d messages\n", path, (int)n, file->text + i, i,
                   count);
            messages_without(file->text, file->n, i, n, 1);
        }
        i += n;
    }
}

int main(int argc, char **argv)
{
    Tally tally = {.at_least = 95};
    Arena *arena = arena_create();
    Sources *sources = sources_create(arena);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-v")) {
            tally.verbose = 1;
            continue;
        }
        const uint32_t file = source_read(sources, argv[i], false);
        if (!file) {
            fprintf(stderr, "cannot read %s\n", argv[i]);
            return 2;
        }
        delete_each(&tally, argv[i], source_file(sources, file));
    }
    printf("%d wrong texts, %d with exactly one message (%.1f %%), at most %d\n", tally.wrong,
           tally.one, tally.wrong ? 100.0 * tally.one / tally.wrong : 0.0, tally.most);
    arena_destroy(arena);
    return tally.wrong < 100 || tally.one * 100 < tally.wrong * tally.at_least || tally.most > 8;
}
