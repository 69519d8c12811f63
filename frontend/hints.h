/* hints.h: how what is known from PyTorch and Python is written here. SPDX-License-Identifier: MIT
 */
#ifndef TENON_FRONTEND_HINTS_H
#define TENON_FRONTEND_HINTS_H

#include "ir/base/diag.h"

typedef enum { HINT_name, HINT_member, HINT_type, HINT_word } HintPlace;

/** The note of hints.def for `n` bytes of text at this place, or NULL. */
const char *hint_for(HintPlace place, const char *text, size_t n);

/** Gives the message that note, if there is one. */
bool hint_note(Diags *diags, Diag *d, HintPlace place, const char *text);

#endif
