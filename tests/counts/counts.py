#!/usr/bin/python3
# counts.py TENON CASES: kernels of each method on a GPU, the bytes that they move beside the least possible, and
# what a step allocates, as -report=json says. SPDX-License-Identifier: MIT
import json
import os
import subprocess
import sys
import tempfile

tenon, cases = sys.argv[1], sys.argv[2]
# the leak checker of a build with sanitizers stumbles over NVRTC's threads, which end beside it
quiet = dict(os.environ, ASAN_OPTIONS=":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), "detect_leaks=0"])))
here = os.path.dirname(os.path.abspath(__file__))
wrong = []


def report(name, *options):
    path = os.path.join(here if os.path.exists(os.path.join(here, name)) else cases, name)
    run = subprocess.run([tenon, "-report=json", "-target=cuda", path, *options], capture_output=True, text=True,
                         env=quiet)
    if run.returncode:
        sys.exit("counts.py: %s %s: %s" % (name, " ".join(options), run.stderr))
    return {m["name"]: m for m in json.loads(run.stdout)["methods"]}


def expect(what, got, right):
    if not right:
        wrong.append("%s: %s" % (what, got))


def classes(method):
    counts = {}
    for k in method["kernels"]:
        counts[k["class"]] = counts.get(k["class"], 0) + k["calls"]
    return counts


def is_made_of(name, method, **kernels):
    """Exactly these launches; map and row kernels move what they must, and spill nothing."""
    expect("%s, %s is made of" % (name, method["name"]), classes(method), classes(method) == kernels)
    for k in method["kernels"]:
        what = "%s, %s" % (name, k["name"])
        moved = k["bytes_read"] + k["bytes_written"]
        if k["class"] in ("map", "row"):
            expect(what + " moves", (moved, k["bytes_least"]), moved <= 1.05 * k["bytes_least"])
        expect(what + " spills", k.get("spill_bytes"), not k.get("spill_bytes"))


m = report("softmax.tn", "-D", "D=1024", "N=4096")
is_made_of("softmax", m["forward"], row=1)
expect("softmax moves", m["forward"]["bytes_moved"], m["forward"]["bytes_moved"] == 2 * 4 * 4096 * 1024)
is_made_of("softmax", m["forward_backward"], row=1)

# Rows that do not fit registers are read twice: maximum and sum of exponentials in one pass.
m = report("softmax.tn", "-D", "D=50257", "N=1024")
for m in m["forward"], m["forward_train"], m["forward_backward"]:
    row, reads = 4 * 1024 * 50257, 4 if m["name"] == "forward_backward" else 2
    expect("softmax of long rows is made of", classes(m), classes(m) == {"row": 1})
    expect("softmax of long rows moves", m["bytes_moved"], m["bytes_moved"] <= 1.001 * (reads + 1) * row)

m = report("layernorm.tn", "N=4096")
is_made_of("layernorm", m["forward"], row=1)
is_made_of("layernorm", m["forward_backward"], row=1)

m = report("gelu.tn", "N=16777216")
is_made_of("gelu", m["forward"], map=1)
is_made_of("gelu", m["forward_backward"], map=1)

m = report("chain.tn", "N=4096")
is_made_of("chain", m["forward_train"], scalar=1, map=1)
is_made_of("chain", m["forward_backward"], row=1)

m = report("crossentropy.tn", "-D", "C=50257", "N=1024")
is_made_of("crossentropy", m["forward"], row=1, reduce=1)
is_made_of("crossentropy", m["forward_backward"], map=1)

m = report("crossentropy_step.tn", "N=1024")["loss_step"]
logits = 4 * 1024 * 50257
row = [k for k in m["kernels"] if k["class"] == "row"]
expect("cross-entropy of a step is", classes(m), classes(m) == {"row": 1, "reduce": 2, "scalar": 1, "map": 1})
expect("its rows move", row, row[0]["bytes_read"] <= 2.01 * logits and row[0]["bytes_written"] <= 1.01 * logits)
expect("its peak is", m["peak_bytes"], m["peak_bytes"] < 1.15 * logits)

m = report("lltm.tn", "B=16")
is_made_of("lltm", m["forward"], map=1)
expect("lltm has products", m["forward"]["library_calls"], m["forward"]["library_calls"] <= 2)
is_made_of("lltm", m["forward_backward"], map=1)

m = report("adamw.tn")["loss_update"]
is_made_of("adamw", m, reduce=1, scalar=1, map=1)

m = report("batchnorm.tn", "B=8", "H=56", "W=56")
is_made_of("batchnorm", m["forward_train"], reduce=1, map=1, scalar=1)
is_made_of("batchnorm", m["forward_backward"], reduce=1, map=1)

# Convolution, batch norm, ReLU: what a user's eval mode runs is one kernel. Training: convolution, statistics, output; sums
# of the gradient, the gradient before the norm, convolutions for x and for the weight. The last block joins the parts of a
# sum, and the shares of the gradient of the weight (few results, long sums); a second map adds it to the segment.
m = report("conv_norm.tn", "B=8")
is_made_of("conv_norm", m["forward"], contract=1)
is_made_of("conv_norm", m["forward_train"], contract=1, reduce=1, map=1, scalar=1)
is_made_of("conv_norm", m["forward_backward"], contract=2, reduce=1, map=2)
m = m["loss_step"]
is_made_of("conv_norm", m, contract=2, reduce=3, map=2, scalar=1)  # statistics, loss, backward
activation = 4 * 8 * 64 * 56 * 56
expect("conv_norm moves", m["bytes_moved"], m["bytes_moved"] <= 13 * activation)
expect("conv_norm's temporaries are", m["peak_bytes"], m["peak_bytes"] <= 1.4 * activation)  # no windows
for k in m["kernels"]:
    if k["class"] in ("reduce", "contract"):
        expect("conv_norm, %s reads" % k["name"], k["bytes_read"], k["bytes_read"] <= 2.01 * activation)

# A block of a transformer. Tiles take along what follows them, as the design has it: 7 kernels forward. With the library 4
# products stay alone: LayerNorm twice, attention, GELU, the sum at the end; the bias of q, k, v is part of the product
# (cuBLASLt), of a projection part of the next LayerNorm's row.
m = report("transformer.tn", "B=4", "T=256", "-fno-cublas")
is_made_of("transformer", m["forward"], row=2, opaque=1, contract=4)
is_made_of("transformer", m["forward_train"], row=2, opaque=1, contract=4)
is_made_of("transformer", m["forward_backward"], row=2, opaque=1, contract=8)  # sums for biases and GELU's derivative as well
m = report("transformer.tn", "B=4", "T=256")
is_made_of("transformer", m["forward"], row=2, opaque=1, map=2)
expect("transformer's products", m["forward"]["library_calls"], m["forward"]["library_calls"] == 4)
# Backward, 12: 8 products (with the sums for biases), GELU's derivative, two rows with side sums, attention's gradient, whose
# blocks have keys or rows; its results lie where the gradient of q, k, v does.
m = m["forward_backward"]
is_made_of("transformer", m, map=1, row=2, opaque=1)
expect("transformer's backward products", m["library_calls"], m["library_calls"] == 8)

# Per layer of a GPT's step: the same, 18 calls, with the library 20; kernels do not grow in number with depth.
def gpt(n, *options):
    m = report("gpt.tn", "-D", "depth=%d" % n, "B=16", "T=128", *options)["loss_step"]
    return m["launches"] + m["library_calls"], {k["name"] for k in m["kernels"]}

few, many = gpt(3, "-fno-cublas"), gpt(5, "-fno-cublas")
expect("calls for a layer of a GPT without a library", (few[0], many[0]), many[0] - few[0] <= 2 * 18)
expect("distinct kernels of that", (len(few[1]), len(many[1])), len(few[1]) == len(many[1]))
few, many = gpt(3), gpt(5)
expect("calls for a layer of a GPT", (few[0], many[0]), many[0] - few[0] <= 2 * 20)
expect("distinct kernels of a GPT", (len(few[1]), len(many[1])), len(few[1]) == len(many[1]) <= 29)

# Attention that is written out: the kernels of attention, one a layer, and one for gradients; nothing kept or passed on has as
# many elements as scores have, so that twice the length needs twice the memory.
def written(length, *options):
    return report("written.tn", "B=4", "T=%d" % length, *options)

short, long, plain = written(512), written(1024), written(512, "-fno-outline")
for name, calls in (("loss", 2), ("loss_train", 2), ("loss_backward", 2), ("loss_step", 4)):
    attention = sum(k["calls"] for k in short[name]["kernels"] if "attention" in k["name"])
    expect("%s of attention that is written out: kernels of attention" % name, attention, attention == calls)
    for m in "saved_bytes", "peak_bytes":
        expect("%s of attention that is written out: %s" % (name, m), (short[name][m], long[name][m]),
               long[name][m] <= 2.01 * short[name][m])
expect("attention that is left as it is written keeps scores", plain["loss_train"]["saved_bytes"],
       plain["loss_train"]["saved_bytes"] > 2 * short["loss_train"]["saved_bytes"])

# A model's text is cut into pieces of 512: hint sizes at which there is one, or each layer is made again in later ones.
def printed(path, *options):
    with tempfile.TemporaryDirectory() as to:
        subprocess.run([tenon, "-target=cuda", "-S", path, *options, "-o", to + "/"], check=True)
        return sum(open(os.path.join(to, f)).read().count("__global__") for f in os.listdir(to) if f.endswith(".cu"))

bert = [printed(os.path.join(here, "../../models/bert.tn"), "-m", "bert", "-D", "depth=%d" % n) for n in (2, 6)]
expect("distinct kernels of all of BERT's methods", bert, bert[0] == bert[1] <= 165)

# What is of one layer in a cache of all layers lies elsewhere, and is no kernel of its own.
steps = [{k["name"] for k in report("../../models/gpt2.tn", "-m", "gpt2", "-D", "depth=%d" % n, "B=1", "S=32")["step"]["kernels"]}
         for n in (3, 6)]
expect("distinct kernels of GPT-2's generation step", [len(s) for s in steps], len(steps[0]) == len(steps[1]))

depth = [{k["name"] for k in report("stack.tn", "-D", "D=768", "-D", "depth=%d" % n, "B=4", "T=256")["loss_step"]["kernels"]}
         for n in (3, 6)]
expect("distinct kernels grow with depth", [len(d) for d in depth], len(depth[0]) == len(depth[1]))

print("\n".join(wrong))
sys.exit(1 if wrong else 0)
