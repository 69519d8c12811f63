#!/usr/bin/python3
# python.py: the module of -python: calls, defaults, gradients, training, state in files, mistakes. With a
# Python that has numpy; exits with 77 (skipped) where there is none.
#   python.py TENON LIBTENON.SO
# SPDX-License-Identifier: MIT
import os
import shutil
import subprocess
import sys
import tempfile

TEXT = """
import nn
import optim

module Net(width = 3) {
    lin = nn.Linear(4, width)
    spare = nn.Linear(4, 2)
    buffer calls: i64[] = 0
    buffer kept: bf16[2] = zeros as none
    fn forward(x: [B, 4], bias: [width] = zeros) -> (y: [B, width], total: []) {
        y = lin(x) + bias
        total = y.sum()
    }
    fn loss(x: [B, 4], target: [B, width]) -> (loss: []) { return mse_loss(lin(x), target) }
    fn spared(x: [B, 4]) -> (y: [B, 2]) { return functional_call(spare, averages(spare), x) }
    fn pre_train(x: [B]) -> (y: [B]) { return x + kept.to(f32).sum() }
    fn look_backward(x: [B]) -> (y: [B]) { return 3 * x }
    fn halves(x: f16[B]) -> (y: bf16[B], n: i64[]) { return x.to(bf16), x.numel }
    fn count(x: i64[B], seen: i64[B]) -> (seen) {
        seen = seen + x
        calls = calls + 1
    }
    fn load(x: [B]) -> (y: [B]) { return 2 * x }
    fn pick(x: [B], i: i64[N]) -> (y: [N]) { return x[i] }
}
model net = Net()
train net.loss with optim.SGD(lr = 0.1) { average = optim.ema() }
"""

