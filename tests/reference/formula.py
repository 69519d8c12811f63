# formula.py: what whole models are compared by: parameters and inputs that both sides make by a formula, and of each result
# two numbers that depend on every element of it; and the commands of the scripts that compare so.
# SPDX-License-Identifier: MIT
import json
import math
import os
import subprocess
import sys
import time
import zlib

try:
    import numpy as np
except ImportError:  # the system's own python3 may have it
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3"] + sys.argv)
    print(os.path.basename(sys.argv[0]) + ": no numpy here")
    sys.exit(77)

# relative to a tensor's norm: what some hundred roundings may leave
TOLERANCE = {"f32": 2e-5, "f64": 1e-11}


def mixed(name, n):
    """n numbers of 32 bits."""
    x = np.arange(n, dtype=np.uint32)
    with np.errstate(over="ignore"):
        x += np.uint32(zlib.crc32(name.encode()))
        for shift, factor in ((16, 0x7feb352d), (15, 0x846ca68b)):
            x = (x ^ (x >> np.uint32(shift))) * np.uint32(factor)
    return x ^ (x >> np.uint32(16))


def uniform(name, shape):
    """Numbers from -1 to 1 that f32 holds exactly."""
    k = mixed(name, math.prod(shape))
    return ((k >> np.uint32(8)).astype(np.float32) / np.float32(2 ** 23) - np.float32(1)).reshape(shape)


def integers(name, shape, n):
    return (mixed(name, math.prod(shape)) % np.uint32(n)).astype(np.int64).reshape(shape)


def summary(a):
    """What is kept of a tensor of any size: its norm, and its product with a wave, which tells where things are."""
    flat = np.asarray(a).reshape(-1).astype(np.float64)
    wave = np.cos(0.37 * np.arange(flat.size))
    return [float(np.sqrt(flat @ flat)), float(flat @ wave) / math.sqrt(max(flat.size, 1))]


class Check:
    def __init__(self, dtype="f32"):
        self.dtype, self.tolerance, self.right, self.wrong = dtype, TOLERANCE[dtype], 0, 0

    def judge(self, good, words):
        if good:
            self.right += 1
            return
        self.wrong += 1
        print(words)

    def near(self, what, got, want, scale):
        self.judge(abs(got - want) <= self.tolerance * scale, f"{what}: {got!r}, PyTorch has {want!r}")

    def tensor(self, what, got, want, slack=1, floor=0.0):
        """floor: a norm below which only the absolute difference counts: what is 0 but for roundings."""
        if got is None:
            self.judge(False, f"{what}: missing")
            return
        got, scale = summary(got), slack * max(want[0], floor)
        self.near(what + ": norm", got[0], want[0], scale)
        self.near(what + ": place", got[1], want[1], scale)

    def same(self, what, got, want):
        self.judge(got == want, f"{what}: {got}, PyTorch has {want}")

    def result(self, what):
        """The status to exit with."""
        print(f"{what}: {self.right} equal, {self.wrong} not")
        return 1 if self.wrong or not self.right else 0

    def run(self, tenon, *args):
        """Seconds that it took; ends the program where it fails."""
        start, flags = time.time(), os.environ.get("TENON_FLAGS", "").split()
        flags += ["-fdtype=f64"] if self.dtype == "f64" else []
        r = subprocess.run([tenon, *flags, *args], capture_output=True, text=True, check=False)
        if r.returncode:
            sys.exit(f"{' '.join([tenon, *flags, *args])}\n{r.stdout}{r.stderr}")
        return time.time() - start


def read(golden):
    with open(golden) as f:
        return json.load(f)


def in_lines(x, depth):
    """JSON, in which what is so deep has a line of its own: changes are seen where they are."""
    if not depth or not isinstance(x, dict):
        return json.dumps(x)
    return "{\n" + ",\n".join(f"{json.dumps(k)}: {in_lines(v, depth - 1)}" for k, v in x.items()) + "\n}"


def write(golden, values, depth):
    with open(golden, "w") as f:
        f.write(in_lines(values, depth) + "\n")


def commands(golden, names, make, check, complete=None):
    """What a script that compares is asked to do; no names: all of them. The status to exit with."""
    script, (word, *args) = os.path.basename(sys.argv[0]), sys.argv[1:] or [""]
    if word == "make" and set(args) <= set(names):
        make(args)
        return 0
    if word == "check" and len(args) >= 2 and args[1] in TOLERANCE and set(args[2:]) <= set(names):
        test, want = Check(args[1]), read(golden)
        for name in args[2:] or names:
            check(test, args[0], name, want[name])
        return test.result(" ".join([script, *args[2:], args[1]]))
    if word == "complete" and complete and len(args) == 1:
        return complete(args[0], read(golden))
    print(f"usage: {script} make [NAME...] | check TENON f32|f64 [NAME...]" + (" | complete STD" if complete else "") +
          f"; names: {' '.join(names)}", file=sys.stderr)
    return 2
