"""Side by side on the CPU: Tenon and its peers, in turn, medians, ratios. `./dev bench --help`.
SPDX-License-Identifier: MIT

Every contender is a process of its own that lives through all rounds of a case: starting, compiling and
warming up are not timed. Before anything is timed, the contenders' results are compared. In each round each is
asked in turn for a batch of iterations and answers with the median of their times; a ratio is the
median over the rounds of (peer's time / Tenon's time), so what else the machine does hits both."""
import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import common
import compiling
import page

HERE = common.HERE
PEERS = {"torch": ("torch_peer.py", "eager", "PyTorch eager"),
         "compile": ("torch_peer.py", "compile", "torch.compile"),
         "jax": ("jax_peer.py", "jit", "JAX jit"),
         "onnx": ("onnx_peer.py", "run", "ONNX Runtime")}
MODULE = {"torch": "torch", "compile": "torch", "jax": "jax", "onnx": "onnxruntime"}


def peer_environment():
    """What slows a peer down is taken away: a core type for OpenBLAS that is not this machine's."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS_", "OMP_", "MKL_"))}
    env["TF_CPP_MIN_LOG_LEVEL"] = "3"
    return env


class Dead(Exception):
    pass


class Peer:
    """A worker that speaks JSON."""

    def __init__(self, python, name, threads):
        script, how, self.title = PEERS[name]
        self.name, self.errors = name, tempfile.TemporaryFile()
        env = peer_environment()
        env["OMP_NUM_THREADS"] = str(threads)
        self.p = subprocess.Popen([python, os.path.join(HERE, "peers", script), how, str(threads)], env=env,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.threads = threads

    def ask(self, **request):
        try:
            self.p.stdin.write(json.dumps(request) + "\n")
            self.p.stdin.flush()
            line = self.p.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.errors.seek(0)
            raise Dead("%s ended: %s" % (self.title, self.errors.read().decode()[-400:]))
        return json.loads(line)

    def open(self, case, run, data):
        return self.ask(do="open", case=case, run=run, data=data, threads=self.threads)

    def check(self, n, out):
        return self.ask(do="check", n=n, out=out)

    def run(self, n):
        answer = self.ask(do="run", n=n)
        if "times" not in answer:
            raise Dead("%s: %s" % (self.title, answer.get("error", "no times")))
        return answer["times"]

    def memory(self):
        return self.ask(do="memory")["bytes"]

    def close(self):
        self.p.stdin.close()
        try:
            self.p.wait(20)
        except subprocess.TimeoutExpired:
            self.p.kill()
            self.p.wait()


class Driver:
    """A program that speaks lines: a compiled case, or the measure of the machine's peak."""

    def __init__(self, command, title):
        self.title = title
        env = {k: v for k, v in os.environ.items() if k != "TENON_THREADS"}
        self.p = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        first = self.answer()
        self.before = int(first.split()[1])

    def answer(self):
        line = self.p.stdout.readline()
        if not line:
            raise Dead(self.p.stderr.read().strip()[-400:])
        return line

    def ask(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()
        return self.answer()

    def run(self, n):
        return [float(v) for v in self.ask("run %d" % n).split()]

    def check(self, n, out):
        return {"ok": self.ask("check %d %s" % (n, out)).strip() == "ok"}

    def memory(self):
        return int(self.ask("memory").split()[0]) - self.before

    def close(self):
        self.p.stdin.close()
        self.p.wait()


class Tenon:
    """Compiles cases ahead of time: `tenon -c`, and driver.c around the object."""

    def __init__(self, tenon, build, folder):
        self.tenon, self.build, self.folder = tenon, build, folder
        self.include = os.path.join(HERE, "../../runtime/include")

    def command(self, case_name, case, run):
        names = ["-D%s=%s" % kv for kv in list(run.dims.items()) + list(run.defines.items())]
        folder = os.path.join(self.folder, "%s-%s" % (case_name, "-".join(names).replace("=", "")))
        program = os.path.join(folder, "driver")
        if not os.path.exists(program):
            os.makedirs(folder, exist_ok=True)
            flags = [word for name in names for word in ("-D", name[2:])]
            self.must([self.tenon, "-c", os.path.join(HERE, "cases", case_name + ".tn"), "-target=cpu", *flags, "-o",
                       os.path.join(folder, "case.o")])
            self.must(["cc", "-O2", "-std=c11", "-I", self.include, "-I", folder, "-DMODEL=" + case.MODEL,
                       '-DHEADER="case.h"', os.path.join(HERE, "driver.c"), os.path.join(folder, "case.o"),
                       os.path.join(self.build, "libtenon.a"), "-lm", "-lpthread", "-ldl", "-o", program])
        return program

    @staticmethod
    def must(command):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = [s for s in done.stderr.splitlines() if "error" in s] or done.stderr.splitlines() or ["failed"]
            raise Dead("%s: %s" % (os.path.basename(command[0]), lines[0].strip()))


def open_tenon(tenon, case_name, case, run, data, threads):
    return Driver([tenon.command(case_name, case, run), data, str(threads), run.mode, run.method], "Tenon")


# --- are they the same? -------------------------------------------------------------------------------


def run_results(arrays):
    """Names that are no gradients."""
    return {k for k in arrays if not k.startswith(("grad:", "d_"))}


def differences(run, case, want, got):
    """The names whose values differ, with how far: relative to the largest value of the array. After
    optimiser steps a parameter whose gradient is about 0 may go either way: a few may. Where a relu has a
    million arguments one of them is so near 0 that it goes either way, and its slope is 0 or 1 (`kinks`):
    there the root of the mean square is compared."""
    bad = []
    for name in sorted(set(want) & set(got)):
        a, b = want[name].astype(np.float64), got[name].astype(np.float64)
        if a.shape != b.shape:
            bad.append("%s has shape %s instead of %s" % (name, b.shape, a.shape))
            continue
        if a.size == 0:
            continue
        far = np.abs(a - b)
        if name.startswith("state:") and run.mode in ("step", "update") and run.lr:
            share = np.mean(far > 0.1 * run.lr)
            if not share < 0.01:
                bad.append("%s: %.2g of its elements differ" % (name, share))
            continue
        scale = max(float(np.abs(a).max()), 1e-30)
        if run.kinks and name not in run_results(want):
            off = math.sqrt(np.mean(far * far) / max(np.mean(a * a), 1e-60))
            if not off <= 5e-3:
                bad.append("%s: %.2g of its root mean square" % (name, off))
            continue
        if not far.max() <= run.tolerance * scale:
            bad.append("%s: %.2g of its largest" % (name, far.max() / scale))
    return bad


def agree(case, run, data, results):
    """What is wrong with each contender's results, by its name. Without a check of the case's own the
    first peer (or, alone, Tenon) is what the others are compared with."""
    wrong = {}
    if hasattr(case, "check"):
        return {k: [] if case.check(run, data, r) else ["its results are not what they should be"]
                for k, r in results.items()}
    names = [k for k in results if k != "tenon"]
    want = results[names[0]] if names else results.get("tenon", {})
    for k, r in results.items():
        wrong[k] = differences(run, case, want, r)
        missing = [n for n in want if n not in r and not n.startswith("state:") and k == "tenon"]
        if missing:
            wrong[k].append("lacks " + ", ".join(missing))
        if not set(want) & set(r):
            wrong[k].append("has nothing in common with the others")
        bad = [n for n, v in r.items() if v.dtype.kind == "f" and not np.isfinite(v).all()]
        if bad:
            wrong[k].append("not finite: " + ", ".join(bad))
    return wrong


# --- one case --------------------------------------------------------------------------------------------


def batch_size(contender, seconds):
    """After warming up. What takes long is run once a round."""
    if contender.run(1)[1] > 4 * seconds and contender.run(1)[1] > 2 * seconds:
        return 1
    median = contender.run(3)[0]
    n = max(1, min(20000, int(seconds / max(median, 1e-7))))
    contender.run(n)
    return n


def measure(contenders, rounds, seconds, clock):
    """times[name] is a list, one entry a round."""
    sizes = {k: batch_size(c, seconds) for k, c in contenders.items()}
    times = {k: [] for k in contenders}
    names = list(contenders)
    for r in range(rounds):
        for k in names[r % len(names):] + names[:r % len(names)]:
            times[k].append(contenders[k].run(sizes[k])[clock])
            time.sleep(0.01)  # threads that wait for more to do fall asleep
    return times


def ratios(row, times):
    mine = times["tenon"]
    row["ratios"] = {k: statistics.median(p / m for p, m in zip(t, mine)) for k, t in times.items()
                     if k not in ("tenon", "peak")}
    if row["ratios"]:
        best = min(row["ratios"], key=row["ratios"].get)
        row["best"], row["ratio"] = best, row["ratios"][best]


class Bench:
    def __init__(self, o):
        self.o = o
        self.work = tempfile.mkdtemp(prefix="tenon-bench-")
        self.tenon = Tenon(os.path.join(o.build, "tenon"), o.build, os.path.join(self.work, "objects"))
        self.python = peer_python(o)
        self.peers = [p for p in PEERS if p not in o.without.split(",") and
                      self.python and has_module(self.python, MODULE[p])]
        self.rows = []

    def peer(self, name, threads):
        return Peer(self.python, name, threads)

    def case(self, case_name, case, index, threads, data_path, data):
        """One case at one number of threads; a row of the table."""
        run = case.RUNS[index]
        row = {"case": run.name, "group": run.group, "mode": run.mode, "threads": threads, "tenon": None,
               "seconds": {}, "notes": []}
        contenders, results, started = {}, {}, []
        try:
            for k in ["tenon"] + self.peers + (["peak"] if run.flops else []):
                self.start(k, case_name, case, index, threads, data_path, contenders, row, started)
            for k, c in list(contenders.items()):
                if k != "peak":
                    self.collect(k, c, run, contenders, results, row)
            for k, bad in agree(case, run, data, results).items():
                if bad:
                    row["notes"].append("%s DIFFERS: %s" % (k, "; ".join(bad[:3])))
                    row.setdefault("differs", []).append(k)
                    contenders.pop(k, None)
            if "tenon" in contenders:
                times = measure(contenders, self.o.rounds, self.o.seconds, 2 if self.o.clock == "cpu" else 0)
                row["seconds"] = {k: statistics.median(t) for k, t in times.items()}
                row["rounds"] = times
                ratios(row, times)
                if run.flops:
                    row["gflops"] = {k: run.flops / v / 1e9 for k, v in row["seconds"].items() if k != "peak"}
                    row["peak_gflops"] = PEAK_FLOPS * threads / row["seconds"]["peak"] / 1e9
        except Dead as e:
            row["notes"].append(str(e))
        finally:
            for c in started:
                c.close()
        return row

    def start(self, k, case_name, case, index, threads, data_path, contenders, row, started):
        run = case.RUNS[index]
        try:
            if k == "tenon":
                contenders[k] = open_tenon(self.tenon, case_name, case, run, data_path, threads)
                started.append(contenders[k])
                return
            if k == "peak":
                contenders[k] = Driver([peak_program(self.work), str(threads)], "peak")
                started.append(contenders[k])
                return
            c = self.peer(k, threads)
            started.append(c)
            answer = c.open(case_name, index, data_path)
            if answer.get("ok"):
                contenders[k] = c
            elif "error" in answer:
                row["notes"].append("%s: %s" % (k, answer["error"].splitlines()[0]))
        except Dead as e:
            what = "Tenon does not compile or run it: %s" % e if k == "tenon" else "%s: %s" % (k, e)
            row["notes"].append(what)

    def collect(self, k, c, run, contenders, results, row):
        path = os.path.join(self.work, "results")
        answer = c.check(run.checks, path)
        if answer.get("ok"):
            results[k] = common.read_arrays(path)
            return
        row["notes"].append("%s: %s" % (k, answer.get("error", "no results").splitlines()[0]))
        contenders.pop(k)

    def memory(self, case_name, case, index, data_path):
        """Peak resident memory above what was there before the model, in fresh processes."""
        run, row = case.RUNS[index], {"case": case.RUNS[index].name, "bytes": {}}
        for k in ["tenon"] + [p for p in self.peers if p in ("torch", "compile")]:
            try:
                c = open_tenon(self.tenon, case_name, case, run, data_path, 2) if k == "tenon" else self.peer(k, 2)
                if k == "tenon" or c.open(case_name, index, data_path).get("ok"):
                    c.run(5)
                    row["bytes"][k] = c.memory()
                c.close()
            except Dead:
                pass
        if "tenon" in row["bytes"] and "torch" in row["bytes"]:
            row["ratio"] = row["bytes"]["tenon"] / row["bytes"]["torch"]
        return row


PEAK_FLOPS = 2.0 * 24 * 16 * 200000  # of one thread in one iteration of peak.c


def peak_program(folder):
    program = os.path.join(folder, "peak")
    if not os.path.exists(program):
        Tenon.must(["cc", "-O2", "-std=gnu11", "-march=native", os.path.join(HERE, "peak.c"), "-lpthread", "-o",
                    program])
    return program


# --- the table ---------------------------------------------------------------------------------------------


def milliseconds(s):
    return "%.3f" % (1e3 * s) if s < 1e-1 else "%.1f" % (1e3 * s)


def print_head(peers):
    print("%-36s %3s %10s %s %6s  %s" % ("case", "thr", "tenon ms", " ".join("%10s" % p for p in peers), "ratio",
                                        "best"), flush=True)


def print_row(row, peers):
    cells = [milliseconds(row["seconds"][p]) if p in row["seconds"] else "-" for p in peers]
    mine = milliseconds(row["seconds"]["tenon"]) if "tenon" in row["seconds"] else "-"
    print("%-36s %3d %10s %s %6s  %s" % (row["case"], row["threads"], mine, " ".join("%10s" % c for c in cells),
                                        "%.2f" % row["ratio"] if "ratio" in row else "-", row.get("best", "")))
    if "gflops" in row:
        peak = row["peak_gflops"]
        print("    GFLOP/s: %s   (peak %.0f)" % ("  ".join("%s %.0f (%.0f%%)" % (k, v, 100 * v / peak)
                                                        for k, v in row["gflops"].items()), peak))
    for note in row["notes"]:
        print("    " + note)
    sys.stdout.flush()


def geomean(values):
    return math.exp(sum(math.log(v) for v in values) / len(values)) if values else None


def summary(rows):
    out = []
    for threads in sorted({r["threads"] for r in rows}):
        for group in ("core", "contraction", "models"):
            mine = [r for r in rows if r["threads"] == threads and "ratio" in r and r["group"] == group]
            if mine:
                least = min(mine, key=lambda r: r["ratio"])
                out.append({"threads": threads, "group": group, "cases": len(mine), "least": least["ratio"],
                            "least_case": least["case"], "geomean": geomean([r["ratio"] for r in mine])})
        mine = [r["ratio"] for r in rows if r["threads"] == threads and "ratio" in r]
        if mine:
            out.append({"threads": threads, "group": "all", "cases": len(mine), "geomean": geomean(mine),
                        "least": min(mine), "least_case": ""})
    return out


def peer_python(o):
    """The virtual environment that --peers made, else whatever python3 has them."""
    for python in (o.python, os.path.join(o.root, "build/peers/bin/python"), "/usr/bin/python3", sys.executable):
        if python and os.path.exists(python) and any(has_module(python, m) for m in ("torch", "jax", "onnxruntime")):
            return python
    return None


def has_module(python, module):
    return subprocess.run([python, "-c", "import importlib.util, sys; sys.exit(not importlib.util.find_spec(%r))"
                           % module], stderr=subprocess.DEVNULL).returncode == 0


def arguments():
    p = argparse.ArgumentParser(prog="./dev bench", description="Speed on the CPU: Tenon beside its peers.")
    p.add_argument("words", nargs="*", metavar="WORD", help="only cases with one of these in their name")
    p.add_argument("--peers", action="store_true", help="install PyTorch, JAX and ONNX Runtime into build/peers first")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--threads", default="1,2", help="1, 2 or 1,2 (default)")
    p.add_argument("--seconds", type=float, default=0.15, help="length of a batch of iterations (default 0.15)")
    p.add_argument("--clock", choices=("wall", "cpu"), default="wall",
                   help="cpu: processor time, of use with one thread on a machine that does other things, too")
    p.add_argument("--without", default="", metavar="PEER,...", help="leave out: torch, compile, jax, onnx")
    p.add_argument("--no-compiling", action="store_true", help="without the times of the compiler itself")
    p.add_argument("-o", "--output", metavar="FILE", help="the JSON (default build/bench/results.json)")
    p.add_argument("--list", action="store_true")
    p.add_argument("--build", default="build", help=argparse.SUPPRESS)
    p.add_argument("--python", help=argparse.SUPPRESS)
    o = p.parse_args()
    o.root = os.path.abspath(os.path.join(HERE, "../.."))
    o.build = os.path.abspath(o.build)
    return o


def chosen(o):
    for name in common.case_names():
        case = common.load_case(name)
        for i, run in enumerate(case.RUNS):
            if not o.words or any(w in run.name or w == name for w in o.words):
                yield name, case, i


def run_all(o):
    b = Bench(o)
    rows, memory = [], []
    print("peers: %s" % (", ".join(PEERS[p][2] for p in b.peers) or "none (./dev bench --peers installs them)"))
    print("Tenon: objects of tenon -c with driver.c; each round asks everybody in turn; ratio: best peer / Tenon")
    print_head(b.peers)
    try:
        for name, case, i in chosen(o):
            data = case.data(case.RUNS[i], np.random.default_rng(1))
            path = os.path.join(b.work, "data")
            common.write_arrays(path, data)
            for threads in [int(t) for t in o.threads.split(",")]:
                rows.append(b.case(name, case, i, threads, path, data))
                print_row(rows[-1], b.peers)
            if case.RUNS[i].memory:
                memory.append(b.memory(name, case, i, path))
    finally:
        shutil.rmtree(b.work)
    return {"peers": {p: PEERS[p][2] for p in b.peers}, "rows": rows, "summary": summary(rows), "memory": memory,
            "clock": o.clock, "rounds": o.rounds}


def print_end(result):
    for s in result["summary"]:
        print("%d thread%s, %s: geometric mean %.2f of %d; least %.2f %s" % (
            s["threads"], "s" if s["threads"] > 1 else "", s["group"], s["geomean"], s["cases"], s["least"],
            s["least_case"]))
    for m in result["memory"]:
        print("peak memory, %s: %s%s" % (m["case"], ", ".join("%s %.1f MB" % (k, v / 1e6) for k, v in m["bytes"].items()),
                                        "; %.2f of PyTorch's" % m["ratio"] if "ratio" in m else ""))
    for c in result.get("compiling", []):
        print("compiling, %s: %.3g %s" % (c["what"], c["value"], c["unit"]))


def main():
    o = arguments()
    if o.list:
        for name, case, i in chosen(o):
            print("%-14s %s" % (name, case.RUNS[i].name))
        return 0
    result = run_all(o)
    if not o.no_compiling and (not o.words or "compiling" in o.words):
        result["compiling"] = compiling.measure(os.path.join(o.build, "tenon"))
    print_end(result)
    path = o.output or os.path.join(o.build, "bench/results.json")
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as f:
        json.dump(result, f, indent=1)
    with open(os.path.splitext(path)[0] + ".html", "w") as f:
        f.write(page.page(result))
    print("written: %s and .html" % os.path.relpath(path))
    differing = [r["case"] for r in result["rows"] if "tenon" in r.get("differs", [])]
    if differing:
        print("Tenon's results differ from its peers': %s" % ", ".join(differing), file=sys.stderr)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
