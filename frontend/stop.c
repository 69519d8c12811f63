/* stop.c: see stop.h. SPDX-License-Identifier: MIT */
#include "frontend/stop.h"

#include <stddef.h>

static const int signals[STOP_SIGNALS] = {SIGINT, SIGTERM, SIGHUP};

/* A handler has no argument to put it into. */
static volatile sig_atomic_t noted;

static void note(int number)
{
    noted = number;
}

void stop_guard(StopGuard *g)
{
    struct sigaction act = {.sa_handler = note, .sa_flags = SA_RESTART};
    sigemptyset(&act.sa_mask);
    noted = 0;
    for (int i = 0; i < STOP_SIGNALS; i++) {
        sigaction(signals[i], NULL, &g->before[i]);
        if (g->before[i].sa_handler != SIG_IGN)
            sigaction(signals[i], &act, NULL);
    }
}

void stop_release(const StopGuard *g)
{
    for (int i = 0; i < STOP_SIGNALS; i++)
        sigaction(signals[i], &g->before[i], NULL);
}

int stop_signal(void)
{
    return noted;
}
