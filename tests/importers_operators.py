#!/usr/bin/env python3
"""For every operator of every format's own list (tests/fixtures/operators.txt, and what the importers'
own tables of names hold): a network of that one operator is written, opened, and what became of it put
into docs/importers-operators.md.

    python3 tests/importers_operators.py ETALON            writes the page; with names of formats, their sections
    python3 tests/importers_operators.py ETALON --check    1 where the page says something else

read     the network became a graph
named    it is known here, and this smallest network lacks something of it: the sentence says what
refused  the sentence (or, where weights are given alone, the note) names the operator
An operator whose refusal does not name it is an error.
"""
import io
import json
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "importers-operators.md"
SIZES = [1, 4, 6, 6]


# ---- settings of operators.txt ----
def numbers(settings, word):
    """The shapes behind `word`: "blobs 3x4,3" is [[3, 4], [3]]; and the settings without them."""
    found = re.search(rf"(?:^| ){word} ([\d,x*]+)", settings)
    if not found:
        return settings, []
    rest = (settings[: found.start()] + settings[found.end():]).strip()
    return rest, found.group(1).split(",")


def shape(text):
    return [int(n) for n in text.split("x")]


def count(dims):
    n = 1
    for d in dims:
        n *= d
    return n


def floats(n):
    return struct.pack(f"<{n}f", *[0.5 + 0.01 * i for i in range(n)])


# ---- protobuf's wire format ----
def varint(n):
    out = b""
    n &= (1 << 64) - 1
    while True:
        out += bytes([n & 127 | (128 if n > 127 else 0)])
        n >>= 7
        if not n:
            return out


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    return varint(number << 3 | 2) + varint(len(value)) + value


# ---- one network of one operator, by format: writes files into a folder, gives what is opened ----
def caffe(folder, name, settings):
    settings, blobs = numbers(settings, "blobs")
    settings, bottoms = numbers(settings, "bottoms")
    settings, tops = numbers(settings, "tops")
    ins = "".join('bottom: "a" ' for _ in range(int(bottoms[0]) if bottoms else 1))
    outs = "".join(f'top: "y{i}" ' for i in range(int(tops[0]) if tops else 1))
    (folder / "m.prototxt").write_text(
        'input: "x" input_shape { dim: 1 dim: 4 dim: 6 dim: 6 }\n'
        'layer { name: "a" type: "ReLU" bottom: "x" top: "a" }\n'
        f'layer {{ name: "l" type: "{name}" {"" if name in ("Input", "Data", "MemoryData", "DummyData") else ins}{outs}{settings} }}\n')
    held = b"".join(field(7, field(7, field(1, b"".join(varint(d) for d in shape(b)))) + field(5, floats(count(shape(b)))))
                    for b in blobs)
    if blobs:
        (folder / "m.caffemodel").write_bytes(field(1, "m") + field(100, field(1, "l") + field(2, name) + held))
    return folder / "m.prototxt"


def darknet(folder, name, settings):
    settings, held = numbers(settings, "weights")
    channels = re.search(r"channels=(\d+)", settings)
    settings = re.sub(r"channels=\d+", "", settings)
    (folder / "m.cfg").write_text(f"[net]\nchannels={channels.group(1) if channels else 4}\nheight=6\nwidth=6\n[maxpool]\nsize=1\n"
                                  f"stride=1\n[{name}]\n" + "\n".join(settings.split()) + "\n")
    (folder / "m.weights").write_bytes(struct.pack("<3iq", 0, 2, 0, 0) + floats(int(held[0]) if held else 0))
    return folder / "m.cfg"


def ncnn(folder, name, settings):
    settings, held = numbers(settings, "weights")
    (folder / "m.param").write_text(f"7767517\n2 2\nInput x 0 1 x 0=6 1=6 2=4\n{name} l 1 1 x y {settings}\n")
    out = b""
    for part in held:  # "*" stands before what a word for its type precedes
        out += (struct.pack("<I", 0) if part[0] == "*" else b"") + floats(int(part.strip("*")))
    (folder / "m.bin").write_bytes(out)
    return folder / "m.param"


