#!/usr/bin/python3
# steps.py: optimisers with their options, schedules and averages of parameters beside torch's (cases_steps.py).
#   steps.py make [PART...]                  computes data/steps.json, by hand: needs PyTorch
#   steps.py check TENON f32|f64 [PART...]   trains models with all of them and compares; needs numpy
#   steps.py complete STD                    all that STD/optim.tn has is in the tables, all of torch.optim in STD/optim.tn or left out for a reason
# SPDX-License-Identifier: MIT
import math
import os
import re
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cases_steps import AVERAGES, ELSEWHERE, LEFT_OUT, OPTIMISERS, RATES, SCHEDULES, STEPS  # noqa: E402
from every import translated  # noqa: E402
from formula import TOLERANCE, commands, np, read, summary, uniform, write  # noqa: E402

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data", "steps.json")
MOST = 8  # trains a model
SHAPES = {"a": (3, 5), "b": (6,), "c": (2, 3, 2), "d": (7, 2)}


def begin(name):
    return uniform("steps " + name, SHAPES[name])


# ---- PyTorch ----

def loss(p):
    """Something with another gradient at each step; torch's text, and the language's."""
    import torch

    return sum(torch.sin(3 * x + i).sum() + 0.3 * (x * x).sum() for i, x in enumerate(p.values()))


LOSS = " + ".join(f"sin(3 * {{0}}.{n} + {i}).sum() + 0.3 * square({{0}}.{n}).sum()" for i, n in enumerate(SHAPES))


def parameters():
    import torch

    return {n: torch.tensor(begin(n).astype(np.float64), requires_grad=True) for n in SHAPES}


def trained(text):
    import torch

    p = parameters()
    name, args = text[:-1].split("(", 1)
    o = getattr(torch.optim, name)(list(p.values()), **eval(f"dict({args})"))
    for _ in range(STEPS):
        o.zero_grad()
        loss(p).backward()
        o.step()
    out = {n: summary(x.detach().numpy() - begin(n)) for n, x in p.items()}
    if name == "ASGD":
        out.update({"ax." + n: summary(o.state[x]["ax"].numpy()) for n, x in p.items()})
    return out


def rates(text):
    import torch
    import torch.optim.lr_scheduler as s

    o = torch.optim.SGD([torch.zeros(1)], 0.1)
    schedule, out = eval(text, {**vars(s), "o": o, "math": math}), []
    for _ in range(RATES):
        out.append(o.param_groups[0]["lr"])
        o.step()
        schedule.step()
    return out


def averaged(text, when):
    import torch
    from torch.optim import swa_utils

    p = parameters()
    net = torch.nn.ParameterDict({n: torch.nn.Parameter(x.detach()) for n, x in p.items()})
    own = dict(net.items())
    average = swa_utils.AveragedModel(net, multi_avg_fn=eval(text, vars(swa_utils)))
    o = torch.optim.SGD(list(own.values()), 0.1)
    for t in range(1, STEPS + 1):
        o.zero_grad()
        loss(own).backward()
        o.step()
        if eval(when, {"t": t}):
            average.update_parameters(net)
    return {n: summary(x.detach().numpy() - begin(n)) for n, x in average.module.items()}


# ---- the language ----

def trains(rows):
    """A holder of parameters for each row, a loss of each, and a train of each."""
    params = "".join(f"    param {n}: [{', '.join(map(str, s))}] = zeros\n" for n, s in SHAPES.items())
    members = "".join(f"    {name} = Four()\n" for name, _, _ in rows)
    losses = "".join(f"    fn loss_{name}(one: [ONE]) -> (y: []) {{ return one.mean() + {LOSS.format(name)} }}\n" for name, _, _ in rows)
    text = "".join(f"train all_.loss_{name} with optim.{o} {{ params = \"{name}.*\"{more} }}\n" for name, o, more in rows)
    return (f"import optim\nmodule Four {{\n{params}}}\nmodule All {{\n{members}{losses}}}\nmodel all_ = All()\n{text}")


