#!/bin/bash
# Generated C is clang's C, too, with the built-in functions that this clang has: vectors of
# convolutions and of attention, in f32 and f64. Usage: TENON=build/tenon clang.sh
# SPDX-License-Identifier: MIT
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
if ! command -v clang >/dev/null; then
    echo "clang is not here" >&2
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
n=0
for case in attention depthwise resnet; do
    for type in f32 f64; do
        "$TENON" -S -target=cpu -fdtype=$type "$root/tests/bench/cases/$case.tn" -o "$dir/"
        clang -std=c11 -Wno-bitwise-conditional-parentheses -fsyntax-only -I "$root/runtime/include" "$dir/${case}_case.c"
        n=$((n + 1))
    done
done
echo "$n passed, 0 failed"
