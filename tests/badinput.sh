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
npz wrapped.npz module.layers.0.weight=f32:128x64:zero module.head.bias=f32:10:zero
expect 1 "begin with 'module.'" '!missing' -- run -load wrapped.npz

# arguments of a run
npz x.npz x=f32:2x5:one
expect 1 'x' '5|64' -- "$tenon" -run "$model" forward x=@x.npz -o out/r.npz
expect 1 'x' -- "$tenon" -run "$model" forward B=2 -o out/r.npz
expect 1 'forwrad' 'forward' -- "$tenon" -run "$model" forwrad x=zeros B=2 -o out/r.npz
expect 2 '-epcohs' '-epochs' -- "$tenon" -train "$model" good.npz -epcohs 3

# source files: one line for each that cannot be read or is no text
line() {
    local status=0
    "$@" >line.log 2>&1 || status=$?
    cat line.log
    [ "$(LC_ALL=C tr -cd '\n' <line.log | wc -c)" = 1 ] || return 90
    LC_ALL=C grep -q '[^ -~]' line.log && return 91
    return $status
}
mkdir folder.tn
head -c 5000 "$tenon" >binary.tn
printf 'const A = 1\nmodule M { }\n\0' >zero.tn
printf 'import folder\nimport zero\n' >both.tn
expect 1 '^tenon: error: cannot read nowhere.tn: No such file or directory$' -- line "$tenon" -check nowhere.tn
expect 1 '^tenon: error: cannot read folder.tn: Is a directory$' -- line "$tenon" -check folder.tn
expect 1 '^binary.tn:1:[0-9]*: error: this is not a text file' -- line "$tenon" -check binary.tn
expect 1 '^zero.tn:3:1: error: this is not a text file: it has a byte that is 0$' -- line "$tenon" -check zero.tn
expect 1 '^both.tn:1:8: error: cannot read folder.tn: Is a directory$' '^zero.tn:3:1: error' -- "$tenon" -check both.tn
printf '\xff\xfem\0o\0d\0' >wide.tn
expect 1 '^wide.tn:1:4: error: ' '^note: it may be in UTF-16: save it as UTF-8$' -- "$tenon" -check wide.tn
printf 'const A = 1\nconst caf\xe9 = 2\n' >latin.tn
expect 1 '^latin.tn:2:10: error: stray byte 0xe9: the text is not in UTF-8$' -- "$tenon" -check latin.tn
expect 2 -- "$tenon"

# a method that the model has and does not export
printf '%s\n' 'module M {' '    fn forward(x: [..., 4]) -> [..., 4] { return x }' \
    '    fn other(x: [B, 4]) -> [B, 4] { return x }' '}' 'model m = M()' >open.tn
expect 1 "does not export its method 'forward'" 'rank of `x` is open' -- "$tenon" -run open.tn forward x=ones

# sizes of 0 that come with the call
cat >empty.tn <<'END'
module M {
    fn resized(x: [B, 3, H, W]) -> (y: [B, 3, 1, 1]) { return interpolate(x, size = [1, 1], mode = "bilinear", antialias = true) }
    fn pooled(x: [B, 3, H, W]) -> (y: [B, 3, 2, 2]) { return adaptive_max_pool2d(x, 2) }
    fn largest(x: [B, N]) -> (y: [B], i: i64[B]) { return x.max(1) }
    fn drawn(x: [B, N]) -> (i: i64[B, 1]) { return multinomial(x, 1) }
    fn classes(p: [T, N, 5], t: i64[N, S], a: i64[N], b: i64[N]) -> (l: []) { return ctc_loss(p, t, a, b) }
}
model m = M()
END
expect 1 'resized: interpolate: axis 2 has no elements' 'empty.tn:2' -- "$tenon" -run empty.tn resized x=ones B=1 H=0 W=2
expect 1 'pooled: adaptive_max_pool2d: axis 3 has no elements' 'empty.tn:3' -- "$tenon" -run empty.tn pooled x=ones B=1 H=2 W=0
expect 1 'largest: max: axis 1 has no elements' 'empty.tn:4' -- "$tenon" -run empty.tn largest x=ones B=2 N=0
expect 0 '0' -- "$tenon" -run empty.tn largest x=ones B=0 N=2
expect 1 'axis 1 has no elements' 'empty.tn:5' -- "$tenon" -run empty.tn drawn x=ones B=2 N=0
expect 1 'empty.tn:6' -- "$tenon" -run empty.tn classes p=ones T=0 N=2 t=ones S=1 a=zeros b=zeros

# a full disk: no file may grow beyond a few blocks
small() { (trap '' XFSZ; ulimit -f 16; train good.npz); }
expect 1 'out/d.safetensors' -- small

finish
