/* main.c: the command `tenon`. SPDX-License-Identifier: MIT */
#include "frontend/drive.h"

#include <stdio.h>
#include <string.h>

/* What a message's code means. */
static int explain(const char *code)
{
    enum { ERROR, WARNING, EXTRA };
    static const struct {
        const char *code, *name, *text;
        int severity;
    } rows[] = {
#define DIAG(code, name, severity, text) {#code, #name, text, severity},
#include "ir/base/diag.def"
#undef DIAG
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *name = rows[i].name;
        if (strcmp(rows[i].code, code))
            continue;
        printf("%s (%s), %s: %s\n", code, name, rows[i].severity == ERROR ? "error" : "warning",
               rows[i].text);
        if (rows[i].severity == WARNING)
            printf("-Wno-%s turns it off, -Werror makes it an error.\n", name);
        if (rows[i].severity == EXTRA)
            printf("Off unless -W%s or -Wall asks for it; -Werror makes it an error.\n", name);
        puts("-fdiagnostics=json prints this code with each message of the kind.");
        return STATUS_DONE;
    }
    return message_error(STATUS_USAGE,
                         "there is no message '%s': -fdiagnostics=json prints the codes, such as "
                         "E0401",
                         code);
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
