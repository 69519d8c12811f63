#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""embed_std.py OUT.c FILE.tn...: the standard library as a C file that defines std_text()."""
import os
import sys


def main():
    out = ['/* Made by embed_std.py from frontend/std. */', '#include "frontend/elaborate.h"', '',
           '#include <string.h>', '']
    names = []
    for path in sys.argv[2:]:
        name = os.path.splitext(os.path.basename(path))[0]
        names.append(name)
        with open(path, encoding='utf-8') as f:
            data = f.read().encode('utf-8')
        # an array of characters: a string literal may not be that long in C11
        out.append(f'static const char {name}_text[] = {{')
        for i in range(0, len(data), 24):
            out.append('    ' + ', '.join(str(b if b < 128 else b - 256) for b in data[i:i + 24]) + ',')
        out.append('    0};')
        out.append('')
    out.append('const char *std_text(const char *name)')
    out.append('{')
    for name in names:
        out.append(f'    if (strcmp(name, "{name}") == 0)')
        out.append(f'        return {name}_text;')
    out.append('    return NULL;')
    out.append('}')
    with open(sys.argv[1], 'w', encoding='utf-8') as f:
        f.write('\n'.join(out) + '\n')


main()
