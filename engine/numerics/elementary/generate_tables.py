"""Writes tables.h and constants.h of this folder, from mpmath at 400 digits and more.

    python3 generate_tables.py

Every number is its definition rounded to the stated grid; the polynomials of erfcx interpolate at
Chebyshev points, and the script prints (and asserts) their largest relative error before rounding.
"""
import mpmath as mp

mp.mp.prec = 4300


def hexdouble(x):
    return float(x).hex()


def nearest(x):
    """The double nearest to x (mpmath rounds once)."""
    with mp.workprec(53):
        return +mp.mpf(x)


def grid(x, bits):
    """x rounded to a multiple of 2^-bits."""
    return mp.nint(x * mp.mpf(2) ** bits) / mp.mpf(2) ** bits


def array(name, rows, comment, kind="double"):
    text = "\n".join("// " + line for line in comment.split("\n")) + "\n"
    width = len(rows[0]) if isinstance(rows[0], (list, tuple)) else 0
    extent = f"[{len(rows)}]" + (f"[{width}]" if width else "")
    text += f"ETALON_TABLE {kind} {name}{extent} = {{\n"
    for row in rows:
        cells = row if width else [row]
        text += "    " + ("{" if width else "") + ", ".join(cells) + ("}" if width else "") + ",\n"
    return text + "};\n"


def scalar(name, value, comment=""):
    return f"inline constexpr double {name} = {hexdouble(nearest(value))};" + (f"  // {comment}" if comment else "") + "\n"


out = []
ln2 = mp.log(2)
# exp: ln2/64 in a part of 36 bits, so that k times it is exact for |k| < 2^17, and the rest.
step = ln2 / 64
step_high = grid(step, 42)
out.append(scalar("kExpStepHigh", step_high, "ln2/64 on the grid 2^-42: at most 36 bits"))
out.append(scalar("kExpStepLow", step - step_high))
out.append(scalar("kExpInverse", 1 / step))
out.append(array("kExp2Table", [hexdouble(nearest(mp.mpf(2) ** (mp.mpf(j) / 64))) for j in range(64)],
                 "2^(j/64), j = 0..63."))

# log: on the grid 2^-42 the sums k ln2 + log(c) are exact.
ln2_high = grid(ln2, 42)
out.append(scalar("kLn2High", ln2_high, "on the grid 2^-42"))
out.append(scalar("kLn2Low", ln2 - ln2_high))
out.append(scalar("kLn2", ln2))
out.append(scalar("kInverseLn2", 1 / ln2))
out.append(scalar("kInverseLn10", 1 / mp.log(10)))
rows = []
for j in range(45, 92):
    v = mp.log(mp.mpf(j) / 64)
    h = grid(v, 42)
    rows.append([hexdouble(h), hexdouble(nearest(v - h))])
out.append(array("kLogTable", rows, "log(j/64), j = 45..91: a part on the grid 2^-42 and the rest."))

# atan
rows = []
for j in range(33):
    v = mp.atan(mp.mpf(j) / 32)
    h = nearest(v)
    rows.append([hexdouble(h), hexdouble(nearest(v - h))])
out.append(array("kAtanTable", rows, "atan(j/32), j = 0..32, in two doubles."))
h = nearest(mp.pi / 2)
out.append(scalar("kHalfPiHigh", h))
out.append(scalar("kHalfPiLow", mp.pi / 2 - h))

# 2/pi, most significant word first; leading zero words let a window start before the binary point.
words = []
v = 2 / mp.pi
for i in range(21):
    v *= mp.mpf(2) ** 64
    w = int(mp.floor(v))
    words.append(f"0x{w:016x}U")
    v -= w
out.append(array("kTwoOverPi", words, "2/pi: word i weighs 2^(-64 (i + 1)). 1344 bits reach the largest double.",
                 "std::uint64_t"))

