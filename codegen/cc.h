/* cc.h: the C compiler of this machine. SPDX-License-Identifier: MIT */
#ifndef TENON_CC_H
#define TENON_CC_H

#include "ir/base/arena.h"

/** $CC, else "cc". */
const char *cc_name(void);
/** Its path, size and date, which change when it does; NULL if there is none. */
const char *cc_identity(Arena *a);

#endif
