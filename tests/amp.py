#!/usr/bin/python3
# amp.py: -famp=bf16 and -famp=f16 against PyTorch's autocast and GradScaler: losses of nine steps, the
# parameters after them, and which steps are skipped.
#   amp.py TENON [FLAGS ...]        amp.py --torch     prints PyTorch's numbers anew, where it is installed
# SPDX-License-Identifier: MIT
import math
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

TEXT = """
import nn
import optim
module Net {
    a = nn.Linear(16, 32)
    b = nn.Linear(32, 32)
    c = nn.Linear(32, 4)
    fn forward(x: [B, 16]) -> (y: [B, 4]) { return c(relu(b(relu(a(x))))) }
    fn loss(x: [B, 16], t: [B, 4]) -> (loss: []) { return mse_loss(forward(x), t) * 20 }
}
model m = Net()
train m.loss with optim.SGD(lr = 0.0005, momentum = 0.9)
"""
SHAPES = {"a.weight": (32, 16), "a.bias": (32,), "b.weight": (32, 32), "b.bias": (32,), "c.weight": (4, 32),
          "c.bias": (4,), "x": (8, 16), "t": (8, 4)}
STEPS = 9
# of PyTorch 2.15: loss of each step; scale behind each; sum of the squares of all parameters at the end
NUMBERS = {
    "bf16": ([1452.213, 1423.975, 1375.823, 1314.535, 1235.149, 1118.313, 932.55, 672.339, 437.186],
             [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 79.452),
    "f16": ([1452.269, 1452.269, 1452.269, 1452.269, 1452.269, 1452.269, 1423.978, 1375.976, 1314.357],
             [32768.0, 16384.0, 8192.0, 4096.0, 2048.0, 2048.0, 2048.0, 2048.0, 2048.0], 55.5649),
}


def values(name):
    n = math.prod(SHAPES[name])
    seed = sum(map(ord, name))
    size = 12 if name == "t" else 1.5 if name == "x" else 0.25
    return [size * math.sin(0.7 * (seed + i) + 0.013 * i * (i % 11)) for i in range(n)]


def save(path, names):
    with zipfile.ZipFile(path, "w") as z:
        for name in names:
            head = "{'descr': '<f4', 'fortran_order': False, 'shape': %r, }" % (SHAPES[name],)
            head += " " * (-(len(head) + 11) % 64) + "\n"
            data = struct.pack("<%df" % math.prod(SHAPES[name]), *values(name))
            z.writestr(name + ".npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)


def scalar(z, name, letter):
    return struct.unpack("<" + letter, z.read(name + ".npy")[-8:])[0]


def squares(z):
    total = 0.0
    for name, shape in SHAPES.items():
        if name not in ("x", "t"):
            data = z.read(name + ".npy")[-4 * math.prod(shape):]
            total += sum(v * v for v in struct.unpack("<%df" % math.prod(shape), data))
    return total


def from_torch():
    import torch

    def run(dtype):
        net = {n: torch.tensor(values(n)).reshape(s).requires_grad_() for n, s in SHAPES.items() if n not in "xt"}
        x, t = (torch.tensor(values(n)).reshape(SHAPES[n]) for n in "xt")
        opt = torch.optim.SGD(net.values(), lr=0.0005, momentum=0.9)
        scaler = torch.amp.GradScaler("cpu", enabled=dtype == torch.float16)
        losses, scales = [], []
        for _ in range(STEPS):
            opt.zero_grad()
            with torch.autocast("cpu", dtype=dtype):
                y = x
                for k in "abc":
                    y = torch.nn.functional.linear(y, net[k + ".weight"], net[k + ".bias"])
                    y = y.relu() if k != "c" else y
                loss = torch.nn.functional.mse_loss(y, t) * 20
            scaler.scale(loss).backward()
            scaler.step(opt)
            scaler.update()
            losses.append(round(loss.item(), 3))
            scales.append(scaler.get_scale())
        return losses, scales, round(sum((v.detach() ** 2).sum().item() for v in net.values()), 4)

    for name, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        print(f'    "{name}": {run(dtype)},')


def main(tenon, flags):
    passed = failed = 0

    def check(good, what):
        nonlocal passed, failed
        passed += good
        failed += not good
        if not good:
            print("wrong:", what)

    with open("m.tn", "w") as f:
        f.write(TEXT)
    save("w.npz", [n for n in SHAPES if n not in "xt"])
    save("d.npz", "xt")
    for half, (losses, scales, total) in NUMBERS.items():
        p = subprocess.run([tenon, *flags, "-train", "m.tn", "d.npz", "-epochs", str(STEPS), "-batch", "8",
                            "-famp=" + half, "-load", "w.npz", "-save", half + ".npz"], capture_output=True, text=True)
        if p.returncode:
            sys.exit(p.stderr)
        got = [float(line.split("loss")[1].split()[0]) for line in p.stdout.splitlines() if line.startswith("epoch")]
        check(len(got) == STEPS, f"{half}: {len(got)} losses")
        for want, have in zip(losses, got):
            check(abs(have - want) <= 0.004 * want, f"{half}: loss {have}, PyTorch's is {want}")
        with zipfile.ZipFile(half + ".npz") as z:
            sum_now = squares(z)
            check(abs(sum_now - total) <= 0.004 * total, f"{half}: parameters {sum_now}, PyTorch's {total}")
            if half != "f16":
                continue
            skipped = sum(b < a for a, b in zip([65536] + scales, scales))
            check(0 < skipped < STEPS, "some steps are skipped, some not")
            check(scalar(z, "loss.scale", "d") == scales[-1], f"scale {scalar(z, 'loss.scale', 'd')}")
            check(scalar(z, "loss.skipped", "q") == skipped, f"{scalar(z, 'loss.skipped', 'q')} steps are skipped")
            check(scalar(z, "loss.t", "q") == STEPS - skipped, f"{scalar(z, 'loss.t', 'q')} steps are made")
            check(f"skipped {skipped} " in p.stdout, "it is said how many are skipped")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if sys.argv[1] == "--torch":
    from_torch()
    sys.exit()
compiler = os.path.abspath(sys.argv[1])
with tempfile.TemporaryDirectory() as folder:
    os.environ["TENON_CACHE"] = os.path.join(folder, "cache")
    os.chdir(folder)
    sys.exit(main(compiler, sys.argv[2:]))
