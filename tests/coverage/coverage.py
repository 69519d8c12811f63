"""Which operators work in which dtype on which target, forward and backward: runs each and compares with numpy,
gradients with central differences, and prints the table. Fails where a cell that means something is not full.
Usage: coverage.py TENON OPS_DEF [--cuda LIBRARY_PATH] [--quiet]      SPDX-License-Identifier: MIT

For each dtype one model with one method: every operator has arguments and a result of its own. That the operator
is really what runs is read off the graphs (-E=ir:place)."""
import argparse
import os
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:  # the system's own python3 may have it
    if sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
        os.execv("/usr/bin/python3", ["/usr/bin/python3"] + sys.argv)
    print("coverage.py: no numpy here")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from table import NOTES, ROWS, WITHOUT

DTYPES = ("f64", "f32", "bf16", "f16", "int", "bool")
FLOATS = DTYPES[:4]
WORD = {"int": "i64", "bool": "bool"}
# Of the largest number in a result: some units in the last place.
TOLERANCE = {"f64": 1e-12, "f32": 2e-6, "bf16": 1.6e-2, "f16": 2e-3, "int": 0, "bool": 0}


def rounded(a, dtype):
    """The number of this dtype that is nearest, in f64."""
    if dtype == "f32":
        return a.astype(np.float32).astype(np.float64)
    if dtype == "f16":
        return a.astype(np.float16).astype(np.float64)
    if dtype == "bf16":
        bits = a.astype(np.float32).view(np.uint32).astype(np.uint64)
        bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000
        return bits.astype(np.uint32).view(np.float32).astype(np.float64)
    return a


def draw(rng, row, name, dtype):
    shape = row.shape(name)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype == "int":
        a = rng.integers(1, 9, shape)
        return a if row.domain == "positive" else a * rng.choice([-1, 1], shape)
    a = rng.uniform(0.1, 0.9, shape) * rng.choice([-1, 1], shape) if row.domain == "small" else \
        rng.uniform(0.3, 2.0, shape) * rng.choice([-1, 1], shape)
    if row.domain == "positive":
        a = np.abs(a)
    return rounded(a, dtype)


def signature(a):
    return "[%s]" % ", ".join(str(n) for n in a.shape)


def source(rows, dtype, data, results):
    """The model of a dtype. Floats come and go as f64, which holds them all exactly."""
    word, outside = WORD.get(dtype, dtype), "f64" if dtype in FLOATS else WORD[dtype]
    args, outs, body = [], [], []
    declared = [r.declare for r in rows if r.declare]
    for r in rows:
        for x in r.operands:
            args.append("%s_%s: %s%s" % (x, r.op, outside, signature(data[r.op, x])))
        made = results[r.op]
        outs.append("r_%s: %s%s" % (r.op, result_word(made, outside), signature(made)))
        body.append("    r_%s = f_%s(%s)%s" % (r.op, r.op, ", ".join(
            "%s_%s%s" % (x, r.op, ".to(%s)" % word if dtype in FLOATS else "") for x in r.operands),
            ".to(%s)" % outside if dtype in FLOATS and made.dtype != bool else ""))
        declared.append("fn f_%s(%s) {\n    %s\n    return %s\n}" % (r.op, ", ".join(r.operands), r.before.replace("$T", word),
                                                                  r.expr.replace("$T", word)))
    return "%s\nmodule M {\n  fn all(%s) -> (%s) {\n%s\n  }\n}\nmodel m = M()\n" % (
        "\n".join(declared), ", ".join(args), ", ".join(outs), "\n".join(body))


def result_word(made, outside):
    return "bool" if made.dtype == bool else outside


