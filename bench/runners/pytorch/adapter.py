"""PyTorch: builds the neutral graph natively, one torch call (or module) per node.

Network below is an nn.Module whose parameters are the graph's weights under the graph's names;
ops.py has one builder per op, which turns the node's parameters into a function of tensors.
Every value of the graph is a tensor in the forward pass, so reading layers changes nothing.

A node that PyTorch cannot express is refused with its reason, at load; what stands before it runs.
"""
import json
import os
import re
import sys
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "common"))
from protocol import Adapter, NUMPY_DTYPE, Refused, Unavailable, read_safetensors, serve  # noqa: E402
import numpy as np  # noqa: E402

try:
    import torch
except ImportError as error:
    torch, torch_error = None, error

if torch is not None:
    import faults  # noqa: E402
    import ops  # noqa: E402

    DTYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16,
              "bf16": torch.bfloat16, "i64": torch.int64, "i32": torch.int32, "i16": torch.int16,
              "i8": torch.int8, "u8": torch.uint8, "bool": torch.bool}
    for _name in ("u16", "u32", "u64"):  # since 2.3
        if hasattr(torch, "uint" + _name[1:]):
            DTYPES[_name] = getattr(torch, "uint" + _name[1:])
    NAMES = {t: name for name, t in DTYPES.items()}


def to_torch(dtype, array, device="cpu"):
    if dtype not in DTYPES:
        raise Refused("PyTorch %s has no element type %s" % (torch.__version__, dtype))
    if dtype == "bf16":
        bits = torch.from_numpy(np.ascontiguousarray(array).view(np.int16))
        return bits.reshape(array.shape).view(torch.bfloat16).to(device)
    # ascontiguousarray turns a scalar into one element; the shape is put back.
    return torch.from_numpy(np.ascontiguousarray(array)).reshape(array.shape).to(device)


def to_numpy(tensor):
    name = NAMES.get(tensor.dtype)
    if name is None:
        raise Refused("PyTorch answered with elements of type %s" % tensor.dtype)
    tensor = tensor.detach().cpu().contiguous()
    if name == "bf16":
        return name, tensor.view(torch.int16).numpy().view(np.uint16)
    return name, tensor.numpy().astype(NUMPY_DTYPE[name], copy=False)


def loaded_libraries():
    """Numerical libraries that are mapped into this process: which BLAS it really is."""
    found = {}
    try:
        with open("/proc/self/maps") as maps:
            for line in maps:
                base = os.path.basename(line.split()[-1])
                if re.match(r"lib(openblas|blas|mkl_(rt|core|intel|gnu|avx)|dnnl|cublas|cudnn|blis"
                            r"|atlas|gomp|iomp5|omp)", base):
                    found[base] = os.path.realpath(line.split()[-1])
    except OSError:
        pass
    return found


# Operators that make, fill, copy or look at tensors: what calls no others does its work itself.
HELPERS = {"aten::" + name for name in (
    "alias as_strided as_strided_ chunk clone contiguous copy_ cudnn_is_acceptable detach detach_ "
    "empty empty_like empty_strided expand expand_as fill_ flatten lift_fresh narrow new_empty "
    "ones permute _reshape_alias reshape resize_ resolve_conj resolve_neg select set_ slice split "
    "split_with_sizes squeeze squeeze_ t t_ to _to_copy transpose transpose_ unbind unflatten "
    "unsafe_chunk unsafe_split _unsafe_view unsqueeze unsqueeze_ view view_as zero_ zeros "
    "zeros_like").split()}

# These call whoever computes. The profiler tells callers by times of a microsecond each, and what
# is as short as that may seem to call nobody.
WRAPPERS = {"aten::" + name for name in (
    "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution "
    "_convolution linear matmul").split()}


def is_helper(event):
    return "::" not in event.name or event.name in HELPERS


