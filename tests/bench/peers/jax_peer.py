"""The worker for JAX, jit. Usage: jax_peer.py jit THREADS
XLA's pool has a thread for each processor that the process may use: with one thread it is bound to one.
SPDX-License-Identifier: MIT"""
import os
import sys

threads = int(sys.argv[2])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import common  # noqa: E402
import numpy as np  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402


def adamw(p, g, m, v, t, lr, decay=0.01):
    m = jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, m, g)
    v = jax.tree.map(lambda a, b: 0.999 * a + 0.001 * b * b, v, g)
    size, scale = lr / (1 - 0.9 ** t), jnp.sqrt(1 - 0.999 ** t)
    p = jax.tree.map(lambda a, b, c: a * (1 - lr * decay) - size * b / (jnp.sqrt(c) / scale + 1e-8), p, m, v)
    return p, m, v


def clipped(g, limit):
    norm = jnp.sqrt(sum(jnp.sum(a * a) for a in jax.tree.leaves(g)))
    return jax.tree.map(lambda a: a * jnp.minimum(1.0, limit / (norm + 1e-6)), g)


class Work:
    def __init__(self, case, run, arrays):
        if not hasattr(case, "jax"):
            raise common.Skip("no JAX half")
        self.case, self.run = case, run
        args, self.initial, cotangents = common.split(arrays)
        self.args = {k: jnp.asarray(v) for k, v in args.items()}
        self.cotangents = {k: jnp.asarray(v) for k, v in cotangents.items()}
        self.key = jax.random.key(0, impl="rbg")
        self.iterate = {"forward": self.forward, "backward": self.backward, "step": self.step,
                        "update": self.update}[run.mode]
        self.grads = {k[5:]: jnp.asarray(v) for k, v in arrays.items() if k.startswith("grad:")}
        self.reset()
        buffers = getattr(case, "BUFFERS", ())
        is_param = {k: np.issubdtype(v.dtype, np.floating) and k not in buffers
                    for k, v in self.initial.items()}
        floats = [k for k, v in self.args.items() if jnp.issubdtype(v.dtype, jnp.floating)]

        def call(params, fixed, moving, others, key):
            return case.jax(run, jax, {**params, **fixed}, {**moving, **others}, key)

        def parts(of):
            return ({k: v for k, v in of.items() if is_param[k]},
                    {k: v for k, v in of.items() if not is_param[k]})

        def forward(state, args, key):
            return case.jax(run, jax, state, args, key)

        def backward(state, args, cotangents, key):
            params, fixed = parts(state)
            moving = {k: args[k] for k in floats}
            others = {k: v for k, v in args.items() if k not in floats}
            got, pull = jax.vjp(lambda p, a: {k: v for k, v in call(p, fixed, a, others, key).items()
                                              if k in cotangents}, params, moving)
            grads, d_args = pull(cotangents)
            return got, grads, d_args

        def step(state, m, v, t, args, key):
            params, fixed = parts(state)

            def loss(p):
                got = call(p, fixed, args, {}, key)
                return next(iter(got.values())), got

            (_, got), g = jax.value_and_grad(loss, has_aux=True)(params)
            if getattr(case, "CLIP", None):
                g = clipped(g, case.CLIP)
            params, m, v = adamw(params, g, m, v, t, run.lr)
            return {**params, **fixed}, m, v, t + 1, got

        def update(state, m, v, t, g):
            moved, m, v = adamw({k: state[k] for k in g}, clipped(g, case.CLIP), m, v, t, run.lr)
            return {**state, **moved}, m, v, t + 1

        def next_key(key):
            return jax.random.split(key)[0]

        self.f = jax.jit(forward)
        self.b = jax.jit(backward)
        self.s = jax.jit(step, donate_argnums=(0, 1, 2, 3))
        self.u = jax.jit(update, donate_argnums=(0, 1, 2, 3))
        self.split = jax.jit(next_key)
        self.is_param = is_param

    def reset(self):
        self.state = {k: jnp.array(v) for k, v in self.initial.items()}
        floats = {k: v for k, v in self.state.items()
                  if jnp.issubdtype(v.dtype, jnp.floating) and k not in getattr(self.case, "BUFFERS", ())}
        if self.run.mode in ("step", "update"):
            if self.grads:
                floats = {k: v for k, v in floats.items() if k in self.grads}
            self.m = {k: jnp.zeros_like(v) for k, v in floats.items()}
            self.v = {k: jnp.zeros_like(v) for k, v in floats.items()}
            self.t = jnp.float32(1)

    def draw(self):
        if self.run.training:
            self.key = self.split(self.key)
        return self.key

    def forward(self):
        self.got = self.f(self.state, self.args, self.draw())
        jax.block_until_ready(self.got)

    def backward(self):
        self.got, self.grads, self.d_args = self.b(self.state, self.args, self.cotangents, self.draw())
        jax.block_until_ready((self.got, self.grads, self.d_args))

    def step(self):
        self.state, self.m, self.v, self.t, self.got = self.s(self.state, self.m, self.v, self.t,
                                                              self.args, self.draw())
        jax.block_until_ready((self.state, self.got))

    def update(self):
        self.got = {}
        self.state, self.m, self.v, self.t = self.u(self.state, self.m, self.v, self.t, self.grads)
        jax.block_until_ready(self.state)

    def results(self):
        out = {k: np.asarray(v) for k, v in self.got.items()}
        if self.run.mode == "backward":
            out.update({"d_" + k: np.asarray(v) for k, v in self.d_args.items()})
            out.update({"grad:" + k: np.asarray(v) for k, v in self.grads.items()})
        if self.run.mode in ("step", "update"):
            out.update({"state:" + k: np.asarray(v) for k, v in self.state.items()})
        return out


common.serve(lambda case, run, arrays, threads: Work(case, run, arrays))
