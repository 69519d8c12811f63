#!/usr/bin/python3
# whole.py: whole models beside PyTorch, from parameters and inputs that a formula gives: outputs, gradients of all parameters and
# inputs, and the state after three steps of training.
#   whole.py make [NAME...]                 computes data/whole.json, by hand: needs PyTorch
#   whole.py check TENON f32|f64 [NAME...]  runs the models and compares; needs numpy
# SPDX-License-Identifier: MIT
import math
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cases_whole import CASES, OPTIMISERS  # noqa: E402
from formula import TOLERANCE, commands, integers, np, read, summary, uniform, write  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.realpath(os.path.join(HERE, "..", "..", "models"))
GOLDEN = os.path.join(HERE, "data", "whole.json")
STEPS = 3


def state(shapes):
    """Parameters and buffers: around 1 for what scales, else of a size that keeps numbers in range."""
    out = {}
    for name, shape in shapes.items():
        u = uniform(name, shape).astype(np.float64)
        if name.endswith("num_batches_tracked"):
            out[name] = np.zeros(shape, np.int64)
            continue
        if name.endswith("running_var") or (len(shape) == 1 and name.endswith(("weight", ".D"))):
            u = 1 + u / 4
        elif name.endswith("step"):
            u = (1 + u / 4) / 32
        elif len(shape) > 1:
            u = u * 2.0 ** round(math.log2(math.sqrt(3 / math.prod(shape[1:]))))
        else:
            u = u / 16
        out[name] = u.astype(np.float32)
    return out


def inputs(given):
    out = {}
    for name, (shape, what) in given.items():
        if what == "f":
            out[name] = uniform(name, shape)
        elif what == "bool":
            out[name] = integers(name, shape, 3) > 0
        else:
            out[name] = integers(name, shape, what)
    return out


def expected(name):
    import torch
    import whole_torch

    torch.set_default_dtype(torch.float64)
    kind, given, _, (_, outputs), (_, loss) = CASES[name]
    net = eval(kind, {"nn": torch.nn}) if kind.startswith("nn.") else getattr(whole_torch, kind)()
    shapes = {n: list(t.shape) for n, t in net.state_dict().items()}
    tied = {"gpt": "head.weight"}.get(name)
    shapes.pop(tied, None)
    begin = state(shapes)
    net.load_state_dict({n: torch.tensor(a) for n, a in begin.items()}, strict=tied is None)
    args = {n: torch.tensor(a.astype(np.float64) if a.dtype == np.float32 else a) for n, a in inputs(given).items()}
    scope = {"torch": torch, "F": whole_torch.F, "net": net, "Lamb": whole_torch.Lamb, **args}
    floats = [n for n, a in args.items() if a.is_floating_point()]
    for n in floats:
        args[n].requires_grad_()

    net.eval()
    out = {"shapes": shapes, "outputs": {}, "gradients": {}, "after": {}}
    ys = list(eval(outputs, scope))
    torch.autograd.backward(ys, [torch.tensor(uniform(f"d_y{i}", y.shape).astype(np.float64)) for i, y in enumerate(ys)])
    for i, y in enumerate(ys):
        out["outputs"][f"y{i}"] = {"shape": list(y.shape), "is": summary(y.detach().numpy())}
    for n in floats:
        if args[n].grad is not None:
            out["gradients"][n] = summary(args[n].grad.numpy())
        args[n].requires_grad_(False)
    for n, p in net.named_parameters():
        if p.grad is not None:
            out["gradients"][n] = summary(p.grad.numpy())

    net.train()
    make = OPTIMISERS.get(name, ("", "torch.optim.SGD(net.parameters(), 0.05, 0.9)"))[1]
    optimiser, out["loss"] = eval(make, scope), []
    for _ in range(STEPS):
        net.zero_grad()
        value = eval(loss, scope)
        value.backward()
        with torch.no_grad():
            optimiser.step()
        out["loss"].append(float(value.detach()))
    for n, t in net.state_dict().items():
        if n != tied:
            out["after"][n] = summary(t.numpy() - begin[n])
    return out


