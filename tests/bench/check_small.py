"""What small.sh has let the harness write is whole; the comparison of results finds what differs.
Usage: check_small.py r.json r.html. SPDX-License-Identifier: MIT"""
import json
import os
import sys
import xml.dom.minidom

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bench
import common

result = json.load(open(sys.argv[1]))
rows = result["rows"]
want = {"lltm 16x32x128 forward", "lltm 16x32x128 fwd+bwd", "mlp training step", "contraction 8x768x3072",
        "adamw 10M in 150 tensors"}
assert {r["case"] for r in rows} == want, {r["case"] for r in rows}
assert {r["threads"] for r in rows} == {1, 2}
for r in rows:
    assert not r["notes"], r["notes"]
    assert r["seconds"]["tenon"] > 0 and r["seconds"]["tenon"] == r["rounds"]["tenon"][0]
product = [r for r in rows if r["case"].startswith("contraction")][0]
assert abs(product["gflops"]["tenon"] * product["seconds"]["tenon"] * 1e9 - 2 * 8 * 768 * 3072) < 1
assert product["peak_gflops"] > 0
assert result["memory"][0]["bytes"]["tenon"] > 4 * (784 * 512 + 512 * 512)  # the parameters alone

page = open(sys.argv[2]).read()
for r in want:
    assert r in page
xml.dom.minidom.parseString(page[page.index("<svg"):page.index("</svg>") + 6])
assert "http" not in page and "<script src" not in page

# agreement: equal results pass, others are told by name
case = common.load_case("softmax")
run, rng = case.RUNS[0], np.random.default_rng(0)
y = rng.random((4, 4)).astype(np.float32)
told = bench.agree(case, run, {}, {"torch": {"y": y}, "tenon": {"y": y.copy()}, "jax": {"y": y + 0.01}, "onnx": {}})
assert told["torch"] == [] and told["tenon"] == [] and told["jax"] and told["onnx"], told
assert bench.agree(case, run, {}, {"torch": {"y": y}, "tenon": {"y": y * np.nan}})["tenon"]
assert bench.agree(case, run, {}, {"torch": {"y": y, "z": y}, "tenon": {"y": y}})["tenon"]
step = [r for r in common.load_case("mlp").RUNS if r.mode == "step"][0]
state = {"state:w": np.zeros(1000, np.float32)}
moved = {"state:w": np.where(np.arange(1000) < 5, step.lr, 0).astype(np.float32)}
assert not bench.differences(step, None, state, moved)  # a few may go the other way
moved["state:w"][:50] = step.lr
assert bench.differences(step, None, state, moved)
block = [r for r in common.load_case("resnet").RUNS if r.kinks][0]
slopes = {"y": np.ones(1000, np.float32), "d_x": np.random.default_rng(0).standard_normal(100000).astype(np.float32)}
flipped = {k: v.copy() for k, v in slopes.items()}
flipped["d_x"][7] = 0.5
assert not bench.differences(block, None, slopes, flipped)
flipped["d_x"][:5000] = 0.5
assert bench.differences(block, None, slopes, flipped)
flipped = {"y": slopes["y"].copy(), "d_x": slopes["d_x"]}
flipped["y"][7] = 0.5
assert bench.differences(block, None, slopes, flipped)
ratio = {"rounds": 2}
bench.ratios(ratio, {"tenon": [1.0, 2.0, 1.0], "torch": [2.0, 4.0, 2.0], "jax": [1.5, 3.0, 9.0]})
assert ratio["best"] == "jax" and ratio["ratio"] == 1.5
