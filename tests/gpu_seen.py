#!/usr/bin/env python3
"""Writes kernels/backends/cuda/seen.cpp from docs/evidence/h200/gpu.json.

    tests/gpu_seen.py            rewrites the list of rows that hardware has run with the CPU's bits
    tests/gpu_seen.py --check    exit code 1 when it is not what the record says, or when a GPU's
                                 sources have changed and nobody has said which rows that concerns

A row is in it when the record's stage `rows` found every case equal. Rows whose kernels have changed
since are named in CHANGED, until hardware has run them again.
"""

import fnmatch
import hashlib
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Since the record: tables and first passes of functions, which share their headers; add and its kin
# beside prelu and sum; exact products, whose launches may leave a call to one another.
FUNCTIONS = (
    "exp exp2 expm1 log log2 log10 log1p rsqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc "
    "sigmoid log_sigmoid softplus silu gelu mish softsign elu selu celu hard_sigmoid hard_swish leaky_relu sqrt "
    "reciprocal hard_tanh relu").split()
CHANGED = [f"{op}.f32.cuda" for op in FUNCTIONS + "add sub mul div max min".split()] + ["*.exact.cuda.*"]
# Of the sources below as they are now. When they change: name the rows above, then write the hash
# that --check prints.
SOURCES = "81851b78f1581484"
PATTERNS = ("kernels/**/*.cu", "kernels/**/*.cuh", "kernels/**/cuda_*.h", "kernels/**/device_*.h",
            "kernels/backends/cuda/*.h")


def sources():
    h = hashlib.sha256()
    for path in sorted({p for pattern in PATTERNS for p in ROOT.glob(pattern)}):
        h.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return h.hexdigest()[:16]


def array(name, rows):
    lines = "\n".join(f'    "{r}",' for r in rows)
    return f"constexpr std::array<std::string_view, {len(rows)}> {name} = {{\n{lines}\n}};\n"


def text():
    record = json.loads((ROOT / "docs/evidence/h200/gpu.json").read_text())
    seen = f"{record['device'].split(',')[0].removeprefix('NVIDIA ')}, {record['commit']}"
    rows = sorted(r["kernel"] for r in record["rows"] if r.get("equal"))
    changed = [r for r in rows if any(fnmatch.fnmatch(r, p) for p in CHANGED)]
    return f"""// Rows whose bits hardware has shown to be the CPU's. Written by tests/gpu_seen.py; edit there.
#include <algorithm>
#include <array>

#include "kernels/backends/cuda/rows.h"

namespace etalon::cuda {{
namespace {{

constexpr std::string_view kSeen = "{seen}", kBefore = "{seen}, changed since";
// clang-format off
{array("kRows", [r for r in rows if r not in changed])}{array("kChanged", changed)}// clang-format on

}}  // namespace

std::string_view seen_on(std::string_view row) {{
  if (std::ranges::binary_search(kRows, row)) return kSeen;
  return std::ranges::binary_search(kChanged, row) ? kBefore : "never";
}}

}}  // namespace etalon::cuda
"""


def main():
    to = ROOT / "kernels/backends/cuda/seen.cpp"
    if "--check" not in sys.argv[1:]:
        to.write_text(text())
        return
    if sources() != SOURCES:
        sys.exit(f"tests/gpu_seen.py: a GPU's sources have changed: name their rows in CHANGED and write {sources()} to SOURCES")
    if to.read_text() != text():
        sys.exit("kernels/backends/cuda/seen.cpp is not what the record says: run tests/gpu_seen.py")


main()
