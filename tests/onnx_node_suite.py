#!/usr/bin/env python3
"""Runs ONNX's own node test cases through `etalon run` and compares with their recorded outputs.

    python3 tests/onnx_node_suite.py build/bin/etalon [NAME-PART ...]

Needs the packages onnx and numpy. A case ends as
  equal     integers, bools and shapes alike; floats within the tolerance below
  differs   the outputs of both are printed: a fault, or a case where ONNX leaves the result open
  refused   the importer or engine says why; counted by reason
Tolerance for floats: the suite's own (rtol 1e-3, atol 1e-7), which NumPy's float functions need.
Exit code 1 when a case differs or the program fails in another way than by a refusal.
"""
import collections
import pathlib
import subprocess
import sys
import tempfile
import warnings

warnings.filterwarnings("ignore")
import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.case.node import collect_testcases

REFUSALS = (2, 3, 4)  # exit codes: usage, bad input, missing


def as_array(value):
    return numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)


def alike(got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)} for {want.dtype}{list(want.shape)}"
    if want.dtype.kind == "f":
        if np.allclose(got, want, rtol=1e-3, atol=1e-7, equal_nan=True):
            return ""
    elif np.array_equal(got, want):
        return ""
    return f"{got.ravel()[:6]} for {want.ravel()[:6]}"


def run_case(program, case, folder):
    model = folder / "model.onnx"
    onnx.save(case.model, model)
    inputs, outputs = case.data_sets[0]
    names = [i.name for i in case.model.graph.input if i.name]
    arrays = {name: as_array(value) for name, value in zip(names, inputs) if value is not None}
    if any(a.dtype.kind not in "fiub" for a in arrays.values()):
        return "refused", "an element type that npz does not hold"
    command = [program, "run", str(model), "-o", str(folder / "out.npz"), "--threads", "1"]
    if any(a.dtype == np.float64 for a in arrays.values()):
        command += ["--contract", "acc=f64,store=f64"]
    if arrays:
        np.savez(folder / "in.npz", **arrays)
        command += ["--input", str(folder / "in.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if done.returncode in REFUSALS:
        return "refused", done.stderr.strip().splitlines()[-1]
    if done.returncode != 0:
        return "failed", f"exit code {done.returncode}: {done.stderr.strip()[-200:]}"
    got = np.load(folder / "out.npz")
    for info, want in zip(case.model.graph.output, outputs):
        said = alike(got[info.name], as_array(want))
        if said:
            return "differs", f"{info.name}: {said}"
    return "equal", ""


def main():
    program, parts = sys.argv[1], sys.argv[2:]
    found = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as temporary:
        for case in collect_testcases(None):
            if parts and not any(p in case.name for p in parts):
                continue
            folder = pathlib.Path(temporary)
            for old in folder.iterdir():
                old.unlink()
            try:
                verdict, said = run_case(program, case, folder)
            except Exception as fault:  # a case that Python itself cannot prepare
                verdict, said = "refused", f"script: {type(fault).__name__}: {fault}"
            found[verdict].append((case.name, said))
            if verdict in ("differs", "failed"):
                print(f"{verdict}  {case.name}: {said}")
    for name, said in found["refused"]:
        print(f"refused  {name}: {said}")
    print(", ".join(f"{len(found[v])} {v}" for v in ("equal", "differs", "failed", "refused")))
    return 1 if found["differs"] or found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