def mxnet(folder, name, settings):
    settings, held = numbers(settings, "weights")
    settings, many = numbers(settings, "inputs")
    null = lambda n, attrs=None: {"op": "null", "name": n, "inputs": [], "attrs": attrs or {}}
    nodes = [null("data", {"__shape__": "(1, 4, 6, 6)"})] + [null(f"l_{i}") for i in range(len(held))]
    inputs = [[0, 0, 0]] * (int(many[0]) if many else 1) + [[i + 1, 0, 0] for i in range(len(held))]
    attrs = dict(w.split("=", 1) for w in settings.split())
    nodes.append({"op": name, "name": "l", "inputs": inputs, "attrs": attrs})
    (folder / "m-symbol.json").write_text(json.dumps({"nodes": nodes, "arg_nodes": list(range(len(nodes) - 1)),
                                                      "heads": [[len(nodes) - 1, 0, 0]], "attrs": {"mxnet_version": ["int", 10900]}}))
    arrays, names = b"", b""
    for i, part in enumerate(held):
        dims = shape(part)
        arrays += struct.pack("<Iii", 0xF993FAC9, 0, len(dims)) + struct.pack(f"<{len(dims)}q", *dims)
        arrays += struct.pack("<iii", 1, 0, 0) + floats(count(dims))
        names += struct.pack("<Q", len(f"arg:l_{i}")) + f"arg:l_{i}".encode()
    (folder / "m-0000.params").write_bytes(struct.pack("<QQQ", 0x112, 0, len(held)) + arrays + struct.pack("<Q", len(held)) + names)
    return folder / "m-symbol.json"


def openvino(folder, name, settings):
    settings, many = numbers(settings, "inputs")
    many = int(many[0]) if many else 1
    words = [w.split("=", 1) for w in settings.split()]
    own = {k: v for k, v in words if k in ("type", "version")}  # of the input, of the layer
    kind, version = own.get("type", "f32"), own.get("version", "opset13")
    dims = "".join(f"<dim>{d}</dim>" for d in SIZES)
    data = "".join(f' {k}="{v}"' for k, v in words if k not in own)
    ins = "".join(f'<port id="{i}">{dims}</port>' for i in range(many))
    edges = "".join(f'<edge from-layer="0" from-port="0" to-layer="1" to-port="{i}"/>' for i in range(many))
    (folder / "m.xml").write_text(
        '<?xml version="1.0"?><net name="m" version="11"><layers>'
        f'<layer id="0" name="x" type="Parameter" version="opset1"><data shape="1,4,6,6" element_type="{kind}"/>'
        f'<output><port id="0">{dims}</port></output></layer>'
        f'<layer id="1" name="l" type="{name}" version="{version}"><data{data}/><input>{ins}</input>'
        f'<output><port id="{many}">{dims}</port></output></layer>'
        f'<layer id="2" name="y" type="Result" version="opset1"><input><port id="0">{dims}</port></input></layer>'
        f'</layers><edges>{edges}<edge from-layer="1" from-port="{many}" to-layer="2" to-port="0"/></edges></net>')
    (folder / "m.bin").write_bytes(b"")
    return folder / "m.xml"