def gradient(row, inputs, name, d):
    """Central differences of sum(d * result) by each element of one operand."""
    out, h = np.zeros_like(inputs[name]), 1e-6
    for i in np.ndindex(out.shape):
        values = []
        for step in (h, -h):
            moved = {k: v.copy() for k, v in inputs.items()}
            moved[name][i] += step
            values.append((d * row.oracle(*[moved[k] for k in row.operands])).sum())
        out[i] = (values[0] - values[1]) / (2 * h)
    return out


def graphs(tenon, path):
    """Text of the methods' IR and of the functions that they call, before passes take it apart."""
    done = subprocess.run([tenon, "-E=ir:broadcast", path], capture_output=True, text=True)
    if done.returncode:
        sys.exit("coverage.py: %s" % done.stderr)
    parts = done.stdout.split("\ngraph ")[1:]
    return [p for p in parts if not re.match(r"@\S+ (init|forward_train|backward|grad|step|update)\b", p)]


def uses(graphs, op, word):
    """Whether a node of this operator has an operand, or a result, of the dtype."""
    return any(uses_it(g, op, word) for g in graphs)


def uses_it(graph, op, word):
    types = dict(re.findall(r"(%[\w.]+)(?: =[^\n]*?)?: (\w+)\[", graph))
    for result, operands in re.findall(r"(%%[^\n]*) = %s\b([^\n]*)" % op, graph):
        names = re.findall(r"%[\w.]+", operands)
        if " : %s[" % word in operands or any(types.get(n) == word for n in names) or word in \
                re.findall(r"(\w+)\[", operands.rsplit(" : ", 1)[-1]):
            return True
    return False


class Suite:
    def __init__(self, o, folder):
        self.o, self.folder, self.cells, self.bad, self.failed = o, folder, {}, [], set()

    def targets(self):
        return ["cpu"] + (["cuda"] if self.o.cuda else [])

    def dtype(self, dtype):
        rng = np.random.default_rng(5)
        rows = [r for r in ROWS if dtype in r.kinds]
        data = {(r.op, x): draw(rng, r, x, dtype) for r in rows for x in r.operands}
        results = {r.op: np.asarray(r.oracle(*[data[r.op, x] for x in r.operands])) for r in rows}
        if dtype == "int":
            results = {k: v if v.dtype == bool else v.astype(np.int64) for k, v in results.items()}
        path = os.path.join(self.folder, "all_%s.tn" % dtype)
        with open(path, "w") as f:
            f.write(source(rows, dtype, data, results))
        d = {r.op: rng.uniform(0.5, 1.5, results[r.op].shape) for r in rows}
        arrays = {"%s_%s" % (x, op): a for (op, x), a in data.items()}
        arrays.update({"d_r_" + r.op: d[r.op] for r in rows if results[r.op].dtype != bool})
        np.savez(os.path.join(self.folder, "in.npz"), **arrays)
        texts = graphs(self.o.tenon, path)
        for target in self.targets():
            self.target(dtype, target, rows, data, results, d, path, texts)

    def target(self, dtype, target, rows, data, results, d, path, texts):
        got = self.run(dtype, target, rows, data, results, path)
        word = WORD.get(dtype, dtype)
        for r in rows:
            cell = (r.op, dtype, target)
            ok = self.near(got.get("r_" + r.op), results[r.op], self.tolerance(r, dtype))
            self.put(cell + ("forward",), ok, "differs from numpy")
            if not uses(texts, r.op, "f32" if r.wide and dtype in ("bf16", "f16") else word):
                self.put(cell + ("forward",), False, "the graph has no such node")
            if dtype not in FLOATS or not r.grad or results[r.op].dtype == bool:
                continue
            inputs = {x: data[r.op, x].astype(np.float64) for x in r.operands}
            good = all(self.near(got.get("d_%s_%s" % (x, r.op)), gradient(r, inputs, x, d[r.op]),
                                 max(4 * self.tolerance(r, dtype), 1e-7)) for x in r.operands)
            self.put(cell + ("backward",), good, "differs from central differences")

    def run(self, dtype, target, rows, data, results, path):
        source = "@" + os.path.join(self.folder, "in.npz")
        out = os.path.join(self.folder, "out.npz")
        words = ["%s_%s=%s:%s_%s" % (x, op, source, x, op) for op, x in data]
        if dtype in FLOATS:
            words += ["-grad"] + ["d_r_%s=%s:d_r_%s" % (r.op, source, r.op) for r in rows if r.grad and results[r.op].dtype != bool]
        env = dict(os.environ)
        if target == "cuda":
            env["LD_LIBRARY_PATH"] = self.o.cuda
        # C compilers take most of the time: f32 has what they optimise
        level = "-O2" if dtype == "f32" else "-O0"
        command = [self.o.tenon, "-run", path, "all", *words, "-device=" + target, level, "-o", out]
        if os.path.exists(out):
            os.remove(out)
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        if done.returncode:
            self.bad.append("%s on %s: %s" % (dtype, target, done.stderr.strip()[:500]))
            self.failed.add((dtype, target))
            return {}
        return dict(np.load(out))

    @staticmethod
    def tolerance(row, dtype):
        return row.within.get(dtype, TOLERANCE[dtype] * row.loose)

    @staticmethod
    def near(got, want, tolerance):
        if got is None or got.shape != want.shape:
            return False
        if want.dtype == bool or tolerance == 0:
            return np.array_equal(got, want)
        scale = max(1e-30, np.abs(want).max())
        return bool(np.abs(got.astype(np.float64) - want).max() <= tolerance * scale)

    def put(self, cell, ok, why):
        self.cells[cell] = self.cells.get(cell, True) and ok
        if not ok and cell[1:3] not in self.failed:  # else that is told already
            self.bad.append("%s: %s" % (" ".join(cell), why))


