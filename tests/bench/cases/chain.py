"""bias + GELU + dropout + residual on [4096, 3072], as in training. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "chain_case"
N, D, P = 4096, 3072, 0.1
RUNS = [Run("bias+gelu (inference chain)", "forward", dims=dict(N=N), tolerance=1e-5),
        Run("bias+gelu+dropout+residual fwd+bwd", "backward", dims=dict(N=N), training=True)]


def data(run, rng):
    f = np.float32
    return {"x": rng.standard_normal((N, D), f), "residual": rng.standard_normal((N, D), f),
            "state:bias": rng.standard_normal(D, f), "d_y": rng.standard_normal((N, D), f)}


def torch(run, t, p, a):
    F = t.nn.functional
    return {"y": a["residual"] + F.dropout(F.gelu(a["x"] + p["bias"]), P, run.training)}


def jax(run, j, p, a, key):
    y = j.nn.gelu(a["x"] + p["bias"], approximate=False)
    if run.training:
        y = j.numpy.where(j.random.bernoulli(key, 1 - P, y.shape), y / (1 - P), 0)
    return {"y": a["residual"] + y}


def onnx(run, g, p, a):
    return {"y": g.op("Add", "residual", g.op("Gelu", g.op("Add", "x", g.const(p["bias"]))))}


def check(run, d, got):
    """Each has random numbers of its own: what was kept must be right, and as much as there should be.
    A mask changes gradients by the same factor as results."""
    import math
    z = (d["x"] + d["state:bias"])[:64].astype(np.float64)
    erf = np.vectorize(math.erf)(z / math.sqrt(2))
    full = 0.5 * z * (1 + erf) / (1 - (P if run.training else 0))
    branch = got["y"][:64].astype(np.float64) - d["residual"][:64]
    if not run.training:
        return np.abs(branch - full).max() / np.abs(full).max() < 1e-5
    kept = np.abs(branch) > 1e-6 * np.maximum(1, np.abs(d["residual"][:64]))
    slope = 0.5 * (1 + erf) + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    want = np.where(kept, d["d_y"][:64] * slope / (1 - P), 0)
    sure = np.abs(full) > 1e-4
    parts = [abs(kept[sure].mean() - (1 - P)) < 0.01,
             np.abs(np.where(kept & sure, branch - full, 0)).max() < 1e-4,
             np.abs(np.where(sure, got["d_x"][:64] - want, 0)).max() < 1e-3,
             np.array_equal(got["d_residual"], d["d_y"]),
             np.allclose(got["grad:bias"], got["d_x"].sum(0), atol=1e-2)]
    return all(parts)