PROGRAM = """
import gc, json, os, struct, subprocess, sys, weakref
import numpy as np
sys.path.insert(0, sys.argv[1])
import net

passed = failed = 0
def check(good, what):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print("wrong:", what)
def raises(kind, words, f, *args, **named):
    try:
        f(*args, **named)
    except kind as e:
        check(words in str(e), f"{words!r} is not in {e}")
        return
    check(False, "no " + words)

m = net.Model(seed=1, device="cpu")
state = m.state()
w, b = state["lin.weight"], state["lin.bias"]
x = np.arange(8, dtype=np.float32).reshape(2, 4) / 8
out = m.forward(x)
check(np.allclose(out.y, x @ w.T + b, atol=1e-6) and out.total.shape == (), "forward")
y, total = m.forward(x, bias=np.ones(3, np.float32))
check(np.allclose(y, out.y + 1, atol=1e-6), "an argument with a default")
check(np.allclose(m.forward(x.T.copy().T).y, out.y), "columns first")
check(m.forward(np.zeros((0, 4), np.float32)).y.shape == (0, 3), "no rows")
(y, _), tape = m.forward_train(x)
d = m.forward_backward(tape, np.ones_like(y), np.zeros((), np.float32))
dx = d if isinstance(d, np.ndarray) else d.d_x
check(np.allclose(dx, np.ones_like(y) @ w, atol=1e-6), "the gradient of x")
check(np.allclose(m.gradients()["lin.weight"], np.ones_like(y).T @ x, atol=1e-6), "that of the weight")
m.zero_grad()
check(not m.gradients()["lin.weight"].any(), "zero_grad")
raises(net.Error, "once", m.forward_backward, tape, np.ones_like(y), 0)
_, tape = m.forward_train(x)
raises(TypeError, "'d_z' is unknown", m.forward_backward, tape, d_z=0)
check(np.allclose(m.forward_backward(tape, np.ones_like(y), 0)[0], dx), "a tape outlives a mistake")
target = np.zeros((2, 3), np.float32)
m.set_state({"spare.weight": np.full((2, 4), 7, np.float32), "spare.bias": np.zeros(2, np.float32)})
first = float(m.loss_step(x, target))
for _ in range(20):
    last = float(m.loss_step(x, target))
check(last < 0.5 * first and m.numbers()["loss.t"] == 21, f"training: {first} {last}")
check(np.allclose(m.spared(x), 7 * x.sum(1, keepdims=True)), "the average of what the loss does not reach")
m.set_number("loss.lr", 0.0)
check(float(m.loss_step(x, target)) == float(m.loss_step(x, target)), "no learning rate")
h = np.array([0.5, -2.0], np.float16)
bits, n = m.halves(h)
check(bits.dtype == np.uint16 and list(bits) == [0x3F00, 0xC000] and n == 2, "halves")
seen = np.zeros(3, np.int64)
got = m.count(np.array([1, 2, 3]), seen)
check(got is seen and list(seen) == [1, 2, 3] and m.state()["calls"] == 1, "updated in place")
raises(TypeError, "updated in place", m.count, np.array([1, 2]), [0, 0])
check(list(m["load"](np.ones(2, np.float32))) == [2, 2], "a method named like one of the module's")
check(list(m.pre_train(x[0])) == list(x[0]) and list(m.look_backward(x[0])) == list(3 * x[0]), "methods named like derivatives")
m.set_state({"kept": np.array([0x3F80, 0x4000], np.uint16)})
check(list(m.pre_train([1, 2])) == [4, 5], "bits of bf16, lists of numbers")
raises(net.Error, "'kept' is bf16[2], not float16[2]", m.set_state, {"kept": np.ones(2, np.float16)})
raises(net.Error, "f64", m.pick, x[0], [0.5])
raises(TypeError, "f32 is wanted", m.pick, x[0].astype(">f4"), [0])
os.chdir(sys.argv[1])
for name in ("s.safetensors", "s.npz"):
    m.save(name)
    other = net.Model(seed=2)
    check(not np.array_equal(other.state()["lin.weight"], m.state()["lin.weight"]), "another seed")
    other.load(name)
    check(all(np.array_equal(v, other.state()[k]) for k, v in m.state().items()), "state in " + name)
    check(np.array_equal(other.forward(x).y, m.forward(x).y), "and its results")
np.savez("data.npz", x=np.repeat(x, 8, 0), target=np.ones((16, 3), np.float32))
for name in ("trained.safetensors", "trained.npz"):
    subprocess.run([sys.argv[2], "-train", "../net.tn", "data.npz", "-epochs", "2", "-device=cpu", "-save", name],
                   check=True, stdout=subprocess.DEVNULL)
    other = net.Model(seed=2, device="cpu")
    other.load(name)
    if name.endswith(".npz"):
        with np.load(name) as z:
            check("tenon.seed" in z.files, "-train saves where it was")
            check(all(np.array_equal(z[k], v) for k, v in other.state().items()), "what -train saved")
    trained = other.forward(x).y if name == "trained.safetensors" else trained
    check(np.array_equal(other.forward(x).y, trained), "the same of both forms")
    check(not np.array_equal(trained, net.Model(device="cpu").forward(x).y), "it was trained")
head = json.dumps({"lin.bias": {"dtype": "U32", "shape": [3], "data_offsets": [0, 12]}}).encode()
with open("other.safetensors", "wb") as f:
    f.write(struct.pack("<Q", len(head)) + head + bytes(12))
raises(net.Error, "'lin.bias' is of the dtype U32", m.load, "other.safetensors")
raises(net.Error, "there is no 'lin.wait'", m.set_state, {"lin.wait": b})
raises(net.Error, "'lin.bias' is f32[3], not float32[2]", m.set_state, {"lin.bias": b[:2]})
raises(TypeError, "argument 'x' is missing", m.forward)
raises(TypeError, "argument 'z' is unknown", m.forward, x, z=1)
raises(net.Error, "x", m.forward, x[:, :3])
raises(net.Error, "f64", m.forward, x.astype(np.float64))
raises(net.Error, "index 7 is out of range", m.pick, x[0], np.array([0, 7]))
raises(ValueError, "a device is", net.Model, device="gpu")
raises(AttributeError, "no method 'forwards'", lambda: m.forwards)
check("forward(x: f32[_, _], bias: f32[_])" in m.programs(), m.programs())
gc.disable()
gone = weakref.ref(other)
del other
check(gone() is None, "a model that nobody has ends at once")
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
"""


def has_numpy(python):
    return python and subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0


def main(tenon, library):
    python = next((p for p in (os.environ.get("TENON_PYTHON"), sys.executable, "/usr/bin/python3") if has_numpy(p)), None)
    with tempfile.TemporaryDirectory() as folder:
        text = os.path.join(folder, "net.tn")
        with open(text, "w") as f:
            f.write(TEXT)
        subprocess.run([tenon, "-shared", "-python", "-target=cpu", text, "-o", folder + "/a b/"], check=True)
        with open(folder + "/a b/net.py") as f:
            compile(f.read(), "net.py", "exec") # it is Python, with numpy or without
        if not python:
            print("no Python with numpy: the module is not run")
            return 77
        moved = folder + "/moved"
        shutil.move(folder + "/a b", moved)
        env = dict(os.environ, TENON_LIBRARY=library)
        return subprocess.run([python, "-c", PROGRAM, moved, tenon], env=env, cwd=folder).returncode


sys.exit(main(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])))
