"""Products of two arguments, and of a few rows with a layer's weights. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "contraction_case"


def product(m, n, k, method="forward", **sizes):
    return Run("contraction %dx%dx%d" % (m, n, k), "forward", method=method, tolerance=2e-5, flops=2 * m * n * k,
               shape=(m, n, k), group="contraction", **sizes)


RUNS = [product(n, n, n, dims=dict(M=n, N=n, K=n)) for n in (256, 1024)] + \
       [product(m, n, k, "layer", dims=dict(M=m), defines=dict(outputs=n, inputs=k))
        for m, n, k in ((64, 3072, 768), (8, 768, 3072), (1, 768, 768))]


def data(run, rng):
    m, n, k = run.shape
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    if run.method == "layer":
        return {"a": a, "state:weight": b}
    return {"a": a, "b": b, "state:weight": np.zeros((1, 1), np.float32)}


def right(p, a):
    return a.get("b", p["weight"])


def torch(run, t, p, a):
    return {"y": a["a"] @ right(p, a)}


def torch_into(run, t, p, a, out):
    t.mm(a["a"], right(p, a), out=out["y"])


def jax(run, j, p, a, key):
    return {"y": a["a"] @ right(p, a)}


def onnx(run, g, p, a):
    return {"y": g.op("MatMul", "a", g.const(right(p, a)))}