# sin, cos, expm1, exp, erf: Taylor coefficients.
fac = mp.factorial
out.append(array("kExpTaylor", [hexdouble(nearest(1 / fac(n))) for n in range(2, 17)], "1/n!, n = 2..16."))
out.append(array("kSinTaylor", [hexdouble(nearest((-1) ** n / fac(2 * n + 1))) for n in range(1, 10)],
                 "(-1)^n / (2n+1)!, n = 1..9."))
out.append(array("kCosTaylor", [hexdouble(nearest((-1) ** n / fac(2 * n))) for n in range(2, 11)],
                 "(-1)^n / (2n)!, n = 2..10."))
c = 2 / mp.sqrt(mp.pi)
out.append(array("kErfTaylor", [hexdouble(nearest(c * (-1) ** n / (fac(n) * (2 * n + 1)))) for n in range(14)],
                 "2/sqrt(pi) (-1)^n / (n! (2n+1)), n = 0..13."))

# erfcx(x) = exp(x^2) erfc(x) on [2^o (1 + i/8), 2^o (1 + (i+1)/8)], o = -1..4, i = 0..7.
mp.mp.prec = 400


def erfcx(x):
    return mp.exp(x * x) * mp.erfc(x)


DEGREE = 10
rows, worst = [], mp.mpf(0)
for o in range(-1, 5):
    for i in range(8):
        half = mp.mpf(2) ** o / 16
        centre = mp.mpf(2) ** o * (1 + (mp.mpf(i) + 0.5) / 8)
        n = DEGREE + 1
        nodes = [half * mp.cos(mp.pi * (mp.mpf(k) + 0.5) / n) for k in range(n)]
        matrix = mp.matrix(n, n)
        right = mp.matrix(n, 1)
        for r, t in enumerate(nodes):
            for d in range(n):
                matrix[r, d] = (t / half) ** d
            right[r] = erfcx(centre + t)
        solution = mp.lu_solve(matrix, right)
        coefficients = [solution[d] / half ** d for d in range(n)]
        for k in range(41):
            t = half * (mp.mpf(k) / 20 - 1)
            got = sum(coefficients[d] * t ** d for d in range(n))
            worst = max(worst, abs(got / erfcx(centre + t) - 1))
        rows.append([hexdouble(nearest(x)) for x in coefficients])
print("erfcx: largest relative error 2^", mp.nstr(mp.log(worst, 2), 5))
assert worst < mp.mpf(2) ** -54
out.append(f"inline constexpr int kErfcxDegree = {DEGREE};\n")
out.append(array("kErfcxTable", rows,
                 "Row 8 (o + 1) + i: coefficients of erfcx(c + t), lowest first, c the middle of\n"
                 "[2^o (1 + i/8), 2^o (1 + (i+1)/8)]; relative error before rounding below 2^-54."))

head = """// Written by generate_tables.py; the comments of each table give its definition.
#pragma once

#include <cstdint>

#include "engine/numerics/host_device.h"

namespace etalon::tables {

"""
open("tables.h", "w").write(head + "\n".join(out) + "\n}  // namespace etalon::tables\n")

mp.mp.prec = 4300


def limbs(v, n):
    """v in [1/2, 1) or scaled there: n 64-bit limbs, least significant first, truncated; exponent of the top."""
    e = int(mp.floor(mp.log(v, 2))) + 1
    m = int(mp.floor(v * mp.mpf(2) ** (64 * n - e)))
    return [f"0x{(m >> (64 * i)) & (2 ** 64 - 1):016x}U" for i in range(n)], e


text = head.replace("the comments of each table give its definition", "truncated, least significant limb first")
for name, value, what in (("Pi", mp.pi, "pi"), ("Ln2", mp.log(2), "log(2)"), ("Ln10", mp.log(10), "log(10)")):
    cells, e = limbs(value, 64)
    text += array(f"k{name}Limbs", cells, f"{what} = limbs * 2^({e} - 4096), truncated.", "std::uint64_t")
    text += f"inline constexpr int k{name}Exponent = {e};\n\n"
open("constants.h", "w").write(text + "}  // namespace etalon::tables\n")
