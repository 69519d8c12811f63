"""Products of two arguments. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "contraction_case"
SHAPES = [(256, 256, 256), (1024, 1024, 1024)]
RUNS = [Run("contraction %dx%dx%d" % s, "forward", dims=dict(M=s[0], N=s[1], K=s[2]), tolerance=2e-5,
            flops=2 * s[0] * s[1] * s[2], shape=s, group="contraction") for s in SHAPES]


def data(run, rng):
    m, n, k = run.shape
    return {"a": rng.standard_normal((m, k), np.float32), "b": rng.standard_normal((k, n), np.float32)}


def torch(run, t, p, a):
    return {"y": a["a"] @ a["b"]}


def torch_into(run, t, p, a, out):
    t.mm(a["a"], a["b"], out=out["y"])


def jax(run, j, p, a, key):
    return {"y": a["a"] @ a["b"]}


def onnx(run, g, p, a):
    return {"y": g.op("MatMul", "a", g.const(a["b"]))}