def torch7(folder, name, settings):
    text = lambda s: f"{len(s)}\n{s}\n"
    numbered = iter(range(10, 1000))
    begins = lambda cls: f"4\n{next(numbered)}\n{text('V 1')}{text(cls)}"
    table = lambda items: f"3\n{next(numbered)}\n{len(items)}\n" + "".join(k + v for k, v in items)
    number = lambda n: f"1\n{n}\n"
    word = lambda s: "2\n" + text(s)

    def tensor(dims, of=0.5):
        strides = [count(dims[i + 1:]) for i in range(len(dims))]
        row = lambda values: " ".join(str(v) for v in values) + "\n"
        return (begins("torch.FloatTensor") + f"{len(dims)}\n" + row(dims) + row(strides) + "1\n" + begins("torch.FloatStorage")
                + f"{count(dims)}\n" + row([of] * count(dims)))

    module = lambda cls, fields: begins("nn." + cls) + table([(word(k), v) for k, v in fields])
    window = [(k, number(v)) for k, v in (("nInputPlane", 4), ("nOutputPlane", 4), ("kW", 1), ("kH", 1), ("dW", 1), ("dH", 1),
                                          ("padW", 0), ("padH", 0))]
    both = [("weight", tensor([4, 4])), ("bias", tensor([4]))]
    listed = lambda items: table([(number(i + 1), item) for i, item in enumerate(items)])
    words = settings.split()
    if "rows" in words:
        first = module("Linear", both)
    elif "steps" in words:
        first = module("TemporalConvolution", [("inputFrameSize", number(4)), ("outputFrameSize", number(4)), ("kW", number(1))] + both)
    elif "words" in words:
        first = module("LookupTable", both[:1])
    else:
        kind = "Volumetric" if "volumes" in words else "Spatial"
        first = module(kind + "Convolution", window + [("kT", number(1)), ("dT", number(1)), ("weight", tensor([4, 4, 1, 1])), both[1]])
    fields = []
    for key, value in (word.split("=", 1) for word in words if "=" in word):
        if value == "true":
            value = "5\n1\n"
        elif value.startswith("t"):  # a tensor, and what its elements are
            extents, _, of = value[1:].partition(":")
            value = tensor(shape(extents), of or 0.5)
        elif value.startswith("l"):
            value = begins("torch.LongStorage") + f"1\n{value[1:]}\n"
        elif value.startswith("["):
            value = listed([listed([number(n) for n in value.strip("[]").split(",")])])
        else:
            value = number(value)
        fields.append((key, value))
    if "parts" in words:
        fields.append(("modules", listed([module("Identity", [])])))
    made = [first, module(name, fields)]
    if "table" in words:
        made.insert(1, module("ConcatTable", [("modules", listed([module("Identity", []), module("Identity", [])]))]))
    (folder / "m.t7").write_text(module("Sequential", [("modules", listed(made))]))
    return folder / "m.t7"


def keras(folder, name, settings):
    rank = 3 if "1D" in name or name in ("LSTM", "GRU", "SimpleRNN") else 5 if "3D" in name else 4
    if name == "RepeatVector":
        rank = 2
    config = json.loads("{" + settings + "}") | {"name": "l", "dtype": "float32"}
    layer = lambda n, c: {"module": "keras.layers", "class_name": n, "config": c, "registered_name": None}
    model = {"module": "keras", "class_name": "Sequential", "registered_name": None, "config": {"name": "m", "layers": [
        layer("InputLayer", {"batch_shape": [None] + [6] * (rank - 2) + [4], "dtype": "float32", "name": "x"}), layer(name, config)]}}
    with zipfile.ZipFile(ROOT / "tests/fuzz/seeds/keras-v3/m.keras") as seed, zipfile.ZipFile(folder / "m.keras", "w") as out:
        out.writestr("metadata.json", seed.read("metadata.json"))
        out.writestr("config.json", json.dumps(model))
        out.writestr("model.weights.h5", seed.read("model.weights.h5"))
    return folder / "m.keras"


