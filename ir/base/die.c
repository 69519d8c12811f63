/* die.c: the one place where the compiler gives up.
 * SPDX-License-Identifier: MIT */
#include "ir/base/die.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static _Thread_local const char *stage, *subject;

void die_context(const char *new_stage, const char *new_subject)
{
    stage = new_stage;
    subject = new_subject;
}

_Noreturn void die(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fflush(stdout);
    fputs("tenon: internal error", stderr);
    if (stage)
        fprintf(stderr, " in %s", stage);
    if (subject)
        fprintf(stderr, ", %s", subject);
    fputs(": ", stderr);
    vfprintf(stderr, fmt, ap);
    fputs("\nplease report this with the input that caused it\n", stderr);
    va_end(ap);
    exit(4);
}
