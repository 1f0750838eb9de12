"""Writes docs/functions-tables.md: what is proven of each function, and where libraries are wrong.

    tests/functions_tables.py [--state STATE] [--survey RECORD.json ...]

STATE is etalon_prove's file (--state), RECORD what `etalon survey ... --json` wrote. The page says
which part of the range a survey looked at; of two records of a row the later one counts. Functions
that STATE lacks keep their rows, and without RECORD the libraries keep theirs: a proof holds as long as
the function's hash is the one on record. Without --state all functions keep theirs.
"""
import argparse
import json
import pathlib
import re
import struct

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "functions-tables.md"
LIBRARIES = "## Libraries"
ALL = 1 << 32

FIELDS = "inputs exact lemma law taylor refused rn rz ru rd sampled wrong apart".split()
NAMES = {"glibc": "glibc", "onednn": "oneDNN", "numpy": "NumPy", "pytorch": "PyTorch", "onnxruntime": "ONNX Runtime"}


def hex_float(bits):
    fraction, exponent = struct.unpack("f", struct.pack("I", bits))[0].hex().split("p")
    return fraction.rstrip("0").rstrip(".") + "p" + exponent


def proofs(path):
    """Function -> sums of its 256 pieces, and the hardest input; functions not finished are left out."""
    found = {}
    for line in pathlib.Path(path).read_text().splitlines():
        words = line.split("\t")[0].split()
        if len(words) != 19 or len(words[18]) != 16:
            continue
        f = found.setdefault(words[0], {})
        f[int(words[1])] = ([int(w) for w in words[2:15]], float.fromhex(words[15]), int(words[16], 16))
    rows = []
    for name, pieces in found.items():
        if len(pieces) != 256:
            continue
        sums = [sum(column) for column in zip(*(p[0] for p in pieces.values()))]
        distance, bits = min((p[1], p[2]) for p in pieces.values())
        rows.append((name, dict(zip(FIELDS, sums)), distance, bits))
    return rows


def count(n):
    return f"{n:,}".replace(",", " ")


def share(part, whole):
    return "0" if part == 0 else f"{100 * part / whole:.2g} %"


def proof_table(path, out):
    out.append("| Function | by lemma or exact | by a law | by polynomials | left to MPFR: nearest, directed | wrong | "
               "nearest to a midpoint, ULP | at x |\n|---|---|---|---|---|---|---|---|")
    rows = {m[1]: m[0] for m in re.finditer(r"^\| `(\w+)` \|.*$", PAGE.read_text().split(LIBRARIES)[0], re.M)}
    for name, s, distance, bits in proofs(path) if path else []:
        assert s["inputs"] == ALL and s["apart"] == 0, name
        near = ("", "") if distance >= 1 else (f"{distance:.2g}" if distance else "below 1.9e-9", f"`{hex_float(bits)}`")
        rows[name] = (f"| `{name}` | {count(s['lemma'] + s['exact'])} | {count(s['law'])} | {count(s['taylor'])} | "
                      f"{s['rn']}, {s['rz'] + s['ru'] + s['rd']} | {s['wrong']} | {near[0]} | {near[1]} |")
    out += rows.values()


def survey_tables(records, out):
    rows, libraries = [], {}
    for path in records:
        for row in json.loads(pathlib.Path(path).read_text())["survey"]["rows"]:
            rows.append(row)
            libraries[row["library"]] = row["version"]
    order = [name for name in NAMES if name in libraries]
    functions = list(dict.fromkeys(row["function"] for row in rows))
    at = {(row["function"], row["library"]): row for row in rows}
    samples = sorted({row["inputs"] for row in at.values() if row["inputs"] != ALL})
    of = [f"all {count(ALL)} inputs"] if any(row["inputs"] == ALL for row in at.values()) else []
    of += [f"a sample of {count(n)} where a ~ stands" for n in samples]
    out.append("Libraries: " + ", ".join(libraries[name] for name in order) + ". Of " + ", ".join(of) + ".\n")
    out.append("Share that is not correctly rounded, and the largest error in ULP:\n")
    out.append("| Function | " + " | ".join(NAMES[n] for n in order) + " |\n|---" * 1 + "|---" * len(order) + "|")
    for f in functions:
        cells = []
        for n in order:
            row = at.get((f, n))
            sample = "" if row is None or row["inputs"] == ALL else "~ "
            cells.append("" if row is None else
                         f"{sample}{share(row['wrong'], row['inputs'])}, {max(row['max_ulp'], 0.5):.3g}")
        out.append(f"| `{f}` | " + " | ".join(cells) + " |")
    out.append("\nWitnesses of the largest errors:\n")
    out.append("| Function | Library | x | its result | the right one |\n|---|---|---|---|---|")
    for f in functions:
        for n in order:
            worst = at.get((f, n), {}).get("worst")
            if worst:
                out.append(f"| `{f}` | {NAMES[n]} | `{worst['x']}` | `{worst['got']}` | `{worst['expected']}` |")
    out.append("\nWrong NaN, infinities and zeros; neighbours in the wrong order; broken symmetry; results that change "
               "with the place in an array or with its length:\n")
    out.append("| Function | Library | special | order | symmetry | place | witness |\n|---|---|---|---|---|---|---|")
    for f in functions:
        for n in order:
            row = at.get((f, n))
            if row is None:
                continue
            special = row["nan_wrong"] + row["infinity_wrong"] + row["zero_sign_wrong"]
            kinds = {"special": special, "order": row["order_breaks"], "symmetry": row["symmetry_breaks"],
                     "place": row["place_breaks"]}
            if not any(kinds.values()):
                continue
            first = next(k for k, v in kinds.items() if v)
            w = row.get(first)
            text = f"f({w['x']}) = {w['got']}, {'elsewhere' if first == 'place' else 'expected'} {w['expected']}" if w else ""
            out.append(f"| `{f}` | {NAMES[n]} | " + " | ".join(count(v) for v in kinds.values()) + f" | {text} |")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--state")
    parser.add_argument("--survey", action="append", default=[])
    options = parser.parse_args()
    out = ["# The functions, measured", "",
           "Written by `tests/functions_tables.py`; what the columns mean: [functions.md](functions.md).", "",
           "## Proven on all 2^32 inputs", ""]
    proof_table(options.state, out)
    out += ["", "By `etalon_prove --state FILE all`. What is left of 2^32 in a row went one by one, by a",
            "ball or MPFR; the distance is the smallest among these, known to 2^-29 ULP.", "", LIBRARIES, ""]
    if options.survey:
        survey_tables(options.survey, out)
    else:
        out += PAGE.read_text().split(LIBRARIES + "\n")[1].strip().split("\n")
    PAGE.write_text("\n".join(out) + "\n")


main()
