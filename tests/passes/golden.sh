#!/bin/bash
# golden.sh: each FOLDER/NAME.tir behind pass FOLDER is compared with FOLDER/NAME.expect. A line
# `; options: ...` in the file gives options of pass_tool.
#   tests/passes/golden.sh PASS_TOOL [--bless]
# SPDX-License-Identifier: MIT
set -u
tool=$(realpath "${1:?give the path of pass_tool}")
bless=${2:-}
cd "$(dirname "$0")" || exit 2
right=0 wrong=0
for file in */*.tir; do
    want=${file%.tir}.expect
    read -r -a options < <(sed -n 's/^; options: //p' "$file")
    got=$("$tool" "${options[@]}" "$(dirname "$file")" "$file" 2>&1)$'\n'"exit status $?"
    if [ "$bless" = --bless ]; then
        printf '%s\n' "$got" >"$want"
    elif diff -u "$want" - <<<"$got"; then
        right=$((right + 1))
    else
        wrong=$((wrong + 1))
        echo "golden.sh: $file differs" >&2
    fi
done
[ "$bless" = --bless ] && exit 0
echo "$right as expected, $wrong not"
[ "$wrong" = 0 ] && [ "$right" -gt 0 ]
