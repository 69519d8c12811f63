#!/bin/bash
# lines.sh: what -g promises: the text stays what it is, and debuggers find the model's lines.
# SPDX-License-Identifier: MIT
set -euo pipefail
tenon=${TENON:?} check=${NVRTC_CHECK:?}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "lines.sh: $*" >&2; exit 1; }

cp "$here/../models/lltm.tn" "$dir"
cd "$dir"
"$tenon" -S lltm.tn -target=cpu,cuda -o plain/
"$tenon" -S -g lltm.tn -target=cpu,cuda -o debug/
for ext in c cu; do
    ! grep -q '^#line' "plain/lltm.$ext" || fail "directives in lltm.$ext without -g"
    grep -q '^#line [0-9]* "lltm.tn"' "debug/lltm.$ext" || fail "no directives in lltm.$ext"
    # the same but for directives and where long lines are broken
    for kind in plain debug; do grep -v '^#line' $kind/lltm.$ext | tr -d ' \n' >$kind.$ext; done
    cmp plain.$ext debug.$ext || fail "-g changes the code of lltm.$ext"
done
cmp plain/lltm.h debug/lltm.h

# behind a kernel, lines are those of the generated file again
awk '/^#line [0-9]* "lltm.c"/ { if ($2 != NR + 1) bad = 1; n++ } END { exit bad || !n }' debug/lltm.c ||
    fail "lltm.c counts its own lines wrongly"

# the line that computes the cell is where its code comes from
line=$(grep -n 'new_c = c + elu' lltm.tn | cut -d: -f1)
next=$(grep -n 'new_h = tanh' lltm.tn | cut -d: -f1)
for ext in c cu; do
    awk -v line="$line" -v next_line="$next" '
        /^#line/ { at = $2; next }
        /new_c\[.*\] = |new_c_out.v\[k\] = / && at == line { cell = 1 }
        /tn_tanh\(/ && at == next_line { state = 1 }
        { at++ }
        END { exit !(cell && state) }' debug/lltm.$ext || fail "lltm.$ext names other lines"
done

# what a debugger reads
"$tenon" -c -g lltm.tn -target=cpu
if command -v objdump >/dev/null; then
    objdump --dwarf=decodedline lltm.o >table
    for l in "$line" "$next"; do
        grep -Eq "^lltm\.tn +$l +0x" table || fail "the object's line table lacks lltm.tn:$l"
    done
    ! grep -q tenon- table || fail "the object names a temporary folder"
fi
"$tenon" -c lltm.tn -target=cpu -o plain.o
! grep -q 'lltm\.tn:\|\.debug_line' <(readelf -SW plain.o 2>/dev/null || true) ||
    fail "debug information without -g"

# device code: NVRTC takes the text with line information (3: there is no NVRTC here)
status=0
"$check" sm_80,sm_90 debug/lltm.cu || status=$?
[ $status = 0 ] || [ $status = 3 ] || fail "NVRTC does not compile what -g prints"
echo "lines.sh: ok"