def used(given, text):
    return [n for n in given if re.search(rf"\b{n}\b", text)]


def text_of(name, want):
    """The model's part in a module whose outputs and loss are those of the table."""
    _, given, held, (outputs, _), (loss, _) = CASES[name]

    def args(body):
        out = []
        for n in used(given, body):
            shape, what = given[n]
            dtype = {"f": "", "bool": "bool"}.get(what, "i64")
            out.append(f"{n}: {dtype}[{', '.join(['B'] + [str(s) for s in shape[1:]])}]")
        return ", ".join(out)

    ys = ", ".join(f"{y}: [{', '.join(['_'] * len(w['shape']))}]" for y, w in want["outputs"].items())
    optimiser = OPTIMISERS.get(name, ("optim.SGD(lr = 0.05, momentum = 0.9)",))[0]
    body = "; ".join(f"y{i} = all[{i}]" for i in range(len(want["outputs"])))
    source = "nn" if held.startswith("nn.") else f'"{MODELS}/{name}.tn" as m'
    return (f'import optim\nimport {source}\n\nmodule Beside {{\n    net = {held} as ""\n\n'
            f"    fn forward({args(outputs)}) -> ({ys}) {{ let all = {outputs}; {body} }}\n"
            f"    fn loss({args(loss)}) -> (loss: []) {{ return {loss} }}\n}}\n\n"
            f"model beside = Beside()\ntrain beside.loss with {optimiser}\n")


def check(test, tenon, name, want):
    _, given, _, (outputs, _), (loss, _) = CASES[name]
    test.tolerance = TOLERANCE[test.dtype]
    wide = np.float64 if test.dtype == "f64" else np.float32
    begin = {n: a.astype(wide) if a.dtype == np.float32 else a for n, a in state(want["shapes"]).items()}
    args = {n: a.astype(wide) if a.dtype == np.float32 else a for n, a in inputs(given).items()}
    with tempfile.TemporaryDirectory() as folder:
        model, weights, data, out = (os.path.join(folder, n) for n in ("beside.tn", "state.npz", "data.npz", "out.npz"))
        with open(model, "w") as f:
            f.write(text_of(name, want))
        np.savez(weights, **begin)
        for y, w in want["outputs"].items():
            args["d_" + y] = uniform("d_" + y, w["shape"]).astype(wide)
        np.savez(data, **args)
        shown = [f"{n}=@{data}:{n}" for n in used(given, outputs)]
        seeds = [f"d_{y}=@{data}:d_{y}" for y in want["outputs"]]
        test.run(tenon, "-run", model, "forward", *shown, "-load", weights, "-grad", *seeds, "-o", out)
        got = dict(np.load(out))
        for y, w in want["outputs"].items():
            test.tensor(f"{name}: {y}", got.get(y), w["is"])
        largest = max(g[0] for g in want["gradients"].values())
        for n, g in want["gradients"].items():
            test.tensor(f"{name}: gradient of {n}", got.get("d_" + n), g, 5, 1e-3 * largest)

        np.savez(data, **{n: args[n] for n in used(given, loss)})
        rows = len(args[used(given, loss)[0]])
        test.run(tenon, "-train", model, data, "-epochs", str(STEPS), "-batch", str(rows), "-load", weights, "-save", out)
        got = dict(np.load(out))
        test.tolerance = TOLERANCE["f32" if name in OPTIMISERS else test.dtype]
        largest = max(g[0] for n, g in want["after"].items() if not n.endswith("num_batches_tracked"))
        for n, w in want["after"].items():
            test.tensor(f"{name}: {n} after three steps", got[n].astype(np.float64) - begin[n] if n in got else None, w, 20,
                        1e-2 * largest)


def make(names):
    known = read(GOLDEN) if names else {}
    known.update((name, expected(name)) for name in names or CASES)
    write(GOLDEN, {name: known[name] for name in CASES if name in known}, 1)


if __name__ == "__main__":
    sys.exit(commands(GOLDEN, CASES, make, check))
