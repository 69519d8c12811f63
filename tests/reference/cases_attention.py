# cases_attention.py: attention: rows as in cases.py. torch's side is its definition.
# SPDX-License-Identifier: MIT
N = 7


def heads(h, g, t, s, d, e):
    return {"q": ((N, h, t, d), "normal"), "k": ((N, g, s, d), "normal"), "v": ((N, g, s, e), "normal")}


def definition(d, share, more=""):
    k = f"k.repeat_interleave({share}, 1)" if share > 1 else "k"
    v = f"v.repeat_interleave({share}, 1)" if share > 1 else "v"
    return f"torch.softmax(q @ {k}.transpose(-1, -2) / {d} ** 0.5{more}, -1) @ {v}"


def below(t, s):
    return f" + torch.where(torch.ones({t}, {s}).tril() > 0, 0.0, -torch.inf)"


ATTENTION = [
    ("plain", "attention(q, k, v)", definition(8, 1), heads(2, 2, 5, 6, 8, 3)),
    ("causal", "attention(q, k, v, causal = true)", definition(8, 1, below(9, 9)), heads(2, 2, 9, 9, 8, 8)),
    ("shared", "attention(q, k, v, causal = true)", definition(4, 2, below(5, 8)), heads(4, 2, 5, 8, 4, 4)),
    ("blocks", "attention(q, k, v, causal = true)", definition(2, 1, below(66, 70)), heads(1, 1, 66, 70, 2, 2)),
    ("bias", "attention(q, k, v, mask = b)", definition(8, 1, " + b"), {**heads(2, 2, 5, 6, 8, 3), "b": ((2, 5, 6), "normal")}),
    ("columns", "attention(q, k, v, mask = b[:, none, none])", definition(8, 1, " + b[:, None, None]"),
     {**heads(2, 2, 5, 6, 8, 3), "b": ((N, 6), "normal")}),
    ("mask", "attention(q, k, v, mask = b > 0)", definition(8, 1, " + torch.where(b > 0, 0.0, -torch.inf)"),
     {**heads(2, 2, 5, 6, 8, 3), "b": ((5, 6), "sign")}),
    ("scale", "attention(q, k, v, scale = 0.25)", "torch.softmax(q @ k.transpose(-1, -2) * 0.25, -1) @ v",
     heads(2, 2, 5, 6, 8, 3)),
    ("views", "attention(x[:, :, 0].transpose(1, 2), x[:, :, 1].transpose(1, 2), x[:, :, 2].transpose(1, 2)).transpose(1, 2)",
     "(torch.softmax(x[:, :, 0].transpose(1, 2) @ x[:, :, 1].permute(0, 2, 3, 1) / 2, -1) @ x[:, :, 2].transpose(1, 2)).transpose(1, 2)",
     {"x": ((N, 6, 3, 2, 4), "normal")}),
]
