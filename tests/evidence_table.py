#!/usr/bin/env python3
"""Writes the table of ratios in docs/evidence/README.md from the records beside it.

    tests/evidence_table.py            rewrites the table
    tests/evidence_table.py --check    exit code 1 when the table is not what the records say

A ratio is our time divided by theirs, the geometric mean over the record's shapes or networks, as
`etalon bench` wrote it into the record's summary: of medians. Beside a library it stands again of the
fastest samples of both, to tell a slow kernel from a slow stretch of the machine.
"""

import json
import math
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "docs/evidence"
BEGIN = "<!-- written by tests/evidence_table.py from the records; edit there -->\n"
END = "<!-- end of the table -->\n"


def gpu_rows(record, name):
    """Of bench/gpu_evidence.sh: ours beside the library's fastest kernel that keeps f32 products."""
    unequal = {r["kernel"] for r in record["rows"] if not r.get("equal")}  # a wrong answer has no speed
    found = {}
    for entry in record["times"]:
        if entry.get("best_seq") in unequal:
            continue
        op, shape = entry["key"].split()
        for field, contract in (("ratio", "seq"), ("exact_ratio", "exact"),
                                ("implicit_gemm_ratio", "seq, implicit GEMM"),
                                ("exact_implicit_gemm_ratio", "exact, implicit GEMM"),
                                ("winograd_ratio", "winograd:4, Winograd")):
            if field in entry:
                found.setdefault((op, contract), []).append((entry[field], shape))
        if "ratio_to_copy" in entry and shape.startswith("stream.64M"):
            found.setdefault(("functions", "copy"), []).append((entry["ratio_to_copy"], op))
    for (op, contract), ratios in sorted(found.items()):
        peer = f"{op}: a copy" if contract == "copy" else f"{op} {contract}: cuBLAS, cuDNN"
        yield (record["device"].split(",")[0], record["commit"], name, peer, str(len(ratios)), *cells(ratios), "", "")


def slowest(record, peer):
    """The row where a contract is slowest beside seq, which the ratio has above the line."""
    found = []
    for row in record["bench"]["rows"]:
        other = row.get("vs", {}).get(peer, {})
        if other.get("kind") == "contract" and "ratio" in other and "acc=f32,order=seq" in row["contract"] and \
                "algo=direct" in row["contract"]:
            typed = row["suite"] == "typed"  # of a --shape, which names no op
            found.append((other["ratio"], f"{row['op']} {row['shape']}" if typed else row["name"]))
    return min(found, default=None)


def of_fastest(record, peer):
    """(ratio, row) of each row, fastest sample by fastest sample of the peer's kernels."""
    library, blocked = peer.removesuffix(".blocked"), peer.endswith(".blocked")
    found = []
    for row in record["bench"]["rows"]:
        theirs = [min(v["samples"]) for k, v in row.get("vs", {}).items()
                  if v.get("kind") == "library" and v.get("samples") and (k + ".").startswith(library + ".")
                  and (blocked or not k.endswith(".blocked"))]
        if theirs and row.get("samples"):
            found.append((min(row["samples"]) / min(theirs), row.get("name", row["op"])))
    return found


def cells(ratios):
    if not ratios:
        return "", ""
    worst = max(ratios)
    mean = math.exp(sum(math.log(r) for r, _ in ratios) / len(ratios))
    return f"{mean:.2f}", "" if len(ratios) == 1 else f"{worst[0]:.2f} `{worst[1]}`"


def rows():
    for path in sorted(FOLDER.rglob("*.json")):
        record = json.loads(path.read_text())
        if "times" in record:
            yield from gpu_rows(record, f"`{path.relative_to(FOLDER)}`")
        summary = record.get("bench", {}).get("summary", {})
        for peer, found in sorted(summary.items()):
            if peer.endswith(".blocked") and found == summary.get(peer.removesuffix(".blocked")):
                continue  # nothing there has a layout of its own
            kind, _, plain = peer.partition(".")
            plain = plain if kind in ("functions", "network", "import") else peer
            worst = slowest(record, plain) or (found["worst"], found["worst_shape"])
            processor = record["bench"].get("gpu", "").split(",")[0] or record["machine"]["cpu"]
            yield (processor, record["etalon"]["commit"][:7] + "\\*" * record["etalon"]["commit"].endswith("-dirty"),
                   f"`{path.relative_to(FOLDER)}`", plain, str(found["shapes"]), f"{found['geomean']:.2f}",
                   "" if found["shapes"] == 1 else f"{worst[0]:.2f} `{worst[1]}`",
                   *cells(of_fastest(record, plain)))


def table():
    head = ("Processor", "Commit", "Record", "Peer", "Rows", "Ratio", "Worst row", "Of fastest", "Worst row")
    lines = [head, ("---",) * len(head), *rows()]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def main():
    readme = FOLDER / "README.md"
    text = readme.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    new = before + BEGIN + "\n" + table() + "\n" + END + after
    if "--check" in sys.argv[1:]:
        if new != text:
            sys.exit("docs/evidence/README.md is not what the records say: run tests/evidence_table.py")
        return
    readme.write_text(new)


main()
