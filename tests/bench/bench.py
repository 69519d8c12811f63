"""Side by side on the CPU: Tenon and what is installed of its peers, interleaved, medians, ratios.
Usage: bench.py TENON_BINARY SOURCE_ROOT [-o results.json]. Peers are optional: without PyTorch
(python3-torch) only Tenon's own figures are printed."""
import json, os, re, statistics, subprocess, sys

tenon, root = sys.argv[1], sys.argv[2]
out = sys.argv[sys.argv.index("-o") + 1] if "-o" in sys.argv else None
ROUNDS, EPOCHS, BATCH = 5, 12, 64
data = os.path.join(root, "models/data/digits.npz")


def python_with_torch():
    for python in ("/usr/bin/python3", sys.executable):
        if subprocess.run([python, "-c", "import torch, numpy"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


def epoch_seconds(command, env=None):
    """Median seconds of the epochs after the first two, which pay for warming up."""
    run = subprocess.run(command, capture_output=True, text=True, env=env)
    if run.returncode:
        sys.exit("%s failed:\n%s" % (command[0], run.stderr))
    times = [float(m.group(1)) for m in re.finditer(r"^epoch .* ([0-9.]+) s$", run.stdout, re.M)]
    return statistics.median(times[2:])


torch = python_with_torch()
results = []
for threads in (1, 2):
    mine, peer = [], []
    for _ in range(ROUNDS):
        mine.append(epoch_seconds([tenon, "-train", os.path.join(root, "models/digits.tn"), data,
                                   "-epochs", str(EPOCHS), "-batch", str(BATCH), "-threads",
                                   str(threads)]))
        if torch:
            peer.append(epoch_seconds([torch, os.path.join(root, "tests/bench/digits_torch.py"),
                                       data, str(EPOCHS), str(BATCH), str(threads)]))
    row = {"case": "digits training, an epoch", "threads": threads,
           "tenon_ms": 1e3 * statistics.median(mine)}
    if torch:
        row["torch_eager_ms"] = 1e3 * statistics.median(peer)
        row["ratio"] = row["torch_eager_ms"] / row["tenon_ms"]
    results.append(row)

print("%-30s %7s %12s %14s %8s" % ("case", "threads", "tenon ms", "torch eager ms", "ratio"))
for r in results:
    print("%-30s %7d %12.2f %14s %8s" % (r["case"], r["threads"], r["tenon_ms"],
          "%.2f" % r["torch_eager_ms"] if torch else "-", "%.2f" % r["ratio"] if torch else "-"))
if not torch:
    print("PyTorch is not installed (python3-torch): no peer to compare with")
if out:
    with open(out, "w") as f:
        json.dump(results, f, indent=1)
