#!/bin/bash
# The benchmark's harness at its smallest: one case of each kind, one round, no peers; what it writes is
# whole, and a case whose results are wrong is told. Nothing is timed for its own sake.
#   TENON=build/tenon small.sh
# SPDX-License-Identifier: MIT
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=$(cd "$(dirname "$TENON")" && pwd)
python=
for p in python3 /usr/bin/python3; do
    if "$p" -c 'import numpy' 2>/dev/null; then
        python=$p
        break
    fi
done
if [ -z "$python" ]; then
    echo "small.sh: no numpy here"
    exit 77
fi
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$python" "$here/bench.py" --build "$build" --without torch,compile,jax,onnx --rounds 1 --seconds 0.001 \
    --threads 1,2 --no-compiling -o "$out/r.json" "lltm 16" "mlp training" "contraction 8x" adamw >"$out/log" 2>&1 || {
    cat "$out/log"
    exit 1
}
"$python" "$here/check_small.py" "$out/r.json" "$out/r.html"