def train(test, tenon, text, state, epochs):
    wide = np.float64 if test.dtype == "f64" else np.float32
    with tempfile.TemporaryDirectory() as folder:
        model, weights, data, out = (os.path.join(folder, n) for n in ("all.tn", "state.npz", "data.npz", "out.npz"))
        with open(model, "w") as f:
            f.write(text)
        np.savez(weights, **{n: a.astype(wide) for n, a in state.items()})
        np.savez(data, one=np.ones(1, wide))
        test.run(tenon, "-train", model, data, "-epochs", str(epochs), "-batch", "1", "-load", weights, "-save", out)
        return dict(np.load(out))


def check_optimisers(test, tenon, want):
    rows = [(f"o{i}", translated(t), "") for i, t in enumerate(OPTIMISERS)]
    got = {}
    for i in range(0, len(rows), MOST):
        part = rows[i:i + MOST]
        state = {f"{name}.{n}": begin(n) for name, _, _ in part for n in SHAPES}
        got.update(train(test, tenon, trains(part), state, STEPS))
    for (name, _, _), t in zip(rows, OPTIMISERS):
        # quotients of small numbers, squares of which f32 has only some
        test.tolerance = TOLERANCE[test.dtype] * (100 if t.startswith(("Ada", "NAdam", "RAdam", "RMS")) else 10)
        for n, w in want[t].items():
            if n.startswith("ax."):
                test.tensor(f"{t}: {n}", got.get(f"loss_{name}.ax.{name}.{n[3:]}"), w)
            else:
                test.tensor(f"{t}: {n}", got[f"{name}.{n}"].astype(np.float64) - begin(n), w)


def check_averages(test, tenon, want):
    rows = [(f"e{i}", "SGD(lr = 0.1)", f"; average = optim.{a}") for i, (a, _, _) in enumerate(AVERAGES)]
    state = {f"{name}.{n}": begin(n) for name, _, _ in rows for n in SHAPES}
    got = train(test, tenon, trains(rows), state, STEPS)
    test.tolerance = TOLERANCE[test.dtype] * 20
    for (name, _, _), (a, _, _) in zip(rows, AVERAGES):
        for n, w in want[a].items():
            test.tensor(f"{a}: {n}", got[f"loss_{name}.average.{name}.{n}"].astype(np.float64) - begin(n), w)
    check_use(test, tenon)


def check_use(test, tenon):
    """averages(m) gives a method what the state file has; a train reads them as they were before its step."""
    text = ("import nn\nimport optim\nmodule Taught {\n    net = nn.Linear(3, 2)\n"
            "    fn teacher(x: [B, 3]) -> (y: [B, 2]) { return functional_call(net, averages(net), x) }\n"
            "    fn loss(x: [B, 3], y: [B, 2]) -> (loss: [], apart: []) {\n"
            "        loss, apart = mse_loss(net(x), y), square(net(x) - teacher(x)).mean()\n        loss = loss + apart\n    }\n}\n"
            "model m = Taught()\ntrain m.loss with optim.SGD(lr = 0.1) { average = optim.ema(0.8) }\n")
    wide = np.float64 if test.dtype == "f64" else np.float32
    w, b = uniform("use w", (2, 3)).astype(np.float64), uniform("use b", (2,)).astype(np.float64)
    x, y = uniform("use x", (4, 3)).astype(np.float64), uniform("use y", (4, 2)).astype(np.float64)
    with tempfile.TemporaryDirectory() as folder:
        model, weights, data, out = (os.path.join(folder, n) for n in ("taught.tn", "state.npz", "data.npz", "out.npz"))
        with open(model, "w") as f:
            f.write(text)
        np.savez(weights, **{"net.weight": w.astype(wide), "net.bias": b.astype(wide)})
        np.savez(data, x=x.astype(wide), y=y.astype(wide))
        test.run(tenon, "-train", model, data, "-epochs", str(STEPS), "-batch", "4", "-load", weights, "-save", out)
        state = dict(np.load(out))
        test.run(tenon, "-run", model, "teacher", f"x=@{data}:x", "-load", out, "-o", weights)
        shown = dict(np.load(weights))["y"]
    aw, ab = w, b  # averages begin as the parameters do, and are constants to the loss
    for t in range(1, STEPS + 1):
        z, teacher = x @ w.T + b, x @ aw.T + ab
        g = 2 * (z - y) / z.size + 2 * (z - teacher) / z.size
        w, b = w - 0.1 * g.T @ x, b - 0.1 * g.sum(0)
        aw, ab = (w, b) if t == 1 else (aw + 0.2 * (w - aw), ab + 0.2 * (b - ab))
    test.tolerance = TOLERANCE[test.dtype] * 10
    test.tensor("a teacher: weight", state["net.weight"], summary(w))
    test.tensor("a teacher: average of weight", state["loss.average.net.weight"], summary(aw))
    test.tensor("a teacher: average of bias", state["loss.average.net.bias"], summary(ab))
    test.tensor("a teacher: what it gives", shown, summary(x @ aw.T + ab))


