"""The worker for PyTorch. Usage: torch_peer.py eager|compile THREADS
SPDX-License-Identifier: MIT"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import common  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

compiled = sys.argv[1] == "compile"
torch.set_num_threads(int(sys.argv[2]))


class Work:
    """One case: a function of parameters and arguments to a dict of results, run as `mode` says."""

    def __init__(self, case, run, arrays):
        if not hasattr(case, "torch") or compiled and run.mode == "update":
            raise common.Skip("nothing to compile" if run.mode == "update" else "no PyTorch half")
        self.case, self.run = case, run
        args, self.initial, cotangents = common.split(arrays)
        self.args = {k: torch.from_numpy(v) for k, v in args.items()}
        self.cotangents = {k: torch.from_numpy(v) for k, v in cotangents.items()}
        if run.mode == "backward":
            for k in self.args:
                if self.args[k].is_floating_point():
                    self.args[k].requires_grad_(True)
        self.state = {k: torch.from_numpy(v.copy()) for k, v in self.initial.items()}
        buffers = getattr(case, "BUFFERS", ())
        self.params = [v for k, v in self.state.items()
                       if v.is_floating_point() and k not in buffers and run.mode != "forward"]
        for p in self.params:
            p.requires_grad_(True)
        self.optimizer = None
        into = getattr(case, "torch_into", None)
        function = case.torch

        def call(state, args):
            return function(run, torch, state, args)

        self.call = torch.compile(call) if compiled else call
        self.out = None
        if run.mode == "forward":
            with torch.inference_mode():
                if into and not compiled:
                    self.out = {k: torch.empty_like(v) for k, v in
                                function(run, torch, self.state, self.args).items()}
                    self.into = into
        self.grads = {k: torch.from_numpy(v) for k, v in arrays.items() if k.startswith("grad:")}
        self.iterate = {"forward": self.forward, "backward": self.backward, "step": self.step,
                        "update": self.update}[run.mode]
        self.got = None
        self.reset()

    def make_optimizer(self):
        if self.run.mode in ("step", "update"):
            if hasattr(self.case, "torch_optimizer"):
                self.optimizer = self.case.torch_optimizer(self.run, torch, self.params)
            else:
                self.optimizer = torch.optim.AdamW(self.params, lr=self.run.lr, weight_decay=0.01, **FUSED)

    def reset(self):
        with torch.no_grad():
            for k, v in self.state.items():
                v.copy_(torch.from_numpy(self.initial[k]))
                if "grad:" + k in self.grads:
                    v.grad = self.grads["grad:" + k].clone()
        self.make_optimizer()

    def forward(self):
        with torch.inference_mode():
            if self.out is not None:
                self.into(self.run, torch, self.state, self.args, self.out)
                self.got = self.out
            else:
                self.got = self.call(self.state, self.args)

    def backward(self):
        for p in self.params:
            p.grad = None
        for a in self.args.values():
            a.grad = None
        self.got = self.call(self.state, self.args)
        names = [k for k in self.got if k in self.cotangents]
        torch.autograd.backward([self.got[k] for k in names], [self.cotangents[k] for k in names])

    def update(self):
        self.got = {}
        torch.nn.utils.clip_grad_norm_(self.params, self.case.CLIP, **FOREACH)
        self.optimizer.step()

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.got = self.call(self.state, self.args)
        next(iter(self.got.values())).backward()
        clip = getattr(self.case, "CLIP", None)
        if clip:
            torch.nn.utils.clip_grad_norm_(self.params, clip, **FOREACH)
        self.optimizer.step()

    def results(self):
        out = {k: v.detach().numpy() for k, v in self.got.items()}
        if self.run.mode == "backward":
            out.update({"d_" + k: a.grad.numpy() for k, a in self.args.items() if a.grad is not None})
            out.update({"grad:" + k: v.grad.numpy() for k, v in self.state.items()
                        if v.grad is not None})
        if self.run.mode in ("step", "update"):
            out.update({"state:" + k: v.detach().numpy() for k, v in self.state.items()})
        return out


try:  # on the CPU since PyTorch 2.4
    torch.optim.AdamW([torch.zeros(1, requires_grad=True)], fused=True)
    FUSED = {"fused": True}
except (RuntimeError, TypeError):
    FUSED = {"foreach": True} if torch.__version__ >= "2" else {}
FOREACH = {"foreach": True} if torch.__version__ >= "2" else {}


def make(case, run, arrays, threads):
    if compiled:
        if torch.__version__ < "2":
            raise common.Skip("this PyTorch has no torch.compile")
        torch._dynamo.reset()
    return Work(case, run, arrays)


common.serve(make)
