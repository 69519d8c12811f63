#!/usr/bin/python3
# check.py: runs the compiler on the tables of cases.py and compares with data/*.npz, which make.py
# took from PyTorch.  check.py TENON GROUP [f32|f64] [NAME...]
# Groups: activations rows losses modules lltm digits optimisers. Exit status 1: something differs.
# SPDX-License-Identifier: MIT
import ast
import os
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import cases  # noqa: E402

MODELS = os.path.join(HERE, "..", "..", "models")
CODES = {"<f4": "f", "<f8": "d", "<i8": "q", "<u8": "Q", "<i4": "i", "|b1": "?", "|u1": "B"}
# relative and absolute: what a chain of a few roundings in f32 or f64 may leave
TOLERANCE = {"f32": (2e-5, 2e-6), "f64": (1e-11, 1e-12)}
# arguments of a hundred and more: the rounding of the argument itself is that much larger
LARGE = {"softmax_large": 200, "ce_large": 10, "softplus3": 10, "logsigmoid": 5}


class Array:
    def __init__(self, code, shape, flat):
        self.code, self.shape, self.flat = code, tuple(shape), flat

    def as_float(self, code):
        return Array(code, self.shape, self.flat) if self.code in ("<f4", "<f8") else self

    def bytes(self):
        head = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (self.code, repr(self.shape))
        head += " " * (-(len(head) + 11) % 64) + "\n"
        return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() +
                struct.pack("<%d%s" % (len(self.flat), CODES[self.code]), *self.flat))


def read_array(data):
    assert data[:6] == b"\x93NUMPY", "not an npy file"
    start, wide = (10, "<H") if data[6] == 1 else (12, "<I")
    length = struct.unpack(wide, data[8:start])[0]
    head = ast.literal_eval(data[start:start + length].decode())
    count = 1
    for n in head["shape"]:
        count *= n
    values = struct.unpack_from("<%d%s" % (count, CODES[head["descr"]]), data, start + length)
    flat = list(values)
    if head["fortran_order"] and len(head["shape"]) > 1:
        raise ValueError("an array in Fortran order")
    return Array(head["descr"], head["shape"], flat)


def read_npz(path):
    with zipfile.ZipFile(path) as z:
        return {n[:-4]: read_array(z.read(n)) for n in z.namelist()}


def write_npz(path, arrays):
    with zipfile.ZipFile(path, "w") as z:
        for name, a in arrays.items():
            z.writestr(name + ".npy", a.bytes())


class Checker:
    def __init__(self, tenon, dtype, only):
        self.tenon, self.dtype, self.only = tenon, dtype, only
        self.dir = tempfile.TemporaryDirectory()
        self.right = self.wrong = 0

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    def write_array(self, name, array):
        with open(self.path(name + ".npy"), "wb") as f:
            f.write(array.as_float({"f32": "<f4", "f64": "<f8"}[self.dtype]).bytes())
        return "@" + self.path(name + ".npy")

    def run(self, *args):
        flags = os.environ.get("TENON_FLAGS", "").split()
        command = [self.tenon, *args] + flags + (["-fdtype=f64"] if self.dtype == "f64" else [])
        p = subprocess.run(command, capture_output=True, text=True)
        if p.returncode:
            print(" ".join(command))
            print(p.stdout + p.stderr)
            self.wrong += 1
            return False
        return True

    def compare(self, label, got, want, scale=1):
        rtol, atol = [scale * t for t in TOLERANCE[self.dtype]]
        if got is None:
            print(f"{label}: missing")
            self.wrong += 1
            return
        if got.shape != want.shape:
            print(f"{label}: shape {got.shape}, expected {want.shape}")
            self.wrong += 1
            return
        # an absolute part for the largest element: sums over rows cancel
        top = max([abs(w) for w in want.flat] + [0])
        for i, (g, w) in enumerate(zip(got.flat, want.flat)):
            if not abs(g - w) <= rtol * abs(w) + atol * max(1, top):
                print(f"{label}[{i}]: {g!r}, expected {w!r}")
                self.wrong += 1
                return
        self.right += 1


def type_of(a):
    dims = ["N" if i == 0 and n == cases.N else str(n) for i, n in enumerate(a.shape)]
    return ("i64" if a.code == "<i8" else "") + "[" + ", ".join(dims) + "]"


