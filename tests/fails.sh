#!/bin/bash
# fails.sh: a runner that cannot fail proves nothing. Every `test` of these files is wrong: each must be
# reported, with exit status 1.   TENON=build/tenon tests/fails.sh FILE...
# SPDX-License-Identifier: MIT
set -u
tenon=$(realpath "${TENON:?set TENON to the compiler}")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for file in "$@"; do
    status=0
    "$tenon" -test "$file" >"$log" 2>&1 </dev/null || status=$?
    while IFS= read -r name; do
        if ! grep -iE "fail|not" "$log" | grep -qF "$name" || grep -E "^(ok|pass)" "$log" | grep -qF "$name"; then
            echo "fails.sh: $file: \"$name\" was not reported as failed"
            status=99
        fi
    done < <(sed -n 's/^test "\([^"]*\)".*/\1/p' "$file")
    if [ "$status" != 1 ]; then
        echo "fails.sh: exit status $status"
        cat "$log"
        exit 1
    fi
done
