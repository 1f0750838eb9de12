// A function's Taylor polynomial of degree 3 with a proven error, over a run of neighbouring
// floats: an interval for thousands of inputs for the price of some dozen operations each.
//
// With t = x - c, |t| <= r, f(x) = a0 + a1 t + a2 t^2 + a3 t^3 + R, |R| <= r^4 max |f''''| / 24
// (Lagrange). The coefficients follow from f's composition by the recurrences of automatic
// differentiation (Moore, "Interval Analysis", 1966, chapter 11) over balls, at the point c for a1
// to a3 and over the whole run, a ball of radius r, for the last; a0 is the first step of the
// definition's ladder at c. So the error counts everything: the balls' radii, R, and the rounding
// of the polynomial's own evaluation in f64.
#pragma once

#include "bench/survey/functions.h"

namespace etalon {

struct Taylor {
  double centre = 0, a0 = 0, a1 = 0, a2 = 0, a3 = 0;
  double error = 0;  // |at(x) - f(x)|, for |x - centre| <= r
  double at(double x) const {
    const double t = x - centre;
    return a0 + t * (a1 + t * (a2 + t * a3));
  }
};

// False where there is no such polynomial: a function without a row, a pole or a jump within reach,
// or an error above 2^-38 of the value.
bool expand(const SurveyedFunction& f, double centre, double r, Taylor& p);

}  // namespace etalon
