"""GELU of 16M numbers. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "gelu_case"
N = 1 << 24
RUNS = [Run("gelu 16M", "forward", dims=dict(N=N), tolerance=1e-5),
        Run("gelu 16M fwd+bwd", "backward", dims=dict(N=N), tolerance=1e-5)]


def data(run, rng):
    return {"x": rng.standard_normal(N, np.float32) * 2, "d_y": rng.standard_normal(N, np.float32)}


def torch(run, t, p, a):
    return {"y": t.nn.functional.gelu(a["x"])}


def torch_into(run, t, p, a, out):
    t._C._nn.gelu(a["x"], out=out["y"])


def jax(run, j, p, a, key):
    return {"y": j.nn.gelu(a["x"], approximate=False)}


def onnx(run, g, p, a):
    return {"y": g.op("Gelu", "x")}
