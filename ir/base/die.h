/* die.h: internal errors. A user's mistake is a diagnostic (diag.h), never this.
 * SPDX-License-Identifier: MIT */
#ifndef TENON_DIE_H
#define TENON_DIE_H

/** Prints "internal error: ..." with the context and ends the process with status 4. */
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/** What is being worked on ("pass fuse", "mlp.loss"), named by `die`. NULL clears. Not copied. */
void die_context(const char *stage, const char *subject);

#define ARRAY_LEN(x) (sizeof(x) / sizeof *(x))

/* An invariant of the compiler that stays on in release builds: a wrong program is worse than none.
 */
#define CHECK(cond)                                                                                \
    do {                                                                                           \
        if (!(cond))                                                                               \
            die("%s:%d: %s does not hold", __FILE__, __LINE__, #cond);                             \
    } while (0)

#endif
