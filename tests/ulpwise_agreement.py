"""Writes docs/ulpwise.md: what PyPI's `ulpwise` finds, and what Etalon finds on the same numbers.

    PYTHON tests/ulpwise_agreement.py --etalon build/release/bin/etalon [--points 600] [--edges exp log]

PYTHON has ulpwise, mpmath, numpy and whatever else is to be judged (torch). ulpwise surveys the library with its own
inputs and its own reference (mpmath, 200 bits); `etalon judge` judges the same arrays. Largest error, results beyond
one ULP and wrong infinities and NaN must be the same; the values that ulpwise's oracles give at its knife edges must
be the correctly rounded ones; with --edges, its knife edges between 1/2 and 1 must be those that `etalon edges`
lists. Exit code 1 where they part.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import ulpwise
from ulpwise import survey as study

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "ulpwise.md"
OPS = {"logsigmoid": "log_sigmoid", "gelu_tanh": "gelu", "recip": "reciprocal"}
PARAMS = {"gelu_tanh": ["--params", "approximate=tanh"]}
# ulpwise's oracle for all but sqrt and recip is the platform's f64: below this distance it may take the other side.
TRUSTED = 1e-7


class Etalon:
    def __init__(self, program, folder):
        self.program, self.folder = program, pathlib.Path(folder)

    def run(self, *words):
        record = self.folder / "record.json"
        done = subprocess.run([self.program, *words, "--json", str(record)], capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(f"etalon {' '.join(words)}: {done.stderr.strip()}")
        return json.loads(record.read_text())

    def judge(self, name, x, y):
        files = [str(self.folder / f) for f in ("x.npy", "y.npy")]
        np.save(files[0], x)
        np.save(files[1], y)
        words = ["judge", OPS.get(name, name), "--contract", "exact", "--inputs", f"x={files[0]}", "--output", files[1]]
        return self.run(*words, *PARAMS.get(name, []))["judge"]["outputs"][0]


def ours(name):
    ops = {"exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan",
           "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc", "sigmoid", "gelu",
           "silu", "mish", "softplus", "log_sigmoid", "elu", "selu"}
    return OPS.get(name, name) in ops


def number(x):
    fraction, exponent = float(x).hex().split("p")
    return fraction.rstrip("0").rstrip(".") + "p" + exponent


def survey_rows(etalon, backends, points):
    """Row: function, library, inputs, ulpwise's findings, ours, whether they agree."""
    rows = []
    for entry in study.REGISTRY:
        if not ours(entry.name):
            continue
        for found in study.survey(backends=backends, dtypes=("f32",), points=points, functions=[entry.name]):
            x = study.grid(entry.domain, "f32", points)
            with np.errstate(all="ignore"):
                y = np.asarray(study.backend_callable(found.backend, entry, "f32")(x))
            if y.dtype != np.float32:
                continue
            judged = etalon.judge(entry.name, x, y)
            beyond = round(found.frac_gt1 * (found.n - found.nonfinite_mismatch))
            counts = judged["ulp_histogram"]["counts"]
            mine = (judged["max_ulp"] or 0.0, sum(counts[2:]), judged["non_finite"])
            theirs = (found.max_ulp, beyond, found.nonfinite_mismatch)
            # 1/0 is an error to mpmath, so ulpwise wants NaN there; by IEEE 754 it is infinite.
            poles = np.count_nonzero(x == 0) if entry.name == "reciprocal" else 0
            same = abs(mine[0] - theirs[0]) <= 2e-3 * max(1.0, theirs[0]) and (mine[1], mine[2] + poles) == theirs[1:]
            rows.append((entry.name, found.backend, found.n, theirs, mine, judged["correctly_rounded"], found.worst_x, same))
    return rows


def knife_rows(etalon):
    rows = []
    for name in ulpwise.UNARY_OPS:
        found = [k for low, high in ((0.5, 1.0), (1.0, 2.0)) for k in ulpwise.knife_edges(name, low, high, 1e-5, "f32", 10**6)]
        found = [k for k in found if k[2] > TRUSTED]
        x, y = (np.array([k[i] for k in found], dtype=np.float32) for i in (0, 1))
        judged = etalon.judge(name, x, y)
        rows.append((OPS.get(name, name), len(x), round(judged["correctly_rounded"] * len(x))))
    return rows


