"""Every form of every op, written by `etalon convert`, against onnx's checker and ONNX Runtime.

Run: python tests/onnx_export_check.py [ETALON]   (ETALON: the binary, by default build/bin/etalon)
Each model of tests/fixtures/onnx_nodes is converted to opset 21; onnx.checker must pass it with
full shape inference, and ONNX Runtime, where it runs the file, must give the recorded outputs. So must
it pass what other formats' fixtures become, but for what is refused by name. Of TensorFlow Lite's
networks ONNX Runtime must give the recorded integers and hybrid numbers bit for bit, others within 2e-6;
of functions that ONNX lacks (exp2, log2, log10, cbrt, erfc) our values within the bounds of FUNCTIONS.
Prints what was skipped and exits 0 when Python lacks onnx or onnxruntime, 1 when a check failed.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
except ImportError as missing:
    print(f"skipped: {missing}; install onnx and onnxruntime for this Python")
    sys.exit(0)

# ONNX Runtime and onnx's own evaluator differ on the file as it was given, too.
PEERS_DIFFER = {"resize_13_cubic_corners", "stft_17_longest"}

# Its sigmoid and tanh are not TensorFlow Lite's to the last bit, nor does it sum in the same sequence.
NEAR = ("floats", "recurrent", "hybrid_lstm", "selection")

OTHERS = ("coreml/**/*.mlmodel", "tf_graphs/*.pb", "tflite_ops/*.tflite", "torch_graphs/*.pt*", "runtimes/*.xml", "runtimes/*.ort")
NO_FORM = ("no form in ONNX", "no graph to write, only tensors")


def others(etalon, root, folder):
    """Converts the fixtures of other formats: how many passed, how many are refused, what failed."""
    passed, refused, failed = 0, 0, []
    for file in sorted(f for pattern in OTHERS for f in (root / "tests/fixtures").glob(pattern)):
        out = pathlib.Path(folder) / "other.onnx"
        done = subprocess.run([etalon, "convert", file, "-o", out], capture_output=True, text=True)
        if done.returncode and any(text in done.stderr for text in NO_FORM):
            refused += 1
            continue
        try:
            if done.returncode:
                raise ValueError(done.stderr.strip())
            onnx.checker.check_model(onnx.load(out), full_check=True)
            passed += 1
        except (ValueError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as fault:
            failed.append(f"{file.name}: {fault}")
    return passed, refused, failed


def recorded_runs(folder):
    """Name, inputs and outputs of the networks of tests/fixtures/tflite_ops that have some recorded."""
    tables = [np.load(f) for f in sorted(folder.glob("*.npz"))]
    for file in sorted(folder.glob("*.tflite")):
        for table in tables:
            of = lambda part: {k[len(file.stem) + len(part):]: table[k] for k in table if k.startswith(file.stem + part)}
            if of(".in."):
                yield file, of(".in."), of(".out.")
                break


def tflite(etalon, root, folder, options):
    """Outputs in ONNX Runtime of what TensorFlow Lite's fixtures become: how many agree, what failed."""
    equal, failed = 0, []
    for file, inputs, outputs in recorded_runs(root / "tests/fixtures/tflite_ops"):
        out = str(pathlib.Path(folder) / "tflite.onnx")
        done = subprocess.run([etalon, "convert", file, "-o", out], capture_output=True, text=True)
        if done.returncode:
            if not any(text in done.stderr for text in NO_FORM):
                failed.append(f"{file.name}: {done.stderr.strip()}")
            continue
        try:
            got = ort.InferenceSession(out, options, providers=["CPUExecutionProvider"]).run(None, inputs)
        except Exception as refusal:
            failed.append(f"{file.name}: {str(refusal).splitlines()[0][:200]}")
            continue
        for g, (name, w) in zip(got, outputs.items(), strict=True):
            near = file.stem in NEAR and w.dtype == np.float32
            if g.dtype == w.dtype and g.shape == w.shape and (np.allclose(g, w, 2e-6, 2e-6) if near else np.array_equal(g, w)):
                equal += 1
            else:
                failed.append(f"{file.name}: ONNX Runtime gives another {name}")
    return equal, failed


# Functions that ONNX lacks, where they are compared, and how far from ours what ONNX Runtime makes of their
# form may lie, in units of the last place: the form is computed in f64, but for erfc's erf below a half.
FUNCTIONS = {"exp2": (-160, 130, 1), "log2": (1e-45, 3e38, 1), "log10": (1e-45, 3e38, 1),
             "cbrt": (-3e38, 3e38, 1), "erfc": (-12, 11, 4)}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-45, -1e-45, 1.17549435e-38, 3.4028235e38, -3.4028235e38]


def grid(low, high, count=100_000):
    """Numbers of f32 between the two: evenly spread, and evenly over all magnitudes."""
    draw = np.random.default_rng(11)
    sizes = np.exp2(draw.uniform(-149, 128, count)) * draw.choice([-1.0, 1.0], count)
    all_of = np.concatenate([draw.uniform(low, high, count), sizes]).astype(np.float32)
    return np.concatenate([all_of[(all_of >= low) & (all_of <= high)], np.array(SPECIAL, np.float32)])


