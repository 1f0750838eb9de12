#!/usr/bin/env python3
"""Writes kernels/backends/cuda/seen.cpp from docs/evidence/h200/gpu.json.

    tests/gpu_seen.py            rewrites the list of rows that hardware has run with the CPU's bits
    tests/gpu_seen.py --check    exit code 1 when it is not what the record says

A row is in it when the record's stage `rows` found every case equal; a kernel that has changed since
is taken out of the record's list here (CHANGED), until hardware has run it again.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
CHANGED = set()


def text():
    record = json.loads((ROOT / "docs/evidence/h200/gpu.json").read_text())
    device = record["device"].split(",")[0].removeprefix("NVIDIA ")
    rows = sorted(r["kernel"] for r in record["rows"] if r.get("equal") and r["kernel"] not in CHANGED)
    lines = "\n".join(f'    "{r}",' for r in rows)
    return f"""// Rows whose bits hardware has shown to be the CPU's. Written by tests/gpu_seen.py; edit there.
#include <algorithm>
#include <array>

#include "kernels/backends/cuda/rows.h"

namespace etalon::cuda {{
namespace {{

constexpr std::string_view kSeen = "{device}, {record['commit']}";
// clang-format off
constexpr std::array<std::string_view, {len(rows)}> kRows = {{
{lines}
}};
// clang-format on

}}  // namespace

std::string_view seen_on(std::string_view row) {{
  return std::ranges::binary_search(kRows, row) ? kSeen : "never";
}}

}}  // namespace etalon::cuda
"""


def main():
    to = ROOT / "kernels/backends/cuda/seen.cpp"
    if "--check" in sys.argv[1:]:
        if to.read_text() != text():
            sys.exit("kernels/backends/cuda/seen.cpp is not what the record says: run tests/gpu_seen.py")
        return
    to.write_text(text())


main()
