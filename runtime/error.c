/* error.c: statuses and the message of the thread's last failure. SPDX-License-Identifier: MIT */
#include "runtime/rt.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char message[2048];

const char *tn_last_error(void)
{
    return message;
}

const char *tn_version(void)
{
    return TENON_VERSION;
}

const char *tn_strerror(tn_status s)
{
    static const char *const text[] = {
        "done",
#define TN_ERROR(name, words) words,
#include "runtime/include/tenon_errors.def"
#undef TN_ERROR
    };
    return (unsigned)s < TN_STATUS_COUNT ? text[s] : "unknown status";
}

tn_status tn__fail(tn_status s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    return s;
}
