#!/usr/bin/python3
# counts.py COUNTERS.json [KERNEL...]: what the virtual GPU counted in a run: no bank conflicts in any
# kernel; those named (the end of a name is enough) were launched, and the sectors that they touch hold
# hardly more than the bytes they ask for. SPDX-License-Identifier: MIT
import json
import sys

kernels = json.load(open(sys.argv[1]))["kernels"]
bad = [] if kernels else ["nothing was counted"]
for k in kernels:
    if k["shared_conflicts"]:
        bad.append("%s: %d bank conflicts" % (k["name"], k["shared_conflicts"]))
for name in sys.argv[2:]:
    found = [k for k in kernels if k["name"].endswith(name)]
    if not found:
        bad.append("there is no kernel " + name)
    for k in found:
        for what in ["load", "store"]:
            sectors, need = 32 * k[what + "_sectors"], k[what + "_bytes"]
            if sectors > 1.03 * need + 256:
                bad.append("%s %ss %d bytes from %d bytes of sectors" % (k["name"], what, need, sectors))
print("\n".join(bad))
sys.exit(1 if bad else 0)
