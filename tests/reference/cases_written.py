# cases_written.py: attention that is written out, which the compiler recognises (pass outline): rows as in cases.py.
# SPDX-License-Identifier: MIT
N = 7


def heads(h, t, s, d, e):
    return {"q": ((N, h, t, d), "normal"), "k": ((N, h, s, d), "normal"), "v": ((N, h, s, e), "normal")}


def here(scores, more="-1", last=" @ v"):
    return f"softmax({scores}, {more}){last}"


def there(scores, more="-1", last=" @ v"):
    return f"torch.softmax({scores}, {more}){last}"


QK, QKT = "q @ k.mT", "q @ k.transpose(-1, -2)"
T, S = 18, 20
ROW, COLUMN = f"arange({T}).unsqueeze(1)", f"arange({S})"
TROW, TCOLUMN = f"torch.arange({T}).unsqueeze(1)", f"torch.arange({S})"
FOUR = heads(2, T, S, 2, 2)

WRITTEN = [
    ("plain", here(f"{QK} / sqrt(2)"), there(f"{QKT} / 2 ** 0.5"), FOUR),
    ("scaled_first", here("(q * 0.25) @ k.mT"), there("(q * 0.25) @ k.transpose(-1, -2)"), FOUR),
    ("causal", here(f"where({ROW} >= {COLUMN}, {QK}, -inf)"),
     there(f"torch.where({TROW} >= {TCOLUMN}, {QKT}, -torch.inf)"), FOUR),
    ("lower", here(f"({QK} / 2).masked_fill(ones([{T}, {S}]).tril() == 0, -inf)"),
     there(f"({QKT} / 2).masked_fill(torch.ones({T}, {S}).tril() == 0, -torch.inf)"), FOUR),
    ("upper", here(f"{QK} / 2 + full([{T}, {S}], -inf).triu(1)"),
     there(f"{QKT} / 2 + torch.full(({T}, {S}), -torch.inf).triu(1)"), FOUR),
    ("large", here(f"where(ones([{T}, {S}]).tril() > 0, {QK}, -1e9)"),
     there(f"torch.where(torch.ones({T}, {S}).tril() > 0, {QKT}, -1e9)"), FOUR),
    ("later", here(f"where({ROW} + {S - T} >= {COLUMN}, {QK}, -inf)"),
     there(f"torch.where({TROW} + {S - T} >= {TCOLUMN}, {QKT}, -torch.inf)"), FOUR),
    ("near", here(f"where(abs({ROW} - {COLUMN}) < 5, {QK} * 0.3, -inf)"),
     there(f"torch.where(abs({TROW} - {TCOLUMN}) < 5, {QKT} * 0.3, -torch.inf)"), FOUR),
    ("bias", here(f"{QK} * 0.3 + b"), there(f"{QKT} * 0.3 + b"), {**FOUR, "b": ((2, T, S), "normal")}),
    ("masked_bias", here(f"where({COLUMN} < 13, {QK} * 0.3 + b, -inf)"),
     there(f"torch.where({TCOLUMN} < 13, {QKT} * 0.3 + b, -torch.inf)"), {**FOUR, "b": ((2, T, S), "normal")}),
    ("mask", here(f"where(m > 0, {QK} * 0.3, -1e4)"), there(f"torch.where(m > 0, {QKT} * 0.3, torch.tensor(-1e4))"),
     {**FOUR, "m": ((N, 1, T, S), "sign")}),
    ("slopes", here(f"{QK} * 0.3 + 2 ** -(arange(2) + 1.0).view(2, 1, 1) * ({COLUMN} - {ROW})"),
     there(f"{QKT} * 0.3 + 2 ** -(torch.arange(2) + 1.0).view(2, 1, 1) * ({TCOLUMN} - {TROW})"), FOUR),
    ("capped", here(f"tanh({QK} / 4) * 4"), there(f"torch.tanh({QKT} / 4) * 4"), FOUR),
    ("tempered", here(f"{QK} * exp(t).view(2, 1, 1)"), there(f"{QKT} * torch.exp(t).view(2, 1, 1)"), {**FOUR, "t": ((2,), "normal")}),
    ("odd", here(f"where({QK} > 0, sin({QK}), ({QK}) * 0.5)"), there(f"torch.where({QKT} > 0, torch.sin({QKT}), ({QKT}) * 0.5)"), FOUR),
    ("columns", "(v.mT @ " + here("k @ q.mT / 2", "-2", "") + ").mT",
     "(v.transpose(-1, -2) @ " + there("k @ q.transpose(-1, -2) / 2", "-2", "") + ").transpose(-1, -2)", FOUR),
    ("einsum", "einsum(\"bhts,bshd->bthd\", " + here("einsum(\"bthd,bshd->bhts\", q, k) / 2", "-1", "") + ", v)",
     "torch.einsum('bhts,bshd->bthd', " + there("torch.einsum('bthd,bshd->bhts', q, k) / 2", "-1", "") + ", v)",
     {"q": ((N, T, 2, 2), "normal"), "k": ((N, S, 2, 2), "normal"), "v": ((N, S, 2, 2), "normal")}),
    ("joined", "(" + here(f"(q.flatten(0, 1) @ k.flatten(0, 1).mT / 2).view(-1, 2, {T}, {S}) + b", "-1", ".flatten(0, 1) @ v.flatten(0, 1)") + f").view(-1, 2, {T}, 2)",
     "(" + there(f"(q.flatten(0, 1) @ k.flatten(0, 1).transpose(-1, -2) / 2).view({N}, 2, {T}, {S}) + b", "-1",
           ".flatten(0, 1) @ v.flatten(0, 1)") + f").view({N}, 2, {T}, 2)", {**FOUR, "b": ((N, 1, 1, S), "normal")}),
    ("three", here(f"{QK} / 2"), there(f"{QKT} / 2"), {n: (s[:1] + s[2:], w) for n, (s, w) in FOUR.items()}),
    ("two", here("q @ k.T / 2"), there("q @ k.T / 2"), {n: (s[2:], w) for n, (s, w) in FOUR.items()}),
]
