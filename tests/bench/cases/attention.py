"""Causal attention, B = 4, H = 12, T = 512, D = 64. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "attention_case"
SHAPE = (4, 12, 512, 64)
DIMS = dict(B=4, T=512)
RUNS = [Run("attention", "forward", dims=DIMS, group="models"),
        Run("attention fwd+bwd", "backward", dims=DIMS, group="models", memory=True)]


def data(run, rng):
    return {k: rng.standard_normal(SHAPE, np.float32) for k in ("q", "k", "v", "d_y")}


def torch(run, t, p, a):
    return {"y": t.nn.functional.scaled_dot_product_attention(a["q"], a["k"], a["v"], is_causal=True)}


def jax(run, j, p, a, key):
    q, k, v = (j.numpy.swapaxes(a[n], 1, 2) for n in "qkv")
    return {"y": j.numpy.swapaxes(j.nn.dot_product_attention(q, k, v, is_causal=True), 1, 2)}


def onnx(run, g, p, a):
    mask = np.triu(np.full((512, 512), -np.inf, np.float32), 1)
    scores = g.op("MatMul", g.op("Mul", "q", g.const(np.float32(64 ** -0.5))), g.op("Transpose", "k", perm=[0, 1, 3, 2]))
    return {"y": g.op("MatMul", g.op("Softmax", g.op("Add", scores, g.const(mask)), axis=-1), "v")}
