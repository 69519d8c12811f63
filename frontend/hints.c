/* hints.c: looks up hints.def. SPDX-License-Identifier: MIT */
#include "frontend/hints.h"

#include <string.h>

const char *hint_for(HintPlace place, const char *text, size_t n)
{
    static const struct {
        HintPlace place;
        const char *text, *note;
    } rows[] = {
#define HINT(place, text, note) {HINT_##place, text, note},
#include "frontend/hints.def"
#undef HINT
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].place == place && strlen(rows[i].text) == n && !memcmp(rows[i].text, text, n))
            return rows[i].note;
    return NULL;
}

bool hint_note(Diags *diags, Diag *d, HintPlace place, const char *text)
{
    const char *note = hint_for(place, text, strlen(text));
    if (note)
        diag_note(diags, d, (Span){0}, "%s", note);
    return note != NULL;
}
