"""The feed-forward half of a transformer block, B = 4, T = 256, C = 768. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "feedforward_case"
B, T, D = 4, 256, 768
FLOPS = 2 * B * T * D * 4 * D * 2
RUNS = [Run("feed-forward", "forward", dims=dict(B=B, T=T), flops=FLOPS),
        Run("feed-forward fwd+bwd", "backward", dims=dict(B=B, T=T), flops=3 * FLOPS, memory=True)]


def data(run, rng):
    f = np.float32

    def linear(name, n, k):
        return {"state:%s.weight" % name: rng.uniform(-k ** -0.5, k ** -0.5, (n, k)).astype(f),
                "state:%s.bias" % name: rng.uniform(-k ** -0.5, k ** -0.5, n).astype(f)}

    return {"x": rng.standard_normal((B, T, D), f), "d_y": rng.standard_normal((B, T, D), f),
            "state:norm.weight": rng.random(D, f) + 0.5, "state:norm.bias": rng.standard_normal(D, f),
            **linear("up", 4 * D, D), **linear("down", D, 4 * D)}


def torch(run, t, p, a):
    F = t.nn.functional
    y = F.layer_norm(a["x"], (D,), p["norm.weight"], p["norm.bias"])
    y = F.gelu(F.linear(y, p["up.weight"], p["up.bias"]))
    return {"y": a["x"] + F.linear(y, p["down.weight"], p["down.bias"])}


def jax(run, j, p, a, key):
    n = j.numpy
    x = a["x"]
    mean = n.mean(x, -1, keepdims=True)
    variance = n.mean(n.square(x - mean), -1, keepdims=True)
    y = (x - mean) * j.lax.rsqrt(variance + 1e-5) * p["norm.weight"] + p["norm.bias"]
    y = j.nn.gelu(y @ p["up.weight"].T + p["up.bias"], approximate=False)
    return {"y": x + y @ p["down.weight"].T + p["down.bias"]}


def onnx(run, g, p, a):
    y = g.op("LayerNormalization", "x", g.const(p["norm.weight"]), g.const(p["norm.bias"]), axis=-1)
    y = g.op("Add", g.op("MatMul", y, g.const(p["up.weight"].T)), g.const(p["up.bias"]))
    y = g.op("MatMul", g.op("Gelu", y), g.const(p["down.weight"].T))
    return {"y": g.op("Add", "x", g.op("Add", y, g.const(p["down.bias"])))}
