"""Batch-norm training of [8, 64, 56, 56]. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "batchnorm_case"
SHAPE = (8, 64, 56, 56)
RUNS = [Run("batch-norm training fwd+bwd", "backward", dims=dict(B=8, H=56, W=56), training=True)]
BUFFERS = ("norm.running_mean", "norm.running_var", "norm.num_batches_tracked")


def data(run, rng):
    f = np.float32
    return {"x": rng.standard_normal(SHAPE, f) * 2 + 1, "d_y": rng.standard_normal(SHAPE, f),
            "state:norm.weight": rng.random(64, f) + 0.5, "state:norm.bias": rng.standard_normal(64, f),
            "state:norm.running_mean": np.zeros(64, f), "state:norm.running_var": np.ones(64, f),
            "state:norm.num_batches_tracked": np.zeros((), np.int64)}


def torch(run, t, p, a):
    return {"y": t.nn.functional.batch_norm(a["x"], p["norm.running_mean"], p["norm.running_var"],
                                            p["norm.weight"], p["norm.bias"], True, 0.1)}


def jax(run, j, p, a, key):
    n = j.numpy
    x = a["x"]
    mean = n.mean(x, (0, 2, 3))
    variance = n.mean(n.square(x - mean[:, None, None]), (0, 2, 3))
    scale = j.lax.rsqrt(variance + 1e-5) * p["norm.weight"]
    y = (x - mean[:, None, None]) * scale[:, None, None] + p["norm.bias"][:, None, None]
    count = x.size // 64
    moved = {"running_mean": 0.9 * p["norm.running_mean"] + 0.1 * mean,
             "running_var": 0.9 * p["norm.running_var"] + 0.1 * variance * (count / (count - 1))}
    return {"y": y, **moved}
