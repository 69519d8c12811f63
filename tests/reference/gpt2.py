#!/usr/bin/python3
# gpt2.py: one step of training GPT-2 beside PyTorch, from the same weights, which a formula gives: loss, norms of
# the gradients, and where AdamW takes the parameters.
#   gpt2.py make                      computes data/gpt2.json, by hand: needs PyTorch
#   gpt2.py check TENON tiny|124M     runs models/gpt2.tn and compares; needs numpy
# SPDX-License-Identifier: MIT
import json
import math
import os
import struct
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from formula import Check, np, read, summary, uniform  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "data", "gpt2.json")
CONFIGS = {"tiny": dict(vocab=61, context=32, dim=24, depth=2, heads=4, words=16),
           "124M": dict(vocab=50257, context=1024, dim=768, depth=12, heads=12, words=64)}
LR = 1e-3


def shapes(c):
    """Names and shapes in the order of Hugging Face's checkpoints."""
    d = c["dim"]
    out = {"transformer.wte.weight": (c["vocab"], d), "transformer.wpe.weight": (c["context"], d)}
    for i in range(c["depth"]):
        h = f"transformer.h.{i}."
        for name, shape in (("ln_1", (d,)), ("attn.c_attn", (d, 3 * d)), ("attn.c_proj", (d, d)), ("ln_2", (d,)),
                            ("mlp.c_fc", (d, 4 * d)), ("mlp.c_proj", (4 * d, d))):
            out[h + name + ".weight"], out[h + name + ".bias"] = shape, shape[-1:]
    out["transformer.ln_f.weight"], out["transformer.ln_f.bias"] = (d,), (d,)
    return out


def weights(name, shape):
    """Numbers that f32 holds exactly: around 1 for the scales of norms, else around 0."""
    u = uniform(name, shape)
    if ".ln_" in name and name.endswith("weight"):
        u = 1 + u / 16
    else:
        u = u / (64 if name.endswith("bias") else 32)
    return u.astype(np.float32)


def words(c):
    n, line = c["words"], np.arange(c["words"] + 1, dtype=np.int64)
    line = (line * line * 31 + 7 * line + 13) % c["vocab"]
    return line[:n].reshape(1, n), line[1:].reshape(1, n)


def expected(c):
    import torch
    from torch.nn import functional as F

    p = {n: torch.tensor(weights(n, s).astype(np.float64), requires_grad=True) for n, s in shapes(c).items()}
    tokens, targets = (torch.tensor(a) for a in words(c))
    d, heads = c["dim"], c["heads"]

    def norm(x, name):
        return F.layer_norm(x, [d], p[name + ".weight"], p[name + ".bias"])

    def mapped(x, name):
        return x @ p[name + ".weight"] + p[name + ".bias"]

    n = tokens.shape[1]
    hidden = torch.full((n, n), float("-inf"), dtype=torch.float64).triu(1)
    x = p["transformer.wte.weight"][tokens] + p["transformer.wpe.weight"][:n]
    for i in range(c["depth"]):
        h = f"transformer.h.{i}."
        q, k, v = (t.view(1, n, heads, d // heads).transpose(1, 2)
                   for t in mapped(norm(x, h + "ln_1"), h + "attn.c_attn").chunk(3, -1))
        scores = q @ k.transpose(2, 3) / math.sqrt(d // heads) + hidden
        x = x + mapped((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(1, n, d), h + "attn.c_proj")
        y = mapped(norm(x, h + "ln_2"), h + "mlp.c_fc")
        y = 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y ** 3)))
        x = x + mapped(y, h + "mlp.c_proj")
    logits = norm(x, "transformer.ln_f") @ p["transformer.wte.weight"].T
    loss = F.cross_entropy(logits[0], targets[0])
    loss.backward()
    grads = {n: summary(t.grad.numpy()) for n, t in p.items()}
    total = float(torch.nn.utils.clip_grad_norm_(list(p.values()), 1.0))
    groups = [{"params": [t for t in p.values() if t.ndim > 1], "weight_decay": 0.1},
              {"params": [t for t in p.values() if t.ndim < 2], "weight_decay": 0.0}]
    torch.optim.AdamW(groups, LR, (0.9, 0.95)).step()
    moved = {n: summary(t.detach().numpy() - weights(n, t.shape)) for n, t in p.items()}
    return {"loss": float(loss.detach()), "norm": total, "gradients": grads, "moved": moved}


def write_state(path, c):
    """A safetensors file, parameter after parameter."""
    head, at = {}, 0
    for name, shape in shapes(c).items():
        size = 4 * math.prod(shape)
        head[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes(c).items():
            f.write(weights(name, shape).tobytes())


def check(tenon, name):
    c = CONFIGS[name]
    with open(os.path.join(HERE, "..", "..", "models", "gpt2.tn")) as f:
        text = f.read()
    schedule = "lr = optim.warmup_cosine(6e-4, 2000, 600_000, 6e-5)"
    assert schedule in text
    want = read(GOLDEN)[name]
    config = ["-m", "gpt2", "-D", "p=0.0"] + [x for k in ("vocab", "context", "dim", "depth", "heads")
                                              for x in ("-D", f"{k}={c[k]}")]
    test = Check()
    with tempfile.TemporaryDirectory() as folder:
        model, state, out, data = (os.path.join(folder, n) for n in ("gpt2.tn", "state.safetensors", "out.npz", "data.npz"))
        with open(model, "w") as f:
            f.write(text.replace(schedule, f"lr = {LR}"))
        write_state(state, c)
        tokens, targets = words(c)
        np.savez(data, tokens=tokens, targets=targets)
        given = [f"tokens=@{data}:tokens", f"targets=@{data}:targets"]
        seconds = test.run(tenon, "-run", model, "loss", *given, "-load", state, "-grad", "-o", out, *config)
        got = np.load(out)
        test.near("loss", float(got["loss"]), want["loss"], abs(want["loss"]))
        total = 0.0
        for n, s in want["gradients"].items():
            g = got["d_" + n]
            total += float(np.square(g.astype(np.float64)).sum())
            test.tensor("gradient of " + n, g, s)
        test.near("norm of all gradients", math.sqrt(total), want["norm"], want["norm"])
        print(f"loss {float(got['loss']):.7f}, PyTorch {want['loss']:.7f}; norm of the gradients "
              f"{math.sqrt(total):.7f}, PyTorch {want['norm']:.7f}; {seconds:.1f} s")
        os.remove(out)
        seconds = test.run(tenon, "-train", model, data, "-epochs", "1", "-batch", "1", "-load", state, "-save", out, *config)
        got = np.load(out)
        for n, s in want["moved"].items():
            # AdamW's first step has the gradient's sign: what rounds to the other side of 0 goes the other way
            test.tensor("step of " + n, got[n] - weights(n, got[n].shape), s, 50)
        print(f"one step of training: {seconds:.1f} s")
    return test.result(f"gpt2 {name}")


def main(args):
    if args == ["make"]:
        with open(GOLDEN, "w") as f:
            json.dump({name: expected(c) for name, c in CONFIGS.items()}, f, indent=1)
            f.write("\n")
        return 0
    if len(args) == 3 and args[0] == "check" and args[2] in CONFIGS:
        return check(args[1], args[2])
    print("usage: gpt2.py make | check TENON tiny|124M", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