def workers(events):
    """Names of those that did the work: addmm copies its bias and looks at its operands by other
    operators, which says nothing. Of a transposition or a conversion such operators are all there
    is."""
    did = [e.name for e in events if not is_helper(e) and e.name not in WRAPPERS
           and all(is_helper(child) for child in e.cpu_children)]
    return did or [e.name for e in events if not e.cpu_children]


class Network(torch.nn.Module if torch is not None else object):
    """The graph as a module. forward(inputs...) -> outputs, for saving and tracing; the adapter
    itself calls evaluate() to see every value."""

    def __init__(self, graph, weights):
        super().__init__()
        self.inputs = [i["name"] for i in graph["inputs"] if i["name"] not in weights]
        self.outputs = [o["name"] for o in graph["outputs"]]
        self.nodes = graph["nodes"]
        self.weights = {}
        for i, (name, tensor) in enumerate(weights.items()):
            # A module's attribute cannot hold dots: the graph's names are kept beside it.
            attribute = "weight_%d" % i
            if tensor.is_floating_point():
                self.register_parameter(attribute,
                                        torch.nn.Parameter(tensor, requires_grad=False))
            else:
                self.register_buffer(attribute, tensor)
            self.weights[name] = attribute
        self.build()

    def weight(self, name):
        return getattr(self, self.weights[name])

    def build(self):
        """Turns nodes into functions; called again after a fault changed a node."""
        self.refused, self.lost, self.steps = [], set(), []
        for node in self.nodes:
            missing = [n for n in node["inputs"] if n in self.lost]
            if missing:
                self.lost.update(n for n in node["outputs"] if n)
                continue
            try:
                constants = {n: self.weight(n) for n in node["inputs"] if n in self.weights}
                function = ops.build(node, constants)
                if node.get("fault"):
                    function = faults.wrap(node, function)
            except Refused as refusal:
                self.refused.append({"node": node["name"], "op": node["op"],
                                     "reason": str(refusal)})
                self.lost.update(n for n in node["outputs"] if n)
                continue
            if isinstance(function, torch.nn.Module):
                setattr(self, "module_%d" % len(self.steps), function)
            self.steps.append((node, function))
        # A value is let go after its last reader, as eager PyTorch would.
        last = {}
        for i, (node, _) in enumerate(self.steps):
            for n in node["inputs"]:
                last[n] = i
        self.ends = [[] for _ in self.steps]
        for n, i in last.items():
            if n and n not in self.weights and n not in self.outputs:
                self.ends[i].append(n)

    def evaluate(self, feeds, keep=frozenset()):
        values = dict(feeds)
        for i, (node, function) in enumerate(self.steps):
            given = [None if not n else values[n] if n in values else self.weight(n)
                     for n in node["inputs"]]
            try:
                made = function(*given)
            except Refused as refusal:
                raise Refused(str(refusal), node["name"], node["op"])
            except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
                text = str(error).strip().splitlines()
                raise Refused("PyTorch does not compute it: %s" % (text[0] if text else error),
                              node["name"], node["op"])
            made = made if isinstance(made, (tuple, list)) else (made,)
            for n, value in zip(node["outputs"], made):
                if n:
                    values[n] = value
            for n in self.ends[i]:
                if n not in keep:
                    del values[n]
        return values

    def output(self, values, name):
        return values[name] if name in values else self.weight(name)

    def forward(self, *inputs):
        values = self.evaluate(dict(zip(self.inputs, inputs)))
        return tuple(self.output(values, n) for n in self.outputs)


