// Functions of TensorFlow Lite's fixed-point numbers: 32 bits, of which b before the point, the
// value being raw * 2^(b - 31). A product is the doubled high half (tflite.h) and adds the bits
// before the point; `moved` multiplies by a power of two, held to 32 bits, or divides by one to
// nearest, halves away from zero. Sums wrap. Each function is a fixed number of such steps, so its
// value is defined to the last bit.
//
//   exp_of_negative   e^x of x <= 0 with b bits: the quarter below x by a polynomial of degree 4
//                     about -1/8, times e^-(2^i) for each bit of what remains, i = -2 .. b - 1
//   reciprocal        1 / (1 + x) of 0 <= x < 1, no bits: three steps of Newton's from 48/17 -
//                     32/17 d for d = (1 + x) / 2
//   logarithm         of x with 12 bits, result 5: x is a power of two times r near 2^-1/4, whose
//                     logarithm is a quotient of polynomials
//   inverse_root      1 / sqrt(v) of an integer as multiplier and shift: five steps of Newton's
// Source: gemmlowp fixedpoint.h; tensorflow/lite/kernels/internal/common.h.
#pragma once

#include <algorithm>
#include <bit>

#include "engine/ops/tflite_multiplier.h"

namespace etalon::tflite {

inline std::int32_t wrapped(std::int64_t v) {
  return static_cast<std::int32_t>(static_cast<std::uint64_t>(v));
}

inline std::int32_t product(std::int32_t a, std::int32_t b) {
  return Multiplier::doubled_high(a, b);
}

// By 2^exponent.
inline std::int32_t moved(std::int32_t x, int exponent) {
  if (exponent <= 0) return Multiplier::divided_by_power(x, -exponent);
  const std::int64_t most = (std::int64_t{1} << (31 - exponent)) - 1;
  if (x > most) return std::numeric_limits<std::int32_t>::max();
  if (x < -most) return std::numeric_limits<std::int32_t>::min();
  return wrapped(std::int64_t{x} << exponent);
}

inline std::int32_t half_sum(std::int32_t a, std::int32_t b) {
  const std::int64_t sum = std::int64_t{a} + b;
  return static_cast<std::int32_t>((sum + (sum >= 0 ? 1 : -1)) / 2);
}

inline std::int32_t exp_of_negative(std::int32_t a, int bits) {
  if (a == 0) return std::numeric_limits<std::int32_t>::max();
  const int fraction = 31 - bits;
  const std::int32_t quarter = std::int32_t{1} << (fraction - 2);
  const std::int32_t in_quarter = (a & (quarter - 1)) - quarter;
  const std::int32_t x = moved(in_quarter, bits) + (1 << 28), x2 = product(x, x);
  const std::int32_t x3 = product(x2, x), x4 = product(x2, x2);
  constexpr std::int32_t kThird = 715827883, kExpEighth = 1895147668;
  const std::int32_t higher = moved(product(moved(x4, -2) + x3, kThird) + x2, -1);
  std::int32_t y = kExpEighth + product(kExpEighth, x + higher);
  // e^-(1/4), e^-(1/2) .. e^-16
  constexpr std::int32_t kPowers[] = {1672461947, 1302514674, 790015084, 290630308,
                                      39332535,   720401,     242};
  const std::int32_t rest = in_quarter - a;
  for (int i = 0; i < 7 && i - 2 < bits; ++i)
    if ((rest & (std::int32_t{1} << (fraction + i - 2))) != 0) y = product(y, kPowers[i]);
  return bits > 5 && a < -(std::int32_t{1} << (36 - bits)) ? 0 : y;
}

inline std::int32_t reciprocal(std::int32_t a) {
  const std::int32_t half = half_sum(a, std::numeric_limits<std::int32_t>::max());
  constexpr std::int32_t k48Over17 = 1515870810, kMinus32Over17 = -1010580540;
  std::int32_t x = k48Over17 + product(half, kMinus32Over17);  // two bits before the point
  for (int i = 0; i < 3; ++i)
    x = wrapped(std::int64_t{x} + moved(product(x, (1 << 29) - product(half, x)), 2));
  return moved(x, 1);
}

// What makes a positive v, read as having no bits before the point, at least a half.
inline int headroom(std::int32_t v) { return std::countl_zero(static_cast<std::uint32_t>(v)) - 1; }

inline std::int32_t logarithm(std::int32_t x) {
  constexpr int kBits = 12, kSumBits = 6;
  constexpr std::int32_t kLog2 = 1488522236, kRootRootHalf = 1805811301, kRootHalf = 1518500250,
                         kAlphaN = 117049297, kAlphaD = 127690142, kAlphaI = 1057819769,
                         kAlphaF = 638450708;
  const std::int32_t quarter = moved(1 << 29, -kSumBits);
  const auto held = [](std::int64_t v) {
    return static_cast<std::int32_t>(
        std::clamp<std::int64_t>(v, Multiplier::kMin, Multiplier::kMax));
  };
  const auto whole = [](int n) { return moved(n, 31 - kSumBits); };
  // Twice: of x and of x / sqrt(2), whichever lies nearer to 2^-1/4.
  const int room_a = headroom(x);
  const std::int32_t r_a = moved(product(moved(x, room_a), kRootHalf), 1),
                     power_a = held(std::int64_t{whole(kBits - room_a - 1)} + quarter);
  const int room_b = headroom(product(x, kRootHalf));
  const std::int32_t r_b = moved(x, room_b),
                     power_b = held(std::int64_t{whole(kBits - room_b)} - quarter);
  const std::int32_t r = std::min(r_a, r_b), power = std::max(power_a, power_b);
  const std::int32_t p = half_sum(r, kRootRootHalf),
                     q = wrapped(2 * (std::int64_t{r} - kRootRootHalf)), q2 = product(q, q);
  const std::int32_t above =
      wrapped(std::int64_t{product(q, r)} + product(product(q, q2), kAlphaN));
  const std::int32_t below =
      wrapped(std::int64_t{product(p, wrapped(std::int64_t{kAlphaI} + q + product(kAlphaD, q2)))} +
              product(kAlphaF, q));
  return moved(wrapped(std::int64_t{product(power, kLog2)} +
                       product(moved(above, -kSumBits), reciprocal(below))),
               1);
}

inline Multiplier inverse_root(std::int32_t v) {
  Multiplier out;
  if (v <= 1) {
    out.m = std::numeric_limits<std::int32_t>::max();
    return out;
  }
  int right = 11;
  while (v >= 1 << 29) {
    v /= 4;
    ++right;
  }
  const int pairs = headroom(v) / 2 - 1;
  right -= pairs;
  v <<= 2 * pairs;
  // Three bits before the point.
  const std::int32_t half = moved(v >> 1, -1);
  std::int32_t x = 1 << 28;
  for (int i = 0; i < 5; ++i) {
    const std::int32_t cube = moved(product(product(x, x), x), 6);
    x = moved(product((1 << 28) + (1 << 27), x) - product(half, cube), 3);
  }
  constexpr std::int32_t kHalfRoot2 = 1518500250;
  out.m = product(x, kHalfRoot2);
  if (right < 0) {
    out.m = wrapped(std::int64_t{out.m} << -right);
    right = 0;
  }
  out.shift = -right;
  return out;
}

}  // namespace etalon::tflite