def check_schedules(test, tenon, want):
    """Each parameter notes the rate of step t in its t-th element."""
    members = "".join(f"    param s{i}: [{RATES}] = zeros\n" for i in range(len(SCHEDULES)))
    total = " + ".join(f"s{i}.sum()" for i in range(len(SCHEDULES)))
    calls = re.compile(r"(?<![\w.])(?=[a-z_]+\()")
    groups = "".join(f"    group \"s{i}\" {{ lr = {calls.sub('optim.', here)} }}\n" for i, (here, _) in enumerate(SCHEDULES))
    text = ("import optim\noptimizer Note(lr = 0.0) {\n    fn step(p, g, t) { return where(arange(p.shape[0]) == t - 1, lr, p) }\n}\n"
            f"module All {{\n{members}    fn loss(one: [ONE]) -> (y: []) {{ return one.mean() + {total} }}\n}}\nmodel all_ = All()\n"
            f"train all_.loss with Note() {{\n{groups}}}\n")
    got = train(test, tenon, text, {f"s{i}": np.zeros(RATES) for i in range(len(SCHEDULES))}, RATES)
    test.tolerance = TOLERANCE[test.dtype]
    for i, (here, _) in enumerate(SCHEDULES):
        for t, rate in enumerate(want[here]):
            test.near(f"{here} at step {t + 1}", float(got[f"s{i}"][t]), rate, 0.1)


def complete(folder, golden):
    there = golden["torch.optim"]
    with open(os.path.join(folder, "optim.tn")) as f:
        text = f.read()
    optimisers = re.findall(r"^optimizer (\w+)", text, re.M)
    functions = re.findall(r"^fn ([a-z]\w*)", text, re.M)
    known = {t.split("(")[0] for t in OPTIMISERS} | set(ELSEWHERE)
    shown = " ".join([here for here, _ in SCHEDULES] + [here for here, _, _ in AVERAGES])
    missing = [f"optim.{n} has no row in cases_steps.py" for n in optimisers if n not in known]
    missing += [f"optim.{n} has no row in cases_steps.py" for n in functions if not re.search(rf"\b{n}\(", shown)]
    missing += [f"torch.optim.{n} is neither in optim.tn nor left out in cases_steps.py" for n in there if n not in optimisers and n not in LEFT_OUT]
    missing += [f"optim.{n} is said to be left out, and is there" for n in LEFT_OUT if n in optimisers]
    print("\n".join(missing + [f"{len(optimisers)} optimisers, {len(functions)} schedules and averages: {len(missing)} without a row"]))
    return 1 if missing or not optimisers or not functions else 0


PARTS = {"optimisers": (lambda: {t: trained(t) for t in OPTIMISERS}, check_optimisers),
         "schedules": (lambda: {here: rates(t) for here, t in SCHEDULES}, check_schedules),
         "averages": (lambda: {here: averaged(t, when) for here, t, when in AVERAGES}, check_averages)}


def make(names):
    import torch

    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    known = read(GOLDEN) if names else {}
    known["torch.optim"] = sorted(n for n, c in vars(torch.optim).items() if isinstance(c, type) and n != "Optimizer")
    known.update((name, PARTS[name][0]()) for name in names or PARTS)
    write(GOLDEN, known, 2)


def check(test, tenon, name, want):
    PARTS[name][1](test, tenon, want)


if __name__ == "__main__":
    sys.exit(commands(GOLDEN, PARTS, make, check, complete))
