#!/usr/bin/python3
# make.py: the expected numbers, by PyTorch. Run by hand (it needs python3-torch and python3-numpy);
# what it writes to data/ is committed.
# SPDX-License-Identifier: MIT
import os
import sys
import zlib

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cases  # noqa: E402
import cases_recurrent
import cases_windows  # noqa: E402

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "data")
torch.set_default_dtype(torch.float64)
rng = np.random.default_rng(20)


def coarse(a):
    """Numbers that f32 holds exactly, so that both precisions begin at the same ones."""
    return torch.tensor(np.asarray(a, dtype=np.float32).astype(np.float64))


def draw(shape, how):
    normal = rng.normal(size=shape)
    if how == "kinks":
        flat = normal.reshape(-1)
        points = [0.0, 1.0, -1.0, 0.5, -0.5, 6.0, 0.1, -4.5]
        flat[:len(points)] = points
        return coarse(flat.reshape(shape))
    if how in ("normal", "waves"):
        return coarse(normal)
    if how in ("unit", "unit_constant"):
        return coarse(0.05 + 0.9 * rng.random(shape))
    if how in ("positive", "constant"):
        return coarse(0.2 + rng.random(shape))
    if how == "sign":
        return coarse(np.where(normal > 0, 1.0, -1.0))
    if how in ("class", "ignored"):
        index = rng.integers(0, 5, shape)
        if how == "ignored":
            index.reshape(-1)[[1, 4]] = -100
        return torch.tensor(index)
    if how == "class_float":
        return coarse(rng.integers(0, 5, shape))
    if how == "prob":
        return coarse(F.softmax(torch.tensor(normal), -1).numpy())
    if how == "logprob":
        return coarse(F.log_softmax(torch.tensor(normal), -1).numpy())
    raise ValueError(how)


CONSTANT = ("constant", "unit_constant", "sign")


def save(name, arrays):
    path = os.path.join(DATA, name + ".npz")
    np.savez_compressed(path, **{k: np.asarray(v, order="C") for k, v in arrays.items()})
    print(path, os.path.getsize(path))


def scan(a, b, h):
    """h = a[t] * h + b[t], along axis 0."""
    out = []
    for x, y in zip(a, b):
        h = x * h + y
        out.append(h)
    return torch.stack(out)


def function_group(group, rows):
    out = {}
    for name, _, torch_text, args in rows:
        env = {"F": F, "torch": torch, "scan": scan}
        for arg, (shape, how) in args.items():
            t = draw(shape, how)
            out[f"in.{name}.{arg}"] = t.numpy()
            env[arg] = t.requires_grad_() if t.is_floating_point() and how not in CONSTANT else t
        y = eval(torch_text, env)
        g = coarse(rng.normal(size=y.shape))
        y.backward(g)
        out[f"cot.{name}"] = g.numpy()
        out[f"out.{name}"] = y.detach().numpy()
        for arg in args:
            if env[arg].requires_grad and env[arg].grad is None:
                print(f"{name}: {arg} has no part in it")
            elif env[arg].requires_grad:
                out[f"grad.{name}.{arg}"] = env[arg].grad.numpy()
    save(group, out)


class RMSNorm(nn.Module):
    def __init__(self, n, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(n)), eps

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, True) + self.eps) * self.weight


def modules():
    out = {}
    for name, _, torch_text in cases.MODULES:
        m = eval(torch_text) if torch_text else RMSNorm(6, 1e-5)
        with torch.no_grad():
            for p in m.parameters():
                p.copy_(coarse(rng.normal(size=p.shape)))
        x = draw((cases.N, 6), "normal").requires_grad_()
        y = m(x)
        g = coarse(rng.normal(size=y.shape))
        y.backward(g)
        out[f"in.{name}.x"], out[f"cot.{name}"] = x.detach().numpy(), g.numpy()
        out[f"out.{name}"], out[f"grad.{name}.x"] = y.detach().numpy(), x.grad.numpy()
        for n, p in m.named_parameters():
            out[f"state.{name}.{n}"], out[f"dstate.{name}.{n}"] = p.detach().numpy(), p.grad.numpy()
    save("modules", out)


