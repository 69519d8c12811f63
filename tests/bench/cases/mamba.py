"""A Mamba block, B = 8, L = 128, dim 64, state 16. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "mamba_case"
B, L, DIM, N, K = 8, 128, 64, 16, 4
INNER, RANK = 2 * DIM, (DIM + 15) // 16
RUNS = [Run("mamba block", "forward", dims=dict(B=B, L=L), group="models"),
        Run("mamba block fwd+bwd", "backward", dims=dict(B=B, L=L), group="models", memory=True, tolerance=1e-3)]


def data(run, rng):
    f = np.float32

    def u(k, *shape):
        return rng.uniform(-k, k, shape).astype(f)

    return {"u": rng.standard_normal((B, L, DIM), f), "d_y": rng.standard_normal((B, L, DIM), f),
            "state:in_proj.weight": u(DIM ** -0.5, 2 * INNER, DIM), "state:w_conv": u(0.5, INNER, 1, K),
            "state:b_conv": u(0.5, INNER), "state:x_proj.weight": u(INNER ** -0.5, RANK + 2 * N, INNER),
            "state:w_dt": u(RANK ** -0.5, INNER, RANK), "state:b_dt": u(1, INNER) - f(3),
            "state:A_log": np.log(np.arange(1, N + 1, dtype=f)) + np.zeros((INNER, 1), f), "state:D": np.ones(INNER, f),
            "state:out_proj.weight": u(INNER ** -0.5, DIM, INNER)}


def torch(run, t, p, a):
    F = t.nn.functional
    x, z = F.linear(a["u"], p["in_proj.weight"]).chunk(2, -1)
    x = F.silu(F.conv1d(x.mT, p["w_conv"], p["b_conv"], padding=K - 1, groups=INNER)[:, :, :L].mT)
    r, b, c = F.linear(x, p["x_proj.weight"]).split([RANK, N, N], -1)
    dt = F.softplus(F.linear(r, p["w_dt"], p["b_dt"]))
    decay = t.exp(dt[..., None] * -t.exp(p["A_log"]))
    grow = dt[..., None] * b[:, :, None, :] * x[..., None]
    h, ys = x.new_zeros(B, INNER, N), []
    for s in range(L):
        h = decay[:, s] * h + grow[:, s]
        ys.append((h * c[:, s, None, :]).sum(-1))
    return {"y": F.linear((t.stack(ys, 1) + x * p["D"]) * F.silu(z), p["out_proj.weight"])}


def jax(run, j, p, a, key):
    n = j.numpy
    x, z = n.split(a["u"] @ p["in_proj.weight"].T, 2, -1)
    x = j.lax.conv_general_dilated(n.swapaxes(x, 1, 2), p["w_conv"], (1,), [(K - 1, 0)],
                                   dimension_numbers=("NCH", "OIH", "NCH"), feature_group_count=INNER)
    x = j.nn.silu(n.swapaxes(x + p["b_conv"][:, None], 1, 2))
    r, b, c = n.split(x @ p["x_proj.weight"].T, [RANK, RANK + N], -1)
    dt = j.nn.softplus(r @ p["w_dt"].T + p["b_dt"])
    A = -n.exp(p["A_log"])

    def cell(h, now):
        x, dt, b, c = now
        h = n.exp(dt[..., None] * A) * h + dt[..., None] * b[:, None, :] * x[..., None]
        return h, (h * c[:, None, :]).sum(-1)

    first = tuple(n.swapaxes(v, 0, 1) for v in (x, dt, b, c))
    _, ys = j.lax.scan(cell, n.zeros((B, INNER, N), n.float32), first)
    return {"y": ((n.swapaxes(ys, 0, 1) + x * p["D"]) * j.nn.silu(z)) @ p["out_proj.weight"].T}
