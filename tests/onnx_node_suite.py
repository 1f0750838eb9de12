#!/usr/bin/env python3
"""Runs ONNX's own node test cases through `etalon run` and compares with their recorded outputs.

    python3 tests/onnx_node_suite.py build/bin/etalon [--page FILE.md] [NAME-PART ...]

Needs the packages onnx and numpy. A case ends as
  passed    integers, bools and shapes alike; floats within the tolerance below
  refused   the importer or engine says why; counted by reason
  failed    another result, or the program ended in another way than by a refusal
  outside   sequences, optionals, strings and training: not what this engine is for (see OUTSIDE)
Tolerance for floats: the suite's own (rtol 1e-3, atol 1e-7), which NumPy's float functions need;
two units in the last place where the type has fewer than 12 bits of significand, because the
recorded outputs were rounded after each step. A spectrum (DFT, STFT) is held to a millionth of its
largest bin: the bins that cancel to 0 were summed in f64 there. Of ops that draw random numbers the types and shapes
are compared, as ONNX's own runner does.
Element types that NumPy's files do not hold: an input becomes an initializer of the model, an
output is compared through a Cast to FLOAT (to INT32 for integers) that is appended to it.
Exit code 1 when a case failed, or more than 5 % of those inside were refused.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

REFUSALS = (2, 3, 4)  # exit codes: usage, bad input, missing
MOST_REFUSED = 0.05
STRING_OPS = {"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"}
RANDOM_OPS = {"Bernoulli", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
              "Multinomial"}
PLAIN = {TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT8,
         TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT8,
         TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64, TensorProto.BOOL}
INTEGER_CODES = {TensorProto.INT4, TensorProto.UINT4, TensorProto.INT2, TensorProto.UINT2}


def nodes_of(graph):
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from nodes_of(attribute.g)


def types_of(graph):
    for info in list(graph.input) + list(graph.output) + list(graph.value_info):
        yield info.type
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from types_of(attribute.g)


def outside(case):
    """Why a case is outside what the engine is for; "" when it is inside."""
    model = case.model
    nodes = list(nodes_of(model.graph))
    ops = {n.op_type for n in nodes}
    for t in types_of(model.graph):
        kind = t.WhichOneof("value")
        if kind == "sequence_type" or any("Sequence" in o and o != "ReverseSequence" for o in ops):
            return "sequences"
        if kind == "optional_type" or any(o.startswith("Optional") for o in ops):
            return "optionals"
        if kind == "tensor_type" and t.tensor_type.elem_type == TensorProto.STRING:
            return "strings"
    if ops & STRING_OPS:
        return "strings"
    for n in nodes:
        if "training" in n.domain:
            return "training"
        if n.op_type == "Dropout" and ("training" in case.name or len(n.output) > 1
                                       and "mask" in case.name):
            return "training"
        if n.op_type == "BatchNormalization" and any(
                a.name == "training_mode" and a.i for a in n.attribute):
            return "training"
    return ""


def as_array(value):
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def as_tensor(value, name, elem_type):
    if isinstance(value, TensorProto):
        tensor = TensorProto()
        tensor.CopyFrom(value)
        tensor.name = name
        return tensor
    array = np.asarray(value)
    made = numpy_helper.from_array(array, name)
    return made if made.data_type == elem_type else helper.make_tensor(
        name, elem_type, array.shape, array.astype(np.float32).ravel())


def alike(got, want, narrow, shape_only, spectrum=False):
    if got.shape != want.shape or (got.dtype != want.dtype):
        return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    if shape_only:
        return ""
    if want.dtype.kind == "f":
        rtol = max(1e-3, 2 * narrow)
        atol = max(1e-7, 1e-6 * np.abs(want).max(initial=0)) if spectrum else 1e-7
        if np.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True):
            return ""
    elif np.array_equal(got, want):
        return ""
    return f"{got.ravel()[:6]} for {want.ravel()[:6]}"


NARROW = {TensorProto.FLOAT16: 2.0**-10, TensorProto.BFLOAT16: 2.0**-7}


def run_case(program, case, folder):
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    graph = model.graph
    inputs, outputs = case.data_sets[0]
    declared = {i.name: i.type.tensor_type.elem_type for i in graph.input}
    arrays = {}
    for name, value in zip([i.name for i in case.model.graph.input if i.name], inputs):
        if value is None:
            continue
        if declared[name] in PLAIN:
            arrays[name] = as_array(value)
        else:
            graph.initializer.append(as_tensor(value, name, declared[name]))
    wanted, narrow = {}, {}
    for info, want in zip(case.model.graph.output, outputs):
        kind = info.type.tensor_type.elem_type
        narrow[info.name] = NARROW.get(kind, 0.0)
        if kind in PLAIN:
            wanted[info.name] = as_array(want)
            continue
        to = TensorProto.INT32 if kind in INTEGER_CODES else TensorProto.FLOAT
        as_float = info.name + "_as_float"
        graph.node.append(helper.make_node("Cast", [info.name], [as_float], to=to))
        graph.output.append(helper.make_tensor_value_info(as_float, to, None))
        for k, o in enumerate(graph.output):
            if o.name == info.name:
                del graph.output[k]
                break
        wanted[as_float] = as_array(want).astype(np.int32 if kind in INTEGER_CODES else np.float32)
        narrow[as_float] = narrow[info.name]
    path = folder / "model.onnx"
    onnx.save(model, path)
    command = [program, "run", str(path), "-o", str(folder / "out.npz"), "--threads", "1"]
    kinds = set(declared.values()) | {a.dtype for a in arrays.values()}
    kinds |= {t.tensor_type.elem_type for t in types_of(graph)}
    kinds |= {i.data_type for i in graph.initializer}
    kinds |= {a.t.data_type for n in nodes_of(graph) for a in n.attribute if a.HasField("t")}
    kinds |= {a.i for n in nodes_of(graph) for a in n.attribute
              if a.name in ("to", "softmax_precision")}
    if TensorProto.DOUBLE in kinds:
        command += ["--contract", "acc=f64,store=f64"]
    if arrays:
        np.savez(folder / "in.npz", **arrays)
        command += ["--input", str(folder / "in.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode in REFUSALS:
        said = done.stderr.strip().splitlines()[-1]
        return "refused", said.replace("etalon: ", "", 1).replace(str(path) + ": ", "", 1)
    if done.returncode != 0:
        return "failed", f"exit code {done.returncode}: {done.stderr.strip()[-200:]}"
    got = np.load(folder / "out.npz")
    ops = {n.op_type for n in nodes_of(graph)}
    random, spectrum = bool(ops & RANDOM_OPS), bool(ops & {"DFT", "STFT"})
    for name, want in wanted.items():
        said = alike(got[name], want, narrow[name], random, spectrum)
        if said:
            return "failed", f"{name}: {said}"
    return "passed", ""


def reason_of(said):
    """A refusal without the names of its case."""
    said = re.sub(r"^(node|value|tensor) [^:]+: ", "", said)
    said = said.split("; if the file is whole")[0]
    return re.sub(r"\s+", " ", said)[:110]


def page(counts, found, version):
    total = sum(counts.values())
    inside = total - counts["outside"]
    lines = ["# ONNX's node suite", "",
             "Written by `tests/onnx_node_suite.py ETALON --page docs/onnx-node-suite.md`; the test",
             "`./etalon test --long node suite` runs it where a Python with onnx is found.", "",
             f"Cases of `onnx` {version}: {total}. Outside are sequences, optionals, strings and",
             f"training: {counts['outside']}. Of the {inside} inside:", "",
             "| passed | refused, with the reason | failed |", "|---|---|---|",
             f"| {counts['passed']} | {counts['refused']} "
             f"({100 * counts['refused'] / inside:.1f} %) | {counts['failed']} |", "",
             "## Refused", "", "| Cases | Reason |", "|---|---|"]
    reasons = collections.Counter(reason_of(s) for _, s in found["refused"])
    lines += [f"| {n} | {r.replace('|', '/')} |" for r, n in reasons.most_common()]
    lines += ["", "## Outside", "", "| Cases | Subject | Names |", "|---|---|---|"]
    subjects = collections.defaultdict(list)
    for name, subject in found["outside"]:
        subjects[subject].append(name.removeprefix("test_"))
    lines += [f"| {len(names)} | {subject} | {', '.join(names)} |"
              for subject, names in sorted(subjects.items())]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description="ONNX's node suite through etalon run")
    parser.add_argument("program")
    parser.add_argument("parts", nargs="*", help="run only cases whose name holds one of these")
    parser.add_argument("--page", help="write the table as Markdown")
    args = parser.parse_args()
    found = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as temporary:
        for case in collect_testcases(None):
            if args.parts and not any(p in case.name for p in args.parts):
                continue
            folder = pathlib.Path(temporary)
            for old in folder.iterdir():
                old.unlink()
            said = outside(case)
            verdict = "outside"
            if not said:
                verdict, said = run_case(args.program, case, folder)
            found[verdict].append((case.name, said))
            seen = sum(len(v) for v in found.values())
            if seen % 100 == 0:
                print(f"so far   {seen}", flush=True)
            if verdict == "failed":
                print(f"failed   {case.name}: {said}", flush=True)
    for name, said in found["refused"]:
        print(f"refused  {name}: {said}")
    counts = {v: len(found[v]) for v in ("passed", "refused", "failed", "outside")}
    print(", ".join(f"{n} {v}" for v, n in counts.items()))
    if args.page:
        pathlib.Path(args.page).write_text(page(counts, found, onnx.__version__))
    inside = sum(counts.values()) - counts["outside"]
    return 1 if counts["failed"] or counts["refused"] > MOST_REFUSED * inside else 0


if __name__ == "__main__":
    sys.exit(main())
