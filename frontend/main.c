/* main.c: the command `tenon`. SPDX-License-Identifier: MIT */
#include "frontend/drive.h"

#include <stdio.h>
#include <string.h>

/* What a message's code means. */
static int explain(const char *code)
{
    static const struct {
        const char *code, *text;
    } rows[] = {
#define DIAG(code, name, severity, text) {#code, text},
#include "ir/base/diag.def"
#undef DIAG
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].code, code)) {
            printf("%s: %s\n", rows[i].code, rows[i].text);
            return STATUS_DONE;
        }
    return message_error(STATUS_USAGE, "there is no message '%s'", code);
}

static int run(Arena *a, int argc, char **argv)
{
    Options o = {0};
    StrBuf message = {.a = a};
    if (!options_parse(a, argc, argv, &o, &message))
        return message_error(STATUS_USAGE, "%s", sb_text(&message));
    if (o.mode == MODE_help) {
        StrBuf help = {.a = a};
        options_help(&help);
        fputs(sb_text(&help), stdout);
        return STATUS_DONE;
    }
    if (o.mode == MODE_version) {
        puts("tenon " TENON_VERSION);
        return STATUS_DONE;
    }
    if (o.mode == MODE_explain)
        return explain(o.explain);
    Compile *c = compile_create(o.file);
    Drive d = {.o = &o, .c = c, .a = a};
    const int status = drive(&d);
    compile_destroy(c);
    return status;
}

int main(int argc, char **argv)
{
    message_streams();
    Arena *a = arena_create();
    int status = run(a, argc, argv);
    arena_destroy(a);
    if (fflush(stdout) || ferror(stdout)) {
        fputs("tenon: error: cannot write the output\n", stderr);
        status = status ? status : STATUS_INPUT;
    }
    return status;
}
