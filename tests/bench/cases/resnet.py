"""A ResNet block of 3x3 convolutions on [8, 64, 56, 56]. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "resnet_case"
B, C, S = 8, 64, 56
FLOPS = 2 * 2 * B * C * C * 9 * S * S
RUNS = [Run("resnet block", "forward", dims=dict(B=B, S=S), group="models", flops=FLOPS, tolerance=2e-4),
        Run("resnet block fwd+bwd", "backward", dims=dict(B=B, S=S), group="models", flops=3 * FLOPS, training=True,
            memory=True, tolerance=1e-3, kinks=True)]
BUFFERS = tuple("bn%d.%s" % (i, n) for i in (1, 2) for n in ("running_mean", "running_var", "num_batches_tracked"))


def norm(rng, name, c):
    f = np.float32
    return {"state:%s.weight" % name: rng.random(c, f) + 0.5, "state:%s.bias" % name: rng.standard_normal(c, f) * f(0.1),
            "state:%s.running_mean" % name: np.zeros(c, f), "state:%s.running_var" % name: np.ones(c, f),
            "state:%s.num_batches_tracked" % name: np.zeros((), np.int64)}


def data(run, rng):
    f = np.float32
    return {"x": rng.standard_normal((B, C, S, S), f), "d_y": rng.standard_normal((B, C, S, S), f),
            **{"state:conv%d.weight" % i: rng.standard_normal((C, C, 3, 3), f) * f(0.05) for i in (1, 2)},
            **norm(rng, "bn1", C), **norm(rng, "bn2", C)}


def torch_norm(run, t, p, name, x):
    return t.nn.functional.batch_norm(x, p[name + ".running_mean"], p[name + ".running_var"], p[name + ".weight"],
                                      p[name + ".bias"], run.training, 0.1)


def torch(run, t, p, a):
    F = t.nn.functional
    y = F.relu(torch_norm(run, t, p, "bn1", F.conv2d(a["x"], p["conv1.weight"], padding=1)))
    return {"y": F.relu(a["x"] + torch_norm(run, t, p, "bn2", F.conv2d(y, p["conv2.weight"], padding=1)))}


def jax_norm(run, j, p, name, x):
    n = j.numpy
    mean, variance = p[name + ".running_mean"], p[name + ".running_var"]
    if run.training:
        mean = n.mean(x, (0, 2, 3))
        variance = n.mean(n.square(x - mean[:, None, None]), (0, 2, 3))
    scale = j.lax.rsqrt(variance + 1e-5) * p[name + ".weight"]
    return (x - mean[:, None, None]) * scale[:, None, None] + p[name + ".bias"][:, None, None]


def jax_conv(j, x, w, groups=1, padding="SAME", stride=1):
    return j.lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=("NCHW", "OIHW", "NCHW"),
                                      feature_group_count=groups)


def jax(run, j, p, a, key):
    y = j.nn.relu(jax_norm(run, j, p, "bn1", jax_conv(j, a["x"], p["conv1.weight"])))
    return {"y": j.nn.relu(a["x"] + jax_norm(run, j, p, "bn2", jax_conv(j, y, p["conv2.weight"])))}


def onnx(run, g, p, a):
    def conv(i, x):
        y = g.op("Conv", x, g.const(p["conv%d.weight" % i]), pads=[1, 1, 1, 1])
        return g.op("BatchNormalization", y, *[g.const(p["bn%d.%s" % (i, n)]) for n in (
            "weight", "bias", "running_mean", "running_var")])

    return {"y": g.op("Relu", g.op("Add", "x", conv(2, g.op("Relu", conv(1, "x")))))}