def run_functions(c, group):
    data = read_npz(os.path.join(HERE, "data", group + ".npz"))
    params, results, body, given, seeds = [], [], [], [], []
    rows = [r for r in {**cases.GROUPS, **cases.MORE_GROUPS}[group] if not c.only or r[0] in c.only]
    for name, text, _, args in rows:
        for arg in args:
            array = data[f"in.{name}.{arg}"]
            params.append(f"{name}_{arg}: {type_of(array)}")
            given.append(f"{name}_{arg}=" + c.write_array(f"{name}_{arg}", array))
            text = re.sub(rf"\b{arg}\b(?!\s*=)", f"{name}_{arg}", text)
        results.append(f"y_{name}: {type_of(data['out.' + name])}")
        body.append(f"        y_{name} = {text}\n")
        seeds.append(f"d_y_{name}=" + c.write_array(f"d_y_{name}", data["cot." + name]))
    text = ("module Cases {\n    fn forward(" + ",\n               ".join(params) + ")\n            -> (" +
            ",\n                ".join(results) + ") {\n" + "".join(body) + "    }\n}\nmodel cases = Cases()\n")
    out = c.path("out.npz")
    if not c.run("-run", c.write(group + ".tn", text), "forward", *given, "-grad", *seeds, "-o", out):
        return
    got = read_npz(out)
    for name, _, _, args in rows:
        scale = LARGE.get(name, 1)
        c.compare(name, got.get("y_" + name), data["out." + name], scale)
        for arg in args:
            if f"grad.{name}.{arg}" in data:
                c.compare(f"{name}: d_{arg}", got.get(f"d_{name}_{arg}"), data[f"grad.{name}.{arg}"], scale)


def run_modules(c):
    data = read_npz(os.path.join(HERE, "data", "modules.npz"))
    members = "".join(f"    {n} = {t}\n" for n, t, _ in cases.MODULES)
    params = ", ".join(f"x_{n}: [N, 6]" for n, _, _ in cases.MODULES)
    results = ", ".join(f"y_{n}: {type_of(data['out.' + n])}" for n, _, _ in cases.MODULES)
    body = "".join(f"        y_{n} = {n}(x_{n})\n" for n, _, _ in cases.MODULES)
    text = f"import nn\nmodule All {{\n{members}    fn forward({params}) -> ({results}) {{\n{body}    }}\n}}\nmodel all_ = All()\n"
    write_state(c, data)
    given = [f"x_{n}=" + c.write_array("x_" + n, data[f"in.{n}.x"]) for n, _, _ in cases.MODULES]
    seeds = [f"d_y_{n}=" + c.write_array("d_" + n, data["cot." + n]) for n, _, _ in cases.MODULES]
    out = c.path("out.npz")
    if not c.run("-run", c.write("modules.tn", text), "forward", "-load", c.path("state.npz"), *given,
                 "-grad", *seeds, "-o", out):
        return
    got = read_npz(out)
    for n, _, _ in cases.MODULES:
        c.compare(n, got.get("y_" + n), data["out." + n])
        c.compare(n + ": d_x", got.get("d_x_" + n), data[f"grad.{n}.x"])
    compare_state(c, data, got)


def write_state(c, data):
    code = {"f32": "<f4", "f64": "<f8"}[c.dtype]
    write_npz(c.path("state.npz"), {k[len("state."):]: a.as_float(code) for k, a in data.items()
                                    if k.startswith("state.")})


def compare_state(c, data, got):
    for k, a in data.items():
        if k.startswith("dstate."):
            name = k[len("dstate."):]
            c.compare("d_" + name, got.get("d_" + name), a)


def run_model(c, name, method, extra):
    data = read_npz(os.path.join(HERE, "data", name + ".npz"))
    write_state(c, data)
    given, seeds = [], []
    for k, a in data.items():
        if k.startswith("in."):
            given.append(k[3:] + "=" + c.write_array(k[3:], a))
        if k.startswith("cot."):
            seeds.append("d_" + k[4:] + "=" + c.write_array("d_" + k[4:], a))
    out = c.path("out.npz")
    if not c.run("-run", os.path.join(MODELS, name + ".tn"), method, "-load", c.path("state.npz"), *given,
                 "-grad", *seeds, "-o", out, *extra):
        return
    got = read_npz(out)
    for k, a in data.items():
        if k.startswith("out."):
            c.compare(k[4:], got.get(k[4:]), a)
        if k.startswith("grad."):
            c.compare("d_" + k[5:], got.get("d_" + k[5:]), a)
    compare_state(c, data, got)


