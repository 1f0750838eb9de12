// Elementary functions in f64 with proven relative error, for finite arguments in the stated range.
//
// These are first steps of correctly rounded functions: near-enough values with a bound. Each
// derives its bound in units of u = 2^-53, the largest relative error of one f64 operation; "n u"
// adds to first order, and the stated power of two leaves at least a tenth for the rest. Only + - *
// / and integer operations, no fma, so that every machine computes the same bits. Method: argument
// reduction to a small interval by tables (P. Tang: "Table-driven implementation of the exponential
// function", ACM TOMS 1989; same for log), Taylor polynomials there.
#pragma once

#include "engine/numerics/elementary/tables.h"
#include "engine/numerics/fp.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {
namespace f64_core {

// exp(x), |x| <= 700: error below 2^-51.6.
// x = k ln2/64 + r, |r| <= 0.00542. k * kExpStepHigh is exact and so is its difference from x (both
// on the grid 2^-42 or finer, within a factor of two, or k = 0); k * kExpStepLow and the last
// subtraction err by 2^-61 absolutely. p = e^r - 1 to degree 6 (next term 2^-65) errs by 2^-60; the
// table by u, so T + T p: u (table) + u (sum) + 0.1 u = 2.1 u.
ETALON_HD inline double exp(double x) {
  using namespace tables;
  const double shifted = x * kExpInverse + 0x1.8p52;
  const double k = shifted - 0x1.8p52;
  const double r = (x - k * kExpStepHigh) - k * kExpStepLow;
  const double rr = r * r;
  const double p = r + rr * ((kExpTaylor[0] + r * kExpTaylor[1]) +
                             rr * ((kExpTaylor[2] + r * kExpTaylor[3]) + rr * kExpTaylor[4]));
  const auto n = static_cast<std::int64_t>(static_cast<std::int32_t>(bits_of(shifted)));
  const double t = kExp2Table[n & 63];
  const double y = t + t * p;
  return double_of(bits_of(y) + (static_cast<std::uint64_t>(n >> 6) << 52));
}
inline constexpr double kExpError = 0x1p-51;

// exp2(x), |x| <= 1000: as exp, with r = (x - k/64) ln2, the difference exact: same bound.
ETALON_HD inline double exp2(double x) {
  using namespace tables;
  const double shifted = x + 0x1.8p46;
  const double r = (x - (shifted - 0x1.8p46)) * kLn2;
  const double rr = r * r;
  const double p = r + rr * ((kExpTaylor[0] + r * kExpTaylor[1]) +
                             rr * ((kExpTaylor[2] + r * kExpTaylor[3]) + rr * kExpTaylor[4]));
  const auto n = static_cast<std::int64_t>(static_cast<std::int32_t>(bits_of(shifted)));
  const double t = kExp2Table[n & 63];
  const double y = t + t * p;
  return double_of(bits_of(y) + (static_cast<std::uint64_t>(n >> 6) << 52));
}

// expm1(x), |x| <= 700: error below 2^-49.4.
// |x| <= 1/4: x + x^2 q(x), degree 14 (next term x^14/15! < 2^-68): the second part is at most x/7,
// its error 4 u of it, the sum u: 1.6 u. Otherwise exp(x) - 1: the error of exp grows by e^x / |e^x
// - 1| <= 4.53, at x = 1/4: 2.1 u * 4.53 + u = 10.6 u.
ETALON_HD inline double expm1(double x) {
  if (abs_of(x) > 0.25) return exp(x) - 1.0;
  double q = tables::kExpTaylor[12];
  for (int n = 11; n >= 0; --n) q = tables::kExpTaylor[n] + x * q;
  return x + x * x * q;
}
inline constexpr double kExpm1Error = 0x1p-49;

// log(hi + lo), hi > 0 normal, |lo| <= ulp(hi): error below 2^-50.2.
// hi = 2^k m, m in [0.707, 1.414); c = j/64 next to m; m - c is exact. s = (m - c + lo') / (m + c)
// has four roundings, |s| <= 0.0056, and log(m/c) = 2 s + 2/3 s^3 + 2/5 s^5 + 2/7 s^7 (rest 2^-63
// relative): 4.2 u. k kLn2High + table part is exact on its grid. For c = 1, k = 0 the result is
// the polynomial: 4.2 u. Otherwise |log| >= 0.0077 while |polynomial| <= 0.0113: 4.2 * 1.47 u and u
// for each of the last two sums: 8 u, or less where the table part is larger.
ETALON_HD inline double log(double hi, double lo) {
  using namespace tables;
  const std::uint64_t b = bits_of(hi);
  const std::int64_t e = static_cast<std::int64_t>(b - 0x3fe6a09e00000000U) >> 52;
  const double m = double_of(b - (static_cast<std::uint64_t>(e) << 52));
  const double j = (m * 64 + 0x1.8p52) - 0x1.8p52;
  const double c = j * 0x1p-6;
  double f = m - c;
  // From e = 1023 on, where the power of two is no normal number, lo is 0.
  f += lo * double_of(e < 1023 ? static_cast<std::uint64_t>(1023 - e) << 52 : 0);
  const double s = f / (m + c), ss = s * s;
  const double p = 2 * s + s * ss * (2.0 / 3 + ss * (2.0 / 5 + ss * (2.0 / 7)));
  const double k = static_cast<double>(e);
  const double* t = kLogTable[static_cast<int>(j) - 45];
  return (k * kLn2High + t[0]) + (p + (k * kLn2Low + t[1]));
}
inline constexpr double kLogError = 0x1p-49;

// log1p(x), x > -1, any size down to |x| >= 2^-1000: error below 2^-49.9: 1 + x is split exactly,
// and near 1 (c = 1) f is x itself.
ETALON_HD inline double log1p(double x) {
  if (abs_of(x) < 0x1p-30) return x - x * x * (0.5 - x * (1.0 / 3));  // next term x^3/4: 2^-92
  const TwoDoubles one = two_sum(1.0, x);
  return log(one.value, one.error);
}

// sin and cos of a reduced argument r + low, |r| <= 0.79, |low| <= u |r|: error below 2^-52 + 0.8
// u. sin: r + r^3 S(r^2) + low cos(r): the correction is at most r/9, 5 u of it, one sum: 1.6 u.
ETALON_HD inline double sin_reduced(double r, double low) {
  const double x = r * r;
  double s = tables::kSinTaylor[8];
  for (int n = 7; n >= 0; --n) s = tables::kSinTaylor[n] + x * s;
  return r + (r * x * s + low * (1.0 - 0.5 * x));
}
// cos: 1 - r^2/2 is split exactly; r^2/2 errs by 0.31 u, the sum by u, of a result above 0.7: 2 u.
ETALON_HD inline double cos_reduced(double r, double low) {
  const double x = r * r;
  double s = tables::kCosTaylor[8];
  for (int n = 7; n >= 0; --n) s = tables::kCosTaylor[n] + x * s;
  const double half = 0.5 * x, one = 1.0 - half;
  return one + (((1.0 - one) - half) + (x * x * s - r * low));
}
inline constexpr double kSinError = 0x1p-51;

// x = quadrant * pi/2 + (r + low), |r| <= 0.79, relative error of r + low below 2^-60 for every f32
// and every double but the few nearest to multiples of pi/2 (bounded below by distance 2^-62).
// Payne, Hanek: "Radian reduction for trigonometric functions" (1983). x = M 2^E with 53-bit M; of
// the bits of 2/pi, those that make multiples of 4 are skipped, 192 follow, and the product modulo
// 4 has an absolute error below 2^-137.
struct ReducedAngle {
  int quadrant;
  double r, low;
};
ETALON_HD inline ReducedAngle reduce_angle(double x) {
  if (abs_of(x) <= 0.78) return {0, x, 0};
  const std::uint64_t b = bits_of(x);
  const int exponent = static_cast<int>(b >> 52 & 0x7ff) - 1075;
  const std::uint64_t m = (b & 0x000fffffffffffffU) | std::uint64_t{1} << 52;
  const int offset =
      exponent - 2;  // first bit of 2/pi that matters, counted after the binary point
  const auto word = [](int i) -> std::uint64_t { return i < 0 ? 0 : tables::kTwoOverPi[i]; };
  const int i = offset >= 0 ? offset / 64 : -((63 - offset) / 64), part = offset - 64 * i;
  std::uint64_t w[3];
  for (int n = 0; n < 3; ++n)
    w[n] = part == 0 ? word(i + n) : word(i + n) << part | word(i + n + 1) >> (64 - part);
  const uint128 p2 = static_cast<uint128>(w[2]) * m;
  const uint128 p1 = static_cast<uint128>(w[1]) * m + static_cast<std::uint64_t>(p2 >> 64);
  std::uint64_t top = w[0] * m + static_cast<std::uint64_t>(p1 >> 64);
  auto middle = static_cast<std::uint64_t>(p1), bottom = static_cast<std::uint64_t>(p2);
  int quadrant = static_cast<int>(top >> 62);
  top = top << 2 | middle >> 62;
  middle = middle << 2 | bottom >> 62;
  bottom <<= 2;
  const bool up =
      (top >> 63) != 0;  // the fraction is at least a half: count from the next quadrant
  if (up) {
    ++quadrant;
    bottom = ~bottom + 1;
    middle = ~middle + (bottom == 0 ? 1 : 0);
    top = ~top + (bottom == 0 && middle == 0 ? 1 : 0);
  }
  int scale = -64;
  if (top == 0) {
    top = middle;
    middle = bottom;
    bottom = 0;
    scale -= 64;
  }
  const int shift = top == 0 ? 0 : __builtin_clzll(top);
  if (shift > 0) {
    top = top << shift | middle >> (64 - shift);
    middle = middle << shift | bottom >> (64 - shift);
  }
  scale -= shift;
  const double unit = power_of_two(scale);
  const double high = static_cast<double>(top >> 11 << 11) * unit;
  const double rest =
      static_cast<double>((top & 0x7ff) << 42 | middle >> 22) * power_of_two(scale - 42);
  const TwoDoubles product = two_prod(high, tables::kHalfPiHigh);
  const double tail = product.error + (high * tables::kHalfPiLow + rest * tables::kHalfPiHigh);
  const TwoDoubles r = fast_two_sum(product.value, tail);
  const bool negative = up != sign_bit(x);
  if (sign_bit(x)) quadrant = -quadrant;
  return {quadrant & 3, negative ? -r.value : r.value, negative ? -r.error : r.error};
}

// atan(x), |x| <= 1: error below 2^-50.4. c = j/32 next to x, t = (x - c)/(1 + x c) with three
// roundings (x - c is exact), |t| <= 1/63; atan(t) to t^9 (rest 2^-63): 4.2 u of t. For c = 0 that
// is the result; otherwise |t| <= 1.02 |result| (j = 1, x = 1/64) and two sums: 6.4 u.
ETALON_HD inline double atan_unit(double x) {
  const double a = abs_of(x);
  const double j = (a * 32 + 0x1.8p52) - 0x1.8p52, c = j * 0x1p-5;
  const double t = (a - c) / (1.0 + a * c), tt = t * t;
  const double p = t + t * tt * (-1.0 / 3 + tt * (1.0 / 5 + tt * (-1.0 / 7 + tt * (1.0 / 9))));
  const double* row = tables::kAtanTable[static_cast<int>(j)];
  return with_sign(row[0] + (p + row[1]), sign_bit(x));
}
// Any x: for |x| > 1, pi/2 - atan(1/x); the result is above 0.78, so the 7.4 u of atan(1/x) <= 0.79
// and the last sum make 8.5 u.
ETALON_HD inline double atan(double x) {
  if (abs_of(x) <= 1) return atan_unit(x);
  const double a = atan_unit(1.0 / abs_of(x));
  return with_sign(tables::kHalfPiHigh - (a - tables::kHalfPiLow), sign_bit(x));
}
inline constexpr double kAtanError = 0x1p-49;

// cbrt(x), x normal: error below 2^-50. A guess from the exponent within 6 %, then Halley's
// iteration y (y^3 + 2x)/(2 y^3 + x), whose relative error d becomes 2/3 d^3: 2^-4, 2^-12.6, 2^-38,
// 2^-114. The last step's roundings: y^3 enters by a third of its 2 u, five operations: 5.7 u.
ETALON_HD inline double cbrt(double x) {
  const double a = abs_of(x);
  double y = double_of(bits_of(a) / 3 + 0x2a9f7893782da1ceU);
  for (int n = 0; n < 3; ++n) {
    const double y3 = y * y * y;
    y = y * ((y3 + 2 * a) / (2 * y3 + a));
  }
  return with_sign(y, sign_bit(x));
}
inline constexpr double kCbrtError = 0x1p-50;

// erf(x), |x| <= 1/2: x P(x^2), P alternating with its first term largest: error below 2^-51.
ETALON_HD inline double erf_small(double x) {
  const double t = x * x;
  double p = tables::kErfTaylor[13];
  for (int n = 12; n >= 0; --n) p = tables::kErfTaylor[n] + t * p;
  return x * p;
}
// erfc(x), 1/2 <= x <= 26: exp(-x^2) erfcx(x): error below 2^-49.6. x^2 is split exactly; its low
// part (at most 2^-44) enters as 1 - e. erfcx is a polynomial around the middle of a
// sixteenth-octave (alternating terms, each a sixteenth or less of the one before): 2 u and 2^-54;
// exp 2.1 u; two products.
ETALON_HD inline double erfc_large(double x) {
  const TwoDoubles square = two_prod(x, x);
  const std::uint64_t b = bits_of(x);
  const int octave = static_cast<int>(b >> 52) - 1022, eighth = static_cast<int>(b >> 49 & 7);
  const double centre = double_of((b >> 49 << 49) + (std::uint64_t{1} << 48));
  const double* c = tables::kErfcxTable[8 * octave + eighth];
  const double t = x - centre;
  double p = c[tables::kErfcxDegree];
  for (int n = tables::kErfcxDegree - 1; n >= 0; --n) p = c[n] + t * p;
  return exp(-square.value) * (p - p * square.error);
}
inline constexpr double kErfcError = 0x1p-49;

}  // namespace f64_core
}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
