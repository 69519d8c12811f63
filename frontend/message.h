/* message.h: errors of the command that have no place in a text. SPDX-License-Identifier: MIT */
#ifndef TENON_MESSAGE_H
#define TENON_MESSAGE_H

#include <stdarg.h>

/** At the head of main: a standard stream that is closed must not become the first file that is
 * opened, or what is printed would go into it. Writes to this one fail, as they should. */
void message_streams(void);
/** Prints "tenon: error: ..." to standard error; gives `status` back. */
int message_error(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Prints "tenon: warning: ..." to standard error; the status stays what it is. */
void message_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
int message_verror(int status, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));

#endif
