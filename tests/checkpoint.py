#!/usr/bin/python3
# checkpoint.py: `checkpoint { }` and `checkpoint(k) { }` keep less and give the same gradients.
#   checkpoint.py TENON [FLAGS ...]
# SPDX-License-Identifier: MIT
import json
import os
import struct
import subprocess
import sys
import tempfile
import zipfile

LAYERS = """
import nn
module Block {
    a = nn.Linear(16, 16)
    b = nn.Linear(16, 16)
    fn forward(x: [B, 16]) -> [B, 16] {
        let y = x
        %s { y = x + dropout(b(gelu(a(x))), 0.25) }
        return y
    }
}
module Net {
    layers = [Block() for i in range(4)]
    fn loss(x: [B, 16]) -> (loss: []) { loss = square(layers(x)).mean() }
}
model m = Net()
"""
TURNS = """
module Net {
    param w: [8, 8] = uniform(-0.4, 0.4)
    param u: [16, 8] = uniform(-0.4, 0.4)
    param b: [8] = uniform(-0.4, 0.4)
    fn loss(x: [B, T, 16], h0: [B, 8]) -> (loss: []) {
        let h = h0
        let count = zeros([])
        %s {
            scan t in %s {
                h = tanh(dropout(h, 0.1) @ w + x[:, t] @ u + b)
                count = count + 1
                print("turn", count)
            }
        }
        loss = square(h).mean()
    }
}
model m = Net()
"""
YIELDS = """
module Net {
    param w: [8, 8] = uniform(-0.4, 0.4)
    param b: [8] = uniform(-0.4, 0.4)
    fn loss(x: [T, B, 8], h0: [B, 8]) -> (loss: []) {
        let h = h0
        let total = 0.0
        let ys = zeros([T, B, 8])
        %s {
            ys = scan row in x {
                h = tanh(h @ w + b + row)
                let inner = h
                scan i in range(3) { inner = sin(inner @ w) }
                yield inner
            }
        }
        loss = (ys * x).sum()
    }
}
model m = Net()
"""
# what a turn of the outer loop reads cannot be cut out before it: 5 of every 6 rows
NESTED = """
module Net {
    param w: [8, 8] = uniform(-0.4, 0.4)
    param u: [16, 8] = uniform(-0.4, 0.4)
    fn loss(x: [B, 24, 16], n: [N], h0: [B, 8]) -> (loss: []) {
        let h = h0
        %s o in range(%s) {
            scan i in range(5) { h = tanh(h @ w + x[:, 17 - 6 * o - i] @ u) }
        }
        loss = square(h).mean()
    }
}
model m = Net()
"""

tenon, flags = sys.argv[1], sys.argv[2:]
passed = failed = 0


def check(good, what):
    global passed, failed
    passed += good
    failed += not good
    if not good:
        print("wrong:", what)


def run(*args):
    p = subprocess.run([tenon, *flags, *args], capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"tenon {' '.join(args)} failed:\n{p.stderr}")
    return p.stdout


def arrays(path):
    with zipfile.ZipFile(path) as z:
        return {n: z.read(n) for n in z.namelist()}


def numbers(data):
    start = 10 + struct.unpack("<H", data[8:10])[0]
    return struct.unpack(f"<{(len(data) - start) // 4}f", data[start:])


def measure(text, given):
    """Gradients, bytes kept for backward, and what is printed."""
    with open("m.tn", "w") as f:
        f.write(text)
    shown = run("-run", "m.tn", "loss", *given, "-training", "-grad", "-seed", "3", "-o", "out.npz")
    sizes = [g for g in given if "@" not in g and g[0].isupper()]
    report = json.loads(run("-report=json", "m.tn", *sizes))
    saved = {m["name"]: m["saved_bytes"] for m in report["methods"]}
    return arrays("out.npz"), saved["loss_train"], shown.count("turn: ")


def same(a, b, names=None):
    return a.keys() == b.keys() and all(a[n] == b[n] for n in (names or a))


def distance(a, b):
    return max(abs(x - y) / (1 + abs(x)) for n in a for x, y in zip(numbers(a[n]), numbers(b[n])))


def close(a, b):
    return distance(a, b) <= 1e-5


def main():
    given = ["x=randn", "B=2"]
    g0, s0, _ = measure(LAYERS % "if true", given)
    g1, s1, _ = measure(LAYERS % "checkpoint", given)
    check(same(g0, g1), "gradients of layers have other bits")
    # the inputs of blocks 2 to 4 and the last output: x is kept by reference; keys of dropout are small
    check(4 * 2 * 16 * 4 <= s1 <= 4 * 2 * 16 * 4 + 256, f"layers keep {s1} bytes")
    check(s1 < s0 / 2, f"layers keep {s1} of {s0} bytes")

    for over in ("range(T)", "reversed(range(T))"):
        given = ["x=randn", "h0=randn", "B=2", "T=19"]
        g0, s0, p0 = measure(TURNS % ("if true", over), given)
        check(p0 == 19, f"{p0} turns are printed")
        g1, s1, p1 = measure(TURNS % ("checkpoint", over), given)
        check(same(g0, g1), "gradients of a scan have other bits")
        check(p1 == 19, f"{p1} turns are printed with a checkpoint")
        check(s1 <= 2 * 8 * 4 + 128, f"a scan in a checkpoint keeps {s1} bytes")
        for k in (1, 4, 19, 50):
            g, s, p = measure(TURNS % (f"checkpoint({k})", over), given)
            kept = (19 // k + 1) * 2 * 8 * 4
            check(same(g0, g, ["d_h0.npy", "loss.npy"]), f"every {k}: other bits")
            check(close(g0, g), f"every {k}: gradients differ by {distance(g0, g)}")
            check(p == 19, f"every {k}: {p} turns are printed")
            check(s <= kept + 512, f"every {k}: {s} bytes are kept, not {kept}")
    for turns in ("7", "8", "2", "0"):
        given = ["x=randn", "h0=randn", "B=2", "T=" + turns]
        g0, s0, _ = measure(YIELDS % "if true", given)
        for block in ("checkpoint", "checkpoint(4)", "checkpoint(1)"):
            g, s, _ = measure(YIELDS % block, given)
            check(close(g0, g), f"{block}, {turns} turns: other gradients")
            check(turns in "02" or "1" in block or s < s0, f"{block}, {turns} turns: {s} of {s0} bytes")
    for turns in (1, 2, 3):
        given = ["x=randn", "n=ones", "h0=randn", "B=2", f"N={turns}"]
        g0, _, _ = measure(NESTED % ("for", turns), given)
        g, _, _ = measure(NESTED % ("scan", "N"), given)
        check(close(g0, g), f"{turns} turns of a scan around a scan: {distance(g0, g)}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0


with tempfile.TemporaryDirectory() as folder:
    tenon = os.path.abspath(tenon)
    os.environ["TENON_CACHE"] = os.path.join(folder, "cache")
    os.chdir(folder)
    sys.exit(main())
