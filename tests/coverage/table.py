"""How each operator of ir/ops.def is reached from the language, and what it must give: the rows of the
coverage table. SPDX-License-Identifier: MIT

A row: an expression of the language over a, b, c (made of arguments of the dtype under test), what numpy says in
f64, where the operands come from, and which dtypes mean something. `grad` is false where the operator has no
gradient, by its row of ops.def or by its nature."""
import math

import numpy as np

FLOATS, NUMBERS, ALL, BITS, BOOL = ("f64", "f32", "bf16", "f16"), 1, 2, 3, 4
SETS = {FLOATS: FLOATS, NUMBERS: FLOATS + ("int",), ALL: FLOATS + ("int", "bool"), BITS: ("int", "bool"),
        BOOL: ("bool",)}
SHAPE = (4, 6)


class Row:
    def __init__(self, op, expr, oracle, operands="a", domain="any", kinds=FLOATS, grad=True, shapes=None, loose=1.0,
                 before="", declare="", within=None, wide=False, kind_names=None):
        self.op, self.expr, self.oracle, self.operands = op, expr, oracle, operands
        self.domain, self.kinds, self.grad = domain, kind_names or SETS[kinds], grad
        self.shapes, self.loose, self.before, self.declare = shapes or {}, loose, before, declare
        self.within, self.wide = within or {}, wide  # tolerances of their own; whether 16 bits are computed in f32

    def shape(self, name):
        return self.shapes.get(name, SHAPE)


erf, erfc = np.vectorize(math.erf), np.vectorize(math.erfc)
I = np.array([3, 0, 2, 1])  # an index of rows


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def unary(op, f, domain="any", **more):
    return Row(op, "%s(a)" % op, f, domain=domain, **more)


def binary(op, text, f, **more):
    return Row(op, text, f, operands="ab", **more)


def windows(a):  # [2, 3, 8] into windows of 3 at every second place
    return np.stack([a[:, :, 2 * i:2 * i + 3] for i in range(3)], 2)


def folded(w):  # the other way: [2, 3 * 3, 3] columns into [2, 3, 1, 7]
    out = np.zeros((2, 3, 1, 7))
    w = w.reshape(2, 3, 3, 3)
    for o in range(3):
        for k in range(3):
            out[:, :, 0, 2 * o + k] += w[:, :, k, o]
    return out


def conv(a, b):
    return np.einsum("ncok,mck->nmo", windows(a), b)


