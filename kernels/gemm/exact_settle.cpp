#include "kernels/gemm/exact_settle.h"

#include <cmath>

#include "engine/numerics/fp.h"

namespace etalon {
namespace {

// high + low, exactly.
void two_sum(double a, double b, double& high, double& low) {
  high = a + b;
  const double t = high - a;
  low = (a - (high - t)) + (b - t);
}

// The f32 nearest to high + low. Rounding twice, to f64 and then to f32, could go to the wrong side
// of a midpoint; rounding to odd in between does not (Boldo, Melquiond 2008).
float narrow(double high, double low) {
  if (low == 0) return static_cast<float>(high);  // the sign of zero is high's
  double sum, error;
  two_sum(high, low, sum, error);
  if (error != 0 && std::isfinite(error) && (bits_of(sum) & 1) == 0)
    sum = std::nextafter(sum, error > 0 ? kInfinity : -kInfinity);
  return static_cast<float>(sum);
}

}  // namespace

bool exact_settle(const ExactLanes& lanes, const ExactOutput& output, float& y, double* truth) {
  const ExactSum sum = lanes.dot(output.a, output.b, output.k);
  double high, low;
  two_sum(sum.high, sum.low, high, low);
  double error = sum.error;
  if (output.scale != 1) {
    // scale * high is an exact pair p + q; scale * low rounds unless it is zero.
    const double p = output.scale * high, q = std::fma(output.scale, high, -p),
                 tail = output.scale * low;
    error = std::abs(output.scale) * error * (1 + 0x1p-50);
    if (tail != 0) error += 0x1p-52 * (std::abs(q) + std::abs(tail));
    high = p;
    low = q + tail;
  }
  if (output.adds) {
    double total, rest;
    two_sum(high, output.added, total, rest);
    if (rest != 0 && low != 0) error += 0x1p-52 * (std::abs(rest) + std::abs(low));
    high = total;
    low += rest;
  }
  // The ends of the interval round too.
  if (error != 0) error = (error + std::abs(low) * 0x1p-51) * (1 + 0x1p-50);
  const float below = narrow(high, low - error), above = narrow(high, low + error);
  if (!(below == above) || std::signbit(below) != std::signbit(above)) return false;
  if (truth != nullptr) {
    const double unit = ulp_of(static_cast<double>(below), DType::f32);
    if (std::isinf(below) || !(error <= unit * 0x1p-12)) return false;
    *truth = high + low;
  }
  y = below;
  return true;
}

}  // namespace etalon
