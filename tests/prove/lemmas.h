// What the proof knows of a function without computing it (proof.h): where it is a simple g or lies
// on a known side of it, where it has no value, and how its binades repeat.
#pragma once

#include <cmath>

#include "bench/survey/functions.h"

namespace etalon {

// Where f(x) is a simple g(x), a constant or a multiple of x, or differs from it by less than any
// f64 ball can tell. Then its side of g is known from the first term left out of a series whose
// terms shrink at once: the real value lies strictly between g and g (1 + away 2^-27). These lemmas
// decide the directed modes too, where g is exact; a g that f64 rounds has a slack. Near 0 (|x| <
// 2^-28, and 2^-14 where the first term left out is a square):
//   expm1, elu, celu = x + x^2/2 + ...     log1p = x - x^2/2 + ...
//   sin, atan, tanh, asinh, softsign: |f| < |x|     tan, asin, sinh, atanh: |f| > |x|
//   exp, exp2, sigmoid, erfc, cos, cosh, hard_sigmoid: 1 or 1/2 and the sign of the first term
//   acos = pi/2 - x     softplus = log 2 + x/2 + ...     log_sigmoid = -log 2 + x/2 - ...
//   silu, gelu (both), hard_swish = x/2 + c x^2 + ..., c > 0; mish = 3/5 x + 8/25 x^2 + ..., whose
//   first term is a float for one x in five
// and far from it, where what is left out is an exponential (e^-20 < 2^-28, erfc(5) < 2^-39) or
// 1/|x|, or where the value is beyond all floats (kHuge: at least 2^128; kTiny: less than 2^-150;
// any number there rounds alike, in every mode).
struct Near {
  double constant = 0, slope = 0;
  int away = 0;
  double slack = 0;  // relative, of g as it is computed
  bool exact = false;
  bool known() const { return away != 0 || exact; }
  double g(double x) const { return slope != 0 ? slope * x : constant; }
  // The real value lies between; strictly, but for exact ones.
  void interval(double x, double& low, double& high) const {
    const double y = g(x), end = y * (1 + away * 0x1p-27), room = slack * std::fabs(y);
    low = exact ? y : (end < y ? end : y) - room;
    high = exact ? y : (end < y ? y : end) + room;
  }
  bool operator==(const Near&) const = default;
};
Near near(const SurveyedFunction& f, double x);

bool outside_domain(LaneFunction f, float x);

// f(2^(n d) x) = 2^(n shift) f(x) for whole n: the floats of one or a few binades stand for all, as
// long as results are normal.
struct Scaling {
  int step = 0, shift = 0;  // d and shift; 0: no such law
};
Scaling scaling(LaneFunction f);

}  // namespace etalon
