"""A transformer block, B = 4, T = 256, C = 768, H = 12. SPDX-License-Identifier: MIT"""
from common import Run
import numpy as np

MODEL = "transformer_case"
B, T, D, H = 4, 256, 768, 12
RUNS = [Run("transformer block", "forward", dims=dict(B=B, T=T), group="models"),
        Run("transformer block fwd+bwd", "backward", dims=dict(B=B, T=T), group="models", memory=True, tolerance=3e-4)]


def block(rng, prefix, d):
    f = np.float32

    def linear(name, n, k):
        return {prefix + name + ".weight": rng.uniform(-k ** -0.5, k ** -0.5, (n, k)).astype(f),
                prefix + name + ".bias": rng.uniform(-k ** -0.5, k ** -0.5, n).astype(f)}

    out = {**linear("qkv", 3 * d, d), **linear("proj", d, d), **linear("up", 4 * d, d), **linear("down", d, 4 * d)}
    for name in ("ln_1", "ln_2"):
        out[prefix + name + ".weight"] = rng.random(d, f) + 0.5
        out[prefix + name + ".bias"] = rng.standard_normal(d, f) * f(0.1)
    return out


def data(run, rng):
    return {"x": rng.standard_normal((B, T, D), np.float32), "d_y": rng.standard_normal((B, T, D), np.float32),
            **block(rng, "state:", D)}


def torch_block(t, p, x, prefix="", heads=H):
    F = t.nn.functional
    b, n, d = x.shape

    def linear(name, v):
        return F.linear(v, p[prefix + name + ".weight"], p[prefix + name + ".bias"])

    def norm(name, v):
        return F.layer_norm(v, (d,), p[prefix + name + ".weight"], p[prefix + name + ".bias"])

    q, k, v = (z.view(b, n, heads, d // heads).transpose(1, 2) for z in linear("qkv", norm("ln_1", x)).chunk(3, -1))
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d)
    x = x + linear("proj", y)
    return x + linear("down", F.gelu(linear("up", norm("ln_2", x)), approximate="tanh"))


def jax_norm(j, x, weight, bias):
    mean = j.numpy.mean(x, -1, keepdims=True)
    variance = j.numpy.mean(j.numpy.square(x - mean), -1, keepdims=True)
    return (x - mean) * j.lax.rsqrt(variance + 1e-5) * weight + bias


def jax_block(j, p, x, prefix="", heads=H):
    b, n, d = x.shape

    def linear(name, v):
        return v @ p[prefix + name + ".weight"].T + p[prefix + name + ".bias"]

    def norm(name, v):
        return jax_norm(j, v, p[prefix + name + ".weight"], p[prefix + name + ".bias"])

    q, k, v = (z.reshape(b, n, heads, d // heads) for z in j.numpy.split(linear("qkv", norm("ln_1", x)), 3, -1))
    x = x + linear("proj", j.nn.dot_product_attention(q, k, v, is_causal=True).reshape(b, n, d))
    return x + linear("down", j.nn.gelu(linear("up", norm("ln_2", x)), approximate=True))


def torch(run, t, p, a):
    return {"y": torch_block(t, p, a["x"])}


def jax(run, j, p, a, key):
    return {"y": jax_block(j, p, a["x"])}


def onnx(run, g, p, a):
    def linear(name, v):
        return g.op("Add", g.op("MatMul", v, g.const(p[name + ".weight"].T)), g.const(p[name + ".bias"]))

    def norm(name, v):
        return g.op("LayerNormalization", v, g.const(p[name + ".weight"]), g.const(p[name + ".bias"]), axis=-1)

    def heads(v, perm):
        return g.op("Transpose", g.op("Reshape", v, g.const(np.array([B, T, H, D // H]))), perm=perm)

    q, k, v = g.op("Split", linear("qkv", norm("ln_1", "x")), results=3, axis=-1, num_outputs=3)
    mask = g.const(np.triu(np.full((T, T), -np.inf, np.float32), 1))
    scores = g.op("MatMul", heads(g.op("Mul", q, g.const(np.float32((D // H) ** -0.5))), [0, 2, 1, 3]),
                  heads(k, [0, 2, 3, 1]))
    y = g.op("MatMul", g.op("Softmax", g.op("Add", scores, mask), axis=-1), heads(v, [0, 2, 1, 3]))
    y = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), g.const(np.array([B, T, D])))
    x = g.op("Add", "x", linear("proj", y))
    return {"y": g.op("Add", x, linear("down", g.op("Gelu", linear("up", norm("ln_2", x)), approximate="tanh")))}
