"""The evaluator of the onnx package: runs the user's own .onnx file, operator by operator in NumPy."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from protocol import Adapter, Refused, Unavailable, dtype_of, read_safetensors, serve  # noqa: E402
import numpy as np  # noqa: E402

try:
    import onnx
    from onnx.reference import ReferenceEvaluator
except ImportError as error:
    onnx, onnx_error = None, error


def outward(name, value):
    """An array as the protocol has it: bf16 as its 16 bits."""
    array = np.asarray(value)
    if array.dtype.name == "bfloat16":
        return "bf16", array.view(np.uint16)
    if array.dtype.kind not in "fiub":
        raise Refused("value '%s' is no tensor of numbers (%s)" % (name, array.dtype))
    return dtype_of(array), array


class OnnxReference(Adapter):
    capabilities = ["run", "layers", "time", "parameters", "memory"]

    def hello(self, request):
        if onnx is None:
            raise Unavailable("no module onnx.reference in %s (%s)" % (sys.executable, onnx_error))
        return {"framework": "ONNX reference evaluator", "version": onnx.__version__,
                "versions": {"onnx": onnx.__version__, "numpy": np.__version__},
                "threads": 1, "options": {}}

    def load(self, request):
        if "model" not in request:
            raise Refused("the evaluator reads .onnx files; this network came without one")
        proto = onnx.load(request["model"])
        try:
            self.evaluator = ReferenceEvaluator(proto)
        except Exception as error:
            raise Refused("the evaluator does not open the model: %s" % error)
        self.weights = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
        self.inputs = [i.name for i in proto.graph.input if i.name not in self.weights]
        self.outputs = [o.name for o in proto.graph.output]
        return {"outputs": self.outputs, "refused": [],
                "values": [name for node in proto.graph.node for name in node.output if name]}

    def feeds(self, request):
        feeds = {}
        for name, (dtype, array) in read_safetensors(request["inputs"]).items():
            if dtype == "bf16":
                import ml_dtypes
                array = array.view(ml_dtypes.bfloat16)
            feeds[name] = array
        missing = sorted(set(self.inputs) - set(feeds))
        if missing:
            raise Refused("input '%s' was not given" % missing[0])
        return {name: feeds[name] for name in self.inputs}

    def run(self, request):
        values = self.evaluator.run(None, self.feeds(request), intermediate=True)
        layers = request.get("layers", [])
        wanted = set(values) - set(self.inputs) - set(self.weights) - {""} if layers == "all" \
            else set(layers) | set(self.outputs)
        unknown = sorted(wanted - set(values))
        if unknown:
            raise Refused("the graph has no value '%s'" % unknown[0])
        wanted |= set(self.outputs)
        return {"perturbed": False, "layers_from": "the run itself", "absent": []}, \
            {name: outward(name, values[name]) for name in sorted(wanted)}

    def prepare_timing(self, request):
        feeds = self.feeds(request)
        return lambda: self.evaluator.run(None, feeds)

    def parameters(self, request):
        """What the evaluator holds, not what the file says."""
        return {}, {name: outward(name, value) for name, value in self.evaluator.rt_inits_.items()}


serve(OnnxReference())
