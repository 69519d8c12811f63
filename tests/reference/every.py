#!/usr/bin/python3
# every.py: every module of nn beside torch's of the same name (cases_every.py): names and shapes of its state, outputs and gradients of
# all inputs and parameters outside training, and the state after three steps of training.
#   every.py make [GROUP...]                   computes data/every.json, by hand: needs PyTorch
#   every.py check TENON f32|f64 [GROUP...]    runs the modules and compares; needs numpy
#   every.py complete STD                      all that STD/nn.tn has is in the tables, all of torch.nn in STD/nn.tn or left out for a reason
# SPDX-License-Identifier: MIT
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cases_every import B, GROUPS, LEFT_OUT  # noqa: E402
from formula import TOLERANCE, commands, integers, np, read, summary, uniform, write  # noqa: E402
from whole import STEPS, state  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "every.json")
ARGS = "abcdef"


class Row:
    def __init__(self, text, given, call=None, when="both"):
        here, self.torch = text if isinstance(text, tuple) else (text, text)
        self.here = translated(here)
        self.given = [g.split(":") for g in given.split()]
        call = call or f"net({', '.join(ARGS[:len(self.given)])})"
        self.call = (translated(call), call) if isinstance(call, str) else call
        self.key, self.trained, self.coarse = f"{self.torch} {given} {self.call[1]}", when != "eval", when == "coarse"

    def shape(self, i):
        return [B if s == "B" else int(s) for s in self.given[i][1].split(",")]

    def inputs(self):
        return {ARGS[i]: drawn(f"{self.key} {i}", kind, self.shape(i)) for i, (kind, _) in enumerate(self.given)}

    def wants(self, i):
        return self.given[i][0] in "fwpsql"


def translated(text):
    for a, b in (("True", "true"), ("False", "false"), ("None", "none"), ("'", '"')):
        text = text.replace(a, b)
    return text


def drawn(name, kind, shape):
    if kind[0] in "iI":
        whole = integers(name, shape, int(kind[1:]))
        return whole.astype(np.float32) if kind[0] == "I" else whole
    u, what = uniform(name, shape).astype(np.float64), kind.lower()
    if what == "bool":
        return u > 0
    if what == "w":
        u = 4 * u
    elif what == "p":
        u = 0.5 + 0.45 * u
    elif what == "s":
        u = np.where(u > 0, 1, -1)
    elif what in "ql":
        e = np.exp(2 * u)
        rows = e / e.sum(-1, keepdims=True)
        u = np.log(rows) if what == "l" else rows
    return u.astype(np.float32)


def wide(a, dtype):
    return a.astype(dtype) if a.dtype == np.float32 else a


def numbered(group):
    """The rows, each under the name of the member that holds its module."""
    return [(f"m{i}", Row(*r)) for i, r in enumerate(GROUPS[group])]


# ---- PyTorch ----

def flat(x):
    return [x[0], *x[1]]


def listed(y):
    return list(y) if isinstance(y, (tuple, list)) else [y]


def expected(row):
    import torch
    from torch import nn
    from torch.nn import functional as F

    net = eval(row.torch, {"nn": nn, "torch": torch, "F": F})
    shapes = {n: list(t.shape) for n, t in net.state_dict().items()}
    begin = state(shapes)
    net.load_state_dict({n: torch.tensor(a) for n, a in begin.items()})
    args = {n: torch.tensor(wide(a, np.float64)) for n, a in row.inputs().items()}
    scope = {"torch": torch, "F": F, "net": net, "flat": flat, **args}
    for i, n in enumerate(args):
        args[n].requires_grad_(row.wants(i))

    net.eval()
    out = {"shapes": shapes, "outputs": [], "gradients": {}, "after": {}}
    ys = listed(eval(row.call[1], scope))
    for i, y in enumerate(ys):
        out["outputs"].append({"shape": list(y.shape), "is": summary(y.detach().numpy())})
    seeds = [torch.tensor(uniform(f"{row.key} d{i}", y.shape).astype(np.float64)) for i, y in enumerate(ys)]
    if any(y.requires_grad for y in ys):
        torch.autograd.backward([y for y in ys if y.requires_grad], [s for y, s in zip(ys, seeds) if y.requires_grad])
    for n, t in [*args.items(), *net.named_parameters()]:
        if t.grad is not None:
            out["gradients"][n] = summary(t.grad.numpy())
        elif t.requires_grad:
            out["gradients"][n] = summary(np.zeros(t.shape))

    if not shapes or not row.trained:
        return out
    net.train()
    for n in args:
        args[n].requires_grad_(False)
    o = torch.optim.SGD(list(net.parameters()) or [torch.zeros(1)], 0.05, 0.9)
    for _ in range(STEPS):
        o.zero_grad()
        ys = listed(eval(row.call[1], scope))
        value = sum(0.5 * (y * y).mean() + y.mean() for y in ys)
        if value.requires_grad:
            value.backward()
            o.step()
    out["after"] = {n: summary(t.numpy() - begin[n]) for n, t in net.state_dict().items()}
    return out


