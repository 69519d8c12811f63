"""How long the compiler itself takes: a stack of feed-forward layers, training step, from text to CUDA C,
12 layers and 24 in turn; then NVRTC, with an empty cache and again. Whole processes are timed.
SPDX-License-Identifier: MIT"""
import os
import shutil
import statistics
import subprocess
import tempfile
import time

STACK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cases/stack.tn")


def seconds(command, env=None):
    begin = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    took = time.perf_counter() - begin
    return took if done.returncode == 0 else None, done.stderr


def to_text(tenon, folder, layers):
    return [tenon, "-S", STACK, "-target=cuda", "-D", "depth=%d" % layers, "-o", folder + "/"]


def measure(tenon, rounds=11):
    folder, out = tempfile.mkdtemp(prefix="tenon-bench-"), []
    try:
        times = {12: [], 24: []}
        for _ in range(rounds):
            for layers in times:
                took, why = seconds(to_text(tenon, folder, layers))
                if took is None:
                    return [{"what": "failed: " + why.strip()[:200], "value": 0, "unit": ""}]
                times[layers].append(took)
        twelve, twice = statistics.median(times[12]), [b / a for a, b in zip(times[12], times[24])]
        out += [{"what": "12 layers, text to CUDA C", "value": 1e3 * twelve, "unit": "ms"},
                {"what": "12 layers, the fastest run", "value": 1e3 * min(times[12]), "unit": "ms"},
                {"what": "24 layers, text to CUDA C", "value": 1e3 * statistics.median(times[24]), "unit": "ms"},
                {"what": "24 layers by 12", "value": statistics.median(twice), "unit": "x"}]
        out += device_code(tenon, folder)
    finally:
        shutil.rmtree(folder)
    return out


def device_code(tenon, folder):
    """NVRTC for one architecture, where it is found; nothing where it is not."""
    env = dict(os.environ, TENON_CACHE=os.path.join(folder, "cache"))
    os.makedirs(env["TENON_CACHE"])
    command = [tenon, "-c", STACK, "-target=cuda", "-arch=sm_80", "-o", os.path.join(folder, "stack.o")]
    cold, why = seconds(command, env)
    if cold is None:
        return [{"what": "NVRTC: " + (why.strip().splitlines() or ["failed"])[0], "value": 0, "unit": ""}]
    warm = min(seconds(command, env)[0] for _ in range(3))
    return [{"what": "to an object with NVRTC, empty cache", "value": cold, "unit": "s"},
            {"what": "the same again", "value": warm, "unit": "s"}]
