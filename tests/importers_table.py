#!/usr/bin/env python3
"""Writes docs/importers-table.md: for every format the ops that its fixtures in tests/ become, each with
the smallest fixture that shows it.

    python3 tests/importers_table.py build/release/bin/etalon

tests/import_table_test.cpp opens every fixture that the table names and finds the op in it.
"""
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
SKIPPED = {".npz", ".npy", ".txt", ".py", ".bin", ".weights", ".cpp", ".md", ".json.io"}


def candidates():
    for folder in ("tests/fixtures", "tests/fuzz/seeds"):
        for path in sorted((ROOT / folder).rglob("*")):
            if "container-" in str(path) or "hostile" in str(path) or "onnx_bad" in str(path):
                continue
            if path.is_file() and path.suffix not in SKIPPED:
                yield path
    for path in sorted((ROOT / "tests/fuzz/seeds").glob("*/m")):
        if path.is_dir():
            yield path


def main():
    table = collections.defaultdict(dict)
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch) / "i.json"
        for path in candidates():
            out.unlink(missing_ok=True)
            subprocess.run([sys.argv[1], "inspect", str(path), "--json", str(out)], capture_output=True)
            if not out.is_file():
                continue
            found = json.loads(out.read_text())["inspect"]
            if isinstance(found, list):
                found = found[0]
            size = path.stat().st_size
            name = str(path.relative_to(ROOT))
            ops = {n["op"] for n in found.get("nodes", [])} or {"(tensors)"}
            for op in ops:
                old = table[found["format"]].get(op)
                if old is None or (size, name) < old:
                    table[found["format"]][op] = (size, name)
    lines = ["# Formats, ops and the fixtures that show them", "",
             "Made by `python3 tests/importers_table.py build/release/bin/etalon`; `tests/import_table_test.cpp` opens each",
             "fixture and finds the op in it. An op that a format has and this table lacks is tried on real files where",
             "they are present (`tests/import_real_files_test.cpp`); one that an importer does not know is refused by its",
             "name: [importers-operators.md](importers-operators.md), by format. What hostile files are told:",
             "`tests/fixtures/hostile/expected.txt`.", "",
             "| format | op | fixture |", "|---|---|---|"]
    for form in sorted(table):
        for op in sorted(table[form]):
            lines.append(f"| {form} | {op} | `{table[form][op][1]}` |")
    (ROOT / "docs" / "importers-table.md").write_text("\n".join(lines) + "\n")
    print(f"{len(table)} formats, {sum(map(len, table.values()))} rows")


if __name__ == "__main__":
    main()
