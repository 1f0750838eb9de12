"""Writes device_rows.h of this folder: the rows that a GPU's formulas (device_quick.h) look up, and their polynomials.

    python3 generate_device_rows.py

Prints and asserts the largest relative error of each.
"""
import struct

import mpmath as mp

from polynomial_fit import fit, series, unscaled

out = []
half, one, two = mp.mpf(1) / 2, mp.mpf(1), mp.mpf(2)


def rounded(values):
    return [mp.mpf(float(v)) for v in values]


def emit(name, values, comment):
    cells = ", ".join(float(v).hex() for v in values)
    out.append(f"// {comment}\nETALON_TABLE double {name}[] = {{{cells}}};\n")


def check(name, error, limit):
    e = mp.log(error, 2)
    print(name, mp.nstr(e, 5))
    assert e < limit


def even(f, limit_value, end, count):
    """Coefficients of f(sqrt(z)) in powers of z, z <= end^2."""
    return rounded(unscaled(fit(series(f, limit_value), mp.mpf(0), end * end, count - 1), mp.mpf(0), end * end))


def points(end):
    return [end * k / 300 for k in range(1, 301)]


emit("kRowPower", [struct.unpack("<d", struct.pack("<Q", struct.unpack("<Q", struct.pack("<d", float(2 ** (mp.mpf(j) / 16))))[0] - (j << 48)))[0]
                   for j in range(16)], "2^(j/16), j 2^48 taken from its bits: with n 2^48 more, n = 16 k + j, they are 2^(n/16).")

# Logarithms: m from 0x3fe66000 in the upper word on, a row for each sixteenth of a binade.
FIRST = 0x3fe66000
inverse, reach, edges = [], mp.mpf(0), []
for i in range(16):
    a, b = (mp.mpf(struct.unpack("<d", struct.pack("<Q", (FIRST + (k << 16)) << 32))[0]) for k in (i, i + 1))
    inverse.append(one if a <= 1 < b else mp.mpf(float(2 / (a + b))))
    reach = max(reach, abs(a * inverse[-1] - 1), abs(b * inverse[-1] - 1))
    edges.append((a, b))
print("log: |r| <=", mp.nstr(reach, 6))
assert reach < mp.mpf("0.02963")
log = rounded(unscaled(fit(series(lambda r: mp.log1p(r) / r, one), -reach, reach, 6), -reach, reach))
error = mp.mpf(0)
for inv, (a, b) in zip(inverse, edges):
    for t in range(201):
        r = (a + (b - a) * t / 200) * inv - 1
        if abs(r) > mp.mpf(10) ** -30:
            error = max(error, abs((r * mp.polyval(log[::-1], r) - mp.log1p(r)) / (mp.log1p(r) - mp.log(inv))))
check("log", error, -44)
emit("kRowLogInverse", inverse, "1/c, c the middle of a sixteenth of a binade, 1 where that holds 1.")
for name, unit in (("kRowLog", one), ("kRowLog2", 1 / mp.log(2)), ("kRowLog10", 1 / mp.log(10))):
    emit(name, [-mp.log(v) * unit for v in inverse], "log c.")
    emit(name + "Terms", [c * unit for c in log], "log(1 + r)/r, |r| < 0.02963: 2^-44 of log c + log(1 + r).")

# log(1 + e), 0 <= e <= 1, by 32nds.
end = mp.mpf(1) / 64 + mp.ldexp(1, -40)
terms = rounded(unscaled(fit(series(lambda r: mp.log1p(r) / r, one), -end, end, 5), -end, end))
check("log1p", max(abs(r * mp.polyval(terms[::-1], r) / mp.log1p(r) - 1) for p in points(end) for r in (p, -p)), mp.mpf("-43.7"))
emit("kRowUnitTerms", terms, "log(1 + r)/r, |r| <= 1/64: 2^-43.7.")
unit_inverse = rounded([1 / (1 + mp.mpf(j) / 32) for j in range(33)])
emit("kRowUnitInverse", unit_inverse, "1/(1 + j/32).")
emit("kRowUnitLog", [-mp.log(v) for v in unit_inverse], "The logarithms of what these are the reciprocals of.")

