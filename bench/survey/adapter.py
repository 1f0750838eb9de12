"""A library's functions over big blocks of float32, for etalon survey.

    adapter.py LIBRARY        numpy, pytorch or onnxruntime

First line out: {"version": ..., "functions": [...]}. Then for each line in, {"function", "x", "y",
"count", "threads"}: reads `count` floats from file x, writes as many to file y, answers {"ok": true}
or {"error": reason}.
"""
import json
import os
import sys

# Threads that wait for the next block would keep processors from who compares the last one.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def numpy_functions():
    import numpy as np
    names = ("exp exp2 expm1 log log2 log10 log1p sqrt cbrt reciprocal sin cos tan sinh cosh tanh").split()
    f = {name: getattr(np, name) for name in names}
    f.update({"asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "asinh": np.arcsinh,
              "acosh": np.arccosh, "atanh": np.arctanh})
    np.seterr(all="ignore")

    def run(function, x, threads):
        return f[function](x)
    return np.__version__, list(f), run


def pytorch_functions():
    import torch
    import torch.nn.functional as F
    names = ("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan "
             "sinh cosh tanh asinh acosh atanh erf erfc sigmoid").split()
    f = {name: getattr(torch, name) for name in names}
    f.update({"log_sigmoid": F.logsigmoid, "softplus": F.softplus,
              "silu": F.silu, "gelu": F.gelu, "mish": F.mish, "softsign": F.softsign, "elu": F.elu,
              "selu": F.selu, "celu": F.celu, "hard_swish": F.hardswish, "hard_tanh": F.hardtanh,
              "leaky_relu": F.leaky_relu})
    try:
        F.gelu(torch.zeros(1), approximate="tanh")
        f["gelu_tanh"] = lambda x: F.gelu(x, approximate="tanh")
    except TypeError:  # versions before 1.12
        pass

    def run(function, x, threads):
        torch.set_num_threads(threads)
        with torch.no_grad():
            return f[function](torch.from_numpy(x)).numpy()
    return torch.__version__, list(f), run


def onnxruntime_functions():
    import onnxruntime as ort
    from onnx import TensorProto, helper
    nodes = {"exp": "Exp", "log": "Log", "sqrt": "Sqrt", "reciprocal": "Reciprocal", "sin": "Sin",
             "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
             "sinh": "Sinh", "cosh": "Cosh", "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh",
             "atanh": "Atanh", "erf": "Erf", "sigmoid": "Sigmoid", "softplus": "Softplus",
             "gelu": "Gelu", "mish": "Mish", "softsign": "Softsign", "elu": "Elu", "selu": "Selu",
             "celu": "Celu", "hard_sigmoid": "HardSigmoid", "hard_swish": "HardSwish",
             "leaky_relu": "LeakyRelu", "gelu_tanh": "Gelu"}
    sessions = {}

    def session(function, threads):
        key = function, threads
        if key not in sessions:
            given = {"approximate": "tanh"} if function == "gelu_tanh" else {}
            node = helper.make_node(nodes[function], ["x"], ["y"], **given)
            kind = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in ("x", "y")]
            model = helper.make_model(helper.make_graph([node], "g", kind[:1], kind[1:]),
                                      opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
            options = ort.SessionOptions()
            options.intra_op_num_threads = threads
            sessions[key] = ort.InferenceSession(model.SerializeToString(), options,
                                                 providers=["CPUExecutionProvider"])
        return sessions[key]

    def run(function, x, threads):
        return session(function, threads).run(None, {"x": x})[0]
    return ort.__version__, list(nodes), run


def main():
    out = sys.stdout
    sys.stdout = sys.stderr  # what a library prints is not an answer

    def answer(message):
        out.write(json.dumps(message) + "\n")
        out.flush()
    try:
        import numpy as np
        version, functions, run = {"numpy": numpy_functions, "pytorch": pytorch_functions,
                                   "onnxruntime": onnxruntime_functions}[sys.argv[1]]()
    except Exception as e:
        answer({"error": f"{type(e).__name__}: {e}"})
        return
    answer({"version": version, "functions": functions, "python": sys.version.split()[0]})
    mapped = {}  # whole files, once: a block's pages are then there

    def block(path, count):
        if path not in mapped:
            mapped[path] = np.asarray(np.memmap(path, np.float32, "r+"))
        return mapped[path][:count]

    for line in sys.stdin:
        try:
            job = json.loads(line)
            x = block(job["x"], job["count"])
            y = run(job["function"], x, job["threads"])
            assert y.dtype == np.float32 and y.shape == x.shape
            block(job["y"], job["count"])[:] = y
            answer({"ok": True})
        except Exception as e:
            answer({"error": f"{type(e).__name__}: {e}"})


main()
