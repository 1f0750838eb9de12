"""The adapter's half of the runner protocol (docs/runners.md), in pure Python and NumPy.

An adapter subclasses `Adapter`, and calls `serve(MyAdapter())`. Standard output belongs to the
protocol: before the framework is imported, file descriptor 1 is pointed at standard error, so that
whatever a framework prints cannot end up between two answers.

Tensors are (dtype, array) pairs. `dtype` is Etalon's name ("f32", "bf16", ...); NumPy has no
bfloat16, so a bf16 tensor's array holds its 16 bits as uint16.

Runs on Python 3.6 and later: old frameworks need old interpreters.
"""
import json
import os
import shutil
import struct
import sys
import threading
import time
import traceback

PROTOCOL = 1

_answers = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
os.dup2(2, 1)

import numpy as np  # noqa: E402  (after the descriptors are settled: NumPy may warn on import)

# Etalon's name, safetensors' name, NumPy's storage.
_DTYPES = [
    ("f64", "F64", "<f8"), ("f32", "F32", "<f4"), ("f16", "F16", "<f2"), ("bf16", "BF16", "<u2"),
    ("i64", "I64", "<i8"), ("i32", "I32", "<i4"), ("i16", "I16", "<i2"), ("i8", "I8", "i1"),
    ("u64", "U64", "<u8"), ("u32", "U32", "<u4"), ("u16", "U16", "<u2"), ("u8", "U8", "u1"),
    ("bool", "BOOL", "?"),
]
_BY_FILE_NAME = {file_name: (name, np.dtype(numpy)) for name, file_name, numpy in _DTYPES}
_FILE_NAME = {name: file_name for name, file_name, _ in _DTYPES}
NUMPY_DTYPE = {name: np.dtype(numpy) for name, _, numpy in _DTYPES}


def dtype_of(array):
    """Etalon's name of a NumPy array's type (never bf16: see above)."""
    for name, _, numpy in _DTYPES:
        if name != "bf16" and np.dtype(numpy) == array.dtype.newbyteorder("<"):
            return name
    raise Refused("the framework answered with elements of type %s, which has no counterpart here"
                  % array.dtype)


def read_safetensors(path):
    """name -> (dtype, array), in the order of the file."""
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size).decode("utf-8"))
        tensors = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            dtype, numpy = _BY_FILE_NAME[entry["dtype"]]
            begin, end = entry["data_offsets"]
            # Read to where it stays: writable, aligned, no second copy of half a gigabyte.
            file.seek(8 + size + begin)
            data = np.empty(end - begin, dtype=np.uint8)
            if file.readinto(data) != end - begin:
                raise ValueError("%s ends within the tensor '%s'" % (path, name))
            tensors[name] = (dtype, data.view(numpy).reshape(entry["shape"]))
    return tensors


