#!/usr/bin/env python3
"""Runs the libFuzzer harnesses of the importers one after the other and tells what came of it.

    cmake --preset fuzz && cmake --build --preset fuzz
    python3 tests/fuzz/run.py --seconds 20                 every harness for 20 seconds
    python3 tests/fuzz/run.py --seconds 600 --only onnx,pytorch --state build/fuzz/state
    python3 tests/fuzz/run.py --seconds 20 --until 10000000     round after round, to that many executions
    python3 tests/fuzz/run.py --table --evidence docs/evidence/fuzz.json      what all runs came to

Seeds are the files under tests/, and those of the folder ETALON_FIXTURES where it is set; an input of
more than --largest bytes is left out, since small ones find the same faults a hundred times as fast.
What one run finds new it keeps in the state folder (corpus/, findings/, runs.json), and the next goes
on from there; runs.json adds up executions. Exit code 1 when there is a finding.

The table: executions, inputs that became a model, inputs that reached the graph builder or a tensor,
edges covered (of the importers', which is the same number for all).
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What costs time in every execution and finds nothing here: a stack of 30 frames kept with each block, a quarantine
# that is walked through the cache, frames on the heap. Two frames, 32 MB and the plain stack do.
ASAN_OPTIONS = ("detect_leaks=0:allocator_may_return_null=0:malloc_context_size=2:quarantine_size_mb=32:"
                "detect_stack_use_after_return=0")


def seed_folders():
    folders = [ROOT / "tests" / "fixtures"]
    if os.environ.get("ETALON_FIXTURES"):
        folders.append(pathlib.Path(os.environ["ETALON_FIXTURES"]))
    return [f for f in folders if f.is_dir()]


def all_files():
    return [p for folder in seed_folders() for p in sorted(folder.rglob("*")) if p.is_file() and not p.is_symlink()]


def read(path):
    return path.read_bytes()


def joined(parts):
    return b"".join(struct.pack("<I", len(p)) for p in parts[:-1]) + b"".join(parts)


def endings(harness, name):
    """Names of files that a harness of one file takes."""
    extra = {
        "pytorch": (".pt", ".pth"), "pytorch-script": (".pt",), "pickle": (".pkl", ".p"), "keras": (".h5",), "hdf5": (".h5", ".hdf5"),
        "onnx-tensor": (".pb",), "theano-zip": (".zip",), "tensorflow": (".pb",), "npz": (".npz",),
        "caffe-blob": (".binaryproto",), "torch7": (".t7",), "neon": (".prm", ".p"),
        "mxnet-params": (".params", ".v0"), "container-zip": (".npz", ".pt", ".keras", ".zip"),
        "container-npy": (".npy",), "container-pickle": (".pkl", ".pth", ".prm", ".p"),
        "container-hdf5": (".h5", ".hdf5"), "container-json": (".json",),
        "container-wire": (".onnx", ".caffemodel", ".mlmodel", ".pb"), "container-sstable": (".index", ".ckpt"),
        "container-t7": (".t7",), "cntk": (".model", ".dnn", ".cmf"), "cntk-v1": (".dnn", ".cmf"),
    }
    suffix = pathlib.PurePath(name).suffix
    return extra.get(harness, (suffix,) if suffix else ("no file",))


def seeds_of(harness, names, files, largest):
    own = ROOT / "tests" / "fuzz" / "seeds" / harness
    out = []
    if all((own / n).is_file() for n in names):
        parts = [read(own / n) for n in names]
        out.append(joined(parts) if len(parts) > 1 else parts[0])
    regressions = ROOT / "tests" / "fuzz" / "regressions" / harness
    if regressions.is_dir():
        # What was without an end still takes its bound's time: a test, but no seed.
        out += [read(p) for p in sorted(regressions.iterdir()) if not p.name.endswith("-without-end")]
    if len(names) == 1:
        for p in files:
            if p.name.endswith(endings(harness, names[0])) and p.stat().st_size <= largest:
                out.append(read(p))
        if harness == "tensorflow-checkpoint-v1":
            out += [read(p) for p in files if p.name == "export-00000-of-00001"]
        return out
    first = pathlib.PurePath(names[0])
    for p in files:
        parts = []
        if "/" in names[0]:  # a folder
            tail = names[0].split("/", 1)[1]
            if not str(p).endswith("/" + tail):
                continue
            base = pathlib.Path(str(p)[: -len(tail)])
            parts = [base / n.split("/", 1)[1] for n in names]
            if "Manifest" in tail:  # the members are named in it
                members = [q for q in sorted(base.rglob("*")) if q.is_file() and q != p]
                parts = [p] + [q for q in members if q.suffix == ".mlmodel"] + [q for q in members if q.suffix == ".bin"]
        elif harness == "mxnet":
            if not p.name.endswith("-symbol.json"):
                continue
            parts = [p] + sorted(p.parent.glob(p.name[: -len("-symbol.json")] + "-*.params"))[:1]
        elif harness == "tfjs":
            if p.suffix != ".json" or b"weightsManifest" not in read(p)[:20_000_000]:
                continue
            shards = [s for g in json.loads(read(p))["weightsManifest"] for s in g["paths"]]
            text = read(p)
            for s in shards:
                text = text.replace(s.encode(), b"weights.bin")
            if len(shards) == 1 and (p.parent / shards[0]).is_file():
                whole = joined([text, read(p.parent / shards[0])])
                if len(whole) <= largest:
                    out.append(whole)
            continue
        else:
            ending = "".join(first.suffixes) if first.name.startswith("m.") else first.name[1:]
            if not p.name.endswith(ending):
                continue
            stem = p.name[: -len(ending)]
            parts = [p.parent / (stem + n[1:]) for n in names]
        parts = [q if q.is_file() else None for q in parts]
        parts += [None] * (len(names) - len(parts))
        if parts[0] is None or sum(q.stat().st_size for q in parts if q) > largest:
            continue
        out.append(joined([read(q) if q else b"" for q in parts]))
    return out


def run(program, harness, names, args, files, state):
    corpus = state / "corpus" / harness
    findings = state / "findings" / harness
    corpus.mkdir(parents=True, exist_ok=True)
    # Today's: a fixture that came after the state was begun is a seed of the next run.
    seeds = {f"seed-{hashlib.sha256(data).hexdigest()[:16]}": data
             for data in seeds_of(harness, names, files, args.largest)}
    for p in corpus.glob("seed-*"):
        if p.name not in seeds:
            p.unlink()
    for name, data in seeds.items():
        (corpus / name).write_bytes(data)
    # What grew of larger seeds costs as much as they did.
    for p in corpus.iterdir():
        if p.name not in seeds and p.stat().st_size > args.largest + 1024:
            p.unlink()
    findings.mkdir(parents=True, exist_ok=True)
    largest = max([p.stat().st_size for p in corpus.iterdir()] + [4096])
    command = [str(program), f"--harness={harness}", str(corpus), f"-max_total_time={args.seconds}",
               f"-artifact_prefix={findings}/", f"-max_len={largest + 1024}", f"-timeout={args.timeout}", "-rss_limit_mb=3000",
               "-malloc_limit_mb=1000", "-print_final_stats=1", "-use_value_profile=0", "-reload=0",
               f"-seed={args.seed}"]
    before = {p.name for p in findings.iterdir()}
    environment = dict(os.environ, ASAN_OPTIONS=ASAN_OPTIONS)
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment)
    log = result.stderr
    (state / "log").mkdir(exist_ok=True)
    (state / "log" / f"{harness}.txt").write_text(log[-200_000:])
    row = {"seeds": len(seeds)}
    m = re.search(r"number_of_executed_units: (\d+)", log) or re.findall(r"#(\d+)\s", log)[-1:] or ["0"]
    row["executions"] = int(m.group(1) if hasattr(m, "group") else m[0])
    m = re.search(r"(\d+) runs, (\d+) became a model, (\d+) reached", log)
    row["opened"], row["reached"] = (int(m.group(2)), int(m.group(3))) if m else (0, 0)
    row["told"] = row["executions"] if m else 0  # the shares are of these
    m = re.search(r"\((\d+) inline 8-bit counters", log)
    row["edges_of"] = int(m.group(1)) if m else 0
    covers = re.findall(r"cov: (\d+)", log)
    row["edges"] = int(covers[-1]) if covers else 0
    row["findings"] = sorted(p.name for p in findings.iterdir() if p.name not in before)
    if result.returncode != 0 and not row["findings"]:
        row["findings"] = [f"exit code {result.returncode}"]
    return row


def lines_reached(program, state, folder):
    """Of the source lines that begin a basic block of the importers: those that the corpora reach, and all."""
    def blocks_of(harness):
        out = folder / f"{harness}.txt"
        environment = dict(os.environ, ASAN_OPTIONS=ASAN_OPTIONS)
        subprocess.run([program, f"--harness={harness}", f"--inputs={state / 'corpus' / harness}", f"--blocks={out}"],
                       check=True, env=environment, stderr=subprocess.DEVNULL)
        lines = out.read_text().splitlines()  # "ADDRESS 0" or "ADDRESS 1", the same addresses every time
        out.unlink()
        return lines

    addresses, reached = [], set()
    corpora = sorted((state / "corpus").iterdir(), key=lambda p: -sum(1 for _ in p.iterdir()))  # the longest first
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for lines in pool.map(blocks_of, [p.name for p in corpora]):
            addresses = addresses or [line[:-2] for line in lines]
            reached.update(line[:-2] for line in lines if line.endswith("1"))
    text = subprocess.run(["llvm-symbolizer-19", f"--obj={program}", "--functions=none"], input="\n".join(addresses),
                          capture_output=True, text=True, check=True).stdout
    lines = {}
    for address, frames in zip(addresses, text.split("\n\n")):
        # The innermost frame that is the importers' own: what was inlined into it are the libraries'.
        for frame in frames.splitlines():
            if "/importers/" in frame and not frame.startswith("??"):
                key = tuple(frame[frame.index("/importers/") + 1:].split(":")[:2])
                lines[key] = lines.get(key, False) or address in reached
                break
    return lines


def write_evidence(args, rows):
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    lines = {}
    if shutil.which("llvm-symbolizer-19"):  # Debian package llvm-19
        with tempfile.TemporaryDirectory() as folder:
            lines = lines_reached(args.program, args.state, pathlib.Path(folder))
    files = {}
    for (file, _), hit in lines.items():
        n = files.setdefault(file, [0, 0])
        n[0] += hit
        n[1] += 1
    told = sum(r["told"] for r in rows.values())
    record = {
        "what": "libFuzzer under AddressSanitizer and UndefinedBehaviorSanitizer, all runs of one state folder; tests/fuzz/run.py",
        "commit": commit,
        "executions": sum(r["executions"] for r in rows.values()),
        "reached_share": round(sum(r["reached"] for r in rows.values()) / max(1, told), 4),
        "findings": sum(r["findings"] for r in rows.values()),
        "lines": {"reached": sum(lines.values()), "of": len(lines),
                  "are": "source lines of the importers that begin a basic block; reached by the kept corpora"},
        "harnesses": {name: {"executions": r["executions"], "opened_share": round(r["opened"] / max(1, r["told"]), 4),
                             "reached_share": round(r["reached"] / max(1, r["told"]), 4), "edges": r.get("edges", 0),
                             "findings": r["findings"]} for name, r in sorted(rows.items())},
        "files": {file: f"{hit} of {of} lines" for file, (hit, of) in sorted(files.items())},
    }
    if not record["executions"]:
        sys.exit(f"{args.state}: no run is kept there, and {args.evidence} stays as it is")
    if not lines:
        sys.exit(f"lines are not counted, and {args.evidence} stays as it is: llvm-symbolizer-19 is not here (apt-get install llvm-19)")
    args.evidence.write_text(json.dumps(record, indent=1) + "\n")
    print(f"{args.evidence}: {sum(lines.values())} of {len(lines)} lines")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=20, help="for each harness")
    parser.add_argument("--total", type=int, help="seconds for all harnesses together")
    parser.add_argument("--only", help="names of harnesses, by commas")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "fuzz" / "bin" / "etalon_fuzz")
    parser.add_argument("--state", type=pathlib.Path, default=ROOT / "build" / "fuzz" / "state")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--until", type=int, help="go round until all runs of the state together are so many executions")
    parser.add_argument("--largest", type=int, default=20_000, help="bytes of a seed")
    parser.add_argument("--timeout", type=int, default=20, help="seconds that one input may take")
    parser.add_argument("--evidence", type=pathlib.Path, help="write what all runs came to, with lines covered, as JSON")
    parser.add_argument("--table", action="store_true", help="print what all runs together came to, run nothing")
    args = parser.parse_args()
    book = args.state / "runs.json"
    rows = json.loads(book.read_text()) if book.is_file() else {}
    found = False
    if not args.table:
        if not args.program.is_file():
            sys.exit(f"{args.program}: not built; run cmake --preset fuzz && cmake --build --preset fuzz")
        harnesses = [line.split() for line in
                     subprocess.run([args.program, "--list"], capture_output=True, text=True, check=True).stdout.splitlines()]
        if args.only:
            harnesses = [h for h in harnesses if h[0] in args.only.split(",")]
        if args.total:
            args.seconds = max(1, args.total // max(1, len(harnesses)))
        files = all_files()
        args.state.mkdir(parents=True, exist_ok=True)
        done = False
        while not done:
            for name, *parts in harnesses:
                row = run(args.program, name, parts, args, files, args.state)
                found = found or bool(row["findings"])
                kept = rows.setdefault(name, {"executions": 0, "opened": 0, "reached": 0, "told": 0, "findings": 0})
                for key in ("executions", "opened", "reached", "told"):
                    kept[key] += row[key]
                kept["findings"] += len(row["findings"])
                kept["edges"] = max(row["edges"], kept.get("edges", 0))
                kept["edges_of"] = row["edges_of"]
                kept["seeds"] = row["seeds"]
                kept["seconds"] = kept.get("seconds", 0) + args.seconds
                book.write_text(json.dumps(rows, indent=1))
                executions = sum(r["executions"] for r in rows.values())
                print(f"{time.strftime('%H:%M:%S')} {name}: {row['executions']} executions, cov {row['edges']}, "
                      f"{executions} of all" + (f", FOUND {row['findings']}" if row["findings"] else ""), flush=True)
                done = args.until is None or executions >= args.until
                if done and args.until is not None:
                    break
            args.seed += 1
    print(f"{'harness':28}{'seeds':>6}{'executions':>12}{'a model':>9}{'reached':>9}{'edges':>8}{'findings':>9}")
    total = {"executions": 0, "reached": 0, "told": 0}
    for name, r in sorted(rows.items()):
        share = lambda key: f"{100 * r[key] / r['told']:.0f} %" if r["told"] else "-"
        print(f"{name:28}{r.get('seeds', 0):6}{r['executions']:12}{share('opened'):>9}{share('reached'):>9}"
              f"{r.get('edges', 0):8}{r['findings']:9}")
        for key in total:
            total[key] += r[key]
    print(f"{'all':28}{'':6}{total['executions']:12}{'':9}{100 * total['reached'] / max(1, total['told']):7.0f} %")
    if args.evidence:
        write_evidence(args, rows)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
