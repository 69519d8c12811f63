"""An LSTM, B = 32, T = 64, H = 256. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "lstm_case"
T, B, H = 64, 32, 256
RUNS = [Run("lstm", "forward", dims=dict(T=T, B=B), group="models"),
        Run("lstm fwd+bwd", "backward", dims=dict(T=T, B=B), group="models", memory=True, tolerance=3e-4)]
NAMES = ["lstm.weight_ih_l0", "lstm.weight_hh_l0", "lstm.bias_ih_l0", "lstm.bias_hh_l0"]


def data(run, rng):
    k, f = H ** -0.5, np.float32
    shapes = [(4 * H, H), (4 * H, H), (4 * H,), (4 * H,)]
    return {"x": rng.standard_normal((T, B, H), f), "d_y": rng.standard_normal((T, B, H), f),
            **{"state:" + n: rng.uniform(-k, k, s).astype(f) for n, s in zip(NAMES, shapes)}}


def torch(run, t, p, a):
    zero = a["x"].new_zeros(1, B, H)
    out, _, _ = t._VF.lstm(a["x"], (zero, zero), [p[n] for n in NAMES], True, 1, 0.0, False, False, False)
    return {"y": out}


def jax(run, j, p, a, key):
    n = j.numpy
    w_ih, w_hh, b_ih, b_hh = (p[k] for k in NAMES)
    inputs = a["x"] @ w_ih.T + b_ih + b_hh

    def cell(carry, x):
        h, c = carry
        i, f, g, o = n.split(x + h @ w_hh.T, 4, 1)
        c = j.nn.sigmoid(f) * c + j.nn.sigmoid(i) * n.tanh(g)
        h = j.nn.sigmoid(o) * n.tanh(c)
        return (h, c), h

    zero = n.zeros((B, H), n.float32)
    return {"y": j.lax.scan(cell, (zero, zero), inputs)[1]}


def onnx(run, g, p, a):
    def order(w):  # i f g o of PyTorch, i o f c of ONNX
        i, f, c, o = np.split(w, 4)
        return np.concatenate([i, o, f, c])

    bias = np.concatenate([order(p[NAMES[2]]), order(p[NAMES[3]])])[None]
    y, _ = g.op("LSTM", "x", g.const(order(p[NAMES[0]])[None]), g.const(order(p[NAMES[1]])[None]), g.const(bias),
                results=2, hidden_size=H)
    return {"y": g.op("Squeeze", y, g.const(np.array([1])))}
