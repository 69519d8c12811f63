/* message.h: errors of the command that have no place in a text. SPDX-License-Identifier: MIT */
#ifndef TENON_MESSAGE_H
#define TENON_MESSAGE_H

#include <stdarg.h>

/** Prints "tenon: error: ..." to standard error; gives `status` back. */
int message_error(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int message_verror(int status, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

#endif
