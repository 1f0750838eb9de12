"""Writes polynomials.h of this folder: Chebyshev interpolants in powers, from mpmath at 300 bits.

    python3 generate_polynomials.py

Prints and asserts the largest relative error of each before its coefficients are rounded to f64.
"""
import struct

import mpmath as mp

from polynomial_fit import fit, series, unscaled, worst

out = []


def emit(name, f, a, b, degree, limit, comment):
    p = unscaled(fit(f, a, b, degree), a, b)
    e = worst(f, p, a, b)
    print(name, degree, mp.nstr(e, 5))
    assert e < limit
    cells = ", ".join(float(mp.mpf(c)).hex() for c in p)
    out.append(f"// {comment}: relative error below 2^{limit}.\nETALON_TABLE double {name}[] = {{{cells}}};\n")


ln2 = mp.log(2)
h = ln2 / 2 * mp.mpf("1.0001")
emit("kExpm1", series(lambda x: (mp.expm1(x) - x) / x ** 2, mp.mpf(1) / 2), -h, h, 9, -48,
     "(e^r - 1 - r)/r^2 on |r| <= ln2/2")
emit("kExpSixteenth", mp.exp, -h / 16, h / 16, 4, mp.mpf("-38.5"), "e^r on |r| <= ln2/32")
emit("kExpm1Sixteenth", series(lambda x: mp.expm1(x) / x, mp.mpf(1)), -h / 16, h / 16, 4, -41, "(e^r - 1)/r on the same")
emit("kExp2Sixteenth", lambda x: mp.mpf(2) ** x, -mp.mpf(1) / 32, mp.mpf(1) / 32, 4, mp.mpf("-38.5"), "2^r on |r| <= 1/32")
emit("kLogShort", series(lambda t: (2 * mp.atanh(mp.sqrt(t)) / mp.sqrt(t) - 2) / t, mp.mpf(2) / 3),
     mp.mpf(0), mp.mpf("0.02945"), 4, -33, "(log((1+s)/(1-s)) - 2s)/s^3 in powers of s^2, m = (1+s)/(1-s) in [0.707, 1.414]")
emit("kLog1pShort", series(lambda t: (2 * mp.atanh(mp.sqrt(t)) / mp.sqrt(t) - 2) / t, mp.mpf(2) / 3),
     mp.mpf(0), mp.mpf(1) / 9, 6, -36, "the same for |s| <= 1/3")
emit("kLog", series(lambda t: (2 * mp.atanh(mp.sqrt(t)) / mp.sqrt(t) - 2) / t, mp.mpf(2) / 3),
     mp.mpf(0), mp.mpf("0.02945"), 6, -46, "(log((1+s)/(1-s)) - 2s)/s^3 in powers of s^2, m = (1+s)/(1-s) in [0.707, 1.414]")
emit("kLog1p", series(lambda t: (2 * mp.atanh(mp.sqrt(t)) / mp.sqrt(t) - 2) / t, mp.mpf(2) / 3),
     mp.mpf(0), mp.mpf(1) / 9, 10, -48, "the same for |s| <= 1/3")
emit("kErf", series(lambda t: mp.erf(mp.sqrt(t)) / mp.sqrt(t), 2 / mp.sqrt(mp.pi)), mp.mpf(0), mp.mpf("0.2501"), 8, -50,
     "erf(x)/x in powers of x^2, |x| <= 1/2")

