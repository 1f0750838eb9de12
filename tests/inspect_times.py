#!/usr/bin/env python3
"""How long `etalon inspect` takes on every small file among the fixtures: the median of some runs, by wall clock.

Run on a quiet machine: python3 tests/inspect_times.py [ETALON] [--runs 5] [--bar 50] [--part 1/2]
ETALON is the binary, by default build/bin/etalon. Files of less than 1 MB below tests/fixtures and the folder
ETALON_FIXTURES; of the runs of one file each comes after a run of all others, so that a disturbance meets few
of them. Prints the slowest ten and exits 1 when a median is above the bar (milliseconds).
"""
import argparse
import os
import pathlib
import statistics
import sys
import time

LARGEST = 1_000_000
# What models end in; what lies beside them (weights of another file, recorded arrays) is not inspected by itself.
ENDINGS = (".onnx", ".ort", ".pb", ".pbtxt", ".h5", ".hdf5", ".keras", ".pt", ".pth", ".pt2", "-symbol.json", ".params",
           ".pkl", ".prm", ".prototxt", ".caffemodel", ".binaryproto", ".model", ".dnn", ".cmf", ".t7", ".tflite",
           ".mlmodel", ".xml", ".param", ".cfg", ".msgpack", ".gguf", ".npz", ".npy", ".safetensors", ".index", ".meta",
           "model.json")


def files():
    folders = [pathlib.Path(__file__).resolve().parent / "fixtures"]
    if os.environ.get("ETALON_FIXTURES"):
        folders.append(pathlib.Path(os.environ["ETALON_FIXTURES"]))
    return [p for folder in folders for p in sorted(folder.rglob("*"))
            if p.is_file() and p.name.endswith(ENDINGS) and p.stat().st_size < LARGEST]


def milliseconds(etalon, file, quiet):
    start = time.perf_counter()
    child = os.posix_spawn(etalon, [etalon, "inspect", str(file)], os.environ,
                           file_actions=[(os.POSIX_SPAWN_DUP2, quiet, 1), (os.POSIX_SPAWN_DUP2, quiet, 2)])
    os.waitpid(child, 0)
    return 1000 * (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("etalon", nargs="?", default=str(root / "build/bin/etalon"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--bar", type=float, default=50)
    parser.add_argument("--part", default="1/1", help="which part of the files: 2/3 is the second of three")
    args = parser.parse_args()
    part, parts = (int(n) for n in args.part.split("/"))
    chosen = files()[part - 1::parts]
    times = {file: [] for file in chosen}
    with open(os.devnull, "w") as quiet:
        for _ in range(args.runs):
            for file in chosen:
                times[file].append(milliseconds(args.etalon, file, quiet.fileno()))
    medians = sorted(((statistics.median(t), file) for file, t in times.items()), reverse=True)
    above = [m for m in medians if m[0] > args.bar]
    print(f"{len(medians)} files, {args.runs} runs each: half of them within {statistics.median(m for m, _ in medians):.1f} ms, "
          f"{len(above)} above {args.bar:g} ms")
    for ms, file in medians[:10]:
        print(f"  {ms:7.1f} ms {file.stat().st_size:9} bytes  {file}")
    return 1 if above or not medians else 0


if __name__ == "__main__":
    sys.exit(main())
