#!/bin/bash
# compiles.sh: NVRTC takes the kernels of all models, for the architectures named, without a warning and
# without spilled registers.
#   TENON=build/tenon NVRTC_CHECK=build/tests/tools/nvrtc_check compiles.sh sm_80,sm_90
# SPDX-License-Identifier: MIT
set -eu
root=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in "$root"/models/*.tn "$root"/tests/sources/*.tn; do
    "$TENON" -S -target=cuda "$file" -o "$work/${file//\//-}/" # models of two files may share a name
done
ls -S "$work"/*/*.cu | xargs -n 1 -P "$(nproc)" "$NVRTC_CHECK" "$1" # the largest first
