#!/bin/bash
# golden.sh: diagnostics as they are to be read. For every NAME.tn of the folders given runs
# `$TENON -check NAME.tn` there and compares messages and exit status with NAME.expect. A first line
# `# options: ...` adds options. Files whose names begin with _ are only imported by others.
#   TENON=build/tenon tests/golden.sh [--bless] FOLDER...
# SPDX-License-Identifier: MIT
set -u
tenon=$(realpath "${TENON:?set TENON to the compiler}")
bless=no
if [ "${1:-}" = --bless ]; then
    bless=yes
    shift
fi
[ $# -gt 0 ] || { echo "golden.sh: no folder given" >&2; exit 2; }

right=0 wrong=0
got=$(mktemp)
trap 'rm -f "$got"' EXIT
for folder in "$@"; do
    for file in "$folder"/[!_]*.tn; do
        name=$(basename "$file" .tn)
        read -r -a options < <(sed -n '1s/^# options: //p' "$file")
        status=0
        (cd "$folder" && "$tenon" -check "${options[@]}" "$name.tn") >"$got" 2>&1 </dev/null || status=$?
        echo "exit status $status" >>"$got"
        # lines of the library move with every function that it gets
        sed -i -E 's|(<std>/[a-z]+[.]tn):[0-9]+|\1:LINE|' "$got"
        if [ $bless = yes ]; then
            cp "$got" "$folder/$name.expect"
        elif diff -u "$folder/$name.expect" "$got"; then
            right=$((right + 1))
        else
            wrong=$((wrong + 1))
            echo "golden.sh: $file differs" >&2
        fi
    done
done
[ $bless = yes ] && exit 0
echo "$right as expected, $wrong not"
[ "$wrong" = 0 ] && [ "$right" -gt 0 ]
