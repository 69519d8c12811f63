"""Products of a few rows and a layer's weights, known beforehand. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "weights_case"
SHAPES = [(64, 3072, 768), (8, 768, 3072), (1, 768, 768)]
RUNS = [Run("contraction %dx%dx%d" % s, "forward", dims=dict(M=s[0]), defines=dict(outputs=s[1], inputs=s[2]),
            tolerance=2e-5, flops=2 * s[0] * s[1] * s[2], shape=s, group="contraction") for s in SHAPES]


def data(run, rng):
    m, n, k = run.shape
    return {"a": rng.standard_normal((m, k), np.float32), "state:weight": rng.standard_normal((k, n), np.float32)}


def torch(run, t, p, a):
    return {"y": a["a"] @ p["weight"]}


def torch_into(run, t, p, a, out):
    t.mm(a["a"], p["weight"], out=out["y"])


def jax(run, j, p, a, key):
    return {"y": a["a"] @ p["weight"]}


def onnx(run, g, p, a):
    return {"y": g.op("MatMul", "a", g.const(p["weight"]))}
