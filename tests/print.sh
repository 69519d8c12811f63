#!/bin/bash
# `print` in a method and in a test: what is shown, in which order. Usage: TENON=build/tenon print.sh
# SPDX-License-Identifier: MIT
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export TENON_CACHE=$dir/cache
cat > "$dir/p.tn" <<'END'
module M {
    param w: [3] = ones
    fn forward(x: [B, 3]) -> (y: [B, 3]) {
        print("x is", x)
        return x * 2 * w
    }
}
model m = M()
test "shows a sum" {
    print("sum", m(ones(2, 3)).sum())
    assert m(ones(2, 3)).sum() == 12
}
END
diff -u - <("$TENON" -run "$dir/p.tn" forward x=ones B=2) <<'END'
x is: f32[2, 3] = 1 1 1 1 1 1
y: f32[2, 3] = 2 2 2 2 2 2
END
"$TENON" -test "$dir/p.tn" | grep -x 'sum: f32\[\] = 12' >/dev/null
echo "2 passed, 0 failed"
