#!/usr/bin/env python3
"""Writes the weights of VGG-16 (138 million numbers, 553 MB) as each format of `bench --import` holds them,
and many_tensors.*: 100 000 small tensors in each format that can hold them.

    PYTHON bench/runners/loaders/make_files.py FOLDER [pt h5 keras caffemodel index safetensors onnx many ...]

Formats whose library is not in the interpreter are left out with a word; run it again with another.
"""
import pathlib
import sys

import numpy as np

CONVS = [(3, 64), (64, 64), None, (64, 128), (128, 128), None, (128, 256), (256, 256), (256, 256), None, (256, 512),
         (512, 512), (512, 512), None, (512, 512), (512, 512), (512, 512), None]
DENSE = [(25088, 4096), (4096, 4096), (4096, 1000)]


def weights():
    rng = np.random.default_rng(1)
    out = {}
    convs = [c for c in CONVS if c]
    for i, (a, b) in enumerate(convs):
        out[f"conv{i}.weight"] = rng.standard_normal((b, a, 3, 3), np.float32)
        out[f"conv{i}.bias"] = rng.standard_normal(b, np.float32)
    for i, (a, b) in enumerate(DENSE):
        out[f"fc{i}.weight"] = rng.standard_normal((b, a), np.float32)
        out[f"fc{i}.bias"] = rng.standard_normal(b, np.float32)
    return out


def pt(folder, w):
    import torch
    torch.save({k: torch.from_numpy(v) for k, v in w.items()}, folder / "vgg16.pt")


def safetensors(folder, w):
    from safetensors.numpy import save_file
    save_file(w, folder / "vgg16.safetensors")


def h5(folder, w):
    import h5py
    with h5py.File(folder / "vgg16.h5", "w") as file:
        for k, v in w.items():
            file.create_dataset(k.replace(".", "/"), data=v)


def keras(folder, w):
    """A whole network of Keras' own in both its formats, which its own loader opens; its weights are its own, too."""
    import keras as library
    library.utils.set_random_seed(1)
    network = library.applications.VGG16(weights=None)
    network.save(folder / "vgg16_keras.h5")
    network.save(folder / "vgg16.keras")


def onnx(folder, w):
    from onnx import TensorProto, helper, numpy_helper, save
    nodes, x, n = [], "x", 0
    for c in CONVS:
        y = f"t{len(nodes)}"
        if c is None:
            nodes.append(helper.make_node("MaxPool", [x], [y], kernel_shape=[2, 2], strides=[2, 2]))
        else:
            nodes.append(helper.make_node("Conv", [x, f"conv{n}.weight", f"conv{n}.bias"], [y + "c"], pads=[1, 1, 1, 1]))
            nodes.append(helper.make_node("Relu", [y + "c"], [y]))
            n += 1
        x = y
    nodes.append(helper.make_node("Flatten", [x], ["flat"]))
    x = "flat"
    for i in range(3):
        nodes.append(helper.make_node("Gemm", [x, f"fc{i}.weight", f"fc{i}.bias"], [f"g{i}"], transB=1))
        x = f"g{i}"
    graph = helper.make_graph(nodes, "vgg16", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 224, 224])],
                              [helper.make_tensor_value_info(x, TensorProto.FLOAT, [1, 1000])],
                              [numpy_helper.from_array(v, k) for k, v in w.items()])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "vgg16.onnx")


