"""What the harness and its workers share: the file of arrays, the cases, the protocol.
SPDX-License-Identifier: MIT

A file of arrays is, for each: a line "NAME KIND BITS RANK SIZES...", then the bytes. driver.c reads
the same. A worker is a process that answers one line of JSON with one line of JSON."""
import importlib.util
import json
import os
import sys
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
KINDS = {"f": "f", "i": "i", "u": "u", "b": "b"}


def write_arrays(path, arrays):
    with open(path, "wb") as f:
        for name, a in arrays.items():
            a = np.ascontiguousarray(a).reshape(np.shape(a))
            sizes = "".join(" %d" % n for n in a.shape)
            f.write(("%s %s %d %d%s\n" % (name, KINDS[a.dtype.kind], 8 * a.itemsize, a.ndim,
                                          sizes)).encode())
            f.write(a.tobytes())


def read_arrays(path):
    out = {}
    with open(path, "rb") as f:
        while True:
            line = f.readline().split()
            if not line:
                return out
            kind, bits, rank = line[1].decode(), int(line[2]), int(line[3])
            shape = [int(n) for n in line[4:4 + rank]]
            dtype = np.dtype("?" if kind == "b" else "%s%d" % (kind, bits // 8))
            count = int(np.prod(shape, dtype=np.int64))
            a = np.empty(shape, dtype)  # numpy's memory: on huge pages where it is large
            a.reshape(-1)[:] = np.frombuffer(f.read(count * dtype.itemsize), dtype)
            out[name_of(line)] = a


def name_of(line):
    return line[0].decode()


class Run:
    """One way to run a case: `mode` is forward, backward (forward and backward), step (forward,
    backward, update of the parameters) or update (that alone). The rest is for the case itself."""

    def __init__(self, name, mode, method="forward", dims=None, defines=None, checks=None, tolerance=1e-4,
                 flops=0, training=False, lr=None, memory=False, group="core", kinks=False, **params):
        self.name, self.mode, self.method = name, mode, method
        self.dims, self.defines = dims or {}, defines or {}
        self.checks = checks or (3 if mode in ("step", "update") else 1)
        self.tolerance, self.flops, self.lr, self.memory = tolerance, flops, lr, memory
        self.group, self.training, self.kinks = group, training, kinks
        self.__dict__.update(params)


def load_case(name):
    path = os.path.join(HERE, "cases", name + ".py")
    spec = importlib.util.spec_from_file_location("case_" + name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def case_names():
    return [f[:-3] for f in sorted(os.listdir(os.path.join(HERE, "cases"))) if f.endswith(".py")]


def split(arrays):
    """Arguments, state and cotangents of a case's data (given gradients are looked up by those who
    want them)."""
    state = {k[6:]: v for k, v in arrays.items() if k.startswith("state:")}
    cotangents = {k[2:]: v for k, v in arrays.items() if k.startswith("d_")}
    args = {k: v for k, v in arrays.items() if not k.startswith(("state:", "d_", "grad:"))}
    return args, state, cotangents


def resident(peak=False):
    key = "VmHWM:" if peak else "VmRSS:"
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(key):
                return int(line.split()[1]) * 1024
    return 0


def reset_peak():
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")


class Timer:
    """Times n iterations: [median, least, mean of processor time] of one, in seconds."""

    @staticmethod
    def run(iteration, n):
        times, clock = [0.0] * n, time.perf_counter
        cpu = time.process_time()
        for i in range(n):
            begin = clock()
            iteration()
            times[i] = clock() - begin
        cpu = (time.process_time() - cpu) / n
        times.sort()
        return [(times[n // 2] + times[(n - 1) // 2]) / 2, times[0], cpu]


def serve(make):
    """Works off requests. make(case, run, arrays, threads) gives an object with iterate(),
    reset() and results(); it raises Skip where this peer cannot do the case."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    work = None
    for line in sys.stdin:
        ask = json.loads(line)
        try:
            answer = {"ok": True}
            if ask["do"] == "open":
                work = None
                case = load_case(ask["case"])
                arrays = read_arrays(ask["data"])
                reset_peak()
                before = resident()
                work = make(case, case.RUNS[ask["run"]], arrays, ask["threads"])
            elif ask["do"] == "check":
                work.reset()
                for _ in range(ask["n"]):
                    work.iterate()
                write_arrays(ask["out"], work.results())
            elif ask["do"] == "run":
                answer["times"] = Timer.run(work.iterate, ask["n"])
            elif ask["do"] == "memory":
                answer["bytes"] = resident(peak=True) - before
        except Skip as e:
            answer = {"skip": str(e)}
        except Exception as e:  # a peer that fails is reported, the others go on
            answer = {"error": "%s: %s" % (type(e).__name__, str(e).strip()[:600])}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


class Skip(Exception):
    pass
