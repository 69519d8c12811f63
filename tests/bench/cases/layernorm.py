"""LayerNorm of [4096, 768]. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "layernorm_case"
N, D = 4096, 768
RUNS = [Run("layernorm", "forward", dims=dict(N=N), tolerance=1e-5),
        Run("layernorm fwd+bwd", "backward", dims=dict(N=N))]


def data(run, rng):
    f = np.float32
    return {"x": rng.standard_normal((N, D), f) * 2 + 1, "d_y": rng.standard_normal((N, D), f),
            "state:norm.weight": rng.standard_normal(D, f), "state:norm.bias": rng.standard_normal(D, f)}


def torch(run, t, p, a):
    return {"y": t.nn.functional.layer_norm(a["x"], (D,), p["norm.weight"], p["norm.bias"])}


def jax(run, j, p, a, key):
    n = j.numpy
    x = a["x"]
    mean = n.mean(x, -1, keepdims=True)
    variance = n.mean(n.square(x - mean), -1, keepdims=True)
    return {"y": (x - mean) * j.lax.rsqrt(variance + 1e-5) * p["norm.weight"] + p["norm.bias"]}


def onnx(run, g, p, a):
    return {"y": g.op("LayerNormalization", "x", g.const(p["norm.weight"]), g.const(p["norm.bias"]), axis=-1)}
