#!/usr/bin/env python3
"""Writes f64_pair_tables.h: python3 engine/numerics/elementary/generate_f64_pairs.py."""

from decimal import ROUND_HALF_EVEN, Decimal, getcontext
from fractions import Fraction
from pathlib import Path

getcontext().prec = 80
LN2 = Decimal(2).ln()


def pair(x):
    high = float(x)
    return high, float(x - Decimal(high))


def on_grid(x, bits):
    """x as a multiple of 2^-bits, and the rest."""
    high = (x * 2**bits).to_integral_value(ROUND_HALF_EVEN) / Decimal(2) ** bits
    assert Fraction(float(high)) == Fraction(high)
    return float(high), float(x - high)


def rows(values):
    text = [v.hex() for v in values]
    return "\n".join("    " + ", ".join(text[i : i + 3]) + "," for i in range(0, len(text), 3))


powers = [pair(((LN2 * j) / 64).exp()) for j in range(64)]
logs = [on_grid(-(Decimal(max(i, 1)) / 128).ln(), 42) for i in range(256)]
step = LN2 / 64
step1, rest = on_grid(step, 42)
step2, rest = on_grid(step - Decimal(step1), 78)
step3 = float(step - Decimal(step1) - Decimal(step2))


def table(name, values):
    return f"inline constexpr double {name}[{len(values)}] = {{\n{rows(values)}}};\n"


out = f"""// Written by generate_f64_pairs.py. What powers 2^(j/64) leave of kExp2Table's (tables.h); -log(i/128)
// as sums of two doubles, the higher ones multiples of 2^-42; ln2/64 in three, multiples of 2^-42 and
// 2^-78 first.
#pragma once

#include "engine/numerics/isa_namespace.h"

namespace etalon {{
inline namespace ETALON_ISA_NAMESPACE {{
namespace f64_pair_tables {{

inline constexpr double kStep[3] = {{{step1.hex()}, {step2.hex()}, {step3.hex()}}};
{table("kPowerRest", [p[1] for p in powers])}\
{table("kLog", [p[0] for p in logs])}{table("kLogRest", [p[1] for p in logs])}
}}  // namespace f64_pair_tables
}}  // namespace ETALON_ISA_NAMESPACE
}}  // namespace etalon
"""
path = Path(__file__).with_name("f64_pair_tables.h")
path.write_text(out)
