// Real numbers with a proven error: how the correctly rounded value of a formula is found.
//
// A formula is written once, over a number system A, as a generic lambda that returns an A::V:
//   correctly_rounded([&](auto& a) { return a.div(a.input(x), a.sqrt(a.input(y))); }, DType::f32)
// A value is a ball: the real number lies strictly within `radius` of `mid`, or is `mid` itself
// when the radius is 0. Two systems share one interface:
//   RealF64      midpoint in f64, for nearly all inputs enough to round to f32 and below
//                (real_f64.h)
//   RealBig<L>   midpoint of 64 L bits; the ladder 4, 10, 36 limbs follows when f64 does not decide
//                (real_big.h)
// Both ends of the ball round to one value: that is the result (Ziv: "Fast evaluation of elementary
// mathematical functions with correctly rounded last bit", ACM TOMS 1991). A ball around a rounding
// boundary never shrinks away from it, so formulas that can hit a boundary must be exact there: +,
// -, *, / and sqrt of exact values keep radius 0 whenever their result is representable, sums are
// exact (superaccumulator) while their terms are doubles or products of doubles, and the functions
// know their exact cases. Write formulas fraction-free where ties matter (n x - sum x, not x -
// mean).
//
// undecided is set when this system cannot tell: an f64 overflow, a divisor or root that may be
// zero, a comparison of overlapping balls. The value returned then means nothing; the ladder goes
// on. Special values: inf and NaN operands follow IEEE 754, result radius 0; max and min propagate
// NaN and take the first on a tie. A value above 2^(2^40) (exp of a huge number) stands for all of
// them: it rounds right in every format and mode, but must not be divided by or subtracted.
#pragma once

#include "engine/numerics/real_big.h"
#include "engine/numerics/real_f64.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

[[noreturn]] void throw_undecided();  // the last step did not decide: the formula hits a boundary

// The value of f, rounded once. f is a generic lambda over a number system; truth, if asked for, is
// an f64 value within 2^-10 ULP of f32 of the real one. Throws an internal Error if 2304 bits do
// not decide. kTestRounding = false leaves out the rounding test (tests show that it is needed).
template <bool kTestRounding = true, class F>
double correctly_rounded(F&& f, DType to, Round mode = Round::nearest_even,
                         Subnormals subnormals = Subnormals::keep, double* truth = nullptr,
                         ExactStats* stats = nullptr) {
  double result = 0;
  int steps = 0;
  const auto attempt = [&](auto& system) {
    ++steps;
    system.rounding = mode;
    const auto v = f(system);
    const Rounded r = system.round(v, to, mode, subnormals);
    result = r.value;
    if (!kTestRounding) return true;
    double t = 0;
    const bool known = truth == nullptr || system.truth(v, t);
    if (truth != nullptr) *truth = t;
    return r.decided && known;
  };
  bool done = false;
  {
    RealF64 system;
    done = attempt(system);
  }
  if (!done) {
    RealBig<4> system;
    done = attempt(system);
  }
  if (!done) {
    RealBig<10> system;
    done = attempt(system);
  }
  if (!done) {
    RealBig<36> system;
    done = attempt(system);
  }
  if (stats != nullptr) {
    ++stats->evaluated;
    stats->escalated += steps > 1 ? 1 : 0;
    if (steps > stats->deepest) stats->deepest = steps;
  }
  if (!done) throw_undecided();
  return result;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
