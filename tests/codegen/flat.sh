#!/bin/bash
# flat.sh TENON: the functions of an object's kernels for newer processors hold all that they compute:
# a call of a function made for any processor would cost more than the rest. And rows ask for memory
# ahead: what the last loop of a softmax stores to, and the next row; so do maps that stream.
# SPDX-License-Identifier: MIT
set -eu
tenon=$1 here=$(cd "$(dirname "$0")" && pwd) work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ "$(uname -m)" = x86_64 ] && command -v objdump >/dev/null || exit 77
"$tenon" -c -g -target=cpu "$here/flat.tn" -o "$work/rows.o"
objdump -d --no-show-raw-insn "$work/rows.o" >"$work/text"
fast=$(grep -c '^[0-9a-f]* <rows_.*_\(fast\|wide\)>:' "$work/text" || true)
[ "$fast" -gt 4 ] || { echo "flat.sh: only $fast functions for newer processors" >&2; exit 1; }
if awk '/^[0-9a-f]+ <.*>:$/ { f = $2 } /call/ && f ~ /_(fast|wide)>/ && /<(tn_|fmaf?[@>])/ { print f, $NF; n++ }
        END { exit !n }' "$work/text"; then
    echo "flat.sh: these are called, not part of the kernel" >&2
    exit 1
fi
"$tenon" -S -target=cpu "$here/flat.tn" -o "$work/text.c"
for line in 'TN_AHEAD_STORE(&y\[' 'TN_AHEAD(&x\[' 'TN_AHEAD_STORE(&g\[i + l\]' 'TN_AHEAD(&a\[i + l\]'; do
    grep -q "$line" "$work"/text.c/rows.c || { echo "flat.sh: no $line" >&2; exit 1; }
done
