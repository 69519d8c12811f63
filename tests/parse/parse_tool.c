/* parse_tool.c: prints the tree of a file, then its messages; the golden tests compare both.
 * With -q only the messages. Exit status 1 when there are any. SPDX-License-Identifier: MIT */
#include "frontend/ast.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const bool quiet = argc > 2 && !strcmp(argv[1], "-q");
    Arena *arena = arena_create();
    Interner *names = intern_create(arena);
    Sources *sources = sources_create(arena);
    Diags *diags = diags_create(arena, sources);
    const ParseCtx ctx = {arena, names, sources, diags};
    StrBuf out = {.a = arena};
    for (int i = quiet ? 2 : 1; i < argc; i++) {
        const uint32_t file = source_read(sources, argv[i], false);
        if (!file) {
            fprintf(stderr, "cannot read %s\n", argv[i]);
            return 2;
        }
        const AstFile *ast = parse_file(&ctx, file);
        if (!quiet)
            ast_print(&out, names, ast);
    }
    diag_render(diags, (DiagStyle){.limit = 1000}, &out);
    fputs(sb_text(&out), stdout);
    const bool failed = diag_count(diags) > 0;
    arena_destroy(arena);
    return failed;
}
