#!/usr/bin/env python3
"""Writes tests/fuzz/seeds: for each harness one small model, its files named as harnesses.h names them.

    python3 -m venv /tmp/v && /tmp/v/bin/pip install numpy h5py onnx tensorflow keras torch
    /tmp/v/bin/python tests/fuzz/make_seeds.py [HARNESS ...]

The network is always the same: a convolution of 3x3 over [1, 6, 6], ReLU, pooling, a dense layer. Files
of TensorFlow, Keras, ONNX, PyTorch and NumPy are made by these; those of systems that no longer install
are written here from their format's description (the tests read real ones where they are present).
"""
import io
import json
import os
import pathlib
import pickle
import shutil
import struct
import sys
import zipfile

import numpy as np

OUT = pathlib.Path(__file__).resolve().parent / "seeds"
RNG = np.random.default_rng(7)
CONV = RNG.standard_normal((2, 1, 3, 3)).astype(np.float32)
CONV_BIAS = np.array([0.5, -0.0], np.float32)
DENSE = RNG.standard_normal((3, 8)).astype(np.float32)
DENSE_BIAS = np.array([1e-40, 0.25, -1], np.float32)


def write(harness, name, data):
    path = OUT / harness / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


# -- protobuf, without a schema --


def varint(n):
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def pb(*fields):
    """(number, value): an int is a varint, a float fixed32, bytes and str a length and content."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value)
        elif isinstance(value, float):
            out += varint(number << 3 | 5) + struct.pack("<f", value)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


# -- Caffe --


def blob(array):
    return pb((7, pb((1, b"".join(varint(d) for d in array.shape)))), (5, array.astype("<f4").tobytes()))


def caffe():
    text = """name: "small"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 1 dim: 6 dim: 6 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 2 kernel_size: 3 } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool" pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc" inner_product_param { num_output: 3 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""
    data = pb((1, "data"), (2, "Input"), (4, "data"), (143, pb((1, pb((1, 1), (1, 1), (1, 6), (1, 6))))))
    conv = pb((1, "conv"), (2, "Convolution"), (3, "data"), (4, "conv"), (106, pb((1, 2), (4, 3))),
              (7, blob(CONV)), (7, blob(CONV_BIAS)))
    relu = pb((1, "relu"), (2, "ReLU"), (3, "conv"), (4, "conv"))
    pool = pb((1, "pool"), (2, "Pooling"), (3, "conv"), (4, "pool"), (121, pb((1, 0), (2, 2), (3, 2))))
    dense = pb((1, "fc"), (2, "InnerProduct"), (3, "pool"), (4, "fc"), (117, pb((1, 3))), (7, blob(DENSE)),
               (7, blob(DENSE_BIAS)))
    weights = pb((1, "small"), *[(100, layer) for layer in (data, conv, relu, pool, dense)])
    write("caffe", "m.prototxt", text)
    write("caffe", "m.caffemodel", weights)
    write("caffemodel", "m.caffemodel", weights)
    write("caffe-blob", "m.binaryproto",
          pb((1, 1), (2, 3), (3, 2), (4, 2), (5, np.arange(12, dtype="<f4").tobytes())))
    write("caffe-solver", "m.solverstate", pb((1, 400), (3, blob(CONV)), (3, blob(DENSE)), (4, 2)))
    import h5py
    with h5py.File(OUT / "small.h5", "w") as file:
        for name, blobs in (("conv", (CONV, CONV_BIAS)), ("fc", (DENSE, DENSE_BIAS))):
            for i, array in enumerate(blobs):
                file.create_dataset(f"data/{name}/{i}", data=array)
    write("caffe-h5", "m.prototxt", text)
    write("caffe-h5", "m.caffemodel.h5", (OUT / "small.h5").read_bytes())
    (OUT / "small.h5").unlink()


# -- MXNet --


def mxnet():
    def array(a):
        return (struct.pack("<Ii", 0xF993FAC9, 0) + struct.pack("<I", a.ndim) + struct.pack(f"<{a.ndim}q", *a.shape)
                + struct.pack("<iii", 1, 0, 0) + a.astype("<f4").tobytes())
    tensors = {"arg:conv_weight": CONV, "arg:conv_bias": CONV_BIAS, "arg:fc_weight": DENSE, "arg:fc_bias": DENSE_BIAS}
    params = struct.pack("<QQQ", 0x112, 0, len(tensors)) + b"".join(array(a) for a in tensors.values())
    params += struct.pack("<Q", len(tensors)) + b"".join(struct.pack("<Q", len(n)) + n.encode() for n in tensors)
    names = ["data", "conv_weight", "conv_bias", "conv", "relu", "pool", "flat", "fc_weight", "fc_bias", "fc"]
    ops = {"conv": ("Convolution", {"kernel": "(3, 3)", "num_filter": "2"}, [0, 1, 2]),
           "relu": ("Activation", {"act_type": "relu"}, [3]),
           "pool": ("Pooling", {"kernel": "(2, 2)", "stride": "(2, 2)", "pool_type": "max"}, [4]),
           "flat": ("Flatten", {}, [5]), "fc": ("FullyConnected", {"num_hidden": "3"}, [6, 7, 8])}
    nodes = []
    for name in names:
        op, attrs, inputs = ops.get(name, ("null", {"__shape__": "(1, 1, 6, 6)"} if name == "data" else {}, []))
        nodes.append({"op": op, "name": name, "attrs": attrs, "inputs": [[i, 0, 0] for i in inputs]})
    symbol = {"nodes": nodes, "arg_nodes": [0, 1, 2, 7, 8], "heads": [[9, 0, 0]], "attrs": {"mxnet_version": ["int", 10901]}}
    write("mxnet", "m-symbol.json", json.dumps(symbol, indent=1))
    write("mxnet", "m-0000.params", params)
    write("mxnet-params", "m.params", params)


# -- Torch7 --


def torch7():
    count = [0]

    def index():
        count[0] += 1
        return struct.pack("<i", count[0])

    def text(s):
        return struct.pack("<i", len(s)) + s.encode()

    def value(v):
        if isinstance(v, bool):
            return struct.pack("<ii", 5, v)
        if isinstance(v, (int, float)):
            return struct.pack("<id", 1, v)
        if isinstance(v, str):
            return struct.pack("<i", 2) + text(v)
        if isinstance(v, np.ndarray):
            strides = [s // v.itemsize for s in v.strides]
            out = struct.pack("<i", 4) + index() + text("V 1") + text("torch.FloatTensor") + struct.pack("<i", v.ndim)
            out += struct.pack(f"<{v.ndim}q", *v.shape) + struct.pack(f"<{v.ndim}q", *strides) + struct.pack("<q", 1)
            out += struct.pack("<i", 4) + index() + text("V 1") + text("torch.FloatStorage")
            return out + struct.pack("<q", v.size) + v.tobytes()
        if isinstance(v, list):
            return (struct.pack("<i", 4) + index() + text("V 1") + text("torch.LongStorage")
                    + struct.pack(f"<q{len(v)}q", len(v), *v))
        if isinstance(v, tuple):  # class and fields
            return struct.pack("<i", 4) + index() + text("V 1") + text(v[0]) + value(v[1])
        out = struct.pack("<i", 3) + index() + struct.pack("<i", len(v))
        return out + b"".join(value(k) + value(x) for k, x in v.items())

    conv = ("nn.SpatialConvolution", {"nInputPlane": 1, "nOutputPlane": 2, "kW": 3, "kH": 3, "dW": 1, "dH": 1, "padW": 0,
                                      "padH": 0, "weight": CONV, "bias": CONV_BIAS})
    pool = ("nn.SpatialMaxPooling", {"kW": 2, "kH": 2, "dW": 2, "dH": 2, "padW": 0, "padH": 0, "ceil_mode": False})
    norm = ("nn.SpatialBatchNormalization", {"eps": 1e-5, "weight": CONV_BIAS + 1, "bias": CONV_BIAS,
                                             "running_mean": CONV_BIAS, "running_var": CONV_BIAS + 2})
    net = ("nn.Sequential", {"train": False, "size": [8],
                             "modules": {1: conv, 2: norm, 3: ("nn.ReLU", {"inplace": False}), 4: pool}})
    for harness in ("torch7", "container-t7"):
        count[0] = 0
        write(harness, "m.t7" if harness == "torch7" else "m", value(net))


# -- Darknet --


def darknet():
    write("darknet", "m.cfg", """[net]
height=6
width=6
channels=1

[convolutional]
batch_normalize=1
filters=2
size=3
stride=1
pad=0
activation=leaky

[maxpool]
size=2
stride=2

[connected]
output=3
activation=linear

[softmax]
""")
    norm = np.array([[0, 0.5], [1, 2], [0.1, 0.2], [1, 1.5]], np.float32)
    write("darknet", "m.weights", struct.pack("<iiiQ", 0, 2, 5, 0) + norm.tobytes() + CONV.tobytes() + DENSE_BIAS.tobytes()
          + DENSE.tobytes())


# -- Core ML --


def coreml():
    def feature(name, dims):
        return pb((1, name), (3, pb((5, pb((1, b"".join(varint(d) for d in dims)), (2, 65568))))))
    weights = pb((1, DENSE.astype("<f4").tobytes()))
    bias = pb((1, DENSE_BIAS.astype("<f4").tobytes()))
    layer = pb((1, "fc"), (2, "x"), (3, "t"), (140, pb((1, 8), (2, 3), (10, 1), (20, weights), (21, bias))))
    act = pb((1, "relu"), (2, "t"), (3, "y"), (130, pb((10, b""))))
    write("coreml", "m.mlmodel", pb((1, 1), (2, pb((1, feature("x", [8])), (10, feature("y", [3])))),
                                    (500, pb((1, layer), (1, act)))))


# -- NumPy, Theano, safetensors, idx, the neutral graph --


def small():
    for name, source in (("npy", "numpy/f4_be_F.npy"), ("container-npy", "numpy/f8_le_C.npy"), ("npz", "numpy/deflated.npz"),
                         ("container-zip", "numpy/deflated.npz"), ("idx", "idx/f4.idx"), ("hdf5", "hdf5/old.h5"),
                         ("container-hdf5", "hdf5/new.h5"), ("pickle", "pickles/values_2.pkl"),
                         ("container-pickle", "pickles/values_4.pkl"), ("pytorch", "pickles/module.pt"),
                         ("pytorch-script", "torch_graphs/block_traced.pt"), ("gguf", "gguf/blocks.gguf"),
                         ("flax", "flax/chunks.msgpack"),
                         ("safetensors", "neutral/m.safetensors"), ("onnx", "onnx_nodes/conv_1.onnx"),
                         ("tensorflow-text", "frameworks/small.pbtxt")):
        path = OUT.parents[1] / "fixtures" / source
        container = name.startswith("container")
        write(name, "m" if container else "m" + path.suffix, path.read_bytes())
    fixtures = OUT.parents[1] / "fixtures" / "neutral"
    for name in ("m.json", "m.safetensors"):
        write("neutral", name, (fixtures / name).read_bytes())
    write("container-json", "m", (fixtures / "m.json").read_bytes())
    write("container-wire", "m", pb((1, 3), (2, "text"), (3, pb((1, 2.5), (2, 1 << 40)))))
    # Snappy: 12 bytes, a literal of 4 and a copy of 8 from 4 back.
    write("container-snappy", "m", bytes([12, 3 << 2]) + b"abcd" + bytes([(8 - 4) << 2 | 1, 4]))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        array = io.BytesIO()
        np.save(array, DENSE)
        z.writestr("array_0", array.getvalue())

        class Persist(pickle.Pickler):
            def persistent_id(self, value):
                return ("array", 0) if isinstance(value, np.ndarray) else None
        # theano.misc.pkl_utils: a persistent id names the member and its kind.
        data = io.BytesIO()

        class Named(pickle.Pickler):
            def persistent_id(self, value):
                return "numpy.ndarray.array_0" if isinstance(value, np.ndarray) else None
        Named(data, 2).dump([DENSE])
        z.writestr("pkl", data.getvalue())
    write("theano-zip", "m.zip", out.getvalue())


# -- by the frameworks --


def onnx_files():
    from onnx import numpy_helper
    write("onnx-tensor", "m.pb", numpy_helper.from_array(DENSE, "w").SerializeToString())


def keras_and_tensorflow():
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import keras
    import tensorflow as tf
    model = keras.Sequential([keras.Input((6, 6, 1)), keras.layers.Conv2D(2, 3, activation="relu"),
                              keras.layers.MaxPooling2D(), keras.layers.Flatten(), keras.layers.Dense(3, activation="softmax")])
    model.layers[0].set_weights([CONV.transpose(2, 3, 1, 0), CONV_BIAS])
    model.layers[-1].set_weights([DENSE.T.copy(), DENSE_BIAS])
    scratch = OUT / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    model.save(scratch / "m.h5")
    write("keras", "m.h5", (scratch / "m.h5").read_bytes())
    model.save(scratch / "m.keras")
    write("keras-v3", "m.keras", (scratch / "m.keras").read_bytes())

    class Net(tf.Module):
        def __init__(self):
            self.w = tf.Variable(CONV.transpose(2, 3, 1, 0))
            self.d = tf.Variable(DENSE.T.copy())

        @tf.function(input_signature=[tf.TensorSpec([None, 6, 6, 1], tf.float32)])
        def __call__(self, x):
            y = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, self.w, 1, "VALID")), 2, 2, "VALID")
            return tf.nn.softmax(tf.reshape(y, [-1, 8]) @ self.d)
    net = Net()
    tf.saved_model.save(net, scratch / "saved", net.__call__)
    for name in ("saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001"):
        write("tensorflow-saved-model", "m/" + name, (scratch / "saved" / name).read_bytes())
    for name, to in (("index", "m.index"), ("data-00000-of-00001", "m.data-00000-of-00001")):
        write("tensorflow-checkpoint", to, (scratch / "saved/variables" / ("variables." + name)).read_bytes())
    write("container-sstable", "m", (scratch / "saved/variables/variables.index").read_bytes())
    converter = tf.lite.TFLiteConverter.from_concrete_functions([net.__call__.get_concrete_function()], net)
    write("tflite", "m.tflite", converter.convert())
    v1 = tf.compat.v1
    with v1.Graph().as_default() as graph, v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 6, 6, 1], "x")
        w = v1.get_variable("w", initializer=CONV.transpose(2, 3, 1, 0), use_resource=False)
        y = tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME"), "y")
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, str(scratch / "v2"))
        v1.train.Saver(write_version=v1.train.SaverDef.V1).save(session, str(scratch / "v1.ckpt"))
        frozen = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
        write("tensorflow", "m.pb", frozen.SerializeToString())
    for name, to in (("v2.meta", "m.meta"), ("v2.index", "m.index"), ("v2.data-00000-of-00001", "m.data-00000-of-00001")):
        write("tensorflow-meta", to, (scratch / name).read_bytes())
    write("tensorflow-checkpoint-v1", "m.ckpt", (scratch / "v1.ckpt").read_bytes())
    shutil.rmtree(scratch)