# erfcx(x/sqrt(2))/2 and erfcx(x) by one quotient of polynomials, whose coefficients are all positive: no
# cancellation, and beyond the interval it goes on falling as 1/x does. The weights of a linear least-squares
# problem are repeated until the error is nearly level (Loeb 1957, Lawson 1961).
def quotient_fit(f, end, above, below, steps):
    points = [end * ((1 - mp.cos(mp.pi * (mp.mpf(k) + mp.mpf(1) / 2) / 64)) / 2) for k in range(64)]
    values = [f(x) for x in points]
    weights, last = [mp.mpf(1)] * len(points), [mp.mpf(1)] * len(points)
    best = None
    for _ in range(steps):
        rows, right = [], []
        for x, y, w, q in zip(points, values, weights, last):
            scale = mp.sqrt(w) / (y * q)
            rows.append([scale * x**i for i in range(above + 1)] + [-scale * y * x**i for i in range(1, below + 1)])
            right.append(scale * y)
        solution = list(mp.qr_solve(mp.matrix(rows), mp.matrix(right))[0])
        p, q = solution[:above + 1], [mp.mpf(1)] + solution[above + 1:]
        last = [mp.polyval(q[::-1], x) for x in points]
        errors = [abs(mp.polyval(p[::-1], x) / d / y - 1) for x, y, d in zip(points, values, last)]
        if best is None or max(errors) < best[0]:
            best = (max(errors), p, q)
        weights = [w * e for w, e in zip(weights, errors)]
        total = mp.fsum(weights)
        weights = [w / total for w in weights]
    return best[1], best[2]


ABOVE, BELOW, ERFCX_LIMIT = 6, 7, -39
END = mp.mpf("10.42")
erfcx = lambda x: mp.exp(x * x) * mp.erfc(x)
p, q = quotient_fit(erfcx, END, ABOVE, BELOW, 12)
assert min(p + q) > 0
e = max(abs(mp.polyval(p[::-1], x) / mp.polyval(q[::-1], x) / erfcx(x) - 1) for x in (END * mp.mpf(k) / 2000 for k in range(2001)))
print("erfcx", mp.nstr(mp.log(e, 2), 5))
assert mp.log(e, 2) < ERFCX_LIMIT
for name, inner, outer, comment in (
        ("kErfcx", mp.mpf(1), mp.mpf(1), "erfcx(x), 0 <= x <= 10.42"),
        ("kErfcxGelu", mp.sqrt(2) / 2, mp.mpf(1) / 2, "erfcx(x/sqrt(2))/2, 0 <= x <= 14.73")):
    out.append(f"// {comment}, is a quotient of these two: relative error below 2^{ERFCX_LIMIT}.\n")
    for part, row, scale in (("Above", p, outer), ("Below", q, mp.mpf(1))):
        cells = ", ".join(float(scale * v * inner**i).hex() for i, v in enumerate(row))
        out.append(f"ETALON_TABLE double {name}{part}[] = {{{cells}}};\n")

# Trigonometric functions, all in powers of z, the square of the argument.
emit("kSin", series(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -mp.mpf(1) / 6), mp.mpf(0), mp.mpf("0.6201"),
     5, -48, "(sin(r)/r - 1)/z, z = r^2, |r| <= 0.7874")
emit("kCos", series(lambda z: (mp.cos(mp.sqrt(z)) - 1) / z, -mp.mpf(1) / 2), mp.mpf(0), mp.mpf("0.6201"), 5, -48,
     "(cos(r) - 1)/z, the same r")
emit("kAtan", series(lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -mp.mpf(1) / 3), mp.mpf(0),
     mp.mpf("0.17158"), 9, -46, "(atan(t)/t - 1)/z, z = t^2, |t| <= sqrt(2) - 1")
emit("kAsin", series(lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mp.mpf(1) / 6), mp.mpf(0), mp.mpf("0.25"),
     10, -44, "(asin(t)/t - 1)/z, z = t^2, |t| <= 1/2")

# 2^(j/16), j = 0..15: the bits, less j 2^48, so that adding n 2^48 with n = 16 k + j makes 2^(n/16).
bits = [int.from_bytes(struct.pack(">d", float(mp.mpf(2) ** (mp.mpf(j) / 16))), "big") - (j << 48)
        for j in range(16)]
out.append("// The bits of 2^(j/16) less j 2^48: with 2^48 n added, n = 16 k + j, those of 2^(n/16).\n"
           f"alignas(128) ETALON_TABLE unsigned long long kPowerSixteenth[] = {{{', '.join(f'0x{b:x}' for b in bits)}}};\n")

