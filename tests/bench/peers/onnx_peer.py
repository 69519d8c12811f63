"""The worker for ONNX Runtime: inference only; parameters are initializers, results are bound.
Usage: onnx_peer.py run THREADS
SPDX-License-Identifier: MIT"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import common  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime as ort  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402


class Graph:
    """Builds a model: op(...) adds a node and gives the name of its (first) result."""

    def __init__(self):
        self.nodes, self.initializers, self.n = [], [], 0

    def fresh(self):
        self.n += 1
        return "v%d" % self.n

    def const(self, a):
        name = self.fresh()
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(a), name))
        return name

    def op(self, kind, *inputs, results=1, **attributes):
        names = [self.fresh() for _ in range(results)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if results == 1 else names


class Work:
    def __init__(self, case, run, arrays, threads):
        if run.mode != "forward" or not hasattr(case, "onnx"):
            raise common.Skip("inference only" if run.mode != "forward" else "no ONNX half")
        args, state, _ = common.split(arrays)
        g = Graph()
        outputs = case.onnx(run, g, state, args)
        kinds = {k: helper.np_dtype_to_tensor_dtype(v.dtype) for k, v in args.items()}
        inputs = [helper.make_tensor_value_info(k, kinds[k], v.shape) for k, v in args.items()]
        for k, v in outputs.items():
            g.nodes.append(helper.make_node("Identity", [v], [k]))
        made = helper.make_graph(g.nodes, case.__name__, inputs,
                                 [helper.make_tensor_value_info(k, onnx.TensorProto.FLOAT, None)
                                  for k in outputs], g.initializers)
        model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)])
        model.ir_version = min(model.ir_version, 10)
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        self.session = ort.InferenceSession(model.SerializeToString(), options,
                                            providers=["CPUExecutionProvider"])
        self.keep = args
        self.outputs = list(outputs)
        got = self.session.run(self.outputs, args)
        self.values = [ort.OrtValue.ortvalue_from_numpy(np.empty_like(a)) for a in got]
        self.binding = self.session.io_binding()
        for k, v in args.items():
            self.binding.bind_ortvalue_input(k, ort.OrtValue.ortvalue_from_numpy(v))
        for k, v in zip(self.outputs, self.values):
            self.binding.bind_ortvalue_output(k, v)

    def reset(self):
        pass

    def iterate(self):
        self.session.run_with_iobinding(self.binding)

    def results(self):
        return {k: v.numpy() for k, v in zip(self.outputs, self.values)}


common.serve(Work)