def make(groups):
    import torch

    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    known = read(GOLDEN) if groups else {}
    known["torch.nn"] = sorted(n for n, c in vars(torch.nn).items() if isinstance(c, type) and issubclass(c, torch.nn.Module) and n != "Module")
    for group in groups or GROUPS:
        known[group] = {}
        for _, row in numbered(group):
            try:
                known[group][row.key] = rounded(expected(row))
            except Exception as e:
                sys.exit(f"{row.key}: {e}")
    write(GOLDEN, {name: known[name] for name in ("torch.nn", *GROUPS) if name in known}, 2)


def rounded(x):
    """14 digits: what two orders of summation agree on."""
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    if isinstance(x, list):
        return [rounded(v) for v in x]
    return float(f"{x:.14g}") if isinstance(x, float) else x


# ---- the language ----

def argument(row, i, size):
    kind, shape = row.given[i]
    dtype = "bool" if kind == "bool" else "i64" if kind[0] == "i" else ""
    return f"{dtype}[{shape.replace(',', ', ').replace('B', size)}]"


def with_names(name, row):
    text = re.sub(r"\bnet\b", name, row.call[0])
    return re.sub(rf"(?<![\w.])([{ARGS[:len(row.given)]}])\b(?!\s*=[^=])", rf"{name}\1", text)


def text_of(rows, want):
    members, shown, results, body, given, loss = [], [], [], [], [], []
    for name, row in rows:
        members.append(f"    {name} = {row.here}\n")
        w = want[row.key]
        call = with_names(name, row)
        body.append(f"        let {name}y = _list({call})\n")
        for i in range(len(row.given)):
            shown.append(f"{name}{ARGS[i]}: {argument(row, i, 'B')}")
        for i, y in enumerate(w["outputs"]):
            results.append(f"{name}y{i}: [{', '.join(['_'] * len(y['shape']))}]")
            body.append(f"        {name}y{i} = {name}y[{i}]\n")
        if w["after"]:
            for i in range(len(row.given)):
                given.append(f"{name}{ARGS[i]}: {argument(row, i, str(B))}")
            loss.append(f"        for y in _list({call}) {{ sum = sum + 0.5 * square(y).mean() + y.mean() }}\n")
    text = ("import nn\nimport optim\nfn _list(x) { return kind(x) == \"list\" ? x : [x] }\nmodule All {\n" + "".join(members) +
            "    fn forward(" + ",\n        ".join(shown) + ")\n        -> (" + ",\n        ".join(results) + ") {\n" + "".join(body) + "    }\n")
    if loss:
        # one example, so that data has the order that it is written in
        text += ("    fn loss(one: [ONE],\n        " + ",\n        ".join(given) + ") -> (loss: []) {\n        let sum = one.mean()\n" +
                 "".join(loss) + "        return sum\n    }\n")
    text += "}\nmodel all_ = All()\n"
    return text + ("train all_.loss with optim.SGD(lr = 0.05, momentum = 0.9)\n" if loss else "")