def lltm():
    batch, features, state = 16, 32, 128
    shapes = {"x": (batch, features), "h": (batch, state), "c": (batch, state)}
    v = {k: coarse(rng.normal(size=s)).requires_grad_() for k, s in shapes.items()}
    k = 1 / np.sqrt(state)
    w = coarse(rng.uniform(-k, k, (3 * state, features + state))).requires_grad_()
    b = coarse(rng.uniform(-k, k, 3 * state)).requires_grad_()
    i, o, g = F.linear(torch.cat([v["h"], v["x"]], 1), w, b).chunk(3, 1)
    new_c = v["c"] + F.elu(g) * torch.sigmoid(i)
    new_h = torch.tanh(new_c) * torch.sigmoid(o)
    gh, gc = coarse(rng.normal(size=new_h.shape)), coarse(rng.normal(size=new_c.shape))
    torch.autograd.backward([new_h, new_c], [gh, gc])
    out = {f"in.{k}": t.detach().numpy() for k, t in v.items()}
    out.update({f"grad.{k}": t.grad.numpy() for k, t in v.items()})
    out.update({"state.weights": w.detach().numpy(), "state.bias": b.detach().numpy(),
                "dstate.weights": w.grad.numpy(), "dstate.bias": b.grad.numpy(),
                "cot.new_h": gh.numpy(), "cot.new_c": gc.numpy(),
                "out.new_h": new_h.detach().numpy(), "out.new_c": new_c.detach().numpy()})
    # half the bytes, and enough for a comparison at 1e-5
    save("lltm", {k: a.astype(np.float32) for k, a in out.items()})


def digits():
    """models/digits.tn without dropout: loss, accuracy and gradients."""
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))
    names = {"0": "layers.0", "2": "layers.1", "4": "head"}
    out = {}
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(coarse(rng.normal(size=p.shape) * 0.1))
    x, y = draw((24, 64), "unit"), torch.tensor(rng.integers(0, 10, 24))
    logits = net(x)
    loss = F.cross_entropy(logits, y)
    loss.backward()
    for n, p in net.named_parameters():
        name = names[n.split(".")[0]] + "." + n.split(".")[1]
        out["state." + name] = p.detach().numpy().astype(np.float32)
        out["dstate." + name] = p.grad.numpy().astype(np.float32)
    out.update({"in.x": x.numpy(), "in.y": y.numpy(), "out.loss": loss.detach().numpy(),
                "out.accuracy": (logits.argmax(-1) == y).double().mean().numpy()})
    save("digits", out)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(5, 8), nn.Linear(8, 3)
        with torch.no_grad():
            for p in self.parameters():
                n = torch.arange(1, p.numel() + 1)
                p.copy_((0.5 * torch.sin(0.7 * n)).view(p.shape))

    def forward(self, x):
        return self.second(F.relu(self.first(x)))


