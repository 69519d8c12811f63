"""A training step of a small GPT: 4 layers of 128, 4 heads, B = 16, T = 128. SPDX-License-Identifier: MIT"""
from common import Run, load_case
import numpy as np

MODEL = "gpt_case"
B, T, V, D, DEPTH, HEADS = 16, 128, 65, 128, 4, 4
RUNS = [Run("small gpt step", "step", method="loss", dims=dict(B=B, T=T), lr=1e-3, group="models", memory=True)]
CLIP = 1.0
X = load_case("transformer")


def data(run, rng):
    f = np.float32
    d = {"tokens": rng.integers(0, V, (B, T)), "targets": rng.integers(0, V, (B, T)),
         "state:wte.weight": rng.standard_normal((V, D), f) * f(0.02),
         "state:wpe.weight": rng.standard_normal((T, D), f) * f(0.02),
         "state:ln_f.weight": np.ones(D, f), "state:ln_f.bias": np.zeros(D, f),
         "state:head.weight": rng.standard_normal((V, D), f) * f(0.02)}
    for i in range(DEPTH):
        d.update(X.block(rng, "state:h.%d." % i, D))
    return d


def torch(run, t, p, a):
    F = t.nn.functional
    x = F.embedding(a["tokens"], p["wte.weight"]) + p["wpe.weight"]
    for i in range(DEPTH):
        x = X.torch_block(t, p, x, "h.%d." % i, HEADS)
    x = F.layer_norm(x, (D,), p["ln_f.weight"], p["ln_f.bias"])
    return {"loss": F.cross_entropy(F.linear(x, p["head.weight"]).flatten(0, 1), a["targets"].flatten())}


def jax(run, j, p, a, key):
    n = j.numpy
    x = p["wte.weight"][a["tokens"]] + p["wpe.weight"]
    for i in range(DEPTH):
        x = X.jax_block(j, p, x, "h.%d." % i, HEADS)
    logits = (X.jax_norm(j, x, p["ln_f.weight"], p["ln_f.bias"]) @ p["head.weight"].T).reshape(-1, V)
    return {"loss": -n.mean(n.take_along_axis(j.nn.log_softmax(logits, -1), a["targets"].reshape(-1, 1), 1))}
