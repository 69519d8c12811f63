/* stop.h: signals that ask the command to stop (Ctrl-C, SIGTERM, a hangup), where it must not die
 * at once: files are half written, or a state is worth saving. SPDX-License-Identifier: MIT */
#ifndef TENON_STOP_H
#define TENON_STOP_H

#include <signal.h>

enum { STOP_SIGNALS = 3 };
typedef struct {
    struct sigaction before[STOP_SIGNALS];
} StopGuard;

/** From here on such a signal is only noted. One that whoever started us has turned off stays so.
 */
void stop_guard(StopGuard *g);
/** From here on they do again what they did before. */
void stop_release(const StopGuard *g);
/** The number of the signal that came since stop_guard, or 0. */
int stop_signal(void);

#endif
