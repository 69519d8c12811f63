#!/bin/sh
# emulated.sh CC SOURCES INCLUDE KERNELS.c KERNELS.cu: builds and runs emulated_test.cpp; skipped where
# there is no C++ compiler. SPDX-License-Identifier: MIT
command -v c++ >/dev/null || exit 77
set -e
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp "$4" "$dir/five_kernels.inc"
cp "$5" "$dir/five_kernels.cu"
same_bits="-O2 -ffp-contract=off -fno-math-errno"
"$1" -std=c11 $same_bits -I"$dir" -I"$3" -c "$2/five_cpu.c" -o "$dir/cpu.o"
c++ -std=c++14 $same_bits -Wno-unknown-pragmas -I"$dir" -I"$2" -c "$2/emulated_test.cpp" -o "$dir/cuda.o"
c++ "$dir/cuda.o" "$dir/cpu.o" -o "$dir/test" -lm
"$dir/test"
