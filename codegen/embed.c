/* embed.c: build tool: prints files as C strings, and a table of the functions in them that begin
 * with a line "/" "*@ NAME: what it needs" and end at the next line that begins with a brace. embed
 * [NAME FILE]... to standard output. SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PIECES = 1024 };

typedef struct {
    const char *array; /* the string it is part of */
    char name[64];
    size_t first, n; /* bytes of the string */
} Piece;

typedef struct {
    Piece at[MAX_PIECES];
    size_t n;
} Pieces;

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t cap = 0, got = 0;
    *n = 0;
    do {
        cap = cap ? cap * 2 : 65536;
        char *bigger = realloc(text, cap);
        if (!f || !bigger)
            break;
        text = bigger;
        got = fread(text + *n, 1, cap - 1 - *n, f);
        *n += got;
    } while (*n == cap - 1);
    int bad = !f || !text || ferror(f);
    if (bad)
        perror(path);
    if (f)
        fclose(f);
    if (bad) {
        free(text);
        return NULL;
    }
    text[*n] = 0;
    return text;
}

static int find_pieces(const char *array, const char *text, Pieces *all)
{
    for (const char *at = strstr(text, "/*@ "); at; at = strstr(at, "/*@ ")) {
        const char *name = at + 4, *colon = strchr(name, ':'), *line = strchr(name, '\n');
        const char *end = line ? strstr(line, "\n}") : NULL;
        if (!colon || !end || (size_t)(colon - name) >= sizeof all->at[0].name ||
            all->n == MAX_PIECES) {
            fprintf(stderr, "%s: a function without name or end\n", array);
            return 1;
        }
        Piece *p = &all->at[all->n++];
        *p = (Piece){
            .array = array, .first = (size_t)(line + 1 - text), .n = (size_t)(end + 3 - line - 1)};
        p->n += end[2] == ';'; /* of a struct */
        memcpy(p->name, name, (size_t)(colon - name));
        at = end;
    }
    return 0;
}

static int embed(const char *name, const char *path, Pieces *all)
{
    size_t n;
    char *text = read_file(path, &n);
    if (!text)
        return 1;
    printf("const char %s[] = {", name);
    for (size_t i = 0; i < n; i++)
        printf("%s%d,", i % 24 ? "" : "\n    ", text[i]);
    printf("0};\n");
    int bad = find_pieces(name, text, all);
    free(text);
    return bad;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const Piece *)a)->name, ((const Piece *)b)->name);
}

static void print_pieces(Pieces *all)
{
    qsort(all->at, all->n, sizeof all->at[0], by_name);
    printf("const TextPiece codegen_pieces[] = {\n");
    for (size_t i = 0; i < all->n; i++)
        printf("    {\"%s\", %s + %zu, %zu},\n", all->at[i].name, all->at[i].array,
               all->at[i].first, all->at[i].n);
    printf("};\nconst size_t codegen_npieces = %zu;\n", all->n);
}

int main(int argc, char **argv)
{
    Pieces *all = calloc(1, sizeof *all);
    int bad = !all;
    printf("#include \"codegen/texts.h\"\n\n");
    for (int i = 1; i + 1 < argc && !bad; i += 2)
        bad = embed(argv[i], argv[i + 1], all);
    if (!bad)
        print_pieces(all);
    free(all);
    return bad || fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS;
}