def edge_rows(etalon, functions, within=1e-6):
    rows = []
    for name in functions:
        listed = etalon.run("edges", name, "--within", str(within), "--most", "1000000")["edges"]["nearest"]
        mine = {float.fromhex(e["x"]): abs(e["distance_ulp"]) for e in listed}
        mine = {x: d for x, d in mine.items() if 0.5 <= x < 1}
        theirs = {k[0]: k[2] for k in ulpwise.knife_edges(name, 0.5, 1.0, within, "f32", 10**6)}
        # What lies this near to the limit may be counted or not.
        apart = [x for x in mine.keys() ^ theirs.keys() if abs(mine.get(x, theirs.get(x)) - within) > 2e-8]
        off = max((abs(mine[x] - theirs[x]) for x in mine.keys() & theirs.keys()), default=0.0)
        rows.append((name, len(mine), len(theirs), len(apart), off))
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--etalon", required=True)
    parser.add_argument("--points", type=int, default=600)
    parser.add_argument("--backends", nargs="+", default=["numpy", "torch"])
    parser.add_argument("--edges", nargs="*", default=["exp", "log"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        etalon = Etalon(options.etalon, folder)
        surveyed, knives = survey_rows(etalon, options.backends, options.points), knife_rows(etalon)
        edges = edge_rows(etalon, options.edges)
    versions = study.versions()
    out = ["# Beside ulpwise", "",
           "Written by `tests/ulpwise_agreement.py`, which fails where the two part. PyPI's `ulpwise` measures libraries on a",
           "grid of inputs against mpmath with 200 bits; `etalon judge` judged the same arrays against correctly rounded",
           "values of its own. They part in one point: of 1/0 ulpwise wants NaN, since mpmath refuses to divide, where IEEE 754",
           "says infinity. `etalon survey` goes on from there: all 2^32 inputs, order, symmetry, place in the array.", "",
           "Versions: " + ", ".join(f"{k} {v}" for k, v in versions.items() if v and k in ("ulpwise", "numpy", "torch", "mpmath"))
           + ".", "",
           "## Libraries, f32", "",
           "| Function | Library | inputs | largest error, ULP: ulpwise | Etalon | beyond 1 ULP: ulpwise | Etalon | wrong inf, "
           "NaN: ulpwise | Etalon | correctly rounded | worst at |", "|---|---|---|---|---|---|---|---|---|---|---|"]
    for name, library, n, theirs, mine, rounded, worst, same in surveyed:
        out.append(f"| `{name}` | {library} | {n} | {theirs[0]:.4g} | {mine[0]:.4g} | {theirs[1]} | {mine[1]} | {theirs[2]} | "
                   f"{mine[2]} | {100 * rounded:.1f} % | `{number(worst)}` |" + ("" if same else " **they part**"))
    out += ["", "## The values at ulpwise's knife edges", "",
            f"Inputs between 1/2 and 2 whose exact value lies {TRUSTED:g} to 1e-05 ULP from a midpoint: how many of the",
            "values that its oracles give are the correctly rounded ones.", "",
            "| Function | inputs | correctly rounded |", "|---|---|---|"]
    out += [f"| `{name}` | {n} | {right} |" for name, n, right in knives]
    out += ["", "## The list of edges", "", "Between 1/2 and 1, within 1e-06 ULP: `etalon edges` and `ulpwise knife`.", "",
            "| Function | Etalon | ulpwise | in one list only | distances differ by at most, ULP |", "|---|---|---|---|---|"]
    out += [f"| `{name}` | {a} | {b} | {apart} | {off:.1g} |" for name, a, b, apart, off in edges]
    PAGE.write_text("\n".join(out) + "\n")
    part = [f"{r[0]} of {r[1]}" for r in surveyed if not r[-1]] + [r[0] for r in knives if r[1] != r[2]] + \
           [r[0] for r in edges if r[3]]
    if part:
        sys.exit("they part: " + ", ".join(part))


main()
