#!/usr/bin/python3
# compare.py TOLERANCE ONE.npz OTHER.npz: equal names and shapes, numbers equal to the tolerance
# (relative to the largest of the array). SPDX-License-Identifier: MIT
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reference"))
from check import read_npz  # noqa: E402

tolerance = float(sys.argv[1])
one, other = read_npz(sys.argv[2]), read_npz(sys.argv[3])
bad = sorted(set(one) ^ set(other))
for name in sorted(set(one) & set(other)):
    a, b = one[name], other[name]
    if a.shape != b.shape or a.code != b.code:
        bad.append("%s: %s%s, %s%s" % (name, a.code, a.shape, b.code, b.shape))
        continue
    scale = max([abs(x) for x in a.flat] + [1e-3])
    far = max([abs(x - y) for x, y in zip(a.flat, b.flat)] + [0])
    if not far <= tolerance * scale:
        bad.append("%s: off by %g, the largest is %g" % (name, far, scale))
print("\n".join(bad))
sys.exit(1 if bad or not one else 0)