class PyTorch(Adapter):
    capabilities = ["run", "layers", "time", "parameters", "fault", "memory", "save", "profile"]

    def __init__(self):
        self.network, self.device, self.graphed = None, "cpu", False
        self.captured = {}  # CUDA graphs of the network, by the types of its inputs

    def hello(self, request):
        if torch is None:
            raise Unavailable("no module torch in %s (%s)" % (sys.executable, torch_error))
        threads = int(request.get("threads", 1))
        torch.set_num_threads(threads)
        try:
            torch.set_num_interop_threads(1)
        except RuntimeError:
            pass  # it can be set once only, before work begins
        torch.set_grad_enabled(False)
        options = request.get("options", {})
        onednn = options.get("onednn", "on")
        if onednn not in ("on", "off"):
            raise Refused("option onednn is '%s'; it is on or off" % onednn)
        if onednn == "off":
            # The flag has no setter of its own; this one lasts for the life of the process.
            torch.backends.mkldnn.flags(enabled=False).__enter__()
        tf32 = options.get("tf32", "off")
        if tf32 not in ("on", "off"):
            raise Refused("option tf32 is '%s'; it is on or off" % tf32)
        self.device = options.get("device", "cpu")
        if self.device.split(":")[0] not in ("cpu", "cuda"):
            raise Refused("option device is '%s'; it is cpu or cuda" % self.device)
        graph = options.get("graph", "off")
        if graph not in ("on", "off") or graph == "on" and self.device == "cpu":
            raise Refused("option graph is '%s'; it is off, or on with device=cuda" % graph)
        self.graphed = graph == "on"
        if self.device != "cpu":
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before cuBLAS is opened
        if self.device != "cpu" and not torch.cuda.is_available():
            raise Unavailable("this PyTorch (%s) finds no CUDA device" % torch.__version__)
        build = torch.__config__.show()
        versions = {"torch": torch.__version__, "numpy": np.__version__}
        found = re.search(r"(?:MKL-DNN|oneDNN)\)? v([0-9.]+)", build)
        if found:
            versions["oneDNN"] = found.group(1)
        found = re.search(r"Math Kernel Library Version ([^ ]+(?: Update \d+)?)", build)
        if found:
            versions["MKL"] = found.group(1)
        if self.device != "cpu":
            versions["CUDA"] = str(torch.version.cuda)
            versions["cuDNN"] = str(torch.backends.cudnn.version())
            versions["GPU"] = torch.cuda.get_device_name(self.device)
            torch.backends.cudnn.deterministic = True
            torch.use_deterministic_algorithms(True, warn_only=True)
            if hasattr(torch.utils, "deterministic"):  # for finding faults; it costs a fill each
                torch.utils.deterministic.fill_uninitialized_memory = False
            torch.backends.cudnn.allow_tf32 = tf32 == "on"
            torch.backends.cuda.matmul.allow_tf32 = tf32 == "on"
        # Touch the linear algebra once: libraries behind it are loaded on first use.
        torch.mm(torch.ones(2, 2), torch.ones(2, 2))
        for base, path in loaded_libraries().items():
            versions[base.split(".so")[0]] = os.path.basename(path)
        return {"framework": "PyTorch", "version": torch.__version__, "versions": versions,
                "build": build, "threads": torch.get_num_threads(),
                "options": {"onednn": onednn, "device": self.device, "tf32": tf32,
                            "graph": graph}}

    def load(self, request):
        if "graph" not in request:
            raise Refused("PyTorch is given the neutral graph, not a file of another framework")
        path = request["graph"]
        with open(path, encoding="utf-8") as file:
            graph = json.load(file)
        if graph.get("etalon_graph") != 1:
            raise Refused("%s is no neutral graph of version 1" % path)
        weights = {}
        if graph.get("weights"):
            tensors = read_safetensors(os.path.join(os.path.dirname(path), graph["weights"]))
            weights = {n: to_torch(d, a, self.device) for n, (d, a) in tensors.items()}
        torch.set_flush_denormal(False)  # a planted fault does not outlive its network
        self.network, self.captured = None, {}  # the last one's memory is free before this one's
        self.graph = graph
        self.network = Network(graph, weights)
        self.network.eval()
        values = [n for node, _ in self.network.steps for n in node["outputs"] if n]
        return {"outputs": self.network.outputs, "values": values,
                "refused": self.network.refused, "lost": sorted(self.network.lost)}

    def feeds(self, request):
        if self.network is None:
            raise Refused("no network is loaded")
        tensors = read_safetensors(request["inputs"])
        for name in self.network.inputs:
            if name not in tensors:
                raise Refused("input '%s' was not given" % name)
        return {n: to_torch(*tensors[n], device=self.device) for n in self.network.inputs}

    def run(self, request):
        feeds = self.feeds(request)
        layers = request.get("layers", [])
        computable = [n for node, _ in self.network.steps for n in node["outputs"] if n]
        wanted = computable if layers == "all" else list(layers)
        for name in wanted:
            if name in self.network.lost:
                raise Refused("value '%s' depends on a node that was refused" % name)
            if name not in computable:
                raise Refused("the graph has no value '%s'" % name)
        names = [n for n in self.network.outputs if n not in self.network.lost]
        names += [n for n in wanted if n not in names]
        values = self.network.evaluate(feeds, frozenset(names))
        return {"perturbed": False, "layers_from": "eager values"}, \
            {n: to_numpy(self.network.output(values, n)) for n in names}

    def prepare_timing(self, request):
        feeds = self.feeds(request)
        if self.network.lost:
            raise Refused("the network is not complete: %s" % self.network.refused[0]["reason"],
                          self.network.refused[0]["node"], self.network.refused[0]["op"])
        if self.device == "cpu":
            return lambda: self.network.evaluate(feeds)
        run = self.capture(feeds) if self.graphed else lambda: self.network.evaluate(feeds)

        def step():
            run()
            torch.cuda.synchronize()
        return step

    def capture(self, feeds):
        """The network as one CUDA graph, written down once for inputs of these types."""
        key = tuple((n, str(t.dtype), tuple(t.shape)) for n, t in feeds.items())
        if key not in self.captured:
            aside = torch.cuda.Stream()
            with torch.cuda.stream(aside):  # libraries choose and allocate before
                for _ in range(3):
                    self.network.evaluate(feeds)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                values = self.network.evaluate(feeds)
            self.captured[key] = (graph, feeds, values)
        graph, held, _ = self.captured[key]
        for n, tensor in feeds.items():
            held[n].copy_(tensor)
        return graph.replay

    def profile(self, request):
        """Operators that did the work of one run, from PyTorch's own profiler."""
        feeds = self.feeds(request)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            self.network.evaluate(feeds)
        return {"kernels": workers(profiler.events())}

    def parameters(self, request):
        # From the live module, not from the file it was built from. Recurrent modules hold their
        # own copies, which builders join again under the graph's names.
        held = {}
        for name in self.network.weights:
            held[name] = self.network.weight(name)
        for _, function in self.network.steps:
            if hasattr(function, "graph_parameters"):
                held.update(function.graph_parameters())
        return {}, {name: to_numpy(tensor) for name, tensor in held.items()}

    def fault(self, request):
        faults.plant(self.network, request)
        return {"planted": request["kind"]}

    def save(self, request):
        kind, path = request.get("format", "state_dict"), request["path"]
        if kind == "state_dict":
            torch.save({n: self.network.weight(n).detach().clone() for n in self.network.weights},
                       path)
        elif kind == "torchscript":
            examples = []
            for i in self.graph["inputs"]:
                if i["name"] in self.network.weights:
                    continue
                dims = [d if isinstance(d, int) and d >= 0 else 1 for d in (i["dims"] or [])]
                examples.append(torch.zeros(dims, dtype=DTYPES[i["dtype"]]))
            with warnings.catch_warnings():
                # Extents become constants of the trace: it holds for the example's shapes.
                warnings.simplefilter("ignore", torch.jit.TracerWarning)
                torch.jit.save(torch.jit.trace(self.network, tuple(examples)), path)
        else:
            raise Refused("this adapter saves state_dict and torchscript, not '%s'" % kind)
        return {"path": path}


if __name__ == "__main__":
    serve(PyTorch())