def functions(etalon, folder, options):
    """Functions whose form in ONNX is several nodes: how far ONNX Runtime's values are from ours, what failed."""
    folder, said, failed = pathlib.Path(folder), [], []
    for op, (low, high, most_ulp) in FUNCTIONS.items():
        graph = {"etalon_graph": 1, "name": op, "inputs": [{"name": "x", "dtype": "f32", "dims": ["batch"]}],
                 "outputs": [{"name": "y", "dtype": "f32", "dims": None}],
                 "nodes": [{"name": op, "op": op, "params": {}, "inputs": ["x"], "outputs": ["y"]}]}
        (folder / "function.json").write_text(json.dumps(graph))
        x = grid(low, high)
        np.save(folder / "function_x.npy", x)
        for command in (["convert", folder / "function.json", "-o", folder / "function.onnx"],
                        ["run", folder / "function.json", "--input", folder / "function_x.npy", "-o", folder / "function_y.npy"]):
            done = subprocess.run([etalon, *command], capture_output=True, text=True)
            if done.returncode:
                failed.append(f"{op}: {done.stderr.strip()}")
                break
        else:
            ours = np.load(folder / "function_y.npy")
            session = ort.InferenceSession(str(folder / "function.onnx"), options, providers=["CPUExecutionProvider"])
            theirs = session.run(None, {"x": x})[0]
            # What is not finite is to be equal.
            finite = np.isfinite(ours) & np.isfinite(theirs)
            apart = np.abs(theirs[finite].astype(np.float64) - ours[finite].astype(np.float64))
            ulp = apart / np.spacing(np.abs(ours[finite])).astype(np.float64)
            same = np.array_equal(np.isnan(ours), np.isnan(theirs)) and np.array_equal(ours[~finite & ~np.isnan(ours)],
                                                                                      theirs[~finite & ~np.isnan(ours)])
            said.append(f"{op} {ulp.max():.2g} ULP, {np.count_nonzero(apart)} of {apart.size} not equal")
            if not same or ulp.max() > most_ulp or finite.sum() < 50_000:
                worst = x[finite][np.argmax(ulp)]
                failed.append(f"{op}: ONNX Runtime is {ulp.max():.3g} ULP away at {worst!r}, of {finite.sum()} numbers; bound {most_ulp}")
    return said, failed


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    etalon = sys.argv[1] if len(sys.argv) > 1 else root / "build/bin/etalon"
    options = ort.SessionOptions()
    options.log_severity_level = 4
    failed, unrun, equal = [], [], 0
    files = sorted((root / "tests/fixtures/onnx_nodes").glob("*.onnx"))
    with tempfile.TemporaryDirectory() as folder:
        for file in files:
            out = pathlib.Path(folder) / file.name
            done = subprocess.run([etalon, "convert", file, "-o", out], capture_output=True, text=True)
            if done.returncode:
                failed.append(f"{file.stem}: {done.stderr.strip()}")
                continue
            try:
                onnx.checker.check_model(onnx.load(out), full_check=True)
            except onnx.checker.ValidationError as fault:
                failed.append(f"{file.stem}: {fault}")
                continue
            except onnx.shape_inference.InferenceError as fault:
                failed.append(f"{file.stem}: {fault}")
                continue
            recorded = np.load(file.with_suffix(".npz"))
            try:
                session = ort.InferenceSession(str(out), options, providers=["CPUExecutionProvider"])
                got = session.run(None, {k: recorded[k] for k in recorded if k.startswith("in")})
            except Exception as refusal:  # the peer's own limits, listed below
                unrun.append(f"{file.stem}: {str(refusal).splitlines()[0][:100]}")
                continue
            same = all(
                g.shape == w.shape and g.dtype == w.dtype
                and np.allclose(g.astype(float), w.astype(float), 1e-5, 1e-5, equal_nan=True)
                for g, w in zip(got, (recorded[f"out{i}"] for i in range(len(got)))))
            if same:
                equal += 1
            elif file.stem not in PEERS_DIFFER:
                failed.append(f"{file.stem}: ONNX Runtime computes something else from it")
        passed, refused, faults = others(etalon, root, folder)
        same_lite, faults_lite = tflite(etalon, root, folder, options)
        distances, faults_functions = functions(etalon, folder, options)
    failed += faults + faults_lite + faults_functions
    print(f"functions in ONNX Runtime, from ours at most: {'; '.join(distances)}")
    print(f"{same_lite} outputs of TensorFlow Lite's networks are the recorded ones in ONNX Runtime")
    print(f"{passed} graphs of other formats pass onnx.checker, {refused} have no form in ONNX")
    print(f"{len(files)} converted; {equal} give the recorded outputs in ONNX Runtime, "
          f"{len(unrun)} it does not run, {len(failed)} failed")
    for line in unrun + failed:
        print("  " + line)
    return 1 if failed or not files or not passed or not same_lite else 0


if __name__ == "__main__":
    sys.exit(main())
