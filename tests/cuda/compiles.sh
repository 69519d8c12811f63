#!/bin/bash
# compiles.sh: NVRTC takes the kernels of all models, for four architectures, without a warning and
# without spilled registers.  TENON=build/tenon NVRTC_CHECK=build/tests/tools/nvrtc_check compiles.sh
# SPDX-License-Identifier: MIT
set -eu
root=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for file in "$root"/models/*.tn "$root"/tests/sources/*.tn; do
    "$TENON" -S -target=cuda "$file" -o "$work/"
done
"$NVRTC_CHECK" sm_75,sm_80,sm_90,sm_100 "$work"/*.cu
