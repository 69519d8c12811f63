#!/usr/bin/python3
# report.py METHOD REPORT.json COUNTERS.json [NAME...]: what -report says of a method's kernels beside what the
# virtual GPU counted in one call of it: bytes stored are as said, bytes loaded at least; for the kernels
# named, stores fill their sectors. SPDX-License-Identifier: MIT
import json
import sys

method, report, counters = sys.argv[1], json.load(open(sys.argv[2])), json.load(open(sys.argv[3]))
counted = {k["name"]: k for k in counters["kernels"]}
said = [k for m in report["methods"] if m["name"] == method for k in m["kernels"]]
bad = [] if said else ["there is no method " + method]
for k in said:
    c = counted.get(k["name"])
    if not c or c["launches"] != k["calls"]:
        bad.append("%s: %s launches, not %d" % (k["name"], c and c["launches"], k["calls"]))
        continue
    if c["store_bytes"] != k["bytes_written"]:
        bad.append("%s stores %d bytes, not %d" % (k["name"], c["store_bytes"], k["bytes_written"]))
    if c["load_bytes"] < k["bytes_read"]:
        bad.append("%s loads %d bytes, not %d" % (k["name"], c["load_bytes"], k["bytes_read"]))
    if k["name"] in sys.argv[4:] and 32 * c["store_sectors"] != c["store_bytes"]:
        bad.append("%s stores to %d sectors" % (k["name"], c["store_sectors"]))
    if not k["registers"] or k["spill_bytes"] != 0:
        bad.append("%s: %s registers, %s bytes spilled" % (k["name"], k["registers"], k["spill_bytes"]))
print("\n".join(bad))
sys.exit(1 if bad else 0)