def write_safetensors(path, tensors):
    """tensors: name -> (dtype, array). Written under another name first, so that a reader never
    sees half a file."""
    header, blobs, offset = {}, [], 0
    for name, (dtype, array) in tensors.items():
        array = np.asarray(array)
        blob = array.astype(NUMPY_DTYPE[dtype], copy=False).tobytes(order="C")
        header[name] = {"dtype": _FILE_NAME[dtype], "shape": list(array.shape),
                        "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header).encode("utf-8")
    text += b" " * (-len(text) % 8)
    with open(path + ".part", "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for blob in blobs:
            file.write(blob)
    os.replace(path + ".part", path)


def count_nan(dtype, array):
    if dtype == "bf16":
        return int(np.count_nonzero((array & 0x7fff) > 0x7f80))
    if dtype in ("f64", "f32", "f16"):
        return int(np.count_nonzero(np.isnan(array)))
    return 0


def bf16_to_f32(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def peak_memory_bytes():
    """Highest resident size since the last reset, None where the system does not tell."""
    try:
        with open("/proc/self/status") as file:
            for line in file:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    except ImportError:
        return None


def reset_peak_memory():
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
        return True
    except OSError:
        return False


class Refused(Exception):
    """The adapter understood the request and cannot honour it; the text says why. `node` and `op`
    name the place in the network where that is known."""

    def __init__(self, reason, node=None, op=None):
        super().__init__(reason)
        self.node, self.op = node, op


class Unavailable(Exception):
    """The framework itself is not here; the text says what is missing."""


class Adapter:
    """One framework. A method that is not overridden is refused by name. Each takes the request as
    a dict and returns the answer's fields as a dict."""

    capabilities = []

    def hello(self, request):
        raise NotImplementedError

    def load(self, request):
        raise Refused("this adapter cannot load a network")

    def run(self, request):
        """-> (answer, tensors) where tensors are written to request['outputs']."""
        raise Refused("this adapter cannot run a network")

    def prepare_timing(self, request):
        """-> a function without arguments that runs the loaded network once."""
        raise Refused("this adapter cannot time a network")

    def prepare_opening(self, request):
        """-> a function without arguments that opens request['model'] and returns what it made."""
        raise Refused("this adapter cannot time how a file is opened")

    def profile(self, request):
        """-> {"kernels": [text, ...]}: what one run of the loaded network dispatched to."""
        raise Refused("this adapter cannot profile a network")

    def parameters(self, request):
        """-> (answer, tensors): the parameters as the live framework holds them."""
        raise Refused("this adapter cannot read parameters back")

    def fault(self, request):
        raise Refused("this adapter cannot plant a fault")

    def save(self, request):
        raise Refused("this adapter cannot save a network")

    # Everything below belongs to the protocol, not to a framework.

    def answer(self, request):
        kind = request.get("request")
        if kind == "hello":
            if request.get("protocol") != PROTOCOL:
                raise Refused("this adapter speaks protocol %d, the request is in protocol %s"
                              % (PROTOCOL, request.get("protocol")))
            answer = {"protocol": PROTOCOL, "capabilities": self.capabilities,
                      "python": sys.version.split()[0], "executable": sys.executable,
                      "process": os.getpid()}
            answer.update(self.hello(request))
            return answer
        if kind in ("load", "fault", "save", "profile"):
            return getattr(self, kind)(request)
        if kind in ("run", "parameters"):
            answer, tensors = getattr(self, kind)(request)
            write_safetensors(request["outputs"], tensors)
            # The reader checks the file against these, so that a torn file is noticed.
            answer["tensors"] = {
                name: {"dtype": dtype, "shape": list(np.shape(array)), "nan": count_nan(dtype, array)}
                for name, (dtype, array) in tensors.items()}
            return answer
        if kind == "time":
            step = self.prepare_timing(request)
            for _ in range(int(request.get("warmup", 0))):
                step()
            seconds = []
            for _ in range(int(request["runs"])):
                begin = time.perf_counter()
                step()
                seconds.append(time.perf_counter() - begin)
            return {"seconds": seconds}
        if kind == "open":
            open_file = self.prepare_opening(request)
            seconds = []
            for _ in range(int(request["runs"])):
                begin = time.perf_counter()
                opened = open_file()
                seconds.append(time.perf_counter() - begin)
                del opened  # outside the clock
            return {"seconds": seconds}
        if kind == "memory":
            answer = {"peak_bytes": peak_memory_bytes()}
            if request.get("reset"):
                answer["reset"] = reset_peak_memory()
            return answer
        if kind == "shutdown":
            return {}
        raise Refused("the request '%s' is not known to this adapter" % kind)


_folder = None  # the job's temporary folder, from hello


def _remove_folder():
    """The starter removes its folder itself, unless it ended by force."""
    if _folder is not None and os.path.basename(_folder).startswith("etalon-runner-"):
        shutil.rmtree(_folder, ignore_errors=True)


def _watch_parent():
    """Ends the adapter when its starter is gone, even in the middle of a long computation."""
    parent = os.getppid()

    def watch():
        while True:
            time.sleep(1.0)
            if os.getppid() != parent:
                _remove_folder()
                os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def _send(message):
    # NaN and Infinity are not JSON: an adapter that answers them has a fault worth seeing.
    _answers.write(json.dumps(message, allow_nan=False) + "\n")
    _answers.flush()


def serve(adapter):
    global _folder
    _watch_parent()
    for line in sys.stdin:
        if not line.strip():
            continue
        request = {}
        try:
            request = json.loads(line)
            if request.get("request") == "hello":
                _folder = request.get("folder")
            answer = {"id": request.get("id"), "ok": True}
            answer.update(adapter.answer(request))
        except Refused as refusal:
            answer = {"id": request.get("id"), "ok": False, "kind": "refused",
                      "reason": str(refusal)}
            if refusal.node is not None:
                answer["node"] = refusal.node
            if refusal.op is not None:
                answer["op"] = refusal.op
        except Unavailable as absence:
            answer = {"id": request.get("id"), "ok": False, "kind": "unavailable",
                      "reason": str(absence)}
        except Exception as error:  # noqa: BLE001  (the framework may raise anything at all)
            traceback.print_exc()
            text = str(error).strip().splitlines()
            answer = {"id": request.get("id"), "ok": False, "kind": "failed",
                      "reason": "%s: %s" % (type(error).__name__, text[0] if text else "no text")}
        _send(answer)
        if request.get("request") == "shutdown":
            return
    _remove_folder()
