#!/bin/sh
# golden.sh TOOL FILE...: what TOOL prints for each file is what FILE.expect holds.
# BLESS=1 writes the .expect files. SPDX-License-Identifier: MIT
tool=$(realpath "$1") # the folder changes below
shift
failed=0
cd "$(dirname "$1")" || exit 2
for path; do
    file=$(basename "$path")
    if [ -n "$BLESS" ]; then
        "$tool" "$file" >"$file.expect" 2>&1
        continue
    fi
    "$tool" "$file" 2>&1 | diff -u "$file.expect" - || failed=1
done
exit $failed
