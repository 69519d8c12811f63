#!/bin/bash
# random.sh: random programs through all passes, and through lowering, against the evaluator.
#   tests/passes/random.sh RANDOM_TOOL TEST_PASSES LOWER_TOOL [FIRST LAST]
# SPDX-License-Identifier: MIT
set -u
make=$(realpath "$1") passes=$(realpath "$2") lower=$(realpath "$3")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
wrong=0 run=0
for seed in $(seq "${4:-1}" "${5:-30}"); do
    file=$folder/random$seed.tir
    "$make" "$seed" >"$file" || { echo "seed $seed: no program" >&2; exit 2; }
    "$passes" "$file" >"$folder/out" 2>&1 || { wrong=$((wrong + 1)); echo "seed $seed:"; head -5 "$folder/out"; }
    for options in "" "-no-fuse" "-cuda"; do
        # shellcheck disable=SC2086
        "$lower" $options -quiet "$file" >"$folder/out" 2>&1 ||
            { wrong=$((wrong + 1)); echo "seed $seed $options:"; head -5 "$folder/out"; }
    done
    run=$((run + 1))
done
echo "$run programs, $wrong wrong"
[ "$wrong" = 0 ] && [ "$run" -gt 0 ]
