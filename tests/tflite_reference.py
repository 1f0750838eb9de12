#!/usr/bin/env python3
"""Holds the tflite_* ops to TensorFlow Lite itself: every op of a quantised model, bit for bit.

    python3 tests/tflite_reference.py build/bin/etalon MODEL.tflite ...

Needs ai_edge_litert (or tflite_runtime) and numpy. The model runs with TensorFlow Lite's reference
kernels and keeps all its tensors; each op is then run by `etalon run` on the same inputs, as a graph
of one node, and its output compared. Ops without a tflite_* form are counted by name. Exit code 1
when a value differs.
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

try:
    from ai_edge_litert import interpreter as tflite
except ImportError:
    from tflite_runtime import interpreter as tflite


def nchw(a):
    return np.ascontiguousarray(np.moveaxis(a, -1, 1)) if a.ndim > 2 else a


def nhwc(a):
    return np.ascontiguousarray(np.moveaxis(a, 1, -1)) if a.ndim > 2 else a


def quantisation(detail):
    q = detail["quantization_parameters"]
    return q["scales"], (int(q["zero_points"][0]) if len(q["zero_points"]) else 0)


def same_or_valid(size, out, kernel):
    """Strides and padding of one axis, from its extents: TensorFlow Lite's SAME, or VALID."""
    for stride in range(1, size + 1):
        if -(-size // stride) == out:
            return stride, "same_upper"
        if (size - kernel) // stride + 1 == out:
            return stride, "valid"
    raise ValueError("no stride fits")


def window(x, y, kernel):
    axes = [same_or_valid(x.shape[1 + i], y.shape[1 + i], kernel[i]) for i in range(2)]
    same = any(pad == "same_upper" for _, pad in axes)
    return {"strides": [stride for stride, _ in axes],
            "auto_pad": "same_upper" if same else "valid"}


def node_of(op, tensors, details):
    """(op, params, inputs, transposed output) or None where there is no form."""
    ins = [i for i in op["inputs"] if i >= 0]
    out = op["outputs"][0]
    x, y = tensors[ins[0]], tensors[out]
    xs, xz = quantisation(details[ins[0]])
    ys, yz = quantisation(details[out])
    name = op["op_name"]
    scales = {"y_scale": float(ys[0]), "y_zero": yz} if len(ys) else {}
    # The fused activation is not told; a ReLU shows by a zero point at the lowest value, which the
    # type's own ends then hold.
    if name in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        w = tensors[ins[1]]
        ws, wz = quantisation(details[ins[1]])
        groups = 1
        if name == "DEPTHWISE_CONV_2D":
            groups = x.shape[-1]
            w = np.ascontiguousarray(np.transpose(w, (3, 0, 1, 2)))
        else:
            w = nchw(w)
        params = {"groups": int(groups), "x_scale": float(xs[0]), "x_zero": xz,
                  "w_scales": [float(s) for s in ws], "w_zero": wz, **scales,
                  **window(x, y, w.shape[2:])}
        return "tflite_conv", params, [nchw(x), w] + [tensors[i] for i in ins[2:]], nchw(y)
    if name == "FULLY_CONNECTED":
        ws, wz = quantisation(details[ins[1]])
        params = {"x_scale": float(xs[0]), "x_zero": xz, "w_scales": [float(s) for s in ws],
                  "w_zero": wz, **scales}
        flat = x.reshape(-1, tensors[ins[1]].shape[1])
        return "tflite_fully_connected", params, [flat] + [tensors[i] for i in ins[1:]], y
    if name in ("ADD", "SUB", "MUL"):
        bs, bz = quantisation(details[ins[1]])
        params = {"a_scale": float(xs[0]), "a_zero": xz, "b_scale": float(bs[0]), "b_zero": bz,
                  **scales}
        return "tflite_" + name.lower(), params, [x, tensors[ins[1]]], y
    if name == "AVERAGE_POOL_2D":
        # Global pools: the kernel is not told otherwise.
        if y.shape[1:3] != (1, 1):
            return None
        return "tflite_avg_pool", {"kernel": list(x.shape[1:3])}, [nchw(x)], nchw(y)
    unary = {"SOFTMAX": "tflite_softmax", "LOGISTIC": "tflite_logistic", "TANH": "tflite_tanh",
             "QUANTIZE": "tflite_requantize" if x.dtype != np.float32 else "tflite_quantize"}
    if name in unary and y.dtype in (np.int8, np.uint8, np.int16):
        params = dict(scales)
        if len(xs):
            params |= {"x_scale": float(xs[0]), "x_zero": xz}
        if name == "QUANTIZE":
            params["output_dtype"] = {"int8": "i8", "uint8": "u8", "int16": "i16"}[str(y.dtype)]
        return unary[name], params, [x], y
    return None


DTYPES = {"int8": "i8", "uint8": "u8", "int16": "i16", "int32": "i32", "int64": "i64",
          "float32": "f32"}


def run_node(program, folder, op, params, inputs):
    names = [f"x{i}" for i in range(len(inputs))]
    graph = {"etalon_graph": 1, "name": "one",
             "inputs": [{"name": n, "dtype": DTYPES[str(a.dtype)], "dims": list(a.shape)}
                        for n, a in zip(names, inputs)],
             "nodes": [{"name": op, "op": op, "params": params, "inputs": names, "outputs": ["y"]}],
             "outputs": [{"name": "y", "dtype": "i8", "dims": None}]}
    (folder / "one.json").write_text(json.dumps(graph))
    np.savez(folder / "in.npz", **dict(zip(names, inputs)))
    done = subprocess.run([program, "run", folder / "one.json", "--input", folder / "in.npz", "-o",
                           folder / "out.npz"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return np.load(folder / "out.npz")["y"]


def main():
    program, models = sys.argv[1], sys.argv[2:]
    equal, values, differing, without = collections.Counter(), 0, 0, collections.Counter()
    resolver = tflite.OpResolverType.BUILTIN_REF
    with tempfile.TemporaryDirectory() as temporary:
        for path in models:
            model = tflite.Interpreter(model_path=path, experimental_preserve_all_tensors=True,
                                       experimental_op_resolver_type=resolver)
            model.allocate_tensors()
            rng = np.random.default_rng(1)
            for d in model.get_input_details():
                if np.issubdtype(d["dtype"], np.integer):
                    ends = np.iinfo(d["dtype"])
                    x = rng.integers(ends.min, ends.max + 1, d["shape"]).astype(d["dtype"])
                else:
                    x = rng.standard_normal(d["shape"]).astype(d["dtype"])
                model.set_tensor(d["index"], x)
            model.invoke()
            details = {d["index"]: d for d in model.get_tensor_details()}
            for op in model._get_ops_details():
                used = [i for i in list(op["inputs"]) + list(op["outputs"]) if i >= 0]
                try:
                    tensors = {i: model.get_tensor(i) for i in used}
                except ValueError:
                    continue
                node = node_of(op, tensors, details)
                if node is None:
                    without[op["op_name"]] += 1
                    continue
                kind, params, inputs, want = node
                got = run_node(program, pathlib.Path(temporary), kind, params, inputs)
                got = got.reshape(want.shape)
                values += want.size
                wrong = int(np.count_nonzero(got != want))
                if wrong == 0:
                    equal[kind] += 1
                else:
                    differing += 1
                    print(f"{path}: {kind}: {wrong} of {want.size} values differ, by at most "
                          f"{np.abs(got.astype(int) - want.astype(int)).max()}; params {params}")
    for kind, n in sorted(equal.items()):
        print(f"{kind}: {n} equal")
    print(f"{sum(equal.values())} ops, {values} values equal in bits, {differing} ops differ; "
          f"without a form: {dict(without)}")
    return 1 if differing or not equal else 0


if __name__ == "__main__":
    sys.exit(main())
