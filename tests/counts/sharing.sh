#!/bin/bash
# sharing.sh: the same bits whether temporaries share memory or have memory of their own, and on any number of
# threads. TENON is the compiler.
# SPDX-License-Identifier: MIT
set -eu
tenon=$(realpath "${TENON:?set TENON to the compiler}")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
both() { # WHAT ARGUMENT...: what the compiler writes to -o or -save
    local what=$1
    shift
    "$tenon" "$@" "$last" shared.npz >shared.log
    "$tenon" -fno-conflicts "$@" "$last" own.npz >own.log
    cmp shared.npz own.npz || { echo "sharing.sh: $what differs"; exit 1; }
    TENON_THREADS=3 "$tenon" "$@" "$last" threads.npz >threads.log
    cmp shared.npz threads.npz || { echo "sharing.sh: $what differs on three threads"; exit 1; }
}
last=-o
both "values and gradients" -run "$here/steady.tn" forward B=40 x=randn -grad d_y=randn -seed 3
both "the cell" -run "$here/../../models/lltm.tn" forward B=5 x=randn h=randn c=randn -grad d_new_h=randn d_new_c=ones -seed 3
both "many rows" -run "$here/steady.tn" forward B=3000 x=randn -grad d_y=randn -seed 4
last=-save
both "training" -train "$here/../../models/digits.tn" "$here/../../models/data/digits.npz" -batch 64 -epochs 1 -device=cpu
peak() { "$tenon" -target=cpu -report=json "$@" "$here/steady.tn" B=400 | grep -o '"peak_bytes": *[0-9]*' | grep -o '[0-9]*$' | sort -n | tail -n 1; }
[ "$(peak)" -lt "$(peak -fno-conflicts)" ] || { echo "sharing.sh: nothing is shared"; exit 1; }
