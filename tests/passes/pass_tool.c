/* pass_tool.c: runs the passes over a .tir file.
 *   pass_tool PASS FILE    prints the program behind that pass (as -E=ir:PASS does)
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "passes/pass.h"

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: pass_tool PASS FILE\n");
        return 2;
    }
    Ctx *cx = ctx_create();
    StrBuf out = {.a = cx->perm}, messages = {.a = cx->perm};
    uint32_t file = source_read(cx->sources, argv[2], false);
    if (!file) {
        fprintf(stderr, "pass_tool: cannot read %s\n", argv[2]);
        return 2;
    }
    Program *p = tensor_parse(cx, file);
    PassOptions o = {.level = 2, .deterministic = true, .stop_after = argv[1], .verify = true,
                     .dump = &out};
    bool ok = p && passes_run(p, &o);
    diag_render(cx->diags, (DiagStyle){0}, &messages);
    fputs(sb_text(&messages), stdout);
    fputs(sb_text(&out), stdout);
    ctx_destroy(cx);
    return ok ? 0 : 1;
}