def check(test, tenon, group, want):
    float_type = np.float64 if test.dtype == "f64" else np.float32
    rows = numbered(group)
    for _, row in rows:
        if row.key not in want:
            sys.exit(f"{row.key}: not in {GOLDEN}: every.py make {group}")
    begin, args = {}, {"one": np.ones(1, float_type)}
    for name, row in rows:
        begin.update({f"{name}.{n}": wide(a, float_type) for n, a in state(want[row.key]["shapes"]).items()})
        args.update({name + n: wide(a, float_type) for n, a in row.inputs().items()})
        for i, y in enumerate(want[row.key]["outputs"]):
            args[f"d_{name}y{i}"] = uniform(f"{row.key} d{i}", y["shape"]).astype(float_type)
    with tempfile.TemporaryDirectory() as folder:
        model, weights, data, out = (os.path.join(folder, n) for n in ("all.tn", "state.npz", "data.npz", "out.npz"))
        with open(model, "w") as f:
            f.write(text_of(rows, want))
        np.savez(weights, **begin)
        np.savez(data, **args)
        load = ["-load", weights] if begin else []
        shown = [f"{n}=@{data}:{n}" for n in args if n != "one" and not n.startswith("d_")]
        test.run(tenon, "-run", model, "forward", *shown, *load, "-grad", *[f"{n}=@{data}:{n}" for n in args if n.startswith("d_")], "-o", out)
        compare(test, rows, want, dict(np.load(out)))
        if not any(want[row.key]["after"] for _, row in rows):
            return
        test.run(tenon, "-train", model, data, "-epochs", str(STEPS), "-batch", "1", *load, "-save", out)
        compare_state(test, rows, want, begin, dict(np.load(out)))


def compare(test, rows, want, got):
    for name, row in rows:
        w = want[row.key]
        test.tolerance = TOLERANCE["f32" if row.coarse else test.dtype]
        for i, y in enumerate(w["outputs"]):
            found = got.get(f"{name}y{i}")
            test.same(f"{row.torch}: shape of output {i}", None if found is None else list(found.shape), y["shape"])
            test.tensor(f"{row.torch}: output {i} of {row.call[0]}", found, y["is"], 2, 1e-2)
        largest = max([g[0] for g in w["gradients"].values()] + [0.0])
        for n, g in w["gradients"].items():
            key = f"d_{name}{n}" if n in ARGS else f"d_{name}.{n}"
            test.tensor(f"{row.torch}: gradient of {n} in {row.call[0]}", got.get(key), g, 5, 1e-2 * largest + 1e-3)


def compare_state(test, rows, want, begin, got):
    for name, row in rows:
        w = want[row.key]
        own = {n[len(name) + 1:]: a for n, a in got.items() if n.startswith(name + ".")}
        test.same(f"{row.torch}: names and shapes of its state", {n: list(a.shape) for n, a in own.items()}, w["shapes"])
        largest = max([g[0] for n, g in w["after"].items() if n != "num_batches_tracked"] + [0.0])
        for n, g in w["after"].items():
            found = own[n].astype(np.float64) - begin[f"{name}.{n}"] if n in own else None
            test.tensor(f"{row.torch}: {n} after three steps of {row.call[0]}", found, g, 20, 1e-2 * largest + 1e-3)


def complete(folder, golden):
    there = golden["torch.nn"]
    with open(os.path.join(folder, "nn.tn")) as f:
        here = re.findall(r"^(?:module|fn) ([A-Z]\w*)", f.read(), re.M)
    texts = " ".join(Row(*r).torch for rows in GROUPS.values() for r in rows)
    left_out = {n for names in LEFT_OUT for n in names.split()}
    missing = [f"nn.{n} has no row in cases_every.py" for n in here if not re.search(rf"\bnn\.{n}\(", texts)]
    missing += [f"torch.nn.{n} is neither in nn.tn nor left out in cases_every.py" for n in there if n not in here and n not in left_out]
    missing += [f"nn.{n} is said to be left out, and is there" for n in here if n in left_out]
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../whole/meson.build")) as f:
        run = re.findall(r"'(\w+)'", re.search(r"^nn_groups = \[([^\]]*)\]", f.read(), re.M).group(1))
    missing += [f"group {n} is not run: it is not among the nn_groups of tests/whole/meson.build" for n in GROUPS if n not in run]
    print("\n".join(missing + [f"{len(here)} modules of nn, {len(there)} of torch.nn: {len(missing)} without a row"]))
    return 1 if missing or not here else 0


if __name__ == "__main__":
    sys.exit(commands(GOLDEN, GROUPS, make, check, complete))
