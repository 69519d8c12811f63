/* opcode.c: texts of opcodes and tables of them. SPDX-License-Identifier: MIT */
#include "tests/vgpu/op.h"

bool opcode_has(const Opcode *o, const char *part)
{
    for (int k = 1; k < o->n; k++)
        if (!strcmp(o->part[k], part))
            return true;
    return false;
}

uint16_t opcode_mxcsr(const Opcode *o)
{
    static const struct {
        const char *part;
        uint16_t bits;
    } modes[] = {{"rn", MXCSR_NEAREST},
                 {"rm", MXCSR_NEAREST | MXCSR_DOWN},
                 {"rp", MXCSR_NEAREST | MXCSR_UP},
                 {"rz", MXCSR_NEAREST | MXCSR_ZERO},
                 {"ftz", MXCSR_NEAREST | MXCSR_FLUSH}};
    uint16_t bits = 0;
    for (size_t k = 0; k < sizeof modes / sizeof *modes; k++)
        if (opcode_has(o, modes[k].part))
            bits |= modes[k].bits;
    return bits;
}

static bool is_dropped(const char *part, const char *const *dropped)
{
    for (; *dropped; dropped++)
        if (!strcmp(part, *dropped))
            return true;
    return false;
}

bool opcode_key(const Opcode *o, const char *const *dropped, char *out, size_t size)
{
    size_t at = 0;
    for (int k = 0; k < o->n; k++) {
        if (k > 0 && is_dropped(o->part[k], dropped))
            continue;
        size_t n = strlen(o->part[k]);
        if (at + n + 2 > size)
            return false;
        if (at)
            out[at++] = '.';
        memcpy(out + at, o->part[k], n);
        at += n;
    }
    out[at] = '\0';
    return true;
}

const Row *row_find(const Row *rows, size_t n, const char *key)
{
    for (size_t k = 0; k < n; k++)
        if (!strcmp(rows[k].key, key))
            return &rows[k];
    return NULL;
}

bool row_rule(const Row *row, Rule *out)
{
    if (!row)
        return false;
    out->exec = row->exec;
    out->count = row->count;
    memcpy(out->takes, row->takes, sizeof out->takes);
    return true;
}
