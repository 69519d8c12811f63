"""Cross-entropy of [1024, 50257] logits and its gradient. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "crossentropy_case"
N, C = 1024, 50257
RUNS = [Run("cross-entropy fwd+bwd", "backward", dims=dict(N=N, C=C), tolerance=1e-5)]


def data(run, rng):
    return {"logits": rng.standard_normal((N, C), np.float32) * 2, "target": rng.integers(0, C, N),
            "d_loss": np.ones((), np.float32)}


def torch(run, t, p, a):
    return {"loss": t.nn.functional.cross_entropy(a["logits"], a["target"])}


def jax(run, j, p, a, key):
    n = j.numpy
    x = a["logits"]
    chosen = n.take_along_axis(x, a["target"][:, None], 1)[:, 0]
    return {"loss": n.mean(j.nn.logsumexp(x, -1) - chosen)}
