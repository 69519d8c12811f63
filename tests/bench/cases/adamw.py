"""AdamW with clipping on 10M parameters in 150 tensors, from given gradients. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "adamw_case"
SHAPES = {"big": (250, 768), "small": (768,), "tall": (7232,)}
RUNS = [Run("adamw 10M in 150 tensors", "update", method="loss", lr=1e-3)]
CLIP = 1.0


def data(run, rng):
    d = {}
    for i in range(50):
        for k, s in SHAPES.items():
            d["state:layers.%d.%s" % (i, k)] = rng.standard_normal(s, np.float32)
            d["grad:layers.%d.%s" % (i, k)] = rng.standard_normal(s, np.float32)
    d["state:w0"] = np.ones(1, np.float32)
    return d


torch = jax = None  # the optimiser is all there is
