// The numbers of digit_tile.h one at a time: how an operand is cut into digits, what bounds the sum
// of the digits' products, and when that sum decides the rounding. Host and device: the text of the
// GPU's first pass (cuda_digits.h); the unit is the vector units' too.
#pragma once

#include "engine/numerics/fp.h"
#include "kernels/gemm/digit_tile.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// The unit for a largest magnitude of these bits, finite and not zero. One below 2^e * 1.9688
// becomes less than 0.99 * 2^39; any other is scaled by one power less.
ETALON_HD inline double digit_unit(std::int32_t top) {
  int e = (top >> 23) - 127;
  if (e == -127)
    for (e = -149; top >> (e + 150) != 0;) ++e;
  if (top >> 23 == 0 || (top & 0x7fffff) >= 0x7c0000) ++e;
  return power_of_two(e - 38);
}

// z, |z| < 2^39, to the nearest integer; what is left is z - it.
ETALON_HD inline double digit_integer(double z) { return (z + 0x1.8p52) - 0x1.8p52; }
// The five digits of an integer, as bytes side by side.
ETALON_HD inline std::uint64_t digits_of(double integer) {
  return (static_cast<std::uint64_t>(static_cast<std::int64_t>(integer)) + 0x8080808080U) ^
         0x8080808080U;
}
ETALON_HD inline int digit(std::uint64_t digits, int d) {
  return static_cast<std::int8_t>(static_cast<std::uint8_t>(digits >> (8 * d)));
}

// Sums over a row: squares of the digits of planes 0 to 3, of z and of what rounding left.
// No initialisers: shared memory of a block has none.
struct DigitSquares {
  double digit[4], norm, rest;
  ETALON_HD void add(const DigitSquares& s) {
    for (int d = 0; d < 4; ++d) digit[d] += s.digit[d];
    norm += s.norm;
    rest += s.rest;
  }
};
// What the bound takes of a row, for t = 3: DigitNorms has the same of 16 rows.
struct DigitNorm {
  double unit = 1, norm = 0, rest = 0, rest_join = 0, high = 0, low = 0;
};
ETALON_HD inline DigitNorm digit_norm(const DigitSquares& s, double unit, std::int64_t k) {
  // Room for the roundings of the sums of squares, of roots and of what is made of them here and
  // where bounds are: fewer than k + 100 of 2^-53 each.
  constexpr double kRoom = 1 + 0x1p-10;
  const double rooms = kRoom * unit;
  const std::int64_t blocks = (k + kDigitBlock - 1) / kDigitBlock;
  const double join = (6 + static_cast<double>(blocks)) * 10 * 0x1p-53;
  double low_part[4] = {}, weight = 1;
  for (int d = 0; d < 3; ++d, weight *= 256)
    low_part[d + 1] = fma_f64(weight, sqrt_f64(s.digit[d]), low_part[d]);
  DigitNorm n;
  n.unit = unit;
  n.rest = sqrt_f64(s.rest) * rooms;
  n.norm = fma_f64(sqrt_f64(s.norm), rooms, n.rest);
  n.rest_join = fma_f64(join, n.norm, n.rest) * kRoom;
  double high = 0, low = 0;
  weight = 1;
  for (int i = 0; i < 3; ++i, weight *= 256) {
    high += s.digit[i];
    const double l = weight * low_part[3 - i];
    low = fma_f64(l, l, low);
  }
  n.high = sqrt_f64(high) * rooms;
  n.low = sqrt_f64(low) * rooms;
  return n;
}

// The sum of six levels, t = 3, in units of a.unit * b.unit, and its bound.
template <class Level>
ETALON_HD double digit_join(Level&& level) {
  double s = static_cast<double>(level(0)) * 0x1p24, weight = 0x1p32;
  for (int l = 1; l < kMaxLevels; ++l, weight *= 256)
    s = fma_f64(static_cast<double>(level(l)), weight, s);
  return s;
}
ETALON_HD inline double digit_bound(const DigitNorm& a, const DigitNorm& b) {
  return fma_f64(a.rest, b.norm, fma_f64(a.norm, b.rest_join, a.high * b.low));
}

// y = scale * sum + added, where the sum is off by `bound` at most; added is exact. False: both
// ends of the interval do not round alike.
ETALON_HD inline bool digit_decide(double sum, double bound, double scale, double added, bool adds,
                                   float& y) {
  if (scale != 1) {
    sum = scale * sum;
    bound = fma_f64(0x1p-52, abs_of(sum), abs_of(scale) * bound);
  }
  if (adds) sum = sum + added;
  bound = fma_f64(0x1p-51, abs_of(sum), bound);
  const auto low = static_cast<float>(sum - bound), high = static_cast<float>(sum + bound);
  y = low;
  return low == high && bits_of(low) == bits_of(high);
}

// high + low is off by at most error from a real sum; scale * it + added, rounded once, or false
// where the interval does not round to one f32 (exact_settle.h).
struct WideSum {
  double high = 0, low = 0, error = 0;
};
// The f32 nearest to high + low. Rounding twice, to f64 and then to f32, could go to the wrong side
// of a midpoint; rounding to odd in between does not (Boldo, Melquiond 2008).
ETALON_HD inline float narrow_sum(double high, double low) {
  if (low == 0) return static_cast<float>(high);  // the sign of zero is high's
  const TwoDoubles s = two_sum(high, low);
  return static_cast<float>(round_to_odd(s.value, s.error));
}
ETALON_HD inline bool settle_sum(const WideSum& sum, double scale, double added, bool adds,
                                 float& y, WideSum* settled = nullptr) {
  const TwoDoubles normal = two_sum(sum.high, sum.low);
  double high = normal.value, low = normal.error, error = sum.error;
  if (scale != 1) {
    // scale * high is an exact pair p + q; scale * low rounds unless it is zero.
    const double p = scale * high, q = fma_f64(scale, high, -p), tail = scale * low;
    error = abs_of(scale) * error * (1 + 0x1p-50);
    if (tail != 0) error += 0x1p-52 * (abs_of(q) + abs_of(tail));
    high = p;
    low = q + tail;
  }
  if (adds) {
    const TwoDoubles total = two_sum(high, added);
    if (total.error != 0 && low != 0) error += 0x1p-52 * (abs_of(total.error) + abs_of(low));
    high = total.value;
    low += total.error;
  }
  // The ends of the interval round too.
  if (error != 0) error = (error + abs_of(low) * 0x1p-51) * (1 + 0x1p-50);
  const float below = narrow_sum(high, low - error), above = narrow_sum(high, low + error);
  if (!(below == above) || bits_of(below) != bits_of(above)) return false;
  if (settled != nullptr) *settled = {high, low, error};
  y = below;
  return true;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