# 2/pi, as multiples of a float's last place: row E - 27 is that of floats in [2^E, 2^(E+1)).
rows = []
with mp.workprec(600):
    for e in range(27, 128):
        v = mp.ldexp(2 / mp.pi, e - 23)
        v -= 4 * mp.nint(v / 4)
        high = mp.nint(mp.ldexp(v, 27)) / mp.mpf(2) ** 27
        middle = mp.nint(mp.ldexp(v - high, 56)) / mp.mpf(2) ** 56
        scale = mp.ldexp(1, 23 - e)
        assert mp.mpf(float(high * scale)) == high * scale and mp.mpf(float(middle * scale)) == middle * scale
        rows += [float(high * scale), float(middle * scale), float((v - high - middle) * scale), 0.0]
out.append("// Four numbers a row; row E - 27 is for floats x of [2^E, 2^(E+1)): x times the first is\n"
           "// 2 x/pi modulo 4 but for the rest, |rest| < 2^-4, x times the second what is left of it to\n"
           "// 2^-33; both products are exact. The third is the rest to 53 bits, the fourth is not used.\n"
           f"ETALON_TABLE double kTwoOverPi[] = {{{', '.join(x.hex() for x in rows)}}};\n")

# The exponential of pairs of floats (lanes_pair_exp_inl.h): 2^(j/32) rounded to f32, what its logarithm
# lacks, and the coefficients of e^r from r^3 on, in f32 too. The error asserted is that of the rounded ones.
def single(x):
    return struct.unpack("f", struct.pack("f", float(x)))[0]


powers = [single(mp.mpf(2) ** (mp.mpf(j) / 32)) for j in range(32)]
rests = [single(mp.log(mp.mpf(2) ** (mp.mpf(j) / 32) / t)) for j, t in enumerate(powers)]
assert max(abs(r) for r in rests) < mp.mpf(2) ** -24
out.append("// 2^(j/32) in f32, and the logarithm of the quotient of 2^(j/32) and that.\n"
           f"ETALON_TABLE float kPairPower[] = {{{', '.join(t.hex() + 'F' for t in powers)}}};\n"
           f"ETALON_TABLE float kPairPowerRest[] = {{{', '.join(t.hex() + 'F' for t in rests)}}};\n")
end = ln2 / 64 + mp.mpf(2) ** -18
p = [single(c) for c in unscaled(fit(series(lambda r: (mp.expm1(r) - r - r * r / 2) / r**3, mp.mpf(1) / 6), -end, end, 1), -end, end)]
e = max(abs(r**3 * (p[0] + p[1] * r) - (mp.expm1(r) - r - r * r / 2)) for r in (end * mp.mpf(k) / 500 for k in range(-500, 501)))
print("kPairExp", mp.nstr(mp.log(e, 2), 5))
assert e < mp.mpf("6.5e-13")
out.append("// e^r - 1 - r - r^2/2 is r^3 times this on |r| <= ln2/64 + 2^-18, with an absolute error below 6.5e-13.\n"
           f"ETALON_TABLE float kPairExp[] = {{{p[0].hex()}F, {p[1].hex()}F}};\n")

# The same by 8 powers, for registers of eight numbers (AVX2): each fourth of the tables above, a longer polynomial.
end = ln2 / 16 + mp.mpf(2) ** -18
p = [single(c) for c in unscaled(fit(series(lambda r: (mp.expm1(r) - r - r * r / 2) / r**3, mp.mpf(1) / 6), -end, end, 2), -end, end)]
e = max(abs(r**3 * (p[0] + p[1] * r + p[2] * r * r) - (mp.expm1(r) - r - r * r / 2)) for r in (end * mp.mpf(k) / 500 for k in range(-500, 501)))
print("kPairExpEighth", mp.nstr(mp.log(e, 2), 5))
assert e < mp.mpf("3e-12")
out.append("// The same on |r| <= ln2/16 + 2^-18, with an absolute error below 3e-12.\n"
           f"ETALON_TABLE float kPairExpEighth[] = {{{', '.join(c.hex() + 'F' for c in p)}}};\n")

