"""A training step of LeNet-5, B = 64. SPDX-License-Identifier: MIT"""
from common import Run, load_case
import numpy as np

MODEL = "lenet_case"
B = 64
RUNS = [Run("lenet step", "step", method="loss", dims=dict(B=B), lr=1e-3, group="models", memory=True)]
SHAPES = {"conv1": (6, 1, 5, 5), "conv2": (16, 6, 5, 5), "fc1": (120, 400), "fc2": (84, 120), "fc3": (10, 84)}


def data(run, rng):
    f = np.float32
    d = {"x": rng.standard_normal((B, 1, 28, 28), f), "y": rng.integers(0, 10, B)}
    for name, s in SHAPES.items():
        k = np.prod(s[1:]) ** -0.5
        d["state:%s.weight" % name] = rng.uniform(-k, k, s).astype(f)
        d["state:%s.bias" % name] = rng.uniform(-k, k, s[0]).astype(f)
    return d


def torch(run, t, p, a):
    F = t.nn.functional
    h = F.avg_pool2d(t.tanh(F.conv2d(a["x"], p["conv1.weight"], p["conv1.bias"], padding=2)), 2)
    h = F.avg_pool2d(t.tanh(F.conv2d(h, p["conv2.weight"], p["conv2.bias"])), 2).flatten(1)
    h = t.tanh(F.linear(h, p["fc1.weight"], p["fc1.bias"]))
    h = t.tanh(F.linear(h, p["fc2.weight"], p["fc2.bias"]))
    return {"loss": F.cross_entropy(F.linear(h, p["fc3.weight"], p["fc3.bias"]), a["y"])}


def jax(run, j, p, a, key):
    n = j.numpy
    conv = load_case("resnet").jax_conv

    def pool(x):
        b, c, s, _ = x.shape
        return x.reshape(b, c, s // 2, 2, s // 2, 2).mean((3, 5))

    h = pool(n.tanh(conv(j, a["x"], p["conv1.weight"]) + p["conv1.bias"][:, None, None]))
    h = pool(n.tanh(conv(j, h, p["conv2.weight"], padding="VALID") + p["conv2.bias"][:, None, None])).reshape(B, -1)
    for name in ("fc1", "fc2"):
        h = n.tanh(h @ p[name + ".weight"].T + p[name + ".bias"])
    logits = h @ p["fc3.weight"].T + p["fc3.bias"]
    return {"loss": -n.mean(n.take_along_axis(j.nn.log_softmax(logits, -1), a["y"][:, None], 1))}