def tensorflow(folder, name, settings):
    settings, many = numbers(settings, "inputs")
    text = ('node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } attr { key: "shape" value '
            "{ shape { dim { size: 1 } dim { size: 6 } dim { size: 6 } dim { size: 4 } } } } }\n")
    inputs = ['input: "x"'] * (int(many[0]) if many else 1)
    for i, part in enumerate(re.findall(r"ints \[([-\d ]*)\]", settings)):
        values = part.split()
        text += (f'node {{ name: "c{i}" op: "Const" attr {{ key: "dtype" value {{ type: DT_INT32 }} }} attr {{ key: "value" value '
                 "{ tensor { dtype: DT_INT32 tensor_shape { " + ("" if part.startswith(" ") else f"dim {{ size: {len(values)} }} ") + "} "
                 + " ".join(f"int_val: {v}" for v in values) + " } } } }\n")
        inputs.append(f'input: "c{i}"')
    for i, part in enumerate(re.findall(r"floats ([\dx]+)", settings)):
        dims = " ".join(f"dim {{ size: {d} }}" for d in shape(part))
        text += (f'node {{ name: "f{i}" op: "Const" attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} attr {{ key: "value" value '
                 f"{{ tensor {{ dtype: DT_FLOAT tensor_shape {{ {dims} }} float_val: 0.5 }} }} }} }}\n")
        inputs.append(f'input: "f{i}"')
    attrs = ""
    for key, value in re.findall(r"(\w+)=(\S+)", settings):
        if value.startswith("["):
            value = "list { " + " ".join(f"i: {v}" for v in value.strip("[]").split(",")) + " }"
        elif re.fullmatch(r"-?\d+", value):
            value = f"i: {value}"
        elif re.fullmatch(r"-?[\d.e-]+", value):
            value = f"f: {value}"
        elif value in ("true", "false"):
            value = f"b: {value}"
        elif value.startswith("DT_"):
            value = f"type: {value}"
        else:
            value = f's: "{value}"'
        attrs += f' attr {{ key: "{key}" value {{ {value} }} }}'
    text += f'node {{ name: "y" op: "{name}" {" ".join(inputs)}{attrs} }}\n'
    (folder / "m.pbtxt").write_text(text)
    return folder / "m.pbtxt"


def pytorch(folder, name, settings):
    # The input's extents and type (long, truth); none: no first operand; tensors: a list of two.
    settings, sizes = numbers(settings, "dims")
    sizes = shape(sizes[0]) if sizes else SIZES
    words = settings.split()
    dtype = 5 if "long" in words else 12 if "truth" in words else 7
    args = [{"name": "input" if "input" in words else "self", "arg": {"as_tensor": {"name": "x"}}}]
    if "none" in words:
        args = []
    if "tensors" in words:
        args = [{"name": "tensors", "arg": {"as_tensors": [{"name": "x"}, {"name": "x"}]}}]
    for key, value in re.findall(r"(\w+)=(\S+)", settings):
        if value == "x":
            arg = {"as_tensor": {"name": "x"}}
        elif value == "[x]":
            arg = {"as_optional_tensors": [{"as_tensor": {"name": "x"}}]}
        elif value.startswith("["):
            arg = {"as_ints": [int(v) for v in value.strip("[]").split(",") if v]}
        elif value in ("true", "false"):
            arg = {"as_bool": value == "true"}
        elif re.fullmatch(r"-?\d+", value):
            arg = {"as_int": int(value)}
        elif re.fullmatch(r"-?[\d.e-]+", value):
            arg = {"as_float": float(value)}
        else:
            arg = {"as_string": value}
        args.append({"name": key, "arg": arg})
    meta = {"dtype": dtype, "sizes": [{"as_int": d} for d in sizes], "requires_grad": False, "device": {"type": "cpu", "index": None},
            "strides": [{"as_int": count(sizes[i + 1:])} for i in range(len(sizes))], "storage_offset": {"as_int": 0}, "layout": 7}
    program = {"graph_module": {"graph": {
        "inputs": [{"as_tensor": {"name": "x"}}], "outputs": [{"as_tensor": {"name": "y"}}],
        "nodes": [{"target": f"torch.ops.aten.{name}.default", "inputs": args, "outputs": [{"as_tensor": {"name": "y"}}], "metadata": {}}],
        "tensor_values": {"x": meta, "y": meta}, "sym_int_values": {}, "sym_bool_values": {}},
        "signature": {"input_specs": [{"user_input": {"arg": {"as_tensor": {"name": "x"}}}}],
                      "output_specs": [{"user_output": {"arg": {"as_tensor": {"name": "y"}}}}]}, "module_call_graph": []},
        "opset_version": {"aten": 10}, "schema_version": {"major": 8, "minor": 8}, "torch_version": "2.7.1"}
    with zipfile.ZipFile(folder / "m.pt2", "w") as out:
        out.writestr("serialized_exported_program.json", json.dumps(program))
    return folder / "m.pt2"


