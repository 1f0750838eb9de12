"""Writes device_error_rows.h of this folder: what a GPU's erf, erfc and gelu (device_quick.h) look up.

    python3 generate_error_rows.py

f(c + d) = f(c) -+ h(c) d E, where c is the nearest row's and E the mean of e^(-k (c s + s^2/2)), s from 0 to d; k is 2
for error functions, 1 for the normal distribution. With w = d (c + d/3) and z = d^2

    E = 1 + w P(w) + z (w Q(w) + z K)

Coefficients are fitted, each point by its weight in the function's relative error; Q and K, which are small, are f32's.
Prints and asserts that error, and what f32's roundings add: 8 at most (z has one, w three, Q two).
"""
import mpmath as mp

mp.mp.prec = 160
out = []


def rounded(x, bits):
    m, e = mp.frexp(x)
    return mp.ldexp(mp.nint(mp.ldexp(m, bits)), int(e) - bits)


def number(x):
    return float(x).hex()


def fitted(rows, count, first):
    """Least weighted squares of rows (columns, value, weight), weighted anew by what is left, so that the largest gets small."""
    scale = [max(abs(c[i]) * w for c, _, w in rows) for i in range(count)]
    again, best = [mp.mpf(1)] * len(rows), None
    for _ in range(25):
        normal, right = mp.matrix(count, count), mp.matrix(count, 1)
        for (c, value, weight), more in zip(rows, again):
            row = [c[i] * weight / scale[i] for i in range(count)]
            for i in range(count):
                t = row[i] * more
                right[i] += t * value * weight
                for j in range(i + 1):
                    normal[i, j] += t * row[j]
        for i in range(count):
            for j in range(i):
                normal[j, i] = normal[i, j]
        solution = mp.lu_solve(normal, right)
        terms = [rounded(solution[i] / scale[i], 53 if i < first else 24) for i in range(count)]
        left = [abs(mp.fdot(terms, c) - value) * weight for c, value, weight in rows]
        most = max(left)
        if best is None or most < best[0]:
            best = most, terms
        again = [a * (e / most + mp.mpf("1e-3")) for a, e in zip(again, left)]
        top = max(again)
        again = [a / top for a in again]
    return best


def emit(name, f, slope, sign, k, per_unit, end, first, cross, limit):
    step, count = mp.mpf(1) / per_unit, int(mp.ceil(mp.mpf(end) * per_unit + mp.mpf("0.5") - mp.mpf("1e-9")))
    points = []
    for j in [j for j in range(count) if j < 40 or j % 5 == 0 or j == count - 1]:
        c = j * step
        for t in range(-8, 9):
            d = t * step / 16
            if t == 0 or c + d <= 0:
                continue
            w, z = d * (c + d / 3), d * d
            e = sign * (f(c + d) - f(c)) / (slope(c) * d) - 1
            columns = [w ** (1 + i) for i in range(first)] + [z * w ** (1 + i) for i in range(cross)] + [z * z]
            points.append((columns, e, abs(slope(c) * d / f(c + d))))
    error, terms = fitted(points, first + cross + 1, first)
    rounding = max(8 * weight * (abs(mp.fdot(terms[first:-1], columns[first:-1])) + abs(terms[-1] * columns[-1])) / 2 ** 24
                   for columns, _, weight in points)
    total = mp.log(error + rounding, 2)
    print(name, count, "rows, fit", mp.nstr(mp.log(error, 2), 5), "f32", mp.nstr(mp.log(rounding, 2), 5), "all", mp.nstr(total, 5))
    assert total < mp.mpf(limit)
    out.append(f"// {name}: k = {k}, rows for c in {per_unit}ths, off by 2^{limit} at most.")
    out.append(f"ETALON_TABLE double k{name}First[] = {{{', '.join(number(v) for v in terms[:first])}}};")
    out.append(f"ETALON_TABLE float k{name}Cross[] = {{{', '.join(number(v) + 'F' for v in terms[first:-1])}}};")
    out.append(f"ETALON_TABLE float k{name}Square = {number(terms[-1])}F;")
    cells = [f"{number(f(j * step))}, {number(slope(j * step))}" for j in range(count)]
    lines = [", ".join(cells[i:i + 3]) for i in range(0, count, 3)]
    out.append(f"alignas(16) ETALON_TABLE double k{name}Rows[] = {{\n    " + ",\n    ".join(lines) + "};\n")


gauss = lambda a: 2 * mp.exp(-a * a) / mp.sqrt(mp.pi)
emit("Erf", mp.erf, gauss, 1, 2, 16, 4, 5, 3, "-40.5")
emit("Erfc", mp.erfc, gauss, -1, 2, 32, "10.4", 8, 5, "-39.8")
emit("Phi", lambda a: mp.erfc(a / mp.sqrt(2)) / 2, lambda a: mp.exp(-a * a / 2) / mp.sqrt(2 * mp.pi), -1, 1, 32, "14.75", 7, 4, "-41.9")

open("device_error_rows.h", "w").write(
    "// clang-format off\n// Written by generate_error_rows.py, which says what these are: f(c) and its slope, and the terms of E.\n#pragma once\n\n"
    "#include \"engine/numerics/host_device.h\"\n\nnamespace etalon::device_rows {\n\n" + "\n".join(out) + "\n}  // namespace etalon::device_rows\n")
