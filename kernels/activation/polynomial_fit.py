"""Chebyshev interpolants in powers, from mpmath at 300 bits: for the generators of this folder."""
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


def series(f, limit_value):
    """f with its value at 0 given."""
    return lambda x: limit_value if abs(x) < mp.mpf(10) ** -40 else f(x)
