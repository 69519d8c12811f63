#!/bin/bash
# badinput.sh: data and files that are wrong. Each must give exit status 1 (or what is said), a message
# that names what is wrong, and leave no file behind.   TENON=build/tenon tests/badinput.sh
# SPDX-License-Identifier: MIT
. "$(dirname "$0")/expect.sh"
model=$(realpath "$here/../models/digits.tn")

train() { "$tenon" -train "$model" "$@" -epochs 1 -batch 16 -save out/d.safetensors; }

npz good.npz x=f32:48x64:wave y=i64:48:mod10
npz narrow.npz x=f32:48x63:wave y=i64:48:mod10
npz float.npz x=f32:48x64:wave y=f32:48:one
npz short.npz x=f32:48x64:wave y=i64:40:mod10
npz missing.npz x=f32:48x64:wave
npz range.npz x=f32:48x64:wave y=i64:48:mod11
npz --cut good.npz cut.npz 5000
echo "this is no archive" >text.npz

expect 1 'x' '63' '64' -- train narrow.npz
expect 1 'y' 'i64' 'f32' -- train float.npz
expect 1 'y' '40' '48' -- train short.npz
expect 1 'y' 'missing|no array' -- train missing.npz
expect 1 'index' '10' 'digits.tn' -- train range.npz
expect 1 'cut.npz' -- train cut.npz
expect 1 'text.npz' -- train text.npz
expect 1 'nowhere.npz' -- train nowhere.npz

# state files
"$tenon" -train "$model" good.npz -epochs 1 -batch 16 -save good.safetensors >log 2>&1 || {
    echo "badinput: training on good data fails"
    cat log
    exit 1
}
size=$(stat -c %s good.safetensors)
npz --cut good.safetensors cut.safetensors $((size - 100))
npz --cut good.safetensors head.safetensors 20
npz state.npz layers.0.weight=f32:128x63:zero strange=f32:3:one
expect 1 'cut.safetensors' -- train good.npz -resume cut.safetensors
expect 1 'head.safetensors' -- train good.npz -resume head.safetensors
run() { "$tenon" -run "$model" forward x=zeros B=2 -o out/r.npz "$@"; }
expect 1 'cut.safetensors' -- run -load cut.safetensors
expect 1 'layers.0.weight' '63' 'strange' 'head.bias' -- run -load state.npz
expect 1 'nowhere.safetensors' -- run -load nowhere.safetensors

# arguments of a run
npz x.npz x=f32:2x5:one
expect 1 'x' '5|64' -- "$tenon" -run "$model" forward x=@x.npz -o out/r.npz
expect 1 'x' -- "$tenon" -run "$model" forward B=2 -o out/r.npz
expect 1 'forwrad' 'forward' -- "$tenon" -run "$model" forwrad x=zeros B=2 -o out/r.npz
expect 2 '-epcohs' '-epochs' -- "$tenon" -train "$model" good.npz -epcohs 3
expect 1 'nowhere.tn' -- "$tenon" -check nowhere.tn
expect 2 -- "$tenon"

# a full disk: no file may grow beyond a few blocks
small() { (trap '' XFSZ; ulimit -f 16; train good.npz); }
expect 1 'out/d.safetensors' -- small

finish