def softmax(s):
    e = np.exp(s - s.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(q, k, v):
    return softmax(q @ np.swapaxes(k, -1, -2) / math.sqrt(q.shape[-1])) @ v


def scattered(a, b):
    out = a.copy()
    np.add.at(out, I, b)
    return out


def sorted_rows(a):
    return np.sort(a, 1)


def scanned(a):
    h, out = np.zeros(a.shape[1]), []
    for row in a:
        h = 0.5 * h + row
        out.append(h)
    return np.stack(out)


ROWS = [
    binary("add", "a + b", lambda a, b: a + b, kinds=NUMBERS),
    binary("sub", "a - b", lambda a, b: a - b, kinds=NUMBERS),
    binary("mul", "a * b", lambda a, b: a * b, kinds=NUMBERS),
    binary("div", "a / b", lambda a, b: a / b, domain="away"),
    binary("floordiv", "a // b", lambda a, b: np.floor(a / b), domain="away", kinds=NUMBERS, grad=False),
    binary("mod", "a % b", lambda a, b: a - b * np.floor(a / b), domain="away", kinds=NUMBERS),
    binary("pow", "a ** b", lambda a, b: a ** b, domain="positive", loose=8),
    unary("neg", lambda a: -a, kinds=NUMBERS),
    unary("abs", np.abs, domain="away", kinds=NUMBERS),
    unary("sign", np.sign, domain="away", kinds=NUMBERS, grad=False),
    unary("square", np.square, kinds=NUMBERS),
    unary("reciprocal", lambda a: 1 / a, domain="away"),
    binary("min", "minimum(a, b)", np.minimum, kinds=NUMBERS),
    binary("max", "maximum(a, b)", np.maximum, kinds=NUMBERS),
    unary("exp", np.exp), unary("exp2", np.exp2), unary("expm1", np.expm1),
    unary("log", np.log, domain="positive"), unary("log2", np.log2, domain="positive"),
    unary("log10", np.log10, domain="positive"), unary("log1p", np.log1p, domain="positive"),
    unary("sqrt", np.sqrt, domain="positive"), unary("rsqrt", lambda a: 1 / np.sqrt(a), domain="positive"),
    unary("sigmoid", sigmoid), unary("tanh", np.tanh), unary("sinh", np.sinh), unary("cosh", np.cosh),
    unary("sin", np.sin), unary("cos", np.cos), unary("tan", np.tan, domain="small"),
    unary("asin", np.arcsin, domain="small"), unary("acos", np.arccos, domain="small"), unary("atan", np.arctan),
    binary("atan2", "atan2(a, b)", np.arctan2, domain="away"),
    unary("erf", erf), unary("erfc", erfc),
    unary("floor", np.floor, grad=False), unary("ceil", np.ceil, grad=False), unary("round", np.round, grad=False),
    unary("trunc", np.trunc, grad=False),
    binary("eq", "a == b", np.equal, kinds=ALL, grad=False), binary("ne", "a != b", np.not_equal, kinds=ALL, grad=False),
    binary("lt", "a < b", np.less, kinds=NUMBERS, grad=False), binary("le", "a <= b", np.less_equal, kinds=NUMBERS, grad=False),
    binary("gt", "a > b", np.greater, kinds=NUMBERS, grad=False),
    binary("ge", "a >= b", np.greater_equal, kinds=NUMBERS, grad=False),
    binary("where", "where(arange(6) < 3, a, b)", lambda a, b: np.where(np.arange(6) < 3, a, b), kinds=ALL),
    unary("isnan", np.isnan, grad=False), unary("isinf", np.isinf, grad=False), unary("isfinite", np.isfinite, grad=False),
    Row("clamp", "clamp(a, -1, 1)", lambda a: np.clip(a, -1, 1), domain="away", kinds=NUMBERS),
    unary("relu", lambda a: np.maximum(a, 0), domain="away", kinds=NUMBERS),
    unary("detach", lambda a: a, kinds=ALL, grad=False),
    binary("and", "a & b", np.bitwise_and, kinds=BITS, grad=False), binary("or", "a | b", np.bitwise_or, kinds=BITS, grad=False),
    binary("xor", "a ^ b", np.bitwise_xor, kinds=BITS, grad=False),
    binary("shl", "a << b", np.left_shift, domain="positive", kind_names=("int",), grad=False),
    binary("shr", "a >> b", np.right_shift, domain="positive", kind_names=("int",), grad=False),
    Row("not", "~a", np.bitwise_not, kinds=BITS, grad=False),
    Row("cast", "a.to(f32).to($T) * 2", lambda a: 2 * a, kinds=NUMBERS, within={"f64": 1e-7}),
    Row("extern", "cube(a)", lambda a: a * a * a,
        declare="extern fn cube(x) -> (y) = \"x * x * x\" grad(g) { return 3 * g * x * x }"),
    Row("call", "through(a)", lambda a: a * a, declare="fn through(x) { return x * x } grad(g) { return 2 * g * x }"),
    Row("broadcast", "a[:, none].expand(4, 3, 6)", lambda a: np.repeat(a[:, None], 3, 1), kinds=ALL),
    Row("reshape", "a.reshape(3, 8)", lambda a: a.reshape(3, 8), kinds=ALL),
    Row("transpose", "a.T", lambda a: a.T, kinds=ALL),
    Row("slice", "a[1:4:2, 2:5]", lambda a: a[1:4:2, 2:5], kinds=ALL),
    Row("pad", "pad(a, [1, 2])", lambda a: np.pad(a, [(0, 0), (1, 2)]), kinds=NUMBERS),
    binary("concat", "cat([a, b], 1)", lambda a, b: np.concatenate([a, b], 1), kinds=ALL),
    Row("window", "max_pool1d(a, 3, stride = 2)", lambda a: windows(a).max(-1), shapes={"a": (2, 3, 8)}),
    Row("fold", "fold(a, [1, 7], [1, 3], stride = [1, 2])", folded, shapes={"a": (2, 9, 3)}),
    Row("conv", "conv1d(a, b, stride = 2)", conv, operands="ab", shapes={"a": (2, 3, 8), "b": (5, 3, 3)}, loose=4),
    Row("reduce", "a.sum(1)", lambda a: a.sum(1), kinds=NUMBERS, loose=2),
    Row("cumulate", "cumsum(a, 1)", lambda a: np.cumsum(a, 1), kinds=NUMBERS, loose=4),
    Row("dot", "a @ b", lambda a, b: a @ b, operands="ab", shapes={"b": (6, 5)}, loose=4),
    Row("gather", "a[tensor([3, 0, 2, 1])]", lambda a: a[I], kinds=ALL),
    Row("scatter", "scatter_add(a, 0, tensor([3, 0, 2, 1])[:, none].expand(4, 6), b)", scattered, operands="ab", kinds=NUMBERS,
        wide=True),
    Row("sort", "sort(a, 1).values", sorted_rows, kinds=NUMBERS),
    Row("attention", "attention(a, b, c)", attention, operands="abc", loose=8, kind_names=("f32", "bf16", "f16"),
        shapes={k: (2, 2, 5, 4) for k in "abc"}),
    Row("scan", "ys", scanned, loose=2,
        before="let h = zeros([6]).to($T)\n    let ys = scan t in range(4) {\n        h = 0.5 * h + a[t]\n        yield h\n    }"),
]

NOTES = {"attention": "f64: of products and a softmax, which have cells of their own",
         "scatter": "bf16, f16: sums are added up in f32"}

# Rows of ops.def without a cell of their own, and why.
WITHOUT = {
    "fma": "no expression of the language makes it: products and sums are rounded one by one",
    "input": "an argument of every test here", "state": "parameters: tests/numeric/modules.tn", "const": "in every test here",
    "table": "constants of files: tests/numeric/load.tn",
    "iota": "integers; arange in tests/numeric/shapes.tn", "dim": "a size; tests/numeric/sizes.tn",
    "key": "of random numbers; tests/numeric/random.tn", "random": "tests/numeric/random.tn, bit for bit on both targets",
    "bitcast": "within library functions; tests/numeric/random.tn",
    "unwindow": "the derivative of window makes it: its cells there",
    "attention_grad": "the derivative of attention makes it: its cells there",
    "transfer": "a copy between devices; tests/cuda", "print": "an effect; tests/print.sh", "check": "an effect; tests/badinput.sh",
}
