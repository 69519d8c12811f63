"""Embedding of 4 x 256 tokens in a table [50257, 768], and its gradient. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "embedding_case"
V, D, B, T = 50257, 768, 4, 256
RUNS = [Run("embedding fwd+bwd", "backward", dims=dict(B=B, T=T), group="models", tolerance=1e-5)]


def data(run, rng):
    f = np.float32
    return {"tokens": rng.integers(0, V, (B, T)), "d_y": rng.standard_normal((B, T, D), f),
            "state:table.weight": rng.standard_normal((V, D), f)}


def torch(run, t, p, a):
    return {"y": t.nn.functional.embedding(a["tokens"], p["table.weight"])}


def jax(run, j, p, a, key):
    return {"y": p["table.weight"][a["tokens"]]}
