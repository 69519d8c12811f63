#!/bin/bash
# run.sh: lowering of tensor IR text. Kernels and programs of NAME.tir are compared with NAME.expect,
# and what they compute with the evaluator: fused and not, for both targets. With a compiler, the
# same comparison for models and language tests.
#   tests/lower/run.sh [--bless] LOWER_TOOL [TENON FILE.tn...]
# SPDX-License-Identifier: MIT
set -u
bless=no
if [ "${1:-}" = --bless ]; then
    bless=yes
    shift
fi
tool=$(realpath "${1:?the path of lower_tool is needed}")
shift
tenon=
[ $# -gt 0 ] && tenon=$(realpath "$1") && shift
here=$(dirname "$(realpath "$0")")
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
right=0 wrong=0

# agrees FILE OPTIONS: every graph computes what it should
agrees() {
    if "$tool" -quiet "${@:2}" "$1" >"$temp/log" 2>&1; then
        right=$((right + 1))
    else
        wrong=$((wrong + 1))
        echo "run.sh: $1 ${*:2}" >&2
        grep -v agrees "$temp/log" >&2
    fi
}

for file in "$here"/*.tir; do
    [ -n "$tenon" ] && break
    expect=${file%.tir}.expect
    "$tool" "$file" >"$temp/got" 2>&1 || { wrong=$((wrong + 1)); tail -3 "$temp/got" >&2; }
    if [ $bless = yes ]; then
        cp "$temp/got" "$expect"
    elif diff -u "$expect" "$temp/got"; then
        right=$((right + 1))
    else
        wrong=$((wrong + 1))
    fi
    agrees "$file" -cuda
    agrees "$file" -cuda -own
    agrees "$file" -cuda -tune
    agrees "$file" -no-fuse
    agrees "$file" -size 0
    agrees "$file" -cuda -own -size 0
    agrees "$file" -size 1
done
[ -z "$tenon" ] && for options in "" -cuda -no-fuse; do
    # shellcheck disable=SC2086
    agrees "$here/long.tir" $options -size 17001 # past where reductions are split
done
# a text for each program of a file
for file in "$@"; do
    base=$temp/$(basename "$file" .tn)
    if ! "$tenon" -E=ir "$file" >"$base.all"; then
        wrong=$((wrong + 1))
        continue
    fi
    awk -v base="$base" '/^tenon-ir /{ n++ } { print > (base "-" n ".tir") }' "$base.all"
    for text in "$base"-*.tir; do
        agrees "$text"
        agrees "$text" -cuda
        agrees "$text" -cuda -own -tf32
        agrees "$text" -no-fuse
        agrees "$text" -size 1
    done
done
echo "$right as expected, $wrong not"
[ $wrong = 0 ] && [ $right -gt 0 ]
