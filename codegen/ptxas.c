/* ptxas.c: see ptxas.h. SPDX-License-Identifier: MIT */
#include "codegen/ptxas.h"

#include "ir/base/strbuf.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number before `what` in a line: "Used 16 registers, 48 bytes smem". */
static int number_before(const char *line, const char *what)
{
    const char *at = strstr(line, what);
    while (at && at > line && at[-1] == ' ')
        at--;
    while (at && at > line && at[-1] >= '0' && at[-1] <= '9')
        at--;
    return at ? atoi(at) : 0;
}

/* The text between the first two of `quote`. */
static const char *between(Arena *a, const char *line, char quote)
{
    const char *from = strchr(line, quote), *to = from ? strchr(from + 1, quote) : NULL;
    return to ? arena_strndup(a, from + 1, (size_t)(to - from - 1)) : "";
}

static void read_line(Arena *a, const char *line, KernelUses *out)
{
    if (strstr(line, "Compiling entry function")) {
        const KernelUse use = {.kernel = between(a, line, '\'')};
        vec_push(a, out, use);
        return;
    }
    KernelUse *use = out->n ? &out->at[out->n - 1] : NULL;
    if (!use)
        return;
    if (strstr(line, "bytes stack frame")) { /* of the kernel and, summed, of what it calls */
        use->stack += number_before(line, "bytes stack frame");
        use->spill_stores += number_before(line, "bytes spill stores");
        use->spill_loads += number_before(line, "bytes spill loads");
    } else if (strstr(line, "registers")) {
        use->registers = number_before(line, "registers");
        use->shared = number_before(line, "bytes smem");
    }
}

static bool is_info(const char *line)
{
    return !*line || !strncmp(line, "ptxas info", 10) || strstr(line, "bytes stack frame");
}

const char *ptxas_read(Arena *a, const char *log, KernelUses *out)
{
    StrBuf rest = {.a = a};
    while (*log) {
        const size_t n = strcspn(log, "\n");
        const char *line = arena_strndup(a, log, n);
        if (is_info(line))
            read_line(a, line, out);
        else
            sb_printf(&rest, "%s\n", line);
        log += n + (log[n] == '\n');
    }
    return sb_text(&rest);
}

const KernelUse *ptxas_find(const KernelUses *uses, const char *kernel)
{
    for (uint32_t i = 0; i < uses->n; i++)
        if (!strcmp(uses->at[i].kernel, kernel))
            return &uses->at[i];
    return NULL;
}
