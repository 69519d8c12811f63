#!/bin/bash
# bits.sh: what maps compute has the same bits fused and unfused, at each level of optimisation, on any
# number of threads, and on a GPU (the virtual one, where VGPU says its folder); gradients that are maps
# too. Loops over time: on any number of threads, and those go by rows whose rows know nothing of each
# other. TENON is the compiler.
# SPDX-License-Identifier: MIT
set -euo pipefail
tenon=$(realpath "${TENON:?set TENON to the compiler}")
vgpu=${VGPU:+$(realpath "$VGPU")}
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
compared=0
model=$here/bits.tn

run() { # FILE OPTION... -- ARGUMENT...: outputs of a method
    local out=$1 options=()
    shift
    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    "$tenon" "${options[@]}" -run "$model" "$@" -seed 5 -o "$out" >run.log 2>&1 ||
        { cat run.log; echo "bits.sh: ${options[*]}: $* fails"; exit 1; }
}

same() { # ARGUMENT...: one method, all ways
    local way
    run want.npz -device=cpu -threads 1 -- "$@"
    for way in "-O0 -threads 1" "-O1 -threads 2" "-O2 -threads 2" "-O3 -threads 2" "-fno-fuse -threads 2" "-O0 -fno-fuse"; do
        # shellcheck disable=SC2086
        run got.npz -device=cpu $way -- "$@"
        cmp want.npz got.npz || { echo "bits.sh: $way: other bits from $*"; exit 1; }
        compared=$((compared + 1))
    done
    [ -n "$vgpu" ] || return 0
    for way in -O2 -O0 -O3 -fno-fuse; do
        LD_LIBRARY_PATH=$vgpu run got.npz -device=cuda "$way" -- "$@"
        cmp want.npz got.npz || { echo "bits.sh: $way on a GPU: other bits from $*"; exit 1; }
        compared=$((compared + 1))
    done
}

for rows in 3 64; do
    same functions B=$rows x=randn -grad d_a=randn d_b=ones d_c=randn d_d=ones d_e=randn d_f=randn
    same chain B=$rows x=randn r=randn -training
    same integers B=$rows x=randn
    same parts B=$rows x=randn w=randn r=randn
done

model=$here/loops.tn
"$tenon" -E=host -target=cpu "$model" >loops.txt
loops() { # METHOD: "loops, and those that go by rows" of its programs
    awk -v m="$1" '$0 ~ "^program loops." m "(_train|_backward)? " { on = 1 } /^}/ { on = 0 }
        on && /^  loop / { n++; rows += /rows B/ } END { print n + 0, rows + 0 }' loops.txt
}
threads() { # ARGUMENT...: one method on several numbers of threads
    local n
    run want.npz -device=cpu -threads 1 -- "$@"
    for n in 2 3 5; do
        run got.npz -device=cpu -threads "$n" -- "$@"
        cmp want.npz got.npz || { echo "bits.sh: $n threads: other bits from $*"; exit 1; }
        compared=$((compared + 1))
    done
}
for turns in 6 7; do
    threads cells B=40 T=$turns x=randn -grad d_a=randn d_b=randn d_c=randn
    threads square T=$turns x=randn -grad d_last=randn
    threads chosen B=40 T=$turns x=randn i=3
    for method in own mean rolled reversed columns; do
        threads $method B=40 T=$turns x=randn -grad d_last=randn
    done
done
for want in "cells 12 12" "own 3 3" "chosen 3 2" "mean 3 0" "rolled 3 0" "reversed 3 0" "square 3 0" "columns 3 0"; do
    [ "${want%% *} $(loops "${want%% *}")" = "$want" ] ||
        { echo "bits.sh: loops, and those by rows: ${want%% *} $(loops "${want%% *}"), not $want"; exit 1; }
done
for n in 1 3; do # whoever finds it
    ! "$tenon" -device=cpu -threads $n -run "$model" chosen B=40 T=6 x=randn i=9 >run.log 2>&1 &&
        grep -q 'loops.tn:[0-9]*: chosen: index 9 is out of range: the axis has 7 elements' run.log ||
        { cat run.log; echo "bits.sh: $n threads: no word of an index out of range"; exit 1; }
done
echo "$compared times the same bits"
