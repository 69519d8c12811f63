#!/bin/bash
# size.sh: small stays small: a compiled model without weights, and the runtime that it needs.
# SPDX-License-Identifier: MIT
set -euo pipefail
tenon=${TENON:?} library=${LIBTENON:?}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
bad=0
within() { # FILE LIMIT
    local n
    n=$(stat -c %s "$1")
    echo "size.sh: $(basename "$1"): $n of $2 bytes"
    [ "$n" -lt "$2" ] || { echo "size.sh: $(basename "$1") is too large" >&2; bad=1; }
}

"$tenon" -c "$here/../models/digits.tn" -target=cpu -o "$dir/digits.o"
# three levels of x86-64 for what computes, two for what streams
within "$dir/digits.o" 140000
strip -o "$dir/libtenon.so" "$library"
# products for three levels of x86-64 are half of it, devices and their lanes a sixth
within "$dir/libtenon.so" 315392
exit "$bad"
