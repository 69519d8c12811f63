/* message.c: errors of the command. SPDX-License-Identifier: MIT */
#include "frontend/message.h"

#include <stdio.h>

int message_verror(int status, const char *fmt, va_list ap)
{
    fflush(stdout); /* what was printed before comes before */
    fputs("tenon: error: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    return status;
}

int message_error(int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    message_verror(status, fmt, ap);
    va_end(ap);
    return status;
}

void message_warning(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fflush(stdout);
    fputs("tenon: warning: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
}