# log(1 + E), 0 <= E <= 1: 31 E rounded to j, g_j near j/31 (below it) such that 1/(1 + g_j) is a float but
# for 2^-40 of it, log(1 + g_j) in two floats. For rows out of memory (AVX2) 64 in the place of 31, and
# 2^-36, of a quotient that is half of log(1 + g_j) at most.
def nearly_exact(j, count=31, limit=-40):
    if j == 0:
        return 0.0, 1.0
    n, scale = mp.frexp(mp.mpf(j) / count)
    n, scale = int(n * 2**24), 24 - scale
    while True:
        g = mp.ldexp(n, -scale)
        reciprocal = single(1 / (1 + g))
        if abs(reciprocal * (1 + g) - 1) < mp.mpf(2) ** limit:
            return float(g), reciprocal
        n -= 1


rows = [nearly_exact(j) for j in range(32)]
end = max((mp.mpf(1) / 62 + mp.mpf(j) / 31 - g) / (1 + mp.mpf(g)) for j, (g, _) in enumerate(rows))
assert end < mp.mpf("0.0163")
logs = [mp.log(1 + mp.mpf(g)) for g, _ in rows]
out.append("// g_j, 1/(1 + g_j) and log(1 + g_j) as a sum, g_j near j/31.\n" + "".join(
    f"ETALON_TABLE float {name}[] = {{{', '.join(v.hex() + 'F' for v in values)}}};\n" for name, values in (
        ("kPairLogAt", [g for g, _ in rows]), ("kPairLogReciprocal", [q for _, q in rows]),
        ("kPairLog", [single(v) for v in logs]), ("kPairLogRest", [single(v - single(v)) for v in logs]))))
rows = [nearly_exact(j, 64, -36) for j in range(65)]
end = max((mp.mpf(1) / 128 + mp.mpf(j) / 64 - g) / (1 + mp.mpf(g)) for j, (g, _) in enumerate(rows))
print("kPairLogRows", mp.nstr(end, 5))
assert end < mp.mpf("0.0081")
logs = [mp.log(1 + mp.mpf(g)) for g, _ in rows]
out.append("// The same four numbers in rows, g_j near j/64.\nETALON_TABLE float kPairLogRows[][4] = {" + ", ".join(
    "{" + ", ".join(float(v).hex() + "F" for v in (g, q, single(v), single(v - single(v)))) + "}" for (g, q), v in zip(rows, logs)) + "};\n")
end = mp.mpf("0.0163")
p = [single(c) for c in unscaled(fit(series(lambda r: (mp.log1p(r) - r + r * r / 2) / r**3, mp.mpf(1) / 3), -end, end, 2), -end, end)]
e = max(abs(r * (p[0] + p[1] * r + p[2] * r * r) - (mp.log1p(r) - r + r * r / 2) / r**2) for r in (end * (mp.mpf(k) + mp.mpf(1) / 3) / 500 for k in range(-500, 500)))
print("kPairLog1p", mp.nstr(mp.log(e, 2), 5))
assert e < mp.mpf(2) ** -27
out.append("// log(1 + r) - r + r^2/2 is r^3 times this on |r| <= 0.0163 but for 2^-27 r^2.\n"
           f"ETALON_TABLE float kPairLog1p[] = {{{', '.join(c.hex() + 'F' for c in p)}}};\n")

# Phi(x) = erfc(-x/sqrt(2))/2 for GELU (lanes_pair_gelu_inl.h), x rounded to c in 128ths, d = x - c:
#   Phi(c + d) = g + h d (1 + y), y = v P(v), v = d (c + d/3),
# P once for all; a row for each c holds g and h in f32, one word for what both lack, and the bound of the result.
GELU_START, REACH = -1033, mp.ldexp(1, -8)
THIRD, SMALL = mp.mpf(single(mp.mpf(1) / 3)), mp.ldexp(1, -24)


