"""An adapter that goes wrong on demand: the option fault=KIND@REQUEST says how and when. Without a
fault it computes y = x. Standard library only, and the protocol written out by hand, so that the
reader's checks are tested against bytes, not against our own writer."""
import json
import os
import signal
import struct
import sys
import time


def answer(fields, request):
    print(json.dumps(dict({"id": request["id"], "ok": True}, **fields)), flush=True)


def copy_x(request, name, dtype="F32", cut=0):
    with open(request["inputs"], "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        entry = json.loads(file.read(size))["x"]
        begin, end = entry["data_offsets"]
        data = file.read()[begin:end]
    header = json.dumps({name: {"dtype": dtype, "shape": entry["shape"],
                                "data_offsets": [0, len(data)]}}).encode()
    with open(request["outputs"], "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data[:len(data) - cut])
    return {"dtype": "f32", "shape": entry["shape"], "nan": 0}


fault, when = "", ""
for line in sys.stdin:
    request = json.loads(line)
    kind = request["request"]
    if kind == "hello":
        fault, _, when = request["options"].get("fault", "").partition("@")
    if kind == when:
        if fault == "crash":
            sys.stderr.write("Fatal: the tensor fell over\n")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGSEGV)
        if fault == "exit":
            sys.stderr.write("libfake.so: cannot open shared object file\n")
            sys.exit(3)
        if fault == "hang":
            time.sleep(1000)
        if fault == "babble":
            print("Loading plugin libfake ... done", flush=True)
            continue
        if fault == "array":
            print("[1, 2, 3]", flush=True)
            continue
        if fault == "stale":
            print(json.dumps({"id": request["id"] - 1, "ok": True}), flush=True)
            continue
        if fault == "empty":
            answer({}, request)
            continue
        if fault == "flood":
            sys.stderr.write("x" * 1000000 + "\nlast line\n")
            sys.stderr.flush()
            sys.exit(1)
        if fault == "refuse":
            print(json.dumps({"id": request["id"], "ok": False, "kind": "refused", "node": "n7",
                              "op": "lstm", "reason": "no peepholes here"}), flush=True)
            continue
        if fault == "absent":
            print(json.dumps({"id": request["id"], "ok": False, "kind": "unavailable",
                              "reason": "libfake 3 is not installed"}), flush=True)
            continue
    if kind == "hello":
        answer({"framework": "Fake", "version": "1.0", "capabilities": ["run"]}, request)
    elif kind == "load":
        answer({"outputs": ["y"], "values": ["y"], "refused": []}, request)
    elif kind == "run":
        bad = fault if when == "run" else ""
        described = copy_x(request, "z" if bad == "wrong name" else "y",
                           "I32" if bad == "wrong dtype" else "F32", 4 if bad == "cut" else 0)
        if bad == "wrong count":
            described["nan"] = 7
        answer({"tensors": {"z" if bad == "wrong name" else "y": described}}, request)
    elif kind == "time":
        answer({"seconds": [0.5] if fault == "too few" else [0.5] * request["runs"]}, request)
    elif kind == "shutdown":
        answer({}, request)
        break
    else:
        answer({}, request)
