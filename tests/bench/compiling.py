"""How long the compiler itself takes: a stack of feed-forward layers, training step, from text to CUDA C,
12 layers and 24 in turn, whole processes, and GPT-2's step; then NVRTC, with an empty cache and again, on the
virtual GPU, for which the code is made as for any other. SPDX-License-Identifier: MIT"""
import os
import re
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

STACK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases/stack.tn")
GPT2 = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../models/gpt2.tn")


def used():
    r = resource.getrusage(resource.RUSAGE_CHILDREN)
    return r.ru_utime + r.ru_stime


def seconds(command):
    """Elapsed and of the processor."""
    cpu, begin = used(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    took = time.perf_counter() - begin
    return (took, used() - cpu) if done.returncode == 0 else (None, done.stderr)


def figure(what, value, unit):
    return {"what": what, "value": value, "unit": unit}


TEXTS = {
    "12 layers": [STACK, "-D", "depth=12"],
    "24 layers": [STACK, "-D", "depth=24"],
    "GPT-2's training step": [GPT2, "-m", "gpt2", "-only=loss.step"],  # 124M parameters
}


def measure(tenon, rounds=11):
    folder = tempfile.mkdtemp(prefix="tenon-bench-")
    try:
        times = {what: [] for what in TEXTS}
        for _ in range(rounds):
            for what, text in TEXTS.items():
                took, cpu = seconds([tenon, "-S", *text, "-target=cuda", "-o", folder + "/"])
                if took is None:
                    return [figure("%s: failed: %s" % (what, cpu.strip()[:200]), 0, "")]
                times[what].append((took, cpu))
        out = []
        for what, t in times.items():
            wall, cpu = ([x[i] for x in t] for i in (0, 1))
            out.append(figure(what + ", text to CUDA C", 1e3 * statistics.median(wall),
                              "ms; least %.1f, of the processor %.1f" % (1e3 * min(wall), 1e3 * statistics.median(cpu))))
        twice = [b[1] / max(a[1], 1e-6) for a, b in zip(times["12 layers"], times["24 layers"])]
        out.append(figure("24 layers by 12, of the processor", statistics.median(twice), "x"))
        return out + device_code(tenon, folder)
    finally:
        shutil.rmtree(folder)


def device_code(tenon, folder):
    gpu = os.path.join(os.path.dirname(tenon), "tests/vgpu")
    if not os.path.exists(os.path.join(gpu, "libcuda.so.1")):
        return [figure("NVRTC: not measured, no virtual GPU was built", 0, "")]
    env = dict(os.environ, TENON_CACHE=os.path.join(folder, "cache"), LD_LIBRARY_PATH=gpu)
    os.makedirs(env["TENON_CACHE"])
    command = [tenon, "-run", STACK, "loss", "x=ones", "y=zeros", "B=1", "T=1", "-D", "D=8", "-device=cuda", "-bench"]
    out = []
    for what in ("NVRTC, empty cache", "the same again"):
        done = subprocess.run(command, capture_output=True, text=True, env=env)
        line = re.search(r"^(?:compile and load|load from the cache) +([0-9.]+)", done.stdout, re.M)
        if not line:
            return out + [figure("NVRTC: " + (done.stderr.strip().splitlines() or ["failed"])[0], 0, "")]
        out.append(figure("12 layers, " + what, float(line.group(1)) / 1e3, "s"))
    return out
