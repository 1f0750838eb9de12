"""ONNX Runtime: runs the user's own .onnx file, on the CPU provider.

Layers. A session only returns the graph's outputs, so wanted values are added to them. That can
change what the optimiser fuses, hence the answer may be about another network than the user runs.
So each layered run compares its final outputs with those of the untouched file, bit for bit:
  equal      layers come from the file with outputs added ("layers_from": "added outputs");
  different  "perturbed": true, and layers come from the graph as the optimiser left it, saved by
             ONNX Runtime itself, run as it stands ("layers_from": "optimised graph"): values that
             were fused away are listed in "absent".

Faults (for the tests of the verdicts) edit the file in memory, or set the session's own option.
"""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from protocol import (Adapter, Refused, Unavailable, dtype_of, serve)  # noqa: E402
import numpy as np  # noqa: E402

try:
    import onnxruntime as ort
except ImportError as error:
    ort, ort_error = None, error
try:
    import onnx
    from onnx import helper, numpy_helper
except ImportError as error:
    onnx, onnx_error = None, error

OPT = {"off": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED",
       "all": "ORT_ENABLE_ALL"}
BFLOAT16 = 16  # TensorProto.BFLOAT16
TYPES = {"tensor(float)": "f32", "tensor(double)": "f64", "tensor(float16)": "f16",
         "tensor(bfloat16)": "bf16", "tensor(int64)": "i64", "tensor(int32)": "i32",
         "tensor(int16)": "i16", "tensor(int8)": "i8", "tensor(uint64)": "u64",
         "tensor(uint32)": "u32", "tensor(uint16)": "u16", "tensor(uint8)": "u8",
         "tensor(bool)": "bool"}