def tfjs():
    kernel = CONV.transpose(2, 3, 1, 0)
    arrays = {"conv/kernel": kernel, "conv/bias": CONV_BIAS, "fc/kernel": DENSE.T, "fc/bias": DENSE_BIAS}
    layers = [{"class_name": "Conv2D", "config": {"name": "conv", "filters": 2, "kernel_size": [3, 3], "strides": [1, 1],
                                                  "padding": "valid", "data_format": "channels_last", "activation": "relu",
                                                  "use_bias": True, "batch_input_shape": [None, 6, 6, 1]}},
              {"class_name": "MaxPooling2D", "config": {"name": "pool", "pool_size": [2, 2], "strides": [2, 2],
                                                        "padding": "valid", "data_format": "channels_last"}},
              {"class_name": "Flatten", "config": {"name": "flat"}},
              {"class_name": "Dense", "config": {"name": "fc", "units": 3, "activation": "softmax", "use_bias": True}}]
    manifest = [{"paths": ["weights.bin"],
                 "weights": [{"name": n, "shape": list(a.shape), "dtype": "float32"} for n, a in arrays.items()]}]
    write("tfjs", "m.json", json.dumps({
        "format": "layers-model", "generatedBy": "keras v2.4.0", "convertedBy": None,
        "modelTopology": {"keras_version": "2.4.0", "backend": "tensorflow",
                          "model_config": {"class_name": "Sequential", "config": {"name": "small", "layers": layers}}},
        "weightsManifest": manifest}, indent=1))
    write("tfjs", "weights.bin", b"".join(np.ascontiguousarray(a).tobytes() for a in arrays.values()))


def pytorch():
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(1, 2, 3)
            self.fc = torch.nn.Linear(8, 3)

        def forward(self, x):
            return self.fc(torch.max_pool2d(torch.relu(self.conv(x)), 2).flatten(1))
    torch.manual_seed(7)
    program = torch.export.export(Net(), (torch.zeros(1, 1, 6, 6),))
    for node in program.graph.nodes:  # where on the maker's machine a call was written
        node.meta.pop("stack_trace", None)
    torch.export.save(program, OUT / "small.pt2")
    write("pytorch-exported", "m.pt2", (OUT / "small.pt2").read_bytes())
    (OUT / "small.pt2").unlink()


MAKERS = [caffe, mxnet, torch7, darknet, coreml, small, onnx_files, tfjs, keras_and_tensorflow, pytorch]

if __name__ == "__main__":
    for maker in MAKERS:
        if len(sys.argv) > 1 and maker.__name__ not in sys.argv[1:]:
            continue
        try:
            maker()
        except ImportError as error:
            print(f"{maker.__name__}: left out, {error}")