def varint(n):
    out = b""
    while n > 0x7F:
        out += bytes([n & 0x7F | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def caffemodel(folder, w):
    """NetParameter in the wire format; beside it the prototxt that Caffe wants."""
    def blob(a):
        return field(7, field(7, field(1, b"".join(varint(d) for d in a.shape))) + field(5, a.tobytes()))
    text = ['name: "vgg16"', 'input: "data"', "input_dim: 1", "input_dim: 3", "input_dim: 224", "input_dim: 224"]
    bottom, n = "data", 0
    with open(folder / "vgg16.caffemodel", "wb") as out:
        out.write(field(1, b"vgg16"))

        def layer(name, kind, params, tensors):
            nonlocal bottom
            text.append(f'layer {{ name: "{name}" type: "{kind}" bottom: "{bottom}" top: "{name}" {params} }}')
            if tensors:
                body = field(1, name.encode()) + field(2, kind.encode()) + field(3, bottom.encode()) + field(4, name.encode())
                out.write(field(100, body + b"".join(blob(w[t]) for t in tensors)))
            bottom = name
        for i, c in enumerate(CONVS):
            if c is None:
                layer(f"pool{i}", "Pooling", "pooling_param { pool: MAX kernel_size: 2 stride: 2 }", ())
            else:
                layer(f"conv{n}", "Convolution", f"convolution_param {{ num_output: {c[1]} kernel_size: 3 pad: 1 }}",
                      (f"conv{n}.weight", f"conv{n}.bias"))
                layer(f"relu{n}", "ReLU", "", ())
                n += 1
        for i, (a, b) in enumerate(DENSE):
            layer(f"fc{i}", "InnerProduct", f"inner_product_param {{ num_output: {b} }}", (f"fc{i}.weight", f"fc{i}.bias"))
    (folder / "vgg16.prototxt").write_text("\n".join(text) + "\n")


def index(folder, w):
    import tensorflow as tf
    tf.train.Checkpoint(**{k.replace(".", "_"): tf.Variable(v) for k, v in w.items()}).write(str(folder / "vgg16"))


def flatbuffer(parts):
    """Model of .tflite with one subgraph whose tensors have `parts`: (name, shape, bytes)."""
    import flatbuffers
    b = flatbuffers.Builder(1 << 24)

    def table(count, slots):
        b.StartObject(count)
        for slot, kind, value in slots:
            {"offset": lambda s, v: b.PrependUOffsetTRelativeSlot(s, v, 0), "u32": lambda s, v: b.PrependUint32Slot(s, v, 0),
             "i8": lambda s, v: b.PrependInt8Slot(s, v, 0)}[kind](slot, value)
        return b.EndObject()

    def vector(offsets):
        b.StartVector(4, len(offsets), 4)
        for o in reversed(offsets):
            b.PrependUOffsetTRelative(o)
        return b.EndVector()
    buffers, tensors = [table(3, [])], []
    for i, (name, shape, data) in enumerate(parts):
        held = b.CreateByteVector(data)
        buffers.append(table(3, [(0, "offset", held)]))
        text = b.CreateString(name)
        dims = b.CreateNumpyVector(np.array(shape, np.int32))
        tensors.append(table(10, [(0, "offset", dims), (1, "i8", 0), (2, "u32", i + 1), (3, "offset", text)]))
    none, all_of_them = (b.CreateNumpyVector(np.arange(n, dtype=np.int32)) for n in (0, len(tensors)))
    subgraph = table(5, [(0, "offset", vector(tensors)), (1, "offset", none), (2, "offset", all_of_them), (3, "offset", vector([]))])
    model = table(8, [(0, "u32", 3), (1, "offset", vector([])), (2, "offset", vector([subgraph])), (4, "offset", vector(buffers))])
    b.Finish(model, b"TFL3")
    return bytes(b.Output())


def many(folder, _):
    import pickle
    import struct
    rng = np.random.default_rng(2)
    tensors = {f"layer{i // 4}.part{i % 4}.weight": rng.standard_normal((3, 5), np.float32) for i in range(100_000)}

    def attempt(name, make):
        try:
            make(folder / ("many_tensors" + name))
            print("many_tensors" + name)
        except ImportError as error:
            print(f"many_tensors{name}: left out, {error}")

    def as_safetensors(path):
        from safetensors.numpy import save_file
        save_file(tensors, path)

    def as_pt(path, **how):
        import torch
        torch.save({k: torch.from_numpy(v) for k, v in tensors.items()}, path, **how)

    def as_h5(path):
        import h5py
        with h5py.File(path, "w") as file:
            for k, v in tensors.items():
                file.create_dataset(k.replace(".", "/"), data=v)

    def as_onnx(path):
        from onnx import TensorProto, helper, numpy_helper, save
        node = helper.make_node("Relu", ["x"], ["y"])
        x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy")
        graph = helper.make_graph([node], "many", [x], [y], [numpy_helper.from_array(v, k) for k, v in tensors.items()])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)

    def as_gguf(path):
        out, at = [b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 0)], 0
        for k in tensors:
            out.append(struct.pack("<Q", len(k)) + k.encode() + struct.pack("<IQQIQ", 2, 5, 3, 0, at))
            at += 64
        head = b"".join(out)
        path.write_bytes(head + bytes(-len(head) % 32) + b"".join(v.tobytes().ljust(64, b"\0") for v in tensors.values()))

    def as_checkpoint(path):
        import tensorflow as tf
        names = list(tensors)
        tf.raw_ops.SaveV2(prefix=str(path)[: -len(".index")], tensor_names=names, shape_and_slices=[""] * len(names),
                          tensors=[tf.constant(v) for v in tensors.values()])

    def as_checkpoint_v1(path):
        import tensorflow as tf
        tf.raw_ops.Save(filename=str(path), tensor_names=list(tensors), data=[tf.constant(v) for v in tensors.values()])

    def as_msgpack(path):
        import msgpack
        tree = {}
        for k, v in tensors.items():
            layer, part, leaf = k.split(".")
            packed = msgpack.packb((v.shape, v.dtype.name, v.tobytes()), use_bin_type=True)
            tree.setdefault(layer, {}).setdefault(part, {})[leaf] = msgpack.ExtType(1, packed)
        path.write_bytes(msgpack.packb(tree, use_bin_type=True))

    def as_ncnn(path):
        """50 000 layers of a matrix and a bias each: here the graph is as long as the list of its weights."""
        layers = 50_000
        lines = ["7767517", f"{layers + 1} {layers + 1}", "Input data 0 1 y0 0=4"]
        lines += [f"InnerProduct layer{i} 1 1 y{i} y{i + 1} 0=4 1=1 2=16" for i in range(layers)]
        path.write_text("\n".join(lines) + "\n")
        rows = rng.standard_normal((layers, 20), np.float32)
        path.with_suffix(".bin").write_bytes(b"".join(bytes(4) + row.tobytes() for row in rows))

    attempt(".safetensors", as_safetensors)
    attempt(".npz", lambda path: np.savez(path, **tensors))
    attempt(".pkl", lambda path: path.write_bytes(pickle.dumps(tensors, 4)))
    attempt(".pt", as_pt)
    attempt("_legacy.pt", lambda path: as_pt(path, _use_new_zipfile_serialization=False))
    attempt(".h5", as_h5)
    attempt(".onnx", as_onnx)
    attempt(".tflite", lambda path: path.write_bytes(flatbuffer((k, v.shape, v.tobytes()) for k, v in tensors.items())))
    attempt(".gguf", as_gguf)
    attempt(".index", as_checkpoint)
    attempt("_v1.ckpt", as_checkpoint_v1)
    attempt(".msgpack", as_msgpack)
    attempt(".param", as_ncnn)


MAKERS = {"pt": pt, "safetensors": safetensors, "h5": h5, "keras": keras, "onnx": onnx, "caffemodel": caffemodel, "index": index, "many": many}

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    to = pathlib.Path(sys.argv[1])
    to.mkdir(parents=True, exist_ok=True)
    made = {} if sys.argv[2:] == ["many"] else weights()
    for name in sys.argv[2:] or MAKERS:
        try:
            MAKERS[name](to, made)
            print(name)
        except ImportError as error:
            print(f"{name}: left out, {error}")
