"""A multi-layer perceptron 784-512-512-10 on batches of 64. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "mlp_case"
B, SIZES = 64, [784, 512, 512, 10]
RUNS = [Run("mlp forward", "forward", dims=dict(B=B)),
        Run("mlp training step", "step", method="loss", dims=dict(B=B), lr=1e-3, memory=True)]


def data(run, rng):
    d = {"x": rng.random((B, SIZES[0]), np.float32)}
    if run.mode == "step":
        d["y"] = rng.integers(0, 10, B)
    for i in range(3):
        k = SIZES[i] ** -0.5
        d["state:layers.%d.weight" % (2 * i)] = rng.uniform(-k, k, (SIZES[i + 1], SIZES[i])).astype(np.float32)
        d["state:layers.%d.bias" % (2 * i)] = rng.uniform(-k, k, SIZES[i + 1]).astype(np.float32)
    return d


def torch(run, t, p, a):
    F = t.nn.functional
    x = a["x"]
    for i in (0, 2, 4):
        x = F.linear(x, p["layers.%d.weight" % i], p["layers.%d.bias" % i])
        x = F.relu(x) if i < 4 else x
    return {"loss": F.cross_entropy(x, a["y"])} if run.mode == "step" else {"logits": x}


def jax(run, j, p, a, key):
    x = a["x"]
    for i in (0, 2, 4):
        x = x @ p["layers.%d.weight" % i].T + p["layers.%d.bias" % i]
        x = j.nn.relu(x) if i < 4 else x
    if run.mode != "step":
        return {"logits": x}
    chosen = j.numpy.take_along_axis(j.nn.log_softmax(x, -1), a["y"][:, None], 1)
    return {"loss": -j.numpy.mean(chosen)}


def onnx(run, g, p, a):
    x = "x"
    for i in (0, 2, 4):
        x = g.op("Gemm", x, g.const(p["layers.%d.weight" % i]), g.const(p["layers.%d.bias" % i]), transB=1)
        x = g.op("Relu", x) if i < 4 else x
    return {"logits": x}
