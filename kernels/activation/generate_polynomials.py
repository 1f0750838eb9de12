"""Writes polynomials.h of this folder: Chebyshev interpolants in powers, from mpmath at 300 bits.

    python3 generate_polynomials.py

Prints and asserts the largest relative error of each before its coefficients are rounded to f64.
"""
import mpmath as mp

mp.mp.prec = 300


def fit(f, a, b, degree):
    """Coefficients in powers of u = (x - (a+b)/2) / ((b-a)/2), lowest first."""
    n = degree + 1
    middle, half = (a + b) / 2, (b - a) / 2
    angle = [mp.pi * (mp.mpf(k) + mp.mpf(1) / 2) / n for k in range(n)]
    values = [f(middle + half * mp.cos(t)) for t in angle]
    series = [mp.mpf(2) / n * sum(v * mp.cos(j * t) for v, t in zip(values, angle)) for j in range(n)]
    series[0] /= 2
    before, now = [mp.mpf(1)], [mp.mpf(0), mp.mpf(1)]
    powers = [mp.mpf(0)] * n
    for j in range(n):
        if j >= 2:
            after = [mp.mpf(0)] + [2 * c for c in now]
            for i, c in enumerate(before):
                after[i] -= c
            before, now = now, after
        for i, c in enumerate(before if j == 0 else now):
            powers[i] += series[j] * c
    return powers


def unscaled(powers, a, b):
    """The same polynomial in powers of x, for an interval symmetric about 0 or of the form [0, b]."""
    middle, half = (a + b) / 2, (b - a) / 2
    result = [mp.mpf(0)] * len(powers)
    for k, c in enumerate(powers):
        for i in range(k + 1):
            result[i] += c * mp.binomial(k, i) * (-middle) ** (k - i) / half ** k
    return result


def worst(f, p, a, b):
    w = mp.mpf(0)
    for k in range(501):
        x = a + (b - a) * mp.mpf(k) / 500
        w = max(w, abs(mp.polyval(p[::-1], x) / f(x) - 1))
    return mp.log(w, 2)


out = []


def emit(name, f, a, b, degree, limit, comment):
    p = unscaled(fit(f, a, b, degree), a, b)
    e = worst(f, p, a, b)
    print(name, degree, mp.nstr(e, 5))
    assert e < limit
    cells = ", ".join(float(mp.mpf(c)).hex() for c in p)
    out.append(f"// {comment}: relative error below 2^{limit}.\ninline constexpr double {name}[] = {{{cells}}};\n")


def series(f, limit_value):
    """f with its value at 0 given."""
    return lambda x: limit_value if abs(x) < mp.mpf(10) ** -40 else f(x)


ln2 = mp.log(2)
h = ln2 / 2 * mp.mpf("1.0001")
emit("kExpm1", series(lambda x: (mp.expm1(x) - x) / x ** 2, mp.mpf(1) / 2), -h, h, 9, -48,
     "(e^r - 1 - r)/r^2 on |r| <= ln2/2")
emit("kExpm1Eighth", series(lambda x: (mp.expm1(x) - x) / x ** 2, mp.mpf(1) / 2), -h / 8, h / 8, 4, -37,
     "the same on |r| <= ln2/16")
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

# erfcx(x) on [0, 10.4]: in u, the image of t = (x - K)/(x + K) stretched to [-1, 1].
K, END = mp.mpf("3.5"), mp.mpf("10.4")
a, b = mp.mpf(-1), (END - K) / (END + K)
f = lambda t: mp.exp(((1 + t) / (1 - t) * K) ** 2) * mp.erfc((1 + t) / (1 - t) * K)
middle, half = (a + b) / 2, (b - a) / 2
out.append("// erfcx(x) in powers of u = kErfcxOffset - kErfcxScale/(x + kErfcxShift), 0 <= x <= 10.4, |u| <= 1; the\n"
           "// terms' sizes add up to at most 18.4 times the value.\n"
           f"inline constexpr double kErfcxShift = {float(K)};\n"
           f"inline constexpr double kErfcxOffset = {float((1 - middle) / half).hex()};\n"
           f"inline constexpr double kErfcxScale = {float(2 * K / half).hex()};\n")
for name, degree, limit in (("kErfcx", 19, -50), ("kErfcxShort", 15, -40)):
    p = fit(f, a, b, degree)
    e = max(abs(mp.polyval(p[::-1], (t - middle) / half) / f(t) - 1)
            for t in (a + (b - a) * mp.mpf(k) / 500 for k in range(501)))
    print(name, mp.nstr(mp.log(e, 2), 5))
    assert mp.log(e, 2) < limit
    out.append(f"// Relative error below 2^{limit}.\n"
               f"inline constexpr double {name}[] = {{{', '.join(float(c).hex() for c in p)}}};\n")

# Trigonometric functions, all in powers of z, the square of the argument.
emit("kSin", series(lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -mp.mpf(1) / 6), mp.mpf(0), mp.mpf("0.6201"),
     5, -48, "(sin(r)/r - 1)/z, z = r^2, |r| <= 0.7874")
emit("kCos", series(lambda z: (mp.cos(mp.sqrt(z)) - 1) / z, -mp.mpf(1) / 2), mp.mpf(0), mp.mpf("0.6201"), 5, -48,
     "(cos(r) - 1)/z, the same r")
emit("kAtan", series(lambda z: (mp.atan(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, -mp.mpf(1) / 3), mp.mpf(0),
     mp.mpf("0.17158"), 9, -46, "(atan(t)/t - 1)/z, z = t^2, |t| <= sqrt(2) - 1")
emit("kAsin", series(lambda z: (mp.asin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z, mp.mpf(1) / 6), mp.mpf(0), mp.mpf("0.25"),
     10, -44, "(asin(t)/t - 1)/z, z = t^2, |t| <= 1/2")

# 2^(j/8), j = 0..7: the bits, less j 2^49, so that adding n 2^49 with n = 8 k + j makes 2^(n/8).
bits = [int.from_bytes(__import__("struct").pack(">d", float(mp.mpf(2) ** (mp.mpf(j) / 8))), "big") - (j << 49)
        for j in range(8)]
out.append("// The bits of 2^(j/8) less j 2^49: with 2^49 n added, n = 8 k + j, those of 2^(n/8).\n"
           f"inline constexpr unsigned long long kPowerEighth[] = {{{', '.join(f'0x{b:x}' for b in bits)}}};\n")

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
           f"inline constexpr double kTwoOverPi[] = {{{', '.join(x.hex() for x in rows)}}};\n")

open("polynomials.h", "w").write(
    "// Written by generate_polynomials.py. Coefficients, lowest power first.\n#pragma once\n\n"
    "namespace etalon::polynomials {\n\n" + "\n".join(out) + "\n}  // namespace etalon::polynomials\n")
