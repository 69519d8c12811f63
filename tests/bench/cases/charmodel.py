"""A training step of a character LSTM without an embedding: T = 32, B = 32, 128 units, 65 letters.
SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "charmodel_case"
T, B, V, H = 32, 32, 65, 128
RUNS = [Run("char model step", "step", method="loss", dims=dict(B=B), lr=1e-3)]
CLIP = 1.0


def data(run, rng):
    k, f = H ** -0.5, np.float32

    def u(*shape):
        return rng.uniform(-k, k, shape).astype(f)

    return {"x": np.eye(V, dtype=f)[rng.integers(0, V, (T, B))], "y": rng.integers(0, V, (T, B)),
            "state:w_ih": u(4 * H, V), "state:w_hh": u(4 * H, H), "state:b_ih": u(4 * H), "state:b_hh": u(4 * H),
            "state:head.weight": u(V, H), "state:head.bias": u(V)}


def torch(run, t, p, a):
    F = t.nn.functional
    zero = a["x"].new_zeros(1, B, H)
    out, _, _ = t._VF.lstm(a["x"], (zero, zero), [p["w_ih"], p["w_hh"], p["b_ih"], p["b_hh"]], True, 1, 0.0, True,
                           False, False)
    return {"loss": F.cross_entropy(F.linear(out, p["head.weight"], p["head.bias"]).flatten(0, 1), a["y"].flatten())}


def jax(run, j, p, a, key):
    n = j.numpy
    inputs = a["x"] @ p["w_ih"].T + p["b_ih"] + p["b_hh"]

    def cell(carry, x):
        h, c = carry
        i, f, g, o = n.split(x + h @ p["w_hh"].T, 4, 1)
        c = j.nn.sigmoid(f) * c + j.nn.sigmoid(i) * n.tanh(g)
        h = j.nn.sigmoid(o) * n.tanh(c)
        return (h, c), h

    zero = n.zeros((B, H), n.float32)
    _, out = j.lax.scan(cell, (zero, zero), inputs)
    logits = (out @ p["head.weight"].T + p["head.bias"]).reshape(-1, V)
    return {"loss": -n.mean(n.take_along_axis(j.nn.log_softmax(logits, -1), a["y"].reshape(-1, 1), 1))}