def run_optimisers(c):
    data = read_npz(os.path.join(HERE, "data", "optimisers.npz"))
    code = {"f32": "<f4", "f64": "<f8"}[c.dtype]
    write_npz(c.path("train.npz"), {k: data["in." + k].as_float(code) for k in ("x", "y")})
    for key in sorted({k.split(".")[1] for k in data if k.startswith("out.")}):
        if c.only and key not in c.only:
            continue
        name = key.replace("_clipped", "")
        text = cases.TRAIN_TEXT.replace("OPTIMISER", cases.OPTIMISERS[name][0])
        text = text.replace("CLIP", "0.25" if key != name else "1000.0")
        out = c.path("net.npz")
        if not c.run("-train", c.write("net.tn", text), c.path("train.npz"), "-epochs", "3", "-batch",
                     str(cases.N), "-save", out):
            continue
        got = read_npz(out)
        for k, a in data.items():
            if k.startswith(f"out.{key}."):
                # three steps, and quotients of small numbers
                c.compare(f"{key}: {k.split('.', 2)[2]}", got.get(k.split(".", 2)[2]), a, 10)


def run_window_modules(c, table, file):
    data = read_npz(os.path.join(HERE, "data", file + ".npz"))
    rows = [r for r in table.MODULES if not c.only or r[0] in c.only]
    text = table.MODULES_TEXT
    text = text.replace("MEMBERS", "".join(f"    {n} = {t}\n" for n, t, _, _ in rows))
    text = text.replace("RESULTS", ", ".join(
        f"y_{n}: [{', '.join('_' * len(data['out.' + n].shape))}]" for n, _, _, _ in rows))
    text = text.replace("BODY", "".join(
        f"        y_{n} = {n}({table.TAKES[k]})\n" for n, _, _, k in rows))
    path, state, out = c.write("windows.tn", text), c.path("after.npz"), c.path("out.npz")
    names = tuple(n + "." for n, _, _, _ in rows)
    write_state(c, {k: a for k, a in data.items() if k[6:].startswith(names)})
    c.write_array("x", data["in.x"])
    write_npz(c.path("train.npz"), {"x": data["in.x"].as_float({"f32": "<f4", "f64": "<f8"}[c.dtype])})
    if not c.run("-train", path, c.path("train.npz"), "-epochs", "3", "-batch", str(cases.N), "-load",
                 c.path("state.npz"), "-save", state) or not c.run(
                     "-run", path, "forward", "x=@" + c.path("x.npy"), "-load", state, "-o", out):
        return
    after, got = read_npz(state), read_npz(out)
    for k, a in data.items():
        if k.startswith("after.") and k[6:].startswith(names):
            c.compare(k[6:], after.get(k[6:]), a, 10)
    for n, _, _, _ in rows:
        c.compare(n, got.get("y_" + n), data["out." + n], 10)


def main():
    if len(sys.argv) < 3:
        print("usage: check.py TENON GROUP [f32|f64] [NAME...]", file=sys.stderr)
        return 2
    tenon, group, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
    dtype = rest.pop(0) if rest and rest[0] in TOLERANCE else "f32"
    c = Checker(tenon, dtype, rest)
    if group in cases.GROUPS or group in cases.MORE_GROUPS:
        run_functions(c, group)
    elif group == "modules":
        run_modules(c)
    elif group == "window_modules":
        run_window_modules(c, cases.cases_windows, "window_modules")
    elif group == "recurrent":
        run_window_modules(c, cases.cases_recurrent, "recurrent")
    elif group == "lltm":
        run_model(c, "lltm", "forward", [])
    elif group == "digits":
        run_model(c, "digits", "loss", [])
    elif group == "optimisers":
        run_optimisers(c)
    else:
        print(f"check.py: there is no group {group}", file=sys.stderr)
        return 2
    print(f"{group} {dtype}: {c.right} equal, {c.wrong} not")
    return 1 if c.wrong or not c.right else 0


if __name__ == "__main__":
    sys.exit(main())