def normal(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


# From the last row on Phi is within 2^-26 of 1.
GELU_END = next(i for i in range(1000) if normal(REACH - i / mp.mpf(128)) < mp.ldexp(1, -26))
end = mp.mpf("0.0316")
assert (-GELU_START / mp.mpf(128) + REACH) * REACH < end
mean = [single(c) for c in unscaled(fit(series(lambda v: (-mp.expm1(-v) / v - 1) / v, -mp.mpf(1) / 2), -end, end, 2), -end, end)]
out.append("// The mean of e^-s, s from 0 to v, is 1 + v times this, |v| <= 0.0316: for rows of gelu and erf.\n"
           f"ETALON_TABLE float kPairMean[] = {{{', '.join(c.hex() + 'F' for c in mean)}}};\n")


def mean_part(v):
    return v * (mean[0] + v * (mean[1] + v * mean[2]))


def level_line(rows, values, steps):
    """a, b such that a r[0] + b r[1] is next to the values, the largest error the smallest (Lawson 1961)."""
    weights = [mp.mpf(1)] * len(rows)
    for _ in range(steps):
        total = lambda f: mp.fsum(w * f(r, y) for w, r, y in zip(weights, rows, values))
        aa, ab, bb = total(lambda r, _: r[0] * r[0]), total(lambda r, _: r[0] * r[1]), total(lambda r, _: r[1] * r[1])
        ay, by = total(lambda r, y: r[0] * y), total(lambda r, y: r[1] * y)
        a, b = (ay * bb - by * ab) / (aa * bb - ab * ab), (aa * by - ab * ay) / (aa * bb - ab * ab)
        weights = [w * abs(a * r[0] + b * r[1] - y) for w, r, y in zip(weights, rows, values)]
        weights = [w / mp.fsum(weights) for w in weights]
    return a, b


def word(v):
    return struct.unpack("I", struct.pack("f", float(v)))[0]


def number(w):
    return struct.unpack("f", struct.pack("I", w & 0xffffffff))[0]


# What h lacks is the float whose first 14 bits are the word's last; what g lacks is the word as it stands, its first
# 18 bits being those that come nearest.
GELU_SHIFT = 18


def joined(g_rest, h_rest):
    last = (word(h_rest) + (1 << (GELU_SHIFT - 1))) >> GELU_SHIFT
    first = word(g_rest) >> (32 - GELU_SHIFT)
    both = min(((first + k) << (32 - GELU_SHIFT) | last for k in (-1, 0, 1)), key=lambda w: abs(number(w) - g_rest))
    return number(both), number(last << GELU_SHIFT)


rows = []
with mp.workprec(120):
    for i in range(GELU_START + 1, GELU_END):
        c = mp.mpf(i) / 128
        y = lambda d: mean_part(d * (c + d * THIRD))
        points = [REACH * mp.cos(mp.pi * (2 * k + 1) / 18) for k in range(9)]
        g, h = level_line([(1 / normal(c + d), d * (1 + y(d)) / normal(c + d)) for d in points], [mp.mpf(1) for d in points], 8)
        if i == 0:
            g = mp.mpf(1) / 2 + mp.ldexp(1, -37)  # so that no part of it is subnormal
        high_g, high_h = single(g), single(h)
        g_rest, h_rest = joined(g - high_g, h - high_h)
        points = [REACH * mp.mpf(k) / 16 for k in range(-16, 17)]
        approximation = max(abs((high_g + high_h * d + g_rest + d * (high_h * y(d) + h_rest)) / normal(c + d) - 1) for d in points)
        z = max(abs(high_h * d * y(d)) / normal(c + d) for d in points)
        error = mp.mpf("1.03") * approximation + SMALL * (mp.mpf("8.5") * z + 10 * SMALL)
        rows.append([high_g, high_h, g_rest, single(error * 4 / 3)])
        assert min(abs(v) for v in rows[-1]) > mp.ldexp(1, -100)
print("kGeluRows", mp.nstr(max(r[3] for r in rows), 3))
assert max(r[3] for r in rows) < mp.mpf("6e-10")


def short(v):
    m, e = float(v).hex().split("p")
    return f"{m.rstrip('0').rstrip('.')}p{e}F"


with open("gelu_rows.h", "w") as file:
    file.write(
        "// clang-format off\n// Written by generate_polynomials.py: Phi(x), the normal distribution, by rows for c in 128ths (lanes_pair_gelu_inl.h):\n"
        "// g = Phi(c) and its slope h as floats, what both lack in one word, the bound of the result. The first row is for\n"
        "// whatever is below: it decides nothing. The last one is 1, for whatever is above.\n"
        "#pragma once\n\nnamespace etalon::polynomials {\n\n"
        f"inline constexpr int kGeluShift = {GELU_SHIFT};\n"
        f"inline constexpr float kGeluStart = {short(mp.mpf(GELU_START) / 128)}, kGeluEnd = {short(mp.mpf(GELU_END) / 128)};\n"
        "alignas(64) inline constexpr float kGeluRows[][4] = {\n{0x1p-52F, 0x1p-52F, 0x1p-77F, __builtin_inff()},\n" + "".join(
            "{" + ", ".join(short(v) for v in row) + "},\n" for row in rows) +
        "{1.0F, 0.0F, 0.0F, 0x1p-26F}};\n\n}  // namespace etalon::polynomials\n")

# erf (lanes_pair_erf_inl.h) likewise: erf(c + d) = g + h d (1 + y), y = v P(v), v = 2 d (c + d/3), P the same. Rows hold
# g and h and what each lacks; from the last one on erf is within 2^-25 of 1.
ERF_ROWS = 504
assert 2 * ((ERF_ROWS - 1) / mp.mpf(128) + REACH) * REACH < end
assert mp.erfc((ERF_ROWS - 1) / mp.mpf(128) - REACH) < mp.ldexp(1, -25)
erf_rows, erf_error = [], 0
with mp.workprec(120):
    for i in range(ERF_ROWS - 1):
        c = mp.mpf(i) / 128
        y = lambda d: mean_part(2 * d * (c + d * THIRD))
        reach = lambda t: REACH * (t if i > 0 else (t + 1) / 2)
        points = [reach(mp.cos(mp.pi * (2 * k + 1) / 18)) for k in range(9)]
        if i > 0:
            g, h = level_line([(1 / mp.erf(c + d), d * (1 + y(d)) / mp.erf(c + d)) for d in points], [mp.mpf(1) for d in points], 8)
        else:
            g, h = mp.mpf(0), 2 / mp.sqrt(mp.pi)
        high_g, high_h = single(g), single(h)
        row = [high_g, high_h, single(g - high_g), single(h - high_h)]
        points = [d for d in (reach(mp.mpf(k) / 16) for k in range(-16, 17)) if c + d > 0]
        approximation = max(abs((high_g + high_h * d + row[2] + d * (high_h * y(d) + row[3])) / mp.erf(c + d) - 1) for d in points)
        z = max(abs(high_h * d * y(d)) / mp.erf(c + d) for d in points)
        erf_error = max(erf_error, mp.mpf("1.03") * approximation + SMALL * (mp.mpf("8.5") * z + 10 * SMALL))
        erf_rows.append(row)
erf_error = single(erf_error * 4 / 3)
print("kErfRows", mp.nstr(erf_error, 3))
assert erf_error < mp.mpf("3e-11")
with open("erf_rows.h", "w") as file:
    file.write(
        "// clang-format off\n// Written by generate_polynomials.py: erf by rows for c in 128ths (lanes_pair_erf_inl.h): g = erf(c) and its slope h\n"
        "// as floats and what each lacks, and the bound of the result.\n"
        "#pragma once\n\nnamespace etalon::polynomials {\n\n"
        f"inline constexpr float kErfError = {short(erf_error)};\n"
        f"inline constexpr float kErfEnd = {short(mp.mpf(ERF_ROWS - 1) / 128)};\n"
        "alignas(64) inline constexpr float kErfRows[][4] = {\n" + "".join(
            "{" + ", ".join("0" if v == 0 else short(v) for v in row) + "},\n" for row in erf_rows) +
        "{1, 0, 0, 0}};\n\n}  // namespace etalon::polynomials\n")

open("polynomials.h", "w").write(
    "// Written by generate_polynomials.py. Coefficients, lowest power first.\n#pragma once\n\n#include \"engine/numerics/host_device.h\"\n\n"
    "namespace etalon::polynomials {\n\n" + "\n".join(out) + "\n}  // namespace etalon::polynomials\n")