def tflite_codes(data):
    """Offsets of the operator codes' small and wide numbers in a .tflite."""
    u16 = lambda at: struct.unpack_from("<H", data, at)[0]
    u32 = lambda at: struct.unpack_from("<I", data, at)[0]

    def at(table, slot):
        vtable = table - struct.unpack_from("<i", data, table)[0]
        offset = u16(vtable + 4 + 2 * slot) if 4 + 2 * slot < u16(vtable) else 0
        return table + offset if offset else None

    root = u32(0)
    codes = at(root, 1) + u32(at(root, 1))
    out = []
    for i in range(u32(codes)):
        entry = codes + 4 + 4 * i
        table = entry + u32(entry)
        out.append((at(table, 0), at(table, 3)))
    return out


def tflite(folder, name, settings):
    data = bytearray((ROOT / "tests/fuzz/seeds/tflite/m.tflite").read_bytes())
    code, two = int(settings.split()[0]), "two" in settings
    for small, wide in tflite_codes(data):
        # In place of the inner product, whose operands are two matrices, or of the softmax of one.
        if wide is None or small is None or struct.unpack_from("<i", data, wide)[0] != (9 if two else 25):
            continue
        data[small] = min(code, 127)
        struct.pack_into("<i", data, wide, code)
        (folder / "m.tflite").write_bytes(data)
        return folder / "m.tflite"
    sys.exit("tests/fuzz/seeds/tflite/m.tflite holds no operator whose code is of two widths")


def coreml(folder, name, settings):
    number, many = int(settings.split()[0]), 2 if "two" in settings else 1
    array = field(5, field(1, b"".join(varint(d) for d in SIZES)) + field(2, 65568))
    description = field(1, field(1, "x") + field(3, array)) + field(10, field(1, "y") + field(3, array))
    layer = field(1, "l") + field(2, "x") * many + field(3, "y") + field(number, b"")
    net = field(1, layer) + field(5, 1)
    (folder / "m.mlmodel").write_bytes(field(1, 5) + field(2, description) + field(500, net))
    return folder / "m.mlmodel"


def cntk(folder, name, settings):
    data = (ROOT / "tests/fixtures/runtimes/small.model").read_bytes()
    # A function's operator is a number in a dictionary: key "op", value with the number in field 2 or 3.
    for found in re.finditer(rb"\x02op\x12(.)", data):
        begin, size = found.end(), found.group(1)[0]
        value = data[begin:begin + size]
        place = value.rfind(bytes([3]))  # ReLU
        if size < 12 and place >= 0 and value.endswith(bytes([3])):
            (folder / "m.model").write_bytes(data[:begin + size - 1] + bytes([int(settings)]) + data[begin + size:])
            return folder / "m.model"
    sys.exit("tests/fixtures/runtimes/small.model holds no ReLU")


def tables():
    """Lists of names that the importers themselves hold, in sequence of their numbers."""
    source = lambda path: (ROOT / "importers/formats" / path).read_text()
    lite = source("tflite/file.cpp")
    lite = re.findall(r'"([A-Z0-9_]+)"', lite[lite.index("kNames{"):lite.index("};", lite.index("kNames{"))])
    functions = source("cntk/primitive_ops.h")
    functions = re.findall(r'"(\w+)"', functions[functions.index("kPrimitiveOps{"):])
    layers = re.search(r"^Layer (name 1 s.*)$", source("coreml/schema.cpp"), re.M).group(1).split()
    layers = [(layers[i], layers[i + 1]) for i in range(0, len(layers), 3)][3:]
    two = ("Broadcastable", "add", "multiply", "max", "min", "average", "concat", "stack", "batchedMatmul", "gather", "equal", "notEqual",
           "less", "greater", "logicalOr", "logicalXor", "logicalAnd", "dot")
    pairs = "ADD SUB MUL DIV POW MAXIMUM MINIMUM LESS LESS_EQUAL GREATER GREATER_EQUAL EQUAL NOT_EQUAL SQUARED_DIFFERENCE FLOOR_DIV FLOOR_MOD"
    return {"tflite": [(n, f"{i} two" if n in pairs.split() else str(i)) for i, n in enumerate(lite)],
            "cntk": [(n, str(i)) for i, n in enumerate(functions)],
            "coreml": [(n, f"{k} two" if any(w in n for w in two) and n not in ("reduceMax", "reduceMin") else k) for n, k in layers]}