def names_of(path):
    with open(path) as f:
        return re.findall(r"^(?:POINTWISE|STRUCTURAL)\((\w+),", f.read(), re.M)


def print_table(suite, targets):
    print("f: forward, b: backward; capitals: on the GPU; .: it means nothing; !: it does not hold\n")
    print("%-12s%s" % ("", "".join("%-8s" % d for d in DTYPES)))
    for row in ROWS:
        cells = []
        for dtype in DTYPES:
            text = ""
            for target in targets:
                for way in ("forward", "backward"):
                    c = suite.cells.get((row.op, dtype, target, way))
                    letter = way[0].upper() if target == "cuda" else way[0]
                    text += "." if c is None else letter if c else "!"
            cells.append("%-8s" % text)
        print("%-12s%s" % (row.op, "".join(cells)))
    print()
    for name in sorted(NOTES):
        print("%-16s%s" % (name, NOTES[name]))
    print("\nwithout a row of their own:")
    for name in sorted(WITHOUT):
        print("%-16s%s" % (name, WITHOUT[name]))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tenon")
    p.add_argument("ops")
    p.add_argument("--cuda", metavar="LIBRARY_PATH", help="where the virtual GPU is; empty: the machine's own")
    p.add_argument("--dtypes", default=",".join(DTYPES))
    p.add_argument("--quiet", action="store_true", help="only what is wrong")
    o = p.parse_args()
    known = {r.op for r in ROWS} | set(WITHOUT)
    missing = [n for n in names_of(o.ops) if n not in known]
    with tempfile.TemporaryDirectory() as folder:
        suite = Suite(o, folder)
        for dtype in o.dtypes.split(","):
            suite.dtype(dtype)
    if not o.quiet:
        print_table(suite, suite.targets())
    for text in suite.bad + ["%s: a row of ops.def without one of tests/coverage/table.py" % n for n in missing]:
        print("coverage.py: " + text, file=sys.stderr)
    full = sum(suite.cells.values())
    print("%d of %d cells hold" % (full, len(suite.cells)))
    return 1 if suite.bad or missing or not suite.cells else 0


if __name__ == "__main__":
    sys.exit(main())
