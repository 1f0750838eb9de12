// Elementwise ops over operands that broadcast as NumPy's do.
//
// Arithmetic, on operands of one type (pow: any exponent type for a floating base):
//   add sub mul div   floating: the real result, rounded once into the stored format under every
//                     contract (acc and order have no part in it). Integers: modulo 2^bits; a
//                     quotient is cut toward zero, x / 0 = 0, and min / -1 = min (it wraps)
//   pow               floating base: the real power, rounded once; special cases as IEEE 754 pow
//                     (pow(x, 0) = pow(1, y) = 1, NaN included; a negative base with a fractional
//                     exponent gives NaN). Integer base and exponent: modulo 2^bits; a negative
//                     exponent gives the power cut toward zero (1, -1 or 0), 0 to a negative
//                     power is 0
//   mod               fmod=false: integers, the sign of the divisor (Python's %); floating: x -
//                     y*floor(x/y), rounded once. fmod=true: the sign of the dividend (C's fmod),
//                     which is exact. x mod 0 is 0 for integers, NaN for floating types; x mod inf
//                     is x (fmod) for finite x
//   max min           of one or more operands, from the left: NaN wins and becomes canonical; a tie
//                     (+0, -0) keeps the first. Integers too
//   sum mean          of one or more operands: their sum over the operands in the contract's order;
//                     the mean divides it once by their count
//   clip              min(max(x, low), high), each bound optional: high wins where low > high; NaN
//                     of x or of a bound gives NaN; a tie keeps x, so clip(-0, 0, ..) = -0
//
// Comparisons give bool and read the stored values as they are (no flush): equal, less, greater,
// less_or_equal, greater_or_equal. NaN is unordered: all give false; +0 equals -0.
// is_nan, is_inf (each sign by parameter).
// Logic on bool: and, or, xor, not. Bitwise on integers: bitwise_and, bitwise_or, bitwise_xor,
// bitwise_not, bit_shift (right shifts move the sign in; a count of the width or more, or a
// negative one, leaves nothing but that). where: condition ? a : b; copies bits. cast: to any type.
// To the same type: bits copied. Floating to floating: one rounding in the contract's mode (f32
// results in its `store` where that is narrower, f64 results never narrowed), NaN canonical;
// integers to floating likewise, exact before that rounding. Floating to integer: cut toward zero,
// held at the ends of the type (saturated), NaN is 0. Integer to integer: modulo 2^bits. To bool:
// is not zero (NaN is true). cast_like: cast to the type of a second tensor, whose elements are not
// read. bit_cast: the same bits as another type of the same width.
//
// Errors: types that differ, types without a meaning, shapes that do not broadcast.
// Sources: ONNX operators at opset 23; IEEE 754-2019, 9.2.1; NumPy manual.
#pragma once

#include "engine/ops/op.h"

namespace etalon {

struct ModParams {
  bool fmod = false;
  template <class V>
  void visit(V& v) {
    v("fmod", fmod);
  }
};

struct ClipParams {
  // Where inputs 1 and 2 are not given. Infinite bounds bind nothing, for integers too.
  float low = -__builtin_inff();
  float high = __builtin_inff();
  template <class V>
  void visit(V& v) {
    v("min", low);
    v("max", high);
  }
};

struct IsInfParams {
  bool detect_negative = true;
  bool detect_positive = true;
  template <class V>
  void visit(V& v) {
    v("detect_negative", detect_negative);
    v("detect_positive", detect_positive);
  }
};

enum class ShiftDirection { left, right };
struct BitShiftParams {
  ShiftDirection direction = ShiftDirection::left;
  template <class V>
  void visit(V& v) {
    v("direction", direction, {"LEFT", "RIGHT"});
  }
};

struct CastParams {
  DType to = DType::f32;
  template <class V>
  void visit(V& v) {
    v("to", to);
  }
};

struct BitCastParams {
  DType to = DType::f32;
  template <class V>
  void visit(V& v) {
    v("to", to);
  }
};

std::span<const OpRow> elementwise_ops();

}  // namespace etalon
