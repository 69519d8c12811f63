"""Softmax of [4096, 1024] over the last axis. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "softmax_case"
N, D = 4096, 1024
RUNS = [Run("softmax", "forward", dims=dict(N=N, D=D), tolerance=1e-5),
        Run("softmax fwd+bwd", "backward", dims=dict(N=N, D=D), tolerance=1e-5)]


def data(run, rng):
    return {"x": rng.standard_normal((N, D), np.float32) * 3, "d_y": rng.standard_normal((N, D), np.float32)}


def torch(run, t, p, a):
    return {"y": t.softmax(a["x"], -1)}


def torch_into(run, t, p, a, out):
    t.softmax(a["x"], -1, out=out["y"])


def jax(run, j, p, a, key):
    return {"y": j.nn.softmax(a["x"], -1)}


def onnx(run, g, p, a):
    return {"y": g.op("Softmax", "x", axis=-1)}
