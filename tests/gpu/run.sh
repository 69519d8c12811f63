#!/bin/bash
# run.sh: the tests of models and a short benchmark on the GPU of this machine, from a folder that
# pack.sh made. Needs NVIDIA's driver and cuBLAS; what NVRTC and the C compiler would make lies in the
# folder. Prints one table; exit status 0: all passed.  run [WORD]: only rows that hold the word.
# SPDX-License-Identifier: MIT
set -u
here=$(cd "$(dirname "$0")" && pwd)
only=${1:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
tenon=$here/bin/tenon

# cuBLAS may lie where the toolkit or Python's wheels put it
paths=$here/lib
for dir in "${CUDA_HOME:-/usr/local/cuda}"/lib64 \
    $(python3 -c 'import site; print(*[p + "/nvidia/*/lib" for p in site.getsitepackages()])' 2>/dev/null); do
    [ -d "$dir" ] && paths=$paths:$dir
done
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$paths
cp -r "$here/cache" "$work/cache" && export TENON_CACHE=$work/cache

passed=0 failed=0 skipped=0
row() { printf '%-44s %-8s %s\n' "$@"; }
# a row of the table: what is run, its status, its seconds or its last line
try() { # NAME COMMAND...
    local name=$1 from status=0
    shift
    case $name in *"$only"*) ;; *) return ;; esac
    from=$(date +%s.%N)
    "$@" >"$work/log" 2>&1 </dev/null || status=$?
    case $status in
    0) passed=$((passed + 1)) ;;
    77)
        skipped=$((skipped + 1))
        row "$name" skipped "$(tail -n 1 "$work/log")"
        return
        ;;
    *) failed=$((failed + 1)) ;;
    esac
    row "$name" "$([ $status = 0 ] && echo ok || echo "FAILED $status")" \
        "$(awk -v a="$from" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f s", b - a }')"
    [ $status = 0 ] || sed 's/^/    /' "$work/log" | tail -n 20
}
compare() { # TOLERANCE ONE.npz OTHER.npz
    command -v python3 >/dev/null || { echo "no python3 to compare with"; return 77; }
    python3 "$here/tests/cuda/compare.py" "$@"
}
on_gpu() { "$tenon" -device=cuda "$@"; }
same_as_cpu() { # NAME: the arguments stand in expect/NAME.args, one a line
    local args
    mapfile -t args <"$here/expect/$1.args"
    (cd "$here" && on_gpu "${args[@]}" -o "$work/out.npz") && compare 2e-5 "$here/expect/$1.npz" "$work/out.npz"
}
train() {
    (cd "$here" && on_gpu -train models/digits.tn models/data/digits.npz -epochs 20 -batch 64 -save "$work/$1.npz") |
        tee "$work/train.log"
    awk '/^test accuracy/ { if ($3 + 0 >= 0.96) good = 1 } END { exit !good }' "$work/train.log"
}

command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
row test result time
try "a call on the GPU" on_gpu -run "$here/models/lltm.tn" forward B=2 x=ones h=zeros c=zeros
if [ "$failed" != 0 ]; then
    echo "no model runs on this machine's GPU"
    exit 1
fi
for file in "$here"/tests/numeric/*.tn "$here"/tests/sources/*.tn "$here"/models/*.tn; do
    grep -q '^test ' "$file" && try "$(basename "$file")" on_gpu -test "$file"
done
for args in "$here"/expect/*.args; do
    name=$(basename "$args" .args)
    try "$name as on the CPU" same_as_cpu "$name"
done
try "digits train" train one
try "digits train again" train two
[ -f "$work/two.npz" ] && try "the same bits" cmp "$work/one.npz" "$work/two.npz"
for sm in "$here"/bin/vgpu_*; do # they compile their kernels here
    try "$(basename "$sm" | tr _ ' ')" "$sm" "$here/kernels/$(basename "$sm").cu"
done

if [ -z "$only" ] || [ "$only" = bench ]; then
    echo
    row benchmark device "milliseconds (median)"
    bench() { # NAME DEVICE ARGUMENTS...
        local name=$1 device=$2
        shift 2
        "$tenon" "-device=$device" -bench -run "$@" >"$work/log" 2>&1 &&
            row "$name" "$device" "$(awk '/median/ { for (i = 1; i < NF; i++) if ($(i + 1) ~ /^ms/) { print $i; exit } }' "$work/log")"
    }
    bench "lltm forward B=16 F=32 S=128" cuda "$here/models/lltm.tn" forward B=16 x=randn h=randn c=randn
    bench "lltm forward B=64 F=256 S=512" cuda "$here/models/lltm.tn" -m 'LLTM(256, 512)' forward B=64 x=randn h=randn c=randn
    bench "digits forward B=4096" cuda "$here/models/digits.tn" forward B=4096 x=randn
    [ -f "$work/train.log" ] && row "digits: an epoch of training, B=64" cuda \
        "$(awk '$1 == "epoch" { v[n++] = $(NF - 1) * 1000 } END { print n ? v[int(n / 2)] : "none" }' "$work/train.log")"
fi
echo
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