class Lion:
    def __init__(self, params, lr, wd, b1=0.9, b2=0.99):
        self.params, self.lr, self.wd, self.b1, self.b2 = list(params), lr, wd, b1, b2
        self.m = [torch.zeros_like(p) for p in self.params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def step(self):
        with torch.no_grad():
            for p, m in zip(self.params, self.m):
                u = torch.sign(self.b1 * m + (1 - self.b1) * p.grad)
                m.copy_(self.b2 * m + (1 - self.b2) * p.grad)
                p.copy_(p * (1 - self.lr * self.wd) - self.lr * u)


class Muon:
    """As torch.optim.Muon of later versions, but in full precision; what is no matrix moves as by AdamW."""
    def __init__(self, params, lr, wd):
        self.params, self.lr, self.wd, self.t = list(params), lr, wd, 0
        self.m = [torch.zeros_like(p) for p in self.params]
        self.v = [torch.zeros_like(p) for p in self.params]

    def zero_grad(self):
        for p in self.params:
            p.grad = None

    def step(self):
        self.t += 1
        with torch.no_grad():
            for p, m, v in zip(self.params, self.m, self.v):
                g = p.grad
                p.mul_(1 - self.lr * self.wd)
                if p.ndim != 2:
                    m.lerp_(g, 0.1)
                    v.lerp_(g * g, 0.001)
                    p.sub_(self.lr * m / (1 - 0.9 ** self.t) / (torch.sqrt(v / (1 - 0.999 ** self.t)) + 1e-8))
                    continue
                m.lerp_(g, 0.05)
                u = g.lerp(m, 0.95)
                x = u.T if u.shape[0] > u.shape[1] else u
                x = x / x.norm().clamp(min=1e-7)
                for _ in range(5):
                    gram = x @ x.T
                    x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
                x = x.T if u.shape[0] > u.shape[1] else x
                p.sub_(self.lr * max(1, u.shape[0] / u.shape[1]) ** 0.5 * x)


def optimisers():
    x, y = draw((cases.N, 5), "normal"), torch.tensor(rng.integers(0, 3, cases.N))
    out = {"in.x": x.numpy(), "in.y": y.numpy()}
    for clip in (1000.0, 0.25):
        for name, (_, text) in cases.OPTIMISERS.items():
            if clip < 1 and name not in ("sgd", "adamw"):
                continue
            net = Net()
            o = eval(text, {"torch": torch, "p": net.parameters()}) if text else {"lion": Lion, "muon": Muon}[name](net.parameters(), 0.02, 0.1)
            for _ in range(3):
                o.zero_grad()
                F.cross_entropy(net(x), y).backward()
                nn.utils.clip_grad_norm_(net.parameters(), clip)
                o.step()
            key = name + ("_clipped" if clip < 1 else "")
            for n, p in net.named_parameters():
                out[f"out.{key}.{n}"] = p.detach().numpy().copy()
    save("optimisers", out)


def waves(shape):
    n = torch.arange(1, int(np.prod(shape)) + 1)
    return (0.5 * torch.sin(0.7 * n)).view(shape)


class Outputs(nn.Module):
    """Outputs and last states of a recurrent layer in one tensor."""
    def __init__(self, net, lengths=False, first=False):
        super().__init__()
        self.net, self.lengths, self.first = net, lengths, first

    def forward(self, x):
        n = 1 + (x[:, 0] > 0).sum(1) // 2
        x = x if self.first else x.transpose(0, 1)
        if self.lengths:
            x = nn.utils.rnn.pack_padded_sequence(x, n, enforce_sorted=False)
        y, last = self.net(x)
        if self.lengths:
            y, _ = nn.utils.rnn.pad_packed_sequence(y, total_length=4)
        y = y if self.first else y.transpose(0, 1)
        for i, s in enumerate(last if isinstance(last, tuple) else [last]):
            s = s.transpose(0, 1)
            y = y + (i + 1) * (s * waves(s.shape[1:])).sum()
        return y


class Cell(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, x):
        y = self.net(x)
        return y[0] + 2 * y[1] if isinstance(y, tuple) else y


def window_modules(table=cases_windows, file="window_modules"):
    """Three steps of all the modules together; then, outside training, what they give."""
    x, out = draw((cases.N, 4, 6, 6), "normal"), {}
    nets = {n: eval(t) for n, _, t, _ in table.MODULES}
    takes = {n: k for n, _, _, k in table.MODULES}
    with torch.no_grad():
        for name, m in nets.items():
            for n, p in m.named_parameters():
                p.copy_(coarse(rng.normal(size=p.shape) * 0.3 + (p.ndim == 1)))
            for n, t in m.state_dict().items():
                out[f"state.{name}.{n}"] = t.numpy().copy()
    all_ = nn.ModuleDict(nets)
    o = torch.optim.SGD(all_.parameters(), 0.01)
    for _ in range(3):
        o.zero_grad()
        ys = [m(eval(table.TAKES[takes[n]], {"x": x})) for n, m in nets.items()]
        sum((y * waves(y.shape[1:])).sum() for y in ys).backward()
        o.step()
    for n, t in all_.state_dict().items():
        out["after." + n] = t.numpy()
    all_.eval()
    for n, m in nets.items():
        out["out." + n] = m(eval(table.TAKES[takes[n]], {"x": x})).detach().numpy()
    out["in.x"] = x.numpy()
    save(file, out)


def named(name, make):
    """Draws of its own, so that what is added elsewhere changes nothing here."""
    global rng
    if wanted and name not in wanted:
        return
    before, rng = rng, np.random.default_rng(zlib.crc32(name.encode()))
    make()
    rng = before


os.makedirs(DATA, exist_ok=True)
wanted = sys.argv[1:]  # none: all
if not wanted or set(wanted) & {"activations", "rows", "losses", "modules", "lltm", "digits", "optimisers"}:  # one after the other, from one stream of draws
    for g, r in cases.GROUPS.items():
        function_group(g, r)
    modules()
    lltm()
    digits()
    optimisers()
for g, r in cases.MORE_GROUPS.items():
    named(g, lambda: function_group(g, r))
named("window_modules", window_modules)
named("recurrent", lambda: window_modules(cases_recurrent, "recurrent"))