def listed():
    out, section = {}, None
    for line in (ROOT / "tests/fixtures/operators.txt").read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith("["):
            section = out.setdefault(line.strip("[]"), [])
        elif "|" in line:
            name, settings = line.split("|", 1)
            section.append((name.strip(), settings.strip()))
        else:
            section += [(name, "") for name in line.split()]
    return out | tables()


def became(etalon, path, name):
    out = path.parent / "i.json"
    out.unlink(missing_ok=True)
    done = subprocess.run([etalon, "inspect", str(path), "--json", str(out)], capture_output=True, text=True)
    if out.is_file():
        found = json.loads(out.read_text())["inspect"]
        found = found[0] if isinstance(found, list) else found
        if found.get("nodes") or found.get("outputs"):  # of known shapes Rank is a constant
            return "read", ""
        notes = " ".join(found.get("notes", []))
        # Weights alone; the note names the operator, or says what of its settings it is.
        missing = name in notes and ("torch7" not in found["format"] or "is not supported" in notes)
        return ("refused", notes) if missing else ("named", notes) if notes else ("unnamed", "nothing was read, nothing said")
    text = done.stderr.strip().split(": ", 1)[-1]
    if done.returncode != 3:
        return "unnamed", f"exit code {done.returncode}: {text}"
    if name in text and re.search(r"is not supported|has no public meaning|has no translation|has no meaning", text):
        return "refused", text
    return ("unnamed" if "is not supported" in text and "kind" in text else "named"), text


def main():
    etalon, check = sys.argv[1], "--check" in sys.argv
    only = [a for a in sys.argv[2:] if not a.startswith("--")]
    lines = ["# Operators by format: read, or refused by name", "",
             "Made by `python3 tests/importers_operators.py build/release/bin/etalon`, which writes a network of one operator",
             "for each name of each format's own list (`tests/fixtures/operators.txt`) and opens it; a test compares this page",
             "with what happens. *Read* became a graph. *Read with its settings*: known, and the smallest network lacks weights",
             "or settings of it; fixtures that have them are in [importers-table.md](importers-table.md). *Refused*: exit code 3",
             "and a sentence that names it, or weights alone and a note that does.", ""]
    faults, totals = [], {"read": 0, "named": 0, "refused": 0}
    for form, operators in sorted(listed().items()):
        if only and form not in only:
            continue
        rows = {"read": [], "named": [], "refused": []}
        for name, settings in operators:
            with tempfile.TemporaryDirectory() as folder:
                how, text = became(etalon, globals()[form](pathlib.Path(folder), name, settings), name)
            if how == "unnamed":
                faults.append(f"{form} {name}: {text}")
                continue
            if "--say" in sys.argv:
                print(form, name, how, text[:150])
            rows[how].append(name)
            totals[how] += 1
        lines += [f"## {form}", ""]
        for how, title in (("read", "Read"), ("named", "Read with its settings"), ("refused", "Refused")):
            if rows[how]:
                lines += [f"{title} ({len(rows[how])}): " + ", ".join(f"`{n}`" for n in sorted(rows[how])) + ".", ""]
    for fault in faults:
        print(fault)
    print(", ".join(f"{n} {how}" for how, n in totals.items()))
    text = "\n".join(lines)
    if check and PAGE.read_text() != text:
        sys.exit(f"{PAGE.name} says something else; run tests/importers_operators.py")
    if only and not check:  # those formats' sections; the others stay
        made = text.split("\n## ")[1:]
        kept = {part.split("\n", 1)[0]: part for part in PAGE.read_text().split("\n## ")[1:]}
        kept |= {part.split("\n", 1)[0]: part for part in made}
        text = "\n## ".join([text.split("\n## ")[0]] + [kept[form].rstrip("\n") + "\n" for form in sorted(kept)])
    if not check:
        PAGE.write_text(text)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
