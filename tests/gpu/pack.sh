#!/bin/bash
# pack.sh BUILD FOLDER [ARCH...]: makes the folder that run.sh is for. What NVRTC and the C compiler
# make for each architecture (90: sm_90) goes into its cache, by running everything once on the
# virtual GPU. SPDX-License-Identifier: MIT
set -eu
build=$(realpath "$1")
mkdir -p "$2"
to=$(realpath "$2")
shift 2
root=$(realpath "$(dirname "$0")/../..")
archs=${*:-80 90}

rm -rf "$to"
mkdir -p "$to"/{bin,lib,cache,tests,kernels,expect}
cp "$build/tenon" "$to/bin/"
ldd "$build/tenon" | awk '$3 ~ /^\// && $1 !~ /^(libc|libm|libdl|libpthread|ld-linux.*)\.so/ { print $3 }' |
    xargs -r cp -L -t "$to/lib"
for name in program suite; do
    [ -x "$build/tests/vgpu/vgpu_$name" ] && cp "$build/tests/vgpu/vgpu_$name" "$to/bin/"
done
cp "$root/tests/vgpu/program/kernels.cu" "$to/kernels/vgpu_program.cu"
cp "$root/tests/vgpu/suite/suite.cu" "$to/kernels/vgpu_suite.cu"
strip "$to"/bin/* 2>/dev/null || true
cp -r "$root/tests/numeric" "$root/tests/sources" "$to/tests/"
rm -rf "$to/tests/numeric/fails"
mkdir -p "$to/tests/cuda" "$to/tests/reference"
cp "$root/tests/cuda/compare.py" "$to/tests/cuda/"
cp "$root"/tests/reference/*.py "$to/tests/reference/"
cp -r "$root/models" "$to/models"
rm -rf "$to/models/lltm"
cp "$root/tests/gpu/run.sh" "$to/run"

# what the CPU computes, here
expect() { # NAME ARGUMENTS...
    local name=$1
    shift
    printf '%s\n' "$@" >"$to/expect/$name.args"
    (cd "$to" && bin/tenon -device=cpu "$@" -o "expect/$name.npz")
}
expect lltm-gradients -run models/lltm.tn forward B=5 x=randn h=randn c=randn -seed 3 \
    -grad d_new_h=randn d_new_c=ones
expect lltm-large -run models/lltm.tn -m 'LLTM(64, 96)' forward B=33 x=randn h=randn c=randn -seed 4 \
    -grad d_new_h=ones d_new_c=randn
expect digits-forward -run models/digits.tn forward B=70 x=randn -seed 5

status=0
for arch in $archs; do
    echo "compiling for sm_$arch"
    # checks slow it down, and ./dev test has made them
    VGPU_SM=$arch VGPU_CHECK=none TENON_CACHE="$to/cache" LD_LIBRARY_PATH="$build/tests/vgpu" \
        bash -c 'cp -r "$1/cache" "$1/before"; sed "s|^cp -r .*cache.*|export TENON_CACHE=$1/cache|" "$1/run" >"$1/once"; bash "$1/once" >"$1/log"' \
        - "$to" || { cat "$to/log"; status=1; }
    rm -rf "$to/before" "$to/once" "$to/log"
done
size=$(du -sm "$to" | cut -f1)
echo "$to: $size MiB; copy it to a machine with a GPU and start its run"
[ "$size" -lt 60 ] || { echo "that is more than 60 MiB" >&2; status=1; }
exit $status
