#!/bin/bash
# levels.sh: an object's kernels are compiled for several levels of x86-64: which code runs is chosen
# when a context is made, TENON_CPU asks for less, and the results have the same bits, also those of
# code for one processor. SPDX-License-Identifier: MIT
set -euo pipefail
tenon=${TENON:?} library=${LIBTENON_A:?} compiler=${CC:-cc}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "levels.sh: $*" >&2; exit 1; }

build() { # NAME OBJECT
    "$compiler" -std=c11 -O1 -I"$dir" -I"$here/../runtime/include" ${LEVELS_CFLAGS:-} "$here/levels.c" \
        "$dir/$2" "$library" -lm -lpthread -ldl -o "$dir/$1"
}

"$tenon" -c "$here/levels.tn" -target=cpu -o "$dir/levels.o"
build levels levels.o
for level in x86-64 x86-64-v3 x86-64-v4; do
    TENON_CPU=$level "$dir/levels" >"$dir/$level.out"
done
[ -s "$dir/x86-64.out" ] || fail "no results"
cmp "$dir/x86-64.out" "$dir/x86-64-v3.out" || fail "x86-64-v3 computes other bits"
cmp "$dir/x86-64.out" "$dir/x86-64-v4.out" || fail "x86-64-v4 computes other bits"
for threads in 1 2 3; do
    TENON_THREADS=$threads "$dir/levels" >"$dir/threads.out"
    cmp "$dir/x86-64.out" "$dir/threads.out" || fail "$threads threads compute other bits"
done

if TENON_CPU=486 "$dir/levels" >/dev/null 2>"$dir/message"; then
    fail "TENON_CPU=486 was accepted"
fi
grep -q "TENON_CPU is '486': expected x86-64, x86-64-v3 or x86-64-v4" "$dir/message" ||
    fail "the message was: $(cat "$dir/message")"

# An object for one kind of processor: a third of the code, and others refuse it.
for march in x86-64-v2 x86-64-v3 x86-64-v4; do
    case $march in
    x86-64-v3) grep -qw avx2 /proc/cpuinfo || continue ;;
    x86-64-v4) grep -qw avx512vl /proc/cpuinfo || continue ;;
    esac
    "$tenon" -c "$here/levels.tn" -target=cpu -march=$march -o "$dir/one.o"
    build one one.o
    "$dir/one" >"$dir/one.out"
    cmp "$dir/x86-64.out" "$dir/one.out" || fail "-march=$march computes other bits"
done
if [ -e "$dir/one.o" ] && grep -qw avx2 /proc/cpuinfo; then
    if TENON_CPU=x86-64 "$dir/one" >/dev/null 2>"$dir/message"; then
        fail "code for AVX runs without it"
    fi
    grep -q 'was compiled for x86-64-v[34], which this processor is not' "$dir/message" ||
        fail "the message was: $(cat "$dir/message")"
fi
