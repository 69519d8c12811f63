"""The LLTM cell at two sizes. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "lltm_case"
SIZES = [(16, 32, 128), (64, 256, 512)]
RUNS = [Run("lltm %dx%dx%d %s" % (*s, label), mode, dims=dict(B=s[0]), defines=dict(features=s[1], state=s[2]),
            size=s) for s in SIZES for mode, label in (("forward", "forward"), ("backward", "fwd+bwd"))]


def data(run, rng):
    (b, f, s), kind = run.size, np.float32
    k = s ** -0.5
    return {"x": rng.standard_normal((b, f), kind), "h": rng.standard_normal((b, s), kind),
            "c": rng.standard_normal((b, s), kind),
            "d_new_h": rng.standard_normal((b, s), kind), "d_new_c": rng.standard_normal((b, s), kind),
            "state:weights": rng.uniform(-k, k, (3 * s, f + s)).astype(kind),
            "state:bias": rng.uniform(-k, k, 3 * s).astype(kind)}


def torch(run, t, p, a):
    F = t.nn.functional
    gates = F.linear(t.cat([a["h"], a["x"]], 1), p["weights"], p["bias"])
    i, o, g = gates.chunk(3, 1)
    c = a["c"] + F.elu(g) * t.sigmoid(i)
    return {"new_h": t.tanh(c) * t.sigmoid(o), "new_c": c}


def jax(run, j, p, a, key):
    n = j.numpy
    gates = n.concatenate([a["h"], a["x"]], 1) @ p["weights"].T + p["bias"]
    i, o, g = n.split(gates, 3, 1)
    c = a["c"] + j.nn.elu(g) * j.nn.sigmoid(i)
    return {"new_h": n.tanh(c) * j.nn.sigmoid(o), "new_c": c}


def onnx(run, g, p, a):
    x = g.op("Concat", "h", "x", axis=1)
    gates = g.op("Gemm", x, g.const(p["weights"]), g.const(p["bias"]), transB=1)
    i, o, k = g.op("Split", gates, results=3, axis=1, num_outputs=3)
    c = g.op("Add", "c", g.op("Mul", g.op("Elu", k), g.op("Sigmoid", i)))
    return {"new_h": g.op("Mul", g.op("Tanh", c), g.op("Sigmoid", o)), "new_c": c}