def same_bits(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


class OnnxRuntime(Adapter):
    capabilities = ["run", "layers", "time", "open", "parameters", "fault", "memory", "save",
                    "profile"]

    def __init__(self):
        self.threads, self.opt = 1, "all"
        self.proto = self.folder = None
        self.sessions = {}
        self.flush = False

    # -- requests -----------------------------------------------------------------------------

    def hello(self, request):
        if ort is None:
            raise Unavailable("no module onnxruntime in %s (%s)" % (sys.executable, ort_error))
        self.threads = int(request.get("threads", 1))
        options = request.get("options", {})
        self.opt = options.get("opt", "all")
        if self.opt not in OPT:
            raise Refused("option opt is '%s'; it is one of %s" % (self.opt, ", ".join(OPT)))
        ort.set_default_logger_severity(3)
        if hasattr(ort, "disable_telemetry_events"):
            ort.disable_telemetry_events()
        versions = {"onnxruntime": ort.__version__, "numpy": np.__version__}
        if onnx is not None:
            versions["onnx"] = onnx.__version__
        build = ort.get_build_info() if hasattr(ort, "get_build_info") else ""
        return {"framework": "ONNX Runtime", "version": ort.__version__, "versions": versions,
                "build": build, "threads": self.threads, "options": {"opt": self.opt}}

    def load(self, request):
        if "model" not in request:
            raise Refused("ONNX Runtime reads .onnx files; this network came without one")
        path = request["model"]
        self.sessions = {}
        self.flush = False
        self.folder = os.path.dirname(os.path.abspath(path))
        if onnx is None:
            # Final outputs need no editing; layers are refused with the reason.
            self.proto = None
            with open(path, "rb") as file:
                self.bytes = file.read()
        else:
            self.proto = onnx.load(path, load_external_data=False)
            self.bytes = None
        session = self.session(())
        values = []
        if self.proto is not None:
            values = [name for node in self.proto.graph.node for name in node.output if name]
        return {"inputs": [{"name": i.name, "dtype": TYPES.get(i.type, i.type),
                            "dims": [d if isinstance(d, int) else -1 for d in i.shape]}
                           for i in session.get_inputs()],
                "outputs": [o.name for o in session.get_outputs()], "values": values,
                "refused": []}

    def run(self, request):
        feeds = self.feeds(request)
        final = self.evaluate(self.session(()), feeds)
        layers = request.get("layers", [])
        if not layers:
            return {"perturbed": False}, final
        if self.proto is None:
            raise Refused("values inside the graph need the onnx package beside onnxruntime in %s "
                          "(%s)" % (sys.executable, onnx_error))
        known = {name for node in self.proto.graph.node for name in node.output if name}
        wanted = sorted(known - set(final)) if layers == "all" else \
            [name for name in layers if name not in final]
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise Refused("the graph has no value '%s'" % unknown[0])
        answers = self.evaluate(self.session(tuple(wanted)), feeds)
        if all(same_bits(final[name][1], answers[name][1]) for name in final):
            # Final outputs first: those of the untouched file, though the bits are the same.
            final.update({name: answers[name] for name in wanted})
            return {"perturbed": False, "layers_from": "added outputs"}, final
        session, absent = self.optimised_session(wanted)
        inside = self.evaluate(session, feeds)
        if not all(same_bits(final[name][1], inside[name][1]) for name in final):
            return {"perturbed": True, "layers_from": "none", "absent": wanted}, final
        final.update({name: inside[name] for name in wanted if name not in absent})
        return {"perturbed": True, "layers_from": "optimised graph", "absent": absent}, final

    def prepare_timing(self, request):
        session = self.session(())
        feeds = {name: self.ort_value(*pair) for name, pair in self.feeds(request).items()}
        binding = session.io_binding()
        for name, value in feeds.items():
            binding.bind_ortvalue_input(name, value)
        for output in session.get_outputs():
            binding.bind_output(output.name, "cpu")

        def step():
            session.run_with_iobinding(binding)
        return step

    def profile(self, request):
        """Node kernels of one run, from ONNX Runtime's own profile: the op as its optimiser left
        it, and who computed it."""
        options = self.options(self.opt)
        options.enable_profiling = True
        with tempfile.TemporaryDirectory() as folder:
            options.profile_file_prefix = os.path.join(folder, "profile")
            data = self.bytes if self.proto is None else self.proto.SerializeToString()
            session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
            self.evaluate(session, self.feeds(request))
            with open(session.end_profiling()) as file:
                events = json.load(file)
        kernels = []
        for event in events:
            if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
                args = event["args"]
                kernels.append("%s (%s)" % (args.get("op_name"), args.get("provider")))
        return {"kernels": kernels}

    def prepare_opening(self, request):
        path = request["model"]

        def open_file():
            return ort.InferenceSession(path, self.options(self.opt),
                                        providers=["CPUExecutionProvider"])
        return open_file

    def parameters(self, request):
        if self.proto is None:
            raise Refused("reading parameters back needs the onnx package in %s" % sys.executable)
        # A session gives its initializers out only as outputs: they are read from the live session,
        # not from the file.
        names = [t.name for t in self.proto.graph.initializer]
        model = self.copy_with_outputs([])
        del model.graph.node[:], model.graph.output[:], model.graph.input[:]
        for tensor in self.proto.graph.initializer:
            model.graph.output.append(helper.make_tensor_value_info(
                tensor.name, tensor.data_type, list(tensor.dims)))
        del model.graph.value_info[:]
        if not names:
            return {}, {}
        session = self.open_session(model.SerializeToString(), "off")
        return {}, self.evaluate(session, {})

    def save(self, request):
        model = self.proto
        if request.get("format", "onnx") != "onnx" or model is None:
            raise Refused("this adapter saves onnx only")
        onnx.save(model, request["path"])
        return {"path": request["path"]}

    # -- sessions -----------------------------------------------------------------------------

    def options(self, opt):
        options = ort.SessionOptions()
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, OPT[opt])
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
        if hasattr(options, "use_deterministic_compute"):
            options.use_deterministic_compute = True
        if self.flush:
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
        return options

    def open_session(self, data, opt, save_to=None):
        options = self.options(opt)
        options.add_session_config_entry("session.model_external_initializers_file_folder_path",
                                         self.folder)
        if save_to:
            options.optimized_model_filepath = save_to
        try:
            return ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:
            text = str(error).strip().splitlines()
            raise Refused("ONNX Runtime does not open the model: %s" % (text[0] if text else ""))

    def session(self, added):
        """The network with the values `added` among its outputs."""
        key = (added, self.opt)
        if key not in self.sessions:
            data = self.bytes if self.proto is None else \
                self.copy_with_outputs(added).SerializeToString()
            self.sessions[key] = self.open_session(data, self.opt)
        return self.sessions[key]

    def copy_with_outputs(self, added, proto=None):
        model = onnx.ModelProto()
        model.CopyFrom(self.proto if proto is None else proto)
        for name in added:
            # A value without a type: ONNX Runtime infers it.
            model.graph.output.append(onnx.ValueInfoProto(name=name))
        return model

    def optimised_session(self, wanted):
        """The graph as the optimiser left it, with those of `wanted` that it still holds."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "optimised.onnx")
            self.open_session(self.proto.SerializeToString(), self.opt, save_to=path)
            proto = onnx.load(path)
        held = {name for node in proto.graph.node for name in node.output if name}
        kept = [name for name in wanted if name in held]
        model = self.copy_with_outputs(kept, proto)
        return self.open_session(model.SerializeToString(), "off"), \
            [name for name in wanted if name not in held]

    # -- values -------------------------------------------------------------------------------

    def feeds(self, request):
        from protocol import read_safetensors
        tensors = read_safetensors(request["inputs"])
        needed = {i.name for i in self.session(()).get_inputs()}
        missing = sorted(needed - set(tensors))
        if missing:
            raise Refused("input '%s' was not given" % missing[0])
        return {name: tensors[name] for name in tensors if name in needed}

    @staticmethod
    def ort_value(dtype, array):
        if dtype == "bf16":
            return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, BFLOAT16)
        return ort.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array).reshape(array.shape))

    def evaluate(self, session, feeds):
        outputs = session.get_outputs()
        values = session.run_with_ort_values(
            [o.name for o in outputs], {n: self.ort_value(*pair) for n, pair in feeds.items()})
        answers = {}
        for output, value in zip(outputs, values):
            if not value.is_tensor():
                raise Refused("output '%s' is not a tensor (%s)" % (output.name, output.type))
            array = value.numpy()
            if output.type == "tensor(bfloat16)":
                answers[output.name] = ("bf16", array.view(np.uint16))
            else:
                answers[output.name] = (dtype_of(array), array)
        return answers

    # -- faults -------------------------------------------------------------------------------

    def fault(self, request):
        if onnx is None:
            raise Refused("faults are planted by editing the graph, which needs the onnx package")
        self.sessions = {}
        kind, where = request["kind"], request.get("node")
        if kind == "flush_denormals":
            self.flush = True
            return {"planted": kind}
        graph = self.proto.graph
        if kind == "weight_bit":
            for i, tensor in enumerate(graph.initializer):
                if tensor.name == request["parameter"]:
                    array = numpy_helper.to_array(tensor).copy()
                    bits = array.reshape(-1).view("u%d" % array.itemsize)
                    bits[request["index"]] ^= bits.dtype.type(1 << request["bit"])
                    graph.initializer[i].CopyFrom(numpy_helper.from_array(array, tensor.name))
                    return {"planted": kind}
            raise Refused("the graph has no parameter '%s'" % request["parameter"])
        for i, node in enumerate(graph.node):
            if node.name == where or where in node.output:
                getattr(self, "plant_" + kind, self.no_such_fault)(request, i, node)
                return {"planted": kind}
        raise Refused("the graph has no node '%s'" % where)

    def no_such_fault(self, request, i, node):
        raise Refused("this adapter cannot plant '%s'" % request["kind"])

    @staticmethod
    def attribute(node, name, default=None):
        for a in node.attribute:
            if a.name == name:
                return a
        if default is None:
            raise Refused("node has no attribute " + name, node.name, node.op_type)
        node.attribute.append(helper.make_attribute(name, default))
        return node.attribute[-1]

    def plant_epsilon(self, request, i, node):
        self.attribute(node, "epsilon", 1e-5).f = float(request["value"])

    def plant_count_include_pad(self, request, i, node):
        a = self.attribute(node, "count_include_pad", 0)
        a.i = 1 - a.i

    def plant_padding(self, request, i, node):
        """Ends and beginnings swapped: the other way to split an odd padding."""
        for a in node.attribute:
            if a.name == "auto_pad" and a.s in (b"SAME_UPPER", b"SAME_LOWER"):
                a.s = b"SAME_LOWER" if a.s == b"SAME_UPPER" else b"SAME_UPPER"
                return
        a = self.attribute(node, "pads")
        half = len(a.ints) // 2
        pads = list(a.ints)
        if pads[:half] == pads[half:]:
            raise Refused("the padding is symmetric: swapping it changes nothing", node.name,
                          node.op_type)
        del a.ints[:]
        a.ints.extend(pads[half:] + pads[:half])

    def plant_gate_order(self, request, i, node):
        """Gates `first` and `second` of W, R and B change places (LSTM i, o, f, c)."""
        first, second = request.get("first", 1), request.get("second", 2)
        gates = {"LSTM": 4, "GRU": 3}.get(node.op_type)
        if gates is None:
            raise Refused("only LSTM and GRU have gates", node.name, node.op_type)
        names = [name for name in node.input[1:4] if name]
        for k, tensor in enumerate(self.proto.graph.initializer):
            if tensor.name in names:
                array = numpy_helper.to_array(tensor).copy()
                blocks = 2 * gates if tensor.name == (list(node.input) + [""] * 4)[3] else gates
                view = array.reshape(array.shape[0], blocks, array.shape[1] // blocks,
                                     *array.shape[2:])
                for base in range(0, blocks, gates):
                    view[:, [base + first, base + second]] = view[:, [base + second, base + first]]
                self.proto.graph.initializer[k].CopyFrom(
                    numpy_helper.from_array(view.reshape(array.shape), tensor.name))

    def plant_bf16(self, request, i, node):
        """Floating inputs of the node pass through bfloat16."""
        added = []
        for k, name in enumerate(node.input[:2]):
            low, back = name + "__bf16_%d" % i, name + "__from_bf16_%d" % i
            added += [helper.make_node("Cast", [name], [low], to=BFLOAT16),
                      helper.make_node("Cast", [low], [back], to=1)]
            node.input[k] = back
        for new in reversed(added):
            self.proto.graph.node.insert(i, new)

    def plant_tf32(self, request, i, node):
        """Floating inputs of the node keep 11 significant bits, by Veltkamp's splitting with
        2^13 + 1: c = x * 8193; high = c - (c - x). Nearest, where TF32 hardware truncates."""
        added = []
        factor = "tf32_factor__%d" % i
        self.proto.graph.initializer.append(
            numpy_helper.from_array(np.array(8193, np.float32), factor))
        for k, name in enumerate(node.input[:2]):
            c, d, high = (name + "__%s_%d" % (part, i) for part in ("c", "d", "high"))
            added += [helper.make_node("Mul", [name, factor], [c]),
                      helper.make_node("Sub", [c, name], [d]),
                      helper.make_node("Sub", [c, d], [high])]
            node.input[k] = high
        for new in reversed(added):
            self.proto.graph.node.insert(i, new)


if __name__ == "__main__":
    serve(OnnxRuntime())
