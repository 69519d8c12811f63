/* message.c: errors of the command. SPDX-License-Identifier: MIT */
#include "frontend/message.h"

#include <fcntl.h>
#include <stdio.h>

void message_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            return;
}

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
