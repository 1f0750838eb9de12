"""Opens weight files with the loader of the framework that wrote them, for `bench --import`.

Every loader ends with all tensors in memory, as its own user gets them: what is mapped or lazy is
read, since ours is timed up to the hash of every byte.
"""
import importlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "common"))
from protocol import Adapter, Refused, serve  # noqa: E402
import numpy as np  # noqa: E402


def need(module):
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Refused("no module %s in %s (%s)" % (module, sys.executable, error))


def torch_loader(path, threads):
    torch = need("torch")
    torch.set_num_threads(threads)
    return lambda: torch.load(path, map_location="cpu", weights_only=True)


def safetensors_loader(path, threads):
    module = need("safetensors.numpy")
    return lambda: module.load_file(path)


def keras_loader(path, threads):
    keras = need("keras")
    return lambda: keras.models.load_model(path, compile=False)


def hdf5_loader(path, threads):
    h5py = need("h5py")
    with h5py.File(path, "r") as file:
        whole = "model_config" in file.attrs
    if whole:  # a network of Keras, which has a loader of its own
        return keras_loader(path, threads)

    def open_file():
        arrays = {}
        with h5py.File(path, "r") as file:
            file.visititems(lambda name, item: arrays.__setitem__(name, item[()])
                            if isinstance(item, h5py.Dataset) else None)
        return arrays
    return open_file


def onnx_loader(path, threads):
    onnx = need("onnx")
    numpy_helper = need("onnx.numpy_helper")
    return lambda: [numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer]


def checkpoint_loader(path, threads):
    tf = need("tensorflow")
    tf.config.threading.set_intra_op_parallelism_threads(threads)

    def open_file():
        reader = tf.train.load_checkpoint(path[: -len(".index")])
        return [reader.get_tensor(name) for name in reader.get_variable_to_shape_map()]
    return open_file


def caffe_loader(path, threads):
    cv2 = need("cv2")
    cv2.setNumThreads(threads)
    text = path[: -len(".caffemodel")] + ".prototxt"
    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        raise Refused("OpenCV %s reads Caffe files no more; install opencv-python-headless<5"
                      % cv2.__version__)
    return lambda: cv2.dnn.readNetFromCaffe(text, path)


LOADERS = {".pt": torch_loader, ".pth": torch_loader, ".safetensors": safetensors_loader,
           ".h5": hdf5_loader, ".hdf5": hdf5_loader, ".keras": keras_loader, ".onnx": onnx_loader,
           ".index": checkpoint_loader, ".caffemodel": caffe_loader}
MODULES = {".pt": "torch", ".pth": "torch", ".safetensors": "safetensors", ".h5": "h5py",
           ".hdf5": "h5py", ".keras": "keras", ".onnx": "onnx", ".index": "tensorflow", ".caffemodel": "cv2"}


class Loaders(Adapter):
    capabilities = ["open", "memory"]

    def hello(self, request):
        self.threads = int(request.get("threads", 1))
        return {"framework": "Loaders", "version": "numpy " + np.__version__,
                "versions": {"numpy": np.__version__}, "build": "", "threads": self.threads,
                "options": {}}

    def prepare_opening(self, request):
        path = request["model"]
        ending = os.path.splitext(path)[1]
        if ending not in LOADERS:
            raise Refused("no loader for '%s'; there are %s" % (ending, ", ".join(sorted(LOADERS))))
        loader = LOADERS[ending](path, self.threads)
        sys.stderr.write("%s %s\n" % (MODULES[ending], getattr(
            sys.modules[MODULES[ending]], "__version__", "")))
        return loader


if __name__ == "__main__":
    serve(Loaders())