# e^r and 2^r to the accuracy of what is made of them; 1 of 0.
for name, rate, end in (("kRowExpTerms", one, mp.log(2) / 32), ("kRowExp2Terms", mp.log(2), one / 32)):
    end += mp.ldexp(1, -40)
    terms = [one] + rounded(unscaled(fit(series(lambda r: mp.expm1(rate * r) / r, rate), -end, end, 4), -end, end))
    check(name, max(abs(mp.polyval(terms[::-1], r) / mp.exp(rate * r) - 1) for p in points(end) for r in (p, -p)), mp.mpf("-46.5"))
    emit(name, terms, "e^r, |r| <= ln2/32: 2^-46.5." if rate == 1 else "2^r, |r| <= 1/32: 2^-46.5.")

# Circular functions by sixteenths of pi.
end = mp.pi / 32 + mp.ldexp(1, -30)
sin = even(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -one / 6, end, 3)
cos = even(lambda z: (mp.cos(mp.sqrt(z)) - 1) / z, -half, end, 3)
check("sin", max(abs((r + r**3 * mp.polyval(sin[::-1], r * r)) / mp.sin(r) - 1) for r in points(end)), -50)
check("cos", max(abs((1 + r**2 * mp.polyval(cos[::-1], r * r)) / mp.cos(r) - 1) for r in points(end)), -47)
emit("kRowSinTerms", sin, "(sin(r)/r - 1)/z, z = r^2, |r| <= pi/32: 2^-50.")
emit("kRowCosTerms", cos, "(cos(r) - 1)/z: 2^-47.")
emit("kRowSin", [mp.mpf(0) if j % 16 == 0 else mp.sin(j * mp.pi / 16) for j in range(40)], "sin(j pi/16); that of 0 is -0, so that -0 stays what it is.")
out[-1] = out[-1].replace("{0x0.0p+0,", "{-0.0,")

# Angles whose tangent or cotangent is j/8, and those whose sine or cosine is: a row is sine, cosine, angle.
angles = [mp.atan(mp.mpf(j) / 8) if j <= 8 else mp.pi / 2 - mp.atan(mp.mpf(16 - j) / 8) for j in range(17)]
end = mp.mpf("0.0626")
terms = even(lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -one / 3, end, 3)
check("atan", max(abs((t + t**3 * mp.polyval(terms[::-1], t * t)) / mp.atan(t) - 1) for t in points(end)), -40)
emit("kRowAtanTerms", terms, "(atan(t)/t - 1)/z, z = t^2, |t| <= 0.0626: 2^-40.")
emit("kRowAtanSine", [mp.mpf(0) if j == 0 else mp.sin(t) for j, t in enumerate(angles)], "Of angles whose tangent is j/8, or cotangent 2 - j/8: sines, cosines, angles.")
emit("kRowAtanCosine", [mp.mpf(0) if j == 16 else mp.cos(t) for j, t in enumerate(angles)], "")
emit("kRowAtanAngle", angles, "")
angles = [mp.asin(mp.mpf(j) / 8) if j <= 7 else mp.acos(mp.mpf(16 - j) / 8) for j in range(17)]
end = mp.mpf("0.0905")
terms = even(lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, one / 6, end, 3)
check("asin", max(abs((t + t**3 * mp.polyval(terms[::-1], t * t)) / mp.asin(t) - 1) for t in points(end)), mp.mpf("-37.7"))
emit("kRowAsinTerms", terms, "(asin(t)/t - 1)/z, z = t^2, |t| <= 0.0905: 2^-37.7.")
emit("kRowAsinSine", [mp.mpf(0) if j == 0 else mp.sin(t) for j, t in enumerate(angles)], "Of angles whose sine is j/8, or cosine 2 - j/8: sines, cosines, angles, what they lack to pi/2.")
emit("kRowAsinCosine", [mp.mpf(0) if j == 16 else mp.cos(t) for j, t in enumerate(angles)], "")
emit("kRowAsinAngle", angles, "")
emit("kRowAsinRest", [mp.mpf(0) if j == 16 else mp.pi / 2 - t for j, t in enumerate(angles)], "")

open("device_rows.h", "w").write(
    "// clang-format off\n// Written by generate_device_rows.py: what device_quick.h looks up. Polynomials lowest power first, with the bound\n"
    "// of their relative error.\n#pragma once\n\n#include \"engine/numerics/host_device.h\"\n\nnamespace etalon::device_rows {\n\n" +
    "\n".join(out).replace("// \n", "") + "\n}  // namespace etalon::device_rows\n")
