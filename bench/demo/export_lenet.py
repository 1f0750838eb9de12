#!/usr/bin/env python3
"""Writes lenet.onnx from lenet.safetensors: python3 bench/demo/export_lenet.py bench/demo

Needs the packages onnx and numpy. The graph has one node per layer, a named batch axis, and the
logits as its output.
"""
import json
import pathlib
import struct
import sys

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    body = data[8 + length :]
    return {
        name: numpy.frombuffer(body[slice(*t["data_offsets"])], "<f4").reshape(t["shape"])
        for name, t in header.items()
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    tensors = read_safetensors(folder / "lenet.safetensors")

    def node(op, inputs, name, **attributes):
        return helper.make_node(op, inputs, [name], name=name, **attributes)

    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        node("Conv", ["image", "conv1.weight", "conv1.bias"], "conv1", kernel_shape=[5, 5]),
        node("MaxPool", ["conv1"], "pool1", **pool),
        node("Tanh", ["pool1"], "tanh1"),
        node("Conv", ["tanh1", "conv2.weight", "conv2.bias"], "conv2", kernel_shape=[5, 5]),
        node("MaxPool", ["conv2"], "pool2", **pool),
        node("Tanh", ["pool2"], "tanh2"),
        node("Flatten", ["tanh2"], "flatten", axis=1),
        node("Gemm", ["flatten", "fc1.weight", "fc1.bias"], "fc1", transB=1),
        node("Relu", ["fc1"], "relu1"),
        node("Gemm", ["relu1", "fc2.weight", "fc2.bias"], "logits", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "lenet",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 28, 28])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    model = helper.make_model(
        graph,
        producer_name="etalon bench/demo/export_lenet.py",
        ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)],
    )
    onnx.checker.check_model(model, full_check=True)
    (folder / "lenet.onnx").write_bytes(model.SerializeToString(deterministic=True))


if __name__ == "__main__":
    main()
