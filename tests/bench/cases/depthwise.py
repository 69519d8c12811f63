"""A depthwise block (MobileNetV2's) on [8, 32, 56, 56]. SPDX-License-Identifier: MIT"""
from common import Run, load_case
import numpy as np

MODEL = "depthwise_case"
B, C, W, S = 8, 32, 192, 56
RUNS = [Run("depthwise block", "forward", dims=dict(B=B, S=S), group="models", tolerance=2e-4),
        Run("depthwise block fwd+bwd", "backward", dims=dict(B=B, S=S), group="models", training=True, memory=True,
            tolerance=1e-3, kinks=True)]
BUFFERS = tuple("bn%d.%s" % (i, n) for i in (1, 2, 3) for n in ("running_mean", "running_var", "num_batches_tracked"))
R = load_case("resnet")


def data(run, rng):
    f = np.float32
    return {"x": rng.standard_normal((B, C, S, S), f), "d_y": rng.standard_normal((B, C, S, S), f),
            "state:conv1.weight": rng.standard_normal((W, C, 1, 1), f) * f(0.2),
            "state:conv2.weight": rng.standard_normal((W, 1, 3, 3), f) * f(0.3),
            "state:conv3.weight": rng.standard_normal((C, W, 1, 1), f) * f(0.07),
            **R.norm(rng, "bn1", W), **R.norm(rng, "bn2", W), **R.norm(rng, "bn3", C)}


def torch(run, t, p, a):
    F = t.nn.functional
    y = F.relu6(R.torch_norm(run, t, p, "bn1", F.conv2d(a["x"], p["conv1.weight"])))
    y = F.relu6(R.torch_norm(run, t, p, "bn2", F.conv2d(y, p["conv2.weight"], padding=1, groups=W)))
    return {"y": a["x"] + R.torch_norm(run, t, p, "bn3", F.conv2d(y, p["conv3.weight"]))}


def jax(run, j, p, a, key):
    y = j.nn.relu6(R.jax_norm(run, j, p, "bn1", R.jax_conv(j, a["x"], p["conv1.weight"])))
    y = j.nn.relu6(R.jax_norm(run, j, p, "bn2", R.jax_conv(j, y, p["conv2.weight"], W)))
    return {"y": a["x"] + R.jax_norm(run, j, p, "bn3", R.jax_conv(j, y, p["conv3.weight"]))}


def onnx(run, g, p, a):
    def conv(i, x, **how):
        y = g.op("Conv", x, g.const(p["conv%d.weight" % i]), **how)
        return g.op("BatchNormalization", y, *[g.const(p["bn%d.%s" % (i, n)]) for n in (
            "weight", "bias", "running_mean", "running_var")])

    def relu6(x):
        return g.op("Clip", x, g.const(np.float32(0)), g.const(np.float32(6)))

    y = relu6(conv(2, relu6(conv(1, "x")), pads=[1, 1, 1, 1], group=W))
    return {"y": g.op("Add", "x", conv(3, y))}
