/* pass_tool.c: runs the passes over a .tir file.
 *   pass_tool [-fgrad=LIST] [-fremat=MODE] [-fno-PASS] PASS FILE
 * prints the program behind that pass, as -E=ir:PASS does.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "passes/pass.h"

int main(int argc, char **argv)
{
    const char *disabled[8];
    PassOptions o = {.level = 2, .deterministic = true, .verify = true, .disabled = disabled};
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (!strncmp(argv[i], "-fgrad=", 7))
            o.fgrad = argv[i] + 7;
        else if (!strncmp(argv[i], "-fremat=", 8))
            o.remat = argv[i] + 8;
        else if (!strncmp(argv[i], "-fno-", 5) && o.ndisabled < 8)
            disabled[o.ndisabled++] = argv[i] + 5;
        else
            break;
    }
    if (argc != i + 2) {
        fprintf(stderr, "usage: pass_tool [-fgrad=LIST] [-fremat=MODE] [-fno-PASS] PASS FILE\n");
        return 2;
    }
    argv += i - 1;
    Ctx *cx = ctx_create();
    StrBuf out = {.a = cx->perm}, messages = {.a = cx->perm};
    uint32_t file = source_read(cx->sources, argv[2], false);
    if (!file) {
        fprintf(stderr, "pass_tool: cannot read %s\n", argv[2]);
        return 2;
    }
    Program *p = tensor_parse(cx, file);
    o.stop_after = argv[1];
    o.dump = &out;
    bool ok = p && passes_run(p, &o);
    diag_render(cx->diags, (DiagStyle){0}, &messages);
    fputs(sb_text(&messages), stdout);
    fputs(sb_text(&out), stdout);
    ctx_destroy(cx);
    return ok ? 0 : 1;
}
